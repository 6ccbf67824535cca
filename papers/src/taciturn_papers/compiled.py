"""Functions that Numba compiles at their first call."""

import functools
from collections.abc import Callable
from typing import Any

from taciturn.current_folder import numba


@functools.cache
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, compiled by Numba and cached on disk."""
    result: Callable[..., Any] = numba().njit(function, cache=True)
    return result
