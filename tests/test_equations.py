"""Equations are tagged `[Author number]` in the docstring of the one function that computes them, so that a search
finds them."""

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("envs", "policies", "bench", "src/taciturn", "papers/src")
TAG = re.compile(r"\[(Chen|Tao|Li|Jiang|Zhou) ([\w.]+)\]")

# The numbered equations of each paper's model and algorithms. Those that only serve a proof have no function.
EQUATIONS: dict[str, tuple[str, ...]] = {
    # 2 defines local differential privacy; 9 follows from 8.
    "Chen": ("1", "3", "4", "5", "6", "7", "8"),
    # 3 defines local differential privacy; 13 and 34 belong to the algorithm and to its limit, although they stand in
    # the proofs.
    "Tao": ("1", "2", "6", "7", "8", "9", "13", "34"),
    "Li": ("1", "2", "4", "5", "6"),  # 3 defines differential privacy; 7 to 11 are bounds of theorems
    "Zhou": ("2",),  # 1, 3 and 4 are bounds of theorems
    # Not listed: 2.1, which repeats 2.22; the statements of optimisation problems, 2.3 to 2.5 and 2.7 to 2.12; and 3.5
    # to 3.7, which are 3.3 and 3.4 in three states.
    "Jiang": (
        *("2.2", "2.6", "2.13", "2.14", "2.15", "2.16", "2.17", "2.18", "2.19", "2.20", "2.21", "2.22"),
        *("3.1", "3.2", "3.3", "3.4"),
    ),
}


def tags() -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            if not any(parent.is_symlink() for parent in file.parents):
                found.update(TAG.findall(file.read_text(encoding="utf-8")))
    return found


def test_every_tag_is_unique() -> None:
    assert not {tag: count for tag, count in tags().items() if count > 1}


@pytest.mark.parametrize("paper", EQUATIONS)
def test_every_equation_of_the_algorithms_has_its_function(paper: str) -> None:
    assert sorted(number for author, number in tags() if author == paper) == sorted(EQUATIONS[paper])
