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
        target: the end of its name.
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
            and row.target.endswith(self.target)
            and self.about in ("", row.about)
            and row.point.expected <= self.upto
        )

    def __str__(self) -> str:
        where = [self.estimator or "every estimator", *filter(None, (self.target,))]
        if self.about:
            where.append(f"about the {self.about}")
        if self.upto < 10**9:
            where.append(f"up to {self.upto:,} expected reports")
        return f"{', '.join(where)}: {self.why}"


_FEW = "a handful of reports do not tell the spread of weights that the table does not tell"

UNKNOWN: tuple[Known, ...] = (
    Known("", _FEW, target="scores", upto=1),
    Known("rr-ind-joint", _FEW, target="set", upto=1),
    Known("inp-", "nobody, or one respondent, reports on a coefficient", upto=3),
    Known("marg-", "nobody, or one respondent, reports on a table", upto=3),
    Known("privkv", "nobody, or one respondent, reports on the key", upto=1),
    Known("rrba, the last two blocks", "a group without a report in one of the blocks", upto=3),
    Known(
        "rrba, the last two blocks",
        "the published counts are those of all blocks, not of the last two",
        target="scores",
    ),
)
"""Where no interval is given."""

UNCOVERED: tuple[Known, ...] = (
    Known("", "two or three reports, and weights of many values", target="scores", upto=1),
    Known("rr-clusters", "two or three respondents, whose pairs are known", target="set", upto=1),
    Known(
        "secure-sum, between the points",
        "97.03 % at one point off the grid: counts have few steps where a share is large",
        about="population",
    ),
    Known(
        "numeric-mean, one-bit",
        "too wide: a bit does not tell how far the answers are spread",
        about="respondents",
    ),
    Known(
        "privkv",
        "too wide: a report does not tell how far the values of those who hold a key are spread",
        target="mean",
        about="respondents",
    ),
)
"""Where intervals do not cover as they should."""

VARIANCES: tuple[Known, ...] = (
    Known(
        "numeric-mean, one-bit",
        "the standard errors are those of answers drawn anew",
        about="respondents",
    ),
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
