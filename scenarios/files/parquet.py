"""Parquet, by pyarrow, which is imported only to read or write it."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from protocol.errors import UsageError
from scenarios.errors import install_command
from scenarios.wording.formatting import as_json

NAMESPACE = "sottovoce."
"""Prefix of the keys in a file's metadata."""


def load_pyarrow(what: str) -> Any:
    """Import pyarrow, and have it take its memory from the system's allocator.

    Its own allocator reserves a gigabyte at once, which counts where memory is limited, and then
    other code crashes that is refused a little.

    Args:
        what: needs it, for the message.

    Returns:
        The module, with ``pyarrow.parquet``.

    Raises:
        UsageError: pyarrow is not installed.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise UsageError(f"{what} needs pyarrow: {install_command('parquet')}") from error
    return pyarrow


def encode_parquet(columns: Mapping[str, NDArray[Any]], metadata: Mapping[str, object]) -> bytes:
    """A table as the content of a Parquet file.

    Args:
        columns: arrays of one length. Of texts, with None where there is none, they become
            dictionaries; of numbers, NaN becomes null.
        metadata: facts about the whole table, under keys that begin with ``NAMESPACE``; values
            other than text are JSON.

    Raises:
        UsageError: pyarrow is not installed.
    """
    pyarrow = load_pyarrow("a Parquet file")
    arrays = {
        name: pyarrow.array(column, pyarrow.string()).dictionary_encode()
        if column.dtype == np.object_
        else pyarrow.array(column, from_pandas=True)
        for name, column in columns.items()
    }
    said = {
        NAMESPACE + name: value if isinstance(value, str) else json.dumps(as_json(value))
        for name, value in metadata.items()
    }
    table = pyarrow.table(arrays).replace_schema_metadata(said)
    content = io.BytesIO()
    pyarrow.parquet.write_table(table, content, compression="zstd")
    return content.getvalue()
