"""Sentences on the cost of a survey's check boxes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from protocol.accounting.accountants import PureAccountant
from protocol.accounting.events import PrivacyEvent, Public, Randomized, replaced
from protocol.errors import ProtocolError
from protocol.session.variant import Variant
from scenarios.wording.formatting import cut, some
from scenarios.wording.formatting import epsilon as rounded

_NAMES = 4

ONCE = (
    "By marg-ps or inp-ht a report costs \N{GREEK SMALL LETTER EPSILON} once, however many boxes "
    "there are: every question of this survey has two categories."
)
"""Sentence on variants that pay once where this one pays for each box."""


def box_sentences(variant: Variant) -> Iterator[str]:
    """Cost of each group of check boxes, by the variant's own accounting."""
    survey = variant.survey
    groups = dict.fromkeys(group.attributes for texts in survey.texts for group in texts.groups)
    paid_each = False
    for names in groups:
        boxes = some(map(cut, names), len(names), _NAMES)
        try:
            total, each = _joint_epsilon(variant, names), _paid_each(variant, names)
        except (ProtocolError, ValueError) as error:  # A variant of somebody's own.
            yield f"Check boxes {boxes}: what they cost is not known ({cut(str(error), 200)})."
            continue
        yield f"Check boxes {boxes}: {_cost(names, total, each)}."
        paid_each = paid_each or each is not None
    if paid_each and set(survey.sizes) == {2}:
        yield ONCE


def _cost(names: Sequence[str], total: float, each: Sequence[float] | None) -> str:
    if math.isinf(total):
        return "no \N{GREEK SMALL LETTER EPSILON} bounds what they tell"
    if each is None:
        return f"all {len(names):,} together cost at most {_epsilon(total)}"
    if len({rounded(one) for one in each}) == 1:
        return f"each of {len(names):,} costs {_epsilon(each[0])}, all together {rounded(total)}"
    apart = some(map(rounded, each), len(each), _NAMES)
    return (
        f"they cost \N{GREEK SMALL LETTER EPSILON} {apart}, one by one, all together "
        f"{rounded(total)}"
    )


def _epsilon(value: float) -> str:
    return f"\N{GREEK SMALL LETTER EPSILON} {rounded(value)}"


def _paid_each(variant: Variant, names: Sequence[str]) -> list[float] | None:
    """Epsilon of each attribute; None where these do not add up to the total."""
    event = _report_event(variant)
    if event is None:
        return None
    losses = PureAccountant().judge(event).attributes
    each = [losses.get(name, 0.0) for name in names]
    return each if math.isclose(math.fsum(each), _joint_epsilon(variant, names)) else None


def _joint_epsilon(variant: Variant, names: Sequence[str]) -> float:
    """Epsilon for records that differ only in these attributes."""
    event = _report_event(variant)
    if event is None:
        return variant.most()
    asked = frozenset(names)

    def about(part: PrivacyEvent) -> PrivacyEvent:
        is_other = isinstance(part, Randomized) and asked.isdisjoint(part.attributes)
        return Public() if is_other else part

    return PureAccountant().judge(replaced(event, about)).record


def _report_event(variant: Variant) -> PrivacyEvent | None:
    """Privacy event of a report; None if unknown, or not the same for all reports."""
    event = getattr(variant, "report_event", None)
    return event if isinstance(event, PrivacyEvent) else None
