"""Leakage of runs: a certified lower bound on epsilon, and the accountant's epsilon, by environment, policy and
mechanism."""

import math
from typing import Any, ClassVar

import numpy as np

from taciturn.adjacent import Site, adjacent_messages
from taciturn.bench.figures import COLORS
from taciturn.bench.results import Cell, Config, Group, Progress, Result, Results
from taciturn.bench.study import Plot, Score, Study, Table, register
from taciturn.bench.tables import number
from taciturn.bench.tasks import BENCHMARKS, world_title
from taciturn.envs.core import ChannelConfig
from taciturn.envs.core.descriptor import imported
from taciturn.mechanism_names import parse_mechanism
from taciturn.registry import make_policy, make_world
from taciturn.wrappers import Budget, MessageLimit, audit
from taciturn.wrappers.channels import on_channel

QUICK, FULL = 1_000, 5_000
MESSAGES = 16  # factor on the number of runs with given messages, which are quick
CONFIDENCE = 0.999
ENOUGH = 0.8  # share of epsilon that a bound should certify
EDGE = 1000.0  # where infinite epsilons are drawn
DELTA = 1e-5
CANARIES = 20_000
"""Number of agents in the attack on one run."""
LARGE_DELTA = (
    0.03  # some thousand runs can show the best test's epsilon here; the accountant's bound holds at every delta
)
LEVELS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "data": ((0.1,), (0.01, 0.1, 1.0)),
    "messages": ((0.25,), (0.25, 0.5)),
    "one run": ((), ()),
}
"""Epsilons of a message by attack, in quick and in full runs."""
BUDGETS = ((1.0,), (1.0, 3.0))


def rows(attack: str, quick: bool, *, budgeted: bool = False) -> list[Config]:
    """Every environment with a channel, with mechanisms at several levels where there is a choice."""
    levels, totals = LEVELS[attack][not quick], BUDGETS[not quick] if budgeted else (math.nan,)
    results = []
    for env, benchmark in BENCHMARKS.items():
        attacks = benchmark.attacks
        for leak in attacks.runs:
            if leak.attack != attack or (leak.budget is not None) != budgeted:
                continue
            row: Config = {"env": env, "env_params": {**attacks.params, **leak.params}, "policies": dict(leak.policies)}
            row |= {"change": [0, 1], "attack": attack} | ({} if leak.limit is None else {"limit": leak.limit})
            for epsilon_budget in totals:
                budget = {} if leak.budget is None else {"budget": {"epsilon": epsilon_budget, **leak.budget}}
                mechanism = leak.around + attacks.mechanism
                privacy = [mechanism.format(level) for level in leak.levels or levels] if mechanism else [None]
                results += [row | budget | {"privacy": one} for one in privacy]
    return results


@register
class Leakage(Study):
    name = "leakage"
    title = "Leakage of whole runs"
    description = (
        "The study plays two environments that differ in all private observations of one agent (its first option and "
        "its signals, its rewards, its value, or the classes of its samples). An attacker reads every message, its "
        "sender and its time. Half of the runs fit the attack; on the other half its share of correct guesses "
        "certifies "
        "a lower bound on epsilon, with confidence 99.9% in each row. The comparison is the accountant's epsilon of "
        "that agent at user level, over all channels, in the run with the largest one. A certified bound above "
        "it would "
        "refute the accountant. A bound far below it means only that this attack or the composition theorem is "
        "weak. In "
        "some rows a budget stops agents before they overspend, and the attacker sees the time. A second table has "
        "attacks with the best possible test: the messages of one agent are given, and the attacker scores the whole "
        "transcript by the likelihood ratio of the mechanisms' distributions. They use a delta that allows a decision "
        "by this number of runs, and the exact epsilon at that delta (privacy loss distributions). A third table "
        "attacks one run of federated training. Every client is a canary with an update that points one way or the "
        "other, and the bound is by Mahloujifar, Melis & Chaudhuri (2025) for Gaussian noise."
    )
    score = Score("certified", higher_is_better=False, label="certified epsilon of the whole run")
    facets: ClassVar[tuple[str, ...]] = ("env",)
    color = "privacy"

    def cells(self, quick: bool) -> list[Cell]:
        trials = QUICK if quick else FULL
        made = [row | {"trials": trials} for some in (False, True) for row in rows("data", quick, budgeted=some)]
        made += [row | {"trials": MESSAGES * trials} for row in rows("messages", quick)]
        made += [row | {"trials": CANARIES} for row in rows("one run", quick)]
        return self.sweep(made, [0])

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        setting, trials, attack = cell.config, cell.config["trials"], cell.config["attack"]
        attacks, params = BENCHMARKS[setting["env"]].attacks, setting["env_params"]
        if attack != "data" and attacks.blank:
            params = imported(attacks.blank)(params)  # canaries replace trained updates
        bare = make_world(setting["env"]).population(1, **params)
        mechanism = None if setting["privacy"] is None else parse_mechanism(setting["privacy"])
        budget = Budget(**setting["budget"]) if "budget" in setting else None
        faults = (MessageLimit(setting["limit"]),) if "limit" in setting else ()
        channel = next(iter(bare.channels))
        env = on_channel(bare, channel, ChannelConfig(mechanism, budget, faults))
        made = [make_policy(name, **given) for name, given in setting["policies"].items()]
        given: dict[str, Any] = {"policy": dict(zip(env.roles, made, strict=True)), "confidence": CONFIDENCE}
        given |= {"seed": cell.seed, "delta": LARGE_DELTA if attack == "messages" else DELTA}
        if attack == "data":
            change = setting["change"]
            if attacks.private_data:
                change = [imported(attacks.private_data)(env, kind) for kind in change]
            trials //= attacks.fewer
            given["change"] = tuple(change)
        else:
            site = Site(bare, given["policy"], channel)
            given |= {"pair": {channel: adjacent_messages(site, mechanism)}, "composition": "pld"}
            given |= {"method": "one-run"} if attack == "one run" else {"method": "white", "held_out": 0.2}
            given |= {"batch": min(trials, 20_000)}  # a batch of many runs takes hardly longer than one of few
        result = audit(
            env, trials=trials, progress=None if progress is None else lambda done: progress(done / trials), **given
        )
        stored = {
            "certified": result.certified,
            "claimed": result.claimed,
            "cap": result.cap,
            "trials": float(trials),
        }
        # An unknown value limits nothing.
        known = {
            "expected": (result.expected, np.inf),
            "spent": (result.spent, result.claimed),
            "moved": (result.moved, 1.0),
        }
        return Result(stored | {name: other if np.isnan(value) else value for name, (value, other) in known.items()})

    def tables(self, results: Results) -> list[Table]:
        found = []
        for attack, (title, note) in ATTACKS.items():
            groups = [group for group in results if group.config.get("attack", "data") == attack]
            lines = []
            for group in groups:
                certified, claimed, cap = (float(group.metrics[name][0]) for name in ("certified", "claimed", "cap"))
                held = "holds" if claimed < cap else "no power"
                verdict = "no finite claim" if np.isinf(claimed) else "refuted" if certified > claimed else held
                share = "" if np.isinf(claimed) else f"{certified / claimed:.0%}" if claimed else "-"
                known = (number(certified), number(claimed), share, number(cap), verdict, limit(group))
                lines.append([*described(group), *known])
            if lines:
                heads = (
                    "environment",
                    "policy",
                    "mechanism",
                    "certified",
                    "claimed",
                    "certified / claimed",
                    "cap",
                    "verdict",
                    "reason for a low bound",
                )
                words = frozenset({0, 1, 2, 7, 8})
                found.append(Table(title, heads, lines, f"{note} {self.confidence(len(lines))}", words))
        return found

    def confidence(self, lines: int) -> str:
        """A summary of all bounds of a table."""
        return (
            f"Each bound holds with confidence {CONFIDENCE:.1%}, and all {lines} bounds together with confidence "
            f"{1 - (1 - CONFIDENCE) * lines:.1%}."
        )

    def plots(self, results: Results) -> list[Plot]:
        from matplotlib.figure import Figure

        groups = list(results)[::-1]
        certified, claimed = (
            np.array([group.metrics[name][0] for group in groups]) for name in ("certified", "claimed")
        )
        places, bare = np.arange(len(groups)), np.isinf(claimed)
        figure = Figure(figsize=(8.0, 1.2 + 0.25 * len(groups)), layout="constrained")
        ax = figure.add_subplot()
        ax.hlines(places, certified, np.minimum(claimed, EDGE), color="0.8", linewidth=1, zorder=1)
        ax.plot(certified, places, "o", color=COLORS[0], label="certified")
        ax.plot(claimed[~bare], places[~bare], "D", color=COLORS[1], fillstyle="none", label="claimed")
        if bare.any():
            ax.plot(np.full(bare.sum(), EDGE), places[bare], ">", color=COLORS[1], label="claim: infinite")
        ax.set_yticks(places, [", ".join(described(group)) for group in groups], fontsize=7)
        ax.set_xscale("symlog", linthresh=0.01)
        ax.set(xlim=(-0.001, 1.5 * EDGE), xlabel="epsilon of the whole run, user level")
        figure.legend(loc="outside upper center", ncols=3, frameon=False)
        caption = "Certified lower bounds and the accountant's epsilons. A bound right of its epsilon refutes it."
        return [Plot(f"{self.name}_bounds", figure, caption)]


ATTACKS = {
    "data": (
        "Certified leakage and the accountant's epsilon",
        f"All epsilons are for the whole run, at delta = {DELTA:g} and user level. The attack gives `certified`; "
        f"`claimed` is the accountant's epsilon in the costliest run. A trial is a run, and `cap` is the bound that an "
        "attack without errors would certify from the same number of trials. The verdict is `no power` if the claimed "
        "epsilon is not below `cap`, because no attack on that many trials could refute it. The last column explains "
        f"bounds below {ENOUGH:.0%} of the claim.",
    ),
    "messages": (
        "The best possible test of a transcript",
        f"Epsilons are for the whole run, at delta = {LARGE_DELTA:g} and user level. The accountant computes "
        "`claimed` by privacy loss distributions. The attacked agent sends one of the two most distant messages "
        "throughout. The attacker knows both messages and guesses by the likelihood ratio of the whole transcript. A "
        "smaller delta would need more runs.",
    ),
    "one run": (
        "One run with every client as a canary",
        f"Epsilons are at delta = {DELTA:g} and user level. The attacker reads a single run with {CANARIES:,} clients. "
        "Every client is a canary: its updates point in one of two opposite directions. The attacker guesses only the "
        "directions of the 10% of clients with the clearest messages. A trial is a client, and `cap` is the bound "
        "that an attack without errors would certify.",
    ),
}


def limit(group: Group) -> str:
    """The reason why a certificate is below 80% of epsilon, from the audit's own measurements."""
    certified, claimed, cap, expected, spent, moved = (
        float(group.metrics[name][0]) for name in ("certified", "claimed", "cap", "expected", "spent", "moved")
    )
    if np.isinf(claimed):
        return "epsilon is infinite"
    if certified >= ENOUGH * claimed:
        return ""
    reasons = []
    if claimed >= cap:
        reasons.append(f"this number of trials certifies at most {number(cap)}")
    if group.config.get("attack") == "one run":
        reasons.append("the bound is lower to allow for a rare event that reveals all canaries at once")
    if expected < ENOUGH * claimed:
        reasons.append(f"the best test shows {number(expected)}: composition is loose")
    if spent < ENOUGH * claimed:
        reasons.append(f"the mean run spends {number(spent)}, the costliest {number(claimed)}")
    if moved < ENOUGH:
        reasons.append(f"private data change messages by only {moved:.0%} of the sensitivity")
    if not reasons:
        weak = "the attack is weaker than the best possible test"
        reasons.append(weak if np.isinf(expected) else "too few trials")
    return "; ".join(reasons)


def described(group: Group) -> list[str]:
    """Environment, policy and mechanism in words."""
    policies = ", ".join(
        name + "".join(f" ({key} = {value})" for key, value in given.items())
        for name, given in group.config["policies"].items()
    )
    mechanism = str(group.config["privacy"] or "chosen by the agent")
    if "budget" in group.config:
        mechanism += f", budget {group.config['budget']['epsilon']:g}"
    if "limit" in group.config:
        mechanism += f", {group.config['limit']} messages"
    world = world_title(group.config["env"])
    silence = group.config["env_params"].get("without_preference")
    world += {"silent": " (silent without a preference)", "zeros": " (zeros without a preference)"}.get(silence, "")
    return [world, policies, mechanism.replace("BitwiseRandomizedResponse", "bitwise response")]
