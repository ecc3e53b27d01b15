"""Export of a transcript to Parquet files, one for each table."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from scenarios.files.parquet import load_pyarrow
from scenarios.report.record_tables import TABLES, RecordTable, Row

BATCH_ROWS = 2**14
"""Maximum number of buffered rows of a table."""

BATCH_BYTES = 2**22
"""Maximum size of buffered long cells of a table, in bytes."""

_TYPES = {
    "integer": "int64",
    "number": "float64",
    "flag": "bool",
    "text": "string",
    "bytes": "binary",
}


def export(folder: Path, rows: Iterable[tuple[str, Row]]) -> dict[str, int]:
    """Write the rows of all tables into a folder, each table as ``NAME.parquet``.

    Args:
        folder: an empty one.
        rows: each with the name of its table.

    Returns:
        How many rows every table has.

    Raises:
        UsageError: pyarrow is not installed.
        OSError: a file cannot be written.
    """
    with ExitStack() as opened:
        files = {table.name: _File(opened, folder, table) for table in TABLES}
        for name, row in rows:
            files[name].add(row)
        for file in files.values():
            file.flush()
        return {name: file.rows for name, file in files.items()}


class _File:
    """The growing file of a table.

    Attributes:
        rows: number of rows added.
    """

    def __init__(self, opened: ExitStack, folder: Path, table: RecordTable) -> None:
        pyarrow = load_pyarrow("export")
        self.rows = 0
        self._pyarrow = pyarrow
        self._held: list[Row] = []
        self._bytes = 0
        self._long = [
            place for place, column in enumerate(table.columns) if column.kind in ("text", "bytes")
        ]
        fields = [
            pyarrow.field(
                column.name,
                pyarrow.type_for_alias(_TYPES[column.kind]),
                metadata={"description": column.says},
            )
            for column in table.columns
        ]
        self._schema = pyarrow.schema(fields, metadata={"description": table.says})
        file = opened.enter_context((folder / f"{table.name}.parquet").open("xb"))
        writer = pyarrow.parquet.ParquetWriter(file, self._schema, compression="zstd")
        self._writer = opened.enter_context(writer)

    def add(self, row: Row) -> None:
        self.rows += 1
        self._held.append(row)
        for place in self._long:
            cell = row[place]
            self._bytes += len(cell) if isinstance(cell, str | bytes) else 0
        if len(self._held) >= BATCH_ROWS or self._bytes >= BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        if not self._held:
            return
        arrays = [
            self._pyarrow.array(cells, field.type)
            for cells, field in zip(zip(*self._held, strict=True), self._schema, strict=True)
        ]
        self._writer.write_batch(self._pyarrow.record_batch(arrays, schema=self._schema))
        self._held.clear()
        self._bytes = 0
