"""The info of a step: computed only if somebody reads it, as most loops never do, and what is made of several of them."""

from collections.abc import Callable, Mapping, Set
from typing import Any

import numpy as np

from taciturn.validation import Array

__all__ = ["Info", "LazyInfo", "latest", "masked", "overlaid", "picked"]

Info = dict[str, Any]


class LazyInfo(dict[str, Any]):
    """A dict whose entries are computed when it is first read or changed.

    Args:
        entries: makes them, all at once. What it looks at must not change later, and it draws no random number.
        keys: theirs, if they are known, so that asking for another one computes nothing.

    Copies and pickles are plain dicts.
    """

    __slots__ = ("_entries", "_keys")

    def __init__(self, entries: Callable[[], Info], keys: Set[str] | None = None) -> None:
        self._entries: Callable[[], Info] | None = entries
        self._keys = keys
        # Not empty even before: json writes a dict of size 0 without asking for its items.
        dict.__setitem__(self, "not computed", None)

    def get(self, key: str, default: Any = None) -> Any:
        """As of a dict."""
        if self._entries is not None and self._keys is not None and key not in self._keys:
            return default
        _fill(self)
        return super().get(key, default)

    def copy(self) -> Info:
        """A plain dict."""
        return dict(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return dict, (dict(self),)


def _fill(info: LazyInfo) -> None:
    """Compute the entries, unless that was done."""
    if info._entries is not None:
        entries = info._entries()
        info._entries = None
        dict.clear(info)
        dict.update(info, entries)


def _reading(name: str) -> Callable[..., Any]:
    plain = getattr(dict, name)

    def read(self: LazyInfo, *args: Any, **named: Any) -> Any:
        for info in (self, *args):
            if isinstance(info, LazyInfo):
                _fill(info)
        return plain(self, *args, **named)

    read.__name__ = name
    return read


for _name in (
    "__contains__", "__delitem__", "__eq__", "__getitem__", "__ior__", "__iter__", "__len__", "__ne__", "__or__", "__repr__",
    "__reversed__", "__ror__", "__setitem__", "clear", "items", "keys", "pop", "popitem", "setdefault", "update", "values",
):  # fmt: skip
    setattr(LazyInfo, _name, _reading(_name))


def masked(info: Info, mask: Array) -> Info:
    """The same info, declared valid only in the replicas where `mask` bool[B] is true (Gymnasium's `_key` convention)."""
    return {key: value & mask if key.startswith("_") else value for key, value in info.items()}


def overlaid(where: Array, yes: Info, no: Info) -> Info:
    """The info `yes` in the replicas that `where` bool[B] marks and the info `no`, of the same keys, in the others."""
    return {key: picked(where, value, no[key]) for key, value in yes.items()}


def latest(first: Info, then: Info) -> Info:
    """What two steps in a row tell together: of each key the later value that has a meaning."""
    told: Info = {key: picked(then[f"_{key}"], then[key], first[key]) for key in then if not key.startswith("_")}
    return told | {f"_{key}": then[f"_{key}"] | first[f"_{key}"] for key in told}


def picked(where: Array, yes: Any, no: Any) -> Any:
    """Values of an info, [B, ...] or by role, from `yes` or `no`."""
    if isinstance(yes, Mapping):
        return {role: picked(where, values, no[role]) for role, values in yes.items()}
    return np.where(where.reshape(-1, *[1] * (yes.ndim - 1)), yes, no)
