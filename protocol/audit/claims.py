"""Claims about a variant's privacy, next to what the record shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import msgspec

from protocol.accounting.accountants import PureAccountant
from protocol.accounting.events import single_events
from protocol.audit.ledger import REFUSED, Ledger
from protocol.audit.passed import Charge
from protocol.session.variant import Claim, Variant

CONFIGURATION = "the survey's configuration"
"""The source of what a parameter promises."""


class ClaimCheck(msgspec.Struct, frozen=True):
    """A claim, and what the record shows of the same.

    Args:
        claim: the claim.
        record: the largest loss on record of the subject of the claim, in nats; may be infinite.
        factor: ``record`` divided by the claim; may be infinite. None if no number is claimed, or
            if both are 0 or infinite.
    """

    claim: Claim
    record: float
    factor: float | None

    @property
    def about(self) -> str:
        """Subject of the two figures, in words."""
        what = "per answer" if self.claim.per == "answer" else "per record"
        kinds = " and ".join(map(repr, self.claim.kinds))
        return f"{what}, in {kinds}" if kinds else what


def check_claims(variant: Variant, ledger: Ledger) -> tuple[ClaimCheck, ...]:
    """Compare every claim with the ledger of an observer that saw everything.

    Unsigned parties count with the most that they may have revealed: a record without signatures
    must not look as if it kept a promise.
    """
    return tuple(_checked(claim, ledger) for claim in _safe_claims(variant))


def _safe_claims(variant: Variant) -> Iterator[Claim]:
    claims = variant.claims()
    yield from claims
    promised = getattr(variant, "epsilon", None)
    if isinstance(promised, float) and all(claim.epsilon != promised for claim in claims):
        yield Claim(CONFIGURATION, "the parameter epsilon", promised)


def _checked(claim: Claim, ledger: Ledger) -> ClaimCheck:
    record = _answer_loss(claim, ledger) if claim.per == "answer" else _record_loss(claim, ledger)
    return ClaimCheck(claim, record, _factor(record, claim.epsilon))


def _factor(record: float, claimed: float | None) -> float | None:
    if claimed is None or (record == claimed and (record == 0.0 or math.isinf(record))):
        return None
    if claimed == 0.0:
        return math.inf
    return record / claimed


def _record_loss(claim: Claim, ledger: Ledger) -> float:
    if not claim.kinds:
        return max(ledger.record_epsilon, ledger.unsigned_epsilon)
    # Parties that did the same share their losses; most surveys have a handful of different ones.
    trails = {
        tuple(id(charge.loss) for charge in trail): trail
        for account in ledger.everybody.values()
        if (trail := _about(claim, account.trail))
    }
    sums = (math.fsum(charge.loss.record for charge in trail) for trail in trails.values())
    return max(sums, default=0.0)


def _answer_loss(claim: Claim, ledger: Ledger) -> float:
    accountant = PureAccountant()
    events = {
        id(charge.event): charge.event
        for account in ledger.everybody.values()
        for charge in _about(claim, account.trail)
    }
    parts = {part for event in events.values() for part in single_events(event)}
    return max((accountant.judge(part).record for part in parts), default=0.0)


def _about(claim: Claim, trail: Iterable[Charge]) -> tuple[Charge, ...]:
    # A refused message may have been of any kind.
    kinds = claim.kinds
    return tuple(c for c in trail if not kinds or c.kind in kinds or c.seq == REFUSED)
