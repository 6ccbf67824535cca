"""The tasks of the standing benchmark: each world in its standard form, for training, and held-out variants, in which
nobody trains."""

from collections.abc import Mapping
from typing import NamedTuple

from taciturn.bench.results import Config
from taciturn.envs.core.descriptor import Contest, Descriptor, Variant
from taciturn.registry import descriptors, entry
from taciturn.wrappers import MessageLimit

CONTESTS: dict[str, Contest] = {one.name: one.contest for one in descriptors() if one.contest is not None}
HIGHER = {"return", *(contest.measure for contest in CONTESTS.values() if contest.higher)}
"""The measures of which more is better."""
STANDARD = "standard"
AS_TRAINED = Variant("the world in which learners train")


class Task(NamedTuple):
    """A world and one of its variants, with the measure that compares agents."""

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
        return {**CONTESTS[self.env].world, **self.variant.params}

    @property
    def others(self) -> Mapping[str, float]:
        """Who plays the world's other side, as shares of policies."""
        return others_in(self.env, self.variant)

    @property
    def held_out(self) -> bool:
        """Whether nothing has been trained in it."""
        return self.name != STANDARD

    @property
    def facts(self) -> list[tuple[str, str]]:
        """The entries that `taciturn show` prints, by name."""
        standard = "" if self.held_out else "; learners train here, in streams of their own"
        params = ", ".join(f"{name}={value!r}" for name, value in self.params.items())
        faults = "; ".join(f"{channel}: {fault!r}" for channel, fault in self.variant.faults.items())
        others = ", ".join(f"{share:g} x {name}" for name, share in self.others.items())
        return [
            ("what", self.variant.what + standard),
            ("world", f"{self.env}({params})"),
            *([("faults", faults)] if faults else []),
            *([("other side", others)] if others else []),
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
        return f"{self.measure} ({'higher' if CONTESTS[self.env].higher else 'lower'} is better)"

    @property
    def limit(self) -> str:
        """How many messages an agent may send."""
        limits = [fault.messages for fault in self.variant.faults.values() if isinstance(fault, MessageLimit)]
        return f"at most {limits[0]} of each agent" if limits else "as many as an agent likes; the results count them"

    @property
    def metric(self) -> str:
        """The measure's name in the results of the study `agents`."""
        return f"{self.measure}/{self.name}" if self.held_out else self.measure


TASKS: dict[str, Task] = {
    task.id: task
    for env, contest in CONTESTS.items()
    for task in (
        Task(env, name, contest.measure, one) for name, one in {STANDARD: AS_TRAINED, **contest.variants}.items()
    )
}


def world_title(env: str) -> str:
    """Such as "gossip bandit", of "gossip_bandit_v0"."""
    return Descriptor(name=env).title


def others_in(env: str, variant: Variant) -> Mapping[str, float]:
    """Who plays the other side of a world in a variant, as shares of policies."""
    return CONTESTS[env].others if variant.others is None else variant.others


def tasks_of(env: str) -> list[Task]:
    """The tasks of a world, the standard one first."""
    return [task for task in TASKS.values() if task.env == env]
