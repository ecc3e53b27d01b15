"""Two synthetic attributes with a given dependence, as Cramer's V.

The data of figures 1 to 8 of Kikuchi and Domingo-Ferrer, RR-Ind-Joint, section 4.1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from protocol.surveys.records import Records
from protocol.surveys.survey import Attribute, Survey

_LEAST = 2


def correlated_survey(d: int) -> Survey:
    """Attributes A and B with the categories 2 to d+1, as the paper names them.

    Raises:
        SurveyError: d below 2.
    """
    categories = tuple(str(a) for a in range(_LEAST, d + _LEAST))
    return Survey(
        "Correlated", tuple(Attribute(name=name, categories=categories) for name in ("A", "B"))
    )


def correlated_margin(d: int) -> NDArray[np.float64]:
    """The distribution of either attribute, shape (d,): proportional to 1/a for a = 2..d+1.

    The paper's range, a = 2..d, would be of d - 1 values.

    Raises:
        ValueError: d below 2.
    """
    if d < 2:
        raise ValueError(f"d = {d}: expected at least 2 categories")
    odds = 1 / np.arange(_LEAST, d + _LEAST)
    margin: NDArray[np.float64] = odds / odds.sum()
    return margin


def correlated_distribution(d: int, *, v: float) -> NDArray[np.float64]:
    """``Sigma = v diag(l) + (1 - v) l l^T`` with l the margin, shape (d, d).

    A share v of the respondents gives the same answer twice, the others two independent ones. Its
    margins are l, and its Cramer's V is v exactly: ``Sigma - l l^T = v (diag(l) - l l^T)``.

    Raises:
        ValueError: d below 2, or v not in 0..1.
    """
    if not 0 <= v <= 1:
        raise ValueError(f"v = {v}: expected 0 to 1")
    margin = correlated_margin(d)
    distribution: NDArray[np.float64] = v * np.diag(margin) + (1 - v) * np.outer(margin, margin)
    return distribution


def correlated_counts(n: int, *, d: int, v: float) -> NDArray[np.int64]:
    """The table of n respondents that is nearest to the distribution, shape (d, d).

    ``n Sigma`` is rounded to whole respondents by largest remainder: every cell is rounded down,
    and the remaining respondents go one each to the cells that lost most, in ties to the first.
    Unless n is large beside d**2, margins and Cramer's V differ from those of the distribution.

    Raises:
        ValueError: n below 1, d below 2, or v not in 0..1.
    """
    if n < 1:
        raise ValueError(f"n = {n}: expected at least 1 respondent")
    expected = n * correlated_distribution(d, v=v).reshape(-1)
    counts = np.floor(expected).astype(np.int64)
    # Remainders that differ only by rounding, as across the diagonal, count as equal.
    lost = np.round(expected - counts, 9)
    counts[np.argsort(-lost, kind="stable")[: n - int(counts.sum())]] += 1
    return counts.reshape(d, d)


def correlated(n: int, *, d: int, v: float) -> Records:
    """The records of ``correlated_counts``, in the order of their cells.

    Returns:
        Records of ``correlated_survey(d)``, shape (n, 2).

    Raises:
        ValueError: as ``correlated_counts``.
    """
    counts = correlated_counts(n, d=d, v=v)
    return Records.from_counts(correlated_survey(d), counts)
