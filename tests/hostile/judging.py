"""Gives hostile files to commands, and says how each ended, how long it took and with what memory.

A command must end with a verdict (0 or 1), or with one line (2 or 3): never in a crash, a
traceback or a signal, in many lines, or with more memory or time than is stated.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from scenarios.errors import CANNOT_FINISH
from tests.scenarios.command import ROOT, Said, environment, sottovoce

MEGABYTES = 512
"""The most memory that a process may take at any time."""

SECONDS = 120
BYTES_PER_SECOND = 50_000
"""The most seconds for any file, and for how many bytes of it there is one more."""

_MEASURED = """
import os, sys
peak = sys.argv.pop(1)
try:
    from scenarios.cli import main
    main()
finally:
    with open("/proc/self/status") as status, open(peak, "w") as file:
        print(sum(os.times()[:2]), status.read(), sep="\\n", file=file)
"""
"""The command line, which leaves what its process had in a file: ``wait4`` counts its parent."""

_BUSY = 3
"""How many times as long a command may take where others use the machine too."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Case(NamedTuple):
    """A hostile file.

    Args:
        what: in words.
        files: by name.
        command: that reads them; ``@`` stands for their folder.
    """

    what: str
    files: dict[str, bytes]
    command: tuple[str, ...]


class Ended(NamedTuple):
    """How a command ended.

    Args:
        case: its number.
        what: what it was given.
        command: what was called.
        code: the exit code; negative for a signal.
        seconds: how long it computed.
        megabytes: the most memory that its process had.
        wrong: what was not as it must be; empty if nothing was.
    """

    case: int
    what: str
    command: tuple[str, ...]
    code: int
    seconds: float
    megabytes: float
    wrong: str


def wrong_with(said: Said, command: Sequence[str]) -> str:
    """What is wrong with how a command ended and what it said; empty if nothing is."""
    if said.code not in (0, 1, 2, CANNOT_FINISH):
        return f"exit {said.code}: {said.err[-1500:]}"
    lines = said.err.splitlines()
    if len(lines) > 1 or (said.err and not said.err.endswith("\n")):
        return f"{len(lines)} lines on stderr: {said.err[-600:]}"
    if any(not line.startswith("sottovoce: ") for line in lines):
        return f"stderr: {said.err[-300:]}"
    if said.code == 2 and (said.out or not lines):
        return f"exit 2 with {len(lines)} lines on stderr and {len(said.out)} characters of output"
    if not (said.out or lines):
        return "nothing was said"
    found = _CONTROL.search(said.out + said.err)
    if found:
        return f"a control character is printed: {found.group()!r}"
    if "--json" in command and said.out and command[0] not in ("show",):
        try:
            json.loads(said.out)
        except ValueError as error:
            return f"what is printed is not JSON: {error}"
    return ""


def allowed(files: Iterable[bytes]) -> float:
    """The seconds that a command may take for these files."""
    return SECONDS + sum(map(len, files)) / BYTES_PER_SECOND


def judge_here(number: int, case: Case, folder: Path, *, megabytes: float = MEGABYTES) -> Ended:
    """Call the command in this process, which may have so much memory in all."""
    command = _laid_out(case, folder)
    _forget_peak()
    started, used = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        said = sottovoce(*command)
    took = time.perf_counter() - started, time.process_time() - used
    peak = _peak(Path("/proc/self/status").read_text())
    return _judged(number, case, said, took, peak, folder, most=megabytes)


def judge_apart(number: int, case: Case, folder: Path) -> Ended:
    """Call the command in a process of its own, as a person does."""
    command = _laid_out(case, folder)
    started = time.perf_counter()
    peak = folder.with_suffix(".peak")
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, str(peak), *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        cwd=ROOT,
        env=environment(),
        check=False,
    )
    said = Said(done.returncode, done.stdout, done.stderr)
    left = peak.read_text()
    took = time.perf_counter() - started, float(left.partition("\n")[0])
    return _judged(number, case, said, took, _peak(left), folder, most=MEGABYTES)


def _laid_out(case: Case, folder: Path) -> tuple[str, ...]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in case.files.items():
        (folder / name).write_bytes(content)
    return tuple(part.replace("@", str(folder), 1) for part in case.command)


def _judged(
    number: int,
    case: Case,
    said: Said,
    took: tuple[float, float],
    megabytes: float,
    folder: Path,
    *,
    most: float,
) -> Ended:
    waited, seconds = took
    longest = allowed(case.files.values())
    wrong = wrong_with(said, case.command)
    half = [path.name for path in folder.rglob(".*")]
    if not wrong and half:
        wrong = f"left behind: {half}"
    if not wrong and megabytes > most:
        wrong = f"{megabytes:,.0f} MB of memory"
    if not wrong and (seconds > longest or waited > _BUSY * longest):
        wrong = f"{seconds:,.0f} s of computing in {waited:,.0f} s"
    return Ended(number, case.what, case.command, said.code, seconds, megabytes, wrong)


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _peak(status: str) -> float:
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else 0.0


def table(ended: Sequence[Ended]) -> Iterator[str]:
    """How the commands ended, a line each."""
    codes = sorted({each.code for each in ended})
    heads = ("command", "files", *(f"exit {code}" for code in codes), "wrong", "MB", "s", "mean s")
    rows = [heads]
    names = sorted({each.command[0] for each in ended})
    for name in (*names, "all"):
        some = [each for each in ended if name in (each.command[0], "all")]
        counts = [sum(each.code == code for each in some) for code in codes]
        seconds = [each.seconds for each in some]
        rows.append(
            (
                name,
                f"{len(some):,}",
                *(f"{number:,}" for number in counts),
                f"{sum(bool(each.wrong) for each in some):,}",
                f"{max(each.megabytes for each in some):,.0f}",
                f"{max(seconds):,.2f}",
                f"{sum(seconds) / len(some):.4f}",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
