"""Checks of the arrays that mechanisms take: each returns the array in the form that is used, or raises ValueError."""

import math
from typing import Any

import numpy as np

from taciturn.validation import Array, Bools, Floats, Ints, number

MOST = 2**48  # entries of a histogram are smaller; their sums then fit into int64
FARTHEST = 1e100  # levels and their inverses are at most this; sums of their squares then stay finite


def level(name: str, value: Any) -> float:
    """A number > 0 such as an epsilon, with a finite square."""
    result = number(name, value, above=0)
    if not 1 / FARTHEST <= result <= FARTHEST:
        raise ValueError(f"{name} must lie between {1 / FARTHEST:g} and {FARTHEST:g}, not be {value!r}")
    return result


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


def reals(name: str, value: Any) -> Floats:
    """A finite float64 array."""
    array = numbers(name, value).astype(np.float64, copy=False)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must hold finite numbers only, not {array[~np.isfinite(array)][0]}")
    return array


def readable(x: Array) -> Array:
    """The numbers of a message as a mechanism reads them: NaN as 0, and numbers beyond +-`FARTHEST` as that bound.

    Whether a message is finite depends on private data: NaN and infinities must therefore neither raise an error nor
    stay visible after the noise. Clipping moves no two finite messages apart; a stated sensitivity must also hold with
    NaN read as 0.
    """
    if x.dtype.kind != "f" or (np.abs(x) <= np.float64(FARTHEST)).all():
        return x
    return np.clip(np.nan_to_num(x.astype(np.float64)), -FARTHEST, FARTHEST)


def integers(name: str, value: Any, *, at_least: int, below: float = math.inf) -> Array:
    """An array of integers in [at_least, below), of any integer type."""
    array = numbers(name, value, "iu")
    if array.size and not (at_least <= array.min() and array.max() < below):
        wrong = (array < at_least) | (array >= below)
        upper = "" if below == math.inf else f" and < {below}"
        raise ValueError(f"{name} must hold integers >= {at_least}{upper}, not {array[wrong][0]}")
    return array


def binary(name: str, value: Any) -> Bools:
    """A 0/1 array [..., K] as booleans."""
    array = numbers(name, value)
    if array.ndim == 0 or not ((array == 0) | (array == 1)).all():
        raise ValueError(f"{name} must be an array [..., K] of zeros and ones")
    return array.astype(np.bool_)


def one_hot(name: str, value: Any) -> Bools:
    """A 0/1 array [..., K] with at most one 1 in each vector, as booleans."""
    bits = binary(name, value)
    ones: Array
    if bits.shape[-1] < 64:  # NumPy's sum along a short axis is ten times slower
        ones = np.asarray(sum((bits[..., k] for k in range(bits.shape[-1])), start=np.zeros(bits.shape[:-1], np.uint8)))
    else:
        ones = np.asarray(np.count_nonzero(bits, axis=-1))
    if (ones > 1).any():
        raise ValueError(f"{name} must hold at most one 1 in each vector [..., K]: the claim is for one-hot vectors")
    return bits


def counts(histogram: Any, num_messages: Any) -> tuple[Ints, Ints]:
    """A histogram [..., K] and the number of all messages [...], int64."""
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


def totals(value: Any, shape: tuple[int, ...]) -> Floats:
    """`num_messages`, a number or an array of `shape`, as float64[shape]."""
    array = reals("num_messages", value)
    if (array < 0).any() or array.shape not in ((), shape):
        raise ValueError(f"num_messages must be one number >= 0, or such numbers of shape {shape}, not {value!r}")
    return np.broadcast_to(array, shape)


def together(dims: int = 0, **arrays: Array) -> list[Array]:
    """The arrays, broadcast to a common shape; their last `dims` axes must be equal already."""
    shapes = [array.shape for array in arrays.values()]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        shape = None
    if shape is None or any(
        len(each) < dims or each[len(each) - dims :] != shape[len(shape) - dims :] for each in shapes
    ):
        raise ValueError(f"{', '.join(arrays)} must have shapes that broadcast, not {', '.join(map(str, shapes))}")
    return [np.broadcast_to(array, shape) for array in arrays.values()]


def agents(value: Any) -> tuple[int, ...]:
    """The shape of a batch of agents."""
    if not isinstance(value, tuple) or any(
        isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0 for n in value
    ):
        raise ValueError(f"shape must be a tuple of integers >= 0, not {value!r}")
    return value


def sensitivities(value: Any) -> None:
    """Check a sensitivity that does not affect the result."""
    if value is not None:
        aligned("sensitivity", value, np.empty(np.shape(value)))


def scale(bound: Array, multiplier: float) -> Array:
    """The noise scale bound * multiplier, for the sensitivity `bound`."""
    with np.errstate(over="ignore", under="ignore"):
        product = np.asarray(bound * multiplier)
    usable = (product > 0) & (product < math.inf)
    if not usable.all():
        raise ValueError(f"sensitivity must give a finite noise scale > 0, not {product[~usable][0]}")
    return product


def aligned(name: str, value: Any, x: Array) -> Array:
    """A positive `value` for each message in `x`, from a number or an array over the leading axes of x."""
    array = reals(name, numbers(name, value, "iuf"))
    if not (array > 0).all():
        raise ValueError(f"{name} must hold numbers > 0, not {array[~(array > 0)][0]}")
    array = array.reshape(array.shape + (1,) * (x.ndim - array.ndim)) if array.ndim else array
    if array.ndim > x.ndim or any(a not in (1, b) for a, b in zip(array.shape, x.shape, strict=False)):
        raise ValueError(f"{name} must be a number or follow the leading axes of x {x.shape}, not {np.shape(value)}")
    return array


def mask(where: Any, shape: tuple[int, ...]) -> Bools:
    """`where`, booleans over the leading axes of `shape`, as bool[shape]; all true for None."""
    if where is None:
        return np.ones(shape, np.bool_)
    where = np.asarray(where)
    if where.dtype != np.bool_ or where.shape != shape[: where.ndim]:
        raise ValueError(f"where must be booleans over the leading axes of {shape}, not {where.dtype}{where.shape}")
    return np.broadcast_to(where.reshape(where.shape + (1,) * (len(shape) - where.ndim)), shape)
