"""What stands between a policy and a world: privacy, faults, and adaptors to RL libraries."""

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

__all__ = [
    "AuditResult",
    "BitwiseRandomizedResponse",
    "Budget",
    "BudgetSpent",
    "Exponential",
    "Gaussian",
    "KaryRandomizedResponse",
    "Laplace",
    "Ledger",
    "Memoized",
    "NoPrivacy",
    "PrivacyLoss",
    "Privatize",
    "TreeAggregation",
    "UnaryEncoding",
    "audit",
]
