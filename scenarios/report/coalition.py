"""What coalitions and linkage were found to give away, as lines of text and as plain values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from protocol.messages import PartyId
from protocol.privacy.events import Composed, Masked, OneOf, PrivacyEvent
from protocol.privacy.findings import CoalitionFinding, SumFinding, WorstCoalition
from protocol.privacy.linkage import Linkage, Linked, Repeated
from protocol.privacy.views import Coalition

_NAMES = 8
"""The most names that a line gives."""

LISTED_NAMES = 50
LISTED_SETS = 100
"""The most names of a set, and the most sets, that values give; all are counted."""


def coalition_lines(finding: CoalitionFinding) -> Iterable[str]:
    """What a coalition knows, in sentences."""
    yield f"coalition of {_members(finding.coalition)}"
    if not finding.sums:
        yield "  no secure sum on record: whatever they see bears its sender's name"
    for place, found in enumerate(finding.sums, start=1):
        which = f" {place}" if len(finding.sums) > 1 else ""
        yield from _sum_lines(found, which)
    if finding.exposed:
        many = len(finding.exposed)
        yield (
            f"  EXPOSED: {_some(finding.exposed)}: "
            f"what {'it' if many == 1 else f'each of these {many:,} parties'} contributed follows"
        )
    for parties in (*finding.determined, *finding.mixed)[:_NAMES]:
        if len(parties) > 1:
            yield f"  the exact sum over {len(parties):,} honest parties follows: {_some(parties)}"
    more = len(finding.determined) + len(finding.mixed) - _NAMES
    if more > 0:
        yield f"  and {more:,} more sets; --json counts them"
    for pair in finding.pairs[:_NAMES]:
        yield f"  the {pair.relation} of {pair.first} and {pair.second} follows"
    if len(finding.pairs) > _NAMES:
        yield f"  and {len(finding.pairs) - _NAMES:,} more pairs"
    if finding.sums:
        smallest = finding.smallest
        yield (
            "  no sum over honest parties follows"
            if smallest is None
            else f"  the smallest set whose exact sum follows has {_parties(smallest)}"
            + ("" if finding.searched else "; not all combinations of the sums were searched")
        )
    for remark in finding.remarks:
        yield f"  remark: {remark}"
    record = finding.ledger.record_epsilon
    yield (
        f"  epsilon {record:.6g} per record"
        if math.isfinite(record)
        else f"  epsilon infinite: {'; '.join(finding.ledger.unbounded)}"
    )


def _sum_lines(found: SumFinding, which: str) -> Iterator[str]:
    yield (
        f"  secure sum{which} ({found.profile}): {_parties(found.contributed)} contributed, "
        f"{found.honest:,} of them honest; {found.uploads_seen:,} of their contributions are seen "
        f"under masks, and the total is {'known' if found.total_known else 'not known'}"
    )
    if found.opened:
        yield f"    shares open all secrets of {_some(found.opened)}"
    if found.components:
        sizes = Counter((len(part.parties), part.hidden_by) for part in found.components)
        for (size, why), count in sorted(sizes.items(), key=lambda item: item[0])[:_NAMES]:
            parts = f"{count:,} components" if count > 1 else "1 component"
            stays = f"hidden by {why}" if why else "open"
            yield f"    {parts} of {_parties(size)}: {stays}"
        if found.unknown_masks:
            yield f"    held together by {found.unknown_masks:,} masks that it does not know"
    if not _is_exact(found.told):
        yield "    contributions were randomized before: their epsilon holds whoever conspires"


def coalition_values(finding: CoalitionFinding) -> dict[str, Any]:
    """What a coalition knows, as JSON has it.

    Long lists are cut: of a set ``LISTED_NAMES`` names are given beside its size, of sets
    ``LISTED_SETS`` beside their number.
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
    }


def _sum_values(found: SumFinding) -> dict[str, Any]:
    parts = sorted(found.components, key=lambda part: len(part.parties))
    return {
        "profile": found.profile,
        "exact_counts": _is_exact(found.told),
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


def worst_lines(worst: WorstCoalition) -> Iterable[str]:
    """The most damaging coalition that was found, in sentences."""
    size = len(worst.coalition.members) - 1
    yield (
        f"the most damaging coalition of the aggregator and {_parties(size)}"
        + (" (exact):" if worst.exact else " that was found (there may be worse):")
    )
    yield f"  {worst.search}"
    yield from coalition_lines(worst.finding)


def worst_values(worst: WorstCoalition) -> dict[str, Any]:
    """The most damaging coalition that was found, as JSON has it."""
    return {
        "exact": worst.exact,
        "search": worst.search,
        **coalition_values(worst.finding),
    }


def linkage_lines(linkage: Linkage) -> Iterable[str]:
    """What can be linked, in sentences."""
    yield f"what {linkage.observer} can link"
    if not linkage.groups:
        yield "  nobody told anything that costs"
    for group in linkage.groups[:_NAMES]:
        yield from _group_lines(group)
    if len(linkage.groups) > _NAMES:
        rest = sum(len(group.parties) for group in linkage.groups[_NAMES:])
        yield f"  and {rest:,} more parties in {len(linkage.groups) - _NAMES:,} groups"


def _group_lines(group: Linked) -> Iterator[str]:
    yield f"  {_parties(len(group.parties))} ({_some(group.parties)})"
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


def _is_exact(told: PrivacyEvent) -> bool:
    """Whether a contribution holds true counts."""
    match told:
        case Masked():
            return True
        case Composed(events) | OneOf(events):
            return any(map(_is_exact, events))
        case _:
            return False


def _sets_values(sets: Sequence[tuple[PartyId, ...]]) -> dict[str, Any]:
    ordered = sorted(sets, key=len)
    return {"count": len(sets), "listed": [_set_values(s) for s in ordered[:LISTED_SETS]]}


def _set_values(parties: tuple[PartyId, ...]) -> dict[str, Any]:
    return {"size": len(parties), "parties": list(parties[:LISTED_NAMES])}


def _members(coalition: Coalition) -> str:
    parts = [_some(coalition.members, "members")] if coalition.members else ["an outsider"]
    parts += [f"a tap between {x} and {y}" for x, y in coalition.taps]
    if coalition.keys:
        parts.append(f"the keys of {_some(coalition.keys)}")
    return "; ".join(parts)


def _some(names: Sequence[str], what: str = "parties") -> str:
    shown = ", ".join(names[:_NAMES])
    return shown if len(names) <= _NAMES else f"{shown} and others, {len(names):,} {what}"


def _parties(count: int) -> str:
    return "1 party" if count == 1 else f"{count:,} parties"


def _kinds(kinds: Sequence[str]) -> str:
    counts = Counter(kind or "what the switch refused" for kind in kinds)
    return ", ".join(f"{n} x {kind}" if n > 1 else kind for kind, n in counts.items())
