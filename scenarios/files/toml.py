"""Reads TOML files, which may be anybody's."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from scenarios.errors import UsageError
from scenarios.running.budget import reading

T = TypeVar("T")


def read_toml(path: Path | str, kind: type[T]) -> T:
    """What is in a TOML file.

    Args:
        path: the file.
        kind: the type of it.

    Raises:
        UsageError: it is not valid TOML, or not of this type; names the field.
        CannotFinishError: it takes more time or memory than is given to a file of its length.
        OSError: it cannot be read.
    """
    path = Path(path)
    try:
        with reading(path):
            return msgspec.toml.decode(path.read_bytes(), type=kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {error}") from error
    except (msgspec.DecodeError, ValueError) as error:
        raise UsageError(f"{path}: not valid TOML: {error}") from error
    except RecursionError as error:
        raise UsageError(f"{path}: nested too deeply") from error
