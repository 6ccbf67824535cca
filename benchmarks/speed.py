"""All benchmarks of speed, and the table of what was asked and measured: `make speed`, or `python benchmarks/speed.py
[NAME ...]`.

Each script that is named in `SCRIPTS` runs by itself and records its results, with machine and versions, in `results/`.
Peers whose pins conflict with ours get environments of their own in `.venv-libraries/`; one that cannot be installed is
skipped, and its row says so. `--table` only prints the table, from what was recorded, and writes it to `docs/speed.md`.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(1, str(Path(__file__).parents[1] / "tests"))
from environments import ROOT, called, environment
from goals import BESIDE_NOTHING, RATES, RESETS, TRAINING
from reference_implementations import REFERENCE_IMPLEMENTATIONS

from taciturn.envs import WORLDS
from taciturn.envs.core.descriptor import Descriptor

RESULTS, PAGE = ROOT / "benchmarks/results", ROOT / "docs/speed.md"
BEGIN, END = "<!-- table: written by benchmarks/speed.py -->\n", "<!-- end of table -->\n"
OURS = (
    "steps", "array_step", "parallel_view", "social", "gossip", "federated_bandit", "federated_round", "recommender",
    "elicitation", "import_time", "compile_time", "training_share", "learner", "mechanisms", "accountant", "solver",
    "scaling",
)  # fmt: skip
SCRIPTS: dict[str, tuple[str, ...]] = dict.fromkeys(OURS, ()) | {
    "ucb_peer": ("SMPyBandits==0.9.7", "scipy<1.14", "numpy<2.3"),
    "gymnax_peer": ("gymnax==1.0.1", "six", "numba"),
    "pfl_peer": ("torch==2.13.0", "pfl[pytorch]==0.6.0"),
    "flower_peer": ("torch==2.13.0", "flwr[simulation]==1.41.0"),
}
"""Each script, and the packages of its environment if that is not ours."""


class Row(NamedTuple):
    """A line of the table: what is timed, beside which peer, by which script, the ratios in what it recorded, and what
    is asked of the worst of them."""

    work: str
    peer: str
    script: str
    ratios: Callable[[Any], list[float]]
    at_most: float | None = None  # our time in units of the peer's
    at_least: float | None = None  # the peer's time in units of ours


class Amount(NamedTuple):
    """A line of the table that has no peer: what is measured, by which script, the amount in what it recorded, and how
    much it may be."""

    work: str
    script: str
    amount: Callable[[Any], float]
    unit: str
    at_most: float


class Memory(NamedTuple):
    """A line of the table: the memory of a step with so many agents or replicas, in some worlds, beside the next
    smaller size."""

    work: str
    axis: str
    size: int
    worlds: tuple[str, ...] = ()  # all


def load(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def beginning(*starts: str) -> Callable[[Any], list[float]]:
    """The ratios of the rows whose names begin so, of `steps.py` or `gymnax_peer.py`."""
    return lambda found: [row["ratio"] for name, row in found["rows"].items() if name.startswith(starts)]


def thousand(world: Descriptor) -> Row:
    """A row of `parallel_view.py`."""
    what = world.title
    if world not in CROWDS:
        what += " (one agent, who coordinates them)"
    if world.name == "recommender_v0":
        what += " (by hand without regret, and with it)"
    return Row(
        f"Parallel step, 1,000 agents, {what}",
        "the same world by hand, with dicts",
        "parallel_view",
        lambda found: [row["times_faster"] for name, row in found["worlds"].items() if name.startswith(world.name)],
        at_least=5,
    )


def entry(*keys: str) -> Callable[[Any], float]:
    """What a script recorded under these keys."""

    def found_in(found: Any) -> float:
        for key in keys:
            found = found[key]
        return float(found)

    return found_in


def started(work: str, command: str, at_most: float) -> Amount:
    """A row of `import_time.py`."""
    return Amount(work, "import_time", lambda found: found["cpu_s"][command], "CPU s", at_most)


def federated(model: str, peer: str, script: str, at_least: float) -> Row:
    """A row of `pfl_peer.py` or `flower_peer.py`."""
    return Row(
        f"a federated round, 100 clients, digits, {model}",
        peer,
        script,
        lambda found: [found["rows"][model]["times_faster"]],
        at_least=at_least,
    )


CROWDS = [world for world in WORLDS if world.name in REFERENCE_IMPLEMENTATIONS and (world.others or world.one_agent)]
TITLES = {world.name: world.title for world in WORLDS}
FLOWER = "Flower's simulation, one worker; its start is not counted"
ROWS: list[Row | Amount | Memory | tuple[str, ...]] = [
    Row("single step, RoundStopping-v0", "CartPole-v1", "steps", beginning("single, RoundStopping"), at_most=1.2),
    Row(
        "single step in DummyVecEnv, RoundStopping-v0",
        "CartPole-v1 in DummyVecEnv",
        "steps",
        beginning("DummyVecEnv, RoundStopping"),
        at_most=1.2,
    ),
    Row("single step, ArmElimination-v0", "CartPole-v1", "steps", beginning("single, ArmElimination"), at_most=3.2),
    Row("single step, Elicitation-v0", "CartPole-v1", "steps", beginning("single, Elicitation"), at_most=6),
    Row(
        f"Parallel step, 3 agents, {', '.join(crowd.title for crowd in CROWDS if crowd.others)}",
        "simple_spread, N=3",
        "steps",
        beginning("simple_spread"),
        at_most=0.1,
    ),
    *(
        Row(
            f"{'Parallel' if form == 'parallel' else form} step, {agents:,} agents, {TITLES[name]}",
            "doing nothing, with the same spaces and agents",
            "steps",
            beginning(f"{form}, {agents} agents, {name}"),
            at_most=most,
        )
        for (form, name), goals in BESIDE_NOTHING.items()
        for agents, most in goals.items()
    ),
    *(Amount(f"a reset, {name}", "steps", entry("reset_us", name), "us", most) for name, most in RESETS.items()),
    *(
        Amount(
            f"array step, 2,000 replicas, {TITLES[name]}: of a million agents",
            "steps",
            entry("seconds_a_million", name),
            "CPU s",
            round(1 / least, 3),
        )
        for name, (_, least) in RATES.items()
    ),
    Amount(
        "array step of the federated bandit with `out=`, 20,000 replicas of 20 agents: page faults",
        "steps",
        entry("page_faults", "out"),
        "",
        10,
    ),
    Row(
        "array step, gossip, 1,000,000 agents, one run",
        "1,000 agents",
        "steps",
        beginning("array, gossip, 1,000,000"),
        at_most=2,
    ),
    Amount(
        "a billion ticks of gossip, 400 agents, epsilon 3, two threads",
        "gossip",
        lambda found: found["billion_ticks_two_threads_wall_seconds"],
        "s",
        45,
    ),
    Amount(
        "compiling a world, once: the slowest", "compile_time", lambda found: max(found["once"].values()), "CPU s", 2
    ),
    Amount(
        "loading a compiled world: the slowest",
        "compile_time",
        lambda found: max(found["cached"].values()),
        "CPU s",
        0.3,
    ),
    *(
        Amount(
            f"PPO of Stable-Baselines3 on one environment: the share of its time in {name}",
            "training_share",
            entry(f"{name}_share_percent"),
            "%",
            10,
        )
        for name in RESETS
    ),
    *(
        Amount(
            f"training, a million decisions in {TITLES[name]}",
            "learner",
            lambda found, name=name: 1e6 / found["rows"][name]["own"],  # type: ignore[misc]
            "CPU s",
            most,
        )
        for name, most in TRAINING.items()
    ),
    *(
        Row(
            f"training, a decision in {TITLES[name]}",
            f"PPO of Stable-Baselines3, a network of the same width, in {way}",
            "learner",
            lambda found, key=(name, way): [found["rows"][key[0]][f"times {key[1]}"]],  # type: ignore[misc]
        )
        for name in TRAINING
        for way in ("RowsVecEnv", "DummyVecEnv")
        if way == "RowsVecEnv" or name == "round_stopping_v0"
    ),
    Row(
        "Parallel step, 1,000 agents who only vote",
        "the same world by hand, with dicts",
        "parallel_view",
        lambda found: [found["times_faster"]],
        at_least=5,
    ),
    *(thousand(world) for world in WORLDS if world.name in REFERENCE_IMPLEMENTATIONS),
    Row(
        "array step, 10,000 replicas: round stopping, federated bandit",
        "gymnax's Bernoulli bandit, jit and vmap",
        "gymnax_peer",
        beginning("round stopping", "federated"),
        at_most=0.5,
    ),
    Row(
        "a tick of gossip, of many in a row, 10,000 replicas of 2 agents",
        "a step of gymnax's Bernoulli bandit, jit and vmap",
        "gymnax_peer",
        beginning("ticks of gossip in a row"),
        at_most=0.2,
    ),
    Row(
        "array step, 10,000 replicas",
        "SyncVectorEnv over as many lean environments",
        "array_step",
        lambda found: [found["10000 lean environments"]["array_is_times_faster"]],
        at_least=100,
    ),
    Row(
        "UCB1, 50 agents, 100 arms, 10,000 steps with observations",
        "SMPyBandits",
        "ucb_peer",
        lambda found: [found["seconds"]["SMPyBandits loop"] / found["seconds"]["taciturn steps"]],
        at_least=15,
    ),
    federated("softmax", "pfl 0.6, in PyTorch", "pfl_peer", 50),
    federated("small CNN", "pfl 0.6, in PyTorch", "pfl_peer", 10),
    federated("softmax", FLOWER, "flower_peer", 50),
    federated("small CNN", FLOWER, "flower_peer", 10),
    ("a federated round, 100 clients, digits, MLP", "pfl and Flower", "taciturn has no such model", "at least 10", "-"),
    Row(
        "a federated round, 100 clients, digits, softmax",
        "the same functions, client by client",
        "federated_round",
        lambda found: [found["times_faster"]],
    ),
    Row(
        "import taciturn", "numpy, gymnasium and pettingzoo", "import_time", lambda found: [found["ratio"]], at_most=1.4
    ),
    started("`taciturn --help`", "--help", 0.7),
    started("`taciturn list`", "list", 0.7),
    started("`taciturn run`, a small world, 2 runs", "run", 1.5),
    Amount(
        "recommender, 10,000 agents, 4,000 items: peak memory an agent of a reset and steps",
        "recommender",
        lambda found: found["kilobytes_an_agent"],
        "KB",
        10,
    ),
    Amount(
        "T-PriDO, one more run of the recommender's standard task",
        "recommender",
        entry("one_more_run_ms"),
        "CPU ms",
        40,
    ),
    Memory("peak memory, 1,000,000 agents, social bandit", "agents", 10**6, ("social_bandit_v0",)),
    Memory("peak memory, 100,000 replicas, every world", "replicas", 10**5),
]


def line(row: Row, wrong: Collection[str] = ()) -> tuple[str, ...]:
    """Work, peer, what was measured, what is asked, and whether the worst of it suffices; `wrong` are the scripts that
    failed now."""
    try:
        results = row.ratios(load(row.script))
    except (OSError, KeyError):
        results = []
    if not results:
        return row.work, row.peer, "not measured", asked(row), "-"
    worst = min(results) if row.at_least else max(results)
    faster = row.at_most is None
    shown = " to ".join(dict.fromkeys(f"{x:.3g}" for x in (min(results), max(results))))
    measured = f"{shown} times as fast" if faster else f"{shown} times its time"
    if row.script in wrong:
        measured += ", in an earlier run"
    if row.at_most is None and row.at_least is None:
        return row.work, row.peer, measured, "-", "-"
    reached = worst <= row.at_most if row.at_most is not None else worst >= (row.at_least or 0)
    return row.work, row.peer, measured, asked(row), "yes" if reached else "no"


def amount(row: Amount) -> tuple[str, ...]:
    """The cells of a row with an amount, without a peer."""
    try:
        result = row.amount(load(row.script))
    except (OSError, KeyError):
        return row.work, "-", "not measured", f"at most {row.at_most:g}", "-"
    return (
        row.work,
        "-",
        f"{result:.2g} {row.unit}",
        f"at most {row.at_most:g}",
        "yes" if result <= row.at_most else "no",
    )


def memory(row: Memory) -> tuple[str, ...]:
    """The cells of a row with memory, which is linear if an agent or a replica takes at most a tenth more than where
    there are fewer."""
    try:
        by_world = load("scaling")[row.axis]
        sizes = [{one["size"]: one["megabytes"] for one in by_world[world]} for world in row.worlds or by_world]
        pairs = [(size[row.size], size[row.size // 10]) for size in sizes if row.size in size]
    except (OSError, KeyError):
        pairs = []
    peer = f"{row.size // 10:,} {row.axis}"
    if not pairs:
        return row.work, peer, "not measured", "linear", "-"
    shown = " to ".join(dict.fromkeys(f"{x:,.0f}" for x in (min(pairs)[0], max(pairs)[0])))
    times = " to ".join(
        dict.fromkeys(f"{x:.3g}" for x in sorted(large / small for large, small in pairs)[:: max(len(pairs) - 1, 1)])
    )
    linear = all(large <= 11 * small for large, small in pairs)
    return row.work, peer, f"{shown} MB, {times} times as much", "linear", "yes" if linear else "no"


def asked(row: Row) -> str:
    return (
        f"at most {row.at_most:g}" if row.at_most is not None else f"at least {row.at_least:g}" if row.at_least else "-"
    )


def cells(row: Row | Amount | Memory | tuple[str, ...], wrong: Collection[str]) -> tuple[str, ...]:
    match row:
        case Row():
            return line(row, wrong)
        case Amount():
            return amount(row)
        case Memory():
            return memory(row)
        case _:
            return row


def table(wrong: Collection[str] = ()) -> str:
    """The table in Markdown; see `line`."""
    columns = ("work", "peer, in the same run", "measured", "asked", "reached")
    lines = [cells(row, wrong) for row in ROWS]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, ("---",) * len(columns), *lines)) + "\n"


def run(name: str) -> str | None:
    """Run a script; what went wrong, if something did."""
    packages = SCRIPTS[name]
    python: Path | str = sys.executable
    if packages:
        python, error = environment(name, packages)
        if error:
            return f"its peer cannot be installed: {error}"
    status, printed = called(python, ROOT / f"benchmarks/{name}.py", timeout=1800)
    print(printed, end="", flush=True)
    return f"exit status {status}" if status else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SCRIPTS))
    parser.add_argument("--table", action="store_true", help="only print and write the table")
    chosen = parser.parse_args()
    if unknown := set(chosen.names) - set(SCRIPTS):
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}")
    wrong: dict[str, str] = {}
    for name in [] if chosen.table else chosen.names or SCRIPTS:
        begun = time.perf_counter()
        print(f"== {name}", flush=True)
        if error := run(name):
            wrong[name] = error
            print(f"{name}: {error}", flush=True)
        print(f"{time.perf_counter() - begun:.0f} s", flush=True)
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(f"{text.partition(BEGIN)[0]}{BEGIN}{table()}{END}{text.partition(END)[2]}", encoding="utf-8")
    print(table(wrong))
    for name, error in wrong.items():
        print(f"{name} was not measured: {error}")


if __name__ == "__main__":
    main()
