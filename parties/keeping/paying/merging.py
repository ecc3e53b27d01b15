"""Merging of purses: one purse takes in the spending that others and parties' folders know of."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from parties.keeping.paying.payments import (
    Joined,
    Line,
    Payment,
    People,
    Recalled,
    Told,
    secret_check,
)
from parties.keeping.purse import OpenPurse, Purse


def merge(purse: OpenPurse, others: Sequence[Purse], recalled: Sequence[Recalled]) -> int:
    """Add to a purse the lines that others have, and spending that parties' folders recall.

    Afterwards it has every line of each once, so neither order nor repetition matters. Nothing is
    taken back: spending in any of the purses is spending in this one, unless payments were of a
    person told apart in another.

    Args:
        purse: the purse that grows.
        others: the others, read before.
        recalled: spending that folders recall.

    Returns:
        The number of lines added.

    Raises:
        OSError: it cannot be written; names the file.
    """
    taking = _Taking(purse)
    for other in others:
        taking.take(other)
    for line in purse.lacking(recalled):
        taking.add(line, taking.lines)
    lines = [*taking.lines, *taking.apart]
    purse.add(lines, taking.secrets)
    return len(lines)


class _Taking:
    """Lines that a purse is to take in, with its own numbers of secrets and groups.

    ``apart`` are those to be added last: half of a merge that is interrupted counts too much rather
    than too little.
    """

    def __init__(self, purse: Purse) -> None:
        self.secrets: list[bytes] = []
        self.lines: list[Line] = []
        self.apart: list[Line] = []
        self._known = [*purse.secrets]
        self._there = {*purse.lines}
        self._groups = {(line.under, line.marks): at for at, line in _backwards(purse.people)}
        self._next = len(purse.people)

    def take(self, other: Purse) -> None:
        """Take in the lines of another purse that are new."""
        under = [self._number(secret) for secret in other.secrets]
        groups = [
            self._group(msgspec.structs.replace(line, under=under[line.under]))
            for line in other.people
        ]
        for line in other.lines:
            if isinstance(line, Payment):
                group = None if line.group is None else groups[line.group]
                self.add(msgspec.structs.replace(line, group=group), self.lines)
            elif isinstance(line, Told):
                told = msgspec.structs.replace(line, under=under[line.under])
                self.add(told, self.lines if line.one else self.apart)

    def _number(self, secret: bytes) -> int:
        if secret not in self._known:
            self._known.append(secret)
            self.secrets.append(secret)
            self.lines.append(Joined(secret_check(secret)))
        return self._known.index(secret)

    def _group(self, people: People) -> int:
        key = (people.under, people.marks)
        if key not in self._groups:
            self._groups[key] = self._next
            self._next += 1
            self.lines.append(people)
        return self._groups[key]

    def add(self, line: Line, to: list[Line]) -> None:
        """Add a line to a list unless it is known."""
        if line not in self._there:
            self._there.add(line)
            to.append(line)


def _backwards(people: Sequence[People]) -> list[tuple[int, People]]:
    """Groups with their numbers, last first, so that the first of two equal ones is kept."""
    return [*enumerate(people)][::-1]
