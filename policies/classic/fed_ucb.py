"""FedUCB for arms, and a repair; `taciturn.wrappers.audit` refutes the privacy claim of the original."""

import numpy as np

from taciturn.envs.core import Array, PublicView, number
from taciturn.envs.federated_bandit.world import FederatedBandit
from taciturn.policies.base import Policy
from taciturn.validation import Bools, Floats, choice

ACTS_ON = ("own", "received")


def synchronises(counts: Array, synced: Array, slots: Array, ridge: float, threshold: float) -> Bools:
    """Whether ln det(V) - ln det(S) >= D / t, bool[...] (Dubey & Pentland 2020, Algorithm 1; for a single agent, Wang,
    Hu, Chen & Wang 2020).

    With arms as unit vectors, det(S) is the product of lambda + N_k and det(V) the product of lambda + N_k + n_k.

    Args:
        counts: n, the agent's pulls since the last synchronisation, [..., K].
        synced: N, pulls of all agents up to then, [..., K].
        slots: t >= 1, the slots since then, [...].
        ridge: lambda.
        threshold: D.
    """
    grown = np.log1p(counts / (ridge + synced)).sum(-1)
    return np.asarray(grown * slots >= threshold)


def ridge_index(counts: Array, sums: Floats, received: Array, ridge: float, width: float) -> Floats:
    """s / (lambda + h) + beta / sqrt(lambda + n), [..., K]: the upper confidence bound of linear regression (Dubey &
    Pentland 2020, Algorithm 1) on unit vectors, with h pulls in the sum s of rewards, and n known pulls in total."""
    return np.asarray(sums / (ridge + received) + width / np.sqrt(ridge + counts))


class FedUCB(Policy):
    """FedUCB (Dubey & Pentland 2020, Algorithm 1 with a server) for K arms: an agent uploads when the determinant of
    its Gram matrix has grown enough since the last synchronisation.

    The paper claims privacy by noise on uploads. But the time of an upload follows from pulls, and these from the
    agent's own rewards without noise: one reward can move the upload (Zhou & Chowdhury 2024, 'On differentially private
    federated linear contextual bandits', issue (i)). So it declares no public schedule, and the accountant gives it no
    finite epsilon; if the claim is accepted instead, `audit(change=...)` refutes it.

    With `acts_on="received"`, pulls, and therefore upload times, follow from the averages that the server sent: the
    schedule is public. The agent then uses its own rewards only after uploading them.

    Deviations from the paper: it has linear bandits with contexts; here the actions are e_1, ..., e_K in every slot.
    The channel adds noise to the mean of each arm, and each reward enters one mean; it adds none to Gram matrices by a
    tree, and pulls get no noise. The agent that satisfies the rule uploads immediately; the others see the upload and
    follow one slot later. The server's average holds no counts, so an agent assumes M times as many pulls as it has
    uploaded itself. Determinants omit the shifts that the paper adds to Gram matrices for the bounds of the noise. The
    repair is ours: Zhou & Chowdhury have a fixed schedule, and noise on Gram matrices, which has no counterpart here.

    Args:
        threshold: D > 0.
        width: beta of the index, >= 0; the paper's grows with t.
        ridge: lambda > 0.
        acts_on: "own": its own rewards immediately, as in the paper; "received": only the server's messages.
    """

    def __init__(self, threshold: float = 10.0, width: float = 1.0, ridge: float = 1.0, acts_on: str = "own") -> None:
        self.threshold, self.width = number("threshold", threshold, above=0), number("width", width, at_least=0)
        self.ridge, self.acts_on = number("ridge", ridge, above=0), choice("acts_on", acts_on, ACTS_ON)

    @property
    def public_schedule(self) -> bool:  # type: ignore[override]
        return self.acts_on == "received"

    def begin(self, view: PublicView) -> None:
        fits = issubclass(view.world, FederatedBandit) and view.params.topology == "server" and "agent" in view.roles
        self.require(fits, "federated_bandit with topology='server'", view)
        self._layout, self._agents = view.roles["agent"].layout, view.params.num_agents
        shape = (view.num_envs, self._agents, view.params.arms)
        self._used, self._sums = np.zeros(shape), np.zeros(shape)  # pulls and rewards that were uploaded
        self._uploads = np.zeros(shape[:2], np.bool_)  # uploads in the last slot
        self._synced, self._rounds = np.zeros(shape[:2]), np.zeros(shape[:2])  # the last upload; known rounds

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        part, obs = self._layout.slices, obs.astype(np.float64)
        counts, means, broadcast = (obs[..., part[name]] for name in ("counts", "means", "broadcast"))
        now, rounds = (obs[..., part[name].start] for name in ("time", "rounds"))
        own = np.rint(counts * means)
        for memory in (self._used, self._sums, self._uploads, self._synced, self._rounds):
            memory[now == 0] = 0
        self._used[self._uploads], self._sums[self._uploads] = counts[self._uploads], own[self._uploads]
        new, synced = counts - self._used, self._agents * self._used
        received, sums = synced, synced * broadcast
        if self.acts_on == "own":
            received, sums = received + new, sums + own - self._sums
        arms = ridge_index(synced + new, sums, received, self.ridge, self.width).argmax(-1)
        pulled = arms[..., None] == np.arange(counts.shape[-1])
        asked = (rounds > self._rounds) & (self._synced < now - 1)  # others have uploaded without it
        grown = synchronises(new + pulled, synced, now + 1 - self._synced, self.ridge, self.threshold)
        self._uploads = asked | grown
        self._synced, self._rounds = np.where(self._uploads, now + 1, self._synced), rounds
        return np.asarray(arms + counts.shape[-1] * self._uploads)
