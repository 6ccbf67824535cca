"""The p-values that other tests rely on: uniform where the law is right, small where it is not."""

import numpy as np
import pytest
from distributions import fits, same_distribution, same_moments
from scipy import stats

LAW = np.array([0.4, 0.3, 0.2, 0.06, 0.03, 0.009, 0.001, 0.0])
REPEATS = 400


def drawn(rng: np.random.Generator, distribution: np.ndarray = LAW, size: int = 2_000) -> np.ndarray:
    return rng.choice(distribution.size, size, p=distribution / distribution.sum())


def pairs(rng: np.random.Generator, depend: float = 0.0) -> np.ndarray:
    one, other = drawn(rng), drawn(rng)
    return np.stack([one, np.where(rng.random(one.size) < depend, one, other)], axis=1)


def test_p_values_are_uniform_under_the_law() -> None:
    """400 p-values each against the uniform law; false alarm 1e-4 in all."""
    rng = np.random.default_rng(0)
    found = {
        "fits": [fits(np.bincount(drawn(rng), minlength=8), LAW) for _ in range(REPEATS)],
        "same_distribution": [same_distribution(drawn(rng), drawn(rng)) for _ in range(REPEATS)],
        "same_law, jointly": [same_distribution(pairs(rng), pairs(rng)) for _ in range(REPEATS)],
    }
    for name, values in found.items():
        assert stats.kstest(values, "uniform").pvalue > 1e-4 / 3, name
    # Bonferroni's p-values are larger than uniform ones, never smaller.
    moments = np.array([same_moments(pairs(rng), pairs(rng)) for _ in range(REPEATS)])
    assert (moments < 0.05).sum() <= stats.binom.isf(1e-4, REPEATS, 0.05)


def test_another_law_is_found() -> None:
    rng = np.random.default_rng(1)
    other = LAW + np.array([-0.1, 0.1, 0, 0, 0, 0, 0, 0])
    assert fits(np.bincount(drawn(rng, other), minlength=8), LAW) < 1e-6
    assert same_distribution(drawn(rng, other), drawn(rng)) < 1e-6
    assert same_distribution(pairs(rng, 0.3), pairs(rng)) < 1e-6, "alike margins, another joint law"
    assert same_moments(pairs(rng, 0.3), pairs(rng)) < 1e-6


def test_what_has_no_chance_does_not_happen() -> None:
    counts = np.bincount(drawn(np.random.default_rng(2)), minlength=8)
    counts[7] = 1
    assert fits(counts, LAW) == 0
    assert fits(counts, LAW + 1e-18) == 0, "what rounding leaves of nothing is nothing"


@pytest.mark.parametrize("size", [0, 1, 7])
def test_too_few_to_tell(size: int) -> None:
    assert fits(np.bincount(drawn(np.random.default_rng(3), size=size), minlength=8), LAW) == 1
