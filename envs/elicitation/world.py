"""How much must a platform pay for private data if individuals choose their noise and are paid for their reports?

Description
    Individual i holds one of M values, `S_i ~ theta`. Before it sees `S_i`, it chooses a budget `eps_i` or stays away;
    it then reports `X_i` by a mechanism `P(x | s; eps_i)`, at a cost `g_i(eps_i)`. The platform announces a target
    budget and a payment rule; reports are drawn, payments are made, and `theta` is estimated as if all individuals had
    chosen the target. A run consists of several such campaigns.

Paper
    Jiang 2020 (dissertation), chapter 2: the model of section 2.2, and Theorem 1, WINTALL and Theorem 2 of section 2.3.
    Payment equations are in `taciturn.envs.elicitation.payments`, expected payments among finitely many individuals in
    `taciturn.envs.elicitation.game`, best responses in `taciturn.policies.families.best_response`, and reporting
    mechanisms in `taciturn.envs.elicitation.reporting`.

Agents
    `platform_0`, then `individual_0 .. individual_{N-1}`: a campaign has two turns. In the Parallel API a step is a
    campaign: individuals answer the current announcement, and the platform's action is the next one. The environment
    makes the first announcement: the first of `rules`, with the run's desired budget as target, and the marginal cost
    at that budget as scale.

Observation
    Box float32. Platform: its last announcement `[target, scale, (rule), (value)]`; `desired`, this run's desired
    budget; the last campaign's `shares` of the reports, `participation`, `payment` (mean per participant) and
    `degenerate`; `past_shares` of all reports so far, and `time_left` (share of the campaigns). Individuals: the
    current announcement, `reference` (0 under other rules than `peer_truth_serum`), their own `cost` parameter and
    `belief` about theta. No agent observes theta, and the platform observes neither values nor budgets.

Action
    Platform: Box float32 `[target, scale, (rule), (value)]`; `rule` (if several are allowed) and `value` (if prices may
    be posted) are rounded down; a target below 0.01 counts as 0.01. Individuals: Box float32 `[eps]`; with a negative
    value the individual stays away.

Reward
    Individuals: payment minus cost. Platform: minus all payments, minus `penalty` times a loss. Under objective
    "quality" the loss is the sum over individuals of max(desired - eps, 0) (eps = 0 for those who stay away); under
    "error" it is N times the squared error of the estimate, summed over values.

Payment rules, for an announced `scale` and target e
    - `wintall`: each report of the winner, the most frequent value, is paid `scale (M+e) e / (M f - 1)`, where f is
      that value's share (equation 2.22) and the scale stands for g'(e). Mechanisms other than k-ary response use
      equations 2.15 to 2.18 at the estimate of theta. If no value has a share above 1/M (`degenerate`), payments are 0.
      No payment exceeds `payment_cap`.
    - `flat_rate`: `scale` for each report.
    - `posted_price`: `scale` for each report of the announced `value`.
    - `output_agreement`: `scale` for each report that equals the report of a random peer (von Ahn & Dabbish 2004).
    - `peer_truth_serum`: the same, divided by M times the reported value's share in `reference`, which has the shares
      among all past reports and one additional report of each value (after Jurca & Faltings 2011, without the constant
      that may make payments negative).

Termination
    Truncated after `horizon` campaigns.

Info
    After each campaign `theta`, `estimate`, `error` (squared, summed over values), `winner` (-1: none), `tie`,
    `degenerate`, `payment` (mean per participant), `lower_bound`, `payment_ratio` (payment over bound; 0 where the
    bound is infinite), `total_payment`, `participation`, and by individual `data`, `budgets` (-1: stayed away),
    `levels` (of differential privacy, log(1 + eps)), `payments` and `costs`; after an announcement only `lower_bound`
    (the others are 0). `messages` counts the reports.

Privacy channels
    `report`: categorical, from individuals to the platform. Individuals perturb their reports themselves: a report with
    budget eps is log(1 + eps)-differentially private, and the accountant records this level. The channel takes no other
    mechanism. Each value enters one report, so the event-level epsilon is the largest level, and the user-level epsilon
    composes all. An individual chooses its budget, and whether to take part, before it holds a value, and no
    observation shows anyone's value. Payments follow from the reports, and so do the rewards. So all that others
    observe depends on the values only through the reports. Budgets and participation do depend on costs and beliefs,
    which the channel does not hide. `info` shows `data`, for evaluation.

Arguments
    - num_individuals: N >= 1.
    - theta: the distribution of the values, or M >= 2 to draw it uniformly from the simplex at each reset.
    - shuffle: whether each run permutes a given theta. If not, a learner could memorise the most frequent value.
    - cost: `QuadraticCost(c)`, `LinearCost(c)`, `ExponentialCost(c)`, `LogCost(c)`, or `(g, g')`, functions of arrays.
    - cost_spread: in [0, 1); individual i has cost `u_i g`, `u_i` uniform in 1 -+ spread, and observes `u_i c` (c = 1
      if `cost` is given as `(g, g')`).
    - belief_concentration: beliefs are drawn from Dirichlet(concentration theta); inf: individuals know theta.
    - horizon: number of campaigns, >= 1 (`campaigns` is an alias).
    - target: the desired budget, in [0.01, max_epsilon], or (lowest, highest) to draw it uniformly between them at each
      reset.
    - objective: "quality" or "error"; penalty: >= 0.
    - rules: the payment rules that may be announced.
    - reporting: "k_ary", "rappor" or "oue". The latter two need M <= 10: a report is one of 2^M bit strings, encoded as
      a number.
    - max_epsilon, max_scale: upper bounds of actions. payment_cap: upper bound of one payment.

Deviations from the paper
    The paper prints Theorem 1 with `g' A` instead of `g' / A`, which its equation 2.19 has (A: `informativeness`); the
    bound here is min over eps >= target of `g' / A`. At the target the derivative of a strictly concave payoff is 0;
    the paper's proof says that the payoff itself is 0. The equilibrium of Theorem 2 is asymptotic and assumes that
    individuals ignore their own effect on the winner: `FiniteBestResponse` and `exploitability` take it into account.
    eps = 0 for everyone is an equilibrium of WINTALL too. Theorem 2 needs a concave payoff, which `g = c log(1 + eps)`
    does not give: `theorem_2_holds` checks this, and `Wintall` warns. Campaigns without a share above 1/M pay 0, since
    equation 2.22 has no finite value there. Values are drawn again for every campaign; the paper has only one.
    Individuals who trust the announced target can be misled: a low target with a high scale elicits the same budgets
    for less than the bound.

Registered configurations
    `taciturn/Elicitation-v0`: the platform's side (`taciturn.envs.elicitation.platform`): the action is WINTALL's
    scale, the target is the run's desired budget, and the individuals are best responders.

Version history
    v0: first version.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, get_type_hints

import gymnasium
import numpy as np
from numpy.typing import ArrayLike

from taciturn.envs.core import Channel, ChannelConfig, Chosen, Functions, Layout, Replicas, Role, World, fields
from taciturn.envs.core.qualities import QualityDistribution
from taciturn.envs.core.world import K, P, Q
from taciturn.envs.elicitation import campaign, drawing, payments
from taciturn.envs.elicitation.campaign import Constants
from taciturn.envs.elicitation.costs import OTHER, ExponentialCost, LinearCost, LogCost, QuadraticCost, as_cost, kind_of
from taciturn.envs.elicitation.game import Announcement, expected_payment
from taciturn.envs.elicitation.payments import MIN_TARGET, RULES, as_probabilities, payment_lower_bound
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

LARGE = 1e30  # fits into float32


@dataclass(frozen=True, kw_only=True)
class Params:
    """The environment's parameters, validated."""

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

    def __post_init__(self) -> None:
        integer("num_individuals", self.num_individuals, at_least=1, at_most=MOST_NUMBERS)
        if isinstance(self.theta, int | np.integer):
            integer("theta", self.theta, at_least=2, at_most=MOST_ARMS)
        else:
            as_probabilities("theta", self.theta)
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
                f"rules must be a list of one or more distinct rules of payment ({', '.join(RULES)}), not "
                f"{shown(given)}"
            )
        choice("reporting", self.reporting, REPORTING)
        if self.reporting != "k_ary":
            integer("number of values under bitwise reporting", self.num_values, at_least=2, at_most=10)
        number("max_scale", self.max_scale, at_least=1 / LARGE, at_most=LARGE)
        number("payment_cap", self.payment_cap, at_least=1 / LARGE, at_most=LARGE)

    @property
    def num_values(self) -> int:
        """M."""
        return int(self.theta) if isinstance(self.theta, int | np.integer) else len(self.theta)

    @property
    def num_reports(self) -> int:
        """x: M, or the number of bit strings."""
        return self.num_values if self.reporting == "k_ary" else int(2**self.num_values)

    @property
    def targets(self) -> tuple[float, float]:
        """The lowest and the highest possible desired budget."""
        return self.target if isinstance(self.target, tuple) else (self.target, self.target)


@dataclass(frozen=True)
class State:
    """A market; from outside, each field has a leading axis [B]. x is the number of possible reports, M under k-ary
    response."""

    theta: Floats = fields.hidden(lambda p: p.num_values)
    # [N, M], or [1, M] if all individuals know theta
    belief: Floats = fields.own(
        lambda p: (1 if p.belief_concentration == math.inf else p.num_individuals, p.num_values), "individual"
    )
    factor: Floats = fields.own(lambda p: p.num_individuals, "individual")  # multiplies the individual's cost
    desired: Floats = fields.own(role="platform")  # the desired budget
    target: Floats = fields.public()  # announced
    scale: Floats = fields.public()
    rule: Ints = fields.public()  # position in RULES
    value: Ints = fields.public()  # the report with a posted price
    bound: Floats = fields.hidden()  # Theorem 1's bound at the target
    # [x]: reports of the last campaign
    counts: Ints = fields.received(lambda p: p.num_reports, "platform", each=False)
    past: Ints = fields.public(lambda p: p.num_reports)  # reports of all campaigns, published by the truth serum
    paid: Floats = fields.public()  # total payment of the last campaign
    degenerate: Bools = fields.public()  # last campaign
    winner: Ints = fields.public()  # of the last campaign; -1: none
    tie: Bools = fields.public()  # whether several values tied for it
    # eps in the last campaign; -1: stayed away
    budget: Floats = fields.own(lambda p: p.num_individuals, "individual")
    campaign: Ints = fields.public()  # campaigns played
    closed: Bools = fields.public()  # whether the last turn closed a campaign
    sums: Floats = fields.hidden(lambda p: len(campaign.SUMS))  # sums over the campaigns
    messages: Ints = fields.hidden()  # number of reports, if the channel has no mechanism
    dearest: Floats = fields.hidden()  # the largest of their levels
    counted: Ints = fields.hidden(lambda p: (p.num_individuals, 2))  # messages, and those above level 0
    # sums of each individual's levels and squared levels, and the largest level
    spent: Floats = fields.hidden(lambda p: (p.num_individuals, 3))


class Elicitation(Replicas[State]):
    __doc__ = __doc__
    name = "elicitation"
    params: Params
    clock_unit = "step"
    aliases: Mapping[str, str] = {"campaigns": "horizon"}
    hidden = frozenset({"theta", "distribution"})
    turns = (("platform",), ("individual",))
    state_type: ClassVar[Any] = State
    sources = campaign.SOURCES
    functions = Functions(
        reset=campaign.begin,
        act={"platform": campaign.announce, "individual": campaign.report},
        receive={"platform": campaign.goes_on, "individual": campaign.pay},
        observe={"platform": campaign.observe_platform, "individual": campaign.observe_individual},
        info=campaign.fill_info,
    )
    chosen: ClassVar[Mapping[str, Chosen]] = {"report": Chosen("messages", "dearest", "counted", "spent")}
    info_by_agent: ClassVar[Mapping[str, tuple[str, str]]] = {
        "data": ("individual", "data"), "budgets": ("individual", "budget"), "levels": ("individual", "level"),
        "payments": ("individual", "payments"), "costs": ("individual", "costs"),
    }  # fmt: skip
    info_valid_if: ClassVar[Mapping[str, str]] = dict.fromkeys(
        (
            "theta", "estimate", "error", "payment", "payment_ratio", "total_payment", "participation", "winner",
            "degenerate", "tie", *info_by_agent,
        ),
        "closed",
    )  # fmt: skip

    def __init__(self, params: Params, num_envs: int = 1, first_replica: int = 0) -> None:
        self.cost = as_cost(params.cost)
        self.reporting = make_reporting(params.reporting, params.num_values)
        super().__init__(params, num_envs, first_replica)

    def make_roles(self) -> tuple[Role, ...]:
        p, m, x = self.params, self.params.num_values, self.reporting.num_reports
        announced: dict[str, tuple[int, float, float]] = {
            "target": (1, 0, p.max_epsilon), "scale": (1, 0, p.max_scale)
        }  # fmt: skip
        if len(p.rules) > 1:
            announced["rule"] = (1, 0, len(p.rules))
        if "posted_price" in p.rules:
            announced["value"] = (1, 0, x)
        high = np.array([high for _, _, high in announced.values()], np.float32)
        last: dict[str, tuple[int, float, float]] = {
            "desired": (1, 0, p.max_epsilon),
            "shares": (x, 0, 1), "participation": (1, 0, 1), "payment": (1, 0, p.payment_cap), "degenerate": (1, 0, 1),
            "past_shares": (x, 0, 1), "time_left": (1, 0, 1),
        }  # fmt: skip
        own: dict[str, tuple[int, float, float]] = {"reference": (x, 0, 1)} if "peer_truth_serum" in p.rules else {}
        own |= {"cost": (1, 0, self.cost.c * (1 + p.cost_spread)), "belief": (m, 0, 1)}
        budgets = gymnasium.spaces.Box(-1.0, p.max_epsilon, (1,), np.float32)
        announcements = gymnasium.spaces.Box(np.zeros(high.size, np.float32), high, dtype=np.float32)
        return (
            Role("platform", 1, Layout(**announced, **last), announcements),
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
        """`cost`: g; `reporting`: the mechanism of the reports; `announce`: makes the platform's action for an
        announcement."""
        return {"cost": self.cost, "reporting": self.reporting, "announce": self.announce}

    def practice_params(self) -> Params:
        """Parameters with a permuted theta, so memorising the most frequent value does not help."""
        return replace(self.params, shuffle=True)

    def constants(self) -> Constants:
        p, drawn = self.params, isinstance(self.params.theta, int | np.integer)
        given = np.zeros(p.num_values) if drawn else as_probabilities("theta", p.theta)
        rules = np.array([RULES.index(rule) for rule in p.rules])
        places = np.zeros(len(RULES), np.int64)
        places[rules] = np.arange(len(rules))
        low, high = map(float, p.targets)
        same = {name: kind(getattr(p, name)) for name, kind in get_type_hints(Constants).items() if hasattr(p, name)}
        return Constants(
            **same,
            distribution=QualityDistribution(given, drawn, bool(p.shuffle)),
            c=float(self.cost.c),
            kind=kind_of(self.cost),
            low=low,
            high=high,
            first_rule=int(rules[0]),
            allowed=rules,
            places=places,
            least=float(np.float32(MIN_TARGET)),
            k_ary=p.reporting == "k_ary",
            bounded=p.reporting == "k_ary" and kind_of(self.cost) != OTHER,
            bare=self.plain,
            symmetric=p.reporting == "rappor",
            by_quality=p.objective == "quality",
            prices="posted_price" in p.rules,
            serum="peer_truth_serum" in p.rules,
        )

    def arrays(self) -> dict[str, Any]:
        """The fields of the State, and the arrays used between the halves of a campaign, which are not in the State."""
        p, n, m, x = self.params, self.params.num_individuals, self.params.num_values, self.params.num_reports
        passing: dict[str, Any] = {name: np.zeros(n, np.int64) for name in ("data", "sent", "received")}
        passing |= {name: np.zeros(n, np.bool_) for name in ("joins", "delivered")}
        passing |= {name: np.zeros(n) for name in ("level", "costs", "payments")}
        passing |= {"prize": np.zeros(x), "chance": np.zeros(x), "estimate": np.zeros(m), "won": np.zeros(1)}
        return fields.shapes_of(State, p) | passing | {"totals": np.zeros(len(campaign.TOTALS))}

    def on_reset(self, where: Array) -> None:
        """Compute the marginal cost at the desired budget, and the bound there, where `begin` has not."""
        if self._constants.kind == OTHER:
            desired = self.column("desired")[where]
            self.column("scale")[where] = np.clip(self.cost.marginal(desired), 0, self.params.max_scale)
        if not self._constants.bounded:
            self.price()

    def splits(self) -> bool:
        return not (self.plain and self._constants.bounded)

    def between(self, live: Array) -> None:
        if self.turn == ("platform",):
            self.price()
            return
        if not self.plain:
            self.send(live)
        if self._constants.kind == OTHER:
            budget, joins = self.column("budget"), self.column("joins")
            costs = self.column("factor") * self.cost(np.maximum(budget, 0.0)) * joins
            self.column("costs")[live] = costs[live]
        if not self._constants.k_ary:
            self.apply(campaign.tally, live, self._constants, 1)
            self.judge(live)

    def price(self) -> None:
        """Compute the bounds that are missing."""
        bound = self.column("bound")
        if (stale := np.isnan(bound)).any():
            cases = np.column_stack([self.column("theta")[stale], self.column("target")[stale]])
            cases, of = np.unique(cases, axis=0, return_inverse=True)
            result = payment_lower_bound(cases[:, :-1], cases[:, -1], self.cost, self.reporting)
            bound[stale] = result[of.ravel()]

    def send(self, live: Array) -> None:
        """Send the reports; an individual stopped by its budget counts as having stayed away."""
        channel, level, joins, budget = self.channels["report"], *map(self.column, ("level", "joins", "budget"))
        before = None if channel.config.budget is None else channel.messages()
        sent = self.column("sent")
        received, delivered = channel.send(sent, None if joins.all() else joins, levels=level)
        if before is not None:
            joins &= (channel.messages() > before) | ~live[:, None]
            budget[~joins], level[~joins] = -1.0, 0.0
        if channel.config.faults:  # a false report may lie outside the valid range
            delivered = delivered & (received >= 0) & (received < self.reporting.num_reports)
        self.column("received")[live], self.column("delivered")[live] = received[live], delivered[live]

    def judge(self, live: Array) -> None:
        """Compute the estimate, the winner, and the payment to it [Jiang 2.15-2.18] for tallies under mechanisms other
        than k-ary response."""
        counts, target = self.column("counts")[live], self.column("target")[live]
        nobody, estimate = counts.sum(-1) == 0, self.estimate(counts, target)
        winner, slope = payments.winning_report(estimate, target, self.reporting)
        self.column("estimate")[live], self.column("winner")[live] = estimate, np.where(nobody, -1, winner)
        self.column("degenerate")[live] = (slope == 0) | nobody
        self.column("won")[live, 0] = payments.winner_payment(self.column("scale")[live], slope)

    def announce(self, rule: str, target: ArrayLike, scale: ArrayLike, value: ArrayLike = 0) -> Array:
        """The platform's action float32[B, 1, D] for an announcement of numbers or [B], clipped to its space;
        ValueError for a rule that is not allowed."""
        rules = tuple(self.params.rules)
        if rule not in rules:
            raise ValueError(
                f"rule must be one of {', '.join(map(repr, rules))}, not {rule!r}: see the world's parameter rules"
            )
        given = [target, scale]
        given += [rules.index(rule) + 0.5] if len(rules) > 1 else []
        given += [np.asarray(value) + 0.5] if "posted_price" in rules else []
        action = np.stack([np.broadcast_to(np.asarray(one, np.float64), self.num_envs) for one in given], -1)
        space: Any = self.roles["platform"].action_space
        return np.clip(action[:, None].astype(np.float32), space.low, space.high)

    def default_action(self, role: str) -> Array:
        """The first rule at the desired budget, with the marginal cost there as its scale."""
        desired = self.state.desired
        return self.announce(self.params.rules[0], desired, self.cost.marginal(desired))

    def estimate(self, counts: Ints, target: Floats) -> Floats:
        """The estimate of theta, [B, M], from counts [B, x]; uniform where no agent reported."""
        total = counts.sum(-1)
        estimate = self.reporting.estimate(counts / np.maximum(total, 1)[:, None], target)
        return np.where(total[:, None] > 0, estimate, 1 / self.params.num_values)

    def empty_info(self) -> dict[str, Any]:
        reals = ("error", "payment", "lower_bound", "payment_ratio", "total_payment", "participation")
        values = np.zeros(self.params.num_values)
        own: dict[str, Any] = {name: {"individual": 0 if name == "data" else 0.0} for name in self.info_by_agent}
        flags = {"winner": -1, "degenerate": False, "tie": False}
        return {"theta": values, "estimate": values} | dict.fromkeys(reals, 0.0) | flags | own

    def clock(self) -> Array:
        self._require_reset()
        return self.column("campaign").astype(np.float64)

    def measures(self) -> dict[str, Callable[[], Array]]:
        return {
            name: partial(dict.__getitem__, self.outcome(), name) for name in (*campaign.SUMS[:-1], "total_payment")
        }

    def outcome(self) -> dict[str, Array]:
        """Means over the campaigns: `payment` (per participant), `payment_ratio` (payment over Theorem 1's bound),
        `error` (squared, summed over values), and per individual `shortfall` (of eps), `level` (of differential
        privacy), `participation` and `utility`; the share `degenerate` of the tallies; the sum `total_payment`; and per
        individual `loss`, the sum of payment and shortfall."""
        self._require_reset()
        sums = self.column("sums")
        means = sums / np.maximum(self.column("campaign"), 1)[:, None]
        metrics = {name: means[:, i].copy() for i, name in enumerate(campaign.SUMS[:-1])}
        loss = metrics["payment"] * metrics["participation"] + metrics["shortfall"]
        return metrics | {"total_payment": sums[:, campaign.PAID].copy(), "loss": loss}

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


elicitation_v0 = _World(Elicitation, Params)
