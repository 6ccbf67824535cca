"""A check of policies that declare a public schedule: with what they receive held fixed, private data change nothing
that observers see."""

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from taciturn.envs.core import Array, ChannelConfig, Population, as_policies, begin
from taciturn.envs.core.channel import Channel
from taciturn.envs.core.public import has_public_schedule
from taciturn.envs.core.replicas import Replicas
from taciturn.envs.core.speaking import SPEAKER
from taciturn.privacy.mechanisms import Laplace, Mechanism, TreeAggregation
from taciturn.testing.policies import Play

NOISE: dict[str, Mechanism] = {"vector": Laplace(1.0), "bounded": Laplace(1.0), "stream": TreeAggregation(1.0)}
THIRDS = ("early", "middle", "late")
DATA = (
    ("turned over", 0.0), ("high", 0.0), ("low", 0.0), ("random", 1 / 3), ("alternating", 2 / 3), ("turned over", 2 / 3),
)  # fmt: skip
"""What becomes of an agent's private data, from which share of the run on."""


def declares_a_public_schedule(play: Play) -> bool:
    """Whether agents decide when to send there, or at which level, and the policy declares that its schedule is
    public."""
    population, policy = play.population(1), play.make()
    role = play.role(population)
    if role != SPEAKER and not any(one.agents_decide and one.sender == role for one in population.channels.values()):
        return False
    population.reset(seed=0)
    policy.reset(population, population.stream("policy"), role)
    return has_public_schedule(policy)


def schedule_is_public(play: Play) -> dict[str, dict[str, tuple[int, int]]]:
    """A run is played again with other private data of the first or of the last agent: turned over, all as high or as
    low as they get, random, or high and low in turn; some only from a third or from two thirds of the run on.

    On the channels where agents decide when to speak, or at which level, everything is delivered as before, so
    everybody receives the same. Then the senders or askers at every moment, and the subject, level, weight and
    sensitivity of messages, must be the same. This is done by steps and, if the policy has a fast form there, in fast
    play.

    Returns:
        What was changed: for each kind of private number, named by how the run was played, by the world's function that
        drew it and by its type, `{part of the run: (how many numbers differed, how many there were)}` over all replays.

    Raises:
        AssertionError: something differs; the policy declares no public schedule there, or nobody decides anything; or
            no number of a kind was changed in a part of the run in which there were some.
    """
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for fast in (False, True):
        told = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
        senders = _deciding(play.population(1))[0].num_senders
        changes = [Change(agent, *data) for agent, data in product(sorted({0, senders - 1}), DATA)]
        # A world that is written for one replica does not say whose number it draws.
        one_by_one = isinstance(getattr(play.population(1), "inner", play.population(1)), Replicas)
        for some in [[change] for change in changes] if one_by_one else [changes]:
            if one_by_one and some[0] is not changes[0]:
                first, ranges = before
            else:
                before = first, ranges = Script(), Private([None] * len(some))
                if not run(play, first, ranges, fast):
                    break
            again, private = Script(first.said), Private(some, ranges.ranges)
            run(play, again, private, fast)
            assert len(again.said) == len(first.said), f"{play!r} sends {len(first.said)} or {len(again.said)} times"
            for total, more in zip(told, (private.changed, private.drawn), strict=True):
                total.update(more)
        changed, drawn = told
        for kind, third in sorted(drawn):
            parts = found.setdefault(f"{'fast' if fast else 'steps'}: {kind}", {})
            parts[THIRDS[third]] = changed[kind, third], drawn[kind, third]
            assert changed[kind, third], f"no private number of {kind} was changed in the {THIRDS[third]} part of a run"
    assert found, f"{play!r} draws no private numbers"
    return found


class Change(NamedTuple):
    """Which agent's private data become what, from which share of the run on."""

    agent: int
    data: str
    since: float


class Private:
    """Takes the place of `Population.private`: notes the range of private numbers, or changes them.

    Args:
        changes: of each replica; None: nothing is changed.
        ranges: of the numbers, by kind.
    """

    def __init__(self, changes: Sequence[Change | None], ranges: dict[str, tuple[Any, Any]] | None = None) -> None:
        self.changes, self.ranges, self.rng = changes, ranges or {}, np.random.default_rng(0)
        self.drawn, self.changed = Counter[tuple[str, int]](), Counter[tuple[str, int]]()

    def hook(self) -> Callable[..., Array]:
        """The method of a population."""

        def private(world: Population[Any], drawn: Array, agents: Array | None = None) -> Array:
            if world.purpose:  # a learner's practice
                return drawn
            kind = f"{_who_draws()} {drawn.dtype}"
            share = np.zeros(len(drawn)) if world._state is None else world.clock() / world.horizon
            found = drawn.copy()
            for b, change in enumerate(self.changes):
                if change is None:
                    low, high = self.ranges.get(kind, (drawn.min(), drawn.max()))
                    self.ranges[kind] = min(low, drawn.min()), max(high, drawn.max())
                    continue
                mine = (np.arange(drawn.shape[1]) if agents is None else agents[b]) == change.agent
                place = kind, min(int(3 * share[b] * (1 + 1e-9)), 2)
                if share[b] * (1 + 1e-9) >= change.since:
                    found[b, mine] = self.instead(change.data, drawn[b, mine], kind, self.drawn.total())
                self.drawn[place] += drawn[b, mine].size
                self.changed[place] += int((found[b, mine] != drawn[b, mine]).sum())
            return found

        return private

    def instead(self, data: str, x: Array, kind: str, count: int) -> Array:
        """What the numbers x become, after so many others."""
        low, high = (False, True) if x.dtype == np.bool_ else self.ranges[kind]
        if x.dtype.kind == "f" and 0 <= low and high <= 1:
            low, high = 0.0, 1.0
        if data == "turned over":
            return np.asarray(~x if x.dtype == np.bool_ else low + high - x)
        if data == "random":
            luck = self.rng.random(x.shape)
            return (low + luck * (high - low) if x.dtype.kind == "f" else np.where(luck < 0.5, low, high)).astype(x.dtype)
        highest = (count + np.arange(x.size).reshape(x.shape)) % 2 if data == "alternating" else data == "high"
        return np.where(highest, high, low).astype(x.dtype)


def _who_draws() -> str:
    """The name of the world's function that draws private numbers."""
    frame = sys._getframe(2)
    while frame.f_code.co_name in ("<lambda>", "private") and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_name


class Said(NamedTuple):
    """One use of a channel: what an observer sees of it apart from its content, and the result."""

    seen: dict[str, Any]
    heard: Any


class Script:
    """Records what is said, or replays the record `before`."""

    def __init__(self, before: list[Said] | None = None) -> None:
        self.before, self.said = before, list[Said]()

    def line(self, seen: dict[str, Any], speak: Any) -> Any:
        """The result of calling `speak`, or the recorded one."""
        if self.before is None:
            heard = speak()
        else:
            place = len(self.said)
            assert place < len(self.before), f"something is sent that was not sent before: {seen}"
            expected, heard = self.before[place]
            for name, value in expected.items():
                np.testing.assert_array_equal(seen[name], value, err_msg=f"{name} of message {place}")
        self.said.append(Said(seen, heard))
        return heard


def _deciding(population: Population[Any]) -> list[Channel]:
    """The channels on which agents decide when to speak, or at which level."""
    configs = population.channel_configs
    chosen = {name for name, one in configs.items() if one.mechanism is not None and one.mechanism.takes_levels}
    found = [channel for name, channel in population.channels.items() if channel.agents_decide or name in chosen]
    assert found, f"nobody decides when to send in {population!r}"
    return found


def run(play: Play, script: Script, private: Private, fast: bool) -> bool:
    """Play a run, in as many replicas as `private` changes, by steps or at once; returns False if it cannot be played
    at once."""
    plain = play.population(len(private.changes))
    population = plain.alike(plain.num_envs, private=private.hook())
    channels = [population.channels[channel.name] for channel in _deciding(plain)]
    noise = {one.name: ChannelConfig(NOISE[one.payload]) for one in channels if one.name not in plain.channel_configs}
    population.reset(seed=0, options={"channels": plain.channel_configs | noise})
    policy = play.make()
    policies = as_policies(population, play.actors(policy, population))
    begin(population, policies)
    assert has_public_schedule(policy), f"{policy!r} declares no public schedule"
    for channel in channels:
        _listen(channel, population, script)
    if fast:
        return population.fast_forward(policies, np.inf)
    population.advance(policies, fast=False)
    return True


def _listen(channel: Channel, population: Population[Any], script: Script) -> None:
    send, answer = channel.send, channel.answer

    def sends(x: Array, senders: Array | None = None, sensitivity: Any = None, **named: Any) -> Any:
        who = np.broadcast_to(channel.live[:, None], x.shape[:2]) if senders is None else senders
        speaking = who.reshape(*who.shape, *[1] * (x.ndim - 2))
        public = {"sensitivity": sensitivity, "weights": named.get("weights")}
        seen = named | {"channel": channel.name, "time": population.clock(), "senders": who.copy()}
        seen |= {name: None if value is None else np.where(speaking, value, 0) for name, value in public.items()}
        seen["levels"] = np.where(who, channel.levels, 0.0) if channel.takes_levels else None
        counted = send(x, senders, sensitivity, **named)  # what was sent and spent is public
        now = counted, channel.read.copy(), channel.standing.copy()
        heard, channel.read, channel.standing = script.line(seen, lambda: now)
        return heard

    def answers(x: Array, asked: Array, reply: Any, about: Array | None = None) -> Any:
        subject = None if about is None else np.where(asked.reshape(*asked.shape, *[1] * (about.ndim - 2)), about, 0)
        seen = {"channel": channel.name, "time": population.clock(), "asked": asked.copy(), "about": subject}
        return script.line(seen, lambda: answer(x, asked, reply, about))

    channel.send, channel.answer = sends, answers  # type: ignore[method-assign]
