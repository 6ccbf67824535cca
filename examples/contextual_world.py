"""Can agents that meet different contexts learn from each other's noisy counts?

Description
    In each step every one of `N` agents meets one of `C` contexts, drawn uniformly, and pulls one of `K` arms. The arm pays 1 with a
    probability that depends on the context and the arm, and 0 otherwise. Every `period` steps each agent publishes how often it pulled each
    arm in each context since its last message, and how often that paid.
Agents
    N of them, `agent_0 ...`, all at once.
Observation
    Box float32 `[context(C), pulls(CK), wins(CK)]`: the agent's own context, one-hot, and the sums of all counts published so far.
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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete

import taciturn
from taciturn.envs.core import Array, Channel, ChannelConfig, Layout, Population, PublicView, Role, World, integer
from taciturn.policies import Policy
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
            integer(name, getattr(self, name), at_least=least)


@dataclass(frozen=True)
class State:
    means: Array  # float64[B, C, K]: probability that an arm pays
    context: Array  # int64[B, N]: what each agent meets now
    counts: Array  # float64[B, N, 2CK]: its pulls and wins since its last message
    public: Array  # float64[B, 2CK]: sums of the published counts
    regret: Array  # float64[B]
    time: Array  # int64[B]


def count(context: Array, arm: Array, reward: Array, num_contexts: int, num_arms: int) -> Array:
    """One pull of every agent as counts: CK of pulls, then CK of wins, float64[B, N, 2CK]."""
    pulled = (context * num_arms + arm)[..., None] == np.arange(num_contexts * num_arms)
    return np.concatenate([pulled, pulled * reward[..., None]], axis=2)


class ContextualBandit(Population[State]):
    __doc__ = __doc__
    name = "contextual_bandit"
    params: Params

    def make_roles(self) -> tuple[Role, ...]:
        p = self.params
        cells, most = p.num_contexts * p.num_arms, p.num_agents * p.horizon
        layout = Layout(context=(p.num_contexts, 0, 1), pulls=(cells, -most, most), wins=(cells, -most, most))
        return (Role("agent", p.num_agents, layout, Discrete(p.num_arms)),)

    def make_channels(self) -> tuple[Channel, ...]:
        return (Channel("counts", "vector", observer="public", unit="event", disjoint=True),)

    def check_channel(self, channel: str, config: ChannelConfig) -> None:
        law = config.mechanism
        if law is not None and (law.kind not in ("none", "laplace", "gaussian") or law.stateful):
            raise ValueError(f"channel {channel!r} needs a mechanism that adds fresh noise to numbers, not {law!r}")

    def initial(self) -> State:
        p, size = self.params, self.num_envs
        means = self.stream("means").random((size, p.num_contexts, p.num_arms))
        counts = np.zeros((size, p.num_agents, 2 * p.num_contexts * p.num_arms))
        return State(means, self.contexts(), counts, counts[:, 0], np.zeros(size), np.zeros(size, np.int64))

    def contexts(self) -> Array:
        return self.stream("contexts").integers(0, self.params.num_contexts, (self.num_envs, self.params.num_agents))

    def transition(self, state: State, actions: dict[str, Array]) -> tuple[State, dict[str, Array], Array, Array, Any]:
        p, arm, time = self.params, actions["agent"], state.time + 1
        means = np.take_along_axis(state.means, state.context[..., None], axis=1)  # [B, N, K]
        mean = np.take_along_axis(means, arm[..., None], axis=2)[..., 0]
        reward = self.private((self.stream("rewards").random(arm.shape) < mean).astype(np.float64))
        counts = state.counts + count(state.context, arm, reward, p.num_contexts, p.num_arms)
        due = np.broadcast_to((time % p.period == 0)[:, None], arm.shape)
        heard, arrived = self.channels["counts"].send(counts, due, sensitivity=4.0, events=p.period)
        public = state.public + (heard * arrived[..., None]).sum(1)
        regret = state.regret + (means.max(2) - mean).mean(1)
        new = State(state.means, self.contexts(), counts * ~due[..., None], public, regret, time)
        return new, {"agent": reward}, np.zeros_like(self.done), time >= p.horizon, {"regret": regret}

    def empty_info(self) -> dict[str, Any]:
        return {"regret": 0.0}

    def observe_role(self, state: State, role: str, rows: Array | None = None) -> Array:
        context = (state.context[..., None] == np.arange(self.params.num_contexts)).astype(np.float64)
        pulls, wins = np.split(np.broadcast_to(state.public[:, None], state.counts.shape), 2, axis=2)
        return self.roles[role].layout.pack(context=context, pulls=pulls, wins=wins)

    def measures(self) -> dict[str, Callable[[], Array]]:
        return {"regret": lambda: self.state.regret}


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
