"""Differentially private arm elimination for `federated_bandit_v0`: an agent's pulls depend on its rewards only through
noisy means.

One reward of one agent is protected (event level), against an observer of all pulls. The policies add the noise
themselves: nothing is sent over a channel, and the accountant records nothing. Each agent acts independently, with one
arm per slot; ties go to the first arm. Arrays are [B, M, K]. A replica with no pulls so far is treated as a new run.

`trust` names the party that agents trust with their rewards: "central", a curator; "shuffle", a shuffler;
"distributed", a secure sum; "local", none.
"""

from typing import ClassVar, NamedTuple

import numpy as np

from taciturn.envs.core import number
from taciturn.envs.federated_bandit.fast import AgentKnowledge
from taciturn.policies.classic.bandits import ArmPolicy
from taciturn.validation import Array, Bools, Floats, Ints


class Epoch(NamedTuple):
    """An epoch of private elimination: pulls of each active arm, then elimination of arms below the best noisy mean."""

    pulls: Ints  # pulls of each active arm
    threshold: Floats  # distance below the best mean


def dp_elimination_epoch(epoch: Ints, active: Ints, epsilon: float, beta: float) -> Epoch:
    """Epoch e with |S| active arms (Sajed & Sheffet 2019, Algorithm 2), for e and |S| of the same shape.

    R_e = max(32 ln(8 |S| e^2 / beta) / D^2, 8 ln(4 |S| e^2 / beta) / (epsilon D)) + 1 with D = 2^-e, rounded up;
    h_e = sqrt(ln(8 |S| e^2 / beta) / (2 R_e)) and c_e = ln(4 |S| e^2 / beta) / (epsilon R_e).
    The threshold is 2 h_e + 2 c_e.
    """
    gap = 0.5**epoch
    sampling, noise = np.log(8 * active * epoch**2 / beta), np.log(4 * active * epoch**2 / beta)
    pulls = np.ceil(np.maximum(32 * sampling / gap**2, 8 * noise / (epsilon * gap)) + 1).astype(np.int64)
    return Epoch(pulls, 2 * np.sqrt(sampling / (2 * pulls)) + 2 * noise / (epsilon * pulls))


class PrivateElimination(ArmPolicy):
    """Base of elimination in epochs by noisy means over the current epoch only; each reward enters one mean.

    Active arms are pulled in turn. At the end of an epoch, arms with a noisy mean more than the threshold below the
    best one are eliminated.
    """

    trust: ClassVar[str]

    epsilon: float
    beta: float | None

    def schedule(self, epoch: Ints, active: Ints) -> Epoch:
        """The epochs numbered `epoch` (from 1) of agents with `active` arms, [A] each."""
        raise NotImplementedError

    def noisy(self, sums: Array, epoch: Epoch) -> Floats:
        """Private means of the arms, [A, K], given sums of the rewards of an epoch, [A, K]."""
        raise NotImplementedError

    @property
    def failure(self) -> float:
        """beta; 1/T if it is None."""
        return 1 / self._horizon if self.beta is None else self.beta

    def start(self, shape: tuple[int, int, int], horizon: int) -> None:
        super().start(shape, horizon)
        self._active = np.ones(shape, np.bool_)
        self._started, self._sums = np.zeros(shape), np.zeros(shape)  # pulls and rewards when the epoch began
        self._epoch = np.zeros(shape[:2], np.int64)
        self._pulls = np.zeros(shape[:2])  # pulls of each active arm in the epoch; inf if one arm is left

    def choose(self, counts: Array, means: Floats) -> Ints:
        return self.pulled(counts, np.rint(counts * means)).argmin(-1)

    def plan(self, knowledge: AgentKnowledge, room: Ints) -> tuple[Ints, Bools]:
        """Whole cycles through the active arms in one call, as many as the epoch and `room` allow; single slots
        otherwise."""
        pulled = self.pulled(knowledge.counts, knowledge.sums)
        active = self._active.sum(-1)
        even = np.where(self._active, pulled, 0).max(-1) == pulled.min(-1)
        turns = np.where(even, np.minimum(self._pulls - pulled.min(-1), room // active), 0).astype(np.int64)
        single = (pulled.argmin(-1)[..., None] == np.arange(self._shape[2])) & (room > 0)[..., None]
        pulls = np.where((turns > 0)[..., None], turns[..., None] * self._active, single)
        return pulls, np.zeros(room.shape, np.bool_)

    def pulled(self, counts: Array, sums: Array) -> Floats:
        """End finished epochs, and return the pulls in the current one, inf for eliminated arms."""
        fresh = counts.sum((1, 2)) == 0
        if fresh.any():
            self._active[fresh] = True
            for memory in (self._started, self._sums, self._epoch, self._pulls):
                memory[fresh] = 0
        pulled = np.where(self._active, counts - self._started, np.inf)
        over = pulled.min(-1) >= self._pulls
        if over.any():
            self.next_epoch(np.nonzero(over), counts, sums)
            pulled = np.where(self._active, counts - self._started, np.inf)
        return pulled

    def next_epoch(self, which: tuple[Array, ...], counts: Array, sums: Array) -> None:
        """For the agents `which`, eliminate arms at the end of their epoch, if there is one, and begin the next."""
        n, epoch, active = counts[which], self._epoch[which], self._active[which]
        before = self.schedule(np.maximum(epoch, 1), active.sum(-1))
        noisy = np.where(active, self.noisy(sums[which] - self._sums[which], before), -np.inf)
        kept = noisy >= noisy.max(-1, keepdims=True) - before.threshold[:, None]
        active &= kept | (epoch == 0)[:, None]
        after = self.schedule(epoch + 1, active.sum(-1))
        self._active[which], self._epoch[which] = active, epoch + 1
        self._started[which], self._sums[which] = n, sums[which]
        self._pulls[which] = np.where(active.sum(-1) > 1, after.pulls, np.inf)


class DPSuccessiveElimination(PrivateElimination):
    """DP-SE (Sajed & Sheffet 2019, Algorithm 2), with a trusted curator.

    Each arm's mean gets independent noise. The code of Chowdhury & Zhou 2023 adds one draw to the sums of all arms: it
    releases their differences without noise, so it is not private.

    Args:
        epsilon: > 0.
        beta: the failure probability; None: 1/T.
    """

    fast = ArmPolicy.epochs
    public_schedule = True
    trust = "central"

    def __init__(self, epsilon: float = 1.0, beta: float | None = None) -> None:
        self.epsilon = number("epsilon", epsilon, above=0)
        self.beta = None if beta is None else number("beta", beta, above=0, below=1)

    def schedule(self, epoch: Ints, active: Ints) -> Epoch:
        return dp_elimination_epoch(epoch, active, self.epsilon, self.failure)

    def noisy(self, sums: Array, epoch: Epoch) -> Floats:
        pulls = epoch.pulls[:, None]
        noise = self.rng.laplace(0.0, 1.0, sums.shape) * (1 / (self.epsilon * pulls))
        return np.asarray(sums / pulls + noise)
