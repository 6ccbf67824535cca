"""The papers' claims can fail: fed the paper's own numbers each says that they agree, fed a null it does not."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import claims as claims_tool
import numpy as np
import pytest
import store_results
from scipy import stats

from taciturn.bench import statistics
from taciturn.bench.catalogue import load_studies
from taciturn.bench.results import Config, Group, Results
from taciturn.bench.statistics import Estimate
from taciturn.bench.study import AGREES, DIFFERS, IN_KIND, NOT_COMPUTED, UNDECIDED, VERDICTS, Verdict
from taciturn.bench.submission import ORIGIN
from taciturn.bench.tables import ours
from taciturn.envs import elicitation_v0
from taciturn.envs.elicitation.costs import LogCost
from taciturn.envs.social_bandit.dissemination import metropolis_hastings
from taciturn.graph import random_graph
from taciturn.policies import OptimalStopping, Wintall
from taciturn.policies.families.best_response import exploitability
from taciturn_papers.chen2021.mean_field import lemma_2, within
from taciturn_papers.chen2021.settings import SHARES
from taciturn_papers.claims import (
    BOUND,
    NUMBER,
    ORDER,
    Claim,
    Range,
    above,
    alike,
    at_least,
    at_most,
    below,
    not_reversed,
    read,
    rounded,
    untested,
    verdicts,
)
from taciturn_papers.jiang2020 import model
from taciturn_papers.jiang2020.claims import section_3_4
from taciturn_papers.jiang2020.claims.section_2_6 import higher
from taciturn_papers.jiang2020.claims.theorems_3_4 import K_STAR
from taciturn_papers.li2022 import formulas
from taciturn_papers.tao2023.claims.section_5 import mixing_growth
from taciturn_papers.tao2023.settings import uniform_regret

ROOT = Path(__file__).parents[2]
STUDIES: dict[str, Any] = {name: study for name, study in load_studies().items() if getattr(study, "claims", ())}
CLAIMS = [(name, claim) for name, study in STUDIES.items() for claim in study.claims]


def test_the_papers_numbers_hold_and_a_null_does_not() -> None:
    failures = [f"{name}, {claim.statement}: {why}" for name, claim in CLAIMS for why in wrong_about(claim)]
    assert len(CLAIMS) > 200
    assert not failures, "\n".join(failures)


def wrong_about(claim: Claim) -> list[str]:
    """What a claim says wrongly of the paper's numbers, of a null, of an unknown number and of nothing."""
    if claim.measure is None:
        unknown = verdicts([claim], Results([]))[0].verdict == NOT_COMPUTED
        return ["can be computed"] * (not unknown) + ["no explanation"] * (not claim.explanation)
    holds = IN_KIND if ORDER in {one.states for one in claim.each} else AGREES
    wrong = [f"the paper's own numbers: {found}"] if (found := claim.judge(claim.paper)) != holds else []
    wrong += [f"a null: {found}"] if (found := claim.judge(claim.null)) != DIFFERS else []
    # Numbers without an interval, or with one that excludes nothing, decide nothing.
    papers = claim.estimates(claim.paper)
    for low, high in ((math.nan, math.nan), (-math.inf, math.inf)):
        found = claim.judge([Estimate(x.value, low, high) for x in papers])
        wrong += [f"from {low} to {high}: {found}"] if found != UNDECIDED else []
    return wrong


PLACE = (
    r"(Sections?|Figures?|Tables?|Theorems?|Lemmas?|Corollary|Corollaries|Propositions?|Remarks?|Equations?|Algorithms?|"
    r"Definitions?|Assumptions?|Chapters?|Abstract|Appendix|Proof)\b[^:]*: '.+'"
)


def test_a_claim_quotes_its_paper_and_says_where_its_tolerance_comes_from() -> None:
    quoted = {f"{name}, {claim.statement}": claim.quote for name, claim in CLAIMS}
    assert len(quoted) == len(CLAIMS)
    own = {f"{name}, {claim.statement}" for name, claim in CLAIMS if claim.own}
    assert not {name: quote for name, quote in quoted.items() if (quote != "") if name in own}
    assert not {name: quote for name, quote in quoted.items() if not re.match(PLACE, quote) if name not in own}
    ranges = [(name, claim.statement, one) for name, claim in CLAIMS if claim.measure for one in claim.each]
    assert not [place for *place, one in ranges if not one.tolerance]


def test_a_number_that_is_half_or_one_and_a_half_times_as_large_differs() -> None:
    """Numbers both ways and bounds one way, in 90% of the claims that have one; those that do not are listed, each with
    its reason."""
    some = [one for one in claims_tool.claims() if one.states != ORDER]
    blind = [one for one in some if not (all if one.states == NUMBER else any)(claims_tool.sees(one))]
    print(f"{len(blind)} of {len(some)} claims with a number do not see it change by half:")
    print("\n".join(f"{one.statement}: {claims_tool.reason(one)}" for one in blind))
    assert len(blind) <= 0.1 * len(some)


def test_every_numbered_claim_has_a_row() -> None:
    rows: dict[str, str] = {}
    for name, claim in CLAIMS:
        paper = name.partition("-")[0]
        rows[paper] = rows.get(paper, "") + "\n" + claim.statement
    for paper, numbered in {
        "azize2022": ["Figure 2", "Figure 3", *(f"Theorem {n}:" for n in (2, 3, 6, 7, 8)), "Lemma 1:"],
        "chen2021": [
            *(f"Figure {n}" for n in range(1, 7)),
            *("Theorem 1:", "Theorem 2:", "Lemma 1:", "Lemma 2:", "Lemma 3:", "Equation (37):"),
        ],
        "chowdhury2023": [
            *("Figure 1:", "Figure 1, bottom", "Table 1:", "Lemma 1:", "Proposition 1:", "Remark 2:", "remark 1"),
            *(f"Theorem {n}:" for n in (1, 2, 3)),
        ],
        "jiang2020": [
            *(f"Figure {n}" for n in ("2.1", "2.2", "2.3", "2.4", "3.2", "3.3", "3.4", "3.5", "3.6")),
            *(
                "Theorem 1",
                "Theorem 2",
                "Theorem 3",
                "Theorem 4",
                *(f"Corollary {n}:" for n in (1, 2, 3)),
                *(f"Lemma {n}:" for n in range(1, 7)),
                "best response to any belief",
                "is O(M)",
            ),
        ],
        "tao2023": [
            *("Figure 2", "Figure 3", "Figure 4", "Theorem 5.1", "Theorem 5.2", "Theorem 5.3", "Remark 5.1"),
            *("almost the same horizon", "Equation (36):", "Remark 5.3:", *(f"Lemma 5.{n}:" for n in range(1, 11))),
        ],
        "li2022": [
            *(f"Figure {n}:" for n in (4, 5, 6, 7, 8, 10, 11, 12)),
            *(f"Theorem {n}:" for n in (1, 2, 3, 4)),
            *(f"Corollary {n}:" for n in (1, 2, 3)),
            *("Remark 1:", "Remark 2:", "Remarks 3 and 5:", "Table I:", "Table II:", "Equation 22"),
            *(f"Theorem {n}: M epsilon" for n in (1, 2, 3, 4)),
            "R = 3 log T/(4 log M)",
        ],
        "zhou2021": [
            *(f"Table {n}:" for n in (1, 2, 3)),
            *(
                "Figures 6 and 7:",
                "Figures 8 and 9:",
                *(f"Figure {n}:" for n in (10, 12, 13, 14)),
                "Figure 11 and Theorem 2:",
            ),
            *(f"Theorem {n}:" for n in (1, 2, 3, 4)),
            *("Theorem 5 and Remark 2:", "Remark 1:", *(f"Lemma {n}:" for n in (1, 2, 3))),
            *("UCB1 and Poo-Loc learn faster", "context-free algorithms converge faster", "increase with p"),
            *("accuracy of T-PriDO", "accuracy rises from n = 10,000"),
        ],
    }.items():
        assert [one for one in numbered if f"\n{one}" not in rows[paper] and one not in rows[paper]] == []


def test_a_range_and_an_interval() -> None:
    def judged(one: Range, *intervals: tuple[float, float]) -> list[str]:
        return [one.judge(Estimate((low + high) / 2, low, high)) for low, high in intervals]

    assert judged(rounded(1.5, 1), (1, 2), (0.5, 2), (3, 4)) == [AGREES, UNDECIDED, DIFFERS]
    assert judged(rounded(0.23, 0.01), (0.225, 0.235), (0.236, 0.236)) == [AGREES, DIFFERS]
    assert judged(read(-10, 1, "its plot"), (-10.9, -9.1), (-12, -11.1)) == [AGREES, DIFFERS]
    assert judged(at_most(1), (1, 1), (1, 2), (1.1, 2)) == [AGREES, UNDECIDED, DIFFERS]
    assert judged(at_least(1), (1, 1), (0, 1), (0, 0.9)) == [AGREES, UNDECIDED, DIFFERS]
    assert judged(above(1), (1.1, 2), (1, 2), (1, 1)) == [IN_KIND, UNDECIDED, DIFFERS]
    assert judged(below(1), (0, 0.9), (0, 1), (1, 1)) == [IN_KIND, UNDECIDED, DIFFERS]
    assert judged(alike(1, 0.1, "'similar'"), (0.95, 1.1), (0.8, 1), (1.2, 2)) == [IN_KIND, UNDECIDED, DIFFERS]
    assert judged(not_reversed(), (-1, 2), (0, 1), (-2, -1)) == [IN_KIND, IN_KIND, DIFFERS]


def test_a_claim_is_as_good_as_the_worst_of_its_numbers() -> None:
    claim = Claim("s", "", "p", lambda r: [1.0, 1.0], (at_most(2), below(2)), 1.0, 9.0, labels=("a", "b"))
    cases = ((1.0, 1.0), (1.0, 5.0), (5.0, 1.0), (1.0, Estimate(1, 0, 99)), (5.0, Estimate(1, 0, 99)))
    assert [claim.judge(numbers) for numbers in cases] == [IN_KIND, DIFFERS, DIFFERS, UNDECIDED, DIFFERS]
    found, unknown = verdicts([claim, untested("s", "", "p", "no data")], Results([]))
    assert ours(found) == "a: 1; b: 1"
    assert (claim.states, claim.tolerance) == (BOUND, "a bound; a direction")
    assert unknown.reason == "no data"


def test_what_is_not_decided_at_the_level_of_all_may_be_at_that_of_those_left() -> None:
    """Holm by hand: three intervals at 1 - .05/3, then those that are not decided at 1 - .05/2 or 1 - .05."""
    x = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    half = {n: stats.t.ppf(1 - 0.05 / n / 2, 4) * x.std(ddof=1) / 5**0.5 for n in (1, 2, 3)}
    assert half[1] < half[2] < half[3]

    def claim(*ranges: Range) -> Claim:
        labels = tuple(map(str, range(len(ranges))))
        return Claim("s", "", "p", lambda r: [statistics.mean(x)] * len(ranges), ranges, 0.0, 9.0, labels=labels)

    def between(n: int) -> float:
        """A bound that an interval excludes at the level for n intervals, and not at that for n + 1."""
        return (half[n] + half[n + 1]) / 2

    def judged(*claims: Claim) -> list[str]:
        return [one.verdict for one in verdicts(claims, Results([]))]

    agrees, in_kind, differs = claim(at_most(5)), claim(below(5)), claim(at_most(-5))
    assert judged(agrees, in_kind, claim(at_most(between(2)))) == [AGREES, IN_KIND, AGREES]
    assert judged(agrees, differs, claim(at_most(between(1)))) == [AGREES, DIFFERS, AGREES]
    wide = claim(at_most(0.0))
    assert judged(agrees, wide, claim(at_most(between(2)))) == [AGREES, UNDECIDED, AGREES]
    assert judged(wide, wide, claim(at_most(between(2)))) == [UNDECIDED, UNDECIDED, UNDECIDED]
    # A step that only must not be reversed holds until an interval at the last level shows that it is.
    falls = claim(not_reversed(between(1)))
    assert judged(agrees, in_kind, falls) == [AGREES, IN_KIND, DIFFERS]
    assert judged(agrees, wide, falls) == [AGREES, UNDECIDED, IN_KIND]


def test_a_verdict_has_one_vocabulary() -> None:
    assert VERDICTS == ("agrees", "qualitative", "differs", "undecided", "cannot be computed")
    with pytest.raises(ValueError, match=r"verdict must be one of .*, not 'in the limit'"):
        Verdict("q", 1.0, [], "in the limit")


# The claims, fed whole results.


def fed(study: str, metrics: Callable[[Config], dict[str, float]]) -> dict[str, str]:
    """Verdicts on five seeds that are all alike."""
    groups = []
    for config in STUDIES[study].settings(False):
        values = {name: np.full(5, value) for name, value in metrics(config).items()}
        groups.append(Group(config, np.arange(5), values, {}, np.zeros(5)))
    return {v.quantity: v.verdict for v in STUDIES[study].verdicts(Results(groups))}


def gossip(final: float, passage: float) -> dict[str, float]:
    """Runs whose share ends at `final` and reaches what it reaches up to a round after `passage`."""
    done = {"best": final, "agreed_at": passage, "consensus": float(final == 1), "agreed_on_best": float(final == 1)}
    for share in SHARES:
        time = passage + share if final >= share else math.inf
        done |= {f"mean_reaches_{share:g}": time, f"runs_reach_{share:g}": time}
    return done | {"replies": 2e4, "epsilon_zcdp": 9.0, "epsilon_per_requester": 9.0}


@pytest.mark.parametrize("study", ["chen2021-2", "chen2021-3", "chen2021-4", "chen2021-5", "chen2021-6"])
def test_curves_that_stay_at_three_tenths_agree_with_nothing_on_learning(study: str) -> None:
    verdicts = fed(study, lambda c: gossip(0.3, math.inf))
    others = {name: one for name, one in verdicts.items() if not name.startswith(("Lemma", "Theorem 2"))}
    assert others
    assert set(others.values()) == {DIFFERS}


def test_curves_that_take_as_long_as_in_figure_4_agree() -> None:
    def reached(config: Config) -> float:
        best, second, *_ = config["env_params"]["qualities"]
        return float(np.interp(best - second, [0.1, 0.3], [110, 30]))

    verdicts = fed("chen2021-4", lambda c: gossip(1.0, reached(c)))
    assert sorted(verdicts.values()) == [AGREES, AGREES, IN_KIND]
    verdicts = fed("chen2021-4", lambda c: gossip(1.0, 1.5 * reached(c)))
    assert sorted(verdicts.values()) == [DIFFERS, DIFFERS, IN_KIND]


def test_the_reported_numbers_of_section_3_4_1_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_numbers() -> list[str]:
        rows = STUDIES["jiang2020-3-3"].verdicts(Results([]))
        return [v.verdict for v in rows if v.quantity.startswith(("Section 3.4.1: lambda", "Section 3.4.1: th"))]

    assert of_numbers() == [DIFFERS] * 4
    papers = replace(model.solve(), bounds=(0.01203, 0.01234), optimal_rate=0.01209, thresholds=(10, 8))
    monkeypatch.setattr(section_3_4, "solve", lambda: papers)
    assert of_numbers() == [AGREES] * 4


def society(of_agents: Callable[[Config], float]) -> Callable[[Config], dict[str, float]]:
    return lambda config: {"regret": of_agents(config), "regret_at_tenth": of_agents(config), "messages": 9.0}


@pytest.mark.parametrize("study", ["tao2023-3", "tao2023-4"])
def test_societies_that_learn_nothing_keep_no_bound(study: str) -> None:
    verdicts = fed(study, society(lambda c: uniform_regret(c["options"])))
    bounds = {name: one for name, one in verdicts.items() if "within 6 delta" in name and "not within" not in name}
    assert bounds
    assert set(bounds.values()) == {DIFFERS}
    assert {name for name, one in verdicts.items() if one == AGREES} <= {
        name for name in verdicts if name.startswith("Theorem 5.3")
    }


def test_societies_that_learn_as_in_figure_4_agree() -> None:
    """Regret falls with N and epsilon: .2, .1 and .08 for the sizes at epsilon = .5, less by .06 at 2."""

    def regret(config: Config) -> float:
        size, level = config["env_params"].get("num_agents", 10**9), config.get("privacy", "")
        spent = float(level.partition(":")[2] or 9)
        return float(
            np.interp(size, [3000, 6000, 10_000], [0.2, 0.15, 0.1])
            - np.interp(spent, [0.5, 1, 1.5, 2], [0, 0.02, 0.03, 0.09 if size == 3000 else 0.03])
        )

    assert set(fed("tao2023-4", society(regret)).values()) == {AGREES, IN_KIND}
    half = fed("tao2023-4", society(lambda c: 1.5 * regret(c)))
    assert half["Figure 4: regret is within 6 delta with N = 10,000 (final regret)"] == DIFFERS


def test_what_has_not_been_run_is_not_computed() -> None:
    for name in ("chen2021-6", "li2022-12", "tao2023-3", "jiang2020-3-5"):
        rows = STUDIES[name].verdicts(Results([]))
        assert {(v.verdict, v.reason) for v in rows} == {(NOT_COMPUTED, "not run in full")}


# The numbers that claims compute, against independent ones.


def test_lemma_1_holds_with_the_other_sign() -> None:
    """V(k, k* - k) of a channel that is never idle is R(k*) less k* uploads of 1/mu slots."""
    setting = {
        "num_clients": 6, "upload_probability": 0.5, "compute_probability": 0.1, "broadcast_time": 3.0,
        "slot_time": 0.05, "reward": [0.0, 1.0, 1.5, 1.75, 1.8, 1.82, 1.83],
    }  # fmt: skip
    solution = OptimalStopping.solve(**setting)
    top, price = solution.thresholds[0], solution.rate
    values = model.best_values(setting, price)
    expected = [solution.model.rewards[top] - price * (3.0 + (top - k) * 0.1) for k in range(top + 1)]
    assert top > 1
    assert [values[k, top - k] for k in range(top + 1)] == pytest.approx(expected)
    assert model.lemma_1() == pytest.approx(1)


def test_a_rule_without_thresholds_is_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    assert model.theorem_4() == pytest.approx(1, abs=1e-9)
    worse = type(OptimalStopping.solve()).value
    monkeypatch.setattr(type(OptimalStopping.solve()), "value", lambda self, price: worse(self, 1.01 * price))
    assert model.theorem_4() < 0.999


def test_corollary_3_fails_without_its_margin() -> None:
    """k* < sqrt(a / (c - a/2) (1 + mu/p + mu t0/tau)) by hand for the stated model: 9 < 17.06."""
    bound = math.sqrt(0.018 / 0.031 * (1 + 312.5 + 187.5))
    assert bound == pytest.approx(17.06, abs=0.01)
    assert pytest.approx(bound) == K_STAR
    assert 9 / bound <= model.corollaries()[2] < 1


def test_lemma_2_of_chen_by_hand() -> None:
    """At N = 400 the bound 1 - 2K exp(-2 R^2 N) is near 1 - 2K; at its own N the estimates' deviations are far below
    delta."""
    mu, q = 0.3, 1 / (math.exp(1.5) + 1)
    delta = mu * 0.125 / (8 * (2 - mu) + mu)
    r = (1 - 2 * q) * mu * 0.125 / (9 * (8 * (2 - mu) + mu))
    bound, size, found = lemma_2(mu, 4, 3.0, 400)
    assert size == 400
    assert found == pytest.approx(delta)
    near = within(delta, (0.25,) * 4, 3.0, 400)
    assert bound == pytest.approx(1 - 8 * math.exp(-800 * r**2))
    sd = (
        math.sqrt(q * (1 - q) / 400) / (1 - 2 * q) * math.sqrt(0.75)
    )  # of a share of normalised estimates, to first order
    assert near == pytest.approx(2 * delta / sd / math.sqrt(2 * math.pi), rel=0.2)
    bound, size, _ = lemma_2(mu, 4, 3.0)
    assert bound == pytest.approx(0.9, abs=1e-3)
    assert size == pytest.approx(6.04e7, rel=0.01)
    assert within(delta, (0.25,) * 4, 3.0, size) >= bound


def test_mixing_by_the_powers_of_the_matrix() -> None:
    """The spectral gap's count of steps is enough, and of the right size, on an odd ring of 33."""
    psi = metropolis_hastings(random_graph("ring", 33, 1))
    gap = 1 - math.cos(2 * math.pi / 33)
    eigenvalues = np.sort(np.abs(np.linalg.eigvalsh(psi)))
    assert 0 < 1 - eigenvalues[-2] <= gap
    steps = math.log(2 * 33**4) / -math.log(eigenvalues[-2])
    for factor, close in ((1.0, True), (0.5, False)):
        power = np.linalg.matrix_power(psi, math.ceil(factor * steps))
        assert bool((np.abs(power - 1 / 33) <= 33.0**-3).all()) == close
    assert mixing_growth("ring", (33, 65)) > 2 > 1 > mixing_growth("erdos_renyi", (65, 129))


def test_growth_of_bounds_by_hand() -> None:
    """From T = 10^6 to 10^8 the first bound grows by log(KT log T), the second by the root of T as well (R = 4)."""
    means = (np.arange(100) + 0.5) / 100
    one, two = (formulas.course(means, 50, 1.0, horizon=10**n).regret for n in (6, 8))
    inside = [math.log(100 * 10**n * n * math.log(10)) for n in (6, 8)]
    assert formulas.growth(10**6, 10**8)[0] == pytest.approx(two / one / (inside[1] / inside[0]))
    one, two = (formulas.course(means, 50, 1.0, rounds=4, horizon=10**n).regret for n in (6, 8))
    inside = [math.log(16 * 100 * 10**n) for n in (6, 8)]
    assert formulas.growth(10**6, 10**8, 4)[0] == pytest.approx(two / one / (10 * inside[1] / inside[0]))


def test_equation_22_by_hand() -> None:
    """Just below Delta = 2^-n the first target below Delta / 2 is 2^-(n+2): 8 * 16."""
    assert formulas.equation_22() == pytest.approx(128, rel=0.01)


def test_tasks_are_counted_by_hand() -> None:
    """Two draws of nine tasks: higher in one and in three."""
    scores = {"WINTALL-40": [[2.0, 3, 1] * 3, [2.0] * 9], "Flat": [[2.0, 3, 2] * 2 + [1, 3, 2], [1.0] * 3 + [2] * 6]}
    groups = [
        Group(
            {"payment": name},
            np.arange(2),
            {f"score_{task + 1}": np.array([draw[task] for draw in draws]) for task in range(9)},
            {},
            np.zeros(2),
        )
        for name, draws in scores.items()
    ]
    assert higher(Results(groups), "WINTALL-40", "Flat", "score").value == (1 + 3) / 2


def test_which_targets_a_logarithmic_cost_keeps() -> None:
    """As README says: in the limit log(1 + e) against e (e + M) / ((1 + e) M); here exactly, with 3,000 individuals."""
    for theta, target, stored in (((0.5, 0.25, 0.25), 2.0, True), ((0.4, 0.3, 0.2, 0.1), 1.0, False)):
        values, cost = len(theta), LogCost(1.0)
        bound = elicitation_v0.payment_lower_bound(theta, target, cost)
        gain = exploitability(Wintall(target), np.full(3000, target), theta=theta, cost=cost) / bound
        assert (math.log(1 + target) < target * (target + values) / ((1 + target) * values)) == stored
        assert (gain < 1e-3) == stored


def test_verdicts_hold_together() -> None:
    """Ten claims that a mean is at most 1, from intervals that end at 1 if each is at 95% by itself: one such claim
    alone agrees, ten do not; and with others that are clear, those left count for less (Holm)."""
    noise = np.array([-1.0, 0.0, 1.0])
    half = statistics.mean(noise).high
    close, clear = 1 - 1.2 * half, 1 - 100 * half

    def claim(value: float) -> Claim:
        return Claim("s", "", "p", lambda r: statistics.mean(value + noise), at_most(1), 0.0, 2.0)

    none = Results([])
    assert [v.verdict for v in verdicts([claim(close)], none)] == [AGREES]
    together = verdicts([claim(close)] * 10, none)
    assert {v.verdict for v in together} == {UNDECIDED}
    assert "Without the correction for multiple tests the verdict is 'agrees'" in together[0].reason
    assert [v.verdict for v in verdicts([claim(close), *[claim(clear)] * 9], none)] == [AGREES] * 10
    assert statistics.mean(noise).high == half


# Kept full results.

FILES = [file for file in sorted(store_results.KEPT_OF_PAPERS.glob("*.json")) if file.stem in STUDIES]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_is_kept_gives_a_number_for_every_claim(file: Path) -> None:
    origin, _, found = store_results.load(file.stem)
    assert {*ORIGIN, "core_hours"} <= set(origin)
    for claim, stored in zip(STUDIES[file.stem].claims, found, strict=True):
        assert claim.statement == stored.quantity
        assert bool(stored.numbers) == (claim.measure is not None), stored.reason


def test_few_claims_are_left_undecided() -> None:
    found = [one for file in FILES for one in store_results.load(file.stem)[2] if not one.own]
    undecided = [one.quantity for one in found if one.verdict == UNDECIDED]
    assert len(undecided) <= 20, undecided
