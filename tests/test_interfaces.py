"""Every interface of every world: the suites of Gymnasium, PettingZoo and Stable-Baselines3, and what they do not look at."""

import contextlib
import copy
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pettingzoo
import pytest
import worlds as tiny
from cases import CASES, IDS, RUN_TO_HORIZON, SMALL, SOLE, Case, chosen, draw, every, every_id, seen
from gymnasium.utils.env_checker import check_env

from taciturn import registry
from taciturn.envs.core import AECView, ParallelView, SingleEnv, VectorView

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
@every
def test_pettingzoo_api(name: str) -> None:
    with pettingzoo_warnings(CASES[name]):
        api_test(CASES[name].env(), num_cycles=40)


@pytest.mark.api
@every
def test_pettingzoo_parallel_api(name: str) -> None:
    with pettingzoo_warnings(CASES[name]):
        parallel_api_test(CASES[name].parallel_env(), num_cycles=40)


@pytest.mark.api
@every
def test_pettingzoo_render(name: str) -> None:
    render_test(CASES[name].env)


@pytest.mark.api
@pytest.mark.parametrize("name", RUN_TO_HORIZON)
def test_pettingzoo_max_cycles(name: str) -> None:
    max_cycles_test(CASES[name])


@pytest.mark.api
@every_id
def test_gymnasium_check_env(env_id: str) -> None:
    check_env(gymnasium.make(env_id, **IDS[env_id]).unwrapped)


@pytest.mark.filterwarnings("ignore:We recommend you to use a symmetric and normalized Box action space")
@every_id
def test_sb3_check_env(env_id: str) -> None:
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    checker.check_env(gymnasium.make(env_id, **IDS[env_id]).unwrapped)


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


@pytest.mark.api
@pytest.mark.parametrize("entry", [e for e in registry.WORLDS if e.gymnasium], ids=lambda entry: entry.id)
def test_gymnasium_registry(entry: registry.Entry) -> None:
    env = gymnasium.make(entry.id, **SMALL.get(entry.name, {}))
    again = gymnasium.make(env.spec)  # type: ignore[arg-type]
    np.testing.assert_equal(env.reset(seed=0), again.reset(seed=0))
    action = env.action_space.sample()
    np.testing.assert_equal(env.step(action), again.step(action))
    assert env.spec is not None
    assert env.spec.to_json()


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
        tiny.consensus_v0.population(size=5)
