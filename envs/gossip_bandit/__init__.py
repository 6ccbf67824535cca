"""Gossip among agents that remember only a preference (Chen et al. 2021)."""
