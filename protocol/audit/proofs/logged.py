"""The log of a transcript with all its leaf hashes, for proofs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from protocol.crypto.merkle import WholeTree
from protocol.transcript.checkpoints import SignedCheckpoint, read_note
from protocol.transcript.entries import Ending, Entry, encode_header, encode_item
from protocol.transcript.log import Log
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.receipts import Shown


class Logged:
    """Collects the log of a sound transcript. Memory grows with the entries, 64 B for each.

    Args:
        reader: of the transcript; its header has been read, its entries are added by the caller.
    """

    def __init__(self, reader: TranscriptReader) -> None:
        self._reader = reader
        self._log = Log(reader.secret, proving=True)
        self._log.add(encode_header(reader.header))

    def add(self, entry: Entry | Ending) -> tuple[int, bytes]:
        """Take the next entry: which leaf it is, and its content."""
        content = encode_item(entry)
        self._log.add(content)
        return self._log.size - 1, content

    @property
    def tree(self) -> WholeTree:
        """The tree of the log so far."""
        return self._log.tree

    def checkpoints(self) -> Iterator[SignedCheckpoint]:
        """The checkpoints on record so far, unless they are malformed."""
        for note in self._reader.notes:
            with suppress(ValueError):
                yield read_note(note)

    def shown(self, index: int, content: bytes, size: int) -> Shown:
        """An entry, by its leaf and content, with the proof that a log of a given size has it."""
        salt, path = self._log.shown(index, size)
        return Shown(index=index, salt=salt, content=content, path=path)
