"""Shared part of the two multi-agent views: names, spaces, infos and the full state."""

from collections.abc import Mapping
from copy import copy, deepcopy
from itertools import repeat
from typing import Any, NoReturn

import gymnasium
import numpy as np

from taciturn.envs.core import fields
from taciturn.envs.core.info import Info
from taciturn.envs.core.population import Population
from taciturn.envs.core.views.single import OneReplica
from taciturn.validation import Array


class Agents(OneReplica):
    """Common base of the two PettingZoo views."""

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
            self.action_spaces |= {agent: copy(r.action_space) for agent in self._of[role]}
        # Copying a dict is far cheaper than filling one.
        self._every = {value: dict.fromkeys(self.possible_agents, value) for value in (False, True)}
        self._nothing = dict.fromkeys(self.possible_agents, 0.0)
        self._some_act, self._turns = population.some_act, population.turns is not None
        self._acting: dict[str, list[int] | None] = dict.fromkeys(self._of)  # the acting agents; None: all of a role
        self._actors = self._of.copy()  # their names
        self._seen: dict[str, Array] = {}  # observations of all agents of a role
        self._shown: dict[str, Array] = {}  # observations of single agents
        self._run_info: Info = {}  # without the values by agent,
        self._each: dict[str, list[tuple[str, Array]]] = {}  # the values by agent, by role: (key, values [N])
        self._masks: dict[str, Array | None] = {}
        self._require_reset = False
        self.truth_in_state = False
        self._state_spaces: dict[bool, gymnasium.spaces.Box] = {}

    def _check_reset(self, what: str) -> None:
        if not self._require_reset:
            raise gymnasium.error.ResetNeeded(f"no run of {self.population.name} has begun: call reset() before {what}")

    def _refuse(self) -> NoReturn:
        """Raise an error, as no agents are left to step."""
        self._check_reset("step()")
        raise gymnasium.error.ResetNeeded(f"every agent of {self.population.name} is done: call reset() before step()")

    @property
    def np_random(self) -> np.random.Generator:
        """Random numbers for wrappers, from the seed of the run; the environment does not draw from them."""
        return self.population.stream("np_random")

    def observation_space(self, agent: str) -> gymnasium.spaces.Space[Any]:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gymnasium.spaces.Space[Any]:
        return self.action_spaces[agent]

    def _begin(self, seed: int | None, options: dict[str, Any] | None, everyone: bool) -> None:
        """Begin a run; refused arguments change nothing."""
        seen, run_info = self.population.reset_one(seed, options, everyone)
        self.agents, self._require_reset = list(self.possible_agents), True
        self._by_agent = self.population.info_keys_by_agent
        self._note(seen, run_info, everyone)

    def _play(self, actions: Mapping[str, Any], everyone: bool) -> tuple[dict[str, float], bool, bool]:
        """Play a turn with the actions of the roles in turn: (rewards of the agents that can have one, terminated,
        truncated).

        With `everyone`, all agents of a role observe afterwards, not only those that act next.
        """
        seen, rewards, terminated, truncated, run_info = self.population.step_one(actions, everyone)
        paid: dict[str, float] = {}
        for role, values in rewards.items():
            of_role = dict(zip(self._actors[role], values))
            paid = paid | of_role if paid else of_role
        self._note(seen, run_info, everyone)
        return paid, terminated, truncated

    def _note(self, seen: dict[str, Array], run_info: Info, everyone: bool) -> None:
        """Store the current observations and info, and the agents that act."""
        self._run_info, self._masks, self._seen, self._shown = run_info, {}, seen, {}
        self._each = {role: [] for role in self._of} if self._by_agent else {}
        for key in self._by_agent:
            for role, values in run_info.pop(key).items():
                self._each[role].append((key, values))
        for role in self._of if self._some_act else ():
            rows = self.population.acting(role)
            if rows is None:
                continue
            names, who = self._of[role], rows[0].tolist()
            self._acting[role], self._actors[role] = who, [*map(names.__getitem__, who)]
            run_info["acting"] = False
            if role in seen and not everyone:
                self._shown |= dict(zip(self._actors[role], seen.pop(role)))

    def _full_observation(self, role: str) -> Array:
        """The observation that every agent of a role would get now, [N, D]."""
        if role not in self._seen:
            rows = None if self._acting[role] is None else np.arange(len(self._of[role]))[None]
            self._seen[role] = self.population.look(role, rows)[0]
        return self._seen[role]

    def _mask(self, role: str) -> Array | None:
        """The actions of a role's agents that have an effect, [N, n]; None if all have."""
        if role not in self._masks:
            mask, who = self.population.action_mask(role), self._acting[role]
            if mask is None or who is None:
                self._masks[role] = None if mask is None else mask[0]
            else:
                every = np.zeros((len(self._of[role]), *mask.shape[2:]), np.int8)
                every[who] = mask[0]  # actions of the others have no effect
                self._masks[role] = every
        return self._masks[role]

    def _infos(self) -> dict[str, Info]:
        """The infos of all agents, a separate dict for each: the values of the replica, the agent's entry of values by
        role, and its mask. Where only some act at a time, `acting` says whether the agent acts next."""
        infos, first = [*map(dict.copy, repeat(self._run_info, len(self.possible_agents)))], 0
        for role, names in self._of.items() if self._by_agent or self._masked or self._some_act else ():
            own = infos[first : (first := first + len(names))]
            for key, values in self._each.get(role, ()):
                for info, value in zip(own, values.tolist()):
                    info[key] = value
            if self._masked and (mask := self._mask(role)) is not None:
                # Only the infos get the rows of the writable mask.
                for info, row in zip(own, mask if mask.flags.writeable else mask.copy()):
                    info["action_mask"] = row
            if self._info_acting(role):
                who = self._acting[role]
                for info in own if who is None else map(own.__getitem__, who):
                    info["acting"] = True
        return dict(zip(self.possible_agents, infos))

    def _info(self, agent: str) -> Info:
        """The info of one agent; see `_infos`."""
        info, (role, place) = self._run_info.copy(), self._place[agent]
        for key, values in self._each.get(role, ()):
            info[key] = values[place].item()
        if self._masked and (mask := self._mask(role)) is not None:
            info["action_mask"] = mask[place].copy()
        if self._info_acting(role):
            who = self._acting[role]
            info["acting"] = who is None or place in who
        return info

    def _info_acting(self, role: str) -> bool:
        """Whether infos say which of a role's agents act next."""
        return self._some_act and "acting" in self._run_info and (not self._turns or role in self.population.turn)

    def state(self) -> Array:
        """The environment's full state, in `state_space`, for central critics (Gymnasium's and PettingZoo's `state`).

        It holds the knowledge of all agents, sent or not, so the accountant's epsilon does not cover a policy that acts
        on it. Fields hidden from all agents (`taciturn.envs.core.fields`), such as the arms' means, are left out unless
        the attribute `truth_in_state` is True.
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
                population = deepcopy(population)  # the size of the state is the same in all runs
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
