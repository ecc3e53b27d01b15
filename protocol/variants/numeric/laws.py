"""The laws of errors of estimated means, on the grid from -1 to 1."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from protocol.estimators.inference.cumulants import CumulantLaw, Cumulants
from protocol.estimators.inference.laws import About, ErrorLaw
from protocol.randomizers.exact import Floats
from protocol.randomizers.means.means import MeanRandomizer

# As many respondents at the ends of the grid are added to those who reported: what few reports do
# not tell of how far the answers are spread is so taken to be large.
_ADDED = 4.0


def mean_law(randomizer: MeanRandomizer, totals: NDArray[np.int64]) -> ErrorLaw:
    """The law of the mean of the scores of some reports.

    Of two scores it is that of a count. Of more, the variance follows from the mean square of the
    answers, which is taken from the reports where these tell it, and else is the largest: that of
    answers that are drawn anew for each report.

    Args:
        randomizer: of the reports.
        totals: of ``tally``.
    """
    n = float(totals.sum())
    scores = np.array([float(score) for score in randomizer.scores])
    value = float(totals @ scores) / n
    if len(scores) == 2:
        return _of_two(value, n, float(2 / (scores[1] - scores[0])), randomizer.size == 2)
    added = _ADDED / (n + _ADDED)
    mean_square = float(totals @ scores**2) / n
    third = (1 - added) * float(totals @ (scores - value) ** 3) / n
    skew = np.array([third, 0.0, 0.0, 0.0]) / n**2
    if randomizer.squares is None:
        # Of those who are added the scores are the largest.
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


def _of_two(value: float, n: float, gain: float, told: bool) -> ErrorLaw:
    """Law of reports of two scores: of the share of the larger value, if there were only two.

    Args:
        gain: how much likelier the larger score is for the value 1 than for -1.
        told: whether there are two values only.
    """
    law = CumulantLaw.of_counts((1 + value) / 2, n, other=(1 - gain) / 2, gain=gain)
    if not told:
        sampled = law.cumulants["population"]
        law = replace(law, cumulants={"respondents": sampled, "population": sampled})
    return law.times(2.0, -1.0)
