"""Populations of environments written for one replica: playing all replicas, or a single one in plain numbers for the
single-replica interfaces."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from operator import add
from typing import Any

import numpy as np

from taciturn.compiling.compiled import ACT, INFO, OBSERVE, RECEIVE, RESET, Turn
from taciturn.compiling.kernels import FINE, Loop, failed
from taciturn.envs.core import fields
from taciturn.envs.core.hooks import Hooks, S
from taciturn.envs.core.info import Info
from taciturn.envs.core.population import SingleStep
from taciturn.envs.core.roles import FEW_ACTIONS, Actions
from taciturn.envs.core.steps import Step, check_room
from taciturn.envs.core.stored import Stored
from taciturn.validation import Array


class Replicas(Stored[S]):
    """Base of the environments, which implement the `Hooks`; this class plays them."""

    @property
    def some_act(self) -> bool:
        return bool(self.acts)

    def deliver(self, channel: str, message: str, into: str, live: Array, **named: Any) -> Array:
        """Send a field through a channel in the replicas `live` bool[B], and store the delivered messages in another
        field.

        Args:
            channel: its name.
            message: an `own` field [B, N, ...] (`taciturn.envs.core.fields`), the messages to send.
            into: a `received` field of that shape, 0 where nothing arrives.
            live: the replicas that play.
            **named: further arguments of `Channel.send`.

        Returns:
            Which messages arrived, bool[B, N].
        """
        for name, kind in ((message, fields.OWN), (into, fields.RECEIVED)):
            if fields.owners(self.state_type).get(name, fields.Owner()).kind != kind:
                raise TypeError(f"field {name!r} of {self.name} must be declared as {kind} to be used in `deliver`")
        received, delivered = self.channels[channel].send(self.column(message), **named)
        self.column(into)[live] = received[live]
        return delivered

    def build(self) -> None:
        """Compile the loops of all turns, or load them, before they are needed; begins a run."""
        self._loops.played = math.inf  # compile now
        self.reset(seed=0)
        for turn in range(len(self._order)):
            self._run(OBSERVE, self._everywhere, turn)

    def acting(self, role: str) -> Array | None:
        if not self.acts:
            return None
        if self._state is None:
            self._require_reset()
        return self._by_name[self.acts].copy()

    def _begin_state(self, where: Array | None) -> None:
        self._ready(where is None)
        where = self._everywhere if where is None else where
        begins = int(np.count_nonzero(where))
        self._loops.played += begins * self._effort
        some: Any = ... if begins == self.num_envs else where  # much faster than a mask
        for array, first in self._fresh if begins else ():
            array[some] = first
        last, over = self._cycle - 1, np.zeros((self.num_envs, 2), np.bool_)
        what = RESET | RECEIVE if self.opens and not self._splits else RESET
        if begins == self.num_envs == 1:
            self._run_one(last, False, what)
        else:
            self._run(what, where, last, over=over)
        self._moved()
        if type(self).on_reset is not Hooks.on_reset:
            self.on_reset(where)
            self._moved()
        if self.opens and self._splits:
            self.between(where)
            self._run(RECEIVE, where, last, over=over)
            self._moved()

    def _play(self, live: Array, run_by: Callable[[int], Any], more: int = 0) -> Any:
        """Play a turn in the replicas `live` bool[B]: call `run_by` with the bits of the work of `run`; returns the
        result of the last call."""
        if self.pictured:
            self.remember()
        self._loops.played += self.num_envs * self._effort
        for channel in self.channels.values():
            channel.live = live
            channel.times += self.plain or not self._splits  # then fields of the state count messages
        if self._splits:
            run_by(ACT)
            self.between(live)
        result = run_by((RECEIVE if self._splits else ACT | RECEIVE) | OBSERVE | more)
        self._turn = (self._turn + 1) % self._cycle
        self._state, self._seen_state = object(), None
        return result

    def _close(self, over: Array, live: Array) -> None:
        """Finish the runs that end, `over` bool[B, 2] (terminated, truncated), including those that end because budgets
        are spent."""
        ended = live & over.any(1)
        if ended.any():
            self.on_end(ended)
        for channel in self.channels.values():
            if channel.config.budget is not None:
                over[:, 1] |= channel.stopped & live
        self.terminated, self.truncated = over[:, 0], over[:, 1]

    def look(self, role: str, rows: Array | None = None) -> Array:
        self._require_reset()
        turn = self._before[role]
        if self.num_envs == 1 and rows is None:
            return self._run_one(turn, True, OBSERVE)[role][None]
        who = self._nobody if rows is None else np.ascontiguousarray(rows, np.int64)
        return self._run(OBSERVE, self._everywhere, turn, who=who)[0]

    def step(self, actions: Any, where: Array | None = None, out: Array | None = None) -> Step:
        frozen = self._running(where)
        role = self.turn[0]
        checked = np.ascontiguousarray(self._checked(actions)[role], self.roles[role].action_space.dtype)
        check_room(self, out)
        self._settle()
        live, turn = ~frozen, self._turn
        over = np.stack([self.terminated, self.truncated], 1)
        seen, reward, _ = self._play(live, lambda what: self._run(what, live, turn, checked, over, out=out))
        self._close(over, live)
        if len(self.roles) == 1:
            return self._stepped(seen, reward, self.current_info, live)
        earned = {name: reward[:, columns] for name, columns in self._columns.items()}
        return self._stepped({self.turn[0]: seen}, earned, self.current_info, live)

    def current_info(self) -> Info:
        """The info of the current state, [B] each."""
        infos = self._run(INFO, self._everywhere)[2]
        info: Info = {key: infos[key].copy() for key in self._keys}
        for key, value in self._shown.items():
            role = self._no_arrays[key][0]
            info[key] = {role: value.copy()} if role else value.copy()
        return info | {f"_{key}": self._rows[field].copy() for key, field in self.info_valid_if.items()}

    # A single replica.

    def _address(self) -> None:
        """See `Stored`; also the arguments of single steps, by whether everyone observes, and by turn."""
        super()._address()
        if self.num_envs > 1:
            return
        reward, over, infos = self._arrays.reward, np.zeros((1, 2), np.bool_), self._none.copy()
        self._filled = reward[0], over, infos
        self._stops = any(channel.config.budget is not None for channel in self.channels.values())
        self._actions: list[Actions] = []
        self._calls: tuple[list[Turn], list[Turn]] = [], []
        for (now, then), turn in zip(self._order, self._turns):
            role = self.roles[then]
            rows = self.column(self.acts).shape[1] if self.acts else self.roles[now].num_agents
            self._actions.append(Actions(self.roles[now], rows))
            given = turn._replace(actions=self._actions[-1].array, reward=reward, over=over, infos=infos)
            for who, calls in zip((given.who, self._nobody), self._calls):
                seen = np.empty((1, who.shape[1] or role.num_agents, role.layout.size), np.float32)
                calls.append(given._replace(who=who, seen=seen))
        # Info entries that are arrays or by agent: (key, role, array, array without meaning, whether it has one).
        self._entries: list[tuple[str, str, Array, Array, Array]] = []
        for key, (entry_role, none) in self._no_arrays.items():
            if entry_role and not self.info_per_agent:
                continue
            meant = self._rows[self.info_valid_if[key]] if key in self.info_valid_if else self._everywhere
            self._entries.append((key, entry_role, self._shown[key][0], none, meant))

    def reset_one(
        self, seed: int | None, options: Mapping[str, Any] | None, everyone: bool = False
    ) -> tuple[dict[str, Array], Info]:
        self._restart(seed, options, None)
        info = self._complete(dict(zip(self._keys, self._none.item())), valid=False)
        return self._run_one(self._cycle - 1, everyone, OBSERVE), info

    def step_one(self, actions: Mapping[str, Any], everyone: bool = False) -> SingleStep:
        if self._state is None or self.terminated[0] or self.truncated[0]:
            self._running()
        turns = [(self._turn + place) % self._cycle for place in range(len(actions))]
        for turn in turns:
            self._actions[turn].take(actions[self._order[turn][0]])
        if self._pending_step is not None:
            self._settle()
        seen, info, ends = self._turn_of_one(turns[0], everyone)
        earned = self._filled[0].tolist()
        missing: Any = self.info_valid_if.keys()
        for turn in turns[1:]:
            if any(ends):
                break
            missing = missing & self.no_meaning()
            seen, later, ends = self._turn_of_one(turn, everyone, bool(missing))
            info |= {key: later[key] for key in missing}
            earned = [*map(add, earned, self._filled[0].tolist())]
        if len(self._columns) > 1:
            return seen, {role: earned[columns] for role, columns in self._columns.items()}, *ends, info
        return seen, {self._order[0][0]: earned}, *ends, info

    def _turn_of_one(
        self, turn: int, everyone: bool, with_info: bool = True
    ) -> tuple[dict[str, Array], Info, tuple[bool, bool]]:
        """Play a turn of the only replica: observations, info (empty without `with_info`), and (terminated, truncated);
        rewards are in `_filled`."""
        seen = self._play(self._everywhere, partial(self._run_one, turn, everyone), INFO if with_info else 0)
        _, over, infos = self._filled
        ends = over.item(0), over.item(1)
        if self._stops or ends[0] or ends[1]:
            self._close(over.copy(), self._everywhere)
            ends = self.terminated.item(), self.truncated.item()
        return seen, self._complete(dict(zip(self._keys, infos.item()))) if with_info else {}, ends

    def _complete(self, info: Info, valid: bool = True) -> Info:
        """Add the array and by-agent entries to the info of the only replica (without meaning if not `valid`), and the
        messages and epsilon spent."""
        for key, role, value, none, meant in self._entries:
            shown = (value if valid and meant[0] else none).copy()
            info[key] = {role: shown} if role else shown
        if self.channels:
            self._add_spent(info)
        return info

    def _run_one(self, turn: int, everyone: bool, what: int) -> dict[str, Array]:
        """`run` of the only replica, with its actions in `_actions`: the observations of the next role's agents, {role:
        [r, D]}, if asked for; rewards and the like are in `_filled`."""
        words, play, seen, role = self._loops.get((turn, everyone)) or self._bound(turn, everyone)
        words[0] = what
        if play() not in FINE:
            failed()
        return {role: seen.copy()} if what & OBSERVE else {}

    def _bound(self, turn: int, everyone: bool) -> tuple[Array, Callable[[], int], Array, str]:
        """The parts that play a turn of the only replica: words, the first of which takes the bits of the work of
        `run`; a function that returns a status; the observations, and their role."""
        given, role = self._calls[everyone][turn], self._order[turn][1]
        made = self._loops.made(self, turn, given)
        if not isinstance(made, Loop):  # not compiled yet
            words = np.zeros(1, np.int64)
            return words, lambda: made(given._replace(what=int(words[0]))) or 0, given.seen[0], role
        self._loops[turn, everyone] = bound = *made.bound(given), given.seen[0], role
        return bound

    def no_meaning(self) -> set[str]:
        return {key for key, field in self.info_valid_if.items() if not self._rows[field][0]}

    def _add_spent(self, info: Info) -> None:
        """Add the messages and epsilon spent to the info of the only replica."""
        if not self.plain:
            info.update((key, value[0].item()) for key, value in self._spent_so_far().items())
            return
        if self.chosen:
            self._add_chosen(info)
            return
        sent, unbounded = 0, False
        for channel in self.channels.values():
            sent += channel.everyone.item() * channel.num_senders
            if channel.each is not None:
                few = channel.num_senders <= FEW_ACTIONS  # for these NumPy's sum is slower
                sent += sum(channel.each[0].tolist()) if few else int(np.add.reduce(channel.each, None))
            unbounded = unbounded or channel.silence_leaks or bool(channel.unbounded)
        info["messages"] = sent
        info["epsilon_message"] = np.inf if sent else 0.0
        info["epsilon_basic"] = np.inf if sent or unbounded else 0.0

    def _add_chosen(self, info: Info) -> None:
        """`_add_spent` for the only channel, with levels chosen by senders."""
        ((name, made),) = self.chosen.items()
        channel, dearest = self.channels[name], float(self._rows[made.dearest][0])
        total = dearest if channel.disjoint else float(self.column(made.spent)[0, :, 0].max())
        info["messages"], info["epsilon_message"] = int(self._rows[made.messages][0]), dearest
        info["epsilon_basic"] = np.inf if channel.silence_leaks or channel.unbounded else total
