"""Safe reading of pickles, without running any named code or allocating more than the file holds, and of the files of
Stable-Baselines3, which contain pickles."""

import base64
import importlib
import inspect
import io
import pickle
import re
import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np

from taciturn import files
from taciturn.envs.core import Array

# The modules with the classes in policies of Stable-Baselines3 and sb3-contrib.
OWN = re.compile(
    r"(stable_baselines3|sb3_contrib)\.(\w+\.)*(policies|torch_layers|rmsprop_tf_like)|torch\.nn\.modules\.activation|torch\.optim\.\w+"
)
MOST_PARTS, MOST_NAMES = 10**5, 10**3
"""Limits on the number of parts of a value (a part that occurs in several places counts in each), and on the number of
classes and functions named in a pickle."""
MOST_DATA, MOST_FILE = 2 * 10**7, 10**9
"""Limits in bytes, for the settings of a model and for a pickle."""


class Foreign(Exception):  # noqa: N818 - named after the thing found
    """The file names an object that only its own code can make, such as a user-defined class."""


class Parts:
    """Placeholder for an object in a pickle. Its class has the name of the real class, but the real class's code is
    never called."""

    args: tuple[Any, ...] = ()
    state: Any = None

    def __init__(self, *args: Any) -> None:
        self.args = args

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __call__(self, *args: Any) -> "Parts":
        """The placeholder for the result of a call, as for a class stored by value."""
        return type(self)(*args)


class Keyed(dict[Any, Any]):
    """A dict with plain keys: hashing deeply nested tuples of identical tuples would take Python forever."""

    def __setitem__(self, key: Any, value: Any) -> None:
        if not isinstance(key, str | bytes | int | float | None):
            raise ValueError(f"keys must be text or numbers, not a {type(key).__name__}")
        super().__setitem__(key, value)


class Inert(pickle._Unpickler):
    """Reads a pickle with `Parts` in place of everything that it names.

    It uses Python's pure-Python reader, because the C reader allocates any size that a pickle announces. Sets are not
    read.
    """

    append: Any
    read: Any
    dispatch: ClassVar[dict[int, Any]] = {
        code: step
        for code, step in pickle._Unpickler.dispatch.items()
        if code not in b"".join((pickle.DICT, pickle.EMPTY_SET, pickle.ADDITEMS, pickle.FROZENSET))
    }

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self._kinds: dict[tuple[str, str], type] = {}

    def find_class(self, module: str, name: str) -> Any:
        if len(self._kinds) == MOST_NAMES:
            raise ValueError(f"it names more than {MOST_NAMES:,} classes and functions")
        made = type(name, (Parts,), {"__module__": module})
        return self._kinds.setdefault((module, name), made)

    def dictionary(self) -> None:
        """Begin a dict."""
        self.append(Keyed())

    def octets(self) -> None:
        """Read a bytearray, no longer than the remaining data."""
        (size,) = struct.unpack("<Q", self.read(8))
        self.append(bytearray(self.read(min(size, MOST_FILE))))

    dispatch |= {pickle.EMPTY_DICT[0]: dictionary, pickle.BYTEARRAY8[0]: octets}


def inert(content: bytes) -> Any:
    """The content of a pickle: Python's own values, and `Parts`. Raises the unpickler's errors if it is broken."""
    found = Inert(io.BytesIO(content)).load()
    check_size(found)
    return found


def check_size(found: Any) -> None:
    """Raise ValueError if a value has more than `MOST_PARTS` parts."""
    left: list[Iterable[Any]] = [(found,)]
    count = 0
    while left:
        for one in left.pop():
            count += 1
            if count > MOST_PARTS:
                raise ValueError(f"it has values of more than {MOST_PARTS:,} parts")
            if isinstance(one, Parts):
                left.append((one.args, one.state))
            elif isinstance(one, dict | list | tuple):
                left.append(one.values() if isinstance(one, dict) else one)


def made_policy(kind: Any, observation: Any, action: Any, known: Any, data: Any, weights: Any) -> Any:
    """A Stable-Baselines3 policy with these spaces, arguments and weights."""
    own = {"use_sde": data.get("use_sde", False), "lr_schedule": lambda _: 0.0}
    own = {name: one for name, one in own.items() if name in inspect.signature(kind).parameters}
    policy = kind(observation, action, **own | known)
    policy.load_state_dict(weights)
    return policy


class Statistics:
    """The transformation of observations by the moments float64[D] found by `VecNormalize`."""

    def __init__(self, mean: Array, scale: Array, clip: float) -> None:
        self.mean, self.scale, self.clip = mean, scale, clip

    def __call__(self, observations: Array) -> Array:
        return np.clip((observations - self.mean) / self.scale, -self.clip, self.clip).astype(np.float32)

    def undone(self, normalized: Array) -> Array:
        """The observations; NaN where they were clipped."""
        return np.where(np.abs(normalized) < self.clip, normalized, np.nan) * self.scale + self.mean


def read_normalizer(file: Path) -> Statistics | None:
    """The transformation of observations in a file written by `VecNormalize.save`; None if it leaves them unchanged.
    Raises ValueError if it is no such file."""
    try:
        found = inert(files.content(file, MOST_FILE)).state
        if not found["norm_obs"]:
            return None
        moments, clip, epsilon = found["obs_rms"].state, float(found["clip_obs"]), float(found["epsilon"])
        mean, var = (np.asarray(value(moments[name]), np.float64) for name in ("mean", "var"))
        scale = np.sqrt(var + epsilon)
        if mean.shape != var.shape or not (np.isfinite([*mean, *scale]).all() and (scale > 0).all() and clip > 0):
            raise ValueError("its moments must be finite, and its variances positive")
    except Exception as error:
        raise ValueError(f"{file} must hold the statistics of VecNormalize: {error}") from error

    return Statistics(mean, scale, clip)


def unpacked(entry: Any) -> Any:
    """An entry of `data`: JSON unchanged, or the content of a pickle."""
    if isinstance(entry, dict) and ":serialized:" in entry:
        return inert(base64.b64decode(entry[":serialized:"]))
    return entry


def value(found: Any) -> Any:
    """The object that `Parts` represent: an instance of these libraries' classes, a space, or numbers; raises Foreign
    for anything else."""
    if isinstance(found, dict):
        return {name: value(one) for name, one in found.items()}
    if isinstance(found, list | tuple):
        return type(found)(map(value, found))
    if isinstance(found, type) and issubclass(found, Parts):
        return own_class(found.__module__, found.__name__)
    if not isinstance(found, Parts):
        return found
    kind = type(found)
    # Gym's spaces, in files of Stable-Baselines3 before 2.0, have the same numbers.
    if kind.__module__.startswith(("gymnasium.spaces.", "gym.spaces.")) and kind.__name__ in SPACES:
        return SPACES[kind.__name__]({name: value(one) for name, one in found.state.items() if name in FIELDS})
    if kind.__module__.startswith("numpy") and kind.__name__ in ("_frombuffer", "_reconstruct", "scalar", "dtype"):
        return numbers(found)
    raise Foreign(f"{kind.__module__}.{kind.__name__}")


def own_class(module: str, name: str) -> type:
    """A class of these libraries; raises Foreign for any other."""
    found = getattr(importlib.import_module(module), name, None) if OWN.fullmatch(module) else None
    if not isinstance(found, type) or found.__module__ != module:
        raise Foreign(f"{module}.{name}")
    return found


def numbers(found: Parts) -> Any:
    """An array, a number or a type of NumPy."""
    kind = type(found).__name__
    if kind == "dtype":
        dtype = np.dtype(found.args[0])
        if dtype.kind not in "biuf":
            raise ValueError(f"numbers cannot be of type {dtype}")
        return dtype.newbyteorder(found.state[1]) if found.state and found.state[1] in "<>" else dtype
    if kind == "scalar":
        return np.frombuffer(found.args[1], numbers(found.args[0]))[0]
    if kind == "_frombuffer":
        raw, dtype, shape, order = found.args[:4]
    else:
        _, shape, dtype, fortran, raw = found.state
        order = "F" if fortran else "C"
    return np.frombuffer(raw, numbers(dtype)).reshape(shape, order=order)


FIELDS = ("low", "high", "n", "start", "nvec")
SPACES: dict[str, Callable[[dict[str, Any]], gymnasium.Space[Any]]] = {
    "Box": lambda state: gymnasium.spaces.Box(state["low"], state["high"], dtype=state["low"].dtype.type),
    "Discrete": lambda state: gymnasium.spaces.Discrete(int(state["n"]), start=int(state.get("start", 0))),
    "MultiDiscrete": lambda state: gymnasium.spaces.MultiDiscrete(state["nvec"], start=state.get("start")),
    "MultiBinary": lambda state: gymnasium.spaces.MultiBinary(state["n"]),
}
