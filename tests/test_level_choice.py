"""Speaking as an action: levels are chosen from what is public, charged as chosen, and have the law that they claim."""

import math
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from cases import by_kind, run_all
from distributions import fits
from scipy.stats import kstest

import taciturn
from taciturn import registry
from taciturn.channels.replies import read_distribution
from taciturn.envs import arm_elimination_v0, federated_bandit_v0, gossip_bandit_v0, social_bandit_v0
from taciturn.envs.core import Array, ChannelConfig, Controlled, LevelChoice, World, begin
from taciturn.policies import (
    CDPMAB,
    PPCL,
    ConstantLevel,
    EliminationSchedule,
    LevelPlan,
    Listener,
    Policy,
    PrivateSocialLearning,
    PublicPlan,
    Random,
)
from taciturn.policies.external.rows import Predictor
from taciturn.privacy.mechanisms import ChosenLevels
from taciturn.testing import Case, Check, check_mechanism, world_checks
from taciturn.wrappers import BitwiseRandomizedResponse, Exponential, Faulty, Laplace, LossyChannel, Privatize, audit

ALARM = 1e-4
LEVELS = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)
SPEAKS: dict[str, Any] = {"message_levels": "chosen"}
WORDS: dict[str, Any] = SPEAKS | {"without_preference": "zeros", "num_agents": 4}
GOSSIP: dict[str, Any] = WORDS | {"horizon": 3.0}
SOCIAL: dict[str, Any] = WORDS | {"copies": 3, "walk_length": 4, "horizon": 8}
ARMS: dict[str, Any] = SPEAKS | {"num_agents": 3, "num_arms": 4, "horizon": 40}
WORLDS: list[tuple[World[Any, Any, ...], dict[str, Any], Callable[[], Policy]]] = [
    (gossip_bandit_v0, GOSSIP, PPCL),
    (gossip_bandit_v0, GOSSIP | {"asks": "one"}, Random),
    (social_bandit_v0, SOCIAL, PrivateSocialLearning),
    (federated_bandit_v0, ARMS, Random),
]


class WithSpeakers(Case):
    """A world with communicators; where one agent acts, the communicators are constant."""

    def __init__(self, world: str, channel: str, **params: Any) -> None:
        super().__init__(world, params, privacy={channel: None})
        self.given["communicators"] = "ConstantLevel"


ELIMINATION: dict[str, Any] = SPEAKS | {"num_agents": 3, "num_arms": 3, "horizon": 200}
CASES = [
    WithSpeakers("gossip_bandit_v0", "preference", **GOSSIP, epsilon_budget=4.0),
    WithSpeakers("social_bandit_v0", "preference", **SOCIAL, epsilon_budget=4.0),
    WithSpeakers("federated_bandit_v0", "means", **ARMS | {"horizon": 20}),
    WithSpeakers("arm_elimination_v0", "means", **ELIMINATION),
]
CHECKS = [some for case in CASES for some in by_kind(case.name, world_checks(case))]


@pytest.mark.parametrize("checks", CHECKS)
def test_worlds_with_speakers_pass_the_checks_of_all_worlds(checks: list[Check]) -> None:
    run_all(checks)


def plays(world: Any, params: dict[str, Any], agent: Any, communicator: Any, num_envs: int = 2, seed: int = 0) -> Any:
    return taciturn.simulate(
        world.population(num_envs, **params), {"agent": agent, "communicator": communicator}, seed=seed
    )


# What is charged.


@pytest.mark.parametrize(("world", "params", "agent"), WORLDS)
def test_the_accountant_charges_what_was_chosen(world: Any, params: dict[str, Any], agent: Any) -> None:
    """The total of each agent against the sum of the levels at which it was seen to send, with random levels."""
    env, rng = world.population(3, **params), np.random.default_rng(1)
    env.reset(seed=0, options={"public_schedule": True})
    policy, (channel,) = agent(), env.channels.values()
    policy.reset(env, np.random.default_rng(2), "agent")
    expected, largest = np.zeros((2, 3, channel.num_senders))
    said: list[Array] = []
    send = channel.send

    def sending(x: Array, senders: Array | None = None, *rest: Any, **named: Any) -> Any:
        who = np.broadcast_to(channel.live[:, None], x.shape[:2])
        said.append(who if senders is None else who & senders)
        return send(x, senders, *rest, **named)

    channel.send = sending
    observation = env.observe()
    while not env.done.all():
        actions = rng.integers(0, len(LEVELS), (3, channel.num_senders))
        env.step({"communicator": actions})
        before = len(said)
        observation = env.observe()["agent"]
        env.step({"agent": policy.act(observation, env.action_mask("agent"))})
        for who in said[before:]:
            expected += np.take(LEVELS, actions) * who
            largest = np.maximum(largest, np.take(LEVELS, actions) * who)
    assert (expected > 0).any()
    np.testing.assert_allclose(env.accountant.epsilon(delta=0.0, method="basic"), expected, rtol=1e-12)
    np.testing.assert_allclose(env.spent(), expected, rtol=1e-12)
    once = env.accountant.epsilon(delta=0.0, method="basic", unit="event")
    np.testing.assert_allclose(once, largest if channel.disjoint else expected, rtol=1e-12)


def test_rho_of_chosen_levels_is_that_of_the_mechanism() -> None:
    for mechanism in (BitwiseRandomizedResponse(3.0), Laplace(3.0)):
        chosen = ChosenLevels(mechanism)
        for level in (0.1, 1.0, 10.0):
            assert chosen.zcdp * level**2 == pytest.approx(type(mechanism)(level).loss().rho)
        assert chosen.loss() == mechanism.loss()


def test_a_total_masks_what_does_not_fit() -> None:
    env: Any = gossip_bandit_v0.population(2, **GOSSIP, epsilon_budget=1.35)
    env.reset(seed=0, options={"public_schedule": True})
    shown = []
    for action in (3, 3, 2, 2, 1):
        shown.append(env.action_mask("communicator")[0, 0].tolist())
        env.step({"communicator": np.full((2, 4), action)})
        env.step({"agent": np.tile([4, 0, 0], (2, 1, 1))})
    left = [1.35, 0.35, 0.35, 0.05, 0.05]  # the second 1.0 and the second 0.3 do not fit, nor does 0.1
    assert shown == [[int(level <= room + 1e-9) for level in LEVELS] for room in left]
    np.testing.assert_allclose(env.accountant.epsilon(delta=0.0, method="basic"), 1.3)
    seen = env.roles["communicator"].layout.unpack(env.observe()["communicator"])
    np.testing.assert_allclose(seen["spent"], 1.3, rtol=1e-6)
    np.testing.assert_allclose(seen["left"], 0.05, rtol=1e-5)
    np.testing.assert_array_equal(seen["standing"], np.float32(0.3))


def test_messages_of_one_turn_that_do_not_fit_together_are_not_sent() -> None:
    """An agent that has missed a round sends two messages at once, and 1.5 pays for one."""
    env: Any = federated_bandit_v0.population(1, **ARMS | {"num_agents": 2, "num_arms": 2}, epsilon_budget=1.5)
    env.reset(seed=0, options={"public_schedule": True})
    for uploads in ([2, 0], [0, 2]):
        env.step({"communicator": np.full((1, 2), 3)})
        env.step({"agent": np.array([uploads])})
    np.testing.assert_array_equal(env.channel.messages(), [[1, 1]])
    np.testing.assert_allclose(env.accountant.epsilon(delta=0.0, method="basic"), [[1.0, 1.0]])


# What is sent.


def received_bits(level: float, size: int, mechanism: Any = None) -> tuple[Array, Array]:
    """Bits that were read of 4 x `size` agents of a social bandit at a level, and their true bits."""
    env: Any = social_bandit_v0.population(size, **SOCIAL, num_options=3, levels=(0.0, level))
    env.reset(seed=3)
    env.step({"communicator": np.ones((size, 4), np.int64)})
    kept: list[tuple[Array, Array]] = []
    send = env.channel.send

    def sending(x: Array, *rest: Any) -> Any:
        y, delivered = send(x, *rest)
        assert delivered.all()
        kept.append((y.copy(), x.copy()))
        return y, delivered

    env.channel.send = sending
    if mechanism is not None:
        env.channel.config = ChannelConfig(mechanism)
    env.step({"agent": np.tile([0, 0, 1], (size, 4, 1))})
    return kept[0]


class HalvesTheLevel(ChosenLevels):
    """Says at twice the level that is charged."""

    def at(self, level: float) -> Any:
        return super().at(2 * level)


def flips(bits: Array, truth: Array, level: float) -> float:
    """The least p-value of the flips of ones and of zeros, against 1 / (e^(level/2) + 1)."""
    chance = 1 / (math.exp(level / 2) + 1)
    wrong = bits.astype(np.bool_) != truth
    return min(fits(np.bincount(wrong[truth == bit], minlength=2), [1 - chance, chance]) for bit in (False, True))


@pytest.mark.parametrize(("level", "size"), [(0.1, 4000), (0.3, 1500), (1.0, 500)])
def test_each_level_has_the_law_of_its_epsilon(level: float, size: int) -> None:
    """Chi-squared, false alarms below 1e-4; twice the level fails."""
    assert flips(*received_bits(level, size), level) > ALARM / 6
    assert flips(*received_bits(level, size, HalvesTheLevel(BitwiseRandomizedResponse(level))), level) < 1e-6


@pytest.mark.parametrize("level", [0.3, 1.0])
def test_means_have_laplace_noise_of_their_level(level: float) -> None:
    """Kolmogorov and Smirnov, false alarms below 1e-4, on uploads after one and after four pulls."""
    for pulls in (1, 4):
        env: Any = federated_bandit_v0.population(1500, **SPEAKS, num_agents=2, num_arms=1, horizon=9, qualities=(1.0,))
        env.reset(seed=5, options={"public_schedule": True})
        for slot in range(pulls):
            env.step({"communicator": np.full((1500, 2), LEVELS.index(level))})
            env.step({"agent": np.full((1500, 2), int(slot == pulls - 1))})
        noise = (env.state.private[:, :, 0] - 1.0).ravel()
        assert kstest(noise, "laplace", args=(0, 1 / (pulls * level))).pvalue > ALARM / 4
        assert kstest(noise, "laplace", args=(0, 1 / (2 * pulls * level))).pvalue < 1e-9


def test_level_0_says_nothing_new() -> None:
    """Before its first message an agent sends nothing, and afterwards it repeats that message, whatever it prefers."""
    env: Any = social_bandit_v0.population(50, **SOCIAL)
    env.reset(seed=0, options={"public_schedule": True})
    kept: list[tuple[Array, Array]] = []
    send = env.channel.send

    def sending(*given: Any) -> Any:
        kept.append(send(*given))
        return kept[-1]

    env.channel.send = sending
    for action in (0, 4, 0, 0):
        env.step({"communicator": np.full((50, 4), action)})
        env.step({"agent": np.tile([len(kept) % 5, 1, 1], (50, 4, 1))})
    (_, nobody), (first, all_), *again = kept
    assert not nobody.any()
    assert all_.all()
    for repeated, delivered in again:
        assert delivered.all()
        np.testing.assert_array_equal(repeated, first)
    np.testing.assert_array_equal(env.channel.messages(), 3)
    np.testing.assert_allclose(env.accountant.epsilon(delta=0.0, method="basic"), 3.0)
    again_begun = np.arange(50) < 20
    env.reset(where=again_begun)
    env.step({"communicator": np.zeros((50, 4), np.int64)})
    env.step({"agent": np.tile([0, 1, 1], (50, 4, 1))})
    np.testing.assert_array_equal(kept[-1][1].all(1), ~again_begun)
    np.testing.assert_array_equal(kept[-1][1].any(1), ~again_begun)


def test_a_mean_is_not_repeated() -> None:
    env: Any = federated_bandit_v0.population(1, **ARMS)
    env.reset(seed=0, options={"public_schedule": True})
    for action in (3, 0):
        env.step({"communicator": np.full((1, 3), action)})
        env.step({"agent": np.full((1, 3), 4)})
    np.testing.assert_array_equal(env.channel.messages(), 1)


def test_hearers_know_the_law_of_what_they_hear() -> None:
    """Levels 1, 3, 10 and none: the estimate with the mean p and q has the mean of the preferences, weighted by p - q
    (normal approximation, false alarms below 1e-4)."""
    size, actions = 20_000, np.array([3, 4, 5, 0])
    env: Any = gossip_bandit_v0.population(
        size, **GOSSIP | {"horizon": 1e6}, num_options=2, initial_preferences=[0, 1, 0, 0]
    )
    env.reset(seed=1)
    for _ in range(2):
        env.step({"communicator": np.tile(actions, (size, 1))})
        env.step({"agent": np.tile([2, 0, 0], (size, 1, 1))})
    seen = env.roles["agent"].layout.unpack(env.look("agent", env.acting("agent")))
    np.testing.assert_allclose(4 * seen["received"], 3)
    q = [1 / (math.exp(level / 2) + 1) for level in (1, 3, 10)]
    np.testing.assert_allclose(seen["q"], np.mean(q), rtol=1e-6)
    np.testing.assert_allclose(seen["received_level"], 14 / 3, rtol=1e-6)
    gaps = [1 - 2 * one for one in q]
    share = (seen["counts"][:, 0, 0] * 4 / 3 - np.mean(q)) / (1 - 2 * np.mean(q))
    error = share.std() / size**0.5
    assert abs(share.mean() - (gaps[0] + gaps[2]) / sum(gaps)) < 3.9 * error
    p, found = read_distribution(env.channel)
    np.testing.assert_allclose(p, 1 - found)


def test_a_constant_level_is_that_mechanism(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit, if both draw their noise from one stream: no upload comes before the first choice."""
    monkeypatch.setattr("taciturn.channels.channel.described", lambda value: "")
    params: dict[str, Any] = {"num_agents": 4, "num_arms": 3, "horizon": 500}
    installed = taciturn.simulate(
        federated_bandit_v0.population(3, **params), CDPMAB(), seed=0, privacy={"means": Laplace(1.0)}, fast=False
    )
    chosen = plays(federated_bandit_v0, params | SPEAKS, CDPMAB(), ConstantLevel(1.0), 3)
    assert (chosen.metrics["messages"] > 0).all()
    for name in ("regret", "messages", "epsilon_message", "epsilon_basic"):
        np.testing.assert_array_equal(chosen.metrics[name], installed.metrics[name])


def test_lost_messages_are_not_heard_of() -> None:
    env: Any = Faulty(gossip_bandit_v0.population(400, **GOSSIP), "preference", LossyChannel(0.5))
    assert isinstance(env, LevelChoice)
    env.reset(seed=0)
    env.step({"communicator": np.full((400, 4), 3)})
    env.step({"agent": np.tile([4, 0, 0], (400, 1, 1))})
    share = env.roles["communicator"].layout.unpack(env.observe()["communicator"])["share"][:, 0]
    assert set(np.unique(share)) == {0.0, 0.25, 0.5, 0.75, 1.0}
    comes = env.state.comes
    np.testing.assert_array_equal(4 * share[comes], env.state.received[comes])
    np.testing.assert_allclose(env.spent()[comes], 1.0)


# What communicators see.


class Reads(Random):
    """Keeps all that it observes."""

    def begin(self, view: Any) -> None:
        super().begin(view)
        self.seen: list[Array] = []

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        self.seen.append(obs.copy())
        return super().act(obs, mask)


def observed(plain: Any, agent: Policy, turned: int | None, script: list[Any]) -> list[Array]:
    """What communicators observe in a run in which the private data of the agent `turned` are inverted, and everybody
    receives what the `script` says (an empty one is written)."""

    def private(_: Any, drawn: Array, agents: Array | None = None) -> Array:
        if turned is None:
            return drawn
        over = np.asarray(~drawn if drawn.dtype == np.bool_ else 1 - drawn)
        mine = (np.arange(drawn.shape[1]) if agents is None else agents) == turned
        return np.where(mine.reshape(*mine.shape, *[1] * (drawn.ndim - 2)), over, drawn)

    population = plain.alike(3, private=private)
    channel, communicator = population.channel, Reads()
    pass_on, recorded, place = channel._delivered, bool(script), [0]

    def through(y: Array, sent: Array) -> Any:
        found = pass_on(y, sent)
        if not recorded:
            script.append(found)
        place[0] += 1
        return script[place[0] - 1]

    channel._delivered = through
    configs = plain.channel_configs
    population.reset(seed=0, options={"channels": configs, "public_schedule": True})
    policies = {"agent": agent, "communicator": communicator}
    begin(population, policies)
    population.advance(policies)
    assert place[0] == len(script)
    return communicator.seen


def two_options(world: Any, params: dict[str, Any]) -> Any:
    return world.population(3, **params, **({} if "num_arms" in params else {"num_options": 2}), epsilon_budget=9.0)


@pytest.mark.parametrize(
    ("world", "params", "agent"),
    [*WORLDS[:3], (federated_bandit_v0, ARMS | {"num_arms": 2}, lambda: PublicPlan(until=1.0))],
)
@pytest.mark.parametrize("turned", [0, 2])
def test_what_speakers_see_is_public(world: Any, params: dict[str, Any], agent: Any, turned: int) -> None:
    """With one agent's private data turned over, and all that is received held fixed, they see the same."""
    plain = two_options(world, params)
    script: list[Any] = []
    first = observed(plain, agent(), None, script)
    assert any(delivered.any() for _, delivered in script)
    np.testing.assert_array_equal(observed(plain, agent(), turned, script), first)


class Leaks(LevelChoice):
    """Shows communicators what has been earned so far."""

    def alike(self, num_envs: int, **hooks: Any) -> Any:
        made = super().alike(num_envs, **hooks)
        made.__class__ = Leaks
        return made

    def look(self, role: str, rows: Array | None = None) -> Array:
        seen = super().look(role, rows)
        if role == "communicator":
            seen[:, :, 0] += self._earned[:, None]
        return seen


@pytest.mark.parametrize(("world", "params", "agent"), WORLDS[::2])
def test_a_private_field_is_found(world: Any, params: dict[str, Any], agent: Any) -> None:
    plain = two_options(world, params)
    plain.__class__ = Leaks
    script: list[Any] = []
    first = observed(plain, agent(), None, script)
    assert not np.array_equal(observed(plain, agent(), 0, script), first)


@pytest.mark.parametrize(("world", "params", "agent"), WORLDS)
def test_speakers_are_paid_when_the_run_is_over(world: Any, params: dict[str, Any], agent: Any) -> None:
    env, (communicator, policy) = world.population(4, **params), (Random(), agent())
    env.reset(seed=0)
    for role, one in (("communicator", communicator), ("agent", policy)):
        one.reset(env, np.random.default_rng(1), role)
    earned, paid = np.zeros(4), np.zeros((4, env.roles["communicator"].num_agents))
    while not env.done.all():
        assert not paid[~env.done].any()
        step = env.step({"communicator": communicator.act(env.observe()["communicator"], None)})
        assert not step.reward["communicator"].any()
        step = env.step({"agent": policy.act(step.observation["agent"], env.action_mask("agent"))})
        earned += step.reward["agent"].sum(1)
        paid += step.reward["communicator"]
    np.testing.assert_allclose(paid, np.repeat(earned[:, None], paid.shape[1], 1) / env.roles["agent"].num_agents)


# Audits of whole runs.

RUN: dict[str, Any] = WORDS | {"num_agents": 3, "qualities": (0.9, 0.1), "copies": 4, "horizon": 4}


def audited(levels: tuple[float, ...], communicator: Any, trials: int = 1500) -> Any:
    env: Any = social_bandit_v0.population(1, **RUN, levels=levels)
    policy = {"agent": PrivateSocialLearning(beta=0.95), "communicator": communicator}
    return audit(env, policy=policy, change=(0, 1), trials=trials, confidence=0.9999, seed=0)


@pytest.mark.parametrize("communicator", [LevelPlan([(1.0, 1.0)]), ConstantLevel(1.0)], ids=repr)
def test_whole_runs_keep_the_claim(communicator: Any) -> None:
    """The audit's false-alarm rate is 1e-4."""
    found = audited((0.0, 1.0), communicator)
    assert found.claimed == (1.0 if isinstance(communicator, LevelPlan) else 3.0)
    assert found.certified <= found.claimed


def test_an_audit_of_whole_runs_finds_a_level_that_is_not_what_was_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    at = ChosenLevels.at
    monkeypatch.setattr(ChosenLevels, "at", lambda self, level: at(self, 4 * level))
    found = audited((0.0, 1.0), LevelPlan([(1.0, 1.0)]))
    assert found.claimed == 1.0
    assert found.certified > 1.0


# Who speaks.


def test_moments_are_kept() -> None:
    """The turns in which designed communicators speak in a run of 20 rounds, against moments by hand."""
    env: Any = social_bandit_v0.population(2, **SOCIAL | {"horizon": 20})
    for communicator, moments in (
        (LevelPlan([(3.0, 1.0)]), {3: 1.0}),
        (LevelPlan([(0.0, 0.1), (4.5, 3.0)]), {0: 0.1, 5: 3.0}),
        (LevelPlan([(5.0, 3.0), (10.0, 3.0), (15.0, 3.0)]), {5: 3.0, 10: 3.0, 15: 3.0}),
        (ConstantLevel(0.1), dict.fromkeys(range(19), 0.1)),
        (ConstantLevel(0.0), {}),
    ):
        policies = {"agent": PrivateSocialLearning(), "communicator": communicator}
        env.reset(seed=0)
        begin(env, policies)
        before, spoken = np.zeros((2, 4)), {}
        for time in range(20):
            env.advance(policies, steps=2)
            if (more := env.spent() - before).any():
                assert (more == more[0, 0]).all()
                spoken[time] = pytest.approx(more[0, 0])
            before = env.spent().copy()
        assert spoken == moments, communicator


def test_a_coordinator_is_heard_by_speakers() -> None:
    """Whose reward is that of the coordinator, as there is one; each reward enters one mean."""
    policies = {"coordinator": EliminationSchedule(), "communicator": ConstantLevel(1.0)}
    run = taciturn.simulate(arm_elimination_v0.population(2, **ELIMINATION), policies, seed=0)
    np.testing.assert_array_equal(run.accountant.epsilon(delta=0.0, method="basic", unit="event"), 1.0)
    assert (run.metrics["messages"] > 3).all()


def test_one_moment_is_one_answer_that_everybody_hears() -> None:
    run = plays(gossip_bandit_v0, GOSSIP | {"horizon": 20.0}, PPCL(), LevelPlan([(2.0, 3.0)]), 20)
    np.testing.assert_array_equal(run.accountant.epsilon(delta=0.0, method="basic", unit="user"), 3.0)
    assert (run.metrics["messages"] > 100).all()


def test_plans_say_what_is_wrong_with_them() -> None:
    env: Any = gossip_bandit_v0.population(1, **GOSSIP)
    for communicator, message in (
        (ConstantLevel(0.7), r"epsilon must be one of the environment's levels \[0.0, 0.1, .*\], not 0.7"),
        (LevelPlan([(1.0, 2.0)]), "epsilon must be one of the environment's levels"),
        (PPCL(), "PPCL acts in the worlds of social learning"),
    ):
        with pytest.raises(ValueError, match=message):
            taciturn.simulate(env, {"agent": PPCL(), "communicator": communicator}, seed=0)
    with pytest.raises(ValueError, match="ConstantLevel acts in the role 'communicator'"):
        taciturn.simulate(env, {"agent": ConstantLevel(), "communicator": ConstantLevel()}, seed=0)
    for make, message in (
        (lambda: ConstantLevel(-1.0), "epsilon must be a finite number >= 0"),
        (lambda: LevelPlan([(-1.0, 1.0)]), "plan must have increasing moments from 0 on"),
        (lambda: LevelPlan([]), "plan must be a list of pairs"),
        (lambda: LevelPlan([(1.0, 1.0), (1.0, 1.0)]), "plan must have increasing moments"),
        (lambda: LevelPlan([(1.0, 0.0)]), r"epsilon of plan\[0\] must be a finite number > 0"),
    ):
        with pytest.raises(ValueError, match=message):
            make()
    with pytest.raises(ValueError, match="levels are fixed, not in 'gossip_bandit'"):
        taciturn.simulate(env, {"agent": Listener(), "communicator": ConstantLevel()}, seed=0)


class Declared(Predictor):
    """A network that chooses levels by what communicators observe, and by nothing else."""

    public_schedule = True


def test_one_network_speaks_and_another_acts() -> None:
    """Either role can be trained while a designed policy plays the other."""
    from stable_baselines3 import PPO

    from taciturn.wrappers.sb3 import RowsVecEnv

    env: Any = social_bandit_v0.population(2, **SOCIAL, epsilon_budget=3.0, flat_actions=True)
    for role, others in (
        ("communicator", {"agent": PrivateSocialLearning()}),
        ("agent", {"communicator": LevelPlan([(1.0, 3.0)])}),
    ):
        rows = RowsVecEnv(Controlled(env.around(env.inner, lambda one: one), role, others), seed=0)
        PPO("MlpPolicy", rows, n_steps=16, batch_size=64, n_epochs=1, device="cpu", seed=0).learn(300)
        model = PPO("MlpPolicy", rows, n_steps=16, batch_size=64, n_epochs=1, device="cpu", seed=0).learn(128)
        message_levels = Declared(model) if role == "communicator" else model
        played = taciturn.simulate(
            social_bandit_v0.population(2, **SOCIAL, epsilon_budget=3.0, flat_actions=True),
            {**others, role: message_levels},
            seed=1,
        )
        assert (played.metrics["epsilon_basic"] <= 3.0 + 1e-9).all()


# What is refused.


def test_a_channel_has_one_mechanism() -> None:
    for world, params, distribution in (
        (gossip_bandit_v0, GOSSIP, BitwiseRandomizedResponse(1.0)),
        (federated_bandit_v0, ARMS, Laplace(1.0)),
    ):
        (channel,) = world.population(1, **params).channels
        with pytest.raises(ValueError, match=f"channel '{channel}' has a mechanism already"):
            Privatize(world.population(1, **params), channel, distribution)
    with pytest.raises(ValueError, match="perturbation 'per_token' needs a mechanism with perturb_counts"):
        social_bandit_v0.population(1, **SOCIAL, perturbation="per_token")
    with pytest.raises(ValueError, match="mechanism must be BitwiseRandomizedResponse, UnaryEncoding or Laplace"):
        ChosenLevels(Exponential(1.0))


def test_chosen_levels_are_a_mechanism() -> None:
    for mechanism in (BitwiseRandomizedResponse(1.0), Laplace(1.0, 1.0)):
        for repeats in (True, False):
            check_mechanism(ChosenLevels(mechanism, repeats))


class Secretive(ConstantLevel):
    """Speaks, and may play the agents too: as one object it could choose levels by what these privately observe."""

    def begin(self, view: Any) -> None:
        if self.role == "communicator":
            super().begin(view)

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        message_levels = obs.shape[1] > 1  # agents act one by one
        return super().act(obs, mask) if message_levels else np.zeros((*obs.shape[:2], 3), np.int64)


class Declares(Secretive):
    public_schedule = True


def test_levels_that_are_not_declared_to_be_public_have_no_total() -> None:
    """A communicator that declares nothing, one that is the agents' policy itself, and a loop of steps: certified 6.50
    of a claimed .10 before."""
    both = Declares(1.0)
    for agent, communicator, finite in (
        (PPCL(), ConstantLevel(1.0), True),
        (PPCL(), Random(), True),
        (PPCL(), Declares(1.0), True),
        (PPCL(), Secretive(1.0), False),
        (both, both, False),
        (PPCL(), lambda rows: np.ones(len(rows), np.int64), False),
    ):
        run = plays(gossip_bandit_v0, GOSSIP, agent, communicator)
        for unit in (None, "event", "user"):
            epsilon_budget = run.accountant.epsilon(delta=0.0, method="basic", unit=unit)
            assert (np.isfinite if finite else np.isinf)(epsilon_budget).all()
        assert np.isfinite(run.metrics["epsilon_basic"]).all() == finite
        assert ("infinite" in run.accountant.table()[0]["note"]) != finite
    for other, communicator, finite in ((PPCL(), both, True), (PPCL(), Secretive(1.0), False), (both, both, False)):
        env = Controlled(gossip_bandit_v0.population(1, **GOSSIP), "agent", {"communicator": communicator})
        run = taciturn.simulate(env, other, seed=0)
        assert np.isfinite(run.metrics["epsilon_basic"]).all() == finite


@pytest.mark.parametrize("world", [gossip_bandit_v0, social_bandit_v0])
def test_a_loop_of_steps_declares_its_levels(world: Any) -> None:
    env = world.parallel_env(**(GOSSIP if world is gossip_bandit_v0 else SOCIAL))
    for options, finite in ((None, False), ({"public_schedule": True}, True), ({}, False)):
        _, info = env.reset(seed=0, options=options)
        assert np.isfinite(info["communicator_0"]["epsilon_basic"]) == finite
        while env.agents:
            _, _, _, _, info = env.step({agent: env.action_space(agent).sample() for agent in env.agents})
        assert np.isfinite(info["communicator_0"]["epsilon_basic"]) == finite


def test_totals_are_finite_only_with_agents_whose_schedule_is_public() -> None:
    """Agents that decide when to upload declare it as communicators do."""
    for agent, epsilon_budget in ((CDPMAB(), 1.0), (Random(), 1.0), (registry.make_policy("UCB1"), 0.0)):
        run = plays(federated_bandit_v0, ARMS | {"horizon": 500}, agent, ConstantLevel(1.0))
        np.testing.assert_array_equal(run.accountant.epsilon(delta=0.0, method="basic", unit="event"), epsilon_budget)


# The seat of one agent.


@pytest.mark.parametrize("place", ["agent_0", "agent_2", "communicator_1"])
@pytest.mark.parametrize("world", ["gossip_bandit_v0", "social_bandit_v0"])
def test_the_seat_of_one_agent_is_a_row_of_its_world(world: str, place: str) -> None:
    """Against the world played by hand with the same policies, seed and actions."""
    case = next(case for case in CASES if case.name == world)
    role, number = place.split("_")
    other = "communicator" if role == "agent" else "agent"
    env: Any = gymnasium.make(
        case.id, **case.params, others="Voter", communicators=ConstantLevel(0.3), agent=place
    ).unwrapped
    whole = case.population()
    policies = {"agent": registry.make_policy("Voter"), "communicator": ConstantLevel(0.3)}
    observation, _ = env.reset(seed=4)
    played = Controlled(whole, role, {other: policies[other]})
    played.reset(seed=4)
    policies[role].reset(played.view(), played.stream(f"policy/{role}"), role)
    env.action_space.seed(0)
    steps = 0
    while not played.done[0]:
        rows, seen = played.acting(role), played.observe()
        row = int(number) if rows is None else 0 if rows[0, 0] == int(number) else None
        actions = np.array(policies[role].act(seen, played.action_mask(role)))
        if row is not None:
            np.testing.assert_array_equal(observation, seen[0, row])
            actions[0, row] = action = env.action_space.sample()
        step = played.step(actions)
        if row is not None:
            observation, reward, *_ = env.step(action)
            steps += 1
            assert reward == pytest.approx(step.reward[0, row])
    assert steps > 0
    np.testing.assert_equal(env.population.metrics(), played.metrics())


def test_a_seat_needs_speakers_where_there_are_some() -> None:
    with pytest.raises(ValueError, match="communicators must be a policy, as message_levels is 'chosen', not None"):
        registry.controlled_agent("gossip_bandit_v0", others="Voter", **GOSSIP)
    with pytest.raises(
        ValueError, match="communicators must be None unless message_levels is 'chosen', not 'ConstantLevel'"
    ):
        registry.controlled_agent("gossip_bandit_v0", others="Voter", communicators="ConstantLevel", num_agents=4)
