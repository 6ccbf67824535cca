"""Audits of whole runs: two worlds that differ in the private data of one agent, and an attacker that reads the
channels and everything that the other agents see.

The other audits (`taciturn.wrappers.canary`) replace an agent's messages. Here its data are replaced, and everything
else follows: the messages, their senders and times, and the other agents' observations, action masks and rewards. The
certificate is compared with the accountant's epsilon for that agent, at user level.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from taciturn.channels.faults import Fault
from taciturn.compiling.compiled import constant
from taciturn.envs.core import (
    Array,
    ChannelConfig,
    Controlled,
    ControlledAgent,
    Population,
    Rollout,
    as_policies,
    begin,
    integer,
    join,
)
from taciturn.privacy.attackers import special
from taciturn.privacy.composition import Method
from taciturn.privacy.mechanisms import NoPrivacy
from taciturn.wrappers.channels import added_configs, population_of

SENDS = 16  # number of sends with a separate feature for whether the agent sent
WIDE = 16  # longer messages and observations are projected on a line between the two worlds
PILOT = 32  # runs of each world used to find these lines
FEW = 8  # up to this many numbers of an observation, all products are features
CLEAR = 0.75  # smaller standardised differences in pilot runs are chance


@dataclass(frozen=True)
class Noted(NoPrivacy):
    """Leaves messages unchanged, and records the largest sensitivity that the environment states."""

    closed_counts: ClassVar[bool] = False
    stated: list[float] = field(default_factory=list, compare=False)

    def perturb(self, x: Any, rng: np.random.Generator, sensitivity: Any = None) -> Array:
        if sensitivity is not None:
            self.stated.append(float(np.max(sensitivity, initial=0.0)))
        return super().perturb(x, rng, sensitivity)

    def share(self, distances: Array) -> Array:
        """Distances between messages divided by the sensitivity, at most 1; without a stated sensitivity, 1 if messages
        differ."""
        return np.minimum(distances / max(self.stated), 1.0) if self.stated else (distances > 0).astype(np.float64)


class Transcript(Fault):
    """Records the messages on a channel, after all faults: a summary of every replica, in numbers.

    A summary must not depend on the other replicas in the batch: they all play the same world, and together would
    reveal it.

    Args:
        agent: the agent with changed data.
        clock: returns the environment's time, float64[B].

    Attributes:
        spoke: for each of the first SENDS sends in the replica, whether the agent's message arrived, float64[B, SENDS].
        number: the numbers of messages of the agent and of the others, float64[B, 2].
        special: counts of -0, inf, -inf and NaN in the messages of the agent and of the others, by coordinate,
            float64[B, 2, 4, D]; sums and means have 0 in their place.
        last: 1 plus the time of the agent's last message, float64[B, 1]; 0 if there was none.
        first: the first message of the agent, float64[B, D].
        sums: the sums of its messages, and of the others', float64[B, 2, D].
        own: in pilot runs, all of its messages, [B, D] each, with 0 for NaN and infinities.
    """

    order: ClassVar[int] = 6
    observes: ClassVar[bool] = True

    def __init__(self, agent: int, clock: Callable[[], Array]) -> None:
        self.agent, self.clock, self.sends = agent, clock, 0
        self.own: list[Array] = []

    def make_records(self, count: int, size: int) -> None:
        """Begin the records of `count` replicas, with messages of that size."""
        self.spoke, self.number, self.last = (np.zeros((count, n)) for n in (SENDS, 2, 1))
        self.place = np.zeros(count, np.int64)
        self.first, self.sums = np.zeros((count, size)), np.zeros((count, 2, size))
        self.special = np.zeros((count, 2, 4, size))

    def finish(self, count: int, size: int) -> None:
        """Make empty records if no message was sent."""
        if not self.sends:
            self.make_records(count, size)

    def deliver(
        self, y: Array, sent: Array, sending: Array, memory: dict[str, Array], rng: np.random.Generator
    ) -> tuple[Array, Array]:
        messages = np.where(sent[:, :, None], y.reshape(*y.shape[:2], -1), 0).astype(np.float64)
        own = sent[:, self.agent]
        if not self.sends:
            self.make_records(len(y), messages.shape[2])
        mine, others = messages[:, self.agent], np.delete(messages, self.agent, 1)
        self.first = np.where(((self.number[:, 0] == 0) & own)[:, None], mine, self.first)
        for place, each in enumerate((mine[:, None], others)):
            kinds = special(each.reshape(-1, each.shape[2])).reshape(*each.shape[:2], 4, -1)
            self.special[:, place] += kinds.sum(1)
            self.sums[:, place] += finite(each).sum(1)
        if len(y) <= PILOT:
            self.own.append(finite(mine))
        self.number[:, 0] += own
        self.number[:, 1] += sent.sum(1) - own
        self.sends += 1
        now, some = self.clock(), np.flatnonzero(sending & (self.place < SENDS))
        self.spoke[some, self.place[some]] = own[some]
        self.place += sending
        self.last[own, 0] = 1 + now[own]
        return y, sent

    def means(self) -> Array:
        """The mean of the agent's messages, float64[B, D]."""
        return self.sums[:, 0] / np.maximum(self.number[:, :1], 1)

    def features(self, direction: Array | None) -> Array:
        """The whole record as features, float64[B, F]; messages are projected on `direction` [D], if given."""
        others = self.sums[:, 1] / np.maximum(self.number[:, 1:], 1)
        kinds = [self.special[:, 0].sum(2), self.special[:, 1].sum(2)]
        if direction is None:
            messages = [self.first, self.means(), others, self.special[:, 0].sum(1)]
        else:
            messages = [finite(m) @ direction[:, None] for m in (self.first, self.means(), others)]
        return np.concatenate([self.spoke, self.number, self.last, *messages, *kinds], 1)


def finite(x: Array) -> Array:
    """`x`, with 0 for NaN and infinities."""
    return np.where(np.isfinite(x), x, 0.0)


class Summary:
    """A summary of every replica, in numbers, of a quantity [B, rows, D] that agents see or have in each turn.

    Args:
        pilot: summaries of the same quantity in pilot runs of the two worlds, which determine the distinguishing
            features and the length of a run; None in pilot runs.
        products: whether products of an agent's D numbers are features.
    """

    def __init__(self, pilot: "Sequence[Summary] | None", products: bool) -> None:
        self.products, self.turns, self.sums, self.direction = products, 0, np.zeros(()), None
        if pilot is not None:
            means = [one.sums / np.maximum(one.number, 1)[:, None, None] for one in pilot]
            spread = np.concatenate(means).std(0)
            clear = (means[1] - means[0]).mean(0) / np.where(spread > 0, spread, np.inf)
            self.direction = np.where(np.abs(clear) > CLEAR, clear / np.where(spread > 0, spread, 1), 0.0)
            self.length = max(one.turns for one in pilot)

    def add(self, x: Array, live: Array) -> None:
        """Add the next turn of the replicas `live` bool[B]."""
        x = finite(np.asarray(x, np.float64)) * live[:, None, None]
        if not self.turns:
            size = x.shape[2]
            self.number, self.path = np.zeros(len(x)), np.zeros((len(x), 5))
            self.means = np.zeros((len(x), size))
            self.squares = np.zeros((len(x), size, size))
        self.number += live
        if self.direction is None:
            self.sums = self.sums + x
        else:
            along = np.einsum("brd,rd->b", x, self.direction)
            if not self.turns:
                self.path[:, 0] = along
            self.path[:, 1 + min(3 * self.turns // self.length, 2)] += along
            self.path[live, 4] = along[live]
            self.means += x.mean(1)
            if self.products and x.shape[2] <= FEW:
                self.squares += np.einsum("brd,bre->bde", x, x) / x.shape[1]
        self.turns += 1

    def features(self) -> Array:
        """The whole record as features, float64[B, F]."""
        number = np.maximum(self.number, 1)[:, None]
        results = [self.path]
        size = self.means.shape[1]
        if size <= WIDE:
            results.append(self.means / number)
        if self.products and size <= FEW:
            upper = np.triu_indices(size)
            results.append(self.squares[:, upper[0], upper[1]] / number)
        return np.concatenate(results, 1)


class Witness:
    """The view of all agents but one in a run, turn by turn: their observations, action masks and rewards, and the
    order and times of acting agents.

    Args:
        agent: the agent with changed data, in every role that sends on a channel.
        pilot: the witnesses of pilot runs of the two worlds; None in pilot runs.
    """

    def __init__(self, population: Population[Any], agent: int, pilot: "tuple[Witness, Witness] | None" = None) -> None:
        self.population, self.pilot = population, pilot
        senders = {channel.sender for channel in population.channels.values()}
        self.others = {
            name: np.delete(np.arange(role.num_agents), [agent] if name in senders else [])
            for name, role in population.roles.items()
        }
        self.summaries: dict[str, Summary] = {}
        self.turns = np.zeros((population.num_envs, 1))

    def play(self, policies: dict[str, Any], steps: int | None) -> None:
        """Play the population, for `steps` turns or to the end."""
        population, rollout, turns = self.population, Rollout(self.population, policies), 0
        acting = self._look(population.observe(), ~population.done)
        while not population.done.all() and (steps is None or turns < steps):
            live = ~population.done
            step = rollout.play()
            for role, reward in self._by_role(step.reward, tuple(population.roles)).items():
                self._note("earns", role, self._by_agent(role, reward[:, :, None], acting.get(role)), live)
            acting = self._look(step.observation, live)
            self.turns[:, 0] += live
            turns += 1
        self.clock = population.clock()[:, None]

    @staticmethod
    def _by_role(values: Any, roles: tuple[str, ...]) -> dict[str, Array]:
        return values if isinstance(values, dict) else dict.fromkeys(roles, values)

    def _look(self, seen: Any, live: Array) -> dict[str, Array | None]:
        population = self.population
        results = {}
        for role, observation in self._by_role(seen, population.turn).items():
            results[role] = acting = population.acting(role)
            if acting is not None:
                observation = population.look(role)
            self._note("sees", role, observation, live)
            mask = population.action_mask(role)
            if mask is not None:
                self._note("may", role, self._by_agent(role, mask, acting), live)
            if acting is not None:
                order = np.broadcast_to(1 / (1 + np.arange(acting.shape[1]))[:, None], (*acting.shape, 1))
                self._note("acts", role, self._by_agent(role, order, acting), live)
        return results

    def _by_agent(self, role: str, x: Array, acting: Array | None) -> Array:
        """`x` [B, rows, n] of the acting agents, rearranged by agent: [B, N, n]."""
        size = self.population.roles[role].num_agents
        if acting is None or x.shape[1] != acting.shape[1]:
            return x
        whole = np.zeros((len(x), size, x.shape[2]))
        np.put_along_axis(whole, acting[:, :, None], x, 1)
        return whole

    def _note(self, what: str, role: str, x: Array, live: Array) -> None:
        """Add a turn: for "acts" all agents count, for everything else all but one."""
        x = x if what == "acts" else x[:, self.others[role]]
        if not x.size:
            return
        key = f"{what} {role}"
        if key not in self.summaries:
            pilot = None if self.pilot is None else [one.summaries[key] for one in self.pilot]
            self.summaries[key] = Summary(pilot, products=what == "sees")
        self.summaries[key].add(x, live)

    def features(self) -> Array:
        """The whole record as features, float64[B, F]."""
        return np.concatenate([self.turns, self.clock, *(summary.features() for summary in self.summaries.values())], 1)


@dataclass
class ChangedRuns:
    """Makes transcripts of runs; the private data of `agent` are `change[0]` in one world and `change[1]` in the other.

    Called with a world (0 or 1), a Generator and a count, it plays `count` replicas of that world, once for each of
    the `channel_configs`, always from the same seed.

    Attributes:
        env: the population, without wrappers; `Population.private` defines its agents' data.
        channel_configs: the configurations on its channels in each of the runs that are audited together.
        policies: the acting policies, `{role: policy}`.
        change: the data in the two worlds.
        steps: turns to play; None: until the end.
        agent: index among the senders of the agent with changed data.
        delta: delta of the claim.
        composition: composition method of the accountant for the claim.
        moved: how far private data move the agent's messages, as a share of the sensitivity: see `AuditResult`.
    """

    env: Population[Any]
    channel_configs: list[dict[str, ChannelConfig]]
    policies: dict[str, Any]
    change: tuple[Any, Any]
    steps: int | None
    agent: int
    delta: float
    composition: Method = "rdp"
    moved: float = math.nan
    _totals: list[Array] = field(default_factory=list)
    _directions: dict[str, Array | None] = field(default_factory=dict)
    _sizes: dict[str, int] = field(default_factory=dict)  # of messages, on the channels that are used
    _pilots: list[tuple[Witness, Witness]] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        env: Any,
        policy: Any,
        change: Any,
        steps: int | None,
        agent: int,
        delta: float,
        composition: Method,
        beside: Sequence[Any] = (),
    ) -> "ChangedRuns":
        """Check the arguments of `audit`; ValueError if they cannot be played."""
        population = population_of(env)
        if population is None:
            raise ValueError(
                f"change must be None unless an environment of this suite is audited, and it is {change!r}"
            )
        policies = as_policies(population, policy)
        if isinstance(population, ControlledAgent):
            raise ValueError("env must be a whole environment to be audited, not a ControlledAgent")
        if isinstance(population, Controlled):
            policies, population = {**population.others, **policies}, population.inner
        configs = []
        for each in (env, *beside):
            other = population_of(each)
            other = other.inner if isinstance(other, Controlled) else other
            if other is None or other.kind is not population.kind or other.params != population.params:
                raise ValueError(f"beside must hold the environment {population!r} with other mechanisms, not {each!r}")
            configs.append(join(other.channel_configs, added_configs(each)))
        if not population.channels:
            raise ValueError(f"env must have a channel, and {population.name!r} has none")
        if not isinstance(change, tuple | list) or len(change) != 2:
            raise ValueError(f"change must be the agent's data in the two worlds, (x0, x1), not {change!r}")
        most = min(channel.num_senders for channel in population.channels.values()) - 1
        integer("agent", agent, at_least=0, at_most=most)
        if steps is not None:
            steps = integer("steps", steps, at_least=1)
        return cls(population, configs, policies, (change[0], change[1]), steps, agent, delta, composition)

    def __call__(self, world: int, rng: np.random.Generator, count: int) -> Array:
        if not self._directions:
            self._find_directions(rng)
        seed, features, totals = int(rng.integers(2**63)), [], []
        for configs, pilot in zip(self.channel_configs, self._pilots, strict=True):
            seen, heard = self._play(world, count, seed, configs, pilot)
            totals.append(self._claims(seen.population))
            for name, direction in self._directions.items():
                heard[name].finish(count, self._sizes[name])
                features.append(heard[name].features(direction))
            features.append(seen.features())
        self._totals.append(np.sum(totals, 0))
        return np.concatenate(features, 1)

    @property
    def idealised(self) -> bool:
        """Whether any mechanism on the channels draws its noise in floating point."""
        configs = [config for each in self.channel_configs for config in each.values()]
        mechanisms = [config.mechanism for config in configs if config.mechanism is not None]
        return any(getattr(mechanism, "mechanism", mechanism).idealised for mechanism in mechanisms)

    def _play(
        self,
        world: int,
        count: int,
        seed: int,
        configs: dict[str, ChannelConfig],
        pilot: tuple[Witness, Witness] | None = None,
        watched: bool = True,
    ) -> tuple[Witness, dict[str, Transcript]]:
        agent, data = self.agent, np.asarray(self.change[world])

        def private(_: Any, drawn: Array, agents: Array | None = None) -> Array:
            changed = drawn.copy()
            if agents is None:
                changed[:, agent] = data
            else:
                changed[agents == agent] = data
            return changed

        if data.ndim == 0 and float(data).is_integer():  # compiled, and a hundred times faster
            private.plain = constant(agent, int(data))  # type: ignore[attr-defined]
        population = self.env.alike(count, private=private)

        def clock() -> Array:  # in some environments agents send when a run begins
            return np.zeros(count) if population._state is None else population.clock()

        heard = {name: Transcript(agent, clock) for name in population.channels}
        faults = {name: ChannelConfig(faults=(one,)) for name, one in heard.items()}
        population.reset(seed=seed, options={"channels": join(configs, faults)})
        begin(population, self.policies)
        seen = Witness(population, agent, pilot)
        if watched:
            seen.play(self.policies, self.steps)
        else:
            population.advance(self.policies, steps=self.steps)
        return seen, heard

    def _find_directions(self, rng: np.random.Generator) -> None:
        """For long messages, the line between their means in the two worlds without noise. For all that agents see, the
        pilot runs with noise, which an attacker who knows the data can play."""
        seed = int(rng.integers(2**63))
        noted = {name: Noted() for name, one in self.env.channels.items() if not one.chosen}
        bare = {name: ChannelConfig(mechanism) for name, mechanism in noted.items()}
        first, second = (self._play(world, PILOT, seed, bare, watched=False)[1] for world in (0, 1))
        for pilot in (first, second):
            self._sizes |= {name: one.first.shape[1] for name, one in pilot.items() if one.sends}
        if not self._sizes:
            channels = ", ".join(map(repr, first))
            raise ValueError(f"steps must be enough for a message on a channel ({channels}), not {self.steps!r}")
        moved = []
        for name, size in self._sizes.items():
            transcript = first[name]
            transcript.finish(PILOT, size)
            second[name].finish(PILOT, size)
            difference = (second[name].means() - transcript.means()).mean(0)
            wide = difference.size > WIDE
            self._directions[name] = difference / (np.linalg.norm(difference) or 1.0) if wide else None
            if name in noted:
                norm = 2 if self.env.channels[name].payload == "vector" else 1
                pairs = zip(transcript.own, second[name].own, strict=False)
                moved += [noted[name].share(np.linalg.norm(one - two, norm, axis=1)) for one, two in pairs]
        self.moved = float(np.concatenate(moved).mean()) if moved else math.nan
        for configs in self.channel_configs:
            one, two = (self._play(world, PILOT, seed, configs)[0] for world in (0, 1))
            self._pilots.append((one, two))

    @property
    def claimed(self) -> float:
        """The agent's largest epsilon so far, at user level, over all channels of its role; inf if one has no
        mechanism."""
        return max((float(total.max()) for total in self._totals), default=0.0)

    @property
    def spent(self) -> float:
        """The mean over runs of the agent's epsilon (see `claimed`)."""
        return float(np.concatenate(self._totals).mean()) if self._totals else math.nan

    def _claims(self, population: Population[Any]) -> Array:
        if population.accountant is None:
            return np.full(1, np.inf)
        totals: Callable[..., Array] = population.accountant.epsilon
        roles = {channel.sender for channel in population.channels.values()}
        given: dict[str, Any] = {"method": self.composition, "unit": "user"}
        return np.max([totals(self.delta, role=role, **given)[:, self.agent] for role in roles], 0)
