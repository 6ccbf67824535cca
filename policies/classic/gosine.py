"""Agents that remember a few options each and pass on which: gossiping insert-eliminate."""

import numpy as np

from taciturn.envs.core import Array, PublicView, number
from taciturn.envs.social_bandit.world import SocialBandit
from taciturn.policies.classic.social import IsolatedUCB, unbiased
from taciturn.policies.reference.private_social_learning import sample

__all__ = ["GosInE"]


class GosInE(IsolatedUCB):
    """UCB1 on few options, the worse of which give way to what others prefer.

    After Chawla, Sankararaman, Ganesh & Shakkottai 2020, "The gossiping insert-eliminate algorithm for multi-agent bandits". An agent
    always keeps its share of the options (i, i + N, ... of K, at least one), and two more. Phase j ends at round (1 + j)^(1 + growth),
    rounded up: then the less pulled of the two makes room for a recommendation, unless the agent has that option already.

    The paper's agents ask one neighbour for its most pulled option; here they draw from the unbiased shares of what they heard others
    hold, so that the channel's noise is in what is recommended. Rounds are the world's, so it acts in `social_bandit_v0` only.

    Args:
        growth: > 0.
    """

    def __init__(self, growth: float = 1.0) -> None:
        self.growth = number("growth", growth, above=0)

    def prepare(self, view: PublicView) -> None:
        if not issubclass(view.world, SocialBandit):
            raise ValueError(f"GosInE acts in social_bandit, whose agents share their rounds, not in {view.name!r}")
        super().prepare(view)
        (_, agents), options = self._shape, self._options
        self._sticky = np.arange(options) % agents == np.arange(agents)[:, None] % min(agents, options)
        two = (np.arange(agents)[:, None] + [1, 2]) % options
        self._extra: Array = np.broadcast_to(two, (*self._shape, 2)).copy()
        self._before = self._pulls.copy()
        self._round, self._phase = 0, 1

    def active(self) -> Array:
        """The options of each agent, bool[B, N, K]."""
        options = np.arange(self._options)
        found: Array = self._sticky | (self._extra[..., :1] == options) | (self._extra[..., 1:] == options)
        return found

    def index(self, pulls: Array, signals: Array) -> Array:
        return np.where(self.active(), super().index(pulls, signals), -np.inf)

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        self._round += 1
        if self._round >= np.ceil((1 + self._phase) ** (1 + self.growth)):
            self._phase += 1
            self.exchange(obs)
        return super().act(obs, mask)

    def exchange(self, obs: Array) -> None:
        """The end of a phase: the less pulled of the two makes room."""
        heard = self.heard(obs)
        advice, known = sample(np.maximum(unbiased(heard.counts, heard.received, *self._law), 0.0), self.rng)
        news = known & ~np.take_along_axis(self.active(), advice[..., None], -1)[..., 0]
        worse = np.argmin(np.take_along_axis(self._pulls - self._before, self._extra, -1), -1)[..., None]
        kept = np.take_along_axis(self._extra, worse, -1)
        np.put_along_axis(self._extra, worse, np.where(news[..., None], advice[..., None], kept), -1)
        self._before = self._pulls.copy()
