"""Steps, their infos, and measures of a run."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from taciturn.envs.core.info import Info, LazyInfo, copied, picked
from taciturn.validation import Array, shown, some


class Step:
    """The result of `Population.step`; with several roles, observation and reward are dicts by role.

    It unpacks and indexes as (observation, reward, terminated, truncated, info). The info is a plain dict, computed
    on first read; most array loops never read it.
    """

    __slots__ = ("__weakref__", "_lazy_info", "observation", "reward", "terminated", "truncated")

    def __init__(self, observation: Any, reward: Any, terminated: Array, truncated: Array, lazy_info: LazyInfo) -> None:
        self.observation, self.reward, self.terminated, self.truncated = observation, reward, terminated, truncated
        self._lazy_info = lazy_info

    @property
    def info(self) -> Info:
        if callable(self._lazy_info):
            self._lazy_info = self._lazy_info()
        return self._lazy_info

    def __getitem__(self, place: int) -> Any:
        return getattr(self, ("observation", "reward", "terminated", "truncated", "info")[place])

    def __iter__(self) -> Iterator[Any]:
        return map(self.__getitem__, range(5))

    def __reduce__(self) -> Any:
        return Step, tuple(self)


def check_room(population: Any, out: Any) -> None:
    """Raise ValueError unless the agents that act after this turn can observe into `out`."""
    if out is None:
        return
    turns = population.turns or (tuple(population.roles),)
    following = turns[(population._turn + 1) % len(turns)]
    role = population.roles[following[0]]
    shape = population.num_envs, population.rows(role.name), role.layout.size
    fits = isinstance(out, np.ndarray) and out.shape == shape and out.dtype == np.float32
    if len(following) > 1 or not fits or not (out.flags.c_contiguous and out.flags.writeable):
        given = f"{out.dtype}{list(out.shape)}" if isinstance(out, np.ndarray) else shown(out)
        raise ValueError(
            f"out must be a contiguous array float32{list(shape)}, the observations of one role, not {given}"
        )


def filled(out: Array | None, observation: Any) -> Any:
    """An observation, in `out` if that is given."""
    if out is None:
        return observation
    for rows in observation.values() if isinstance(observation, Mapping) else [observation]:
        out[...] = rows
    return dict.fromkeys(observation, out) if isinstance(observation, Mapping) else out


def full_info(population: Any, lazy_info: Callable[[], Info], live: Array) -> Info:
    """The environment's info plus messages and epsilon spent, with all keys and masks; masks are false outside `live`
    bool[B]."""
    world, everywhere, info, masks = lazy_info(), bool(live.all()), {}, {}
    for key, none in population._without_meaning.items():
        if key not in world:
            info[key], masks[f"_{key}"] = copied(none), np.zeros_like(live)
            continue
        mask = world.get(f"_{key}", live)
        mask = mask if mask is live else mask & live
        info[key] = world[key] if mask is live and everywhere else picked(mask, world[key], none)
        masks[f"_{key}"] = mask
    spent = {key: value.copy() for key, value in population._spent_so_far().items()}
    return info | spent | masks | {f"_{key}": live for key in spent}


def without_meaning(population: Any) -> Info:
    """The values of `empty_info` for all replicas: [B], [B, K], or `{role: [B, N]}`."""
    replicas, result = population.num_envs, dict[str, Any]()
    for key, value in population.empty_info().items():
        if isinstance(value, Mapping):
            agents = {role: population.roles[role].num_agents for role in value}
            result[key] = {role: np.full((replicas, agents[role]), one) for role, one in value.items()}
        else:
            result[key] = np.broadcast_to(value, (replicas, *np.shape(value)))
    return result


def measured(population: Any, name: Any) -> Array:
    """See `Population.measure`."""
    known, channels = population.measures(), list(population.channels.values())
    if channels:
        spent = ("messages", "epsilon_message", "epsilon_basic", "epsilon_zcdp")
        known = {name: lambda name=name: population.spending(("basic", "zcdp"))[name] for name in spent} | known
        if len({channel.sender for channel in channels}) == 1:
            own = {"agent_messages": lambda: messages_of(population), "agent_epsilon": lambda: epsilon_of(population)}
            known = own | known
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"{population.name} measures {some(known, name) or 'nothing'}, not {shown(name)}")
    return known[name]()


def messages_of(population: Any) -> Array:
    """The messages of each sender, int64[B, N]."""
    return np.sum([channel.messages() for channel in population.channels.values()], axis=0)


def epsilon_of(population: Any) -> Array:
    """Each sender's epsilon spent, by basic composition, float64[B, N]."""
    if population.accountant is None:
        return np.where(messages_of(population) > 0, np.inf, 0.0)
    sender = next(iter(population.channels.values())).sender
    total: Array = population.accountant.epsilon(delta=0.0, method="basic", role=sender)
    return total
