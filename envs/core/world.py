"""A world as users import it: one object that makes every interface, `round_stopping_v0.parallel_env(...)` and the like."""

from dataclasses import fields
from typing import Any, Generic, TypeVar

from taciturn.envs.core.population import Population
from taciturn.envs.core.views import AECView, ParallelView, SingleEnv, VectorView
from taciturn.validation import plain, shown

__all__ = ["UnknownParameter", "World"]

P = TypeVar("P", bound=Population[Any])
Q = TypeVar("Q")


class UnknownParameter(TypeError, ValueError):  # noqa: N818 - it names what went wrong
    """A world was given a parameter that it does not have. Libraries that probe constructors look for a TypeError."""


class World(Generic[P, Q]):
    """Makes the array form of a world and the views over it.

    Args:
        population: the world's Population.
        params: the class of its parameters, `Params` from now on: `world.population(params=world.Params(...))` is what
            `world.population(...)` with the same keywords is, and editors complete it.
    """

    def __init__(self, population: type[P], params: type[Q]) -> None:
        self._population = population
        self.name = population.name
        self.Params = params
        self.__doc__ = population.__doc__

    def population(self, num_envs: int = 1, params: Q | None = None, **parameters: Any) -> P:
        """The array form: `num_envs` replicas, with the parameters given one by one or together.

        `max_cycles`, as PettingZoo calls it, is the horizon where the world's clock counts steps.

        Raises:
            UnknownParameter: a parameter that the world does not have.
            ValueError: one out of range, or given twice.
        """
        if params is None:
            params = self.Params(**self._named(parameters))
        elif not isinstance(params, self.Params):
            raise ValueError(f"params must be parameters of {self.name}, not {shown(params)}")
        elif parameters:
            raise ValueError(f"parameters must be given one by one or as params, not both: {', '.join(parameters)}")
        return self._population(params, num_envs)

    def _named(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """The parameters by their own names."""
        aliases, unit = dict(self._population.aliases), self._population.clock_unit
        if unit == "step":
            aliases["max_cycles"] = "horizon"
        elif "max_cycles" in parameters:
            raise ValueError(
                f"max_cycles counts steps, which {self.name} does not: give its horizon, in the unit of its clock ({unit})"
            )
        known = [field.name for field in fields(self.Params) if field.init]  # type: ignore[arg-type]
        named: dict[str, Any] = {}
        for given, value in parameters.items():
            name = aliases.get(given, given)
            if name not in known:
                raise UnknownParameter(
                    f"{self.name} got an unexpected keyword argument {given!r}: it has {', '.join(known)}"
                )
            if name in named:
                raise ValueError(
                    f"{' and '.join(g for g in parameters if aliases.get(g, g) == name)} name the same: give one of them"
                )
            named[name] = plain(value)
        return named

    def parallel_env(self, render_mode: str | None = None, **params: Any) -> ParallelView:
        """PettingZoo's Parallel form."""
        return ParallelView(self.population(**params), render_mode)

    def env(self, render_mode: str | None = None, **params: Any) -> AECView:
        """PettingZoo's AEC form."""
        return AECView(self.population(**params), render_mode)

    def single_env(self, render_mode: str | None = None, **params: Any) -> SingleEnv:
        """Gymnasium's form, for worlds of one agent."""
        return SingleEnv(self.population(**params), render_mode)

    def vector_env(
        self, num_envs: int = 1, autoreset_mode: Any = "NextStep", render_mode: str | None = None, **params: Any
    ) -> VectorView:
        """Gymnasium's vector form, for worlds of one agent."""
        return VectorView(self.population(num_envs, **params), autoreset_mode, render_mode)

    def __repr__(self) -> str:
        return f"<world {self.name}>"
