"""An agent's memory of a run as part of its observations, in every interface."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from taciturn.channels.replies import distinct, unbiased
from taciturn.envs.core import (
    AECView,
    Array,
    ControlledAgent,
    Layout,
    ParallelView,
    Played,
    Population,
    PublicView,
    Role,
    SingleEnv,
    Step,
    VectorView,
)
from taciturn.envs.core.info import Info
from taciturn.envs.core.preferences import read_messages, split_plan
from taciturn.envs.core.steps import check_room, filled
from taciturn.envs.federated_bandit.model import noise_of_sums
from taciturn.envs.federated_bandit.world import MEAN_BOUNDS, FederatedBandit
from taciturn.envs.gossip_bandit.world import GossipBandit
from taciturn.envs.social_bandit.world import SocialBandit
from taciturn.privacy.mechanisms import Memoized, Scheduled
from taciturn.validation import Bools, Floats, Ints

MOST = 2.0**24
"""Bound of counts: float32 represents every whole number up to here."""
MOST_NOISE = 1000.0
"""Bound of variances."""
VIEWS = (SingleEnv, VectorView, ParallelView, AECView)


class Memory(Protocol):
    """The memory of each agent of each replica, from its own observations, actions and rewards alone."""

    def fields(self) -> dict[str, tuple[int, float, float]]:
        """The fields of its statistics, as in a `Layout`."""

    def forget(self, over: Bools) -> None:
        """Clear the memory in these replicas, bool[B]."""

    def receive(self, obs: Array, agents: Ints, where: Bools) -> None:
        """Add the observations [B, rows, D] of `agents` [B, rows], in the replicas `where`."""

    def learn(self, action: Array, reward: Array, agents: Ints, where: Bools) -> None:
        """Add the actions that `agents` then took, and their rewards [B, rows]."""

    def known(self, agents: Ints) -> dict[str, Array]:
        """The statistics of `agents` [B, rows], [B, rows] or [B, rows, size] each."""


def kind_of(population: Any) -> type[Population[Any]]:
    """The environment's own class, without wrapping populations."""
    while isinstance(population, Played):
        population = population.inner
    return type(population)


class SocialMemory:
    """Memory of agents in `gossip_bandit_v0` and `social_bandit_v0`.

    Its statistics, for K options:

    - `hits`, `misses` [K]: the signals 1 and 0 of each option that the agent has seen. In `gossip_bandit_v0` the reward
      is the signal of the option pulled. In `social_bandit_v0` the reward is the signal of the option held when the
      round began; if the plan adopts another option on one signal only, the agent's next preference reveals that
      option's signal.
    - `heard` [K]: the unbiased estimate of the share of agents that hold each option, (H - q) / (p - q), where H is the
      share of all received copies with the bit set, and a bit is read as 1 with probability p if it is 1 and q if
      it is 0. Under `Scheduled`, messages before the answers are zeros, which are not counted.
    - `noise` [K]: the variance of the mechanism's noise in `heard`,
      (s p (1 - p) + (1 - s) q (1 - q)) / (n (p - q)^2) for a share s (`heard`, clipped to [0, 1]) and n answers.
    - `answers`: n, the number of independent answers that the copies count as (`distinct` if answers are repeated;
      otherwise each copy is one); 0 if nothing was received, and then `heard` and `noise` are 0.
    - `turns`, `turns_left`: how often the agent has acted, and is expected to act until the horizon.

    Args:
        view: the public view of the environment.
        world: its class.
        role: the agents' role.

    Raises:
        ValueError: the reward does not reveal the signal.
    """

    def __init__(self, view: PublicView, world: type[Any], role: str = "agent") -> None:
        params, mechanism = view.params, view.channels["preference"].mechanism
        self._rounds = issubclass(world, SocialBandit)
        if not self._rounds and params.reward != "pull":
            raise ValueError(f"reward must be 'pull' for agents to remember signals, not {params.reward!r}")
        self._layout, self._scale, self._distribution = (
            view.roles[role].layout,
            float(view.reply_scale),
            view.reply_distribution,
        )
        self._others, self._options, self._flat = params.num_agents, params.num_options, params.flat_actions
        self._shape = (view.num_envs, view.roles[role].num_agents)
        self._repeated = isinstance(mechanism, Scheduled | Memoized)
        self._waits = isinstance(mechanism, Scheduled)
        self._ends = float(view.horizon) * (1.0 if self._rounds else float(params.rate))
        self._signals = np.zeros((*self._shape, self._options, 2), np.int64)  # signals 0 and 1
        self._copies: Floats = np.zeros((*self._shape, self._options + 2))  # bits set, copies, and requests
        self._turns = np.zeros(self._shape, np.int64)
        self._held = np.full(self._shape, -1)
        self._asked = np.full(self._shape, -1)  # the option with a signal that shows in the agent's next preference
        self._wanted = np.zeros(self._shape, np.bool_)  # the signal on which it is adopted

    def fields(self) -> dict[str, tuple[int, float, float]]:
        k = self._options
        counts, one = (k, 0.0, MOST), (1, 0.0, MOST)
        shares = {"heard": (k, *MEAN_BOUNDS), "noise": (k, 0.0, MOST_NOISE)}
        return {"hits": counts, "misses": counts, **shares, "answers": one, "turns": one, "turns_left": one}

    def forget(self, over: Bools) -> None:
        self._signals[over], self._copies[over], self._turns[over] = 0, 0, 0
        self._asked[over] = -1

    def receive(self, obs: Array, agents: Ints, where: Bools) -> None:
        seen, at = read_messages(self._layout, obs, self._scale), (np.arange(len(agents))[:, None], agents)
        plays, asked = np.broadcast_to(where[:, None], agents.shape), self._asked[at]
        signal = (seen.own == asked) == self._wanted[at]
        self._count(np.where(plays, asked, -1), signal, agents)
        self._asked[at] = np.where(plays, -1, asked)
        self._held[at] = np.where(plays, seen.own, self._held[at])
        before = self._copies[at]
        said = seen.counts.any(-1) | (before[..., -1] > 0) if self._waits else seen.received > 0
        new = np.concatenate([seen.counts, seen.received[..., None], (seen.received > 0)[..., None]], -1)
        self._copies[at] = np.where((said & plays)[..., None], before + new, before)

    def learn(self, action: Array, reward: Array, agents: Ints, where: Bools) -> None:
        option, on_zero, on_one = split_plan(action, self._flat)
        at, plays = (np.arange(len(agents))[:, None], agents), np.broadcast_to(where[:, None], agents.shape)
        pulled = np.where(option < self._options, option, -1)
        rewarded = self._held[at] if self._rounds else pulled
        self._count(np.where(plays, rewarded, -1), reward > 0, agents)
        if self._rounds:
            tells = plays & (pulled >= 0) & (on_zero != on_one) & (pulled != rewarded)
            self._asked[at] = np.where(tells, pulled, self._asked[at])
            self._wanted[at] = np.where(tells, on_one == 1, self._wanted[at])
        self._turns[at] += plays

    def _count(self, option: Ints, signal: Bools, agents: Ints) -> None:
        """Count a signal of `option` [B, rows] (-1: none) for each agent."""
        at = np.nonzero(option >= 0)
        self._signals[at[0], agents[at], option[at], signal[at].astype(np.int64)] += 1

    def held(self, agents: Ints) -> Ints:
        """The options that `agents` [B, rows] held at their last observation, -1 for none."""
        return self._held[np.arange(len(agents))[:, None], agents]

    def known(self, agents: Ints) -> dict[str, Array]:
        at, (p, q) = (np.arange(len(agents))[:, None], agents), self._distribution
        bits, copies, requests = np.split(self._copies[at], [self._options, self._options + 1], -1)
        share = copies / (np.maximum(requests, 1e-300) * self._others)
        share = 1.0 / self._others if self._rounds else np.minimum(share, 1.0)
        answers = distinct(copies, self._others, share) if self._repeated else copies
        estimate = unbiased(bits, copies[..., 0], p, q)
        shares = np.clip(estimate, 0.0, 1.0)
        each = (shares * p * (1 - p) + (1 - shares) * q * (1 - q)) / (p - q) ** 2
        turns = self._turns[at]
        return {
            "hits": self._signals[at][..., 1],
            "misses": self._signals[at][..., 0],
            "heard": estimate,
            "noise": np.where(answers > 0, each / np.maximum(answers, 1e-300), 0.0),
            "answers": answers[..., 0],
            "turns": turns,
            "turns_left": np.maximum(self._ends - turns, 0.0),
        }


class FederatedMemory:
    """Memory of agents in `federated_bandit_v0` with a server. Their observations already have their pulls, their
    means, the time and the last average.

    Its statistics, for K arms:

    - `uploaded` [K]: the agent's pulls that have entered one of its uploads.
    - `noise` [K]: the variance of the noise in the mean of its uploads (`private` in the observation),
      sum_j n_j^2 s(n_j) / n^2, where upload j was of n_j pulls, s(n) is the variance of the mechanism's noise in a mean
      of n pulls, and n = sum_j n_j; 0 without any.
    - `others` [K]: (M b - y) / (M - 1), for the last average b and the mean y of the agent's own uploads: the average
      without these, if all M agents have uploaded a mean of the arm; b itself where the agent has uploaded none.

    Args:
        view: the public view of the environment.
        world: its class.
        role: the agents' role.

    Raises:
        ValueError: the environment has no server.
    """

    def __init__(self, view: PublicView, world: type[Any], role: str = "agent") -> None:
        if view.params.topology != "server":
            raise ValueError(f"topology must be 'server' for agents to remember uploads, not {view.params.topology!r}")
        self._layout, self._arms, self._agents = view.roles[role].layout, view.params.arms, view.params.num_agents
        shape = (view.num_envs, view.roles[role].num_agents, self._arms)
        self._mechanism: Any = view.channels["means"].mechanism
        self._fresh, self._uploaded = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        self._spread, self._seen = np.zeros(shape), np.zeros((2, *shape))  # noise variance in the sums; b and y

    def fields(self) -> dict[str, tuple[int, float, float]]:
        k = self._arms
        return {"uploaded": (k, 0.0, MOST), "noise": (k, 0.0, MOST_NOISE), "others": (k, *MEAN_BOUNDS)}

    def forget(self, over: Bools) -> None:
        for values in (self._fresh, self._uploaded, self._spread):
            values[over] = 0

    def receive(self, obs: Array, agents: Ints, where: Bools) -> None:
        seen = self._layout.unpack(obs.astype(np.float64))
        for values, name in zip(self._seen, ("broadcast", "private"), strict=True):
            values[where] = seen[name].reshape(values.shape)[where]

    def learn(self, action: Array, reward: Array, agents: Ints, where: Bools) -> None:
        arm, plays = action % self._arms, np.broadcast_to(where[:, None], action.shape)
        self._fresh += (np.arange(self._arms) == arm[..., None]) & plays[..., None]
        sends = (action >= self._arms) & plays
        if sends.any():
            sent = np.where(sends[..., None], self._fresh, 0)
            self._uploaded += sent
            self._spread += noise_of_sums(self._mechanism, sent, self._agents)
            self._fresh -= sent

    def known(self, agents: Ints) -> dict[str, Array]:
        average, own = self._seen
        others = (self._agents * average - own) / max(self._agents - 1, 1)
        told = self._uploaded > 0
        return {
            "uploaded": self._uploaded,
            "noise": np.where(told, self._spread / np.maximum(self._uploaded, 1) ** 2, 0.0),
            "others": np.where(told, others, average),
        }


MEMORIES: dict[type[Any], type[SocialMemory] | type[FederatedMemory]] = {
    GossipBandit: SocialMemory, SocialBandit: SocialMemory, FederatedBandit: FederatedMemory,
}  # fmt: skip


def memory_of(population: Population[Any], role: str) -> Memory:
    """An empty memory for the agents of a population; ValueError if its environment has none."""
    world = kind_of(population)
    for kind, memory in MEMORIES.items():
        if issubclass(world, kind) and world.name == kind.name:
            return memory(PublicView(population), world, role)
    names = ", ".join(kind.name for kind in MEMORIES)
    raise ValueError(f"env must be of one of {names} for its agents to remember, not of {world.name}")


class RememberingPopulation(Played):
    """A population with agents that also observe their memory; see `Remembering`."""

    name = "remembering"
    _memory: Memory

    def __init__(self, population: Population[Any]) -> None:
        if len(population.roles) != 1:
            raise ValueError(f"env must have one role for its agents to remember, not {list(population.roles)}")
        super().__init__(population, next(iter(population.roles)), {})

    def make_roles(self) -> tuple[Role, ...]:
        (role,) = super().make_roles()
        fields = memory_of(self.inner, role.name).fields() | {"left": (1, 0.0, 1.0)}
        both = Layout(**{**role.layout.fields, **fields})
        self._added = Layout(**fields)
        return (Role(role.name, role.num_agents, both, role.action_space),)

    def reset(self, *, seed: int | None = None, options: Any = None, where: Array | None = None) -> tuple[Array, Info]:
        _, info = self.inner.reset(seed=seed, options=options, where=where)
        if where is None:
            self._follow_params()
            self._memory = memory_of(self.inner, self.role)
        else:
            self._memory.forget(where)
        self._receive(~self.done if where is None else where & ~self.done)
        return self.observe(), info

    def step(self, actions: Any, where: Array | None = None, out: Array | None = None) -> Step:
        frozen = self._running(where)
        chosen = self.roles[self.role].check(actions, (self.num_envs, self.rows(self.role)))
        check_room(self, out)
        agents = self._agents(self.acting(self.role))
        step = self.inner.step(chosen, where)
        self._memory.learn(chosen, step.reward, agents, ~frozen)
        self._receive(~frozen & ~self.done)
        return Step(filled(out, self.observe()), step.reward, self.terminated, self.truncated, lambda: step.info)

    def _agents(self, rows: Array | None) -> Ints:
        """The agents of rows, [B, rows]; all, in order, if None."""
        everyone = np.arange(self.roles[self.role].num_agents)
        return np.broadcast_to(everyone, (self.num_envs, everyone.size)) if rows is None else rows

    def _receive(self, where: Bools) -> None:
        rows = self.acting(self.role)
        seen = self.inner.look(self.role, rows)
        self._memory.receive(seen, self._agents(rows), where)

    def look(self, role: str, rows: Array | None = None) -> Array:
        agents = self._agents(rows)
        known = self._added.pack(**self._memory.known(agents), left=self._left(agents))
        return np.concatenate([self.inner.look(role, rows), known], -1)

    def _left(self, agents: Ints) -> Floats:
        """The share of informative messages, within the budget, that agents [B, rows] have not sent yet; 1 where there
        is no such limit."""
        (channel,) = self.inner.channels.values()
        mechanism, budget, limit = channel.config.mechanism, channel.config.budget, np.inf
        if isinstance(mechanism, Scheduled):
            limit = float(mechanism.at)
        elif budget is not None and mechanism is not None:
            limit = budget.messages(mechanism.loss())
        if not np.isfinite(limit):
            return np.ones(agents.shape)
        number = agents + self.inner.agent if isinstance(self.inner, ControlledAgent) else agents
        sent = channel.messages()[np.arange(len(agents))[:, None], number]
        if isinstance(mechanism, Scheduled):
            return (sent < limit).astype(np.float64)
        return np.maximum(1.0 - sent / limit, 0.0)


def Remembering(env: Any) -> Any:
    """The environment with each agent's memory in its observations, in the same interface; `env` itself is not
    changed.

    An agent remembers its own observations and received messages, so a policy without memory can act on sufficient
    statistics: its own pulls, and the content of all messages so far, with the mechanism's bias removed and the
    variance of its noise (`SocialMemory`, `FederatedMemory`). The fields are added to the environment's own, with
    `left`, the share of an agent's messages under a privacy budget that it has not sent yet (under `Scheduled`: 1 until
    its answer is drawn, then 0; 1 without a limit). The last observation of a run adds nothing to the memory.

    `Privatize` and `Faulty` can be put around the result, or around a population inside it.

    Args:
        env: a population (also a `ControlledAgent`), a Gymnasium environment or vector environment, or a PettingZoo
            Parallel or AEC environment of `gossip_bandit_v0`, `social_bandit_v0`, or `federated_bandit_v0` with a
            server, without other wrappers.

    Raises:
        ValueError: `env` is none of these, or its rewards do not reveal the signals to agents.
    """
    if isinstance(env, Population):
        return RememberingPopulation(env)
    if not isinstance(env, VIEWS):
        raise ValueError(
            f"env must be a population or a bare environment of this suite, not {env!r}: put other wrappers around the "
            "result"
        )
    make: Callable[..., Any] = type(env)
    more = {"autoreset_mode": env.autoreset_mode} if isinstance(env, VectorView) else {}
    return make(RememberingPopulation(env.population), render_mode=env.render_mode, **more)
