"""A small run, its file and its digest, for the tests of transcripts."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import msgspec

from protocol import AGGREGATOR, RECORD, Message, PartyId
from protocol.crypto.merkle import Tree, leaf_hash
from protocol.messages import KERNEL_KINDS, Closed, Envelope
from protocol.session.heads import Heard, sign_head
from protocol.session.roster import Identity
from protocol.session.terms import NEIGHBOURS
from protocol.transcript.entries import (
    DeclaredKind,
    Delivered,
    Departed,
    Entry,
    Header,
    Refused,
    Sent,
    expected_session,
)
from protocol.wire.codec import encode_envelope
from protocol.wire.schemas import make_schema
from tests.recorded.runs import Written, written

ANNA, BERT = PartyId("anna"), PartyId("bert")
ROSTER = ((AGGREGATOR, b"\xaa" * 32), (ANNA, b"\x01" * 32), (BERT, b"\x02" * 32))


def described(*names: str, max_bytes: int = 64) -> tuple[DeclaredKind, ...]:
    """Kinds of one text each, and the kernel's."""
    own = (DeclaredKind(name, max_bytes, [["text", ["str", 0, None]]]) for name in names)
    kernel = (make_schema(kind, {}, max_bytes=max_bytes) for kind in KERNEL_KINDS)
    return *own, *map(DeclaredKind.of, kernel)


def agreed(header: Header) -> Header:
    """The same with the session's id that its terms and roster have."""
    return msgspec.structs.replace(header, session=expected_session(header))


HEADER = agreed(
    Header(
        variant="rr-independent",
        code=None,
        parameters={"epsilon": 1.5, "quorum": 2},
        survey={"attributes": [{"name": "smokes", "categories": ["no", "yes"]}]},
        analysis=None,
        neighbours=NEIGHBOURS,
        nonce=bytes(range(16)),
        roles=None,
        enrolled=None,
        attempt=1,
        session=b"",
        roster=ROSTER,
        kinds=described("Ask", "Report"),
        seed=7,
        transport="memory",
        program="golden",
    )
)
SESSION = HEADER.session


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


def sample(header: Header = HEADER) -> Written:
    """A small run with every kind of entry, in several blocks."""
    return written(header, ENTRIES, flushed=(3, 7))


IDENTITIES = {name: Identity(name, bytes([i]) * 32) for i, (name, _) in enumerate(ROSTER)}


@functools.cache
def signed_sample() -> Written:
    """A small run of Anna and an aggregator who sign."""
    roster = tuple((name, who.public) for name, who in IDENTITIES.items())
    kinds = described("Ask", "Report", max_bytes=4096)
    header = agreed(msgspec.structs.replace(HEADER, roster=roster, kinds=kinds))
    report, ask = (
        encode_envelope(msgspec.structs.replace(item, session=header.session))
        for item in (REPORTS[0], ASKS[0])
    )
    said, heard = Tree(), Heard()
    said.append(report)
    heard.add(0, "Ask", -1, [(0, 0, leaf_hash(ask))])
    head = sign_head(IDENTITIES[ANNA], session=header.session, said=said, heard=heard)
    entries = (
        sent(0, ASKS[0]),
        delivered(1000, ASKS[0]),
        sent(250_000, REPORTS[0]),
        sent(250_000, _said(ANNA, 1, head)),
        delivered(500_000, REPORTS[0]),
        sent(750_000, _said(AGGREGATOR, 1, Closed("Report", -1, 0, b"\x06", b"\x02"))),
        sent(1_000_000, envelope(AGGREGATOR, RECORD, 2, kind="Ask")),
    )
    return written(header, entries, signer=IDENTITIES[AGGREGATOR])


def _said(sender: PartyId, seq: int, message: Message) -> Envelope:
    body = msgspec.msgpack.encode(message)
    return envelope(sender, RECORD, seq, kind=message.kind(), body=body)


def digest_of(envelopes: Sequence[Envelope], header: Header = HEADER) -> bytes:
    """The digest of a run in which nothing but these is sent."""
    return written(header, [sent(0, item) for item in envelopes]).digest
