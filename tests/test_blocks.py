"""`Blocks`: running sums of a stream whose blocks are released once each, by itself and through the recommender's third
party. Statistical tests raise a false alarm with a probability of at most 1e-4 each."""

from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import pytest
from scipy import stats

from taciturn.envs import recommender_v0
from taciturn.envs.core import Array, ChannelConfig
from taciturn.envs.recommender.sharing import Request
from taciturn.privacy import stateful
from taciturn.privacy.mechanisms import Blocks, TreeAggregation
from taciturn.privacy.stateful import BlockNoise, address_laplace
from taciturn.wrappers import audit

ALPHA = 1e-4
EPSILON = 0.8


@pytest.mark.parametrize("sampler", ["fast", "exact"])
def test_each_block_gets_laplace_noise_once(sampler: str) -> None:
    """Increments of the noise are independent, Laplace of scale sensitivity / epsilon, whole or in steps."""
    mechanism, rng = Blocks(EPSILON, sampler=sampler), np.random.default_rng(0)
    x = np.array([3.0, 0.0, 1.5])
    whole = mechanism.perturb(np.tile(x, (20_000, 1)), rng, 0.5)
    state = mechanism.start((20_000,), sensitivity=0.5)
    stepped = np.stack([mechanism.step(np.full(20_000, value), rng, state, sensitivity=0.5) for value in x], 1)
    for y in (whole, stepped):
        noise = np.diff(y - x.cumsum(), axis=1, prepend=0)
        for j in range(3):
            assert stats.kstest(noise[:, j], stats.laplace(scale=0.5 / EPSILON).cdf).pvalue > ALPHA
        assert abs(np.corrcoef(noise.T) - np.eye(3)).max() < 0.028, "four standard errors"
        np.testing.assert_allclose(y.var(0) / mechanism.variance(x[None], 0.5)[0], 1, atol=0.07)


def test_a_stream_is_charged_once_and_begins_anew() -> None:
    mechanism, rng = Blocks(EPSILON), np.random.default_rng(0)
    state, charges = mechanism.start((2, 3), sensitivity=1.0), np.zeros((2, 3), np.int64)
    where = np.array([[True, True, False]] * 2)
    for _ in range(4):
        before = np.zeros((2, 3)) if state.total is None else state.total.copy()
        y = mechanism.step(np.ones((2, 3)), rng, state, where=where)
        charges += state.fresh
        np.testing.assert_array_equal(y == before, ~where)
    np.testing.assert_array_equal(charges, where)
    state.reset(np.array([True, False]))
    assert state.total is not None
    assert not state.total[0].any()
    mechanism.step(np.ones((2, 3)), rng, state, where=np.array([True, False]))
    np.testing.assert_array_equal(state.fresh, [[True] * 3, [False] * 3])
    np.testing.assert_array_equal(state.time, [[1, 1, 1], [4, 4, 0]])


def worst(mechanism: Any) -> float:
    """The largest log-likelihood ratio over changes of one value of a stream of five blocks, at drawn answers and far
    from all values."""
    x0, x1 = np.zeros((200, 5, 5)), np.tile(np.eye(5), (200, 1, 1))
    drawn = mechanism.perturb(x0, np.random.default_rng(0))
    far = np.broadcast_to(-100.0 * np.arange(1, 6), x0.shape)
    return float(max(np.abs(mechanism.log_likelihood_ratio(y, x0, x1)).max() for y in (drawn, far)))


def test_one_value_costs_epsilon_and_no_more() -> None:
    assert worst(Blocks(EPSILON, 1.0)) == pytest.approx(EPSILON)
    assert Blocks(EPSILON).loss().epsilon == EPSILON
    assert Blocks(EPSILON).loss().rho == pytest.approx(EPSILON**2 / 2)
    few = np.zeros(4)
    tree = TreeAggregation(EPSILON, horizon=500, sensitivity=1.0).variance(few)
    assert (Blocks(EPSILON, 1.0).variance(few) < tree).all()


# The third party.

SHOP: dict[str, Any] = {"num_agents": 3, "num_items": 20, "repository": 10, "horizon": 20, "graph": "complete"}


def told(many: int, values: list[float], *, seed: int = 0, distribution: Any = None) -> Array:
    """Answers [questions, 2 (statistics and counts), streams] to agents 0, 1 and 1, who ask for the same streams in
    rounds 5, 5 and 9, when all their sums are the `values`; all counts are 7, and then 8."""
    env = recommender_v0.population(1, **SHOP)
    distribution = Blocks(EPSILON) if distribution is None else distribution
    env.reset(seed=seed, options={"channels": dict.fromkeys(("statistics", "counts"), ChannelConfig(distribution))})
    found = []
    for agent, time, value in zip((0, 1, 1), (5, 5, 9), values, strict=True):
        asked = np.zeros((1, 3), np.bool_)
        asked[:, agent] = True
        sums = np.full((1, 3, many), value)
        names = np.broadcast_to(np.arange(many).astype(np.uint64)[::-1], sums.shape)
        request = Request(
            asked,
            sums,
            np.full(sums.shape, 7 + (time > 5)),
            names,
            lambda who: who.astype(np.int64),
            np.full(3, 3),
            lambda who, reader: np.zeros((1, 3), np.int64),
        )
        answer = env.third_party.answer(request, env.channels, np.full(1, time), 20)
        assert answer[2][:, agent].all()
        found.append(np.stack(answer[:2], 1)[0, :, agent])
    return np.stack(found)


def test_a_question_ends_a_block_and_the_same_round_gets_the_same_answer() -> None:
    y = told(10_000, [2.0, 2.0, 3.0])
    np.testing.assert_array_equal(y[0], y[1])
    noise = np.concatenate([y[0] - [[2], [7]], y[2] - y[0] - [[1], [1]]])
    for one in noise:
        assert stats.kstest(one, stats.laplace(scale=1 / EPSILON).cdf).pvalue > ALPHA
    assert abs(np.corrcoef(noise) - np.eye(4)).max() < 0.042, "4.2 standard errors"


def test_new_runs_have_new_noise_and_nothing_of_the_old_ones() -> None:
    env = recommender_v0.population(2, **SHOP)
    env.reset(seed=0, options={"channels": {"statistics": ChannelConfig(Blocks(EPSILON))}})
    account = env.third_party.accounts["statistics"]
    ones = np.zeros(2, np.int64), np.full(2, -1)
    streams = np.array([[4, 9], [9, 4]], np.uint64)
    first = account.block_noise(*ones, account.key[[0, 0]], streams, np.full(2, 3))
    np.testing.assert_array_equal(first[0], first[1, ::-1])
    assert set(account.blocks) == {(0, -1)}
    env.third_party.start(np.array([False, True]), env.channels)
    assert set(account.blocks) == {(0, -1)}
    env.third_party.start(np.array([True, False]), env.channels)
    assert not account.blocks


def test_streams_that_are_asked_for_later_are_kept_in_order() -> None:
    noise, key = BlockNoise(), np.uint64(5)
    early = noise.released(key, np.array([9, 2], np.uint64), 1)
    later = noise.released(key, np.array([5, 2, 9], np.uint64), 4)
    for name, at_1, at_4 in ((9, early[0], later[2]), (2, early[1], later[1]), (5, 0.0, later[0])):
        fresh = address_laplace(key, np.array([name], np.uint64), np.uint64(4))[0]
        assert at_4 == pytest.approx(at_1 + fresh)


# Audits, with confidence 0.9999: one feedback of the first block is 1 instead of 0.


def transcript(x: int, rng: np.random.Generator, trials: int, distribution: Any = None) -> Array:
    """Each trial is a stream."""
    return told(trials, [x, x, x + 1.0], seed=int(rng.integers(2**31)), distribution=distribution)[[0, 2], 0].T


def without_time(key: Any, stream: Any, place: Any) -> Array:
    """A mistake: the blocks of a stream share their noise."""
    return address_laplace(key, stream, np.zeros_like(place))


class HalfNoise(Blocks):
    """A mistake: half of the noise."""

    def block_scale(self, horizon: Any, sensitivity: float) -> Array:
        return super().block_scale(horizon, sensitivity) / 2


def test_audits_of_what_the_third_party_tells() -> None:
    how: dict[str, Any] = {"trials": 20_000, "confidence": 0.9999, "claimed": EPSILON, "bits": False}
    sound = audit(transcript, (0, 1), **how)
    assert 0.4 < sound.certified <= EPSILON
    assert audit(partial(transcript, distribution=HalfNoise(EPSILON)), (0, 1), **how).verdict == "violated"
    with mock.patch.object(stateful, "address_laplace", without_time):
        assert audit(transcript, (0, 1), **how).verdict == "violated"


def test_only_the_recommenders_streams_take_blocks() -> None:
    env = recommender_v0.population(1, **SHOP)
    with pytest.raises(ValueError, match="mechanism on channel 'selection' must be Exponential"):
        env.reset(seed=0, options={"channels": {"selection": ChannelConfig(Blocks(1.0))}})
    with pytest.raises(ValueError, match=r"sampler must be 'fast' on channel 'counts'"):
        env.reset(seed=0, options={"channels": {"counts": ChannelConfig(Blocks(1.0, sampler="exact"))}})
    with pytest.raises(ValueError, match=r"state must come from Blocks\.start"):
        Blocks(1.0).step([1.0], np.random.default_rng(0), None)
