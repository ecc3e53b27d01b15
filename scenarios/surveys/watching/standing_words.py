"""Words for a standing, in a terminal and on a page."""

from __future__ import annotations

import math

from protocol.estimators.inference.interval_words import bracketed
from protocol.estimators.inference.intervals import Intervals, Shown
from scenarios.surveys.watching.standings import Line, Standing
from scenarios.wording.decimals import decimal, in_percent, legend_text
from scenarios.wording.formatting import NONE, count, cut, epsilon


def event(standing: Standing) -> str:
    """Event of a step."""
    wait, late = standing.wait, f", and {standing.late:,} late" if standing.late else ""
    if wait is not None:
        awaited = count(wait.awaited, "party", "parties")
        return f"the wait for {cut(wait.name)} is over, {wait.counted:,} of {awaited} counted{late}"
    if standing.cause == "result":
        return "the result is published"
    if standing.cause == "end":
        return "the record ends without a result"
    if standing.cause == "unreadable":
        return "the published result cannot be read"
    if standing.cause == "stopped":
        return "the record is followed up to here only"
    return f"{standing.answered:,} of {standing.asked:,} that were asked have answered{late}"


EACH_STEP = "each is for its own step, so do not stop at one that pleases"
"""Caution about intervals at many steps."""


def about(intervals: Intervals) -> str:
    """Intervals that are shown at each step."""
    return f"{legend_text(intervals)}; {EACH_STEP}"


def lost(standing: Standing) -> str:
    """Members that will not answer any more."""
    said = [f"{standing.gone:,} gone"]
    if standing.declined:
        said.append(f"{standing.declined:,} declined")
    return ", ".join(said)


def spent(standing: Standing) -> str:
    """Spending so far."""
    most = f"ε at most {epsilon(standing.epsilon)}"
    if not standing.sums:
        return most
    sums = "exact sums, which no ε bounds"
    return f"{most}, beside {sums}" if standing.epsilon else sums


def basis(standing: Standing) -> str:
    """Reports that the estimate is made of."""
    if standing.respondents is None:
        return f"no estimate: {cut(standing.why, 120)}"
    said = f"from {count(standing.respondents, 'respondent')}"
    if not standing.more:
        return said
    what = "key" if standing.keys else "attribute"
    return f"{said}; {count(standing.more, f'more {what}')} not shown"


def figure(line: Line) -> str:
    """An estimated figure with its interval; the interval alone if noise put it out of range."""
    if line.value is None:
        return NONE
    shown = Shown(
        *(math.nan if each is None else each for each in (line.value, line.low, line.high))
    )
    percents = line.scale == (0.0, 1.0)
    write, unit = (in_percent([shown]), " %") if percents else (decimal([shown]), "")
    if shown.exact:
        return f"{write(shown.value)}{unit}"
    if shown.value < shown.low or shown.value > shown.high:
        return bracketed(shown, write, unit)
    return f"{write(shown.value)}{unit} {bracketed(shown, write)}"


def sentence(standing: Standing) -> str:
    """A step in a line, for where nothing can be drawn."""
    said = [
        f"{standing.at / 1e6:.1f} s",
        f"round {standing.round:,}",
        event(standing),
        *((lost(standing),) if standing.gone or standing.declined else ()),
        spent(standing),
        basis(standing),
    ]
    first = [line for line in standing.lines if line.of == standing.lines[0].of][:3]
    if first:
        shares = ", ".join(f"{cut(line.name, 24)} {figure(line)}".strip() for line in first)
        said.append(f"{cut(first[0].of)}: {shares}")
    return "; ".join(said)
