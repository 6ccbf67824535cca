"""What must a platform pay strangers for private data, if they choose how much noise to add and earn by what they report?

Description
    Individual i holds a value `S_i ~ theta` of M, chooses a budget `eps_i` (or stays away) before seeing it, and reports `X_i` by a
    mechanism `P(x | s; eps_i)`, at a cost `g_i(eps_i)`. The platform announces a target quality and a rule of payment; reports are
    drawn, payments made, and `theta` is estimated as if everyone had chosen the target. So a campaign goes; there are several.

Paper
    Jiang 2020 (dissertation), chapter 2: model 2.2, the bound of Theorem 1, WINTALL and Theorem 2 in 2.3, equations (2.1)-(2.27). Its
    closed forms, and the game of finitely many solved exactly, are in `taciturn.envs.elicitation.game`, the ways to report in
    `taciturn.envs.elicitation.reporting`.

Agents
    `platform_0`, then `individual_0 .. individual_{N-1}`: two turns make a campaign. In the Parallel form a step is a campaign:
    individuals answer the announcement that stands, and the platform's action is the next one; the first is rule 0 at the target of
    the parameters, its scale the marginal cost there.

Observation
    Box float32. Platform: `[target, scale, (rule), (value)]` as announced last, then of the last campaign `shares` of the reports,
    `participation`, `payment` (each participant's, on average), `degenerate`; `past_shares` of all reports so far, `time_left` (share of
    the campaigns), and `reports` (-1: none) if `show_reports`. Individuals: the announcement that stands, `reference` (0 where it does not
    matter), their own `cost` parameter and `belief` about theta. Nobody sees theta, and the platform neither values nor budgets.

Action
    Platform: Box float32 `[target, scale, (rule), (value)]`; `rule` (if there are several) and `value` (if prices may be posted) are
    rounded down; a target below 0.01 counts as 0.01. Individuals: Box float32 `[eps]`; below 0: stay away.

Reward
    Individuals: payment minus cost. Platform: minus all payments, minus `penalty` times, under objective "quality", the sum over
    individuals of what their eps falls short of the parameters' target (who stays away has 0), or, under "error", N times the squared
    error of the estimate, summed over values.

Rules of payment, by the announced `scale` and target e
    - `wintall`: to each report of the winner, `scale (M+e) e / (M f - 1)`, f its share (2.22); the scale stands for g'(e). With other
      mechanisms than k-ary response, (2.15)-(2.18) at the estimate. Degenerate tallies pay 0; nobody is paid above `payment_cap`.
    - `flat_rate`: `scale` to each.
    - `posted_price`: `scale` for each report of the announced `value`.
    - `output_agreement`: `scale` to each whose report is that of a peer, drawn for each from the others (von Ahn & Dabbish 2004).
    - `peer_truth_serum`: the same, divided by M times the report's share in `reference`, which is that of all past reports with one of
      each value added (after Jurca & Faltings 2011, without the constant that may make payments negative).

Termination
    Truncated after `horizon` campaigns.

Info
    After each campaign `theta`, `estimate`, `error` (squared, summed over values), `winner` (-1: none), `tie`, `degenerate`, `payment` (a
    participant's, on average), `lower_bound`, `payment_ratio` (payment over bound; 0 where the bound is infinite), `total_payment`,
    `participation`, `messages` (reports received so far), and by individual `data`, `budgets` (-1: stayed away), `epsilon` (the report's
    level of differential privacy), `payments`, `costs`.

Privacy channels
    `report`: categorical, from individuals to the platform. Individuals perturb what they say by themselves, each at level
    log(1 + eps); no other mechanism is allowed on it. `taciturn.simulate` keeps the ledger of what they chose; elsewhere
    `reset(options={"channels": {"report": ChannelConfig(ledger=Ledger)}})` does. A value enters one report, so at event level the largest
    level counts, and at user level their sum.

Arguments
    - num_individuals: N >= 1.
    - theta: a distribution over M >= 2 values, or M: then it is drawn uniformly from the simplex at each reset.
    - cost: `QuadraticCost(c)`, `LinearCost(c)`, `ExponentialCost(c)`, `LogCost(c)`, or `(g, g')`, functions of arrays.
    - cost_spread: in [0, 1); individual i's cost is `u_i g`, `u_i` uniform in 1 -+ spread; it observes `u_i c` (c = 1 for a pair).
    - belief_concentration: beliefs are drawn from Dirichlet(concentration theta); inf: individuals know theta.
    - horizon: >= 1, campaigns (also called `campaigns`).
    - target: the quality wanted, in [0.01, max_epsilon].
    - objective: "quality" or "error"; penalty: >= 0.
    - rules: those which may be announced.
    - reporting: "k_ary", "rappor" or "oue", the latter two up to M = 10: a report is then one of 2^M bit strings, read as a number.
    - max_epsilon, max_scale: bounds of actions. payment_cap: bound of one payment.
    - show_reports: whether the platform sees who said what.

Deviations from the paper
    Theorem 1 is printed with `g' A` for `g' / A`, as its own (2.19) shows; the bound here is min over eps >= target of `g' / A`.
    A strictly concave payoff is stationary at the target, which (2.5) writes as being 0 there. The equilibrium of Theorem 2 is
    asymptotic, for individuals who think that their report moves no winner: `FiniteBestResponse` and `exploitability` drop that.
    Everyone at eps = 0 is an equilibrium of WINTALL too. Theorem 2 needs concavity, which `g = c log(1 + eps)` lacks:
    `theorem_2_holds` tells, `Wintall` warns. Tallies in which no value is above 1/M pay 0, where (2.22) has no finite value.
    Values are drawn afresh for every campaign, which the paper, having one, leaves open. Individuals who trust the announced target
    can be misled: a low one with a high scale elicits the same budgets for less than the bound.

Registered configurations
    `taciturn/Elicitation-v0`: the platform's side (`taciturn.envs.elicitation.platform`): it chooses WINTALL's scale and target, against
    best responders.

Version history
    v0: first version.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import gymnasium
import numpy as np

from taciturn.envs.core import (
    Array,
    Channel,
    ChannelConfig,
    Fast,
    Layout,
    Population,
    Role,
    World,
    choice,
    integer,
    number,
)
from taciturn.envs.core.population import Acts
from taciturn.envs.elicitation.game import (
    RULES,
    Announcement,
    ExponentialCost,
    LinearCost,
    LogCost,
    QuadraticCost,
    as_cost,
    distribution,
    estimator_error,
    expected_payment,
    exploitability,
    payment_lower_bound,
    theorem_2_holds,
    winning_report,
    wintall_payment,
)
from taciturn.envs.elicitation.reporting import REPORTING, make_reporting
from taciturn.privacy.mechanisms import KaryRandomizedResponse, UnaryEncoding

__all__ = [
    "MIN_TARGET",
    "Elicitation",
    "Params",
    "State",
    "elicitation_v0",
]

WINTALL, FLAT, POSTED, AGREEMENT, SERUM = range(5)
MIN_TARGET = 0.01


# The world.


@dataclass(frozen=True, kw_only=True)
class Params:
    """The world's parameters, checked."""

    num_individuals: int = 100
    theta: Any = (0.4, 0.3, 0.2, 0.1)
    cost: Any = field(default_factory=lambda: QuadraticCost(0.01))
    cost_spread: float = 0.0
    belief_concentration: float = 100.0
    horizon: int = 10
    target: float = 1.0
    objective: str = "quality"
    penalty: float = 1.0
    rules: Sequence[str] = RULES
    reporting: str = "k_ary"
    max_epsilon: float = 10.0
    max_scale: float = 100.0
    payment_cap: float = 1e6
    show_reports: bool = False

    def __post_init__(self) -> None:
        integer("num_individuals", self.num_individuals, at_least=1)
        if isinstance(self.theta, int | np.integer):
            integer("theta", self.theta, at_least=2)
        else:
            distribution("theta", self.theta)
        as_cost(self.cost)
        number("cost_spread", self.cost_spread, at_least=0, below=1)
        if self.belief_concentration != math.inf:
            number("belief_concentration", self.belief_concentration, above=0)
        integer("horizon", self.horizon, at_least=1)
        number("max_epsilon", self.max_epsilon, above=MIN_TARGET)
        number("target", self.target, at_least=MIN_TARGET, at_most=self.max_epsilon)
        choice("objective", self.objective, ("quality", "error"))
        number("penalty", self.penalty, at_least=0)
        if isinstance(self.rules, str) or not self.rules or len(set(self.rules)) < len(self.rules):
            raise ValueError(f"rules must be a sequence of different rules of payment, not {self.rules!r}")
        for rule in self.rules:
            choice("rules", rule, RULES)
        choice("reporting", self.reporting, REPORTING)
        if self.reporting != "k_ary":
            integer("number of values under bitwise reporting", self.num_values, at_least=2, at_most=10)
        number("max_scale", self.max_scale, above=0)
        number("payment_cap", self.payment_cap, above=0)
        choice("show_reports", self.show_reports, (False, True))

    @property
    def num_values(self) -> int:
        """M."""
        return int(self.theta) if isinstance(self.theta, int | np.integer) else len(self.theta)


@dataclass(frozen=True)
class State:
    """B markets; x counts the reports there are, M of them under k-ary response."""

    theta: Array  # float64[B, M]
    belief: Array  # float64[B, N, M], or [B, 1, M] if all know theta
    factor: Array  # float64[B, N]: of the cost
    target: Array  # float64[B]: announced
    scale: Array  # float64[B]
    rule: Array  # int64[B]: place in RULES
    value: Array  # int64[B]: for which a price is posted
    bound: Array  # float64[B]: of Theorem 1, at the target
    counts: Array  # int64[B, x]: reports of the last campaign
    past: Array  # int64[B, x]: of all campaigns
    paid: Array  # float64[B]: to all, last
    degenerate: Array  # bool[B]: last
    winner: Array  # int64[B]: last; -1: none
    budget: Array  # float64[B, N]: eps, last; -1: stayed away
    reports: Array  # int64[B, N]: last, -1: none ([B, 0] unless they are shown)
    campaign: Array  # int64[B]: played
    sums: Array  # float64[B, len(SUMS)]: over the campaigns


SUMS = ("payment", "payment_ratio", "error", "shortfall", "level", "participation", "utility", "degenerate", "paid")


def draw_values(theta: Array, size: int, rng: np.random.Generator) -> Array:
    """S_i ~ theta: int64[B, size] for theta [B, M]."""
    uniform, steps = rng.random((len(theta), size)), np.cumsum(theta, axis=1)[:, :-1]
    if steps.shape[1] > 12:
        return np.stack([np.searchsorted(s, u, side="right") for s, u in zip(steps, uniform, strict=True)])
    values = np.zeros(uniform.shape, np.int64)
    for step in steps.T:
        values += uniform >= step[:, None]
    return values


def draw_winner(counts: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """The most frequent report, ties broken uniformly, int64[B], and whether there was one, bool[B], for counts [B, x]."""
    most = counts == counts.max(-1, keepdims=True)
    tie = most.sum(-1) > 1
    return np.argmax(most * (1.0 + rng.random(counts.shape)), -1), tie


@dataclass(frozen=True)
class CommonBudget(Fast):
    """All individuals take part with the same budget: `budget` gives it, float64[B] >= 0, from the announced targets float64[B]."""

    budget: Callable[[Array], Array]


class StandingAnnouncement(Fast):
    """The platform announces one thing in all campaigns, so that asking it once is enough."""


class Elicitation(Population[State]):
    __doc__ = __doc__
    name = "elicitation"
    params: Params
    clock_unit = "step"
    aliases: Mapping[str, str] = {"campaigns": "horizon"}
    hidden = frozenset({"theta"})
    jumps: Mapping[str, type[Fast]] = {"individual": CommonBudget}
    turns = (("platform",), ("individual",))

    def __init__(self, params: Params, num_envs: int = 1) -> None:
        self.cost = as_cost(params.cost)
        self.reporting = make_reporting(params.reporting, params.num_values)
        super().__init__(params, num_envs)

    def make_roles(self) -> tuple[Role, ...]:
        p, m, x = self.params, self.params.num_values, self.reporting.num_reports
        announced: dict[str, tuple[int, float, float]] = {
            "target": (1, 0, p.max_epsilon),
            "scale": (1, 0, p.max_scale),
        }
        if len(p.rules) > 1:
            announced["rule"] = (1, 0, len(p.rules))
        if "posted_price" in p.rules:
            announced["value"] = (1, 0, x)
        self._announced = tuple(announced)
        shares: dict[str, tuple[int, float, float]] = {
            "shares": (x, 0, 1),
            "participation": (1, 0, 1),
            "payment": (1, 0, p.payment_cap),
            "degenerate": (1, 0, 1),
            "past_shares": (x, 0, 1),
            "time_left": (1, 0, 1),
        }
        reports: dict[str, tuple[int, float, float]] = {"reports": (p.num_individuals, -1, x)} if p.show_reports else {}
        high = np.array([high for _, _, high in announced.values()])
        seen = announced | ({"reference": (x, 0, 1)} if "peer_truth_serum" in p.rules else {})
        beliefs = {"cost": (1, 0.0, self.cost.c * (1 + p.cost_spread)), "belief": (m, 0, 1)}
        return (
            Role(
                "platform",
                1,
                Layout(**announced, **shares, **reports),
                gymnasium.spaces.Box(np.zeros(high.size, np.float32), high.astype(np.float32), dtype=np.float32),
            ),
            Role(
                "individual",
                p.num_individuals,
                Layout(**seen, **beliefs),
                gymnasium.spaces.Box(-1.0, p.max_epsilon, (1,), np.float32),
            ),
        )

    def make_channels(self) -> tuple[Channel, ...]:
        kind = KaryRandomizedResponse.kind if self.params.reporting == "k_ary" else UnaryEncoding.kind
        channel = Channel(
            "report", "categorical", observer="platform", unit="event", sender="individual", chosen=kind, disjoint=True
        )
        return (channel,)

    def check_channel(self, channel: str, config: ChannelConfig) -> None:
        if config.mechanism is not None:
            raise ValueError(f"channel {channel!r} takes no mechanism: individuals perturb what they say by themselves")

    def public(self) -> dict[str, Any]:
        """`cost`, g; `reporting`, how values are reported; `announce`, by which the platform makes its action."""
        return {"cost": self.cost, "reporting": self.reporting, "announce": self.announce}

    def initial(self) -> State:
        p, b, n, m = self.params, self.num_envs, self.params.num_individuals, self.params.num_values
        if isinstance(p.theta, int | np.integer):
            theta = self.stream("theta").dirichlet(np.ones(m), b)
        else:
            theta = np.tile(distribution("theta", p.theta), (b, 1))
        belief = theta[:, None]
        if p.belief_concentration != math.inf:
            drawn = self.stream("beliefs").standard_gamma(p.belief_concentration * theta[:, None], (b, n, m))
            mass = drawn.sum(-1, keepdims=True)
            belief = np.where(mass > 0, drawn / np.where(mass > 0, mass, 1.0), theta[:, None])
        spread = self.stream("costs").uniform(1 - p.cost_spread, 1 + p.cost_spread, (b, n))
        nothing, none = np.zeros(b), np.zeros(b, np.int64)
        tally = np.zeros((b, self.reporting.num_reports), np.int64)
        target = np.full(b, p.target)
        return State(
            theta=theta, belief=belief, factor=spread if p.cost_spread else np.ones((b, n)), target=target,
            scale=np.clip(self.cost.marginal(target), 0, p.max_scale), rule=np.full(b, RULES.index(p.rules[0])), value=none,
            bound=self.bounds(theta, target), counts=tally, past=tally, paid=nothing, degenerate=np.zeros(b, np.bool_),
            winner=none - 1, budget=np.full((b, n), -1.0), reports=np.full((b, n if p.show_reports else 0), -1),
            campaign=none, sums=np.zeros((b, len(SUMS))),
        )  # fmt: skip

    def bounds(self, theta: Array, target: Array) -> Array:
        """Theorem 1's bound in each replica, [B]."""
        first = (theta == theta[0]).all() and (target == target[0]).all()
        if first:
            return np.full(len(theta), payment_lower_bound(theta[0], target[0], self.cost, self.reporting))
        return np.asarray(payment_lower_bound(theta, target, self.cost, self.reporting))

    # Announcements.

    def announce(self, rule: str, target: Any, scale: Any, value: Any = 0) -> Array:
        """The platform's action, float32[B, 1, D], that announces this; numbers or [B] each, within the action's bounds.

        Raises:
            ValueError: a rule that is not among the parameters' `rules`.
        """
        rules = self.params.rules
        if rule not in rules:
            raise ValueError(
                f"rule must be one of {', '.join(map(repr, rules))}, not {rule!r}: see the world's parameter rules"
            )
        space: Any = self.roles["platform"].action_space
        fields = {"target": target, "scale": scale, "rule": rules.index(rule) + 0.5, "value": np.asarray(value) + 0.5}
        action = np.stack(
            [np.broadcast_to(np.asarray(fields[name], np.float64), self.num_envs) for name in self._announced], -1
        )
        return np.clip(action[:, None].astype(np.float32), space.low, space.high)

    def default_action(self, role: str) -> Array:
        """Rule 0 at the parameters' target; its scale is the marginal cost there."""
        p = self.params
        return self.announce(p.rules[0], p.target, self.cost.marginal(p.target))

    def announced(self, state: State, action: Array) -> State:
        """The state after the platform's action [B, D]."""
        fields = dict(zip(self._announced, action.astype(np.float64).T, strict=True))
        rules = np.array([RULES.index(rule) for rule in self.params.rules])
        target, rule, value = (
            np.maximum(fields["target"], np.float32(MIN_TARGET)),
            rules[0] + np.zeros(self.num_envs, np.int64),
            state.value,
        )
        if "rule" in fields:
            rule = rules[np.minimum(fields["rule"].astype(np.int64), len(rules) - 1)]
        if "value" in fields:
            value = np.minimum(fields["value"].astype(np.int64), self.reporting.num_reports - 1)
        same = np.array_equal(target, state.target)
        bound = state.bound if same else self.bounds(state.theta, target)
        return replace(state, target=target, scale=fields["scale"], rule=rule, value=value, bound=bound)

    # Reports and payments.

    def reference(self, state: State) -> Array:
        """Shares of all past reports, with one of each added: [B, x]."""
        smoothed = state.past + 1.0
        return smoothed / smoothed.sum(-1, keepdims=True)

    def estimate(self, counts: Array, target: Array) -> Array:
        """theta as estimated from counts [B, x], [B, M]; uniform where nobody reported."""
        total = counts.sum(-1)
        found = self.reporting.estimate(counts / np.maximum(total, 1)[:, None], target)
        return np.where(total[:, None] > 0, found, 1 / self.params.num_values)

    def judge(self, state: State, counts: Array) -> tuple[Array, Array, Array, Array, Array]:
        """What the reports of a tally [B, x] are paid.

        Returns:
            (prize [B, x], chance [B, x] of getting it, winner [B], tie [B], degenerate [B]).
        """
        p, total, rule = self.params, counts.sum(-1), state.rule
        if p.reporting == "k_ary":
            winner, tie = draw_winner(counts, self.stream("ties"))
            most = np.take_along_axis(counts, winner[:, None], 1)[:, 0]
            amount = wintall_payment(most, total, p.num_values, state.target, state.scale)
            degenerate = p.num_values * most <= total
        else:
            winner, slope = winning_report(self.estimate(counts, state.target), state.target, self.reporting)
            tie, degenerate = np.zeros(self.num_envs, np.bool_), (slope == 0) | (total == 0)
            amount = np.divide(state.scale, slope, out=np.zeros(self.num_envs), where=~degenerate)
        winner, tie = np.where(total > 0, winner, -1), tie & (total > 0)
        places = np.arange(counts.shape[1])
        prize, chance = amount[:, None] * (places == winner[:, None]), np.ones(counts.shape)
        if (rule != WINTALL).any():
            scale = np.broadcast_to(state.scale[:, None], counts.shape)
            posted = scale * (places == state.value[:, None])
            serum = scale / (counts.shape[1] * self.reference(state))
            prize = np.choose(rule[:, None], [prize, scale, posted, scale, serum])
            agree = np.clip((counts - 1) / np.maximum(total - 1, 1)[:, None], 0, 1)
            chance = np.where(rule[:, None] >= AGREEMENT, agree, 1.0)
        return np.minimum(prize, p.payment_cap), chance, winner, tie, degenerate & (rule == WINTALL)

    def transition(
        self, state: State, actions: dict[str, Array]
    ) -> tuple[State, dict[str, Array], Array, Array, dict[str, Any]]:
        nobody = np.zeros(self.num_envs, np.bool_)
        if "platform" in actions:
            new = self.announced(state, actions["platform"][:, 0])
            return new, {"platform": np.zeros((self.num_envs, 1))}, nobody, nobody, {"lower_bound": new.bound.copy()}
        budget = actions["individual"][:, :, 0].astype(np.float64)
        joins = budget >= 0
        spent = np.where(joins, budget, 0.0)
        data = draw_values(state.theta, self.params.num_individuals, self.stream("data"))
        said = self.reporting.sample(data, spent, self.stream("reports"))
        levels = np.log1p(spent)
        heard, delivered = self.channels["report"].send_levels(said, levels, None if joins.all() else joins)
        everyone = bool(delivered.all())
        kinds = self.reporting.num_reports
        place = heard + kinds * np.arange(self.num_envs)[:, None]
        counts = np.bincount((place if everyone else place[delivered]).ravel(), minlength=kinds * self.num_envs)
        counts = counts.reshape(self.num_envs, kinds)
        prize, chance, winner, tie, degenerate = self.judge(state, counts)
        payments = prize.ravel()[place]
        if (chance < 1).any():
            payments = payments * (self.stream("peers").random(place.shape) < chance.ravel()[place])
        if not everyone:
            payments = payments * delivered
        costs = state.factor * self.cost(spent)
        if not joins.all():
            costs = costs * joins
        totals = {
            "paid": payments.sum(1),
            "cost": costs.sum(1),
            "shortfall": np.maximum(self.params.target - spent, 0).sum(1),
            "levels": levels.sum(1),
            "joined": joins.sum(1),
        }
        new, reward, found = self.settle(state, counts, winner, degenerate, totals, np.where(joins, budget, -1.0))
        if self.params.show_reports:
            new = replace(new, reports=np.where(delivered, heard, -1))
        info = found | {
            "theta": state.theta.copy(),
            "tie": tie,
            "data": {"individual": data},
            "budgets": {"individual": new.budget.copy()},
            "levels": {"individual": levels},
            "payments": {"individual": payments},
            "costs": {"individual": costs},
        }
        rewards = {"platform": reward[:, None], "individual": payments - costs}
        return new, rewards, nobody, new.campaign >= self.params.horizon, info

    def settle(
        self, state: State, counts: Array, winner: Array, degenerate: Array, totals: dict[str, Array], budget: Array
    ) -> tuple[State, Array, dict[str, Any]]:
        """Close a campaign.

        Args:
            counts, winner, degenerate: of the tally.
            totals: what individuals come to together, [B] each: `paid`, `cost`, `shortfall`, `levels`, `joined`.
            budget: what each chose, [B, N].

        Returns:
            The new state, the platform's reward [B], and what info says of it.
        """
        p, n = self.params, self.params.num_individuals
        estimate = self.estimate(counts, state.target)
        error = ((estimate - state.theta) ** 2).sum(-1)
        penalty = p.penalty * (totals["shortfall"] if p.objective == "quality" else n * error)
        joined = totals["joined"]
        payment = totals["paid"] / np.maximum(joined, 1)
        ratio = payment / np.where(state.bound > 0, state.bound, np.inf)
        summed = {
            "payment": payment,
            "payment_ratio": ratio,
            "error": error,
            "shortfall": totals["shortfall"] / n,
            "level": totals["levels"] / n,
            "participation": joined / n,
            "utility": (totals["paid"] - totals["cost"]) / n,
            "degenerate": degenerate,
            "paid": totals["paid"],
        }
        new = replace(
            state,
            counts=counts,
            past=state.past + counts,
            paid=totals["paid"],
            degenerate=degenerate,
            winner=winner,
            budget=budget,
            campaign=state.campaign + 1,
            sums=state.sums + np.stack([summed[name] for name in SUMS], -1),
        )
        info = {
            "estimate": estimate,
            "error": error,
            "winner": winner.copy(),
            "degenerate": degenerate.copy(),
            "payment": payment,
            "lower_bound": state.bound.copy(),
            "payment_ratio": ratio,
            "total_payment": totals["paid"].copy(),
            "participation": joined / n,
        }
        return new, -(totals["paid"] + penalty), info

    def can_jump(self, until: float) -> bool:
        """All replicas are at the same campaign, which nobody has opened yet, and single reports are not shown."""
        campaign = self.state.campaign
        alike = self._turn == 0 and not self.done.any() and bool((campaign == campaign[0]).all())
        return alike and not self.params.show_reports

    def jump(self, forms: Mapping[str, Any], policies: Mapping[str, Acts], until: float) -> None:
        """By the law of the tally, which is multinomial where individuals all answer alike."""
        platform, channel = policies["platform"], self.channels["report"]
        common, stands = forms["individual"].budget, isinstance(forms["platform"], StandingAnnouncement)
        n, everyone = self.params.num_individuals, np.ones(self.num_envs, np.int64)
        cost, action = self.state.factor.sum(1), None
        while self.state.campaign[0] + 1 <= until and not self.done.all():
            if action is None or not stands:
                seen = self.observe_role(self.state, "platform")
                action = self.roles["platform"].check(platform.act(seen), (self.num_envs, 1))
            state = self.announced(self.state, action[:, 0])
            budget = np.asarray(common(state.target), np.float32).astype(np.float64)
            counts = self.stream("tallies").multinomial(n, self.reporting.law(state.theta, budget))
            prize, chance, winner, _, degenerate = self.judge(state, counts)
            happy = counts if (chance == 1).all() else self.stream("peers").binomial(counts, chance)
            level = np.log1p(budget)
            totals = {
                "paid": (happy * prize).sum(-1),
                "cost": cost * self.cost(budget),
                "shortfall": n * np.maximum(self.params.target - budget, 0),
                "levels": n * level,
                "joined": n * everyone,
            }
            answers = np.broadcast_to(budget[:, None], state.budget.shape)
            self._state, reward, _ = self.settle(state, counts, winner, degenerate, totals, answers)
            channel.record(everyone)
            if self.ledger is not None:
                self.ledger.charge_levels(
                    channel.name, np.broadcast_to(level[:, None], answers.shape), kind=channel.chosen
                )
            self.truncated = self._state.campaign >= self.params.horizon
            if not stands:
                platform.update(seen, action, reward[:, None], self.done)

    def observe_role(self, state: State, role: str, rows: Array | None = None) -> Array:
        p, layout = self.params, self.roles[role].layout
        rules = {RULES.index(rule): place for place, rule in enumerate(p.rules)}
        rule = np.array([rules.get(k, 0) for k in range(len(RULES))])[state.rule]
        announced = {"target": state.target, "scale": state.scale, "rule": rule, "value": state.value}
        if role == "platform":
            total, past = state.counts.sum(-1), state.past.sum(-1)
            fields = {name: announced[name] for name in self._announced} | {
                "shares": state.counts / np.maximum(total, 1)[:, None],
                "participation": total / p.num_individuals,
                "payment": state.paid / np.maximum(total, 1),
                "degenerate": state.degenerate,
                "past_shares": state.past / np.maximum(past, 1)[:, None],
                "time_left": 1 - state.campaign / self.params.horizon,
            }
            if p.show_reports:
                fields["reports"] = state.reports
            return layout.pack(**{name: np.asarray(value)[:, None] for name, value in fields.items()})
        shape = state.factor.shape
        own = {name: np.broadcast_to(announced[name][:, None], shape) for name in self._announced}
        if "peer_truth_serum" in p.rules:
            reference = self.reference(state) * (state.rule == SERUM)[:, None]
            own["reference"] = np.broadcast_to(reference[:, None], (*shape, reference.shape[-1]))
        belief = np.broadcast_to(state.belief, (*shape, p.num_values))
        return layout.pack(**own, cost=self.cost.c * state.factor, belief=belief)

    def clock(self) -> Array:
        return self.state.campaign.astype(np.float64)

    def measures(self) -> dict[str, Callable[[], Array]]:
        return {name: partial(dict.__getitem__, self.outcome(), name) for name in (*SUMS[:-1], "total_payment")}

    def outcome(self) -> dict[str, Array]:
        """Means over the campaigns: `payment` (a participant's), `payment_ratio` (over Theorem 1's bound), `error` (squared, summed over
        values), `shortfall` (of eps, an individual's), `level` (epsilon of the privacy that an individual chose), `participation`,
        `utility` (an individual's), `degenerate` (share of the tallies); over all, `total_payment`."""
        s = self.state
        means = s.sums / np.maximum(s.campaign, 1)[:, None]
        found = {name: means[:, i].copy() for i, name in enumerate(SUMS) if name != "paid"}
        return found | {"total_payment": s.sums[:, SUMS.index("paid")].copy()}

    def describe(self, replica: int = 0) -> str:
        s, i = self.state, replica
        rule = RULES[s.rule[i]]
        tally = " ".join(str(count) for count in s.counts[i][:12])
        joined = s.budget[i][s.budget[i] >= 0]
        answer = f"{joined.size} join at eps {joined.mean():.3f}" if joined.size else "nobody joins"
        end = "degenerate" if s.degenerate[i] else f"winner {s.winner[i]}" if rule == "wintall" else rule
        return (
            f"campaign {s.campaign[i]:4d}  {rule} target {s.target[i]:.3f} scale {s.scale[i]:.4f}  {answer}  "
            f"tally [{tally}] {end}  paid {s.paid[i]:.4f}"
        )

    def draw(self, axes: Any, replica: int = 0) -> None:
        s, p, i = self.state, self.params, replica
        rule, kinds = RULES[s.rule[i]], s.counts.shape[1]
        shares = s.counts[i] / max(int(s.counts[i].sum()), 1)
        colours = [
            "#e0a526" if rule == "wintall" and x == s.winner[i] and not s.degenerate[i] else "#9fb1c7"
            for x in range(kinds)
        ]
        axes.bar(np.arange(kinds), shares, color=colours, width=0.7, label="reports")
        if s.counts[i].any() and p.reporting == "k_ary":
            estimate = np.clip(self.estimate(s.counts, s.target)[i], 0, 1)
            axes.plot(np.arange(kinds), estimate, "D", color="#2a6f4e", markersize=5, label="estimate of theta")
            axes.plot(
                np.arange(kinds), s.theta[i], "_", color="#b3403a", markersize=18, markeredgewidth=2, label="theta"
            )
        axes.set_ylim(0, 1)
        axes.set_xlabel("reported value (the winner in gold)" if rule == "wintall" else "reported value")
        axes.set_ylabel("share")
        if kinds <= 20:
            axes.set_xticks(np.arange(kinds))
        axes.legend(loc="upper left", frameon=False, fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        joined = s.budget[i][s.budget[i] >= 0]
        inset = axes.inset_axes((0.6, 0.6, 0.38, 0.34))
        inset.hist(joined, bins=np.linspace(0, max(2 * p.target, float(joined.max(initial=0))), 25), color="#47597e")
        inset.axvline(s.target[i], color="#b3403a", linewidth=1)
        inset.set_title(f"eps chosen by {joined.size} of {p.num_individuals}; target {s.target[i]:.2f}", fontsize=8)
        inset.tick_params(labelsize=7)
        inset.set_yticks([])
        axes.set_title(
            f"campaign {s.campaign[i]}: {rule.replace('_', ' ')}, paid {s.paid[i]:.2f}"
            f" ({s.paid[i] / max(joined.size, 1):.3f} each, bound {s.bound[i]:.3f})",
            fontsize=10,
        )


class _World(World[Elicitation, Params]):
    QuadraticCost = QuadraticCost
    LinearCost = LinearCost
    ExponentialCost = ExponentialCost
    LogCost = LogCost
    Announcement = Announcement
    payment_lower_bound = staticmethod(payment_lower_bound)
    expected_payment = staticmethod(expected_payment)
    estimator_error = staticmethod(estimator_error)
    theorem_2_holds = staticmethod(theorem_2_holds)
    exploitability = staticmethod(exploitability)


elicitation_v0 = _World(Elicitation, Params)
