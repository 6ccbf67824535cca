"""The claims of Li & Song 2022. Its figures show no readable numbers, so we test the statements of its text. Means are
random, as in the paper, unless a statement says that they form a grid.

The claims about a theorem are with the figure that tests it.
"""

from taciturn_papers.li2022.claims import figure_4, figure_8, figure_10, figure_11, figure_12, figures_5_to_7

PRIVACY = figure_4.PRIVACY  # and Theorem 1, Remark 1
PARTICIPATION = figures_5_to_7.PARTICIPATION  # Figure 5, Theorem 2
ROUND_LIMITS = figures_5_to_7.ROUND_LIMITS  # Figure 6
CONSTRAINTS = figures_5_to_7.CONSTRAINTS  # Figure 7, Theorem 2, Remarks 1 and 2
HETEROGENEITY = figure_8.HETEROGENEITY
GRAPHS = figure_10.GRAPHS  # and Table I, Theorem 3, Corollary 1, Remarks 3 and 5, equation 22
COMPONENTS = figure_11.COMPONENTS  # and Table II, Theorem 4, Corollary 2
HETEROGENEOUS = figure_12.HETEROGENEOUS  # and Corollary 3
