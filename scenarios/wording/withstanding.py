"""Sentences on secure sums: colluders, missing parties, and witnesses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from protocol.accounting.spending import DELTA, in_words
from protocol.messages import AGGREGATOR, RECORD, PartyId
from protocol.session.variant import Variant
from protocol.sharing.messages import is_summed
from scenarios.wording.formatting import count, cut, some, upper

if TYPE_CHECKING:
    from protocol.audit.coalition.coalition import Coalition
    from protocol.sharing.graph import Withstood
    from protocol.sharing.sums import SecureSum

T = TypeVar("T")

NOT_KNOWN = (
    "How many may conspire with the aggregator is not known: the variant sums, and has no "
    "SecureSum among its parameters."
)
"""Sentence on a variant with sums of its own kind."""

WITHHELD = "What opens the sum stays with the aggregator: nobody else can check the total."
"""Sentence on a sum with a total that not every reader of the record can unmask."""

_NOBODY_MISSING = "obody may be missing: one sleeping party ends the attempt."

_LISTED = 8

_SIZES = (6, 12, 50, 250)
"""Numbers of parties to give figures for while the number is not known."""


def conspiracy_sentences(found: Withstood) -> tuple[str, ...]:
    """Sentences on colluders and their knowledge, missing parties, and unchecked totals.

    The first sentence includes the number of witnesses that must be honest, if any certify the
    survivors.
    """
    who, learn = _some_of(found.colluders, found.parties), "they learn"
    if found.adaptive < found.colluders:
        who += f", chosen before the neighbours are drawn, or any {found.adaptive:,},"
    elif not found.colluders:
        who, learn = "Nobody", "they learn" if found.readers else "it learns"
    honest = count(found.honest, "honest party", "honest parties")
    missing = f"At most {found.missing:,} may be missing in all; with more the attempt ends without"
    return (
        f"{who} may conspire with {_whom(found)}{trusting(found)}: of the secure sum {learn} one "
        f"total over at "
        f"least {honest}, and nothing else.",
        f"{missing} a result." if found.missing else f"N{_NOBODY_MISSING}",
        *(() if found.readers else (WITHHELD,)),
    )


def trusting(found: Withstood) -> str:
    """Words for the number of honest witnesses that a sum needs, if any."""
    if not found.witnesses:
        return ""
    if found.unwitnessed == found.colluders:
        return ", with or without honest witnesses"
    return f" as long as {_honest(found)}, and {found.unwitnessed:,} if not"


def _honest(found: Withstood) -> str:
    of = count(found.witnesses, "witness", "witnesses")
    return f"{found.trusted:,} of {of} {'is' if found.trusted == 1 else 'are'} honest"


def withstood_in(variant: Variant, parties: int) -> Withstood | None:
    """The figures of a variant's secure sum; None if it sums nothing, or they are not known.

    Raises:
        ValueError: the variant cannot sum among so many parties.
    """
    return _sum_figure(variant, parties, lambda sums: sums.withstands(parties))


def promised_in(variant: Variant, parties: int) -> int | None:
    """Minimum number of honest parties in a variant's secure sum; None if unknown."""
    return _sum_figure(variant, parties, lambda sums: sums.promised(parties))


def _sum_figure(variant: Variant, parties: int, ask: Callable[[SecureSum], T]) -> T | None:
    """A figure of a variant's secure sum; None without a sum, or if unknown."""
    if not is_summed(variant, parties):
        return None
    # Imported late: most variants sum nothing.
    from protocol.sharing.sums import find_secure_sum

    sums = find_secure_sum(variant)
    if sums is None:
        return None
    with suppress(ValueError):  # What a variant of somebody's own does may not fit what it names.
        return ask(sums)
    return None


def sums_sentences(variant: Variant, parties: int) -> tuple[str, ...]:
    """Sentences on a variant's secure sum among so many parties; none without a sum.

    Raises:
        ValueError: the variant cannot sum among so many parties.
    """
    if not is_summed(variant, parties):
        return ()
    found = withstood_in(variant, parties)
    return (NOT_KNOWN,) if found is None else conspiracy_sentences(found)


def coins_sentence(variant: Variant, parties: int | None) -> str:
    """Both figures of a sum with coins: whoever conspires, and with enough honest parties.

    Empty for a variant that sums without coins, or not at all.

    Args:
        parties: number of parties; None if unknown.

    Raises:
        ValueError: the variant cannot sum among so many parties.
    """
    summed = is_summed(variant, parties) if parties else _is_summed_among_some(variant)[0]
    if not summed or math.isfinite(variant.most()):
        return ""
    from protocol.sharing.sums import find_secure_sum

    sums = find_secure_sum(variant)
    if sums is None or sums.noise is None:
        return ""
    if parties is not None:
        cost = variant.most_among(sums.promised(parties), DELTA)
        return f"{upper(in_words(cost))}."
    sizes: dict[int, int] = {}
    for size in _SIZES:
        with suppress(ValueError):
            sizes[size] = sums.promised(size)
    found = (
        f"{variant.most_among(honest, DELTA).epsilon:.3g} if at least {honest:,} of {size:,} are "
        "honest"
        for size, honest in sizes.items()
    )
    return (
        f"Whoever conspires: no bound; at delta {DELTA:g} it depends on how many take part: "
        f"epsilon {', '.join(found)}."
    )


def sums_sentences_by_size(variant: Variant) -> tuple[str, ...]:
    """``sums_sentences`` for an unknown number of parties: figures for a few numbers."""
    summed, why = _is_summed_among_some(variant)
    if not summed:
        return (f"{upper(why)}.",) if why else ()
    from protocol.sharing.graph import COMPLETE
    from protocol.sharing.sums import find_secure_sum

    sums = find_secure_sum(variant)
    if sums is None:
        return (NOT_KNOWN,)
    known: dict[int, Withstood] = {}
    for parties in range(2, COMPLETE + 1):
        with suppress(ValueError):
            known[parties] = sums.withstands(parties)
    if not known:
        return (NOT_KNOWN,)
    some = [_some_of(known[size].colluders, size) for size in _SIZES if size in known]
    first, *others = some or [_some_of(known[max(known)].colluders, max(known))]
    more = "".join(f", {other.removesuffix(' parties')}" for other in others)
    least = next((parties for parties, found in known.items() if found.missing), None)
    readers = known[max(known)].readers
    as_long = f" as long as {_honest(known[max(known)])}" if known[max(known)].witnesses else ""
    whom = _whom(known[max(known)])
    below = f"Up to {COMPLETE}" if least is None else f"Below {least:,}"
    return (
        f"It depends on how many take part: {first} may conspire with {whom}{more}{as_long}.",
        f"{below} parties n{_NOBODY_MISSING}",
        *(() if readers else (WITHHELD,)),
    )


def _is_summed_among_some(variant: Variant) -> tuple[bool, str]:
    """``is_summed`` for the first number of parties that allows it, or why none does."""
    why = ""
    for parties in _SIZES:
        try:
            return is_summed(variant, parties), ""
        except ValueError as error:
            why = str(error)
    return False, why


def _whom(found: Withstood) -> str:
    """Words for whoever can unmask the total."""
    return "the aggregator or any reader of the record" if found.readers else "the aggregator"


def _some_of(some: int, parties: int) -> str:
    return f"{some:,} of {count(parties, 'party', 'parties')}"


def coalition_name(conspiring: Coalition) -> str:
    """The members, taps and keys of a coalition, the first few of each."""
    members, taps, keys = conspiring.members, conspiring.taps, conspiring.keys
    parts = [some(map(cut, members), len(members), 8) or "no member"]
    if taps:
        wires = (f"{cut(a)} and {cut(b)}" for a, b in taps)
        parts.append(f"reading the wire between {some(wires, len(taps), 4)}")
    if keys:
        parts.append(f"with the keys of {some(map(cut, keys), len(keys), 4)}")
    return ", ".join(parts)


def together(observer: Coalition) -> str:
    """Words for a coalition: its first members, taps and keys."""
    taps, keys, means = observer.taps, observer.keys, []
    if taps:
        wires = (f"{cut(a)} and {cut(b)}" for a, b in taps)
        means.append(f"{'a tap' if len(taps) == 1 else 'taps'} between {some(wires, len(taps), 4)}")
    if keys:
        means.append(f"the keys of {some(map(cut, keys), len(keys), 4)}")
    if not observer.members:
        return f"whoever has {' and '.join(means)}"
    who = _members(observer.members)
    return f"{who} with {' and '.join(means)}" if means else who


def _members(members: Sequence[PartyId]) -> str:
    """Words for the first few members, or for a single one."""
    more = [f"{len(members) - _LISTED:,} more"] if len(members) > _LISTED else []
    *others, last = [*map(cut, members[:_LISTED]), *more]
    if others:
        return f"{', '.join(others)} and {last} together"
    words: Mapping[str, str] = {AGGREGATOR: "the aggregator", RECORD: "whoever holds the record"}
    return words.get(last, last)
