"""One seed, many named streams: each source of randomness has its own, so runs can share random numbers."""

import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from taciturn.validation import integer

VERSION = 3
"""Version of the numbers that a seed gives. Since 2, noise differs between configurations, and since 3 some
environments draw other numbers (`Descriptor.drawn_since`)."""
NOISE_SINCE = 2
CONFIGURED = set[str]()
"""The names of the streams of noise that this process has drawn from."""


class Streams:
    """Independent NumPy generators, one per name, all derived from one seed.

    With the same seed a stream gives the same numbers however much the other streams are used: a run with privacy noise
    sees the same rewards as the run without.

    Args:
        seed: a non-negative integer, or None for fresh entropy (stored in `entropy`, so a run can be repeated).
        purpose: the purpose of the runs: "training", "selection", "evaluation", or empty for ordinary runs. The same
            seed gives other numbers for another purpose, so no policy is evaluated on the runs that it learned from.
    """

    def __init__(self, seed: int | None = None, purpose: str = "") -> None:
        self._purpose = purpose
        self.entropy = np.random.SeedSequence(None if seed is None else integer("seed", seed, at_least=0)).entropy
        self._generators: dict[tuple[str, str], np.random.Generator] = {}

    def __repr__(self) -> str:
        return f"<Streams of {self.entropy}: {', '.join(name for name, _ in self._generators) or 'none used yet'}>"

    def __getitem__(self, name: str) -> np.random.Generator:
        return self.noise(name, "")

    def noise(self, name: str, configuration: str) -> np.random.Generator:
        """The stream of that name in one `configuration` (`described`).

        It is for noise: if two levels of noise used the same numbers, subtracting their messages for one seed would
        reveal the data.
        """
        generator = self._generators.get((name, configuration))
        if generator is None:
            key = spawned(self.entropy, self._purpose, name, configuration)
            generator = self._generators[name, configuration] = np.random.Generator(np.random.SFC64(key))
        return generator


def spawned(entropy: Any, purpose: str, name: str, configuration: str = "") -> np.random.SeedSequence:
    """The seeds of the stream `name` of runs for a purpose, in one configuration."""
    key = [zlib.crc32(one.encode()) for one in ([purpose] if purpose else []) + [name]]
    if configuration:
        CONFIGURED.add(name)
        key += np.frombuffer(hashlib.sha256(configuration.encode()).digest()[:16], "<u4").tolist()
    return np.random.SeedSequence(entropy, spawn_key=key)


def described(value: Any) -> str:
    """A value as text, the same in every process; numbers are exact.

    For objects that are not dataclasses and have an address in their `repr`, only public numbers and strings count.
    """
    if isinstance(value, bool | int | float | np.number | np.bool_):
        return float(value).hex()
    if isinstance(value, np.ndarray):
        numbers = value.astype(np.float64) if value.dtype.kind in "biuf" else np.zeros(0)
        return f"{value.shape}{hashlib.sha256(numbers.tobytes()).hexdigest()}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(described, value))}]"
    if isinstance(value, set | frozenset | Mapping):
        parts = value.items() if isinstance(value, Mapping) else value
        return f"{{{', '.join(sorted(map(described, parts)))}}}"
    kind = getattr(value, "__qualname__", type(value).__qualname__)
    if is_dataclass(value) and not isinstance(value, type):
        return kind + described([getattr(value, field.name) for field in fields(value)])
    if " at 0x" not in repr(value):
        return f"{kind} {value!r}"
    known = vars(value) if hasattr(value, "__dict__") else {}
    plain = {k: v for k, v in known.items() if isinstance(v, bool | int | float | str) and not k.startswith("_")}
    return kind + described(plain)
