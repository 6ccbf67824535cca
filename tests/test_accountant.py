"""The accountant: what it counts, that no total is less than the truth where the truth is known, and budgets that
nobody overspends."""

import copy
import json
import math
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import worlds as tiny
from hypothesis import given, settings
from hypothesis import strategies as st

from taciturn.envs.core import Array, Channel, ChannelConfig, Streams
from taciturn.privacy import composition
from taciturn.privacy.accountant import Accountant
from taciturn.privacy.budget import Budget, BudgetSpent
from taciturn.privacy.composition import (
    ORDERS,
    Method,
    advanced_epsilon,
    basic_epsilon,
    gaussian_delta,
    gaussian_epsilon,
    pld_epsilon,
    rdp_epsilon,
    zcdp_epsilon,
)
from taciturn.privacy.losses import GaussianLoss, KaryLoss, LaplaceLoss, PrivacyLoss, pure
from taciturn.privacy.mechanisms import (
    BitwiseRandomizedResponse,
    Blocks,
    Exponential,
    Gaussian,
    KaryRandomizedResponse,
    Laplace,
    Memoized,
    NoPrivacy,
    TreeAggregation,
    UnaryEncoding,
)

DELTA = 1e-6
METHODS: tuple[Method, ...] = ("basic", "advanced", "zcdp", "rdp", "pld")

Sent = list[tuple[PrivacyLoss, int]]


def bitwise(epsilon: float) -> PrivacyLoss:
    return BitwiseRandomizedResponse(epsilon).loss()


def kary(epsilon: float, num_values: int) -> PrivacyLoss:
    return KaryRandomizedResponse(epsilon=epsilon, num_values=num_values).loss()


def laplace(epsilon: float) -> PrivacyLoss:
    return Laplace(epsilon).loss()


def gaussian(rho: float) -> PrivacyLoss:
    return Gaussian.from_rho(rho).loss()


def make(num_envs: int = 1, num_agents: int = 3, disjoint: str = "", **options: Any) -> Accountant:
    channels = (
        Channel("vote", "one_hot", observer="server", unit="event", disjoint=disjoint == "vote"),
        Channel("mean", "bounded", observer="neighbour", unit="event", disjoint=disjoint == "mean"),
        Channel("profile", "vector", observer="public", unit="user"),
    )
    return Accountant(num_envs, num_agents, channels, **options)


def sent(messages: Sent, num_agents: int = 1) -> Accountant:
    """An accountant of one channel on which everybody sent `messages`."""
    accountant = Accountant(1, num_agents, [Channel("vote", "one_hot", observer="server", unit="event")])
    for loss, count in messages:
        accountant.charge("vote", loss, everyone=np.array([count]))
    return accountant


def totals(messages: Sent, delta: float = DELTA) -> dict[str, float]:
    accountant = sent(messages)
    return {method: float(accountant.epsilon(delta, method=method)[0, 0]) for method in METHODS}


# The truth, where it is known: the loss of randomised responses is a sum on a lattice, that of Gaussians is Gaussian.

STEP = 0.05


def lattice(messages: Sent) -> tuple[Array, Array]:
    """Losses, all of them multiples of STEP, and their probabilities, by plain convolution."""
    low, probabilities = 0, np.ones(1)
    for loss, count in messages:
        pair = loss.dominating_pair()
        assert pair is not None
        places = np.rint((pair[0] - pair[1]) / STEP).astype(int)
        np.testing.assert_allclose(places * STEP, pair[0] - pair[1], atol=1e-9)
        one = np.bincount(places - places.min(), weights=np.exp(pair[0]))
        for _ in range(count):
            probabilities = np.convolve(probabilities, one)
        low += count * int(places.min())
    return (low + np.arange(len(probabilities))) * STEP, probabilities


def true_epsilon(messages: Sent, delta: float = DELTA) -> float:
    """Of randomised responses and Gaussians: delta(epsilon) = E[delta of the Gaussians at epsilon - loss of the
    responses]."""
    losses, probabilities = lattice([pair for pair in messages if pair[0].kind != "gaussian"])
    mu = math.sqrt(sum(2 * loss.rho * count for loss, count in messages if isinstance(loss, GaussianLoss)))

    def excess(epsilon: float) -> float:
        rest = epsilon - losses
        deltas = gaussian_delta(np.array(mu), rest) if mu else np.maximum(0, -np.expm1(rest))
        return float(probabilities @ deltas) - delta

    low, high = 0.0, float(losses[-1]) + mu**2 + 20 * mu + 1e-9
    if excess(low) <= 0:
        return 0.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return low


KNOWN: dict[str, Sent] = {
    "one bitwise": [(bitwise(1.0), 1)],
    "ten bitwise": [(bitwise(0.5), 10)],
    "hundred bitwise": [(bitwise(0.1), 100)],
    "thousand bitwise": [(bitwise(0.2), 1000)],
    "large bitwise": [(bitwise(4.0), 20)],
    "one kary": [(kary(1.5, 5), 1)],
    "many kary": [(kary(0.5, 4), 200)],
    "kary of many values": [(kary(2.0, 50), 60)],
    "two kinds": [(bitwise(1.0), 30), (kary(0.25, 3), 50)],
    "three kinds": [(bitwise(0.1), 100), (kary(0.75, 3), 9), (kary(2.0, 10), 2)],
    "one gaussian": [(gaussian(0.02), 1)],
    "many gaussians": [(gaussian(0.001), 400)],
    "two gaussians": [(gaussian(0.01), 7), (gaussian(0.5), 2)],
    "gaussian and bitwise": [(gaussian(0.05), 10), (bitwise(0.5), 40)],
    "gaussian and large kary": [(gaussian(0.2), 1), (kary(3.0, 4), 5)],
    "everything": [(gaussian(0.01), 25), (bitwise(0.1), 60), (kary(0.5, 7), 12), (gaussian(0.3), 1)],
}


@pytest.mark.parametrize("delta", [1e-3, DELTA, 1e-12])
@pytest.mark.parametrize("name", KNOWN)
def test_no_total_is_less_than_the_truth_and_pld_is_within_a_thousandth(name: str, delta: float) -> None:
    truth, total = true_epsilon(KNOWN[name], delta), totals(KNOWN[name], delta)
    assert min(total.values()) >= truth * (1 - 1e-9)
    assert total["pld"] <= truth * 1.001


def test_bitwise_responses_are_twice_as_many_bits() -> None:
    """k messages at epsilon are 2k responses at epsilon / 2: delta is a binomial sum."""
    from scipy.stats import binom

    epsilon, k, at = 0.4, 50, 5.0
    heads = np.arange(2 * k + 1)
    losses = epsilon / 2 * (2 * heads - 2 * k)
    probabilities = binom.pmf(heads, 2 * k, 1 / (1 + math.exp(-epsilon / 2)))
    delta = float(probabilities @ np.maximum(0, -np.expm1(at - losses)))
    assert true_epsilon([(bitwise(epsilon), k)], delta) == pytest.approx(at, abs=1e-9)
    assert at <= totals([(bitwise(epsilon), k)], delta)["pld"] <= at * 1.001


@pytest.mark.parametrize("messages", KNOWN.values(), ids=KNOWN)
def test_methods_that_look_closer_do_not_report_more(messages: Sent) -> None:
    total = totals(messages)
    assert total["pld"] <= total["rdp"] <= total["zcdp"] <= total["basic"] < math.inf
    assert total["advanced"] <= total["basic"]


def test_each_equation_by_hand() -> None:
    np.testing.assert_allclose(basic_epsilon(np.array([[3, 2], [0, 0]]), np.array([0.5, 1.0])), [3.5, 0.0])
    np.testing.assert_allclose(basic_epsilon(np.array([[3, 0]]), np.array([0.5, np.inf])), [1.5])
    # k = 100 messages of epsilon = 0.1; the second term has log(e + 1 / delta).
    drift = 100 * 0.1 * (math.e**0.1 - 1) / (math.e**0.1 + 1)
    ways = advanced_epsilon(np.array([10.0]), np.array([drift]), np.array([1.0]), DELTA)
    np.testing.assert_allclose(ways, drift + math.sqrt(2 * math.log(1e6)))
    ways = advanced_epsilon(np.array([10.0]), np.array([drift]), np.array([0.01]), 1e-2)
    np.testing.assert_allclose(ways, drift + math.sqrt(0.02 * math.log(math.e + 0.1 / 1e-2)))
    # One order by hand.
    by_hand = 3.0 + math.log(1 - 1 / 5) - math.log(DELTA * 5) / 4
    np.testing.assert_allclose(rdp_epsilon(np.array([3.0]), DELTA, np.array([5.0])), [by_hand])
    # Balle & Wang 2018: mu = 1, epsilon = 1 has delta 0.1269.
    np.testing.assert_allclose(gaussian_delta(np.array(1.0), np.array(1.0)), 0.12693674, rtol=1e-6)
    np.testing.assert_allclose(gaussian_epsilon(1.0, 0.12693674), 1.0, rtol=1e-6)
    assert gaussian_epsilon(np.array([0.0, np.inf]), DELTA).tolist() == [0.0, math.inf]


def test_messages_that_are_not_pure_share_delta() -> None:
    loss, other = gaussian(0.01), gaussian(0.04)
    total = totals([(loss, 3), (other, 1), (bitwise(0.5), 2)])
    singles = [float(gaussian_epsilon(math.sqrt(2 * rho), DELTA / 4)) for rho in (0.01, 0.04)]
    assert total["basic"] == pytest.approx(3 * singles[0] + singles[1] + 1.0)
    epsilons = np.array([bitwise(0.01).epsilon] * 400)
    few = np.append(epsilons, float(gaussian_epsilon(math.sqrt(0.02), DELTA / 2)))
    squares = float(few @ few)
    by_hand = (few * np.tanh(few / 2)).sum() + math.sqrt(
        2 * squares * math.log(math.e + math.sqrt(squares) * 2 / DELTA)
    )
    assert totals([(bitwise(0.01), 400), (loss, 1)])["advanced"] == pytest.approx(by_hand)


@given(rho=st.floats(1e-6, 1e4), delta=st.floats(1e-12, 0.1))
def test_zcdp_converts_better_than_the_simple_rule_and_never_below_the_gaussian(rho: float, delta: float) -> None:
    """Bun & Steinke 2016, Proposition 1.3 above; the Gaussian mechanism, which has this rho, below."""
    converted = float(zcdp_epsilon(np.array([rho]), delta)[0])
    assert float(gaussian_epsilon(math.sqrt(2 * rho), delta)) * (1 - 1e-9) <= converted
    assert converted <= (rho + 2 * math.sqrt(rho * math.log(1 / delta))) * 1.001


@given(mu=st.floats(1e-3, 30), delta=st.floats(1e-14, 0.5))
def test_gaussian_epsilon_inverts_gaussian_delta_from_above(mu: float, delta: float) -> None:
    epsilon = gaussian_epsilon(mu, delta)
    assert gaussian_delta(np.array(mu), epsilon) <= delta * (1 + 1e-9)
    if epsilon > 0:
        assert gaussian_delta(np.array(mu), epsilon * (1 - 1e-6) - 1e-12) >= delta * (1 - 1e-3)


# Against dp-accounting.

KINDS: tuple[Callable[[float], PrivacyLoss], ...] = (
    bitwise,
    lambda epsilon: kary(epsilon, 4),
    laplace,
    lambda epsilon: gaussian(epsilon**2 / 8),
)


def mixed(seed: int) -> Sent:
    rng = np.random.default_rng(seed)
    kinds = rng.permutation(len(KINDS))[: rng.integers(1, 5)]
    return [(KINDS[i](float(rng.choice([0.05, 0.1, 0.3, 0.7, 1.3]))), int(rng.integers(1, 60))) for i in kinds]


CASES = [mixed(seed) for seed in range(12)]
assert {loss.kind for messages in CASES for loss, _ in messages} == {make(1.0).kind for make in KINDS}


def peer_pld(loss: PrivacyLoss, interval: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as pld  # type: ignore[import-untyped]

    grid = {"value_discretization_interval": interval}
    if isinstance(loss, LaplaceLoss):
        return pld.from_laplace_mechanism(1 / loss.epsilon, **grid)
    if isinstance(loss, GaussianLoss):
        return pld.from_gaussian_mechanism(1 / math.sqrt(2 * loss.rho), **grid)
    if isinstance(loss, KaryLoss):
        values = loss.num_values
        return pld.from_randomized_response(values / (math.exp(loss.epsilon) + values - 1), values, **grid)
    bit = pld.from_randomized_response(2 / (math.exp(loss.epsilon / 2) + 1), 2, **grid)
    return bit.self_compose(2)


@pytest.mark.parametrize("messages", CASES, ids=map(str, range(len(CASES))))
def test_pld_agrees_with_dp_accounting(messages: Sent) -> None:
    """Within 0.1%, and what their rounding upwards of each response adds."""
    interval = 1e-4
    peer = None
    for loss, count in messages:
        part = peer_pld(loss, interval).self_compose(count)
        peer = part if peer is None else peer.compose(part)
    assert peer is not None
    theirs = peer.get_epsilon_for_delta(DELTA)
    ours = pld_epsilon([loss for loss, _ in messages], [count for _, count in messages], DELTA)
    rounded = sum(2 * count for loss, count in messages if "response" in loss.kind)
    assert theirs - rounded * interval - 1e-3 * theirs <= ours <= theirs * 1.001


@pytest.mark.parametrize("messages", CASES, ids=map(str, range(len(CASES))))
def test_rdp_agrees_with_dp_accounting(messages: Sent) -> None:
    """Curves to 1e-6; epsilon at the same orders to 1e-6, and at our own no worse than at their finer choice by
    0.1%."""
    import dp_accounting  # type: ignore[import-untyped]
    from dp_accounting.rdp import rdp_privacy_accountant as rdp  # type: ignore[import-untyped]

    orders = ORDERS[(ORDERS > 1.1) & (ORDERS < 1e4)]
    fine = 1 + np.geomspace(0.1, 1e4, 4000)
    curve, ours, finest = np.zeros(orders.size), np.zeros(orders.size), np.zeros(fine.size)
    for loss, count in messages:
        relation = dp_accounting.NeighboringRelation.REPLACE_ONE
        if isinstance(loss, LaplaceLoss):
            event: Any = dp_accounting.LaplaceDpEvent(1 / loss.epsilon)
            relation = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
        elif isinstance(loss, GaussianLoss):
            event = dp_accounting.GaussianDpEvent(1 / math.sqrt(2 * loss.rho))
            relation = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
        elif isinstance(loss, KaryLoss):
            values = loss.num_values
            event = dp_accounting.RandomizedResponseDpEvent(values / (math.exp(loss.epsilon) + values - 1), values)
        else:
            event = dp_accounting.RandomizedResponseDpEvent(2 / (math.exp(loss.epsilon / 2) + 1), 2)
            event = dp_accounting.SelfComposedDpEvent(event, 2)
        for at, sums in ((orders, curve), (fine, finest)):
            accountant = rdp.RdpAccountant(at.tolist(), relation)
            accountant.compose(event, count)
            sums += accountant.rdp
        ours += count * loss.rdp(orders)
    np.testing.assert_allclose(ours, curve, rtol=1e-6)
    theirs = rdp.compute_epsilon(orders, curve, DELTA)[0]
    np.testing.assert_allclose(rdp_epsilon(ours, DELTA, orders), [theirs], rtol=1e-6)
    assert totals(messages)["rdp"] <= rdp.compute_epsilon(fine, finest, DELTA)[0] * 1.001


def test_laplace_noise_on_a_grid() -> None:
    """The privacy loss of a discrete Laplace law, summed over its outcomes."""
    for reach in (1, 2, 7):
        epsilon = 1.2
        loss = LaplaceLoss(epsilon, epsilon**2 / 2, reach=reach)
        k = np.arange(-4000, 4000 + reach)
        p, q = (np.exp(-epsilon / reach * np.abs(k - at)) for at in (0, reach))
        p, q = p / p.sum(), q / q.sum()
        for epsilon_ in (0.1, 0.5, 1.0):
            delta = float(np.maximum(p - math.exp(epsilon_) * q, 0).sum())
            assert epsilon_ - 1e-9 <= pld_epsilon([loss], [1], delta) <= epsilon_ * 1.002


def test_a_tree_costs_its_levels() -> None:
    tree = TreeAggregation(1.0, horizon=15, sensitivity=1.0).loss()
    assert isinstance(tree, LaplaceLoss)
    assert tree.nodes == 4
    assert pld_epsilon([tree], [3], DELTA) == pytest.approx(pld_epsilon([laplace(0.25)], [12], DELTA), rel=1e-3)


def test_mechanisms_without_a_law_count_as_the_response_that_dominates_them() -> None:
    ours = totals([(Exponential(0.5).loss(), 40)])
    assert true_epsilon([(kary(0.5, 3), 40)]) <= pld_epsilon([Exponential(0.5).loss()], [40], DELTA)
    assert ours["rdp"] == pytest.approx(float(zcdp_epsilon(np.array([40 * 0.5**2 / 8]), DELTA)[0]), rel=1e-3)


def test_millions_of_messages() -> None:
    """An interval of the law of large numbers: the mean loss, and its standard deviation times what the normal law
    says."""
    k, epsilon = 4_000_000, 0.1
    mean, spread = k * epsilon * math.tanh(epsilon / 4), math.sqrt(k * epsilon**2 / 2) / math.cosh(epsilon / 4)
    total = totals([(bitwise(epsilon), k)])
    assert mean + 4.6 * spread < total["pld"] < mean + 4.9 * spread
    assert total["pld"] < total["rdp"]


# What is counted.


def test_charges_add_up_by_agent_and_replica() -> None:
    accountant, loss = make(2, 3), bitwise(0.5)
    for _ in range(3):
        accountant.charge("vote", loss, everyone=np.array([True, False]))
    accountant.charge("vote", bitwise(0.5), each=np.array([[0, 1, 0], [2, 0, 0]]))
    accountant.charge("vote", loss, np.array([1, 1]), np.array([[True, False, False], [False, False, True]]))
    assert len(accountant.accounts) == 1
    assert accountant.messages("vote").tolist() == [[5, 5, 4], [3, 1, 2]]
    np.testing.assert_allclose(accountant.epsilon(method="basic"), [[2.5, 2.5, 2.0], [1.5, 0.5, 1.0]])
    np.testing.assert_allclose(accountant.epsilon(by="max", method="basic"), [2.5, 1.5])


def test_several_losses_on_a_channel_keep_their_own_counts() -> None:
    accountant = make()
    for epsilon in (0.1, 0.2, 0.1):
        accountant.charge("mean", laplace(epsilon), each=np.array([[1, 0, 2]]))
    assert len(accountant.accounts) == 2
    np.testing.assert_allclose(accountant.epsilon(method="basic"), [[0.4, 0, 0.8]])
    assert accountant.per_message["mean"] == laplace(0.2)


def test_rows_of_equal_counts_are_composed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[float] = []
    original = pld_epsilon

    def counting(losses: Any, counts: Any, delta: float) -> float:
        calls.append(delta)
        return original(losses, counts, delta)

    monkeypatch.setattr(composition, "pld_epsilon", counting)
    accountant, rng = make(4, 500), np.random.default_rng(0)
    accountant.charge("vote", bitwise(0.3), each=rng.integers(10, 13, (4, 500)))
    exact = accountant.epsilon(method="pld", worst=3)
    assert len(calls) == 3
    np.testing.assert_array_equal(np.unique(exact).size, 3)
    calls.clear()
    bound = accountant.epsilon(method="pld", worst=1)
    assert len(calls) == 2
    assert (bound >= exact).all()
    np.testing.assert_array_equal(bound.max(1), exact.max(1))
    assert (bound <= accountant.epsilon(method="rdp")).all()
    mixed_accountant = make(1, 3)
    mixed_accountant.charge("vote", bitwise(0.3), each=np.array([[200, 0, 100]]))
    mixed_accountant.charge("mean", laplace(0.2), each=np.array([[0, 150, 1]]))
    exact, bound = (mixed_accountant.epsilon(method="pld", worst=worst) for worst in (3, 1))
    assert np.argmax(exact) == 0
    np.testing.assert_array_equal(bound <= exact, [[True, False, False]])


def test_what_nobody_protects_is_infinite_and_visible() -> None:
    world = tiny.consensus_v0.population(num_envs=2, num_agents=4)
    world.reset(seed=0)
    accountant = Accountant(2, 4, world.channels.values())
    assert (accountant.epsilon() == 0).all()
    world.step(np.array([[0, 1, 2, 0], [0, 0, 0, 1]]))
    total = accountant.epsilon(channel="opinion")
    np.testing.assert_array_equal(total, [[0, np.inf, np.inf, 0], [0, 0, 0, np.inf]])
    assert np.isinf(accountant.epsilon()).all()
    for method in METHODS:
        np.testing.assert_array_equal(accountant.epsilon(method=method, channel="opinion"), total)
    rows = {row["channel"]: row for row in accountant.table()}
    assert rows["vote"]["mechanism"] == rows["opinion"]["mechanism"] == "none"
    assert rows["vote"]["epsilon_per_message"] == rows["vote"]["rdp_max"] == rows["all"]["basic_mean"] == math.inf
    assert rows["vote"]["messages_mean"] == 1
    assert math.isinf(accountant.per_message["vote"].epsilon)
    accountant.charge("vote", bitwise(1.0), everyone=world.channels["vote"].everyone)
    assert accountant.epsilon(channel="vote", by="max", method="basic").tolist() == [1.0, 1.0]
    assert not np.isnan(accountant.epsilon(by="max")).any()


def test_no_privacy_charged_is_infinite_too() -> None:
    accountant = make()
    accountant.charge("vote", NoPrivacy().loss(), each=np.array([[1, 0, 0]]))
    accountant.charge("vote", bitwise(0.5), everyone=np.array([2]))
    for method in METHODS:
        total = accountant.epsilon(method=method)
        assert math.isinf(total[0, 0])
        assert (total[0, 1:] <= 1.0).all()


def test_a_mechanism_shows_before_its_first_message() -> None:
    accountant = make()
    accountant.charge("vote", bitwise(0.5))
    assert accountant.per_message["vote"] == bitwise(0.5)
    assert {name for name, loss in accountant.per_message.items() if math.isinf(loss.epsilon)} == {"mean", "profile"}
    assert (accountant.epsilon() == 0).all()


def test_only_the_replicas_that_reset_are_forgotten() -> None:
    accountant = make(3, 2)
    accountant.charge("vote", bitwise(0.5), np.array([1, 2, 3]), np.array([[1, 0], [1, 0], [1, 0]]))
    accountant.charge_levels("mean", np.full((3, 2), 0.25))
    accountant.reset(np.array([False, True, False]))
    np.testing.assert_allclose(accountant.epsilon(method="basic"), [[1.25, 0.75], [0.0, 0.0], [2.25, 1.75]])
    accountant.charge("vote", bitwise(0.5), everyone=np.array([True, True, True]))
    np.testing.assert_allclose(accountant.epsilon(method="basic")[1], [0.5, 0.5])
    accountant.reset()
    assert (accountant.epsilon(method="basic") == 0).all()
    assert accountant.per_message["vote"] == bitwise(0.5)


def test_chosen_levels_add_up_as_messages_of_those_levels_would() -> None:
    rng = np.random.default_rng(2)
    levels = rng.choice([0.0, 0.1, 0.5, 2.0], (20, 1, 3))
    chosen, counted = make(), make()
    for row in levels:
        chosen.charge_levels("vote", row, kind="k_ary_randomized_response")
        for epsilon in (0.1, 0.5, 2.0):
            counted.charge("vote", pure(epsilon), each=row == epsilon)
    for method in METHODS:
        one, other = chosen.epsilon(method=method), counted.epsilon(method=method)
        assert (one >= other * (1 - 1e-12)).all()
        if method in ("basic", "zcdp"):
            np.testing.assert_allclose(one, other, rtol=1e-12)
    np.testing.assert_array_equal(chosen.messages("vote"), (levels > 0).sum(0))
    assert chosen.per_message["vote"].epsilon == 2.0
    assert chosen.table()[0]["mechanism"] == "k_ary_randomized_response"
    chosen.charge_levels("vote", np.array([[np.inf, 0, 0]]), kind="k_ary_randomized_response")
    assert np.isinf(chosen.epsilon()).tolist() == [[True, False, False]]


def test_chosen_levels_of_a_thousand_rounds_are_all_counted() -> None:
    rng, accountant = np.random.default_rng(4), make(2, 3)
    sent_, spent = np.zeros((2, 3), np.int64), np.zeros((2, 3))
    for i in range(1000):
        levels = rng.choice([0.0, 0.25, 0.5], (2, 3))
        levels[:, 0] = 0.25
        accountant.charge_levels("vote", levels)
        sent_, spent = sent_ + (levels > 0), spent + levels
        if i % 300 == 0:
            np.testing.assert_array_equal(accountant.messages("vote"), sent_)
        if i == 620:
            accountant.reset(np.array([True, False]))
            sent_[0], spent[0] = 0, 0
    np.testing.assert_array_equal(accountant.messages("vote"), sent_)
    np.testing.assert_array_equal(accountant.epsilon(method="basic"), spent)


# Observers, roles, and what changes between adjacent worlds.


def test_observers_read_their_own_channels_and_the_public_ones() -> None:
    accountant = make(1, 2)
    for name, epsilon in (("vote", 1.0), ("mean", 0.5), ("profile", 0.125)):
        accountant.charge(name, bitwise(epsilon), everyone=np.array([1]))
    read = {
        observer: accountant.epsilon(by="max", method="basic", observer=observer)[0]
        for observer in (None, "server", "neighbour", "public", "platform")
    }
    assert read == {None: 1.625, "server": 1.125, "neighbour": 0.625, "public": 0.125, "platform": 0.125}
    assert accountant.epsilon(by="max", method="basic", observer="server", channel="vote")[0] == 1.0


def test_roles_have_totals_of_their_own() -> None:
    channels = (
        Channel("price", "bounded", observer="public", unit="event"),
        Channel("purchase", "categorical", observer="platform", unit="event"),
    )
    accountant = Accountant(
        1, {"platform": 1, "individual": 4}, channels, senders={"price": "platform", "purchase": "individual"}
    )
    accountant.charge("purchase", kary(1.0, 3), each=np.array([[0, 1, 2, 3]]))
    accountant.charge("price", laplace(0.5), everyone=np.array([1]))
    total = accountant.epsilon(method="basic")
    assert {role: values.tolist() for role, values in total.items()} == {
        "platform": [[0.5]],
        "individual": [[0, 1, 2, 3]],
    }
    assert accountant.epsilon(method="basic", role="individual", by="max").tolist() == [3.0]
    assert [row["role"] for row in accountant.table() if row["channel"] == "all"] == ["platform", "individual"]
    with pytest.raises(ValueError, match="channel must be named"):
        Budget(1.0).spent(accountant)
    assert Budget(1.0).allows(accountant, kary(1.0, 3), "purchase").tolist() == [[True, False, False, False]]


def test_at_event_level_disjoint_messages_compose_in_parallel() -> None:
    accountant = make(1, 2, disjoint="vote")
    accountant.charge("vote", bitwise(0.5), each=np.array([[100, 0]]))
    accountant.charge("vote", bitwise(1.0), each=np.array([[1, 0]]))
    accountant.charge("mean", bitwise(0.25), everyone=np.array([2]))
    np.testing.assert_allclose(accountant.epsilon(method="basic"), [[51.5, 0.5]])
    for method in METHODS:
        event = accountant.epsilon(method=method, unit="event")
        np.testing.assert_allclose(event, [[1.5, 0.5]], rtol=1e-2)
        assert event[0, 0] >= true_epsilon([(bitwise(1.0), 1), (bitwise(0.25), 2)])
        assert (event <= accountant.epsilon(method=method)).all()
    for _ in range(3):
        accountant.charge_levels("vote", np.array([[0.0, 2.0]]), kind="k_ary_randomized_response")
    np.testing.assert_allclose(accountant.epsilon(method="basic", unit="event"), [[1.5, 2.5]])
    with pytest.raises(ValueError, match="disjoint must be False on channel 'x' with unit 'user', not True"):
        Channel("x", "vector", observer="server", unit="user", disjoint=True)


def test_a_channel_says_which_messages_are_disjoint_and_how_many_events_each_is_about() -> None:
    """Means of ever more rewards, each reward in one of them: the most at risk is one of the dearest; a whole history
    is in all of them."""
    channel, sizes = Channel("mean", "bounded", observer="server", unit="event", disjoint=True), (4, 10, 50)
    accountant = Accountant(1, 2, [channel])
    channel.install(ChannelConfig(Laplace(0.5)), accountant)
    channel.draw_from(Streams(0))
    channel.reset(1)
    for n in sizes:
        channel.send(np.full((1, 2), 0.5), sensitivity=1 / n, events=n)
    assert accountant.epsilon(method="basic", unit="event").tolist() == [[0.5, 0.5]]
    assert accountant.epsilon(method="basic").tolist() == [[1.5, 1.5]]
    assert accountant.epsilon(method="basic", unit="user").tolist() == [[32.0, 32.0]]
    for method in METHODS:
        assert 0.5 + 2 * math.log1p(-DELTA) <= accountant.epsilon(method=method, unit="event")[0, 0] <= 0.5
    channel.send(np.full((1, 2), 0.5), np.array([[True, False]]), sensitivity=1 / 7)
    assert accountant.epsilon(method="basic", unit="user").tolist() == [[math.inf, 32.0]], "about how many, nobody said"
    assert accountant.table()[0]["note"].startswith("disjoint")


def test_parallel_gaussians_cost_what_the_dearest_costs() -> None:
    accountant = make(1, 1, disjoint="mean")
    for rho in (0.01, 0.02, 0.03):
        accountant.charge("mean", gaussian(rho), everyone=np.array([50]))
    exact = float(gaussian_epsilon(math.sqrt(0.06), DELTA))
    assert accountant.epsilon(method="pld", unit="event")[0, 0] == pytest.approx(exact, rel=1e-9)
    assert (
        exact <= accountant.epsilon(method="rdp", unit="event")[0, 0] <= float(zcdp_epsilon(np.array([0.03]), DELTA)[0])
    )


def test_at_user_level_all_events_of_a_message_change() -> None:
    def total(loss: PrivacyLoss, events: int | None, channel: str = "mean", method: Method = "basic") -> float:
        accountant = make(1, 1)
        accountant.charge(channel, loss, everyone=np.array([2]), events=events)
        return float(accountant.epsilon(channel=channel, method=method, unit="user")[0, 0])

    assert total(bitwise(0.5), None) == total(bitwise(0.5), 7) == 1.0
    assert total(laplace(0.1), 5) == pytest.approx(1.0)
    assert total(laplace(0.1), None) == math.inf
    assert total(laplace(0.1), None, "profile") == 0.2
    assert total(Exponential(0.1).loss(), 3) == pytest.approx(0.6)
    exact = float(gaussian_epsilon(math.sqrt(2 * 2 * 9 * 0.01), DELTA))
    assert total(gaussian(0.01), 3, method="pld") == pytest.approx(exact, rel=1e-9)
    accountant = make(1, 2)
    accountant.charge_levels("mean", np.array([[0.5, 0.0]]), kind="laplace", events=4)
    accountant.charge_levels("vote", np.array([[0.0, 0.5]]), kind="laplace")
    np.testing.assert_allclose(accountant.epsilon(method="basic", unit="user", channel="mean"), [[2.0, 0.0]])
    for _ in range(100):
        accountant.charge_levels("mean", np.array([[0.0, 0.01]]), kind="laplace", events=4)
    of_four = zcdp_epsilon(np.array([100 * 0.04**2 / 2]), DELTA)[0]
    assert accountant.epsilon(method="zcdp", unit="user", channel="mean")[0, 1] == pytest.approx(of_four)
    np.testing.assert_array_equal(accountant.epsilon(unit="user", channel="vote"), [[0.0, np.inf]])


@pytest.mark.parametrize("size", [2, 3, 10])
def test_a_group_is_as_exposed_as_by_a_mechanism_of_less_noise(size: int) -> None:
    orders = np.array([1.5, 4.0, 40.0])
    pairs: list[tuple[PrivacyLoss, PrivacyLoss]] = [
        (laplace(0.2), laplace(0.2 * size)),
        (gaussian(0.1), gaussian(0.1 * size**2)),
        (Exponential(0.2).loss(), Exponential(0.2 * size).loss()),
    ]
    for one, same in pairs:
        grouped = one.group(size)
        assert grouped.kind == same.kind
        np.testing.assert_allclose(grouped.rdp(orders), same.rdp(orders))
        np.testing.assert_allclose([grouped.epsilon, grouped.rho], [same.epsilon, same.rho])
    assert PrivacyLoss(0.2, 0.01).group(size).epsilon == pytest.approx(0.2 * size)
    assert NoPrivacy().loss().group(size) == NoPrivacy().loss()
    assert UnaryEncoding(1.0).loss().group(size) == UnaryEncoding(1.0).loss()


# Export.


def test_the_table_survives_its_export() -> None:
    accountant = make(2, 3)
    accountant.charge("vote", bitwise(0.5), each=np.array([[1, 2, 3], [0, 0, 0]]))
    accountant.charge("vote", laplace(0.1), everyone=np.array([1, 1]))
    accountant.charge("mean", gaussian(0.01), everyone=np.array([4, 0]))
    rows = accountant.table(1e-5, ("basic", "rdp", "pld"))
    assert [(row["channel"], row["mechanism"]) for row in rows] == [
        ("vote", "randomized_response"),
        ("vote", "laplace"),
        ("mean", "gaussian"),
        ("profile", "none"),
        ("all", "all"),
    ]
    assert [row["note"] for row in rows] == ["", "", "", "nothing is hidden", ""]
    assert rows[0]["messages_mean"] == 1.0
    assert rows[0]["messages_max"] == 3
    assert rows[0]["basic_max"] == 1.5
    assert rows[2]["epsilon_per_message"] == math.inf
    assert rows[2]["pld_max"] == pytest.approx(float(gaussian_epsilon(math.sqrt(0.08), 1e-5)))
    assert json.loads(json.dumps(rows)) == rows


@pytest.mark.parametrize(
    ("mechanism", "note"),
    [
        (
            Memoized(BitwiseRandomizedResponse(1.0)),
            "infinite: an answer that changes reveals that the value changed",
        ),
        (TreeAggregation(1.0, horizon=8), "a message is a whole stream, of which one event enters one value"),
        (Blocks(1.0), "a message is a whole stream, of which one event enters one value"),
        (BitwiseRandomizedResponse(1.0), ""),
    ],
)
def test_the_table_says_what_its_numbers_do_not(mechanism: Any, note: str) -> None:
    accountant = make()
    channel: Any = accountant.channels["vote"]
    channel.install(ChannelConfig(mechanism), accountant)
    accountant.charge("vote", mechanism.loss())
    assert [row["note"] for row in accountant.table()] == [note, "nothing is hidden", "nothing is hidden", ""]


def test_copies_go_on_counting_by_themselves() -> None:
    accountant, loss = make(1, 2), bitwise(0.5)
    accountant.charge("vote", loss, everyone=np.array([1]))
    accountant.charge_levels("mean", np.array([[0.5, 0.25]]))
    for reference_implementation in (pickle.loads(pickle.dumps(accountant)), copy.deepcopy(accountant)):
        np.testing.assert_array_equal(reference_implementation.epsilon(), accountant.epsilon())
        reference_implementation.charge("vote", loss, everyone=np.array([2]))
        reference_implementation.charge("vote", bitwise(0.5), everyone=np.array([2]))
        reference_implementation.charge_levels("mean", np.array([[0.5, 0.0]]))
        assert reference_implementation.messages("mean").tolist() == [[2, 1]]
        assert len(reference_implementation.accounts) == 2
        assert reference_implementation.messages("vote").tolist() == [[5, 5]]
        assert accountant.messages("vote").tolist() == [[1, 1]]


# Hostile input.


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: x.charge("votes", bitwise(1.0)), "channel must be one of 'vote', 'mean', 'profile', not 'votes'"),
        (lambda x: x.charge("vote", 1.0), "loss must be a PrivacyLoss, not 1.0"),
        (
            lambda x: x.charge("mean", bitwise(1.0), np.ones(3, int)),
            "everyone must be an integer or bool array of shape",
        ),
        (lambda x: x.charge("mean", bitwise(1.0), each=np.array([[1, 0, 0]])), "each must be an integer or bool array"),
        (lambda x: x.charge("vote", bitwise(1.0), np.array([1])), "everyone must be an integer or bool array of shape"),
        (lambda x: x.charge("vote", bitwise(1.0), 1), "everyone must be an integer or bool array of shape"),
        (lambda x: x.charge("vote", bitwise(1.0), np.array([1.0, 1.0])), "not float64 of shape"),
        (lambda x: x.charge("vote", bitwise(1.0), np.array([1, -1])), "everyone must be >= 0, not -1"),
        (lambda x: x.charge("vote", bitwise(1.0), np.ones(2, int), np.ones((2, 4), int)), "each must be"),
        (lambda x: x.charge("vote", bitwise(1.0), np.ones(2, int), -np.ones((2, 3), int)), "each must be >= 0"),
        (lambda x: x.charge("vote", bitwise(1.0), np.ones(2, int), events=0), "events must be an integer >= 1"),
        (lambda x: x.charge_levels("votes", np.ones((2, 3))), "channel must be one of"),
        (lambda x: x.charge_levels("vote", np.ones((2, 3), int)), "epsilons must be a float array"),
        (lambda x: x.charge_levels("vote", np.ones(3)), "epsilons must be a float array"),
        (lambda x: x.charge_levels("vote", np.full((2, 3), -0.1)), "epsilons must be >= 0"),
        (lambda x: x.charge_levels("vote", np.full((2, 3), np.nan)), "epsilons must be >= 0, not nan"),
        (lambda x: x.charge_levels("vote", np.ones((2, 3)), zcdp=0.7), "zcdp must be"),
        (lambda x: x.reset(np.array([0, 1])), "where must be a bool array of shape"),
        (lambda x: x.reset(np.array([True])), "where must be a bool array of shape"),
        (lambda x: x.epsilon(1.0), "delta must be"),
        (lambda x: x.epsilon(-0.1), "delta must be"),
        (lambda x: x.epsilon(math.nan), "delta must be"),
        (lambda x: x.epsilon(method="best"), "method must be one of"),
        (lambda x: x.epsilon(by="agents"), "by must be one of"),
        (lambda x: x.epsilon(by=1.5), "by must be"),
        (lambda x: x.epsilon(unit="day"), "unit must be one of"),
        (lambda x: x.epsilon(observer="me"), "observer must be one of"),
        (lambda x: x.epsilon(channel="votes"), "channel must be one of"),
        (lambda x: x.epsilon(role="server"), "role must be one of"),
        (lambda x: x.epsilon(worst=0), "worst must be"),
        (lambda x: x.messages("votes"), "channel must be one of"),
        (lambda x: x.table(methods=("best",)), "method must be one of"),
        (lambda x: Budget(1.0).allows(x, bitwise(1.0), "votes"), "channel must be one of"),
    ],
)
def test_hostile_input_changes_nothing(call: Callable[[Any], None], message: str) -> None:
    accountant = make(2, 3)
    accountant.charge("vote", bitwise(1.0), np.array([1, 2]))
    before = accountant.messages("vote")
    with pytest.raises(ValueError, match=message):
        call(accountant)
    np.testing.assert_array_equal(accountant.messages("vote"), before)
    assert len(accountant.accounts) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_envs": 0}, "num_envs must be"),
        ({"num_agents": 0}, "agents"),
        ({"senders": {"votes": "agent"}}, "channel must be one of"),
        ({"senders": {"vote": "server"}}, "senders"),
        ({"num_agents": {"a": 1, "b": 2}}, "senders"),
    ],
)
def test_hostile_accountants(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**options)


def test_at_delta_zero_only_pure_messages_are_finite() -> None:
    assert set(totals([(bitwise(0.5), 3)], 0.0).values()) == {1.5}
    assert set(totals([(bitwise(0.5), 3), (gaussian(0.01), 1)], 0.0).values()) == {math.inf}


@pytest.mark.parametrize("loss", [bitwise(0.1), laplace(1e-4), kary(0.1, 5)])
def test_a_distribution_of_more_messages_than_memory_holds_is_not_made(loss: PrivacyLoss) -> None:
    found = totals([(loss, 2**62), (gaussian(0.01), 3)])
    assert found["pld"] == found["rdp"] < math.inf


def test_without_dp_accounting_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    accountant = sent([(bitwise(0.5), 100)])
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    assert accountant.epsilon(method="rdp")[0, 0] < 50
    with pytest.raises(
        ImportError,
        match=r"method 'pld' needs dp-accounting: run pip install '\.\[accounting\]' in a clone of taciturn",
    ):
        accountant.epsilon(method="pld")


# Budgets.

MESSAGES = [
    bitwise(0.05),
    bitwise(0.5),
    kary(2.0, 4),
    laplace(0.1),
    gaussian(0.001),
    gaussian(0.05),
    Exponential(0.3).loss(),
]


@settings(max_examples=30)
@given(data=st.data(), epsilon=st.floats(0.05, 20), delta=st.sampled_from([1e-9, 1e-6, 1e-2]))
def test_nobody_overspends(data: st.DataObject, epsilon: float, delta: float) -> None:
    """Whatever is sent in whatever order: totals stay within the budget, and nobody is refused who could pay."""
    method: Any = data.draw(st.sampled_from(["basic", "zcdp", "rdp"]))
    budget = Budget(epsilon, delta, method=method)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    accountant = make(2, 3)
    accountant.charge("vote", MESSAGES[0])
    for _ in range(data.draw(st.integers(1, 25))):
        senders = rng.random((2, 3)) < 0.8
        if rng.random() < 0.8:
            loss: Any = MESSAGES[rng.integers(len(MESSAGES))]
            cost: Any = budget.cost(loss)
        else:
            loss = rng.random((2, 3)) * senders
            cost = {"basic": loss, "zcdp": loss**2 / 2, "rdp": budget.order * loss**2 / 2}[method]
        spent = np.broadcast_to(budget.spent(accountant, "vote"), (2, 3))
        admitted, ended = budget.admit(accountant, loss, senders, "vote")
        assert not ended.any()
        np.testing.assert_array_equal(admitted, senders & (spent + cost <= budget.limit * (1 + 1e-9)))
        if isinstance(loss, PrivacyLoss):
            accountant.charge("vote", loss, each=admitted)
        else:
            accountant.charge_levels("vote", loss * admitted)
        assert (budget.spent(accountant, "vote") <= budget.limit * (1 + 2e-9)).all()
        assert (accountant.epsilon(delta, method=method, channel="vote") <= epsilon * (1 + 1e-6)).all()


@pytest.mark.parametrize("kinds", [1, 2], ids=["one kind of message", "two kinds"])
def test_a_budget_admits_as_if_it_looked_at_everybody_every_time(kinds: int) -> None:
    """Against counts kept here, through resets of single replicas: epsilons are binary fractions, so sums are exact."""
    rng, budget = np.random.default_rng(kinds), Budget(16.0)
    accountant, spent, refusals, looks = make(3, 4), np.zeros((3, 4)), 0, 0
    losses = [bitwise(0.5), bitwise(0.25)][:kinds]
    for _ in range(600):
        loss, senders = losses[rng.integers(kinds)], rng.random((3, 4)) < [[0.1], [0.5], [0.9]]
        seen = dict(accountant._spent)
        admitted, ended = budget.admit(accountant, loss, senders, "vote")
        looks += accountant._spent != seen
        np.testing.assert_array_equal(admitted, senders & (spent + loss.epsilon <= 16.0))
        assert not ended.any()
        refusals += int((senders & ~admitted).sum())
        if rng.random() < 0.1:
            everyone: Array = np.all(spent + loss.epsilon <= 16.0, axis=1)
            accountant.charge("vote", loss, everyone)
            spent += loss.epsilon * everyone[:, None]
            admitted = admitted & (spent + loss.epsilon <= 16.0)
        accountant.charge("vote", loss, each=admitted)
        spent += loss.epsilon * admitted
        if rng.random() < 0.02:
            replicas = rng.random(3) < 0.5
            accountant.reset(replicas)
            spent[replicas] = 0
    assert refusals > 100
    assert looks < 150


def test_agents_far_from_their_budget_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    accountant, senders, budget = make(1, 3), np.array([[True, False, True]]), Budget(100.0)
    accountant.charge("vote", bitwise(0.5))
    looked: list[str | None] = []
    allows = Budget.allows

    def watched(self: Budget, its: Accountant, loss: Any, channel: str | None = None) -> Array:
        looked.append(channel)
        return allows(self, its, loss, channel)

    monkeypatch.setattr(Budget, "allows", watched)
    for _ in range(200):
        assert budget.admit(accountant, bitwise(0.5), senders, "vote")[0] is senders
        assert not looked
        accountant.charge("vote", bitwise(0.5), each=senders)
    everybody = np.array([[True, True, True]])
    assert budget.admit(accountant, bitwise(0.5), everybody, "vote")[0].tolist() == [[False, True, False]]
    assert looked


@given(epsilon=st.floats(0.1, 10), delta=st.floats(1e-10, 1e-2), level=st.floats(0.01, 3))
def test_the_renyi_filter_admits_all_that_the_concentrated_one_admits(
    epsilon: float, delta: float, level: float
) -> None:
    zcdp, rdp = Budget(epsilon, delta, method="zcdp"), Budget(epsilon, delta, method="rdp")
    for loss in (bitwise(level), kary(level, 5), laplace(level), gaussian(level**2 / 2)):
        assert rdp.messages(loss) >= zcdp.messages(loss)


def test_budgets_fit_as_many_messages_as_they_say() -> None:
    assert Budget(1.0).messages(bitwise(0.25)) == 4
    assert Budget(0.3).messages(bitwise(0.1)) == 3
    assert Budget(1.0).messages(gaussian(0.01)) == 0
    assert Budget(1.0).messages(NoPrivacy().loss()) == 0
    assert Budget(1.0, 1e-6, method="zcdp").messages(NoPrivacy().loss()) == 0
    few, many = Budget(4.0, 1e-6), Budget(4.0, 1e-6, method="rdp")
    assert few.messages(bitwise(0.05)) == 80
    assert many.messages(bitwise(0.05)) > 300
    count = int(many.messages(bitwise(0.05)))
    assert totals([(bitwise(0.05), count)])["rdp"] <= 4.0 < totals([(bitwise(0.05), int(1.1 * count))])["rdp"]
    assert many.messages(kary(3.0, 4)) == 0 < few.messages(kary(3.0, 4))


def test_budgets_of_other_channels_are_their_own() -> None:
    accountant = make(1, 2)
    accountant.charge("vote", bitwise(0.5), each=np.array([[2, 1]]))
    accountant.charge("mean", bitwise(0.5), everyone=np.array([1]))
    accountant.charge("profile", bitwise(0.5))
    budget = Budget(1.0)
    assert budget.allows(accountant, bitwise(0.5), "vote").tolist() == [[False, True]]
    assert budget.allows(accountant, bitwise(0.5), "mean").tolist() == [[True]]
    assert budget.allows(accountant, bitwise(0.5)).tolist() == [[False, False]]
    assert budget.spent(accountant).tolist() == [[1.5, 1.0]]


@pytest.mark.parametrize("method", ["basic", "zcdp", "rdp"])
@pytest.mark.parametrize("bare", [False, True])
def test_a_budget_over_all_channels_counts_all_of_them(method: Any, bare: bool) -> None:
    """Who may send is told from sums over single messages, kept here; charges on one channel close the others too."""
    rng, orders = np.random.default_rng(3), ORDERS
    budget = Budget(3.0, 0.0 if method == "basic" else 1e-5, method=method)
    accountant, lines = make(2, 3), np.zeros((2, 3))
    kinds = {"vote": bitwise(0.3), "mean": laplace(0.2), "profile": kary(0.25, 4)}

    def cost(loss: PrivacyLoss) -> float:
        if method == "rdp":
            return float(loss.rdp(orders[orders == budget.order])[0])
        return loss.epsilon if method == "basic" else loss.rho

    for name, loss in kinds.items():
        if not (bare and name == "profile"):
            accountant.charge(name, loss)
    refused = 0
    for turn in range(120):
        name = ("vote", "mean", "profile")[turn % (2 if bare else 3)]
        senders = rng.random((2, 3)) < 0.8
        admitted, ended = budget.admit(accountant, kinds[name], senders)
        np.testing.assert_array_equal(admitted, senders & (lines + cost(kinds[name]) <= budget.limit * (1 + 1e-9)))
        assert not ended.any()
        accountant.charge(name, kinds[name], each=admitted)
        lines += cost(kinds[name]) * admitted
        refused += int((senders & ~admitted).sum())
    assert refused > 20
    accountant.charge_levels("vote", np.array([[9.0, 0.0, 0.0]] * 2))
    assert not budget.admit(accountant, laplace(1e-9), np.ones((2, 3), np.bool_))[0][:, 0].any(), "chosen levels count"
    if bare:
        profile: Any = accountant.channels["profile"]
        profile.everyone = np.array([0, 1])
        open_ = budget.admit(accountant, laplace(1e-9), np.ones((2, 3), np.bool_))[0]
        assert not open_[1].any(), "one message without a mechanism spends any budget"
        with pytest.raises(BudgetSpent, match="cannot send on any channel"):
            Budget(1.0, when_spent="raise").admit(accountant, laplace(0.1), np.ones((2, 3), np.bool_))


def test_when_a_budget_is_spent() -> None:
    accountant = make(2, 2)
    accountant.charge("vote", bitwise(0.5), each=np.array([[2, 1], [0, 0]]))
    senders = np.array([[True, True], [True, False]])
    admitted, ended = Budget(1.0).admit(accountant, bitwise(0.5), senders, "vote")
    assert admitted.tolist() == [[False, True], [True, False]]
    assert ended.tolist() == [False, False]
    admitted, ended = Budget(1.0, when_spent="truncate").admit(accountant, bitwise(0.5), senders, "vote")
    assert admitted.tolist() == [[False, True], [True, False]]
    assert ended.tolist() == [True, False]
    strict = Budget(1.0, when_spent="raise")
    with pytest.raises(
        BudgetSpent, match="agent 0 of replica 0 cannot send on vote: its budget of epsilon=1 at delta=0 is spent"
    ):
        strict.admit(accountant, bitwise(0.5), senders, "vote")
    silent = np.array([[False, True], [True, True]])
    assert strict.admit(accountant, bitwise(0.5), silent, "vote")[0].tolist() == silent.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"epsilon": math.inf}, "epsilon must be"),
        ({"epsilon": "1"}, "epsilon must be"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta must be"),
        ({"epsilon": 1.0, "delta": -1e-9}, "delta must be"),
        ({"epsilon": 1.0, "when_spent": "stop"}, "when_spent must be one of"),
        ({"epsilon": 1.0, "method": "pld"}, "method must be one of"),
        ({"epsilon": 1.0, "method": "rdp"}, "delta must be > 0 where method is 'rdp'"),
    ],
)
def test_hostile_budgets(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Budget(**options)


# Odometers.


def realised_losses(epsilon: float, at: Array, runs: int, seed: int) -> Array:
    """Privacy losses of the first `at` binary randomised responses of a sender, [runs, times]: a sum of +-epsilon,
    drawn here."""
    honest = np.random.default_rng(seed).binomial(np.diff(at, prepend=0), 1 / (1 + math.exp(-epsilon)), (runs, at.size))
    return np.asarray(epsilon * (2 * np.cumsum(honest, 1) - at))


def after(loss: PrivacyLoss, at: Array) -> Accountant:
    """An accountant whose agents have sent `at` messages, one number each."""
    accountant = make(1, at.size)
    accountant.charge("vote", loss, each=at[None])
    return accountant


def test_a_sender_who_stops_at_its_worst_beats_totals_but_no_odometer() -> None:
    """It stops once its realised loss exceeds the bound. 20,000 runs, delta = 0.05: four standard errors are 0.006 (a
    false alarm 3e-5)."""
    at = np.unique(np.geomspace(50, 3_000, 24).astype(np.int64))
    losses, delta = realised_losses(0.2, at, 20_000, 0), 0.05
    accountant = after(kary(0.2, 2), at)
    beaten = losses > accountant.epsilon(delta, method="zcdp")
    assert beaten.mean(0).max() <= delta + 0.006, "at each fixed count the total holds"
    assert beaten.any(1).mean() > 0.12
    assert (losses > accountant.epsilon(delta, method="pld", worst=40)).any(1).mean() > 0.3
    for tightest_at in (0.3, 1.0, 5.0, 50.0):
        assert 0 < (losses > accountant.odometer(delta, tightest_at=tightest_at)).any(1).mean() <= delta + 0.006


def test_a_sender_who_chooses_its_levels_beats_no_odometer() -> None:
    """It raises its level while it loses, and stops when the bound is beaten: 20,000 runs, as above."""
    rng, delta, runs = np.random.default_rng(1), 0.05, 20_000
    loss, squares, beaten = np.zeros(runs), np.zeros(runs), np.zeros(runs, np.bool_)
    for _ in range(400):
        level = np.where(loss > 0, 0.3, 0.05)
        loss += level * np.where(rng.random(runs) < 1 / (1 + np.exp(-level)), 1, -1)
        squares += level**2
        beaten |= loss > composition.odometer_epsilon(squares / 2, delta, 1.0)
    assert 0 < beaten.mean() <= delta + 0.006


@pytest.mark.parametrize("delta", [0.1, 1e-3, DELTA])
@pytest.mark.parametrize("tightest_at", [0.2, 1.0, 20.0])
def test_the_odometer_by_hand(delta: float, tightest_at: float) -> None:
    """Where the mixture of supermartingales, integrated here, reaches 1 / delta at a loss that is not greater; r
    minimises by search."""
    from scipy.integrate import quad
    from scipy.optimize import minimize_scalar

    def bound(v: float, log_r: float) -> float:
        r = math.exp(log_r)
        return v / 2 + math.sqrt((v + r) * (2 * math.log(1 / delta) + math.log((v + r) / r)))

    def best(v: float) -> Any:
        return minimize_scalar(lambda log_r: bound(v, log_r), bounds=(-25, 10), method="bounded")

    low, high = 1e-12, 1e3
    for _ in range(80):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if best(middle).fun > tightest_at else (middle, high)
    r = math.exp(best(low).x)
    for v in (low / 10, low, 30 * low):
        found = float(composition.odometer_epsilon(np.array([v / 2]), delta, tightest_at)[0])
        assert found == pytest.approx(bound(v, math.log(r)), rel=1e-4)

        def mixture(lam: float, v: float = v, loss: float = found) -> float:
            return math.sqrt(2 * r / math.pi) * math.exp(-r * lam**2 / 2 + lam * (loss - v / 2) - lam**2 * v / 2)

        peak = (found - v / 2) / (v + r)
        width = 12 / math.sqrt(v + r)
        assert quad(mixture, max(peak - width, 0), peak + width, points=[peak])[0] >= 1 / delta * (1 - 1e-3)
    assert composition.odometer_epsilon(np.array([0.0, np.inf]), delta, tightest_at).tolist() == [0.0, math.inf]


def test_an_odometer_reads_what_totals_read() -> None:
    accountant = make(2, 2, disjoint="vote")
    accountant.charge("vote", bitwise(0.5), each=np.array([[4, 1], [0, 0]]))
    accountant.charge("mean", bitwise(0.25), everyone=np.array([2, 0]))
    accountant.charge("profile", gaussian(0.01), each=np.array([[0, 1], [0, 0]]))
    assert accountant.odometer(0.0).tolist() == [[2.5, math.inf], [0.0, 0.0]]
    assert accountant.odometer(0.0, unit="event", channel="vote").tolist() == [[0.5, 0.5], [0.0, 0.0]]
    assert accountant.odometer(0.0, observer="neighbour", by="max").tolist() == [math.inf, 0.0]
    assert accountant.odometer(0.0, "max", channel="mean").tolist() == [0.5, 0.0]
    rho = 0.5**2 / 4 + 2 * 0.25**2 / 4 + 0.01
    assert accountant.odometer(1e-5)[0, 1] == composition.odometer_epsilon(np.array([rho]), 1e-5, 1.0)[0]
    assert (accountant.odometer(1e-5) >= accountant.epsilon(1e-5)).all()
    bare = make(1, 1)
    bare.charge("vote", NoPrivacy().loss(), everyone=np.array([1]))
    assert bare.odometer().tolist() == [[math.inf]]
    levels = make(1, 1)
    for _ in range(500):
        levels.charge_levels("vote", np.array([[0.1]]))
    assert levels.odometer(1e-5)[0, 0] == pytest.approx(
        float(composition.odometer_epsilon(np.array([2.5]), 1e-5, 1.0)[0])
    )
    roles = Accountant(
        1, {"a": 1, "b": 2}, [Channel("x", "bounded", observer="public", unit="event")], senders={"x": "b"}
    )
    roles.charge("x", laplace(0.5), each=np.array([[1, 2]]))
    assert {role: values.tolist() for role, values in roles.odometer().items()} == {"a": [[0.0]], "b": [[0.5, 1.0]]}


def test_the_odometer_against_opendp() -> None:
    """OpenDP's odometer of pure and zCDP messages adds epsilons and rhos, as ours does before it converts them."""
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    make_odometer = getattr(dp.c, "make_fully_adaptive_composition", None)
    if make_odometer is None:
        pytest.skip("this version of OpenDP has no odometers")
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    odometer = make_odometer(*space, output_measure=dp.max_divergence())(0.0)
    ours = make(1, 1)
    for epsilon in (0.1, 0.7, 0.2):
        odometer(dp.m.make_laplace(*space, scale=1 / epsilon))
        ours.charge("mean", laplace(epsilon), everyone=np.array([1]))
        assert ours.odometer(0.0)[0, 0] == pytest.approx(odometer.privacy_loss(1.0), rel=1e-6)


def test_a_budget_holds_whenever_a_sender_stops() -> None:
    """Delta, E[max(0, 1 - e^(epsilon - L))], of a sender who stops where its loss exceeds a level: 20,000 runs at 0.1,
    as above."""
    epsilon, delta = 2.0, 0.05
    methods: tuple[Any, ...] = ("zcdp", "rdp")
    for method in methods:
        admitted = int(Budget(epsilon, delta, method=method).messages(kary(0.1, 2)))
        assert 50 < admitted < 300
        losses = realised_losses(0.1, np.arange(1, admitted + 1), 20_000, 2)
        for level in (epsilon, 1.5 * epsilon, math.inf):
            stops = np.where((losses > level).any(1), (losses > level).argmax(1), admitted - 1)
            spent = losses[np.arange(len(losses)), stops]
            assert 0 < np.maximum(0, -np.expm1(epsilon - spent)).mean() <= delta + 0.006


@pytest.mark.parametrize(
    "counts",
    [
        [np.array([2**62, 0])] * 3,
        [np.array([2**62 + 1, 0])],
        [np.array([0, 2**63 - 1])],
        [np.array([1, 2**64 - 1], np.uint64)],
        [np.array([2**61, 0]), np.array([2**61, 0]), np.array([1, 0])],
    ],
    ids=range(5),
)
@pytest.mark.parametrize("everyone", [False, True])
def test_counts_past_the_largest_are_refused_and_never_wrap_around(counts: list[Array], everyone: bool) -> None:
    """Three times 2^62 messages once cost 0."""
    accountant, before = make(2, 2), counts[:-1]
    if len(counts) == 3 and counts[0][0] == 2**62:
        before = counts[:1]

    def charge(more: Array) -> None:
        accountant.charge("vote", bitwise(1.0), more if everyone else None, None if everyone else np.tile(more, (2, 1)))

    for more in before:
        charge(more)
    with pytest.raises(ValueError, match=r"(counts|each|everyone).* must .*2\^62"):
        charge(counts[-1])
    spent = sum(float(more.max()) for more in before)
    assert accountant.epsilon(method="basic", channel="vote").max() == spent


def test_a_accountant_that_is_reset_may_count_on() -> None:
    accountant = make(1, 1)
    for _ in range(4):
        accountant.charge("vote", bitwise(1.0), np.array([2**62]))
        accountant.reset()
    accountant.charge("vote", bitwise(1.0), np.array([5]))
    assert accountant.messages("vote").tolist() == [[5]]


@pytest.mark.parametrize("level", [1e300, 10**400, 10**5000, 1e-300], ids=range(4))
def test_levels_beyond_all_numbers_are_refused(level: Any) -> None:
    with pytest.raises(ValueError, match=r"^epsilon must"):
        Budget(level)
    with pytest.raises(ValueError, match=r"^tightest_at must"):
        make().odometer(tightest_at=level)
    if level == 1e300:
        accountant = make(1, 2)
        with pytest.raises(ValueError, match=r"epsilons must be inf or at most 1e\+100, not 1e\+300"):
            accountant.charge_levels("vote", np.array([[level, math.inf]]))
        assert accountant.messages("vote").sum() == 0
    if isinstance(level, int):
        with pytest.raises(ValueError, match="events must be an integer"):
            make(2, 3).charge("vote", bitwise(1.0), np.ones(2, int), events=level)


def test_numpy_scalars_are_numbers() -> None:
    accountant = make(1, 2)
    accountant.charge("vote", bitwise(1.0), np.array([3]), events=np.int64(2))  # type: ignore[arg-type]
    kinds: tuple[Any, ...] = (np.float32, np.float64)
    for scalar in kinds:
        assert (accountant.epsilon(scalar(0.25)) == accountant.epsilon(0.25)).all()
        assert (
            accountant.odometer(scalar(0.25), tightest_at=scalar(2)) == accountant.odometer(0.25, tightest_at=2.0)
        ).all()
        assert Budget(scalar(4), scalar(0.25), method="zcdp").limit == Budget(4.0, 0.25, method="zcdp").limit
