"""What mechanisms ask of their arguments: each check returns the argument as it will be used, or raises ValueError."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "agents",
    "aligned",
    "binary",
    "choice",
    "counts",
    "integers",
    "mask",
    "number",
    "numbers",
    "one_hot",
    "reals",
    "scale",
    "sensitivities",
    "together",
    "totals",
    "whole",
]

Array = npt.NDArray[Any]

MOST = 2**48  # messages of a histogram: sums of so many stay within int64


def number(name: str, value: Any, *, above: float = 0.0, below: float = math.inf) -> float:
    try:
        number = math.nan if np.ndim(value) or isinstance(value, bool | np.bool_ | str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not (math.isfinite(number) and above < number < below):
        upper = "" if below == math.inf else f" and < {below:g}"
        raise ValueError(f"{name} must be a finite number > {above:g}{upper}, not {value!r}")
    return number


def whole(name: str, value: Any, *, at_least: int) -> int:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < at_least:
        raise ValueError(f"{name} must be an integer >= {at_least}, not {value!r}")
    return int(value)


def choice(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}")
    return value


def numbers(name: str, value: Any, kinds: str = "biuf") -> Array:
    """An array whose dtype is of the given kinds."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array of numbers, not {value!r}") from error
    if array.dtype.kind not in kinds:
        what = "integers" if kinds == "iu" else "numbers"
        raise ValueError(f"{name} must be an array of {what}, not of {array.dtype}")
    return array


def reals(name: str, value: Any) -> Array:
    array = numbers(name, value).astype(np.float64, copy=False)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must hold finite numbers only, not {array[~np.isfinite(array)][0]}")
    return array


def integers(name: str, value: Any, *, at_least: int, below: float = math.inf) -> Array:
    array = numbers(name, value, "iu")
    wrong = (array < at_least) | (array >= below)
    if wrong.any():
        upper = "" if below == math.inf else f" and < {below}"
        raise ValueError(f"{name} must hold integers >= {at_least}{upper}, not {array[wrong][0]}")
    return array


def binary(name: str, value: Any) -> Array:
    """A 0/1 array [..., K] as booleans."""
    array = numbers(name, value)
    if array.ndim == 0 or not ((array == 0) | (array == 1)).all():
        raise ValueError(f"{name} must be an array [..., K] of zeros and ones")
    return array.astype(np.bool_)


def one_hot(name: str, value: Any) -> Array:
    bits = binary(name, value)
    if bits.shape[-1] < 64:  # NumPy's sum along a short axis is ten times slower
        ones = sum((bits[..., k] for k in range(bits.shape[-1])), start=np.zeros(bits.shape[:-1], np.uint8))
    else:
        ones = np.count_nonzero(bits, axis=-1)
    if (np.asarray(ones) > 1).any():
        raise ValueError(f"{name} must hold at most one 1 in each vector [..., K]: the claim is for one-hot vectors")
    return bits


def counts(histogram: Any, num_messages: Any) -> tuple[Array, Array]:
    """A histogram [..., K] and how many messages [...] there are with it, int64."""
    histogram = integers("histogram", histogram, at_least=0, below=MOST).astype(np.int64)
    if histogram.ndim == 0:
        raise ValueError("histogram must be an array [..., K], not a number")
    holders = histogram.sum(-1)
    if num_messages is None:
        return histogram, holders
    num_messages = integers("num_messages", num_messages, at_least=0, below=MOST)
    if num_messages.shape not in ((), holders.shape) or (num_messages < holders).any():
        raise ValueError(f"num_messages must be at least histogram.sum(-1) and of its shape {holders.shape} or ()")
    return histogram, np.broadcast_to(num_messages, holders.shape)


def totals(value: Any, shape: tuple[int, ...]) -> Array:
    """num_messages, one or as many as `shape` says; float64[shape]."""
    array = reals("num_messages", value)
    if (array < 0).any() or array.shape not in ((), shape):
        raise ValueError(f"num_messages must be one number >= 0, or such numbers of shape {shape}, not {value!r}")
    return np.broadcast_to(array, shape)


def together(dims: int = 0, **arrays: Array) -> list[Array]:
    """The arrays, broadcast to one shape; their last `dims` axes must be alike."""
    shapes = [array.shape for array in arrays.values()]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        shape = None
    if shape is None or any(
        len(each) < dims or each[len(each) - dims :] != shape[len(shape) - dims :] for each in shapes
    ):
        raise ValueError(f"{', '.join(arrays)} must have shapes that go together, not {', '.join(map(str, shapes))}")
    return [np.broadcast_to(array, shape) for array in arrays.values()]


def agents(value: Any) -> tuple[int, ...]:
    """The shape of a batch of agents."""
    if not isinstance(value, tuple) or any(
        isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0 for n in value
    ):
        raise ValueError(f"shape must be a tuple of integers >= 0, not {value!r}")
    return value


def sensitivities(value: Any) -> None:
    """A sensitivity that changes nothing, because the noise grows with it."""
    if value is not None:
        aligned("sensitivity", value, np.empty(np.shape(value)))


def scale(bound: Array, multiplier: float) -> Array:
    """bound * multiplier: the scale of noise for a sensitivity `bound`."""
    with np.errstate(over="ignore", under="ignore"):
        product = np.asarray(bound * multiplier)
    usable = (product > 0) & (product < math.inf)
    if not usable.all():
        raise ValueError(f"sensitivity must give a finite noise scale > 0, not {product[~usable][0]}")
    return product


def aligned(name: str, value: Any, x: Array) -> Array:
    """`value` for each message of `x`: a number, or an array over the leading axes of x; all > 0."""
    array = reals(name, numbers(name, value, "iuf"))
    if not (array > 0).all():
        raise ValueError(f"{name} must hold numbers > 0, not {array[~(array > 0)][0]}")
    array = array.reshape(array.shape + (1,) * (x.ndim - array.ndim)) if array.ndim else array
    if array.ndim > x.ndim or any(a not in (1, b) for a, b in zip(array.shape, x.shape, strict=False)):
        raise ValueError(f"{name} must be a number or follow the leading axes of x {x.shape}, not {np.shape(value)}")
    return array


def mask(where: Any, shape: tuple[int, ...]) -> Array:
    if where is None:
        return np.ones(shape, np.bool_)
    where = np.asarray(where)
    if where.dtype != np.bool_ or where.shape != shape[: where.ndim]:
        raise ValueError(f"where must be booleans over the leading axes of {shape}, not {where.dtype}{where.shape}")
    return np.broadcast_to(where.reshape(where.shape + (1,) * (len(shape) - where.ndim)), shape)
