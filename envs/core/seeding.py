"""One seed, many named streams: each source of randomness draws from its own, so that runs can share their luck."""

import zlib

import numpy as np

from taciturn.validation import integer


class Streams:
    """Independent NumPy generators, one per name, all derived from one seed.

    With the same seed a stream gives the same numbers however much the other streams are used: a run with privacy noise
    sees the same rewards as the run without.

    Args:
        seed: a non-negative integer, or None for fresh entropy (kept in `entropy`, so a run can be repeated).
        purpose: what the runs are for: "training", "selection", "evaluation", or empty for ordinary runs. The same seed
            gives other numbers for another purpose, so that nothing is judged on the run that it was learned from.
    """

    def __init__(self, seed: int | None = None, purpose: str = "") -> None:
        self._prefix = (zlib.crc32(purpose.encode()),) if purpose else ()
        self.entropy = np.random.SeedSequence(None if seed is None else integer("seed", seed, at_least=0)).entropy
        self._generators: dict[str, np.random.Generator] = {}

    def __repr__(self) -> str:
        return f"<Streams of {self.entropy}: {', '.join(self._generators) or 'none used yet'}>"

    def __getitem__(self, name: str) -> np.random.Generator:
        generator = self._generators.get(name)
        if generator is None:
            key = np.random.SeedSequence(self.entropy, spawn_key=(*self._prefix, zlib.crc32(name.encode())))
            generator = self._generators[name] = np.random.Generator(np.random.SFC64(key))
        return generator
