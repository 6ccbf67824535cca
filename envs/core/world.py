"""A world as users import it: one object that makes every interface, `round_stopping_v0.parallel_env(...)` and the like."""

from dataclasses import fields
from typing import Any, Generic, TypeVar

from taciturn.envs.core.population import Population
from taciturn.envs.core.views import AECView, ParallelView, SingleEnv, VectorView

__all__ = ["World"]

P = TypeVar("P", bound=Population[Any])


class World(Generic[P]):
    """Makes the array form of a world and the views over it; the parameters are those of the world's `Params` class."""

    def __init__(self, population: type[P]) -> None:
        self._population = population
        self.name = population.name
        self.params_type = population.params_type
        self.__doc__ = population.__doc__

    def population(self, num_envs: int = 1, **params: Any) -> P:
        """The array form: `num_envs` replicas."""
        if "max_cycles" in params:
            if "horizon" in params:
                raise ValueError("max_cycles is another name of horizon: give one of them")
            params["horizon"] = params.pop("max_cycles")
        known = [field.name for field in fields(self.params_type) if field.init]
        for name in params:
            if name not in known:
                raise ValueError(f"{self.name} has no parameter {name!r}; it has {', '.join(known)}")
        return self._population(self.params_type(**params), num_envs)

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
