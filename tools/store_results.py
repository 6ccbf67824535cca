"""Keep the results of full runs, and make the pages of the docs that show them.

`python tools store_results [FOLDER ...]`

Each FOLDER is what `taciturn bench STUDY --out FOLDER` or `taciturn reproduce FIGURE --out FOLDER` wrote. Each of its
studies goes to `results/studies/<study>.json`, or those of papers to `papers/results/<study>.json`: every metric of
every cell, with the command, the commit, the versions and the hours it took. A run of some cells (`--where`) replaces
these and leaves the others as they were. Curves are left out, but not the scores of a learner's single runs.

Pages are made from these files alone: `docs/<study>.md`, if there is one (or the page that `PAGES` names), gets the
study's tables between its markers, `papers/docs/verdicts.md` gets a line for each claim of a paper, and
`papers/docs/verdicts-<paper>.md` what stands behind it; the package gets what became of each paper's claims, for its
report, and the marks of each task.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from taciturn.bench import figures, known, references, stored_verdicts
from taciturn.bench.catalogue import load_studies
from taciturn.bench.report import OWN
from taciturn.bench.results import Results, canonical
from taciturn.bench.scores import FREE, UNDER
from taciturn.bench.store import Store
from taciturn.bench.study import VERDICTS, Plot, Study, Table, Verdict
from taciturn.bench.submission import Submission, merged, of_folder, packed, unpacked
from taciturn.bench.tables import MEANINGS, number, ours, ranges, stated, tables_of, verdict_tables, why

ROOT = Path(__file__).parents[1]
STORED, DOCS = ROOT / "tools/results/studies", ROOT / "docs"
KEPT_OF_PAPERS, DOCS_OF_PAPERS = ROOT / "papers/results", ROOT / "papers/docs"
PAGES = {"agents": {"leaderboard": (UNDER,), "privacy-totals": (FREE,)}}
"""The pages of a study that are not called like it, with the titles of tables that they leave out."""
DRAWN = (("scores", "scores-narrow"), ("budgets", "budgets-narrow"))
"""The files of the figures of the benchmark `agents`, wide and narrow."""
ALONE = (
    "<style>.wide, .narrow { color: #1c2126 } "
    "@media (prefers-color-scheme: dark) { .wide, .narrow { color: #e4e7ea } }</style>"
)
"""The colour of the text of a figure that no page surrounds."""
VERDICT_PAGE = """# Verdicts

The tables compare claims of the papers with the results of full runs of `taciturn reproduce`, one claim per line. The brackets after a
claim name the number in the column 'ours'. The page of each paper has the paper's own words, the source of the tolerance, every interval, an
explanation, and our own checks, which are not counted here.

"""  # noqa: E501 - a page's own lines
BEGIN, END = "<!-- results: written by tools/store_results.py -->\n", "<!-- end of results -->\n"


def keep(folder: Path) -> list[str]:
    """Keep every study of a results folder; returns their names. Raises ValueError if the run was quick or is not
    finished."""
    manifest = Store(folder).manifest()
    if manifest["quick"] or manifest["finished"] is None:
        raise ValueError(f"{folder} must hold a finished run in full form, not a quick or unfinished one")
    for name in manifest["studies"]:
        study, file = load_studies()[name], file_of(name)
        result = of_folder(folder, study)
        file.write_text(packed(completed(study, result, unpacked(file)) if file.exists() else result), encoding="utf-8")
    return list(manifest["studies"])


def file_of(study: str) -> Path:
    """Where the results of a study are kept."""
    return (KEPT_OF_PAPERS if load_studies()[study].figures else STORED) / f"{study}.json"


def completed(study: Study, found: Submission, stored: Submission) -> Submission:
    """A run of some cells of a study (`--where`), with the others that the study has from what is kept."""
    cells = study.cells(quick=False)
    if sum(group.seeds.size for group in found.results) == len(cells):
        return found
    seeds: dict[str, list[int]] = {}
    for cell in cells:
        seeds.setdefault(canonical(cell.config), []).append(cell.seed)
    runs = [found.origin, *stored.origins]
    order, known = list(seeds), merged([by(found, 0), by(stored, 1)])
    groups = [
        group.at(np.flatnonzero(np.isin(group.seeds, seeds[canonical(group.config)])))
        for group in known
        if canonical(group.config) in seeds
    ]
    groups.sort(key=lambda group: order.index(canonical(group.config)))
    made = sorted({0, *(int(one) for group in groups for one in group.made_by)})
    results = Results(replace(group, origins=np.searchsorted(made, group.made_by)) for group in groups)
    return Submission(study.name, found.origin | {"others": [runs[i] for i in made[1:]]}, results)


def by(found: Submission, first: int) -> Submission:
    """The same results, whose cells count their origins from `first`."""
    groups = (replace(group, origins=first + group.made_by) for group in found.results)
    return found._replace(results=Results(groups))


@cache
def load(study: str) -> tuple[dict[str, Any], Results, list[Verdict]]:
    """The origin of a kept study, its results, and the verdicts on its paper's claims."""
    result = unpacked(file_of(study))
    return result.origin, result.results, load_studies()[study].verdicts(result.results)


def pages() -> dict[Path, str]:
    """The pages of the docs that show kept results, and what the report says of the papers' claims, as they should
    be."""
    found: dict[Path, str] = {}
    papers = dict[str, list[Evaluated]]()
    for study in sorted(path.stem for folder in (STORED, KEPT_OF_PAPERS) for path in folder.glob("*.json")):
        origin, results, evaluated = load(study)
        source = source_of(study, origin, results)
        for name, without in PAGES.get(study, {study: ()}).items():
            page = DOCS / f"{name}.md"
            if page.exists():
                some = (table for table in tables_of(load_studies()[study], results) if table.title not in without)
                tables, text = "\n".join(map(markdown, some)), page.read_text(encoding="utf-8")
                first = opening(results) if name == "leaderboard" else ""
                found[page] = (
                    f"{text.partition(BEGIN)[0]}{BEGIN}{first}{tables}\n## Where this comes from\n\n{source}\n{END}"
                    f"{text.partition(END)[2]}"
                )
        if evaluated:
            papers.setdefault(study.partition("-")[0], []).append(Evaluated(load_studies()[study], source, evaluated))
    every = [one for evaluated in papers.values() for one in evaluated]
    found[ROOT / "bench" / stored_verdicts.FILE] = stored_verdicts.summary((one[0], one[2]) for one in every)
    found[ROOT / "bench" / references.FILE] = references.summary(load("agents")[1])
    found[ROOT / "bench" / known.FILE] = known.summary(load("agents")[1])
    found |= drawn()
    found[DOCS_OF_PAPERS / "verdicts.md"] = overview(papers)
    found |= {DOCS_OF_PAPERS / f"verdicts-{paper}.md": details(evaluated) for paper, evaluated in papers.items()}
    return found


def opening(results: Results) -> str:
    """The figure of the standing benchmark, and what it found, a question and a sentence each."""
    links = {stored_verdicts.answer(): " {doc}`The claims <papers/verdicts>`.", OWN: " {doc}`More <agents>`."}
    told = [*load_studies()["agents"].answers(results), *links]
    lines = [f"- **{question}?**{itemised(answer)}{links.get(text, '')}"
             for text in told for question, _, answer in [text.partition("? ")]]  # fmt: skip
    first, *more = (
        "".join(f"```{{raw}} html\n:file: _static/{file}.svg\n```\n\n" for file in files) + f"{plot.caption}\n\n"
        for files, plot in zip(DRAWN, plots_of("agents"), strict=True)
    )
    return first + "\n".join(lines) + "\n\n" + "".join(more)


def itemised(answer: str) -> str:
    """An answer in Markdown: after its question, or as a list if it has several lines."""
    lines = escaped(answer).split("\n")
    return f" {lines[0]}" if len(lines) == 1 else "".join(f"\n  - {line}" for line in lines)


@cache
def plots_of(study: str) -> list[Plot]:
    """The figures of a kept study."""
    return load_studies()[study].plots(load(study)[1]) or []


def drawn() -> dict[Path, str]:
    """The figures of the benchmark `agents`, wide and narrow."""
    return {
        DOCS / "_static" / f"{name}.svg": re.sub("(<svg[^>]*>)", rf"\1{ALONE}", text, count=1)
        for names, plot in zip(DRAWN, plots_of("agents"), strict=True)
        for name, text in zip(names, figures.drawings(plot), strict=True)
    }


class Evaluated(NamedTuple):
    """A study of a paper, how its results came about, and the verdicts."""

    study: Study
    source: str
    verdicts: list[Verdict]


def overview(papers: dict[str, list[Evaluated]]) -> str:
    """How many claims of each paper agree, and a line for each claim."""
    titles = {paper: stored_verdicts.paper_of(evaluated[0].study) for paper, evaluated in papers.items()}
    rows, parts = [], []
    for paper, evaluated in papers.items():
        claims = [one for part in evaluated for one in part.verdicts if not one.own]
        counts = Counter(claim.verdict for claim in claims)
        rows.append([titles[paper], str(len(claims)), *(str(counts[verdict]) for verdict in VERDICTS)])
        lines = [[claim.quantity, stated(claim.paper), brief(claim), claim.verdict] for claim in claims]
        table = Table(titles[paper], ("claim", "paper", "ours", "verdict"), lines, words=frozenset({0, 3}))
        link = f"The paper's words, intervals and explanations: {{doc}}`verdicts-{paper}`."
        parts.append(f"## {titles[paper]}\n\n{rows_of(table)}\n\n{link}\n")
    totals = [str(sum(int(row[i]) for row in rows)) for i in range(1, len(rows[0]))]
    counted = Table("Claims", ("paper", "claims", *VERDICTS), [*rows, ["all", *totals]])
    hidden = "\n".join(f"verdicts-{paper}" for paper in papers)
    tree = f"```{{toctree}}\n:hidden:\n\n{hidden}\n```\n\n"
    return f"{VERDICT_PAGE}{tree}{MEANINGS}\n\n{rows_of(counted)}\n\n" + "\n".join(parts)


def details(evaluated: list[Evaluated]) -> str:
    """What stands behind the verdicts on a paper's claims."""
    study = evaluated[0].study
    parts = [f"# {stored_verdicts.paper_of(study)}: the claims\n\n{verdict_note(evaluated)}\n"]
    if environments := getattr(study, "environments", ""):
        parts.append(f"{environments}\n")
    for one in evaluated:
        parts.append(f"## {one.study.title}\n")
        for own in (False, True):
            some = [verdict for verdict in one.verdicts if verdict.own is own]
            parts += ["### Our own checks\n"] * bool(own and some) + [info_for(verdict) for verdict in some]
        parts.append(f"{one.source}\n")
    return "\n".join(parts)


def verdict_note(evaluated: list[Evaluated]) -> str:
    """What a verdict means."""
    (note, *_) = (table.note for one in evaluated for table in verdict_tables(one.verdicts))
    return note


def info_for(verdict: Verdict) -> str:
    """A claim with the paper's words, every number and why."""
    given = stated(verdict.paper)
    numbers = f"{'Expected' if verdict.own else 'The paper'}: {given}. " * bool(given) + f"Ours: {ours(verdict)}."
    lines = [f"**{escaped(verdict.quantity)}**: {verdict.verdict}."]
    lines += [f"> {escaped(verdict.quote)}"] * bool(verdict.quote)
    reason = why(replace(verdict, quote=""))
    lines.append(escaped(f"{numbers} {reason}".strip()))
    return "\n\n".join(lines) + "\n"


def brief(verdict: Verdict) -> str:
    """The computed numbers in a line: with its interval if there is one, else the values, or their range."""
    values = [x.value for x in verdict.numbers]
    if len(values) < 2:
        return ours(verdict)
    texts = [f"{x:.3g}" if abs(x) < 1000 else number(x) for x in values]
    return ", ".join(texts) if len(texts) <= 5 else f"{len(texts)} numbers from {min(values):.3g} to {max(values):.3g}"


def source_of(study: str, origin: dict[str, Any], results: Results) -> str:
    """How results came about: the command, what it took, and the versions; of several runs, all of them together."""
    runs = [origin, *origin.get("others", [])]
    seeds = ranges(sorted({int(seed) for group in results for seed in group.seeds}))
    used = {name: listed(run["libraries"].get(name) for run in runs) for run in runs for name in run["libraries"]}
    versions = ", ".join([f"Python {listed(run['python'] for run in runs)}", *map(" ".join, used.items())])
    if len(runs) == 1:
        return (
            f"`{origin['command']}` at commit {origin['commit'][:12]}: {origin['core_hours']:.2g} core hours, for "
            f"seeds {seeds}, with {versions}."
        )
    command = "taciturn reproduce" if load_studies()[study].figures else f"taciturn bench {study}"
    days = sorted(run["finished"][:10] for run in runs if run["finished"])
    when = f"on {days[0]}" if days[0] == days[-1] else f"from {days[0]} to {days[-1]}"
    hours = sum(float(group.wall_seconds.sum()) for group in results) / 3600
    return (
        f"{len(runs)} runs of `{command}` {when}: {hours:.2g} core hours, for seeds {seeds}, with {versions}. The "
        f"command, commit and versions of each run are in `{file_of(study).relative_to(ROOT)}`."
    )


def listed(versions: Iterable[str | None]) -> str:
    """Different versions, in order."""
    return " and ".join(sorted({version for version in versions if version is not None}))


def markdown(table: Table) -> str:
    """A table with its title and note."""
    return f"## {table.title}\n\n{rows_of(table)}\n\n{table.note}\n"


def rows_of(table: Table) -> str:
    """The rows of a table, without the sentences that explain them."""
    align = ["---" if i in table.words else "---:" for i in range(len(table.columns))]
    lines = [line[: len(align)] for line in (table.columns, align, *table.rows)]
    return "\n".join("| " + " | ".join(map(escaped, line)) + " |" for line in lines)


def escaped(text: object) -> str:
    """Plain text in Markdown."""
    return str(text).replace("|", "\\|").replace("*", "\\*")


def main(arguments: list[str]) -> None:
    try:
        for folder in arguments:
            print("kept:", ", ".join(keep(Path(folder))))
    except ValueError as error:
        sys.exit(str(error))
    # Scores on the other pages are on the scales of these references.
    (ROOT / "bench" / references.FILE).write_text(references.summary(load("agents")[1]), encoding="utf-8")
    references.forget()
    for page, text in pages().items():
        page.write_text(text, encoding="utf-8")
    (DOCS / "_static/trust.png").write_bytes(figures.render(plots_of("trust")[0].figure, "png"))
