"""Figures of privacy and claims by their names in JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from protocol.audit.ledger import Ledger
from protocol.session.variant import Claim


def privacy_values(ledger: Ledger, *, partial: bool = False) -> dict[str, Any]:
    """Figures of a ledger; unbounded ones are None, with reasons.

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
    """Values of the claims of a variant's authors; None where they claim no bound."""
    return [{"source": c.source, "says": c.says, "epsilon": c.epsilon} for c in claims]
