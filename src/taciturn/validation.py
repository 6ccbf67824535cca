"""Checks of parameters: every failure is one sentence naming the parameter, its value and what is allowed."""

import math
import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "choice", "integer", "number", "vector"]

Array = npt.NDArray[Any]


def number(
    name: str,
    value: Any,
    *,
    above: float = -math.inf,
    at_least: float = -math.inf,
    at_most: float = math.inf,
    below: float = math.inf,
) -> float:
    """Return `value` as a finite float within the bounds; raise ValueError otherwise."""
    allowed = [f"> {above:g}"] * (above > -math.inf) + [f">= {at_least:g}"] * (at_least > -math.inf)
    allowed += [f"< {below:g}"] * (below < math.inf) + [f"<= {at_most:g}"] * (at_most < math.inf)
    ok = isinstance(value, numbers.Real | np.generic) and not isinstance(value, bool | np.bool_)
    if ok:
        value = float(value)
        ok = math.isfinite(value) and above < value < below and at_least <= value <= at_most
    if not ok:
        raise ValueError(f"{name} must be a finite number {' and '.join(allowed)}, not {value!r}".replace("  ", " "))
    return float(value)


def integer(name: str, value: Any, *, at_least: int, at_most: int | None = None) -> int:
    """Return `value` as an int within the bounds; raise ValueError otherwise (bools and fractions included)."""
    whole = isinstance(value, numbers.Integral | np.integer) and not isinstance(value, bool)
    if not whole or value < at_least or (at_most is not None and value > at_most):
        upper = "" if at_most is None else f" and <= {at_most}"
        raise ValueError(f"{name} must be an integer >= {at_least}{upper}, not {value!r}")
    return int(value)


def choice(name: str, value: Any, allowed: Iterable[Any]) -> Any:
    """Return `value` if it is one of `allowed`; raise ValueError otherwise."""
    allowed = tuple(allowed)
    if not any(type(value) is type(a) and value == a for a in allowed):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}")
    return value


def vector(name: str, value: Any, *, size: int | None = None) -> Array:
    """Return `value` as a fresh finite float64 vector; raise ValueError otherwise."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a sequence of numbers, not {value!r}") from error
    if array.ndim != 1 or (size is not None and array.size != size):
        wanted = "a flat sequence" if size is None else f"a flat sequence of {size} numbers"
        raise ValueError(f"{name} must be {wanted}, not an array of shape {array.shape}")
    if not np.isfinite(array).all():
        first = int(np.flatnonzero(~np.isfinite(array))[0])
        raise ValueError(f"{name} must hold finite numbers only, but {name}[{first}] is {array[first]}")
    return array
