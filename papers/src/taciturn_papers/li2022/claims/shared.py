"""What the claims of Li & Song 2022 share: numbers as text, regrets that fall, and the epsilon of a message."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from taciturn.bench.results import Config, Results
from taciturn_papers.claims import Claim, at_most, falling, group_of
from taciturn_papers.li2022.formulas import expected
from taciturn_papers.li2022.settings import AGENTS, HORIZON

REGRET, WAITING = "regret_per_agent", "regret_waiting"
ONE = at_most(1 + 1e-9)  # the rounded ratio of equal numbers may exceed 1
LOGS = math.log(HORIZON) / math.log(AGENTS)


def text(value: float) -> str:
    """Three significant digits; all digits above 100."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def listed(values: Iterable[tuple[Any, float]]) -> str:
    """`98 (star), 1,250 (ring)`."""
    return ", ".join(f"{text(value)} ({name})" for name, value in values)


def value_of(results: Results, config: Config, metric: str = REGRET) -> float:
    """Mean of a metric in one setting, for an explanation."""
    return group_of(results, config).mean(metric)


def per_round(results: Results, config: Config, metric: str) -> float:
    """A cost per communication round."""
    return value_of(results, config, metric) / value_of(results, config, "rounds")


PREDICTED = "with every estimate at its expectation"
CONSTANTS = (
    f"the growth is computed {PREDICTED}. The paper does not give the constants of the bound, so we compare only the "
    "growth with T"
)


def by_formulas(one: Config, other: Config) -> str:
    """The ratio of the regret in setting `one` to the regret in `other`, by the formulas."""
    return text(expected(one)["regret"] / expected(other)["regret"])


def regret_falls(
    statement: str, quote: str, stated: str, symbol: str, names: Sequence[float], chosen: Sequence[Config]
) -> Claim:
    """A claim that the regret falls along the settings."""

    def along(regrets: Iterable[float]) -> str:
        return ", ".join(f"{text(x)} at {symbol} = {name:g}" for name, x in zip(names, regrets, strict=True))

    def why(results: Results) -> str:
        runs = along(value_of(results, one) for one in chosen)
        return f"regret is {runs}; {PREDICTED} it would be {along(expected(one)['regret'] for one in chosen)}"

    return falling(statement, quote, stated, [f"{name:g}" for name in names], chosen, REGRET, why)


def spent(theorem: int, quote: str, settings_of: Sequence[tuple[str, Config]]) -> Claim:
    """Theorems 1 to 4: each message is (M epsilon)-differentially private."""
    return Claim(
        f"Theorem {theorem}: M epsilon-differential privacy holds for each message (ratio of its epsilon in the "
        "accountant to M epsilon)",
        quote,
        "at most 1",
        lambda r: [
            value_of(r, one, "epsilon_message") / (one["env_params"]["num_agents"] * one["policy_params"]["epsilon"])
            for _, one in settings_of
        ],
        ONE,
        1.0,
        math.inf,
        "each upload, a mean of n rewards, gets noise Lap(1 / (N epsilon n)) if N agents upload",
        tuple(name for name, _ in settings_of),
    )


def factor(rounds: float) -> float:
    """T^(2/R), the factor of Theorem 2 at p = 1."""
    return float(HORIZON ** (2 / rounds))
