"""Training of learners: options sorted by rank, rewards, practice worlds, tables, and threads."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

from taciturn.envs.core import Array, Functions, Layout, Population, PublicView, Streams, uniform
from taciturn.envs.social_bandit.dissemination import SOURCES
from taciturn.envs.social_bandit.world import SocialBandit, flat_plan, plan
from taciturn.policies.base import Learner
from taciturn.validation import Floats, Ints, missing_extra, shown

PAY = len(SOURCES)  # the source of the rewards of `ImmediateReward`


class Ranking:
    """Sorts options by rank, so that a learner cannot learn the index of the best option by heart.

    The options of each agent are sorted by the first of `fields` in descending order, ties at random.

    Args:
        layout: layout of the observations.
        fields: fields of the observation with one number per option.
        space: of the actions; None: plans.

    An action is a plan whose first number is the option, or, if flat, 4 option + (0 to 3); option K, none, stays K. If
    there are 2 K actions, they are the options and then the options with a request. Actions of other spaces do not name
    options, and stay unchanged.
    """

    def __init__(self, layout: Layout, fields: tuple[str, ...], space: Any = None) -> None:
        for name in fields:
            if name not in layout.slices:
                raise ValueError(
                    f"options must be fields of the observation ({', '.join(layout.slices)}), not {name!r}"
                )
        self._parts = [layout.slices[name] for name in fields]
        options, count = layout.fields[fields[0]][0], getattr(space, "n", None)
        self._requests = count == 2 * options
        self._plans = space is None or hasattr(space, "nvec") or count == 4 * (options + 1)
        self._order = np.zeros((0, 0), np.int64)

    def observation(self, obs: Array, rng: np.random.Generator) -> Array:
        """Observations [rows, D] with sorted options; the order is kept for `action`."""
        first = obs[:, self._parts[0]]
        order = np.lexsort((rng.random(first.shape), -first), axis=-1)
        ranked = obs.copy()
        for part in self._parts:
            ranked[:, part] = np.take_along_axis(obs[:, part], order, 1)
        self._order = np.concatenate([order, np.full((len(obs), 1), order.shape[1])], 1)
        return ranked

    def action(self, action: Array) -> Array:
        """Actions [rows, ...] with ranks replaced by the world's indices, in the order of the last observation."""
        if self._requests:
            asks, rank = np.divmod(action, self._order.shape[1] - 1)
            return asks * (self._order.shape[1] - 1) + np.take_along_axis(self._order, rank[:, None], 1)[:, 0]
        if not self._plans:
            return action
        if action.ndim == 1:
            rank, rest = np.divmod(action, 4)
            return 4 * np.take_along_axis(self._order, rank[:, None], 1)[:, 0] + rest
        return np.concatenate([np.take_along_axis(self._order, action[:, :1], 1), action[:, 1:]], 1)

    def mask(self, mask: Array) -> Array:
        """The mask [rows, n] of actions by rank, from the mask of the world's actions, in the order of the last
        observation."""
        if self._requests:
            ranked = np.take_along_axis(mask.reshape(len(mask), 2, -1), self._order[:, None, :-1], 2)
        elif not self._plans:
            return mask
        else:
            ranked = np.take_along_axis(mask.reshape(len(mask), -1, 4), self._order[:, :, None], 1)
        return ranked.reshape(mask.shape)


class ImmediateReward(SocialBandit):
    """The social bandit with a reward at the end of the round: a fresh signal of the option that the agent now holds.

    Agents without an option receive the mean reward of those with one. The reward thus evaluates a decision at once,
    and its mean over agents has expectation Q . eta, as in equation 1 of Tao et al. Under the world's own reward, which
    pays for holding an option, agents learn to adopt whatever they try, and popularity then carries no information.
    """

    sources: ClassVar[tuple[str, ...]] = (*SOURCES, "pay")

    @property
    def functions(self) -> Functions:
        return super().functions._replace(act=flat_plan_and_pay if self.params.flat_actions else plan_and_pay)


def plan_and_pay(state: Any, arrays: Any, actions: Any, params: Any, rng: Any) -> None:
    """`plan`, and the rewards of `ImmediateReward`."""
    plan(state, arrays, actions, params, rng)
    pay(arrays, rng)


def flat_plan_and_pay(state: Any, arrays: Any, actions: Any, params: Any, rng: Any) -> None:
    """`flat_plan`, and the rewards of `ImmediateReward`."""
    flat_plan(state, arrays, actions, params, rng)
    pay(arrays, rng)


def pay(arrays: Any, rng: Any) -> None:
    """Pay each agent a fresh signal of its option, or the mean over those that hold one."""
    options, total, holders = len(arrays.qualities), 0.0, 0
    for i in range(len(arrays.preference)):
        if arrays.preference[i] < options:
            arrays.reward[i] = uniform(rng, PAY) < arrays.qualities[arrays.preference[i]]
            total += arrays.reward[i]
            holders += 1
    for i in range(len(arrays.preference)):
        if arrays.preference[i] >= options:
            arrays.reward[i] = total / max(holders, 1)


def practice(view: PublicView, num_envs: int, overrides: dict[str, Any]) -> Population[Any]:
    """`PublicView.practice`, with `ImmediateReward` in place of `SocialBandit`."""
    return view.practice(num_envs, ImmediateReward if view.world is SocialBandit else None, **overrides)


def has_individual_params(params: Any) -> bool:
    """Whether some parameter refers to individual agents, so that their number cannot change."""
    return getattr(params, "graph", "complete") != "complete" or not isinstance(
        getattr(params, "initial_preferences", ""), str
    )


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


class ModelLearner(Learner):
    """Base of the learners with a model of Stable-Baselines3; only its network is saved."""

    _model: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_model": None if self._model is None else Network(self._model.policy)}


class Network:
    """The part of a model that is kept after training."""

    def __init__(self, policy: Any) -> None:
        self.policy, self.observation_space, self.action_space = policy, policy.observation_space, policy.action_space

    def predict(self, *args: Any, **named: Any) -> Any:
        """See `predict` of Stable-Baselines3."""
        return self.policy.predict(*args, **named)


@contextmanager
def needs_stable_baselines(policy: Any) -> Iterator[None]:
    """Turn an ImportError into one that says what to install for the class of `policy`."""
    try:
        yield
    except ImportError as error:
        raise missing_extra(f"{type(policy).__name__} needs stable-baselines3", "rl") from error


def library_seed(seed: int) -> int:
    """The seed of the libraries' own random numbers (the network's first weights, its exploration) in a training with
    `seed`."""
    return int(Streams(seed, "training")["library"].integers(2**31))


class FadingMean:
    """The mean of a training's last weights `{name: array}`, which wander less than each of them.

    Args:
        memory: share of a training, > 0, after which weights count 1/e of what they did.
    """

    def __init__(self, memory: float) -> None:
        self._sums, self._count, self._memory, self._done = dict[str, Floats](), 0.0, memory, 0.0

    def add(self, weights: Mapping[str, Array], done: float) -> dict[str, Floats]:
        """The mean with these weights, when a share `done` of the training is over."""
        keep, self._done = float(np.exp((self._done - done) / self._memory)), done
        self._count = keep * self._count + 1.0
        self._sums = {name: keep * self._sums.get(name, 0.0) + one for name, one in weights.items()}
        return {name: total / self._count for name, total in self._sums.items()}


def update_table(values: Floats, visits: Floats, where: tuple[Ints, ...], targets: Floats) -> None:
    """Move each value at `where` towards the mean of its `targets`, at a rate that falls with its number of visits."""
    cells = np.ravel_multi_index(where, values.shape).ravel()
    flat, seen = values.reshape(-1), visits.reshape(-1)
    count = np.bincount(cells, minlength=flat.size)
    error = np.bincount(cells, targets.ravel() - flat[cells], minlength=flat.size)
    some = count > 0
    seen[some] += count[some]
    flat[some] += error[some] / count[some] * np.minimum(1.0, count[some] / seen[some] ** 0.8)
