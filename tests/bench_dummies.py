"""Tiny studies for the tests of the benchmark, in a separate module so that worker processes can import them.

`python bench_dummies.py OUT BACKEND LOG [resume]` runs the slow one.
"""

import math
import os
import signal
import sys
import time
from pathlib import Path
from typing import ClassVar

import numpy as np

from taciturn.bench.results import Cell, Config, Progress, Result, Results
from taciturn.bench.runner import run_study
from taciturn.bench.statistics import Estimate
from taciturn.bench.store import Store
from taciturn.bench.study import Score, Study, Verdict


class Exchange(Study):
    """A cell that says how far it is, more often than it is asked to."""

    name = "telling"
    title = "Tells"
    score = Score("reward")

    def cells(self, quick: bool) -> list[Cell]:
        return self.sweep([{"policy": "Slow"}], [0])

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        for done in range(26):
            time.sleep(0.1)
            if progress is not None:
                progress(done / 26)
        return Result({"reward": 1.0})


class Noise(Study):
    """Scores known up to noise: the policy's skill, minus the price of its privacy."""

    name = "noise"
    title = "Skill <under> noise & privacy"
    description = "Three policies, two worlds, four privacy levels."
    score = Score("reward")
    reference: ClassVar[Config] = {"policy": "Clever", "privacy": {"epsilon": None}}
    facets = ("world.agents",)
    figures = ("noise2024/1",)

    def cells(self, quick: bool) -> list[Cell]:
        configs = [
            {"world": {"name": "toy", "agents": agents}, "policy": policy, "privacy": {"epsilon": epsilon}}
            for agents in (10, 100)
            for policy in ("Clever", "Plain", "Random")
            for epsilon in (None, 4.0, 1.0, 0.25)
        ]
        return self.sweep(configs, range(3 if quick else 20))

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        rng = np.random.default_rng(cell.seed)
        agents, epsilon = cell.config["world"]["agents"], cell.config["privacy"]["epsilon"]
        skill = {"Clever": 1.0, "Plain": 0.8, "Random": 0.4}[cell.config["policy"]]
        cost = 0.0 if epsilon is None else 0.3 / (1 + epsilon)
        noise = rng.normal(scale=0.1, size=(50, 50))
        time = np.arange(50)
        reward = (skill - cost) * np.log10(agents) + float(np.linalg.svd(noise)[1][0]) / 10
        return Result(
            {
                "reward": reward,
                "epsilon": math.inf if epsilon is None else epsilon * 100,
                "messages": 20.0 * agents,
                "rounds": float(rng.integers(30, 40)),
            },
            {"reward_so_far": (time, reward * (1 - np.exp(-time / 10)) + noise[0] / 4)},
        )

    def verdicts(self, results: Results) -> list[Verdict]:
        best = results.one(policy="Clever", privacy={"epsilon": None}, world={"agents": 100}).metrics["reward"]
        return [
            Verdict("reward of Clever, 100 agents", 2.13, [Estimate(best.mean(), best.min(), best.max())], "agrees"),
            Verdict("k*", 10, [Estimate(9.0, 9.0, 9.0)], "differs", "the <model> as stated gives a smaller one"),
            Verdict("Table 3", "–", [], "cannot be computed", "the paper does not give the parameters"),
        ]


class Slow(Study):
    """Cells that log their start; from the sixth on they wait to be killed, unless BENCH_HURRY is set."""

    name = "slow"
    title = "Slow cells"
    score = Score("value", higher_is_better=False)

    def cells(self, quick: bool) -> list[Cell]:
        return self.sweep([{"policy": "wait"}], range(10))

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        with Path(os.environ["BENCH_LOG"]).open("a", encoding="utf-8") as log:
            log.write(f"{cell.key}\n")
        if cell.seed >= 5 and "BENCH_HURRY" not in os.environ:
            time.sleep(600)
        return Result({"value": float(cell.seed)}, {"line": (range(1000), np.arange(1000) * cell.seed)})


if __name__ == "__mp_main__" and "BENCH_STILLBORN" in os.environ:
    os._exit(3)
if __name__ == "__mp_main__" and "BENCH_BIRTHS" in os.environ:
    with Path(os.environ["BENCH_BIRTHS"]).open("a", encoding="utf-8") as births:
        births.write("born\n")
    time.sleep(1)


class Waiting(Study):
    """Ten cells of a fifth of a second."""

    name = "waiting"
    title = "Cells that take a while"
    score = Score("value")

    def cells(self, quick: bool) -> list[Cell]:
        return self.sweep([{"policy": "patient"}, {"policy": "hasty"}], range(5))

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        time.sleep(0.2)
        return Result({"value": float(cell.seed)})


class Failing(Study):
    """Odd seeds raise."""

    name = "failing"
    title = "Failing cells"
    score = Score("value")
    seeds = range(4)

    def cells(self, quick: bool) -> list[Cell]:
        return self.sweep([{}], self.seeds)

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        if cell.seed % 2:
            raise RuntimeError("odd seeds\nare not served")
        return Result({"value": 1.0})


class TwoWordsError(Exception):
    """Cannot be unpickled: it is rebuilt from its one text, and takes two."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} {other}")


class UnspeakableError(Exception):
    """Says nothing when it is asked."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Mapped(dict[str, float]):
    """Metrics that can be sent but not received."""

    def __reduce__(self) -> tuple[object, ...]:
        return TwoWordsError, ("one",)


class Hostile(Study):
    """Cells that end as `ways` says."""

    name = "hostile"
    title = "Hostile cells"
    score = Score("value")
    ways: ClassVar[tuple[str, ...]] = ("fine",)

    def cells(self, quick: bool) -> list[Cell]:
        return self.sweep([{"way": way} for way in self.ways], [0])

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        way = cell.config["way"] if "BENCH_HURRY" not in os.environ else "fine"
        if way == "unpicklable":
            raise TwoWordsError("two", "words")
        if way == "unspeakable":
            raise UnspeakableError
        if way == "surrogate":
            raise ValueError("half a character: \ud800")
        if way == "exit":
            sys.exit("a cell that exits")
        if way == "death":
            os._exit(9)
        if way == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if way == "hang":
            time.sleep(30)
        if way == "nothing":
            return None  # type: ignore[return-value]
        if way == "orphan" and os.fork():  # the child keeps the dead worker's end of the pipe open
            os._exit(7)
        if way == "orphan":
            time.sleep(8)
            os._exit(0)
        return Result(Mapped(value=1.0)) if way == "mapped" else Result({"value": 1.0})


class Mortal(Study):
    """Ten cells that log their start and end; of the seeds in `ways` each dies as it says: "raises", "dies", "dies
    once", "hangs".

    On the node `doomed` of a ray cluster every cell hangs; the others wait until one does.
    """

    name = "mortal"
    title = "Mortal cells"
    score = Score("value")

    def __init__(self, log: Path, ways: dict[int, str] | None = None, doomed: str = "") -> None:
        self.log, self.ways, self.doomed = log, ways or {}, doomed

    def cells(self, quick: bool) -> list[Cell]:
        return self.sweep([{}], range(10))

    def note(self, seed: int, what: str) -> None:
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"{seed} {what} {os.getpid()}\n")

    def noted(self, what: str) -> list[tuple[int, int]]:
        """Seed and process of every "start", "hang" or "end" so far."""
        lines = (
            [line.split() for line in self.log.read_text(encoding="utf-8").splitlines()] if self.log.exists() else []
        )
        return [(int(seed), int(process)) for seed, noted, process in lines if noted == what]

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        way = self.ways.get(cell.seed, "")
        again = cell.seed in [seed for seed, _ in self.noted("start")]
        self.note(cell.seed, "start")
        if way == "raises":
            raise RuntimeError("as it was told")
        if way == "dies" or (way == "dies once" and not again):
            os.kill(os.getpid(), signal.SIGKILL)
        if way == "hangs" or (self.doomed and self.doomed == node()):
            self.note(cell.seed, "hang")
            time.sleep(600)
        patience = time.monotonic() + 600
        while self.doomed and not self.noted("hang") and time.monotonic() < patience:
            time.sleep(0.1)
        rng = np.random.default_rng(cell.seed)
        value = float(np.linalg.svd(rng.normal(size=(30, 30)))[1].sum())
        self.note(cell.seed, "end")
        return Result({"value": value}, {"line": (range(1000), rng.normal(size=1000))})


def node() -> str:
    """On which node of a ray cluster this process runs."""
    import ray

    return str(ray.get_runtime_context().get_node_id())


if __name__ == "__main__":
    # A shell without job control starts background processes with Ctrl-C ignored, and their children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    out, backend, log = sys.argv[1:4]
    os.environ["BENCH_LOG"] = log
    if "resume" in sys.argv:
        os.environ["BENCH_HURRY"] = "1"
    run_study([Slow()], Store(out), backend=backend, workers=2, resume="resume" in sys.argv)  # type: ignore[arg-type]
