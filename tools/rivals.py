"""Whether short rivals beat the references of the benchmark's scores.

`python tools rivals [SEEDS [RUNS [NAME ...]]]`

Each rival aims at one reference and has its information and actions. Only `FamilyBayes` knows more than its reference:
how the instances of the standard task are drawn. Rival and reference play the same SEEDS (10) fresh seeds of RUNS runs
each (by default as many as the task's agents). The table has both means and the rival's lead on the scale of scores,
with its 95% interval. The exit code is 1 if the interval of a lead is above 0.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from taciturn.agents import bring
from taciturn.bench import statistics
from taciturn.bench.comparisons.kinds import marked, reference_config
from taciturn.bench.comparisons.playing import played
from taciturn.bench.references import scale_of
from taciturn.bench.tasks import BENCHMARKS, FULL_INFORMATION, NO_COMMUNICATION, tasks_of
from taciturn.envs.core import Array, PublicView
from taciturn.envs.recommender.rewards import WEIGHTS
from taciturn.envs.round_stopping.model import parameters
from taciturn.policies import OptimalStopping
from taciturn.policies.families.recommender import ItemPolicy
from taciturn.policies.families.round_stopping import StoppingRule
from taciturn.validation import Floats, Ints

FIRST = 50_000  # fresh seeds: nothing was tuned on them
WAIT, CLOSE = 1, 0


class Quitter(StoppingRule):
    """Round stopping: near the end of the session it closes a round only if that is worth more than never closing one
    again, since the rate counts closed rounds only."""

    late, worth, busy, idle = 17.0, 2e-6, 9, 4

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        self.params = view.params
        self.earned, self.used = np.zeros(view.num_envs), np.zeros(view.num_envs)
        self.rate = OptimalStopping.solve(**parameters(view.params)).rate

    def value(self, earned: Floats, used: Floats, left: Floats) -> Floats:
        """Of going on with `left` seconds."""
        lead, room = earned - self.rate * used, np.maximum(left - 3.0, 0.0)
        worth: Floats = lead / np.maximum(used + np.where(lead < 0, room, 0.0), 1.0) + self.worth * np.sqrt(room)
        return worth

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        fields = self._layout.unpack(obs)
        k, queued, slots, left = (fields[name][:, 0] for name in ("received", "queued", "slots", "time_left"))
        begins = left >= self.params.horizon - 1e-4
        self.earned[begins] = self.used[begins] = 0.0
        earned = self.earned + self.params.rewards[k.astype(int)]
        used = self.used + self.params.broadcast_time + slots * self.params.slot_time
        keeps = (self.earned - self.rate * self.used) / np.maximum(self.used, 1.0)
        late = left + slots * self.params.slot_time < self.late
        waits = k < np.where(queued > 0, self.busy, self.idle)
        waits |= late & (self.value(earned, used, left - 3.0) < keeps)
        self.earned, self.used = np.where(waits, self.earned, earned), np.where(waits, self.used, used)
        return np.where(waits, WAIT, CLOSE)[:, None]


class SharedSlack(StoppingRule):
    """Federated training: as many rounds as fit; the time that their broadcasts leave is shared in growing parts, and
    the last round takes the rest."""

    least, growth = 0.1, 1.12

    def prepare(self, model: Any) -> None:
        self.model = model

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        model, slot = self.model, self.model.slot_time
        k, queued, slots = self.seen(obs)
        begun = self._layout.unpack(obs)["time_left"].astype(float) + slots * slot
        rounds = np.maximum(np.floor(begun / (model.broadcast_time + self.least)), 1)
        slack = np.maximum(begun - model.broadcast_time * rounds, 0) - slot
        share = np.where(rounds == 1, 1.0, (self.growth - 1) / (self.growth**rounds - 1))
        computing = np.maximum(model.num_clients - k - queued, 1)
        first = 1 / (1 - (1 - model.compute_probability) ** computing)
        ahead = slot * (np.where(queued > 0, 0, first) + 1 / model.upload_probability)
        soon = slots * slot + np.where(rounds == 1, slot, ahead) <= slack * share
        return np.where((k < 1) | soon, WAIT, CLOSE)


class FamilyBayes(ItemPolicy):
    """Recommender: particles over the instances of the family `peak` (angles, phases and weights of five
    characteristics), moved by Markov chains after 1, 1.1, 1.2, ... times the data; the item with the largest mean of a
    few draws."""

    size, votes, sweeps, jump, part, often = 128, 3, 6, 0.6, 0.3, 10

    def __init__(self, centralised: bool, jitter: float) -> None:
        self.centralised, self.jitter = centralised, jitter

    def start(self, fresh: Array) -> None:
        replicas, agents, _ = self._shape
        self.mind = np.arange(replicas * agents) // (agents if self.centralised else 1)
        drawn = self.rng.random((self.mind[-1] + 1, self.size, 15), np.float32)
        drawn *= np.repeat(np.array([np.pi, 2, 1], np.float32), 5)
        drawn[..., 10:] = np.array(WEIGHTS, np.float32)[drawn[..., 10:].argsort(-1)]
        self.particles, self.log = drawn, np.zeros(drawn.shape[:2])
        self.data = np.zeros((len(drawn), 0, 8), np.float32)

    def chance(self, particles: Array, rows: Array) -> Floats:
        """Of the labels of rows [n, T] (context, item, label) in instances [n, P], [n, P, T]."""
        context, item, one = rows[:, None, :, :2] - 0.5, rows[:, None, :, 2:7], particles[:, :, None]
        turned = np.cos(one[..., :5]) * context[..., :1] + np.sin(one[..., :5]) * context[..., 1:] + one[..., 5:10]
        apart = np.sqrt(((one[..., 10:] * (item - 0.5 - 0.42 * np.sin(np.pi * turned))) ** 2).sum(-1))
        found: Floats = np.abs(0.95 - rows[:, None, :, 7] - 0.9 * np.maximum(0, 1 - apart / 0.65))
        return found

    def drawn(self, minds: Ints, many: int) -> Array:
        noise = self.rng.gumbel(size=(len(minds), many, self.size))
        return self.particles[minds[:, None], (self.log[minds, None] + noise).argmax(-1)]

    def choose(self, contexts: Array) -> Ints:
        items, context = np.repeat(self._items, self._shape[1], 0), contexts.reshape(len(self.mind), 1, 2)
        liked = np.ones((*items.shape[:2], 1))
        rows = np.concatenate([np.repeat(context, items.shape[1], 1), items, liked], -1, dtype=np.float32)
        likes = self.chance(self.drawn(self.mind, self.votes), rows).mean(1).reshape(self._shape)
        return np.where(self._have, likes, -1).argmax(-1)

    def learn(self, contexts: Array, items: Ints, likes: Array, real: Array) -> None:
        shown = self._items[np.arange(len(items))[:, None], items]
        rows = np.concatenate([contexts, shown, likes[..., None]], -1, dtype=np.float32)
        rows, before = rows.reshape(len(self.particles), -1, 8), self.data.shape[1]
        self.data = np.concatenate([self.data, rows], 1)
        self.log += np.log(self.chance(self.particles, rows)).sum(-1)
        if int(self.often * np.log1p(self.data.shape[1])) > int(self.often * np.log1p(before)):
            self.particles = self.drawn(np.arange(len(self.particles)), self.size)
            self.log[:] = 0
            for _ in range(self.sweeps):
                self.move()

    def move(self) -> None:
        """A step of Metropolis: a part of the difference of two particles, some noise, and at times two weights
        exchanged."""
        rng, old, shape = self.rng, self.particles, self.log.shape
        other, swap, luck = rng.permutation(self.size), 10 + rng.permutation(5)[:2], rng.random((3, *shape, 1))
        step = self.jump * luck[0] * (old[:, other] - old[:, other[::-1]])[..., :10]
        step += self.jitter * rng.standard_normal((*shape, 10))
        new = old.copy()
        new[..., :10] += np.tile(rng.random((*shape, 5)) < self.part, 2) * step
        new[..., swap] = np.where(luck[1] < 0.25, new[..., swap[::-1]], new[..., swap])
        better = np.log(self.chance(new, self.data)).sum(-1) - np.log(self.chance(old, self.data)).sum(-1)
        self.particles = np.where(np.log(luck[2]) < better[..., None], new, old)


class Rival(NamedTuple):
    """A rival in an environment's standard task, and the reference at which it aims."""

    env: str
    aims: str
    make: Callable[[], Any]


RIVALS = {
    "Quitter": Rival("round_stopping_v0", FULL_INFORMATION, Quitter),
    "SharedSlack": Rival("federated_training_v0", FULL_INFORMATION, SharedSlack),
    "FamilyBayes": Rival("recommender_v0", FULL_INFORMATION, lambda: FamilyBayes(True, 0.05)),
    "FamilyBayes alone": Rival("recommender_v0", NO_COMMUNICATION, lambda: FamilyBayes(False, 0.1)),
}


def compared(rival: Rival, seeds: int, runs: int) -> tuple[float, float, statistics.Estimate]:
    """The means of the reference and the rival, and the rival's lead in score."""
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
    return float(values[0].mean()), float(values[1].mean()), lead


def main(arguments: list[str]) -> None:
    seeds, runs = (int(one) for one in (arguments + ["10", "0"][len(arguments) :])[:2])
    beaten = False
    print(f"{'rival':18}{'environment':24}{'reference':20}{'mean':>10}{'rival':>10}  lead in score")
    unknown = [name for name in arguments[2:] if name not in RIVALS]
    if unknown:
        sys.exit(f"NAME must be one of {', '.join(RIVALS)}, not {unknown[0]!r}")
    for name in arguments[2:] or RIVALS:
        rival = RIVALS[name]
        mark, own, lead = compared(rival, seeds, runs)
        beaten |= lead.low > 0
        interval = f"{lead.value:.3f} [{lead.low:.3f}, {lead.high:.3f}]"
        print(f"{name:18}{rival.env:24}{rival.aims:20}{mark:10.4g}{own:10.4g}  {interval}", flush=True)
    sys.exit(int(beaten))
