"""Aggregators that go on with older copies.

Run it by ``python -m tests.scenarios.surveys.resuming.rolling_back --trials 50``.

Each trial is a survey among processes over TLS. A copy of its aggregator's folder and record is
made at a drawn moment, plainly or by ``backup``; at a later one the aggregator is killed, and goes
on with the copy. Every party is started again, but for some that never come back.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import socket
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Literal, NamedTuple

from parties.keeping.packing import Unpacked
from parties.keeping.record_names import RESULT, TRANSCRIPT, partial_path
from protocol import AGGREGATOR, PartyId
from protocol.audit.proofs.making_receipts import NotCountedError, prove
from protocol.transcript.entries import Restored
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.receipts import COUNTED
from protocol.variants import BUILT_IN
from scenarios import read_plan
from scenarios.surveys.enrolment.folders import make_keys
from tests.scenarios.programs import Program
from tests.scenarios.survey_folders import PLANS, RECORDS

How = Literal["plain", "restore"]

VARIANTS = ("rr-independent", "secure-sum", "rrba", "privkvm")
SECONDS = 120.0

JOINING, PATIENCE = 3, 4.0
"""How long parties and answers are waited for, in seconds."""

STOPPED, PUBLISHED, FAILED = "stopped by name", "published", "failed"


class Tried(NamedTuple):
    """How a trial has ended.

    Args:
        how: in a word or two.
        lost: who holds a receipt and is not counted in what was published, nor named on record.
        unknowable: who of them never came again, after a plain copy that nobody showed to be old.
    """

    how: str
    lost: tuple[str, ...] = ()
    unknowable: tuple[str, ...] = ()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--trials", type=int, default=50)
    options.add_argument("--parties", type=int, default=5)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    ends: Counter[str] = Counter()
    losses = 0
    for trial in range(1, given.trials + 1):
        draw = random.Random(f"{given.seed} {trial}")
        how: How = draw.choice(("plain", "restore"))
        with tempfile.TemporaryDirectory() as folder:
            found = tried(Path(folder), given.parties, draw, how)
        ends[f"{how}: {found.how}"] += 1
        ends["unknowable"] += bool(found.unknowable)
        if found.lost or found.how not in (STOPPED, PUBLISHED, FAILED):
            losses += 1
            print(f"trial {trial}: {how}: {found}", flush=True)
        print(f"{trial} trials, {dict(ends)}, {losses} with losses", flush=True)
    return 1 if losses else 0


def tried(folder: Path, parties: int, draw: random.Random, how: How) -> Tried:
    """One trial: how it has ended."""
    name = draw.choice(VARIANTS)
    plan = folder / "plan.toml"
    plan.write_text(
        PLANS[name]
        .replace("patience = 20.0", f"patience = {PATIENCE}")
        .replace("quorum = 4", "quorum = 3")
    )
    names = [f"party-{i}" for i in range(1, parties + 1)]
    make_keys(read_plan(plan), names, folder / "keys", days=1)
    head, *rows = RECORDS[name].splitlines()
    for i, party in enumerate(names):
        (folder / f"{party}.csv").write_text(f"{head}\n{rows[i % len(rows)]}\n")
    with contextlib.ExitStack() as running:
        trial = _Trial(folder, names, running)
        aggregator = trial.aggregate(folder / "keys" / AGGREGATOR, folder / "out")
        before = {party: trial.answer(party, SECONDS) for party in names}
        trial.grow(aggregator, draw.choice((0, 0, 1, 2, 4)) * draw.random())
        if not trial.copy(how):
            return Tried(PUBLISHED)
        trial.grow(aggregator, draw.choice((1, 2, 4, 8)) * draw.random())
        time.sleep(draw.random() * 0.3)
        aggregator.kill()
        if aggregator.wait(SECONDS) == 0:
            return Tried(PUBLISHED)
        holders = trial.holders()
        gone = [party for party in names if draw.random() < 0.15]
        for program in before.values():
            program.kill()
            program.communicate(SECONDS)
        trial.put_back(how)
        after = [party for party in names if party not in gone]
        return trial.ended(how, after, holders | trial.holders())


class _Trial:
    """The processes of one trial."""

    def __init__(self, folder: Path, names: list[str], running: contextlib.ExitStack) -> None:
        self._folder = folder
        self._names = names
        self._running = running
        self._copy = folder / "copy"
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._where = f"127.0.0.1:{free.getsockname()[1]}"

    def aggregate(self, keys: Path, out: Path, *options: str) -> Program:
        """Start an aggregator."""
        where = ("--listen", self._where, "--out", out, "--joining", JOINING, "--resume")
        return self._started(Program("aggregate", keys, *where, *options))

    def answer(self, party: str, waiting: float) -> Program:
        """Start a party."""
        where = ("--connect", self._where, "--records", self._folder / f"{party}.csv")
        kept = ("--purse", self._folder / f"purse-{party}", "--waiting", waiting)
        return self._started(Program("answer", self._folder / "keys" / party, *where, *kept))

    def grow(self, aggregator: Program, kibibytes: float) -> None:
        """Wait until the record has grown by so much, or the survey ends."""
        path = partial_path(self._folder / "out" / TRANSCRIPT)
        end = time.monotonic() + SECONDS

        def size() -> int:
            with contextlib.suppress(FileNotFoundError):
                return path.stat().st_size
            return 0

        while not size() and aggregator.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        most = size() + kibibytes * 1024
        late = min(end, time.monotonic() + PATIENCE)
        while size() < most and aggregator.poll() is None and time.monotonic() < late:
            time.sleep(0.002)

    def copy(self, how: How) -> bool:
        """Copy the aggregator's folder and record while it runs; False once it has no record."""
        keys, out = self._folder / "keys" / AGGREGATOR, self._folder / "out"
        if how == "restore":
            made = self._started(Program("backup", keys, self._copy, "--out", out))
            return made.wait(SECONDS) == 0
        with contextlib.suppress(FileNotFoundError, shutil.Error):
            shutil.copytree(keys, self._copy / "keys")
            shutil.copytree(out, self._copy / "out")
            return True
        return False

    def put_back(self, how: How) -> None:
        """Put the copy in the place of what there is."""
        keys, out = self._folder / "keys" / AGGREGATOR, self._folder / "out"
        for folder in (keys, out):
            shutil.rmtree(folder)
        if how == "restore":
            made = self._started(Program("restore", self._copy, keys, "--out", out))
            assert made.wait(SECONDS) == 0
            return
        shutil.copytree(self._copy / "keys", keys)
        shutil.copytree(self._copy / "out", out)

    def holders(self) -> set[str]:
        """Parties whose folders have a receipt."""
        keys = self._folder / "keys"
        return {party for party in self._names if [*(keys / party).glob("receipt-*")]}

    def ended(self, how: How, after: list[str], holders: set[str]) -> Tried:
        """Go on with the copy until it ends, twice without the missing."""
        keys, out = self._folder / "keys" / AGGREGATOR, self._folder / "out"
        said = ""
        for options in ((), ("--without-missing",)):
            aggregator = self.aggregate(keys, out, *options)
            answers = [self.answer(party, JOINING + PATIENCE) for party in after]
            _, said = aggregator.communicate(SECONDS)
            for program in answers:
                program.communicate(SECONDS)
            holders |= self.holders()
            if "was restored from an older copy" not in said:
                break
        if aggregator.returncode != 0:
            older = "this record is older than what" in said
            return Tried(STOPPED if older else FAILED if "at least" in said else said[-300:])
        return self._published(how, after, holders)

    def _published(self, how: How, after: list[str], holders: set[str]) -> Tried:
        """Who of those who hold receipts is neither counted nor named."""
        record = self._folder / "out" / TRANSCRIPT
        assert (record.parent / RESULT).exists()
        content = b"".join(Unpacked(record.read_bytes()))
        reader = TranscriptReader(content)
        variant = BUILT_IN[reader.header.variant]
        without = {n for entry in reader if isinstance(entry, Restored) for n in entry.without}

        def is_counted(party: str) -> bool:
            try:
                receipt, _ = prove(lambda: [content], variant, PartyId(party))
            except NotCountedError:
                return False
            return receipt.word == COUNTED

        lost = tuple(party for party in sorted(holders - without) if not is_counted(party))
        if how == "plain" and not {*lost} & {*after}:
            return Tried(PUBLISHED, (), lost)
        return Tried(PUBLISHED, lost)

    def _started(self, program: Program) -> Program:
        self._running.push(program)
        self._running.callback(program.kill)
        return program


if __name__ == "__main__":
    sys.exit(main())
