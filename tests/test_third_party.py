"""Privacy on environments of Gymnasium, mpe2 and pettingzoo.classic: they still are what their interface says, and tell
no more."""

import itertools
import math
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from mpe2 import simple_speaker_listener_v4, simple_spread_v3
from pettingzoo.classic.rps import rps

from taciturn.envs.core import Array
from taciturn.privacy.mechanisms import (
    BitwiseRandomizedResponse,
    Gaussian,
    KaryRandomizedResponse,
    Laplace,
    Mechanism,
    Memoized,
    NoPrivacy,
)
from taciturn.wrappers.third_party import PrivatizeAction, PrivatizeObservation, PrivatizeReward

with warnings.catch_warnings():
    warnings.simplefilter(
        "ignore", DeprecationWarning
    )  # it imports one of its environments in the way that it deprecates
    from pettingzoo.test import api_test, parallel_api_test

Wrap = Callable[[Any], Any]

CART = (-3.0, 3.0)
WIDTHS = np.array(
    [6, 6, 4 * 12 * 2 * math.pi / 360, 6]
)  # of CartPole's observation within CART: its angle lies within 24 degrees
SPREAD = (-3.0, 3.0)


def cart_observation(env: Any) -> Any:
    return PrivatizeObservation(env, Laplace(5.0), bounds=CART)


def cart_reward(env: Any) -> Any:
    return PrivatizeReward(env, Gaussian(1.0, 1e-6), bounds=(0, 1))


def cart_action(env: Any) -> Any:
    return PrivatizeAction(env, KaryRandomizedResponse(3.0, 2))


def spread_observation(env: Any) -> Any:
    return PrivatizeObservation(env, Gaussian(2.0, 1e-6), bounds=SPREAD)


def spread_reward(env: Any) -> Any:
    return PrivatizeReward(env, Laplace(1.0), bounds=(-10, 0))


def spread_action(env: Any) -> Any:
    return PrivatizeAction(env, KaryRandomizedResponse(3.0, 5))


def rps_observation(env: Any) -> Any:
    return PrivatizeObservation(env, KaryRandomizedResponse(3.0, 4))


def rps_reward(env: Any) -> Any:
    return PrivatizeReward(env, Laplace(1.0), bounds=(-1, 1))


def rps_action(env: Any) -> Any:
    return PrivatizeAction(env, KaryRandomizedResponse(3.0, 3))


CARTPOLE = (cart_observation, cart_reward, cart_action)
SPREADING = (spread_observation, spread_reward, spread_action)
RPS = (rps_observation, rps_reward, rps_action)


def nest(env: Any, wraps: tuple[Wrap, ...]) -> Any:
    for wrap in wraps:
        env = wrap(env)
    return env


def orders(wraps: tuple[Wrap, ...]) -> list[tuple[Wrap, ...]]:
    return [*((wrap,) for wrap in wraps), *itertools.permutations(wraps)]


def cartpole(**params: Any) -> Any:
    return gymnasium.make("CartPole-v1", **params)


def cartpoles(mode: AutoresetMode = AutoresetMode.NEXT_STEP, num_envs: int = 3) -> Any:
    return SyncVectorEnv([cartpole] * num_envs, autoreset_mode=mode)


def spread(**params: Any) -> Any:
    return simple_spread_v3.parallel_env(**params)


def play(env: Any, steps: int = 40, seed: int | None = 0) -> list[Any]:
    """All that a Gymnasium, vector or Parallel environment tells when the actions are always the same."""
    told = [env.reset(seed=seed)]
    done: Any = False
    for step in range(steps):
        if isinstance(env, gymnasium.Env):
            told.append(env.reset() if done else env.step(step % 2))
            done = len(told[-1]) == 5 and (told[-1][2] or told[-1][3])
        elif isinstance(env, gymnasium.vector.VectorEnv):
            told.append(env.step(np.full(env.num_envs, step % 2)))
        else:
            told.append(env.step(dict.fromkeys(env.agents, step % 3)) if env.agents else env.reset())
    return told


def play_aec(env: Any, seed: int | None = 0) -> list[Any]:
    env.reset(seed=seed)
    told = []
    for agent in env.agent_iter():
        *seen, terminated, truncated, _ = env.last()
        told.append([agent, *seen, terminated, truncated])
        env.step(None if terminated or truncated else len(told) % 3)
    return told


def same(first: Any, second: Any) -> bool:
    return gymnasium.utils.env_checker.data_equivalence(first, second)


# They are what their interface says.


def complaints(check: Callable[..., Any], env: Any, **params: Any) -> set[str]:
    """What a check warns of, but for that the environment has wrappers."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        check(env, **params)
    return {text for text in (str(warning.message) for warning in told) if "using `env.unwrapped`" not in text}


@pytest.mark.api
@pytest.mark.parametrize("wraps", orders(CARTPOLE))
def test_gymnasium_checks(wraps: tuple[Wrap, ...]) -> None:
    before = complaints(check_env, cartpole(), skip_render_check=True)
    assert complaints(check_env, nest(cartpole(), wraps), skip_render_check=True) == before


@pytest.mark.api
@pytest.mark.parametrize("wraps", orders(SPREADING))
def test_parallel_checks(wraps: tuple[Wrap, ...]) -> None:
    parallel_api_test(nest(spread(), wraps), num_cycles=60)


@pytest.mark.api
@pytest.mark.parametrize("wraps", orders(RPS))
def test_aec_checks(wraps: tuple[Wrap, ...]) -> None:
    before = complaints(api_test, rps.env(), num_cycles=60)
    assert complaints(api_test, nest(rps.env(), wraps), num_cycles=60) <= before
    parallel_api_test(nest(rps.parallel_env(), wraps), num_cycles=60)


@pytest.mark.api
def test_aec_checks_with_boxes() -> None:
    api_test(nest(simple_spread_v3.env(), SPREADING), num_cycles=60)


def test_environments_of_this_suite_are_environments() -> None:
    from taciturn.envs import round_stopping_v0

    env = PrivatizeObservation(round_stopping_v0.parallel_env(num_clients=3), Laplace(5.0))
    parallel_api_test(env, num_cycles=30)
    with pytest.raises(ValueError, match="env must be a Gymnasium or PettingZoo environment"):
        PrivatizeObservation(round_stopping_v0.population(), Laplace(5.0))


@pytest.mark.parametrize("wraps", list(itertools.permutations(CARTPOLE)))
def test_spec_makes_the_same_environment(wraps: tuple[Wrap, ...]) -> None:
    env = nest(cartpole(max_episode_steps=9), wraps)
    again = gymnasium.make(env.spec)
    assert again.spec == env.spec
    assert same(play(again), play(env))


@pytest.mark.parametrize(
    "make",
    [lambda: nest(cartpole(), CARTPOLE), lambda: nest(spread(), SPREADING), lambda: nest(rps.parallel_env(), RPS)],
)
def test_pickled_in_the_middle(make: Callable[[], Any]) -> None:
    new = pickle.loads(pickle.dumps(make()))
    assert same(play(new), play(make()))
    copy = pickle.loads(pickle.dumps(new))
    assert same(copy.accountant.epsilon(), new.accountant.epsilon())
    if isinstance(new, gymnasium.Env):
        assert same(play(copy, seed=None, steps=0)[0][0], play(new, seed=None, steps=0)[0][0])


# Luck.


@pytest.mark.parametrize(
    ("make", "wraps"),
    [(cartpole, CARTPOLE), (cartpoles, CARTPOLE), (spread, SPREADING), (rps.parallel_env, RPS)],
)
def test_seeds_and_nesting(make: Callable[[], Any], wraps: tuple[Wrap, ...]) -> None:
    first = play(nest(make(), wraps))
    for order in itertools.permutations(wraps):
        assert same(play(nest(make(), order)), first)
    assert not same(play(nest(make(), wraps), seed=1), first)


def test_seeds_and_nesting_of_aec() -> None:
    first = play_aec(nest(rps.env(), RPS))
    for order in itertools.permutations(RPS):
        assert same(play_aec(nest(rps.env(), order)), first)
    assert not same(play_aec(nest(rps.env(), RPS), seed=1), first)


@pytest.mark.parametrize(("make", "wraps"), [(cartpole, CARTPOLE), (cartpoles, CARTPOLE), (spread, SPREADING)])
def test_environment_keeps_its_luck(make: Callable[[], Any], wraps: tuple[Wrap, ...]) -> None:
    """With noise on observations the rewards and ends are those of the bare environment, and the other way round."""
    bare, blurred, taxed = (play(env) for env in (make(), wraps[0](make()), wraps[1](make())))
    assert same([step[1:4] for step in bare if len(step) == 5], [step[1:4] for step in blurred if len(step) == 5])
    assert same([step[0] for step in bare], [step[0] for step in taxed])
    assert not same([step[0] for step in bare], [step[0] for step in blurred])


def test_wrapped_environment_is_not_changed() -> None:
    env = cartpole()
    before = play(env)
    play(nest(env, CARTPOLE))
    assert same(play(env), before)


def test_seed_lists_of_vector_environments() -> None:
    def observed(seed: Any) -> Array:
        return np.asarray(cart_observation(cartpoles()).reset(seed=seed)[0])

    assert same(observed([1, 2, 3]), observed([1, 2, 3]))
    assert not same(observed([1, 2, 3]), observed([1, 2, 4]))
    assert not same(observed([None, None, None]), observed([None, None, None]))


def test_each_kind_of_message_has_its_own_luck() -> None:
    envs = [wrap(cartpole()) for wrap in CARTPOLE]
    for env in envs:
        env.reset(seed=0)
    assert len({str(np.random.Generator(env._rng.bit_generator).random()) for env in envs}) == 3


def test_noise_goes_on_where_no_seed_is_given() -> None:
    env = PrivatizeReward(cartpole(), Laplace(1.0), bounds=(0, 1))
    first, second, third = (play(env, 3, seed)[1][1] for seed in (5, None, None))
    assert len({first, second, third}) == 3
    assert play(env, 3, 5)[1][1] == first


# The law of the messages.


class Told(gymnasium.Env[Any, Any]):
    """Shows what it was given, and earns 2."""

    def __init__(self, space: Any, value: Any) -> None:
        self.observation_space = self.action_space = space
        self.value = value

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.value, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.taken = action
        return self.value, 2.0, False, False, {}


def observations(env: Any, times: int = 4000) -> Array:
    env.reset(seed=0)
    return np.array([env.step(env.action_space.low)[0] for _ in range(times)])


@pytest.mark.parametrize("sampler", ["fast", "exact"])
@pytest.mark.parametrize("kind", [Laplace, Gaussian])
def test_sensitivity_is_the_diameter_of_the_bounds(kind: Any, sampler: str) -> None:
    """Deviations of 12000 draws estimate the noise scale within 4% at a false-alarm rate below 1e-4."""
    epsilon = 300.0  # so little noise that clipping into the space does not matter
    mechanism: Any = Laplace(epsilon, sampler=sampler) if kind is Laplace else Gaussian(epsilon, 1e-2, sampler=sampler)
    low, high = np.array([0, 0, -2], np.float32), np.array([4, 3, 10], np.float32)
    env = PrivatizeObservation(Told(Box(low, high), np.array([2, 1.5, 4], np.float32)), mechanism)
    noise = observations(env) - [2, 1.5, 4]
    if kind is Laplace:
        assert np.abs(noise).mean() == pytest.approx((4 + 3 + 12) / epsilon, rel=0.04)
    else:
        assert noise.std() == pytest.approx(13 * mechanism.noise_multiplier, rel=0.04)
    assert abs(noise.mean()) < 0.02


def test_exact_sampler_pays_for_rounding() -> None:
    """Its grid's step is at most 2^-24 noise scales, and the rounding of 3 numbers may add 3 steps."""
    env: Any = PrivatizeObservation(Told(Box(0, 1, (3,)), np.zeros(3)), Laplace(1e-3, sampler="exact"))
    sensitivity = env._releases["agent"].mechanism.sensitivity
    assert sensitivity == pytest.approx(3 + 3 * 1000 * sensitivity / 2**24, rel=1e-12)


def test_integers_are_rounded() -> None:
    env = PrivatizeObservation(Told(Box(0, 255, (9,), np.uint8), np.full(9, 200, np.uint8)), Laplace(1e6))
    assert (env.reset(seed=0)[0] == 200).all()


def test_sensitivity_of_cartpole() -> None:
    env = PrivatizeObservation(cartpole(), Laplace(1e4), bounds=CART)
    bare = np.array([cartpole().reset(seed=seed)[0] for seed in range(500)])
    noise = np.array([env.reset(seed=seed)[0] for seed in range(500)]) - bare
    assert np.abs(noise).mean() == pytest.approx(WIDTHS.sum() / 1e4, rel=0.1)


def test_sensitivity_given() -> None:
    space, mechanism = Box(-np.inf, np.inf, (2,), np.float64), Laplace(1e6, sensitivity=2.0)
    noise = observations_of_unbounded(PrivatizeObservation(Told(space, np.zeros(2)), mechanism))
    assert np.abs(noise).mean() == pytest.approx(2e-6, rel=0.06)


def observations_of_unbounded(env: Any) -> Array:
    env.reset(seed=0)
    return np.array([env.step(np.zeros(2))[0] for _ in range(4000)])


def test_values_are_clipped_before_they_are_noised() -> None:
    """An observation, a reward and an action outside the bounds leave as if they were on them."""
    space = Box(-np.inf, np.inf, (2,), np.float64)
    for value in (np.array([7.0, -7.0]), np.array([np.inf, -np.inf])):
        env = PrivatizeObservation(Told(space, value), Laplace(1e9), bounds=([-1, -2], 3))
        np.testing.assert_allclose(env.reset(seed=0)[0], [3, -2], atol=1e-6)
    env = PrivatizeReward(Told(space, np.zeros(2)), Laplace(1e9), bounds=(-1, 1))
    env.reset(seed=0)
    assert env.step(np.zeros(2))[1] == pytest.approx(1, abs=1e-6)
    told = Told(space, np.zeros(2))
    env = PrivatizeAction(told, Laplace(1e9), bounds=(-1, 1))
    env.reset(seed=0)
    env.step(np.array([5.0, 0.5]))
    np.testing.assert_allclose(told.taken, np.array([1, 0.5]), atol=1e-6)


@pytest.mark.parametrize(
    "space",
    [
        Box(0, 255, (4, 4), np.uint8),
        Box(-(2**63), 2**63 - 1, (2,), np.int64),
        Box(-1, 1, (3,), np.float32),
        Box(-1, 1, (), np.float64),
        Box(-1, np.inf, (3,), np.float16),
        Discrete(5, start=-2),
    ],
)
def test_messages_lie_in_their_space(space: Any) -> None:
    box = isinstance(space, Box)
    mechanism: Mechanism = Laplace(0.01) if box else KaryRandomizedResponse(0.1, 5)
    bounds = (-1, 100) if box else None
    space.seed(0)
    value = space.sample()
    told = Told(space, value)
    env = PrivatizeAction(PrivatizeObservation(told, mechanism, bounds=bounds), mechanism, bounds=bounds)
    seen = [env.reset(seed=0)[0]]
    for _ in range(50):
        seen.append(env.step(value)[0])
        assert told.taken in space
    for message in seen:
        assert message in space
        assert type(message) is type(value)
    assert len({str(message) for message in seen}) > 1


def test_k_ary_response_keeps_its_law() -> None:
    """4000 draws: a count outside 5 standard deviations has probability below 1e-5 under the law."""
    mechanism = KaryRandomizedResponse(3.0, 4)
    env = PrivatizeObservation(Told(Discrete(4, start=10), 11), mechanism)
    env.reset(seed=0)
    kept = sum(env.step(10)[0] == 11 for _ in range(4000))
    assert abs(kept - 4000 * mechanism.p) < 5 * math.sqrt(4000 * mechanism.p * (1 - mechanism.p))


def test_agents_have_spaces_of_their_own() -> None:
    env = PrivatizeObservation(simple_speaker_listener_v4.parallel_env(), Laplace(1e6), bounds=(-2, 2))
    bare = simple_speaker_listener_v4.parallel_env().reset(seed=0)[0]
    private = env.reset(seed=0)[0]
    for agent, observation in private.items():
        np.testing.assert_allclose(observation, np.clip(bare[agent], -2, 2), atol=1e-3)
        assert observation in env.observation_space(agent)
    with pytest.raises(ValueError, match=r"mechanism must fit the action of speaker_0, Discrete\(3\)"):
        PrivatizeAction(simple_speaker_listener_v4.parallel_env(), KaryRandomizedResponse(1.0, 5))


def test_observation_asked_for_twice_is_one_message() -> None:
    env = rps_observation(rps.env())
    env.reset(seed=0)
    assert {int(env.observe("player_0")) for _ in range(50)} == {int(env.last()[0])}
    assert env.accountant.messages("observation").tolist() == [[1, 0]]


def test_rewards_of_aec_add_up() -> None:
    """What `last` reports is what `rewards` held, agent by agent; the raw rewards are nowhere."""
    env = PrivatizeReward(rps.env(), Laplace(1.0), bounds=(-1, 1))
    env.reset(seed=0)
    messages = 0
    for agent in env.agent_iter():
        _, reward, terminated, truncated, _ = env.last()
        assert env.rewards[agent] == reward
        assert all(env.rewards[other] == 0 for other in env.agents if other != agent)
        assert (reward == 0) == (messages == 0)
        messages += 1
        env.step(None if terminated or truncated else 1)
    assert env.accountant.messages("reward").sum() == messages - 1


@pytest.mark.parametrize("mode", list(AutoresetMode)[:2])
def test_final_observations_are_noised(mode: AutoresetMode) -> None:
    env = cart_observation(cartpoles(mode))
    bare, private = play(cartpoles(mode)), play(env)
    finals = np.zeros(3)
    for (_, _, _, _, raw), (_, _, _, _, info) in zip(bare[1:], private[1:], strict=True):
        assert raw.keys() == info.keys()
        for replica in np.flatnonzero(raw.get("_final_obs", np.zeros(3))):
            assert (raw["final_obs"][replica] != info["final_obs"][replica]).all()
            finals[replica] += 1
    assert (finals.sum() > 0) == (mode is AutoresetMode.SAME_STEP)
    assert (env.accountant.messages("observation")[:, 0] == len(private) + finals).all()


def test_masked_reset_repeats_other_messages() -> None:
    env = cart_observation(cartpoles(AutoresetMode.DISABLED))
    first = env.reset(seed=0)[0]
    mask = np.array([True, False, True])
    second = env.reset(options={"reset_mask": mask})[0]
    assert ((first == second).all(1) == ~mask).all()
    assert env.accountant.messages("observation").tolist() == [[2], [1], [2]]


# What was spent.


def test_accountant_counts_messages_for_life() -> None:
    env = nest(cartpole(max_episode_steps=4), CARTPOLE)
    for _ in range(2):
        env.reset(seed=0)
        while not any(env.step(0)[2:4]):
            pass
    assert [env.accountant.messages(name).item() for name in ("observation", "reward", "action")] == [10, 8, 8]
    assert env.accountant.epsilon(0, method="basic", channel="observation").item() == pytest.approx(10 * 5.0)
    assert env.accountant.epsilon(0, method="basic", channel="action").item() == pytest.approx(8 * math.log(4))
    assert env.accountant.per_message["observation"].epsilon == 5.0
    assert {(c.observer, c.unit) for c in env.accountant.channels.values()} == {("public", "event")}
    assert env.env.env.accountant.channels.keys() == {"observation"}


def test_accountant_of_agents_and_replicas() -> None:
    env = nest(spread(max_cycles=5), SPREADING)
    env.reset(seed=0)
    while env.agents:
        env.step(dict.fromkeys(env.agents, 0))
    assert env.accountant.messages("observation").tolist() == [[6, 6, 6]]
    assert env.accountant.messages("action").tolist() == [[5, 5, 5]]
    vector = nest(cartpoles(), CARTPOLE)
    play(vector, steps=7)
    assert vector.accountant.messages("reward").tolist() == [[7]] * 3
    assert np.isfinite(vector.accountant.epsilon(1e-6)).all()


def test_accountant_of_aec_counts_turns() -> None:
    env = nest(rps.env(max_cycles=3), RPS)
    play_aec(env)
    assert env.accountant.messages("action").tolist() == [[3, 3]]
    assert env.accountant.messages("observation").tolist() == [[4, 4]]
    assert env.accountant.messages("reward").tolist() == [[3, 4]]


@pytest.mark.parametrize("wrap", [PrivatizeObservation, PrivatizeReward, PrivatizeAction])
def test_no_privacy_counts_as_infinite(wrap: Any) -> None:
    env = wrap(cartpole(), NoPrivacy())
    assert env.accountant.epsilon(0, method="basic").item() == 0
    assert same(play(env), play(cartpole()))
    assert env.accountant.epsilon(0, method="basic").item() == math.inf


def test_no_privacy_leaves_compound_spaces() -> None:
    space = Dict(at=Box(-1, 1, (2,)), mask=Discrete(2))
    value = {"at": np.zeros(2, np.float32), "mask": 1}
    assert PrivatizeObservation(Told(space, value), NoPrivacy()).reset(seed=0)[0] == value


# Refusals.

UNBOUNDED = Box(-np.inf, np.inf, (2,))
LAPLACE = Laplace(1.0)
REFUSED: list[tuple[Any, Any, dict[str, Any], str]] = [
    (Box(-1, 1), "laplace", {}, "mechanism must be Laplace, Gaussian, KaryRandomizedResponse or NoPrivacy"),
    (Box(-1, 1), BitwiseRandomizedResponse(1.0), {}, "mechanism must be Laplace, Gaussian"),
    (Box(-1, 1), Memoized(LAPLACE), {}, "mechanism must be Laplace, Gaussian"),
    (Discrete(3), LAPLACE, {}, "mechanism must fit the observation"),
    (Dict(a=Box(-1, 1)), LAPLACE, {}, "flatten compound spaces"),
    (Box(-1, 1), KaryRandomizedResponse(1.0, 3), {}, "mechanism must fit the observation"),
    (Discrete(4), KaryRandomizedResponse(1.0, 3), {}, "mechanism must fit the observation"),
    (Discrete(3), KaryRandomizedResponse(1.0, 3), {"bounds": (0, 1)}, "bounds must be None"),
    (Discrete(3), NoPrivacy(), {"bounds": (0, 1)}, "mechanism must fit the observation"),
    (UNBOUNDED, LAPLACE, {}, "bounds must be given"),
    (UNBOUNDED, LAPLACE, {"bounds": (0, math.inf)}, "bounds must be given"),
    (UNBOUNDED, LAPLACE, {"bounds": (-1e308, 1e308)}, "bounds must be given"),
    (UNBOUNDED, LAPLACE, {"bounds": (1, 0)}, "bounds must be"),
    (UNBOUNDED, LAPLACE, {"bounds": (0, math.nan)}, "bounds must be"),
    (UNBOUNDED, LAPLACE, {"bounds": 3}, "bounds must be"),
    (UNBOUNDED, LAPLACE, {"bounds": (0, 1, 2)}, "bounds must be"),
    (UNBOUNDED, LAPLACE, {"bounds": (0, [1, 2, 3])}, "bounds must be"),
    (UNBOUNDED, LAPLACE, {"bounds": ("a", "b")}, "bounds must be"),
    (Box(-1, 1), LAPLACE, {"bounds": (2, 3)}, "bounds must overlap"),
    (Box(-1, 1), LAPLACE, {"bounds": (1, 1)}, "bounds must contain more than one value"),
    (Box(-1, 1), Laplace(1e-8, sampler="exact"), {}, "exact sampler"),
]


@pytest.mark.parametrize(("space", "mechanism", "params", "message"), REFUSED)
def test_refused_parameters(space: Any, mechanism: Any, params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        PrivatizeObservation(Told(space, None), mechanism, **params)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("make", [cartpole, cartpoles, spread, rps.env])
def test_rewards_need_bounds(make: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match=r"bounds must be given .* reward"):
        PrivatizeReward(make(), LAPLACE)


@pytest.mark.parametrize(("make", "wraps"), [(cartpole, CARTPOLE), (spread, SPREADING), (rps.env, RPS)])
def test_one_mechanism_each(make: Callable[[], Any], wraps: tuple[Wrap, ...]) -> None:
    env = nest(make(), wraps)
    for wrap in wraps:
        with pytest.raises(ValueError, match="env must have no mechanism on its"):
            wrap(env)


def test_no_environment() -> None:
    with pytest.raises(ValueError, match="env must be a Gymnasium or PettingZoo environment"):
        PrivatizeObservation("CartPole-v1", LAPLACE)


def state_of(env: Any) -> Any:
    return env._count.copy(), env._rng.bit_generator.state if env._rng else None


@pytest.mark.parametrize(
    ("make", "wrap", "wrong"),
    [
        (cartpole, cart_action, [2, -1, 0.5, "left", None, [0], np.nan]),
        (cartpoles, cart_action, [0, [0, 1], [0, 1, 2], [0, 1, 0.5], np.zeros((3, 1), int), None]),
        (spread, spread_action, [{"agent_0": 0, "agent_1": 9}, {"agent_0": 0, "nobody": 0}, {"agent_0": None}]),
        (rps.env, rps_action, [3, -1, 0.5, "rock", None, [0]]),
        (
            lambda: Told(Box(-1, 1, (2,)), np.zeros(2)),
            lambda e: PrivatizeAction(e, LAPLACE),
            [0, [0, 0, 0], "a"],
        ),
    ],
)
def test_wrong_actions_change_nothing(make: Callable[[], Any], wrap: Wrap, wrong: list[Any]) -> None:
    env = wrap(make())
    env.reset(seed=0)
    before = pickle.dumps(state_of(env))
    for action in wrong:
        with pytest.raises(ValueError, match="must be"):
            env.step(action)
        assert pickle.dumps(state_of(env)) == before


@pytest.mark.parametrize("bounds", [None, (-math.inf, math.inf)])
def test_messages_that_are_not_finite_raise_nothing(bounds: Any) -> None:
    """They leave as 0, or as what is nearest within the bounds: an error would tell what noise hides."""
    space = Box(-1, 1, (3,), np.float64) if bounds is None else Box(-math.inf, math.inf, (3,), np.float64)
    edge = 1.0 if bounds is None else 1e100
    distribution = Laplace(1.0, sensitivity=None if bounds is None else 1.0)
    found = []
    for value in ([math.nan, math.inf, -math.inf], [0.0, edge, -edge]):
        told = Told(space, np.array(value))
        env = PrivatizeAction(PrivatizeObservation(told, distribution), distribution)
        found.append([env.reset(seed=0)[0], env.step(np.array(value))[0], told.taken])
    assert np.isfinite(found[0]).all()
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize("seed", [-1, 0.5, "a"])
@pytest.mark.parametrize("make", [cartpole, spread, rps.env])
def test_wrong_seeds_change_nothing(make: Callable[[], Any], seed: Any) -> None:
    env = PrivatizeReward(make(), LAPLACE, bounds=(-1, 1))
    env.reset(seed=0)
    before = pickle.dumps(state_of(env))
    with pytest.raises(ValueError, match="seed must be"):
        env.reset(seed=seed)
    assert pickle.dumps(state_of(env)) == before


class EndsAtThree(gymnasium.Env[Any, Any]):
    """Shows the time, and ends after three steps, in all replicas at once."""

    observation_space = gymnasium.spaces.Box(0.0, 3.0, (2,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(2), {}

    def step(self, action: int) -> Any:
        self.time += 1
        return np.full(2, float(self.time)), 0.0, self.time == 3, False, {}


def test_final_observations_of_replicas_that_end_together_have_noise_of_their_own() -> None:
    vector = SyncVectorEnv([EndsAtThree] * 3, autoreset_mode=AutoresetMode.SAME_STEP)
    env: Any = PrivatizeObservation(vector, Laplace(1.0))
    env.reset(seed=0)
    for step in range(1, 10):
        shown, _, terminated, _, info = env.step(np.zeros(3, np.int64))
        assert terminated.all() == (step % 3 == 0)
        if terminated.all():
            finals = np.stack(list(info["final_obs"]))
            everything = np.concatenate([finals, shown]).ravel()
            inside = everything[(everything > 0) & (everything < 3)]  # numbers are clipped to their space
            assert np.unique(inside).size == inside.size
            assert ((finals == 3) | (finals != np.round(finals)) | (finals == 0)).all()
            assert (finals != 3).any(), "no final observation is shown as it is"
    assert env.accountant.messages("observation").ravel().tolist() == [10 + 3] * 3
