"""What a page says of the record itself: verdict, findings, and who took part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from math import isinf

from protocol.audit.audit import Audit
from protocol.audit.completeness import Closing
from protocol.messages import AGGREGATOR, RECORD
from scenarios.report.formatting import NONE, count, cut, epsilon, odds, size, upper
from scenarios.report.page.parts import Cell, Check, Fact, Grid, Section, State, rest, some
from scenarios.report.published import PUBLISHED
from scenarios.report.rounds import Round, waits_of

FINDINGS, ENTRIES, CLOSINGS, REASONS = 40, 12, 16, 20


# Verdict


def checks_of(audit: Audit) -> tuple[Check, ...]:
    """What was asked of the record, and how it came out, the record first and privacy last."""
    return (*_record_checks(audit), *_privacy_checks(audit))


def _record_checks(audit: Audit) -> Iterable[Check]:
    verification, complete = audit.verification, audit.completeness
    faults = len(verification.faults) + verification.faults_left_out
    if faults:
        says = f"{count(faults, 'fault')} in the file: it is not what was recorded."
        yield Check("bad", "The record", says, "integrity")
    elif not verification.complete:
        says = "It breaks off or did not come to its end, so anything may be missing."
        yield Check("bad", "The record", says, "integrity")
    else:
        says = f"Its {count(verification.entries, 'entry', 'entries')} fit together, to the end."
        yield Check("good", "The record", says, "integrity")
    came_out, says = PUBLISHED[verification.published]
    yield Check(came_out, "What was published", says, "integrity")
    counted = f"{complete.counted:,} of {count(complete.parties, 'party', 'parties')}"
    if any(closing.left_out or closing.unheard for closing in complete.closings):
        says = (
            f"{counted} were counted for the estimate, and not everybody was counted as it should "
            "have been."
        )
        yield Check("bad", "The count", says, "members")
    else:
        state: State = "good" if complete.counted == complete.parties else "care"
        says = f"{counted} were counted for the estimate."
        yield Check(state, "The count", says, "members")
    replay = audit.replay
    if replay is None:
        yield Check("bad", "The result", "Nothing was published.", "findings")
    elif replay.follows is None:
        says = "Whether it follows cannot be told: that takes secrets that are not on record."
        yield Check("open", "The result", says, "findings")
    elif not replay.follows:
        yield Check("bad", "The result", "It does not follow from the record.", "findings")
    elif audit.estimate is None:
        says = "It follows from the reports on record, and cannot be read."
        yield Check("bad", "The result", says, "findings")
    else:
        yield Check("good", "The result", "It follows from the reports on record.", "estimate")
    if audit.replays:
        follow = [replay.follows for replay in audit.replays]
        whose = count(len(follow), "party", "parties")
        if False in follow:
            says = f"Those of {follow.count(False):,} of {whose} do not follow from their records."
            yield Check("bad", "Replayed words", says, "integrity")
        elif None in follow:
            says = f"Whether those of {follow.count(None):,} of {whose} follow cannot be told."
            yield Check("open", "Replayed words", says, "integrity")
        else:
            says = f"Those of {whose} follow from the keys and records at hand."
            yield Check("good", "Replayed words", says, "integrity")


def _privacy_checks(audit: Audit) -> Iterable[Check]:
    if audit.simulated:
        says = "The record holds its seed: whoever has the file can undo every randomization."
        yield Check("care", "Simulation", says, "integrity")
    ledger = audit.ledger
    if audit.partial:
        says = "No bound holds, for the record could not be read whole."
        yield Check("bad", "Privacy", says, "ledger")
    elif ledger.unbounded:
        says = f"No epsilon bounds what {observer_of(audit)} learned: {ledger.unbounded[0]}."
        yield Check("care", "Privacy", cut(says, 240), "ledger")
    elif ledger.record_epsilon == 0:
        says = f"{upper(observer_of(audit))} learned nothing about any respondent."
        yield Check("note", "Privacy", says, "ledger")
    else:
        loss = epsilon(ledger.record_epsilon)
        says = (
            f"{upper(observer_of(audit))} learned at most ε = {loss} about each respondent: "
            f"odds between two records change by {odds(ledger.record_epsilon)} at most."
        )
        yield Check("note", "Privacy", says, "ledger")


def observer_of(audit: Audit) -> str:
    """The observer in words."""
    observer = audit.ledger.observer
    if observer == AGGREGATOR:
        return "the aggregator"
    return "whoever holds the record" if observer == RECORD else cut(observer)


def verdict(audit: Audit, checks: Sequence[Check]) -> Section:
    """Accepted or not, and why."""
    wrong = len(audit.findings)
    if audit.accepted:
        lead = "The record is whole, and the published result follows from it."
    elif wrong:
        stands = "stands" if wrong == 1 else "stand"
        lead = f"{count(wrong, 'finding')} {stands} against this record or its result."
    else:
        lead = "The record is not intact."
    return Section(
        key="verdict",
        title="Accepted" if audit.accepted else "Not accepted",
        lead=lead,
        extra={
            "accepted": audit.accepted,
            "checks": checks,
            "reasons": tuple(cut(str(found), 300) for found in audit.findings[:3]),
            "more": rest(wrong, 3, "below"),
        },
    )


def facts_of(audit: Audit, rounds: Sequence[Round]) -> tuple[Fact, ...]:
    """The figures at the top."""
    complete = audit.completeness
    octets = sum(flow.bytes for round_ in rounds for flow in round_.flows)
    messages = sum(flow.messages for round_ in rounds for flow in round_.flows)
    loss = audit.ledger.record_epsilon
    bound = "at least" if audit.partial else "no bound holds" if isinf(loss) else "at most, pure"
    return (
        Fact("Parties counted", f"{complete.counted:,}", f"of {complete.parties:,}"),
        Fact("Respondents", f"{audit.estimate.n:,}" if audit.estimate else NONE, "in the result"),
        Fact("ε per respondent", epsilon(loss, least=audit.partial), bound),
        Fact("Messages", f"{messages:,}", f"{size(octets)} in {count(len(rounds), 'round')}"),
    )


def findings(audit: Audit) -> Section:
    """What is wrong, each finding with the entries behind it, and what was survived."""
    wrong = [_found(item) for item in audit.findings]
    odd = [_found(item) for item in audit.remarks]
    lead = count(len(wrong), "thing is", "things are") + " wrong." if wrong else "Nothing is wrong."
    notes: tuple[str, ...] = ()
    if wrong or odd:
        notes = ("Entries count from 0, as in the column “entry” that the query command knows.",)
    grids = []
    for key, caption, rows in (
        ("found", "What is wrong", wrong),
        ("remarks", "Malformed, and survived", odd),
    ):
        if rows:
            # A column that says nothing of anything is left out.
            heads = ("Finding", "Party", "Entries")
            kept = [i for i in range(3) if i == 0 or any(row[i] != NONE for row in rows)]
            grids.append(
                Grid(
                    key=key,
                    caption=caption,
                    columns=tuple(heads[i] for i in kept),
                    rows=tuple(tuple(row[i] for i in kept) for row in rows[:FINDINGS]),
                    more=rest(len(rows), FINDINGS, "in the JSON report"),
                )
            )
    return Section(key="findings", title="Findings", lead=lead, notes=notes, grids=tuple(grids))


def _found(found: object) -> tuple[Cell, ...]:
    entries: tuple[int, ...] = getattr(found, "entries", ())
    party = getattr(found, "party", None)
    shown = some((f"{entry:,}" for entry in entries), len(entries), ENTRIES)
    return cut(str(found), 400), cut(party or NONE), shown or NONE


# Members


def members(audit: Audit) -> Section:
    """Who was counted, who was not, and why."""
    complete = audit.completeness
    everyone = complete.counted == complete.parties
    parties = count(complete.parties, "party", "parties")
    lead = (
        f"All {parties} were counted for the estimate."
        if everyone and complete.parties > 1
        else f"{complete.counted:,} of {parties} were counted for the estimate."
    )
    notes = []
    if complete.lost:
        notes.append(f"{count(complete.lost, 'message')} never reached a recipient.")
    grids = [_closings(complete.closings)] if complete.closings else []
    departed: dict[str, list[str]] = {}
    for name, reason in complete.departed.items():
        departed.setdefault(reason, []).append(name)
    if departed:
        left = tuple(
            (cut(reason, 160), f"{len(names):,}", some(map(cut, names), len(names)))
            for reason, names in islice(departed.items(), REASONS)
        )
        grids.append(
            Grid(
                key="departed",
                caption="Who left before the end",
                columns=("Reason", "#Parties", "Who"),
                rows=left,
                more=rest(len(departed), REASONS, "reasons"),
            )
        )
    if complete.refused:
        rows = tuple(
            (cut(reason, 160), f"{times:,}")
            for reason, times in islice(complete.refused.items(), REASONS)
        )
        grids.append(
            Grid(
                key="refused",
                caption="What was refused at the switch",
                columns=("Reason", "#Times"),
                rows=rows,
                more=rest(len(complete.refused), REASONS, "reasons"),
            )
        )
    return Section(
        key="members",
        title="Who took part",
        lead=lead,
        notes=tuple(notes),
        grids=tuple(grids),
    )


def _closings(closings: Sequence[Closing]) -> Grid:
    """Every gather; where there are many, all of one kind in one row."""
    waits = waits_of(closings, at_most=CLOSINGS)
    rows = []
    for name, group in waits[:CLOSINGS]:
        missing = [who for closing in group for who in closing.missing]
        odd = [who for closing in group for who in (*closing.left_out, *closing.unheard)]
        rows.append(
            (
                cut(name),
                f"{sum(closing.awaited for closing in group):,}",
                f"{sum(closing.counted for closing in group):,}",
                some(map(cut, missing), len(missing), 3) or "nobody",
                some(map(cut, odd), len(odd), 3) or "nobody",
                some((f"{closing.entry:,}" for closing in group), len(group), 2),
            )
        )
    return Grid(
        key="closings",
        caption="What the aggregator waited for, and whom it counted",
        columns=("Kind", "#Awaited", "#Counted", "Missing", "Counted wrongly", "Entry"),
        rows=tuple(rows),
        more=rest(len(waits), CLOSINGS, "kinds"),
    )
