"""A survey's log: a line of JSON for each event, by the standard library's ``logging``."""

from __future__ import annotations

import datetime
import io
import json
import logging
import os
import queue
import sys
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from parties.keeping.writing import open_private
from protocol.errors import UsageError
from scenarios.errors import say
from scenarios.surveys.operating.progress import Field, Tell

LOGGER = "sottovoce"
"""The name of the logger that takes events; each record has its counts as ``fields``."""

STANDARD_ERROR = "-"
"""Stand-in for standard error in the place of a file's name."""

WAITING = 1024
"""Maximum number of waiting lines; further lines are dropped, and counted."""

LAST_SECONDS = 2.0
"""Seconds that the last lines may take to be written."""

_FIRST = 4096


class JsonFormatter(logging.Formatter):
    """One line of JSON: time in UTC, level, event, and the counts that belong to it."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        fields: Mapping[str, Field] = getattr(record, "fields", {})
        values = {"time": at.isoformat(), "level": record.levelname, "event": record.getMessage()}
        return json.dumps({**values, **fields})


@contextmanager
def json_log(where: str) -> Generator[Tell]:
    """Log events to a file, at its end, or to standard error, while the block runs.

    A log that cannot be written is reported once, and the survey goes on. A log that blocks, such
    as a pipe without a reader, blocks only its thread. It loses lines; an event ``lost`` with their
    number follows once it accepts lines again.

    Args:
        where: the file's name, or ``-`` for standard error.

    Raises:
        UsageError: the file has other content than such a log.
        OSError: the file cannot be opened.
    """
    logger = logging.getLogger(LOGGER)
    handler = _Waiting(_standard_error() if where == STANDARD_ERROR else _open(Path(where)))
    handler.setFormatter(JsonFormatter())
    level, propagates = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False

    def tell(event: str, fields: Mapping[str, Field]) -> None:
        severe = logging.ERROR if event == "failed" else logging.INFO
        logger.log(severe, "%s", event, extra={"fields": fields})

    try:
        yield tell
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagates
        handler.end(LAST_SECONDS)


class _Waiting(logging.Handler):
    """Passes lines to a thread, and never waits for it.

    Args:
        file: file that the thread writes, and closes at the end.
    """

    def __init__(self, file: io.FileIO) -> None:
        super().__init__()
        self._file = file
        self._lines: queue.Queue[logging.LogRecord | None] = queue.Queue(WAITING)
        self._lost = 0
        self._over = False
        self._complained = False
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.put_nowait(record)
        except queue.Full:
            self._lost += 1

    def end(self, within: float) -> None:
        """Refuse new lines, and wait so many seconds for the rest to be written."""
        self._over = True
        with suppress(queue.Full):
            self._lines.put_nowait(None)
        self._thread.join(within)

    def _write(self) -> None:
        with self._file:
            while (record := self._lines.get()) is not None:
                self._put(record)
                if self._lines.empty():
                    if self._lost:
                        self._say_lost()
                    if self._over:
                        return

    def _put(self, record: logging.LogRecord) -> None:
        """Write a line without a lock or buffer that could delay the program's end."""
        line = f"{self.format(record)}\n".encode()
        try:
            while line:
                line = line[os.write(self._file.fileno(), line) :]
        except OSError:
            if not self._complained:
                self._complained = True
                say("sottovoce: the log cannot be written")

    def _say_lost(self) -> None:
        lost, self._lost = self._lost, 0
        said = {"msg": "lost", "levelno": logging.ERROR, "levelname": "ERROR"}
        self._put(logging.makeLogRecord({**said, "name": LOGGER, "fields": {"lines": lost}}))


def _standard_error() -> io.FileIO:
    return io.FileIO(os.dup(sys.stderr.fileno()), "w")


def _open(path: Path) -> io.FileIO:
    file = io.FileIO(open_private(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), "a+")
    try:
        file.seek(0)
        if not _is_log(file.readline(_FIRST)):
            raise UsageError(f"{path}: is not a log of this program; it is left as it is")
    except BaseException:
        file.close()
        raise
    return file


def _is_log(line: bytes) -> bool:
    if not line:
        return True
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(values, dict) and {"time", "level", "event"} <= values.keys()
