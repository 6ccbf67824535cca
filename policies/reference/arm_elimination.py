"""Private federated arm elimination: Algorithms 1, 3 and 5 of Li & Song, and their agent on its own."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from taciturn.envs.core import Array, PublicView, choice, integer, number
from taciturn.envs.federated_bandit.arm_elimination import ArmElimination as ArmEliminationWorld
from taciturn.envs.federated_bandit.arm_elimination import action
from taciturn.envs.federated_bandit.world import EpochPlan, FederatedBandit, Params, eliminate, in_turn, smallest_gap
from taciturn.policies.base import Policy
from taciturn.wrappers import Laplace

__all__ = [
    "CDPMAB",
    "DDPMAB",
    "HDPMAB",
    "CommunicationEfficientCDPMAB",
    "EliminationSchedule",
    "SingleAgent",
    "confidence_radius",
    "participants",
    "samples",
    "target_gap",
    "whole_samples",
]


def target_gap(r: Array, rounds: int | None = None, gap: Array | float = 1.0) -> Array:
    """Dtilde_r = 2^-r (Algorithm 1, line 3), or Delta^(r/R) with R `rounds` and the smallest gap Delta (section IV-B)."""
    return 2.0**-r if rounds is None else np.asarray(gap) ** (r / rounds)


def participants(participation: float, num_agents: int) -> int:
    """N = ceil(p M), the agents that upload in a round (section IV-B)."""
    return math.ceil(participation * num_agents - 1e-9)


def samples(
    r: Array, target: Array, num_active: Array, num_arms: int, num_participants: int, horizon: int, epsilon: float
) -> Array:
    """S(r), pulls of each active arm by each agent up to epoch r (Algorithm 1, line 4; with N, section IV-B).

    S(r) = max(8 log(8 |I| r^2 T) / (N Dtilde^2), 8 r sqrt(2 log(8 K r^2 T)) / (N^1.5 epsilon Dtilde)).

    Args:
        r: the epoch, >= 1.
        target: Dtilde_r.
        num_active: |I|, arms active before it.
        num_arms, num_participants, horizon: K, N, T.
        epsilon: inf: without privacy.
    """
    n, r = num_participants, np.asarray(r, np.float64)
    sampling = 8 * np.log(8 * num_active * r**2 * horizon) / (n * target**2)
    privacy = 8 * r * np.sqrt(2 * np.log(8 * num_arms * r**2 * horizon)) / (n**1.5 * epsilon * target)
    return np.maximum(sampling, privacy)


def whole_samples(total: Array, before: Array) -> Array:
    """S_int(r) = max(ceil(S(r)), S_int(r-1) + 1), int64; S(r) = `total`, S_int(r-1) = `before`."""
    return np.maximum(np.ceil(np.minimum(total, 2.0**52)).astype(np.int64), before + 1)


def confidence_radius(
    r: Array, total: Array, num_active: Array, num_arms: int, num_participants: int, horizon: int, epsilon: float
) -> Array:
    """C(r) (Algorithm 1, line 5; with N, section IV-B); an arm is dropped 2 C(r) below the best.

    C(r) = sqrt(log(8 |I| r^2 T) / (2 N S)) + r sqrt(8 log(8 K r^2 T)) / (N^1.5 epsilon S), S = `total` the rounded S(r); otherwise as
    `samples`.
    """
    n, r = num_participants, np.asarray(r, np.float64)
    sampling = np.sqrt(np.log(8 * num_active * r**2 * horizon) / (2 * n * total))
    privacy = r * np.sqrt(8 * np.log(8 * num_arms * r**2 * horizon)) / (n**1.5 * epsilon * total)
    return sampling + privacy


EXPLORE, WAIT, EXPLOIT, REST = range(4)


class ArmElimination(Policy):
    """What the algorithms share: epochs that pull the active arms alike, and drop the worse ones after each.

    An epoch runs only if it and its communication fit before T; otherwise the rest explores in turn, and nothing is uploaded. After R
    epochs (if limited), or with one arm left, the best arm is played to T.

    Agents move in lockstep, or, where they do not talk, each for itself: arrays are [B, G] with G = 1 or M.
    """

    topology = ""
    alone = False

    def __init__(self, epsilon: float, rounds: int | None = None, gap: float | None = None) -> None:
        self.epsilon = number("epsilon", epsilon, above=0)
        self.rounds = None if rounds is None else integer("rounds", rounds, at_least=1)
        self.gap = None if gap is None else number("gap", gap, above=0, at_most=1)

    @property
    def needs_truth(self) -> bool:  # type: ignore[override]
        """With limited rounds the paper takes the smallest gap as known."""
        return self.rounds is not None and self.gap is None

    def fast(self, view: PublicView) -> EpochPlan:
        return EpochPlan(self.plan)

    def uploaders(self, params: Params) -> int:
        """N."""
        return params.num_agents

    def prescribes(self, view: PublicView) -> dict[str, Any]:
        """Laplace noise on each mean, of scale 1 / (N epsilon n) (Algorithm 1, line 9): messages are (N epsilon)-DP."""
        return {"means": Laplace(epsilon=self.uploaders(self._params(view)) * self.epsilon)}

    def _params(self, view: PublicView) -> Any:
        """The parameters of a world in which it can act; else ValueError."""
        if not issubclass(view.world, FederatedBandit) or issubclass(view.world, ArmEliminationWorld):
            raise ValueError(f"{type(self).__name__} acts in federated_bandit, not in {view.name!r}")
        params = view.params
        here = "components" if params.hybrid else "a graph" if params.components else "the server"
        if self.topology not in ("", here):
            raise ValueError(f"{type(self).__name__} needs the topology to be {self.topology}, but it is {here}")
        return params

    def begin(self, view: PublicView) -> None:
        params = self._params(view)
        self._view = view
        self._shape = (view.num_envs, params.num_agents, params.arms)
        self._layout = view.roles[self.role].layout
        self._horizon, self._delay, self._n = params.horizon, view.delay, self.uploaders(params)
        group = (view.num_envs, params.num_agents if self.alone else 1)
        self._time, self._round, self._played, self._best = (np.zeros(group, np.int64) for _ in range(4))
        self._total, self._pulls, self._phase = (np.zeros(group, np.int64) for _ in range(3))
        self._radius, self._gap = np.zeros(group), np.ones(group)
        self._active = np.ones((*group, params.arms), np.bool_)
        self._choice = np.zeros(self._shape[:2], np.int64)

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        seen = SimpleNamespace(**self._layout.unpack(obs))
        if self._shape[2] == 1:
            for name in ("means", "private", "broadcast"):
                setattr(seen, name, getattr(seen, name)[:, :, None])
        pulls, uploads = self.plan(seen, np.ones(self._shape[:2], np.int64))
        return pulls.argmax(-1) + self._shape[2] * uploads

    def plan(self, seen: Any, room: Array) -> tuple[Array, Array]:
        """What everyone pulls in its next slots, int64[B, M, K], at most `room` int64[B, M] of them, and who uploads then, bool[B, M]."""
        self._follow(seen)
        group = self._time.shape[1]
        room = room[:, :group]
        left = np.where(self._phase == EXPLORE, self._pulls * self._active.sum(-1) - self._played, self._horizon)
        slots = np.minimum(room, left)
        best = np.arange(self._shape[2]) == self._best[..., None]
        turns = np.isin(self._phase, (EXPLORE, REST))[..., None]
        pulls = np.where(turns, in_turn(self._active, self._played, slots), best * slots[..., None])
        ends = (self._phase == EXPLORE) & (slots == left)
        self._played += slots
        self._time += slots
        self._phase[ends] = WAIT
        waiting = (self._phase == WAIT) & ~ends
        if waiting.any() and not self.alone:
            chosen = (np.arange(self._shape[2]) == self._choice[..., None]) * slots[..., None]
            pulls = np.where(waiting[..., None], chosen, pulls)
        uploads = np.zeros(self._shape[:2], np.bool_)
        if ends.any() and not self.alone:
            uploads = ends & self._drawn()
        return np.broadcast_to(pulls, self._shape), uploads

    def _drawn(self) -> Array:
        """N of the M agents of each replica, without replacement, bool[B, M]."""
        size, agents, _ = self._shape
        if self._n == agents:
            return np.ones((size, agents), np.bool_)
        order = self.rng.random((size, agents)).argsort(1)
        drawn = np.zeros((size, agents), np.bool_)
        np.put_along_axis(drawn, order[:, : self._n], True, 1)
        return drawn

    def _follow(self, seen: Any) -> None:
        """Take up what has happened: a fresh run, or the result of an epoch."""
        fresh = np.broadcast_to(seen.time[:, :1] == 0, self._time.shape)
        if fresh.any():
            self._restart(fresh)
        waiting = self._phase == WAIT
        if not waiting.any():
            return
        told = waiting if self.alone else waiting & (seen.rounds[:, :1] > self._round)
        if told.any():
            self._learn(told, self._result(seen))
        if not self.alone:
            self._choose(waiting & ~told, seen)

    def _restart(self, fresh: Array) -> None:
        for array in (self._time, self._round, self._played, self._best, self._total):
            array[fresh] = 0
        self._active[fresh] = True
        if self.rounds is not None:
            gap = smallest_gap(self._view.truth.state.quality) if self.gap is None else np.full(len(fresh), self.gap)
            self._gap = np.where(fresh, gap[:, None], self._gap)
        self._begin_epoch(fresh)

    def _result(self, seen: Any) -> Array:
        """ybar, float64[B, G, K]."""
        return np.asarray(seen.broadcast[:, :1], np.float64)

    def _learn(self, told: Array, mean: Array) -> None:
        """Drop arms where the epoch's result is `told` bool[B, G]."""
        self._active = np.where(told[..., None], eliminate(self._active, mean, 2 * self._radius), self._active)
        self._best = np.where(told, np.where(self._active, mean, -np.inf).argmax(-1), self._best)
        self._round += told
        self._begin_epoch(told)

    def _begin_epoch(self, which: Array) -> None:
        """Set out the next epoch of those in `which` bool[B, G]: how often it pulls, what follows from it, whether it runs."""
        r, active, arms = self._round + 1, self._active.sum(-1), self._shape[2]
        setting = (active, arms, self._n, self._horizon, self.epsilon)
        total = whole_samples(samples(r, target_gap(r, self.rounds, self._gap), *setting), self._total)
        pulls = total - self._total
        fits = self._time + active * pulls + self._delay <= self._horizon
        over = (active == 1) | (False if self.rounds is None else self._round >= self.rounds)
        phase = np.where(over, EXPLOIT, np.where(fits, EXPLORE, REST))
        self._radius = np.where(which, confidence_radius(r, total, *setting), self._radius)
        self._total = np.where(which, total, self._total)
        self._pulls = np.where(which, pulls, self._pulls)
        self._phase = np.where(which, phase, self._phase)
        self._played[which] = 0

    def _choose(self, waiting: Array, seen: Any) -> None:
        """What to play while a round is under way: each agent's own best active arm, ties at random; chosen once a round."""
        new = waiting & (self._played == self._pulls * self._active.sum(-1))
        if new.any():
            own = np.where(self._active, seen.private, -np.inf)
            ties = own == own.max(-1, keepdims=True)
            choice = np.where(ties, self.rng.random(own.shape), -1.0).argmax(-1)
            self._choice = np.where(new, choice, self._choice)


class CDPMAB(ArmElimination):
    """Algorithm 1: the server eliminates; with `participation` p or `rounds` R limited, as section IV-B has it.

    Args:
        epsilon: of the paper's noise, > 0; a message is (N epsilon)-DP.
        participation: p in (0, 1]; N = ceil(p M) agents, drawn anew, upload in each round.
        rounds: R >= 1, or None: without limit.
        gap: Delta, for limited rounds; None: the true one, which the paper takes as known.
    """

    topology = "the server"
    fast = ArmElimination.fast

    def __init__(
        self, epsilon: float = 1.0, participation: float = 1.0, rounds: int | None = None, gap: float | None = None
    ) -> None:
        super().__init__(epsilon, rounds, gap)
        self.participation = number("participation", participation, above=0, at_most=1)

    def uploaders(self, params: Params) -> int:
        return participants(self.participation, params.num_agents)


class CommunicationEfficientCDPMAB(CDPMAB):
    """CDP-MAB under communication constraints (section IV-B, Theorem 2): `participation` p and `rounds` R as in `CDPMAB`, both limited."""

    def __init__(self, participation: float, rounds: int, epsilon: float = 1.0, gap: float | None = None) -> None:
        super().__init__(epsilon, participation, rounds, gap)


class DDPMAB(ArmElimination):
    """Algorithm 3: agents on a graph share all means, and each eliminates alike.

    Args:
        epsilon, rounds, gap: as in `CDPMAB` (Corollary 1).
        aggregate: "history": over ybar, as in the proof of Theorem 3; "epoch": over yhat, the last epoch's means alone (line 9).
    """

    topology = "a graph"
    fast = ArmElimination.fast

    def __init__(
        self, epsilon: float = 1.0, rounds: int | None = None, gap: float | None = None, aggregate: str = "history"
    ) -> None:
        super().__init__(epsilon, rounds, gap)
        self.aggregate = choice("aggregate", aggregate, ("history", "epoch"))

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        self._before = np.zeros(self._active.shape)

    def _result(self, seen: Any) -> Array:
        mean = super()._result(seen)
        if self.aggregate == "history":
            return mean
        before, self._before = self._before, mean
        share = np.where(self._round > 0, self._total - self._pulls, 0)[..., None]
        # Equation 6, solved for yhat.
        return (self._total[..., None] * mean - share * before) / np.maximum(self._pulls, 1)[..., None]


class HDPMAB(ArmElimination):
    """Algorithm 5: sink agents collect the means of their components, and the server eliminates. Arguments as in `CDPMAB` (Corollary 2)."""

    topology = "components"
    fast = ArmElimination.fast

    def __init__(self, epsilon: float = 1.0, rounds: int | None = None, gap: float | None = None) -> None:
        super().__init__(epsilon, rounds, gap)


class SingleAgent(ArmElimination):
    """Algorithm 1 by each agent on its own (M = 1), in any topology: it tells nobody anything, so that it needs no noise."""

    alone = True
    fast = ArmElimination.fast

    def __init__(self) -> None:
        self.epsilon, self.rounds, self.gap = math.inf, None, None

    def uploaders(self, params: Params) -> int:
        return 1

    def prescribes(self, view: PublicView) -> dict[str, Any]:
        return Policy.prescribes(self, view)

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        self._delay = 0

    def _result(self, seen: Any) -> Array:
        return np.asarray(seen.means, np.float64)


class EliminationSchedule(Policy):
    """The schedule of Algorithm 1 (and of section IV-B) as a coordinator's actions in `arm_elimination_v0`.

    An epoch that would not fit is replaced by one that takes all the time left; after it nothing is decided any more.

    Args:
        epsilon, participation: as in `CDPMAB`.
    """

    def __init__(self, epsilon: float = 1.0, participation: float = 1.0) -> None:
        self.epsilon = number("epsilon", epsilon, above=0)
        self.participation = number("participation", participation, above=0, at_most=1)

    def _params(self, view: PublicView) -> Any:
        if not issubclass(view.world, ArmEliminationWorld):
            raise ValueError(f"EliminationSchedule acts in arm_elimination, not in {view.name!r}")
        return view.params

    def prescribes(self, view: PublicView) -> dict[str, Any]:
        """As in `CDPMAB`: messages are (N epsilon)-DP."""
        agents = self._params(view).num_agents
        return {"means": Laplace(epsilon=participants(self.participation, agents) * self.epsilon)}

    def begin(self, view: PublicView) -> None:
        params = self._params(view)
        self._layout, self._horizon, self._arms = view.roles[self.role].layout, params.horizon, params.arms
        self._n = participants(self.participation, params.num_agents)
        self._total = np.zeros(view.num_envs, np.int64)

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        seen = self._layout.unpack(obs[:, 0].astype(np.float64))
        r = seen["rounds"] + 1
        self._total = np.where(r == 1, 0, self._total)
        number = np.maximum(seen["active"].reshape(len(obs), -1).sum(-1), 1)
        setting = (number, self._arms, self._n, self._horizon, self.epsilon)
        total = whole_samples(samples(r, target_gap(r), *setting), self._total)
        most = np.rint(seen["time_left"] * self._horizon) // number
        pulls = np.clip(total - self._total, 1, np.maximum(most, 1))
        threshold = 2 * confidence_radius(r, total, *setting)
        self._total = total
        share = np.where(most > 1, np.log(pulls) / np.log(np.maximum(most, 2)), 0.0)
        return action(share, threshold, self.participation)[:, None]
