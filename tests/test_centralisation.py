"""Agents that share a mind are found, whatever way they take, and are marked everywhere; those with minds of their own
pass.

An agent that passes by equal numbers is never marked by chance. Where laws are compared (`LAWS_COMPARED`), a check
finds a difference that is not there with a probability of at most 1e-4; all here together with one below 1e-3, and
their seeds are fixed.
"""

import json
import random
import re
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from cases import MARKET
from sb3_contrib import RecurrentPPO
from test_fast_forms import GOSSIP
from test_public_view import OWN, SETTINGS, play
from test_submission import STORED, submission

import taciturn
from taciturn import registry
from taciturn.agents import bring
from taciturn.bench.comparisons import kinds, playing
from taciturn.bench.results import Cell
from taciturn.bench.scores import FREE, boards, compares, leaderboard, who_is_best
from taciturn.bench.store import Store
from taciturn.bench.submission import merged, packed, unpacked
from taciturn.bench.tasks import YOURS, tasks_of
from taciturn.envs import elicitation_v0, federated_bandit_v0, gossip_bandit_v0
from taciturn.envs.core import Array, Controlled, ControlledAgent, PublicView
from taciturn.policies import (
    UCB1,
    CentralisedOracle,
    HoldTheBest,
    IsolatedThompson,
    IsolatedUCB,
    Listener,
    OneAnswerOracle,
    Policy,
    TargetQuality,
    ThompsonSampling,
    Truthful,
)
from taciturn.policies.external.rows import Predictor
from taciturn.policies.external.separate import Separate
from taciturn.testing.policies import Play, a_second_run_owes_nothing_to_the_first, agents_are_decentralised
from taciturn.wrappers import Exponential, NoPrivacy
from taciturn.wrappers.sb3 import RowsVecEnv

ARMS: dict[str, Any] = {"num_agents": 4, "num_arms": 4, "horizon": 150}
TICKS = GOSSIP | {"num_agents": 10, "horizon": 12.0}
# Where each has something to tell that the others do not know.
APART: dict[str, Any] = MARKET | {"theta": 4, "belief_concentration": 30.0, "cost_spread": 0.5}
CENTRALISED_LABEL = {
    "CentralisedOracle", "DTPriDO", "FictitiousPlay", "Hedge", "CentralisedHoldTheBest", "CentralisedKnowledgeGradient",
    "OneAnswerOracle",
    "CentralisedKLUCB", "CentralisedLogistic", "CentralisedPeakBayes",
}  # fmt: skip


def own_play(name: str) -> Play:
    """Where a policy of the package is checked: with something on each channel of the recommender, so that answers come
    through it."""
    one = play(name)
    if one.world == "recommender_v0":
        one.privacy = dict.fromkeys(("statistics", "counts", "selection"), NoPrivacy())
    if one.world == "federated_bandit_v0":
        one.params["horizon"] = min(one.params["horizon"], 60)
    if one.world == "elicitation_v0":
        given = {"parts": [(TargetQuality(), 1.0), (Truthful(), 1.0)]} if name == "Mixture" else OWN.get(name)
        return Play(name, one.world, APART, given=given, beside=one.beside)
    return one


@pytest.mark.parametrize("name", SETTINGS)
def test_policies_of_the_package_say_whether_they_pool(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = own_play(name)
    made = one.make()
    assert made.centralised == (name in CENTRALISED_LABEL), "tables mark those that pool"
    if not made.needs_truth:
        found = one.find_sharing()
        assert bool(found) == made.centralised
        monkeypatch.setattr(one, "find_sharing", lambda: found)  # once is enough
        agents_are_decentralised(one)


# Parameters of policies, and how long they play, where it takes more until they have something to forget.
LATE: dict[str, tuple[dict[str, Any], int]] = {
    "SuccessiveElimination": ({}, 2000),
    "DPSuccessiveElimination": ({"epsilon": 3.0}, 6000),
    "PrivateSocialLearning": ({"beta": 0.7, "mu": 0.05, "pool": 3}, 30),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in LATE)) for name in SETTINGS]
)
def test_no_policy_remembers_an_earlier_run(name: str) -> None:
    one = own_play(name)
    given, horizon = LATE.get(name, (one.given, one.params.get("horizon")))
    one.given, one.params = given, one.params | {"horizon": horizon}
    a_second_run_owes_nothing_to_the_first(one)


@pytest.mark.parametrize("name", SETTINGS)
def test_no_policy_remembers_a_run_that_was_broken_off(name: str) -> None:
    a_second_run_owes_nothing_to_the_first(own_play(name), steps=2)


class Forgetful(Policy):
    """Acts by the number of its turns so far, which observations do not show."""

    def begin(self, view: PublicView) -> None:
        self.turns = np.zeros((view.num_envs, 1), np.int64)

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        self.turns += 1
        return np.broadcast_to(self.turns % 4, obs.shape[:2])

    def restart(self, where: Array) -> None:
        self.turns[where] = 0


class Unforgetting(Forgetful):
    """Takes no notice of a new run."""

    def restart(self, where: Array) -> None: ...


class Copies(Separate):
    """`Unforgetting` as a copy for each agent."""

    def __init__(self) -> None:
        super().__init__(Unforgetting())


def test_memory_of_an_earlier_run_is_found() -> None:
    """Copies, one for each agent, are made anew."""
    for policy in (Forgetful, Copies):
        a_second_run_owes_nothing_to_the_first(Play(policy, "federated_bandit_v0", ARMS | {"horizon": 30}))
    with pytest.raises(AssertionError):
        a_second_run_owes_nothing_to_the_first(Play(Unforgetting, "federated_bandit_v0", ARMS | {"horizon": 30}))


class UCBCopies(Separate):
    """`IsolatedUCB` as a copy for each agent."""

    def __init__(self) -> None:
        super().__init__(IsolatedUCB())

    def turns(self) -> Array:
        """Of each agent, [B, N]."""
        return np.vectorize(lambda copy: copy._pulls.sum())(self._copies)


@pytest.mark.parametrize("seat", [False, True])
def test_the_others_restart_where_a_run_ends(seat: bool) -> None:
    """In a vector environment, whose replicas begin again by themselves."""
    policy: Any = UCB1() if seat else Truthful()
    restarted: list[Any] = []
    policy.restart = lambda where: restarted.append(where.tolist())
    world: Any = federated_bandit_v0.population(2, **ARMS) if seat else elicitation_v0.population(2, **MARKET)
    view = (
        ControlledAgent(world, "agent", 0, {"agent": policy})
        if seat
        else Controlled(world, "platform", {"individual": policy})
    )
    view.reset(seed=0)
    view.reset(where=np.array([True, False]))
    view.reset(where=np.array([True, True]))
    assert restarted == [[True, False], [True, True]]


class Counts(Policy):
    """Its action is the number of its turn, in percent; it writes down what it is told of it."""

    def begin(self, view: PublicView) -> None:
        self.updates: list[Any] = []
        self.turns, self.shape = 0, tuple(view.roles[self.role].action_space.shape or ())

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        self.turns += 1
        return np.full((*obs.shape[:2], *self.shape), self.turns / 100, np.float32)

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        turn = np.rint(100 * action.reshape(2, -1)[:, 0]).astype(int).tolist()
        self.updates.append((turn, done.tolist()))


# What the others are told after the third turn, if replica 1, or both, have been reset since: of individuals, who have
# acted, as if it had ended the run; of a platform, which begins a run, what it did in this one.
@pytest.mark.parametrize(
    ("role", "other", "where", "expected"),
    [
        ("platform", "individual", [False, True], ([3, 3], [False, True])),
        ("platform", "individual", [True, True], ([3, 3], [True, True])),
        ("individual", "platform", [False, True], ([4, 5], [False, False])),
        ("individual", "platform", [True, True], ([5, 5], [False, False])),
    ],
)
def test_an_action_that_was_open_when_its_run_was_left(role: str, other: str, where: Any, expected: Any) -> None:
    policy = Counts()
    view = Controlled(elicitation_v0.population(2, **MARKET), role, {other: policy})
    view.reset(seed=0)
    alone = view.roles[role]
    actions = np.full((2, alone.num_agents, *(alone.action_space.shape or ())), 0.5, np.float32)
    for turn in range(5):
        if turn == 3:
            view.reset(where=np.array(where))
        view.step(actions)
    before = [([turn, turn], [False, False]) for turn in (1, 2, 3)][: 2 if role == "platform" else 3]
    assert policy.updates[: len(before) + 1] == [*before, expected]


@pytest.mark.parametrize("policy", [IsolatedUCB, HoldTheBest, Listener, OneAnswerOracle, UCBCopies])
def test_partners_learn_nothing_while_their_replica_waits(policy: Any) -> None:
    """Replicas wait until it is the seat's turn in all of them; each partner remembers the turns that it has had."""
    world = gossip_bandit_v0.population(5, **TICKS)
    partner = policy()
    seat = ControlledAgent(world, "agent", 0, {"agent": partner})
    seat.reset(seed=0)
    for _ in range(6):
        seat.step(np.zeros((5, 1, 3), np.int64))
    turns = partner.turns() if policy is UCBCopies else getattr(partner, "_ticks", None)
    turns = partner._pulls.sum(-1) if turns is None else turns
    assert len(set(world.clock().tolist())) > 1
    np.testing.assert_array_equal(turns[:, 1:], world.state.requests[:, 1:])


@pytest.mark.parametrize("name", ["TPriDO", "NeuralBandit"])
def test_what_is_selected_through_the_channel_is_heard_by_its_agent_alone(name: str) -> None:
    one = own_play(name)
    one.privacy = {"selection": Exponential(2.0), "statistics": NoPrivacy(), "counts": NoPrivacy()}
    assert not one.find_sharing()


# Attacks.


class UndeclaredOracle(CentralisedOracle):
    """`CentralisedOracle` as somebody else would have written it."""

    centralised = False


class SharedTable(IsolatedThompson):
    """All agents of a replica count in one table, through `update`, and act from it."""

    def agents(self) -> Array:
        return np.zeros_like(super().agents())


class Counting(Policy):
    """Thompson sampling by plain NumPy, with a table for each agent, and with a generator of its own."""

    def begin(self, view: PublicView) -> None:
        self.own: Any = np.random.default_rng(5)
        self.good = np.ones((view.num_envs, view.roles[self.role].num_agents, view.params.num_arms))
        self.bad = self.good.copy()

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        self.arm = self.own.beta(self.good, self.bad).argmax(-1)
        return self.arm

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        b, i = np.indices(self.arm.shape)
        self.good[b, i, self.arm] += reward
        self.bad[b, i, self.arm] += 1 - reward


def told_to_all(self: Any, obs: Array, action: Array, reward: Array, done: Array) -> None:
    """`update` of a policy whose agents all count what each of them has earned."""
    b, i = np.indices(self.arm.shape)
    for table, new in ((self.good, reward), (self.bad, 1 - reward)):
        added = np.zeros(table.shape)
        np.add.at(added, (b, i, self.arm), new)
        table += added.sum(1, keepdims=True)


class CentralisesRewards(Counting):
    update = told_to_all


class CentralisesLate(UCB1):
    """Own means until the last slot, in which all pull the arm that is best by everybody's means."""

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        arms = super().act(obs, mask)
        if obs[0, 0, self._layout.slices["time"]] < self._horizon - 1:
            return arms
        return np.broadcast_to(obs[..., self._layout.slices["means"]].mean(1).argmax(-1)[:, None], arms.shape)


class CentralisesReplicas(UCB1):
    """Each agent has the means of the agents of its number in all replicas: a hundred lives instead of one."""

    def choose(self, counts: Array, means: Array) -> Array:
        return super().choose(counts, np.broadcast_to(means.mean(0), means.shape))


class CentralisesRuns(Policy):
    """The only agent of each run waits for as many updates as there are in other runs."""

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        return (obs[..., 0] <= obs[..., 0].mean()).astype(np.int64)


class OneBrain(UCB1):
    """Only the last agent knows what the first one does."""

    def choose(self, counts: Array, means: Array) -> Array:
        arms = super().choose(counts, means)
        arms[:, -1] = arms[:, 0]
        return arms


class DrawsForSome(Counting):
    """Draws for those that explore come first, so that the numbers of a row depend on the others; still, nobody knows
    more."""

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        explores = self.own.random(self.good.shape[:2]) < 0.1 + 0.1 * (self.good.sum(-1) > 8)
        self.arm = np.zeros(explores.shape, np.int64)
        self.arm[explores] = self.own.integers(0, self.good.shape[2], explores.sum())
        greedy = ~explores
        self.arm[greedy] = self.own.beta(self.good[greedy], self.bad[greedy]).argmax(-1)
        return self.arm


class DrawsElsewhere(Counting):
    """Random numbers of Python, whose sampler rejects more or less often; still, nobody knows more."""

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        self.own = None
        drawn = [random.betavariate(a, b) for a, b in zip(self.good.ravel(), self.bad.ravel(), strict=True)]
        self.arm = np.reshape(drawn, self.good.shape).argmax(-1)
        return self.arm


class CentralisesElsewhere(DrawsElsewhere):
    update = told_to_all


class CentralisesForSome(DrawsForSome):
    update = told_to_all


class Alone(Policy):
    """Thompson sampling as one writes it for one agent."""

    one_agent = True

    def begin(self, view: PublicView) -> None:
        assert (view.num_envs, view.roles[self.role].num_agents) == (1, 1)
        self.good, self.bad = np.ones(view.params.num_arms), np.ones(view.params.num_arms)

    def act(self, obs: Array, mask: Array | None = None) -> Any:
        assert obs.shape[:2] == (1, 1)
        self.arm = int(self.rng.beta(self.good, self.bad).argmax())
        return self.arm

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        assert (action.shape[:2], reward.shape, done.shape) == ((1, 1), (1, 1), (1,))
        self.good[self.arm] += reward[0, 0]
        self.bad[self.arm] += 1 - reward[0, 0]


class OneOfSome(Policy):
    """One agent of a society, which plays by its own luck."""

    one_agent = True

    def act(self, obs: Array, mask: Array | None = None) -> Any:
        assert obs.shape[:2] == (1, 1)
        return self.rng.integers(0, 2, 3)


class Together(Alone):
    """Copies that hold a table in common, which belongs to their class."""

    table: ClassVar[dict[str, Array]] = {}

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        self.table.update(good=self.good, bad=self.bad)

    def act(self, obs: Array, mask: Array | None = None) -> Any:
        self.good, self.bad = self.table["good"], self.table["bad"]
        return super().act(obs, mask)


class Reader(CentralisedOracle):
    """Reads the table of the agents beside it when it chooses, and says that it needs the truth."""

    centralised, needs_truth = False, True


ATTACKS = [
    (UndeclaredOracle, "federated_bandit_v0"), (SharedTable, "gossip_bandit_v0"),
    (CentralisesRewards, "federated_bandit_v0"), (CentralisesLate, "federated_bandit_v0"),
    (CentralisesReplicas, "federated_bandit_v0"), (OneBrain, "federated_bandit_v0"),
    (Together, "federated_bandit_v0"), (CentralisesRuns, "round_stopping_v0"),
]  # fmt: skip
LAWS_COMPARED = [
    (CentralisesElsewhere, True),
    (CentralisesForSome, True),
    (DrawsElsewhere, False),
    (DrawsForSome, False),
]
WORLDS = {
    "federated_bandit_v0": ARMS,
    "gossip_bandit_v0": TICKS,
    "round_stopping_v0": {"num_clients": 6, "horizon": 20.0},
}


@pytest.mark.parametrize(("policy", "world"), ATTACKS)
def test_attacks_are_found(policy: Any, world: str) -> None:
    one = Play(policy, world, WORLDS[world])
    with pytest.raises(
        AssertionError,
        match=r": an agent's action in turn \d+ depends on observations or rewards that only other agents or runs had$",
    ):
        agents_are_decentralised(one)


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "centralised"), LAWS_COMPARED)
def test_laws_are_compared_where_random_numbers_are_shared(policy: Any, centralised: bool) -> None:
    assert bool(Play(policy, "federated_bandit_v0", ARMS).find_sharing()) == centralised


@pytest.mark.parametrize("policy", [Counting, Alone, ThompsonSampling])
def test_minds_of_their_own_pass(policy: Any) -> None:
    assert not Play(policy, "federated_bandit_v0", ARMS).find_sharing()


def test_late_means_late() -> None:
    found = Play(CentralisesLate, "federated_bandit_v0", ARMS).find_sharing()
    assert f"turn {ARMS['horizon']} " in found


def test_a_check_draws_nothing_that_others_draw() -> None:
    before = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002
    policy = Counting()
    policy.kept = kept = np.random.default_rng(1)  # type: ignore[attr-defined]
    state = kept.bit_generator.state
    world = federated_bandit_v0.population(2, **ARMS)
    metrics = taciturn.simulate(world, DrawsElsewhere(), seed=0).metrics["regret"]
    random.setstate(before[0])
    one = Play(Counting, "federated_bandit_v0", ARMS)
    one.make = lambda: policy  # type: ignore[method-assign]
    one.find_sharing()
    assert policy.kept is kept  # type: ignore[attr-defined]
    assert kept.bit_generator.state == state
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # type: ignore[index]  # noqa: NPY002
    assert taciturn.simulate(world, DrawsElsewhere(), seed=0).metrics["regret"].tolist() == metrics.tolist()


@pytest.mark.parametrize("world", ["federated_bandit_v0", "gossip_bandit_v0"])
def test_a_recurrent_model_has_a_memory_for_each_agent(world: str) -> None:
    """In the gossip bandit rows are other agents' at every tick, and the state follows its agent; a state by row is
    found."""
    population = (federated_bandit_v0 if world == "federated_bandit_v0" else gossip_bandit_v0).population(
        2, **WORLDS[world]
    )
    model = RecurrentPPO(
        "MlpLstmPolicy", RowsVecEnv(population, seed=0), n_steps=8, batch_size=16, seed=0, device="cpu"
    )
    weight: Any = model.policy.action_net.weight
    weight.data *= 300  # so that what it remembers decides what it does

    def find_sharing(agent: Any) -> str:
        one = Play("Random", world, WORLDS[world])
        one.make = lambda: agent  # type: ignore[method-assign]
        return one.find_sharing()

    drawn = Predictor(model, deterministic=False)
    assert not find_sharing(Predictor(model))
    assert not find_sharing(drawn)

    class ByRow(Predictor):
        def places(self) -> None:
            return None

        def choose(self, rows: Array, masks: Array | None) -> Array:
            self._fresh = self._fresh[: len(rows)]
            return super().choose(rows, masks)

    assert bool(find_sharing(ByRow(model, deterministic=False))) == (world == "gossip_bandit_v0")


# A copy for each agent.


def test_a_copy_for_each_agent_is_an_agent_alone() -> None:
    """With memories and random numbers of their own; the same as Thompson sampling in law, and the same run again."""
    world = federated_bandit_v0.population(40, **ARMS)
    agent = bring(Alone)
    assert (type(agent), repr(agent)) == (Separate, "Separate(Alone())")
    first, again = (taciturn.simulate(world, agent, seed=3).metrics["regret"] for _ in range(2))
    assert first.tolist() == again.tolist()
    tables = [copy.good for copy in agent._copies.ravel()]
    assert len(tables) == 160
    assert len({table.tobytes() for table in tables}) > 140
    agent.reset(world, np.random.default_rng(0))
    assert len({copy.rng.random() for copy in agent._copies.ravel()}) == 160
    plain = taciturn.simulate(world, ThompsonSampling(), seed=4, fast=False).metrics["regret"]
    # Student's statistic beyond 4 has a probability below 1e-4 with 78 degrees of freedom.
    assert abs(first.mean() - plain.mean()) < 4.1 * np.hypot(first.std(), plain.std()) / 39**0.5
    assert isinstance(bring("test_centralisation:Alone"), Separate)
    assert isinstance(bring(Alone()), Separate)


def test_a_copy_follows_its_agent_where_agents_act_one_at_a_time() -> None:
    class Ticks(Policy):
        one_agent = True

        def begin(self, view: PublicView) -> None:
            self.plan, self.seen = view.roles[self.role].action_space.shape or (), 0
            assert view.acting(self.role) is None

        def act(self, obs: Array, mask: Array | None = None) -> Array:
            self.seen += 1
            return np.zeros(self.plan, np.int64)

    agent, world = bring(Ticks), gossip_bandit_v0.population(2, **TICKS)
    run = taciturn.simulate(world, agent, seed=0)
    seen = np.array([[copy.seen for copy in row] for row in agent._copies])
    assert (seen.sum(1) >= run.metrics["ticks"]).all()
    assert len(np.unique(seen)) > 3


def test_any_policy_can_be_played_as_copies() -> None:
    def act(rows: Array) -> Array:
        return (rows[:, 0] < 3).astype(np.int64)

    world = registry.make_world("round_stopping").population(3, num_clients=6, horizon=20.0)
    plain, copies = (
        taciturn.simulate(world, bring(act, separate=one), seed=0).metrics["rate"] for one in (False, True)
    )
    assert plain.tolist() == copies.tolist()
    with pytest.raises(ValueError, match="separate must be one of False, True, not 'yes'"):
        bring(act, separate="yes")

    class Twice(Policy):
        def act(self, obs: Array, mask: Array | None = None) -> Array:
            return np.zeros(2, np.int64)

    with pytest.raises(ValueError, match=r"one action of shape \[\] for its only agent, not \[2\]"):
        taciturn.simulate(world, bring(Twice, separate=True), seed=0)


def test_a_copy_knows_its_own_replica_of_the_catalogue_and_no_hook_of_all() -> None:
    class Looks(Policy):
        one_agent = True

        def begin(self, view: PublicView) -> None:
            self.items = view.catalogue()[0]
            assert self.items.shape == (1, 40, 5)
            for name in ("consult", "select"):
                with pytest.raises(AttributeError, match="is not public"):
                    getattr(view, name)

        def act(self, obs: Array, mask: Array | None = None) -> Any:
            assert mask is not None
            return mask.argmax(-1)

    world = registry.make_world("recommender").population(2, num_agents=3, num_items=40, horizon=5)
    agent = bring(Looks)
    taciturn.simulate(world, agent, seed=0)
    assert not np.array_equal(agent._copies[0, 0].items, agent._copies[1, 0].items)


# Where it is told.


@pytest.mark.parametrize(
    ("policy", "task", "centralised"),
    [
        ("CentralisedOracle", "FederatedBandit-v0/standard", True),
        ("test_centralisation:SharedTable", "GossipBandit-v0/brief", True),
        ("test_centralisation:Reader", "FederatedBandit-v0/standard", True),
        ("IsolatedThompson", "GossipBandit-v0/standard", False),
        ("HoldTheBest", "GossipBandit-v0/standard", False),
        ("CentralisedHoldTheBest", "SocialBandit-v0/standard", True),
        ("Listener", "GossipBandit-v0/standard", False),
        ("test_centralisation:OneOfSome", "GossipBandit-v0/standard", False),
    ],
)
def test_a_task_is_played_and_marked(policy: str, task: str, centralised: bool, command: Any) -> None:
    code, out, _ = command("run", f"taciturn/{task}", "--policy", policy, "--runs", "2")
    assert code == 0
    assert "score" in out
    assert ("(centralised), 2 runs" in out, "centralised, and never ranked: its agents share" in out) == (
        centralised,
        centralised,
    )
    if policy == "CentralisedOracle":
        for other in ("federated_bandit", f"taciturn/{task}"):
            code, out, _ = command(
                "run",
                other,
                "--policy",
                policy,
                "--runs",
                "1",
                "--json",
                *(() if "/" in other else ("--set", "horizon=20")),
            )
            assert json.loads(out)["centralised"] is True
        _, out, _ = command("list", "policies")
        assert re.search(r"CentralisedOracle .*Its agents are centralised\.", " ".join(out.split()))


def test_a_cell_of_the_benchmark_carries_the_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    """In every task that the agent plays, before it is played."""
    asked = []
    found = playing.how_centralised

    def how_centralised(agent: Any, config: Any, seed: int, variant: Any) -> str:
        asked.append(variant.what)
        return found(agent, config, seed, variant)

    monkeypatch.setattr(kinds, "how_centralised", how_centralised)
    small = {"num_agents": 3, "num_arms": 5, "horizon": 20}
    for policy, centralised in (
        ("test_centralisation:UndeclaredOracle", 1.0),
        ("test_centralisation:Alone", 0.0),
        ("UCB1", 0.0),
    ):
        one = {
            "env": "federated_bandit_v0",
            "env_params": small,
            "policy": policy,
            "policy_params": {},
            "kind": YOURS,
            "replicas": 2,
        }
        asked.clear()
        assert kinds.KindsOfAgents().run(Cell("agents", one, 0)).metrics["centralised"] == centralised
        assert asked == [task.variant.what for task in tasks_of("federated_bandit_v0")]


def test_what_pools_only_where_there_is_a_crowd_is_pooled(monkeypatch: pytest.MonkeyPatch) -> None:
    class InCrowds(UCB1):
        def choose(self, counts: Array, means: Array) -> Array:
            return super().choose(counts, means if counts.shape[1] < 5 else np.broadcast_to(means[:, :1], means.shape))

    monkeypatch.setattr(playing, "bring", lambda _, **given: InCrowds())
    one = {
        "env": "federated_bandit_v0",
        "env_params": {"num_agents": 3, "num_arms": 5, "horizon": 40},
        "policy": "in:Crowds",
    }
    metrics = (
        kinds.KindsOfAgents().run(Cell("agents", one | {"policy_params": {}, "kind": YOURS, "replicas": 2}, 0)).metrics
    )
    assert metrics["centralised"] == 1.0


def test_who_pools_is_never_ranked() -> None:
    """Among kept results, submissions with the highest score: one that pooled, one with one seed that did, and one
    without an outcome."""
    seeds = list(range(10))
    found = {
        name: submission(seeds, 1.3, policy=name, centralised=outcome)
        for name, outcome in (("Pools", 1.0), ("PoolsOnce", [0.0] * 9 + [1.0]), ("Unknown", None), ("Alone", 0.0))
    }
    study, results = kinds.KindsOfAgents(), merged([unpacked(STORED), *found.values()])
    board, where = leaderboard(results, FREE), "RoundStopping-v0/standard"
    rows = {row[2]: dict(zip(board.columns, row, strict=True)) for row in board.rows if row[0] == f"{where} (control)"}
    marked = ("Pools (centralised)", "PoolsOnce (centralised)", "Unknown (not checked for pooling)", "Alone")
    assert [rows[name]["rank"] for name in marked] == ["–", "–", "–", "1"]
    assert all(float(rows[name]["score"].split()[0]) > 10 for name in marked), "it is played, and its score is told"
    assert {name for name, row in rows.items() if row["rank"] == "–"} == {*marked[:3], "TrainedAgent"}, (
        "it has too few trainings"
    )
    assert sorted(int(row["rank"]) for row in rows.values() if row["rank"] != "–") == list(range(1, len(rows) - 3))
    (place,) = [one for one in boards(results) if one.task.plain == f"taciturn/{where}"]
    best = place.best(YOURS)
    assert best is not None
    assert best.config["policy"] == "Alone"
    without = merged([unpacked(STORED), *(found[name] for name in ("Pools", "PoolsOnce", "Unknown"))])
    assert who_is_best(without).rows == who_is_best(unpacked(STORED).results).rows
    assert study.answers(without) == study.answers(unpacked(STORED).results)


def test_submissions_carry_the_outcome(tmp_path: Path, command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.json").write_text(packed(submission([0], 0.0125, centralised=1.0)), encoding="utf-8")
    (group,) = unpacked(tmp_path / "mine.json").results
    assert group.metrics["centralised"].tolist() == [1.0]
    joined = merged([submission([0], 0.0125, centralised=0.0), submission([1], 0.0125, centralised=None)])
    assert not any(map(compares, joined)), "what one seed lacks, the whole lacks"
    code, out, _ = command("leaderboard", str(STORED), str(tmp_path / "mine.json"), columns=100)
    assert code == 0
    assert re.search(r"– +Mine\s\(centralised\) ", out)
    monkeypatch.setattr(
        Store,
        "manifest",
        lambda self: (
            dict.fromkeys(("commit", "taciturn", "python", "libraries", "platform", "finished"), "")
            | {"command": "taciturn bench", "quick": False}
        ),
    )
    monkeypatch.setattr(Store, "results", lambda self, name: submission([0], 0.0125, centralised=None).results)
    code, _, err = command("submit", str(tmp_path), "--to", str(tmp_path / "out.json"))
    assert code == 1
    assert "must have agents that were checked for sharing information, and Mine was not: run bench again" in err
    assert not (tmp_path / "out.json").exists()
