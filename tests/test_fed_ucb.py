"""FedUCB: its formulas against linear algebra, its uploads by hand, and the claim of privacy that audits refute."""

from typing import Any

import numpy as np
import pytest

import taciturn
from taciturn.envs import federated_bandit_v0
from taciturn.envs.core import ChannelConfig, begin
from taciturn.policies import FedUCB
from taciturn.policies.classic.fed_ucb import ridge_index, synchronises
from taciturn.testing.policies import Play
from taciturn.testing.schedules import schedule_is_public
from taciturn.validation import Array, Floats
from taciturn.wrappers import Laplace, Privatize, audit

CONFIDENCE = 1 - 1e-4  # an audit of what keeps its claim refutes it with a probability of at most 1e-4
SLOTS = 24


class AsClaimed(FedUCB):
    """With the schedule that the paper takes for public."""

    public_schedule = True


def log_det(counts: Array, ridge: float) -> float:
    """Of the Gram matrix of unit vectors, as often as `counts` say."""
    rows = np.repeat(np.eye(len(counts)), counts.astype(int), axis=0)
    return float(np.linalg.slogdet(ridge * np.eye(len(counts)) + rows.T @ rows)[1])


def test_the_rule_is_one_of_determinants() -> None:
    rng = np.random.default_rng(0)
    new, synced, slots = rng.integers(0, 9, (200, 3)), rng.integers(0, 20, (200, 3)), rng.integers(1, 30, 200)
    found = synchronises(new, synced, slots, 0.5, 20.0)
    by_hand = [(log_det(n + s, 0.5) - log_det(s, 0.5)) * t >= 20.0 for n, s, t in zip(new, synced, slots, strict=True)]
    assert found.tolist() == by_hand
    assert 20 < found.sum() < 180


def test_the_index_is_that_of_linear_regression() -> None:
    rng = np.random.default_rng(1)
    pulled = np.repeat(np.eye(3), [4, 1, 7], axis=0)
    rewards = rng.random(12)
    gram = 0.7 * np.eye(3) + pulled.T @ pulled
    theta = np.linalg.solve(gram, pulled.T @ rewards)
    width = np.sqrt(np.diag(np.linalg.inv(gram)))
    counts, sums = pulled.sum(0), pulled.T @ rewards
    np.testing.assert_allclose(ridge_index(counts, sums, counts, 0.7, 1.3), theta + 1.3 * width)


@pytest.mark.parametrize("acts_on", ["own", "received"])
def test_pulls_and_uploads_by_hand(acts_on: str) -> None:
    """Slot by slot, from the state of the world, with matrices."""
    agents, arms, ridge, width, threshold = 3, 3, 0.5, 0.8, 6.0
    env = federated_bandit_v0.population(1, num_agents=agents, num_arms=arms, horizon=60)
    policies = {"agent": FedUCB(threshold, width, ridge, acts_on)}
    env.reset(seed=3)
    begin(env, policies)
    used, rewards, synced = np.zeros((agents, arms)), np.zeros((agents, arms)), np.zeros(agents, int)
    happened, counts, sums = np.zeros(agents, bool), np.zeros((agents, arms)), np.zeros((agents, arms))
    broadcast, total = np.zeros(arms), 0
    for slot in range(60):
        env.advance(policies, steps=1)
        pulled = env.state.counts[0] - counts
        uploads = np.zeros(agents, bool)
        for i in range(agents):
            new, before = counts[i] - used[i], agents * used[i]
            own = acts_on == "own"
            gram = ridge * np.eye(arms) + np.diag(before + new * own)
            theta = np.linalg.solve(gram, before * broadcast + (sums[i] - rewards[i]) * own)
            known = np.linalg.inv(ridge * np.eye(arms) + np.diag(before + new))
            assert pulled[i].argmax() == (theta + width * np.sqrt(np.diag(known))).argmax()
            grown = log_det(before + new + pulled[i], ridge) - log_det(before, ridge)
            late = happened.any() and synced[i] < slot - 1  # others have uploaded in the last slot
            uploads[i] = grown * (slot + 1 - synced[i]) >= threshold or late
        counts, sums = env.state.counts[0].copy(), env.state.sums[0].copy()
        used[uploads], rewards[uploads], synced[uploads] = counts[uploads], sums[uploads], slot + 1
        assert (env.state.used_counts[0] == used).all()
        happened, broadcast, total = uploads, env.state.broadcast[0].copy(), total + uploads.sum()
    assert total > 10


def regret(policy: FedUCB, runs: int = 60) -> Floats:
    env = federated_bandit_v0.population(runs, num_agents=4, qualities=(0.9, 0.5, 0.4), horizon=400)
    return taciturn.simulate(env, policy, seed=0).metrics["regret_per_agent"]


@pytest.mark.parametrize("acts_on", ["own", "received"])
def test_it_learns(acts_on: str) -> None:
    """Pulls at random cost 400 * (0.4 + 0.5) / 3 = 120; the average has a standard error below 3."""
    assert regret(FedUCB(acts_on=acts_on)).mean() < 60


def moments(first: int, rng: np.random.Generator, trials: int, policy: FedUCB) -> Array:
    """When each of two agents uploads, [trials, 2 * SLOTS], if the first reward of the first one is `first`; all other
    rewards are 0."""
    env = federated_bandit_v0.population(trials, num_agents=2, qualities=(0.0, 0.0, 0.0), horizon=SLOTS)
    env.reset(seed=int(rng.integers(2**63)), options={"channels": {"means": ChannelConfig(Laplace(1.0))}})
    begin(env, {"agent": policy})
    sent = []
    for slot in range(SLOTS):
        env.advance({"agent": policy}, steps=1)
        if slot == 0:
            env.column("sums")[:, 0] = first * env.column("counts")[:, 0]
        sent.append(env.channels["means"].messages().copy())
    return np.concatenate(sent, 1)


@pytest.mark.parametrize("acts_on", ["own", "received"])
def test_the_moments_of_uploads_tell_one_reward(acts_on: str) -> None:
    """The claim is 1 for each reward. False alarm rate 1e-4 (that of the auditor)."""
    policy = FedUCB(6.0, acts_on=acts_on)
    found = audit(
        lambda first, rng, trials: moments(first, rng, trials, policy),
        pair=(0, 1),
        trials=400,
        confidence=CONFIDENCE,
        claimed=1.0,
    )
    assert found.verdict == ("violated" if acts_on == "own" else "consistent")
    if acts_on == "own":
        assert found.correct == found.guesses > 130, "without noise on it, the moment gives the reward away"


@pytest.mark.parametrize(
    ("policy", "verdict"),
    [(AsClaimed(5.0), "violated"), (FedUCB(5.0, acts_on="received"), "consistent")],
    ids=["as_claimed", "repaired"],
)
def test_an_audit_of_whole_runs_refutes_the_claim(policy: FedUCB, verdict: str) -> None:
    """Level 0.02 for each reward, and at most 24 rewards a message. False alarm rate 1e-4 (that of the auditor)."""
    env = federated_bandit_v0.population(num_agents=2, num_arms=3, horizon=SLOTS)
    private = Privatize(env, "means", Laplace(0.02))
    found = audit(private, policy=policy, change=(0, 1), trials=900, confidence=CONFIDENCE)
    assert 0 < found.claimed < 2
    assert found.verdict == verdict


def test_what_is_declared_is_what_holds() -> None:
    totals: list[Any] = []
    for acts_on in ("own", "received"):
        env = federated_bandit_v0.population(2, num_agents=2, num_arms=3, horizon=60)
        run = taciturn.simulate(env, FedUCB(acts_on=acts_on), seed=0, privacy={"means": Laplace(0.5)})
        totals.append(run.accountant.epsilon(delta=0.0, method="basic", unit="event").max())
    assert totals == [np.inf, 0.5]


def test_the_check_of_schedules_finds_it_too() -> None:
    small = {"num_agents": 3, "num_arms": 3, "horizon": 60}
    schedule_is_public(Play("FedUCB", "federated_bandit_v0", small, given={"acts_on": "received"}))
    with pytest.raises(AssertionError, match="message"):
        schedule_is_public(Play(AsClaimed, "federated_bandit_v0", small))
