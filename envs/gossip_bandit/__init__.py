"""Gossip among agents who remember only a preference (Chen et al. 2021)."""
