"""The public geometry of a recommender: the binary tree of item clusters, and the cells of the context space.

An item cluster (h, i), i = 1 ... 2^h, is a box. Its children (h + 1, 2i - 1) and (h + 1, 2i) halve it in dimension h
mod d at the midpoint, so that its name means the same to all agents. An item's clusters are the leading bits of its
code, and items sorted by code lie together.
"""

from typing import Any

import numpy as np

from taciturn.validation import Array, Ints

DEPTH = 40  # of the deepest cluster
CONTEXT_BITS = 16  # a coordinate of a context is read to this precision
MOST_CODE_BITS = 62  # a cell's name fits into an int64


def item_code(item: Any) -> int:
    """The code of an item [5] in [0, 1]^5: it lies in cluster (h, i) if code >> (DEPTH - h) is i - 1."""
    code, dims = 0, len(item)
    each = DEPTH // dims
    for h in range(DEPTH):
        whole = min(int(item[h % dims] * (1 << each)), (1 << each) - 1)
        code = code << 1 | whole >> (each - 1 - h // dims) & 1
    return code


def grid(contexts: Array) -> Ints:
    """Contexts [..., d] as whole numbers of steps of 2^-CONTEXT_BITS, int64[..., d]."""
    return np.minimum((contexts * 2.0**CONTEXT_BITS).astype(np.int64), 2**CONTEXT_BITS - 1)


def deepest_level(dims: int, bisect: bool) -> int:
    """The level from which cells are not split further."""
    return min(CONTEXT_BITS * dims, MOST_CODE_BITS) if bisect else min(CONTEXT_BITS, MOST_CODE_BITS // dims)


def digit_of(steps: Any, level: int, bisect: bool) -> int:
    """The sub-cell, within its cell of that level, of a context in `steps` [d].

    A cell is halved in every dimension, or, if `bisect`, in dimension level mod d.
    """
    dims, found = len(steps), 0
    if bisect:
        return int(steps[level % dims]) >> (CONTEXT_BITS - 1 - level // dims) & 1
    for i in range(dims):
        found |= (int(steps[i]) >> (CONTEXT_BITS - 1 - level) & 1) << i
    return found
