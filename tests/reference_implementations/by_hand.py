"""What the worlds written by hand share: they are written as for PettingZoo without this package, with dicts and loops
over agents.

Each has the observations, rewards and regret (in elicitation: the bound on payments) of the world's Parallel form under
its defaults, without noise on the channels, privacy accounting, masks or checks of arguments. Random numbers come from
the streams that the package uses, one at a time, so the same seed gives the same run. Two worlds agree in law only: the
social bandit, where the package draws counts of copies, and arm elimination, where NumPy draws sums of rewards in
another way. Tests use them as a second implementation of each world, and tables of speed compare them with its Parallel
form.
"""

import zlib
from typing import Any

import numpy as np
import pettingzoo

from taciturn.validation import Array

Dicts = tuple[dict[str, Array], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]


def numbers(seed: int | None, name: str) -> np.random.Generator:
    """The uniform numbers that a world draws from its source of that name in its first replica (NumPy's Philox)."""
    key = np.random.SeedSequence(seed, spawn_key=(zlib.crc32(name.encode()),)).generate_state(1, np.uint64)[0]
    return np.random.Generator(np.random.Philox(key=np.array([key, 0], np.uint64)))


class ByHand(pettingzoo.ParallelEnv[str, Array, Any]):  # type: ignore[misc] # PettingZoo has no types
    """Base of the worlds by hand: names, and the dicts that a step returns."""

    metadata = {"name": "by_hand"}  # noqa: RUF012 - as PettingZoo has it

    def __init__(self, num_agents: int, horizon: float, name: str = "agent") -> None:
        self.horizon = horizon
        self.possible_agents = [f"{name}_{i}" for i in range(num_agents)]

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, Array], dict[str, Any]]:
        self.agents = list(self.possible_agents)
        self.time = 0.0
        self.begin(seed)
        return {agent: self.observe(agent) for agent in self.agents}, {
            agent: self.inform(agent) for agent in self.agents
        }

    def step(self, actions: dict[str, Any]) -> Dicts:
        rewards = self.play(actions)
        over = self.over()
        observations = {agent: self.observe(agent) for agent in self.agents}
        infos = {agent: self.inform(agent) for agent in self.agents}
        terminations, truncations = dict.fromkeys(self.agents, False), dict.fromkeys(self.agents, over)
        if over:
            self.agents = []
        return observations, rewards, terminations, truncations, infos

    def begin(self, seed: int | None) -> None:
        raise NotImplementedError

    def play(self, actions: dict[str, Any]) -> dict[str, float]:
        raise NotImplementedError

    def observe(self, agent: str) -> Array:
        raise NotImplementedError

    def inform(self, agent: str) -> dict[str, Any]:
        return {"regret": self.regret}

    def over(self) -> bool:
        return self.time >= self.horizon

    regret = 0.0
