"""File of an unfinished sweep, with the results of its finished pieces.

After a sweep that ended early for any reason, the same command does only the rest. Reading the file
never runs code: it holds data of the types in the kernels' annotations.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import msgspec
import numpy as np
from numpy.typing import NDArray

from parties.keeping.writing import (
    GrowingFile,
    is_named,
    lock,
    make_folder,
    naming,
    open_private,
)
from protocol.errors import UsageError
from scenarios.wording.formatting import as_json

A = TypeVar("A")
R = TypeVar("R")

PIECES = "pieces.part"
"""The name that the commands give such a file."""

_MAGIC = b"sottovoce pieces 1\n"
_FRAME = struct.Struct("<II")  # The length of a record, and its CRC-32.
_SUBJECTS = ("scenario", "variant")
"""The settings that say what is swept."""

_NUMBERS = "biufc"
"""The kinds of arrays that are kept: of numbers."""


class Pieces:
    """An open file of pieces, locked.

    Args:
        file: open at its end.
        known: the results in it, encoded, by the pieces' numbers.
    """

    def __init__(self, file: GrowingFile, known: dict[tuple[int, int], msgspec.Raw]) -> None:
        self._file = file
        self._known = known

    def __contains__(self, number: tuple[int, int]) -> bool:
        """Check whether a piece is known, by the numbers of the map and of the argument in it."""
        return number in self._known

    def taken(self, number: tuple[int, int], kernel: Callable[[A], R]) -> R:
        """Take the result of a kernel for a piece, which is in memory only until then.

        Args:
            number: number of a known piece.
            kernel: says by its annotation what it returns.

        Raises:
            UsageError: the piece is malformed.
        """
        content = self._known.pop(number)
        try:
            kind = get_type_hints(kernel)["return"]
            found: R = msgspec.msgpack.decode(content, type=kind, dec_hook=_array)
        except (msgspec.MsgspecError, ValueError, TypeError, NameError, KeyError) as error:
            raise UsageError(
                f"{self._file.path}: a piece is not what {_kernel_name(kernel)} says by its "
                f"annotation that it returns: {error}"
            ) from error
        return found

    def add(self, number: tuple[int, int], kernel: Callable[[A], R], result: R) -> None:
        """Store a kernel's result.

        Raises:
            UsageError: it cannot be kept.
            OSError: it cannot be written.
        """
        try:
            content = msgspec.msgpack.encode(result, enc_hook=_plain)
        except (TypeError, ValueError, OverflowError) as error:
            raise UsageError(
                f"{self._file.path}: cannot keep what {_kernel_name(kernel)} returned: {error}"
            ) from error
        self._file.write(_frame(msgspec.msgpack.encode((number, content))))
        self._known[number] = msgspec.Raw(content)

    def remove(self) -> None:
        """Remove the file: the sweep is finished, and its result is written.

        Raises:
            OSError: it cannot be removed.
        """
        if self._file.is_there():
            with naming(self._file.path):
                self._file.path.unlink()


@contextmanager
def growing_pieces(path: Path, about: Mapping[str, Any]) -> Generator[Pieces]:
    """A file of pieces, created if needed and locked for the block.

    A record that was not written to its end is cut off.

    Args:
        about: all that the results depend on, as JSON has it.

    Raises:
        UsageError: the file is damaged or of another sweep, or another program is writing it.
        OSError: it cannot be read or written.
    """
    wanted: dict[str, Any] = as_json(about)
    make_folder(path.parent)
    busy = f"{path}: another program is carrying out this sweep"
    descriptor = open_private(path, os.O_RDWR | os.O_CREAT)
    with os.fdopen(descriptor, "r+b") as file:
        lock(descriptor, path, busy)
        if not is_named(descriptor, path):
            raise UsageError(busy)
        content = file.read()
        if not content.startswith(_MAGIC[: len(content)]):
            raise UsageError(f"{path}: is not the file of a sweep; delete it or write elsewhere")
        records, end = _records(content)
        with naming(path):
            os.ftruncate(descriptor, end)
            os.lseek(descriptor, end, os.SEEK_SET)
        growing = GrowingFile(descriptor, path)
        if records:
            _check_about(path, records[0], wanted)
        else:
            growing.write(_MAGIC[end:] + _frame(msgspec.json.encode(wanted)))
        yield Pieces(growing, dict(_decode_record(path, record) for record in records[1:]))


def _records(content: bytes) -> tuple[list[bytes], int]:
    """The whole records at the start of a file, and their end; none if the magic is cut short."""
    records: list[bytes] = []
    if len(content) < len(_MAGIC):
        return records, 0
    end = len(_MAGIC)
    while len(content) >= end + _FRAME.size:
        length, crc = _FRAME.unpack_from(content, end)
        record = content[end + _FRAME.size : end + _FRAME.size + length]
        if len(record) < length or zlib.crc32(record) != crc:
            break
        records.append(record)
        end += _FRAME.size + length
    return records, end


def _frame(record: bytes) -> bytes:
    return _FRAME.pack(len(record), zlib.crc32(record)) + record


def _check_about(path: Path, record: bytes, wanted: Mapping[str, Any]) -> None:
    try:
        found = msgspec.json.decode(record, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise _damage_error(path, error) from error
    if found != wanted:
        raise UsageError(
            f"{path}: is of another sweep{_difference(found, wanted)}; delete it to begin anew, or "
            "write elsewhere"
        )


def _difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Difference from another sweep: its subject or its settings."""
    if any(found.get(key) != wanted.get(key) for key in ("command", *_SUBJECTS)):
        subjects = [str(found[key]) for key in _SUBJECTS if key in found]
        return f" ({' of '.join([str(found.get('command')), *subjects]):.80})"
    return f", not with the same {differing(found, wanted)}"


def differing(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Settings in which one command differs from another, such as ``seed and own file``."""
    *others, last = [key for key in wanted if found.get(key) != wanted[key]] or ["form"]
    return f"{', '.join(others)} and {last}" if others else last


def _decode_record(path: Path, record: bytes) -> tuple[tuple[int, int], msgspec.Raw]:
    try:
        number, content = msgspec.msgpack.decode(record, type=tuple[tuple[int, int], bytes])
    except msgspec.MsgspecError as error:
        raise _damage_error(path, error) from error
    return number, msgspec.Raw(content)


def _damage_error(path: Path, error: Exception) -> UsageError:
    return UsageError(f"{path}: is damaged ({error}); delete it to begin anew")


def _kernel_name(kernel: Callable[..., Any]) -> str:
    return repr(getattr(kernel, "__qualname__", type(kernel).__qualname__))


def _plain(value: object) -> object:
    """A NumPy array or number in serializable form."""
    if isinstance(value, np.ndarray) and value.dtype.kind in _NUMBERS:
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, np.generic) and value.dtype.kind in _NUMBERS:
        return value.item()
    raise TypeError(
        f"{type(value).__name__}: expected numbers, texts, arrays or structures of these"
    )


def _array(kind: Any, value: Any) -> NDArray[np.generic]:
    """The inverse of ``_plain`` for arrays."""
    dtype, shape, content = msgspec.convert(value, tuple[str, tuple[int, ...], bytes])
    if dtype[1:2] not in _NUMBERS:
        raise ValueError(f"an array of {dtype}: expected numbers")
    return np.frombuffer(content, dtype).reshape(shape).copy()
