"""Agents designed to share: what the public plan counts, who uploads when, the schedule, and what sharing is worth."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import optimize

import taciturn
from taciturn.envs import arm_elimination_v0, federated_bandit_v0
from taciturn.envs.federated_bandit.arm_elimination import decode_action, pulls_per_arm
from taciturn.policies import (
    UCB1,
    DividedPlan,
    GrowingSchedule,
    HorizonKLUCB,
    Mixture,
    PublicPlan,
    ThompsonSampling,
)
from taciturn.policies.classic.cooperative_bandits import divided
from taciturn.policies.designed.federated_bandit import least_pulled
from taciturn.policies.families.bandit_indices import kl_upper_bound
from taciturn.wrappers import Laplace, Privatize

TASK: dict[str, Any] = {"num_agents": 20, "num_arms": 5, "horizon": 1000}


def test_an_average_counts_as_many_pulls_as_have_its_variance() -> None:
    """The variance of the average over 20,000 simulated broadcasts, against v over the pulls that it counts as."""
    rng, agents, batches, mean, distribution = np.random.default_rng(0), 4, (3, 6, 20), 0.4, Laplace(0.5)
    pulls = np.array(batches)
    rewards = rng.binomial(pulls, mean, (20_000, agents, 3))
    noise = np.stack([distribution.perturb(np.zeros((20_000, agents)), rng, 1 / n) * n for n in batches], -1)
    average = ((rewards + noise).sum(-1) / pulls.sum()).mean(1)
    counts = PublicPlan.counted(
        agents, pulls.sum(keepdims=True), np.array([3 * 2 / 0.5**2]), np.array([mean])
    )  # Laplace noise of scale 1/(epsilon n) in a mean of n: 2/epsilon^2 in their sum
    assert average.var() == pytest.approx(mean * (1 - mean) / counts[0], rel=0.05)
    exact = PublicPlan.counted(agents, np.array([29, 0]), np.zeros(2), np.array([0.4, 0.0]))
    np.testing.assert_allclose(exact, [116, 0])


def test_all_agents_pull_alike_until_they_are_on_their_own() -> None:
    env = federated_bandit_v0.population(3, num_agents=4, num_arms=3, horizon=100)
    policy = PublicPlan(first=2, growth=2.0, chunk=2, until=0.6)
    obs, _ = env.reset(seed=0)
    policy.reset(env, env.stream("policy"))
    uploads, alike = np.zeros((3, 100), np.bool_), np.zeros((3, 100), np.bool_)
    for slot in range(100):
        actions = policy.act(obs)
        arms, shares = actions % 3, actions >= 3
        alike[:, slot] = (arms == arms[:, :1]).all(1)
        assert (shares == shares[:, :1]).all()
        uploads[:, slot] = shares[:, 0]
        obs = env.step(actions).observation
    # Batches of 6, 12 and 24 slots end at 6, 18 and 42; one of 48 would end after 60.
    for replica in range(3):
        np.testing.assert_array_equal(np.flatnonzero(uploads[replica]), [5, 17, 41])
    assert alike[:, :42].all()
    assert not alike[:, 42:].all(1).any(), "then each draws for itself"


def test_the_first_batch_pulls_every_arm_equally_often() -> None:
    env = federated_bandit_v0.population(1, num_agents=2, num_arms=4, horizon=50)
    obs, _ = env.reset(seed=0)
    policy = PublicPlan(first=3, until=0.3)
    policy.reset(env, env.stream("policy"))
    for _ in range(12):
        obs = env.step(policy.act(obs)).observation
    counts = policy._layout.unpack(obs)["counts"]
    np.testing.assert_array_equal(counts, np.full((1, 2, 4), 3))


@pytest.fixture(scope="module")
def alone() -> Any:
    """The regret of agents on their own, [100]."""
    return taciturn.simulate(federated_bandit_v0.population(100, **TASK), ThompsonSampling(), seed=5).metrics[
        "regret_per_agent"
    ]


@pytest.mark.parametrize(
    ("total", "policy", "share"),
    [
        (None, PublicPlan(1, 1.6, 1, 0.7), 0.75),
        (10.0, PublicPlan(1, 1.6, 1, 0.7), 0.75),
        (3.0, PublicPlan(1, 2.37, 2, 0.82), 0.5),
        (1.0, PublicPlan(2, 1.31, 2, 0.49), 0.2),
    ],
)
def test_sharing_pays_under_a_total(total: float | None, policy: PublicPlan, share: float, alone: Any) -> None:
    """At least this share of the regret of agents on their own is saved, by 4 standard errors of 100 runs: false alarm
    below 1e-4. The settings were found on training streams."""
    env = federated_bandit_v0.population(100, **TASK)
    run = taciturn.simulate(env, policy, seed=5, privacy=None if total is None else {"means": Laplace(total)})
    saved = (1 - share) * alone - run.metrics["regret_per_agent"]
    assert saved.mean() > 4 * saved.std() / math.sqrt(saved.size)
    if total is not None:
        np.testing.assert_allclose(run.accountant.epsilon(0.0, method="basic", unit="event"), total)


# The coordinator of arm elimination.

COORDINATOR: dict[str, Any] = {"num_agents": 5, "num_arms": 10, "horizon": 10_000}


def test_the_schedule_by_hand() -> None:
    """Three epochs of three agents and four arms, with noise of Laplace(2); the threshold as a root."""
    env = arm_elimination_v0.population(1, num_agents=3, qualities=(0.5,) * 4, horizon=1000)
    private = Privatize(env, "means", Laplace(2.0))
    obs, _ = private.reset(seed=0)
    policy = GrowingSchedule(first=2, growth=2.5, a=0.6, c=0.05)
    policy.reset(private, np.random.default_rng(0))
    total = 0
    for epochs, pulls in ((1, 2), (2, 3), (3, 8)):  # ceil(2.5 x 2) = 5, ceil(2.5 x 5) = 13
        seen = policy._layout.unpack(obs)
        left, active = 1000 - private.clock()[0], int(seen["active"].sum())
        known = 0.0 if total == 0 else 3 * total / (1 + 4 * (epochs - 1) * 0.5 / total)
        best = (known * float(np.clip(seen["means"].max(), 0, 1)) + 2) / (known + 4)
        chosen = policy.act(obs)
        total += pulls
        noise = epochs * 2 / 2.0**2 / total
        after = left - active * pulls
        factor = 2 * 0.6 * math.log(1 + 0.05 * after / (active * total)) / (3 * total)

        def excess(gap: float, best: float = best, noise: float = noise, factor: float = factor) -> float:
            worse = max(best - gap, 0.0)
            return gap**2 - factor * (best * (1 - best) + worse * (1 - worse) + 2 * noise)

        threshold = optimize.brentq(excess, 1e-9, 10.0)
        share, below, participation = decode_action(chosen[0, 0])
        assert pulls_per_arm(share, left // active) == pulls
        assert below == pytest.approx(min(threshold, 1.0), rel=1e-4)
        assert participation == 1.0
        step = private.step(chosen)
        obs = step.observation
        assert step.info["pulls"][0] == pulls


@pytest.fixture(scope="module")
def five_alone() -> Any:
    """The regret of agents on their own, [300]."""
    env = federated_bandit_v0.population(300, **COORDINATOR)
    return taciturn.simulate(env, ThompsonSampling(), seed=5).metrics["regret_per_agent"]


@pytest.mark.parametrize(
    ("total", "policy", "most"),
    [
        (None, GrowingSchedule(1, 1.12, 0.544, 1.13), 22.0),
        (10.0, GrowingSchedule(2, 1.15, 0.683, 0.21), 24.0),
        (3.0, GrowingSchedule(2, 1.34, 0.757, 0.252), 34.0),
    ],
)
def test_together_they_need_less_than_each_on_its_own(
    total: float | None, policy: Any, most: float, five_alone: Any
) -> None:
    """The regret of 300 runs by 4 standard errors (false alarm below 1e-4) against `most`, and that against agents on
    their own by Thompson sampling, who are also measured. The settings were found on training streams."""
    run = taciturn.simulate(
        arm_elimination_v0.population(300, **COORDINATOR),
        policy,
        seed=5,
        privacy=None if total is None else {"means": Laplace(total)},
    )
    regret = run.metrics["regret_per_agent"]
    assert regret.mean() + 4 * regret.std() / math.sqrt(regret.size) < most
    if total is not None:
        np.testing.assert_allclose(run.accountant.epsilon(0.0, method="basic", unit="event"), total)
    assert five_alone.mean() - 4 * five_alone.std() / math.sqrt(five_alone.size) > most


# The plan that divides the arms.


def averages(policy: DividedPlan, runs: int, noise: float) -> tuple[Any, Any]:
    """Two batches of three agents on one arm of mean 0.5, [runs]: agents 0 and 1 pull it 4 times each, then agents 1
    and 2 pull it 10 times each; `policy` hears the averages. Returns what agent 1 said, and its own exact mean."""
    rng = np.random.default_rng(1)
    sums = np.zeros((runs, 3))
    exact, n = np.zeros((runs, 3)), np.zeros(3)
    scale = math.sqrt(noise / 2)
    policy._senders[:, 0] = 2.0
    for batch, (who, pulls) in enumerate((([0, 1], 4), ([1, 2], 10))):
        for agent in who:
            rewards = rng.binomial(pulls, 0.5, runs)
            exact[:, agent] += rewards
            sums[:, agent] += rewards + rng.laplace(0.0, scale, runs)
            n[agent] += pulls
        policy._known[:, 0, batch, who] = n[who]
        policy._spread[:, 0, batch, who] = np.array([1 if batch == 0 or agent == 2 else 2 for agent in who]) * noise
        policy._sent[:, 0, batch, who] = sums[:, who] / n[who]
        policy._received[:, 0, batch] = (sums[:, who] / n[who]).mean(1)
    return sums, exact


@pytest.mark.parametrize("me", [None, 1])
@pytest.mark.parametrize("noise", [1e-9, 1.0])
def test_the_estimate_from_averages_of_different_agents(noise: float, me: int | None) -> None:
    """Unbiased, with the variance that its pulls say, by 20,000 runs; and better than the last average."""
    policy, runs = DividedPlan(first=1, growth=1.0, until=1.0), 20_000
    policy.reset(federated_bandit_v0.population(runs, num_agents=3, num_arms=1, horizon=2), np.random.default_rng(0))
    policy._start(3)
    averages(policy, runs, noise)
    hits, counts = policy._estimate(np.arange(runs), 2, me)
    # C / v by hand, with n = 4, 14 (agent 1) and 10, and z = 1, 2, 1 times the noise.
    z = noise / 0.25
    if me is None:
        c = np.array([[2 * (4 + z) / 16, (4 + z) / (4 * 14)], [0, (14 + 2 * z) / 14**2 + (10 + z) / 100]]) / 4
        c[1, 0] = c[0, 1]
        pulls = np.linalg.inv(c).sum()
    else:  # what agents 0 and 2 said, once each
        pulls = 1 / ((4 + z) / 16) + 1 / ((10 + z) / 100)
    assert np.median(counts) == pytest.approx(pulls, rel=0.03), "v at the estimate is below 1/4, never above"
    error = hits[:, 0] / counts[:, 0] - 0.5
    assert abs(error.mean()) < 4 * error.std() / math.sqrt(runs)
    assert error.var() == pytest.approx(0.25 / pulls, rel=0.06)
    if me is None:
        assert error.var() < 0.97 * (policy._received[:, 0, 1] - 0.5).var()


def test_each_agent_pulls_one_arm_throughout_a_batch() -> None:
    env = federated_bandit_v0.population(3, num_agents=5, num_arms=3, horizon=100)
    policy = DividedPlan(first=4, growth=2.0, until=0.6)
    obs, _ = env.reset(seed=0)
    policy.reset(env, env.stream("policy"))
    arms, uploads = np.zeros((100, 3, 5), np.int64), np.zeros((100, 3, 5), np.bool_)
    for slot in range(100):
        actions = policy.act(obs)
        arms[slot], uploads[slot] = actions % 3, actions >= 3
        obs = env.step(actions).observation
    # Batches of 4, 8, 16 and 32 slots end at 4, 12, 28 and 60.
    assert (uploads == uploads[:, :1, :1]).all()
    np.testing.assert_array_equal(np.flatnonzero(uploads[:, 0, 0]), [3, 11, 27, 59])
    np.testing.assert_array_equal(arms[0], np.tile([0, 1, 2, 0, 1], (3, 1)))
    for start, end in ((0, 4), (4, 12), (12, 28), (28, 60)):
        assert (arms[start:end] == arms[start]).all()
    assert (arms[28] != arms[0]).any()


def test_an_arm_goes_to_those_who_have_pulled_it_least() -> None:
    """One agent for arm 0, three for arm 1: arm 0 goes to agent 3, who has never pulled it, and arm 1 to the others."""
    pulls = np.array([[[4.0, 9, 4, 0], [0, 0, 0, 9]]])
    chosen, order = np.array([[1, 0, 1, 1]]), np.array([2, 0, 3, 1])
    np.testing.assert_array_equal(least_pulled(chosen, pulls, order), [[1, 1, 1, 0]])
    # Agents 0 and 2 have pulled arm 0 as often as each other, and 2 comes first in the order.
    pulls[0, 0, 3] = 5
    np.testing.assert_array_equal(least_pulled(chosen, pulls, order), [[1, 1, 0, 1]])


def test_the_plan_gives_the_rarest_arm_to_those_who_have_pulled_it_least() -> None:
    env = federated_bandit_v0.population(20, num_agents=8, num_arms=3, horizon=100)
    obs, _ = env.reset(seed=4)
    policy = DividedPlan(first=2, growth=1.1, until=0.9)
    policy.reset(env, np.random.default_rng(0))
    pulls, compared, uploaded = np.zeros((20, 3, 8)), 0, False
    for _ in range(60):
        actions = policy.act(obs)
        arms = actions % 3
        for run in range(20) if uploaded else ():  # a batch begins
            chosen = np.bincount(arms[run], minlength=3)
            rarest = np.argmin(np.where(chosen > 0, chosen, 9))
            mine = arms[run] == rarest
            compared += not mine.all()
            assert pulls[run, rarest, mine].max() <= pulls[run, rarest, ~mine].min(initial=np.inf)
        pulls += np.swapaxes(arms[..., None] == np.arange(3), 1, 2)
        uploaded = bool((actions >= 3).all())
        obs = env.step(actions).observation
    assert compared > 50


def test_arms_are_assigned_as_often_as_chosen() -> None:
    rng = np.random.default_rng(0)
    chosen, pulls = rng.integers(5, size=(200, 8)), rng.integers(4, size=(200, 5, 8)).astype(float)
    found = least_pulled(chosen, pulls, rng.permutation(8))
    np.testing.assert_array_equal(np.sort(found, 1), np.sort(chosen, 1))
    first = np.array([np.argmin(np.where(one, one, 9)) for one in (chosen[..., None] == np.arange(5)).sum(1)])
    rows = np.arange(200)
    mine = np.where(found == first[:, None], pulls[rows, first], -1).max(1)
    others = np.where(found != first[:, None], pulls[rows, first], 9).min(1)
    assert (mine <= others).all()


def test_reports_of_batches() -> None:
    """Pulls, noise and senders that the plan notes, against those of its actions: Laplace noise of 2/epsilon^2 in the
    sum of each batch in which an agent pulled the arm."""
    env = Privatize(federated_bandit_v0.population(2, num_agents=5, num_arms=3, horizon=100), "means", Laplace(2.0))
    obs, _ = env.reset(seed=3)
    policy = DividedPlan(first=4, growth=2.0, until=0.6)
    policy.reset(env, np.random.default_rng(0))
    pulls, batches, ends = np.zeros((2, 3, 5)), np.zeros((2, 3, 5)), [3, 11, 27, 59]
    for slot in range(60):
        actions = policy.act(obs)
        mine = np.swapaxes((actions % 3)[..., None] == np.arange(3), 1, 2)
        pulls += mine
        if slot in ends:
            batches += mine
            batch = ends.index(slot)
            np.testing.assert_array_equal(policy._known[:, :, batch], np.where(mine, pulls, 0))
            np.testing.assert_allclose(policy._spread[:, :, batch], np.where(mine, batches * 2 / 2.0**2, 0))
            np.testing.assert_array_equal(policy._senders[:, :, batch], mine.sum(-1))
        obs = env.step(actions).observation


def test_fewer_agents_than_arms_take_several_in_the_first_batch() -> None:
    env = federated_bandit_v0.population(1, num_agents=2, num_arms=5, horizon=40)
    policy = DividedPlan(first=3, until=0.5)
    obs, _ = env.reset(seed=0)
    policy.reset(env, env.stream("policy"))
    for _ in range(9):
        obs = env.step(policy.act(obs)).observation
    counts = policy._layout.unpack(obs)["counts"][0]
    np.testing.assert_array_equal(counts, [[3, 0, 3, 0, 3], [3, 3, 0, 3, 0]])


def test_agents_of_another_policy_are_not_counted() -> None:
    """Two of three follow the plan, so that two report the first arm, which each has pulled twice."""
    env = federated_bandit_v0.population(1, num_agents=3, num_arms=1, horizon=20)
    plan = DividedPlan(first=2, growth=1.0, until=0.2)
    taciturn.simulate(env, Mixture([(plan, 2), (UCB1(), 1)]), seed=0)
    np.testing.assert_array_equal(plan._senders[0, 0], [2, 2])
    hits, counts = plan._estimate(np.array([0]), 1)
    assert counts[0, 0] == pytest.approx(4)
    assert hits[0, 0] == pytest.approx(4 * plan._received[0, 0, 0])


def test_an_arm_that_nobody_heard_of_is_left_out() -> None:
    """The averages of a batch whose uploads are all lost count for nothing, and the others still do."""
    env = federated_bandit_v0.population(1, num_agents=4, num_arms=2, horizon=100)
    policy = DividedPlan(first=5, growth=1.0, until=1.0)
    policy.reset(env, np.random.default_rng(0))
    policy._start(4)
    policy._next_batch(np.array([0]), 0, 0)
    received_sums = {"broadcast": np.full((1, 4, 2), 0.6), "private": np.full((1, 4, 2), 0.6)}
    policy._receive(np.array([0]), 0, received_sums | {"active": np.array([[[1.0, 0.0]] * 4])})
    hits, counts = policy._estimate(np.array([0]), 1)
    assert counts[0, 0] == pytest.approx(10)  # two agents, five pulls each
    assert hits[0, 0] == pytest.approx(6)
    assert (hits[0, 1], counts[0, 1]) == (0, 0)


def test_agents_divide_the_arms_one_after_another() -> None:
    """Against choices made one by one, with the index solved for; in some rows all agents take one arm."""
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 40, (60, 4)).astype(float)
    sums = np.rint(counts * rng.random((60, 4)))
    each = rng.uniform(0.5, 3.0, (60, 4))
    got = divided(counts, sums, np.full((60, 1), 500.0), 7, 0.6, 0.2, each)
    alike = (got == got[:, :1]).all(1)
    assert 10 < alike.sum() < 50
    for row in range(60):
        taken = np.zeros(4)
        for agent in range(7):
            n = counts[row] + 2 + taken * each[row]
            index = kl_upper_bound(n, (1 + sums[row]) / (counts[row] + 2), 0.6 * np.log(1 + 0.2 * 500 / n))
            assert got[row, agent] == index.argmax()
            taken[got[row, agent]] += 1


@pytest.mark.parametrize("policy", [DividedPlan(first=2), PublicPlan(), GrowingSchedule()], ids=repr)
def test_what_a_policy_spends_of_a_total(policy: Any) -> None:
    """Every agent spends all of it on each reward, and no more."""
    elimination = isinstance(policy, GrowingSchedule)
    env = (arm_elimination_v0 if elimination else federated_bandit_v0).population(
        2, num_agents=3, num_arms=3, horizon=200
    )
    run = taciturn.simulate(env, policy, seed=5, privacy=policy.within(env.view(policy), 2.5))
    np.testing.assert_allclose(run.accountant.epsilon(0.0, method="basic", unit="event"), 2.5)


@pytest.fixture(scope="module")
def each_alone() -> Any:
    """The regret of agents on their own, by an index for a known horizon, of 200 runs of 4."""
    env = federated_bandit_v0.population(200, **TASK | {"num_agents": 4})
    return taciturn.simulate(env, HorizonKLUCB(), seed=5).metrics["regret_per_agent"]


@pytest.mark.parametrize(
    ("total", "policy", "least"),
    [
        (None, DividedPlan(1, 1.5, 0.7, 0.6, 0.5), 0.6),
        (3.0, DividedPlan(3, 1.5, 0.7, 0.6, 0.5), 0.5),
        (1.0, DividedPlan(6, 1.48, 0.69, 0.61, 0.51), 0.35),
    ],
)
def test_dividing_the_arms_pays_under_a_total(
    total: float | None, policy: DividedPlan, least: float, each_alone: Any
) -> None:
    """At least this share of the regret of agents on their own is saved, by 4 standard errors of both (false alarm
    below 1e-4); at a total of 1, all that pull every arm alike cannot save so much."""
    env = federated_bandit_v0.population(200, **TASK)
    privacy = None if total is None else policy.within(env.view(policy), total)
    regret = taciturn.simulate(env, policy, seed=5, privacy=privacy).metrics["regret_per_agent"]
    saved = (1 - least) * each_alone.mean() - regret.mean()
    error = math.hypot(
        (1 - least) * each_alone.std() / math.sqrt(each_alone.size), regret.std() / math.sqrt(regret.size)
    )
    assert saved > 4 * error
