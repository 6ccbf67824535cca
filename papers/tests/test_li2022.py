"""Li & Song 2022: the formulas agree with the simulations, and the numbers of the verdicts with independent counts."""

import math
from typing import Any

import numpy as np
import pytest

from taciturn.bench.catalogue import load_studies
from taciturn.bench.results import Cell, Config, Group, Results
from taciturn.bench.study import DIFFERS, NOT_COMPUTED
from taciturn.policies.reference.arm_elimination import samples, target_gap
from taciturn_papers.li2022 import formulas, settings
from taciturn_papers.li2022.cells import run
from taciturn_papers.li2022.claims.figure_10 import DIAMETER
from taciturn_papers.li2022.claims.shared import LOGS, factor
from taciturn_papers.li2022.formulas import (
    binding_agents,
    binding_epsilon,
    course,
    expected,
    instances,
    round_cost,
)
from taciturn_papers.li2022.fronts import pareto_front
from taciturn_papers.li2022.settings import CASES, few_agents, in_components, on_graph, setting

STUDIES: Any = load_studies()
GRID = instances("grid", 100)[0][0]


def played(config: Config, runs: int = 10, seed: int = 0) -> dict[str, float]:
    return dict(run(Cell("li2022-4", {**config, "runs": runs}, seed), 0).metrics)


@pytest.mark.parametrize(
    "own",
    [{"epsilon": 1.0}, {"epsilon": 0.01}, {"epsilon": 1.0, "participation": 0.2}, {"epsilon": 1.0, "rounds": 4}],
    ids=str,
)
def test_the_formulas_alone_give_the_regret(own: Config) -> None:
    """Within 4%: a run's deviation is at most 3% of its regret, the mean of ten's below 1%."""
    config = setting("CDPMAB", own)
    found, formula = played(config), expected(config)
    assert found["regret_per_agent"] == pytest.approx(formula["regret"], rel=0.04)
    assert found["rounds"] == formula["rounds"]
    # A tenth fewer participants would be noticed.
    wrong = expected({**config, "policy_params": {**own, "participation": 0.9 * own.get("participation", 1.0)}})
    assert found["regret_per_agent"] != pytest.approx(wrong["regret"], rel=0.04)


@pytest.mark.parametrize("qualities", ["grid", "heterogeneous"])
def test_waiting_costs_what_agents_own_choices_lose(qualities: str) -> None:
    """Regret made while a ring's rounds are under way, within 15%: of 20 runs of instances and of 100 drawn ones, 5%
    each."""
    config = setting("DDPMAB", {"epsilon": 1.0}, "paper", qualities, num_agents=100, num_arms=10, topology="ring")
    formula = expected(config, 100)
    assert formula["waited"] > 1
    assert played(config, 20)["regret_waiting"] == pytest.approx(formula["waited"], rel=0.15)


def test_a_round_that_would_end_after_the_horizon_eliminates_nothing() -> None:
    """Two arms, a gap of .6; the first epoch ends long before the horizon, and waiting for its round lasts longer than
    the horizon."""
    cut = course(np.array([0.8, 0.2]), 10, math.inf, delay=100_000, horizon=100_000)
    assert (cut.rounds, cut.left, cut.waited) == (0, 2, 0)
    assert cut.regret == pytest.approx(100_000 * 0.6 / 2)
    assert course(np.array([0.8, 0.2]), 10, math.inf, delay=0, horizon=100_000).rounds > 0


def test_nobody_waits_where_all_are_neighbours() -> None:
    assert played(on_graph("complete", "grid"), 2)["regret_waiting"] == 0


@pytest.mark.parametrize("uploading", [1, 10, 50])
def test_the_privacy_term_binds_below_that_epsilon(uploading: int) -> None:
    """In the policy's own S(r): below it some epoch is longer than without privacy, above it none is."""
    edge = binding_epsilon(uploading)

    def binds(epsilon: float) -> bool:
        r, left = np.meshgrid(np.arange(1, 15), np.arange(2, 101))
        left = np.where(r == 1, 100, left)
        total, free = (samples(r, target_gap(r), left, 100, uploading, 100_000, e) for e in (epsilon, math.inf))
        return bool((total > free).any())

    assert binds(0.999 * edge)
    assert not binds(1.001 * edge)


def test_how_many_agents_the_privacy_term_binds_with() -> None:
    most = binding_agents(0.1)
    assert binding_epsilon(most) >= 0.1 > binding_epsilon(most + 1)


@pytest.mark.parametrize(
    ("case", "cost"),
    [("case 1", (345, 1200)), ("case 2", (355, 2560)), ("case 3", (149, 5000)), ("case 6", (5000, 5000))],
)
def test_what_a_round_of_table_2_costs_by_hand(case: str, cost: tuple[float, float]) -> None:
    """Complete components: each agent but the sink is one hop away; m (m - 1) / 2 edges in one slot."""
    assert round_cost(*CASES[case]) == cost


@pytest.mark.parametrize("case", ["case 1", "case 4", "case 5", "five rings"])
def test_what_a_round_of_table_2_costs_is_what_the_world_counts(case: str) -> None:
    found = played(in_components(case, "grid"), 1)
    each = (found["cost"] / found["rounds"], found["cost_bound"] / found["rounds"])
    assert each == pytest.approx(round_cost(*CASES[case]))


def test_the_accountant_totals_what_was_told() -> None:
    """M epsilon for each reward told at user level, and once at event level."""
    found = played(setting("CDPMAB", {"epsilon": 0.1}), 1)
    assert found["epsilon_event"] == pytest.approx(5)
    assert found["epsilon_user"] == pytest.approx(5 * found["rewards_reported"])
    assert found["rewards_reported"] == pytest.approx(course(GRID, 50, 0.1).reported, rel=0.05)


def test_who_tells_nothing_spends_nothing_and_who_tells_without_noise_all() -> None:
    alone = played(few_agents("SingleAgent", "grid"), 1)
    assert alone["epsilon_user"] == alone["epsilon_event"] == alone["transmissions"] == 0
    assert played(setting("CDPMAB", {}, "none", num_agents=5, num_arms=10), 1)["epsilon_event"] == math.inf


def test_a_front_is_what_nothing_beats_in_both() -> None:
    points = [(3.0, 1.0), (1.0, 5.0), (2.0, 6.0), (2.0, 2.0), (4.0, 1.0)]
    assert pareto_front(points) == [1, 3, 0]
    assert pareto_front([(2, 1), (1, 1), (3, 0), (0, 5), (4, 4)]) == [3, 1, 2]


def test_what_the_claims_say_of_graphs_is_of_these_graphs() -> None:
    for size in (1, 2, 3, 6, 7):
        np.testing.assert_array_equal(
            formulas.eccentricities("ring", size), settings.graph("ring", size).distances().max(1)
        )
    assert formulas.second_eigenvalues(settings.AGENTS)[2] == DIAMETER


@pytest.mark.parametrize("agents", [8, 50])
def test_rounds_that_are_no_worse_than_none(agents: int) -> None:
    """T^(2/R) is M at R = 2 log T/log M, and M^1.5 at three quarters of that, and so on."""
    rounds = 2 * math.log(1e5) / math.log(agents)
    assert factor(rounds) == pytest.approx(agents)
    assert factor(2 * rounds / 3) == pytest.approx(agents**1.5)
    assert pytest.approx(2 * LOGS) == 2 * math.log(1e5) / math.log(50)


def test_the_slope_at_the_end_is_that_of_the_curve() -> None:
    study = STUDIES["li2022-8"]
    found = study.run(Cell("li2022-8", few_agents("SingleAgent", "heterogeneous") | {"runs": 2}, 3))
    x, y = (np.asarray(one) for one in found.curves["regret_per_agent"])
    late = x >= 80_000
    assert found.metrics["final_slope"] == pytest.approx(np.ptp(y[late]) / 20_000)
    assert x[late][[0, -1]].tolist() == [80_000, 100_000]


@pytest.mark.parametrize(
    ("alone", "late", "verdict"), [(5.0, 1.0, "qualitative"), (5.0, 0.0, "differs"), (1.0, 0.0, "differs")]
)
def test_single_agents_with_these_regrets_are_as_figure_8_says(alone: float, late: float, verdict: str) -> None:
    """Five times the regret of five agents together, linear; or that of one of them, or nothing at the end."""
    groups = [
        Group(
            config,
            np.arange(5),
            {
                "regret_per_agent": np.full(5, alone if config["policy"] == "SingleAgent" else 1.0),
                "final_slope": np.full(5, late * alone / settings.HORIZON),
            },
            {},
            np.zeros(5),
        )
        for config in STUDIES["li2022-8"].settings(False)
    ]
    similar, share, linear = (one.verdict for one in STUDIES["li2022-8"].verdicts(Results(groups)))
    assert similar == "qualitative"
    assert share == ("agrees" if alone == 5 else "differs")
    assert linear == verdict


def test_playing_ones_own_best_arm_loses_by_one_agent_nothing() -> None:
    assert formulas.bias_slope(10, 1) == 0
    # Of two arms and many agents: the mean of the better one less that of either alike.
    two = formulas.bias_slope(2, 400, 2000)
    assert two == pytest.approx(math.sqrt(2 / 12 / 400) * math.sqrt(2 / math.pi) / 2, rel=0.1)


def test_verdicts_are_found_in_little(tmp_path: Any) -> None:
    """Two seeds of one run of each case of Table II, to the verdicts: case 3 is the cheapest by the proof's own
    count."""
    from taciturn.bench.runner import run_study
    from taciturn.bench.store import Store

    study = STUDIES["li2022-11"]

    class Little(type(study)):  # type: ignore[misc]
        name = "little"

        def cells(self, quick: bool) -> list[Cell]:
            return self.sweep(({**one, "runs": 1} for one in self.settings(quick)), range(2))

    store = Store(str(tmp_path))
    run_study([Little()], store, quick=True, progress=False)
    results = store.results("little")
    verdicts = {v.quantity: v for v in Little().verdicts(results)}
    grows = next(v for name, v in verdicts.items() if name.startswith("Figure 11: cost grows from case 1 to 2"))
    assert grows.verdict == DIFFERS
    assert [one.value for one in grows.numbers] == pytest.approx([1, 149 / 345])
    assert "If every edge of a component counted in every slot, the two ratios would be 1.65 and 2.52" in grows.reason
    divided = verdicts["Table II: each case divides 100 agents into components (number of agents in case 2)"]
    assert divided.numbers[0].value == 110
    few = Results(results.groups[:3])
    assert {v.verdict for v in Little().verdicts(few) if v.quantity.startswith("Figure 11: of cases")} == {NOT_COMPUTED}
    assert Little().plots(few)


@pytest.mark.parametrize("name", [f"li2022-{figure}" for figure in (4, 5, 6, 7, 8, 10, 12)])
def test_nothing_run_gives_no_plots(name: str) -> None:
    assert STUDIES[name].plots(Results([])) == []
