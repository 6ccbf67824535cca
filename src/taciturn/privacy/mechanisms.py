"""Mechanisms: distributions of the message that others see, given an agent's private value.

A mechanism is a frozen value. `perturb(x, rng)` takes a batch; the last `payload_dims` axes are one message. `debias`
and `variance` describe the receiver's inference from an answer, `loss` its cost for the sender, and
`log_likelihood_ratio` the adversary's information. If `closed_counts` is true, `perturb_counts` draws the sum of many
perturbed messages in one draw, at a cost that does not grow with their number. Noise that scales with a sensitivity
uses the mechanism's own `sensitivity` or, without one, the sensitivity passed with the message.

`TreeAggregation`, `Blocks`, `Memoized` and `Scheduled` have state: `state = mechanism.start((B, N))`, then in each
round `mechanism.step(x, rng, state)`; after a step, `state.fresh[B, N]` marks the agents to be charged. With
`ChosenLevels` the sender chooses the level of each message.

All names are imported from here; `samplers` explains the samplers "fast", "exact" and "opendp".
"""

from taciturn.privacy.base import Mechanism, NoPrivacy
from taciturn.privacy.calibrated_noise import Exponential, Gaussian, Laplace, gaussian_delta
from taciturn.privacy.chosen_levels import ChosenLevels, LevelsState
from taciturn.privacy.losses import PrivacyLoss
from taciturn.privacy.randomized_response import (
    BitwiseRandomizedResponse,
    KaryRandomizedResponse,
    UnaryEncoding,
    k_ary_response,
)
from taciturn.privacy.repeated import Memoized, MemoizedState, Scheduled, ScheduledState
from taciturn.privacy.samplers import discrete_gaussian, discrete_laplace, exact_bernoulli, exact_bernoulli_exp
from taciturn.privacy.sampling import SampledLoss
from taciturn.privacy.shuffling import Shuffled, ShuffledBitsLoss, ShuffledLoss
from taciturn.privacy.stateful import Blocks, BlocksState, TreeAggregation, TreeState
from taciturn.privacy.sums import CentralSum, DistributedSum

__all__ = [
    "BitwiseRandomizedResponse",
    "Blocks",
    "BlocksState",
    "CentralSum",
    "ChosenLevels",
    "DistributedSum",
    "Exponential",
    "Gaussian",
    "KaryRandomizedResponse",
    "Laplace",
    "LevelsState",
    "Mechanism",
    "Memoized",
    "MemoizedState",
    "NoPrivacy",
    "PrivacyLoss",
    "SampledLoss",
    "Scheduled",
    "ScheduledState",
    "Shuffled",
    "ShuffledBitsLoss",
    "ShuffledLoss",
    "TreeAggregation",
    "TreeState",
    "UnaryEncoding",
    "discrete_gaussian",
    "discrete_laplace",
    "exact_bernoulli",
    "exact_bernoulli_exp",
    "gaussian_delta",
    "k_ary_response",
]
