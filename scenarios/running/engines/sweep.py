"""A sweep: maps of kernels over many arguments on an engine, finished pieces kept in a file."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from scenarios.files.pieces import Pieces, growing_pieces
from scenarios.files.user_modules import UserModule, loaded_user_module
from scenarios.running.engines.engine import Engine, completed
from scenarios.running.engines.here import Here

A = TypeVar("A")
R = TypeVar("R")


class Sweep:
    """Carries out maps; it may be handed down as a ``Map``.

    The file is opened by the first map, and the engine is started by the first piece of work, so
    a sweep without one costs nothing.

    Args:
        start: starts the engine.
        path: file of finished pieces until ``finish``; None for no file.
        about: all that the results depend on, as JSON has it.
        progress: called for every map with the number of finished pieces, and their total.
        stage: called with the number of finished stages, and their total, if there are several.

    Attributes:
        maps: number of maps so far.
    """

    def __init__(
        self,
        start: Callable[[], Engine] = Here,
        *,
        path: Path | None = None,
        about: Mapping[str, Any] | None = None,
        progress: Callable[[int, int], object] | None = None,
        stage: Callable[[int, int], object] | None = None,
    ) -> None:
        self.maps = 0
        self._start = start
        self._path = path
        self._about = about or {}
        self._progress = progress
        self._stage = stage
        self._open = ExitStack()
        self._engine: Engine | None = None
        self._pieces: Pieces | None = None

    def __call__(
        self,
        kernel: Callable[[A], R],
        arguments: Sequence[A],
        /,
        *,
        progress: Callable[[int, int], object] | None = None,
    ) -> list[R]:
        """Results of a kernel for each argument, in their order.

        Args:
            kernel: a function at the top of a module, which says by an annotation what it returns.
            arguments: each is a piece of work.
            progress: called with the number of finished pieces, and their total; by default the
                sweep's own ``progress``.

        Raises:
            UsageError: the file of finished pieces is damaged or of another sweep.
            Exception: as ``Engine.drain``.
        """
        if self._path is not None and self._pieces is None:
            self._pieces = self._open.enter_context(growing_pieces(self._path, self._about))
        self.maps += 1
        report = progress or self._progress or _ignore_progress
        report(0, len(arguments))
        found: dict[int, R] = {}
        for place, result in self._done(kernel, arguments):
            found[place] = result
            report(len(found), len(arguments))
        return [found[place] for place in range(len(arguments))]

    def stage(self, done: int, total: int) -> None:
        """Report the number of finished stages and their total, as the next one begins."""
        if self._stage is not None:
            self._stage(done, total)

    def _done(self, kernel: Callable[[A], R], arguments: Sequence[A]) -> Iterator[tuple[int, R]]:
        """Results of earlier sweeps first, then the others as they finish."""
        number, pieces = self.maps, self._pieces
        missing = []
        for place, argument in enumerate(arguments):
            if pieces is not None and (number, place) in pieces:
                yield place, pieces.taken((number, place), kernel)
            else:
                missing.append((place, argument))
        if missing and self._engine is None:
            self._engine = self._open.enter_context(self._start())
        if self._engine is not None:
            for place, result in completed(self._engine, kernel, missing):
                if pieces is None:
                    yield place, result
                else:
                    pieces.add((number, place), kernel, result)
                    # In stored form, so that a resumed sweep has the same result.
                    yield place, pieces.taken((number, place), kernel)

    def finish(self) -> None:
        """Forget the finished pieces: the result is written.

        Raises:
            OSError: their file cannot be removed.
        """
        if self._pieces is not None:
            self._pieces.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()


def _ignore_progress(done: int, total: int) -> None:
    pass


def sweep_description(command: str, definition: object, **settings: object) -> dict[str, Any]:
    """All that a sweep's results depend on, for its file of pieces.

    Args:
        command: which command carries it out.
        definition: a class or function; of a person's own file, that counts by its content.
        settings: the rest, as JSON has it.
    """
    own = loaded_user_module(definition.__module__)
    return {"command": command, **settings, **code_versions(() if own is None else (own,))}


def code_versions(own: Iterable[UserModule]) -> dict[str, Any]:
    """Versions of the code behind a result: hashes of the user's files, and versions.

    Args:
        own: the files, in any order.
    """
    files = sorted(hashlib.sha256(file.source).hexdigest() for file in own)
    return {
        "own file": " ".join(files) or None,
        "version": f"sottovoce {version('sottovoce')}, Python {platform.python_version()}, "
        f"numpy {version('numpy')}",
    }
