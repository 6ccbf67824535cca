"""The base class of stopping rules."""

import numpy as np

from taciturn.envs.core import Array, PublicView
from taciturn.envs.round_stopping.model import Model
from taciturn.envs.round_stopping.world import STOP, WAIT, RoundStopping
from taciturn.policies.base import Policy
from taciturn.validation import Bools, Ints


class StoppingRule(Policy):
    """Base of the rules that decide from k, beta and the slots of the round; see `waits`."""

    memoryless = True

    def begin(self, view: PublicView) -> None:
        self.require(issubclass(view.world, RoundStopping), "the round-stopping worlds", view)
        self._layout = view.roles[self.role].layout
        self.prepare(view.params)

    def prepare(self, model: Model) -> None:
        """Compute everything that the rule needs from the environment's parameters."""

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        return np.where(self.waits(*self.seen(obs)), WAIT, STOP)

    def seen(self, obs: Array) -> tuple[Ints, Ints, Array]:
        """The state of the round in an observation: k, beta and the slots."""
        fields = self._layout.unpack(obs)
        return fields["received"].astype(np.int64), fields["queued"].astype(np.int64), fields["slots"]

    def waits(self, received: Ints, queued: Ints, slots: Array) -> Bools:
        """True where the rule waits with k updates `received` and beta `queued` after `slots` slots of the round; all
        have one shape."""
        raise NotImplementedError

    def table(self, num_clients: int) -> Bools:
        """The rule as a table for `evaluate`, bool[M + 1, M + 1] over (k, beta), at slot 0 of the round."""
        k, beta = np.indices((num_clients + 1, num_clients + 1))
        return np.broadcast_to(self.waits(k, beta, np.zeros(k.shape)), k.shape)
