"""Logged data in place of a synthetic environment: a simulator fitted to ratings, and off-policy evaluation on logs."""

from taciturn.logged.bandit import BanditLog, read_bandit
from taciturn.logged.off_policy import Value, evaluate
from taciturn.logged.ratings import fit_ratings

__all__ = ["BanditLog", "Value", "evaluate", "fit_ratings", "read_bandit"]
