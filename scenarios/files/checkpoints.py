"""Checkpoints, proofs and evidence as files: what an aggregator publishes and a party keeps."""

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
    """Where the last checkpoint of a transcript is written: beside it."""
    return transcript.with_suffix(SUFFIX)


def write_checkpoint(checkpoint: SignedCheckpoint | None, transcript: Path) -> None:
    """Write what is to be published beside a transcript that has just been written.

    An earlier one is removed if there is none: it would be another run's.
    """
    path = checkpoint_path(transcript)
    if checkpoint is None:
        path.unlink(missing_ok=True)
        return
    write_whole(path, _published(checkpoint), private=True)


def write_checkpoints(checkpoints: Iterable[SignedCheckpoint], folder: Path) -> tuple[Path, ...]:
    """Write checkpoints into a folder, under their numbers, to be published one by one.

    What is there already stays as it is: it may have been published.

    Raises:
        UsageError: another checkpoint is there under the number of one of these, or no file.
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
                f"{path}: exists with another checkpoint than the record's; publishing both would "
                "be a contradiction"
            )
    folder.mkdir(parents=True, exist_ok=True)
    for path in contents:
        if path not in there:
            write_whole(path, contents[path])
    return tuple(contents)


def checkpoints_of(reader: TranscriptReader, count: int) -> Iterator[SignedCheckpoint]:
    """The first checkpoints on a record, of which a verification has found so many sound."""
    key = reader.header.roster[0][1]
    found = (entry for entry in reader if isinstance(entry, Checkpoint))
    for entry in islice(found, count):
        yield SignedCheckpoint(decode_statement(entry.statement), key, entry.signature)


def _published(checkpoint: SignedCheckpoint) -> bytes:
    encoded = msgspec.json.encode(checkpoint_values(checkpoint))
    return msgspec.json.format(encoded, indent=1) + b"\n"


def checkpoint_values(checkpoint: SignedCheckpoint) -> dict[str, Any]:
    """A checkpoint as plain values, bytes as hexadecimal digits."""
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
    """Write two signatures that contradict each other, for others to check."""
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
    """A JSON object; no name occurs twice, or readers may disagree about what was published.

    Raises:
        ValueError: the content is not a JSON object, or a name occurs twice.
    """

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
    """Bytes from the one way to write them: without blanks and capitals.

    Raises:
        ValueError: other than pairs of hexadecimal digits.
    """
    if not _HEX.fullmatch(digits):
        raise ValueError("expected pairs of the digits 0-9 and a-f")
    return bytes.fromhex(digits)


def read_small(path: Path) -> bytes:
    """The bytes of a file that cannot be large, unless it is an extension.

    Raises:
        UsageError: it cannot be read, or is larger than any such file is.
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
