"""What must a platform pay for private data if individuals choose how much noise to add, and are paid by what they report?

Description
    Individual i holds one of M values, `S_i ~ theta`. Before seeing it, it chooses a budget `eps_i` or stays away; it then reports
    `X_i` by a mechanism `P(x | s; eps_i)`, at a cost `g_i(eps_i)`. The platform announces a target budget and a rule of payment;
    reports are drawn, payments are made, and `theta` is estimated as if everyone had chosen the target. A run is several such campaigns.

Paper
    Jiang 2020 (dissertation), chapter 2: the model of section 2.2, and Theorem 1, WINTALL and Theorem 2 of section 2.3. The equations
    of payment are in `taciturn.envs.elicitation.payments`, the exact solution of the game with finitely many individuals in
    `taciturn.envs.elicitation.game`, and the mechanisms for reporting in `taciturn.envs.elicitation.reporting`.

Agents
    `platform_0`, then `individual_0 .. individual_{N-1}`: a campaign has two turns. In the Parallel form a step is a campaign:
    individuals answer the current announcement, and the platform's action is the next one; the first is the first rule at the
    desired budget, with the marginal cost there as scale.

Observation
    Box float32. Platform: its last announcement `[target, scale, (rule), (value)]`; `desired`, the budget that is desired of this run;
    of the last campaign the `shares` of the reports, `participation`, `payment` (mean per participant) and `degenerate`; `past_shares` of
    all reports so far, `time_left` (share of the campaigns), and `reports` (-1: none) if `show_reports`. Individuals: the current
    announcement, `reference` (0 under other rules than `peer_truth_serum`), their own `cost` parameter and `belief` about theta. Nobody
    observes theta, and the platform observes neither values nor budgets.

Action
    Platform: Box float32 `[target, scale, (rule), (value)]`; `rule` (if several are allowed) and `value` (if prices may be posted) are
    rounded down; a target below 0.01 counts as 0.01. Individuals: Box float32 `[eps]`; a negative value means to stay away.

Reward
    Individuals: payment minus cost. Platform: minus all payments, minus `penalty` times, under objective "quality", the sum over
    individuals of max(desired - eps, 0) for the desired budget (eps = 0 for those who stay away), or, under "error", N times the
    squared error of the estimate, summed over values.

Rules of payment, for an announced `scale` and target e
    - `wintall`: each report of the winner is paid `scale (M+e) e / (M f - 1)`, where f is its share (equation 2.22) and the scale
      stands for g'(e). With other mechanisms than k-ary response, equations 2.15 to 2.18 at the estimate of theta. Degenerate tallies
      pay 0, and no payment exceeds `payment_cap`.
    - `flat_rate`: `scale` for each report.
    - `posted_price`: `scale` for each report of the announced `value`.
    - `output_agreement`: `scale` for each report that equals that of a peer, drawn uniformly for each (von Ahn & Dabbish 2004).
    - `peer_truth_serum`: the same, divided by M times the report's share in `reference`, the shares of all past reports and one
      more of each value (after Jurca & Faltings 2011, without the constant that may make payments negative).

Termination
    Truncated after `horizon` campaigns.

Info
    After each campaign `theta`, `estimate`, `error` (squared, summed over values), `winner` (-1: none), `tie`, `degenerate`, `payment`
    (mean per participant), `lower_bound`, `payment_ratio` (payment over bound; 0 where the bound is infinite), `total_payment`,
    `participation`, and by individual `data`, `budgets` (-1: stayed away), `levels` (of differential privacy, log(1 + eps)),
    `payments` and `costs`; after an announcement only `lower_bound`, the others are 0. `messages` counts the reports.

Privacy channels
    `report`: categorical, from individuals to the platform. Individuals perturb their reports themselves, each at level
    log(1 + eps); no other mechanism is allowed on it. The ledger records the levels that they choose. Each value enters one
    report, so at event level the largest level counts, and at user level the composition of all. An individual chooses whether to take
    part, and its budget, before it holds a value, and sees no value of its own or of others in any observation; payments, and with them the
    rewards that all see in the standard views, follow from the reports. So nothing but the reports depends on the values. Budgets
    and participation do depend on costs and beliefs, which the channel does not hide. `info` shows `data`, for evaluation.

Arguments
    - num_individuals: N >= 1.
    - theta: M >= 2, to draw the distribution of the values uniformly from the simplex at each reset, or such a distribution.
    - shuffle: whether each run permutes a given theta, which otherwise stays in its order, so that a learner could learn by heart which
      value is the most frequent.
    - cost: `QuadraticCost(c)`, `LinearCost(c)`, `ExponentialCost(c)`, `LogCost(c)`, or `(g, g')`, functions of arrays.
    - cost_spread: in [0, 1); individual i has cost `u_i g`, `u_i` uniform in 1 -+ spread, and observes `u_i c` (c = 1 for a pair).
    - belief_concentration: beliefs are drawn from Dirichlet(concentration theta); inf: individuals know theta.
    - horizon: number of campaigns, >= 1 (`campaigns` is an alias).
    - target: the desired budget, in [0.01, max_epsilon], or (lowest, highest), to draw it uniformly between them at each reset.
    - objective: "quality" or "error"; penalty: >= 0.
    - rules: the rules of payment that may be announced.
    - reporting: "k_ary", "rappor" or "oue", the latter two for M <= 10: a report is then one of 2^M bit strings, as a number.
    - max_epsilon, max_scale: upper bounds of actions. payment_cap: upper bound of one payment.
    - show_reports: whether the platform observes who reported what.

Deviations from the paper
    The paper prints Theorem 1 with `g' A` for `g' / A`, as its equation 2.19 shows; the bound here is min over eps >= target of `g' / A`.
    A strictly concave payoff is stationary at the target, where the paper's proof has it equal to 0. The equilibrium of Theorem 2 is
    asymptotic, for individuals who ignore that their report may change the winner: `FiniteBestResponse` and `exploitability` take
    that into account. Everyone at eps = 0 is an equilibrium of WINTALL too. Theorem 2 needs a concave payoff, which
    `g = c log(1 + eps)` does not give: `theorem_2_holds` tells, and `Wintall` warns. Tallies in which no value has a share above 1/M
    pay 0, where equation 2.22 has no finite value. Values are drawn anew for every campaign; the paper has only one. Individuals
    who trust the announced target can be misled: a low target with a high scale elicits the same budgets for less than the bound.

Registered configurations
    `taciturn/Elicitation-v0`: the platform's side (`taciturn.envs.elicitation.platform`), which chooses WINTALL's scale, at the budget
    that is desired of this run, against best responders.

Version history
    v0: first version.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import ArrayLike

from taciturn.envs.core import Acts, Channel, ChannelConfig, Fast, Layout, Population, Role, Transition, World, updated
from taciturn.envs.core.qualities import repeated
from taciturn.envs.core.world import K, P, Q
from taciturn.envs.elicitation import drawing, payments
from taciturn.envs.elicitation.costs import ExponentialCost, LinearCost, LogCost, QuadraticCost, as_cost
from taciturn.envs.elicitation.fast import CommonBudget, play_tallies
from taciturn.envs.elicitation.game import Announcement, expected_payment, exploitability
from taciturn.envs.elicitation.payments import MIN_TARGET, RULES, Announcements, distribution, payment_lower_bound
from taciturn.envs.elicitation.reporting import REPORTING, make_reporting
from taciturn.privacy.mechanisms import KaryRandomizedResponse, UnaryEncoding
from taciturn.validation import (
    MOST_ARMS,
    MOST_NUMBERS,
    Array,
    Bools,
    Floats,
    Ints,
    choice,
    integer,
    number,
    shown,
    vector,
)

__all__ = ["Elicitation", "Params", "Prizes", "State", "elicitation_v0"]

LARGE = 1e30  # fits into float32


@dataclass(frozen=True, kw_only=True)
class Params:
    """The world's parameters, validated."""

    num_individuals: int = 100
    theta: Any = 4
    shuffle: bool = False
    cost: Any = field(default_factory=lambda: QuadraticCost(0.01))
    cost_spread: float = 0.0
    belief_concentration: float = 100.0
    horizon: int = 10
    target: float | tuple[float, float] = (0.5, 2.0)
    objective: str = "quality"
    penalty: float = 1.0
    rules: Sequence[str] = RULES
    reporting: str = "k_ary"
    max_epsilon: float = 10.0
    max_scale: float = 100.0
    payment_cap: float = 1e6
    show_reports: bool = False

    def __post_init__(self) -> None:
        integer("num_individuals", self.num_individuals, at_least=1, at_most=MOST_NUMBERS)
        if isinstance(self.theta, int | np.integer):
            integer("theta", self.theta, at_least=2, at_most=MOST_ARMS)
        else:
            distribution("theta", self.theta)
        as_cost(self.cost)
        number("cost_spread", self.cost_spread, at_least=0, below=1)
        belief: Any = self.belief_concentration
        if not (isinstance(belief, float) and belief == math.inf):
            number("belief_concentration", self.belief_concentration, above=0)
        integer("horizon", self.horizon, at_least=1, at_most=2**53)
        number("max_epsilon", self.max_epsilon, above=MIN_TARGET, at_most=LARGE)
        choice("shuffle", self.shuffle, (False, True))
        given: Any = self.target
        if isinstance(given, list | tuple | np.ndarray):
            low, high = vector("target", given, size=2).tolist()
            number("target[0]", low, at_least=MIN_TARGET, at_most=high)
            number("target[1]", high, at_least=low, at_most=self.max_epsilon)
            object.__setattr__(self, "target", (low, high))
        else:
            number("target", given, at_least=MIN_TARGET, at_most=self.max_epsilon)
        choice("objective", self.objective, ("quality", "error"))
        number("penalty", self.penalty, at_least=0)
        given = self.rules
        rules = [choice("rules", rule, RULES) for rule in given] if isinstance(given, list | tuple) else []
        if not rules or len(set(rules)) < len(rules):
            raise ValueError(
                f"rules must be a list of one or more distinct rules of payment ({', '.join(RULES)}), not {shown(given)}"
            )
        choice("reporting", self.reporting, REPORTING)
        if self.reporting != "k_ary":
            integer("number of values under bitwise reporting", self.num_values, at_least=2, at_most=10)
        number("max_scale", self.max_scale, at_least=1 / LARGE, at_most=LARGE)
        number("payment_cap", self.payment_cap, at_least=1 / LARGE, at_most=LARGE)
        choice("show_reports", self.show_reports, (False, True))

    @property
    def num_values(self) -> int:
        """M."""
        return int(self.theta) if isinstance(self.theta, int | np.integer) else len(self.theta)

    @property
    def targets(self) -> tuple[float, float]:
        """The lowest and the highest budget that may be desired."""
        return self.target if isinstance(self.target, tuple) else (self.target, self.target)


@dataclass(frozen=True)
class State:
    """B markets; x is the number of possible reports, M under k-ary response."""

    theta: Floats  # float64[B, M]
    belief: Floats  # float64[B, N, M], or [B, 1, M] if everyone knows theta
    factor: Floats  # float64[B, N]: multiplies the cost
    desired: Floats  # float64[B]: the desired budget
    target: Floats  # float64[B]: announced
    scale: Floats  # float64[B]
    rule: Ints  # int64[B]: position in RULES
    value: Ints  # int64[B]: the report for which a price is posted
    bound: Floats  # float64[B]: Theorem 1's, at the target
    counts: Ints  # int64[B, x]: reports of the last campaign
    past: Ints  # int64[B, x]: reports of all campaigns
    paid: Floats  # float64[B]: total payment of the last campaign
    degenerate: Bools  # bool[B]: last campaign
    winner: Ints  # int64[B]: of the last campaign; -1: none
    budget: Floats  # float64[B, N]: eps in the last campaign; -1: stayed away
    reports: Ints  # int64[B, N]: of the last campaign; -1: none ([B, 0] unless they are shown)
    campaign: Ints  # int64[B]: campaigns played
    sums: Floats  # float64[B, len(SUMS)]: sums over the campaigns


SUMS = ("payment", "payment_ratio", "error", "shortfall", "level", "participation", "utility", "degenerate", "paid")


def draw_values(theta: Floats, size: int, rng: np.random.Generator) -> Ints:
    """S_i ~ theta: int64[B, size] for theta [B, M]."""
    uniform, steps = rng.random((len(theta), size)), np.cumsum(theta, axis=1)[:, :-1]
    if steps.shape[1] > 12:
        return np.stack([np.searchsorted(s, u, side="right") for s, u in zip(steps, uniform, strict=True)])
    values = np.zeros(uniform.shape, np.int64)
    for step in steps.T:
        values += uniform >= step[:, None]
    return values


def draw_winner(counts: Ints, rng: np.random.Generator) -> tuple[Ints, Bools]:
    """The most frequent report, ties broken uniformly, int64[B], and True where there was a tie, bool[B]; counts [B, x]."""
    most = counts == counts.max(-1, keepdims=True)
    tie = most.sum(-1) > 1
    return np.argmax(most * (1.0 + rng.random(counts.shape)), -1), tie


class Prizes(NamedTuple):
    """The payments for the reports of a tally."""

    amount: Floats  # float64[B, x]
    chance: Floats  # float64[B, x]: probability that a report is paid
    winner: Ints  # int64[B]; -1: none
    tie: Bools  # bool[B]
    degenerate: Bools  # bool[B]


class Elicitation(Population[State]):
    __doc__ = __doc__
    name = "elicitation"
    params: Params
    clock_unit = "step"
    aliases: Mapping[str, str] = {"campaigns": "horizon"}
    hidden = frozenset({"theta"})
    hidden_state = frozenset({"belief", "bound", "sums"})
    jumps: Mapping[str, type[Fast]] = {"individual": CommonBudget}
    turns = (("platform",), ("individual",))

    def __init__(self, params: Params, num_envs: int = 1) -> None:
        self.cost = as_cost(params.cost)
        self.reporting = make_reporting(params.reporting, params.num_values)
        super().__init__(params, num_envs)

    def make_roles(self) -> tuple[Role, ...]:
        p, m, x = self.params, self.params.num_values, self.reporting.num_reports
        self.announcements = Announcements(tuple(p.rules), x, p.max_epsilon, p.max_scale)
        last: dict[str, tuple[int, float, float]] = {
            "desired": (1, 0, p.max_epsilon),
            "shares": (x, 0, 1), "participation": (1, 0, 1), "payment": (1, 0, p.payment_cap), "degenerate": (1, 0, 1),
            "past_shares": (x, 0, 1), "time_left": (1, 0, 1),
        }  # fmt: skip
        if p.show_reports:
            last["reports"] = (p.num_individuals, -1, x)
        own: dict[str, tuple[int, float, float]] = {"reference": (x, 0, 1)} if "peer_truth_serum" in p.rules else {}
        own |= {"cost": (1, 0, self.cost.c * (1 + p.cost_spread)), "belief": (m, 0, 1)}
        budgets = gymnasium.spaces.Box(-1.0, p.max_epsilon, (1,), np.float32)
        announced = self.announcements.layout
        return (
            Role("platform", 1, Layout(**announced, **last), self.announcements.space),
            Role("individual", p.num_individuals, Layout(**announced, **own), budgets),
        )

    def make_channels(self) -> tuple[Channel, ...]:
        kind = KaryRandomizedResponse.kind if self.params.reporting == "k_ary" else UnaryEncoding.kind
        named: Any = {"observer": "platform", "unit": "event", "sender": "individual"}
        return (Channel("report", "categorical", chosen=kind, disjoint=True, **named),)

    def check_channel(self, channel: str, config: ChannelConfig) -> None:
        if config.mechanism is not None:
            raise ValueError(f"channel {channel!r} takes no mechanism: individuals perturb their reports themselves")

    def public(self) -> dict[str, Any]:
        """`cost`: g; `reporting`: the mechanism of the reports; `announce`: makes the platform's action for an announcement."""
        return {"cost": self.cost, "reporting": self.reporting, "announce": self.announce}

    def practice_params(self) -> Params:
        """A given theta is permuted: who learns by heart which value is the most frequent gains nothing by it."""
        return replace(self.params, shuffle=True)

    def initial(self) -> State:
        p, b, n, m = self.params, self.num_envs, self.params.num_individuals, self.params.num_values
        if isinstance(p.theta, int | np.integer):
            theta = self.stream("theta").dirichlet(np.ones(m), b)
        else:
            given = distribution("theta", p.theta)[None]
            theta = repeated(given, b, self.stream("theta") if p.shuffle else None)[:, 0]
        belief = theta[:, None]
        if p.belief_concentration != math.inf:
            drawn = self.stream("beliefs").standard_gamma(p.belief_concentration * theta[:, None], (b, n, m))
            mass = drawn.sum(-1, keepdims=True)
            belief = drawn / np.where(mass > 0, mass, 1.0)
            if not mass.all():
                belief = np.where(mass > 0, belief, theta[:, None])
        spread = self.stream("costs").uniform(1 - p.cost_spread, 1 + p.cost_spread, (b, n))
        nothing, none = np.zeros(b), np.zeros(b, np.int64)
        tally = np.zeros((b, self.reporting.num_reports), np.int64)
        low, high = p.targets
        target = np.full(b, low) if low == high else self.stream("targets").uniform(low, high, b)
        return State(
            theta=theta, belief=belief, factor=spread if p.cost_spread else np.ones((b, n)), desired=target, target=target,
            scale=np.clip(self.cost.marginal(target), 0, p.max_scale), rule=np.full(b, RULES.index(p.rules[0])), value=none,
            bound=self.bounds(theta, target), counts=tally, past=tally, paid=nothing, degenerate=np.zeros(b, np.bool_),
            winner=none - 1, budget=np.full((b, n), -1.0), reports=np.full((b, n if p.show_reports else 0), -1),
            campaign=none, sums=np.zeros((b, len(SUMS))),
        )  # fmt: skip

    def bounds(self, theta: Floats, target: Floats) -> Floats:
        """Theorem 1's bound in each replica, [B]."""
        if (theta == theta[0]).all() and (target == target[0]).all():
            return np.full(len(theta), payment_lower_bound(theta[0], target[0], self.cost, self.reporting))
        return np.asarray(payment_lower_bound(theta, target, self.cost, self.reporting))

    def announce(self, rule: str, target: ArrayLike, scale: ArrayLike, value: ArrayLike = 0) -> Array:
        """The platform's action float32[B, 1, D] for an announcement; see `Announcements.encode`."""
        return self.announcements.encode(rule, target, scale, value, self.num_envs)

    def default_action(self, role: str) -> Array:
        """The first rule at the desired budget, with the marginal cost there as scale."""
        desired = self.state.desired
        return self.announce(self.params.rules[0], desired, self.cost.marginal(desired))

    def announced(self, state: State, action: Array) -> State:
        """The state after the platform's action [B, D]."""
        fields = self.announcements.decode(action)
        same = np.array_equal(fields["target"], state.target)
        bound = state.bound if same else self.bounds(state.theta, fields["target"])
        return updated(state, **fields, bound=bound)

    def reference(self, state: State) -> Floats:
        """Shares of all past reports and one more of each, [B, x]."""
        smoothed = state.past + 1.0
        return smoothed / smoothed.sum(-1, keepdims=True)

    def estimate(self, counts: Ints, target: Floats) -> Floats:
        """The estimate of theta from counts [B, x], [B, M]; uniform where nobody reported."""
        total = counts.sum(-1)
        estimate = self.reporting.estimate(counts / np.maximum(total, 1)[:, None], target)
        return np.where(total[:, None] > 0, estimate, 1 / self.params.num_values)

    def judge(self, state: State, counts: Ints) -> Prizes:
        """The payments for the reports of a tally, int64[B, x], under the current announcement."""
        p, total, rule = self.params, counts.sum(-1), state.rule
        if p.reporting == "k_ary":
            winner, tie = draw_winner(counts, self.stream("ties"))
            most = counts.max(-1)
            amount = payments.wintall_payment(most, total, p.num_values, state.target, state.scale)
            degenerate = p.num_values * most <= total
        else:
            estimate, tie = self.estimate(counts, state.target), np.zeros(self.num_envs, np.bool_)
            winner, slope = payments.winning_report(estimate, state.target, self.reporting)
            amount = payments.winner_payment(state.scale, slope)
            degenerate = (slope == 0) | (total == 0)
        winner, tie = np.where(total > 0, winner, -1), tie & (total > 0)
        prize, chance = amount[:, None] * (np.arange(counts.shape[1]) == winner[:, None]), np.ones(counts.shape)
        if (rule != payments.WINTALL).any():
            prize = payments.rule_payments(rule, state.scale, prize, state.value, self.reference(state))
            agree = np.clip((counts - 1) / np.maximum(total - 1, 1)[:, None], 0, 1)
            chance = np.where(rule[:, None] >= payments.AGREEMENT, agree, 1.0)
        return Prizes(np.minimum(prize, p.payment_cap), chance, winner, tie, degenerate & (rule == payments.WINTALL))

    def transition(self, state: State, actions: dict[str, Array]) -> Transition[State]:
        nobody = np.zeros(self.num_envs, np.bool_)
        if "platform" in actions:
            new = self.announced(state, actions["platform"][:, 0])
            return new, {"platform": np.zeros((self.num_envs, 1))}, nobody, nobody, {"lower_bound": new.bound.copy()}
        budget = actions["individual"][:, :, 0].astype(np.float64)
        joins = budget >= 0
        spent = np.where(joins, budget, 0.0)
        data = self.private(draw_values(state.theta, self.params.num_individuals, self.stream("data")))
        sent = self.reporting.sample(data, spent, self.stream("reports"))
        levels, channel = np.log1p(spent), self.channels["report"]
        before = None if channel.config.budget is None else channel.messages()
        received, delivered = channel.send_levels(sent, levels, None if joins.all() else joins)
        if before is not None:  # whom a budget stops has stayed away
            joins = channel.messages() > before
            spent, levels = spent * joins, levels * joins
        everyone = bool(delivered.all())
        kinds = self.reporting.num_reports
        place = received + kinds * np.arange(self.num_envs)[:, None]
        counts = np.bincount((place if everyone else place[delivered]).ravel(), minlength=kinds * self.num_envs)
        counts = counts.reshape(self.num_envs, kinds)
        prizes = self.judge(state, counts)
        paid = prizes.amount.ravel()[place]
        if (prizes.chance < 1).any():
            paid = paid * (self.stream("peers").random(place.shape) < prizes.chance.ravel()[place])
        if not everyone:
            paid = paid * delivered
        costs = state.factor * self.cost(spent)
        if not joins.all():
            costs = costs * joins
        shortfall = np.maximum(state.desired[:, None] - spent, 0)
        by_agent = {"paid": paid, "cost": costs, "shortfall": shortfall, "levels": levels, "joined": joins}
        totals = {name: values.sum(1) for name, values in by_agent.items()}
        new, reward, outcome = self.settle(state, counts, prizes, totals, np.where(joins, budget, -1.0))
        if self.params.show_reports:
            new = updated(new, reports=np.where(delivered, received, -1))
        shown = {"data": data, "budgets": new.budget.copy(), "levels": levels, "payments": paid, "costs": costs}
        info = outcome | {"theta": state.theta.copy(), "tie": prizes.tie}
        info |= {name: {"individual": values} for name, values in shown.items()}
        rewards = {"platform": reward[:, None], "individual": paid - costs}
        return new, rewards, nobody, new.campaign >= self.params.horizon, info

    def empty_info(self) -> dict[str, Any]:
        reals = ("error", "payment", "lower_bound", "payment_ratio", "total_payment", "participation")
        values = np.zeros(self.params.num_values)
        by_agent = {"data": 0} | dict.fromkeys(("budgets", "levels", "payments", "costs"), 0.0)
        own = {name: {"individual": zero} for name, zero in by_agent.items()}
        flags = {"winner": -1, "degenerate": False, "tie": False}
        return {"theta": values, "estimate": values} | dict.fromkeys(reals, 0.0) | flags | own

    def settle(
        self, state: State, counts: Ints, prizes: Prizes, totals: dict[str, Array], budget: Floats
    ) -> tuple[State, Floats, dict[str, Any]]:
        """Close a campaign, given the tally `counts` [B, x] and the budget of each individual, [B, N].

        `totals` holds sums over individuals, [B] each: `paid`, `cost`, `shortfall`, `levels`, `joined`.

        Returns:
            The new state, the platform's reward [B], and the info of the campaign.
        """
        p, n = self.params, self.params.num_individuals
        estimate = self.estimate(counts, state.target)
        error = ((estimate - state.theta) ** 2).sum(-1)
        penalty = p.penalty * (totals["shortfall"] if p.objective == "quality" else n * error)
        paid, joined = totals["paid"], totals["joined"]
        payment = paid / np.maximum(joined, 1)
        ratio = payment / np.where(state.bound > 0, state.bound, np.inf)
        summed = {
            "payment": payment, "payment_ratio": ratio, "error": error, "shortfall": totals["shortfall"] / n,
            "level": totals["levels"] / n, "participation": joined / n, "utility": (paid - totals["cost"]) / n,
            "degenerate": prizes.degenerate, "paid": paid,
        }  # fmt: skip
        new = updated(
            state, counts=counts, past=state.past + counts, paid=paid, degenerate=prizes.degenerate, winner=prizes.winner,
            budget=budget, campaign=state.campaign + 1, sums=state.sums + np.stack([summed[name] for name in SUMS], -1),
        )  # fmt: skip
        info = {
            "estimate": estimate, "error": error, "winner": prizes.winner.copy(), "degenerate": prizes.degenerate.copy(),
            "payment": payment, "lower_bound": state.bound.copy(), "payment_ratio": ratio, "total_payment": paid.copy(),
            "participation": joined / n,
        }  # fmt: skip
        return new, -(paid + penalty), info

    def can_jump(self, until: float) -> bool:
        """True if all replicas are at the start of the same campaign, and single reports are not shown."""
        campaign = self.state.campaign
        alike = self._turn == 0 and not self.done.any() and bool((campaign == campaign[0]).all())
        return alike and not self.params.show_reports

    def jump(self, forms: Mapping[str, Any], policies: Mapping[str, Acts], until: float) -> None:
        play_tallies(self, forms, policies, until)

    def observe_role(self, state: State, role: str, rows: Array | None = None) -> Array:
        p, layout = self.params, self.roles[role].layout
        announced = self.announcements.observed(state.target, state.scale, state.rule, state.value)
        if role == "platform":
            total, past = state.counts.sum(-1), state.past.sum(-1)
            fields = announced | {
                "desired": state.desired,
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
        own = {name: value[:, None] for name, value in announced.items()}
        if "peer_truth_serum" in p.rules:
            own["reference"] = (self.reference(state) * (state.rule == payments.SERUM)[:, None])[:, None]
        return layout.pack(**own, cost=self.cost.c * state.factor, belief=state.belief)

    def clock(self) -> Array:
        return self.state.campaign.astype(np.float64)

    def measures(self) -> dict[str, Callable[[], Array]]:
        return {name: partial(dict.__getitem__, self.outcome(), name) for name in (*SUMS[:-1], "total_payment")}

    def outcome(self) -> dict[str, Array]:
        """Means over the campaigns: `payment` (per participant), `payment_ratio` (payment over Theorem 1's bound), `error` (squared, summed
        over values), and per individual `shortfall` (of eps), `level` (of differential privacy), `participation` and `utility`; the share
        `degenerate` of the tallies; and the sum `total_payment`."""
        s = self.state
        means = s.sums / np.maximum(s.campaign, 1)[:, None]
        metrics = {name: means[:, i].copy() for i, name in enumerate(SUMS) if name != "paid"}
        return metrics | {"total_payment": s.sums[:, SUMS.index("paid")].copy()}

    describe, draw = drawing.describe, drawing.draw


class _World(World[P, Q, K]):
    QuadraticCost = QuadraticCost
    LinearCost = LinearCost
    ExponentialCost = ExponentialCost
    LogCost = LogCost
    Announcement = Announcement
    payment_lower_bound = staticmethod(payment_lower_bound)
    expected_payment = staticmethod(expected_payment)
    estimator_error = staticmethod(payments.estimator_error)
    theorem_2_holds = staticmethod(payments.theorem_2_holds)
    exploitability = staticmethod(exploitability)


elicitation_v0 = _World(Elicitation, Params)
