"""The claims of Zhou et al. 2021."""

from taciturn.bench.papers.claims import Claim

ALGORITHMS: tuple[Claim, ...] = ()
GRIDS: tuple[Claim, ...] = ()
NETWORKS: tuple[Claim, ...] = ()
PRIVACY: tuple[Claim, ...] = ()
GROWTH: tuple[Claim, ...] = ()
THRESHOLD_CLAIMS: tuple[Claim, ...] = ()
