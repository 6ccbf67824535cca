"""Playing many slots at once: what agents know without rounding, the plans they make of it, and the jump."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from taciturn.envs.core import Fast
from taciturn.envs.federated_bandit.model import State, own_copy, renewed
from taciturn.envs.federated_bandit.protocol import RoundTraffic
from taciturn.validation import Array, Bools, Floats, Ints

__all__ = ["AgentKnowledge", "EpochPlan", "jump"]


class AgentKnowledge:
    """The fields of the observation in full precision, [B, 1 or M, K] or [B, 1 or M], which follow changes made in the state's arrays."""

    def __init__(self, state: State, horizon: int, traffic: RoundTraffic) -> None:
        self._state, self._horizon, self._traffic = state, horizon, traffic
        self.counts, self.sums, self.private = state.counts, state.sums, state.private
        self.broadcast, self.time = state.broadcast[:, None], state.time[:, None]
        self.rounds, self.phase_left = state.rounds[:, None], state.phase_left[:, None]

    @property
    def means(self) -> Floats:
        return self.sums / np.maximum(self.counts, 1)

    @property
    def active(self) -> Bools:
        return renewed(self._state)[:, None]

    @property
    def time_left(self) -> Ints:
        return self._horizon - self.time

    @property
    def coverage(self) -> Floats:
        share = self._traffic.coverage[self._traffic.elapsed(self.phase_left[:, 0])] / self.counts.shape[1]
        return np.where(self.phase_left > 0, share, 1.0)


@dataclass(frozen=True)
class EpochPlan(Fast):
    """What every agent pulls in its next slots, in place of one decision per slot.

    Args:
        plan: maps (`AgentKnowledge`; the most slots that each agent may plan, int64[B, M]) to (pulls int64[B, M, K], or the arms
            int64[B, M] of one slot; the agents that upload at the end of these slots, bool[B, M]). Agents that do not upload may plan
            different numbers of slots.
    """

    plan: Callable[[AgentKnowledge, Ints], tuple[Ints, Bools]]


def jump(
    population: Any, plan: Callable[[AgentKnowledge, Ints], tuple[Ints, Bools]], policy: Any, until: float
) -> State:
    """The state of a `FederatedBandit` at `until` (inf: at the horizon) if agents follow `plan`.

    Sums of the Bernoulli rewards of many pulls are drawn as binomials, which has the same law as drawing them one by one.
    """
    params, channel, live = population.params, population.channels["means"], ~population.done
    state: State = own_copy(population.state)
    knowledge = AgentKnowledge(state, params.horizon, population.traffic)
    clock = np.repeat(state.time[:, None], params.num_agents, axis=1)
    end: Array = np.where(live, int(min(params.horizon, until + 1e-9)), 0)[:, None]
    one = np.ones(len(clock), np.int64)
    while (room := end - clock).max() > 0:
        if np.count_nonzero(state.phase_left):
            left = state.phase_left[:, None]
            room = np.where(left > 0, np.minimum(room, left), room)
        least = room.min()
        pulls, asks = plan(knowledge, room if least >= 0 else np.maximum(room, 0))
        if pulls.ndim == 2 and least > 0:
            population.pull(state, pulls)
            clock += 1
            state.time[:] += 1
            slots = one
        else:
            if pulls.ndim == 2:
                pulls = (pulls[:, :, None] == np.arange(params.arms)) * (room > 0)[:, :, None]
            each = pulls.sum(-1)
            if (each > np.maximum(room, 0)).any() or (each < (room > 0)).any():
                raise ValueError(f"{policy!r} must plan 1 to {room.max()} slots, not {each.min()} to {each.max()}")
            population.pull_many(state, pulls)
            clock += each
            slots, state.time[:] = each.max(1), clock.max(1)
        if np.count_nonzero(asks) or np.count_nonzero(state.phase_left):
            channel.live = live
            population.communicate(state, asks & (room > 0) & population.may_upload(state), slots)
            live = live & ~channel.stopped
            end = np.where(live[:, None], end, 0)
    return state
