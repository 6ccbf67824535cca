"""Populations around a population: what they pass on to the inner one."""

from abc import abstractmethod
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Self

from taciturn.envs.core.channel_config import ChannelConfig
from taciturn.envs.core.population import Population


def _asked(method: str) -> Any:
    """A method that calls the inner population's."""

    def ask(self: "Around", *args: Any, **named: Any) -> Any:
        return getattr(self.inner, method)(*args, **named)

    return ask


class Around(Population[Any]):
    """Base of the populations around a population, whose channels, state and random numbers are the inner one's.

    Attributes:
        inner: the whole world.
    """

    def __init__(self, population: Population[Any]) -> None:
        self.inner, kept = population, (population.purpose, population.pictured)
        super().__init__(population.params, population.num_envs)
        self.purpose, self.pictured = kept
        self.channels, self.hidden = population.channels, population.hidden
        self.channel_configs = population.channel_configs

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.channels = self.inner.channels  # a copy of the inner population has channels of its own

    @property
    def purpose(self) -> str:
        """See `Population`; all random numbers are the inner population's."""
        return self.inner.purpose

    @purpose.setter
    def purpose(self, value: str) -> None:
        self.inner.purpose = value

    @property
    def pictured(self) -> bool:
        """See `Population`."""
        return self.inner.pictured

    @pictured.setter
    def pictured(self, value: bool) -> None:
        self.inner.pictured = value

    @abstractmethod
    def around(self, inner: Population[Any], duplicate: Callable[[Any], Any]) -> Self:
        """The same around another population, with copies of the policies that play in it."""

    def practice(self, num_envs: int, kind: Any = None, **changes: Any) -> Self:
        """See `PublicView.practice`; copies of the policies play the others."""
        return self.around(self.inner.practice(num_envs, kind, **changes), deepcopy)

    def check_channel(self, channel: str, config: ChannelConfig) -> None:
        self.inner.check_channel(channel, config)

    def fix_spaces(self) -> None:
        super().fix_spaces()
        self.inner.fix_spaces()

    def _keep_up(self) -> None:
        """Take over the state of the inner population."""
        inner = self.inner
        self._state, self.terminated, self.truncated, self.ledger = (
            inner._begun(),
            inner.terminated,
            inner.truncated,
            inner.ledger,
        )

    @property
    def state(self) -> Any:
        """The inner population's."""
        self._begun()
        return self.inner.state

    look, _begin_state = map(_asked, ("look", "_begin_state"))
    acting, action_mask, stream, clock = map(_asked, ("acting", "action_mask", "stream", "clock"))
    measures, outcome, public, empty_info = map(_asked, ("measures", "outcome", "public", "empty_info"))
    describe, draw = map(_asked, ("describe", "draw"))
