"""Jiang 2020: the exact numbers of the verdicts against ones that are computed another way."""

import math

import numpy as np
import pytest

from taciturn.bench.catalogue import load_studies
from taciturn.bench.results import Cell
from taciturn.policies.reference.optimal_stopping import threshold_table
from taciturn_papers.jiang2020 import claims, model
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
    assert claims.published_payment("two values", "quadratic") == pytest.approx(45 * 17 / 30 * a / 2)


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
