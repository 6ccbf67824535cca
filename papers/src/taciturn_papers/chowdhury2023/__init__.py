"""Chowdhury & Zhou 2023, section 7: the top of Figure 1, elimination under distributed trust beside that with a trusted
curator, a shuffler, and nobody to trust."""
