"""A survey step by step, from its transcript, with a slider over the steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from markupsafe import Markup

from protocol.audit.ledger import Ledger
from protocol.estimators.inference.intervals import Intervals
from scenarios.report.page.diagrams import Mark, axis, ticks
from scenarios.report.page.svg import element, text, text_width
from scenarios.report.page.words import words
from scenarios.statement.statement import Fact, Grid, Section
from scenarios.surveys.watching.standing_words import event, figure
from scenarios.surveys.watching.standings import Line, Standing, StandingWriter
from scenarios.wording.decimals import legend_text
from scenarios.wording.formatting import NONE, count, cut, epsilon, rest

_WIDTH, _ROW, _TOP = 360.0, 22.0, 6.0

_SAME = 1e-9
"""Relative difference of two sums of the same losses, at most."""


class _Step(NamedTuple):
    """One step, for its template."""

    number: int
    says: str
    facts: tuple[Fact, ...]


class _Panel(NamedTuple):
    """Estimates of one attribute at all steps."""

    name: str
    picture: Markup
    grid: Grid


def replay(
    found: StandingWriter, intervals: Intervals, passed: Ledger
) -> tuple[Section, dict[str, object]]:
    """Section on a survey step by step, with the drawings for its template.

    Args:
        found: has taken all steps of the transcript.
        passed: the aggregator's ledger, by signed messages.
    """
    standings = found.standings()
    if not standings:
        return Section(key="replay", title="Step by step", lead="No step could be read."), {}
    known = words()["result"]["replay"]
    notes = [known["heard"].format(intervals=intervals.says), known["own_step"], known["private"]]
    last = standings[-1]
    signed = passed.record_epsilon
    short = not last.sums and last.epsilon < signed * (1 - _SAME)
    if short:
        notes.append(
            f"ε is by what was delivered. By what parties signed for, {epsilon(signed)} was spent."
        )
    if found.failed:
        notes.append(f"Estimates are not followed to the end: {cut(found.failed, 120)}.")
    if found.due > len(standings):
        notes.insert(0, f"Of {found.due:,} steps, {len(standings):,} are shown.")
    if found.stopped is not None:
        notes.append(f"The record could not be followed to its end: {found.stopped}.")
    until = {
        "result": "from the first answers to the result",
        "unreadable": "from the first answers to a result that cannot be read",
        "stopped": "as far as the record could be followed",
    }.get(last.cause, "as far as the record goes")
    section = Section(
        key="replay",
        title="Step by step",
        lead=f"{count(len(standings), 'step')}, {until}.",
        notes=tuple(notes),
    )
    steps = [_step(number, standing, short) for number, standing in enumerate(standings, 1)]
    # The last step with an estimate has all attributes.
    widest = max(standings, key=lambda standing: standing.more)
    what = "keys" if widest.keys else "attributes"
    return section, {
        "steps": steps,
        "panels": tuple(_panels(standings, intervals)),
        "more": rest(widest.more, 0, f"{what} in the result"),
    }


def _step(number: int, standing: Standing, short: bool) -> _Step:
    declined = f"{standing.declined:,} declined" if standing.declined else "left midway"
    spent, how = epsilon(standing.epsilon), "by what was delivered" if short else "at most"
    if standing.sums:
        how = "exact sums, which no ε bounds"
        spent, how = (spent, f"beside {how}") if standing.epsilon else (epsilon(math.inf), how)
    if standing.respondents is None:
        counted, why = NONE, cut(standing.why, 100)
    else:
        counted, why = f"{standing.respondents:,}", "respondents"
    facts = (
        Fact("Parties heard", f"{standing.contributed:,}", f"of {standing.parties:,}"),
        Fact("Gone", f"{standing.gone:,}", declined),
        Fact("ε spent", spent, how),
        Fact("Estimate from", counted, why),
    )
    seconds = f"after {standing.at / 1e6:,.1f} s"
    return _Step(number, f"Round {standing.round:,}, {seconds}: {event(standing)}.", facts)


def _panels(standings: Sequence[Standing], intervals: Intervals) -> Iterator[_Panel]:
    """A panel for each attribute that some step estimates."""
    known = next((standing.lines for standing in standings[::-1] if standing.lines), ())
    for place, (of, group) in enumerate(groupby(known, key=lambda line: line.of)):
        lines = list(group)
        unknown = [Line(of, line.name, scale=line.scale) for line in lines]
        rows = [
            [line for line in standing.lines if line.of == of] or unknown for standing in standings
        ]
        table = Grid(
            key=f"replay-{place}",
            caption=f"{cut(of)} at the step that is shown",
            columns=("Figure", f"#Estimate, {legend_text(intervals)}"),
            rows=tuple((cut(line.name or of), figure(line)) for line in rows[-1]),
            wide=False,
        )
        yield _Panel(cut(of), _picture(of, rows), table)


def _picture(of: str, rows: Sequence[Sequence[Line]]) -> Markup:
    """Intervals with their points, one row per step; equal steps share a row.

    Args:
        of: subject of the figures.
        rows: figures of each step.
    """
    marks = [_mark(line) for lines in rows for line in lines]
    labels, scale = [line.name for line in rows[-1]], rows[-1][0].scale
    percent = scale == (0.0, 1.0)
    low, high, places = axis(marks, scale or (-math.inf, math.inf))
    right = max(60.0, *(text_width(figure(line), 11.5) for lines in rows for line in lines)) + 12
    right = min(right, 150.0)
    left = min(max(40.0, *(text_width(label, 12.5) for label in labels)), _WIDTH - right - 112) + 12
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
        figures = []
        for row, line in enumerate(lines):
            at = y(row)
            if line.low is not None and line.high is not None and line.low < line.high:
                whiskers += f"M{x(line.low):.1f} {at:g}H{x(line.high):.1f}"
            if line.value is not None and low <= line.value <= high:
                dots += f"M{x(line.value):.1f} {at:g}h0"
            figures.append(element("tspan", figure(line), x=_WIDTH - 2, y=at + 4))
        last = until == len(rows)
        parts.append(
            element(
                "g",
                element("path", d=whiskers, class_="whisker"),
                element("path", d=dots, class_="dots"),
                element("text", *figures, class_="words end"),
                data_step=first,
                data_until=until if others else None,
                class_="last" if last else None,
                hidden=None if last else "",
            )
        )
    return element(
        "svg",
        *parts,
        role="img",
        aria_label=words()["result"]["replay"]["picture"].format(name=cut(of)),
        viewBox=f"0 0 {_WIDTH:g} {bottom + 20:g}",
        class_="intervals",
    )


def _mark(line: Line) -> Mark:
    value, low, high = (
        math.nan if each is None else each for each in (line.value, line.low, line.high)
    )
    return Mark(line.name, value, low, high, "")
