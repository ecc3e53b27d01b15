"""Privacy events: what a message can tell about its sender's records. Accountants judge them.

The meaning of an event never changes; a new meaning is a new class. Every figure is per respondent:
an event of a party that speaks for many respondents holds for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from protocol.randomizers import Randomizer


class PrivacyEvent(msgspec.Struct, frozen=True, tag=True, cache_hash=True):
    """What one message tells. Subclasses are the events that accountants may know."""


class Public(PrivacyEvent, frozen=True):
    """Nothing: the message is the same whatever the sender's records are."""


class Derived(PrivacyEvent, frozen=True):
    """Nothing new: computed from what the sender had received (post-processing)."""


class Randomized(PrivacyEvent, frozen=True):
    """One draw of a randomizer, applied to the combination of these attributes.

    The loss is ``randomizer.epsilon`` for any two records that differ in ``attributes``.
    """

    randomizer: Randomizer
    attributes: tuple[str, ...]


class Masked(PrivacyEvent, frozen=True):
    """Counts hidden by masks that others share: the exact sum over all of them is told.

    Who the others are follows from the record. If all of them tell what they know, the sender's own
    counts are told too.
    """

    attributes: tuple[str, ...]


class ExactCounts(PrivacyEvent, frozen=True):
    """Exact counts over these attributes: not differentially private."""

    attributes: tuple[str, ...]


class Plain(PrivacyEvent, frozen=True):
    """The true answers themselves."""

    attributes: tuple[str, ...]


class OneOf(PrivacyEvent, frozen=True):
    """One of several events, which one being public: of each respondent, one or another."""

    events: tuple[PrivacyEvent, ...]


class Composed(PrivacyEvent, frozen=True):
    """Several events of one message, with independent randomness."""

    events: tuple[PrivacyEvent, ...]


def single_events(event: PrivacyEvent) -> Iterator[PrivacyEvent]:
    """The single events that an event is made of."""
    if isinstance(event, Composed | OneOf):
        for part in event.events:
            yield from single_events(part)
    else:
        yield event


def replaced(event: PrivacyEvent, change: Callable[[PrivacyEvent], PrivacyEvent]) -> PrivacyEvent:
    """An event with every single one in it changed."""
    if isinstance(event, Composed | OneOf):
        return type(event)(tuple(replaced(part, change) for part in event.events))
    return change(event)
