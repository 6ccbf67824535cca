"""Base of populations that wrap another population and delegate to it."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from copy import deepcopy
from operator import add
from typing import Any, Self

import numpy as np

from taciturn.envs.core.info import Info
from taciturn.envs.core.population import Population, SingleStep
from taciturn.validation import Array


def _asked(method: str) -> Any:
    """A method that calls the same method of the inner population."""

    def ask(self: "Around", *args: Any, **named: Any) -> Any:
        return getattr(self.inner, method)(*args, **named)

    ask.__name__ = method  # by which a bound method is pickled
    return ask


def _inners(name: str) -> Any:
    """A property that returns the same attribute of the inner population."""
    return property(lambda self: getattr(self.inner, name), lambda self, value: setattr(self.inner, name, value))


class Around(Population[Any]):
    """Base of populations that wrap another one; channels, state and random numbers are those that `inner` has.

    Attributes:
        inner: the wrapped population.
    """

    channels, channel_configs, accountant, hidden = map(
        _inners, ("channels", "channel_configs", "accountant", "hidden")
    )
    terminated, truncated, purpose = map(_inners, ("terminated", "truncated", "purpose"))
    pictured, info_per_agent = map(_inners, ("pictured", "info_per_agent"))
    streams, some_act, _state, _fixed_spaces = map(_inners, ("streams", "some_act", "_state", "_fixed_spaces"))
    look, acting, action_mask, column = map(_asked, ("look", "acting", "action_mask", "column"))
    stream, clock, fix_spaces, check_channel = map(_asked, ("stream", "clock", "fix_spaces", "check_channel"))
    measures, outcome, public, empty_info = map(_asked, ("measures", "outcome", "public", "empty_info"))
    describe, draw, make_accountant = map(_asked, ("describe", "draw", "make_accountant"))

    def __init__(self, population: Population[Any]) -> None:
        self.inner = population
        self._unknown: set[str] = set()
        super().__init__(population.params, population.num_envs)

    @abstractmethod
    def around(self, inner: Population[Any], duplicate: Callable[[Any], Any]) -> Self:
        """The same wrapper around another population, with copies of the policies that play in it."""

    def practice(self, num_envs: int, kind: Any = None, **changes: Any) -> Self:
        """See `PublicView.practice`; copies of the policies play the other roles."""
        return self.around(self.inner.practice(num_envs, kind, **changes), deepcopy)

    @property
    def state(self) -> Any:
        """The state of the inner population."""
        self._require_reset()
        return self.inner.state

    def reset_one(
        self, seed: int | None, options: Mapping[str, Any] | None, everyone: bool = False
    ) -> tuple[dict[str, Array], Info]:
        observation, info = self.reset(seed=seed, options=options)
        return self._seen_in_one(observation, everyone), self._info_of_one(info)

    def step_one(self, actions: Mapping[str, Any], everyone: bool = False) -> SingleStep:
        # Check all actions first: an error in a later turn would come after the state has changed.
        given = {role: self.roles[role].check(rows, (1, len(rows)), each=True) for role, rows in actions.items()}
        only = next(iter(self.roles)) if len(self.roles) == 1 else None
        info: Info = {}
        paid: dict[str, list[float]] = {}
        unknown: set[str] | None = None
        while given and (unknown is None or not self.done[0]):
            now = {role: given.pop(role) for role in self.turn if role in given}
            step = self.step(now if only is None else now[only])
            for role, (values,) in ({only: step.reward} if only else step.reward).items():
                paid[role] = [*map(add, paid[role], values.tolist())] if role in paid else values.tolist()
            latest_info = self._info_of_one(step.info)
            info |= latest_info if unknown is None else {key: latest_info[key] for key in unknown}
            unknown = self._unknown if unknown is None else unknown & self._unknown
        ends = bool(step.terminated[0]), bool(step.truncated[0])
        return self._seen_in_one(step.observation, everyone), paid, *ends, info

    def no_meaning(self) -> set[str]:
        return self._unknown

    def _seen_in_one(self, observation: Any, everyone: bool) -> dict[str, Array]:
        """Observations by role, without the replica axis."""
        seen = {}
        for role, rows in ({next(iter(self.roles)): observation} if len(self.roles) == 1 else observation).items():
            whole = everyone and self.acting(role) is not None
            seen[role] = (self.look(role, np.arange(self.roles[role].num_agents)[None]) if whole else rows)[0]
        return seen

    def _info_of_one(self, info: Info) -> Info:
        """An info without masks and without the replica axis; notes which keys have no meaning."""
        self._unknown = {key for key in info if key[0] != "_" and not info[f"_{key}"][0]}
        plain: Info = {}
        for key, value in info.items():
            if isinstance(value, Mapping):
                plain[key] = {role: own[0] for role, own in value.items()}
            elif key[0] != "_":
                plain[key] = value.item() if value.ndim == 1 else value[0].copy()
        return plain
