"""The checks that every environment, policy, mechanism and study of this package passes, for use by other packages.

They are plain functions that raise an AssertionError. Nothing here needs pytest, which can run them one by one:

    import pytest
    from taciturn.testing import check_mechanism, check_study, policy_checks, world_checks

    CHECKS = [*world_checks("rumour_v0", {"num_agents": 4}), *policy_checks("Sceptic", "rumour_v0")]

    @pytest.mark.parametrize("check", CHECKS, ids=str)
    def test_rumours(check):
        check()
"""

from taciturn.testing.cases import Case, Check
from taciturn.testing.checks import check_policy, check_world, policy_checks, world_checks
from taciturn.testing.mechanisms import check_mechanism
from taciturn.testing.policies import Play
from taciturn.testing.replays import Replayed, replayed
from taciturn.testing.schedules import schedule_is_public
from taciturn.testing.studies import check_study

__all__ = [
    "Case", "Check", "Play", "Replayed", "check_mechanism", "check_policy", "check_study", "check_world",
    "policy_checks", "replayed", "schedule_is_public", "world_checks",
]  # fmt: skip
