"""The counts of calls on the page 'How a step works'."""

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from taciturn.compiling import compiled
from taciturn.envs import gossip_bandit_v0, recommender_v0, social_bandit_v0
from taciturn.wrappers import BitwiseRandomizedResponse, Privatize

PAGE = (Path(__file__).parent.parent / "docs/how_a_step_works.md").read_text(encoding="utf-8")


def calls(play: Callable[[], Any]) -> list[tuple[str, str]]:
    """The functions of this package that are called, and their files."""
    found = []

    def note(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        # Comprehensions are functions in Python 3.11 alone.
        if event == "call" and f"{os.sep}taciturn{os.sep}" in code.co_filename and not code.co_name.startswith("<"):
            found.append((code.co_name, code.co_filename))

    sys.setprofile(note)
    try:
        play()
    finally:
        sys.setprofile(None)
    return found


def stepped(env: Any) -> list[tuple[str, str]]:
    env.reset(seed=0)
    actions = {agent: env.action_space(agent).sample() for agent in env.possible_agents}
    for _ in range(3):
        env.step(actions)
    return calls(lambda: env.step(actions))


def counted(found: list[tuple[str, str]]) -> tuple[int, int]:
    return len(found), len({file for _, file in found})


def stated(before: str) -> tuple[int, int]:
    """The counts that the page states after these words."""
    match = re.search(re.escape(before) + r"\D*(\d+) calls in (\d+) files", PAGE.replace("\n", " "))
    assert match is not None, before
    return int(match[1]), int(match[2])


@pytest.fixture(autouse=True)
def compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    monkeypatch.setattr(compiled, "COMPILE_FROM", 0)


def test_a_step_of_gossip() -> None:
    found = stepped(gossip_bandit_v0.parallel_env(num_agents=3, horizon=1000.0))
    assert counted(found) == stated("`env.step(actions)` makes")
    assert len(found) <= 20


def test_a_round_of_the_recommender() -> None:
    found = stepped(recommender_v0.parallel_env(num_agents=3, num_items=20, repository=10, horizon=1000))
    assert counted(found) == stated("`env.step(actions)` of three providers makes")


def test_a_message() -> None:
    world = social_bandit_v0.population(1, num_agents=3, horizon=100, without_preference="zeros")
    env = Privatize(world, "preference", BitwiseRandomizedResponse(1.0))
    env.reset(seed=0)
    actions = np.zeros((1, 3, 3), np.int64)
    for _ in range(3):
        env.step(actions)
    found = calls(lambda: env.step(actions))
    names = [name for name, _ in found]
    path = found[names.index("between") : names.index("add") + 1]
    assert counted(path) == stated("From `between` to `Account.add` these are")
