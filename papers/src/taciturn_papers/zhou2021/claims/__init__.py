"""The claims of Zhou et al. 2021. Its data is not available: we compare its numbers with results in other worlds, and
also test the orders that its text states. A claim has a label for every world and holds if it holds in all of them.

`tables_1_2` has Tables 1 and 2, Figures 6 and 7 and the grid of DSC; `theorem_3` the bound on the regret of T-PriDO,
with Lemma 2 and Remark 1 on its terms; `figures_8_9_14` networks and thresholds; `table_3` privacy, with Figures 10 and
11, Lemma 1 and Theorems 1, 2 and 4; `figures_12_13` increasing data, with Theorem 5 and Lemma 3.
"""

from taciturn_papers.zhou2021.claims import figures_8_9_14, figures_12_13, table_3, tables_1_2, theorem_3

ALGORITHMS = (*tables_1_2.ALGORITHMS, *theorem_3.THEOREM_3)
GRIDS = tables_1_2.GRIDS
NETWORKS = figures_8_9_14.NETWORKS
THRESHOLD_CLAIMS = figures_8_9_14.THRESHOLD_CLAIMS
PRIVACY = table_3.PRIVACY
GROWTH = figures_12_13.GROWTH
