"""The trainer's agents: the training method of each environment, and a training from its first step to its last."""

import copy
import pickle
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from taciturn.envs.core import Array, Population, PublicView, Rollout, Streams, begin, choice, integer, number
from taciturn.envs.core.public import has_public_schedule
from taciturn.policies.base import Learner, Policy
from taciturn.policies.learned.agents import NetworkAgent
from taciturn.policies.learned.evolution import Evolution, EvolutionSettings
from taciturn.policies.learned.plans import EvolvedPlan, EvolvedSchedule
from taciturn.policies.learned.ppo import PPO, Settings
from taciturn.policies.learned.scores import SocialScore
from taciturn.policies.learned.social_features import remembers
from taciturn.validation import Floats

RUNS, FEWEST = 1000, 20
"""Number of fresh runs of practice instances that evaluate a checkpoint by their mean, since rare failures decide it;
fewer, but at least the second number, in a training shorter than five times these runs."""
MILESTONES = (0.2, 0.4, 0.6, 0.8, 1.0)
"""The shares of a training after which a checkpoint is evaluated."""


@dataclass(frozen=True)
class Method:
    """The training method of an environment.

    Attributes:
        name: "ppo" or "evolution".
        agent: the class of the agent.
        measure: the cost of a run, a measure of the environment, with a minus in front if more is better; None: minus
            the run's return.
        settings: settings that differ from the method's defaults.
        steps: number of decisions of a usual training.
        private_steps: the same with a mechanism on a channel; None: equal to `steps`.
    """

    name: str = "ppo"
    agent: type[Policy] = NetworkAgent
    measure: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    steps: int = 2_000_000
    private_steps: int | None = None

    def checked(self) -> Settings | EvolutionSettings:
        """The settings; ValueError if one is unknown or out of range."""
        kind = Settings if self.name == "ppo" else EvolutionSettings
        known = [one.name for one in fields(kind)]
        for name in self.settings:
            if name not in known:
                raise ValueError(f"settings of {self.name} must be among {', '.join(known)}, and {name!r} is not")
        return kind(**self.settings)


PLAIN: dict[str, Any] = {
    "turns": 32, "num_envs": 64, "width": 32, "batch": 2048, "keep": 1.0, "learning_rate": 3e-3, "lam": 0.95
}  # fmt: skip
"""Settings of PPO for environments without an entry."""
METHODS: Mapping[str, Method] = {
    "GossipBandit": Method(measure="popularity_regret", steps=18_000_000),
    "SocialBandit": Method("evolution", SocialScore, "popularity_regret", {"step": 0.4, "block": 100}, 200_000_000),
    "FederatedBandit": Method(
        "evolution", EvolvedPlan, "regret_per_agent", {"population": 12}, 800_000_000, 5_000_000_000
    ),
    "ArmElimination": Method(
        "evolution", EvolvedSchedule, "regret_per_agent",
        {"population": 12, "runs": 12_000, "block": 2000, "memory": 0.2}, 50_000_000,
    ),
    "RoundStopping": Method(
        measure="-reward",
        settings=PLAIN | {"num_envs": 500, "turns": 200, "lam": 0.97, "batch": 8192},
        steps=8_000_000,
    ),
    "PlatformSide": Method(measure="loss", settings=PLAIN, steps=900_000),
    "FederatedTraining": Method(measure="test_loss", settings=PLAIN, steps=500_000),
}  # fmt: skip
"""By the environment's class; others learn from the raw observation, with the settings `PLAIN`."""


def method_of(view: PublicView) -> Method:
    """The method of an environment."""
    return METHODS.get(view.world.__name__, Method(settings=PLAIN))


class Evaluated(NamedTuple):
    """A checkpoint, evaluated in fresh runs: decisions and CPU seconds of the training so far, and the mean, the median
    and the mean of the worst 1% of the costs of runs."""

    steps: int
    seconds: float
    mean: float
    median: float
    worst: float


def costs(world: Population[Any], agent: Policy, role: str, seed: int, measure: str | None) -> tuple[Floats, int]:
    """The costs of an agent's runs, [B], and their number of decisions."""
    world.reset(seed=seed)
    agent.reset(world, world.stream("policy"), role)
    policies = {role: agent}
    begin(world, policies)
    rollout, earned, steps = Rollout(world, policies), np.zeros(world.num_envs), 0
    while not world.done.all():
        live = np.count_nonzero(~world.done)
        reward = rollout.play().reward
        steps += live * reward.shape[1]
        earned += reward.mean(1)
    if measure is None:
        return -earned, steps
    found = np.asarray(world.outcome()[measure.removeprefix("-")], np.float64)
    return (-found if measure.startswith("-") else found), steps


class Training:
    """A training of an agent in practice environments like that of a view. It can be pickled between steps, and then
    continues with the same numbers.

    Args:
        view: the environment's public view.
        role: the agents' role.
        method: the training method.
        seed: seed of all randomness.
        steps: number of decisions; None: as many as fit into `seconds`.
        seconds: CPU seconds.

    Attributes:
        curve: the checkpoints so far, the first before any learning.
        agent: the checkpoint with the best mean.
    """

    def __init__(
        self, view: PublicView, role: str, method: Method, seed: int, steps: int | None, seconds: float | None = None
    ) -> None:
        self._began, self._before = time.process_time(), 0.0
        self._role, self._method = role, method
        agent: Any = method.agent()
        self._trainer: PPO | Evolution = (
            PPO(view, role, agent, method.checked(), seed)  # type: ignore[arg-type]
            if method.name == "ppo"
            else Evolution(view, role, agent, partial(costs, measure=method.measure), method.checked(), seed)  # type: ignore[arg-type]
        )
        runs = RUNS
        if steps is not None:
            taken = costs(view.practice(FEWEST), copy.copy(agent), role, seed, None)[1] / FEWEST
            runs = int(np.clip(steps / taken / 5, FEWEST, RUNS))
        self._judges: Population[Any] = view.practice(runs)
        self._judges.purpose = "selection"
        self._seed = int(Streams(seed, "selection")["runs"].integers(2**31))
        self.curve: list[Evaluated] = []
        self.agent: Policy = agent
        self._evaluate()
        self.steps = self._that_fit(seconds or 60.0) if steps is None else steps

    def _that_fit(self, seconds: float) -> int:
        """The decisions that fit into `seconds` CPU seconds, estimated from the time that a copy takes for some."""
        copied: PPO | Evolution = pickle.loads(pickle.dumps(self._trainer))
        copied.iterate(0.0)
        before, start, count = copied.decisions, time.process_time(), 0
        while count < 2 or time.process_time() - start < 0.02 * seconds:
            copied.iterate(0.0)
            count += 1
        rate = (copied.decisions - before) / (time.process_time() - start)
        evaluating = len(MILESTONES) * self.curve[0].seconds
        spent = time.process_time() - self._began
        return max(1, int(rate * max(seconds - evaluating - spent, 0.1 * seconds)))

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_before": self.seconds, "_began": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _began=time.process_time())

    @property
    def seconds(self) -> float:
        """CPU seconds so far."""
        return self._before + time.process_time() - self._began

    @property
    def method(self) -> str:
        """The training method."""
        return self._method.name

    @property
    def measure(self) -> str | None:
        """The measure that evaluates checkpoints, see `Method`."""
        return self._method.measure

    @property
    def decisions(self) -> int:
        """Decisions so far."""
        return self._trainer.decisions

    @property
    def done(self) -> float:
        """The share of the training that is over."""
        return min(1.0, self.decisions / self.steps)

    def run(self, report: Callable[["Training", bool], None]) -> Policy:
        """Train to the end, and return the agent; `report` is called after each step with whether a checkpoint was
        evaluated."""
        while self.done < 1:
            milestone = next(one for one in MILESTONES if one > self.done)
            while self.done < milestone:
                self._trainer.iterate(self.done)
                report(self, False)
            self._evaluate()
            report(self, True)
        if isinstance(self.agent, NetworkAgent):
            firm = NetworkAgent(self.agent.weights, greedy=True, moment=self.agent.moment)
            cost = costs(self._judges, firm, self._role, self._seed, self._method.measure)[0].mean()
            if cost < min(one.mean for one in self.curve):
                self.agent = firm
        return self.agent

    def _evaluate(self) -> None:
        now = copy.copy(self._trainer.agent)
        now.weights = copy.deepcopy(self._trainer.weights)
        start = time.process_time()
        cost = np.sort(costs(self._judges, now, self._role, self._seed, self._method.measure)[0])
        worst = float(cost[-max(1, len(cost) // 100) :].mean())
        spent = self.seconds if self.curve else time.process_time() - start
        found = Evaluated(self._trainer.decisions, spent, float(cost.mean()), float(np.median(cost)), worst)
        if all(found.mean < one.mean for one in self.curve):
            self.agent = now
        self.curve.append(found)


class TrainedAgent(Learner):
    """Learns by the trainer's method for its environment (`METHODS`), at its first reset, and then acts.

    In environments without an entry it learns from the raw observation and from its rewards, by PPO
    (`taciturn.policies.learned.ppo`).

    Args:
        steps: decisions of the training, counted over agents and environments; None: the method's default.
        method: "ppo" or "evolution"; None: the environment's method.
        settings: settings of the method.
        seed: seed of all randomness in training.
    """

    def __init__(
        self,
        steps: int | None = None,
        *,
        method: str | None = None,
        settings: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        self.steps = None if steps is None else integer("steps", steps, at_least=1)
        self.method = None if method is None else choice("method", method, ("ppo", "evolution"))
        self.settings, self.seed = dict(settings or {}), integer("seed", seed, at_least=0)
        self._agent: Any = None
        self.measure: str | None = None  # the measure that evaluates checkpoints; None: the method's

    def chosen(self, view: PublicView) -> Method:
        """The method with this learner's settings."""
        usual = method_of(view)
        if self.method == "evolution" != usual.name:
            raise ValueError(f"method must be 'ppo' in {view.world.name}: evolution has no agent for it")
        if self.method == "ppo" != usual.name:
            usual = Method(measure=usual.measure, settings={} if remembers(view) else PLAIN)
        return replace(usual, measure=self.measure or usual.measure, settings={**usual.settings, **self.settings})

    def training(self, view: PublicView, seconds: float | None = None) -> Training:
        """A training that has not begun, limited to `seconds` CPU seconds if given."""
        method = self.chosen(view)
        mechanisms = (one.mechanism for one in view.channels.values())
        private = any(one is not None and one.kind != "none" for one in mechanisms)
        usual = method.private_steps if private and method.private_steps else method.steps
        steps = self.steps if self.steps is not None or seconds is not None else usual
        if seconds is not None:
            number("seconds", seconds, above=0)
        return Training(view, self.role, method, self.seed, steps, seconds)

    def fit(self, view: PublicView) -> None:
        def report(training: Training, _: bool) -> None:
            if self.progress is not None:
                self.progress(training.done)

        self._agent = self.training(view).run(report)

    def begin(self, view: PublicView) -> None:
        if self._agent is None:
            rng = self.rng
            self.fit(view)
            self.rng = rng
        self._agent.reset(view, self.rng, self.role)

    @property
    def public_schedule(self) -> bool:  # type: ignore[override]
        return self._agent is not None and has_public_schedule(self._agent)

    def within(self, view: PublicView, epsilon_budget: float) -> dict[str, Any] | None:
        agent = self.chosen(view).agent() if self._agent is None else self._agent
        agent.role = self.role if hasattr(self, "role") else next(iter(view.roles))
        return agent.within(view, epsilon_budget)

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        found: Array = self._agent.act(obs, mask)
        return found

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        self._agent.update(obs, action, reward, done)

    def restart(self, where: Array) -> None:
        self._agent.restart(where)
