"""The file that is there while a survey waits for people: deleting it ends the wait.

The file is in the aggregator's folder, so only users who may write there can end the joining.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from parties.keeping.writing import is_named, lock, open_private
from protocol.errors import UsageError
from scenarios.surveys.operating.by_hand import note_to_last
from transports.background import running

JOINING = "joining"
"""The file's name. The aggregator has it locked."""

_LONGEST = 100

EVERY = 0.25
"""The seconds between two looks at it."""


@asynccontextmanager
async def joining_file(
    folder: Path, end: Callable[[], object], *, closes: str = ""
) -> AsyncGenerator[None]:
    """Keep the file in the folder during the block, and call ``end`` when it is deleted.

    Args:
        closes: the announced end of the wait, which the file names.

    Raises:
        OSError: it cannot be made.
    """
    path = folder / JOINING
    path.unlink(missing_ok=True)
    descriptor = open_private(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)

    async def look() -> None:
        while True:
            # A moved file, as with its folder, ends nothing.
            if not os.fstat(descriptor).st_nlink:
                end()
                return
            await trio.sleep(EVERY)

    try:
        lock(descriptor, path, f"{path}: another program uses it")
        os.write(descriptor, closes.encode())
        async with running(look):
            yield
    finally:
        if is_named(descriptor, path):
            path.unlink()
        os.close(descriptor)


def close_joining(folder: Path, *, early: bool = False) -> str:
    """End the joining, or the collecting, of the survey that is held from this folder.

    Args:
        early: whether to end it before its time, if everybody was told one.

    Returns:
        When it would have ended by itself, as everybody was told; empty if nobody was.

    Raises:
        UsageError: none waits, or the time has not come, or what was done by hand before is
            malformed.
        OSError: the file cannot be opened or deleted, or the act cannot be written down.
    """
    path = folder / JOINING
    try:
        descriptor = open_private(path, os.O_RDWR)
    except FileNotFoundError as error:
        raise UsageError(f"{folder}: no survey waits for anybody here") from error
    try:
        if _is_locked(descriptor, path):
            closes = os.read(descriptor, _LONGEST).decode()
            if closes and not early:
                raise UsageError(
                    f"{folder}: the survey closes by itself at {closes}, as everybody was told; "
                    "--early closes it now, and its record will say so"
                )
            done, wait = ("close --early", "collecting") if closes else ("close", "joining")
            note_to_last(folder, done, wait=wait)
            path.unlink(missing_ok=True)
            return closes
        # Its program was killed.
        path.unlink(missing_ok=True)
        raise UsageError(f"{folder}: no survey waits for anybody here")
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int, path: Path) -> bool:
    try:
        lock(descriptor, path, "")
    except UsageError:
        return True
    return False
