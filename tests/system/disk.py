"""Disks of members: what a machine that loses power finds again, and disks that are full.

The files are real ones, in memory; the calls about them are watched. Synced are a file's bytes, and
a folder's names, as they were when each was synced last. Of what came after, a machine that lost
power finds the beginning: of bytes, up to a drawn place, and perhaps zeros in the place of more; of
changes of names, up to a drawn one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Callable, Generator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unittest import mock

from parties.keeping.packing import SECTOR
from tests.system.hosts import Host

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT

Names = dict[str, int]
"""The inode of each name in a folder."""


class File(NamedTuple):
    """A file as it was found: its number, its bytes, its mode."""

    number: int
    content: bytes
    mode: int


class Disk:
    """A member's.

    Args:
        folder: where all of it lies.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._synced: dict[int, bytes] = {}
        # Of each folder, by path: its names when it was synced, and after each change since.
        self._names: dict[str, list[Names]] = {}
        self._note(str(folder))

    def sync(self, descriptor: int, path: str) -> None:
        """A file or folder is synced."""
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            self._names[path] = [_names_in(path)]
        else:
            self._synced[status.st_ino] = Path(f"/proc/self/fd/{descriptor}").read_bytes()

    def changed(self, path: str) -> None:
        """The names in a folder may have changed."""
        self._note(os.path.dirname(path))

    def _note(self, folder: str) -> None:
        history = self._names.setdefault(folder, [{}])
        names = _names_in(folder)
        if history[-1] != names:
            history.append(names)

    def found(self, random: Random | None) -> dict[str, File]:
        """The files that are there, by path below the folder.

        Args:
            random: if the machine has lost power, draws what is left of what was not synced.
        """
        there: dict[str, int] = {}
        contents: dict[int, File] = {}

        def visit(folder: str) -> None:
            names = _names_in(folder)
            if random is not None:
                names = random.choice(self._names.get(folder, [names]))
            for name, number in names.items():
                path = os.path.join(folder, name)
                if os.path.isdir(path):
                    visit(path)
                    continue
                if number not in contents:
                    contents[number] = self._content(path, number, random)
                there[os.path.relpath(path, self.folder)] = number

        visit(str(self.folder))
        if random is not None:
            for number, file in contents.items():
                content = _zeroed(self._synced.get(number, b""), file.content, random)
                contents[number] = file._replace(content=content)
        return {name: contents[number] for name, number in there.items()}

    def _content(self, path: str, number: int, random: Random | None) -> File:
        synced = self._synced.get(number, b"")
        try:
            status = os.stat(path, follow_symlinks=False)
            current = Path(path).read_bytes() if status.st_ino == number else synced
        except FileNotFoundError:
            current = synced
        if random is None:
            return File(number, current, 0o600)
        if current.startswith(synced):
            return File(number, current[: random.randint(len(synced), len(current))], 0o600)
        return File(number, random.choice((synced, current)), 0o600)

    def restore(self, found: dict[str, File]) -> None:
        """Put these files in the place of what is there now. Links stay links."""
        shutil.rmtree(self.folder)
        self.folder.mkdir()
        paths: dict[int, Path] = {}
        for name, file in found.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if file.number in paths:
                os.link(paths[file.number], path)
                continue
            paths[file.number] = path
            path.write_bytes(file.content)
            path.chmod(file.mode)
        self._synced = {path.stat().st_ino: path.read_bytes() for path in paths.values()}
        self._names = {}
        for folder in (self.folder, *(path for path in self.folder.rglob("*") if path.is_dir())):
            folder.chmod(0o700)
            self._names[str(folder)] = [_names_in(str(folder))]


def _zeroed(synced: bytes, content: bytes, random: Random) -> bytes:
    """A file's bytes after a loss of power: what was not synced may be zeros from some place on."""
    if not content.startswith(synced) or content == synced or random.random() < 0.5:
        return content
    # Sectors are written whole.
    place = random.randint(len(synced), len(content)) // SECTOR * SECTOR
    written = max(len(synced), place)
    return content[:written] + bytes(len(content) - written)


def _names_in(folder: str) -> Names:
    try:
        with os.scandir(folder) as entries:
            return {entry.name: entry.inode() for entry in entries}
    except FileNotFoundError:
        return {}


class Watched(NamedTuple):
    """Whose files are watched, and what is to be done at each call about them.

    Args:
        disk: the member's.
        host: its machine.
        full: whether this call finds the disk full.
    """

    disk: Disk
    host: Host
    full: Callable[[], bool]


@contextlib.contextmanager
def watching(root: Path, watched: Callable[[str], Watched | None]) -> Generator[None]:
    """Watch the calls about files in the block.

    Args:
        root: below which they lie, a folder for each member.
        watched: a member's by name, while its machine runs.
    """
    prefix = f"{root}/"
    real = {
        name: getattr(os, name)
        for name in ("open", "write", "fsync", "replace", "rename", "link", "unlink", "mkdir")
    }

    def of(path: object) -> Watched | None:
        text = os.fspath(path) if isinstance(path, str | os.PathLike) else ""
        if not isinstance(text, str) or not text.startswith(prefix):
            return None
        return watched(text.removeprefix(prefix).partition("/")[0])

    def inclusion_path_at(descriptor: int) -> str:
        try:
            return os.readlink(f"/proc/self/fd/{descriptor}").removesuffix(" (deleted)")
        except OSError:
            return ""

    def fail(one: Watched) -> None:
        one.host.tick()
        if one.full():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def open_(path: Any, flags: int, *rest: Any, **named: Any) -> int:
        one = of(path) if flags & _WRITING else None
        if one is None:
            return real["open"](path, flags, *rest, **named)
        if flags & os.O_CREAT and not os.path.lexists(path):
            fail(one)
        opened: int = real["open"](path, flags, *rest, **named)
        one.disk.changed(os.fspath(path))
        return opened

    def write(descriptor: int, content: Any) -> int:
        one = of(inclusion_path_at(descriptor))
        if one is not None:
            one.host.tick()
            if one.full():
                # As much as there is room for.
                if len(content) > 1:
                    real["write"](descriptor, content[: len(content) // 2])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written: int = real["write"](descriptor, content)
        return written

    def fsync(descriptor: int) -> None:
        path = inclusion_path_at(descriptor)
        one = of(path) or of(f"{path}/")
        if one is None:
            return
        fail(one)
        one.disk.sync(descriptor, path)

    def naming(name: str) -> Callable[..., None]:
        def call(*arguments: Any, **named: Any) -> None:
            one = of(arguments[-1 if name in ("replace", "rename", "link") else 0])
            if one is None:
                real[name](*arguments, **named)
                return
            if name == "unlink":
                one.host.tick()
            else:
                fail(one)
            real[name](*arguments, **named)
            for path in arguments:
                if isinstance(path, str | os.PathLike):
                    one.disk.changed(os.fspath(path))

        return call

    with contextlib.ExitStack() as patches:
        patched = {"open": open_, "write": write, "fsync": fsync}
        for name in ("replace", "rename", "link", "unlink", "mkdir"):
            patched[name] = naming(name)
        for name, function in patched.items():
            patches.enter_context(mock.patch.object(os, name, function))
        yield
