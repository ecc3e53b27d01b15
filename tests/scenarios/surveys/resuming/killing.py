"""Aggregators that are killed.

Run it by ``python -m tests.scenarios.surveys.resuming.killing --trials 200``.

Each trial is a survey among processes over TLS. Its aggregator is killed, stopped or left without
room on its disk at drawn moments, and goes on with ``--resume``; nobody touches the parties.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from parties.keeping.record_names import RESULT, TRANSCRIPT, checkpoint_path, partial_path
from protocol import AGGREGATOR
from scenarios import read_plan
from scenarios.surveys.enrolment.folders import make_keys
from tests.scenarios.programs import Program
from tests.scenarios.survey_folders import PLANS, RECORDS

FAULTS = ("SIGKILL", "SIGTERM", "ENOSPC")
VARIANTS = ("rr-independent", "secure-sum", "rr-clusters", "rrba", "privkvm")
MOST_FAULTS = 3
SECONDS = 300.0


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--trials", type=int, default=200)
    options.add_argument("--parties", type=int, default=19)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    faults: Counter[str] = Counter()
    losses = 0
    for trial in range(1, given.trials + 1):
        with tempfile.TemporaryDirectory() as folder:
            made, problems = tried(
                Path(folder), given.parties, random.Random(f"{given.seed} {trial}")
            )
        faults.update(made)
        losses += bool(problems)
        for problem in problems:
            print(f"trial {trial}: {problem}", flush=True)
        print(f"{trial} trials, {dict(faults)}, {losses} with losses", flush=True)
    return 1 if losses else 0


def tried(folder: Path, parties: int, draw: random.Random) -> tuple[list[str], list[str]]:
    """One trial: which faults were made, and what was lost."""
    name = draw.choice(VARIANTS)
    plan = folder / "plan.toml"
    plan.write_text(PLANS[name].replace("patience = 20.0", "patience = 60.0"))
    names = [f"party-{i}" for i in range(1, parties + 1)]
    make_keys(read_plan(plan), names, folder / "keys", days=1)
    head, *rows = RECORDS[name].splitlines()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with contextlib.ExitStack() as running:
        trial = _Trial(folder, port, running)
        aggregator = trial.aggregate(None)
        answers = {}
        for i, party in enumerate(names):
            records = folder / f"{party}.csv"
            records.write_text(f"{head}\n{rows[i % len(rows)]}\n")
            answers[party] = trial.answer(party, records)
        made = []
        for _ in range(draw.randint(1, MOST_FAULTS)):
            fault = draw.choice(FAULTS)
            if not trial.has_grown(aggregator, draw.choice((0, 0, 2, 8, 16)) * draw.random()):
                break
            time.sleep(draw.random() * 0.2)
            if fault == "ENOSPC":
                # It goes on with little room, until that is used up.
                aggregator.kill()
                aggregator.wait(SECONDS)
                room = trial.size + draw.randint(200, 6000)
                aggregator = trial.aggregate(room)
            else:
                aggregator.send_signal(getattr(signal, fault))
            if aggregator.wait(SECONDS) == 0:
                break
            made.append(fault)
            aggregator = trial.aggregate(None)
        return made, trial.losses(aggregator, answers)


class _Trial:
    """The processes of one trial."""

    def __init__(self, folder: Path, port: int, running: contextlib.ExitStack) -> None:
        self._folder = folder
        self._where = f"127.0.0.1:{port}"
        self._running = running

    @property
    def _record(self) -> Path:
        return self._folder / "out" / TRANSCRIPT

    @property
    def size(self) -> int:
        """How large the record is that grows."""
        with contextlib.suppress(FileNotFoundError):
            return partial_path(self._record).stat().st_size
        return 0

    def aggregate(self, room: int | None) -> Program:
        """Start an aggregator; no file of it may be larger than ``room``."""
        options = ("--listen", self._where, "--out", self._folder / "out", "--resume")
        keys = self._folder / "keys" / AGGREGATOR
        return self._started(Program("aggregate", keys, *options, room=room))

    def answer(self, party: str, records: Path) -> Program:
        """Start a party."""
        options = ("--connect", self._where, "--records", records, "--waiting", SECONDS)
        purse = ("--purse", self._folder / f"purse-{party}")
        keys = self._folder / "keys" / party
        return self._started(Program("answer", keys, *options, *purse))

    def has_grown(self, aggregator: Program, kibibytes: float) -> bool:
        """Wait until the record has grown by so much; False if the survey ends before."""
        end = time.monotonic() + SECONDS
        while not self.size and aggregator.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        most = self.size + kibibytes * 1024
        while self.size < most and aggregator.poll() is None and time.monotonic() < end:
            time.sleep(0.002)
        return aggregator.poll() is None

    def losses(self, aggregator: Program, answers: dict[str, Program]) -> list[str]:
        """What was lost, once all have ended."""
        lost = []
        _, said = aggregator.communicate(SECONDS)
        # The one before may have been killed when it had published all, before it could end.
        if aggregator.returncode != 0 and "is over; without --resume" not in said:
            lost.append(f"the aggregator ended with {aggregator.returncode}: {said[-300:]}")
        for party, program in answers.items():
            _, said = program.communicate(SECONDS)
            if program.returncode != 0:
                lost.append(f"{party} ended with {program.returncode}: {said[-300:]}")
        if lost:
            return lost
        result = json.loads((self._folder / "out" / RESULT).read_text())
        if (result["counted"], result["attempt"]) != (len(answers), 1):
            lost.append(f"{result['counted']} of {len(answers)} counted")
        audit = self._started(
            Program(
                *("audit", self._record, "--checkpoint", checkpoint_path(self._record)),
                *("--member", self._folder / "keys" / AGGREGATOR, "--json"),
            )
        )
        said, _ = audit.communicate(SECONDS)
        if json.loads(said)["verdict"] != "sound":
            lost.append("the audit does not find the record sound")
        return lost

    def _started(self, program: Program) -> Program:
        self._running.push(program)
        self._running.callback(program.kill)
        return program


if __name__ == "__main__":
    sys.exit(main())
