"""Numbers that are known without the code: by hand, by symmetry, or by the law of what was played.

Random checks have fixed seeds and a false-alarm rate of at most 1e-5 each.
"""

from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import worlds as tiny
from cases import CASES
from scipy import stats

import taciturn
from taciturn.bench import play, statistics
from taciturn.bench.results import Cell
from taciturn.envs import arm_elimination_v0, elicitation_v0, federated_bandit_v0, gossip_bandit_v0
from taciturn.envs.core import Array, Channel, Layout, World
from taciturn.envs.core.graph import Graph
from taciturn.envs.core.population import Rollout, begin
from taciturn.envs.core.preferences import PopularityHistory
from taciturn.envs.federated_bandit.model import own_copy
from taciturn.envs.gossip_bandit.ticks import option_to_pull
from taciturn.envs.social_bandit import dissemination
from taciturn.policies import PPCL, FollowMajority, IsolatedUCB, Random
from taciturn.registry import platform_side
from taciturn.wrappers import BitwiseRandomizedResponse, Budget, Ledger

ALARM = 1e-5


def even(counts: Any) -> bool:
    return bool(stats.chisquare(counts).pvalue > ALARM)


# Observations and views.


def test_many_rows_are_packed_as_few() -> None:
    layout, rng = Layout(wide=(2, 0.0, 1.0), narrow=(1, -3.0, 3.0), common=(2, -1.0, 0.0)), np.random.default_rng(0)
    shapes = {"wide": (3, 2000, 2), "narrow": (3, 2000), "common": (3, 1, 2)}
    values = {name: rng.normal(0, 4, shape) for name, shape in shapes.items()}
    few = {name: value[:, :40] for name, value in values.items()}
    limits = {"wide": (0, 1), "narrow": (-3, 3), "common": (-1, 0)}
    for rows, given in ((2000, values), (40, few)):
        packed = layout.unpack(layout.pack(**given))
        for name, (low, high) in limits.items():
            shape = (3, rows, *shapes[name][2:])
            np.testing.assert_array_equal(
                packed[name], np.broadcast_to(given[name].clip(low, high), shape).astype("f4")
            )


def test_an_agent_is_paid_once_for_what_it_earned_since_it_acted() -> None:
    env = CASES["gossip"].env()
    env.reset(seed=0)
    owed = dict.fromkeys(env.agents, 0.0)
    for _ in range(40):
        agent = env.agent_selection
        assert env.last()[1] == pytest.approx(owed[agent])
        owed[agent] = 0.0
        env.step(1)
        owed = {name: owed[name] + env.rewards[name] for name in owed}


def test_last_observations_are_those_of_the_replicas_that_ended() -> None:
    vector, array = CASES["corridor"].vector_env(num_envs=6, autoreset_mode="SameStep"), CASES["corridor"].population(6)
    vector.reset(seed=2)
    array.reset(seed=2)
    apart = 0
    for _ in range(40):
        _, _, terminated, truncated, info = vector.step(np.full(6, 2))
        ended = terminated | truncated
        step = array.step(np.full((6, 1), 2))
        for replica in np.flatnonzero(ended):
            np.testing.assert_array_equal(info["final_obs"][replica], step.observation[replica, 0])
            apart += len(np.unique(step.observation[ended, 0], axis=0)) > 1 or not ended.all()
        if ended.any():
            array.reset(where=ended)
    assert apart > 3


def test_rewards_of_all_turns_of_a_cycle_are_learned() -> None:
    class Paid(tiny.Auction):
        def transition(self, state: Any, actions: dict[str, Array]) -> tiny.Transition:
            new, reward, *rest = super().transition(state, actions)
            return new, reward | {"platform": np.full((self.num_envs, 1), 1.0 if "platform" in actions else 4.0)}, *rest

    class Heard(Random):
        def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
            heard.append(reward.tolist())

    heard: list[Any] = []
    env = World(Paid, tiny.Params).population(2)
    policies = {"platform": Heard(), "individual": Random()}
    env.reset(seed=0)
    begin(env, policies)
    rollout = Rollout(env, policies)
    for _ in range(6):
        rollout.play()
    assert heard == [[[5.0], [5.0]]] * 3


# The gossip bandit.


@pytest.mark.parametrize("fast", [True, False])
def test_where_nobody_prefers_anything_all_estimates_are_zero(fast: bool) -> None:
    world = gossip_bandit_v0.population(4, num_agents=5, initial_preferences="none", horizon=3.0)
    run = taciturn.simulate(world, PPCL(), seed=1, fast=fast)
    assert run.metrics["ticks"].min() > 3
    np.testing.assert_array_equal(run.metrics["all_zero"], run.metrics["ticks"])


def test_who_explores_draws_all_options_alike_and_otherwise_in_proportion() -> None:
    """Explores with probability 0.4, here over a grid of uniform numbers."""
    uniform = (np.arange(60_000) + 0.5) / 60_000
    weights = np.broadcast_to([1.0, 1.0, 2.0], (60_000, 3))
    option = option_to_pull(weights, np.full(60_000, -1), uniform, explore=0.4)
    shares = np.bincount(option, minlength=3) / 60_000
    np.testing.assert_allclose(shares, 0.4 / 3 + 0.6 * np.array([0.25, 0.25, 0.5]), atol=1e-4)


def test_a_history_keeps_every_second_record_and_shows_the_last_run() -> None:
    history = PopularityHistory(limit=6)
    for step in range(20):
        history.record(np.array([float(step)]), lambda: np.array([[step / 20, 1 - step / 20]]))  # noqa: B023 - called at once
    times, shares = history.run(0, np.array([20.0]), np.array([[1.0, 0.0]]))
    assert times.tolist() == [0.0, 4.0, 8.0, 12.0, 16.0, 20.0]
    np.testing.assert_allclose(shares[:, 0], times / 20)
    again = PopularityHistory()
    for time in (0.0, 3.0, 0.0, 5.0, 0.0, 7.0):
        again.record(np.array([time]), lambda: np.array([[time]]))  # noqa: B023 - called at once
    assert again.run(0, np.array([9.0]), np.array([[9.0]]))[0].tolist() == [0.0, 7.0, 9.0]


# Copies and their queues.


@pytest.mark.parametrize("slots", [1, 2, 3, 9])
def test_an_agent_forwards_as_many_copies_a_slot_as_it_may(slots: int) -> None:
    """Five copies begin with one agent, which may forward one a slot; one step ends a walk."""
    graph, rng = Graph.of("complete", 4), np.random.default_rng(0)
    spread = dissemination.spread_queued(np.eye(5, dtype=bool), np.zeros(5, np.int64), 1, graph, 1, slots, rng)
    assert spread.received.sum() == min(slots, 5)
    assert spread.slots == min(slots, 5)


def test_fresh_noise_of_ones_and_of_zeros_has_its_own_variance() -> None:
    """An agent receives a Poisson number of mean 1000; bits that are 1 with probability p leave a Poisson number of mean 1000 p. Variances
    within 5 standard errors."""
    agents, law = 20_000, (0.5, 0.05)
    _, *counts = dissemination.spread_gaussian_fresh(np.array([1000, 0]), agents, agents, law, np.random.default_rng(0))
    for drawn, chance in zip(counts, law, strict=True):
        assert drawn.mean() == pytest.approx(1000 * chance, rel=0.01)
        assert drawn.var() == pytest.approx(1000 * chance, rel=0.05)


# Rewards and messages of the federated bandits.


def test_a_coordinator_loses_what_the_pulls_of_this_epoch_did_not_earn() -> None:
    world = arm_elimination_v0.population(
        4, num_agents=3, num_arms=2, qualities=[0.7, 0.4], horizon=500, server_link_cost=0.0
    )
    world.reset(seed=0)
    for _ in range(3):
        before = world.state
        step = world.step(np.tile(arm_elimination_v0.action(0.5, 1.0, 1.0), (4, 1, 1)))
        pulls, earned = (world.state.counts - before.counts).sum((1, 2)), (world.state.sums - before.sums).sum((1, 2))
        np.testing.assert_allclose(step.reward[:, 0], -(pulls - earned) / (3 * 500), rtol=1e-12)


def test_the_messages_of_a_round_are_charged_for_the_longest() -> None:
    """Two agents upload 10 and 4 rewards."""
    world = federated_bandit_v0.population(1, num_agents=2, num_arms=1, horizon=100)
    world.reset(seed=0)
    state = own_copy(world.state)
    state.counts[:] = [[[10], [4]]]
    with pytest.MonkeyPatch.context() as patch:
        channel = world.channels["means"]
        sent = Mock(wraps=channel.send)
        patch.setattr(channel, "send", sent)
        world.upload(state, np.ones((1, 2), np.bool_))
    assert sent.call_args.kwargs["events"] == 10


def test_a_share_of_agents_is_rounded_up() -> None:
    world = arm_elimination_v0.population(2, num_agents=5, num_arms=2, qualities=[0.7, 0.4], horizon=100)
    world.reset(seed=0)
    world.step(np.tile(arm_elimination_v0.action(0.5, 1.0, 0.5), (2, 1, 1)))
    assert world.state.uploads.tolist() == [3, 3]


# Payments.


def test_who_stays_away_is_not_counted_among_the_paid() -> None:
    world = elicitation_v0.population(2, num_individuals=10)
    world.reset(seed=0)
    world.step({"platform": world.announce("flat_rate", 1.0, 0.25)})
    budgets = np.where(np.arange(10) < 4, 1.0, -1.0)
    world.step({"individual": np.broadcast_to(budgets[:, None], (2, 10, 1)).astype("f4")})
    assert world.metrics()["payment"].tolist() == [0.25, 0.25]
    assert world.metrics()["total_payment"].tolist() == [1.0, 1.0]


def test_the_serum_divides_by_the_reports_of_all_campaigns() -> None:
    world = elicitation_v0.population(3, num_individuals=10)
    world.reset(seed=0)
    counts = np.ones((3, 4))
    for _ in range(3):
        world.step({"platform": world.announce("peer_truth_serum", 1.0, 0.25)})
        np.testing.assert_allclose(world.reference(world.state), counts / counts.sum(1, keepdims=True))
        world.step({"individual": np.ones((3, 10, 1), np.float32)})
        counts += world.state.counts


# Ties.


@pytest.mark.parametrize("policy", [FollowMajority(), IsolatedUCB()])
def test_tied_options_are_followed_alike(policy: Any) -> None:
    """Four options with ten supporters each, and no experience."""
    world = gossip_bandit_v0.population(2000, num_agents=40, qualities=(0.5,) * 4)
    world.reset(seed=0)
    policy.reset(world, world.stream("policy/agent"))
    assert even(np.bincount(policy.act(world.observe())[:, 0, 0], minlength=4))


def test_a_random_policy_takes_open_actions_alike() -> None:
    world = CASES["corridor"].population(3)
    policy = Random()
    policy.reset(world, np.random.default_rng(0))
    drawn = policy.act(np.empty((3000, 1, 0)), np.tile([[[0, 1, 1]]], (3000, 1, 1)))
    counts = np.bincount(drawn.ravel(), minlength=3)
    assert counts[0] == 0
    assert even(counts[1:])


# Totals, statistics, curves.


def test_a_quantile_of_totals_is_one_that_an_agent_spent() -> None:
    law = BitwiseRandomizedResponse(0.5)
    ledger = Ledger(1, 4, [Channel("vote", "one_hot", observer="server", unit="event")])
    ledger.charge("vote", law.loss(), each=np.array([[1, 2, 3, 4]]))
    found = [float(ledger.total(0.0, by, "basic")[0]) for by in (0.0, 0.5, "mean", "max")]
    assert found == pytest.approx([0.5, 1.5, 1.25, 2.0])


def test_a_budget_admits_by_what_was_spent_on_its_channel() -> None:
    law, everybody = BitwiseRandomizedResponse(0.5), np.ones((1, 2), np.bool_)
    channels = [Channel(name, "one_hot", observer="server", unit="event") for name in ("vote", "mean")]
    ledger = Ledger(1, 2, channels)
    ledger.charge("vote", law.loss(), each=np.array([[2, 1]]))
    for messages in ([[True, True]], [[True, True]], [[False, False]]):
        admitted, _ = Budget(1.0).admit(ledger, law.loss(), everybody, "mean")
        assert admitted.tolist() == messages
        ledger.charge("mean", law.loss(), each=admitted.astype(np.int64))
    assert Budget(1.0).admit(ledger, law.loss(), everybody, "vote")[0].tolist() == [[False, True]]


def test_a_mixture_has_the_shares_that_are_given() -> None:
    side: Any = platform_side(1, individuals={"FreeRider": 1.0, "Truthful": 3.0}, num_individuals=8)
    side.reset(seed=0)
    side.step(np.full((1, 1, *side.roles["platform"].action_space.shape), 0.5, np.float32))
    budget = side.inner.state.budget[0]
    assert (budget == 0).sum() == 2
    assert (budget > 0).sum() == 6


def test_interquartile_means_are_of_all_tasks_pooled() -> None:
    """The middle half of 0, 0, 0, 1, 2, 3, 8, 100, not the means 0 and 2.5 of the tasks."""
    assert statistics.iqm([[0, 1], [0, 2], [0, 3], [8, 100]]).value == pytest.approx(1.5)


def test_curves_are_means_over_replicas() -> None:
    config = play.config("gossip_bandit_v0", "PPCL", num_agents=10, horizon=6.0)
    found = play.play(Cell("study", config, 3), replicas=4, record=["best"], until=6.0, points=3)
    run = taciturn.simulate(
        gossip_bandit_v0.population(4, num_agents=10, horizon=6.0),
        PPCL(),
        seed=3,
        until=[2.0, 4.0, 6.0],
        record=["best"],
    )
    assert np.ptp(run.trace["best"], axis=1).max() > 0
    np.testing.assert_allclose(
        np.asarray(found.curves["best"][1]), np.array([row.sum() / 4 for row in run.trace["best"]])
    )
