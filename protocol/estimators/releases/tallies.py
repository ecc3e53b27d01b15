"""Shares from tallies of the reports of one randomizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from protocol.errors import NoLikelihoodError, UnsupportedEventError
from protocol.estimators.inference.cumulants import CumulantLaw, left_by_sampling
from protocol.estimators.inference.laws import (
    About,
    DeferredLaw,
    ErrorLaw,
    NormalLaw,
    OneLaw,
)
from protocol.estimators.inference.scores import (
    Scores,
    check_covariance,
    law_of_mean,
    multinomial,
)
from protocol.estimators.likelihood import Reported
from protocol.estimators.linear import Source
from protocol.estimators.tables import (
    Cells,
    Estimated,
    change_by_one,
    standard_error,
    standard_errors,
)
from protocol.randomizers import Randomizer
from protocol.randomizers.exact import Floats, group_sums
from protocol.randomizers.unmixing import matrix_moments
from protocol.surveys.survey import Survey


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Tallies(Source):
    """The joint distribution of some attributes that one randomizer randomized together.

    Args:
        survey: the survey that was asked.
        names: the attributes; the randomizer's inputs are their combinations, in row-major order.
        randomizer: by which every respondent reported.
        totals: of ``Randomizer.tally``, over all reports.
        reports: how many there are.
        of: the number of all respondents, of whom those who reported are a simple random sample;
            all reported if None. Errors about the respondents are about all of them.

    Raises:
        SurveyError: an unknown or repeated name.
        ValueError: the randomizer is of another size, or ``reports`` is less than 1.
        UnsupportedEventError: the randomizer has no estimator of shares.
    """

    survey: Survey
    names: tuple[str, ...]
    randomizer: Randomizer
    totals: NDArray[np.int64]
    reports: int
    of: int | None = None

    def __post_init__(self) -> None:
        cells = int(np.prod(self.survey.sizes_of(self.names)))
        if self.randomizer.size != cells:
            raise ValueError(
                f"randomizer of size {self.randomizer.size}, expected {cells} combinations of "
                f"{', '.join(self.names)}"
            )
        if self.reports < 1 or self.totals.ndim != 1 or (self.totals < 0).any():
            raise ValueError("expected at least one report, and one count of at least 0 for each")
        if (self.totals > self.reports).any():
            raise ValueError(f"a count is larger than the {self.reports} reports")
        if self._shares().shape != (cells,):
            raise ValueError(f"{len(self.totals)} counts do not fit the randomizer")

    def __repr__(self) -> str:
        return f"<Tallies: {', '.join(self.names)}, n={self.n}>"

    @property
    def n(self) -> int:
        """The number of reports."""
        return self.reports

    @property
    def clusters(self) -> Sequence[tuple[str, ...]]:
        """All of the attributes."""
        return (self.names,)

    def cells(self, names: tuple[str, ...]) -> Cells:
        """The estimated joint distribution of some of the attributes.

        Errors are of the estimated shares, by ``Randomizer.sum_variances``; where these are not
        known, a table of all attributes has them by ``Randomizer.variances``, and one of fewer has
        none.

        Raises:
            SurveyError: an unknown or repeated name.
            ValueError: no name, or one that was not reported on.
        """
        cells = self._cells(names)
        shares = self._shares()
        values = group_sums(cells, shares, int(cells.max()) + 1)
        given = self._variances(shares, cells)
        sizes = self.survey.sizes_of(names)
        law = DeferredLaw(partial(self._law, cells, sizes), partial(self._covariance, cells))
        given_errors, sampled_errors = (
            None if given is None else self._errors(shares, cells, given, part).reshape(sizes)
            for part in (self._variance_left(), 1.0)
        )
        values = np.ascontiguousarray(values.reshape(sizes))
        return Cells(values, given_errors, sampled_errors, law, self.reports)

    def _errors(
        self, shares: Floats, cells: NDArray[np.intp], given: Floats, sampled: float
    ) -> Floats:
        """The standard errors of sums of shares.

        Args:
            shares: of the randomizer's inputs.
            cells: the sum that each is in.
            given: the variances of the sums given the answers.
            sampled: the part of the variance of sampling from a population that is counted.
        """
        values = group_sums(cells, shares, len(given))
        scale = group_sums(cells, self._scales(shares), len(values))
        variances = given + sampled * (values - values**2) / self.n
        larger = scale + sampled * (np.abs(values) + values**2) / self.n
        each = change_by_one(values, self._ends(cells), self.n, sampled=sampled)
        return standard_errors(variances, larger, each)

    def _ends(self, cells: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """The least and the largest score of a report for each sum of shares.

        For reports that count for many inputs: the score of one that counts for one more, or one
        fewer, than on average. 0 if the randomizer has no support: then only a variance that is not
        positive is unknown.
        """
        number = int(cells.max()) + 1
        if self.randomizer.is_table:
            inverse = self.randomizer.inverse() @ np.equal.outer(cells, np.arange(number))
            return inverse.min(axis=0), inverse.max(axis=0)
        try:
            support = self.randomizer.support
        except UnsupportedEventError:
            return np.zeros(number), np.zeros(number)
        gain, other = float(support.gain), float(support.other)
        expected = group_sums(cells, np.full(len(cells), other), number)
        many = expected > 1
        return -np.where(many, 1.0, expected) / gain, np.where(many, 1.0, 1 - expected) / gain

    def mean(self, names: tuple[str, ...], weights: Floats) -> Estimated:
        """The mean over the respondents of a weight that depends on some of the attributes."""
        cells = self._cells(names)
        per_cell = weights.reshape(-1)[cells]
        shares = self._shares()
        value = float(shares @ per_cell)
        law = law_of_mean(weights, partial(self._set_law, cells), partial(self._mean_law, cells))
        whole = np.zeros(len(shares), np.intp)
        try:
            [variance] = self.randomizer.sum_variances(shares, self.n, whole, per_cell)
        except UnsupportedEventError:
            return Estimated(value, None, law)
        scale = float(self._scales(shares) @ per_cell**2)
        each = self._change_of_mean(per_cell)
        error = standard_error(float(variance), scale, each)
        if error is None or self.of is None or self.of == self.n:
            return Estimated(value, error, law)
        missed = (self.of - self.n) / (self.n * (self.of - 1))
        squares = shares @ per_cell**2, np.abs(shares) @ per_cell**2
        spread, size = float(squares[0]) - value**2, float(squares[1]) + value**2
        farthest = float(((per_cell - value) ** 2).max())
        return Estimated(
            value,
            standard_error(
                error**2 + missed * spread, error**2 + missed * size, missed * farthest / self.n
            ),
            law,
        )

    def _change_of_mean(self, weights: Floats) -> float:
        """The most that one report adds to the estimated variance of a mean weight.

        If reports count for many inputs, for a report that counts for one more than on average.
        """
        if self.randomizer.is_table:
            inverse = self.randomizer.inverse()
            scores, squares = inverse @ weights, inverse @ weights**2
        else:
            try:
                support = self.randomizer.support
            except UnsupportedEventError:
                return 0.0
            other = float(support.other)
            one = other if other * len(weights) <= 1 else 0.0
            scores, squares = (
                (each - one * each.sum()) / float(support.gain) for each in (weights, weights**2)
            )
        return float((scores**2 - squares).max()) / self.n**2

    def _law(self, cells: NDArray[np.intp], sizes: tuple[int, ...]) -> ErrorLaw:
        """Law of the sums of the combinations in each cell."""
        shares = self._shares()
        number = int(cells.max()) + 1
        values = group_sums(cells, shares, number).reshape(sizes)
        try:
            if self.randomizer.is_table:
                scores = self._table_scores(cells, shares)
            else:
                support = self.randomizer.support
                summed = group_sums(cells, np.ones(len(cells)), number)
                if summed.max() == 1 or support.both_hit == support.both_other == 0:
                    # A report counts once for a cell, or not.
                    other = float(support.other) * summed.reshape(sizes)
                    return CumulantLaw.of_counts(
                        values, self.n, other=other, gain=float(support.gain), of=self.of
                    )
                scores = self._sum_scores(cells, number)
        except UnsupportedEventError:
            return NormalLaw(values=values)
        law = scores.mapped(lambda array: array.reshape(sizes)).law(values, self.n)
        return law.of_sample(self.n, self.of or self.n)

    def _table_scores(self, cells: NDArray[np.intp], shares: Floats) -> Scores:
        law = self.randomizer.matrix()
        inverse = self.randomizer.inverse() @ np.equal.outer(cells, np.arange(cells.max() + 1))
        return Scores.of_product(
            [matrix_moments(law, inverse, cells, shares)], lambda _: np.ones(())
        )

    def _sum_scores(self, cells: NDArray[np.intp], number: int) -> Scores:
        """Scores of reports that count for several combinations of a cell, without skewness."""
        ones = np.ones(len(cells))
        alike = 1 / group_sums(cells, ones, number)[cells]
        outside = self.randomizer.sum_variances(np.zeros(len(cells)), 1, cells, ones)
        inside = self.randomizer.sum_variances(alike, 1, cells, ones)
        return Scores(
            variance=np.stack((outside, inside - outside)),
            third=np.zeros((2, number)),
            inside=inside,
            step=np.full(number, 1 / float(self.randomizer.support.gain)),
        )

    def _set_law(self, cells: NDArray[np.intp], inside: NDArray[np.bool_]) -> ErrorLaw | None:
        """The law of a set's share; None if the rest is a single input, which gives it best."""
        within = inside.reshape(-1)[cells]
        if within.sum() == 1:
            law = self._law(np.arange(len(within)), (len(within),))
            return OneLaw(law, int(within.argmax()))
        if (~within).sum() == 1:
            return None
        return OneLaw(self._law(np.where(within, 0, 1), (2,)), 0)

    def _mean_law(self, cells: NDArray[np.intp], weights: Floats) -> ErrorLaw:
        weights = weights.reshape(-1)[cells]
        shares, least, most = self._shares(), float(weights.min()), float(weights.max())
        value = float(shares @ weights)
        whole = np.zeros(len(shares), np.intp)
        try:
            [given] = self.randomizer.sum_variances(shares, self.n, whole, weights)
        except UnsupportedEventError:
            return NormalLaw(values=np.asarray(value), least=least, most=most)
        given = given if given > 0 else np.nan
        sampled = max(float(shares @ weights**2) - value**2, 0.0) / self.n
        missed = self._variance_left() * sampled
        return NormalLaw.of_errors(
            value, np.sqrt(given + missed), np.sqrt(given + sampled), least=least, most=most
        )

    def _covariance(self, cells: NDArray[np.intp], about: About) -> Floats:
        shares = self._shares()
        check_covariance(len(shares))
        summing = np.equal.outer(np.arange(cells.max() + 1), cells).astype(np.float64)
        try:
            found = summing @ self.randomizer.covariance(shares, self.n) @ summing.T
        except UnsupportedEventError as error:
            raise ValueError(str(error)) from error
        left = self._variance_left() if about == "respondents" else 1.0
        return found + left * multinomial(summing @ shares, self.n) if left else found

    def _variance_left(self) -> float:
        """Part of the sampling variance of a population that the respondents have."""
        return float(left_by_sampling(self.n, self.of or self.n)[0])

    def reported(self, names: Sequence[str]) -> tuple[Reported, ...]:
        kept = [place for place, name in enumerate(self.names) if name in names]
        sizes = self.survey.sizes_of(self.names)
        try:
            mixing = self.randomizer.mixing(sizes, kept)
        except UnsupportedEventError as error:
            raise NoLikelihoodError(str(error)) from error
        counts = self.totals
        if len(mixing.places) < len(sizes):
            dropped = tuple(place for place in range(len(sizes)) if place not in kept)
            counts = counts.reshape(sizes).sum(axis=dropped).reshape(-1)
        if counts.shape != (mixing.reports,) or counts.sum() != self.reports:
            raise NoLikelihoodError("the randomizer's tallies count no single reports")
        group = tuple(self.names[place] for place in mixing.places)
        return (Reported((group,), counts, (mixing,)),)

    def _shares(self) -> Floats:
        return self.randomizer.shares(self.totals, self.reports)

    def _scales(self, shares: Floats) -> Floats:
        """Size of the terms that the variances of linear shares are differences of."""
        least = self.randomizer.variances(np.zeros(len(shares)), self.n)
        most = self.randomizer.variances(np.ones(len(shares)), self.n)
        scales: Floats = np.abs(least) + np.abs(shares) * np.abs(most - least)
        return scales

    def _variances(self, shares: Floats, cells: NDArray[np.intp]) -> Floats | None:
        if cells.max() + 1 == len(shares):
            return group_sums(cells, self.randomizer.variances(shares, self.n), len(shares))
        try:
            return self.randomizer.sum_variances(shares, self.n, cells, np.ones(len(shares)))
        except UnsupportedEventError:
            return None

    def _cells(self, names: Sequence[str]) -> NDArray[np.intp]:
        """The combination of some attributes, for each combination of all of them."""
        sizes = self.survey.sizes_of(names)
        if not names or not set(names) <= set(self.names):
            raise ValueError(
                f"attributes {', '.join(names) or 'none'}: expected some of {', '.join(self.names)}"
            )
        own = self.survey.sizes_of(self.names)
        codes = np.indices(own).reshape(len(own), -1)
        kept = tuple(codes[self.names.index(name)] for name in names)
        return np.asarray(np.ravel_multi_index(kept, sizes), np.intp)
