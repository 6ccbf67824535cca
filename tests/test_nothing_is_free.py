"""Attacks that once beat a total of privacy: each claimed a finite epsilon for something that an observer could read
off with certainty."""

import math
from functools import partial
from typing import Any
from unittest import mock

import gymnasium
import numpy as np
import pytest
from test_fast_forms import ARMS, SHOP
from test_public_view import SETTINGS, play

import taciturn
from taciturn import registry
from taciturn.envs import federated_bandit_v0, federated_training_v0, gossip_bandit_v0, recommender_v0
from taciturn.envs.core import Array, ChannelConfig, PublicView, begin
from taciturn.envs.core.public import declares
from taciturn.envs.federated_bandit import model
from taciturn.envs.federated_bandit.fast import EpochPlan
from taciturn.envs.federated_bandit.world import FederatedBandit
from taciturn.envs.recommender.sharing import Request, ThirdParty
from taciturn.policies import PPCL, ConstantLevel, DTPriDO, Fed2UCB, Policy, Random, TPriDO, Voter
from taciturn.testing import policy_checks
from taciturn.testing.policies import Play
from taciturn.testing.schedules import Private, schedule_is_public
from taciturn.wrappers import (
    BitwiseRandomizedResponse,
    Budget,
    Byzantine,
    Churn,
    Faulty,
    Laplace,
    LossyChannel,
    Memoized,
    MessageLimit,
    Privatize,
    TreeAggregation,
)

ALWAYS = 2.0  # a threshold above every mean
SMALL: dict[str, Any] = {"num_agents": 4, "num_items": 60, "repository": 40, "horizon": 60}
BOTH = {name: TreeAggregation(0.1) for name in ("statistics", "counts")}


def event(run: Any, channel: str | None = None, unit: Any = "event") -> Array:
    total: Array = run.accountant.epsilon(delta=0.0, method="basic", unit=unit, channel=channel)
    return total


# Liars.


@pytest.mark.parametrize("strategy", ["constant", "flip"])
def test_a_lie_shares_no_noise_with_the_truth(strategy: Any) -> None:
    """Followers of one model ask for the same streams, some of them for lies, whose noise was that of the true
    answers."""
    honest, lying, requests = list[Array](), list[Array](), list[Request]()
    answer = ThirdParty.answer

    def listening(party: ThirdParty, request: Request, *rest: Any) -> Any:
        found = answer(party, request, *rest)
        liars = env.channels["statistics"].faults.memory[0]["liars"]
        for b, row in enumerate(liars):
            true = [n for n in range(4) if n not in row and found[2][b, n]]
            pairs = ((n, m) for n in true for m in row if found[2][b, m])
            for n, m in pairs:
                same = (request.streams[b, n] == request.streams[b, m]) & (request.counts[b, n] > 0)
                honest.append(found[0][b, n][same] - request.sums[b, n][same])
                said = np.ones(same.sum()) if strategy == "constant" else 1 - request.sums[b, m][same]
                lying.append(found[0][b, m][same] - said)
        requests.append(request)
        return found

    env = recommender_v0.population(5, **SMALL, graph="complete")
    env.reset(
        seed=0,
        options={"channels": {"statistics": ChannelConfig(TreeAggregation(0.6), None, (Byzantine(0.5, strategy),))}},
    )
    policies = {"agent": DTPriDO(ALWAYS)}
    begin(env, policies)
    with mock.patch.object(ThirdParty, "answer", listening):
        env.advance(policies)
    first, second = np.concatenate(honest), np.concatenate(lying)
    assert first.size > 1000, "they ask for the same streams"
    assert not np.isclose(first, second, rtol=0, atol=1e-6).any(), (
        "subtracting one answer from the other removes the noise"
    )
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.3


def test_what_liars_get_told_is_charged_beside_what_others_are_told() -> None:
    """Two agents follow one model; if one of them gets lies about it, each record is in twice as many streams."""
    totals = []
    for faults in ((), (Byzantine(1.0),)):
        env = recommender_v0.population(2, **SMALL | {"horizon": 6}, graph="complete")
        world: Any = Privatize(env, "statistics", TreeAggregation(0.5))
        for fault in faults:
            world = Faulty(world, "statistics", fault)
        run = taciturn.simulate(world, DTPriDO(ALWAYS, xi=50.0, rate=1e6), seed=6)
        totals.append(run.accountant.messages("statistics"))
    truth, lies = totals
    assert (lies == 4 * truth).all(), "every follower has a stream of its own"


# Faults on one channel, totals on another.


@pytest.mark.parametrize("fault", [MessageLimit(0), MessageLimit(1), Churn(0.9, 0.1)], ids=repr)
def test_a_channel_is_charged_for_its_own_readers(fault: Any) -> None:
    def spent(*faults: Any) -> tuple[Array, Array]:
        env: Any = recommender_v0.population(2, **SMALL, graph="complete")
        for name, distribution in BOTH.items():
            env = Privatize(env, name, distribution)
        for one in faults:
            env = Faulty(env, "statistics", one)
        run = taciturn.simulate(env, Random(), seed=0)
        return event(run, "counts"), env.channels["counts"].messages()

    without, messages = spent()
    charged, sent = spent(fault)
    np.testing.assert_array_equal(sent, messages)
    np.testing.assert_allclose(charged, without)
    assert (charged > 0).all()


# Whom an agent asks, and when it speaks.


@pytest.mark.parametrize("policy", [TPriDO, DTPriDO])
def test_asking_because_of_what_was_liked_has_no_total(policy: Any) -> None:
    """With nothing else changed, the first feedback of agent 0 decides whether it asks."""
    asked = {}
    for liked in (False, True):
        plain = recommender_v0.population(1, **SMALL, graph="complete")
        kind = type(plain)

        def private(_: Any, drawn: Array, agents: Any = None, liked: bool = liked) -> Array:
            changed = drawn.copy()
            changed[agents == 0] = liked
            return changed

        env = type(kind.__name__, (kind,), {"private": private})(plain.params, 1)
        run = taciturn.simulate(
            Privatize(env, "statistics", TreeAggregation(0.01)), policy(0.5), seed=0, until=2, record=["shared"]
        )
        asked[liked] = run.accountant.channels["statistics"].messages()[0, 1:].sum()
        for unit in ("event", "user"):
            assert np.isinf(event(run, "statistics", unit)).all()
    assert asked[False] > asked[True], "what others send for it tells"


class UploadsIfItLikes(Policy):
    """Pulls arm 0, and uploads after the second slot if the first reward was 1."""

    def begin(self, view: PublicView) -> None:
        self._layout, self._arms = view.roles[self.role].layout, view.params.arms

    def act(self, obs: Any, mask: Any = None) -> Any:
        seen = self._layout.unpack(obs)
        return self._arms * ((seen["time"] == 1) & (seen["means"][..., 0] == 1))


def test_uploading_because_of_a_reward_has_no_total() -> None:
    env = federated_bandit_v0.population(200, num_agents=2, qualities=(0.5, 0.5), horizon=10)
    run = taciturn.simulate(env, UploadsIfItLikes(), seed=0, privacy={"means": Laplace(1.0)})
    sent = env.channels["means"].messages()
    assert 0.3 < sent.mean() < 0.7, "whoever uploads had a reward of 1"
    for unit in ("event", "user"):
        assert np.isinf(event(run, unit=unit)).all()
    assert np.isinf(run.accountant.odometer(delta=0.0)).all()
    assert np.isinf(run.metrics["epsilon_basic"]).all()
    assert run.accountant.table()[0]["note"].startswith("disjoint")
    assert (
        "infinite: whether, when or what about an agent sends may depend on its private data"
        in run.accountant.table()[0]["note"]
    )


def test_a_budget_is_refused_where_silence_tells() -> None:
    env = Privatize(
        federated_bandit_v0.population(1, num_agents=2, num_arms=2, horizon=10), "means", Laplace(1.0), Budget(3.0)
    )
    with pytest.raises(
        ValueError, match=r"budget on channel 'means' of federated_bandit must be None, not Budget.epsilon=3"
    ):
        taciturn.simulate(env, UploadsIfItLikes(), seed=0)
    taciturn.simulate(env, Random(), seed=0)


def test_whoever_acts_in_a_loop_of_steps_may_declare_a_public_schedule() -> None:
    env = Privatize(federated_bandit_v0.parallel_env(num_agents=2, num_arms=2, horizon=4), "means", Laplace(1.0))
    totals = []
    for options in ({}, {"public_schedule": True}, {}):
        env.reset(seed=0, options=options)
        _, _, _, _, info = env.step({"agent_0": 2, "agent_1": 3})
        totals.append(info["agent_0"]["epsilon_basic"])
    assert totals == [math.inf, 1.0, math.inf]
    with pytest.raises(ValueError, match=r"options\['public_schedule'\] must be one of False, True, not 'yes'"):
        env.reset(options={"public_schedule": "yes"})


def test_the_seat_of_one_agent_may_declare_it_too() -> None:
    env = gymnasium.make("taciturn/FederatedBandit-v0", num_agents=3, num_arms=2, horizon=20, others="CDPMAB")
    env = Privatize(env, "means", Laplace(1.0))
    for declared, total in ((False, math.inf), (True, 0.0)):
        _, info = env.reset(seed=0, options={"public_schedule": declared})
        assert info["epsilon_basic"] == total


# Memoised answers.


def voters(budget: Budget | None, epsilon: float = 0.01) -> Any:
    env = gossip_bandit_v0.population(3, num_agents=5, qualities=(0.9, 0.2), horizon=100.0)
    return taciturn.simulate(
        Privatize(env, "preference", Memoized(BitwiseRandomizedResponse(epsilon)), budget), Voter(), seed=0
    )


def test_a_memoised_answer_that_changes_tells() -> None:
    run = voters(None)
    for unit in ("event", "user", None):
        assert np.isinf(event(run, unit=unit)).all()
    assert np.isinf(run.accountant.odometer(delta=1e-6)).all()
    assert np.isinf(run.metrics["epsilon_basic"]).all()
    assert run.accountant.table()[0]["note"] == "infinite: an answer that changes reveals that the value changed"


def test_a_budget_of_one_answer_repeats_it_for_nothing() -> None:
    run = voters(Budget(1.0), 1.0)
    env = run.accountant.channels["preference"]
    assert (env.messages() > 100).all(), "everyone goes on answering"
    np.testing.assert_array_equal(event(run), 1.0)
    np.testing.assert_array_equal(event(run, unit="user"), 1.0)
    with pytest.raises(
        ValueError, match=r"must be smaller than two answers of Memoized.*reveals that the value changed"
    ):
        voters(Budget(2.0), 1.0)


def test_the_answer_under_a_budget_stays_when_the_value_changes() -> None:
    env = gossip_bandit_v0.population(1, num_agents=3, qualities=(0.9, 0.2), horizon=1e6)
    config = ChannelConfig(Memoized(BitwiseRandomizedResponse(1.0)), Budget(1.0))
    env.reset(seed=0, options={"channels": {"preference": config}})
    channel, rng = env.channels["preference"], np.random.default_rng(0)
    heard = [channel.send(rng.permuted(np.tile([True, False], (1, 3, 1)), axis=-1))[0] for _ in range(50)]
    assert heard[0].any()
    assert all((one == heard[0]).all() for one in heard)


# What an observer of all messages reads.


def test_the_askers_own_records_are_in_its_answers() -> None:
    """On a complete graph of W agents each record is in the streams of all W, the one who made it among them, until
    cells are split."""
    env = recommender_v0.population(2, **SMALL | {"horizon": 6}, graph="complete")
    run = taciturn.simulate(
        Privatize(env, "statistics", TreeAggregation(0.5)), TPriDO(ALWAYS, xi=50.0, rate=1e6), seed=6
    )
    np.testing.assert_allclose(event(run, "statistics"), 4 * 0.5)


# What a learner has seen before the run.


def test_learners_practise_on_nobodys_private_images() -> None:
    world = federated_training_v0.population(1)
    practice: Any = world.view().practice(1)
    private = {row.tobytes() for row in world.data.train_x}
    for rows in (practice.data.train_x, practice.data.test_x):
        assert not private & {row.tobytes() for row in rows}
    trained, tested = ({row.tobytes() for row in rows} for rows in (practice.data.train_x, practice.data.test_x))
    assert not trained & tested
    assert practice.data.train_x.shape == world.data.train_x.shape
    assert practice.data.num_classes == world.data.num_classes


# Declared schedules.

DECIDED = ("federated_bandit_v0", "recommender_v0")
PUBLIC = {
    "BlockListener", "CDPMAB", "CommunicationEfficientCDPMAB", "DDPMAB", "DPSuccessiveElimination", "DividedPlan",
    "CentralisedLogistic", "CentralisedPeakBayes", "Fed2UCB", "FiniteHorizonGittins", "HDPMAB", "HOO", "HorizonKLUCB",
    "ItemUCB1", "KLUCB", "LinUCB", "LogisticBandit", "MOSS", "NeuralBandit", "OracleItem", "PeakBayes", "PeakListener",
    "PublicPlan",
    "SingleAgent", "SuccessiveElimination", "Synchronised", "ThompsonSampling", "UCB1",
}  # fmt: skip
LONG = SHOP | {"horizon": 120}
CHOSEN: dict[str, Any] = {"message_levels": "chosen", "num_agents": 3}
WORDS = CHOSEN | {"without_preference": "zeros", "horizon": 5.0, "num_options": 3}
LEVELS = CHOSEN | {"num_arms": 2, "horizon": 20}
LATE = {
    "CDPMAB",
    "CommunicationEfficientCDPMAB",
    "DDPMAB",
    "HDPMAB",
}  # they send for the first time after some 100 slots


def long_enough(name: str) -> Any:
    """A run in which the policy sends, if it ever does."""
    found = play(name)
    if found.world != "federated_bandit_v0":
        return found
    params = found.params if name in LATE else found.params | {"horizon": 60}
    return slow(Play(name, found.world, params, given=found.given))


def slow(played: Play) -> Any:
    return pytest.param(played, marks=pytest.mark.slow, id=repr(played))


PLAYS = [long_enough(name) for name in sorted(PUBLIC)] + [
    *(Play(name, "recommender_v0", LONG, given={"threshold": ALWAYS, "rate": 2.0}) for name in ("TPriDO", "DTPriDO")),
    Play("DTPriDO", "recommender_v0", LONG, given={"threshold": ALWAYS, "follow": "leaf"}),
    Play("TPriDO", "recommender_v0", SHOP, given={"threshold": 0.0}),
    Play("FedUCB", "federated_bandit_v0", ARMS | {"horizon": 30}, given={"acts_on": "received"}),
    *(
        Play("Random", world, params)
        for world, params in (("recommender_v0", SHOP), ("federated_bandit_v0", ARMS | {"horizon": 20}))
    ),
    *(
        slow(Play(name, world, params, given=given, beside={"agent": agent}))
        for world, params, agent in (("gossip_bandit_v0", WORDS, "PPCL"), ("federated_bandit_v0", LEVELS, "Random"))
        for name, given in (
            ("ConstantLevel", {}),
            ("LevelPlan", {"plan": [(0.0, 0.1), (2.0, 3.0)]}),
            ("Random", {}),
        )
    ),
]


@pytest.mark.parametrize("played", PLAYS, ids=repr)
def test_a_declared_schedule_is_public(played: Play) -> None:
    """And numbers of every kind were really changed: of 12 plays that send, 5 had been played again as they were."""
    changed = schedule_is_public(played)
    for parts in changed.values():
        assert all(0 < differ <= numbers for differ, numbers in parts.values())
    assert any(set(parts) == {"early", "middle", "late"} for parts in changed.values())


def test_checks_of_a_policy_have_it_where_it_applies() -> None:
    for name, world, params, given, there in (
        ("CDPMAB", "federated_bandit_v0", ARMS, {}, True),
        ("TPriDO", "recommender_v0", SHOP, {"threshold": ALWAYS}, True),
        ("TPriDO", "recommender_v0", SHOP, {}, False),
        ("PPCL", "gossip_bandit_v0", {"num_agents": 5, "horizon": 3.0}, {}, False),
    ):
        names = {check.kind for check in policy_checks(name, world, params, given=given)}
        assert ("schedule_is_public" in names) == there


def test_who_declares_a_public_schedule() -> None:
    """Whoever declares one is played above, but for classes whose own parameters decide."""
    kinds = registry.own_policies()
    assert {
        name
        for name, (world, *_) in SETTINGS.items()
        if world in DECIDED and vars_say(kinds[name]) and name not in ("FedUCB", "TPriDO", "DTPriDO")
    } == PUBLIC


def vars_say(kind: type[Any]) -> bool:
    declared = kind.public_schedule
    return declares(object.__new__(kind), "public_schedule") and (declared is True or isinstance(declared, property))


class Pretends(TPriDO):
    """Asks where its own results are bad, and calls that public."""

    public_schedule = True


class Uploads(UploadsIfItLikes):
    public_schedule = True


class PullsWhatItLikes(Uploads):
    """Uploads every tenth slot, but stays with an arm that has just paid."""

    public_schedule = True

    def act(self, obs: Any, mask: Any = None) -> Any:
        seen = self._layout.unpack(obs)
        return ((seen["counts"][..., 0] > 0) & (seen["means"][..., 0] < 0.5)) + self._arms * (seen["time"] % 10 == 9)


class UploadsIfEven(Fed2UCB):
    """Uploads only if its private rewards add up to an even number; passed before."""

    public_schedule = True
    fast = Fed2UCB.fast

    def plan(self, knowledge: Any, room: Array) -> Any:
        pulls, asks = Fed2UCB.plan(self, knowledge, room)
        sums = knowledge.sums if hasattr(knowledge, "sums") else np.rint(knowledge.counts * knowledge.means)
        return pulls, asks & (sums.sum(-1) % 2 < 1)


class FastUploads(Fed2UCB):
    """Lies where it is played at once, and never by steps."""

    public_schedule = True

    def fast(self, view: PublicView) -> Any:
        return EpochPlan(partial(UploadsIfEven.plan, self))  # type: ignore[arg-type]


class Remembers(UploadsIfItLikes):
    """Pulls arm 0 and keeps its rewards, [T] arrays [B, N]."""

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        self._rewards: list[Array] = []
        self._horizon = view.horizon

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        self._rewards.append(reward)

    def uploads(self, time: Array) -> Any:
        raise NotImplementedError

    def act(self, obs: Any, mask: Any = None) -> Any:
        return self._arms * np.asarray(self.uploads(self._layout.unpack(obs)["time"]), np.int64)


class LastRound(Remembers):
    """Uploads in the last round if its last reward was 1."""

    public_schedule = True

    def uploads(self, time: Array) -> Any:
        return (time == self._horizon - 1) & (self._rewards[-1] > 0) if self._rewards else time < 0


class LastAgent(Remembers):
    """Only the last agent lies."""

    public_schedule = True

    def uploads(self, time: Array) -> Any:
        last = np.arange(time.shape[1]) == time.shape[1] - 1
        return ((time % 10 == 9) & ~last) | (last & (np.sum(self._rewards, 0) % 2 == 1) & (time > 30))


class AllOnes(Remembers):
    """Does not upload if all its rewards were 1."""

    public_schedule = True

    def uploads(self, time: Array) -> Any:
        return (time == 20) & (np.mean(self._rewards, 0) < 1) if self._rewards else time < 0


class Lately(Remembers):
    """Begins to lie after a first third that looks like any other."""

    public_schedule = True

    def uploads(self, time: Array) -> Any:
        if len(self._rewards) < 40:
            return time < 0
        early = np.mean(self._rewards[:20], 0)
        return (early > 0) & (early < 1) & (np.sum(self._rewards[20:], 0) % 2 == 1) & (time % 10 == 9)


KEPT: dict[str, Array] = {}


class Confides(PPCL):
    """An agent that leaves where a communicator finds it what it holds."""

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        self._fields = view.roles[self.role].layout

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        KEPT["own"] = self._fields.unpack(obs)["own"].argmax(-1)
        return super().act(obs, mask)


class Overhears(ConstantLevel):
    """Chooses a level by what an agent confided to it."""

    public_schedule = True

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        KEPT.clear()

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        return super().act(obs, mask) * (KEPT.get("own", np.zeros((len(obs), 1))) == 0)


class WithoutIt(TPriDO):
    """Takes back what its base declares by asking in another way."""

    def who_asks(self) -> Any:
        return (self._tree.own_sums.sum() % 2 == 0) & self._may_ask


@pytest.mark.parametrize(
    ("liar", "world", "params", "given"),
    [
        (Pretends, "recommender_v0", LONG, {}),
        (Uploads, "federated_bandit_v0", ARMS, {}),
        (PullsWhatItLikes, "federated_bandit_v0", ARMS, {}),
        (WithoutIt, "recommender_v0", LONG, {"threshold": ALWAYS}),
        *(
            (liar, "federated_bandit_v0", ARMS | {"horizon": 60}, {})
            for liar in (LastRound, LastAgent, AllOnes, Lately)
        ),
        (Overhears, "gossip_bandit_v0", WORDS, {}),
        (UploadsIfEven, "federated_bandit_v0", ARMS | {"horizon": 60}, {}),
        (FastUploads, "federated_bandit_v0", ARMS | {"horizon": 60}, {}),
    ],
)
def test_the_check_finds_schedules_that_are_not(liar: Any, world: str, params: Any, given: Any) -> None:
    beside = {"agent": Confides()} if liar is Overhears else {}
    with pytest.raises(AssertionError, match=r"\b(of message|sends|declares no|not sent before)\b"):
        schedule_is_public(Play(liar, world, params, given=given, beside=beside))


def test_the_check_says_when_it_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was for single numbers, which were turned over to themselves."""
    monkeypatch.setattr(Private, "instead", lambda self, data, x, kind, count: x)
    with pytest.raises(AssertionError, match="no private number of pull bool was changed in the early part of a run"):
        schedule_is_public(Play("UCB1", "federated_bandit_v0", ARMS | {"horizon": 20}))


def test_a_declaration_does_not_hold_for_who_overrides_a_piece() -> None:
    for policy, finite in ((TPriDO(ALWAYS), True), (WithoutIt(ALWAYS), False)):
        env = Privatize(recommender_v0.population(1, **SMALL), "statistics", TreeAggregation(0.1))
        run = taciturn.simulate(env, policy, seed=0)
        assert np.isfinite(event(run, "statistics")).all() == finite


def test_an_agent_that_misses_answers_falls_back_on_its_own_data() -> None:
    for faults, finite in (((), True), ((LossyChannel(0.5),), False)):
        env: Any = Privatize(recommender_v0.population(1, **SMALL), "statistics", TreeAggregation(0.1))
        for fault in faults:
            env = Faulty(env, "statistics", fault)
        run = taciturn.simulate(env, TPriDO(ALWAYS), seed=0)
        assert np.isfinite(event(run, "statistics")).all() == finite


class NamesOthersRecords(DTPriDO):
    """Says of agent 0's records, to whoever asks, that they are agent 1's."""

    public_schedule = True

    def entered(self, who: Any, reader: Any) -> Any:
        for replica, agent, when in super().entered(who, reader):
            yield replica, np.where(agent == 0, 1, agent), when


class NamesNobody(DTPriDO):
    public_schedule = True

    def entered(self, who: Any, reader: Any) -> Any:
        return ()


@pytest.mark.parametrize(("liar", "found"), [(NamesOthersRecords, True), (NamesNobody, False), (DTPriDO, False)])
def test_the_check_finds_records_that_are_charged_to_others(liar: Any, found: bool) -> None:
    """Records that are named by nobody are charged to everybody, so that nothing is hidden from the accountant then."""
    played = Play(liar, "recommender_v0", SHOP, given={"threshold": ALWAYS, "rate": 2.0})
    if found:
        with pytest.raises(AssertionError, match=r"one event is in \d+ streams on 'statistics', \d+ charged"):
            schedule_is_public(played)
    else:
        schedule_is_public(played)


@pytest.mark.parametrize(("name", "share"), [("sensitivity", "message"), ("disjoint", "one event costs")])
def test_the_check_finds_a_world_that_states_too_little(name: str, share: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the sensitivity that it has; and parallel composition where each reward enters two means."""
    send = FederatedBandit.between
    if name == "sensitivity":
        state = model.mean_sensitivity
        monkeypatch.setattr(model, "mean_sensitivity", lambda share: state(share) / 2)
    else:
        monkeypatch.setattr(FederatedBandit, "between", lambda self, live: (send(self, live), send(self, live))[0])
    with pytest.raises(AssertionError, match=share):
        schedule_is_public(Play("PublicPlan", "federated_bandit_v0", ARMS | {"horizon": 30}))
