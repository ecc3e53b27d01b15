"""Which messages of one party an observer can link, and what repeated randomization gives away.

A message bears its sender's name, so all that one party says can be linked, unless it is hidden in
a secure sum. Every report on the same answer takes some of the randomness off it again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache

import msgspec

from protocol.accounting.events import (
    Composed,
    ExactCounts,
    OneOf,
    Plain,
    PrivacyEvent,
    Randomized,
)
from protocol.audit.ledger import Charge, Ledger
from protocol.messages import PartyId
from protocol.randomizers import KeepUniform

MOST_ALIKE = 48
"""Up to so many reports by one randomizer the best guess is computed exactly."""

MOST_UNLIKE = 8
"""Up to so many by different ones: all ways in which reports can agree are gone through."""


class Repeated(msgspec.Struct, frozen=True, kw_only=True):
    """An attribute that was told several times in messages that can be linked.

    Args:
        attribute: its name.
        times: how often, of each respondent; exact answers count too.
        epsilon: of all reports on it together, in nats; pure, sequential composition.
        success: at most how likely the best guess of the true category is, from all reports on it
            together, if all categories were equally likely before.
        chance: that likelihood without any report.
        exact: whether ``success`` is the very figure, and not a bound.
        method: how it was computed, in words.
    """

    attribute: str
    times: int
    epsilon: float
    success: float
    chance: float
    exact: bool
    method: str


class Linked(msgspec.Struct, frozen=True, kw_only=True):
    """Parties of whom an observer can link alike.

    Args:
        parties: who, in order of the ledger.
        linked: the kinds of the messages that bear their sender's name, one for each message; empty
            for something that was refused at the switch.
        unlinked: those that are hidden in a secure sum: nothing in them is anybody's in particular.
        repeated: attributes told more than once among those that are linked.
    """

    parties: tuple[PartyId, ...]
    linked: tuple[str, ...]
    unlinked: tuple[str, ...]
    repeated: tuple[Repeated, ...]


class Linkage(msgspec.Struct, frozen=True):
    """What an observer can link of each respondent.

    Args:
        observer: who.
        groups: parties that are alike together, the largest group first.
    """

    observer: PartyId
    groups: tuple[Linked, ...]


def link(ledger: Ledger) -> Linkage:
    """Which messages an observer can link, by the ledger of what it learned.

    A message that the ledger charges an observer with only because something passed it on that may
    tell everything is taken to be linkable, like all that it may tell.
    """
    alike: dict[tuple[tuple[str, bool, PrivacyEvent], ...], list[PartyId]] = {}
    trails: dict[tuple[tuple[str, bool, PrivacyEvent], ...], tuple[Charge, ...]] = {}
    for party, account in ledger.accounts.items():
        key = tuple((charge.kind, charge.summed, charge.event) for charge in account.trail)
        alike.setdefault(key, []).append(party)
        trails.setdefault(key, account.trail)
    sizes = dict(zip(ledger.attributes, ledger.sizes, strict=False))
    groups = [
        Linked(
            parties=tuple(parties),
            linked=tuple(charge.kind for charge in trails[key] if not charge.summed),
            unlinked=tuple(charge.kind for charge in trails[key] if charge.summed),
            repeated=_repeated([c.event for c in trails[key] if not c.summed], ledger, sizes),
        )
        for key, parties in alike.items()
    ]
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
    """By attribute the parts of an event that tell something of it: of one of several, the most."""
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
        keeps = _keeps(leaves, name)
        alike = len(set(keeps)) == 1
        if keeps and len(keeps) <= (MOST_ALIKE if alike else MOST_UNLIKE):
            size = keeps[0].size
            success, method = best_guess(keeps), "exact, over all ways in which reports can agree"
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


def _keeps(leaves: Sequence[PrivacyEvent], name: str) -> tuple[KeepUniform, ...]:
    """The randomizers, if all keep or draw this attribute by itself; else none."""
    keeps = tuple(
        leaf.randomizer
        for leaf in leaves
        if isinstance(leaf, Randomized)
        # A class that is derived from it may draw by another law.
        and type(leaf.randomizer) is KeepUniform
        and leaf.attributes == (name,)
    )
    same = len(keeps) == len(leaves) and len({keep.size for keep in keeps}) == 1
    return tuple(sorted(keeps, key=lambda keep: keep.threshold)) if same else ()


def bound_on_guess(epsilon: float, size: int) -> float:
    """At most how likely the best guess among ``size`` equally likely categories is.

    No category's posterior odds against another one exceed ``e**epsilon``, so its probability is at
    most ``1 / (1 + (size - 1) e**-epsilon)``.
    """
    return 1 / (1 + (size - 1) * math.exp(-epsilon))


@lru_cache(maxsize=256)
def best_guess(keeps: tuple[KeepUniform, ...]) -> float:
    """How likely the best guess of a category is that was reported through each of these.

    All categories are equally likely before. The probability is the sum over all reports of the
    largest likelihood of a category, divided by how many there are; it is computed with rational
    numbers and rounded once.

    Raises:
        ValueError: no randomizer, or of different sizes, or too many to go through.
    """
    sizes = {keep.size for keep in keeps}
    if len(sizes) != 1:
        raise ValueError(f"randomizers of {sorted(sizes)} categories: expected one size")
    most = MOST_ALIKE if len(set(keeps)) == 1 else MOST_UNLIKE
    if len(keeps) > most:
        raise ValueError(f"{len(keeps)} reports: at most {most} are gone through")
    (size,) = sizes
    # A report has probability other_i, and ratio_i times that if it is the truth.
    others = [Fraction(2**64 - keep.threshold, size * 2**64) for keep in keeps]
    ratios = [1 + Fraction(size * keep.threshold, 2**64 - keep.threshold) for keep in keeps]
    agreeing = _alike if len(set(keeps)) == 1 else _unlike
    return float(math.prod(others) * agreeing(ratios, size) / size)


def _alike(ratios: Sequence[Fraction], size: int) -> Fraction:
    """The sum, over all sequences of reports, of the ratio to the count of the most frequent one.

    How many sequences have no category more than c times follows from the generating function
    ``m! [z^m] (sum over j <= c of z^j / j!) ** size``.
    """
    m, ratio = len(ratios), ratios[0]
    whole = Fraction(0)
    before = 0
    for most in range(1, m + 1):
        upto = _sequences(m, size, most)
        whole += (upto - before) * ratio**most
        before = upto
    return whole


def _sequences(m: int, size: int, most: int) -> int:
    """How many sequences of m of so many categories name none more than ``most`` times."""
    base = [Fraction(1, math.factorial(j)) if j <= most else Fraction(0) for j in range(m + 1)]
    # P = base**size by its differential equation, base P' = size base' P, term by term.
    power = [Fraction(1)] + [Fraction(0)] * m
    for j in range(1, m + 1):
        power[j] = sum(
            ((size + 1) * i - j) * base[i] * power[j - i] for i in range(1, min(j, most) + 1)
        ) / Fraction(j)
    return int(power[m] * math.factorial(m))


def _unlike(ratios: Sequence[Fraction], size: int) -> Fraction:
    """The same sum for reports that weigh differently: over all ways in which they can agree."""
    weights: Counter[tuple[int, Fraction]] = Counter()
    for blocks in _partitions(len(ratios)):
        one = Fraction(1)
        heaviest = max(math.prod((ratios[i] for i in block), start=one) for block in blocks)
        weights[len(blocks), heaviest] += 1
    # There is no way to give more blocks than categories different ones: perm says 0.
    return sum(
        (
            times * math.perm(size, blocks) * heaviest
            for (blocks, heaviest), times in weights.items()
        ),
        Fraction(0),
    )


def _partitions(m: int) -> Iterator[list[list[int]]]:
    """All ways to put 0 to m - 1 into blocks."""
    if m == 0:
        yield []
        return
    for blocks in _partitions(m - 1):
        for i in range(len(blocks)):
            yield [*blocks[:i], [*blocks[i], m - 1], *blocks[i + 1 :]]
        yield [*blocks, [m - 1]]
