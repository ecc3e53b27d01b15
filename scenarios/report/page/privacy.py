"""What a page says of privacy: what an observer learned, and claims beside the record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import nsmallest

from protocol.accounting.composition import Composition
from protocol.audit.audit import Audit
from protocol.audit.claims import ClaimCheck
from protocol.audit.ledger import REFUSED, Account, Charge, Ledger
from scenarios.report.formatting import NONE, cut, epsilon, odds, ratio, upper
from scenarios.report.page import diagrams
from scenarios.report.page.parts import Cell, Grid, Section, State, rest, some
from scenarios.report.page.record import observer_of

ATTRIBUTES, GROUPS, TRAIL, CLAIMS = 40, 10, 4, 20


def ledger(
    audit: Audit, compositions: Sequence[Composition], *, everybody: bool, no_delta: str
) -> Section:
    """What the observer learned, by attribute and by respondent.

    Args:
        everybody: whether the compositions bound what every respondent told.
        no_delta: why the composition at a delta is missing; empty if it is not.
    """
    ledger = audit.ledger
    observer, record = observer_of(audit), ledger.record_epsilon
    notes = []
    if audit.partial:
        loss = epsilon(record, least=True)
        lead = f"{upper(observer)} learned at least ε = {loss} about a respondent."
        notes.append("It is no bound: the record could not be read whole.")
    elif ledger.unbounded:
        lead = f"No ε bounds what {observer} learned about a respondent."
    elif record == 0:
        lead = f"{upper(observer)} learned nothing about any respondent."
    else:
        lead = f"{upper(observer)} learned at most ε = {epsilon(record)} about each respondent."
        notes.append(
            f"Whatever {observer} believed before, the odds between any two records of a "
            f"respondent can change by {odds(record)} at most."
        )
    grids = [_attributes(ledger), _groups(ledger)]
    # Where nothing bounds the sum, nothing bounds it at a delta either.
    bounds = [found for found in compositions if math.isfinite(found.epsilon)]
    if bounds:
        grids.append(_compositions(bounds, record, partial=audit.partial))
        if not everybody:
            notes.append("At a δ, others than the respondent shown may have told more.")
    if no_delta and math.isfinite(record):
        notes.append(f"{upper(cut(no_delta, 300))}.")
    return Section(
        key="ledger",
        title=f"What {observer} learned",
        lead=lead,
        notes=tuple(notes),
        grids=tuple(grids),
        extra={
            "unbounded": tuple(cut(reason, 300) for reason in ledger.unbounded[:GROUPS]),
            "more": rest(len(ledger.unbounded), GROUPS, "reasons"),
        },
    )


def _attributes(ledger: Ledger) -> Grid:
    losses = ledger.attribute_epsilon
    largest = max((loss for loss in losses.values() if math.isfinite(loss)), default=0.0)
    rows = tuple(
        (
            cut(name),
            epsilon(loss),
            odds(loss) if loss else "none",
            diagrams.bar(loss / largest if largest else 0.0, unbounded=math.isinf(loss)),
        )
        for name, loss in list(losses.items())[:ATTRIBUTES]
    )
    return Grid(
        key="attributes",
        caption="The most that was learned, for two records that differ in one attribute",
        columns=("Attribute", "#ε", "Change of odds, at most", "~ε beside the others"),
        rows=rows,
        more=rest(len(losses), ATTRIBUTES, "attributes"),
    )


def _groups(ledger: Ledger) -> Grid:
    """Parties whose messages cost the same, the worst first."""
    groups: dict[tuple[object, ...], list[Account]] = {}
    for account in ledger.accounts.values():
        # As it is shown: what was asked, and where it stands in a trail, may differ.
        costs = tuple((charge.kind, epsilon(charge.loss.record)) for charge in account.trail)
        key = epsilon(account.loss.record), costs
        groups.setdefault(key, []).append(account)
    ranked = sorted(groups.values(), key=lambda alike: (-alike[0].loss.record, -len(alike)))
    rows = tuple(
        (
            some(map(cut, nsmallest(2, (a.party for a in alike))), len(alike), 2),
            f"{len(alike):,}",
            epsilon(alike[0].loss.record),
            _trail(alike[0].trail),
        )
        for alike in ranked[:GROUPS]
    )
    return Grid(
        key="accounts",
        caption="How much was learned about each party's respondents, the most first",
        columns=(
            "Parties",
            "#How many",
            "#ε",
            "The messages behind it, numbered as the first party sent them",
        ),
        rows=rows,
        more=rest(len(ranked), GROUPS, "such groups"),
    )


def _trail(trail: Sequence[Charge]) -> str:
    shown = (
        "refused at the switch, so anything"
        if charge.seq == REFUSED
        else f"#{charge.seq} {cut(charge.kind, 24)}: {epsilon(charge.loss.record)}"
        for charge in trail[:TRAIL]
    )
    return some(shown, len(trail), TRAIL)


def _compositions(compositions: Sequence[Composition], pure: float, *, partial: bool) -> Grid:
    sums = "so far" if partial else "every message's own bound, added up"
    rows: list[tuple[Cell, ...]] = [
        ("pure, sequential composition", epsilon(pure), "0", "any two records", sums)
    ]
    rows += [
        (
            cut(found.method, 80),
            epsilon(found.epsilon),
            f"{found.delta:.3g}",
            cut(found.relation, 120),
            cut(found.assumption, 240),
        )
        for found in compositions
    ]
    return Grid(
        key="compositions",
        caption="What one respondent told, by other ways to add up: the most that was found",
        columns=("Method", "#ε", "#δ", "Neighbours", "Assumes"),
        rows=tuple(rows),
    )


def claims_verdict(checks: Sequence[ClaimCheck], *, partial: bool) -> tuple[State, str]:
    """Whether the record shows more than is claimed, in a sentence."""
    factors = [check.factor for check in checks if check.factor is not None]
    worst = max(factors, default=0.0)
    least = "at least " if partial else ""
    if not checks:
        return "note", "Nobody claims anything about this variant's privacy."
    if math.isinf(worst):
        return "care", "The record shows no bound where one is claimed."
    if worst > 1 + 1e-9:
        return (
            "care",
            f"The record shows more than is claimed: {least}{ratio(worst)} times as much.",
        )
    if any(check.claim.epsilon is None and math.isinf(check.record) for check in checks):
        return "care", "The record shows no bound where no risk is claimed."
    if not factors:
        return "note", "Nothing is claimed that can stand beside a figure of the record."
    if partial:
        return "note", "As far as it could be read, the record shows no more than is claimed."
    return "note", "The record shows no more than is claimed."


def claims(checks: Sequence[ClaimCheck], *, partial: bool) -> Section:
    """What is claimed, what the record shows, and the factor between them."""
    _, lead = claims_verdict(checks, partial=partial)
    figures = [
        value
        for check in checks
        for value in (check.claim.epsilon, check.record)
        if value is not None and math.isfinite(value)
    ]
    largest = max(figures, default=0.0) or 1.0
    rows = tuple(
        (
            cut(check.claim.source, 120),
            f"{cut(check.claim.says, 240)} ({cut(check.about, 80)})",
            "no figure" if check.claim.epsilon is None else epsilon(check.claim.epsilon),
            epsilon(check.record),
            ratio(check.factor) or NONE,
            diagrams.bars(
                None if check.claim.epsilon is None else check.claim.epsilon / largest,
                check.record / largest,
            ),
        )
        for check in checks[:CLAIMS]
    )
    grid = Grid(
        key="claimed",
        caption="Claims beside what the record shows of the same thing, in ε",
        columns=(
            "Who claims",
            "What",
            "#Claimed ε",
            "#On record",
            "#Factor",
            "~Claim above, record below",
        ),
        rows=rows,
        more=rest(len(checks), CLAIMS, "claims"),
    )
    return Section(
        key="claims",
        title="Claims beside the record",
        lead=lead,
        grids=(grid,) if checks else (),
    )
