"""Sums over TLS whose survivors a witness certifies, with parties that are missing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from protocol import AGGREGATOR
from protocol.messages import Envelope
from protocol.transcript.certifying import certified_log
from protocol.transcript.checkpoints import log_origin, read_note
from protocol.transcript.entries import Sent
from protocol.transcript.receipts import Confirming, decode_receipt
from protocol.wire.codec import decode_envelope
from scenarios import open_transcript
from scenarios.surveys.members import read_member
from tests.protocol.cosigners import Cosigner
from tests.protocol.sharing.test_witnessed_sums import sums_with, surveyed, witnessed
from tests.scenarios.command import complaint, sottovoce
from tests.scenarios.programs import Program
from tests.scenarios.survey_folders import PLANS, aggregating, plan_file, table
from tests.scenarios.surveys.witnessing.witnesses import Files, files, running
from transports.testing import HANGS

WHO = tuple(f"party-{i}" for i in range(1, 7))
SAID = (
    "2 of 6 parties may conspire with the aggregator or any reader of the record as long as 1 of 1 "
    "witness is honest, and 1 if not: of the secure sum they learn"
)


def folders(folder: Path, witness: Files) -> Path:
    """Of six parties, of which two may be missing, before a witness."""
    named = f'\n[sums]\ndropped = 0.34\n\n[sums.witnesses]\nkeys = ["{witness.vkey}"]\n'
    plan = PLANS["secure-sum"].replace("quorum = 4", "quorum = 2") + named
    out = folder / "keys"
    parties = [word for name in WHO for word in ("--party", name)]
    said = sottovoce("keys", plan_file(folder, plan), *parties, "--out", out)
    assert said.code == 0, said.err
    return out


def answering(keys: Path, where: str, names: Sequence[str], *demands: object) -> list[Program]:
    return [
        Program(
            *("answer", keys / name, "--connect", where, "--waiting", 5, *demands),
            *("--records", table(keys / f"{name}.csv", "no,young")),
            *("--purse", keys / f"{name}.purse"),
        )
        for name in names
    ]


def origins(keys: Path) -> tuple[str, bytes, bytes]:
    charter = read_member(keys / AGGREGATOR).charter
    key = charter.roster.key(AGGREGATOR)
    return log_origin(charter.session, key), charter.session, key


@pytest.mark.slow
def test_a_survey_with_missing_parties_is_certified_and_published(tmp_path: Path) -> None:
    witness = files(tmp_path)
    keys, out = folders(tmp_path, witness), tmp_path / "out"
    origin, session, key = origins(keys)
    with running(witness, [origin]) as at:
        there = ("--witness", at.at.url, witness.vkey, "--joining", 4)
        with aggregating(keys, out, *there) as (aggregator, where, _):
            programs = answering(keys, where, WHO[:4], "--withstand", 2)
            for program in programs:
                said, complained = program.communicate(timeout=HANGS)
                assert program.returncode == 0, complained
                assert SAID in said + complained
            text, complained = aggregator.communicate(timeout=HANGS)
            assert aggregator.returncode == 0, complained
    assert json.loads(text)["respondents"] == 4
    kept = [read_note(path.read_text()) for path in witness.state.glob("*.checkpoint")]
    assert {each.session for each in kept} == {session, certified_log(session, 0)}
    assert {each.key for each in kept} == {key}
    receipts = [keys / name / f"receipt-{session.hex()}" for name in WHO[:2]]
    found = [decode_receipt(path.read_bytes()) for path in receipts]
    assert all(isinstance(each, Confirming) for each in found)
    same = sottovoce("evidence", *receipts)
    assert (same.code, same.out[:12]) == (1, "not evidence")
    transcript = out / "transcript.svt.zst"
    audited = sottovoce("audit", transcript)
    assert audited.code == 0, audited.out
    assert "\nRecord: sound. " in audited.out
    assert SAID in audited.out


@pytest.mark.slow
def test_nobody_unmasks_once_the_witness_is_gone(tmp_path: Path) -> None:
    witness = files(tmp_path)
    keys, out = folders(tmp_path, witness), tmp_path / "out"
    with running(witness, [origins(keys)[0]]) as at:
        there = ("--witness", at.at.url, witness.vkey)
        with aggregating(keys, out, *there) as (aggregator, where, _):
            at.process.kill()
            at.process.wait()
            programs = answering(keys, where, WHO)
            _, complained = aggregator.communicate(timeout=HANGS)
            assert aggregator.returncode == 1, complained
            assert complained.count("witness witness.example/w1 has NOT certified: ") > 1
            last = complained.splitlines()[-1]
            assert last == (
                "sottovoce: 'Survivors' was not certified: expected 1 of 1 witnesses to cosign it; "
                "a run in one process asks none"
            )
            for program in programs:
                program.communicate(timeout=HANGS)
                assert program.returncode != 0
    kinds = [e.kind for e in sent(out / "transcript.svt.zst.partial")]
    assert "Upload" in kinds
    assert "Unmask" not in kinds


def sent(transcript: Path) -> list[Envelope]:
    entries = open_transcript(transcript).entries()
    return [decode_envelope(each.envelope) for each in entries if isinstance(each, Sent)]


def test_without_a_url_of_the_named_witness_nothing_begins(tmp_path: Path) -> None:
    witness = files(tmp_path)
    keys, out = folders(tmp_path, witness), tmp_path / "out"
    said = sottovoce("aggregate", keys / AGGREGATOR, "--listen", "127.0.0.1:0", "--out", out)
    line = complaint(said, code=2)
    assert "--witness: 1 of 1 witnesses have to certify this survey's sums" in line
    assert line.endswith(f"there is none for {witness.vkey}")
    assert not out.exists() or not [*out.iterdir()]


def test_a_rehearsal_has_no_witnesses(tmp_path: Path) -> None:
    witness = files(tmp_path)
    plan = PLANS["secure-sum"] + f'\n[sums.witnesses]\nkeys = ["{witness.vkey}"]\n'
    records, out = table(tmp_path / "records.csv", *["no,young"] * 6), tmp_path / "rehearsed"
    said = sottovoce(
        *("rehearse", plan_file(tmp_path, plan), "--records", records, "--parties", 6),
        *("--out", out),
    )
    assert "rehearse the plan without sums.witnesses" in complaint(said, code=2)
    assert not out.exists()


def test_what_an_audit_says_of_a_coalition_and_of_witnesses(tmp_path: Path) -> None:
    """A record in memory: what more than the sum withstands without honest witnesses may learn."""
    witness = Cosigner()
    run, _ = witnessed(surveyed(sums_with(witness), 12), [witness])
    path = tmp_path / "transcript.svt"
    path.write_bytes(run.content)
    audited = sottovoce("audit", path, "--worst", 6)
    assert audited.code == 0, audited.err
    said = " ".join(audited.out.split())
    assert "any reader of the record as long as 1 of 1 witness is honest, and 5 if not" in said
    assert "if the aggregator and 1 witness lie" in said


def test_a_plan_with_a_witness_that_is_none_is_refused(tmp_path: Path) -> None:
    plan = PLANS["secure-sum"] + '\n[sums.witnesses]\nkeys = ["w1"]\n'
    parties, out = ("--party", "a", "--party", "b"), tmp_path / "keys"
    said = sottovoce("keys", plan_file(tmp_path, plan), *parties, "--out", out)
    assert "verifier key 'w1': expected NAME+ID+KEY" in complaint(said, code=2)
