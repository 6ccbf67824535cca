"""Averages with noise that is added once, or in shares: their laws, their claims, and the channels that carry them."""

import math
from functools import cache
from typing import Any

import distributions
import numpy as np
import pytest
from scipy import stats

import taciturn
from taciturn.channels.config import require_fit
from taciturn.envs import (
    arm_elimination_v0,
    federated_bandit_v0,
    federated_training_v0,
)
from taciturn.envs.core import Array, Channel, ChannelConfig, Fault, Streams, begin
from taciturn.policies import EliminationSchedule, FixedCount, GrowingSchedule, PublicPlan
from taciturn.privacy import sums
from taciturn.privacy.mechanisms import Exponential, Scheduled
from taciturn.testing import check_mechanism
from taciturn.wrappers import (
    Accountant,
    Budget,
    Byzantine,
    CentralSum,
    Churn,
    DistributedSum,
    Faulty,
    Gaussian,
    Laplace,
    LossyChannel,
    NoPrivacy,
    Privatize,
    Stragglers,
    audit,
)

RARELY = 1e-5  # the chance that a correct law fails a test
ALL = [
    CentralSum(Laplace(1.3, sensitivity=1.0)),
    CentralSum(Gaussian(1.0, 1e-5, sensitivity=1.0)),
    DistributedSum(1.3),
    DistributedSum(1.3, dropouts=2),
]


def averages(mechanism: Any, x: Array, arrived: Array, seed: int, size: int, **given: Any) -> Array:
    """`size` averages of the messages x [N, ...] of which those `arrived` bool[N] are in it, float64[size, ...]."""
    everybody = np.ones((size, len(x)), np.bool_)
    batch = np.broadcast_to(x, (size, *x.shape))
    inside = np.broadcast_to(arrived, everybody.shape)
    mean, released = mechanism.average(batch, everybody, inside, np.random.default_rng(seed), **given)
    assert released.all()
    return np.asarray(mean)


@pytest.mark.parametrize("mechanism", ALL, ids=repr)
def test_each_is_a_mechanism(mechanism: Any) -> None:
    check_mechanism(mechanism)


@pytest.mark.parametrize(
    ("mechanism", "distribution"),
    [
        (CentralSum(Laplace(0.7)), stats.laplace(scale=1 / 0.7)),
        (CentralSum(Laplace(0.7, sampler="exact")), stats.laplace(scale=1 / 0.7)),
        (CentralSum(Gaussian.from_rho(1 / 8)), stats.norm(scale=2.0)),
        (DistributedSum(0.7, dropouts=0), stats.laplace(scale=1 / 0.7)),
    ],
    ids=["laplace", "exact laplace", "gaussian", "distributed"],
)
def test_an_average_has_the_noise_of_one_message(mechanism: Any, distribution: Any) -> None:
    """Of 5 means of 1 to 40 rewards one is lost, but to a secure sum none; the sum of rewards that the average implies
    has noise of scale 1/epsilon. Kolmogorov-Smirnov, 20,000 averages of 2 numbers."""
    rewards = np.array([[1.0, 3], [7, 2], [20, 9], [4, 11], [30, 8]])
    pulls = np.array([[1.0, 10], [10, 4], [40, 12], [4, 22], [31, 16]])
    arrived = np.array([True, True, isinstance(mechanism, DistributedSum), True, True])
    y = averages(
        mechanism,
        rewards / pulls,
        arrived,
        0,
        20_000,
        sensitivity=np.broadcast_to(1 / pulls, (20_000, 5, 2)),
        weights=np.broadcast_to(pulls, (20_000, 5, 2)),
    )
    noise = y * pulls[arrived].sum(0) - rewards[arrived].sum(0)
    for k in range(2):
        assert stats.kstest(noise[:, k], distribution.cdf).pvalue > RARELY
    assert abs(np.corrcoef(noise.T)[0, 1]) < 5 / math.sqrt(20_000)


def polya_difference(t: float, r: float, reach: int) -> Array:
    """P(z), z = -reach .. reach, of the difference of two negative binomial numbers, by convolution of their laws."""
    one = stats.nbinom.pmf(np.arange(60 * reach), r, 1 - math.exp(-t))
    distribution = np.convolve(one, one[::-1])
    middle = len(one) - 1
    return np.asarray(distribution[middle - reach : middle + reach + 1])


def test_shares_of_those_who_must_stay_add_up_to_discrete_laplace_noise() -> None:
    """By convolution, for 3 senders of whom 3 are needed; P(z) = (1 - q) / (1 + q) q^|z|, q = e^-t."""
    t, z = 0.2, np.arange(-40, 41)
    q = math.exp(-t)
    share = polya_difference(t, 1 / 3, 300)
    distribution = np.convolve(np.convolve(share, share), share)
    middle = len(distribution) // 2
    np.testing.assert_allclose(distribution[middle - 40 : middle + 41], (1 - q) / (1 + q) * q ** np.abs(z), rtol=1e-9)


@pytest.mark.parametrize(("senders", "dropouts", "there"), [(4, 0, 4), (4, 2, 3), (4, 2, 4), (1, 0, 1), (2, 3, 1)])
def test_a_distributed_sum_on_a_coarse_grid(
    senders: int, dropouts: int, there: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4 steps in a sensitivity, epsilon 1: noise of max(n - dropouts, 1) shares or more, by the laws' convolution.
    Chi-square, 40,000 sums."""
    monkeypatch.setattr(sums, "STEPS", 4)
    x, arrived = np.full((senders, 1), 0.5), np.arange(senders) < there
    y = averages(DistributedSum(1.0, dropouts), x, arrived, 1, 40_000, sensitivity=1.0)
    found = np.rint((y[:, 0] * there - 0.5 * there) * 4).astype(int)
    np.testing.assert_allclose(found, (y[:, 0] * there - 0.5 * there) * 4, atol=1e-9)
    needed = max(senders - dropouts, 1)
    distribution = polya_difference(0.25, there / needed, 60)  # of `there` shares of 1 / needed each
    counts = np.bincount(np.clip(found + 60, 0, 120), minlength=121)
    assert distributions.fits(counts[1:-1], distribution[1:-1]) > RARELY
    q = math.exp(-0.25)
    assert np.var(found) == pytest.approx(2 * q / (1 - q) ** 2 * there / needed, rel=0.1)


def test_a_sum_wraps_around(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond 2^(bits - 1) steps a sum goes on from below; with noise of 1e-3 it is seen."""
    x = np.full((3, 1), 1000.0)
    kept = averages(DistributedSum(1000.0), x, np.ones(3, np.bool_), 0, 1, sensitivity=1.0)
    wrapped = averages(DistributedSum(1000.0, bits=32), x, np.ones(3, np.bool_), 0, 1, sensitivity=1.0)
    assert kept[0, 0] * 3 == pytest.approx(3000, abs=0.1)
    assert wrapped[0, 0] * 3 == pytest.approx(3000 - 2**12, abs=0.1)


@pytest.mark.parametrize("mechanism", [*ALL, Laplace(1.3), CentralSum(Laplace(1.3)), Gaussian(1.0, 1e-5)], ids=repr)
def test_the_variance_of_a_mean(mechanism: Any) -> None:
    """Of 4 messages of sensitivity 0.5; 40,000 means, within 5 of its standard errors for Laplace noise (whose fourth
    moment is 6 squared variances)."""
    x, everybody = np.full((4, 1), 0.3), np.ones(4, np.bool_)
    if mechanism.averages:
        found = averages(mechanism, x, everybody, 2, 40_000, sensitivity=0.5)[:, 0]
    else:
        found = mechanism.perturb(np.full((40_000, 4), 0.3), np.random.default_rng(2), 0.5).mean(1)
    stated = float(mechanism.variance_of_mean(np.array(0.3), 0.5, 4))
    assert found.var() == pytest.approx(stated, rel=5 * math.sqrt(5 / 40_000))
    assert found.mean() == pytest.approx(0.3, abs=5 * math.sqrt(stated / 40_000))


# What an attacker learns. Each claims epsilon = 1 and is told all messages but the first sender's.


def seen(mechanism: DistributedSum, missing: int, known: int = 0) -> Any:
    """Transcripts: the sum over 5 senders, `missing` of whom drop out and `known` of whom tell the attacker their share
    of the noise, which it takes away; in steps."""

    def transcript(x: float, rng: np.random.Generator, trials: int) -> Array:
        values = np.zeros((trials, 5, 1))
        values[:, 0] = x
        everybody = np.ones((trials, 5), np.bool_)
        shares = mechanism._shares(values, mechanism.enough(everybody).reshape(-1, 1, 1), sums.STEPS, rng)
        inside = np.arange(5) < 5 - missing - known
        return np.asarray((values * sums.STEPS + shares)[:, inside].sum(1)) / sums.STEPS

    return transcript


@pytest.mark.parametrize(("missing", "known"), [(0, 0), (2, 0), (0, 2), (1, 1)])
def test_the_claim_of_a_distributed_sum_holds_as_long_as_enough_are_honest(missing: int, known: int) -> None:
    found = audit(
        seen(DistributedSum(1.0, dropouts=2), missing, known), (0.0, 1.0), 100_000, 0.99999, claimed=1.0, seed=3
    )
    assert found.verdict != "violated"
    if missing + known == 2:
        assert found.certified > 0.85  # so that a claim that is lower by a sixth would be refuted


def test_it_fails_if_more_are_false_than_it_was_made_for() -> None:
    found = audit(seen(DistributedSum(1.0, dropouts=0), 0, 2), (0.0, 1.0), 100_000, 0.99999, claimed=1.0, seed=3)
    assert found.verdict == "violated"


class Struck(Fault):
    """Given agents lie, and the messages of given agents are lost, bool[B, N]."""

    def __init__(self, lying: Array, lost: Array) -> None:
        self.lying, self.lost = lying, lost

    def liars(self, shape: tuple[int, int], memory: dict[str, Array]) -> Array:
        return self.lying

    def deliver(self, y: Array, sent: Array, sending: Array, memory: Any, rng: Any) -> tuple[Array, Array]:
        return y, np.asarray(sent & ~self.lost)


@cache
def exact_epsilon(unknown: int, needed: int, steps: int = 4) -> float:
    """The largest log-likelihood ratio of two sums a sensitivity apart, `steps` steps of the grid at epsilon 1, if the
    attacker does not know `unknown` shares of 1 / `needed` each, whose sum is a Polya difference, too."""
    distribution = polya_difference(1 / steps, unknown / needed, 12 * steps)
    return float(np.log(distribution[steps:] / distribution[:-steps]).max())


@pytest.mark.parametrize("dropouts", [1, 2, 3])
@pytest.mark.parametrize("senders", [1, 2, 3, 4, 6])
def test_liars_losses_and_a_reader_share_one_allowance(senders: int, dropouts: int) -> None:
    """Every number of liars, and of losses among both, with an honest victim that is in the sum: what the channel
    charges against the exact epsilon of the worst attacker, a fellow if there is an honest one in the sum. A sum is
    released at the claim if and only if it holds."""
    others, cases = senders - 1, []
    for fellows, liars, lost in np.ndindex(senders, senders, senders):  # the rest are liars that are lost
        if fellows + liars + lost <= others:
            cases.append((fellows, liars, lost))
    kinds = np.array([[0] + [0] * f + [1] * a + [2] * b + [3] * (others - f - a - b) for f, a, b in cases])
    shape = kinds.shape
    channel = Channel("sum", "vector", observer="server", unit="event", averaged=True, num_senders=senders)
    accountant = Accountant(len(cases), senders, [channel])
    config = ChannelConfig(DistributedSum(1.0, dropouts), faults=(Struck((kinds == 1) | (kinds == 3), kinds >= 2),))
    require_fit(channel, config)
    channel.install(config, accountant)
    channel.draw_from(Streams(0))
    channel.reset(len(cases))
    _, inside = channel.send(np.zeros((*shape, 1)), None, 1.0)
    charged = accountant.epsilon(method="basic")[:, 0]
    for (fellows, liars, _), released, epsilon in zip(cases, inside[:, 0], charged, strict=True):
        needed = max(senders - dropouts, 1)
        unknown = max(fellows, 1)  # of 1 + fellows, without the fellow who reads
        worst = exact_epsilon(unknown, needed)
        assert (worst <= 1 + 1e-9) == (released and epsilon == 1.0), (fellows, liars, worst)
        if not released:  # though all who arrived might be honest
            assert exact_epsilon(max(fellows + liars, 1), needed) > 1


def test_a_fellow_who_reads_needs_an_allowance() -> None:
    """The exact epsilon of DistributedSum(1.0, dropouts=0) against one of n senders falls with n."""
    found = [exact_epsilon(senders - 1, senders) for senders in (2, 3, 5, 10)]
    assert found == sorted(found, reverse=True)
    assert found[-1] > 1.05
    single = federated_bandit_v0.population(num_agents=1, num_arms=2, horizon=20)
    Privatize(single, "means", DistributedSum(1.0, dropouts=0))  # has no fellow
    for world in (federated_bandit_v0, arm_elimination_v0):
        with pytest.raises(ValueError, match="dropouts must be at least 1 on channel 'means', not as in"):
            Privatize(world.population(num_agents=2, num_arms=2, horizon=20), "means", DistributedSum(1.0, dropouts=0))
    for policy in (PublicPlan(trust_model="distributed"), GrowingSchedule(trust_model="distributed")):
        assert policy.within(None, 2.0)["means"].dropouts == 1  # type: ignore[arg-type]


@pytest.mark.parametrize("mechanism", [CentralSum(Laplace(1.0)), DistributedSum(1.0, dropouts=0)], ids=repr)
def test_the_claim_of_an_average_holds_for_the_sender_with_the_largest_weight(mechanism: Any) -> None:
    """Of three numbers in [0, 1] with weights 2, 5 and 20, the last one is 0 or 1."""

    def transcript(x: float, rng: np.random.Generator, trials: int) -> Array:
        everybody, shape = np.ones((trials, 3), np.bool_), (trials, 3, 1)
        values = np.broadcast_to(np.array([[0.5], [0.3], [x]]), shape)
        weights = np.broadcast_to(np.array([[2.0], [5.0], [20.0]]), shape)
        return np.asarray(mechanism.average(values, everybody, everybody, rng, 1.0, weights)[0])

    found = audit(transcript, (0.0, 1.0), 100_000, 0.99999, claimed=1.0, seed=4, bits=not mechanism.idealised)
    assert found.verdict != "violated"
    assert found.certified > 0.85


def test_vectors_have_room_for_rounding() -> None:
    """A unit that may change all 30 numbers of a message, each of which is rounded, moves it by up to 30 steps more."""
    given = DistributedSum(1.0)
    assert given._reach((30,), 1.0) == sums.STEPS + 30
    assert given._reach((30,), np.ones((2, 4, 30))) == sums.STEPS
    assert given._reach((1,), 1.0) == sums.STEPS


# Refusals.


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CentralSum(Exponential(1.0)), "mechanism must be Laplace or Gaussian, not"),
        (lambda: CentralSum(CentralSum(Laplace(1.0))), "mechanism must be Laplace or Gaussian, not"),
        (lambda: CentralSum(None), "mechanism must be Laplace or Gaussian, not None"),  # type: ignore[arg-type]
        (lambda: DistributedSum(0.0), "epsilon must be"),
        (lambda: DistributedSum(math.inf), "epsilon must be"),
        (lambda: DistributedSum(1.0, dropouts=-1), "dropouts must be"),
        (lambda: DistributedSum(1.0, bits=16), "bits must be"),
        (lambda: DistributedSum(1.0, bits=63), "bits must be"),
        (lambda: Scheduled(CentralSum(Laplace(1.0))), "mechanism must be one without state that perturbs each message"),
    ],
)
def test_what_cannot_be_made(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


BANDIT: dict[str, Any] = {"num_agents": 6, "num_arms": 3, "horizon": 120}
TRAINING: dict[str, Any] = {"num_clients": 8, "clip_norm": 0.5, "compute_probability": 0.2, "horizon": 20.0}


def test_messages_of_a_secure_sum_are_not_late() -> None:
    server = Privatize(federated_bandit_v0.population(**BANDIT), "means", DistributedSum(1.0))
    with pytest.raises(ValueError, match="faults on channel 'means' must not delay messages of DistributedSum"):
        Faulty(server, "means", Stragglers((0.5, 0.5)))


# In worlds.


def after_first_batch(env: Any) -> Any:
    """The federation after 6 slots, in which each of 6 agents pulled each of 3 arms twice, and uploaded."""
    env.reset(seed=1)
    policy = PublicPlan(first=2)
    begin(env, {"agent": policy})
    env.advance(policy, steps=6)
    return env


@pytest.mark.parametrize("mechanism", [CentralSum(Laplace(2.0)), DistributedSum(2.0)], ids=repr)
def test_all_senders_hear_one_average_and_are_charged_as_for_one_message(mechanism: Any) -> None:
    env = after_first_batch(Privatize(federated_bandit_v0.population(num_envs=4, **BANDIT), "means", mechanism))
    heard = env.state.private
    np.testing.assert_array_equal(heard, np.broadcast_to(heard[:, :1], heard.shape))
    np.testing.assert_allclose(heard[:, 0], env.state.broadcast, atol=1e-12)
    taciturn.simulate(env, PublicPlan(), seed=1)
    assert env.channels["means"].messages().min() > 1
    np.testing.assert_allclose(env.accountant.epsilon(method="basic", unit="event"), 2.0)


def test_an_average_is_what_a_plan_expects() -> None:
    """The broadcast of a plan's first batch, in which each of 6 agents pulls each arm twice, is the mean of all rewards
    with noise of variance 2 / (12 epsilon)^2; 3,000 runs of 3 arms, 5 standard errors."""
    env = federated_bandit_v0.population(num_envs=3_000, qualities=(0.3, 0.5, 0.8), num_agents=6, horizon=120)
    private = after_first_batch(Privatize(env, "means", CentralSum(Laplace(1.5))))
    state = private.state
    exact = state.used_sums.sum(1) / state.used_counts.sum(1)
    noise = (state.broadcast - exact).ravel()
    assert noise.var() == pytest.approx(2 / (12 * 1.5) ** 2, rel=5 * math.sqrt(5 / noise.size))
    np.testing.assert_array_equal(private.channels["means"].messages(), 1)


@pytest.mark.parametrize("weighting", ["agents", "pulls"])
def test_uploads_weigh_by_their_pulls(weighting: str) -> None:
    """Agent i pulls arm 0 i + 1 times before all upload."""
    env = federated_bandit_v0.population(1, num_agents=3, num_arms=2, horizon=20, weighting=weighting)
    env.reset(seed=0)
    for slot in range(3):
        env.step(np.array([[0 if slot <= i else 1 for i in range(3)]]) + 2 * (slot == 2))
    counts, sums_ = env.state.counts[0], env.state.sums[0]
    np.testing.assert_array_equal(counts[:, 0], [1, 2, 3])
    means = sums_ / np.maximum(counts, 1)
    for arm, senders in ((0, [0, 1, 2]), (1, [0, 1])):
        weights = counts[senders, arm] if weighting == "pulls" else np.ones(len(senders))
        assert env.state.broadcast[0, arm] == pytest.approx(np.average(means[senders, arm], weights=weights))


def test_an_average_of_uploads_weighs_by_their_pulls() -> None:
    """Agent i pulls arm 0 i + 1 times before all upload; without noise to speak of, all hear the mean of all pulls."""
    env = federated_bandit_v0.population(40, num_agents=3, num_arms=2, horizon=20, weighting="pulls")
    quiet = Privatize(env, "means", CentralSum(Laplace(1e9)))
    quiet.reset(seed=0)
    for slot in range(3):
        actions = np.array([0 if slot <= i else 1 for i in range(3)]) + 2 * (slot == 2)
        quiet.step(np.tile(actions, (40, 1)))
    counts, rewards = quiet.state.counts[:, :, 0], quiet.state.sums[:, :, 0]
    np.testing.assert_allclose(quiet.state.broadcast[:, 0], rewards.sum(1) / counts.sum(1), atol=1e-6)
    assert (np.abs((rewards / counts).mean(1) - quiet.state.broadcast[:, 0]) > 0.01).any()


def test_lost_messages_are_not_in_the_average() -> None:
    """Without noise to speak of, each average is the mean over agents whose upload arrived."""
    env = federated_bandit_v0.population(num_envs=50, **BANDIT)
    quiet = Faulty(Privatize(env, "means", CentralSum(Laplace(1e9))), "means", LossyChannel(0.5))
    state = after_first_batch(quiet).state
    for replica in range(50):
        said = state.weight[replica, :, 0] > 0
        sums_, counts = state.used_sums[replica, said], state.used_counts[replica, said]
        if said.any():
            assert 0 < said.sum() <= 6
            np.testing.assert_allclose(state.broadcast[replica], sums_.sum(0) / counts.sum(0), atol=1e-6)
    assert {int(n) for n in (state.weight[:, :, 0] > 0).sum(1)} >= {2, 3, 4}


def test_nothing_is_released_if_too_many_drop_out() -> None:
    env = federated_bandit_v0.population(num_envs=200, **BANDIT)
    lossy = Faulty(Privatize(env, "means", DistributedSum(1e6, dropouts=2)), "means", LossyChannel(0.4))
    heard = (after_first_batch(lossy).state.weight[:, :, 0] > 0).sum(1)
    assert set(heard.tolist()) == {0, 5, 6}  # of 6, at least 6 - 2 beside one who reads
    assert lossy.accountant is not None
    assert lossy.accountant.epsilon(method="basic", unit="event").max() == 1e6


@pytest.mark.parametrize(("fraction", "total"), [(0.2, 2.0), (0.3, math.inf)])
def test_liars_add_no_noise(fraction: float, total: float) -> None:
    """Of 6 agents, 1 may lie beside one who reads."""
    env = federated_bandit_v0.population(num_envs=3, **BANDIT)
    lied = Faulty(Privatize(env, "means", DistributedSum(2.0, dropouts=2)), "means", Byzantine(fraction))
    run = taciturn.simulate(lied, PublicPlan(), seed=0)
    assert run.accountant is not None
    assert run.accountant.epsilon(method="basic", unit="event").max() == total


def test_absent_agents_are_not_charged_and_a_budget_stops_averages() -> None:
    env = federated_bandit_v0.population(num_envs=20, **BANDIT)
    away = Faulty(Privatize(env, "means", DistributedSum(1.0)), "means", Churn(0.5, 0.5))
    taciturn.simulate(away, PublicPlan(), seed=0)
    assert away.accountant is not None
    np.testing.assert_array_equal(away.accountant.messages("means"), away.channels["means"].messages())
    once = Privatize(env, "means", CentralSum(Laplace(1.0)), Budget(2.5))
    taciturn.simulate(once, PublicPlan(), seed=0)
    np.testing.assert_array_equal(once.accountant.messages("means"), 2)


def test_arm_elimination_hears_averages() -> None:
    env = arm_elimination_v0.population(num_envs=5, num_agents=4, num_arms=3, horizon=400)
    run = taciturn.simulate(env, EliminationSchedule(1.0), seed=0, privacy={"means": CentralSum(Laplace(1.0))})
    assert run.accountant is not None
    np.testing.assert_allclose(run.accountant.epsilon(method="basic", unit="event").max(1), 1.0)


@pytest.mark.parametrize("weighting", ["uniform", "samples"])
@pytest.mark.parametrize("secure", [False, True])
def test_federated_training_averages_in_private(weighting: str, secure: bool) -> None:
    """The step of the server's parameters in the first round, with noise and without it: their difference is noise of
    standard deviation sigma c / sum of weights, c the largest change; 650 parameters of 12 sessions, 5 standard errors
    (the fourth moment of Laplace noise is 6 squared variances). A secure sum's Laplace noise is for the sum of absolute
    changes, sqrt(650) times the Euclidean norm."""
    sigma = math.sqrt(2 * 650) / 3.0 if secure else 1.5
    noise = DistributedSum(3.0) if secure else CentralSum(Gaussian.from_rho(1 / (2 * sigma**2)))
    found = []
    for distribution in (NoPrivacy(), noise):
        env = federated_training_v0.population(num_envs=12, weighting=weighting, **TRAINING)
        private = Privatize(env, "update", distribution)
        private.reset(seed=3)
        while (private.state.rounds == 0).all():
            private.step(np.where(private.state.received >= 3, 0, 1)[:, None])
        found.append((private.state.rounds.copy(), private.state.parameters.copy()))
        closed = private.state.rounds == 1
        senders = private.channels["update"].messages() > 0
        sizes = private.column("sizes")
    difference = (found[1][1] - found[0][1])[closed]
    weight = np.where(senders, sizes if weighting == "samples" else 1, 0)[closed]
    number = senders.sum(1)[closed]
    scale = sigma * 2 * TRAINING["clip_norm"] * weight.max(1) / weight.sum(1)
    scale *= np.sqrt(number / (number - 1)) if secure else 1.0  # one of the clients may read
    z = (difference / scale[:, None]).ravel()
    assert z.size >= 650
    assert z.var() == pytest.approx(1.0, rel=5 * math.sqrt((5 if secure else 2) / z.size))


def test_whole_runs_of_averages_are_audited() -> None:
    """A canary's first mean of two rewards is 0 or 1/2 in federations of 2; the claim is that of one message, 2. It is
    not refuted, and 0.9 would be; 0.6 of the secure sum, whose noise has twice the variance as the other may read."""
    env = federated_bandit_v0.population(num_agents=2, qualities=(0.5, 0.1), horizon=30)
    pair = {"means": (np.array([0.0, 0.0]), np.array([0.5, 0.0]))}
    for mechanism, least in ((CentralSum(Laplace(2.0)), 0.9), (DistributedSum(2.0), 0.6)):
        private = Privatize(env, "means", mechanism)
        found = audit(private, pair, 4000, 0.9999, policy=PublicPlan(first=2), unit="event", steps=6)
        assert found.claimed == pytest.approx(2.0)
        assert found.verdict != "violated"
        assert found.certified > least


def test_whole_sessions_of_training_are_audited() -> None:
    """A client's images are all of one class, or of another."""
    from taciturn.envs.federated_training.datasets import samples_of_class

    env = federated_training_v0.population(num_clients=3, clip_norm=0.1, compute_probability=0.5, horizon=4.0)
    private = Privatize(env, "update", CentralSum(Gaussian.from_rho(20.0)))
    two = (samples_of_class(env, 0), samples_of_class(env, 1))
    found = audit(private, policy=FixedCount(2), change=two, trials=600, delta=1e-5, seed=0)
    assert found.verdict != "violated"
    assert found.certified > 0.3


def test_on_the_command_line() -> None:
    from taciturn.mechanism_names import parse_mechanism

    assert parse_mechanism("CentralSum:Laplace:2") == CentralSum(Laplace(2))
    assert parse_mechanism("DistributedSum:2,dropouts=3") == DistributedSum(2, dropouts=3)
    with pytest.raises(ValueError, match="mechanism must be Laplace or Gaussian"):
        parse_mechanism("CentralSum:DistributedSum:2")
