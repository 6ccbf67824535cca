"""Tables with a row for each event: their columns by name, and cells as numbers, times and ids; errors name the file
and line."""

import bz2
import csv
import gzip
import io
import itertools
import lzma
import math
import os
import re
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from taciturn.validation import Array, Bools, Floats, missing_extra, shown

Progress = Callable[[float, str], None]
"""Called with the share done and the name of the task."""

CHUNK = 50_000  # rows
MOST_CHARACTERS = 10**6  # of a line
LARGEST = 1e18  # number: its square is finite in double precision, and the number itself in single precision
DELIMITERS = ("::", "\t", ";", "|", ",")
COMPRESSED: dict[bytes, Callable[[Any], Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
DAMAGED = (ValueError, OSError, EOFError, RuntimeError, csv.Error, lzma.LZMAError, zipfile.BadZipFile, zlib.error)
FLAGS = {"false": 0.0, "true": 1.0}
MISSING = ("", "na", "n/a", "<na>", "nan", "null", "none")
Reader = type(csv.reader([]))
DECIMAL = re.compile(r"(-?)\+?0*(\d+?)(?:\.(\d*?)0*)?", re.ASCII)


def nothing(share: float, what: str) -> None:
    """Show no progress."""


@dataclass(frozen=True)
class Chunk:
    """Some rows: their lines in the file (`unit` is "row" for files without lines), each column's cells as text, and
    the cells of the first row of the file."""

    path: str
    unit: str
    lines: Sequence[int]
    cells: dict[str, tuple[str, ...]]
    first: dict[str, str]

    def numbers(
        self,
        column: str,
        wanted: str = f"a number from {-LARGEST:g} to {LARGEST:g}",
        allowed: Callable[[Floats], Array] = lambda x: np.abs(x) <= LARGEST,
    ) -> Floats:
        """A column as float64[rows]; ValueError, with the line, unless all of it is `allowed`."""
        found = _numbers(self.cells[column], as_number)
        self._check(np.isfinite(found) & allowed(found), column, wanted)
        return found

    def flags(self, column: str) -> Bools:
        """A column of 0 and 1, or of False and True, as bool[rows]; ValueError, with the line, for anything else."""
        found = _numbers(self.cells[column], lambda cell: FLAGS.get(cell.strip().lower(), as_number(cell)))
        self._check((found == 0) | (found == 1), column, "0 or 1")
        return found == 1

    def times(self, column: str) -> Floats:
        """A column of numbers, or of dates and times by ISO 8601 (UTC by default), in seconds. All cells must be like
        the first row's, because numbers among dates could have any unit."""
        if math.isnan(as_number(self.first[column])):
            found, wanted = np.array([_time(cell) for cell in self.cells[column]]), "a date and time (ISO 8601)"
            wanted = f"{wanted} as in the first row" if found[0] == found[0] else f"a number or {wanted}"
        else:
            found, wanted = _numbers(self.cells[column], as_number), "a number as in the first row"
        self._check(np.isfinite(found), column, wanted)
        return found

    def ids(self, column: str) -> list[str]:
        """A column of names, `as_id`; ValueError, with the line, if one is missing."""
        found = list(map(as_id, self.cells[column]))
        if "" in found:
            self.refuse(found.index(""), column, "given")
        return found

    def _check(self, good: Array, column: str, wanted: str) -> None:
        if not good.all():
            self.refuse(int(np.argmin(good)), column, wanted)

    def refuse(self, row: int, column: str, wanted: str) -> None:
        """Raise the error about a cell."""
        raise ValueError(
            f"{self.path}, {self.unit} {self.lines[row]}: {column} must be {wanted}, not "
            f"{shown(self.cells[column][row])}"
        )


@lru_cache(10**6)
def as_id(cell: str) -> str:
    """A name without surrounding spaces; "" for a missing one. Equal decimal numbers, such as 7, 7.0 and 07, become one
    name, as do both ways to write an accent in Unicode."""
    cell = unicodedata.normalize("NFC", cell.strip())
    if number := DECIMAL.fullmatch(cell):
        sign, whole, part = number.groups()
        return sign * (whole != "0" or bool(part)) + whole + f".{part}" * bool(part)
    return "" if cell.lower() in MISSING else cell


def as_number(cell: str) -> float:
    """NaN for text that is not a number; Python would read 4_9 as 49."""
    try:
        return float(cell) if cell.isascii() and "_" not in cell else math.nan
    except ValueError:
        return math.nan


def _time(cell: str) -> float:
    try:
        found = datetime.fromisoformat(cell.strip())
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except ValueError:
        return math.nan


def _numbers(cells: Sequence[str], function: Callable[[str], float]) -> Floats:
    """A function of each cell, float64[rows]; NumPy reads plain numbers faster."""
    text = "".join(cells)
    if text.isascii() and "_" not in text:
        try:
            return np.array(cells, np.float64)
        except ValueError:
            pass
    return np.array([function(cell) for cell in cells])


def _plain(header: str) -> str:
    """A header without case, spaces and marks: `User ID`, `user_id` and `userId` become one."""
    return re.sub(r"[\W_]", "", header.lower())


class Table:
    """A table, read once: Parquet, or text with commas, semicolons, tabs, `|` or `::` between cells, in UTF-8 or
    UTF-16, plain or compressed (gzip, bzip2, xz, or zip with one file).

    Args:
        path: the file, which may be a pipe.
        names: `{column: alternative headers}` for the columns that have a meaning. The attribute `columns` has these
            columns' names as given here, and the headers of all others.
        plain: the first columns if the file has no header; empty if it must have one.
        chosen: `{column: header}`, for headers that differ in the file; other candidates for the column are ignored.
        progress: called with the share done.

    Raises:
        ValueError: the file is empty, cannot be unpacked, or is not text; two headers are equal, or fit the same
            column.
        OSError: it cannot be read.
    """

    def __init__(
        self,
        path: str | Path,
        names: Mapping[str, Sequence[str]],
        *,
        plain: Sequence[str] = (),
        chosen: Mapping[str, str] | None = None,
        progress: Progress = nothing,
    ) -> None:
        self.path, self._names, self._unit = str(path), names, "line"
        self._rows = self._read(progress)
        first = next(self._rows, None)
        if first is None:
            raise ValueError(f"{self.path} is empty: it must have a row for each event")
        header = [cell.strip() for cell in first[1]]
        known = {_plain(one): name for name, others in names.items() for one in (name, *others)}
        self.columns = [known.get(_plain(cell), cell) for cell in header]
        for name, own in (chosen or {}).items():
            if name not in names or header.count(own) != 1:
                wanted = shown(header) if name in names else ", ".join(names)
                raise ValueError(f"{self.path}, line 1: column {name}={own} must name one of {wanted}")
            others = ["" if column == name else column for column in self.columns]
            self.columns = [name if cell == own else other for cell, other in zip(header, others, strict=True)]
        if plain and not set(names) & set(self.columns) and any(not math.isnan(as_number(cell)) for cell in header):
            self.columns = [*plain, *(f"column {i + 1}" for i in range(len(plain), len(header)))][: len(header)]
            self._rows = itertools.chain([first], self._rows)
        for name in filter(None, self.columns):
            same = [cell for cell, column in zip(header, self.columns, strict=True) if column == name]
            if len(same) > 1:
                several, choose = " and ".join(map(repr, same)), f": choose one, such as --column {name}={same[0]}"
                told = f"one column must be the {name}, and {several} may be it{choose * (name in names)}"
                raise ValueError(f"{self.path}, line 1: {told}")

    def require(self, columns: Iterable[str], wanted: str = "") -> None:
        """ValueError if a column is missing; `wanted` states the purpose."""
        for column in columns:
            if column not in self.columns:
                others = [*self._names.get(column, ()), f"name yours: --column {column}=HEADER"]
                known = f" (or {'; or '.join(others)})" * (column in self._names)
                raise ValueError(
                    f"{self.path}, line 1: there must be a column {column!r}{known}{wanted}, and there are "
                    f"{shown(self.columns)}"
                )

    def chunks(self, columns: Sequence[str]) -> Iterator[Chunk]:
        """The rows below the header, in chunks, with these columns.

        Raises:
            ValueError: a row has a different number of cells than the first, or there are no rows.
        """
        where, wide, empty = [self.columns.index(name) for name in columns], len(self.columns), True
        first: dict[str, str] = {}
        while rows := list(itertools.islice(self._rows, CHUNK)):
            lines, cells, empty = [line for line, _ in rows], [row for _, row in rows], False
            if set(map(len, cells)) != {wide}:
                line, found = next((line, len(row)) for line, row in rows if len(row) != wide)
                raise ValueError(
                    f"{self.path}, line {line}: there must be {wide} cells as in the first line, and there are {found}"
                )
            texts = {name: tuple([row[i] for row in cells]) for name, i in zip(columns, where, strict=True)}
            first = first or {name: column[0] for name, column in texts.items()}
            yield Chunk(self.path, self._unit, lines, texts, first)
        if empty:
            raise ValueError(f"{self.path} is empty: below its header there must be a row for each event")

    def _read(self, progress: Progress) -> Iterator[tuple[int, Sequence[str]]]:
        """Each row that is not blank, with its line."""
        line = 0
        with Path(self.path).open("rb") as raw:
            size = os.fstat(raw.fileno()).st_size  # of a pipe, 0
            try:
                packed = raw.peek(4)[:4] == b"PAR1"
                rows, line = (self._parquet(raw), -1) if packed else (_rows_of_text(unpacked(raw)), 0)
                for row in rows:
                    line = rows.line_num if isinstance(rows, Reader) else line + 1
                    if row:
                        yield line, row
                    if line % CHUNK == 0 and size:
                        progress(raw.tell() / size, f"reading {Path(self.path).name}")
            except DAMAGED as error:
                if getattr(error, "errno", None) is not None:
                    raise  # the system's own
                told = (
                    "text must be UTF-8 or UTF-16"
                    if isinstance(error, UnicodeError)
                    else " ".join(str(error).split())[:200]
                )
                raise ValueError(f"{self.path}, {self._unit} {line + 1}: {told}") from error

    def _parquet(self, raw: Any) -> Iterator[Sequence[str]]:
        try:
            import pyarrow as pa
            from pyarrow import parquet
        except ImportError as error:
            raise missing_extra(f"{self.path} is a Parquet file, which needs pyarrow", "bench") from error
        self._unit = "row"
        file = parquet.ParquetFile(seekable(raw))
        yield file.schema_arrow.names
        for batch in file.iter_batches(CHUNK):
            columns = (one.cast(pa.int8()) if one.type == pa.bool_() else one for one in batch.columns)
            yield from zip(*(one.cast(pa.string()).fill_null("").to_pylist() for one in columns), strict=True)


def _rows_of_text(stream: Any) -> Any:
    """A `csv.reader` of a text."""
    lines = _lines(stream)
    first = next(lines, "")
    if first.lstrip()[:1] in ("{", "[", "<"):
        raise csv.Error(f"there must be a table in text or Parquet, not {shown(first.strip(), 40)}")
    outside = re.sub('"[^"]*"?', "", first)
    delimiter = max(DELIMITERS, key=outside.count)
    lines = itertools.chain([first] * bool(first), lines)
    if delimiter == "::":
        lines, delimiter = (line.replace("::", "\t") for line in lines), "\t"
    return csv.reader(lines, delimiter=delimiter, strict=True)


def _lines(stream: Any) -> Iterator[str]:
    """The lines of a text; raises UnicodeError at one that cannot be decoded."""
    wide = stream.peek(2)[:2] in (b"\xff\xfe", b"\xfe\xff")
    coding = ("utf-16", "surrogatepass") if wide else ("utf-8-sig", "surrogateescape")
    with io.TextIOWrapper(stream, *coding, newline="") as text:
        while line := text.readline(MOST_CHARACTERS):
            if len(line) == MOST_CHARACTERS:
                raise csv.Error(f"a line must have less than {MOST_CHARACTERS:,} characters")
            line.encode()  # fails at surrogates, which stand for bytes that could not be decoded
            yield line


def seekable(raw: Any) -> Any:
    """A file in which one can go back; a pipe is first read into memory."""
    return raw if raw.seekable() else io.BytesIO(raw.read())


def unpacked(raw: Any) -> Any:
    """The content of a file that may be compressed, as a stream with `peek`."""
    start = raw.peek(8)[:8]
    if start[:4] == b"PK\x03\x04":
        archive = zipfile.ZipFile(seekable(raw))
        inside = [name for name in archive.namelist() if name[-1] != "/" and not name.startswith("__MACOSX/")]
        if "[Content_Types].xml" in inside:
            raise zipfile.BadZipFile("there must be a table in text or Parquet, and this is a workbook: save it as CSV")
        if len(inside) != 1:
            raise zipfile.BadZipFile(f"an archive must have one file, and there are {shown(inside)}: unpack it")
        return archive.open(inside[0])
    return next((opened(raw) for magic, opened in COMPRESSED.items() if start.startswith(magic)), raw)


def with_signs(columns: Floats) -> Floats:
    """Principal components [n, d] with signs fixed: the first of each component's largest entries is positive. Entries
    within a millionth count as equal, because the processor decides which one is larger in the last digits."""
    size = np.abs(columns)
    first = (size >= (1 - 1e-6) * size.max(0)).argmax(0)
    return np.asarray(columns * np.sign(columns[first, np.arange(columns.shape[1])]))
