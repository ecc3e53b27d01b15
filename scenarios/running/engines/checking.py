"""Checks the signatures of a record in processes, while the record is read on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Self

from protocol.session.roster import Signed, are_signatures
from scenarios.errors import EngineError
from scenarios.running.engines.engine import Engine
from scenarios.running.engines.opening import open_engine

WORTH = 4096
"""Number of signatures from which processes are started; starting them costs some thousand."""


class ChecksMeanwhile:
    """Checks signatures in one process per processor; a few in this process.

    So it does with all that has no answer where processes cannot be started or do not last. Use it
    in a ``with`` block, which ends the processes.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._engine: Engine | None = None
        self._alone = False
        self._waiting: list[Signed] = []
        # For each batch: its signatures, or its results once known.
        self._claimed: dict[int, list[Signed]] = {}
        self._found: dict[int, list[bool]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def begin(self, claims: Sequence[Signed]) -> None:
        self._waiting += claims
        if not self._alone and (self._engine is not None or len(self._waiting) >= WORTH):
            with self._as_long_as_it_lasts():
                self._hand_over()

    def found(self) -> list[bool]:
        if self._engine is not None:
            with self._as_long_as_it_lasts():
                self._hand_over()
                while self._engine.under_way:
                    self._take(self._engine)
        for key, claims in self._claimed.items():
            self._found[key] = are_signatures(claims)
        found = [holds for key in sorted(self._found) for holds in self._found[key]]
        found += are_signatures(self._waiting)
        self._claimed, self._found, self._waiting = {}, {}, []
        return found

    @contextmanager
    def _as_long_as_it_lasts(self) -> Iterator[None]:
        """Continue in this process if the engine fails in the block."""
        try:
            yield
        except (EngineError, OSError, ValueError):
            self._alone, self._engine = True, None
            self._stack.close()

    def _hand_over(self) -> None:
        if self._engine is None:
            self._engine = self._stack.enter_context(open_engine("processes"))
        engine, claims = self._engine, self._waiting
        while engine.under_way >= engine.window:
            self._take(engine)
        if claims:
            key = len(self._claimed) + len(self._found)
            self._claimed[key], self._waiting = claims, []
            engine.submit(key, are_signatures, claims)

    def _take(self, engine: Engine) -> None:
        for key, holds in engine.drain():
            self._found[key] = holds
            del self._claimed[key]
