"""Baselines in the federated bandit: single-agent ones against river, cooperative ones by their invariants, all against
chance."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

import taciturn
from taciturn.envs.federated_bandit.world import FederatedBandit, federated_bandit_v0
from taciturn.graph import Graph, random_graph
from taciturn.policies.classic.bandits import (
    KLUCB,
    MOSS,
    UCB1,
    ArmPolicy,
    HorizonKLUCB,
    SuccessiveElimination,
    ThompsonSampling,
)
from taciturn.policies.classic.cooperative_bandits import (
    DDUCB,
    CentralisedKLUCB,
    CentralisedOracle,
    CoopUCB2,
    Fed2UCB,
    GossipUCB,
    Synchronised,
    communication_matrix,
)
from taciturn.policies.classic.private_bandits import DPSuccessiveElimination, dp_elimination_epoch
from taciturn.policies.families import bandit_indices
from taciturn.wrappers import Faulty, Laplace, LossyChannel

MEANS = (0.1, 0.3, 0.9, 0.5)
NO_COMMUNICATION: tuple[Any, ...] = (
    UCB1(),
    KLUCB(),
    KLUCB(3.0),
    HorizonKLUCB(),
    MOSS(),
    ThompsonSampling(),
    SuccessiveElimination(0.1),
    DPSuccessiveElimination(5.0, 0.1),
    CentralisedOracle(),
    CentralisedKLUCB(),
)
ON_GRAPHS: tuple[Any, ...] = (CoopUCB2(), DDUCB(), GossipUCB())
EVERY = (*NO_COMMUNICATION, Synchronised(), Synchronised("kl-ucb", 2.0), Fed2UCB(), Fed2UCB(admit_all=True), *ON_GRAPHS)
each = pytest.mark.parametrize("policy", EVERY, ids=repr)


def world(policy: Any, **params: Any) -> FederatedBandit:
    topology = "ring" if policy in ON_GRAPHS else "server"
    size: dict[str, Any] = {"num_envs": 5, "num_agents": 5, "qualities": MEANS, "horizon": 3000, "topology": topology}
    return federated_bandit_v0.population(**size | params)


def by_steps(env: FederatedBandit) -> FederatedBandit:
    env.fast_forward = lambda policies, until: False  # type: ignore[method-assign]
    return env


@each
def test_better_than_chance(policy: Any) -> None:
    # Private elimination has eliminated hardly any arms after 3,000 slots.
    env = world(policy, horizon=12_000 if isinstance(policy, DPSuccessiveElimination) else 3000)
    ours = taciturn.simulate(env, policy, seed=1).metrics["regret_per_agent"]
    chance = env.params.horizon * (0.9 - np.mean(MEANS))
    assert ours.max() < 0.8 * chance
    assert ours.min() > 0


@each
def test_planned_as_by_steps(policy: Any) -> None:
    # Equal random draws give equal runs. Phases of Fed2UCB and turns of private elimination are drawn as binomials, so
    # that only the law is the same (tests/test_fast_forms.py).
    planned = taciturn.simulate(world(policy), policy, seed=2, until=350)
    stepped = taciturn.simulate(by_steps(world(policy)), policy, seed=2, until=350)
    if isinstance(policy, Fed2UCB | DPSuccessiveElimination):
        assert planned.metrics.keys() == stepped.metrics.keys()
        return
    for name, values in planned.metrics.items():
        assert (values == stepped.metrics[name]).all(), name


def rows(policy: ArmPolicy, rewards: np.ndarray) -> np.ndarray:
    """The arms that one agent pulls, int64[T], if arm k gives the reward `rewards[t, k]` in slot t."""
    slots, arms = rewards.shape
    policy.start((1, 1, arms), slots)
    policy.rng = np.random.default_rng(0)
    counts, sums, pulled = np.zeros((1, 1, arms)), np.zeros((1, 1, arms)), np.zeros(slots, np.int64)
    for t in range(slots):
        arm = pulled[t] = policy.choose(counts, sums / np.maximum(counts, 1)).item()
        counts[0, 0, arm] += 1
        sums[0, 0, arm] += rewards[t, arm]
    return pulled


@pytest.mark.parametrize("seed", range(5))
def test_ucb1_pulls_as_rivers(seed: int) -> None:
    bandit = pytest.importorskip("river.bandit")
    # With continuous rewards there are no ties between indices, which river would break at random.
    rewards = np.random.default_rng(seed).beta([1, 2, 3, 2], [3, 2, 2, 2.5], (2000, 4))
    theirs, pulled = bandit.UCB(delta=1, burn_in=1, seed=0), []
    for row in rewards:
        arm = theirs.pull(range(4))
        theirs.update(arm, row[arm])
        pulled.append(arm)
    same = rows(UCB1(), rewards) == pulled
    assert same.all()
    assert len(set(pulled)) == 4


def test_thompson_sampling_as_rivers() -> None:
    bandit, proba = pytest.importorskip("river.bandit"), pytest.importorskip("river.proba")
    # Pulls of the best of three arms in 200 slots, over 150 runs; false alarm rate 1e-4 (Welch).
    best = []
    for run in range(150):
        rewards = np.random.default_rng(run).random((200, 3)) < [0.3, 0.5, 0.6]
        theirs, count = bandit.ThompsonSampling(reward_obj=proba.Beta(1, 1), seed=run), 0
        for row in rewards:
            arm = theirs.pull(range(3))
            theirs.update(arm, bool(row[arm]))
            count += arm == 2
        best.append(count)
    env = world(None, num_envs=150, num_agents=1, qualities=(0.3, 0.5, 0.6), horizon=200)
    for policy, agrees in ((ThompsonSampling(), True), (UCB1(), False)):
        taciturn.simulate(env, policy, seed=0)
        pulls = env.state.counts[:, 0, 2]
        assert (stats.ttest_ind(pulls, best, equal_var=False).pvalue > 1e-4) == agrees


def test_elimination_drops_when_radii_part() -> None:
    # Arms with rewards 1, 0 and 0: the latter two are eliminated as soon as two radii are at most 1, and not before.
    rewards = np.tile([1.0, 0.0, 0.0], (500, 1))
    pulled = rows(SuccessiveElimination(0.01), rewards)
    n = np.arange(1, 200)
    last = int(n[2 * bandit_indices.elimination_radius(n, 3, 0.01) <= 1][0])
    assert np.bincount(pulled).tolist() == [500 - 2 * last, last, last]
    assert (pulled[: 3 * last] == np.tile([0, 1, 2], last)).all()


def test_private_elimination_by_its_epochs() -> None:
    # With little noise, epoch e has the threshold 2^-e / 4 and eliminates an arm 1 below the best if e = 1, one 0.1
    # below if e = 2.
    rewards = np.tile([0.0, 1.0, 0.9], (12_000, 1))
    policy = DPSuccessiveElimination(1e6, 0.01)
    pulled = rows(policy, rewards)
    first = int(dp_elimination_epoch(np.array(1), np.array(3), 1e6, 0.01).pulls)
    second = int(dp_elimination_epoch(np.array(2), np.array(2), 1e6, 0.01).pulls)
    assert np.bincount(pulled).tolist() == [first, 12_000 - 2 * first - second, first + second]


@pytest.mark.parametrize(("scale", "right"), [(1.0, True), (0.5, False)])
def test_private_elimination_draws_its_noise(scale: float, right: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # An arm that lies the threshold and one noise scale s below survives if the difference of two Laplace(s) exceeds s:
    # with probability (1/4) (2 + 1) / e. False alarm rate 1e-4 (binomial); the test detects half the noise.
    epoch = dp_elimination_epoch(np.array(1), np.array(2), 0.02, 0.01)
    shape, pulls = (400, 5, 2), float(epoch.pulls)
    policy = DPSuccessiveElimination(0.02, 0.01)
    policy.rng = np.random.default_rng(0)
    policy.start(shape, 10**6)
    away = epoch.threshold + 1 / (0.02 * pulls)
    means = np.broadcast_to(np.array([0.0, np.rint(away * pulls) / pulls]), shape)
    policy.choose(np.zeros(shape), means)
    monkeypatch.setattr(policy, "schedule", lambda e, active: dp_elimination_epoch(e, active, 0.02, 0.01))
    monkeypatch.setattr(policy, "epsilon", 0.02 / scale)  # of the noise alone
    policy.choose(np.full(shape, pulls), means)
    survived = int((policy._active.sum(-1) == 2).sum())
    assert (stats.binomtest(survived, 2000, 0.75 / np.e).pvalue > 1e-4) == right


def test_fed2_ucb_admits_and_counts() -> None:
    policy = Fed2UCB(pulls=2.0)
    env = world(policy, num_agents=20, qualities=(0.5, 0.5), horizon=1000)
    each_phase = int(np.ceil(2 * np.log(1000)))
    times = [2 * each_phase * p for p in (1, 2, 3, 4, 5)]
    run = taciturn.simulate(env, policy, seed=0, until=[*times, 1000], record=("transmissions", "rounds"))
    # M(p) = 2, 6, 14, then all 20.
    policy.start((5, 20, 2), 1000)
    assert policy.admitted(np.arange(1, 6)).tolist() == [2, 6, 14, 20, 20]
    assert (run.trace["transmissions"][:5] == np.cumsum([2, 6, 14, 20, 20])[:, None]).all()
    assert (run.trace["rounds"][:5] == np.arange(1, 6)[:, None]).all()
    pulls = np.full(3, float(each_phase))
    assert policy.radius(3) == bandit_indices.fed2_ucb_radius(np.array([2.0, 4.0, 8.0]), pulls, 1000, 0.5, 0.0)


def test_client_sampling_counts_until_all_are_in() -> None:
    wary = Fed2UCB(sigma_c=0.3)
    wary.start((1, 20, 2), 1000)
    sure = Fed2UCB()
    sure.start((1, 20, 2), 1000)
    differs = [wary.radius(p) > sure.radius(p) for p in (1, 2, 3, 4, 5)]
    assert differs == [True, True, True, False, False]


def prepared(policy: Any, graph: Graph, arms: int = 3, size: int = 2) -> Any:
    env = federated_bandit_v0.population(
        num_envs=size, num_agents=graph.num_nodes, num_arms=arms, horizon=500, topology=graph
    )
    env.reset(seed=1)
    policy.reset(env, np.random.default_rng(2))
    return env


@pytest.mark.parametrize("kind", ["ring", "complete", "star", "erdos_renyi"])
def test_mixing_is_doubly_stochastic_over_the_edges(kind: str) -> None:
    graph = random_graph(kind, 9, 1)
    mix = communication_matrix(graph)
    assert mix.sum(0) == pytest.approx(np.ones(9))
    assert mix == pytest.approx(mix.T)
    assert (mix >= -1e-12).all()
    assert (np.diag(mix) >= 1 / (graph.degrees.max() + 1) - 1e-12).all(), "and everyone keeps a part of its own"
    assert ((mix > 1e-12) <= (graph.matrix().toarray() + np.eye(9) > 0)).all()


def test_consensus_conserves_what_was_pulled() -> None:
    coop = CoopUCB2()
    env = prepared(coop, Graph.of("star", 6))
    env.advance(coop, steps=50)
    before = np.array(env.state.counts)
    env.advance(coop, steps=1)
    assert coop._known[..., :3].sum(1) == pytest.approx(before.sum(1))


def test_gossip_keeps_the_mean_of_means() -> None:
    gossip = GossipUCB()
    env = prepared(gossip, Graph.of("ring", 6))
    env.advance(gossip, steps=60)
    means, counts = env.state.sums / np.maximum(env.state.counts, 1), np.array(env.state.counts)
    env.advance(gossip, steps=1)
    assert gossip._estimates.mean(1) == pytest.approx(means.mean(1))
    assert (gossip._most >= counts).all()
    assert (gossip._most <= counts.max(1, keepdims=True)).all()


@pytest.mark.parametrize("kind", ["ring", "star", "complete"])
def test_a_stage_mixes_to_the_accuracy_it_names(kind: str) -> None:
    agents, policy = 8, DDUCB(accuracy=0.05)
    prepared(policy, Graph.of(kind, agents))
    policy._mixing = begun = np.random.default_rng(3).random((2, agents, 6))
    for step in range(policy._stage):
        following = policy.accelerate(np.full(2, step), np.ones(2, bool))
        policy._mixing_before, policy._mixing = policy._mixing, following
    values = np.linalg.eigvalsh(communication_matrix(Graph.of(kind, agents)))
    second = policy._second
    chebyshev = np.polynomial.chebyshev.Chebyshev.basis(policy._stage)
    assert np.abs(chebyshev(values[:-1] / second) / chebyshev(1 / second)).max() <= 0.05 / agents + 1e-9
    assert policy._mixing.sum(1) == pytest.approx(begun.sum(1))
    spread = np.linalg.norm(begun - begun.mean(1, keepdims=True), axis=1)
    left = np.linalg.norm(policy._mixing - begun.mean(1, keepdims=True), axis=1)
    assert (left <= 0.05 / agents * spread + 1e-12).all()


def test_stages_count_everything_in_time() -> None:
    policy = DDUCB()
    env = prepared(policy, Graph.of("ring", 5))
    stage = policy._stage
    env.advance(policy, steps=3 + 3 * stage + 1)
    # The estimates cover the first pulls and two stages, the last of which was mixed during the third.
    assert policy._mixed[..., :3].sum((1, 2)) == pytest.approx(5 * (3 + 2 * stage) * np.ones(2))
    assert (policy._covered == 5 * (3 + 2 * stage)).all()


def test_neighbours_messages_are_counted() -> None:
    """In fast-forwarded runs and in steps, and from 0 in a replica that is reset."""
    env = federated_bandit_v0.population(num_envs=2, num_agents=6, num_arms=3, horizon=11, topology="ring")
    for policy, slots in ((CoopUCB2(), 10), (GossipUCB(), 10), (DDUCB(), 7)):
        # Messages are sent after all slots but the last; DDUCB starts when each arm has been pulled once.
        run = taciturn.simulate(env, policy, seed=0)
        for count in ("neighbour", "transmissions", "cost"):
            assert run.metrics[count].tolist() == [2 * 6 * slots] * 2
        assert (env.channels["exchange"].messages() == slots).all()
        assert not env.channels["means"].messages().any()
        assert (run.metrics["epsilon_basic"] == np.inf).all()
    policy = CoopUCB2()
    env.reset(seed=0)
    policy.reset(env, env.stream("policy"))
    env.advance(policy, steps=5)
    assert env.metrics()["transmissions"].tolist() == [2 * 6 * 4] * 2
    env.reset(where=np.array([True, False]))
    env.advance(policy, steps=3)
    assert env.metrics()["transmissions"].tolist() == [2 * 6 * 2, 2 * 6 * 7]


@pytest.mark.parametrize("policy", ON_GRAPHS, ids=repr)
def test_lost_messages_are_done_without(policy: Any) -> None:
    env = Faulty(world(policy), channel="exchange", fault=LossyChannel(0.5))
    lossy = taciturn.simulate(env, policy, seed=1).metrics["regret_per_agent"]
    assert lossy.max() < 0.8 * 3000 * (0.9 - np.mean(MEANS))
    silent = Faulty(world(policy), channel="exchange", fault=LossyChannel(1.0))
    taciturn.simulate(silent, policy, seed=1, until=100)
    if isinstance(policy, GossipUCB):
        assert policy._estimates == pytest.approx(policy._own)
    if isinstance(policy, CoopUCB2):
        assert policy._known == pytest.approx(policy._last)


def test_no_mechanism_accounts_for_mixed_sums() -> None:
    ring = world(DDUCB(), num_envs=1, horizon=50, topology="ring")
    with pytest.raises(ValueError, match="DDUCB exchanges mixed sums, which no mechanism on 'means' accounts for"):
        taciturn.simulate(ring, DDUCB(), seed=0, privacy={"means": Laplace(1.0)})


@pytest.mark.parametrize("policy", EVERY, ids=repr)
@pytest.mark.parametrize("size", [{"num_agents": 1}, {"qualities": (0.5,)}, {"horizon": 1}])
def test_the_smallest_worlds(policy: Any, size: dict[str, Any]) -> None:
    env = world(policy, **{"horizon": 40} | size)
    run = taciturn.simulate(env, policy, seed=0)
    assert np.isfinite(run.metrics["regret"]).all()
    assert (env.state.counts.sum(2) == env.params.horizon).all()
