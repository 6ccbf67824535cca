"""Policies are told what they may know: every one that declares nothing is played with a world that raises on whatever
is hidden."""

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cases import MARKET, platform_side
from test_fast_forms import ARMS, GOSSIP, PARAMETERS, PLAYS

import taciturn
from taciturn import registry
from taciturn.describing import fitting
from taciturn.envs.core import Array, ChannelConfig, HiddenTruth, PublicView
from taciturn.envs.gossip_bandit.world import GossipBandit
from taciturn.policies import BestResponse, FixedCount, Mixture, Random, Truthful, Uniform, Wintall
from taciturn.testing.policies import Play, seed_decides_the_run, sees_nothing_hidden
from taciturn.wrappers import BitwiseRandomizedResponse, Budget, Privatize

STOPPING: dict[str, Any] = {"num_clients": 6, "broadcast_time": 0.05, "compute_probability": 0.2, "horizon": 1.0}
ELIMINATION: dict[str, Any] = {"num_agents": 3, "num_arms": 3, "horizon": 300}
CROWD = ("elicitation_v0", MARKET, {"platform": "Wintall"})
SHOP: dict[str, Any] = {"num_agents": 3, "num_items": 40, "repository": 20, "horizon": 30}
SOCIAL: dict[str, Any] = {"num_agents": 12, "copies": 5, "dissemination": "aggregated", "horizon": 30}
SPEAKING: dict[str, Any] = {"message_levels": "chosen", "without_preference": "zeros"}
# Where the policies without a fast form play: (world, its parameters, who acts beside them).
OTHERS: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = {
    **dict.fromkeys(
        ("FixedCount", "WaitForAll", "Fraction", "Deadline", "OneStepLookAhead"), ("round_stopping_v0", STOPPING, {})
    ),
    **dict.fromkeys(
        ("BestDeadline", "FewRounds", "FiniteHorizonStopping", "PlannedTraining"), ("round_stopping_v0", STOPPING, {})
    ),
    "BayesianPrice": ("elicitation_v0", MARKET, {"individual": "BestResponse"}),
    **dict.fromkeys(
        (
            "FlatRate",
            "Genie",
            "InformedPlatform",
            "OutputAgreement",
            "PeerTruthSerum",
            "PostedPrice",
            "UnderstatedTarget",
            "Wintall",
        ),
        ("elicitation_v0", MARKET, {"individual": "TargetQuality"}),
    ),
    **dict.fromkeys(("OptimalStopping",), ("round_stopping_v0", STOPPING, {})),
    **dict.fromkeys(
        ("FollowMajority", "WinStay", "Uniform", "OracleOption", "TrainedAgent"),
        ("gossip_bandit_v0", GOSSIP, {}),
    ),
    **dict.fromkeys(("IsolatedUCB", "IsolatedThompson", "IsolatedEpsilonGreedy"), ("gossip_bandit_v0", GOSSIP, {})),
    **dict.fromkeys(
        (
            "BayesPlan",
            "CentralisedHoldTheBest",
            "CentralisedKnowledgeGradient",
            "HoldTheBest",
            "Listener",
            "OneAnswerOracle",
        ),
        ("gossip_bandit_v0", GOSSIP, {}),
    ),
    **dict.fromkeys(
        ("GittinsIndex", "GosInE", "Random", "PrivateSocialLearning", "Replicator"), ("social_bandit_v0", SOCIAL, {})
    ),
    **dict.fromkeys(("EliminationSchedule", "GrowingSchedule"), ("arm_elimination_v0", ELIMINATION, {})),
    **dict.fromkeys(
        ("PublicPlan", "DividedPlan", "Synchronised", "FedUCB"), ("federated_bandit_v0", ARMS | {"horizon": 40}, {})
    ),
    **dict.fromkeys(
        ("HOO", "ItemUCB1", "LinUCB", "NeuralBandit", "OracleItem"),
        ("recommender_v0", SHOP, {}),
    ),
    **dict.fromkeys(
        (
            "TPriDO",
            "DTPriDO",
            "LogisticBandit",
            "CentralisedLogistic",
            "BlockListener",
            "PeakBayes",
            "CentralisedPeakBayes",
            "PeakListener",
        ),
        ("recommender_v0", SHOP, {}),
    ),
    **dict.fromkeys(
        ("ConstantLevel", "LevelPlan"),
        ("social_bandit_v0", SOCIAL | SPEAKING, {"agent": "Voter"}),
    ),
    **dict.fromkeys(
        (
            "BestResponse",
            "FictitiousPlay",
            "FiniteBestResponse",
            "FreeRider",
            "Hedge",
            "Mixture",
            "TargetQuality",
            "Truthful",
        ),
        CROWD,
    ),
}
OWN: dict[str, dict[str, Any]] = PARAMETERS | {
    "BayesPlan": {"ticks": 3},
    "FixedCount": {"k": 2},
    "FewRounds": {"k": 2},
    "Deadline": {"slots": 5.0},
    "NeuralBandit": {"steps": 2, "num_envs": 2, "rounds": 8},
    "LogisticBandit": {"worlds": 3, "rounds": 20},
    "CentralisedLogistic": {"worlds": 3, "rounds": 20},
    "PeakBayes": {"particles": 8, "steps": 4},
    "CentralisedPeakBayes": {"particles": 8, "steps": 4},
    "PeakListener": {"particles": 8, "steps": 4, "cells": 6, "first": 4},
    "TrainedAgent": {"steps": 300, "settings": {"num_envs": 4}},
    "BlockListener": {"worlds": 3, "rounds": 20, "cells": 6, "first": 4},
    "Mixture": {"parts": [(Truthful(), 1.0)]},
}
SETTINGS = OTHERS | {name: plays[0][:3] for name, plays in PLAYS.items()}
for world in registry.WORLDS if registry.own_policies().keys() - {*SETTINGS} else ():  # those not named above
    fit = {one.partition("(")[0] for some in fitting(world.world).values() for one in some}
    for name in fit & registry.own_policies().keys() - {*SETTINGS}:
        SETTINGS[name] = (world.name, dict(world.small), {})
TRUTH = dict.fromkeys(SETTINGS, False) | dict.fromkeys(
    (
        "OracleOption",
        "OracleItem",
        "Genie",
        "InformedPlatform",
        "FlatRate",
        "OutputAgreement",
        "PeerTruthSerum",
        "CommunicationEfficientCDPMAB",
    ),
    True,
)


def play(name: str, policy: Any = None) -> Play:
    world, params, beside = SETTINGS[name]
    return Play(policy or name, world, params, given=OWN.get(name), beside=beside)


def test_every_policy_is_here() -> None:
    assert set(SETTINGS) == set(registry.own_policies())


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_who_declares_nothing_sees_nothing_hidden(name: str) -> None:
    assert registry.make_policy(name, **OWN.get(name, {})).needs_truth == TRUTH[name], "tables mark those that know it"
    sees_nothing_hidden(play(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_the_seed_decides_the_run_whatever_was_played_before(name: str) -> None:
    seed_decides_the_run(play(name))


def test_a_policy_that_looks_behind_the_world_is_found() -> None:
    class Peeks(Uniform):
        def begin(self, view: PublicView) -> None:
            super().begin(view)
            self.look = [one for one in gc.get_objects() if type(one) is GossipBandit]

        def act(self, obs: Array, mask: Array | None = None) -> Array:
            for one in self.look:
                _ = one._state and one.state
            return super().act(obs, mask)

    with pytest.raises(HiddenTruth, match="looks behind the world"):
        sees_nothing_hidden(Play(Peeks, "gossip_bandit_v0", GOSSIP))


@pytest.mark.parametrize("name", ["OracleOption", "CommunicationEfficientCDPMAB"])
def test_who_needs_the_truth_must_declare_it(name: str) -> None:
    undeclared = type(name, (registry.own_policies()[name],), {"needs_truth": False})
    one = play(name, undeclared)
    with pytest.raises(HiddenTruth, match="must declare `needs_truth = True`"):
        one.run(one.make(), one.population(), fast=False)


class Spy(Uniform):
    """Reads, when it begins, what the test names."""

    def __init__(self, look: Callable[[PublicView], Any]) -> None:
        self.look = look

    def prepare(self, view: PublicView) -> None:
        self.found = self.look(view)


def spied(look: Callable[[PublicView], Any], **options: Any) -> Any:
    spy = Spy(look)
    taciturn.simulate(registry.make_world("gossip_bandit").population(2, **GOSSIP), spy, seed=0, **options)
    return spy.found


@pytest.mark.parametrize(
    "look",
    [
        lambda view: view.truth,
        lambda view: view.state,
        lambda view: view.stream("pulls"),
        lambda view: view.streams,
        lambda view: view.params.qualities,
        lambda view: view.channels["preference"].rng,
        lambda view: view.accountant,
        lambda view: view.measure("best"),
        lambda view: view.step,
    ],
)
def test_what_is_hidden_raises(look: Callable[[PublicView], Any]) -> None:
    with pytest.raises((AttributeError, HiddenTruth)):
        spied(look, privacy={"preference": BitwiseRandomizedResponse(0.01)})


def test_what_is_public_is_there() -> None:
    bits = BitwiseRandomizedResponse(2.0)
    view: PublicView = spied(lambda view: view, privacy={"preference": bits}, until=4.0)
    assert (view.name, view.num_envs, view.horizon, view.params.num_options) == ("gossip_bandit", 2, 4.0, 4)
    channel = view.channels["preference"]
    assert (channel.mechanism, channel.unit, channel.observer, channel.num_senders) == (bits, "event", "neighbour", 12)
    assert view.reply_distribution == (bits.p, bits.q)
    assert view.roles["agent"].layout.size == 10


def test_one_role_practises_beside_copies_of_the_others() -> None:
    world: Any = platform_side(2, individuals=BestResponse(), num_individuals=4)
    practice: Any = world.view().practice(5, num_individuals=6)
    practice.reset(seed=0)
    world.reset(seed=0)
    assert type(practice) is type(world)
    assert practice.others["individual"] is not world.others["individual"]
    assert (practice.num_envs, practice.params.num_individuals) == (5, 6)
    step = practice.step(np.full((5, 1, 1), 0.5, np.float32))
    assert step.reward.shape == (5, 1)
    drawn = [world.stream("probe").random(), practice.stream("probe").random()]
    for purpose in ("evaluation", ""):
        world.purpose = purpose
        world.reset(seed=0)
        drawn.append(world.stream("probe").random())
    assert len(set(drawn)) == 3
    assert drawn[0] == drawn[3]


def test_practice_is_in_worlds_of_their_own() -> None:
    """The same setting, the same privacy and other instances: what is learned there cannot be which option is best
    here."""
    bits = BitwiseRandomizedResponse(2.0)
    world = registry.make_world("gossip_bandit").population(1, **GOSSIP)
    world.reset(seed=0, options={"channels": {"preference": ChannelConfig(bits)}})
    practice = world.view().practice(200, num_agents=5)
    practice.reset(seed=0)
    assert practice is not world
    assert practice.params.num_agents == 5
    assert practice.channels["preference"].config.mechanism == bits
    assert len(set(practice.state.qualities.argmax(1).tolist())) == 4
    with pytest.raises(ValueError, match="num_agents"):
        world.view().practice(2, num_agents=0)


def test_practice_has_the_mechanism_of_a_world_that_has_not_begun() -> None:
    """So that `policy.train(Privatize(world, ...))` trains under noise, and plain `policy.train(world)` without."""
    bits = BitwiseRandomizedResponse(2.0)
    world = registry.make_world("gossip_bandit").population(1, **GOSSIP)
    private = Privatize(world, "preference", bits, Budget(3.0))
    for one, config in ((private, ChannelConfig(bits, Budget(3.0))), (world, ChannelConfig())):
        for _ in range(2):  # before a reset, and after it
            practice = one.view().practice(1)
            practice.reset(seed=0)
            assert practice.channels["preference"].config == config
            one.reset(seed=0)


def test_populations_are_accepted_where_views_are() -> None:
    """A loop of one's own may pass the population: the policy still sees the public side only."""
    env = registry.make_world("gossip_bandit").population(1, **GOSSIP)
    env.reset(seed=0)
    with pytest.raises(HiddenTruth):
        Spy(lambda view: view.truth).reset(env, np.random.default_rng(0))


def test_agents_of_others_see_the_public_side_too() -> None:
    """Whatever has `reset`, `act` and `update` may play; it need not derive from `Policy`."""

    class Stranger:
        def reset(self, env: PublicView, rng: np.random.Generator, role: str | None = None) -> None:
            with pytest.raises(HiddenTruth):
                _ = env.truth
            with pytest.raises(HiddenTruth):
                _ = env.params.qualities

        def act(self, obs: Array, mask: Array | None = None) -> Array:
            return np.zeros((*obs.shape[:2], 3), np.int64)

        def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
            pass

    run = taciturn.simulate(registry.make_world("gossip_bandit").population(1, **GOSSIP), Stranger(), seed=0)
    assert run.metrics["pulls"] > 0


def test_a_mixture_needs_what_its_parts_need() -> None:
    class Oracle(Truthful):
        needs_truth = True

    assert Mixture([(Truthful(), 1), (Oracle(), 1)]).needs_truth
    assert not Mixture([(Truthful(), 1)]).needs_truth
    assert not any(policy.needs_truth for policy in (Random(), Wintall(), FixedCount(3)))


@pytest.mark.parametrize("world", ["gossip_bandit", "social_bandit"])
def test_who_declares_no_memory_acts_by_the_present_observation_alone(world: str) -> None:
    """The same observation and the same random numbers give the same action after another past; agents with memory, for
    which this fails, are found by the same comparison."""

    def acts(name: str, past: int) -> list[Array]:
        population = registry.make_world(world).population(4, num_agents=6, horizon=12)
        policy = registry.make_policy(name)
        observation, _ = population.reset(seed=0)
        policy.reset(population, np.random.default_rng(1))
        first = observation.copy()
        for turn in range(past):
            action = policy.act(observation)
            step = population.step(action)
            policy.update(observation, action, 1.0 - step.reward if turn % 2 else step.reward, population.done)
            observation = step.observation
        policy.rng = np.random.default_rng(2)
        return [policy.act(first)]

    def depends(name: str) -> bool:
        return any((acts(name, 0)[0] != acts(name, past)[0]).any() for past in (6, 9))

    names = ["Voter", "CopyOnReward", "FollowMajority", "WinStay", "Uniform"]
    names += ["PPCL"] if world == "gossip_bandit" else ["PrivateSocialLearning", "Replicator"]
    for name in names:
        assert registry.make_policy(name).memoryless, name
        assert not depends(name), name
    assert not registry.make_policy("IsolatedUCB").memoryless
    assert depends("IsolatedUCB")
