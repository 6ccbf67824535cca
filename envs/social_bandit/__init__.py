"""Bandit social learning by noisy copies on random walks (Tao et al. 2023)."""
