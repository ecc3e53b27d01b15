"""Opens a user's table from any source."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from parties.keeping.writing import reason
from protocol.errors import SurveyError, UsageError
from protocol.surveys.dataframes import Cell, Frame, column_cells
from scenarios.data.own_tables.sheets import BLOCK, Format, Sheet, Source, named_sheet
from scenarios.data.own_tables.statistics_files import is_statistics_file, statistics_sheet
from scenarios.data.own_tables.text_files import text_sheet
from scenarios.files.budget import within_usual_budget
from scenarios.files.parquet import load_pyarrow

_PARQUET = b"PAR1"

IN_MEMORY = "the table"
"""Name of a table in memory in errors."""


def open_sheet(source: Source, given: Format | None = None) -> Sheet:
    """Detect the format of a table, and read its column names.

    Args:
        source: the path of a file of text, Parquet, SPSS or Stata, or a table in memory
            (``Frame.of``).
        given: the table's format.

    Raises:
        UsageError: it cannot be read, is empty or not a table, or a column's name is missing or
            there twice.
    """
    given = given or Format()
    given.check()
    if not isinstance(source, str | os.PathLike):
        with _naming(IN_MEMORY):
            return _frame_sheet(Frame.of(source))
    path = Path(source)
    with _naming(str(path)):
        if path.suffix.lower() == ".parquet" or _first_bytes(path) == _PARQUET:
            return _parquet_sheet(path)
        if is_statistics_file(path):
            return statistics_sheet(path)
        return text_sheet(path, given)


def reading(source: Source) -> AbstractContextManager[object]:
    """Limit the block's time and memory by the length of a table's file.

    The unpacked size of a Parquet, SPSS or Stata file does not follow from its length.

    Raises:
        CannotFinishError: it takes more time or memory.
    """
    if not isinstance(source, str | os.PathLike):
        return nullcontext()
    return within_usual_budget(Path(source))


def _frame_sheet(frame: Frame) -> Sheet:
    def read(places: Sequence[int]) -> Iterator[list[Sequence[Cell]]]:
        with _naming(IN_MEMORY):
            yield from frame.blocks(places, BLOCK)

    return named_sheet(IN_MEMORY, frame.names, read)


def _parquet_sheet(path: Path) -> Sheet:
    pyarrow = load_pyarrow(f"{path}: a Parquet file")

    @contextmanager
    def understood() -> Generator[Any]:
        try:
            with _naming(str(path)), pyarrow.parquet.ParquetFile(path) as file:
                yield file
        except pyarrow.ArrowException as error:
            if isinstance(error, MemoryError):
                raise
            raise UsageError(f"{path}: not a table in Parquet, or a damaged one") from error

    def read(places: Sequence[int]) -> Iterator[list[Sequence[Cell]]]:
        before = 0
        with understood() as file:
            names = file.schema_arrow.names
            columns = [names[place] for place in places]
            for batch in file.iter_batches(batch_size=BLOCK, columns=columns):
                yield [
                    column_cells(name, batch.column(name).to_pylist(), before) for name in columns
                ]
                before += batch.num_rows

    with understood() as file:
        return named_sheet(str(path), file.schema_arrow.names, read)


def _first_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(len(_PARQUET))


@contextmanager
def _naming(source: str) -> Generator[None]:
    """Turn errors about a table into usage errors that name the table."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{source}: {reason(error)}") from error
    except SurveyError as error:
        raise UsageError(f"{source}: {error}") from error
