"""The noise of every mechanism as observers of a channel measure it, where the agents' sensitivities differ: 1, 10 and
100 must give 1, 10 and 100 times the noise, whoever sends, in a first run, in a second one of the same objects, and
after a reset of some replicas."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from taciturn.envs.core import Array, Channel, ChannelConfig, Streams
from taciturn.privacy.accountant import Accountant
from taciturn.privacy.mechanisms import (
    Blocks,
    CentralSum,
    ChosenLevels,
    DistributedSum,
    Exponential,
    Gaussian,
    Laplace,
    Memoized,
    Scheduled,
    TreeAggregation,
)
from taciturn.privacy.stateful import BlockNoise

SIZES = np.array([1.0, 10.0, 100.0])
REPLICAS, AGENTS = 250, 6
SHAPE = REPLICAS, AGENTS
NORMAL = math.sqrt(2 / math.pi)  # mean |x| of a standard normal number
ROUNDS = 3


def channel_for(mechanism: Any, **options: Any) -> Channel:
    payload: Any = next(one for one in ("stream", "scores", "vector", "bounded") if one in mechanism.payloads)
    return Channel("x", payload, observer="server", unit="event", num_senders=AGENTS, **options)


def runs(channel: Channel, mechanism: Any, play: Callable[[Array, np.random.Generator, str], None]) -> None:
    """`play` three times: a run, another one with the same objects, and one in the replicas that are reset, where
    streams keep the second run's sensitivities."""
    for number, name in enumerate(("first run", "second run", "after a partial reset")):
        rng = np.random.default_rng(min(number, 1))
        if number < 2:
            channel.install(ChannelConfig(mechanism), Accountant(REPLICAS, AGENTS, [channel]))
            channel.draw_from(Streams(number))
            channel.reset(REPLICAS)
            live = np.ones(REPLICAS, np.bool_)
        else:
            live = np.arange(REPLICAS) % 5 > 0
            channel.reset(REPLICAS, live)
        play(live, rng, name)


def assert_size(noise: Array, scale: Array, what: str) -> None:
    """That |noise| has the mean `scale`, for each of SIZES among `scale`'s sizes: 6 standard errors (the deviation of
    |x| is at most its mean), so false alarms below 2e-9 each."""
    for size in np.unique(scale):
        found = np.abs(noise[scale == size])
        assert found.size >= 100
        assert abs(found.mean() / size - 1) < 6 / math.sqrt(found.size), (what, size, found.mean())


# Mechanism; mean |noise| of a message at sensitivity 1, as its source says, by the number of the message.
ADDITIVE: dict[str, tuple[Any, Callable[[int], float]]] = {
    "laplace": (Laplace(0.5), lambda t: 2.0),
    "laplace exact": (Laplace(0.5, sampler="exact"), lambda t: 2.0),
    "gaussian": (Gaussian.from_rho(0.125), lambda t: 2 * NORMAL),
    "gaussian exact": (Gaussian.from_rho(0.125, sampler="exact"), lambda t: 2 * NORMAL),
    "memoized": (Memoized(Laplace(0.5)), lambda t: 2.0),
    "memoized gaussian": (Memoized(Gaussian.from_rho(0.125)), lambda t: 2 * NORMAL),
    "scheduled": (Scheduled(Laplace(0.5), at=2), lambda t: 2.0 * (t >= 2)),
    # The first t values lie in as many blocks as t has ones; each has scale levels / epsilon, of which two add up to a
    # mean of 3/2 scales.
    "tree": (TreeAggregation(0.5, horizon=7), lambda t: 6 * [0, 1, 1, 1.5][t]),
    "tree exact": (TreeAggregation(0.5, horizon=7, sampler="exact"), lambda t: 6 * [0, 1, 1, 1.5][t]),
    "blocks": (Blocks(0.5), lambda t: 2 * [0, 1, 1.5, 1.875][t]),
    "blocks exact": (Blocks(0.5, sampler="exact"), lambda t: 2 * [0, 1, 1.5, 1.875][t]),
    "levels": (ChosenLevels(Laplace(2.0)), lambda t: 2.0),
    "levels that are not repeated": (ChosenLevels(Laplace(2.0), repeats=False), lambda t: 2.0),
}


@pytest.mark.parametrize("message", [(), (2,)], ids=["numbers", "vectors"])
@pytest.mark.parametrize("name", ADDITIVE)
def test_each_agent_has_the_noise_of_its_own_sensitivity(name: str, message: tuple[int, ...]) -> None:
    """Sensitivities in random order, Euclidean ones of vectors, of which Laplace noise must hide sqrt(2) times as much;
    some agents silent in each round. Values of memoised answers change in every round. Streams state less after their
    first value, and keep the noise of the first."""
    mechanism, expected = ADDITIVE[name]
    channel = channel_for(mechanism)

    def play(live: Array, rng: np.random.Generator, what: str) -> None:
        size = rng.permuted(np.resize(SIZES, SHAPE), axis=1)
        aligned = size.reshape(*SHAPE, *[1] * len(message))
        total, sent = np.zeros((*SHAPE, *message)), np.zeros(SHAPE, np.int64)
        noise, scale = [], []
        for time in range(ROUNDS):
            x = np.round(rng.uniform(-5, 5, (*SHAPE, *message)), 3)
            who = live[:, None] & (rng.random(SHAPE) < 0.7)
            stated = size if mechanism.stateful and not mechanism.takes_levels else aligned
            if mechanism.per_stream and time:
                stated = stated / 10
            if mechanism.takes_levels:
                channel.levels = rng.choice([0.5, 1.0, 2.0], SHAPE)
            y, there = channel.send(x, who, stated, norm=2 if message else 1)
            sent += who
            np.testing.assert_array_equal(there, who)
            total = np.where(who.reshape(aligned.shape), total + x, total) if mechanism.per_stream else x
            for t in range(1, ROUNDS + 1):
                mean, now = expected(t), who & (sent == t)
                if isinstance(mechanism, Scheduled) and t != mechanism.at:
                    continue
                reach = size * (0.5 / channel.levels if mechanism.takes_levels else 1.0)
                reach = reach * (math.sqrt(2) if message and mechanism.norm == 1 else 1.0)
                noise.append(((y - total)[now] / mean).ravel())
                scale.append(np.broadcast_to(reach.reshape(aligned.shape), x.shape)[now].ravel())
        drawn, sizes = np.concatenate(noise), np.concatenate(scale)
        assert_size(drawn, sizes, f"{name}, {what}")

    runs(channel, mechanism, play)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("mechanism", [CentralSum(Laplace(0.5)), DistributedSum(0.5), DistributedSum(0.5, dropouts=1)])
def test_an_average_has_the_noise_of_its_largest_share(mechanism: Any, weighted: bool) -> None:
    """max w s / epsilon / sum w, over those who send. The noise of shares that are not needed is more: with one in
    reserve of n, at most n / (n - 1) times the variance."""
    channel = channel_for(mechanism, averaged=True)

    def play(live: Array, rng: np.random.Generator, what: str) -> None:
        drawn, scale = [], []
        for _ in range(ROUNDS):
            size = rng.permuted(np.resize(SIZES, SHAPE), axis=1)
            weights = rng.choice([0.05, 1.0, 2.0], SHAPE) if weighted else np.ones(SHAPE)
            x, who = rng.uniform(-1, 1, SHAPE) * size, live[:, None] & (rng.random(SHAPE) < 0.7)
            who &= who.sum(1, keepdims=True) > 2
            y, there = channel.send(x, who, size, weights=weights if weighted else None)
            np.testing.assert_array_equal(there, who)
            some, weight = who.any(1), np.where(who, weights, 0.0)
            mean = (weight * x).sum(1)[some] / weight.sum(1)[some]
            read = np.where(who, y, -np.inf).max(1)[some]
            drawn.append((read - mean) * weight.sum(1)[some] * 0.5)
            scale.append((weight * size).max(1)[some])
        noise, sizes = np.concatenate(drawn), np.concatenate(scale)
        for size in np.unique(sizes):
            found = np.abs(noise[sizes == size]) / size
            slack = 6 / math.sqrt(found.size)
            most = math.sqrt(1.5) if getattr(mechanism, "dropouts", 0) else 1.0
            assert 1 - slack < found.mean() < most + slack, (what, size, found.mean())

    runs(channel, mechanism, play)


@pytest.mark.parametrize("sampler", ["fast", "exact"])
def test_each_agent_selects_by_its_own_sensitivity(sampler: str) -> None:
    """Scores that differ by a sensitivity each are chosen with odds e^(epsilon / 2), whatever that is: 6 standard
    errors."""
    mechanism = Exponential(2.0, sampler=sampler)
    channel = channel_for(mechanism)
    chance = math.e / (1 + math.e)

    def play(live: Array, rng: np.random.Generator, what: str) -> None:
        chosen, sizes = [], []
        for _ in range(ROUNDS):
            size = rng.permuted(np.resize(SIZES, SHAPE), axis=1)
            best, who = rng.integers(0, 2, SHAPE), live[:, None] & (rng.random(SHAPE) < 0.7)
            scores = size[..., None] * (np.arange(2) == best[..., None])
            y, _ = channel.send(scores, who, size[..., None])
            chosen.append((y == best)[who])
            sizes.append(size[who])
        for one in SIZES:
            found = np.concatenate(chosen)[np.concatenate(sizes) == one]
            assert abs(found.mean() - chance) < 6 * math.sqrt(chance * (1 - chance) / found.size), (what, one)

    runs(channel, mechanism, play)


@pytest.mark.parametrize(
    ("mechanism", "scale"),
    [
        (TreeAggregation(0.5), 3.0),
        (TreeAggregation(0.5, horizon=60), 6.0),
        (TreeAggregation(0.5, horizon=60, sensitivity=10.0), 60.0),
        (TreeAggregation(0.5, horizon=60, scale="ln"), math.log(60)),
        (Blocks(0.5), 1.0),
        (Blocks(0.5, sensitivity=10.0), 10.0),
    ],
    ids=repr,
)
def test_noise_by_address_has_the_scale_of_its_stream(mechanism: Any, scale: float) -> None:
    """Of streams of up to 7 values of sensitivity 1, after one value, in units of 1 / epsilon: levels of the longest
    stream that the mechanism is for, and its own sensitivity if it has one."""
    streams, key = np.arange(5000, dtype=np.uint64), np.uint64(3)
    if isinstance(mechanism, Blocks):
        noise = BlockNoise().released(key, streams, 1)
    else:
        noise = mechanism.noise_at(key, streams, np.ones(5000, np.int64))
    assert_size(noise * mechanism.block_scale(np.full(5000, 7), 1.0) * 0.5, np.full(5000, scale), repr(mechanism))
