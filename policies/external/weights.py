"""The weights of a saved model, and a policy built from them; neither takes more memory than the file justifies."""

import io
import json
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from taciturn import files
from taciturn.policies.external.inert import MOST_DATA, Foreign, made_policy, unpacked, value
from taciturn.validation import shown

MOST_UNPACKED = 100
"""Largest ratio of the unpacked size of a file's parts to the size of the file."""
MOST_PART, MOST_SCALARS = 2 * 10**9, 10**6
VERSION = "_stable_baselines3_version"
ROOMY = 4
"""Most numbers that building a policy may create per byte of weights: initial values, and copies of them."""


def opened(file: Any, size: int) -> zipfile.ZipFile:
    """A zip archive of `size` bytes; ValueError if the declared sizes of its parts are far larger."""
    archive = zipfile.ZipFile(file)
    if sum(one.file_size for one in archive.infolist()) > MOST_UNPACKED * size:
        raise ValueError(f"its parts are more than {MOST_UNPACKED} times larger than the file")
    return archive


def part(archive: zipfile.ZipFile, name: str, most: int = MOST_PART) -> bytes:
    """A part of an archive; ValueError if its length is not the declared one, or exceeds `most`."""
    said = archive.getinfo(name)
    if said.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or said.file_size > most:
        raise ValueError(f"its part {name} must be stored or deflated, of at most {most:,} bytes")
    with archive.open(said) as stream:
        found = stream.read(said.file_size + 1)  # `archive.read` would unpack everything
    if len(found) != said.file_size:
        raise ValueError(f"its part {name} is not as long as it says")
    return found


def tensors(content: bytes) -> tuple[dict[str, Any], int]:
    """The tensors `{name: tensor}` in a file of `torch.save`, and the number of bytes that store them; nothing in the
    file runs. Raises ValueError, or the unpickler's errors if the file is broken."""
    opened(io.BytesIO(content), len(content)).close()
    found = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    if not isinstance(found, dict) or not all(isinstance(one, torch.Tensor) for one in found.values()):
        raise ValueError("its weights are no tensors by name")
    stored = {name: one.untyped_storage() for name, one in found.items()}
    # For instance a tensor with strides of 0.
    if any(one.numel() * one.element_size() > stored[name].nbytes() for name, one in found.items()):
        raise ValueError("its weights are larger than the stored data")
    return found, sum({one.data_ptr(): one.nbytes() for one in stored.values()}.values())


class Bounded(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Context in which PyTorch makes no more numbers and steps than a policy needs with this number of tensors and
    bytes; raises ValueError before it does."""

    def __init__(self, tensors: int, size: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.numbers, self.steps = MOST_SCALARS + ROOMY * size, 10_000 + 100 * tensors

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.steps -= 1
        if func.overloadpacket.__name__.removeprefix("new_").startswith(("empty", "zeros", "ones", "full", "rand")):
            sizes = next((one for one in args if isinstance(one, list | tuple)), ())
            self.numbers -= math.prod(sizes)
        if self.steps < 0 or self.numbers < 0:
            raise ValueError("its layers are larger than its weights")
        return func(*args, **kwargs or {})


def read_policy(file: Path) -> tuple[Any, Any]:
    """The policy of a saved Stable-Baselines3 or sb3-contrib model, rebuilt from these libraries' classes, and the last
    observations of its training [..., D] or None; nothing in the file runs.

    Raises:
        Foreign: the file names a class of neither library.
        Exception: the file is not such a model.
    """
    with files.regular(file) as given, opened(given, file.stat().st_size) as archive:
        data = json.loads(part(archive, "data", MOST_DATA))
        weights, numbers = tensors(part(archive, "policy.pth"))
        version = part(archive, VERSION, 100).decode() if VERSION in archive.namelist() else ""
    if not all(torch.isfinite(one).all() for one in weights.values()):
        raise ValueError("its weights are not finite")
    names = ("policy_class", "observation_space", "action_space", "policy_kwargs")
    kind, observation, action, known = (value(unpacked(data[name])) for name in names)
    if not isinstance(kind, type):
        raise Foreign(f"a policy class that is none of Stable-Baselines3: {shown(kind)}")
    last = value(unpacked(data.get("_last_obs")))
    if last is not None and np.shape(last)[1:] != observation.shape:
        raise ValueError(f"its last observations are not in {observation}")
    try:
        with Bounded(len(weights), numbers):
            return made_policy(kind, observation, action, known, data, weights), last
    except Exception as error:
        if version[:2] not in ("0.", "1."):
            raise
        told = f"version {shown(version)[1:-1]} has saved it, with layers that 2.0 does not have: train it again"
        raise ValueError(f"{told} ({error})") from error
