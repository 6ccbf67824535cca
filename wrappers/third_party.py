"""Privacy for environments of others: noise on what agents see, earn or do, at the boundary of the environment.

For Gymnasium environments and vector environments, PettingZoo Parallel and AEC environments alike. A message is one whole observation,
one reward or one action of one agent; adjacent messages are any two that the bounds allow (local privacy), so noise hides all of it:

- `Laplace` and `Gaussian` on Box spaces and rewards. Messages are clipped into the bounds first: the space's, intersected with `bounds`.
  The sensitivity is the bounds' diameter over all numbers of the message together: L1, the sum of the widths, for Laplace; L2, the root
  of the sum of their squares, for Gaussian.
- `KaryRandomizedResponse` on Discrete spaces.
- `NoPrivacy` on every space: the message leaves as it is (clipped, if `bounds` are given), and counts as infinite.

Noised observations and actions are rounded (integer spaces) and clipped back into their space, which costs nothing and biases values
near the bounds; rewards are left as they are noised, unbiased for the clipped reward. Spaces never change, and the environment itself is
never changed. Action masks are not known here: a perturbed action may be an illegal move.

What else an environment tells is not perturbed: `info` (but for the `final_obs` of vector environments), `state()`, `render()`, the end
of an episode, and wrappers beneath that copy raw values. Nor is the raw environment hidden, `unwrapped` and `env` lead to it.

Noise draws from a generator of its own, a child stream of `reset(seed=)`: the wrapped environment has the luck that it has without, and
wrappers may be nested in any order with the same result. A seed given again brings the same noise again: seeds are for simulation.

`.ledger` says what has left since the wrapper was made, through it and through such wrappers beneath it. Resets do not clear it, as what
was told stays told; `reset_ledger` does, for new agents. Counted are: observations, at each step and reset (AEC: the first time an
agent's observation is asked for after a step); rewards and actions, at each step (AEC: of the agent whose turn it is). In vector
environments steps that only reset count too.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, Space
from gymnasium.utils import RecordConstructorArgs
from pettingzoo.utils.wrappers import BaseParallelWrapper, BaseWrapper

from taciturn.envs.core.channel import Channel
from taciturn.envs.core.seeding import Streams
from taciturn.privacy.channels import Payload
from taciturn.privacy.ledger import Ledger
from taciturn.privacy.mechanisms import Gaussian, KaryRandomizedResponse, Laplace, Mechanism, NoPrivacy
from taciturn.validation import Array, choice, integer, number
from taciturn.wrappers.channels import Layer

__all__ = [
    "PrivateAEC",
    "PrivateGymnasium",
    "PrivateParallel",
    "PrivateVector",
    "PrivatizeAction",
    "PrivatizeObservation",
    "PrivatizeReward",
]

Subject = Literal["observation", "reward", "action"]
Bounds = tuple[Any, Any]
Info = dict[str, Any]
E = TypeVar("E")

SOLE = "agent"  # what the agent of a Gymnasium environment is called here
WHOLE = 2.0**53  # largest integer of which all smaller ones are floats


def PrivatizeObservation(
    env: E, mechanism: Mechanism, *, bounds: Bounds | None = None, sensitivity: float | None = None
) -> E:
    """The environment with noise on what agents see, in the same interface; `env` itself is not changed.

    Args:
        env: a Gymnasium environment or vector environment, or a PettingZoo Parallel or AEC environment.
        mechanism: Laplace, Gaussian (Box spaces), KaryRandomizedResponse (Discrete spaces) or NoPrivacy; the same for all agents.
        bounds: (low, high), numbers or arrays that fit the messages' shape: values are clipped into them. Needed where the space is
            unbounded, unless a sensitivity is given.
        sensitivity: greatest distance between adjacent messages, L1 for Laplace, L2 for Gaussian; None: the mechanism's own, or else the
            bounds' diameter. A smaller one protects less: it is the caller's claim.

    Raises:
        ValueError: an environment of another kind, or one that has a mechanism there already; a mechanism that does not fit the space;
            bounds or a sensitivity that are missing, not numbers, or of no use to the mechanism.
    """
    return _privatize(env, "observation", mechanism, bounds, sensitivity)


def PrivatizeReward(
    env: E, mechanism: Mechanism, *, bounds: Bounds | None = None, sensitivity: float | None = None
) -> E:
    """The environment with noise on what agents earn: see `PrivatizeObservation`.

    `bounds` (or a sensitivity) must be given for Laplace and Gaussian, as no space says how large a reward is. In AEC environments a
    message is what `last()` reports, all that an agent earned since its last turn: bounds are for that sum, and `rewards` holds the message
    of the agent whose turn it is and zeros for others. Wrap the Parallel form where rewards must be those of each step.
    """
    return _privatize(env, "reward", mechanism, bounds, sensitivity)


def PrivatizeAction(
    env: E, mechanism: Mechanism, *, bounds: Bounds | None = None, sensitivity: float | None = None
) -> E:
    """The environment with noise on what agents do, before it or other agents learn of it: see `PrivatizeObservation`.

    An action of a wrong shape or type, one that clipping leaves infinite or NaN, or none of a Discrete space raises ValueError before
    anything is drawn or sent.
    """
    return _privatize(env, "action", mechanism, bounds, sensitivity)


def _privatize(env: E, subject: Subject, mechanism: Mechanism, bounds: Any, sensitivity: Any) -> E:
    wrapped: E | None = _Messages.around(
        env, subject=subject, mechanism=mechanism, bounds=bounds, sensitivity=sensitivity
    )
    if wrapped is None:
        raise ValueError(f"env must be a Gymnasium or PettingZoo environment, not {env!r}")
    return wrapped


# How a message leaves.


@dataclass(frozen=True)
class _Release:
    """Clipped, perturbed, and put back into its space; one message, or an array of them."""

    name: str  # for errors
    mechanism: Mechanism
    space: Space[Any] | None  # None: a reward
    bounds: tuple[Array, Array] | None = (
        None  # what is noised is clipped into them; None: leave all as it is, or no numbers
    )

    def check(self, x: Any, batch: tuple[int, ...] = ()) -> Any:
        """What `perturb` takes, from messages x[*batch, *shape].

        Raises:
            ValueError: they are none.
        """
        if isinstance(self.mechanism, KaryRandomizedResponse):
            assert isinstance(self.space, Discrete)
            values = self._array(x, "iu", batch) - self.space.start
            if ((values < 0) | (values >= self.space.n)).any():
                raise ValueError(f"{self.name} must be in {self.space}, not {x!r}")
            return values
        if self.bounds is None:
            return x
        clipped = np.clip(self._array(x, "biuf", batch + self.bounds[0].shape).astype(np.float64), *self.bounds)
        if not np.isfinite(clipped).all():
            raise ValueError(f"{self.name} must be finite, not {x!r}")
        return clipped

    def perturb(self, x: Any, rng: np.random.Generator) -> Any:
        """The messages that leave for what `check` returned."""
        if isinstance(self.space, Discrete) and isinstance(self.mechanism, KaryRandomizedResponse):
            return np.asarray(self.mechanism.perturb(x, rng) + self.space.start, self.space.dtype)
        if self.bounds is None:
            return x
        noisy = np.asarray(self.mechanism.perturb(x, rng))
        return noisy if self.space is None else _fitted(noisy, self.space)

    def _array(self, x: Any, kinds: str, shape: tuple[int, ...]) -> Array:
        try:
            array = np.asarray(x)
        except ValueError:
            array = np.asarray(None)
        if array.dtype.kind not in kinds or array.shape != shape:
            raise ValueError(
                f"{self.name} must be {'integers' if kinds == 'iu' else 'numbers'} of shape {shape}, not {x!r}"
            )
        return array


def _fitted(noisy: Array, space: Any) -> Array:
    """Rounded if need be, and clipped into a Box."""
    dtype = np.dtype(space.dtype)
    largest = float(np.finfo(dtype).max) if dtype.kind == "f" else WHOLE
    noisy = noisy if dtype.kind == "f" else np.rint(noisy)
    low, high = (np.clip(np.asarray(bound, np.float64), -largest, largest) for bound in (space.low, space.high))
    return np.asarray(np.clip(noisy, low, high), dtype)


def _release(
    subject: Subject, agent: str, mechanism: Any, space: Space[Any] | None, bounds: Any, sensitivity: Any
) -> _Release:
    """Check that a mechanism fits an agent's space (None: its reward), and find its sensitivity."""
    name = subject if agent == SOLE else f"{subject} of {agent}"
    what = "a reward" if space is None else repr(space)
    if not isinstance(mechanism, Laplace | Gaussian | KaryRandomizedResponse | NoPrivacy):
        raise ValueError(f"mechanism must be Laplace, Gaussian, KaryRandomizedResponse or NoPrivacy, not {mechanism!r}")
    if not isinstance(mechanism, Laplace | Gaussian):
        if sensitivity is not None:
            raise ValueError(f"sensitivity must be None for {type(mechanism).__name__}, not {sensitivity!r}")
        if bounds is None and isinstance(mechanism, NoPrivacy):
            return _Release(name, mechanism, space)
    if isinstance(mechanism, KaryRandomizedResponse):
        if bounds is not None:
            raise ValueError(f"bounds must be None for KaryRandomizedResponse, not {bounds!r}")
        if not isinstance(space, Discrete) or space.n != mechanism.num_values:
            raise ValueError(f"mechanism must fit the {name}, {what}, not be {mechanism!r}")
        return _Release(name, mechanism, space)
    if space is not None and not isinstance(space, Box):
        raise ValueError(
            f"mechanism must fit the {name}, {what}, not be {mechanism!r}: flatten compound spaces into a Box first"
        )
    low, high = _intersection(_bounds_of(space), bounds)
    if isinstance(mechanism, NoPrivacy):
        return _Release(name, mechanism, space, (low, high))
    own = mechanism.sensitivity
    if own is not None and sensitivity is not None:
        raise ValueError(f"sensitivity must be None where the mechanism has its own, {own}, not {sensitivity!r}")
    if sensitivity is not None:
        own = number("sensitivity", sensitivity, above=0)
    if own is None:
        own = _diameter(mechanism, low, high, f"{name}, {what}, ")
    if mechanism.sampler == "exact":  # rounding moves each number by up to one step, 2^-24 noise scales
        share = low.size * mechanism.multiplier / 2**24
        if share > 0.5:
            raise ValueError(f"mechanism must leave its exact sampler's grid 2^-23 of the noise, not be {mechanism!r}")
        own /= 1 - share
    return _Release(name, replace(mechanism, sensitivity=own), space, (low, high))


def _diameter(mechanism: Laplace | Gaussian, low: Array, high: Array, what: str) -> float:
    with np.errstate(over="ignore"):
        width = high - low
        diameter = width.sum() if isinstance(mechanism, Laplace) else math.sqrt((width**2).sum())
    if not math.isfinite(diameter):
        raise ValueError(f"bounds must be given as (low, high), not None or infinite: the {what}has no finite ones")
    if diameter == 0:
        raise ValueError(f"bounds must leave more than one value: the {what}has a single one within them")
    return float(diameter)


def _bounds_of(space: Box | None) -> tuple[Array, Array]:
    if space is None:
        return np.array(-math.inf), np.array(math.inf)
    low, high = np.asarray(space.low, np.float64), np.asarray(space.high, np.float64)
    return np.where(space.bounded_below, low, -math.inf), np.where(space.bounded_above, high, math.inf)


def _intersection(own: tuple[Array, Array], bounds: Any) -> tuple[Array, Array]:
    if bounds is None:
        return own
    try:
        given = np.array([np.broadcast_to(np.asarray(b, np.float64), own[0].shape) for b in bounds])
        ordered = len(given) == 2 and bool((given[0] <= given[1]).all())
    except (TypeError, ValueError):
        ordered = False
    if not ordered:
        raise ValueError(
            f"bounds must be (low, high), low <= high, of a shape that fits {own[0].shape}, not {bounds!r}"
        )
    low, high = np.maximum(own[0], given[0]), np.minimum(own[1], given[1])
    if not (low <= high).all():
        raise ValueError(f"bounds must overlap with those of the space, not be {bounds!r}")
    return low, high


# The wrappers.

PAYLOADS: dict[bool, Payload] = {True: "categorical", False: "vector"}


def _spaces(env: Any, subject: Subject) -> dict[str, Any]:
    """The space of each agent's messages, None for rewards."""
    of = "action_space" if subject == "action" else "observation_space"
    if isinstance(env, gymnasium.vector.VectorEnv):
        spaces = {SOLE: getattr(env, f"single_{of}")}
    elif isinstance(env, gymnasium.Env):
        spaces = {SOLE: getattr(env, of)}
    else:
        spaces = {agent: getattr(env, of)(agent) for agent in env.possible_agents}
    return dict.fromkeys(spaces) if subject == "reward" else spaces


class _Messages(Layer):
    """The law of an environment's messages of one kind, their luck, and the count of what has left."""

    env: Any
    subject: Subject
    mechanism: Mechanism

    def __init__(
        self,
        env: Any,
        subject: Subject,
        mechanism: Mechanism,
        bounds: Bounds | None = None,
        sensitivity: float | None = None,
    ) -> None:
        super().__init__(env, subject=subject, mechanism=mechanism, bounds=bounds, sensitivity=sensitivity)
        choice("subject", subject, ("observation", "reward", "action"))
        if any(layer.subject == subject for layer in _layers(env)):
            raise ValueError(f"env must have no mechanism on its {subject}s already, but {env!r} has one")
        self.subject, self.mechanism = subject, mechanism
        self._releases = {
            agent: _release(subject, agent, mechanism, space, bounds, sensitivity)
            for agent, space in _spaces(env, subject).items()
        }
        self._loss = mechanism.loss()
        self._agents = {agent: index for index, agent in enumerate(self._releases)}
        self._count = np.zeros((getattr(env, "num_envs", 1), len(self._agents)), np.int64)
        self._rng: np.random.Generator | None = None

    def reset(self, seed: Any = None, options: Info | None = None) -> Any:
        observation, info = self._restart(seed, options)
        return self._leave("observation", observation), info

    def step(self, action: Any) -> Any:
        observation, reward, *rest = self.env.step(self._leave("action", action))
        return self._leave("observation", observation), self._leave("reward", reward), *rest

    def _restart(self, seed: Any, options: Info | None) -> Any:
        """Reset the environment, and then use the generator that goes with the seed."""
        rng = self._luck(seed)
        told = self.env.reset(seed=seed, options=options)
        self._rng = rng
        return told

    def _luck(self, seed: Any) -> np.random.Generator:
        if isinstance(seed, list | tuple | np.ndarray):
            words = [integer("seed", word, at_least=0) for word in seed if word is not None]
            seed = sum(int(w) << 32 * i for i, w in enumerate(np.random.SeedSequence(words).generate_state(4)))
            seed = seed if words else None
        if seed is None and self._rng is not None:
            return self._rng
        return Streams(seed)[f"private/{self.subject}"]

    def _leave(self, subject: Subject, x: Any) -> Any:
        """What leaves for x: a message, if it is of this wrapper's kind."""
        return self._send(x) if subject == self.subject else x

    def _send(self, x: Any) -> Any:
        return self._send_each({SOLE: x})[SOLE]

    def _send_each(self, messages: Mapping[str, Any], where: Any = None, batch: tuple[int, ...] = ()) -> dict[str, Any]:
        """The messages that leave, counted in the replicas `where` (default: in all).

        Raises:
            ValueError: some are no messages; nothing is drawn or counted then.
        """
        for agent in messages:
            choice("agent", agent, self._agents)
        checked = {agent: self._releases[agent].check(x, batch) for agent, x in messages.items()}
        if self._rng is None:
            self._rng = self._luck(None)
        sent = {agent: self._releases[agent].perturb(x, self._rng) for agent, x in checked.items()}
        for agent, message in sent.items():
            if self.subject == "reward" and np.ndim(message) == 0:
                sent[agent] = float(message)
            elif isinstance(message, np.ndarray) and not isinstance(messages[agent], np.ndarray):
                sent[agent] = message[()]  # a number stays a number
            self._count[slice(None) if where is None else where, self._agents[agent]] += 1
        return sent

    @property
    def ledger(self) -> Ledger:
        """What has left since the wrapper was made, through it and such wrappers beneath it, to the public; a snapshot."""
        layers = {layer.subject: layer for layer in _layers(self)}
        channels = []
        for subject, layer in layers.items():
            payload = PAYLOADS[layer._loss.kind == KaryRandomizedResponse.kind]
            channels.append(Channel(subject, payload, observer="public", unit="event"))
        ledger = Ledger(len(self._count), len(self._agents), channels)
        for subject, layer in layers.items():
            ledger.charge(subject, layer._loss, each=layer._count)
        return ledger

    def reset_ledger(self) -> None:
        """Forget what has left, here and beneath: other agents will play."""
        for layer in _layers(self):
            layer._count[...] = 0


def _layers(env: Any) -> Iterator[_Messages]:
    """Wrappers of this module from `env` inwards."""
    while env is not None:
        if isinstance(env, _Messages):
            yield env
        inside = getattr(env, "__dict__", {})
        env = inside.get("env", inside.get("aec_env"))


class PrivateGymnasium(_Messages, gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """For `gymnasium.Env`; `gymnasium.make(env.spec)` makes another."""


class PrivateVector(_Messages, gymnasium.vector.VectorWrapper):
    """For `gymnasium.vector.VectorEnv`, in all autoreset modes."""

    _last: Any = None  # what was seen last, to be seen again where a masked reset leaves a replica alone

    def reset(self, seed: Any = None, options: Info | None = None) -> Any:
        where, last = (options or {}).get("reset_mask"), self._last
        if where is None or last is None:
            return super().reset(seed, options)
        observation, info = self._restart(seed, options)
        last[where] = self._send(np.asarray(observation)[where], where)
        return last.copy(), info

    def step(self, actions: Any) -> Any:
        *told, info = super().step(actions)
        if self.subject == "observation" and "final_obs" in info:
            final = info["final_obs"].copy()
            for replica in np.flatnonzero(info["_final_obs"]):
                final[replica] = self._send_each({SOLE: final[replica]}, replica)[SOLE]
            info = {**info, "final_obs": final}
        return *told, info

    def _send(self, x: Any, where: Any = None) -> Any:
        """The messages that leave the replicas `where` bool[B] (default: all)."""
        size = self.num_envs if where is None else int(np.count_nonzero(where))
        message = self._send_each({SOLE: x}, where, (size,))[SOLE]
        if self.subject == "observation" and where is None:
            self._last = message.copy() if isinstance(message, np.ndarray) else None
        return message


class PrivateParallel(_Messages, BaseParallelWrapper[Any, Any, Any]):
    """For `pettingzoo.ParallelEnv`."""

    def _send(self, x: Any) -> Any:
        return self._send_each(x)


class PrivateAEC(_Messages, BaseWrapper[Any, Any, Any]):
    """For `pettingzoo.AECEnv`."""

    def __init__(self, env: Any, **arguments: Any) -> None:
        super().__init__(env, **arguments)
        self._seen: dict[str, Any] = {}

    def reset(self, seed: int | None = None, options: Info | None = None) -> None:
        self._restart(seed, options)
        self._seen = {}
        if self.subject == "reward":
            self._earn(0.0)

    def observe(self, agent: str) -> Any:
        if self.subject != "observation":
            return self.env.observe(agent)
        if agent not in self._seen:
            self._seen |= self._send_each({agent: self.env.observe(agent)})
        message = self._seen[agent]
        return message.copy() if isinstance(message, np.ndarray) else message

    def step(self, action: Any) -> None:
        agent = self.env.agent_selection
        if self.subject == "action" and not (self.env.terminations[agent] or self.env.truncations[agent]):
            action = self._send_each({agent: action})[agent]
        self.env.step(action)
        self._seen = {}
        if self.subject == "reward":
            agent = self.env.agent_selection
            self._earn(self._send_each({agent: self.env._cumulative_rewards[agent]})[agent] if self.env.agents else 0.0)

    def _earn(self, message: float) -> None:
        """Show `message` as the reward of the agent whose turn it is."""
        self.rewards = dict.fromkeys(self.env.agents, 0.0)
        if self.rewards:
            self.rewards[self.env.agent_selection] = message
        self._cumulative_rewards = dict(self.rewards)
