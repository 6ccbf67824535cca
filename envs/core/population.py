"""The array API of an environment, B replicas x rows of agents; all other interfaces are views of it."""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any
from weakref import ref

import gymnasium
import numpy as np

from taciturn.channels.channel import Channel
from taciturn.channels.config import ChannelConfig, require_fit
from taciturn.envs.core.hooks import Hooks, S
from taciturn.envs.core.info import Info
from taciturn.envs.core.playing import Acts, Rollout, as_policies, note_players
from taciturn.envs.core.public import PublicView
from taciturn.envs.core.roles import Role
from taciturn.envs.core.steps import Step, full_info, measured, without_meaning
from taciturn.privacy.composition import Method
from taciturn.seeding import Streams
from taciturn.validation import Array, array_of, integer, shown

SingleStep = tuple[dict[str, Array], dict[str, list[float]], bool, bool, Info]  # see `Population.step_one`


class Population(Hooks[S]):
    """The common part of environments (`Replicas`) and of the populations around them (`Around`).

    Args:
        params: the environment's validated parameters; their `horizon` is the length of a run in the unit of the
            environment's clock.
        num_envs: number of replicas, B.

    Attributes:
        params: the parameters of the current run; a reset may have replaced their `horizon`.
        roles: `{name: Role}`.
        channels: `{name: Channel}`, the channels that carry private data out of agents.
        streams: named random generators.
        purpose: the purpose of the runs; runs for different purposes share no random numbers under any seed
            (`Streams`).
        terminated, truncated: bool[B], replicas that have ended; they stay frozen until `reset(where=mask)`.
        pictured: whether to keep a history for pictures (of one replica, if it has a render mode).
        info_per_agent: whether infos of one replica need the values by agent; views of one agent do not show these.
        channel_configs: mechanisms, faults and budgets that every full reset installs on the channels, in addition to
            its options.
        accountant: the charges since the last full reset (`taciturn.privacy.accountant.Accountant`); None if no
            channel is private.
    """

    channels: dict[str, Channel]
    streams: Streams | None
    purpose: str
    terminated: Array
    truncated: Array
    pictured: bool
    info_per_agent: bool
    channel_configs: dict[str, ChannelConfig]
    accountant: Any
    _state: Any  # a new object after each change; None before the first run
    _fixed_spaces: bool
    _public_schedule = False  # declared by a reset option

    def __init__(self, params: Any, num_envs: int = 1) -> None:
        self.params = params
        self.num_envs = integer("num_envs", num_envs, at_least=1)
        self.roles: dict[str, Role] = {role.name: role for role in self.make_roles()}
        self._spent: tuple[list[Any], Info] = [], {}
        self._pending_step: ref[Step] | None = None  # the last step
        self._turn = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.num_envs} x {shown(self.params)}>"

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_pending_step": None}

    @abstractmethod
    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None, where: Array | None = None
    ) -> tuple[Any, Info]:
        """Begin a new run in all replicas, or in those that `where` bool[B] marks.

        Args:
            seed: reseeds every stream; with None the streams continue.
            options: `horizon` replaces the parameters' horizon, `channels` `{name: ChannelConfig}` gives the
                mechanisms, faults and budgets to install, and `public_schedule=True` declares that the acting policy
                has a public schedule (see `Policy.public_schedule`); all hold until the next full reset. Unknown keys
                are ignored.
            where: the replicas to reset.

        Returns:
            (observation, info), as from `step`; in this info only the counters of messages and epsilon have a value.
        """

    @abstractmethod
    def step(self, actions: Any, where: Array | None = None, out: Array | None = None) -> Step:
        """Play one turn with actions [B, rows, ...], or `{role: actions}` if several roles act.

        Args:
            actions: of all replicas; replicas that do not play ignore them.
            where: the replicas that play, bool[B]; None: all that are not done. The others stay as they are.
            out: a buffer float32[B, rows, D] for the observations of the agents that act next; None: a fresh array.

        Raises:
            ValueError: an action or buffer of the wrong shape, or an action outside its space. The state is unchanged.
            gymnasium.error.ResetNeeded: before `reset`, or when every replica is done.
        """

    @abstractmethod
    def reset_one(
        self, seed: int | None, options: Mapping[str, Any] | None, everyone: bool = False
    ) -> tuple[dict[str, Array], Info]:
        """`reset` of the only replica; see `step_one`."""

    @abstractmethod
    def step_one(self, actions: Mapping[str, Any], everyone: bool = False) -> SingleStep:
        """`step` of the only replica, by role and in plain numbers; the single-replica interfaces use it.

        Args:
            actions: `{role: [rows, ...]}` of the acting agents; in a phased environment optionally also of the next
                turns, which are then played too unless the run ends. Their rewards add up, and infos of later turns
                fill in keys that had no meaning before.
            everyone: whether all agents of the roles that act next observe, or only the acting ones.

        Returns:
            ({role: observations [r, D]}, {role: rewards [rows]}, terminated, truncated, info). Info values are numbers,
            arrays [K], or `{role: [N]}` for one number per agent.
        """

    @abstractmethod
    def make_accountant(self) -> Any:
        """An empty accountant for the population's senders and channels."""

    @abstractmethod
    def no_meaning(self) -> set[str]:
        """The keys without a meaning in the last info of `step_one`."""

    @abstractmethod
    def acting(self, role: str) -> Array | None:
        """The agents of a role that act now, int[B, rows]; None if all do, in order."""

    @abstractmethod
    def look(self, role: str, rows: Array | None = None) -> Array:
        """The current observations of a role's agents, [B, rows, D] (only agents `rows` int[B, r], if given); draws
        no random numbers."""

    @abstractmethod
    def fix_spaces(self) -> None:
        """Fix the spaces, as the standard views require; longer runs than the parameters' horizon then raise an
        error."""

    @abstractmethod
    def stream(self, name: str) -> np.random.Generator:
        """The random generator of that name."""

    @abstractmethod
    def practice(self, num_envs: int, kind: Any = None, **changes: Any) -> "Population[Any]":
        """See `PublicView.practice`."""

    @property
    @abstractmethod
    def some_act(self) -> bool:
        """Whether, in some role, only some of the agents act at a time."""

    def observe(self) -> Any:
        """Observations [B, rows, D] of the agents that act next, by role if there are several roles."""
        seen = {role: self.look(role, self.acting(role)) for role in self.turn}
        return seen if len(self.roles) > 1 else seen[self.turn[0]]

    def advance(self, policy: Any, *, until: float | None = None, steps: int | None = None, fast: bool = True) -> None:
        """Let `policy` (or `{role: policy}`) play until every replica is done or its clock reaches `until`, or for
        `steps` steps.

        With `fast`, plays many events in one draw if the policies' fast forms give their exact distribution
        (`fast_forward`).
        """
        policies = as_policies(self, policy)
        if fast and steps is None and self.fast_forward(policies, math.inf if until is None else until):
            return
        rollout = Rollout(self, policies)
        count = 0
        while not self.done.all() and (steps is None or count < steps):
            if until is not None and bool(np.all(self.done | (self.clock() >= until))):
                break
            rollout.play()
            count += 1

    def fast_forward(self, policies: Mapping[str, Acts], until: float) -> bool:
        """Play up to time `until` by `jump` if that is exact. Returns whether it did; if not, nothing has changed."""
        return False

    def played_by(self, *casts: Mapping[str, Acts]) -> None:
        """Called with the policies before a run, `{role: policy}`; with several such dicts if several policies play the
        agents of a role.

        Where agents decide when to send, `silence_leaks` is set unless all policies declare public schedules.
        Centralised policies exchange private data outside the channels, so no epsilon of theirs is finite.
        """
        note_players(self, casts)

    # Facts about a run.

    def _require_reset(self) -> None:
        """Raise ResetNeeded before the first reset."""
        if self._state is None:
            raise gymnasium.error.ResetNeeded(f"call reset() before using {self.name}")

    @property
    def horizon(self) -> float:
        """The length of the current run, in the unit of the world's clock."""
        return float(self.params.horizon)

    @property
    def done(self) -> Array:
        return self.terminated | self.truncated

    @property
    def turn(self) -> tuple[str, ...]:
        """The roles that act now."""
        return tuple(self.roles) if self.turns is None else self.turns[self._turn]

    @property
    def possible_agents(self) -> list[str]:
        return [f"{role.name}_{i}" for role in self.roles.values() for i in range(role.num_agents)]

    def rows(self, role: str) -> int:
        """The number of a role's agents that act simultaneously."""
        acting = self.acting(role)
        return self.roles[role].num_agents if acting is None else int(acting.shape[1])

    @property
    def kind(self) -> "type[Population[Any]]":
        """The environment's class, as policies know it."""
        return type(self)

    def view(self, policy: Any = None) -> PublicView:
        """The public view for `policy`, with hidden variables if it declares `needs_truth`."""
        return PublicView(self, with_truth=bool(getattr(policy, "needs_truth", False)))

    def alike(self, num_envs: int, **hooks: Any) -> "Population[Any]":
        """A fresh population with the same parameters, nothing installed on its channels, and these `hooks` in place of
        its own."""
        kind = type(self.__class__.__name__, (type(self),), hooks) if hooks else type(self)
        return kind(self.params, num_envs)

    def check_config(self, channel: str, config: ChannelConfig) -> None:
        """Raise ValueError if the environment or the channel does not accept `config` on that channel."""
        self.check_channel(channel, config)
        require_fit(self.channels[channel], config)

    # Spending of a run, and infos.

    def measure(self, name: str) -> Array:
        """The current value of a named quantity, [B, ...], as a fresh array: one of `measures`, messages or epsilon.

        Counters of messages and epsilon have the names in `taciturn.privacy.spending`, plus, if all channels have the
        same senders, `agent_messages` int64[B, N] and `agent_epsilon` float64[B, N] (basic composition) of each sender.
        """
        return np.array(measured(self, name))

    def metrics(self) -> dict[str, Array]:
        """The metrics of a finished run, `{name: [B]}`: its `outcome`, messages and epsilon
        (`taciturn.privacy.spending`)."""
        return self.outcome() | (self.spending(("basic", "zcdp")) if self.channels else {})

    def spending(self, methods: Sequence[Method] = ("basic",)) -> dict[str, Array]:
        """The messages and epsilon of the run so far, [B] each; see `taciturn.privacy.spending`."""
        from taciturn.privacy.spending import spending

        return spending(self.channels.values(), self.accountant, methods=methods)

    def _spent_so_far(self) -> Info:
        """`spending` for an info, recomputed only after a message has been sent."""
        sent = [(channel.times, channel.silence_leaks, channel.unbounded) for channel in self.channels.values()]
        if sent != self._spent[0]:
            self._spent = sent, self.spending() if sent else {}
        return self._spent[1]

    def _stepped(self, observation: Any, reward: Any, lazy_info: Callable[[], Info], live: Array) -> Step:
        """A step in the replicas `live` bool[B]. Its info is slow to compute, so it is computed on first read, or
        before the population plays on if the step is still referenced (`_settle`), which is rare."""
        step = Step(observation, reward, self.terminated, self.truncated, partial(full_info, self, lazy_info, live))
        self._pending_step = ref(step)
        return step

    def _settle(self) -> None:
        """Before the population plays on, compute the info of the last step, if it is still referenced."""
        step = None if self._pending_step is None else self._pending_step()
        if step is not None:
            step._lazy_info = step.info

    @cached_property
    def _without_meaning(self) -> Info:
        return without_meaning(self)

    @cached_property
    def info_keys_by_agent(self) -> tuple[str, ...]:
        """The keys of infos with a value for each agent."""
        return tuple(key for key, value in self.empty_info().items() if isinstance(value, Mapping))

    def _running(self, where: Array | None = None) -> Array:
        """The replicas that do not play in this turn, bool[B]; raises ResetNeeded if all are done."""
        frozen = self.terminated | self.truncated
        if frozen.any() and frozen.all():
            raise gymnasium.error.ResetNeeded(f"every replica of {self.name} is done: call reset() before step()")
        self._require_reset()
        return frozen if where is None else frozen | ~where

    def _marked(self, where: Any) -> Array:
        where = array_of("where", where)
        if where.shape != (self.num_envs,) or where.dtype != np.bool_:
            raise ValueError(f"where must be bool[{self.num_envs}], not {where.dtype}{list(where.shape)}")
        return where

    def _checked(self, actions: Any) -> dict[str, Array]:
        turn = self.turn
        if len(self.roles) == 1:
            actions = {turn[0]: actions}
        elif not isinstance(actions, Mapping) or set(actions) != set(turn):
            given = list(actions) if isinstance(actions, Mapping) else type(actions).__name__
            raise ValueError(f"actions must be a dict with the roles {list(turn)}, which act now, not {given}")
        return {r: self.roles[r].check(actions[r], (self.num_envs, self.rows(r))) for r in turn}
