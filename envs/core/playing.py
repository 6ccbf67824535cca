"""Playing policies in a population."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from taciturn.envs.core.public import PublicView, has_public_schedule
from taciturn.envs.core.steps import Step
from taciturn.validation import Array, shown

SHARED_MIND = "agents share a mind, so they send one another's private data"


class Acts(Protocol):
    """The methods that a policy needs to act in a population."""

    def reset(self, env: PublicView, rng: np.random.Generator, role: str | None = None) -> None:
        """Prepare to act as `role` in a fresh run of the environment with public view `env`."""

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        """Choose actions [B, rows, ...] for observations [B, rows, D]."""

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        """Learn from one step: reward [B, rows], done bool[B]."""

    # A policy with memory also needs `restart(where)`: see `taciturn.policies.Policy`.


def as_policies(env: Any, policy: Any) -> dict[str, Acts]:
    """`{role: policy}` from a policy or such a dict; ValueError if a role has no policy."""
    if len(env.roles) == 1 and not isinstance(policy, Mapping):
        policy = dict.fromkeys(env.roles, policy)
    if not isinstance(policy, Mapping) or set(policy) != set(env.roles):
        given = list(policy) if isinstance(policy, Mapping) else type(policy).__name__
        raise ValueError(f"policy must be a dict with the roles {list(env.roles)}, not {given}")
    for one in policy.values():
        if not (hasattr(one, "reset") and hasattr(one, "act")):
            raise ValueError(f"policy must have the methods reset and act, which {shown(one)} has not")
    return dict(policy)


def note_players(env: Any, casts: Sequence[Mapping[str, Acts]]) -> None:
    """See `Population.played_by`."""
    roles: dict[int, set[str]] = {}
    for cast in casts:
        for role, policy in cast.items():
            roles.setdefault(id(policy), set()).add(role)
    several = any(len(played) > 1 for played in roles.values())
    for channel in env.channels.values():
        actors = [cast[channel.sender] for cast in casts if channel.sender in cast]
        if actors and channel.agents_decide:
            channel.silence_leaks = not (env._public_schedule or all(map(has_public_schedule, actors)))
        if several or any(getattr(actor, "centralised", False) for actor in actors):
            channel.unbounded = SHARED_MIND


class NotPrivate(UserWarning):
    """A policy has an epsilon for the mechanism of its paper, but no mechanism is installed."""


def begin(env: Any, policies: Mapping[str, Acts]) -> None:
    """Reset the policies for a fresh run of `env`, each with its public view and a separate random stream.

    Raises ValueError if a budget is installed on a channel where the sending of messages may depend on private data
    (`Channel.silence_leaks`), since it bounds nothing there. Warns once (`NotPrivate`) of a policy with an epsilon if
    nothing was specified for its channel.
    """
    for role, policy in policies.items():
        policy.reset(env.view(policy), env.stream(f"policy/{role}"), role)
    env.played_by(policies)
    for name, channel in env.channels.items():
        if channel.config.budget is not None and channel.silence_leaks:
            raise ValueError(
                f"budget on channel {name!r} of {env.name} must be None, not {channel.config.budget!r}: the time "
                "and subject of messages may depend on private data here, and no budget bounds that (see "
                "`Policy.public_schedule`)"
            )
    for policy in policies.values():
        for name, mechanism in _prescribed(env, policy).items():
            if env.channels[name].config.mechanism is None:
                warnings.warn(
                    f"no mechanism is installed on channel {name!r} of {env.name}, so the epsilon of {policy!r} has no "
                    f"effect. Its paper installs {mechanism!r}: simulate(..., privacy='paper'), --privacy paper, or "
                    f"Privatize(env, {name!r}, ...); NoPrivacy() silences this warning",
                    NotPrivate,
                    stacklevel=3,
                )
                return


def restart(policies: Iterable[Any], where: Array) -> None:
    """Notify policies that the replicas `where` bool[B] have been reset, while the others play on."""
    for policy in policies:
        if hasattr(policy, "restart"):
            policy.restart(where)


def _prescribed(env: Any, policy: Any) -> dict[str, Any]:
    """The mechanisms that a policy's paper prescribes here, by channel; empty if the policy has no such method, or if
    the method raises ValueError."""
    if not hasattr(policy, "prescribes"):
        return {}
    try:
        result: dict[str, Any] = policy.prescribes(env.view(policy))
    except ValueError:
        return {}
    return result


class Rollout:
    """Plays policies in a population. A policy receives the outcome of an action at its next turn, or at the end of the
    run.

    Args:
        env: the population.
        policies: `{role: policy}`; `play` gets the actions of the other roles as an argument.
    """

    def __init__(self, env: Any, policies: Mapping[str, Acts]) -> None:
        self.env, self.policies = env, policies
        self._open: dict[str, tuple[Array, Array, Array]] = {}
        self._left: dict[str, Array] = {}  # where the run was left before the outcome of an action was known, bool[B]
        self._shown: tuple[Any, Any] = (None, None)

    def __repr__(self) -> str:
        return f"<Rollout of {self.env!r} by {dict(self.policies)!r}>"

    def restart(self, where: Array) -> None:
        """Notify the policies that the replicas `where` bool[B] have been reset, while the others play on. Policies see
        their last action there as the one that ended the run."""
        self._left = {role: self._left.get(role, False) | where for role in self._open}
        restart(self.policies.values(), where)

    def play(
        self,
        given: Mapping[str, Array] | None = None,
        step_by: Callable[[Any], Step] | None = None,
        where: Array | None = None,
    ) -> Step:
        """Play one turn, by `env.step` or by the given function: policies act for their roles, and `given` holds the
        actions of the others. To policies, replicas that do not play (`where`) look like ended ones."""
        env, policies, turn = self.env, self.policies, self.env.turn
        single = len(env.roles) == 1
        # The result of the last step, if nothing else has happened since.
        fresh = self._shown[0] is env._state and (single or turn[0] in self._shown[1])
        observation = self._shown[1] if fresh else env.observe()
        seen = {turn[0]: observation} if single else observation
        actions = dict(given or {})
        for role in turn:
            if role not in actions:
                actions[role] = policies[role].act(seen[role], env.action_mask(role))
        chosen = actions[turn[0]] if single else actions
        step = env.step(chosen, where) if step_by is None else step_by(chosen)
        self._shown = (env._state, step.observation)
        for role in turn:
            if role in policies:
                opened: Any = (seen[role], actions[role], np.zeros(actions[role].shape[:2]))
                self._left.pop(role, None)
                if where is not None and role in self._open:  # keep open actions in replicas that do not play
                    opened = tuple(map(np.array, opened))
                    for new, old in zip(opened, self._open[role], strict=True):
                        new[~where] = old[~where]
                self._open[role] = opened
        for role, reward in ({turn[0]: step.reward} if single else step.reward).items():
            if role in self._open:
                obs, action, before = self._open[role]
                self._open[role] = (obs, action, before + reward)
        done = env.done if where is None else env.done | ~where
        for role in turn if single else [r for r in self._open if r in env.turn or done.all()]:
            obs, action, reward = self._open.pop(role)
            policies[role].update(obs, action, reward, done | self._left.pop(role, False))
        return step
