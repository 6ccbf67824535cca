"""Whom agents trust with numbers that are averaged, and the mechanism that follows."""

from collections.abc import Callable

from taciturn.privacy.mechanisms import CentralSum, DistributedSum, Laplace, Mechanism

TRUST: dict[str, Callable[[float], Mechanism]] = {
    "local": Laplace,
    "distributed": DistributedSum,
    "central": lambda total: CentralSum(Laplace(total)),
}
"""The mechanism of epsilon `total` if agents trust nobody, a secure sum of their messages, or a curator who averages
them."""
