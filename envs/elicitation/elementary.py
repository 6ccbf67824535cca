"""Elementary functions of numbers; `of_arrays` replaces them by NumPy's for arrays.

An equation written with them, as a function of numbers, is compiled as part of an environment; `of_arrays` gives the
same function of arrays. NumPy's functions do not suit numbers, since their last digits depend on the processor.
"""

import builtins
import math
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np

from taciturn.compiling.compiled import global_names

LARGEST = 709.78  # the largest x for which e^x is finite


def exp(x: Any) -> Any:
    return math.exp(x) if x <= LARGEST else math.inf


def expm1(x: Any) -> Any:
    return math.expm1(x) if x <= LARGEST else math.inf


def where(condition: Any, x: Any, y: Any) -> Any:
    return x if condition else y


OF_ARRAYS: dict[Any, Any] = {
    exp: np.exp, expm1: np.expm1, where: np.where, max: np.maximum, min: np.minimum, math.asinh: np.arcsinh,
    math.log1p: np.log1p, math.sinh: np.sinh, math.sqrt: np.sqrt,
}  # fmt: skip


@cache
def of_arrays(function: Any) -> Any:
    """The function, and those that it calls, with NumPy's elementary functions in place of these."""
    scope: dict[str, Any] = vars(builtins) | function.__globals__
    for name in global_names(function.__code__):
        if scope[name] in OF_ARRAYS:
            scope[name] = OF_ARRAYS[scope[name]]
        elif isinstance(scope[name], FunctionType):
            scope[name] = of_arrays(scope[name])
    return FunctionType(function.__code__, scope, function.__name__)
