"""Whether short rivals beat the references of the benchmark's scores.

`python tools rivals [SEEDS [RUNS [NAME ...]]]`

Each rival has at most 30 lines, aims at one reference, and has its information and actions. Rival and reference play
the same SEEDS (10) fresh seeds of RUNS runs each (by default as many as the task's agents). The table has both means
and the rival's lead on the scale of scores, with its 95% interval. A reference is beaten if the interval of the lead
is above 0 and the lead is larger than half the width of the reference's own interval; then the exit code is 1.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from taciturn.agents import bring
from taciturn.bench import statistics
from taciturn.bench.comparisons.kinds import marked, reference_config
from taciturn.bench.comparisons.playing import played
from taciturn.bench.references import scale_of
from taciturn.bench.tasks import BENCHMARKS, FULL_INFORMATION, NO_COMMUNICATION, tasks_of
from taciturn.envs.core import Array, PublicView
from taciturn.envs.round_stopping.model import Model
from taciturn.envs.round_stopping.world import STOP, WAIT
from taciturn.policies import GrowingSchedule, PeakBayes
from taciturn.policies.classic.bandits import ArmPolicy
from taciturn.policies.designed.planning import knowledge_gradient
from taciturn.policies.designed.sessions import FiniteHorizonStopping, SessionRule
from taciturn.policies.designed.social import CentralisedHoldTheBest
from taciturn.policies.families.bandit_indices import kl_upper_bound
from taciturn.policies.families.round_stopping import StoppingRule
from taciturn.validation import Bools, Floats, Ints

FIRST = 50_000  # fresh seeds: nothing was tuned on them


class PooledGradients(CentralisedHoldTheBest):
    """Gossip, full information: the expected quality held after the next signal, plus the time left times the knowledge
    gradient of the option for the best of three numbers of further signals."""

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        held = self.read_messages(obs).own
        ones, zeros = self.known(held)
        n, own = ones + zeros, np.arange(self._options) == held[..., None]
        mean, low, high = (1 + ones) / (2 + n), (1 + ones) / (3 + n), (2 + ones) / (3 + n)
        holding = (mean * own).sum(-1, keepdims=True)
        gain = (1 - mean) * np.maximum(low, holding) + mean * np.maximum(high, holding)
        passed = self._ticks.sum(1)[:, None, None] / (self._ends * self._shape[1])
        knowledge = np.max([knowledge_gradient(mean, n, signals) for signals in (4, 8, 16)], 0)
        index = np.where(own, holding, gain) + 20 * np.maximum(1 - passed, 0) * knowledge
        option = (index + 1e-9 * self.rng.random(index.shape)).argmax(-1)
        on_0, on_1 = (np.take_along_axis(x, option[..., None], -1) > holding for x in (low, high))
        return self.pull(option, held, (on_0[..., 0], on_1[..., 0]))


class PooledPower(CentralisedHoldTheBest):
    """Social, full information: agents choose one after another the largest q with m kl(mean, q) <= a ln(1 + c left /
    m)^power, for m signals known or coming, and `left` of all agents."""

    def choose(self, belief: Any, pulls: Ints) -> Ints:
        n, mean, agents = pulls[:, 0] + 2.0, belief.mean[:, 0], pulls.shape[1]
        coming, left = self._waiting.astype(float), agents * max(self._ends - self._ticks[0, 0] - 1, 0)
        chosen, rows = np.empty(pulls.shape[:2], np.int64), np.arange(len(n))

        def bound(m: Floats, mean: Floats) -> Floats:
            return kl_upper_bound(m, mean, 0.5 * np.log1p(0.25 * left / m) ** 0.75, steps=4)

        index = bound(n + coming, mean) + 1e-9 * self.rng.random(mean.shape)
        for i in range(agents):
            chosen[:, i] = k = index.argmax(-1)
            coming[rows, k] += 1
            index[rows, k] = bound(n[rows, k] + coming[rows, k], mean[rows, k])
        return chosen


class DividedPower(ArmPolicy):
    """Federated bandit, full information: the pooled index with another power of the logarithm and another prior; a
    pull that is coming counts as a part of one."""

    centralised = True
    fast = ArmPolicy.epochs
    prior, coming = 1.642, 0.351

    def index(self, n: Floats, mean: Floats, left: Floats) -> Floats:
        return kl_upper_bound(n, mean, 0.5436 * np.log1p(0.3192 * left / n) ** 0.9513, steps=6)

    def choose(self, counts: Array, means: Floats) -> Ints:
        agents, n = counts.shape[1], counts.sum(1)
        left, n0 = agents * self._horizon - n.sum(-1)[:, None], n + self.prior
        mean, rows = ((counts * means).sum(1) + self.prior / 2) / n0, np.arange(len(n))
        first = self.index(n0, mean, left)
        best = first.argmax(-1)
        last = self.index(n0[rows, best] + self.coming * (agents - 1), mean[rows, best], left[:, 0])
        first[rows, best] = -1
        arms, several = np.repeat(best[:, None], agents, 1), np.flatnonzero(last <= first.max(-1))
        if several.size:
            more = n0[several, :, None] + self.coming * np.arange(agents)
            q = self.index(more, np.broadcast_to(mean[several, :, None], more.shape), left[several, :, None])
            arms[several] = np.argsort(-q.reshape(len(several), -1), axis=-1, kind="stable")[:, :agents] // agents
        return arms


class BoundarySchedule(GrowingSchedule):
    """Arm elimination, full information: the reference's schedule, with the optimal boundary of two arms in place of
    the logarithm in its threshold."""

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        self.table = self.boundary()

    @staticmethod
    def boundary(slots: float = 1e5, growth: float = 1.05) -> Floats:
        """The logarithm of slots left / n, and the z at which sampling two arms n times each should stop, by dynamic
        programming, for normal rewards and flat priors."""
        z, (nodes, weights) = np.linspace(0, 5, 400), np.polynomial.hermite_e.hermegauss(21)
        density, n, value, out = np.exp(-z * z / 2) / np.sqrt(2 * np.pi), slots / 2, 0 * z, []
        while n > 1:
            n /= growth
            later = np.abs(z[:, None] * growth**0.5 + (growth - 1) ** 0.5 * nodes)
            after = np.interp(later, z, value) @ (weights / weights.sum())
            goes_on = (growth - 1) * n**0.5 * (z * (2 * ndtr(z) - 1) + 2 * density) + after
            stops = (slots - 2 * n) * (density - z * ndtr(-z)) / n**0.5
            value = np.minimum(goes_on, stops)
            out.append((np.log((slots - 2 * n) / n), z[np.argmax(stops <= goes_on)]))
        return np.transpose(out)

    def constants(self, active: Ints, best: Floats, time_left: Floats) -> tuple[Any, Any, Any, Any, Any]:
        left = np.rint(time_left * self._horizon)
        wanted = np.where(self._total == 0, 1, np.ceil(self._total * 1.03) - self._total)
        pulls = np.clip(wanted, 1, np.maximum(left // active, 1))
        left, n = np.maximum(left - active * pulls, 0), self._total + pulls
        z = 0.9159 * np.interp(np.log(np.maximum(1.0375 * left / n * (2 / active) ** 1.034, 1e-9)), *self.table)
        return 1, 1.03, z * z / 2 / np.maximum(np.log1p(left / (active * n)), 1e-9), 1.0, 1.0


class ShortPlan(SessionRule):
    """Round stopping, full information: a small dynamic programme over the time left, in which at most 24 updates
    count, and at most two clients finish in a slot."""

    most = 24

    def plan(self, model: Model) -> None:
        b, size, p = self.broadcast, self.most + 1, model.compute_probability
        k, queued = np.indices((size, size))
        free = np.maximum(model.num_clients - k - queued, 0)
        chance = [(1 - p) ** free, free * p * (1 - p) ** np.maximum(free - 1, 0)]
        chance.append(1 - chance[0] - chance[1])
        up, value = np.where(queued > 0, model.upload_probability, 0.0), np.zeros(self.horizon + 1)
        now, self.wait = np.zeros((size, size)), np.zeros((self.horizon + 1, size, size), np.bool_)
        for t in range(1, self.horizon + 1):
            wide = np.pad(now, ((0, 1), (1, 2)), mode="edge")
            stays = np.sum([c * wide[:size, 1 + d : 1 + d + size] for d, c in enumerate(chance)], 0)
            sends = np.sum([c * wide[1:, d : d + size] for d, c in enumerate(chance)], 0)
            wait, close = up * sends + (1 - up) * stays, np.zeros((size, 1))
            if t >= b:
                close = model.rewards[:size, None] + value[t - b]
            self.wait[t] = (wait > close) & (k < self.most)
            now = np.where(self.wait[t], wait, close)
            value[t] = now[0, 0]

    def decide(self, received: Ints, queued: Ints, slots: Ints, left: Ints) -> Bools:
        waits: Bools = self.wait[left, np.minimum(received, self.most), np.minimum(queued, self.most)]
        return waits


class StopsWhenWorse(StoppingRule):
    """Federated training, no communication: refuses all further updates once the loss is 0.1 above its lowest and the
    last three updates raised it."""

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        one = (view.num_envs, 1)
        self.off, self.rises, self.best = np.zeros(one, np.bool_), np.zeros(one), np.full(one, np.log(10))
        self.before = self.best.copy()

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        fields = self._layout.unpack(obs)
        loss, changed = fields["test_loss"].astype(float), fields["test_loss"] != self.before
        self.rises = np.where(changed, np.where(loss > self.before, self.rises + 1, 0), self.rises)
        self.before, self.best = loss, np.minimum(self.best, loss)
        self.off |= (loss > self.best + 0.1) & (self.rises >= 3)
        return np.where(self.off & (fields["queued"] > 0), STOP, WAIT)


class ShapedPlan(FiniteHorizonStopping):
    """Federated training, full information: `PlannedTraining` with other settings, and with later rounds worth more."""

    def rewards(self, model: Model, left: int) -> Floats:
        rounds = left / self.broadcast
        v = 0.647 * np.exp(-0.47 * rounds)
        return 0.99**rounds * np.concatenate([[0.0], 1 - v / np.arange(1, model.num_clients + 1)])


class Rival(NamedTuple):
    """A rival in an environment's standard task, and the reference at which it aims."""

    env: str
    aims: str
    make: Callable[[], Any]


RIVALS = {
    "PooledGradients": Rival("gossip_bandit_v0", FULL_INFORMATION, PooledGradients),
    "PooledPower": Rival("social_bandit_v0", FULL_INFORMATION, PooledPower),
    "DividedPower": Rival("federated_bandit_v0", FULL_INFORMATION, DividedPower),
    "BoundarySchedule": Rival("arm_elimination_v0", FULL_INFORMATION, BoundarySchedule),
    "ShortPlan": Rival("round_stopping_v0", FULL_INFORMATION, ShortPlan),
    "StopsWhenWorse": Rival("federated_training_v0", NO_COMMUNICATION, StopsWhenWorse),
    "ShapedPlan": Rival("federated_training_v0", FULL_INFORMATION, ShapedPlan),
    "MoreSteps": Rival("recommender_v0", NO_COMMUNICATION, partial(PeakBayes, steps=120)),
}


def compared(rival: Rival, seeds: int, runs: int) -> tuple[float, float, statistics.Estimate, float]:
    """The means of the reference and the rival, the rival's lead in score, and half the width of the interval of the
    reference, in score."""
    task = tasks_of(rival.env)[0]
    spec, tasks = next((spec, tasks) for spec, tasks in marked(task, rival.aims) if task in tasks)
    config = reference_config(tasks, rival.aims, spec, False)
    mark: Callable[[], Any] = partial(bring, config["policy"], **config["policy_params"])
    values = []
    for make in (mark, rival.make):
        each = [played(task, make(), config, runs or BENCHMARKS[rival.env].runs, FIRST + i) for i in range(seeds)]
        values.append(np.array([one.metrics[task.measure].mean() for one in each]))
    scale = scale_of(task)
    assert scale is not None
    low, high = (one.estimate.value for one in scale)
    lead = statistics.mean((values[1] - values[0]) / (high - low))
    own = scale[rival.aims == FULL_INFORMATION].estimate
    return float(values[0].mean()), float(values[1].mean()), lead, abs((own.high - own.low) / 2 / (high - low))


def main(arguments: list[str]) -> None:
    seeds, runs = (int(one) for one in (arguments + ["10", "0"][len(arguments) :])[:2])
    beaten = False
    print(f"{'rival':18}{'environment':24}{'reference':20}{'mean':>10}{'rival':>10}  lead in score          half width")
    unknown = [name for name in arguments[2:] if name not in RIVALS]
    if unknown:
        sys.exit(f"NAME must be one of {', '.join(RIVALS)}, not {unknown[0]!r}")
    for name in arguments[2:] or RIVALS:
        rival = RIVALS[name]
        mark, own, lead, half = compared(rival, seeds, runs)
        beaten |= lead.low > 0 and lead.value > half
        interval = f"{lead.value:.3f} [{lead.low:.3f}, {lead.high:.3f}]"
        print(f"{name:18}{rival.env:24}{rival.aims:20}{mark:10.4g}{own:10.4g}  {interval:23}{half:.3f}", flush=True)
    sys.exit(int(beaten))
