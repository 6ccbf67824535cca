"""The rivals of section 5.2 under the paper's noise, which it describes for T-PriDO only. As in T-PriDO, a policy
learns from sums of feedbacks released by `TreeAggregation`, and from exact counts.

DSC asks its neighbours and gets noisy sums through the channel `statistics`. ACR, LinUCB and HCT learn without
neighbours: ACR asks the third party for its own records; LinUCB and HCT add the noise themselves.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from taciturn.agents import bring
from taciturn.envs.core import PublicView
from taciturn.mechanism_names import parse_mechanism
from taciturn.policies.classic.recommender import LinUCB, features
from taciturn.policies.classic.tree_search import OptimisticTree
from taciturn.policies.families.cluster_policy import ClusterPolicy
from taciturn.validation import Bools, Floats, Ints
from taciturn_papers.zhou2021.item_bandits import HCT, HighConfidenceTree
from taciturn_papers.zhou2021.partitions import ACR


class NoisyTree(HighConfidenceTree):
    """HCT's tree with noisy sums: each cluster has a separate stream, and its mean is clipped to [0, 1]."""

    def __init__(self, codes: Ints, policy: HCT, distribution: Any, horizon: int) -> None:
        self.distribution, self.horizon, self.rng = distribution, horizon, policy.rng
        self.streams: dict[int, Any] = {}
        super().__init__(codes, policy.nu, policy.rho, policy.c, policy.delta)

    def learn(self, path: list[int], reward: float) -> None:
        end = path[-1]
        if end not in self.streams:
            self.streams[end] = self.distribution.start((1,), horizon=self.horizon, sensitivity=1.0)
        (told,) = self.distribution.step([reward], self.rng, self.streams[end])
        super().learn(path, float(told) - self.sums[end])

    def refresh(self, node: int, log: float) -> None:
        super().refresh(node, log)
        if n := self.counts[node]:
            mean = self.sums[node] / n
            self.upper[node] += min(max(mean, 0.0), 1.0) - mean


class NoisyHCT(HCT):
    """HCT with noisy sums: each feedback enters one cluster's stream."""

    def __init__(self, distribution: Any, **own: Any) -> None:
        super().__init__(**own)
        self.distribution = distribution  # TreeAggregation

    public_schedule = True

    def make_tree(self, codes: Ints) -> OptimisticTree:
        return NoisyTree(codes, self, self.distribution, int(self._horizon))


class NoisyLinUCB(LinUCB):
    """LinUCB with one model for all items; its vector b, the sum of feedbacks times features, is a noisy stream.

    A record's features have length at most 1; the sum of their absolute values is therefore at most sqrt(k).
    """

    def __init__(self, distribution: Any, **own: Any) -> None:
        super().__init__(**own)
        self.distribution = distribution  # TreeAggregation

    public_schedule = True

    def start(self, fresh: Bools) -> None:
        super().start(fresh)
        if fresh.all():
            most = math.sqrt(self._shared_b.shape[-1])
            self._stream = self.distribution.start(self._shape[:2], horizon=int(self._horizon), sensitivity=most)
        self._stream.reset(fresh)

    def learn(self, contexts: Floats, items: Ints, likes: Floats, real: Bools) -> None:
        super().learn(contexts, items, likes, real)
        shown = self._items[np.arange(len(items))[:, None], items]
        values = likes[..., None] * features(contexts, shown)
        self._shared_b = self.distribution.step(values, self.rng, self._stream, where=real)


class NoisyACR(ACR):
    """ACR that asks the third party for its own records in every round; it must have no neighbours."""

    threshold = math.inf
    public_schedule = ClusterPolicy.public_schedule

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        self._may_ask[:] = True


def players(policy: str, own: Mapping[str, Any], distributions: Mapping[str, str]) -> tuple[Any, dict[str, Any]]:
    """A policy with its parameters, and the mechanisms of the channels, for the `distributions` of a configuration."""
    privacy = {channel: parse_mechanism(distribution) for channel, distribution in distributions.items()}
    if "statistics" not in privacy:
        return bring(policy, **own), privacy
    if policy == "HCT":
        return NoisyHCT(privacy.pop("statistics"), **own), privacy
    if policy == "LinUCB":
        return NoisyLinUCB(privacy.pop("statistics"), **own), privacy
    return NoisyACR(**own) if policy == "ACR" else bring(policy, **own), privacy
