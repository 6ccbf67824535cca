"""The tasks of the standing benchmark: each world as agents train for it, and held-out variants of it in which none has
trained."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from taciturn.bench.results import Config
from taciturn.envs.core.channel import Fault
from taciturn.registry import entry
from taciturn.wrappers import Byzantine, LossyChannel, MessageLimit, Stragglers

Entry = tuple[str, Config]
HIGHER = ("rate", "return")  # of the measures, those of which more is better
BOUNDS = {
    "rate": (0.0, 0.04 / 3),  # a round is worth at most 0.04 and takes at least 3 s
    "test_loss": (0.0, math.inf), "regret_per_agent": (0.0, math.inf), "loss": (0.0, math.inf),
    "popularity_regret": (0.0, 1.0), "pseudo_regret": (0.0, 1.0), "regret": (0.0, 1.0),
}  # fmt: skip
"""Between what numbers each measure must lie."""

WIDER: dict[str, Config] = {name: {"max_scale": 1e4} for name in ("OutputAgreement", "PeerTruthSerum")}
"""What differs for policies whose prizes are larger than a world allows by default."""


class Variant(NamedTuple):
    """What differs from the world that was trained in: parameters, what goes wrong on a channel, or who plays the other
    side."""

    what: str
    params: Mapping[str, Any] = {}
    faults: Mapping[str, Fault] = {}
    individuals: Mapping[str, float] = {"BestResponse": 1.0}


class Field(NamedTuple):
    """Who competes in a world, in which measure, and how plain PPO trains: replicas, and steps over all rows (below
    five minutes)."""

    world: Config
    measure: str
    replicas: int
    steps: int
    classic: tuple[Entry, ...]
    paper: tuple[Entry, ...]
    tuned: tuple[Entry, ...]
    for_learners: Config | None = None  # what differs in their form of the same world
    as_designed: tuple[str, ...] = ()  # learners that act in the form of those that were designed
    quick: Config | None = None  # what differs in quick runs

    def params(self, policy: str, *, learns: bool) -> Config:
        """Parameters of the world in the form in which a policy plays it."""
        form = (self.for_learners or {}) if learns and policy not in self.as_designed else {}
        return self.world | form | WIDER.get(policy, {})


STOPPING: dict[str, Any] = {
    "classic": (
        ("OneStepLookAhead", {}), ("FixedCount", {"k": 5}), ("Fraction", {"fraction": 0.1}), ("Deadline",
        {"slots": 30}), ("WaitForAll", {}),
    ),
    "paper": (("OptimalStopping", {}),),
    "tuned": (("LearnedStopping", {}),),
}  # fmt: skip
ISOLATED: tuple[Entry, ...] = (("IsolatedUCB", {}), ("IsolatedThompson", {}))
COPYING: tuple[Entry, ...] = (("Voter", {}), ("FollowMajority", {}), ("CopyOnReward", {}), ("WinStay", {}))
FIELDS: dict[str, Field] = {
    "round_stopping_v0": Field({}, "rate", 1, 50_000, **STOPPING),
    "federated_training_v0": Field({}, "test_loss", 1, 30_000, **STOPPING),
    "federated_bandit_v0": Field(
        {"num_agents": 5, "num_arms": 5, "horizon": 1000},
        "regret_per_agent",
        2,
        60_000,
        tuple((name, {}) for name in ("UCB1", "KLUCB", "ThompsonSampling", "MOSS", "Fed2UCB")),
        (("CDPMAB", {}), ("SingleAgent", {})),
        (("LearnedPulls", {}),),
    ),
    "arm_elimination_v0": Field(
        {}, "regret_per_agent", 1, 20_000, (), (("EliminationSchedule", {}),), (("LearnedElimination", {}),)
    ),
    "gossip_bandit_v0": Field(
        {"num_agents": 20, "horizon": 20.0},
        "popularity_regret",
        2,
        40_000,
        COPYING + ISOLATED,
        (("PPCL", {}),),
        (("SharedPPO", {}),),
    ),
    "social_bandit_v0": Field(
        {"num_agents": 20, "horizon": 50},
        "pseudo_regret",
        1,
        60_000,
        COPYING + ISOLATED,
        (("PrivateSocialLearning", {}), ("Replicator", {})),
        (("SharedPPO", {}),),
    ),
    "recommender_v0": Field(
        {"num_agents": 4, "num_items": 400, "repository": 200, "horizon": 500},
        "regret",
        1,
        30_000,
        (("ItemUCB1", {}), ("LinUCB", {}), ("HOO", {})),
        (("TPriDO", {}), ("DTPriDO", {}), ("TPriDO", {"threshold": 2.0})),
        (("SharedPPO", {}), ("NeuralBandit", {})),
        {"actions": "cluster"},
        ("NeuralBandit",),
        {"horizon": 100},
    ),
    "elicitation_v0": Field(
        {"num_individuals": 50},
        "loss",
        1,
        20_000,
        (("FlatRate", {}), ("OutputAgreement", {}), ("PeerTruthSerum", {}), ("PostedPrice", {})),
        (("Wintall", {}),),
        (("SharedPPO", {}),),
    ),
}

LOST, LATE = LossyChannel(0.5), Stragglers((0.5, 0.3, 0.2))
LIARS = Byzantine(0.2)


def brief(channel: str, messages: int) -> Variant:
    """A world in which agents have few messages."""
    what = f"each agent sends at most {messages} message{'s' * (messages > 1)} in a run"
    return Variant(what, faults={channel: MessageLimit(messages)})


SLOW = Variant(
    "clients upload and compute at about half the speed", {"upload_probability": 0.3, "compute_probability": 0.001}
)
HELD_OUT: dict[str, dict[str, Variant]] = {
    "round_stopping_v0": {
        "slow": SLOW,
        "heavy-tailed": Variant("clients' times have Pareto's law", {"time_law": "pareto"}),
        "few-clients": Variant("40 clients instead of 100", {"num_clients": 40}),
    },
    "federated_training_v0": {
        "skewed": Variant(
            "clients' labels are skewed, by Dirichlet's law with concentration 0.5", {"concentration": 0.5}
        ),
        "lost": Variant("half of the updates are lost", faults={"update": LOST}),
    },
    "federated_bandit_v0": {
        "one-good-arm": Variant(
            "one arm has quality 0.7, the others 0.3", {"qualities": (0.3,) * 4 + (0.7,), "shuffle": True}
        ),
        "crowd": Variant("20 agents instead of 5", {"num_agents": 20}),
        "lost": Variant("half of the messages are lost", faults={"means": LOST}),
        "late": Variant("half of the messages are one or two rounds late", faults={"means": LATE}),
        "liars": Variant("a fifth of the agents send 1 - x instead of x", faults={"means": LIARS}),
        "brief": brief("means", 10),
    },
    "arm_elimination_v0": {
        "one-good-arm": Variant(
            "one arm has quality 0.7, the others 0.3", {"qualities": (0.3,) * 9 + (0.7,), "shuffle": True}
        ),
        "crowd": Variant("20 agents instead of 5", {"num_agents": 20}),
        "lost": Variant("half of the messages are lost", faults={"means": LOST}),
        "liars": Variant("a fifth of the agents send 1 - x instead of x", faults={"means": LIARS}),
        "brief": brief("means", 1),
    },
    "gossip_bandit_v0": {
        "close": Variant(
            "one option has quality 0.6, the others 0.4", {"qualities": (0.4,) * 3 + (0.6,), "shuffle": True}
        ),
        "crowd": Variant("100 agents instead of 20", {"num_agents": 100}),
        "lost": Variant("half of the replies are lost", faults={"preference": LOST}),
        "liars": Variant(
            "a fifth of the agents name the next option instead of their own", faults={"preference": LIARS}
        ),
        "brief": brief("preference", 40),
    },
    "social_bandit_v0": {
        "close": Variant(
            "one option has quality 0.6, the others 0.4", {"qualities": (0.4,) * 4 + (0.6,), "shuffle": True}
        ),
        "crowd": Variant("100 agents instead of 20", {"num_agents": 100}),
        "lost": Variant("half of the copies are lost", faults={"preference": LOST}),
        "liars": Variant(
            "a fifth of the agents name the next option instead of their own", faults={"preference": LIARS}
        ),
        "brief": brief("preference", 5),
    },
    "recommender_v0": {
        "bumps": Variant("mean rewards have several bumps instead of one peak", {"family": "bumps"}),
        "linear": Variant("mean rewards are linear in the context", {"family": "linear"}),
    },
    "elicitation_v0": {
        "uneven": Variant("privacy costs differ between individuals", {"cost_spread": 0.5}),
        "generous": Variant(
            "individuals take the largest budget that they may, whatever is paid", individuals={"Truthful": 1.0}
        ),
        "mixed": Variant("a third always takes the largest budget", individuals={"BestResponse": 2.0, "Truthful": 1.0}),
    },
}


class Task(NamedTuple):
    """A world and one of its variants, with the measure in which agents are compared."""

    env: str
    name: str
    measure: str
    variant: Variant

    @property
    def id(self) -> str:
        """Such as "taciturn/GossipBandit-v0/liars"; the world's version is the task's."""
        return f"{entry(self.env).id}/{self.name}"

    @property
    def params(self) -> Config:
        """Parameters of the world."""
        return FIELDS[self.env].world | dict(self.variant.params)

    @property
    def held_out(self) -> bool:
        """Whether nothing has been trained in it."""
        return self.name != STANDARD

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What `taciturn show` prints of it, by name."""
        standard = "" if self.held_out else "; learners train here, in streams of their own"
        params = ", ".join(f"{name}={value!r}" for name, value in self.params.items())
        faults = "; ".join(f"{channel}: {fault!r}" for channel, fault in self.variant.faults.items())
        others = ", ".join(f"{share:g} x {name}" for name, share in self.variant.individuals.items())
        return [
            ("what", self.variant.what + standard),
            ("world", f"{self.env}({params})"),
            *([("faults", faults)] if faults else []),
            *([("individuals", others)] if self.env == "elicitation_v0" else []),
            ("seeds", "0 to 9, of runs in streams of evaluation, from which no training draws"),
            ("messages", self.limit),
            ("privacy", "none here; for totals of epsilon see the study privacy-totals"),
            ("measure", self.aim),
            ("run", f"taciturn run {self.id} --policy AGENT --runs {50 if self.held_out else 100}"),
            ("compare", f"taciturn bench agents --agent AGENT --where kind=yours --where env={self.env} --out FOLDER"),
        ]

    @property
    def aim(self) -> str:
        """The measure, and which way it is better."""
        return f"{self.measure} ({'higher' if self.measure in HIGHER else 'lower'} is better)"

    @property
    def limit(self) -> str:
        """How many messages an agent may send."""
        limits = [fault.messages for fault in self.variant.faults.values() if isinstance(fault, MessageLimit)]
        return f"at most {limits[0]} of each agent" if limits else "as many as an agent likes; the results count them"

    @property
    def metric(self) -> str:
        """The measure's name in the results of the study `agents`."""
        return f"{self.measure}/{self.name}" if self.held_out else self.measure


STANDARD = "standard"
AS_TRAINED = Variant("the world in which learners train")
TASKS: dict[str, Task] = {
    task.id: task
    for env, field in FIELDS.items()
    for task in (Task(env, name, field.measure, one) for name, one in ({STANDARD: AS_TRAINED} | HELD_OUT[env]).items())
}


def world_title(env: str) -> str:
    """Such as "gossip bandit", of "gossip_bandit_v0"."""
    return env.rpartition("_v")[0].replace("_", " ")


def tasks_of(env: str) -> list[Task]:
    """The tasks of a world, the one that is trained for first."""
    return [task for task in TASKS.values() if task.env == env]
