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

# Number of respondents at the ends of the grid that are added, so that few reports count as widely
# spread.
_ADDED = 4.0


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class NumericMeans(Estimate):
    """The mean of every attribute, on its own scale; it has no tables.

    Args:
        survey: the survey that was asked.
        scales: of every attribute.
        randomizers: the randomizer of each attribute's reports.
        totals: of each attribute, ``MeanRandomizer.tally`` of its reports.
        respondents: their number; each reported on every attribute.

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

        Reports of one bit do not show the spread of the answers. Their error is that of answers
        drawn anew: too large by the answers' own spread, never too small on average. It is None
        with too few reports, or too similar ones. An interval about the respondents is then that
        about a population of which they are a sample, unless there are only two answers.
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
        """Refused: reports of numbers give means alone.

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

    With two scores it is the law of a count. With more, the variance follows from the mean square
    of the answers: from the reports if they show it, else the largest, that of answers drawn anew
    for each report.

    Args:
        randomizer: of the reports.
        totals: the result of ``tally``.
    """
    n = float(totals.sum())
    scores = np.array([float(score) for score in randomizer.scores])
    value = float(totals @ scores) / n
    if len(scores) == 2:
        gain = float(2 / (scores[1] - scores[0]))
        return _two_score_law(value, n, gain, two_answers=randomizer.size == 2)
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
        answers = float(np.clip((mean_square - spread) / slope, min(value**2, 1.0), 1.0))
        answers += added * (1 - answers)
        sampled = np.array([spread + slope * answers, 0.0, -1.0])
        given = np.array([spread + (slope - 1) * answers, 0.0, 0.0])
    known: dict[About, Floats] = {"respondents": given, "population": sampled}
    return CumulantLaw(
        values=np.asarray(value),
        cumulants={about: Cumulants(variance / n, skew) for about, variance in known.items()},
        steps=np.asarray(np.ptp(scores) / n),
        least=-1.0,
        most=1.0,
    )


def _two_score_law(value: float, n: float, gain: float, *, two_answers: bool) -> ErrorLaw:
    """Law of the mean of reports with two scores, as that of a share.

    Args:
        gain: probability of the larger score for the answer 1, less that for -1.
        two_answers: whether -1 and 1 are the only answers.
    """
    law = CumulantLaw.of_counts((1 + value) / 2, n, other=(1 - gain) / 2, gain=gain)
    if not two_answers:
        sampled = law.cumulants["population"]
        law = replace(law, cumulants={"respondents": sampled, "population": sampled})
    return law.times(2.0, -1.0)
