"""Agents that only map observations to actions: each agent of each replica is a row."""

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal

import gymnasium
import numpy as np

from taciturn.envs.core import Array, PublicView
from taciturn.envs.core.roles import Role
from taciturn.policies.base import Policy
from taciturn.policies.learned.training import one_thread
from taciturn.validation import shown


class RowPolicy(Policy):
    """Base of the policies that treat rows as separate environments, such as a network shared by all agents.

    Args:
        spaces: the observation and action spaces that the agent was made for; None if unknown.

    Raises:
        ValueError: at reset, if the role to play has other spaces.
    """

    def __init__(self, spaces: tuple[gymnasium.Space[Any], gymnasium.Space[Any]] | None = None) -> None:
        self._spaces = spaces

    def begin(self, view: PublicView) -> None:
        role = view.roles[self.role]
        if self._spaces is not None and not self.fits(role):
            theirs = (role.layout.space(), role.action_space)
            ours, there = (f"{observation} and {action}" for observation, action in (self._spaces, theirs))
            raise ValueError(
                f"policy must have the spaces of role {self.role!r} of {view.world.name!r}, which observes and acts in "
                f"{there}; it was made for {ours}"
            )
        self._space = role.action_space
        self._acting, self._agents = partial(view.acting, self.role), role.num_agents

    def fits(self, role: Role) -> bool:
        """Whether a role has the spaces that the agent was made for."""
        return self._spaces is None or all(map(alike, self._spaces, (role.layout.space(), role.action_space)))

    def places(self) -> Array | None:
        """The position of each row's agent among all agents of all replicas, int64[R]; None if the rows are all of
        them, in order.

        Where agents act one at a time, as in the gossip bandit, a row does not always belong to the same agent, so
        memories must follow the agents.
        """
        acting = self._acting()
        return None if acting is None else (np.arange(len(acting))[:, None] * self._agents + acting).ravel()

    def choose(self, rows: Array, masks: Array | None) -> Array:
        """Actions [R, ...] for observations float32[R, D]; `masks` int8[R, n], if the environment has masks, marks
        actions with an effect."""
        raise NotImplementedError

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        rows = obs.reshape(-1, obs.shape[-1])
        found = np.asarray(self.choose(rows, None if mask is None else mask.reshape(len(rows), -1)))
        wanted = (len(rows), *(self._space.shape or ()))
        if found.size != np.prod(wanted):
            raise ValueError(f"policy must give actions of shape {wanted}, one for each row, not {found.shape}")
        return found.reshape(*obs.shape[:2], *wanted[1:])


def alike(ours: gymnasium.Space[Any], theirs: gymnasium.Space[Any]) -> bool:
    """Whether an agent made for one space can act in the other: observations may differ in their bounds but not in
    their size."""
    if isinstance(ours, gymnasium.spaces.Box) and isinstance(theirs, gymnasium.spaces.Box):
        return bool(ours.shape == theirs.shape)
    return bool(ours == theirs)


class RowFunction(RowPolicy):
    """A function from observations [R, D] to actions [R, ...]; if it requires two arguments, the second is the masks
    [R, n] or None."""

    def __init__(
        self, function: Callable[..., Any], spaces: tuple[gymnasium.Space[Any], gymnasium.Space[Any]] | None = None
    ) -> None:
        super().__init__(spaces)
        self.function = function
        self.observes = getattr(function, "observes", "")
        self._masked = len(required(function)) > 1

    def __repr__(self) -> str:
        name = getattr(self.function, "__qualname__", repr(self.function))
        return f"{type(self).__name__}({name})"

    def choose(self, rows: Array, masks: Array | None) -> Array:
        try:
            found: Array = self.function(rows, masks) if self._masked else self.function(rows)
        except ValueError:
            raise
        except Exception as error:
            raise ValueError(
                f"policy must be a function from observations [R, D] to actions [R, ...], and {self!r} raises "
                f"{shown(error)}"
            ) from error
        return found


class Predictor(RowPolicy):
    """Anything with Stable-Baselines3's `predict`: its models and policies, including recurrent and masked ones.

    A recurrent model has a state for each agent: arrays [layers, R, ...], or [R, ...] if they have fewer than three
    dimensions.

    Args:
        model: has `predict(observation, state=..., episode_start=..., deterministic=..., action_masks=...)`, or with
            fewer arguments.
        deterministic: whether to ask for its best action instead of a random one.
        seeded: whether its PyTorch random numbers follow the seed of the run instead of PyTorch's own state.
        normalize: a function applied to observations first; None: the statistics of the model's training, if it has
            any; False: no function, even if it was trained with one.

    Raises:
        ValueError: the model was trained on transformed observations, such as normalised ones, and no transformation is
            available.
    """

    def __init__(
        self,
        model: Any,
        *,
        deterministic: bool = True,
        seeded: bool = True,
        normalize: Callable[[Array], Any] | Literal[False] | None = None,
    ) -> None:
        spaces = tuple(getattr(model, name, None) for name in ("observation_space", "action_space"))
        super().__init__(spaces if all(isinstance(one, gymnasium.Space) for one in spaces) else None)  # type: ignore[arg-type]
        self.model, self.deterministic, self.seeded = model, deterministic, seeded
        statistics = getattr(model, "get_vec_normalize_env", lambda: None)()
        if normalize is None:
            normalize = getattr(statistics, "normalize_obs", None)
            if statistics is None and not plain(spaces[0], getattr(model, "_last_obs", None)):
                raise ValueError(
                    "policy must come with the statistics of its training, vecnormalize.pkl in the folder of "
                    "model.zip or normalize=, because it was trained on normalised or otherwise changed observations "
                    "(normalize=False: play it without)"
                )
        self._normalize = normalize or None
        self._takes = named(model.predict)

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        self._state: Any = None
        self._fresh = np.ones(view.num_envs * self._agents, np.bool_)  # agents that have not acted yet
        self._luck: Any = None if self.deterministic or not self.seeded else int(self.rng.integers(2**31))

    def restart(self, where: Array) -> None:
        self._fresh |= np.repeat(where, self._agents)

    def choose(self, rows: Array, masks: Array | None) -> Array:
        places = self.places()
        here = slice(None) if places is None else places
        state = self._state
        if places is not None and state is not None:
            state = each(lambda x: rows_of(rows_of(x)[places]), state)
        given = {"state": state, "episode_start": self._fresh[here].copy(), "deterministic": self.deterministic}
        if masks is not None:
            given["action_masks"] = masks.astype(np.bool_)
        if self._normalize is not None:
            rows = self._normalize(rows)
        with one_thread(), self._drawing():
            found = self.model.predict(rows, **{name: value for name, value in given.items() if name in self._takes})
        self._fresh[here] = False
        if isinstance(found, tuple):
            found, after = found
            self._keep(after, places)
        return np.asarray(found)

    @contextmanager
    def _drawing(self) -> Iterator[None]:
        """Context in which PyTorch's random numbers follow the seed of the run."""
        torch = sys.modules.get("torch")
        if torch is None or self._luck is None:
            yield
            return
        before = torch.get_rng_state()
        if isinstance(self._luck, int):
            torch.manual_seed(self._luck)
        else:
            torch.set_rng_state(self._luck)
        try:
            yield
        finally:
            self._luck = torch.get_rng_state()
            torch.set_rng_state(before)

    def _keep(self, state: Any, places: Array | None) -> None:
        """Store the new state of the agents of these rows."""
        if places is None or state is None:
            self._state = state
            return
        if self._state is None:
            self._state = each(lambda x: rows_of(np.zeros((self._fresh.size, *rows_of(x).shape[1:]), x.dtype)), state)

        def put(kept: Array, new: Array) -> None:
            rows_of(kept)[places] = rows_of(new)

        each(put, self._state, state)


def plain(space: Any, last: Any) -> bool:
    """Whether a model can have been trained on an environment's own observations: their space is bounded in every
    environment, and the last observations of its training [..., D], if stored, lie in it."""
    if not isinstance(space, gymnasium.spaces.Box):
        return True
    return space.is_bounded() and (last is None or within(space, last))


def within(space: gymnasium.spaces.Box, observations: Any, slack: float = 0.0) -> bool:
    """Whether observations [..., D] lie in a space enlarged by `slack` of its size on either side; NaN does."""
    room = slack * (space.high - space.low)
    return not ((observations < space.low - room) | (observations > space.high + room)).any()


def rows_of(state: Array) -> Array:
    """A view of a recurrent model's state array with rows first, [R, ...]; the function is its own inverse."""
    return np.swapaxes(state, 0, 1) if state.ndim > 2 else state


def each(function: Callable[..., Any], *states: Any) -> Any:
    """A function of the arrays in tuples."""
    if isinstance(states[0], tuple | list):
        return tuple(each(function, *some) for some in zip(*states, strict=True))
    return function(*map(np.asarray, states))


def required(function: Callable[..., Any]) -> list[str]:
    """The names of a function's required positional arguments; empty if it has no signature."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [one.name for one in parameters if one.kind in positional and one.default is one.empty]


def named(function: Callable[..., Any]) -> frozenset[str]:
    """The names of all arguments of a function."""
    return frozenset(inspect.signature(function).parameters)
