"""The log of a transcript with all its leaf hashes: what proofs are made from."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from protocol.crypto.merkle import joint_path, levels_of
from protocol.transcript.entries import encode_header, encode_item
from protocol.transcript.log import Log, salts
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.receipts import Shown


class Logged:
    """Collects the log of a sound transcript. Memory grows with the entries, about 70 B for each.

    Args:
        reader: of the transcript; its header has been read, its entries are added by the caller.
    """

    def __init__(self, reader: TranscriptReader) -> None:
        self._reader = reader
        self._log = Log(reader.secret, proving=True)
        self._log.add(encode_header(reader.header))

    def add(self, content: bytes) -> int:
        """Take the next entry, encoded; which leaf it is."""
        self._log.add(content)
        return self._log.size - 1

    def end(self) -> tuple[int, bytes]:
        """Take the last entry: which leaf it is, and its content. Nothing can be added afterwards.

        Raises:
            ValueError: the transcript has no last entry.
        """
        ending = self._reader.ending
        if ending is None:
            raise ValueError("expected a transcript that has ended")
        content = encode_item(ending)
        return self.add(content), content

    def hashes(self) -> Sequence[bytes]:
        """The leaf hashes so far."""
        self._log.root()
        return self._log.hashes

    def shown(self, index: int, content: bytes) -> Shown:
        """An entry with its inclusion proof. Nothing can be added afterwards."""
        salt = salts(self._reader.secret, index, 1)
        path = joint_path(self._levels, [index])
        return Shown(index=index, salt=salt, content=content, path=path)

    @cached_property
    def _levels(self) -> Sequence[Sequence[bytes]]:
        return levels_of(self.hashes())
