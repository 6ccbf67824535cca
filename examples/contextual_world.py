"""Can agents that meet different contexts learn from each other's noisy counts?

Description
    In each step every one of `N` agents meets one of `C` contexts, drawn uniformly, and pulls one of `K` arms. The arm
    pays 1 with a probability that depends on the context and the arm, and 0 otherwise. Every `period` steps each agent
    publishes how often it pulled each arm in each context since its last message, and how often that paid.
Agents
    N of them, `agent_0 ...`, all at once.
Observation
    Box float32 `[context(C), pulls(CK), wins(CK)]`: the agent's own context, one-hot, and the sums of all counts
    published so far.
Action
    Discrete(K): the arm to pull.
Reward
    What the arm paid, 0 or 1.
Termination
    Truncated after `horizon` steps.
Info
    `regret`: expected reward lost so far against the best arm of each context, mean over agents.
Privacy channels
    `counts` (vector, public): the counts of one period, of which changing one pull moves at most four by 1.
Arguments
    - num_agents, num_contexts, num_arms: N >= 1, C >= 2, K >= 2.
    - period: steps between messages.
    - horizon: steps.
Version history
    v0: first version.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete

import taciturn
from taciturn.compiling.counter_streams import fill, uniform
from taciturn.envs.core import Channel, Functions, Layout, PublicView, Replicas, Role, World, fields, private
from taciturn.policies import Policy
from taciturn.validation import Array, Floats, Ints, integer
from taciturn.wrappers import Laplace


@dataclass(frozen=True, kw_only=True)
class Params:
    num_agents: int = 20
    num_contexts: int = 3
    num_arms: int = 4
    period: int = 10
    horizon: int = 500

    def __post_init__(self) -> None:
        for name, least in {"num_agents": 1, "num_contexts": 2, "num_arms": 2, "period": 1, "horizon": 1}.items():
            integer(name, getattr(self, name), at_least=least, at_most=10**6)


@dataclass(frozen=True)
class State:
    regret: Floats = fields.hidden()
    time: Ints = fields.public()
    means: Floats = fields.hidden(lambda p: (p.num_contexts, p.num_arms))  # probability that an arm pays
    context: Ints = fields.own(lambda p: p.num_agents)  # what each agent meets now
    counts: Floats = fields.own(lambda p: (p.num_agents, 2 * p.num_contexts * p.num_arms))  # since its last message
    published: Floats = fields.received(lambda p: (p.num_agents, 2 * p.num_contexts * p.num_arms))
    sums: Floats = fields.public(lambda p: 2 * p.num_contexts * p.num_arms)  # of the published counts


MEANS, CONTEXTS, REWARDS = 0, 1, 2  # the sources of random numbers


def begin(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    fill(arrays.means, rng, MEANS)
    fill(arrays.context, rng, CONTEXTS, params.num_contexts)


def count(counts: Any, cell: int, paid: float) -> None:
    """Add a pull to the counts of an agent: CK of pulls, then CK of wins."""
    counts[cell] += 1
    counts[len(counts) // 2 + cell] += paid


def pull(state: Any, arrays: Any, actions: Any, params: Any, rng: Any) -> None:
    for agent in range(params.num_agents):
        context, arm = arrays.context[agent], actions[agent]
        means = arrays.means[context]
        arrays.reward[agent] = private(agent, uniform(rng, REWARDS) < means[arm])
        count(arrays.counts[agent], context * params.num_arms + arm, arrays.reward[agent])
        state.regret += (means.max() - means[arm]) / params.num_agents
    state.time += 1


def publish(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    if state.time % params.period == 0:
        arrays.sums[:] += arrays.published.sum(0)
        arrays.counts[:] = 0.0
    fill(arrays.context, rng, CONTEXTS, params.num_contexts)
    return False, state.time >= params.horizon


def observe(seen: Any, params: Any, out: Any) -> None:
    out[: params.num_contexts] = 0.0
    out[seen.context] = 1.0
    out[params.num_contexts :] = seen.sums


class ContextualBandit(Replicas[State]):
    __doc__ = __doc__
    name = "contextual_bandit"
    params: Params
    state_type, sources, info_fields = State, ("means", "contexts", "rewards"), ("regret",)
    functions = Functions(reset=begin, act=pull, receive=publish, observe=observe)

    def make_roles(self) -> tuple[Role, ...]:
        p = self.params
        cells, most = p.num_contexts * p.num_arms, p.num_agents * p.horizon
        layout = Layout(context=(p.num_contexts, 0, 1), pulls=(cells, -most, most), wins=(cells, -most, most))
        return (Role("agent", p.num_agents, layout, Discrete(p.num_arms)),)

    def make_channels(self) -> tuple[Channel, ...]:
        return (Channel("counts", "vector", observer="public", unit="event", disjoint=True, additive=True),)

    def between(self, live: Array) -> None:
        period, shape = self.params.period, (self.num_envs, self.params.num_agents)
        due = np.broadcast_to((self.column("time") % period == 0)[:, None], shape)
        self.deliver("counts", "counts", "published", live, senders=due, sensitivity=4.0, events=period)


contextual_bandit_v0 = World(ContextualBandit, Params)


class SharedGreedy(Policy):
    """Pull the arm that the published counts rate highest in the agent's context, or any arm with probability 0.1."""

    def begin(self, view: PublicView) -> None:
        self._layout, self._num_arms = view.roles[self.role].layout, view.params.num_arms

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        seen = self._layout.unpack(obs)
        rates = np.where(seen["pulls"] < 1, 1.0, np.clip(seen["wins"] / np.maximum(seen["pulls"], 1), 0, 1))
        rates = rates.reshape(*obs.shape[:2], -1, self._num_arms)
        best = np.einsum("bnc,bnck->bnk", seen["context"], rates).argmax(2)
        return np.where(self.rng.random(best.shape) < 0.1, self.rng.integers(0, self._num_arms, best.shape), best)


if __name__ == "__main__":
    env = contextual_bandit_v0.population(num_envs=20)
    for noise in (None, Laplace(1.0), Laplace(0.3)):
        run = taciturn.simulate(env, SharedGreedy(), seed=0, privacy={"counts": noise} if noise else None)
        print(f"{noise}: regret {run.metrics['regret'].mean():.1f}, epsilon {run.metrics['epsilon_basic'].max():g}")
