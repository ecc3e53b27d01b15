"""A signal stops a survey, and nothing is lost by that."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from parties.keeping.records import GrowingTranscript
from protocol import AGGREGATOR
from protocol.messages import DONE
from protocol.transcript.entries import Departed, Ending, Sent
from protocol.wire.codec import decode_envelope
from scenarios import Outcome
from scenarios.errors import STOPPED, StoppedError
from scenarios.surveys.endings import STOPPED_BY_SIGNAL
from scenarios.surveys.operating.joining import JOINING
from scenarios.surveys.operating.operation import Operation
from scenarios.surveys.operating.progress import Phase
from scenarios.surveys.operating.signals import heeding
from tests.scenarios.command import ROOT, environment, python
from tests.scenarios.programs import Program
from tests.scenarios.survey_folders import (
    PLAN,
    ROWS,
    aggregating,
    make_folders,
    table,
)
from tests.scenarios.surveys.operating.held import closed_when, entries, hold, until
from transports.testing import HANGS

STOPPING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


@pytest.fixture(autouse=True)
def heeded() -> Iterator[None]:
    """Whoever started the tests may have had them ignore a signal."""
    before = {number: signal.getsignal(number) for number in STOPPING}
    for number, handler in before.items():
        if handler == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def stopped_when(operation: Operation, number: int, answered: int, most: int = 3) -> None:
    """Raise a signal in this process once so many have answered, and at most some are connected."""

    async def stop() -> None:
        await until(lambda: operation.progress.counts().answered == answered)
        await until(lambda: operation.progress.counts().connected <= most)
        signal.raise_signal(number)

    operation.tasks = (stop,)


@pytest.mark.parametrize("number", STOPPING)
def test_a_signal_stops_a_survey_that_waits_for_parties(
    keys: Path, tmp_path: Path, number: int
) -> None:
    operation = Operation(heeds_signals=True, folder=keys / AGGREGATOR)
    stopped_when(operation, number, 0)
    stopped, _ = hold(keys, tmp_path / "out", operation)
    assert isinstance(stopped, StoppedError)
    assert str(stopped).startswith(f"stopped by {signal.Signals(number).name}: ")
    # As after a crash: neither an ending nor a departure is on record.
    assert not [e for e in entries(tmp_path / "out") if isinstance(e, Departed | Ending)]
    assert not (keys / AGGREGATOR / JOINING).exists()


def test_who_has_answered_hears_so_before_the_end(keys: Path, tmp_path: Path) -> None:
    """The signal comes before what was said is on disk."""
    operation = Operation(heeds_signals=True, folder=keys / AGGREGATOR)
    stopped_when(operation, signal.SIGTERM, 1)
    closed_when(operation, keys, 2)
    stopped, answered = hold(keys, tmp_path / "out", operation, ["anna"], silent="bert")
    assert isinstance(stopped, StoppedError)
    assert answered["anna"].ending == DONE
    found = entries(tmp_path / "out")
    said = [decode_envelope(e.envelope) for e in found if isinstance(e, Sent)]
    assert [e.kind for e in said if e.sender == "anna"] == ["Report", "Head"]
    # anna may have said goodbye by then.
    assert {e.party for e in found if isinstance(e, Departed)} in ({"carl"}, {"anna", "carl"})
    assert not [e for e in found if isinstance(e, Ending)]


def test_a_survey_that_was_stopped_goes_on(keys: Path, tmp_path: Path) -> None:
    """anna is done with the program that is stopped, bert comes to the next one."""
    out = tmp_path / "out"
    operation = Operation(heeds_signals=True, folder=keys / AGGREGATOR)
    stopped_when(operation, signal.SIGTERM, 1, most=1)
    closed_when(operation, keys, 2)
    stopped, answered = hold(keys, out, operation, ["anna"], silent="bert")
    assert isinstance(stopped, StoppedError)
    resumed, found = Operation(), []

    async def look() -> None:
        found.append(resumed.progress.counts())

    resumed.tasks = (look,)
    outcome, answered_later = hold(keys, out, resumed, ["bert"], resume=True)
    assert isinstance(outcome, Outcome), outcome
    assert {outcome.counted, outcome.charter.attempt} == {2, 1}
    assert outcome.endings == {"anna": DONE, "bert": DONE, "carl": "never came"}
    assert answered["anna"].ending == answered_later["bert"].ending == DONE
    # carl never came, anna has left, and bert was asked.
    [counts] = found
    assert (counts.joined, counts.gone) == (2, {"never came": 1, "ended": 1})
    assert outcome.transcript.verify().intact


def test_a_signal_after_the_last_question_ends_the_survey_as_it_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not wait for a party that has stayed, but for a moment."""
    monkeypatch.setattr("scenarios.surveys.holding.aggregating.LINGER", 3600.0)
    monkeypatch.setattr("scenarios.surveys.operating.operation.DRAINING", 0.5)
    keys = make_folders(tmp_path, PLAN.replace("patience = 20.0", "patience = 0.5"))
    operation = Operation(heeds_signals=True)

    async def stop() -> None:
        await until(lambda: operation.progress.phase is Phase.ENDING)
        signal.raise_signal(signal.SIGTERM)
        await trio.sleep(30)
        raise AssertionError("still waiting")

    operation.tasks = (stop,)
    out = tmp_path / "out"
    outcome, _ = hold(keys, out, operation, ["anna", "bert"], silent="carl")
    assert isinstance(outcome, Outcome), outcome
    assert outcome.counted == 2
    assert (out / "transcript.svt.zst").exists()


def test_a_signal_at_the_end_leaves_time_to_acknowledge_the_last_words(
    keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until they are on a disk that is slow by then."""
    operation = Operation(heeds_signals=True)
    sync = GrowingTranscript.sync

    def slowly(record: GrowingTranscript) -> None:
        if operation.progress.phase is Phase.ENDING:
            time.sleep(0.5)
        sync(record)

    async def stop() -> None:
        await until(lambda: operation.progress.phase is Phase.ENDING)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(GrowingTranscript, "sync", slowly)
    operation.tasks = (stop,)
    outcome, answered = hold(keys, tmp_path / "out", operation, ["anna", "bert", "carl"])
    assert isinstance(outcome, Outcome), outcome
    assert {said.ending for said in answered.values()} == {DONE}


async def test_a_task_that_heeds_signals_is_ended_by_one() -> None:
    async def task() -> None:
        signal.raise_signal(signal.SIGHUP)
        await trio.sleep_forever()

    with pytest.raises(StoppedError, match=r"^stopped by SIGHUP$"):
        await heeding(task)


async def test_a_task_that_heeds_signals_gives_what_it_returns() -> None:
    async def task(number: int) -> int:
        return number + 1

    assert await heeding(task, 1) == 2


OBEYING = """
import signal
import trio
from scenarios.surveys.operating.signals import obey, receiving

async def main():
    with receiving() as received:
        signal.raise_signal(signal.{first})
        async def stop(name):
            print(name, flush=True)
            signal.raise_signal(signal.{second})
            await trio.sleep_forever()
        await obey(received, stop)

signal.signal(signal.SIGHUP, signal.SIG_IGN)
trio.run(main)
"""


def obeying(first: str, second: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", OBEYING.format(first=first, second=second)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(),
        timeout=HANGS,
        check=False,
    )


def test_a_second_signal_ends_the_program_at_once() -> None:
    done = obeying("SIGTERM", "SIGINT")
    assert (done.returncode, done.stdout) == (-signal.SIGINT, "SIGTERM\n"), done.stderr


@pytest.mark.slow
def test_a_signal_that_was_ignored_from_the_start_stays_so() -> None:
    """As with ``nohup``."""
    done = obeying("SIGHUP); signal.raise_signal(signal.SIGTERM", "SIGTERM")
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "SIGTERM\n"), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", STOPPING)
def test_a_party_that_is_stopped_says_what_it_spent(
    keys: Path, tmp_path: Path, number: int
) -> None:
    """Its processes: the aggregator is stopped in the end, too."""
    records = table(tmp_path / "r.csv", *ROWS)
    with aggregating(keys, tmp_path / "out", "--joining", 600) as (aggregator, where, _):
        party = Program("answer", keys / "anna", "--connect", where, "--records", records)
        try:
            heard = [*keys.glob("anna/heard-*")]
            while not heard:
                heard = [*keys.glob("anna/heard-*")]
            party.send_signal(number)
            out, _ = party.communicate(timeout=HANGS)
        finally:
            party.kill()
        name = signal.Signals(number).name
        assert out == (
            f"stopped by {name}; epsilon 0 spent per respondent\n"
            f"acknowledged: no, as far as this party knows\nnext: {STOPPED_BY_SIGNAL.following}\n"
        )
        assert party.returncode == STOPPED
        aggregator.send_signal(number)
        out, complained = aggregator.communicate(timeout=HANGS)
    assert (aggregator.returncode, out) == (STOPPED, "")
    assert complained.startswith(f"sottovoce: stopped by {name}: ")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
    return port


@pytest.mark.slow
@pytest.mark.parametrize("number", STOPPING)
def test_parties_outlive_an_aggregator_that_is_stopped(
    keys: Path, tmp_path: Path, number: int
) -> None:
    """Each is a process; the first two are connected when it stops, and start once."""
    records = table(tmp_path / "r.csv", *ROWS)
    where = f"127.0.0.1:{free_port()}"
    command = ("aggregate", keys / AGGREGATOR, "--listen", where, "--out", tmp_path / "out")
    options = ("--joining", 600, "--json", "--resume", "--log-json", tmp_path / "log")
    parties = []

    def answer(name: str) -> None:
        said = ("answer", keys / name, "--connect", where, "--records", records)
        parties.append(Program(*said))

    def joined(count: int) -> None:
        while f'"joined": {count},' not in (tmp_path / "log").read_text():
            assert aggregator.poll() is None, aggregator.communicate()

    (tmp_path / "log").touch()
    aggregator = Program(*command, *options)
    try:
        answer("anna")
        answer("bert")
        joined(2)
        aggregator.send_signal(number)
        aggregator.communicate(timeout=HANGS)
        assert aggregator.returncode == STOPPED
        aggregator = Program(*command, *options)
        answer("carl")
        out, complained = aggregator.communicate(timeout=HANGS)
        assert aggregator.returncode == 0, complained
        assert json.loads(out)["counted"] == 3
        for party in parties:
            out, complained = party.communicate(timeout=HANGS)
            assert out.startswith("done; epsilon 2 spent per respondent\n"), complained
            assert party.returncode == 0
    finally:
        for program in (aggregator, *parties):
            program.kill()
            program.communicate()


NOHUP = """
import signal
import socket
import sys
from tests.scenarios.programs import Program
from transports.testing import HANGS

signal.signal(signal.SIGHUP, signal.SIG_IGN)
with socket.create_server(("127.0.0.1", 0)) as mute:
    where = f"127.0.0.1:{mute.getsockname()[1]}"
    party = Program("answer", sys.argv[1], "--connect", where, "--records", sys.argv[2])
    caller, _ = mute.accept()
    with caller:
        party.send_signal(signal.SIGHUP)
        _, complained = party.communicate(timeout=HANGS)
print(complained, end="")
"""


@pytest.mark.slow
def test_programs_are_stopped_by_sighup_in_tests_that_nohup_runs(
    keys: Path, tmp_path: Path
) -> None:
    records = table(tmp_path / "r.csv", *ROWS)
    said = python("-c", NOHUP, keys / "anna", records, timeout=HANGS)
    assert said.out.startswith("sottovoce: stopped by SIGHUP; nothing spent; "), said.err


@pytest.mark.slow
def test_a_party_that_is_stopped_before_it_is_let_in(keys: Path, tmp_path: Path) -> None:
    records = table(tmp_path / "r.csv", *ROWS)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        where = f"127.0.0.1:{mute.getsockname()[1]}"
        party = Program("answer", keys / "anna", "--connect", where, "--records", records)
        try:
            caller, _ = mute.accept()
            with caller:
                party.terminate()
                out, complained = party.communicate(timeout=HANGS)
        finally:
            party.kill()
    assert (out, party.returncode) == ("", STOPPED)
    assert complained.startswith("sottovoce: stopped by SIGTERM; nothing spent; acknowledged: no, ")
