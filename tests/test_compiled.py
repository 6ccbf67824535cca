"""Worlds written for one replica: when they are compiled, what they say if they cannot be, and copies of them."""

import copy
import dataclasses
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Discrete

import taciturn
from taciturn.compiling import compiled
from taciturn.envs import federated_bandit_v0, round_stopping_v0
from taciturn.envs.core import Functions, Layout, NotCompiled, Replicas, Role, fields, loops
from taciturn.envs.round_stopping.world import WAIT, RoundStopping
from taciturn.registry import make_policy, make_world
from taciturn.validation import Floats, Ints
from taciturn.wrappers import Laplace, Privatize

FEW: dict[str, Any] = {"num_clients": 8, "broadcast_time": 0.1, "compute_probability": 0.15, "horizon": 5.0}


@pytest.fixture
def fresh() -> Iterator[None]:
    """Asks anew whether worlds may be compiled."""
    compiled.may_compile.cache_clear()
    yield
    compiled.may_compile.cache_clear()


def waited(population: RoundStopping, steps: int) -> Any:
    for _ in range(steps):
        population.step(np.full((population.num_envs, 1), WAIT))
    return population.state


def is_compiled(population: Any) -> bool:
    return not hasattr(population._loops[0], "__code__")


def test_a_world_is_compiled_once_enough_has_been_played(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    monkeypatch.setattr(compiled, "COMPILE_FROM", 30)
    monkeypatch.setattr(compiled, "LOADS_AT", 1.0)
    population = round_stopping_v0.population(4, **FEW)
    population.reset(seed=0)
    found = []
    for _ in range(10):
        waited(population, 1)
        found.append(is_compiled(population))
    assert found == [False] * 6 + [True] * 4  # after 4 begun runs, and 7 turns of 4


REPLACED: dict[str, tuple[dict[str, Any], Any]] = {
    "federated_bandit_v0": ({"num_agents": 4, "num_arms": 3, "horizon": 60}, "CDPMAB"),
    "gossip_bandit_v0": ({"num_agents": 4, "horizon": 4.0}, "PPCL"),
    "social_bandit_v0": ({"num_agents": 4, "horizon": 8}, "PrivateSocialLearning"),
    "elicitation_v0": ({"num_individuals": 4, "horizon": 4}, {"platform": "PostedPrice", "individual": "Truthful"}),
    "recommender_v0": ({"num_agents": 3, "horizon": 40}, "ItemUCB1"),
}


@pytest.mark.parametrize("name", REPLACED)
def test_an_agent_with_constant_data_plays_compiled_and_as_by_the_hook(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An audit changes the data of one agent; the others' are drawn as before."""
    pytest.importorskip("numba")
    monkeypatch.setattr(compiled, "COMPILE_FROM", 0)
    params, policy = REPLACED[name]
    env = make_world(name).population(3, **params)
    found: dict[str, Any] = {}
    for what in ("drawn", "hook", "compiled"):

        def private(_: Any, drawn: Any, agents: Any = None) -> Any:
            changed = drawn.copy()
            changed[(np.arange(drawn.shape[1]) if agents is None else agents) == 1] = 1
            return changed

        if what == "compiled":
            private.plain = compiled.constant(1, 1)  # type: ignore[attr-defined]
        played = env.alike(3, **({} if what == "drawn" else {"private": private}))
        made = (
            {role: make_policy(one) for role, one in policy.items()}
            if isinstance(policy, dict)
            else make_policy(policy)
        )
        found[what] = taciturn.simulate(played, made, seed=4, fast=False).metrics
        if what != "hook":
            assert is_compiled(played)
    np.testing.assert_equal(found["hook"], found["compiled"])
    assert any((found["drawn"][key] != found["compiled"][key]).any() for key in found["drawn"])


@pytest.mark.usefixtures("fresh")
def test_the_environment_forbids_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "COMPILE_FROM", 0)
    monkeypatch.setenv("TACITURN_COMPILE", "0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        population = round_stopping_v0.population(2, **FEW)
        population.reset(seed=0)
        waited(population, 3)
    assert not is_compiled(population)


@pytest.mark.usefixtures("fresh")
def test_without_numba_worlds_say_once_that_they_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "COMPILE_FROM", 0)
    expected = round_stopping_v0.population(2, **FEW)
    expected.reset(seed=0)
    compiled.may_compile.cache_clear()
    monkeypatch.setattr(compiled, "find_spec", lambda name: None)
    with pytest.warns(NotCompiled, match=r"^worlds play slowly: compiling them needs numba \(run pip install numba\)$"):
        population = round_stopping_v0.population(2, **FEW)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        round_stopping_v0.population(2, **FEW)
        population.reset(seed=0)
    np.testing.assert_equal(vars(waited(population, 40)), vars(waited(expected, 40)))
    assert not is_compiled(population)


@pytest.mark.parametrize(("asked", "found"), [("3", 3), ("0", None), ("many", None), ("", None)])
def test_the_environment_says_how_many_threads(asked: str, found: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACITURN_THREADS", asked)
    monkeypatch.setattr("multiprocessing.parent_process", lambda: None)
    loops.num_threads.cache_clear()
    try:
        assert loops.num_threads() == (found or len(os.sched_getaffinity(0)))
        loops.num_threads.cache_clear()
        monkeypatch.setattr("multiprocessing.parent_process", lambda: "a pool")
        assert loops.num_threads() == (found or 1), "processes of a pool share the cores"
    finally:
        loops.num_threads.cache_clear()


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
@pytest.mark.parametrize("compile_from", [0, 10**9])
def test_a_copy_goes_its_own_way(duplicate: Any, compile_from: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "COMPILE_FROM", compile_from)
    population = round_stopping_v0.population(3, time_distribution="pareto", computing=(2.0, 4.0), **FEW)
    population.reset(seed=0)
    before = waited(population, 5)
    other = duplicate(population)
    after = waited(population, 20)
    np.testing.assert_equal(vars(other.state), vars(before))
    np.testing.assert_equal(vars(waited(other, 20)), vars(after))


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda env: Privatize(env, "means", Laplace(epsilon=1.0))]
)
def test_a_copy_counts_its_own_messages(duplicate: Any) -> None:
    population = federated_bandit_v0.population(2, num_agents=3, num_arms=2)
    population.reset(seed=0)
    uploads = np.full((2, 3), 2)
    population.step(uploads)
    other = duplicate(population)
    assert [population.step(uploads).info["messages"].tolist() for _ in range(2)] == [[6, 6], [9, 9]]
    if duplicate in (copy.copy, copy.deepcopy):  # what is wrapped begins anew
        assert other.step(uploads).info["messages"].tolist() == [6, 6]


def test_a_state_does_not_change_when_the_run_goes_on() -> None:
    population = round_stopping_v0.population(3, **FEW)
    population.reset(seed=0)
    state = population.state
    kept = copy.deepcopy(state)
    assert population.state is state
    assert waited(population, 5) is not state
    np.testing.assert_equal(vars(state), vars(kept))


TWO = """
import warnings
warnings.simplefilter("error")
import numpy as np
import taciturn.compiling.compiled
from taciturn.envs import federated_training_v0, round_stopping_v0
taciturn.compiling.compiled.COMPILE_FROM = 0
for world in ({}):
    env = world.population(2, horizon=10.0)
    env.reset(seed=0)
    env.step(np.ones((2, 1), np.int64))
    assert env._loops.compiles
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "order", ["round_stopping_v0, federated_training_v0", "federated_training_v0, round_stopping_v0"]
)
def test_worlds_with_the_same_functions_are_compiled_each_for_its_own_state(order: str, tmp_path: Path) -> None:
    """From nothing, in one process: the state of one begins like the other's, which Numba would take for it."""
    environment = os.environ | {"TACITURN_CACHE": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", TWO.format(order)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@dataclasses.dataclass(frozen=True)
class Short:
    horizon: int = 5


# Names that the core itself uses, for its loops, its own functions and their arguments, and those of tuples.
NAMES = (
    "own", "tell", "take", "keep", "begin", "said", "heard", "observe", "private", "sight", "known", "one", "run",
    "every", "uniform", "state", "arrays", "params", "rng", "info", "Arrays", "Seen", "Known", "np", "min", "len",
    "count", "index",
)  # fmt: skip


def named_world(numbers: bool) -> Any:
    """A population of two agents whose fields have these names: numbers of the run, or arrays of the agents' own. In
    each turn the k-th grows by k + 1, and is observed and told."""
    shape = None if numbers else (lambda params: 2)
    owner: Any = fields.public if numbers else fields.own
    declared: list[Any] = [(field, Floats, owner(shape)) for field in NAMES]
    state_type = dataclasses.make_dataclass("State", [*declared, ("time", Ints, fields.public())], frozen=True)
    scope: dict[str, Any] = {}
    of = "state.{}" if numbers else "arrays.{}[agent]"
    grows = [f"        {of.format(field)} += {k + 1}" for k, field in enumerate(NAMES)]
    shows = [f"    out[{k}] = seen.{field}" for k, field in enumerate(NAMES)]
    first = f"    for agent in range({1 if numbers else 2}):"
    exec("\n".join(["def grow(state, arrays, actions, params, rng):", "    state.time += 1", first, *grows]), scope)
    exec("\n".join(["def show(seen, params, out):", *shows]), scope)

    def end(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
        return False, state.time >= params.horizon

    def start(state: Any, arrays: Any, params: Any, rng: Any) -> None:
        state.time = 0

    class Named(Replicas[Any]):
        name = "named"
        sources = ("none",)
        info_fields = NAMES if numbers else ("time",)
        functions = Functions(reset=start, act=scope["grow"], receive=end, observe=scope["show"])

        def make_roles(self) -> tuple[Role, ...]:
            layout = Layout(**dict.fromkeys(NAMES, (1, 0, 1000)))
            return (Role("agent", 2, layout, Discrete(2)),)

    Named.state_type = state_type
    return Named(Short(), 3)


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize("compile_from", [0, 10**9])
def test_no_name_of_a_field_is_special(numbers: bool, compile_from: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "COMPILE_FROM", compile_from)
    population = named_world(numbers)
    population.reset(seed=0)
    for time in range(1, 4):
        step = population.step(np.zeros((3, 2), np.int64))
        expected = time * np.arange(1, len(NAMES) + 1)
        np.testing.assert_array_equal(step.observation, np.broadcast_to(expected, (3, 2, len(NAMES))))
        for field, value in zip(NAMES, expected.tolist(), strict=True):
            np.testing.assert_array_equal(getattr(population.state, field), np.full((3,) if numbers else (3, 2), value))
            assert not numbers or step.info[field].tolist() == [value] * 3
    assert is_compiled(population) == (compile_from == 0 and compiled.may_compile())


def test_what_names_compiled_code_is_the_same_in_every_process() -> None:
    """A comprehension is code within code, whose `repr` has an address; the order of a set depends on its history."""

    def function(numbers: Any) -> Any:
        return [2 * one for one in numbers if one in {0, 8}]

    code = function.__code__
    assert " at 0x" not in compiled.described_code(code)
    first, second = (code.replace(co_consts=(frozenset(order),)) for order in ([0, 8], [8, 0]))
    assert repr(first.co_consts) != repr(second.co_consts)
    assert compiled.described_code(first) == compiled.described_code(second)
