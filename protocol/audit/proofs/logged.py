"""The log of a transcript with all its leaf hashes: what proofs are made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from protocol.crypto.merkle import joint_path, levels_of
from protocol.transcript.entries import Ending, Entry, encode_header, encode_item
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

    def add(self, entry: Entry | Ending) -> tuple[int, bytes]:
        """Take the next entry: which leaf it is, and its content."""
        content = encode_item(entry)
        self._log.add(content)
        return self._log.size - 1, content

    def hashes(self) -> Sequence[bytes]:
        """The leaf hashes so far."""
        self._log.root()
        return self._log.hashes

    def shower(self, size: int) -> Callable[[int, bytes], Shown]:
        """What shows an entry, by its leaf and content, in the log of so many leaves."""
        levels = levels_of(self.hashes()[:size])

        def shown(index: int, content: bytes) -> Shown:
            salt = salts(self._reader.secret, index, 1)
            path = joint_path(levels, [index])
            return Shown(index=index, salt=salt, content=content, path=path)

        return shown
