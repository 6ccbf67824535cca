"""The papers' own policies pass the checks of taciturn, by the names under which this package declares them."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from taciturn.registry import own_policies, policies
from taciturn.testing import Check, policy_checks
from taciturn.wrappers import NoPrivacy

DECLARED = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "entry-points"
]["taciturn.policies"]
ARMS: dict[str, Any] = {"num_agents": 3, "qualities": (0.9, 0.5, 0.2), "horizon": 60}
SHOP: dict[str, Any] = {"num_agents": 3, "num_items": 40, "repository": 20, "horizon": 30}
SHORT = ("fast_form_is_used", "sees_nothing_hidden", "whoever_overrides_a_piece_is_played_by_act")


def checks(name: str) -> list[Any]:
    world = ("recommender_v0", SHOP) if "zhou2021" in DECLARED[name] else ("federated_bandit_v0", ARMS)
    # What neighbours tell must pass a channel, where the check can hold it fixed.
    privacy = dict.fromkeys(("statistics", "counts"), NoPrivacy()) if name == "DSC" else None
    return [
        pytest.param(check, id=f"{name}-{check.kind}", marks=[pytest.mark.slow] * (check.kind not in SHORT))
        for check in policy_checks(name, *world, privacy=privacy)
    ]


@pytest.mark.parametrize("check", [one for name in DECLARED for one in checks(name)])
def test_a_policy_passes_the_checks(check: Check) -> None:
    check()


def test_every_declared_policy_is_found_by_its_name() -> None:
    found = policies()
    assert {name: f"{found[name].__module__}:{found[name].__name__}" for name in DECLARED} == DECLARED
    assert not DECLARED.keys() & own_policies().keys()


@pytest.mark.parametrize(
    ("name", "parameter", "value"),
    [
        *(("HCT", parameter, value) for parameter, value in (("nu", 1e-308), ("rho", 1e-308), ("c", 1e308))),
        *(("GaussLinUCB", parameter, 1e-308) for parameter in ("epsilon", "delta", "failure")),
    ],
)
def test_numbers_that_would_fail_in_play_are_refused_before(name: str, parameter: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"{parameter} must be"):
        policies()[name](**{parameter: value})
