"""A survey's log: a line of JSON for each event, by the standard library's ``logging``."""

from __future__ import annotations

import datetime
import json
import logging
import os
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from scenarios.errors import UsageError
from scenarios.files.writing import open_private
from scenarios.operation.progress import Field, Tell

LOGGER = "sottovoce"
"""The name of the logger that takes events; each record has its counts as ``fields``."""

STANDARD_ERROR = "-"
"""What stands for standard error in the place of a file's name."""

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

    A log that cannot be written ends nothing; that is said once.

    Args:
        where: the file's name, or ``-`` for standard error.

    Raises:
        UsageError: the file holds something else than such a log.
        OSError: the file cannot be opened.
    """
    logger = logging.getLogger(LOGGER)
    handler = _Handler(sys.stderr if where == STANDARD_ERROR else _opened(Path(where)))
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
        if where != STANDARD_ERROR:
            handler.stream.close()


class _Handler(logging.StreamHandler[TextIO]):
    """Says once that it cannot write, without the traceback that ``logging`` would print."""

    _said = False

    def handleError(self, record: logging.LogRecord) -> None:
        if not self._said:
            self._said = True
            with suppress(OSError):
                sys.stderr.write("sottovoce: the log cannot be written\n")


def _opened(path: Path) -> TextIO:
    descriptor = open_private(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    file = os.fdopen(descriptor, "a+", encoding="utf-8")
    try:
        file.seek(0)
        if not _is_log(file.readline(_FIRST)):
            raise UsageError(f"{path}: is not a log of this program; it is left as it is")
    except BaseException as error:
        file.close()
        if isinstance(error, UnicodeDecodeError):
            raise UsageError(f"{path}: is not a log of this program; it is left as it is") from None
        raise
    return file


def _is_log(line: str) -> bool:
    if not line:
        return True
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(values, dict) and {"time", "level", "event"} <= values.keys()
