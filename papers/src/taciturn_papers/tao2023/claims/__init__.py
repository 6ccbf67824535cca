"""The claims of Tao et al. 2023. Its figures show no readable numbers: the paper's numbers come from the text.

As written the algorithm learns next to nothing under noise. A claim that one regret is larger is therefore judged after
subtracting the difference that occurs without learning. Claims that regrets exceed 6 delta or are similar also hold for
agents that learn nothing; their explanations give the regrets of such agents for comparison.
"""

from taciturn_papers.tao2023.claims import figures_2_to_4, section_5, variants

FIGURE_2 = (*figures_2_to_4.FIGURE_2, *section_5.THEORY)  # with Theorems 5.1 and 5.2 and the lemmas
FIGURE_3 = figures_2_to_4.FIGURE_3
FIGURE_4 = figures_2_to_4.FIGURE_4  # and Theorem 5.3
VARIANTS = variants.VARIANTS  # other readings of the algorithm
FAST = variants.FAST  # a setting in which it learns
