"""The page stands alone, says what it must, and is never half written."""

import io
import json
import math
import re
import shutil
import subprocess
from dataclasses import replace
from email.message import Message
from html import escape, unescape
from html.parser import HTMLParser
from pathlib import Path

import bench_dummies as dummies
import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from taciturn.bench import figures, report
from taciturn.bench.report import print_summary, print_tables, write_report
from taciturn.bench.results import Cell, Result, Results, matches
from taciturn.bench.runner import run_study
from taciturn.bench.store import Store, StoreError
from taciturn.bench.study import Table
from taciturn.bench.tables import (
    estimate,
    interval,
    number,
    privacy_text,
    ranges,
    relative_scores,
    standard_tables,
    tables_of,
)

EMPTY = {"meta", "link", "br", "hr", "img", "input", "path", "use", "rect"}


class Balanced(HTMLParser):
    """Fails on a tag that is closed and not open; collects the text of every table cell."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in EMPTY:
            self.open.append(tag)
        if tag == "td":
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag not in EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "td" in self.open:
            self.cells[-1] += data


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("store"))
    run_study([dummies.Noise()], store, quick=True)
    return store


@pytest.fixture(scope="module")
def page(store: Store) -> str:
    return write_report(store, store.path, [dummies.Noise(), dummies.Slow()]).read_text(encoding="utf-8")


def test_page_stands_alone(page: str) -> None:
    documentation = re.match('<a href="(.*)/x.html">', report.documentation("x", "x"))
    links = set(re.findall(r"https?://[^\"'<> ]+", page))
    assert {link for link in links if documentation is None or not link.startswith(documentation[1])} == {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert not re.search(r"<script[^>]|<link|<iframe|\ssrc=|@import|url\((?!#)|\bfetch\(", page)
    assert set(re.findall(r'href="([^#"][^"]*)"', page)) <= links
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []


PROBE = """
const found = {errors: []};
window.onerror = message => { found.errors.push(message); };
addEventListener("load", () => {
  const frame = document.querySelector("iframe"), page = frame.contentDocument, root = page.documentElement;
  frame.contentWindow.onerror = window.onerror;
  found.width = [root.scrollWidth, root.clientWidth];
  found.csv = [...page.querySelectorAll("table")].map(
    one => decodeURIComponent(one.parentElement.nextElementSibling.href).split(","));
  found.pictures = [...page.querySelectorAll("svg")].map(svg => svg.getBoundingClientRect().width);
  const table = [...page.querySelectorAll("table")].find(one => one.textContent.includes("wall time"));
  const column = [...table.tHead.rows[0].cells].findIndex(head => head.textContent === "reward");
  found.orders = [1, 2].map(() => {
    table.tHead.rows[0].cells[column].querySelector("button").click();
    return [...table.tBodies[0].rows].map(row => parseFloat(row.cells[column].textContent));
  });
  const claims = page.querySelector("tr.why").closest("table"), pairs = () => [...claims.tBodies[0].rows].map(
    (row, i, all) => row.className === "why" ? [all[i - 1].textContent, row.textContent] : null).filter(Boolean);
  found.claims = [pairs().sort()];
  claims.tHead.querySelector("button").click();
  found.claims.push(pairs().sort());
  document.body.textContent = "FOUND" + JSON.stringify(found) + "END";
});
"""


@pytest.mark.parametrize("width", [1400, 390])
def test_the_page_works_in_a_browser(page: str, tmp_path: Path, width: int) -> None:
    """No error, nothing wider than the window, pictures that are there, and tables as CSV, and sorted by a click, up
    and then down."""
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("chromium is not installed")
    frame = f'<iframe width={width} height=900 srcdoc="{escape(page)}"></iframe>'
    (tmp_path / "probe.html").write_text(f"<meta charset=utf-8><script>{PROBE}</script>{frame}", encoding="utf-8")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom"]
    done = subprocess.run(
        [*command, f"--user-data-dir={tmp_path / 'profile'}", f"file://{tmp_path}/probe.html"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = json.loads(unescape(done.stdout.rpartition("FOUND")[2].partition("END")[0]))
    assert found["errors"] == []
    assert found["width"][0] <= found["width"][1] <= width
    assert ["data:text/csv;charset=utf-8", '"agents"', '"configuration"', '"reward"'] in [
        one[:4] for one in found["csv"]
    ]
    assert len(found["pictures"]) == 4
    assert min(found["pictures"]) > 300
    up, down = found["orders"]
    assert len(set(up)) > 2
    assert up == sorted(up) == down[::-1]
    assert found["claims"][0] == found["claims"][1] != []


def test_page_says_what_it_must(page: str, store: Store) -> None:
    parser = Balanced()
    parser.feed(page)
    assert "Skill &lt;under&gt; noise &amp; privacy" in page
    assert "<under>" not in page
    assert page.count("<svg") == 4
    assert page.index('<a href="#noise">Skill') < page.index("Clever (2 of 2)") < page.index("<svg")
    assert {"∞ (no privacy)", "agrees", "differs", "The <model> as stated gives a smaller one."} <= set(parser.cells)
    assert "Clever (reference)" in parser.cells
    assert "A quick run: shorter than a full one, at most 3 seeds an agent." in page
    assert "`" not in re.sub("<(style|script)>.*?</\\1>", "", page, flags=re.DOTALL), "a backtick that is no code"
    assert "cells are missing" not in page
    manifest = store.manifest()
    for text in (manifest["taciturn"], manifest["python"], manifest["platform"], "noise: 0-2"):
        assert any(text in cell for cell in parser.cells)
    assert "Slow cells" not in page


def test_a_first_table_that_answers_the_question_opens_the_report(
    store: Store, page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dummies.Noise, "headline", True)
    monkeypatch.setattr(dummies.Noise, "answers", lambda *_: ["Who wins? Nobody < 1."])
    unpack = write_report(store, tmp_path, [dummies.Noise()]).read_text(encoding="utf-8")
    first = "<li><b>Who wins?</b> Nobody &lt; 1.</li>"
    questions = ("Which claims of the papers failed?", "How do I run my own agent?")
    places = [unpack.index(text) for text in ("<svg", first, *questions, ">Findings of full runs<", ">Results<")]
    assert places == sorted(places)
    assert ">Studies<" not in unpack, "whose line would be that of the first table"
    assert page.index(">Studies<") < page.index("<svg") < page.index(">Results<")
    assert unpack.count(">Results<") == page.count(">Results<") == 1
    papers = ">Replication of the papers&#x27; claims<"
    assert unpack.index(papers) < unpack.index(">Results<") < unpack.index(">Claims that differ<"), "a quick run"
    manifest = store.manifest()
    monkeypatch.setattr(Store, "manifest", lambda _: manifest | {"quick": False})
    full = write_report(store, tmp_path, [dummies.Noise()]).read_text(encoding="utf-8")
    assert full.index(">Results<") < full.index(papers) < full.index(">Claims that differ<")
    assert "Findings of full runs" not in full
    assert unpack.count("<svg") == page.count("<svg"), "the first figure opens the page and is not shown again"
    assert papers not in page


def test_links_to_the_documentation_go_where_the_package_says(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Message()
    monkeypatch.setattr(report, "metadata", lambda name: found)
    assert report.documentation("agents", "more") == ""
    found["Project-URL"] = "Source, https://example.org/code"
    assert report.documentation("agents", "more") == ""
    found["Project-URL"] = "Documentation, https://example.org/docs/"
    assert report.documentation("agents", "a < b") == '<a href="https://example.org/docs/agents.html">a &lt; b</a>'


def test_what_stands_in_backticks_is_code_and_cells_name_their_columns(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table("Of `x`", ("`a` & b", ""), [("run `x < y`", "z")], "See `x`.", words=frozenset({0, 1}))
    monkeypatch.setattr(dummies.Noise, "tables", lambda *_: [table])
    page = write_report(store, tmp_path, [dummies.Noise()]).read_text(encoding="utf-8")
    assert "<h3>Of <code>x</code></h3>" in page
    assert "<th class=word><code>a</code> &amp; b</th>" in page
    cell = '<td class=word data-label="a &amp; b"><span class=short>run <code>x &lt; y</code></span></td>'
    assert f"{cell}<td class=word><span class=short>z</span></td>" in page
    assert "<p class=quiet>See <code>x</code>.</p>" in page


def test_figures_are_saved_for_papers(page: str, store: Store) -> None:
    names = [file.name for file in sorted((store.path / "figures").iterdir())]
    stems = ["noise_privacy", "noise_profile", "noise_reward_so_far", "noise_score"]
    assert names == [f"{stem}.{form}" for stem in stems for form in ("pdf", "png")]
    assert (store.path / "figures" / names[0]).read_bytes().startswith(b"%PDF")


def test_page_is_the_same_every_time_and_never_half_written(
    store: Store, page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = write_report(store, tmp_path, [dummies.Noise()])
    assert again.read_text(encoding="utf-8") == page
    file = next(store.cells.iterdir())
    whole = file.read_bytes()
    file.write_bytes(whole[:100])
    with pytest.raises(StoreError, match="--resume"):
        write_report(store, tmp_path, [dummies.Noise()])
    file.unlink()
    monkeypatch.setattr(dummies.Noise, "plots", lambda study, results: [])
    incomplete = write_report(store, tmp_path / "less", [dummies.Noise()]).read_text(encoding="utf-8")
    file.write_bytes(whole)
    assert "1 of 72 cells are missing" in incomplete
    assert again.read_text(encoding="utf-8") == page


def test_tables_compare_with_the_reference_of_their_panel(store: Store) -> None:
    study, results = dummies.Noise(), Results.from_table(store.load())
    main, certainty, rest, overall = standard_tables(study, results)
    assert main.columns[:4] == ["agents", "configuration", "reward", "ratio to reference"]
    row = dict(zip(main.columns, main.rows[16], strict=True))
    assert (row["agents"], row["configuration"]) == ("100", "Plain")
    plain, clever = (results.select(policy=name, world={"agents": 100}).groups[0] for name in ("Plain", "Clever"))
    ratio = plain.metrics["reward"].mean() / clever.metrics["reward"].mean()
    assert row["ratio to reference"].startswith(number(ratio))
    assert row["epsilon per agent"] == "∞ (no privacy)"
    assert row["messages"] == "2,000"
    assert row["seeds"] == "3"
    said = dict(zip(certainty.columns, certainty.rows[16], strict=True))
    assert said["P(better than reference)"] == "0 [0, 0.5615]"
    assert said["p of no difference (Holm)"] == "< 0.0001"  # the noise is the same at every seed
    assert "corrected for the 22 comparisons of this table (Holm 1979)" in certainty.note
    assert rest.columns[-1] == "rounds"
    assert len(overall.rows) == 12
    silent = replace(results.groups[0], metrics={"reward": results.groups[0].metrics["reward"]})
    fewer = standard_tables(study, Results([silent, *results.groups[1:]]))
    assert [len(table.rows) for table in fewer[:3]] == [len(main.rows), len(certainty.rows), len(rest.rows) - 1]


def test_p_values_are_corrected_for_all_comparisons_of_the_table(store: Store) -> None:
    """Against Student's distribution of Hall's transformation, by hand; four policies in one panel are compared with
    the reference, and the smallest p counts four times."""

    def p_of(away: np.ndarray) -> float:
        t, a = stats.ttest_1samp(away, 0).statistic, stats.skew(away, bias=False) / 3**0.5
        return float(2 * stats.t.sf(abs(t + a * t**2 / 3 + a**2 * t**3 / 27 + a / 6), 2))

    study, groups, rng = dummies.Noise(), store.results("noise").groups[:5], np.random.default_rng(0)
    own = [replace(group, metrics={"reward": rng.normal(index, 1, 3)}) for index, group in enumerate(groups)]
    reference, *others = (group.metrics["reward"] for group in own)
    p = sorted((p_of(other - reference), index) for index, other in enumerate(others, 1))
    certainty = standard_tables(study, Results(own))[1]
    shown = [row[list(certainty.columns).index("p of no difference (Holm)")] for row in certainty.rows]
    assert shown[0] == "–"
    assert float(shown[p[0][1]]) == pytest.approx(min(1, 4 * p[0][0]), rel=0.06)
    assert float(shown[p[1][1]]) == pytest.approx(min(1, max(4 * p[0][0], 3 * p[1][0])), rel=0.06)


def test_comparisons_turn_where_lower_is_better(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    study, results = dummies.Noise(), store.results("noise")

    def plain_wins_and_profile() -> tuple[float, bool]:
        certainty = standard_tables(study, results)[1]
        row = dict(zip(certainty.columns, certainty.rows[16], strict=True))
        lines = figures.plot_profiles(study, results)[0].figure.axes[0].lines
        shares = [np.asarray(line.get_ydata()) for line in lines]
        assert all(share.min() >= 0 and share.max() <= 1 for share in shares)
        return float(row["P(better than reference)"].split()[0]), all(share[0] > share[-1] for share in shares)

    assert plain_wins_and_profile() == (0.0, True)
    monkeypatch.setattr(dummies.Noise, "score", replace(study.score, higher_is_better=False))
    assert plain_wins_and_profile() == (1.0, False)


def test_no_privacy_lies_beyond_every_finite_loss(store: Store) -> None:
    plot = figures.plot_privacy(dummies.Noise(), store.results("noise"), "epsilon")
    for ax in plot.figure.axes:
        marked = [np.asarray(line.get_xdata()).tolist() for line in ax.lines if line.get_marker() != "None"]
        assert marked == [[25.0, 100.0, 400.0, 1600.0]] * 3


def test_scores_of_one_panel_are_not_put_together(store: Store) -> None:
    results = store.results("noise")
    found = relative_scores(dummies.Noise(), results)
    assert len(found) == 12
    study = dummies.Noise()
    for column, (_, panel) in enumerate(study.panels(results)):
        (reference,) = (group for group in panel if matches(group.config, study.reference))
        scores = found[study.label(reference, results)][:, column]
        assert scores.mean() == pytest.approx(1), "each panel over its own reference"
    assert relative_scores(dummies.Noise(), results.select(world={"agents": 10})) == {}


def test_a_metric_that_some_seed_lacks_is_left_out(tmp_path: Path) -> None:
    study, store = dummies.Failing(), Store(tmp_path)
    run_study([study], store)
    store.write(Cell("failing", {}, 0), Result({"value": 2.0, "first": 1.0}, {"line": ([0, 1], [0, 1])}), 1.0)
    group = store.results("failing").one()
    assert (set(group.metrics), group.curves) == ({"value"}, {})
    assert group.metrics["value"].tolist() == [2.0, 1.0]


def test_the_report_supplies_the_standard_tables_and_plots_unless_a_study_has_its_own(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, results = dummies.Noise(), store.results("noise")
    assert study.tables(results) is None
    assert study.plots(results) is None
    assert tables_of(study, results) == standard_tables(study, results)
    assert [plot.name for plot in figures.plots_of(study, results)] == [
        plot.name for plot in figures.standard_plots(study, results)
    ]
    for name in ("tables", "plots"):
        monkeypatch.setattr(dummies.Noise, name, lambda study, results: [])
    assert tables_of(study, results) == []
    assert figures.plots_of(study, results) == []


def test_one_seed_has_no_interval(tmp_path: Path) -> None:
    study, store = dummies.Failing(), Store(tmp_path)
    run_study([study], store)
    for seed in (2, 4):
        (store.cells / f"{Cell('failing', {}, seed).key}.parquet").unlink(missing_ok=True)
    (table, certainty) = standard_tables(study, Results.from_table(store.load()))
    assert table.rows[0][:2] == ["all", "1"]
    assert certainty.rows[0][1] == "1 –"
    write_report(store, tmp_path, [study])


def test_tables_are_printed_as_they_are(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dummies.Noise, "title", "[red]not markup[/red]")
    console = Console(file=io.StringIO(), width=160)
    print_tables(store, [dummies.Noise(), dummies.Slow()], console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "[red]not markup[/red]" in text
    assert "differs" in text
    assert "∞ (no privacy)" in text
    assert "Slow" not in text


def test_the_summary_has_a_line_for_each_study(store: Store) -> None:
    console = Console(file=io.StringIO(), width=160)
    print_summary(store, [dummies.Noise(), dummies.Slow()], console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "Clever (2 of 2)" in text
    assert "1 agrees, 1 differs, 1 cannot be computed" in text
    assert "Slow" not in text
    assert len(text.strip().splitlines()) == 5


def test_the_summary_of_the_standing_benchmark_is_its_answer(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dummies.Noise, "headline", True)
    console = Console(file=io.StringIO(), width=160)
    print_summary(store, [dummies.Noise()], console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.startswith("Findings of full runs\n"), "a quick run ranks nobody"
    assert "gossip bandit" in text
    assert "cells, 3 seeds of each agent: not ranked." in text
    assert "Its means" not in text, "of so many"
    monkeypatch.setattr(report, "FEW", 100)
    print_summary(store, [dummies.Noise()], console)
    assert "Its means" in console.file.getvalue()  # type: ignore[attr-defined]
    manifest = store.manifest()
    monkeypatch.setattr(store, "manifest", lambda: manifest | {"quick": False})
    console = Console(file=io.StringIO(), width=160)
    print_summary(store, [dummies.Noise()], console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.startswith("Results\n")
    assert "Studies" not in text


def test_curves_with_different_times_meet_on_the_range_they_share() -> None:
    one, two = (np.array([0.0, 2.0, 4.0]), np.array([0.0, 2.0, 4.0])), (np.array([1.0, 3.0]), np.array([1.0, 3.0]))
    x, y = figures.common_grid([one, two], points=5)
    np.testing.assert_allclose(x, [1, 1.5, 2, 2.5, 3])
    np.testing.assert_allclose(y, [x, x])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (2, "2"),
        (1 / 3, "0.3333"),
        (-0.25, "-0.2500"),
        (999.4, "999.4"),
        (1537.3, "1,537"),
        (12345.6, "12,346"),
        (1.5e12, "1.500e+12"),
        (1.2e-7, "1.200e-07"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (math.nan, "–"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("values", "text"),
    [((0.0, 0.0), "0 (nothing sent)"), ((0.0, 1.0), "0.5000"), ((2.0, math.inf), "∞ (no privacy)")],
)
def test_privacy_has_the_same_words_in_every_table(values: tuple[float, float], text: str) -> None:
    assert privacy_text(np.array(values)) == text


def test_intervals_and_ranges() -> None:
    assert interval((math.nan, math.nan)) == "–"
    assert interval((0.5, 2)) == "[0.5000, 2]"
    assert ranges([0, 1, 2, 5, 7, 8]) == "0-2, 5, 7-8"


def test_a_mean_of_which_one_is_infinite_has_no_interval() -> None:
    found = estimate(np.array([1.0, np.inf, 3.0]))
    assert found.value == np.inf
    assert math.isnan(found.low)
    assert math.isnan(found.high)
    assert estimate(np.array([1.0, 2.0, 3.0])).low > -np.inf
