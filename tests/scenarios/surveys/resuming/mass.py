"""Many parties over TLS, and a killed aggregator.

Run it by ``python -m tests.scenarios.surveys.resuming.mass``.

The aggregator is a program of its own, killed once a share of the reports is on disk, and started
again with ``--resume``. The parties are the real ones, as tasks of this process.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import trio

from parties.keeping.record_names import TRANSCRIPT, partial_path
from protocol import TranscriptError
from protocol.messages import DONE
from protocol.transcript.entries import Sent
from protocol.variants.reports.reports import Report
from protocol.wire.codec import decode_envelope
from scenarios import open_transcript, read_plan
from scenarios.running.loopback import allow_connections
from scenarios.surveys.answering import Answering, answer_survey
from scenarios.surveys.enrolment.folders import make_keys
from scenarios.surveys.members import read_member
from tests.scenarios.command import sottovoce
from tests.scenarios.programs import Program
from tests.scenarios.survey_folders import (
    PLAN,
    ROWS,
    aggregating,
    plan_file,
    table,
)

COUNTED = 0.99
"""The share of the parties that must be counted."""

MOST_KIB = 64.0
"""The most memory that a connected party may take in the aggregator's process, in KiB."""

_PATIENCE = 600


class Mass:
    """One survey of many parties.

    Args:
        folder: for the members' folders.
        out: the folder for what the aggregator records.
        parties: how many there are.
        killed: the share of them whose reports are on disk when the aggregator is killed.
    """

    def __init__(self, folder: Path, out: Path, parties: int, killed: float) -> None:
        self.folder = folder
        self.transcript = out / TRANSCRIPT
        self.parties = parties
        self.killed = killed
        self.endings: Counter[str] = Counter()
        self.ended: list[float] = []

    def prepare(self) -> None:
        """Make everybody's folder."""
        plan = PLAN.replace("patience = 20.0", f"patience = {_PATIENCE}.0")
        names = [f"party-{number}" for number in range(self.parties)]
        make_keys(read_plan(plan_file(self.folder, plan)), names, self.keys, days=1)
        table(self.records, ROWS[0])

    @property
    def keys(self) -> Path:
        """The members' folders."""
        return self.folder / "keys"

    @property
    def records(self) -> Path:
        """Everybody's record."""
        return self.folder / "records.csv"

    async def hold(self) -> dict[str, float]:
        """Hold the survey; what was measured."""
        options = ("--joining", _PATIENCE)
        with aggregating(self.keys, self.transcript.parent, *options) as (aggregator, where, _):
            host, _, port = where.rpartition(":")
            before = _kib(aggregator)
            async with trio.open_nursery() as nursery:
                began = time.perf_counter()
                for name in [f"party-{number}" for number in range(self.parties)]:
                    nursery.start_soon(self._answer, name, host, int(port))
                # In a thread: the tasks of so many parties leave the loop little time.
                after = await trio.to_thread.run_sync(self._kill_in_time, aggregator)
                died = time.perf_counter()
                again = Program(
                    *("aggregate", self.keys / "aggregator", "--resume", "--json"),
                    *("--listen", where, "--out", self.transcript.parent, *options),
                )
                said, complained = await trio.to_thread.run_sync(again.communicate)
        if again.returncode != 0:
            raise RuntimeError(f"the aggregator ended with {again.returncode}: {complained}")
        return {
            "counted": json.loads(said)["counted"],
            "KiB a party": (after - before) / self.parties,
            "parties a second": len(self.ended) / (max(self.ended) - began),
            "seconds from the kill to the last receipt": max(self.ended) - died,
        }

    async def _answer(self, name: str, host: str, port: int) -> None:
        answered = await answer_survey(
            read_member(self.keys / name),
            Answering(records=self.records, purse=self.keys / name / "purse"),
            host=host,
            port=port,
            waiting=_PATIENCE,
        )
        self.endings[answered.ending] += 1
        self.ended.append(time.perf_counter())

    def _kill_in_time(self, aggregator: Program) -> float:
        """Kill the aggregator once enough reports are on disk; its memory by then, in KiB."""
        while self._reports() < self.killed * self.parties:
            trio.from_thread.check_cancelled()
            time.sleep(0.05)
        memory = _kib(aggregator)
        aggregator.send_signal(signal.SIGKILL)
        aggregator.wait()
        return memory

    def _reports(self) -> int:
        """How many reports are on disk."""
        entries = open_transcript(partial_path(self.transcript)).entries()
        try:
            sent = [entry.envelope for entry in entries if isinstance(entry, Sent)]
        except TranscriptError:
            return 0  # It is being written.
        return sum(decode_envelope(envelope).kind == Report.kind() for envelope in sent)


def _kib(program: Program) -> float:
    """The memory of a program, in KiB."""
    status = Path(f"/proc/{program.pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return float(line.split()[1])


def main() -> int:
    """Hold one survey, print what was measured, and judge it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parties", type=int, default=2000)
    parser.add_argument("--killed", type=float, default=0.25, help="the share of reports on disk")
    given = parser.parse_args()
    # A connection, and the files that a party keeps open.
    allow_connections(8 * given.parties)
    # So many parties share no disk in life: theirs is memory, and the aggregator's is a real one.
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as folder, tempfile.TemporaryDirectory() as out:
        mass = Mass(Path(folder), Path(out), given.parties, given.killed)
        mass.prepare()
        found = trio.run(mass.hold)
        audit = sottovoce("audit", mass.transcript)
    print(audit.out.splitlines()[0])
    for what, number in found.items():
        print(f"{what}: {number:,.1f}")
    print(*(f"{ending}: {count:,}" for ending, count in mass.endings.items()), sep="\n")
    holds = (
        audit.code == 0
        and mass.endings[DONE] >= COUNTED * given.parties
        and found["counted"] >= COUNTED * given.parties
        and found["KiB a party"] <= MOST_KIB
    )
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
