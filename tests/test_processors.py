"""What a seed decides is the same on every processor: runs under other vector units and other kernels of BLAS, in
processes of their own, against runs under this machine's."""

import dataclasses
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_fast_forms import ARMS, PLAYS
from test_public_view import OWN, SETTINGS

import taciturn
from taciturn import registry
from taciturn.envs.core import Array

OTHERS = {
    "AVX2": {"NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR", "OPENBLAS_CORETYPE": "Haswell"},
    "SSE": {"NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR", "OPENBLAS_CORETYPE": "Nehalem"},
}
"""Settings as of older processors; on one of these they change nothing, and neither can the tests fail."""
MORE: list[tuple[str, str, dict[str, Any]]] = [
    ("FixedCount", "federated_training_v0", {"concentration": 0.5, "num_clients": 10, "horizon": 60.0}),
    ("CoopUCB2", "federated_bandit_v0", ARMS | {"num_agents": 8, "topology": "ring"}),
    ("DDUCB", "federated_bandit_v0", ARMS | {"num_agents": 8, "topology": "ring"}),
]
REPLICAS = 4


def numbers(value: Any, name: str, into: dict[str, Array]) -> None:
    """Every array of numbers in a state or a mapping."""
    if dataclasses.is_dataclass(value) or isinstance(value, dict):
        inner = value if isinstance(value, dict) else vars(value)
        for key, one in inner.items():
            numbers(one, f"{name}.{key}", into)
    elif isinstance(value, np.ndarray) and value.dtype.kind in "iubf":
        into[name] = value


def play_everything() -> dict[str, Array]:
    """How runs of every policy end, in each way in which it is played."""
    found: dict[str, Array] = {}
    plays = [(name, *setting, None) for name, setting in SETTINGS.items()]
    plays += [(name, *setting) for name, settings in PLAYS.items() for setting in settings]
    plays += [(*one, {}, None) for one in MORE]
    for place, (name, world, params, beside, privacy) in enumerate(plays):
        policy = registry.make_policy(name, **OWN.get(name, {}))
        population = registry.make_world(world).population(REPLICAS, **params)
        role = next(role for role in population.roles if role not in beside)
        who = {role: policy, **beside} if beside else policy
        run = taciturn.simulate(population, who, seed=1, privacy=privacy)
        numbers({"metrics": run.metrics, "state": population.state}, f"{place} {name} in {world}", found)
    return found


def differing(one: dict[str, Array], other: dict[str, Array]) -> list[str]:
    """The arrays that differ by more than last digits."""
    assert one.keys() == other.keys()
    found = []
    for name, array in one.items():
        last = registry.entry(name.partition(" in ")[2].partition(".")[0]).tolerance
        real = array.dtype.kind == "f"
        near = real and np.allclose(array, other[name], rtol=last, atol=last / 1000, equal_nan=True)
        found += [name] * (not near and not np.array_equal(array, other[name]))
    return found


def under(setting: dict[str, str], folder: Path) -> dict[str, Array]:
    """The same from a process of its own, with these variables."""
    out = folder / "runs.pkl"
    command = [sys.executable, "-W", "ignore", __file__, str(out)]
    subprocess.run(command, env=os.environ | setting, check=True, timeout=600)
    found: dict[str, Array] = pickle.loads(out.read_bytes())
    return found


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Array]:
    return under({}, tmp_path_factory.mktemp("here"))


@pytest.mark.slow
@pytest.mark.parametrize("setting", OTHERS)
def test_what_a_seed_decides_is_the_same_on_every_processor(
    here: dict[str, Array], setting: str, tmp_path: Path
) -> None:
    assert len(here) > 5000
    assert differing(here, under(OTHERS[setting], tmp_path)) == []


def test_an_order_that_differs_is_found() -> None:
    order, mean = ("0 PPCL in gossip_bandit_v0.state." + name for name in ("order", "mean"))
    one = {order: np.array([0, 2, 1]), mean: np.array([0.1, np.nan])}
    assert differing(one, {order: np.array([0, 2, 1]), mean: np.array([0.1 + 1e-15, np.nan])}) == []
    assert differing(one, {order: np.array([0, 1, 2]), mean: np.array([0.1 + 1e-9, np.nan])}) == [order, mean]


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(pickle.dumps(play_everything()))
