"""Federated arm elimination: equations, the three topologies, agreement of slots and epochs, faults and invalid input.

Statistical tests are seeded. Each states its false-alarm rate, and mistakes that it must notice are made on purpose
beside it.
"""

from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pytest
from scipy import stats

import taciturn
from taciturn.envs import federated_bandit_v0
from taciturn.envs.core import Array, PublicView, picture
from taciturn.envs.federated_bandit import fast, federation
from taciturn.envs.federated_bandit import world as federated_bandit
from taciturn.envs.federated_bandit.fast import AgentKnowledge
from taciturn.envs.federated_bandit.model import average, historical_mean, identified
from taciturn.envs.federated_bandit.protocol import information_sharing
from taciturn.envs.federated_bandit.world import FederatedBandit
from taciturn.graph import Graph, random_graph
from taciturn.policies import CDPMAB, DDPMAB, HDPMAB, CommunicationEfficientCDPMAB, Random, SingleAgent
from taciturn.policies.classic.bandits import ArmPolicy
from taciturn.policies.reference.arm_elimination import (
    EpochElimination,
    confidence_radius,
    eliminate,
    participants,
    round_robin,
    samples,
    target_gap,
    whole_samples,
)
from taciturn.wrappers import (
    Budget,
    Byzantine,
    Churn,
    Faulty,
    Laplace,
    LossyChannel,
    MessageLimit,
    Privatize,
    Stragglers,
)

METRICS = {"regret", "regret_per_agent", "cost", "rounds", "active_arms", "identified", "epsilon_basic"}
FEW: dict[str, Any] = {"num_agents": 5, "num_arms": 4, "qualities": "grid", "horizon": 700}


def world(num_envs: int = 1, **params: Any) -> FederatedBandit:
    population: FederatedBandit = federated_bandit_v0.population(num_envs, **FEW | params)
    return population


def by_slots(env: FederatedBandit, policy: Any, seed: int, privacy: Any = "paper") -> taciturn.Run:
    """`simulate`, played slot by slot."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FederatedBandit, "fast_forward", lambda *_: False)
        return taciturn.simulate(env, policy, seed=seed, privacy=privacy)


def same_distribution(one: Array, other: Array) -> float:
    """The p-value of a two-sample Kolmogorov-Smirnov test (conservative for discrete values)."""
    return float(stats.ks_2samp(one, other, method="asymp").pvalue)


def begun(env: FederatedBandit, policy: Any, seed: int = 0) -> FederatedBandit:
    """Reset the world and the policy, so that `advance` can play them."""
    env.reset(seed=seed)
    policy.reset(env, env.stream("policy/agent"))
    return env


# The schedule.

# (K, N, T, epsilon, R, Delta), then for each epoch |I|, S_int, n and C, computed by hand from the formulas of Algorithm
# 1. The sampling term is the larger one in the first and third settings, the privacy term in the second.
TABLE: list[tuple[tuple[Any, ...], list[tuple[int, int, int, float]]]] = [
    (
        (100, 50, 100_000, 1.0, None, 1.0),
        [(100, 12, 12, 0.125989), (60, 49, 37, 0.063835), (25, 195, 146, 0.031778)],
    ),
    (
        (100, 10, 100_000, 0.01, None, 1.0),
        [(100, 306, 306, 0.179219), (40, 1267, 961, 0.089623), (3, 3878, 2611, 0.046004)],
    ),
    (
        (10, 5, 10_000, 0.5, 3, 0.1),
        [(10, 101, 101, 0.134477), (7, 505, 404, 0.061565), (2, 2269, 1764, 0.027657)],
    ),
]


def test_the_schedule_by_hand() -> None:
    for (arms, uploading, horizon, epsilon, rounds, gap), epochs in TABLE:
        before = np.array(0)
        for i, (active, s, n, c) in enumerate(epochs):
            r, setting = np.array(i + 1), (np.array(active), arms, uploading, horizon, epsilon)
            found = whole_samples(samples(r, target_gap(r, rounds, gap), *setting), before)
            np.testing.assert_array_equal([found, found - before], [s, n])
            np.testing.assert_allclose(confidence_radius(r, found, *setting), c, atol=6e-7)
            before = found


def test_samples_grow_though_the_formula_does_not() -> None:
    np.testing.assert_array_equal(whole_samples(np.array([3.2, 3.2, 7.0]), np.array([0, 9, 7])), [4, 10, 8])


def test_participants_are_rounded_up() -> None:
    assert [participants(p, m) for p, m in ((0.2, 50), (0.1, 30), (1.0, 7), (1e-6, 7), (0.5, 7))] == [10, 3, 7, 1, 4]


def test_elimination_takes_twice_the_radius() -> None:
    active, mean, radius = np.array([True, True, True, True, False]), np.array([0.9, 0.8, 0.7, 0.6, 1.0]), np.array(0.1)
    assert eliminate(active, mean, 2 * radius - 1e-9).tolist() == [True, True, False, False, False]
    assert eliminate(active, mean, 2 * radius + 1e-9).tolist() == [True, True, True, False, False]


def stored_below(policy: CDPMAB, radii: float) -> bool:
    """True if, after its first round, the policy keeps an arm that is `radii` times C(1) below the best."""
    env = begun(world(), policy)
    (total,) = expected_pulls(env.params, policy, [4])
    env.advance(policy, until=4 * total)
    p = env.params
    radius = confidence_radius(
        np.array(1), np.array(total), np.array(4), p.arms, p.num_agents, p.horizon, policy.epsilon
    )
    told = AgentKnowledge(env)
    env.column("broadcast")[:] = 0.9 - np.array([0.0, 0.0, radii, 0.0]) * radius
    pulls, _ = policy.plan(told, np.full((1, 5), 4))
    return bool(pulls[0, 0, 2] > 0)


def test_a_policy_drops_arms_two_radii_below_the_best() -> None:
    assert stored_below(CDPMAB(0.5), 1.99)
    assert not stored_below(CDPMAB(0.5), 2.01)


def test_arms_are_pulled_in_turn() -> None:
    active = np.array([[[True, False, True, True]]])
    order = [0, 2, 3] * 5
    for start in range(8):
        for slots in range(7):
            pulls = round_robin(active, np.array([[start]]), np.array([[slots]]))[0, 0]
            assert pulls.tolist() == np.bincount(order[start : start + slots], minlength=4).tolist()


def expected_pulls(p: federated_bandit.Params, policy: EpochElimination, active: list[int]) -> list[int]:
    """S_int after each epoch, given the numbers of arms active before each."""
    total, totals = np.array(0), []
    for i, number in enumerate(active):
        r, setting = np.array(i + 1), (np.array(number), p.arms, policy.uploaders(p), p.horizon, policy.epsilon)
        total = whole_samples(samples(r, target_gap(r), *setting), total)
        totals.append(int(total))
    return totals


class Increments(CDPMAB):
    """A mistake: S(r) pulls in epoch r instead of S(r) - S(r-1)."""

    def _begin_epoch(self, which: Array) -> None:
        super()._begin_epoch(which)
        self._pulls = np.where(which, self._total, self._pulls)


def epochs_as_planned(policy: CDPMAB) -> bool:
    """True if agents have uploaded S_int(r) pulls of each arm by round r, which ends in slot |I| S_int(r) if no arm is
    eliminated."""
    env = world(qualities=[0.5, 0.5, 0.5], num_arms=3, horizon=10_000)
    totals = expected_pulls(env.params, policy, [3, 3])
    begun(env, policy)
    rounds = []
    for slot in sorted([3 * t - 1 for t in totals] + [3 * t for t in totals]):
        env.advance(policy, until=slot)
        rounds.append(int(env.state.rounds[0]))
    return rounds == [0, 1, 1, 2] and bool((env.state.weight == totals[-1]).all())


def test_epochs_pull_the_increment() -> None:
    assert epochs_as_planned(CDPMAB(1.0))
    assert not epochs_as_planned(Increments(1.0))


# Means and noise.


def test_historical_mean() -> None:
    np.testing.assert_allclose(historical_mean(0.5, 30.0, 0.8, 10.0), 0.575)
    np.testing.assert_allclose(historical_mean(0.0, 0.0, 0.3, 4.0), 0.3)


def test_averages() -> None:
    private = np.array([[0.1, 0.2], [0.3, 0.4], [0.8, 0.6]])
    known = np.array([[True, False], [True, False], [True, True]])

    pulls = np.array([[3.0, 1.0], [1.0, 0.0], [4.0, 2.0]])

    def means(*group: int, by_pulls: bool = False) -> list[tuple[float, int]]:
        return [average(private, known, pulls, k, np.array(group), by_pulls) for k in range(2)]

    np.testing.assert_allclose(means(0, 0, 0), [(0.4, 1), (0.6, 1)])
    np.testing.assert_allclose(means(0, 0, 1), [(0.5, 2), (0.6, 1)])
    np.testing.assert_allclose(means(0, 1, 2), [(0.4, 3), (0.6, 1)])
    np.testing.assert_allclose(means(0, 0, 0, by_pulls=True), [((0.3 + 0.3 + 3.2) / 8, 1), (0.6, 1)])
    assert average(private, np.zeros((3, 2), np.bool_), pulls, 0, np.array([0, 0, 1]), False) == (0.0, 0)


def noise_in_uploads(policy: CDPMAB, privacy: Any, agents: int = 6, replicas: int = 1500) -> list[Array]:
    """The noise that uploads add to an agent's total reward, times N epsilon, in each of the first two rounds, [., K].

    As all rewards are 1, the noise is S(r) ybar(r) - S(r-1) ybar(r-1) - n(r).
    """
    env = world(replicas, qualities=[1.0, 1.0], num_arms=2, num_agents=agents, horizon=4000)
    level = policy.uploaders(env.params) * policy.epsilon
    channel_configs = policy.prescribes(env.view()) if privacy is None else privacy
    with pytest.MonkeyPatch.context() as patch:
        noise: list[Array] = []
        between = FederatedBandit.between

        def heard(self: FederatedBandit, live: Array) -> None:
            before, asks = self.state, self.column("asks") & live[:, None]
            between(self, live)
            after = self.state
            added = (
                after.private * after.weight - before.private * before.weight - (after.weight - before.weight)
            ) * level
            if len(noise) < 2:
                noise.append(added[asks & (before.missed_rounds == 0)])

        patch.setattr(FederatedBandit, "between", heard)
        taciturn.simulate(env, policy, seed=0, privacy=channel_configs)
    return noise


def laplace_of_one(noise: Array) -> float:
    """The p-value of a Kolmogorov-Smirnov test against Laplace(1)."""
    return float(stats.kstest(noise.ravel(), stats.laplace.cdf).pvalue)


@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_noise_of_an_epoch(participation: float) -> None:
    """Lap(1 / (N epsilon n)) on the mean of n rewards, drawn once. False alarm rate: 2e-6 per setting."""
    policy = CDPMAB(0.5, participation)
    for noise in noise_in_uploads(policy, None):
        assert laplace_of_one(noise) > 1e-6
        # The test detects noise that is a quarter too large.
        assert laplace_of_one(noise * 1.25) < 1e-6
    if participation < 1:
        mistaken = {"means": Laplace(epsilon=6 * policy.epsilon)}
        assert laplace_of_one(noise_in_uploads(policy, mistaken)[0]) < 1e-6


def test_noise_of_missed_epochs_is_kept() -> None:
    """After r epochs, an agent's mean contains r noise terms, whichever rounds it missed. Moments within 5 standard
    errors: about 1e-5."""
    policy = CDPMAB(0.5, participation=0.4)
    env = world(3000, qualities=[1.0, 1.0], num_arms=2, horizon=20_000)
    taciturn.simulate(env, policy, seed=3, privacy="paper")
    s, uploaded = env.state, env.state.weight[:, :, 0] > 0
    assert np.unique(s.missed_rounds[uploaded]).size > 2
    assert np.unique(s.rounds).size == 1
    in_rounds = (s.rounds[:, None] - s.missed_rounds)[uploaded]
    noise = ((s.private - 1) * s.weight * 2 * policy.epsilon)[uploaded]
    for r in np.unique(in_rounds):
        some = noise[in_rounds == r]
        # Laplace(1): variance 2, fourth moment 24; of a sum of r, variance 2 r, fourth moment 12 r + 12 r^2.
        error = np.sqrt((12 * r + 12 * r**2 - 4 * r**2) / some.size)
        assert abs((some**2).mean() - 2 * r) < 5 * error
    assert env.channels["means"].messages().max() == s.rounds.max()
    np.testing.assert_array_equal(env.channels["means"].messages(), (s.rounds[:, None] - s.missed_rounds) * uploaded)


def test_as_many_as_asked_upload_and_none_more_often() -> None:
    """N agents per round, drawn uniformly: chi-square test, false alarm rate 1e-5."""
    env = world(2000, num_agents=7)
    run = taciturn.simulate(env, CDPMAB(participation=0.3, rounds=1, gap=0.5), seed=1)
    np.testing.assert_array_equal(run.metrics["rounds"], 1)
    np.testing.assert_array_equal(run.metrics["upload"], 3)
    first = (env.channels["means"].messages() > 0).sum(0)
    expected = np.full(7, first.sum() / 7)
    assert stats.chisquare(first, expected).pvalue > 1e-5


# Agreement of slots and epochs.

SETTINGS: dict[str, tuple[dict[str, Any], Any]] = {
    "homogeneous": ({}, CDPMAB(0.5)),
    "heterogeneous": ({"qualities": "heterogeneous"}, CDPMAB(1.0)),
    "participation": ({"num_agents": 8}, CDPMAB(0.3, participation=0.4)),
    "rounds": ({}, CommunicationEfficientCDPMAB(0.6, 2, epsilon=0.4)),
    "ring": ({"topology": "ring", "qualities": "heterogeneous"}, DDPMAB(0.5)),
    "ring, few rounds": ({"topology": "ring", "delay": "diameter"}, DDPMAB(0.5, rounds=3)),
    "hybrid": ({"topology": [("ring", 3), ("star", 2)], "qualities": "heterogeneous"}, HDPMAB(0.5)),
    "alone": ({"qualities": "heterogeneous", "num_arms": 2, "horizon": 1500}, SingleAgent()),
}
COMPARED = ("regret", "local_regret", "reward", "cost", "rounds", "active_arms")


def pvalues(name: str, replicas: int = 400) -> dict[str, float]:
    """P-values of two-sample Kolmogorov-Smirnov tests of slots against epochs."""
    params, policy = SETTINGS[name]
    env = world(replicas, **params)
    privacy = None if name == "alone" else "paper"
    epochs = taciturn.simulate(env, policy, seed=1, privacy=privacy).metrics
    slots = by_slots(env, policy, seed=2, privacy=privacy).metrics
    np.testing.assert_array_equal(epochs["epsilon_basic"], slots["epsilon_basic"])
    return {key: same_distribution(epochs[key], slots[key]) for key in COMPARED}


@pytest.mark.parametrize("name", SETTINGS)
def test_slots_and_epochs_have_one_law(name: str) -> None:
    """False alarm rate: 6 tests at 1e-6 in each of 8 settings."""
    for key, p in pvalues(name).items():
        assert p > 1e-6, key


def test_recording_does_not_change_the_law() -> None:
    """An epoch played in parts cycles through the arms as in one part; tests at 1e-6."""
    env = world(600)
    parts = taciturn.simulate(env, CDPMAB(0.5), seed=1, privacy="paper", until=np.arange(7, 701, 7), record=["regret"])
    whole = taciturn.simulate(env, CDPMAB(0.5), seed=2, privacy="paper")
    assert parts.trace["regret"].shape == (100, 600)
    assert (np.diff(parts.trace["regret"], axis=0) >= -1e-9).all()
    np.testing.assert_allclose(parts.trace["regret"][-1], parts.metrics["regret"])
    for key in COMPARED:
        assert same_distribution(parts.metrics[key], whole.metrics[key]) > 1e-6
    # The first epoch cycles through arms 0, 1, 2, 3: after 7 slots they have 2, 2, 2 and 1 pulls.
    gap = env.state.gap[0]
    np.testing.assert_allclose(parts.trace["regret"][0], 5 * (gap @ [2, 2, 2, 1]))


def test_a_run_goes_no_farther_than_it_is_asked() -> None:
    env = world(3)
    run = taciturn.simulate(env, CDPMAB(0.5), seed=0, privacy="paper", until=[10.5, 333.0])
    np.testing.assert_array_equal(env.clock(), 333)
    assert env.truncated.all()
    assert run.metrics["rounds"].max() <= 2
    policy = CDPMAB(0.5)
    begun(env, policy).advance(policy, until=100)
    assert (env.clock() == 100).all()
    assert not env.done.any()
    env.advance(policy)
    assert (env.clock() == 700).all()
    assert env.done.all()


def test_a_plan_that_does_not_fit_is_refused() -> None:
    class Eager(CDPMAB):
        fast = CDPMAB.fast

        def plan(self, seen: Any, room: Array) -> tuple[Array, Array]:
            pulls, asks = super().plan(seen, room)
            return pulls + 10**6, asks

    with pytest.raises(ValueError, match="must plan 1 to 700 slots"):
        taciturn.simulate(world(), Eager(1.0), seed=0)


# Regret.


# Graphs.


def test_a_round_on_a_graph_takes_its_delay() -> None:
    """Slot by slot on a path of 5 agents: uploads, then three slots of exploitation whose rewards enter no mean."""
    graph = nx.path_graph(5)
    sharing = information_sharing(graph)
    env = world(num_arms=2, topology=graph, qualities=[1.0, 0.0], agent_link_cost=2.0)
    env.reset(seed=0)
    env.step(np.array([[0, 1, 0, 1, 0]]))
    first = env.step(np.array([[2, 2, 3, 3, 2]]))  # all upload
    assert first.info["phase"] == 1
    state = env.state
    assert (state.phase_left[0], sharing.slots) == (3, 4)
    weight = state.weight.copy()
    np.testing.assert_array_equal(weight[0], [[2, 0], [1, 1], [1, 1], [0, 2], [2, 0]])
    paid = -(first.reward - np.array([[1, 1, 0, 0, 1]]))[0]
    np.testing.assert_allclose(paid, 2.0 * np.sum([*sharing.sent.values()], 0)[0])
    for slot in (1, 2, 3):
        mask: Any = env.action_mask("agent")
        assert (mask[0, :, 2:] == 0).all()
        layout = env.roles["agent"].layout
        held = layout.unpack(env.observe())["coverage"][0]
        np.testing.assert_allclose(held, (sharing.arrival <= slot).sum(1) / 5)
        step = env.step(np.array([[3, 3, 3, 3, 3]]))  # a masked upload is none
        np.testing.assert_allclose(-step.reward[0], 2.0 * np.sum([*sharing.sent.values()], 0)[slot])
    assert step.info["rounds"] == 1
    assert step.info["phase"] == 0
    np.testing.assert_allclose(env.state.broadcast[0], [1.0, 0.0])
    np.testing.assert_array_equal(env.state.weight, weight)
    # Rewards received during the round enter no later mean either.
    env.step(np.full((1, 5), 2))
    assert (env.state.weight - weight).tolist() == [[[1.0, 0.0]] * 5]
    counted = {kind: step.info[kind][0] for kind in ("adv", "req", "data")}
    assert counted == sharing.counts
    assert step.info["cost"] == 2 * sum(counted.values()) == 2 * step.info["transmissions"]


def test_round_traffic_does_not_depend_on_the_horizon() -> None:
    env = world(topology="ring")
    traffic = env.traffic
    env.reset(seed=0, options={"horizon": 50})
    assert (env.traffic is traffic, env.params.horizon) == (True, 50)


def weights_after_rounds(env: FederatedBandit) -> Array:
    """Uploaded pulls of each arm in excess of the schedule, after two rounds without elimination."""
    totals = expected_pulls(env.params, DDPMAB(1.0), [2, 2])
    policy = DDPMAB(1.0)
    begun(env, policy).advance(policy, until=2 * totals[1] + 2 * env.traffic.delay)
    assert env.state.rounds[0] == 2
    return np.asarray(env.state.weight - totals[1])


def test_samples_of_exploitation_enter_no_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    env = world(topology="ring", num_agents=12, qualities=[0.5, 0.5], num_arms=2, horizon=5000)
    assert not weights_after_rounds(env).any()

    def kept(state: Any, arrays: Any, params: Any, rng: Any) -> None:
        used = arrays.used_counts.copy(), arrays.used_sums.copy()
        federation.pull_plan(state, arrays, params, rng)
        arrays.used_counts[:], arrays.used_sums[:] = used

    monkeypatch.setattr(fast, "pull_plan", kept)
    monkeypatch.setattr(FederatedBandit, "compile", False)
    assert weights_after_rounds(env).any()


@pytest.mark.parametrize("kind", ["erdos_renyi", "watts_strogatz", "barabasi_albert", "ring", "star", "complete"])
def test_messages_on_random_graphs(kind: str) -> None:
    graph = random_graph(kind, 14, seed=3)
    sharing = information_sharing(graph)
    env = world(2, num_agents=14, topology=graph, horizon=1000)
    run = taciturn.simulate(env, DDPMAB(0.5), seed=0, privacy="paper")
    assert sharing.arrival.max() == sharing.slots
    assert env.traffic.delay == max(graph.distances().max() - 1, 0)
    rounds = run.metrics["rounds"]
    assert rounds.min() >= 1
    for kind_of, count in sharing.counts.items():
        np.testing.assert_array_equal(run.metrics[kind_of], count * rounds)
    np.testing.assert_array_equal(run.metrics["cost_bound"], sharing.slots * graph.num_edges * rounds)
    np.testing.assert_array_equal(run.metrics["cost"], run.metrics["transmissions"])
    np.testing.assert_array_equal(run.metrics["broadcast"], 0)


@pytest.mark.parametrize("delay", ["diameter-1", "diameter"])
def test_rewards_pay_for_what_is_sent(delay: str) -> None:
    """Summed over agents and slots, rewards equal the arms' rewards minus the reported cost, in every topology."""
    for params, policy in (
        ({}, CDPMAB(0.5, 0.5)),
        ({"topology": "ring"}, DDPMAB(0.5)),
        ({"topology": [("star", 3), ("complete", 1), ("ring", 1)]}, HDPMAB(0.5)),
    ):
        env = world(3, delay=delay, server_link_cost=7.0, agent_link_cost=0.25, **params)
        begun(env, policy)
        earned = np.zeros(3)
        while not env.done.all():
            earned += env.step(policy.act(env.observe(), env.action_mask("agent"))).reward.sum(1)
        metrics = env.metrics()
        assert metrics["cost"].min() > 0
        np.testing.assert_allclose(earned, metrics["reward"] - metrics["cost"])


def test_on_a_graph_agents_exploit_their_own_best_arm_while_they_wait() -> None:
    quality = np.tile([0.0, 0.0], (6, 1))
    quality[np.arange(6), np.arange(6) % 2] = 1.0
    env = world(topology="ring", num_agents=6, qualities=quality, num_arms=2)
    policy = DDPMAB(1.0)
    begun(env, policy)
    while not (env.state.phase_left > 0).any():
        env.step(policy.act(env.observe()))
    for _ in range(env.traffic.delay):
        np.testing.assert_array_equal(policy.act(env.observe())[0], np.arange(6) % 2)
        env.step(policy.act(env.observe()))


# Hybrids.


def test_sinks_minimise_eccentricity_and_pay_the_server() -> None:
    path, star = nx.path_graph(5), nx.star_graph(3)
    env = world(topology=[path, star, ("complete", 1)], num_agents=10, horizon=3000, server_link_cost=50.0)
    assert env.traffic.sinks.tolist() == [2, 5, 9]
    assert env.traffic.delay == 1
    run = taciturn.simulate(env, HDPMAB(0.5), seed=0, privacy="paper")
    rounds = run.metrics["rounds"]
    np.testing.assert_array_equal(run.metrics["sac"], (2 * (1 + 2) + 3) * rounds)
    np.testing.assert_array_equal(run.metrics["upload"], 3 * rounds)
    np.testing.assert_array_equal(run.metrics["broadcast"], 10 * rounds)
    np.testing.assert_array_equal(run.metrics["cost"], (9 + 150) * rounds)
    np.testing.assert_array_equal(run.metrics["cost_bound"], (2 * 4 + 1 * 3 + 150) * rounds)


def test_unweighted_components_can_choose_a_wrong_arm() -> None:
    """Arm 0 is better for nine agents, arm 1 much better for one: arm 0 has the higher mean over agents, arm 1 that
    over components."""
    quality = np.tile([0.6, 0.4], (10, 1))
    quality[9] = [0.0, 1.0]
    found = {}
    for weighting in ("agents", "components"):
        env = world(
            20,
            topology=[("complete", 9), ("ring", 1)],
            num_agents=10,
            qualities=quality,
            num_arms=2,
            weighting=weighting,
            horizon=20_000,
        )
        found[weighting] = taciturn.simulate(env, HDPMAB(1.0), seed=0, privacy="paper").metrics
    assert found["agents"]["identified"].all()
    assert not found["components"]["identified"].any()
    np.testing.assert_array_equal(found["components"]["active_arms"], 1)


def test_a_component_an_agent_is_the_server() -> None:
    """Case 6 of Table II: as many components as agents."""
    alone = world(4, topology=[("ring", 1)] * 5)
    server = world(4)
    assert alone.traffic.delay == 0
    one = taciturn.simulate(alone, HDPMAB(0.5), seed=0, privacy="paper").metrics
    other = taciturn.simulate(server, CDPMAB(0.5), seed=0, privacy="paper").metrics
    for key in METRICS:
        np.testing.assert_array_equal(one[key], other[key])


# Privacy and faults.


@pytest.mark.parametrize("participation", [1.0, 0.4])
def test_a_message_is_as_private_as_all_uploaders_together(participation: float) -> None:
    env = world(3, horizon=5000)
    run = taciturn.simulate(env, CDPMAB(0.25, participation), seed=0, privacy="paper")
    level = participants(participation, 5) * 0.25
    assert run.accountant.per_message["means"].epsilon == level
    np.testing.assert_allclose(run.metrics["epsilon_basic"], level)
    assert run.accountant.epsilon(by="max", method="basic").min() > level
    assert np.isinf(taciturn.simulate(env, CDPMAB(0.25), seed=0).metrics["epsilon_basic"]).all()
    np.testing.assert_array_equal(taciturn.simulate(env, SingleAgent(), seed=0).metrics["epsilon_basic"], 0)


def test_the_channel_says_what_it_carries() -> None:
    channel = world().channels["means"]
    assert (channel.observer, channel.unit, channel.disjoint) == ("server", "event", True)
    assert world(topology="ring").channels["means"].observer == "public"


class InformsNeighbours(ArmPolicy):
    """Sends its sums of rewards to its neighbours in every slot, times a number that no sensitivity can bound."""

    public_schedule = True

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        self._tell = view.neighbour_exchange

    def choose(self, counts: Array, means: Array) -> Array:
        self._tell(1000 * counts * means, np.ones(len(counts), np.bool_))
        return counts.argmin(-1)


def test_what_policies_send_to_neighbours_has_no_total() -> None:
    """Nothing bounds it. On `means` it would pass for means of rewards, each in one message."""
    env = world(2, topology="ring", horizon=20)
    run = taciturn.simulate(env, InformsNeighbours(), seed=0, privacy={"means": Laplace(1.0)})
    assert run.accountant is not None
    for unit in ("event", "user"):
        assert np.isinf(run.accountant.epsilon(unit=unit, method="basic")).all()
    assert np.isinf(run.metrics["epsilon_basic"]).all()
    with pytest.raises(ValueError, match="mechanism on channel 'exchange' must be NoPrivacy"):
        Privatize(env, "exchange", Laplace(1.0))


def test_a_channel_that_nobody_uses_costs_nothing() -> None:
    run = taciturn.simulate(world(2, topology="ring"), DDPMAB(0.5), seed=0, privacy="paper")
    assert run.accountant is not None
    assert run.metrics["epsilon_message"].max() == run.accountant.table()[-1]["epsilon_per_message"] == 2.5


@pytest.mark.parametrize("topology", ["server", "ring"])
def test_lost_messages_are_left_out(topology: Any) -> None:
    policy: Any = CDPMAB(0.5) if topology == "server" else DDPMAB(0.5)
    env = Faulty(world(200, topology=topology), channel="means", fault=LossyChannel(0.5))
    run = taciturn.simulate(env, policy, seed=0, privacy="paper")
    whole = expected_pulls(env.params, policy, [4])[0]
    known = env.state.weight.max(-1)
    assert ((known == 0) | (known >= whole)).all()
    assert (known == 0).any()
    assert (known > 0).any()
    assert run.metrics["rounds"].min() > 0
    nothing = Faulty(world(3, topology=topology), channel="means", fault=LossyChannel(1.0))
    silent = taciturn.simulate(nothing, policy, seed=0, privacy="paper")
    np.testing.assert_array_equal(silent.metrics["identified"], 0)


def test_a_budget_stops_uploads_or_the_run() -> None:
    def spent(when: Any) -> Any:
        env = Privatize(
            world(2, horizon=5000), "means", Laplace(epsilon=1.0), budget=Budget(1.5, delta=0.0, when_spent=when)
        )
        return taciturn.simulate(env, CDPMAB(0.2), seed=0), env

    run, env = spent("silent")
    assert run.accountant.messages("means").max() == 1
    assert (run.metrics["rounds"] > 1).all()
    run, env = spent("truncate")
    assert run.accountant.messages("means").max() == 1
    assert (env.clock() < 5000).all()
    assert env.truncated.all()


# Edge cases.


def test_one_arm_is_played_and_nothing_said() -> None:
    for run in (
        taciturn.simulate(world(2, num_arms=1), CDPMAB(1.0), seed=0, privacy="paper"),
        by_slots(world(2, num_arms=1), CDPMAB(1.0), seed=0),
        taciturn.simulate(world(2, num_arms=1, topology="ring"), DDPMAB(1.0), seed=0),
        taciturn.simulate(world(2, num_arms=1), Random(), seed=0),
    ):
        np.testing.assert_array_equal(run.metrics["regret"], 0)
        np.testing.assert_array_equal(run.metrics["identified"], 1)
        np.testing.assert_array_equal(run.metrics["active_arms"], 1)


@pytest.mark.parametrize(
    ("topology", "policy"), [("server", CDPMAB(1.0)), ("ring", DDPMAB(1.0)), ([("star", 1)], HDPMAB(1.0))]
)
def test_one_agent(topology: Any, policy: Any) -> None:
    env = world(5, num_agents=1, topology=topology, num_arms=2, qualities=[0.1, 0.9], horizon=3000)
    run = taciturn.simulate(env, policy, seed=0, privacy="paper")
    assert run.metrics["identified"].all()
    assert env.traffic.delay == 0
    assert run.metrics["cost"].max() == (0 if topology == "ring" else 25 * run.metrics["rounds"].max())


def test_no_epoch_fits() -> None:
    """Agents cycle through the arms to the end and upload nothing."""
    env = world(3, horizon=10)
    for run in (taciturn.simulate(env, CDPMAB(1.0), seed=0, privacy="paper"), by_slots(env, CDPMAB(1.0), seed=0)):
        np.testing.assert_array_equal(env.state.counts, np.broadcast_to([3, 3, 2, 2], (3, 5, 4)))
        np.testing.assert_array_equal(run.metrics["rounds"], 0)
        np.testing.assert_array_equal(run.metrics["active_arms"], 4)
        np.testing.assert_array_equal(run.metrics["epsilon_basic"], 0)


def test_an_epoch_runs_only_if_its_round_fits_too() -> None:
    for delay, rounds in (("diameter-1", 1), ("diameter", 0)):
        horizon = next(
            t
            for t in range(100, 999)
            if 4 * expected_pulls(world(horizon=t, topology="ring").params, DDPMAB(100.0), [4])[0] + 1 == t
        )
        env = world(topology="ring", horizon=horizon, delay=delay)
        assert taciturn.simulate(env, DDPMAB(100.0), seed=0).metrics["rounds"] == rounds


def test_tied_best_arms_both_stay() -> None:
    env = world(50, qualities=[0.8, 0.1, 0.8, 0.2], horizon=20_000)
    run = taciturn.simulate(env, CDPMAB(1.0), seed=0, privacy="paper")
    np.testing.assert_array_equal(run.metrics["active_arms"], 2)
    np.testing.assert_array_equal(env.state.active[:, [0, 2]], True)
    assert run.metrics["identified"].all()
    limited = taciturn.simulate(env, CDPMAB(1.0, rounds=2), seed=0, privacy="paper")
    np.testing.assert_array_equal(limited.metrics["rounds"], 2)
    assert limited.metrics["identified"].all()
    same = world(5, qualities=[0.5] * 4)
    np.testing.assert_array_equal(taciturn.simulate(same, CDPMAB(1.0, rounds=2), seed=0).metrics["regret"], 0)


def test_components_may_be_alike() -> None:
    graph = nx.path_graph(["a", "b"])
    env = world(topology=[graph, graph, Graph.of("ring", 1)])
    assert [g.num_nodes for g in env.params.components] == [2, 2, 1]
    assert env.traffic.group.tolist() == [0, 0, 1, 1, 2]


def test_a_policy_begins_anew_where_its_replica_does() -> None:
    env, policy = world(4), CDPMAB(0.5, rounds=2)
    begun(env, policy)
    for _ in range(300):
        env.step(policy.act(env.observe(), env.action_mask("agent")))
    assert (env.state.rounds > 0).all()
    env.reset(where=np.array([False, True, False, True]))
    assert (env.clock() == [300, 0, 300, 0]).all()
    while not env.done.all():
        env.step(policy.act(env.observe(), env.action_mask("agent")))
    assert (env.state.rounds >= 1).all()
    first = expected_pulls(env.params, policy, [4])[0]
    np.testing.assert_array_equal(env.state.weight.max(-1) >= first, True)
    np.testing.assert_array_equal(env.state.round_time >= 4 * first, True)


@pytest.mark.parametrize(
    "fault", [Stragglers([0.5, 0.3]), Churn(0.2, 0.5), MessageLimit(3), Byzantine(0.2, "flip")], ids=repr
)
def test_runs_go_on_whatever_goes_wrong(fault: Any) -> None:
    for topology, policy in (
        ("server", CDPMAB(0.5, 0.6)),
        ("ring", DDPMAB(0.5)),
        ([("ring", 3), ("star", 2)], HDPMAB(0.5)),
    ):
        env = Faulty(world(20, topology=topology, horizon=3000), "means", fault)
        run = taciturn.simulate(env, policy, seed=0, privacy="paper")
        np.testing.assert_array_equal(env.clock(), 3000)
        np.testing.assert_allclose(run.metrics["epsilon_basic"], policy.uploaders(env.params) * 0.5)
        assert run.metrics["rounds"].min() >= 1


class Recorded(DDPMAB):
    """Records the means by which it eliminates."""

    def _learn(self, finished: Array, mean: Array) -> None:
        self.seen = mean
        super()._learn(finished, mean)


def test_what_a_graph_aggregates() -> None:
    """The mean over agents of ybar (the proof of Theorem 3)."""
    env = world(20, topology="ring", qualities=[0.4, 0.5], num_arms=2, horizon=4000)
    policy = Recorded(0.5)
    begun(env, policy)
    pulled, earned = np.zeros((20, 5, 2)), np.zeros((20, 5, 2))
    compared = 0
    while compared < 3:
        before = env.state
        action = policy.act(env.observe(), env.action_mask("agent"))
        if hasattr(policy, "seen"):
            np.testing.assert_allclose(policy.seen[:, 0], (earned / pulled).mean(1), atol=1e-5)
            del policy.seen
            compared += 1
        env.step(action)
        s = env.state
        if (s.phase_left > before.phase_left).all():  # all have just uploaded
            pulled += s.used_counts - before.used_counts
            earned += s.used_sums - before.used_sums


# Claims of the paper.


def test_communication_pays() -> None:
    """Section VII-A3: each of M agents that communicate has about 1/M of the regret of a single agent; Random has far
    more."""
    env = world(40, num_agents=5, num_arms=10, qualities="grid", horizon=100_000)
    together = taciturn.simulate(env, CDPMAB(1.0), seed=0, privacy="paper").metrics["regret_per_agent"]
    alone = taciturn.simulate(env, SingleAgent(), seed=0).metrics["regret_per_agent"]
    nobody = env.state.gap.mean() * 100_000
    assert alone.max() < 0.3 * nobody
    assert 0.15 < together.mean() / alone.mean() < 0.35


def test_alone_agents_follow_their_own_best_arm() -> None:
    """Section VII-A3: with heterogeneous rewards, regret keeps growing without communication, and stops growing with
    it."""
    quality = np.array([[0.9, 0.2, 0.6], [0.1, 0.9, 0.6], [0.3, 0.2, 0.9]])
    env = world(10, num_agents=3, num_arms=3, qualities=quality, horizon=60_000)
    times = [30_000.0, 60_000.0]
    growth = {}
    for policy in (CDPMAB(1.0), SingleAgent()):
        trace = taciturn.simulate(env, policy, seed=0, until=times, record=["regret"]).trace["regret"]
        growth[type(policy).__name__] = np.diff(trace, axis=0)
    np.testing.assert_array_equal(growth["CDPMAB"], 0)
    assert growth["SingleAgent"].min() > 1000


def test_pictures() -> None:
    env = world(num_arms=12, horizon=3000)
    policy, frames = CDPMAB(1.0), []
    begun(env, policy)
    for until in (1, 200, 1500, 3000):
        env.advance(policy, until=until)
        frames.append(picture(env))
    assert len({frame.tobytes() for frame in frames}) == 4
    assert "regret" in env.describe()
    assert "rounds" in env.describe()


def test_at_user_level_a_message_costs_what_all_its_rewards_do() -> None:
    env = federated_bandit_v0.population(num_agents=4, num_arms=3, qualities=[0.9, 0.7, 0.1], horizon=20_000)
    run = taciturn.simulate(env, CDPMAB(epsilon=0.5), privacy="paper", seed=0)
    one, told = 4 * 0.5, env.state.used_counts.sum(2)
    assert run.metrics["rounds"] > 1
    assert (told > 100).all()
    np.testing.assert_allclose(run.accountant.epsilon(method="basic", unit="user"), one * told)
    np.testing.assert_allclose(run.accountant.epsilon(method="basic", unit="event"), one)


def test_messages_of_one_slot_are_charged_for_the_longest() -> None:
    """Agents that upload after 4 slots, and others, of another replica, after 3 and again after 1."""
    env = Privatize(world(2), "means", Laplace(epsilon=0.5))
    env.reset(seed=0, options={"public_schedule": True})
    for uploading in ([False, False], [False, False], [False, True], [True, True]):
        env.step(np.repeat(4 * np.array(uploading)[:, None], 5, 1))
    total = env.accountant.epsilon(method="basic", unit="user")
    np.testing.assert_allclose(total, 0.5 * np.repeat([[4], [3 + 4]], 5, 1))


@pytest.mark.parametrize(
    ("pulls", "last_round", "expected"),
    [
        ([1, 0], [3, 3], 1),
        ([0, 1], [3, 2], 0),
        ([9, 1], [2, 3], 1),
        ([8, 1], [3, 2], 0),
        ([0, 0], [3, 2], 1),
        ([0, 0], [3, 3], 0),
        ([0, 0], [2, 3], 0),
    ],
)
def test_identified_by_hand(pulls: list[int], last_round: list[int], expected: int) -> None:
    """Arm 0 is the best: nine tenths of the pulls since the last round, however few; of what round 3 renewed without
    any."""
    state: Any = SimpleNamespace(
        gap=np.array([[0.0, 0.2]]),
        pulled=np.array([pulls]) + 7,
        counts_at_round=np.array([[7, 7]]),
        last_round=np.array([last_round]),
        rounds=np.array([3]),
    )
    assert identified(state).tolist() == [bool(expected)]
