"""A small run, its file and its digest, for the tests of transcripts."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Sequence

import msgspec

from protocol.crypto.merkle import Tree
from protocol.messages import AGGREGATOR, RECORD, Closed, Envelope, Message, PartyId
from protocol.session.heads import sign_head
from protocol.session.roster import Identity
from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.transcript.entries import (
    Delivered,
    Departed,
    Entry,
    Header,
    Refused,
    Sent,
)
from protocol.transcript.recorder import Recorder
from protocol.wire.codec import encode_envelope

SESSION = bytes(range(16))
ANNA, BERT = PartyId("anna"), PartyId("bert")
ROSTER = ((AGGREGATOR, b"\xaa" * 32), (ANNA, b"\x01" * 32), (BERT, b"\x02" * 32))
HEADER = Header(
    format=1,
    variant="rr-independent",
    parameters={"epsilon": 1.5, "quorum": 2},
    survey={"attributes": [{"name": "smokes", "categories": ["no", "yes"]}]},
    session=SESSION,
    roster=ROSTER,
    kinds=("Ask", "Report", "Closed", "Declined", "Left", "Head"),
    max_body=64,
    recording="full",
    seed=7,
    transport="memory",
    program="golden",
)


def envelope(
    sender: PartyId, recipient: PartyId, seq: int, *, kind: str = "Report", body: bytes = b""
) -> Envelope:
    return Envelope(SESSION, sender, recipient, seq, kind, body or f"{sender} {seq}".encode())


ASKS = (
    envelope(AGGREGATOR, ANNA, 0, kind="Ask"),
    envelope(AGGREGATOR, BERT, 1, kind="Ask"),
    envelope(AGGREGATOR, RECORD, 2, kind="Closed"),
)
REPORTS = (envelope(ANNA, AGGREGATOR, 0), envelope(ANNA, AGGREGATOR, 1))
DECLINED = (envelope(BERT, AGGREGATOR, 0, kind="Declined"),)


def record_sample(sink: Callable[[bytes], object], header: Header = HEADER) -> bytes:
    """A small run with every kind of entry, in several blocks; its digest."""
    recorder = Recorder(sink, header)
    recorder.sent(ASKS[0], now=0.0)
    recorder.sent(ASKS[1], now=0.000_5)
    recorder.delivered(ASKS[0], now=0.001)
    recorder.flush()
    recorder.delivered(ASKS[1], now=0.001)
    recorder.delivered(ASKS[1], now=0.002, repeat=True)
    recorder.sent(REPORTS[0], now=0.25)
    recorder.refused("10.0.0.9:4000", "not a frame", b"GET / HTTP/1.1", now=0.5)
    recorder.flush()
    recorder.sent(DECLINED[0], now=1.0, encoded=encode_envelope(DECLINED[0]))
    recorder.delivered(DECLINED[0], now=1.0)
    recorder.departed(BERT, "declined", now=1.5)
    recorder.sent(REPORTS[1], now=2.0)
    recorder.delivered(REPORTS[0], now=2.5)
    recorder.sent(ASKS[2], now=3.25)
    return recorder.close()


def sent(at: int, of: Envelope) -> Sent:
    return Sent(at=at, envelope=encode_envelope(of))


def delivered(at: int, of: Envelope, *, repeat: bool = False) -> Delivered:
    return Delivered(at=at, sender=of.sender, recipient=of.recipient, seq=of.seq, repeat=repeat)


ENTRIES: tuple[Entry, ...] = (
    sent(0, ASKS[0]),
    sent(500, ASKS[1]),
    delivered(1000, ASKS[0]),
    delivered(1000, ASKS[1]),
    delivered(2000, ASKS[1], repeat=True),
    sent(250_000, REPORTS[0]),
    Refused(at=500_000, link="10.0.0.9:4000", reason="not a frame", excerpt=b"GET / HTTP/1.1"),
    sent(1_000_000, DECLINED[0]),
    delivered(1_000_000, DECLINED[0]),
    Departed(at=1_500_000, party=BERT, reason="declined"),
    sent(2_000_000, REPORTS[1]),
    delivered(2_500_000, REPORTS[0]),
    sent(3_250_000, ASKS[2]),
)


def sample(header: Header = HEADER) -> tuple[bytes, bytes]:
    """The small run's file and digest."""
    out = io.BytesIO()
    digest = record_sample(out.write, header)
    return out.getvalue(), digest


IDENTITIES = {name: Identity(name, bytes([i]) * 32) for i, (name, _) in enumerate(ROSTER)}


def record_signed(sink: Callable[[bytes], object]) -> SignedCheckpoint:
    """A small run of Anna and an aggregator who sign; its last checkpoint."""
    roster = tuple((name, who.public) for name, who in IDENTITIES.items())
    header = msgspec.structs.replace(HEADER, roster=roster, max_body=4096)
    recorder = Recorder(sink, header, signer=IDENTITIES[AGGREGATOR])
    recorder.sent(ASKS[0], now=0.0)
    recorder.delivered(ASKS[0], now=0.001)
    recorder.sent(REPORTS[0], now=0.25)
    said = Tree()
    said.append(encode_envelope(REPORTS[0]))
    head = sign_head(IDENTITIES[ANNA], session=SESSION, said=said)
    recorder.sent(_said(ANNA, 1, head), now=0.25)
    recorder.delivered(REPORTS[0], now=0.5)
    recorder.sent(_said(AGGREGATOR, 1, Closed("Report", -1, b"\x06", b"\x02")), now=0.75)
    recorder.sent(envelope(AGGREGATOR, RECORD, 2, kind="Ask"), now=1.0)
    recorder.close()
    assert recorder.checkpoint is not None
    return recorder.checkpoint


def _said(sender: PartyId, seq: int, message: Message) -> Envelope:
    body = msgspec.msgpack.encode(message)
    return envelope(sender, RECORD, seq, kind=message.kind(), body=body)


def merkle(leaves: Sequence[bytes]) -> bytes:
    """RFC 9162, section 2.1.1, word by word."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    k = 1
    while 2 * k < len(leaves):
        k *= 2
    return hashlib.sha256(b"\x01" + merkle(leaves[:k]) + merkle(leaves[k:])).digest()


def record_only(envelopes: Sequence[Envelope], header: Header = HEADER) -> bytes:
    """The digest of a run in which nothing but these is sent."""
    recorder = Recorder(lambda _: None, header)
    for i, item in enumerate(envelopes):
        recorder.sent(item, now=float(i))
    return recorder.close()
