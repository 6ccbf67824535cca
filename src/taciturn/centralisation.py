"""Do the agents of one policy share information? This check needs only the policy and two runs.

An agent's action may depend on its own observations and rewards, its own memory, delivered messages, and public
numbers. The check records two runs, of different instances of an environment. Then the policy plays the first run
again, without the environment. In each replica at most one agent gets its own observations, messages and rewards again;
all others, in all replicas, get those of the second run. The random numbers are the same, so an independent agent acts
the same again.

Columns of observations, masks and rewards that are equal for all agents of a replica throughout both runs are public
numbers, and stay unchanged.

If rows share a random generator, a row's random numbers can change with the other rows, because one draws more often or
a sampler rejects more. If the same numbers were drawn in the same shapes, a different action comes from the data of the
other rows. Otherwise, and if a policy draws from other generators, distributions of actions are compared: the policy
plays with its recorded inputs and with the mixed ones, `SEEDS` times each.
"""

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from taciturn.coupling import Coupled, generator, lend, numbers_stored, numpy_draws_from, process_numbers, seed_process
from taciturn.envs.core import Array, Population, PublicView, Rollout
from taciturn.envs.core.public import Passing

ALARM = 1e-4
"""The false-alarm probability of the comparison of distributions."""
SEEDS, SOON = 32, 64
FEWEST, MOST, ROWS = 4, 16, 2000
CATEGORIES, SAID = 16, 32

Start = Callable[[Any, int], Rollout]
"""Begins a fresh run of the same environment by a policy, with a seed."""


def replicas_for(num_agents: int) -> int:
    """The number of replicas of a checked run: one per agent, so each is tried, but between 4 and 16."""
    return max(FEWEST, min(num_agents, MOST, ROWS // num_agents))


def find_sharing(policy: Any, start: Start, seed: int = 0, *, declared: bool = True) -> str:
    """How agents were found to share information, in a sentence; empty if they were not.

    A policy with `centralised = True` is not played. A policy with `needs_truth` cannot be checked: it may know others'
    observations from the truth, and tables mark it anyway.

    Args:
        policy: plays a role; a learner should have been trained.
        start: begins a fresh run with a given policy in that role, and a given seed. Runs are played to their ends.
        seed: seed of both runs and of the policies' draws.
        declared: whether to believe `centralised = True`.
    """
    if declared and getattr(policy, "centralised", False):
        return "it declares so"
    if getattr(policy, "needs_truth", False):
        return ""
    with numbers_stored(policy):
        first, second = (_recorded(policy, start, 2 * seed + run, seed) for run in (0, 1))
        agents = np.arange(first.num_envs) % first.view.roles[first.role].num_agents
        for half in (0, 1):
            kept = np.where(np.arange(first.num_envs) % 2 == half, agents, -1)
            swapped = Feed(first, second, kept)
            try:
                now = _played(policy, swapped, seed)
                if (turn := _first_difference(swapped, first, now)) == 0:
                    continue
                same = Feed(first, first, kept)
                again = _played(policy, same, seed)
                controlled = now.left == first.left and not _first_difference(same, first, again)
                certain = controlled and first.rng.drew_alike(now.rng, 2 * turn)
                if certain or _distributions_differ(policy, same, swapped, turn, seed):
                    return (
                        f"an agent's action in turn {turn} depends on observations or rewards that only other agents "
                        "or runs had"
                    )
            except Exception as error:  # policies from elsewhere may raise anything
                return f"it cannot act when only the rows of other agents differ: {type(error).__name__}: {error}"
    return ""


# Recording.


@dataclass
class Tape:
    """The observations, rewards and actions of a policy in a run; a call is the reset (0), `act` in turn t (2t + 1) or
    its `update`.

    Attributes:
        obs, mask, action, reward, done, acting: by turn, as `act` and `update` got them; `acting` int64[B, rows], None
            for all agents.
        recorded: {(call, name): results of the environment's functions of that name}.
        did: {call: the action [B, rows, ...] and the messages sent through the environment's functions, [B, N, ...]
            each}.
        left: the final state of the process's generators, which shows how much the policy drew from them.
    """

    view: PublicView
    role: str
    rng: Coupled
    obs: list[Array] = field(default_factory=list)
    mask: list[Array | None] = field(default_factory=list)
    action: list[Array] = field(default_factory=list)
    reward: list[Array] = field(default_factory=list)
    done: list[Array] = field(default_factory=list)
    acting: list[Array | None] = field(default_factory=list)
    recorded: dict[tuple[int, str], list[Any]] = field(default_factory=dict)
    did: dict[int, list[Array]] = field(default_factory=dict)
    left: bytes = b""

    @property
    def num_envs(self) -> int:
        return self.view.num_envs


class Recorder:
    """Acts as a policy does, and records a tape."""

    def __init__(self, policy: Any, seed: int) -> None:
        self.policy, self.rng, self.call = policy, generator(seed), 0
        self.tape: Tape = None  # type: ignore[assignment]

    def reset(self, env: PublicView | Population[Any], rng: np.random.Generator, role: str | None = None) -> None:
        view = env.view() if isinstance(env, Population) else env
        self.tape = Tape(view, next(iter(view.roles)) if role is None else role, self.rng)
        functions = {name: partial(self.recorded, name, one) for name, one in view.functions.items()}
        self.begin(0)
        self.policy.reset(view.standing_in(view.acting, functions), self.rng, role)
        lend(self.policy, self.rng)

    def begin(self, call: int) -> None:
        self.call = call
        self.rng.at(call)

    def recorded(self, name: str, function: Callable[..., Any], *given: Any, **named: Any) -> Any:
        result = function(*given, **named)
        self.tape.recorded.setdefault((self.call, name), []).append(result)
        if (passing := self.tape.view.world.passes.get(name)) is not None:
            self.tape.did.setdefault(self.call, []).append(np.array(passing.sends(*given, **named)))
        return result

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        tape = self.tape
        acting = tape.view.acting(tape.role)
        self.begin(2 * len(tape.obs) + 1)
        tape.obs.append(np.array(obs))
        tape.mask.append(None if mask is None else np.array(mask))
        tape.acting.append(None if acting is None else np.array(acting))
        action = self.policy.act(obs, mask)
        tape.did.setdefault(self.call, []).insert(0, np.array(action))
        return np.asarray(action)

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        tape = self.tape
        for kept, value in ((tape.action, action), (tape.reward, reward), (tape.done, done)):
            kept.append(np.array(value))
        self.begin(2 * len(tape.reward))
        self.policy.update(obs, action, reward, done)


def _recorded(policy: Any, start: Start, seed: int, draws: int) -> Tape:
    seed_process(draws)
    recorder = Recorder(policy, draws)
    with numpy_draws_from(recorder.rng):
        rollout = start(recorder, seed)
        while not rollout.env.done.all():
            rollout.play()
    recorder.tape.left = pickle.dumps(process_numbers())
    return recorder.tape


# Playing again.


class Feed:
    """The input of a policy when it plays again: in some replicas one agent's rows of the first tape, and otherwise
    rows of the second.

    Args:
        kept: the agent of each replica with unchanged rows, int64[B]; -1: none.
    """

    def __init__(self, first: Tape, second: Tape, kept: Array) -> None:
        self.first, self.second, self.kept = first, second, kept
        self.turns, self.replaced = len(first.obs), kept < 0
        self.last = len(second.obs) - 1
        self._earned: dict[tuple[int, bytes], list[Any]] | None = None
        agents = first.view.roles[first.role].num_agents
        self.own = np.arange(agents) == kept[:, None]  # bool[B, N]
        whole = first.acting[0] is None
        self.rows = [self.own if acting is None else acting == kept[:, None] for acting in first.acting]
        self.acting = [None] * self.turns if whole else self._others_act()
        self.obs, self.action, self.reward = (
            self._mixed(getattr(first, name), getattr(second, name)) for name in ("obs", "action", "reward")
        )
        self.mask = [None] * self.turns if first.mask[0] is None else self._mixed(first.mask, second.mask)
        self.done = [
            np.where(self.replaced, second.done[min(turn, self.last)], first.done[turn]) for turn in range(self.turns)
        ]

    def _others_act(self) -> list[Array]:
        """The agents of the rows, if agents act in turns: other agents are replaced by those that acted in the second
        run, but never by the kept one."""
        second = np.stack(self.second.acting)  # type: ignore[arg-type]
        self.source: list[tuple[Array, Array]] = []
        free = [np.argwhere(second[:, b] != agent) for b, agent in enumerate(self.kept)]
        used, acting = np.zeros(len(free), np.int64), []
        for turn in range(self.turns):
            now = self.first.acting[turn].copy()  # type: ignore[union-attr]
            source = np.zeros((2, *now.shape), np.int64)
            for b, row in np.argwhere(~self.rows[turn]):
                source[:, b, row] = free[b][used[b] % len(free[b])]
                used[b] += 1
                now[b, row] = second[source[0, b, row], b, source[1, b, row]]
            self.source.append((source[0], source[1]))
            acting.append(now)
        return acting

    def _mixed(self, ours: Sequence[Any], theirs: Sequence[Any]) -> list[Array]:
        results = []
        one, other = np.stack(ours), np.stack(theirs)
        if self.acting[0] is not None:
            replica = np.arange(len(self.kept))[:, None]
            for turn in range(self.turns):
                time, row = self.source[turn]
                at = self.rows[turn].reshape(*self.rows[turn].shape, *[1] * (one.ndim - 3))
                results.append(np.where(at, one[turn], other[time, replica, row]))
            return results
        public = _alike(one) & _alike(other) if one.shape[2] > 1 else np.zeros(one.shape[3:], np.bool_)
        axes = [1] * (one.ndim - 3)
        stays = self.own.reshape(*self.own.shape, *axes) | (public & ~self.replaced.reshape(-1, 1, *axes))
        return [np.where(stays, one[turn], other[min(turn, self.last)]) for turn in range(self.turns)]

    def earned(self, turn: int, action: Array, luck: np.random.Generator) -> tuple[Array, Array]:
        """The actions and rewards for an update: for kept agents as recorded, and for others the given `action`, with a
        reward that it earned at some time in their run."""
        if self._earned is None:
            self._earned = {}
            for did, reward in zip(self.second.action, self.second.reward, strict=True):
                for b, row in np.ndindex(reward.shape):
                    self._earned.setdefault((b, did[b, row].tobytes()), []).append(reward[b, row])
        actions, reward = self.action[turn].copy(), self.reward[turn].copy()
        for b, row in np.argwhere(~self.rows[turn]):
            actions[b, row] = action[b, row]
            known = self._earned.get((b, actions[b, row].tobytes()))
            if known:
                reward[b, row] = known[int(luck.random() * len(known))]
        return actions, reward

    def of(self, call: int, name: str, place: int) -> tuple[Any, Any]:
        """The results of one call of an environment's function in both runs; None in a run with fewer calls of it."""
        turn = (call - 1) // 2
        other = call if turn <= self.last else 2 * self.last + 2 - call % 2
        result = (self.first.recorded.get((call, name), []), self.second.recorded.get((other, name), []))
        one, two = (results[place] if place < len(results) else None for results in result)
        return one, two

    def example(self, name: str) -> Any:
        """Any recorded result of a function."""
        recorded = {**self.first.recorded, **self.second.recorded}
        return next((results[0] for (_, one), results in recorded.items() if one == name), None)


def _alike(values: Array) -> Array:
    """The columns of [T, B, N, ...] that are equal for all agents of a replica."""
    return np.asarray((values == values[:, :, :1]).all((0, 1, 2)))


class Player:
    """Gives a policy a feed, and records its actions."""

    def __init__(self, policy: Any, feed: Feed, seed: int) -> None:
        self.policy, self.feed, self.rng = policy, feed, generator(seed)
        self.call, self.turn = 0, -1
        self.places: dict[str, int] = {}
        self.did: dict[int, list[Array]] = {}
        self.left, self.luck = b"", np.random.Generator(np.random.Philox(seed))
        self._known: dict[tuple[int, int], tuple[Any, Any, Any]] = {}

    def play(self, turns: int | None = None) -> None:
        """Play all turns. With `turns`, play only so many, and update agents with replaced rows with their own actions,
        and with rewards that these may earn."""
        feed, view = self.feed, self.feed.first.view
        functions = {name: partial(self.recorded, name, one) for name, one in view.functions.items()}
        self.begin(0)
        self.policy.reset(view.standing_in(lambda role: self.acting(), functions), self.rng, feed.first.role)
        lend(self.policy, self.rng)
        for turn in range(min(feed.turns, turns or feed.turns)):
            self.turn = turn
            self.begin(2 * turn + 1)
            mask = feed.mask[turn]
            action = self.policy.act(feed.obs[turn].copy(), None if mask is None else mask.copy())
            self.did.setdefault(self.call, []).insert(0, np.array(action))
            self.begin(2 * turn + 2)
            learned = [feed.obs[turn], feed.action[turn], feed.reward[turn], feed.done[turn]]
            if turns is not None:
                learned[1:3] = feed.earned(turn, np.asarray(action), self.luck)
            self.policy.update(*(one.copy() for one in learned))

    def begin(self, call: int) -> None:
        self.call, self.places = call, {}
        self.rng.at(call)

    def acting(self) -> Array | None:
        """The acting agents; after the last turn, the next agent is unknown."""
        if self.call and self.call % 2 == 0:
            return self.feed.acting[min(self.turn + 1, self.feed.turns - 1)]
        return self.feed.acting[max(self.turn, 0)]

    def recorded(self, name: str, function: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """The recorded results in the two runs, mixed as the feed is; a function that only depends on its arguments is
        called instead."""
        passing = self.feed.first.view.world.passes.get(name)
        if passing is None and (given or named):
            return function(*given, **named)
        place = self.places[name] = self.places.get(name, -1) + 1
        one, two = self.feed.of(self.call, name, place)
        if passing is not None:
            said = np.array(passing.sends(*given, **named))
            self.did.setdefault(self.call, []).append(said)
            pattern = self.feed.example(name) if one is None and two is None else one if two is None else two
            pattern = function(*given, **named) if pattern is None else pattern
            nothing = _each(np.zeros_like, pattern)
            one, two = (nothing if x is None else x for x in (one, two))
            shapes = [x.shape for x in _arrays((given, named)) if x.ndim > 2]
            return self._merged(one, two, passing, shapes[0] if shapes else None)
        if one is None or two is None:
            one = two = one if two is None else two
        if one is None:
            return function()
        if (id(one), id(two)) not in self._known:
            self._known[id(one), id(two)] = self._merged(one, two, None, None), one, two
        return self._known[id(one), id(two)][0]

    def _merged(self, one: Any, two: Any, passing: Passing | None, shape: tuple[int, ...] | None) -> Any:
        """Arrays [B, ...] merged by replica, or by rows [B, N, ...] if only the agent itself gets its row."""
        if isinstance(one, tuple):
            return tuple(self._merged(x, y, passing, shape) for x, y in zip(one, two, strict=True))
        if not isinstance(one, np.ndarray) or one.ndim == 0 or len(one) != len(self.feed.kept):
            return one
        if shape is not None and one.ndim == len(shape):
            one, two = (_fitted(x, shape) for x in (one, two))
        stays = self.feed.own if passing is not None and passing.to == "agent" else ~self.feed.replaced
        return np.where(stays.reshape(*stays.shape, *[1] * (one.ndim - stays.ndim)), one, two)


def _played(policy: Any, feed: Feed, seed: int, turns: int | None = None) -> Player:
    seed_process(seed)
    player = Player(policy, feed, seed)
    with numpy_draws_from(player.rng):
        player.play(turns)
    player.left = pickle.dumps(process_numbers())
    return player


def _each(function: Callable[[Any], Any], value: Any) -> Any:
    """The function applied to each array in tuples."""
    if isinstance(value, tuple):
        return tuple(_each(function, one) for one in value)
    return function(value) if isinstance(value, np.ndarray) else value


def _arrays(value: Any) -> Iterator[Array]:
    """The arrays in arguments."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, Mapping):
        yield from _arrays(list(value.values()))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _arrays(one)
    elif hasattr(value, "__dataclass_fields__"):
        yield from _arrays([getattr(value, name) for name in value.__dataclass_fields__])


def _fitted(values: Array, shape: tuple[int, ...]) -> Array:
    """Cut to a shape, or filled up with zeros: tables grow with their contents."""
    result = np.zeros((*values.shape[:2], *shape[2:]), values.dtype)
    part = tuple(slice(min(have, want)) for have, want in zip(values.shape, result.shape, strict=True))
    result[part] = values[part]
    return result


# Comparing.


def _own(feed: Feed, call: int, values: Array, place: int) -> Array:
    """The kept agents' rows [agents, ...] of the values of a call; actions come first and are by row, the rest by
    agent."""
    rows = feed.rows[(call - 1) // 2] if call % 2 and place == 0 else feed.own
    return values[rows]


def _first_difference(feed: Feed, before: Tape, now: Player) -> int:
    """The first turn, counted from 1, in which the kept agents act differently; 0 if there is none."""
    for call in sorted(before.did.keys() | now.did.keys()):
        was, does = before.did.get(call, []), now.did.get(call, [])
        for place in range(max(len(was), len(does))):
            pair = [_own(feed, call, one[place], place) if place < len(one) else None for one in (was, does)]
            if not _same(*pair):
                return max(1, (call + 1) // 2)
    return 0


def _same(one: Array | None, two: Array | None) -> bool:
    """Whether arrays are equal; missing messages, and entries beyond the end of a table, count as zeros."""
    if one is None or two is None:
        return not np.any(one if two is None else two)
    if one.shape != two.shape:
        wide = tuple(map(max, one.shape, two.shape))
        one, two = (np.pad(x, [(0, w - s) for w, s in zip(wide, x.shape, strict=True)]) for x in (one, two))
    return bool(np.array_equal(one, two))


def _distributions_differ(policy: Any, before: Feed, after: Feed, turn: int, seed: int) -> bool:
    """Whether the kept agents' actions are shown to have another distribution, up to some time after the `turn` in
    which they first differed.

    Each turn of each agent is a test of whether an action is equally frequent in both samples (hypergeometric
    distribution), and so is each agent's number of times that it took an action (Kolmogorov-Smirnov); together they
    raise a false alarm with a probability of at most half of `ALARM`. The rewards of agents with replaced rows depend
    on their actions: each is a reward that the same action earned in the run of those rows, so a policy that learns
    from their rewards learns something.
    """
    from scipy import stats

    order = np.random.default_rng(seed).permutation(2 * SEEDS)  # a policy may remember runs
    seen: list[dict[tuple[int, int], Array]] = [{} for _ in order]
    for place in order.tolist():
        feed = before if place < SEEDS else after
        seen[place] = _columns(
            feed, _played(policy, feed, 1_000_000 + 2 * SEEDS * seed + place, max(2 * turn, SOON)).did
        )
    shared = [key for key in seen[0] if all(key in one for one in seen)]
    # [samples, columns], and the agent and part of each column.
    tables, owners = [], []
    for key in shared:
        width = min(one[key].shape[1] for one in seen)
        tables.append(np.stack([one[key][:, :width].ravel() for one in seen]))
        owners += [(agent, key[1], part) for agent in range(len(seen[0][key])) for part in range(width)]
    if not tables:
        return False
    codes = _codes(np.concatenate(tables, 1))
    draws = stats.hypergeom(2 * SEEDS, np.arange(2 * SEEDS + 1)[:, None], SEEDS)
    hits = np.arange(SEEDS + 1)
    chance = np.minimum(1.0, 2 * np.minimum(draws.cdf(hits), draws.sf(hits - 1)))
    smallest, tests = 1.0, 0
    whose, groups = np.unique(np.array([hash(owner) for owner in owners]), return_inverse=True)
    for category in np.unique(codes):
        has = codes == category
        smallest = min(smallest, chance[has.sum(0), has[:SEEDS].sum(0)].min())
        tests += has.shape[1]
        for group in range(len(whose)):
            count = has[:, groups == group].sum(1)
            if np.ptp(count):
                smallest = min(smallest, stats.ks_2samp(count[:SEEDS], count[SEEDS:], method="exact").pvalue)
            tests += 1
    return bool(smallest * tests <= ALARM / 2)


def _columns(feed: Feed, did: Mapping[int, list[Array]]) -> dict[tuple[int, int], Array]:
    """The kept agents' actions and messages: {(call, what): numbers [agents, parts]}."""
    results = {}
    for call, done in did.items():
        for place, values in enumerate(done):
            own = _own(feed, call, values, place)
            if len(own):
                results[call, place] = own.reshape(len(own), -1)[:, :SAID].astype(np.float64)
    return results


def _codes(values: Array) -> Array:
    """Categories of numbers [samples, columns]: the numbers themselves if there are few, otherwise the quartiles of
    each column."""
    few = np.unique(values)
    if len(few) <= CATEGORIES:
        return np.searchsorted(few, values)
    quartiles = np.quantile(values, [0.25, 0.5, 0.75], axis=0)
    return np.asarray((values[None] > quartiles[:, None]).sum(0))
