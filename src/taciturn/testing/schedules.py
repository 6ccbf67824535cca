"""A check of policies that declare a public schedule: with what they receive held fixed, private data change nothing
that observers see."""

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from taciturn.envs.core import Array, ChannelConfig, Population, as_policies, begin
from taciturn.envs.core.channel import Channel
from taciturn.envs.core.public import has_public_schedule
from taciturn.privacy.mechanisms import Laplace, Mechanism, TreeAggregation
from taciturn.testing.policies import Play

NOISE: dict[str, Mechanism] = {"vector": Laplace(1.0), "bounded": Laplace(1.0), "stream": TreeAggregation(1.0)}
REPLICAS = 3


def declares_a_public_schedule(play: Play) -> bool:
    """Whether agents decide when to send there, and the policy declares that its schedule is public."""
    population, policy = play.population(1), play.make()
    if not any(channel.agents_decide for channel in population.channels.values()):
        return False
    population.reset(seed=0)
    policy.reset(population, population.stream("policy"), play.role(population))
    return has_public_schedule(policy)


def schedule_is_public(play: Play) -> None:
    """A run is played again for the first and for the last agent, with all of that agent's private data turned over.

    On the channels where agents decide when to speak, everything is delivered as before, so everybody receives the
    same. Then the senders or askers at every moment, and the subject and sensitivity of messages, must be the same.

    Raises:
        AssertionError: something differs, or the policy declares no public schedule there, or nobody decides anything.
    """
    first = Script()
    population = run(play, first, None)
    deciding = [channel for channel in population.channels.values() if channel.agents_decide]
    assert deciding, f"nobody decides when to send in {play.world}"
    for agent in sorted({0, deciding[0].num_senders - 1}):
        again = Script(first.said)
        run(play, again, agent)
        assert len(again.said) == len(first.said), f"{play!r} sends {len(first.said)} or {len(again.said)} times"


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


def run(play: Play, script: Script, turned: int | None) -> Population[Any]:
    """Play a run by steps with the private data of the agent `turned` inverted (None: of nobody)."""
    plain = play.population(REPLICAS)

    def private(_: Any, drawn: Array, agents: Array | None = None) -> Array:
        if turned is None:
            return drawn
        over = np.asarray(~drawn if drawn.dtype == np.bool_ else drawn.max() + drawn.min() - drawn)
        mine = (np.arange(drawn.shape[1]) if agents is None else agents) == turned
        return np.where(mine.reshape(*mine.shape, *[1] * (drawn.ndim - 2)), over, drawn)

    population = plain.alike(REPLICAS, private=private)
    channels = [channel for channel in population.channels.values() if channel.agents_decide]
    noise = dict[str, ChannelConfig]()
    for channel in channels:
        config = ChannelConfig(NOISE[channel.payload])
        with suppress(ValueError):  # where no mechanism fits, messages pass as they are
            population.check_config(channel.name, config)
            noise[channel.name] = config
    population.reset(seed=0, options={"channels": noise})
    policy = play.make()
    policies = as_policies(population, play.actors(policy, population))
    begin(population, policies)
    assert has_public_schedule(policy), f"{policy!r} declares no public schedule"
    for channel in channels:
        _listen(channel, population, script)
    population.advance(policies)
    return population


def _listen(channel: Channel, population: Population[Any], script: Script) -> None:
    send, answer = channel.send, channel.answer

    def sends(x: Array, senders: Array | None = None, sensitivity: Any = None, **named: Any) -> Any:
        who = np.broadcast_to(channel.live[:, None], x.shape[:2]) if senders is None else senders
        speaking = who.reshape(*who.shape, *[1] * (x.ndim - 2))
        public = {"sensitivity": sensitivity, "weights": named.get("weights")}
        seen = named | {"channel": channel.name, "time": population.clock(), "senders": who.copy()}
        seen |= {name: None if value is None else np.where(speaking, value, 0) for name, value in public.items()}
        return script.line(seen, lambda: send(x, senders, sensitivity, **named))

    def answers(x: Array, asked: Array, reply: Any, about: Array | None = None) -> Any:
        subject = None if about is None else np.where(asked.reshape(*asked.shape, *[1] * (about.ndim - 2)), about, 0)
        seen = {"channel": channel.name, "time": population.clock(), "asked": asked.copy(), "about": subject}
        return script.line(seen, lambda: answer(x, asked, reply, about))

    channel.send, channel.answer = sends, answers  # type: ignore[method-assign]
