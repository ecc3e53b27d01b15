"""Operation of a survey from the command line, with its listeners."""

from __future__ import annotations

import functools
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from scenarios.errors import StoppedError, say
from scenarios.surveys.operating.live_line import show
from scenarios.surveys.operating.logs import STANDARD_ERROR, json_log
from scenarios.surveys.operating.operation import Operation, Task
from scenarios.surveys.operating.progress import Field, Tell
from scenarios.surveys.operating.readiness import notify
from transports.admission import Network


@contextmanager
def operating(
    folder: Path,
    *,
    log: str | None = None,
    address: tuple[str, int] | None = None,
    trusted: Sequence[Network] = (),
) -> Generator[tuple[Operation, str]]:
    """Operate the survey of a folder: signals stop it, and ``close_joining`` finds it.

    A service manager is notified of readiness. A terminal shows the progress in a line.

    Args:
        folder: the aggregator's.
        log: the file for the log, or ``-`` for standard error; None for no log.
        address: address to serve metrics at, if any.
        trusted: addresses whose connections do not make room for those of strangers.

    Yields:
        How it is held, and where metrics are served, ``HOST:PORT``, or nothing.

    Raises:
        UsageError: the log's file has other content, or ``prometheus-client`` is missing.
        OSError: the log cannot be opened, or the address cannot be listened at.
    """
    tells: list[Tell] = [notify]

    def tell(event: str, fields: Mapping[str, Field]) -> None:
        for one in tells:
            one(event, fields)

    operation = Operation(tell=tell, heeds_signals=True, folder=folder, trusted=trusted)
    progress = operation.progress
    tasks: list[Task] = []
    where = ""
    with ExitStack() as stack:
        if log is not None:
            tells.append(stack.enter_context(json_log(log)))
            tasks.append(functools.partial(_optional, "the log", progress.tell_changes))
        if address is not None:
            from scenarios.surveys.operating import metrics

            metrics.exposition(progress.counts())
            listener = stack.enter_context(metrics.listen(*address))
            where = f"{address[0]}:{listener.getsockname()[1]}"
            serve = functools.partial(metrics.serve, progress, listener)
            tasks.append(functools.partial(_optional, "the server of metrics", serve))
        if log != STANDARD_ERROR and sys.stderr.isatty():
            shown = functools.partial(show, progress, sys.stderr)
            tasks.append(functools.partial(_optional, "the live line", shown))
            operation.early = tasks[-1:]
        operation.tasks = tasks
        try:
            yield operation, where
        except StoppedError:
            progress.tell("stopped")
            raise
        except Exception as error:
            progress.tell("failed", error=type(error).__name__)
            raise
        progress.tell("published")


async def _optional(what: str, task: Task) -> None:
    """Run a task that the survey can do without."""
    try:
        await task()
    except Exception as error:
        say(f"sottovoce: {what} has ended: {type(error).__name__}: {error}")
