"""Playing many slots in one call: the unrounded knowledge of agents, their plans, and the jump."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from taciturn.envs.core import Fast
from taciturn.envs.federated_bandit.federation import communicate, find_open, pull_arms, pull_plan, send
from taciturn.validation import Array, Bools, Floats, Ints


class AgentKnowledge:
    """The fields of a `FederatedBandit` observation in full precision, [B, 1 or M, K] or [B, 1 or M]; updated while it
    plays."""

    def __init__(self, population: Any) -> None:
        column = population.column
        self._horizon, self._traffic, self._last_round = (
            population.params.horizon,
            population.traffic,
            column("last_round"),
        )
        self.counts, self.sums, self.private = column("counts"), column("sums"), column("private")
        self.broadcast, self.time = column("broadcast")[:, None], column("time")[:, None]
        self.rounds, self.phase_left = column("rounds")[:, None], column("phase_left")[:, None]

    @property
    def means(self) -> Floats:
        return self.sums / np.maximum(self.counts, 1)

    @property
    def active(self) -> Bools:
        return np.asarray(self._last_round == self.rounds)[:, None]

    @property
    def time_left(self) -> Ints:
        return self._horizon - self.time

    @property
    def coverage(self) -> Floats:
        left = self.phase_left[:, 0]
        share = self._traffic.coverage[np.where(left > 0, self._traffic.slots - left, 0)] / self.counts.shape[1]
        return np.where(self.phase_left > 0, share, 1.0)


@dataclass(frozen=True)
class EpochPlan(Fast):
    """Every agent's pulls in its next slots, in place of one decision per slot.

    Args:
        plan: maps (`AgentKnowledge`; the most slots that each agent may plan, int64[B, M]) to (pulls int64[B, M, K], or
            the arms int64[B, M] of one slot; the agents that upload at the end of these slots, bool[B, M]). Agents that
            do not upload may plan different numbers of slots.
    """

    plan: Callable[[AgentKnowledge, Ints], tuple[Ints, Bools]]


def jump(
    population: Any, plan: Callable[[AgentKnowledge, Ints], tuple[Ints, Bools]], policy: Any, until: float
) -> None:
    """Play a `FederatedBandit` to `until` (inf: to the horizon), with agents that follow `plan`.

    The rewards of many pulls are drawn as a binomial sum, which has the same distribution as drawing them one by one.
    """
    params, channel, live = population.params, population.channels["means"], ~population.done
    fields = "time", "phase_left", "slots", "asks", "uploaded"
    time, phase_left, slots, asking, uploaded = map(population.column, fields)
    knowledge = AgentKnowledge(population)
    clock = np.repeat(time[:, None], params.num_agents, axis=1)
    end: Array = np.where(live, int(min(params.horizon, until + 1e-9)), 0)[:, None]
    while (room := end - clock).max() > 0:
        if np.count_nonzero(phase_left):
            left = phase_left[:, None]
            room = np.where(left > 0, np.minimum(room, left), room)
        least = room.min()
        pulls, asks = plan(knowledge, room if least >= 0 else np.maximum(room, 0))
        if pulls.ndim == 2 and least > 0:
            population.column("arms")[:] = pulls
            population.play_on(pull_arms, live)
            clock += 1
            time += 1
            slots[:] = 1
        else:
            if pulls.ndim == 2:
                pulls = (pulls[:, :, None] == np.arange(params.arms)) * (room > 0)[:, :, None]
            each = pulls.sum(-1)
            if (each > np.maximum(room, 0)).any() or (each < (room > 0)).any():
                raise ValueError(f"{policy!r} must plan 1 to {room.max()} slots, not {each.min()} to {each.max()}")
            population.column("plan")[:] = pulls
            population.play_on(pull_plan, live)
            clock += each
            slots[:], time[:] = each.max(1), clock.max(1)
        if np.count_nonzero(asks) or np.count_nonzero(phase_left):
            channel.live = live
            asking[:] = asks & (room > 0) & (phase_left == 0)[:, None] & ~uploaded
            population.play_on(send, live)
            if not population.plain:
                population.between(live)
            population.play_on(communicate, live)
            live = live & ~channel.stopped
            end = np.where(live[:, None], end, 0)
    population.play_on(find_open, ~population.done)
