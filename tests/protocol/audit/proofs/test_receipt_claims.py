"""Receipts: what in them is proved, and what is their own word until an envelope is there."""

from __future__ import annotations

import functools

import msgspec
import pytest

from protocol.audit.proofs.receipt import prove
from protocol.crypto.merkle import joint_path, leaf_hash, levels_of
from protocol.messages import RECORD, Envelope
from protocol.session.fates import PASS, Fate, Verdict
from protocol.session.variant import Variant
from protocol.transcript.receipts import (
    Counted,
    Receipt,
    decode_receipt,
    encode_receipt,
    is_about,
    problems_of,
)
from protocol.variants import RRIndependent
from protocol.variants.keyvalue.privkv import PrivKVMVariant
from protocol.wire.codec import decode_envelope, encode_envelope
from tests.every_variant import FILMS, PARTIES
from tests.protocol.sessions import charter_of
from tests.recorded.runs import recorded
from tests.recorded.signed import ONE, TWO, Run, envelopes, signed_run


def receipt_of(run: Run, variant: type[Variant] = RRIndependent) -> Receipt:
    return prove(lambda: (run.content,), variant, ONE)


@functools.cache
def rounds_run() -> Run:
    """Three rounds of reports, of which the last of the first party's is lost."""
    variant = PrivKVMVariant(survey=FILMS, epsilon=2.0, rounds=3)
    codec = charter_of(variant, PARTIES).codec

    def fate(item: Envelope) -> Fate:
        late = item.sender == ONE and item.kind == "KeyReport"
        message = codec.decode(item.kind, item.body) if late else None
        return Fate(Verdict.DROP) if getattr(message, "round", 0) == 2 else PASS

    return recorded(variant, PARTIES, fate=fate, signed=True)


def test_a_report_of_another_round_is_not_the_one_that_was_counted() -> None:
    run = rounds_run()
    receipt = receipt_of(run, PrivKVMVariant)
    assert problems_of(receipt, run.checkpoint) == ()
    topics = [("KeyReport", 0), ("KeyReport", 1)]
    assert [r.topic for r in receipt.reports] == topics
    *reports, _ = envelopes(run, ONE)
    leaves = [leaf_hash(report) for report in reports]

    def claiming(*claims: tuple[int, tuple[str, int]]) -> Receipt:
        return msgspec.structs.replace(
            receipt,
            reports=tuple(Counted(seq, topic, leaves[seq]) for seq, topic in claims),
            path=joint_path(levels_of(leaves), [seq for seq, _ in claims]),
        )

    assert claiming((0, topics[0]), (1, topics[1])) == receipt
    # That this envelope is of that round is the receipt's word, until the envelope is looked at.
    lying = claiming((2, topics[0]))
    assert problems_of(lying, run.checkpoint) == ()
    assert is_about(lying, reports[2])
    assert not is_about(lying, reports[2], round_=2)
    assert is_about(receipt, reports[1], round_=1)
    assert not is_about(receipt, reports[1], round_=0)
    twice = claiming((0, topics[0]), (2, topics[0]))
    assert problems_of(twice, run.checkpoint) == ("two reports are of one kind and round",)


def test_a_report_is_one_to_the_aggregator_in_the_partys_own_name() -> None:
    report, _ = envelopes(signed_run(), ONE)
    receipt = receipt_of(signed_run())
    envelope = decode_envelope(report)
    for changes in ({"session": bytes(16)}, {"sender": TWO}, {"recipient": RECORD}):
        other = encode_envelope(msgspec.structs.replace(envelope, **changes))
        [counted] = receipt.reports
        fitted = msgspec.structs.replace(counted, leaf=leaf_hash(other))
        assert not is_about(msgspec.structs.replace(receipt, reports=(fitted,)), other)


@pytest.mark.parametrize("kind", ["Closed", "Declined", "Left", "Head"])
def test_what_is_no_report_is_not_counted_as_one(kind: str) -> None:
    """Not even if the aggregator says in its closings that it counted it."""
    run = signed_run()
    receipt = receipt_of(run)
    [report] = receipt.reports
    forged = msgspec.structs.replace(
        receipt,
        standing=msgspec.structs.replace(receipt.standing, counted=((kind, -1),)),
        reports=(msgspec.structs.replace(report, topic=(kind, -1)),),
    )
    assert "a report is of a kernel kind (Closed, Declined, Left, Head)" in problems_of(
        forged, run.checkpoint
    )


def test_numbers_beyond_reading_are_refused() -> None:
    receipt = receipt_of(signed_run())
    huge = (1 << 63) - 1
    [report] = receipt.reports
    for number, sound in ((huge, True), (huge + 1, False), ((1 << 64) - 1, False)):
        for changed in (
            msgspec.structs.replace(receipt, members=number),
            msgspec.structs.replace(receipt, place=number),
            msgspec.structs.replace(
                receipt, standing=msgspec.structs.replace(receipt.standing, count=number)
            ),
            msgspec.structs.replace(
                receipt, reports=(msgspec.structs.replace(report, seq=number),)
            ),
        ):
            encoded = encode_receipt(changed)
            if sound:
                assert problems_of(decode_receipt(encoded), signed_run().checkpoint)
            else:
                with pytest.raises(ValueError, match="malformed receipt"):
                    decode_receipt(encoded)
