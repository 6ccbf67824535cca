"""Tao et al. 2023, section 6: Figures 2 to 4, each checked against the dynamics of the shares under noisy estimates."""
