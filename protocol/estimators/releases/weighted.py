"""Weighted estimates of a sample that was drawn with unequal probabilities, by stratum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple, Self

import numpy as np

from protocol.estimators.counts import effective_number
from protocol.estimators.inference.cumulants import CumulantLaw, Cumulants, cumulant_law
from protocol.estimators.inference.laws import SIDES, About, DeferredLaw, ErrorLaw, NormalLaw
from protocol.estimators.inference.scores import check_covariance
from protocol.estimators.likelihood import Reported
from protocol.estimators.linear import Source
from protocol.estimators.tables import Cells
from protocol.randomizers.exact import Floats
from protocol.surveys.survey import Survey
from protocol.surveys.weights import check_weights


class Stratum(NamedTuple):
    """Respondents with the same design weight.

    Args:
        weight: of each of them.
        source: of their reports.
    """

    weight: float
    source: Source


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Weighted(Source):
    """Shares of strata, weighted: ``sum_h n_h w_h p_h / sum_h n_h w_h``.

    They are Hajek's estimates from unmixed reports. Strata answer independently, so the variance
    about the respondents is ``sum_h W_h**2 v_h``, with ``W_h`` the part of a stratum in the sum of
    all weights. About the population, of which the respondents are independent draws, it has
    ``W_h**2 (p_h - p)**2 / n_h`` in addition, as the number drawn in each stratum is random too.

    The error as a function of the true share t is known within a stratum. Here t is taken for the
    share of every stratum, which gives the variance of ``weighted_n`` reports where strata are
    asked alike. Laws are scaled to the variance above, where it is known and larger.

    Args:
        survey: the survey that was asked.
        strata: at least one, each with respondents; all are asked alike.

    Raises:
        ValueError: no stratum, too many, or a weight out of range.
    """

    survey: Survey
    strata: tuple[Stratum, ...]

    def __post_init__(self) -> None:
        check_weights({str(place): one.weight for place, one in enumerate(self.strata)})

    def __repr__(self) -> str:
        return f"<Weighted: n={self.n}, effective n={self.weighted_n:.6g}>"

    @property
    def n(self) -> int:
        """The number of respondents."""
        return sum(one.source.n for one in self.strata)

    @property
    def weighted_n(self) -> float:
        """Kish's effective sample size of the weights (``effective_number``)."""
        counts = np.array([one.source.n for one in self.strata])
        weights = np.array([one.weight for one in self.strata])
        return float(effective_number(weights * counts, counts))

    @property
    def parts(self) -> list[float]:
        """The part of each stratum in the sum of all weights."""
        sums = [one.weight * one.source.n for one in self.strata]
        total = math.fsum(sums)
        return [one / total for one in sums]

    @property
    def clusters(self) -> Sequence[tuple[str, ...]]:
        """Those of every stratum."""
        return self.strata[0].source.clusters

    def marginals(self) -> dict[str, Cells]:
        return {name: self.cells((name,)) for name in self.strata[0].source.marginals()}

    def pairs(self) -> dict[tuple[str, str], Cells]:
        return {pair: self.cells(pair) for pair in self.strata[0].source.pairs()}

    def consistent(self) -> Self:
        strata = (one._replace(source=one.source.consistent()) for one in self.strata)
        return replace(self, strata=tuple(strata))

    def cells(self, names: tuple[str, ...]) -> Cells:
        """The weighted shares of the combinations of some attributes.

        An error is unknown where it is unknown in every stratum. Strata with an unknown error get
        that of a stratum with the weighted share.
        """
        tables = _Tables(
            parts=tuple(self.parts),
            cells=tuple(one.source.cells(names) for one in self.strata),
            n=tuple(one.source.n for one in self.strata),
        )
        given, sampled = (tables.errors(about) for about in SIDES)
        law = DeferredLaw(tables.law, tables.covariance)
        reports = [cells.n for cells in tables.cells]
        n = None if None in reports else sum(filter(None, reports))
        return Cells(tables.values, given, sampled, law, n)

    def reported(self, names: Sequence[str]) -> tuple[Reported, ...]:
        """The reports of all strata, weighted, with a total of ``weighted_n``."""
        found = []
        for part, one in zip(self.parts, self.strata, strict=True):
            each = self.weighted_n * part / one.source.n
            found += [
                reports._replace(counts=np.multiply(reports.counts, each, dtype=np.float64))
                for reports in one.source.reported(names)
            ]
        return tuple(found)


@dataclass(frozen=True, slots=True)
class _Tables:
    """The same table of each stratum.

    Args:
        parts: the share of each stratum in the sum of all weights.
        cells: the cells of each.
        n: the number of respondents of each.
    """

    parts: tuple[float, ...]
    cells: tuple[Cells, ...]
    n: tuple[int, ...]

    @property
    def values(self) -> Floats:
        """The weighted shares."""
        each = zip(self.parts, self.cells, strict=True)
        return np.asarray(sum(part * one.values for part, one in each))

    def errors(self, about: About) -> Floats | None:
        """The standard errors, NaN where they are unknown; None if no formula is known."""
        found = self._variances(about)
        return None if found is None else np.sqrt(found)

    def covariance(self, about: About) -> Floats:
        """The covariances of the cells, in row-major order.

        A cell has at least the variance that ``cells`` gives it, for in a stratum of few reports
        the estimated one is too small.

        Raises:
            ValueError: those of a stratum are not known, or there are too many cells.
        """
        values = self.values
        check_covariance(values.size)
        total = np.zeros((values.size, values.size))
        for part, cells, n in zip(self.parts, self.cells, self.n, strict=True):
            if cells.law is None:
                raise ValueError("the covariance of these estimates is not known")
            total += part**2 * cells.law.covariance(about)
            if about == "population":
                off = (cells.values - values).ravel()
                total += part**2 / n * np.outer(off, off)
        variances = self._variances(about)
        if variances is not None:
            np.fill_diagonal(total, np.fmax(total.diagonal(), variances.ravel()))
        return total

    def law(self) -> ErrorLaw:
        """The law of the errors of the weighted shares."""
        values = self.values
        alike = self._alike()
        if alike is None:
            given, sampled = map(self.errors, SIDES)
            return NormalLaw.of_errors(values, given, sampled)
        inside, cumulants = np.clip(values, 0.0, 1.0), {}
        for about, each in alike.cumulants.items():
            variances, usual = self._variances(about), each.at(inside)[0]
            larger = np.ones(values.shape)
            if variances is not None:
                np.divide(variances, usual, out=larger, where=(usual > 0) & (variances > usual))
            cumulants[about] = each.times(np.sqrt(larger))
        return replace(alike, cumulants=cumulants)

    def _alike(self) -> CumulantLaw | None:
        """The law if all strata have the same shares; None if a stratum has no cumulants."""
        laws = [cumulant_law(one.law) for one in self.cells]
        known = [law for law in laws if law is not None]
        if len(known) < len(laws):
            return None
        sides = [about for about in SIDES if all(about in law.cumulants for law in known)]
        weighted = list(zip(self.parts, known, strict=True))
        cumulants = {
            about: reduce(Cumulants.plus, [law.cumulants[about].times(w) for w, law in weighted])
            for about in sides
        }
        steps = [part * law.steps for part, law in weighted]
        return CumulantLaw(values=self.values, cumulants=cumulants, steps=np.maximum.reduce(steps))

    def _variances(self, about: About) -> Floats | None:
        """The variances of the weighted shares; None if no formula is known."""
        errors = [
            one.standard_errors if about == "respondents" else one.population_errors
            for one in self.cells
        ]
        known = [error for error in errors if error is not None]
        if len(known) < len(errors):
            return None
        values, total = self.values, np.zeros(self.values.shape)
        unknown = np.isnan(known).all(axis=0)
        for part, cells, error, n in zip(self.parts, self.cells, known, self.n, strict=True):
            variance = error**2
            law = cumulant_law(cells.law) if np.isnan(variance).any() else None
            if law is not None and about in law.cumulants:
                usual = law.cumulants[about].at(np.clip(values, 0.0, 1.0))[0]
                variance = np.where(np.isnan(variance), usual, variance)
            total += part**2 * variance
            if about == "population":
                total += part**2 * (cells.values - values) ** 2 / n
        return np.where(unknown, np.nan, total)
