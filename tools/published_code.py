"""Compare with published code, each peer in an environment of its own.

`python tools published_code [PEER ...]`

Both sides get the same rewards, the same logged rows or the same counts. A peer that cannot be installed keeps its old
rows. The rows are recorded in `results/published_code.json` and written into `docs/published_code.md`.
"""

import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(1, str(ROOT / "benchmarks"))
RESULTS, PAGE = ROOT / "tools/results/published_code.json", ROOT / "docs/published_code.md"
BEGIN, END = "<!-- table: written by tools/published_code.py -->\n", "<!-- end of table -->\n"
TRACES, ARMS, PULLS = 200, 5, 300

Choose = Callable[[Any, Any], int]  # the arm after these counts and means [K]


@dataclass(frozen=True)
class Row:
    """One comparison: the peer's function, ours, the setting, how many cases agree, and the largest difference."""

    theirs: str
    ours: str
    setting: str
    cases: int
    agree: int
    difference: float = 0.0


def rewards_of(seed: int) -> Any:
    """The reward of each arm's n-th pull, [K, T]: no two are equal, so that no index ties."""
    rng = np.random.default_rng(seed)
    return 0.2 + 0.6 * rng.random((ARMS, 1)) + 0.2 * rng.random((ARMS, PULLS))


def same_arms(theirs: Callable[[], tuple[Callable[[], int], Callable[[int, float], None]]], ours: Choose) -> int:
    """In how many of the traces both pull the same arms; each arm is pulled once first, in order."""
    equal = 0
    for seed in range(TRACES):
        table, counts, sums = rewards_of(seed), np.zeros(ARMS, np.int64), np.zeros(ARMS)
        choose, learn = theirs()
        for t in range(PULLS):
            arm = t if t < ARMS else choose()
            if t >= ARMS and arm != ours(counts, sums / counts):
                break
            learn(arm, table[arm, counts[arm]])
            sums[arm] += table[arm, counts[arm]]
            counts[arm] += 1
        else:
            equal += 1
    return equal


def smpybandits() -> Iterator[Row]:
    """Index policies of SMPyBandits."""
    from SMPyBandits.Policies import MOSSH, UCB, klUCB

    from taciturn.policies.classic.bandits import kl_ucb_choice
    from taciturn.policies.families.bandit_indices import moss_index, ucb1_index

    pairs: list[tuple[str, str, Callable[[], Any], Choose]] = [
        ("UCB", "UCB1", lambda: UCB(ARMS), lambda n, mean: int(ucb1_index(n, mean, n.sum()).argmax())),
        ("klUCB", "KLUCB", lambda: klUCB(ARMS, tolerance=1e-12), lambda n, mean: int(kl_ucb_choice(n, mean))),
        ("MOSSH", "MOSS", lambda: MOSSH(ARMS, PULLS), lambda n, mean: int(moss_index(n, mean, PULLS, ARMS).argmax())),
    ]
    for theirs, ours, make, choose in pairs:

        def begin(make: Callable[[], Any] = make) -> Any:
            policy = make()
            policy.startGame()
            return policy.choice, policy.getReward

        yield Row(theirs, ours, f"{ARMS} arms, {PULLS} pulls", TRACES, same_arms(begin, choose))


def mabwiser() -> Iterator[Row]:
    """UCB1 of MABWiser."""
    from mabwiser.mab import MAB, LearningPolicy

    from taciturn.policies.families.bandit_indices import ucb1_index

    def begin() -> Any:
        bandit = MAB(list(range(ARMS)), LearningPolicy.UCB1(alpha=1.0))
        begun: list[int] = []

        def learn(arm: int, reward: float) -> None:
            (bandit.partial_fit if begun else bandit.fit)([arm], [reward])
            begun.append(arm)

        return bandit.predict, learn

    agree = same_arms(begin, lambda n, mean: int(ucb1_index(n, mean, n.sum()).argmax()))
    yield Row("UCB1(alpha=1)", "UCB1", f"{ARMS} arms, {PULLS} pulls", TRACES, agree)


def pyxab(seeds: int = 20) -> Iterator[Row]:
    """Truncated HOO of PyXAB, in a binary tree over [0, 1]."""
    from PyXAB.algos.HOO import T_HOO

    from taciturn.policies.classic.tree_search import TruncatedTree

    items, rounds, cases, agree = 2**12, 120, 0, 0
    for nu in (0.5, 1.0, 2.0):
        for rho in (0.5, 0.75):
            for seed in range(seeds):
                rng, peak = np.random.default_rng(seed), np.random.default_rng(seed + 1000).random()
                theirs = T_HOO(nu=nu, rho=rho, rounds=rounds, domain=[[0, 1]])
                ours = TruncatedTree(np.arange(items) << 28, nu, rho, rounds)
                cases += 1
                for t in range(rounds):
                    (point,), path = theirs.pull(t), ours.path()
                    if point != (ours.first[path[-1]] + ours.last[path[-1]]) / 2 / items:
                        break
                    reward = (1 - abs(point - peak) + rng.random()) / 2  # so that no two clusters tie
                    theirs.receive_reward(t, reward)
                    ours.learn(path, reward)
                else:
                    agree += 1
    yield Row("T_HOO", "HOO", f"nu 0.5, 1, 2; rho 0.5, 0.75; {rounds} rounds", cases, agree)


def obp() -> Iterator[Row]:
    """Off-policy estimators of Open Bandit Pipeline."""
    from obp.ope import (
        DoublyRobust,
        InverseProbabilityWeighting,
        ReplayMethod,
        SelfNormalizedInverseProbabilityWeighting,
    )

    from taciturn.logged.estimators import dr, ips, replay, snips

    logs, rows, actions = 100, 2000, 5
    differences: dict[str, list[float]] = {"ips": [], "snips": [], "dr": [], "replay": []}
    for seed in range(logs):
        rng = np.random.default_rng(seed)
        logging, policy, model = rng.dirichlet(np.ones(actions), (3, rows))
        action = (logging.cumsum(1) < rng.random((rows, 1))).sum(1).clip(max=actions - 1)
        each, reward = np.arange(rows), rng.integers(0, 2, rows).astype(np.float64)
        chosen = rng.integers(0, actions, rows)
        p, w = logging[each, action], policy[each, action] / logging[each, action]
        given = {"reward": reward, "action": action, "action_dist": policy[:, :, None]}
        point = np.zeros((rows, actions, 1))
        point[each, chosen] = 1
        largest = float(w.max())
        pairs = {
            "ips": (
                InverseProbabilityWeighting().estimate_policy_value(**given, pscore=p),
                ips(w, reward, largest),
            ),
            "snips": (
                SelfNormalizedInverseProbabilityWeighting().estimate_policy_value(**given, pscore=p),
                snips(w, reward, largest),
            ),
            "dr": (
                DoublyRobust().estimate_policy_value(
                    **given, pscore=p, estimated_rewards_by_reg_model=model[:, :, None]
                ),
                dr(w, reward, largest, model[each, action], (policy * model).sum(1), 1.0),
            ),
            "replay": (
                ReplayMethod().estimate_policy_value(reward=reward, action=action, action_dist=point),
                replay(reward[action == chosen]),
            ),
        }
        for name, (theirs, ours) in pairs.items():
            differences[name].append(abs(theirs - ours.value))
    names = {
        "ips": "InverseProbabilityWeighting",
        "snips": "SelfNormalizedInverseProbabilityWeighting",
        "dr": "DoublyRobust",
        "replay": "ReplayMethod",
    }
    for name, values in differences.items():
        setting = f"logs of {rows:,} rows, {actions} actions; equal to 1e-12"
        yield Row(names[name], name, setting, logs, int(sum(value < 1e-12 for value in values)), float(max(values)))


def dp_accounting() -> Iterator[Row]:
    """The analytic Gaussian mechanism of dp-accounting."""
    import dp_accounting as peer  # type: ignore[import-untyped]

    from taciturn.privacy.composition import gaussian_epsilon

    grid = [(sigma, delta) for sigma in np.geomspace(0.3, 30, 20) for delta in (1e-9, 1e-6, 1e-5, 1e-3, 1e-2)]
    differences = []
    for sigma, delta in grid:
        theirs, ours = peer.get_epsilon_gaussian(sigma, delta), float(gaussian_epsilon(1 / sigma, delta))
        differences.append(abs(theirs - ours) / max(theirs, 1e-300) if theirs or ours else 0.0)
    agree = int(sum(value < 1e-6 for value in differences))
    setting = "noise 0.3 to 30, delta 1e-9 to 1e-2; relative, equal to 1e-6"
    yield Row("get_epsilon_gaussian", "gaussian_epsilon", setting, len(grid), agree, float(max(differences)))


def jax_privacy() -> Iterator[Row]:
    """Audits in one run of jax-privacy, at a fixed number of guesses."""
    from jax_privacy.auditing import _epsilon_one_run_fdp

    from taciturn.privacy.one_run import certify_gaussian_run, epsilon_of

    differences = []
    for canaries, guesses in ((1000, 250), (5000, 500), (20_000, 2000)):
        for share in (0.55, 0.65, 0.75, 0.85, 0.95, 1.0):
            correct = round(share * guesses)
            theirs = _epsilon_one_run_fdp(0.0, canaries, guesses, correct, 0.05, 1e-5)
            ours = epsilon_of(certify_gaussian_run(correct, guesses, canaries, 0.05), 1e-5)
            differences.append(abs(theirs - ours))
    agree = int(sum(value < 1e-3 for value in differences))
    setting = "250 to 2,000 guesses, 55% to 100% right, delta 1e-5; epsilon equal to 1e-3"
    yield Row("one-run f-DP audit", "certify_gaussian_run", setting, len(differences), agree, float(max(differences)))


PEERS: dict[str, tuple[Callable[[], Iterator[Row]], str, tuple[str, ...]]] = {
    "SMPyBandits": (smpybandits, "SMPyBandits", ("SMPyBandits==0.9.7", "scipy<1.14", "numpy<2.3")),
    "MABWiser": (mabwiser, "mabwiser", ("mabwiser==2.7.4",)),
    "PyXAB": (pyxab, "PyXAB", ("PyXAB==0.3.0",)),
    "Open Bandit Pipeline": (obp, "obp", ("torch==2.13.0", "pandas", "seaborn", "tqdm", "pyyaml")),
    "dp-accounting": (dp_accounting, "dp-accounting", ("dp-accounting==0.6.0",)),
    "jax-privacy": (jax_privacy, "jax-privacy", ("jax-privacy==2.0.0",)),
}
"""The comparisons with each peer, its distribution, and what is installed beside this package."""
PINNED = {"obp": "obp==0.5.7"}
"""Distributions that ask for versions of long ago, and are installed without what they ask for."""


def inside(peer: str) -> None:
    """Print the rows of a peer, in its environment, as JSON in the last line."""
    compare, distribution, _ = PEERS[peer]
    with warnings.catch_warnings(), patch("numpy.random.choice", lambda best: best[0]):  # ties go to the first arm
        warnings.simplefilter("ignore")
        rows = [asdict(row) for row in compare()]
    print(json.dumps({"version": version(distribution), "rows": rows}))


def table(results: dict[str, Any]) -> str:
    """The Markdown table of all rows."""
    lines = [
        "| published code | its function | our function | inputs | cases that agree | largest difference |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for peer, found in results.items():
        for row in (Row(**values) for values in found["rows"]):
            difference = f"{row.difference:.1e}" if row.difference else "0"
            cells = f"{peer} {found['version']}", f"`{row.theirs}`", f"`{row.ours}`", row.setting
            lines.append(f"| {' | '.join(cells)} | {row.agree} of {row.cases} | {difference} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> None:
    if arguments[:1] == ["--inside"]:
        inside(arguments[1])
        return
    from environments import called, environment

    for peer in arguments or PEERS:
        _, distribution, packages = PEERS[peer]
        python, error = environment(f"published-{distribution}", packages)
        if distribution in PINNED and not error:
            options = "--quiet", "--no-deps", "--ignore-requires-python"
            called(python, "-m", "pip", "install", *options, PINNED[distribution])
        status, printed = (1, error) if error else called(python, ROOT / "tools/published_code.py", "--inside", peer)
        if status:
            print(f"{peer}: {printed}", file=sys.stderr)
            continue
        found = json.loads(printed.splitlines()[-1])
        print("\n".join(f"{peer} {found['version']}: {row}" for row in found["rows"]))
        store(peer, found)


def store(peer: str, found: Any) -> None:
    """Record the rows of a peer, and write the page's table anew."""
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    results = {name: found if name == peer else results[name] for name in PEERS if name in results or name == peer}
    RESULTS.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + table(results) + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
