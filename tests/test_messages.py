"""What agents say on channels: numbers that are not finite, sensitivities as stated, and what each event enters."""

from typing import Any

import numpy as np
import pytest

import taciturn
from taciturn.envs import federated_training_v0
from taciturn.envs.core import Array, Channel, ChannelConfig, Streams
from taciturn.policies import FixedCount
from taciturn.privacy.ledger import Ledger
from taciturn.privacy.mechanisms import (
    Blocks,
    CentralSum,
    DistributedSum,
    Exponential,
    Gaussian,
    Laplace,
    Memoized,
    NoPrivacy,
    Scheduled,
    TreeAggregation,
)

# Numbers that are not finite.

FAR = 1e100
NUMERIC = [
    Laplace(1.0),
    Laplace(1.0, sampler="exact"),
    Gaussian(1.0, 1e-5),
    Gaussian(1.0, 1e-5, sampler="exact"),
    CentralSum(Laplace(1.0)),
    CentralSum(Laplace(1.0, sampler="exact")),
    CentralSum(Gaussian(1.0, 1e-5)),
    DistributedSum(1.0),
    Scheduled(Laplace(1.0)),
    Memoized(Laplace(1.0)),
    TreeAggregation(1.0, 4),
    TreeAggregation(1.0, 4, sampler="exact"),
    Blocks(1.0),
    Exponential(1.0),
]


def heard(mechanism: Any, x: Array) -> Array:
    """What is read of the messages x [B, N, K], with the same noise each time."""
    payload = next(one for one in ("vector", "stream", "scores") if one in mechanism.payloads)
    channel = Channel("c", payload, observer="server", unit="event", averaged=True, num_senders=x.shape[1])
    channel.install(ChannelConfig(mechanism), Ledger(len(x), x.shape[1], [channel]))
    channel.draw_from(Streams(0))
    channel.reset(len(x))
    return np.asarray(channel.send(x, None, 1.0)[0])


@pytest.mark.parametrize("mechanism", NUMERIC, ids=repr)
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_numbers_that_are_not_finite_raise_nothing_and_pass_nothing(mechanism: Any, kind: Any) -> None:
    """An error, a warning or a NaN would tell what noise hides. NaN reads as 0, and what is too far away as a bound."""
    x = np.array([[[np.nan, 0.5, np.inf, -np.inf, 2.0], [0.25, np.nan, 0.5, 1.0, -1.0]]], kind)
    as_read = np.array([[[0.0, 0.5, FAR, -FAR, 2.0], [0.25, 0.0, 0.5, 1.0, -1.0]]])
    found = heard(mechanism, x)
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found, heard(mechanism, as_read))
    if kind is np.float64:
        np.testing.assert_array_equal(heard(mechanism, x * 1e200), heard(mechanism, np.sign(as_read) * FAR))
    with pytest.raises(ValueError, match="x must"):
        heard(mechanism, np.full(x.shape, "a"))


def test_where_nothing_is_hidden_numbers_pass_as_they_are() -> None:
    x = np.array([[[np.nan, np.inf]]])
    np.testing.assert_array_equal(heard(NoPrivacy(), x), x)


def test_averages_on_their_own_refuse_nan() -> None:
    """As all mechanisms do that are called without a channel."""
    x, everybody = np.array([[[np.nan], [1.0]]]), np.ones((1, 2), np.bool_)
    for mechanism in (DistributedSum(1.0), CentralSum(Laplace(1.0))):
        with pytest.raises(ValueError, match="x must hold finite numbers only"):
            mechanism.average(x, everybody, everybody, np.random.default_rng(0), 1.0)


@pytest.mark.parametrize("mechanism", [Gaussian(1.0, 1e-5), CentralSum(Gaussian(1.0, 1e-5)), DistributedSum(1.0)])
def test_training_that_diverges_says_nothing(mechanism: Any) -> None:
    """At a learning rate of 1e30 all updates are NaN or infinite: what is sent is noise around 0 or within the clip."""
    env = federated_training_v0.population(num_clients=4, clip_norm=0.5, learning_rate=1e30, horizon=12.0)
    run = taciturn.simulate(env, FixedCount(3), seed=0, privacy={"update": mechanism})
    assert env.channels["update"].messages().sum() > 0
    assert np.isfinite(env.state.parameters).all()
    assert run.ledger is not None

