"""Every interface of every world: the suites of Gymnasium, PettingZoo and Stable-Baselines3, and what they do not look at."""

import contextlib
import copy
import inspect
import json
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pettingzoo
import pytest
import worlds as tiny
from cases import (
    CASES,
    IDS,
    MODES,
    ONE_ROLE,
    OTHERS,
    RUN_TO_HORIZON,
    SMALL,
    SOLE,
    Case,
    by_agent,
    chosen,
    draw,
    dressed,
    dresses,
    every,
    every_dressed,
    every_id_dressed,
    seen,
)
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

from taciturn import registry
from taciturn.envs.core import AECView, Array, ParallelView, Population, Seat, SingleEnv, VectorView, World
from taciturn.policies import PPCL
from taciturn.wrappers import (
    BitwiseRandomizedResponse,
    Budget,
    Byzantine,
    Churn,
    Exponential,
    Gaussian,
    KaryRandomizedResponse,
    Laplace,
    LossyChannel,
    Memoized,
    NoPrivacy,
    Stragglers,
    TreeAggregation,
    UnaryEncoding,
)
from taciturn.wrappers.channels import added_configs, as_described, described

with warnings.catch_warnings():
    # Its example environments are made in a way that PettingZoo itself no longer likes.
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    from pettingzoo.test import api_test, max_cycles_test, parallel_api_test, render_test


@contextlib.contextmanager
def pettingzoo_warnings(case: Case) -> Iterator[None]:
    """Let pass what PettingZoo says of all worlds with MultiDiscrete actions or with roles that see different things."""
    roles = case.population().roles.values()
    with warnings.catch_warnings():
        if len({role.layout.size for role in roles}) > 1:
            warnings.filterwarnings("ignore", "Agents have different observation space sizes")
            warnings.filterwarnings("ignore", "Observations are different shapes")
        if any(isinstance(role.action_space, gymnasium.spaces.MultiDiscrete) for role in roles):
            warnings.filterwarnings("ignore", "Action space for each agent probably should be")
        yield


# The suites of others.


@pytest.mark.api
@every_dressed
def test_pettingzoo_api(name: str, dress: str) -> None:
    with pettingzoo_warnings(CASES[name]):
        api_test(dressed(CASES[name].env(), name, dress), num_cycles=40)


@pytest.mark.api
@every_dressed
def test_pettingzoo_parallel_api(name: str, dress: str) -> None:
    with pettingzoo_warnings(CASES[name]):
        parallel_api_test(dressed(CASES[name].parallel_env(), name, dress), num_cycles=40)


@pytest.mark.api
@every
def test_pettingzoo_render(name: str) -> None:
    render_test(CASES[name].env)


@pytest.mark.api
@pytest.mark.parametrize("name", RUN_TO_HORIZON)
def test_pettingzoo_max_cycles(name: str) -> None:
    max_cycles_test(CASES[name])


# It says of every wrapper that it is one.
@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version")
@pytest.mark.api
@every_id_dressed
def test_gymnasium_check_env(env_id: str, dress: str) -> None:
    check_env(dressed(gymnasium.make(env_id, **IDS[env_id]).unwrapped, env_id, dress))


@pytest.mark.filterwarnings("ignore:We recommend you to use a symmetric and normalized Box action space")
@every_id_dressed
def test_sb3_check_env(env_id: str, dress: str) -> None:
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    checker.check_env(dressed(gymnasium.make(env_id, **IDS[env_id]).unwrapped, env_id, dress))


# Info.


def kinds(info: dict[str, Any], masks: bool = False) -> dict[str, Any]:
    """The keys of an info with the types of their values, by role for values by agent; those that may be missing left out."""
    found: dict[str, Any] = {}
    for key, value in info.items():
        if key.removeprefix("_") in ("final_obs", "final_info", "terminal_observation"):
            continue
        assert key.removeprefix("_") != "reward"
        if isinstance(value, dict):
            found[key] = kinds(value)
        elif isinstance(value, np.ndarray):
            assert value.dtype.kind in "biuf", (key, value)
            found[key] = value.dtype, value.shape
        else:
            assert type(value) in (bool, int, float), (key, value)
            found[key] = type(value)
    if masks:
        names = {key.removeprefix("_") for key in info}
        assert set(found) >= {f"_{key}" for key in names if key not in ("final_obs", "final_info")}
    return found


def infos_of_views(name: str, dress: str, steps: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """(whose info it is, the info) at every step and reset of every interface of a world."""
    case, rng = CASES[name], np.random.default_rng(0)
    env: Any = dressed(case.population(2), name, dress)
    yield "array", env.reset(seed=0)[1]
    for step in range(steps):
        if env.done.all() or step == 9:
            yield "array", env.reset()[1]
        yield "array", env.step(chosen(env, draw(env, rng))).info
    env = dressed(case.parallel_env(), name, dress)
    population = env.unwrapped.population
    yield from env.reset(seed=0)[1].items()
    for step in range(steps):
        if not env.agents or step == 9:
            yield from env.reset()[1].items()
        yield from env.step(by_agent(draw(population, rng)))[4].items()
    env = dressed(case.env(), name, dress)
    population = env.unwrapped.population
    env.reset(seed=0)
    for _ in range(5 * steps):
        if not env.agents:
            env.reset()
        *_, terminated, truncated, info = env.last()
        yield f"last of {env.agent_selection}", info
        yield from env.infos.items()
        env.step(None if terminated or truncated else by_agent(draw(population, rng))[env.agent_selection])


def infos_of_one_agent(env_id: str, dress: str, steps: int) -> Iterator[tuple[str, dict[str, Any]]]:
    env: Any = dressed(gymnasium.make(env_id, **IDS[env_id]), env_id, dress)
    env.action_space.seed(0)
    yield "single", env.reset(seed=0)[1]
    for step in range(steps):
        *_, terminated, truncated, info = env.step(env.action_space.sample())
        yield "single", info
        if terminated or truncated or step == 9:
            yield "single", env.reset()[1]
    for mode in MODES:
        env = gymnasium.make_vec(
            env_id, num_envs=3, vectorization_mode="vector_entry_point", autoreset_mode=mode, **IDS[env_id]
        )
        env = dressed(env, env_id, dress)
        env.action_space.seed(0)
        yield mode.value, env.reset(seed=0)[1]
        for _ in range(steps):
            *_, terminated, truncated, info = env.step(env.action_space.sample())
            yield mode.value, info
            if "final_info" in info:
                yield mode.value, info["final_info"]
            ended = terminated | truncated
            if mode is AutoresetMode.DISABLED and ended.any():
                yield mode.value, env.reset(options={"reset_mask": ended})[1]


def infos_of_rows(name: str, dress: str, steps: int) -> Iterator[tuple[str, dict[str, Any]]]:
    rows = pytest.importorskip("taciturn.wrappers.sb3").RowsVecEnv(
        dressed(CASES[name].population(2), name, dress), seed=0
    )
    rng = np.random.default_rng(0)
    rows.reset()
    yield from (("row", info) for info in rows.reset_infos)
    for _ in range(steps):
        actions = draw(rows.population, rng)[rows.role][:, : rows.rows]
        *_, infos = rows.step(actions.reshape(rows.num_envs, *actions.shape[2:]))
        yield from (("row", info) for info in infos)


def assert_alike(infos: Iterable[tuple[str, dict[str, Any]]]) -> None:
    """Whoever is told anything is always told the same keys, with the same types."""
    known: dict[str, Any] = {}
    for who, info in infos:
        vector = who in ("array", *(mode.value for mode in MODES))
        who = who.removeprefix("last of ")
        assert known.setdefault(who, kinds(info, vector)) == kinds(info, vector), who
    assert known


@every_dressed
def test_info_has_the_same_keys_and_types_at_every_step(name: str, dress: str) -> None:
    assert_alike(infos_of_views(name, dress, 60))
    if name in ONE_ROLE:
        assert_alike(infos_of_rows(name, dress, 60))


@every_id_dressed
def test_info_of_one_agent_has_the_same_keys_and_types_at_every_step(env_id: str, dress: str) -> None:
    assert_alike(infos_of_one_agent(env_id, dress, 80))


class Forgetful(tiny.Consensus):
    """Does not tell the time at every step."""

    def transition(self, state: Any, actions: dict[str, Array]) -> tiny.Transition:
        *rest, info = super().transition(state, actions)
        return *rest, {key: value for key, value in info.items() if key != "time" or state.time[0] % 2}


class Secretive(tiny.Consensus):
    """Does not declare what it tells."""

    def empty_info(self) -> dict[str, Any]:
        return {"time": 0}


def test_what_a_turn_leaves_out_is_filled_in_and_what_is_not_declared_is_refused() -> None:
    population = World(Forgetful, tiny.Params).population(2)
    population.reset(seed=0)
    for time in range(1, 5):
        info = population.step(np.zeros((2, 4), np.int64)).info
        told = time % 2 == 0
        assert info["_time"].tolist() == [told] * 2
        assert info["time"].tolist() == [time if told else 0] * 2
    secretive = World(Secretive, tiny.Params).population()
    secretive.reset(seed=0)
    with pytest.raises(
        ValueError, match="empty_info of consensus must declare all keys of info, also _votes, luck, votes"
    ):
        secretive.step(np.zeros((1, 4), np.int64))


def test_gossips_pettingzoo_forms_say_who_acts() -> None:
    for name in ("gossip", "gossip_bandit_v0"):
        env, rng = CASES[name].parallel_env(), np.random.default_rng(0)
        _, infos = env.reset(seed=0)
        for _ in range(30):
            (acting,) = (agent for agent, info in infos.items() if info["acting"])
            assert env.population.acting("agent")[0, 0] == env.possible_agents.index(acting)  # type: ignore[index]
            _, rewards, *_, infos = env.step(by_agent(draw(env.population, rng)))
            assert not any(reward for agent, reward in rewards.items() if agent != acting)
            if not env.agents:
                _, infos = env.reset()
        aec = CASES[name].env()
        aec.reset(seed=0)
        assert [agent for agent, info in aec.infos.items() if info["acting"]] == [aec.agent_selection]


# Spaces and pictures.


@every
def test_observations_lie_in_their_space(name: str) -> None:
    population, rng = CASES[name].population(num_envs=3), np.random.default_rng(0)
    population.reset(seed=0)
    for _ in range(150):
        for role, observation in seen(population).items():
            space = population.roles[role].layout.space()
            assert observation.shape == (3, population.roles[role].num_agents, *space.shape)
            assert observation.dtype == np.float32
            assert all(space.contains(row) for replica in observation for row in replica)
        population.step(chosen(population, draw(population, rng)))
        if population.done.all():
            population.reset()


@every
def test_observations_are_fresh_buffers(name: str) -> None:
    population, rng = CASES[name].population(num_envs=2), np.random.default_rng(0)
    population.reset(seed=0)
    before = {role: rows.copy() for role, rows in seen(population).items()}
    for role, rows in seen(population).items():
        rows[:] = 7
        np.testing.assert_array_equal(seen(population)[role], before[role])
    first = population.observe()
    kept = copy.deepcopy(first)
    population.step(chosen(population, draw(population, rng)))
    np.testing.assert_equal(first, kept)


@every
def test_every_view_renders(name: str) -> None:
    case = CASES[name]
    views: list[Any] = [case.parallel_env]
    if name in SOLE:
        views.append(case.single_env)
    for make in views:
        for mode, kind in (("ansi", str), ("rgb_array", np.ndarray)):
            env = make(render_mode=mode)
            env.reset(seed=0)
            assert isinstance(env.render(), kind)
            env.close()
        with pytest.raises(ValueError, match="render_mode must be one of None, 'human', 'ansi', 'rgb_array', not 'x'"):
            make(render_mode="x")
    if name in SOLE:
        vector = VectorView(case.population(2), render_mode="ansi")
        vector.reset(seed=0)
        assert [type(frame) for frame in vector.render()] == [str, str]


# Registries.

IDS_OF_SUITE = [entry.id for entry in registry.WORLDS]


@pytest.mark.api
@pytest.mark.parametrize(("env_id", "dress"), dresses(IDS_OF_SUITE))
def test_a_spec_in_json_makes_the_same_environment(env_id: str, dress: str) -> None:
    env = dressed(gymnasium.make(env_id, **IDS[env_id]), env_id, dress)
    text = env.spec.to_json()
    again: Any = gymnasium.make(EnvSpec.from_json(text))
    assert again.spec.to_json() == text
    np.testing.assert_equal(env.reset(seed=0), again.reset(seed=0))
    env.action_space.seed(0)
    for _ in range(12):
        action = env.action_space.sample()
        step = env.step(action)
        np.testing.assert_equal(step, again.step(action))
        if step[2] or step[3]:
            break
    assert added_configs(again) == added_configs(env)
    assert bool(added_configs(again)) is (dress != "plain")


def test_everything_that_can_stand_on_a_channel_has_a_plain_form() -> None:
    class Own(LossyChannel):
        pass

    everything = [
        BitwiseRandomizedResponse(1.0), KaryRandomizedResponse(1.0, 4), UnaryEncoding(1.0, "symmetric"), Laplace(1.0, sensitivity=2.0),
        Gaussian(1.0, 1e-5), Exponential(0.5), TreeAggregation(1.0, 8), NoPrivacy(), Memoized(BitwiseRandomizedResponse(1.0)),
        Byzantine(0.2, "constant", (0.0, 2.0)), Churn(0.1, 0.2), LossyChannel(0.1), Stragglers((0.5, 0.2)),
        Budget(3.0, 1e-6, method="zcdp"),
    ]  # fmt: skip
    for one in everything:
        assert as_described(json.loads(json.dumps(described(one), allow_nan=False))) == one
    assert described(Own(0.1))["name"].endswith("_has_a_plain_form.<locals>.Own")
    assert as_described({"name": "taciturn.privacy.calibrated_noise:Laplace", "epsilon": 1.0}) == Laplace(1.0)


# One agent's seat.

ID_OF = {entry.name: entry.id for entry in registry.WORLDS}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("agent", [0, "agent_2"])
def test_a_seat_is_the_population_with_the_same_actions(name: str, agent: Any) -> None:
    """Two runs: what one agent sees, earns and does, where the population is played by hand with the same policy and seed."""
    case, place = CASES[name], int(str(agent)[-1])
    world = case.world._population
    env: Any = gymnasium.make(ID_OF[name], others=OTHERS[name], agent=agent, **case.params).unwrapped
    population, policy = case.population(), registry.make_policy(OTHERS[name])
    waits = world.acting is not Population.acting
    for run in range(2):
        env.action_space.seed(run)
        observation, _ = env.reset(seed=run)
        population.reset(seed=run)
        policy.reset(population, population.stream("policy/agent"))
        open_reward, steps = None, 0
        while not population.done[0]:
            rows = population.acting("agent")
            row = 0 if rows is not None and rows[0, 0] == place else place if rows is None else None
            seen_now = population.observe()
            actions = np.array(policy.act(seen_now, population.action_mask("agent")))
            if row is not None:
                np.testing.assert_array_equal(observation, seen_now[0, row])
                if population.action_mask("agent") is not None:
                    np.testing.assert_array_equal(env.action_masks(), population.action_mask("agent")[0, row])  # type: ignore[index]
                actions[0, row] = action = env.action_space.sample()
                observation, open_reward, _, truncated, _ = env.step(action)
                steps += 1
            step = population.step(actions)
            policy.update(seen_now, actions, step.reward, population.done)
            if row is not None:
                assert open_reward == step.reward[0, row]
        assert truncated
        assert steps > 3
        assert (steps < population.state.ticks[0]) if waits else (steps == population.clock()[0])
        np.testing.assert_equal(env.population.metrics(), population.metrics())


def test_a_seat_waits_for_its_turn_in_every_replica() -> None:
    """Replicas tick at different times: at each step it is the agent's turn in all of them, and who waits is not charged."""
    env: Any = gymnasium.make_vec(
        "taciturn/GossipBandit-v0", num_envs=20, others="PPCL", agent=3, **SMALL["gossip_bandit_v0"]
    )
    env.reset(seed=0)
    env.action_space.seed(0)
    inner, ended = env.unwrapped.population.inner, np.zeros(20, np.bool_)
    for _ in range(60):
        assert (inner.state.ticker[~inner.done, 0] == 3).all()
        *_, terminated, truncated, info = env.step(env.action_space.sample())
        assert not terminated.any()
        assert (info["messages"] == 6 * (inner.state.ticks + ~inner.done)).all()
        ended |= truncated
    assert ended.all()


def test_a_seat_says_what_it_cannot_be() -> None:
    make = partial(gymnasium.make, "taciturn/GossipBandit-v0")
    with pytest.raises(
        ValueError, match=r"gossip_bandit_v0 has many agents: give others=.* or use .*gossip_bandit_v0\.parallel_env"
    ):
        make()
    with pytest.raises(ValueError, match="agent must be an integer >= 0 and <= 399, not 400"):
        make(others="PPCL", agent=400)
    with pytest.raises(ValueError, match="unknown policy 'PPCI': did you mean PPCL"):
        make(others="PPCI")
    with pytest.raises(ValueError, match="a policy without memory in 2 replicas of gossip_bandit_v0, not IsolatedUCB"):
        gymnasium.make_vec("taciturn/GossipBandit-v0", num_envs=2, others="IsolatedUCB")
    with pytest.raises(ValueError, match="horizon must be long enough for agent_3 to act, not 1e-06"):
        make(others="PPCL", agent=3, horizon=1e-6).reset(seed=0)
    # A run without a tick of the agent is drawn again.
    env = make(others="PPCL", agent=3, num_agents=6, horizon=0.5)
    for seed in range(20):
        env.reset(seed=seed)
        env.step(env.action_space.sample())
    with pytest.raises(ValueError, match="population must have no turns, and auction has: use Controlled"):
        Seat(CASES["auction"].population(), "individual", 0, {})


# Parameters.


def test_an_unknown_parameter_is_a_type_error_and_names_the_nearest() -> None:
    """TorchRL looks for a TypeError with these words, and the rest of the suite for a ValueError."""
    for entry in registry.WORLDS:
        world, (first, *_) = entry.world, entry.world.parameters
        policy: dict[str, Any] = {"others": OTHERS[entry.name]} if entry.name in OTHERS else {}
        wrong: dict[str, Any] = {f"{first}x": 3}
        said = f"unexpected keyword argument '{first}x': did you mean '{first}'"
        ways: list[Callable[..., Any]] = [
            world.population, world.parallel_env, world.env, partial(gymnasium.make, entry.id, **policy),
            partial(gymnasium.make_vec, entry.id, num_envs=2, **policy),
        ]  # fmt: skip
        if hasattr(pettingzoo, "make"):
            ways += [partial(pettingzoo.make, kind, entry.id) for kind in ("parallel", "aec")]
        for way in ways:
            for kind in (TypeError, ValueError):
                with pytest.raises(kind, match=said):
                    way(**wrong)
    for one, nearest in ((PPCL, None), (Laplace, "epsilon"), (LossyChannel, "probability"), (Budget, "epsilon")):
        wrong = {f"{nearest}x": 1.0}
        for kind in (TypeError, ValueError):
            with pytest.raises(
                kind,
                match=f"{one.__name__} got an unexpected keyword argument .*" + (f"'{nearest}'" if nearest else ""),
            ):
                one(**wrong)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'epsilon'") as error:
        Laplace()  # type: ignore[call-arg]
    assert not isinstance(error.value, ValueError)
    assert list(inspect.signature(Laplace).parameters) == ["epsilon", "sensitivity", "sampler"]
    with pytest.raises(TypeError, match=r"elicitation got an .* 'individual': did you mean 'individuals'"):
        gymnasium.make("taciturn/Elicitation-v0", individual="Truthful")


@pytest.mark.api
def test_gymnasium_makes_a_world_without_import() -> None:
    code = "import gymnasium; print(gymnasium.make('taciturn:taciturn/RoundStopping-v0').reset(seed=0)[0].shape)"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("(5,)\n", "")


@pytest.mark.skipif(not hasattr(pettingzoo, "make"), reason="this PettingZoo has no registry")
@pytest.mark.parametrize("entry", [e for e in registry.WORLDS if e.pettingzoo], ids=lambda entry: entry.id)
def test_pettingzoo_registry(entry: registry.Entry) -> None:
    for kind, view in (("parallel", ParallelView), ("aec", AECView)):
        assert isinstance(pettingzoo.make(kind, entry.id, **SMALL.get(entry.name, {})), view)


# Masks.


def test_masks_are_claimed_where_actions_are_finite() -> None:
    """Of MultiDiscrete actions those of all dimensions one after another; for Box actions sb3-contrib must not find any."""
    supported = pytest.importorskip("sb3_contrib.common.maskable.utils").is_masking_supported
    vec = pytest.importorskip("stable_baselines3.common.vec_env").DummyVecEnv
    rows = pytest.importorskip("taciturn.wrappers.sb3").RowsVecEnv
    met = set()
    for name in ONE_ROLE:
        env = rows(CASES[name].population(2), seed=0)
        env.reset()
        space = env.action_space
        met.add(type(space))
        assert supported(env) is not isinstance(space, gymnasium.spaces.Box)
        if supported(env):
            size = space.nvec.sum() if isinstance(space, gymnasium.spaces.MultiDiscrete) else space.n
            masks = env.action_masks()
            assert (masks.shape, masks.dtype) == ((env.num_envs, size), np.bool_)
            assert (np.stack(env.env_method("action_masks")) == masks).all()
    for env_id in IDS:
        made = gymnasium.make(env_id, **IDS[env_id])
        box = isinstance(made.action_space, gymnasium.spaces.Box)
        assert supported(made) is not box
        assert supported(vec([lambda made=made: made])) is not box
    assert met == {gymnasium.spaces.Box, gymnasium.spaces.Discrete, gymnasium.spaces.MultiDiscrete}


def test_a_masked_action_does_nothing() -> None:
    population = CASES["corridor"].population(num_envs=50)
    population.reset(seed=0)
    met = 0
    while not population.done.all():
        place = population.state.place
        mask = population.action_mask("walker")
        assert mask is not None
        masked = (mask[:, 0, 0] == 0) & ~population.done
        met += int(masked.sum())
        population.step(np.zeros((50, 1), np.int64))
        np.testing.assert_array_equal(population.state.place[masked], place[masked])
    assert met > 50


def test_masks_are_in_every_info() -> None:
    case = CASES["corridor"]
    for _, info in (case.single_env().reset(seed=0), case.single_env().reset(seed=1)):
        assert info["action_mask"].dtype == np.int8
    vector = case.vector_env(num_envs=3, autoreset_mode="SameStep")
    infos = [vector.reset(seed=0)[1]] + [vector.step(np.full(3, 2))[4] for _ in range(20)]
    for info in infos:
        assert info["action_mask"].shape == (3, 3)
    assert any("action_mask" in info.get("final_info", {}) for info in infos)
    parallel_env = case.parallel_env()
    assert parallel_env.reset(seed=0)[1]["walker_0"]["action_mask"].tolist() == [1, 1, 1]
    assert parallel_env.step({"walker_0": 2})[4]["walker_0"]["action_mask"].dtype == np.int8


def test_views_refuse_what_they_cannot_show() -> None:
    with pytest.raises(ValueError, match="SingleEnv needs a population of one agent, not 4 x agent"):
        CASES["consensus"].single_env()
    with pytest.raises(ValueError, match="VectorView needs a population of one agent, not 1 x platform, 4 x individ"):
        CASES["auction"].vector_env()
    for view in (SingleEnv, ParallelView, AECView):
        with pytest.raises(ValueError, match="needs a population of one replica, but num_envs is 2"):
            view(CASES["corridor"].population(num_envs=2))


def test_max_cycles_is_horizon() -> None:
    assert tiny.consensus_v0.population(max_cycles=5).params.horizon == 5
    with pytest.raises(ValueError, match="max_cycles and horizon name the same"):
        tiny.consensus_v0.population(max_cycles=5, horizon=5)
    with pytest.raises(
        ValueError, match="consensus got an unexpected keyword argument 'size': it has num_agents, horizon"
    ):
        tiny.consensus_v0.population(size=5)  # type: ignore[call-arg]
