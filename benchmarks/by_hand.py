"""The worlds as one would write them for PettingZoo without this package: a dict an agent, a loop over agents.

Each has the observations, rewards and regret (in elicitation: the bound on payments) of the world's Parallel form under
its defaults, without noise on the channels, privacy accounting, masks or checks of arguments. Random numbers come from
the streams that the package uses, one at a time, so that the same seed gives the same run; only the same law in the
social bandit, where the package draws counts of copies, and in arm elimination, where NumPy draws sums of rewards in
another way. `tests/test_by_hand.py` checks this. The recommender's catalogue, and theta and beliefs in elicitation, are
drawn by the package.

Round stopping and federated training are not here: they have one agent, whatever the number of clients.
"""

import math
import zlib
from typing import Any

import numpy as np
import pettingzoo

from taciturn.envs import elicitation_v0, recommender_v0
from taciturn.envs.core import Array, Streams
from taciturn.envs.core.counter_streams import sources_of
from taciturn.envs.recommender import rewards as mean_rewards
from taciturn.envs.recommender import world as shop
from taciturn.envs.recommender.geometry import DEPTH

Dicts = tuple[dict[str, Array], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]


def numbers(seed: int | None, name: str) -> np.random.Generator:
    """Uniform numbers as a compiled world draws them from its source of that name, in its first replica."""
    key = sources_of(Streams(seed).entropy, "", (name,), np.arange(1))[0, 0, :2]
    return np.random.Generator(np.random.Philox(key=key))


class ByHand(pettingzoo.ParallelEnv[str, Array, Any]):  # type: ignore[misc] # PettingZoo has no types
    """What all of them share: names, and the dicts that a step returns."""

    metadata = {"name": "by_hand"}  # noqa: RUF012 - as PettingZoo has it

    def __init__(self, num_agents: int, horizon: float, name: str = "agent") -> None:
        self.horizon = horizon
        self.possible_agents = [f"{name}_{i}" for i in range(num_agents)]

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, Array], dict[str, Any]]:
        self.agents = list(self.possible_agents)
        self.time = 0.0
        self.begin(seed)
        return {agent: self.observe(agent) for agent in self.agents}, {
            agent: self.inform(agent) for agent in self.agents
        }

    def step(self, actions: dict[str, Any]) -> Dicts:
        rewards = self.play(actions)
        over = self.over()
        observations = {agent: self.observe(agent) for agent in self.agents}
        infos = {agent: self.inform(agent) for agent in self.agents}
        terminations, truncations = dict.fromkeys(self.agents, False), dict.fromkeys(self.agents, over)
        if over:
            self.agents = []
        return observations, rewards, terminations, truncations, infos

    def begin(self, seed: int | None) -> None:
        raise NotImplementedError

    def play(self, actions: dict[str, Any]) -> dict[str, float]:
        raise NotImplementedError

    def observe(self, agent: str) -> Array:
        raise NotImplementedError

    def inform(self, agent: str) -> dict[str, Any]:
        return {"regret": self.regret}

    def over(self) -> bool:
        return self.time >= self.horizon

    regret = 0.0


def luck(seed: int | None, name: str) -> np.random.Generator:
    """The random numbers of that name, of the first replica, in a world that is written for one: NumPy's Philox draws
    the same."""
    key = np.random.SeedSequence(seed, spawn_key=(zlib.crc32(name.encode()),)).generate_state(1, np.uint64)[0]
    return np.random.Generator(np.random.Philox(key=np.array([key, 0], np.uint64)))


class GossipBandit(ByHand):
    """Agents that ask all others when their clocks tick."""

    def __init__(self, num_agents: int, horizon: float = 50.0, num_options: int = 4) -> None:
        super().__init__(num_agents, horizon)
        self.options = num_options

    def begin(self, seed: int | None) -> None:
        self.quality = luck(seed, "qualities").random(self.options).tolist()
        self.clock, self.luck = luck(seed, "clock"), luck(seed, "pulls")
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


class SocialBandit(ByHand):
    """Agents that spread copies of their preferences to random ones, and adopt by common signals."""

    def __init__(self, num_agents: int, horizon: int = 500, num_options: int = 5, copies: int = 50) -> None:
        super().__init__(num_agents, horizon)
        self.options, self.copies = num_options, copies

    def begin(self, seed: int | None) -> None:
        streams = Streams(seed)
        self.eta = streams["qualities"].random(self.options)
        self.signals, self.walks = streams["signals"], streams["dissemination"]
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
        """A round: those that upload send the mean of every arm that was pulled since the last one, and all learn the
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
    """The same federation, seen by its coordinator, the only agent; the `members` are played by a loop."""

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
        """The averages over those that uploaded of what they added in this epoch."""
        summed, known = np.zeros(self.arms), np.zeros(self.arms)
        for agent, (weight, total) in before.items():
            pulls = self.weight[agent] - weight
            added = (self.weight[agent] * self.private[agent] - total) / np.maximum(pulls, 1)
            summed += np.where(pulls > 0, added, 0)
            known += pulls > 0
        return np.where(known > 0, summed / np.maximum(known, 1), self.broadcast)


class Recommender(ByHand):
    """Providers on a star that show items to users, and may ask for their neighbours' statistics.

    Regret is against the best item that a provider has, and to find it takes most of the time; `tells_regret` may be
    False.
    """

    clusters, cells = 8, 4

    def __init__(self, num_agents: int, horizon: int = 20_000, tells_regret: bool = True, **params: Any) -> None:
        super().__init__(num_agents, horizon)
        self.tells_regret = tells_regret
        self.population = recommender_v0.population(1, num_agents=num_agents, horizon=horizon, **params)

    def begin(self, seed: int | None) -> None:
        self.population.reset(seed=seed)
        state, streams = self.population.state, Streams(seed)
        self.items = state.items[0]
        self.cluster = (state.codes[0] >> (DEPTH - 3)).tolist()
        self.own = {
            agent: set(np.flatnonzero(have).tolist()) for agent, have in zip(self.agents, state.active[0], strict=True)
        }
        self.features = {agent: self.items[sorted(self.own[agent])] for agent in self.agents}
        self.weights, self.turn, self.phase = state.weights[0], state.directions[0, 0], state.phases[0, 0]
        self.centres, self.luck = state.centres[0], streams["rewards"]
        self.which, self.noise, self.anywhere = (streams[f"contexts{part}"] for part in ("", "/normal", "/uniform"))
        self.context = {agent: self.draw_context() for agent in self.agents}
        hub, *leaves = self.agents
        self.neighbours = {hub: leaves} | {leaf: [hub] for leaf in leaves}
        self.counts, self.sums = (
            {agent: np.zeros((self.cells, self.clusters)) for agent in self.agents} for _ in range(2)
        )
        self.answer: dict[str, tuple[Array, Array] | None] = dict.fromkeys(self.agents)
        self.mu, self.regrets = dict.fromkeys(self.agents, 0.0), dict.fromkeys(self.agents, 0.0)

    def draw_context(self) -> Array:
        which, anywhere = self.which.random(), self.anywhere.random(self.centres.shape[1])
        noise, uniform = self.noise.standard_normal(self.centres.shape[1]), shop.CONTEXT_UNIFORM
        if which >= uniform:
            centre = self.centres[int((which - uniform) / (1 - uniform) * len(self.centres))]
            anywhere = centre + shop.CONTEXT_SPREAD * noise
        return np.clip(anywhere, 0, 1).astype(np.float32).astype(np.float64)

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
        return told | {"regret": self.regrets[agent]} if self.tells_regret else told

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
            if self.tells_regret:
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
            luck(seed, name) for name in ("data", "reports", "ties", "peers")
        )
        self.counts, self.past = [0] * len(self.theta), [0] * len(self.theta)
        self.paid, self.degenerate = 0.0, False
        scale = np.float32(2 * self.cost * self.desired)  # actions are in single precision
        self.announce(float(np.float32(self.desired)), float(scale), 0, 0)
        self.told = self.bound

    def announce(self, target: float, scale: float, rule: int, value: int) -> None:
        """The announcement, and the least that any rule pays in expectation for such a budget."""
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
        """What each report is paid, and with which chance."""
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


WORLDS: dict[str, type[ByHand]] = {
    "gossip_bandit_v0": GossipBandit, "social_bandit_v0": SocialBandit, "federated_bandit_v0": FederatedBandit,
    "arm_elimination_v0": ArmElimination, "recommender_v0": Recommender, "elicitation_v0": Elicitation,
}  # fmt: skip
