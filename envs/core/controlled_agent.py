"""An environment seen from one agent, while policies play all others."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from taciturn.envs.core.controlled import Played
from taciturn.envs.core.info import Info, latest, overlaid
from taciturn.envs.core.playing import Acts, restart
from taciturn.envs.core.population import Population
from taciturn.envs.core.public import PublicView
from taciturn.envs.core.roles import Role
from taciturn.envs.core.steps import Step, check_room, filled
from taciturn.validation import Array, choice, integer

TRIES = 1000  # attempts to draw a run in which the controlled agent acts


class _Guided:
    """The policy of a role in which one agent's actions come from outside.

    The policy still chooses actions for all agents, so its random draws do not depend on the controlled agent; it then
    learns from the actions really taken.
    """

    def __init__(self, policy: Acts, controlled: "ControlledAgent") -> None:
        self.policy, self._controlled = policy, controlled
        self.needs_truth, self.centralised = (
            bool(getattr(policy, name, False)) for name in ("needs_truth", "centralised")
        )

    def reset(self, env: PublicView, rng: np.random.Generator, role: str | None = None) -> None:
        self.policy.reset(env, rng, role)

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        actions = np.array(self.policy.act(obs, mask))
        own, given = self._controlled.own(), self._controlled.given
        if given is not None:
            replicas = np.nonzero(own)[0]
            actions[own] = given[replicas, 0]
        return actions

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        self.policy.update(obs, action, reward, done)

    def restart(self, where: Array) -> None:
        restart([self.policy], where)


class ControlledAgent(Played):
    """An environment seen from one agent, while policies play all others, including those of the agent's role.

    Where agents act one at a time, the environment plays on until it is the agent's turn: a step is one turn of the
    agent and everything until its next turn. Replicas that have reached the agent's turn wait until all live ones have
    reached it; policies still choose actions for waiting replicas, without effect, and `update` marks these replicas as
    done. Runs that end before the agent ever acts are drawn again.

    Args:
        population: an environment without phases.
        role: the agent's role.
        agent: the agent's number.
        others: `{role: policy}` for every role.
    """

    name = "seat"

    def __init__(self, population: Population[Any], role: str, agent: int, others: Mapping[str, Acts]) -> None:
        if population.turns is not None:
            raise ValueError(f"population must have no turns, and {population.name} has: use Controlled for one role")
        choice("role", role, population.roles)
        if set(others) != set(population.roles):
            raise ValueError(f"others must be a policy for each of {list(population.roles)}, not for {sorted(others)}")
        self.agent = integer("agent", agent, at_least=0, at_most=population.roles[role].num_agents - 1)
        self.given: Array | None = None
        super().__init__(population, role, others)

    def __repr__(self) -> str:
        return f"<Seat of {self.role}_{self.agent} in {self.inner!r}, others: {self.others!r}>"

    def own(self) -> Array:
        """The rows of the inner population that belong to the agent, bool[B, rows]."""
        rows = self.inner.acting(self.role)
        everyone = np.arange(self.inner.roles[self.role].num_agents)
        return (
            np.broadcast_to(everyone, (self.num_envs, len(everyone))) == self.agent
            if rows is None
            else rows == self.agent
        )

    def make_roles(self) -> tuple[Role, ...]:
        return (replace(self.inner.roles[self.role], num_agents=1),)

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None, where: Array | None = None
    ) -> tuple[Any, Info]:
        inner = self.inner
        _, info = inner.reset(seed=seed, options=options, where=where)
        if where is None:
            self._begin({**self.others, self.role: _Guided(self.others[self.role], self)})
        else:
            self._rollout.restart(where)
        fresh = np.ones(self.num_envs, np.bool_) if where is None else where
        _, info = self._follow(info)
        for _ in range(TRIES):
            if not (again := fresh & inner.done).any():
                return self.observe(), info
            _, begun = inner.reset(where=again)
            self._rollout.restart(again)
            _, info = self._follow(overlaid(again, begun, info))
        raise ValueError(
            f"horizon must be long enough for {self.role}_{self.agent} to act, not {self.horizon:g}: it did not in "
            f"{TRIES} runs"
        )

    def step(self, actions: Any, where: Array | None = None, out: Array | None = None) -> Step:
        self._running()
        given = self.roles[self.role].check(actions, (self.num_envs, 1))
        check_room(self, out)
        self.given = given
        reward, info = self._play(where)
        self.given = None
        more, info = self._follow(info)
        reward[:, 0] += more[:, 0]
        return Step(filled(out, self.observe()), reward, self.terminated, self.truncated, info)

    def _play(self, where: Array | None = None) -> tuple[Array, Info]:
        """Play one turn of the inner population in the replicas `where`; return the agent's reward [B, 1] and the
        info."""
        own = self.own()
        step = self._rollout.play(where=where)
        reward = step.reward if len(self.inner.roles) == 1 else step.reward[self.role]
        return (reward * own).sum(1, keepdims=True), step.info

    def _follow(self, info: Info) -> tuple[Array, Info]:
        """Play on until it is the agent's turn in all live replicas; return its reward, and `info` combined with the
        infos of these steps."""
        inner, reward = self.inner, np.zeros((self.num_envs, 1))
        while not (waiting := self.own().any(1) | inner.done).all():
            more, latest_info = self._play(~waiting)
            reward, info = reward + more, latest(info, latest_info)
        return reward, info

    def stream(self, name: str) -> np.random.Generator:
        return self.inner.stream(f"seat/{name}")  # separate from the streams of the others' policies

    def acting(self, role: str) -> None:
        """None: the only agent always acts."""

    def action_mask(self, role: str) -> Array | None:
        mask = self.inner.action_mask(role)
        if mask is None or self.inner.acting(role) is not None:
            return mask
        return mask[:, self.agent : self.agent + 1]

    def look(self, role: str, rows: Array | None = None) -> Array:
        if self.inner.acting(role) is None:
            return self.inner.look(role)[:, self.agent : self.agent + 1]
        return self.inner.look(role, np.full((self.num_envs, 1), self.agent))
