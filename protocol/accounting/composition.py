"""The accountant at a delta: the exact composition of one respondent's events.

The dominating pair of laws of a draw is its randomizer's. Their arithmetic is in ``losses``.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import TypeGuard

import msgspec

from protocol.accounting.events import (
    Coins,
    Composed,
    Derived,
    ExactCounts,
    Hidden,
    Masked,
    Merged,
    Merging,
    OneOf,
    Plain,
    PrivacyEvent,
    Public,
    Randomized,
    Sealed,
)
from protocol.accounting.losses import LossDistribution, Pair
from protocol.accounting.sums import CoinTable, SummedResponse
from protocol.errors import UnsupportedEventError
from protocol.randomizers import ThreePoint
from protocol.randomizers.keep import exact_response
from protocol.randomizers.vetting import dominating_pairs

RELATION = "any two records of one respondent (replace one)"
"""The neighbouring relation: the local one, as in the pure accountant."""

PURE_ASSUMPTION = "none: every randomizer draws by itself, whatever was told before"
"""The assumption of the sum of the pure epsilons."""

ASSUMPTION = (
    "every draw is independent, and which randomizers were used was settled without regard to "
    "what this respondent had reported"
)
"""The further assumption of a composition at a delta."""

IN_TURN = (
    "every draw is independent, and how much each message may cost was settled without regard to "
    "what this respondent had reported; how it was drawn need not be"
)
"""The assumption of a composition where messages may be drawn with regard to earlier ones."""

IN_SUMS = (
    "at least {:,} of those in the sum are honest, this one included, and took part as this "
    "respondent did"
)
"""The further assumption of a figure for a contribution to a sum."""

MOST_ALTERNATIVES = 64
"""The most ways in which alternatives may combine before one bound replaces them all."""

# The share of delta that the tails of losses on a grid may take.
_SPARE = 1e-12
# Rounding errors of sums and logarithms, relative and absolute: the result is raised by them.
_ROUNDING = 1e-11
_SMALL = 1e-14

Pairs = frozenset[tuple[Pair, int]]
"""One alternative: pairs, each with the number of times it is composed."""


class Composition(msgspec.Struct, frozen=True, kw_only=True):
    """A bound on the privacy loss of one respondent by all messages together.

    Args:
        epsilon: in nats; infinite if something revealed is not private.
        delta: the probability for which epsilon need not hold.
        relation: the neighbouring relation.
        assumption: what the figure rests on.
        method: how it was computed, and whether it is exact or an upper bound.
        tight: whether it is exact, for answers that differ in every draw.
        honest: number of parties of each sum that have to be honest, this one included; 0 if it
            holds whoever else conspires.
    """

    epsilon: float
    delta: float
    relation: str
    assumption: str
    method: str
    tight: bool
    honest: int = 0


class DominatingPairs(msgspec.Struct, frozen=True):
    """Pairs of laws that dominate events.

    Args:
        alternatives: one of these dominates the events of each respondent; None if they are not
            private.
        tight: whether each pair is exact.
    """

    alternatives: frozenset[Pairs] | None
    tight: bool

    @property
    def honest(self) -> int:
        """The number of honest parties in each sum that these pairs assume; 0 for none."""
        return min((pair.honest for pair in self._sums()), default=0)

    def among_least(self) -> DominatingPairs:
        """Pairs of all sums among as many honest parties as in the smallest: an upper bound."""
        if self.alternatives is None or len({pair.honest for pair in self._sums()}) < 2:
            return self
        honest = self.honest

        def among(pair: Pair) -> Pair:
            return replace(pair, honest=honest) if _is_sum(pair) else pair

        alternatives = frozenset(
            _counted((among(pair), count) for pair, count in pairs) for pairs in self.alternatives
        )
        return DominatingPairs(alternatives, self.tight)

    def _sums(self) -> Iterator[CoinTable | SummedResponse]:
        for pairs in self.alternatives or ():
            yield from (pair for pair, _ in pairs if _is_sum(pair))

    def by_epsilon(self) -> DominatingPairs:
        """Binary randomized response of the same pure epsilon, which dominates these pairs.

        Pairs without a pure epsilon, such as coins, stay as they are.
        """
        if self.alternatives is None:
            return self
        ratio = max(
            math.prod((_ratio(pair) ** count for pair, count in pairs), start=Fraction(1))
            for pairs in self.alternatives
        )
        bounded = [] if ratio == 1 else [(ThreePoint.binary(ratio), 1)]
        others = {
            frozenset([*bounded, *(each for each in pairs if isinstance(each[0], CoinTable))])
            for pairs in self.alternatives
        }
        return _NOTHING if others == {frozenset()} else DominatingPairs(frozenset(others), False)

    def times(self, count: int) -> DominatingPairs:
        """These pairs ``count`` times, each time with any of the alternatives."""
        several, tight = self.alternatives, self.tight
        if several is None:
            return self
        if math.comb(count + len(several) - 1, count) > MOST_ALTERNATIVES:
            several, tight = frozenset([_envelope(several)]), False
        if len(several) == 1:
            return DominatingPairs(frozenset(_sum([(pairs, count)]) for pairs in several), tight)
        choices = itertools.combinations_with_replacement(several, count)
        return DominatingPairs(
            frozenset(_sum(Counter(choice).items()) for choice in choices), tight
        )


_NOTHING = DominatingPairs(frozenset([frozenset()]), True)
_UNBOUNDED = DominatingPairs(None, False)


class ExactAccountant:
    """Epsilon at a delta per record, by the distribution of the privacy loss.

    Args:
        delta: from 0 to less than 1. At 0 the result is pure epsilon.

    Raises:
        ValueError: ``delta`` is out of these bounds.
    """

    def __init__(self, delta: float) -> None:
        if not 0 <= delta < 1:
            raise ValueError(f"delta {delta}: expected from 0 to less than 1")
        self.delta = delta
        self._pairs: dict[tuple[PrivacyEvent, str | None], DominatingPairs] = {}
        self._composed: dict[DominatingPairs, Composition] = {}

    def judge(self, events: Iterable[PrivacyEvent], attribute: str | None = None) -> Composition:
        """Compose all these events about one respondent.

        Args:
            events: the events of one respondent, as in an ``Account``'s trail.
            attribute: for two records that differ in this attribute alone; else in any way.

        Raises:
            UnsupportedEventError: an event is of no class that this accountant knows.
        """
        pairs = self.pairs(events, attribute)
        if pairs not in self._composed:
            self._composed[pairs] = composition(pairs, self.delta)
        return self._composed[pairs]

    def judge_in_turn(self, events: Iterable[PrivacyEvent]) -> Composition:
        """Compose events where a message may depend on earlier ones.

        Given all before it, a message of pure epsilon e is dominated by binary randomized response
        of e (Kairouz, Oh and Viswanath 2015, also for adaptive choices). All but the first count as
        that.

        Raises:
            UnsupportedEventError: as ``judge``.
        """
        found = composition(self.pairs_in_turn(events), self.delta)
        if self.delta == 0 or math.isinf(found.epsilon):
            return found
        return msgspec.structs.replace(
            found,
            assumption=_assumed(IN_TURN, found.honest),
            method="upper bound: convolution of the privacy losses, where all messages but the "
            "first count as binary randomized response of their epsilon",
            tight=False,
        )

    def pairs(
        self, events: Iterable[PrivacyEvent], attribute: str | None = None
    ) -> DominatingPairs:
        """The pairs behind these events.

        Raises:
            UnsupportedEventError: an event is of no class that this accountant knows.
        """
        counted = Counter(events).items()
        return _all_of(
            [(self._dominating_pairs(event, attribute), count) for event, count in counted]
        )

    def pairs_in_turn(self, events: Iterable[PrivacyEvent]) -> DominatingPairs:
        """The pairs behind these events where later ones may depend on earlier ones.

        Raises:
            UnsupportedEventError: as ``judge``.
        """
        parts = [self.pairs([event]) for event in events]
        return _all_of([(part.by_epsilon() if i else part, 1) for i, part in enumerate(parts)])

    def _dominating_pairs(self, event: PrivacyEvent, attribute: str | None) -> DominatingPairs:
        pairs = self._pairs.get((event, attribute))
        if pairs is None:
            pairs = self._pairs[event, attribute] = self._judge(event, attribute)
        return pairs

    def _judge(self, event: PrivacyEvent, attribute: str | None) -> DominatingPairs:
        match event:
            case Public() | Derived() | Merging():
                return _NOTHING
            case Sealed() | Masked() | Hidden():
                return self._dominating_pairs(event.event, attribute)
            case Merged(inner, honest, linked):
                return self._merged(inner, honest, attribute, linked=linked)
            case Coins():
                return self._merged(event, 1, attribute, linked=False)
            case Randomized(randomizer, attributes):
                if attribute is not None and attribute not in attributes:
                    return _NOTHING
                pairs, tight = dominating_pairs(randomizer)
                if pairs is None:
                    return _UNBOUNDED
                return DominatingPairs(frozenset([frozenset(Counter(pairs).items())]), tight)
            case ExactCounts(attributes) | Plain(attributes):
                concerned = attribute is None or attribute in attributes
                return _UNBOUNDED if concerned else _NOTHING
            case Composed(events):
                return self.pairs(events, attribute)
            case OneOf(events):
                return _any_of([self._dominating_pairs(part, attribute) for part in events])
            case _:
                raise UnsupportedEventError(
                    f"this accountant does not know {type(event).__name__!r}"
                )

    def _merged(
        self, event: PrivacyEvent, honest: int, attribute: str | None, *, linked: bool
    ) -> DominatingPairs:
        match event:
            case Coins(trials, chance, tables) if not linked or honest == 1:
                concerned = sum(attribute is None or attribute in table for table in tables)
                return _single(CoinTable(trials, chance, honest), concerned, tight=True)
            case Randomized(randomizer, attributes) if keep := exact_response(randomizer):
                if honest == 1 or not (attribute is None or attribute in attributes):
                    return self._dominating_pairs(event, attribute)
                return _single(SummedResponse(keep, honest), 1, tight=False)
            case Composed(events) if not linked or len(events) == 1:
                parts = [self._merged(part, honest, attribute, linked=linked) for part in events]
                return _all_of([(part, 1) for part in parts])
            case _:
                return self._dominating_pairs(event, attribute)


def exact_epsilon(
    events: Iterable[PrivacyEvent], delta: float, attribute: str | None = None
) -> Composition:
    """Compose one respondent's events at a delta.

    For many respondents keep one ``ExactAccountant``: it remembers what it has judged.

    Raises:
        UnsupportedEventError: an event is of no class that the accountant knows.
        ValueError: ``delta`` is not from 0 to less than 1.
    """
    return ExactAccountant(delta).judge(events, attribute)


def pure_epsilon(pairs: Pairs) -> float:
    """The sum of the epsilons."""
    return math.fsum(pair.epsilon * count for pair, count in pairs)


def largest_epsilon(pairs: DominatingPairs, epsilon_against: Callable[[Pairs], float]) -> float:
    """The largest epsilon of the alternatives; infinite if unbounded.

    It bounds any mixture of them, as each divergence is at most its delta there.
    """
    if pairs.alternatives is None:
        return math.inf
    return max(map(epsilon_against, pairs.alternatives))


def composition(pairs: DominatingPairs, delta: float) -> Composition:
    """The least epsilon at a delta, never above the sum of the epsilons."""
    rounded = []

    def epsilon_against(alternative: Pairs) -> float:
        pure = pure_epsilon(alternative)
        if delta == 0:
            return pure
        losses = LossDistribution.of(dict(alternative), spare=_SPARE * delta)
        rounded.append(losses.step)
        found = losses.epsilon(delta)
        return min(pure, found * (1 + _ROUNDING) + _SMALL) if found else 0.0

    epsilon = largest_epsilon(pairs, epsilon_against)
    step = max(rounded, default=0.0)
    tight = pairs.tight and step == 0
    if pairs.alternatives is None:
        method = "infinite: something told is not private"
    elif math.isinf(epsilon):
        method = "infinite: coins protect at a larger delta alone"
    elif delta == 0:
        method = "sum of the pure epsilons"
    elif tight:
        method = "exact: convolution of the privacy losses"
    else:
        reasons = []
        if not pairs.tight:
            reasons.append(_untight(pairs))
        if step:
            reasons.append(f"losses are split onto a grid of {step:.1g}")
        method = f"upper bound: convolution of the privacy losses; {'; '.join(reasons)}"
    return Composition(
        epsilon=epsilon,
        delta=delta,
        relation=RELATION,
        assumption=PURE_ASSUMPTION if delta == 0 else _assumed(ASSUMPTION, pairs.honest),
        method=method,
        tight=tight,
        honest=pairs.honest if delta else 0,
    )


def _assumed(assumption: str, honest: int) -> str:
    return f"{assumption}; and {IN_SUMS.format(honest)}" if honest else assumption


def _untight(pairs: DominatingPairs) -> str:
    for alternative in pairs.alternatives or ():
        if any(isinstance(pair, SummedResponse) for pair, _ in alternative):
            return "of the others' reports in a sum those count that are drawn blindly"
    return "of a randomizer its epsilon and its total variation distance are used"


def _is_sum(pair: Pair) -> TypeGuard[CoinTable | SummedResponse]:
    """True if a pair assumes other honest parties."""
    return isinstance(pair, CoinTable | SummedResponse) and pair.honest > 1


def _ratio(pair: Pair) -> Fraction:
    """``e**epsilon``, where epsilon is finite; else 1."""
    if isinstance(pair, SummedResponse):
        (pair,) = pair.keep.dominating.pairs or ()
    return pair.ratio if isinstance(pair, ThreePoint) else Fraction(1)


def _single(pair: Pair, count: int, *, tight: bool) -> DominatingPairs:
    if not count:
        return _NOTHING
    return DominatingPairs(frozenset([frozenset([(pair, count)])]), tight)


def _any_of(parts: list[DominatingPairs]) -> DominatingPairs:
    """Dominating pairs of one of several mechanisms, chosen in public."""
    found: set[Pairs] = set()
    for part in parts:
        if part.alternatives is None:
            return _UNBOUNDED
        found |= part.alternatives
    return _limited(found or {frozenset()}, all(part.tight for part in parts))


def _all_of(parts: list[tuple[DominatingPairs, int]]) -> DominatingPairs:
    """Dominating pairs of several mechanisms together, each repeated by its count."""
    whole = _NOTHING
    for part, count in parts:
        several = part.times(count)
        if several.alternatives is None or whole.alternatives is None:
            return _UNBOUNDED
        product = itertools.product(whole.alternatives, several.alternatives)
        summed = {_sum([(one, 1), (other, 1)]) for one, other in product}
        whole = _limited(summed, whole.tight and several.tight)
    return whole.among_least()


def _sum(parts: Iterable[tuple[Pairs, int]]) -> Pairs:
    return _counted((pair, count * times) for pairs, times in parts for pair, count in pairs)


def _counted(pairs: Iterable[tuple[Pair, int]]) -> Pairs:
    counts: Counter[Pair] = Counter()
    for pair, count in pairs:
        counts[pair] += count
    return frozenset(counts.items())


def _limited(alternatives: set[Pairs], tight: bool) -> DominatingPairs:
    """The alternatives, or one bound for all if there are too many."""
    if len(alternatives) <= MOST_ALTERNATIVES:
        return DominatingPairs(frozenset(alternatives), tight)
    return DominatingPairs(frozenset([_envelope(alternatives)]), False)


def _envelope(alternatives: Iterable[Pairs]) -> Pairs:
    """One composition that dominates each of several.

    The pairs of each are sorted by falling epsilon. In each position, a pair of the largest epsilon
    and the largest distance dominates all (see ``ThreePoint``). Other laws are taken as often as in
    the alternative that has them most often.
    """
    rows: list[list[ThreePoint]] = []
    found: Counter[Pair] = Counter()
    for pairs in alternatives:
        rows.append(_falling(pairs))
        found |= Counter({pair: count for pair, count in pairs if not isinstance(pair, ThreePoint)})
    for place in itertools.zip_longest(*rows):
        present = [pair for pair in place if pair is not None]
        ratio = max(pair.ratio for pair in present)
        distance = max(pair.distance for pair in present)
        found[ThreePoint(ratio, distance)] += 1
    return frozenset(found.items())


def _falling(pairs: Pairs) -> list[ThreePoint]:
    points = Counter({pair: count for pair, count in pairs if isinstance(pair, ThreePoint)})
    return sorted(points.elements(), key=lambda pair: pair.ratio, reverse=True)
