"""The weights of a saved model, and a policy made of them, neither of which takes more than the file holds."""

import io
import json
import math
import sys
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from taciturn import files
from taciturn.policies.external.inert import (
    MOST_DATA,
    Foreign,
    Inert,
    Keyed,
    Parts,
    check_size,
    made_policy,
    unpacked,
    value,
)
from taciturn.validation import shown

MOST_UNPACKED = 100
"""The most that parts of a file may exceed the file in size, as a factor."""
MOST_PART, MOST_SCALARS = 2 * 10**9, 10**6
ROOMY = 4
"""How many numbers may be made for each byte of weights as a policy is built: initial values, and copies of them."""
TYPES = {
    "FloatStorage": torch.float32, "DoubleStorage": torch.float64, "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16, "LongStorage": torch.int64, "IntStorage": torch.int32,
    "ShortStorage": torch.int16, "CharStorage": torch.int8, "ByteStorage": torch.uint8, "BoolStorage": torch.bool,
}  # fmt: skip


def opened(file: Any, size: int) -> zipfile.ZipFile:
    """A zip archive of `size` bytes; ValueError if its parts say that they are far larger."""
    archive = zipfile.ZipFile(file)
    if sum(one.file_size for one in archive.infolist()) > MOST_UNPACKED * size:
        raise ValueError(f"its parts are more than {MOST_UNPACKED} times larger than the file")
    return archive


def part(archive: zipfile.ZipFile, name: str, most: int = MOST_PART) -> bytes:
    """A part of an archive; ValueError if it is not as long as it says, or longer than `most`."""
    said = archive.getinfo(name)
    if said.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or said.file_size > most:
        raise ValueError(f"its part {name} must be stored or deflated, of at most {most:,} bytes")
    with archive.open(said) as stream:
        found = stream.read(said.file_size + 1)  # `archive.read` would unpack all that there is
    if len(found) != said.file_size:
        raise ValueError(f"its part {name} is not as long as it says")
    return found


class Mapped(Parts):
    """Stands for an `OrderedDict`."""

    def __init__(self) -> None:
        self.items = Keyed()

    def __setitem__(self, key: Any, value: Any) -> None:
        self.items[key] = value


class Tensors(Inert):
    """Reads the pickle in a file of `torch.save`, with `Parts` for tensors too."""

    def find_class(self, module: str, name: str) -> Any:
        return Mapped if (module, name) == ("collections", "OrderedDict") else super().find_class(module, name)

    def persistent_load(self, pid: Any) -> Any:
        return tuple(pid)


def tensors(content: bytes) -> tuple[dict[str, Any], int]:
    """The tensors `{name: tensor}` in a file of `torch.save`, made of the bytes that are there, and their number;
    nothing in the file runs. Raises ValueError, or whatever a broken file raises."""
    with opened(io.BytesIO(content), len(content)) as archive:
        (pickled,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
        folder = pickled.removesuffix("data.pkl")
        order = f"{folder}byteorder"
        if order in archive.namelist() and part(archive, order, 10).decode() != sys.byteorder:
            raise ValueError("its weights are of a machine with another order of bytes")
        found = Tensors(io.BytesIO(part(archive, pickled))).load()
        found = found.items if isinstance(found, Mapped) else found
        if not isinstance(found, dict):
            raise ValueError("its weights are no mapping")
        check_size(found)
        storages: dict[Any, Any] = {}
        made = {str(name): tensor(one, archive, folder, storages) for name, one in found.items()}
    return made, sum(map(len, storages.values()))


def tensor(found: Any, archive: zipfile.ZipFile, folder: str, storages: dict[Any, Any]) -> Any:
    """A tensor of the numbers in its storage; ValueError if it has more, as one with strides of 0 does."""
    if not isinstance(found, Parts) or type(found).__name__ != "_rebuild_tensor_v2":
        raise ValueError("its weights are no tensors")
    (_, kind, key, _, _), start, shape, strides = found.args[:4]
    if key not in storages:
        stored = bytearray(part(archive, f"{folder}data/{key}"))
        storages[key] = torch.frombuffer(stored, dtype=torch.uint8) if stored else torch.zeros(0, dtype=torch.uint8)
    storage = storages[key].view(TYPES[kind.__name__])
    last = start + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if (
        min(start, *shape, *strides, 0) < 0
        or math.prod(shape) > len(storage)
        or (0 not in shape and last >= len(storage))
    ):
        raise ValueError("its weights are larger than what is stored of them")
    return storage.as_strided(shape, strides, start)


class Bounded(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within it, PyTorch makes no more numbers and does no more steps than a policy needs of so many tensors, with so
    many bytes; ValueError before it does."""

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


def read_policy(file: Path) -> Any:
    """The policy of a saved model of Stable-Baselines3 or sb3-contrib, rebuilt from these libraries' classes; nothing
    in the file runs.

    Raises:
        Foreign: the file names a class of neither library.
        Exception: the file is not such a model.
    """
    with files.regular(file) as given, opened(given, file.stat().st_size) as archive:
        data = json.loads(part(archive, "data", MOST_DATA))
        weights, numbers = tensors(part(archive, "policy.pth"))
    if not all(torch.isfinite(one).all() for one in weights.values()):
        raise ValueError("its weights are not finite")
    names = ("policy_class", "observation_space", "action_space", "policy_kwargs")
    kind, observation, action, known = (value(unpacked(data[name])) for name in names)
    if not isinstance(kind, type):
        raise Foreign(f"a policy class that is none of Stable-Baselines3: {shown(kind)}")
    with Bounded(len(weights), numbers):
        return made_policy(kind, observation, action, known, data, weights)
