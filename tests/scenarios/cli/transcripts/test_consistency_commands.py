"""``verify --checkpoints``, ``prove --since``, ``consistency``: publishing and consistency."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from parties.keeping.checkpoints import read_checkpoint, write_checkpoints
from parties.keeping.packing import Unpacked
from protocol import AGGREGATOR, RECORD
from protocol.errors import UsageError
from protocol.messages import Envelope
from protocol.transcript.header import make_header
from scenarios.surveys.members import read_member
from tests.recorded.checkpointed import checkpoints_of, record
from tests.recorded.forgeries import Forgery
from tests.recorded.runs import written
from tests.recorded.signed import TWO, changed_report, rewritten, signed_run
from tests.recorded.transcripts import sent
from tests.scenarios.command import complaint, sottovoce
from tests.scenarios.survey_folders import make_folders


class Survey(msgspec.Struct, frozen=True):
    """A record of five checkpoints, all of them published, and what was proved from the second."""

    transcript: Path
    checkpoints: tuple[Path, ...]
    proof: Path

    def check(self, earlier: int, later: int, *options: object) -> tuple[object, ...]:
        since, until = self.checkpoints[earlier], self.checkpoints[later]
        return ("consistency", self.proof, "--since", since, "--checkpoint", until, *options)


SIZES = [checkpoint.size for checkpoint in checkpoints_of(record())]


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    folder = tmp_path_factory.mktemp("survey")
    transcript, published = folder / "transcript.svt.zst", folder / "new" / "published"
    transcript.write_bytes(record())
    assert sottovoce("verify", transcript, "--checkpoints", published).code == 0
    paths = tuple(published / f"size-{size}.checkpoint" for size in SIZES)
    proof = folder / "since.consistency"
    said = sottovoce("prove", transcript, "--since", paths[2], "--out", proof)
    assert said.code == 0, said.err
    assert said.out.startswith(f"from the checkpoint of size {SIZES[2]} to that of size ")
    assert said.out.endswith(f"written: {proof} ({proof.stat().st_size:,} bytes)\n")
    return Survey(transcript, paths, proof)


def test_every_checkpoint_is_published_as_it_was_signed(survey: Survey) -> None:
    [folder] = {path.parent for path in survey.checkpoints}
    assert sorted(folder.iterdir()) == sorted(survey.checkpoints)
    assert [*map(read_checkpoint, survey.checkpoints)] == checkpoints_of(record())
    for path, checkpoint in zip(survey.checkpoints, checkpoints_of(record()), strict=True):
        assert path.read_text() == checkpoint.note


def test_of_a_record_that_grows_what_there_is_is_published(tmp_path: Path) -> None:
    """And what was published stays as it is."""
    content = record()
    path, folder = tmp_path / "transcript.svt.zst.partial", tmp_path / "published"
    # Before the header's end there is nothing, and without the last entry all but its checkpoint.
    for there, count in ((len(content) // 8, 0), (len(content) - 1, 5), (len(content) - 1, 5)):
        path.write_bytes(content[:there])
        said = sottovoce("verify", path, "--checkpoints", folder)
        assert said.code == 1
        assert "Incomplete. " in said.out
        assert len([*folder.glob("*")]) == count
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert sottovoce("verify", path, "--checkpoints", folder).code == 1
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_two_stories_are_not_published(tmp_path: Path) -> None:
    run = signed_run()
    fork = rewritten(run, changed_report(TWO, head=False))
    _, first, last = (checkpoint.size for checkpoint in checkpoints_of(run.content))
    for name, content in (("a", run.content), ("b", fork.content)):
        (tmp_path / name).write_bytes(content)
    folder = tmp_path / "published"
    assert sottovoce("verify", tmp_path / "a", "--checkpoints", folder).code == 0
    assert sottovoce("verify", tmp_path / "b", "--checkpoints", folder).code == 0
    fork = rewritten(run, changed_report(TWO))
    (tmp_path / "b").write_bytes(fork.content)
    notes = [checkpoint.note for checkpoint in checkpoints_of(fork.content)]
    with pytest.raises(UsageError, match=r"has another checkpoint than the transcript"):
        write_checkpoints(notes, folder)
    # One that differs keeps all from being written.
    (folder / f"size-{first}.checkpoint").unlink()
    with pytest.raises(UsageError, match=f"size-{last}"):
        write_checkpoints(notes, folder)
    assert not (folder / f"size-{first}.checkpoint").exists()
    assert read_checkpoint(folder / f"size-{last}.checkpoint") == run.checkpoint


def test_of_a_faulty_record_nothing_is_published(tmp_path: Path) -> None:
    path, folder = tmp_path / "transcript.svt.zst", tmp_path / "published"
    forgery = Forgery(record())
    forgery.entries[0][1] = 5
    for faulty in (forgery.write(), b"nothing"):
        path.write_bytes(faulty)
        assert sottovoce("verify", path, "--checkpoints", folder).code == 1
        assert not folder.exists()


def test_it_needs_neither_the_transcript_nor_its_folder(survey: Survey, tmp_path: Path) -> None:
    for name, path in zip(("x", "1", "4"), (survey.proof, *survey.checkpoints[2::3]), strict=True):
        (tmp_path / name).write_bytes(path.read_bytes())
    check = (
        "consistency",
        tmp_path / "x",
        "--since",
        tmp_path / "1",
        "--checkpoint",
        tmp_path / "4",
    )
    assert sottovoce(*check).code == 0


def test_whose_aggregators_it_is(tmp_path: Path) -> None:
    """A member knows its session and the aggregator's key."""
    keys = make_folders(tmp_path)
    aggregator = read_member(keys / "aggregator")
    closed = Envelope(aggregator.charter.session, AGGREGATOR, RECORD, 0, "Closed", b"")
    header = make_header(aggregator.charter)
    path, proof = tmp_path / "transcript.svt.zst", tmp_path / "x"
    path.write_bytes(written(header, (sent(0, closed),), signer=aggregator.identity).content)
    _, first, last = write_checkpoints(
        (checkpoint.note for checkpoint in checkpoints_of(Unpacked(path.read_bytes()))),
        tmp_path / "published",
    )
    assert sottovoce("prove", path, "--since", first, "--out", proof).code == 0
    check = ("consistency", proof, "--since", first, "--checkpoint", last, "--member")
    said = sottovoce(*check, keys / "bert")
    assert said.code == 0
    assert said.out.splitlines()[3:] == ["holds"]
    (tmp_path / "again").mkdir()
    said = sottovoce(*check, make_folders(tmp_path / "again") / "bert")
    assert said.code == 1
    assert said.out.splitlines()[3:] == [
        "problem: the checkpoints are of another survey",
        "problem: the checkpoints are not the aggregator's",
        "does NOT hold",
    ]


@pytest.mark.parametrize("content", [b"", b"1", b"1\n\n", b"\xff\n\n\n", b"x" * 50_000])
def test_of_files_that_are_no_proof(survey: Survey, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "noise"
    path.write_bytes(b"old " + content)
    since, last = ("--since", survey.checkpoints[2]), ("--checkpoint", survey.checkpoints[5])
    assert str(path) in complaint(sottovoce("consistency", path, *since, *last))


def test_no_proof_is_that_large(survey: Survey, tmp_path: Path) -> None:
    path = tmp_path / "noise"
    with path.open("wb") as file:
        file.write(b"old ")
        file.truncate((1 << 26) + 1)
    since, last = ("--since", survey.checkpoints[2]), ("--checkpoint", survey.checkpoints[5])
    assert "too large" in complaint(sottovoce("consistency", path, *since, *last))
