"""A rehearsal of a real survey: every member is a process, over TLS on this machine."""

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
"""Folders of a rehearsal: members, the parties' records, their purses, and the result."""

LISTENING = "listening on "
"""Start of the first line that ``aggregate`` prints; the address follows."""

LINGER = 60.0
"""Seconds that parties may take to end after the aggregator."""

WAITING = 10.0
"""Seconds for which parties try to reach an aggregator that is gone."""

RESTARTING = 60.0
"""The same if the aggregator is killed and started again, which takes longer."""

_SOON = 0.002

_ENDING = (signal.SIGTERM, signal.SIGHUP)
"""The signals that end a process as Ctrl-C does."""


class Rehearsed(NamedTuple):
    """Outcome of a rehearsal.

    Args:
        code: the aggregator's exit code.
        said: the aggregator's output.
        endings: last words of the members that failed, by name.
        killed: the killed member, if any.
    """

    code: int
    said: str
    endings: dict[str, str]
    killed: str | None


def split_records(path: Path, plan: Plan, parties: int | None) -> dict[str, Records]:
    """Records of every party: one file split evenly, or a folder with a file for each party.

    Args:
        path: a CSV or Parquet file, or a folder of such files named after their parties.
        parties: the number of parties for one file; None for a folder.

    Raises:
        UsageError: no records, fewer records than parties, or more than a party may hold.
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
        held: the records of each party.
        out: the folder for everything, new or empty.
        kill: ``party`` to kill and restart the first party that has received something;
            ``aggregator`` to kill the aggregator once a party has sent something, and resume it.
        reported: options of ``aggregate`` that choose its report.
        hear: called with each line of the aggregator, and with the killed member.

    Raises:
        UsageError: the folder is not empty, or the survey's sums need witnesses.
    """
    _check_unwitnessed(plan)
    members, records = _make_members(plan, held, out)
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
        # The survey waits for a single party anyway.
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


def _make_members(plan: Plan, held: Mapping[str, Records], out: Path) -> tuple[Path, Path]:
    """Make the folders of all members and the files of their records; return both folders."""
    make_folder(out)
    if any(out.iterdir()):
        raise UsageError(f"{out}: exists and is not empty")
    members, records = out / MEMBERS, out / RECORDS
    make_keys(plan, [*held], members)
    make_folder(records)
    for name, part in held.items():
        write_once(records / f"{name}.csv", part.to_csv().encode())
    return members, records


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
        process: the running command.
        hear: called with each line of its standard error, after the first.

    Attributes:
        first: the first line of its standard error.
        where: the address from that line; None if it is another line.
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
        """Wait for the end of the process; return the outcome of the rehearsal."""
        code = self.process.wait()
        self._errors.text()
        return Rehearsed(code, self._output.text(), endings, killed)


@contextlib.contextmanager
def _heeding_signals() -> Iterator[None]:
    """Raise ``KeyboardInterrupt`` for the signals in ``_ENDING``, too.

    Neither Ctrl-C nor a closed terminal reaches the members, which run in process groups of their
    own: the rehearsal has to end them.
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
    with _delaying_signals():
        process = subprocess.Popen(
            [sys.executable, "-m", "scenarios", command, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONIOENCODING": encoding},
            encoding=encoding,
            # A killed process may leave half a character.
            errors="replace",
            # Ctrl-C goes only to the rehearsal, which ends its members.
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
def _delaying_signals() -> Iterator[None]:
    """Raise signals only at the end of the block, so that a new process is always registered."""
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
    """Reads a stream to its end in a thread, so that the writer never blocks."""

    def __init__(self, stream: IO[str], hear: Callable[[str], object] | None = None) -> None:
        self._stream = stream
        self._hear = hear
        self._lines: list[str] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def text(self) -> str:
        """Wait for the end of the stream; return all of it."""
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
    """Kill the first running party that has received something.

    Returns:
        The killed party; None if the survey ended first.
    """
    for _ in _poll_record(aggregator, record, still):
        for name, party in parties.items():
            if _has_heard(members / name) and _kill(party):
                return name
    return None


def _kill_aggregator(
    aggregator: subprocess.Popen[str], record: Path, still: subprocess.Popen[str] | None
) -> str | None:
    """Kill the aggregator once a message of a party is on record.

    Returns:
        Its name; None if it ended first.
    """
    for content in _poll_record(aggregator, record, still):
        if _has_message_of_a_party(content):
            return AGGREGATOR if _kill(aggregator) else None
    return None


def _poll_record(
    aggregator: subprocess.Popen[str], record: Path, still: subprocess.Popen[str] | None
) -> Iterator[bytes]:
    """Content of an aggregator's record, read repeatedly until the aggregator ends.

    Args:
        still: a party to stop at the first new entry, so that the survey has to wait for it.
    """
    begun: int | None = None
    while aggregator.poll() is None:
        try:
            content = record.read_bytes()
        except FileNotFoundError:
            break  # The finished record has another name.
        begun = len(content) if begun is None else begun
        if still is not None and len(content) > begun:
            still.send_signal(signal.SIGSTOP)
        yield content
        time.sleep(_SOON)


def _kill(process: subprocess.Popen[str]) -> bool:
    """Kill a process; return False if it had ended by itself."""
    process.kill()
    return process.wait() == -signal.SIGKILL


def _has_heard(folder: Path) -> bool:
    """Check whether a party has received something."""
    # The file begins with a mark of the records.
    return any(file.stat().st_size > KEY_BYTES for file in folder.glob("heard-*"))


def _has_message_of_a_party(content: bytes) -> bool:
    """Check whether a record has an envelope of a party."""
    sent = (entry for entry in TranscriptReader(Unpacked(content)) if isinstance(entry, Sent))
    return any(decode_envelope(entry.envelope).sender != AGGREGATOR for entry in sent)


def _endings(parties: Mapping[str, subprocess.Popen[str]]) -> Iterator[tuple[str, str]]:
    """Last error, or else first line of output, of each party that failed."""
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
