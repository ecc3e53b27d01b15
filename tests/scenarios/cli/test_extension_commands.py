"""``verify --checkpoints``, ``prove --since``, ``check --since``: publishing and extensions."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from protocol.messages import AGGREGATOR, RECORD, Envelope
from protocol.transcript.entries import Refused
from protocol.transcript.header import header_of
from protocol.transcript.reader import TranscriptReader
from scenarios.deployment.members import read_member
from scenarios.files.checkpoints import checkpoints_of as first_checkpoints_of
from scenarios.files.checkpoints import read_checkpoint, write_checkpoints
from scenarios.running.errors import UsageError
from tests.recorded.checkpointed import checkpoints_of, record, spoken
from tests.recorded.runs import written
from tests.recorded.signed import TWO, changed_report, rewritten, signed_run
from tests.recorded.transcripts import sent
from tests.scenarios.command import complaint, sottovoce
from tests.scenarios.survey_folders import make_folders


class Survey(msgspec.Struct, frozen=True):
    """A record of five checkpoints, all of them published, and what was proved from the second."""

    transcript: Path
    checkpoints: tuple[Path, ...]
    extension: Path

    def check(self, earlier: int, later: int, *options: object) -> tuple[object, ...]:
        since, until = self.checkpoints[earlier], self.checkpoints[later]
        return ("check", self.extension, "--since", since, "--checkpoint", until, *options)


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    folder = tmp_path_factory.mktemp("survey")
    transcript, published = folder / "transcript.svt", folder / "new" / "published"
    transcript.write_bytes(record())
    assert sottovoce("verify", transcript, "--checkpoints", published).code == 0
    paths = tuple(published / f"checkpoint-{i}.json" for i in range(5))
    extension = folder / "since.extension"
    said = sottovoce("prove", transcript, "--since", paths[1], "--out", extension)
    assert said.code == 0, said.err
    assert said.out.startswith("from checkpoint 1 (")
    assert said.out.endswith(f"written: {extension} ({extension.stat().st_size:,} bytes)\n")
    return Survey(transcript, paths, extension)


def test_every_checkpoint_is_published_as_it_was_signed(survey: Survey) -> None:
    [folder] = {path.parent for path in survey.checkpoints}
    assert sorted(folder.iterdir()) == [*survey.checkpoints]
    assert [*map(read_checkpoint, survey.checkpoints)] == checkpoints_of(record())
    # What has come after the verification is left for the next one.
    verified = first_checkpoints_of(TranscriptReader(record()), 2)
    assert [*verified] == checkpoints_of(record())[:2]


def test_of_a_record_that_grows_what_there_is_is_published(tmp_path: Path) -> None:
    """And what was published stays as it is."""
    content = record()
    path, folder = tmp_path / "transcript.svt.partial", tmp_path / "published"
    # Up to the header there is nothing, and without the closing record everything.
    for there, count in ((len(content) // 8, 0), (len(content) - 1, 5), (len(content) - 1, 5)):
        path.write_bytes(content[:there])
        said = sottovoce("verify", path, "--checkpoints", folder)
        assert said.code == 1
        assert "Incomplete: " in said.out
        assert len([*folder.glob("*")]) == count
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert sottovoce("verify", path, "--checkpoints", folder).code == 1
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_two_stories_are_not_published(tmp_path: Path) -> None:
    run = signed_run()
    fork = rewritten(run, changed_report(TWO, head=False))
    for name, content in (("a", run.content), ("b", fork.content)):
        (tmp_path / name).write_bytes(content)
    folder = tmp_path / "published"
    assert sottovoce("verify", tmp_path / "a", "--checkpoints", folder).code == 0
    says = complaint(sottovoce("verify", tmp_path / "b", "--checkpoints", folder))
    assert says == (
        f"{folder / 'checkpoint-0.json'}: has another checkpoint than the transcript; "
        "publishing both would be a contradiction"
    )
    # One that differs keeps all from being written.
    _, last = checkpoints_of(fork.content)
    (folder / "checkpoint-0.json").unlink()
    with pytest.raises(UsageError, match="checkpoint-1"):
        write_checkpoints(checkpoints_of(fork.content), folder)
    assert sorted(path.name for path in folder.iterdir()) == ["checkpoint-1.json"]
    assert read_checkpoint(folder / "checkpoint-1.json") == run.checkpoint != last


def test_of_a_faulty_record_nothing_is_published(tmp_path: Path) -> None:
    path, folder = tmp_path / "transcript.svt", tmp_path / "published"
    content = bytearray(record())
    content[-1] ^= 1
    for faulty in (bytes(content), b"nothing"):
        path.write_bytes(faulty)
        assert sottovoce("verify", path, "--checkpoints", folder).code == 1
        assert not folder.exists()


def test_an_extension_holds(survey: Survey) -> None:
    said = sottovoce(*survey.check(1, 4))
    assert said.code == 0
    one, other = (read_checkpoint(survey.checkpoints[i]) for i in (1, 4))
    assert said.out.splitlines() == [
        f"from checkpoint 1 ({one.statement.entries} entries) "
        f"to checkpoint 4 ({other.statement.entries} entries, at the end)",
        f"session {one.statement.session.hex()}",
        "said between: 10 messages of 5 members",
        f"the checkpoint is signed by the key {one.key.hex()}",
        "compare it with the aggregator's key, or let --member do it",
        "holds",
    ]
    values = sottovoce(*survey.check(1, 4, "--json")).json
    assert (values["holds"], values["problems"]) == (True, [])
    assert values["aggregator_key"] == one.key.hex()
    assert (values["earlier"]["number"], values["later"]["number"]) == (1, 4)
    assert values["later"]["final"] is True
    assert values["added"] == [
        {"member": "aggregator", "messages": 2},
        {"member": "party-1", "messages": 4},
        {"member": "party-2", "messages": 1},
        {"member": "party-3", "messages": 2},
        {"member": "party-4", "messages": 1},
    ]


def test_it_needs_neither_the_transcript_nor_its_folder(survey: Survey, tmp_path: Path) -> None:
    for name, path in zip(
        ("x", "1", "4"), (survey.extension, *survey.checkpoints[1::3]), strict=True
    ):
        (tmp_path / name).write_bytes(path.read_bytes())
    check = ("check", tmp_path / "x", "--since", tmp_path / "1", "--checkpoint", tmp_path / "4")
    assert sottovoce(*check).code == 0


@pytest.mark.parametrize(("earlier", "later"), [(4, 1), (0, 4), (1, 3), (1, 1), (4, 4)])
def test_it_holds_between_no_other_checkpoints(survey: Survey, earlier: int, later: int) -> None:
    said = sottovoce(*survey.check(earlier, later))
    assert said.code == 1
    lines = said.out.splitlines()
    assert lines[-1] == "does NOT hold"
    swapped = "problem: the earlier checkpoint does not come before the later one"
    assert (swapped in lines) == (earlier > later)
    found = sottovoce(*survey.check(earlier, later, "--json"))
    assert found.code == 1
    values = json.loads(found.out)
    assert values["holds"] is False
    assert [f"problem: {problem}" for problem in values["problems"]] == lines[3:-1]


def test_it_may_end_before_the_end(
    survey: Survey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    since, until = survey.checkpoints[0], survey.checkpoints[3]
    values = sottovoce(
        "prove", survey.transcript, "--since", since, "--until", until, "--json"
    ).json
    path = tmp_path / values["file"]
    assert path.name == "checkpoint-0-3.extension"
    assert values["bytes"] == path.stat().st_size
    assert values["later"]["final"] is False
    assert sottovoce("check", path, "--since", since, "--checkpoint", until).code == 0
    assert sottovoce("check", path, "--since", until, "--checkpoint", since).code == 1


def test_where_the_record_does_not_lead_there(survey: Survey, tmp_path: Path) -> None:
    def refused(content: bytes, *options: object) -> str:
        path = tmp_path / "other.svt"
        path.write_bytes(content)
        said = sottovoce("prove", path, *options, "--out", tmp_path / "x")
        assert not (tmp_path / "x").exists()
        return complaint(said, code=1)

    first, second, *_, last = survey.checkpoints
    fork = spoken([(2, 1, 1), (), (3, 1, 1, 1, 1), (2, 3, 4)])
    says = "no extension: the record has another checkpoint 1 than the one given: a fork"
    assert refused(fork, "--since", second) == says
    says = "no extension: checkpoint 1 is of another session than the record"
    assert refused(signed_run().content, "--since", second) == says
    says = "no extension: the record has no checkpoint 4, but 2 of them, from 0"
    assert refused(spoken([(1, 2, 1)]), "--since", first, "--until", last) == says
    says = "no extension: checkpoint 4 comes after checkpoint 0"
    assert refused(record(), "--since", last, "--until", first) == says


def test_whose_aggregators_it_is(tmp_path: Path) -> None:
    """A member knows its session and the aggregator's key."""
    keys = make_folders(tmp_path)
    aggregator = read_member(keys / "aggregator")
    closed = Envelope(aggregator.charter.session, AGGREGATOR, RECORD, 0, "Closed", b"")
    entries = (*[Refused(at=0, link="", reason="x", excerpt=b"")] * 4, sent(0, closed))
    header = header_of(aggregator.charter)
    path, proof = tmp_path / "transcript.svt", tmp_path / "x"
    path.write_bytes(written(header, entries, signer=aggregator.identity).content)
    first, last = write_checkpoints(checkpoints_of(path.read_bytes()), tmp_path / "published")
    assert sottovoce("prove", path, "--since", first, "--out", proof).code == 0
    check = ("check", proof, "--since", first, "--checkpoint", last, "--member")
    said = sottovoce(*check, keys / "bert")
    assert said.code == 0
    assert said.out.splitlines()[3:] == ["holds"]
    (tmp_path / "again").mkdir()
    said = sottovoce(*check, make_folders(tmp_path / "again") / "bert")
    assert said.code == 1
    assert said.out.splitlines()[3:] == [
        "problem: the checkpoints are of another session",
        "problem: the checkpoints are not the aggregator's",
        "does NOT hold",
    ]


def test_of_bad_arguments(survey: Survey, tmp_path: Path) -> None:
    since = ("--since", survey.checkpoints[1])
    last = ("--checkpoint", survey.checkpoints[4])
    prove, check = ("prove", survey.transcript), ("check", survey.extension)
    assert "PARTY, or --since" in complaint(sottovoce(*prove))
    until = ("--until", survey.checkpoints[4])
    assert "PARTY, or --since" in complaint(sottovoce(*prove, "party-1", *until))
    assert "--since: takes neither" in complaint(sottovoce(*prove, "party-1", *since))
    variant = ("--variant", "own.py:Own")
    assert "--since: takes neither" in complaint(sottovoce(*prove, *since, *variant))
    for options in ((), since, last, (*since, *last, "--report", survey.extension)):
        says = complaint(sottovoce(*check, *options))
        assert says == "an extension is checked with --since FILE and --checkpoint FILE"
    missing = tmp_path / "missing"
    for command in (
        (*prove, "--since", missing),
        (*prove, *since, "--until", missing),
        ("prove", missing, *since),
        (*check, "--since", missing, *last),
        (*check, *since, "--checkpoint", missing),
        (*check, *since, *last, "--member", missing),
    ):
        assert str(missing) in complaint(sottovoce(*command))
    (tmp_path / "nothing").write_bytes(b"nothing")
    says = complaint(sottovoce("prove", tmp_path / "nothing", *since))
    assert "no readable header" in says
    says = complaint(sottovoce("check", survey.transcript, *since, *last))
    assert says == f"--since: {survey.transcript} is not an extension"


@pytest.mark.parametrize(
    "content", [b"", b"\x92\x90", b"\x92\x90\x90\0", b"\x91" * 50_000, bytes(1 << 17)]
)
def test_of_files_that_are_no_extension(survey: Survey, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "noise"
    path.write_bytes(b"sottovoce extension 1\n" + content)
    since, last = ("--since", survey.checkpoints[1]), ("--checkpoint", survey.checkpoints[4])
    assert str(path) in complaint(sottovoce("check", path, *since, *last))


def test_only_an_extension_may_be_large(survey: Survey, tmp_path: Path) -> None:
    path = tmp_path / "noise"
    since, last = ("--since", survey.checkpoints[1]), ("--checkpoint", survey.checkpoints[4])
    for line, size, says in (
        (b"sottovoce extension 1\n", 1 << 20, "malformed extension"),
        (b"sottovoce extension 1\n", 1 << 26, "too large"),
        (b"sottovoce receipt 1\n", 1 << 16, "too large"),
    ):
        with path.open("wb") as file:
            file.write(line)
            file.truncate(size + 1)
        assert says in complaint(sottovoce("check", path, *since, *last))
