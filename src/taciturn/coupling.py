"""Random numbers that depend as little as possible on other rows, for playing a policy again
(`taciturn.centralisation`)."""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

STEADY = frozenset({
    "random", "uniform", "normal", "standard_normal", "exponential", "standard_exponential", "gumbel", "laplace",
    "logistic", "rayleigh", "weibull", "beta", "binomial", "poisson", "choice",
    "permutation", "permuted", "shuffle",
})  # fmt: skip
"""Methods of a generator that draw the same number of random numbers for all parameters."""


class Coupled(np.random.Generator):
    """A generator with numbers for one row that depend as little as possible on other rows; it records whether they may
    depend on them.

    Each call of a policy begins at its own place in the stream. If the number of draws for a variate depends on a
    parameter, the variate is made by inversion from one uniform number instead.

    Attributes:
        drawn: the call, method and shape of each draw; without a shape if it may not determine the number of draws.
    """

    def __init__(self, bits: Any) -> None:
        super().__init__(bits)
        self.call, self.drawn = [0], list[tuple[int, str, Any]]()

    def __getattribute__(self, name: str) -> Any:
        result = super().__getattribute__(name)
        if name.startswith("_") or name not in PUBLIC:
            return result

        def draw(*given: Any, **named: Any) -> Any:
            values = result(*given, **named)
            plain = name in STEADY or (name == "integers" and not any(map(np.ndim, given[:2])))
            self.drawn.append((self.call[0], name, np.shape(values) if plain else None))
            return values

        return draw

    def spawn(self, n_children: int) -> Any:
        result: Any = super().spawn(n_children)
        for child in result:
            child.call, child.drawn = self.call, self.drawn
        return result

    def drew_alike(self, other: "Coupled", calls: int) -> bool:
        """Whether both generators have drawn the same numbers in the same shapes in all calls up to `calls`."""
        ours, theirs = ([one for one in rng.drawn if one[0] <= calls] for rng in (self, other))
        return ours == theirs and all(shape is not None for *_, shape in ours)

    def at(self, call: int) -> None:
        """Go to the place of a call of the policy."""
        self.call[0] = call
        state: Any = self.bit_generator.state
        state["state"]["counter"] = np.array([0, 0, call, 0], np.uint64)
        state["buffer_pos"], state["has_uint32"] = 4, 0
        self.bit_generator.state = state

    def _uniform(self, size: Any, *parameters: Any) -> Any:
        return self.random(np.broadcast_shapes(*map(np.shape, parameters)) if size is None else size)

    def beta(self, a: Any, b: Any, size: Any = None) -> Any:
        from scipy.special import betaincinv

        return betaincinv(a, b, self._uniform(size, a, b))

    def binomial(self, n: Any, p: Any, size: Any = None) -> Any:
        from scipy.stats import binom

        return binom.ppf(self._uniform(size, n, p), n, p).astype(np.int64)

    def poisson(self, lam: Any = 1.0, size: Any = None) -> Any:
        from scipy.stats import poisson

        return poisson.ppf(self._uniform(size, lam), lam).astype(np.int64)


PUBLIC = frozenset(name for name in vars(np.random.Generator) if not name.startswith("_")) - {"bit_generator", "spawn"}


def generator(seed: int) -> Coupled:
    return Coupled(np.random.Philox(np.random.SeedSequence(seed)))


def seed_process(seed: int) -> None:
    """Seed the generators of the whole process, for policies that draw from them."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - policies may draw from it
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(seed)


@contextmanager
def numpy_draws_from(rng: Coupled) -> Iterator[None]:
    """Within this context, NumPy's drawing functions use `rng`, and so do the generators that it makes."""
    from unittest import mock  # it imports asyncio

    others: dict[str, Any] = {
        "rand": lambda *shape: rng.random(shape),
        "randn": lambda *shape: rng.standard_normal(shape),
        "randint": lambda low, high=None, size=None, dtype=np.int64: rng.integers(low, high, size, dtype),
        **dict.fromkeys(("random_sample", "ranf", "sample"), lambda size=None: rng.random(size)),
        "seed": lambda seed=None: None,
        "default_rng": lambda seed=None: rng.spawn(1)[0],
    }
    same: dict[str, Any] = {name: partial(_draw, rng, name) for name in PUBLIC if hasattr(np.random, name)}
    with mock.patch.multiple(np.random, **same, **others):
        yield


def _draw(rng: Coupled, name: str, *given: Any, **named: Any) -> Any:
    return getattr(rng, name)(*given, **named)


def process_numbers() -> Any:
    """The state of the process's generators."""
    torch = sys.modules.get("torch")
    return random.getstate(), np.random.get_state(), None if torch is None else torch.get_rng_state().numpy()  # noqa: NPY002


def lend(policy: Any, rng: Coupled) -> None:
    """Replace a policy's generators by the check's."""
    for name in _generators_of(policy):
        setattr(policy, name, rng)


def _generators_of(policy: Any) -> dict[str, np.random.Generator]:
    return {name: one for name, one in getattr(policy, "__dict__", {}).items() if isinstance(one, np.random.Generator)}


@contextmanager
def numbers_stored(policy: Any) -> Iterator[None]:
    """Restore the generators, so later runs draw the same numbers as without the check."""
    before, own = process_numbers(), _generators_of(policy)
    try:
        yield
    finally:
        for name, one in own.items():
            setattr(policy, name, one)
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        if before[2] is not None:
            torch = sys.modules["torch"]
            torch.set_rng_state(torch.from_numpy(before[2]))
