"""Policies are told what they may know: every one that declares nothing is played with a world that raises on whatever is hidden."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from test_fast_forms import ARMS, GOSSIP, MARKET, PARAMETERS, PLAYS, SOCIAL

import taciturn
from taciturn import registry
from taciturn.envs.core import Array, ChannelConfig, HiddenTruth, Population, PublicView
from taciturn.policies import BestResponse, FixedCount, Mixture, Policy, Random, Truthful, Uniform, Wintall
from taciturn.registry import platform_side
from taciturn.wrappers import BitwiseRandomizedResponse

STOPPING: dict[str, Any] = {"num_clients": 6, "broadcast_time": 0.05, "compute_probability": 0.2, "horizon": 1.0}
ELIMINATION: dict[str, Any] = {"num_agents": 3, "num_arms": 3, "horizon": 300}
CROWD = ("elicitation_v0", MARKET, {"platform": "Wintall"})
SHOP: dict[str, Any] = {"num_agents": 3, "num_items": 40, "repository": 20, "horizon": 30}
# Where the policies without a fast form play: (world, its parameters, who acts beside them).
OTHERS: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = {
    **dict.fromkeys(
        ("FixedCount", "WaitForAll", "Fraction", "Deadline", "OneStepLookAhead"), ("round_stopping_v0", STOPPING, {})
    ),
    **dict.fromkeys(("OptimalStopping", "TabularQ", "LearnedStopping"), ("round_stopping_v0", STOPPING, {})),
    **dict.fromkeys(
        ("FollowMajority", "Uniform", "OracleOption", "SocialQ", "SharedPPO"), ("gossip_bandit_v0", GOSSIP, {})
    ),
    **dict.fromkeys(("IsolatedUCB", "IsolatedThompson", "IsolatedEpsilonGreedy"), ("gossip_bandit_v0", GOSSIP, {})),
    "GosInE": ("social_bandit_v0", SOCIAL, {}),
    "Random": ("social_bandit_v0", SOCIAL, {}),
    **dict.fromkeys(("EliminationSchedule", "LearnedElimination"), ("arm_elimination_v0", ELIMINATION, {})),
    "LearnedPulls": ("federated_bandit_v0", ARMS | {"horizon": 40}, {}),
    **dict.fromkeys(
        ("DUCB", "HCT", "HOO", "ContextualZooming", "GaussLinUCB", "ItemUCB1", "LinUCB", "OracleItem"),
        ("recommender_v0", SHOP, {}),
    ),
    **dict.fromkeys(("BestResponse", "FiniteBestResponse", "FictitiousPlay", "Hedge", "Mixture"), CROWD),
}
OWN: dict[str, dict[str, Any]] = PARAMETERS | {
    "FixedCount": {"k": 2},
    "Deadline": {"slots": 5.0},
    "TabularQ": {"sessions": 1},
    "LearnedStopping": {"stages": 1, "steps": 64, "rows": 2},
    "SocialQ": {"steps": 2000, "num_envs": 4},
    "SharedPPO": {"steps": 256, "num_envs": 4},
    "LearnedElimination": {"steps": 256, "num_envs": 4},
    "LearnedPulls": {"steps": 600, "num_envs": 4},
    "Mixture": {"parts": [(Truthful(), 1.0)]},
}
SETTINGS = OTHERS | {name: plays[0][:3] for name, plays in PLAYS.items()}
TRUTH = dict.fromkeys(SETTINGS, False) | dict.fromkeys(
    (
        "OracleOption",
        "OracleItem",
        "Genie",
        "FlatRate",
        "OutputAgreement",
        "PeerTruthSerum",
        "CommunicationEfficientCDPMAB",
    ),
    True,
)


def make(name: str) -> Any:
    return registry.make_policy(name, **OWN.get(name, {}))


class Guarded:
    """A policy during whose calls the population that it acts in hides its state and its random streams."""

    def __init__(self, policy: Policy, played: Population[Any], monkeypatch: pytest.MonkeyPatch) -> None:
        self.policy, self.played, self.inside = policy, played, False
        state, stream = type(played).state, Population.stream

        def hidden_state(population: Population[Any]) -> Any:
            self.check(population)
            return state.fget(population)  # type: ignore[attr-defined]

        def hidden_stream(population: Population[Any], name: str) -> np.random.Generator:
            self.check(population)
            return stream(population, name)

        monkeypatch.setattr(type(played), "state", property(hidden_state))
        monkeypatch.setattr(type(played), "stream", hidden_stream)
        acting, extra = PublicView.acting, PublicView.__getattr__

        def public_acting(view: PublicView, role: str) -> Array | None:
            with self.calling(False):
                return acting(view, role)

        def public_extra(view: PublicView, name: str) -> Any:
            found = extra(view, name)
            return self.public(found) if getattr(found, "__self__", None) is played else found

        monkeypatch.setattr(PublicView, "acting", public_acting)
        monkeypatch.setattr(PublicView, "__getattr__", public_extra)

    def check(self, population: Population[Any]) -> None:
        if self.inside and population is self.played:
            raise HiddenTruth(f"{self.policy!r} looks behind the world")

    def public(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """What the world offers may look at its own state."""

        def call(*arguments: Any, **named: Any) -> Any:
            with self.calling(False):
                return function(*arguments, **named)

        return call

    @contextmanager
    def calling(self, inside: bool) -> Iterator[None]:
        before, self.inside = self.inside, inside
        try:
            yield
        finally:
            self.inside = before

    def reset(self, env: PublicView, rng: np.random.Generator, role: str | None = None) -> None:
        assert isinstance(env, PublicView)
        with self.calling(True):
            self.policy.reset(env, rng, role)

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        with self.calling(True):
            return self.policy.act(obs, mask)

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        with self.calling(True):
            self.policy.update(obs, action, reward, done)


def play(policy: Any, name: str, monkeypatch: pytest.MonkeyPatch, guarded: bool) -> None:
    world, params, beside = SETTINGS[name]
    env = registry.make_world(world).population(2, **params)
    actor: Any = Guarded(policy, env, monkeypatch) if guarded else policy
    if beside:
        (role,) = set(env.roles) - set(beside)
        actor = {role: actor} | {other: make(one) for other, one in beside.items()}
    taciturn.simulate(env, actor, seed=0, fast=False)


def test_every_policy_is_here() -> None:
    assert set(SETTINGS) == set(registry.policies())


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_who_declares_nothing_sees_nothing_hidden(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = make(name)
    assert policy.needs_truth == TRUTH[name], "tables mark those that know the truth"
    play(policy, name, monkeypatch, guarded=not policy.needs_truth)


@pytest.mark.parametrize("name", ["OracleOption", "CommunicationEfficientCDPMAB"])
def test_who_needs_the_truth_must_declare_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    undeclared = type(name, (registry.policies()[name],), {"needs_truth": False})(**OWN.get(name, {}))
    with pytest.raises(HiddenTruth, match="must declare `needs_truth = True`"):
        play(undeclared, name, monkeypatch, guarded=False)


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
        lambda view: view.ledger,
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
    assert view.reply_law == (bits.p, bits.q)
    assert view.roles["agent"].layout.size == 10


def test_one_role_practises_beside_copies_of_the_others() -> None:
    world: Any = platform_side(2, individuals=BestResponse(), num_individuals=4, fixed_target=True)
    practice: Any = world.view().practice(5, num_individuals=6)
    practice.reset(seed=0)
    world.reset(seed=0)
    assert type(practice) is type(world)
    assert practice.others["individual"] is not world.others["individual"]
    assert (practice.num_envs, practice.params.num_individuals, practice.fixed_target) == (5, 6, True)
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
    """The same setting, the same privacy and other instances: what is learned there cannot be which option is best here."""
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
