"""Shared parts of trainings: threads, failures, seeds, and the mean of their last weights."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from taciturn.envs.core import Array, Streams
from taciturn.validation import Floats, shown


@contextmanager
def one_thread() -> Iterator[None]:
    """Run PyTorch, if it is in use, on one thread: faster for small networks, and the result does not depend on the
    number of threads."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def fit(model: Any, steps: int, **arguments: Any) -> None:
    """`model.learn` of Stable-Baselines3 on one thread, and without its logger, which leaves an empty folder for each
    training."""
    from stable_baselines3.common.logger import Logger

    model.set_logger(Logger(None, []))
    with one_thread(), learning(type(model).__name__, model.policy.state_dict):
        model.learn(steps, **arguments)


@contextmanager
def learning(name: str, weights: Callable[[], Mapping[str, Any]]) -> Iterator[None]:
    """Raise ValueError if a learner diverges: instead of PyTorch's errors, or if weights are not finite."""
    import torch

    told = f"{name} cannot learn with these settings (is its learning rate too large?)"
    try:
        yield
    except (ArithmeticError, RuntimeError, ValueError) as error:
        raise ValueError(f"{told}: {shown(error)}") from error
    if not all(torch.isfinite(one).all() for one in weights().values()):
        raise ValueError(f"{told}: its weights are not finite")


def library_seed(seed: int) -> int:
    """The seed of the libraries' own random numbers (the network's first weights, its exploration) in a training with
    `seed`."""
    return int(Streams(seed, "training")["library"].integers(2**31))


class FadingMean:
    """The mean of a training's last weights `{name: array}`, which fluctuates less than the weights themselves.

    Args:
        memory: share of a training, > 0, after which the weight of a term falls by the factor 1/e.
    """

    def __init__(self, memory: float) -> None:
        self._sums, self._count, self._memory, self._done = dict[str, Floats](), 0.0, memory, 0.0

    def add(self, weights: Mapping[str, Array], done: float) -> dict[str, Floats]:
        """The mean with these weights, when a share `done` of the training is over."""
        keep, self._done = float(np.exp((self._done - done) / self._memory)), done
        self._count = keep * self._count + 1.0
        self._sums = {name: keep * self._sums.get(name, 0.0) + one for name, one in weights.items()}
        return {name: total / self._count for name, total in self._sums.items()}
