"""Storage of the runs of all replicas, and the call of the loop that plays them."""

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from taciturn.channels.config import PLAIN
from taciturn.compiling import compiled, counter_streams
from taciturn.compiling.compiled import ACT, INFO, OBSERVE, RECEIVE, Call, Turn
from taciturn.envs.core.hooks import S
from taciturn.envs.core.loops import Loops
from taciturn.envs.core.roles import Role
from taciturn.envs.core.run import Run
from taciturn.seeding import Streams
from taciturn.validation import Array

NUMBERS_A_TURN = 50  # numbers read and written in the time of everything else in an uncompiled turn
DRAW = 3  # numbers read in the time of one draw
ALIGNED = 16  # bytes; NumPy aligns arrays to this
SMALL = 2**16  # bytes of a run, up to which the run is stored twice


class Stored(Run[S]):
    """Runs in arrays, [B, ...] each: `_rows` has the numbers of the State, and `_arrays` its arrays and the rewards.

    Args:
        first_replica: number of the first replica, in a shard of a larger population.
    """

    def __init__(self, params: Any, num_envs: int = 1, first_replica: int = 0) -> None:
        super().__init__(params, num_envs)
        self.first_replica = first_replica
        self.closed_forms: dict[str, Any] = {}  # closed forms with which a role can answer within the other role's turn
        self._inside: dict[str, Any] = {}  # the ones used in this run
        self._splits = False
        self._loops = Loops(self.compile and compiled.may_compile())
        self._made_for: Any = None
        self._rngs: Any = None
        self._drawn_from: Any = None
        self._generators: dict[str, list[np.random.Generator]] = {}
        self._by_name: dict[str, Array] = {}
        self._whole: tuple[Array, Array] | None = None  # bytes of the only replica: at the start of a run, and now
        self._seen_state: Any = None

    @property
    def state(self) -> S:
        self._require_reset()
        if self._seen_state is None:
            names = (field.name for field in dataclasses.fields(self.state_type))
            self._seen_state = self.state_type(**{name: self.column(name).copy() for name in names})
        result: S = self._seen_state
        return result

    def column(self, name: str) -> Array:
        return self._by_name[name]

    def generators(self, name: str) -> list[np.random.Generator]:
        """A NumPy generator for each replica, which gives it the same numbers whatever the number of replicas."""
        if name not in self._generators:
            assert self.streams is not None
            replicas = self.first_replica + np.arange(self.num_envs)
            made = counter_streams.generators_of(self.streams.entropy, self.purpose, name, replicas)
            self._generators[name] = made
        return self._generators[name]

    def __getstate__(self) -> dict[str, Any]:
        kept = super().__getstate__() | {"_loops": Loops(self._loops.compiles, self._loops.played)}
        if self._state is not None:  # a copy plays on independently
            kept["_arrays"] = {name: array.copy() for name, array in self._arrays._asdict().items()}
            kept |= {"_rows": self._rows.copy(), "_rngs": self._rngs.copy(), "_whole": None}
            kept |= dict.fromkeys(
                ("_by_name", "_shown", "_fresh", "_turns", "_calls", "_filled", "_actions", "_entries")
            )
            kept["_generators"] = copy.deepcopy(self._generators)
        return kept

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.channels = {name: copy.copy(channel) for name, channel in self.channels.items()}
        if self._state is not None:
            self._arrays = compiled.arrays_type(tuple(state["_arrays"]))(**state["_arrays"])
            self._address()
            self._bind()

    def _ready(self, whole: bool) -> None:
        """Prepare arrays, channels and sources of random numbers for runs that begin; `whole`: of all replicas."""
        streams = self.streams
        assert isinstance(streams, Streams)
        if self._rngs is None or self._drawn_from is not streams:
            replicas = self.first_replica + np.arange(self.num_envs)
            noise = {source: self.channels[name].configuration for source, name in self.noise.items()}
            drawn = counter_streams.sources_of(streams.entropy, self.purpose, self.sources, replicas, noise)
            self._rngs = drawn if self._rngs is None else self._rngs
            self._rngs[...], self._drawn_from, self._generators = drawn, streams, {}
        if whole:
            configs = [channel.config for channel in self.channels.values()]
            asked = configs, self.closed_forms, self.info_per_agent
            if self._made_for is None or self._made_for[0] is not self.params or self._made_for[1] != asked:
                chosen = {name for name, channel in self.channels.items() if channel.chosen}
                self.plain = all(config == PLAIN for config in configs) and chosen <= self.chosen.keys()
                self._constants = self.constants()
                self._splits = self.splits()
                self._inside = {} if self._splits else self.closed_forms
                self._allocate()
                self._made_for = self.params, asked
            self._bind()

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
            self._order, self._cycle = [(first, first), (first, then)], 1  # the second only observes
            self._single |= of_answers(self.roles[then])
        self._before = {then: turn for turn, (_, then) in enumerate(self._order)}  # the turns before theirs
        self._columns, self._agents = {}, 0
        for role in self.roles.values():
            self._columns[role.name] = slice(self._agents, self._agents + role.num_agents)
            self._agents += role.num_agents
        self._single["reward"] = np.zeros(self._single[self.acts].size if self.acts else self._agents)
        made = {name: np.stack([array] * self.num_envs) for name, array in self._single.items()}
        self._rows = np.zeros(self.num_envs, compiled.numbers_of(self.state_type, frozenset(made)))
        self._whole = None
        size = sum(array.nbytes for array in made.values())
        if self.num_envs == 1 and self._rows.itemsize and size <= SMALL:  # a run then begins by one copy
            self._whole, (self._rows, *beside) = side_by_side([self._rows, *made.values()])
            made = dict(zip(made, beside, strict=True))
        self._arrays = compiled.arrays_type(tuple(made))(**made)
        self._everywhere, self._nobody = np.ones(self.num_envs, np.bool_), np.zeros((0, 0), np.int64)
        self._list_entries()
        self._address()
        looks = max(role.num_agents * role.layout.size for role in self.roles.values())
        numbers = sum(array.size for array in self._single.values()) + looks + DRAW * self.draws()
        self._effort = max(1.0, numbers / NUMBERS_A_TURN)
        self._loops.clear()

    def _address(self) -> None:
        """Set up the references to the arrays: the fields of the state and `reward` by name, the info entries that are
        not numbers, the start of runs, and the arguments of loops."""
        self._by_name = self._arrays._asdict()
        self._by_name |= {name: self._rows[name] for name in self._rows.dtype.names}
        self._shown = {key: self.column(self.info_by_agent.get(key, ("", key))[1]) for key in self._no_arrays}
        begins = ((self.column(name), one if one.any() else 0) for name, one in self._single.items() if one.size)
        numbers = [(self._rows.view(np.uint8).reshape(self.num_envs, -1), 0)]  # bytes: filled faster than fields
        apart = [*(numbers if self._rows.itemsize else ()), *begins]
        self._fresh: list[tuple[Array, Any]] = apart if self._whole is None else [self._whole]
        self._turns = [self._without_call(now, self.roles[then]) for now, then in self._order]

    def _list_entries(self) -> None:
        """List the entries of infos: numbers, by their names `_keys` with their values without meaning, and others."""
        empty, numbers = self.empty_info(), {}
        self._no_arrays: dict[str, tuple[str, Array]] = {}  # (role or "", value without meaning)
        for key, value in empty.items():
            if isinstance(value, Mapping):
                ((role, none),) = value.items()
                self._no_arrays[key] = role, np.full(self.roles[role].num_agents, none)
            elif np.ndim(value):
                self._no_arrays[key] = "", np.array(value)
            else:
                numbers[key] = value
        kinds = [(key, np.asarray(value).dtype) for key, value in numbers.items()]
        self._none, self._keys = np.array([tuple(numbers.values())], np.dtype(kinds, align=True)), tuple(numbers)

    def _without_call(self, now: str, following: Role) -> Turn:
        """The arguments of `run` in a turn of the role `now`, with placeholders for those that only some calls need."""
        space: Any = self.roles[now].action_space
        idle, nowhere = np.zeros((0, 0, *space.shape), space.dtype), np.zeros((0, 0, 0), np.float32)
        bounds, never = np.stack([following.layout.low, following.layout.high]), np.zeros((0, 2), np.bool_)
        who = self.column(self.acts) if self.acts else self._nobody
        state = self._everywhere, self._rows, self._arrays, idle, self._constants, self._rngs
        rest: Any = np.zeros((0, 0)), never, who, bounds, nowhere, self._none, self._none[:0].copy()
        return Turn(0, 0, self.num_envs, *state, *rest)

    def _bind(self) -> None:
        """Let channels without mechanism, fault or budget count by the fields of the state."""
        if self.plain:
            for name, made in self.chosen.items():
                counted, spent = self.column(made.counted), self.column(made.spent)
                self.channels[name].each = counted[..., 0]
                sums = spent[..., 0], spent[..., 1], spent[..., 2]
                self.accountant.keep_levels(name, self.channels[name].chosen, counted[..., 1], *sums)
            for name, (everyone, each) in self.counts.items():
                channel = self.channels[name]
                channel.everyone = self.column(everyone) if everyone else channel.everyone
                channel.each = self.column(each) if each and self.column(each).size else channel.each

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
        """Call `run`, compiled after enough turns: (observations, rewards, info numbers), each if asked for.

        The agents `who` [B, r] observe, into `out` if given; by default the agents that act next.
        """
        idle, role = self._turns[turn], self.roles[self._order[turn][1]]
        seen, reward, infos = idle.seen, idle.reward, idle.infos
        actions, over = idle.actions if actions is None else actions, idle.over if over is None else over
        who = idle.who if who is None else who
        if what & OBSERVE:
            shape = self.num_envs, who.shape[1] or role.num_agents, role.layout.size
            seen = np.empty(shape, np.float32) if out is None else out
        if what & (ACT | RECEIVE):
            reward = self._arrays.reward
        if what & INFO:
            infos = np.empty(self.num_envs, self._none.dtype)
        state = what, 0, self.num_envs, live, idle.rows, idle.arrays, actions, idle.params, idle.rngs
        given = Turn(*state, reward, over, who, idle.bounds, seen, idle.none, infos)
        self._loops.call(self, turn, given, self._effort)
        return seen, reward.copy() if what & RECEIVE else reward, infos

    def apply(self, function: Any, live: Array, params: Any, turns: float) -> None:
        """Call `function(state, arrays, params, rng)`, compiled like the others, in the replicas `live` bool[B].

        Args:
            params: a NamedTuple of numbers and arrays.
            turns: about how many turns each replica plays.
        """
        self._loops.played += turns * np.count_nonzero(live)
        given = Call(0, self.num_envs, live, self._rows, self._arrays, params, self._rngs)
        self._loops.call(self, function, given, turns)
        self._moved()

    def _moved(self) -> None:
        """Note that the state has changed."""
        self._state, self._seen_state = object(), None


def side_by_side(arrays: Sequence[Array]) -> tuple[tuple[Array, Array], list[Array]]:
    """Copy arrays into one array of bytes: ((these bytes, a second copy of them), the arrays as views of them)."""
    places = np.cumsum([0, *(-(-array.nbytes // ALIGNED) * ALIGNED for array in arrays)]).tolist()
    whole, copies = np.zeros(places[-1], np.uint8), []
    for array, place in zip(arrays, places, strict=False):
        copies.append(whole[place : place + array.nbytes].view(array.dtype).reshape(array.shape))
        copies[-1][...] = array
    return (whole, whole.copy()), copies


def of_answers(role: Role) -> dict[str, Array]:
    """The arrays that `compiled.answered` uses: a role's answers, an observation with its bounds, and stored
    numbers."""
    space: Any = role.action_space
    glance = np.stack([np.zeros(role.layout.size, np.float32), role.layout.low, role.layout.high])
    answers = np.zeros((role.num_agents, *space.shape), space.dtype)
    return {"answers": answers, "glance": glance, "kept": np.zeros(compiled.KEPT)}
