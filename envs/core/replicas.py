"""Populations of the worlds that are written for one replica."""

import copy
import dataclasses
import multiprocessing
import os
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np

from taciturn.envs.core import compiled, counter_streams, fields
from taciturn.envs.core.channel_config import PLAIN
from taciturn.envs.core.compiled import BEGIN, HEAR, LOOK, SAY, TELL, Call, NotCompiled, Turn, every, run
from taciturn.envs.core.info import Info
from taciturn.envs.core.kernels import FINE, Loop, failed
from taciturn.envs.core.population import One, Population, S, Step
from taciturn.envs.core.roles import FEW_ACTIONS, Role
from taciturn.envs.core.seeding import Streams
from taciturn.validation import Array, array_of

NUMBERS_A_TURN = 50  # numbers that an uncompiled turn reads and writes in about the time of everything else
_MOMENT: Any = object  # makes markers of the state at one moment
DRAW = 3  # numbers that are read in the time of a draw
COPIED = 2**14  # bytes of observations that are copied faster than the address of others is found out
PART = 4096  # turns that make a thread worth while


class Chosen(NamedTuple):
    """The fields in which a world counts the messages of a channel whose senders choose their levels.

    Attributes:
        messages: the number field of those of all agents.
        dearest: the number field of the largest level of all.
        counted: int64[N, 2], of each agent, and those at a level above 0.
        spent: float64[N, 3], sums of the levels of each agent and of their squares, and the largest.
    """

    messages: str
    dearest: str
    counted: str
    spent: str


class Replicas(Population[S]):
    """Base of the worlds that are written for one replica.

    A world gives these functions. Only `heard` returns anything, and they refer only to numbers, arrays, other such
    functions and `taciturn.envs.core.counter_streams`:

    - `begin(state, arrays, params, rng)` begins a run; all numbers are 0 before it.
    - `said(state, arrays, actions, params, rng)` plays a turn, or, if agents send messages, its first half, up to what
      they say; `actions` has a row for each agent that acts.
    - `heard(state, arrays, params, rng, reward)` plays the rest, and returns (terminated, truncated).
    - `observe_one(seen, params, out)` fills `out` float32[D]; the core clips it to its bounds. `seen` holds what the
      agent number `seen.agent` may observe, by the names of fields: its own entries, what it received, and public
      fields (`taciturn.envs.core.fields`); `params` lacks what is `hidden`.
    - `tell(state, arrays, params, info)` sets the numbers of `info`, which begins as `empty_info` says.

    `state` holds the numbers of the run and `arrays` its arrays, by the names of the fields of the world's State; `rng`
    goes to `uniform(rng, source)` and the like, where `source` is a place in `sources`. A number that is assigned keeps
    the type of its field. Rewards go into `reward` [agents], which is 0 when a turn begins; `said` knows it as
    `arrays.reward`. What an agent privately observes passes through `private`.

    Messages: `said` leaves in the state what agents say; `between` sends it through the channel, for all replicas at
    once, and leaves in the state what is heard. Where nothing stands on the channel (`plain`), agents hear what was
    said: a world whose `counts` or `chosen` name fields that count its messages is then played without `between`, in
    one loop.

    In a world of turns, `said`, `heard` and `observe_one` are dicts by role, and `reward` has the agents of all roles
    in order.

    Class attributes:
        state_type: the dataclass State. Its annotations are Ints, Floats or Bools, [B] or [B, ...] as seen from
            outside.
        sources: names of the sources of random numbers.
        noise: `{source: channel}`, for sources of the noise of a channel's mechanism.
        tells: the number fields of the state that infos show; a world with other entries writes `empty_info` and
            `tell`.
        tells_each: `{key of info: (role, field of the state)}`, for entries by agent.
        told_if: `{key of info: field of the state}`, where a key has a meaning only if that field is true.
        acts: the field int64[B, r] that numbers the agents that act next; empty if all do, in order.
        counts: `{channel: (field [B] that counts messages of all agents, field [B, N] that counts further messages of
            each)}`, either of which may be empty.
        chosen: `{channel: fields}`, the same for channels whose senders choose their levels.
        opens: whether agents send messages as a run begins: these pass `between`, and `heard` is played.
        compile: whether to compile; if not, functions may do anything, and may be methods.
    """

    state_type: ClassVar[Any]
    sources: ClassVar[tuple[str, ...]]
    noise: ClassVar[Mapping[str, str]] = {}
    tells: ClassVar[tuple[str, ...]] = ()
    tells_each: ClassVar[Mapping[str, tuple[str, str]]] = {}
    told_if: ClassVar[Mapping[str, str]] = {}
    acts: ClassVar[str] = ""
    counts: ClassVar[Mapping[str, tuple[str, str]]] = {}
    chosen: ClassVar[Mapping[str, Chosen]] = {}
    opens: ClassVar[bool] = False
    compile: bool = True
    begin: Callable[..., None]
    said: ClassVar[Any]
    heard: ClassVar[Any]
    observe_one: ClassVar[Any]
    tell: Callable[..., None] | None = None

    def __init__(self, params: Any, num_envs: int = 1, first_replica: int = 0) -> None:
        self.first_replica = first_replica
        super().__init__(params, num_envs)
        fields.check_roles(self.state_type, self._owning_roles)
        self._compiles = self.compile and compiled.may_compile()
        self._played = 0.0
        self._built = 0  # whether loops may be loaded (1), or compiled (2), as well
        self._loops: dict[Any, Any] = {}
        self._made_for: Any = None
        self._rngs: Any = None
        self._by_name: dict[str, Array] = {}
        self._fresh: list[tuple[Array, Any]] = []  # arrays, and how runs begin with them
        self._calls: list[list[Any]] = []  # of `_run_one`, by whether everyone observes, and by turn
        self._drawn_from: Any = None
        self._generators: dict[str, list[Any]] = {}
        self._seen_state: Any = None
        self.plain, self._splits = True, False
        self.closed_forms: dict[str, Any] = {}
        self._inside: dict[str, Any] = {}

    # What a world writes.

    def constants(self) -> Any:
        """What the functions know as `params`, a NamedTuple of numbers and arrays; made anew when the channels'
        configurations change.

        By default, the world's parameters that are numbers or arrays.
        """
        numbers = (bool, int, float, np.ndarray)
        known = {
            f.name: value
            for f in dataclasses.fields(self.params)
            if isinstance(value := getattr(self.params, f.name), numbers)
        }
        return compiled.params_type(tuple(known))(**known)

    def arrays(self) -> dict[str, Any]:
        """The arrays of one replica before it begins, by field; a size or shape stands for zeros.

        By default the fields of the State that were declared with a shape.
        """
        return fields.shapes_of(self.state_type, self.params)

    def draws(self) -> float:
        """About how many numbers a turn draws, where these are many more than the arrays hold; by default none."""
        return 0.0

    def begun(self, where: Array) -> None:
        """What else happens as the replicas `where` bool[B] begin; by default nothing."""

    def between(self, live: Array) -> None:
        """What happens to messages between the two halves of a turn, in the replicas `live` bool[B]; by default
        nothing."""

    def deliver(self, channel: str, message: str, into: str, live: Array, **named: Any) -> Array:
        """Send a field through a channel in the replicas `live` bool[B], and leave what arrives in another field.

        Args:
            channel: its name.
            message: an `own` field [B, N, ...] (`taciturn.envs.core.fields`), what each agent sends.
            into: a `received` field of that shape, 0 where nothing arrives.
            live: the replicas that play.
            **named: further arguments of `Channel.send`.

        Returns:
            which messages arrived, bool[B, N].
        """
        for name, kind in ((message, fields.OWN), (into, fields.RECEIVED)):
            if fields.owners(self.state_type).get(name, fields.Owner()).kind != kind:
                raise TypeError(f"field {name!r} of {self.name} must be declared as {kind} to be used in `deliver`")
        heard, delivered = self.channels[channel].send(self.column(message), **named)
        self.column(into)[live] = heard[live]
        return delivered

    def generators(self, name: str) -> list[np.random.Generator]:
        """A NumPy generator for each replica, which gives it the same numbers among any number of replicas."""
        assert self.streams is not None
        if self._generators.get("", [None])[0] is not self.streams:
            self._generators = {"": [self.streams]}
        if name not in self._generators:
            replicas = self.first_replica + np.arange(self.num_envs)
            made = counter_streams.generators_of(self.streams.entropy, self.purpose, name, replicas)
            self._generators[name] = made
        return self._generators[name]

    def told_arrays(self) -> Info:
        """The entries of infos that are arrays or by agent, as fresh arrays [B, ...]; by default the fields that
        `tells_each` names, and otherwise the state's fields of the same names."""
        each = {key: {role: self.column(field).copy()} for key, (role, field) in self.tells_each.items()}
        return {key: self.column(key).copy() for key in self._no_arrays if key not in each} | each

    def remember(self) -> None:
        """What is kept of the state before a turn, for pictures, while the population is `pictured`; by default
        nothing."""

    def splits(self) -> bool:
        """Whether something happens in `between` in this run."""
        return type(self).between is not Replicas.between and not (self.plain and (self.counts or self.chosen))

    def ended(self, where: Array) -> None:
        """What else happens as the replicas `where` bool[B] end; by default nothing."""

    def measures(self) -> dict[str, Callable[[], Array]]:
        """See `Population`; by default the fields that infos show."""
        return {name: partial(self.column, name) for name in self.tells}

    def empty_info(self) -> Info:
        kinds, arrays = compiled.numbers_of(self.state_type, frozenset(self.arrays())), self.arrays()
        each = {
            key: {role: compiled.array_of_field(self.state_type, field, arrays[field]).dtype.type().item()}
            for key, (role, field) in self.tells_each.items()
        }
        return {name: np.zeros((), kinds[name]).item() for name in self.tells} | each

    # What is written once.

    @staticmethod
    def _is_number(value: Any) -> bool:
        return not isinstance(value, Mapping) and np.ndim(value) == 0

    def column(self, name: str) -> Array:
        """A field of the state of all replicas, [B, ...], to be read and written."""
        return self._by_name[name]

    @property
    def state(self) -> S:
        """The State as it is now; it does not change when the run goes on."""
        self._begun()
        if self._seen_state is None:
            names = (field.name for field in dataclasses.fields(self.state_type))
            self._seen_state = self.state_type(**{name: self.column(name).copy() for name in names})
        return self._seen_state

    def acting(self, role: str) -> Array | None:
        if not self.acts:
            return None
        if self._state is None:
            self._begun()
        return self._by_name[self.acts].copy()

    @property
    def some_act(self) -> bool:
        return bool(self.acts)

    def __getstate__(self) -> dict[str, Any]:
        kept = super().__getstate__() | {"_loops": {}, "_by_name": {}, "_fresh": [], "_calls": []}
        if self._state is not None:  # a copy plays on independently
            kept["_arrays"] = {name: array.copy() for name, array in self._arrays._asdict().items()}
            kept |= {"_rows": self._rows.copy(), "_rngs": self._rngs.copy()}
            own = {name: copy.deepcopy(made) for name, made in self._generators.items() if name}
            kept["_generators"] = {key: self._generators[key] for key in self._generators if not key} | own
        return kept

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.channels = {name: copy.copy(channel) for name, channel in self.channels.items()}
        if self._state is not None:
            self._arrays = compiled.arrays_type(tuple(state["_arrays"]))(**state["_arrays"])
            self._name_fields()
            self._bind()
            self._prepare()

    def _allocate(self) -> None:
        """Allocate the arrays for a run of all replicas, with the current parameters."""
        self._single = {
            name: compiled.array_of_field(self.state_type, name, given) for name, given in self.arrays().items()
        }
        turns = [turn[0] for turn in self.turns or [tuple(self.roles)]]
        self._order = list(zip(turns, turns[1:] + turns[:1], strict=True))  # the roles of each turn and of the next one
        self._cycle = len(self._order)
        if self._inside:
            first, then = turns
            self._order, self._cycle = [(first, first), (first, then)], 1  # the second only serves to observe
            self._single |= self._of_answers(self.roles[then])
        everyone = sum(role.num_agents for role in self.roles.values())
        self._single["reward"] = np.zeros(self._single[self.acts].size if self.acts else everyone)
        made = {name: np.stack([array] * self.num_envs) for name, array in self._single.items()}
        self._arrays = compiled.arrays_type(tuple(made))(**made)
        self._rows = np.zeros(self.num_envs, compiled.numbers_of(self.state_type, frozenset(made)))
        self._name_fields()
        empty = {key: value for key, value in self.empty_info().items() if self._is_number(value)}
        kinds = [(key, np.asarray(value).dtype) for key, value in empty.items()]
        self._none, self._keys = np.array([tuple(empty.values())], np.dtype(kinds, align=True)), tuple(empty)
        self._no_arrays = {key: value for key, value in self.empty_info().items() if key not in empty}
        self._nones: dict[str, tuple[str, Array]] = {}
        for key, value in self._no_arrays.items():
            ((role, none),) = value.items() if isinstance(value, Mapping) else [("", value)]
            self._nones[key] = role, np.full(self.roles[role].num_agents, none) if role else np.array(none)
        self._columns, agents = {}, 0
        for role in self.roles.values():
            self._columns[role.name] = slice(agents, agents := agents + role.num_agents)
        self._agents = agents
        self._bounds = {role.name: np.stack([role.layout.low, role.layout.high]) for role in self.roles.values()}
        spaces: dict[str, Any] = {role.name: role.action_space for role in self.roles.values()}
        # Placeholders, of the right types, for arguments that a call does not need.
        self._idle = {name: np.zeros((0, 0, *space.shape), space.dtype) for name, space in spaces.items()}
        self._never, self._nobody = np.zeros((0, 2), np.bool_), np.zeros((0, 0), np.int64)
        self._blank = np.zeros((0, 0, 0), np.float32), np.zeros((0, 0)), self._none[:0].copy()
        self._everywhere = np.ones(self.num_envs, np.bool_)
        looks = max(role.num_agents * role.layout.size for role in self.roles.values())
        numbers = sum(array.size for array in self._single.values()) + looks + DRAW * self.draws()
        self._effort = max(1.0, numbers / NUMBERS_A_TURN)
        rows = {
            name: self._single[self.acts].size if self.acts else role.num_agents for name, role in self.roles.items()
        }
        self._action = [np.zeros((1, rows[name], *spaces[name].shape), spaces[name].dtype) for name in turns]
        self._loops = {}

    @staticmethod
    def _of_answers(role: Role) -> dict[str, Array]:
        """The arrays of `compiled.answered`."""
        space: Any = role.action_space
        glance = np.stack([np.zeros(role.layout.size, np.float32), role.layout.low, role.layout.high])
        answers = np.zeros((role.num_agents, *space.shape), space.dtype)
        return {"answers": answers, "glance": glance, "kept": np.zeros(compiled.KEPT)}

    def _name_fields(self) -> None:
        """The fields of the state and `reward`, as `column` gives them."""
        self._by_name = self._arrays._asdict()
        self._by_name |= {name: self._rows[name] for name in self._rows.dtype.names}

    def _bind(self) -> None:
        """Channels on which nothing stands count by the fields of the state."""
        if self.plain:
            for name, made in self.chosen.items():
                counted, spent = self.column(made.counted), self.column(made.spent)
                self.channels[name].each = counted[..., 0]
                sums = spent[..., 0], spent[..., 1], spent[..., 2]
                self.ledger.keep_levels(name, self.channels[name].chosen, counted[..., 1], *sums)
            for name, (everyone, each) in self.counts.items():
                channel = self.channels[name]
                channel.everyone = self.column(everyone) if everyone else channel.everyone
                channel.each = self.column(each) if each and self.column(each).size else channel.each

    def _functions(self, turn: int = 0) -> dict[str, Any]:
        """A world's functions under the names that `run` uses: `said` and `heard` of this turn's role, `observe` of the
        next turn's."""
        now, then = self._order[turn]
        by_role = {"said": (self.said, now), "heard": (self.heard, now), "observe": (self.observe_one, then)}
        # A run begins as after the last turn; compiling `begin` into the other turns too would take long.
        begins = self.begin if turn == self._cycle - 1 else compiled.begins_not
        found: dict[str, Any] = {"begin": begins, "own": compiled.own_arrays(self._arrays._fields)}
        found["tell"] = self.tell or compiled.tell_of(self.tells)
        found |= {"sight": self._sight_of(then), "known": compiled.known_of(self._constants._fields, self.hidden)}
        found |= {name: given[role] if isinstance(given, Mapping) else given for name, (given, role) in by_role.items()}
        if turn < self._cycle and self._inside:
            found |= self._answering(found, now)
        return found

    def _answering(self, found: Mapping[str, Any], first: str) -> dict[str, Any]:
        """`said` and `heard` of a turn and the next one, whose agents answer by a closed form."""
        ((then, answer),) = self._inside.items()
        used = {"said": self.said[first], "heard": self.heard[first], "known": found["known"], "answer": answer}
        used |= {"sight": self._sight_of(then), "observe": self.observe_one[then], "answered_said": self.said[then]}
        return {"said": compiled.answered_turn(tuple(used.items())), "heard": self.heard[then]}

    def _sight_of(self, role: str) -> Any:
        """The function that picks what an agent of a role may observe."""
        seen = {name: one for name, one in fields.owners(self.state_type).items() if one.seen_by(role)}
        rows = [name for name, one in seen.items() if one.each and name in self._single and self._single[name].size]
        whole = [name for name, one in seen.items() if not one.each and name in self._single]
        return compiled.sight_of(tuple(rows), tuple(whole), tuple(name for name in seen if name not in self._single))

    def _watched(self) -> dict[str, Any]:
        """The function in place of `private`, if the population overrides that hook."""
        if type(self).private is Population.private:
            return {}
        return {"private": lambda agent, drawn: self.private(np.array([[drawn]]), np.array([[agent]]))[0, 0].item()}

    def _run(
        self,
        what: int,
        live: Array,
        turn: int = 0,
        actions: Array | None = None,
        over: Array | None = None,
        who: Array | None = None,
        out: Array | None = None,
    ) -> tuple[Array, Array, Array]:
        """`run`, compiled once enough has been played: (observations, rewards, told), each if asked for.

        The agents `who` [B, r] observe, into `out` if that is given; by default those that act next.
        """
        now, then = self._order[turn]
        seen, reward, told = self._blank
        if who is None:
            who = self.column(self.acts) if self.acts else self._nobody
        if what & LOOK:
            rows = who.shape[1] if len(who) else self.roles[then].num_agents
            shape = self.num_envs, rows, self.roles[then].layout.size
            seen = np.empty(shape, np.float32) if out is None else out
        if what & (SAY | HEAR):
            reward = self._arrays.reward
        if what & TELL:
            told = np.empty(self.num_envs, self._none.dtype)
        given = Turn(
            what,
            0,
            self.num_envs,
            live,
            self._rows,
            self._arrays,
            self._idle[now] if actions is None else actions,
            self._constants,
            self._rngs,
            reward,
            self._never if over is None else over,
            who,
            self._bounds[then],
            seen,
            self._none,
            told,
        )
        self._looped(turn, run, given, self._effort)
        return seen, reward.copy() if what & HEAR else reward, told

    def apply(self, function: Any, live: Array, params: Any, turns: float) -> None:
        """Call `function(state, arrays, params, rng)`, compiled like the others, in the replicas `live` bool[B].

        Args:
            params: a NamedTuple of numbers and arrays.
            turns: about how many turns each replica plays.
        """
        self._played += turns * np.count_nonzero(live)
        given = Call(0, self.num_envs, live, self._rows, self._arrays, params, self._rngs)
        self._looped(function, every, given, turns)
        self._moved()

    def _looped(self, key: Any, loop: Any, given: Any, effort: float) -> None:
        """Call the loop of that key, in threads if it is long enough."""
        made = self._loop(key, loop, given)
        parts = min(num_threads(), self.num_envs, int(self.num_envs * effort / PART))
        if parts < 2 or not isinstance(made, Loop):
            made(given)
        else:
            places = np.linspace(0, self.num_envs, parts + 1).astype(int).tolist()
            shares = [given._replace(first=first, last=last) for first, last in pairwise(places)]
            list(threads().map(made, shares, range(parts)))

    def _loop(self, key: Any, loop: Any, given: Any) -> Any:
        """The loop of that key, compiled if enough has been played."""
        enough = compiled.COMPILE_FROM
        may = 2 if self._played >= enough else int(self._played >= compiled.LOADS_AT * enough)
        if may > self._built:
            self._built, self._loops = may, {}
        made = self._loops.get(key)
        if made is None:
            made = self._loops[key] = self._made_loop(key, loop, given)
        return made

    def _made_loop(self, key: Any, loop: Any, given: Any) -> Any:
        functions = self._functions(key) if loop is run else self._applied(key)
        watched = self._watched()
        if self._built and self._compiles and not watched:
            try:
                found = compiled.compiled(loop, functions, given, self.name * (self._built > 1))
            except Exception as error:  # the compiler raises many kinds
                why = compiled.why_not(error, compiled.all_functions(functions))
                warnings.warn(f"{self.name} plays uncompiled: {why}", NotCompiled, stacklevel=2)
                self._compiles = False
            else:
                if found is not None:
                    return found
        return compiled.interpreted(loop, functions | watched)

    def _applied(self, function: Any) -> dict[str, Any]:
        """A function under the names that `every` uses."""
        return {"one": function, "own": compiled.own_arrays(self._arrays._fields)}

    def build(self) -> None:
        """Compile the loops of all turns, or load them, before they are needed; begins a run."""
        self._built, self._loops = 2, {}
        self.reset(seed=0)
        for turn in range(len(self._order)):
            self._run(LOOK, self._everywhere, turn)

    def _begin_state(self, where: Array | None) -> None:
        self._ready(where is None)
        where = self._everywhere if where is None else where
        begin = int(np.count_nonzero(where))
        self._played += begin * self._effort
        some: Any = ... if begin == self.num_envs else where  # much faster than a mask
        for array, first in self._fresh:
            array[some] = first
        last, over = self._cycle - 1, np.zeros((self.num_envs, 2), np.bool_)
        what = BEGIN | HEAR if self.opens and not self._splits else BEGIN
        if begin == self.num_envs == 1:
            self._run_one(what, last)
        else:
            self._run(what, where, last, over=over)
        self._moved()
        if type(self).begun is not Replicas.begun:
            self.begun(where)
            self._moved()
        if self.opens and self._splits:
            self.between(where)
            self._run(HEAR, where, last, over=over)
            self._moved()

    def _ready(self, whole: bool) -> None:
        """Prepare arrays, channels and sources of random numbers for runs that begin; `whole`: of all replicas."""
        streams = self.streams
        assert isinstance(streams, Streams)
        if whole:
            configs = [channel.config for channel in self.channels.values()]
            asked = configs, self.closed_forms
            if self._made_for is None or self._made_for[0] is not self.params or self._made_for[1] != asked:
                chosen = {name for name, channel in self.channels.items() if channel.chosen}
                self.plain = all(config == PLAIN for config in configs) and chosen <= self.chosen.keys()
                self._constants = self.constants()
                self._inside = {} if self.splits() else self.closed_forms
                self._allocate()
                self._made_for, self._calls = (self.params, asked), []
            self._bind()
        if self._rngs is None or self._drawn_from is not streams:
            replicas = self.first_replica + np.arange(self.num_envs)
            noise = {source: self.channels[name].configuration for source, name in self.noise.items()}
            drawn = counter_streams.sources_of(streams.entropy, self.purpose, self.sources, replicas, noise)
            if self._rngs is None or self._rngs.shape != drawn.shape:
                self._rngs = drawn
            self._rngs[...], self._drawn_from = drawn, streams
        if not self._calls:
            self._prepare()

    def _moved(self) -> None:
        """Note that the state has changed."""
        self._state, self._seen_state = _MOMENT(), None

    def look(self, role: str, rows: Array | None = None) -> Array:
        self._begun()
        turn = next(turn for turn, (_, then) in enumerate(self._order) if then == role)
        if self.num_envs == 1 and rows is None:
            return self._run_one(LOOK, turn, everyone=True)[role][None]
        who = self._nobody if rows is None else np.ascontiguousarray(rows, np.int64)
        return self._run(LOOK, self._everywhere, turn, who=who)[0]

    def observe(self) -> Any:
        self._begun()
        turn = (self._turn - 1) % self._cycle
        seen = self._run(LOOK, self._everywhere, turn)[0]
        return seen if len(self.roles) == 1 else {self._order[turn][1]: seen}

    def _play(self, live: Array, run_by: Callable[[int], Any], more: int = 0) -> Any:
        """Play a turn in the replicas `live` bool[B]: call `run_by` with the bits of what `run` is to do; returns what
        the last call does."""
        if self.pictured:
            self.remember()
        self._played += self.num_envs * self._effort
        for channel in self.channels.values():
            channel.live = live
            channel.times += self.plain or not self._splits  # then fields of the state count messages
        if self._splits:
            run_by(SAY)
            self.between(live)
        found = run_by((HEAR if self._splits else SAY | HEAR) | LOOK | more)
        self._turn = (self._turn + 1) % self._cycle
        self._state, self._seen_state = _MOMENT(), None
        return found

    def _settle(self) -> None:
        telling = None if self._telling is None else self._telling()
        if telling is not None and callable(telling.info):
            telling.info = telling.info()
        super()._settle()

    def step(self, actions: Any, where: Array | None = None, out: Array | None = None) -> Step:
        _, frozen = self._running(where)
        role = self.turn[0]
        checked = np.ascontiguousarray(self._checked(actions)[role], self.roles[role].action_space.dtype)
        self._check_room(out)
        self._settle()
        live, turn = ~frozen, self._turn
        over = np.empty((self.num_envs, 2), np.bool_)
        over[:, 0], over[:, 1] = self.terminated, self.truncated
        seen, reward, _ = self._play(live, lambda what: self._run(what, live, turn, checked, over, out=out))
        if type(self).ended is not Replicas.ended:
            self.ended(live & over.any(1))
        for channel in self.channels.values():
            if channel.config.budget is not None:
                over[:, 1] |= channel.stopped & live
        self.terminated, self.truncated = over[:, 0], over[:, 1]
        told = self._tell(self.told, live)
        if len(self.roles) == 1:
            return Step(seen, reward, self.terminated, self.truncated, told)
        earned = {name: reward[:, columns] for name, columns in self._columns.items()}
        return Step({self.turn[0]: seen}, earned, self.terminated, self.truncated, told)

    def _prepare(self) -> None:
        """Prepare what single steps use, for runs with these parameters and channels."""
        self._splits = self.splits()
        self._closes = self._splits or type(self).ended is not Replicas.ended
        begins = ((self.column(name), one if one.any() else 0) for name, one in self._single.items() if one.size)
        numbers = [(self._rows.view(np.uint8).reshape(self.num_envs, -1), 0)]  # bytes are filled faster than fields
        self._fresh = [*(numbers if self._rows.itemsize else ()), *begins]
        self._calls = [[]]
        if self.num_envs == 1:
            acting = self.column(self.acts) if self.acts else self._nobody
            reward, over, told = self._arrays.reward, np.zeros((1, 2), np.bool_), self._none.copy()
            self._filled = reward[0], over[0], told
            self._calls = [
                [self._call(turn, who, reward, over, told) for turn in range(len(self._order))]
                for who in (acting, self._nobody)
            ]
            self._empty = dict(zip(self._keys, self._none.item()))
            self._shown = None
            if type(self).told_arrays is Replicas.told_arrays:
                own = self.tells_each
                self._shown = {key: self.column(own[key][1] if key in own else key) for key in self._no_arrays}

    def _call(self, turn: int, who: Array, reward: Array, over: Array, told: Array) -> Turn:
        """What `run` is given in a turn of the only replica if the agents `who` [1, r] observe (if empty, all)."""
        then = self._order[turn][1]
        role = self.roles[then]
        return Turn(
            0,
            0,
            1,
            self._everywhere,
            self._rows,
            self._arrays,
            self._action[turn],
            self._constants,
            self._rngs,
            reward,
            over,
            who,
            self._bounds[then],
            np.empty((1, who.shape[1] or role.num_agents, role.layout.size), np.float32),
            self._none,
            told,
        )

    def reset_one(
        self, seed: int | None, options: Mapping[str, Any] | None, everyone: bool = False
    ) -> tuple[dict[str, Array], Info]:
        self._restart(seed, options, None)
        info = self._empty | {key: self._none_of(key) for key in self._no_arrays}
        self._add_spent(info)
        return self._run_one(LOOK, self._cycle - 1, everyone), info

    def step_one(self, actions: Mapping[str, Any], everyone: bool = False) -> One:
        if self._state is None or self.terminated[0] or self.truncated[0]:
            self._running()
        turn = self._turn
        name = self._order[turn][0]
        self._accept(actions[name], self.roles[name], turn)
        if self._telling is not None:
            self._settle()
        seen = self._play(self._everywhere, partial(self._run_one, turn=turn, everyone=everyone), TELL)
        reward, over, told = self._filled
        terminated, truncated = self._ended_one(over.tolist()) if self._closes else over.tolist()
        if terminated or truncated:
            self.terminated, self.truncated = np.array([terminated]), np.array([truncated])
        info = dict(zip(self._keys, told.item()))
        if self._no_arrays:
            self._add_arrays(info)
        if self.channels:
            self._add_spent(info)
        paid = reward.tolist()
        if len(self._columns) > 1:
            by_role = {role: paid[columns] for role, columns in self._columns.items()}
            return seen, by_role, terminated, truncated, info
        return seen, {name: paid}, terminated, truncated, info

    def _run_one(self, what: int, turn: int, everyone: bool = False) -> dict[str, Array]:
        """`run` of the only replica, whose actions are in `_action`: what agents of the next role observe, {role: [r,
        D]}, if asked for; rewards and the like are in `_filled`."""
        words, place, play = self._loops.get((turn, everyone)) or self._bound(turn, everyone)
        words[0], seen = what, self._calls[everyone][turn].seen
        fresh = np.empty_like(seen) if what & LOOK and place and seen.nbytes > COPIED else None
        if fresh is not None:
            words[place] = fresh.ctypes.data
        if play() not in FINE:
            failed()
        return {self._order[turn][1]: (seen.copy() if fresh is None else fresh)[0]} if what & LOOK else {}

    def _bound(self, turn: int, everyone: bool) -> tuple[Array, int, Callable[[], int]]:
        """What plays a turn of the only replica: words, the first of which takes the bits of what `run` is to do and
        another the address of the observations, and a function that returns a status."""
        given = self._calls[everyone][turn]
        made = self._loop(turn, run, given)
        if not isinstance(made, Loop):  # perhaps not for long
            words = np.zeros(1, np.int64)
            return words, 0, lambda: made(given._replace(what=int(words[0]))) or 0
        self._loops[turn, everyone] = bound = made.bound(given, "seen")
        return bound

    def _add_arrays(self, info: Info) -> None:
        """Add to the info of the only replica the entries that are arrays or by agent."""
        kept = self._shown
        told = self.told_arrays() if kept is None else kept
        for key, values in told.items():
            if key in self.told_if and not self._rows[self.told_if[key]][0]:
                info[key] = self._none_of(key)
            elif type(values) is dict:
                info[key] = {role: own[0] for role, own in values.items()}
            elif key in self.tells_each:
                info[key] = {self.tells_each[key][0]: values[0].copy()}
            else:
                info[key] = values[0] if kept is None else values[0].copy()

    def _none_of(self, key: str) -> Any:
        """What the info of the only replica holds under a key that has no meaning, an array or by agent."""
        role, value = self._nones[key]
        return {role: value.copy()} if role else value.copy()

    def _ended_one(self, over: list[bool]) -> list[bool]:
        """Do what happens between steps and at the end of a run; return whether the only run has ended."""
        if any(over):
            self.ended(self._everywhere)
        stopped = any(c.config.budget is not None and c.stopped[0] for c in self.channels.values())
        return [over[0], over[1] or bool(stopped)]

    def _accept(self, actions: Any, role: Role, turn: int) -> None:
        """Check actions [rows, ...] of the only replica, and store them for `run`."""
        kept, fits = self._action[turn], role.fits
        if len(actions) == kept.shape[1] <= FEW_ACTIONS:
            for row, action in enumerate(actions):
                if not fits(action):
                    break
                kept[0, row] = action
            else:
                return
        name = "actions" if self._agents > 1 else "action"
        kept[...] = role.check(array_of(name, actions)[None], kept.shape[:2], name)

    def no_meaning(self) -> set[str]:
        return {key for key, field in self.told_if.items() if not self._rows[field][0]}

    def _add_spent(self, info: Info) -> None:
        """Add to the info of the only replica what was spent."""
        if not self.plain:
            info.update((key, value[0].item()) for key, value in self._spent_so_far().items())
            return
        if self.chosen:
            self._add_chosen(info)
            return
        sent, tells = 0, False
        for channel in self.channels.values():
            sent += int(channel.everyone[0]) * channel.num_senders
            if channel.each is not None:
                each = channel.each[0]
                sent += sum(each.tolist()) if len(each) <= FEW_ACTIONS else int(each.sum())
            tells = tells or channel.silence_tells or bool(channel.unbounded)
        if self.channels:
            info["messages"] = sent
            info["epsilon_message"] = np.inf if sent else 0.0
            info["epsilon_basic"] = np.inf if sent or tells else 0.0

    def _add_chosen(self, info: Info) -> None:
        """`_add_spent` on the only channel, whose senders choose their levels."""
        ((name, made),) = self.chosen.items()
        channel, dearest = self.channels[name], float(self._rows[made.dearest][0])
        total = dearest if channel.disjoint else float(self.column(made.spent)[0, :, 0].max())
        info["messages"], info["epsilon_message"] = int(self._rows[made.messages][0]), dearest
        info["epsilon_basic"] = np.inf if channel.silence_tells or channel.unbounded else total

    def told(self) -> Info:
        """The info of the state as it is now, [B] each."""
        told = self._run(TELL, self._everywhere)[2]
        info: Info = {key: told[key].copy() for key in self._keys}
        if self._no_arrays:
            info |= self.told_arrays()
        return info | {f"_{key}": self._rows[field].copy() for key, field in self.told_if.items()}


@cache
def num_threads() -> int:
    """How many threads a loop may use: `TACITURN_THREADS`; by default one per core, but 1 in a child process."""
    asked = os.environ.get("TACITURN_THREADS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    if multiprocessing.parent_process() is not None:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def pool(process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(num_threads())


def threads() -> ThreadPoolExecutor:
    """The threads of this process; a forked process has none of its parent's."""
    return pool(os.getpid())
