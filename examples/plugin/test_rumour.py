"""The checks that the worlds, policies, mechanisms and studies of taciturn pass; where this is installed, names do as
well as paths."""

import pytest
from rumour import Shrug

from taciturn.testing import Check, check_mechanism, check_study, policy_checks, world_checks

WORLD, POLICY, SMALL = "rumour:rumour_v0", "rumour:Sceptic", {"num_agents": 4, "horizon": 12}


@pytest.mark.parametrize("check", world_checks(WORLD, SMALL, privacy={"vote": Shrug(0.5)}, others=POLICY), ids=str)
def test_world(check: Check) -> None:
    check()


@pytest.mark.parametrize("check", policy_checks(POLICY, WORLD, SMALL), ids=str)
def test_policy(check: Check) -> None:
    check()


def test_mechanism() -> None:
    check_mechanism(Shrug(0.5))


def test_study() -> None:
    check_study("rumour_study:Rumours")
