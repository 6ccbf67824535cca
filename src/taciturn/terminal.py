"""Tables of text for a terminal."""

import itertools
import math
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Collection, Iterator, Sequence

Row = Sequence[str]
GAP = 2
FULL = 112
"""A docstring line of more characters may have been broken because it was full."""
INTERVAL = re.compile(r"\s\[([-+\d.,e]+), ([-+\d.,e]+)\]")
BELOW = r"\n[\1, \2]"
"""An interval on the line below its mean."""
ARGUMENT = re.compile(r" +\w+: ")
HANG = 4
"""Indentation of the further lines of an argument in a docstring."""
WORD = re.compile(r"\[\S+, \S+\]|\S+")


def counted(number: int, thing: str) -> str:
    """A number with its noun, such as "1 run" and "1,000 runs"."""
    return f"{number:,} {thing}{'s' * (number != 1)}"


def window() -> float:
    """The columns of the window, or of COLUMNS; infinite if output does not go to a terminal."""
    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return max(shutil.get_terminal_size().columns, 40) if known else math.inf


def aligned(
    rows: Sequence[Row | str],
    *,
    numbers: Collection[int] = (),
    indent: int = 0,
    width: float = math.inf,
    ruled: bool = False,
) -> str:
    """Rows of texts as aligned columns.

    If they do not fit the window, intervals, `[low, high]`, go below their means. If that is not enough, they become
    half widths (±) instead, and, if needed, texts are broken between words. If the words do not fit either, each row
    becomes a paragraph: its first text, and the others with the names of their columns. Only a word that is wider than
    the window is broken.

    Args:
        rows: the texts of each row; a text in place of a row becomes a whole line.
        numbers: the columns that are aligned to the right, and may have intervals.
        indent: spaces before each row.
        width: width of the window.
        ruled: whether the first row, the names of the columns, has a line below it.
    """
    texts = [row for row in rows if not isinstance(row, str)]
    columns = max(map(len, texts), default=0)
    room = width - indent - GAP * (columns - 1)
    for parts, shorter in ((str.splitlines, BELOW), (WORD.findall, _half_width)):
        if sum(_widths(texts, parts)) > room:
            texts = _with_intervals(texts, numbers, shorter)
    widths, least = _widths(texts, str.splitlines), _widths(texts, WORD.findall)
    if sum(least) > room:
        return "\n".join(_paragraphs_of_rows(rows, indent, int(width), ruled))
    while sum(widths) > room:
        spare = [(max(wide - word, 0), wide) for wide, word in zip(widths, least, strict=True)]
        widths[spare.index(max(spare))] -= 1
    lines, left = list[str](), iter(texts)
    for row in rows:
        lines += filled(row, width) if isinstance(row, str) else _lines(next(left), widths, numbers, " " * indent)
        if ruled:
            lines.append(" " * indent + "─" * (sum(widths) + GAP * (columns - 1)))
            ruled = False
    return "\n".join(lines)


def narrowest(rows: Sequence[Row], numbers: Collection[int]) -> int:
    """The width of the narrowest window in which `aligned` has whole intervals, below their means, and whole words."""
    least = _widths(_with_intervals(rows, numbers, BELOW), WORD.findall)
    return sum(least) + GAP * (len(least) - 1)


def _with_intervals(
    rows: Sequence[Row], numbers: Collection[int], form: str | Callable[[re.Match[str]], str]
) -> list[Row]:
    """Rows with the intervals of their numbers in another form."""
    return [[INTERVAL.sub(form, text) if index in numbers else text for index, text in enumerate(row)] for row in rows]


def _paragraphs_of_rows(rows: Sequence[Row | str], indent: int, width: int, ruled: bool) -> Iterator[str]:
    """A paragraph for each row. With a row of names (`ruled`) each text follows its name, and an empty line separates
    rows. Without names each text has a line, and those after the first are indented."""
    names: Row | None = None
    lead, hang = " " * indent, " " * (indent + GAP)
    for row in rows:
        if isinstance(row, str):
            yield from filled(row, width)
        elif ruled and names is None:
            names = row
        elif names is None:
            for place, text in enumerate(row):
                yield from _wrapped(text, width, hang if place else lead, hang)
        else:
            named = (f"{name}: {text}" if name else text for name, text in zip(names, row, strict=True) if text)
            yield from _wrapped(" · ".join(named), width, lead, hang)
            yield ""


def _wrapped(text: str, width: int, lead: str, hang: str) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=lead, subsequent_indent=hang, break_on_hyphens=False)


def filled(text: str, width: float) -> list[str]:
    """The lines of a text that fit the window. Paragraphs that do not fit are filled again, including those of lists
    and indented sections."""
    results = list[str]()
    for block in re.split(r"\n(?=\n)", text):
        lines = block.removeprefix("\n").split("\n")
        results += [""] * block.startswith("\n")
        if all(len(line) <= width for line in lines):
            results += lines
            continue
        listed = any(line[:1] in (" ", "-") for line in lines)
        for first, *rest in _paragraphs(lines) if listed else [lines]:
            # Further lines have the indentation of the second one, or are below the text of an item or an argument.
            margins = (first, " "), (rest[0], " ") if rest else (first, " -")
            lead, hang = (" " * (len(line) - len(line.lstrip(marks))) for line, marks in margins)
            hang += " " * HANG * (not rest and bool(ARGUMENT.match(first)))
            whole = " ".join(line.strip() for line in (first, *rest))
            results += textwrap.wrap(whole, int(width), initial_indent=lead, subsequent_indent=hang) or [""]
    return results


def _paragraphs(lines: list[str]) -> list[list[str]]:
    """Groups of lines that belong together, because the source file was broken where a line was full."""
    results = [lines[:1]]
    for before, line in itertools.pairwise(lines):
        if len(before) + 1 + len(line.split(maxsplit=1)[0]) > FULL and not line.lstrip().startswith("- "):
            results[-1].append(line)
        else:
            results.append([line])
    return results


def _widths(rows: Sequence[Row], parts: Callable[[str], list[str]]) -> list[int]:
    """The longest part of the texts of each column."""
    return [
        max((len(part) for text in column for part in parts(text)), default=0) for column in zip(*rows, strict=True)
    ]


def _half_width(found: re.Match[str]) -> str:
    low, high = (float(text.replace(",", "")) for text in found.groups())
    return f"\n±{(high - low) / 2:.2g}" if high > low else ""


def _lines(row: Row, widths: Sequence[int], numbers: Collection[int], indent: str) -> Iterator[str]:
    """A row as lines: as many as its longest text needs."""
    broken = [
        [
            part
            for line in text.splitlines()
            for part in textwrap.wrap(line, max(wide, 1), break_on_hyphens=False) or [line]
        ]
        for text, wide in zip(row, widths, strict=True)
    ]
    for parts in itertools.zip_longest(*broken, fillvalue=""):
        aligned = (
            text.rjust(wide) if index in numbers else text.ljust(wide)
            for index, (text, wide) in enumerate(zip(parts, widths, strict=True))
        )
        yield (indent + (" " * GAP).join(aligned)).rstrip()
