"""Stopping rules that know when the session ends: the plan of the largest expected reward, that of a server that cannot
see updates, and a plan for training. A rule of the best long-run rate, such as `OptimalStopping`, closes its last round
as if another one followed, and then has no time for it."""

import numpy as np

from taciturn.envs.core import Array, choice, integer, number
from taciturn.envs.round_stopping.model import Model, binomial_rows
from taciturn.envs.round_stopping.world import STOP, WAIT
from taciturn.policies.families.round_stopping import StoppingRule
from taciturn.validation import Bools, Floats, Ints

MOST = 4e9  # entries of a plan, which are bits
TIES = 1e-12  # relative; waiting must be worth more than this


class SessionRule(StoppingRule):
    """Base of rules for geometric times that use the time left, in whole slots; see `decide`.

    Attributes:
        broadcast, horizon: the slots of a broadcast (rounded up to a whole number) and of the session.
    """

    def prepare(self, model: Model) -> None:
        choice("time_distribution", getattr(model, "time_distribution", "geometric"), ("geometric",))
        self.broadcast = int(np.ceil(model.broadcast_time / model.slot_time - 1e-9))
        self.horizon = int(model.horizon / model.slot_time + 1e-9)  # type: ignore[attr-defined]
        self._slot_time = model.slot_time
        self.plan(model)

    def plan(self, model: Model) -> None:
        """Plan for the session."""
        raise NotImplementedError

    def decide(self, received: Ints, queued: Ints, slots: Ints, left: Ints) -> Bools:
        """True where the rule waits with k updates `received` and beta `queued`, after `slots` slots of the round and
        with `left` slots left of the session; all have one shape."""
        raise NotImplementedError

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        received, queued, slots = self.seen(obs)
        time = self._layout.unpack(obs)["time_left"].astype(np.float64)
        left = np.floor(time / self._slot_time + 1e-2).astype(np.int64)  # 1e-2: observations are rounded
        return np.where(
            self.decide(received, queued, slots.astype(np.int64), np.minimum(left, self.horizon)), WAIT, STOP
        )

    def waits(self, received: Ints, queued: Ints, slots: Array) -> Bools:
        """True where the rule waits in the first round of the session."""
        past = slots.astype(np.int64)
        return self.decide(received, queued, past, np.maximum(self.horizon - past, 0))


def completions(model: Model) -> Floats:
    """P(d clients finish in a slot | s have finished), float64[D, M + 1]: Binomial(M - s, p) (section 3.1 of Jiang
    2020), without numbers d that are nowhere likelier than 1e-16."""
    computing = model.num_clients - np.arange(model.num_clients + 1)
    chances = binomial_rows(computing, model.compute_probability, model.num_clients).T
    chances[chances < 1e-16] = 0.0
    return chances[: np.flatnonzero(chances.any(1))[-1] + 1]


class FiniteHorizonStopping(SessionRule):
    """The rule with the largest expected reward of a session, by dynamic programming over the time left.

    With t slots left, k updates received and s computed (received or queued), the value is

        V_t(k, s) = max{ R(k) + V_{t-b}(0, 0) if t >= b, E V_{t-1}(k', s') },

    where b slots are a broadcast, s' - s is Binomial(M - s, p), and k' = k + 1 with probability mu if s > k (section
    3.1 of Jiang 2020). A server with k = M must stop. Ties stop. The plan of `taciturn/RoundStopping-v0` takes about
    1 s and 13 MB.

    Attributes:
        value: float64[T + 1], the expected reward of the rest of the session at the start of a round with t slots left.

    Raises:
        ValueError: the plan would have more than 4e9 entries (500 MB), or times are not geometric.
    """

    def plan(self, model: Model) -> None:
        clients, b = model.num_clients, self.broadcast
        number("horizon / slot_time (num_clients + 1)^2", (self.horizon + 1) * (clients + 1.0) ** 2, at_most=MOST)
        chances, now = completions(model), np.zeros((clients + 1, clients + 1))  # values by s and k
        s, k = np.indices(now.shape)
        upload, may_wait = np.where(s > k, model.upload_probability, 0.0), (s >= k) & (k < clients)
        ties = TIES * np.abs(model.rewards).max()
        self.value = np.zeros(self.horizon + 1)
        self._waiting = np.zeros((self.horizon + 1, (now.size + 7) // 8), np.uint8)  # a bit for each (s, k)
        for t in range(1, self.horizon + 1):
            after = chances[0][:, None] * now  # matrix products would start threads
            for d in range(1, len(chances)):
                after[:-d] += chances[d, :-d, None] * now[d:]
            wait = (1 - upload) * after
            wait[:, :-1] += upload[:, :-1] * after[:, 1:]
            close = self.rewards(model, t - b) + self.value[t - b] if t >= b else np.zeros(clients + 1)
            waits = may_wait & (wait > close + ties)
            now = np.where(waits, wait, close)
            self._waiting[t], self.value[t] = np.packbits(waits), now[0, 0]
        self._width = clients + 1

    def rewards(self, model: Model, left: int) -> Floats:
        """R(0..M) for a round that closes with `left` slots left after its broadcast."""
        return model.rewards

    def decide(self, received: Ints, queued: Ints, slots: Ints, left: Ints) -> Bools:
        place = np.minimum(received + queued, self._width - 1) * self._width + received
        waits: Bools = (self._waiting[left, place // 8] >> (7 - place % 8).astype(np.uint8) & 1).astype(np.bool_)
        return waits


class PlannedTraining(FiniteHorizonStopping):
    """The plan of a training session, under a model of its progress: an average of k updates makes the progress 1 - v /
    k, where v is the variance of an update relative to the progress of an average over all clients.

    Early in training the updates of clients agree. Near the end, the clients' data differ more than the model from its
    limit: v = `variance` exp(-`decay` r), for the r broadcasts that fit into the time left.

    Args:
        variance: v at the end of the session, >= 0.
        decay: >= 0.
    """

    def __init__(self, variance: float = 0.4, decay: float = 0.3) -> None:
        self.variance = number("variance", variance, at_least=0)
        self.decay = number("decay", decay, at_least=0)

    def rewards(self, model: Model, left: int) -> Floats:
        v = self.variance * np.exp(-self.decay * left / self.broadcast)
        return np.concatenate([[0.0], 1 - v / np.arange(1, model.num_clients + 1)])


class BestDeadline(SessionRule):
    """The best rule that sees the time left but no updates: it stops each round after a number of slots that depends
    only on the time left when the round begins, or once all updates have been received.

    With t slots left, the value of a new round is V_t = max_n E[R(K) + V_{t-N-b}], where the round ends after N <= n
    slots with K updates, and b slots are a broadcast. Under Pareto times use `Deadline`.

    Args:
        most: the largest number of slots tried.

    Attributes:
        deadlines: int[T + 1], the best number of slots for each number of slots left, after `reset`.
        value: float64[T + 1], the expected reward of the rest of the session.
    """

    def __init__(self, most: int = 1000) -> None:
        self.most = integer("most", most, at_least=0, at_most=10**6)

    def plan(self, model: Model) -> None:
        reward, complete = deadline_rewards(model, self.most)
        goes_on, last = 1 - np.cumsum(complete), model.rewards[-1]
        self.value, self.deadlines = np.zeros(self.horizon + 1), np.zeros(self.horizon + 1, np.int64)
        for t in range(self.broadcast, self.horizon + 1):
            end = t - self.broadcast
            after = self.value[max(end - self.most, 0) : end + 1][::-1]  # a round of 0, 1, .. slots leaves this value
            n = len(after)
            worth = reward[:n] + goes_on[:n] * after + np.cumsum(complete[:n] * (last + after))
            # Rounds of different lengths may come in any order, so several deadlines are equally good: the shortest.
            self.value[t] = worth.max()
            self.deadlines[t] = np.argmax(worth >= self.value[t] - 1e-9 * abs(self.value[t]))

    def decide(self, received: Ints, queued: Ints, slots: Ints, left: Ints) -> Bools:
        waits: Bools = slots < self.deadlines[np.minimum(left + slots, self.horizon)]
        return waits


def deadline_rewards(model: Model, most: int) -> tuple[Floats, Floats]:
    """The rounds that stop after n slots, n = 0..most, or once all updates have been received: E[R(K_n); K_n < M] for
    the K_n updates received by then, and P(the last update is received in slot n), float64[most + 1] each.

    The distribution of (k, s) is propagated from slot to slot.
    """
    clients, chances = model.num_clients, completions(model)
    distribution = np.zeros((clients + 1, clients + 1))  # by s and k
    distribution[0, 0] = 1.0
    s, k = np.indices(distribution.shape)
    upload = np.where(s > k, model.upload_probability, 0.0)
    reward, complete = np.zeros(most + 1), np.zeros(most + 1)
    for n in range(most + 1):
        received = distribution.sum(0)
        reward[n], complete[n] = received[:clients] @ model.rewards[:clients], received[clients]
        distribution[:, clients] = 0.0
        uploaded = upload * distribution
        distribution -= uploaded
        distribution[:, 1:] += uploaded[:, :-1]
        distribution[distribution < 1e-200] = 0.0  # arithmetic with denormal numbers is slow
        before, distribution = distribution, chances[0][:, None] * distribution
        for d in range(1, len(chances)):
            distribution[d:] += chances[d, :-d, None] * before[:-d]
    return reward, complete
