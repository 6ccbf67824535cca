"""Azize & Basu 2022, section 5: Figures 2 and 3, at the paper's horizon of ten million pulls, and the bounds of its
theorems."""
