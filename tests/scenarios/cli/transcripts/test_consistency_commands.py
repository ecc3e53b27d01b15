"""``verify --checkpoints``, ``prove --since``, ``consistency``: publishing and consistency."""

from __future__ import annotations

import json
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
from tests.recorded.checkpointed import checkpoints_of, record, spoken
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


def test_two_stories_of_one_size_are_told_by_the_command(tmp_path: Path) -> None:
    one, other = spoken([(1, 2)]), spoken([(1, 3)])
    folder = tmp_path / "published"
    (tmp_path / "a").write_bytes(one)
    (tmp_path / "b").write_bytes(other)
    assert sottovoce("verify", tmp_path / "a", "--checkpoints", folder).code == 0
    says = complaint(sottovoce("verify", tmp_path / "b", "--checkpoints", folder))
    [_, first, _] = checkpoints_of(one)
    assert says == (
        f"{folder / f'size-{first.size}.checkpoint'}: has another checkpoint than the transcript; "
        "publishing both would be a contradiction"
    )


def test_of_a_faulty_record_nothing_is_published(tmp_path: Path) -> None:
    path, folder = tmp_path / "transcript.svt.zst", tmp_path / "published"
    forgery = Forgery(record())
    forgery.entries[0][1] = 5
    for faulty in (forgery.write(), b"nothing"):
        path.write_bytes(faulty)
        assert sottovoce("verify", path, "--checkpoints", folder).code == 1
        assert not folder.exists()


def test_a_proof_holds(survey: Survey) -> None:
    said = sottovoce(*survey.check(2, 5))
    assert said.code == 0
    one = read_checkpoint(survey.checkpoints[2])
    assert said.out.splitlines() == [
        f"from the checkpoint of size {SIZES[2]} to that of size {SIZES[5]}",
        f"session {one.session.hex()}",
        "5 hashes in the proof",
        f"the checkpoint is signed by the key {one.key.hex()}",
        "compare it with the aggregator's key, or let --member do it",
        "holds",
    ]
    values = sottovoce(*survey.check(2, 5, "--json")).json
    assert (values["holds"], values["problems"]) == (True, [])
    assert values["aggregator_key"] == one.key.hex()
    assert (values["earlier"]["size"], values["later"]["size"]) == (SIZES[2], SIZES[5])


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


@pytest.mark.parametrize(("earlier", "later"), [(5, 2), (1, 5), (2, 4), (2, 2), (5, 5)])
def test_it_holds_between_no_other_checkpoints(survey: Survey, earlier: int, later: int) -> None:
    said = sottovoce(*survey.check(earlier, later))
    assert said.code == 1
    lines = said.out.splitlines()
    assert lines[-1] == "does NOT hold"
    problems = {line.removeprefix("problem: ") for line in lines[3:-1]}
    wrong = {"the proof leads to another checkpoint than the one given"} if later != 5 else set()
    if earlier != 2:
        wrong.add(f"the proof is from size {SIZES[2]}, not {SIZES[earlier]}")
        wrong.add("the later log does not begin like the earlier one")
    assert problems == wrong
    found = sottovoce(*survey.check(earlier, later, "--json"))
    assert found.code == 1
    assert json.loads(found.out)["holds"] is False


def test_it_may_end_before_the_end(
    survey: Survey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    since, until = survey.checkpoints[1], survey.checkpoints[4]
    values = sottovoce(
        "prove", survey.transcript, "--since", since, "--checkpoint", until, "--json"
    ).json
    path = tmp_path / values["file"]
    assert path.name == f"size-{SIZES[1]}-{SIZES[4]}.consistency"
    assert values["bytes"] == path.stat().st_size
    assert sottovoce("consistency", path, "--since", since, "--checkpoint", until).code == 0
    assert sottovoce("consistency", path, "--since", until, "--checkpoint", since).code == 1


def test_where_the_record_does_not_lead_there(survey: Survey, tmp_path: Path) -> None:
    def refused(content: bytes, *options: object) -> str:
        path = tmp_path / "other.svt"
        path.write_bytes(content)
        said = sottovoce("prove", path, *options, "--out", tmp_path / "x")
        assert not (tmp_path / "x").exists()
        return complaint(said, code=1)

    _, first, second, *_, last = survey.checkpoints
    fork = spoken([(2, 1, 1), (), (3, 1, 1, 1, 1), (2, 3, 4)])
    says = f"no consistency proof: the record has another log of size {SIZES[2]}: a fork"
    assert refused(fork, "--since", second) == says
    says = f"the checkpoint of size {SIZES[2]} is of another session than the record"
    assert refused(signed_run().content, "--since", second) == f"no consistency proof: {says}"
    says = f"no consistency proof: the record has 6 leaves, not size {SIZES[5]}"
    assert refused(spoken([(1, 2, 1)]), "--since", first, "--checkpoint", last) == says
    says = f"the checkpoint of size {SIZES[5]} comes after that of size {SIZES[1]}"
    back = refused(record(), "--since", last, "--checkpoint", first)
    assert back == f"no consistency proof: {says}"


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


def test_of_bad_arguments(survey: Survey, tmp_path: Path) -> None:
    since = ("--since", survey.checkpoints[2])
    last = ("--checkpoint", survey.checkpoints[5])
    prove, check = ("prove", survey.transcript), ("consistency", survey.proof)
    assert "PARTY, or --since" in complaint(sottovoce(*prove))
    assert "--since: takes neither" in complaint(sottovoce(*prove, "party-1", *since))
    variant = ("--variant", "own.py:Own")
    assert "--since: takes neither" in complaint(sottovoce(*prove, *since, *variant))
    for given, name in ((since, "--checkpoint"), (last, "--since")):
        assert complaint(sottovoce(*check, *given)) == f"Missing option '{name}'."
    says = complaint(sottovoce(*check, *since, *last, *variant))
    assert says == "--variant: expected --member too"
    missing = tmp_path / "missing"
    for command in (
        (*prove, "--since", missing),
        (*prove, *since, "--checkpoint", missing),
        ("prove", missing, *since),
        (*check, "--since", missing, *last),
        (*check, *since, "--checkpoint", missing),
        (*check, *since, *last, "--member", missing),
    ):
        assert str(missing) in complaint(sottovoce(*command))
    (tmp_path / "nothing").write_bytes(b"nothing")
    says = complaint(sottovoce("prove", tmp_path / "nothing", *since))
    assert "no readable header" in says
    says = complaint(sottovoce("consistency", survey.transcript, *since, *last))
    assert says.startswith(f"{survey.transcript}: ")
    says = complaint(sottovoce("check", survey.proof, *last))
    assert says == f"{survey.proof}: it is for 'sottovoce consistency'"
    says = complaint(sottovoce("evidence", survey.proof))
    assert says.endswith(": it is for 'sottovoce consistency'")


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
