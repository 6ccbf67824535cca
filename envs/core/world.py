"""An environment as users import it: one object that makes every interface, such as
`round_stopping_v0.parallel_env(...)`."""

from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any, Generic, ParamSpec, TypeVar

from taciturn.envs.core.level_choice import with_level_choice
from taciturn.envs.core.population import Population
from taciturn.envs.core.views import AECView, ParallelView, SingleEnv, VectorView
from taciturn.validation import plain, shown, unknown_parameter

P = TypeVar("P", bound=Population[Any])
Q = TypeVar("Q")
K = ParamSpec("K")


class World(Generic[P, Q, K]):
    """Makes the array API of an environment and the views of it. Editors complete the parameters of all of them.

    Args:
        population: the environment's Population class.
        params: the class of its parameters, available as `Params`:
            `world.population(params=world.Params(...))` is the same as `world.population(...)` with these keywords.
    """

    def __init__(self, population: type[P], params: Callable[K, Q]) -> None:
        self._population = population
        self.name = population.name
        self.Params = params
        self.__doc__ = population.__doc__

    def population(
        self,
        num_envs: int = 1,
        params: Q | None = None,
        max_cycles: int | None = None,
        *args: K.args,
        **parameters: K.kwargs,
    ) -> P:
        """The array API: `num_envs` replicas, with parameters given as keywords or together as `params`.

        `max_cycles`, PettingZoo's name, sets the horizon if the environment's clock counts steps.

        Raises:
            UnknownParameter: the environment has no such parameter.
            ValueError: a parameter is out of range or given twice.
        """
        given: dict[str, Any] = ({} if max_cycles is None else {"max_cycles": max_cycles}) | parameters
        make: Any = self.Params
        if params is None:
            params = make(*args, **self._named(given))
        elif not isinstance(params, make):
            raise ValueError(f"params must be parameters of {self.name}, not {shown(params)}")
        elif given:
            raise ValueError(f"parameters must be given one by one or as params, not both: {', '.join(given)}")
        made: P = with_level_choice(self._population(params, num_envs))
        return made

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters."""
        params: Any = self.Params
        return tuple(field.name for field in fields(params) if field.init)

    def check_names(self, given: Iterable[str], more: Iterable[str] = ()) -> None:
        """Raise `UnknownParameter` unless all names `given` are parameters; the error also lists `more`, names that the
        caller accepts.

        `max_cycles` raises a ValueError where the environment's clock does not count steps.
        """
        for name in given:
            if name == "max_cycles" and name not in self._aliases:
                raise ValueError(
                    f"max_cycles counts steps, which {self.name} does not: give its horizon, in the unit of its clock "
                    f"({self._population.clock_unit})"
                )
            if self._aliases.get(name, name) not in self.parameters:
                raise unknown_parameter(self.name, name, (*more, *self.parameters))

    @property
    def _aliases(self) -> dict[str, str]:
        counts_steps = self._population.clock_unit == "step"
        return dict(self._population.aliases) | ({"max_cycles": "horizon"} if counts_steps else {})

    def _named(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """The parameters with aliases resolved."""
        self.check_names(parameters)
        aliases, named = self._aliases, {}
        for given, value in parameters.items():
            name = aliases.get(given, given)
            if name in named:
                raise ValueError(
                    f"{' and '.join(g for g in parameters if aliases.get(g, g) == name)} name the same: give one of "
                    "them"
                )
            named[name] = plain(value)
        return named

    def parallel_env(
        self,
        render_mode: str | None = None,
        params: Q | None = None,
        max_cycles: int | None = None,
        *args: K.args,
        **parameters: K.kwargs,
    ) -> ParallelView:
        """The PettingZoo Parallel API."""
        return ParallelView(self.population(1, params, max_cycles, *args, **parameters), render_mode)

    def env(
        self,
        render_mode: str | None = None,
        params: Q | None = None,
        max_cycles: int | None = None,
        *args: K.args,
        **parameters: K.kwargs,
    ) -> AECView:
        """The PettingZoo AEC API."""
        return AECView(self.population(1, params, max_cycles, *args, **parameters), render_mode)

    def single_env(
        self,
        render_mode: str | None = None,
        params: Q | None = None,
        max_cycles: int | None = None,
        *args: K.args,
        **parameters: K.kwargs,
    ) -> SingleEnv:
        """The Gymnasium API, for one-agent environments."""
        return SingleEnv(self.population(1, params, max_cycles, *args, **parameters), render_mode)

    def vector_env(
        self,
        num_envs: int = 1,
        autoreset_mode: Any = "NextStep",
        render_mode: str | None = None,
        params: Q | None = None,
        max_cycles: int | None = None,
        *args: K.args,
        **parameters: K.kwargs,
    ) -> VectorView:
        """The Gymnasium vector API, for one-agent environments."""
        return VectorView(
            self.population(num_envs, params, max_cycles, *args, **parameters), autoreset_mode, render_mode
        )

    def __repr__(self) -> str:
        return f"<world {self.name}>"
