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
from protocol.transcript.receipts import encode_receipt, receipt_problems
from protocol.variants import BUILT_IN
from scenarios import simulate
from scenarios.cli.example_variants import example
from tests.recorded.signed import TWO, changed_report, rewritten, signed_run
from tests.scenarios.command import complaint, sottovoce
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


def test_verify_with_a_checkpoint(survey: Survey, tmp_path: Path) -> None:
    verify = ("verify", survey.transcript, "--checkpoint")
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
    assert sottovoce("evidence", evidence, "--json").json["holds"] is True
    values = json.loads(evidence.read_text())
    values["second"] = values["first"]
    evidence.write_text(json.dumps(values))
    said = sottovoce("evidence", evidence)
    assert (said.code, said.out) == (
        1,
        "not evidence: a signature is not valid, or the two statements can both be true\n",
    )


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


@pytest.mark.parametrize(
    "change",
    [
        lambda note: note[:-1],
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


def test_a_round_that_no_class_is_known_for_is_the_receipts_word(
    survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scenarios.cli.transcripts.receipts._classes", lambda base: iter(()))
    said = sottovoce(*survey.check())
    assert said.code == 0
    assert "the round of each report is as the receipt says; --variant reads it" in said.out


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
