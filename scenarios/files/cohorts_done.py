"""The file of a tabulation under way: the cohorts that are done and their sum, replaced as a whole.

After a driver's death, the same command resumes from the last file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from parties.keeping.writing import is_named, lock, make_folder, naming, open_private, write_whole
from protocol.errors import UsageError
from scenarios.files.pieces import differing

COHORTS = "cohorts.part"
"""The name that the command gives such a file."""

_MAGIC = b"sottovoce cohorts 1\n"
_DIGEST_BYTES = 32
_LOCK = ".lock"


class Snapshot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """State of a tabulation under way.

    Args:
        about: description of the tabulation; another one cannot be resumed from this file.
        seconds: spent so far.
        stages: leaves and sum of the cohorts of every finished stage.
        done: which cohorts of the present stage are done, bit by bit.
        leaves: leaves of the finished cohorts.
        totals: their sum, int64 little-endian.
    """

    about: dict[str, Any]
    seconds: float
    stages: list[tuple[bytes, bytes]]
    done: bytes
    leaves: bytes
    totals: bytes


def write_snapshot(path: Path, snapshot: Snapshot) -> None:
    """Replace the file.

    Raises:
        OSError: it cannot be written; the earlier one stays.
    """
    content = msgspec.msgpack.encode(snapshot)
    write_whole(path, _MAGIC + hashlib.sha256(content).digest() + content, private=True)


def read_snapshot(path: Path, about: dict[str, Any]) -> Snapshot | None:
    """Read the state of a tabulation under way; None where none was begun.

    Args:
        about: description of the tabulation.

    Raises:
        UsageError: the file is damaged, or of another tabulation; names the difference.
        OSError: it cannot be read.
    """
    found = _read(path)
    if found is None:
        return None
    wanted = msgspec.msgpack.decode(msgspec.msgpack.encode(about))
    if found.about != wanted:
        raise UsageError(
            f"{path}: is of another tabulation, not with the same "
            f"{differing(found.about, wanted)}; delete it to begin anew, or write elsewhere"
        )
    return found


def seed_in(path: Path) -> int | None:
    """The seed of a tabulation under way; None where none was begun.

    Raises:
        UsageError: the file is damaged.
        OSError: it cannot be read.
    """
    found = _read(path)
    return None if found is None else found.about.get("seed")


def _read(path: Path) -> Snapshot | None:
    try:
        with os.fdopen(open_private(path, os.O_RDONLY), "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return None
    body = content[len(_MAGIC) + _DIGEST_BYTES :]
    if content[: len(_MAGIC)] != _MAGIC:
        raise UsageError(f"{path}: is not the file of a tabulation; delete it or write elsewhere")
    if hashlib.sha256(body).digest() != content[len(_MAGIC) : len(_MAGIC) + _DIGEST_BYTES]:
        raise UsageError(f"{path}: is damaged; delete it to begin anew")
    try:
        found = msgspec.msgpack.decode(body, type=Snapshot)
    except msgspec.MsgspecError as error:
        raise UsageError(f"{path}: is damaged ({error}); delete it to begin anew") from error
    return found


@contextmanager
def sole(path: Path) -> Generator[None]:
    """Lock a file of cohorts for the block, against other programs.

    Raises:
        UsageError: another one does.
        OSError: its folder cannot be written to.
    """
    make_folder(path.parent)
    busy = f"{path}: another program is tabulating into this file"
    own = path.with_name(path.name + _LOCK)
    descriptor = open_private(own, os.O_RDWR | os.O_CREAT)
    try:
        lock(descriptor, own, busy)
        if not is_named(descriptor, own):
            raise UsageError(busy)
        try:
            yield
        finally:
            if not path.exists() and is_named(descriptor, own):
                own.unlink()
    finally:
        os.close(descriptor)


def remove_snapshot(path: Path) -> None:
    """Remove the file of a tabulation that is finished.

    Raises:
        OSError: it cannot be removed.
    """
    with naming(path):
        path.unlink(missing_ok=True)
        path.with_name(path.name + _LOCK).unlink(missing_ok=True)
