"""Marginals of binary attributes from randomized reports, with standard errors.

Kulkarni, Cormode and Srivastava, Marginal Release Under Local Differential Privacy. All six methods
are diagonal in the Hadamard basis: a report gives unbiased coefficients of its attributes, and a
marginal is the transform of the coefficients of its attributes' subsets. That of no attribute is 1,
not estimated, so every table has the total 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import Literal, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from protocol.errors import NoLikelihoodError
from protocol.estimators.inference.laws import About, DeferredLaw, ErrorLaw
from protocol.estimators.inference.scores import law_of_mean
from protocol.estimators.likelihood import Reported
from protocol.estimators.linear import Source
from protocol.estimators.tables import Cells, Estimated, standard_error
from protocol.randomizers.binary import coefficients, submasks, subsets
from protocol.randomizers.exact import Floats
from protocol.randomizers.marginals import MarginalPlan
from protocol.randomizers.mixing import MatrixMixing
from protocol.randomizers.walsh import wht
from protocol.surveys.survey import Survey
from protocol.variants.marginals.counts import Counted, MarginalCounts
from protocol.variants.marginals.hadamard import (
    Coefficients,
    Noise,
    coefficient_places,
    low_transform,
)
from protocol.variants.marginals.laws import law_of_sets, law_of_weights

Pooling: TypeAlias = Literal["own", "coefficients"]
"""Choice of reports for a table: ``own`` takes those on marginals with all of its attributes,
``coefficients`` takes for every coefficient all reports that have it."""


class _Sums(NamedTuple):
    """Sums of reported coefficients, and their numbers of reports.

    ``low`` are those of ``coefficients(d, k)`` over all reports that have them. ``own`` are, for a
    Marg method, those of every single marginal, shape ``(C(d, k), 2**k)``.
    """

    low: tuple[Counted, Counted]
    own: tuple[Counted, Counted] | None


class MarginalTables(NamedTuple):
    """Every k-way marginal.

    Attributes:
        names: of the attributes, in the survey's order.
        values: raw and signed, shape ``(C(d, k), 2**k)``, cells in row-major order.
        standard_errors: given the data, same shape.
        population_errors: of respondents who are a random sample, same shape.
    """

    names: tuple[tuple[str, ...], ...]
    values: Floats
    standard_errors: Floats
    population_errors: Floats


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class ReleasedMarginals(Source):
    """Unbiased estimates of every marginal of at most k binary attributes.

    Errors *given the data* include the randomization and, if a respondent reports on a drawn part
    of her record, that draw, given the number of reports on each part. All are in closed form and
    their squares unbiased (``Coefficients.covariance``). With less than two reports on a
    coefficient the error is unknown. A coefficient without a report is estimated as 0, which for a
    whole table gives the uniform one.

    A table of fewer than k attributes is part of several marginals. In the Marg methods it takes
    all reports on those. This is the mean by inverse variance, as every report has the same
    variance. With ``pooling="own"`` tables that overlap may still disagree. ``consistent()`` makes
    them agree. The Inp methods have one estimate of each coefficient, and their tables agree.

    Args:
        survey: d attributes of 2 categories.
        counts: of the reports, by a plan for d attributes.
        pooling: the choice of reports.

    Raises:
        ValueError: a survey of other attributes, or an unknown pooling.
    """

    survey: Survey
    counts: MarginalCounts
    pooling: Pooling = "own"
    _sums: _Sums = field(init=False)

    def __post_init__(self) -> None:
        plan = self.counts.plan
        if self.survey.sizes != (2,) * plan.d:
            raise ValueError(
                f"attributes of sizes {self.survey.sizes}: expected {plan.d} of size 2"
            )
        if self.pooling not in ("own", "coefficients"):
            raise ValueError(f"pooling {self.pooling!r}: expected 'own' or 'coefficients'")
        object.__setattr__(self, "_sums", _summed(self.counts))

    def __repr__(self) -> str:
        plan = self.counts.plan
        return f"<ReleasedMarginals: {plan.method}, d={plan.d}, k={plan.k}, n={self.n}>"

    @property
    def n(self) -> int:
        """The number of respondents; few of them may have reported on a given table."""
        return self.counts.n

    def consistent(self) -> Self:
        """The same reports, with tables that agree wherever they overlap, by least squares.

        For a Marg method, of all tables that agree these minimize ``sum_S n_S ||X_S - T_S||**2``
        over its marginals S, with T_S from the n_S reports on S alone. In the Hadamard basis this
        is the mean of the marginals' coefficients, weighted by n_S, so by inverse variance. For
        MargHT the weight is the number of reports on that coefficient in S.
        """
        return replace(self, pooling="coefficients")

    def cells(self, names: tuple[str, ...]) -> Cells:
        """The joint distribution of at most k attributes."""
        masks, order = self._asked(names)
        [found] = self._tables([names], masks, order)
        return found

    def pairs(self) -> dict[tuple[str, str], Cells]:
        """The cells of every pair of attributes, at once; none if the plan is for single ones."""
        names = list(combinations(self.survey.names, 2))
        if not names or self.counts.plan.k < 2:
            return {}
        found = self._tables(names, subsets(self.counts.plan.d, 2), (0, 1))
        return dict(zip(names, found, strict=True))

    def reported(self, names: Sequence[str]) -> list[Reported]:
        """Reports by PS on all marginals with these attributes; by HT those on any of them.

        A sign shows whether the number of answers 1 among its attributes is odd.
        """
        plan = self.counts.plan
        [asked], _ = self._asked(names)
        if plan.one_hot:
            raise NoLikelihoodError(
                f"{plan.method} publishes how often each bit was 1, and not which were 1 together"
            )
        if plan.transformed:
            inside = np.flatnonzero(plan.masks & ~asked == 0)
            return [
                self._signs(inside[plan.masks[inside] == mask])
                for mask in np.unique(plan.masks[inside])
            ]
        kept = tuple(sorted(self.survey.axes(names)))
        counts = np.zeros(2 ** len(kept), np.int64)
        for choice in np.flatnonzero(plan.masks & asked == asked).tolist():
            places = plan.attributes(choice)
            dropped = tuple(at for at, place in enumerate(places) if place not in kept)
            cells = self.counts.totals[choice].reshape((2,) * len(places))
            counts += cells.sum(axis=dropped).reshape(-1)
        sizes = (2,) * (plan.cells.bit_length() - 1)
        mixing = plan.randomizer.mixing(sizes, range(len(kept)))
        group = tuple(self.survey.names[place] for place in kept)
        return [Reported((group,), counts, (mixing,))]

    def _signs(self, choices: NDArray[np.intp]) -> Reported:
        """All reports on one coefficient, of several choices."""
        plan = self.counts.plan
        places = plan.attributes(int(choices[0]))
        odd = np.indices((2,) * len(places)).sum(axis=0).reshape(-1) % 2
        minus = int(self.counts.totals[choices].sum())
        counts = np.array([int(self.counts.reports[choices].sum()) - minus, minus])
        group = tuple(self.survey.names[place] for place in places)
        law = MatrixMixing(places=tuple(range(len(places))), matrix=plan.randomizer.matrix()[odd])
        return Reported((group,), counts, (law,))

    def every(self) -> MarginalTables:
        """All k-way marginals at once."""
        plan = self.counts.plan
        found = self._coefficients(subsets(plan.d, plan.k))
        names = tuple(combinations(self.survey.names, plan.k))
        return MarginalTables(names, *_tables_and_errors(found))

    def covariance(self, *names: str, population: bool) -> Floats:
        """The estimated covariances of the raw cells of ``table(*names)``, in row-major order.

        Unbiased, so it need not be positive semidefinite where reports are few.

        Args:
            names: at most k attributes, in any order.
            population: whether the respondents count as a random sample of a population.

        Returns:
            Shape ``(2**j, 2**j)`` for j attributes.

        Raises:
            SurveyError, ValueError: as ``table``.
        """
        masks, order = self._asked(names)
        found = self._coefficients(masks).table_covariance(population=population)[0]
        cells = np.arange(len(found)).reshape((2,) * len(names)).transpose(order).reshape(-1)
        return np.ascontiguousarray(found[np.ix_(cells, cells)])

    def mean(self, names: tuple[str, ...], weights: Floats) -> Estimated:
        """The mean over the respondents of a weight that depends on at most k attributes."""
        masks, order = self._asked(names)
        found = self._coefficients(masks)
        arranged = weights.transpose(np.argsort(order)).reshape(-1)
        # A copy: the transform works in place, and the weights are the caller's.
        turned = wht(arranged.copy())
        turned /= turned.size
        covariance = found.covariance(population=False)[0]
        unknown = np.isnan(np.diagonal(covariance))
        value = float(found.values[0] @ turned)
        plan = self.counts.plan
        law = law_of_mean(
            arranged,
            lambda inside: law_of_sets(found, plan, inside[np.newaxis], shape=()),
            partial(law_of_weights, found, plan),
        )
        if (turned[unknown] != 0).any():
            return Estimated(value, None, law)
        used = np.where(unknown, 0.0, turned)
        known = np.where(np.isnan(covariance), 0.0, covariance)
        scale = float(np.abs(used) @ np.abs(known) @ np.abs(used))
        [[each]] = found.changes_by_one(arranged[np.newaxis], population=False)
        return Estimated(value, standard_error(float(used @ known @ used), scale, each), law)

    def _law(self, names: tuple[str, ...]) -> ErrorLaw:
        masks, order = self._asked(names)
        cells = np.arange(1 << len(names)).reshape((2,) * len(names)).transpose(order).reshape(-1)
        sets = np.eye(len(cells), dtype=np.bool_)[cells]
        found = self._coefficients(masks)
        return law_of_sets(found, self.counts.plan, sets, shape=(2,) * len(names))

    def _covariance(self, names: tuple[str, ...], about: About) -> Floats:
        return self.covariance(*names, population=about == "population")

    def _asked(self, names: Sequence[str]) -> tuple[NDArray[np.uint32], tuple[int, ...]]:
        """The mask of some attributes, and the axes of their table in the survey's order."""
        plan, places = self.counts.plan, self.survey.axes(names)
        if not 1 <= len(places) <= plan.k:
            raise ValueError(f"{len(places)} attributes: expected 1 to {plan.k}")
        mask = sum(1 << (plan.d - 1 - place) for place in places)
        rising = sorted(places)
        return np.array([mask], np.uint32), tuple(rising.index(place) for place in places)

    def _tables(
        self,
        names: Sequence[tuple[str, ...]],
        masks: NDArray[np.uint32],
        order: tuple[int, ...],
    ) -> list[Cells]:
        arrays = _tables_and_errors(self._coefficients(masks))
        shape = (len(masks), *(2 for _ in order))
        axes = (0, *(axis + 1 for axis in order))
        values, given, sampled = (
            np.ascontiguousarray(array.reshape(shape).transpose(axes)) for array in arrays
        )
        return [
            Cells(
                values[i],
                given[i],
                sampled[i],
                DeferredLaw(partial(self._law, asked), partial(self._covariance, asked)),
            )
            for i, asked in enumerate(names)
        ]

    def _coefficients(self, masks: NDArray[np.uint32]) -> Coefficients:
        """The coefficients of marginals of equally many attributes, at most k."""
        plan = self.counts.plan
        inside = submasks(masks)
        ways = inside.shape[1].bit_length() - 1
        if self._sums.own is None or self.pooling == "coefficients":
            at = coefficient_places(inside, d=plan.d, k=plan.k)
            sums, reports = (array[at] for array in self._sums.low)
        elif ways == plan.k:
            # Marginals are in lexicographic order of their places: their masks fall.
            at = len(plan.groups) - 1 - np.searchsorted(plan.groups[::-1], masks)
            sums, reports = (array[at] for array in self._sums.own)
        else:
            chosen = [
                self._holding(mask, within) for mask, within in zip(masks, inside, strict=True)
            ]
            sums, reports = (np.stack(arrays) for arrays in zip(*chosen, strict=True))
        scale = float(plan.randomizer.support.gain)
        values = np.divide(
            sums, scale * reports, out=np.zeros(sums.shape), where=reports > 0, dtype=np.float64
        )
        values[:, 0] = 1.0
        place = np.arange(inside.shape[1])
        common = reports[:, place[:, None] | place]
        if plan.transformed:
            common = common * np.eye(len(place), dtype=np.int64)
        return Coefficients(
            values=values, reports=reports, common=common, noise=report_noise(plan), n=self.n
        )

    def _holding(self, mask: np.uint32, within: NDArray[np.uint32]) -> tuple[Counted, Counted]:
        """One table's sums over the marginals with all of its attributes, and more."""
        plan = self.counts.plan
        if self._sums.own is None:
            raise ValueError("expected a Marg method: the reports are on the whole input")
        holding = np.flatnonzero(plan.groups & mask == mask)
        masks = submasks(plan.groups[holding])
        at = np.minimum(np.searchsorted(within, masks), len(within) - 1)
        rows, columns = np.nonzero(within[at] == masks)
        sums, reports = (np.zeros(len(within), np.int64) for _ in range(2))
        for total, array in zip((sums, reports), self._sums.own, strict=True):
            np.add.at(total, at[rows, columns], array[holding[rows], columns])
        return sums, reports


def _tables_and_errors(found: Coefficients) -> tuple[Floats, Floats, Floats]:
    """Tables, standard errors given the data, and standard errors about a population."""
    given, sampled = (found.table_errors(population=population) for population in (False, True))
    return found.tables(), given, sampled


def _summed(counts: MarginalCounts) -> _Sums:
    plan = counts.plan
    d, k = plan.d, plan.k
    low = coefficients(d, k)
    if plan.by_input:
        if plan.transformed:
            sums = counts.reports - 2 * counts.totals[:, 0]
            return _Sums((_with_first(sums, 0), _with_first(counts.reports, 0)), None)
        # No sum of signs is larger than the counts' total.
        narrow = np.int32 if int(counts.totals.sum()) < 2**31 else np.int64
        sums = low_transform(counts.totals[0].astype(narrow), k).astype(np.int64)
        return _Sums((sums, np.full(len(low), counts.n)), None)
    if plan.transformed:
        signs = (counts.reports - 2 * counts.totals[:, 0]).reshape(len(plan.groups), -1)
        own = _with_first(signs, 0), _with_first(counts.reports.reshape(signs.shape), 0)
    else:
        own = (
            wht(counts.totals.copy()),
            np.repeat(counts.reports[:, None], plan.cells, axis=1),
        )
    at = coefficient_places(submasks(plan.groups), d=d, k=k)
    pooled = [np.zeros(len(low), np.int64) for _ in own]
    for total, array in zip(pooled, own, strict=True):
        np.add.at(total, at, array)
    return _Sums((pooled[0], pooled[1]), own)


def _with_first(array: Counted, first: int) -> Counted:
    """An array with a further first entry on its last axis."""
    return np.insert(array, 0, first, axis=-1)


def report_noise(plan: MarginalPlan) -> Noise:
    """The noise of a report's coefficients (``Noise``)."""
    support = plan.randomizer.support
    keep = float(support.gain)
    if plan.one_hot:
        own, others = (float(bit * (1 - bit)) / keep**2 for bit in (support.hit, support.other))
        return Noise(own=plan.cells * others + own - others, shared=own - others, gain=keep)
    shared = None if plan.transformed else (1 - keep) / keep
    return Noise(own=(1 - keep) * (1 + keep) / keep**2, shared=shared, gain=keep)
