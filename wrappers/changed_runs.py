"""Audits of whole runs: two worlds that differ in the private data of one agent, and an attacker that reads everything
the observer reads.

The other audits (`taciturn.wrappers.canary`) replace what an agent sends; here its data is replaced, and the world
decides what follows: which messages are sent, when, and by whom. The certificate is compared with the ledger's total
for that agent, at user level.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from taciturn.envs.core import Array, ChannelConfig, Controlled, Population, Seat, as_policies, begin, integer, join
from taciturn.envs.core.channel import Fault
from taciturn.privacy.composition import Method
from taciturn.privacy.mechanisms import NoPrivacy
from taciturn.wrappers.channels import added_configs, population_of

SENDS = 16  # for this many sends, whether the agent spoke is a separate feature
WIDE = 16  # longer messages are projected on the line between the means of the two worlds
PILOT = 32  # noiseless runs that find this line


@dataclass(frozen=True)
class Noted(NoPrivacy):
    """Leaves messages as they are, and notes the largest sensitivity that the world states."""

    closed_counts: ClassVar[bool] = False
    stated: list[float] = field(default_factory=list, compare=False)

    def perturb(self, x: Any, rng: np.random.Generator, sensitivity: Any = None) -> Array:
        if sensitivity is not None:
            self.stated.append(float(np.max(sensitivity, initial=0.0)))
        return super().perturb(x, rng, sensitivity)

    def share(self, distances: Array) -> Array:
        """Distances between messages as a share of the sensitivity, at most 1; without a stated sensitivity, 1 if
        messages differ."""
        return np.minimum(distances / max(self.stated), 1.0) if self.stated else (distances > 0).astype(np.float64)


class Transcript(Fault):
    """Records what passes on a channel, after all faults: a summary of every replica, in numbers.

    Attributes:
        spoke: for the first sends, whether the agent's message arrived, float64[B, SENDS].
        number: the agent's messages, and those of the others, float64[B, 2].
        last: the last send with a message of the agent, counted from 1, float64[B].
        first: the first message of the agent, float64[B, D].
        sums: the sums of its messages, and of the others', float64[B, 2, D].
        own: in pilot runs, all of its messages, [B, D] each.
    """

    order: ClassVar[int] = 6
    observes: ClassVar[bool] = True

    def __init__(self, agent: int) -> None:
        self.agent, self.sends = agent, 0
        self.own: list[Array] = []

    def deliver(
        self, y: Array, sent: Array, sending: Array, memory: dict[str, Array], rng: np.random.Generator
    ) -> tuple[Array, Array]:
        messages = np.where(sent[:, :, None], y.reshape(*y.shape[:2], -1), 0).astype(np.float64)
        own = sent[:, self.agent]
        if not self.sends:
            size = messages.shape[2]
            self.spoke, self.number, self.last = (np.zeros((len(y), n)) for n in (SENDS, 2, 1))
            self.first, self.sums = np.zeros((len(y), size)), np.zeros((len(y), 2, size))
        mine = messages[:, self.agent]
        if len(y) <= PILOT:
            self.own.append(mine)
        self.first = np.where(((self.number[:, 0] == 0) & own)[:, None], mine, self.first)
        self.sums[:, 0] += mine
        self.sums[:, 1] += messages.sum(1) - mine
        self.number[:, 0] += own
        self.number[:, 1] += sent.sum(1) - own
        self.sends += 1
        if self.sends <= SENDS:
            self.spoke[:, self.sends - 1] = own
        self.last[own] = self.sends
        return y, sent

    def means(self) -> Array:
        """The mean of the agent's messages, float64[B, D]."""
        return self.sums[:, 0] / np.maximum(self.number[:, :1], 1)

    def features(self, direction: Array | None) -> Array:
        """The whole record as features, float64[B, F]; messages are projected on `direction` [D], if given."""
        others = self.sums[:, 1] / np.maximum(self.number[:, 1:], 1)
        messages = [m if direction is None else m @ direction[:, None] for m in (self.first, self.means(), others)]
        return np.concatenate([self.spoke, self.number, self.last, *messages], 1)


@dataclass
class ChangedRuns:
    """Makes transcripts of runs in which the private data of `agent` is `change[0]` in one world and `change[1]` in the
    other.

    Called with a world (0 or 1), a Generator and a count, it plays `count` replicas of that world.

    Attributes:
        env: the population that is played, without wrappers; `Population.private` says what its agents' data is.
        channel_configs: what is installed on its channels.
        policies: who acts, `{role: policy}`.
        change: the data in the two worlds.
        steps: turns to play; None: until the end.
        agent: whose data differs, by its place among the senders.
        delta: of the claim.
        composition: how the ledger composes messages for the claim.
        moved: how far private data move the agent's messages, as a share of the sensitivity: see `AuditResult`.
    """

    env: Population[Any]
    channel_configs: dict[str, ChannelConfig]
    policies: dict[str, Any]
    change: tuple[Any, Any]
    steps: int | None
    agent: int
    delta: float
    composition: Method = "rdp"
    moved: float = math.nan
    _totals: list[Array] = field(default_factory=list)
    _directions: dict[str, Array | None] = field(default_factory=dict)

    @classmethod
    def of(
        cls, env: Any, policy: Any, change: Any, steps: int | None, agent: int, delta: float, composition: Method
    ) -> "ChangedRuns":
        """Check the arguments of `audit`; ValueError if they cannot be played."""
        population = population_of(env)
        if population is None:
            raise ValueError(
                f"change must be None unless an environment of this suite is audited, and it is {change!r}"
            )
        policies = as_policies(population, policy)
        if isinstance(population, Seat):
            raise ValueError("env must be a whole world to be audited, not the seat of one agent")
        if isinstance(population, Controlled):
            policies, population = {**population.others, **policies}, population.inner
        configs = join(population.channel_configs, added_configs(env))
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
        population, heard = self._play(world, count, int(rng.integers(2**63)), self.channel_configs)
        self._totals.append(self._claims(population))
        return np.concatenate([transcript.features(self._directions[name]) for name, transcript in heard.items()], 1)

    @property
    def idealised(self) -> bool:
        """Whether any mechanism on the channels draws its noise in floating point."""
        laws = [config.mechanism for config in self.channel_configs.values() if config.mechanism is not None]
        return any(getattr(law, "mechanism", law).idealised for law in laws)

    def _play(
        self, world: int, count: int, seed: int, configs: dict[str, ChannelConfig]
    ) -> tuple[Population[Any], dict[str, Transcript]]:
        agent, data = self.agent, np.asarray(self.change[world])

        def private(_: Any, drawn: Array, agents: Array | None = None) -> Array:
            changed = drawn.copy()
            if agents is None:
                changed[:, agent] = data
            else:
                changed[agents == agent] = data
            return changed

        population = self.env.alike(count, private=private)
        heard = {name: Transcript(agent) for name in population.channels}
        faults = {name: ChannelConfig(faults=(one,)) for name, one in heard.items()}
        population.reset(seed=seed, options={"channels": join(configs, faults)})
        begin(population, self.policies)
        population.advance(self.policies, steps=self.steps)
        silent = [name for name, one in heard.items() if not one.sends]
        if silent:
            raise ValueError(f"steps must be enough for a message on channel {silent[0]!r}, not {self.steps!r}")
        return population, heard

    def _find_directions(self, rng: np.random.Generator) -> None:
        """For long messages, the line between their means in the two worlds, which an attacker who knows the data can
        compute."""
        seed = int(rng.integers(2**63))
        noted = {name: Noted() for name, one in self.env.channels.items() if not one.chosen}
        bare = {name: ChannelConfig(law) for name, law in noted.items()}
        first, second = (self._play(world, PILOT, seed, bare)[1] for world in (0, 1))
        moved = []
        for name, transcript in first.items():
            difference = (second[name].means() - transcript.means()).mean(0)
            wide = difference.size > WIDE
            self._directions[name] = difference / (np.linalg.norm(difference) or 1.0) if wide else None
            if name in noted:
                norm = 2 if self.env.channels[name].payload == "vector" else 1
                pairs = zip(transcript.own, second[name].own, strict=False)
                moved += [noted[name].share(np.linalg.norm(one - two, norm, axis=1)) for one, two in pairs]
        self.moved = float(np.concatenate(moved).mean()) if moved else math.nan

    @property
    def claimed(self) -> float:
        """The largest total of the agent so far, at user level, over all channels on which its role sends; inf if one
        has no mechanism."""
        return max((float(total.max()) for total in self._totals), default=0.0)

    @property
    def spent(self) -> float:
        """The mean of these totals over runs."""
        return float(np.concatenate(self._totals).mean()) if self._totals else math.nan

    def _claims(self, population: Population[Any]) -> Array:
        if population.ledger is None:
            return np.full(1, np.inf)
        totals: Callable[..., Array] = population.ledger.total
        roles = {channel.sender for channel in population.channels.values()}
        given: dict[str, Any] = {"method": self.composition, "unit": "user"}
        return np.max([totals(self.delta, role=role, **given)[:, self.agent] for role in roles], 0)
