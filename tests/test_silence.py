"""Who speaks, and when, tells something too: agents without a preference, and every other way by which protocols answer
to private data."""

import math
from typing import Any

import numpy as np
import pytest
from distributions import fits, same_distribution

import taciturn
from taciturn.envs import arm_elimination_v0, federated_bandit_v0, gossip_bandit_v0, social_bandit_v0
from taciturn.envs.core import ChannelConfig
from taciturn.policies import CBL, CDPMAB, DDPMAB, PPCL, UCB1, EliminationSchedule, PrivateSocialLearning, Random, Voter
from taciturn.wrappers import (
    BitwiseRandomizedResponse,
    Budget,
    Laplace,
    LossyChannel,
    Memoized,
    NoPrivacy,
    Privatize,
    UnaryEncoding,
    audit,
)

SIX: dict[str, Any] = {
    "num_agents": 6,
    "copies": 8,
    "qualities": (0.8, 0.2),
    "dissemination": "stationary",
    "horizon": 10,
}


def whole_run(form: str) -> Any:
    env = social_bandit_v0.population(1, **SIX, without_preference=form)
    private = Privatize(env, "preference", BitwiseRandomizedResponse(0.01))
    return audit(
        private, policy=PrivateSocialLearning(beta=0.95), change=(0, 1), trials=1500, confidence=0.9999, seed=0
    )


def test_silence_reveals_adoption_and_the_total_says_so() -> None:
    """Certified leakage of a whole run, in the papers' form; the audit's false-alarm rate is 1e-4."""
    found = whole_run("silent")
    assert found.certified > 3, "the attack has power"
    assert found.claimed == math.inf


def test_zeros_hide_it() -> None:
    """Ten messages at epsilon 0.01: the bound certified stays below the total; the audit's false-alarm rate is 1e-4."""
    found = whole_run("zeros")
    assert found.certified < found.claimed <= 0.1 + 1e-9


BITS = {"preference": BitwiseRandomizedResponse(1.0)}
ALARM = 1e-4


def totals(world: Any, unit: str = "user", **params: Any) -> Any:
    env = world.population(2, num_agents=6, horizon=4, **params)
    run = taciturn.simulate(env, PPCL() if world is gossip_bandit_v0 else PrivateSocialLearning(), seed=0, privacy=BITS)
    return run.accountant.epsilon(delta=0.0, method="basic", unit=unit)


def test_silent_agents_too_have_spent_all_at_user_level() -> None:
    assert (totals(social_bandit_v0) == math.inf).all()
    assert (totals(gossip_bandit_v0, initial_preferences="none") == math.inf).all(), "though nobody ever spoke"
    assert (totals(gossip_bandit_v0, initial_preferences=[0, 1, 2, 3, 4, 0]) == math.inf).all()
    assert (totals(social_bandit_v0, unit="event") == math.inf).all(), "one event decides whether there is a preference"
    assert (totals(gossip_bandit_v0, unit="event", initial_preferences="none") == math.inf).all()


def test_nobody_is_silent_where_all_begin_with_a_preference_and_none_is_lost() -> None:
    for start in ("even", "random", [0, 1, 2, 3, 3, 0]):
        assert np.isfinite(totals(gossip_bandit_v0, initial_preferences=start)).all()


def test_the_totals_of_zeros_are_finite() -> None:
    np.testing.assert_array_equal(totals(social_bandit_v0, without_preference="zeros"), 4.0)
    spent = totals(gossip_bandit_v0, without_preference="zeros", initial_preferences="none")
    assert (spent == spent[:, :1]).all()
    assert np.isfinite(spent).all()


def test_the_accountant_says_why() -> None:
    for form, note in (
        ("silent", "infinite: whether, when or what about an agent sends may depend on its private data"),
        ("zeros", ""),
    ):
        env = social_bandit_v0.population(1, **SIX, without_preference=form)
        run = taciturn.simulate(env, PrivateSocialLearning(), seed=0, privacy=BITS)
        row, _ = run.accountant.table()
        assert row["note"] == note
        assert np.isfinite(row["epsilon_per_message"])
        totals = [row["basic_max"], run.metrics["epsilon_basic"][0]]
        assert np.isfinite(totals).all() if form == "zeros" else np.isinf(totals).all()


@pytest.mark.parametrize("dissemination", ["walk", "stationary", "aggregated"])
def test_the_number_of_copies_says_nothing(dissemination: str) -> None:
    """Everyone sends in every round, and everything that agents read of it adds up to what everyone sent."""
    env = social_bandit_v0.population(3, **SIX | {"dissemination": dissemination}, without_preference="zeros")
    env = Privatize(env, "preference", BitwiseRandomizedResponse(1.0))
    env.reset(seed=0)
    for done in range(1, 10):
        assert (env.state.received.sum(1) == 6 * 8).all()
        drops = np.zeros((3, 6, 3), np.int64)
        drops[:, :, 0] = 2
        step = env.step(drops)  # nobody holds an option from now on
        assert (env.state.preference == 2).all()
        assert (step.info["messages"] == 6 * (done + (done < 10))).all()
    assert env.state.counts.any(), "noise alone sets bits"


def test_agents_that_hold_nothing_reply() -> None:
    for asks, replies in (("all", 6), ("one", 1)):
        env = gossip_bandit_v0.population(
            2, num_agents=6, asks=asks, initial_preferences="none", without_preference="zeros"
        )
        private = Privatize(env, "preference", BitwiseRandomizedResponse(1.0))
        private.reset(seed=0)
        for ticks in range(1, 6):
            assert (private.state.received == replies).all()
            assert (private.channels["preference"].messages().sum(1) == ticks * replies).all()
            private.step(np.tile([4, 0, 0], (2, 1, 1)))


def reply_distribution(holders: Any, num_agents: int, epsilon: float) -> Any:
    """P(c replies of N have the bit set), [K, N + 1]: c of `holders` ones and N - holders zeros, by the mechanism's
    definition."""
    flip = 1 / (math.exp(epsilon / 2) + 1)
    distributions = []
    for ones in holders:
        distribution = np.ones(1)
        for chance in [1 - flip] * ones + [flip] * (num_agents - ones):
            distribution = np.convolve(distribution, [1 - chance, chance])
        distributions.append(distribution)
    return np.array(distributions)


@pytest.mark.parametrize("faults", [(), (LossyChannel(0.3),)], ids=["none", "lossy"])
@pytest.mark.parametrize("single", [False, True])
def test_the_counts_of_zeros_have_the_law_of_messages(single: bool, faults: Any) -> None:
    """Counts in closed form and by single messages against the convolution of their bits (chi-squared, false alarms
    below 1e-4)."""
    size, holders = 20_000, [2, 1, 0]
    start = [0, 0, 1, 3, 3]
    env = gossip_bandit_v0.population(
        size,
        num_agents=5,
        qualities=(0.9, 0.5, 0.1),
        initial_preferences=start,
        without_preference="zeros",
        horizon=1e6,
    )
    budget = Budget(1e9, 0.0) if single else None
    env.reset(
        seed=3, options={"channels": {"preference": ChannelConfig(BitwiseRandomizedResponse(2.0), budget, faults)}}
    )
    counts, received = env.state.counts, env.state.received
    if not faults:
        assert (received == 5).all()
        for k, distribution in enumerate(reply_distribution(holders, 5, 2.0)):
            assert fits(np.bincount(counts[:, k], minlength=6), distribution) > ALARM
        return
    kept = np.bincount(received, minlength=6)
    assert fits(kept, [math.comb(5, n) * 0.7**n * 0.3 ** (5 - n) for n in range(6)]) > ALARM
    flip = 1 / (math.e + 1)
    for k, ones in enumerate(holders):
        mean = 0.7 * (ones * (1 - flip) + (5 - ones) * flip)
        assert abs(counts[:, k].mean() - mean) < 4 * (5 * 0.25 / size) ** 0.5


def test_unbiased_shares_of_everyone() -> None:
    """(B/V - q) / (p - q) is the share of all agents that hold an option, those without a preference included."""
    env = social_bandit_v0.population(4000, **SIX, without_preference="zeros", initial_preferences=[0, 0, 0, 1, 2, 2])
    private = Privatize(env, "preference", BitwiseRandomizedResponse(2.0))
    private.reset(seed=1)
    flip = 1 / (math.e + 1)
    share = (private.state.counts.sum(1) / 48 - flip) / (1 - 2 * flip)
    error = share.std(0) / 4000**0.5
    assert (np.abs(share.mean(0) - [3 / 6, 1 / 6]) < 4 * error).all()


class OneHotOnly(BitwiseRandomizedResponse):
    """A mechanism that wants exactly one bit."""

    def perturb(self, x: Any, rng: Any, sensitivity: Any = None) -> Any:
        if (np.asarray(x).sum(-1) != 1).any():
            raise ValueError("exactly one bit, please")
        return super().perturb(x, rng, sensitivity)


@pytest.mark.parametrize("world", [social_bandit_v0, gossip_bandit_v0], ids=lambda world: world.name)
def test_mechanisms_that_cannot_answer_zeros_are_refused(world: Any) -> None:
    Privatize(world.population(1), "preference", OneHotOnly(1.0)).reset(seed=0)
    with pytest.raises(
        ValueError, match="must be able to answer a vector of zeros if without_preference is 'zeros', not One"
    ):
        Privatize(world.population(1, without_preference="zeros"), "preference", OneHotOnly(1.0))
    for mechanism in (NoPrivacy(), UnaryEncoding(1.0), Memoized(BitwiseRandomizedResponse(1.0))):
        Privatize(world.population(1, without_preference="zeros"), "preference", mechanism).reset(seed=0)
    with pytest.raises(ValueError, match="without_preference must be one of 'silent', 'zeros', not 'mute'"):
        world.population(1, without_preference="mute")


@pytest.mark.parametrize("noise", [None, BITS], ids=["bare", "bits"])
def test_one_peer_by_the_fast_form_and_by_steps(noise: Any) -> None:
    """CBL among agents that mostly prefer nothing (joint chi-squared on what they prefer at the end, false alarms below
    1e-4)."""
    env = gossip_bandit_v0.population(
        3000,
        num_agents=4,
        qualities=(0.9, 0.2),
        asks="one",
        initial_preferences="none",
        without_preference="zeros",
        horizon=3.0,
    )
    ends = []
    for fast in (True, False):
        run = taciturn.simulate(env, CBL(tau=0.3), seed=int(fast), privacy=noise, fast=fast)
        ends.append(np.sort(env.state.preference, 1))
        assert (run.metrics["messages"] == run.metrics["ticks"]).all(), "the peer asked always replies"
    assert same_distribution(*ends) > ALARM


def test_memoised_answers_reveal_that_a_preference_changed() -> None:
    """Agent 0 gives one answer for ever if its preference stays, and mostly several if it changes, whatever epsilon."""
    env = gossip_bandit_v0.population(200, num_agents=3, qualities=(1.0, 1.0), horizon=60.0)
    run = taciturn.simulate(env, Voter(), seed=0, privacy={"preference": Memoized(BitwiseRandomizedResponse(0.01))})
    given = run.accountant.accounts[0].each[:, 0]
    assert given.max() > 1, "new answers"
    for unit in ("event", "user"):
        assert (run.accountant.epsilon(delta=0.0, method="basic", unit=unit) == math.inf).all()


class UploadsWhatItLikes(Random):
    """Pulls arm 0, and uploads in the slots after which its mean of that arm is above a half."""

    def begin(self, view: Any) -> None:
        super().begin(view)
        self._layout, self._arms = view.roles[self.role].layout, view.params.arms

    def act(self, obs: Any, mask: Any = None) -> Any:
        return self._arms * (self._layout.unpack(obs)["means"][..., 0] > 0.5)


def test_who_uploads_reveals_rewards_and_the_total_says_so() -> None:
    """Noise of epsilon 0.01 on each mean, and agents that upload by their own rewards; the audit's false-alarm rate is
    1e-4."""
    env = federated_bandit_v0.population(1, num_agents=3, qualities=(0.5, 0.5), horizon=10)
    private = Privatize(env, "means", Laplace(0.01))
    found = audit(private, policy=UploadsWhatItLikes(), change=(0, 1), trials=1000, confidence=0.9999, seed=0)
    assert found.certified > 3
    assert found.claimed == math.inf


def test_uploads_that_follow_from_what_was_sent_reveal_nothing_more() -> None:
    def spent(world: Any, policy: Any, fast: bool = True, **params: Any) -> Any:
        env = world.population(1, num_agents=3, num_arms=3, horizon=300, **params)
        run = taciturn.simulate(env, policy, seed=0, privacy={"means": Laplace(0.01)}, fast=fast)
        return run.accountant.epsilon(delta=0.0, method="basic", unit="user", channel="means").max()

    class Overridden(CDPMAB):
        def plan(self, knowledge: Any, room: Any) -> Any:
            return super().plan(knowledge, room)

    for fast in (True, False):
        assert 0 < spent(federated_bandit_v0, CDPMAB(), fast) < math.inf
        assert 0 < spent(federated_bandit_v0, DDPMAB(), fast, topology="ring") < math.inf
    assert spent(federated_bandit_v0, UCB1()) == 0
    assert spent(federated_bandit_v0, Overridden()) == math.inf, "who knows what it does"
    assert 0 < spent(federated_bandit_v0, Random()) < math.inf
    assert 0 < spent(arm_elimination_v0, EliminationSchedule()) < math.inf


def test_a_reset_forgets_who_played() -> None:
    env = federated_bandit_v0.population(1, num_agents=3, num_arms=3, horizon=300)
    taciturn.simulate(env, CDPMAB(), seed=0)
    assert not env.channels["means"].silence_leaks
    env.reset(seed=0)
    assert env.channels["means"].silence_leaks
