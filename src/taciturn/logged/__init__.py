"""Logged data in place of a synthetic world: ratings as a simulator, and logs of a bandit judged off policy."""

from taciturn.logged.ratings import fit_ratings

__all__ = ["fit_ratings"]
