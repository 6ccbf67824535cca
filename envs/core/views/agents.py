"""What the two views of several agents share: names, spaces, infos and the whole state."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np

from taciturn.envs.core import fields
from taciturn.envs.core.info import Info
from taciturn.envs.core.population import Population
from taciturn.envs.core.views.single import OneReplica
from taciturn.validation import Array


class Agents(OneReplica):
    """Common part of the two PettingZoo views."""

    def __init__(self, population: Population[Any], render_mode: str | None = None) -> None:
        alike = not population.some_act and population.turns is None
        super().__init__(population, render_mode, is_parallelizable=alike)
        self.possible_agents = list(population.possible_agents)
        self.agents: list[str] = []
        self._of = {role: [f"{role}_{i}" for i in range(r.num_agents)] for role, r in population.roles.items()}
        self._place = {agent: (role, i) for role, names in self._of.items() for i, agent in enumerate(names)}
        self.observation_spaces: dict[str, gymnasium.spaces.Space[Any]] = {}
        self.action_spaces: dict[str, gymnasium.spaces.Space[Any]] = {}
        for role, r in population.roles.items():
            # One space object for each agent, the same at every call: seeding one must not seed another.
            self.observation_spaces |= dict.fromkeys(self._of[role], r.layout.space())
            self.action_spaces |= {agent: _copy_space(r.action_space) for agent in self._of[role]}
        # Copying a dict is far cheaper than filling one.
        self._every = {value: dict.fromkeys(self.possible_agents, value) for value in (False, True)}
        self._nothing = dict.fromkeys(self.possible_agents, 0.0)
        self._acting: dict[str, list[int] | None] = dict.fromkeys(self._of)  # the agents that act; None: all of a role
        self._seen: dict[str, Array] = {}
        self._shown: dict[str, Array] = {}
        self._told: Info = {}
        self._begun = False
        self.truth_in_state = False
        self._state_spaces: dict[bool, gymnasium.spaces.Box] = {}

    def _check_begun(self, what: str) -> None:
        if not self._begun:
            raise gymnasium.error.ResetNeeded(f"no run of {self.population.name} has begun: call reset() before {what}")

    def _check_live(self) -> None:
        if not self.agents:
            self._check_begun("step()")
            raise gymnasium.error.ResetNeeded(
                f"every agent of {self.population.name} is done: call reset() before step()"
            )

    def observation_space(self, agent: str) -> gymnasium.spaces.Space[Any]:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gymnasium.spaces.Space[Any]:
        return self.action_spaces[agent]

    def _begin(self, seed: int | None, options: dict[str, Any] | None, everyone: bool) -> None:
        """Begin a run; refused arguments change nothing."""
        seen, self._told = self.population.reset_one(seed, options, everyone)
        self.agents, self._begun = list(self.possible_agents), True
        self._see(seen, everyone)

    def _play(self, actions: Mapping[str, Any], everyone: bool) -> tuple[dict[str, float], bool, bool]:
        """Play a turn by actions of the roles whose turn it is: (rewards, of agents who can have one, terminated,
        truncated).

        With `everyone`, all agents of a role observe afterwards, not only those that act next.
        """
        acted = self._acting
        seen, rewards, terminated, truncated, self._told = self.population.step_one(actions, everyone)
        paid: dict[str, float] = {}
        for role, values in rewards.items():
            paid.update(zip(self._those(role, acted), values, strict=True))
        self._see(seen, everyone)
        return paid, terminated, truncated

    def _those(self, role: str, acting: Mapping[str, list[int] | None]) -> list[str]:
        """The agents of a role that act."""
        names, who = self._of[role], acting[role]
        return names if who is None else [names[i] for i in who]

    def _see(self, seen: dict[str, Array], everyone: bool) -> None:
        """Store the observations of all agents of a role, or of those that act; note who acts."""
        population = self.population
        if population.some_act:
            rows = {role: population.acting(role) for role in self._of}
            self._acting = {role: None if some is None else some[0].tolist() for role, some in rows.items()}
        self._seen, self._shown = {}, {}
        for role, shown in seen.items():
            who = self._acting[role]
            if everyone or who is None:
                self._seen[role] = shown
            else:
                self._shown.update(zip(self._those(role, self._acting), shown, strict=True))

    def _full_observation(self, role: str) -> Array:
        """The observation that every agent of a role would get now, [N, D]."""
        if role not in self._seen:
            rows = None if self._acting[role] is None else np.arange(len(self._of[role]))[None]
            self._seen[role] = self.population.look(role, rows)[0]
        return self._seen[role]

    def _infos_of(self, role: str, mask: Array | None, some: slice = slice(None)) -> list[Info]:
        """The infos of a slice of a role's agents, a separate dict for each: the values of the replica, the agent's
        entry of values by role, and its actions' `mask`. Where only some act at a time, `acting` says whether the agent
        acts next.
        """
        population, told, who = self.population, self._told, self._acting[role]
        places = range(len(self._of[role]))[some]
        if population.told_by_agent:
            told = {key: value for key, value in told.items() if key not in population.told_by_agent}
        infos = [told.copy() for _ in places]
        columns: dict[str, Any] = {}
        if population.some_act and any(few is not None for few in self._acting.values()):
            acts = set[int]() if role not in population.turn else set(places if who is None else who)
            columns["acting"] = [i in acts for i in places]
        for key in population.told_by_agent:
            if role in self._told[key]:
                columns[key] = self._told[key][role][some].tolist()
        if mask is not None and who is None:
            columns["action_mask"] = mask[some].astype(np.int8)
        elif mask is not None:
            every = np.zeros((len(self._of[role]), *mask.shape[1:]), np.int8)
            every[who] = mask  # the others' actions have no effect
            columns["action_mask"] = every[some]
        for key, column in columns.items():
            for info, value in zip(infos, column, strict=True):
                info[key] = value
        return infos

    def _mask(self, role: str) -> Array | None:
        """Of the actions of a role's agents that act, [rows, n]; None if all actions have an effect."""
        mask = self.population.action_mask(role)
        return None if mask is None else mask[0]

    def _infos(self) -> dict[str, Info]:
        """The infos of all agents."""
        infos: dict[str, Info] = {}
        for role, names in self._of.items():
            infos.update(zip(names, self._infos_of(role, self._mask(role)), strict=True))
        return infos

    def state(self) -> Array:
        """The world's whole state, in `state_space`; central critics learn from it (Gymnasium's and PettingZoo's
        `state`).

        It holds what all agents know, sent or not, so no total of privacy covers a policy that acts on it. What is
        hidden from all agents (`taciturn.envs.core.fields`), such as the arms' means, is left out unless the
        attribute `truth_in_state` is True.
        """
        space = self.state_space
        return np.clip(self._numbers(self.population.state), space.low, space.high)

    @property
    def state_space(self) -> gymnasium.spaces.Box:
        """A Box of float32 [D] over all finite numbers; an infinite number, such as a time not yet reached, is clipped
        to its bound."""
        if self.truth_in_state not in self._state_spaces:
            population = self.population
            if population._state is None:
                population = deepcopy(population)  # the state's size is the same in all runs
                population.reset(seed=0)
            most = np.finfo(np.float32).max
            shape = self._numbers(population.state).shape
            self._state_spaces[self.truth_in_state] = gymnasium.spaces.Box(-most, most, shape, np.float32)
        return self._state_spaces[self.truth_in_state]

    def _numbers(self, state: Any) -> Array:
        """The fields of a state as float32 [D]; hidden ones only with `truth_in_state`."""
        known = fields.owners(type(state)).items()
        names = [name for name, owner in known if self.truth_in_state or owner.kind != fields.HIDDEN]
        parts = [np.ravel(getattr(state, name)[0]) for name in names]
        with np.errstate(over="ignore"):
            return np.concatenate(parts).astype(np.float32)


def _copy_space(space: gymnasium.spaces.Space[Any]) -> gymnasium.spaces.Space[Any]:
    if isinstance(space, gymnasium.spaces.Discrete):
        return gymnasium.spaces.Discrete(int(space.n), start=int(space.start))
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        return gymnasium.spaces.MultiDiscrete(space.nvec.copy(), start=space.start.copy())
    assert isinstance(space, gymnasium.spaces.Box)
    return gymnasium.spaces.Box(space.low.copy(), space.high.copy(), dtype=space.dtype.type)
