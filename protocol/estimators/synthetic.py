"""Synthetic records that follow an estimate, or weights of records."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocol.crypto.randomness import WORDS, Stream
from protocol.estimators.calibration.adjustment import AdjustedEstimate
from protocol.estimators.estimate import Estimate
from protocol.randomizers import split_codes
from protocol.surveys.records import Records
from protocol.surveys.survey import Survey, check_partition
from protocol.wire.arrays import MAX_TABLE_CELLS

_LARGEST_WORD = float(np.nextafter(float(WORDS), 0.0))


def synthesize(
    estimate: Estimate,
    n: int,
    stream: Stream,
    *,
    clusters: Sequence[Sequence[str]] | None = None,
) -> Records:
    """Draw records of the estimated joint distribution of each cluster, independent of the others.

    The distribution of a cluster is its table projected onto the simplex, with probabilities
    rounded to multiples of 2**-64 (``draw``). Dependence between attributes of different
    clusters is lost. The records are post-processing of the reports: they cost nothing more.

    Args:
        estimate: the estimate that the records follow.
        n: the number of records, at least 1.
        stream: the source of the draws, n words per cluster in the order given.
        clusters: a partition of the survey's attributes; by default ``Estimate.clusters``, those
            that were randomized together, but after RR-Adjustment whole records by their weights.

    Raises:
        SurveyError: a name that the survey does not have, or twice in one cluster.
        ValueError: ``n`` below 1, no partition, none given without a default, a cluster
            of more than 2**27 cells, or a table that the estimate cannot give.
    """
    if n < 1:
        raise ValueError(f"{n} records: expected at least 1")
    if clusters is None:
        if isinstance(estimate, AdjustedEstimate):
            codes, weights = estimate.counts.codes, estimate.adjusted.weights
            return synthesize_weighted(codes, weights, estimate.survey, n, stream)
        clusters = estimate.clusters
        if not clusters:
            raise ValueError(
                "the estimate does not say which attributes to draw together, as that of whole "
                "reports does: expected clusters"
            )
    survey = estimate.survey
    check_partition(survey, clusters)
    for names in clusters:
        cells = math.prod(survey.sizes_of(names))
        if cells > MAX_TABLE_CELLS:
            raise ValueError(
                f"cluster {tuple(names)} has {cells} cells, more than {MAX_TABLE_CELLS}: "
                "draw from smaller clusters"
            )
    codes = np.empty((n, len(survey.names)), survey.dtype)
    for names in clusters:
        table = estimate.table(*names, projection="simplex").values
        cell = draw(table.ravel(), n, stream).astype(np.uint64)
        codes[:, survey.axes(names)] = split_codes(cell, survey.sizes_of(names), survey.dtype)
    return Records(survey, codes)


def synthesize_weighted(
    codes: NDArray[np.integer], weights: ArrayLike, survey: Survey, n: int, stream: Stream
) -> Records:
    """Draw whole records with given weights, with replacement: for reports after RR-Adjustment.

    A drawn record is one that somebody reported. The records must be randomized reports, never
    true answers.

    Args:
        codes: shape (u, m), one record per weight, columns in the survey's order.
        weights: shape (u,), in proportion to the probabilities.
        survey: the survey that was asked.
        n: how many, at least 1.
        stream: the source of the draws, n words.

    Raises:
        SurveyError: codes that are not records of the survey.
        ValueError: ``n`` below 1, or weights as ``draw`` refuses them or not one per record.
    """
    if n < 1:
        raise ValueError(f"{n} records: expected at least 1")
    records = Records(survey, codes)
    given = np.asarray(weights, np.float64)
    if given.shape != (len(records),):
        raise ValueError(f"weights of shape {given.shape}, expected ({len(records)},)")
    return Records(survey, records.codes[draw(given, n, stream)])


def draw(weights: NDArray[np.float64], n: int, stream: Stream) -> NDArray[np.intp]:
    """Draw n places with probabilities in proportion to weights, one word of the stream each.

    A probability is a multiple of 2**-64, the nearest to the weight's share of the total in double
    precision. The first place of the largest weight takes what rounding leaves over. A weight of 0
    is never drawn.

    Args:
        weights: shape (u,), none negative.
        n: the number of draws.
        stream: the source of the draws.

    Returns:
        Places below u, shape (n,).

    Raises:
        ValueError: no axis or several, or a weight that is negative or not finite, or none that is
            positive.
    """
    if weights.ndim != 1 or not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(
            f"weights of shape {weights.shape}: expected one axis, finite, none below 0"
        )
    largest = float(weights.max(initial=0.0))
    if largest == 0:
        raise ValueError("no weight is positive")
    # Scaled first, so that the total cannot overflow.
    scaled = weights / largest
    scaled *= WORDS / float(scaled.sum())
    # 2**64 itself does not fit into a word.
    whole = np.minimum(np.rint(scaled), _LARGEST_WORD).astype(np.uint64)
    top = int(np.argmax(weights))
    # The total of all is 0 modulo 2**64, so this also takes off what is too much.
    whole[top : top + 1] -= whole.sum(dtype=np.uint64)
    possible = whole > 0
    # All of 2**64 is 0 in a word: nothing else can be drawn then.
    possible[top] = True
    places = np.flatnonzero(possible)
    bounds = np.cumsum(whole[places], dtype=np.uint64)[:-1]
    return places[np.searchsorted(bounds, stream.words(n), side="right")]
