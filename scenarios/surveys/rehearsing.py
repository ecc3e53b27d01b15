"""A rehearsal of a real survey: every member a process of its own, over TLS on this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from parties.keeping.packing import Unpacked
from parties.keeping.record_names import TRANSCRIPT, partial_path
from parties.keeping.remembered import KEY_BYTES
from parties.keeping.writing import make_folder, write_once
from protocol.errors import UsageError
from protocol.messages import AGGREGATOR
from protocol.surveys.records import Records
from protocol.transcript.entries import Sent
from protocol.transcript.reader import TranscriptReader
from protocol.wire.codec import decode_envelope
from scenarios.streams import output_encoding
from scenarios.surveys.enrolment.folders import make_keys
from scenarios.surveys.survey_plan import Plan

MEMBERS, RECORDS, PURSES, RESULT_FOLDER = "members", "records", "purses", "result"
"""The folders that a rehearsal makes: of the members, of what parties hold and spend, of the
aggregator."""

LISTENING = "listening on "
"""What ``aggregate`` says first, before the address."""

LINGER = 60.0
"""How long parties may take to end after the aggregator has, in seconds."""

WAITING = 10.0
"""How long parties try to reach the aggregator once it is gone, in seconds."""

RESTARTING = 60.0
"""The same where it is killed and started again: it may take a while to start."""

_SOON = 0.002

_ENDING = (signal.SIGTERM, signal.SIGHUP)
"""The signals that end a process as Ctrl-C does."""


class Rehearsed(NamedTuple):
    """Course of a rehearsal.

    Args:
        code: the exit code of the aggregator.
        said: what it printed.
        endings: of the parties that did not end as done: what each said last.
        killed: the member that was killed, if one was.
    """

    code: int
    said: str
    endings: dict[str, str]
    killed: str | None


def split_records(path: Path, plan: Plan, parties: int | None) -> dict[str, Records]:
    """Records of every party: of one file shared out evenly, or of a folder with a file for each.

    Args:
        path: a CSV or Parquet file, or a folder of such files that are named like their parties.
        plan: of the survey.
        parties: over how many a file is spread.

    Raises:
        UsageError: no records, fewer than parties, or more than a party may speak for.
    """
    survey, most = plan.variant.survey, plan.variant.max_records
    if path.is_dir():
        if parties is not None:
            raise UsageError(f"--parties: {path} is a folder, with a file for each party")
        files = sorted(each for each in path.iterdir() if each.suffix in (".csv", ".parquet"))
        if not files:
            raise UsageError(f"{path}: has no .csv or .parquet files")
        held: dict[str, Records] = {}
        for file in files:
            if file.stem in held:
                raise UsageError(f"{path}: has two files for {file.stem}")
            held[file.stem] = plan.coding.records(file)
    else:
        if parties is None:
            raise UsageError(f"{path}: expected --parties N, over how many it is spread")
        read = plan.coding.records(path)
        if len(read) < parties:
            raise UsageError(f"{path}: {len(read)} records, fewer than {parties} parties")
        width = len(str(parties))
        rows = np.array_split(read.codes, parties)
        held = {f"party-{i:0{width}}": Records(survey, part) for i, part in enumerate(rows, 1)}
    for name, records in held.items():
        if len(records) > most:
            raise UsageError(
                f"{name} would hold {len(records)} records, at most {most} allowed by max_records "
                "in the plan"
            )
    return held


def rehearse(
    plan: Plan,
    held: dict[str, Records],
    out: Path,
    *,
    kill: str | None,
    reported: Sequence[object],
    hear: Callable[[str], object],
) -> Rehearsed:
    """Make keys, then hold the survey among processes.

    Args:
        plan: of the survey.
        held: the records of each party.
        out: the folder for everything, new or empty.
        kill: ``party`` to kill the first party that has heard something, and start it again;
            ``aggregator`` to kill the aggregator once a party has said something, and resume it.
        reported: the options of ``aggregate`` that say what it reports.
        hear: called with what the aggregator says while it runs, and with who is killed.

    Raises:
        UsageError: the folder is not empty, or witnesses are to certify the survey's sums.
    """
    _check_unwitnessed(plan)
    make_folder(out)
    if any(out.iterdir()):
        raise UsageError(f"{out}: exists and is not empty")
    members, records = out / MEMBERS, out / RECORDS
    make_keys(plan, [*held], members)
    make_folder(records)
    for name, part in held.items():
        write_once(records / f"{name}.csv", part.to_csv().encode())
    own = () if plan.own is None else ("--variant", plan.own)
    with contextlib.ExitStack() as running:
        running.enter_context(_heeding_signals())

        def aggregate(where: str, *more: str) -> _Aggregator:
            listen = ("--listen", where, "--out", out / RESULT_FOLDER, *own, *more)
            folder = members / AGGREGATOR
            return _Aggregator(_start(running, "aggregate", folder, *listen, *reported), hear)

        aggregator = aggregate("127.0.0.1:0")
        where = aggregator.where
        if where is None:
            return aggregator.rehearsed({AGGREGATOR: aggregator.first.strip()}, None)
        waiting = RESTARTING if kill == "aggregator" else WAITING

        def answer(name: str) -> subprocess.Popen[str]:
            file = records / f"{name}.csv"
            purse = out / PURSES / name
            options = ("--connect", where, "--records", file, "--waiting", waiting, *own)
            options += ("--purse", purse)
            return _start(running, "answer", members / name, *options)

        parties = {name: answer(name) for name in held}
        *others, last = parties.values()
        # A party that is alone is waited for anyway.
        still = last if others else None
        record = partial_path(out / RESULT_FOLDER / TRANSCRIPT)
        killed: str | None = None
        if kill == "party":
            killed = _kill_party(aggregator.process, record, still, parties, members)
        elif kill == "aggregator":
            killed = _kill_aggregator(aggregator.process, record, still)
        if killed is not None:
            hear(f"killed {killed}")
        if killed == AGGREGATOR:
            aggregator = aggregate(where, "--resume")
        elif killed is not None:
            parties[killed] = answer(killed)
        last.send_signal(signal.SIGCONT)
        endings: dict[str, str] = {}
        if aggregator.process.wait() and aggregator.where is None:
            endings[AGGREGATOR] = aggregator.first.strip()
        endings.update(_endings(parties))
        return aggregator.rehearsed(endings, killed)


def _check_unwitnessed(plan: Plan) -> None:
    from protocol.sharing.sums import find_secure_sum  # Few plans sum.

    sums = find_secure_sum(plan.variant)
    if sums is not None and sums.certifying is not None:
        raise UsageError(
            "the survey's sums are certified by witnesses, which a rehearsal has none of: rehearse "
            "the plan without sums.witnesses"
        )


class _Aggregator:
    """An aggregator's process.

    Args:
        process: the same.
        hear: called with what it says once it listens.

    Attributes:
        first: the first line that is not said before every survey, or the one that says where.
        where: where it listens; None if it does not.
    """

    def __init__(self, process: subprocess.Popen[str], hear: Callable[[str], object]) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.process = process
        self._output = _Reading(process.stdout)
        self.first = process.stderr.readline()
        self.where: str | None = None
        if self.first.startswith(LISTENING):
            self.where = self.first.removeprefix(LISTENING).strip()
        self._errors = _Reading(process.stderr, hear)

    def rehearsed(self, endings: dict[str, str], killed: str | None) -> Rehearsed:
        """Course of the rehearsal, once the process has ended."""
        code = self.process.wait()
        self._errors.text()
        return Rehearsed(code, self._output.text(), endings, killed)


@contextlib.contextmanager
def _heeding_signals() -> Iterator[None]:
    """Raise signals in the block, as Ctrl-C is, so that members are ended too.

    They are in groups of their own, where neither Ctrl-C nor a closed terminal reaches them.
    """
    before = {}
    for number in _ENDING:
        if signal.getsignal(number) == signal.SIG_DFL:
            before[number] = signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _start(
    running: contextlib.ExitStack, command: str, *arguments: object
) -> subprocess.Popen[str]:
    encoding = output_encoding()
    with _held_back():
        process = subprocess.Popen(
            [sys.executable, "-m", "scenarios", command, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONIOENCODING": encoding},
            encoding=encoding,
            # One that is killed may leave half a character.
            errors="replace",
            # Ctrl-C is for the rehearsal alone, which ends them.
            process_group=0,
        )

        @running.callback
        def end() -> None:
            process.kill()
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()

    return process


@contextlib.contextmanager
def _held_back() -> Iterator[None]:
    """Signals that come in the block are raised at its end: no process starts unnoticed."""
    came: list[bool] = []
    before = {
        number: signal.signal(number, lambda *_: came.append(True))
        for number in (signal.SIGINT, *_ENDING)
        if callable(signal.getsignal(number))
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        raise KeyboardInterrupt


class _Reading:
    """Reads a stream to its end in a thread, so that its writer never waits."""

    def __init__(self, stream: IO[str], hear: Callable[[str], object] | None = None) -> None:
        self._stream = stream
        self._hear = hear
        self._lines: list[str] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def text(self) -> str:
        """All that was written, once the writer has ended."""
        self._thread.join()
        return "".join(self._lines)

    def _read(self) -> None:
        for line in self._stream:
            self._lines.append(line)
            if self._hear is not None:
                self._hear(line.rstrip("\n"))


def _kill_party(
    aggregator: subprocess.Popen[str],
    record: Path,
    still: subprocess.Popen[str] | None,
    parties: Mapping[str, subprocess.Popen[str]],
    members: Path,
) -> str | None:
    """Kill the first party that has heard something and still runs.

    Args:
        members: with the parties' folders.

    Returns:
        Who was killed; None if the survey ends before.
    """
    for _ in _recorded(aggregator, record, still):
        for name, party in parties.items():
            if _has_heard(members / name) and _is_killed(party):
                return name
    return None


def _kill_aggregator(
    aggregator: subprocess.Popen[str], record: Path, still: subprocess.Popen[str] | None
) -> str | None:
    """Kill an aggregator that has something of a party on record.

    Returns:
        Its name; None if it ends before.
    """
    for content in _recorded(aggregator, record, still):
        if _says_something(content):
            return AGGREGATOR if _is_killed(aggregator) else None
    return None


def _recorded(
    aggregator: subprocess.Popen[str], record: Path, still: subprocess.Popen[str] | None
) -> Iterator[bytes]:
    """Content of an aggregator's record, again and again until it ends.

    Args:
        still: a party that stands still from the first entry on, so that the survey waits.
    """
    begun: int | None = None
    while aggregator.poll() is None:
        try:
            content = record.read_bytes()
        except FileNotFoundError:
            break  # It has got its name.
        begun = len(content) if begun is None else begun
        if still is not None and len(content) > begun:
            still.send_signal(signal.SIGSTOP)
        yield content
        time.sleep(_SOON)


def _is_killed(process: subprocess.Popen[str]) -> bool:
    """Kill a process; False if it has ended before."""
    process.kill()
    return process.wait() == -signal.SIGKILL


def _has_heard(folder: Path) -> bool:
    """Check whether the party of a folder has heard something."""
    # The file begins with a mark of the records.
    return any(file.stat().st_size > KEY_BYTES for file in folder.glob("heard-*"))


def _says_something(content: bytes) -> bool:
    """Check whether there is an envelope of a party in a record."""
    sent = (entry for entry in TranscriptReader(Unpacked(content)) if isinstance(entry, Sent))
    return any(decode_envelope(entry.envelope).sender != AGGREGATOR for entry in sent)


def _endings(parties: Mapping[str, subprocess.Popen[str]]) -> Iterator[tuple[str, str]]:
    """Endings of parties that were not done: what each printed first, or its last error."""
    end = time.monotonic() + LINGER
    for name, party in parties.items():
        try:
            out, error = party.communicate(timeout=max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            yield name, "did not end in time"
            continue
        if party.returncode != 0:
            last = error.strip().rpartition("\n")[2]
            yield name, last or out.partition("\n")[0] or f"exit {party.returncode}"
