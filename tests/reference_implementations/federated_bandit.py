"""The federated bandit by hand (`reference_implementations.by_hand`)."""

import math
from typing import Any

import numpy as np

from reference_implementations.by_hand import ByHand, numbers
from taciturn.validation import Array


class FederatedBandit(ByHand):
    """Agents that pull arms, and upload their means to a server that averages them."""

    def __init__(self, num_agents: int, horizon: int = 100_000, num_arms: int = 100, link_cost: float = 25.0) -> None:
        super().__init__(num_agents, horizon)
        self.arms, self.link_cost = num_arms, link_cost

    def begin(self, seed: int | None) -> None:
        arms = self.arms
        self.quality = numbers(seed, "qualities").random(arms).tolist()
        self.luck = numbers(seed, "rewards")
        self.counts, self.sums, self.used_counts, self.used_sums, self.weight, self.private = (
            {agent: np.zeros(arms) for agent in self.possible_agents} for _ in range(6)
        )
        self.missed = dict.fromkeys(self.possible_agents, 0)
        self.total, self.total_at_round, self.broadcast = np.zeros(arms), np.zeros(arms), np.zeros(arms)
        self.last_round, self.rounds, self.regret = np.zeros(arms, np.int64), 0, 0.0

    def observe(self, agent: str) -> Array:
        counts = self.counts[agent]
        means = self.sums[agent] / np.maximum(counts, 1)
        rest = [self.time, self.horizon - self.time, self.rounds, 0, 1]
        active = self.last_round == self.rounds
        parts = [counts, means, self.private[agent], self.broadcast, active, rest]
        return np.concatenate(parts).astype(np.float32)

    def play(self, actions: dict[str, Any]) -> dict[str, float]:
        rewards, uploading, best = {}, [], max(self.quality)
        for agent in self.agents:
            arm = actions[agent] % self.arms
            drawn = self.luck.random() < self.quality[arm]
            self.counts[agent][arm] += 1
            self.sums[agent][arm] += drawn
            self.total[arm] += 1
            self.regret += best - self.quality[arm]
            rewards[agent] = float(drawn)
            if actions[agent] >= self.arms:
                rewards[agent] -= self.link_cost
                uploading.append(agent)
        self.time += 1
        if uploading:
            self.communicate(uploading)
        return rewards

    def communicate(self, uploading: list[str]) -> None:
        """A round: uploading agents send the mean of every arm pulled since the last round, and all learn the
        average."""
        current = self.total > self.total_at_round
        summed, known = np.zeros(self.arms), np.zeros(self.arms)
        for agent in uploading:
            pulls = (self.counts[agent] - self.used_counts[agent]) * current
            mean = (self.sums[agent] - self.used_sums[agent]) * current / np.maximum(pulls, 1)
            weight = self.weight[agent] + pulls
            joint = (self.weight[agent] * self.private[agent] + pulls * mean) / np.maximum(weight, 1)
            self.private[agent] = np.where(pulls > 0, joint, self.private[agent])
            self.weight[agent] = weight
            self.used_counts[agent], self.used_sums[agent] = self.counts[agent].copy(), self.sums[agent].copy()
            summed += np.where(pulls > 0, self.private[agent], 0)
            known += pulls > 0
        self.rounds += 1
        self.broadcast = np.where(known > 0, summed / np.maximum(known, 1), self.broadcast)
        self.last_round = np.where(known > 0, self.rounds, self.last_round)
        self.total_at_round = self.total.copy()


class ArmElimination(FederatedBandit):
    """The federation seen by its coordinator, the only agent; the `members` are played by a loop."""

    def __init__(self, num_agents: int, horizon: int = 10_000, num_arms: int = 10, link_cost: float = 25.0) -> None:
        super().__init__(num_agents, horizon, num_arms, link_cost)
        self.members, self.possible_agents = self.possible_agents, ["coordinator_0"]

    def begin(self, seed: int | None) -> None:
        coordinator, self.possible_agents = self.possible_agents, self.members
        super().begin(seed)
        self.possible_agents, self.swaps = coordinator, numbers(seed, "participation")
        self.active, self.order = [True] * self.arms, list(self.members)

    def sum_of_rewards(self, pulls: int, mean: float) -> int:
        return int(self.luck.binomial(pulls, mean))

    def observe(self, agent: str) -> Array:
        counts = np.log1p(self.counts[self.members[0]]) / math.log1p(self.horizon)
        return np.concatenate(
            [self.broadcast, counts, self.active, [self.rounds, 1 - self.time / self.horizon]], dtype=np.float32
        )

    def play(self, actions: dict[str, Any]) -> dict[str, float]:
        size, best = len(self.members), max(self.quality)
        share, root, participation = ((1 + float(a)) / 2 for a in actions["coordinator_0"])
        left, number = int(self.horizon - self.time), sum(self.active)
        most = left // number
        pulls = left if number == 1 else round(most**share) if most else 0
        arms = [arm for arm in range(self.arms) if self.active[arm]]
        each = [0] * self.arms
        for place, arm in enumerate(arms):
            each[arm] = pulls or max(left - place + number - 1, 0) // number
        for arm in arms:
            for agent in self.members:
                self.counts[agent][arm] += each[arm]
                if each[arm]:
                    self.sums[agent][arm] += self.sum_of_rewards(each[arm], self.quality[arm])
            self.total[arm] += size * each[arm]
            self.regret += size * each[arm] * (best - self.quality[arm])
        self.time += sum(each)
        uploading = max(math.ceil(participation * size - 1e-6), 1)
        for i in range(uploading):
            other = i + int(self.swaps.random() * (size - i))
            self.order[i], self.order[other] = self.order[other], self.order[i]
        chosen = self.order[:uploading]
        before = {agent: (self.weight[agent], self.weight[agent] * self.private[agent]) for agent in chosen}
        self.communicate(chosen)
        means = self.epoch_means(before)
        missing = sum(each[arm] * (1 - means[arm]) for arm in arms)
        reward = -(size * missing + self.link_cost * uploading) / (size * self.horizon)
        highest = max(self.broadcast[arm] for arm in arms)
        keep = next(arm for arm in arms if self.broadcast[arm] == highest)
        for arm in arms:
            self.active[arm] = arm == keep or highest - self.broadcast[arm] < root**2
        return {"coordinator_0": float(reward)}

    def epoch_means(self, before: dict[str, tuple[Array, Array]]) -> Array:
        """The averages, over the agents that uploaded, of their means of this epoch."""
        summed, known = np.zeros(self.arms), np.zeros(self.arms)
        for agent, (weight, total) in before.items():
            pulls = self.weight[agent] - weight
            added = (self.weight[agent] * self.private[agent] - total) / np.maximum(pulls, 1)
            summed += np.where(pulls > 0, added, 0)
            known += pulls > 0
        return np.where(known > 0, summed / np.maximum(known, 1), self.broadcast)
