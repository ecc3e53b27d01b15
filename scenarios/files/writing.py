"""Files that are written whole or not at all, never through a link, and locked while they grow."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from protocol.transcript.entries import MAGIC
from scenarios.running.errors import UsageError

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
"""The modes of what is for its owner alone."""

_OTHERS = 0o077
_TRANSCRIPTS = (".svt", ".svt.partial")

_NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK: int = getattr(os, "O_NONBLOCK", 0)


@contextmanager
def naming(path: Path) -> Generator[None]:
    """An error of the operating system in the block names this file.

    Raises:
        OSError: what the block raised; not every call of the system says which file it was about.
    """
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def write_whole(path: Path, content: str | bytes, *, private: bool = False) -> None:
    """Write a file that is there whole or not at all; text is encoded as UTF-8.

    An earlier file of that name is replaced, a link is replaced by a file.

    Args:
        private: only its owner may read it, and it may replace what only its owner may read: the
            caller has seen that nothing is lost. Else ``check_output`` holds.

    Raises:
        UsageError: what has that name is not replaced.
        OSError: it cannot be written.
    """
    if not private:
        check_output(path)
    with naming(path):
        with _written(path, content.encode() if isinstance(content, str) else content) as new:
            if not private:
                # Temporary files are private; a result is an ordinary file.
                mask = os.umask(0)
                os.umask(mask)
                os.chmod(new, 0o666 & ~mask)
            os.replace(new, path)
        sync_folder(path.parent)


def write_once(path: Path, content: bytes) -> None:
    """Write a file for its owner alone that is there whole or not at all, and replaces nothing.

    Raises:
        FileExistsError: something has that name.
        OSError: it cannot be written.
    """
    with naming(path):
        with _written(path, content) as new:
            os.link(new, path)
        sync_folder(path.parent)


@contextmanager
def _written(path: Path, content: bytes) -> Generator[str]:
    """A file beside a path that holds the content and is on disk; what is left of it goes."""
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


def check_output(path: Path) -> None:
    """Make sure that a file may be written that others may read, under a name that a person gave.

    All that this program keeps for somebody is for its owner alone: keys, what a party heard,
    records, checkpoints, results. Such a file is not replaced, nor is a transcript, by its name or
    by how it begins, whoever may read it.

    Raises:
        UsageError: such a file, or something else than a file, has that name.
        OSError: it cannot be read.
    """
    with naming(path):
        if not path.exists():
            return
        if not path.is_file():
            raise not_regular(path)
        if _may_be_transcript(path):
            raise UsageError(
                f"{path}: is a transcript, or what is left of one, which is not replaced; "
                "write elsewhere"
            )
        status = path.stat()
        if status.st_size and not status.st_mode & _OTHERS:
            raise UsageError(
                f"{path}: is for its owner alone, as what must not be lost, and is not replaced; "
                "write elsewhere, or delete it first"
            )


def _may_be_transcript(path: Path) -> bool:
    if path.name.endswith(_TRANSCRIPTS):
        return True
    with path.open("rb") as file:
        start = file.read(len(MAGIC))
    return bool(start) and MAGIC.startswith(start)


def make_folder(path: Path) -> None:
    """Make a folder, and those above it that are missing, for their owner alone.

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


def sync_folder(path: Path) -> None:
    """See to it that the names in a folder are on disk.

    Raises:
        OSError: it cannot be done.
    """
    if not hasattr(os, "O_DIRECTORY"):
        return  # No system on which a folder can be opened.
    with naming(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def open_private(path: Path, flags: int, *, sole: bool = False) -> int:
    """A descriptor of an ordinary file that, if it is made here, only its owner may read.

    Args:
        sole: it has no other name; what is added to it is added to nothing else.

    Raises:
        UsageError: not a regular file, or ``sole`` and it has another name.
        OSError: it cannot be opened; a symbolic link never is.
    """
    with naming(path):
        try:
            # Without waiting at a pipe for whoever is at its other end.
            descriptor = os.open(path, flags | _NOFOLLOW | _NONBLOCK, PRIVATE_FILE)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            raise not_regular(path) from error
        status = os.fstat(descriptor)
        try:
            if not stat.S_ISREG(status.st_mode):
                raise not_regular(path)
            if sole and status.st_nlink > 1:
                raise UsageError(
                    f"{path}: has another name too, and what is written here would be written there"
                )
        except UsageError:
            os.close(descriptor)
            raise
        return descriptor


def not_regular(path: Path) -> UsageError:
    """What to say of a pipe, a folder or a device in the place of a file."""
    return UsageError(f"{path}: is not a regular file")


def lock(descriptor: int, path: Path, busy: str) -> None:
    """Lock an open file until it is closed or its program ends, however it does.

    Raises:
        UsageError: another program has it; the message is ``busy``.
        OSError: it cannot be locked.
    """
    try:
        import fcntl
    except ImportError:
        return  # No such locks on this system.
    with naming(path):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(busy) from error


def is_named(descriptor: int, path: Path) -> bool:
    """Whether a path is, still, the name of an open file."""
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
        failure: the first error of a write; nothing may follow it.
    """

    def __init__(self, descriptor: int, path: Path) -> None:
        self.path = path
        self.failure: OSError | None = None
        self._descriptor = descriptor

    def is_there(self) -> bool:
        """Whether it still has its name: nobody has moved, deleted or replaced it."""
        return is_named(self._descriptor, self.path)

    def write(self, content: bytes) -> None:
        """Add all of the content.

        Raises:
            OSError: it could not be added, or not all of it; or an earlier write has failed.
        """
        if self.failure is not None:
            raise self._again()
        with self._failing():
            rest = memoryview(content)
            # On a disk that gets full a write succeeds, with less than all.
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]

    def sync(self) -> None:
        """See to it that all is on disk.

        Raises:
            OSError: it is not.
        """
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
        """A failed write comes out of the block as what it was.

        On its way tasks put it into groups, others take it for a broken link, and who writes next
        has another complaint.

        Raises:
            OSError: a write failed in the block, whatever else came of it.
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
