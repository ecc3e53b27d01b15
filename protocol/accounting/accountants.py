"""The pure accountant: epsilons of privacy events add up; unprotected ones cost infinity."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

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
from protocol.errors import UnsupportedEventError
from protocol.randomizers.vetting import stated_epsilon


class Loss(msgspec.Struct, frozen=True):
    """A bound on the privacy loss of one respondent, in nats.

    Args:
        record: for two records that differ in any way.
        attributes: for two records that differ in that attribute alone; other attributes cost
            nothing. Attributes that were randomized together each bear the whole cost.
        unbounded: reasons for infinite figures.
    """

    record: float
    attributes: Mapping[str, float]
    unbounded: tuple[str, ...] = ()


NOTHING = Loss(0.0, {})


def total(losses: Iterable[Loss]) -> Loss:
    """Sequential composition: losses about one respondent add up."""
    losses = [loss for loss in losses if loss is not NOTHING]
    if len(losses) == 1:
        return losses[0]
    parts: dict[str, list[float]] = {}
    for loss in losses:
        for name, epsilon in loss.attributes.items():
            parts.setdefault(name, []).append(epsilon)
    return Loss(
        math.fsum(loss.record for loss in losses),
        {name: math.fsum(epsilons) for name, epsilons in parts.items()},
        tuple(dict.fromkeys(reason for loss in losses for reason in loss.unbounded)),
    )


def maximum(losses: Sequence[Loss]) -> Loss:
    """The largest of each figure, where one of these losses occurs and it is unknown which."""
    names = dict.fromkeys(name for loss in losses for name in loss.attributes)
    return Loss(
        max((loss.record for loss in losses), default=0.0),
        {name: max(loss.attributes.get(name, 0.0) for loss in losses) for name in names},
        tuple(dict.fromkeys(reason for loss in losses for reason in loss.unbounded)),
    )


class PureAccountant:
    """Pure epsilon: sequential composition per respondent, parallel across respondents.

    The neighbouring relation is the local one: any two records of one respondent.
    """

    def __init__(self) -> None:
        self._judged: dict[PrivacyEvent, Loss] = {}

    def judge(self, event: PrivacyEvent) -> Loss:
        """The loss of one event.

        Raises:
            UnsupportedEventError: an event class unknown to this accountant, or a randomizer that
                is not hashable or does not state its epsilon.
        """
        try:
            loss = self._judged.get(event)
        except TypeError as error:
            raise UnsupportedEventError(
                f"{type(event).__name__!r} cannot be judged: {error}; expected a hashable, frozen "
                "randomizer"
            ) from error
        if loss is None:
            loss = self._judged[event] = self._judge(event)
        return loss

    def _judge(self, event: PrivacyEvent) -> Loss:
        match event:
            case Public() | Derived() | Merging():
                return NOTHING
            case Masked(ExactCounts(attributes)) | Merged(ExactCounts(attributes)):
                return _unbounded(
                    attributes, "exact counts of {}, which no randomness protects: a secure sum"
                )
            # The worst case: everybody else conspires.
            case Sealed() | Masked() | Merged() | Hidden():
                return self.judge(event.event)
            case Randomized(randomizer, attributes):
                epsilon = stated_epsilon(randomizer)
                reasons: tuple[str, ...] = ()
                if math.isinf(epsilon):
                    reasons = (f"a report on {', '.join(attributes)} can rule an answer out",)
                return Loss(epsilon, dict.fromkeys(attributes, epsilon), reasons)
            case Coins():
                return _unbounded(
                    event.attributes,
                    "exact counts of {} with coins, which protect at a delta alone: a secure sum",
                )
            case ExactCounts(attributes):
                return _unbounded(attributes, "exact counts of {}")
            case Plain(attributes):
                return _unbounded(attributes, "the true answers to {}")
            case Composed(events):
                return total(self.judge(part) for part in events)
            case OneOf(events):
                return maximum([self.judge(part) for part in events])
            case _:
                raise UnsupportedEventError(
                    f"this accountant does not know {type(event).__name__!r}"
                )


def _unbounded(attributes: tuple[str, ...], reason: str) -> Loss:
    why = reason.format(", ".join(attributes))
    return Loss(math.inf, dict.fromkeys(attributes, math.inf), (why,))
