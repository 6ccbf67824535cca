"""Training, the choice of a checkpoint and evaluation draw from separate streams, whatever the seeds, and see other
instances.

Nothing here knows how streams are made: the first numbers of every generator that a world hands out are recorded and
compared.
"""

from typing import Any

import numpy as np
import pytest

import taciturn
from taciturn.compiling import counter_streams
from taciturn.envs import (
    arm_elimination_v0,
    federated_bandit_v0,
    gossip_bandit_v0,
    recommender_v0,
    round_stopping_v0,
    social_bandit_v0,
)
from taciturn.envs.core import Streams
from taciturn.envs.core.run import Run
from taciturn.policies import Learner
from taciturn.registry import policies

pytest.importorskip("stable_baselines3")

SEED = 7
STOPPING: dict[str, Any] = {"num_clients": 5, "broadcast_time": 0.3, "compute_probability": 0.1, "horizon": 4.0}
ARMS: dict[str, Any] = {"num_agents": 3, "num_arms": 4, "horizon": 40}
SHOP: dict[str, Any] = {"num_agents": 3, "num_items": 40, "repository": 20, "horizon": 20}
SOCIAL: dict[str, Any] = {"num_agents": 8, "qualities": (0.9, 0.5, 0.1), "horizon": 5}
# The learner, its settings and its worlds.
CASES: list[tuple[str, dict[str, Any], Any]] = [
    (
        "TrainedAgent",
        {"steps": 300, "settings": {"num_envs": 2, "turns": 20}},
        round_stopping_v0.population(2, **STOPPING),
    ),
    ("TrainedAgent", {"steps": 300, "settings": {"num_envs": 2}}, gossip_bandit_v0.population(2, **SOCIAL)),
    (
        "TrainedAgent",
        {"steps": 300, "settings": {"runs": 4, "block": 2, "population": 4}},
        social_bandit_v0.population(2, **SOCIAL),
    ),
    ("NeuralBandit", {"steps": 2, "num_envs": 2, "rounds": 8}, recommender_v0.population(2, **SHOP)),
    ("BlockListener", {"worlds": 3, "rounds": 10, "cells": 5, "first": 4}, recommender_v0.population(2, **SHOP)),
    ("LogisticBandit", {"worlds": 3, "rounds": 10}, recommender_v0.population(2, **SHOP)),
    ("CentralisedLogistic", {"worlds": 3, "rounds": 10}, recommender_v0.population(2, **SHOP)),
]
IDS = [f"{name}-{world.name}-{i}" for i, (name, _, world) in enumerate(CASES)]


class Recorder:
    """Notes the first three numbers of every generator that streams hand out, and the keys of every source of a
    replica, by what is going on (`phase`)."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.phase = "evaluation"
        self.first: dict[str, set[tuple[float, ...]]] = {}
        known: set[int] = set()
        kept: list[Any] = []
        get = Streams.__getitem__

        def note(streams: Streams, name: str) -> np.random.Generator:
            rng = get(streams, name)
            if id(rng) not in known:
                known.add(id(rng))
                kept.append(rng)
                reference_implementation = np.random.Generator(type(rng.bit_generator)())
                reference_implementation.bit_generator.state = rng.bit_generator.state
                self.first.setdefault(self.phase, set()).add(tuple(reference_implementation.random(3)))
            return rng

        sources_of = counter_streams.sources_of

        def note_sources(*arguments: Any) -> Any:
            sources = sources_of(*arguments)
            keys = sources[:, :, :2].reshape(-1, 2)  # which decide all their numbers
            self.first.setdefault(self.phase, set()).update(map(tuple, keys.tolist()))
            return sources

        patch.setattr(Streams, "__getitem__", note)
        patch.setattr(counter_streams, "sources_of", note_sources)


def record(patch: pytest.MonkeyPatch, name: str, settings: dict[str, Any], world: Any, seed: int) -> Recorder:
    """First numbers in training with `seed`, in the choice of a checkpoint, and then in a run with the same seed."""
    seen = Recorder(patch)
    learner: Any = policies()[name](**settings, seed=seed)
    reset = Run.reset

    def begin(population: Any, **given: Any) -> Any:
        if seen.phase != "evaluation":
            seen.phase = "selection" if population.purpose == "selection" else "training"
        return reset(population, **given)

    patch.setattr(Run, "reset", begin)
    world.reset(seed=seed)
    seen.first.clear()
    seen.phase = "training"
    learner.role = next(iter(world.roles))
    learner.train(world)
    seen.phase = "evaluation"
    taciturn.simulate(world, learner, seed=seed)
    return seen


def test_every_learner_is_covered() -> None:
    learned = {name for name, kind in policies().items() if issubclass(kind, Learner)}
    assert learned == {name for name, _, _ in CASES}


@pytest.mark.parametrize(("name", "settings", "world"), CASES, ids=IDS)
def test_training_selection_and_evaluation_share_no_stream(
    monkeypatch: pytest.MonkeyPatch, name: str, settings: dict[str, Any], world: Any
) -> None:
    """Also where all have the same seed: no generator of one begins as a generator of another does."""
    first = record(monkeypatch, name, settings, world, SEED).first
    assert first["training"]
    assert first["evaluation"]
    assert not first["training"] & first["evaluation"]
    if name == "TrainedAgent":
        assert first["selection"]
        assert not first["selection"] & (first["training"] | first["evaluation"])


def test_trainings_share_no_stream() -> None:
    """Of neighbouring seeds."""
    found = []
    for seed in (SEED, SEED + 1):
        with pytest.MonkeyPatch.context() as patch:
            found.append(record(patch, *CASES[0], seed).first)
    for phase in found[0]:
        assert not found[0][phase] & found[1][phase], phase


@pytest.mark.parametrize(
    "world",
    [
        gossip_bandit_v0.population(50, **SOCIAL),
        social_bandit_v0.population(2, **SOCIAL),
        federated_bandit_v0.population(2, **ARMS),
        federated_bandit_v0.population(2, num_agents=3, qualities=(0.9, 0.5, 0.1), horizon=40),
        federated_bandit_v0.population(2, num_agents=2, qualities=((0.9, 0.5, 0.1), (0.8, 0.2, 0.1)), horizon=40),
        arm_elimination_v0.population(2, **ARMS),
    ],
    ids=lambda world: world.name,
)
def test_the_number_of_the_best_option_is_another_one_in_training(world: Any) -> None:
    """Where the means are listed, or a grid: who learned which number is best would be wrong."""
    practice = world.view().practice(50)
    best = []
    for one in (world, practice):
        one.reset(seed=SEED)
        means = one.state.quality.mean(1) if hasattr(one.state, "quality") else getattr(one.state, "qualities", None)
        best.append((one.params.eta[None] if means is None else means).argmax(1))
    assert (best[0][0] != best[1]).mean() >= 0.5
