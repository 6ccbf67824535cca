"""The social bandit by hand (`reference_implementations.by_hand`)."""

from typing import Any

import numpy as np

from reference_implementations.by_hand import ByHand, numbers
from taciturn.validation import Array


class SocialBandit(ByHand):
    """Agents that spread copies of their preferences to random agents, and adopt options by common signals."""

    def __init__(self, num_agents: int, horizon: int = 500, num_options: int = 5, copies: int = 50) -> None:
        super().__init__(num_agents, horizon)
        self.options, self.copies = num_options, copies

    def begin(self, seed: int | None) -> None:
        self.eta = numbers(seed, "qualities").random(self.options)
        self.signals, self.walks = numbers(seed, "signals"), numbers(seed, "dissemination")
        self.held = {agent: i % self.options for i, agent in enumerate(self.agents)}
        self.total = self.regret = 0.0
        self.disseminate()

    def disseminate(self) -> None:
        size = len(self.agents)
        seen = np.zeros((size, 2 * self.options + 3), np.float32)
        for agent in self.agents:
            option = self.held[agent]
            if option < self.options:
                ends = np.bincount(self.walks.integers(0, size, self.copies), minlength=size)
                seen[:, option] += ends
                seen[:, self.options] += ends
        for i, agent in enumerate(self.agents):
            if self.held[agent] < self.options:
                seen[i, self.options + 1 + self.held[agent]] = 1
        seen[:, -2] = 1
        self.seen = dict(zip(self.agents, seen, strict=True))

    def observe(self, agent: str) -> Array:
        return self.seen[agent]

    def play(self, actions: dict[str, Any]) -> dict[str, float]:
        phi = self.signals.random(self.options) < self.eta
        rewards, adopters = {}, 0
        for agent in self.agents:
            option, zero, one = actions[agent]
            held = self.held[agent]
            adopters += held < self.options
            rewards[agent] = float(held < self.options and phi[held])
            good = option < self.options and phi[option]
            self.held[agent] = int(option) if (one if good else zero) else self.options
        self.time += 1
        self.total += sum(rewards.values()) / max(adopters, 1)
        self.regret = float(self.eta.max()) - self.total / self.time
        self.disseminate()
        return rewards
