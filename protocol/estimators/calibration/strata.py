"""Tables by strata: shares within each, and all of them together by their known sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from protocol.errors import SurveyError
from protocol.estimators.calibration.post_stratified import CLEAR, MAX_TABLE_SCORES
from protocol.estimators.calibration.scores import functional_table, moments, unmixed
from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.laws import About, ErrorLaw, Interval, NormalLaw
from protocol.estimators.joint import JointEstimate
from protocol.estimators.projection import Projection
from protocol.estimators.tables import Estimated, Table, standard_errors
from protocol.randomizers.exact import Floats
from protocol.surveys.survey import Survey, listed

_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class StratifiedEstimate(Estimate):
    """Strata that were asked each by itself, weighted by their known sizes: ``sum_h W_h t_h``.

    The aggregator knows who is in which stratum: each has reports and an estimate of its own. The
    reports of two strata are independent, so variances are ``sum_h W_h**2 var_h``. An interval
    joins those of the strata (Zou and Donner, Construction of Confidence Limits about Effect
    Measures, Statistics in Medicine 27, 2008), so it holds where these do.

    Args:
        survey: what was asked in all of them.
        strata: the estimate of each, by its name.
        sizes: the share of the population that each is: above 0, with a total of 1. For shares of
            the respondents, the share of these.

    Raises:
        ValueError: no stratum, one of another survey, or other sizes than of these strata.
    """

    survey: Survey
    strata: Mapping[str, Estimate]
    sizes: Mapping[str, float]

    def __post_init__(self) -> None:
        if not self.strata or self.strata.keys() != self.sizes.keys():
            raise ValueError(
                f"sizes of {listed(tuple(self.sizes))}, strata {listed(tuple(self.strata))}: "
                "expected one size for each, and at least one"
            )
        total = math.fsum(self.sizes.values())
        if not (min(self.sizes.values()) > 0 and abs(total - 1) <= _TOLERANCE):
            raise ValueError(f"sizes that add up to {total:.7g}: expected 1, and each above 0")
        for name, estimate in self.strata.items():
            if estimate.survey != self.survey:
                raise SurveyError(f"stratum {name!r} was asked another survey")

    def __repr__(self) -> str:
        return f"<StratifiedEstimate: n={self.n}, {len(self.strata)} strata>"

    @property
    def n(self) -> int:
        """The number of respondents in all strata."""
        return sum(estimate.n for estimate in self.strata.values())

    def table(self, *names: str, projection: Projection = "none") -> Table:
        """The weighted mean of the strata's tables."""
        parts = {stratum: found.table(*names) for stratum, found in self.strata.items()}
        weights = [self.sizes[stratum] for stratum in parts]
        values = [table.values for table in parts.values()]
        return self._table(
            names,
            projection,
            np.tensordot(weights, values, axes=1),
            standard_errors=_together(weights, [t.standard_errors for t in parts.values()]),
            population_errors=_together(weights, [t.population_errors for t in parts.values()]),
            law=_JoinedLaw(tuple(weights), tuple(values), tuple(parts.values())),
        )

    def _query(self, names: tuple[str, ...], weights: Floats) -> Estimated:
        """The weighted mean of the strata's answers."""
        found = {stratum: est.query(names, weights) for stratum, est in self.strata.items()}
        sizes = [self.sizes[stratum] for stratum in found]
        errors = [
            None if one.standard_error is None else np.asarray(one.standard_error)
            for one in found.values()
        ]
        error = _together(sizes, errors)
        values = tuple(np.asarray(one.value) for one in found.values())
        least, most = float(weights.min()), float(weights.max())
        return Estimated(
            float(np.dot(sizes, values)),
            None if error is None else float(error),
            _JoinedLaw(tuple(sizes), values, tuple(found.values()), least=least, most=most),
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _JoinedLaw(ErrorLaw):
    """The law of a weighted sum of independent estimates.

    The sum is below its truth by as much as each summand may be, their distances from the ends of
    their own intervals being added as standard errors are.
    """

    weights: tuple[float, ...]
    values: tuple[Floats, ...]
    parts: tuple[Table | Estimated, ...]
    least: float = 0.0
    most: float = 1.0

    def interval(self, level: float, about: About) -> Interval:
        below = above = np.zeros(())
        for weight, value, part in zip(self.weights, self.values, self.parts, strict=True):
            low, high = part.interval(level, about)
            below = below + (weight * np.maximum(value - low, 0.0)) ** 2
            above = above + (weight * np.maximum(high - value, 0.0)) ** 2
        total = np.tensordot(self.weights, self.values, axes=1)
        return Interval(
            np.clip(total - np.sqrt(below), self.least, self.most),
            np.clip(total + np.sqrt(above), self.least, self.most),
        )

    def covariance(self, about: About) -> Floats:
        found = [
            weight**2 * part.covariance(about)
            for weight, part in zip(self.weights, self.parts, strict=True)
            if isinstance(part, Table)
        ]
        return np.sum(found, axis=0) if found else ErrorLaw.covariance(self, about)


def _together(weights: Sequence[float], errors: Sequence[Floats | None]) -> Floats | None:
    """The standard errors of a weighted sum of independent estimates; None if one has none."""
    known = [error for error in errors if error is not None]
    if len(known) < len(errors):
        return None
    squares = [(weight * error) ** 2 for weight, error in zip(weights, known, strict=True)]
    return np.asarray(np.sqrt(np.sum(squares, axis=0)), np.float64)


def within_strata(joint: JointEstimate, strata: Sequence[str], names: Sequence[str]) -> Table:
    """The distribution of some attributes within each stratum, where the strata were asked too.

    A share is the ratio of two estimates, ``pi_va / pi_a``; its errors are those of the linearized
    scores ``(h_va(y) - share h_a(y)) / pi_a``, about the respondents less what is not random of
    them given the answers. They are unknown where the stratum's share is not ``CLEAR`` standard
    errors above 0, and the shares too where it is not above 0.

    Args:
        joint: of the reports.
        strata: the attributes whose combinations are the strata.
        names: the attributes that are asked about within.

    Returns:
        A table of the strata's attributes and then the others, each stratum with a total of 1.

    Raises:
        SurveyError: an unknown or repeated name.
        ValueError: no name, or too many cells.
    """
    if not strata or not names:
        raise ValueError("expected at least one attribute of strata, and one within them")
    together = (*strata, *names)
    of_strata = moments(joint, strata)
    whole = unmixed(joint, together)
    asked = joint.asked(together)
    reports = asked.shares.reshape(-1)
    sizes = of_strata.values.shape
    inside = whole.reshape(of_strata.values.size, -1)
    cells, others = inside.shape
    if inside.size * max(inside.size, len(reports)) > MAX_TABLE_SCORES:
        raise ValueError(f"{inside.size:,} cells of all strata: too many to compute errors")
    clear = of_strata.values >= CLEAR * np.sqrt(of_strata.variances / joint.n)
    values = np.full((cells, others), np.nan)
    errors: dict[About, Floats] = {
        "respondents": np.full((cells, others), np.nan),
        "population": np.full((cells, others), np.nan),
    }
    for stratum, (share, known) in enumerate(
        zip(of_strata.values.ravel(), clear.ravel(), strict=True)
    ):
        if not share > 0:
            continue
        values[stratum] = inside[stratum] / share
        if not known:
            continue
        linear = np.zeros((others, cells, others))
        linear[:, stratum] = (np.eye(others) - values[stratum][:, np.newaxis]) / share
        weights = linear.reshape(others, *whole.shape)
        scores = functional_table(asked, together, weights).reshape(others, -1)
        population = scores**2 @ reports
        given = population - (linear.reshape(others, -1) ** 2) @ whole.reshape(-1)
        scale = population / joint.n
        # Of every report, what it adds to the variance of each share.
        added = scores**2 - functional_table(asked, together, weights**2).reshape(others, -1)
        each = (scores**2).max(axis=1) / joint.n**2
        errors["population"][stratum] = standard_errors(scale, scale, each)
        each = added.max(axis=1) / joint.n**2
        errors["respondents"][stratum] = standard_errors(given / joint.n, scale, each)
    shape = (*sizes, *whole.shape[len(strata) :])
    table = values.reshape(shape)
    respondents = errors["respondents"].reshape(shape)
    sampled = errors["population"].reshape(shape)
    return Table(
        names=together,
        categories=tuple(joint.survey.attribute(name).categories for name in together),
        values=table,
        standard_errors=respondents,
        population_errors=sampled,
        n=joint.n,
        law=NormalLaw.of_errors(table, respondents, sampled),
    )
