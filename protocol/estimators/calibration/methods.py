"""Calibration of an estimate to known margins of the population, by one of three methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from protocol.estimators.calibration.adjustment import AdjustedEstimate
from protocol.estimators.calibration.calibrated import Method
from protocol.estimators.calibration.linear import LinearCalibration
from protocol.estimators.calibration.margins import Margin, checked_margins
from protocol.estimators.calibration.post_stratified import PostStratification
from protocol.estimators.calibration.residuals import Residual
from protocol.estimators.estimate import Estimate
from protocol.estimators.linear import LinearEstimate


def calibrate(
    estimate: Estimate, margins: Sequence[Margin], *, method: Method = "linear"
) -> LinearEstimate[Residual] | AdjustedEstimate:
    """Make an estimate agree with known margins of the population.

    - ``linear``: every table changes by the regression of its scores on those of the margins. It is
      signed and, if the respondents are a random sample of the population, has the least variance.
      It corrects a part of the bias of nonresponse, less with more randomization. Where the reports
      contradict the margins, its errors are unknown.
    - ``post-stratified``: the shares within each cell of one margin, weighted by the known shares.
      It is signed, and right also where cells have different response rates, if those who respond
      in a cell are like the rest of it. Its variance may be larger than without calibration.
    - ``raking``: RR-Adjustment with the known margins as targets. It is never negative and biased
      towards independence; its errors are unknown.

    No method corrects for differences between those who respond and those who do not within a cell
    of the margins. The margins are taken to be exact: no figure includes their own errors.

    Args:
        estimate: made from the reports of single respondents, from releases of them
            (``CombinedReleases``) or of one table; ``raking`` needs reports of whole records.
        margins: margins of the population of the respondents; one for ``post-stratified``.
        method: one of the three.

    Raises:
        SurveyError: an unknown attribute.
        ValueError: an unknown method, an estimate of another kind, or margins that contradict each
            other or that it cannot be made to agree with.
    """
    if method not in get_args(Method):
        allowed = ", ".join(map(repr, get_args(Method)))
        raise ValueError(f"method {method!r:.60}: expected one of {allowed}")
    checked_margins(estimate.survey, margins)
    if method == "raking":
        return AdjustedEstimate.of(estimate, margins)
    if method == "linear":
        return LinearEstimate(LinearCalibration.of(estimate, margins))
    if len(margins) != 1:
        raise ValueError(
            f"{len(margins)} margins: expected one for post-stratification, which may be of "
            "several attributes together"
        )
    return LinearEstimate(PostStratification.of(estimate, margins[0]))
