"""Checks of entries on the leaderboard of agents: whether a user's agent made them, and whether their numbers can
result from runs."""

import math
from typing import Any

import numpy as np

from taciturn.bench.results import RUNS, Config, Group
from taciturn.bench.study import CENTRALISED
from taciturn.bench.tasks import (
    BENCHMARKS,
    EPSILON,
    KINDS,
    LISTENS,
    MESSAGES,
    NO_BUDGET_LIMIT,
    ORACLE,
    REFERENCES,
    RETURN,
    SILENCED,
    YOURS,
    budgets_of,
    first_of,
    tasks_of,
)
from taciturn.registry import make_policy, policies
from taciturn.validation import choice, number, shown

ENTRIES = ("env", "env_params", "policy", "policy_params", "kind", "content", "knows_truth", "memoryless", "budget")
LONGEST_NAME = 200
LARGEST = 1e12
"""Upper bound of all numbers in the study."""


def check_entry(group: Group, own: list[Config], seeds: range) -> None:
    """Raise ValueError unless it is one of the study's `own` configurations or a user's agent, with numbers that can
    result from its runs."""
    config = group.config
    if choice("kind", config.get("kind"), (*KINDS, *REFERENCES, ORACLE, YOURS)) == YOURS:
        check_agent(config)
    elif config not in own:
        raise ValueError(f"kind must be {YOURS!r} of an agent that the study does not have, not {config['kind']!r}")
    if not set(group.seeds.tolist()) <= set(seeds):
        raise ValueError(f"seeds must be of those from 0 to {seeds[-1]}, not {shown(group.seeds.tolist())}")
    benchmark = BENCHMARKS[config["env"]]
    measure = next(task for task in tasks_of(config["env"]) if task.name == first_of(config)).metric
    bounds = {task.metric: benchmark.bounds for task in tasks_of(config["env"])}
    bounds |= {f"{measure}/{SILENCED}": benchmark.bounds}
    bounds |= {RETURN: (-math.inf, math.inf), CENTRALISED: (0.0, 1.0), LISTENS: (0.0, 1.0)}
    counts = (f"{MESSAGES}/{task.name}" for task in tasks_of(config["env"]) if task.name != first_of(config))
    bounds |= dict.fromkeys((MESSAGES, EPSILON, "epsilon_message", *counts), (0.0, math.inf))
    if (budget := config.get("budget", NO_BUDGET_LIMIT)) not in budgets_of(config["env"]):
        raise ValueError(f"budget must be one of {', '.join(map(str, budgets_of(config['env'])))}, not {shown(budget)}")
    needed = {measure} if budget != NO_BUDGET_LIMIT else {measure, RETURN}
    if group.metrics.keys() - bounds.keys() or needed - group.metrics.keys():
        raise ValueError(f"metrics must be {', '.join(bounds)}, not {shown([*group.metrics])}")
    for name, values in group.metrics.items():
        low, high = bounds[name]
        for value in values.tolist():
            if name == EPSILON and config["kind"] == ORACLE and value == math.inf:
                continue  # its agents share data, so no budget covers them
            number(name, value, at_least=max(low, -LARGEST), at_most=min(high, LARGEST))
    runs = np.array([scores for _, scores in group.curves.get(RUNS, [])])
    if runs.ndim != 2 or not np.allclose(runs.mean(1), group.metrics[measure], rtol=1e-4, atol=1e-9):
        raise ValueError(f"{measure} must be the mean of the runs of each seed")


def check_agent(config: dict[str, Any]) -> None:
    """Raise ValueError unless a configuration belongs to a user's agent."""
    policy, given = config.get("policy"), config.get("policy_params")
    if config.keys() - set(ENTRIES):
        raise ValueError(f"a configuration must have no entries but {', '.join(ENTRIES)}, not {shown([*config])}")
    if not (isinstance(policy, str) and policy.isprintable() and policy.strip() and len(policy) <= LONGEST_NAME):
        raise ValueError(f"policy must be a name of up to {LONGEST_NAME} printable characters, not {shown(policy)}")
    if not isinstance(given, dict):
        raise ValueError(f"policy_params must be parameters by name, not {shown(given)}")
    if policy in policies():
        make_policy(policy, **given)  # or raise the error
