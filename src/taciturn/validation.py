"""Checks of arguments and array types. Every failure is one sentence: which parameter, its value, and what is allowed."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Bools", "Floats", "Ints", "choice", "integer", "missing_extra", "number", "vector"]

Array = NDArray[Any]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

NOT_REAL = (bool, np.bool_, str, bytes, complex, np.complexfloating)


def number(
    name: str,
    value: Any,
    *,
    above: float = -math.inf,
    at_least: float = -math.inf,
    at_most: float = math.inf,
    below: float = math.inf,
) -> float:
    """Return `value` as a finite float within the bounds; raise ValueError otherwise (bools included)."""
    try:
        found = math.nan if isinstance(value, NOT_REAL) or np.ndim(value) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not (math.isfinite(found) and above < found < below and at_least <= found <= at_most):
        allowed = [f"> {above:g}"] * (above > -math.inf) + [f">= {at_least:g}"] * (at_least > -math.inf)
        allowed += [f"< {below:g}"] * (below < math.inf) + [f"<= {at_most:g}"] * (at_most < math.inf)
        raise ValueError(
            f"{name} must be a finite number{' ' * bool(allowed)}{' and '.join(allowed)}, not {_shown(value)}"
        )
    return found


def integer(name: str, value: Any, *, at_least: int, at_most: int | None = None) -> int:
    """Return `value` as an int within the bounds; raise ValueError otherwise (bools and floats included)."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < at_least or (at_most is not None and value > at_most):
        upper = "" if at_most is None else f" and <= {at_most}"
        raise ValueError(f"{name} must be an integer >= {at_least}{upper}, not {_shown(value)}")
    return int(value)


def _shown(value: Any) -> str:
    """`value` in an error message; Python refuses to write integers of many digits."""
    return f"one of {value.bit_length()} bits" if isinstance(value, int) and abs(value) >= 2**256 else repr(value)


def choice(name: str, value: Any, allowed: Iterable[Any]) -> Any:
    """Return the element of `allowed` that equals `value` and is of its type; raise ValueError if there is none."""
    allowed = tuple(allowed)
    plain = value.item() if isinstance(value, np.generic) else value
    for one in allowed:
        if type(plain) is type(one) and plain == one:
            return one
    raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}")


def vector(name: str, value: Any, *, size: int | None = None) -> Floats:
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


def missing_extra(what: str, extra: str) -> ImportError:
    """The error to raise where `what`, such as "method 'pld' needs dp-accounting", is not installed."""
    return ImportError(f"{what}: run pip install '.[{extra}]' in a clone of taciturn")
