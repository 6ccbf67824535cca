"""What agents say on channels: numbers that are not finite, sensitivities as stated, and what each event enters."""

import math
from copy import copy
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import pytest
from contextual_world import contextual_bandit_v0

import taciturn
from taciturn.envs import arm_elimination_v0, federated_bandit_v0, federated_training_v0, recommender_v0
from taciturn.envs.core import Array, Channel, ChannelConfig, PublicView, Streams, as_policies, begin
from taciturn.policies import EliminationSchedule, FixedCount, Random, TPriDO
from taciturn.privacy.accountant import Accountant
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
    payload: Any = next(one for one in ("vector", "stream", "scores") if one in mechanism.payloads)
    channel = Channel("c", payload, observer="server", unit="event", averaged=True, num_senders=x.shape[1])
    channel.install(ChannelConfig(mechanism), Accountant(len(x), x.shape[1], [channel]))
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
    assert run.accountant is not None


# Sensitivities as stated.


class Sent(NamedTuple):
    """A use of `Channel.send`."""

    channel: str
    x: Array
    who: Array
    stated: Any
    norm: int
    events: int | None


def sent_by(env: Any, policy: Any, change: Any = None, before: list[Any] | None = None) -> tuple[list[Sent], list[Any]]:
    """What a run of one replica sends, and what is read of it; or, with the results `before` of another run in their
    place, what it sends when `change` replaces what agents privately observe."""
    population = env.alike(1, **({} if change is None else {"private": change}))
    noise = {name: ChannelConfig(MECHANISMS[one.payload]) for name, one in population.channels.items()}
    noise.pop("exchange", None)
    population.reset(seed=0, options={"channels": noise, "public_schedule": True})
    policies = as_policies(population, policy)
    begin(population, policies)
    sent, read, results = list[Sent](), list[Any](), iter(before or ())

    def listen(channel: Channel) -> None:
        send, answer = channel.send, channel.answer

        def result(speak: Any) -> Any:
            read.append(speak() if before is None else next(results))
            return read[-1]

        def sends(x: Array, senders: Any = None, sensitivity: Any = None, **named: Any) -> Any:
            who = np.ones(x.shape[:2], np.bool_) if senders is None else senders
            how = named.get("norm", 1), named.get("events")
            sent.append(Sent(channel.name, x.copy(), who.copy(), copy(sensitivity), *how))
            return result(lambda: send(x, senders, sensitivity, **named))

        channel.send = sends  # type: ignore[method-assign]
        channel.answer = lambda *given: result(lambda: answer(*given))  # type: ignore[method-assign]

    for channel in population.channels.values():
        listen(channel)
    population.advance(policies, fast=False)
    return sent, read


def moved(first: Sent, second: Sent, agent: int, payload: str) -> float:
    """How far a message of an agent differs, in stated sensitivities."""
    np.testing.assert_array_equal(first.who, second.who)
    np.testing.assert_array_equal(first.stated, second.stated)
    far = np.abs(first.x - second.x)
    assert not np.delete(far, agent, 1).any(), "what others say follows from what they received"
    share = np.where(first.who[0, agent], (far / first.stated)[0, agent], 0.0)
    return float(np.linalg.norm(share, np.inf if payload == "scores" else first.norm) if share.ndim else share)


def flipped(agent: int, event: int | None) -> Any:
    """The hook in which one event of an agent is another one, the event-th that it observes; None: all of them are."""
    seen = count()

    def private(_: Any, drawn: Array, agents: Array | None = None) -> Array:
        mine = (np.arange(drawn.shape[1]) if agents is None else agents[0]) == agent
        if not mine.any() or event not in (None, next(seen)):
            return drawn
        other = ~drawn if drawn.dtype == np.bool_ else np.roll(drawn, -1, 1) if drawn.ndim > 2 else 1 - drawn
        return np.where(mine.reshape(1, -1, *[1] * (drawn.ndim - 2)), other, drawn)

    return private


class BoldScores(Random):
    """Selects by the feedback that its agents had, a thousand times as large as it states."""

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        self._select, self._liked = view.select, np.zeros(1)

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        scores = np.array([1000.0, 500.0]) * np.ones((*obs.shape[:2], 1)) * self._liked
        self._select(scores, np.ones(scores.shape, np.bool_), np.ones((1, 1, 1)))
        return np.zeros(obs.shape[:2], np.int64)

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        self._liked = reward[..., None]


MECHANISMS: dict[str, Any] = {
    "vector": Laplace(1.0), "stream": TreeAggregation(0.1), "scores": Exponential(1.0), "one_hot": NoPrivacy(),
}  # fmt: skip
BANDIT: dict[str, Any] = {"num_agents": 3, "num_arms": 2, "horizon": 18, "qualities": (0.4, 0.6)}
SHOP: dict[str, Any] = {"num_agents": 3, "num_items": 20, "repository": 20, "horizon": 8, "graph": "complete"}
"""Every world in which a sensitivity is stated; how many events of an agent are changed, one by one."""
STATED: dict[str, tuple[Any, Any, int]] = {
    "bandit": (federated_bandit_v0.population(**BANDIT), Random(), 6),
    "bandit, weighted": (federated_bandit_v0.population(**BANDIT, weighting="pulls"), Random(), 6),
    "bandit, ring": (federated_bandit_v0.population(**BANDIT, topology="ring"), Random(), 6),
    "bandit, hybrid": (
        federated_bandit_v0.population(**BANDIT, topology=[("ring", 2), ("ring", 1)]), Random(), 6
    ),
    "elimination": (arm_elimination_v0.population(**BANDIT | {"horizon": 60}), EliminationSchedule(), 0),
    "training": (
        federated_training_v0.population(num_clients=3, clip_norm=0.1, compute_probability=0.5, horizon=4.0),
        FixedCount(2),
        0,
    ),
    "contextual": (contextual_bandit_v0.population(num_agents=3, period=5, horizon=15), Random(), 15),
    "recommender": (recommender_v0.population(**SHOP), TPriDO(0.0), 8),
    "recommender, any scores": (recommender_v0.population(**SHOP), BoldScores(), 8),
}  # fmt: skip


@pytest.mark.parametrize("case", STATED)
def test_a_sensitivity_is_what_an_event_can_change(case: str) -> None:
    """What agents receive is held fixed. On a disjoint channel an event moves all messages together by no more than it
    may move one: then their losses add up to that of one message at most."""
    env, policy, events = STATED[case]
    agent, found = 2, 0.0  # one of two clients with equally many samples
    first, read = sent_by(env, policy)
    for event in range(events):
        again, _ = sent_by(env, policy, flipped(agent, event), read)
        far: dict[str, list[float]] = {}
        for one, other in zip(first, again, strict=True):
            if one.stated is not None:
                far.setdefault(one.channel, []).append(moved(one, other, agent, env.channels[one.channel].payload))
        for name, by_message in far.items():
            assert max(by_message) <= 1 + 1e-6
            assert sum(by_message) <= 1 + 1e-6 or not env.channels[name].disjoint
            found = max(found, *by_message)
    everything, _ = sent_by(env, policy, flipped(agent, None), read)
    for one, other in zip(first, everything, strict=True):
        if one.stated is not None:
            channel = env.channels[one.channel]
            most = 1 if channel.unit == "user" else (one.events or math.inf)
            far_all = moved(one, other, agent, channel.payload)
            assert far_all <= most * (1 + 1e-6)
            found = max(found, far_all)
    assert found > 0, "something was changed"
