"""``prove``, ``check``, ``evidence``, ``verify --checkpoint``: receipts, evidence, bad input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from parties.keeping.checkpoints import (
    read_checkpoint,
    read_evidence,
    write_checkpoint,
    write_evidence,
)
from parties.keeping.record_names import checkpoint_path
from protocol import Records
from protocol.transcript.evidence import two_checkpoints
from protocol.transcript.receipts import Counted, encode_receipt, receipt_problems
from protocol.variants import BUILT_IN
from scenarios import simulate
from scenarios.cli.example_variants import example
from tests.recorded.forgeries import Forgery
from tests.recorded.signed import TWO, changed_report, finished_run, rewritten, setting, signed_run
from tests.scenarios.command import OWN, complaint, sottovoce
from tests.tiers import thinned


class Survey(msgspec.Struct, frozen=True):
    """A run's files."""

    transcript: Path
    checkpoint: Path
    receipt: Path

    def check(self, *options: object) -> tuple[object, ...]:
        return ("check", self.receipt, "--checkpoint", self.checkpoint, *options)


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    out = tmp_path_factory.mktemp("survey")
    said = sottovoce("run", "quickstart", "--set", "residents=30", "--out", out)
    assert said.code == 0, said.err
    made = Survey(
        out / "transcript.svt.zst", out / "transcript.checkpoint", out / "party-07.receipt"
    )
    written = said.out.replace("\n", "").partition("written: ")[2].replace(" ", "")
    assert written == f"{made.transcript},{made.checkpoint}and{out / 'result.json'}"
    said = sottovoce("prove", made.transcript, "party-07", "--out", made.receipt)
    assert said.code == 0, said.err
    assert said.out.startswith("party-07: counted in Report\n")
    return made


def test_a_receipt_holds(survey: Survey) -> None:
    said = sottovoce(*survey.check())
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0] == "party-07: counted in Report"
    assert lines[2].startswith("what it said is signed by the key ")
    assert lines[-2:] == ["holds", "counted"]
    found = sottovoce(*survey.check("--json")).json
    assert (found["word"], found["late"], found["waiting"]) == ("counted", [], 0)
    assert (found["holds"], found["problems"]) == (True, [])
    [report] = found["reports"]
    assert (found["party"], report["kind"], report["round"]) == ("party-07", "Report", -1)
    assert survey.receipt.stat().st_size < 2500


def test_a_receipt_needs_neither_the_transcript_nor_its_folder(
    survey: Survey, tmp_path: Path
) -> None:
    for path in (survey.receipt, survey.checkpoint):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    receipt, checkpoint = (tmp_path / p.name for p in (survey.receipt, survey.checkpoint))
    assert sottovoce("check", receipt, "--checkpoint", checkpoint).code == 0


def test_by_default_a_receipt_is_named_after_its_party(
    survey: Survey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    values = sottovoce("prove", survey.transcript, "party-07", "--json").json
    assert values["file"] == "party-07.receipt"
    assert (tmp_path / "party-07.receipt").read_bytes() == survey.receipt.read_bytes()


@pytest.mark.parametrize("name", thinned(BUILT_IN, 3))
def test_receipts_of_every_variant(name: str) -> None:
    variant, records = example(BUILT_IN[name], {})
    twice = Records(records.survey, np.tile(records.codes, (4, 1)))
    outcome = simulate(variant, twice)
    found = outcome.transcript.verify(digest=outcome.digest)
    assert found.intact
    assert found.signed == "all"
    assert found.final is not None
    for party in outcome.charter.roster.parties:
        receipt, _ = outcome.transcript.prove(type(variant), party)
        assert receipt_problems(receipt, found.final) == ()
        reports = sum(len(each.report.content) for each in receipt.counted)
        assert len(encode_receipt(receipt)) < 1500 * (1 + len(receipt.counted)) + reports


def test_a_receipt_with_another_checkpoint(survey: Survey, tmp_path: Path) -> None:
    out = tmp_path / "other"
    run = ("run", "quickstart", "--set", "residents=30", "--seed", "2", "--out", out)
    assert sottovoce(*run).code == 0
    other = out / "transcript.checkpoint"
    said = sottovoce("check", survey.receipt, "--checkpoint", other)
    assert said.code == 1
    assert said.out.splitlines()[-1] == "does NOT hold"
    assert "problem: the receipt is of another session than the checkpoint" in said.out
    found = sottovoce("check", survey.receipt, "--checkpoint", other, "--json")
    assert found.code == 1
    assert json.loads(found.out)["holds"] is False


def test_of_one_who_was_not_counted(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = sottovoce("run", f"{OWN}:faulty", "--out", out, "--json").json
    assert result["trouble"]["crashed"] > 0
    question = "SELECT member FROM departed WHERE reason = 'crashed' LIMIT 1"
    transcript = out / "transcript.svt.zst"
    [row] = sottovoce("query", transcript, question, "--json").json
    prove = ("prove", transcript, row["member"], "--variant", f"{OWN}:RollCall")
    says = complaint(sottovoce(*prove, "--out", tmp_path / "x"), code=1)
    assert says == f"no receipt for '{row['member']}': it reported nothing: crashed"
    assert not (tmp_path / "x").exists()


def test_a_doctored_record_gives_no_receipt(survey: Survey, tmp_path: Path) -> None:
    forgery = Forgery(survey.transcript.read_bytes())
    forgery.entries[forgery.place("party-01", 0)][2][5] = b"\x90"
    path = tmp_path / "forged.svt"
    path.write_bytes(forgery.write())
    says = complaint(sottovoce("prove", path, "party-07", "--out", tmp_path / "x"), code=1)
    assert says.startswith("no receipt for 'party-07': the record is not sound: ")


def test_verify_with_a_checkpoint(survey: Survey, tmp_path: Path) -> None:
    verify = ("verify", survey.transcript, "--checkpoint")
    said = sottovoce(*verify, survey.checkpoint)
    assert said.code == 0
    assert "It fits the digest or the checkpoint that was published." in said.out
    assert "cannot be distinguished from the original" not in said.out
    assert "All 30 parties signed what they said and heard." in said.out
    assert "The whole record is signed by the key" in said.out
    found = sottovoce(*verify, survey.checkpoint, "--json").json
    assert found["signed"] == {
        "parties": "all",
        "by": 30,
        "of": 30,
        "unsigned": [],
        "checkpoints": 3,
        "at_the_end": True,
    }
    assert (found["compared"], found["extends_checkpoint"], found["equivocation"]) == (
        True,
        True,
        False,
    )


def test_a_fork_is_evidence(tmp_path: Path) -> None:
    run = signed_run()
    fork = rewritten(run, changed_report(TWO))
    path, evidence = tmp_path / "fork.svt", tmp_path / "evidence.json"
    path.write_bytes(fork.content)
    write_checkpoint(run.checkpoint, tmp_path / "original.svt")
    published = tmp_path / "original.checkpoint"
    said = sottovoce("verify", path, "--checkpoint", published, "--evidence", evidence)
    assert said.code == 1
    assert "The aggregator has signed two checkpoints that contradict each other" in said.out
    assert "6 of 7 parties signed what they said and heard; not party-2." in said.out
    said = sottovoce("evidence", evidence)
    assert said.code == 0
    size = run.checkpoint.size
    what = f"the checkpoint of size {size} was signed twice, with different content\nby the "
    assert said.out.startswith(what)
    assert sottovoce("evidence", evidence, "--json").json["holds"] is True
    values = json.loads(evidence.read_text())
    values["second"] = values["first"]
    evidence.write_text(json.dumps(values))
    said = sottovoce("evidence", evidence)
    assert (said.code, said.out) == (
        1,
        "not evidence: a signature is not valid, or the two statements can both be true\n",
    )


def test_without_a_contradiction_no_evidence_is_written(survey: Survey, tmp_path: Path) -> None:
    path = tmp_path / "evidence.json"
    verify = ("verify", survey.transcript, "--evidence", path)
    assert sottovoce(*verify, "--checkpoint", survey.checkpoint).code == 0
    assert not path.exists()
    assert complaint(sottovoce(*verify)).startswith("--evidence: expected --checkpoint too")


def test_checkpoints_and_evidence_come_back_as_they_were(tmp_path: Path) -> None:
    run = signed_run()
    transcript = tmp_path / "a.svt"
    write_checkpoint(run.checkpoint, transcript)
    path = checkpoint_path(transcript)
    assert read_checkpoint(path) == run.checkpoint
    evidence = two_checkpoints(run.checkpoint, rewritten(run, changed_report(TWO)).checkpoint)
    assert evidence is not None
    write_evidence(evidence, tmp_path / "e")
    assert read_evidence((tmp_path / "e").read_bytes(), tmp_path / "e") == evidence
    write_checkpoint(None, transcript)
    assert not path.exists()


def replaced(old: str, new: str) -> Callable[[str], str]:
    def change(note: str) -> str:
        assert old in note
        return note.replace(old, new, 1)

    return change


@pytest.mark.parametrize(
    "change",
    [
        replaced("sottovoce/", ""),
        replaced("sottovoce/", "sottovoce/0"),
        replaced("\n", "\n0"),
        replaced("\n", "\n9223372036854775808\n"),
        replaced("\n", "\n-"),
        replaced("=\n", "\n"),
        replaced("=\n", "=\nmore\n"),
        replaced("\n\n", "\n"),
        replaced("\n\n", "\n\n\n"),
        replaced("\u2014", "-"),
        replaced("\u2014 ", "\u2014  "),
        lambda note: note[:-1],
        lambda note: note + "x",
        lambda note: note + note.splitlines()[-1] + "\n",
        lambda note: note[: note.index("\u2014")] + "\u2014 other AAAA\n",
        lambda note: note + "\u2014 other AAAA\n" * 64,
    ],
)
def test_of_a_checkpoint_that_is_none(
    survey: Survey, tmp_path: Path, change: Callable[[str], str]
) -> None:
    path = tmp_path / "noise"
    path.write_text(change(survey.checkpoint.read_text()))
    assert str(path) in complaint(sottovoce("verify", survey.transcript, "--checkpoint", path))
    assert str(path) in complaint(sottovoce("check", survey.receipt, "--checkpoint", path))


def test_a_checkpoint_that_others_have_signed_too(survey: Survey, tmp_path: Path) -> None:
    path = tmp_path / "cosigned"
    path.write_text(survey.checkpoint.read_text() + "\u2014 witness.example/w AAAAAAAA\n")
    assert read_checkpoint(path) == read_checkpoint(survey.checkpoint)
    assert sottovoce("check", survey.receipt, "--checkpoint", path).code == 0


def test_a_name_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "evidence.json"
    path.write_text('{"format": "sottovoce evidence 1", "key": "00", "key": "00"}')
    assert "a name occurs twice" in complaint(sottovoce("evidence", path))


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a receipt for reports of three rounds, one that mixes them up, and a report."""
    folder = tmp_path_factory.mktemp("rounds")
    variant, records = example(BUILT_IN["privkvm"], {"rounds": "3"})
    outcome = simulate(variant, Records(records.survey, np.tile(records.codes, (4, 1))))
    party = outcome.charter.roster.parties[0]
    receipt, _ = outcome.transcript.prove(type(variant), party)
    first, second, *rest = receipt.counted
    swapped = (
        Counted(first.report, second.closing, first.path),
        Counted(second.report, first.closing, second.path),
        *rest,
    )
    lying = msgspec.structs.replace(receipt, counted=swapped)
    (folder / "sound.receipt").write_bytes(encode_receipt(receipt))
    (folder / "lying.receipt").write_bytes(encode_receipt(lying))
    write_checkpoint(outcome.transcript.verify().final, folder / "a.svt")
    (folder / "report").write_bytes(second.report.encoded)
    (folder / "other").write_bytes(second.closing.encoded)
    return folder


def test_a_report_of_another_round_is_told_apart(rounds: Path) -> None:
    options = ("--checkpoint", rounds / "a.checkpoint")
    said = sottovoce("check", rounds / "sound.receipt", *options)
    assert said.code == 0, said.out
    assert "the round of each report is as the receipt says" not in said.out
    for variant in ((), ("--variant", "privkvm")):
        said = sottovoce("check", rounds / "lying.receipt", *options, *variant)
        assert said.code == 1
        assert "problem: a report is not of the round in the receipt" in said.out
        assert ("pass --variant" in said.out) == (not variant)


def test_a_report_that_was_kept_is_compared(rounds: Path) -> None:
    check = ("check", rounds / "sound.receipt", "--checkpoint", rounds / "a.checkpoint")
    assert sottovoce(*check, "--json").json["compared"] is None
    compared = sottovoce(*check, "--report", rounds / "report", "--json")
    assert compared.json["compared"] is True
    said = sottovoce(*check, "--report", rounds / "other")
    assert said.code == 1
    assert f"{rounds / 'other'} is not one of the reports" in said.out


def test_a_round_that_no_class_is_known_for_is_the_receipts_word(
    survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scenarios.cli.transcripts.receipts._classes", lambda base: iter(()))
    said = sottovoce(*survey.check())
    assert said.code == 0
    assert "the round of each report is as the receipt says; --variant reads it" in said.out


def test_without_a_head_nothing_is_signed(tmp_path: Path) -> None:
    run = finished_run(setting(), unsigned=(TWO,))
    transcript = tmp_path / "a.svt"
    transcript.write_bytes(run.content)
    write_checkpoint(run.checkpoint, transcript)
    receipt = tmp_path / "a.receipt"
    assert sottovoce("prove", transcript, TWO, "--out", receipt).code == 0
    check = ("check", receipt, "--checkpoint", checkpoint_path(transcript))
    said = sottovoce(*check)
    assert said.code == 0
    assert "is not signed by it" in said.out
    values = sottovoce(*check, "--json").json
    assert values["signed"] is False


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b"\xff", b"[" * 50_000, b'{"a": 1}', bytes(1 << 10)]
)
def test_of_files_that_are_nothing(survey: Survey, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "noise"
    path.write_bytes(content)
    assert str(path) in complaint(sottovoce("check", path, "--checkpoint", survey.checkpoint))
    assert str(path) in complaint(sottovoce("evidence", path))
    assert str(path) in complaint(sottovoce("check", survey.receipt, "--checkpoint", path))
    path.write_bytes(b"sottovoce receipt 4\n" + content)
    check = ("check", path, "--checkpoint", survey.checkpoint)
    assert str(path) in complaint(sottovoce(*check))


def test_of_bad_arguments(survey: Survey, tmp_path: Path) -> None:
    said = complaint(sottovoce("check", survey.receipt))
    assert said == "expected --checkpoint too, the published one"
    missing = tmp_path / "missing"
    said = complaint(sottovoce("check", missing, "--checkpoint", survey.checkpoint))
    assert str(missing) in said
    assert str(missing) in complaint(sottovoce("evidence", missing))
    assert str(missing) in complaint(sottovoce("check", survey.receipt, "--checkpoint", missing))
    assert str(missing) in complaint(sottovoce(*survey.check("--report", missing)))
    assert "is not a member's folder" in complaint(sottovoce(*survey.check("--member", missing)))
    assert "not on the roster" in complaint(sottovoce("prove", survey.transcript, "nobody"))
    assert "no such transcript" in complaint(sottovoce("prove", missing, "party-07"))
