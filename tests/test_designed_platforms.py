"""Platforms that know how individuals answer, and a posted price learned from reports."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

import taciturn
from taciturn.envs import elicitation_v0
from taciturn.envs.elicitation.costs import QuadraticCost
from taciturn.envs.elicitation.game import Announcement
from taciturn.envs.elicitation.reporting import KaryReport
from taciturn.policies import (
    BayesianPrice,
    BestResponse,
    FiniteBestResponse,
    FlatRate,
    Genie,
    InformedPlatform,
    Mixture,
    OutputAgreement,
    PeerTruthSerum,
    PostedPrice,
    Truthful,
    UnderstatedTarget,
    Wintall,
)
from taciturn.policies.designed.elicitation import count_distribution, simplex_points, winners_share

SEED = 7_301  # of no other test's streams
THETA = np.array([0.5, 0.3, 0.2])


def market(num_envs: int = 1, **params: Any) -> Any:
    given = {"num_individuals": 20, "theta": 3, "horizon": 10, "target": (0.5, 2.0), "max_scale": 1e4}
    return elicitation_v0.population(num_envs, **{**given, **params})


def losses(platform: Any, individual: Any = None, num_envs: int = 40, **params: Any) -> Any:
    players = {"platform": platform, "individual": individual or BestResponse()}
    return taciturn.simulate(market(num_envs, **params), players, seed=SEED).metrics["loss"]


def better(one: Any, other: Any) -> bool:
    """Whether the mean of paired losses is lower by 4 standard errors."""
    gain = other - one
    return bool(gain.mean() > 4 * gain.std(ddof=1) / math.sqrt(len(gain)))


# The exact expectation of WINTALL's payments.


def by_counting(theta: Any, budgets: Any) -> float:
    """E[c / (M c - N)] by the enumeration of all tallies."""
    m, n, total = len(theta), len(budgets), 0.0
    distributions = KaryReport(m).distribution(theta, np.asarray(budgets))
    for reports in itertools.product(range(m), repeat=n):
        most = np.bincount(reports, minlength=m).max()
        worth = most / (m * most - n) if m * most > n else 0.0
        total += worth * float(np.prod(distributions[np.arange(n), list(reports)]))
    return total


def test_payments_by_hand() -> None:
    # Three uniform reports of two values: all alike with probability 1/4, worth 3/(6 - 3); else 2/(4 - 3).
    np.testing.assert_allclose(winners_share(np.array([0.6, 0.4]), 3)[0], 0.25 * 1 + 0.75 * 2)


@pytest.mark.parametrize("budgets", [(0.0, 0.4, 1.0, 2.5, 9.0), (0.3, 0.3, 0.3), (5.0, 0.0, 0.0, 0.1, 2.0, 2.0)])
def test_payments_are_those_of_all_tallies(budgets: tuple[float, ...]) -> None:
    eps = np.array(budgets)
    chance = count_distribution(eps / (eps + 3))
    np.testing.assert_allclose(chance @ winners_share(THETA, len(budgets)), by_counting(THETA, budgets), rtol=1e-12)


@pytest.mark.parametrize("size", [1, 7, 50])
def test_payments_of_equals_agree_with_the_game(size: int) -> None:
    for eps in (0.0, 0.5, 4.0, 60.0):
        distribution = KaryReport(3).distribution(THETA, eps)
        known = float(distribution @ Announcement("wintall", 0.7, 1.0).prizes(distribution[None], np.array([size - 1])))
        chance = count_distribution(np.full(size, eps / (eps + 3)))
        np.testing.assert_allclose((3 + 0.7) * 0.7 * (chance @ winners_share(THETA, size)), known, rtol=1e-9)


def test_the_law_of_a_number_of_successes() -> None:
    np.testing.assert_allclose(count_distribution(np.array([0.5, 0.2])), [0.4, 0.5, 0.1])


# The informed platform.


@pytest.mark.parametrize(
    ("shares", "params"),
    [
        ({"BestResponse": 1.0}, {}),
        ({"BestResponse": 2.0, "Truthful": 1.0}, {"cost_spread": 0.5}),
        ({"FiniteBestResponse": 1.0}, {"belief_concentration": math.inf}),
    ],
    ids=str,
)
def test_the_loss_is_the_one_that_it_expects(shares: dict[str, float], params: dict[str, Any]) -> None:
    runs = 3
    platform = InformedPlatform(shares)
    kinds = {"BestResponse": BestResponse, "FiniteBestResponse": FiniteBestResponse, "Truthful": Truthful}
    others = Mixture([(kinds[name](), share) for name, share in shares.items()])
    found = losses(platform, others, runs, horizon=200, **params)
    # The payment of a campaign varies by about its mean.
    spread = 4 * np.maximum(platform.expected_loss, 1e-3) / math.sqrt(200)
    assert (np.abs(found - platform.expected_loss) < spread + 1e-4).all()


@pytest.mark.parametrize("params", [{}, {"cost_spread": 0.5}], ids=str)
def test_nothing_beats_the_informed_platform(params: dict[str, Any]) -> None:
    best = losses(InformedPlatform(), **params)
    for other in (FlatRate(0.0), Wintall(), Wintall(0.3), Genie(), PostedPrice(), OutputAgreement(), PeerTruthSerum()):
        assert (best < losses(other, **params)).all(), other  # some losses have heavy tails
    assert best.mean() < losses(UnderstatedTarget(), **params).mean() + 1e-4


def test_whoever_computes_the_payment_is_not_misled() -> None:
    exact = {"belief_concentration": math.inf}
    lost = losses(UnderstatedTarget(), FiniteBestResponse(), 10, **exact)
    nothing = losses(FlatRate(0.0), FiniteBestResponse(), 10, **exact)
    best = losses(InformedPlatform({"FiniteBestResponse": 1.0}), FiniteBestResponse(), 10, **exact)
    assert abs(lost.mean() - nothing.mean()) < 0.05
    assert better(best, lost)
    assert better(best, losses(Wintall(), FiniteBestResponse(), 10, **exact))


@pytest.mark.parametrize(
    ("params", "message"),
    [({"reporting": "rappor"}, "reporting must be"), ({"num_individuals": 201}, "at most 200")],
    ids=str,
)
def test_where_the_informed_platform_cannot_act(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        losses(InformedPlatform(), num_envs=1, **params)


# The understated target.


def test_the_understated_target_by_hand() -> None:
    # g'(1) = 0.02; M = 3; ((1 + 3) / (1 + 3))^2 = 1 at the target itself, and (4 / 3.25)^2 at 0.25.
    cost = QuadraticCost(0.01)
    assert UnderstatedTarget(1.0).announcement(THETA, cost, 1.0).scale == pytest.approx(0.02)
    said = UnderstatedTarget(0.25).announcement(THETA, cost, 1.0)
    assert said.target == 0.25
    assert said.scale == pytest.approx(0.02 * (4 / 3.25) ** 2)


def test_individuals_who_believe_it_choose_what_is_desired() -> None:
    run = taciturn.simulate(
        market(10, cost_spread=0.5), {"platform": UnderstatedTarget(), "individual": BestResponse()}, seed=SEED
    )
    assert (run.metrics["shortfall"] < 1e-5).all()
    assert better(run.metrics["loss"], losses(Wintall(), num_envs=10, cost_spread=0.5))


# The posted price.


def test_the_points_fill_the_simplex() -> None:
    points = simplex_points(512, 4)
    np.testing.assert_allclose(points.sum(1), 1.0)
    # Dirichlet(1, 1, 1, 1): mean 1/4, variance 3/80.
    np.testing.assert_allclose(points.mean(0), 0.25, atol=0.01)
    np.testing.assert_allclose(points.var(0), 3 / 80, atol=0.005)


def test_reports_are_weighed_by_bayes_rule() -> None:
    env = market(1, num_individuals=10, theta=[0.5, 0.3, 0.2], target=1.0, rules=("posted_price",))
    platform = BayesianPrice(particles=3)
    platform.reset(env, np.random.default_rng(0), "platform")
    platform._points = np.array([[0.8, 0.1, 0.1], [0.4, 0.3, 0.3], [0.1, 0.1, 0.8]])
    platform._posted = np.array([0]), np.array([0.5])
    platform._learn(np.array([[6.0, 3.0, 1.0]]))
    chances = []
    for point in platform._points:
        # max of 0.5 (eps t + 1)/(eps + 3) - 0.01 eps^2, by a fine grid
        grid = np.linspace(0, 10, 1_000_001)
        eps = grid[np.argmax(0.5 * (grid * point[0] + 1) / (grid + 3) - 0.01 * grid**2)]
        chances.append(float(np.prod(((eps * point + 1) / (eps + 3)) ** [6, 3, 1])))
    found = np.exp(platform._log_weight[0])
    np.testing.assert_allclose(found / found.sum(), np.array(chances) / sum(chances), rtol=1e-4)


def test_learning_the_price_pays_where_theta_is_skewed() -> None:
    """With theta known to individuals, the price is soon that for the frequent value."""
    skewed: dict[str, Any] = {
        "theta": [0.1, 0.1, 0.8],
        "shuffle": True,
        "belief_concentration": math.inf,
        "num_individuals": 50,
    }
    learned = losses(BayesianPrice(), FiniteBestResponse(), **skewed)
    assert better(learned, losses(PostedPrice(), FiniteBestResponse(), **skewed))
    assert better(learned, losses(FlatRate(0.0), FiniteBestResponse(), **skewed))
