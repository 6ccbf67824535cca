"""Gossiping insert-eliminate: agents that each run UCB1 on a few options, and recommend options to one another."""

import numpy as np

from taciturn.envs.core import Array, PublicView, number
from taciturn.envs.social_bandit.world import SocialBandit
from taciturn.policies.classic.social import IsolatedUCB
from taciturn.policies.families.social import sample, unbiased
from taciturn.validation import Bools, Floats

__all__ = ["GosInE"]


class GosInE(IsolatedUCB):
    """UCB1 on a small set of options per agent, the worse of which are replaced by recommendations.

    After Chawla, Sankararaman, Ganesh & Shakkottai 2020, "The gossiping insert-eliminate algorithm for multi-agent bandits". Agent i
    permanently owns the options i, i + N, ... (at least one), and has two more. Phase j ends at round ceil((1 + j)^(1 + growth)). Then
    a recommendation replaces the one of the two that was pulled less in the phase, unless the agent has the recommended option already.

    The paper's agents ask one neighbour for its most pulled option. Here they draw an option from the unbiased shares of the messages
    they received, so the noise of the channel affects the recommendation. All agents must share their rounds, so the policy acts in
    `social_bandit_v0` only.

    Args:
        growth: exponent that lengthens the phases, > 0.
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

    def active(self) -> Bools:
        """The options of each agent, [B, N, K]."""
        options = np.arange(self._options)
        found: Bools = self._sticky | (self._extra[..., :1] == options) | (self._extra[..., 1:] == options)
        return found

    def index(self, pulls: Array, signals: Array) -> Floats:
        return np.where(self.active(), super().index(pulls, signals), -np.inf)

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        self._round += 1
        if self._round >= np.ceil((1 + self._phase) ** (1 + self.growth)):
            self._phase += 1
            self.exchange(obs)
        return super().act(obs, mask)

    def exchange(self, obs: Array) -> None:
        """End a phase: replace the less pulled of the two variable options by a recommendation."""
        heard = self.heard(obs)
        advice, known = sample(np.maximum(unbiased(heard.counts, heard.received, *self._law), 0.0), self.rng)
        news = known & ~np.take_along_axis(self.active(), advice[..., None], -1)[..., 0]
        worse = np.argmin(np.take_along_axis(self._pulls - self._before, self._extra, -1), -1)[..., None]
        kept = np.take_along_axis(self._extra, worse, -1)
        np.put_along_axis(self._extra, worse, np.where(news[..., None], advice[..., None], kept), -1)
        self._before = self._pulls.copy()
