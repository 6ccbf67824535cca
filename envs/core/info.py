"""Functions that combine the infos of several steps; infos are plain dicts."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from taciturn.validation import Array

Info = dict[str, Any]
LazyInfo = Info | Callable[[], Info]  # a function if the value is slow to compute and may never be read


def masked(info: Info, mask: Array) -> Info:
    """The same info, declared valid only in the replicas `mask` bool[B] (Gymnasium's `_key` convention)."""
    return {key: value & mask if key.startswith("_") else value for key, value in info.items()}


def overlaid(where: Array, yes: Info, no: Info) -> Info:
    """The info `yes` in the replicas `where` bool[B], and the info `no`, with the same keys, in the others."""
    return {key: picked(where, value, no[key]) for key, value in yes.items()}


def latest(first: Info, then: Info) -> Info:
    """The combined info of two consecutive steps: for each key, the latest value that has a meaning."""
    latest_info: Info = {key: picked(then[f"_{key}"], then[key], first[key]) for key in then if not key.startswith("_")}
    return latest_info | {f"_{key}": then[f"_{key}"] | first[f"_{key}"] for key in latest_info}


def copied(values: Any) -> Any:
    """Copies of the values of an info, [B, ...] or by role."""
    if isinstance(values, Mapping):
        return {role: copied(own) for role, own in values.items()}
    return values.copy()


def picked(where: Array, yes: Any, no: Any) -> Any:
    """Values of an info, [B, ...] or by role, from `yes` where `where` holds, else from `no`."""
    if isinstance(yes, Mapping):
        return {role: picked(where, values, no[role]) for role, values in yes.items()}
    return np.where(where.reshape(-1, *[1] * (yes.ndim - 1)), yes, no)
