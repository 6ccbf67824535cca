"""Privacy for third-party environments: noise on observations, rewards or actions, at the boundary of the environment.

The wrappers take Gymnasium environments and vector environments, and PettingZoo Parallel and AEC environments. A
message is one whole observation, reward or action of one agent. Any two messages within the bounds are adjacent (local
privacy), so the noise hides all of it:

- `Laplace` and `Gaussian` on Box spaces and rewards. Messages are first clipped into the bounds of the space,
  intersected with `bounds`. The sensitivity is the diameter of the bounds over all numbers of a message together: in L1
  (the sum of the widths) for Laplace, in L2 (the root of the sum of their squares) for Gaussian.
- `KaryRandomizedResponse` on Discrete spaces.
- `NoPrivacy` on every space: the message stays unchanged, or is clipped if `bounds` are given, and its loss is
  infinite.

Perturbed observations and actions are rounded (integer spaces) and clipped back into their space. This costs no
privacy, and biases values near the bounds. Perturbed rewards are not clipped and are unbiased estimates of the clipped
reward. Neither the spaces nor the environment itself are changed. Action masks are not taken into account: a perturbed
action may be illegal.

Everything else that an environment reveals is left unperturbed: `info` (except for the `final_obs` of vector
environments), `state()`, `render()`, the end of an episode, and copies of raw values by inner wrappers. The raw
environment is not hidden either: `unwrapped` and `env` lead to it.

Noise comes from a separate generator, a child stream of `reset(seed=)`: the wrapped environment draws the same random
numbers as without the wrapper, and the order of wrappers makes no difference. The same seed gives the same noise again:
seeds are for simulation.

`.accountant` counts everything released since the wrapper was made, by it and by inner wrappers of this kind. Resets do
not clear it, because released data stay released. Observations are counted at each step and reset (in AEC environments
when an agent's observation is first read after a step), rewards and actions at each step (in AEC environments for the
acting agent). In vector environments, steps that only reset a replica count too.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, Space
from gymnasium.utils import RecordConstructorArgs
from pettingzoo.utils.wrappers import BaseParallelWrapper, BaseWrapper

from taciturn.channels.channel import Channel
from taciturn.privacy.accountant import Accountant
from taciturn.privacy.channels import Payload
from taciturn.privacy.checks import readable
from taciturn.privacy.mechanisms import Gaussian, KaryRandomizedResponse, Laplace, Mechanism, NoPrivacy
from taciturn.seeding import Streams, described
from taciturn.validation import Array, choice, integer
from taciturn.wrappers.channels import Layer, as_described, layers

Subject = Literal["observation", "reward", "action"]

SOLE = "agent"  # name of the only agent of a Gymnasium environment
WHOLE = 2.0**53  # all integers up to this are floats


Bounds = tuple[Any, Any] | None
Info = dict[str, Any]
E = TypeVar("E")


def PrivatizeObservation(env: E, mechanism: Mechanism, *, bounds: Bounds = None) -> E:
    """The environment with noise on observations, in the same interface; `env` itself is not changed.

    Args:
        env: a Gymnasium environment or vector environment, or a PettingZoo Parallel or AEC environment.
        mechanism: Laplace, Gaussian (Box spaces), KaryRandomizedResponse (Discrete spaces) or NoPrivacy; the same for
            all agents.
        bounds: (low, high), numbers or arrays that broadcast to a message's shape. Values are clipped into them, NaN
            as 0. They are required where the space is unbounded, unless the mechanism has a sensitivity: the
            largest distance between adjacent messages, in L1 for Laplace and L2 for Gaussian. A sensitivity below the
            diameter of the bounds limits the claim to messages that are no further apart.

    Raises:
        ValueError: `env` is of another kind or has a mechanism there already, the mechanism does not fit the space, or
            bounds are missing, are not numbers, or do not apply to the mechanism.
    """
    return _privatize(env, "observation", mechanism, bounds)


def PrivatizeReward(env: E, mechanism: Mechanism, *, bounds: Bounds = None) -> E:
    """The environment with noise on rewards: see `PrivatizeObservation`.

    `bounds` (or a sensitivity of the mechanism) are required for Laplace and Gaussian, because no space bounds rewards.
    In AEC environments a message is the reward that `last()` reports, the sum since the agent's last turn: `bounds`
    apply to that sum, and `rewards` holds the message of the acting agent and zeros for all others. To perturb the
    reward of each step, wrap the Parallel API.
    """
    return _privatize(env, "reward", mechanism, bounds)


def PrivatizeAction(env: E, mechanism: Mechanism, *, bounds: Bounds = None) -> E:
    """The environment with noise on actions, before the environment and other agents receive them: see
    `PrivatizeObservation`.

    An action raises ValueError, before anything is drawn or sent, if it has a wrong shape or type, or is outside a
    Discrete space.
    """
    return _privatize(env, "action", mechanism, bounds)


def _privatize(env: E, subject: Subject, mechanism: Mechanism, bounds: Any) -> E:
    settings = {"subject": subject, "mechanism": mechanism, "bounds": bounds}
    wrapped: E = _Messages.around(env, "a Gymnasium or PettingZoo environment", **settings)
    return wrapped


@dataclass(frozen=True)
class Release:
    """How messages are clipped, perturbed, and put back into their space."""

    name: str  # for error messages
    mechanism: Mechanism
    space: Space[Any] | None  # None: a reward
    # Bounds for clipping; None for categories, or to change nothing.
    bounds: tuple[Array, Array] | None = None

    def check(self, x: Any, batch: tuple[int, ...] = ()) -> Any:
        """The input for `perturb`, from messages x[*batch, *shape]; `readable` replaces numbers that are not finite.

        Raises:
            ValueError: x does not hold messages.
        """
        if isinstance(self.mechanism, KaryRandomizedResponse):
            assert isinstance(self.space, Discrete)
            values = self._array(x, "iu", batch) - self.space.start
            if ((values < 0) | (values >= self.space.n)).any():
                raise ValueError(f"{self.name} must be in {self.space}, not {x!r}")
            return values
        if self.bounds is None:
            return x
        return np.clip(readable(self._array(x, "biuf", batch + self.bounds[0].shape).astype(np.float64)), *self.bounds)

    def perturb(self, x: Any, rng: np.random.Generator) -> Any:
        """The released messages, given the output of `check`; rounded in integer spaces, and clipped into the space."""
        if isinstance(self.mechanism, KaryRandomizedResponse):
            assert isinstance(self.space, Discrete)
            return np.asarray(self.mechanism.perturb(x, rng) + self.space.start, self.space.dtype)
        if self.bounds is None:
            return x
        noisy = np.asarray(self.mechanism.perturb(x, rng))
        if not isinstance(self.space, Box):
            return noisy
        dtype = np.dtype(self.space.dtype)
        largest = float(np.finfo(dtype).max) if dtype.kind == "f" else WHOLE
        low, high = (np.clip(np.asarray(b, np.float64), -largest, largest) for b in (self.space.low, self.space.high))
        return np.asarray(np.clip(noisy if dtype.kind == "f" else np.rint(noisy), low, high), dtype)

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


def release_for(subject: Subject, agent: str, mechanism: Any, space: Space[Any] | None, bounds: Any) -> Release:
    """Check that a mechanism fits an agent's space (None: its reward), and determine its sensitivity."""
    name = subject if agent == SOLE else f"{subject} of {agent}"
    what = "a reward" if space is None else repr(space)
    if not isinstance(mechanism, Laplace | Gaussian | KaryRandomizedResponse | NoPrivacy):
        raise ValueError(f"mechanism must be Laplace, Gaussian, KaryRandomizedResponse or NoPrivacy, not {mechanism!r}")
    if bounds is None and isinstance(mechanism, NoPrivacy):
        return Release(name, mechanism, space)
    if isinstance(mechanism, KaryRandomizedResponse):
        if bounds is not None:
            raise ValueError(f"bounds must be None for KaryRandomizedResponse, not {bounds!r}")
        if not isinstance(space, Discrete) or space.n != mechanism.num_values:
            raise ValueError(f"mechanism must fit the {name}, {what}, not be {mechanism!r}")
        return Release(name, mechanism, space)
    if space is not None and not isinstance(space, Box):
        raise ValueError(
            f"mechanism must fit the {name}, {what}, not be {mechanism!r}: flatten compound spaces into a Box first"
        )
    low, high = _bounds(space, bounds)
    if isinstance(mechanism, NoPrivacy):
        return Release(name, mechanism, space, (low, high))
    own = mechanism.sensitivity
    if own is None:
        own = _diameter(mechanism, low, high, f"{name}, {what}, ")
    if mechanism.sampler == "exact":  # rounding to the grid moves each number by up to one step, 2^-24 noise scales
        share = low.size * mechanism.multiplier / 2**24
        if share > 0.5:
            raise ValueError(
                f"mechanism must have a noise multiplier <= 2^23 / {low.size} for the exact sampler, not be "
                f"{mechanism!r}"
            )
        own /= 1 - share
    return Release(name, replace(mechanism, sensitivity=own), space, (low, high))


def _diameter(mechanism: Laplace | Gaussian, low: Array, high: Array, what: str) -> float:
    with np.errstate(over="ignore"):
        width = high - low
        diameter = width.sum() if isinstance(mechanism, Laplace) else math.sqrt((width**2).sum())
    if not math.isfinite(diameter):
        raise ValueError(f"bounds must be given as (low, high), not None or infinite: the {what}has no finite bounds")
    if diameter == 0:
        raise ValueError(f"bounds must contain more than one value: the {what}has a single value within them")
    return float(diameter)


def _bounds(space: Box | None, given: Any) -> tuple[Array, Array]:
    """The bounds of the space (None: of a reward, which has none), intersected with the given ones."""
    low, high = np.array(-math.inf), np.array(math.inf)
    if space is not None:
        low = np.where(space.bounded_below, np.asarray(space.low, np.float64), low)
        high = np.where(space.bounded_above, np.asarray(space.high, np.float64), high)
    if given is None:
        return low, high
    try:
        least, most = (np.broadcast_to(np.asarray(bound, np.float64), low.shape) for bound in given)
        ordered = bool((least <= most).all())
    except (TypeError, ValueError):
        ordered = False
    if not ordered:
        raise ValueError(f"bounds must be (low, high), low <= high, of a shape that fits {low.shape}, not {given!r}")
    low, high = np.maximum(low, least), np.minimum(high, most)
    if not (low <= high).all():
        raise ValueError(f"bounds must overlap the space, not be {given!r}")
    return low, high


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
    """The mechanism for one kind of message of an environment, its random stream, and the count of released
    messages."""

    env: Any
    subject: Subject
    mechanism: Mechanism

    def __init__(self, env: Any, subject: Subject, mechanism: Mechanism, bounds: Bounds = None) -> None:
        super().__init__(env, subject=subject, mechanism=mechanism, bounds=bounds)
        mechanism = as_described(mechanism)
        choice("subject", subject, ("observation", "reward", "action"))
        if any(layer.subject == subject for layer in layers(env, _Messages)):
            raise ValueError(f"env must have no mechanism on its {subject}s already, but {env!r} has one")
        self.subject, self.mechanism = subject, mechanism
        self._releases = {
            agent: release_for(subject, agent, mechanism, space, bounds)
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
        """Reset the environment, and then switch to the generator of the seed."""
        rng = self._generator(seed)
        result = self.env.reset(seed=seed, options=options)
        self._rng = rng
        return result

    def _generator(self, seed: Any) -> np.random.Generator:
        if isinstance(seed, list | tuple | np.ndarray):
            words = [integer("seed", word, at_least=0) for word in seed if word is not None]
            seed = sum(int(w) << 32 * i for i, w in enumerate(np.random.SeedSequence(words).generate_state(4)))
            seed = seed if words else None
        if seed is None and self._rng is not None:
            return self._rng
        return Streams(seed).noise(f"private/{self.subject}", described([*self._releases.values()]))

    def _leave(self, subject: Subject, x: Any) -> Any:
        """x, perturbed if this wrapper perturbs messages of that kind."""
        return self._send(x) if subject == self.subject else x

    def _send(self, x: Any) -> Any:
        return self._send_each({SOLE: x})[SOLE]

    def _send_each(self, messages: Mapping[str, Any], where: Any = None, batch: tuple[int, ...] = ()) -> dict[str, Any]:
        """The released messages, counted in the replicas `where` (default: in all).

        Raises:
            ValueError: a value is not a message. Nothing is drawn or counted then.
        """
        for agent in messages:
            choice("agent", agent, self._agents)
        checked = {agent: self._releases[agent].check(x, batch) for agent, x in messages.items()}
        if self._rng is None:
            self._rng = self._generator(None)
        sent = {agent: self._releases[agent].perturb(x, self._rng) for agent, x in checked.items()}
        for agent, message in sent.items():
            if self.subject == "reward" and np.ndim(message) == 0:
                sent[agent] = float(message)
            elif isinstance(message, np.ndarray) and not isinstance(messages[agent], np.ndarray):
                sent[agent] = message[()]  # a scalar stays a scalar
            self._count[slice(None) if where is None else where, self._agents[agent]] += 1
        return sent

    @property
    def accountant(self) -> Accountant:
        """A snapshot of the messages that this wrapper and the privacy wrappers inside it have released since this one
        was made; the observer is the public."""
        beneath = {layer.subject: layer for layer in layers(self, _Messages)}
        channels = []
        for subject, layer in beneath.items():
            payload: Payload = "categorical" if layer._loss.kind == KaryRandomizedResponse.kind else "vector"
            channels.append(Channel(subject, payload, observer="public", unit="event", num_senders=len(self._agents)))
        accountant = Accountant(len(self._count), len(self._agents), channels)
        for subject, layer in beneath.items():
            accountant.charge(subject, layer._loss, each=layer._count)
        return accountant


class PrivateGymnasium(_Messages, gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """For `gymnasium.Env`; `gymnasium.make(env.spec)` makes the wrapped environment again."""


class PrivateVector(_Messages, gymnasium.vector.VectorWrapper):
    """For `gymnasium.vector.VectorEnv`, in all autoreset modes."""

    _last: Any = None  # the last observations, repeated for replicas that a masked reset skips

    def reset(self, seed: Any = None, options: Info | None = None) -> Any:
        where, last = (options or {}).get("reset_mask"), self._last
        if where is None or last is None:
            return super().reset(seed, options)
        observation, info = self._restart(seed, options)
        last[where] = self._send(np.asarray(observation)[where], where)
        return last.copy(), info

    def step(self, actions: Any) -> Any:
        *result, info = super().step(actions)
        if self.subject == "observation" and "final_obs" in info:
            final = info["final_obs"].copy()
            for replica in np.flatnonzero(info["_final_obs"]):
                final[replica] = self._send_each({SOLE: final[replica]}, replica)[SOLE]
            info = {**info, "final_obs": final}
        return *result, info

    def _send(self, x: Any, where: Any = None) -> Any:
        """The released messages of the replicas `where` bool[B] (default: all)."""
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
        """Show `message` as the reward of the agent in turn."""
        self.rewards = dict.fromkeys(self.env.agents, 0.0)
        if self.rewards:
            self.rewards[self.env.agent_selection] = message
        self._cumulative_rewards = dict(self.rewards)
