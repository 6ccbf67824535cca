"""A single-agent bandit that is private in the local model, for `federated_bandit_v0`: the owner of a reward adds noise
to it before anyone else sees it.

The neighbouring inputs differ in one reward, each pull costs epsilon, and the observers are all others, including the
agent's server. The policy adds the noise itself: it sends nothing over a channel, and the accountant records nothing.
The first of tied arms wins. A replica without pulls starts with an empty state.
"""

import numpy as np

from taciturn.envs.core import number
from taciturn.envs.federated_bandit.fast import AgentKnowledge
from taciturn.policies.classic.bandits import ArmPolicy
from taciturn.validation import Array, Bools, Floats, Ints
from taciturn_papers.chowdhury2023.indices import response_probabilities
from taciturn_papers.compiled import compiled


class LDPUCBB(ArmPolicy):
    """LDP-UCB-B (Ren, Zhou, Liu & Shroff 2020): UCB1 on randomised responses, which are 1 with probability (r e^epsilon
    + 1 - r) / (e^epsilon + 1) for a reward r. The index of n answers with the sum s in slot t is

        s / n + sqrt(2 ln t / n);

    an arm without answers is pulled first.

    An answer to a reward r of 0 or 1 is z + m r; z and m in {0, 1} are independent of r. The noise of an answer can
    therefore be drawn before its reward, and an arm is pulled as long as its index would be the highest even with
    rewards of 0. Of k rewards with the sum s, any `sum of m` of them count, all subsets equally likely.

    Deviations from the paper: implemented from the authors' code, except that an arm without answers is pulled first;
    in their code counts begin at 1, with a fictitious reward of 0.

    Args:
        epsilon: for each pull, > 0.
    """

    fast = ArmPolicy.epochs
    public_schedule = True
    trust = "local"

    def __init__(self, epsilon: float = 1.0) -> None:
        self.epsilon = number("epsilon", epsilon, above=0)

    def distribution(self) -> tuple[float, float]:
        """(P(z = 1), P(m = 1)); m is 0 where z is 1."""
        flipped, kept = response_probabilities(self.epsilon)
        return flipped, kept - flipped

    def start(self, shape: tuple[int, int, int], horizon: int) -> None:
        super().start(shape, horizon)
        self._answers = np.zeros(shape)  # sums
        self._counting = np.zeros(shape, np.int64)  # sums of m for rewards that are not yet read
        self._counts, self._sums = np.zeros(shape, np.int64), np.zeros(shape, np.int64)  # pulls and rewards before

    def choose(self, counts: Array, means: Floats) -> Ints:
        own = np.rint(counts).astype(np.int64)
        room = np.ones(self._shape[:2], np.int64)
        return self.pulls(own, np.rint(counts * means).astype(np.int64), room).argmax(-1)

    def plan(self, knowledge: AgentKnowledge, room: Ints) -> tuple[Ints, Bools]:
        """The best arm, repeated as long as it would be the best even with rewards of 0."""
        return self.pulls(knowledge.counts, knowledge.sums, room), np.zeros(room.shape, np.bool_)

    def pulls(self, counts: Ints, sums: Ints, room: Ints) -> Ints:
        """The next pulls int64[B, M, K], of one arm per agent and at most `room` [B, M]; draws their noise."""
        fresh = counts.sum((1, 2)) == 0
        for memory in (self._answers, self._counting, self._counts, self._sums):
            memory[fresh] = 0
        new, earned = counts - self._counts, sums - self._sums
        if self._counting.any():
            self._answers += self.rng.hypergeometric(earned, new - earned, self._counting)
        self._counting[:], self._counts, self._sums = 0, counts.copy(), sums.copy()
        result: Ints = compiled(stretches)(counts, self._answers, self._counting, room, *self.distribution(), self.rng)
        return result


def stretches(
    counts: Ints, answers: Floats, counting: Ints, room: Ints, ones: float, looks: float, rng: np.random.Generator
) -> Ints:
    """`LDPUCBB.pulls`: adds z of the pulls to `answers` [B, M, K], and m to `counting` [B, M, K]."""
    pulls = np.zeros(counts.shape, np.int64)
    width = np.sqrt(2.0)
    for b in range(counts.shape[0]):
        for i in range(counts.shape[1]):
            own, sums = counts[b, i].copy(), answers[b, i]
            slot, arm, slots = own.sum() + 1, -1, 0
            while slots < room[b, i]:
                log = np.log(slot)
                best, highest = 0, -np.inf
                for k in range(len(own)):
                    if own[k] == 0:
                        best = k
                        break
                    index = sums[k] / own[k] + width * np.sqrt(log / own[k])
                    if index > highest:
                        best, highest = k, index
                if arm >= 0 and best != arm:
                    break
                arm = best
                own[arm] += 1
                slot += 1
                slots += 1
                drawn = rng.random()
                if drawn < ones:
                    sums[arm] += 1.0
                elif drawn < ones + looks:
                    counting[b, i, arm] += 1
            if slots:
                pulls[b, i, arm] = slots
    return pulls
