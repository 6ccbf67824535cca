"""Run the examples of this folder, each in an environment in which its library can be installed, and keep what came of
it.

    python examples/libraries/run.py [NAME ...]     (all, or for example: sb3 torchrl)
    python examples/libraries/run.py --page         (only write docs/libraries.md again, from what was kept)
    python examples/libraries/run.py --check NAME   (only run the examples, and write nothing)

Environments are made in `.venv-libraries/`, one for each group of libraries whose pins agree. Each example runs, and
`probe.py` plays a few hundred steps of each world through the library's own classes.
`results.json` gets what came of it, for the page. With `--here`, the examples of the libraries
that are installed beside this Python run in it, and nothing is written. CI does that, and `--check` for the others.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from environments import ROOT, called, environment, last_error, quiet

from taciturn.bench.store import processor

HERE = Path(__file__).parent
KEPT = HERE / "results.json"
PAGE = ROOT / "docs/libraries.md"
TORCH = "torch==2.13.0"
TOOLS = [
    TORCH,
    "setuptools>=77",
    "wheel",
    "numpy",
    "cython",
]  # an isolated build of PufferLib would fetch another torch
BEGIN, END = "# What matters:", "# So far."

GROUPS = {
    "sb3": ["stable-baselines3==2.9.2", "sb3-contrib==2.9.2"],
    "torch": [
        "gymnasium==1.4.0", "pettingzoo==1.27.0", "torchrl==0.14.1", "tianshou==2.0.1", "supersuit==3.11.0",
        "skrl==2.1.1", "stable-baselines3==2.9.2",
    ],
    "rllib": ["ray[rllib]==2.60.0"],
    "benchmarl": ["benchmarl==1.5.2"],
    "agilerl": ["agilerl==2.58.0", "peft==0.21.2"],
    "flower": ["flwr[simulation]==1.41.0", "stable-baselines3==2.9.2"],
    "pufferlib": ["pufferlib==3.0.0"],
}  # fmt: skip


@dataclass(frozen=True)
class Library:
    """A learning library: its title, the name of its example `with_<name>.py`, its package, its module, its
    environment, and whether worlds are played through classes of its own."""

    title: str
    name: str
    package: str
    module: str
    group: str
    plays: bool = True


LIBRARIES = [
    Library("Stable-Baselines3", "sb3", "stable-baselines3", "stable_baselines3", "sb3"),
    Library("sb3-contrib", "sb3_contrib", "sb3-contrib", "sb3_contrib", "sb3"),
    Library("RLlib", "rllib", "ray", "ray", "rllib"),
    Library("TorchRL", "torchrl", "torchrl", "torchrl", "torch"),
    Library("CleanRL's way", "cleanrl", "torch", "torch", "torch"),
    Library("Tianshou", "tianshou", "tianshou", "tianshou", "torch"),
    Library("SuperSuit", "supersuit", "supersuit", "supersuit", "torch"),
    Library("BenchMARL", "benchmarl", "benchmarl", "benchmarl", "benchmarl"),
    Library("skrl", "skrl", "skrl", "skrl", "torch"),
    Library("AgileRL", "agilerl", "agilerl", "agilerl", "agilerl"),
    Library("Flower", "flower", "flwr", "flwr", "flower", plays=False),
    Library("PufferLib", "pufferlib", "pufferlib", "pufferlib", "pufferlib"),
]
UPSTREAM = {
    "pufferlib": (
        "It is distributed only as source. Its `setup.py` downloads raylib and box2d before it builds anything, and "
        "fails without access to their site. Upstream: [the "
        "downloads](https://github.com/PufferAI/PufferLib/pull/345)."
    )
}
"""`{name: why, and where to read on}` for libraries that cannot run."""


NOT_RUN = {"version": "-", "error": "not run yet"}


def measured(library: Library, python: Path) -> dict[str, Any]:
    """What came of a library's example, and of the probe of the worlds."""
    asked = f"import importlib.metadata; print(importlib.metadata.version({library.package!r}))"
    version = called(python, "-c", asked)[1].strip().splitlines()[-1]
    begun = time.perf_counter()
    status, printed = called(python, HERE / f"with_{library.name}.py", timeout=900)
    told: dict[str, Any] = {"version": version, "seconds": round(time.perf_counter() - begun)}
    if status:
        print(printed)
        return told | {"error": last_error(printed)}
    told["printed"] = [line for line in printed.splitlines() if re.search(r"[:,] (rate|regret|loss) [-\d.]+$", line)]
    if not library.plays:
        return told
    _, printed = called(python, HERE / "probe.py", library.name, timeout=900)
    rows = [json.loads(line) for line in printed.splitlines() if line.startswith('{"world"')]
    told["worlds"] = {row.pop("world"): row for row in rows}
    return told


def lines_of(library: Library) -> list[str]:
    file = HERE / f"with_{library.name}.py"
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def page(kept: dict[str, Any]) -> str:
    """The page of the docs."""
    results = {library.name: kept["libraries"].get(library.name, NOT_RUN) for library in LIBRARIES}
    worlds = list(dict.fromkeys(world for one in results.values() for world in one.get("worlds", ())))
    text = [INTRODUCTION.format(**kept["machine"]), "## Libraries", ""]
    text += [
        "| library | version | example | lines | glue lines | seconds |",
        "| --- | --- | --- | ---: | ---: | ---: |",
    ]
    for library in LIBRARIES:
        one, lines = results[library.name], lines_of(library)
        state = f"[runs](#{anchor(library)})" if "printed" in one else f"[cannot run](#{anchor(library)})"
        glue = sum(line.endswith("# glue") for line in lines)
        counts = f"{len(lines)} | {glue} | {one['seconds']}" if "printed" in one else "- | - | -"
        text.append(f"| {library.title} | {one['version']} | {state} | {counts} |")
    text += ["", "## Environments", "", WORLDS, ""]
    able = [library for library in LIBRARIES if results[library.name].get("worlds")]
    text.append("| library | " + " | ".join(world.removesuffix("_v0").replace("_", " ") for world in worlds) + " |")
    text.append("| --- |" + " ---: |" * len(worlds))
    notes: list[str] = []
    for library in able:
        rows = results[library.name]["worlds"]
        cells = [cell(rows.get(world, {"error": "not reached"}), notes) for world in worlds]
        text.append(f"| {library.title} | " + " | ".join(cells) + " |")
    text += ["", *(f"{number}. {note}" for number, note in enumerate(notes, 1)), ""]
    for library in LIBRARIES:
        text += section(library, results[library.name])
    return "\n".join(text)


def cell(row: dict[str, Any], notes: list[str]) -> str:
    """Actions per second, or the number of the note that says why there are none."""
    if "per_second" in row:
        return f"{row['per_second']:,}"
    if row["error"] not in notes:
        notes.append(row["error"])
    return f"no ({notes.index(row['error']) + 1})"


def anchor(library: Library) -> str:
    return re.sub(r"[^a-z0-9-]", "", library.title.lower().replace(" ", "-"))


def section(library: Library, one: dict[str, Any]) -> list[str]:
    """A library's part of the page."""
    lines = lines_of(library)
    text = [f"## {library.title}", ""]
    if lines:
        docstring = "\n".join(lines).split('"""')[1]
        text += [docstring.partition(": ")[2].strip().replace("\n\n", "\n\n"), ""]
        text[-2] = text[-2][:1].upper() + text[-2][1:]
    if "error" in one:
        text += [f"It cannot be run here: `{one['error']}`. {UPSTREAM.get(library.name, '')}".rstrip(), ""]
    matters = [line for block in blocks(lines) for line in block]
    if matters:
        text += ["```py", *matters, "```", "", f"From `examples/libraries/with_{library.name}.py`.", ""]
    if "printed" in one and not library.plays:
        text += ["It printed:", "", "```text", *one["printed"], "```", ""]
    return [*text, *measured_with(one.get("worlds", {}))]


def measured_with(worlds: dict[str, dict[str, Any]]) -> list[str]:
    """The classes with which the speeds in the environments `{id: row}` were measured, as a paragraph."""
    played: dict[str, list[str]] = {}
    forms = {world: row["form"] for world, row in worlds.items() if "form" in row}
    for world, form in forms.items():
        title = world.removesuffix("_v0").replace("_", " ")
        played.setdefault(re.sub(", (one controlled agent|the platform)$", "", form), []).append(title)
    *few, most = sorted(played, key=lambda form: len(played[form])) or [""]
    if not most:
        return []
    text = "The speeds in [Environments](#environments) were measured with "
    text += (
        "".join(f"{form} in {', '.join(played[form]).replace(', ', ' and ')}, and otherwise with " for form in few)
        + most
    )
    if any(form not in played for form in forms.values()):
        text += ", which controls one of many agents (the platform in elicitation)"
    return [f"{text}.", ""]


def blocks(lines: list[str]) -> list[list[str]]:
    """The lines of an example between the marks of what matters."""
    begun = [i for i, line in enumerate(lines) if line == BEGIN]
    return [[line.removesuffix("  # glue") for line in lines[i + 1 : lines.index(END, i)]] for i in begun]


INTRODUCTION = """# Learning libraries

Each example trains an agent with a library in an environment of this package. `taciturn.simulate` then evaluates this agent and, for
comparison, a policy of the package ({{doc}}`agents`). The trainings take about a minute. This is too short to compare libraries, so the page
omits their scores ({{doc}}`leaderboard` has full trainings). Flower trains no agents: in its example, an agent decides when a round of
federated training ends.

`python examples/libraries/run.py` runs the examples and writes this page. The results are from {processor} ({cpus} cores, shared with
other work), with Python {python}. *Lines* counts the lines of an example. *Glue lines* are the lines that you would not need for one of the library's own environments. *Seconds* is the time of the whole example: start, training and evaluation.
"""  # noqa: E501 - a page's own lines
WORLDS = """The table has actions per second, summed over all agents. Each library plays the environments through its own classes, in 4 parallel
replicas if the interface allows this. Agents act at random; in RLlib and sb3-contrib they learn. A library without an interface for many
agents controls one agent, and a policy of the package plays the others (`gymnasium.make(..., others=...)`)."""  # noqa: E501 - a page's own lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(library.name for library in LIBRARIES))
    parser.add_argument("--here", action="store_true", help="run what is installed, in this Python, and write nothing")
    parser.add_argument("--check", action="store_true", help="only run the examples, and write nothing")
    parser.add_argument("--page", action="store_true", help="only write the page")
    asked = parser.parse_args()
    if unknown := set(asked.names) - {library.name for library in LIBRARIES}:
        parser.error(f"no library is called {', '.join(sorted(unknown))}")
    chosen = [library for library in LIBRARIES if not asked.names or library.name in asked.names]
    if asked.here:
        for library in chosen:
            if library.name in asked.names or find_spec(library.module):
                print(library.title, flush=True)
                subprocess.run([sys.executable, HERE / f"with_{library.name}.py"], env=quiet(), check=True)
        return
    if asked.check:
        for library in chosen:
            python, error = environment(library.group, [TORCH, *GROUPS[library.group]], TOOLS)
            if error:
                sys.exit(f"{library.title} cannot be installed: {error}")
            print(library.title, flush=True)
            subprocess.run([python, HERE / f"with_{library.name}.py"], env=quiet(), check=True)
        return
    for library in [] if asked.page else chosen:
        python, error = environment(library.group, [TORCH, *GROUPS[library.group]], TOOLS)
        pinned = next(one.partition("==")[2] for one in GROUPS[library.group] if one.startswith(library.package))
        one = {"version": pinned, "error": error} if error else measured(library, python)
        print(library.title, json.dumps(one), flush=True)
        kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {"libraries": {}}
        kept["machine"] = {"processor": processor(), "cpus": os.cpu_count(), "python": platform.python_version()}
        kept["libraries"][library.name] = one
        KEPT.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    PAGE.write_text(page(json.loads(KEPT.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
