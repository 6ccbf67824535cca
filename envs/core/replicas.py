"""Populations of the worlds that are written for one replica."""

import copy
import dataclasses
import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from taciturn.envs.core import compiled, counter_streams, fields
from taciturn.envs.core.channel import ChannelConfig
from taciturn.envs.core.compiled import BEGIN, HEAR, LOOK, SAY, TELL, NotCompiled, every, run
from taciturn.envs.core.info import Info
from taciturn.envs.core.population import Population, S, Step, Transition
from taciturn.envs.core.roles import Role
from taciturn.envs.core.seeding import Streams
from taciturn.validation import Array, array_of

PLAIN = ChannelConfig()
NUMBERS_A_TURN = 50  # numbers that an uncompiled turn reads and writes in about the time of everything else
FEW = 16  # actions that are checked one by one
PART = 4096  # turns that make a thread worth while


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
    once, and leaves in the state what is heard. Where nothing stands on the channel, agents hear what was said: a world
    whose `counts` names fields that count its messages is then played without `between`, in one loop.

    In a world of turns, `said`, `heard` and `observe_one` are dicts by role, and `reward` has the agents of all roles
    in order.

    Class attributes:
        state_type: the dataclass State. Its annotations are Ints, Floats or Bools, [B] or [B, ...] as seen from
            outside.
        sources: names of the sources of random numbers.
        noise: `{source: channel}`, for sources of the noise of a channel's mechanism.
        tells: the number fields of the state that infos show; a world with other entries writes `empty_info` and
            `tell`.
        tells_each: `{key of info: field [B, N]}`, entries of infos that have a number for each agent of the only role.
        told_if: `{key of info: field of the state}`, where a key has a meaning only if that field is true.
        acts: the field int64[B, r] that numbers the agents that act next; empty if all do, in order.
        counts: `{channel: (field [B] that counts messages of all agents, field [B, N] that counts further messages of
            each)}`, either of which may be empty.
        compile: whether to compile; if not, functions may do anything, and may be methods.
    """

    state_type: ClassVar[Any]
    sources: ClassVar[tuple[str, ...]]
    noise: ClassVar[Mapping[str, str]] = {}
    tells: ClassVar[tuple[str, ...]] = ()
    tells_each: ClassVar[Mapping[str, str]] = {}
    told_if: ClassVar[Mapping[str, str]] = {}
    acts: ClassVar[str] = ""
    counts: ClassVar[Mapping[str, tuple[str, str]]] = {}
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
        self._waits = True  # set to play more before compiling
        self._loops: dict[Any, Any] = {}
        self._made_for: Any = None
        self._rngs: Any = None
        self._drawn_from: Any = None
        self._seen_state: Any = None
        self.plain, self._splits, self._remembers = True, False, False

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

    def told_arrays(self) -> Info:
        """The entries of infos that are arrays, as fresh arrays [B, ...]; by default the state's fields of the same
        names."""
        return {key: self.column(key).copy() for key in self._no_arrays if key not in self.tells_each}

    def told_each(self) -> dict[str, dict[str, Array]]:
        """The entries of `tells_each`, `{key: {role: [B, N]}}`."""
        return {key: {role: self.column(field).copy() for role in self.roles} for key, field in self.tells_each.items()}

    def remember(self) -> None:
        """What is kept of the state before a turn, for pictures; by default nothing."""

    def splits(self) -> bool:
        """Whether something happens in `between` in this run."""
        return type(self).between is not Replicas.between and not (self.plain and self.counts)

    def ended(self, where: Array) -> None:
        """What else happens as the replicas `where` bool[B] end; by default nothing."""

    def measures(self) -> dict[str, Callable[[], Array]]:
        """See `Population`; by default the fields that infos show."""
        return {name: partial(self.column, name) for name in self.tells}

    def empty_info(self) -> Info:
        kinds, arrays = compiled.numbers_of(self.state_type, frozenset(self.arrays())), self.arrays()
        each = {
            key: {role: compiled.array_of_field(self.state_type, field, arrays[field]).dtype.type().item()}
            for key, field in self.tells_each.items()
            for role in self.roles
        }
        return {name: np.zeros((), kinds[name]).item() for name in self.tells} | each

    # What is written once.

    @staticmethod
    def _is_number(value: Any) -> bool:
        return not isinstance(value, Mapping) and np.ndim(value) == 0

    def column(self, name: str) -> Array:
        """A field of the state of all replicas, [B, ...], to be read and written."""
        return getattr(self._arrays, name) if name in self._arrays._fields else self._rows[name]

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
        self._begun()
        return self.column(self.acts).copy()

    @property
    def some_act(self) -> bool:
        return bool(self.acts)

    def __getstate__(self) -> dict[str, Any]:
        kept = super().__getstate__() | {"_loops": {}}
        if self._state is not None:  # a copy plays on independently
            kept["_arrays"] = {name: array.copy() for name, array in self._arrays._asdict().items()}
            kept |= {"_rows": self._rows.copy(), "_rngs": self._rngs.copy()}
        return kept

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.channels = {name: copy.copy(channel) for name, channel in self.channels.items()}
        if self._state is not None:
            self._arrays = compiled.arrays_type(tuple(state["_arrays"]))(**state["_arrays"])
            self._bind()
            self._prepare()

    def _allocate(self) -> None:
        """Allocate the arrays for a run of all replicas, with the current parameters."""
        self._constants = self.constants()
        self._single = {
            name: compiled.array_of_field(self.state_type, name, given) for name, given in self.arrays().items()
        }
        everyone = sum(role.num_agents for role in self.roles.values())
        self._single["reward"] = np.zeros(self._single[self.acts].size if self.acts else everyone)
        made = {name: np.stack([array] * self.num_envs) for name, array in self._single.items()}
        self._arrays = compiled.arrays_type(tuple(made))(**made)
        self._rows = np.zeros(self.num_envs, compiled.numbers_of(self.state_type, frozenset(made)))
        empty = {key: value for key, value in self.empty_info().items() if self._is_number(value)}
        kinds = [(key, np.asarray(value).dtype) for key, value in empty.items()]
        self._none, self._keys = np.array([tuple(empty.values())], np.dtype(kinds, align=True)), tuple(empty)
        self._no_arrays = {key: value for key, value in self.empty_info().items() if key not in empty}
        self._tells_arrays = len(self._no_arrays) > len(self.tells_each)
        turns = [turn[0] for turn in self.turns or [tuple(self.roles)]]
        self._order = list(zip(turns, turns[1:] + turns[:1], strict=True))  # the roles of each turn and of the next one
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
        numbers = sum(array.size for array in self._single.values()) + looks
        self._effort = max(1.0, numbers / NUMBERS_A_TURN)
        rows = {
            name: self._single[self.acts].size if self.acts else role.num_agents for name, role in self.roles.items()
        }
        self._action = [np.zeros((1, rows[name], *spaces[name].shape), spaces[name].dtype) for name in turns]
        self._loops = {}

    def _bind(self) -> None:
        """Channels on which nothing stands count by the fields of the state."""
        if self.plain:
            for name, (everyone, each) in self.counts.items():
                channel = self.channels[name]
                channel.everyone = self.column(everyone) if everyone else channel.everyone
                channel.each = self.column(each) if each and self.column(each).size else channel.each

    def _functions(self, turn: int = 0) -> tuple[tuple[str, Any], ...]:
        """A world's functions under the names that `run` uses: `said` and `heard` of this turn's role, `observe` of the
        next turn's."""
        now, then = self._order[turn]
        by_role = {"said": (self.said, now), "heard": (self.heard, now), "observe": (self.observe_one, then)}
        # A run begins as after the last turn; compiling `begin` into the other turns too would take long.
        begins = self.begin if turn == len(self._order) - 1 else compiled.begins_not
        found: dict[str, Any] = {"begin": begins, "own": compiled.own_arrays(self._arrays._fields)}
        found["tell"] = self.tell or compiled.tell_of(self.tells)
        found |= {"sight": self._sight_of(then), "known": compiled.known_of(self._constants._fields, self.hidden)}
        found |= {name: given[role] if isinstance(given, Mapping) else given for name, (given, role) in by_role.items()}
        return tuple((found | self._watched()).items())

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
    ) -> tuple[Array, Array, Array]:
        """`run`, compiled once enough has been played: (observations, rewards, told), each if asked for.

        The agents `who` [B, r] observe; by default those that act next.
        """
        now, then = self._order[turn]
        seen, reward, told = self._blank
        if who is None:
            who = self.column(self.acts) if self.acts else self._nobody
        if what & LOOK:
            rows = who.shape[1] if len(who) else self.roles[then].num_agents
            seen = np.empty((self.num_envs, rows, self.roles[then].layout.size), np.float32)
        if what & (SAY | HEAR):
            reward = self._arrays.reward
        if what & TELL:
            told = np.empty(self.num_envs, self._none.dtype)
        arguments = (
            what,
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
        self._looped(turn, run, self._functions, arguments, self._effort)
        return seen, reward.copy() if what & HEAR else reward, told

    def apply(self, function: Any, live: Array, params: Any, turns: float) -> None:
        """Call `function(state, arrays, params, rng)`, compiled like the others, in the replicas `live` bool[B].

        Args:
            params: a NamedTuple of numbers and arrays.
            turns: about how many turns each replica plays.
        """
        self._played += turns * np.count_nonzero(live)
        arguments = live, self._rows, self._arrays, params, self._rngs
        self._looped(function, every, self._applied, arguments, turns)
        self._moved()

    def _applied(self, function: Any) -> tuple[tuple[str, Any], ...]:
        """A function under the names that `every` uses."""
        return tuple(({"one": function, "own": compiled.own_arrays(self._arrays._fields)} | self._watched()).items())

    def _looped(self, key: Any, loop: Any, functions: Any, arguments: tuple[Any, ...], effort: float) -> None:
        """Call the loop of that key, in threads if it is long enough."""
        if self._waits and self._played >= compiled.COMPILE_FROM:
            self._waits, self._loops = False, {}
        made = self._loops.get(key)
        if made is None:
            made = self._loops[key] = self._made_loop(loop, functions(key), arguments)
        parts = min(num_threads(), self.num_envs, int(self.num_envs * effort / PART)) if not self._waits else 1
        if parts < 2 or not self._compiles:
            made(*arguments)
        else:
            list(threads().map(lambda part: made(*part), split(loop, arguments, self.num_envs, parts)))

    def _made_loop(self, loop: Any, functions: tuple[tuple[str, Any], ...], arguments: tuple[Any, ...]) -> Any:
        if self._waits or not self._compiles or "private" in dict(functions):
            return compiled.interpreted(loop, functions)
        try:
            return compiled.entry_point(loop, functions, arguments)
        except Exception as error:  # the compiler raises many kinds
            why = compiled.why_not(error, compiled.all_functions(dict(functions)))
            warnings.warn(f"{self.name} plays uncompiled: {why}", NotCompiled, stacklevel=2)
            self._compiles = False
            return compiled.interpreted(loop, functions)

    def _begin_state(self, where: Array | None) -> None:
        streams = self.streams
        assert isinstance(streams, Streams)
        if where is None:
            configs = [channel.config for channel in self.channels.values()]
            self.plain = all(config == PLAIN for config in configs) and not any(
                c.chosen for c in self.channels.values()
            )
            if self._made_for is None or self._made_for[0] is not self.params or self._made_for[1] != configs:
                self._allocate()
                self._made_for = self.params, configs
            self._bind()
            self._prepare()
            where = self._everywhere
        if self._rngs is None or self._drawn_from is not streams:
            replicas = self.first_replica + np.arange(self.num_envs)
            noise = {source: self.channels[name].configuration for source, name in self.noise.items()}
            self._rngs = counter_streams.sources_of(streams.entropy, self.purpose, self.sources, replicas, noise)
            self._drawn_from = streams
        self._played += int(where.sum()) * self._effort
        some: Any = ... if where.all() else where  # much faster than a mask
        self._rows[some] = np.zeros((), self._rows.dtype)
        for array, single in zip(self._arrays, self._single.values(), strict=True):
            array[some] = single
        self._run(BEGIN, where, len(self._order) - 1)
        self._moved()
        self.begun(where)
        self._moved()

    def _moved(self) -> None:
        """Note that the state has changed."""
        self._state, self._seen_state = _moment(), None

    def initial(self) -> S:
        raise NotImplementedError  # `begin` does it

    def transition(self, state: S, actions: dict[str, Array]) -> Transition[S]:
        raise NotImplementedError  # `said` and `heard` do it

    def observe_role(self, state: S, role: str, rows: Array | None = None) -> Array:
        """See `Population`; always of the state as it is now."""
        turn = next(turn for turn, (_, then) in enumerate(self._order) if then == role)
        who = self._nobody if rows is None else np.ascontiguousarray(rows, np.int64)
        return self._run(LOOK, self._everywhere, turn, who=who)[0]

    def observe(self) -> Any:
        self._begun()
        turn = (self._turn - 1) % len(self._order)
        seen = self._run(LOOK, self._everywhere, turn)[0]
        return seen if len(self.roles) == 1 else {self._order[turn][1]: seen}

    def _play(
        self, live: Array, actions: Array, more: int = 0, who: Array | None = None
    ) -> tuple[Array, Array, Array, Array]:
        """Play a turn in the replicas `live` bool[B]: (observation, reward [B, agents], (terminated, truncated) bool[B,
        2], told)."""
        turn = self._turn
        if self._remembers:
            self.remember()
        self._played += self.num_envs * self._effort
        over = np.empty((self.num_envs, 2), np.bool_)
        over[:, 0], over[:, 1] = self.terminated, self.truncated
        if self._splits:
            self._run(SAY, live, turn, actions)
            self.between(live)
            seen, reward, told = self._run(HEAR | LOOK | more, live, turn, None, over, who)
        else:
            seen, reward, told = self._run(SAY | HEAR | LOOK | more, live, turn, actions, over, who)
            for channel in self.channels.values():
                channel.times += 1
        self._moved()
        return seen, reward, over, told

    def _settle(self) -> None:
        telling = self._telling()
        if telling is not None and callable(telling.info):
            telling.info = telling.info()
        super()._settle()

    def step(self, actions: Any, where: Array | None = None) -> Step:
        _, frozen = self._running(where)
        role = self.turn[0]
        checked = np.ascontiguousarray(self._checked(actions)[role], self.roles[role].action_space.dtype)
        self._settle()
        live = ~frozen
        for channel in self.channels.values():
            channel.live = live
        seen, reward, over, _ = self._play(live, checked)
        if type(self).ended is not Replicas.ended:
            self.ended(live & over.any(1))
        for channel in self.channels.values():
            if channel.config.budget is not None:
                over[:, 1] |= channel.stopped & live
        self.terminated, self.truncated = over[:, 0], over[:, 1]
        self._turn = (self._turn + 1) % len(self._order)
        told = self._tell(self.told, live)
        if len(self.roles) == 1:
            return Step(seen, reward, self.terminated, self.truncated, told)
        earned = {name: reward[:, columns] for name, columns in self._columns.items()}
        return Step({self.turn[0]: seen}, earned, self.terminated, self.truncated, told)

    def _prepare(self) -> None:
        """Prepare what `step_one` and `observe` use, as a run begins."""
        self._splits = self.splits()
        self._remembers = type(self).remember is not Replicas.remember
        self.quick = self.num_envs == 1
        if self.quick:
            acting = self.column(self.acts) if self.acts else self._nobody
            seers = [self.roles[then] for _, then in self._order]
            self._sight = [((1, acting.shape[1] or role.num_agents, role.layout.size), acting) for role in seers]
            self._full_sight = [((1, role.num_agents, role.layout.size), self._nobody) for role in seers]
            self._filled = self._arrays.reward, np.zeros((1, 2), np.bool_), self._none.copy()

    def reset_one(self, seed: int | None, options: Mapping[str, Any] | None) -> tuple[Array, Info]:
        """`reset` of a `quick` population: (observations [r, D] of the agents that act, the info in plain numbers and
        arrays)."""
        self._restart(seed, options, None)
        info: Info = dict(zip(self._keys, self._none.item(), strict=True))
        info.update((key, np.array(value)) for key, value in self._no_arrays.items() if not isinstance(value, Mapping))
        info.update((key, value[0].item()) for key, value in self._spent_so_far().items())
        return self._run(LOOK, self._everywhere)[0][0], info

    def step_one(self, actions: Any, everyone: bool = False) -> tuple[Array, list[float], bool, bool, Info]:
        """`step` of a `quick` population, without the overhead of arrays of replicas.

        Args:
            actions: [rows, ...], one for each agent that acts.
            everyone: whether all agents observe, or only those that act next.

        Returns:
            (observations [r, D], rewards [agents], terminated, truncated, the info in plain numbers and arrays, without
            values by agent).
        """
        if self.terminated[0] or self.truncated[0]:
            self._running()
        turn = self._turn
        name, then = self._order[turn]
        self._accept(actions, self.roles[name], turn)
        if self._telling() is not None:
            self._settle()
        if self._remembers:
            self.remember()
        self._played += self._effort
        shape, who = (self._full_sight if everyone else self._sight)[turn]
        reward, over, told = self._filled
        seen = np.empty(shape, np.float32)
        what = SAY | HEAR | LOOK | TELL
        if self._splits:
            for channel in self.channels.values():
                channel.live = self._everywhere
            self._run(SAY, self._everywhere, turn, self._action[turn])
            self.between(self._everywhere)
            what = HEAR | LOOK | TELL
        arguments = (
            what,
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
            seen,
            self._none,
            told,
        )
        if self._waits:
            self._looped(turn, run, self._functions, arguments, self._effort)
        else:
            (self._loops.get(turn) or self._prepared_loop(turn, arguments))(*arguments)
        self._turn = (turn + 1) % len(self._order)
        self._state, self._seen_state = _moment(), None
        terminated, truncated = self._ended_one(over[0].tolist()) if self._splits else over[0].tolist()
        if terminated or truncated:
            self.terminated, self.truncated = np.array([terminated]), np.array([truncated])
        info: Info = dict(zip(self._keys, told.item(), strict=True))
        if self._tells_arrays:
            info.update(self._arrays_of_one())
        if self.channels and self.plain:
            self._add_spent(info)
        elif self.channels:
            info.update((key, value[0].item()) for key, value in self._spent_so_far().items())
        return seen[0], reward[0].tolist(), terminated, truncated, info

    def _arrays_of_one(self) -> Iterator[tuple[str, Array]]:
        """The entries of the only replica's info that are arrays, without those by agent."""
        for key, values in self.told_arrays().items():
            if not isinstance(values, Mapping):
                told = key not in self.told_if or self._rows[self.told_if[key]][0]
                yield key, values[0] if told else np.array(self._no_arrays[key])

    def _ended_one(self, over: list[bool]) -> list[bool]:
        """Do what happens between steps and at the end of a run; return whether the only run has ended."""
        if any(over):
            self.ended(self._everywhere)
        stopped = any(c.config.budget is not None and c.stopped[0] for c in self.channels.values())
        return [over[0], over[1] or bool(stopped)]

    def _prepared_loop(self, turn: int, arguments: tuple[Any, ...]) -> Any:
        self._loops[turn] = made = self._made_loop(run, self._functions(turn), arguments)
        return made

    def fits(self, role: Role) -> Callable[[Any], bool]:
        """`fits_in` the space of a role's actions."""
        if role.name not in self._loops:
            self._loops[role.name] = fits_in(role.action_space)
        found: Callable[[Any], bool] = self._loops[role.name]
        return found

    def _accept(self, actions: Any, role: Role, turn: int) -> None:
        """Check actions [rows, ...] of the only replica, and store them for `run`."""
        kept = self._action[turn]
        if len(actions) <= FEW and all(map(self.fits(role), actions)):
            for row, action in enumerate(actions):
                kept[0, row] = action
        else:
            name = "actions" if self._agents > 1 else "action"
            kept[...] = role.check(array_of(name, actions)[None], kept.shape[:2], name)

    def no_meaning(self) -> set[str]:
        """The keys that have no meaning in the info of the last turn of the only replica."""
        held = {field: bool(self._rows[field][0]) for field in set(self.told_if.values())}
        return {key for key, field in self.told_if.items() if not held[field]}

    def _add_spent(self, info: Info) -> None:
        """Add to the info of the only replica what was sent, on channels on which nothing stands."""
        sent, tells = 0, False
        for channel in self.channels.values():
            if not self._splits:
                channel.times += 1
            sent += int(channel.everyone[0]) * channel.num_senders
            if channel.each is not None:
                sent += int(channel.each.sum())
            tells = tells or channel.silence_tells or bool(channel.unbounded)
        info["messages"] = sent
        info["epsilon_message"] = np.inf if sent else 0.0
        info["epsilon_basic"] = np.inf if sent or tells else 0.0

    def told(self) -> Info:
        """The info of the state as it is now, [B] each."""
        told = self._run(TELL, self._everywhere)[2]
        info: Info = {key: told[key].copy() for key in self._keys}
        if self._tells_arrays:
            info |= self.told_arrays()
        info |= self.told_each()
        return info | {f"_{key}": self._rows[field].copy() for key, field in self.told_if.items()}


def _moment() -> Any:
    """A marker of the state at one moment."""
    return object()


def fits_in(space: Any) -> Callable[[Any], bool]:
    """A quick test whether an action lies in a space; it may miss some that do."""
    if isinstance(space, Discrete):
        low, high = int(space.start), int(space.start + space.n)
        return lambda action: type(action) is np.int64 and low <= int(action) < high
    if isinstance(space, MultiDiscrete):
        bounds = [(int(low), int(low + size - 1)) for low, size in zip(space.start, space.nvec, strict=True)]
    elif isinstance(space, Box) and len(space.shape) == 1:
        bounds = list(zip(space.low.tolist(), space.high.tolist(), strict=True))
    else:
        return lambda action: False
    kind, shape = space.dtype, space.shape

    def fits(action: Any) -> bool:
        if type(action) is not np.ndarray or action.dtype is not kind or action.shape != shape:
            return False
        return all(low <= x <= high for x, (low, high) in zip(action.tolist(), bounds, strict=True))

    return fits


def split(loop: Any, arguments: tuple[Any, ...], size: int, parts: int) -> Iterator[tuple[Any, ...]]:
    """The arguments of a loop over `size` replicas, split into so many parts."""

    def piece(place: int, value: Any, part: slice) -> Any:
        if place in compiled.SHARED[loop]:
            return value
        if isinstance(value, tuple):
            return type(value)(*(array[part] for array in value))
        return value[part] if len(value) else value

    places = np.linspace(0, size, parts + 1).astype(int).tolist()
    for first, last in pairwise(places):
        yield tuple(piece(place, value, slice(first, last)) for place, value in enumerate(arguments))


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
