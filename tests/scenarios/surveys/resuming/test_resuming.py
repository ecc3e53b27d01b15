"""An aggregator that dies at any moment goes on with ``resume``; its parties notice a lost link."""

from __future__ import annotations

import contextvars
import functools
import itertools
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from parties.actor import run_machine
from parties.keeping.checkpoints import read_checkpoint
from parties.keeping.packing import SECTOR, Packer, Unpacked
from parties.keeping.record_names import checkpoint_path, partial_path
from protocol import AGGREGATOR
from protocol.crypto.randomness import Streams
from protocol.errors import UsageError
from protocol.messages import DONE, ROLE_STREAM
from protocol.session.machine import Machine
from protocol.session.run import machine_ending
from protocol.transcript.checkpoints import read_note
from protocol.transcript.entries import Sent
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.recorder import Recorder
from scenarios import Finished, Outcome, open_transcript, read_plan, read_records
from scenarios.statement.runs import run_values
from scenarios.surveys.enrolment.folders import make_keys
from scenarios.surveys.holding import aggregating
from scenarios.surveys.holding.aggregating import hold
from scenarios.surveys.holding.attempts import attempting, make_ready
from scenarios.surveys.members import read_member, tls_context
from tests.scenarios.survey_folders import PLAN, PLANS, ROWS, make_folders, table
from tests.scenarios.surveys.test_attempts import Signing
from transports.lasting.link import connect_lasting
from transports.switch import Switch
from transports.testing import HANGS
from transports.tls import client_context

WHO = ("anna", "bert", "carl")
FILE_CALLS = ("write", "fsync", "rename", "replace", "link", "unlink", "ftruncate")
SURVEYS = {
    "reports": PLAN,
    **{name: PLANS[name].replace("quorum = 4", "quorum = 2") for name in ("secure-sum", "rrba")},
}

_program: contextvars.ContextVar[Program | None] = contextvars.ContextVar("program", default=None)


class KilledError(BaseException):
    """The program is dead: nothing handles this, and nothing that it does any more happens."""


class Program:
    """A run of the aggregator's program, which may be killed.

    Args:
        of: what it is killed at: its calls about files, or the entries of its record.
        at: which of them; None for none.
        torn: whether half of what it was writing gets written.
    """

    def __init__(self, of: str = "", at: int | None = None, *, torn: bool = False) -> None:
        self.counts = {"calls": 0, "entries": 0}
        self.dead = False
        self._of = of
        self._at = at
        self._torn = torn

    def comes_to(self, of: str, half: Callable[[], object] = lambda: None) -> None:
        """It is about to do something."""
        if self.dead:
            raise KilledError
        self.counts[of] += 1
        if (of, self.counts[of]) == (self._of, self._at):
            self.dead = True
            if self._torn:
                half()
            raise KilledError


@pytest.fixture(autouse=True)
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """What programs do is counted, and parties come back soon."""
    monkeypatch.setattr("transports.lasting.link.SOON", 0.01)
    monkeypatch.setattr("transports.lasting.link.LATE", 0.05)

    def watch(name: str) -> None:
        call = getattr(os, name)

        def counted(*given: Any, **options: Any) -> Any:
            program = _program.get()
            if program is not None:
                half = functools.partial(_half, call, given) if name == "write" else lambda: None
                program.comes_to("calls", half)
            return call(*given, **options)

        monkeypatch.setattr(os, name, counted)

    for name in FILE_CALLS:
        watch(name)
    append = Recorder._append

    def appended(recorder: Recorder, entry: Any) -> None:
        program = _program.get()
        if program is not None:
            program.comes_to("entries")
        append(recorder, entry)

    monkeypatch.setattr(Recorder, "_append", appended)


def _half(write: Callable[[int, bytes], int], given: tuple[int, bytes]) -> None:
    descriptor, content = given
    write(descriptor, content[: len(content) // 2])


@pytest.fixture(scope="module", params=SURVEYS)
def folders(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folders(tmp_path_factory.mktemp("survey"), SURVEYS[request.param])


class Survey:
    """A survey among parties in this process, over TLS.

    Args:
        folders: of the members, none of whom has taken part.
        here: where all files go.

    Attributes:
        endings: of each party.
        acknowledged: who holds an acknowledgement of all that it said.
        roots: of each size of the log, the roots that were signed, in what has left a program or
            was on disk when it died.
    """

    def __init__(self, folders: Path, here: Path) -> None:
        self.keys = Path(shutil.copytree(folders, here / "keys"))
        self.transcript = here / "out" / "transcript.svt.zst"
        self.endings: dict[str, str] = {}
        self.acknowledged: set[str] = set()
        self.roots: dict[int, set[bytes]] = {}
        self._here = here
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]

    def held(self, *programs: Program, left: Callable[[Path], object] = str) -> Outcome:
        """Hold it: each program goes on where the one before was killed.

        Args:
            left: is given the record of a program that was killed.
        """

        async def everybody() -> Outcome:
            with trio.fail_after(HANGS):
                async with trio.open_nursery() as nursery:
                    for place, name in enumerate(WHO):
                        nursery.start_soon(self._party, name, place)
                    outcomes: list[Outcome] = []
                    for program in programs:
                        try:
                            await self._live(program, outcomes)
                            if program.dead:
                                left(partial_path(self.transcript))
                        except* UsageError as errors:
                            # Killed when all was published, and only secrets were left to erase.
                            found = errors.subgroup(lambda error: "is over" in str(error))
                            if found is None or not outcomes:
                                raise
                    assert not programs[-1].dead
            return outcomes[-1]

        return trio.run(everybody)

    async def _live(self, program: Program, outcomes: list[Outcome]) -> None:
        async def live() -> None:
            _program.set(program)
            member = read_member(self.keys / AGGREGATOR)
            make_ready(member, self.transcript, resume=True)
            with attempting(member, transcript=self.transcript, resume=True) as attempt:
                outcomes.append(
                    await hold(
                        attempt,
                        host="127.0.0.1",
                        port=self._port,
                        joining=3.0,
                        listening=lambda where: None,
                    )
                )

        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(live)
        except BaseException as error:
            if not program.dead or not is_killed(error):
                raise
            self._note(partial_path(self.transcript))

    def _note(self, record: Path) -> None:
        if record.exists() and record.stat().st_size > 1000:
            reader = TranscriptReader(Unpacked(record.read_bytes()))
            list(reader)
            for note in map(read_note, reader.notes):
                self.roots.setdefault(note.size, set()).add(note.root)

    async def _party(self, name: str, place: int) -> None:
        member = read_member(self.keys / name)
        records = read_records(
            table(self._here / f"{name}.csv", ROWS[place]), member.charter.variant.survey
        )
        streams = Streams(bytes(31) + bytes([place]), member.charter.session)
        machine = Machine(
            member.charter,
            member.identity.name,
            streams.stream(name, ROLE_STREAM),
            records=records,
            identity=member.identity,
        )
        async with connect_lasting(
            "127.0.0.1",
            self._port,
            charter=member.charter,
            identity=member.identity,
            tls=tls_context(member.folder, client_context),
            patience=60.0,
        ) as link:
            await run_machine(machine, link)
            acknowledgement = await link.acknowledgement()
            if acknowledgement is not None:
                self.acknowledged.add(name)
                self.roots.setdefault(acknowledgement.size, set()).add(acknowledgement.root)
        self.endings[name] = machine_ending(machine)

    def check(self, outcome: Outcome, signing: Signing) -> None:
        """One accepted record, with everybody in it; nothing signed twice."""
        assert run_values(Finished(outcome=outcome))["counted"] == len(WHO)
        assert set(outcome.endings.values()) == {DONE}
        assert self.endings == dict.fromkeys(WHO, DONE)
        assert self.acknowledged == set(WHO)
        checkpoint = read_checkpoint(checkpoint_path(self.transcript))
        found = open_transcript(self.transcript).verify(checkpoint=checkpoint)
        assert found.faults == ()
        assert found.intact
        assert len(found.signed_by) == len(WHO)
        assert [path.name for path in self.transcript.parent.glob("*.partial")] == []
        assert not [*(self.keys / AGGREGATOR).glob("*-secret-*")]
        assert not [*(self.keys / AGGREGATOR).glob(".*-secret-*")]
        self._note(self.transcript)
        assert len(self.roots) > 2
        assert {size for size, roots in self.roots.items() if len(roots) > 1} == set()
        # What was signed and neither left nor was on disk is nowhere.
        signing.signed.pop(read_member(self.keys / AGGREGATOR).identity.public)
        assert len(signing.signed) == len(WHO)
        assert signing.contradictions == set()


def is_killed(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_killed, error.exceptions))
    return isinstance(error, KilledError)


@pytest.fixture
def signing(monkeypatch: pytest.MonkeyPatch) -> Signing:
    return Signing(monkeypatch)


@contextmanager
def somewhere(path: Path) -> Iterator[Path]:
    path.mkdir()
    yield path
    shutil.rmtree(path)


def killed_everywhere(
    folders: Path, here: Path, signing: Signing, of: str, *, torn: bool, points: int | None
) -> int:
    """Kill a program at so many places, or at all; how many it was killed at."""
    whole = Program()
    with somewhere(here / "whole") as path:
        survey = Survey(folders, path)
        survey.check(survey.held(whole), signing)
    total = whole.counts[of]
    step = 1 if points is None else max(1, total // points)
    killed = 0
    for at in range(1, total + 1, step):
        signing.signed.clear()
        with somewhere(here / f"{of}-{at}") as path:
            survey = Survey(folders, path)
            first = Program(of, at, torn=torn)
            survey.check(survey.held(first, Program()), signing)
            killed += first.dead
    return killed


@pytest.mark.slow
def test_killed_at_calls_about_files(folders: Path, tmp_path: Path, signing: Signing) -> None:
    # How many calls there are varies a little: the last place may not be reached.
    assert killed_everywhere(folders, tmp_path, signing, "calls", torn=True, points=6) >= 5


@pytest.mark.slow
def test_killed_at_entries_of_the_record(folders: Path, tmp_path: Path, signing: Signing) -> None:
    assert killed_everywhere(folders, tmp_path, signing, "entries", torn=False, points=4) >= 4


def zeros_after(record: Path) -> None:
    """The machine has lost power: of what was not synced, there are zeros in its place."""
    record.write_bytes(record.read_bytes() + bytes(5000))


def zeros_within(record: Path) -> None:
    """The machine has lost power: of what was not synced, there is a part, and then zeros."""
    written = record.read_bytes() + Packer().pack(os.urandom(2000))
    record.write_bytes(written[: len(written) // SECTOR * SECTOR] + bytes(5000))


@pytest.mark.parametrize("left", [zeros_after, zeros_within])
def test_zeros_in_the_place_of_what_was_not_synced(
    left: Callable[[Path], object], folders: Path, tmp_path: Path, signing: Signing
) -> None:
    survey = Survey(folders, tmp_path)
    first = Program("entries", 9)
    survey.check(survey.held(first, Program(), left=left), signing)
    assert first.dead


def test_a_closing_that_is_on_record_in_part_is_whole_before_anybody_is_heard(
    tmp_path: Path, signing: Signing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever answered between two ranges would seem to be left out by the second."""
    for module in ("protocol.session.closings", "protocol.transcript.resuming"):
        monkeypatch.setattr(f"{module}.CLOSING_MEMBERS", 8)
    monkeypatch.setattr("protocol.session.closings._BYTES", 1)
    names = tuple(f"party-{number}" for number in range(8))
    monkeypatch.setattr(f"{__name__}.WHO", names)
    monkeypatch.setattr(f"{__name__}.ROWS", [ROWS[0]] * len(names))
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    make_keys(read_plan(plan), names, tmp_path / "made", days=1)
    first, again = Program(), Program()
    closings = itertools.count(1)
    append = Recorder._append
    open_hub = aggregating.open_lasting
    opened = []

    def dies_between(recorder: Recorder, entry: Any) -> None:
        if _program.get() is first and isinstance(entry, Sent) and b"Closed" in entry.envelope:
            recorder.flush()
            first.dead = next(closings) == 2
        append(recorder, entry)

    def opening(switch: Switch, *given: Any, **options: Any) -> Any:
        opened.append(switch.exchange.accepted(AGGREGATOR))
        return open_hub(switch, *given, **options)

    monkeypatch.setattr(Recorder, "_append", dies_between)
    monkeypatch.setattr(aggregating, "open_lasting", opening)
    survey = Survey(tmp_path / "made", tmp_path)
    survey.check(survey.held(first, again), signing)
    assert first.dead
    # Its questions, and both ranges.
    assert opened == [0, len(names) + 2]


@pytest.mark.slow
@pytest.mark.parametrize("torn", [False, True])
def test_killed_at_every_call_about_files(
    folders: Path, tmp_path: Path, signing: Signing, torn: bool
) -> None:
    killed = killed_everywhere(folders, tmp_path, signing, "calls", torn=torn, points=None)
    print(f"killed at {killed} calls about files")
    assert killed >= 40


@pytest.mark.slow
def test_killed_at_every_entry(folders: Path, tmp_path: Path, signing: Signing) -> None:
    killed = killed_everywhere(folders, tmp_path, signing, "entries", torn=False, points=None)
    print(f"killed at {killed} entries")
    assert killed >= 15
