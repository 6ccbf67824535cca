"""The public geometry of a recommender: the binary tree of item clusters.

An item cluster (h, i), i = 1 ... 2^h, is a box. Its children (h + 1, 2i - 1) and (h + 1, 2i) halve it in dimension h
mod d at the midpoint, so its name means the same to all agents. An item's clusters are the leading bits of its
code, and items sorted by code lie together.
"""

from typing import Any

DEPTH = 40  # of the deepest cluster
CONTEXT_BITS = 16  # a coordinate of a context is read to this precision


def item_code(item: Any) -> int:
    """The code of an item [5] in [0, 1]^5: it lies in cluster (h, i) if code >> (DEPTH - h) is i - 1."""
    code, dims = 0, len(item)
    each = DEPTH // dims
    for h in range(DEPTH):
        whole = min(int(item[h % dims] * (1 << each)), (1 << each) - 1)
        code = code << 1 | whole >> (each - 1 - h // dims) & 1
    return code
