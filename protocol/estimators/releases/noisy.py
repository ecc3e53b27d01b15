"""Counts of some tables with known noise in every cell, made to agree by least squares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, combinations

import numpy as np
from numpy.typing import NDArray

from protocol.estimators.dependence.association import TestResult, exact_test, wald_test
from protocol.estimators.dependence.pair_reports import PairReports, outer, proper
from protocol.estimators.inference.cumulants import CumulantLaw, Cumulants
from protocol.estimators.inference.laws import About, DeferredLaw, ErrorLaw
from protocol.estimators.inference.scores import (
    check_covariance,
    law_of_mean,
    multinomial,
    weighted_law,
)
from protocol.estimators.likelihood import Reported
from protocol.estimators.linear import Source
from protocol.estimators.releases.components import (
    applied,
    coefficients_to_entries,
    component_subsets,
    entries_to_coefficients,
    shared_components,
    spread,
)
from protocol.estimators.releases.release import uniform_mixing
from protocol.estimators.tables import (
    Cells,
    Estimated,
    change_by_one,
    marginal,
    standard_errors,
)
from protocol.randomizers import coins
from protocol.randomizers.exact import Floats
from protocol.surveys.survey import Survey


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class NoisyTables(Source):
    """Counts of some tables of the same respondents, with a sum of many coins in every cell.

    A raw count is the true one plus a binomial number of coins, independent in every cell of every
    table. The counts less the mean of the coins are made to agree by least squares: all tables have
    the known total, and those that share attributes have the same margins of them. All cells have
    noise of one variance, so the fit is made component by component (``components``): each is the
    mean over the tables that have it, weighted by the inverse of their numbers of cells. It is
    exact, no table depends on the order of others, and the variance of every cell is known without
    the data. Nothing is clipped: estimates are unbiased, and rare cells may be negative.

    Without coins counts are exact, with no error but that of sampling from a population. The
    sampling error is unknown where nobody or everybody is in a cell.

    Args:
        survey: the survey that was asked.
        counts: the raw counts, by the names of their attributes.
        respondents: the exact number of respondents.
        trials: the number of coins in each cell, of all parties together; 0 for none.
        chance: of each coin to count, in units of ``2**-16``; above 0 and below ``2**16`` if there
            are coins.

    Raises:
        ValueError: no table, one of another shape than its attributes', a number out of range, a
            total that the respondents and their coins cannot have, or exact tables that disagree.
    """

    survey: Survey
    counts: Mapping[tuple[str, ...], NDArray[np.int64]]
    respondents: int
    trials: int = 0
    chance: int = 0
    _tables: Mapping[tuple[str, ...], NDArray[np.float64]] = field(init=False)

    def __post_init__(self) -> None:
        if not self.counts:
            raise ValueError("expected at least one table")
        if self.respondents < 1 or self.trials < 0:
            raise ValueError(
                f"{self.respondents} respondents, {self.trials} coins: expected at least 1 and 0"
            )
        if self.trials and not 0 < self.chance < coins.SIDES:
            raise ValueError(f"chance {self.chance}: expected more than 0, less than {coins.SIDES}")
        coins_too = f" and {self.trials} coins" if self.trials else ""
        for names, table in self.counts.items():
            shape = self.survey.sizes_of(names)
            if table.shape != shape:
                raise ValueError(f"the table of {names} has shape {table.shape}, expected {shape}")
            if table.min() < 0 or table.max() > self.respondents + self.trials:
                raise ValueError(
                    f"a count of the table of {names} is not of 0 to {self.respondents} respondents"
                    + coins_too
                )
            total, most = int(table.sum()), self.respondents + self.trials * table.size
            if not self.respondents <= total <= most:
                to_most = f" to {most}" if self.trials else ""
                raise ValueError(
                    f"the table of {names} has a total of {total}, expected {self.respondents}"
                    + to_most
                )
        if not self.trials:
            self._check_exact()
        object.__setattr__(self, "_tables", self._fitted())

    def __repr__(self) -> str:
        of = f"{self.trials} of {self.chance}/{coins.SIDES}"
        added = f", coins: {of}" if self.trials else ""
        return f"<{type(self).__name__}: n={self.n}, {len(self.counts)} tables{added}>"

    @property
    def n(self) -> int:
        """The number of respondents."""
        return self.respondents

    def cells(self, names: tuple[str, ...]) -> Cells:
        """The fitted shares.

        Their standard error given the data is that of the noise, the same in all cells of a table
        and known without the data; 0 without noise.

        Raises:
            SurveyError: an unknown or repeated name.
            ValueError: no name, or no table holds them all.
        """
        shares = self._shares(names)
        given = 0.0
        if self.trials:
            given = float(coefficients_to_entries(self._covariances(names), shares.shape).flat[-1])
        scale = given + np.abs(shares) / self.n
        return Cells(
            shares,
            standard_errors=np.full(shares.shape, given**0.5),
            population_errors=standard_errors(
                given + shares * (1 - shares) / self.n,
                scale,
                change_by_one(shares, (0.0, 1.0), self.n, sampled=1.0),
            ),
            law=DeferredLaw(
                partial(self._law, names, shares), partial(self._covariance, names, shares)
            ),
        )

    def mean(self, names: tuple[str, ...], weights: Floats) -> Estimated:
        """The mean of a weight in the fitted table; its error given the data is that of noise.

        Raises:
            SurveyError, ValueError: as ``cells``.
        """
        counts = self._table(names)
        shares = counts / self.n
        value = float((counts * weights).sum()) / self.n
        variance = float(self._noise_of_mean(names, weights).variance[0])

        def of_set(inside: NDArray[np.bool_]) -> ErrorLaw:
            noise = self._noise_of_mean(names, inside.astype(np.float64))
            return self._counted(np.asarray(shares[inside].sum()), noise)

        law = law_of_mean(weights, of_set, partial(self._mean_law, names, shares))
        return Estimated(value, variance**0.5, law)

    def independence(self, first: str, second: str) -> TestResult:
        """Pearson's test of exact counts; else Wald's, by the covariance under independence.

        That is the covariance of a sample with the product of the fitted margins, without negative
        parts, for its shares, and of the noise.

        Raises:
            SurveyError, ValueError: as ``cells``; a table too large for its covariance.
        """
        if not self.trials:
            return exact_test(self._counts((first, second)))
        shares = self._shares((first, second))
        null = outer(proper(shares.sum(axis=1)), proper(shares.sum(axis=0)))
        return wald_test(shares, self._covariance((first, second), null, "population"))

    def pair_reports(self, first: str, second: str) -> PairReports:
        """Fitted answers, and the noise in them, as ``Estimate.pair_reports``."""
        pair = (first, second)
        noise = self._covariances(pair) if self.trials else None
        return PairReports.exact(self._shares(pair), self.n, noise=noise)

    def reported(self, names: Sequence[str]) -> Sequence[Reported]:
        """Counts as reports that were kept or replaced by fakes.

        Exact counts are always kept, and EM ends at their shares. Coins count like uniform fakes,
        as many as there are more counts than respondents. This is the likelihood of coins that are
        many and rare; of others it has its maximum at the truth too. Tables are taken to be of
        different respondents.
        """
        if not self.trials:
            return (_counted_as(names, self._counts(names), self.n),)
        self._holder(names)
        return self.counted(self.survey, names)

    # As one of several releases

    def known(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """Components of a table that some table has, shape ``(2,) * k``."""
        found: NDArray[np.bool_] = self._precisions(names)[0].sum(axis=0) > 0
        found.flat[0] = True
        return found

    def keeps(self, names: Sequence[str]) -> Floats:
        """Factors as of ``Release.keeps``: answers are counted as they are."""
        return np.ones((2,) * len(names))

    def added(self, names: Sequence[str]) -> Floats:
        """The variance of the coins in a component of one cell, as ``Release.added``."""
        return self._covariances(names) * float(np.prod(self.survey.sizes_of(names)))

    def counted(self, survey: Survey, names: Sequence[str]) -> list[Reported]:
        """Counts as of ``Release.counted``, from every table that has one of the attributes."""
        found = []
        for known, table in self.counts.items():
            inside = tuple(name for name in names if name in known)
            if inside:
                found.append(_counted_as(inside, marginal(table, known, inside), self.n))
        return found

    def components(self, survey: Survey, names: Sequence[str], coefficients: Floats) -> Floats:
        """Components as of ``Release.components``, from the fitted shares."""

        def shares(known: tuple[str, ...], kept: Sequence[str]) -> Floats:
            found: Floats = marginal(self._tables[known], known, kept) / self.n
            return found

        return shared_components(
            list(self.counts), shares, names, survey.sizes_of(names), coefficients
        )

    def noise(self, names: Sequence[str], by: Floats) -> AddedNoise:
        """Noise of the coins in a table made of these components times ``by``."""
        return AddedNoise(self, tuple(names), by)

    def pairs(self) -> dict[tuple[str, str], Cells]:
        """The cells of every pair that is counted together."""
        return {
            pair: self.cells(pair)
            for pair in combinations(self.survey.names, 2)
            if any(set(pair) <= set(known) for known in self.counts)
        }

    def _check_exact(self) -> None:
        """Refuse exact tables that disagree on an attribute."""
        margins: dict[str, NDArray[np.int64]] = {}
        for names, table in self.counts.items():
            for name in names:
                margin = marginal(table, names, (name,))
                if not np.array_equal(margins.setdefault(name, margin), margin):
                    raise ValueError(f"the tables disagree on the counts of {name!r}")

    def _fitted(self) -> Mapping[tuple[str, ...], Floats]:
        """The nearest tables of counts that agree."""
        found: dict[tuple[str, ...], Floats] = {}
        for names, table in self.counts.items():
            # Less the coins' mean, which is the same in all cells, as the error of the total is.
            found[names] = table.astype(np.float64) + (self.n - int(table.sum())) / table.size
        if not self.trials:
            return found
        for shared in _shared(self.counts):
            holders = [names for names in self.counts if shared <= set(names)]
            order = tuple(name for name in holders[0] if name in shared)
            parts = [_component(marginal(found[names], names, order)) for names in holders]
            inverses = [1 / self.counts[names].size for names in holders]
            mean: Floats = np.average(parts, axis=0, weights=inverses)
            for names, part in zip(holders, parts, strict=True):
                inside = [name in shared for name in names]
                own = marginal(mean - part, order, [name for name in names if name in shared])
                found[names] += spread(own, inside, found[names].shape)
        return found

    def _holder(self, names: Sequence[str]) -> tuple[str, ...]:
        """The attributes of the first table with all of these."""
        self.survey.axes(names)
        for known in self.counts:
            if names and set(names) <= set(known):
                return known
        if not names:
            raise ValueError("expected at least one attribute")
        raise ValueError(f"no table has {', '.join(names)} together")

    def _counts(self, names: Sequence[str]) -> NDArray[np.int64]:
        """The raw counts of some attributes, in any order."""
        known = self._holder(names)
        return marginal(self.counts[known], known, names)

    def _table(self, names: Sequence[str]) -> Floats:
        """The fitted counts, on which all tables agree."""
        known = self._holder(names)
        return marginal(self._tables[known], known, names)

    def _shares(self, names: Sequence[str]) -> Floats:
        return np.ascontiguousarray(self._table(names) / self.n)

    # The noise

    def _precisions(self, names: Sequence[str]) -> tuple[Floats, Floats]:
        """Precision of the components of a table in each given table.

        Returns:
            The inverse of the number of cells for components that the given table has, else 0, and
            0 for the constant, which is known, shape ``(tables, *(2,) * k)``. Then the numbers of
            cells, shape (tables,).
        """
        cells = np.array([float(table.size) for table in self.counts.values()])
        found = np.zeros((len(cells),) + (2,) * len(names))
        for place, known in enumerate(self.counts):
            found[place][component_subsets([name in known for name in names])] = 1 / cells[place]
        found.reshape(len(cells), -1)[:, 0] = 0.0
        return found, cells

    def _covariances(self, names: Sequence[str]) -> Floats:
        """Coefficients of the covariance matrix of a table's noise, shape ``(2,) * k``.

        Components are independent. In a table of N cells, a component from tables of B cells each
        has the variance of a raw cell times ``1 / sum (N / B)`` in every direction.
        """
        precisions = self._precisions(names)[0].sum(axis=0)
        cells = np.prod(self.survey.sizes_of(names))
        chance = self.chance / coins.SIDES
        each = self.trials * chance * (1 - chance) / self.n**2
        found: Floats = np.divide(
            each / cells, precisions, out=np.zeros_like(precisions), where=precisions > 0
        )
        return found

    def _weights(self, names: Sequence[str]) -> tuple[Floats, Floats]:
        """Weights of the given tables in a combined one.

        Returns:
            The weight of each raw table by component, shape ``(tables, *(2,) * k)``; and the number
            of its cells for each cell of the combined table, shape (tables,).
        """
        precisions, cells = self._precisions(names)
        whole = precisions.sum(axis=0)
        weights = np.divide(precisions, whole, out=np.zeros_like(precisions), where=whole > 0)
        return weights, cells / np.prod(self.survey.sizes_of(names))

    def _noise(self, names: Sequence[str], by: Floats | float = 1.0) -> Cumulants:
        """Noise of every cell of a table: a sum of independent, weighted coins.

        Args:
            by: the factor of each component, shape ``(2,) * k``.
        """
        sizes = self.survey.sizes_of(names)
        weights, times = self._weights(names)
        entries = coefficients_to_entries(weights * by, sizes)

        def summed(power: int) -> float:
            """Sum of a power of the weights of all coins in one cell."""
            coefficients = entries_to_coefficients(entries**power, sizes)
            return float(times @ coefficients.reshape(len(times), -1)[:, 0])

        return self._cumulants(summed(2), summed(3))

    def _noise_of_mean(
        self, names: Sequence[str], weights: Floats, by: Floats | float = 1.0
    ) -> Cumulants:
        if not self.trials:
            return self._cumulants(0.0, 0.0)
        squares = cubes = 0.0
        for part, times in zip(*self._weights(names), strict=True):
            counted = applied(part * by, weights)
            squares += float(times) * float((counted**2).sum())
            cubes += float(times) * float((counted**3).sum())
        return self._cumulants(squares, cubes)

    def _cumulants(self, squares: float, cubes: float) -> Cumulants:
        """The noise of a weighted sum of all coins, by the sums of powers of their weights."""
        chance = self.chance / coins.SIDES
        variance = self.trials * chance * (1 - chance)
        third = variance * (1 - 2 * chance)
        return Cumulants(
            np.array([variance * squares / self.n**2, 0.0, 0.0]),
            np.array([third * cubes / self.n**3, 0.0, 0.0, 0.0]),
        )

    # Laws

    def _law(self, names: Sequence[str], shares: Floats) -> CumulantLaw:
        return self._counted(shares, self._noise(names) if self.trials else None)

    def _counted(self, shares: Floats, noise: Cumulants | None) -> CumulantLaw:
        """Law about a population, where true counts are binomial."""
        law = CumulantLaw.of_counts(shares, self.n, other=0.0, gain=1.0)
        return law if noise is None else law.with_noise(noise)

    def _mean_law(self, names: Sequence[str], shares: Floats, weights: Floats) -> ErrorLaw:
        likely = proper(shares.reshape(-1)).reshape(shares.shape)
        squares = float((likely * weights**2).sum())
        least, most = float(weights.min()), float(weights.max())
        value = float((shares * weights).sum())
        law = weighted_law(value, weights, likely, self.n, squares=squares, least=least, most=most)
        noise = self._noise_of_mean(names, weights)
        return replace(
            law,
            cumulants={
                "respondents": noise,
                "population": law.cumulants["population"].plus(noise),
            },
        )

    def _covariance(self, names: Sequence[str], shares: Floats, about: About) -> Floats:
        check_covariance(shares.size)
        found = np.zeros((shares.size, shares.size))
        if self.trials:
            every = np.eye(shares.size).reshape(*shares.shape, shares.size)
            found += applied(self._covariances(names), every).reshape(found.shape)
        return found if about == "respondents" else found + multinomial(shares, self.n)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AddedNoise:
    """Noise of counts with coins in a table that is combined from them.

    Args:
        counts: the counts with coins.
        names: the attributes of the table.
        by: factor of each component of the counts' own table, shape ``(2,) * k``.
    """

    counts: NoisyTables
    names: tuple[str, ...]
    by: Floats

    @property
    def covariances(self) -> Floats:
        """The coefficients of the covariance matrix, shape ``(2,) * k``."""
        found: Floats = self.counts._covariances(self.names) * self.by**2
        return found

    @property
    def of_cells(self) -> Cumulants:
        """Cumulants of every cell."""
        return self.counts._noise(self.names, self.by)

    def of_mean(self, weights: Floats) -> Cumulants:
        """Cumulants of the mean of a weight."""
        return self.counts._noise_of_mean(self.names, weights, self.by)


def _shared(tables: Mapping[tuple[str, ...], object]) -> list[frozenset[str]]:
    """Sets of attributes, each in more than one table."""
    both = {frozenset(one) & frozenset(other) for one, other in combinations(tables, 2)}
    found = (
        combinations(sorted(names), number) for names in both for number in range(1, len(names) + 1)
    )
    return sorted(set(map(frozenset, chain.from_iterable(found))), key=sorted)


def _component(table: Floats) -> Floats:
    """The component of all attributes of a table."""
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def _counted_as(names: Sequence[str], counts: NDArray[np.int64], n: int) -> Reported:
    """Counts as reports: of n respondents, and of fakes that are uniform over the cells."""
    mixing = uniform_mixing(counts.shape, n / int(counts.sum()))
    return Reported((tuple(names),), counts.reshape(-1), (mixing,))
