"""Other policies among the agents, and messages of another run: tests of an agent's use of messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from taciturn.envs.core import Array, Fault, PublicView
from taciturn.envs.core.playing import restart
from taciturn.envs.core.public import has_public_schedule
from taciturn.policies import Policy
from taciturn.policies.external.separate import Separate


class AmongStrangers(Policy):
    """A policy that plays all agents but the last ones, which other policies play.

    Each policy observes all rows, as if it played all agents, unless it is written for one agent; in the strangers'
    rows only the strangers' actions count.

    Args:
        policy: plays the first agents.
        strangers: pairs (policy, share of all agents).
    """

    def __init__(self, policy: Any, strangers: Sequence[tuple[Any, float]]) -> None:
        self.policy, self.strangers = policy, list(strangers)

    @property
    def needs_truth(self) -> bool:  # type: ignore[override]
        """Whether any of the policies needs the truth."""
        return any(getattr(one, "needs_truth", False) for one in self._all())

    @property
    def centralised(self) -> bool:  # type: ignore[override]
        """Whether the policy is centralised."""
        return bool(getattr(self.policy, "centralised", False))

    @property
    def public_schedule(self) -> bool:  # type: ignore[override]
        """Whether all policies declare a public schedule."""
        return all(map(has_public_schedule, self._all()))

    def _all(self) -> list[Any]:
        return [self.policy, *(policy for policy, _ in self.strangers)]

    def begin(self, view: PublicView) -> None:
        self._acting = partial(view.acting, self.role)
        count = view.roles[self.role].num_agents
        ends = [count]
        for _, share in reversed(self.strangers):
            ends.append(ends[-1] - round(share * count))
        self._ends = ends[::-1]
        first, *others = self._all()
        first.reset(view, self.rng, self.role)
        if isinstance(first, Separate):
            first.indices = self._ends[0]  # no copy sees a stranger's data
        for policy, rng in zip(others, self.rng.spawn(len(others)), strict=True):
            policy.reset(view, rng, self.role)

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        rows = self._acting()
        agents = np.broadcast_to(np.arange(obs.shape[1]), obs.shape[:2]) if rows is None else rows
        chosen = np.array(self.policy.act(obs, mask))
        for (policy, _), start, end in zip(self.strangers, self._ends, self._ends[1:], strict=False):
            other, theirs = policy.act(obs, mask), (agents >= start) & (agents < end)
            chosen[theirs] = np.asarray(other)[theirs]
        return chosen

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        for policy in self._all():
            policy.update(obs, action, reward, done)

    def restart(self, where: Array) -> None:
        restart(self._all(), where)


@dataclass(frozen=True)
class OfAnotherRun(Fault):
    """Delivers in each replica the messages of the next one, which has another instance: equally many and equally noisy
    messages, about something else. It measures the value of messages, and is part of no environment."""

    order: ClassVar[int] = 5

    def deliver(
        self, y: Array, sent: Array, sending: Array, memory: dict[str, Array], rng: np.random.Generator
    ) -> tuple[Array, Array]:
        return np.roll(y, 1, 0), np.roll(sent, 1, 0)
