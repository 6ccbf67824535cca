"""Evolution strategies: training of agents with few weights by whole runs."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from taciturn.envs.core import Array, PublicView, Streams, integer, number
from taciturn.policies.learned.training import FadingMean
from taciturn.validation import Floats


class CovarianceAdaptation:
    """The evolution strategy CMA-ES, which moves a normal distribution towards the best of its draws.

    Args:
        mean: initial mean, float64[n].
        step: initial standard deviation of all coordinates, > 0.
        rng: draws the candidates.
        population: the number of candidates in a generation, lambda; None: 4 + floor(3 ln n).

    Weights of candidates worse than the median are 0, not negative.

    Source:
        Hansen 2016, The CMA evolution strategy: a tutorial (arXiv 1604.00772): equations 24, 30 to 34, 37 and 47,
        and the defaults of its table 1.
    """

    def __init__(self, mean: Array, step: float, rng: np.random.Generator, population: int | None = None) -> None:
        self.mean, self.step, self._rng = np.array(mean, np.float64), number("step", step, above=0), rng
        n = self.mean.size
        size = 4 + int(3 * np.log(n)) if population is None else integer("population", population, at_least=4)
        self.population, parents = size, size // 2
        raw = np.log((size + 1) / 2) - np.log(np.arange(1, parents + 1))
        self._weights = raw / raw.sum()
        mass = 1.0 / (self._weights**2).sum()
        self._mass = mass
        self._c_step = (mass + 2) / (n + mass + 5)
        self._damping = 1 + 2 * max(0.0, np.sqrt((mass - 1) / (n + 1)) - 1) + self._c_step
        self._c_path = (4 + mass / n) / (n + 4 + 2 * mass / n)
        self._c_one = 2 / ((n + 1.3) ** 2 + mass)
        self._c_mass = min(1 - self._c_one, 2 * (0.25 + mass + 1 / mass - 2) / ((n + 2) ** 2 + mass))
        self._length = np.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n**2))
        self._covariance, self._path, self._step_path = np.eye(n), np.zeros(n), np.zeros(n)
        self._generation = 0
        self._draws: Floats = np.zeros((0, n))

    def ask(self) -> Floats:
        """The candidates of the next generation, [lambda, n]."""
        values, vectors = np.linalg.eigh(self._covariance)
        # Eigenvectors depend on the processor if eigenvalues are equal, as at the beginning; this root does not.
        roots = np.sqrt(np.maximum(values, 1e-20))
        self._root, self._inverse_root = (vectors * roots) @ vectors.T, (vectors / roots) @ vectors.T
        self._draws = self._rng.standard_normal((self.population, self.mean.size)) @ self._root
        return self.mean + self.step * self._draws

    def tell(self, costs: Array) -> None:
        """Update from the costs [lambda] of the candidates; less is better."""
        n, self._generation = self.mean.size, self._generation + 1
        best = self._draws[np.argsort(costs, kind="stable")[: self._weights.size]]
        move = self._weights @ best
        self.mean = self.mean + self.step * move
        c = self._c_step
        self._step_path = (1 - c) * self._step_path + np.sqrt(c * (2 - c) * self._mass) * (self._inverse_root @ move)
        length = np.linalg.norm(self._step_path)
        settled = np.sqrt(1 - (1 - c) ** (2 * self._generation))
        slow = length / settled < (1.4 + 2 / (n + 1)) * self._length
        c = self._c_path
        self._path = (1 - c) * self._path + slow * np.sqrt(c * (2 - c) * self._mass) * move
        lost = (1 - slow) * c * (2 - c)
        kept = 1 - self._c_one - self._c_mass + self._c_one * lost
        self._covariance = (
            kept * self._covariance
            + self._c_one * np.outer(self._path, self._path)
            + self._c_mass * (best.T * self._weights) @ best
        )
        self.step *= float(np.exp(self._c_step / self._damping * (length / self._length - 1)))


@dataclass(frozen=True, kw_only=True)
class EvolutionSettings:
    """Settings of a training by evolution.

    Attributes:
        runs: number of runs of each candidate at the end of the training, all on the same instances; earlier, this
            times the cube of the share of the training done so far, and at least a block.
        block: number of runs played together.
        population: candidates in a generation; None: the default of `CovarianceAdaptation`.
        step: the strategy's initial standard deviation.
        memory: memory of the mean of the last generations' means, which is the result (`FadingMean`).
    """

    runs: int = 2000
    block: int = 400
    population: int | None = None
    step: float = 0.3
    memory: float = 0.1

    def __post_init__(self) -> None:
        integer("block", self.block, at_least=1)
        integer("runs", self.runs, at_least=self.block)
        number("step", self.step, above=0)
        number("memory", self.memory, above=0)


class Evolution:
    """A training by CMA-ES on the costs of whole runs; `iterate` plays a generation.

    Candidates play the same instances with the same random numbers, in the agent's own simulator if it has one
    (`simulated`), otherwise in a practice environment.

    Attributes:
        agent: plays with the weights of candidates.
        weights: the resulting weights, the mean of the last generations' means.
        decisions: number of decisions in all runs so far.
    """

    def __init__(
        self,
        view: PublicView,
        role: str,
        agent: Any,
        cost: Callable[[Any, Any, str, int], tuple[Floats, int]],
        settings: EvolutionSettings,
        seed: int,
    ) -> None:
        self.agent, self.decisions, self._settings, self._cost, self._role = agent, 0, settings, cost, role
        self._rng = Streams(seed, "training")["evolution"]
        begins = agent.first_weights(self._rng)
        self._strategy = CovarianceAdaptation(begins, settings.step, self._rng, settings.population)
        self._world: Any = view.practice(settings.block)
        self._simulator: Any = agent.simulator(self._world)
        self._mean = FadingMean(settings.memory)
        agent.weights = self.weights = begins

    def iterate(self, done: float) -> dict[str, float]:
        """Play a generation."""
        blocks = max(1, round(self._settings.runs / self._settings.block * done**3))
        seeds = self._rng.integers(2**31, size=blocks).tolist()
        found = [np.mean([self._played(weights, seed) for seed in seeds]) for weights in self._strategy.ask()]
        self._strategy.tell(np.array(found))
        self.weights = self._mean.add({"mean": self._strategy.mean}, done)["mean"]
        return {"cost": float(np.mean(found)), "step": self._strategy.step}

    def _played(self, weights: Floats, seed: int) -> float:
        """A candidate's average cost per run in a block."""
        if self._simulator is not None:
            cost, steps = self._simulator(weights, self._settings.block, seed)
        else:
            player = copy(self.agent)
            player.weights = weights
            cost, steps = self._cost(self._world, player, self._role, seed)
        self.decisions += steps
        return float(cost.mean())
