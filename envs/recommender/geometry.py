"""The public geometry of a recommender: the binary tree of item clusters.

An item cluster (h, i), i = 1 ... 2^h, is a box. Its children (h + 1, 2i - 1) and (h + 1, 2i) halve it in dimension h
mod d at the midpoint, so its name means the same to all agents. An item's clusters are the leading bits of its
code, so sorting items by code puts the items of a cluster together.
"""

from typing import Any

DEPTH = 40  # depth of the deepest cluster
CONTEXT_BITS = 16  # precision of a context's coordinate


def item_code(item: Any) -> int:
    """The code of an item [5] in [0, 1]^5: it lies in cluster (h, i) if code >> (DEPTH - h) is i - 1."""
    code, dims = 0, len(item)
    each = DEPTH // dims
    for h in range(DEPTH):
        whole = min(int(item[h % dims] * (1 << each)), (1 << each) - 1)
        code = code << 1 | whole >> (each - 1 - h // dims) & 1
    return code
