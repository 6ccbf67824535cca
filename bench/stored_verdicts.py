"""The verdicts on the papers' claims in the stored full runs: counts for each paper, and the claims that do not
reproduce."""

import json
import re
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

from taciturn.bench.study import DIFFERS, VERDICTS, Study, Table, Verdict
from taciturn.bench.tables import MEANINGS, listed, ours, stated

FILE = "stored_verdicts.json"


def summary(evaluated: Iterable[tuple[Study, list[Verdict]]]) -> str:
    """The text of `FILE`, from the verdicts of full runs."""
    papers: dict[str, dict[str, list[list[str]]]] = {}
    for study, verdicts in evaluated:
        paper = papers.setdefault(paper_of(study), {verdict: [] for verdict in VERDICTS})
        for one in verdicts:
            if not one.own:
                paper[one.verdict].append([one.quantity, stated(one.paper), ours(one)])
    shown = {
        title: {"claims": {verdict: len(result[verdict]) for verdict in VERDICTS}, DIFFERS: result[DIFFERS]}
        for title, result in papers.items()
    }
    return json.dumps(shown, ensure_ascii=False, indent=1) + "\n"


def paper_of(study: Study) -> str:
    """Authors and year of a study's paper."""
    return re.split("[,:]", study.title)[0]


def stored() -> dict[str, Any]:
    """The content of `summary`'s file, by paper."""
    result: dict[str, Any] = json.loads((files("taciturn.bench") / FILE).read_text(encoding="utf-8"))
    return result


def answer() -> str:
    """A sentence: how many claims of each paper failed."""
    counts = [
        f"{result['claims'][DIFFERS]} of {sum(result['claims'].values())} {'claims ' * (place == 0)}of {paper}"
        for place, (paper, result) in enumerate(stored().items())
    ]
    return f"Which claims of the papers failed? {listed(counts)} do not reproduce, even with the full number of runs."


def tables() -> list[Table]:
    """One line per paper, and one line per claim that does not reproduce."""
    papers = stored()
    counts = [
        (paper, str(sum(result["claims"].values())), *(str(result["claims"][verdict]) for verdict in VERDICTS))
        for paper, result in papers.items()
    ]
    note = f"From the full runs of taciturn reproduce that this version keeps, not from this run. {MEANINGS}"
    rows = [(paper, *claim) for paper, result in papers.items() for claim in result[DIFFERS]]
    return [
        Table("Replication of the papers' claims", ("paper", "claims", *VERDICTS), counts, note),
        Table("Claims that differ", ("paper", "claim", "paper's", "ours"), rows, words=frozenset({0, 1, 2, 3})),
    ]
