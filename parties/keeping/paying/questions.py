"""The question whether people with ids that read alike are one, and its answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from parties.keeping.paying.payers import Payers
from parties.keeping.paying.payments import Told
from parties.keeping.paying.people import Bools, Register, Spellings, are_among
from protocol.errors import UsageError

_QUESTION = b"sottovoce question 1\0"
_ROWS = 8


class Question:
    """Question about ids that read like others, in the file or in a purse, without a note so far.

    Args:
        ids: the ids of all rows of the file, as spelled.
        registers: the registers of the purse.
        folder: the folder of the purse.

    Attributes:
        unclear: mask of the rows that it is about.
    """

    def __init__(self, ids: Sequence[str], registers: Sequence[Register], folder: Path) -> None:
        self._registers = registers
        self._folder = folder
        self._who = [register.of(ids) for register in registers]
        self._one = self._under_any(Register.is_one)
        self.unclear = self._under_any(Register.is_unclear) & ~self._one

    @property
    def code(self) -> str:
        """Some digits of this question; an answer that gives them answers no other question."""
        near = (each.exact.tobytes() for each in self._alike_spellings())
        return self._registers[0].digest(_QUESTION + b"".join(near))[:4].hex()

    @property
    def payers(self) -> Payers:
        """All people in the file, as payers of an answer."""
        # Two people of one mark, should there ever be two, pay together.
        _, each = np.unique(self._who[0].exact, return_index=True)
        return Payers(tuple(who[each] for who in self._who))

    def answered(self, *, same: bool = False, different: str | None = None) -> list[Told]:
        """Lines to note for an answer; none without a question.

        Args:
            same: all ids that read alike are one person.
            different: the code of the question, if each is another person.

        Raises:
            UsageError: the question is not answered; gives a count, rows from 1, and the possible
                answers. Or one person has two rows, or would be one with several people.
        """
        self._check_once(self._one, "as --same said")
        if not self.unclear.any():
            return []
        if not same and different != self.code:
            raise UsageError(self._words())
        near = self._alike_spellings()
        if same:
            self._check_once(self._one | self.unclear, "by --same")
            pairs = zip(self._registers, near, strict=True)
            if any(register.is_apart(some).any() for register, some in pairs):
                raise UsageError(
                    f"--same: who is in {_row_numbers(self.unclear)} may be several people, who "
                    "were told apart; spell the id as it was spelled then"
                )
        return [
            Told(
                one=same,
                marks=(np.unique(some.alike) if same else some.exact).tobytes(),
                under=under,
            )
            for under, some in enumerate(near)
        ]

    def _words(self) -> str:
        number, of = int(self.unclear.sum()), len(self.unclear)
        return (
            f"{number} of {of} respondents ({_row_numbers(self.unclear)}) "
            f"{'reads' if number == 1 else 'read'} like somebody who is spelled otherwise, in the "
            f"file or in {self._folder}: expected --same if those who read alike are one person, "
            f"whose spending is shared, or --different {self.code} if each is somebody else"
        )

    def _alike_spellings(self) -> list[Spellings]:
        """All spellings that read like those asked about, under each secret."""
        return [
            register.reading_like(who[self.unclear])
            for register, who in zip(self._registers, self._who, strict=True)
        ]

    def _under_any(self, said: Callable[[Register, Spellings], Bools]) -> Bools:
        """Mask of the rows for which a condition holds under any of the secrets."""
        found = np.zeros(len(self._who[0]), np.bool_)
        for register, who in zip(self._registers, self._who, strict=True):
            found |= said(register, who)
        return found

    def _check_once(self, one: Bools, by: str) -> None:
        """Refuse a file with two rows of one person."""
        alike = self._who[0].alike
        values, rows = np.unique(alike, return_counts=True)
        twice = one & are_among(alike, values[rows > 1])
        if twice.any():
            raise UsageError(
                f"{_row_numbers(twice)}: those who read alike are one person, {by}, who answers "
                "once; leave out all of their rows but one"
            )


def _row_numbers(which: Bools) -> str:
    """The first few rows of a file, numbered from 1, in words."""
    rows = (np.flatnonzero(which) + 1).tolist()
    more = f" and {len(rows) - _ROWS} more" if len(rows) > _ROWS else ""
    return f"row{'s' if len(rows) > 1 else ''} {', '.join(map(str, rows[:_ROWS]))}{more}"
