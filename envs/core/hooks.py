"""The hooks that an environment implements."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from taciturn.channels.channel import Channel
from taciturn.channels.config import ChannelConfig
from taciturn.compiling import compiled
from taciturn.envs.core import fields
from taciturn.envs.core.info import Info
from taciturn.envs.core.public import Fast, Passing
from taciturn.envs.core.roles import Role
from taciturn.validation import Array

S = TypeVar("S")


class Chosen(NamedTuple):
    """Names of the State's fields that count messages on a channel where senders choose levels (a message's epsilon).

    Attributes:
        messages: a number, the messages of all agents.
        dearest: a number, the largest level of these messages.
        counted: int64[N, 2], the messages of each agent, and those at a level above 0.
        spent: float64[N, 3], the sum of each agent's levels, the sum of their squares, and the largest.
    """

    messages: str
    dearest: str
    counted: str
    spent: str


class Functions(NamedTuple):
    """The functions of an environment, for one replica; in phased environments, `act`, `receive` and `observe` are
    dicts by role.

    Only `receive` returns anything. The functions may use only numbers, arrays, other such functions and
    `taciturn.compiling.counter_streams`:

    - `reset(state, arrays, params, rng)` begins a run; all numbers are 0 before it.
    - `act(state, arrays, actions, params, rng)` plays a turn, or, if agents send messages, its first half, up to the
      messages to send; `actions` has one row per acting agent.
    - `receive(state, arrays, params, rng, reward)` plays the rest, and returns (terminated, truncated).
    - `observe(seen, params, out)` fills `out` float32[D]; the core clips it to its bounds. `seen` has the fields that
      the agent number `seen.agent` may observe: its own entries, received messages, and public fields
      (`taciturn.envs.core.fields`); `params` lacks the `hidden` attributes.
    - `info(state, arrays, params, info)` sets the numbers of `info`, which starts with the values of `empty_info`. By
      default it copies the fields `info_fields`.
    """

    reset: Any
    act: Any
    receive: Any
    observe: Any
    info: Any = None


class Hooks(ABC, Generic[S]):
    """The hooks of an environment, written for one replica: its `functions`, and the following.

    The functions get the run's numbers as `state` and its arrays as `arrays`, both under the field names of the State.
    They draw by `uniform(rng, source)` and the like, where `source` is an index into `sources`. An assigned number
    keeps the type of its field. Rewards go into `reward` [agents], which is 0 when a turn begins; `act` finds it in
    `arrays.reward`. Private observations of agents pass through `private`.

    Messages: `act` leaves the messages to send in the state; `between` sends them through the channel, for all replicas
    together, and stores the received ones in the state. Without a mechanism or fault on the channel (`plain`), agents
    receive exactly the sent messages: if `counts` or `chosen` name fields that count the messages, the environment is
    then played without `between`, in one loop.

    In phased environments `reward` has the agents of all roles in order.

    Class attributes:
        name: of the environment.
        state_type: the dataclass State. Its annotations are Ints, Floats or Bools, [B] or [B, ...] as seen from
            outside.
        sources: names of the sources of random numbers.
        noise: `{source: channel}`, for sources of mechanism noise on a channel.
        clock_unit: the unit of the clock; "step" if every step adds one.
        aliases: alternative names of parameters, `{"time_budget": "horizon"}`.
        hidden: the attributes of the parameters, and of `constants`, that agents must not know. The State declares
            the owners of its fields itself.
        turns: the roles in the order of their turns (the environment is then phased); None if all act simultaneously.
        acts: the field int64[B, r] with the numbers of the agents that act next; empty if all do, in order.
        info_fields: the number fields of the state that infos show; for other entries, override `empty_info` and write
            the function `info`.
        info_by_agent: `{key of info: (role, field of the state)}`, for entries by agent.
        info_valid_if: `{key of info: field of the state}`, where a key has a meaning only if that field is true.
        counts: `{channel: (field [B] with the number of messages of all agents, field [B, N] with the number of further
            messages of each)}`, either of which may be empty.
        chosen: `{channel: fields}`, the same for channels with levels chosen by senders.
        opens: whether agents send messages when a run begins; if so, `between` and `receive` are also played then.
        compile: whether to compile; if not, functions may use any Python, and may be methods.
        jumps: the types of fast forms (`taciturn.envs.core.Fast`) that the environment can play, `{role: type}`; see
            `jump`.
        jump_sends_messages: whether a jump sends its messages through the channels one by one, so any mechanism,
            budget or fault may be installed on them.
        passes: the functions of `public` that send or deliver information between agents, `{name: Passing}`.
    """

    name: ClassVar[str]
    state_type: ClassVar[Any]
    sources: ClassVar[tuple[str, ...]]
    noise: ClassVar[Mapping[str, str]] = {}
    clock_unit: str = "step"
    aliases: Mapping[str, str] = {}
    hidden: frozenset[str] = frozenset()
    turns: tuple[tuple[str, ...], ...] | None = None
    acts: ClassVar[str] = ""
    info_fields: ClassVar[tuple[str, ...]] = ()
    info_by_agent: ClassVar[Mapping[str, tuple[str, str]]] = {}
    info_valid_if: ClassVar[Mapping[str, str]] = {}
    counts: ClassVar[Mapping[str, tuple[str, str]]] = {}
    chosen: ClassVar[Mapping[str, Chosen]] = {}
    opens: ClassVar[bool] = False
    compile: bool = True
    jumps: Mapping[str, type[Fast]] = {}
    jump_sends_messages: bool = False
    passes: Mapping[str, Passing] = {}
    functions: Any
    params: Any
    num_envs: int
    plain = True  # whether the channels of this run have no mechanism, budget or fault

    @property
    @abstractmethod
    def state(self) -> S:
        """The current State; it does not change when the run goes on."""

    @abstractmethod
    def column(self, name: str) -> Array:
        """A field of the state of all replicas, [B, ...], to read or write."""

    @abstractmethod
    def make_roles(self) -> tuple[Role, ...]:
        """The roles of the acting agents."""

    def make_channels(self) -> tuple[Channel, ...]:
        """The channels that carry private data."""
        return ()

    def check_channel(self, channel: str, config: ChannelConfig) -> None:
        """Raise ValueError if this environment cannot use `config` on that channel."""

    def constants(self) -> Any:
        """The `params` argument of the functions, a NamedTuple of numbers and arrays; made again when the channels'
        configurations change. By default `numbers`."""
        return self.numbers()

    def numbers(self, **more: Any) -> Any:
        """The parameters that are numbers or arrays, and `more`, which may override some of them."""
        values = {field.name: getattr(self.params, field.name) for field in dataclasses.fields(self.params)}
        known = {name: value for name, value in values.items() if isinstance(value, bool | int | float | np.ndarray)}
        known |= more
        return compiled.arrays_type(tuple(known), "Params")(**known)

    def arrays(self) -> dict[str, Any]:
        """The arrays of one replica before it begins, by field; a size or shape means zeros.

        By default the fields of the State declared with a shape.
        """
        return fields.shapes_of(self.state_type, self.params)

    def draws(self) -> float:
        """About how many random numbers a turn draws; needed only if these are many more than the arrays' entries."""
        return 0.0

    def on_reset(self, where: Array) -> None:
        """Additional work at the start of the replicas `where` bool[B]."""

    def remember(self) -> None:
        """The part of the state to store before a turn, for pictures, while the population is `pictured`."""

    def between(self, live: Array) -> None:
        """Process messages between the two halves of a turn, in the replicas `live` bool[B]."""

    def splits(self) -> bool:
        """Whether `between` does anything in this run."""
        return type(self).between is not Hooks.between and not (self.plain and (self.counts or self.chosen))

    def on_end(self, where: Array) -> None:
        """Additional work at the end of the replicas `where` bool[B]."""

    def empty_info(self) -> Info:
        """Every key that infos may have, with the value of one replica when the key has no meaning.

        Each value is a bool, an int or a float, an array [K] of them, or `{role: number}` for one number per agent, and
        fixes the key's type. It is shown, with `_key` False, before the first step and in turns that leave out the key.
        """
        arrays = self.arrays()
        kinds = compiled.numbers_of(self.state_type, frozenset(arrays))
        each = {
            key: {role: compiled.array_of_field(self.state_type, field, arrays[field]).dtype.type().item()}
            for key, (role, field) in self.info_by_agent.items()
        }
        return {name: np.zeros((), kinds[name]).item() for name in self.info_fields} | each

    def action_mask(self, role: str) -> Array | None:
        """The actions that have an effect now, int8[B, rows, n]; None if all do."""
        return None

    def private(self, drawn: Array, agents: Array | None = None) -> Array:
        """The private observations of agents, [B, N, ...] (or [B, rows, ...] for the `agents` int[B, rows]): by default
        `drawn` itself.

        All private observations of an environment pass through this hook, so an audit can play two environments that
        differ in one agent's data. A function in its place runs uncompiled, unless its attribute `plain` has the same
        function of one agent's number (`taciturn.compiling.compiled.constant`).
        """
        return drawn

    def can_jump(self, until: float) -> bool:
        """Whether the distribution that `jump` draws from is exact in the current state, for a run up to time `until`
        (inf: to the end)."""
        return True

    def jump(self, forms: Mapping[str, Any], policies: Mapping[str, Any], until: float) -> None:
        """Play all events of every live replica up to time `until` (inf: to the end) in one draw, by the distribution
        of their sum.

        Called only if the policies have fast forms of the types in `jumps`, `can_jump` is true, and nothing installed
        on the channels changes that distribution. `forms` holds the fast form of each role's policy, or None for a
        policy that must be asked by `act`. A jump counts and charges messages as steps would have done.
        """
        raise NotImplementedError

    def default_action(self, role: str) -> Array:
        """A role's action before its policy first chooses, [B, rows, ...]; the Parallel view of a phased environment
        opens its first cycle with it."""
        raise ValueError(f"{self.name} has no default action for role {role!r}")

    def clock(self) -> Array:
        """The elapsed time, float64[B], in the unit `clock_unit`; by default the state's `time`."""
        state: Any = self.state
        return np.asarray(state.time, np.float64)

    def measures(self) -> dict[str, Callable[[], Array]]:
        """The quantities that `measure` can read during a run: `{name: function that returns [B, ...]}`; by default the
        fields in `info_fields`."""
        return {name: partial(self.column, name) for name in self.info_fields}

    def outcome(self) -> dict[str, Array]:
        """The metrics of a finished run, apart from messages and epsilon: `{name: [B]}`; by default the measures of
        shape [B]."""
        values = {name: np.array(measure(), np.float64) for name, measure in self.measures().items()}
        return {name: value for name, value in values.items() if value.ndim == 1}

    def public(self) -> dict[str, Any]:
        """Additional attributes of the policies' `PublicView`."""
        return {}

    def practice_params(self) -> Any:
        """The parameters of environments to train in, which must not give the instance of the current run."""
        return self.params

    def lesson(self) -> tuple[Array, Array] | None:
        """Facts about a practice instance for a trainer, hidden from agents: how much worse than the best each option
        is, [B, K + 1] (the last: no option), and the option of each agent, int[B, N]. None: the environment has no
        options, and agents learn from their rewards."""
        return None

    def message_spec(self) -> Any:
        """How agents send messages at chosen levels, a `taciturn.envs.core.level_choice.MessageSpec`, if the parameter
        `message_levels` allows it."""
        raise NotImplementedError

    def describe(self, replica: int = 0) -> str:
        """A few lines of text about one replica."""
        values = {name: np.round(measure()[replica], 4) for name, measure in self.measures().items()}
        return f"{self.name} " + " ".join(f"{name}={value}" for name, value in values.items())

    def draw(self, axes: Any, replica: int = 0) -> None:
        """Draw one replica on a matplotlib `axes`."""
        axes.text(0.5, 0.5, self.describe(replica), ha="center", va="center", wrap=True)
        axes.set_axis_off()
