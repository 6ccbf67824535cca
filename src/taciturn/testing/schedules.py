"""A check of policies that declare a public schedule: given the messages that they receive, private data change nothing
that observers see."""

import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from taciturn.channels.channel import Channel
from taciturn.envs.core import Array, ChannelConfig, Population, as_policies, begin
from taciturn.envs.core.level_choice import COMMUNICATOR
from taciturn.envs.core.public import has_public_schedule
from taciturn.privacy.mechanisms import Laplace, Mechanism, TreeAggregation
from taciturn.testing.policies import Play

NOISE: dict[str, Mechanism] = {"vector": Laplace(1.0), "bounded": Laplace(1.0), "stream": TreeAggregation(1.0)}
THIRDS = ("early", "middle", "late")
OVER = "turned over"
DATA = (OVER, 0.0), ("high", 0.0), ("low", 0.0), ("random", 1 / 3), ("alternating", 2 / 3), (OVER, 2 / 3)
"""The changes of an agent's private data, and the share of the run after which each begins."""
ONE = "one event"
EVENTS = (ONE, 0.0), (ONE, 0.5)
"""Changes of a single number, which is turned over."""


def declares_a_public_schedule(play: Play) -> bool:
    """Whether agents in this environment decide when to send, or at which level, and the policy declares a public
    schedule."""
    population, policy = play.population(1), play.make()
    role = play.role(population)
    if role != COMMUNICATOR and not any(
        channel.agents_decide and channel.sender == role for channel in population.channels.values()
    ):
        return False
    population.reset(seed=0)
    policy.reset(population, population.stream("policy"), role)
    return has_public_schedule(policy)


def schedule_is_public(play: Play) -> dict[str, dict[str, tuple[int, int]]]:
    """A run is played again with changed private data of the first or of the last agent: mirrored in their range, all
    as high or as low as possible, random, or alternately high and low. Some changes begin only after one or two thirds
    of the run.

    On the channels where agents decide when to send, or at which level, all deliveries are repeated, so all agents
    receive the same. Then the senders or askers at every moment, and the subject, level, weight and sensitivity of
    messages, must be the same. This is done by steps and, if the policy has a fast form there, in fast play.

    By steps, a single number is also changed. Then every message may change by at most its sensitivity; on a `disjoint`
    channel, so may all messages together; and no more answer streams may differ than the agent is charged for.

    Returns:
        For each kind of private number (named by: steps or fast play, the environment's function that drew it, and its
        type), `{part of the run: (how many numbers differed, how many there were)}` over all replays.

    Raises:
        AssertionError: something differs; the policy declares no public schedule there, or agents decide nothing;
            numbers of some kind were drawn in a part of the run, and none of them was changed; or one event changes
            more than is charged.
    """
    results: dict[str, dict[str, tuple[int, int]]] = {}
    for fast in (False, True):
        totals = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
        population = play.population(1)
        agents = sorted({0, _deciding(population)[0].num_senders - 1})
        # In fast play numbers are drawn many at a time, and none is one event.
        changes = [Change(agent, *data) for agent, data in product(agents, DATA if fast else DATA + EVENTS)]
        first, ranges = Script(), Private()
        if not run(play, first, ranges, fast):
            continue
        for change in changes:
            again, private = Script(first.sent), Private(change, ranges.ranges)
            run(play, again, private, fast)
            assert len(again.sent) == len(first.sent), f"{play!r} sends {len(first.sent)} or {len(again.sent)} times"
            if change.data == ONE:
                _costs_what_is_charged(first, again, change.agent, population.channels)
            for total, more in zip(totals, (private.changed, private.drawn), strict=True):
                total.update(more)
        changed, drawn = totals
        for kind, third in sorted(drawn):
            parts = results.setdefault(f"{'fast' if fast else 'steps'}: {kind}", {})
            parts[THIRDS[third]] = changed[kind, third], drawn[kind, third]
            assert changed[kind, third], f"no private number of {kind} was changed in the {THIRDS[third]} part of a run"
    assert results, f"{play!r} draws no private numbers"
    return results


class Change(NamedTuple):
    """A change of one agent's private data, from a share of the run on."""

    agent: int
    data: str
    since: float


class Private:
    """Replaces `Population.private` of one replica: records the range of private numbers, or changes them.

    Args:
        change: the change; None: no change.
        ranges: the ranges of the numbers, by kind.
    """

    def __init__(self, change: Change | None = None, ranges: dict[str, tuple[Any, Any]] | None = None) -> None:
        self.change, self.ranges, self.rng = change, ranges or {}, np.random.default_rng(0)
        self.drawn, self.changed = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
        self.over = False  # whether the one event was changed

    def hook(self) -> Callable[..., Array]:
        """A method to replace `Population.private` of a population."""

        def private(world: Population[Any], drawn: Array, agents: Array | None = None) -> Array:
            if world.purpose:  # a learner's practice
                return drawn
            kind = f"{_who_draws()} {drawn.dtype}"
            change = self.change
            if change is None:
                low, high = self.ranges.get(kind, (drawn.min(), drawn.max()))
                self.ranges[kind] = min(low, drawn.min()), max(high, drawn.max())
                return drawn
            share = 0.0 if world._state is None else float(world.clock()[0]) / world.horizon
            result, (data,) = drawn.copy(), drawn
            mine = (np.arange(drawn.shape[1]) if agents is None else agents[0]) == change.agent
            place = kind, min(int(3 * share * (1 + 1e-9)), 2)
            if change.data == ONE and not self.over and mine.any() and share >= change.since:
                once = np.zeros_like(data, np.bool_)
                once.reshape(-1)[np.flatnonzero(mine)[0] * (once.size // len(mine))] = True
                result[0, once] = self.instead(OVER, data[once], kind, 0)
                self.over = True
            elif change.data != ONE and share * (1 + 1e-9) >= change.since:
                result[0, mine] = self.instead(change.data, data[mine], kind, self.drawn.total())
            self.drawn[place] += data[mine].size
            self.changed[place] += int((result[0, mine] != data[mine]).sum())
            return result

        return private

    def instead(self, data: str, x: Array, kind: str, count: int) -> Array:
        """The replacements of the numbers x; `count` other numbers were drawn before them."""
        low, high = (False, True) if x.dtype == np.bool_ else self.ranges[kind]
        if x.dtype.kind == "f" and low >= 0 and high <= 1:
            low, high = 0.0, 1.0
        if data == OVER:
            return np.asarray(~x if x.dtype == np.bool_ else low + high - x)
        if data == "random":
            luck = self.rng.random(x.shape)
            return (low + luck * (high - low) if x.dtype.kind == "f" else np.where(luck < 0.5, low, high)).astype(
                x.dtype
            )
        highest = (count + np.arange(x.size).reshape(x.shape)) % 2 if data == "alternating" else data == "high"
        return np.where(highest, high, low).astype(x.dtype)


def _who_draws() -> str:
    """The name of the environment's function that draws private numbers."""
    frame = sys._getframe(2)
    while frame.f_code.co_name in ("<lambda>", "private") and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_name


def _costs_what_is_charged(first: "Script", again: "Script", agent: int, channels: Mapping[str, Channel]) -> None:
    """Check the changes that one event of an agent has caused.

    Answers are compared only until the event has changed an action: other records follow from there.
    """
    pairs = zip(first.acted, again.acted, strict=True)
    acted = min((place for (place, old), (_, new) in pairs if not np.array_equal(old, new)), default=math.inf)
    shares, streams, charged = dict[str, float](), dict[str, set[int]](), Counter[str]()
    for place, (one, new) in enumerate(zip(first.sent, again.sent, strict=True)):
        seen, name = one.seen, one.seen["channel"]
        by = np.abs(new.content[0].astype(np.float64) - one.content[0])
        if "asked" in seen and place < acted:
            streams.setdefault(name, set()).update(seen["about"][0][by > 0].tolist())
            charged[name] += int(one.charged[0, agent])
        if "asked" in seen or not by[agent].any():
            continue
        share = 1.0
        if seen["sensitivity"] is not None:
            reach = np.broadcast_to(seen["sensitivity"][0], by.shape)[agent]
            parts = np.divide(by[agent], reach, out=np.zeros_like(by[agent]), where=by[agent] > 0)
            share = float(np.linalg.norm(parts.ravel(), seen.get("norm", 1)))
        assert share <= 1 + 1e-6, f"message {place} changes by {share:g} times its sensitivity"
        shares[name] = shares.get(name, 0.0) + share
    for name, total in shares.items():
        assert total <= 1 + 1e-6 or not channels[name].disjoint, f"one event costs {total:g} messages on {name!r}"
    for name, result in streams.items():
        assert len(result) <= charged[name], (
            f"one event is in {len(result)} streams on {name!r}, {charged[name]} charged"
        )


class SentMessage(NamedTuple):
    """One use of a channel.

    Attributes:
        seen: everything that an observer sees, except the content.
        received: the result of this use.
        content: the content of messages or answers.
        charged: how many messages of each agent are charged for answers.
    """

    seen: dict[str, Any]
    received: Any
    content: Array
    charged: Any = None


class Script:
    """Records all uses of channels, or replays the record `before`."""

    def __init__(self, before: list[SentMessage] | None = None) -> None:
        self.before, self.sent = before, list[SentMessage]()
        self.acted: list[tuple[int, Any]] = []  # (number of uses of channels so far, actions)

    def line(self, sent: SentMessage) -> Any:
        """The result of this use of a channel, or the recorded one."""
        if self.before is not None:
            place = len(self.sent)
            assert place < len(self.before), f"something is sent that was not sent before: {sent.seen}"
            for name, value in self.before[place].seen.items():
                np.testing.assert_array_equal(sent.seen[name], value, err_msg=f"{name} of message {place}")
            sent = sent._replace(received=self.before[place].received)
        self.sent.append(sent)
        return sent.received


def _deciding(population: Population[Any]) -> list[Channel]:
    """The channels on which agents decide when to send, or at which level."""
    configs = population.channel_configs
    chosen = {name for name, one in configs.items() if one.mechanism is not None and one.mechanism.takes_levels}
    results = [channel for name, channel in population.channels.items() if channel.agents_decide or name in chosen]
    assert results, f"agents decide on no channel when to send in {population!r}"
    return results


def run(play: Play, script: Script, private: Private, fast: bool) -> bool:
    """Play a run, in as many replicas as `private` changes, by steps or in fast play; returns False if it has no fast
    play."""
    plain = play.population(1)
    population = plain.alike(1, private=private.hook())
    channels = [population.channels[channel.name] for channel in _deciding(plain)]
    noise = dict[str, ChannelConfig]()
    for one in channels:
        if one.name not in plain.channel_configs:
            config = ChannelConfig(NOISE[one.payload])
            with suppress(ValueError):  # a channel without a fitting mechanism delivers messages unchanged
                population.check_config(one.name, config)
                noise[one.name] = config
    population.reset(seed=0, options={"channels": plain.channel_configs | noise})
    policy = play.make()
    policies = as_policies(population, play.actors(policy, population))
    begin(population, policies)
    assert has_public_schedule(policy), f"{policy!r} declares no public schedule"
    for channel in channels:
        _listen(channel, population, script)
    step = population.step

    def steps(actions: Any, where: Array | None = None, out: Array | None = None) -> Any:
        if not isinstance(actions, dict):
            script.acted.append((len(script.sent), actions))
        return step(actions, where, out)

    population.step = steps  # type: ignore[method-assign]
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
        counted = send(x, senders, sensitivity, **named)  # messages sent and epsilon spent are public
        now = counted, channel.read.copy(), channel.standing.copy()
        received, channel.read, channel.standing = script.line(SentMessage(seen, now, np.where(speaking, x, 0)))
        return received

    def answers(x: Array, asked: Array, reply: Any, about: Array | None = None) -> Any:
        asking = asked.reshape(*asked.shape, *[1] * (x.ndim - 2))
        subject = None if about is None else np.where(asking, about, 0)
        seen = {"channel": channel.name, "time": population.clock(), "asked": asked.copy(), "about": subject}
        charges = []

        def replies(*given: Any) -> Any:
            result = reply(*given)
            charges.append(result[2])
            return result

        received = answer(x, asked, replies, about)
        return script.line(SentMessage(seen, received, np.where(asking, x, 0), charges[0]))

    channel.send, channel.answer = sends, answers  # type: ignore[method-assign]
