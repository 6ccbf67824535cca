"""Runs of an environment with a canary that sends known messages; the auditor makes transcripts of them."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from taciturn.channels.faults import Fault, Memory
from taciturn.envs.core import (
    Array,
    ChannelConfig,
    Controlled,
    ControlledAgent,
    Population,
    as_policies,
    begin,
    choice,
    integer,
    join,
)
from taciturn.privacy.accountant import Accountant
from taciturn.privacy.channels import Payload, Unit
from taciturn.privacy.composition import Method
from taciturn.validation import Bools
from taciturn.wrappers.channels import added_configs, population_of

Configs = dict[str, ChannelConfig]
Policies = Mapping[str, Any]


class Canary(Fault):
    """Replaces some agents' messages on a channel by the audit's messages, and records the delivered ones. It acts
    after all other faults.

    Args:
        messages: the two messages, [2, ...].
        world: index of the message that each agent sends, int[B, n].
        agents: the canaries, by their indices among the channel's senders, int[n].
        unit: `user`: an agent sends that message every time. `event`: only the first time; afterwards it sends
            messages[0].
    """

    order: ClassVar[int] = 5
    observes: ClassVar[bool] = True

    def __init__(self, messages: Array, world: Array, agents: Array, unit: Unit) -> None:
        self.messages, self.world, self.agents, self.unit = messages, world, agents, unit
        self._delivered: list[tuple[Array, Array]] = []

    def start(self, shape: tuple[int, int], rng: Generator) -> dict[str, Array]:
        return {"sends": np.zeros(shape, np.int64)}

    def admit(self, who: Array, sending: Array, memory: Memory, rng: Generator) -> Array:
        memory["sends"] += who
        return who

    def corrupt(self, x: Array, payload: Payload, memory: Memory, rng: Generator) -> Array:
        if self.messages.shape[1:] != x.shape[2:]:
            raise ValueError(f"pair must hold messages of shape {x.shape[2:]}, not {self.messages.shape[1:]}")
        differs = self.unit == "user" or memory["sends"][:, self.agents] <= 1
        x = x.astype(np.result_type(x, self.messages))
        x[:, self.agents] = self.messages[np.where(differs, self.world, 0)]
        return x

    def deliver(self, y: Array, sent: Array, sending: Array, memory: Memory, rng: Generator) -> tuple[Array, Array]:
        arrived = sent[:, self.agents]
        heard = np.where(arrived.reshape(*arrived.shape, *[1] * (y.ndim - 2)), y[:, self.agents], np.zeros((), y.dtype))
        self._delivered.append((heard, arrived))
        return y, sent

    def delivered(self) -> tuple[Array, Bools]:
        """Each agent's delivered messages, in order and padded with zeros, [B n, sends, ...]; and a mask of the entries
        that are messages, bool[B n, sends]."""
        rows = self.world.size
        if not self._delivered:
            return np.zeros((rows, 0)), np.zeros((rows, 0), np.bool_)
        messages = np.stack([y.reshape(rows, *y.shape[2:]) for y, _ in self._delivered], 1)
        arrived = np.stack([sent.reshape(rows) for _, sent in self._delivered], 1)
        order = np.argsort(~arrived, axis=1, kind="stable")
        arrived = np.take_along_axis(arrived, order, 1)
        return messages[np.arange(rows)[:, None], order], arrived


def play(
    env: Population[Any], num_envs: int, channel_configs: Configs, policies: Policies, seed: int, steps: int | None
) -> Population[Any]:
    """A population like `env` with `num_envs` replicas and `channel_configs` installed, after `steps` turns (None: at
    its end)."""
    population = env.alike(num_envs)
    _run(population, channel_configs, policies, seed, steps)
    return population


def _run(
    population: Population[Any], channel_configs: Configs, policies: Policies, seed: int | None, steps: int | None
) -> None:
    population.reset(seed=seed, options={"channels": channel_configs})
    begin(population, policies)
    population.advance(policies, steps=steps)


class CanaryRuns:
    """Makes transcripts of runs of a population, and records the accountant's claims.

    Called with a world (0 or 1), a Generator and a count, it plays `count` replicas; `agent` sends that world's
    message. Called with a world for each sender, int[senders], it plays a single replica, and every sender is a canary.
    For each channel, a transcript has as many places as messages arrived in the first runs. A place holds a 1 and the
    numbers of the message, or zeros if none arrived.

    Args:
        env, pair, policy, steps, agent, unit, references, composition: as for `audit`; ValueError if they cannot be
            played.
        delta: delta of the claim.

    Attributes:
        env: the population, without wrappers.
        channel_configs: the configurations installed on its channels.
        policies: the acting policies, `{role: policy}`.
        pair: `{channel: [2, ...]}`, the messages of the two worlds.
        totals: the claims so far, [B] for each batch of runs.
    """

    def __init__(
        self,
        env: Any,
        pair: Any,
        policy: Any,
        steps: Any,
        agent: Any,
        unit: Any,
        delta: float,
        references: bool = False,
        composition: Method = "rdp",
    ) -> None:
        population = population_of(env)
        assert population is not None
        if policy is None:
            raise ValueError("policy must be given for an environment to be audited, not None")
        policies = as_policies(population, policy)
        if isinstance(population, ControlledAgent):
            raise ValueError("env must be a whole environment to be audited, not a ControlledAgent")
        if isinstance(population, Controlled):
            policies, population = {**population.others, **policies}, population.inner
        channel_configs = join(population.channel_configs, added_configs(env))
        self.env, self.policies, self.channel_configs, self.delta = population, policies, channel_configs, delta
        if not isinstance(pair, Mapping) or not pair:
            raise ValueError(f"pair must be {{channel: (x0, x1)}} for an environment, not {pair!r}")
        self.pair = {name: self._messages(name, two) for name, two in pair.items()}
        self.steps = None if steps is None else integer("steps", steps, at_least=1)
        self.unit = choice("unit", unit, ("event", "user"))
        roles = {population.channels[name].sender for name in pair}
        if len(roles) > 1:
            raise ValueError(f"pair must be about channels of one kind of sender, not {' and '.join(sorted(roles))}")
        self.agent = integer("agent", agent, at_least=0, at_most=self.senders - 1)
        self.references, self.composition = references, composition
        self.totals: list[Array] = []
        self._layout: dict[str, tuple[int, tuple[int, ...], Any]] = {}

    def _messages(self, name: str, two: Any) -> Array:
        """The two messages for a channel, [2, ...]."""
        choice("channel", name, self.env.channels)
        try:
            messages = np.stack([np.asarray(x) for x in two])
        except (TypeError, ValueError):
            messages = np.zeros(0)
        if len(messages) != 2 or messages.dtype.kind not in "biuf":
            raise ValueError(f"pair must be two messages of one shape on channel {name!r}, not {two!r}")
        return messages

    @property
    def senders(self) -> int:
        """The number of sending agents."""
        return self.env.channels[next(iter(self.pair))].num_senders

    @property
    def idealised(self) -> bool:
        """Whether any mechanism on the channels draws its noise in floating point."""
        mechanisms = [config.mechanism for config in self.channel_configs.values() if config.mechanism is not None]
        return any(getattr(mechanism, "mechanism", mechanism).idealised for mechanism in mechanisms)

    @property
    def memoryless(self) -> bool:
        """Whether each message is perturbed independently, so log-likelihood ratios add up."""
        mechanisms = [
            self.channel_configs[name].mechanism if name in self.channel_configs else None for name in self.pair
        ]
        return all(
            mechanism is not None and not mechanism.stateful and not mechanism.averages and not mechanism.shuffles
            for mechanism in mechanisms
        )

    @property
    def kind(self) -> str | None:
        """The kind of all mechanisms on the audited channels; None if they are of several kinds or missing."""
        mechanisms = [
            self.channel_configs[name].mechanism if name in self.channel_configs else None for name in self.pair
        ]
        kinds = {None if mechanism is None else mechanism.kind for mechanism in mechanisms}
        return kinds.pop() if len(kinds) == 1 else None

    def __call__(self, world: Any, rng: Generator, count: int) -> Array:
        everybody = np.ndim(world) > 0
        agents = np.arange(self.senders) if everybody else np.array([self.agent])
        worlds = np.reshape(world, (1, -1)) if everybody else np.full((count, 1), world)
        if self.references and self.senders > 1:
            agents = np.append(agents, (self.agent + 1) % self.senders)
            worlds = np.hstack([worlds, np.zeros_like(worlds)])
        channel_configs, canaries = self._installed(worlds, agents)
        population = play(self.env, len(worlds), channel_configs, self.policies, int(rng.integers(2**63)), self.steps)
        self.totals.append(self._claims(population, agents if everybody else agents[:1]))
        if everybody:
            return np.concatenate([self._columns(name, canary) for name, canary in canaries.items()], 1)
        columns = [self._columns(name, c, place) for name, c in canaries.items() for place in range(len(agents))]
        if self.references:
            channel_configs, canaries = self._installed(np.zeros_like(worlds[:, :1]), agents[:1])
            _run(population, channel_configs, self.policies, None, self.steps)
            columns += [self._columns(name, canary, 0, "later ") for name, canary in canaries.items()]
        return np.concatenate(columns, 1)

    def _installed(self, worlds: Array, agents: Array) -> tuple[Configs, dict[str, Canary]]:
        """The channel configurations that make `agents` int[n] canaries in `worlds` int[B, n]."""
        canaries = {name: Canary(two, worlds, agents, self.unit) for name, two in self.pair.items()}
        faults = {name: ChannelConfig(faults=(canary,)) for name, canary in canaries.items()}
        return join(self.channel_configs, faults), canaries

    @property
    def claimed(self) -> float:
        """The largest epsilon in any run so far; inf if no channel had a mechanism."""
        return max((float(total.max()) for total in self.totals), default=0.0)

    @property
    def spent(self) -> float:
        """The mean over runs of the largest epsilon of any agent."""
        return float(np.concatenate(self.totals).mean()) if self.totals else math.nan

    def _claims(self, population: Population[Any], agents: Array) -> Array:
        """The largest epsilon of any of the agents in each run, [B]; at event level, the cost of one message on each
        channel."""
        accountant = population.accountant
        if accountant is None:
            return np.full(1, math.inf)
        channels = [population.channels[name] for name in self.pair]
        if self.unit == "user":
            observers = {channel.observer for channel in channels}
            observer = observers.pop() if len(observers) == 1 else None
            total = accountant.epsilon(self.delta, method=self.composition, role=channels[0].sender, observer=observer)
            return np.asarray(total[:, agents].max(1))
        once = Accountant(1, 1, channels)
        for name in self.pair:
            once.charge(name, accountant.per_message[name], np.ones(1, np.int64))
        return np.asarray(once.epsilon(self.delta, method=self.composition).max(1))

    def _columns(self, name: str, canary: Canary, place: int | None = None, when: str = "") -> Array:
        """A channel's part of the transcripts, float64[trials, messages kept x (1 + size)]: the canary's part at index
        `place`, or the part of all canaries."""
        messages, arrived = canary.delivered()
        if place is not None:
            messages, arrived = (each[place :: canary.agents.size] for each in (messages, arrived))
        name = f"{when}{name}{f' {place}' * bool(place)}"
        if name not in self._layout:
            kept = int(arrived.sum(1).max(initial=0))
            if kept == 0 and name in self.pair:
                raise ValueError(
                    f"steps must be enough for a message of agent {self.agent} on channel {name!r}, not {self.steps!r}"
                )
            self._layout[name] = kept, messages.shape[2:], messages.dtype
        kept, shape, _ = self._layout[name]
        columns = np.zeros((len(arrived), kept, 1 + math.prod(shape)))
        sends = min(kept, arrived.shape[1])
        if sends:
            columns[:, :sends, 0] = arrived[:, :sends]
            columns[:, :sends, 1:] = messages[:, :sends].reshape(len(arrived), sends, -1)
        return columns.reshape(len(columns), -1)

    def log_likelihood_ratio(self, transcripts: Array, first: Any = 0, second: Any = 1) -> Array:
        """log P(transcript | first world) - log P(transcript | second world), [trials], by the mechanisms'
        distributions.

        The noise is assumed to be scaled to the distance between the two messages. That distance is the environment's
        stated sensitivity, if the messages are as far apart as it allows.
        """
        total, start = np.zeros(len(transcripts)), 0
        for name, two in self.pair.items():
            mechanism: Any = self.channel_configs[name].mechanism
            kept, shape, dtype = self._layout[name]
            width = kept * (1 + math.prod(shape))
            part = transcripts[:, start : start + width].reshape(len(transcripts), kept, -1)
            start += width
            counts = part[:, :, 0] == 1
            if self.unit == "event":
                counts[:, 1:] = False
            reach = float(np.linalg.norm((two[1] - 1.0 * two[0]).ravel(), mechanism.norm)) or 1.0
            worlds = (np.broadcast_to(x, (len(part), kept, *x.shape)) for x in (two[first], two[second]))
            ratios = mechanism.log_likelihood_ratio(
                part[:, :, 1:].reshape(-1, kept, *shape).astype(dtype), *worlds, reach
            )
            with np.errstate(invalid="ignore"):
                total += np.where(counts, ratios.reshape(len(part), kept, -1).sum(-1), 0.0).sum(1)
        return total
