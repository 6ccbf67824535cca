"""Find settings of agents by random search on training streams.

`python tools tune [TASK ...] [--policy P] [--final N]`

Every agent of the benchmark with parameters to search (`Benchmark.search`), designed, published or learned, gets the
same for each standard task and total (agents that trust somebody once more, for the study `trust`): at most `TRIALS`
settings within `SECONDS` of one core. The first are those that stand and its defaults; the others are drawn. Each
setting plays `RUNS` runs, or as many as a seed has where these are dearer, and up to `MOST` where time is left, in
streams that no evaluation draws from, with seeds that no study may have; the settings that stand and the best
`FINALISTS` then play N times as many (`FINAL`), and the best of these is taken. Learners train once a setting, without
privacy. What was tried goes to `results/tuning.json`, and what was chosen to `bench/tuned.json`.
"""

import argparse
import json
import os
import re
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
from common import record

from taciturn.agents import bring
from taciturn.bench import tuned
from taciturn.bench.comparisons import trust
from taciturn.bench.comparisons.playing import configurations_by_rank, evaluated, population
from taciturn.bench.play import config, learns
from taciturn.bench.results import TUNING_SEEDS, Config
from taciturn.bench.tasks import (
    BENCHMARKS,
    CLASSIC,
    NO_BUDGET_LIMIT,
    PAPER,
    PROTECTED,
    STANDARD,
    TASK_AGENT,
    TASKS,
    TUNED_LEARNER,
    Task,
    sign,
    under,
)
from taciturn.bench.tasks.benchmark import TUNED

TRIALS, SECONDS = 24, 30.0
RUNS, MOST, FINALISTS, FINAL = 40, 400, 3, 4
TRIED = 20  # runs of each way to spend a total, at most
RESULTS = Path(__file__).parent / "results" / "tuning.json"
CHOSEN = Path(__file__).parents[1] / "bench" / tuned.FILE


def jobs() -> list[tuple[Task, str, str]]:
    """The standard tasks at each total, with each policy that is searched there, and its kind."""
    found = []
    for task in TASKS.values():
        benchmark, protected = BENCHMARKS[task.env], PROTECTED.get(task.env)
        if task.held_out:
            continue
        kinds = {
            CLASSIC: benchmark.classic,
            PAPER: benchmark.papers(free=task.budget == NO_BUDGET_LIMIT),
            TASK_AGENT: benchmark.designed,
        }
        if task.name == STANDARD and task.budget == NO_BUDGET_LIMIT:
            kinds[TUNED_LEARNER] = benchmark.tuned
        for kind, some in kinds.items():
            for policy, own in some:
                absent = task.budget != NO_BUDGET_LIMIT and protected is not None and policy in protected.without
                if own == TUNED and policy in benchmark.search and not absent:
                    found.append((task, policy, kind))
    return found + [(task, speaker.settings, TASK_AGENT) for task, speaker in trust.searched()]


def drawn(task: Task, policy: str) -> list[Config]:
    """The settings to try: those that stand, the defaults, and random draws, the same on every rerun."""
    spans = BENCHMARKS[task.env].search[policy.partition(":")[0]]
    rng = np.random.default_rng(list(f"{task.id}:{policy}".encode()))
    standing = tuned.tuned(task, policy)
    first = [standing, {}] if standing else [{}]
    return [*first, *({name: span.draw(rng) for name, span in spans.items()} for _ in range(TRIALS - len(first)))]


def score(task: Task, policy: str, kind: str, own: Config, runs: int, seed: int) -> float:
    """The mean of the measure, higher is better; minus infinity for settings that the policy refuses."""
    asked, (policy, _, trusted) = policy, policy.partition(":")
    form = next((one.world for _, one in trust.searched() if one.settings == asked), {})
    learner = learns(policy)
    params = (
        BENCHMARKS[task.env].params(policy, learns=learner) | dict(task.variant.params) | under(task.env, task.budget)
    )
    params |= form
    one = config(task.env, policy, own, **params) | {"kind": kind, "budget": task.budget}
    try:
        given: Config = own | ({"seed": seed} if learner else {}) | ({"trust_model": trusted} if trusted else {})
        agent = bring(policy, **given)
        channels = None
        if isinstance(task.budget, float):
            channels = configurations_by_rank(task, agent, one, seed, min(runs, TRIED))[0].channels
        found = evaluated(
            population(one, runs, "training" if not learner else "choice of settings", task.variant),
            agent,
            one,
            seed,
            channels,
            task.variant,
        )
    except ValueError:
        return -np.inf
    return sign(task.measure) * float(found[task.measure].mean())


def search(task: Task, policy: str, kind: str, final: int = FINAL) -> dict[str, Any]:
    """What was tried, and the settings that are taken."""
    begin, tried = time.process_time(), list[tuple[Config, float]]()
    settings, runs = drawn(task, policy), min(RUNS, task.variant.runs or BENCHMARKS[task.env].runs)
    score(task, policy, kind, settings[-1], runs, TUNING_SEEDS[0])
    spare = SECONDS / TRIALS / (time.process_time() - begin)
    runs = runs if learns(policy.partition(":")[0]) else min(max(runs, int(runs * spare)), MOST)
    for own in settings:
        tried.append((own, score(task, policy, kind, own, runs, TUNING_SEEDS[0])))
        if time.process_time() - begin > SECONDS:
            break
    best = sorted(tried, key=lambda one: -one[1])[:FINALISTS]
    if not np.isfinite(best[0][1]):
        raise ValueError(f"{policy} refuses all settings tried in {task.id}")
    best += [one for one in tried[:1] if one not in best]
    finals = [(own, score(task, policy, kind, own, final * runs, TUNING_SEEDS[1])) for own, _ in best]
    chosen = max(finals, key=lambda one: one[1])[0]
    told = [{"settings": own, "score": plain(one), "final": plain(dict_of(finals, own))} for own, one in tried]
    return {
        "task": task.id, "policy": policy, "kind": kind, "measure": task.measure, "chosen": chosen, "tried": told,
        "runs": runs, "final": final, "cpu_seconds": round(time.process_time() - begin, 1),
    }  # fmt: skip


def dict_of(finals: list[tuple[Config, float]], own: Config) -> float | None:
    """The score of some settings in the finals; None if they were not there."""
    return next((one for known, one in finals if known == own), None)


def plain(value: float | None) -> float | None:
    """Six digits; None for no number."""
    return None if value is None or not np.isfinite(value) else float(f"{value:.6g}")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="ids, or beginnings of ids (default: all)")
    parser.add_argument("--policy", action="append", help="only this policy (repeatable)")
    parser.add_argument("--final", type=int, default=FINAL, help="runs in the final, times those before it")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="searches at a time")
    asked = parser.parse_args(arguments)
    wanted = [
        job for job in jobs()
        if (not asked.tasks or any(re.match(rf"{re.escape(name)}(?!\d)", job[0].id) for name in asked.tasks))
        and (not asked.policy or job[1] in asked.policy)
    ]  # fmt: skip
    with ProcessPoolExecutor(asked.workers) as pool:
        for done in as_completed([pool.submit(search, *job, asked.final) for job in wanted]):
            found = done.result()
            stored = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}
            entries = stored.get("entries", {}) | {f"{found['task']}:{found['policy']}": found}
            budget = {
                "trials": TRIALS,
                "seconds": SECONDS,
                "runs": RUNS,
                "most_runs": MOST,
                "finalists": FINALISTS,
                "final": FINAL,
            }
            record(
                "tuning",
                {"command": "python tools tune", "budget": budget},
                ("taciturn", "numpy", "torch", "stable-baselines3"),
                entries,
                RESULTS.parent,
            )
            known = json.loads(CHOSEN.read_text(encoding="utf-8"))
            known.setdefault(found["task"], {})[found["policy"]] = found["chosen"]
            CHOSEN.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n", encoding="utf-8")
            print(
                f"{found['task']} {found['policy']}: {json.dumps(found['chosen'])}, {len(found['tried'])} settings, "
                f"{found['cpu_seconds']} s",
                flush=True,
            )
