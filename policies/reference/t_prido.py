"""T-PriDO and DT-PriDO (Zhou et al.): trees of item clusters on an adaptive partition of contexts, with statistics of
the neighbours."""

import math
from typing import Any

import numpy as np

from taciturn.envs.core import PublicView, choice, number
from taciturn.envs.recommender.geometry import DEPTH
from taciturn.policies.families.block_sums import dominating_set
from taciturn.policies.families.cluster_policy import ClusterPolicy
from taciturn.policies.families.cluster_tree import ANY
from taciturn.policies.families.context_cells import deepest_level
from taciturn.privacy.mechanisms import Exponential, Mechanism, TreeAggregation
from taciturn.validation import Bools

PRESETS: dict[str, dict[str, float]] = {
    "tuned": {"xi": 0.2, "psi": 0.3, "gamma": 0.8, "rate": 20.0},
    "paper": {"xi": 6.5, "psi": 1.0, "gamma": 2 ** (-1 / 5), "rate": 20.0},
}


def partition_rate(context_dim: int, optimal_dim: float = 0.0) -> float:
    """p1, the positive root of d_c p^2 + (d_c - 2) p - (3 - d_0) = 0 [Zhou 2]."""
    half = context_dim - 2
    return (-half + math.sqrt(half**2 + 4 * context_dim * (3 - optimal_dim))) / (2 * context_dim)


class TPriDO(ClusterPolicy):
    """Tree-based private distributed online learning: the item cluster with the highest optimistic mean in the cell of
    the context.

    In round n an agent looks up the cell of its context in its own partition. If its own mean in its last cell and
    cluster is below the threshold NT, it asks the third party for sums and counts over the closed neighbourhood;
    otherwise it uses its own. The index of a leaf (h, i) of its tree is mu + sqrt(xi ln n / (8 Q)) + psi gamma^h, and
    infinite without records. It shows a random own item of the leaf with the highest index. Once all records of the
    round are in, the cell of its context is split if it holds at least rate 2^(p l d) ln n of the agent's own records
    (l: level of the cell), and the leaf is replaced by its children if Q, as known when the agent acted, is at least xi
    ln n / (8 psi^2 gamma^(2h)) and the leaf holds more than one of the agent's items. Past records are recounted in the
    new cells and leaves.

    Args:
        threshold: NT.
        preset: "tuned" (xi 0.2, psi 0.3, gamma 0.8, rate 20) or "paper" (xi 6.5, psi 1, gamma 2^(-1/5), rate 20; the
            paper's proofs need xi > 6, and it states no other value). The following four replace single values of it.
        xi: > 0, weight of the confidence width.
        psi: > 0, diameter of the whole item space in units of reward.
        gamma: in (0, 1), ratio of the diameters of consecutive levels.
        rate: > 0, lambda, the rate of cell splits.
        optimal_dim: d_0 of equation 2, in [0, 3).
        eta: >= 0; p is the root of equation 2 plus eta.
        bisect: whether cells are halved in one dimension at a time, instead of in all dimensions. In 9 dimensions,
            halving all of them makes 512 cells of one, and most never see enough records.
        biased: whether an agent that does not ask divides its own sum by the neighbourhood's count, as line 8 of
            Algorithm 1 does.
        epsilon: level of the mechanisms that `simulate(privacy="paper")` installs, TreeAggregation on `statistics` and
            Exponential on `selection`; None: it installs none.

    Deviations from the paper: Q_n counts the records before round n: the neighbourhood's for agents that ask, and their
    own for the others. An agent splits at most one cell and one leaf per round; in round 1, where ln n = 0, it splits
    both. Leaves without items of the agent are skipped. With Exponential on `selection`, indices are capped at 1 +
    sqrt(xi ln n / 8) + psi, which is also their stated sensitivity; without it the highest index is chosen, and ties
    are broken at random. `biased` uses counts that no agent asked for, so it is for comparison only.
    """

    def __init__(
        self,
        threshold: float = 0.5,
        *,
        preset: str = "tuned",
        xi: float | None = None,
        psi: float | None = None,
        gamma: float | None = None,
        rate: float | None = None,
        optimal_dim: float = 0.0,
        eta: float = 0.01,
        bisect: bool = False,
        biased: bool = False,
        epsilon: float | None = None,
    ) -> None:
        self.threshold = number("threshold", threshold)
        self.preset = choice("preset", preset, PRESETS)
        values = PRESETS[self.preset]
        self.xi = number("xi", values["xi"] if xi is None else xi, above=0)
        self.psi = number("psi", values["psi"] if psi is None else psi, above=0)
        self.gamma = number("gamma", values["gamma"] if gamma is None else gamma, above=0, below=1)
        self.rate = number("rate", values["rate"] if rate is None else rate, above=0)
        self.optimal_dim = number("optimal_dim", optimal_dim, at_least=0, below=3)
        self.eta = number("eta", eta, at_least=0)
        self.bisect = bool(choice("bisect", bisect, (False, True)))
        self.biased = bool(choice("biased", biased, (False, True)))
        self.epsilon = None if epsilon is None else number("epsilon", epsilon, above=0)

    def prescribes(self, view: PublicView) -> dict[str, Mechanism]:
        """TreeAggregation on the channel `statistics` and Exponential on `selection`, both of level epsilon."""
        if self.epsilon is None:
            raise ValueError(f"epsilon must be given for {type(self).__name__} to prescribe mechanisms, not None")
        return {"statistics": TreeAggregation(self.epsilon), "selection": Exponential(self.epsilon)}

    def set_rules(self, context_dim: int) -> None:
        self._bonus = self.psi * self.gamma ** np.arange(DEPTH + 1.0)
        self._explored = np.asarray(self.xi / (8 * self._bonus**2), np.float64)
        power = (partition_rate(context_dim, self.optimal_dim) + self.eta) * (1 if self.bisect else context_dim)
        levels = np.arange(deepest_level(context_dim, self.bisect) + 1)
        self._crowded = np.asarray(self.rate * 2.0 ** (power * levels), np.float64)

    public_schedule = ClusterPolicy.public_schedule


class DTPriDO(TPriDO):
    """T-PriDO by the agents of a dominating set of the graph; the other agents follow them.

    A follower asks the third party for the statistics of its dominator's model, over the dominator's closed
    neighbourhood, in the cell of the follower's own context, and chooses among the dominator's clusters that hold some
    of its own items. The dominating set is greedy.

    Args:
        follow: followers use the dominator's "model", or the "leaf" that it chooses in the same round for its own
            context.
        threshold, preset, xi, psi, gamma, rate, optimal_dim, eta, bisect, biased, epsilon: as for `TPriDO`.

    Deviations from the paper: it lets followers "follow the dominator's selections", which shows users the items for
    another user; that is `follow="leaf"`. A follower without an item in its dominator's leaf shows any item. Only the
    dominator's own records split cells. Followers use the dominator's partition of contexts and items, which no message
    carries: they are centralised with it.
    """

    centralised = True

    def __init__(self, threshold: float = 0.5, *, follow: str = "model", **parameters: Any) -> None:
        super().__init__(threshold, **parameters)
        self.follow = choice("follow", follow, ("model", "leaf"))

    @property
    def public_schedule(self) -> bool:  # type: ignore[override]
        """As for `TPriDO`, except that with `follow="model"` the followers ask in every round, at any threshold."""
        return self.always_answered or (self.threshold <= 0 and self.follow == "leaf")

    def form_groups(self) -> None:
        self._owners, self._follows = dominating_set(self._network)

    def who_asks(self) -> Bools:
        means = self._tree.mean[self._model_of]
        bad = (
            (means < self.threshold) | ~self.leads()
            if self.follow == "model"
            else (means < self.threshold) & self.leads()
        )
        return np.asarray(bad & self._may_ask)

    def reconsider(self) -> bool:
        noisy, tree = super().reconsider(), self._tree.arrays
        if self.follow == "model":
            return noisy
        copied = tree.leaf[tree.owner_actor[self._model_of]]
        has = tree.possible[np.arange(len(copied)), copied]
        tree.leaf[:] = np.where(self.leads(), tree.leaf, np.where(has, copied, ANY))
        return True
