"""Sections on privacy: an observer's knowledge, and claims compared with the record."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from heapq import nsmallest

from protocol.accounting.composition import Composition
from protocol.accounting.events import Merged
from protocol.audit.inside import SealedFor
from protocol.audit.ledger import REFUSED, Account, Ledger
from protocol.audit.passed import Charge
from scenarios.statement.audits.judged import Judged
from scenarios.statement.statement import Bar, Grid, Section
from scenarios.wording.boxes import box_sentences
from scenarios.wording.formatting import NONE, count, cut, epsilon, odds, ratio, rest, some, upper
from scenarios.wording.withstanding import together

LOSSES, GROUPS, TRAIL, CLAIMS, CHARGES = 40, 10, 4, 20, 100

_NAMED = 12
"""Maximum number of attributes with a row each, unless their figures are all equal."""


def ledger(judged: Judged, lead: str) -> Section:
    """Section on an observer's knowledge, by attribute and by respondent."""
    learned = judged.audit.ledger
    reasons = tuple(cut(reason, 300) for reason in learned.unbounded[:GROUPS])
    more = rest(len(learned.unbounded), GROUPS, "reasons")
    return Section(
        key="ledger",
        title=f"What {together(judged.observer)} learned",
        lead=lead,
        reasons=(*reasons, more) if more else reasons,
        notes=(
            *box_sentences(judged.audit.charter.variant),
            *map(_sealed_sentence, judged.audit.sealed),
        ),
        grids=(
            _attributes(learned),
            *_accounts(learned),
            *_smaller_coalitions(judged.audit.apart),
            *_compositions(judged),
        ),
    )


def _attributes(learned: Ledger) -> Grid:
    """A row per attribute, or per figure where attributes are many or all alike."""
    losses = learned.attribute_epsilon
    names: dict[float, list[str]] = {}
    for name, loss in losses.items():
        names.setdefault(loss, []).append(cut(name))
    if len(names) == 1 < len(losses):
        rows = [(f"each of {len(losses):,} attributes", loss) for loss in names]
    elif len(losses) > _NAMED:
        rows = [(some(alike, len(alike), _NAMED), loss) for loss, alike in names.items()]
    else:
        rows = [(cut(name), loss) for name, loss in losses.items()]
    largest = max((loss for loss in names if math.isfinite(loss)), default=0.0) or 1.0
    return Grid(
        key="attributes",
        caption="The most that was learned, for two records that differ in one attribute",
        columns=("Attribute", "#ε", "Change of odds, at most", "~ε beside the others"),
        rows=tuple(
            (name, epsilon(loss), odds(loss) if loss else "none", Bar((loss / largest,)))
            for name, loss in rows[:LOSSES]
        ),
        more=rest(len(rows), LOSSES, "figures"),
    )


def _accounts(learned: Ledger) -> Iterator[Grid]:
    caption = "How much was learned about each party's respondents, the most first"
    yield _groups("accounts", caption, learned.accounts.values())
    if learned.unsigned:
        caption = "The most that parties without a signature may have revealed beyond the record"
        yield _groups("unsigned", caption, learned.unsigned.values())


def _groups(key: str, caption: str, accounts: Iterable[Account]) -> Grid:
    """Parties grouped by cost, the largest first."""
    groups: dict[tuple[object, ...], list[Account]] = {}
    shown = functools.cache(epsilon)
    for account in accounts:
        # Accounts that look the same: questions and order may differ.
        costs = tuple((charge.kind, shown(charge.loss.record)) for charge in account.trail)
        groups.setdefault((shown(account.loss.record), costs), []).append(account)
    ranked = sorted(groups.values(), key=lambda alike: (-alike[0].loss.record, -len(alike)))
    rows = tuple(
        (
            some(map(cut, nsmallest(2, (a.party for a in alike))), len(alike), 2),
            f"{len(alike):,}",
            epsilon(alike[0].loss.record),
            some(map(_charge, alike[0].trail[:TRAIL]), len(alike[0].trail), TRAIL),
        )
        for alike in ranked[:GROUPS]
    )
    return Grid(
        key=key,
        caption=caption,
        columns=(
            "Parties",
            "#How many",
            "#ε",
            "The messages behind it, numbered as the first party sent them",
        ),
        rows=rows,
        more=rest(len(ranked), GROUPS, "such groups"),
    )


def _smaller_coalitions(ledgers: Sequence[Ledger]) -> Iterator[Grid]:
    """Knowledge of smaller coalitions if all others follow the protocol."""
    if ledgers:
        yield Grid(
            key="apart",
            caption="What some members without records learned, if the other such members are "
            "honest",
            columns=("Who conspires", "#ε", "What they learned"),
            rows=tuple(
                (cut(each.observer), epsilon(each.record_epsilon), _crowd(each))
                for each in ledgers[:GROUPS]
            ),
            more=rest(len(ledgers), GROUPS, "such sets"),
        )


def _crowd(ledger: Ledger) -> str:
    """Words on what was learned about a single party."""
    if not ledger.record_epsilon:
        return "nothing"
    trails = [charge for a in ledger.everybody.values() for charge in a.trail]
    if all(isinstance(charge.event, Merged) for charge in trails):
        return f"sums or reports in random order, of {ledger.honest} honest parties at least"
    return "something of a party by itself"


def _sealed_sentence(sealed: SealedFor) -> str:
    """Number of messages sealed for a member, and how many the audit opened."""
    messages = count(sealed.messages, "message")
    if sealed.opened is None:
        return (
            f"{messages} sealed for {cut(sealed.reader)}: charged by what their kind declares; "
            "not opened."
        )
    boxes = ""
    if sealed.boxes or sealed.closed:
        boxes = f", and {sealed.boxes:,} of {sealed.boxes + sealed.closed:,} boxes in them"
    return f"{messages} sealed for {cut(sealed.reader)}: {sealed.opened:,} opened{boxes}."


def _charge(charge: Charge) -> str:
    if charge.seq == REFUSED:
        return "refused at the switch, so anything"
    return f"#{charge.seq} {cut(charge.kind, 24)}: {epsilon(charge.loss.record)}"


def _compositions(judged: Judged) -> Iterator[Grid]:
    """Bounds on one respondent's loss by every accountant that has one."""
    worst, partial = judged.worst_respondent, judged.audit.partial
    found: list[Composition] = [] if worst is None else [worst.composition]
    bounds = [each for each in (*found, *judged.second_opinions) if math.isfinite(each.epsilon)]
    if not bounds:
        return
    pure = epsilon(judged.audit.ledger.record_epsilon, least=partial)
    sums = "so far" if partial else "every message's own bound, added up"
    yield Grid(
        key="compositions",
        caption="What one respondent revealed at most, by other ways to add up",
        columns=("Method", "#ε", "#δ", "Neighbours", "Assumes"),
        rows=(
            ("pure, sequential composition", pure, "0", "any two records", sums),
            *(
                (
                    cut(each.method, 80),
                    epsilon(each.epsilon, least=partial),
                    f"{each.delta:.3g}",
                    cut(each.relation, 120),
                    cut(each.assumption, 240),
                )
                for each in bounds
            ),
        ),
    )


def claims(judged: Judged, lead: str) -> Section:
    """Section on claims, the record, and the factor between them."""
    checks = judged.audit.checks
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
            Bar(
                (
                    None if check.claim.epsilon is None else check.claim.epsilon / largest,
                    check.record / largest,
                )
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


def trail(account: Account, observer: str) -> Section:
    """The messages behind one party's figures.

    Args:
        account: the party's account.
    """
    party = cut(account.party)
    rows = tuple(
        (
            "refused" if charge.seq == REFUSED else f"#{charge.seq}",
            cut(charge.kind) or NONE,
            epsilon(charge.loss.record),
            some(
                (f"{cut(name)} {epsilon(loss)}" for name, loss in charge.loss.attributes.items()),
                len(charge.loss.attributes),
                LOSSES,
            ),
        )
        for charge in account.trail[:CHARGES]
    )
    return Section(
        key="trail",
        title=f"What {party} told",
        lead=f"{upper(observer)} learned ε = {epsilon(account.loss.record)}, message by message.",
        grids=(
            Grid(
                key="charges",
                caption="The messages behind it",
                columns=("Message", "Kind", "#ε", "About"),
                rows=rows,
                more=rest(len(account.trail), CHARGES, "messages"),
            ),
        ),
    )
