"""Records with several checkpoints, and what an aggregator signs, for tests."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence

import msgspec

from protocol import AGGREGATOR, RECORD, PartyId
from protocol.session.roster import Identity
from protocol.transcript.checkpoints import SignedCheckpoint, read_note, sign_checkpoint
from protocol.transcript.entries import Entry
from protocol.transcript.reader import TranscriptReader
from tests.recorded.runs import written
from tests.recorded.transcripts import HEADER, agreed, envelope, sent

SIGNER = Identity(AGGREGATOR, bytes(32))
OTHER = Identity(AGGREGATOR, bytes([1]) * 32)
NAMES = (AGGREGATOR, *(PartyId(f"party-{i}") for i in range(1, 6)))


def checkpoints_of(content: bytes) -> list[SignedCheckpoint]:
    """The checkpoints on a record."""
    reader = TranscriptReader(content)
    tuple(reader)
    return [read_note(note) for note in reader.notes]


def spoken(rounds: Sequence[Sequence[int]]) -> bytes:
    """A record in which these members (by their places) speak, with a closing after each round."""
    others = ((n, bytes([i]) * 32) for i, n in enumerate(NAMES[1:], 1))
    roster = ((AGGREGATOR, SIGNER.public), *others)
    header = agreed(msgspec.structs.replace(HEADER, roster=roster))
    entries: list[Entry] = []
    said: Counter[PartyId] = Counter()

    def say(sender: PartyId, recipient: PartyId, kind: str) -> None:
        entries.append(sent(0, envelope(sender, recipient, said[sender], kind=kind)))
        said[sender] += 1

    for speakers in rounds:
        for place in speakers:
            say(NAMES[place], AGGREGATOR, "Report")
        say(AGGREGATOR, RECORD, "Closed")
    return written(header, entries, signer=SIGNER).content


@functools.cache
def record() -> bytes:
    """Six checkpoints: members that speak at once, later, again, never; and one at the end."""
    return spoken([(1, 2, 1), (), (3, 1, 1, 1, 1), (2, 3, 4)])


def resigned(checkpoint: SignedCheckpoint, signer: Identity = SIGNER) -> SignedCheckpoint:
    """The same, signed by a key."""
    return sign_checkpoint(
        signer, session=checkpoint.session, size=checkpoint.size, root=checkpoint.root
    )
