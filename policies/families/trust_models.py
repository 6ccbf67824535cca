"""Trust models for averaged numbers, and the mechanism for each."""

from collections.abc import Callable

from taciturn.privacy.mechanisms import CentralSum, DistributedSum, Laplace, Mechanism

TRUST: dict[str, Callable[[float], Mechanism]] = {
    "local": Laplace,
    "distributed": DistributedSum,
    "central": lambda total: CentralSum(Laplace(total)),
}
"""The mechanism at epsilon `total` if agents trust no party ("local"), a secure sum of their messages, or a curator who
averages them."""
