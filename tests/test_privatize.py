"""`Privatize` over all interfaces: nothing leaks into the bare environment, luck is shared, and the accountant tells
what passed."""

from typing import Any, cast, get_args

import gymnasium
import numpy as np
import pytest
import worlds as tiny
from cases import CASES, CLIENTS, forms, rewards

import taciturn
from taciturn.envs import federated_training_v0
from taciturn.envs.core import Channel, ChannelConfig, Controlled, ParallelView, Streams
from taciturn.policies import FixedCount, Random
from taciturn.privacy.channels import Payload, Unit
from taciturn.wrappers import (
    Accountant,
    BitwiseRandomizedResponse,
    Blocks,
    Budget,
    BudgetSpent,
    Exponential,
    Faulty,
    Gaussian,
    KaryRandomizedResponse,
    Laplace,
    LossyChannel,
    Memoized,
    NoPrivacy,
    Privatize,
    TreeAggregation,
    UnaryEncoding,
)

NOISE = Gaussian(epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize("form", forms())
def test_noise_is_added_and_the_bare_environment_stays_bare(form: str) -> None:
    bare = forms()[form]
    before = rewards(bare)
    private = Privatize(bare, "update", NOISE)
    noisy = rewards(private)
    assert noisy != before
    assert rewards(bare) == before
    assert rewards(Privatize(bare, "update", NoPrivacy())) == before, "the same luck but for the noise"
    assert rewards(private) == noisy
    # Noise comes only when a round of updates is sent: the first reward is 12 slots in.
    assert next(i for i, (a, b) in enumerate(zip(before, noisy, strict=True)) if a != b) == 11


def test_a_bare_environment_that_is_running_stays_bare() -> None:
    """While its private twin begins a run of its own."""
    bare = forms()["array"]
    private = Privatize(bare, "update", NOISE)
    bare.reset(seed=0)
    private.reset(seed=0)
    assert bare.channels["update"].config.mechanism is None
    assert repr(private.channels["update"].config.mechanism) == repr(NOISE)


@pytest.mark.parametrize("form", forms())
def test_the_accountant_counts_what_passed(form: str) -> None:
    private = Privatize(forms()[form], "update", NOISE)
    rewards(private)
    accountant = private.accountant
    assert isinstance(accountant, Accountant)
    population = getattr(private.unwrapped, "population", None) if form != "array" else private
    assert population is not None
    np.testing.assert_array_equal(accountant.messages("update"), population.channels["update"].messages())
    assert population.channels["update"].messages().sum() > 0
    assert accountant.per_message["update"] == NOISE.loss()


def test_stays_through_autoresets() -> None:
    env = Privatize(federated_training_v0.vector_env(2, autoreset_mode="SameStep", **CLIENTS), "update", NOISE)
    env.reset(seed=0)
    ended = 0
    for step in range(700):
        ended += int(env.step(np.full(2, int(step % 12 != 11)))[2].sum())
    assert ended > 2
    population = env.unwrapped.population
    assert population.channels["update"].config.mechanism is NOISE
    np.testing.assert_array_equal(env.accountant.messages("update"), population.channels["update"].messages())


def test_simulate_installs_for_one_run() -> None:
    env = federated_training_v0.population(2, **CLIENTS)
    bare = taciturn.simulate(env, FixedCount(5), seed=0)
    noisy = taciturn.simulate(env, FixedCount(5), seed=0, privacy={"update": NOISE})
    wrapped = taciturn.simulate(Privatize(env, "update", NOISE), FixedCount(5), seed=0)
    assert bare.accountant is None
    assert noisy.accountant.epsilon(delta=1e-5, method="zcdp").max() > 1
    np.testing.assert_array_equal(noisy.metrics["test_loss"], wrapped.metrics["test_loss"])
    assert (noisy.metrics["test_loss"] != bare.metrics["test_loss"]).all()
    np.testing.assert_array_equal(
        taciturn.simulate(env, FixedCount(5), seed=0).metrics["test_loss"], bare.metrics["test_loss"]
    )


def test_one_role_of_several() -> None:
    """What stands on a channel of a world that is seen by one of its roles stands there for everyone, and is paid
    for."""
    distribution = KaryRandomizedResponse(1.0, num_values=2)
    bare = Controlled(tiny.auction_v0.population(2), "platform", {"individual": Random()})
    before = taciturn.simulate(bare, Random(), seed=0)
    private = Privatize(bare, "purchase", distribution)
    run = taciturn.simulate(private, Random(), seed=0)
    assert (run.metrics["earned"] != before.metrics["earned"]).all()
    np.testing.assert_allclose(run.accountant.epsilon(0), 12 * distribution.epsilon)
    assert taciturn.simulate(bare, Random(), seed=0).accountant is None
    parallel = Privatize(
        ParallelView(Controlled(tiny.auction_v0.population(), "platform", {"individual": Random()})),
        "purchase",
        distribution,
    )
    parallel.reset(seed=0)
    parallel.step({"platform_0": np.full(1, 0.5, np.float32)})
    np.testing.assert_allclose(parallel.accountant.epsilon(0), distribution.epsilon)
    for env, channel in ((private, "purchase"), (bare, "vote")):
        with pytest.raises(ValueError, match=r"has a mechanism already|channel must be one of purchase"):
            Privatize(env, channel, distribution)


@pytest.mark.parametrize("when_spent", ["silent", "truncate", "raise"])
def test_a_budget_stops_an_agent_before_it_overspends(when_spent: Any) -> None:
    budget = Budget(1.5, 1e-5, when_spent, "zcdp")
    env = Privatize(federated_training_v0.population(3, **CLIENTS), "update", NOISE, budget)
    if when_spent == "raise":
        with pytest.raises(BudgetSpent, match="cannot send on update"):
            taciturn.simulate(env, FixedCount(8), seed=0)
        return
    run = taciturn.simulate(env, FixedCount(8), seed=0)
    free = taciturn.simulate(
        federated_training_v0.population(3, **CLIENTS), FixedCount(8), seed=0, privacy={"update": NOISE}
    )
    assert free.accountant.epsilon(delta=1e-5, method="zcdp").max() > 1.5
    assert run.accountant.epsilon(delta=1e-5, method="zcdp").max() <= 1.5
    assert env.truncated.any() == (when_spent == "truncate")


@pytest.mark.parametrize("form", forms())
@pytest.mark.parametrize("when_spent", ["silent", "truncate", "raise"])
def test_a_spent_budget_in_every_interface(form: str, when_spent: Any) -> None:
    """One update a client, in rounds of twelve slots: then a client is not heard, or the run is over, or somebody is
    told."""
    env = Privatize(forms()[form], "update", NOISE, Budget(1.5, 1e-5, when_spent, "zcdp"))
    if when_spent == "silent":
        rewards(env)
        free = Privatize(forms()[form], "update", NOISE)
        rewards(free)
        np.testing.assert_array_equal(
            env.accountant.messages("update"), np.minimum(free.accountant.messages("update"), 1)
        )
        assert free.accountant.messages("update").max() > 1
        return
    told = "cannot send on update" if when_spent == "raise" else "done"
    with pytest.raises((BudgetSpent, gymnasium.error.ResetNeeded, ValueError), match=told):
        rewards(env)
    assert env.accountant.messages("update").max() == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda env: Privatize(env, "upload", NOISE), "channel must be one of update, not 'upload'"),
        (lambda env: Privatize(env, "update", 3), "mechanism must be one of taciturn.wrappers' mechanisms, not 3"),
        (lambda env: Privatize(env, "update", NOISE, cast(Any, 3)), "budget must be a Budget or None, not 3"),
        (lambda env: Privatize(Privatize(env, "update", NOISE), "update", NOISE), "has a mechanism already"),
        (
            lambda env: Privatize(gymnasium.make("CartPole-v1"), "update", NOISE),
            "env must be an environment of this suite",
        ),
    ],
)
@pytest.mark.parametrize("form", forms())
def test_refuses(form: str, make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(forms()[form])


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.privacy])
def test_what_cannot_be_installed_is_refused_when_it_is_made(name: str) -> None:
    """In every form of every world, whichever wrappers stand between; what is refused leaves no trace."""
    case = CASES[name]
    views: list[Any] = [case.population(2), case.parallel_env(), case.env()]
    if case.has_id:
        views += [case.make(), case.make_vec(num_envs=2)]
        views.append(gymnasium.wrappers.RecordEpisodeStatistics(views[-2]))
    ((channel, distribution),) = case.privacy.items()
    categorical = name in ("auction", "platform", "individual", "one_individual")
    wrong: Any = Laplace(1.0) if categorical else KaryRandomizedResponse(1.0, 3)
    for env in views:
        before = repr(env)
        with pytest.raises(ValueError, match=rf"mechanism|channel '{channel}'"):
            Privatize(env, channel, wrong)
        for put, what in ((Privatize, wrong), (Faulty, LossyChannel(0.1))):
            with pytest.raises(ValueError, match=rf"channel must be one of .*{channel}.*, not 'nowhere'"):
                put(env, "nowhere", what)
        with pytest.raises(ValueError, match=r"fault must be one of taciturn\.wrappers' faults"):
            Faulty(env, channel, wrong)
        if distribution is not None:
            private = Privatize(Faulty(env, channel, LossyChannel(0.1)), channel, distribution)
            if isinstance(private, gymnasium.Env):
                private = gymnasium.wrappers.TimeLimit(private, 5)
            with pytest.raises(ValueError, match=f"channel '{channel}' has a mechanism already"):
                Privatize(private, channel, distribution)
        assert repr(env) == before
        env.reset(seed=0)


def test_simulate_keeps_what_stands_beneath_other_wrappers() -> None:
    env = gymnasium.wrappers.TimeLimit(Privatize(federated_training_v0.single_env(**CLIENTS), "update", NOISE), 10)
    epsilon = taciturn.simulate(env, FixedCount(3), seed=0).metrics["epsilon_message"]
    assert epsilon == pytest.approx(1.0, abs=0.05)


def test_updates_without_a_bound_cannot_be_private() -> None:
    env = federated_training_v0.population(2, num_clients=10)
    with pytest.raises(ValueError, match="clip_norm must be a number"):
        Privatize(env, "update", NOISE)
    env.reset(seed=0)
    state = env.state
    with pytest.raises(ValueError, match="clip_norm must be a number"):
        env.reset(seed=1, options={"channels": {"update": ChannelConfig(NOISE)}})
    assert env.state is state
    Privatize(env, "update", NoPrivacy())


def test_a_budget_that_allows_nothing_is_refused_at_once() -> None:
    """Gaussian noise has no pure epsilon, so a budget of basic composition admits no message of it."""
    with pytest.raises(ValueError, match="budget must allow at least one message"):
        Privatize(forms()["array"], "update", NOISE, Budget(3.0))


FITS: dict[str, set[str]] = {
    "BitwiseRandomizedResponse": {"one_hot"},
    "UnaryEncoding": {"one_hot"},
    "KaryRandomizedResponse": {"categorical"},
    "Laplace": {"bounded", "stream", "vector"},
    "Gaussian": {"bounded", "stream", "vector"},
    "Exponential": {"scores"},
    "TreeAggregation": {"stream"},
    "Blocks": {"stream"},
    "NoPrivacy": set(get_args(Payload)),
}
MECHANISMS = (
    BitwiseRandomizedResponse(1.0),
    UnaryEncoding(1.0),
    KaryRandomizedResponse(1.0, num_values=3),
    Laplace(1.0),
    NOISE,
    Exponential(1.0),
    TreeAggregation(1.0, horizon=8),
    Blocks(1.0),
    NoPrivacy(),
)


@pytest.mark.parametrize("payload", get_args(Payload))
@pytest.mark.parametrize("unit", get_args(Unit))
def test_what_does_not_fit_a_channel_is_refused(payload: Any, unit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """At installation, by `Privatize` and by a reset, which then changes nothing; a tree also where the unit is a whole
    history."""
    channel = Channel("vote", payload, observer="server", unit=unit)
    monkeypatch.setattr(tiny.Consensus, "make_channels", lambda self: (channel,))
    env = tiny.Consensus(tiny.Params())
    env.reset(seed=0)
    before = env.state
    for distribution in MECHANISMS:
        name = type(distribution).__name__
        for one in (distribution, distribution) if distribution.stateful else (distribution, Memoized(distribution)):
            if payload in FITS[name] and not (name in ("TreeAggregation", "Blocks") and unit == "user"):
                Privatize(env, "vote", one)
                continue
            with pytest.raises(ValueError, match=rf"mechanism must fit channel 'vote'.*{name}"):
                Privatize(env, "vote", one)
            with pytest.raises(ValueError, match=rf"mechanism must fit channel 'vote'.*{name}"):
                env.reset(seed=1, options={"channels": {"vote": ChannelConfig(one)}})
            assert env.state is before
    assert env.accountant is None


def test_a_stream_charged_once_is_not_covered_at_user_level() -> None:
    """Each event enters one increment, but a user's events enter them all."""
    channel = Channel("sums", "stream", observer="server", unit="event")
    accountant = Accountant(1, 1, [channel])
    channel.install(ChannelConfig(TreeAggregation(1.0, horizon=8)), accountant)
    channel.draw_from(Streams(0))
    channel.reset(1)
    for _ in range(8):
        channel.send(np.ones((1, 1)), sensitivity=1.0, events=1)
    assert accountant.epsilon(method="basic").tolist() == [[1.0]]
    assert accountant.epsilon(method="basic", unit="user").tolist() == [[np.inf]]


@pytest.mark.parametrize("distribution", [Laplace, Gaussian.from_rho, Exponential, TreeAggregation])
@pytest.mark.parametrize("stated", [1.0, np.array([[0.5, 1.0]])])
def test_a_mechanism_cannot_make_do_with_less_than_the_world_states(distribution: Any, stated: Any) -> None:
    payload: Any = {Exponential: "scores", TreeAggregation: "stream"}.get(distribution, "vector")
    channel, scores = Channel("x", payload, observer="server", unit="event", num_senders=2), np.zeros((1, 2, 3))
    if np.ndim(stated) and distribution is TreeAggregation:
        scores = scores[..., 0]
    elif np.ndim(stated):
        stated = stated[..., None]
    more = {"horizon": 4} if distribution is TreeAggregation else {}
    for own in (0.6, 3.0):
        mechanism = distribution(1.0, sensitivity=own, **more)
        accountant = Accountant(1, 2, [channel])
        channel.install(ChannelConfig(mechanism), accountant)
        channel.draw_from(Streams(0))
        channel.reset(1)
        if own < 1:
            with pytest.raises(ValueError, match=r"sensitivity of .* must be at least 1, .* not 0\.6"):
                channel.send(scores, None, stated)
            assert channel.messages().sum() == accountant.messages("x").sum() == 0
            if np.ndim(stated) and not mechanism.stateful:
                channel.send(scores, np.array([[True, False]]), stated)
        else:
            channel.send(scores, None, stated)


def test_a_stream_keeps_to_the_sensitivity_with_which_it_began() -> None:
    distribution = TreeAggregation(1.0, horizon=4)
    state = distribution.start((2,), sensitivity=1.0)
    distribution.step(np.zeros(2), np.random.default_rng(0), state, sensitivity=1.0)
    with pytest.raises(ValueError, match="sensitivity must be at most 1, with which the stream began, not 2"):
        distribution.step(np.zeros(2), np.random.default_rng(0), state, sensitivity=2.0)
    assert state.time.tolist() == [1, 1]


def test_noise_is_scaled_to_the_larger_sensitivity() -> None:
    """Variance 2 (3 / epsilon)^2 for a mechanism's own 3, where the world states 1; 20,000 draws, 6 standard errors."""
    channel = Channel("x", "vector", observer="server", unit="event", num_senders=400)
    channel.install(ChannelConfig(Laplace(2.0, sensitivity=3.0)), Accountant(1, 400, [channel]))
    channel.draw_from(Streams(0))
    channel.reset(1)
    y, _ = channel.send(np.zeros((1, 400, 50)), None, 1.0)
    assert abs(y.var() / (2 * 1.5**2) - 1) < 6 * (5 / y.size) ** 0.5
