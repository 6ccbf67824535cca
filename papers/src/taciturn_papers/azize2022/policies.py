"""Single-agent bandits that are differentially private under a trusted curator, for `federated_bandit_v0`: an agent's
pulls are epsilon-differentially private with respect to its rewards.

The neighbouring inputs differ in one reward of one agent (event level), and the observer sees all pulls. The policies
add their noise themselves: they send nothing over a channel, and the accountant records nothing. Agents act
independently, one arm per slot; the first of tied arms wins. Arrays are [B, M, K]. A replica without pulls starts with
an empty state.
"""

from typing import ClassVar

import numpy as np

from taciturn.envs.core import number
from taciturn.envs.federated_bandit.fast import AgentKnowledge
from taciturn.policies.classic.bandits import ArmPolicy
from taciturn.validation import Array, Bools, Floats, Ints
from taciturn_papers.azize2022.indices import (
    adap_klucb_index,
    adap_ucb_index,
    dp_imed_index,
    dp_ucb_index,
    private_upper_bound,
    tree_bound,
)
from taciturn_papers.compiled import compiled


class EpisodePolicy(ArmPolicy):
    """Base of policies that pull one arm for a whole episode and then draw one noisy sum of its rewards.

    Each reward enters one such sum, with noise Lap(1 / epsilon), and pulls depend on rewards only through the sums.
    `forgets`: whether an index uses only the sum of the arm's last episode, not the sums of all its episodes.
    """

    trust = "central"
    forgets: ClassVar[bool]

    epsilon: float

    def index(self, counts: Array, means: Floats, t: Array) -> Floats:
        """The indices [R, K] of the arms, from the pulls that enter their private means, these means, and the total
        number of pulls [R, 1]. The arm with the highest index is pulled."""
        raise NotImplementedError

    def length(self, counts: Array) -> Array:
        """The length of an arm's next episode, from the arm's pulls so far."""
        raise NotImplementedError

    def start(self, shape: tuple[int, int, int], horizon: int) -> None:
        super().start(shape, horizon)
        self._seen, self._sums = np.zeros(shape), np.zeros(shape)  # pulls and rewards when the arm's episode began
        self._counts, self._noisy = np.zeros(shape), np.zeros(shape)  # the noisy sum, and the number of pulls in it
        self._arm, self._left = np.zeros(shape[:2], np.int64), np.zeros(shape[:2], np.int64)  # of the current episode

    def choose(self, counts: Array, means: Floats) -> Ints:
        self.turn(counts, np.rint(counts * means), np.ones(self._shape[:2], np.bool_))
        self._left -= 1
        return self._arm.copy()

    def plan(self, knowledge: AgentKnowledge, room: Ints) -> tuple[Ints, Bools]:
        """The rest of the episode in one step."""
        live = room > 0
        self.turn(knowledge.counts, knowledge.sums, live)
        slots = np.where(live, np.minimum(self._left, room), 0)
        self._left -= slots
        pulls = slots[..., None] * (self._arm[..., None] == np.arange(self._shape[2]))
        return pulls, np.zeros(room.shape, np.bool_)

    def turn(self, counts: Array, sums: Array, live: Bools) -> None:
        """For finished episodes, draw the noisy sum and begin the next episode."""
        fresh = counts.sum((1, 2)) == 0
        for memory in (self._seen, self._sums, self._counts, self._noisy, self._left):
            memory[fresh] = 0
        over = np.nonzero(live & (self._left <= 0))
        if over[0].size == 0:
            return
        last = (*over, self._arm[over])
        pulled, rewards = counts[last] - self._seen[last], sums[last] - self._sums[last]
        noisy = rewards + self.rng.laplace(0.0, 1 / self.epsilon, rewards.shape)
        before = (0, 0) if self.forgets else (self._counts[last], self._noisy[last])
        heard = pulled > 0
        self._counts[last] = np.where(heard, before[0] + pulled, self._counts[last])
        self._noisy[last] = np.where(heard, before[1] + noisy, self._noisy[last])
        n = self._counts[over]
        arms = self.index(n, self._noisy[over] / np.maximum(n, 1), counts[over].sum(-1, keepdims=True)).argmax(-1)
        coming = (*over, arms)
        self._arm[over], self._left[over] = arms, self.length(counts[coming])
        self._seen[coming], self._sums[coming] = counts[coming], sums[coming]


class AdaPUCB(EpisodePolicy):
    """AdaP-UCB (Azize & Basu 2022, Algorithm 1 with the index of equation 7): every episode doubles the pulls of its
    arm, and an arm's private mean uses its last episode only.

    Deviations from the paper: the mean of an episode of n pulls has noise Lap(1 / (epsilon n)). This equals the paper's
    Lap(2 / (epsilon N)) except after an arm's first pull, where N / 2 is half a pull. Lemma 1 divides the sum of j - i
    + 1 rewards by j - i; we divide by their number.

    Args:
        epsilon: > 0.
        alpha: > 3 for the bound of theorem 7; 3.1 in the paper's experiments.
    """

    fast = ArmPolicy.epochs
    public_schedule = True
    forgets = True

    def __init__(self, epsilon: float = 1.0, alpha: float = 3.1) -> None:
        self.epsilon = number("epsilon", epsilon, above=0)
        self.alpha = number("alpha", alpha, above=0)

    def index(self, counts: Array, means: Floats, t: Array) -> Floats:
        return adap_ucb_index(counts, means, t + 1, self.epsilon, self.alpha)

    def length(self, counts: Array) -> Array:
        return np.maximum(counts, 1)


class AdaPKLUCB(AdaPUCB):
    """AdaP-KLUCB (Azize & Basu 2022, Algorithm 1 with the index of KL-UCB): as `AdaPUCB`, for Bernoulli rewards."""

    fast = ArmPolicy.epochs
    public_schedule = True

    def index(self, counts: Array, means: Floats, t: Array) -> Floats:
        return adap_klucb_index(counts, means, t + 1, self.epsilon, self.alpha)


class DPKLUCB(EpisodePolicy):
    """DP-KLUCB (Azize, Wu, Honda, Orabona, Ito & Basu 2025): KL-UCB with a divergence that accounts for the noise, and
    private sums that accumulate over the episodes of an arm.

    Deviations from the paper: implemented from its divergence and its scheme of phases, not from its pseudocode, which
    may have other phases or another exploration function than ln t. The default of `ratio` is ours.

    Args:
        epsilon: > 0.
        ratio: an episode multiplies the pulls of its arm by `ratio`, rounded up; > 1. As T grows, the regret is optimal
            up to about this factor; each episode adds noise once.
    """

    fast = ArmPolicy.epochs
    public_schedule = True
    forgets = False

    def __init__(self, epsilon: float = 1.0, ratio: float = 1.5) -> None:
        self.epsilon, self.ratio = number("epsilon", epsilon, above=0), number("ratio", ratio, above=1)

    def index(self, counts: Array, means: Floats, t: Array) -> Floats:
        return private_upper_bound(counts, means, np.log(np.maximum(t, 1)), self.epsilon)

    def length(self, counts: Array) -> Array:
        return np.maximum(np.ceil((self.ratio - 1) * counts), 1)


class DPIMED(DPKLUCB):
    """DP-IMED (Azize, Wu, Honda, Orabona, Ito & Basu 2025): as `DPKLUCB`, with the index of indexed minimum empirical
    divergence."""

    fast = ArmPolicy.epochs
    public_schedule = True

    def index(self, counts: Array, means: Floats, t: Array) -> Floats:
        return -dp_imed_index(counts, means, self.epsilon)


class DPUCB(ArmPolicy):
    """DP-UCB (Mishra & Thakurta 2015; Tossou & Dimitrakakis 2016), as described by Azize & Basu 2022: UCB1 with sums
    from a binary tree of noise for each arm.

    The tree over an arm's pulls has L = floor(log2 T) + 1 levels. Each of its nodes has noise Lap(L / epsilon), and
    each reward is in one node of each level. The sum of the first n rewards uses one node for each 1 among the binary
    digits of n.

    Deviations from the paper: Azize & Basu do not define gamma; we read it as the probability that noise exceeds its
    bound ln(1 / gamma) ln(T)^1.5 / epsilon.

    Args:
        epsilon: > 0.
        gamma: the probability that noise exceeds its bound; 0.1 in the paper's experiments.
    """

    fast = ArmPolicy.epochs
    public_schedule = True
    trust = "central"

    def __init__(self, epsilon: float = 1.0, gamma: float = 0.1) -> None:
        self.epsilon, self.gamma = number("epsilon", epsilon, above=0), number("gamma", gamma, above=0, below=1)

    def start(self, shape: tuple[int, int, int], horizon: int) -> None:
        super().start(shape, horizon)
        self._bound = tree_bound(horizon, self.epsilon, self.gamma)
        self._known = np.zeros(shape, np.int64)  # the pulls that the nodes cover
        self._nodes = np.zeros((*shape, int(np.log2(max(horizon, 1))) + 1))

    def choose(self, counts: Array, means: Floats) -> Ints:
        self.forget(counts)
        new = np.nonzero(counts > self._known)
        n = self._known[new] = self._known[new] + 1
        level = np.log2(n & -n).astype(np.int64)
        levels = self._nodes.shape[-1]
        nodes = np.where(np.arange(levels) < level[:, None], 0.0, self._nodes[new])
        nodes[np.arange(len(n)), level] = self.rng.laplace(0.0, levels / self.epsilon, len(n))
        self._nodes[new] = nodes
        private = means + self._nodes.sum(-1) / np.maximum(counts, 1)
        return dp_ucb_index(counts, private, counts.sum(-1, keepdims=True), self._bound).argmax(-1)

    def plan(self, knowledge: AgentKnowledge, room: Ints) -> tuple[Ints, Bools]:
        """The best arm, repeated as long as its index would be the highest even with rewards of 0."""
        self.forget(knowledge.counts)
        scale = self._nodes.shape[-1] / self.epsilon
        result = compiled(stretches)
        pulls: Ints = result(knowledge.counts, knowledge.sums, self._nodes, room, self._bound, scale, self.rng)
        self._known = knowledge.counts + pulls
        return pulls, np.zeros(room.shape, np.bool_)

    def forget(self, counts: Array) -> None:
        fresh = counts.sum((1, 2)) == 0
        self._known[fresh], self._nodes[fresh] = 0, 0


def stretches(
    counts: Ints, sums: Ints, nodes: Floats, room: Ints, bound: float, scale: float, rng: np.random.Generator
) -> Ints:
    """Pulls int64[B, M, K] of DP-UCB, of one arm per agent and at most `room` [B, M]. Adds noise Lap(`scale`) to
    `nodes` [B, M, K, L].

    The arm's n-th pull completes the node of level l, the number of trailing zeros of n, which contains the lower ones.
    """
    pulls = np.zeros(counts.shape, np.int64)
    arms = counts.shape[2]
    for b in range(counts.shape[0]):
        for m in range(counts.shape[1]):
            own, tree = counts[b, m].copy(), nodes[b, m]
            arm, slots = -1, 0
            while slots < room[b, m]:
                width = 2 * np.log(max(own.sum(), 2))
                best, highest = 0, -np.inf
                for k in range(arms):
                    index = np.inf
                    if own[k] > 0:
                        index = (sums[b, m, k] + tree[k].sum() + bound) / own[k] + np.sqrt(width / own[k])
                    if index > highest:
                        best, highest = k, index
                if arm >= 0 and best != arm:
                    break
                arm = best
                own[arm] += 1
                slots += 1
                level = 0
                while own[arm] >> level & 1 == 0:
                    tree[arm, level] = 0.0
                    level += 1
                tree[arm, level] = rng.laplace(0.0, scale)
            if slots:
                pulls[b, m, arm] = slots
    return pulls
