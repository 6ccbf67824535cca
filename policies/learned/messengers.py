"""Messengers that learn what to make of their own pulls and of what they hear, by an evolution strategy."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from taciturn.envs.core import Array, Population, PublicView, number
from taciturn.envs.federated_bandit.world import FederatedBandit
from taciturn.envs.gossip_bandit.world import GossipBandit
from taciturn.envs.social_bandit.world import SocialBandit
from taciturn.policies.designed.federated_bandit import DividedPlan
from taciturn.policies.designed.listener import one_answer
from taciturn.policies.designed.social import always, beta_belief, holds, improves, most_hopeful
from taciturn.policies.families.social import SocialPolicy
from taciturn.policies.learned.evolution import Evolved
from taciturn.privacy.mechanisms import BitwiseRandomizedResponse, Mechanism
from taciturn.validation import Floats, Ints
from taciturn.wrappers.remembering import SocialMemory


def sigmoid(x: Array | float) -> Floats:
    """1 / (1 + e^-x)."""
    return 0.5 * (1.0 + np.tanh(0.5 * np.asarray(x)))


def of_replicas(weights: Mapping[str, Any]) -> dict[str, Floats]:
    """Weights as arrays that broadcast to [B, rows, K]: one for all replicas, or [B]."""
    return {name: np.reshape(np.asarray(value, np.float64), (-1, 1, 1)) for name, value in weights.items()}


class LearnedListener(SocialPolicy, Evolved):
    """Agents of social learning with the memory of `Remembering`, and eight learned weights that all of them share.

    As `Listener`, an agent gives one answer, at a public moment, and repeats it to everybody (`Scheduled`). It acts on
    the statistics of `SocialMemory`: what an agent has heard counts as further signals of each option,

        n = e^count answers / N signals, of which the share sigmoid(level + share x_k + lead y_k) is 1,
        x_k = heard_k - 1/K,    y_k = heard_k - max_l heard_l.

    With its own signals they give a Beta posterior, of mean m_k and standard deviation s_k. The agent pulls the option
    of the largest m_k + e^o (1 - t/T)^(e^f) s_k, where o and f are the weights `before` and `before_fades` until it has
    heard an answer, and `after` and `after_fades` from then on. It adopts as `HoldTheBest` does. No possible worlds are
    weighed, and no agents are simulated: what an answer is worth is learned.

    It trains at its first reset, in practice worlds with the same setting and mechanisms.

    Args:
        moment: of the answer, in expected ticks of an agent's clock, or in rounds.
        generations: of the evolution strategy.
        replicas: runs that a candidate plays in a generation.
        step: the strategy's first standard deviation.
        weights: the weights, if they were learned before; None: they are learned.
        seed: of all randomness in training.
    """

    initial: ClassVar[Mapping[str, float]] = {
        "count": 2.0, "level": 0.0, "share": 2.0, "lead": 0.0,
        "before": 0.7, "before_fades": -2.0, "after": 1.0, "after_fades": -2.0,
    }  # fmt: skip
    measures: ClassVar[Mapping[str, str]] = {"gossip_bandit": "popularity_regret", "social_bandit": "pseudo_regret"}

    def __init__(
        self,
        moment: float = 4.0,
        *,
        generations: int = 20,
        replicas: int = 200,
        step: float = 0.5,
        weights: Mapping[str, float] | None = None,
        seed: int = 0,
    ) -> None:
        self.moment = number("moment", moment, above=0, at_most=1000)
        super().__init__(generations, replicas, step, weights, seed)

    def within(self, view: PublicView, total: float) -> dict[str, Mechanism]:
        """All of the total on the one answer."""
        return one_answer(BitwiseRandomizedResponse(total), self.moment, view)

    def check(self, view: PublicView) -> None:
        rounds = issubclass(view.world, SocialBandit)
        fits = rounds or (issubclass(view.world, GossipBandit) and view.params.reward == "pull")
        self.require(fits, "social_bandit, and in gossip_bandit with reward='pull'", view)

    def begin(self, view: PublicView) -> None:
        Evolved.begin(self, view)

    def look(self, view: PublicView) -> None:
        SocialPolicy.begin(self, view)

    def prepare(self, view: PublicView) -> None:
        assert self.weights is not None
        self._rounds, self._memory = issubclass(view.world, SocialBandit), SocialMemory(view, view.world, self.role)
        self._others, self._w = view.params.num_agents, of_replicas(self.weights)
        self._all = np.ones(view.num_envs, np.bool_)

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        self._acting = self.agents()
        self._memory.receive(obs, self._acting, self._all)
        known, held, w = self._memory.known(self._acting), self._memory.held(self._acting), self._w
        ones, zeros, listens = self.evidence(known)
        belief = beta_belief(ones, zeros)
        left = (known["turns_left"] / np.maximum(known["turns_left"] + known["turns"], 1.0))[..., None]
        hope = np.where(
            listens[..., None],
            np.exp(w["after"]) * left ** np.exp(w["after_fades"]),
            np.exp(w["before"]) * left ** np.exp(w["before_fades"]),
        )
        option = most_hopeful(belief, hope, self.rng)
        if self._rounds:
            return self.plan(option, *always(option))
        option = improves(belief, held, option)
        return self.plan(option, *holds(ones, zeros, option))

    def evidence(self, known: dict[str, Array]) -> tuple[Floats, Floats, Array]:
        """Signals 1 and 0 of each option, own and heard, [B, rows, K], and whether an answer was heard, [B, rows]."""
        w, heard = self._w, known["heard"]
        x, y = heard - 1 / heard.shape[-1], heard - heard.max(-1, keepdims=True)
        quality = sigmoid(w["level"] + w["share"] * x + w["lead"] * y)
        count = np.exp(w["count"]) * known["answers"][..., None] / self._others
        return known["hits"] + count * quality, known["misses"] + count * (1 - quality), known["answers"] > 0

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        self._memory.learn(action, reward, self._acting, ~done)

    def restart(self, where: Array) -> None:
        self._memory.forget(where)


class LearnedPlan(Evolved, DividedPlan):
    """`DividedPlan` with learned indices, of four weights that all agents share.

    Agents choose by

        m + s e^level log(1 + L / (n + 2))^(e^power),

    where an arm of n pulls has a Beta posterior of mean m and standard deviation s, and L are the pulls to come: of all
    agents, with the weights `shared` and `shared_power`, where they divide the arms; its own, with `own` and
    `own_power`, where each is on its own. The plan, and what averages with noise tell, are as `DividedPlan` says.

    It trains at its first reset, in practice worlds with the same setting and mechanisms.

    Args:
        pulls: of one arm by each agent in the first batch.
        growth: of the length of batches, >= 1.
        until: share of the run in which batches are played, in [0, 1].
        generations, replicas, step, weights, seed: as for `LearnedListener`.
    """

    public_schedule = True
    initial: ClassVar[Mapping[str, float]] = {"shared": 0.0, "shared_power": -0.7, "own": 0.0, "own_power": -0.7}
    measures: ClassVar[Mapping[str, str]] = {"federated_bandit": "regret_per_agent"}

    def __init__(
        self,
        pulls: int = 2,
        growth: float = 1.3,
        until: float = 0.35,
        *,
        generations: int = 12,
        replicas: int = 40,
        step: float = 0.5,
        weights: Mapping[str, float] | None = None,
        seed: int = 0,
    ) -> None:
        DividedPlan.__init__(self, pulls, growth, until)
        self.pulls = self.first
        Evolved.__init__(self, generations, replicas, step, weights, seed)

    def check(self, view: PublicView) -> None:
        fits = issubclass(view.world, FederatedBandit) and view.params.topology == "server"
        self.require(fits, "federated_bandit with topology='server'", view)

    def begin(self, view: PublicView) -> None:
        Evolved.begin(self, view)

    def look(self, view: PublicView) -> None:
        assert self.weights is not None
        self._w = of_replicas(self.weights)
        DividedPlan.begin(self, view)

    def qualities(self, world: Population[Any]) -> Floats:
        return np.asarray(world.state.quality.mean(1))

    def _divide(self, counts: Floats, hits: Floats, left: Array, worth: Floats | float) -> Ints:
        pending = np.arange(self._agents) * np.broadcast_to(np.asarray(worth, np.float64), counts.shape)[..., None]
        mean, n = (1 + hits) / (counts + 2.0), counts[..., None] + pending
        index = self._index(mean[..., None], n, left[..., None], "shared")
        best = np.argsort(-index.reshape(len(index), -1), axis=-1, kind="stable")[:, : self._agents]
        return best // self._agents

    def _own_choice(self, counts: Floats, hits: Floats, left: Array) -> Ints:
        return np.argmax(self._index((1 + hits) / (counts + 2.0), counts, left, "own"), -1)

    def _index(self, mean: Floats, n: Floats, left: Array, name: str) -> Floats:
        """The index of arms of posterior means `mean` after n pulls, with `left` pulls to come."""
        m, level, power = np.clip(mean, 0.0, 1.0), np.exp(self._w[name]), np.exp(self._w[f"{name}_power"])
        return mean + np.sqrt(m * (1 - m) / (n + 3.0)) * level * np.log1p(left / (n + 2.0)) ** power
