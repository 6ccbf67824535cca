"""The Python in the hand-written pages runs, block after block, and what they list is complete."""

import dataclasses
import io
import json
import pkgutil
import re
import runpy
from pathlib import Path
from typing import Any

import gallery
import interval_coverage
import numpy as np
import pytest
import store_results
import summary
import world_pages
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image, ImageSequence

from taciturn import privacy, registry
from taciturn.bench import references
from taciturn.bench.tasks import BENCHMARKS, TASKS
from taciturn.envs.core import Population, Replicas, picture
from taciturn.envs.core.hooks import Hooks

ROOT = Path(__file__).parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted(ROOT.glob("docs/*.md")),
    *sorted(ROOT.glob("papers/docs/*.md")),
]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "```python" in page.read_text("utf-8")], ids=lambda p: p.name
)
def test_python_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "page"}
    for block in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        line = text.count("\n", 0, block.start(1))
        exec(compile("\n" * line + block[1], str(page), "exec"), names)


@pytest.mark.parametrize("world", [world.name for world in registry.WORLDS])
def test_the_page_of_a_world(world: str) -> None:
    """Its lines run and leave a picture of what they played; its tables have every entry and parameter, with what it
    means."""
    names = world_pages.play(world)
    assert names["frame"].shape == (400, 640, 3)
    assert (names["frame"] == picture(names["env"])).all()
    drawn = "draw" in vars(type(names["env"]))  # by default it is a line of text
    assert (names["frame"] != 255).any(2).mean() > (0.02 if drawn else 0.002), "there is hardly anything in the picture"
    assert not hidden(names["env"])
    for lines in world_pages.loops(world).values():
        exec(compile(lines, world, "exec"), {})
    text, population = world_pages.about(world, str), names["env"]
    parts = dict(zip(*[iter(re.split(r"^(.+)\n-+\n", text, flags=re.MULTILINE)[1:])] * 2, strict=True))
    for role in population.roles.values():
        assert all(
            f"``{role.name}``\n     - ``{field}``\n" in parts["Observations and actions"]
            for field in role.layout.fields
        )
    rows = parts["Parameters"].split("\n   * - ")[2:]
    told = [name for row in rows for name in re.findall(r"``(\w+)``", row.partition("\n     - ")[0])]
    assert sorted(told) == sorted(field.name for field in dataclasses.fields(population.params))
    assert not [row for row in rows if row.rstrip().endswith("-")], "a parameter without a meaning"
    assert all(f"   * - ``{name}``\n" in parts["Channels"] for name in population.channels)
    assert "- ``Random``\n" in parts["Policies that fit"]
    benchmark = BENCHMARKS.get(world)
    if (
        benchmark and references.scale_of(TASKS[f"{registry.entry(world).id}/standard"]) is not None
    ):  # its runs are kept
        assert re.search(r"\* - (PettingZoo|Gymnasium)", parts["Time of a step"])
        ranked = re.findall(r"   \* - \d+\n     - (\w+)", parts["Scores"])
        assert {name for name, _ in (*benchmark.classic, *benchmark.designed)} <= set(ranked)


def test_a_film_shows_a_run_from_its_start_to_its_end() -> None:
    """One picture a turn, if the turns are few; readers who want no motion get the last one."""
    turns = list[Any]()
    gallery.played("arm_elimination_v0", turns.append)
    taken = gallery.frames("arm_elimination_v0")
    assert 3 < len(taken) == len(turns) + 1 <= gallery.FRAMES
    assert (taken[0] != taken[-1]).any()
    with Image.open(io.BytesIO(gallery.film(taken))) as film, Image.open(io.BytesIO(gallery.still(taken))) as still:
        assert (np.asarray(still) == taken[-1]).all()
        last, *_ = shown = ImageSequence.all_frames(film, lambda one: one.convert("RGB"))
        assert (len(shown), last.size) == (len(taken), (640, 400))
        assert np.abs(np.asarray(last, float) - taken[-1]).mean() < 2
    text = gallery.shown("arm_elimination_v0", "")
    assert 'srcset="_static/arm_elimination_v0.png" media="(prefers-reduced-motion: reduce)"' in text
    assert re.search('alt="arm elimination: .{20}', text)


def test_the_film_of_the_readme_is_small() -> None:
    films = list((ROOT / "docs/_static").glob("*.webp"))
    assert films
    for file in films:
        assert file.stat().st_size <= gallery.LARGEST
        with Image.open(file) as film:
            assert len(ImageSequence.all_frames(film)) > 10


def hidden(population: Population[Any]) -> list[str]:
    """The legends of a picture that lie over the data of some axes, or outside the picture."""
    canvas = FigureCanvasAgg(figure := Figure(figsize=(6.4, 4.0), dpi=100, layout="constrained"))
    population.draw(whole := figure.add_subplot())
    canvas.draw()
    drawn = [axes for axes in (whole, *whole.child_axes) if axes.axison or axes.has_data()]
    legends = {axes: axes.get_legend() for axes in (whole, *whole.child_axes)}
    areas = {axes: legend.get_window_extent() for axes, legend in legends.items() if legend}
    return [
        str(axes)
        for axes, area in areas.items()
        if any(area.padded(-2).overlaps(other.get_window_extent()) for other in drawn)
        or not (-1 <= area.x0 < area.x1 <= 641 and -1 <= area.y0 < area.y1 <= 401)
    ]


def test_pages_give_what_was_measured_and_found() -> None:
    for file, name, part in summary.parts():
        text = file.read_text(encoding="utf-8")
        assert summary.with_part(text, name, part) == text, f"{name} of {file}: python tools summary"


def test_the_readme_is_short_and_has_no_number_of_its_own() -> None:
    text = PAGES[0].read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 90
    assert len(text.split()) <= 900
    own = re.sub(r"<!-- (\w+): .*?<!-- end -->|```.*?```|^    .*?$|^\|.*?$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert re.findall(r"\d+(?:\.\d+)?", own.replace("2026-11-25", "")) == [
        "96",
        "3.11",
        "3",
    ]  # a width, Python's, Stable-Baselines3


def test_the_page_of_speed_gives_what_was_measured() -> None:
    speed, text = (
        runpy.run_path(str(ROOT / "benchmarks/speed.py")),
        (ROOT / "docs/speed.md").read_text(encoding="utf-8"),
    )
    assert speed["BEGIN"] + speed["table"]() + speed["END"] in text
    assert all((ROOT / f"benchmarks/{name}.py").exists() for name in speed["SCRIPTS"])
    assert {row.script for row in speed["ROWS"] if isinstance(row, speed["Row"])} <= set(speed["SCRIPTS"])


def test_the_page_of_intervals_gives_the_measured_coverage() -> None:
    """And what is used holds at least 90% of the time from ten runs on, as is said; a plain mean is not used where a
    training may fail."""
    measured = json.loads((ROOT / "tools/results/interval_coverage.json").read_text(encoding="utf-8"))
    text = (ROOT / "docs/intervals.md").read_text(encoding="utf-8")
    assert interval_coverage.table() in text
    assert f"from {measured['repeats']:,} samples each" in text.replace("\n", " ")
    for name, distributions in measured["coverage"].items():
        for distribution, shares in distributions.items():
            used = (name, distribution) != ("mean", "one in ten fails")
            assert (min(shares["10"], shares["20"]) >= 0.9) == used, (name, distribution)


def test_pages_of_results_are_made_of_the_kept_results() -> None:
    marked = {page for page in (ROOT / "docs").glob("*.md") if store_results.BEGIN in page.read_text(encoding="utf-8")}
    pages = store_results.pages()
    assert {"leakage", "verdicts"} <= {page.stem for page in pages}
    package = {ROOT / "bench" / name for name in ("stored_verdicts.json", "known.json", "references.json")}
    drawn = {ROOT / "docs/_static" / f"{name}.svg" for names in store_results.DRAWN for name in names}
    assert marked | set(ROOT.glob("papers/docs/verdicts*.md")) | package | drawn == set(pages)
    for page, text in pages.items():
        assert page.read_text(encoding="utf-8") == text


def test_the_checklist_names_every_hook_that_a_world_uses() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    kinds = [type(world.population()) for world in registry.worlds().values()]
    hooks = {name for kind in kinds for cls in kind.__mro__[: kind.__mro__.index(Replicas)] for name in vars(cls)}
    hooks &= {name for name in vars(Hooks) if not name.startswith("_")}
    assert {"acts", "between", "check_channel", "hidden", "jump"} <= hooks
    assert not [name for name in hooks if f"`{name}" not in text and f" {name}(" not in text]


def test_the_checklist_names_every_kind_of_mechanism() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    kinds = {cls.kind for cls in subclasses(privacy.mechanisms.Mechanism) if "kind" in vars(cls)}
    assert len(kinds) > 4
    assert not [kind for kind in kinds if f'`"{kind}"`' not in text]


def test_the_equations_name_what_there_is() -> None:
    text = (ROOT / "docs/equations.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`(taciturn\.[\w.]+)`", text))
    assert len(names) > 50
    for name in names:
        pkgutil.resolve_name(name)


def subclasses(cls: type[Any]) -> set[type[Any]]:
    return {cls}.union(*map(subclasses, cls.__subclasses__()))
