"""Chen et al. 2021, section VI: Figures 1 to 6, each checked against a mean-field limit."""
