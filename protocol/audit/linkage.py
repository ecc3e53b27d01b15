"""Linkable messages of one party, and the effect of repeated randomization.

A message bears its sender's name, so all messages of one party can be linked, unless they are
hidden in a secure sum. Every further report on the same answer removes some of the randomness.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from protocol.accounting.events import (
    Composed,
    ExactCounts,
    OneOf,
    Plain,
    PrivacyEvent,
    Randomized,
)
from protocol.audit.ledger import Ledger
from protocol.messages import PartyId
from protocol.randomizers.vetting import best_guess_through


class Repeated(msgspec.Struct, frozen=True, kw_only=True):
    """An attribute that was reported several times in linkable messages.

    Args:
        attribute: its name.
        times: the number of reports of each respondent; exact answers count too.
        epsilon: the loss by all reports on it together, in nats; pure, sequential composition.
        success: a bound on the probability of the best guess of the true category from all reports
            on it together, with a uniform prior.
        chance: that probability without any report.
        exact: whether ``success`` is exact, and not a bound.
        method: the computation of ``success``, in words.
    """

    attribute: str
    times: int
    epsilon: float
    success: float
    chance: float
    exact: bool
    method: str


class Linked(msgspec.Struct, frozen=True, kw_only=True):
    """Parties with equally linkable messages.

    Args:
        parties: the parties, in the order of the ledger.
        linked: the kinds of the messages that bear their sender's name, one for each message; empty
            for a message refused at the switch.
        unlinked: the kinds of messages that are hidden in a secure sum.
        repeated: attributes reported more than once among the linked ones.
    """

    parties: tuple[PartyId, ...]
    linked: tuple[str, ...]
    unlinked: tuple[str, ...]
    repeated: tuple[Repeated, ...]


class Linkage(msgspec.Struct, frozen=True):
    """Messages of each respondent that an observer can link.

    Args:
        observer: the observer.
        groups: groups of parties with equally linkable messages, the largest first.
    """

    observer: PartyId
    groups: tuple[Linked, ...]


def link(ledger: Ledger) -> Linkage:
    """Find the messages that an observer can link, by its ledger.

    A message may be charged only because something that may reveal everything passed it on. Such a
    message is taken to be linkable.
    """
    alike: dict[tuple[tuple[str, bool, PrivacyEvent], ...], list[PartyId]] = {}
    for party, account in ledger.everybody.items():
        trail = tuple((charge.kind, charge.summed, charge.event) for charge in account.trail)
        alike.setdefault(trail, []).append(party)
    sizes = dict(zip(ledger.attributes, ledger.sizes, strict=False))
    groups = []
    for trail, parties in alike.items():
        linked = [(kind, event) for kind, summed, event in trail if not summed]
        group = Linked(
            parties=tuple(parties),
            linked=tuple(kind for kind, _ in linked),
            unlinked=tuple(kind for kind, summed, _ in trail if summed),
            repeated=_repeated([event for _, event in linked], ledger, sizes),
        )
        groups.append(group)
    groups.sort(key=lambda group: -len(group.parties))
    return Linkage(ledger.observer, tuple(groups))


def _repeated(
    events: Sequence[PrivacyEvent], ledger: Ledger, sizes: Mapping[str, int]
) -> tuple[Repeated, ...]:
    disclosed = _disclosures(Composed(tuple(events)))
    return tuple(
        _averaged(name, disclosed[name], sizes.get(name))
        for name in ledger.attributes
        if len(disclosed.get(name, ())) > 1
    )


def _disclosures(event: PrivacyEvent) -> dict[str, list[PrivacyEvent]]:
    """Parts of an event that reveal an attribute, by attribute; the most revealing alternative."""
    found: dict[str, list[PrivacyEvent]] = {}
    match event:
        case Composed(events):
            for part in map(_disclosures, events):
                for name, leaves in part.items():
                    found.setdefault(name, []).extend(leaves)
        case OneOf(events):
            for part in map(_disclosures, events):
                for name, leaves in part.items():
                    found[name] = max(found.get(name, []), leaves, key=_weight)
        case Randomized(_, attributes) | ExactCounts(attributes) | Plain(attributes):
            found = {name: [event] for name in attributes}
        case _:
            pass
    return found


def _weight(leaves: Sequence[PrivacyEvent]) -> tuple[float, int]:
    return _epsilon(leaves), len(leaves)


def _epsilon(leaves: Sequence[PrivacyEvent]) -> float:
    return math.fsum(
        leaf.randomizer.epsilon if isinstance(leaf, Randomized) else math.inf for leaf in leaves
    )


def _averaged(name: str, leaves: Sequence[PrivacyEvent], size: int | None) -> Repeated:
    epsilon = _epsilon(leaves)
    # A domain of an unknown size has at least two categories, and a guess is easiest among two.
    size = 2 if size is None else size
    success, exact, method = 1.0, True, "the answers themselves are among what was told"
    if all(isinstance(leaf, Randomized) for leaf in leaves):
        alone = [
            leaf.randomizer
            for leaf in leaves
            if isinstance(leaf, Randomized) and leaf.attributes == (name,)
        ]
        known = best_guess_through(alone) if len(alone) == len(leaves) else None
        if known is not None:
            success, size = known
            method = "exact, over all ways in which reports can agree"
        else:
            success, exact = bound_on_guess(epsilon, size), False
            method = "at most, from the epsilon of all reports together"
    return Repeated(
        attribute=name,
        times=len(leaves),
        epsilon=epsilon,
        success=success,
        chance=1 / size,
        exact=exact,
        method=method,
    )


def bound_on_guess(epsilon: float, size: int) -> float:
    """Upper bound on the chance of the best guess among ``size`` equally likely categories.

    No category's posterior odds against another one exceed ``e**epsilon``, so its probability is at
    most ``1 / (1 + (size - 1) e**-epsilon)``.
    """
    return 1 / (1 + (size - 1) * math.exp(-epsilon))
