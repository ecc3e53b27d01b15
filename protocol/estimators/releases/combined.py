"""The least-squares combination of releases, component by component, with its errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.laws import About, NormalLaw, Variance
from protocol.estimators.joint import JointEstimate
from protocol.estimators.likelihood import Reported
from protocol.estimators.projection import Projection
from protocol.estimators.releases.components import applied, coefficients_of, entries_of
from protocol.estimators.releases.release import Release
from protocol.estimators.tables import Estimated, Table, standard_error, standard_errors
from protocol.randomizers.exact import Floats
from protocol.surveys.survey import Survey

# A variance that is smaller beside 1/n is the rounding of 0.
_EXACT = 1e-15


class _Design(NamedTuple):
    """What a table of k attributes takes of each of some releases.

    Args:
        releases: those that have a part in it.
        weights: of each release's unbiased estimate, by component, ``(releases, *(2,) * k)``.
        keeps: by which factor randomization shrinks each component, of that shape.
        scores: what each component of a report counts, of that shape.
    """

    releases: tuple[Release, ...]
    weights: Floats
    keeps: Floats
    scores: Floats


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class CombinedEstimate(Estimate):
    """Tables from all releases of the same respondents' answers, by least squares.

    Every table is the sum of its components (``components``), and every component is the weighted
    mean of what the releases that know it say of it. The weights are inverse to the releases'
    variances by design: for a component that meets the groups B of a release of n reports,
    ``prod_B 1/a_B**2 / n - 1/N``, with N the number of respondents. This is exact for the mean over
    the component's cells, whatever the answers are, so that no weight depends on an estimate, and
    no table has a larger mean squared error than from any one release. Exact counts have a variance
    of 0 and stand as they are. Tables agree on what they have in common.

    **Who the respondents are.** The largest release has one report of each. Others may have fewer,
    all of the same ones: who left in between is taken to be a random part of the respondents, and
    errors about the respondents hold the error of that too.

    Args:
        survey: what was asked.
        releases: whose randomness is independent given the answers.
        final: the whole records among them, whose reports RR-Adjustment weighs; None if there are
            none.

    Raises:
        ValueError: no release, or releases of more than two numbers of reports.
    """

    survey: Survey
    releases: tuple[Release, ...]
    final: JointEstimate | None = None

    def __post_init__(self) -> None:
        if not self.releases:
            raise ValueError("expected at least one release")
        if len({release.n for release in self.releases}) > 2:
            raise ValueError("releases of more than two numbers of reports")

    def __repr__(self) -> str:
        return f"<CombinedEstimate: n={self.n}, {len(self.releases)} releases>"

    @property
    def n(self) -> int:
        """The number of respondents: the reports of the largest release."""
        return max(release.n for release in self.releases)

    def table(self, *names: str, projection: Projection = "none") -> Table:
        """The estimated joint distribution of some attributes, in any order.

        Given the answers the variance of a cell is the sum over the releases of
        ``(E h**2 - E g**2) / n``, with h what a report counts for the cell, whose mean given the
        answer is g, and about a population ``pi (1 - pi) / N`` more. Both expectations are weighted
        sums of the table's components, and are estimated from the table.
        """
        design = self._design(names)
        values = self._values(names, design)
        variances, slope, scale = self._variances(values, design)
        sampled = variances + (values - values**2) / self.n
        base = variances - slope * values
        laws: dict[About, Variance] = {
            "respondents": Variance(base, slope),
            "population": Variance(base, slope + 1 / self.n, -1 / self.n),
        }
        return self._table(
            names,
            projection,
            values,
            standard_errors=standard_errors(variances, scale)
            if self._randomized(design)
            else np.zeros(values.shape),
            population_errors=standard_errors(sampled, scale + np.abs(values) / self.n),
            law=NormalLaw(values=values, variances=laws),
        )

    def query(self, names: Sequence[str], weights: ArrayLike) -> Estimated:
        """The mean over the respondents of a weight that depends on some attributes.

        Its variance is that of ``table`` with h the sum of the weights times what a report counts
        for each cell.
        """
        given = self.checked_weights(names, weights)
        names = tuple(names)
        design = self._design(names)
        shares = self._values(names, design)
        value = float(np.sum(shares * given))
        if np.ptp(given) == 0:
            return Estimated(value, 0.0)
        variance = scale = 0.0
        fewer = np.zeros(given.shape)
        for release, mixed, kept, scored in zip(*design, strict=True):
            reported = float(np.sum(applied(kept, shares) * applied(scored, given) ** 2))
            means = applied(mixed, given)
            variance += (reported - float(np.sum(shares * means**2))) / release.n
            scale += reported / release.n
            if release.n < self.n:
                fewer += means
                missing = 1 / release.n - 1 / self.n
        if fewer.any():
            left = float(np.sum(shares * fewer**2))
            variance += missing * (left - float(np.sum(shares * fewer)) ** 2)
            scale += missing * left
        if not self._randomized(design):
            return Estimated(value, 0.0)
        return Estimated(value, standard_error(variance, scale))

    def _reported(self, names: Sequence[str]) -> list[Reported]:
        """Of all releases. They are of the same respondents, which their product leaves aside.

        Where the answers themselves were counted, they alone: reports add nothing to them.
        """
        self._design(names)
        found = [one for release in self.releases for one in release.counted(self.survey, names)]
        for one in found:
            whole = {name for group in one.groups for name in group} == set(names)
            if whole and not any(mixing.shared.any() for mixing in one.mixings):
                return [one]
        return found

    def _design(self, names: Sequence[str]) -> _Design:
        """How a table of some attributes is combined; it does not depend on any report.

        Raises:
            SurveyError: an unknown or repeated name.
            ValueError: no name, or attributes that no release has together.
        """
        self.survey.axes(names)
        if not names:
            raise ValueError("expected at least one attribute")
        known = np.array([release.known(names) for release in self.releases])
        lacking = np.argwhere(~known.any(axis=0))
        if len(lacking):
            together = [name for name, one in zip(names, lacking[0], strict=True) if one]
            raise ValueError(
                f"no release has {', '.join(together)}{' together' if len(together) > 1 else ''}"
            )
        # All know that the total is 1.
        used = known.reshape(len(known), -1).sum(axis=1) > 1
        knows = known[used]
        releases = tuple(release for release, one in zip(self.releases, used, strict=True) if one)
        keeps = np.array([release.keeps(names) for release in releases])
        numbers = np.array([release.n for release in releases], np.float64)
        numbers = numbers.reshape(-1, *(1,) * len(names))
        with np.errstate(divide="ignore"):
            variances = np.where(knows, keeps**-2.0 / numbers - 1 / self.n, np.inf)
        least = variances.min(axis=0)
        # Of several exact ones the first is as good as all.
        first = np.arange(len(releases)).reshape(numbers.shape) == variances.argmin(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = least / variances
        weights = np.where(least > _EXACT / self.n, shares, first)
        weights /= weights.sum(axis=0)
        scores = np.divide(weights, keeps, out=np.zeros_like(weights), where=weights > 0)
        return _Design(releases, weights, keeps, scores)

    def _randomized(self, design: _Design) -> bool:
        """Whether anything of a table is not exact."""
        return bool(((design.weights > 0) & (design.keeps < 1)).any()) or any(
            release.n < self.n and weights.any()
            for release, weights in zip(design.releases, design.weights, strict=True)
        )

    def _values(self, names: Sequence[str], design: _Design) -> Floats:
        values = np.zeros(self.sizes_of(names))
        for release, scores in zip(design.releases, design.scores, strict=True):
            values += release.reported(self.survey, names, scores)
        return values

    def _variances(self, values: Floats, design: _Design) -> tuple[Floats, float, Floats]:
        """Variances about the respondents, if the shares are these.

        Returns:
            The variances, their change per unit of the cell's own share, and the size of what they
            are the differences of.
        """
        sizes = values.shape
        numbers = np.array([release.n for release in design.releases], np.float64)
        numbers = numbers.reshape(-1, *(1,) * len(sizes))
        squares = coefficients_of(entries_of(design.scores, sizes) ** 2, sizes) * design.keeps
        means = coefficients_of(entries_of(design.weights, sizes) ** 2, sizes)
        within = ((squares - means) / numbers).sum(axis=0)
        # In components, what a cell alone has is in that of all attributes.
        slope = float(within.flat[-1])
        variances = applied(within, values)
        scale = applied((squares / numbers).sum(axis=0), values)
        fewer = design.weights[numbers.reshape(-1) < self.n]
        if fewer.any():
            missing = 1 / float(numbers.min()) - 1 / self.n
            mixed = fewer.sum(axis=0)
            squared = coefficients_of(entries_of(mixed, sizes) ** 2, sizes)
            left = applied(squared, values)
            slope += missing * float(squared.flat[-1])
            variances += missing * (left - applied(mixed, values) ** 2)
            scale += missing * left
        return variances, slope, scale
