"""What is unknown and what is not covered, listed before it is measured.

A row that is unknown, or whose coverage is rejected, and is not listed here fails the gate; so does
an entry that nothing bears out, once its part of the grid has been measured.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.coverage_gate.measuring import Row


class Known(NamedTuple):
    """Some rows of which something is known beforehand.

    Args:
        estimator: the beginning of its name.
        why: in a sentence.
        target: the beginning of its name.
        about: whom; nobody in particular by default.
        upto: the most expected reports of these rows.
    """

    estimator: str
    why: str
    target: str = ""
    about: str = ""
    upto: int = 10**9

    def has(self, row: Row) -> bool:
        """Whether a row is one of them."""
        return (
            row.estimator.startswith(self.estimator)
            and row.target.startswith(self.target)
            and self.about in ("", row.about)
            and row.point.expected <= self.upto
        )

    def __str__(self) -> str:
        where = [self.estimator, *filter(None, (self.target,))]
        if self.about:
            where.append(f"about the {self.about}")
        if self.upto < 10**9:
            where.append(f"up to {self.upto:,} expected reports")
        return f"{', '.join(where)}: {self.why}"


UNKNOWN: tuple[Known, ...] = ()
"""Where no interval is given."""

UNCOVERED: tuple[Known, ...] = ()
"""Where intervals do not cover as they should."""

VARIANCES: tuple[Known, ...] = (
    Known(
        "rrba",
        "the standard errors count those who report on a group as a random sample of a population, "
        "which is more than their distance from all respondents",
        about="respondents",
    ),
    Known(
        "privkv",
        "the standard errors count those who are asked for a key as a random sample of a "
        "population, which is more than their distance from all respondents",
        about="respondents",
    ),
)
"""Where standard errors are not those of the distance from the truth."""
