"""Elementary functions of numbers, under the names that NumPy has for arrays.

An equation that is written with them, as a function of numbers, is compiled as part of a world; `of_arrays` gives the
same function of arrays. NumPy's own functions would not do for numbers: their last digits depend on the processor.
"""

import math
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np

# A function's own name must not occur in it (`taciturn.envs.core.compiled.uses`).
of_exp, of_expm1, of_log1p, of_sqrt, of_sinh, of_asinh = (
    math.exp, math.expm1, math.log1p, math.sqrt, math.sinh, math.asinh,
)  # fmt: skip
LARGEST = 709.78  # the largest x for which e^x is finite


def exp(x: Any) -> Any:
    return of_exp(x) if x <= LARGEST else math.inf


def expm1(x: Any) -> Any:
    return of_expm1(x) if x <= LARGEST else math.inf


def log1p(x: Any) -> Any:
    return of_log1p(x)


def sqrt(x: Any) -> Any:
    return of_sqrt(x)


def sinh(x: Any) -> Any:
    return of_sinh(x)


def arcsinh(x: Any) -> Any:
    return of_asinh(x)


def maximum(x: Any, y: Any) -> Any:
    return max(x, y)


def minimum(x: Any, y: Any) -> Any:
    return min(x, y)


def where(condition: Any, x: Any, y: Any) -> Any:
    return x if condition else y


@cache
def of_arrays(function: Any) -> Any:
    """The function, and those that it calls, with NumPy's elementary functions in place of these."""
    found: dict[str, Any] = {}
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, FunctionType):
            found[name] = getattr(np, name) if value.__module__ == __name__ else of_arrays(value)
    return FunctionType(function.__code__, function.__globals__ | found, function.__name__)
