"""Base classes of the policies, which act on arrays of observations, and the uniformly random policy."""

import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import gymnasium
import numpy as np

from taciturn import files
from taciturn.envs.core import Array, Fast, Layout, Population, PublicView
from taciturn.policies.trust import Untrusted, signed, trusted_bytes
from taciturn.validation import NamesUnknown, shown

Progress = Callable[[float], None]


class Policy(metaclass=NamesUnknown):
    """Base of the policies: acts on `[B, rows, D]` observations, and may learn from rewards.

    A policy object holds parameters; everything about a run comes with `reset`.

    Attributes:
        needs_truth: whether it needs hidden variables, as an oracle does.
        public_schedule: whether its agents' schedule (when they send or ask, whom, and the number of events or the
            streams in their messages) follows from public numbers, received messages, and fresh randomness. If agents
            decide when to send, epsilon is finite only under this declaration. (In the recommender it may also follow
            from shown items, and epsilon is then conditional on them.) The declaration does not hold for subclasses
            that override anything of the declaring class; `taciturn.testing` checks it.
        centralised: whether its agents share information outside the channels, as with a central planner: an action may
            depend on other agents' observations.
        memoryless: whether an action depends only on the present observation (and a learner's training).
        one_agent: whether it is written for one agent; each agent then plays a copy (`taciturn.agents.bring`).
        observes: the fields of the observations that it requires, as `taciturn show ENV` prints them, such as
            "counts [5], received, own [5], p, q" (without a size: of any size); empty to allow all. If the fields
            differ, the policy is refused.
    """

    rng: np.random.Generator
    role: str

    needs_truth: bool = False
    public_schedule: bool = False
    centralised: bool = False
    memoryless: bool = False
    one_agent: bool = False
    observes: str = ""

    def reset(self, env: PublicView | Population[Any], rng: np.random.Generator, role: str | None = None) -> None:
        """Prepare for a fresh run as `role` (None: the only one), drawing from `rng`.

        `env` is the public view of the environment, or a population with such a view. A policy that needs hidden truth
        declares `needs_truth = True`, reads it from `view.truth`, and is marked in every table.
        """
        self.rng = rng
        self.role = next(iter(env.roles)) if role is None else role
        view = env.view(self) if isinstance(env, Population) else env
        if self.observes:
            check_fields(self.observes, view.roles[self.role].layout, f"{view.world.name} {self.role}")
        self.begin(view if self.needs_truth else view.closed())

    def begin(self, view: PublicView) -> None:
        """Prepare from the public view; raise ValueError if the policy cannot act in this environment."""

    def require(self, fits: bool, worlds: str, view: PublicView) -> None:
        """Raise ValueError, naming `worlds`, the environments that the policy can act in, unless `fits`."""
        if not fits:
            raise ValueError(f"{type(self).__name__} acts in {worlds}, not in {view.world.name!r}")

    def fast(self, view: PublicView) -> Fast | None:
        """An exact shortcut for `act`, of a type that the environment can play, or None; see
        `taciturn.envs.core.public.fast_form`."""
        return None

    def closed_form(self, view: PublicView) -> Callable[..., None] | None:
        """`act` of one agent as a function `(seen, params, kept, action)`, compiled as part of the environment, or
        None. It is used under the same condition as a fast form.

        It fills `action` from the agent's observation, `seen` float32[D], and from the environment's constants that
        agents may know. `kept` float64[4], zeros at first, is a cache shared by all agents: it holds arguments and
        results of a function, and no action may depend on it in any other way.
        """
        return None

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        """Actions [B, rows, ...] for observations [B, rows, D]; `mask` int8[B, rows, n] marks the actions that have an
        effect."""
        raise NotImplementedError

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        """Learn from a step: taking `action` at `obs` earned `reward` [B, rows]; `done` bool[B] marks replicas that
        have ended or did not play."""

    def restart(self, where: Array) -> None:
        """Clear the memory of the replicas `where` bool[B]: they were reset, while the others play on.

        Needed only if observations do not show that a run begins.
        """

    def prescribes(self, view: PublicView) -> dict[str, Any]:
        """`{channel: mechanism}` prescribed by the policy's paper, for `simulate(privacy="paper")`; ValueError if there
        is none."""
        raise ValueError(f'{type(self).__name__} prescribes no mechanism: privacy="paper" has no meaning with it')

    def within(self, view: PublicView, epsilon_budget: float) -> dict[str, Any] | None:
        """The policy's use of a privacy budget over a whole run: `{channel: mechanism}` (or a `ChannelConfig`) under
        which no agent ever spends more; None if the policy leaves the choice to the caller."""
        return None

    def __repr__(self) -> str:
        given = {name for kind in type(self).__mro__[:-1] for name in inspect.signature(kind).parameters}
        parameters = ", ".join(f"{k}={shown(v)}" for k, v in vars(self).items() if k in given)
        return f"{type(self).__name__}({parameters})"


def check_fields(observes: str, layout: Layout, there: str) -> None:
    """Raise ValueError, naming the difference, unless observations have these fields in this order."""
    asked, result = ([one.strip() for one in text.split(",")] for text in (observes, layout.named))
    given = [one if one in asked else one.partition(" ")[0] for one in result]
    if asked != given:
        lacks = [one for one in asked if one not in given]
        more = [one for one, name in zip(result, given, strict=True) if name not in asked]
        differ = [f"{word} {', '.join(some)}" for word, some in (("lack", lacks), ("have", more)) if some]
        which = f"which {' and '.join(differ) or 'have another order'}"
        raise ValueError(f"policy is written for other observations than those of {there}, {which}")


class Learner(Policy):
    """Base of the learners: they train once, at their first reset, in environments like the one to act in.

    Attributes:
        progress: called with the fraction done, during training.
    """

    progress: Progress | None = None

    def train(self, env: PublicView | Population[Any], role: str | None = None) -> Self:
        """Train now as `role` (None: the only one), in environments like `env`, which stays unchanged; returns the
        policy."""
        self.role = next(iter(env.roles)) if role is None else role
        self.fit(env.view(self) if isinstance(env, Population) else env)
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("progress", "rng")}

    def save(self, path: str | Path) -> None:
        """Write the trained policy to a file, for `load`, and sign it (`taciturn.policies.trust`)."""
        files.write(Path(path), signed(pickle.dumps(self)))

    @classmethod
    def load(cls, path: str | Path, *, trust: bool = False) -> Self:
        """Load a policy written by `save`. Such files can hold code that runs on loading.

        Args:
            path: the file.
            trust: whether to load a file saved by another user or on another machine.

        Raises:
            ValueError: the file holds no policy of this class, or it was saved elsewhere and is not trusted.
        """
        try:
            result = pickle.loads(trusted_bytes(Path(path), trust))
        except Untrusted:
            raise
        except Exception as error:
            raise ValueError(
                f"path must be a file that {cls.__name__}.save has written, not {str(path)!r}: {shown(error)}"
            ) from error
        if not isinstance(result, cls):
            raise ValueError(f"path must hold a {cls.__name__}, and {str(path)!r} holds a {type(result).__name__}")
        return result

    def fit(self, view: PublicView) -> Any:
        """Train in `view.practice(...)`, environments like the one to act in."""
        raise NotImplementedError


class Random(Policy):
    """Draw actions uniformly from the action space, or from the unmasked actions if there is a mask."""

    public_schedule = True
    memoryless = True

    def begin(self, view: PublicView) -> None:
        self._space = view.roles[self.role].action_space

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        space, shape = self._space, obs.shape[:2]
        if isinstance(space, gymnasium.spaces.Box):
            return self.rng.uniform(space.low, space.high, (*shape, *space.shape)).astype(space.dtype)
        if isinstance(space, gymnasium.spaces.MultiDiscrete):
            return space.start + self.rng.integers(0, space.nvec, (*shape, len(space.nvec)))
        assert isinstance(space, gymnasium.spaces.Discrete)
        if mask is None:
            return space.start + self.rng.integers(0, int(space.n), shape)
        return space.start + np.argmax(mask * (1.0 + self.rng.random(mask.shape)), axis=-1)
