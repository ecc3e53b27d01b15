"""Transcripts as files or in memory: opening, reading, verifying, auditing."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from protocol.audit import Audit, audit
from protocol.messages import AGGREGATOR, PartyId
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.verification import Verification, verify
from protocol.variant import Variant
from scenarios.errors import UsageError

CHUNK = 1 << 20
PARTIAL = ".partial"
"""What the name of a transcript ends in while it grows, and for good if its run fails."""


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


@contextmanager
def growing(path: Path) -> Generator[BinaryIO]:
    """A file for a transcript, in a folder that is made if need be.

    It grows under a provisional name (``PARTIAL``), so that only a run that came to its end
    replaces an earlier transcript. The record of a run that failed stays there, to be audited;
    nothing stays of one that could not begin.

    Raises:
        OSError: the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + PARTIAL)
    try:
        with partial.open("wb", buffering=0) as file:
            yield file
    except (OSError, UsageError):
        partial.unlink(missing_ok=True)
        raise
    partial.replace(path)


def open_transcript(path: Path) -> Transcript:
    """A transcript file that is there.

    Raises:
        UsageError: there is none.
    """
    if not path.is_file():
        raise UsageError(f"{path}: {'not a file' if path.exists() else 'no such transcript'}")
    return Transcript(path)
