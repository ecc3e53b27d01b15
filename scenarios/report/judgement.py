"""An audit as tables and paragraphs for a terminal; what it says is computed elsewhere."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from rich.console import RenderableType
from rich.table import Table

from protocol.accounting.composition import Composition
from protocol.audit.at_delta import WorstRespondent
from protocol.audit.audit import Audit
from protocol.audit.claims import ClaimCheck
from protocol.audit.completeness import Closing
from protocol.audit.findings import Finding
from protocol.audit.ledger import Account
from protocol.messages import NO_ROUND, PartyId
from scenarios.report.formatting import count
from scenarios.report.replays import records_unproved
from scenarios.report.terminal.text import (
    by_attribute,
    contradiction_lines,
    nats,
    plain,
    published_line,
    signed_lines,
)

_LISTED = 60
"""The most attributes, findings or parties that are listed."""

_NAMED = 12
"""Up to so many attributes have a line each, unless their figures are all the same."""


def audit_report(
    audit: Audit,
    *,
    notes: Iterable[str] = (),
    worst: WorstRespondent | None = None,
    no_delta: str = "",
    others: Iterable[Composition] = (),
) -> Iterator[RenderableType]:
    """The verdict, then what it rests on.

    Args:
        notes: what was not looked at, and why.
        worst: what a tighter accountant says of the respondent of whom most was learned.
        no_delta: why the figure is missing; empty if it is there, or nothing was told.
        others: second opinions on her.
    """
    if audit.simulated:
        yield plain(
            "The transcript holds its seed: whoever has it can undo every randomization. "
            "It protects nobody.",
            style="bold",
        )
    yield (
        plain("accepted", style="bold green")
        if audit.accepted
        else plain("NOT accepted", style="bold red")
    )
    for remark in audit.remarks:
        yield plain(f"  malformed, and survived: {_with_entries(remark)}")
    for finding in audit.findings[:_LISTED]:
        yield plain(f"  {_with_entries(finding)}", style="red")
    if len(audit.findings) > _LISTED:
        more = count(len(audit.findings) - _LISTED, "more finding")
        yield plain(f"  and {more}", style="red")
    yield from map(plain, _taking_part(audit))
    yield from _privacy_report(audit)
    # Where nothing bounds the sum, nothing bounds it at a delta either.
    if worst is not None and math.isfinite(worst.composition.epsilon):
        yield from map(plain, _at_delta(worst, others, partial=audit.partial))
    if no_delta and math.isfinite(audit.ledger.record_epsilon):
        yield plain(no_delta)
    yield from map(plain, _claims(audit))
    yield from map(plain, _result_lines(audit))
    yield from map(plain, _replay_lines(audit))
    yield from map(plain, notes)
    yield from map(plain, signed_lines(audit.verification))
    if audit.verification.digest is not None:
        yield plain(f"digest {audit.verification.digest.hex()}")
    yield from contradiction_lines(audit.verification)
    yield plain(published_line(audit.verification))


def trail_report(account: Account) -> RenderableType:
    """The messages behind one party's figures."""
    table = Table(title=plain(f"what {account.party} told"), title_justify="left")
    for column in ("message", "kind", "epsilon", "about"):
        table.add_column(column)
    for charge in account.trail:
        table.add_row(
            f"#{charge.seq}",
            plain(charge.kind),
            nats(charge.loss.record),
            plain(by_attribute(charge.loss.attributes)),
        )
    return table


def lines_report(title: str, lines: Iterable[str]) -> Iterator[RenderableType]:
    """A heading, and lines under it."""
    yield plain("")
    yield plain(title, style="underline")
    for line in lines:
        yield plain(f"  {line}")


def _with_entries(finding: Finding) -> str:
    if not finding.entries:
        return finding.text
    listed = ", ".join(map(str, finding.entries[:5]))
    more = ", ..." if len(finding.entries) > 5 else ""
    return f"{finding.text} [{'entry' if len(finding.entries) == 1 else 'entries'} {listed}{more}]"


def _taking_part(audit: Audit) -> Iterator[str]:
    complete = audit.completeness
    were = "was" if complete.counted == 1 else "were"
    parties = count(complete.parties, "party", "parties")
    yield f"{complete.counted:,} of {parties} {were} counted for the estimate"
    yield from map(_closing_line, complete.closings[:_LISTED])
    if len(complete.closings) > _LISTED:
        yield f"  and {count(len(complete.closings) - _LISTED, 'more round')}"
    for reason, names in _grouped(complete.departed).items():
        yield f"  left, {reason}: {len(names):,} ({_some(names)})"
    for reason, times in complete.refused.items():
        yield f"  refused {count(times, 'time')}: {reason}"
    if complete.lost:
        were = "was" if complete.lost == 1 else "were"
        yield f"  {count(complete.lost, 'message')} {were} sent and never delivered"


def _closing_line(closing: Closing) -> str:
    missing, left_out = _some(closing.missing), _some(closing.left_out)
    which = f" (round {closing.round})" if closing.round != NO_ROUND else ""
    return (
        f"  {closing.kind}{which}: {closing.counted:,} of {closing.awaited:,} counted"
        + (f"; missing {missing}" if missing else "")
        + (f"; left out though delivered in time: {left_out}" if left_out else "")
    )


def _privacy_report(audit: Audit) -> Iterator[RenderableType]:
    ledger = audit.ledger
    record = ledger.record_epsilon
    if math.isinf(record):
        yield plain(f"no epsilon bounds what {ledger.observer} learned about a respondent")
    else:
        bound = "at least" if audit.partial else "at most"
        yield plain(
            f"{ledger.observer} learned about each respondent {bound} epsilon "
            f"{nats(record)} (pure, sequential composition)"
        )
    if audit.partial:
        yield plain("  no bound: the record could not be read whole", style="red")
    for reason in ledger.unbounded:
        yield plain(f"  unbounded: {reason}")
    yield from _attributes(ledger.attribute_epsilon)


def _attributes(epsilons: Mapping[str, float]) -> Iterator[RenderableType]:
    """What was learned by attribute: one line if it is the same of all, else one for each figure
    where there are many."""
    names: dict[float, list[str]] = {}
    for name, epsilon in epsilons.items():
        names.setdefault(epsilon, []).append(name)
    if len(names) == 1 and len(epsilons) > 1:
        [epsilon] = names
        said = "no bound" if math.isinf(epsilon) else nats(epsilon)
        yield plain(f"  {said} for each of {len(epsilons):,} attributes")
        return
    if len(epsilons) <= _NAMED:
        rows = [(name, epsilon) for name, epsilon in epsilons.items()]
    else:
        rows = [(_some(alike, _NAMED), epsilon) for epsilon, alike in names.items()]
    table = Table(box=None, padding=(0, 2), show_header=False)
    for name, epsilon in rows[:_LISTED]:
        table.add_row(plain(name), "no bound" if math.isinf(epsilon) else nats(epsilon))
    yield table
    if len(rows) > _LISTED:
        yield plain(f"  and {len(rows) - _LISTED:,} more figures")


def _at_delta(
    worst: WorstRespondent, others: Iterable[Composition], *, partial: bool
) -> Iterator[str]:
    """What tighter accountants say of the respondent of whom most was learned."""
    compositions = (worst.composition, *others)
    bound = "at least" if partial else "at most"
    whom = "each respondent" if worst.everybody else f"those of {worst.party}"
    for found in compositions:
        yield (
            f"about {whom}, at delta {found.delta:g}, {bound} epsilon {nats(found.epsilon)} "
            f"({found.method})"
        )
    for relation in dict.fromkeys(found.relation for found in compositions):
        yield f"  neighbours: {relation}"
    for assumption in dict.fromkeys(found.assumption for found in compositions):
        yield f"  assumption: {assumption}"
    if not worst.everybody:
        yield "  others may have told more: the accounts are too different to compose them all"


def _claims(audit: Audit) -> Iterator[str]:
    for check in audit.checks:
        claim = check.claim
        figure = "" if claim.epsilon is None else f" = {nats(claim.epsilon)}"
        yield f"claimed by {claim.source}: {claim.says}{figure}"
        yield f"  {_beside(check, partial=audit.partial)}"


def _beside(check: ClaimCheck, *, partial: bool) -> str:
    """What the record shows of a claim."""
    least = "at least " if partial else ""
    shown = f"on record: {least}{nats(check.record)} {check.about}"
    if check.claim.epsilon is None or check.factor is None:
        return shown
    if math.isinf(check.factor):
        return f"{shown}, which is infinitely many times the claim"
    if math.isclose(check.factor, 1.0, rel_tol=1e-9):
        return f"{shown}, as claimed"
    return f"{shown}, {least}{check.factor:.3g} times the claim"


def _result_lines(audit: Audit) -> Iterator[str]:
    replay = audit.replay
    if replay is None:
        yield "no result was published"
    elif replay.follows is None:
        yield f"whether the result follows cannot be told: {replay.why}"
    elif replay.follows and audit.estimate is None:
        yield "the published result follows from the reports on record, and cannot be read"
    elif replay.follows:
        counted = f" of {count(audit.estimate.n, 'respondent')}" if audit.estimate else ""
        yield f"the published result{counted} follows from the reports on record"
        exact = replay.compared - len(replay.tolerated)
        are = "is as it" if exact == 1 else "are as they"
        yield f"  {count(exact, 'message')} of the aggregator {are} must be, to the byte"
        if replay.tolerated:
            but = "but for the last places of derived floats"
            yield f"  {len(replay.tolerated):,} more, {but}"


def _replay_lines(audit: Audit) -> Iterator[str]:
    replays = audit.replays
    if not replays:
        return
    follows = [replay for replay in replays if replay.follows]
    messages = sum(replay.compared for replay in follows)
    yield (
        f"{len(follows):,} of {count(len(replays), 'party', 'parties')} whose keys and records are "
        f"at hand said what follows from them, in {count(messages, 'message')}"
    )
    if follows:
        yield f"  {records_unproved(audit)}"
    silenced = [replay.member for replay in follows if replay.unsaid]
    if silenced:
        yield f"  {len(silenced):,} of them would have said more: {_some(silenced)}"
    for why, many in Counter(r.why for r in replays if r.follows is None).items():
        names = [r.member for r in replays if r.follows is None and r.why == why]
        yield f"  of {many:,} it cannot be told: {why} ({_some(names)})"


def _some(names: Iterable[str], at_most: int = 3) -> str:
    listed = list(names)
    return ", ".join(listed[:at_most]) + (", ..." if len(listed) > at_most else "")


def _grouped(reasons: Mapping[PartyId, str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        groups.setdefault(reason, []).append(name)
    return groups
