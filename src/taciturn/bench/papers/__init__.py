"""The figures of the papers, run again: one module a paper or chapter."""
