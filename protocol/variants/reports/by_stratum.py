"""The result of a survey with design weights, by stratum, and its estimate."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, cast

from msgspec import UNSET

from protocol.estimators.estimate import Estimate
from protocol.estimators.linear import LinearEstimate
from protocol.messages import SCALAR_BYTES, Message, PartyId
from protocol.session.variant import Variant
from protocol.surveys.limits import MAX_RESPONDENTS
from protocol.wire.arrays import encode_message
from protocol.wire.codec import Codec, Kind

E = TypeVar("E", bound=Estimate)
R = TypeVar("R")
V = TypeVar("V", bound=Variant)

_BESIDE = 8
"""The most bytes around the encoded result of a stratum."""


class ByStratum(Message, frozen=True):
    """The published result of a survey with weights: one result for each stratum.

    Args:
        results: encoded, in the order of the strata's names; empty if no report was counted.
    """

    results: tuple[bytes, ...]


def with_strata(variant: Variant, kinds: tuple[Kind, ...]) -> tuple[Kind, ...]:
    """The kinds of a variant, with the result by stratum added if it has weights.

    Args:
        variant: with weights, or without.
        kinds: the kinds without weights, the result last.
    """
    if not variant.strata:
        return kinds
    most = len(variant.strata) * (kinds[-1].max_bytes + _BESIDE)
    return (*kinds, Kind(ByStratum, scalar_bytes=SCALAR_BYTES + most))


def pooled_by_stratum(
    variant: Variant, read: Mapping[PartyId, R], pooled: Callable[[Sequence[R]], Message]
) -> Message:
    """The result from reports, by stratum if the variant has weights.

    Args:
        variant: with weights, or without.
        read: the report of each party, at least one.
        pooled: makes the result from some reports.

    Raises:
        SurveyError: a party is in no stratum.
    """
    if not variant.strata:
        return pooled(list(read.values()))
    reports: dict[str, list[R]] = {name: [] for name in variant.strata}
    for party, report in read.items():
        reports[variant.stratum(party)].append(report)
    return ByStratum(
        tuple(encode_message(pooled(each)) if each else b"" for each in reports.values())
    )


def weighted(estimate: Callable[[V, Message], E]) -> Callable[[V, Message], E]:
    """Make a linear ``OneReport.estimate`` accept a result by stratum too.

    The estimate from such a result has a ``Weighted`` source, in spite of its type.
    """

    @functools.wraps(estimate)
    def found(variant: V, result: Message) -> E:
        if not isinstance(result, ByStratum):
            return estimate(variant, result)
        # Imported late: few surveys have weights.
        from protocol.estimators.releases.weighted import Stratum, Weighted

        strata = []
        for weight, single in _results(variant, result):
            one = estimate(variant, single)
            if not isinstance(one, LinearEstimate):
                raise TypeError(f"{one!r}: expected a LinearEstimate")
            strata.append(Stratum(weight, one.source))
        return cast(E, LinearEstimate(Weighted(variant.survey, tuple(strata))))

    vars(found)["stratified"] = True
    return found


def _results(variant: Variant, result: ByStratum) -> list[tuple[float, Message]]:
    """The weight and the result of each stratum that has reports.

    Raises:
        ValueError: not one result for each stratum, or no report at all.
        RemoteProtocolError: a result is malformed.
    """
    if variant.weights is UNSET or len(result.results) != len(variant.strata):
        raise ValueError(
            f"{len(result.results)} results: expected one for each of {len(variant.strata)} strata"
        )
    # The result does not name the parties, so their number is taken to be the largest.
    kind = variant.kinds(MAX_RESPONDENTS // variant.max_records)[-2]
    codec = Codec((kind,), members=1)
    found = [
        (variant.weights[name], codec.decode(kind.name, content))
        for name, content in zip(variant.strata, result.results, strict=True)
        if content
    ]
    if not found:
        raise ValueError("no reports: expected at least one")
    return found
