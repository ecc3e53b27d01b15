"""Transcripts as files or in memory: opening, reading, verifying, auditing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from protocol.audit import Audit, audit
from protocol.messages import AGGREGATOR, PartyId
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.verification import Verification, verify
from protocol.variant import Variant
from scenarios.errors import UsageError

CHUNK = 1 << 20


class Transcript(msgspec.Struct, frozen=True):
    """A transcript, in a file or in memory.

    Args:
        path: the file, or None.
        content: the bytes of one that is in memory.
    """

    path: Path | None = None
    content: bytes = b""

    def __repr__(self) -> str:
        return f"Transcript({str(self.path) if self.path else f'{len(self.content)} B in memory'})"

    def chunks(self) -> Iterable[bytes]:
        """The bytes in parts, from the start; each call starts anew.

        Raises:
            UsageError: the file cannot be read.
        """
        return self._read(self.path) if self.path is not None else (self.content,)

    def entries(self) -> TranscriptReader:
        """Header and entries, as far as they can be read."""
        return TranscriptReader(self.chunks())

    def verify(self, *, digest: bytes | None = None) -> Verification:
        """Whether this is what was recorded."""
        return verify(self.chunks(), digest=digest)

    def audit(
        self,
        variant: type[Variant],
        *,
        observer: PartyId = AGGREGATOR,
        digest: bytes | None = None,
    ) -> Audit:
        """Who was counted, what was learned, and whether the result follows."""
        return audit(self.chunks, variant, observer=observer, digest=digest)

    def _read(self, path: Path) -> Iterator[bytes]:
        try:
            with path.open("rb") as file:
                while chunk := file.read(CHUNK):
                    yield chunk
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror or error}") from error


def open_transcript(path: Path) -> Transcript:
    """A transcript file that is there.

    Raises:
        UsageError: there is none.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such transcript")
    return Transcript(path)
