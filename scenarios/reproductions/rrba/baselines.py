"""What randomized tables are compared with: tables with a trusted curator's noise, and their test.

The noise is numpy's floating-point Laplace noise on known counts: it serves comparisons and
protects nobody.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocol.estimators.dependence.association import TestResult
from protocol.estimators.measures import table_axes
from scenarios.reproductions.rrba.association import Rule, ranked_test, sampled_counts

Scale: TypeAlias = Literal["central", "paper"]
"""``central`` is what a mechanism needs, ``paper`` about what RRBA's tables 5 and 6 fit."""

# One substituted record moves two counts by one each.
_CENTRAL = 2.0

# Geometric means of (printed mean l2 distance) * epsilon / (mean of sqrt(2 K) over all k-way
# tables of K cells). The single values are, for survey and alarm: k = 2: 6.4, 16.8, 10.4, 7.8;
# k = 3: 21.8, 15.6, 12.3; k = 4: 33.5, 24.9, 19.5.
_FITTED = {2: 9.7, 3: 16.1, 4: 25.3}


def laplace_scale(epsilon: float, *, ways: int, scale: Scale = "central") -> float:
    """The scale b of the Laplace noise on every cell of a table.

    ``central``: ``b = 2 / epsilon``, for one table of counts when one record is substituted by
    another. ``paper``: the true scale behind RRBA's tables 5 and 6 is unknown. Their l2 distances
    ask for a ``b epsilon`` of 6 to 17 for two-way tables, 12 to 22 for three-way and 19 to 34 for
    four-way ones, which no formula in the number of attributes, cells or tables fits. The geometric
    means 9.7, 16.1 and 25.3 are offered, for baselines of about the printed size: as a mechanism
    they have no meaning.
    """
    return (_CENTRAL if scale == "central" else _FITTED[ways]) / epsilon


def laplace_tables(
    counts: ArrayLike,
    epsilon: float,
    generator: np.random.Generator,
    *,
    scale: Scale = "central",
    ways: int | None = None,
) -> NDArray[np.float64]:
    """Counts with Laplace noise on every cell, independently; signed, their total is not n.

    Args:
        counts: true counts; the last ``ways`` axes are one table, all by default.
        epsilon: for each table by itself; several tables of the same respondents add up.
        generator: decides all draws.
        scale: as in ``laplace_scale``.
        ways: the number of attributes of one table.
    """
    table = np.asarray(counts, np.float64)
    axes = table_axes(table, ways)
    b = laplace_scale(epsilon, ways=len(axes), scale=scale)
    noisy: NDArray[np.float64] = table + generator.laplace(0.0, b, table.shape)
    return noisy


def mcindep(
    noisy: ArrayLike,
    n: ArrayLike,
    epsilon: float,
    generator: np.random.Generator,
    *,
    scale: Scale = "central",
    ways: int | None = None,
    draws: int = 999,
    rule: Rule = "none",
) -> TestResult:
    """MCIndep: the Monte Carlo test of independence of tables with Laplace noise.

    Gaboardi, Lim, Rogers and Vadhan, Differentially Private Chi-Squared Hypothesis Testing, 2016.
    The two-step estimate of the noisy table says what H0 expects; tables are drawn from it, noised
    and put through the same two steps; the statistic of the noisy table is ranked among theirs.
    Their algorithm accepts a table whose estimate is too small to test: that is the rule
    ``fewer-than-5``.

    Args:
        noisy: of ``laplace_tables``, with the same epsilon, scale and ways.
        n: the number of respondents, which is public: one number, or one for every table.
        epsilon, generator, scale, ways: as in ``laplace_tables``.
        draws, rule: as in ``monte_carlo_test``.
    """
    table = np.asarray(noisy, np.float64)
    asked = len(table_axes(table, ways))
    b = laplace_scale(epsilon, ways=asked, scale=scale)

    def draw(
        null: NDArray[np.float64], totals: NDArray[np.int64], _: slice, size: int
    ) -> NDArray[np.float64]:
        drawn = sampled_counts(null, totals, generator, ways=asked, runs=size)
        noised: NDArray[np.float64] = drawn + generator.laplace(0.0, b, drawn.shape)
        return noised

    return ranked_test("mcindep", table, n, draw, ways=asked, draws=draws, rule=rule)
