"""Aggregators that are killed.

Run it by ``python -m tests.scenarios.deployment.resuming.killing --trials 200``.

Each trial is a survey among processes over TLS. Its aggregator is killed, stopped or left without
room on its disk at drawn moments, and goes on with ``--resume``; nobody touches the parties. The
processes are forked from this one, which has imported the program: else most of a trial's processor
time would go into importing it some twenty times.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import resource
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import trio

import protocol.variants  # noqa: F401 - imported for the processes that are forked
from protocol.messages import AGGREGATOR
from scenarios.cli import main as sottovoce
from scenarios.deployment.enrolment.folders import make_keys
from scenarios.deployment.survey_plan import read_plan
from scenarios.files.kept_records import RESULT, TRANSCRIPT, partial_path
from tests.scenarios.command import command_of
from tests.scenarios.survey_folders import PLANS, RECORDS

FAULTS = ("SIGKILL", "SIGTERM", "ENOSPC")
VARIANTS = ("rr-independent", "secure-sum", "rr-clusters", "rrba", "privkvm")
MOST_FAULTS = 3
SECONDS = 300.0

# Commands import when they are asked for.
for command in ("aggregate", "answer", "audit"):
    command_of(command)


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
                aggregator.end()
                room = trial.size + draw.randint(200, 6000)
                aggregator = trial.aggregate(room)
            else:
                aggregator.send(getattr(signal, fault))
            if aggregator.end() == 0:
                break
            made.append(fault)
            aggregator = trial.aggregate(None)
        return made, trial.losses(aggregator, answers)


class _Command(multiprocessing.context.ForkProcess):
    """A command in a process of its own, as if it were started anew.

    Args:
        said: the file for what it prints.
        room: no file that it writes may be larger, in bytes; None if any may.
        arguments: after ``sottovoce``.
    """

    def __init__(self, said: Path, room: int | None, *arguments: object) -> None:
        super().__init__(daemon=True)
        self._said = said
        self._room = room
        self._arguments = [*map(str, arguments)]
        self.start()

    def run(self) -> None:
        """Do it, in the process that was forked."""
        sys.stdout = sys.stderr = self._said.open("w", buffering=1)
        # What was forked would all draw alike.
        random.seed()
        trio._core._run._r.seed()
        if self._room is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (self._room, self._room))
        sottovoce(self._arguments)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal; it may have ended, but nobody has asked yet."""
        assert self.pid is not None
        os.kill(self.pid, number)

    def end(self) -> int:
        """Wait for its end; how it has ended."""
        self.join(SECONDS)
        if self.exitcode is None:
            raise TimeoutError(f"{self._arguments[0]} has not ended after {SECONDS:g} s")
        return self.exitcode


class _Trial:
    """The processes of one trial."""

    def __init__(self, folder: Path, port: int, running: contextlib.ExitStack) -> None:
        self._folder = folder
        self._where = f"127.0.0.1:{port}"
        self._running = running
        self._lives = 0

    @property
    def _record(self) -> Path:
        return self._folder / "out" / TRANSCRIPT

    @property
    def size(self) -> int:
        """How large the record is that grows."""
        with contextlib.suppress(FileNotFoundError):
            return partial_path(self._record).stat().st_size
        return 0

    def aggregate(self, room: int | None) -> _Command:
        """Start an aggregator; no file of it may be larger than ``room``."""
        self._lives += 1
        said = self._folder / f"aggregator-{self._lives}.txt"
        options = ("--listen", self._where, "--out", self._folder / "out", "--resume")
        return self._start(said, room, "aggregate", self._folder / "keys" / AGGREGATOR, *options)

    def answer(self, party: str, records: Path) -> _Command:
        """Start a party."""
        options = ("--connect", self._where, "--records", records, "--waiting", SECONDS)
        purse = ("--purse", self._folder / f"purse-{party}")
        keys = self._folder / "keys" / party
        said = self._folder / f"{party}.txt"
        return self._start(said, None, "answer", keys, *options, *purse)

    def has_grown(self, aggregator: _Command, kibibytes: float) -> bool:
        """Wait until the record has grown by so much; False if the survey ends before."""
        end = time.monotonic() + SECONDS
        while not self.size and aggregator.is_alive() and time.monotonic() < end:
            time.sleep(0.01)
        most = self.size + kibibytes * 1024
        while self.size < most and aggregator.is_alive() and time.monotonic() < end:
            time.sleep(0.002)
        return aggregator.is_alive()

    def losses(self, aggregator: _Command, answers: dict[str, _Command]) -> list[str]:
        """What was lost, once all have ended."""
        lost = []
        if aggregator.end() != 0:
            said = (self._folder / f"aggregator-{self._lives}.txt").read_text()
            # The one before was killed when it had published all, before it could end.
            if "is over; without --resume" not in said:
                lost.append(f"the aggregator ended with {aggregator.exitcode}: {said[-300:]}")
        for party, process in answers.items():
            if process.end() != 0:
                said = (self._folder / f"{party}.txt").read_text()
                lost.append(f"{party} ended with {process.exitcode}: {said[-300:]}")
        if lost:
            return lost
        result = json.loads((self._folder / "out" / RESULT).read_text())
        if (result["counted"], result["attempt"]) != (len(answers), 1):
            lost.append(f"{result['counted']} of {len(answers)} counted")
        audit = self._start(
            self._folder / "audit.txt",
            None,
            *("audit", self._record, "--checkpoint", self._record.with_suffix(".checkpoint")),
            *("--member", self._folder / "keys" / AGGREGATOR, "--json"),
        )
        audit.end()
        if json.loads((self._folder / "audit.txt").read_text())["verdict"] != "sound":
            lost.append("the audit does not find the record sound")
        return lost

    def _start(self, said: Path, room: int | None, *arguments: object) -> _Command:
        process = _Command(said, room, *arguments)

        def end() -> None:
            process.kill()
            process.join()

        self._running.callback(end)
        return process


if __name__ == "__main__":
    sys.exit(main())
