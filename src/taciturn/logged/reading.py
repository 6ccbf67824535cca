"""Reading tables of text in chunks; errors name the file and line."""

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from taciturn.validation import Array, Floats, shown

Progress = Callable[[float, str], None]
"""Called with the share done, and the task."""

CHUNK = 50_000  # rows
DELIMITERS = ("::", "\t", ";", ",")


def nothing(share: float, what: str) -> None:
    """Show no progress."""


@dataclass(frozen=True)
class Chunk:
    """Some rows: their lines in the file, and the cells of each column as text."""

    path: str
    lines: Sequence[int]
    cells: dict[str, tuple[str, ...]]

    def numbers(
        self,
        column: str,
        wanted: str = "a finite number",
        allowed: Callable[[Floats], Array] = np.isfinite,
    ) -> Floats:
        """A column as float64[rows]; ValueError, with the line, unless all of it is `allowed`."""
        cells = self.cells[column]
        try:
            found = np.array(cells, np.float64)
        except ValueError:
            found = np.array([_number(cell) for cell in cells])
        good = np.isfinite(found) & allowed(found)
        if not good.all():
            self.refuse(int(np.flatnonzero(~good)[0]), column, wanted)
        return found

    def times(self, column: str) -> Floats:
        """A column of numbers, or of dates and times by ISO 8601 (UTC if they do not say), in seconds."""
        cells = self.cells[column]
        try:
            found = np.array(cells, np.float64)
        except ValueError:
            found = np.array([_time(cell) for cell in cells])
        if not np.isfinite(found).all():
            self.refuse(int(np.flatnonzero(~np.isfinite(found))[0]), column, "a number or a date and time (ISO 8601)")
        return found

    def refuse(self, row: int, column: str, wanted: str) -> None:
        """Raise the error about a cell."""
        raise ValueError(
            f"{self.path}, line {self.lines[row]}: {column} must be {wanted}, not {shown(self.cells[column][row])}"
        )


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan


def _time(cell: str) -> float:
    try:
        found = datetime.fromisoformat(cell.strip())
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except ValueError:
        return _number(cell)


class Table:
    """A table of text with commas, semicolons, tabs or '::' between cells, in UTF-8.

    Args:
        path: the file.
        plain: the names of the first columns if the file has no header; empty if it must have one.
        names: `{name in lower case: name}`, to recognise a header and to name its columns; other columns keep their
            names.

    Raises:
        ValueError: the file is empty, or not text; a column has no name or two have the same.
        OSError: it cannot be read.
    """

    def __init__(self, path: str | Path, plain: Sequence[str], names: dict[str, str]) -> None:
        self.path = str(path)
        self.size = max(Path(path).stat().st_size, 1)
        first = next(self._rows(), (0, []))[1]
        if not first:
            raise ValueError(f"{self.path} is empty: it must have a row for each event")
        known = [names.get(cell.strip().lower()) for cell in first]
        self.has_header = any(known) or not plain
        if self.has_header:
            self.columns = [name or cell.strip() for name, cell in zip(known, first, strict=True)]
        else:
            self.columns = [*plain, *(f"column {i + 1}" for i in range(len(plain), len(first)))][: len(first)]
        twice = sorted({name for name in self.columns if self.columns.count(name) > 1})
        if twice:
            raise ValueError(f"{self.path}, line 1: columns must have different names, and {twice[0]!r} is there twice")

    def require(self, columns: Iterable[str], known_as: str) -> None:
        """ValueError if a column is missing; `known_as` says how columns may be called."""
        for column in columns:
            if column not in self.columns:
                raise ValueError(
                    f"{self.path}, line 1: there must be a column {column!r} ({known_as}), and there are "
                    f"{shown(self.columns)}"
                )

    def _rows(self, progress: Progress = nothing) -> Iterator[tuple[int, list[str]]]:
        with Path(self.path).open("rb") as raw:
            first = raw.readline().decode("utf-8-sig", "replace")
            delimiter = next((one for one in DELIMITERS if one in first), ",")
            raw.seek(0)
            # Decode line by line, so that errors can name the line.
            lines = (self._text(number, line) for number, line in enumerate(raw, 1))
            if delimiter == "::":
                lines, delimiter = (line.replace("::", "\t") for line in lines), "\t"
            reader = csv.reader(lines, delimiter=delimiter, strict=True)
            try:
                for row in reader:
                    if row:
                        yield reader.line_num, row
                    if reader.line_num % CHUNK == 0:
                        progress(raw.tell() / self.size, f"reading {Path(self.path).name}")
            except csv.Error as error:
                raise ValueError(f"{self.path}, line {reader.line_num}: {error}") from error

    def _text(self, number: int, line: bytes) -> str:
        try:
            return line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{self.path}, line {number}: text must be UTF-8, and {error.reason}") from error

    def chunks(self, columns: Sequence[str], progress: Progress = nothing) -> Iterator[Chunk]:
        """The rows below the header, some at a time, with these columns.

        Raises:
            ValueError: a row has another number of cells than the first, or there is none.
        """
        rows = self._rows(progress)
        if self.has_header:
            next(rows)
        where, wide, empty = [self.columns.index(name) for name in columns], len(self.columns), True
        lines: list[int] = []
        kept: list[list[str]] = []
        for line, row in rows:
            if len(row) != wide:
                raise ValueError(
                    f"{self.path}, line {line}: there must be {wide} cells as in the first line, and there are "
                    f"{len(row)}"
                )
            lines.append(line)
            kept.append(row)
            if len(kept) == CHUNK:
                yield self._chunk(lines, kept, columns, where)
                lines, kept, empty = [], [], False
        if kept:
            yield self._chunk(lines, kept, columns, where)
        elif empty:
            raise ValueError(f"{self.path} is empty: below its header there must be a row for each event")

    def _chunk(self, lines: list[int], rows: list[list[str]], columns: Sequence[str], where: list[int]) -> Chunk:
        every = list(zip(*rows, strict=True))
        return Chunk(self.path, lines, {name: every[i] for name, i in zip(columns, where, strict=True)})


def with_signs(columns: Floats) -> Floats:
    """Principal components [n, d], whose signs have no meaning, with the first of each component's largest entries
    positive. Entries within a millionth count as equal: which one is larger in the last digits depends on the
    processor."""
    size = np.abs(columns)
    first = (size >= (1 - 1e-6) * size.max(0)).argmax(0)
    return np.asarray(columns * np.sign(columns[first, np.arange(columns.shape[1])]))
