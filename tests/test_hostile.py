"""Hostile input: whatever a world, a view or a reset is given, it works, or one clear ValueError says why not, and
nothing has changed."""

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from cases import forms

from taciturn import registry
from taciturn.envs import elicitation_v0, round_stopping_v0
from taciturn.envs.core import AECView, ParallelView, SingleEnv, VectorView
from taciturn.testing.cases import fingerprint
from taciturn.wrappers import Gaussian, Privatize
from taciturn.wrappers.channels import population_of

HOSTILE: list[Any] = [
    3,
    -1,
    0,
    10**12,
    2**63,
    10**400,
    10**5000,
    1e300,
    1e-300,
    math.nan,
    math.inf,
    True,
    None,
    "x",
    "",
    b"x",
    "a" * 10_000,
    [],
    [1],
    (),
    {},
    {"a": 1},
    {1},
    [[1, 2], [3]],
    [None],
    ["x"],
    [True, False],
    [-1],
    [1e300, 1e300],
    [0.5, math.nan],
    [10**400],
    [2**63],
    [[]],
    [[0.5, 0.5], [0.5]],
    np.array([]),
    np.array(3),
    np.array([[1, 2], [3, 4]]),
    np.array(["even"]),
    np.array([1, 2], object),
    np.float32(2.0),
    np.int64(3),
    np.bool_(True),
    np.str_("even"),
    object(),
    int,
    1j,
    range(3),
    Decimal("0.5"),
    Fraction(1, 2),
]


def refused(call: Callable[[], Any]) -> str | None:
    """What the ValueError says, in one line that can be read; None if there is none. Any other exception is a
    failure."""
    try:
        call()
    except ValueError as error:
        said = str(error)
        assert "\n" not in said
        assert len(said) < 500
        return said
    return None


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", registry.worlds())
def test_parameters(name: str) -> None:
    world, wrong = registry.worlds()[name], []
    for parameter in world.parameters:
        for value in HOSTILE:
            given = {**registry.entry(name).small, parameter: value}
            if parameter == "data" and isinstance(value, str):  # a path, where no file is
                continue

            def made(given: dict[str, Any] = given) -> None:
                if name == "federated_training_v0":  # its data takes long to read
                    world.Params(**world._named(given))
                else:
                    world.population(1, **given)

            try:
                said = refused(made)
            except Exception as error:  # whatever is no ValueError, warnings included, or not in one short line
                said = f"{type(error).__name__}: {error}"
                wrong.append((parameter, value, said))
                continue
            if not (said is None or parameter in said or (parameter, value) == ("max_epsilon", 0.5)):
                wrong.append((parameter, value, said))
    assert not wrong, wrong


def test_numpy_scalars_are_numbers() -> None:
    numbers: dict[str, Any] = {"target": np.float32(0.5), "num_individuals": np.int64(4), "horizon": np.array(3)}
    env = elicitation_v0.population(max_epsilon=np.float64(5.0), rules=("flat_rate",), **numbers)
    assert type(env.params.max_epsilon) is float
    assert type(env.params.num_individuals) is type(env.params.horizon) is int
    env.reset(seed=0)


def views() -> dict[str, Any]:
    """Every interface, bare and with a mechanism on its channel."""
    bare = forms()
    private = {f"private {name}": Privatize(env, "update", Gaussian(1.0, delta=1e-5)) for name, env in forms().items()}
    return bare | private | {"platform": registry.make_world("elicitation").env(num_individuals=3)}


RESETS: list[tuple[Any, Any]] = [
    (0, options)
    for options in (
        [1],
        0,
        "x",
        (),
        {1},
        np.array([]),
        {"channels": 5},
        {"channels": [1]},
        {"channels": ""},
        {"channels": {"update": 5}},
        {"horizon": "x"},
        {"horizon": math.nan},
        {"channels": {"nowhere": None}},
        {"channels": {1: 2}},
        {"horizon": -1},
        {"horizon": [1]},
        {"horizon": 10**400},
        {"horizon": np.array([1.0, 2.0])},
        {"reset_mask": [[1], [1, 2]]},
        {"reset_mask": "x"},
        {"reset_mask": 7},
    )
] + [(seed, None) for seed in (-1, "x", 1.5, [1, 2], 1j, object())]


def state_of(env: Any) -> bytes:
    """All that can change, with the generators that Gymnasium keeps for users."""
    population = population_of(env)
    assert population is not None
    own = getattr(getattr(env, "unwrapped", env), "_np_random", None)
    return fingerprint(population) + repr(None if own is None else own.bit_generator.state).encode()


@pytest.mark.parametrize("name", views())
def test_resets_that_are_refused_change_nothing(name: str) -> None:
    env = views()[name]
    env.reset(seed=3)
    unknown = 0
    for seed, options in RESETS:
        before = state_of(env)
        said = refused(partial(env.reset, seed=seed, options=options))
        if said is None:  # what a view does not know, it ignores
            assert "reset_mask" in options
            unknown += 1
            env.reset(seed=3)
        else:
            assert state_of(env) == before, (seed, options)
    assert unknown == (0 if "vector" in name else 3)


ACTIONS: list[Any] = [
    None,
    "x",
    [],
    [[1], [1, 2]],
    {},
    {"server_0": None},
    {"nobody": 1},
    10**400,
    math.nan,
    object(),
    1.5,
    -1,
    2**63,
    [None],
]


@pytest.mark.parametrize("name", views())
def test_steps_that_are_refused_change_nothing(name: str) -> None:
    env = views()[name]
    env.reset(seed=3)
    for action in ACTIONS:
        before = state_of(env)
        assert refused(partial(env.step, action)) is not None, action
        assert state_of(env) == before, action


def test_views_need_what_they_say() -> None:
    single: Any = round_stopping_v0.population(2)
    vector: Any = VectorView
    aec: Any = AECView
    single.reset(seed=0)
    for call in (
        lambda: SingleEnv(single),
        lambda: vector(single, "x"),
        lambda: vector(single, 3),
        lambda: vector(single, [1]),
        lambda: vector(single, render_mode="x"),
        lambda: ParallelView(single),
        lambda: aec(round_stopping_v0.population(), [1]),
        lambda: single.measure(["rate"]),
        lambda: single.measure(None),
    ):
        assert refused(call) is not None
