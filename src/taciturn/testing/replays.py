"""A check of environments: private data reach other agents only through channels."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from taciturn.envs.core import (
    Around,
    Array,
    Channel,
    ChannelConfig,
    Fault,
    Population,
    Rollout,
    as_policies,
    begin,
    fields,
)
from taciturn.envs.core.controlled import Played
from taciturn.envs.core.level_choice import COMMUNICATOR
from taciturn.privacy.mechanisms import NoPrivacy
from taciturn.testing.cases import Case, chosen, random_actions, world_check

TURNS, REPLICAS, SEED = 16, 3, 3


@dataclass
class Replayed:
    """The result of `replayed`.

    Attributes:
        name: the environment's name.
        turns: how many turns each play had.
        deliveries: how many uses of channels were held fixed.
        replaced: how many private numbers were replaced as they were drawn.
        changed: how many entries of private fields were changed, by field name.
    """

    name: str
    turns: int = 0
    deliveries: int = 0
    replaced: int = 0
    changed: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        entries = ", ".join(f"{count:,} of {name}" for name, count in sorted(self.changed.items()))
        return (
            f"{self.name}: nothing private passes beside the channels ({self.turns} turns, {self.deliveries} "
            f"deliveries held fixed; {self.replaced:,} private numbers replaced; entries changed: {entries or 'none'})"
        )


class Agent(NamedTuple):
    """A sender, given by its number; its private data are changed."""

    role: str
    number: int


class Passed(NamedTuple):
    """One use of a channel: its name, the agents' messages [B, N, ...], the senders bool[B, N], and the result."""

    channel: str
    messages: Any
    senders: Any
    result: Any


class Play:
    """One recorded play of an environment.

    Attributes:
        turns: everything that agents learn without a channel in each turn, `{(what, role): array}`.
        passed: each use of a channel.
        actions: the actions of each turn.
        drawn: the values of private numbers that were drawn, by their type.
        own: the private fields after each turn.
        replaced: how many private numbers were replaced as they were drawn.
        exchanged: how many entries were exchanged, by field.
    """

    def __init__(self, before: "Play | None" = None, agent: Agent | None = None) -> None:
        self.before, self.agent = before, agent
        self.turns: list[dict[tuple[str, str], Array]] = []
        self.passed: list[Passed] = []
        self.actions: list[Any] = []
        self.drawn: dict[str, set[Any]] = {}
        self.own: list[dict[str, Array]] = []
        self.replaced = 0
        self.exchanged: Counter[str] = Counter()

    def private(self, drawn: Array, agents: Array | None) -> Array:
        """Replaces `Population.private`."""
        drawn = np.asarray(drawn)
        if self.before is None or self.agent is None:
            if drawn.ndim == 2:
                self.drawn.setdefault(drawn.dtype.kind, set()).update(drawn.ravel().tolist())
            return drawn
        mine = (np.arange(drawn.shape[1]) if agents is None else agents) == self.agent.number
        other = changed(drawn, self.before.drawn.get(drawn.dtype.kind, set()))
        result = np.where(mine.reshape(*mine.shape, *[1] * (drawn.ndim - 2)), other, drawn)
        self.replaced += int((result != drawn).sum())
        return result

    def listen(self, channel: Channel) -> None:
        """Record every use of a channel; if there is an earlier play, deliver the messages of that play."""
        for method in ("send", "tally", "answer"):
            setattr(channel, method, self.passing(channel, method, getattr(channel, method)))

    def passing(self, channel: Channel, method: str, pass_on: Callable[..., Any]) -> Callable[..., Any]:
        def pass_fixed(x: Array, *given: Any, **named: Any) -> Any:
            result = pass_on(x, *given, **named)
            senders = named.get("senders", given[0] if given else None) if method == "send" else None
            if self.before is not None:
                place = len(self.passed)
                if place == len(self.before.passed) or self.before.passed[place].channel != channel.name:
                    raise AssertionError(f"something is sent on channel {channel.name!r} that was not sent before")
                result = self.before.passed[place].result
            kept = tuple(np.array(one) for one in result)
            senders = None if senders is None else np.array(senders)  # environments reuse their own arrays
            self.passed.append(Passed(channel.name, np.array(x) if method == "send" else None, senders, kept))
            return tuple(one.copy() for one in kept)

        return pass_fixed

    def note(self, population: Population[Any], reward: Any) -> None:
        """Record everything that agents learn in a turn."""
        now = {("clock", ""): population.clock(), ("end", ""): population.done.copy()}
        for role in population.turn:
            now |= {("observations", role): everyone_sees(population, role)}
            now |= {("action mask", role): mask} if (mask := masks(population, role)) is not None else {}
        if reward is not None:
            by_role = reward if isinstance(reward, Mapping) else {next(iter(population.roles)): reward}
            acted = {role: self.turns[-1].get(("who acts", role)) for role in by_role}
            if (
                population.done.all()
            ):  # at the end communicators are rewarded by all agents' total reward, for their training
                by_role = {role: value for role, value in by_role.items() if role != COMMUNICATOR}
            now |= {("reward", role): by_agent(population, role, value, acted[role]) for role, value in by_role.items()}
        acting = {role: population.acting(role) for role in population.turn}
        now |= {("who acts", role): rows for role, rows in acting.items() if rows is not None}
        self.turns.append({what: np.array(value) for what, value in now.items()})
        inner = inside(population)
        names = fields.of_kind(type(inner.state), fields.OWN)
        self.own.append({name: np.array(getattr(inner.state, name)) for name in names})
        if self.agent is not None:
            self.exchange(population, inner)

    def exchange(self, population: Population[Any], inner: Population[Any]) -> None:
        """Exchange the agent's entries of private fields between replicas: others must observe the same."""
        assert self.agent is not None
        seen = {role: everyone_sees(population, role) for role in population.turn}
        masked = {role: masks(population, role) for role in population.turn}
        other: dict[str, Array] = {}
        for name, values in self.own[-1].items():
            if owned(inner, name, self.agent) and values.ndim > 1 and values.shape[1] > self.agent.number:
                new = values.copy()
                new[:, self.agent.number] = np.roll(values[:, self.agent.number], 1, 0)
                self.exchanged[name] += int((new != values).reshape(len(values), -1).any(1).sum())
                other[name] = new
        before = put(inner, other)
        try:
            for role in population.turn:
                self.same(("observations", role), population, seen[role], everyone_sees(population, role))
                if masked[role] is not None:
                    self.same(("action mask", role), population, masked[role], masks(population, role))
        finally:
            put(inner, before)

    def same(
        self, what: tuple[str, str], population: Population[Any], one: Any, two: Any, turn: int | None = None
    ) -> None:
        """Check that a part of a turn (None: the last one) is the same for all other agents."""
        name, role = what
        assert self.agent is not None
        differs = one != two
        if role == self.agent.role and name != "who acts":
            differs[:, self.agent.number] = False
        if not differs.any():
            return
        where = ""
        if name == "observations":
            slices = population.roles[role].layout.slices.items()
            where = f" in {', '.join(field for field, part in slices if differs[..., part].any())}"
        raise AssertionError(
            f"{name} of {role or 'the run'}{where} must not depend on private data of {self.agent.role} "
            f"{self.agent.number} that no channel delivered, in turn "
            f"{len(self.turns) - 1 if turn is None else turn} of {population.name}"
        )

    def compare(self, population: Population[Any]) -> None:
        """Compare with the earlier play."""
        before, agent = self.before, self.agent
        assert before is not None
        assert agent is not None
        for place, (one, two) in enumerate(zip(before.turns, self.turns, strict=False)):
            for what, value in one.items():
                if what not in two or value.shape != two[what].shape:
                    raise AssertionError(f"{what[0]} in turn {place} of {population.name} depends on private data")
                self.same(what, population, value, two[what], place)
        if len(before.turns) != len(self.turns) or len(before.passed) != len(self.passed):
            raise AssertionError(f"when {population.name} ends, or what is sent, depends on private data of {agent}")
        for place, (first, again) in enumerate(zip(before.passed, self.passed, strict=True)):
            if first.messages is None or population.channels[first.channel].sender != agent.role:
                continue
            who = [
                np.ones(first.messages.shape[:2], np.bool_) if p.senders is None else p.senders for p in (first, again)
            ]
            others = np.arange(who[0].shape[1]) != agent.number
            sends = (who[0] & others).reshape(*who[0].shape, *[1] * (first.messages.ndim - 2))
            if (who[0] != who[1])[:, others].any() or (sends & (first.messages != again.messages)).any():
                raise AssertionError(
                    f"messages of others on channel {first.channel!r} must not depend on private data of {agent.role} "
                    f"{agent.number} that no channel delivered (message {place} of {population.name})"
                )


def changed(drawn: Array, known: set[Any]) -> Array:
    """Private data that differ from `drawn` [B, N, ...]; single numbers become one of the `known` possible values."""
    if drawn.dtype == np.bool_:
        return ~drawn
    if drawn.ndim > 2:
        return np.roll(drawn, 1, 1) if drawn.shape[1] > 1 else np.roll(drawn, 1, 0)
    values = np.array(sorted(known))
    if values.size < 2:
        return 1 - drawn
    place = np.searchsorted(values, drawn)
    return np.asarray(values[(place + 1 + place % 2 * (values.size - 2)) % values.size], drawn.dtype)


def inside(population: Population[Any]) -> Population[Any]:
    """The environment inside its wrappers."""
    while isinstance(population, Around):
        population = population.inner
    return population


def everyone_sees(population: Population[Any], role: str) -> Array:
    """The current observations of all agents of a role, [B, N, D]."""
    if population.acting(role) is None:
        return population.look(role)
    everyone = np.arange(population.roles[role].num_agents)
    return population.look(role, np.repeat(everyone[None], population.num_envs, 0))


def by_agent(population: Population[Any], role: str, values: Array, acting: Array | None) -> Array:
    """Values of the acting agents, [B, rows, ...], as values of all agents, [B, N, ...]; 0 for the others."""
    if acting is None:
        return values
    result = np.zeros((len(values), population.roles[role].num_agents, *values.shape[2:]), values.dtype)
    result[np.arange(len(values))[:, None], acting] = values
    return result


def masks(population: Population[Any], role: str) -> Array | None:
    """The action masks of all agents of a role, [B, N, n]; None if it has none."""
    mask = population.action_mask(role)
    return None if mask is None else by_agent(population, role, mask, population.acting(role))


def owned(population: Population[Any], name: str, agent: Agent) -> bool:
    """Whether a field belongs to agents of that agent's role."""
    return fields.owners(type(population.state))[name].role in ("", agent.role)


def put(population: Population[Any], values: Mapping[str, Array]) -> dict[str, Array]:
    """Put these values into the fields of the state; returns the earlier values."""
    world: Any = population
    before = {name: world.column(name).copy() for name in values}
    for name, value in values.items():
        world.column(name)[...] = value
    world._moved()
    return before


class Nothing(Fault):
    """A fault that does nothing."""

    observes = True


def run(plain: Population[Any], privacy: Mapping[str, Any], policies: Any, turns: int, play: Play) -> Population[Any]:
    """Play a run, and record it in `play`."""

    def private(_: Any, drawn: Array, agents: Array | None = None) -> Array:
        return play.private(drawn, agents)

    population = plain.alike(REPLICAS, private=private)
    # Every channel gets a mechanism or fault: otherwise an environment may count its messages in its state instead.
    asked = {
        name: ChannelConfig(faults=(Nothing(),)) if one.chosen else ChannelConfig(privacy.get(name) or NoPrivacy())
        for name, one in population.channels.items()
    }
    configs = {name: config for name, config in asked.items() if accepts(population, name, config)}
    for channel in population.channels.values():
        play.listen(channel)
    population.reset(seed=SEED, options={"channels": configs, "public_schedule": True})
    play.note(population, None)
    rng, rollout = np.random.default_rng(SEED), None
    if policies is not None:
        policies = as_policies(population, policies)
        begin(population, policies)
        rollout = Rollout(population, policies)

    def step(actions: Any) -> Any:
        play.actions.append(actions)
        return population.step(actions)

    turns = turns if play.before is None else len(play.before.actions)
    while len(play.actions) < turns and not population.done.all():
        if play.before is not None:
            made = step(play.before.actions[len(play.actions)])
        elif rollout is not None:
            made = rollout.play(step_by=step)
        else:
            made = step(chosen(population, random_actions(population, rng)))
        play.note(population, made.reward)
    return population


def accepts(population: Population[Any], channel: str, config: ChannelConfig) -> bool:
    try:
        population.check_config(channel, config)
    except ValueError:
        return False
    return True


def replayed(
    population: Population[Any], privacy: Mapping[str, Any] | None = None, policies: Any = None, turns: int = TURNS
) -> Replayed:
    """Check that private data reach other agents only through channels.

    A run is played again with all private data of one agent changed (`Population.private`); the deliveries of all
    channels, and all actions, are held fixed. Then the observations, action masks, rewards and messages of all other
    agents, which agents act, and when runs end must be the same. This is done for the first and the last sender. After
    each turn, the agent's entries of private fields (`taciturn.envs.core.fields`) are also exchanged between replicas,
    which must not change the observations of others.

    Args:
        population: the environment.
        privacy: `{channel: mechanism}`; other channels deliver messages unchanged.
        policies: the policies of the first play, `{role: policy}`; None: random actions.
        turns: the largest number of turns to play.

    Raises:
        AssertionError: something differs, or no private data were changed.
        ValueError: the environment has no channel.
    """
    if not population.channels:
        raise ValueError(f"env must have a channel, and {population.name} has none")
    mechanisms = privacy or {}
    first = Play()
    run(population, mechanisms, policies, turns, first)
    result = Replayed(population.name, len(first.actions), len(first.passed))
    for role, number in {channel.sender: channel.num_senders for channel in population.channels.values()}.items():
        for agent in (Agent(role, place) for place in sorted({0, number - 1})):
            again = Play(first, agent)
            played = run(population, mechanisms, None, turns, again)
            again.compare(played)
            for before, after in zip(first.own, again.own, strict=True):
                for name, values in before.items():
                    if owned(inside(played), name, agent) and values.ndim > 1 and values.shape[1] > agent.number:
                        differs = values[:, agent.number] != after[name][:, agent.number]
                        result.changed[name] += int(differs.reshape(len(differs), -1).any(1).sum())
            result.changed.update(again.exchanged)
            result.replaced += again.replaced
            if not again.replaced:
                raise AssertionError(
                    f"private data of {role} {agent.number} were not changed in {population.name}: pass what agents "
                    "observe for themselves through `private`"
                )
    return result


@world_check(lambda case: bool(case.population().channels) and not isinstance(case.population(), Played))
def private_data_pass_through_channels_only(case: Case) -> None:
    replayed(case.population(), case.privacy)


@world_check(lambda case: not case.one_by_one and not isinstance(case.population(), Around))
def agents_that_change_places_see_what_is_theirs(case: Case) -> None:
    """If the first and the last agent of a role exchange their entries of all fields, they exchange their observations,
    and all others observe the same."""
    population, rng = case.population(REPLICAS), np.random.default_rng(SEED)
    population.reset(seed=SEED)
    for _ in range(TURNS):
        population.step(chosen(population, random_actions(population, rng)))
        for role in population.turn:
            places = np.arange(population.roles[role].num_agents)
            places[[0, -1]] = places[[-1, 0]]
            exchanged = {}
            for name, owner in fields.owners(type(population.state)).items():
                values = getattr(population.state, name)
                theirs = owner.role in ("", role) and (owner.each or owner.kind == fields.PUBLIC)
                if theirs and values.shape[1:2] == places.shape:
                    exchanged[name] = values[:, places]
            expected = everyone_sees(population, role)[:, places]
            before = put(population, exchanged)
            np.testing.assert_array_equal(everyone_sees(population, role), expected)
            put(population, before)
        if population.done.all():
            break
