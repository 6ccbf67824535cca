"""The checks that every world, policy, mechanism and study of this package passes, for those of other packages.

They are plain functions that raise an AssertionError; nothing here needs pytest, which can run them one by one:

    import pytest
    from taciturn.testing import check_mechanism, check_study, policy_checks, world_checks

    @pytest.mark.parametrize("check", [*world_checks("rumour_v0", {"num_agents": 4}), *policy_checks("Sceptic", "rumour_v0")], ids=str)
    def test_rumours(check):
        check()
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from taciturn.testing import forms, interfaces, policies, populations
from taciturn.testing.cases import WORLD_CHECKS, Case, Check
from taciturn.testing.mechanisms import check_mechanism
from taciturn.testing.policies import Play
from taciturn.testing.studies import check_study

__all__ = [
    "Case", "Check", "Play", "check_mechanism", "check_policy", "check_study", "check_world", "forms", "interfaces", "policy_checks",
    "populations", "world_checks",
]  # fmt: skip


def world_checks(world: Case | str, params: Mapping[str, Any] | None = None, **options: Any) -> list[Check]:
    """The checks that apply to a world: conformance, masks, info, seeds, copies, refused input, run length, privacy.

    Args:
        world: its name, its id or `module:name`, or a `Case`.
        params: parameters that make it small: the checks want several runs to end within 200 steps.
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
    """The checks that apply to a policy in a small world: see `Play` for the arguments."""
    return policies.policy_checks(Play(policy, world, params, **options))


def check_policy(policy: str, world: str, params: Mapping[str, Any] | None = None, **options: Any) -> None:
    """Run `policy_checks`."""
    for check in policy_checks(policy, world, params, **options):
        check()
