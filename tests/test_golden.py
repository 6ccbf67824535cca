"""Short seeded runs as text, compared with what they were: `pytest tests/test_golden.py --regenerate-golden` accepts a change."""

from pathlib import Path
from typing import Any

import pytest

from tacit.envs import round_stopping_v0
from tacit.policies import Deadline, FixedCount

GOLDEN = Path(__file__).parent / "golden"
SMALL: dict[str, Any] = {"num_clients": 8, "broadcast_time": 0.1, "compute_probability": 0.15, "time_budget": 1.0}


def round_stopping(policy: Any, **params: Any) -> str:
    population = round_stopping_v0.population(**SMALL, **params)
    population.reset(seed=2020)
    policy.reset(population, population.stream("policy/server"))
    lines = [population.describe()]
    while not population.done.all():
        population.advance(policy, steps=1)
        lines.append(population.describe())
    return "".join(f"{line.rstrip()}\n" for line in lines)


RUNS = {
    "round_stopping_geometric": lambda: round_stopping(FixedCount(4)),
    "round_stopping_pareto": lambda: round_stopping(Deadline(12), time_law="pareto", computing=(2.0, 4.0)),
}


@pytest.mark.parametrize("name", RUNS)
def test_golden(name: str, request: pytest.FixtureRequest) -> None:
    file, text = GOLDEN / f"{name}.txt", RUNS[name]()
    if request.config.getoption("--regenerate-golden"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")
