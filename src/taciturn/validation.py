"""Checks of arguments and array types. Every error is one sentence with the parameter, its value, and the allowed
values."""

import difflib
import inspect
import math
from abc import ABCMeta
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

# No environment's arrays can be larger: the numbers in one array, agents and replicas among them, and the options or
# values of one agent.
MOST_NUMBERS, MOST_ARMS = 10**9, 10**6

T = TypeVar("T")


class UnknownParameter(TypeError, ValueError):  # noqa: N818 - it names what went wrong
    """An unknown parameter was given. It is also a TypeError, because libraries that probe constructors catch one."""


def unknown_parameter(owner: str, name: str, known: Iterable[str]) -> UnknownParameter:
    """The error to raise for the parameter `name` that `owner` does not have; it suggests the nearest of those
    `known`."""
    known = list(known)
    near = close(name, known, most=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    has = f"it has {some(known, name)}" if known else "it has no parameters"
    return UnknownParameter(f"{owner} got an unexpected keyword argument {shown(name)}: {hint}{has}")


MOST_NAMES = 20
"""How many names a message lists."""


def close(name: object, known: Iterable[Any], most: int = 3) -> list[str]:
    """The `known` names that begin with `name`, otherwise those most similar to it, ignoring case; empty if none is."""
    names = {str(one).casefold(): str(one) for one in known}
    wanted = str(name)[:100].casefold()
    longer = [one for one in names if len(wanted) > 2 and one.startswith(wanted)]
    return [names[one] for one in longer[:most] or difflib.get_close_matches(wanted, names, n=most, cutoff=0.4)]


def in_any_case(name: str, known: Iterable[str]) -> str:
    """The only known name that equals this one apart from case; otherwise the name itself."""
    names = list(known)
    alike = [one for one in names if one.casefold() == name.casefold()]
    return alike[0] if name not in names and len(alike) == 1 else name


def some(known: Iterable[Any], wanted: object = "", more: str = "") -> str:
    """The names, separated by commas. Of many names only `MOST_NAMES` are listed, beginning with the nearest to
    `wanted`, then the number of the rest and `more`."""
    names = list(map(str, known))
    if len(names) <= MOST_NAMES:
        return ", ".join(names)
    kept = list(dict.fromkeys([*close(str(wanted), names), *names]))[:MOST_NAMES]
    return f"{', '.join(kept)} and {len(names) - len(kept)} more{more}"


class NamesUnknown(ABCMeta):
    """Metaclass of classes with constructors that refuse an unknown parameter by `UnknownParameter`."""

    def __call__(cls: type[T], *args: Any, **named: Any) -> T:
        try:
            made: T = super().__call__(*args, **named)  # type: ignore[misc]
        except TypeError:
            known = inspect.signature(cls).parameters
            if any(one.kind is one.VAR_KEYWORD for one in known.values()) or named.keys() <= known.keys():
                raise
            unknown = next(name for name in named if name not in known)
            raise unknown_parameter(cls.__name__, unknown, known) from None
        return made

    @property
    def __signature__(cls) -> inspect.Signature:
        """The constructor's signature, which `inspect` would not find behind a metaclass's own `__call__`."""
        if cls.__init__ is object.__init__:  # type: ignore[misc]
            return inspect.Signature()
        own = inspect.signature(cls.__init__)  # type: ignore[misc]
        return own.replace(parameters=list(own.parameters.values())[1:], return_annotation=inspect.Signature.empty)


NOT_REAL = (bool, np.bool_, str, bytes, complex, np.complexfloating)


def shown(value: Any, length: int = 200) -> str:
    """The value in one line of at most `length` characters, for messages."""
    if isinstance(value, int) and abs(value) >= 2**256:
        return f"an integer of {value.bit_length()} bits"
    try:
        text = " ".join(repr(value).split())
    except Exception:  # an integer with too many digits, or an object whose repr fails
        text = f"a {type(value).__name__}"
    return text if len(text) <= length else f"{text[: length - 3]}..."


def plain(value: Any) -> Any:
    """NumPy scalars and zero-dimensional arrays as Python values, and everything else unchanged."""
    return value.item() if isinstance(value, np.generic | np.ndarray) and value.ndim == 0 else value


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
        result = math.nan if isinstance(value, NOT_REAL) or np.ndim(value) else float(value)
    except (TypeError, ValueError, OverflowError):
        result = math.nan
    if not (math.isfinite(result) and above < result < below and at_least <= result <= at_most):
        bounds = {">": above, ">=": at_least, "<": below, "<=": at_most}
        allowed = [f"{sign} {bound:g}" for sign, bound in bounds.items() if math.isfinite(bound)]
        raise ValueError(
            f"{name} must be a finite number{' ' * bool(allowed)}{' and '.join(allowed)}, not {shown(value)}"
        )
    if isinstance(value, Decimal | Fraction) or (isinstance(value, int) and abs(value) >= 2**63):
        # NumPy could not compute with it.
        raise ValueError(f"{name} must be a float or an integer of 64 bits, not {shown(value)}")
    return result


def integer(name: str, value: Any, *, at_least: int, at_most: int | None = None) -> int:
    """Return `value` as an int within the bounds; raise ValueError otherwise (bools and floats included)."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < at_least or (at_most is not None and value > at_most):
        upper = "" if at_most is None or at_most == 2**63 - 1 else f" and <= {at_most}"
        raise ValueError(f"{name} must be an integer >= {at_least}{upper}, not {shown(value)}")
    return int(value)


def choice(name: str, value: Any, allowed: Iterable[Any]) -> Any:
    """Return the element of `allowed` that equals `value` and has its type; raise ValueError if there is none."""
    allowed = tuple(allowed)
    result = plain(value)
    for one in allowed:
        if type(result) is type(one) and result == one:
            return one
    raise ValueError(f"{name} must be one of {some(map(repr, allowed), value)}, not {shown(value)}")


def vector(name: str, value: Any, *, size: int | None = None) -> Floats:
    """Return `value` as a fresh finite float64 vector; raise ValueError otherwise."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be a sequence of numbers, not {shown(value)}") from error
    if array.ndim != 1 or (size is not None and array.size != size):
        wanted = "a flat sequence" if size is None else f"a flat sequence of {size} numbers"
        raise ValueError(f"{name} must be {wanted}, not an array of shape {array.shape}")
    if not np.isfinite(array).all():
        first = int(np.flatnonzero(~np.isfinite(array))[0])
        raise ValueError(f"{name} must hold finite numbers only, but {name}[{first}] is {array[first]}")
    return array


def array_of(name: str, value: Any, shape: tuple[int, ...] | None = None) -> Array:
    """Return `value` as an array; raise ValueError if its parts have different shapes, or it does not have `shape`."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be an array, not {shown(value)}") from error
    if shape not in (None, array.shape):
        raise ValueError(f"{name} must have shape {shape}, not {array.shape}")
    return array


def mapping(name: str, value: Any, what: str = "a dict or None") -> Mapping[Any, Any]:
    """Return `value`, an empty mapping for None; raise ValueError unless it is a mapping."""
    if value is not None and not isinstance(value, Mapping):
        raise ValueError(f"{name} must be {what}, not {shown(value)}")
    return value or {}


def missing_extra(what: str, extra: str) -> ImportError:
    """The error to raise for a missing dependency; `what` is, for example, "method 'pld' needs dp-accounting"."""
    return ImportError(f"{what}: run pip install '.[{extra}]' in a clone of taciturn")
