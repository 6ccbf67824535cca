"""What every policy is: something that acts on arrays of observations."""

from collections.abc import Callable
from typing import Any

import numpy as np

from taciturn.envs.core import Array, Population

__all__ = ["Learner", "Policy", "Progress"]

Progress = Callable[[float], None]


class Policy:
    """Base of the policies: acts on `[B, rows, D]` observations, and may learn from what follows.

    A policy holds its parameters; what it learns about a run it learns after `reset`.
    """

    rng: np.random.Generator
    role: str

    def reset(self, env: Population[Any], rng: np.random.Generator, role: str | None = None) -> None:
        """Prepare for a fresh run in `env` as `role` (None: the only one), drawing from `rng`."""
        self.rng = rng
        self.role = next(iter(env.roles)) if role is None else role
        self.begin(env)

    def begin(self, env: Population[Any]) -> None:
        """Read what the run's parameters tell; raise ValueError if the policy cannot act in `env`."""

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        """Actions [B, rows, ...] for observations [B, rows, D]; `mask` int8[B, rows, n] marks those with an effect."""
        raise NotImplementedError

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        """Learn from a step: `reward` [B, rows] came of `action` taken at `obs`; `done` bool[B]."""

    def prescribes(self, env: Population[Any]) -> dict[str, Any]:
        """`{channel: mechanism}` of the policy's paper, which `simulate(privacy="paper")` installs; ValueError if it names none."""
        raise ValueError(f'{type(self).__name__} prescribes no mechanism: privacy="paper" has no meaning with it')

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{k}={v!r}"
            for k, v in vars(self).items()
            if not k.startswith("_") and k not in ("rng", "role", "progress")
        )
        return f"{type(self).__name__}({shown})"


class Learner(Policy):
    """Base of the policies that are trained: when first reset, in a world like the one they are to act in, and then kept.

    Attributes:
        progress: told the fraction done, while it trains.
    """

    progress: Progress | None = None

    def train(self, env: Population[Any]) -> Any:
        """Learn in a world like `env`, which itself is not touched; returns the policy."""
        raise NotImplementedError
