"""Copies of states: frozen dataclasses of arrays that lead with [B]."""

from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np

from taciturn.validation import Array

S = TypeVar("S")


def updated(state: S, **changes: Any) -> S:
    """A copy of a state in which these fields have other values. (`dataclasses.replace` takes several times as
    long.)"""
    known: dict[str, Any] = vars(state)
    if not changes.keys() <= known.keys():
        raise TypeError(f"{type(state).__name__} has no field {', '.join(sorted(changes.keys() - known.keys()))}")
    copied = object.__new__(type(state))
    vars(copied).update(known, **changes)
    return copied


def select(mask: Array, yes: S, no: S) -> S:
    """The state `yes` in the replicas that `mask` bool[B] marks and the state `no` in the others; neither is
    changed."""
    picked: dict[str, Any] = {}
    for field in fields(yes):  # type: ignore[arg-type]
        a, b = getattr(yes, field.name), getattr(no, field.name)
        picked[field.name] = a if a is b else np.where(mask.reshape(-1, *[1] * (a.ndim - 1)), a, b)
    return replace(yes, **picked)  # type: ignore[type-var]
