"""Every world passes the checks that are exported to other packages, and the checks find a world that is wrong."""

from typing import Any

import numpy as np
import pytest
import worlds as tiny
from cases import CASES, by_kind, run_all

from taciturn.envs.core import Array, World, uniform
from taciturn.testing import Check, world_checks

# Gymnasium resets the other role's policy at every episode, and ours goes on; and bound methods have no JSON and no
# metadata.
NOT_OF_ROLES = (
    "vector_env_is_gymnasiums_of_one_replica", "a_spec_in_json_makes_the_same_environment", "frames_are_collected",
)  # fmt: skip


def checks(name: str) -> list[Any]:
    found = world_checks(CASES[name])
    if name in ("platform", "one_individual"):
        found = [check for check in found if check.kind not in NOT_OF_ROLES]
    return by_kind(name, found)


@pytest.mark.parametrize("checks", [some for name in CASES for some in checks(name)])
def test_every_world(checks: list[Check]) -> None:
    run_all(checks)


class Shared(tiny.Consensus):
    """Shows the same buffer twice."""

    kept: Any = None

    def _run(self, *args: Any, **named: Any) -> Any:
        seen, *rest = super()._run(*args, **named)
        if not seen.size:
            return seen, *rest
        if self.kept is None or self.kept.shape != seen.shape:
            self.kept = seen
        self.kept[:] = seen
        return self.kept, *rest


class Restless(tiny.Consensus):
    """Draws before it refuses an action."""

    def step(self, actions: Any, where: Array | None = None, out: Array | None = None) -> Any:
        uniform(self._rngs[0], tiny.LUCK)
        return super().step(actions, where, out)


class Outside(tiny.Consensus):
    """Observes numbers beyond its space."""

    def _run(self, *args: Any, **named: Any) -> Any:
        seen, *rest = super()._run(*args, **named)
        return seen + np.float32(0.5), *rest


class Misplaced(tiny.Consensus):
    """Shows each agent what the one before it should see."""

    def _run(self, *args: Any, **named: Any) -> Any:
        seen, *rest = super()._run(*args, **named)
        return np.roll(seen, 1, axis=1), *rest


class Untyped(tiny.Consensus):
    """Tells the time as a number of another type when it is even."""

    def current_info(self) -> dict[str, Any]:
        info = super().current_info()
        return info | {"time": info["time"].astype(int if info["time"][0] % 2 else float)}


broken_v0 = tiny.broken_v0
shared_v0, restless_v0, outside_v0, misplaced_v0, untyped_v0 = (
    World(kind, tiny.Params) for kind in (Shared, Restless, Outside, Misplaced, Untyped)
)
silent_v0: World[Any, Any, ...] = World(
    type("Mute", (tiny.Gossip,), {"make_channels": tiny.Consensus.make_channels}), tiny.Params
)


@pytest.mark.parametrize(
    ("world", "kind"),
    [
        ("broken_v0", "seed_decides_every_bit"),
        ("silent_v0", "agents_data_pass_the_hook"),
        ("shared_v0", "observations_are_fresh_buffers"),
        ("restless_v0", "wrong_actions_change_nothing"),
        ("outside_v0", "observations_lie_in_their_space"),
        ("misplaced_v0", "agents_that_change_places_see_what_is_theirs"),
        ("untyped_v0", "info_has_the_same_keys_and_types_at_every_step"),
    ],
)
def test_the_checks_find_a_world_that_is_wrong(world: str, kind: str) -> None:
    found = [check for check in world_checks(f"test_registry:{world}") if check.kind == kind]
    assert found
    for check in found:
        with pytest.raises(AssertionError):
            check()
