"""Other ways to pay for private data, and other ways to answer."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from taciturn.envs.core import Array, PublicView, choice, integer, number
from taciturn.envs.elicitation.game import (
    RULES,
    Announcement,
    Cost,
    best_epsilon,
    informativeness,
    payment_lower_bound,
    winning_report,
)
from taciturn.envs.elicitation.reporting import KaryReport
from taciturn.envs.elicitation.world import CommonBudget
from taciturn.policies.base import Policy
from taciturn.policies.reference.elicitation import Individuals, Platform

__all__ = [
    "FictitiousPlay",
    "FlatRate",
    "FreeRider",
    "Genie",
    "Hedge",
    "Mixture",
    "OutputAgreement",
    "PeerTruthSerum",
    "PostedPrice",
    "Truthful",
]


# Platforms.


class FlatRate(Platform):
    """The same amount for everyone who reports.

    Args:
        amount: per head; None: Theorem 1's bound at the target, so what WINTALL pays in the limit (which takes theta to work out).
        target: which the platform takes for everyone's budget; None: the world's.
    """

    fast = Platform.fast

    def __init__(self, amount: float | None = None, target: float | None = None) -> None:
        super().__init__(target)
        self.amount = None if amount is None else number("amount", amount, at_least=0)
        self.needs_truth = amount is None

    def announcement(self, theta: Array, cost: Cost, target: float | None = None) -> Announcement:
        e = self.aim(target)
        amount = payment_lower_bound(theta, e, cost, self._reporting) if self.amount is None else self.amount
        if not np.isfinite(amount):
            raise ValueError(
                f"amount must be given where theta is uniform and no payment buys anything, not {self.amount!r}"
            )
        return Announcement("flat_rate", e, amount)


class PostedPrice(Platform):
    """A price for each report of one value: what a genie's payment looks like to a platform that must guess.

    Args:
        value: which is bought.
        price: of each report of it; None: what elicits the target if the value has twice its even share, 2 / M.
        target: which the platform takes for everyone's budget; None: the world's.
    """

    fast = Platform.fast

    def __init__(self, value: int = 0, price: float | None = None, target: float | None = None) -> None:
        super().__init__(target)
        self.value = integer("value", value, at_least=0)
        self.price = None if price is None else number("price", price, at_least=0)

    def announcement(self, theta: Array, cost: Cost, target: float | None = None) -> Announcement:
        e, price = self.aim(target), self.price
        if price is None:
            price = float(cost.marginal(e)) * (e + theta.size) ** 2
        return Announcement("posted_price", e, price, self.value)


class Genie(Platform):
    """It knows theta, and pays g'(e) / dP_X for the report that tells most: Theorem 1's bound itself, (2.20).

    Where the bound is attained above the target, that is where it pays for; where theta is uniform, nothing can be bought.
    """

    needs_truth = True
    fast = Platform.fast

    def announcement(self, theta: Array, cost: Cost, target: float | None = None) -> Announcement:
        e = self.aim(target)
        at = np.concatenate([[e], e + np.geomspace(1e-3, 1e4, 4000)])
        told = informativeness(theta, at, self._reporting)
        with np.errstate(divide="ignore", over="ignore"):
            best = at[np.argmin(np.where(told > 1e-13, cost.marginal(at) / told, np.inf))]
        value, slope = winning_report(theta, best, self._reporting)
        return Announcement("posted_price", e, float(cost.marginal(best) / slope) if slope > 0 else 0.0, int(value))


class _Peers(Platform):
    """Base of the rules that compare a report with a peer's.

    Args:
        amount: paid for agreement; None: what makes the target everyone's best response if everyone else has it, which takes theta.
        target: e; None: the world's.
    """

    rule = ""

    def __init__(self, amount: float | None = None, target: float | None = None) -> None:
        super().__init__(target)
        self.amount = None if amount is None else number("amount", amount, at_least=0)
        self.needs_truth = amount is None

    def announcement(self, theta: Array, cost: Cost, target: float | None = None) -> Announcement:
        e, amount = self.aim(target), self.amount
        reporting = self._reporting or KaryReport(theta.size)
        reference = np.full(reporting.num_reports, 1 / reporting.num_reports)
        if amount is None:
            # Marginal payment of eps at the target, if agreement were worth 1.
            prizes = reporting.law(theta, e)
            gain = float(reporting.law_slope(theta, e) @ prizes)
            amount = float(cost.marginal(e)) / gain if gain > 1e-13 else 0.0
        return Announcement(self.rule, e, amount, reference=reference)


class OutputAgreement(_Peers):
    """An amount to each whose report is that of a random peer: von Ahn & Dabbish (2004).

    Args:
        amount: paid for agreement; None: what makes the target everyone's best response if everyone else has it, which takes theta.
        target: e; None: the world's.
    """

    rule = "output_agreement"
    fast = Platform.fast


class PeerTruthSerum(_Peers):
    """The same, divided by how common the report was so far: Jurca & Faltings (2011), Radanovic, Faltings & Jurca (2016).

    In the long run, past reports have the law of present ones: agreement then earns the same whatever is reported, on average over
    theta, and more for what is rarer than was thought.

    Args:
        amount: as for `OutputAgreement`, worked out with the uniform reference of the first campaign.
        target: e; None: the world's.
    """

    rule = "peer_truth_serum"
    fast = Platform.fast


# Individuals.


class Truthful(Individuals):
    """The naive: everyone tells as much as can be told, whatever it costs.

    Args:
        epsilon: the budget; None: the world's largest.
    """

    def __init__(self, epsilon: float | None = None) -> None:
        self.epsilon = None if epsilon is None else number("epsilon", epsilon, at_least=0)

    def answer(self, seen: dict[str, Array]) -> Array:
        return self.budget(seen["target"])

    def budget(self, target: Array) -> Array:
        """What everyone answers to the targets, of their shape."""
        most = self._view.params.max_epsilon
        return np.full(target.shape, most if self.epsilon is None else min(self.epsilon, most))

    def fast(self, view: PublicView) -> CommonBudget:
        return CommonBudget(self.budget)


class FreeRider(Individuals):
    """Everyone reports at random, and hopes to be paid."""

    def answer(self, seen: dict[str, Array]) -> Array:
        return np.zeros(seen["target"].shape)

    def fast(self, view: PublicView) -> CommonBudget:
        return CommonBudget(lambda target: np.zeros(target.shape))


class _Learner(Individuals):
    """Base of the learners: each knows how all others' reports have been distributed, and reckons with that exactly.

    Others are taken to report independently by one law, that of a report picked at random (of the mean belief of the replica), so
    `prizes` is exact for individuals who share a belief and a cost, and the game is one of large numbers for others.
    """

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        choice("reporting", self._view.params.reporting, ("k_ary",))
        self._memory: Any = None

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        return self.answer(self._layout.unpack(obs))[..., None].astype(np.float32)

    def expected(self, seen: dict[str, Array], laws: Array) -> Array:
        """What each report earns in expectation, [B, x], if others' reports have the laws [B, x]."""
        p, others = self._view.params, np.array([self._view.params.num_individuals - 1])
        fields = [seen["target"], seen["scale"], self.rules(seen), seen.get("value", np.zeros(seen["target"].shape))]
        rows = np.concatenate([np.stack(fields, -1)[:, 0], seen.get("reference", seen["belief"])[:, 0], laws], -1)
        # Replicas that have come to the same are worked out once.
        different, of = np.unique(rows, axis=0, return_inverse=True)
        found = []
        for (target, scale, rule, value), rest in zip(different[:, :4].tolist(), different[:, 4:], strict=True):
            reference, law = rest[: -laws.shape[1]], rest[-laws.shape[1] :]
            announced = Announcement(RULES[int(rule)], target, scale, int(value), reference, p.payment_cap)
            found.append(announced.prizes(law[None], others))
        return np.stack(found)[of.ravel()]

    def beliefs(self, seen: dict[str, Array]) -> Array:
        """Beliefs in full precision, [B, N, M]."""
        belief = seen["belief"].astype(np.float64)
        return belief / belief.sum(-1, keepdims=True)


class FictitiousPlay(_Learner):
    """Each answers best to how the others' reports have been distributed so far, in all campaigns; at first, as if at the target."""

    def answer(self, seen: dict[str, Array]) -> Array:
        view, belief = self._view, self.beliefs(seen)
        common, target = belief.mean(1), seen["target"][:, 0].astype(np.float64)
        if self._memory is None:
            self._memory = np.zeros((len(common), view.reporting.num_reports)), np.zeros((len(common), 1))
        total, played = self._memory
        laws = np.where(played > 0, total / np.maximum(played, 1), view.reporting.law(common, target))
        factor = seen["cost"].astype(np.float64) / view.cost.c
        prizes = self.expected(seen, laws)[:, None]
        budget, earned = best_epsilon(prizes, belief, view.cost, factor, at_most=view.params.max_epsilon)
        self._memory = total + view.reporting.law(common[:, None], budget).mean(1), played + 1
        return np.where(earned >= 0, budget, -1.0)

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        self._memory = tuple(np.where(done[:, None], 0.0, part) for part in self._memory)


class Hedge(_Learner):
    """Exponential weights over budgets, by the expected payoff that each would have had (Freund & Schapire 1997).

    Args:
        num_budgets: K of them, evenly from 0 to twice the world's target.
        rate: weights are e^(rate / range * sum of payoffs), range that of a campaign's payoffs; None: sqrt(8 log K / t) at campaign t.
    """

    def __init__(self, num_budgets: int = 21, rate: float | None = None) -> None:
        self.num_budgets = integer("num_budgets", num_budgets, at_least=2)
        self.rate = None if rate is None else number("rate", rate, above=0)

    def answer(self, seen: dict[str, Array]) -> Array:
        view, belief, p = self._view, self.beliefs(seen), self._view.params
        budgets = np.linspace(0, min(2 * p.target, p.max_epsilon), self.num_budgets)
        if self._memory is None:
            self._memory = np.zeros((*belief.shape[:2], self.num_budgets)), np.zeros((len(belief), 1, 1))
        total, played = self._memory
        rate = np.sqrt(8 * np.log(self.num_budgets) / np.maximum(played, 1)) if self.rate is None else self.rate
        weights = np.exp(rate * (total - total.max(-1, keepdims=True)))
        weights /= weights.sum(-1, keepdims=True)
        below = np.cumsum(weights, -1) <= self.rng.random(belief.shape[:2])[..., None]
        chosen = budgets[np.minimum(below.sum(-1), self.num_budgets - 1)]

        laws = (weights.mean(1)[..., None] * view.reporting.law(belief.mean(1)[:, None], budgets)).sum(1)
        prizes = self.expected(seen, laws)
        told = np.einsum("bnkx,bx->bnk", view.reporting.law(belief[:, :, None], budgets), prizes)
        payoffs = told - (seen["cost"].astype(np.float64) / view.cost.c)[..., None] * view.cost(budgets)
        extent = payoffs.max(-1, keepdims=True) - payoffs.min(-1, keepdims=True)
        self._memory = total + payoffs / np.where(extent > 0, extent, 1.0), played + 1
        return chosen

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        self._memory = tuple(np.where(done[:, None, None], 0.0, part) for part in self._memory)


class Mixture(Policy):
    """Several kinds of individuals: the first of them by one policy, the next by another, and so on.

    Args:
        parts: pairs (policy, share), shares > 0; they are scaled to add up to 1, and their sum rounded to whole individuals.
    """

    def __init__(self, parts: Sequence[tuple[Any, float]]) -> None:
        if not parts:
            raise ValueError("parts must hold at least one pair (policy, share), not none")
        self.parts = [(policy, number("share", share, above=0)) for policy, share in parts]

    @property
    def needs_truth(self) -> bool:  # type: ignore[override]
        """Whether any of the parts does."""
        return any(policy.needs_truth for policy, _ in self.parts)

    def begin(self, view: PublicView) -> None:
        shares = np.cumsum([share for _, share in self.parts])
        ends = np.rint(shares / shares[-1] * view.roles[self.role].num_agents).astype(int)
        self._rows = [slice(a, b) for a, b in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)]
        for policy, _ in self.parts:
            policy.reset(view, self.rng, self.role)

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        present = [
            (policy, rows) for (policy, _), rows in zip(self.parts, self._rows, strict=True) if rows.stop > rows.start
        ]
        return np.concatenate([policy.act(obs[:, rows]) for policy, rows in present], axis=1)

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        for (policy, _), rows in zip(self.parts, self._rows, strict=True):
            if rows.stop > rows.start:
                policy.update(obs[:, rows], action[:, rows], reward[:, rows], done)
