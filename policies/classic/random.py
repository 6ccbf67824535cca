"""Uniformly random actions."""

import gymnasium
import numpy as np

from taciturn.envs.core import Array, PublicView
from taciturn.policies.base import Policy

__all__ = ["Random"]


class Random(Policy):
    """Draw actions uniformly from the action space, or from the unmasked actions if there is a mask."""

    def begin(self, view: PublicView) -> None:
        self._space = view.roles[self.role].action_space

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        space, shape = self._space, obs.shape[:2]
        if isinstance(space, gymnasium.spaces.Box):
            return self.rng.uniform(space.low, space.high, (*shape, *space.shape)).astype(space.dtype)
        if isinstance(space, gymnasium.spaces.MultiDiscrete):
            return space.start + self.rng.integers(0, space.nvec, (*shape, len(space.nvec)))
        assert isinstance(space, gymnasium.spaces.Discrete)
        if mask is None:
            return space.start + self.rng.integers(0, int(space.n), shape)
        return space.start + np.argmax(mask * (1.0 + self.rng.random(mask.shape)), axis=-1)
