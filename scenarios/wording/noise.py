"""Sentences on sums that carry coins: what holds if so many are honest, and what does not."""

from __future__ import annotations

import functools
from contextlib import suppress
from typing import NamedTuple

from protocol.accounting.composition import ExactAccountant
from protocol.accounting.events import Coins, Composed, Merged, PrivacyEvent, Randomized
from protocol.session.variant import Variant
from protocol.sharing.sums import SecureSum, sums_of
from scenarios.wording.formatting import count, epsilon

DELTA = 1e-6
"""The delta of a figure that needs one, unless another one is asked for."""


class Figure(NamedTuple):
    """What a contribution tells if so many are honest.

    Args:
        honest: parties in the sum of whom nothing else is known, the respondent's own included.
        epsilon: in nats.
        delta: the probability for which it need not hold.
    """

    honest: int
    epsilon: float
    delta: float

    def __str__(self) -> str:
        return f"(ε = {epsilon(self.epsilon)}, δ = {self.delta:g})"


@functools.lru_cache(maxsize=256)
def figure_of(event: PrivacyEvent, honest: int, delta: float = DELTA) -> Figure:
    """What a contribution tells in a sum over so many honest parties, at a delta."""
    found = ExactAccountant(delta).judge([Merged(event, honest)])
    return Figure(honest, found.epsilon, delta)


def summed_event(variant: Variant) -> PrivacyEvent | None:
    """What a contribution tells by itself, if a sum over others hides part of it; else None."""
    event = getattr(variant, "contribution_event", None)
    parts = event.events if isinstance(event, Composed) else (event,)
    hidden = sums_of(variant) is not None and all(isinstance(p, Coins | Randomized) for p in parts)
    return event if hidden and isinstance(event, PrivacyEvent) else None


def figures_of(variant: Variant, parties: int, delta: float = DELTA) -> tuple[Figure, ...]:
    """What a variant promises of its sum: with as many corrupt as it is made for, and at worst.

    The first is with as many corrupt as the sums are made for; the second with as many as they
    withstand, if that is more. None if nothing is hidden by others.

    Raises:
        ValueError: there are too few parties for the sums.
    """
    event, sums = summed_event(variant), sums_of(variant)
    if event is None or sums is None:
        return ()
    least = sums.withstands(parties).honest
    counts = dict.fromkeys((sums.promised(parties), least))
    return tuple(figure_of(event, honest, delta) for honest in sorted(counts, reverse=True))


def noise_sentences(variant: Variant, parties: int, delta: float = DELTA) -> tuple[str, ...]:
    """What coins, or reports in a sum, promise; none if others hide nothing."""
    figures: tuple[Figure, ...] = ()
    with suppress(ValueError):
        figures = figures_of(variant, parties, delta)
    if not figures:
        return ()
    sums = sums_of(variant)
    assert sums is not None
    first, *worse = figures
    said = [f"{first} if at least {_honest(first, sums, parties)}"]
    said += [
        f"{each} if {each.honest:,} are, with as many conspiring as it withstands" for each in worse
    ]
    return (f"What the sum tells of a respondent: {'; '.join(said)}. {_otherwise(variant)}",)


def _honest(figure: Figure, sums: SecureSum, parties: int) -> str:
    missing = sums.withstands(parties).missing
    corrupt = parties - missing - figure.honest
    return (
        f"{figure.honest:,} of {count(parties, 'party', 'parties')} are honest and in it, as when "
        f"{corrupt:,} conspire and {missing:,} are missing"
    )


def _otherwise(variant: Variant) -> str:
    """What holds whoever conspires."""
    most = variant.most()
    if most == float("inf"):
        return "No ε bounds it if all others conspire."
    return f"Whoever conspires, at most ε = {epsilon(most)}."
