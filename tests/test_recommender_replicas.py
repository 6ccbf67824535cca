"""The recommender gives the same bits in batches of any size, shards and threads, in all interfaces, compiled or not,
and so does the tree of T-PriDO."""

import math
from typing import Any

import numpy as np
import pytest

import taciturn
from taciturn.compiling import compiled
from taciturn.envs import recommender_v0
from taciturn.envs.core import Array
from taciturn.policies import DTPriDO, Policy, TPriDO
from taciturn.testing import Case
from taciturn.testing.forms import forms_agree
from taciturn.testing.populations import a_replica_is_the_same_run_in_every_population
from taciturn.wrappers import TreeAggregation

SMALL: dict[str, Any] = {"num_agents": 3, "num_items": 24, "repository": 12, "horizon": 8}


def nearness(contexts: Array, items: Array) -> Array:
    return np.clip(1 - np.abs(contexts[..., 0] - items[..., 0]), 0, 1)


VARIANTS: dict[str, dict[str, Any]] = {
    "peak": {},
    "bumps, growth": {"family": "bumps", "growth": [(2, 0.3), (5, 0.2)], "graph": "ring"},
    "linear, alike": {"family": "linear", "homogeneous": True, "growth": [(3, 0.5)], "context_dim": 3},
    "own": {"family": nearness, "context_dim": 1, "graph": "complete"},
    "cluster": {"actions": "cluster", "cluster_depth": 2},
    "alone": {"graph": "none"},
}


def mask_of(env: Any) -> Any:
    return env.action_mask("agent")


@pytest.mark.parametrize("name", VARIANTS)
def test_the_same_bits_over_many_contexts(name: str) -> None:
    """60 steps; Python's square of a number was not always the compiled one's."""
    a_replica_is_the_same_run_in_every_population(Case("recommender_v0", SMALL | VARIANTS[name]))


@pytest.mark.parametrize("name", VARIANTS)
def test_the_same_bits_in_all_interfaces(name: str) -> None:
    forms_agree(Case("recommender_v0", SMALL | VARIANTS[name]))


def test_what_is_consulted_and_selected_is_counted_once() -> None:
    """A policy that consults and selects on bare channels sends what one that is told by observations does."""
    env = recommender_v0.population(2, **SMALL, graph="complete")
    taciturn.simulate(env, TPriDO(2.0), seed=0)
    for name in ("statistics", "counts"):
        np.testing.assert_array_equal(env.channels[name].messages(), np.full((2, 3), 2 * 8))
    np.testing.assert_array_equal(env.channels["selection"].messages(), np.full((2, 3), 8))
    env.reset(seed=0)
    scores = np.ones((2, 3, 4))
    for _ in range(2):
        env.select(scores, scores > 0, np.ones((2, 1, 1)))
        env.step(np.zeros((2, 3), np.int64))
    env.step(np.zeros((2, 3), np.int64))
    np.testing.assert_array_equal(env.channels["selection"].messages(), np.full((2, 3), 3))


def test_masks_are_read_only_and_change_when_items_arrive() -> None:
    env = recommender_v0.population(2, **SMALL, growth=[(2, 0.5)])
    env.reset(seed=0)
    first = mask_of(env)
    assert mask_of(env) is first
    assert not first.flags.writeable
    for _ in range(2):
        env.step(np.zeros((2, 3), np.int64))
    assert (first.sum(-1) == 12).all(), "who kept it still has it"
    assert (mask_of(env).sum(-1) == 24).all()


TREES: dict[str, tuple[type[Policy], dict[str, Any], dict[str, Any], Any]] = {
    "complete": (TPriDO, {"threshold": 0.6}, {"graph": "complete"}, None),
    "growth": (TPriDO, {"rate": 0.5}, {"growth": [(30, 0.3)], "family": "bumps"}, None),
    "noise": (TPriDO, {"threshold": 2.0, "rate": 0.5}, {}, {"statistics": TreeAggregation(1.0)}),
    "followers": (DTPriDO, {"rate": 0.5, "bisect": True}, {"context_dim": 3, "family": "linear"}, None),
    "leaves": (DTPriDO, {"follow": "leaf"}, {}, None),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TREES)
def test_trees_give_the_same_bits_compiled_or_not(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    kind, parameters, world, privacy = TREES[name]
    sizes: dict[str, Any] = {"num_agents": 4, "num_items": 60, "repository": 30, "horizon": 100}
    runs, trees = [], []
    for compile_from in (math.inf, 0):
        monkeypatch.setattr(compiled, "COMPILE_FROM", compile_from)
        env, policy = recommender_v0.population(2, **sizes | world), kind(**parameters)
        runs.append(taciturn.simulate(env, policy, seed=1, privacy=privacy).metrics)
        trees.append(policy.tree.arrays)  # type: ignore[attr-defined]
    np.testing.assert_equal(runs[1], runs[0])
    np.testing.assert_equal(trees[1]._asdict(), trees[0]._asdict())
    assert trees[0].size[1] > 2
