"""What becomes of an acknowledgement in a party's folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest

from parties.keeping.receipts import Kept, keep_receipt, receipt_in
from protocol import AGGREGATOR, RECORD, PartyId
from protocol.crypto.merkle import joint_root, leaf_hash
from protocol.messages import DONE, Closed, Envelope
from protocol.session.charter import Charter
from protocol.transcript.checkpoints import sign_checkpoint
from protocol.transcript.header import make_header
from protocol.transcript.log import log_leaf
from protocol.transcript.receipts import Acknowledgement, receipt_for
from protocol.transcript.recorder import Recorder
from scenarios.surveys import answering
from scenarios.surveys.members import read_member
from scenarios.surveys.operating.operation import Operation
from tests.protocol.transcript.test_acknowledgements import acknowledged, head_of
from tests.recorded.late import EVERYBODY, HEAD, LIES, LOG, OTHER, REPORT, closing, counted, named
from tests.recorded.late import SAID as LATE_SAID
from tests.recorded.late import given as acknowledged_late
from tests.recorded.late import head as late_head
from tests.recorded.signed import ONE, envelopes, setting, signed_run
from tests.scenarios.command import Said, complaint, sottovoce
from tests.scenarios.programs import Program
from tests.scenarios.survey_folders import ROWS, aggregating, make_folders, people_table, table
from tests.scenarios.surveys.conftest import AnswerFrom
from tests.scenarios.surveys.operating.held import hold
from tests.scenarios.surveys.test_attempts import silent
from tests.scenarios.surveys.test_deployment import ScriptedLink, question
from transports.lasting.link import LastingLink, connect_lasting
from transports.testing import HANGS

CHARTER = setting().charter
SESSION = CHARTER.session.hex()
SAID = envelopes(signed_run(), ONE)[:-1]


def keep(folder: Path, given: Acknowledgement) -> Kept:
    return keep_receipt(folder, CHARTER, head_of(ONE), given, said=SAID, reports=(0,))


def given(every: int = 5) -> Acknowledgement:
    return acknowledged(every).given[ONE]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def checked(kept: Kept) -> int:
    return sottovoce(*kept.check.split()[1:]).code


def test_a_receipt_is_kept_with_its_checkpoint(tmp_path: Path) -> None:
    kept = keep(tmp_path, given())
    assert kept.problems == ()
    assert set(contents(tmp_path)) == {f"receipt-{SESSION}", f"checkpoint-{SESSION}"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    assert checked(kept) == 0


def test_one_that_holds_stays(tmp_path: Path) -> None:
    """Also if the next one is of another checkpoint, as it is after a restart."""
    keep(tmp_path, given(5))
    before = contents(tmp_path)
    assert given(1000).size > given(5).size
    kept = keep(tmp_path, given(1000))
    assert kept.problems == ()
    assert contents(tmp_path) == before


@pytest.mark.parametrize("there", ["receipt", "checkpoint"])
@pytest.mark.parametrize("content", [None, b"", b"damaged"])
def test_one_that_does_not_hold_is_replaced(
    there: str, content: bytes | None, tmp_path: Path
) -> None:
    """A program may have died between the two files."""
    keep(tmp_path, given())
    path = tmp_path / f"{there}-{SESSION}"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert checked(keep(tmp_path, given())) == 0


def test_an_acknowledgement_that_does_not_hold_is_kept_apart(tmp_path: Path) -> None:
    keep(tmp_path, given())
    before = contents(tmp_path)
    kept = keep(tmp_path, msgspec.structs.replace(given(), at=given().at + 1))
    assert kept.problems == ("an entry of the receipt is not in the log of the checkpoint",)
    after = contents(tmp_path)
    assert before.items() <= after.items()
    assert after.keys() - before.keys() == {kept.receipt.name, kept.checkpoint.name}
    assert kept.receipt.name == f"refused-receipt-{SESSION}"
    assert checked(kept) == 1


def test_two_checkpoints_of_one_size_are_evidence(tmp_path: Path) -> None:
    """An aggregator that runs again without its record signs other entries under an old number."""
    keep(tmp_path, given())
    size, index = given().size, given().index
    forged = msgspec.structs.replace(given(), at=given().at + 1)
    root = root_with(forged)
    assert root != given().root
    signed = sign_checkpoint(
        setting().identities[AGGREGATOR], session=CHARTER.session, size=size, root=root
    )
    forged = msgspec.structs.replace(forged, root=root, signature=signed.signature)
    assert forged.index == index
    kept = keep(tmp_path, forged)
    assert kept.problems == (f"the aggregator has signed two checkpoints of size {size}",)
    said = sottovoce("evidence", tmp_path / f"evidence-{SESSION}")
    assert said.code == 0
    assert f"the checkpoint of size {size} was signed twice" in said.out


class Unheard(ScriptedLink):
    """A link that is lost before anything is acknowledged."""

    async def acknowledgement(self) -> Acknowledgement | None:
        return None


def test_who_has_a_receipt_is_done_though_nobody_is_there(
    two_surveys: list[Path],
    tmp_path: Path,
    answer_from: AnswerFrom,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A program that was killed after its receipt came finds nobody when it is started again."""
    folder = two_surveys[0] / "anna"
    records = people_table(tmp_path / "r.csv", "ann,no,young", "bob,yes,old")
    asked = question(two_surveys[0])

    def alone(*options: object, records: Path = records) -> Said:
        monkeypatch.setattr(answering, "connect_lasting", connect_lasting)
        answer = ("answer", folder, "--connect", "127.0.0.1:1", "--waiting", 0, "--id", "who")
        return sottovoce(*answer, "--purse", tmp_path / "purse", "--records", records, *options)

    assert "127.0.0.1:1" in complaint(alone(), os.EX_UNAVAILABLE)
    first, _ = answer_from(folder, records, asked)
    assert (first.ending, first.earlier) == (DONE, False)
    again, _ = answer_from(folder, records, asked, link_class=Unheard)
    assert (again.ending, again.earlier) == (DONE, True)
    assert again.receipt == first.receipt
    assert again.spent.epsilon == pytest.approx(2.0)
    said = alone()
    assert said.code == 0
    assert said.out.startswith("done; epsilon 2 spent per respondent\nreceipt: ")
    assert "done with attempt 1 before" in said.err
    # Other people did not answer.
    others = people_table(tmp_path / "o.csv", "ann,yes,old")
    complaint(alone("--budget", 9, records=others), os.EX_TEMPFAIL)
    # In an attempt that it is told of it answers; it is not done with that.
    later = question(two_surveys[0], attempt=2)
    unheard, _ = answer_from(folder, records, later, attempt=2, link_class=Unheard, budget=9.0)
    assert unheard.ending.startswith("not acknowledged")
    assert unheard.attempt == 2
    # Nor is it without its receipt of the last one.
    unsure = complaint(alone("--budget", 9), os.EX_TEMPFAIL)
    assert "epsilon 2 spent per respondent in attempt 2, 2 in earlier ones" in unsure
    assert "acknowledged: no, as far as this party knows; next: run the same command" in unsure


def test_the_receipt_of_who_has_declined_does_not_make_it_done(
    two_surveys: list[Path], tmp_path: Path, answer_from: AnswerFrom
) -> None:
    folder = two_surveys[0] / "anna"
    records = people_table(tmp_path / "r.csv", "ann,no,young", "bob,yes,old")
    asked = question(two_surveys[0])
    for link_class in (ScriptedLink, Unheard):
        ended, said = answer_from(folder, records, asked, budget=0.5, link_class=link_class)
        assert [each.kind for each in said] == ["Declined", "Head"]
        assert ended.ending != DONE
        assert not ended.earlier
    assert [path.name for path in folder.glob("*receipt-*")] == [
        f"declined-receipt-{read_member(folder).charter.session.hex()}"
    ]


def test_which_receipt_is_ones_own(tmp_path: Path) -> None:
    kept = keep(tmp_path, given())
    assert receipt_in(tmp_path, CHARTER, ONE) == kept
    other = next(name for name in CHARTER.roster.parties if name != ONE)
    assert receipt_in(tmp_path, CHARTER, other) is None
    # Under the name of another session, and damaged.
    again = CHARTER.again(2)
    for path in (kept.receipt, kept.checkpoint):
        copied = path.name.replace(SESSION, again.session.hex())
        (tmp_path / copied).write_bytes(path.read_bytes())
    assert receipt_in(tmp_path, again, ONE) is None
    kept.checkpoint.write_bytes(b"")
    assert receipt_in(tmp_path, CHARTER, ONE) is None


def root_with(forged: Acknowledgement) -> bytes:
    """The root that an acknowledgement's leaf and path lead to."""
    receipt, _ = receipt_for(CHARTER, head_of(ONE), forged, said=SAID, reports=(0,))
    shown = receipt.ended
    assert shown is not None
    leaf = leaf_hash(log_leaf(shown.salt, shown.content))
    root = joint_root({shown.index: leaf}, count=forged.size, path=shown.path)
    assert root is not None
    return root


@pytest.mark.slow
def test_a_resumed_aggregator_gives_a_receipt_again(tmp_path: Path) -> None:
    """Anna was done when it was killed; her folder has lost the receipt, and she asks again."""
    keys, out = make_folders(tmp_path), tmp_path / "out"
    anna, records = keys / "anna", table(tmp_path / "records.csv", *ROWS)

    def answering(where: str, *names: str) -> None:
        purses = [("--purse", tmp_path / f"{name}.purse") for name in names]
        said = [
            Program("answer", keys / name, "--connect", where, "--records", records, *purse)
            for name, purse in zip(names, purses, strict=True)
        ]
        for each in said:
            out, error = each.communicate(timeout=HANGS)
            assert each.returncode == 0, error
            assert out.startswith("done; epsilon 2 spent per respondent\nreceipt: ")

    with (
        aggregating(keys, out, over=False) as (aggregator, where, _),
        silent(keys / "bert", where),
        silent(keys / "carl", where),
    ):
        answering(where, "anna")
        aggregator.kill()
        aggregator.wait(timeout=HANGS)
    found = []
    for what in ("receipt", "checkpoint"):
        [path] = anna.glob(f"{what}-*")
        path.rename(tmp_path / what)
        found.append(path)
    with aggregating(keys, out, "--resume") as (aggregator, where, _):
        answering(where, "anna")
        answering(where, "bert", "carl")
        assert aggregator.wait(timeout=HANGS) == 0
    for receipt, checkpoint in (found, (tmp_path / "receipt", tmp_path / "checkpoint")):
        assert sottovoce("check", receipt, "--checkpoint", checkpoint, "--member", anna).code == 0
        verify = ("verify", out / "transcript.svt.zst", "--checkpoint", checkpoint, "--json")
        assert sottovoce(*verify).json["extends_checkpoint"] is True


def test_a_receipt_is_kept_before_the_goodbye(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a party that is killed between the two finds nobody to ask for it again."""
    done: list[str] = []
    kept, closed = answering.keep_receipt, LastingLink.aclose

    def keep(*given: Any, **options: Any) -> Kept:
        done.append("receipt")
        return kept(*given, **options)

    async def close(link: LastingLink) -> None:
        done.append("goodbye")
        await closed(link)

    monkeypatch.setattr(answering, "keep_receipt", keep)
    monkeypatch.setattr(LastingLink, "aclose", close)
    keys = make_folders(tmp_path)
    _, answers = hold(keys, tmp_path / "out", Operation(), ["anna", "bert", "carl"])
    assert answers["anna"].receipt is not None
    assert (done.count("receipt"), done[0], done[-1]) == (3, "receipt", "goodbye")
    assert all(done[:n].count("goodbye") <= done[:n].count("receipt") for n in range(len(done)))


# --- late


class Told(ScriptedLink):
    """A link to a hub that closes the wait for reports before the party's, and tells so.

    ``closes`` is called with the recorder and does that.
    """

    @staticmethod
    def closes(recorder: Recorder, charter: Charter) -> None:
        everybody = charter.roster.bitmap(charter.roster.parties)
        others = charter.roster.bitmap(charter.roster.parties[1:])
        closed = Closed("Report", -1, 0, everybody, others)
        body = charter.codec.encode(closed)
        recorder.sent(Envelope(charter.session, AGGREGATOR, RECORD, 0, "Closed", body), now=0.0)

    def told(self, given: Acknowledgement) -> Acknowledgement:
        """What is said in place of an acknowledgement."""
        return given

    async def acknowledgement(self) -> Acknowledgement | None:
        identity = self._aggregator.identity
        charter = self._aggregator.charter.again(self._attempt)
        recorder = Recorder(
            lambda _: None,
            make_header(charter),
            signer=identity,
            secret=bytes(32),
            acknowledging=True,
        )
        self.closes(recorder, charter)
        for envelope in self.said:
            recorder.sent(envelope, now=0.0)
        [given] = recorder.acknowledge().values()
        return self.told(given)


class Unsigned(Told):
    """One that says late and does not sign it."""

    def told(self, given: Acknowledgement) -> Acknowledgement:
        [named] = given.named
        assert named.before is not None
        before = msgspec.structs.replace(named.before, signature=bytes(64))
        return msgspec.structs.replace(
            given, named=(msgspec.structs.replace(named, before=before),)
        )


class Punctual(Told):
    """One that has not closed the wait before the party's report."""

    @staticmethod
    def closes(recorder: Recorder, charter: Charter) -> None:
        """The wait goes on."""


def test_who_is_late_is_told_so_and_stays_charged(
    two_surveys: list[Path],
    tmp_path: Path,
    answer_from: AnswerFrom,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = two_surveys[0] / "anna"
    session = read_member(folder).charter.session.hex()
    records = people_table(tmp_path / "r.csv", "ann,no,young", "bob,yes,old")
    asked = question(two_surveys[0])
    ended, said = answer_from(folder, records, asked, link_class=Told)
    assert [each.kind for each in said] == ["Report", "Head"]
    assert (ended.ending, ended.code) == (answering.NOT_IN_TIME, 75)
    assert ended.spent.epsilon == pytest.approx(2.0)
    assert ended.receipt is not None
    assert (ended.receipt.word, ended.receipt.late, ended.receipt.problems) == ("late", True, ())
    assert ended.receipt.receipt.name == f"late-note-{session}"
    assert not [*folder.glob("receipt-*"), *folder.glob("checkpoint-*")]
    checked_by_her = sottovoce(*ended.receipt.check.split()[1:], "--member", folder)
    lines = checked_by_her.out.splitlines()
    assert (checked_by_her.code, lines[0]) == (0, "anna: late in Report")
    assert lines[-2:] == ["holds", "late"]
    # A program that is started again knows it, and says so, if nobody is there.
    monkeypatch.setattr(answering, "connect_lasting", connect_lasting)
    answer = ("answer", folder, "--connect", "127.0.0.1:1", "--waiting", 0, "--id", "who")
    again = sottovoce(*answer, "--purse", tmp_path / "purse", "--records", records)
    assert again.code == 75
    assert again.out.startswith("late: ")
    assert "epsilon 2 spent per respondent\nlate note: " in again.out
    assert "\ncounted: no, it came too late\nnext: run the same command again once " in again.out
    assert "was late in attempt 1 before" in again.err
    # In another attempt it can be counted.
    later = question(two_surveys[0], attempt=2)
    done, _ = answer_from(folder, records, later, attempt=2, budget=9.0, link_class=Punctual)
    assert (done.ending, done.code, done.attempt) == (DONE, 0, 2)


def test_a_late_that_is_not_signed_is_evidence_and_no_excuse(
    two_surveys: list[Path], tmp_path: Path, answer_from: AnswerFrom
) -> None:
    folder = two_surveys[0] / "anna"
    records = people_table(tmp_path / "r.csv", "ann,no,young", "bob,yes,old")
    ended, _ = answer_from(folder, records, question(two_surveys[0]), link_class=Unsigned)
    assert ended.code == 1
    assert ended.ending.startswith(answering.DOES_NOT_HOLD)
    assert "not signed by the key of the checkpoint" in ended.ending
    assert ended.receipt is not None
    assert not ended.receipt.late
    assert [path.name[:16] for path in folder.glob("*re*-*") if "receipt" in path.name] == [
        "refused-receipt-"
    ]
    # It is not known to be late.
    assert receipt_in(folder, read_member(folder).charter, ended_party(folder)) is None


def ended_party(folder: Path) -> PartyId:
    return read_member(folder).identity.name


@pytest.mark.parametrize("first", [Punctual, Told])
def test_who_was_in_time_is_not_late_afterwards(
    first: type[Told], two_surveys: list[Path], tmp_path: Path, answer_from: AnswerFrom
) -> None:
    """An aggregator knows that a report is late before it acknowledges it, or it is not."""
    folder = two_surveys[0] / "anna"
    records = people_table(tmp_path / "r.csv", "ann,no,young", "bob,yes,old")
    asked = question(two_surveys[0])
    one, _ = answer_from(folder, records, asked, link_class=first)
    other, _ = answer_from(
        folder, records, asked, link_class=Told if first is Punctual else Punctual
    )
    assert one.code == (0 if first is Punctual else 75)
    assert other.code == 1
    assert other.receipt is not None
    assert "where an earlier one says" in other.receipt.problems[0]
    assert other.receipt.receipt.name.startswith("refused-receipt-")
    # What it was given first stays.
    kept = receipt_in(folder, read_member(folder).charter, ended_party(folder))
    assert kept == one.receipt


@pytest.mark.parametrize("what", LIES)
def test_what_cannot_be_shown_is_kept_as_evidence(what: str, tmp_path: Path) -> None:
    lie, problem = LIES[what]
    kept = keep_receipt(tmp_path, CHARTER, late_head(), lie, said=[LATE_SAID], reports=(0,))
    assert problem in kept.problems
    assert not kept.late
    assert kept.receipt.name == f"refused-receipt-{SESSION}"
    assert receipt_in(tmp_path, CHARTER, ONE) is None


def test_a_late_note_under_a_receipts_name_is_none(tmp_path: Path) -> None:
    """Nor is a receipt under that of a late note: copied, they would say what they do not."""
    late = acknowledged_late(LOG, named())
    kept = keep_receipt(tmp_path, CHARTER, late_head(), late, said=[LATE_SAID], reports=(0,))
    assert receipt_in(tmp_path, CHARTER, ONE) == kept
    assert kept.late
    kept.receipt.rename(tmp_path / f"receipt-{SESSION}")
    kept.checkpoint.rename(tmp_path / f"checkpoint-{SESSION}")
    assert receipt_in(tmp_path, CHARTER, ONE) is None


@pytest.mark.parametrize("everybody", [False, True], ids=["late", "counted"])
def test_a_closing_of_another_round_is_kept_as_evidence(everybody: bool, tmp_path: Path) -> None:
    """Written by an aggregator that has no such round, it says what it likes of a report."""
    other = closing(round_=3, counted=EVERYBODY) if everybody else closing(round_=3)
    log = (OTHER, REPORT, other, HEAD) if everybody else (OTHER, other, REPORT, HEAD)
    told = counted(log, other) if everybody else named(log, closed=other, early=log[:2])
    given = acknowledged_late(log, told)
    kept = keep_receipt(tmp_path, CHARTER, late_head(), given, said=[LATE_SAID], reports=(0,))
    assert "a closing is of ('Report', 3), and the report shown with it of" in kept.problems[0]
    assert kept.receipt.name == f"refused-receipt-{SESSION}"
