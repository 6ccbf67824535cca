"""The array form of a world: B replicas x rows of agents. Every other interface is a view over it."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import gymnasium
import numpy as np

from taciturn.envs.core.channel import Channel, ChannelConfig, join
from taciturn.envs.core.roles import Role
from taciturn.envs.core.seeding import Streams
from taciturn.validation import Array, integer, number

__all__ = ["Acts", "Controlled", "Population", "Rollout", "Step", "as_policies", "masked", "select"]

S = TypeVar("S")
Info = dict[str, Any]


class Acts(Protocol):
    """What a policy must do to act in a population."""

    def reset(self, env: "Population[Any]", rng: np.random.Generator, role: str | None = None) -> None:
        """Prepare for a fresh run in `env`, acting as `role`."""

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        """Choose actions [B, rows, ...] for observations [B, rows, D]."""

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        """Learn from one step: reward [B, rows], done bool[B]."""


class Step(NamedTuple):
    """What `Population.step` returns; with several roles, observation and reward are dicts by role."""

    observation: Any
    reward: Any
    terminated: Array
    truncated: Array
    info: Info


def select(mask: Array, yes: S, no: S) -> S:
    """Take the replicas `mask` bool[B] marks from the state `yes` and the others from `no`; both are left untouched."""
    picked: dict[str, Any] = {}
    for field in fields(yes):  # type: ignore[arg-type]
        a, b = getattr(yes, field.name), getattr(no, field.name)
        picked[field.name] = a if a is b else np.where(mask.reshape(-1, *[1] * (a.ndim - 1)), a, b)
    return replace(yes, **picked)  # type: ignore[type-var]


def masked(info: Info, mask: Array) -> Info:
    """An info that means something only where `mask` bool[B] is true."""
    values = {key: value for key, value in info.items() if not key.startswith("_")}
    return values | {f"_{key}": info.get(f"_{key}", True) & mask for key in values}


class Population(ABC, Generic[S]):
    """A world as arrays. A world writes the hooks; `reset`, `step` and `advance` are written here, once.

    Args:
        params: the world's validated parameters.
        num_envs: how many replicas, B.

    Attributes:
        roles: `{name: Role}`.
        channels: `{name: Channel}`, where private data leaves the agents.
        state: the world's State; its arrays lead with [B].
        streams: named random generators.
        done: bool[B], replicas that ended; they stay frozen until `reset(where=mask)`.
        channel_configs: what stands on the channels at every full reset, beside what its options say.
        ledger: what was spent since then, if some channel has a mechanism (`taciturn.wrappers.Ledger`).
        horizon: the run's length in the units of `clock()`, or None for the parameters' own.
    """

    name: ClassVar[str]
    params_type: ClassVar[type[Any]]
    turns: tuple[tuple[str, ...], ...] | None = None

    def __init__(self, params: Any, num_envs: int = 1) -> None:
        self.params = params
        self.num_envs = integer("num_envs", num_envs, at_least=1)
        self.horizon: float | None = None
        self.roles: dict[str, Role] = {role.name: role for role in self.make_roles()}
        self.channels: dict[str, Channel] = {channel.name: channel for channel in self.make_channels()}
        self.streams: Streams | None = None
        self.channel_configs: dict[str, ChannelConfig] = {}
        self.ledger: Any = None
        self.terminated: Array = np.zeros(self.num_envs, np.bool_)
        self.truncated: Array = np.zeros(self.num_envs, np.bool_)
        self._state: S | None = None
        self._turn = 0

    # What a world writes.

    @abstractmethod
    def make_roles(self) -> tuple[Role, ...]:
        """Who acts."""

    def make_channels(self) -> tuple[Channel, ...]:
        """Where private data leaves the agents."""
        return ()

    @abstractmethod
    def initial(self) -> S:
        """Draw the state in which B replicas begin."""

    @abstractmethod
    def transition(self, state: S, actions: dict[str, Array]) -> tuple[S, dict[str, Array], Array, Array, Info]:
        """Play one turn, without changing `state` in place.

        Returns:
            (state, {role: reward [B, rows]}, terminated bool[B], truncated bool[B], info), info values leading with
            [B]; `info["_key"]` bool[B] tells where `key` has a meaning, and a dict `{role: [B, N]}` is one per agent.
        """

    @abstractmethod
    def observe_role(self, state: S, role: str, rows: Array | None = None) -> Array:
        """Observations [B, rows, D] of a role's agents (of `rows` int[B, r] only, if given); draws nothing."""

    def acting(self, role: str) -> Array | None:
        """Which agents of a role act now, int[B, rows]; None: all, in order."""
        return None

    def action_mask(self, role: str) -> Array | None:
        """Which actions have an effect now, int8[B, rows, n]; None: all."""
        return None

    def fast_forward(self, policies: Mapping[str, Acts], until: float) -> bool:
        """Play every live replica through all its events up to `until` (inf: to its end) by a law of their sum, where there is one.

        Returns whether it did; if not, nothing has changed. What is counted and charged is what steps would have counted.
        """
        return False

    def default_action(self, role: str) -> Array:
        """What a role does before it was asked, [B, rows, ...]: the opening turn of a phased world's Parallel view."""
        raise ValueError(f"{self.name} has no default action for role {role!r}")

    @abstractmethod
    def clock(self) -> Array:
        """Time so far, float64[B], in the world's unit."""

    def measures(self) -> dict[str, Callable[[], Array]]:
        """What `measure` can be asked for while a run goes on: `{name: function giving [B, ...]}`."""
        return {}

    def metrics(self) -> dict[str, Array]:
        """What a finished run is judged by: `{name: [B]}`."""
        return {}

    def describe(self, replica: int = 0) -> str:
        """One replica in a line or a few of text."""
        values = {name: np.round(self.measure(name)[replica], 4) for name in self.measures()}
        return f"{self.name} " + " ".join(f"{name}={value}" for name, value in values.items())

    def draw(self, axes: Any, replica: int = 0) -> None:
        """Draw one replica on a matplotlib `axes`."""
        axes.text(0.5, 0.5, self.describe(replica), ha="center", va="center", wrap=True)
        axes.set_axis_off()

    # What is written once.

    @property
    def state(self) -> S:
        if self._state is None:
            raise gymnasium.error.ResetNeeded(f"call reset() before using {self.name}")
        return self._state

    @property
    def done(self) -> Array:
        return self.terminated | self.truncated

    @property
    def turn(self) -> tuple[str, ...]:
        """The roles whose turn it is."""
        return tuple(self.roles) if self.turns is None else self.turns[self._turn]

    @property
    def possible_agents(self) -> list[str]:
        return [f"{role.name}_{i}" for role in self.roles.values() for i in range(role.num_agents)]

    def rows(self, role: str) -> int:
        """How many of a role's agents act at once."""
        acting = self.acting(role)
        return self.roles[role].num_agents if acting is None else int(acting.shape[1])

    def stream(self, name: str) -> np.random.Generator:
        """The random stream of that name."""
        if self.streams is None:
            self.streams = Streams()
        return self.streams[name]

    def measure(self, name: str) -> Array:
        """The current value of a named quantity, [B, ...], as a fresh array."""
        measures = self.measures()
        if name not in measures:
            raise ValueError(f"{self.name} measures {', '.join(measures) or 'nothing'}, not {name!r}")
        return np.array(measures[name]())

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None, where: Array | None = None
    ) -> tuple[Any, Info]:
        """Begin anew, all replicas or those `where` bool[B] marks.

        Args:
            seed: reseeds every stream; None goes on drawing from them.
            options: `horizon` replaces the parameters' own, and `channels` `{name: ChannelConfig}` says what stands on them (both until the
                next full reset); unknown keys are ignored.
            where: the replicas to reset.

        Returns:
            (observation, info), as `step` gives them.
        """
        horizon = (options or {}).get("horizon")
        if horizon is not None:
            horizon = number("horizon", horizon, above=0)
        channel_configs = self._asked_configs(options)
        if where is not None:
            where = self._marked(where)
            if self._turn != 0 and not where.all():
                raise ValueError(f"where needs the cycle of turns to be complete, but it is the turn of {self.turn}")
            before = self.state
        if seed is not None or self.streams is None:
            self.streams = Streams(seed)
        if where is None:
            self.horizon = horizon
            self._install(channel_configs)
        # Before the state is drawn: a world may let agents speak as it begins.
        for channel in self.channels.values():
            channel.draw_from(self.streams)
            channel.reset(self.num_envs, where)
            if where is not None:
                channel.live = where.copy()
        if self.ledger is not None and where is not None:
            self.ledger.reset(where)
        if where is None or where.all():
            self._turn = 0
            self.terminated = np.zeros(self.num_envs, np.bool_)
            self.truncated = np.zeros(self.num_envs, np.bool_)
            self._state = self.initial()
        else:
            self.terminated = self.terminated & ~where
            self.truncated = self.truncated & ~where
            self._state = select(where, self.initial(), before)
        return self.observe(), {}

    def check_channel(self, channel: str, config: ChannelConfig) -> None:
        """Raise ValueError if what is to be installed on a channel cannot work in this world."""

    def _asked_configs(self, options: Mapping[str, Any] | None) -> dict[str, ChannelConfig]:
        """What a reset is to install, the population's own channel_configs included."""
        asked = dict((options or {}).get("channels") or {})
        for name in asked:
            if name not in self.channels:
                raise ValueError(f"{self.name} has the channels {', '.join(self.channels) or '(none)'}, not {name!r}")
        channel_configs = join(self.channel_configs, asked)
        for name in asked:
            self.check_channel(name, channel_configs[name])
        return channel_configs

    def _install(self, channel_configs: Mapping[str, ChannelConfig]) -> None:
        make = next((config.ledger for config in channel_configs.values() if config.ledger is not None), None)
        sizes = {c.sender or next(iter(self.roles)): c.num_senders for c in self.channels.values()}
        agents = {who: self.roles[who].num_agents if size is None else size for who, size in sizes.items()}
        senders = {c.name: c.sender or next(iter(self.roles)) for c in self.channels.values()}
        self.ledger = None if make is None else make(self.num_envs, agents, self.channels.values(), senders=senders)
        for name, channel in self.channels.items():
            channel.install(channel_configs.get(name, ChannelConfig()), self.ledger)

    def step(self, actions: Any) -> Step:
        """Play one turn: actions [B, rows, ...], or `{role: actions}` where several roles act.

        Raises:
            ValueError: an action of a wrong shape or outside its space; nothing has changed then.
            gymnasium.error.ResetNeeded: before `reset`, or when every replica is done.
        """
        state, frozen = self._running()
        some_frozen = bool(frozen.any())
        checked = self._checked(actions)
        for channel in self.channels.values():
            channel.live = ~frozen
        new, reward, terminated, truncated, info = self.transition(state, checked)
        for channel in self.channels.values():
            if channel.config.budget is not None:
                truncated = truncated | channel.stopped
        if some_frozen:
            new = select(frozen, state, new)
            terminated = np.where(frozen, self.terminated, terminated)
            truncated = np.where(frozen, self.truncated, truncated)
            reward = {role: np.where(frozen[:, None], 0.0, value) for role, value in reward.items()}
            info = masked(info, ~frozen)
        self._state, self.terminated, self.truncated = new, terminated, truncated
        if self.turns is not None:
            self._turn = (self._turn + 1) % len(self.turns)
        only = next(iter(self.roles)) if len(self.roles) == 1 else None
        return Step(self.observe(), reward if only is None else reward[only], terminated, truncated, info)

    def observe(self) -> Any:
        """Observations [B, rows, D] of who acts next, as `{role: ...}` if the world has several roles."""
        if len(self.roles) == 1:
            (role,) = self.roles
            return self.observe_role(self.state, role, self.acting(role))
        return {role: self.observe_role(self.state, role, self.acting(role)) for role in self.turn}

    def advance(self, policy: Any, *, until: float | None = None, steps: int | None = None) -> None:
        """Let `policy` (or `{role: policy}`) play until every replica's clock reaches `until`, is done, or for `steps` steps."""
        policies = as_policies(self, policy)
        if steps is None and not self.done.all() and self.fast_forward(policies, math.inf if until is None else until):
            return
        players = Rollout(self, policies)
        count = 0
        while not self.done.all() and (steps is None or count < steps):
            if until is not None and bool(np.all(self.done | (self.clock() >= until))):
                break
            players.play()
            count += 1

    def _running(self) -> tuple[S, Array]:
        """The state, and the replicas that are done, bool[B]; ResetNeeded if that is all of them."""
        frozen = self.terminated | self.truncated
        if frozen.all():
            raise gymnasium.error.ResetNeeded(f"every replica of {self.name} is done: call reset() before step()")
        return self.state, frozen

    def _marked(self, where: Any) -> Array:
        where = np.asarray(where)
        if where.shape != (self.num_envs,) or where.dtype != np.bool_:
            raise ValueError(f"where must be bool[{self.num_envs}], not {where.dtype}{list(where.shape)}")
        return where

    def _checked(self, actions: Any) -> dict[str, Array]:
        turn = self.turn
        if len(self.roles) == 1:
            actions = {turn[0]: actions}
        elif not isinstance(actions, Mapping) or set(actions) != set(turn):
            given = list(actions) if isinstance(actions, Mapping) else type(actions).__name__
            raise ValueError(f"actions must be a dict with the roles {list(turn)}, whose turn it is, not {given}")
        return {r: self.roles[r].check(actions[r], (self.num_envs, self.rows(r))) for r in turn}


def as_policies(env: Population[Any], policy: Any) -> dict[str, Acts]:
    """`{role: policy}` from a policy or such a dict; ValueError if a role is left without."""
    if len(env.roles) == 1 and not isinstance(policy, Mapping):
        return dict.fromkeys(env.roles, policy)
    if not isinstance(policy, Mapping) or set(policy) != set(env.roles):
        given = list(policy) if isinstance(policy, Mapping) else type(policy).__name__
        raise ValueError(f"policy must be a dict with the roles {list(env.roles)}, not {given}")
    return dict(policy)


class Rollout:
    """Policies at play in a population; each learns what came of an action when its turn comes again, or when all is done.

    Args:
        env: the population.
        policies: `{role: policy}`; roles without one are given their actions in `play`.
    """

    def __init__(self, env: Population[Any], policies: Mapping[str, Acts]) -> None:
        self.env, self.policies = env, policies
        self._open: dict[str, tuple[Array, Array, Array]] = {}
        self._shown: tuple[Any, Any] = (None, None)

    def play(self, given: Mapping[str, Array] | None = None) -> Step:
        """Play one turn: the policies of its roles act, `given` are the other roles' actions."""
        env, policies, turn = self.env, self.policies, self.env.turn
        single = len(env.roles) == 1
        # What the last step returned, unless something else has happened since.
        observation = self._shown[1] if self._shown[0] is env.state else env.observe()
        seen = {turn[0]: observation} if single else observation
        actions = dict(given or {})
        for role in turn:
            if role not in actions:
                actions[role] = policies[role].act(seen[role], env.action_mask(role))
        step = env.step(actions[turn[0]] if single else actions)
        self._shown = (env.state, step.observation)
        for role in turn:
            if role in policies:
                self._open[role] = (seen[role], actions[role], np.zeros(actions[role].shape[:2]))
        for role, reward in ({turn[0]: step.reward} if single else step.reward).items():
            if role in self._open:
                obs, action, before = self._open[role]
                self._open[role] = (obs, action, before + reward)
        done = env.done
        for role in turn if single else [r for r in self._open if r in env.turn or done.all()]:
            obs, action, reward = self._open.pop(role)
            policies[role].update(obs, action, reward, done)
        return step


class Controlled(Population[Any]):
    """A phased world seen by one of its roles: the others' turns are played by their policies.

    Args:
        population: a world with several roles.
        role: the one that is left to act.
        others: `{role: policy}` for every other role; a full reset resets them, through partial ones they go on.
    """

    name = "controlled"

    def __init__(self, population: Population[Any], role: str, others: Mapping[str, Acts]) -> None:
        if role not in population.roles or set(others) != set(population.roles) - {role}:
            raise ValueError(
                f"role and others must share out the roles {list(population.roles)}, not {role!r} and {sorted(others)}"
            )
        self.inner, self.role, self.others = population, role, dict(others)
        super().__init__(population.params, population.num_envs)
        self.channels = population.channels
        self._players = Rollout(population, self.others)

    def make_roles(self) -> tuple[Role, ...]:
        return (self.inner.roles[self.role],)

    def stream(self, name: str) -> np.random.Generator:
        return self.inner.stream(name)

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None, where: Array | None = None
    ) -> tuple[Any, Info]:
        inner = self.inner
        if where is not None and not inner._marked(where).all():
            self._reset_some(seed, inner._marked(where))
            return self.observe(), {}
        inner.reset(seed=seed, options=options, where=where)
        if where is None:
            self._players = Rollout(inner, self.others)
            for role, policy in self.others.items():
                policy.reset(inner, inner.stream(f"policy/{role}"), role)
        self._follow()
        return self.observe(), {}

    def _reset_some(self, seed: int | None, where: Array) -> None:
        """Reset some replicas: the others' policies open their cycle while the rest waits."""
        inner = self.inner
        terminated, truncated, turn = inner.terminated, inner.truncated, inner._turn
        inner._turn = 0
        try:
            inner.reset(seed=seed, where=where)
        except Exception:
            inner._turn = turn
            raise
        inner.terminated = inner.terminated | ~where
        self._follow()
        self.terminated = inner.terminated = np.where(where, inner.terminated, terminated)
        self.truncated = inner.truncated = np.where(where, inner.truncated, truncated)
        if not (where | terminated | truncated).all():
            inner._turn = turn

    def step(self, actions: Any) -> Step:
        self._running()
        chosen = {self.role: self.roles[self.role].check(actions, (self.num_envs, self.rows(self.role)))}
        step = self._players.play(chosen)
        more, info = self._follow()
        return Step(self.observe(), step.reward[self.role] + more, self.terminated, self.truncated, step.info | info)

    def _follow(self) -> tuple[Any, Info]:
        """Play the others until it is the role's turn again; return the role's summed reward and the last info."""
        inner, reward, info = self.inner, 0.0, {}
        while self.role not in inner.turn and not inner.done.all():
            step = self._players.play()
            reward, info = reward + step.reward.get(self.role, 0.0), step.info
        self._state, self.terminated, self.truncated = inner.state, inner.terminated, inner.truncated
        self.ledger, self.horizon = inner.ledger, inner.horizon
        return reward, info

    def initial(self) -> Any:
        return self.inner.initial()

    def transition(self, state: Any, actions: dict[str, Array]) -> Any:
        return self.inner.transition(state, actions)

    def observe_role(self, state: Any, role: str, rows: Array | None = None) -> Array:
        return self.inner.observe_role(state, role, rows)

    def acting(self, role: str) -> Array | None:
        return self.inner.acting(role)

    def action_mask(self, role: str) -> Array | None:
        return self.inner.action_mask(role)

    def clock(self) -> Array:
        return self.inner.clock()

    def measures(self) -> dict[str, Callable[[], Array]]:
        return self.inner.measures()

    def metrics(self) -> dict[str, Array]:
        return self.inner.metrics()

    def describe(self, replica: int = 0) -> str:
        return self.inner.describe(replica)

    def draw(self, axes: Any, replica: int = 0) -> None:
        self.inner.draw(axes, replica)
