"""Random numbers of one replica: their bits, and the laws that are made of them."""

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from laws import fits
from scipy import stats

from taciturn.envs.core.compiled import callees, machine_code, may_compile, rebound
from taciturn.envs.core.counter_streams import binomial, invert_binomial, pareto, philox, sources_of, uniform

BOTH = [False, *[True] * may_compile()]


@cache
def made(function: Any, compiles: bool) -> Any:
    """The function, or what Numba makes of it."""
    if not compiles:
        return function
    return import_module("numba").njit(rebound(function, callees(function, {}, machine_code(), "test")))


def many(draw: Any, compiles: bool, count: int, *arguments: Any) -> Any:
    """`count` draws of replica 7, compiled or not."""
    rng, draw = sources_of(11, "", ("a", "b"), np.arange(8))[7], made(draw, compiles)
    return np.array([draw(*arguments, rng, 1) for _ in range(count)])


# From the file kat_vectors of Random123: philox4x64 10, counter, key, result.
KNOWN = [
    ((0, 0, 0), (0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B)),
]


@pytest.mark.parametrize("compiles", BOTH)
@pytest.mark.parametrize(("counter", "words"), KNOWN)
def test_philox_gives_the_published_words(
    counter: tuple[int, int, int], words: tuple[int, ...], compiles: bool
) -> None:
    assert tuple(map(int, made(philox, compiles)(*map(np.uint64 if compiles else int, counter)))) == words


@pytest.mark.parametrize("compiles", BOTH)
def test_uniform_numbers_are_those_of_numpys_philox(compiles: bool) -> None:
    sources = sources_of(11, "training", ("a", "b"), np.array([0, 7, 2**40]))
    for replica in range(3):
        for source in range(2):
            key = sources[replica, source, :2].copy()
            expected = np.random.Generator(np.random.Philox(key=key)).random(50)
            draw = made(uniform, compiles)
            np.testing.assert_array_equal([draw(sources[replica], source) for _ in range(50)], expected)


def test_seed_purpose_name_and_replica_make_other_numbers() -> None:
    keys = {
        tuple(sources_of(seed, purpose, (name,), np.array([replica]))[0, 0, :2].tolist())
        for seed in (0, 1) for purpose in ("", "training") for name in ("a", "b") for replica in (0, 1)
    }  # fmt: skip
    assert len(keys) == 16


@pytest.mark.parametrize("compiles", BOTH)
@pytest.mark.parametrize(
    ("trials", "p"),
    [(0, 0.3), (1, 0.5), (5, 0.0), (5, 1.0), (24, 0.08), (100, 0.002), (100, 0.3), (60, 0.97), (10_000, 0.4)],
)
def test_binomials(trials: int, p: float, compiles: bool) -> None:
    """Against SciPy's; false alarm 1e-5 each. Half a per cent more of successes is seen wherever there are many."""
    drawn = many(binomial, compiles, 4000, trials, p)
    law = stats.binom(trials, p)
    low, high = (int(law.ppf(q)) for q in (1e-9, 1 - 1e-9))
    assert drawn.min() >= 0
    assert drawn.max() <= trials
    if high - low < 200:
        counts = np.bincount(drawn.astype(int), minlength=trials + 1)
        assert fits(counts, law.pmf(np.arange(trials + 1))) > 1e-5
        if trials * p * (1 - p) > 10:
            assert fits(counts, stats.binom(trials, p * 0.98).pmf(np.arange(trials + 1))) < 1e-5
    else:
        assert stats.kstest(drawn + np.random.default_rng(0).random(4000), lambda x: law.cdf(np.floor(x) - 1)
            + (x - np.floor(x)) * law.pmf(np.floor(x))).pvalue > 1e-5  # fmt: skip


def test_a_binomial_is_inverted_where_its_distribution_function_passes() -> None:
    for trials, p in ((1, 0.3), (24, 0.08), (30, 0.2), (7, 0.9)):
        none = (1 - p) ** trials
        found = [invert_binomial(u, trials, p, none) for u in np.linspace(0, 1 - 2.0**-53, 5001)]
        expected = stats.binom(trials, p).ppf(np.linspace(0, 1 - 2.0**-53, 5001))
        assert (np.abs(np.array(found) - np.maximum(expected, 0)) > 0).mean() < 1e-3  # at the steps themselves
        assert max(found) <= trials


@pytest.mark.parametrize("compiles", BOTH)
def test_pareto(compiles: bool) -> None:
    """Kolmogorov-Smirnov, false alarm 1e-5; another shape by 5% is seen."""
    drawn = many(pareto, compiles, 20_000, 1.454, 0.5)
    assert stats.kstest(drawn, stats.pareto(1.454, scale=0.5).cdf).pvalue > 1e-5
    assert stats.kstest(drawn, stats.pareto(1.454 * 1.05, scale=0.5).cdf).pvalue < 1e-5
