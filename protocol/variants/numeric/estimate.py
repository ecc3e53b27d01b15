"""Means of every attribute from tallies of randomized numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from protocol.errors import SurveyError
from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.cumulants import CumulantLaw, Cumulants
from protocol.estimators.inference.laws import About, ErrorLaw
from protocol.estimators.projection import Projection
from protocol.estimators.tables import Cells, Estimated, Table
from protocol.randomizers.exact import Floats
from protocol.randomizers.means.means import MeanRandomizer
from protocol.surveys.records import Records
from protocol.surveys.survey import Survey
from protocol.variants.numeric.scales import Scale

# The number of respondents added at the ends of the grid, so that few reports do not make the
# spread of the answers look small.
_ADDED = 4.0


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class NumericMeans(Estimate):
    """The mean of every attribute, on its own scale; it has no tables.

    Args:
        survey: the survey that was asked.
        scales: of every attribute.
        randomizers: the randomizer of each attribute's reports.
        totals: of each attribute, ``MeanRandomizer.tally`` of its reports.
        respondents: the number of respondents; each reported on every attribute.

    Raises:
        ValueError: not one of each for every attribute, counts that do not fit, or no respondent.
    """

    survey: Survey
    scales: tuple[Scale, ...]
    randomizers: tuple[MeanRandomizer, ...]
    totals: tuple[NDArray[np.int64], ...]
    respondents: int

    def __post_init__(self) -> None:
        m = len(self.survey.names)
        if not len(self.scales) == len(self.randomizers) == len(self.totals) == m:
            raise ValueError(f"expected scales, randomizers and totals of {m} attributes")
        if self.n < 1:
            raise ValueError("no reports: expected at least one")
        for name, totals in zip(self.survey.names, self.totals, strict=True):
            if (totals < 0).any() or totals.sum() != self.n:
                raise ValueError(f"counts of {name!r}: expected {self.n} reports")

    def __repr__(self) -> str:
        return f"<NumericMeans: m={len(self.survey.names)}, n={self.n}>"

    @property
    def n(self) -> int:
        """The number of respondents."""
        return self.respondents

    def attribute_means(self) -> dict[str, Estimated]:
        """The mean of every attribute, unbiased, and its standard error given the answers.

        One bit does not determine the spread of the answers. So its error is the one that holds if
        the answers are a random sample: too large by their own spread, never too small on average.
        It is None if the reports are too few or too similar. An interval about the respondents is
        then the one about a population of which they are a sample, unless there are only two
        answers.
        """
        return {
            name: _mean(scale, randomizer, totals)
            for name, scale, randomizer, totals in zip(
                self.survey.names, self.scales, self.randomizers, self.totals, strict=True
            )
        }

    def true_means(self, records: Records) -> dict[str, float]:
        if records.survey != self.survey:
            raise SurveyError("the records are of another survey than the estimate")
        found = {}
        for place, (name, scale) in enumerate(zip(self.survey.names, self.scales, strict=True)):
            last = self.survey.sizes[place] - 1
            found[name] = scale.mean(2 * float(records.codes[:, place].mean()) / last - 1)
        return found

    def cells(self, names: tuple[str, ...]) -> Cells:
        """Refuse: reports of numbers give means only.

        Raises:
            ValueError: always.
        """
        raise ValueError("reports of numbers tell means alone: expected attribute_means()")

    def marginals(self, projection: Projection = "none") -> dict[str, Table]:
        """An empty mapping."""
        return {}

    def pairs(self, projection: Projection = "none") -> list[Table]:
        """An empty list."""
        return []


def _mean(scale: Scale, randomizer: MeanRandomizer, totals: NDArray[np.int64]) -> Estimated:
    noise, value = randomizer.noise(totals), randomizer.average(totals)
    return Estimated(
        scale.mean(value),
        None if noise is None else scale.error(math.sqrt(noise)),
        mean_law(randomizer, totals).times(float(scale.half), float(scale.middle)),
        2 * float(scale.half),
    )


def mean_law(randomizer: MeanRandomizer, totals: NDArray[np.int64]) -> ErrorLaw:
    """The law of the mean of the scores of some reports.

    For two scores it is the law of a count. For more, the variance follows from the mean square of
    the answers. It is estimated from the reports if they determine it; otherwise it is the largest,
    that of answers drawn anew for each report.

    Args:
        randomizer: of the reports.
        totals: the result of ``tally``.
    """
    n = float(totals.sum())
    scores = np.array([float(score) for score in randomizer.scores])
    value = float(totals @ scores) / n
    if len(scores) == 2:
        return _two_score_law(value, n, float(2 / (scores[1] - scores[0])), randomizer.size == 2)
    added = _ADDED / (n + _ADDED)
    mean_square = float(totals @ scores**2) / n
    third = (1 - added) * float(totals @ (scores - value) ** 3) / n
    skew = np.array([third, 0.0, 0.0, 0.0]) / n**2
    if randomizer.squares is None:
        # The added respondents have the largest scores.
        mean_square += added * (float((scores**2).max()) - mean_square)
        sampled = given = np.array([mean_square, 0.0, -1.0])
    else:
        spread, slope = map(float, randomizer.squares)
        # The mean square of the answers, which is at least the square of their mean.
        told = float(np.clip((mean_square - spread) / slope, min(value**2, 1.0), 1.0))
        told += added * (1 - told)
        sampled = np.array([spread + slope * told, 0.0, -1.0])
        given = np.array([spread + (slope - 1) * told, 0.0, 0.0])
    known: dict[About, Floats] = {"respondents": given, "population": sampled}
    return CumulantLaw(
        values=np.asarray(value),
        cumulants={about: Cumulants(variance / n, skew) for about, variance in known.items()},
        steps=np.asarray(np.ptp(scores) / n),
        least=-1.0,
        most=1.0,
    )


def _two_score_law(value: float, n: float, gain: float, told: bool) -> ErrorLaw:
    """Law of reports with two scores: of the share of the larger value, if there were only two.

    Args:
        gain: the difference in the probability of the larger score between values 1 and -1.
        told: whether there are only two values.
    """
    law = CumulantLaw.of_counts((1 + value) / 2, n, other=(1 - gain) / 2, gain=gain)
    if not told:
        sampled = law.cumulants["population"]
        law = replace(law, cumulants={"respondents": sampled, "population": sampled})
    return law.times(2.0, -1.0)
