"""Reports as plain values, for ``--json``."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import msgspec

from protocol.accounting.composition import Composition
from protocol.audit.at_delta import WorstRespondent
from protocol.audit.audit import Audit
from protocol.audit.claims import ClaimCheck
from protocol.audit.findings import Finding
from protocol.audit.ledger import Account, Ledger
from protocol.audit.replay import Replay
from protocol.session.variant import Claim
from protocol.transcript.verification import Verification

EXAMPLES = 5


def privacy_values(ledger: Ledger, *, partial: bool = False) -> dict[str, Any]:
    """A ledger's figures; what is unbounded is None, with the reasons beside it.

    Args:
        partial: the ledger may lack something, so that no figure of its bounds anything.
    """
    record = ledger.record_epsilon
    reasons = list(ledger.unbounded)
    if partial:
        reasons.append(f"the record could not be read whole; at least {record:.6g} so far")
    if reasons:
        return {"record_epsilon": None, "attribute_epsilon": None, "unbounded": reasons}
    return {"record_epsilon": record, "attribute_epsilon": ledger.attribute_epsilon}


def claims_values(claims: Iterable[Claim]) -> list[dict[str, Any]]:
    """What a variant's authors claim; None where they claim no bound."""
    return [
        {"source": c.source, "says": c.says, "epsilon": c.epsilon and _finite(c.epsilon)}
        for c in claims
    ]


def verification_values(verification: Verification) -> dict[str, Any]:
    """What verifying found."""
    digest = verification.digest
    return {
        "intact": verification.intact,
        "complete": verification.complete,
        "torn": verification.torn,
        "compared": verification.compared,
        "published": verification.published,
        "digest": digest.hex() if digest else None,
        "entries": verification.entries,
        "messages": verification.messages,
        "undelivered": verification.undelivered,
        "signed": {
            "parties": verification.signed,
            "by": len(verification.signed_by),
            "of": len(verification.signed_by) + len(verification.unsigned),
            "unsigned": list(verification.unsigned),
            "checkpoints": verification.checkpoints,
            "at_the_end": verification.final is not None,
        },
        "extends_checkpoint": verification.extends,
        "equivocation": verification.equivocation is not None,
        "faults": [
            {"rule": f.rule, "message": f.message, "offset": f.offset, "entry": f.entry}
            for f in verification.faults
        ],
    }


def account_values(account: Account) -> dict[str, Any]:
    """What one party told, with the messages behind each figure."""
    return {
        "party": account.party,
        "record_epsilon": _finite(account.loss.record),
        "attribute_epsilon": {n: _finite(e) for n, e in account.loss.attributes.items()},
        "trail": [
            {
                "seq": charge.seq,
                "kind": charge.kind,
                "record_epsilon": _finite(charge.loss.record),
                "attributes": {n: _finite(e) for n, e in charge.loss.attributes.items()},
            }
            for charge in account.trail
        ],
    }


def accounts_values(ledger: Ledger) -> list[dict[str, Any]]:
    """All accounts, those that are alike but for the party's name together."""
    groups: dict[tuple[object, ...], list[Account]] = {}
    for account in ledger.accounts.values():
        key = tuple((c.seq, c.kind, id(c.loss)) for c in account.trail)
        groups.setdefault(key, []).append(account)
    return [
        {
            "parties": len(alike),
            "examples": [account.party for account in alike[:EXAMPLES]],
            **{k: v for k, v in account_values(alike[0]).items() if k != "party"},
        }
        for alike in groups.values()
    ]


def checks_values(checks: Iterable[ClaimCheck]) -> list[dict[str, Any]]:
    """Claims beside what the record shows.

    ``record`` is None where that is unbounded. ``factor`` is the record's figure as a multiple of
    the claim's; it is None if it is infinite, or if there is no such number.
    """
    return [
        {
            **claims_values([check.claim])[0],
            "about": check.about,
            "record": _finite(check.record),
            "factor": None if check.factor is None else _finite(check.factor),
            "unbounded": math.isinf(check.record),
        }
        for check in checks
    ]


def finding_values(finding: Finding) -> dict[str, Any]:
    """A finding, with the entries behind it."""
    return {"text": finding.text, "entries": list(finding.entries), "party": finding.party}


def composition_values(composition: Composition) -> dict[str, Any]:
    """What an accountant says at a delta; epsilon is None if it is infinite."""
    values: dict[str, Any] = msgspec.to_builtins(composition)
    return {**values, "epsilon": _finite(composition.epsilon)}


def worst_respondent_values(
    found: WorstRespondent, others: Iterable[Composition]
) -> dict[str, Any]:
    """What tighter accountants say of the respondent of whom most was learned."""
    return {
        "party": found.party,
        "everybody": found.everybody,
        "exact": composition_values(found.composition),
        "others": [composition_values(other) for other in others],
    }


def replay_values(replay: Replay) -> dict[str, Any]:
    """What a member's replay found."""
    return {
        "member": replay.member,
        "follows": replay.follows,
        "compared": replay.compared,
        "tolerated": [finding_values(found) for found in replay.tolerated],
        "differences": [finding_values(found) for found in replay.differences],
        "unsaid": replay.unsaid,
        "why": replay.why or None,
    }


def audit_values(audit: Audit) -> dict[str, Any]:
    """An audit as ``audit --json`` prints it."""
    replay = audit.replay
    estimate = audit.estimate
    return {
        "accepted": audit.accepted,
        "simulated": audit.simulated,
        "findings": [finding_values(finding) for finding in audit.findings],
        "remarks": [finding_values(remark) for remark in audit.remarks],
        "verification": verification_values(audit.verification),
        "completeness": msgspec.to_builtins(audit.completeness),
        "privacy": {
            "observer": audit.ledger.observer,
            **privacy_values(audit.ledger, partial=audit.partial),
            "claims": checks_values(audit.checks),
            "accounts": accounts_values(audit.ledger),
        },
        "replay": {
            "aggregator": None if replay is None else replay_values(replay),
            "parties": len(audit.replays),
            "follow": sum(other.follows is True for other in audit.replays),
            "others": [
                replay_values(other)
                for other in audit.replays
                if other.follows is not True or other.unsaid or other.tolerated
            ],
        },
        "result": {
            "published": replay is not None,
            "follows": None if replay is None else replay.follows,
            "respondents": None if estimate is None else estimate.n,
            "marginals": None
            if estimate is None
            else {
                name: dict(
                    zip(table.categories[0], map(_known, table.values.tolist()), strict=True)
                )
                for name, table in estimate.marginals().items()
            },
        },
    }


def _known(value: float) -> float | None:
    """A number, or None for one that nothing was reported about."""
    return value if math.isfinite(value) else None


def _finite(value: float) -> float | None:
    return None if math.isinf(value) else value
