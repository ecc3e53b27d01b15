"""Acknowledgements: a party makes a receipt of one, and of no other than the one for its words."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import msgspec
import pytest

from protocol import AGGREGATOR, RECORD, PartyId
from protocol.crypto.merkle import Tree, merkle_root
from protocol.messages import Envelope
from protocol.session.heads import SaidHead, head_statement
from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.transcript.entries import Delivered, Sent
from protocol.transcript.header import make_header
from protocol.transcript.reader import Records
from protocol.transcript.receipts import (
    Acknowledgement,
    Receipt,
    decode_receipt,
    encode_receipt,
    receipt_for,
    receipt_problems,
)
from protocol.transcript.recorder import Recorder
from protocol.transcript.verification import verify
from protocol.wire.codec import decode_envelope, encode_envelope
from tests.recorded.checkpointed import checkpoints_of
from tests.recorded.forgeries import Forgery
from tests.recorded.receipts import receipt_of
from tests.recorded.runs import Run
from tests.recorded.signed import (
    ONE,
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

SECRET = bytes(range(32))


class Recorded(NamedTuple):
    """A record that was acknowledged as it grew.

    Args:
        content: of the file.
        given: what each party was given.
        after: how many leaves the log had then.
    """

    content: bytes
    given: dict[PartyId, Acknowledgement]
    after: dict[PartyId, int]


@functools.cache
def acknowledged(every: int, *, signed: bool = True) -> Recorded:
    """The small run, recorded once more with an acknowledgement after every so many entries."""
    where, parts = setting(), list[bytes]()
    recorder = Recorder(
        parts.append,
        make_header(where.charter),
        signer=where.identities[AGGREGATOR] if signed else None,
        secret=SECRET,
        acknowledging=True,
    )
    sent = signed_run().sent
    given: dict[PartyId, Acknowledgement] = {}
    after: dict[PartyId, int] = {}
    entries = signed_run().entries
    for number, entry in enumerate(entries, 1):
        if isinstance(entry, Sent):
            envelope = decode_envelope(entry.envelope)
            recorder.sent(envelope, now=entry.at / 1e6, encoded=entry.envelope)
        elif isinstance(entry, Delivered):
            recorder.delivered(sent[entry.sender, entry.seq], now=entry.at / 1e6)
        if number % every == 0 or number == len(entries):
            made = recorder.acknowledge()
            assert not made.keys() & given.keys()
            given.update(made)
            after.update(dict.fromkeys(made, recorder.size))
    recorder.close()
    return Recorded(b"".join(parts), given, after)


def head_of(party: PartyId, run: Run | None = None) -> SaidHead:
    """What a party knows of its own head."""
    run = run or signed_run()
    words, known = envelopes(run, party), receipt_of(run, party).head
    assert known is not None
    said = merkle_root(words[:-1])
    return SaidHead(decode_envelope(words[-1]), known.signature, said, known.heard)


def made_of(
    party: PartyId, given: Acknowledgement, head: SaidHead | None = None
) -> tuple[Receipt, SignedCheckpoint]:
    said = envelopes(signed_run(), party)[:-1]
    return receipt_for(setting().charter, head or head_of(party), given, said=said, reports=(0,))


@pytest.mark.parametrize("every", [1, 2, 5, 1000])
def test_every_party_makes_a_receipt_that_holds(every: int) -> None:
    record = acknowledged(every)
    parties = setting().charter.roster.parties
    assert set(record.given) == set(parties)
    for party in parties:
        made, checkpoint = made_of(party, record.given[party])
        assert receipt_problems(made, checkpoint) == ()
        assert decode_receipt(encode_receipt(made)) == made
        # It came with the commit that has the head, under a checkpoint that is on record.
        assert checkpoint.size == record.after[party]
        assert checkpoint in checkpoints_of(record.content)
        assert verify((record.content,), checkpoint=checkpoint).extends


def test_a_party_that_said_nothing_has_a_receipt_of_its_head() -> None:
    charter, signer = setting().charter, setting().identities[ONE]
    nothing = Tree().root()
    statement = head_statement(
        session=charter.session, sender=ONE, count=0, said=nothing, heard=nothing
    )
    signature = signer.sign(statement)
    body = msgspec.msgpack.encode([[], signature])
    envelope = Envelope(charter.session, ONE, RECORD, 0, "Head", body)
    recorder = Recorder(
        lambda part: None,
        make_header(charter),
        signer=setting().identities[AGGREGATOR],
        secret=SECRET,
        acknowledging=True,
    )
    recorder.sent(envelope, now=0.0, encoded=encode_envelope(envelope))
    head = SaidHead(envelope, signature, nothing, nothing)
    given = recorder.acknowledge()[ONE]
    made, checkpoint = receipt_for(charter, head, given, said=(), reports=())
    assert receipt_problems(made, checkpoint) == ()
    assert (made.counted, made.late, made.waiting) == ((), (), 0)


def test_the_paths_are_what_the_format_says() -> None:
    record = acknowledged(5)
    contents = Forgery(record.content).contents()
    leaves = log_leaves(SECRET, contents)
    for party, given in record.given.items():
        made, _ = made_of(party, given)
        assert made.ended is not None
        assert made.ended.content == contents[given.index]
        assert given.salt == leaves[given.index][:16]
        assert list(given.path) == inclusion_path_at(given.index, leaves[: given.size])


@pytest.mark.parametrize("every", [1, 3, 1000])
def test_a_size_has_one_checkpoint(every: int) -> None:
    record = acknowledged(every)
    found = checkpoints_of(record.content)
    assert len({checkpoint.size for checkpoint in found}) == len(found)
    # Beside those of acknowledgements: of the header, after the closing and at the end.
    assert len(found) > len(set(record.after.values()))
    verification = verify((record.content,))
    assert (verification.faults, verification.signed) == ((), "all")


@pytest.mark.parametrize("every", [1, 5])
def test_after_a_crash_all_heads_on_record_are_acknowledged_again(every: int) -> None:
    """Wherever the file was cut: by checkpoints of the same log, so none contradicts another."""
    record, where = acknowledged(every), setting()
    _, *entries = Records(record.content)
    leaves = log_leaves(SECRET, Forgery(record.content).contents())
    found = []
    for cut in range(0, len(entries), 3):
        recorder = Recorder(
            len,
            make_header(where.charter),
            signer=where.identities[AGGREGATOR],
            secret=SECRET,
            acknowledging=True,
            resumed=True,
        )
        heads = 0
        for content in entries[:cut]:
            item = recorder.recall(content)
            heads += isinstance(item, Sent) and decode_envelope(item.envelope).kind == "Head"
        recorder.go_on()
        made = recorder.acknowledge()
        assert len(made) == heads
        found.append(heads)
        for party, given in made.items():
            assert receipt_problems(*made_of(party, given)) == ()
            assert given.size == recorder.size
            assert given.root == tree_hash(leaves[: given.size])
    assert found[0] == 0
    assert found[-1] == len(where.charter.roster.parties)


def test_without_a_head_nothing_is_signed() -> None:
    where = setting()
    recorder = Recorder(
        len,
        make_header(where.charter),
        signer=where.identities[AGGREGATOR],
        secret=SECRET,
        acknowledging=True,
    )
    first = recorder.checkpoint
    for envelope in signed_run().said(sender=AGGREGATOR)[:3]:
        recorder.sent(envelope, now=0.0)
        assert recorder.acknowledge() == {}
    assert recorder.checkpoint is first
    assert acknowledged(1, signed=False).given == {}


def changed(**changes: Any) -> Acknowledgement:
    return msgspec.structs.replace(acknowledged(5).given[ONE], **changes)


@pytest.mark.parametrize(
    "what", ["size", "root", "signature", "index", "at", "salt", "path", "one hash less", "roster"]
)
def test_an_acknowledgement_of_anything_else_does_not_hold(what: str) -> None:
    given = changed()
    made = {
        "size": {"size": given.size + 1},
        "root": {"root": bytes(32)},
        "signature": {"signature": bytes(64)},
        "index": {"index": given.index - 1},
        "at": {"at": given.at + 1},
        "salt": {"salt": bytes(16)},
        "path": {"path": (bytes(32), *given.path[1:])},
        "one hash less": {"path": given.path[:-1]},
        "roster": {"roster": given.roster[:-1]},
    }
    assert receipt_problems(*made_of(ONE, given)) == ()
    assert receipt_problems(*made_of(ONE, changed(**made[what])))


def test_that_of_other_words_does_not_hold() -> None:
    """It is another's, or for what the party has not said, however well signed."""
    anothers = acknowledged(5).given[TWO]
    assert receipt_problems(*made_of(ONE, anothers)) == (
        "an entry of the receipt is not in the log of the checkpoint",
        "the party, its key, the terms or the attempt are not those of the session",
    )
    told = head_of(ONE)
    other = head_of(ONE, finished_run(setting(seed=2)))
    for head in (other, told._replace(said=other.said), told._replace(envelope=other.envelope)):
        assert receipt_problems(*made_of(ONE, changed(), head))


def test_a_receipt_shows_the_head_that_signs_all() -> None:
    made, checkpoint = made_of(ONE, changed())
    assert made.head is not None
    assert (made.counted, made.head.said) == ((), head_of(ONE).said)
    assert made.ended is not None
    [report, head] = envelopes(signed_run(), ONE)
    assert made.ended.encoded == head
    for entry in (None, made_of(TWO, acknowledged(5).given[TWO])[0].ended):
        assert receipt_problems(msgspec.structs.replace(made, ended=entry), checkpoint)
    # The report itself stays with the party: only its signed hash is in the receipt.
    assert report not in encode_receipt(made)


def test_a_record_without_a_partys_words_does_not_extend_its_checkpoint() -> None:
    """The aggregator may sign another record afresh, but not take back what it has signed."""
    record = acknowledged(5)
    _, checkpoint = made_of(ONE, record.given[ONE])
    assert verify((record.content,), checkpoint=checkpoint).extends
    for change in (without(sender=ONE, kinds=("Report", "Head")), changed_report(ONE)):
        forged = rewritten(signed_run(), change)
        found = verify((forged.content,), checkpoint=checkpoint)
        assert found.extends is False
