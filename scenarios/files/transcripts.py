"""Transcripts as files or in memory: opening, reading, verifying, auditing."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from parties.keeping.packing import Unpacked
from parties.keeping.record_names import TRANSCRIPT_ENDINGS
from parties.keeping.writing import CHUNK, naming, read_chunks
from protocol.errors import UsageError
from protocol.messages import PartyId
from protocol.transcript.reader import TranscriptReader
from scenarios.files.collecting import collector_paused

if TYPE_CHECKING:
    from protocol.audit.audit import Audit
    from protocol.audit.coalition.coalition import Observer
    from protocol.audit.disclosure import Disclosure
    from protocol.audit.ledger import LedgerWriter
    from protocol.audit.proofs.making_receipts import Proved
    from protocol.audit.walk import Fold
    from protocol.session.variant import Variant
    from protocol.transcript.checkpoints import SignedCheckpoint
    from protocol.transcript.cosignatures import Cosigned
    from protocol.transcript.receipts import Receipt
    from protocol.transcript.signatures import Checks
    from protocol.transcript.verification import Verification

IN_MEMORY = 1 << 26
"""The bytes up to which a transcript without a file stays in memory."""


class Unfiled:
    """The bytes of a transcript without a file: in memory, or if large in a temporary file."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115  # closed by the next
        weakref.finalize(self, self._file.close)
        self.length = 0

    def write(self, part: bytes) -> None:
        """Add bytes at the end."""
        with naming(Path(tempfile.gettempdir())):
            self._file.seek(self.length)
            self._file.write(part)
        self.length += len(part)

    def chunks(self) -> Iterator[bytes]:
        """The bytes in parts, from the start."""
        start = 0
        while start < self.length:
            # Another reader may have moved the position.
            self._file.seek(start)
            chunk = self._file.read(CHUNK)
            start += len(chunk)
            yield chunk


class Transcript(msgspec.Struct, frozen=True):
    """A transcript, in a file or in memory.

    Args:
        path: path of the file, if there is one.
        unfiled: content of a transcript without a file.
        progress: called with the number of bytes read, after every read.
    """

    path: Path | None = None
    unfiled: Unfiled | None = None
    progress: Callable[[int], object] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.path, str):
            msgspec.structs.force_setattr(self, "path", Path(self.path))

    def __repr__(self) -> str:
        length = 0 if self.unfiled is None else self.unfiled.length
        return f"Transcript({str(self.path) if self.path else f'{length} B, in no file'})"

    def chunks(self) -> Iterable[bytes]:
        """Content in parts, from the start; each call starts anew.

        Raises:
            UsageError: the file cannot be read.
        """
        if self.path is not None:
            return Unpacked(read_chunks(self.path, self.progress))
        return () if self.unfiled is None else self.unfiled.chunks()

    def entries(self) -> TranscriptReader:
        """A reader of its header and entries."""
        return TranscriptReader(self.chunks())

    def verify(
        self,
        *,
        digest: bytes | None = None,
        checkpoint: SignedCheckpoint | None = None,
        cosigned: Cosigned | None = None,
        checks: Checks | None = None,
    ) -> Verification:
        """Verify the transcript; arguments as for ``verify``."""
        from protocol.transcript.verification import verify

        with collector_paused():
            return verify(
                self.chunks(),
                digest=digest,
                checkpoint=checkpoint,
                cosigned=cosigned,
                checks=checks,
            )

    def prove(
        self,
        variant: type[Variant],
        party: PartyId,
        checkpoint: SignedCheckpoint | None = None,
    ) -> tuple[Receipt, SignedCheckpoint]:
        """A receipt for a party's counted reports, and the checkpoint to check it with.

        Args:
            checkpoint: a checkpoint of this transcript; by default its last one.
        """
        from protocol.audit.proofs.making_receipts import prove

        return prove(self.chunks, variant, party, checkpoint)

    def prove_each(
        self, variant: type[Variant], parties: Iterable[PartyId]
    ) -> tuple[Iterator[Proved], SignedCheckpoint]:
        """Receipts of many parties, and the checkpoint to check them with, of one reading."""
        from protocol.audit.proofs.making_receipts import prove_each

        return prove_each(self.chunks, variant, parties)

    def audit(
        self,
        variant: type[Variant],
        *,
        observer: Observer | None = None,
        digest: bytes | None = None,
        checkpoint: SignedCheckpoint | None = None,
        cosigned: Cosigned | None = None,
        disclosed: Iterable[Disclosure] = (),
        reader: TranscriptReader | None = None,
        ledger: LedgerWriter | None = None,
        folds: Iterable[Fold] = (),
        checks: Checks | None = None,
    ) -> Audit:
        """Audit the transcript: coverage, privacy losses, and the result.

        Args:
            disclosed: keys and records of members, to replay what they said.
            reader: the reader from ``entries``, if the header has been read.
            ledger: takes the steps, and may be asked about other observers.
            folds: further folds over the same pass.
            checks: checks the signatures of heads; by default they are checked at once.
        """
        from protocol.audit.audit import audit

        with collector_paused():
            return audit(
                self.chunks,
                variant,
                observer=observer,
                digest=digest,
                checkpoint=checkpoint,
                cosigned=cosigned,
                disclosed=disclosed,
                reader=reader,
                ledger=ledger,
                folds=folds,
                checks=checks,
            )


def open_transcript(path: Path | str) -> Transcript:
    """A transcript in an existing file.

    Raises:
        UsageError: there is no such file.
    """
    path = Path(path)
    if path.is_dir():
        held = sorted(each for each in path.iterdir() if each.name.endswith(TRANSCRIPT_ENDINGS))
        raise UsageError(
            f"{path}: a folder; expected a transcript{f', such as {held[0]}' if held else ''}"
        )
    if not path.is_file():
        raise UsageError(f"{path}: {'not a file' if path.exists() else 'no such transcript'}")
    return Transcript(path)
