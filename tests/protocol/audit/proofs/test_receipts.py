"""Receipts: given for what was counted, refused for all else, and checked without the record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from protocol.audit.proofs.receipt import NotCountedError, prove
from protocol.crypto.merkle import inclusion_path, joint_path, leaf_hash, levels_of
from protocol.errors import PrivacyError, SurveyError
from protocol.messages import AGGREGATOR, RECORD, Envelope, PartyId
from protocol.session.fates import PASS, Fate, Verdict
from protocol.session.roles import Me
from protocol.sharing.sums import SecureSum
from protocol.surveys.records import Records
from protocol.transcript.checkpoints import SignedCheckpoint, sign_checkpoint
from protocol.transcript.entries import Delivered, Ending, Sent, decode_item, encode_item
from protocol.transcript.header import header_of
from protocol.transcript.receipts import (
    Counted,
    Receipt,
    Shown,
    decode_receipt,
    encode_receipt,
    is_about,
    problems_of,
)
from protocol.variants import RRClusters, RRIndependent, SecureSumVariant
from protocol.variants.keyvalue.privkv import PrivKVMVariant
from protocol.wire.codec import decode_envelope, encode_envelope
from tests.every_variant import FILMS, PARTIES
from tests.protocol.sessions import charter_of
from tests.recorded.forgeries import Forgery
from tests.recorded.runs import Written, recorded, written
from tests.recorded.signed import (
    ONE,
    SURVEY,
    TWO,
    changed_report,
    envelopes,
    rewritten,
    run_of,
    setting,
    signed_run,
    without,
)
from tests.vectors.make import log_leaves, path_of
from transports.faults import Fault

SUM = SecureSumVariant(survey=SURVEY)
AGGREGATORS = setting().identities[AGGREGATOR]


def receipt_of(run: Any, party: PartyId = ONE, variant: type[Any] = RRIndependent) -> Receipt:
    return prove(lambda: (run.content,), variant, party)


def topics_of(receipt: Receipt) -> list[Any]:
    return [each.topic for each in receipt.counted]


def test_every_party_gets_a_receipt_that_holds() -> None:
    run = signed_run()
    for party in setting().charter.roster.parties:
        receipt = receipt_of(run, party)
        assert problems_of(receipt, run.checkpoint) == ()
        assert topics_of(receipt) == [("Report", -1)]
        report, head = envelopes(run, party)
        assert is_about(receipt, report)
        assert not is_about(receipt, head)
        assert receipt.session == setting().charter.session
        assert decode_receipt(encode_receipt(receipt)) == receipt


def test_a_receipt_is_what_the_format_says() -> None:
    """Its entries are leaves of the log, by the description alone."""
    forgery = Forgery(signed_run().content)
    contents = forgery.contents()
    leaves = log_leaves(forgery.secret, contents)
    receipt = receipt_of(signed_run())
    [counted] = receipt.counted
    for shown in (counted.report, counted.closing, receipt.ending):
        assert shown.content == contents[shown.index]
        assert shown.salt == leaves[shown.index][:16]
        assert list(shown.path) == path_of(shown.index, leaves)
    roster = [key + name.encode() for name, key in forgery.header["roster"]]
    assert list(receipt.roster) == path_of(receipt.place, roster)
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
    assert sum(leaf[:16] in shown for leaf in leaves) == 3
    assert forgery.secret not in shown


@pytest.mark.parametrize("profile", ["sparse", "literal"])
def test_a_receipt_of_a_secure_sum_is_about_the_contribution(profile: Any) -> None:
    """Of many messages the one that bears on the records."""
    sums = msgspec.structs.replace(SUM.sums, profile=profile)
    run = run_of(setting(SecureSumVariant(survey=SURVEY, sums=sums)))
    receipt = receipt_of(run, TWO, SecureSumVariant)
    assert problems_of(receipt, run.checkpoint) == ()
    assert topics_of(receipt) == [("Upload" if profile == "sparse" else "Partial", -1)]
    assert len(encode_receipt(receipt)) < 3000


def test_a_party_that_did_not_sign_gets_a_receipt_all_the_same() -> None:
    run = run_of(setting(), unsigned=(ONE,))
    receipt = receipt_of(run)
    assert receipt.head is None
    assert problems_of(receipt, run.checkpoint) == ()
    assert problems_of(msgspec.structs.replace(receipt, path=(bytes(32),)), run.checkpoint)
    assert receipt_of(run, TWO).head is not None


def with_envelope(shown: Shown, **changes: Any) -> Shown:
    """The entry with another envelope."""
    item = decode_item(shown.content)
    assert isinstance(item, Sent)
    envelope = msgspec.structs.replace(decode_envelope(item.envelope), **changes)
    sent = msgspec.structs.replace(item, envelope=encode_envelope(envelope))
    return msgspec.structs.replace(shown, content=encode_item(sent))


def variations(receipt: Receipt) -> dict[str, Receipt]:
    """The receipt with one thing changed in each."""

    def replaced(**changes: Any) -> Receipt:
        return msgspec.structs.replace(receipt, **changes)

    [counted], head, ending = receipt.counted, receipt.head, receipt.ending
    assert head is not None
    report, closing = counted.report, counted.closing
    other = receipt_of(signed_run(), TWO)

    def reported(**changes: Any) -> Receipt:
        return replaced(counted=(Counted(msgspec.structs.replace(report, **changes), closing),))

    return {
        "party": replaced(party=TWO),
        "key": replaced(key=other.key),
        "place": replaced(place=other.place),
        "another's place and path": replaced(place=other.place, roster=other.roster),
        "another's name, key and place": replaced(
            party=other.party, key=other.key, place=other.place, roster=other.roster
        ),
        "aggregator": replaced(place=0),
        "members": replaced(members=receipt.members + 9),
        "roster": replaced(roster=receipt.roster[::-1]),
        "nothing counted": replaced(counted=()),
        "counted twice": replaced(counted=(counted, counted)),
        "another's report": replaced(counted=other.counted),
        "index": reported(index=report.index + 1),
        "salt": reported(salt=bytes(16)),
        "path": reported(path=report.path[1:]),
        "report": reported(content=closing.content),
        "malformed": reported(content=b"\xc1"),
        "body": reported(content=with_envelope(report, body=b"\x91").content),
        "closing": replaced(counted=(Counted(report, with_envelope(closing, body=b"\x94")),)),
        "report for closing": replaced(counted=(Counted(report, report),)),
        "another's head": replaced(head=other.head),
        "count": replaced(head=msgspec.structs.replace(head, count=2)),
        "heard": replaced(head=msgspec.structs.replace(head, heard=bytes(32))),
        "signature": replaced(head=msgspec.structs.replace(head, signature=bytes(64))),
        "path without head": replaced(head=None, path=(bytes(32),)),
        "path of the head": replaced(path=(bytes(32),)),
        "ending": replaced(ending=closing),
        "salt of the ending": replaced(ending=msgspec.structs.replace(ending, salt=bytes(16))),
    }


@pytest.mark.parametrize("what", variations(receipt_of(signed_run())))
def test_a_receipt_for_anything_else_does_not_hold(what: str) -> None:
    run = signed_run()
    forged = variations(receipt_of(run))[what]
    assert forged != receipt_of(run)
    problems = problems_of(forged, run.checkpoint)
    assert problems
    of_aggregator = "the receipt is for the aggregator, which has no reports"
    assert (of_aggregator in problems) == (what == "aggregator")


def test_a_receipt_holds_with_its_own_checkpoint_alone() -> None:
    run = signed_run()
    receipt = receipt_of(run)
    other = rewritten(run, changed_report(TWO, head=False))
    assert problems_of(receipt, other.checkpoint)
    unsigned = msgspec.structs.replace(run.checkpoint, signature=bytes(64))
    assert problems_of(receipt, unsigned) == ("the checkpoint is not signed by the key in it",)


Change = Callable[[list[bytes]], Any]
REPORT, CLOSING, ENDING = range(3)


def made_up(change: Change = list) -> tuple[Receipt, SignedCheckpoint]:
    """A receipt over a log of three other contents that the aggregator signs."""
    receipt = receipt_of(signed_run())
    [counted] = receipt.counted
    shown = (counted.report, counted.closing, receipt.ending)
    contents = [each.content for each in shown]
    change(contents)
    leaves = log_leaves(bytes(32), contents)
    hashes = [leaf_hash(leaf) for leaf in leaves]
    report, closing, ending = (
        Shown(index=i, salt=leaf[:16], content=contents[i], path=inclusion_path(hashes, i))
        for i, leaf in enumerate(leaves)
    )
    forged = msgspec.structs.replace(receipt, counted=(Counted(report, closing),), ending=ending)
    root, session = levels_of(hashes)[-1][0], setting().charter.session
    return forged, sign_checkpoint(AGGREGATORS, session=session, size=3, root=root)


def lying(place: int, **changes: Any) -> Change:
    def change(contents: list[bytes]) -> None:
        item = decode_item(contents[place])
        if isinstance(item, Ending):
            contents[place] = encode_item(msgspec.structs.replace(item, **changes))
        else:
            shown = Shown(index=0, salt=bytes(16), content=contents[place], path=())
            contents[place] = with_envelope(shown, **changes).content

    return change


def closing(of: str = "Report", counted: bytes = b"\xfe", round_: int = -1) -> Change:
    return lying(CLOSING, body=msgspec.msgpack.encode([of, round_, b"\xfe", counted]))


def of_kernel_kind(contents: list[bytes]) -> None:
    lying(REPORT, kind="Left")(contents)
    closing("Left")(contents)


def swapped(contents: list[bytes]) -> None:
    contents[REPORT], contents[CLOSING] = contents[CLOSING], contents[REPORT]


NOT_COUNTED = "a report was not counted"
UNSIGNED = "signed head does not match"
LIES: dict[str, tuple[Change, str]] = {
    "nothing published": (lying(ENDING, result=None), "the run has published no result"),
    "another roster": (lying(ENDING, roster=bytes(32)), "the party is not on the roster"),
    "another session": (lying(REPORT, session=bytes(16)), "of another session"),
    "in another's name": (lying(REPORT, sender=TWO), NOT_COUNTED),
    "to the record": (lying(REPORT, recipient=RECORD), NOT_COUNTED),
    "a kernel kind": (of_kernel_kind, NOT_COUNTED),
    "of another kind": (closing("More"), NOT_COUNTED),
    "not counted": (closing(counted=b"\xfc"), NOT_COUNTED),
    "a round beyond reading": (closing(round_=1 << 63), NOT_COUNTED),
    "a bitmap too long": (closing(counted=b"\xfe\0"), NOT_COUNTED),
    "closed by a party": (lying(CLOSING, sender=TWO), NOT_COUNTED),
    "closed in place of the report": (swapped, NOT_COUNTED),
    "no ending": (lambda c: c.__setitem__(ENDING, c[CLOSING]), "over the whole record"),
    "another report": (lying(REPORT, body=b"\x91\x91\x00"), UNSIGNED),
    "another number": (lying(REPORT, seq=1), UNSIGNED),
}


def test_without_a_lie_the_made_up_log_is_sound() -> None:
    assert problems_of(*made_up()) == ()
    assert problems_of(*made_up(closing())) == ()


@pytest.mark.parametrize("what", LIES)
def test_what_an_aggregator_makes_up_is_found(what: str) -> None:
    change, says = LIES[what]
    problems = problems_of(*made_up(change))
    assert any(says in problem for problem in problems), problems


def test_a_bitmap_names_nobody_beyond_the_roster() -> None:
    receipt, checkpoint = made_up()
    for members, sound in ((8, True), (7, False)):
        forged = msgspec.structs.replace(receipt, members=members)
        assert (NOT_COUNTED not in problems_of(forged, checkpoint)) == sound


def test_a_closing_before_the_report_does_not_count_it() -> None:
    receipt, checkpoint = made_up()
    [counted] = receipt.counted
    early = msgspec.structs.replace(counted.report, index=counted.closing.index)
    forged = msgspec.structs.replace(receipt, counted=(Counted(early, counted.closing),))
    assert NOT_COUNTED in problems_of(forged, checkpoint)


def test_words_that_a_party_did_not_say_are_not_signed_by_it() -> None:
    """The aggregator changes a report, drops the head, and signs all of it afresh."""
    forged = rewritten(signed_run(), changed_report(ONE, head=False))
    receipt = receipt_of(forged)
    assert receipt.head is None
    assert problems_of(receipt, forged.checkpoint) == ()
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
    lost = run_of(where, (Fault(verdict=Verdict.DROP, sender=ONE, kind="Report"),))
    assert refusal(lost) == "its report came too late to be counted, or never arrived"
    assert refusal(run_of(where, crashed())) == "it reported nothing: crashed"
    late = run_of(where, (Fault(verdict=Verdict.PASS, delay=1000.0, sender=ONE, kind="Report"),))
    assert refusal(late) == "its report came too late to be counted, or never arrived"
    dropped = rewritten(signed_run(), without(sender=ONE, kinds=("Report", "Head")))
    assert refusal(dropped) == "it reported nothing"
    # The others are none the worse for it.
    assert problems_of(receipt_of(late, TWO), late.checkpoint) == ()


class Choosy(RRIndependent, frozen=True):
    """Randomized response that one party wants no part in."""

    name = "choosy"

    async def party(self, me: Me, records: Records) -> None:
        if me.id == ONE:
            raise PrivacyError("not with me")
        await super().party(me, records)


def test_who_declined_gets_none() -> None:
    run = run_of(setting(Choosy.with_keep(SURVEY, 0.6)))
    assert refusal(run, ONE, Choosy) == "it declined: not with me"
    assert problems_of(receipt_of(run, TWO, Choosy), run.checkpoint) == ()


def test_a_sum_without_the_partys_upload_gives_none() -> None:
    """It was counted among those who join, and that is not enough."""
    where = setting(msgspec.structs.replace(SUM, sums=SecureSum(dropped=0.2)), parties=9)
    run = run_of(where, crashed("Upload"))
    assert refusal(run, ONE, SecureSumVariant) == "it reported nothing: crashed"
    assert problems_of(receipt_of(run, TWO, SecureSumVariant), run.checkpoint) == ()


CLUSTERS = RRClusters(survey=SURVEY, p=0.6, tv=6, td=0.1, dependence="rr")


def test_of_several_reports_those_that_were_counted_are_shown() -> None:
    """Counted with its report on pairs, gone before it could report by clusters."""
    receipt = receipt_of(run := run_of(setting(CLUSTERS), crashed("Report")), ONE, RRClusters)
    assert problems_of(receipt, run.checkpoint) == ()
    assert topics_of(receipt) == [("PilotReport", -1)]
    assert receipt.head is None
    both = receipt_of(run, TWO, RRClusters)
    assert topics_of(both) == [("PilotReport", -1), ("Report", -1)]
    assert problems_of(both, run.checkpoint) == ()


def test_what_comes_after_a_closing_is_not_counted() -> None:
    """It is delivered all the same, while the aggregator waits for somebody else's next report."""
    late = Fault(verdict=Verdict.PASS, delay=70.0, sender=ONE, kind="PilotReport")
    slow = Fault(verdict=Verdict.PASS, delay=30.0, sender=TWO, kind="Report")
    run = run_of(setting(CLUSTERS), (late, slow))
    [came] = [e for e in run.entries if isinstance(e, Delivered) and (e.sender, e.seq) == (ONE, 0)]
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
    assert problems_of(receipt, run.checkpoint) == ()
    assert topics_of(receipt) == [("KeyReport", 0), ("KeyReport", 1)]
    first, second = receipt.counted
    # That this envelope is of that round is the receipt's word, until its body is read.
    hashes = [leaf_hash(word) for word in envelopes(run, ONE)[:-1]]
    crossed = msgspec.structs.replace(
        receipt,
        counted=(Counted(first.report, second.closing),),
        path=joint_path(levels_of(hashes), [0]),
    )
    assert problems_of(crossed, run.checkpoint) == ()
    twice = msgspec.structs.replace(receipt, counted=(first, Counted(first.report, first.closing)))
    assert "two reports are of one kind and round" in problems_of(twice, run.checkpoint)


def test_a_record_that_proves_nothing_gives_none() -> None:
    run = signed_run()
    half = run.content[: len(run.content) // 2]
    assert refusal(Written(half)).startswith("the record has no last")
    broken = Forgery(run.content)
    broken.entries[0][1] = 7
    assert refusal(Written(broken.write())).startswith("the record is not sound: ")
    header = header_of(setting().charter)
    assert refusal(written(header, ())).startswith("the record has no last")
    failed = written(header, (), signer=AGGREGATORS, complete=False, reason="x")
    assert refusal(failed) == "nothing was published"


@pytest.mark.parametrize("party", ["aggregator", "nobody", RECORD])
def test_of_whom_there_is_none(party: str) -> None:
    with pytest.raises(SurveyError, match="not on the roster of 7 parties"):
        receipt_of(signed_run(), PartyId(party))


def test_of_another_variant_there_is_none() -> None:
    with pytest.raises(SurveyError, match="variant"):
        receipt_of(signed_run(), ONE, SecureSumVariant)


def test_a_receipt_has_one_encoding() -> None:
    receipt = receipt_of(signed_run())
    content = encode_receipt(receipt)
    assert content.startswith(b"sottovoce receipt 2\n")
    longer = content.replace(b"\x08", b"\xcc\x08", 1)
    for forged in (b"", content[1:], content[:-1], content + b"\0", longer):
        with pytest.raises(ValueError, match="receipt"):
            decode_receipt(forged)
    most = (1 << 63) - 1
    known = encode_receipt(msgspec.structs.replace(receipt, members=most))
    assert problems_of(decode_receipt(known), signed_run().checkpoint)
    with pytest.raises(ValueError, match="malformed receipt"):
        decode_receipt(encode_receipt(msgspec.structs.replace(receipt, members=most + 1)))


def test_a_receipt_of_a_large_survey() -> None:
    """32,561 parties: 17 hashes for each of three entries, 15 for the roster, and two bitmaps."""
    receipt = receipt_of(signed_run())
    [counted] = receipt.counted
    body = msgspec.msgpack.encode(["Report", -1, bytes(4071), bytes(4071)])
    large_closing = with_envelope(counted.closing, body=body)
    shown = (counted.report, large_closing, receipt.ending)
    path = (bytes(32),) * 17
    report, large, ending = (msgspec.structs.replace(s, path=path) for s in shown)
    grown = msgspec.structs.replace(
        receipt, counted=(Counted(report, large),), ending=ending, roster=path[2:]
    )
    assert len(encode_receipt(grown)) < 12_500


def test_no_repr_shows_a_path() -> None:
    assert repr(receipt_of(signed_run())) == "Receipt('party-1', 1 reports)"
