"""Sections on coalitions, and on reports that can be linked."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from protocol.accounting.events import Merged, PrivacyEvent
from protocol.audit.coalition.finding import CoalitionFinding, SumFinding, WorstCoalition
from protocol.audit.ledger import Ledger
from protocol.audit.linkage import Linkage, Linked, Repeated
from protocol.messages import PartyId
from scenarios.statement.audits.replays import is_exact, is_noised
from scenarios.statement.statement import Grid, Section
from scenarios.wording.formatting import (
    NONE,
    TIMES,
    count,
    cut,
    epsilon,
    percent,
    rest,
    some,
    upper,
)
from scenarios.wording.withstanding import coalition_name, conspiracy_sentences

if TYPE_CHECKING:
    from protocol.sharing.graph import Withstood

REPEATS, GROUPS, SUMS, SETS = 40, 10, 12, 20

_NUMBER = re.compile("([0-9]+)")


def coalition(
    finding: CoalitionFinding,
    lead: str,
    *,
    key: str = "coalition",
    title: str = "What a coalition knows",
    notes: Iterable[str] = (),
    unbounded: Collection[str] = (),
    partial: bool = False,
) -> Section:
    """Section on a coalition's knowledge of the others.

    Args:
        finding: the coalition's knowledge.
        lead: the answer.
        key, title: key and title of the section.
        notes: cautions about the request.
        unbounded: why no epsilon bounds something, where a reader is told elsewhere.
        partial: the record could not be read whole, so they may know more.
    """
    said = [f"in it: {coalition_name(finding.coalition)}", *notes]
    for place, each in enumerate(finding.sums[:SUMS], 1):
        which = f"of sum {place:,} " if len(finding.sums) > 1 else ""
        said += [which + note for note in _of_sum(each)]
    if finding.sums and not finding.searched:
        said.append("smaller sets may follow: not all combinations of the sums were searched")
    said += finding.remarks[:SETS]
    loss = finding.ledger.record_epsilon
    if math.isinf(loss):
        reasons = [reason for reason in finding.ledger.unbounded if reason not in unbounded]
        said.append(
            "message by message, no ε bounds what it learned about a respondent"
            + (f": {'; '.join(reasons)}" if reasons else "")
        )
    else:
        said.append(
            f"message by message, it learned at {'least' if partial else 'most'} "
            f"ε = {epsilon(loss, least=partial)} about each respondent"
        )
    if not finding.sums:  # Of sums that is what the lead says.
        said += _merged_sentence(finding.ledger)
    if finding.ledger.unsigned:
        who = count(len(finding.ledger.unsigned), "party that has", "parties that have")
        said.append(
            f"about {who} signed nothing, at most ε = {epsilon(finding.ledger.unsigned_epsilon)}"
        )
    return Section(
        key=key,
        title=title,
        lead=lead,
        notes=tuple(f"{upper(cut(note, 400))}." for note in said),
        grids=(*_sums(finding.sums, key), *_sets(finding, key)),
    )


def _merged_sentence(ledger: Ledger) -> Iterator[str]:
    """Parties exposed by themselves, set apart from those known only in sums or random order."""
    if not ledger.honest:
        return
    apart = [
        party
        for party, account in ledger.everybody.items()
        if not all(isinstance(charge.event, Merged) for charge in account.trail)
    ]
    among = (
        f"in sums or in random order, of {count(ledger.honest, 'honest party', 'honest parties')}"
    )
    if apart:
        yield f"of {some(map(cut, apart), len(apart), 8)} by itself; of all others {among} at least"
    else:
        yield f"of nobody by itself: {among} at least"


def _count_kind(event: PrivacyEvent) -> str:
    """Kind of the summed counts, in one word."""
    return "true" if is_exact(event) else "noisy" if is_noised(event) else "randomized"


def how_found(worst: WorstCoalition, *, partial: bool = False) -> str:
    """Method by which the most damaging coalition was found, and whether another may do more."""
    known = worst.exact and worst.finding.whole and not partial
    surely = "none does more damage" if known else "there may be worse"
    size = count(len(worst.coalition.members) - 1, "party", "parties")
    return f"of all coalitions of the aggregator and {size}, {surely}: {worst.search}"


def active_notes(worst: WorstCoalition, withstands: Withstood | None) -> tuple[str, ...]:
    """Notes on a search: it is passive; how many colluders are withstood if the aggregator lies.

    Args:
        worst: the most damaging coalition in a record with secure sums.
        withstands: number of parties that may conspire with the aggregator; None if unknown.
    """
    passive = (
        "the search is passive: it looks only at what the record shows of a run in which the "
        "aggregator behaved"
    )
    if withstands is None:
        return (passive,)
    figure = conspiracy_sentences(withstands)[0].removesuffix(".")
    notes = [passive, f"whatever the aggregator does, {figure[:1].lower()}{figure[1:]}"]
    # The worst coalition is chosen after the neighbours were drawn.
    size = len(worst.coalition.members) - 1
    if size > withstands.adaptive:
        parties = count(size, "party", "parties")
        notes.append(f"{parties} may learn more than was found, if the aggregator lies")
    elif size > withstands.unwitnessed:
        parties = count(size, "party", "parties")
        notes.append(
            f"{parties} may learn more than was found, if the aggregator and "
            f"{count(withstands.witnesses - withstands.trusted + 1, 'witness', 'witnesses')} lie"
        )
    return tuple(notes)


def _of_sum(found: SumFinding) -> Iterator[str]:
    """Remarks about a sum that have no column in its table."""
    if found.opened:
        names = some(map(cut, found.opened), len(found.opened), 8)
        yield f"shares open all secrets of {names}"
    sizes = Counter((len(p.parties), p.hidden_by) for p in found.components if p.hidden_by)
    for (size, why), many in sorted(sizes.items())[:GROUPS]:
        group = f"{count(many, 'group')} of {count(size, 'party', 'parties')}"
        yield f"{group}: hidden by {why}"
    if not is_exact(found.event):
        if is_noised(found.event):
            yield "only the coins of those who do not conspire hide counts"
        else:
            yield "contributions were randomized before: their epsilon holds whoever conspires"


def _sums(sums: Sequence[SumFinding], key: str) -> Iterator[Grid]:
    if not sums:
        return
    rows = tuple(
        (
            f"{place:,}: {found.profile}, of {_count_kind(found.event)} counts",
            f"{found.contributed:,}",
            f"{found.honest:,}",
            f"{found.uploads_seen:,}",
            f"{found.unknown_masks:,}",
            f"{sum(part.determined for part in found.components):,}",
            NONE if found.smallest_component is None else f"{found.smallest_component:,}",
            "known" if found.total_known else "not known",
            some((f"{entry:,}" for entry in found.entries), len(found.entries), 4) or NONE,
        )
        for place, found in enumerate(sums[:SUMS], 1)
    )
    yield Grid(
        key=f"{key}-sums",
        caption="What it sees of each secure sum",
        columns=(
            "Sum",
            "#Parties",
            "#Honest",
            "#Seen, masked",
            "#Unknown masks",
            "#Groups told",
            "#Smallest",
            "Total",
            "Entries",
        ),
        rows=rows,
        more=rest(len(sums), SUMS, "sums"),
    )


def _sets(found: CoalitionFinding, key: str) -> Iterator[Grid]:
    """Sets of parties whose sums follow from the whole record, the smallest first."""
    follow: list[tuple[Sequence[PartyId], str]] = [(set_, "exact sum") for set_ in found.determined]
    follow += [(set_, "exact sum, overlapping others") for set_ in found.mixed]
    follow += [((pair.first, pair.second), f"exact {pair.relation}") for pair in found.pairs]
    follow.sort(key=lambda one: len(one[0]))
    if follow:
        yield Grid(
            key=f"{key}-sets",
            caption="Whose figures it can tell from all sums, the smallest group first",
            columns=("Parties", "#How many", "What follows"),
            rows=tuple(
                (some(map(cut, set_), len(set_), 4), f"{len(set_):,}", what)
                for set_, what in follow[:SETS]
            ),
            more=rest(len(follow), SETS, "groups"),
        )


def linkage(found: Linkage, lead: str) -> Section:
    """Section on linkable reports of one respondent, and the loss from asking again."""
    repeats = [again for group in found.groups for again in group.repeated]
    groups = group_alike(found.groups)
    grid = Grid(
        key="linked",
        caption="Messages that bear their sender's name, and those hidden in a secure sum",
        columns=("Parties", "#How many", "Linked", "Not linked"),
        rows=tuple(
            (
                some(map(cut, group.parties), len(group.parties), 3),
                f"{len(group.parties):,}",
                _tally(group.linked),
                _tally(group.unlinked),
            )
            for group in groups[:GROUPS]
        ),
        more=rest(len(groups), GROUPS, "groups"),
    )
    return Section(
        key="linkage",
        title="What can be linked",
        lead=lead,
        grids=(*((grid,) if groups else ()), *_repeat_grid(repeats)),
    )


def group_alike(groups: Iterable[Linked]) -> list[Linked]:
    """Groups of equal coalitions, the largest first, names in order."""
    merged: dict[tuple[tuple[str, ...], tuple[str, ...], tuple[Repeated, ...]], list[PartyId]] = {}
    for group in groups:
        key = group.linked, group.unlinked, group.repeated
        merged.setdefault(key, []).extend(group.parties)
    ordered = sorted(merged.items(), key=lambda item: -len(item[1]))
    return [
        Linked(
            parties=tuple(sorted(parties, key=_natural_key)),
            linked=linked,
            unlinked=unlinked,
            repeated=repeated,
        )
        for (linked, unlinked, repeated), parties in ordered
    ]


def _natural_key(name: str) -> tuple[tuple[int, str], ...]:
    """Sort key that puts party-2 before party-10."""
    parts = (part.lstrip("0") if i % 2 else part for i, part in enumerate(_NUMBER.split(name)))
    return tuple((len(part) if i % 2 else 0, part) for i, part in enumerate(parts))


def _repeat_grid(repeats: Sequence[Repeated]) -> Iterator[Grid]:
    if repeats:
        yield Grid(
            key="repeated",
            caption="What the reports on one attribute give away together",
            columns=("Attribute", "#Times", "#ε", "#Best guess right", "#By chance", "Figure"),
            rows=tuple(
                (
                    cut(again.attribute),
                    f"{again.times:,}",
                    epsilon(again.epsilon),
                    percent(again.success),
                    percent(again.chance),
                    f"{'exact' if again.exact else 'at most'}: {cut(again.method, 120)}",
                )
                for again in repeats[:REPEATS]
            ),
            more=rest(len(repeats), REPEATS, "attributes"),
        )


def _tally(kinds: Sequence[str]) -> str:
    tally = Counter(kind or "refused at the switch" for kind in kinds)
    shown = (f"{n:,} {TIMES} {cut(kind, 24)}" for kind, n in tally.items())
    return some(shown, len(tally), 4) or "none"
