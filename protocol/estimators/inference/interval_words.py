"""Intervals in words, and sentences for their reader."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable

from protocol.estimators.inference.intervals import Intervals, Shown
from protocol.estimators.likelihood import Fit
from protocol.estimators.projection import Projection

UNKNOWN, EXACT = "unknown", "exact"
"""An interval with unknown ends, and one of width 0."""


def made_by(projection: Projection) -> str:
    """Words for the projection that made shares proper."""
    return "of maximum likelihood (em)" if projection == "em" else f"projected ({projection})"


def sentences(
    intervals: Intervals,
    figures: Collection[Shown],
    projection: Projection = "none",
    fits: Iterable[Fit | None] = (),
) -> list[str]:
    """Sentences for the reader of figures with their intervals.

    Args:
        intervals: their level and subject.
        figures: all that are shown.
        projection: of the shares.
        fits: of the tables that are shown, where EM was to fit them.
    """
    known = [figure for figure in figures if not math.isnan(figure.low + figure.high)]
    if known and all(figure.exact for figure in figures):
        return ["These are exact: nothing in them was randomized."]
    found = [f"{intervals.says}."]
    if len(known) < len(figures):
        found.append(
            "An interval is unknown where there are too few reports, where they are too much "
            "alike, or where the error of the estimate is not known."
        )
    if projection != "none":
        found.append(
            f"The shares are {made_by(projection)}, which biases them. An interval is that of the "
            "raw, unbiased estimate, so a share can lie outside its interval."
        )
    elif any(not figure.low <= figure.value <= figure.high for figure in known):
        found.append(
            "A raw estimate can be out of range, such as a share below 0. It then lies outside its "
            "interval, which holds only possible values."
        )
    short = [fit.gap for fit in fits if fit and not fit.converged]
    if short:
        found.append(
            f"EM reached its limit of steps in {len(short):,} of the tables: the log-likelihood "
            f"may be up to {max(short):.2g} below its maximum."
        )
    return found


def bracketed(found: Shown, figure: Callable[[float], str], unit: str = "") -> str:
    """The ends of an interval in brackets, or a word if they are unknown or equal."""
    if math.isnan(found.low) or math.isnan(found.high):
        return UNKNOWN
    return EXACT if found.exact else f"[{figure(found.low)}, {figure(found.high)}]{unit}"
