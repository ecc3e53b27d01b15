"""People as a purse knows them: by marks of their ids, as spelled and however spelled."""

from __future__ import annotations

import functools
import hmac
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MARKS = np.dtype("<u8")
"""The type of a mark, as it is on disk."""

Marks = NDArray[np.uint64]
Bools = NDArray[np.bool_]

_SPELLED = b"sottovoce respondent 1\0"
_LIKENESS = b"sottovoce likeness 1\0"

_NOBODY: Marks = np.empty(0, MARKS)

_SPACE = re.compile(r"\s+")
_DIGITS = re.compile(r"\d+")


def canonical(spelled: str) -> str:
    """The canonical form of an id: ids that read alike have the same.

    Case does not count, nor do the width of letters and other compatible forms, white space but for
    one between two digits, the script of digits, and leading zeros of a group of digits.
    """
    before, folded = "", spelled
    while folded != before:
        before = folded
        # Each step may leave something to an earlier one: accents meet their letters.
        folded = unicodedata.normalize("NFKC", folded.casefold())
        folded = _DIGITS.sub(_number, _SPACE.sub(_apart, folded.strip()))
    return folded


def _apart(space: re.Match[str]) -> str:
    """The rest of white space between numbers, which must not become one."""
    text = space.string
    return " " if text[space.start() - 1].isdecimal() and text[space.end()].isdecimal() else ""


def _number(digits: re.Match[str]) -> str:
    return "".join(str(unicodedata.decimal(each)) for each in digits[0]).lstrip("0") or "0"


def are_among(marks: Marks, others: Marks) -> Bools:
    """Return whether each mark is one of the others."""
    # With NumPy 2.0 a table of marks that are close together overflows.
    return np.isin(marks, others, kind="sort")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Spellings:
    """Spelled ids, by marks that are keyed with one secret.

    Args:
        exact: a mark of each as it is spelled, shape (k,).
        alike: one of its canonical form, which all have that read alike; shape (k,).
    """

    exact: Marks
    alike: Marks

    def __post_init__(self) -> None:
        if self.exact.shape != self.alike.shape:
            raise ValueError("expected two marks of each person")

    def __len__(self) -> int:
        return len(self.exact)

    def __repr__(self) -> str:
        return f"<Spellings: {len(self)}>"  # A mark is the same wherever a person pays.

    def __getitem__(self, which: Bools | NDArray[np.intp]) -> Spellings:
        return Spellings(self.exact[which], self.alike[which])

    def is_same(self, other: Spellings) -> bool:
        """True if both have the same ids, in the same order."""
        return np.array_equal(self.exact, other.exact)


def together(each: Iterable[Spellings]) -> Spellings:
    """All distinct spellings of several, sorted by their exact marks."""
    some = [*each]
    exact = np.concatenate([_NOBODY, *(one.exact for one in some)])
    alike = np.concatenate([_NOBODY, *(one.alike for one in some)])
    _, first = np.unique(exact, return_index=True)
    return Spellings(exact[first], alike[first])


class Register:
    """Spellings that a purse has seen under one secret, and answers about those that read alike.

    Two spellings that read alike may be one person, unless both were told apart. Spellings noted as
    one person are never apart.

    Args:
        secret: the secret that marks are keyed with.
        groups: the spellings of people that have paid.
        same: marks of canonical forms, each of one person.
        apart: exact marks of spellings that were told apart from all that read alike.
    """

    def __init__(
        self,
        secret: bytes,
        groups: Sequence[Spellings],
        same: Sequence[Marks],
        apart: Sequence[Marks],
    ) -> None:
        self._secret = secret
        self._groups = groups
        self._same = np.concatenate([_NOBODY, *same])
        self._apart = np.concatenate([_NOBODY, *apart])

    @functools.cached_property
    def seen(self) -> Spellings:
        """All spellings of people that have paid."""
        return together(self._groups)

    def of(self, ids: Sequence[str]) -> Spellings:
        """The spellings of ids, in their order."""
        alike = (_LIKENESS + canonical(each).encode() for each in ids)
        return Spellings(self._marks(_SPELLED + each.encode() for each in ids), self._marks(alike))

    def is_one(self, who: Spellings) -> Bools:
        """Mask of the spellings noted as one person with all that read alike."""
        return are_among(who.alike, self._same)

    def is_apart(self, who: Spellings) -> Bools:
        """Mask of the spellings that were told apart from others that read alike."""
        return are_among(who.exact, self._apart) & ~self.is_one(who)

    def may_be(self, who: Spellings, among: Spellings) -> Bools:
        """Mask of the spellings that may be one of the others, which have paid."""
        apart = self.is_apart(among)
        return (
            are_among(who.exact, among.exact)
            | are_among(who.alike, among.alike[~apart])
            | (are_among(who.alike, among.alike) & ~self.is_apart(who))
        )

    def is_surely(self, who: Spellings, among: Spellings) -> Bools:
        """Mask of the spellings that are one of the others, as spelled or as noted."""
        one = are_among(who.alike, among.alike) & self.is_one(who)
        return are_among(who.exact, among.exact) | one

    def reading_like(self, who: Spellings) -> Spellings:
        """All spellings that read like any of these, these and those seen."""
        everybody = together((self.seen, who))
        return everybody[are_among(everybody.alike, who.alike)]

    def is_unclear(self, who: Spellings) -> Bools:
        """Mask of the spellings that read like another one, without a note about the two."""
        near = self.reading_like(who)
        alike, spellings = np.unique(near.alike, return_counts=True)
        undecided = near.alike[~self.is_apart(near) & ~self.is_one(near)]
        return are_among(who.alike, alike[spellings > 1]) & are_among(who.alike, undecided)

    def people_in(self, groups: Sequence[Spellings]) -> int:
        """Number of people in groups, with spellings that read alike as one unless told apart."""
        who = together(groups)
        apart = self.is_apart(who)
        return int(apart.sum()) + len(np.unique(who.alike[~apart]))

    def digest(self, text: bytes) -> bytes:
        """The hash of a text that is keyed with the secret, 32 bytes."""
        return hmac.digest(self._secret, text, "sha256")

    def _marks(self, texts: Iterable[bytes]) -> Marks:
        return np.frombuffer(b"".join(self.digest(text)[:8] for text in texts), MARKS)
