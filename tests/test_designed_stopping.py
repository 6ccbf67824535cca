"""The best deadline, a few large rounds, and one client's images alone."""

import math
from typing import Any

import numpy as np
import pytest

import taciturn
from taciturn.envs import federated_training_v0, round_stopping_v0
from taciturn.envs.federated_training.datasets import load_digits
from taciturn.envs.round_stopping.model import Model
from taciturn.envs.round_stopping.world import WAIT, Params
from taciturn.policies import BestDeadline, Deadline, FewRounds, FixedCount, OptimalStopping, StagedCount
from taciturn.policies.designed.round_stopping import deadline_rates

SEED = 7_302


def test_a_deadline_by_hand() -> None:
    """One client: it computes in slot 1 with probability p, and uploads from slot 2 on."""
    m = Model(
        num_clients=1, broadcast_time=2.0, slot_time=1.0, upload_probability=0.5, compute_probability=0.25,
        reward=[0.0, 8.0],
    )  # fmt: skip
    rates = deadline_rates(m, 3)
    # After two slots the update is there with probability p mu; after three with p mu + p (1-mu) mu + (1-p) p mu.
    two, three = 0.25 * 0.5, 0.25 * 0.5 + 0.25 * 0.25 + 0.75 * 0.25 * 0.5
    np.testing.assert_allclose(rates, [0, 0, 8 * two / 4, 8 * three / (5 - two)])


@pytest.mark.parametrize("slots", [7, 30])
def test_the_rate_of_a_deadline_is_that_of_sessions(slots: int) -> None:
    params: dict[str, Any] = {"num_clients": 12, "compute_probability": 0.02, "broadcast_time": 0.2, "horizon": 200.0}
    world = round_stopping_v0.population(40, objective="rate", **params)
    found = taciturn.simulate(world, Deadline(slots), seed=SEED).metrics["rate"]
    exact = deadline_rates(Params(**params), slots)[slots]
    assert abs(found.mean() - exact) < 4 * found.std(ddof=1) / math.sqrt(len(found)) + 1e-3 * exact


@pytest.mark.parametrize(
    "params", [{}, {"num_clients": 10}, {"upload_probability": 0.1}, {"broadcast_time": 0.3}], ids=str
)
def test_looking_is_worth_something(params: dict[str, Any]) -> None:
    rule = BestDeadline(150)
    rule.prepare(Params(**params))
    assert rule.rate == deadline_rates(Params(**params), 150)[rule.slots]
    named = {key: value for key, value in params.items() if key != "horizon"}
    assert rule.rate < 0.99 * OptimalStopping.solve(**named).rate


def test_the_best_deadline_plays_it() -> None:
    rule = BestDeadline(40)
    world = round_stopping_v0.population(3, horizon=20.0)
    found = taciturn.simulate(world, rule, seed=SEED).metrics
    other = taciturn.simulate(round_stopping_v0.population(3, horizon=20.0), Deadline(30), seed=SEED).metrics
    assert rule.slots == 30
    np.testing.assert_array_equal(found["rate"], other["rate"])


def test_pareto_times_have_no_exact_deadline() -> None:
    with pytest.raises(ValueError, match="time_distribution must be"):
        taciturn.simulate(round_stopping_v0.population(1, time_distribution="pareto"), BestDeadline(), seed=0)


@pytest.mark.parametrize(("rounds", "k"), [(0, 2), (1, 2), (3, 1)])
def test_no_more_rounds_than_said(rounds: int, k: int) -> None:
    world = round_stopping_v0.population(4, num_clients=30, horizon=8.0, broadcast_time=0.5)
    for _ in range(2):  # a second session starts afresh
        found = taciturn.simulate(world, rule := FewRounds(k, rounds), seed=SEED).metrics
        assert (found["rounds"] == rounds).all()
        assert rounds == 0 or (found["mean_updates"] == k).all()
        assert (rule._started == rounds + 1).all()


def test_few_rounds_are_better_under_a_total() -> None:
    """Clients that send once: rounds of those few who have not sent yet do harm."""
    budget = taciturn.wrappers.Budget(10.0, 1e-5, method="rdp")
    noise = taciturn.wrappers.Gaussian(10.0, 1e-6)

    def loss(policy: Any) -> Any:
        world = federated_training_v0.population(16, clip_norm=0.3)
        private = taciturn.wrappers.Privatize(world, "update", noise, budget=budget)
        return taciturn.simulate(private, policy, seed=SEED).metrics["test_loss"]

    few, many = loss(FewRounds(50, 1)), loss(FixedCount(50))
    gain = many - few
    assert gain.mean() > 4 * gain.std(ddof=1) / math.sqrt(len(gain)) > 0


# One client alone.


def test_parts_of_the_images() -> None:
    labels = load_digits().train_y
    alone = federated_training_v0.population(3, num_clients=1, parts=100)
    alone.reset(seed=SEED)
    held = alone.state.samples
    assert held.shape == (3, 1, 15)  # 1,438 images in 100 parts
    assert set((held >= 0).sum(-1).ravel()) <= {14, 15}
    assert len(labels) == 1438
    whole = federated_training_v0.population(3, num_clients=100)
    whole.reset(seed=SEED)
    np.testing.assert_array_equal(held[:, 0], whole.state.samples[:, 0])


def test_a_client_alone_learns_less() -> None:
    """Over 64 runs of another seed the losses differ by .70 and have deviations of .19 and .02; false alarms: 1e-4."""
    runs = 32
    alone = federated_training_v0.population(runs, num_clients=1, parts=100, broadcast_time=1e-3)
    together = federated_training_v0.population(runs)
    less = taciturn.simulate(alone, FixedCount(1), seed=SEED).metrics["test_loss"]
    more = taciturn.simulate(together, FixedCount(2), seed=SEED).metrics["test_loss"]
    assert less.mean() - more.mean() > 4 * less.std(ddof=1) / math.sqrt(runs) + 0.2


def test_fewer_parts_than_clients_are_refused() -> None:
    with pytest.raises(ValueError, match="parts must be"):
        federated_training_v0.population(1, num_clients=10, parts=9)
    with pytest.raises(ValueError, match="parts must be"):
        federated_training_v0.population(1, num_clients=10, parts=5000)


def test_rounds_grow_from_part_to_part_of_the_run() -> None:
    """By hand: at each time left the updates that are waited for."""
    world = taciturn.envs.round_stopping_v0.population(1, num_clients=5, horizon=8.0)
    world.reset(seed=0)
    rule = StagedCount([1, 2, 5, 3])
    rule.reset(world.view(rule), np.random.default_rng(0), "server")
    layout = world.roles["server"].layout
    for left, wanted in ((8.0, 1), (6.1, 1), (6.0, 2), (3.9, 5), (2.0, 3), (0.0, 3)):
        waits = []
        for received in range(6):
            fields = {name: np.zeros((1, 1)) for name in layout.slices}
            obs = layout.pack(**fields | {"received": np.full((1, 1), received), "time_left": np.full((1, 1), left)})
            waits.append(bool(rule.act(obs)[0, 0] == WAIT))
        assert waits == [received < wanted for received in range(6)], left
    with pytest.raises(ValueError, match="stages must have an entry"):
        StagedCount([])
    with pytest.raises(ValueError, match=r"stages\[1\] must be"):
        StagedCount([1, 0])
