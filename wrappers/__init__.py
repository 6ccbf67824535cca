"""What stands between a policy and a world: privacy, faults, and adaptors to RL libraries."""

from taciturn.wrappers.faults import Byzantine, Churn, Faulty, LossyChannel, Stragglers
from taciturn.wrappers.privacy.audit import AuditResult, audit
from taciturn.wrappers.privacy.ledger import Budget, BudgetSpent, Ledger
from taciturn.wrappers.privacy.mechanisms import (
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
from taciturn.wrappers.privacy.privatize import Privatize
from taciturn.wrappers.privacy.third_party import PrivatizeAction, PrivatizeObservation, PrivatizeReward

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
