"""How a single replica is played, for the interfaces of one replica: by role, and in plain numbers."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from taciturn.envs.core.compiled import HEAR, LOOK, SAY, TELL, Turn
from taciturn.envs.core.hooks import Hooks, S
from taciturn.envs.core.info import Info
from taciturn.envs.core.kernels import FINE, Loop, failed
from taciturn.envs.core.population import One
from taciturn.envs.core.roles import FEW_ACTIONS, Actions
from taciturn.envs.core.stored import Stored
from taciturn.validation import Array

COPIED = 2**14  # bytes of observations that are copied faster than the address of others is found out


_MOMENT: Any = object  # makes markers of the state at one moment


class SingleSteps(Stored[S]):
    """Plays the only replica of a world."""

    def acting(self, role: str) -> Array | None:
        if not self.acts:
            return None
        if self._state is None:
            self._begun()
        return self._by_name[self.acts].copy()

    def _play(self, live: Array, run_by: Callable[[int], Any], more: int = 0) -> Any:
        """Play a turn in the replicas `live` bool[B]: call `run_by` with the bits of what `run` is to do; returns what
        the last call does."""
        if self.pictured:
            self.remember()
        self._loops.played += self.num_envs * self._effort
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

    def _address(self) -> None:
        """See `Stored`; also what single steps are given, by whether everyone observes, and by turn."""
        super()._address()
        self._closes = self._splits or type(self).ended is not Hooks.ended
        self._empty = dict(zip(self._keys, self._none.item()))
        self._conditions = {*self.told_if.values()}
        if self.num_envs > 1:
            return
        reward, over, told = self._arrays.reward, np.zeros((1, 2), np.bool_), self._none.copy()
        self._filled = reward[0], over[0], told
        self._actions: list[Actions] = []
        self._calls: tuple[list[Turn], list[Turn]] = [], []
        for (now, then), turn in zip(self._order, self._turns):
            role = self.roles[then]
            rows = self.column(self.acts).shape[1] if self.acts else self.roles[now].num_agents
            self._actions.append(Actions(self.roles[now], rows))
            given = turn._replace(actions=self._actions[-1].array, reward=reward, over=over, told=told)
            for who, calls in zip((given.who, self._nobody), self._calls):
                seen = np.empty((1, who.shape[1] or role.num_agents, role.layout.size), np.float32)
                calls.append(given._replace(who=who, seen=seen))
        # Entries of infos that are arrays or by agent: (key, role, array, array without meaning, whether it has one).
        self._entries: list[tuple[str, str, Array, Array, Array]] = []
        for key, (entry_role, none) in self._no_arrays.items():
            if entry_role and not self.tells_agents:
                continue
            meant = self._rows[self.told_if[key]] if key in self.told_if else self._everywhere
            self._entries.append((key, entry_role, self._shown[key][0], none, meant))

    def reset_one(
        self, seed: int | None, options: Mapping[str, Any] | None, everyone: bool = False
    ) -> tuple[dict[str, Array], Info]:
        self._restart(seed, options, None)
        info = self._empty | {key: self._none_of(key) for key, *_ in self._entries}
        self._add_spent(info)
        return self._run_one(self._cycle - 1, everyone, LOOK), info

    def step_one(self, actions: Mapping[str, Any], everyone: bool = False) -> One:
        if self._state is None or self.terminated[0] or self.truncated[0]:
            self._running()
        turns = [(self._turn + place) % self._cycle for place in range(len(actions))]
        for turn in turns:
            self._actions[turn].take(actions[self._order[turn][0]], "actions" if self._agents > 1 else "action")
        if self._telling is not None:
            self._settle()
        seen, info, ends = self._turn_of_one(turns[0], everyone)
        reward = self._filled[0]
        paid = reward if len(turns) == 1 else reward.copy()
        unknown = self.no_meaning() if len(turns) > 1 else set()
        for turn in turns[1:]:
            if any(ends):
                break
            seen, told, ends = self._turn_of_one(turn, everyone, bool(unknown))
            info |= {key: told[key] for key in unknown}
            unknown = unknown and unknown & self.no_meaning()
            paid += reward
        earned = paid.tolist()
        if len(self._columns) > 1:
            return seen, {role: earned[columns] for role, columns in self._columns.items()}, *ends, info
        return seen, {self._order[0][0]: earned}, *ends, info

    def _turn_of_one(
        self, turn: int, everyone: bool, tells: bool = True
    ) -> tuple[dict[str, Array], Info, tuple[bool, bool]]:
        """Play a turn of the only replica: what is observed, what is told (nothing without `tells`), and whether the
        run has ended; rewards are in `_filled`."""
        seen = self._play(self._everywhere, partial(self._run_one, turn, everyone), TELL if tells else 0)
        _, over, told = self._filled
        terminated, truncated = self._ended_one(over.tolist()) if self._closes else over.tolist()
        if terminated or truncated:
            self.terminated, self.truncated = np.array([terminated]), np.array([truncated])
        info: Info = {}
        if tells:
            info = dict(zip(self._keys, told.item()))
            if self._entries:
                self._add_arrays(info)
            if self.channels:
                self._add_spent(info)
        return seen, info, (terminated, truncated)

    def _run_one(self, turn: int, everyone: bool, what: int) -> dict[str, Array]:
        """`run` of the only replica, whose actions are in `_actions`: what agents of the next role observe, {role: [r,
        D]}, if asked for; rewards and the like are in `_filled`."""
        words, place, play, seen, role = self._loops.get((turn, everyone)) or self._bound(turn, everyone)
        words[0] = what
        fresh = np.empty_like(seen) if what & LOOK and place and seen.nbytes > COPIED else None
        if fresh is not None:
            words[place] = fresh.ctypes.data
        if play() not in FINE:
            failed()
        return {role: (seen.copy() if fresh is None else fresh)[0]} if what & LOOK else {}

    def _bound(self, turn: int, everyone: bool) -> tuple[Array, int, Callable[[], int], Array, str]:
        """What plays a turn of the only replica: words, the first of which takes the bits of what `run` is to do and
        another the address of the observations; a function that returns a status; the observations, and whose they
        are."""
        given, role = self._calls[everyone][turn], self._order[turn][1]
        made = self._loops.made(self, turn, given)
        if not isinstance(made, Loop):  # perhaps not for long
            words = np.zeros(1, np.int64)
            return words, 0, lambda: made(given._replace(what=int(words[0]))) or 0, given.seen, role
        self._loops[turn, everyone] = bound = *made.bound(given, "seen"), given.seen, role
        return bound

    def _add_arrays(self, info: Info) -> None:
        """Add to the info of the only replica the entries that are arrays or by agent."""
        for key, role, value, none, meant in self._entries:
            own = (value if meant[0] else none).copy()
            info[key] = {role: own} if role else own

    def _none_of(self, key: str) -> Any:
        """What the info of the only replica holds under a key that has no meaning, an array or by agent."""
        role, value = self._no_arrays[key]
        return {role: value.copy()} if role else value.copy()

    def _ended_one(self, over: list[bool]) -> list[bool]:
        """Do what happens between steps and at the end of a run; return whether the only run has ended."""
        if any(over):
            self.ended(self._everywhere)
        stopped = any(c.config.budget is not None and c.stopped[0] for c in self.channels.values())
        return [over[0], over[1] or bool(stopped)]

    def no_meaning(self) -> set[str]:
        lacking = {field for field in self._conditions if not self._rows[field][0]}
        return {key for key, field in self.told_if.items() if field in lacking} if lacking else set()

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
            sent += channel.everyone.item() * channel.num_senders
            if channel.each is not None:
                few = channel.num_senders <= FEW_ACTIONS
                sent += sum(channel.each[0].tolist()) if few else int(np.add.reduce(channel.each, None))
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
