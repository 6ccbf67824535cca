"""Figures 8 and 9: networks. Figure 14: the threshold NT below which agents ask."""

from collections.abc import Callable
from functools import partial

from taciturn.bench.results import Config
from taciturn_papers.zhou2021.claims.shared import SHARED, falls
from taciturn_papers.zhou2021.settings import ALWAYS, THRESHOLDS, at_threshold, on_graph


def graphs(*names: str) -> dict[str, Callable[[Config], Config]]:
    """T-PriDO on several networks."""
    return {name: partial(on_graph, graph=name) for name in names}


NETWORKS = (
    falls(
        "Figures 8 and 9: regret falls with connectivity (average regret on one network minus average regret on "
        "a better connected one)",
        "Section 5.3: 'T-PriDO will get smaller average regret and cumulative regret if connectivity in the network "
        "increases'",
        "falls",
        graphs("ring", "star", "complete"),
        why=lambda r: (
            "An agent on a ring receives records from two neighbours. A leaf of a star receives only the records of "
            "the centre, which uses the records of all agents"
        ),
        each="on the network '{}'",
    ),
    falls(
        "Remark 1: regret is lower if G_u is smaller (average regret on one network minus average regret at a smaller "
        "G_u)",
        "Remark 1: 'when the connectivity in G(W, E) (i.e., G_u decreases) is improved, the upper expected cumulative "
        "regret will decrease'",
        "falls",
        graphs("none", "ring", "complete"),
        why=lambda r: "In the network 'none' agents have no neighbours",
        each="on the network '{}'",
    ),
)


# Figure 14.


def thresholds(*levels: float) -> dict[str, Callable[[Config], Config]]:
    """T-PriDO with several NT."""
    return {f"NT = {level:g}": partial(at_threshold, threshold=level) for level in levels}


THRESHOLD_CLAIMS = (
    falls(
        "Figure 14: regret falls as the threshold NT rises (average regret at one NT minus average regret at a larger "
        "NT)",
        "Section 5.3: 'average regret is proportional to the value of NT inversely'",
        "falls",
        thresholds(*THRESHOLDS),
        why=lambda r: (
            "We read the claim as a direction: if regret were inversely proportional to NT, it would be infinite at NT "
            f"= 0. At NT = {ALWAYS:g} agents always ask"
        ),
    ),
    falls(
        "Section 5.3: agents communicate more at a higher threshold NT (share of rounds with an answer: higher NT "
        "minus lower NT)",
        "Section 5.3: 'the higher NT is, more frequent the communications are'",
        "rises with NT",
        thresholds(*THRESHOLDS[::-1]),
        SHARED,
    ),
)
