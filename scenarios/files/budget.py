"""Limits of time and memory for commands that read untrusted files.

The limits apply to this process. A child process would cost its start and the transfer of its
results.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
import time
from collections.abc import Generator, Iterable
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from scenarios.errors import CannotFinishError

SECONDS = 120
"""Seconds allowed for a command, for any files."""

BYTES_PER_SECOND = 50_000
"""Bytes of files that allow one more second."""

MEGABYTES = 370
"""Megabytes of memory allowed beyond those at the start, for small files."""

SMALL = 10 * 2**20
"""Bytes of small files; with them a command stays below 512 MB in all."""

BYTES_PER_BYTE = 32
"""Bytes of memory allowed for every further byte of files."""

_MEGABYTE = 2**20

_TICK = 0.02
"""Seconds between two checks; what is allocated in between may exceed the budget."""

_AGAIN = 1.0
"""Seconds until it is raised again that the budget is spent, if something has swallowed that."""

_MARGIN = 96
"""Megabytes beyond the budget before the system refuses memory, which may crash C code."""

_MARGIN_PER_CORE = 12
"""Further megabytes per core, as matrix libraries reserve memory for a thread on each."""


_AROUND = (__file__, contextlib.__file__)
"""Files whose code runs around the block."""


class _OverBudget(BaseException):
    """End of a budget. It is not an ``Exception``, so it cannot pass for an error in a file."""


def usual_budget(files: Iterable[Path]) -> tuple[float, int]:
    """The seconds and the megabytes that a command may take for these files."""
    size = sum(path.stat().st_size for path in files if path.is_file())
    more = BYTES_PER_BYTE * max(0, size - SMALL) // _MEGABYTE
    return SECONDS + size / BYTES_PER_SECOND, MEGABYTES + more


def within_usual_budget(*files: Path) -> AbstractContextManager[None]:
    """Apply the default limits for these files, in commands without options for them.

    Raises:
        CannotFinishError: it takes more; the message names the first file.
    """
    return within_budget(*usual_budget(files), what=f"{files[0]}: ")


@contextmanager
def within_budget(seconds: float, megabytes: int, *, what: str = "") -> Generator[None]:
    """Limit time and memory of the block; enforced in a main thread on Linux only.

    A block within another one's budget takes of that one's.

    Args:
        seconds, megabytes: the limits.
        what: the file that is read, for the message; without, it names options for more.

    Raises:
        CannotFinishError: it takes more.
    """
    before = _memory()
    inside = signal.getitimer(signal.ITIMER_REAL)[0] > 0
    if threading.current_thread() is not threading.main_thread() or before is None or inside:
        yield
        return
    import resource  # Systems with /proc have this module.

    time_hint, memory_hint = (
        ("", "")
        if what
        else (
            "; --seconds allows more",
            "; --memory allows more",
        )
    )
    out_of_time = f"{what}could not finish within {seconds:,.0f} s{time_hint}"
    out_of_memory = f"{what}could not finish with {megabytes:,} MB of memory{memory_hint}"
    end, most = time.monotonic() + seconds, before.resident + megabytes * _MEGABYTE

    quiet = 0.0

    def look(number: int, frame: FrameType | None) -> None:
        # Raised while the block is entered or left, it would escape the ``except`` below.
        nonlocal quiet
        time_now, over = time.monotonic(), ""
        if time_now < quiet or frame is None or frame.f_code.co_filename in _AROUND:
            return
        if time_now >= end:
            over = out_of_time
        elif (now := _memory()) is not None and now.resident > most:
            over = out_of_memory
        if over:
            quiet = time_now + _AGAIN
            raise _OverBudget(over)

    handler = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, min(seconds, _TICK), _TICK)
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    margin = _MARGIN + _MARGIN_PER_CORE * (os.cpu_count() or 1)
    ends = (before.data + (megabytes + margin) * _MEGABYTE, soft, hard)
    limit = min(n for n in ends if n != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    try:
        # The last check may fall between the end of the block and that of the timer.
        try:
            yield
        finally:
            # A pending signal still has to be delivered.
            quiet = math.inf
            signal.setitimer(signal.ITIMER_REAL, 0)
    except _OverBudget as over:
        raise CannotFinishError(str(over)) from None
    except MemoryError:
        raise CannotFinishError(out_of_memory) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        # A signal may be pending in another thread; by default it would end the program.
        signal.signal(signal.SIGALRM, _ignore_late_alarm if handler is signal.SIG_DFL else handler)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _ignore_late_alarm(number: int, frame: FrameType | None) -> None:
    """Ignore an alarm that goes off after its budget has ended."""


def end_budget() -> None:
    """Lift the limits of the running block, so that its output is complete."""
    signal.setitimer(signal.ITIMER_REAL, 0)


class _Memory(NamedTuple):
    """Memory of this process, in bytes."""

    resident: int
    data: int


def _memory() -> _Memory | None:
    """Memory of this process; None where the system does not report it."""
    try:
        with open("/proc/self/statm", "rb") as file:
            pages = [int(number) for number in file.read().split()]
    except OSError:
        return None
    page = os.sysconf("SC_PAGE_SIZE")
    return _Memory(resident=pages[1] * page, data=pages[5] * page)
