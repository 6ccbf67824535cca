"""Private federated arm elimination: Algorithms 1, 3 and 5 of Li & Song, and a single agent without communication."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from taciturn.envs.core import Array, PublicView, integer, number
from taciturn.envs.federated_bandit.arm_elimination import ArmElimination, action
from taciturn.envs.federated_bandit.fast import EpochPlan
from taciturn.envs.federated_bandit.model import EQUAL, stays, turns
from taciturn.envs.federated_bandit.world import FederatedBandit, Params
from taciturn.policies.base import Policy
from taciturn.validation import Bools, Floats, Ints
from taciturn.wrappers import Laplace


def smallest_gap(gap: Floats) -> Floats:
    """Delta, the smallest positive gap, float64[B], for gaps [B, K]; 1 if all arms are best."""
    return np.where(gap > EQUAL, gap, 1.0).min(-1)


def eliminate(active: Bools, mean: Floats, threshold: Floats) -> Bools:
    """Arms that stay active, bool[..., K], for a `threshold` [...]."""
    best = np.where(active, mean, -np.inf).max(-1, keepdims=True)
    return np.asarray(active & stays(best, mean, threshold[..., None]))


def round_robin(active: Bools, played: Ints, slots: Ints) -> Ints:
    """Pulls of each arm, int64[..., K], in the next `slots` of a phase that cycles through the active arms, after
    `played` slots of it."""
    number, rank = active.sum(-1, keepdims=True), np.cumsum(active, -1) - 1
    until = turns((played + slots)[..., None], rank, number)
    return np.where(active, until - turns(played[..., None], rank, number), 0)


def target_gap(r: Ints, rounds: int | None = None, gap: Floats | float = 1.0) -> Floats:
    """Dtilde_r = 2^-r (Algorithm 1, line 3), or Delta^(r/R) for at most R `rounds`, with the smallest gap Delta
    (section IV-B)."""
    return np.asarray(2.0**-r if rounds is None else np.asarray(gap) ** (r / rounds), np.float64)


def participants(participation: float, num_agents: int) -> int:
    """N = ceil(p M), the number of agents that upload in a round (section IV-B)."""
    return math.ceil(participation * num_agents - 1e-9)


def samples(
    r: Ints, target: Floats, num_active: Ints, num_arms: int, num_participants: int, horizon: int, epsilon: float
) -> Floats:
    """S(r), each agent's pulls of each active arm by the end of epoch r (Algorithm 1, line 4; with N: section IV-B).

    S(r) = max(8 log(8 |I| r^2 T) / (N Dtilde^2), 8 r sqrt(2 log(8 K r^2 T)) / (N^1.5 epsilon Dtilde)).

    Args:
        r: the epoch, >= 1.
        target: Dtilde_r.
        num_active: |I|, the number of arms active before the epoch.
        num_arms, num_participants, horizon: K, N, T.
        epsilon: epsilon of the paper's noise; inf for none.
    """
    n, epoch = num_participants, np.asarray(r, np.float64)
    sampling = 8 * np.log(8 * num_active * epoch**2 * horizon) / (n * target**2)
    privacy = 8 * epoch * np.sqrt(2 * np.log(8 * num_arms * epoch**2 * horizon)) / (n**1.5 * epsilon * target)
    return np.asarray(np.maximum(sampling, privacy))


def whole_samples(total: Floats, before: Ints) -> Ints:
    """S_int(r) = max(ceil(S(r)), S_int(r-1) + 1), int64, where S(r) = `total` and S_int(r-1) = `before`."""
    return np.maximum(np.ceil(np.minimum(total, 2.0**52)).astype(np.int64), before + 1)


def confidence_radius(
    r: Ints, total: Ints, num_active: Ints, num_arms: int, num_participants: int, horizon: int, epsilon: float
) -> Floats:
    """C(r) (Algorithm 1, line 5; with N: section IV-B); arms that are 2 C(r) below the best are eliminated.

    C(r) = sqrt(log(8 |I| r^2 T) / (2 N S)) + r sqrt(8 log(8 K r^2 T)) / (N^1.5 epsilon S), where S = `total` is the
    rounded S(r). The other arguments are as in `samples`.
    """
    n, epoch = num_participants, np.asarray(r, np.float64)
    sampling = np.sqrt(np.log(8 * num_active * epoch**2 * horizon) / (2 * n * total))
    privacy = epoch * np.sqrt(8 * np.log(8 * num_arms * epoch**2 * horizon)) / (n**1.5 * epsilon * total)
    return np.asarray(sampling + privacy)


EXPLORE, WAIT, EXPLOIT, REST = range(4)


class EpochElimination(Policy):
    """Base of the paper's algorithms: epochs that pull all active arms equally often, with an elimination after each.

    An epoch runs only if it and its communication end by T; otherwise agents cycle through the active arms to T and
    upload nothing. After R epochs (if limited), or with one arm left, the best arm is played to T.

    Arrays are [B, G]: agents that communicate move in lockstep (G = 1), agents without communication each have a row (G
    = M).
    """

    topology = ""
    alone = False

    def __init__(self, epsilon: float = 1.0, rounds: int | None = None, gap: float | None = None) -> None:
        self.epsilon = number("epsilon", epsilon, above=0)
        self.rounds = None if rounds is None else integer("rounds", rounds, at_least=1)
        self.gap = None if gap is None else number("gap", gap, above=0, at_most=1)

    @property
    def needs_truth(self) -> bool:  # type: ignore[override]
        """True for limited rounds without a given `gap`: the paper then assumes that the smallest gap is known."""
        return self.rounds is not None and self.gap is None

    def fast(self, view: PublicView) -> EpochPlan:
        return EpochPlan(self.plan)

    def uploaders(self, params: Params) -> int:
        """N, the number of agents that upload in a round."""
        return params.num_agents

    def prescribes(self, view: PublicView) -> dict[str, Any]:
        """[Li 4] for means of n rewards: Laplace noise of scale 1 / (N epsilon n) (Algorithm 1, line 9). A message is
        (N epsilon)-DP."""
        return {"means": Laplace(epsilon=self.uploaders(self._params(view)) * self.epsilon)}

    def _params(self, view: PublicView) -> Any:
        """The parameters of the environment; ValueError if the policy cannot act in it."""
        fits = issubclass(view.world, FederatedBandit) and not issubclass(view.world, ArmElimination)
        self.require(fits, "federated_bandit", view)
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
        fields = self._layout.unpack(obs)
        if self._shape[2] == 1:
            fields |= {name: fields[name][:, :, None] for name in ("means", "private", "broadcast")}
        pulls, uploads = self.plan(SimpleNamespace(**fields), np.ones(self._shape[:2], np.int64))
        return pulls.argmax(-1) + self._shape[2] * uploads

    def plan(self, knowledge: Any, room: Ints) -> tuple[Ints, Bools]:
        """(Pulls in the next slots, at most `room` of them, int64[B, M, K]; agents that upload after these slots,
        bool[B, M])."""
        self._follow(knowledge)
        group = self._time.shape[1]
        room = room[:, :group]
        left = np.where(self._phase == EXPLORE, self._pulls * self._active.sum(-1) - self._played, self._horizon)
        slots = np.minimum(room, left)
        best = np.arange(self._shape[2]) == self._best[..., None]
        cycles = np.isin(self._phase, (EXPLORE, REST))[..., None]
        pulls = np.where(cycles, round_robin(self._active, self._played, slots), best * slots[..., None])
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

    def _drawn(self) -> Bools:
        """N of the M agents of each replica, drawn without replacement, bool[B, M]."""
        size, agents, _ = self._shape
        if self._n == agents:
            return np.ones((size, agents), np.bool_)
        order = self.rng.random((size, agents)).argsort(1)
        drawn = np.zeros((size, agents), np.bool_)
        np.put_along_axis(drawn, order[:, : self._n], True, 1)
        return drawn

    def _follow(self, knowledge: Any) -> None:
        """React to the start of a run, or to the result of an epoch."""
        fresh = np.broadcast_to(knowledge.time[:, :1] == 0, self._time.shape)
        if fresh.any():
            self._restart(fresh)
        waiting = self._phase == WAIT
        if not waiting.any():
            return
        finished = waiting if self.alone else waiting & (knowledge.rounds[:, :1] > self._round)
        if finished.any():
            self._learn(finished, self._result(knowledge))
        if not self.alone:
            self._choose(waiting & ~finished, knowledge)

    def _restart(self, fresh: Bools) -> None:
        for array in (self._time, self._round, self._played, self._best, self._total):
            array[fresh] = 0
        self._active[fresh] = True
        if self.rounds is not None:
            gap = smallest_gap(self._view.truth.state.gap) if self.gap is None else np.full(len(fresh), self.gap)
            self._gap = np.where(fresh, gap[:, None], self._gap)
        self._begin_epoch(fresh)

    def _result(self, knowledge: Any) -> Floats:
        """The means used for elimination (ybar), float64[B, G, K]."""
        return np.asarray(knowledge.broadcast[:, :1], np.float64)

    def _learn(self, finished: Bools, mean: Floats) -> None:
        """Eliminate arms by the results of the epochs `finished` bool[B, G]."""
        self._active = np.where(finished[..., None], eliminate(self._active, mean, 2 * self._radius), self._active)
        self._best = np.where(finished, np.where(self._active, mean, -np.inf).argmax(-1), self._best)
        self._round += finished
        self._begin_epoch(finished)

    def _begin_epoch(self, which: Bools) -> None:
        """Set the pulls, radius and phase of the next epoch of the groups `which` bool[B, G]."""
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

    def _choose(self, waiting: Bools, knowledge: Any) -> None:
        """Choose, once per round, the arm to play during the round: each agent's own best active arm, ties broken at
        random."""
        new = waiting & (self._played == self._pulls * self._active.sum(-1))
        if new.any():
            own = np.where(self._active, knowledge.private, -np.inf)
            ties = own == own.max(-1, keepdims=True)
            choice = np.where(ties, self.rng.random(own.shape), -1.0).argmax(-1)
            self._choice = np.where(new, choice, self._choice)


class CDPMAB(EpochElimination):
    """Algorithm 1: the server eliminates arms; section IV-B if `participation` p or `rounds` R are limited.

    Args:
        epsilon: epsilon of the paper's noise, > 0; a message is (N epsilon)-DP.
        participation: p in (0, 1]; in each round N = ceil(p M) agents, drawn again, upload.
        rounds: R >= 1; None: no limit.
        gap: Delta, for limited rounds; None: the true one, which the paper assumes to be known.
    """

    topology = "the server"
    fast = EpochElimination.fast
    public_schedule = True

    def __init__(
        self, epsilon: float = 1.0, participation: float = 1.0, rounds: int | None = None, gap: float | None = None
    ) -> None:
        super().__init__(epsilon, rounds, gap)
        self.participation = number("participation", participation, above=0, at_most=1)

    def uploaders(self, params: Params) -> int:
        return participants(self.participation, params.num_agents)


class CommunicationEfficientCDPMAB(CDPMAB):
    """CDP-MAB under communication constraints (section IV-B, Theorem 2): `CDPMAB` with both `participation` p and
    `rounds` R limited."""

    def __init__(self, participation: float, rounds: int, epsilon: float = 1.0, gap: float | None = None) -> None:
        super().__init__(epsilon, participation, rounds, gap)


class DDPMAB(EpochElimination):
    """Algorithm 3: agents on a graph share all means, and each of them makes the same eliminations.

    Deviations from the paper: arms are eliminated by ybar, as in the proof of Theorem 3; line 9 of the paper's
    algorithm has yhat, the last epoch's means alone.

    Args:
        epsilon, rounds, gap: as in `CDPMAB` (Corollary 1).
    """

    topology = "a graph"
    fast = EpochElimination.fast
    public_schedule = True


class HDPMAB(EpochElimination):
    """Algorithm 5: sink agents collect the means of their components, and the server eliminates arms.

    Args:
        epsilon, rounds, gap: as in `CDPMAB` (Corollary 2).
    """

    topology = "components"
    fast = EpochElimination.fast
    public_schedule = True


class SingleAgent(EpochElimination):
    """Algorithm 1 by each agent alone (M = 1), in any topology: agents do not communicate, and need no noise."""

    alone = True
    fast = EpochElimination.fast
    public_schedule = True

    def __init__(self) -> None:
        self.epsilon, self.rounds, self.gap = math.inf, None, None

    def uploaders(self, params: Params) -> int:
        return 1

    def prescribes(self, view: PublicView) -> dict[str, Any]:
        return Policy.prescribes(self, view)

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        self._delay = 0

    def _result(self, knowledge: Any) -> Floats:
        return np.asarray(knowledge.means, np.float64)


class EliminationSchedule(Policy):
    """The schedule of Algorithm 1 (and of section IV-B) as a coordinator's actions in `arm_elimination_v0`.

    An epoch that does not fit in the time left is shortened to fit.

    Args:
        epsilon, participation: as in `CDPMAB`.
    """

    def __init__(self, epsilon: float = 1.0, participation: float = 1.0) -> None:
        self.epsilon = number("epsilon", epsilon, above=0)
        self.participation = number("participation", participation, above=0, at_most=1)

    def _params(self, view: PublicView) -> Any:
        self.require(issubclass(view.world, ArmElimination), "arm_elimination", view)
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
        fields = self._layout.unpack(obs[:, 0].astype(np.float64))
        r = fields["rounds"] + 1
        self._total = np.where(r == 1, 0, self._total)
        number = np.maximum(fields["active"].reshape(len(obs), -1).sum(-1), 1)
        setting = (number, self._arms, self._n, self._horizon, self.epsilon)
        total = whole_samples(samples(r, target_gap(r), *setting), self._total)
        most = np.rint(fields["time_left"] * self._horizon) // number
        pulls = np.clip(total - self._total, 1, np.maximum(most, 1))
        threshold = 2 * confidence_radius(r, total, *setting)
        self._total = total
        share = np.where(most > 1, np.log(pulls) / np.log(np.maximum(most, 2)), 0.0)
        return action(share, threshold, self.participation)[:, None]
