"""Predicted error of a variant's raw shares, by its estimator's own closed forms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from protocol.errors import NoLikelihoodError, ProtocolError, UnsupportedEventError
from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.laws import LEVEL, About, critical
from protocol.estimators.inference.scores import MOST_COVARIANCE_CELLS
from protocol.estimators.usefulness import MarginOfError, level_of_each, margins_of_error
from protocol.randomizers.exact import Floats
from protocol.session.variant import Variant
from protocol.surveys.survey import Survey
from protocol.variants.keyvalue.estimate import KeyValueTables
from protocol.variants.marginals.variant import MarginalRelease
from protocol.variants.oracles.attributes import Smp
from protocol.variants.rrba.rrba import RRBA
from scenarios.designing.assumed import Shares, Uniform
from scenarios.designing.expected import (
    REPORTS,
    counts_truly,
    expected,
    expected_counts,
    expected_numbers,
    is_same_for_all,
)
from scenarios.designing.targets import Names, Target, count_cells

LEAST = 50
"""Fewest reports on each of several things, drawn by lot, for a closed form: with fewer, the number
of reports on each varies too much.
"""

SURE = 0.99
"""The level of the interval of a simulated error."""


class NotEstimatedError(ValueError):
    """A variant does not estimate a table; the message gives the reason."""


class Prediction(NamedTuple):
    """A predicted error.

    Args:
        rmse: the root mean squared error of the raw shares, over all cells of the target.
        tables: error of each table, over its cells.
        largest: the standard error of the cell that has the largest; NaN if that is unknown.
        runs: number of simulated runs; 0 for a closed form.
        monte_carlo: the standard error of ``rmse``, if it was measured; else 0.
        widest: the largest standard error of the cells of each table; if it was measured, that of
            all its cells.
    """

    rmse: float
    tables: Mapping[Names, float]
    largest: float = math.nan
    runs: int = 0
    monte_carlo: float = 0.0
    widest: Mapping[Names, float] = MappingProxyType({})

    @property
    def interval(self) -> tuple[float, float]:
        """The ends between which ``rmse`` is known to lie: both are ``rmse`` of a closed form."""
        if not self.monte_carlo:
            return self.rmse, self.rmse
        # Imported late: most errors have a closed form.
        from scipy.special import stdtrit

        half = float(stdtrit(self.runs - 1, (1 + SURE) / 2)) * self.monte_carlo
        return max(0.0, self.rmse - half), self.rmse + half

    def margins(self, survey: Survey) -> tuple[MarginOfError, ...]:
        """The margins of error of the tables, by normal intervals."""
        cells = {names: count_cells(survey, names) for names in self.widest}
        return tuple(
            MarginOfError(names, cells[names], critical(level_of_each(cells[names])) * error)
            for names, error in self.widest.items()
        )


def predict(
    variant: Variant,
    n: int,
    target: Target,
    shares: Shares,
    *,
    about: About = "respondents",
    parties: int | None = None,
) -> Prediction | None:
    """The error that a variant's own closed forms say it will have.

    Args:
        variant: with its parameters.
        n: number of respondents that report.
        target: tables with cells that count.
        shares: assumed shares; the case with the largest error counts.
        about: subject of the estimates.
        parties: number of parties that hold the respondents; None for one each.

    Returns:
        None if the variant or its estimator has no closed form for it.

    Raises:
        NotEstimatedError: the variant does not estimate one of the target's tables.
    """
    counted = expected_counts(variant, n, parties or n) if counts_truly(variant) else None
    found = [_of_case(variant, n, target, case, about, counted) for case in shares.cases]
    known = [one for one in found if one is not None]
    if len(known) < len(found):
        return None
    worst = max(known, key=lambda one: one.rmse)
    widest = {names: max(one.widest[names] for one in known) for names in worst.widest}
    return worst._replace(largest=max(one.largest for one in known), widest=widest)


def predicted_margins(
    variant: Variant,
    n: int,
    tables: Iterable[Names] | None = None,
    *,
    about: About = "respondents",
    parties: int | None = None,
) -> tuple[MarginOfError, ...]:
    """The margins of error that estimates are predicted to have, all answers equally likely.

    In contrast to those of a result, they are not cut off at the limits of the range, and may
    exceed 1.

    Args:
        variant: with its parameters.
        n: number of respondents that report.
        tables: the attributes of each; None for every attribute by itself. Of means it is every
            attribute.
        about: subject of the estimates.
        parties: number of parties that hold the respondents; None for one each.

    Raises:
        NotEstimatedError: the variant has no closed form for a table, or does not estimate it.
    """
    survey = variant.survey
    if variant.strata:
        raise NotEstimatedError("answers have weights")
    try:
        result = expected_numbers(variant, Uniform(survey))
        if result is not None:
            return tuple(_of_numbers(variant.estimate(result), about, math.sqrt(REPORTS / n)))
        names = tuple(tables or ((name,) for name in survey.names))
        target = Target("these", names)
        known = predict(variant, n, target, Uniform(survey), about=about, parties=parties)
    except NotEstimatedError:
        raise
    except (ProtocolError, ValueError) as error:
        raise NotEstimatedError(str(error)) from error
    if known is not None:
        return known.margins(survey)
    if n < LEAST * count_choices(variant) and count_choices(variant) > 1:
        raise NotEstimatedError(
            f"each respondent answers one of {count_choices(variant):,} questions, and fewer than "
            f"{LEAST} respondents would answer each"
        )
    raise NotEstimatedError(f"no formula of the errors of {variant.name} is known for it")


def _of_numbers(estimate: Estimate, about: About, factor: float) -> Iterator[MarginOfError]:
    """Margins of error of means, and of the shares who hold each key.

    Args:
        estimate: an estimate of ``REPORTS`` respondents.
        about: subject of the estimates.
        factor: factor by which errors are larger than with ``REPORTS`` respondents.
    """
    if not isinstance(estimate, KeyValueTables):
        for one in margins_of_error(estimate, about):
            yield one._replace(margin=factor * one.margin)
        return
    # The intervals of all estimators are around the unbiased estimates.
    found, names = estimate.by("debiased"), estimate.survey.names
    held = factor * critical(level_of_each(2)) * found.frequency_errors
    values = factor * critical(LEVEL) * found.mean_errors / 2
    for name, margin in zip(names, held.tolist(), strict=True):
        yield MarginOfError((name,), 2, margin)
    for name, margin in zip(names, values.tolist(), strict=True):
        yield MarginOfError((name,), 2, margin, "mean")


def pooled_rmse(cells: Mapping[Names, int], tables: Mapping[Names, float]) -> float:
    """The error over all cells, from the errors and sizes of the tables."""
    total = math.fsum(cells[names] * tables[names] ** 2 for names in tables)
    return math.sqrt(total / sum(cells.values()))


def _of_case(
    variant: Variant,
    n: int,
    target: Target,
    shares: Shares,
    about: About,
    counted: Estimate | None,
) -> Prediction | None:
    """Predicted error under one assumption about the answers.

    Args:
        counted: expected counts of the n respondents, where true answers are counted.
    """
    choices = count_choices(variant)
    if choices > 1 and n < LEAST * choices:
        return None
    tables: dict[Names, float] = {}
    widest: dict[Names, float] = {}
    estimate: Estimate | None = None
    for names in target.tables:
        if counted is not None:
            squares = _variances(counted, names, "respondents")
            if squares is not None and about == "population":
                squares = squares.reshape(-1) + sampling_variances(names, n, shares).reshape(-1)
        else:
            if estimate is None or not is_same_for_all(variant):
                estimate = _estimate(variant, names, shares)
            squares = None if estimate is None else _variances(estimate, names, about)
            if squares is not None:
                # With n times as many reports the variance is 1/n.
                squares = squares * (REPORTS / n)
        if squares is None:
            return None
        tables[names] = math.sqrt(float(np.mean(squares)))
        widest[names] = math.sqrt(float(np.max(squares)))
    cells = {names: count_cells(variant.survey, names) for names in target.tables}
    largest = max(widest.values())
    return Prediction(pooled_rmse(cells, tables), tables, largest, widest=widest)


def count_choices(variant: Variant) -> int:
    """Number of subjects from which a respondent draws the one that she reports on."""
    if isinstance(variant, MarginalRelease):
        return variant.plan.choices
    if isinstance(variant, RRBA):
        return len(variant.plan.group_names)
    return variant.attributes if isinstance(variant, Smp) else 1


def _estimate(variant: Variant, names: Names, shares: Shares) -> Estimate | None:
    try:
        result = expected(variant, names, shares)
    except UnsupportedEventError:
        return None
    return None if result is None else variant.estimate(result)


def sampling_variances(names: Names, n: int, shares: Shares) -> Floats:
    """Variances of n respondents' shares about the population's shares."""
    true = shares.margin(names)
    found: Floats = true * (1 - true) / n
    return found


def _variances(estimate: Estimate, names: Names, about: About) -> Floats | None:
    try:
        table = estimate.table(*names)
    except NoLikelihoodError:
        raise
    except ValueError as error:
        raise NotEstimatedError(str(error)) from error
    given, sampled = table.standard_errors, table.population_errors
    errors = given if about == "respondents" else sampled
    if given is None or sampled is None or errors is None:
        return None
    # With so many reports, an unknown error means rounding error.
    squares: Floats = np.nan_to_num(errors) ** 2
    alike = np.array_equal(given, sampled, equal_nan=True) and not np.isnan(errors).all()
    if alike and squares.size <= MOST_COVARIANCE_CELLS:
        # Both kinds are those about a population; covariances tell whom they are about.
        try:
            squares = table.covariance(about).diagonal()
        except ValueError:  # Of reports on so many inputs it may not be known.
            return None
    return squares
