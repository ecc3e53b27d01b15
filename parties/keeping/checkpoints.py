"""Files of checkpoints, proofs and evidence."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from parties.keeping.record_names import CHECKPOINT, checkpoint_path
from parties.keeping.writing import not_regular, reason, write_whole
from protocol.errors import UsageError
from protocol.transcript.checkpoints import SignedCheckpoint, read_note
from protocol.transcript.evidence import Equivocation

OLDER, NEWER = "older-checkpoint", "newer-checkpoint"
"""Prefixes of file names in a member's folder, before the session's id: of the checkpoint of a
record that lacks an acknowledged report, and of the checkpoint that acknowledged it."""

_EVIDENCE = "sottovoce evidence 1"
_HEX = re.compile(r"([0-9a-f]{2})*")
_LARGEST = 1 << 26


def write_checkpoint(checkpoint: SignedCheckpoint | None, transcript: Path) -> None:
    """Write the last checkpoint of a new transcript beside it.

    Without one, an earlier run's is removed.
    """
    path = checkpoint_path(transcript)
    if checkpoint is None:
        path.unlink(missing_ok=True)
        return
    write_whole(path, checkpoint.note, private=True)


def write_checkpoints(notes: Iterable[str], folder: Path) -> tuple[Path, ...]:
    """Write the checkpoints of a sound transcript into a folder, named by their sizes.

    A file that is there already may have been published, so it stays.

    Raises:
        UsageError: the file of one of these sizes has another checkpoint, or is not a file.
    """
    contents = {
        folder / f"size-{read_note(note).size}{CHECKPOINT}": note.encode() for note in notes
    }
    there = [path for path in contents if path.exists()]
    for path in there:
        if not path.is_file():
            raise not_regular(path)
        if path.read_bytes() != contents[path]:
            raise UsageError(
                f"{path}: has another checkpoint than the transcript; publishing both would be "
                "a contradiction"
            )
    folder.mkdir(parents=True, exist_ok=True)
    for path in contents:
        if path not in there:
            write_whole(path, contents[path])
    return tuple(contents)


def read_checkpoint(path: Path | str) -> SignedCheckpoint:
    """A published checkpoint. Its signature is not checked.

    Raises:
        UsageError: the file cannot be read, or is not a checkpoint.
    """
    return read_note(checkpoint_note(path))


def checkpoint_note(path: Path | str) -> str:
    """The note of a published checkpoint, with everybody's signatures. None is checked.

    Raises:
        UsageError: the file cannot be read, or is not a checkpoint.
    """
    path = Path(path)
    try:
        note = read_small(path).decode()
        read_note(note)
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not a checkpoint, which is a text") from error
    except ValueError as error:
        raise UsageError(f"{path}: not a checkpoint: {error}") from error
    return note


def keep_older(folder: Path, held: SignedCheckpoint, own: SignedCheckpoint | None) -> Path:
    """Keep evidence that an aggregator's record lacks messages that it has acknowledged.

    Args:
        folder: the aggregator's.
        held: the checkpoint that a party holds.
        own: the last checkpoint of the record, if it is one of the same survey.

    Returns:
        The file of the first one, which ``newer_in`` finds.

    Raises:
        OSError: it cannot be written.
    """
    if own is not None:
        path = folder / f"{OLDER}-{own.session.hex()}"
        write_whole(path, own.note, private=True)
    path = folder / f"{NEWER}-{held.session.hex()}"
    write_whole(path, held.note, private=True)
    return path


def newer_in(folder: Path, session: bytes) -> tuple[Path, SignedCheckpoint] | None:
    """The checkpoint that a party has shown of a session's record, and its file.

    None if no party has shown one that the record did not have.

    Args:
        folder: the aggregator's.

    Raises:
        UsageError: the file is not a checkpoint.
    """
    path = folder / f"{NEWER}-{session.hex()}"
    return (path, read_checkpoint(path)) if path.exists() else None


def write_evidence(evidence: Equivocation, path: Path) -> None:
    """Write two signatures that contradict each other."""
    values = {k: v.hex() for k, v in msgspec.structs.asdict(evidence).items()}
    encoded = msgspec.json.encode({"format": _EVIDENCE, **values})
    write_whole(path, msgspec.json.format(encoded, indent=1) + b"\n")


def read_evidence(content: bytes, path: Path) -> Equivocation:
    """The evidence in a file, not checked.

    Raises:
        UsageError: the content is not evidence, or malformed.
    """
    try:
        values = msgspec.convert(_unique_keys(content), dict[str, str])
        if values.pop("format", None) != _EVIDENCE:
            raise UsageError(f"{path}: not evidence")
        return msgspec.convert({k: _from_hex(v) for k, v in values.items()}, Equivocation)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        from protocol.wire.undecoded import Undecoded

        raise UsageError(f"{path}: not evidence: {Undecoded.of(error)}") from error


def _unique_keys(content: bytes) -> dict[str, Any]:
    """A JSON object without repeated names, on which readers could disagree."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a name occurs twice")
        return found

    values = json.loads(content.decode(), object_pairs_hook=unique)
    if not isinstance(values, dict):
        raise ValueError("expected an object")
    return values


def _from_hex(digits: str) -> bytes:
    """Bytes from lowercase hexadecimal digits, the one way to write them."""
    if not _HEX.fullmatch(digits):
        raise ValueError("expected pairs of the digits 0-9 and a-f")
    return bytes.fromhex(digits)


def read_small(path: Path) -> bytes:
    """The bytes of a checkpoint, a receipt, a proof, a report or evidence.

    Raises:
        UsageError: the file cannot be read, or is too large.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except OSError as error:
        raise UsageError(f"{path}: {reason(error)}") from error
    if len(content) > _LARGEST:
        raise UsageError(f"{path}: too large for a checkpoint, a receipt, a proof or evidence")
    return content
