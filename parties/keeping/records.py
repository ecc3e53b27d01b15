"""The record of a run on disk: how it grows, gets its name, and never replaces a real survey's."""

from __future__ import annotations

import itertools
import json
import math
import os
import stat
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from parties.keeping.checkpoints import read_checkpoint, write_checkpoint
from parties.keeping.packing import Packer, Unpacked, whole_length
from parties.keeping.record_names import (
    RESULT,
    TRANSCRIPT,
    checkpoint_path,
    first_checkpoint_path,
    partial_path,
    record_stem,
)
from parties.keeping.writing import (
    PRIVATE_FOLDER,
    GrowingFile,
    chunks_in,
    is_named,
    lock,
    make_folder,
    naming,
    open_private,
    read_chunks,
    sync_folder,
    write_whole,
)
from protocol.errors import TranscriptError, UnopenedError, UsageError
from protocol.messages import AGGREGATOR
from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.transcript.entries import WITHHELD
from protocol.transcript.reader import TranscriptReader


class DamagedError(UsageError):
    """A record is not what its program has written, nor the beginning of it, at ``path``."""

    def __init__(self, why: str, path: Path) -> None:
        super().__init__(why)
        self.path = path


class GrowingTranscript(GrowingFile):
    """A transcript while it grows, locked, under the name of ``partial_path``.

    Attributes:
        kept: whether it stays if the run fails.
    """

    def __init__(self, descriptor: int, path: Path) -> None:
        super().__init__(descriptor, partial_path(path))
        self.kept = False
        self._final = path
        self._own: tuple[Path, ...] = ()
        self._whole: int | None = None
        self._packer = Packer()

    def write(self, content: bytes) -> None:
        """Append bytes to the transcript."""
        super().write(self._packer.pack(content))

    def keep(self, first: str | None = None) -> None:
        """Keep what is recorded from now on, to be audited if the run fails.

        Args:
            first: the note of the first checkpoint, cosigned, for a file beside the transcript.
        """
        self.kept = True
        if first is not None:
            path = first_checkpoint_path(self._final)
            write_whole(path, first, private=True)
            self._own = (path,)

    def finish(self, checkpoint: SignedCheckpoint | None) -> None:
        """Give the finished transcript its name, and write its last checkpoint.

        An earlier simulation of this name is replaced, with its checkpoint and result.

        Raises:
            UsageError: the name was taken meanwhile, or the transcript was moved away.
            OSError: it cannot be written.
        """
        self.kept = True
        self.sync()
        with ExitStack() as held, naming(self._final):
            if not self.is_there():
                # A file of that name would be another program's.
                raise UsageError(
                    f"{self.path}: was moved or deleted while it was written, so it got neither "
                    "its name nor a checkpoint; if it was moved, it is whole"
                )
            if not self.named:
                _replaceable(held, self._final, own=self._own)
                for companion in _companions(self._final):
                    if companion not in self._own:
                        companion.unlink(missing_ok=True)
                os.rename(self.path, self._final)
                self.path = self._final
        sync_folder(self._final.parent)
        write_checkpoint(checkpoint, self._final)

    @property
    def named(self) -> bool:
        """True if it has its final name, which only a whole and synced file gets."""
        return self.path == self._final

    def chunks(self) -> Iterator[bytes]:
        """Content so far, in parts, without a part that a crash left incomplete.

        Raises:
            UsageError: it cannot be read.
            UnopenedError: it cannot be unpacked.
        """
        return iter(Unpacked(self._stored()))

    def _stored(self) -> Iterator[bytes]:
        rest = math.inf if self._whole is None else self._whole
        for chunk in read_chunks(self.path):
            yield chunk[: int(min(rest, len(chunk)))]
            rest -= len(chunk)
            if rest <= 0:
                return

    def find(self) -> None:
        """Find the length of the whole part of an interrupted file.

        Raises:
            DamagedError: it is damaged, or cannot be read.
        """
        try:
            self._whole = whole_length(self._stored)
        except UnopenedError as error:
            raise DamagedError(
                f"{self.path}: damaged, not cut short: {error}", self.path
            ) from error
        except UsageError as error:
            raise DamagedError(str(error), self.path) from error

    def cut(self) -> None:
        """Cut off the incomplete part, to write after the rest.

        Raises:
            OSError: it cannot be cut.
        """
        with naming(self.path):
            os.ftruncate(self._descriptor, self._whole or 0)
            os.lseek(self._descriptor, 0, os.SEEK_END)
        self._whole = None


@contextmanager
def growing(path: Path) -> Generator[GrowingTranscript]:
    """A file for a transcript, locked while the block runs; its folder is made if need be.

    Only ``finish`` gives it its name, so a run that fails replaces nothing. A simulation is
    replaced, the record of a real survey never. Without ``keep`` nothing stays.

    Raises:
        UsageError: the record of a real survey has the name, or another program is writing it.
        OSError: the file cannot be written; names it.
    """
    make_folder(path.parent)
    partial = partial_path(path)
    busy = _busy(partial)
    with ExitStack() as held:
        if partial in _replaceable(held, path, partial):
            partial.unlink()
    try:
        descriptor = open_private(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    except FileExistsError as error:
        raise UsageError(busy) from error
    with ExitStack() as stack:
        stack.callback(os.close, descriptor)
        lock(descriptor, partial, busy)
        if not is_named(descriptor, partial):
            raise UsageError(busy)
        record = GrowingTranscript(descriptor, path)
        try:
            sync_folder(path.parent)
            with record.surfacing():
                yield record
        finally:
            if not record.kept and record.is_there():
                partial.unlink()


@contextmanager
def growing_again(path: Path) -> Generator[GrowingTranscript]:
    """The transcript of a program that was interrupted, locked while the block runs.

    Check its header, then call ``cut`` before writing. If the program has given it its final name
    already, it keeps that.

    Raises:
        UsageError: there is none, or another program is writing it.
        DamagedError: it is damaged.
        OSError: it cannot be opened; names it.
    """
    partial = partial_path(path)
    name = partial if os.path.lexists(partial) else path
    try:
        descriptor = open_private(name, os.O_RDWR, sole=True)
    except FileNotFoundError as error:
        raise UsageError(f"{partial}: no such file; expected the record to resume") from error
    with ExitStack() as stack:
        stack.callback(os.close, descriptor)
        lock(descriptor, name, _busy(name))
        if not is_named(descriptor, name):
            raise UsageError(_busy(name))
        record = GrowingTranscript(descriptor, path)
        record.path = name
        record.kept = True
        record.find()
        with record.surfacing():
            yield record


def make_way(
    path: Path, *, force: bool = False, before: Callable[[], object] = lambda: None
) -> Path | None:
    """Make sure that a transcript can be written.

    Args:
        path: the transcript's.
        force: move the record of a real survey aside, into a new folder beside it, with its
            checkpoint and result.
        before: called before it is moved.

    Returns:
        The folder that it was moved to, if it was.

    Raises:
        UsageError: without ``force``, the record of a real survey has the name; or another program
            is writing it.
    """
    with ExitStack() as held:
        try:
            _replaceable(held, path, partial_path(path))
        except _InTheWayError as error:
            if not force:
                raise
            before()
            return _move_aside(path, error.there)
    return None


def write_result(path: Path, content: str, *, recorded: bool) -> None:
    """Write the result of a simulation beside its transcript, which is locked meanwhile.

    Args:
        path: the transcript's.
        content: of the result.
        recorded: whether this run wrote the transcript; an earlier one is removed.

    Raises:
        UsageError: a real survey has its record there by now, or another program is writing it.
        OSError: it cannot be written.
    """
    with growing(path), ExitStack() as held:
        there = _replaceable(held, path)
        if there and not recorded:
            for name in (*_companions(path), path):
                name.unlink(missing_ok=True)
        write_whole(path.with_name(RESULT), content, private=True)


class _InTheWayError(UsageError):
    """Files that must not be lost are in the way; ``there`` are the transcripts found."""

    def __init__(self, why: str, there: list[Path]) -> None:
        super().__init__(
            f"{why}; it is never replaced: write elsewhere, or let --force move it aside"
        )
        self.there = there


def _replaceable(
    held: ExitStack, path: Path, *more: Path, own: Collection[Path] = ()
) -> list[Path]:
    """Existing transcripts among these, if they may be replaced; locked until ``held`` ends.

    Args:
        own: files beside them that this run has written.

    Raises:
        _InTheWayError: one of them, or a file beside them, is or may be a real survey's.
        UsageError: another program is writing one of them.
    """
    there = [name for name in (path, *more) if os.path.lexists(name)]
    whys = [_why_kept(name, held) for name in there]
    for name in _companions(path):
        if not os.path.lexists(name) or name in own:
            continue
        if name.name == RESULT:
            whys.append(_why_result_kept(name))
        elif path not in there:
            whys.append(f"{name}: is the checkpoint of a transcript that is not here")
        else:
            whys.append(whys[0] or _why_checkpoint_kept(name, path))
    for why in whys:
        if why is not None:
            raise _InTheWayError(why, there)
    return there


def _why_kept(path: Path, held: ExitStack) -> str | None:
    mode = os.lstat(path).st_mode
    if not stat.S_ISREG(mode):
        return f"{path}: is {'a symbolic link' if stat.S_ISLNK(mode) else 'not a regular file'}"
    # Some systems lock only files open for writing.
    flags = os.O_RDWR if os.access(path, os.W_OK) else os.O_RDONLY
    file = held.enter_context(os.fdopen(open_private(path, flags), "rb"))
    lock(file.fileno(), path, _busy(path))
    if not is_named(file.fileno(), path):
        raise UsageError(_busy(path))
    if not os.fstat(file.fileno()).st_size:
        return None
    try:
        header = TranscriptReader(Unpacked(chunks_in(file))).header
    except TranscriptError:
        return f"{path}: cannot be read, and may be the record of a real survey"
    return f"{path}: is the record of a real survey" if header.seed is None else None


def _why_checkpoint_kept(path: Path, transcript: Path) -> str | None:
    """Reason to keep a checkpoint beside a simulation or an empty transcript, or None."""
    if path.is_symlink():
        return None  # The link is removed, not its target.
    if not path.is_file():
        return f"{path}: is not a regular file"
    if not path.stat().st_size:
        return None
    try:
        header = TranscriptReader(Unpacked(read_chunks(transcript))).header
        checkpoint = read_checkpoint(path)
        signed = (AGGREGATOR, checkpoint.key) in header.roster
        own = signed and checkpoint.session == header.session
    except (TranscriptError, UsageError):
        own = False
    return None if own else f"{path}: is not the checkpoint of {transcript}"


def _why_result_kept(path: Path) -> str | None:
    if path.is_symlink() or not path.is_file():
        return f"{path}: is not a regular file"
    content = path.read_bytes()
    if not content:
        return None
    try:
        values = json.loads(content)
    except (ValueError, RecursionError):
        values = None
    simulated = isinstance(values, dict) and (
        isinstance(values.get("seed"), int)
        or values.get("seed") == WITHHELD
        or "reproduction" in values
    )
    return None if simulated else f"{path}: may be the result of a real survey"


def _companions(path: Path) -> tuple[Path, ...]:
    result = (path.with_name(RESULT),) if path.name == TRANSCRIPT else ()
    return checkpoint_path(path), first_checkpoint_path(path), *result


def _move_aside(path: Path, there: list[Path]) -> Path:
    """Move transcripts, and the files beside them, into a new folder."""
    for number in itertools.count(1):
        folder = path.with_name(f"{record_stem(path)}.earlier-{number}")
        try:
            folder.mkdir(PRIVATE_FOLDER)
            break
        except FileExistsError:
            continue
    # In a new folder, nothing can be overwritten.
    for old in (*there, *_companions(path)):
        if os.path.lexists(old):
            os.rename(old, folder / old.name)
    sync_folder(folder)
    sync_folder(path.parent)
    return folder


def _busy(path: Path) -> str:
    return f"{path}: another program is writing this transcript"
