"""Platforms for `elicitation_v0` that model the individuals' answers: the cheapest announcement, and a low target."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from taciturn.envs.core import Array, PublicView, choice, integer, number
from taciturn.envs.elicitation.costs import Cost
from taciturn.envs.elicitation.game import Announcement
from taciturn.envs.elicitation.payments import MIN_TARGET
from taciturn.envs.elicitation.world import Elicitation
from taciturn.policies.base import Policy
from taciturn.policies.classic.elicitation import FreeRider, Truthful
from taciturn.policies.families.best_response import best_of_ratio
from taciturn.policies.families.elicitation import Individuals, Platform
from taciturn.policies.reference.elicitation import BestResponse, FiniteBestResponse, TargetQuality
from taciturn.validation import Floats, Ints, shown

ANSWERS: Mapping[str, type[Individuals]] = {
    kind.__name__: kind for kind in (BestResponse, FiniteBestResponse, FreeRider, TargetQuality, Truthful)
}
"""Individuals with answers that follow from the present announcement alone."""
MOST = 200  # most individuals for exact expectations
CENTRES = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9)
TARGETS = (MIN_TARGET, 0.1, 1.0, 3.0, 10.0)
SCALES = np.geomspace(1 / 64, 64, 33)
PRICES = np.geomspace(1 / 64, 16, 33)
ZOOMS, POINTS = 6, 13


def winners_share(theta: Floats, num_reports: int) -> Floats:
    """WINTALL's expected payment for each report under k-ary response, in units of scale (M + e) e, if K of N reports
    are true and the others are uniform: h(K) = E[c / (M c - N)], float64[N + 1] over K.

    c is the count of the most frequent report, and a term with M c <= N is 0 [Jiang 2.22, over N reports]. A report at
    budget eps is true with probability eps / (eps + M), for any sender, so h and the distribution of K give the exact
    expectation for any budgets: sum_K P(K) h(K).

    At most one count is above j >= N / 2. So P(c > j | K) is then the sum over x of the chances that the count of x,
    Bin(K, theta_x) + Bin(N - K, 1/M), is above j. Below N / 2, P(c <= j | K) is K! (N - K)! times the coefficient
    of z^K s^N in

        product over x of sum_{i <= j} ((theta_x z + 1/M) s)^i / i!.

    It is computed by means over circles of z and s (Cauchy's formula). Rounding errors are relative to the largest
    coefficient. So for each K the circle of z has the radius a / (1 - a), where a is the one of six values that puts
    the largest coefficient nearest to the K-th.
    """
    n, m = num_reports, len(theta)
    counts, k = np.arange(n + 1), np.arange(n + 1)
    z = np.exp(2j * np.pi * counts / (n + 1))
    at_most = np.zeros((n + 1, n + 1))  # [j, K]
    half = (n + 1) // 2  # from here on
    one = (1 + theta[:, None, None] * (z - 1)) ** k[:, None] * (1 + (z - 1) / m) ** (n - k)[:, None]  # [x, K, z]
    of_count = np.fft.fft(one).real.sum(0) / (n + 1)  # [K, i]
    at_most[half:] = 1 - (of_count.sum(1, keepdims=True) - of_count.cumsum(1)).T[half:]
    # Means over `kept` points add the coefficients of s^(N + kept), s^(N + 2 kept), ..., which are smaller than the
    # masses of a Poisson distribution with mean N.
    kept = min(m * n + 1, int(10 * math.sqrt(n)) + 10)
    s = np.exp(2j * np.pi * np.arange(kept // 2 + 1) / kept)
    twice = np.where((np.arange(s.size) == 0) | (2 * np.arange(s.size) == kept), 1.0, 2.0)
    weight = twice * s**-n * math.exp(n + math.lgamma(n + 1) - n * math.log(n)) / kept
    nearest = np.abs(k[:, None] / n - np.array(CENTRES)).argmin(1)
    for index, a in enumerate(CENTRES):
        chosen = k[nearest == index]
        distribution = a * z * theta[:, None] + (1 - a) / m  # [x, z]
        argument = n * distribution[..., None] * s  # [x, z, s]
        term = np.full(argument.shape, math.exp(-n / m), np.complex128)
        total = term.copy()
        below = np.zeros((half, n + 1), np.complex128)  # [j, z]
        for j in range(1, half):
            term *= argument
            term /= j
            total += term
            if m * j >= n:
                below[j] = total.prod(0) @ weight
        # The mean over s keeps both halves of its circle only for conjugate z, which the mean over z combines.
        mass = np.exp(
            [math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) for i in chosen.tolist()]
            + chosen * math.log(a)
            + (n - chosen) * math.log1p(-a)
        )
        at_most[:half, chosen] = (below @ z[:, None] ** -chosen).real / (n + 1) / mass
    gap = m * counts - n
    worth = np.where(gap > 0, counts / np.maximum(gap, 1), 0.0)
    found: Floats = worth @ np.diff(np.clip(at_most, 0.0, 1.0), axis=0, prepend=0.0)
    return found


def count_distribution(chances: Floats) -> Floats:
    """The distribution of a number of successes with these probabilities [..., N] (Poisson binomial), [..., N + 1]."""
    distribution = np.zeros((*chances.shape[:-1], chances.shape[-1] + 1))
    distribution[..., 0] = 1.0
    for i in range(chances.shape[-1]):
        a = chances[..., i, None]
        distribution[..., 1:] = distribution[..., 1:] * (1 - a) + distribution[..., :-1] * a
        distribution[..., :1] *= 1 - a
    return distribution


class _Remembering(FiniteBestResponse):
    """FiniteBestResponse that computes expected payments once for all scales; they are proportional to the scale,
    unless the cap binds."""

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        self._kept: dict[bytes, Floats] = {}

    def expected(self, seen: dict[str, Array], distributions: Floats) -> Floats:
        key = b"".join(seen[name].tobytes() for name in ("rule", "target", "value")) + distributions.tobytes()
        if key not in self._kept:
            self._kept = dict(list(self._kept.items())[-20:])
            self._kept[key] = super().expected(seen | {"scale": np.ones_like(seen["scale"])}, distributions)
        rows = self._kept[key].shape[1]
        return self._kept[key] * seen["scale"].astype(np.float64)[:, :rows, None]


class InformedPlatform(Platform):
    """The announcement with the least expected loss, for a platform that knows theta and the individuals' policies.

    It knows each individual's policy, cost and belief, so it can compute every agent's budget eps_i under any
    announcement. Individual i reports x with probability q_i(x) = (eps_i theta_x + 1) / (eps_i + M). The expected loss
    of a campaign per individual, which `loss` estimates, is then exactly

        E[payments] / N + (1/N) sum_i max(desired - eps_i, 0).

    With S = sum_i q_i the expected payments are scale (M + e) e sum_K P(K) h(K) under `wintall` (see `winners_share`),
    scale S(value) under `posted_price`, and scale sum_x (S(x)^2 - sum_i q_i(x)^2) / (N - 1) under `output_agreement`.
    The search minimises this over the rule, the target e (0.01, 0.1, 1, 3, 10 and the desired budget), the posted
    value, and the scale (33 values, from 1/64 to 64 times one that roughly elicits the desired budget; then six
    refinements of 13 values each around the best). Campaigns do not depend on each other, so one announcement serves
    for a run.

    `flat_rate` is left out because it elicits nothing from individuals that choose freely, and `peer_truth_serum`
    because, up to factors from past reports, it pays for agreement as `output_agreement` does.

    BestResponse believes the announced target. WINTALL promises it scale (M + e)^2 / (M t - 1) for a winning report,
    where t is the probability of the most probable value, and pays scale (M + e) e / (M f - 1). So the smallest target
    is the cheapest, and the loss falls below Theorem 1's bound, which holds for individuals with correct expectations.
    FiniteBestResponse computes its payment from the rule, so a low target does not mislead it.

    Args:
        individuals: shares of policies by name, as blocks in this order (`Mixture`): BestResponse, FiniteBestResponse,
            FreeRider, TargetQuality or Truthful, at their defaults.

    Raises:
        ValueError: there is another policy, more than 200 individuals, or a mechanism other than k-ary response.

    Cost:
        Some 20 s for 100 runs of 50 individuals with four values, and 40 s against FiniteBestResponse.
    """

    needs_truth = True

    def __init__(self, individuals: Mapping[str, float] | None = None) -> None:
        super().__init__()
        shares = {"BestResponse": 1.0} if individuals is None else individuals
        if not shares:
            raise ValueError(f"individuals must be shares of policies by name, not {shown(individuals)}")
        self.individuals = {
            choice("individuals", name, tuple(ANSWERS)): number("share", share, above=0)
            for name, share in shares.items()
        }

    def check(self, view: PublicView) -> None:
        p = view.params
        choice("reporting", p.reporting, ("k_ary",))
        if p.num_individuals > MOST:
            raise ValueError(f"num_individuals must be at most {MOST} for exact payments, not {p.num_individuals}")
        ends = np.cumsum(list(self.individuals.values()))
        stops = np.rint(ends / ends[-1] * p.num_individuals).astype(int).tolist()
        self._blocks = []
        for name, start, stop in zip(self.individuals, [0, *stops], stops, strict=False):
            if stop > start:
                one = _Remembering() if name == "FiniteBestResponse" else ANSWERS[name]()
                one.reset(view, self.rng, "individual")
                self._blocks.append((one, slice(start, stop)))
        self._known: tuple[Floats, Floats] = np.zeros((0, 0)), np.zeros((0, 0))
        self._asked: tuple[Floats, ...] = ()
        self._best: Array = np.zeros(0)

    def _announce(self, view: PublicView, theta: Floats, desired: Floats) -> Array:
        state = view.truth.state
        asked = (theta, desired, state.belief, state.factor)
        if all(np.array_equal(old, new) for old, new in zip(self._asked, asked, strict=False)) and self._asked:
            return self._best
        self._asked = tuple(x.copy() for x in asked)
        self._belief, self._factor = self._asked[2:]
        if not np.array_equal(self._known[0], theta):
            self._known = theta.copy(), np.array([winners_share(one, view.params.num_individuals) for one in theta])
        best, least = self._search(view, theta, desired)
        self.expected_loss = least
        shape = view.roles[self.role].action_space.shape or ()
        action = np.zeros((len(theta), 1, *shape), np.float32)
        for place, rule in enumerate(view.params.rules):
            where = best[:, 0] == place
            action[where] = view.announce(rule, best[:, 1], best[:, 2], best[:, 3])[where]
        self._best = action
        return action

    def _search(self, view: PublicView, theta: Floats, desired: Floats) -> tuple[Floats, Floats]:
        """The best announcements [B, 4], (index of the rule, target, scale, value), and their losses [B]."""
        p, (runs, m) = view.params, theta.shape
        wanted = view.cost.marginal(desired) * (desired + m) ** 2
        targets = [desired, *(np.full(runs, e) for e in TARGETS if e <= p.max_epsilon)]
        spread = np.maximum((theta**2).sum(-1) - 1 / m, 1e-3)
        options: list[tuple[int, Floats, Floats, int]] = []
        for place, rule in enumerate(p.rules):
            if rule == "wintall":
                options += [(place, e, wanted / (e + m) ** 2, 0) for e in targets]
            elif rule == "posted_price":
                options += [(place, desired, wanted, value) for value in range(m)]
            elif rule == "output_agreement":
                options += [(place, e, wanted * (e + m) / (e * m * spread), 0) for e in targets]
        best = np.zeros((runs, 4))
        best[:, 1] = desired
        least, step = self._losses(view, theta, desired, best), SCALES[1] / SCALES[0]
        for place, e, unit, value in options:
            for scale in SCALES:
                least = self._keep(view, theta, desired, best, least, (place, e, unit * scale, value))
        for _ in range(ZOOMS):
            around = best.copy()
            places, e, scales, values = (around[:, i] for i in range(4))
            for factor in np.geomspace(1 / step, step, POINTS):
                least = self._keep(view, theta, desired, best, least, (places, e, scales * factor, values))
            step **= 2 / (POINTS - 1)
        return best, least

    def _keep(
        self, view: PublicView, theta: Floats, desired: Floats, best: Floats, least: Floats, option: tuple[Any, ...]
    ) -> Floats:
        """Replace the best announcements wherever an option is better; returns the least losses."""
        tried = np.stack(np.broadcast_arrays(*option, desired)[:4], -1).astype(np.float64)
        tried[:, 2] = np.minimum(tried[:, 2], view.params.max_scale)
        result = self._losses(view, theta, desired, tried)
        better = result < least
        best[better] = tried[better]
        return np.where(better, result, least)

    def _losses(self, view: PublicView, theta: Floats, desired: Floats, tried: Floats) -> Floats:
        """The expected losses of announcements [B, 4] in the replicas, [B]; infinite if an individual stays away, or if
        the cap could bind."""
        p, (runs, m), n = view.params, theta.shape, view.params.num_individuals
        place, value = tried[:, 0].astype(np.int64), tried[:, 3].astype(np.int64)
        e, scale = (tried[:, i].astype(np.float32).astype(np.float64) for i in (1, 2))
        budgets = self._budgets(view, tried)
        distribution = (budgets[..., None] * theta[:, None] + 1) / (budgets[..., None] + m)
        total, rule = distribution.sum(1), np.array(p.rules)[place]
        paid = np.zeros(runs)
        if (wins := rule == "wintall").any():
            chance = count_distribution(budgets[wins] / (budgets[wins] + m))
            paid[wins] = ((m + e) * e * scale)[wins] * (chance * self._known[1][wins]).sum(-1)
        paid += np.where(rule == "posted_price", scale * total[np.arange(runs), value] / n, 0.0)
        agreement = (total**2 - (distribution**2).sum(1)).sum(-1) / (n * max(n - 1, 1))
        paid += np.where(rule == "output_agreement", scale * agreement, 0.0)
        largest = scale * np.where(rule == "wintall", (m + e) * e * n, 1.0)
        short = np.maximum(desired[:, None] - budgets, 0).mean(1)
        return np.where((budgets < 0).any(1) | (largest > p.payment_cap), np.inf, paid + short)

    def _budgets(self, view: PublicView, tried: Floats) -> Floats:
        """Every agent's answer to announcements [B, 4], float64[B, N]; -1: stays away."""
        n, m = view.params.num_individuals, view.params.num_values
        alike = self._belief.shape[1] == 1 and view.params.cost_spread == 0
        answers = np.zeros((len(tried), n))
        for policy, rows in self._blocks:
            some = slice(rows.start, rows.start + 1) if alike else rows
            size = some.stop - some.start
            shape = (len(tried), size)
            fields = zip(("rule", "target", "scale", "value"), (tried + np.array([0.5, 0, 0, 0.5])).T, strict=True)
            seen = {name: np.broadcast_to(x[:, None], shape).astype(np.float32) for name, x in fields}
            belief = self._belief if self._belief.shape[1] == 1 else self._belief[:, some]
            seen["belief"] = np.broadcast_to(belief, (*shape, m)).astype(np.float32)
            seen["cost"] = (view.cost.c * self._factor[:, some]).astype(np.float32)
            answers[:, rows] = policy.answer(seen).astype(np.float32)
        return answers


class UnderstatedTarget(Platform):
    """WINTALL at a target below the desired budget d, with a scale at which individuals choose d nevertheless.

    An individual with cost u g that believes the announced target e expects scale (M + e)^2 / (M t - 1) for the report
    of its most probable value, of probability t. Its best budget then solves scale (M + e)^2 / (eps + M)^2 = u g'(eps),
    for any t. As u is at most 1 + cost_spread, all choose d or more at

        scale = (1 + cost_spread) g'(d) ((d + M) / (e + M))^2,

    and the platform pays (M + e) e / (M f - 1) times that for each report of the winner, of share f: with e far below d
    this is a small part of WINTALL's payment at the target d. The platform uses public numbers only. Individuals who
    compute their payment from the rule (FiniteBestResponse) see that it is small, and add noise.

    Args:
        announced: e.
        target: d; None: the environment's desired budget.
    """

    def __init__(self, announced: float = MIN_TARGET, target: float | None = None) -> None:
        super().__init__(target)
        self.announced = number("announced", announced, at_least=MIN_TARGET, at_most=1e30)

    def announcement(self, theta: Floats, cost: Cost, target: float | None = None) -> Announcement:
        d, e, m = self.aim(target), self.announced, theta.size
        # Without an environment, as in `exploitability`, all have cost g.
        spread = self._view.params.cost_spread if self._reporting is not None else 0.0
        return Announcement("wintall", e, (1.0 + spread) * float(cost.marginal(d)) * ((d + m) / (e + m)) ** 2)


class BayesianPrice(Policy):
    """A posted price for one value, by Thompson sampling from the reports so far (Thompson 1933).

    The platform assumes that individuals know theta and have cost g. Then the price p for value v elicits the budget
    eps(theta, v, p) that maximises p (eps theta_v + 1) / (eps + M) - g(eps). Theta has a uniform prior on the simplex,
    approximated by `particles` quasi-random points. A campaign with counts n_x multiplies the weight of a point by
    prod_x ((eps theta_x + 1) / (eps + M))^n_x. In the next campaign the platform draws `draws` points by their weights,
    and posts the v and the p with the least mean over these points of the loss per individual,

        p (eps theta_v + 1) / (eps + M) + max(desired - eps, 0),

    over M values and 33 prices, at 1/64 to 16 times g'(desired) (desired + M)^2, or pays nothing if that costs less.

    Args:
        particles: points of the prior.
        draws: points drawn; with many, the platform minimises its posterior expected loss, and learns nothing where it
            pays nothing.
    """

    rule = "posted_price"

    def __init__(self, particles: int = 512, draws: int = 100) -> None:
        self.particles = integer("particles", particles, at_least=1, at_most=2**16)
        self.draws = integer("draws", draws, at_least=1, at_most=2**16)

    def begin(self, view: PublicView) -> None:
        fits = issubclass(view.world, Elicitation) and self.role == "platform"
        self.require(fits, "elicitation_v0, as its platform", view)
        choice("reporting", view.params.reporting, ("k_ary",))
        self._view, self._layout = view, view.roles[self.role].layout
        self._points = simplex_points(self.particles, view.params.num_values)
        self._log_weight = np.zeros((view.num_envs, self.particles))
        self._posted: tuple[Ints, Floats] = np.zeros(view.num_envs, np.int64), np.zeros(view.num_envs)

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        view, seen = self._view, self._layout.unpack(obs)
        desired = seen["desired"][:, 0].astype(np.float64)
        fresh = seen["time_left"][:, 0] >= 1
        self._log_weight[fresh] = 0.0
        counts = seen["shares"][:, 0].astype(np.float64) * (seen["participation"] * view.params.num_individuals)
        self._learn(np.where(fresh[:, None], 0.0, counts))
        value, price = self._choose(desired)
        self._posted = value, np.minimum(price, view.params.max_scale)
        action: Array = view.announce(self.rule, desired, self._posted[1], value)
        return action

    def _learn(self, counts: Floats) -> None:
        """Update the weights of the points by the counts [B, M] of the last campaign."""
        value, price = self._posted
        budget = self._budget(self._points[:, value].T, price[:, None])[..., None]
        distribution = np.log((budget * self._points + 1) / (budget + self._points.shape[1]))
        self._log_weight += np.einsum("bpx,bx->bp", distribution, counts)
        self._log_weight -= self._log_weight.max(1, keepdims=True)

    def _budget(self, share: Floats, price: Floats) -> Floats:
        """eps(theta, v, p) for theta_v and p, which broadcast."""
        view, m = self._view, self._points.shape[1]
        return best_of_ratio(np.maximum(price * (share - 1 / m), 0.0), view.cost, m, view.params.max_epsilon)

    def _choose(self, desired: Floats) -> tuple[Ints, Floats]:
        """The values and prices [B] with the least loss for a sample of points."""
        runs, m = len(desired), self._points.shape[1]
        below = np.cumsum(np.exp(self._log_weight), 1)
        drawn = self.rng.random((runs, self.draws, 1)) * below[:, None, -1:]
        points = self._points[np.minimum((below[:, None] <= drawn).sum(-1), self.particles - 1)]
        unit = self._view.cost.marginal(desired) * (desired + m) ** 2
        prices = unit[:, None] * PRICES
        price = prices[:, :, None, None]
        budget = self._budget(points[:, None], price)  # [B, price, draw, value]
        paid = price * (budget * points[:, None] + 1) / (budget + m)
        loss = (paid + np.maximum(desired[:, None, None, None] - budget, 0)).mean(2).reshape(runs, -1)
        best = loss.argmin(1)
        pays = loss[np.arange(runs), best] < desired
        chosen = np.where(pays, prices[np.arange(runs), best // m], 0.0)
        return best % m, chosen


def simplex_points(size: int, num_values: int) -> Floats:
    """Quasi-random points, uniform on the simplex, float64[size, M]: normalised exponential variates of a scrambled
    Halton sequence, the same at each call."""
    from scipy.stats import qmc

    drawn = -np.log1p(-qmc.Halton(num_values, rng=np.random.default_rng(0)).random(size))
    points: Floats = drawn / drawn.sum(1, keepdims=True)
    return points
