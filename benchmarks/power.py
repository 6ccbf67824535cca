"""Can the benchmark's questions be answered? Every yes/no question, with what its design can show.

`python benchmarks/power.py`

For each question that a table, README or the report asks: the runs that judge it, the questions whose answers hold
together with it, the smallest p-value that it can reach, and the smallest effect that it shows in 80% of the cases. An
effect is a share of trainings that are better, or a difference in score. The status is 1 where neither a yes nor a no
is possible. Verdicts on papers' claims have checks of their own (`python tools claims`).
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from taciturn.bench.comparisons.kinds import KindsOfAgents
from taciturn.bench.questions import Question, questions
from taciturn.bench.submission import unpacked

STORED = Path(__file__).parents[1] / "tools/results/studies/agents.json"


def report(asked: Iterable[Question]) -> tuple[str, int]:
    """The lines of all questions, and how many have no possible answer."""
    lines = [f"{'runs':>4} {'family':>6} {'smallest p':>10} {'smallest effect':>20}  question (asked in)"]
    unanswerable = 0
    for one in asked:
        unit = "score" if one.half_width is not None else "share better"
        effect = f"{one.smallest_effect:.3f} {unit}" if one.smallest_effect < float("inf") else "none"
        p = "no bound" if one.smallest_p == 0 else f"{one.smallest_p:.2g}"
        wrong = "" if one.can_answer else "  NO ANSWER IS POSSIBLE"
        unanswerable += not one.can_answer
        lines.append(f"{one.runs:4} {one.family:6} {p:>10} {effect:>20}  {one.text} ({one.asked_in}){wrong}")
    return "\n".join(lines), unanswerable


def main() -> int:
    """The exit status."""
    text, unanswerable = report(questions(KindsOfAgents().cells(quick=False), unpacked(STORED).results))
    print(text)
    print(f"{unanswerable} questions have no possible answer." if unanswerable else "Every question can be answered.")
    return int(unanswerable > 0)


if __name__ == "__main__":
    sys.exit(main())
