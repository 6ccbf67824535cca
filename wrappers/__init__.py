"""Wrappers of environments: privacy, faults, audits, and adaptors to RL libraries."""

from taciturn.envs.core import NotPrivate
from taciturn.privacy.accountant import Accountant
from taciturn.privacy.audit_result import AuditResult
from taciturn.privacy.budget import Budget, BudgetSpent
from taciturn.privacy.mechanisms import (
    BitwiseRandomizedResponse,
    Blocks,
    CentralSum,
    DistributedSum,
    Exponential,
    Gaussian,
    KaryRandomizedResponse,
    Laplace,
    Memoized,
    NoPrivacy,
    PrivacyLoss,
    Scheduled,
    Shuffled,
    TreeAggregation,
    UnaryEncoding,
)
from taciturn.wrappers.audit import audit
from taciturn.wrappers.channels import Faulty, Privatize
from taciturn.wrappers.faults import Byzantine, Churn, LossyChannel, MessageLimit, Stragglers
from taciturn.wrappers.remembering import Remembering
from taciturn.wrappers.third_party import PrivatizeAction, PrivatizeObservation, PrivatizeReward

__all__ = [
    "Accountant", "AuditResult", "BitwiseRandomizedResponse", "Blocks", "Budget", "BudgetSpent", "Byzantine",
    "CentralSum", "Churn", "DistributedSum", "Exponential", "Faulty", "Gaussian", "KaryRandomizedResponse", "Laplace",
    "LossyChannel", "Memoized", "MessageLimit", "NoPrivacy", "NotPrivate", "PrivacyLoss", "Privatize",
    "PrivatizeAction", "PrivatizeObservation", "PrivatizeReward", "Remembering", "Scheduled", "Shuffled", "Stragglers",
    "TreeAggregation", "UnaryEncoding", "audit",
]  # fmt: skip
