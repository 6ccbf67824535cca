"""Every world at a size for tests, the tiny ones and those of the registry."""

from collections.abc import Iterable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from taciturn import registry
from taciturn.envs import federated_training_v0
from taciturn.envs.core import Array, Controlled, Population
from taciturn.policies import Random
from taciturn.testing import Case, Check
from taciturn.wrappers import (
    BitwiseRandomizedResponse,
    KaryRandomizedResponse,
)

CLIENTS: dict[str, Any] = {"num_clients": 10, "clip_norm": 1.0, "compute_probability": 0.1, "horizon": 12.0}
MARKET: dict[str, Any] = {
    "num_individuals": 12, "horizon": 8, "belief_concentration": np.inf, "theta": (0.4, 0.3, 0.2, 0.1), "target": 1.0,
}  # fmt: skip
# Mechanisms that fit the channels of the tests' own worlds.
LAWS: dict[str, dict[str, Any]] = {
    "consensus": {"vote": BitwiseRandomizedResponse(1.0)},
    **{name: {"purchase": KaryRandomizedResponse(1.0, 2)} for name in ("auction", "platform", "individual")},
}


def platform_side(num_envs: int = 1, **parameters: Any) -> Population[Any]:
    """Elicitation seen by its platform."""
    return registry.one_agent("elicitation_v0", num_envs, parameters)


class ControlledCase(Case):
    """The auction seen by one of its roles, the other of which is random."""

    def __init__(self, role: str, **params: Any) -> None:
        self.role, (self.other,) = role, {"platform", "individual"} - {role}
        super().__init__("worlds:auction_v0", params, privacy=LAWS[role])
        self.id, self.given = f"tests/{role.title()}-v0", params
        if self.sole:
            gymnasium.register(self.id, self.single_env, vector_entry_point=self.vector_env)

    def population(self, num_envs: int = 1, **params: Any) -> Population[Any]:
        return Controlled(super().population(num_envs, **params), self.role, {self.other: Random()})


def case(name: str, path: str, **params: Any) -> Case:
    return Case(path, params, privacy=LAWS.get(name))


CASES: dict[str, Case] = {
    "consensus": case("consensus", "worlds:consensus_v0"),
    "gossip": case("gossip", "worlds:gossip_v0", horizon=60),
    "auction": case("auction", "worlds:auction_v0"),
    "corridor": case("corridor", "worlds:corridor_v0"),
    "platform": ControlledCase("platform"),
    "individual": ControlledCase("individual"),
    "one_individual": ControlledCase("individual", num_agents=1),
} | {world.name: Case(world.name) for world in registry.WORLDS}
# Kinds of checks whose variants take long enough to be tests of their own.
LONG = {"seed_decides_every_bit", "vector_env_is_gymnasiums_of_one_replica", "autoreset"}


def by_kind(name: str, checks: Iterable[Check]) -> list[Any]:
    """Parameters of tests: the checks of one kind together, `[check, ...]`, those in LONG one by one."""
    groups: dict[str, list[Check]] = {}
    for check in checks:
        groups.setdefault(str(check) if check.kind in LONG else check.kind, []).append(check)
    return [
        pytest.param(some, id=f"{name}-{kind}", marks=[pytest.mark.api] * some[0].api) for kind, some in groups.items()
    ]


def run_all(checks: Iterable[Check]) -> None:
    """Run all of them, and raise what they raised, with their names."""
    errors: list[Exception] = []
    for check in checks:
        try:
            check()
        except Exception as error:
            error.add_note(f"in {check}")
            errors.append(error)
    if errors:
        raise errors[0] if len(errors) == 1 else ExceptionGroup("several checks fail", errors)


ONE_ROLE = [name for name, case in CASES.items() if case.one_role]
# Those that `gymnasium.make` makes.
MADE = [name for name, case in CASES.items() if case.has_id]


class AlwaysAsks(Random):
    """Shows random items and always asks for statistics, in the recommender."""

    public_schedule = True

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        items = super().act(obs, mask)
        half = self._space.n // 2  # type: ignore[attr-defined]
        return items % half + half


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
