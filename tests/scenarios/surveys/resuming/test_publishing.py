"""An aggregator that dies when all is on record: the next program only publishes."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import NoReturn

import pytest
import trio

from parties.keeping.attempts import STREAM_SECRET
from parties.keeping.members import Member
from parties.keeping.record_names import first_checkpoint_path, partial_path
from parties.keeping.records import GrowingTranscript
from protocol import AGGREGATOR, LocalProtocolError
from protocol.errors import UsageError
from protocol.transcript import resuming
from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.transcript.recorder import Recorder
from scenarios import Finished
from scenarios.statement.runs import run_values
from scenarios.surveys.answering import Answering, answer_survey
from scenarios.surveys.holding.aggregating import aggregate_survey, hold
from scenarios.surveys.holding.attempts import attempting
from scenarios.surveys.members import read_member
from scenarios.surveys.operating.operation import Operation
from tests.scenarios.survey_folders import ROWS, make_folders, table

WHO = ("anna", "bert", "carl")


class DiedError(BaseException):
    """The program is dead."""


def cosigned(recorder: Recorder) -> str:
    """A first checkpoint as witnesses give it back."""
    assert recorder.checkpoint is not None
    recorder.cosigned(recorder.checkpoint.note)
    return recorder.checkpoint.note


@pytest.fixture
def died(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Member, Path]:
    """An aggregator that has died before its record got its name, and that name."""
    keys, transcript = make_folders(tmp_path), tmp_path / "out" / "transcript.svt.zst"
    member = read_member(keys / AGGREGATOR)

    def die(record: GrowingTranscript, checkpoint: SignedCheckpoint | None) -> NoReturn:
        record.sync()
        raise DiedError

    async def everybody() -> None:
        with attempting(member, transcript=transcript, begin=cosigned) as attempt:
            async with trio.open_nursery() as nursery:

                def listening(where: str) -> None:
                    host, _, port = where.rpartition(":")
                    for name, row in zip(WHO, ROWS, strict=True):
                        answer = functools.partial(
                            answer_survey,
                            read_member(keys / name),
                            Answering(
                                records=table(tmp_path / f"{name}.csv", row),
                                purse=tmp_path / f"purse-{name}",
                            ),
                            host=host,
                            port=int(port),
                        )
                        nursery.start_soon(answer)

                await hold(attempt, host="127.0.0.1", port=0, joining=60.0, listening=listening)

    with monkeypatch.context() as patched:
        patched.setattr(GrowingTranscript, "finish", die)
        with pytest.raises(BaseExceptionGroup) as found:
            trio.run(everybody)
    assert found.value.subgroup(DiedError) is not None
    assert not transcript.exists()
    return member, transcript


def publish(member: Member, transcript: Path, operation: Operation | None = None) -> int:
    """How many are counted in what the next program publishes."""
    outcome = aggregate_survey(
        member,
        host="127.0.0.1",
        port=0,
        transcript=transcript,
        joining=0.0,
        listening=lambda where: None,
        resume=True,
        operation=operation,
    )
    counted: int = run_values(Finished(outcome=outcome))["counted"]
    return counted


def test_with_a_cosigned_first_checkpoint(died: tuple[Member, Path]) -> None:
    member, transcript = died
    before = first_checkpoint_path(transcript).read_bytes()
    assert publish(member, transcript) == len(WHO)
    assert transcript.exists()
    assert first_checkpoint_path(transcript).read_bytes() == before


def test_the_waits_on_record_are_counted(died: tuple[Member, Path]) -> None:
    operation = Operation()
    publish(*died, operation)
    assert operation.progress.closed == {"Report": 1}


def test_a_record_that_has_its_name_was_whole(died: tuple[Member, Path]) -> None:
    """What follows its last frame was synced: no crash takes it away."""
    member, transcript = died
    content = partial_path(transcript).read_bytes()
    partial_path(transcript).unlink()
    for cut in (content[:-1], content[:-300], content[:-512] + bytes(512)):
        transcript.write_bytes(cut)
        with pytest.raises(UsageError, match=r"damaged.*; 'sottovoce abandon --lost' gives"):
            publish(member, transcript)
        assert transcript.read_bytes() == cut
    transcript.write_bytes(content)
    assert publish(member, transcript) == len(WHO)


def test_without_its_secret_it_does_not_go_on(died: tuple[Member, Path]) -> None:
    member, transcript = died
    [secret] = member.folder.glob(f"{STREAM_SECRET}-*")
    secret.unlink()
    with pytest.raises(UsageError, match="the attempt cannot go on"):
        publish(member, transcript)
    assert not list(member.folder.glob(f"{STREAM_SECRET}-*"))


@pytest.mark.parametrize("torn", [0, 1, 60, 400])
def test_a_refusal_changes_nothing(
    died: tuple[Member, Path], monkeypatch: pytest.MonkeyPatch, torn: int
) -> None:
    """The record is whole, or a crash has cut it short; another version says something else."""
    member, transcript = died
    record = partial_path(transcript)
    os.truncate(record, record.stat().st_size - torn)

    def files() -> dict[Path, bytes]:
        places = (member.folder, transcript.parent)
        return {path: path.read_bytes() for place in places for path in place.iterdir()}

    before = files()
    with monkeypatch.context() as patched:
        patched.setattr(resuming._Rerun, "_hear", lambda *_: None)
        with pytest.raises(LocalProtocolError, match="does not say again what is on record"):
            publish(member, transcript)
    assert files() == before
    if not torn:
        assert publish(member, transcript) == len(WHO)
