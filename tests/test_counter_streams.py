"""Random numbers of one replica: their bits, and the laws that are made of them."""

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from distributions import fits
from scipy import special, stats

from taciturn.compiling.compiled import callee, may_compile, rebound
from taciturn.compiling.counter_streams import (
    binomial,
    invert_binomial,
    log_binomial_ratio,
    pareto,
    philox,
    reject_binomial,
    sources_of,
    stirling,
    uniform,
)

BOTH = [False, *[True] * may_compile()]


@cache
def made(function: Any, compiles: bool) -> Any:
    """The function, or what Numba makes of it."""
    if not compiles:
        return function
    types = import_module("taciturn.compiling.typing_tables")
    code = function.__code__
    names = ", ".join(code.co_varnames[: code.co_argcount])
    called = callee(function, {}, {"wide": types.wide, "plus": types.plus}, False, {})
    return import_module("numba").njit(eval(f"lambda {names}: called({names})", {"called": called}))


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
        for seed in (0, 1)
        for purpose in ("", "training")
        for name in ("a", "b")
        for replica in (0, 1)
    }
    assert len(keys) == 16


@cache
def filled(draw: Any) -> Any:
    """A function that fills an array with draws of the compiled function `draw`."""

    def fill(out: Any, trials: int, probability: float, rng: Any) -> None:
        for i in range(len(out)):
            out[i] = draw(trials, probability, rng, 1)

    return import_module("numba").njit(fill)


def binomials(trials: int, p: float, count: int) -> Any:
    """`count` draws of replica 7, compiled if that is possible."""
    if not may_compile():
        return many(binomial, False, count, trials, p)
    found = np.zeros(count, np.int64)
    filled(made(binomial, True))(found, trials, p, sources_of(11, "", ("a", "b"), np.arange(8))[7])
    return found


def fits_binomial(drawn: Any, trials: int, p: float) -> float:
    """The p-value of a chi-square test against Binomial(trials, p), in cells of a thousandth of the mass or more."""
    distribution = stats.binom(trials, p)
    edges = np.unique(distribution.ppf(np.linspace(0.001, 0.999, 500)))
    cells = np.diff(np.concatenate([[0.0], distribution.cdf(edges), [1.0]]))
    return fits(np.bincount(np.searchsorted(edges, drawn), minlength=len(cells)), cells)


SMALL = [(0, 0.3), (1, 0.5), (5, 0.0), (5, 1.0), (24, 0.08), (100, 0.002), (60, 0.97), (19, 0.5)]
LARGE = [
    (20, 0.5), (21, 0.48), (25, 0.6), (34, 0.3), (101, 0.1), (100, 0.3), (1000, 0.011), (1000, 0.5), (777, 0.99),
    (10_000, 0.4), (123_456, 0.0001), (10**6, 0.9), (2**24, 0.25), (2**24, 1e-6),
]  # fmt: skip
COUNT = 400_000 if may_compile() else 20_000


@pytest.mark.parametrize(("trials", "p"), SMALL + LARGE)
def test_binomials(trials: int, p: float) -> None:
    """Against SciPy's; false alarm 1e-5 each. In 400,000 draws, a shift of a hundredth of a standard deviation is
    seen."""
    drawn = binomials(trials, p, COUNT)
    assert drawn.min() >= 0
    assert drawn.max() <= trials
    assert fits_binomial(drawn, trials, p) > 1e-5
    if trials * p * (1 - p) > 4 and may_compile():
        spread = np.sqrt(p * (1 - p) / trials)
        for other in (p + 0.016 * spread, p - 0.016 * spread):
            assert fits_binomial(drawn, trials, other) < 1e-5


@pytest.mark.parametrize(("trials", "p"), SMALL + LARGE)
def test_binomials_are_the_same_uncompiled(trials: int, p: float) -> None:
    pytest.importorskip("numba")
    np.testing.assert_array_equal(binomials(trials, p, 300), many(binomial, False, 300, trials, p))


def wrong_odds(k: int, mode: int, trials: int, odds: float) -> float:
    return log_binomial_ratio(k, mode, trials, 1.03 * odds)


def no_rejection(k: int, mode: int, trials: int, odds: float) -> float:
    return 1e9


@pytest.mark.parametrize(("mistaken", "count"), [(wrong_odds, 60_000), (no_rejection, 4000)])
def test_mistaken_rejections_are_seen(mistaken: Any, count: int) -> None:
    """Uncompiled, where functions can be replaced: draws of Binomial(30, .4); false alarm 1e-5."""

    def p_value(ratio: Any) -> float:
        draw = rebound(reject_binomial, reject_binomial.__globals__ | {"log_binomial_ratio": ratio})
        return fits_binomial(many(draw, False, count, 30, 0.4), 30, 0.4)

    assert p_value(log_binomial_ratio) > 1e-5
    assert p_value(mistaken) < 1e-5


def test_stirlings_formula() -> None:
    k = np.arange(0, 400)
    expected = special.gammaln(k + 1.0) - ((k + 0.5) * np.log(k + 1.0) - (k + 1) + np.log(2 * np.pi) / 2)
    np.testing.assert_allclose([stirling(int(one)) for one in k], expected, rtol=0, atol=5e-12)
    np.testing.assert_allclose(
        [log_binomial_ratio(one, 40, 100, 2 / 3) for one in range(101)],
        stats.binom(100, 0.4).logpmf(np.arange(101)) - stats.binom(100, 0.4).logpmf(40),
        atol=1e-10,
    )


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
