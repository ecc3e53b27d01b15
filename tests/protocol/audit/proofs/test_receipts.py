"""Receipts: given for what was counted, refused for all else, and checked without the record.

Which receipts hold, the vectors of transcripts have.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from parties.keeping.packing import Unpacked
from protocol import RECORD, Me, PartyId, PrivacyError, Records, SecureSum, SurveyError
from protocol.audit.proofs.making_receipts import NotCountedError, prove, prove_each
from protocol.messages import Envelope
from protocol.session.fates import PASS, Fate, Verdict
from protocol.transcript.checkpoints import read_note
from protocol.transcript.entries import Delivered, Sent
from protocol.transcript.header import make_header
from protocol.transcript.receipts import (
    Counted,
    Receipt,
    decode_receipt,
    encode_receipt,
    is_about,
    receipt_problems,
)
from protocol.variants import PrivKVMVariant, RRClusters, RRIndependent, SecureSumVariant
from tests.every_variant import FILMS, PARTIES
from tests.protocol.sessions import charter_of
from tests.recorded.forgeries import Forgery, plain, unreadable_after_header
from tests.recorded.receipts import AGGREGATORS, receipt_of
from tests.recorded.runs import Written, recorded, written
from tests.recorded.signed import (
    ONE,
    SURVEY,
    TWO,
    changed_report,
    envelopes,
    finished_run,
    rewritten,
    setting,
    signed_run,
    without,
)
from tests.vectors.formats import inclusion_path_at, log_leaves, tree_hash
from transports.faults import Fault

SUM = SecureSumVariant(survey=SURVEY)


def topics_of(receipt: Receipt) -> list[Any]:
    return [each.topic for each in receipt.counted]


def test_every_party_gets_a_receipt_that_holds() -> None:
    run = signed_run()
    for party in setting().charter.roster.parties:
        receipt = receipt_of(run, party)
        assert receipt_problems(receipt, run.checkpoint) == ()
        assert topics_of(receipt) == [("Report", -1)]
        report, head = envelopes(run, party)
        assert is_about(receipt, report)
        assert not is_about(receipt, head)
        assert receipt.session == setting().charter.session
        assert decode_receipt(encode_receipt(receipt)) == receipt


def test_the_receipts_of_all_parties_are_those_of_each() -> None:
    slow = Fault(verdict=Verdict.PASS, delay=1000.0, sender=ONE, kind="Report")
    for run in (signed_run(), finished_run(setting(), (slow,))):
        chunks = functools.partial(Unpacked, run.content)
        each, covering = prove_each(chunks, RRIndependent)
        found = dict(each)
        assert tuple(found) == setting().charter.roster.parties
        for party, receipt in found.items():
            if isinstance(receipt, Receipt):
                assert (receipt, covering) == prove(chunks, RRIndependent, party)
                continue
            with pytest.raises(NotCountedError) as refused:
                prove(chunks, RRIndependent, party)
            assert str(refused.value) == str(receipt)


def test_the_receipts_of_nobody_are_none() -> None:
    """A survey may end well though nobody has answered by a link."""
    run = signed_run()
    each, covering = prove_each(functools.partial(Unpacked, run.content), RRIndependent, [])
    assert list(each) == []
    assert covering == run.checkpoint


def test_a_receipt_is_what_the_format_says() -> None:
    """Its entries are leaves of the log, by the description alone."""
    forgery = Forgery(signed_run().content)
    contents = forgery.contents()
    leaves = log_leaves(forgery.secret, contents)
    receipt = receipt_of(signed_run())
    [counted] = receipt.counted
    for shown in (counted.report, counted.closing):
        assert shown.content == contents[shown.index]
        assert shown.salt == leaves[shown.index][:16]
        assert list(shown.path) == inclusion_path_at(shown.index, leaves)
    roster = [key + name.encode() for name, key in forgery.header["roster"]]
    assert list(receipt.roster) == inclusion_path_at(receipt.place, roster)
    bound = msgspec.msgpack.encode([receipt.terms, tree_hash(roster), receipt.members])
    session = hashlib.sha256(b"sottovoce session 3\0" + bound).digest()[:31] + b"\1"
    assert session == forgery.header["session"]
    head, [signed] = receipt.head, signed_run().messages("Head", ONE)
    assert head is not None
    assert (head.count, head.signature) == (1, signed.signature)
    assert head.heard in signed_run().statement(ONE)


def test_a_receipt_shows_no_salt_but_its_own() -> None:
    """Nobody can test guesses of a neighbour's report: the salt of its leaf is not shown."""
    forgery = Forgery(signed_run().content)
    leaves = log_leaves(forgery.secret, forgery.contents())
    assert len({leaf[:16] for leaf in leaves}) == len(leaves)
    shown = encode_receipt(receipt_of(signed_run()))
    assert sum(leaf[:16] in shown for leaf in leaves) == 2
    assert forgery.secret not in shown


@pytest.mark.parametrize("profile", ["sparse", "literal"])
def test_a_receipt_of_a_secure_sum_is_about_the_contribution(profile: Any) -> None:
    """Of many messages the one that bears on the records."""
    sums = msgspec.structs.replace(SUM.sums, profile=profile)
    run = finished_run(setting(SecureSumVariant(survey=SURVEY, sums=sums)))
    receipt = receipt_of(run, TWO, SecureSumVariant)
    assert receipt_problems(receipt, run.checkpoint) == ()
    assert topics_of(receipt) == [("Upload" if profile == "sparse" else "Partial", -1)]
    assert len(encode_receipt(receipt)) < 3000


def test_a_party_that_did_not_sign_gets_a_receipt_all_the_same() -> None:
    run = finished_run(setting(), unsigned=(ONE,))
    receipt = receipt_of(run)
    assert receipt.head is None
    assert receipt_problems(receipt, run.checkpoint) == ()
    [counted] = receipt.counted
    proved = msgspec.structs.replace(counted, path=(bytes(32),))
    assert receipt_problems(msgspec.structs.replace(receipt, counted=(proved,)), run.checkpoint)
    assert receipt_of(run, TWO).head is not None


def test_nothing_is_a_receipt_of_the_aggregator() -> None:
    other = msgspec.structs.replace(receipt_of(signed_run()), place=0)
    problems = receipt_problems(other, signed_run().checkpoint)
    assert "the receipt is for the aggregator, which has no reports" in problems


def test_a_receipt_holds_with_its_own_checkpoint_alone() -> None:
    run = signed_run()
    receipt = receipt_of(run)
    other = rewritten(run, changed_report(TWO, head=False))
    assert receipt_problems(receipt, other.checkpoint)
    unsigned = msgspec.structs.replace(run.checkpoint, signature=bytes(64))
    assert receipt_problems(receipt, unsigned) == ("the checkpoint is not signed by the key in it",)


def test_words_that_a_party_did_not_say_are_not_signed_by_it() -> None:
    """The aggregator changes a report, drops the head, and signs all of it afresh."""
    forged = rewritten(signed_run(), changed_report(ONE, head=False))
    receipt = receipt_of(forged)
    assert receipt.head is None
    assert receipt_problems(receipt, forged.checkpoint) == ()
    original, _ = envelopes(signed_run(), ONE)
    assert not is_about(receipt, original)


def refusal(run: Any, party: PartyId = ONE, variant: type[Any] = RRIndependent) -> str:
    with pytest.raises(NotCountedError) as caught:
        receipt_of(run, party, variant)
    return str(caught.value).removeprefix(f"no receipt for {party!r}: ")


def crashed(kind: str | None = None) -> Sequence[Fault]:
    return (Fault(verdict=Verdict.CRASH, sender=ONE, kind=kind),)


def test_who_was_not_counted_gets_none() -> None:
    where = setting()
    lost = finished_run(where, (Fault(verdict=Verdict.DROP, sender=ONE, kind="Report"),))
    assert refusal(lost) == "its report came too late to be counted, or never arrived"
    assert refusal(finished_run(where, crashed())) == "it reported nothing: crashed"
    late = finished_run(
        where, (Fault(verdict=Verdict.PASS, delay=1000.0, sender=ONE, kind="Report"),)
    )
    assert refusal(late) == "its report came too late to be counted, or never arrived"
    dropped = rewritten(signed_run(), without(sender=ONE, kinds=("Report", "Head")))
    assert refusal(dropped) == "it reported nothing"
    # The others are none the worse for it.
    assert receipt_problems(receipt_of(late, TWO), late.checkpoint) == ()


class Choosy(RRIndependent, frozen=True):
    """Randomized response that one party wants no part in."""

    name = "choosy"

    async def party(self, me: Me, records: Records) -> None:
        if me.id == ONE:
            raise PrivacyError("not with me")
        await super().party(me, records)


def test_who_declined_gets_none() -> None:
    run = finished_run(setting(Choosy.with_keep(SURVEY, 0.6)))
    assert refusal(run, ONE, Choosy) == "it declined: it did not agree to what it was asked"
    assert receipt_problems(receipt_of(run, TWO, Choosy), run.checkpoint) == ()


def test_a_sum_without_the_partys_upload_gives_none() -> None:
    """It was counted among those who join, and that is not enough."""
    where = setting(msgspec.structs.replace(SUM, sums=SecureSum(dropped=0.2)), parties=9)
    run = finished_run(where, crashed("Upload"))
    assert refusal(run, ONE, SecureSumVariant) == "it reported nothing: crashed"
    assert receipt_problems(receipt_of(run, TWO, SecureSumVariant), run.checkpoint) == ()


CLUSTERS = RRClusters(
    survey=SURVEY, p=0.6, tv=6, td=0.1, dependence="rr", sums=SecureSum(dropped=0.34, corrupt=0.15)
)


def test_of_several_reports_those_that_were_counted_are_shown() -> None:
    """Counted with its report on pairs, gone before it could report by clusters."""
    receipt = receipt_of(run := finished_run(setting(CLUSTERS), crashed("Report")), ONE, RRClusters)
    assert receipt_problems(receipt, run.checkpoint) == ()
    assert topics_of(receipt) == [("PilotReport", -1)]
    assert receipt.head is None
    both = receipt_of(run, TWO, RRClusters)
    assert topics_of(both) == [("PilotReport", -1), ("Report", -1)]
    assert receipt_problems(both, run.checkpoint) == ()


def test_what_comes_after_a_closing_is_not_counted() -> None:
    """It is delivered all the same, while the aggregator waits for somebody else's next report."""
    late = Fault(verdict=Verdict.PASS, delay=70.0, sender=ONE, kind="PilotReport")
    slow = Fault(verdict=Verdict.PASS, delay=30.0, sender=TWO, kind="Report")
    run = finished_run(setting(CLUSTERS), (late, slow))
    # After its number of respondents.
    [came] = [e for e in run.entries if isinstance(e, Delivered) and (e.sender, e.seq) == (ONE, 1)]
    assert came.at == 70_000_000
    assert refusal(run, ONE, RRClusters).startswith("its report came too late")


def test_of_rounds_those_that_were_counted_are_shown() -> None:
    """Three rounds of reports, of which the last of the first party's is lost."""
    variant = PrivKVMVariant(survey=FILMS, epsilon=2.0, rounds=3)
    codec = charter_of(variant, PARTIES).codec

    def fate(item: Envelope) -> Fate:
        late = item.sender == ONE and item.kind == "KeyReport"
        message = codec.decode(item.kind, item.body) if late else None
        return Fate(Verdict.DROP) if getattr(message, "round", 0) == 2 else PASS

    run = recorded(variant, PARTIES, fate=fate, signed=True)
    receipt = receipt_of(run, ONE, PrivKVMVariant)
    assert receipt_problems(receipt, run.checkpoint) == ()
    assert topics_of(receipt) == [("KeyReport", 0), ("KeyReport", 1)]
    first, second = receipt.counted
    # That this envelope is of that round is the receipt's word, until its body is read.
    crossed = msgspec.structs.replace(
        receipt, counted=(Counted(first.report, second.closing, first.path),)
    )
    assert receipt_problems(crossed, run.checkpoint) == ()
    twice = msgspec.structs.replace(receipt, counted=(first, first))
    assert "two reports are of one kind and round" in receipt_problems(twice, run.checkpoint)


def test_a_record_that_proves_nothing_gives_none() -> None:
    run = signed_run()
    broken = Forgery(run.content)
    broken.entries[0][1] = 7
    assert refusal(Written(broken.write())).startswith("the record is not sound: ")
    unsigned = written(make_header(setting().charter), run.entries)
    assert refusal(unsigned) == "the record has no checkpoint that is signed"
    damaged = unreadable_after_header(run.content)
    assert refusal(Written(damaged)).startswith("the record could not be read: ")


def test_a_receipt_is_given_while_the_survey_runs() -> None:
    """From a record that grows or has been torn off, for any checkpoint after the closing."""
    run = signed_run()
    forgery = Forgery(run.content)
    first, counted, last = map(read_note, forgery.notes.values())
    assert (first.size, last) == (1, run.checkpoint)
    whole = receipt_of(run)
    early, covering = prove(lambda: (run.content,), RRIndependent, ONE, counted)
    assert covering == counted
    assert receipt_problems(early, counted) == ()
    assert receipt_problems(early, last)
    assert receipt_problems(whole, counted)
    assert early.head == whole.head
    with pytest.raises(NotCountedError, match=r"it was counted after the checkpoint of size 1$"):
        prove(lambda: (run.content,), RRIndependent, ONE, first)
    # The record as it was before its end.
    torn = plain(forgery.written()[:-2], forgery.secret)[:-1]
    found = prove(lambda: (torn,), RRIndependent, ONE)
    assert found[1] == counted
    assert receipt_problems(*found) == ()
    assert found[0].counted == early.counted


def test_a_receipt_is_given_for_a_checkpoint_of_the_record_alone() -> None:
    run = signed_run()
    fork = rewritten(run, changed_report(TWO, head=False))
    with pytest.raises(NotCountedError, match="the checkpoint is not of this record"):
        prove(lambda: (run.content,), RRIndependent, ONE, fork.checkpoint)


def test_nothing_of_a_record_is_read_that_has_come_since_it_was_verified() -> None:
    """It grows between the two readings; what is new may be anything."""
    run = signed_run()
    forgery = Forgery(run.content)
    records = forgery.written()
    stranger = msgspec.msgpack.encode([forgery.header["session"], "carl", ONE, 0, "Ask", b""])
    new = msgspec.msgpack.encode(["Sent", 9, stranger])
    grown = plain([*records[:-2], new], forgery.secret)
    readings = iter((plain(records[:-2], forgery.secret), grown))
    assert receipt_problems(*prove(lambda: (next(readings),), RRIndependent, ONE)) == ()


def test_a_run_that_failed_has_receipts_too() -> None:
    """What was counted was counted, whether or not a result was published."""
    run = signed_run()
    entries = [e for e in run.entries if not (isinstance(e, Sent) and b"Estimate" in e.envelope)]
    failed = written(
        make_header(setting().charter), entries, signer=AGGREGATORS, complete=False, reason="x"
    )
    assert receipt_problems(receipt_of(failed), failed.checkpoint) == ()


@pytest.mark.parametrize("party", ["aggregator", "nobody", RECORD])
def test_of_whom_there_is_none(party: str) -> None:
    with pytest.raises(SurveyError, match="not on the roster of 7 parties"):
        receipt_of(signed_run(), PartyId(party))


def test_of_another_variant_there_is_none() -> None:
    with pytest.raises(SurveyError, match="variant"):
        receipt_of(signed_run(), ONE, SecureSumVariant)


def test_no_repr_shows_a_path() -> None:
    assert repr(receipt_of(signed_run())) == "Receipt('party-1', 1 reports)"
