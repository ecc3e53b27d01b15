"""Monte Carlo tests of independence, of randomized tables and of those with a curator's noise.

The generator is numpy's, and so is the floating-point Laplace noise on known counts: they draw
tables of an experiment, never a report of a person, and protect nobody. Tests without draws are in
``protocol.estimators.dependence.association``; the last ``ways`` axes are one table there and here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocol.estimators.dependence.association import (
    TestResult,
    TwoStep,
    drawn_fakes,
    two_step_estimate,
    two_step_statistic,
    unmixed_counts,
)
from protocol.estimators.measures import table_axes
from protocol.randomizers.exact import Floats

Rule: TypeAlias = Literal["none", "fewer-than-5"]
"""``fewer-than-5`` accepts H0 where the two-step estimate of the table, or of any one that is drawn
to compare it with, has a count below 5 (RRBA, sections 6 and 7.3); ``none`` always compares."""


_CELLS_AT_ONCE = 1 << 22


def monte_carlo_test(
    reports: ArrayLike,
    *,
    keep: float,
    generator: np.random.Generator,
    fakes: ArrayLike | None = None,
    ways: int | None = None,
    draws: int = 999,
    rule: Rule = "none",
) -> TestResult:
    """RRBA's test of independence (section 7.3), from randomized reports.

    The two-step estimate of the raw counts says what H0 expects, and chi-squared how far the raw
    counts are from it. Then ``draws`` tables are sampled from the estimate, randomized in the same
    way and put through the same two steps. The p-value is ``(1 + #{drawn >= found})/(draws + 1)``.
    It is at most alpha exactly where the paper rejects: where the found value exceeds the drawn one
    of rank ``ceil((draws + 1)(1 - alpha))``.

    Args:
        reports, keep, fakes, ways: as in ``noise_aware_test``.
        generator: decides all draws.
        draws: the number of tables to compare with; more than 1/alpha.
        rule: of thumb, against small counts.
    """
    raw = unmixed_counts(reports, keep=keep, fakes=fakes, ways=ways)
    axes = table_axes(raw, ways)
    shape, tables = raw.shape[axes[0] :], raw.shape[: axes[0]]
    law = drawn_fakes(shape, keep=keep, fakes=fakes)
    drawn_from = np.broadcast_to(law, raw.shape).reshape(-1, *shape)

    def noisy(null: Floats, n: NDArray[np.int64], chosen: slice, size: int) -> Floats:
        # A sampled answer that is randomized is one draw from the law of reports.
        mixed = keep * null + (1 - keep) * drawn_from[chosen]
        reported = sampled_counts(mixed, n, generator, ways=len(shape), runs=size)
        return unmixed_counts(reported, keep=keep, fakes=drawn_from[chosen], ways=len(shape))

    # The raw counts have the reports' total.
    n = np.rint(raw.sum(axis=axes)).astype(np.int64).reshape(tables)
    return ranked_test("monte-carlo", raw, n, noisy, ways=len(shape), draws=draws, rule=rule)


def ranked_test(
    name: str,
    noisy: Floats,
    n: ArrayLike,
    draw: Callable[[Floats, NDArray[np.int64], slice, int], Floats],
    *,
    ways: int,
    draws: int,
    rule: Rule,
) -> TestResult:
    """Rank the two-step statistic of noisy tables among those of tables drawn under H0.

    Args:
        name: of the test.
        noisy: signed counts.
        n: the number of respondents, one number or one for every table.
        draw: from the shares that H0 expects of some tables, shape (t, ...), their n, which of all
            tables they are, and a number of draws: noisy counts, shape (draws, t, ...).
        ways, draws, rule: as in ``monte_carlo_test``.
    """
    shape = noisy.shape[noisy.ndim - ways :]
    tables = noisy.shape[: noisy.ndim - ways]
    flat = noisy.reshape(-1, *shape)
    totals = np.broadcast_to(np.asarray(n, np.int64), tables).reshape(-1)
    estimate = two_step_estimate(flat, totals, ways=ways)
    found = two_step_statistic(flat, estimate, ways=ways)
    higher = np.zeros(len(flat), np.int64)
    sparse = estimate.sparse.copy()
    step = max(1, _CELLS_AT_ONCE // (draws * flat[0].size))
    for start in range(0, len(flat), step):
        chosen = slice(start, start + step)
        some = totals[chosen]
        null = estimate.expected[chosen] / some.reshape(-1, *(1,) * ways)
        drawn = draw(null, some, chosen, draws)
        again: TwoStep = two_step_estimate(drawn, some, ways=ways)
        statistic = two_step_statistic(drawn, again, ways=ways)
        higher[chosen] = np.count_nonzero(statistic >= found[chosen], axis=0)
        sparse[chosen] |= again.sparse.any(axis=0)
    p_value = (1 + higher) / (draws + 1)
    if rule == "fewer-than-5":
        p_value = np.where(sparse, 1.0, p_value)
    return TestResult(
        test=name,
        statistic=found.reshape(tables),
        degrees=None,
        p_value=p_value.reshape(tables),
    )


def sampled_counts(
    distribution: ArrayLike,
    n: ArrayLike,
    generator: np.random.Generator,
    *,
    ways: int | None = None,
    runs: int,
) -> NDArray[np.int64]:
    """Tables of n respondents drawn from a population with this distribution.

    Args:
        distribution: shares, none negative, of total 1 up to rounding.
        n: the number of respondents, one number or one for every table.
        generator: decides all draws.
        ways: the number of axes of one table.
        runs: the number of repetitions.

    Returns:
        Shape (runs, ...) before the axes of ``distribution``.
    """
    law = np.asarray(distribution, np.float64)
    axes = table_axes(law, ways)
    tables = law.shape[: axes[0]]
    totals = np.broadcast_to(np.asarray(n, np.int64), tables)
    cells = law.reshape(*tables, -1)
    cells = cells / cells.sum(axis=-1, keepdims=True)
    drawn = generator.multinomial(totals, cells, size=(runs, *tables))
    return np.asarray(drawn.reshape(runs, *law.shape), np.int64)


# A curator's noise

Scale: TypeAlias = Literal["central", "paper"]
"""``central`` is what a mechanism needs, ``paper`` about what RRBA's tables 5 and 6 fit."""

# Geometric means of (printed mean l2 distance) * epsilon / (mean of sqrt(2 K) over all k-way
# tables of K cells). The single values are, for survey and alarm: k = 2: 6.4, 16.8, 10.4, 7.8;
# k = 3: 21.8, 15.6, 12.3; k = 4: 33.5, 24.9, 19.5.
_FITTED = {2: 9.7, 3: 16.1, 4: 25.3}


def laplace_scale(epsilon: float, *, ways: int, scale: Scale = "central") -> float:
    """The scale b of the Laplace noise on every cell of a table.

    ``central``: ``b = 2 / epsilon``, for one substituted record moves two counts by one each.
    ``paper``: the true scale behind RRBA's tables 5 and 6 is unknown, and no formula in the number
    of attributes, cells or tables fits. Geometric means of what their l2 distances ask for are
    offered, for baselines of about the printed size: as a mechanism they have no meaning.
    """
    return (2.0 if scale == "central" else _FITTED[ways]) / epsilon


def laplace_tables(
    counts: ArrayLike,
    epsilon: float,
    generator: np.random.Generator,
    *,
    scale: Scale = "central",
    ways: int | None = None,
) -> Floats:
    """Counts with Laplace noise on every cell, independently; signed, their total is not n.

    Args:
        counts: true counts; the last ``ways`` axes are one table, all by default.
        epsilon: for each table by itself; several tables of the same respondents add up.
        generator: decides all draws.
        scale: as in ``laplace_scale``.
        ways: the number of attributes of one table.
    """
    table = np.asarray(counts, np.float64)
    b = laplace_scale(epsilon, ways=len(table_axes(table, ways)), scale=scale)
    return np.asarray(table + generator.laplace(0.0, b, table.shape))


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
    The two-step estimate of the noisy table is what H0 expects. Tables are drawn from it, noised
    and put through the same two steps. The statistic of the noisy table is ranked among theirs.
    Their algorithm accepts a table whose estimate is too small to test: that is the rule
    ``fewer-than-5``.

    Args:
        noisy: of ``laplace_tables``, with the same epsilon, scale and ways.
        n: the number of respondents, which is public: one number, or one for every table.
        epsilon, generator, scale, ways: as in ``laplace_tables``.
        draws, rule: as in ``monte_carlo_test``.
    """
    asked = len(table_axes(np.asarray(noisy), ways))

    def draw(null: Floats, totals: NDArray[np.int64], _: slice, size: int) -> Floats:
        drawn = sampled_counts(null, totals, generator, ways=asked, runs=size)
        return laplace_tables(drawn, epsilon, generator, scale=scale, ways=asked)

    table = np.asarray(noisy, np.float64)
    return ranked_test("mcindep", table, n, draw, ways=asked, draws=draws, rule=rule)
