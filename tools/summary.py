"""Write what README, `docs/findings.md` and `docs/speed.md` say of the papers, the agents and speed.

It comes from what benchmarks, tools and full runs have left in `benchmarks/results` and `tools/results`.
"""

import json
import textwrap
from pathlib import Path
from typing import Any

from findings import findings, number
from store_results import load as stored

from taciturn.bench import stored_verdicts
from taciturn.bench.questions import compared
from taciturn.bench.scores import NO, OPEN, YES, boards, standing
from taciturn.bench.study import AGREES, DIFFERS, IN_KIND, VERDICTS
from taciturn.bench.tables import listed
from taciturn.bench.tasks import (
    BUDGETS,
    shares,
    size_of,
    world_title,
)

ROOT = Path(__file__).parents[1]
END = "<!-- end -->"


def load(name: str) -> dict[str, Any]:
    """What a benchmark of speed has recorded."""
    result: dict[str, Any] = json.loads((ROOT / f"benchmarks/results/{name}.json").read_text(encoding="utf-8"))
    return result


def table() -> str:
    """Markdown."""
    gossip, social, elicitation, ucb = (load(name) for name in ("gossip", "social", "elicitation", "ucb_peer"))
    bandit, stopping, view = (load(name) for name in ("federated_bandit", "array_step", "parallel_view"))
    social_round = social["round_10000_agents_20_options_ms"]["median"]
    lean = stopping["10000 lean environments"]["array_is_times_faster"]
    shop, start = load("recommender"), load("import_time")
    campaign = 1000 * elicitation["campaign_of_100000_individuals_4_values"]["seconds"]
    crowd = view["worlds"]["social_bandit_v0"]["times_faster"]
    cdpmab = bandit["run_ms_per_replica"]["CDPMAB"]
    rows = [
        (
            f"gossip, 400 agents, 3,000 runs: {gossip['ticks'] / 1e6:.0f} million ticks",
            f"{gossip['compiled_seconds']:.1f} s",
            f"{gossip['compiled_times_faster_than_by_hand']:,} times that of a loop over agents and messages",
        ),
        (
            "social learning, 10,000 agents, 20 options: a round",
            f"{social_round:.1f} ms",
            f"{crowd:.1f} times that of a loop over dicts, as PettingZoo steps of 1,000 agents",
        ),
        ("federated bandit, CDP-MAB: a run of 100,000 slots", f"{cdpmab:.1f} ms", ""),
        (
            f"UCB1, {ucb['agents']} agents, {ucb['arms']} arms, {ucb['slots']:,} slots",
            f"{ucb['seconds']['taciturn simulate']:.2f} s",
            f"{ucb['ratio_to_simulate']['SMPyBandits loop']:.0f} times that of SMPyBandits "
            f"{ucb['versions']['SMPyBandits']}",
        ),
        ("elicitation: a campaign of 100,000 individuals", f"{campaign:.0f} ms", ""),
        (
            f"round stopping: a step of {stopping['replicas']:,} replicas, each",
            f"{stopping['array_ns']:.0f} ns",
            f"{lean:.0f} times that of `SyncVectorEnv` over as many lean scalar environments",
        ),
        (
            f"a PettingZoo step of {view['agents']:,} agents who vote",
            f"{view['parallel_view_ms_per_step']:.1f} ms",
            f"{view['times_faster']:.1f} times that of a loop over dicts",
        ),
        (
            f"recommender, T-PriDO, {shop['agents']} agents, {shop['rounds']:,} rounds: a round of an agent",
            f"{shop['compiled_us']:.0f} µs (compiled), {shop['uncompiled_us']:.0f} µs (uncompiled, 200 items)",
            f"{shop['compiled_times_faster_than_recounting']:,} times that of recounting the history, in "
            f"{shop['few_rounds']} rounds",
        ),
        (
            "`import taciturn`",
            f"{start['import_taciturn_s']:.1f} s",
            f"{1 / start['ratio']:.2f} times that of what it imports",
        ),
    ]
    lines = ["| what | time | speed |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |".replace("|  |", "| |") for row in rows)])


def quiet_noise() -> float:
    """The variance of the published code's noise, as a share of that of the theorem."""
    return number("chowdhury2023-1", "The published code draws the noise of theorem 1", "epsilon = 0.1")


def found() -> str:
    """Five findings for README, each with a link."""
    papers = stored_verdicts.stored()
    counts = {word: sum(paper["claims"][word] for paper in papers.values()) for word in VERDICTS}
    rule = ", ".join(f"{number('jiang2020-3-3', 'Section 3.4.1: thresholds', label):.0f}" for label in ("k*", "k0*"))
    told = [
        f"Of {sum(counts.values())} claims of {len(papers)} papers, {counts[AGREES]} reproduce "
        f"quantitatively, {counts[IN_KIND]} qualitatively, and {counts[DIFFERS]} do not; the others are open "
        "([verdicts](papers/docs/verdicts.md)).",
        "Scores (0: no communication, 1: full information without privacy) of the best agents at an event-level "
        f"epsilon of 1 for a whole run, by number of agents: {survives()} ([leaderboard](docs/leaderboard.md)).",
        f"{short_of_learning()} ([leaderboard](docs/leaderboard.md)).",
        f"The optimal rule for round stopping has thresholds ({rule}); the paper states (10, 8) "
        "([findings](docs/findings.md)).",
        "In published code for private arm elimination (Dist-DP-SE) the noise has "
        f"{1 / quiet_noise():.0f} times too little variance ([findings](docs/findings.md)).",
    ]
    return "\n".join(textwrap.fill(f"- {one}", 140, subsequent_indent="  ", break_on_hyphens=False) for one in told)


def survives() -> str:
    """The scores of the best agents at the strictest budget, by environment and number of agents, and where no gain is
    shown."""
    _, results, _ = stored("agents")
    gains: dict[str, dict[int, str]] = {}
    others: dict[str, dict[int, str]] = {}
    for board in standing(boards(results), BUDGETS[-1]):
        best = board.best()
        score = None if best is None else board.evaluated(best)
        if score is not None and shares(board.task.env) and not board.task.control:
            agents, world = size_of(board.task)[0], world_title(board.task.env)
            if score.low > 0:
                gains.setdefault(world, {}).setdefault(agents, f"{score.value:.2f} ({agents})")
            else:
                others.setdefault(world, {}).setdefault(agents, str(agents))
    some = listed([f"{' and '.join(one[n] for n in sorted(one))} in {world}" for world, one in gains.items()])
    none = listed([f"{world} ({' and '.join(one[n] for n in sorted(one))})" for world, one in others.items()])
    return f"{some}; no gain is shown in {none}" if others else some


def short_of_learning() -> str:
    """Where learning beats the paper's best algorithm, and where it does not, in a sentence."""
    _, results, _ = stored("agents")
    parts, trainings, scores = dict[str, list[str]](), set[int](), list[float]()
    for board, one, word in compared(results).values():
        parts.setdefault(word, []).append(f"{world_title(board.task.env)} ({one.lead.value:+.2f})")
        trainings.add(one.leads.size)
        scores += [score.value] if (score := board.score(one.rival)) is not None else []
    counts = " or ".join(map(str, sorted(trainings)))
    begin = f"Without privacy, trained agents ({counts} trainings each) score "
    words = {
        YES: "significantly higher than the best algorithm of the environment's paper in",
        NO: "significantly lower than it in",
        OPEN: "neither significantly higher nor lower in",
    }
    told = "; ".join(f"{word} {listed(parts[key])}" for key, word in words.items() if key in parts)
    return f"{begin}{told}; these algorithms score {min(scores):.2f} to {max(scores):.2f}"


def fast() -> str:
    """What was reached and what was missed, in a few lines, from the table of docs/speed.md."""
    page = (ROOT / "docs/speed.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ") and " | " in line]
    measured = {(row[0], row[1]): row for row in rows if len(row) == 5}
    reached, missed = ([row for row in measured.values() if row[4] == word] for word in ("yes", "no"))

    def of(work: str, peer: str) -> str:
        told = next(row[2] for (what, whom), row in measured.items() if what.startswith(work) and peer in whom)
        return told.replace("times its time", "times as long as")

    forms = [row for row in missed if row[0].startswith(("Parallel step", "AEC step"))]
    text = (
        f"A step of round stopping takes {of('single step, RoundStopping', 'CartPole')} a step of CartPole. Stepping "
        f"10,000 parallel environments takes {of('array step, 10,000 replicas: round', 'gymnax')} in gymnax's bandit, "
        f"and a federated round of 100 clients is {of('a federated round, 100 clients, digits, softmax', 'pfl')} as in "
        f"pfl. We meet {len(reached)} of {len(reached) + len(missed)} speed targets; {len(forms)} of the {len(missed)} "
        "missed ones are steps in PettingZoo's interfaces ([speed](docs/speed.md))."
    )
    return textwrap.fill(text, 140, break_on_hyphens=False)


def parts() -> list[tuple[Path, str, str]]:
    """Files, the names of parts of them between comments, and what must stand there."""
    readme = ROOT / "README.md"
    return [
        (ROOT / "docs/findings.md", "findings", findings().rstrip()),
        (ROOT / "docs/speed.md", "summary", table()),
        (readme, "found", found()),
        (readme, "fast", fast()),
    ]


def with_part(text: str, name: str, part: str) -> str:
    """A page with what must stand between the comments of this name."""
    before, begin, rest = text.partition(f"<!-- {name}: written by tools/summary.py -->\n")
    assert begin, name
    return f"{before}{begin}{part}\n{END}{rest.partition(END)[2]}"


def main(arguments: list[str]) -> None:
    for file, name, part in parts():
        file.write_text(with_part(file.read_text(encoding="utf-8"), name, part), encoding="utf-8")
