"""Backups of an aggregator: its folder and its record in one file, and both from that again."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from parties.keeping.attempts import ATTEMPTS, RESTORED, Taken, attempts_in, hashed
from parties.keeping.members import Member
from parties.keeping.packing import Unpacked
from parties.keeping.record_names import PARTIAL, RECORD_FILES, TRANSCRIPT
from parties.keeping.writing import (
    PRIVATE_FILE,
    check_new_folder,
    naming,
    not_regular,
    whole_folder,
    write_whole,
)
from protocol.errors import TranscriptError, UsageError
from protocol.transcript.entries import encode_header
from protocol.transcript.reader import TranscriptReader
from scenarios.surveys.holding.attempts import check_aggregator

FORMAT = "sottovoce backup 1"

_CONTENTS = "contents.json"
_FOLDER, _RECORD = "folder", "record"
_TRIES = 20
_LARGEST_NAME = 255


class _Contents(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names and SHA-256 digests of a backup's files, and the attempt to resume."""

    format: str
    attempt: int
    files: dict[str, str]


class Backup(NamedTuple):
    """Content of a backup.

    Args:
        attempt: the attempt that a restored aggregator resumes or begins.
        begun: whether that has begun.
        files: number of files.
    """

    attempt: int
    begun: bool
    files: int


def write_backup(member: Member, out: Path, file: Path) -> Backup:
    """Write a backup of an aggregator, whether it runs or not.

    A running survey goes on meanwhile; later acknowledgements are not in the backup.

    Args:
        out: the folder with its record.
        file: for the backup, readable by its owner alone; it holds private keys.

    Raises:
        UsageError: the folder is a party's, its attempt has no record in ``out``, something in it
            is not a file, or an earlier file has the name.
        OSError: something cannot be read or written.
    """
    check_aggregator(member)
    if os.path.lexists(file):
        raise UsageError(f"{file}: exists; a backup replaces nothing")
    files, last = _copy_files(member.folder, out)
    state = "over" if last is None else last.state
    attempt = (0 if last is None else last.attempt) + (state == "over")
    contents = _Contents(
        format=FORMAT,
        attempt=attempt,
        files={name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
    )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(_CONTENTS, msgspec.json.encode(contents))
        for name, content in files.items():
            archive.writestr(name, content)
    write_whole(file, packed.getvalue(), private=True)
    return Backup(attempt, state == "begun", len(files))


def _copy_files(folder: Path, out: Path) -> tuple[dict[str, bytes], Taken | None]:
    """A consistent copy of an aggregator's files, and its last attempt."""
    for _ in range(_TRIES):
        with suppress(FileNotFoundError):  # It got another name meanwhile.
            before = _content(folder / ATTEMPTS)
            attempts = attempts_in(folder)
            files = {f"{_FOLDER}/{path.name}": path.read_bytes() for path in _files_in(folder, out)}
            record = {f"{_RECORD}/{name}": _content(out / name) for name in RECORD_FILES}
            if _content(folder / ATTEMPTS) == before == files.get(f"{_FOLDER}/{ATTEMPTS}"):
                there = {name: content for name, content in record.items() if content is not None}
                last = attempts[-1] if attempts else None
                _check_record(there, last, out)
                return files | there, last
    raise UsageError(f"{folder}: changes while it is copied; try again")


def _files_in(folder: Path, out: Path) -> Iterator[Path]:
    """Files of a folder, without temporary ones."""
    for path in sorted(folder.iterdir()):
        passing = path.name.startswith(".") or path.is_socket() or path.name == RESTORED
        if passing or path.resolve() == out.resolve():
            continue
        if path.is_symlink() or not path.is_file():
            raise not_regular(path)
        yield path


def _content(path: Path) -> bytes | None:
    with naming(path):
        return path.read_bytes() if path.is_file() else None


def _check_record(record: Mapping[str, bytes], last: Taken | None, out: Path) -> None:
    """Check that the record of a begun attempt is present and belongs to it.

    Raises:
        UsageError: the record is missing, or of another attempt.
    """
    if last is None or last.state != "begun":
        return
    for name in (f"{TRANSCRIPT}{PARTIAL}", TRANSCRIPT):
        with suppress(TranscriptError, KeyError):
            header = TranscriptReader(Unpacked([record[f"{_RECORD}/{name}"]])).header
            if hashed(encode_header(header)) == last.header:
                return
    raise UsageError(f"{out}: has no record of attempt {last.attempt}, which has begun")


def restore_backup(file: Path, folder: Path, out: Path) -> Backup:
    """Restore an aggregator's folder, and the folder of its record, from a backup.

    Its next program has the record say that it goes on from an older copy, and publishes nothing
    before every party that may hold a receipt has come again.

    Args:
        file: the backup.
        folder, out: for the aggregator and its record, new or empty.

    Raises:
        UsageError: the file is not a backup, or not whole; or a folder is not empty.
        OSError: something cannot be read or written.
    """
    contents, files = _read(file)
    for path in (folder, out):
        check_new_folder(path)
    states = [line for line in files.get(f"{_FOLDER}/{ATTEMPTS}", b"").splitlines() if line]
    if folder.resolve() in (out.resolve(), *out.resolve().parents):
        raise UsageError(f"{out}: is in {folder}; expected a folder beside it")
    with whole_folder(folder) as keys, whole_folder(out) as record:
        for name, content in files.items():
            where, _, own = name.partition("/")
            _write(({_FOLDER: keys, _RECORD: record}[where]) / own, content)
        _write(keys / RESTORED, msgspec.json.encode(contents.attempt))
    begun = bool(states) and msgspec.json.decode(states[-1], type=Taken).state == "begun"
    return Backup(contents.attempt, begun, len(files))


def _read(file: Path) -> tuple[_Contents, dict[str, bytes]]:
    with naming(file):
        packed = file.read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            there = archive.infolist()
            if any(each.compress_type != zipfile.ZIP_STORED for each in there):
                raise ValueError("a file in it is compressed")
            if sum(each.file_size for each in there) > len(packed):
                raise ValueError("its files are longer than it is")
            contents = msgspec.json.decode(archive.read(_CONTENTS), type=_Contents)
            files = {each.filename: archive.read(each) for each in there}
    except (zipfile.BadZipFile, msgspec.MsgspecError, ValueError, KeyError, EOFError) as error:
        raise UsageError(f"{file}: not a backup, or not a whole one: {error}") from error
    del files[_CONTENTS]
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    if contents.format != FORMAT or digests != contents.files or len(there) != len(files) + 1:
        raise UsageError(f"{file}: not a backup of format {FORMAT!r}, or not a whole one")
    if not all(map(_is_own, files)):
        raise UsageError(f"{file}: not a backup: a file in it has a name that none of one has")
    return contents, files


def _is_own(name: str) -> bool:
    where, _, own = name.partition("/")
    if where == _RECORD:
        return own in RECORD_FILES
    plain = bool(own) and not {"/", "\\", "\0"} & {*own} and not own.startswith(".")
    return where == _FOLDER and plain and len(own) <= _LARGEST_NAME


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
    with os.fdopen(descriptor, "wb") as written:
        written.write(content)
