"""What runs leak: a certified lower bound on epsilon beside the total of the ledger, by world, policy and mechanism."""

import itertools
from typing import Any, ClassVar

import numpy as np
from matplotlib.figure import Figure

from taciturn.auditing import parse_mechanism
from taciturn.bench.figures import COLORS
from taciturn.bench.results import Cell, Config, Group, Progress, Result, Results
from taciturn.bench.study import Plot, Score, Study, Table, register
from taciturn.bench.tables import number
from taciturn.envs.core import ChannelConfig
from taciturn.registry import make_policy, make_world
from taciturn.wrappers import Budget, audit
from taciturn.wrappers.channels import on_channel

BITS = "BitwiseRandomizedResponse"
GOSSIP: Config = {"num_agents": 6, "qualities": [0.8, 0.2], "horizon": 5.0}
SOCIAL: Config = {"num_agents": 6, "qualities": [0.8, 0.2], "copies": 8, "dissemination": "stationary", "horizon": 10}
FEDERATED: Config = {"num_agents": 4, "num_arms": 3, "horizon": 300}
SHOP: Config = {"num_agents": 4, "num_items": 40, "repository": 20, "horizon": 20}
MARKET: Config = {"num_individuals": 6, "horizon": 3}
TRAINING: Config = {"num_clients": 5, "clip_norm": 0.1, "horizon": 10.0}
QUICK, FULL = 1_000, 5_000
CONFIDENCE = 0.999
EDGE = 1000.0  # infinite totals are drawn here
DELTA = 1e-5


def row(env: str, policies: Config, mechanism: str | None, params: Config, *change: Any) -> Config:
    """A configuration: `policies` {name: parameters}, and the agent's data in the two worlds (0 and 1 unless given)."""
    return {
        "env": env,
        "env_params": params,
        "policies": policies,
        "privacy": mechanism,
        "change": list(change or (0, 1)),
    }


def budgeted(total: float) -> list[Config]:
    """Agents who would send more, or at higher levels, than this total allows, and whom a budget stops."""
    society = {**SOCIAL, "without_preference": "zeros"}
    pure: Config = {"epsilon": total}
    renyi = pure | {"delta": DELTA, "method": "rdp"}
    return [
        row("gossip_bandit_v0", {"PPCL": {}}, f"{BITS}:0.25", GOSSIP) | {"budget": pure},
        row("social_bandit_v0", {"PrivateSocialLearning": {"beta": 0.95}}, f"{BITS}:0.5", society) | {"budget": pure},
        row("elicitation_v0", {"Wintall": {}, "TargetQuality": {}}, None, MARKET) | {"budget": pure},
        row("federated_training_v0", {"FixedCount": {"k": 5}}, "Gaussian:1,delta=1e-6", TRAINING) | {"budget": renyi},
    ]


def rows(levels: tuple[float, ...]) -> list[Config]:
    """Every world with a channel, with mechanisms of these levels where there is a choice."""
    found = []
    for level in levels:
        found += [row("gossip_bandit_v0", {name: {}}, f"{BITS}:{level}", GOSSIP) for name in ("PPCL", "CopyOnReward")]
        found.append(row("gossip_bandit_v0", {"PPCL": {}}, f"Memoized:{BITS}:{level}", GOSSIP))
        for beta, silence in itertools.product((0.65, 0.95), ("silent", "zeros")):
            params = {**SOCIAL, "without_preference": silence}
            found.append(row("social_bandit_v0", {"PrivateSocialLearning": {"beta": beta}}, f"{BITS}:{level}", params))
        found.append(row("federated_bandit_v0", {"CDPMAB": {}}, f"Laplace:{level}", FEDERATED))
        found.append(row("federated_bandit_v0", {"DDPMAB": {}}, f"Laplace:{level}", {**FEDERATED, "topology": "ring"}))
        found.append(row("arm_elimination_v0", {"EliminationSchedule": {}}, f"Laplace:{level}", FEDERATED))
        found.append(row("recommender_v0", {"TPriDO": {"threshold": 2.0}}, f"TreeAggregation:{level}", SHOP))
    for individual in ("BestResponse", "TargetQuality"):
        found.append(row("elicitation_v0", {"Wintall": {}, individual: {}}, None, MARKET))
    for level in (1, 8):
        found.append(row("federated_training_v0", {"FixedCount": {"k": 5}}, f"Gaussian:{level},delta=1e-6", TRAINING))
    return found


@register
class Leakage(Study):
    name = "leakage"
    title = "What whole runs leak"
    description = (
        "Two worlds that differ in everything that one agent privately observes (its first option and its signals, its rewards, its value, "
        "or the classes of its samples), and an attacker that reads every message, who sent it and when. Half of the runs fit the attack; "
        "on the other half its share of correct guesses certifies a lower bound on epsilon, with confidence 99.9% in each row. The total "
        "is the ledger's for that agent at user level, over all channels, in the run in which it is largest. A bound above the total would "
        "refute it. A bound far below it says only that this attack is weak, or that the composition theorem is. In some rows a budget "
        "silences agents before they would spend more than it, and the attacker sees when."
    )
    score = Score("certified", higher_is_better=False, label="certified epsilon of the whole run")
    facets: ClassVar[tuple[str, ...]] = ("env",)
    color = "privacy"

    def cells(self, quick: bool) -> list[Cell]:
        trials, levels, totals = (QUICK, (0.1,), (1.0,)) if quick else (FULL, (0.01, 0.1, 1.0), (1.0, 3.0))
        found = [*rows(levels), *(one for total in totals for one in budgeted(total))]
        return self.sweep(({**one, "trials": trials} for one in found), [0])

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        setting, trials = cell.config, cell.config["trials"]
        env = make_world(setting["env"]).population(1, **setting["env_params"])
        mechanism = None if setting["privacy"] is None else parse_mechanism(setting["privacy"])
        budget = Budget(**setting["budget"]) if "budget" in setting else None
        env = on_channel(env, next(iter(env.channels)), ChannelConfig(mechanism, budget))
        made = [make_policy(name, **given) for name, given in setting["policies"].items()]
        change = setting["change"]
        if setting["env"] == "federated_training_v0":
            change = [rows_of_class(env, kind) for kind in change]
            trials //= 5  # the agent trains a model in each
        found = audit(
            env,
            policy=dict(zip(env.roles, made, strict=True)),
            change=tuple(change),
            trials=trials,
            confidence=CONFIDENCE,
            seed=cell.seed,
            delta=DELTA,
            progress=None if progress is None else lambda done: progress(done / trials),
        )
        return Result({"certified": found.certified, "total": found.claimed, "cap": found.cap, "trials": float(trials)})

    def tables(self, results: Results) -> list[Table]:
        lines = []
        for group in results:
            certified, total, cap = (float(group.metrics[name][0]) for name in ("certified", "total", "cap"))
            held = "holds" if total < cap else "no power"
            verdict = "no total" if np.isinf(total) else "refuted" if certified > total else held
            lines.append([*described(group), number(certified), number(total), number(cap), verdict])
        columns = ("world", "policy", "mechanism", "certified", "total", "cap", "verdict")
        note = (
            f"Epsilon of the whole run at delta = {DELTA:g}, user level. `cap`: what an attack that is always right would certify from as "
            "many runs; a total that is not below it could not have been refuted (no power). Each row has confidence "
            f"{CONFIDENCE:.1%}; all {len(lines)} hold together with confidence {1 - (1 - CONFIDENCE) * len(lines):.1%}."
        )
        words = frozenset({0, 1, 2, 6})
        return [Table("Certified leakage beside the accounted total", columns, lines, note, words)]

    def plots(self, results: Results) -> list[Plot]:
        groups = list(results)[::-1]
        certified, total = (np.array([group.metrics[name][0] for group in groups]) for name in ("certified", "total"))
        places, bare = np.arange(len(groups)), np.isinf(total)
        figure = Figure(figsize=(8.0, 1.2 + 0.25 * len(groups)), layout="constrained")
        ax = figure.add_subplot()
        ax.hlines(places, certified, np.minimum(total, EDGE), color="0.8", linewidth=1, zorder=1)
        ax.plot(certified, places, "o", color=COLORS[0], label="certified")
        ax.plot(total[~bare], places[~bare], "D", color=COLORS[1], fillstyle="none", label="total")
        if bare.any():
            ax.plot(np.full(bare.sum(), EDGE), places[bare], ">", color=COLORS[1], label="total: infinite")
        ax.set_yticks(places, [", ".join(described(group)) for group in groups], fontsize=7)
        ax.set_xscale("symlog", linthresh=0.01)
        ax.set(xlim=(-0.001, 1.5 * EDGE), xlabel="epsilon of the whole run, user level")
        figure.legend(loc="outside upper center", ncols=3, frameon=False)
        caption = "Certified lower bounds and the ledger's totals. A bound to the right of its total refutes it."
        return [Plot(f"{self.name}_bounds", figure, caption)]


def described(group: Group) -> list[str]:
    """World, policy and mechanism in words."""
    policies = ", ".join(
        name + "".join(f" ({key} = {value})" for key, value in given.items())
        for name, given in group.config["policies"].items()
    )
    mechanism = str(group.config["privacy"] or "chosen by the agent")
    if "budget" in group.config:
        mechanism += f", budget {group.config['budget']['epsilon']:g}"
    world = group.config["env"].removesuffix("_v0").replace("_", " ")
    silence = group.config["env_params"].get("without_preference")
    world += {"silent": " (silent without a preference)", "zeros": " (zeros without a preference)"}.get(silence, "")
    return [world, policies, mechanism.replace("BitwiseRandomizedResponse", "bitwise response")]


def rows_of_class(env: Any, kind: int) -> Any:
    """Samples of one class for a client of federated training, int64[n]."""
    labels = env.data.train_y
    return np.resize(np.flatnonzero(labels == kind), -(-len(labels) // env.params.num_clients))
