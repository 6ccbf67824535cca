"""The elicitation by hand (`reference_implementations.by_hand`). The package draws theta and beliefs."""

import math
from typing import Any

import numpy as np

from reference_implementations.by_hand import ByHand, numbers
from taciturn.envs.elicitation.world import elicitation_v0
from taciturn.validation import Array


class Elicitation(ByHand):
    """A platform that announces payments, and individuals that choose how much noise they add to what they report."""

    cap, penalty, cost = 1e6, 1.0, 0.01

    def __init__(self, num_agents: int, horizon: int = 10) -> None:
        super().__init__(num_agents, horizon, "individual")
        self.individuals, self.possible_agents = self.possible_agents, ["platform_0", *self.possible_agents]
        self.population = elicitation_v0.population(1, num_individuals=num_agents, horizon=horizon)

    def begin(self, seed: int | None) -> None:
        self.population.reset(seed=seed)
        state = self.population.state
        self.theta, self.desired = state.theta[0].tolist(), float(state.desired[0])
        self.belief = dict(zip(self.individuals, state.belief[0], strict=True))
        self.data, self.luck, self.ties, self.peers = (
            numbers(seed, name) for name in ("data", "reports", "ties", "peers")
        )
        self.counts, self.past = [0] * len(self.theta), [0] * len(self.theta)
        self.paid, self.degenerate = 0.0, False
        scale = np.float32(2 * self.cost * self.desired)  # actions are in single precision
        self.announce(float(np.float32(self.desired)), float(scale), 0, 0)
        self.told = self.bound

    def announce(self, target: float, scale: float, rule: int, value: int) -> None:
        """The announcement, and Theorem 1's lower bound on the expected payment for that budget."""
        self.target, self.scale, self.rule, self.value = target, scale, rule, value
        values, most = len(self.theta), max(self.theta)
        price = 2 * self.cost * target * (target + values) * (target * most + 1)
        self.bound = price / (values * most - 1) if values * most > 1 else math.inf

    def reference(self) -> list[float]:
        total = sum(self.past) + len(self.past)
        return [(count + 1) / total for count in self.past]

    def observe(self, agent: str) -> Array:
        announced = [self.target, self.scale, self.rule, self.value]
        if agent == "platform_0":
            total, past = max(sum(self.counts), 1), max(sum(self.past), 1)
            return np.array(
                [
                    *announced,
                    self.desired,
                    *(count / total for count in self.counts),
                    sum(self.counts) / len(self.individuals),
                    self.paid / total,
                    self.degenerate,
                    *(count / past for count in self.past),
                    1 - self.time / self.horizon,
                ],
                np.float32,
            )
        reference = self.reference() if self.rule == 4 else [0.0] * len(self.past)
        return np.array([*announced, *reference, self.cost, *self.belief[agent]], np.float32)

    def inform(self, agent: str) -> dict[str, Any]:
        return {"lower_bound": self.told}

    def play(self, actions: dict[str, Any]) -> dict[str, float]:
        values, joined, reports = len(self.theta), [], {}
        steps = np.cumsum(self.theta)[:-1].tolist()
        for agent in self.individuals:
            budget, drawn = float(actions[agent][0]), self.data.random()
            held = sum(drawn >= step for step in steps)
            if budget >= 0:
                joined.append(agent)
                keeps = self.luck.random() < budget / (budget + values)
                reports[agent] = held if keeps else int(self.luck.random() * values)
        counts = [0] * values
        for report in reports.values():
            counts[report] += 1
        prizes, chances = self.judge(counts)
        rewards = dict.fromkeys(self.possible_agents, 0.0)
        self.paid = 0.0
        shortfall = self.desired * (len(self.individuals) - len(joined))
        for agent in joined:
            budget, report = float(actions[agent][0]), reports[agent]
            payment = prizes[report] if chances[report] >= 1 or self.peers.random() < chances[report] else 0.0
            self.paid += payment
            shortfall += max(self.desired - budget, 0)
            rewards[agent] = payment - self.cost * budget**2
        rewards["platform_0"] = -(self.paid + self.penalty * shortfall)
        self.counts, self.past = counts, [a + b for a, b in zip(self.past, counts, strict=True)]
        self.time += 1
        self.told = self.bound
        if not self.over():
            target, scale, rule, value = (float(a) for a in actions["platform_0"])
            self.announce(max(target, float(np.float32(0.01))), scale, min(int(rule), 4), min(int(value), values - 1))
        return rewards

    def judge(self, counts: list[int]) -> tuple[list[float], list[float]]:
        """The payment for each report, and its probability."""
        total, values, most = sum(counts), len(counts), max(counts)
        first = [k for k in range(values) if counts[k] == most]
        winner = first[int(self.ties.random() * len(first))] if len(first) > 1 else first[0]
        excess = values * most - total
        won = self.scale * (values + self.target) * self.target * total / excess if excess > 0 else 0.0
        self.degenerate = self.rule == 0 and excess <= 0
        chances = [1.0] * values
        if self.rule >= 3:
            chances = [min(max((count - 1) / max(total - 1, 1), 0), 1) for count in counts]
        if self.rule == 0:
            prizes = [won if k == winner else 0.0 for k in range(values)]
        elif self.rule == 2:
            prizes = [self.scale if k == self.value else 0.0 for k in range(values)]
        elif self.rule == 4:
            prizes = [self.scale / (values * share) for share in self.reference()]
        else:
            prizes = [self.scale] * values
        return [min(prize, self.cap) for prize in prizes], chances
