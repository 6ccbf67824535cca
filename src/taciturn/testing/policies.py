"""Checks of a policy: it reads nothing hidden, the seed decides its run, and its fast form is exact."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

import taciturn
from taciturn import registry
from taciturn.agents import bring
from taciturn.centralisation import find_sharing, replicas_for
from taciturn.envs.core import Array, Fast, HiddenTruth, Population, PublicView, Rollout, Step, as_policies, begin
from taciturn.envs.core.public import HARMLESS, fast_form
from taciturn.policies import Policy
from taciturn.testing.cases import Check
from taciturn.wrappers.channels import private_config

REPLICAS = 300
ALARM = 1e-4


class Play:
    """A policy in an environment at a small size for tests.

    Args:
        policy: its class, its name or `module:Class`.
        world: a name, an id or `module:name`.
        params: parameters of the environment.
        given: parameters of the policy.
        beside: `{role: policy}`, the policies of the other roles.
        privacy: as for `simulate`.
        record: further measures for `fast_form_has_the_distribution_of_steps` to compare.
    """

    def __init__(
        self,
        policy: Any,
        world: str,
        params: Mapping[str, Any] | None = None,
        *,
        given: Mapping[str, Any] | None = None,
        beside: Mapping[str, Any] | None = None,
        privacy: Any = None,
        record: Sequence[str] = (),
    ) -> None:
        self.policy, self.world, self.params, self.given = policy, world, dict(params or {}), dict(given or {})
        self.beside, self.privacy, self.record = dict(beside or {}), privacy, tuple(record)

    def __repr__(self) -> str:
        return f"{getattr(self.policy, '__name__', self.policy)}-{self.world}"

    def make(self) -> Any:
        """A new policy."""
        return bring(self.policy, **self.given)

    def population(self, num_envs: int = 2, **params: Any) -> Population[Any]:
        """The environment."""
        return registry.make_world(self.world).population(num_envs, **self.params | params)

    def role(self, population: Population[Any]) -> str:
        """The role that the policy plays."""
        (role,) = set(population.roles) - set(self.beside)
        return role

    def actors(self, policy: Any, population: Population[Any]) -> Any:
        """The policies as `simulate` takes them."""
        if not self.beside:
            return policy
        return {self.role(population): policy} | {role: bring(other) for role, other in self.beside.items()}

    def find_sharing(self, seed: int = 0) -> str:
        """How its agents were found to share information, whatever the policy declares; empty if they were not."""
        policy, whole = self.make(), self.population()
        role = self.role(whole)
        replicas = replicas_for(whole.roles[role].num_agents)

        return find_sharing(policy, lambda actor, seed: self.after_reset(actor, replicas, seed), seed, declared=False)

    def after_reset(self, policy: Any, num_envs: int = 2, seed: int = 0) -> Rollout:
        """A run by steps, just begun."""
        population = self.population(num_envs)
        policies = as_policies(population, self.actors(policy, population))
        private = {name: private_config(one) for name, one in (self.privacy or {}).items()}
        population.reset(seed=seed, options={"channels": private})
        begin(population, policies)
        return Rollout(population, policies)

    def run(self, policy: Any, population: Population[Any], **options: Any) -> taciturn.Run:
        """`simulate`."""
        actors = self.actors(policy, population)
        return taciturn.simulate(population, actors, **{"seed": 0, "privacy": self.privacy} | options)


def declares_a_fast_form(kind: type[Any]) -> bool:
    """Whether a class of policies or one of its bases defines a `fast` of its own."""
    return kind.fast is not Policy.fast


def policy_checks(play: Play) -> list[Check]:
    """The checks that apply to a policy."""
    always = [sees_nothing_hidden, seed_decides_the_run, a_second_run_owes_nothing_to_the_first]
    results: list[tuple[Callable[[Play], None], bool]] = [(one, False) for one in always]
    results.append((agents_are_decentralised, False))
    if declares_a_fast_form(type(play.make())):
        results += [(fast_form_is_used, False), (whoever_overrides_a_piece_is_played_by_act, False)]
        results.append((fast_form_has_the_distribution_of_steps, True))
    return [Check(one.__name__, partial(one, play), slow=slow) for one, slow in results]


def sees_nothing_hidden(play: Play) -> None:
    """A policy that does not declare `needs_truth` plays a whole run in an environment that raises on hidden data."""
    policy, population = play.make(), play.population()
    with ExitStack() as patches:
        guarded = policy if policy.needs_truth else Guarded(policy, population, patches)
        play.run(guarded, population, fast=False, privacy=None)


def seed_decides_the_run(play: Play) -> None:
    """A policy repeats its run exactly, whatever it has played in between; its `repr` holds no address."""
    policy, population = play.make(), play.population()
    first, _, again = (play.run(policy, population, seed=seed, fast=False).metrics for seed in (0, 1, 0))
    np.testing.assert_equal(again, first)
    assert " object at 0x" not in repr(policy)


def a_second_run_owes_nothing_to_the_first(play: Play, steps: float = math.inf) -> None:
    """After a reset of its replicas, at the end of their run or after `steps`, a policy plays like a new policy with
    the same random numbers."""
    used, fresh = play.after_reset(play.make()), play.after_reset(play.make())
    whole_run(used, steps)
    everywhere = np.ones(used.env.num_envs, np.bool_)
    for role in used.policies:
        luck = used.env.stream(f"policy/{role}").bit_generator.state
        fresh.env.stream(f"policy/{role}").bit_generator.state = luck
    for rollout in (used, fresh):
        rollout.env.reset(seed=1, where=everywhere)
        rollout.restart(everywhere)
    np.testing.assert_equal(whole_run(used), whole_run(fresh))


def whole_run(rollout: Rollout, steps: float = math.inf) -> list[Any]:
    """Play a run to its end, or for `steps`; returns the actions, observations and rewards of each step."""
    played: list[Any] = []
    env = rollout.env

    def step(actions: Any) -> Step:
        result = env.step(actions)
        played.append(deepcopy((actions, result.observation, result.reward)))
        return result

    while not env.done.all() and len(played) < steps:
        rollout.play(step_by=step)
    return played


def agents_are_decentralised(play: Play) -> None:
    """An agent's actions depend only on its own rows and memory, messages delivered to it, and public numbers
    (`taciturn.centralisation`).

    A policy that declares `centralised = True` passes: every table marks it.
    """
    result = "" if play.make().centralised else play.find_sharing()
    assert not result, f"{play!r}: {result}"


def fast_form_is_used(play: Play) -> None:
    """`simulate` plays the policy by the environment's `jump`, and by steps with `fast=False`."""
    population = play.population()
    with mock.patch.object(type(population), "jump", autospec=True, side_effect=type(population).jump) as jump:
        play.run(play.make(), population)
        assert jump.called
        calls = jump.call_count
        play.run(play.make(), population, fast=False)
        play.run(play.make(), population, fast=False, until=float(population.clock().max()) / 2)
        assert jump.call_count == calls


def whoever_overrides_a_piece_is_played_by_act(play: Play) -> None:
    """A subclass that overrides any part of the policy does not use the fast form that it inherits."""
    population = play.population()
    population.reset(seed=0)
    role, plain = play.role(population), play.make()
    plain.reset(population, np.random.default_rng(0), role)
    assert isinstance(fast_form(plain, population.view(plain)), Fast)
    kind = type(plain)
    pieces = {piece for cls in kind.__mro__[:-1] for piece in vars(cls) if not piece.startswith("__")}
    pieces -= HARMLESS | {"_abc_impl"}
    assert {"act", "update", "begin", "reset"} <= pieces
    for piece in pieces:
        overridden = type(f"Overridden{kind.__name__}", (kind,), {piece: getattr(kind, piece)})(**play.given)
        overridden.reset(population, np.random.default_rng(0), role)
        assert fast_form(overridden, population.view(overridden)) is None, piece


def fast_form_has_the_distribution_of_steps(play: Play, alarm: float = ALARM) -> None:
    """300 runs each by the fast form and by steps, to a lengthened horizon, recorded at half of it and at its end.

    Metrics, records and messages are compared by two-sample Kolmogorov-Smirnov tests. If the distributions agree, the
    tests together reject with a probability of at most `alarm`, up to the approximation of p-values. Numbers that never
    vary are compared for equality.
    """
    horizon = play.population().params.horizon
    population = play.population(REPLICAS, horizon=2 * horizon)
    runs = []
    for fast in (True, False):
        run = play.run(
            play.make(), population, seed=11 + fast, until=[horizon / 2, horizon], record=play.record, fast=fast
        )
        runs.append((columns(run), run.accountant))
        if population.clock_unit == "step":
            np.testing.assert_allclose(population.clock(), horizon, rtol=0.2)
    (quick, quick_accountant), (slow, slow_accountant) = runs
    assert quick.keys() == slow.keys()
    compared = {key: p_value(quick[key], slow[key]) for key in quick}
    if quick_accountant is not None:
        channel = next(iter(population.channels))
        compared["charges"] = p_value(
            *(np.asarray(x.messages(channel)[:, 0], np.float64) for x in (quick_accountant, slow_accountant))
        )
    assert min(compared.values()) > alarm / len(compared), compared


def columns(run: taciturn.Run) -> dict[str, Array]:
    """All results of a run that are compared, [B] each."""
    results = {name: np.asarray(values, np.float64) for name, values in run.metrics.items()}
    for name, trace in run.trace.items():
        for i, at in enumerate(trace):
            results[f"{name} at {i}"] = np.asarray(at, np.float64).reshape(len(at), -1)[:, 0]
    return results


def p_value(first: Array, second: Array) -> float:
    """The p-value of a two-sample Kolmogorov-Smirnov test; infinite and missing values count as values."""
    from scipy import stats

    first, second = (np.nan_to_num(x, nan=-1e9, posinf=1e9) for x in (first, second))
    if np.ptp(np.concatenate([first, second])) <= 1e-9 * np.abs(first).max():
        return 1.0
    return float(stats.ks_2samp(first, second, method="asymp").pvalue)


class Guarded:
    """Wraps a policy: during its calls the population hides its state and its random streams."""

    def __init__(self, policy: Policy, played: Population[Any], patches: ExitStack) -> None:
        self.policy, self.played, self.inside = policy, played, False
        state, stream = type(played).state, type(played).stream

        def hidden_state(population: Population[Any]) -> Any:
            self.check(population)
            return state.fget(population)  # type: ignore[attr-defined]

        def hidden_stream(population: Population[Any], name: str) -> np.random.Generator:
            self.check(population)
            return stream(population, name)

        patches.enter_context(mock.patch.object(type(played), "state", property(hidden_state)))
        patches.enter_context(mock.patch.object(type(played), "stream", hidden_stream))

    def check(self, population: Population[Any]) -> None:
        if self.inside and population is self.played:
            raise HiddenTruth(f"{self.policy!r} looks behind the world")

    def public(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of the environment, with permission to read the environment's state."""

        def call(*arguments: Any, **named: Any) -> Any:
            with self.calling(False):
                return function(*arguments, **named)

        return call

    @contextmanager
    def calling(self, inside: bool) -> Iterator[None]:
        before, self.inside = self.inside, inside
        try:
            yield
        finally:
            self.inside = before

    def reset(self, env: PublicView, rng: np.random.Generator, role: str | None = None) -> None:
        assert isinstance(env, PublicView)
        functions = {name: self.public(one) for name, one in env.functions.items()}
        with self.calling(True):
            self.policy.reset(env.standing_in(self.public(env.acting), functions), rng, role)

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        with self.calling(True):
            return self.policy.act(obs, mask)

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        with self.calling(True):
            self.policy.update(obs, action, reward, done)
