"""The standard interfaces: thin views of a `Population`, each written once for all worlds."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import cached_property
from typing import Any, TypeGuard

import gymnasium
import numpy as np
import pettingzoo
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from taciturn.envs.core import fields
from taciturn.envs.core.info import Info, latest, masked, overlaid
from taciturn.envs.core.population import Population, Step
from taciturn.envs.core.render import RENDER_MODES, Renderer
from taciturn.envs.core.replicas import Replicas
from taciturn.validation import Array, array_of, choice, mapping, shown


def _one(info: Info) -> Info:
    """The info of the only replica, without masks and values by agent: plain Python values and arrays [K]."""
    return {
        key: value.item() if value.ndim == 1 else value[0].copy()
        for key, value in info.items()
        if key[0] != "_" and not isinstance(value, dict)
    }


def _whole(info: Info) -> Info:
    """An info without its values by agent, which single-agent views do not show."""
    by_agent = [key for key, value in info.items() if isinstance(value, dict)]
    return {key: value for key, value in info.items() if key.removeprefix("_") not in by_agent}


def effective_actions(population: Population[Any], role: str) -> Array:
    """The actions that have an effect now, bool[B x rows, n]; for MultiDiscrete, the dimensions' masks concatenated."""
    mask, space = population.action_mask(role), population.roles[role].action_space
    rows = population.num_envs * population.rows(role)
    if mask is not None:
        return mask.reshape(rows, -1).astype(np.bool_)
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        return np.ones((rows, int(space.nvec.sum())), np.bool_)
    assert isinstance(space, gymnasium.spaces.Discrete)
    return np.ones((rows, int(space.n)), np.bool_)


def _sole_role(population: Population[Any], view: str) -> str:
    if len(population.roles) != 1 or next(iter(population.roles.values())).num_agents != 1:
        agents = ", ".join(f"{role.num_agents} x {role.name}" for role in population.roles.values())
        raise ValueError(f"{view} needs a population of one agent, not {agents}: use a PettingZoo view or Controlled")
    return next(iter(population.roles))


def _plays_quickly(population: Population[Any]) -> TypeGuard[Replicas[Any]]:
    """Whether views of several agents use `step_one`, whose infos have no values by agent."""
    return isinstance(population, Replicas) and population.quick and len(population.roles) == 1


class _OneReplica:
    """Common part of the views of one replica."""

    def __init__(self, population: Population[Any], render_mode: str | None, **metadata: Any) -> None:
        if population.num_envs != 1:
            view = type(self).__name__
            raise ValueError(f"{view} needs a population of one replica, but num_envs is {population.num_envs}")
        self.population = population
        population.fix_spaces()
        self.render_mode = choice("render_mode", render_mode, (None, *RENDER_MODES))
        self.metadata = {"render_modes": list(RENDER_MODES), "render_fps": 10, "name": population.name, **metadata}
        self._renderer = Renderer(population, self.render_mode)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.population!r}>"

    def render(self) -> Any:
        return self._renderer.frame()

    def close(self) -> None:
        self._renderer.close()


class SingleEnv(_OneReplica, gymnasium.Env[Array, Any]):
    """A one-agent population of one replica as a Gymnasium environment."""

    def __init__(self, population: Population[Any], render_mode: str | None = None) -> None:
        self.role = _sole_role(population, "SingleEnv")
        super().__init__(population, render_mode)
        role = population.roles[self.role]
        self.observation_space, self.action_space = role.layout.space(), role.action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, Info]:
        if isinstance(self.population, Replicas) and self.population.quick:
            observation, told = self.population.reset_one(seed, options)
        else:
            first, info = self.population.reset(seed=seed, options=options)
            observation, told = first[0], _one(info)
        super().reset(seed=seed)  # only now: a refused call must change nothing
        self._renderer.update()
        return observation[0], told | self._mask()

    def step(self, action: Any) -> tuple[Array, float, bool, bool, Info]:
        if self.population.quick:
            observation, earned, terminated, truncated, info = self.population.step_one([action])
            self._renderer.update()
            return observation[0], earned[0], terminated, truncated, info | self._mask()
        step = self.population.step(array_of("action", action)[None, None])
        self._renderer.update()
        reward, terminated, truncated = step.reward[0, 0], step.terminated[0], step.truncated[0]
        return step.observation[0, 0], float(reward), bool(terminated), bool(truncated), _one(step.info) | self._mask()

    @property
    def action_masks(self) -> Callable[[], Array]:
        """The actions that have an effect now, bool[n], as a method, which sb3-contrib's MaskablePPO calls; see
        `effective_actions`.

        Spaces without a finite number of actions have no such method, since libraries test for it.
        """
        space = self.action_space
        if isinstance(space, gymnasium.spaces.Box):
            raise AttributeError(f"{self.population.name} has actions in a Box, for which there are no masks")
        return lambda: effective_actions(self.population, self.role)[0]

    def _mask(self) -> Info:
        mask = self.population.action_mask(self.role)
        return {} if mask is None else {"action_mask": mask[0, 0].astype(np.int8)}


class VectorView(gymnasium.vector.VectorEnv[Array, Array, Array]):
    """A one-agent population as a Gymnasium vector environment, stepped as arrays.

    Args:
        population: B replicas of a world with one agent.
        autoreset_mode: what happens to a replica whose episode ended; the three of Gymnasium. Under `SAME_STEP` the
            last observation and info are in `info["final_obs"]` and `info["final_info"]`.
    """

    def __init__(
        self,
        population: Population[Any],
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
    ) -> None:
        self.role = _sole_role(population, "VectorView")
        self.population = population
        population.fix_spaces()
        self.num_envs = population.num_envs
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.render_mode = choice("render_mode", render_mode, (None, "ansi", "rgb_array"))
        self.metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 10, "name": population.name}
        self.metadata["autoreset_mode"] = self.autoreset_mode
        role = population.roles[self.role]
        self.single_observation_space, self.single_action_space = role.layout.space(), role.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._ended = np.zeros(self.num_envs, np.bool_)

    def __repr__(self) -> str:
        return f"<VectorView of {self.population!r}, {self.autoreset_mode}>"

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, Info]:
        options = dict(mapping("options", options))
        where = options.pop("reset_mask", None)
        if where is not None and not array_of("reset_mask", where).any():
            raise ValueError("reset_mask must mark at least one replica")
        observation, info = self.population.reset(seed=seed, options=options, where=where)
        super().reset(seed=seed)
        self._ended = self.population.done.copy()
        return observation[:, 0], self._told(info)

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, Info]:
        population, actions = self.population, array_of("actions", actions)
        if actions.shape[:1] != (self.num_envs,):
            raise ValueError(f"actions must have shape ({self.num_envs}, ...), not {actions.shape}")
        actions = actions[:, None]
        if self.autoreset_mode is AutoresetMode.NEXT_STEP and self._ended.any():
            return self._step_after_end(actions)
        if self.autoreset_mode is AutoresetMode.DISABLED and self._ended.any():
            ended = np.flatnonzero(self._ended)[:5].tolist()
            raise gymnasium.error.ResetNeeded(
                f"replicas {ended} are done: reset(options={{'reset_mask': ...}}) them first"
            )
        observation, reward, terminated, truncated, info = population.step(actions)
        self._ended = ended = terminated | truncated
        if self.autoreset_mode is AutoresetMode.SAME_STEP and ended.any():
            final: Array = np.full(self.num_envs, None, dtype=object)
            for i in np.flatnonzero(ended):
                final[i] = observation[i, 0]
            last = {"final_obs": final, "final_info": masked(_whole(info) | self._mask(), ended)}
            observation, begun = population.reset(where=ended)
            told = (
                overlaid(ended, _whole(begun), _whole(info)) | last | {f"_{key}": ended for key in last} | self._mask()
            )
            self._ended = np.zeros(self.num_envs, np.bool_)
        else:
            told = self._told(info)
        return observation[:, 0], reward[:, 0], terminated, truncated, told

    def _step_after_end(self, actions: Array) -> tuple[Array, Array, Array, Array, Info]:
        """Reset the replicas that ended in the last step, ignoring their actions, and step the others."""
        population, fresh = self.population, self._ended
        space: Any = self.single_action_space
        if fresh.all():
            observation, info = population.reset(where=fresh)
            nothing = np.zeros(self.num_envs, np.bool_)
            reward, terminated, truncated = np.zeros((self.num_envs, 1)), nothing, nothing
        else:
            actions = actions.copy()
            actions[fresh] = space.low if isinstance(space, gymnasium.spaces.Box) else space.start
            _, reward, terminated, truncated, info = population.step(actions)
            observation, begun = population.reset(where=fresh)
            info = overlaid(fresh, begun, info)
        self._ended = population.done.copy()
        return observation[:, 0], reward[:, 0], terminated & ~fresh, truncated & ~fresh, self._told(info)

    def _told(self, info: Info) -> Info:
        return _whole(info) | self._mask()

    def _mask(self) -> Info:
        mask = self.population.action_mask(self.role)
        if mask is None:
            return {}
        return {"action_mask": mask[:, 0].astype(np.int8), "_action_mask": np.ones(self.num_envs, np.bool_)}

    def render(self) -> Any:
        if self.render_mode is None:
            return None
        return tuple(Renderer(self.population, self.render_mode, i).frame() for i in range(self.num_envs))


class _Agents(_OneReplica):
    """Common part of the two PettingZoo views: names and spaces."""

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
        self._seen: dict[str, Array] = {}
        self._shown: dict[str, Array] = {}
        self._noted: Any = None
        self._begun = False
        self.truth_in_state = False
        self._state_spaces: dict[bool, gymnasium.spaces.Box] = {}

    def _check_begun(self, what: str) -> None:
        if not self._begun:
            raise gymnasium.error.ResetNeeded(f"no run of {self.population.name} has begun: call reset() before {what}")

    def observation_space(self, agent: str) -> gymnasium.spaces.Space[Any]:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gymnasium.spaces.Space[Any]:
        return self.action_spaces[agent]

    def _play(self, actions: dict[str, Array]) -> tuple[Step, dict[str, Array]]:
        """Step the world; also return the rewards by role, [N], which are zero for agents that did not act."""
        population = self.population
        acted = {role: population.acting(role) for role in self._of}
        sole = next(iter(self._of)) if len(self._of) == 1 else None
        step = population.step(actions if sole is None else actions[sole])
        self._see(step.observation)
        rewards = {}
        for role, values in (step.reward if sole is None else {sole: step.reward}).items():
            rewards[role], rows = values[0], acted[role]
            if rows is not None:
                rewards[role] = np.zeros(len(self._of[role]))
                rewards[role][rows[0]] = values[0]
        return step, rewards

    def _see(self, observation: Any) -> None:
        """Store the observations of all agents of a role, or of those that act."""
        by_role = observation if len(self._of) > 1 else dict.fromkeys(self._of, observation)
        acting = {role: self.population.acting(role) for role in by_role}
        self._seen = {role: rows[0] for role, rows in by_role.items() if acting[role] is None}
        self._shown = {
            self._of[role][i]: row
            for role, rows in by_role.items()
            if (who := acting[role]) is not None
            for i, row in zip(who[0].tolist(), rows[0], strict=True)
        }

    def _full_observation(self, role: str) -> Array:
        """The observation that every agent of a role would get now, [N, D]."""
        if role not in self._seen:
            rows = None if self.population.acting(role) is None else np.arange(len(self._of[role]))[None]
            self._seen[role] = self.population.look(role, rows)[0]
        return self._seen[role]

    def _note(self, info: Info) -> None:
        """Store this moment's infos, for `_told`."""
        population = self.population
        self._begun = True
        by_role = {key: values for key, values in info.items() if isinstance(values, Mapping)}
        acting = {role: population.acting(role) for role in self._of}
        masks = {role: population.action_mask(role) for role in self._of}
        self._noted = _one(info), by_role, population.turn, acting, masks

    def _told(self, role: str, some: slice) -> list[Info]:
        """The infos of a slice of a role's agents, a separate dict for each: the values of the replica, the agent's
        entry of values by role, and its mask. Where only some act at a time, `acting` says whether the agent acts next.
        """
        common, by_role, turn, acting, masks = self._noted
        rows, mask = acting[role], masks[role]
        places = range(len(self._of[role]))[some]
        infos = [common.copy() for _ in places]
        columns: dict[str, Any] = {}
        acts = set(places if rows is None else rows[0].tolist()) if role in turn else set[int]()
        if any(few is not None for few in acting.values()):
            columns["acting"] = [i in acts for i in places]
        columns |= {key: values[role][0][some].tolist() for key, values in by_role.items() if role in values}
        if mask is not None and rows is None:
            columns["action_mask"] = mask[0][some].astype(np.int8)
        elif mask is not None:
            every = np.zeros((len(self._of[role]), *mask.shape[2:]), np.int8)
            every[rows[0]] = mask[0]  # the others' actions have no effect
            columns["action_mask"] = every[some]
        for key, column in columns.items():
            for info, value in zip(infos, column, strict=True):
                info[key] = value
        return infos

    def _infos(self) -> dict[str, Info]:
        """The infos of all agents."""
        infos: dict[str, Info] = {}
        for role, names in self._of.items():
            infos.update(zip(names, self._told(role, slice(None)), strict=True))
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


class ParallelView(_Agents, pettingzoo.ParallelEnv[str, Array, Any]):
    """A population as a PettingZoo Parallel environment.

    In a world played in turns, a step is a whole cycle: first the last turn is played, in reply to the earlier turns of
    the step before, and then the earlier turns of the next cycle. (The world's default actions open the first cycle.)
    """

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Array], dict[str, Info]]:
        population = self.population
        observation, info = population.reset(seed=seed, options=options)
        self._see(observation)
        first = {role: population.default_action(role) for turn in (population.turns or ())[:-1] for role in turn}
        _, info = self._open(first, info)
        self.agents = list(self.possible_agents)
        self._renderer.update()
        self._note(info)
        return self._observations(), self._infos()

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[dict[str, Array], dict[str, float], dict[str, bool], dict[str, bool], dict[str, Info]]:
        population = self.population
        self._check_begun("step()")
        if not self.agents:
            raise gymnasium.error.ResetNeeded(f"every agent of {population.name} is done: call reset() before step()")
        if _plays_quickly(population):
            return self._step_of_one(population, actions)
        taken = self._taken(actions)
        step, rewards = self._play({role: taken[role] for role in population.turn})
        info = step.info
        if not population.done[0]:
            opened, info = self._open(taken, info)
            for role, more in opened.items():
                rewards[role] = rewards[role] + more if role in rewards else more
        terminated, truncated = bool(population.terminated[0]), bool(population.truncated[0])
        earned = self._nothing.copy()
        for role, values in rewards.items():
            earned.update(zip(self._of[role], values.tolist(), strict=True))
        self._note(info)
        if terminated or truncated:
            self.agents = []
        self._renderer.update()
        ends = self._every[terminated].copy(), self._every[truncated].copy()
        return self._observations(), earned, *ends, self._infos()

    def _step_of_one(
        self, population: Replicas[Any], actions: dict[str, Any]
    ) -> tuple[dict[str, Array], dict[str, float], dict[str, bool], dict[str, bool], dict[str, Info]]:
        """`step` by `Replicas.step_one`."""
        ((role, names),) = self._of.items()
        acts = [names[i] for i in population.column(population.acts)[0].tolist()] if population.acts else names
        taken = self._given(actions, acts)
        seen, rewards, terminated, truncated, info = population.step_one(taken, everyone=True)
        earned = self._nothing.copy()
        earned.update(zip(acts, rewards, strict=True))
        self._noted, self._seen = None, {role: seen}
        if terminated or truncated:
            self.agents = []
        if self.render_mode is not None:
            self._renderer.update()
        ends = self._every[terminated].copy(), self._every[truncated].copy()
        mask = population.action_mask(role)
        if population.acts:
            info["acting"] = False
        infos = {name: info.copy() for name in names}
        for key, field in population.tells_each.items():
            for one, value in zip(infos.values(), population.column(field)[0].tolist(), strict=True):
                one[key] = value
        if population.acts:
            for i in population.column(population.acts)[0].tolist():
                infos[names[i]]["acting"] = True
        if mask is not None:
            for own, row in zip(infos.values(), mask[0], strict=True):
                own["action_mask"] = row
        return dict(zip(names, seen, strict=True)), earned, *ends, infos

    def _given(self, actions: dict[str, Any], agents: list[str]) -> list[Any]:
        """The actions of these agents; all live agents must have one."""
        if type(actions) is not dict and not isinstance(actions, Mapping):
            raise ValueError(f"actions must be a dict {{agent: action}}, not {shown(actions)}")
        if not actions.keys() >= self._place.keys():
            missing = next(agent for agent in self.agents if agent not in actions)
            raise ValueError(f"actions must hold an action for every live agent, but {missing!r} is missing")
        return [actions[agent] for agent in agents]

    def _taken(self, actions: dict[str, Any]) -> dict[str, Array]:
        """Actions by role, [1, rows, ...], checked before anything changes."""
        population, taken = self.population, {}
        for role, names in self._of.items():
            rows = array_of("actions", self._given(actions, names))[None]
            rows = population.roles[role].check(rows, (1, len(self._of[role])))
            acting = population.acting(role)
            taken[role] = rows if acting is None else rows[:, acting[0]]
        return taken

    def _open(self, actions: dict[str, Array], info: Info) -> tuple[dict[str, Array], Info]:
        """Play all turns of a cycle except the last; return the rewards, and `info` with missing keys filled in."""
        rewards: dict[str, Array] = {}
        for turn in (self.population.turns or ())[:-1]:
            step, earned = self._play({role: actions[role] for role in turn})
            info = latest(step.info, info)
            for role, more in earned.items():
                rewards[role] = rewards[role] + more if role in rewards else more
        return rewards, info

    def _observations(self) -> dict[str, Array]:
        observations: dict[str, Array] = {}
        for role, names in self._of.items():
            observations.update(zip(names, self._full_observation(role), strict=True))
        return observations


class AECView(_Agents, pettingzoo.AECEnv[str, Array, Any]):
    """A population as a PettingZoo AEC environment: actions are collected until the turn is full, then the world
    steps."""

    agent_selection: str

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        observation, info = self.population.reset(seed=seed, options=options)
        self._see(observation)
        self.agents = list(self.possible_agents)
        self._idle = self._nothing.copy()
        self.rewards = self._nothing.copy()
        self._cumulative_rewards = self._nothing.copy()
        self.terminations = self._every[False].copy()
        self.truncations = self._every[False].copy()
        self._note(info)
        self._begin_turn()
        self._renderer.update()

    def step(self, action: Any) -> None:
        self._check_begun("step()")
        if not self.agents:
            raise gymnasium.error.ResetNeeded(
                f"every agent of {self.population.name} is done: call reset() before step()"
            )
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._bury(agent, action)
            return
        self._collected.append(self._checked(agent, action))
        self._cumulative_rewards[agent] = 0.0
        if len(self._collected) < len(self._order):
            self.rewards = self._idle
            self.agent_selection = self._order[len(self._collected)]
            return
        self._complete_turn()

    def _checked(self, agent: str, action: Any) -> Any:
        """An action of an agent, in its space."""
        population, (role, _) = self.population, self._place[agent]
        if _plays_quickly(population) and population.fits(population.roles[role])(action):
            return action
        return population.roles[role].check(array_of("action", action)[None, None], (1, 1), "action")[0, 0]

    def _complete_turn_of_one(self, population: Replicas[Any]) -> None:
        """`_complete_turn` by `Replicas.step_one`."""
        ((role, names),) = self._of.items()
        seen, earned, terminated, truncated, info = population.step_one(self._collected)
        self.rewards = self._nothing.copy()
        for agent, value in zip(self._order, earned, strict=True):
            self.rewards[agent] = value
            self._cumulative_rewards[agent] += value
        if terminated or truncated:
            self.terminations, self.truncations = self._every[terminated].copy(), self._every[truncated].copy()
        acting = population.acting(role)
        order = names if acting is None else [names[i] for i in acting[0].tolist()]
        self._seen, self._shown = ({role: seen}, {}) if acting is None else ({}, dict(zip(order, seen, strict=True)))
        self._noted = info, population.told_each(), (role,), {role: acting}, {role: population.action_mask(role)}
        self._forget(list(self.agents) if terminated or truncated else order)
        if self.render_mode is not None:
            self._renderer.update()

    def _complete_turn(self) -> None:
        population = self.population
        if _plays_quickly(population):
            self._complete_turn_of_one(population)
            return
        by_role: dict[str, list[Any]] = {}
        for agent, action in zip(self._order, self._collected, strict=True):
            by_role.setdefault(self._place[agent][0], []).append(action)
        step, rewards = self._play({role: np.array(values)[None] for role, values in by_role.items()})
        self.rewards = self._nothing.copy()
        for role, values in rewards.items():
            names, some = self._of[role], np.flatnonzero(values)
            for i, value in zip(some.tolist(), values[some].tolist(), strict=True):
                self.rewards[names[i]] = value
                self._cumulative_rewards[names[i]] += value
        self.terminations = self._every[bool(step.terminated[0])].copy()
        self.truncations = self._every[bool(step.truncated[0])].copy()
        self._note(step.info)
        self._begin_turn()
        self._renderer.update()

    def _begin_turn(self) -> None:
        order: list[str] = list(self.agents) if self.population.done[0] else []
        for role in self.population.turn if not order else ():
            acting = self.population.acting(role)
            order += self._of[role] if acting is None else [self._of[role][i] for i in acting[0]]
        self._forget(order)

    def _forget(self, order: list[str]) -> None:
        """Begin a turn of the agents in `order`."""
        self.__dict__.pop("infos", None)
        self._last_infos: dict[str, Info] = {}
        self._collected: list[Any] = []
        self._order = order
        self.agent_selection = order[0]

    def _bury(self, agent: str, action: Any) -> None:
        if action is not None:
            raise ValueError(f"action must be None for {agent}, which is done, not {shown(action)}")
        self.rewards = self._idle
        records: list[dict[str, Any]] = [self._idle, self._cumulative_rewards, self.terminations, self.truncations]
        for record in [*records, self.infos]:
            record.pop(agent)
        self.agents.remove(agent)
        if self.agents:
            self.agent_selection = self.agents[0]

    @cached_property
    def infos(self) -> dict[str, Info]:
        """See PettingZoo. Made on first access, since `last` needs only its agent's."""
        self._check_begun("infos")
        return self._infos() | self._last_infos

    def agent_iter(self, max_iter: int = 2**63) -> Any:
        """See PettingZoo."""
        self._check_begun("agent_iter()")
        return super().agent_iter(max_iter)

    def last(self, observe: bool = True) -> tuple[Array | None, float, bool, bool, Info]:
        """See PettingZoo."""
        self._check_begun("last()")
        agent = self.agent_selection
        known = self.__dict__.get("infos", self._last_infos)
        if agent not in known:
            role, row = self._place[agent]
            (known[agent],) = self._told(role, slice(row, row + 1))
        earned, terminated, truncated = (
            self._cumulative_rewards[agent],
            self.terminations[agent],
            self.truncations[agent],
        )
        return self.observe(agent) if observe else None, earned, terminated, truncated, known[agent]

    def observe(self, agent: str) -> Array:
        if agent in self._shown:
            return self._shown[agent].copy()
        role, row = self._place[agent]
        if role not in self._seen and self.population.acting(role) is not None:
            own: Array = self.population.look(role, np.array([[row]]))[0, 0]
            return own
        return self._full_observation(role)[row].copy()
