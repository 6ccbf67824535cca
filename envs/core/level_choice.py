"""Choosing the level of messages as an action: agents decide how much to reveal, from public information alone."""

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import gymnasium
import numpy as np

from taciturn.channels.config import ChannelConfig, join
from taciturn.envs.core.around import Around
from taciturn.envs.core.info import Info
from taciturn.envs.core.population import Population
from taciturn.envs.core.public import Passing, has_public_schedule
from taciturn.envs.core.roles import Layout, Role
from taciturn.envs.core.steps import Step, check_room, filled
from taciturn.privacy.budget import Budget
from taciturn.privacy.mechanisms import ChosenLevels, Mechanism
from taciturn.validation import Array, Floats, choice, number, shown, vector

INSTALLED, CHOSEN = "installed", "chosen"
LEVELS = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)
COMMUNICATOR = "communicator"
UNDECLARED = "who chooses the levels of messages has declared no public schedule"
MOST_LEVEL = 1e3
UNLIMITED = 1e6  # the largest value of `spent` in observations, without a budget


@dataclass(frozen=True, kw_only=True)
class LevelChoiceParams:
    """The parameters of environments with chosen message levels.

    Attributes:
        message_levels: "installed": every message has the level of the mechanism installed on the channel; "chosen":
            each agent chooses the level of its next message, see `LevelChoice`.
        levels: the epsilons to choose from, increasing, the first 0.
        epsilon_budget: an agent's epsilon budget for a run, by basic composition, > 0; None: unlimited.

    Raises:
        ValueError: a parameter is outside its range, or would have no effect.
    """

    message_levels: str = INSTALLED
    levels: tuple[float, ...] = LEVELS
    epsilon_budget: float | None = None

    def check_level_choice(self) -> None:
        """Validate these parameters."""
        choice("message_levels", self.message_levels, (INSTALLED, CHOSEN))
        levels = vector("levels", self.levels)
        if levels.size < 2 or levels[0] != 0 or not (np.diff(levels) > 0).all() or levels[-1] > MOST_LEVEL:
            raise ValueError(
                f"levels must be two or more increasing numbers from 0 to at most {MOST_LEVEL:g}, the first 0, not "
                f"{shown(self.levels)}"
            )
        object.__setattr__(self, "levels", tuple(levels.tolist()))
        if self.epsilon_budget is not None:
            number("epsilon_budget", self.epsilon_budget, above=0, at_most=UNLIMITED)
        for name, usual in (("levels", LEVELS), ("epsilon_budget", None)):
            if self.message_levels != CHOSEN and getattr(self, name) != usual:
                raise ValueError(
                    f"{name} has no effect unless message_levels is {CHOSEN!r}, but it is "
                    f"{shown(getattr(self, name))}: leave it out"
                )


class MessageSpec(NamedTuple):
    """How agents of an environment send messages (`Population.message_spec`).

    Attributes:
        channel: the channel with chosen levels.
        mechanism: the class of mechanisms that perturb the messages, made from an epsilon.
        repeats: whether an agent that sends no new message repeats its last one.
        size, low, high: length of a message, and its bounds.
    """

    channel: str
    mechanism: Callable[[float], Mechanism]
    repeats: bool
    size: int
    low: float
    high: float


class LevelChoice(Around):
    """An environment with chosen levels: before each of its turns, an agent chooses the level of its next message.

    `World` makes it for `message_levels="chosen"`. It adds a role: `communicator_i` chooses for sender i. An action is
    an index into `levels`. At a level epsilon > 0 the next message is perturbed with that epsilon, and the accountant
    charges it. Level 0 costs nothing and sends no new message: where messages are preferences, an agent repeats its
    last message, if there is one; in all other cases it sends nothing (`ChosenLevels`). A level holds for one turn,
    whether or not the agent sends a message in it. Messages sent before the first choice have level 0.

    A communicator observes public information only, known to a reader of the channel or implied by the public
    parameters:

    - `time` and `time_left`, in the unit of the environment's clock;
    - `spent`, the sum of the levels of its messages so far, and `left`, the rest of its `epsilon_budget` (without a
      budget, the highest level);
    - `standing`, the level of its last message that was read (0 if none was);
    - `received`, the mean of all agents' last messages read, and `share`, the share of agents with a message read;
    - `num_agents`.

    The reward of each communicator is the mean over agents of their earnings, summed over the run and paid at its end:
    rewards are private, and would leak if levels could depend on them. But a policy may know more than it observes, if
    it shares an object with the agents' policy, or if your own loop plays both. So where epsilon is finite with
    installed levels, it is finite here only if the communicators' policy is not also the agents' policy, and declares a
    public schedule (`Policy.public_schedule`), which includes the levels; in a loop of steps,
    `reset(options={"public_schedule": True})` declares it. Levels above the remaining budget are masked; a masked level
    is played as level 0.

    The environment's other agents get one more field, `received_level`: the mean level of the last messages read, 0 if
    none was.

    Args:
        population: an environment with one role that acts in every turn, and a `message_spec`.

    Raises:
        ValueError: the channel already has a mechanism, or the environment cannot use this one.
    """

    name: ClassVar[str] = "speaking"

    def __init__(self, population: Population[Any]) -> None:
        message_spec: MessageSpec = population.message_spec()
        self._message_spec = message_spec
        params = population.params
        self.grid: Floats = np.array(params.levels)
        self._budget = Budget(params.epsilon_budget or UNLIMITED)
        mechanism = ChosenLevels(message_spec.mechanism(params.levels[-1]), message_spec.repeats)
        config = ChannelConfig(mechanism, None if params.epsilon_budget is None else self._budget)
        standing = population.channel_configs.get(message_spec.channel, ChannelConfig())
        if standing.mechanism != mechanism:
            config = join({message_spec.channel: config}, {message_spec.channel: standing})[message_spec.channel]
            population.check_config(message_spec.channel, config)
            population.channel_configs = population.channel_configs | {message_spec.channel: config}
        population.channels[message_spec.channel].undeclared = UNDECLARED
        super().__init__(population)
        self.name = population.name  # type: ignore[misc]
        self.clock_unit, self.aliases = population.clock_unit, population.aliases
        self.turns = ((COMMUNICATOR,), tuple(population.roles))
        self._earned: Floats = np.zeros(self.num_envs)
        self._after: tuple[Any, Any] = (None, None)

    def __repr__(self) -> str:
        return f"<Speaking in {self.inner!r}>"

    @property
    def passes(self) -> Mapping[str, Passing]:  # type: ignore[override]
        """The `passes` of the inner population."""
        return self.inner.passes

    @property
    def kind(self) -> type[Population[Any]]:
        return self.inner.kind

    def around(self, inner: Population[Any], duplicate: Callable[[Any], Any]) -> Self:
        view = copy(self)
        LevelChoice.__init__(view, inner)
        return view

    def alike(self, num_envs: int, **hooks: Any) -> "LevelChoice":
        made = LevelChoice(self.inner.alike(num_envs, **hooks))
        made.channel_configs = made.inner.channel_configs = {}
        return made

    @property
    def state(self) -> Any:
        """The inner population's state; a new object after each turn."""
        before = super().state
        if self._turn == 0:
            return before
        if self._after[0] is not before:
            self._after = before, copy(before)
        return self._after[1]

    @property
    def channel(self) -> Any:
        """The channel with chosen levels."""
        return self.channels[self._message_spec.channel]

    def make_roles(self) -> tuple[Role, ...]:
        inner, message_spec = self.inner, self._message_spec
        horizon, most = float(inner.params.horizon), self.grid[-1]
        epsilon_budget = inner.params.epsilon_budget
        agents = inner.channels[message_spec.channel].num_senders
        layout = Layout(
            time=(1, 0, horizon),
            time_left=(1, 0, horizon),
            spent=(1, 0, epsilon_budget or UNLIMITED),
            left=(1, 0, epsilon_budget or most),
            standing=(1, 0, most),
            received=(message_spec.size, message_spec.low, message_spec.high),
            share=(1, 0, 1),
            num_agents=(1, 0, agents),
        )
        communicators = Role(COMMUNICATOR, agents, layout, gymnasium.spaces.Discrete(self.grid.size))
        hears: Any = {"received_level": (1, 0, most)}
        own = (replace(role, layout=Layout(**role.layout.fields, **hears)) for role in inner.roles.values())
        return (*own, communicators)

    def played_by(self, *casts: Any) -> None:
        """See `Population`; epsilon is finite only if the communicators declare a public schedule, too."""
        self.inner.played_by(*casts)
        communicators = [cast[COMMUNICATOR] for cast in casts if COMMUNICATOR in cast]
        if communicators and all(map(has_public_schedule, communicators)) and self.channel.unbounded == UNDECLARED:
            self.channel.unbounded = ""

    def reset(
        self, *, seed: int | None = None, options: Any = None, where: Array | None = None
    ) -> tuple[dict[str, Array], Info]:
        inner = self.inner
        if where is not None and self._turn != 0 and not self._marked(where).all():
            raise ValueError(f"where needs the cycle of turns to be complete, but it is the turn of {self.turn}")
        _, info = inner.reset(seed=seed, options=options, where=where)
        if inner.params is not self.params:
            self.params = inner.params
            if not self._fixed_spaces:
                self.roles = {role.name: role for role in self.make_roles()}
        self._earned = np.where(True if where is None else where, 0.0, self._earned)
        self._turn = 0
        return self.observe(), info

    def step(self, actions: Any, where: Array | None = None, out: Array | None = None) -> Step:
        frozen = self._running(where)
        checked, live = self._checked(actions), ~frozen
        check_room(self, out)
        self._settle()
        if self.turn == (COMMUNICATOR,):
            if self.channel.takes_levels:
                self.channel.levels[live] = self.grid[checked[COMMUNICATOR]][live]
            self._turn = 1
            paid = {COMMUNICATOR: np.zeros((self.num_envs, self.roles[COMMUNICATOR].num_agents))}
            return self._stepped(filled(out, self.observe()), paid, dict, live)
        (role,) = checked
        step = self.inner.step(checked[role], where)
        self._turn = 0
        self._earned = self._earned + step.reward.sum(1) / self.roles[role].num_agents
        pays = (self._earned * (live & self.done))[:, None]
        paid = {role: step.reward, COMMUNICATOR: np.repeat(pays, self.roles[COMMUNICATOR].num_agents, 1)}
        return Step(filled(out, self.observe()), paid, self.terminated, self.truncated, partial(getattr, step, "info"))

    def spent(self) -> Floats:
        """The sum of the levels of each agent's messages so far, float64[B, N]."""
        shape = (self.num_envs, self.roles[COMMUNICATOR].num_agents)
        if self.accountant is None:
            return np.zeros(shape)
        return np.broadcast_to(self._budget.spent(self.accountant, self._message_spec.channel), shape)

    def look(self, role: str, rows: Array | None = None) -> Array:
        """See `Population`; always computed from the current public information."""
        channel = self.channel
        sent = channel.standing > 0 if channel.takes_levels else np.zeros(channel.messages().shape, np.bool_)
        if role != COMMUNICATOR:
            levels = channel.standing.sum(1) / np.maximum(sent.sum(1), 1) if channel.takes_levels else sent.sum(1)
            seen = self.inner.look(role, rows)
            most = np.minimum(levels, self.grid[-1])[:, None, None]
            return np.concatenate([seen, np.broadcast_to(most, (*seen.shape[:2], 1))], 2, dtype=np.float32)
        time, spent = self.clock()[:, None], self.spent()
        epsilon_budget = self.params.epsilon_budget
        received = np.zeros((self.num_envs, 1, self._message_spec.size))
        if channel.takes_levels and channel.read.shape[1] == self._message_spec.size:
            received[:, 0] = channel.read
        seen = self.roles[COMMUNICATOR].layout.pack(
            time=time,
            time_left=self.horizon - time,
            spent=spent,
            left=np.full(spent.shape, self.grid[-1]) if epsilon_budget is None else epsilon_budget - spent,
            standing=channel.standing if channel.takes_levels else np.zeros(spent.shape),
            received=received,
            share=sent.mean(1)[:, None],
            num_agents=np.full((self.num_envs, 1), float(spent.shape[1])),
        )
        return seen if rows is None else np.take_along_axis(seen, rows[:, :, None], 1)

    def acting(self, role: str) -> Array | None:
        return None if role == COMMUNICATOR else self.inner.acting(role)

    def action_mask(self, role: str) -> Array | None:
        """For communicators: the levels within the remaining budget, int8[B, N, levels]; None without a budget."""
        if role != COMMUNICATOR:
            return self.inner.action_mask(role)
        if self.params.epsilon_budget is None or self.accountant is None:
            return None
        fits = [
            self._budget.allows(self.accountant, np.full((1, 1), level), self._message_spec.channel)
            for level in self.grid
        ]
        shape = (self.num_envs, self.roles[COMMUNICATOR].num_agents)
        return np.stack([np.broadcast_to(fit, shape) for fit in fits], 2).astype(np.int8)

    def default_action(self, role: str) -> Array:
        """For communicators: level 0."""
        if role != COMMUNICATOR:
            return self.inner.default_action(role)
        return np.zeros((self.num_envs, self.roles[COMMUNICATOR].num_agents), np.int64)


def with_level_choice(population: Population[Any]) -> Any:
    """The population with communicators if its parameter `message_levels` is "chosen"; otherwise unchanged."""
    return LevelChoice(population) if getattr(population.params, "message_levels", INSTALLED) == CHOSEN else population
