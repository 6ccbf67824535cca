"""Plain functions of one replica: compiled by Numba or run uncompiled with the same bits, looped over replicas, and
given random numbers that depend only on the seed and the replica. Nothing here imports an environment."""
