"""Populations of the worlds that are written for one replica."""

from typing import Any

import numpy as np

from taciturn.envs.core import fields
from taciturn.envs.core.compiled import BEGIN, HEAR, LOOK, TELL
from taciturn.envs.core.hooks import Hooks, S
from taciturn.envs.core.info import Info
from taciturn.envs.core.single_steps import SingleSteps
from taciturn.envs.core.telling import Step, check_room
from taciturn.validation import Array


class Replicas(SingleSteps[S]):
    """Base of the worlds, which write the `Hooks`; here all their replicas are played."""

    @property
    def some_act(self) -> bool:
        return bool(self.acts)

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

    def build(self) -> None:
        """Compile the loops of all turns, or load them, before they are needed; begins a run."""
        self._loops.compile()
        self.reset(seed=0)
        for turn in range(len(self._order)):
            self._run(LOOK, self._everywhere, turn)

    def _begin_state(self, where: Array | None) -> None:
        self._ready(where is None)
        where = self._everywhere if where is None else where
        begin = int(np.count_nonzero(where))
        self._loops.played += begin * self._effort
        some: Any = ... if begin == self.num_envs else where  # much faster than a mask
        for array, first in self._fresh if begin else ():
            array[some] = first
        last, over = self._cycle - 1, np.zeros((self.num_envs, 2), np.bool_)
        what = BEGIN | HEAR if self.opens and not self._splits else BEGIN
        if begin == self.num_envs == 1:
            self._run_one(last, False, what)
        else:
            self._run(what, where, last, over=over)
        self._moved()
        if type(self).begun is not Hooks.begun:
            self.begun(where)
            self._moved()
        if self.opens and self._splits:
            self.between(where)
            self._run(HEAR, where, last, over=over)
            self._moved()

    def look(self, role: str, rows: Array | None = None) -> Array:
        self._begun()
        turn = self._before[role]
        if self.num_envs == 1 and rows is None:
            return self._run_one(turn, True, LOOK)[role][None]
        who = self._nobody if rows is None else np.ascontiguousarray(rows, np.int64)
        return self._run(LOOK, self._everywhere, turn, who=who)[0]

    def observe(self) -> Any:
        self._begun()
        turn = (self._turn - 1) % self._cycle
        seen = self._run(LOOK, self._everywhere, turn)[0]
        return seen if len(self.roles) == 1 else {self._order[turn][1]: seen}

    def step(self, actions: Any, where: Array | None = None, out: Array | None = None) -> Step:
        frozen = self._running(where)
        role = self.turn[0]
        checked = np.ascontiguousarray(self._checked(actions)[role], self.roles[role].action_space.dtype)
        check_room(self, out)
        self._settle()
        live, turn = ~frozen, self._turn
        over = np.empty((self.num_envs, 2), np.bool_)
        over[:, 0], over[:, 1] = self.terminated, self.truncated
        seen, reward, _ = self._play(live, lambda what: self._run(what, live, turn, checked, over, out=out))
        if type(self).ended is not Hooks.ended:
            self.ended(live & over.any(1))
        for channel in self.channels.values():
            if channel.config.budget is not None:
                over[:, 1] |= channel.stopped & live
        self.terminated, self.truncated = over[:, 0], over[:, 1]
        if len(self.roles) == 1:
            return self._stepped(seen, reward, self.told, live)
        earned = {name: reward[:, columns] for name, columns in self._columns.items()}
        return self._stepped({self.turn[0]: seen}, earned, self.told, live)

    def told(self) -> Info:
        """The info of the state as it is now, [B] each."""
        told = self._run(TELL, self._everywhere)[2]
        info: Info = {key: told[key].copy() for key in self._keys}
        for key, value in self._shown.items():
            role = self._no_arrays[key][0]
            info[key] = {role: value.copy()} if role else value.copy()
        return info | {f"_{key}": self._rows[field].copy() for key, field in self.told_if.items()}
