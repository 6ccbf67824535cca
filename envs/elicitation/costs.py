"""An individual's cost of privacy, a function g of the budget eps, and its derivative."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import log1p
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from taciturn.envs.elicitation.elementary import exp, expm1, of_arrays
from taciturn.validation import Floats, number, shown

QUADRATIC, LINEAR, EXPONENTIAL, LOGARITHMIC, OTHER = range(5)


def cost_of(kind: int, c: float, epsilon: Any) -> Any:
    """g(eps)."""
    if kind == QUADRATIC:
        return c * (epsilon * epsilon)
    if kind == LINEAR:
        return c * epsilon
    if kind == EXPONENTIAL:
        return c * expm1(epsilon)
    return c * log1p(epsilon)


def marginal_of(kind: int, c: float, epsilon: Any) -> Any:
    """g'(eps)."""
    if kind == QUADRATIC:
        return 2.0 * c * epsilon
    if kind == LINEAR:
        return c + 0.0 * epsilon
    if kind == EXPONENTIAL:
        return c * exp(epsilon)
    return c / (1.0 + epsilon)


class Cost(ABC):
    """g(eps), increasing and differentiable, and proportional to the parameter `c`, with g(0) = 0."""

    c: float

    @abstractmethod
    def __call__(self, epsilon: ArrayLike) -> Floats:
        """g(eps), of the shape of `epsilon`."""

    @abstractmethod
    def marginal(self, epsilon: ArrayLike) -> Floats:
        """g'(eps), of the shape of `epsilon`."""


@dataclass(frozen=True)
class _Scaled(Cost):
    """A cost computed by `cost_of` and `marginal_of` for its kind."""

    kind: ClassVar[int] = OTHER
    c: float = 1.0

    def __post_init__(self) -> None:
        number("c", self.c, above=0)

    def __call__(self, epsilon: ArrayLike) -> Floats:
        with np.errstate(over="ignore"):
            return np.asarray(of_arrays(cost_of)(self.kind, self.c, np.asarray(epsilon, np.float64)))

    def marginal(self, epsilon: ArrayLike) -> Floats:
        with np.errstate(over="ignore"):
            return np.asarray(of_arrays(marginal_of)(self.kind, self.c, np.asarray(epsilon, np.float64)))


class QuadraticCost(_Scaled):
    """c eps^2."""

    kind = QUADRATIC


class LinearCost(_Scaled):
    """c eps."""

    kind = LINEAR


class ExponentialCost(_Scaled):
    """c (e^eps - 1)."""

    kind = EXPONENTIAL


class LogCost(_Scaled):
    """c log(1 + eps), proportional to the level of differential privacy."""

    kind = LOGARITHMIC


def kind_of(cost: Cost) -> int:
    """The kind of a cost, as in the functions above; OTHER for a subclass, which may be another function."""
    return vars(type(cost)).get("kind", OTHER) if isinstance(cost, _Scaled) else OTHER


@dataclass(frozen=True)
class CustomCost(Cost):
    """A user-defined cost: g and its derivative, functions of arrays."""

    g: Callable[[Floats], Floats]
    derivative: Callable[[Floats], Floats]
    c: float = field(default=1.0, init=False)

    def __post_init__(self) -> None:
        at = np.array([0.1, 1.0, 3.0])
        for name, values in (("g", self(at)), ("g'", self.marginal(at))):
            if values.shape != at.shape or not np.isfinite(values).all():
                raise ValueError(f"cost: {name} must map an array of budgets to finite numbers, not {at} to {values}")
        if not (self.marginal(at) > 0).all():
            raise ValueError(f"cost: g' must be > 0, not {self.marginal(at)} at {at}")

    def __call__(self, epsilon: ArrayLike) -> Floats:
        return np.asarray(self.g(np.asarray(epsilon, np.float64)), np.float64)

    def marginal(self, epsilon: ArrayLike) -> Floats:
        return np.asarray(self.derivative(np.asarray(epsilon, np.float64)), np.float64)


def as_cost(cost: Any) -> Cost:
    """Return a `Cost` as it is, and a pair `(g, g')` as a `CustomCost`; raise ValueError for anything else."""
    if isinstance(cost, Cost):
        return cost
    if isinstance(cost, Sequence) and len(cost) == 2 and all(callable(part) for part in cost):
        return CustomCost(*cost)
    raise ValueError(
        f"cost must be QuadraticCost(c), LinearCost(c), ExponentialCost(c), LogCost(c) or (g, g'), not {shown(cost)}"
    )
