"""One market, as plain functions of numbers (`taciturn.envs.core.Replicas`): its start, announcements, reports and
payments.

The equations are from Jiang 2020, chapter 2. Between these functions, the environment itself computes everything that
needs a mechanism's tables, or costs given as functions of arrays.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from taciturn.compiling.compiled import private
from taciturn.compiling.counter_streams import uniform
from taciturn.envs.core.qualities import QualityDistribution, fill_qualities
from taciturn.envs.elicitation.costs import OTHER, cost_of, marginal_of
from taciturn.envs.elicitation.payments import AGREEMENT, SERUM, WINTALL, k_ary_bound, rule_payment, wintall_amount
from taciturn.envs.elicitation.reporting import bit_chances, debiased_share
from taciturn.validation import Ints

# Sums over the campaigns of a run.
SUMS = ("payment", "payment_ratio", "error", "shortfall", "level", "participation", "utility", "degenerate", "paid")
PAYMENT, RATIO, ERROR, SHORTFALL, LEVEL, PARTICIPATION, UTILITY, DEGENERATE, PAID = range(len(SUMS))

# Sums over the individuals of a campaign, the mean payment per participant, its ratio to the bound, and the error.
TOTALS = ("paid", "cost", "shortfall", "level", "joined", "mean", "ratio", "error")
ALL_PAID, ALL_COSTS, ALL_SHORTFALL, ALL_LEVELS, ALL_JOINED, MEAN, TO_BOUND, SQUARED_ERROR = range(len(TOTALS))

SOURCES = ("theta", "beliefs", "costs", "targets", "data", "reports", "ties", "peers")
THETA, BELIEFS, COSTS, TARGETS, DATA, REPORTS, TIES, PEERS = range(len(SOURCES))


class Constants(NamedTuple):
    """The `params` of a market's functions; the first ones are the environment's parameters with the same names."""

    num_individuals: int
    horizon: int
    belief_concentration: float
    cost_spread: float
    max_epsilon: float
    max_scale: float
    penalty: float
    payment_cap: float
    distribution: QualityDistribution  # of theta
    c: float  # of the cost
    kind: int  # the kind of cost
    low: float  # the lowest desired budget
    high: float
    first_rule: int
    allowed: Ints  # the positions in RULES of the rules allowed
    places: Ints  # the index of each rule among them
    least: float  # the smallest target
    k_ary: bool
    bounded: bool  # whether Theorem 1's bound is computed here
    bare: bool  # no mechanism on the channel: reports arrive and are charged here
    symmetric: bool  # RAPPOR rather than OUE
    by_quality: bool  # the objective
    prices: bool  # whether a price may be posted
    serum: bool  # whether payments may depend on past shares


# The start of a run.


def gamma(shape: float, rng: Any, source: int) -> float:
    """A gamma variate of scale 1 (Marsaglia & Tsang 2000), with the normal variates of Box & Muller 1958."""
    factor = 1.0
    if shape < 1.0:  # section 6
        factor = (1.0 - uniform(rng, source)) ** (1.0 / shape)
        shape += 1.0
    d = shape - 1.0 / 3.0
    step = 1.0 / math.sqrt(9.0 * d)
    while True:
        radius = math.sqrt(-2.0 * math.log1p(-uniform(rng, source)))
        x = radius * math.cos(2.0 * math.pi * uniform(rng, source))
        root = 1.0 + step * x
        if root > 0.0:
            v, drawn, square = root * root * root, 1.0 - uniform(rng, source), x * x
            # The first condition implies the second and avoids two logarithms.
            if drawn < 1.0 - 0.0331 * square * square or math.log(drawn) < 0.5 * square + d - d * v + d * math.log(v):
                return factor * d * v


def fill_dirichlet(out: Any, mean: Any, concentration: float, rng: Any, source: int) -> None:
    """Fill `out` [M] with a Dirichlet variate of parameters concentration x mean, or with the mean if all parts
    underflow."""
    mass = 0.0
    for k in range(len(out)):
        out[k] = gamma(concentration * mean[k], rng, source) if mean[k] > 0.0 else 0.0
        mass += out[k]
    for k in range(len(out)):
        out[k] = out[k] / mass if mass > 0.0 else mean[k]


def begin(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    """Draw theta, beliefs, costs and the desired budget. The first announcement is the first rule at that budget; its
    scale is the marginal cost there."""
    theta = arrays.theta
    if params.distribution.drawn:
        theta[:] = 1.0
        fill_dirichlet(theta, theta, 1.0, rng, THETA)
    else:
        fill_qualities(theta, params.distribution, rng, THETA)
    for i in range(len(arrays.belief)):
        if params.belief_concentration < math.inf:
            fill_dirichlet(arrays.belief[i], theta, params.belief_concentration, rng, BELIEFS)
        else:
            for k in range(len(theta)):
                arrays.belief[i, k] = theta[k]
    for i in range(params.num_individuals):
        arrays.factor[i], arrays.budget[i] = 1.0, -1.0
        if params.cost_spread > 0.0:
            arrays.factor[i] = 1.0 + params.cost_spread * (2.0 * uniform(rng, COSTS) - 1.0)
    state.desired = params.low
    if params.high > params.low:
        state.desired = params.low + (params.high - params.low) * uniform(rng, TARGETS)
    state.target, state.rule, state.winner = state.desired, params.first_rule, -1
    if params.kind != OTHER:
        state.scale = min(max(marginal_of(params.kind, params.c, state.desired), 0.0), params.max_scale)
    price(state, arrays, params)


def price(state: Any, arrays: Any, params: Any) -> None:
    """Theorem 1's bound at the announced target."""
    state.bound = math.nan
    if params.bounded:
        most, num_values = 0.0, len(arrays.theta)
        for k in range(num_values):  # NumPy's array functions count references and take twice as long to compile
            most = max(most, arrays.theta[k])
        state.bound = k_ary_bound(most, state.target, params.kind, params.c, num_values)


# The platform's turn.


def announce(state: Any, arrays: Any, actions: Any, params: Any, rng: Any) -> None:
    """An announcement `[target, scale, (rule), (value)]`; the bound is recomputed if the target has changed."""
    target = max(np.float64(actions[0, 0]), params.least)
    if target != state.target:
        state.target = target
        price(state, arrays, params)
    state.scale, place = np.float64(actions[0, 1]), 2
    if len(params.allowed) > 1:
        state.rule = params.allowed[min(int(actions[0, place]), len(params.allowed) - 1)]
        place += 1
    if params.prices:
        state.value = min(int(actions[0, place]), len(arrays.counts) - 1)
    state.closed = False


def goes_on(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    """(terminated, truncated) after an announcement."""
    return False, False


# The individuals' turn.


def draw_value(theta: Any, rng: Any, source: int) -> int:
    """S ~ theta, by inversion of its distribution function."""
    drawn, below = uniform(rng, source), 0.0
    for k in range(len(theta) - 1):
        below += theta[k]
        if drawn < below:
            return k
    return len(theta) - 1


def k_ary_report(value: int, budget: float, num_values: int, rng: Any, source: int) -> int:
    """k-ary response: the value with probability eps / (eps + M), and otherwise any."""
    if uniform(rng, source) < budget / (budget + num_values):
        return value
    return int(uniform(rng, source) * num_values)


def unary_report(value: int, budget: float, num_values: int, symmetric: bool, rng: Any, source: int) -> int:
    """Unary encoding: bit k is 1 with probability p if the value is k, else q."""
    p, q = bit_chances(budget, symmetric)
    report = 0
    for k in range(num_values):
        if uniform(rng, source) < (p if k == value else q):
            report += 1 << k
    return report


def report(state: Any, arrays: Any, actions: Any, params: Any, rng: Any) -> None:
    """Draw everyone's data and the participants' reports, which arrive here if the channel has no mechanism."""
    values = len(arrays.theta)
    for i in range(params.num_individuals):
        budget = np.float64(actions[i, 0])
        arrays.data[i] = private(i, draw_value(arrays.theta, rng, DATA))
        arrays.joins[i] = budget >= 0.0
        arrays.budget[i], arrays.level[i], arrays.sent[i] = -1.0, 0.0, 0
        if arrays.joins[i]:
            arrays.budget[i], arrays.level[i] = budget, math.log1p(budget)
            if params.k_ary:
                arrays.sent[i] = k_ary_report(arrays.data[i], budget, values, rng, REPORTS)
            else:
                arrays.sent[i] = unary_report(arrays.data[i], budget, values, params.symmetric, rng, REPORTS)
        arrays.received[i], arrays.delivered[i] = arrays.sent[i], arrays.joins[i]


def charge(state: Any, arrays: Any, i: int) -> None:
    """Count a report of individual i and its level."""
    level = arrays.level[i]
    state.messages += 1
    state.dearest = max(state.dearest, level)
    arrays.counted[i, 0] += 1
    arrays.counted[i, 1] += level > 0.0
    arrays.spent[i, 0] += level
    arrays.spent[i, 1] += level * level
    arrays.spent[i, 2] = max(arrays.spent[i, 2], level)


def tally(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    """Count the reports that arrived."""
    arrays.counts[:] = 0
    for i in range(params.num_individuals):
        if arrays.delivered[i]:
            arrays.counts[arrays.received[i]] += 1


def draw_winner(counts: Any, rng: Any, source: int) -> tuple[int, bool]:
    """The most frequent report, and whether there was a tie; ties are broken uniformly."""
    most, ties = 0, 0
    for x in range(len(counts)):
        if counts[x] > most:
            most, ties = counts[x], 0
        ties += counts[x] == most
    left = int(uniform(rng, source) * ties) if ties > 1 else 0
    for x in range(len(counts)):
        if counts[x] == most:
            if left == 0:
                return x, ties > 1
            left -= 1
    return -1, False


def judge_k_ary(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    """Under k-ary response: the estimate of theta, the winner, and WINTALL's payment to it."""
    values, total = len(arrays.theta), arrays.counts.sum()
    for k in range(values):
        arrays.estimate[k] = 1.0 / values
        if total > 0:
            arrays.estimate[k] = debiased_share(arrays.counts[k] / total, state.target, values)
    winner, tie = draw_winner(arrays.counts, rng, TIES)
    most = arrays.counts[winner]
    state.winner, state.tie = winner if total > 0 else -1, tie and total > 0
    arrays.won[0] = wintall_amount(most, total, values, state.target, state.scale)
    state.degenerate = values * most <= total


def reference(past: Any, total: int, x: int) -> float:
    """The share of a report among all `total` past ones, plus one more of each value."""
    return float((past[x] + 1.0) / (total + len(past)))


def fill_prizes(state: Any, arrays: Any, params: Any) -> None:
    """The payment for each report of the tally, and the probability of payment (under some rules, the probability that
    a peer's report agrees)."""
    total, kinds = arrays.counts.sum(), len(arrays.counts)
    past = arrays.past.sum()
    for x in range(kinds):
        won, share = arrays.won[0] if x == state.winner else 0.0, reference(arrays.past, past, x)
        prize = rule_payment(state.rule, state.scale, won, x == state.value, share, kinds)
        chance = 1.0
        if state.rule >= AGREEMENT:
            chance = max((arrays.counts[x] - 1.0) / max(total - 1.0, 1.0), 0.0)
        arrays.prize[x], arrays.chance[x] = min(prize, params.payment_cap), chance
    state.degenerate = state.degenerate and state.rule == WINTALL


def settle(state: Any, arrays: Any, params: Any) -> None:
    """Close a campaign, given its sums over individuals in `arrays.totals`: pay the platform's reward, and add to the
    run's sums."""
    n, totals, sums = params.num_individuals, arrays.totals, arrays.sums
    for k in range(len(arrays.theta)):
        gap = arrays.estimate[k] - arrays.theta[k]
        totals[SQUARED_ERROR] += gap * gap
    paid, error = totals[ALL_PAID], totals[SQUARED_ERROR]
    totals[MEAN] = paid / max(totals[ALL_JOINED], 1.0)
    totals[TO_BOUND] = totals[MEAN] / state.bound if state.bound > 0.0 else 0.0
    arrays.reward[0] = -(paid + params.penalty * (totals[ALL_SHORTFALL] if params.by_quality else n * error))
    state.paid = paid
    sums[PAYMENT] += totals[MEAN]
    sums[RATIO] += totals[TO_BOUND]
    sums[ERROR] += error
    sums[SHORTFALL] += totals[ALL_SHORTFALL] / n
    sums[LEVEL] += totals[ALL_LEVELS] / n
    sums[PARTICIPATION] += totals[ALL_JOINED] / n
    sums[UTILITY] += (paid - totals[ALL_COSTS]) / n
    sums[DEGENERATE] += state.degenerate
    sums[PAID] += paid
    for x in range(len(arrays.counts)):
        arrays.past[x] += arrays.counts[x]
    state.campaign += 1
    state.closed = True


def pay(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    """Tally the reports that arrived, pay for them, and close the campaign; (terminated, truncated)."""
    if params.k_ary:
        tally(state, arrays, params, rng)
        judge_k_ary(state, arrays, params, rng)
    fill_prizes(state, arrays, params)
    totals = arrays.totals
    totals[:] = 0.0
    for i in range(params.num_individuals):
        if params.kind != OTHER:
            arrays.costs[i] = 0.0
        if arrays.joins[i]:
            if params.kind != OTHER:
                arrays.costs[i] = arrays.factor[i] * cost_of(params.kind, params.c, arrays.budget[i])
            if params.bare:
                charge(state, arrays, i)
        paid = 0.0
        if arrays.delivered[i]:
            x = arrays.received[i]
            agrees = arrays.chance[x] >= 1.0 or uniform(rng, PEERS) < arrays.chance[x]
            paid = arrays.prize[x] if agrees else 0.0
        arrays.payments[i] = paid
        reward[1 + i] = paid - arrays.costs[i]
        totals[ALL_PAID] += paid
        totals[ALL_COSTS] += arrays.costs[i]
        totals[ALL_SHORTFALL] += max(state.desired - max(arrays.budget[i], 0.0), 0.0)
        totals[ALL_LEVELS] += arrays.level[i]
        totals[ALL_JOINED] += arrays.joins[i]
    settle(state, arrays, params)
    return False, state.campaign >= params.horizon


# Observations and info.


def show_announcement(seen: Any, params: Any, out: Any) -> int:
    """Fill the fields of an announcement; returns the index after them."""
    out[0], out[1], place = seen.target, seen.scale, 2
    if len(params.allowed) > 1:
        out[place] = params.places[seen.rule]
        place += 1
    if params.prices:
        out[place] = seen.value
        place += 1
    return place


def observe_platform(seen: Any, params: Any, out: Any) -> None:
    place, kinds = show_announcement(seen, params, out), len(seen.counts)
    total, past = seen.counts.sum(), max(seen.past.sum(), 1)
    out[place] = seen.desired
    for x in range(kinds):
        out[place + 1 + x] = seen.counts[x] / max(total, 1)
        out[place + kinds + 4 + x] = seen.past[x] / past
    out[place + kinds + 1] = total / params.num_individuals
    out[place + kinds + 2] = seen.paid / max(total, 1)
    out[place + kinds + 3] = seen.degenerate
    out[place + 2 * kinds + 4] = 1.0 - seen.campaign / params.horizon


def observe_individual(seen: Any, params: Any, out: Any) -> None:
    place = show_announcement(seen, params, out)
    if params.serum:
        kinds, past = len(seen.past), seen.past.sum()
        for x in range(kinds):
            out[place + x] = reference(seen.past, past, x) if seen.rule == SERUM else 0.0
        place += kinds
    out[place] = params.c * seen.factor
    for k in range(len(seen.belief)):
        out[place + 1 + k] = seen.belief[k]


def fill_info(state: Any, arrays: Any, params: Any, info: Any) -> None:
    info.lower_bound = state.bound
    if state.closed:
        info.winner, info.tie, info.degenerate = state.winner, state.tie, state.degenerate
        info.error, info.total_payment = arrays.totals[SQUARED_ERROR], state.paid
        info.payment, info.payment_ratio = arrays.totals[MEAN], arrays.totals[TO_BOUND]
        info.participation = arrays.totals[ALL_JOINED] / params.num_individuals
