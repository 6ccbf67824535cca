"""Agents whose weights come with the package: `pretrained:NAME` wherever the name of a policy is asked for."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from taciturn.policies.base import Policy
from taciturn.policies.learned.messengers import LearnedListener, LearnedPlan
from taciturn.validation import shown

LEARNERS: dict[str, type[Policy]] = {kind.__name__: kind for kind in (LearnedListener, LearnedPlan)}


@cache
def pretrained_agents() -> dict[str, dict[str, Any]]:
    """`{name: {"policy", "task", "parameters"}}` of the trainings that `tools/messengers.py train` has kept."""
    found: dict[str, Any] = json.loads(
        (files("taciturn.policies.learned") / "pretrained.json").read_text(encoding="utf-8")
    )
    return found


def load_pretrained(name: str) -> Policy:
    """The agent of a kept training; it learns nothing more.

    Raises:
        ValueError: none is called that.
    """
    found = pretrained_agents().get(name)
    if found is None:
        raise ValueError(f"policy pretrained:NAME must name one of {', '.join(pretrained_agents())}, not {shown(name)}")
    return LEARNERS[found["policy"]](**found["parameters"])
