"""An agent for `federated_bandit_v0` that pulls what is public, and uses what is its own last."""

from typing import Any

import numpy as np

from taciturn.envs.core import Array, Layout, PublicView, integer, number
from taciturn.envs.federated_bandit.world import FederatedBandit
from taciturn.policies.base import Policy
from taciturn.validation import Bools, Floats, Ints


class PublicPlan(Policy):
    """Thompson sampling by a plan that everybody knows, in batches that grow, with uploads between them.

    All agents pull each arm equally often in a batch. How often is drawn by Thompson sampling from the broadcast alone:
    the arms are the best ones of draws from the posterior, one draw for each `chunk` pulls. (Agents that are apart draw
    the same with a seed that all know.) After a batch all agents upload. So the schedule is public, each reward enters
    one mean, and a whole run costs an agent no more than one message. Because all agents have pulled the same, the
    server's unweighted average is the mean of all samples.

    Of n pulls of an arm by each of m agents, with noise of variance s(n_j) in the mean of the n_j pulls of batch j, the
    average has the variance

        v / (m n) + sum_j n_j^2 s(n_j) / (m n^2),

    where v is the variance of one reward. So it counts as m n v / (v + sum_j n_j^2 s(n_j) / n) pulls in a Beta
    posterior with a uniform prior.

    Where uploads are lost, it still counts all m of them.

    No batch begins that would end after a share `until` of the run. From then on each agent is on its own: it adds its
    own pulls, which are exact, to the average of the others, by Thompson sampling (Thompson 1933).

    Args:
        first: pulls of each arm by each agent in the first batch.
        growth: of the length of batches, >= 1.
        chunk: pulls for each draw from the posterior.
        until: share of the run, in [0, 1].
    """

    public_schedule = True

    def __init__(self, first: int = 2, growth: float = 1.6, chunk: int = 1, until: float = 0.7) -> None:
        self.first = integer("first", first, at_least=1)
        self.growth = number("growth", growth, at_least=1, at_most=1e6)
        self.chunk = integer("chunk", chunk, at_least=1)
        self.until = number("until", until, at_least=0, at_most=1)

    def begin(self, view: PublicView) -> None:
        fits = issubclass(view.world, FederatedBandit) and view.params.topology == "server"
        self.require(fits, "federated_bandit with topology='server'", view)
        (role,) = view.roles.values()
        self._layout: Layout = role.layout
        self._agents, self._arms, self._horizon = role.num_agents, view.params.arms, int(view.horizon)
        self._mechanism: Any = view.channels["means"].mechanism
        self._start(np.ones(view.num_envs, np.bool_))

    def _start(self, fresh: Bools) -> None:
        """Forget the runs of the replicas that `fresh` marks."""
        if fresh.all():
            shape = (fresh.size, self._arms)
            self._left, self._pulls = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
            self._noise, self._length = np.zeros(shape), np.zeros(fresh.size)
            self._together = np.ones(fresh.size, np.bool_)
        for values in (self._left, self._pulls, self._noise, self._length):
            values[fresh] = 0
        self._together[fresh] = True

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        seen = self._layout.unpack(obs.astype(np.float64))
        time, broadcast = seen["time"][:, 0].astype(np.int64), seen["broadcast"][:, 0]
        if (time == 0).any():
            self._start(time == 0)
        begins = self._together & ~self._left.any(-1)
        if begins.any():
            self._next_batch(np.flatnonzero(begins), time, broadcast)
        shared = self._left.argmax(-1)
        arms = np.where(self._together[:, None], shared[:, None], 0) + np.zeros((1, self._agents), np.int64)
        uploads = self._together & (self._left.sum(-1) == 1)
        rows = np.flatnonzero(self._together)
        self._left[rows, shared[rows]] -= 1
        alone = np.flatnonzero(~self._together)
        if alone.size:
            arms[alone] = self._on_their_own({name: values[alone] for name, values in seen.items()}, alone)
        return arms + self._arms * uploads[:, None]

    def _next_batch(self, rows: Ints, time: Ints, broadcast: Floats) -> None:
        """Draw the pulls of the next batch of these replicas, or begin the time in which agents are on their own."""
        for b in rows:
            length = self.first * self._arms if self._length[b] == 0 else int(np.ceil(self._length[b] * self.growth))
            if time[b] + length > self.until * self._horizon:
                self._together[b] = False
                continue
            if self._length[b] == 0:
                pulls = np.full(self._arms, self.first)
            else:
                draws = max(1, round(length / self.chunk))
                means, counts = broadcast[b], self.counted(self._agents, self._pulls[b], self._noise[b], broadcast[b])
                best = np.argmax(self._draw(means, counts, (draws, self._arms)), -1)
                pulls = np.bincount(best, minlength=self._arms) * self.chunk
            self._left[b], self._length[b] = pulls, length
            self._pulls[b] += pulls
            self._noise[b] += self._noise_of(pulls)

    def _noise_of(self, pulls: Ints) -> Floats:
        """n^2 s(n), the variance of the noise in a sum of n rewards, [K]; 0 where n is 0."""
        if self._mechanism is None or self._mechanism.kind == "none":
            return np.zeros(pulls.shape)
        n = np.maximum(pulls, 1)
        return np.where(pulls > 0, n**2 * self._mechanism.variance(np.full(n.shape, 0.5), 1.0 / n), 0.0)

    @staticmethod
    def counted(agents: int, pulls: Ints, noise: Floats, means: Floats) -> Floats:
        """As how many pulls an average counts, [K]: m n v / (v + noise / n), 0 where there are none."""
        mean = np.clip(means, 0.05, 0.95)
        variance, n = mean * (1 - mean), np.maximum(pulls, 1)
        return np.where(pulls > 0, agents * pulls * variance / (variance + noise / n), 0.0)

    def _draw(self, means: Floats, counts: Floats, size: tuple[int, ...]) -> Floats:
        """Draws from the posteriors of means [..., K] that count as `counts` [..., K] pulls."""
        hits = counts * np.clip(means, 0, 1)
        return self.rng.beta(1 + hits, 1 + counts - hits, size)

    def _on_their_own(self, seen: dict[str, Array], rows: Ints) -> Ints:
        """The arms that agents pull by all they know, [rows, M]."""
        others = self._agents - 1
        pulls, noise = self._pulls[rows, None], self._noise[rows, None]
        # The average without what the agent itself has uploaded.
        means = (self._agents * seen["broadcast"] - seen["private"]) / max(others, 1)
        heard = self.counted(others, pulls, noise, means)
        hits = heard * np.clip(means, 0, 1) + seen["counts"] * seen["means"]
        counts = heard + seen["counts"]
        return np.argmax(self.rng.beta(1 + hits, 1 + np.maximum(counts - hits, 0)), -1)
