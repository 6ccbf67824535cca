"""The recommender by hand (`reference_implementations.by_hand`). The catalogue is drawn by the package."""

from typing import Any

import numpy as np

from reference_implementations.by_hand import ByHand, numbers
from taciturn.envs.recommender import instances
from taciturn.envs.recommender import rewards as mean_rewards
from taciturn.envs.recommender.geometry import DEPTH
from taciturn.envs.recommender.world import recommender_v0
from taciturn.validation import Array


class Recommender(ByHand):
    """Providers on a star that show items to users, and may ask for their neighbours' statistics.

    Regret is against the best item that a provider has. Finding that item takes most of the time, so `info_has_regret`
    may be False.
    """

    clusters, cells = 8, 4

    def __init__(self, num_agents: int, horizon: int = 20_000, info_has_regret: bool = True, **params: Any) -> None:
        super().__init__(num_agents, horizon)
        self.info_has_regret = info_has_regret
        self.population = recommender_v0.population(1, num_agents=num_agents, horizon=horizon, **params)

    def begin(self, seed: int | None) -> None:
        self.population.reset(seed=seed)
        state = self.population.state
        self.items = state.items[0]
        self.cluster = (state.codes[0] >> (DEPTH - 3)).tolist()
        self.own = {
            agent: set(np.flatnonzero(have).tolist()) for agent, have in zip(self.agents, state.active[0], strict=True)
        }
        self.features = {agent: self.items[sorted(self.own[agent])] for agent in self.agents}
        self.weights, self.turn, self.phase = state.weights[0], state.directions[0, 0], state.phases[0, 0]
        self.centres, self.luck, self.users = state.centres[0], numbers(seed, "rewards"), numbers(seed, "contexts")
        self.context = {agent: self.draw_context() for agent in self.agents}
        hub, *leaves = self.agents
        self.neighbours = {hub: leaves} | {leaf: [hub] for leaf in leaves}
        self.counts, self.sums = (
            {agent: np.zeros((self.cells, self.clusters)) for agent in self.agents} for _ in range(2)
        )
        self.answer: dict[str, tuple[Array, Array] | None] = dict.fromkeys(self.agents)
        self.mu, self.regrets = dict.fromkeys(self.agents, 0.0), dict.fromkeys(self.agents, 0.0)

    def draw_context(self) -> Array:
        dims, uniform = self.centres.shape[1], instances.CONTEXT_UNIFORM
        which, *u = self.users.random(instances.numbers_of_a_point(dims))
        context = np.array(u[:dims])
        if which >= uniform:  # by the method of Box and Muller, which makes two normal numbers at a time
            radius, angle = np.sqrt(-2 * np.log1p(-np.array(u[::2]))), 2 * np.pi * np.array(u[1::2])
            normal = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).ravel()[:dims]
            centre = self.centres[int((which - uniform) / (1 - uniform) * len(self.centres))]
            context = centre + instances.CONTEXT_SPREAD * normal
        return np.clip(context, 0, 1).astype(np.float32).astype(np.float64)

    def means(self, context: Array, items: Array) -> Array:
        """Mean rewards of items [..., 5]."""
        peak = 0.5 + 0.42 * np.sin(np.pi * (self.turn @ (context - 0.5) + self.phase))
        distance = np.sqrt(((self.weights * (items - peak)) ** 2).sum(-1))
        return mean_rewards.FLOOR + mean_rewards.SPAN * np.maximum(0, 1 - distance / mean_rewards.RADIUS)

    def cell(self, agent: str) -> int:
        first, second = self.context[agent][:2] >= 0.5
        return int(first) + 2 * int(second)

    def observe(self, agent: str) -> Array:
        seen = np.zeros(self.centres.shape[1] + 2 + 2 * self.clusters, np.float32)
        dims = self.centres.shape[1]
        seen[:dims] = self.context[agent]
        seen[dims] = self.time
        if (told := self.answer[agent]) is not None:
            counts, sums = told
            seen[dims + 1] = 1
            seen[dims + 2 : dims + 2 + self.clusters] = counts
            seen[dims + 2 + self.clusters :] = sums / np.maximum(counts, 1)
        return seen

    def inform(self, agent: str) -> dict[str, Any]:
        told = {"mu": self.mu[agent]}
        return told | {"regret": self.regrets[agent]} if self.info_has_regret else told

    def play(self, actions: dict[str, Any]) -> dict[str, float]:
        rewards, number = {}, len(self.items)
        for agent in self.agents:
            item, context = actions[agent] % number, self.context[agent]
            shows = item in self.own[agent]
            mu = float(self.means(context, self.items[item])) if shows else 0.0
            rewards[agent] = float(self.luck.random() < mu)
            if shows:
                place = self.cell(agent), self.cluster[item]
                self.counts[agent][place] += 1
                self.sums[agent][place] += rewards[agent]
            self.mu[agent] = mu
            if self.info_has_regret:
                self.regrets[agent] = float(self.means(context, self.features[agent]).max()) - mu
        self.time += 1
        for agent in self.agents:
            self.context[agent] = self.draw_context()
        for agent in self.agents:
            self.answer[agent] = None
            if actions[agent] >= number and self.time < self.horizon:
                cell, others = self.cell(agent), self.neighbours[agent]
                self.answer[agent] = (
                    sum((self.counts[other][cell] for other in others), np.zeros(self.clusters)),
                    sum((self.sums[other][cell] for other in others), np.zeros(self.clusters)),
                )
        return rewards
