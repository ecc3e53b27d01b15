"""Tables and paragraphs for a terminal."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from protocol.audit.claims import check_claims
from protocol.estimators.analysis import Analysis
from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.words import (
    USUAL,
    Intervals,
    Shown,
    bracketed,
    decimals,
    figures_of,
    sentences,
)
from protocol.estimators.projection import Projection
from protocol.session.variant import Variant
from protocol.surveys.records import Records
from protocol.transcript.entries import Header
from scenarios.report.announced import described, title_of
from scenarios.report.formatting import count
from scenarios.report.rounds import Round, stretches_of, waits_of
from scenarios.report.sampling import design_sentences, response_sentences
from scenarios.report.statement.verdicts import has_exact_sums, on_privacy
from scenarios.report.terminal.plain import plain
from scenarios.report.terminal.statement import privacy_report
from scenarios.report.withstanding import withstood_in
from scenarios.running.scenario import Finished

if TYPE_CHECKING:
    from scenarios.running.tabulating import Tabulated

_ATTRIBUTES = 60
"""The most attributes that a table or a line lists."""

_NOTES = 12
"""The most notes on rounds that are alike."""

_WAITS = 16
"""Up to so many waits of the aggregator have a line each."""

_CATEGORIES, _LARGEST = 40, 20
"""Of an attribute with more categories, so many of the largest are listed."""

_NAMED = 12
"""Up to so many attributes are named even if their figures are all the same."""


def outcome_report(
    name: str, finished: Finished, intervals: Intervals = USUAL
) -> Iterator[RenderableType]:
    """Estimates beside the truth, and what the run cost."""
    outcome = finished.outcome
    title = f"{name}: {outcome.variant.survey.title}"
    if finished.rows:
        yield from _rows_report(title, finished)
    else:
        yield from estimate_report(
            title, finished.reported, finished.projection, intervals, truth=outcome.records
        )
    if (analysis := outcome.charter.analysis) is not None:
        yield from _announced(analysis, outcome.estimate)
    yield from map(plain, finished.notes)
    yield plain(
        f"estimated from {outcome.counted:,} of "
        f"{count(len(outcome.endings), 'party', 'parties')}, "
        f"{count(outcome.estimate.n, 'respondent')}, over {outcome.transport}, "
        f"in {outcome.seconds:.1f} s"
    )
    closings = outcome.completeness.closings
    if len(closings) > 1:
        explained: set[str] = set()
        for name, alike in waits_of(closings, at_most=_WAITS):
            awaited, counted = (sum(c.awaited for c in alike), sum(c.counted for c in alike))
            kind = alike[0].kind
            what = "" if kind in explained else outcome.charter.codec.about(kind)
            explained.add(kind)
            yield plain(
                f"  {name}: {counted:,} of {awaited:,} counted{f' ({what})' if what else ''}"
            )
    yield from map(plain, response_sentences(outcome.completeness, outcome.variant))
    yield from map(plain, design_sentences(*outcome.design))
    for reason, many in outcome.trouble.items():
        yield plain(f"  {count(many, 'party', 'parties')}: {reason}")
    yield plain(f"{count(outcome.messages, 'message')}, {count(outcome.bytes, 'byte')}")
    yield from privacy_report(
        on_privacy(
            outcome.ledger,
            alone=outcome.alone,
            checks=check_claims(outcome.variant, outcome.ledger),
            withstands=withstood_in(outcome.variant, len(outcome.charter.roster.parties)),
            simulated=outcome.seed is not None and not outcome.withheld,
            trial=outcome.withheld,
        )
    )
    yield plain(
        f"epsilon {nats(outcome.ledger.record_epsilon)} per record"
        + (", exact sums included; " if has_exact_sums(outcome.ledger) else "; ")
        + by_attribute(outcome.ledger.attribute_epsilon)
    )
    if outcome.ledger.unsigned:
        yield plain(
            f"  {count(len(outcome.ledger.unsigned), 'party', 'parties')} that signed nothing: "
            f"epsilon {nats(outcome.ledger.unsigned_epsilon)} at most"
        )
    yield plain(f"digest {outcome.digest.hex()}")
    if outcome.charter.attempt > 1:
        yield plain(
            f"This was attempt {outcome.charter.attempt}: whoever answered an earlier one has paid "
            "for both."
        )
    if outcome.withheld:
        yield _trial("transcript")


def tabulated_report(
    name: str, tabulated: Tabulated[Variant], projection: Projection, intervals: Intervals
) -> Iterator[RenderableType]:
    """Estimates of people by law, who they were, and what is comparable between engines."""
    title = f"{name}: {tabulated.variant.survey.title}"
    truth = tabulated.population.records
    reported = tabulated.reported
    yield from estimate_report(title, reported, projection, intervals, truth=truth)
    if tabulated.calibration.files:
        from scenarios.report.calibration import calibration_sentences

        yield from map(plain, calibration_sentences(reported))
    yield plain(tabulated.sentence)
    yield plain(
        f"{count(tabulated.cohorts, 'cohort')} of up to {tabulated.cohort:,}, "
        f"{count(tabulated.stages, 'question')}, by the engine {tabulated.engine!r}, "
        f"in {tabulated.seconds:.1f} s"
    )
    yield plain(
        f"epsilon {nats(tabulated.loss.record)} per record; "
        + by_attribute(tabulated.attribute_epsilon)
    )
    yield plain(f"digest {tabulated.digest.hex()}")
    if tabulated.withheld:
        yield _trial("result")


def _trial(kept: str) -> RenderableType:
    """What is said of a trial whose seed is not in what is kept of it."""
    return plain(
        "This was a trial: one program held all answers. Its seed, which undoes every "
        f"randomization, was drawn and is not in the {kept}. The truth beside the estimates is "
        "that of the answers, so it tells about them."
    )


def header_report(header: Header) -> RenderableType:
    """What a transcript is about, in one line."""
    parties = count(len(header.roster) - 1, "party", "parties")
    return plain(
        f"{header.variant}, {parties}, session {header.session.hex()}, attempt {header.attempt}, "
        f"over {header.transport}"
    )


def rounds_report(rounds: Sequence[Round], about: Callable[[str], str]) -> Iterator[RenderableType]:
    """Who said what to whom, round by round; those that are alike together.

    Args:
        rounds: as from ``rounds_of``.
        about: what a kind of message is; empty if that is not known.
    """
    explained: set[str] = set()
    for stretch in stretches_of(rounds):
        table = Table(title=stretch.name.lower(), title_justify="left")
        for column in ("from", "to", "kind"):
            table.add_column(column)
        for column in ("messages", "delivered", "bytes"):
            table.add_column(column, justify="right")
        for flow in stretch.flows:
            table.add_row(
                _members(flow.senders),
                _members(flow.recipients),
                plain(flow.kind),
                f"{flow.messages:,}",
                f"{flow.delivered:,}" if flow.delivered is not None else "",
                f"{flow.bytes:,}",
            )
        yield table
        for kind in dict.fromkeys(flow.kind for flow in stretch.flows):
            if kind not in explained and (what := about(kind)):
                yield plain(f"  {kind}: {what}.", style="dim")
            explained.add(kind)
        for note in stretch.notes[:_NOTES]:
            yield plain(f"  {note}")
        if len(stretch.notes) > _NOTES:
            yield plain(f"  and {len(stretch.notes) - _NOTES:,} more")


def rows_table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> RenderableType:
    """The rows of a query."""
    table = Table()
    for column in columns:
        table.add_column(plain(column))
    for row in rows:
        table.add_row(*(plain("" if value is None else str(value)) for value in row))
    return table


def nats(value: float) -> str:
    """A privacy loss, in nats."""
    return "infinite" if math.isinf(value) else f"{value:.6g}"


def estimate_report(
    title: str,
    reported: Estimate,
    projection: Projection,
    intervals: Intervals,
    *,
    truth: Records | None,
) -> Iterator[RenderableType]:
    """The means of an estimate if it has them, else its table of every attribute; with intervals.

    Args:
        title: above the table.
        reported: the estimate.
        projection: applied to its tables.
        intervals: their level, and what they are about.
        truth: the records that it is shown beside.
    """
    if reported.attribute_means():
        yield from _means(title, reported, intervals, truth)
    else:
        yield from _marginals(title, reported, projection, intervals, truth)


def _marginals(
    title: str,
    reported: Estimate,
    projection: Projection,
    intervals: Intervals,
    records: Records | None,
) -> Iterator[RenderableType]:
    table = Table(title=plain(title), title_justify="left")
    for column in ("attribute", "category"):
        table.add_column(column)
    for column in (*(() if records is None else ("truth",)), "estimate", intervals.name):
        table.add_column(column, justify="right")
    if records is not None:
        records = reported.recoded(records)
    marginals = reported.marginals(projection)
    figures: list[Shown] = []
    for attribute, marginal in islice(marginals.items(), _ATTRIBUTES):
        cells = figures_of(marginal.values, intervals.of(marginal))
        figure = functools.partial(_figure, digits=decimals(cells))
        columns = [
            *([] if records is None else [map(figure, records.distribution([attribute]))]),
            map(figure, marginal.values),
            [bracketed(cell, figure) for cell in cells],
        ]
        figures += cells
        head = attribute
        rows = list(zip(marginal.categories[0], *columns, strict=True))
        more = len(rows) - _LARGEST if len(rows) > _CATEGORIES else 0
        if more:
            order = np.argsort(-np.nan_to_num(marginal.values, nan=-math.inf), kind="stable")
            rows = [rows[place] for place in order[:_LARGEST]]
        for category, *row in rows:
            table.add_row(plain(head), plain(category), *row)
            head = ""
        if more:
            table.add_row("", plain(f"and {more:,} more, all smaller"))
        table.add_section()
    yield table
    if len(marginals) > _ATTRIBUTES:
        yield plain(f"and {len(marginals) - _ATTRIBUTES:,} more attributes, in result.json")
    yield from map(
        plain, sentences(intervals, figures, projection, [t.fit for t in marginals.values()])
    )


def _announced(analysis: Analysis, estimate: Estimate) -> Iterator[RenderableType]:
    """The announced tables."""
    yield plain(f"announced: {described(analysis)}")
    table = Table()
    for column in ("attributes", "categories"):
        table.add_column(column)
    for column in ("share", Intervals(analysis.level, analysis.about).name):
        table.add_column(column, justify="right")
    tables = analysis.tables_of(estimate)
    rows = ((found.names, cell) for found in tables for cell in found.cells)
    before = ""
    for names, cell in islice(rows, _ATTRIBUTES):
        title = title_of(names)
        name = "" if title == before else title
        ends = bracketed(Shown(*cell[1:]), _figure)
        table.add_row(plain(name), plain(", ".join(cell.categories)), _figure(cell.value), ends)
        before = title
    if table.row_count:
        yield table
    more = sum(len(found.cells) for found in tables) - _ATTRIBUTES
    if more > 0:
        yield plain(f"and {more:,} more cells, in result.json")
    for found in tables:
        if not found.cells:
            yield plain(f"{title_of(found.names)}: the result cannot give it: {found.why}")


def _means(
    title: str, reported: Estimate, intervals: Intervals, records: Records | None
) -> Iterator[RenderableType]:
    """The mean of every attribute, beside the truth."""
    table = Table(title=plain(title), title_justify="left")
    means = reported.attribute_means()
    table.add_column("attribute")
    for column in (*(() if records is None else ("truth",)), "mean", intervals.name):
        table.add_column(column, justify="right")
    true = {} if records is None else reported.true_means(records)
    figures: list[Shown] = []
    for name, mean in islice(means.items(), _ATTRIBUTES):
        (one,) = figures_of(mean.value, intervals.of(mean))
        figure = functools.partial(_figure, digits=decimals([one], least=0, digits=3))
        beside = [figure(true[name])] if true else []
        table.add_row(plain(name), *beside, figure(mean.value), bracketed(one, figure))
        figures.append(one)
    yield table
    if len(means) > _ATTRIBUTES:
        yield plain(f"and {len(means) - _ATTRIBUTES:,} more attributes, in result.json")
    yield from map(plain, sentences(intervals, figures))


def _rows_report(title: str, finished: Finished) -> Iterator[RenderableType]:
    table = Table(
        title=plain(title),
        title_justify="left",
        box=SIMPLE_HEAD,
        collapse_padding=True,
        pad_edge=False,
    )
    for column, cell in finished.rows[0].items():
        # A name that wraps makes two rows of one.
        table.add_column(plain(column), justify="right", no_wrap=isinstance(cell, str))
    for row in finished.rows[:_ATTRIBUTES]:
        table.add_row(*map(_cell, row.values()))
    yield table
    if len(finished.rows) > _ATTRIBUTES:
        yield plain(f"and {len(finished.rows) - _ATTRIBUTES:,} more rows, in result.json")


def _cell(value: str | float | None) -> Text | str:
    if isinstance(value, str):
        return plain(value)
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else _figure(value)


def _figure(value: float, digits: int = 4) -> str:
    """So many decimals, or nothing where there is no estimate."""
    return f"{value:.{digits}f}" if math.isfinite(value) else ""


def by_attribute(epsilons: Mapping[str, float]) -> str:
    """The loss of every attribute, in one line."""
    if len(epsilons) > _NAMED and len(set(epsilons.values())) == 1:
        return f"{nats(next(iter(epsilons.values())))} for each of {len(epsilons):,} attributes"
    listed = [f"{name} {nats(value)}" for name, value in islice(epsilons.items(), _ATTRIBUTES)]
    more = len(epsilons) - len(listed)
    return ", ".join(listed) + (f" and {more:,} more attributes" if more else "")


def _members(names: Collection[str]) -> Text:
    return plain(next(iter(names))) if len(names) == 1 else plain(f"{len(names):,} members")
