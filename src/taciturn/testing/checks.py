"""The checks of an environment and of a policy, one by one or all together."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from taciturn.testing import forms, interfaces, policies, populations, replays, schedules
from taciturn.testing.cases import WORLD_CHECKS, Case, Check
from taciturn.testing.policies import Play

# Each of these modules registers its checks in WORLD_CHECKS.
__all__ = [
    "check_policy", "check_world", "forms", "interfaces", "policy_checks", "populations", "replays", "schedules",
    "world_checks",
]  # fmt: skip


def world_checks(world: Case | str, params: Mapping[str, Any] | None = None, **options: Any) -> list[Check]:
    """The checks that apply to an environment: conformance, masks, info, seeds, copies, refused input, run length,
    privacy.

    Args:
        world: its name, its id or `module:name`, or a `Case`.
        params: parameters that make it small: the checks need several runs to end within 200 steps.
        **options: `privacy` and `others`, see `Case`.
    """
    case = world if isinstance(world, Case) else Case(world, params, **options)
    return [
        Check(
            check.__name__,
            partial(check, case) if value is None else partial(check, case, value),
            str(getattr(value, "value", "" if value is None else value)),
            api,
        )
        for check, applies, over, api in WORLD_CHECKS
        if applies(case)
        for value in over(case)
    ]


def check_world(world: str, params: Mapping[str, Any] | None = None, **options: Any) -> None:
    """Run `world_checks`."""
    for check in world_checks(world, params, **options):
        check()


def policy_checks(policy: str, world: str, params: Mapping[str, Any] | None = None, **options: Any) -> list[Check]:
    """The checks that apply to a policy in a small environment: see `Play` for the arguments."""
    play = Play(policy, world, params, **options)
    result = policies.policy_checks(play)
    if schedules.declares_a_public_schedule(play):
        result.append(Check("schedule_is_public", partial(schedules.schedule_is_public, play)))
    return result


def check_policy(policy: str, world: str, params: Mapping[str, Any] | None = None, **options: Any) -> None:
    """Run `policy_checks`."""
    for check in policy_checks(policy, world, params, **options):
        check()
