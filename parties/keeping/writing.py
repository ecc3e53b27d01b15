"""Writing files: whole or not at all, never through a link, locked while they grow."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from parties.keeping.packing import PACKED, agree
from parties.keeping.record_names import TRANSCRIPT_ENDINGS
from protocol.errors import UsageError
from protocol.transcript.entries import MAGIC

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
"""The modes of what only its owner may read."""

CHUNK = 1 << 17
"""The bytes that are read at once."""

_OTHERS = 0o077
_START = 64


_REASONS = {
    errno.ENOENT: "no such file or folder",
    errno.EACCES: "no permission",
    errno.EPERM: "no permission",
    errno.EISDIR: "a folder; expected a file",
    errno.ENOTDIR: "a part of this path is a file; expected a folder",
    errno.EEXIST: "exists",
    errno.ENOSPC: "the disk is full",
    errno.EROFS: "nothing can be written there",
    errno.ENAMETOOLONG: "the name is too long",
}


def reason(error: OSError) -> str:
    """The reason of an error of the operating system, for a person."""
    known = _REASONS.get(error.errno) if error.errno is not None else None
    return known or error.strerror or str(error)


@contextmanager
def naming(path: Path) -> Generator[None]:
    """Make an error of the operating system in the block name this file.

    Raises:
        OSError: as the block raised it, with the path.
    """
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def write_whole(
    path: Path, content: str | bytes, *, private: bool = False, own: bytes = b""
) -> None:
    """Write a file whole or not at all, text as UTF-8; it replaces a file or link of that name.

    Args:
        private: only its owner may read it. Without ``own`` it may replace a private file, so the
            caller makes sure that nothing is lost; otherwise ``check_output`` does.
        own: as for ``check_output``.

    Raises:
        UsageError: the file of that name must not be replaced.
        OSError: it cannot be written.
    """
    if own or not private:
        check_output(path, own=own)
    with naming(path):
        octets = content.encode() if isinstance(content, str) else content
        with _temporary_file(path, octets) as new:
            if not private:
                # Temporary files are private; a result is an ordinary file.
                mask = os.umask(0)
                os.umask(mask)
                os.chmod(new, 0o666 & ~mask)
            os.replace(new, path)
        sync_folder(path.parent)


def write_once(path: Path, content: bytes) -> None:
    """Write a private file whole or not at all, without replacing anything.

    Raises:
        FileExistsError: something has that name.
        OSError: it cannot be written.
    """
    with naming(path):
        with _temporary_file(path, content) as new:
            os.link(new, path)
        sync_folder(path.parent)


@contextmanager
def _temporary_file(path: Path, content: bytes) -> Generator[str]:
    """A temporary file beside the path with this content, synced; removed after the block."""
    descriptor, new = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield new
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)


def check_output(path: Path, *, own: bytes = b"") -> None:
    """Make sure that an output file may be written under a name that a person gave.

    Files that must not be lost (keys, received messages, records, checkpoints, results) are
    private. So no private file is replaced, and no transcript, by its name or its first bytes.

    Args:
        path: of the file.
        own: the first bytes of the file to be written, if it may be private. A private file with
            the same first bytes may be replaced.

    Raises:
        UsageError: such a file, or something other than a file, has that name.
        OSError: it cannot be read.
    """
    with naming(path):
        if not path.exists():
            return
        if not path.is_file():
            raise not_regular(path)
        if _may_be_transcript(path):
            raise UsageError(
                f"{path}: is a transcript or part of one, which is never replaced; write elsewhere"
            )
        status = path.stat()
        if status.st_size and not status.st_mode & _OTHERS and not _begins_private(path, own):
            raise UsageError(
                f"{path}: only its owner may read it, so it may be a key or a record; "
                "write elsewhere, or delete it first"
            )


def prepare_output(path: Path, *, own: bytes = b"") -> None:
    """Make sure, before any work, that an output file can be written, and make its folder.

    Args:
        path, own: as ``check_output`` has them.

    Raises:
        UsageError, OSError: as ``check_output``, or the folder cannot be made.
    """
    check_output(path, own=own)
    with naming(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)


def _begins_private(path: Path, own: bytes) -> bool:
    """Check whether a file begins like an output that may be private."""
    with path.open("rb") as file:
        return bool(own) and file.read(len(own)) == own


def _may_be_transcript(path: Path) -> bool:
    if path.name.endswith(TRANSCRIPT_ENDINGS):
        return True
    with path.open("rb") as file:
        start = file.read(_START)
    if MAGIC in start:
        return True
    # As much of one as there may be after a crash.
    short = MAGIC.startswith(start) or agree(start, PACKED)
    return 0 < len(start) < _START and short


def make_folder(path: Path) -> None:
    """Make a private folder, and the missing ones above it.

    Raises:
        OSError: it cannot be made, or a file has its name.
    """
    missing = []
    for folder in (path, *path.parents):
        if folder.exists():
            break
        missing.append(folder)
    for folder in reversed(missing):
        folder.mkdir(PRIVATE_FOLDER, exist_ok=True)
        sync_folder(folder.parent)


def check_new_folder(path: Path) -> None:
    """Make sure that a folder can be made: nothing, or an empty folder, has its name.

    Raises:
        UsageError: something has it.
        OSError: it cannot be read.
    """
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise UsageError(f"{path}: exists and is not a folder")
    if path.exists() and any(path.iterdir()):
        raise UsageError(f"{path}: exists and is not empty")


@contextmanager
def whole_folder(path: Path) -> Generator[Path]:
    """A new private folder to write files into; it has its name only once the block ends well.

    Args:
        path: the folder; the one it lies in is made if need be.

    Raises:
        UsageError: as ``check_new_folder``.
        OSError: it cannot be made.
    """
    check_new_folder(path)
    path = path.absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    with naming(path):
        new = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name[:100]}."))
    try:
        yield new
        for file in new.iterdir():
            with file.open("rb") as written:
                os.fsync(written.fileno())
        with naming(path):
            if path.exists():
                path.rmdir()
            os.rename(new, path)
        sync_folder(path.parent)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def sync_folder(path: Path) -> None:
    """Sync a folder, so that the names in it are on disk.

    Raises:
        OSError: it cannot be synced.
    """
    with naming(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def open_private(path: Path, flags: int, *, sole: bool = False) -> int:
    """Open a regular file; if it is made here, only its owner may read it.

    Args:
        path: the file.
        flags: of ``os.open``.
        sole: refuse a file that has another name too.

    Returns:
        Its descriptor.

    Raises:
        UsageError: not a regular file, or one with another name.
        OSError: it cannot be opened; a symbolic link never is.
    """
    with naming(path):
        try:
            # Nonblocking: opening a pipe would wait for its other end.
            descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, PRIVATE_FILE)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            raise not_regular(path) from error
        status = os.fstat(descriptor)
        try:
            if not stat.S_ISREG(status.st_mode):
                raise not_regular(path)
            if sole and status.st_nlink > 1:
                raise UsageError(f"{path}: has another name too, which would be written to as well")
        except UsageError:
            os.close(descriptor)
            raise
        return descriptor


def not_regular(path: Path) -> UsageError:
    """The error for a pipe, a folder or a device in the place of a file."""
    return UsageError(f"{path}: is not a regular file")


def lock(descriptor: int, path: Path, busy: str | None) -> None:
    """Lock an open file until it is closed or its program ends.

    Args:
        busy: the message if another program has locked it; None to wait until it is unlocked.

    Raises:
        UsageError: another program has locked it.
        OSError: it cannot be locked.
    """
    # Imported here, so that the command line can start on Windows and name what is missing.
    import fcntl

    with naming(path):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if busy is None else fcntl.LOCK_NB))
        except BlockingIOError as error:
            raise UsageError(busy) from error


def is_named(descriptor: int, path: Path) -> bool:
    """Check whether a path is still the name of an open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except (FileNotFoundError, NotADirectoryError):
        return False


class GrowingFile:
    """An open file that grows at its end.

    Args:
        descriptor: open for writing, at its end.
        path: what errors name.

    Attributes:
        failure: the first error of a write, after which nothing is written.
    """

    def __init__(self, descriptor: int, path: Path) -> None:
        self.path = path
        self.failure: OSError | None = None
        self._descriptor = descriptor

    def is_there(self) -> bool:
        """Check whether the path still names it: it was not moved, deleted or replaced."""
        return is_named(self._descriptor, self.path)

    def write(self, content: bytes) -> None:
        """Add all of the content.

        Raises:
            OSError: this write or an earlier one has failed.
        """
        if self.failure is not None:
            raise self._again()
        with self._failing():
            rest = memoryview(content)
            # On a full disk, a write may succeed in part.
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]

    def sync(self) -> None:
        """Sync it to disk.

        Raises:
            OSError: it cannot be synced, or an earlier write or sync has failed: a sync that
                follows a failed one may succeed although something was lost.
        """
        if self.failure is not None:
            raise self._again()
        with self._failing():
            os.fsync(self._descriptor)

    @contextmanager
    def _failing(self) -> Generator[None]:
        try:
            with naming(self.path):
                yield
        except OSError as error:
            self.failure = self.failure or error
            raise

    @contextmanager
    def surfacing(self) -> Generator[None]:
        """Raise a failed write from the block as the original error, not as one of tasks or links.

        Raises:
            OSError: a write failed in the block.
        """
        try:
            yield
        except Exception as error:
            if self.failure is None or error is self.failure:
                raise
            raise self._again() from error
        if self.failure is not None:
            raise self._again()

    def _again(self) -> OSError:
        failure = self.failure or OSError()
        return OSError(failure.errno, failure.strerror, failure.filename)


def whole_lines(content: bytes) -> int:
    """The length of the whole lines of a content, in bytes."""
    return content.rfind(b"\n") + 1


@contextmanager
def locked_growing(
    path: Path, busy: str | None, *, whole: Callable[[bytes], int]
) -> Generator[tuple[bytes, GrowingFile]]:
    """A private file that only ever grows, locked while the block runs.

    An incomplete end that a program left when it died is cut off. The rest is on disk, and so is
    the file's name. A failed write is raised from the block as the original error.

    Args:
        path: the file, made on first use.
        busy: as ``lock`` has it.
        whole: how many bytes of a content stand.

    Yields:
        Its content, and the file, open at its end.

    Raises:
        UsageError: it is locked, is not a regular file, or has another name too.
        OSError: it cannot be opened, read or written; names it. A symbolic link never is opened.
    """
    descriptor = open_private(path, os.O_RDWR | os.O_CREAT, sole=True)
    with os.fdopen(descriptor, "r+b", buffering=0) as file:
        lock(descriptor, path, busy)
        with naming(path):
            content = file.read()
            content = content[: whole(content)]
            file.truncate(len(content))
            file.seek(0, os.SEEK_END)
        growing = GrowingFile(descriptor, path)
        growing.sync()
        sync_folder(path.parent)
        with growing.surfacing():
            yield content, growing


def read_chunks(path: Path, progress: Callable[[int], object] | None = None) -> Iterator[bytes]:
    """The bytes of a file in parts, from the start.

    Args:
        path: the file.
        progress: called with the number of bytes read, after each read.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            for chunk in chunks_in(file):
                if progress is not None:
                    progress(len(chunk))
                yield chunk
    except OSError as error:
        raise UsageError(f"{path}: {reason(error)}") from error


def chunks_in(file: BinaryIO) -> Iterator[bytes]:
    """The bytes of an open file in parts, from where it is."""
    while chunk := file.read(CHUNK):
        yield chunk
