"""Agents for `federated_bandit_v0` that choose arms from public data, and use their own rewards only at the end."""

import math
from typing import Any

import numpy as np

from taciturn.envs.core import Array, Layout, PublicView, choice, integer, number
from taciturn.envs.federated_bandit.model import noise_of_sums
from taciturn.envs.federated_bandit.world import FederatedBandit
from taciturn.policies.base import Policy
from taciturn.policies.classic.bandits import highest_horizon_index
from taciturn.policies.classic.cooperative_bandits import divided
from taciturn.policies.families.trust_models import TRUST
from taciturn.privacy.mechanisms import Laplace
from taciturn.validation import Bools, Floats, Ints

MOST_BATCHES = 64
REWARD_VARIANCE = 1 / 6
"""Variance of a reward of 0 or 1, on average over means from 0 to 1."""
LEAST_VARIANCE = 0.03
"""Lower limit for the assumed variance of a reward: averages of 0 and 1 occur by chance, too."""
OWN_INDEX = 0.5
"""Both constants of the index that agents use when they act alone."""


class PublicPlan(Policy):
    """Thompson sampling by a plan that every agent knows, in growing batches, with uploads between them.

    In a batch all agents make the same pulls. Thompson sampling from the broadcast alone sets the number of pulls of
    each arm: the arms are the best ones of draws from the posterior, one draw for each `chunk` pulls. (Separate agents
    draw the same numbers from a shared seed.) After a batch all agents upload. So the schedule is public, each reward
    enters one mean, and a whole run costs an agent no more than one message. Because all agents have pulled the same,
    the server's unweighted average is the mean of all samples.

    With n pulls of an arm by each of m agents, and noise variance s(n_j) in the mean of the n_j pulls of batch j, the
    average has the variance

        v / (m n) + sum_j n_j^2 s(n_j) / (m n^2),

    where v is the variance of one reward. So it counts as m n v / (v + sum_j n_j^2 s(n_j) / n) pulls in a Beta
    posterior with a uniform prior. If one noise serves all agents (`trust_model`), s(n_j) is 1/m of the variance that
    each agent would need alone: m times the noise variance in the average of batch j.

    If uploads are lost, it still counts all m of them.

    No batch begins that would end after a share `until` of the run. From then on each agent acts alone: it adds its own
    pulls, which are exact, to the average of the others, by Thompson sampling (Thompson 1933).

    Args:
        first: pulls of each arm by each agent in the first batch.
        growth: growth factor of the length of batches, >= 1.
        chunk: pulls for each draw from the posterior.
        until: share of the run, in [0, 1].
        trust_model: the party that agents trust under a privacy budget: "local", none; "distributed", a secure sum of
            their uploads; "central", a curator who averages them.
    """

    public_schedule = True

    def __init__(
        self, first: int = 2, growth: float = 1.6, chunk: int = 1, until: float = 0.7, trust_model: str = "local"
    ) -> None:
        self.first = integer("first", first, at_least=1)
        self.growth = number("growth", growth, at_least=1, at_most=1e6)
        self.chunk = integer("chunk", chunk, at_least=1)
        self.until = number("until", until, at_least=0, at_most=1)
        self.trust_model = choice("trust_model", trust_model, TRUST)

    def begin(self, view: PublicView) -> None:
        fits = issubclass(view.world, FederatedBandit) and view.params.topology == "server"
        self.require(fits, "federated_bandit with topology='server'", view)
        role = view.roles[self.role]
        self._layout: Layout = role.layout
        self._agents, self._arms, self._horizon = role.num_agents, view.params.arms, int(view.horizon)
        self._mechanism: Any = view.channels["means"].mechanism
        self._averages = self._mechanism is not None and self._mechanism.averages
        self._start(np.ones(view.num_envs, np.bool_))

    def within(self, view: PublicView, epsilon_budget: float) -> dict[str, Any]:
        """All of `epsilon_budget` on each message or average, by Laplace noise, since each reward enters only one."""
        return {"means": TRUST[self.trust_model](epsilon_budget)}

    def _start(self, fresh: Bools) -> None:
        """Clear the runs of the replicas `fresh`."""
        if fresh.all():
            shape = (fresh.size, self._arms)
            self._left, self._pulls = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
            self._noise, self._length = np.zeros(shape), np.zeros(fresh.size)
            self._jointly = np.ones(fresh.size, np.bool_)
            self._uploaded = np.full((fresh.size, self._agents, self._arms), np.nan)
        for values in (self._left, self._pulls, self._noise, self._length):
            values[fresh] = 0
        self._jointly[fresh], self._uploaded[fresh] = True, np.nan

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        seen = self._layout.unpack(obs.astype(np.float64))
        time, broadcast = seen["time"][:, 0].astype(np.int64), seen["broadcast"][:, 0]
        if (time == 0).any():
            self._start(time == 0)
        begins = self._jointly & ~self._left.any(-1)
        if begins.any():
            self._next_batch(np.flatnonzero(begins), time, broadcast)
        shared = self._left.argmax(-1)
        arms = np.where(self._jointly[:, None], shared[:, None], 0) + np.zeros((1, self._agents), np.int64)
        uploads = self._jointly & (self._left.sum(-1) == 1)
        rows = np.flatnonzero(self._jointly)
        self._left[rows, shared[rows]] -= 1
        alone = np.flatnonzero(~self._jointly)
        if alone.size:
            arms[alone] = self._on_their_own({name: values[alone] for name, values in seen.items()}, alone)
        return arms + self._arms * uploads[:, None]

    def _next_batch(self, rows: Ints, time: Ints, broadcast: Floats) -> None:
        """Draw the pulls of the next batch of these replicas, or begin the time in which agents act alone."""
        for b in rows:
            length = self.first * self._arms if self._length[b] == 0 else int(np.ceil(self._length[b] * self.growth))
            if time[b] + length > self.until * self._horizon:
                self._jointly[b] = False
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
            self._noise[b] += noise_of_sums(self._mechanism, pulls, self._agents)

    @staticmethod
    def counted(agents: int, pulls: Ints, noise: Floats, means: Floats) -> Floats:
        """The number of pulls that an average counts as, [K]: m n v / (v + noise / n), 0 where there are none."""
        mean = np.clip(means, 0.05, 0.95)
        variance, n = mean * (1 - mean), np.maximum(pulls, 1)
        return np.where(pulls > 0, agents * pulls * variance / (variance + noise / n), 0.0)

    def _draw(self, means: Floats, counts: Floats, size: tuple[int, ...]) -> Floats:
        """Draws from the posteriors of means [..., K] that count as `counts` [..., K] pulls."""
        hits = counts * np.clip(means, 0, 1)
        return self.rng.beta(1 + hits, 1 + counts - hits, size)

    def _on_their_own(self, seen: dict[str, Array], rows: Ints) -> Ints:
        """The arms that agents acting alone pull, given all they know, [rows, M]."""
        others = self._agents - 1
        pulls, noise = self._pulls[rows, None], self._noise[rows, None]
        # The average without the agent's own uploads.
        mine = seen["private"]
        if self._averages:
            first = np.isnan(self._uploaded[rows]).any((1, 2))
            self._uploaded[rows[first]] = seen["means"][first]
            mine, noise = self._uploaded[rows], noise * self._agents / max(others, 1)
        means = (self._agents * seen["broadcast"] - mine) / max(others, 1)
        received = self.counted(others, pulls, noise, means)
        hits = received * np.clip(means, 0, 1) + seen["counts"] * seen["means"]
        counts = received + seen["counts"]
        return np.argmax(self.rng.beta(1 + hits, 1 + np.maximum(counts - hits, 0)), -1)


class DividedPlan(Policy):
    """A plan that every agent knows: each agent pulls one arm throughout a batch.

    The noise of a message does not shrink with the number of rewards in it, so a few agents with many pulls of an arm
    reveal more about it than many agents with a few. In each batch every agent pulls one arm, and then uploads. In the
    first batch the arms are dealt out evenly (an agent gets several if there are fewer agents than arms). Later the
    agents choose one after another by the index of `CentralisedKLUCB`, computed from the broadcasts alone; a choice of
    an arm counts for the pulls that its message will be worth. So the schedule is public, each reward enters one mean,
    and a whole run costs an agent no more than one message.

    Whoever has pulled an arm least pulls it next, and arms that few agents pull are assigned first. A report is the
    mean of all pulls of its sender, so a sender's first report is independent of all others. Later ones repeat its
    earlier noise, and an average over senders with unequal numbers of pulls loses information. Ties are broken by a
    permutation of the agents that follows from the number of the batch, so separate agents need no shared seed.

    In round r the m agents of a set S_r report an arm, and the average is

        b_r = (1/m) sum over i in S_r of ybar_ir,    ybar_ir = (rewards + noise of agent i so far) / n_ir,

    where n_ir is the number of the agent's pulls of it so far. For s <= r,

        Cov(b_r, b_s) = sum over i in S_r and S_s of (v n_is + z_is) / (m_r m_s n_ir n_is),

    with z_is the variance of the noise in the agent's sum, and v the variance of one reward. From these the best linear
    unbiased estimate of the arm's mean is x'b / x'1 with x = C^-1 1 (Aitken 1935); its precision, 1'C^-1 1, counts as
    v 1'C^-1 1 pulls. v is first 1/6, its mean under a uniform prior, then its value at the estimate.

    No batch begins that would end after a share `until` of the run. From then on each agent acts alone: it removes its
    own reports, which it knows, from the averages, estimates each mean from the rest, adds its own pulls, which
    are exact, and pulls by the index of `HorizonKLUCB`.

    An arm without any upload is left out of that round. If only some uploads are lost, it still counts all of them,
    since the environment does not report how many arrived. Late uploads mislead it: the environment reads them as means
    of their sender's later pulls. Lying agents mislead it too, since few agents report on each arm. In a `Mixture`,
    agents of other policies are not counted.

    Args:
        first: pulls of one arm by each agent in the first batch.
        growth: growth factor of the length of batches, >= 1.
        until: share of the run, in [0, 1].
        a, c: constants of the index that divides the arms among agents, > 0.
    """

    public_schedule = True

    def __init__(
        self,
        first: int = 1,
        growth: float = 1.25,
        until: float = 0.7,
        a: float = 0.6,
        c: float = 0.3,
    ) -> None:
        self.first = integer("first", first, at_least=1)
        self.growth = number("growth", growth, at_least=1, at_most=1e6)
        self.until = number("until", until, at_least=0, at_most=1)
        self.a, self.c = number("a", a, above=0), number("c", c, above=0)

    def begin(self, view: PublicView) -> None:
        mechanism: Any = view.channels["means"].mechanism
        fits = issubclass(view.world, FederatedBandit) and view.params.topology == "server"
        single = mechanism is None or not mechanism.averages
        self.require(fits and single, "federated_bandit with topology='server' and noise on each upload", view)
        role = view.roles[self.role]
        self._layout: Layout = role.layout
        self._arms, self._horizon = view.params.arms, int(view.horizon)
        self._mechanism = mechanism
        self._envs, self._agents = view.num_envs, 0

    def within(self, view: PublicView, epsilon_budget: float) -> dict[str, Any]:
        """All of `epsilon_budget` on each message, by Laplace noise, since each reward enters only one."""
        return {"means": Laplace(epsilon_budget)}

    def lengths(self) -> list[int]:
        """Lengths of the batches; the first batch is played once for each of an agent's arms in it."""
        result, length, end = list[int](), self.first, self.first * self._stints
        while end <= self.until * self._horizon and len(result) < MOST_BATCHES:
            result.append(length)
            length = math.ceil(length * self.growth)
            end += length
        return result

    def _start(self, agents: int) -> None:
        """Prepare for `agents` agents: the ends of the batches, and arrays for messages and estimates."""
        self._agents, self._stints = agents, -(-self._arms // agents)
        self._lengths = self.lengths()
        first = self._first = self._lengths[0] if self._lengths else 1
        self._ends = (np.cumsum(self._lengths, dtype=np.int64) + first * (self._stints - 1)).tolist()
        batches = max(len(self._ends), 1)
        each, whole = (self._envs, self._arms, agents), (self._envs, self._arms, batches, agents)
        self._pulls, self._noise = np.zeros(each), np.zeros(each)  # by each agent so far; noise variance in their sum
        self._known, self._spread, self._sent = np.zeros(whole), np.zeros(whole), np.zeros(whole)
        self._received, self._senders = np.zeros(whole[:3]), np.zeros(whole[:3])
        self._plan = np.zeros((self._envs, self._stints, agents), np.int64)
        self._others = np.zeros((2, self._envs, agents, self._arms))  # hits and counts received from others

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        if obs.shape[1] != self._agents:
            self._start(obs.shape[1])
        parts = self._layout.slices
        seen = {name: obs[..., part].astype(np.float64) for name, part in parts.items()}
        time = seen["time"][:, 0, 0].astype(np.int64)
        ends = np.asarray(self._ends, np.int64)
        batch = np.searchsorted(ends, time, side="right")
        began = np.append(0, ends)[batch]
        for now in np.unique(batch[time == began]).tolist():
            rows = np.flatnonzero((batch == now) & (time == began))
            if now == 0:
                for values in (self._pulls, self._noise):
                    values[rows] = 0
            else:
                self._receive(rows, now - 1, {name: values[rows] for name, values in seen.items()})
            if now < ends.size:
                self._next_batch(rows, now, int(time[rows[0]]))
            else:
                self._part(rows, now)
        together = batch < ends.size
        arms = np.zeros(obs.shape[:2], np.int64)
        stint = np.where(batch == 0, time // self._first, 0)
        rows = np.flatnonzero(together)
        arms[rows] = self._plan[rows, stint[rows]]
        uploads = together & np.isin(time + 1, ends)
        if (alone := np.flatnonzero(~together)).size:
            counts = seen["counts"][alone]
            hits, received = self._others[:, alone]
            sums, left = hits + np.rint(counts * seen["means"][alone]), self._horizon - time[alone, None, None]
            arms[alone] = self._own_choice(received + counts, sums, left)
        return arms + self._arms * uploads[:, None]

    def _divide(self, counts: Floats, hits: Floats, left: Array, worth: Floats | float) -> Ints:
        """The arms that the agents pull in a batch, [rows, M], given known counts and hits [rows, K] and the pulls
        `left` to all [rows, 1]; an agent's message counts as `worth` pulls."""
        return divided(counts, hits, left, self._agents, self.a, self.c, worth)

    def _own_choice(self, counts: Floats, hits: Floats, left: Array) -> Ints:
        """The arms that agents acting alone pull, [rows, M], given all they know [rows, M, K]."""
        return highest_horizon_index(counts, hits, left, OWN_INDEX, OWN_INDEX)

    def _next_batch(self, rows: Ints, batch: int, time: int) -> None:
        """Divide the arms of a batch among the agents in these replicas, and record the agents' future reports."""
        length = self._lengths[batch]
        noise = float(noise_of_sums(self._mechanism, np.array(length)))
        if batch == 0:
            turn = np.arange(self._stints)[:, None] * self._agents + np.arange(self._agents)
            plan = np.broadcast_to(turn % self._arms, (rows.size, *turn.shape))
        else:
            hits, counts = self._estimate(rows, batch)
            worth, left = length * REWARD_VARIANCE / (REWARD_VARIANCE + noise / length), self._horizon - time
            chosen = self._divide(counts, hits, np.full((rows.size, 1), left * self._agents), worth)
            order = np.random.default_rng(batch).permutation(self._agents)
            plan = np.repeat(least_pulled(chosen, self._pulls[rows], order)[:, None], self._stints, axis=1)
        self._plan[rows] = plan
        turns = (plan[..., None] == np.arange(self._arms)).astype(np.float64)  # [rows, stints, M, K]
        mine = turns.sum(1) if batch == 0 else turns[:, 0]
        mine = np.swapaxes(mine, 1, 2)
        self._pulls[rows] += mine * length
        self._noise[rows] += np.where(mine > 0, noise, 0.0)
        reported = mine > 0
        self._known[rows, :, batch] = np.where(reported, self._pulls[rows], 0.0)
        self._spread[rows, :, batch] = np.where(reported, self._noise[rows], 0.0)
        self._senders[rows, :, batch] = reported.sum(-1)

    def _receive(self, rows: Ints, batch: int, seen: dict[str, Array]) -> None:
        """Record the averages of a batch, and each agent's own reports."""
        self._received[rows, :, batch] = seen["broadcast"][:, 0]
        self._sent[rows, :, batch] = np.swapaxes(seen["private"], 1, 2)
        self._senders[rows, :, batch] *= seen["active"][:, 0] > 0

    def _estimate(self, rows: Ints, batches: int, me: int | None = None) -> tuple[Floats, Floats]:
        """The information of `batches` batches about the arms, as hits and pulls, [rows, K]; `me` excludes an agent's
        own reports."""
        senders, known = self._senders[rows, :, :batches], self._known[rows, :, :batches]
        there = (known > 0) & (senders > 0)[..., None]
        share = np.where(there, 1 / (np.maximum(known, 1) * np.maximum(senders, 1)[..., None]), 0.0)
        received_sums, weight = self._received[rows, :, :batches] * (senders > 0), (senders > 0).astype(np.float64)
        if me is not None:
            mine = np.where(there[..., me], 1 / np.maximum(senders, 1), 0.0)
            received_sums, weight = received_sums - mine * self._sent[rows, :, :batches, me], weight - mine
            share[..., me] = 0.0
            weight = np.where(share.any(-1), weight, 0.0)
        of_rewards = covariance(share, known)
        of_noise = covariance(share, self._spread[rows, :, :batches])
        silent = np.eye(batches) * np.where(share.any(-1), 0.0, 1.0)[..., None]
        variance = np.full(senders.shape[:2], REWARD_VARIANCE)
        for _ in range(2):
            total = variance[..., None, None] * of_rewards + of_noise + silent
            x = np.linalg.solve(total * (1 + 1e-9 * np.eye(batches)), weight[..., None])[..., 0]
            precision = np.maximum((x * weight).sum(-1), 0.0)
            mean = np.clip((x * received_sums).sum(-1) / np.where(precision > 0, precision, 1.0), 0.0, 1.0)
            counts = precision * variance
            shrunk = (1 + counts * mean) / (2 + counts)
            variance = np.maximum(shrunk * (1 - shrunk), LEAST_VARIANCE)
        return counts * mean, counts

    def _part(self, rows: Ints, batches: int) -> None:
        """Each agent estimates the means from the others' reports."""
        if batches == 0:
            self._others[:, rows] = 0.0
            return
        for me in range(self._agents):
            self._others[0, rows, me], self._others[1, rows, me] = self._estimate(rows, batches, me)


def least_pulled(chosen: Ints, pulls: Floats, order: Ints) -> Ints:
    """The arm of each agent, [R, M], where `chosen` [R, M] says how many agents each arm gets.

    Arms that the fewest agents pull are assigned first, each to those who have pulled it least; `pulls` is [R, K, M],
    and `order` breaks ties.
    """
    needed = (chosen[..., None] == np.arange(pulls.shape[1])).sum(1)
    tie, rows, found = np.argsort(order) / order.size, np.arange(len(chosen)), np.full(chosen.shape, -1)
    for arms in np.argsort(needed, axis=1, kind="stable").T:
        before = np.where(found < 0, pulls[rows, arms] + tie, np.inf)
        place = np.argsort(np.argsort(before, axis=1, kind="stable"), axis=1, kind="stable")
        found = np.where(place < needed[rows, arms][:, None], arms[:, None], found)
    return found


def covariance(share: Floats, spread: Floats) -> Floats:
    """Covariance of averages over rounds, [..., R, R], given the weight of each agent's sum in each average, `share`
    [..., R, M], and the variance of that sum so far, `spread` [..., R, M], which only grows."""
    below = np.tril(share @ np.swapaxes(share * spread, -1, -2))
    return below + np.swapaxes(np.tril(below, -1), -1, -2)
