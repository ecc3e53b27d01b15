"""Records with several checkpoints, and what a lying aggregator signs, for tests."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from protocol.audit.proofs.extension import prove_extension
from protocol.crypto.merkle import consistency_path, leaf_hash
from protocol.messages import AGGREGATOR, RECORD, PartyId
from protocol.session.roster import Identity
from protocol.transcript.checkpoints import (
    SignedCheckpoint,
    Statement,
    decode_statement,
    encode_statement,
    sign_statement,
    statement_hash,
)
from protocol.transcript.entries import Checkpoint, Entry, Refused, Sent
from protocol.transcript.extension import Extension, Grown, prune
from protocol.transcript.reader import TranscriptReader
from protocol.wire.codec import decode_envelope
from tests.recorded.runs import written
from tests.recorded.transcripts import HEADER, envelope, sent
from tests.vectors.make import tree_hash

SIGNER = Identity(AGGREGATOR, bytes(32))
OTHER = Identity(AGGREGATOR, bytes([1]) * 32)
NAMES = (AGGREGATOR, *(PartyId(f"party-{i}") for i in range(1, 6)))
pack = msgspec.msgpack.encode

Words = Mapping[str, Sequence[bytes]]
"""What each member has said, as encoded envelopes."""


def checkpoints_of(content: bytes) -> list[SignedCheckpoint]:
    """The checkpoints on a record."""
    reader = TranscriptReader(content)
    key = reader.header.roster[0][1]
    return [
        SignedCheckpoint(decode_statement(entry.statement), key, entry.signature)
        for entry in reader
        if isinstance(entry, Checkpoint)
    ]


def words_at(content: bytes, checkpoint: SignedCheckpoint) -> Words:
    """What everybody had said by a checkpoint."""
    reader = TranscriptReader(content)
    said: dict[str, list[bytes]] = {name: [] for name, _ in reader.header.roster}
    for entry in itertools.islice(reader, checkpoint.statement.entries):
        if isinstance(entry, Sent):
            said[decode_envelope(entry.envelope).sender].append(entry.envelope)
    return said


def spoken(rounds: Sequence[Sequence[int]]) -> bytes:
    """A record in which these members (by their places) speak, with a closing after each round."""
    header = msgspec.structs.replace(
        HEADER,
        roster=(
            (AGGREGATOR, SIGNER.public),
            *((n, bytes([i]) * 32) for i, n in enumerate(NAMES[1:], 1)),
        ),
    )
    entries: list[Entry] = []
    said: Counter[PartyId] = Counter()

    def say(sender: PartyId, recipient: PartyId, kind: str) -> None:
        entries.append(sent(0, envelope(sender, recipient, said[sender], kind=kind)))
        said[sender] += 1

    for speakers in rounds:
        for place in speakers:
            say(NAMES[place], AGGREGATOR, "Report")
        # So that there is a checkpoint after every closing.
        entries += [Refused(at=0, link="", reason="x", excerpt=b"")] * len(NAMES)
        say(AGGREGATOR, RECORD, "Closed")
    return written(header, entries, signer=SIGNER).content


@functools.cache
def record() -> bytes:
    """Five checkpoints: members that speak at once, later, again, never; and none at the end."""
    return spoken([(1, 2, 1), (), (3, 1, 1, 1, 1), (2, 3, 4)])


def prove(
    content: bytes, earlier: SignedCheckpoint, later: SignedCheckpoint | None = None
) -> Extension:
    extension, last = prove_extension(lambda: (content,), earlier=earlier, later=later)
    assert later is None or last == later
    return extension


def signed(statement: Statement, signer: Identity = SIGNER) -> SignedCheckpoint:
    return SignedCheckpoint(statement, signer.public, sign_statement(signer, statement))


def next_after(earlier: SignedCheckpoint, digest: bytes, entries: int = 1000) -> SignedCheckpoint:
    """What a lying aggregator signs: everything fits but the words."""
    statement = earlier.statement
    return signed(
        msgspec.structs.replace(
            statement,
            number=statement.number + 1,
            entries=statement.entries + entries,
            digest=digest,
            previous=statement_hash(encode_statement(statement)),
        )
    )


def grown_of(before: Words, after: Words, header: bytes = b"header") -> tuple[Any, bytes, bytes]:
    """The best tree that a forger can make of words, and the digests before and after."""
    nodes: list[bytes | Grown] = [leaf_hash(header)]
    leaves = []
    for name in before:
        one, other = before[name], after[name]
        leaves.append([pack([name, len(said), tree_hash(said)]) for said in (one, other)])
        if one == other:
            nodes.append(leaf_hash(leaves[-1][0]))
            continue
        hashes = [leaf_hash(word) for word in other]
        nodes.append(
            Grown(
                member=PartyId(name),
                before=(len(one), tree_hash(one)) if one else None,
                after=(len(other), tree_hash(other)),
                path=consistency_path(hashes, min(len(one), len(other))),
            )
        )
    before_digest, after_digest = (tree_hash([header, *(p[i] for p in leaves)]) for i in (0, 1))
    return prune(nodes), before_digest, after_digest


def replaced(extension: Extension, **changes: Any) -> Extension:
    return msgspec.structs.replace(extension, **changes)


def middle() -> tuple[Extension, SignedCheckpoint, SignedCheckpoint]:
    """An extension over three steps in which members speak again, and for the first time."""
    _, earlier, _, _, later = checkpoints_of(record())
    return prove(record(), earlier, later), earlier, later
