"""Consistency proofs from a transcript: nothing that a checkpoint has is lost later."""

from __future__ import annotations

from collections.abc import Sequence

from protocol.audit.audit import Chunks
from protocol.audit.proofs.logged import Logged
from protocol.crypto.merkle import consistency_path, root_of_hashes
from protocol.errors import ProtocolError
from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.transcript.consistency import Consistency
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.verification import verify


class NotConsistentError(ProtocolError):
    """The record does not lead from the one checkpoint to the other."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"no consistency proof: {reason}")


def prove_consistency(
    chunks: Chunks, *, earlier: SignedCheckpoint, later: SignedCheckpoint | None = None
) -> Consistency:
    """A consistency proof from one checkpoint of a record to another.

    The record may still be growing, or end early.

    Args:
        chunks: opens the transcript; it is read twice.
        earlier: as it was published.
        later: likewise; by default the last one on record.

    Raises:
        NotConsistentError: the record is not sound, one of the checkpoints is not of it or not
            signed by its aggregator, or the later one comes first.
        SurveyError: no readable header.
    """
    verification = verify(chunks())
    header = verification.checked_header()
    if verification.faults:
        raise NotConsistentError(f"the record is not sound: {verification.faults[0]}")
    last = verification.checkpoint if later is None else later
    if last is None:
        raise NotConsistentError("the record has no checkpoint")
    for checkpoint in (earlier, last):
        which = f"the checkpoint of size {checkpoint.size}"
        if checkpoint.session != header.session:
            raise NotConsistentError(f"{which} is of another session than the record")
        if checkpoint.key != header.roster[0][1] or not checkpoint.valid:
            raise NotConsistentError(f"{which} is not signed by the record's aggregator")
    if earlier.size > last.size:
        raise NotConsistentError(
            f"the checkpoint of size {earlier.size} comes after that of size {last.size}"
        )
    hashes = log_hashes(chunks)
    for checkpoint in (earlier, last):
        which = f"size {checkpoint.size}"
        if checkpoint.size > len(hashes):
            raise NotConsistentError(f"the record has {len(hashes)} leaves, not {which}")
        if root_of_hashes(hashes[: checkpoint.size]) != checkpoint.root:
            raise NotConsistentError(f"the record has another log of {which}: a fork")
    path = consistency_path(hashes[: last.size], earlier.size)
    return Consistency(old=earlier.size, path=path, later=last)


def log_hashes(chunks: Chunks) -> Sequence[bytes]:
    """The leaf hashes of the readable part of a record's log. Memory: 160 B for each.

    Args:
        chunks: opens the transcript.

    Raises:
        TranscriptError: no readable header.
    """
    reader = TranscriptReader(chunks())
    logged = Logged(reader)
    for entry in reader:
        logged.add(entry)
    if reader.ending is not None:
        logged.add(reader.ending)
    return logged.tree.hashes()
