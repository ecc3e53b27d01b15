"""What coalitions and linkage were found to give away, as lines of text and as plain values."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from protocol.accounting.events import Composed, Masked, OneOf, PrivacyEvent
from protocol.audit.coalition.coalition import Coalition
from protocol.audit.coalition.finding import CoalitionFinding, SumFinding, WorstCoalition
from protocol.audit.linkage import Linkage, Linked, Repeated
from protocol.messages import PartyId
from scenarios.report.formatting import count

_NAMES = 8
"""The most names that a line gives."""

_NUMBER = re.compile("([0-9]+)")

LISTED_NAMES = 50
LISTED_SETS = 100
"""The most names of a set, and the most sets, that values give; all are counted."""


def coalition_lines(
    finding: CoalitionFinding,
    *,
    notes: Iterable[str] = (),
    said: Collection[str] = (),
    partial: bool = False,
) -> Iterable[str]:
    """What a coalition knows, in sentences: the answer, then what it rests on.

    Args:
        notes: what a reader has to know of what was asked.
        said: why no epsilon bounds something, where a reader has been told already.
        partial: the record could not be read whole, so they may know more.
    """
    so_far = "as far as the record could be read, " if partial else ""
    yield so_far + answer(finding)
    yield f"  coalition of {_members(finding.coalition)}"
    for note in notes:
        yield f"  {note}"
    for place, found in enumerate(finding.sums, start=1):
        which = f" {place}" if len(finding.sums) > 1 else ""
        yield from _sum_lines(found, which)
    groups = sorted((p for p in (*finding.determined, *finding.mixed) if len(p) > 1), key=len)
    for parties in groups[:_NAMES]:
        yield f"  the exact sum over {_parties(len(parties))} follows: {_some(parties)}"
    if len(groups) > _NAMES:
        yield f"  and {len(groups) - _NAMES:,} more sets; --json counts them"
    for pair in finding.pairs[:_NAMES]:
        yield f"  the {pair.relation} of {pair.first} and {pair.second} follows"
    if len(finding.pairs) > _NAMES:
        yield f"  and {len(finding.pairs) - _NAMES:,} more pairs"
    if finding.sums and not finding.searched:
        yield "  smaller sets may follow: not all combinations of the sums were searched"
    for remark in finding.remarks:
        yield f"  remark: {remark}"
    record = finding.ledger.record_epsilon
    if math.isfinite(record):
        bound = "at least" if partial else "at most"
        yield f"  message by message, {bound} epsilon {record:.6g} about each respondent"
    else:
        reasons = [reason for reason in finding.ledger.unbounded if reason not in said]
        yield (
            "  message by message, no epsilon bounds what is learned about a respondent"
            + (f": {'; '.join(reasons)}" if reasons else "")
        )


def answer(finding: CoalitionFinding) -> str:
    """What follows for a coalition from secure sums, in one sentence.

    By adding and subtracting: what follows from numbers being small comes on top.
    """
    if not has_sum(finding):
        return (
            "there is no secure sum on record to take apart: what is seen bears its sender's name"
        )
    randomized = not any(is_exact(found.event) for found in finding.sums)
    if finding.exposed:
        many = len(finding.exposed)
        counts = "counts, randomized before," if randomized else "exact counts"
        return (
            f"{_some(finding.exposed)} {'is' if many == 1 else 'are'} exposed: "
            f"{'its' if many == 1 else 'their'} own {counts} follow"
        )
    sums = "sum" if len(finding.sums) == 1 else "sums"
    learns = f"{_subject(finding.coalition)} of the secure {sums}"
    if finding.smallest is None:
        return f"{learns} no sum over others"
    what = "exact sum of randomized counts" if randomized else "exact sum"
    sets = (*finding.determined, *finding.mixed)
    if len(sets) == 1 and not finding.pairs and finding.searched:
        honest = {found.honest for found in finding.sums}
        others = "the other " if honest == {len(sets[0])} else ""
        return (
            f"{learns} nothing beyond the {what} over {others}{_parties(len(sets[0]))}, "
            "by adding and subtracting"
        )
    return (
        f"{learns} more than one {what}; nobody is exposed, and the smallest group whose sum "
        f"follows has {_parties(finding.smallest)}"
    )


def has_sum(finding: CoalitionFinding) -> bool:
    """Whether anybody contributed to a secure sum, so that there is something to take apart."""
    return any(found.contributed for found in finding.sums)


def _subject(coalition: Coalition) -> str:
    more = " with the taps and keys" if coalition.taps or coalition.keys else ""
    match len(coalition.members):
        case 0:
            return "whoever has these taps and keys learns"
        case 1:
            return f"{coalition.members[0]}{more or ' alone'} learns"
        case many:
            return f"these {many:,}{more} learn"


def _sum_lines(found: SumFinding, which: str) -> Iterator[str]:
    total = "known" if found.total_known else "not known"
    yield (
        f"  secure sum{which} ({found.profile}): {_parties(found.contributed)} contributed, "
        f"{found.honest:,} of them honest; {found.uploads_seen:,} of these are seen under masks, "
        f"and the total is {total}"
    )
    if found.opened:
        yield f"    shares open all secrets of {_some(found.opened)}"
    if len(found.components) > 1 or any(part.hidden_by for part in found.components):
        sizes = Counter((len(part.parties), part.hidden_by) for part in found.components)
        for (size, why), many in sorted(sizes.items(), key=lambda item: item[0])[:_NAMES]:
            stays = f"hidden by {why}" if why else "the sum follows"
            yield f"    {count(many, 'group')} of {_parties(size)}: {stays}"
    if found.unknown_masks:
        masks = count(found.unknown_masks, "mask")
        yield f"    {masks} between honest parties {_are(found.unknown_masks)} not known"
    if not is_exact(found.event):
        yield "    contributions were randomized before: their epsilon holds whoever conspires"


def coalition_values(finding: CoalitionFinding, *, notes: Iterable[str] = ()) -> dict[str, Any]:
    """What a coalition knows, as JSON has it.

    Long lists are cut: of a set ``LISTED_NAMES`` names are given beside its size, of sets
    ``LISTED_SETS`` beside their number.

    Args:
        notes: what a reader has to know of what was asked.
    """
    record = finding.ledger.record_epsilon
    return {
        "members": list(finding.coalition.members),
        "taps": [list(pair) for pair in finding.coalition.taps],
        "keys": list(finding.coalition.keys),
        "smallest": finding.smallest,
        "searched": finding.searched,
        "exposed": _set_values(finding.exposed),
        "determined": _sets_values(finding.determined),
        "mixed": _sets_values(finding.mixed),
        "pairs": {
            "count": len(finding.pairs),
            "listed": [
                {"first": p.first, "second": p.second, "relation": p.relation}
                for p in finding.pairs[:LISTED_SETS]
            ],
        },
        "sums": [_sum_values(found) for found in finding.sums],
        "record_epsilon": record if math.isfinite(record) else None,
        "unbounded": list(finding.ledger.unbounded),
        "remarks": list(finding.remarks),
        "notes": list(notes),
    }


def _sum_values(found: SumFinding) -> dict[str, Any]:
    parts = sorted(found.components, key=lambda part: len(part.parties))
    return {
        "profile": found.profile,
        "exact_counts": is_exact(found.event),
        "contributed": found.contributed,
        "honest": found.honest,
        "uploads_seen": found.uploads_seen,
        "total_known": found.total_known,
        "opened": _set_values(found.opened),
        "unknown_masks": found.unknown_masks,
        "masks": [list(pair) for pair in found.masks],
        "smallest_component": found.smallest_component,
        "components": {
            "count": len(parts),
            "listed": [
                {
                    **_set_values(part.parties),
                    "determined": part.determined,
                    "hidden_by": part.hidden_by or None,
                }
                for part in parts[:LISTED_SETS]
            ],
        },
        "entries": list(found.entries),
    }


def worst_lines(
    worst: WorstCoalition,
    *,
    notes: Iterable[str] = (),
    said: Collection[str] = (),
    partial: bool = False,
) -> Iterable[str]:
    """The most damaging coalition that was found, and how; as ``coalition_lines``."""
    if not has_sum(worst.finding):
        so_far = " as far as it could be read" if partial else ""
        yield f"there is no secure sum on record{so_far}, so there is no sum to expose"
        return
    size = len(worst.coalition.members) - 1
    sure = "none does more damage" if worst.exact and not partial else "there may be worse"
    found = f"of all coalitions of the aggregator and {_parties(size)}, {sure}: {worst.search}"
    yield from coalition_lines(worst.finding, notes=(found, *notes), said=said, partial=partial)


def worst_values(worst: WorstCoalition, *, notes: Iterable[str] = ()) -> dict[str, Any]:
    """The most damaging coalition that was found, as JSON has it."""
    return {
        "exact": worst.exact,
        "search": worst.search,
        **coalition_values(worst.finding, notes=notes),
    }


def linkage_lines(linkage: Linkage) -> Iterable[str]:
    """What can be linked, in sentences."""
    yield f"what {linkage.observer} can link"
    groups = alike(linkage.groups)
    if not groups:
        yield "  nobody told anything that costs"
    for group in groups[:_NAMES]:
        yield from _group_lines(group)
    if len(groups) > _NAMES:
        rest = sum(len(group.parties) for group in groups[_NAMES:])
        more = count(len(groups) - _NAMES, "group")
        yield f"  and {count(rest, 'more party', 'more parties')} in {more}"


def alike(groups: Iterable[Linked]) -> list[Linked]:
    """Groups of which the same is to be said as one, the largest first, names in order."""
    merged: dict[tuple[tuple[str, ...], tuple[str, ...], tuple[Repeated, ...]], list[PartyId]] = {}
    for group in groups:
        key = group.linked, group.unlinked, group.repeated
        merged.setdefault(key, []).extend(group.parties)
    ordered = sorted(merged.items(), key=lambda item: -len(item[1]))
    return [
        Linked(
            parties=tuple(sorted(parties, key=in_order)),
            linked=linked,
            unlinked=unlinked,
            repeated=repeated,
        )
        for (linked, unlinked, repeated), parties in ordered
    ]


def in_order(name: str) -> tuple[tuple[int, str], ...]:
    """What names are sorted by, so that party-2 stands before party-10."""
    parts = (part.lstrip("0") if i % 2 else part for i, part in enumerate(_NUMBER.split(name)))
    return tuple((len(part) if i % 2 else 0, part) for i, part in enumerate(parts))


def _group_lines(group: Linked) -> Iterator[str]:
    yield f"  {_parties(len(group.parties))}: {_some(group.parties)}"
    if group.linked:
        yield f"    under the sender's name: {_kinds(group.linked)}"
    if group.unlinked:
        yield f"    hidden in a secure sum, and nobody's in particular: {_kinds(group.unlinked)}"
    for repeated in group.repeated[:_NAMES]:
        about = "" if repeated.exact else "at most "
        yield (
            f"    {repeated.attribute} was told {repeated.times} times: epsilon "
            f"{repeated.epsilon:.6g} in all; the best guess is right with probability "
            f"{about}{repeated.success:.4g}, blindly with {repeated.chance:.4g}"
        )
    if len(group.repeated) > _NAMES:
        yield f"    and {len(group.repeated) - _NAMES:,} more attributes"


def linkage_values(linkage: Linkage) -> dict[str, Any]:
    """What can be linked, as JSON has it; of many groups the largest, beside their number."""
    return {
        "observer": linkage.observer,
        "count": len(linkage.groups),
        "groups": [
            {
                **_set_values(group.parties),
                "linked": list(group.linked),
                "unlinked": list(group.unlinked),
                "repeated": [_repeated_values(repeated) for repeated in group.repeated],
            }
            for group in linkage.groups[:LISTED_SETS]
        ],
    }


def _repeated_values(repeated: Repeated) -> dict[str, Any]:
    return {
        "attribute": repeated.attribute,
        "times": repeated.times,
        "epsilon": repeated.epsilon if math.isfinite(repeated.epsilon) else None,
        "success": repeated.success,
        "chance": repeated.chance,
        "exact": repeated.exact,
        "method": repeated.method,
    }


def is_exact(event: PrivacyEvent) -> bool:
    """Whether a contribution holds true counts."""
    match event:
        case Masked():
            return True
        case Composed(events) | OneOf(events):
            return any(map(is_exact, events))
        case _:
            return False


def _sets_values(sets: Sequence[tuple[PartyId, ...]]) -> dict[str, Any]:
    ordered = sorted(sets, key=len)
    return {"count": len(sets), "listed": [_set_values(s) for s in ordered[:LISTED_SETS]]}


def _set_values(parties: tuple[PartyId, ...]) -> dict[str, Any]:
    return {"size": len(parties), "parties": list(parties[:LISTED_NAMES])}


def _members(coalition: Coalition) -> str:
    parts = [_some(coalition.members)] if coalition.members else ["an outsider"]
    parts += [f"a tap between {x} and {y}" for x, y in coalition.taps]
    if coalition.keys:
        parts.append(f"the keys of {_some(coalition.keys)}")
    return "; ".join(parts)


def _some(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    shown = list(names[:_NAMES])
    if len(names) > _NAMES:
        shown.append(f"{len(names) - _NAMES:,} more")
    *first, last = shown
    return f"{', '.join(first)} and {last}" if first else last


def _parties(number: int) -> str:
    return count(number, "party", "parties")


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _kinds(kinds: Sequence[str]) -> str:
    counts = Counter(kind or "what the switch refused" for kind in kinds)
    return ", ".join(f"{n} x {kind}" if n > 1 else kind for kind, n in counts.items())
