"""What stands between a policy and a world: privacy, faults, and adaptors to RL libraries."""

from tacit.wrappers.faults import Byzantine, Churn, Faulty, LossyChannel, Stragglers
from tacit.wrappers.privacy.audit import AuditResult, audit
from tacit.wrappers.privacy.ledger import Budget, BudgetSpent, Ledger
from tacit.wrappers.privacy.mechanisms import (
    BitwiseRandomizedResponse,
    Exponential,
    Gaussian,
    KaryRandomizedResponse,
    Laplace,
    Memoized,
    NoPrivacy,
    PrivacyLoss,
    TreeAggregation,
    UnaryEncoding,
)
from tacit.wrappers.privacy.privatize import Privatize
from tacit.wrappers.privacy.third_party import PrivatizeAction, PrivatizeObservation, PrivatizeReward

__all__ = [
    "AuditResult",
    "BitwiseRandomizedResponse",
    "Budget",
    "BudgetSpent",
    "Byzantine",
    "Churn",
    "Exponential",
    "Faulty",
    "Gaussian",
    "KaryRandomizedResponse",
    "Laplace",
    "Ledger",
    "LossyChannel",
    "Memoized",
    "NoPrivacy",
    "PrivacyLoss",
    "Privatize",
    "PrivatizeAction",
    "PrivatizeObservation",
    "PrivatizeReward",
    "Stragglers",
    "TreeAggregation",
    "UnaryEncoding",
    "audit",
]
