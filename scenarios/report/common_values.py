"""Values that several results have: means, privacy, claims, a verification."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from scenarios.report.statement.of_file import checks_of_file, verdict_of_file
from scenarios.report.statement.parts import Check

if TYPE_CHECKING:
    from protocol.audit.ledger import Ledger
    from protocol.estimators.estimate import Estimate
    from protocol.session.variant import Claim
    from protocol.transcript.cosignatures import Cosigned
    from protocol.transcript.verification import Verification


def means_values(estimate: Estimate) -> dict[str, Any]:
    """The means of attributes that are numbers; an error is None where it is unknown."""
    return {
        name: {"mean": found.value, "standard_error": found.standard_error}
        for name, found in estimate.attribute_means().items()
    }


def privacy_values(ledger: Ledger, *, partial: bool = False) -> dict[str, Any]:
    """A ledger's figures; what is unbounded is None, with the reasons beside it.

    Args:
        partial: the ledger may lack something, so that no figure of its bounds anything.
    """
    record = ledger.record_epsilon
    reasons = list(ledger.unbounded)
    if partial:
        reasons.append(f"the record could not be read whole; at least {record:.6g} so far")
    apart = unsigned_values(ledger)
    if reasons:
        return {"record_epsilon": None, "attribute_epsilon": None, "unbounded": reasons, **apart}
    return {"record_epsilon": record, "attribute_epsilon": ledger.attribute_epsilon, **apart}


def unsigned_values(ledger: Ledger) -> dict[str, Any]:
    """The parties that have signed nothing, where that matters; empty if there are none."""
    if not ledger.unsigned:
        return {}
    epsilon = ledger.unsigned_epsilon
    bound = epsilon if math.isfinite(epsilon) else None
    return {"unsigned": {"parties": len(ledger.unsigned), "record_epsilon": bound}}


def claims_values(claims: Iterable[Claim]) -> list[dict[str, Any]]:
    """What a variant's authors claim; None where they claim no bound."""
    return [{"source": c.source, "says": c.says, "epsilon": c.epsilon} for c in claims]


def verification_values(verification: Verification) -> dict[str, Any]:
    """What verifying found."""
    digest = verification.digest
    word, says = verdict_of_file(verification)
    names = "complete", "torn", "unopened", "compared", "published"
    return {
        "verdict": word,
        "says": says,
        **picked(verification, *names, "entries", "messages", "undelivered"),
        "checks": checks_values(checks_of_file(verification)),
        "digest": digest.hex() if digest else None,
        "signed": {
            "parties": verification.signed,
            "by": len(verification.signed_by),
            "of": len(verification.signed_by) + len(verification.unsigned),
            "unsigned": verification.unsigned,
            "checkpoints": verification.checkpoints,
            "at_the_end": verification.final is not None,
        },
        "extends_checkpoint": verification.extends,
        "equivocation": verification.equivocation is not None,
        **_witness_values(verification),
        "faults": verification.faults,
    }


def _witness_values(verification: Verification) -> dict[str, Any]:
    """Who has cosigned the published and the first checkpoint; empty if nobody was demanded."""
    names = "cosigned", "first_cosigned"
    found = ((name, getattr(verification, name)) for name in names)
    return {name: _cosigned_values(each) for name, each in found if each is not None}


def _cosigned_values(found: Cosigned) -> dict[str, Any]:
    return {
        "enough": found.enough,
        **picked(found, "needed", "missing", "invalid"),
        "by": [{"name": name, "time": time} for name, time in found.by],
    }


def checks_values(checks: Iterable[Check]) -> list[dict[str, Any]]:
    return [picked(check, "about", "state", "says") for check in checks]


def picked(found: object, *names: str) -> dict[str, Any]:
    """Some of what was found, under its own names."""
    return {name: getattr(found, name) for name in names}
