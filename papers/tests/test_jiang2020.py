"""Jiang 2020: the exact numbers of the verdicts against ones that are computed another way."""

import functools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taciturn.bench.catalogue import load_studies
from taciturn.bench.results import Cell
from taciturn.envs import federated_training_v0
from taciturn.envs.federated_training.classifiers import Softmax, epoch_order, federated_average
from taciturn.envs.federated_training.datasets import Dataset, load_digits, partition
from taciturn.policies.reference.optimal_stopping import threshold_table
from taciturn.validation import Floats
from taciturn_papers.jiang2020 import model
from taciturn_papers.jiang2020.claims.theorems_1_2 import published_payment
from taciturn_papers.jiang2020.reward_curve import fit_hyperbolic, measure_reward_curve
from taciturn_papers.jiang2020.settings import COSTS, PARTS, learning


def test_the_bounds_of_theorem_1_by_hand() -> None:
    """M = 2, t = .7, eps >= 1: A(1) = .4 / (3 * 1.7). An exponential cost has its least g' A and g'/A at 1; for a
    linear one g' A falls to 0."""
    a = 0.4 / (3 * 1.7)
    assert model.bounds_of_theorem_1("two values", "exponential", 1.0) == pytest.approx((math.e * a, math.e / a))
    printed, written = model.bounds_of_theorem_1("two values", "linear", 1.0)
    assert printed < 1e-9
    assert written == pytest.approx(1 / a)
    # (2.22) at a share of 17/30: 2 * 3 * 1 / (2 * 17/30 - 1) = 45 to 17 of 30, which is 2 / A for a quadratic cost.
    assert published_payment("two values", "quadratic") == pytest.approx(45 * 17 / 30 * a / 2)


def test_a_cost_that_the_theorem_does_not_cover_leaves_the_target() -> None:
    """Two thirds believed of one of two values: a linear cost keeps the target, a logarithmic one need not."""
    assert model.trusted_response("linear") == pytest.approx(1, abs=1e-5)
    assert abs(model.trusted_response("logarithmic") - 1) > 0.5
    assert set(model.COVERED) == set(COSTS) - {"logarithmic"}


def test_the_best_actions_are_those_of_the_thresholds() -> None:
    for parameters, solution in list(model.small_models())[:4]:
        stop, waiting = model.actions(parameters, solution.rate)
        clients = solution.model.num_clients
        table = threshold_table(clients, *solution.thresholds)
        for k in range(clients):
            for beta in range(clients - k + 1):
                assert bool(waiting[k, beta] > stop[k]) == bool(table[k, beta])
        assert model.top(solution.model, solution.rate) == solution.thresholds[0]


def test_values_over_time_are_those_without_it() -> None:
    parameters, solution = next(pair for pair in model.small_models() if pair[0]["compute_probability"] > 0.1)
    values = model.best_values(parameters, solution.rate)
    states, first, second = model.values_over_time(solution.model, solution.rate, 4000)
    assert first == pytest.approx([values[state] for state in states], abs=1e-12)
    assert second == pytest.approx(first - solution.rate * 0.05, abs=1e-12)


def test_lemmas_fail_where_k_star_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    assert model.lemmas_4_and_5()[0] < 0 < model.lemmas_4_and_5()[1]
    right = model.top
    monkeypatch.setattr(model, "top", lambda known, price: max(right(known, price) - 1, 0))
    assert model.lemmas_4_and_5()[0] > 0
    monkeypatch.setattr(model, "top", lambda known, price: min(right(known, price) + 1, known.num_clients))
    assert model.lemmas_4_and_5()[1] < 0


def test_bounds_and_terms_of_the_stated_model_by_hand() -> None:
    """R(1) = .031 after 501.6 slots and 3 s; k* = 9, and s + 1 states have s = k + beta clients and 101 - s terms."""
    assert model.solve().bounds[0] == pytest.approx(0.031 / 8.016)
    first, second, _ = model.corollaries()
    assert model.solve().bounds[0] / model.solve().optimal_rate <= first < 1
    assert model.solve().optimal_rate / model.solve().bounds[1] <= second < 1
    assert model.terms(100) == sum((s + 1) * (101 - s) for s in range(9))


def test_tolerances_of_section_3_4_1() -> None:
    """Algorithm 2's sigma over the round's time; the slowest of 100 geometric times by its distribution."""
    assert pytest.approx(0.001 / model.solve().durations["optimal"], rel=0.01) == 0.00031
    slots = np.arange(20_000)
    below = (1 - (1 - 1 / 500) ** slots) ** 100
    mass = np.diff(below, append=1.0)
    mean = (mass * slots).sum()
    assert model.slowest_geometric_sd() == pytest.approx(0.01 * math.sqrt((mass * (slots - mean) ** 2).sum()), rel=0.01)


def test_losses_of_a_training_are_those_of_its_curve() -> None:
    config = learning("geometric", "FixedCount", {"k": 10}, 20.0)
    found = load_studies()["jiang2020-3-3"].run(Cell("jiang2020-3-3", config, 0))
    time, loss = (np.asarray(x) for x in found.curves["test_loss"])
    for part in PARTS:
        assert found.metrics[f"loss_{part}"] == loss[np.isclose(time, 0.2 * part)][0]
    assert found.metrics["loss_25"] > found.metrics["loss_100"]


@functools.cache
def few_digits() -> Dataset:
    data = load_digits()
    return replace(data, train_x=data.train_x[:200], train_y=data.train_y[:200])


def curve_of(rounds: int = 2, replicas: int = 2, seed: int = 0, **params: Any) -> Floats:
    given: dict[str, Any] = {"num_clients": 5, "data": few_digits()} | params
    env = federated_training_v0.population(**given)
    return measure_reward_curve(env, seed, rounds=rounds, replicas=replicas)


def test_the_reward_curve_is_hyperbolic() -> None:
    env = federated_training_v0.population(num_clients=50)
    mean = measure_reward_curve(env, 0, rounds=10, replicas=10)
    assert mean[0] == 0
    assert mean[1] < mean[5] < mean[50]
    paper, second_order = fit_hyperbolic(mean), fit_hyperbolic(mean, offset=0)
    assert paper.c > 0
    assert paper.a > 0
    assert paper.r_squared > 0.9
    assert second_order.r_squared > 0.99


def test_the_reward_curve_of_clients_that_differ_begins_below_0() -> None:
    iid, skewed = (curve_of(5, 5, num_clients=20, data=load_digits(), concentration=c) for c in (None, 0.3))
    assert skewed[1] < 0 < iid[1]


def test_the_reward_curve_ends_with_what_a_full_round_earns() -> None:
    data, model, rng = few_digits(), Softmax(), np.random.default_rng(3)
    samples = partition(data.train_y, 10, rng)
    samples = samples[rng.permutation(10)]
    order = epoch_order(samples, 1, rng)
    start = np.zeros((10, model.num_parameters), np.float32)
    updates = model.local_update(start, data.train_x, data.train_y, order, learning_rate=0.2, batch_size=10)
    after = federated_average(start[:1], updates[None], (samples >= 0).sum(-1)[None])
    (before, later), _ = model.evaluate(np.concatenate([start[:1], after]), data.test_x, data.test_y)
    assert curve_of(1, 1, 3, num_clients=10, learning_rate=0.2)[10] == pytest.approx(before - later, abs=1e-6)


@pytest.mark.parametrize(
    "change",
    [{"parts": 7}, {"concentration": 0.05}, {"learning_rate": 0.05}, {"epochs": 2}, {"batch_size": 5}, {"seed": 1}],
    ids=str,
)
def test_the_reward_curve_is_that_of_the_environment(change: dict[str, Any]) -> None:
    assert not np.array_equal(curve_of(**change), curve_of())
    assert np.array_equal(curve_of(), curve_of())


@pytest.mark.parametrize("name", ["rounds", "replicas"])
def test_settings_of_a_reward_curve_are_checked(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be an integer >= 1"):
        curve_of(**{name: 0})


def test_the_default_reward_of_training_is_a_fit_of_the_reward_curve() -> None:
    env = federated_training_v0.population()
    fit = fit_hyperbolic(measure_reward_curve(env, 0))
    np.testing.assert_allclose(env.params.rewards[1:], fit.c - fit.a / np.arange(2, 102), atol=1e-3)


@given(c=st.floats(-10, 10), a=st.floats(0.01, 10), offset=st.floats(-0.5, 3), num_clients=st.integers(3, 200))
def test_a_fit_finds_an_exact_hyperbola(c: float, a: float, offset: float, num_clients: int) -> None:
    curve = np.append(0, c - a / (np.arange(1, num_clients + 1) + offset))
    np.testing.assert_allclose(fit_hyperbolic(curve, offset), (c, a, 1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("curve", [[0, 1, 2], [0, 1, math.nan, 2]])
def test_a_curve_to_be_fitted_is_checked(curve: list[float]) -> None:
    with pytest.raises(ValueError, match="curve must be at least 4"):
        fit_hyperbolic(np.array(curve))
