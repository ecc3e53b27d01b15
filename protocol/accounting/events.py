"""Privacy events: what a message reveals about its sender's records. Accountants judge them.

The meaning of an event never changes; a new meaning is a new class. Every figure is per respondent:
an event of a party with many respondents holds for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from protocol.randomizers import Randomizer
from protocol.randomizers.coins import FAIR, SIDES


class PrivacyEvent(msgspec.Struct, frozen=True, tag=True, cache_hash=True):
    """Privacy event of one message. Subclasses are the events that accountants may know."""


class Public(PrivacyEvent, frozen=True):
    """Nothing revealed: the message does not depend on the sender's records."""


class Derived(PrivacyEvent, frozen=True):
    """Nothing new: computed from what the sender had received (post-processing)."""


class Randomized(PrivacyEvent, frozen=True):
    """One draw of a randomizer, applied to the combination of these attributes.

    The loss is ``randomizer.epsilon`` for any two records that differ in ``attributes``.
    """

    randomizer: Randomizer
    attributes: tuple[str, ...]


class Coins(PrivacyEvent, frozen=True):
    """Counts of the true answers with coins in every cell, for a sum over many.

    Coins are independent draws of 0 or 1, anew for every cell and every sum. They protect at a
    delta alone, as a sum over honest parties (``Merged``).

    Args:
        trials: number of coins added to each cell, at least 1.
        chance: of each to be 1, in units of 2**-16: 1 to 2**15, a fair coin.
        tables: the attributes of each table; a respondent is in one cell of each.

    Raises:
        ValueError: ``trials`` or ``chance`` is out of these bounds.
    """

    trials: int
    chance: int
    tables: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if self.trials < 1:
            raise ValueError(f"{self.trials} coins for each cell: expected at least 1")
        if not 1 <= self.chance <= FAIR:
            raise ValueError(
                f"a coin of chance {self.chance} in {SIDES}: expected 1 to {FAIR}, a fair one"
            )

    @property
    def attributes(self) -> tuple[str, ...]:
        """All attributes of the tables, each once."""
        return tuple(dict.fromkeys(name for table in self.tables for name in table))


class ExactCounts(PrivacyEvent, frozen=True):
    """Exact counts over these attributes: not differentially private."""

    attributes: tuple[str, ...]


class Plain(PrivacyEvent, frozen=True):
    """The true answers themselves."""

    attributes: tuple[str, ...]


class Masked(PrivacyEvent, frozen=True):
    """A contribution to a secure sum, of which only the sum is revealed.

    The others in the sum follow from its messages. If all of them conspire, the sender's own values
    are revealed.

    Args:
        event: of the contribution alone.
    """

    event: PrivacyEvent


class Sealed(PrivacyEvent, frozen=True):
    """An event for the one member that can open a box.

    The kernel gives it for a message of a sealed kind, a variant for a box inside a message.

    Args:
        reader: the member's id.
        event: of the content.
    """

    reader: str
    event: PrivacyEvent


class Merging(PrivacyEvent, frozen=True):
    """Nothing new: the sum, or the random order, of all that its sender had received.

    A member that sees it, and not what came in, learns about nobody in particular. The sender adds
    up hidden values that it can read, and passes others on unchanged.
    """


class Merged(PrivacyEvent, frozen=True):
    """An event of a respondent among others: in a sum with theirs, or in random order.

    It is charged for an observer that sees what was merged. Variants never give it.

    Args:
        event: the event without the others.
        honest: number of merged parties of which the observer knows nothing else, this one
            included; at least 1.
        linked: whether the parts of a respondent's message stay together, as in random order. In a
            sum every table is added up separately.

    Raises:
        ValueError: ``honest`` is less than 1.
    """

    event: PrivacyEvent
    honest: int
    linked: bool = False

    def __post_init__(self) -> None:
        if self.honest < 1:
            raise ValueError(f"{self.honest} honest parties: expected at least 1, the sender")


class Mask(msgspec.Struct, frozen=True):
    """A random value that a sender adds to a message.

    Args:
        name: of the value; one sender has one value of a name.
        factor: how often it is added.
        power: how often it is multiplied by the recipient's place on the roster. A polynomial with
            such masks as coefficients is Shamir's sharing.
    """

    name: str
    factor: int = 1
    power: int = 0


class Hidden(PrivacyEvent, frozen=True):
    """A sum of a value, of masks, and of values that the sender had received.

    An observer learns all that follows from its view by adding and subtracting. Messages of one
    kind and round from one sender have one value.

    Args:
        event: of the value alone; ``Public`` if the sender adds none of its own.
        masks: the masks that are added.
        onto: the kinds of message with delivered values that are added.
    """

    event: PrivacyEvent
    masks: tuple[Mask, ...] = ()
    onto: tuple[str, ...] = ()

    @classmethod
    def in_shares(cls, event: PrivacyEvent, threshold: int) -> Hidden:
        """One of several shares: ``threshold`` of them reveal the value, and fewer nothing.

        Additive shares among n have the threshold n.
        """
        return cls(event, tuple(Mask(f"share {k}", power=k) for k in range(1, threshold)))


class OneOf(PrivacyEvent, frozen=True):
    """One of several events for each respondent, publicly known which."""

    events: tuple[PrivacyEvent, ...]


class Composed(PrivacyEvent, frozen=True):
    """Several events of one message, with independent randomness."""

    events: tuple[PrivacyEvent, ...]


def single_events(event: PrivacyEvent) -> Iterator[PrivacyEvent]:
    """The single events that an event is made of."""
    if isinstance(event, Composed | OneOf):
        for part in event.events:
            yield from single_events(part)
    elif isinstance(event, Sealed | Masked | Merged | Hidden):
        yield from single_events(event.event)
    else:
        yield event


def tells(event: PrivacyEvent, *kinds: type[PrivacyEvent]) -> bool:
    """True if one of the single events is of one of these classes."""
    return any(isinstance(part, kinds) for part in single_events(event))


def layers(event: PrivacyEvent) -> Iterator[PrivacyEvent]:
    """An event, its parts and their sealed contents. A masked or merged event is one part."""
    yield event
    if isinstance(event, Composed | OneOf):
        for part in event.events:
            yield from layers(part)
    elif isinstance(event, Sealed):
        yield from layers(event.event)


def replaced(event: PrivacyEvent, change: Callable[[PrivacyEvent], PrivacyEvent]) -> PrivacyEvent:
    """An event with every part changed. A masked or merged event is one part."""
    if isinstance(event, Composed | OneOf):
        return type(event)(tuple(replaced(part, change) for part in event.events))
    if isinstance(event, Sealed):
        return msgspec.structs.replace(event, event=replaced(event.event, change))
    return change(event)
