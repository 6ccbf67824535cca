"""Every world at a size for tests, the tiny ones and those of the registry, and what it takes to play them."""

import dataclasses
import pickle
from collections.abc import Iterable
from typing import Any

import gymnasium
import numpy as np
import pytest
import worlds as tiny
from gymnasium.vector import AutoresetMode

from taciturn import registry
from taciturn.envs import federated_training_v0
from taciturn.envs.core import AECView, Array, Controlled, ParallelView, Population, SingleEnv, VectorView, World
from taciturn.policies import Random
from taciturn.wrappers import (
    BitwiseRandomizedResponse,
    Faulty,
    Gaussian,
    KaryRandomizedResponse,
    Laplace,
    LossyChannel,
    Privatize,
    TreeAggregation,
)

CLIENTS: dict[str, Any] = {"num_clients": 10, "clip_norm": 1.0, "compute_probability": 0.1, "horizon": 12.0}
FEW_SLOTS = {"num_clients": 6, "broadcast_time": 0.05, "compute_probability": 0.2, "horizon": 1.0}
FEW_AGENTS = {"num_agents": 6, "copies": 3, "walk_length": 4, "horizon": 20}
SMALL: dict[str, dict[str, Any]] = {
    "elicitation_v0": {"num_individuals": 5, "horizon": 12},
    "gossip_bandit_v0": {"num_agents": 6, "horizon": 20.0},
    "round_stopping_v0": FEW_SLOTS,
    "federated_training_v0": {**FEW_SLOTS, "clip_norm": 1.0},
    "social_bandit_v0": FEW_AGENTS,
    "federated_bandit_v0": {"num_agents": 3, "num_arms": 4, "horizon": 40},
    "arm_elimination_v0": {"num_agents": 3, "num_arms": 4, "horizon": 400},
    "recommender_v0": {"num_agents": 3, "num_items": 20, "repository": 10, "growth": [(5, 0.4)], "horizon": 20},
}


class Case:
    """A world at a size for tests, with the functions that a world has."""

    def __init__(self, world: World[Any, Any, ...], **params: Any) -> None:
        self.world, self.params = world, params

    def population(self, num_envs: int = 1, **params: Any) -> Population[Any]:
        own = {name: value for name, value in self.params.items() if not (name == "horizon" and "max_cycles" in params)}
        return self.world.population(num_envs, **own | params)

    def parallel_env(self, render_mode: str | None = None, **params: Any) -> ParallelView:
        return ParallelView(self.population(**params), render_mode)

    def env(self, render_mode: str | None = None, **params: Any) -> AECView:
        return AECView(self.population(**params), render_mode)

    def single_env(self, render_mode: str | None = None, **params: Any) -> SingleEnv:
        return SingleEnv(self.population(**params), render_mode)

    def vector_env(self, num_envs: int = 1, autoreset_mode: Any = "NextStep", **params: Any) -> VectorView:
        return VectorView(self.population(num_envs, **params), autoreset_mode)


class ControlledCase(Case):
    """The auction seen by one of its roles, the other of which is random."""

    def __init__(self, role: str, **params: Any) -> None:
        super().__init__(tiny.auction_v0, **params)
        self.role, (self.other,) = role, {"platform", "individual"} - {role}

    def population(self, num_envs: int = 1, **params: Any) -> Population[Any]:
        return Controlled(super().population(num_envs, **params), self.role, {self.other: Random()})


CASES: dict[str, Case] = {
    "consensus": Case(tiny.consensus_v0),
    "gossip": Case(tiny.gossip_v0, horizon=60),
    "auction": Case(tiny.auction_v0),
    "corridor": Case(tiny.corridor_v0),
    "platform": ControlledCase("platform"),
    "individual": ControlledCase("individual"),
} | {name: Case(world, **SMALL.get(name, {})) for name, world in registry.worlds().items()}
SOLE = [name for name, case in CASES.items() if len(case.population().possible_agents) == 1]
ONE_ROLE = [name for name, case in CASES.items() if len(case.population().roles) == 1]
PHASED = [name for name, case in CASES.items() if case.population().turns is not None]
# Others may end before, or their clock counts no steps.
RUN_TO_HORIZON = [
    name
    for name, case in CASES.items()
    if case.world._population.clock_unit == "step" and name not in ("gossip", "corridor")
]
# Who plays the other agents of the worlds of which Gymnasium's form shows one.
OTHERS = {
    "gossip_bandit_v0": "PPCL",
    "social_bandit_v0": "PrivateSocialLearning",
    "federated_bandit_v0": "UCB1",
    "recommender_v0": "TPriDO",
}
IDS: dict[str, dict[str, Any]] = {
    entry.id: SMALL.get(entry.name, {}) | ({"others": OTHERS[entry.name]} if entry.name in OTHERS else {})
    for entry in registry.WORLDS
} | {
    "tests/Corridor-v0": {},
    "tests/Individual-v0": {"num_agents": 1},
    "tests/Platform-v0": {},
}
MODES = list(AutoresetMode)

gymnasium.register("tests/Corridor-v0", CASES["corridor"].single_env, vector_entry_point=CASES["corridor"].vector_env)
for _role in ("individual", "platform"):
    gymnasium.register(f"tests/{_role.title()}-v0", CASES[_role].single_env, vector_entry_point=CASES[_role].vector_env)

# What stands on the channels of a world: a channel, with a mechanism that fits (None: none does).
LAWS: dict[str, tuple[str, Any]] = {
    "consensus": ("vote", BitwiseRandomizedResponse(1.0)),
    "auction": ("purchase", KaryRandomizedResponse(1.0, 2)),
    "federated_training_v0": ("update", Gaussian(1.0, 1e-5)),
    "federated_bandit_v0": ("means", Laplace(1.0)),
    "arm_elimination_v0": ("means", Laplace(1.0)),
    "gossip_bandit_v0": ("preference", BitwiseRandomizedResponse(1.0)),
    "social_bandit_v0": ("preference", BitwiseRandomizedResponse(1.0)),
    "elicitation_v0": ("report", None),
    "recommender_v0": ("statistics", TreeAggregation(1.0)),
}
LAWS |= {"platform": LAWS["auction"], "individual": LAWS["auction"]}
LAWS |= {entry.id: LAWS[entry.name] for entry in registry.WORLDS if entry.name in LAWS}
LAWS |= {"tests/Platform-v0": LAWS["auction"], "tests/Individual-v0": LAWS["auction"]}
DRESSES = ("plain", "private", "faulty", "both")


def dressed(env: Any, name: str, dress: str) -> Any:
    """`env`, a form of the world of this name or id, with Privatize, Faulty or both around it."""
    if dress == "plain":
        return env
    channel, law = LAWS[name]
    if dress != "faulty":
        env = Privatize(env, channel, law)
    return env if dress == "private" else Faulty(env, channel, LossyChannel(0.2))


def dresses(names: Iterable[str]) -> list[Any]:
    """Every name with everything that can be put on the world."""
    return [
        pytest.param(name, dress, id=f"{name}-{dress}")
        for name in names
        for dress in DRESSES
        if dress == "plain" or (name in LAWS and (dress == "faulty" or LAWS[name][1] is not None))
    ]


every_dressed = pytest.mark.parametrize(("name", "dress"), dresses(CASES))
every_id_dressed = pytest.mark.parametrize(("env_id", "dress"), dresses(IDS))
every = pytest.mark.parametrize("name", CASES)
every_id = pytest.mark.parametrize("env_id", IDS)
every_mode = pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)


def draw(population: Population[Any], rng: np.random.Generator) -> dict[str, Array]:
    """An action of every agent of every role, {role: [B, N, ...]}."""
    actions = {}
    for role in population.roles.values():
        policy = Random()
        policy.reset(population, rng, role.name)
        actions[role.name] = policy.act(np.empty((population.num_envs, role.num_agents, 0)))
    return actions


def by_agent(actions: dict[str, Array]) -> dict[str, Any]:
    return {f"{role}_{i}": action for role, rows in actions.items() for i, action in enumerate(rows[0])}


def chosen(population: Population[Any], actions: dict[str, Array]) -> Any:
    """What `Population.step` takes, of everyone's actions."""
    picked = {}
    for role in population.turn:
        rows, taken = population.acting(role), actions[role]
        picked[role] = taken if rows is None else taken[np.arange(len(rows))[:, None], rows]
    return picked if len(population.roles) > 1 else picked[population.turn[0]]


def seen(population: Population[Any]) -> dict[str, Array]:
    """What every agent would see now, acting or not, {role: [B, N, D]}."""
    out = {}
    for role, r in population.roles.items():
        rows = np.broadcast_to(np.arange(r.num_agents), (population.num_envs, r.num_agents))
        acting = population.acting(role)
        out[role] = population.observe_role(population.state, role, None if acting is None else rows)
    return out


def fingerprint(population: Population[Any]) -> bytes:
    """All that steps and resets may change."""
    inner = population.inner if isinstance(population, Controlled) else population
    channels = {name: (channel.everyone, channel.each) for name, channel in inner.channels.items()}
    ends = [population.terminated, population.truncated, inner.terminated, inner.truncated]
    return pickle.dumps([inner.state, inner.streams, channels, ends, inner.turn, inner.params, ledger_state(inner)])


def ledger_state(population: Population[Any]) -> Any:
    """What the ledger has counted, None without one."""
    return None if population.ledger is None else population.ledger.accounts


def of(state: Any, replica: int) -> dict[str, Any]:
    return {field.name: getattr(state, field.name)[replica].copy() for field in dataclasses.fields(state)}


def forms() -> dict[str, Any]:
    """The five interfaces of one world, in which only the server acts and clients tell what is private."""
    world = federated_training_v0
    return {
        "array": world.population(2, **CLIENTS),
        "gymnasium": world.single_env(**CLIENTS),
        "vector": world.vector_env(2, autoreset_mode=AutoresetMode.DISABLED, **CLIENTS),
        "parallel": world.parallel_env(**CLIENTS),
        "aec": world.env(**CLIENTS),
    }


def rewards(env: Any, steps: int = 48) -> list[float]:
    """What a fixed pattern of waiting and stopping earns, from a seeded reset, whatever the interface."""
    found: list[float] = []
    env.reset(seed=5)
    for step in range(steps):
        action = int(step % 12 != 11)
        if isinstance(env, Population):
            found.append(float(env.step(np.full((2, 1), action)).reward[0, 0]))
        elif hasattr(env, "agent_selection"):
            env.step(action)
            found.append(float(env.rewards["server_0"]))
        elif hasattr(env, "possible_agents"):
            found.append(float(env.step({"server_0": action})[1]["server_0"]))
        elif hasattr(env, "num_envs"):
            found.append(float(env.step(np.full(2, action))[1][0]))
        else:
            found.append(float(env.step(action)[1]))
    return found
