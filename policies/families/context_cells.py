"""The cells of the context space, as used by policies of the recommender."""

from typing import Any

import numpy as np

from taciturn.envs.recommender.geometry import CONTEXT_BITS
from taciturn.validation import Array, Ints

MOST_CODE_BITS = 62  # a cell's name fits into an int64


def grid(contexts: Array) -> Ints:
    """Contexts [..., d] as whole numbers of steps of 2^-CONTEXT_BITS, int64[..., d]."""
    return np.minimum((contexts * 2.0**CONTEXT_BITS).astype(np.int64), 2**CONTEXT_BITS - 1)


def deepest_level(dims: int, bisect: bool) -> int:
    """The level at which cells are not split further."""
    return min(CONTEXT_BITS * dims, MOST_CODE_BITS) if bisect else min(CONTEXT_BITS, MOST_CODE_BITS // dims)


def digit_of(steps: Any, level: int, bisect: bool) -> int:
    """The sub-cell, within its cell at that level, that contains a context in `steps` [d].

    A cell is halved in every dimension, or, if `bisect`, in dimension level mod d.
    """
    dims, result = len(steps), 0
    if bisect:
        return int(steps[level % dims]) >> (CONTEXT_BITS - 1 - level // dims) & 1
    for i in range(dims):
        result |= (int(steps[i]) >> (CONTEXT_BITS - 1 - level) & 1) << i
    return result
