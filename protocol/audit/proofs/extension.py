"""From a transcript to an extension: shows that nothing said by a checkpoint is lost later."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from protocol.audit.audit import Chunks
from protocol.crypto.merkle import consistency_path, leaf_hash
from protocol.errors import ProtocolError
from protocol.messages import PartyId
from protocol.transcript.checkpoints import SignedCheckpoint, Statement, decode_statement
from protocol.transcript.entries import CanonicalDigest, Checkpoint, Entry, Header, Sent
from protocol.transcript.extension import Extension, Grown, prune
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.verification import verify
from protocol.wire.codec import decode_envelope


class NotExtendedError(ProtocolError):
    """The record does not lead from the one checkpoint to the other."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"no extension: {reason}")


def prove_extension(
    chunks: Chunks, *, earlier: SignedCheckpoint, later: SignedCheckpoint | None = None
) -> tuple[Extension, SignedCheckpoint]:
    """An extension from one checkpoint of a record to another.

    The record may still be growing, or end early. Memory grows with the number of messages, by
    about 100 bytes for each.

    Args:
        chunks: opens the transcript; it is read twice.
        earlier: as it was published.
        later: likewise; by default the last one on record.

    Returns:
        The extension, and the checkpoint that it leads to.

    Raises:
        NotExtendedError: the record is not sound, one of the checkpoints is not on it or not signed
            by its aggregator, or the later one comes first.
        SurveyError: no readable header.
    """
    verification = verify(chunks())
    header = verification.checked_header()
    if verification.faults:
        raise NotExtendedError(f"the record is not sound: {verification.faults[0]}")
    last = verification.checkpoint if later is None else later
    if last is None:
        raise NotExtendedError("the record has no checkpoint")
    for checkpoint in (earlier, last):
        which = f"checkpoint {checkpoint.statement.number}"
        if checkpoint.statement.session != header.session:
            raise NotExtendedError(f"{which} is of another session than the record")
        if checkpoint.key != header.roster[0][1] or not checkpoint.valid:
            raise NotExtendedError(f"{which} is not signed by the record's aggregator")
    if earlier.statement.number > last.statement.number:
        raise NotExtendedError(
            f"checkpoint {earlier.statement.number} comes after checkpoint {last.statement.number}"
        )
    reading = _Reading(header)
    return reading.extension(TranscriptReader(chunks()), earlier, last), last


class _Reading:
    """What one pass over the entries of a sound record collects."""

    def __init__(self, header: Header) -> None:
        self._canonical = CanonicalDigest(header)
        self._leaves: dict[str, list[bytes]] = {name: [] for name in self._canonical.trees}
        self._statements: list[Statement] = []

    def extension(
        self, entries: Iterable[Entry], earlier: SignedCheckpoint, later: SignedCheckpoint
    ) -> Extension:
        """Reads up to the later checkpoint."""
        first, last = earlier.statement, later.statement
        trees = self._canonical.trees
        before: dict[str, tuple[int, bytes]] = {}
        for statement in self._read(entries):
            if statement == first:
                before = {name: (tree.count, tree.root()) for name, tree in trees.items()}
            if statement == last:
                break
        else:
            raise self._astray(later)
        if not before:
            raise self._astray(earlier)
        leaves = self._canonical.leaves()
        nodes: list[bytes | Grown] = [leaf_hash(next(leaves))]
        for name, leaf in zip(trees, leaves, strict=True):
            grown = self._grown(PartyId(name), before[name])
            nodes.append(leaf_hash(leaf) if grown is None else grown)
        return Extension(steps=tuple(self._statements[first.number + 1 :]), tree=prune(nodes))

    def _read(self, entries: Iterable[Entry]) -> Iterator[Statement]:
        for entry in entries:
            match entry:
                case Sent():
                    sender = decode_envelope(entry.envelope).sender
                    self._canonical.trees[sender].append(entry.envelope)
                    self._leaves[sender].append(leaf_hash(entry.envelope))
                case Checkpoint():
                    self._statements.append(decode_statement(entry.statement))
                    yield self._statements[-1]

    def _grown(self, name: PartyId, before: tuple[int, bytes]) -> Grown | None:
        tree, (count, _) = self._canonical.trees[name], before
        if tree.count == count:
            return None
        return Grown(
            member=name,
            before=before if count else None,
            after=(tree.count, tree.root()),
            path=consistency_path(self._leaves[name], count),
        )

    def _astray(self, checkpoint: SignedCheckpoint) -> NotExtendedError:
        """Why a checkpoint is not on the record."""
        statement, there = checkpoint.statement, len(self._statements)
        which = f"checkpoint {statement.number}"
        if statement.number < there:
            return NotExtendedError(f"the record has another {which} than the one given: a fork")
        return NotExtendedError(f"the record has no {which}, but {there} of them, from 0")
