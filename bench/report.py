"""The report: a self-contained HTML page, figures for papers, and the main tables for the terminal."""

import os
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from importlib.metadata import metadata
from importlib.resources import files as resources
from pathlib import Path
from types import MappingProxyType

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from taciturn import files
from taciturn.bench import figures, known, mine, stored_verdicts
from taciturn.bench.progress import bar, stderr
from taciturn.bench.results import Group, Results, describe
from taciturn.bench.store import Store, refusing, write_bytes
from taciturn.bench.study import AGREES, DIFFERS, Plot, Study, Table
from taciturn.bench.tables import NONE, number, origin_table, ranges, tables_of, verdict_tables
from taciturn.terminal import aligned, counted, narrowest

FEW = 12
"""Number of groups of a quick run up to which their means are printed."""
BADGES = {AGREES: "good", DIFFERS: "bad"}
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>taciturn {version}: benchmark</title>
<style>{css}</style>
</head>
<body>
<header>
<h1>taciturn {version}: benchmark</h1>
<p>Multi-agent environments for collaborative learning under differential privacy. {about}</p>
{warning}
</header>
<main>
{opening}
{answers}
{sections}
</main>
<footer>
<h2>This run</h2>
{origin}
</footer>
<script>{script}</script>
</body>
</html>
"""


OWN = (
    "How do I run my own agent? Run `taciturn bench --agent sb3:model.zip --out results/mine` with your "
    "Stable-Baselines3 model. For your own class, replace `sb3:model.zip` by `module:Class`."
)


def documentation(page: str, text: str) -> str:
    """A link to a page of the documentation, if the package has its address; else empty."""
    result = metadata("taciturn").get_all("Project-URL") or []
    places = [place for name, _, place in (one.partition(", ") for one in result) if name == "Documentation"]
    return f'<a href="{escape(places[0].rstrip("/"))}/{page}.html">{escape(text)}</a>' if places else ""


def write_report(store: Store, out_dir: str | Path, studies: Sequence[Study], stored: Path | None = None) -> Path:
    """Write `report.html` and `figures/*.pdf` and `*.png` from the finished cells; return the path of the page.

    Studies without finished cells are left out. If only the user's agents were run, the report compares them with the
    results in the folder `stored`. Raises StoreError if a cell cannot be read.
    """
    out = Path(out_dir)
    manifest, plan = store.manifest(), store.plan()
    with refusing(out):
        drawn = files.own(out / "figures")
    answers, sections, links, opening_answers = list[str](), list[str](), dict[str, str](), list[str]()
    opening, most = list[str](), 0
    standing, quick = any(study.headline for study in studies), bool(manifest["quick"])
    with bar(stderr(), len(studies)) as shown:
        for study in studies:
            shown.running(study.title)
            results = store.results(study.name)
            if len(results):
                links[study.title] = f"#{study.name}"
                most = max(most, *(group.seeds.size for group in results))
                shown.running(f"{study.title}: answers", 0.05)
                opening_answers += [_answer(text) for text in study.answers(results)]
                shown.running(f"{study.title}: tables", 0.2)
                tables = tables_of(study, results)
                shown.running(f"{study.title}: figures", 0.6)
                plots = figures.plots_of(study, results)
                first = int(study.headline and not quick)  # a quick run ranks no agents
                compared = mine.comparison(results, stored) if study.headline and stored else None
                if compared:
                    first, tables = len(compared.opening), [*compared.opening, *compared.tables]
                    plots = compared.plots
                    opening_answers, standing = [_answer(text) for text in compared.answers], False
                answers += [_html(table) for table in tables[:first]]
                opening += [_figure(plot, drawn) for plot in plots[: study.headline]]
                rest = (plots[study.headline :], tables[first:])
                sections.append(_section(study, results, len(plan[study.name]), drawn, *rest, quick=quick))
            shown.finished(study.title)
    papers, differing = stored_verdicts.tables() if standing else (None, None)
    if standing:
        opening_answers.append(_answer(stored_verdicts.answer(), '<a href="#claims">Which they are</a>'))
        opening_answers.append(_answer(OWN, documentation("agents", "more")))
        answers[:0] = [_html(known.table())] if quick else []
    summed_up = overview(store, [study for study in studies if not study.headline])
    page = PAGE.format(
        version=escape(manifest["taciturn"]),
        css=_beside("report.css"),
        script=_beside("report.js"),
        about=documentation("leaderboard", "How scores are computed") if standing else "",
        warning=_warning(f"A quick run: shorter than a full one, at most {counted(most, 'seed')} an agent.") * quick,
        opening=f"<div class=opening>{''.join(opening)}<ul>{''.join(opening_answers)}</ul></div>"
        if opening_answers
        else "",
        answers="".join(
            [
                "<h2>In numbers</h2>",
                *answers,
                _html(papers, {row[0]: "#claims" for row in papers.rows}) if papers else "",
                _html(summed_up, links) if summed_up.rows else "",
            ]
        )
        if links
        else "<p>No cell of these studies is finished.</p>",
        sections="".join(sections)
        + (f'<section id="claims"><h2>Claims</h2>{_html(differing)}</section>' if differing else ""),
        origin=_html(origin_table(manifest)),
    )
    write_bytes(out / "report.html", page.encode())
    return out / "report.html"


def print_tables(store: Store, studies: Sequence[Study], console: Console | None = None) -> None:
    """Print the verdicts and the first table of every study that has results; the report has all tables."""
    console = console or terminal()
    for study in studies:
        results = store.results(study.name)
        if not len(results):
            continue
        console.print(Text(f"\n{study.title}", style="bold"))
        for table in [*verdict_tables(study.verdicts(results)), *tables_of(study, results)[:1]]:
            print_table(table, console)


def print_table(table: Table, console: Console | None = None) -> None:
    """Print a table; if it is `explained`, the last entry of each row is printed below the row.

    Rows with the same first entry get it as a heading, and a column with the same entry in all rows becomes a line. If
    the table is too wide, columns named in `spare` are left out, and a line names them.
    """
    console = console or terminal()
    console.print(Text(table.title, style="italic"))
    entries = [row[: len(table.columns)] for row in table.rows]
    same = {
        index
        for index in range(1, len(table.columns))
        if len(entries) > 1 and index not in table.words and len({row[index] for row in entries}) == 1
    }
    for index in sorted(same):
        console.print(f"{table.columns[index]}: {entries[0][index]}", highlight=False, markup=False)
    firsts = dict.fromkeys(row[0] for row in entries)
    grouped = len(table.columns) > 2 and len(firsts) < len(entries)
    shown = [index for index in range(grouped, len(table.columns)) if index not in same]
    left_out, wanted = list[str](), _narrowest(table, shown)
    for name in table.spare:
        index = table.columns.index(name) if name in table.columns else -1
        if index in shown and _narrowest(table, shown) > console.width:
            shown.remove(index)
            left_out.append(name)
    if left_out:
        line = f"Left out to fit {console.width} columns (COLUMNS={wanted} shows all): {', '.join(left_out)}"
        console.print(line, highlight=False, markup=False)
    numbers = {place for place, index in enumerate(shown) if index not in table.words}
    for first in firsts if grouped else (None,):
        if grouped:
            console.print(Text(f"\n{first}", style="bold"))
        rows = [table.columns, *(row for row in entries if first in (None, row[0]))]
        texts = [[row[index] for index in shown] for row in rows]
        console.print(Text(f"\n{aligned(texts, numbers=numbers, width=console.width, ruled=True)}\n"))
    for row in table.rows if table.explained else ():
        if row[-1]:
            console.print(Padding(Text.assemble((f"{row[0]}: ", "bold"), row[-1]), (0, 0, 0, 2)))


def _narrowest(table: Table, shown: Sequence[int]) -> int:
    """The width that these columns of a table need."""
    rows = [[row[index] for index in shown] for row in (table.columns, *table.rows)]
    return narrowest(rows, {place for place, index in enumerate(shown) if index not in table.words})


def terminal() -> Console:
    """A console as wide as the window, or as COLUMNS, or 120 columns."""
    return Console(width=None if sys.stdout.isatty() or os.environ.get("COLUMNS") else 120)


def print_summary(
    store: Store, studies: Sequence[Study], console: Console | None = None, stored: Path | None = None
) -> None:
    """Print the best agents, if the studies rank them, and a line for each of the remaining studies; the report has
    their tables. If only the user's agents were run, print their comparison with the results in the folder `stored`."""
    console = console or terminal()
    for study in studies:
        results = store.results(study.name) if study.headline else Results([])
        compared = mine.comparison(results, stored) if stored else None
        if compared:
            print_compared(compared.opening, console)
        elif len(results) and store.manifest()["quick"]:
            print_known(study, results, console)
        elif len(results):
            for table in tables_of(study, results)[:1]:
                print_table(table, console)
    others = [study for study in studies if not study.headline]
    if others:
        print_table(overview(store, others), console)


def print_compared(tables: Sequence[Table], console: Console) -> None:
    """Print tables on the user's agents, and the notes below them."""
    for table in tables:
        print_table(table, console)
    for note in dict.fromkeys(table.note for table in tables if table.note):
        console.print(note, highlight=False, markup=False)


def print_known(study: Study, results: Results, console: Console) -> None:
    """Print the findings of full runs, since a quick run has too few seeds to rank agents."""
    result = known.table()
    print_table(result, console)
    console.print(result.note, highlight=False)
    seeds = [len(group.seeds) for group in results]
    each = counted(max(seeds), "seed")
    cells = counted(sum(seeds), "cell")
    console.print(f"\nThis quick run: {cells}, {each} of each agent: not ranked.", highlight=False)
    rows = [
        (named(study, group, results), *(f"{number(group.mean(name))} {name}" for name in list(group.metrics)[:2]))
        for group in results
    ]
    if len(rows) <= FEW:
        print_table(Table("Its means", ("agent", "measure", "and"), rows, words=frozenset({0, 1, 2})), console)


def named(study: Study, group: Group, results: Results) -> str:
    """The label of a group, with the parameters of its policy."""
    own = group.config.get("policy_params")
    return study.label(group, results) + (f" ({describe(own)})" if own else "")


def overview(store: Store, studies: Sequence[Study]) -> Table:
    """A line for every study with results: the best of each panel, and the verdicts on a paper's claims."""
    rows = []
    for study in studies:
        results = store.results(study.name)
        if len(results):
            counts = Counter(verdict.verdict for verdict in study.verdicts(results))
            opening_answers = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()) or NONE
            rows.append((study.title, best_of_panels(study, results), opening_answers))
    columns = ("study", "best of each panel, by the study's score", "claims")
    return Table("Studies", columns, rows, words=frozenset({0, 1, 2}))


def best_of_panels(study: Study, results: Results) -> str:
    """The labels of the best groups, with the number of panels in which each is best, most frequent first."""
    best = [group for _, panel in study.panels(results) if (group := study.best(panel)) is not None]
    result = Counter(str(group.flat.get(study.color) or study.label(group, results)) for group in best)
    return ", ".join(f"{label} ({count} of {len(best)})" for label, count in result.most_common(3)) or NONE


def _beside(name: str) -> str:
    """A file next to this module, as text."""
    return (resources("taciturn.bench") / name).read_text(encoding="utf-8")


def _section(
    study: Study,
    results: Results,
    planned: int,
    folder: Path,
    plots: Sequence[Plot],
    tables: Sequence[Table],
    *,
    quick: bool,
) -> str:
    finished = sum(len(group.seeds) for group in results)
    seeds = sorted({int(seed) for group in results for seed in group.seeds})
    facts = [counted(len(results), "configuration"), f"seeds {ranges(seeds)}", describe(results.constant)]
    missing = f"{planned - finished} of {planned} cells are missing: they failed or the run was stopped."
    parts = [
        f'<section id="{study.name}"><h2>{escape(study.title)}</h2>',
        _warning(missing) if finished < planned else "",
        *(_figure(plot, folder) for plot in plots),
        *(_html(table) for table in [*tables, *verdict_tables(study.verdicts(results))]),
        f"<h3>How {'full runs are' if quick else 'this was'} done</h3>" if study.description else "",
        f"<p>{_inline(study.description)}</p>" if study.description else "",
        f"<p class=quiet>This run: {_inline('; '.join(filter(None, facts)))}</p>",
        "</section>",
    ]
    return "\n".join(filter(None, parts))


def _figure(plot: Plot, folder: Path) -> str:
    svg = "".join(figures.save(plot, folder))
    kind, frame = (" class=themed", "") if plot.narrow else ("", ' tabindex=0 role=group aria-label="Figure"')
    return f"<figure{kind}><div class=plot{frame}>{svg}</div><figcaption>{_inline(plot.caption)}</figcaption></figure>"


def _answer(text: str, link: str = "") -> str:
    """A question in bold, its answer, and a link to more, if there is one."""
    question, mark, answer = text.partition("? ")
    return f"<li><b>{_inline(question)}{mark.strip()}</b> {' '.join(filter(None, (_inline(answer), link)))}</li>"


def _warning(text: str) -> str:
    return f"<p class=warning>{_inline(text)}</p>"


def _inline(text: str) -> str:
    """Text as HTML; parts in backticks become code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def _html(table: Table, links: Mapping[str, str] = MappingProxyType({})) -> str:
    """A table; texts in `links` become links. Each cell names its column, for screens too narrow for a row."""
    words = [" class=word" if index in table.words else "" for index in range(len(table.columns))]
    labels = [f' data-label="{escape(name.replace("`", ""))}"' if name else "" for name in table.columns]
    head = "".join(f"<th{word}>{_inline(name)}</th>" for word, name in zip(words, table.columns, strict=True))
    rows = ""
    for texts in table.rows:
        *cells, sentence = texts if table.explained else (*texts, "")
        row = "".join(
            f"<td{word}{label}>{_badge(text, links.get(text))}</td>"
            for word, label, text in zip(words, labels, cells, strict=True)
        )
        rows += f"<tr>{row}</tr>"
        rows += f"<tr class=why><td class=word colspan={len(words)}>{_inline(sentence)}</td></tr>" if sentence else ""
    head = f"<thead><tr>{head}</tr></thead>" if any(table.columns) else ""
    note = f"<p class=quiet>{_inline(table.note)}</p>" if table.note else ""
    title = f"<h3>{_inline(table.title)}</h3>"
    # Scrollable content must be reachable by keyboard, and have a name.
    frame = f'<div class=scroll tabindex=0 role=region aria-label="{escape(table.title)}">'
    return f"{title}{frame}<table>{head}<tbody>{rows}</tbody></table></div>{note}"


def _badge(text: str, link: str | None) -> str:
    kind = BADGES.get(text)
    if kind:
        return f'<span class="badge {kind}">{text}</span>'
    if link:
        return f'<a href="{link}">{escape(text)}</a>'
    return f"<span class={'short' if len(text) <= 36 else 'long'}>{_inline(text)}</span>"
