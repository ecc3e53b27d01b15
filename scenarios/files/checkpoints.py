"""Files of checkpoints, proofs and evidence."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from protocol.transcript.checkpoints import SignedCheckpoint, Statement, decode_statement
from protocol.transcript.entries import Checkpoint
from protocol.transcript.evidence import Equivocation
from protocol.transcript.extension import MAGIC as EXTENSION
from protocol.transcript.reader import TranscriptReader
from scenarios.files.writing import not_regular, write_whole
from scenarios.running.errors import UsageError

SUFFIX = ".checkpoint.json"
"""The suffix of a checkpoint's name, in place of the transcript's."""

_FORMAT = "sottovoce checkpoint 1"
_EVIDENCE = "sottovoce evidence 1"
_NEITHER = "expected a receipt, an extension or evidence"
_HEX = re.compile(r"([0-9a-f]{2})*")
_LARGEST = 1 << 16
_LARGEST_EXTENSION = 1 << 26


def checkpoint_path(transcript: Path) -> Path:
    """The file beside a transcript for its last checkpoint."""
    return transcript.with_suffix(SUFFIX)


def write_checkpoint(checkpoint: SignedCheckpoint | None, transcript: Path) -> None:
    """Write the last checkpoint of a new transcript beside it.

    Without one, an earlier run's is removed.
    """
    path = checkpoint_path(transcript)
    if checkpoint is None:
        path.unlink(missing_ok=True)
        return
    write_whole(path, _published(checkpoint), private=True)


def write_checkpoints(checkpoints: Iterable[SignedCheckpoint], folder: Path) -> tuple[Path, ...]:
    """Write checkpoints into a folder, named by their numbers.

    A file that is there already may have been published, so it stays.

    Raises:
        UsageError: the file of one of these numbers has another checkpoint, or is not a file.
    """
    contents = {
        folder / f"checkpoint-{checkpoint.statement.number}.json": _published(checkpoint)
        for checkpoint in checkpoints
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


def checkpoints_of(reader: TranscriptReader, count: int) -> Iterator[SignedCheckpoint]:
    """The first ``count`` checkpoints of a transcript, as many as were verified."""
    key = reader.header.roster[0][1]
    found = (entry for entry in reader if isinstance(entry, Checkpoint))
    for entry in islice(found, count):
        yield SignedCheckpoint(decode_statement(entry.statement), key, entry.signature)


def _published(checkpoint: SignedCheckpoint) -> bytes:
    encoded = msgspec.json.encode(checkpoint_values(checkpoint))
    return msgspec.json.format(encoded, indent=1) + b"\n"


def checkpoint_values(checkpoint: SignedCheckpoint) -> dict[str, Any]:
    """A checkpoint as plain values, bytes in hexadecimal."""
    said = msgspec.structs.asdict(checkpoint.statement)
    values = {**said, "key": checkpoint.key, "signature": checkpoint.signature}
    plain = {k: v.hex() if isinstance(v, bytes) else v for k, v in values.items()}
    return {"format": _FORMAT, **plain}


def read_checkpoint(path: Path | str) -> SignedCheckpoint:
    """A published checkpoint. Its signature is not checked.

    Raises:
        UsageError: the file cannot be read, or is not a checkpoint.
    """
    path = Path(path)
    try:
        values = _once(read_small(path))
        if values.pop("format", None) != _FORMAT:
            raise UsageError(f"{path}: expected a checkpoint")
        plain = {k: _bytes(v) if isinstance(v, str) else v for k, v in values.items()}
        key, signature = plain.pop("key"), plain.pop("signature")
        if set(plain) != set(Statement.__struct_fields__):
            raise UsageError(f"{path}: the checkpoint has missing or unknown fields")
        statement = msgspec.convert(
            [plain[name] for name in Statement.__struct_fields__], Statement
        )
        return msgspec.convert(
            {"statement": statement, "key": key, "signature": signature}, SignedCheckpoint
        )
    except KeyError as error:
        raise UsageError(f"{path}: the checkpoint lacks the field {error.args[0]!r}") from error
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
        raise UsageError(f"{path}: malformed checkpoint: {error}") from error


def write_evidence(evidence: Equivocation, path: Path) -> None:
    """Write two signatures that contradict each other."""
    values = {k: v.hex() for k, v in msgspec.structs.asdict(evidence).items()}
    encoded = msgspec.json.encode({"format": _EVIDENCE, **values})
    write_whole(path, msgspec.json.format(encoded, indent=1) + b"\n")


def evidence_of(content: bytes, path: Path) -> Equivocation:
    """The evidence in a file. What it proves is not checked.

    Raises:
        UsageError: the content is not evidence, or malformed.
    """
    try:
        values = msgspec.convert(_once(content), dict[str, str])
        if values.pop("format", None) != _EVIDENCE:
            raise UsageError(f"{path}: {_NEITHER}")
        return msgspec.convert({k: _bytes(v) for k, v in values.items()}, Equivocation)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: {_NEITHER}: {error}") from error


def _once(content: bytes) -> dict[str, Any]:
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


def _bytes(digits: str) -> bytes:
    """Bytes from lowercase hexadecimal digits, the one way to write them."""
    if not _HEX.fullmatch(digits):
        raise ValueError("expected pairs of the digits 0-9 and a-f")
    return bytes.fromhex(digits)


def read_small(path: Path) -> bytes:
    """The bytes of a checkpoint, a receipt, an extension or evidence.

    Raises:
        UsageError: the file cannot be read, or is too large.
    """
    most = _LARGEST
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
            if content.startswith(EXTENSION):
                most = _LARGEST_EXTENSION
                content += file.read(most + 1 - len(content))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    if len(content) > most:
        raise UsageError(f"{path}: too large for a checkpoint, a receipt, an extension or evidence")
    return content
