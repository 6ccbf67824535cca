"""Trainings by the suite's own trainer, in a folder: checkpoints, evaluations, the agent, and its curve; and the agents
shipped with the package."""

import copy
import csv
import hashlib
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from taciturn.bench.comparisons.playing import task_config
from taciturn.bench.figures import COLORS, panels, render
from taciturn.bench.references import Scale, scale_of
from taciturn.bench.results import canonical
from taciturn.bench.store import environment, write_bytes
from taciturn.bench.tasks import BENCHMARKS, PROTECTED, TASKS, Task, others_in, sign
from taciturn.bench.tasks.benchmark import TRAINER
from taciturn.envs.core import Population
from taciturn.policies.learned.stored import FILE, saved_agent
from taciturn.policies.learned.trained import MILESTONES, Evaluated, TrainedAgent, Training, costs
from taciturn.policies.learned.training import one_thread
from taciturn.policies.trust import signed, trusted_bytes

COLUMNS = (*Evaluated._fields, "score")
CHECKPOINT = "training.pkl"


def arrays(
    world: str, seconds: float | None
) -> Callable[[str, Population[Any], int, int, dict[str, Any], bool], Callable[[Path, Any, int, Any], None]]:
    """A maker of trainers, as `taciturn.bench.train.train` calls them, for `TrainedAgent` in an environment or task."""
    task = TASKS.get(world)
    scale = None if task is None else scale_of(task)

    def make(
        name: str, population: Population[Any], num_envs: int, seed: int, settings: dict[str, Any], trust: bool
    ) -> Any:
        method = {"method": settings["method"]} if "method" in settings else {}
        own = {name: value for name, value in settings.items() if name != "method"}
        made = TrainedAgent(seed=seed, settings=own, **method)
        made.role = next(iter(population.roles))
        if task is not None:
            made.measure = "-" * (sign(task.measure) > 0) + task.measure
        chosen = made.chosen(population.view())
        chosen.checked()  # raise errors now

        def run(folder: Path, steps: int | None, evaluations: int, report: Callable[[float, str], None]) -> None:
            made.steps = steps
            checkpoint = folder / "checkpoints" / CHECKPOINT
            population.reset(seed=seed)
            if checkpoint.exists():
                training: Training = pickle.loads(trusted_bytes(checkpoint, trust))
            else:
                report(0.0, "evaluating the untrained agent and timing its steps")
                training = made.training(population.view(), seconds)
                note(folder, training, scale)

            a_run = costs(population.view().practice(1), copy.copy(training.agent), made.role, seed, None)[1]

            def note_progress(now: Training, evaluated: bool) -> None:
                if evaluated:
                    write_bytes(checkpoint, signed(pickle.dumps(now)))
                    note(folder, now, scale)
                taken = f"{now.decisions:,} of {now.steps:,} decisions"
                runs = f"({now.decisions / a_run:,.0f} of {now.steps / a_run:,.0f} runs)"
                before = "last checkpoint: " if len(now.curve) > 1 else "untrained: "
                words = before * (not evaluated) + in_words(now.curve[-1], scale)
                done = (now.done + (len(now.curve) - 1) / len(MILESTONES)) / 2
                report(done, f"{now.method}: {taken} {runs}, {words}")

            agent = training.run(note_progress)
            about = {"task": world, "seed": seed, "steps": training.steps, "method": training.method}
            about |= {"settings": dict(chosen.settings), "processor": environment()["processor"]}
            about["arithmetic"] = arithmetic()
            about |= {} if task is None else {"digest": digest(task)}
            write_bytes(folder / FILE, saved_agent(agent, **about))
            draw(folder / "curve.png", training, scale)

        return run

    return make


def digest(task: Task) -> str:
    """Hash of a task's definition for a learner: it changes if the task does, and trainings for the old task are
    void."""
    protected = PROTECTED.get(task.env) if isinstance(task.budget, float) else None
    told = {"config": task_config(task, TRAINER), "measure": task.measure}
    if BENCHMARKS[task.env].side is not None:
        told["others"] = dict(others_in(task.env, task.variant))
    told |= {} if protected is None else {"channels": protected.channels, "unit": protected.unit}
    return hashlib.sha256(canonical(told).encode()).hexdigest()[:16]


def score_of(evaluated: Evaluated, scale: Scale) -> float:
    """The score of a checkpoint. Its cost is the measure, or minus the measure if higher is better."""
    higher = scale.full_information.estimate.value > scale.no_communication.estimate.value
    return float(scale.score(np.array(-evaluated.mean if higher else evaluated.mean)))


def in_words(evaluated: Evaluated, scale: Scale | None) -> str:
    """A checkpoint in words."""
    score = "" if scale is None else f"score {score_of(evaluated, scale):.3f}, "
    return f"{score}mean {evaluated.mean:.4g}, median {evaluated.median:.4g}, worst 1% {evaluated.worst:.4g}"


def note(folder: Path, training: Training, scale: Scale | None) -> None:
    """Write `evaluations.csv`."""
    text = io.StringIO()
    rows = [
        [one.steps, *(f"{x:.5g}" for x in one[1:]), "" if scale is None else f"{score_of(one, scale):.4f}"]
        for one in training.curve
    ]
    csv.writer(text, lineterminator="\n").writerows([COLUMNS, *rows])
    write_bytes(folder / "evaluations.csv", text.getvalue().encode())


def draw(file: Path, training: Training, scale: Scale | None) -> None:
    """Draw the curve: the score of the mean and of the median of fresh runs; without a scale the mean cost, and the
    mean of the worst 1%."""
    steps = [one.steps / 1e6 for one in training.curve]
    lines = (("mean", "-", COLORS[0]), ("median", "--", COLORS[2]), ("worst", ":", COLORS[1]))
    if scale is None:
        figure, (ax,) = panels([f"{training.measure or 'Minus the return'} of fresh runs"])
        for name, line, color in lines:
            ax.plot(steps, [getattr(one, name) for one in training.curve], line, color=color, label=name)
    else:
        figure, (ax,) = panels(["Score of fresh runs: 0 no communication, 1 full information"])
        for name, line, color in lines[:2]:
            scores = [score_of(one._replace(mean=getattr(one, name)), scale) for one in training.curve]
            ax.plot(steps, scores, line, color=color, label=name, marker=".")
        for value in (0.0, 1.0):
            ax.axhline(value, color="#888888", linewidth=0.8)
        ax.set_ylim(-0.5, 1.15)
    ax.set_xlabel("decisions (millions)")
    ax.legend(loc="lower right")
    write_bytes(file, render(figure, "png"))


def arithmetic() -> str:
    """A fingerprint of numbers in single precision. They depend on the processor, on the vector units that NumPy uses,
    and on the kernels of BLAS (OPENBLAS_CORETYPE); a training gives the same bits only with the same fingerprint."""
    import torch

    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=size).astype(np.float32) for size in ((64, 24), (24, 16)))  # too few for several threads
    with one_thread():
        sums = a @ b, (torch.from_numpy(a) @ torch.from_numpy(b)).numpy()
    numbers = *sums, np.exp(a), np.log(np.abs(a)), np.log1p(np.abs(a))
    return hashlib.sha256(b"".join(one.tobytes() for one in numbers)).hexdigest()[:8]
