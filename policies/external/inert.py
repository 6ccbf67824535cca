"""Reading pickles without running anything that they name, and Stable-Baselines3's files, which contain pickles."""

import base64
import importlib
import inspect
import io
import json
import pickle
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from taciturn.envs.core import Array

# The modules with the classes that policies of Stable-Baselines3 and sb3-contrib are made of.
OWN = re.compile(
    r"(stable_baselines3|sb3_contrib)\.(\w+\.)*(policies|torch_layers|rmsprop_tf_like)|torch\.nn\.modules\.activation|torch\.optim\.\w+"
)
MOST_UNPACKED = 100
"""The most that parts of a file may exceed the file in size, as a factor."""


class Foreign(Exception):  # noqa: N818 - it names what was found
    """The file names something that only its own code can make, such as a class of the user's own."""


class Parts:
    """Stands for an object that a pickle describes. Its class has the name of the real class, whose code is never
    called."""

    args: tuple[Any, ...] = ()
    state: Any = None

    def __init__(self, *args: Any) -> None:
        self.args = args

    def __setstate__(self, state: Any) -> None:
        self.state = state


class Inert(pickle.Unpickler):
    """Reads a pickle with `Parts` in place of everything that it names."""

    def find_class(self, module: str, name: str) -> Any:
        return type(name, (Parts,), {"__module__": module})


def inert(content: bytes) -> Any:
    """What a pickle holds: Python's own values, and `Parts`. Raises whatever a broken pickle raises."""
    return Inert(io.BytesIO(content)).load()


def read_policy(file: Path) -> Any:
    """The policy of a saved model of Stable-Baselines3 or sb3-contrib, rebuilt from these libraries' classes; nothing
    in the file runs.

    Raises:
        Foreign: the file names a class of neither library.
        Exception: the file is not such a model.
    """
    import torch

    with zipfile.ZipFile(file) as archive:
        if sum(one.file_size for one in archive.infolist()) > MOST_UNPACKED * file.stat().st_size:
            raise ValueError(f"its parts are more than {MOST_UNPACKED} times larger than the file")
        data = json.loads(archive.read("data"))
        weights = torch.load(io.BytesIO(archive.read("policy.pth")), map_location="cpu", weights_only=True)
    if not all(torch.isfinite(one).all() for one in weights.values()):
        raise ValueError("its weights are not finite")
    names = ("policy_class", "observation_space", "action_space", "policy_kwargs")
    kind, observation, action, known = (value(unpacked(data[name])) for name in names)
    if not isinstance(kind, type):
        raise Foreign(f"a policy class that is none of Stable-Baselines3: {kind!r}")
    # Checked before anything of that size is made.
    largest = max((size for one in weights.values() for size in one.shape), default=0)
    if any(size > max(largest, 1) for size in sizes([known, *observation.shape, getattr(action, "n", 0)])):
        raise ValueError("its layers are larger than its weights")
    return made_policy(kind, observation, action, known, data, weights)


def made_policy(kind: Any, observation: Any, action: Any, known: Any, data: Any, weights: Any) -> Any:
    """A policy of Stable-Baselines3 of these spaces, arguments and weights."""
    own = {"use_sde": data.get("use_sde", False), "lr_schedule": lambda _: 0.0}
    own = {name: one for name, one in own.items() if name in inspect.signature(kind).parameters}
    policy = kind(observation, action, **own | known)
    policy.load_state_dict(weights)
    return policy


def read_normalizer(file: Path) -> Callable[[Array], Array]:
    """The transformation of observations in a file of `VecNormalize.save`. Raises ValueError if there is none."""
    try:
        found = inert(file.read_bytes()).state
        moments, clip, epsilon = found["obs_rms"].state, float(found["clip_obs"]), float(found["epsilon"])
        mean, var = (np.asarray(value(moments[name]), np.float64) for name in ("mean", "var"))
        scale = np.sqrt(var + epsilon)
        if mean.shape != var.shape or not (np.isfinite([*mean, *scale]).all() and (scale > 0).all() and clip > 0):
            raise ValueError("its moments must be finite, and its variances positive")
    except Exception as error:
        raise ValueError(f"{file} must hold the statistics of VecNormalize: {error}") from error

    def normalize(observations: Array) -> Array:
        return np.clip((observations - mean) / scale, -clip, clip).astype(np.float32)

    return normalize if found["norm_obs"] else lambda observations: observations


def unpacked(entry: Any) -> Any:
    """An entry of `data`: JSON as it is, or the content of a pickle."""
    if isinstance(entry, dict) and ":serialized:" in entry:
        return inert(base64.b64decode(entry[":serialized:"]))
    return entry


def value(found: Any) -> Any:
    """The object that `Parts` stand for: of a class of these libraries, a space, or numbers; raises Foreign for
    anything else."""
    if isinstance(found, dict):
        return {name: value(one) for name, one in found.items()}
    if isinstance(found, list | tuple):
        return type(found)(map(value, found))
    if isinstance(found, type) and issubclass(found, Parts):
        return own_class(found.__module__, found.__name__)
    if not isinstance(found, Parts):
        return found
    kind = type(found)
    if kind.__module__.startswith("gymnasium.spaces.") and kind.__name__ in SPACES:
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
    "Discrete": lambda state: gymnasium.spaces.Discrete(int(state["n"]), start=int(state["start"])),
    "MultiDiscrete": lambda state: gymnasium.spaces.MultiDiscrete(state["nvec"], start=state["start"]),
    "MultiBinary": lambda state: gymnasium.spaces.MultiBinary(state["n"]),
}


def sizes(found: Any) -> Iterator[int]:
    """All whole numbers in nested lists and dicts."""
    if isinstance(found, dict | list | tuple):
        for one in found.values() if isinstance(found, dict) else found:
            yield from sizes(one)
    elif isinstance(found, int | np.integer) and not isinstance(found, bool):
        yield int(found)
