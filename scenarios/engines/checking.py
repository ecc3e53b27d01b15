"""Checks the signatures of a record in processes, while the record is read on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Self

from protocol.session.roster import Signed, are_signatures
from scenarios.engines.engine import Engine
from scenarios.engines.opening import open_engine

WORTH = 4096
"""From how many signatures on processes are started: they take as long as some thousand."""


class ChecksMeanwhile:
    """Checks signatures in a process for each processor; a few it checks itself.

    Use it in a ``with`` block, which ends the processes.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._engine: Engine | None = None
        self._waiting: list[Signed] = []
        self._begun = 0
        self._found: dict[int, list[bool]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def begin(self, claims: Sequence[Signed]) -> None:
        self._waiting += claims
        if self._engine is None:
            if len(self._waiting) < WORTH:
                return
            self._engine = self._stack.enter_context(open_engine("processes"))
        self._hand_over(self._engine)

    def found(self) -> list[bool]:
        if self._engine is None:
            return are_signatures(self._waiting)
        self._hand_over(self._engine)
        while self._engine.under_way:
            self._found.update(self._engine.drain())
        return [holds for key in range(self._begun) for holds in self._found[key]]

    def _hand_over(self, engine: Engine) -> None:
        if not self._waiting:
            return
        while engine.under_way >= engine.window:
            self._found.update(engine.drain())
        engine.submit(self._begun, are_signatures, self._waiting)
        self._begun += 1
        self._waiting = []
