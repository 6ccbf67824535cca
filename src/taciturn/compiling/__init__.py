"""Plain functions of one replica: compiled by Numba or played uncompiled with the same bits, looped over replicas, and
given random numbers that depend on the seed and the replica alone. Nothing here imports an environment."""
