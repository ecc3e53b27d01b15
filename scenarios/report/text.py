"""Tables and paragraphs for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from protocol.audit import Audit
from protocol.privacy.ledger import Account
from protocol.transcript.entries import Header
from protocol.transcript.verification import Verification
from scenarios.errors import printable
from scenarios.report.rounds import Round
from scenarios.scenario import Finished, Scenario

_FAULTS = 50
_ATTRIBUTES = 60
"""The most attributes that a table or a line lists."""

_NAMED = 12
"""Up to so many attributes are named even if their figures are all the same."""

UNTOLD = (
    "A file that was rewritten whole cannot be told from the original without a digest that was "
    "published elsewhere: pass it with --digest."
)


def scenarios_report(scenarios: Sequence[Scenario[Any]]) -> Iterator[RenderableType]:
    """The scenarios, then the reproductions, with their parameters."""
    groups = (
        ("Scenarios", [s for s in scenarios if not s.reproduces]),
        ("Reproductions of papers", [s for s in scenarios if s.reproduces]),
    )
    for place, (title, members) in enumerate(group for group in groups if group[1]):
        yield Padding(_text(title, style="underline"), (1 if place else 0, 0, 1, 0))
        yield from map(scenario_table, members)


def scenario_table(scenario: Scenario[Any]) -> RenderableType:
    """A scenario's name, summary and parameters."""
    table = Table(box=None, padding=(0, 2, 0, 4), show_header=False)
    for name, default, description in scenario.describe():
        table.add_row(_text(name), _text(default), _text(description), style="dim")
    summary = Padding(_text(scenario.summary), (0, 0, 0, 2))
    return Group(_text(scenario.name, style="bold"), summary, table)


def outcome_report(name: str, finished: Finished) -> Iterator[RenderableType]:
    """Estimates beside the truth, and what the run cost."""
    outcome = finished.outcome
    title = f"{name}: {outcome.variant.survey.title}"
    yield from _rows_report(title, finished) if finished.rows else _marginals(title, finished)
    yield from map(_text, finished.notes)
    yield _text(
        f"{outcome.answered:,} of {len(outcome.endings):,} parties answered for "
        f"{outcome.estimate.n:,} respondents over {outcome.transport}, "
        f"in {outcome.seconds:.1f} s"
    )
    for reason, count in outcome.trouble.items():
        yield _text(f"  {count:,} parties: {reason}")
    yield _text(f"{outcome.messages:,} messages, {outcome.bytes:,} bytes")
    yield _text(
        f"epsilon {_epsilon(outcome.ledger.record_epsilon)} per record; "
        + _by_attribute(outcome.ledger.attribute_epsilon)
    )
    yield _text(f"digest {outcome.digest.hex()}")
    if outcome.seed is not None:
        yield _text("This was a simulation: its seed is in the transcript, so it protects nobody.")


def verification_report(verification: Verification) -> Iterator[RenderableType]:
    """Whether a transcript is intact, and every fault."""
    for fault in verification.faults[:_FAULTS]:
        yield _text(f"fault: {fault}", style="red")
    more = len(verification.faults) - _FAULTS + verification.faults_left_out
    if more > 0:
        yield _text(f"and {more:,} more faults; --json lists them", style="red")
    if verification.torn:
        yield _text("incomplete: the file breaks off inside a block, as after a crash")
    elif verification.header is None and not verification.faults:
        yield _text("incomplete: the file ends before its header, as after a crash")
    elif verification.ending is None and verification.header is not None:
        yield _text("incomplete: the file has no closing record, as after a crash")
    elif verification.ending is not None and not verification.ending.complete:
        yield _text(f"incomplete: the run did not come to its end: {verification.ending.reason}")
    if verification.digest is not None:
        yield _text(
            f"{verification.entries:,} entries, {verification.messages:,} messages sent, "
            f"{verification.undelivered:,} of them never delivered"
        )
        yield _text(f"digest {verification.digest.hex()}")
    if verification.intact:
        yield _text("intact", style="bold green")
        if not verification.compared:
            yield _text(UNTOLD)
    else:
        yield _text("NOT intact", style="bold red")


def audit_report(audit: Audit) -> Iterator[RenderableType]:
    """The verdict, then what it rests on."""
    if audit.simulated:
        yield _text(
            "The transcript holds its seed: whoever has it can undo every randomization. "
            "It protects nobody.",
            style="bold",
        )
    yield (
        _text("accepted", style="bold green")
        if audit.accepted
        else _text("NOT accepted", style="bold red")
    )
    for remark in audit.remarks:
        yield _text(f"  malformed, and survived: {remark}")
    for finding in audit.findings:
        yield _text(f"  {finding}", style="red")
    complete = audit.completeness
    yield _text(f"{complete.answered:,} of {complete.parties:,} parties were counted")
    for closing in complete.closings:
        missing, left_out = _some(closing.missing), _some(closing.left_out)
        which = f" (round {closing.round})" if closing.round >= 0 else ""
        yield _text(
            f"  {closing.kind}{which}: {closing.counted:,} of {closing.awaited:,} counted"
            + (f"; missing {missing}" if missing else "")
            + (f"; left out though delivered in time: {left_out}" if left_out else "")
        )
    for reason, names in _grouped(complete.departed).items():
        yield _text(f"  left, {reason}: {len(names):,} ({_some(names)})")
    for reason, count in complete.refused.items():
        yield _text(f"  refused {count:,} times: {reason}")
    if complete.lost:
        yield _text(f"  {complete.lost:,} messages were sent and never delivered")
    yield from _privacy_report(audit)
    replay = audit.replay
    if replay is None:
        yield _text("no result was published")
    elif replay.follows is None:
        yield _text("whether the result follows cannot be told: it needs randomness not on record")
    elif replay.follows:
        counted = f" of {audit.estimate.n:,} respondents" if audit.estimate else ""
        yield _text(f"the published result{counted} follows from the reports on record")
    if audit.verification.digest is not None:
        yield _text(f"digest {audit.verification.digest.hex()}")
    if not audit.verification.compared:
        yield _text(UNTOLD)


def trail_report(account: Account) -> RenderableType:
    """The messages behind one party's figures."""
    table = Table(title=_text(f"what {account.party} told"), title_justify="left")
    for column in ("message", "kind", "epsilon", "about"):
        table.add_column(column)
    for charge in account.trail:
        table.add_row(
            f"#{charge.seq}",
            _text(charge.kind),
            _epsilon(charge.loss.record),
            _text(_by_attribute(charge.loss.attributes)),
        )
    return table


def header_report(header: Header) -> RenderableType:
    """What a transcript is about, in one line."""
    return _text(
        f"{header.variant}, {len(header.roster) - 1:,} parties, session {header.session.hex()}, "
        f"over {header.transport}"
    )


def rounds_report(rounds: Iterable[Round]) -> Iterator[RenderableType]:
    """Who said what to whom, round by round."""
    for place, round_ in enumerate(rounds, 1):
        table = Table(title=f"round {place}", title_justify="left")
        for column in ("from", "to", "kind"):
            table.add_column(column)
        for column in ("messages", "delivered", "bytes"):
            table.add_column(column, justify="right")
        for flow in round_.flows:
            table.add_row(
                _members(flow.senders),
                _members(flow.recipients),
                _text(flow.kind),
                f"{flow.messages:,}",
                f"{flow.delivered:,}" if flow.delivered is not None else "",
                f"{flow.bytes:,}",
            )
        yield table
        for note in round_.notes:
            yield _text(f"  {note}")


def rows_table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> RenderableType:
    """The rows of a query."""
    table = Table()
    for column in columns:
        table.add_column(_text(column))
    for row in rows:
        table.add_row(*(_text("" if value is None else str(value)) for value in row))
    return table


def _privacy_report(audit: Audit) -> Iterator[RenderableType]:
    ledger = audit.ledger
    bound = "at least" if audit.partial else "at most"
    yield _text(
        f"{ledger.observer} learned about each respondent {bound} epsilon "
        f"{_epsilon(ledger.record_epsilon)} (pure, sequential composition)"
    )
    if audit.partial:
        yield _text("  no bound: the record could not be read to its end", style="red")
    for reason in ledger.unbounded:
        yield _text(f"  unbounded: {reason}")
    table = Table(box=None, padding=(0, 2), show_header=False)
    for name, epsilon in ledger.attribute_epsilon.items():
        table.add_row(_text(name), _epsilon(epsilon))
    yield table
    for claim in audit.claims:
        figure = "" if claim.epsilon is None else f" = {_epsilon(claim.epsilon)}"
        yield _text(f"claimed by {claim.source}: {claim.says}{figure}")


def _epsilon(value: float) -> str:
    return "infinite" if math.isinf(value) else f"{value:.6g}"


def _marginals(title: str, finished: Finished) -> Iterator[RenderableType]:
    """The table of every attribute, beside the truth."""
    table = Table(title=_text(title), title_justify="left")
    records = finished.outcome.records
    for column in ("attribute", "category"):
        table.add_column(column)
    for column in (*(() if records is None else ("truth",)), "estimate", "standard error"):
        table.add_column(column, justify="right")
    if records is not None:
        records = finished.reported.recoded(records)
    marginals = finished.reported.marginals(finished.projection)
    for attribute, marginal in islice(marginals.items(), _ATTRIBUTES):
        figures = [marginal.values]
        if marginal.standard_errors is not None:
            figures.append(marginal.standard_errors)
        if records is not None:
            figures.insert(0, records.distribution([attribute]))
        shown = attribute
        for category, *row in zip(marginal.categories[0], *figures, strict=True):
            table.add_row(_text(shown), _text(category), *map(_figure, row))
            shown = ""
        table.add_section()
    yield table
    if len(marginals) > _ATTRIBUTES:
        yield _text(f"and {len(marginals) - _ATTRIBUTES:,} more attributes, in result.json")


def _rows_report(title: str, finished: Finished) -> Iterator[RenderableType]:
    """A scenario's own rows."""
    table = Table(title=_text(title), title_justify="left", box=SIMPLE_HEAD)
    for column in finished.rows[0]:
        table.add_column(_text(column), justify="right")
    for row in finished.rows[:_ATTRIBUTES]:
        table.add_row(*map(_cell, row.values()))
    yield table
    if len(finished.rows) > _ATTRIBUTES:
        yield _text(f"and {len(finished.rows) - _ATTRIBUTES:,} more rows, in result.json")


def _cell(value: str | float | None) -> Text | str:
    if isinstance(value, str):
        return _text(value)
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else _figure(value)


def _figure(value: float) -> str:
    """Four digits, or nothing where there is no estimate."""
    return f"{value:.4f}" if math.isfinite(value) else ""


def _by_attribute(epsilons: Mapping[str, float]) -> str:
    """The loss of every attribute, in one line."""
    if len(epsilons) > _NAMED and len(set(epsilons.values())) == 1:
        return f"{_epsilon(next(iter(epsilons.values())))} for each of {len(epsilons):,} attributes"
    listed = [f"{name} {_epsilon(value)}" for name, value in islice(epsilons.items(), _ATTRIBUTES)]
    more = len(epsilons) - len(listed)
    return ", ".join(listed) + (f" and {more:,} more attributes" if more else "")


def _members(names: tuple[str, ...]) -> Text:
    return _text(names[0] if len(names) == 1 else f"{len(names):,} members")


def _text(content: str, style: str = "") -> Text:
    """Text as it is: neither markup nor control characters of a transcript do anything."""
    return Text(printable(content), style=style)


def _some(names: Iterable[str], at_most: int = 3) -> str:
    listed = list(names)
    return ", ".join(listed[:at_most]) + (", ..." if len(listed) > at_most else "")


def _grouped(reasons: Any) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        groups.setdefault(reason, []).append(name)
    return groups
