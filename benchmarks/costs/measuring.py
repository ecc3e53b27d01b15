"""What a command takes of the machine, all its processes together. Linux alone says that."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

EVERY = 0.05
"""Seconds between two looks at the memory."""

_PROC = Path("/proc")
_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """What a command took.

    Args:
        seconds: from its start to its end.
        computing: processor seconds.
        memory: the most bytes that its processes held at one time; what two of them share counts
            for both.
        others: how many processors other jobs kept busy meanwhile, on average.
    """

    seconds: float
    computing: float
    memory: int
    others: float


def taken_by(command: Sequence[str]) -> Taken:
    """Run a command, without its output, and measure it.

    Raises:
        RuntimeError: it fails; with what it wrote.
    """
    busy, started, memory = _busy(), time.perf_counter(), 0
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    ) as program:
        try:
            while True:
                ended, status, used = os.wait4(program.pid, os.WNOHANG)
                if ended:
                    break
                memory = max(memory, _held(program.pid))
                time.sleep(EVERY)
        except BaseException:
            os.killpg(program.pid, signal.SIGKILL)
            raise
        seconds = time.perf_counter() - started
        program.returncode = os.waitstatus_to_exitcode(status)
        said = program.stderr.read().decode() if program.stderr else ""
    if program.returncode:
        raise RuntimeError(f"{' '.join(command)}: {said.strip() or program.returncode}")
    computing = used.ru_utime + used.ru_stime
    others = max(0.0, (_busy() - busy - computing) / seconds)
    return Taken(seconds=seconds, computing=computing, memory=memory, others=others)


def _held(session: int) -> int:
    """The bytes that the processes of a session hold now."""
    pages = 0
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue  # It has ended.
            # After the name, which may hold anything: the 6th field is the session, the 24th pages.
            fields = stat.rpartition(")")[2].split()
            if int(fields[3]) == session:
                pages += int(fields[21])
    return pages * _PAGE


def _busy() -> float:
    """The processor seconds that were spent since the machine started."""
    _, user, nice, system, _, _, irq, softirq, *_ = (_PROC / "stat").read_text().split(maxsplit=8)
    return sum(map(int, (user, nice, system, irq, softirq))) / _TICK
