"""The claims of Jiang 2020. Chapter 2: `theorems_1_2`, `section_2_6`. Chapter 3: `section_3_4`, `theorems_3_4`."""

from taciturn_papers.jiang2020.claims import section_2_6, section_3_4, theorems_1_2, theorems_3_4

THEOREMS = theorems_1_2.THEOREMS
CROWD = section_2_6.CROWD  # Figures 2.1 to 2.4
REWARD_CURVE = section_3_4.REWARD_CURVE  # Figure 3.2
GEOMETRIC = (*section_3_4.GEOMETRIC, *theorems_3_4.PROVED)  # Figures 3.3 and 3.4
PARETO = section_3_4.PARETO  # Figures 3.5 and 3.6
