"""The table of a cell as a Parquet file, and limits on its size: a few bytes of such a file can expand to gigabytes."""

import io
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taciturn import files
from taciturn.bench.results import MOST_ROWS

if TYPE_CHECKING:
    import pyarrow as pa

MOST_FILE, MOST_TABLE = 2 * 10**7, 5 * 10**8
"""Most bytes of a cell's file, and of its table in memory."""
TEXTS = ("study", "key", "config", "kind", "name")


def arrow() -> tuple[Any, Any]:
    """`pyarrow` and `pyarrow.parquet`, imported only where tables are read or written: listing studies needs
    neither."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "benchmark results need pyarrow: run pip install '.[bench]' in a clone of taciturn"
        ) from error
    return pa, pq


@cache
def schema() -> "pa.Schema":
    """The columns of a table of cells."""
    pa, _ = arrow()
    return pa.schema(
        [
            ("study", pa.string()),
            ("key", pa.string()),
            ("seed", pa.int64()),
            ("config", pa.string()),
            ("kind", pa.string()),
            ("name", pa.string()),
            ("x", pa.float64()),
            ("value", pa.float64()),
            ("wall_seconds", pa.float64()),
        ]
    )


def parquet(table: "pa.Table") -> bytes:
    """A table as a Parquet file."""
    buffer = io.BytesIO()
    arrow()[1].write_table(table, buffer, compression="zstd", write_page_checksum=True)
    return buffer.getvalue()


def read_cell(file: Path) -> "pa.Table":
    """The table in the file of a cell. The sizes declared in the file are checked before anything is unpacked, and the
    total length of the texts before each distinct text is copied to its rows.

    Raises:
        ValueError: it is not a regular file, it is too large, or it has other columns. A damaged file raises
            `pyarrow.ArrowException`, in most cases a subclass of ValueError or OSError.
        OSError: it cannot be read.
    """
    pa, pq = arrow()
    given = io.BytesIO(files.content(file, MOST_FILE))
    try:
        opened = pq.ParquetFile(given, read_dictionary=TEXTS, page_checksum_verification=True)
    except KeyError as error:  # a text is missing
        raise ValueError("a cell has other columns") from error
    with opened as stream:
        result = stream.metadata
        unpacked = sum(result.row_group(i).total_byte_size for i in range(result.num_row_groups))
        if result.num_rows > MOST_ROWS or unpacked > MOST_TABLE:
            raise ValueError(f"a cell must have at most {MOST_ROWS:,} rows and {MOST_TABLE:,} bytes")
        if not stream.schema_arrow.equals(pa.schema([(one.name, packed(one)) for one in schema()])):
            raise ValueError("a cell has other columns")
        table = stream.read(use_threads=False)
    if sum(length(chunk) for name in TEXTS for chunk in table[name].chunks) > MOST_TABLE:
        raise ValueError(f"a cell must have at most {MOST_TABLE:,} bytes of text")
    return table.cast(schema())


def packed(field: Any) -> Any:
    """The type used to read a column: each distinct text is stored once."""
    pa, _ = arrow()
    return pa.dictionary(pa.int32(), field.type) if field.name in TEXTS else field.type


def length(chunk: Any) -> int:
    """Size in bytes of a column of texts, each text counted in every row that has it."""
    import pyarrow.compute as pc

    return int(pc.sum(pc.binary_length(chunk.dictionary).take(chunk.indices)).as_py() or 0)
