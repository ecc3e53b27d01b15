"""What a command may take for files from somebody else: seconds, and memory."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from scenarios.errors import CannotFinishError

SECONDS = 120
"""How many seconds a command may take, whatever its files."""

BYTES_PER_SECOND = 50_000
"""For how many bytes of its files it may take one second more."""

MEGABYTES = 384
"""How many megabytes of memory it may take beyond what it begins with."""

BYTES_PER_BYTE = 8
"""How many bytes of memory it may take for every byte of its files."""

_MEGABYTE = 2**20

_TICK = 0.05
"""Seconds between two checks; what is allocated in between may exceed the budget."""

_HARD = 2
"""How many times the budget the system allows: C code may crash where an allocation fails."""


class _OverBudget(BaseException):
    """Not an ``Exception``, so that nothing on the way takes it for an error in a file."""


def usual_budget(files: Iterable[Path]) -> tuple[float, int]:
    """The seconds and the megabytes that a command may take for these files."""
    size = sum(path.stat().st_size for path in files if path.is_file())
    return SECONDS + size / BYTES_PER_SECOND, MEGABYTES + BYTES_PER_BYTE * size // _MEGABYTE


@contextmanager
def within_budget(seconds: float, megabytes: int) -> Generator[None]:
    """Let the block take so much and no more. Only a main thread keeps to it, and only on Linux.

    Raises:
        CannotFinishError: it takes more.
    """
    before = _memory()
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield
        return
    import resource  # Where there is /proc, there is this.

    out_of_time = f"could not finish within {seconds:,.0f} s; --seconds allows more"
    out_of_memory = f"could not finish with {megabytes:,} MB of memory; --memory allows more"
    end, most = time.monotonic() + seconds, before.resident + megabytes * _MEGABYTE

    def look(number: int, frame: FrameType | None) -> None:
        if time.monotonic() >= end:
            raise _OverBudget(out_of_time)
        if (now := _memory()) is not None and now.resident > most:
            raise _OverBudget(out_of_memory)

    handler = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, min(seconds, _TICK), _TICK)
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    ends = (before.data + _HARD * megabytes * _MEGABYTE, soft, hard)
    limit = min(n for n in ends if n != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    try:
        # The last check may fall between the end of the block and that of the timer.
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except _OverBudget as over:
        raise CannotFinishError(str(over)) from None
    except MemoryError:
        raise CannotFinishError(out_of_memory) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


class _Memory(NamedTuple):
    """What this process has, in bytes."""

    resident: int
    data: int


def _memory() -> _Memory | None:
    """What this process has; None where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            pages = [int(number) for number in file.read().split()]
    except OSError:
        return None
    page = os.sysconf("SC_PAGE_SIZE")
    return _Memory(resident=pages[1] * page, data=pages[5] * page)
