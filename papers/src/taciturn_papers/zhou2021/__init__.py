"""Zhou et al. 2021, "A privacy-preserving distributed contextual federated online learning framework" (IEEE TKDE 33):
reproduction."""
