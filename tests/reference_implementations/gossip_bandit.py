"""The gossip bandit by hand (`reference_implementations.by_hand`)."""

import math
from typing import Any

import numpy as np

from reference_implementations.by_hand import ByHand, numbers
from taciturn.validation import Array


class GossipBandit(ByHand):
    """Agents that ask all others when their clocks tick."""

    def __init__(self, num_agents: int, horizon: float = 50.0, num_options: int = 4) -> None:
        super().__init__(num_agents, horizon)
        self.options = num_options

    def begin(self, seed: int | None) -> None:
        self.quality = numbers(seed, "qualities").random(self.options).tolist()
        self.clock, self.luck = numbers(seed, "clock"), numbers(seed, "pulls")
        self.preference = {agent: i % self.options for i, agent in enumerate(self.agents)}
        self.regret = 0.0
        self.ask()

    def ask(self) -> None:
        """The next tick, and what is answered."""
        self.due = self.time - math.log1p(-self.clock.random()) / len(self.agents)
        ticker = self.agents[int(self.clock.random() * len(self.agents))]
        if self.due <= self.horizon:
            self.ticker = ticker
            self.counts = [0] * self.options
            for agent in self.agents:
                self.counts[self.preference[agent]] += 1

    def observe(self, agent: str) -> Array:
        seen = np.zeros(2 * self.options + 2, np.float32)
        if agent == self.ticker:
            for option, count in enumerate(self.counts):
                seen[option] = count / len(self.agents)
            seen[self.options] = 1
        seen[self.options + 1 + self.preference[agent]] = 1
        return seen

    def play(self, actions: dict[str, Any]) -> dict[str, float]:
        option, on_zero, on_one = actions[self.ticker]
        rewards = dict.fromkeys(self.agents, 0.0)
        luck = self.luck.random()
        self.time = self.due
        if option < self.options:
            signal = luck < self.quality[option]
            rewards[self.ticker] = float(signal)
            self.regret += max(self.quality) - self.quality[option]
            if on_one if signal else on_zero:
                self.preference[self.ticker] = int(option)
        self.ask()
        return rewards

    def over(self) -> bool:
        return self.due > self.horizon
