"""The view of several agents that act simultaneously."""

from collections.abc import Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import pettingzoo

from taciturn.envs.core.info import Info
from taciturn.envs.core.population import Population
from taciturn.envs.core.views.agents import Agents
from taciturn.validation import Array, shown


def pick(names: list[str], given: Mapping[str, Any]) -> Sequence[Any]:
    """The values of these names in a mapping; `itemgetter` returns no tuple if there is only one name."""
    return tuple(given[name] for name in names)


class ParallelView(Agents, pettingzoo.ParallelEnv[str, Array, Any]):
    """A population as a PettingZoo Parallel environment.

    In a phased environment, a step plays as many turns as a cycle has: first the last turn of the current cycle, in
    reply to turns of the previous step, and then all but the last turn of the next cycle. (`reset` plays those of the
    first cycle with default actions.)
    """

    def __init__(self, population: Population[Any], render_mode: str | None = None) -> None:
        super().__init__(population, render_mode)
        self._opening = (population.turns or ())[:-1]  # the earlier turns of a cycle
        self._picks: Any = [
            (role, itemgetter(*names) if len(names) > 1 else partial(pick, names)) for role, names in self._of.items()
        ]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Array], dict[str, Info]]:
        population = self.population
        self._begin(seed, options, everyone=True)
        if self._opening:
            first = {role: population.default_action(role)[0] for turn in self._opening for role in turn}
            self._play(first, everyone=True)
        self._renderer.update()
        return self._observations(), self._infos()

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[dict[str, Array], dict[str, float], dict[str, bool], dict[str, bool], dict[str, Info]]:
        if not self.agents:
            self._refuse()
        taken = self._taken(actions)
        acts = self._of_those_who_act(taken) if self._some_act else taken
        paid, terminated, truncated = self._play(acts, everyone=True)
        earned = paid if len(paid) == len(self._nothing) else self._nothing | paid
        if terminated or truncated:
            self.agents = []
        if self.render_mode is not None:
            self._renderer.update()
        ends = self._every[terminated].copy(), self._every[truncated].copy()
        return self._observations(), earned, *ends, self._infos()

    def _taken(self, actions: Any) -> dict[str, Sequence[Any]]:
        """The actions of all agents by role, [N, ...]."""
        if type(actions) is not dict:
            if not isinstance(actions, Mapping):
                raise ValueError(f"actions must be a dict {{agent: action}}, not {shown(actions)}")
            actions = dict(actions)
        taken = {}
        try:
            for role, chosen_of in self._picks:
                taken[role] = chosen_of(actions)
        except KeyError:
            missing = next(agent for agent in self.possible_agents if agent not in actions)
            raise ValueError(f"actions must hold an action for every live agent, but {missing!r} is missing") from None
        return taken

    def _of_those_who_act(self, taken: Mapping[str, Any]) -> Mapping[str, Any]:
        """The actions of the acting agents, where some wait."""
        chosen = {}
        for role, who in self._acting.items():
            chosen[role] = taken[role] if who is None else [*map(taken[role].__getitem__, who)]
        return chosen

    def _observations(self) -> dict[str, Array]:
        observations: dict[str, Array] = {}
        for role, names in self._of.items():
            results = dict(zip(names, self._seen[role] if role in self._seen else self._full_observation(role)))
            observations = observations | results if observations else results  # merging many takes long
        return observations
