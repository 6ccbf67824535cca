"""Rules of the textbook and the papers' policies on observations and memories written by hand."""

import inspect
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from taciturn.channels.replies import unbiased
from taciturn.envs import elicitation_v0, federated_bandit_v0, gossip_bandit_v0, social_bandit_v0
from taciturn.envs.core import Array
from taciturn.policies import (
    DDUCB,
    PPCL,
    CentralisedOracle,
    Deadline,
    DPSuccessiveElimination,
    Fed2UCB,
    FictitiousPlay,
    FollowMajority,
    Fraction,
    GosInE,
    GossipUCB,
    IsolatedEpsilonGreedy,
    Learner,
    PrivateSocialLearning,
    SuccessiveElimination,
    WinStay,
)
from taciturn.registry import policies

ROWS = 300
QUALITIES = (0.9, 0.6, 0.3)


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def ready(policy: Any, world: Any = social_bandit_v0, **params: Any) -> Any:
    """The policy at the start of a run of one replica with 300 agents and three options."""
    env = world.population(1, **{"num_agents": ROWS, "qualities": QUALITIES} | params)
    env.reset(seed=0)
    policy.reset(env, generator())
    return policy


def heard(policy: Any, counts: list[float], received: float, own: int) -> Array:
    """The same observation for all 300 rows of the social world; own -1: none."""
    layout = policy._layout
    fields = {name: np.zeros((1, ROWS, size)) for name, (size, *_) in layout.fields.items()}
    fields["counts"][:] = counts
    fields["received"][:] = received
    if own >= 0:
        fields["own"][..., own] = 1
    return np.asarray(layout.pack(**fields))


def options(policy: Any, obs: Array) -> set[int]:
    return set(policy.act(obs)[..., 0].ravel().tolist())


def test_the_majority_is_the_largest_share_alone() -> None:
    """6 of 11 beat 5 of 11; ties are drawn; without a positive share agents keep theirs, or none."""
    policy = ready(FollowMajority())
    assert options(policy, heard(policy, [6, 5, 0], 11, 2)) == {0}
    assert options(policy, heard(policy, [5, 5, 1], 11, 2)) == {0, 1}
    assert options(policy, heard(policy, [0, 0, 0], 11, 2)) == {2}
    assert options(policy, heard(policy, [0, 0, 0], 0, -1)) == {3}


def test_winners_stay_and_losers_need_support() -> None:
    """Plans (option, kept after a 0, kept after a 1): own option, kept after a 0 if nothing is more popular; without
    one the favourite."""
    policy = ready(WinStay())

    def plans(counts: list[float], received: int, own: int) -> set[tuple[int, ...]]:
        return set(map(tuple, policy.act(heard(policy, counts, received, own)).reshape(-1, 3).tolist()))

    assert plans([6, 5, 0], 11, 0) == {(0, 1, 1)}
    assert plans([6, 5, 0], 11, 1) == {(1, 0, 1)}
    assert plans([5, 5, 1], 11, 1) == {(1, 1, 1)}, "as popular as any"
    assert plans([6, 5, 0], 11, -1) == {(0, 0, 1)}
    assert plans([5, 5, 1], 11, -1) == {(0, 0, 1), (1, 0, 1)}
    assert plans([0, 0, 0], 0, 2) == {(2, 1, 1)}, "nobody says otherwise"


def test_unbiased_shares() -> None:
    """p = .8, q = .1: 45 of 100 bits are a share of (.45 - .1) / .7; no message, no share."""
    shares = unbiased(np.array([[45.0, 10.0], [3.0, 3.0]]), np.array([100.0, 0.0]), 0.8, 0.1)
    np.testing.assert_allclose(shares, [[0.5, 0.0], [0.0, 0.0]])


def test_ppcl_keeps_what_seems_popular_enough() -> None:
    """alpha = 1 - 1 / (2 K) = 5/6 for three options."""
    assert ready(PPCL(), gossip_bandit_v0)._threshold == pytest.approx(5 / 6)


def test_agents_alone_try_what_is_untried_first() -> None:
    greedy = IsolatedEpsilonGreedy(epsilon=0.0)
    greedy.rng = generator()
    index = greedy.index(np.array([[[0, 3, 4]]]), np.array([[[0, 3, 1]]]))
    assert index.argmax() == 0
    assert index.ravel().tolist()[1:] == [1.0, 0.25]


def test_signals_of_the_social_world_belong_to_the_option_held() -> None:
    """Agents hold option 2 while they pull another one: the reward is for option 2. Who holds none learns nothing."""
    policy = ready(IsolatedEpsilonGreedy(epsilon=0.0))
    for own, pulls in ((2, [0, 0, 1]), (-1, [0, 0, 1])):
        obs = heard(policy, [0, 0, 0], 0, own)
        policy.update(obs, policy.act(obs), np.ones((1, ROWS)), np.zeros(1, np.bool_))
        assert (policy._pulls[0] == pulls).all()
        assert (policy._signals[0] == pulls).all()


def test_signals_of_the_gossip_world_belong_to_the_agent_who_acted() -> None:
    env = gossip_bandit_v0.population(4, num_agents=9, qualities=QUALITIES)
    obs, _ = env.reset(seed=3)
    policy: Any = IsolatedEpsilonGreedy(epsilon=0.0)
    policy.reset(env, generator())
    acting = env.state.ticker[:, 0]
    assert acting.any()
    pulled = policy.act(obs)[:, 0, 0]
    policy.update(obs, None, np.array([[1.0], [0.0], [1.0], [1.0]]), np.zeros(4, np.bool_))
    expected = np.zeros((4, 9, 3), np.int32)
    expected[np.arange(4), acting, pulled] = 1
    np.testing.assert_array_equal(policy._pulls, expected)
    assert policy._signals.sum((1, 2)).tolist() == [1, 0, 1, 1]


def test_phases_of_gosine_end_on_time_and_replace_the_worse_option() -> None:
    """With growth 1 phase j ends at round (1 + j)^2; pulls count from the phase before; a recommendation replaces the
    less pulled."""
    policy = ready(GosInE(growth=1.0), num_agents=ROWS, qualities=(0.9, 0.8, 0.7, 0.6, 0.5))
    ended, exchange = [], policy.exchange
    policy.exchange = lambda obs, ends: ended.append(policy._round[0])
    obs = heard(policy, [0, 0, 0, 0, 9], 9, -1)
    for _ in range(17):
        policy.act(obs)
    assert ended == [4, 9, 16]
    # Agent 0 owns option 0 and has 1 and 2, which it has pulled 10 and 12 times, 1 and 9 of them before this phase.
    policy._pulls[0, 0, 1:3], policy._before[0, 0, 1:3] = (10, 12), (1, 9)
    assert policy._extra[0, 0].tolist() == [1, 2]
    others = np.arange(len(policy._extra)) > 0
    exchange(obs, ~others)
    assert policy._extra[0, 0].tolist() == [1, 4]
    np.testing.assert_array_equal(policy._before[0], policy._pulls[0])
    assert (policy._extra[others] == policy._two).all(), "their phase goes on"


def test_pooled_rounds_are_the_last_ones_of_this_run() -> None:
    """Of three rounds the last two count: (20 + 60) of 200. A new run remembers nothing."""
    policy = ready(PrivateSocialLearning(pool=2))
    policy._distribution = (1.0, 0.0)
    for count, share in ((90, 0.9), (20, 0.55), (60, 0.4)):
        found = policy.estimate(np.full((1, 2, 3), float(count)), np.full((1, 2), 100.0))
        np.testing.assert_allclose(found, share)
    policy = ready(policy)
    policy._distribution = (1.0, 0.0)
    np.testing.assert_allclose(policy.estimate(np.full((1, 2, 3), 10.0), np.full((1, 2), 100.0)), 0.1)


@pytest.mark.parametrize(("empty", "tried"), [("uniform", {0, 1, 2}), ("null", {3})])
def test_what_agents_try_who_know_nothing(empty: str, tried: set[int]) -> None:
    policy = ready(PrivateSocialLearning(mu=0.0, empty=empty))
    assert options(policy, heard(policy, [0, 0, 0], 0, 0)) == tried


def bandit(policy: Any, agents: int = 2, **params: Any) -> Any:
    env = federated_bandit_v0.population(2, num_agents=agents, num_arms=3, horizon=100, **params)
    env.reset(seed=0)
    policy.reset(env, generator())
    return policy


def test_elimination_begins_anew_in_a_replica_without_pulls() -> None:
    """Replica 0 was reset alone: its arms are active again; replica 1 goes on without arm 0."""
    policy = bandit(SuccessiveElimination())
    policy._active[:, :, 0] = False
    counts = np.array([np.zeros((2, 3)), [[5, 2, 4], [5, 2, 4]]])
    assert policy.choose(counts, np.full((2, 2, 3), 0.5)).tolist() == [[0, 0], [1, 1]]
    assert policy._active[0].all()
    assert not policy._active[1, :, 0].any()


def test_private_elimination_begins_anew_in_a_replica_without_pulls() -> None:
    policy = bandit(DPSuccessiveElimination())
    policy._active[:, :, 0] = False
    policy._epoch[:], policy._pulls[:], policy._started[:], policy._sums[:] = 5, 100, 7, 3
    policy.choose(np.array([np.zeros((2, 3)), np.full((2, 3), 50.0)]), np.full((2, 2, 3), 0.5))
    assert policy._epoch.tolist() == [[1, 1], [5, 5]]
    assert policy._active[0].all()
    assert policy._started[0].tolist() == policy._sums[0].tolist() == [[0, 0, 0]] * 2


def test_phases_begin_anew_at_time_0() -> None:
    policy = bandit(Fed2UCB())
    policy._active[:, 0], policy._started[:], policy._rounds[:] = False, 4, 2
    policy.schedule(np.array([0, 6]), np.array([0, 2]), np.zeros((2, 3)), np.ones(2, np.int64))
    assert policy._active.tolist() == [[True] * 3, [False, True, True]]
    assert policy._started.tolist() == [0, 4]
    assert policy._rounds.tolist() == [0, 2]


def test_the_first_stage_of_dducb_starts_from_the_agents_own_pulls() -> None:
    """After each of three arms was pulled once, nothing has been mixed yet: every agent knows its own pulls, divided by
    M."""
    env = federated_bandit_v0.population(2, num_agents=4, num_arms=3, horizon=50, topology="complete")
    obs, _ = env.reset(seed=0)
    policy: Any = DDUCB()
    policy.reset(env, generator())
    for _ in range(3):
        obs = env.step(policy.act(obs)).observation
    policy.act(obs)
    np.testing.assert_allclose(policy._known[..., :3], 1 / 4)


def test_gossip_ucb_lags_only_beyond_m_pulls() -> None:
    """M behind the largest known count is not behind; one more is. Indices by the formula: mean + sqrt(2 M ln t /
    n)."""
    policy = bandit(GossipUCB(), agents=2, topology="complete")
    counts = np.tile([4.0, 5.0, 6.0], (2, 2, 1))
    policy._estimates[...] = 0.25
    policy._time[:] = 15
    policy._most = counts + 2
    by_hand = 0.25 + np.sqrt(2 * 2 * np.log(15) / counts)
    np.testing.assert_allclose(policy.index(counts), by_hand)
    policy._most[0, 1, 2] += 1
    index = policy.index(counts)
    np.testing.assert_allclose(index[1], by_hand[1])
    np.testing.assert_allclose(index[0, 0], by_hand[0, 0])
    assert index[0, 1].argmax() == 2


def test_the_oracle_shares_out_the_arms_that_nobody_has_pulled() -> None:
    policy = bandit(CentralisedOracle(), agents=4)
    counts = np.zeros((2, 4, 3))
    counts[1, 2, 1] = 1
    assert policy.choose(counts, np.zeros((2, 4, 3))).tolist() == [[0, 1, 2, 0], [0, 2, 0, 2]]


def test_deadlines_and_fractions_at_their_edges() -> None:
    """A deadline of 3 slots waits after 0, 1 and 2; a tenth of 30 clients is 3, of 31 it is 4; 0.07 of 100 is 7."""
    waits = Deadline(3).waits(np.zeros(5, int), np.zeros(5, int), np.arange(5.0))
    assert waits.tolist() == [True, True, True, False, False]
    for fraction, clients, count in ((0.1, 30, 3), (0.1, 31, 4), (0.1, 1, 1), (0.07, 100, 7)):
        rule: Any = Fraction(fraction)
        rule.prepare(SimpleNamespace(num_clients=clients))
        assert rule._count == count


def test_fictitious_play_answers_the_mean_law_of_the_campaigns_so_far() -> None:
    """Two campaigns with laws that sum to (1.2, .8) give (.6, .4); before any, everyone is taken to play the target."""
    env = elicitation_v0.population(1, num_individuals=4, theta=(0.7, 0.3), target=1.0, horizon=5)
    env.reset(seed=0)
    policy: Any = FictitiousPlay()
    policy.reset(env, generator(), "individual")
    distributions: list[Array] = []
    expected = policy.expected

    def noted(seen: Any, distribution: Array) -> Any:
        distributions.append(distribution)
        return expected(seen, distribution)

    policy.expected = noted
    obs = env.look("individual")
    policy.act(obs)
    target, belief = policy._layout.unpack(obs)["target"][0, 0], policy._layout.unpack(obs)["belief"][0].mean(0)
    np.testing.assert_allclose(distributions[0].ravel(), env.reporting.distribution(belief[None], target)[0], rtol=1e-6)
    policy._memory = np.array([[1.2, 0.8]]), np.array([[2.0]])
    policy.act(obs)
    np.testing.assert_allclose(distributions[1].ravel(), [0.6, 0.4])


def test_no_parameter_is_one_of_those_who_bring_policies() -> None:
    """`bring(agent, trust=..., separate=...)` would keep it for itself."""
    taken = {"trust", "separate", "seed", "agent"}
    for name, policy in policies().items():
        own = set(inspect.signature(policy).parameters)
        assert not own & (taken - ({"seed"} if issubclass(policy, Learner) else set())), name
