"""What is unknown and what is not covered, listed before it is measured.

A row that is unknown, or whose coverage is rejected, and is not listed here fails the gate; so does
an entry that nothing bears out, once its part of the grid has been measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tests.coverage_gate.grid import Point
from tests.coverage_gate.measuring import Row


class Known(NamedTuple):
    """Some rows of which something is known beforehand.

    Args:
        estimator: the beginning of its name.
        why: in a sentence.
        target: the end of its name.
        about: whom; nobody in particular by default.
        upto: the most expected reports of these rows.
        at: these points alone; those of exact sums are the same in every run.
    """

    estimator: str
    why: str
    target: str = ""
    about: str = ""
    upto: int = 10**9
    at: Sequence[Point] = ()

    def has(self, row: Row) -> bool:
        """Whether a row is one of them."""
        return (
            row.estimator.startswith(self.estimator)
            and row.target.endswith(self.target)
            and self.about in ("", row.about)
            and row.point.expected <= self.upto
            and (not self.at or row.point in self.at)
        )

    def __str__(self) -> str:
        where = [self.estimator or "every estimator", *filter(None, (self.target,))]
        if self.about:
            where.append(f"about the {self.about}")
        if self.upto < 10**9:
            where.append(f"up to {self.upto:,} expected reports")
        if self.at:
            points = (f"({', '.join(map(str, point))})" for point in self.at)
            where.append(f"at {', '.join(points)}")
        return f"{', '.join(where)}: {self.why}"


_STEPS = "counts have few steps where a report is nearly an answer"
_FEW = (Point(100, 0.5, 0.9, 2),)
_ALL_NOISE = "here margins are all noise, and so are the slopes of a product"

UNKNOWN: tuple[Known, ...] = (
    Known("inp-", "at most one respondent reports on a coefficient", upto=3),
    Known("marg-", "at most one respondent reports on a table", upto=3),
    Known("privkv", "at most one respondent reports on the key", upto=1),
    Known("smp, olh", "at most one respondent reports on the attribute", upto=1),
    Known("rrba, the last two blocks", "a group without a report in one of the blocks", upto=10),
    Known("product of margins", "reports too much alike", target="set", upto=3),
    Known(
        "comparisons",
        "so much randomization that the share of one of the four cells may be anything",
        target="odds ratio",
        upto=100,
    ),
    Known(
        "calibrated",
        "fewer than 50 reports for each free cell of the margins, or a stratum that may be empty",
        upto=30,
    ),
)
"""Where no interval is given."""

UNCOVERED: tuple[Known, ...] = (
    Known(
        "rr-clusters, pair-rr",
        f"too wide, 99.5 % and more: {_STEPS}",
        about="respondents",
        at=(Point(30, 0.5, 0.9, 2), Point(100, 0.001, 0.9, 2)),
    ),
    Known(
        "rr-independent, an attribute",
        f"too wide, 98.6 % and 97.3 %: {_STEPS}",
        target="cell",
        about="respondents",
        at=(Point(30, 0.5, 0.9, 50), Point(45, 0.7, 0.85, 10)),
    ),
    Known(
        "secure-sum, between the points",
        "too wide, 97.03 %: counts have few steps where a share is large (whatever p)",
        target="cell",
        about="population",
        at=tuple(Point(45, 0.9, keep, 2) for keep in (0.2, 0.6, 0.85)),
    ),
    *(
        Known(
            f"secure-sum, {name} coins",
            "too wide, up to 98.7 %: coins of a variance below 6 have few steps",
            about="respondents",
            at=at,
        )
        for name, at in (
            ("fair", tuple(Point(30, share, 0.9, 2) for share in (0.001, 0.01, 0.1, 0.5)) + _FEW),
            ("rare", (Point(30, 0.1, 0.9, 2), Point(30, 0.5, 0.9, 2), *_FEW)),
        )
    ),
    Known(
        "product of margins",
        f"too wide: {_ALL_NOISE}",
        target="set",
        at=(Point(30, 0.01, 0.1, 3),),
    ),
    Known(
        "numeric-mean, one-bit",
        "too wide: a bit does not show the spread of the answers",
        about="respondents",
    ),
    Known(
        "privkv",
        "too wide: a report does not show the spread of a key's values",
        target="mean",
        about="respondents",
    ),
)
"""Where intervals do not cover as they should."""

VARIANCES: tuple[Known, ...] = (
    Known(
        "numeric-mean, one-bit",
        "as for answers drawn anew",
        about="respondents",
    ),
    Known(
        "rrba",
        "those who report on a group count as a sample of a population, not of the respondents",
        target="cell",
        about="respondents",
    ),
    Known(
        "privkv",
        "likewise those who report on a key",
        about="respondents",
    ),
)
"""Where standard errors are not those of the distance from the truth."""
