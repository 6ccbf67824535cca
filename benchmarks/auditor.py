"""What the auditor catches: 17 broken mechanisms, and how often it accuses right ones, at its default trials and
confidence 95%.

Run `python benchmarks/auditor.py` (about ten minutes); `--seeds` and `--audits` say how many audits of each broken
mechanism, and of right ones in all. A broken mechanism counts as caught if at least 95% of its audits say `violated`.

All noise but that of `low bits of floating-point noise` is drawn on a grid in exact integers, so that each mistake must
be caught for what it is, and so that the right mechanisms are right: a claim about noise that is drawn in floating
point is false (Mironov 2012). Of the package's own `fast` samplers, which say that they are an idealisation, the
auditor leaves the lowest bits unread unless `bits=True`.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta

from taciturn.privacy.mechanisms import (
    BitwiseRandomizedResponse,
    Exponential,
    Gaussian,
    KaryRandomizedResponse,
    Laplace,
    TreeAggregation,
    UnaryEncoding,
)
from taciturn.validation import Array
from taciturn.wrappers import audit

Perturb = Callable[[Array, np.random.Generator], Array]


@dataclass(frozen=True)
class Broken:
    """A mechanism that claims (epsilon, delta) and is further from it than it says.

    Attributes:
        mistake: what is wrong.
        perturb: the mechanism.
        pair: two adjacent messages.
        epsilon, delta: the claim.
    """

    mistake: str
    perturb: Perturb
    pair: tuple[Any, Any]
    epsilon: float = 1.0
    delta: float = 0.0


def laplace(shape: tuple[int, ...], rng: np.random.Generator, epsilon: float = 1.0) -> Array:
    """Noise for sensitivity 1, on a grid."""
    return Laplace(epsilon, sensitivity=1.0, sampler="exact").perturb(np.zeros(shape), rng)


def flips_too_seldom(x: Array, rng: np.random.Generator) -> Array:
    """Each bit is flipped with probability 1 / (e^epsilon + 1), where 1 / (e^(epsilon / 2) + 1) is right."""
    return x ^ (rng.random(x.shape) < 1 / (math.e + 1))


def half_the_sensitivity(x: Array, rng: np.random.Generator) -> Array:
    return x + laplace(x.shape, rng) / 2


def half_the_scale(x: Array, rng: np.random.Generator) -> Array:
    return x + Gaussian(1.0, 1e-5, sensitivity=0.5, sampler="exact").perturb(np.zeros(x.shape), rng)


def noise_for_another_norm(x: Array, rng: np.random.Generator) -> Array:
    """Laplace noise for the largest change of any number, where the sum of the changes counts."""
    return x + laplace(x.shape, rng)


def noise_used_twice(x: Array, rng: np.random.Generator) -> Array:
    """Two messages of a run, of which the first is secret, with the same noise."""
    return x + laplace(x.shape[:-1], rng)[..., None]


def noise_that_begins_again(x: Array, rng: np.random.Generator) -> Array:
    """A generator that is made anew, with the same seed, at every call, as at every reset."""
    return x + laplace(x.shape, np.random.default_rng(0))


def opposite_noise(x: Array, rng: np.random.Generator) -> Array:
    """The noise of the second number is minus that of the first."""
    return x + laplace(x.shape[:-1], rng)[..., None] * [1, -1]


def truth_plus_a_thousand(x: Array, rng: np.random.Generator) -> Array:
    return np.where(rng.random(x.shape) < 1e-3, x + 1000, x + laplace(x.shape, rng))


def sometimes_no_noise(x: Array, rng: np.random.Generator) -> Array:
    return np.where(rng.random(x.shape) < 1e-3, x, x + laplace(x.shape, rng))


def secret_in_the_lowest_bit(x: Array, rng: np.random.Generator) -> Array:
    """The last bit of the mantissa of a double is the secret; the others are right."""
    bits = rng.uniform(1, 2, x.shape) * (x + laplace(x.shape, rng))
    return ((bits.view(np.int64) & ~1) | x.astype(np.int64)).view(np.float64)


def secret_in_the_parity(x: Array, rng: np.random.Generator) -> Array:
    """A count whose noise is even."""
    return x + 2 * np.round(laplace(x.shape, rng) / 2 * 10)


def floating_noise(x: Array, rng: np.random.Generator) -> Array:
    """NumPy's Laplace noise, added to a double."""
    return x + rng.laplace(0.0, 1.0, x.shape)


def no_tails(x: Array, rng: np.random.Generator) -> Array:
    """Noise is drawn again until it is at most 5 scales."""
    noise = laplace(x.shape, rng)
    while (far := np.abs(noise) > 5).any():
        noise[far] = laplace((int(far.sum()),), rng)
    return x + noise


def rounded_noise(x: Array, rng: np.random.Generator) -> Array:
    """The noise is rounded to whole numbers, not the sum."""
    return x + np.round(laplace(x.shape, rng))


def noise_on_the_first_number(x: Array, rng: np.random.Generator) -> Array:
    return x + laplace(x.shape, rng) * [1, 0]


def an_option_never_flipped(x: Array, rng: np.random.Generator) -> Array:
    """Randomised response of which the last bit stays as it is."""
    y = BitwiseRandomizedResponse(1.0, sampler="exact").perturb(x, rng)
    y[..., -1] = x[..., -1]
    return y


def an_answer_that_changes(x: Array, rng: np.random.Generator) -> Array:
    """Two answers that are the same as long as the value is: an answer that changes tells that the value did."""
    law = KaryRandomizedResponse(math.e - 1, num_values=4)  # epsilon 1 an answer
    first, second = law.perturb(x[..., 0], rng), law.perturb(x[..., 1], rng)
    return np.stack([first, np.where(x[..., 0] == x[..., 1], first, second)], -1)


ONE, TWO = np.eye(4, dtype=np.int64)[[0, 3]]
WIDE = np.zeros(9)
BROKEN = (
    Broken("bits are flipped too seldom", flips_too_seldom, (ONE, TWO)),
    Broken("half the sensitivity", half_the_sensitivity, (0.0, 1.0)),
    Broken("half the Gaussian scale", half_the_scale, (0.0, 1.0), delta=1e-5),
    Broken("noise for another norm", noise_for_another_norm, (WIDE, WIDE + 1 / 3)),
    Broken("noise used for two messages", noise_used_twice, (np.array([0.0, 0.0]), np.array([1.0, 0.0]))),
    Broken("noise that begins again at each call", noise_that_begins_again, (0.0, 1.0)),
    Broken("opposite noise on two numbers", opposite_noise, (np.array([0.0, 0.0]), np.array([0.5, 0.5]))),
    Broken("the truth plus 1,000, once in 1,000", truth_plus_a_thousand, (0.0, 1.0)),
    Broken("no noise, once in 1,000", sometimes_no_noise, (0.0, 1.0)),
    Broken("the secret in the lowest bit of a double", secret_in_the_lowest_bit, (0.0, 1.0)),
    Broken("the secret in the parity of a count", secret_in_the_parity, (0.0, 1.0)),
    Broken("low bits of floating-point noise", floating_noise, (0.0, 1.0)),
    Broken("no tails", no_tails, (0.0, 1.0)),
    Broken("rounded noise", rounded_noise, (0.0, 0.5)),
    Broken("noise on the first number only", noise_on_the_first_number, (np.array([0.0, 0.0]), np.array([0.5, 0.5]))),
    Broken("an option that is never flipped", an_option_never_flipped, (ONE, TWO)),
    Broken("an answer that changes", an_answer_that_changes, (np.array([0, 0]), np.array([0, 1])), epsilon=2.0),
)

Right = tuple[str, Any, tuple[Any, Any]]
SCORES = np.array([1.0, 0.0, 0.0])
RIGHT: tuple[Right, ...] = (
    ("bitwise response", BitwiseRandomizedResponse(1.0, sampler="exact"), (ONE, TWO)),
    ("bitwise response, 3.0", BitwiseRandomizedResponse(3.0, sampler="exact"), (ONE, TWO)),
    ("k-ary response", KaryRandomizedResponse(2.0, num_values=4), (0, 1)),
    ("unary encoding", UnaryEncoding(1.0), (ONE, TWO)),
    ("Laplace", Laplace(1.0, sensitivity=1.0, sampler="exact"), (0.0, 1.0)),
    ("Laplace, 0.1", Laplace(0.1, sensitivity=1.0, sampler="exact"), (0.0, 1.0)),
    ("Laplace, 3 numbers", Laplace(1.0, sensitivity=1.0, sampler="exact"), (np.zeros(3), np.array([0.5, -0.25, 0.25]))),
    ("Gaussian", Gaussian(1.0, 0.01, sensitivity=1.0, sampler="exact"), (0.0, 1.0)),
    ("exponential", Exponential(1.0, sensitivity=1.0, sampler="exact"), (SCORES, 1 - SCORES)),
    ("tree", TreeAggregation(1.0, horizon=3, sensitivity=1.0, sampler="exact"), (np.zeros(3), np.array([1.0, 0, 0]))),
)


def caught(broken: Broken, seeds: int) -> int:
    """How many of so many audits say `violated`."""
    return sum(audit(broken, broken.pair, seed=seed).verdict == "violated" for seed in range(seeds))


def accused(audits: int) -> Iterator[tuple[str, int, int]]:
    """Of right mechanisms: the name, how many audits say `violated`, and of how many."""
    for place, (name, mechanism, pair) in enumerate(RIGHT):
        seeds = range(place, audits, len(RIGHT))
        found = [audit(mechanism, pair, seed=seed, sensitivity=1.0) for seed in seeds]
        yield name, sum(one.verdict == "violated" for one in found), len(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="audits of each broken mechanism")
    parser.add_argument("--audits", type=int, default=200, help="audits of right mechanisms, in all")
    given = parser.parse_args()
    found = 0
    print(f"{'broken mechanism':42} caught of {given.seeds}   seconds an audit")
    for broken in BROKEN:
        start = time.perf_counter()
        times = caught(broken, given.seeds)
        found += times >= 0.95 * given.seeds
        print(f"{broken.mistake:42} {times:6}   {(time.perf_counter() - start) / given.seeds:20.2f}", flush=True)
    print(f"caught in at least 95% of their audits: {found} of {len(BROKEN)}\n")
    print(f"{'right mechanism':42} accused")
    false, total = 0, 0
    for name, times, audits in accused(given.audits):
        print(f"{name:42} {times:4} of {audits}", flush=True)
        false, total = false + times, total + audits
    low = beta.ppf(0.025, false, total - false + 1) if false else 0.0
    high = beta.ppf(0.975, false + 1, total - false) if false < total else 1.0
    print(
        f"false alarms: {false} of {total} = {false / total:.1%} (95% interval {low:.1%} to {high:.1%}; 5% is stated)"
    )


if __name__ == "__main__":
    main()
