"""Li & Song 2022, section VII: Figures 4 to 8 and 10 to 12 and Tables I and II, each checked against the paper's
formulas."""
