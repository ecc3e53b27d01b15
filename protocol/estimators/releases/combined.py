"""The least-squares combination of releases, component by component, with its errors."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from protocol.estimators.counts import Counts
from protocol.estimators.inference.laws import DeferredLaw
from protocol.estimators.inference.scores import law_of_mean
from protocol.estimators.joint import JointReports
from protocol.estimators.likelihood import Reported
from protocol.estimators.linear import Source
from protocol.estimators.releases.combined_errors import Combination
from protocol.estimators.releases.noisy import NoisyTables
from protocol.estimators.releases.release import Release
from protocol.estimators.tables import Cells, Estimated, standard_error, standard_errors
from protocol.randomizers.exact import Floats
from protocol.surveys.survey import Survey

# Variances below this part of 1/n are 0 but for rounding.
_EXACT = 1e-15


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class CombinedReleases(Source):
    """Tables from all releases of the same respondents' answers, by least squares.

    Every table is the sum of its components (``components``), and every component is a weighted
    mean over the releases that have it. The weights are inverse to the releases' variances by
    design: for a component that meets the groups B of a release of n reports,
    ``prod_B 1/a_B**2 / n - 1/N``, with N the number of respondents, and the variance of coins. If
    all releases have as many reports, this is exact for the mean over the component's cells,
    whatever the answers are: no weight depends on an estimate, and no table has a larger mean
    squared error than from any one release. Exact counts have a variance of 0 and stay as they are.
    Tables agree on what they have in common.

    The largest release has one report of each respondent. Others may have fewer, all of the same
    respondents. Those who left in between are taken to be a random part, and errors about the
    respondents include the error of that.

    Args:
        survey: the survey that was asked.
        releases: independent given the answers; noisy counts are one of them.
        final: the whole records among them; None if there are none.

    Raises:
        ValueError: no release, or releases of more than two numbers of reports.
    """

    survey: Survey
    releases: tuple[Release | NoisyTables, ...]
    final: JointReports | None = None

    def __post_init__(self) -> None:
        if not self.releases:
            raise ValueError("expected at least one release")
        if len({release.n for release in self.releases}) > 2:
            raise ValueError("releases of more than two numbers of reports")

    def __repr__(self) -> str:
        return f"<CombinedReleases: n={self.n}, {len(self.releases)} releases>"

    @property
    def n(self) -> int:
        """The number of respondents: the reports of the largest release."""
        return max(release.n for release in self.releases)

    @property
    def whole_reports(self) -> Counts | None:
        """Those of the final release."""
        return None if self.final is None else self.final.counts

    @property
    def clusters(self) -> Sequence[tuple[str, ...]]:
        """Those of the final release."""
        return () if self.final is None else self.final.clusters

    def cells(self, names: tuple[str, ...]) -> Cells:
        """The estimated joint distribution of some attributes.

        Given the answers the variance of a cell is the sum over the releases of ``(E h**2 - E g**2)
        / n``, with h the score of a report for the cell and g its mean given the answer. About a
        population, ``pi (1 - pi) / N`` is added. Both expectations are weighted sums of the table's
        components, and are estimated from the table.
        """
        found = self.combination(names)
        values = found.values
        variances, scale = found.variances()
        sampled = variances + (values - values**2) / self.n
        each, reach = found.changes_by_one()
        more = each + reach * np.abs(1 - 2 * values) / self.n
        given = np.zeros(values.shape)
        if found.randomized:
            given = standard_errors(variances, scale, each)
        return Cells(
            values,
            standard_errors=given,
            population_errors=standard_errors(sampled, scale + np.abs(values) / self.n, more),
            law=DeferredLaw(found.law, found.covariance),
        )

    def mean(self, names: tuple[str, ...], weights: Floats) -> Estimated:
        """The mean over the respondents of a weight that depends on some attributes.

        Its variance is that of ``table`` with h the weighted sum of the scores of a report.
        """
        found = self.combination(names)
        value = float(np.sum(found.values * weights))
        law = law_of_mean(weights, found.set_law, found.sum_law)
        if not found.randomized:
            return Estimated(value, 0.0, law)
        variance, scale = found.sum_variance(weights)
        each = found.sum_change_by_one(weights)
        return Estimated(value, standard_error(variance, scale, each), law)

    def reported(self, names: Sequence[str]) -> list[Reported]:
        """The reports of all releases, or exact counts alone if a release has them.

        Releases are taken to be of different respondents.
        """
        self._known(names)
        found = []
        for release in self.releases:
            counted = release.counted(self.survey, names)
            exact = (release.keeps(names) == 1).all() and not release.added(names).any()
            if release.known(names).all() and exact:
                return counted
            found += counted
        return found

    def _known(self, names: Sequence[str], *, guessed: bool = False) -> NDArray[np.bool_]:
        """Components of a table that each release knows, ``(releases, *(2,) * k)``.

        Raises:
            SurveyError: an unknown or repeated name.
            ValueError: no name, or attributes that no release has together.
        """
        self.survey.axes(names)
        if not names:
            raise ValueError("expected at least one attribute")
        known = np.array([release.known(names) for release in self.releases])
        lacking = np.argwhere(~known.any(axis=0))
        if len(lacking) and not guessed:
            together = [name for name, one in zip(names, lacking[0], strict=True) if one]
            suffix = " together" if len(together) > 1 else ""
            raise ValueError(f"no release has {', '.join(together)}{suffix}")
        return known

    def knows(self, names: Collection[str]) -> bool:
        """Check whether a release has some attributes together."""
        return any(release.known(tuple(names)).all() for release in self.releases)

    def combination(self, names: Sequence[str], *, guessed: bool = False) -> Combination:
        """A table of some attributes, with weights that follow from the design alone.

        Args:
            names: the attributes.
            guessed: whether interactions that no release has are taken to be 0.

        Raises:
            SurveyError: an unknown or repeated name.
            ValueError: no name, or without ``guessed``, attributes that no release has together.
        """
        known = self._known(names, guessed=guessed)
        # Every release has the constant component.
        used = known.reshape(len(known), -1).sum(axis=1) > 1
        knows = known[used]
        releases = tuple(release for release, one in zip(self.releases, used, strict=True) if one)
        keeps = np.array([release.keeps(names) for release in releases])
        numbers = np.array([release.n for release in releases], np.float64)
        reports = numbers.reshape(-1, *(1,) * len(names))
        with np.errstate(divide="ignore"):
            sampled = keeps**-2.0 / reports - 1 / self.n
            added = np.array([release.added(names) for release in releases])
            variances = np.where(knows, sampled + added, np.inf)
        least = variances.min(axis=0)
        # Of several exact releases the first is enough.
        first = np.arange(len(releases)).reshape(reports.shape) == variances.argmin(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = least / variances
        weights = np.where(least > _EXACT / self.n, shares, first)
        weights = np.where(np.isfinite(least), weights / weights.sum(axis=0), 0.0)
        values = np.zeros(self.survey.sizes_of(names))
        noise = (
            release.noise(names, part) for release, part in zip(releases, weights, strict=True)
        )
        found = Combination(
            values=values,
            n=self.n,
            numbers=numbers,
            weights=weights,
            keeps=keeps,
            noise=tuple(one for one in noise if one is not None),
        )
        for release, scores in zip(releases, found.scores, strict=True):
            values += release.components(self.survey, names, scores)
        return found
