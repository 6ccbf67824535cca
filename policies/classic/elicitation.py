"""Textbook rules of payment for private data, and textbook answers to them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from taciturn.envs.core import Array, PublicView, integer, number
from taciturn.envs.elicitation.costs import Cost
from taciturn.envs.elicitation.game import Announcement
from taciturn.envs.elicitation.payments import cheapest_epsilon, payment_lower_bound, winner_payment, winning_report
from taciturn.envs.elicitation.reporting import KaryReport
from taciturn.policies.base import Policy
from taciturn.policies.families.elicitation import ExactIndividuals, Individuals, Platform
from taciturn.validation import Floats


class FlatRate(Platform):
    """Pay the same amount for each report.

    Args:
        amount: amount of each payment; None: Theorem 1's bound at the target, the limit of WINTALL's payments, which
            depends on theta.
        target: the budget that the platform assumes; None: the environment's target.
    """

    def __init__(self, amount: float | None = None, target: float | None = None) -> None:
        super().__init__(target)
        self.amount = None if amount is None else number("amount", amount, at_least=0)
        self.needs_truth = amount is None

    def announcement(self, theta: Floats, cost: Cost, target: float | None = None) -> Announcement:
        e = self.aim(target)
        amount = payment_lower_bound(theta, e, cost, self._reporting) if self.amount is None else self.amount
        if not np.isfinite(amount):
            raise ValueError(
                f"amount must be given if theta is uniform, where the bound is infinite, not {self.amount!r}"
            )
        return Announcement("flat_rate", e, amount)


class PostedPrice(Platform):
    """Pay a price for each report of one value: the genie's rule, for a platform that must guess the value.

    Args:
        value: the report that earns the price.
        price: price of each such report; None: the price that elicits the target if the value has probability 2 / M.
        target: the budget that the platform assumes; None: the environment's target.
    """

    def __init__(self, value: int = 0, price: float | None = None, target: float | None = None) -> None:
        super().__init__(target)
        self.value = integer("value", value, at_least=0)
        self.price = None if price is None else number("price", price, at_least=0)

    def announcement(self, theta: Floats, cost: Cost, target: float | None = None) -> Announcement:
        e, price = self.aim(target), self.price
        if price is None:
            price = float(cost.marginal(e)) * (e + theta.size) ** 2
        return Announcement("posted_price", e, price, self.value)


class Genie(Platform):
    """The genie of Theorem 1: it knows theta and attains the bound.

    If the bound is attained above the target, the genie pays for that budget; if theta is uniform, it pays nothing.
    """

    needs_truth = True

    def announcement(self, theta: Floats, cost: Cost, target: float | None = None) -> Announcement:
        """Pay g'(eps*) / (dP_X / d eps) [Jiang 2.20] for the report x*, the most informative one at eps*
        [Jiang 2.16]."""
        e = self.aim(target)
        best, _ = cheapest_epsilon(theta, e, cost, self._reporting)
        value, slope = winning_report(theta, best, self._reporting)
        return Announcement("posted_price", e, float(winner_payment(cost.marginal(best), slope)), int(value))


class OutputAgreement(Platform):
    """Pay an amount for each report that equals the report of a random peer (von Ahn & Dabbish 2004).

    Args:
        amount: payment for agreement; None: the amount at which it is an equilibrium that everyone chooses the target,
            which depends on theta.
        target: e; None: the environment's target.
    """

    rule = "output_agreement"

    def __init__(self, amount: float | None = None, target: float | None = None) -> None:
        super().__init__(target)
        self.amount = None if amount is None else number("amount", amount, at_least=0)
        self.needs_truth = amount is None

    def announcement(self, theta: Floats, cost: Cost, target: float | None = None) -> Announcement:
        e, amount = self.aim(target), self.amount
        reporting = self._reporting or KaryReport(theta.size)
        reference = np.full(reporting.num_reports, 1 / reporting.num_reports)
        if amount is None:
            # The derivative in eps of the expected payment, at the target, if agreement pays 1.
            gain = float(reporting.distribution_slope(theta, e) @ reporting.distribution(theta, e))
            amount = float(cost.marginal(e)) / gain if gain > 1e-13 else 0.0
        return Announcement(self.rule, e, amount, reference=reference)


class PeerTruthSerum(OutputAgreement):
    """Output agreement, divided by the report's share so far (Jurca & Faltings 2011; Radanovic, Faltings & Jurca 2016).

    In the long run, past reports have the distribution of present ones. On average over theta, the expected payment is
    then the same for every report; it is larger for reports that are rarer than believed.

    Args:
        amount: as for `OutputAgreement`; it is the payment for agreement in the first campaign, when all shares are
            equal.
        target: e; None: the environment's target.
    """

    rule = "peer_truth_serum"


class Truthful(Individuals):
    """All individuals choose a fixed budget, whatever the announcement and the cost.

    Args:
        epsilon: the budget; None: the largest budget in the environment.
    """

    def __init__(self, epsilon: float | None = None) -> None:
        self.epsilon = None if epsilon is None else number("epsilon", epsilon, at_least=0)

    def answer(self, seen: dict[str, Array]) -> Array:
        most = self._view.params.max_epsilon
        return np.full(seen["target"].shape, most if self.epsilon is None else min(self.epsilon, most))


class FreeRider(Individuals):
    """All individuals choose eps = 0, so reports are uniformly random."""

    def answer(self, seen: dict[str, Array]) -> Array:
        return np.zeros(seen["target"].shape)


class _Learner(ExactIndividuals):
    """Base of the learners: each knows the distribution of all others' reports so far, and computes expected payments
    exactly.

    That distribution needs every agent's belief and budget, which no agent receives: these individuals are a model, and
    centralised.

    The others' reports are assumed independent with one distribution, the distribution of a randomly chosen report
    under the replica's mean belief. This is exact for individuals with the same belief and cost, and otherwise an
    approximation for large N.
    """

    centralised = True

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        self._memory: Any = None
        self._next: Any = ()  # the memory after this campaign

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        return self.answer(self._layout.unpack(obs))[..., None].astype(np.float32)

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        for old, new in zip(self._memory, self._next, strict=True):
            old[~done] = new[~done]

    def restart(self, where: Array) -> None:
        for old in self._memory or ():
            old[where] = 0.0


class FictitiousPlay(_Learner):
    """Best response to the mean distribution of the others' reports in all campaigns so far; in the first campaign, to
    everyone at the target."""

    def answer(self, seen: dict[str, Array]) -> Array:
        view, belief = self._view, self.beliefs(seen)
        common, target = belief.mean(1), seen["target"][:, 0].astype(np.float64)
        if self._memory is None:
            self._memory = np.zeros((len(common), view.reporting.num_reports)), np.zeros((len(common), 1))
        total, played = self._memory
        distributions = np.where(played > 0, total / np.maximum(played, 1), view.reporting.distribution(common, target))
        budget, answer = self.best(seen, belief, self.expected(seen, distributions[:, None]))
        self._next = total + view.reporting.distribution(common[:, None], budget).mean(1), played + 1
        return answer


class Hedge(_Learner):
    """Exponential weights over budgets, by their expected payoffs in past campaigns (Freund & Schapire 1997).

    Args:
        num_budgets: K, evenly spaced from 0 to twice the environment's target.
        rate: weights are e^(rate * sum of payoffs), each payoff divided by the range in its campaign; None: sqrt(8 log
            K / t) at campaign t.
    """

    def __init__(self, num_budgets: int = 21, rate: float | None = None) -> None:
        self.num_budgets = integer("num_budgets", num_budgets, at_least=2)
        self.rate = None if rate is None else number("rate", rate, above=0)

    def answer(self, seen: dict[str, Array]) -> Array:
        view, belief, p = self._view, self.beliefs(seen), self._view.params
        budgets = np.linspace(0, min(2 * p.targets[1], p.max_epsilon), self.num_budgets)
        if self._memory is None:
            self._memory = np.zeros((*belief.shape[:2], self.num_budgets)), np.zeros((len(belief), 1, 1))
        total, played = self._memory
        rate = np.sqrt(8 * np.log(self.num_budgets) / np.maximum(played, 1)) if self.rate is None else self.rate
        weights = np.exp(rate * (total - total.max(-1, keepdims=True)))
        weights /= weights.sum(-1, keepdims=True)
        below = np.cumsum(weights, -1) <= self.rng.random(belief.shape[:2])[..., None]
        chosen = budgets[np.minimum(below.sum(-1), self.num_budgets - 1)]

        distributions = (
            weights.mean(1)[..., None] * view.reporting.distribution(belief.mean(1)[:, None], budgets)
        ).sum(1)
        prizes = self.expected(seen, distributions[:, None])[:, 0]
        payments = np.einsum("bnkx,bx->bnk", view.reporting.distribution(belief[:, :, None], budgets), prizes)
        payoffs = payments - self.cost_factors(seen)[..., None] * view.cost(budgets)
        extent = payoffs.max(-1, keepdims=True) - payoffs.min(-1, keepdims=True)
        self._next = total + payoffs / np.where(extent > 0, extent, 1.0), played + 1
        return chosen


class Mixture(Policy):
    """A population of several kinds of individuals, each kind a block of consecutive individuals with a separate
    policy.

    Args:
        parts: pairs (policy, share), shares > 0; shares are normalised, and block boundaries rounded to whole
            individuals.
    """

    def __init__(self, parts: Sequence[tuple[Any, float]]) -> None:
        if not parts:
            raise ValueError("parts must hold at least one pair (policy, share), not none")
        self.parts = [(policy, number("share", share, above=0)) for policy, share in parts]

    @property
    def needs_truth(self) -> bool:  # type: ignore[override]
        """True if any part needs the truth."""
        return any(policy.needs_truth for policy, _ in self.parts)

    @property
    def centralised(self) -> bool:  # type: ignore[override]
        """True if any part is centralised."""
        return any(policy.centralised for policy, _ in self.parts)

    def begin(self, view: PublicView) -> None:
        shares = np.cumsum([share for _, share in self.parts])
        ends = np.rint(shares / shares[-1] * view.roles[self.role].num_agents).astype(int)
        self._blocks = []
        for (policy, _), start, end in zip(self.parts, [0, *ends[:-1].tolist()], ends.tolist(), strict=True):
            policy.reset(view, self.rng, self.role)
            if end > start:
                self._blocks.append((policy, slice(start, end)))

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        return np.concatenate([policy.act(obs[:, rows]) for policy, rows in self._blocks], axis=1)

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        for policy, rows in self._blocks:
            policy.update(obs[:, rows], action[:, rows], reward[:, rows], done)

    def restart(self, where: Array) -> None:
        for policy, _ in self._blocks:
            policy.restart(where)
