"""Receipts: given for what was counted, refused for all else, and checked without the record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from protocol.audit.proofs.receipt import NotCountedError, prove
from protocol.crypto.merkle import inclusion_path, joint_path, leaf_hash, levels_of
from protocol.errors import PrivacyError, SurveyError
from protocol.messages import AGGREGATOR, RECORD, PartyId
from protocol.session.fates import Verdict
from protocol.session.roles import Me
from protocol.session.roster import Roster
from protocol.sharing.sums import SecureSum
from protocol.surveys.records import Records
from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.transcript.entries import CanonicalDigest, Delivered
from protocol.transcript.header import header_of
from protocol.transcript.receipts import (
    Counted,
    Receipt,
    decode_receipt,
    encode_receipt,
    is_about,
    problems_of,
)
from protocol.transcript.standing import Standings
from protocol.variants import RRClusters, RRIndependent, SecureSumVariant
from tests.recorded.runs import Written, written
from tests.recorded.signed import (
    ONE,
    SURVEY,
    TWO,
    Run,
    changed_report,
    envelopes,
    rewritten,
    run_of,
    setting,
    signed_run,
    without,
)
from transports.faults import Fault

SUM = SecureSumVariant(survey=SURVEY)
pack = msgspec.msgpack.encode


def receipt_of(run: Run, party: PartyId = ONE, variant: type[Any] = RRIndependent) -> Receipt:
    return prove(lambda: (run.content,), variant, party)


def test_every_party_gets_a_receipt_that_holds() -> None:
    run = signed_run()
    for party in setting().charter.roster.parties:
        receipt = receipt_of(run, party)
        assert problems_of(receipt, run.checkpoint) == ()
        assert receipt.standing.counted == (("Report", -1),)
        assert [r.seq for r in receipt.reports] == [0]
        report, head = envelopes(run, party)
        assert receipt.reports[0].leaf == leaf_hash(report)
        assert is_about(receipt, report)
        assert not is_about(receipt, head)
        assert decode_receipt(encode_receipt(receipt)) == receipt


@pytest.mark.parametrize(
    ("variant", "topics"),
    [
        (SUM, [("Upload", -1)]),
        (
            SecureSumVariant(
                survey=SURVEY, sums=msgspec.structs.replace(SUM.sums, profile="literal")
            ),
            [("Partial", -1)],
        ),
    ],
    ids=["sparse", "literal"],
)
def test_a_receipt_of_a_secure_sum_is_about_the_contribution(
    variant: SecureSumVariant, topics: list[tuple[str, int]]
) -> None:
    """Of many messages the one that bears on the records; the rest stays folded in its path."""
    where = setting(variant)
    run = run_of(where)
    receipt = receipt_of(run, TWO, SecureSumVariant)
    assert problems_of(receipt, run.checkpoint) == ()
    assert [r.topic for r in receipt.reports] == topics
    assert receipt.standing.count == len(envelopes(run, TWO)) >= 4
    assert len(encode_receipt(receipt)) < 1500


def test_a_party_that_did_not_sign_gets_a_receipt_all_the_same() -> None:
    run = run_of(setting(), unsigned=(ONE,))
    receipt = receipt_of(run)
    assert (receipt.head, receipt.key) == (None, None)
    assert receipt.standing.count == 1
    assert not receipt.standing.signed
    keyed = msgspec.structs.replace(receipt, key=setting().identities[ONE].public)
    assert problems_of(keyed, run.checkpoint) == (
        "the party's signed head does not match the record",
    )
    assert problems_of(receipt, run.checkpoint) == ()
    extended = msgspec.structs.replace(receipt, extension=(bytes(32),))
    assert problems_of(extended, run.checkpoint)
    assert receipt_of(run, TWO).head is not None


def variations(receipt: Receipt) -> dict[str, Receipt]:
    """The receipt with one thing changed in each."""

    def replaced(**changes: Any) -> Receipt:
        return msgspec.structs.replace(receipt, **changes)

    standing, head = receipt.standing, receipt.head
    assert head is not None
    other = receipt_of(signed_run(), TWO)

    def stands(**changes: Any) -> Receipt:
        return replaced(standing=msgspec.structs.replace(standing, **changes))

    [report] = receipt.reports
    said = [leaf_hash(word) for word in envelopes(signed_run(), ONE)]
    return {
        "session": replaced(session=bytes(16)),
        "members": replaced(members=receipt.members + 1),
        "place": replaced(place=receipt.place + 1),
        "aggregator": replaced(place=0),
        "member": stands(member=TWO),
        "count": stands(count=standing.count + 1),
        "nothing said": stands(count=0),
        "root": stands(root=bytes(32)),
        "counted": stands(counted=(*standing.counted, ("More", 0))),
        "not counted": stands(counted=()),
        "missed": stands(missed=(("More", 0),)),
        "leaf": replaced(reports=(msgspec.structs.replace(report, leaf=bytes(32)),)),
        "seq": replaced(reports=(msgspec.structs.replace(report, seq=1),)),
        "topic": replaced(reports=(msgspec.structs.replace(report, topic=("Report", 1)),)),
        "no report": replaced(reports=()),
        "a report twice": replaced(reports=(report, report)),
        "path": replaced(path=(*receipt.path, bytes(32))),
        "key": replaced(key=other.key),
        "no key": replaced(key=None),
        "not signed": stands(signed=False),
        "not signed, no head": replaced(
            head=None,
            key=None,
            extension=(),
            standing=msgspec.structs.replace(standing, signed=False),
        ),
        "head taken out": replaced(
            head=None,
            key=None,
            extension=(),
            path=joint_path(levels_of(said), [report.seq]),
        ),
        "the head as a report": replaced(
            head=None,
            key=None,
            extension=(),
            reports=(Counted(1, report.topic, said[1]),),
            path=joint_path(levels_of(said), [1]),
        ),
        "head": replaced(head=(bytes(32), head[1])),
        "signature": replaced(head=(head[0], bytes(64))),
        "another's head": replaced(head=other.head),
        "no head": replaced(head=None),
        "no head and no extension": replaced(head=None, extension=()),
        "extension": replaced(extension=()),
        "digest path": replaced(digest_path=receipt.digest_path[::-1]),
        "no digest path": replaced(digest_path=()),
        "standing path": replaced(standing_path=receipt.standing_path[::-1]),
        "another's standing path": replaced(standing_path=other.standing_path),
        "checkpoint": replaced(checkpoint=bytes(64)),
    }


@pytest.mark.parametrize("what", variations(receipt_of(signed_run())))
def test_a_receipt_for_anything_else_does_not_hold(what: str) -> None:
    run = signed_run()
    forged = variations(receipt_of(run))[what]
    assert forged != receipt_of(run)
    problems = problems_of(forged, run.checkpoint)
    assert problems
    assert ("the receipt is for the aggregator, which has no reports" in problems) == (
        what == "aggregator"
    )


def test_a_receipt_holds_with_its_own_checkpoint_alone() -> None:
    run = signed_run()
    receipt = receipt_of(run)
    checkpoint = run.checkpoint
    other = rewritten(run, changed_report(TWO, head=False))
    assert problems_of(receipt, other.checkpoint)
    # Its own signature would be all that a forger has to put in.
    forged = msgspec.structs.replace(receipt, checkpoint=other.checkpoint.signature)
    assert set(problems_of(forged, other.checkpoint)) == {
        "the party's envelopes are not in the digest of the checkpoint",
        "the closings that counted the party do not match the checkpoint",
    }
    unsigned = msgspec.structs.replace(checkpoint, signature=receipt.checkpoint[::-1])
    assert "the checkpoint is not signed by the key in it" in problems_of(receipt, unsigned)
    for changes, problem in (
        ({"standing": None}, "the checkpoint is not the last one of its run"),
        ({"result": None}, "the run has published no result"),
    ):
        statement = msgspec.structs.replace(checkpoint.statement, **changes)
        early = msgspec.structs.replace(checkpoint, statement=statement)
        assert problem in problems_of(receipt, early)


def test_words_that_a_party_did_not_say_are_not_signed_by_it() -> None:
    """The aggregator changes a report, drops the head, and signs all of it afresh."""
    forged = rewritten(signed_run(), changed_report(ONE, head=False))
    receipt = receipt_of(forged)
    assert receipt.head is None
    assert problems_of(receipt, forged.checkpoint) == ()
    original, _ = envelopes(signed_run(), ONE)
    assert not is_about(receipt, original)


def refusal(run: Run, party: PartyId = ONE, variant: type[Any] = RRIndependent) -> str:
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
    receipt = receipt_of(run, TWO, SecureSumVariant)
    assert problems_of(receipt, run.checkpoint) == ()


def test_what_was_missed_is_said() -> None:
    """Counted with its report on pairs, gone before it could report by clusters."""
    where = setting(RRClusters(survey=SURVEY, p=0.6, tv=6, td=0.1, dependence="rr"))
    receipt = receipt_of(run := run_of(where, crashed("Report")), ONE, RRClusters)
    assert problems_of(receipt, run.checkpoint) == ()
    assert [r.topic for r in receipt.reports] == [("PilotReport", -1)]
    assert receipt.standing.missed == (("Report", -1),)
    assert receipt.head is None
    both = receipt_of(run, TWO, RRClusters)
    assert [r.topic for r in both.reports] == [("PilotReport", -1), ("Report", -1)]
    assert problems_of(both, run.checkpoint) == ()
    assert both.standing.missed == ()


def test_what_comes_after_a_closing_is_not_counted() -> None:
    """It is delivered all the same, while the aggregator waits for somebody else's next report."""
    where = setting(RRClusters(survey=SURVEY, p=0.6, tv=6, td=0.1, dependence="rr"))
    late = Fault(verdict=Verdict.PASS, delay=70.0, sender=ONE, kind="PilotReport")
    slow = Fault(verdict=Verdict.PASS, delay=30.0, sender=TWO, kind="Report")
    run = run_of(where, (late, slow))
    [came] = [e for e in run.entries if isinstance(e, Delivered) and (e.sender, e.seq) == (ONE, 0)]
    assert came.at == 70_000_000
    assert refusal(run, ONE, RRClusters).startswith("its report came too late")


def test_a_record_that_proves_nothing_gives_none() -> None:
    run = signed_run()
    assert receipt_of(Written(run.content[:-1], run.checkpoint)) == receipt_of(run)
    half = run.content[: len(run.content) // 2]
    assert refusal(Written(half, run.checkpoint)).startswith("the record has no last")
    broken = bytearray(run.content)
    broken[-1] ^= 1
    assert refusal(Written(bytes(broken), run.checkpoint)).startswith("the record is not sound: ")
    header = header_of(setting().charter)
    unsigned = written(header, ())
    assert refusal(Written(unsigned.content, run.checkpoint)).startswith("the record has no last")
    failed = written(
        header, (), signer=setting().identities[AGGREGATOR], complete=False, reason="x"
    )
    assert refusal(Written(failed.content, run.checkpoint)) == "nothing was published"


@pytest.mark.parametrize("party", ["aggregator", "nobody", RECORD])
def test_of_whom_there_is_none(party: str) -> None:
    with pytest.raises(SurveyError, match="not on the roster of 7 parties"):
        receipt_of(signed_run(), PartyId(party))


def test_of_another_variant_there_is_none() -> None:
    with pytest.raises(SurveyError, match="variant"):
        receipt_of(signed_run(), ONE, SecureSumVariant)


def test_a_receipt_has_one_encoding() -> None:
    content = encode_receipt(receipt_of(signed_run()))
    assert content.startswith(b"sottovoce receipt 1\n")
    for forged in (
        b"",
        content[1:],
        content[:-1],
        content + b"\0",
        content.replace(b"\x08", b"\xcc\x08", 1),
    ):
        with pytest.raises(ValueError, match="receipt"):
            decode_receipt(forged)


def test_receipts_of_a_large_survey_are_small() -> None:
    """32,561 parties, by the trees alone: 15 hashes to each root."""
    members = [AGGREGATOR, *(PartyId(f"party-{i:05}") for i in range(1, 32_562))]
    roster = Roster(tuple((name, leaf_hash(name.encode())) for name in members))
    header = msgspec.structs.replace(header_of(setting().charter), roster=roster.members)
    canonical = CanonicalDigest(header)
    for name in members:
        canonical.trees[name].append(name.encode())
        canonical.trees[name].append(b"head")
    everybody = roster.bitmap(roster.parties)
    standings = Standings(members)
    standings.add(pack(["Report", -1, everybody, everybody]))
    small = receipt_of(signed_run())
    digest_leaves = [leaf_hash(leaf) for leaf in canonical.leaves()]
    standing_leaves = [leaf_hash(leaf) for leaf in standings.leaves(canonical.trees)]
    for place in (1, 16_384, 32_561):
        receipt = msgspec.structs.replace(
            small,
            members=len(members),
            place=place,
            standing=standings.of(place, canonical.trees[members[place]]),
            digest_path=inclusion_path(digest_leaves, place + 1),
            standing_path=inclusion_path(standing_leaves, place),
        )
        assert len(encode_receipt(receipt)) <= 1600
        statement = msgspec.structs.replace(
            signed_run().checkpoint.statement,
            digest=canonical.digest(),
            standing=standings.root(canonical.trees),
        )
        problems = problems_of(receipt, SignedCheckpoint(statement, bytes(32), bytes(64)))
        assert not any("digest" in p or "closings" in p for p in problems)


def test_no_repr_shows_a_path() -> None:
    assert repr(receipt_of(signed_run())) == "Receipt('party-1', 1 reports)"
