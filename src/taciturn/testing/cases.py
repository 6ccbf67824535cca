"""An environment at a small size for tests, ways to play it, and the registration of the checks of all environments."""

import dataclasses
import pickle
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from unittest import TestCase

import gymnasium
import numpy as np

from taciturn import registry
from taciturn.envs.core import AECView, Array, Controlled, ParallelView, Population, Replicas, SingleEnv, VectorView
from taciturn.envs.core.playing import NotPrivate
from taciturn.mechanism_names import parse_mechanism
from taciturn.policies import Random
from taciturn.wrappers import Faulty, LossyChannel, Privatize

raises = TestCase().assertRaisesRegex


class Case:
    """An environment with parameters that make it small. It has the constructors of an environment, and takes missing
    arguments from the environment's descriptor.

    Args:
        world: a name, an id or `module:name`.
        params: parameters of the environment.
        privacy: `{channel: mechanism}`, a mechanism that fits each channel, or None if none does. If neither this nor
            the descriptor gives one, the checks install faults on the first channel and no mechanism.
        others: the name of a policy for the other agents, if the Gymnasium form controls one agent.
    """

    def __init__(
        self,
        world: str,
        params: Mapping[str, Any] | None = None,
        *,
        privacy: Mapping[str, Any] | None = None,
        others: str | None = None,
    ) -> None:
        entry = registry.entry(world)
        if privacy is None:
            mechanisms = entry.mechanisms.items()
            privacy = {
                name: None if mechanism is None else parse_mechanism(mechanism) for name, mechanism in mechanisms
            }
        self.name, self.world, self.id = world, entry.world, entry.id
        self.params, self.others = dict(entry.small if params is None else params), others or entry.others
        self.given = self.params | ({"world": world} if self.id == registry.ANY_WORLD else {})
        self.given |= {"others": self.others} if self.others else {}
        whole = self.population()
        self.privacy = dict(privacy or dict.fromkeys(list(whole.channels)[:1]))
        self.one_role, self.phased = len(whole.roles) == 1, whole.turns is not None
        self.sole = len(whole.possible_agents) == 1
        self.one_by_one = whole.some_act and not isinstance(whole, Controlled)
        self.has_id = self.sole or bool(self.others) or entry.one_agent is not None

    def __repr__(self) -> str:
        return f"<Case {self.name}>"

    def population(self, num_envs: int = 1, **params: Any) -> Population[Any]:
        own = {name: value for name, value in self.params.items() if not (name == "horizon" and "max_cycles" in params)}
        return self.world.population(num_envs, **own | params)

    def parallel_env(self, render_mode: str | None = None, **params: Any) -> ParallelView:
        return ParallelView(self.population(**params), render_mode)

    def env(self, render_mode: str | None = None, **params: Any) -> AECView:
        return AECView(self.population(**params), render_mode)

    def single_env(self, render_mode: str | None = None, **params: Any) -> SingleEnv:
        return SingleEnv(self.population(**params), render_mode)

    def vector_env(self, num_envs: int = 1, autoreset_mode: Any = "NextStep", **params: Any) -> VectorView:
        return VectorView(self.population(num_envs, **params), autoreset_mode)

    def make(self, **more: Any) -> gymnasium.Env[Any, Any]:
        """`gymnasium.make`."""
        return gymnasium.make(self.id, **self.given | more)

    def make_vec(self, **more: Any) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
        """`gymnasium.make_vec`."""
        return gymnasium.make_vec(self.id, **self.given | more)

    @property
    def counts_steps(self) -> bool:
        """Whether the world's clock counts its steps."""
        return self.world._population.clock_unit == "step"

    @property
    def runs_to_its_horizon(self) -> bool:
        """Whether every run takes as many cycles as its horizon: agents act together, and no run ends earlier by
        chance."""
        if not self.counts_steps or self.one_by_one:
            return False
        population, rng = self.population(50, horizon=4), np.random.default_rng(0)
        population.reset(seed=0)
        while not population.done.all():
            population.step(chosen(population, random_actions(population, rng)))
        return not population.terminated.any()


@dataclasses.dataclass(frozen=True)
class Check:
    """One check of an environment or a policy; call it to run it.

    Attributes:
        kind: the name of its function.
        run: the function, bound to the environment or policy and, if there are variants, to the variant.
        variant: the name of the variant.
        api: whether it checks conformance with Gymnasium and PettingZoo.
        slow: whether it takes more than a few seconds.
    """

    kind: str
    run: Callable[[], Any]
    variant: str = ""
    api: bool = False
    slow: bool = False

    def __call__(self) -> Any:
        """Run the check; returns its counts, if it counts anything."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotPrivate)  # the checks are about more than privacy
            return self.run()

    def __str__(self) -> str:
        return "-".join(filter(None, [self.kind, self.variant]))


# (function, the cases that it applies to, the values of its second argument, whether it checks conformance)
WORLD_CHECKS: list[tuple[Callable[..., None], Callable[[Case], bool], Callable[[Case], Iterable[Any]], bool]] = []


def world_check(
    applies: Callable[[Case], bool] = lambda case: True,
    over: Callable[[Case], Iterable[Any]] | None = None,
    api: bool = False,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator: a check of every environment to which it `applies`, run once for each of `over` if that is given."""

    def add(check: Callable[..., None]) -> Callable[..., None]:
        WORLD_CHECKS.append((check, applies, over or (lambda case: (None,)), api))
        return check

    return add


def dresses(case: Case) -> Iterable[str]:
    """Names of the wrappers for the case's environment: none, Privatize, Faulty or both."""
    private = any(mechanism is not None for mechanism in case.privacy.values())
    return ["plain", *["private"] * private, *["faulty"] * bool(case.privacy), *["both"] * private]


def dressed(env: Any, case: Case, dress: str) -> Any:
    """`env`, a form of the case's environment, in the wrappers that `dress` names."""
    if dress == "plain":
        return env
    ((channel, mechanism),) = case.privacy.items()
    if dress != "faulty":
        env = Privatize(env, channel, mechanism)
    return env if dress == "private" else Faulty(env, channel, LossyChannel(0.2))


def random_actions(population: Population[Any], rng: np.random.Generator) -> dict[str, Array]:
    """An action of every agent of every role, {role: [B, N, ...]}."""
    actions = {}
    for role in population.roles.values():
        policy = Random()
        policy.reset(population, rng, role.name)
        actions[role.name] = policy.act(np.empty((population.num_envs, role.num_agents, 0)))
    return actions


def by_agent(actions: dict[str, Array]) -> dict[str, Any]:
    """The first replica's actions, {agent: action}."""
    return {f"{role}_{i}": action for role, rows in actions.items() for i, action in enumerate(rows[0])}


def chosen(population: Population[Any], actions: dict[str, Array]) -> Any:
    """The argument of `Population.step`, from the actions of all agents."""
    picked = {}
    for role in population.turn:
        rows, taken = population.acting(role), actions[role]
        picked[role] = taken if rows is None else taken[np.arange(len(rows))[:, None], rows]
    return picked if len(population.roles) > 1 else picked[population.turn[0]]


def same_for_all(population: Population[Any], step: int) -> dict[str, Array]:
    """Actions of every agent at a step, {role: [B, N, ...]}: the same in every replica, and in every population."""
    actions = {}
    for name, role in population.roles.items():
        role.action_space.seed(step)
        rows = np.array([role.action_space.sample() for _ in range(role.num_agents)])
        actions[name] = np.broadcast_to(rows, (population.num_envs, *rows.shape))
    return actions


def seen(population: Population[Any]) -> dict[str, Array]:
    """The current observations of all agents, whether they act or not, {role: [B, N, D]}."""
    out = {}
    for role, r in population.roles.items():
        rows = np.broadcast_to(np.arange(r.num_agents), (population.num_envs, r.num_agents))
        acting = population.acting(role)
        out[role] = population.look(role, None if acting is None else rows)
    return out


def fingerprint(population: Population[Any]) -> bytes:
    """The bytes of everything that steps and resets may change."""
    inner = population.inner if isinstance(population, Controlled) else population
    channels = {
        name: (c.everyone, c.each, c.live, c.stopped, c.config, c.memory, c.faults.memory)
        for name, c in inner.channels.items()
    }
    spaces = {name: (role.layout.low, role.layout.high, str(role.action_space)) for name, role in inner.roles.items()}
    ends = population.terminated, population.truncated, inner.terminated, inner.truncated
    run = inner._state, inner.streams, getattr(inner, "_rngs", None), inner.turn, inner.params, accountant_state(inner)
    return pickle.dumps([run, channels, spaces, ends, population.params])


def accountant_state(population: Population[Any]) -> Any:
    """The accountant's counts, None without an accountant."""
    return None if population.accountant is None else population.accountant.accounts


def of(state: Any, replica: int) -> dict[str, Any]:
    """The arrays of one replica."""
    return {field.name: getattr(state, field.name)[replica].copy() for field in dataclasses.fields(state)}


def holds(info: dict[str, Any], key: str, num_envs: int) -> Array:
    """The replicas in which an info key has a meaning, by Gymnasium's convention."""
    if key not in info:
        return np.zeros(num_envs, np.bool_)
    mask: Array = np.broadcast_to(info.get(f"_{key}", True), (num_envs,))
    return mask


def named(info: dict[str, Any]) -> set[str]:
    """The keys of an info, without its masks."""
    return {key for key in info if not key.startswith("_")}


def is_compiled(case: Case) -> bool:
    """Whether all random numbers come from the environment's own sources: there is no noise on its channels."""
    population = case.population()
    if not isinstance(population, Replicas):
        return False
    population.reset(seed=0)
    for turn in range(len(population.turns or ((),))):
        population.step(chosen(population, random_actions(population, np.random.default_rng(turn))))
    assert population.streams is not None
    return all(name.startswith("channel/") for name, _ in population.streams._generators)
