"""Trained agents as files of numbers: `agent.safetensors` in a training's folder, and the agents shipped with the
package."""

import json
import math
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from taciturn.files import content
from taciturn.policies.base import Policy
from taciturn.policies.learned.agents import NetworkAgent
from taciturn.policies.learned.plans import EvolvedPlan, EvolvedSchedule
from taciturn.policies.learned.scores import SocialScore
from taciturn.validation import Array, shown

MOST_BYTES = 10**7
AGENTS: dict[str, type[Policy]] = {
    kind.__name__: kind for kind in (NetworkAgent, SocialScore, EvolvedPlan, EvolvedSchedule)
}
FILE = "agent.safetensors"
TYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8")}
WEIGHTS = "weights"


def saved_agent(agent: Policy, **about: Any) -> bytes:
    """A trained agent in the format safetensors: its weights, and as metadata its class, its other parameters, and the
    facts `about` its training."""
    given: Any = agent
    names = [name for name in type(agent).__init__.__code__.co_varnames[1:] if name in vars(given)]
    own = {name: getattr(given, name) for name in names if name != WEIGHTS}
    header: dict[str, Any] = {
        "__metadata__": {
            "agent": type(agent).__name__, "parameters": json.dumps(own), "training": json.dumps(about)
        }
    }  # fmt: skip
    kinds, parts, end = {kind: name for name, kind in TYPES.items()}, list[bytes](), 0
    weights = given.weights if isinstance(given.weights, dict) else {"": given.weights}
    for name, array in weights.items():
        data = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        header[f"{WEIGHTS}.{name}"] = {
            "dtype": kinds[data.dtype], "shape": list(data.shape), "data_offsets": [end, end + data.nbytes]
        }  # fmt: skip
        parts.append(data.tobytes())
        end += data.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # numbers begin at a multiple of 8
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def read(file: Path) -> tuple[dict[str, str], dict[str, Array]]:
    """The metadata and the arrays of a safetensors file. Raises ValueError and the like if it is not one."""
    data = content(file, MOST_BYTES)
    begins = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begins])
    metadata, arrays = dict(header.pop("__metadata__")), dict[str, Array]()
    for name, one in header.items():
        start, end = one["data_offsets"]
        kind, shape = TYPES[one["dtype"]], [int(size) for size in one["shape"]]
        if not 0 <= start <= end <= len(data) - begins or min(shape, default=0) < 0:
            raise ValueError(f"{name} lies outside the file")
        if end - start != math.prod(shape) * kind.itemsize:
            raise ValueError(f"{name} has another number of bytes than its shape {shape}")
        arrays[name] = np.frombuffer(data, kind, math.prod(shape), begins + start).reshape(shape).copy()
    return metadata, arrays


def load_agent(file: Path, **parameters: Any) -> Policy:
    """The agent of a file written by `saved_agent`, with given parameters in place of the stored ones.

    Raises:
        ValueError: the file is not of this form.
    """
    try:
        about, arrays = read(file)
        kind, own = AGENTS[about["agent"]], dict(json.loads(about["parameters"]))
        weights: Any = {name.removeprefix(f"{WEIGHTS}."): one for name, one in arrays.items()}
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"{file} must be the agent of a training, and is not: {shown(error)}") from error
    return kind(**own | {WEIGHTS: weights.get("", weights)} | parameters)


def training_of(file: Path) -> dict[str, Any]:
    """The facts about the training in a file of `saved_agent`: its task, seed, steps and settings."""
    about: dict[str, Any] = json.loads(read(file)[0]["training"])
    return about


def pretrained_files() -> dict[str, Path]:
    """`{name: file}` of the trained agents shipped with the package."""
    folder = Path(str(files("taciturn.policies.learned"))) / "pretrained"
    return {file.stem: file for file in sorted(folder.glob("*.safetensors"))}


@cache
def pretrained_agents() -> dict[str, dict[str, Any]]:
    """`{name: {"task", "budget", "seed"}}` of these agents; without a privacy budget it is "none"."""
    found = {}
    for name, file in pretrained_files().items():
        about = training_of(file)
        task, _, budget = about["task"].partition("@")
        found[name] = {"task": task, "budget": budget or "none", "seed": about["seed"]}
    return found


def pretrained_for(task: str, seed: int) -> str | None:
    """The name of the pretrained agent for the task with that id, such as "taciturn/SocialBandit-v0/standard@3", and
    training seed; None if there is none."""
    rows = pretrained_agents().items()
    names = (name for name, one in rows if training_of(pretrained_files()[name])["task"] == task)
    return next((name for name in names if pretrained_agents()[name]["seed"] == seed), None)


def load_pretrained(name: str, **parameters: Any) -> Policy:
    """A trained agent shipped with the package; it learns nothing more.

    Raises:
        ValueError: no agent has that name.
    """
    known = pretrained_files()
    if name not in known:
        raise ValueError(f"policy pretrained:NAME must name one of {', '.join(known)}, not {shown(name)}")
    return load_agent(known[name], **parameters)
