"""Every parameter of a world, and of the functions that pass their arguments on to another layer, changes a result: one
that is lost on the way changes nothing."""

import inspect
import pickle
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from cases import CASES
from stable_baselines3 import A2C, PPO
from worlds import consensus_v0

import taciturn
from taciturn.agents import bring
from taciturn.bench import train as training
from taciturn.bench.train import train
from taciturn.envs import elicitation_v0, gossip_bandit_v0, round_stopping_v0
from taciturn.envs.elicitation.costs import QuadraticCost
from taciturn.envs.federated_training.datasets import load_digits
from taciturn.policies import PPCL, FreeRider, PostedPrice, Random, Truthful
from taciturn.policies.external.saved import load_sb3
from taciturn.registry import worlds
from taciturn.testing.cases import chosen, random_actions
from taciturn.wrappers import BitwiseRandomizedResponse, Laplace, Privatize
from taciturn.wrappers.audit import audit
from taciturn.wrappers.sb3 import RowsVecEnv


def digits() -> Any:
    return replace(load_digits(), test_y=load_digits().test_y[::-1].copy())


def played(population: Any, seed: int = 0, turns: int = 500) -> bytes:
    """All that can be seen of runs with random actions."""
    rng = np.random.default_rng(0)
    roles = [
        (role.name, role.num_agents, repr(role.action_space), repr(role.layout)) for role in population.roles.values()
    ]
    found: list[Any] = [roles, population.reset(seed=seed)]
    for _ in range(turns):
        if population.done.all():
            break
        found.append(tuple(population.step(chosen(population, random_actions(population, rng)))))
    found.append(population.metrics())
    return pickle.dumps(found)


ARMS = [0.9, 0.5, 0.2, 0.1]
PARETO = {"time_distribution": "pareto", "horizon": 9.0}
WORDS = {"without_preference": "zeros"}
WALK, LEARNS = {"dissemination": "walk"}, {"horizon": 12.0}
# {parameter: another value, or (what else is given, another value)}, for all worlds or, with its name, for one.
OTHERS: dict[str, Any] = {
    "shuffle": ({"qualities": ARMS}, True),
    "elicitation_v0 shuffle": ({"theta": [0.1, 0.2, 0.7]}, True),
    "qualities": ARMS,
    "num_options": 3,
    "num_arms": 6,
    "reward": (0.0, 1.0, 1.5, 1.8, 2.0, 2.1, 2.2),
    "gossip_bandit_v0 reward": "preference",
    "objective": "rate",
    "elicitation_v0 objective": "error",
    "lambda_": 3.0,
    "time_distribution": "pareto",
    "transmission": (PARETO, (2.0, 7.0)),
    "computing": (PARETO, (3.0, 9.0)),
    "asks": "one",
    "without_preference": ({"initial_preferences": "none"}, "zeros"),
    "initial_preferences": "random",
    "topology": "complete",
    "agent_link_cost": ({"topology": "ring"}, 2.0),
    "delay": ({"topology": "ring", "num_agents": 6}, "diameter"),
    "weighting": ({"topology": [nx.path_graph(2), nx.path_graph(3)], "num_agents": 5}, "components"),
    "flat_actions": True,
    "graph": ({"num_agents": 5}, "star_triangle"),
    "recommender_v0 graph": "none",
    "dissemination": "walk",
    "perturbation": (WALK, "per_token"),
    "copies": (WALK, 4),
    "walk_length": (WALK, 5),
    "congestion": (WALK, True),
    "slots": (WALK | {"congestion": True}, 5),
    "signals": "per_agent",
    "context_dim": 3,
    "family": "bumps",
    "actions": "cluster",
    "cluster_depth": ({"actions": "cluster"}, 4),
    "growth": [(3, 0.4)],
    "theta": 3,
    "cost": QuadraticCost(2.0),
    "cost_spread": 0.5,
    "upload_probability": ({"horizon": 9.0}, 0.1),
    "target": (0.4, 1.0),
    "penalty": ({"objective": "error"}, 2.0),
    "rules": ("wintall", "flat_rate"),
    "reporting": "rappor",
    "data": digits(),
    "concentration": (LEARNS, 0.1),
    "parts": (LEARNS, 200),
    "model": (LEARNS, "cnn"),
    "federated_training_v0 weighting": (LEARNS | {"concentration": 0.1}, "uniform"),
    "learning_rate": (LEARNS, 0.05),
    "epochs": (LEARNS, 2),
    "batch_size": (LEARNS, 20),
    "clip_norm": (LEARNS, 0.1),
    "message_levels": (WORDS, "chosen"),
    "levels": (WORDS | {"message_levels": "chosen"}, (0.0, 0.5)),
    "epsilon_budget": (WORDS | {"message_levels": "chosen"}, 1.0),
    **{
        f"{world} {name}": (given, value)
        for world in ("federated_bandit_v0", "arm_elimination_v0")
        for name, given, value in (
            ("message_levels", {}, "chosen"),
            ("levels", {"message_levels": "chosen"}, (0.0, 0.5)),
            ("epsilon_budget", {"message_levels": "chosen"}, 1.0),
        )
    },
}
# A coordinator serves agents over the server alone; test_dissemination.py compares the two ways of drawing sums.
WITHOUT_EFFECT = {f"arm_elimination_v0 {name}" for name in ("topology", "agent_link_cost", "delay", "weighting")}
WITHOUT_EFFECT |= {"social_bandit_v0 exact_below"}
NAMES = [
    (world, parameter)
    for world, made in worlds().items()
    for parameter in made.parameters
    if f"{world} {parameter}" not in WITHOUT_EFFECT
]


def another(world: str, parameter: str) -> tuple[dict[str, Any], Any]:
    """What else is given, and another value of a parameter."""
    value = OTHERS.get(f"{world} {parameter}", OTHERS.get(parameter))
    if isinstance(value, tuple) and isinstance(value[0], dict):
        return value
    if value is None:
        default: Any = getattr(CASES[world].population().params, parameter)
        value = not default if isinstance(default, bool) else default + 1 if isinstance(default, int) else default * 0.9
    return {}, value


@pytest.mark.parametrize(("world", "parameter"), NAMES)
def test_a_parameter_of_a_world_changes_its_runs(world: str, parameter: str) -> None:
    given, value = another(world, parameter)
    assert before(world, given) != played(CASES[world].population(2, **given, **{parameter: value}))


BEFORE: dict[tuple[str, str], Any] = {}


def before(world: str, given: dict[str, Any]) -> Any:
    """What is played without the change, the same each time: most parameters are changed in the same world."""
    key = (world, repr(given))
    if key not in BEFORE:
        BEFORE[key], again = (played(CASES[world].population(2, **given)) for _ in range(2))
        assert BEFORE[key] == again
    return BEFORE[key]


@pytest.mark.parametrize("world", worlds())
def test_every_form_has_the_parameters(world: str) -> None:
    wrong = [name for where, name in NAMES if where == world and not every_form_has(world, name)]
    assert not wrong


def every_form_has(world: str, parameter: str) -> bool:
    """Whether the parameter of a world reaches its views."""
    given, value = another(world, parameter)
    case, asked = CASES[world], given | {parameter: value}
    views: list[Any] = [case.world.parallel_env(**case.params | asked), case.world.env(**case.params | asked)]
    if case.has_id and (world, parameter) not in [("recommender_v0", name) for name in ("actions", "cluster_depth")]:
        more = asked | ({"communicators": "ConstantLevel"} if asked.get("message_levels") == "chosen" else {})
        # What an agent says when its policy has no public schedule has no total.
        more |= {"others": "Random"} if case.others else {}
        views += [case.make(**more).unwrapped, case.make_vec(num_envs=2, **more).unwrapped]
    expected = case.population(**asked).params
    found = [pickle.dumps(getattr(view.population.params, parameter)) for view in views]
    return set(found) == {pickle.dumps(getattr(expected, parameter))}


# Functions that pass their arguments on.

STOPPING: dict[str, Any] = {"num_clients": 6, "slot_time": 0.1, "horizon": 10.0}
TEACH: dict[str, Any] = {
    "world": "round_stopping",
    "algorithm": "PPO",
    "steps": 128,
    "seed": 0,
    "params": STOPPING,
    "settings": {"n_steps": 16, "batch_size": 32, "n_epochs": 1},
    "num_envs": 4,
    "evaluations": 1,
}


def taught(out: Path, **changes: Any) -> Any:
    """What a training leaves: the weights, the numbers of its evaluations, and what it was told."""
    told: list[str] = []
    given = TEACH | {"progress": lambda _, text: told.append(text)} | changes
    folder = train(out=out, **given)
    model = PPO if given["algorithm"] == "PPO" else A2C
    weights = [one.numpy().tobytes() for one in model.load(folder / "model.zip").policy.state_dict().values()]
    files = sorted(str(one.relative_to(folder)) for one in folder.rglob("*.zip"))
    return weights, (folder / "evaluations.csv").read_text(encoding="utf-8"), files, told


TRAINING: dict[str, Any] = {
    "world": "gossip_bandit",
    "algorithm": "A2C",
    "steps": 192,
    "seed": 1,
    "params": STOPPING | {"num_clients": 5},
    "settings": {"n_steps": 16, "batch_size": 32, "n_epochs": 1, "gamma": 0.5},
    "num_envs": 2,
    "evaluations": 2,
    "progress": lambda *_: None,
}


def test_every_parameter_of_train(tmp_path: Path) -> None:
    parameters = set(inspect.signature(train).parameters)
    assert parameters == {*TRAINING, "seconds", "out", "privacy", "file", "resume", "trust"}, (
        "test_train.py has the others"
    )
    base = taught(tmp_path / "base")
    assert base == taught(tmp_path / "again")
    small = {"params": {"num_agents": 4, "horizon": 10.0}}
    for name, value in TRAINING.items():
        other = {"settings": {"n_steps": 16}} if value == "A2C" else small if value == "gossip_bandit" else {}
        assert base != taught(tmp_path / name, **{name: value} | other), name


def test_the_seed_of_a_resumed_training_is_that_of_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is met after a checkpoint depends on both, so that two trainings never meet the same."""
    seeds: dict[int, list[Any]] = {0: [], 1: []}
    real = RowsVecEnv.seed

    def noted(self: RowsVecEnv, seed: int | None = None) -> Any:
        seeds[current].append(seed)
        return real(self, seed)

    def stops(*_: Any) -> None:
        raise KeyboardInterrupt

    for current in seeds:
        with monkeypatch.context() as patch:
            patch.setattr(training, "evaluated", stops)
            with pytest.raises(KeyboardInterrupt):
                train(out=tmp_path / str(current), **TEACH | {"seed": current, "evaluations": 2})
        with monkeypatch.context() as patch:
            patch.setattr(RowsVecEnv, "seed", noted)
            train(out=tmp_path / str(current), **TEACH | {"seed": current, "evaluations": 2}, resume=True)
    (*first, one), (*second, other) = seeds.values()
    assert one != other
    assert not {one, other} & {*first, *second}


def test_a_saved_model_is_asked_as_one_wishes(tmp_path: Path) -> None:
    """`deterministic` reaches the model through every way in which it is loaded."""
    folder = train(out=tmp_path / "agent", **TEACH)
    file = folder / "model.zip"
    rows = np.zeros((400, round_stopping_v0.population(1, **STOPPING).roles["server"].layout.size))
    for load in (
        lambda **own: load_sb3(file, **own),
        lambda **own: bring(f"sb3:{file}", **own),
        partial(bring, folder),
    ):
        spread = {}
        for deterministic in (True, False):
            agent = load(deterministic=deterministic)
            agent.reset(round_stopping_v0.population(400, **STOPPING), np.random.default_rng(0), "server")
            spread[deterministic] = len(np.unique(agent.choose(rows, None)))
        assert spread == {True: 1, False: 2}, "400 equal rows; an untrained network prefers neither action by 2^-400"


# {parameter: (what else is given, another value)}, of audits of a mechanism and of runs.
AUDITS: dict[str, tuple[dict[str, Any], Any]] = {
    "trials": ({}, 3000),
    "confidence": ({}, 0.8),
    "seed": ({}, 1),
    "method": ({}, "black"),
    "claimed": ({}, 0.2),
    "delta": ({}, 0.1),
    "sensitivity": ({}, 2.0),
    "log_likelihood_ratio": ({}, lambda y, x0, x1: np.zeros(len(y))),
    "held_out": ({}, 0.2),
    "batch": ({"mechanism": Laplace(1.0), "method": "black"}, 200),
    "name": ({}, "mine"),
    "references": ({"method": "black"}, True),
    "bits": ({"method": "black"}, True),
}


def audited(**given: Any) -> Any:
    told: list[int] = []
    usual: dict[str, Any] = {"mechanism": Laplace(2.0), "pair": (0.0, 1.0), "trials": 2000, "sensitivity": 1.0}
    return repr(audit(**usual | {"progress": told.append} | given).as_dict()), told


@pytest.mark.parametrize("parameter", AUDITS)
def test_a_parameter_of_an_audit(parameter: str) -> None:
    given, value = AUDITS[parameter]
    assert audited(**given) == audited(**given)
    assert audited(**given) != audited(**given | {parameter: value})


def liars(**given: Any) -> Any:
    env = consensus_v0.population(1, num_agents=4, horizon=3)
    env = Privatize(env, "vote", BitwiseRandomizedResponse(1.0))
    usual: dict[str, Any] = {
        "mechanism": env,
        "pair": {"vote": ([1, 0, 0], [0, 1, 0])},
        "trials": 300,
        "policy": Random(),
    }
    try:
        return repr(audit(**usual | given).as_dict())
    except ValueError as error:
        return str(error)


RUNS: dict[str, tuple[dict[str, Any], Any]] = {
    "steps": ({}, 1),
    "agent": ({}, 1),
    "unit": ({}, "event"),
    "composition": ({"delta": 0.05}, "pld"),
    "delta": ({}, 1e-3),
    "seed": ({}, 1),
    "pair": ({}, {"vote": ([1, 0, 0], [1, 0, 0])}),
}


@pytest.mark.parametrize("parameter", RUNS)
def test_a_parameter_of_an_audit_of_runs(parameter: str) -> None:
    given, value = RUNS[parameter]
    assert liars(**given) == liars(**given)
    assert liars(**given) != liars(**given | {parameter: value})


def test_the_policy_of_an_audit() -> None:
    """Reports of the truth show what was observed; those of a free rider do not."""
    env = elicitation_v0.population(1, num_individuals=4, horizon=4, rules=("posted_price",))
    truth, riding = (
        audit(env, policy={"platform": PostedPrice(2), "individual": one}, change=(0, 1), trials=1000, seed=0).certified
        for one in (Truthful(), FreeRider())
    )
    assert riding == 0 < 1 < truth


def test_audits_have_no_other_parameter() -> None:
    others = {"mechanism", "pair", "change", "progress", "policy", "beside"}
    assert set(inspect.signature(audit).parameters) == {*AUDITS, *RUNS, *others}


SIMULATED: dict[str, Any] = {
    "seed": 1,
    "until": [5.0, 10.0],
    "record": ["regret"],
    "privacy": {"preference": BitwiseRandomizedResponse(1.0)},
    "policy": "Random",
    "fast": False,
}


def test_every_parameter_of_simulate() -> None:
    def run(**changes: Any) -> bytes:
        usual: dict[str, Any] = {"policy": PPCL(), "seed": 0}
        found = taciturn.simulate(gossip_bandit_v0.population(3, num_agents=6, horizon=20.0), **usual | changes)
        return pickle.dumps((found.metrics, found.trace, found.times))

    assert set(inspect.signature(taciturn.simulate).parameters) == {"env", *SIMULATED}
    assert run() == run()
    for name, value in SIMULATED.items():
        assert run() != run(**{name: value}), name
