"""Chowdhury & Zhou 2023, section 7: the top of Figure 1, elimination under distributed trust compared with elimination
under a trusted curator, a shuffler, and local privacy."""
