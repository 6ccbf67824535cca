"""The view of several agents that act one after another."""

from functools import cached_property
from typing import Any

import numpy as np
import pettingzoo

from taciturn.envs.core.info import Info
from taciturn.envs.core.views.agents import Agents
from taciturn.validation import Array, shown


class AECView(Agents, pettingzoo.AECEnv[str, Array, Any]):
    """A population as a PettingZoo AEC environment: it collects actions until the turn is complete, then steps the
    population."""

    agent_selection: str

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        self._begin(seed, options, everyone=False)
        self._idle = self._nothing.copy()
        self.rewards = self._nothing.copy()
        self._cumulative_rewards = self._nothing.copy()
        self.terminations = self._every[False].copy()
        self.truncations = self._every[False].copy()
        self._begin_turn(over=bool(self.population.done[0]))
        self._renderer.update()

    def step(self, action: Any) -> None:
        if not self.agents:
            self._refuse()
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._bury(agent, action)
            return
        role = self._place[agent][0]
        if not self.population.roles[role].fits(action):
            action = self.population.roles[role].check([action], (1, 1), each=True)[0, 0]
        self._collected[role].append(action)
        self._cumulative_rewards[agent] = 0.0
        self._given += 1
        if self._given < len(self._order):
            self.rewards = self._idle
            self.agent_selection = self._order[self._given]
        else:
            self._complete_turn()

    def _complete_turn(self) -> None:
        paid, terminated, truncated = self._play(self._collected, everyone=False)
        self.rewards = self._nothing | paid
        for agent, reward in paid.items():
            self._cumulative_rewards[agent] += reward
        if terminated or truncated:
            self.terminations, self.truncations = self._every[terminated].copy(), self._every[truncated].copy()
        self._begin_turn(terminated or truncated)
        if self.render_mode is not None:
            self._renderer.update()

    def _begin_turn(self, over: bool) -> None:
        """Begin a turn of the acting agents, or of all at the end of the run."""
        self.__dict__.pop("infos", None)
        self._last_infos: dict[str, Info] = {}
        self._collected: dict[str, list[Any]] = {}
        self._order: list[str] = list(self.agents) if over else []
        for role in self.population.turn if self._turns else self._of:
            self._collected[role] = []
            self._order += () if over else self._actors[role]
        self._given = 0
        self.agent_selection = self._order[0]

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
        """See PettingZoo. Computed on first access, since `last` needs only its agent's info."""
        self._check_reset("infos")
        return self._infos() | self._last_infos

    def agent_iter(self, max_iter: int = 2**63) -> Any:
        """See PettingZoo."""
        self._check_reset("agent_iter()")
        return super().agent_iter(max_iter)

    def last(self, observe: bool = True) -> tuple[Array | None, float, bool, bool, Info]:
        """See PettingZoo."""
        self._check_reset("last()")
        agent = self.agent_selection
        known = self.__dict__.get("infos", self._last_infos)
        if agent not in known:
            known[agent] = self._info(agent)
        ends = self.terminations[agent], self.truncations[agent]
        return self.observe(agent) if observe else None, self._cumulative_rewards[agent], *ends, known[agent]

    def observe(self, agent: str) -> Array:
        if agent in self._shown:
            return self._shown[agent].copy()
        role, row = self._place[agent]
        if role not in self._seen and self._acting[role] is not None:
            own: Array = self.population.look(role, np.array([[row]]))[0, 0]
            return own
        return self._full_observation(role)[row].copy()
