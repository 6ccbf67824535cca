"""The claims of Zhou et al. 2021. Its data cannot be had: what is compared are its tables' orders and the statements of its text."""

from taciturn.bench.papers.claims import Claim, falling, group_of
from taciturn.bench.papers.zhou2021 import settings
from taciturn.bench.papers.zhou2021.settings import GRAPHS, WORLDS, named
from taciturn.bench.results import Config, Results

REGRET = "regret"


def connectivity(world: Config) -> Claim:
    """Figures 8 and 9."""
    order = ("none", "ring", "star", "complete")
    configs = [settings.on_graph(world, graph) for graph in order]

    def why(results: Results) -> str:
        return "; ".join(f"{graph}: {group_of(results, one).mean(REGRET):.3f}" for graph, one in zip(order, configs, strict=True))

    return falling(
        f"Figures 8 and 9: regret falls with connectivity ({named(world)})", "falls", order, configs, REGRET, why,
    )  # fmt: skip


NETWORKS = tuple(connectivity(world) for world in WORLDS)
