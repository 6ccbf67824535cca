"""Elicitation: closed forms against enumeration, the exact finite game, payments, what is seen, who answers what, and
at what speed."""

import itertools
import math
from copy import deepcopy
from decimal import Decimal, localcontext
from typing import Any

import gymnasium
import numpy as np
import pytest
from cases import platform_side
from distributions import fits
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import taciturn
from taciturn.compiling.counter_streams import sources_of
from taciturn.envs import elicitation_v0
from taciturn.envs.core import Array, ChannelConfig
from taciturn.envs.elicitation import campaign as replica
from taciturn.envs.elicitation.costs import Cost, ExponentialCost, LinearCost, LogCost, QuadraticCost, as_cost
from taciturn.envs.elicitation.game import Announcement, wins
from taciturn.envs.elicitation.payments import RULES, cheapest_epsilon, informativeness, winning_report
from taciturn.envs.elicitation.reporting import REPORTING, BitwiseReport, KaryReport, Reporting
from taciturn.policies import (
    BestResponse,
    FictitiousPlay,
    FiniteBestResponse,
    FlatRate,
    FreeRider,
    Genie,
    Hedge,
    Mixture,
    OutputAgreement,
    PostedPrice,
    Random,
    TargetQuality,
    Truthful,
    Wintall,
)
from taciturn.policies.families.best_response import best_epsilon, best_of_ratio, exploitability, theorem_2_holds
from taciturn.wrappers import Budget, Byzantine, Faulty, KaryRandomizedResponse, LossyChannel, UnaryEncoding

THETA = (0.4, 0.3, 0.2, 0.1)
FIXED: dict[str, Any] = {"theta": THETA, "target": 1.0}
THETAS = [(0.7, 0.3), (0.5, 0.3, 0.2), THETA, (0.3, 0.3, 0.2, 0.1, 0.1), (0.5, 0.1, 0.1, 0.1, 0.1, 0.1)]
COSTS: list[Cost] = [QuadraticCost(1.0), LinearCost(0.5), ExponentialCost(0.2)]
INF = math.inf
FALSE_ALARM = 1e-4
distributions = st.lists(st.floats(0.01, 1), min_size=2, max_size=6).map(lambda x: np.array(x) / sum(x))


def market(num_envs: int = 1, **params: Any) -> Any:
    """Elicitation with a fixed theta and desired budget."""
    return elicitation_v0.population(num_envs, **FIXED | params)


class TableReport(Reporting):
    """The general forms for the table and the derivative of another mechanism."""

    def __init__(self, of: Reporting) -> None:
        self.num_values, self.of = of.num_values, of

    def table(self, epsilon: Any) -> Array:
        return self.of.table(epsilon)

    def slope(self, epsilon: Any) -> Array:
        return self.of.slope(epsilon)


def reportings(num_values: int) -> list[Reporting]:
    return [KaryReport(num_values), BitwiseReport(num_values, "symmetric"), BitwiseReport(num_values, "optimised")]


# Mechanisms.


@pytest.mark.parametrize("num_values", [2, 3, 6])
@pytest.mark.parametrize("kind", range(3))
def test_tables_are_laws_of_the_stated_level(num_values: int, kind: int) -> None:
    reporting = reportings(num_values)[kind]
    for e in (0.0, 0.3, 2.0, 50.0):
        table = reporting.table(e)
        np.testing.assert_allclose(table.sum(0), 1, rtol=1e-12)
        assert (table.max(1) / table.min(1)).max() == pytest.approx(1 + e)
        step = 1e-6 * (1 + e)
        numeric = (reporting.table(e + step) - reporting.table(max(e - step, 0))) / (e + step - max(e - step, 0))
        np.testing.assert_allclose(reporting.slope(e), numeric, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(reporting.table(np.array([0.5, 1.5]))[1], reporting.table(1.5))


@pytest.mark.parametrize("e", [0.3, 2.0, 20.0])
def test_mechanisms_are_those_of_the_wrappers(e: float) -> None:
    kary = KaryRandomizedResponse(e, 4)
    np.testing.assert_allclose(np.diag(KaryReport(4).table(e)), kary.p)
    np.testing.assert_allclose(KaryReport(4).table(e)[0, 1:], kary.q)
    assert kary.epsilon == pytest.approx(math.log1p(e))
    for variant in ("symmetric", "optimised"):
        reporting = BitwiseReport(3, variant)
        mechanism = UnaryEncoding(math.log1p(e), variant)
        bits, one_hot = reporting.bits.astype(int), np.eye(3, dtype=int)
        for s in (0, 2):
            ratios = mechanism.log_likelihood_ratio(bits, np.tile(one_hot[s], (8, 1)), np.tile(one_hot[1], (8, 1)))
            np.testing.assert_allclose(np.log(reporting.table(e)[:, s] / reporting.table(e)[:, 1]), ratios, atol=1e-12)
        np.testing.assert_allclose(reporting.probabilities(e), (mechanism.p, mechanism.q))


@given(theta=distributions, e=st.floats(0.01, 30))
def test_general_forms_give_the_closed_ones(theta: Array, e: float) -> None:
    """(2.13)-(2.18) from a table, and as the paper works them out for k-ary response."""
    m, t = theta.size, theta.max()
    closed = KaryReport(m)
    general = TableReport(closed)
    np.testing.assert_allclose(general.distribution(theta, e), (e * theta + 1) / (e + m))
    np.testing.assert_allclose(general.distribution_slope(theta, e), (m * theta - 1) / (e + m) ** 2, atol=1e-15)
    np.testing.assert_allclose(general.estimate(closed.distribution(theta, e), e), theta, atol=1e-9)
    np.testing.assert_allclose(closed.estimate(closed.distribution(theta, e), e), theta, atol=1e-9)
    for reporting in (general, closed):
        found = informativeness(theta, e, reporting)
        assert found == pytest.approx((m * t - 1) / ((e + m) * (e * t + 1)), abs=1e-14)
        if m * t - 1 > 1e-6:
            x, slope = winning_report(theta, e, reporting)
            assert theta[x] == pytest.approx(t)
            assert slope == pytest.approx((m * t - 1) / (e + m) ** 2)
            # W at the true theta is (2.22) at the shares that theta makes.
            share = closed.distribution(theta, e)[x]
            assert 1 / slope == pytest.approx((m + e) * e / (m * share - 1), rel=1e-6)


@pytest.mark.parametrize("kind", range(3))
def test_reports_follow_their_table(kind: int) -> None:
    """Chi-square over reports at three budgets at once; false alarm 1e-4 in all. eps in place of eps + 1 would be
    found."""
    reporting, draws = reportings(3)[kind], 30_000
    budgets, values = np.repeat([0.0, 0.7, 4.0], draws), np.tile([0, 1, 2], draws)
    rng, m = sources_of(5, "", ("reports",), np.arange(1))[0], reporting.num_values

    def drawn(value: int, budget: float) -> int:
        if isinstance(reporting, BitwiseReport):
            return replica.unary_report(value, budget, m, reporting.variant == "symmetric", rng, 0)
        return replica.k_ary_report(value, budget, m, rng, 0)

    reports = np.array([drawn(*case) for case in zip(values.tolist(), budgets.tolist(), strict=True)])

    def p_value(reports: Array, shift: float) -> float:
        least = 1.0
        for e, s in itertools.product((0.0, 0.7, 4.0), range(3)):
            counts = np.bincount(reports[(budgets == e) & (values == s)], minlength=reporting.num_reports)
            distribution = reporting.table(max(e - shift, 0.0))[:, s]
            least = min(least, fits(counts, distribution))
        return least

    assert p_value(reports, 0.0) > FALSE_ALARM / 9
    assert p_value(reports, 0.3) < 1e-9


@pytest.mark.parametrize("shape", [0.05, 0.7, 1.0, 3.0, 400.0])
def test_gamma_variates(shape: float) -> None:
    """Kolmogorov-Smirnov over 20,000 draws; false alarm 1e-4 in all five. One percent more of the shape would be found
    at 400."""
    rng = sources_of(1, "", ("beliefs",), np.arange(1))[0]
    drawn = [replica.gamma(shape, rng, 0) for _ in range(20_000)]
    assert stats.kstest(drawn, stats.gamma(shape).cdf).pvalue > FALSE_ALARM / 5
    assert stats.kstest(drawn, stats.gamma(shape + (0.1 if shape < 100 else 0.01) * shape).cdf).pvalue < 1e-6


def test_beliefs_and_theta_follow_dirichlet_laws() -> None:
    """Each entry is a beta variate, and entries have the covariance of the law; Kolmogorov-Smirnov, false alarm 1e-4 in
    all.

    A concentration that is off by a tenth would be found; and where no number holds any mass, the mean is what remains.
    """
    replicas, concentration = 4_000, 3.0
    population = market(replicas, num_individuals=1, theta=4, belief_concentration=INF)
    population.reset(seed=3)
    theta = population.state.theta
    np.testing.assert_allclose(theta.sum(1), 1.0)
    p_values = [stats.kstest(theta[:, k], stats.beta(1, 3).cdf).pvalue for k in range(4)]
    np.testing.assert_array_equal(population.state.belief[:, 0], theta)
    population = market(replicas, num_individuals=1, belief_concentration=concentration)
    population.reset(seed=4)
    belief = population.state.belief[:, 0]
    for k, share in enumerate(THETA):
        p_values.append(stats.kstest(belief[:, k], stats.beta(3 * share, 3 * (1 - share)).cdf).pvalue)
    both = belief[:, 0] + belief[:, 1]
    p_values.append(stats.kstest(both, stats.beta(3 * 0.7, 3 * 0.3).cdf).pvalue)
    assert min(p_values) > FALSE_ALARM / 9
    assert stats.kstest(both, stats.beta(3.6 * 0.7, 3.6 * 0.3).cdf).pvalue < 1e-4
    population = market(2, num_individuals=3, belief_concentration=1e-300)
    population.reset(seed=5)
    np.testing.assert_allclose(population.state.belief, np.broadcast_to(THETA, (2, 3, 4)))


# Closed forms.


def test_the_bound() -> None:
    for theta, cost, e in itertools.product(THETAS, COSTS, (0.2, 1.0, 4.0)):
        m, t = len(theta), max(theta)
        closed = float(cost.marginal(e)) * (e + m) * (e * t + 1) / (m * t - 1)
        assert elicitation_v0.payment_lower_bound(theta, e, cost) == pytest.approx(closed, rel=1e-12)
        as_printed = float(cost.marginal(e)) * float(informativeness(theta, e))
        assert as_printed != pytest.approx(closed, rel=0.01)
        pair = (cost, cost.marginal)
        assert elicitation_v0.payment_lower_bound(theta, e, pair) == pytest.approx(closed, rel=1e-12)
    assert elicitation_v0.payment_lower_bound([0.25] * 4, 1.0, COSTS[0]) == INF
    batch = elicitation_v0.payment_lower_bound(np.array([THETA, THETA[::-1]]), np.array([1.0, 2.0]), COSTS[0])
    np.testing.assert_allclose(batch, [elicitation_v0.payment_lower_bound(THETA, e, COSTS[0]) for e in (1.0, 2.0)])


def test_the_bound_where_more_quality_is_cheaper() -> None:
    """g = log(1+eps): the minimum over eps >= target lies above the target, (2.17)."""
    theta = [0.2, *[0.8 / 9] * 9]
    at = np.linspace(1, 40, 2_000_001)
    prices = 1 / (1 + at) * (at + 10) * (0.2 * at + 1)
    assert elicitation_v0.payment_lower_bound(theta, 1.0, LogCost(1.0)) == pytest.approx(prices.min(), rel=1e-9)
    assert prices.min() < 0.9 * prices[0]


@given(theta=distributions, e=st.floats(0.01, 30), kind=st.integers(0, 3))
def test_the_cheapest_budget_in_closed_form(theta: Array, e: float, kind: int) -> None:
    """Under k-ary response, against a grid search with the same functions, whose type does not tell what they are."""
    cost = [*COSTS, LogCost(2.0)][kind]
    chosen, least = cheapest_epsilon(theta, e, cost)
    near, price = cheapest_epsilon(theta, e, as_cost((cost, cost.marginal)))
    assert chosen == pytest.approx(float(near), rel=1e-5)
    assert least == pytest.approx(float(price), rel=1e-9)
    closed = KaryReport(theta.size)
    assert least == pytest.approx(cheapest_epsilon(theta, e, cost, TableReport(closed))[1], rel=1e-6)


@pytest.mark.parametrize("kind", range(3))
def test_the_bound_is_what_a_genie_needs(kind: int) -> None:
    """Among payments by report that make the target optimal to first order, none is cheaper: the linear program of
    section 2.4."""
    from scipy.optimize import linprog

    reporting, theta, cost = reportings(3)[kind], np.array([0.5, 0.3, 0.2]), QuadraticCost(1.0)
    for e in (0.5, 2.0):
        distribution, slope = reporting.distribution(theta, e), reporting.distribution_slope(theta, e)
        cheapest = linprog(distribution, A_eq=slope[None], b_eq=[float(cost.marginal(e))])
        assert elicitation_v0.payment_lower_bound(theta, e, cost, reporting) == pytest.approx(cheapest.fun, rel=1e-6)


def all_reports(distribution: Array, size: int) -> Any:
    """Every vector of reports and its probability."""
    for x in itertools.product(range(distribution.size), repeat=size):
        yield np.array(x), float(np.prod(distribution[list(x)]))


@pytest.mark.parametrize("theta", THETAS)
@pytest.mark.parametrize("size", [1, 2, 5])
def test_error_of_the_estimate(theta: tuple[float, ...], size: int) -> None:
    m = len(theta)
    for e, played in ((1.0, 1.0), (2.0, 0.5)):
        distribution, squares = KaryReport(m).distribution(np.array(theta), played), np.zeros(m)
        for x, chance in all_reports(distribution, size):
            found = ((e + m) * np.bincount(x, minlength=m) / size - 1) / e
            squares += chance * (found - theta) ** 2
        np.testing.assert_allclose(elicitation_v0.estimator_error(theta, e, size, played), squares, rtol=1e-9)


def test_cost_families() -> None:
    e = np.array([0.0, 0.5, 2.0])
    for cost in (*COSTS, LogCost(2.0), as_cost((np.square, lambda x: 2 * x))):
        np.testing.assert_allclose((cost(e + 1e-6) - cost(e)) / 1e-6, cost.marginal(e), rtol=1e-4, atol=1e-5)
        assert cost(0.0) == 0
    for wrong in (3, (np.square,), "quadratic", (np.square, lambda x: -x), (np.square, lambda x: np.nan * x)):
        with pytest.raises(ValueError, match="cost"):
            as_cost(wrong)
    with pytest.raises(ValueError, match="c must be a finite number > 0"):
        QuadraticCost(0.0)


# The finite game.


def enumerated_wins(distributions: list[Array], first_of_ties: bool = False) -> Array:
    """`wins` by a look at all reports of the others; optionally with ties broken as they must not be."""
    m, found = distributions[0].size, np.zeros((distributions[0].size, len(distributions) + 2))
    for x in itertools.product(range(m), repeat=len(distributions)):
        chance = math.prod(float(distribution[v]) for distribution, v in zip(distributions, x, strict=True))
        for own in range(m):
            counts = np.bincount([*x, own], minlength=m)
            best = counts == counts.max()
            won = float(counts.argmax() == own) if first_of_ties else best[own] / best.sum()
            found[own, counts[own]] += chance * won
    return found


@pytest.mark.parametrize("theta", THETAS)
@pytest.mark.parametrize("others", [1, 2, 3, 5])
def test_who_wins(theta: tuple[float, ...], others: int) -> None:
    distribution = KaryReport(len(theta)).distribution(np.array(theta), 1.5)
    np.testing.assert_allclose(wins(distribution, [others]), enumerated_wins([distribution] * others), atol=1e-13)
    if others != 2 or distribution.size > 2:  # two values tie only if reports are even in number
        assert (
            np.abs(wins(distribution, [others]) - enumerated_wins([distribution] * others, first_of_ties=True)).max()
            > 1e-3
        )


def test_who_wins_against_a_mixed_crowd() -> None:
    reporting, theta = KaryReport(3), np.array([0.5, 0.3, 0.2])
    a, b, c = (reporting.distribution(theta, e) for e in (0.0, 1.0, 4.0))
    np.testing.assert_allclose(wins([a, b], [3, 2]), enumerated_wins([a] * 3 + [b] * 2), atol=1e-13)
    np.testing.assert_allclose(wins([a, b, c], [2, 0, 3]), enumerated_wins([a] * 2 + [c] * 3), atol=1e-13)
    with pytest.raises(ValueError, match="others must fall into fewer or smaller groups"):
        wins([a, b, c], [100, 100, 100])


@pytest.mark.parametrize("size", [7, 100, 1000])
def test_who_wins_in_a_crowd(size: int) -> None:
    """Against 200,000 tallies; each of M chances is off by more than 4.5 standard errors with probability below
    1e-5."""
    distribution, draws = KaryReport(4).distribution(np.array(THETA), 1.0), 200_000
    counts = np.random.default_rng(3).multinomial(size - 1, distribution, draws)
    chance = wins(distribution, [size - 1]).sum(1)
    for own in range(4):
        with_mine = counts + (np.arange(4) == own)
        best = with_mine == with_mine.max(1, keepdims=True)
        won = best[:, own] / best.sum(1)
        assert abs(won.mean() - chance[own]) < 4.5 * won.std() / math.sqrt(draws) + 1e-12


def enumerated_payment(theta: tuple[float, ...], e: float, cost: Cost, size: int) -> float:
    m, total = len(theta), 0.0
    for x, chance in all_reports(KaryReport(m).distribution(np.array(theta), e), size):
        most = int(np.bincount(x).max())
        if m * most != size:
            total += chance * most * float(cost.marginal(e)) * (m + e) * e / (m * most / size - 1)
    return total / size


@pytest.mark.parametrize("theta", [*THETAS, (0.5, 0.5), (1 / 3, 1 / 3, 1 / 3)])
@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_expected_payment(theta: tuple[float, ...], size: int) -> None:
    for e in (0.5, 2.0):
        exact = elicitation_v0.expected_payment(theta, e, QuadraticCost(0.7), size)
        assert exact == pytest.approx(enumerated_payment(theta, e, QuadraticCost(0.7), size), rel=1e-10)


def test_payment_tends_to_the_bound() -> None:
    """(2.21): 0.3% above at N = 100,000, after a detour."""
    ratios = [
        elicitation_v0.expected_payment(THETA, 1.0, COSTS[0], n)
        / elicitation_v0.payment_lower_bound(THETA, 1.0, COSTS[0])
        for n in (10, 1_000, 10_000, 100_000)
    ]
    assert ratios[0] < 0.5
    assert 1.1 > ratios[1] > ratios[2] > ratios[3] > 1
    assert ratios[3] < 1.003


def brute_best(theta: tuple[float, ...], e: float, cost: Cost, others: list[float]) -> tuple[float, float]:
    """Best budget and payoff, by a look at all reports of all, payments by (2.22) with ties split."""
    m, reporting = len(theta), KaryReport(len(theta))
    prizes = np.zeros(m)
    distributions = [reporting.distribution(np.array(theta), o) for o in others]
    for x in itertools.product(range(m), repeat=len(others)):
        chance = math.prod(float(distribution[v]) for distribution, v in zip(distributions, x, strict=True))
        for own in range(m):
            counts = np.bincount([*x, own], minlength=m)
            if counts[own] == counts.max() and m * counts.max() != len(others) + 1:
                paid = float(cost.marginal(e)) * (m + e) * e / (m * counts.max() / (len(others) + 1) - 1)
                prizes[own] += chance * paid / (counts == counts.max()).sum()

    def payoff(at: Array) -> Array:
        return reporting.distribution(np.array(theta), at) @ prizes - cost(at)

    low, high = 0.0, 40.0
    for _ in range(12):
        at = np.linspace(low, high, 401)
        best = at[np.argmax(payoff(at))]
        low, high = max(best - (high - low) / 100, 0.0), best + (high - low) / 100
    return float(best), float(payoff(np.array([best]))[0])


@pytest.mark.parametrize("cost", [*COSTS, LogCost(0.3)])
@pytest.mark.parametrize(
    ("theta", "others"),
    [
        (THETAS[0], []),
        (THETAS[0], [1.0] * 5),
        (THETAS[1], [1.0] * 4),
        (THETAS[1], [0.0, 0.0, 1.0, 3.0]),
        (THETA, [0.0] * 4),
        (THETA, [2.0, 2.0, 0.5]),
    ],
)
def test_finite_best_response(cost: Cost, theta: tuple[float, ...], others: list[float]) -> None:
    expected, payoff = brute_best(theta, 1.0, cost, others)
    found = FiniteBestResponse.solve(theta, 1.0, cost, len(others) + 1, others or None)
    assert found == pytest.approx(expected, abs=1e-5)
    away = FiniteBestResponse.solve(theta, 1.0, cost, len(others) + 3, [*others, math.nan, math.nan])
    assert away == pytest.approx(expected, abs=1e-5)
    gain = exploitability(
        Announcement("wintall", 1.0, float(cost.marginal(1.0))), [*others, expected], theta=theta, cost=cost
    )
    assert gain > -1e-9
    if not others:
        assert gain == pytest.approx(0.0, abs=1e-9)
        assert payoff >= 0


def test_finite_best_response_refuses_nonsense() -> None:
    with pytest.raises(ValueError, match="others must be one budget or 9"):
        FiniteBestResponse.solve(THETA, 1.0, COSTS[0], 10, [1.0, 2.0])
    with pytest.raises(ValueError, match="theta must be at least two numbers >= 0 that add up to 1"):
        FiniteBestResponse.solve((0.5, 0.6), 1.0, COSTS[0], 10)
    with pytest.raises(ValueError, match="profile must hold budgets >= 0"):
        exploitability(Wintall(1.0), [-1.0], theta=THETA, cost=COSTS[0])
    with pytest.raises(ValueError, match="target must be given"):
        exploitability(Wintall(), [1.0], theta=THETA, cost=COSTS[0])


def test_finite_best_response_to_a_thousand() -> None:
    assert 0 < FiniteBestResponse.solve(np.arange(1, 11) / 55, 1.0, COSTS[0], 1_000) < 2


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("theta", [(0.7, 0.3), THETA, (0.5, 0.1, 0.1, 0.1, 0.1, 0.1)])
def test_the_claimed_equilibrium_is_asymptotic(cost: Cost, theta: tuple[float, ...]) -> None:
    """What a deviation from the target gains, over the bound: much among few, nothing in the end. Everyone at 0 gains
    nothing at any N."""
    bound = elicitation_v0.payment_lower_bound(theta, 1.0, cost)
    announced = Announcement("wintall", 1.0, float(cost.marginal(1.0)))

    def gain(size: int, e: float) -> float:
        return exploitability(announced, np.full(size, e), theta=theta, cost=cost) / bound

    few, many = gain(5, 1.0), gain(30_000, 1.0)
    assert few > 2e-3
    assert -1e-9 < many < 1e-5
    assert many < few / 100
    assert [gain(size, 0.0) for size in (2, 10, 300)] == pytest.approx([0, 0, 0], abs=1e-9)


def test_the_cost_that_breaks_theorem_2() -> None:
    """g = log(1+eps): the target is no best response even in the limit; announced before, by a warning."""
    for cost in COSTS:
        for e, m in itertools.product((0.2, 1.0, 5.0), (2, 4, 10)):
            assert theorem_2_holds(cost, e, m)
    for e, m in itertools.product((0.2, 1.0, 5.0), (2, 4, 10)):
        assert not theorem_2_holds(LogCost(0.1), e, m)
    gain = exploitability(Wintall(1.0), np.full(30_000, 1.0), theta=THETA, cost=LogCost(1.0))
    assert gain > 0.01 * elicitation_v0.payment_lower_bound(THETA, 1.0, LogCost(1.0))
    population = market(cost=LogCost(0.1))
    with pytest.warns(UserWarning, match="Theorem 2 does not hold for LogCost"):
        taciturn.simulate(population, {"platform": Wintall(), "individual": TargetQuality()}, seed=0)


def test_theorem_2_for_the_confident() -> None:
    """Whatever the belief, the target is the confident individual's best response, (2.9)."""
    for cost in COSTS:
        population = market(4, num_individuals=50, cost=cost, belief_concentration=3.0, horizon=2)
        run = taciturn.simulate(population, {"platform": Wintall(), "individual": BestResponse()}, seed=0)
        np.testing.assert_allclose(population.state.budget, 1.0, atol=1e-5)
        np.testing.assert_allclose(run.metrics["shortfall"], 0.0, atol=1e-5)


# Payments.


@given(
    theta=st.one_of(distributions, st.integers(2, 6).map(lambda m: np.full(m, 1 / m))),
    size=st.integers(1, 12),
    e=st.floats(0.01, 10),
    rule=st.sampled_from(RULES),
    reporting=st.sampled_from(REPORTING),
    cap=st.sampled_from([1e6, 0.5]),
    seed=st.integers(0, 2**20),
)
@settings(max_examples=300)
def test_payments_are_sound(
    theta: Array, size: int, e: float, rule: str, reporting: str, cap: float, seed: int
) -> None:
    """Never negative, infinite or NaN, never above the cap; degenerate tallies are flagged and pay nothing; the
    accounts balance."""
    population = market(
        3,
        num_individuals=size,
        theta=theta,
        rules=(rule,),
        reporting=reporting,
        payment_cap=cap,
        penalty=2.0,
        horizon=3,
    )
    population.reset(seed=seed)
    rng, total = np.random.default_rng(seed), np.zeros(3)
    while not population.done.all():
        population.step({"platform": population.announce(rule, e, rng.uniform(0, 5), 1)})
        budgets = rng.choice([-1.0, 0.0, e, 10.0], (3, size, 1)).astype(np.float32)
        _, reward, _, _, info = population.step({"individual": budgets})
        paid, costs = info["payments"]["individual"], info["costs"]["individual"]
        assert np.isfinite(paid).all()
        assert (paid >= 0).all()
        assert (paid <= cap).all()
        assert np.isfinite(population.state.sums).all()
        total += paid.sum(1)
        np.testing.assert_allclose(info["total_payment"], paid.sum(1))
        np.testing.assert_allclose(reward["individual"], paid - costs)
        short = np.maximum(1 - np.maximum(budgets[..., 0].astype(float), 0), 0).sum(1)
        np.testing.assert_allclose(reward["platform"][:, 0], -paid.sum(1) - 2.0 * short)
        away = budgets[..., 0] < 0
        assert not paid[away].any()
        assert not costs[away].any()
        counts = population.state.counts
        np.testing.assert_array_equal(counts.sum(1), (~away).sum(1))
        if rule == "wintall":
            assert not paid[info["degenerate"]].any()
            if reporting == "k_ary":
                np.testing.assert_array_equal(info["degenerate"], theta.size * counts.max(1) == counts.sum(1))
                most = (counts == counts.max(1, keepdims=True)).sum(1)
                np.testing.assert_array_equal(info["tie"], (most > 1) & counts.any(1))
    np.testing.assert_allclose(population.metrics()["total_payment"], total)


@given(
    count=st.integers(0, 10**6),
    total=st.integers(0, 10**6),
    m=st.integers(2, 100),
    e=st.floats(0, 1e6),
    g=st.floats(0, 1e6),
)
def test_equation_2_22(count: int, total: int, m: int, e: float, g: float) -> None:
    paid = Wintall.payment(count, total, m, e, g)
    assert isinstance(paid, float)
    assert math.isfinite(paid)
    if m * count > total > 0:
        assert paid == pytest.approx(g * (m + e) * e / ((m * count - total) / total))
    else:
        assert paid == 0


def judge_all(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    replica.judge_k_ary(state, arrays, params, rng)
    replica.fill_prizes(state, arrays, params)


def evaluated(population: Any, counts: Array) -> tuple[Array, ...]:
    """(prize [B, x], chance [B, x], winner, tie, degenerate) of tallies [B, x] under k-ary response."""
    population.column("counts")[...] = counts
    population.apply(judge_all, np.ones(len(counts), np.bool_), population.constants(), 1)
    return tuple(population.column(name) for name in ("prize", "chance", "winner", "tie", "degenerate"))


def test_a_degenerate_tally() -> None:
    population = market(2, num_individuals=4, theta=(0.5, 0.5), rules=("wintall",))
    population.reset(seed=0)
    population.step({"platform": population.default_action("platform")})
    prize, chance, winner, tie, degenerate = evaluated(population, np.array([[2, 2], [3, 1]]))
    assert degenerate.tolist() == [True, False]
    assert tie.tolist() == [True, False]
    assert winner[1] == 0
    assert prize[0].tolist() == [0, 0]
    assert prize[1, 0] == pytest.approx(0.02 * 3 * 1 / (2 * 3 / 4 - 1))
    assert prize[1, 1] == 0
    assert (chance == 1).all()


def test_ties_are_broken_uniformly() -> None:
    """Binomial test of the first of two tied winners; false alarm 1e-4. First-index ties would be found."""
    rng = sources_of(0, "", ("ties",), np.arange(1))[0]
    won, tied = zip(*(replica.draw_winner(np.array([5, 2, 5]), rng, 0) for _ in range(4_000)), strict=True)
    assert all(tied)
    assert set(won) == {0, 2}
    assert stats.binomtest(won.count(0), 4_000).pvalue > FALSE_ALARM


@pytest.mark.parametrize("rule", RULES)
def test_payments_are_what_is_expected(rule: str) -> None:
    """Mean payment by own report against `Announcement.prizes`; four values, each off by 4.5 standard errors with
    chance below 1e-5.

    The reference of the serum is uniform in the first campaign, so each replica plays one.
    """
    size, replicas = 6, 20_000
    population = market(replicas, num_individuals=size, rules=(rule,), horizon=1)
    population.reset(seed=1)
    population.step({"platform": population.announce(rule, 1.0, 0.5, 2)})
    info = population.step({"individual": np.ones((replicas, size, 1), np.float32)}).info
    distribution = KaryReport(4).distribution(np.array(THETA), 1.0)
    expected = Announcement(rule, 1.0, 0.5, 2, np.full(4, 0.25)).prizes(distribution, np.array([size - 1]))
    for x in range(4):
        # One individual of each replica, so that they are independent.
        paid = info["payments"]["individual"][:, 0][population.column("received")[:, 0] == x]
        assert abs(paid.mean() - expected[x]) <= 4.5 * paid.std() / math.sqrt(paid.size) + 1e-6


def test_the_serum_divides_by_past_shares() -> None:
    population = market(num_individuals=50, rules=("peer_truth_serum",), horizon=3)
    population.reset(seed=0)
    action = population.announce("peer_truth_serum", 1.0, 0.5)
    seen = population.step({"platform": action}).observation["individual"]
    layout = population.roles["individual"].layout
    np.testing.assert_allclose(layout.unpack(seen)["reference"], 0.25)
    population.step({"individual": np.full((1, 50, 1), 10, np.float32)})
    counts = population.state.counts[0]
    seen = population.step({"platform": action}).observation["individual"]
    reference = (counts + 1) / (counts + 1).sum()
    np.testing.assert_allclose(layout.unpack(seen)["reference"][0, 0], reference, rtol=1e-6)
    prize, chance, *_ = evaluated(population, counts[None])
    np.testing.assert_allclose(prize[0], 0.5 / (4 * reference))
    np.testing.assert_allclose(chance[0], np.maximum(counts - 1, 0) / 49)


# What is seen, sent and spent.


def test_the_platform_sees_what_was_reported() -> None:
    population = market(num_individuals=10, horizon=4)
    population.reset(seed=0)
    tallies = np.zeros(4)
    for campaign in range(3):
        population.step({"platform": population.announce("posted_price", 2.0, 0.5, 3)})
        budgets = np.ones((1, 10, 1), np.float32)
        budgets[0, :4] = -1
        population.step({"individual": budgets})
        state = population.state
        tallies += state.counts[0]
        seen = population.roles["platform"].layout.unpack(population.observe()["platform"][0, 0])
        np.testing.assert_allclose(seen["shares"], state.counts[0] / 6, rtol=1e-6)
        np.testing.assert_allclose(seen["past_shares"], tallies / tallies.sum(), rtol=1e-6)
        assert seen["participation"] == pytest.approx(0.6)
        assert seen["payment"] == pytest.approx(0.5 * state.counts[0, 3] / 6)
        assert seen["time_left"] == pytest.approx(1 - (campaign + 1) / 4)
        announced = [float(seen[name]) for name in ("target", "scale", "rule", "value")]
        assert announced == [2.0, 0.5, 2.0, 3.0]


def test_the_accountant_shows_chosen_levels() -> None:
    """log(1+eps) of each report, added up over campaigns; the largest where an event is one value, which enters one
    report."""
    population = market(num_individuals=3, horizon=4, cost_spread=0.3)
    run = taciturn.simulate(
        population, {"platform": FlatRate(0.5), "individual": Mixture([(Truthful(2.0), 2), (FreeRider(), 1)])}, seed=0
    )
    accountant = run.accountant
    np.testing.assert_allclose(
        accountant.epsilon(0.0, "agent", "basic", unit="user"), [[4 * math.log(3), 4 * math.log(3), 0]]
    )
    np.testing.assert_allclose(accountant.epsilon(0.0, "agent", "basic", unit="event"), [[math.log(3), math.log(3), 0]])
    assert run.metrics["level"] == pytest.approx(2 / 3 * math.log(3))
    assert run.metrics["epsilon_message"] == run.metrics["epsilon_basic"] == pytest.approx(math.log(3))
    assert market().reset(seed=0) is not None
    assert population.accountant is accountant


def test_who_stays_away_spends_nothing() -> None:
    population = market(num_individuals=2)
    population.reset(seed=0)
    population.step({"platform": population.default_action("platform")})
    info = population.step({"individual": np.array([[[-0.5], [3.0]]], np.float32)}).info
    np.testing.assert_allclose(population.accountant.epsilon(0.0, "agent", "basic"), [[0, math.log(4)]])
    assert info["levels"]["individual"].tolist() == [[0, pytest.approx(math.log(4))]]
    assert info["payment"] == info["total_payment"] > 0
    assert info["messages"].tolist() == [1]
    assert population.channels["report"].messages().tolist() == [[0, 1]]


def test_a_budget_stops_reports() -> None:
    """Levels of log 3 under a budget of log 10: a third does not fit; who is stopped is not paid and has stayed
    away."""
    population = market(num_individuals=3, horizon=4)
    population.reset(seed=0, options={"channels": {"report": ChannelConfig(budget=Budget(math.log(10.0)))}})
    for campaign in range(4):
        population.step({"platform": population.announce("flat_rate", 1.0, 0.5)})
        info = population.step({"individual": np.full((1, 3, 1), 2.0, np.float32)}).info
        goes_on = campaign < 2
        assert info["total_payment"] == (1.5 if goes_on else 0.0)
        assert info["participation"] == goes_on
        assert info["budgets"]["individual"].tolist() == [[2.0 if goes_on else -1.0] * 3]
        for name, value in (("levels", math.log(3.0)), ("costs", population.params.cost(2.0))):
            np.testing.assert_allclose(info[name]["individual"], value if goes_on else 0.0)
    assert population.metrics()["participation"] == 0.5
    np.testing.assert_allclose(population.accountant.epsilon(0.0, "agent", "basic", unit="user"), 2 * math.log(3))


def test_reports_may_be_lost() -> None:
    population = market(num_individuals=400, horizon=2)
    lossy = Faulty(population, "report", LossyChannel(0.25))
    run = taciturn.simulate(lossy, {"platform": FlatRate(0.5), "individual": Truthful()}, seed=0)
    assert run.metrics["messages"].tolist() == [800]
    received = lossy.state.past.sum()
    assert 500 < received < 700
    assert run.metrics["total_payment"][0] == pytest.approx(0.5 * received)


@pytest.mark.parametrize("reporting", REPORTING)
def test_lies_that_no_individual_could_tell_do_not_count(reporting: str) -> None:
    """Half of ten individuals report what is no value; nobody else's report is lost, and nothing is paid for theirs."""
    population = market(3, num_individuals=10, theta=(0.5, 0.3, 0.2), reporting=reporting, horizon=2)
    lying = Faulty(population, "report", Byzantine(0.5, "constant", bounds=(0, 10**6)))
    taciturn.simulate(lying, {"platform": FlatRate(0.5), "individual": Truthful()}, seed=0)
    assert lying.state.counts.sum(1).tolist() == [5, 5, 5]
    np.testing.assert_allclose(lying.state.paid, 2.5)


@pytest.mark.parametrize("cost", [QuadraticCost(0.01), (lambda e: 0.01 * e**2, lambda e: 0.02 * e)])
@pytest.mark.parametrize("reporting", ["k_ary", "oue"])
def test_the_state_charges_what_the_channel_would(reporting: str, cost: Any) -> None:
    """Beside runs with a budget that stops nobody, whose reports pass the channel and are charged by the accountant."""
    params: dict[str, Any] = {"num_individuals": 4, "horizon": 5, "reporting": reporting, "cost": cost}
    bare, passing = market(3, **params), market(3, **params)
    passing.channel_configs["report"] = ChannelConfig(budget=Budget(1e6))
    rng = np.random.default_rng(0)
    for population in (bare, passing):
        population.reset(seed=0)
    for turn in range(9):
        if turn == 6:
            for population in (bare, passing):
                population.reset(where=np.array([True, False, False]))
        budgets = rng.choice([-1.0, 0.0, 0.5, 2.0], (3, 4, 1)).astype(np.float32)
        actions = {"platform": bare.default_action("platform")} if turn % 2 == 0 else {"individual": budgets}
        told = [population.step(actions).info for population in (bare, passing)]
        np.testing.assert_equal(*told)
    for unit in ("event", "user", None):
        np.testing.assert_array_equal(*(one.accountant.epsilon(0.0, unit=unit) for one in (bare, passing)))
    np.testing.assert_array_equal(*(one.accountant.odometer() for one in (bare, passing)))
    np.testing.assert_array_equal(*(one.accountant.messages("report") for one in (bare, passing)))
    np.testing.assert_array_equal(*(one.channels["report"].messages() for one in (bare, passing)))
    assert bare.accountant.table() == passing.accountant.table()
    np.testing.assert_equal(bare.metrics(), passing.metrics())


def test_a_accountant_keeps_its_run() -> None:
    """What a run has spent stays in its accountant when the next one begins, in the population and in copies of it."""
    population = market(num_individuals=2)
    population.reset(seed=0)
    for actions in ({"platform": population.default_action("platform")}, {"individual": np.ones((1, 2, 1))}):
        population.step(actions)
    first, copied = population.accountant, deepcopy(population)
    population.reset(seed=1)
    assert first is not population.accountant
    for accountant, spent in ((first, math.log(2)), (population.accountant, 0.0), (copied.accountant, math.log(2))):
        np.testing.assert_allclose(accountant.epsilon(0.0, unit="user"), spent)
    for actions in ({"platform": copied.default_action("platform")}, {"individual": np.ones((1, 2, 1))}):
        copied.step(actions)
    np.testing.assert_allclose(copied.accountant.epsilon(0.0, unit="user"), 2 * math.log(2))
    np.testing.assert_allclose(first.epsilon(0.0, unit="user"), math.log(2))


@pytest.mark.parametrize("size", [1, 2, 1_000, 100_000])
def test_any_number_of_individuals(size: int) -> None:
    population = market(num_individuals=size, horizon=2)
    for crowd in (Random(), TargetQuality(), BestResponse()):
        run = taciturn.simulate(population, {"platform": Wintall(), "individual": crowd}, seed=0)
        assert all(np.isfinite(value).all() for value in run.metrics.values())
    assert run.metrics["messages"][0] == 2 * size


# Who acts.


DECIMAL_COSTS: dict[type[Cost], tuple[Any, Any]] = {
    QuadraticCost: (lambda e: e * e, lambda e: 2 * e),
    LinearCost: (lambda e: e, lambda e: Decimal(1)),
    LogCost: (lambda e: (1 + e).ln(), lambda e: 1 / (1 + e)),
}


def best_by_bisection(kind: type[Cost], ratio: float, m: int, at_most: float) -> float:
    """The maximum of ratio eps / (eps + M) - g(eps), c = 1, to 60 digits: the best among the ends and the roots of the
    derivative."""
    g, marginal = DECIMAL_COSTS[kind]
    with localcontext(prec=60):
        exact, top = Decimal(ratio), min(Decimal(at_most), Decimal(10) ** 30)
        steps = (Decimal(10) ** k * j for k in range(-30, 30) for j in (1, 2, 5))
        grid = [Decimal(0), *(e for e in steps if e < top), top]
        rises = [exact * m / (e + m) ** 2 > marginal(e) for e in grid]
        candidates = [grid[0], top]
        for i in range(len(grid) - 1):
            if rises[i] and not rises[i + 1]:
                low, high = grid[i : i + 2]
                for _ in range(70):
                    middle = (low + high) / 2
                    low, high = (middle, high) if exact * m / (middle + m) ** 2 > marginal(middle) else (low, middle)
                candidates.append(low)
        return float(max(candidates, key=lambda e: exact * e / (e + m) - g(e)))


@pytest.mark.parametrize("kind", DECIMAL_COSTS)
def test_best_budgets_in_closed_form(kind: Any) -> None:
    """From payments that are worth nothing to enormous ones, and about the thresholds at which a best response jumps or
    leaves 0."""
    rng = np.random.default_rng(7)
    cases = [(0.0, 4, 10.0), (2.0, 2, INF), (np.nextafter(2.0, 3.0), 2, INF), (4.0, 4, INF), (4.0, 4, 1e-6)]
    for _ in range(150):
        m = int(rng.choice([2, 3, 4, 10, 100, 1000]))
        near, away = (1 + 10 ** rng.uniform(-15, 0)), rng.uniform(0.3, 1.0)
        at_most = float(rng.choice([INF, 10.0, 10 ** rng.uniform(-4, 4)]))
        ratios = 10 ** rng.uniform(-18, 18), m * near, m * away, 4 * (m - 1) / m * near
        cases += [(float(ratio), m, at_most) for ratio in ratios]
    found = [float(best_of_ratio(np.array(ratio), kind(), m, at_most)) for ratio, m, at_most in cases]
    np.testing.assert_allclose(found, [best_by_bisection(kind, *case) for case in cases], rtol=3e-14)
    # A cost twice as high is a gain half as high; and the search for costs of other kinds gives the same.
    at = np.geomspace(0.1, 1e4, 500)
    for bound in (INF, 3.0):
        closed = best_of_ratio(2 * at, kind(2.0), 5, bound)
        np.testing.assert_allclose(closed, best_of_ratio(at, kind(), 5, bound), rtol=1e-14)
        searched = best_of_ratio(at, as_cost((kind(), kind().marginal)), 5, bound)
        np.testing.assert_allclose(closed, searched, rtol=1e-11, atol=1e-11)
    assert (closed == 0).any() == (kind is not QuadraticCost)
    assert (closed == 3.0).any()


def test_a_cost_that_derives_from_another_is_its_own() -> None:
    """No closed form is taken for a function that it was not derived for."""

    class Cubic(QuadraticCost):
        def __call__(self, epsilon: Any) -> Array:
            return self.c * np.asarray(epsilon, np.float64) ** 3

        def marginal(self, epsilon: Any) -> Array:
            return 3 * self.c * np.square(epsilon)

    best = best_of_ratio(np.array(5.0), Cubic(1.0), 4)
    assert 5 * 4 / (best + 4) ** 2 == pytest.approx(3 * best**2)

    class Falling(QuadraticCost):
        def marginal(self, epsilon: Any) -> Array:
            return self.c / (1 + np.asarray(epsilon, np.float64)) ** 2

    assert cheapest_epsilon([0.6, 0.4], 1.0, Falling(1.0))[0] > 2


@given(
    scale=st.floats(0, 50), theta=distributions, factor=st.floats(0.2, 5), bounded=st.booleans(), kind=st.integers(0, 3)
)
@settings(max_examples=100)
def test_best_epsilon(scale: float, theta: Array, factor: float, bounded: bool, kind: int) -> None:
    cost = [QuadraticCost(0.3), LinearCost(0.3), LogCost(0.3), ExponentialCost(0.3)][kind]
    prizes, m = scale * np.arange(float(theta.size)), theta.size
    most = 3.0 if bounded else INF
    best, earned = best_epsilon(prizes, theta, cost, factor, at_most=most)
    at = np.linspace(0, 3 if bounded else 30, 30_001)
    payoff = KaryReport(m).distribution(theta, at) @ prizes - factor * cost(at)
    assert earned >= payoff.max() - 1e-9 * (1 + abs(payoff.max()))
    assert best <= most
    # First-order condition, or an end.
    slope = KaryReport(m).distribution_slope(theta, best) @ prizes - factor * cost.marginal(best)
    assert abs(slope) < 1e-6 * (1 + scale) or best == most or (best == 0 and slope < 0)


def test_costly_individuals_fall_short() -> None:
    """scale (e+M)^2 / (eps+M)^2 = g_i'(eps), whatever the belief."""
    population = market(3, num_individuals=40, cost_spread=0.6, belief_concentration=20.0, horizon=1)
    taciturn.simulate(population, {"platform": Wintall(1.5), "individual": BestResponse()}, seed=0)
    eps, factor = population.state.budget, population.state.factor
    np.testing.assert_allclose(0.03 * (5.5 / (eps + 4)) ** 2, factor * 0.02 * eps, rtol=1e-4)
    assert eps.std() > 0.1


@pytest.mark.parametrize("reporting", ["rappor", "oue"])
def test_the_confident_choose_the_target_under_other_mechanisms(reporting: str) -> None:
    """(2.9) for the general WINTALL, (2.15)-(2.18), on bits; and its payment is near the bound of that mechanism."""
    population = market(
        4, num_individuals=20_000, reporting=reporting, theta=(0.6, 0.25, 0.15), horizon=3, belief_concentration=50.0
    )
    run = taciturn.simulate(population, {"platform": Wintall(), "individual": TargetQuality()}, seed=0)
    assert run.metrics["payment_ratio"].mean() == pytest.approx(1.0, abs=0.1)
    assert run.metrics["error"].mean() < 0.01
    few = market(2, num_individuals=30, reporting=reporting, theta=(0.6, 0.25, 0.15), horizon=1)
    taciturn.simulate(few, {"platform": Wintall(), "individual": BestResponse()}, seed=0)
    np.testing.assert_allclose(few.state.budget, 1.0, atol=1e-4)


def test_a_best_response_counts_on_no_more_than_the_cap() -> None:
    """An amount that the cap cuts to .05 is answered like an amount of .05; one of .5 is not."""
    params: dict[str, Any] = {"num_individuals": 200, "theta": THETA, "horizon": 1}

    def chosen(amount: float, **cap: Any) -> float:
        env = elicitation_v0.population(1, **params, **cap)
        policies = {"platform": OutputAgreement(amount), "individual": BestResponse()}
        return float(taciturn.simulate(env, policies, seed=0).metrics["level"][0])

    assert chosen(0.5, payment_cap=0.05) == pytest.approx(chosen(0.05), rel=1e-6)
    assert chosen(0.5) > 1.2 * chosen(0.05) > 0


def test_finite_best_response_as_a_policy() -> None:
    population = market(2, num_individuals=30, belief_concentration=INF, horizon=2)
    taciturn.simulate(population, {"platform": Wintall(), "individual": FiniteBestResponse()}, seed=0)
    best = FiniteBestResponse.solve(THETA, 1.0, QuadraticCost(0.01), 30)
    np.testing.assert_allclose(population.state.budget, best, atol=1e-4)
    other = market(num_individuals=4, reporting="oue")
    with pytest.raises(ValueError, match="reporting must be one of 'k_ary'"):
        taciturn.simulate(other, {"platform": Wintall(), "individual": FiniteBestResponse()}, seed=0)


@pytest.mark.parametrize("platform", [Genie(), OutputAgreement(), PostedPrice(0)])
def test_platforms_elicit_what_they_aim_at(platform: Any) -> None:
    """The genie pays the bound; agreement makes the target an equilibrium; a posted price elicits something, here
    less."""
    announced = platform.announcement(np.array(THETA), QuadraticCost(0.01), 1.0)
    gain = exploitability(platform, np.ones(50), theta=THETA, cost=QuadraticCost(0.01), target=1.0)
    distribution = KaryReport(4).distribution(np.array(THETA), 1.0)
    bound = elicitation_v0.payment_lower_bound(THETA, 1.0, QuadraticCost(0.01))
    paid = float(distribution @ announced.prizes(distribution, np.array([49])))
    if isinstance(platform, PostedPrice) and not isinstance(platform, Genie):
        assert gain > 1e-4
        assert paid < bound
    else:
        assert gain == pytest.approx(0.0, abs=1e-9)
        assert paid == pytest.approx(bound) if isinstance(platform, Genie) else paid > 5 * bound


def test_free_riders_are_what_a_flat_rate_gets() -> None:
    for n in (2, 50):
        assert exploitability(FlatRate(0.3), np.zeros(n), theta=THETA, cost=COSTS[0], target=1.0) == pytest.approx(0)
        assert exploitability(FlatRate(0.3), np.ones(n), theta=THETA, cost=COSTS[0], target=1.0) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="max_scale must be at least"):
        taciturn.simulate(market(max_scale=0.1), {"platform": OutputAgreement(), "individual": FreeRider()}, seed=0)
    with pytest.raises(ValueError, match="rule must be one of 'wintall'"):
        taciturn.simulate(market(rules=("wintall",)), {"platform": Genie(), "individual": FreeRider()}, seed=0)


def symmetric_equilibrium(size: int) -> float:
    """The budget that is everyone's best response to itself, by bisection."""
    announced, reporting = Announcement("wintall", 1.0, 0.02), KaryReport(4)
    low, high = 0.0, 2.0
    for _ in range(30):
        middle = (low + high) / 2
        prizes = announced.prizes(reporting.distribution(np.array(THETA), middle), np.array([size - 1]))
        best = float(best_epsilon(prizes, np.array(THETA), QuadraticCost(0.01))[0])
        low, high = (middle, high) if best > middle else (low, middle)
    return low


@pytest.mark.parametrize("size", [500, 700])
def test_learners_converge(size: int) -> None:
    """To the symmetric equilibrium of the finite game, which lies below the target."""
    expected = symmetric_equilibrium(size)
    assert 0.5 < expected < 0.97
    gain = exploitability(Wintall(1.0), np.full(size, expected), theta=THETA, cost=QuadraticCost(0.01))
    assert gain < 1e-6
    population = market(num_individuals=size, belief_concentration=INF, horizon=250, rules=("wintall",))
    for learner, campaigns in ((FictitiousPlay(), 60), (Hedge(rate=10.0), 250)):
        taciturn.simulate(population, {"platform": Wintall(), "individual": learner}, seed=1, until=campaigns)
        assert population.state.budget.mean() == pytest.approx(expected, abs=0.05)


def test_hedge_weighs_by_payoff() -> None:
    """Against a flat rate nothing but cost matters: all weight goes to 0."""
    population = market(2, num_individuals=20, horizon=300)
    taciturn.simulate(population, {"platform": FlatRate(0.2), "individual": Hedge()}, seed=1)
    assert population.state.budget.mean() < 0.1


def test_mixtures() -> None:
    population = market(2, num_individuals=10, horizon=2)
    mixture = Mixture([(Truthful(4.0), 3), (FreeRider(), 5), (Hedge(), 2)])
    taciturn.simulate(population, {"platform": Wintall(), "individual": mixture}, seed=0)
    np.testing.assert_array_equal(population.state.budget[:, :8], [[4.0] * 3 + [0.0] * 5] * 2)
    with pytest.raises(ValueError, match="parts must hold at least one pair"):
        Mixture([])


def test_policies_know_their_place() -> None:
    with pytest.raises(ValueError, match="plays the platform of elicitation_v0, not 'individual'"):
        taciturn.simulate(market(), {"platform": Wintall(), "individual": Wintall()}, seed=0)


# The task of the platform.


def test_a_mixture_has_the_shares_that_were_asked_for() -> None:
    """The shortfall is 0 of those who are truthful and 1 of free riders. False alarms: below 1e-9 (Hoeffding)."""
    crowd = {"Truthful": 1.0, "FreeRider": 3.0}
    side = platform_side(20, individuals=crowd, num_individuals=200, horizon=3, target=1.0)
    side.reset(seed=0)
    while not side.done.all():
        side.step(np.zeros((20, 1, 1), np.float32))
    assert side.metrics()["shortfall"].mean() == pytest.approx(0.75, abs=0.06)


def test_elicitation_task() -> None:
    crowds: list[Any] = ["TargetQuality", {"BestResponse": 0.5, "Truthful": 0.5}, Mixture([(FreeRider(), 1.0)])]
    for crowd, shortfall in zip(crowds, (0.0, 0.0, 1.0), strict=True):
        env = gymnasium.make("taciturn/Elicitation-v0", individuals=crowd, num_individuals=200, horizon=3, target=1.0)
        assert env.action_space == gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
        env.reset(seed=0)
        for campaign in range(3):
            observation, reward, terminated, truncated, info = env.step(np.array([-0.5], np.float32))
            assert env.observation_space.contains(observation)
            assert not terminated
            assert truncated is (campaign == 2)
            assert reward == pytest.approx(-info["total_payment"] / 200 - shortfall, abs=0.1 / 200)
    with pytest.raises(ValueError, match="unknown policy 'Nobody'"):
        platform_side(individuals="Nobody")


@pytest.mark.parametrize("individuals", ["BestResponse", "Random", "Hedge"])
def test_the_task_is_the_same_run_as_arrays(individuals: str) -> None:
    """The single environment, whose steps go another way, gives what the only replica of arrays does, to the bit."""
    params: dict[str, Any] = {"individuals": individuals, "num_individuals": 7, "horizon": 3, "cost_spread": 0.3}
    env, arrays = gymnasium.make("taciturn/Elicitation-v0", **params), platform_side(1, **params)
    for seed in (0, 1):
        seen, told = env.reset(seed=seed)
        expected, info = arrays.reset(seed=seed)
        for share in (-0.9, 0.1, -0.5, None):
            np.testing.assert_array_equal(seen, expected[0, 0])
            np.testing.assert_equal(
                told, {key: value[0] for key, value in info.items() if key[0] != "_" and not isinstance(value, dict)}
            )
            if share is None:
                break
            seen, reward, *over, told = env.step(np.array([share], np.float32))
            step = arrays.step(np.array([[[share]]], np.float32))
            expected, info = step.observation, step.info
            assert [reward, *over] == [step.reward[0, 0], step.terminated[0], step.truncated[0]]
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.array([0.0], np.float32))
    env.reset(seed=2)
    with pytest.raises(ValueError, match="of role 'platform' must lie in"):
        env.unwrapped.step(np.array([2.0], np.float32))


CLOSED_COSTS = (QuadraticCost(0.01), LinearCost(0.05), LogCost(0.2))


@pytest.mark.parametrize("cost", CLOSED_COSTS, ids=repr)
def test_the_closed_form_is_the_best_response(cost: Cost) -> None:
    """To 1e-6, over announcements from nothing to enormous ones, beliefs that are certain, near uniform and uniform,
    and bounds that bind."""
    rng = np.random.default_rng(0)
    answers: list[float] = []
    for m, cap, most in ((2, 1e6, 8.0), (4, 0.5, 8.0), (7, 1e6, 0.3), (4, 1e-3, 1e3)):
        population = elicitation_v0.population(
            500, theta=m, num_individuals=6, cost=cost, cost_spread=0.8, rules=("wintall",), payment_cap=cap,
            max_epsilon=most, target=0.2, belief_concentration=20.0,
        )  # fmt: skip
        population.reset(seed=m)
        policy, layout = BestResponse(), population.roles["individual"].layout
        policy.reset(population, np.random.default_rng(0), "individual")
        observed = np.array(population.look("individual"))
        observed[..., layout.slices["target"]] = most * rng.random((500, 1, 1)) ** 3
        observed[..., layout.slices["scale"]] = 100 * rng.random((500, 1, 1)) ** 8
        observed[0, :, layout.slices["scale"]] = 0.0
        observed[1:50, :, layout.slices["belief"]] = 1 / m
        observed[50:80, :, layout.slices["belief"]] = np.eye(m)[0]
        observed[80:90, :, layout.slices["target"]] = 0.01
        expected, found, kept = policy.act(observed)[..., 0], np.zeros((500, 6, 1), np.float32), np.zeros(4)
        answer = policy.closed_form(population.view())
        assert answer is not None
        for at in np.ndindex(500, 6):
            answer(observed[at], population.constants(), kept, found[at])
        np.testing.assert_allclose(found[..., 0], expected, rtol=1e-6, atol=1e-9)
        answers += expected.ravel().tolist()
    assert len(set(answers)) > 100
    assert {0.0, np.float32(0.3)} <= set(answers)


@pytest.mark.parametrize("cost", [*CLOSED_COSTS, ExponentialCost(0.01)], ids=repr)
def test_answers_inside_the_campaign_are_those_of_act(cost: Cost) -> None:
    """A mixture of one has no closed form, and is asked; three runs each of the environment and of arrays."""
    params: dict[str, Any] = {"cost": cost, "num_individuals": 9, "horizon": 4, "cost_spread": 0.4}
    shares = np.random.default_rng(0).uniform(-1, 1, (12, 3, 1, 1)).astype(np.float32)
    asked: list[Any] = [BestResponse(), Mixture([(BestResponse(), 1.0)])]
    inside, outside = (platform_side(3, individuals=policy, **params) for policy in asked)
    alone, other = (gymnasium.make("taciturn/Elicitation-v0", individuals=p, **params) for p in asked)
    for turn, share in enumerate(shares):
        if turn % 4 == 0:
            seen = [env.reset(seed=turn)[0] for env in (inside, outside)]
            np.testing.assert_array_equal(*seen)
            np.testing.assert_equal(alone.reset(seed=turn), other.reset(seed=turn))
        elif turn % 4 == 2:
            for env in (inside, outside):
                env.reset(where=np.array([False, True, False]))
        first, then = (env.step(share) for env in (inside, outside))
        np.testing.assert_allclose(first.observation, then.observation, rtol=1e-6)
        np.testing.assert_allclose(first.reward, then.reward, rtol=1e-6)
        assert first.info.keys() == then.info.keys()
        for one, two in zip(alone.step(share[0, 0]), other.step(share[0, 0]), strict=True):
            if isinstance(one, dict):
                assert list(one) == list(two)
                for key in one:
                    np.testing.assert_allclose(one[key], two[key], rtol=1e-6, err_msg=key)
            else:
                np.testing.assert_allclose(one, two, rtol=1e-6)
    for name, values in inside.metrics().items():
        np.testing.assert_allclose(values, outside.metrics()[name], rtol=1e-6, err_msg=name)


def test_no_closed_form_replaces_what_is_overridden() -> None:
    class StaysAway(BestResponse):
        def act(self, obs: Array, mask: Array | None = None) -> Array:
            return np.full((*obs.shape[:2], 1), -1.0, np.float32)

    class Doubts(BestResponse):
        def beliefs(self, seen: dict[str, Array]) -> Array:
            return np.full(seen["belief"].shape, 0.25)

    alone = BestResponse()
    alone.act = StaysAway().act  # type: ignore[method-assign]
    for policy, level in ((StaysAway(), None), (alone, None), (Doubts(), 0.0), (BestResponse(), 1.0)):
        env = platform_side(2, individuals=policy, num_individuals=5)
        env.reset(seed=0)
        info = env.step(np.zeros((2, 1, 1), np.float32)).info
        assert (info["participation"] == (level is not None)).all()
        assert ((info["levels"]["individual"] > 0) == bool(level)).all()
    env.reset(options={"channels": {"report": ChannelConfig(budget=Budget(0.01))}})
    assert (env.step(np.zeros((2, 1, 1), np.float32)).info["participation"] == 0).all()


def test_paying_the_marginal_cost_is_worth_it() -> None:
    """Against best responders the platform does best near WINTALL's own scale: less buys less than the target, more
    costs more."""
    side = platform_side(200, num_individuals=1_000, horizon=1, **FIXED)

    def worth(scale: float) -> float:
        side.reset(seed=0)
        action = np.full((200, 1, 1), scale / 2 - 1, np.float32)
        return float(side.step(action).reward.mean())

    assert worth(1.0) > max(worth(0.5), worth(0.8), worth(1.25), worth(2.0))


@pytest.mark.slow
def test_ppo_learns_what_wintall_pays() -> None:
    """From twice WINTALL's scale, against best responders: payment within 10% of WINTALL's at the same error of the
    estimate."""
    stable_baselines3 = pytest.importorskip("stable_baselines3")
    torch = pytest.importorskip("torch")
    from stable_baselines3.common.vec_env import VecNormalize

    from taciturn.wrappers.sb3 import RowsVecEnv

    shape: dict[str, Any] = {"num_individuals": 200, "payment_cap": 3.0, "penalty": 0.6, "horizon": 1, **FIXED}
    rows = VecNormalize(RowsVecEnv(platform_side(48, **shape), seed=0), gamma=0.0)
    learner = stable_baselines3.PPO(
        "MlpPolicy",
        rows,
        n_steps=16,
        batch_size=256,
        n_epochs=8,
        gamma=0.0,
        gae_lambda=0.0,
        seed=0,
        device="cpu",
        learning_rate=lambda left: 3e-3 * left,
        policy_kwargs={"net_arch": [16], "log_std_init": -1.3},
    )
    with torch.no_grad():
        learner.policy.action_net.bias[:] = 0.1

    def paid_and_missed() -> tuple[float, float]:
        side = platform_side(400, **shape)
        seen, _ = side.reset(seed=1)
        action, _ = learner.predict(rows.normalize_obs(seen[:, 0]), deterministic=True)
        side.step(np.clip(action, -1, 1)[:, None])
        return float(side.metrics()["payment"].mean()), float(side.metrics()["error"].mean())

    population = market(400, **shape)
    run = taciturn.simulate(population, {"platform": Wintall(), "individual": BestResponse()}, seed=1)
    payment, error = float(run.metrics["payment"].mean()), float(run.metrics["error"].mean())
    assert paid_and_missed()[0] > 1.5 * payment
    learner.learn(48 * 16 * 40)
    learned, missed = paid_and_missed()
    assert learned == pytest.approx(payment, rel=0.1)
    assert missed == pytest.approx(error, rel=0.1)


def test_a_platform_can_mislead_those_who_trust_it() -> None:
    """A low target and a high scale promise the confident what the tally will not pay: the same budgets for less than
    the bound."""
    population, individuals = market(50, num_individuals=2_000, horizon=1, rules=("wintall",), **FIXED), BestResponse()
    paid, chosen = [], []
    for target, scale in ((1.0, 0.02), (0.2, 0.02 * 25 / 4.2**2)):
        seen, _ = population.reset(seed=0)
        individuals.reset(population, np.random.default_rng(0), "individual")
        seen = population.step({"platform": population.announce("wintall", target, scale)}).observation
        population.step({"individual": individuals.act(seen["individual"])})
        paid.append(float(population.metrics()["payment"].mean()))
        chosen.append(float(population.state.budget.mean()))
    assert chosen == pytest.approx([1.0, 1.0], abs=1e-3)
    assert paid[1] < 0.3 * paid[0]
    assert paid[1] < 0.3 * elicitation_v0.payment_lower_bound(THETA, 1.0, QuadraticCost(0.01))


@pytest.mark.parametrize("reporting", ["rappor", "oue"])
def test_the_genie_pays_the_bound_of_every_mechanism(reporting: str) -> None:
    """Its payment to best responders, over 4 x 2,000 reports, within 4.5 standard errors."""
    population = market(
        4, num_individuals=2_000, theta=(0.6, 0.25, 0.15), reporting=reporting, horizon=1, belief_concentration=INF
    )
    run = taciturn.simulate(population, {"platform": Genie(), "individual": BestResponse()}, seed=0)
    assert run.metrics["shortfall"].max() < 1e-4
    price = float(population.state.scale[0])
    spread = price / 2 / math.sqrt(8_000)
    assert abs(run.metrics["payment"].mean() - population.state.bound[0]) < 4.5 * spread


def test_nothing_can_be_bought_where_theta_is_uniform() -> None:
    population = market(2, num_individuals=9, theta=(0.5, 0.5), horizon=2)
    with pytest.raises(ValueError, match="amount must be given if theta is uniform"):
        taciturn.simulate(population, {"platform": FlatRate(), "individual": FreeRider()}, seed=0)
    for platform in (Genie(), OutputAgreement()):
        run = taciturn.simulate(population, {"platform": platform, "individual": BestResponse()}, seed=0)
        assert run.metrics["total_payment"].tolist() == [0, 0]
        assert run.metrics["payment_ratio"].tolist() == [0, 0]
