"""The array form of a world, B replicas x rows of agents; every other interface is a view of it."""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar
from weakref import ref

import gymnasium
import numpy as np

from taciturn.envs.core.channel import Channel
from taciturn.envs.core.channel_config import PLAIN, ChannelConfig, asked_channels, join, require_fit
from taciturn.envs.core.info import Info, Told, copied, picked
from taciturn.envs.core.public import Fast, Passing, PublicView, fast_form, has_public_schedule
from taciturn.envs.core.roles import Role
from taciturn.envs.core.seeding import Streams
from taciturn.privacy.composition import Method
from taciturn.validation import MOST_NUMBERS, Array, array_of, choice, integer, mapping, number, shown, some

SHARED_MIND = "agents share a mind, so they send one another's private data"

S = TypeVar("S")
One = tuple[dict[str, Array], dict[str, list[float]], bool, bool, Info]  # see `Population.step_one`


class Acts(Protocol):
    """What a policy must do to act in a population."""

    def reset(self, env: PublicView, rng: np.random.Generator, role: str | None = None) -> None:
        """Prepare to act as `role` in a fresh run of the world whose public view is `env`."""

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        """Choose actions [B, rows, ...] for observations [B, rows, D]."""

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        """Learn from one step: reward [B, rows], done bool[B]."""


class Step:
    """What `Population.step` returns; with several roles, observation and reward are dicts by role.

    It unpacks and indexes as (observation, reward, terminated, truncated, info). The info is a plain dict, computed
    when it is first read, which most loops over arrays never do.
    """

    __slots__ = ("_told", "observation", "reward", "terminated", "truncated")

    def __init__(self, observation: Any, reward: Any, terminated: Array, truncated: Array, told: Told) -> None:
        self.observation, self.reward, self.terminated, self.truncated = observation, reward, terminated, truncated
        self._told = told

    @property
    def info(self) -> Info:
        if callable(self._told):
            self._told = self._told()
        return self._told

    def __getitem__(self, place: int) -> Any:
        return getattr(self, ("observation", "reward", "terminated", "truncated", "info")[place])

    def __iter__(self) -> Iterator[Any]:
        return map(self.__getitem__, range(5))

    def __reduce__(self) -> Any:
        return Step, tuple(self)


class _Telling:
    """Makes the info of one step of a population.

    What was spent by the end of the step takes long to add up, and changes as the run goes on. So the population adds
    it up before it plays on, but only if somebody still holds the step (`Population._settle`), which is rare.
    """

    __slots__ = ("__weakref__", "info", "live", "population", "spent")

    def __init__(self, population: "Population[Any]", info: Told, live: Array) -> None:
        self.population, self.info, self.live = population, info, live
        self.spent: Info | None = None

    def __call__(self) -> Info:
        info = self.info() if callable(self.info) else self.info
        spent = self.population._spent_so_far() if self.spent is None else self.spent
        return self.population._all_told(info, self.live, spent)


class Population(ABC, Generic[S]):
    """Base of the worlds. A world writes the hooks; `reset`, `step`, `advance` and the accounting are written here,
    once.

    Args:
        params: the world's validated parameters; their `horizon` is the length of a run in the unit of the world's
            clock.
        num_envs: how many replicas, B.

    Attributes:
        params: the parameters of the current run, whose `horizon` a reset may have replaced.
        roles: `{name: Role}`.
        channels: `{name: Channel}`, where private data leaves the agents.
        state: the world's State; its arrays lead with [B].
        streams: named random generators.
        purpose: what the runs are for; runs of different purposes share no random numbers, whatever their seeds
            (`Streams`).
        done: bool[B], replicas that have ended; they stay frozen until `reset(where=mask)`.
        pictured: whether a history for pictures is kept (of one replica, if it has a render mode).
        channel_configs: what every full reset installs on the channels, in addition to what its options ask for.
        ledger: what has been spent since the last full reset (`taciturn.privacy.ledger.Ledger`); None if no channel is
            private.

    Class attributes, which a world sets:
        name: of the world.
        clock_unit: what the clock counts; "step" if every step adds one.
        aliases: alternative names of parameters, `{"time_budget": "horizon"}`.
        hidden: the attributes of the parameters, and of `Replicas.constants`, that agents must not know. The State
            itself declares the owners of its fields (`taciturn.envs.core.fields`).
        jumps: the types of fast forms that the world can play, `{role: type}`; see `jump`.
        jump_sends_messages: whether a jump sends its messages through the channels one by one, so that any mechanism,
            budget or fault may be installed on them.
        turns: the roles in the order of their turns; None if all act at once.
        passes: which functions of `public` agents say and hear something through, `{name: Passing}`.
    """

    name: ClassVar[str]
    clock_unit: str = "step"
    aliases: Mapping[str, str] = {}
    hidden: frozenset[str] = frozenset()
    jumps: Mapping[str, type[Fast]] = {}
    jump_sends_messages: bool = False
    turns: tuple[tuple[str, ...], ...] | None = None
    passes: Mapping[str, Passing] = {}

    def __init__(self, params: Any, num_envs: int = 1) -> None:
        if not hasattr(params, "horizon"):
            raise TypeError(
                f"the parameters of {self.name} must have a horizon, the length of a run in the unit of its clock"
            )
        self.params = self._made = params
        self.num_envs = integer("num_envs", num_envs, at_least=1)
        self._fixed_spaces = False
        self._public_schedule = False  # declared by a reset option
        self.roles: dict[str, Role] = {role.name: role for role in self.make_roles()}
        self.channels: dict[str, Channel] = {channel.name: channel for channel in self.make_channels()}
        agents = sum(role.num_agents for role in self.roles.values())
        if self.num_envs * agents > MOST_NUMBERS:
            raise ValueError(
                f"num_envs must be at most {MOST_NUMBERS // agents} with {agents} agents, not {shown(num_envs)}"
            )
        for channel in self.channels.values():
            channel.sender = channel.sender or next(iter(self.roles))
            channel.num_senders = channel.num_senders or self.roles[channel.sender].num_agents
        self.streams: Streams | None = None
        self.purpose = ""
        self.pictured = True
        self.channel_configs: dict[str, ChannelConfig] = {}
        self.ledger: Any = None
        self.terminated: Array = np.zeros(self.num_envs, np.bool_)
        self.truncated: Array = np.zeros(self.num_envs, np.bool_)
        self._state: S | None = None
        self._nothing: Info | None = None
        self._by_agent: tuple[str, ...] | None = None
        self._unknown: set[str] = set()
        self._sent: list[Any] | None = None
        self._spent: Info = {}
        self._telling: ref[_Telling] | None = None  # of the last step
        self._turn = 0

    # What a world writes.

    @abstractmethod
    def make_roles(self) -> tuple[Role, ...]:
        """The roles of the agents that act."""

    def make_channels(self) -> tuple[Channel, ...]:
        """The channels through which private data leaves the agents."""
        return ()

    def empty_info(self) -> Info:
        """Every key that infos may have, with what one replica is told where the key has no meaning.

        Each is a bool, an int or a float, an array [K] of them, or `{role: number}` for one number per agent, and fixes
        the key's type. It is shown, with `_key` False, before the first step and in turns that leave out the key.
        """
        return {}

    def check_channel(self, channel: str, config: ChannelConfig) -> None:
        """Raise ValueError if this world cannot work with `config` on that channel."""

    def acting(self, role: str) -> Array | None:
        """The agents of a role that act now, int[B, rows]; None if all do, in order."""
        return None

    def action_mask(self, role: str) -> Array | None:
        """The actions that have an effect now, int8[B, rows, n]; None if all do."""
        return None

    def private(self, drawn: Array, agents: Array | None = None) -> Array:
        """What agents privately observe, [B, N, ...] (or [B, rows, ...] by the `agents` int[B, rows]): here, what was
        drawn.

        A world passes all such data through this hook, so that an audit can play two worlds that differ in one agent's
        data.
        """
        return drawn

    def played_by(self, *casts: Mapping[str, Acts]) -> None:
        """Called with the policies before a run, `{role: policy}`; with several such dicts where agents of a role are
        played by several policies.

        Where agents decide when to send, `silence_tells` follows from the schedules that all of them declare. Agents
        that share a mind send one another's private data, so no total of theirs is finite.
        """
        roles: dict[int, set[str]] = {}
        for cast in casts:
            for role, policy in cast.items():
                roles.setdefault(id(policy), set()).add(role)
        several = any(len(played) > 1 for played in roles.values())
        for channel in self.channels.values():
            actors = [cast[channel.sender] for cast in casts if channel.sender in cast]
            if actors and channel.agents_decide:
                channel.silence_tells = not (self._public_schedule or all(map(has_public_schedule, actors)))
            if several or any(getattr(actor, "pools", False) for actor in actors):
                channel.unbounded = SHARED_MIND

    def can_jump(self, until: float) -> bool:
        """Whether the law that `jump` draws from holds in the current state, for a run up to time `until` (inf: to the
        end)."""
        return True

    def jump(self, forms: Mapping[str, Any], policies: Mapping[str, Acts], until: float) -> None:
        """Play all events of every live replica up to time `until` (inf: to the end) at once, by the law of their sum.

        Called only if the policies have fast forms of the types in `jumps`, `can_jump` is true, and nothing on the
        channels breaks the law. `forms` holds the fast form of each role's policy, None for
        a policy that must be asked by `act`. A jump counts and charges what steps would have counted and charged.
        """
        raise NotImplementedError

    def default_action(self, role: str) -> Array:
        """A role's action before its policy first chooses, [B, rows, ...]; it opens the first cycle of a phased world's
        Parallel view."""
        raise ValueError(f"{self.name} has no default action for role {role!r}")

    def clock(self) -> Array:
        """The time that has passed, float64[B], in the unit `clock_unit`; by default the state's `time`."""
        state: Any = self.state
        return np.asarray(state.time, np.float64)

    @classmethod
    def length_of_cycles(cls, params: Any) -> tuple[float, str]:
        """About how much one step adds to a clock that does not count steps, and ", if ..." in words if that depends on
        actions."""
        raise NotImplementedError

    def measures(self) -> dict[str, Callable[[], Array]]:
        """The quantities that `measure` can read during a run: `{name: function that returns [B, ...]}`."""
        return {}

    def outcome(self) -> dict[str, Array]:
        """The metrics of a finished run, apart from what it spent: `{name: [B]}`; by default the measures of that
        shape."""
        values = {name: np.asarray(measure(), np.float64) for name, measure in self.measures().items()}
        return {name: value.copy() for name, value in values.items() if value.ndim == 1}

    def public(self) -> dict[str, Any]:
        """What else policies may know or do: further attributes of their `PublicView`."""
        return {}

    def practice_params(self) -> Any:
        """The parameters of worlds in which to train; their instances must not be the one that is being played."""
        return self.params

    def speech(self) -> Any:
        """How agents speak at levels that they choose, a `taciturn.envs.core.speaking.Speech`, where the parameter
        `speaks` allows it."""
        raise NotImplementedError

    def describe(self, replica: int = 0) -> str:
        """One replica as a few lines of text."""
        values = {name: np.round(self.measure(name)[replica], 4) for name in self.measures()}
        return f"{self.name} " + " ".join(f"{name}={value}" for name, value in values.items())

    def draw(self, axes: Any, replica: int = 0) -> None:
        """Draw one replica on a matplotlib `axes`."""
        axes.text(0.5, 0.5, self.describe(replica), ha="center", va="center", wrap=True)
        axes.set_axis_off()

    # What is written once.

    def check_config(self, channel: str, config: ChannelConfig) -> None:
        """Raise ValueError if the world or the channel does not accept `config` on that channel."""
        self.check_channel(channel, config)
        require_fit(self.channels[channel], config)

    @property
    def state(self) -> S:
        return self._begun()

    def _begun(self) -> S:
        """The current state, a new object after each change; raises ResetNeeded before the first reset."""
        if self._state is None:
            raise gymnasium.error.ResetNeeded(f"call reset() before using {self.name}")
        return self._state

    @property
    def horizon(self) -> float:
        """The length of the current run, in the unit of the world's clock."""
        return float(self.params.horizon)

    @property
    def done(self) -> Array:
        return self.terminated | self.truncated

    @property
    def _owning_roles(self) -> tuple[str, ...]:
        """The roles that fields may belong to: those that act, and the senders that the world plays itself."""
        return tuple(dict.fromkeys([*self.roles, *(channel.sender for channel in self.channels.values())]))

    @property
    def turn(self) -> tuple[str, ...]:
        """The roles whose turn it is."""
        return tuple(self.roles) if self.turns is None else self.turns[self._turn]

    @property
    def some_act(self) -> bool:
        """Whether some role has only some of its agents act at a time."""
        return type(self).acting is not Population.acting

    @property
    def possible_agents(self) -> list[str]:
        return [f"{role.name}_{i}" for role in self.roles.values() for i in range(role.num_agents)]

    def rows(self, role: str) -> int:
        """The number of a role's agents that act at once."""
        acting = self.acting(role)
        return self.roles[role].num_agents if acting is None else int(acting.shape[1])

    def fix_spaces(self) -> None:
        """Keep the spaces fixed, as the standard views require; runs longer than the parameters' horizon are then
        refused."""
        self._fixed_spaces = True

    def stream(self, name: str) -> np.random.Generator:
        """The random generator of that name."""
        if self.streams is None:
            self.streams = Streams(None, self.purpose)
        return self.streams[name]

    def measure(self, name: str) -> Array:
        """The current value of a named quantity, [B, ...], as a fresh array: one of `measures`, or something spent.

        What is spent has the names of `taciturn.privacy.spending` and, if all channels have the same senders,
        `agent_messages` int64[B, N] and `agent_epsilon` float64[B, N] (basic composition) of each sender.
        """
        known = self.measures()
        if self.channels:
            spent = ("messages", "epsilon_message", "epsilon_basic", "epsilon_zcdp")
            known = {name: lambda name=name: self.spending(("basic", "zcdp"))[name] for name in spent} | known
            if len({channel.sender for channel in self.channels.values()}) == 1:
                known = {"agent_messages": self._agent_messages, "agent_epsilon": self._agent_epsilon} | known
        asked: Any = name
        if not isinstance(asked, str) or asked not in known:
            raise ValueError(f"{self.name} measures {some(known, name) or 'nothing'}, not {shown(name)}")
        return np.array(known[name]())

    def metrics(self) -> dict[str, Array]:
        """The metrics of a finished run, `{name: [B]}`: its `outcome` and what it spent
        (`taciturn.privacy.spending`)."""
        return self.outcome() | (self.spending(("basic", "zcdp")) if self.channels else {})

    def spending(self, methods: Sequence[Method] = ("basic",)) -> dict[str, Array]:
        """What the run has spent so far, [B] each; see `taciturn.privacy.spending`."""
        from taciturn.privacy.spending import spending

        return spending(self.channels.values(), self.ledger, methods=methods)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.num_envs} x {shown(self.params)}>"

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_telling": None}

    def _tell(self, told: Told, live: Array) -> _Telling:
        """The info of a step: what the world told and what was spent, with all keys and masks; masks are false
        outside `live` bool[B]."""
        if not callable(told):
            self._declared(told)
        telling = _Telling(self, told, live)
        self._telling = ref(telling)
        return telling

    def _settle(self) -> None:
        """Before more is spent, add up the spending of the last step, if somebody holds it and has not read its
        info."""
        telling = None if self._telling is None else self._telling()
        if telling is not None and telling.spent is None:
            telling.spent = self._spent_so_far()

    def _declared(self, info: Info) -> Info:
        """The keys of infos, with their empty values; ValueError if `info` has other keys."""
        if self._nothing is None:
            self._nothing = {key: self._repeated(value) for key, value in self.empty_info().items()}
        unknown = {key.removeprefix("_") for key in info} - self._nothing.keys()
        if unknown:
            raise ValueError(
                f"empty_info of {self.name} must declare all keys of info, also {', '.join(sorted(unknown))}"
            )
        return self._nothing

    def _all_told(self, info: Info, live: Array, spent: Info) -> Info:
        """The entries of `_tell`; `spent` as it was when the step ended."""
        nothing = self._declared(info)
        all_live, nobody = bool(live.all()), np.zeros_like(live)
        told: Info = {}
        masks: Info = {}
        for key, none in nothing.items():
            if key not in info:
                told[key], masks[f"_{key}"] = copied(none), nobody.copy()
                continue
            own = info.get(f"_{key}", live)
            mask = own if own is live else own & live
            told[key] = info[key] if mask is live and all_live else picked(mask, info[key], none)
            masks[f"_{key}"] = mask
        told |= {name: value.copy() for name, value in spent.items()}
        return told | masks | dict.fromkeys((f"_{key}" for key in spent), live)

    def _repeated(self, value: Any) -> Any:
        """A value of `empty_info` for all replicas: [B], [B, K], or `{role: [B, N]}`."""
        if isinstance(value, Mapping):
            return {
                role: np.full((self.num_envs, self.roles[role].num_agents), number) for role, number in value.items()
            }
        return np.broadcast_to(value, (self.num_envs, *np.shape(value)))

    def _spent_so_far(self) -> Info:
        """`spending` for an info, computed anew only if something has been sent since the last one."""
        sent = [(channel.times, channel.silence_tells, channel.unbounded) for channel in self.channels.values()]
        if sent != self._sent:
            self._sent, self._spent = sent, self.spending() if sent else {}
        return self._spent

    def _agent_messages(self) -> Array:
        return np.sum([channel.messages() for channel in self.channels.values()], axis=0)

    def _agent_epsilon(self) -> Array:
        if self.ledger is None:
            return np.where(self._agent_messages() > 0, np.inf, 0.0)
        total: Array = self.ledger.total(delta=0.0, method="basic", role=next(iter(self.channels.values())).sender)
        return total

    def view(self, policy: Any = None) -> PublicView:
        """What `policy` may know: the public view, with the hidden truth if it declares `needs_truth`."""
        return PublicView(self, with_truth=bool(getattr(policy, "needs_truth", False)))

    @property
    def kind(self) -> "type[Population[Any]]":
        """The class of the world, as policies know it."""
        return type(self)

    def alike(self, num_envs: int, **hooks: Any) -> "Population[Any]":
        """A fresh population with the same parameters, on whose channels nothing stands, and with these `hooks` in
        place of its own."""
        kind = type(self.__class__.__name__, (type(self),), hooks) if hooks else type(self)
        return kind(self.params, num_envs)

    def practice(self, num_envs: int, kind: Any = None, **changes: Any) -> "Population[Any]":
        """See `PublicView.practice`."""
        world: Population[Any] = (kind or type(self))(replace(self.practice_params(), **changes), num_envs)
        world.purpose = "training"
        begun = self._state is not None
        configs = {name: one.config for name, one in self.channels.items()} if begun else self.channel_configs
        world.channel_configs = {name: config for name, config in configs.items() if config.mechanism is not None}
        return world

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None, where: Array | None = None
    ) -> tuple[Any, Info]:
        """Begin a new run in all replicas, or in those that `where` bool[B] marks.

        Args:
            seed: reseeds every stream; None goes on drawing from them.
            options: `horizon` replaces the parameters' own, `channels` `{name: ChannelConfig}` says what stands on
                them, and `public_schedule=True` declares that whoever acts has a public schedule (see
                `Policy.public_schedule`), all until the next full reset. Unknown keys are ignored.
            where: the replicas to reset.

        Returns:
            (observation, info), as from `step`; in this info only what was spent has a meaning.
        """
        begun = self._restart(seed, options, where)
        return self.observe(), self._tell({}, np.ones(self.num_envs, np.bool_) if begun is None else begun)()

    def _restart(self, seed: int | None, options: Mapping[str, Any] | None, where: Array | None) -> Array | None:
        """`reset`, but returns the replicas that begin, bool[B]; None: all."""
        # Check everything before anything changes.
        if seed is not None:
            integer("seed", seed, at_least=0)
        options = mapping("options", options)
        configs = self._asked_configs(options)
        declared = "public_schedule" in options and choice(
            "options['public_schedule']", options["public_schedule"], (False, True)
        )
        if where is None:
            self._begin_run(options.get("horizon"))
        else:
            where = self._marked(where)
            if options.get("horizon") is not None:
                raise ValueError(
                    f"horizon can change only when all replicas are reset, not in {int(where.sum())} of {self.num_envs}"
                )
            if self._turn != 0 and not where.all():
                raise ValueError(f"where needs the cycle of turns to be complete, but it is the turn of {self.turn}")
            self._begun()
        self._settle()
        if seed is not None or self.streams is None:
            self.streams = Streams(seed, self.purpose)
        if where is None:
            self._install(configs)
            self._public_schedule = declared
            for channel in self.channels.values() if declared else ():
                channel.silence_tells &= not channel.agents_decide
                channel.unbounded = ""
        self._sent = None
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
            where = None
        else:
            self.terminated = self.terminated & ~where
            self.truncated = self.truncated & ~where
        self._begin_state(where)
        return None if where is None else where.copy()

    @abstractmethod
    def _begin_state(self, where: Array | None) -> None:
        """Begin runs in the replicas `where` bool[B]; None: in all."""

    def _asked_configs(self, options: Mapping[str, Any]) -> dict[str, ChannelConfig]:
        """What a reset is to install, including the population's own configurations."""
        asked = asked_channels(options)
        for name in asked:
            if name not in self.channels:
                raise ValueError(
                    f"{self.name} has the channels {', '.join(self.channels) or '(none)'}, not {shown(name)}"
                )
        configs = join(self.channel_configs, asked) if asked else dict(self.channel_configs)
        for name in asked:
            self.check_config(name, configs[name])
        return configs

    def _begin_run(self, horizon: Any) -> None:
        """Set the run length to `horizon` (None: the original one) and rebuild the roles; a refused one changes
        nothing."""
        params = self._made
        if horizon is not None:
            horizon = number("horizon", horizon, above=0)
            # A clock that counts steps stops at the last whole one.
            horizon = math.floor(horizon + 1e-9) if isinstance(params.horizon, int) else horizon
            if self._fixed_spaces and horizon > params.horizon:
                raise ValueError(
                    f"horizon must be at most {params.horizon:g}, for which these spaces were made, not {horizon:g}"
                )
            params = replace(params, horizon=horizon)
        if params.horizon == self.params.horizon:
            return
        before, self.params = self.params, params
        if not self._fixed_spaces:
            try:
                self.roles = {role.name: role for role in self.make_roles()}
            except ValueError:
                self.params = before
                raise

    def _install(self, configs: Mapping[str, ChannelConfig]) -> None:
        before, self.ledger = self.ledger, None
        private = any(channel.chosen for channel in self.channels.values())
        if private or any(config.mechanism is not None for config in configs.values()):
            made_here = before is None or type(self).make_ledger is not Population.make_ledger
            self.ledger = self.make_ledger() if made_here else before.fresh(self.channels)
        for name, channel in self.channels.items():
            channel.install(configs.get(name, PLAIN), self.ledger, self.params)

    def make_ledger(self) -> Any:
        """An empty ledger of the population's senders and channels."""
        from taciturn.privacy.ledger import Ledger

        agents = {channel.sender: channel.num_senders for channel in self.channels.values()}
        senders = {channel.name: channel.sender for channel in self.channels.values()}
        return Ledger(self.num_envs, agents, self.channels.values(), senders=senders)

    @abstractmethod
    def step(self, actions: Any, where: Array | None = None, out: Array | None = None) -> Step:
        """Play one turn with actions [B, rows, ...], or `{role: actions}` if several roles act.

        Args:
            actions: of all replicas; those of replicas that do not play are ignored.
            where: the replicas that play, bool[B]; None: all that are not done. The others stay as they are.
            out: a buffer float32[B, rows, D] for the observations of the agents that act next; None: a fresh array.

        Raises:
            ValueError: an action of a wrong shape or outside its space, or another buffer; nothing has changed then.
            gymnasium.error.ResetNeeded: before `reset`, or when every replica is done.
        """

    def _check_room(self, out: Any) -> None:
        """Raise ValueError unless the agents that act after this turn can observe into `out`."""
        if out is None:
            return
        following = tuple(self.roles) if self.turns is None else self.turns[(self._turn + 1) % len(self.turns)]
        role = self.roles[following[0]]
        shape = self.num_envs, self.rows(role.name), role.layout.size
        fits = isinstance(out, np.ndarray) and out.shape == shape and out.dtype == np.float32
        if len(following) > 1 or not fits or not (out.flags.c_contiguous and out.flags.writeable):
            given = f"{out.dtype}{list(out.shape)}" if isinstance(out, np.ndarray) else shown(out)
            raise ValueError(
                f"out must be a contiguous array float32{list(shape)}, the observations of one role, not {given}"
            )

    def reset_one(
        self, seed: int | None, options: Mapping[str, Any] | None, everyone: bool = False
    ) -> tuple[dict[str, Array], Info]:
        """`reset` of the only replica; see `step_one`."""
        observation, info = self.reset(seed=seed, options=options)
        return self._seen_in_one(observation, everyone), self._told_of_one(info)

    def step_one(self, actions: Mapping[str, Any], everyone: bool = False) -> One:
        """`step` of the only replica, by role and in plain numbers; the interfaces of one replica are played by it.

        Args:
            actions: `{role: [rows, ...]}` of the agents that act.
            everyone: whether all agents of the roles that act next observe, or only those that act.

        Returns:
            ({role: observations [r, D]}, {role: rewards [rows]}, terminated, truncated, info), in which a value is a
            number, an array [K], or `{role: [N]}` for one number per agent.
        """
        name = "actions" if len(self.possible_agents) > 1 else "action"
        given = {role: array_of(name, rows)[None] for role, rows in actions.items()}
        only = next(iter(self.roles)) if len(self.roles) == 1 else None
        step = self.step(given if only is None else given[only])
        rewards = step.reward if only is None else {only: step.reward}
        paid = {role: values[0].tolist() for role, values in rewards.items()}
        ends = bool(step.terminated[0]), bool(step.truncated[0])
        return self._seen_in_one(step.observation, everyone), paid, *ends, self._told_of_one(step.info)

    def no_meaning(self) -> set[str]:
        """The keys that have no meaning in the last info of `step_one`."""
        return self._unknown

    @property
    def told_by_agent(self) -> tuple[str, ...]:
        """The keys of infos with a value for each agent."""
        if self._by_agent is None:
            self._by_agent = tuple(key for key, value in self.empty_info().items() if isinstance(value, Mapping))
        return self._by_agent

    def _seen_in_one(self, observation: Any, everyone: bool) -> dict[str, Array]:
        """Observations by role, without the axis of replicas."""
        seen = {}
        for role, rows in ({next(iter(self.roles)): observation} if len(self.roles) == 1 else observation).items():
            whole = everyone and self.acting(role) is not None
            seen[role] = (self.look(role, np.arange(self.roles[role].num_agents)[None]) if whole else rows)[0]
        return seen

    def _told_of_one(self, info: Info) -> Info:
        """An info without masks and the axis of replicas; notes which keys have no meaning."""
        self._unknown = {key for key in info if key[0] != "_" and not info[f"_{key}"][0]}
        plain: Info = {}
        for key, value in info.items():
            if isinstance(value, Mapping):
                plain[key] = {role: own[0] for role, own in value.items()}
            elif key[0] != "_":
                plain[key] = value.item() if value.ndim == 1 else value[0].copy()
        return plain

    def observe(self) -> Any:
        """Observations [B, rows, D] of the agents that act next, by role if the world has several roles."""
        if len(self.roles) == 1:
            (role,) = self.roles
            return self.look(role, self.acting(role))
        return {role: self.look(role, self.acting(role)) for role in self.turn}

    @abstractmethod
    def look(self, role: str, rows: Array | None = None) -> Array:
        """What a role's agents observe now, [B, rows, D] (agents `rows` int[B, r] only, if given); draws nothing."""

    def advance(self, policy: Any, *, until: float | None = None, steps: int | None = None, fast: bool = True) -> None:
        """Let `policy` (or `{role: policy}`) play until every replica is done or its clock reaches `until`, or for
        `steps` steps.

        With `fast`, many events are played at once if the policies' fast forms give their exact law (`fast_forward`).
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
        if not self.jumps or self.done.all():
            return False
        if not self.jump_sends_messages and not all(channel.sums_have_a_law for channel in self.channels.values()):
            return False
        if not self.can_jump(until):
            return False
        forms = {role: fast_form(policies[role], self.view(policies[role])) for role in self.roles}
        if not all(isinstance(forms[role], kind) for role, kind in self.jumps.items()):
            return False
        self._settle()
        self.jump(forms, policies, until)
        return True

    def _running(self, where: Array | None = None) -> tuple[S, Array]:
        """The state and the replicas that do not play in this turn, bool[B]; raises ResetNeeded if all are done."""
        frozen = self.terminated | self.truncated
        if frozen.any() and frozen.all():
            raise gymnasium.error.ResetNeeded(f"every replica of {self.name} is done: call reset() before step()")
        return self._begun(), frozen if where is None else frozen | ~where

    @contextmanager
    def apart(self, where: Array) -> Iterator[None]:
        """Context in which the replicas `where` bool[B] are at the first turn of their cycle, and can be reset and
        played (`step(where=...)`). Afterwards the other live replicas go on where they were."""
        turn, self._turn = self._turn, 0
        waiting = bool((~where & ~self.done).any())
        try:
            yield
        except BaseException:  # also at Ctrl-C
            self._turn = turn
            raise
        if waiting:
            self._turn = turn

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
            raise ValueError(f"actions must be a dict with the roles {list(turn)}, whose turn it is, not {given}")
        return {r: self.roles[r].check(actions[r], (self.num_envs, self.rows(r))) for r in turn}


def filled(out: Array | None, observation: Any) -> Any:
    """An observation, in `out` if that is given."""
    if out is None:
        return observation
    for rows in observation.values() if isinstance(observation, Mapping) else [observation]:
        out[...] = rows
    return dict.fromkeys(observation, out) if isinstance(observation, Mapping) else out


def as_policies(env: Population[Any], policy: Any) -> dict[str, Acts]:
    """`{role: policy}` from a policy or such a dict; ValueError if a role has none."""
    if len(env.roles) == 1 and not isinstance(policy, Mapping):
        policy = dict.fromkeys(env.roles, policy)
    if not isinstance(policy, Mapping) or set(policy) != set(env.roles):
        given = list(policy) if isinstance(policy, Mapping) else type(policy).__name__
        raise ValueError(f"policy must be a dict with the roles {list(env.roles)}, not {given}")
    for one in policy.values():
        if not (hasattr(one, "reset") and hasattr(one, "act")):
            raise ValueError(f"policy must have the methods reset and act, which {shown(one)} has not")
    return dict(policy)


class NotPrivate(UserWarning):
    """A policy carries an epsilon for the mechanism that its paper prescribes, but acts where none is installed."""


def begin(env: Population[Any], policies: Mapping[str, Acts]) -> None:
    """Reset the policies for a fresh run of `env`, each with its public view and a random stream of its own.

    ValueError if a budget stands on a channel where silence tells, since it bounds nothing there. Warns once
    (`NotPrivate`) of a policy that carries an epsilon if nothing was said of its channel.
    """
    for role, policy in policies.items():
        policy.reset(env.view(policy), env.stream(f"policy/{role}"), role)
    env.played_by(policies)
    for name, channel in env.channels.items():
        if channel.config.budget is not None and channel.silence_tells:
            raise ValueError(
                f"budget on channel {name!r} of {env.name} must be None, not {channel.config.budget!r}: whether, when "
                "or what about agents send may depend on their private data here, which no budget bounds (see "
                "`Policy.public_schedule`)"
            )
    for policy in policies.values():
        for name, mechanism in _prescribed(env, policy).items():
            if env.channels[name].config.mechanism is None:
                warnings.warn(
                    f"{policy!r} acts on the channel {name!r} of {env.name}, which nobody made private: its epsilon "
                    "adds no noise there. Its paper installs "
                    f"{mechanism!r}: simulate(..., privacy='paper'), --privacy paper, or Privatize(env, {name!r}, "
                    f"...); NoPrivacy() there says that none is wanted",
                    NotPrivate,
                    stacklevel=3,
                )
                return


def _prescribed(env: Population[Any], policy: Any) -> dict[str, Any]:
    """The mechanisms that a policy's paper prescribes here, by channel; empty if it has no such method, or that
    refuses."""
    if not hasattr(policy, "prescribes"):
        return {}
    try:
        found: dict[str, Any] = policy.prescribes(env.view(policy))
    except ValueError:
        return {}
    return found


class Rollout:
    """Plays policies in a population. A policy learns the outcome of an action at its next turn, or when the run is
    done.

    Args:
        env: the population.
        policies: `{role: policy}`; the actions of the other roles are passed to `play`.
    """

    def __init__(self, env: Population[Any], policies: Mapping[str, Acts]) -> None:
        self.env, self.policies = env, policies
        self._open: dict[str, tuple[Array, Array, Array]] = {}
        self._shown: tuple[Any, Any] = (None, None)

    def __repr__(self) -> str:
        return f"<Rollout of {self.env!r} by {dict(self.policies)!r}>"

    def play(
        self,
        given: Mapping[str, Array] | None = None,
        step_by: Callable[[Any], Step] | None = None,
        where: Array | None = None,
    ) -> Step:
        """Play one turn, by `env.step` unless another way is given: policies act for their roles, and `given` holds the
        actions of the others. To policies, replicas that do not play (`where`) look like ended ones."""
        env, policies, turn = self.env, self.policies, self.env.turn
        single = len(env.roles) == 1
        # The result of the last step, if nothing else has happened since.
        fresh = self._shown[0] is env._state and (single or turn[0] in self._shown[1])
        observation = self._shown[1] if fresh else env.observe()
        seen = {turn[0]: observation} if single else observation
        actions = dict(given or {})
        for role in turn:
            if role not in actions:
                actions[role] = policies[role].act(seen[role], env.action_mask(role))
        chosen = actions[turn[0]] if single else actions
        step = env.step(chosen, where) if step_by is None else step_by(chosen)
        self._shown = (env._state, step.observation)
        for role in turn:
            if role in policies:
                self._open[role] = (seen[role], actions[role], np.zeros(actions[role].shape[:2]))
        for role, reward in ({turn[0]: step.reward} if single else step.reward).items():
            if role in self._open:
                obs, action, before = self._open[role]
                self._open[role] = (obs, action, before + reward)
        done = env.done if where is None else env.done | ~where
        for role in turn if single else [r for r in self._open if r in env.turn or done.all()]:
            obs, action, reward = self._open.pop(role)
            policies[role].update(obs, action, reward, done)
        return step
