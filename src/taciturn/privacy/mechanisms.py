"""Mechanisms: laws by which an agent's private value becomes the message that others see.

A mechanism is a frozen value. `perturb(x, rng)` treats its input as a batch, its last `payload_dims` axes being one message; `debias` and
`variance` say what the receiver can make of the answer, `loss` what it costs the sender, `log_likelihood_ratio` what an adversary learns
from it. `perturb_counts` (where `closed_counts`) draws the sum of many perturbed messages at once, at a cost that does not grow with their
number. Where noise scales with a sensitivity, the mechanism's own `sensitivity` counts; without one, that which comes with the message.

`TreeAggregation` and `Memoized` remember: `state = mechanism.start((B, N))`, then `mechanism.step(x, rng, state)` round by round, and
`state.fresh[B, N]` says whose budget the round was charged to. `step` works for all mechanisms.

Everything is imported from here; it is written in the modules beside this one:
- `base`: `Mechanism`, `PrivacyLoss`, `NoPrivacy`
- `randomized_response`: `BitwiseRandomizedResponse`, `UnaryEncoding`, `KaryRandomizedResponse`
- `additive_noise`: `Laplace`, `Gaussian`
- `exponential`: `Exponential`
- `stateful`: `TreeAggregation`, `Memoized`
- `samplers`: what sampler="fast", "exact" and "opendp" mean, and the exact draws

None of them imports anything else of taciturn, so that worlds may use them too.
"""

from taciturn.privacy.additive_noise import Gaussian, Laplace, gaussian_delta
from taciturn.privacy.base import Mechanism, NoPrivacy, PrivacyLoss
from taciturn.privacy.exponential import Exponential
from taciturn.privacy.randomized_response import (
    BitwiseRandomizedResponse,
    KaryRandomizedResponse,
    UnaryEncoding,
    k_ary_response,
)
from taciturn.privacy.samplers import discrete_gaussian, discrete_laplace, exact_bernoulli, exact_bernoulli_exp
from taciturn.privacy.stateful import Memoized, Memory, Streams, TreeAggregation

__all__ = [
    "BitwiseRandomizedResponse",
    "Exponential",
    "Gaussian",
    "KaryRandomizedResponse",
    "Laplace",
    "Mechanism",
    "Memoized",
    "Memory",
    "NoPrivacy",
    "PrivacyLoss",
    "Streams",
    "TreeAggregation",
    "UnaryEncoding",
    "discrete_gaussian",
    "discrete_laplace",
    "exact_bernoulli",
    "exact_bernoulli_exp",
    "gaussian_delta",
    "k_ary_response",
]
