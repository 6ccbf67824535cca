"""Edges: a chunk less one, a chunk, and one more; terminated and truncated together; seeds of a search; whole numbers
as fractions."""

import csv
import pickle
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import CASES
from gymnasium.vector import AutoresetMode
from test_every_parameter import played
from worlds import corridor_v0

from taciturn import registry
from taciturn.bench.results import TUNING_SEEDS, Cell
from taciturn.envs import recommender_v0
from taciturn.envs.federated_training.classifiers import SmallCNN
from taciturn.envs.recommender.rewards import BLOCK, means
from taciturn.logged import estimators, reading
from taciturn.privacy.accountant import Accountant
from taciturn.wrappers import Laplace
from taciturn.wrappers.sb3 import RowsVecEnv

CHUNK = 8
NEAR = (CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 1)


def epsilons(size: int, folder: Path) -> Any:
    """Of so many agents, each of which has sent other numbers of messages."""
    population = CASES["gossip_bandit_v0"].population(1, num_agents=size)
    population.reset(seed=0)
    accountant = Accountant(1, size, population.channels.values())
    accountant.charge("preference", Laplace(0.1).loss(), each=np.arange(size)[None])
    return accountant.epsilon(1e-5, "agent", "zcdp")[0]


def bets(size: int, folder: Path) -> Any:
    weight, reward = np.random.default_rng(0).random((2, size)) * [[2.0], [1.0]]
    return estimators.interval(estimators.ips(weight, reward, 2.0))


def rows(size: int, folder: Path) -> Any:
    file = folder / f"{size}.csv"
    with file.open("w", encoding="utf-8", newline="") as out:
        csv.writer(out).writerows([["a", "b"], *([i, 2 * i] for i in range(size))])
    parts = list(reading.Table(file, {}).chunks(["b", "a"]))
    assert max(len(part.lines) for part in parts) <= reading.CHUNK
    return [[line for part in parts for line in part.lines]] + [
        [x for part in parts for x in part.numbers(name)] for name in ("a", "b")
    ]


CHUNKED: dict[str, Callable[[int, Path], Any]] = {
    "taciturn.privacy.composition:ROWS_AT_ONCE": epsilons,
    "taciturn.logged.estimators:ROWS": bets,
    "taciturn.logged.reading:CHUNK": rows,
}


@pytest.mark.parametrize("place", CHUNKED)
def test_chunks_hold_what_the_whole_does(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, _, name = place.partition(":")
    for size in NEAR:
        found = []
        for chunk in (10**6, CHUNK):
            monkeypatch.setattr(import_module(module), name, chunk)
            found.append(CHUNKED[place](size, tmp_path))
        np.testing.assert_allclose(found[0], found[1], rtol=1e-12)
        assert np.shape(found[0])[-1] == size or place.endswith("estimators:ROWS")


@pytest.mark.parametrize("items", [BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 1])
@pytest.mark.parametrize("family", ["peak", "bumps", "linear"])
def test_the_best_item_is_found_whatever_blocks_are_searched(family: str, items: int) -> None:
    for alike in (False, True):
        env = recommender_v0.population(
            3, num_agents=2, num_items=items, repository=items, family=family, homogeneous=alike
        )
        env.reset(seed=items)
        state, drawn = env.state, env.instance(env.state)
        for agent in range(2):
            contexts = np.repeat(state.contexts[:, agent, None], items, 1)
            found = np.where(state.active[:, agent], means(family, contexts, state.items, drawn), -1.0)
            np.testing.assert_allclose(state.most[:, agent], found.max(-1), rtol=1e-6)


def test_images_are_classified_in_parts_as_one_by_one() -> None:
    pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    network, x = SmallCNN(64, 10), rng.random((1001, 64)).astype(np.float32)
    flat = network.initial(rng)
    whole = network.logits(flat, x)
    for size in (999, 1000, 1001):
        np.testing.assert_allclose(network.logits(flat, x[:size]), whole[:size], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(network.logits(flat, x[-1:]), whole[-1:], rtol=1e-4, atol=1e-6)


def test_a_cell_takes_no_seed_of_a_search() -> None:
    for seed in (TUNING_SEEDS[0] - 1, TUNING_SEEDS[-1] + 1, 0):
        Cell("study", {}, seed)
    for seed in (TUNING_SEEDS[0], TUNING_SEEDS[0] + 1, TUNING_SEEDS[-1]):
        with pytest.raises(ValueError, match="seed"):
            Cell("study", {}, seed)


# Terminated and truncated together: a walker that arrives as its time ends.

WALK: dict[str, Any] = {"horizon": 3}


def walked(env: Any, seed: int, action: Any, flags: Callable[[Any], tuple[bool, bool]]) -> tuple[bool, bool]:
    """How a walk to the right ends."""
    env.reset(seed=seed)
    while True:
        found = flags(env.step(action))
        if any(found):
            return found


def test_a_run_may_be_terminated_and_truncated_at_once_in_every_form() -> None:
    right, kinds = np.full((1, 1), 2), set()
    for seed in range(30):
        whole = corridor_v0.population(1, **WALK)
        ends = walked(whole, seed, right, lambda step: (bool(step.terminated[0]), bool(step.truncated[0])))
        kinds.add(ends)
        assert walked(corridor_v0.single_env(**WALK), seed, 2, lambda step: step[2:4]) == ends
        for mode in AutoresetMode:
            vector = corridor_v0.vector_env(1, autoreset_mode=mode, **WALK)
            assert walked(vector, seed, [2], lambda step: (bool(step[2][0]), bool(step[3][0]))) == ends
        parallel = corridor_v0.parallel_env(**WALK)
        assert walked(parallel, seed, {"walker_0": 2}, lambda step: tuple(one["walker_0"] for one in step[2:4])) == ends
        aec = corridor_v0.env(**WALK)
        aec.reset(seed=seed)
        while not (aec.terminations["walker_0"] or aec.truncations["walker_0"]):
            aec.step(2)
        assert (aec.terminations["walker_0"], aec.truncations["walker_0"]) == ends
        rows = RowsVecEnv(corridor_v0.population(1, **WALK), seed=seed)
        rows.reset()
        while True:
            _, _, done, (info,) = rows.step(np.array([2]))
            if done[0]:
                break
        assert info["TimeLimit.truncated"] is (ends == (False, True)), "where the task has ended nothing follows"
    assert kinds == {(True, False), (False, True), (True, True)}


@pytest.mark.parametrize("mode", AutoresetMode)
def test_an_end_has_both_flags_beside_replicas_that_begin_again(mode: AutoresetMode) -> None:
    before: Any = np.zeros(8, np.bool_)
    env, kinds = corridor_v0.vector_env(8, autoreset_mode=mode, **WALK), set()
    env.reset(seed=0)
    for _ in range(60):
        _, _, *flags, _ = env.step(np.full(8, 2))
        ends = np.stack(flags, 1)
        if before.any():
            kinds |= set(map(tuple, ends[ends.any(1)].tolist()))
        before = ends.any(1)
        if mode is AutoresetMode.DISABLED and before.any():
            env.reset(options={"reset_mask": before})
    assert kinds == {(True, False), (False, True), (True, True)}


# Whole numbers and fractions.


@pytest.mark.parametrize("world", registry.worlds())
def test_a_whole_number_is_the_same_whatever_its_type_and_a_count_is_no_fraction(world: str) -> None:
    case, params, checked = CASES[world], CASES[world].population().params, 0

    def runs(**given: Any) -> Any:
        return pickle.loads(played(case.population(2, **given), turns=10))[1:]  # without the reprs of spaces

    for name in case.world.parameters:
        value = getattr(params, name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
            continue
        whole, kinds = float(round(value)), list[Any]([np.int64, np.float64, np.float32, int])
        if isinstance(value, int):
            kinds = [np.int64]
            with pytest.raises(ValueError, match=name):
                case.population(1, **{name: value + 0.5})
        try:
            expected = runs(**{name: type(value)(whole)})
        except ValueError:
            continue  # no whole number lies in its range
        for kind in kinds:
            np.testing.assert_equal(runs(**{name: kind(whole)}), expected, err_msg=f"{name} {kind}")
        checked += 1
    assert checked > 2
