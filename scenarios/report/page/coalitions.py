"""What a page says of those who conspire, and of reports that can be linked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from markupsafe import Markup

from protocol.accounting.events import PrivacyEvent
from protocol.audit.coalition.coalition import Coalition
from protocol.audit.coalition.finding import CoalitionFinding, SumFinding, WorstCoalition
from protocol.audit.linkage import Linkage, Repeated
from protocol.messages import PartyId
from scenarios.report.coalition import alike, has_sum, is_exact
from scenarios.report.formatting import NONE, TIMES, count, cut, epsilon, percent, upper
from scenarios.report.page import diagrams
from scenarios.report.page.parts import Grid, Section, rest, some

ATTRIBUTES, GROUPS, SUMS, SETS = 40, 10, 12, 20
DRAWN = 48
"""Up to so many parties are drawn one by one, more as groups; and so many groups at most."""

_WIDTH = 420
_SHAPES = (
    "Filled: the group's exact sum follows. Hollow: it does not. A diamond is a party by itself, "
    "whose own figures follow."
)


def coalition(
    found: CoalitionFinding, key: str, title: str, *, partial: bool, said: Sequence[str] = ()
) -> Section:
    """What those who conspire can tell of the others.

    Args:
        found: what they can tell.
        key, title: of the section.
        partial: the record could not be read whole, so they may know more.
        said: how they were chosen, and what else a reader has to know.
    """
    who = "it" if key == "coalition" else "the worst coalition"
    so_far = ", as far as it could be read" if partial else ""
    if found.exposed:
        parties = count(len(found.exposed), "party is", "parties are")
        whose = "its own figures" if len(found.exposed) == 1 else "their own figures"
        lead = f"{parties} exposed: the coalition can work out {whose}."
    elif found.smallest is not None:
        parties = count(found.smallest, "party", "parties")
        lead = f"Nobody is exposed: the smallest group whose exact sum it can tell has {parties}."
    elif has_sum(found):
        lead = f"It can tell no sum of honest parties{so_far}."
    else:
        lead = f"There is no secure sum on record{so_far} that it could take apart."
    loss = found.ledger.record_epsilon
    notes = [f"In it: {_named(found.coalition)}.", *(f"{upper(cut(note, 400))}." for note in said)]
    notes.append(
        "Message by message, no ε bounds what it learned about a respondent."
        if math.isinf(loss)
        else f"Message by message, it learned at {'least' if partial else 'most'} "
        f"ε = {epsilon(loss, least=partial)} about a respondent."
    )
    notes += [cut(remark, 240) for remark in found.remarks[:SETS]]
    picture, legend = _graph(found, key)
    notes += [legend] if legend else []
    return Section(
        key=key,
        title=title,
        lead=lead,
        notes=tuple(notes),
        grids=(*_sums(found.sums, key, who), *_sets(found, key, who)),
        pictures=(picture,) if picture else (),
        extra={"exposed": some(map(cut, found.exposed), len(found.exposed), SETS)},
    )


def worst_coalition(worst: WorstCoalition, *, partial: bool) -> Section:
    """The most damaging coalition that was found."""
    title = "The worst coalition found"
    if not has_sum(worst.finding):
        so_far = " as far as it could be read" if partial else ""
        lead = f"There is no secure sum on record{so_far}, so there is no sum to expose."
        return Section(key="worst", title=title, lead=lead)
    exact = worst.exact and not partial
    surely = "nothing worse exists of this size" if exact else "there may be worse ones"
    said = (
        f"how it was found: {cut(worst.search, 240)}; {surely}",
        "the search has no taps and no keys of others",
    )
    return coalition(worst.finding, "worst", title, partial=partial, said=said)


def _named(conspiring: Coalition) -> str:
    members = some(map(cut, conspiring.members), len(conspiring.members), 8)
    parts = [members or "no member"]
    if conspiring.taps:
        taps = (f"{cut(a)} and {cut(b)}" for a, b in conspiring.taps)
        parts.append(f"reading the wire between {some(taps, len(conspiring.taps), 4)}")
    if conspiring.keys:
        parts.append(f"with the keys of {some(map(cut, conspiring.keys), len(conspiring.keys), 4)}")
    return ", ".join(parts)


def _sums(sums: Sequence[SumFinding], key: str, who: str) -> Iterable[Grid]:
    if not sums:
        return
    rows = tuple(
        (
            f"{place:,}: {found.profile}, of {_counts(found.event)}",
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
        caption=f"What {who} sees of each secure sum",
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


def _counts(event: PrivacyEvent) -> str:
    """What a contribution tells, once it is known."""
    return "true counts" if is_exact(event) else "randomized counts"


def _sets(found: CoalitionFinding, key: str, who: str) -> Iterable[Grid]:
    """Whose sums follow, from all that is on record, the smallest first."""
    sets: list[tuple[Sequence[PartyId], str]] = [(set_, "exact sum") for set_ in found.determined]
    sets += [(set_, "exact sum, overlapping others") for set_ in found.mixed]
    sets += [((pair.first, pair.second), f"exact {pair.relation}") for pair in found.pairs]
    sets.sort(key=lambda one: len(one[0]))
    if sets:
        yield Grid(
            key=f"{key}-sets",
            caption=f"Whose figures {who} can tell from all sums, the smallest group first",
            columns=("Parties", "#How many", "What follows"),
            rows=tuple(
                (some(map(cut, set_), len(set_), 4), f"{len(set_):,}", what)
                for set_, what in sets[:SETS]
            ),
            more=rest(len(sets), SETS, "groups"),
        )


def _graph(found: CoalitionFinding, key: str) -> tuple[Markup | None, str]:
    """A picture of the sum that gives most away, and how to read it."""
    seen = [one for one in found.sums if one.components]
    if not seen:
        return None, ""
    drawn = min(seen, key=lambda one: one.smallest_component or math.inf)
    groups = sorted(drawn.components, key=lambda part: len(part.parties))
    insiders = found.coalition.members
    if sum(len(part.parties) for part in groups) <= DRAWN:
        parties = [
            diagrams.Party(name=name, group=place, determined=part.determined)
            for place, part in enumerate(groups)
            for name in part.parties
        ]
        legend = (
            "A line is a mask that it does not know; parties that lines connect are one group. "
            f"{_SHAPES}"
        )
        return diagrams.masks(key, insiders, parties, drawn.masks, width=_WIDTH), legend
    shown = [
        diagrams.Component(
            label=part.parties[0] if len(part.parties) == 1 else f"{len(part.parties):,} parties",
            size=len(part.parties),
            determined=part.determined,
        )
        for part in groups[:DRAWN]
    ]
    if len(groups) == 1:
        return None, ""  # The lead says it all.
    more = len(groups) - len(shown)
    legend = (
        "Around it are the groups of parties whose masks hang together, the larger the more of "
        f"them. {_SHAPES}"
    )
    return diagrams.coalition(key, insiders, shown, more=more, width=_WIDTH), legend


def linkage(found: Linkage, *, partial: bool) -> Section:
    """Which reports of one respondent can be linked, and what asking again gives away.

    Args:
        partial: the record could not be read whole, so there may be more.
    """
    repeats = [again for group in found.groups for again in group.repeated]
    groups = alike(found.groups)
    linkable = sum(len(group.parties) for group in found.groups if group.linked)
    if repeats:
        names = dict.fromkeys(cut(again.attribute) for again in repeats)
        lead = (
            f"Randomized more than once, in reports that can be linked: {some(names, len(names))}."
        )
    elif linkable:
        lead = "Reports can be linked to their senders; nothing was randomized twice."
    else:
        lead = "No report can be linked to its sender."
    grids = [
        Grid(
            key="linked",
            caption="Messages that bear their sender's name, and those hidden in a secure sum",
            columns=("Parties", "#How many", "Linked", "Not linked"),
            rows=tuple(
                (
                    some(map(cut, group.parties), len(group.parties), 2),
                    f"{len(group.parties):,}",
                    _tallied(group.linked),
                    _tallied(group.unlinked),
                )
                for group in groups[:GROUPS]
            ),
            more=rest(len(groups), GROUPS, "groups"),
        )
    ]
    if repeats:
        grids.append(_repeated(repeats))
    notes = ("The record could not be read whole: there may be more.",) if partial else ()
    return Section(
        key="linkage", title="What can be linked", lead=lead, notes=notes, grids=tuple(grids)
    )


def _repeated(repeats: Sequence[Repeated]) -> Grid:
    return Grid(
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
            for again in repeats[:ATTRIBUTES]
        ),
        more=rest(len(repeats), ATTRIBUTES, "attributes"),
    )


def _tallied(kinds: Sequence[str]) -> str:
    tally: dict[str, int] = {}
    for kind in kinds:
        tally[kind] = tally.get(kind, 0) + 1
    shown = (f"{n:,} {TIMES} {cut(kind, 24)}" for kind, n in tally.items())
    return some(shown, len(tally), 4) or "none"
