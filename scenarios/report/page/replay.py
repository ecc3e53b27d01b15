"""A survey step by step, from its transcript, with a slider over the steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from importlib.resources import files
from itertools import groupby
from typing import NamedTuple

from markupsafe import Markup

from protocol.estimators.inference.words import Intervals
from scenarios.report.formatting import NONE, count, cut, epsilon
from scenarios.report.page.diagrams import Mark, axis, ticks
from scenarios.report.page.page import Fact
from scenarios.report.page.svg import element, text, width_of
from scenarios.report.statement.parts import Section, rest
from scenarios.watching.standings import HELD, Line, Standing, StandingWriter
from scenarios.watching.words import event, figure

_WIDTH, _ROW, _TOP = 360.0, 22.0, 6.0

_FOR_READERS = (
    "These steps tell more about single reports than the result does. They are for whoever may "
    "read the transcript."
)


class _Step(NamedTuple):
    """One step as its template takes it."""

    number: int
    says: str
    facts: tuple[Fact, ...]


class _Panel(NamedTuple):
    """The estimates of one attribute at all steps."""

    name: str
    picture: Markup


def script() -> str:
    """What moves the slider."""
    return (files("scenarios.report") / "page" / "replay.js").read_text(encoding="utf-8")


def replay(found: StandingWriter, intervals: Intervals) -> tuple[Section, dict[str, object]]:
    """A survey step by step, and what its template draws.

    Args:
        found: has taken all steps of the transcript.
        intervals: of the estimates.
    """
    standings = found.standings()
    if not standings:
        return Section(key="replay", title="Step by step", lead="No step could be read."), {}
    notes = [f"Estimates are from what had been heard by then: {intervals.says}.", _FOR_READERS]
    if found.due > len(standings):
        notes.insert(0, f"Of {found.due:,} steps, {len(standings):,} are shown.")
    if found.stopped is not None:
        notes.append(f"The record could not be followed to its end: {found.stopped}.")
    finished = standings[-1].cause == "result"
    until = "from the first answers to the result" if finished else "as far as the record goes"
    section = Section(
        key="replay",
        title="Step by step",
        lead=f"{count(len(standings), 'step')}, {until}.",
        notes=tuple(notes),
    )
    steps = [_step(number, standing) for number, standing in enumerate(standings, 1)]
    # Of steps with an estimate the last one is with all attributes.
    left = max(standing.more for standing in standings)
    what = "keys" if any(line.of == HELD for line in standings[-1].lines) else "attributes"
    return section, {
        "steps": steps,
        "panels": tuple(_panels(standings)),
        "more": rest(left, 0, f"{what} in the result"),
    }


def _step(number: int, standing: Standing) -> _Step:
    declined = f"{standing.declined:,} declined" if standing.declined else "left midway"
    spent, how = epsilon(standing.epsilon), "at most"
    if standing.sums:
        how = "exact sums, which no ε bounds"
        spent, how = (spent, f"beside {how}") if standing.epsilon else (epsilon(math.inf), how)
    why = cut(standing.why, 100) if standing.respondents is None else "respondents"
    facts = (
        Fact("Parties heard", f"{standing.contributed:,}", f"of {standing.parties:,}"),
        Fact("Gone", f"{standing.gone:,}", declined),
        Fact("ε spent", spent, how),
        Fact("Estimate from", _respondents(standing), why),
    )
    seconds = f"after {standing.at / 1e6:,.1f} s"
    return _Step(number, f"Round {standing.round:,}, {seconds}: {event(standing)}.", facts)


def _respondents(standing: Standing) -> str:
    return NONE if standing.respondents is None else f"{standing.respondents:,}"


def _panels(standings: Sequence[Standing]) -> Iterator[_Panel]:
    """A panel for each attribute that some step has an estimate of."""
    known = next((standing.lines for standing in standings[::-1] if standing.lines), ())
    for place, (of, lines) in enumerate(groupby(known, key=lambda line: line.of)):
        labels = [line.name for line in lines]
        rows = [
            [line for line in standing.lines if line.of == of] or [Line(of, "")] * len(labels)
            for standing in standings
        ]
        yield _Panel(cut(of), _picture(f"replay-{place}", of, labels, rows))


def _picture(key: str, of: str, labels: Sequence[str], rows: Sequence[Sequence[Line]]) -> Markup:
    """Points on their intervals, the steps one above the other; those that are alike are one.

    Args:
        key: what its ids begin with.
        of: what the figures are of.
        labels: of the figures.
        rows: of each step, its figures.
    """
    marks = [_mark(line) for lines in rows for line in lines]
    percent = rows[-1][0].scale == (0.0, 1.0)
    low, high, places = axis(marks, rows[-1][0].scale or (-math.inf, math.inf))
    right = max(60.0, *(width_of(figure(line), 11.5) for lines in rows for line in lines)) + 12
    right = min(right, 150.0)
    left = min(max(40.0, *(width_of(label, 12.5) for label in labels)), _WIDTH - right - 112) + 12
    plot = _WIDTH - left - right

    def x(value: float) -> float:
        return left + plot * (min(max(value, low), high) - low) / (high - low)

    def y(row: int) -> float:
        return _TOP + _ROW * (row + 0.5)

    bottom = _TOP + _ROW * len(labels)
    parts = ticks(places, x, bottom, percent=percent)
    parts += [
        text(left - 10, y(row) + 4, label, "label end", room=left - 10)
        for row, label in enumerate(labels)
    ]
    steps = enumerate(rows, 1)
    for _, alike in groupby(steps, key=lambda step: step[1]):
        (first, lines), *others = alike
        until = others[-1][0] if others else first
        whiskers = dots = ""
        words = []
        for row, line in enumerate(lines):
            at = y(row)
            if line.low is not None and line.high is not None and line.low < line.high:
                whiskers += f"M{x(line.low):.1f} {at:g}H{x(line.high):.1f}"
            if line.value is not None and low <= line.value <= high:
                dots += f"M{x(line.value):.1f} {at:g}h0"
            words.append(element("tspan", figure(line), x=_WIDTH - 2, y=at + 4))
        last = until == len(rows)
        parts.append(
            element(
                "g",
                element("path", d=whiskers, class_="whisker"),
                element("path", d=dots, class_="dots"),
                element("text", *words, class_="words end"),
                data_step=first,
                data_until=until if others else None,
                class_="last" if last else None,
                hidden=None if last else "",
            )
        )
    return element(
        "svg",
        *parts,
        role="group",
        aria_label=cut(of),
        viewBox=f"0 0 {_WIDTH:g} {bottom + 20:g}",
        class_="intervals",
    )


def _mark(line: Line) -> Mark:
    value, low, high = (
        math.nan if each is None else each for each in (line.value, line.low, line.high)
    )
    return Mark(line.name, value, low, high, "")
