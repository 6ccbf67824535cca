"""Every option of a policy changes something: what it does, what is sent, or the mechanisms that it asks for."""

import inspect
import pickle
import re
from functools import partial
from typing import Any

import pytest
from test_public_view import OWN, SETTINGS

from taciturn import registry
from taciturn.policies import FixedCount, FreeRider, Learner
from taciturn.registry import given
from taciturn.testing.policies import Play, a_second_run_owes_nothing_to_the_first, whole_run

LONG = {"horizon": 150}
EPOCHS = {"horizon": 4000}
CLIENTS: dict[str, Any] = {"num_clients": 6, "clip_norm": 1.0, "compute_probability": 0.1, "horizon": 8.0}
# {"Policy option", or "option" of `BATCHES`: its value, other options, and parameters of the world of `SETTINGS`, or
# `CLIENTS` for federated training}. Where nothing is said, values near the default are tried.
OTHERS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "TPriDO eta": (2.0, {"rate": 0.5}, LONG),
    "TPriDO optimal_dim": (2.5, {"rate": 0.5}, LONG),
    "epsilon": (0.3, {}, EPOCHS),
    "DPSuccessiveElimination epsilon": (0.05, {"beta": 0.5}, EPOCHS),
    "beta": (0.3, {}, EPOCHS),
    "gap": (0.05, {"rounds": 3}, EPOCHS),
    "Fed2UCB sigma_c": (1.0, {}, {"num_agents": 30}),
    "FewRounds trust_model": ("central", {"k": 2}, CLIENTS),
    "FewRounds delta": (1e-3, {"k": 2, "trust_model": "central"}, CLIENTS),
    "Listener delta": (1e-2, {"trust_model": "shuffle"}, {}),
    "OneAnswerOracle delta": (1e-2, {"trust_model": "shuffle"}, {}),
    "BayesPlan ticks": (1, {}, {}),
    "BestDeadline most": (1, {}, {"broadcast_time": 1.0, "horizon": 20.0}),
    "OptimalStopping thresholds": ([1, 1], {}, {}),
    "PlannedTraining decay": (3.0, {}, {}),
    "PlannedTraining variance": (3.0, {}, {}),
    "InformedPlatform individuals": ({"Truthful": 1.0}, {}, {}),
    "ConstantLevel epsilon": (3.0, {}, {}),
    "DividedPlan c": (30.0, {}, {}),
    "LevelPlan plan": ([(2.0, 0.3)], {}, {}),
    "Mixture parts": ([(FreeRider(), 1.0)], {}, {}),
}
# They eliminate arms after hundreds of pulls.
BATCHES = ("CDPMAB", "DDPMAB", "HDPMAB", "DPSuccessiveElimination")
WITHOUT_EFFECT = {
    "OneAnswerOracle memory": "it hears each answer once, whatever of fresh replies `Listener` remembers",
}
OPTIONS = [
    pytest.param(name, one.name, id=f"{name}-{one.name}", marks=[pytest.mark.slow] * (name in BATCHES))
    for name, kind in registry.own_policies().items()
    if not issubclass(kind, Learner)  # whose options are those of its training
    for one in given(kind)
    if f"{name} {one.name}" not in WITHOUT_EFFECT
]


def play_of(kind: Any, place: str, options: dict[str, Any], params: dict[str, Any]) -> Play:
    world, usual, beside = ("federated_training_v0", {}, {}) if params is CLIENTS else SETTINGS[place]
    return Play(kind, world, usual | params, given=OWN.get(place, {}) | options, beside=beside)


def done(play: Play) -> bytes:
    """All that a policy does in a run, and the mechanisms that it prescribes, and puts under a total."""
    policy = play.make()
    view = play.population().view(policy)
    asked: list[Any] = []
    for ask in (policy.prescribes, partial(policy.within, epsilon_budget=1.0)):
        try:
            asked.append(ask(view))
        except ValueError:
            asked.append(None)
    rollout = play.after_reset(policy)
    return pickle.dumps([asked, whole_run(rollout), rollout.env.metrics()])


def values(kind: Any, name: str, default: Any, options: dict[str, Any]) -> list[Any]:
    """Other values of an option than its default: near it, or among those that an error lists."""
    if isinstance(default, bool):
        return [not default]
    if isinstance(default, str):
        with pytest.raises(ValueError, match="must be one of") as found:
            kind(**options | {name: "?"})
        listed = re.findall(r"'([^']*)'", str(found.value).partition(", not")[0])
        return [one for one in listed if one != default]
    if isinstance(default, int):
        return [default + 1, 2 * default + 3, default - 1, 0]
    near = 0.5 if default in (None, inspect.Parameter.empty) else float(default)
    return [0.6 * near, 0.5 * near + 0.4, near / 10 + 0.05, 3 * near, 1, 2]


def check(kind: Any, place: str, option: str) -> None:
    """That another value of an option changes something where the policy called `place` plays, and that a policy with
    it remembers no earlier run."""
    base = OWN.get(place, {})
    more: dict[str, Any] = {}
    params: dict[str, Any] = {}
    known = OTHERS.get(f"{place} {option}", OTHERS.get(option) if place in BATCHES else None)
    if known is None:
        usual = base.get(option, inspect.signature(kind).parameters[option].default)
        tried = values(kind, option, usual, base)
    else:
        value, more, params = known
        tried = [value]
    before = done(play_of(kind, place, more, params))
    for value in tried:
        try:
            kind(**base | more | {option: value})
        except ValueError:
            assert known is None
            continue
        play = play_of(kind, place, more | {option: value}, params)
        if done(play) != before:
            a_second_run_owes_nothing_to_the_first(play)
            return
    raise AssertionError(f"{option} of {kind.__name__} changes nothing")


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_an_option_of_a_policy_changes_something(name: str, option: str) -> None:
    check(registry.own_policies()[name], name, option)


def test_what_is_said_of_options_is_of_options_that_there_are() -> None:
    names = {f"{name} {one.name}" for name, kind in registry.own_policies().items() for one in given(kind)}
    of_batches = {option for name, _, option in (one.partition(" ") for one in names) if name in BATCHES}
    assert {*WITHOUT_EFFECT, *(one for one in OTHERS if " " in one)} <= names
    assert {one for one in OTHERS if " " not in one} <= of_batches


class Forgets(FixedCount):
    """Waits for two updates, whatever it is told."""

    def __init__(self, k: int = 2) -> None:
        super().__init__(2)


def test_an_option_that_is_lost_is_found() -> None:
    with pytest.raises(AssertionError, match="k of Forgets changes nothing"):
        check(Forgets, "FixedCount", "k")
