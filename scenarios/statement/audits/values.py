"""The figures of an audit by their names in JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from protocol.audit.claims import ClaimCheck
from protocol.audit.coalition.finding import CoalitionFinding, SumFinding
from protocol.audit.ledger import Account
from protocol.audit.linkage import Linkage
from protocol.audit.replay import Replay
from protocol.messages import PartyId
from scenarios.statement.audits.checks import has_sum
from scenarios.statement.audits.coalitions import active_notes
from scenarios.statement.audits.judged import Judged
from scenarios.statement.audits.lies import false_answer_values
from scenarios.statement.audits.replays import is_exact
from scenarios.statement.audits.spot import spot_values
from scenarios.statement.audits.verified import verification_values
from scenarios.statement.calibration import calibration_values
from scenarios.statement.estimates import announced_values, interval_values, means_values
from scenarios.statement.privacy_values import claims_values, privacy_values, unsigned_values
from scenarios.statement.sampling import design_values, response_values

EXAMPLES = 5
LISTED_NAMES = 50
LISTED_SETS = 100
"""Maximum number of names of a set, and of sets; all are counted."""


def audit_values(judged: Judged) -> dict[str, Any]:
    """Values of ``audit --json``, without the statement."""
    audit = judged.audit
    privacy = {
        "observer": audit.ledger.observer,
        **privacy_values(audit.ledger, partial=audit.partial),
        "claims": [_claim_values(check) for check in audit.checks],
        "accounts": _accounts_values(audit.ledger.accounts.values()),
    }
    if audit.apart:
        privacy["apart"] = [
            {
                "observer": each.observer,
                **privacy_values(each, partial=audit.partial),
                "honest": each.honest,
            }
            for each in audit.apart
        ]
    if audit.sealed:
        privacy["sealed"] = audit.sealed
    worst = judged.worst_respondent
    if worst is not None:
        privacy["at_delta"] = {
            "party": worst.party,
            "everybody": worst.everybody,
            "exact": worst.composition,
            "others": judged.second_opinions,
        }
    elif judged.no_delta:
        privacy["at_delta"] = {"exact": None, "others": [], "missing": judged.no_delta}
    values = {
        "verdict": audit.verdict,
        **_audit_values(judged),
        "privacy": privacy,
        "linkage": linkage_values(judged.linkage),
    }
    if (analysis := audit.charter.analysis) is not None:
        values["analysis"] = announced_values(analysis, judged.announced, audit.estimate)
    if judged.coalition is not None:
        values["coalition"] = coalition_values(judged.coalition, notes=judged.coalition_notes)
    if (found := judged.worst) is not None:
        active = active_notes(found, judged.withstands) if has_sum(found.finding) else ()
        values["worst"] = {
            "exact": found.exact,
            "search": found.search,
            "withstands": judged.withstands,
            **coalition_values(found.finding, notes=(*active, *judged.worst_notes)),
        }
    if judged.spot is not None:
        values["spot"] = spot_values(judged.spot)
    if judged.account is not None:
        values["trail"] = {"party": judged.account.party, **_account_values(judged.account)}
    return values


def _claim_values(check: ClaimCheck) -> dict[str, Any]:
    """A claim next to the record's figure.

    ``factor`` is the record's figure as a multiple of the claim's; None if there is no such number.
    """
    return {
        **claims_values([check.claim])[0],
        "about": check.about,
        "record": check.record,
        "factor": check.factor,
        "unbounded": math.isinf(check.record),
    }


def _accounts_values(accounts: Iterable[Account]) -> list[dict[str, Any]]:
    """All accounts; accounts that differ only in the party's name are listed together."""
    groups: dict[tuple[object, ...], list[Account]] = {}
    for account in accounts:
        key = tuple((c.seq, c.kind, id(c.loss)) for c in account.trail)
        groups.setdefault(key, []).append(account)
    return [
        {
            "parties": len(alike),
            "examples": [account.party for account in alike[:EXAMPLES]],
            **_account_values(alike[0]),
        }
        for alike in groups.values()
    ]


def _account_values(account: Account) -> dict[str, Any]:
    return {
        "record_epsilon": account.loss.record,
        "attribute_epsilon": account.loss.attributes,
        "trail": [
            {
                "seq": charge.seq,
                "kind": charge.kind,
                "record_epsilon": charge.loss.record,
                "attributes": charge.loss.attributes,
            }
            for charge in account.trail
        ],
    }


def _replay_values(replay: Replay) -> dict[str, Any]:
    return {
        "member": replay.member,
        "follows": replay.follows,
        "compared": replay.compared,
        "tolerated": replay.tolerated,
        "differences": replay.differences,
        "unsaid": replay.unsaid,
        "why": replay.why or None,
    }


def _audit_values(judged: Judged) -> dict[str, Any]:
    audit, intervals, estimate = judged.audit, judged.intervals, judged.estimate
    replay = audit.replay
    return {
        "simulated": audit.simulated,
        "trial": audit.trial,
        "attempt": audit.charter.attempt,
        "findings": audit.findings,
        "remarks": audit.remarks,
        "verification": verification_values(audit.verification),
        "completeness": audit.completeness,
        "response": response_values(audit.completeness),
        **design_values(audit.design, audit.no_design),
        "replay": {
            "aggregator": None if replay is None else _replay_values(replay),
            "parties": len(audit.replays),
            "follow": sum(other.follows is True for other in audit.replays),
            "others": [
                _replay_values(other)
                for other in audit.replays
                if other.follows is not True or other.unsaid or other.tolerated
            ],
        },
        "result": {
            "published": replay is not None,
            "follows": None if replay is None else replay.follows,
            "respondents": None if estimate is None else estimate.n,
            **(
                {}
                if estimate is None or estimate.weighted_n is None
                else {"effective_sample_size": estimate.weighted_n}
            ),
            "false_answers": false_answer_values(judged),
            "marginals": None
            if estimate is None
            else {
                name: dict(zip(table.categories[0], table.values.tolist(), strict=True))
                for name, table in estimate.marginals().items()
            },
            "intervals": None
            if estimate is None
            else interval_values(estimate, intervals, estimate.marginals().values()),
            **(
                {"means": means_values(estimate)}
                if estimate is not None and estimate.attribute_means()
                else {}
            ),
            **(
                {}
                if judged.calibrated is None
                else {"calibration": calibration_values(judged.calibrated)}
            ),
        },
    }


def coalition_values(finding: CoalitionFinding, *, notes: Iterable[str] = ()) -> dict[str, Any]:
    """Values of a coalition's knowledge.

    Long lists are cut to ``LISTED_NAMES`` names of a set and ``LISTED_SETS`` sets; their full
    numbers are given.

    Args:
        notes: cautions about the request.
    """
    return {
        "members": finding.coalition.members,
        "taps": finding.coalition.taps,
        "keys": finding.coalition.keys,
        "smallest": finding.smallest,
        "searched": finding.searched,
        "whole": finding.whole,
        "remarks": finding.remarks,
        "exposed": _set_values(finding.exposed),
        "determined": _sets_values(finding.determined),
        "mixed": _sets_values(finding.mixed),
        "pairs": {"count": len(finding.pairs), "listed": finding.pairs[:LISTED_SETS]},
        "sums": [_sum_values(found) for found in finding.sums],
        "record_epsilon": finding.ledger.record_epsilon,
        "unbounded": finding.ledger.unbounded,
        **unsigned_values(finding.ledger),
        "notes": list(notes),
    }


def _sum_values(found: SumFinding) -> dict[str, Any]:
    parts = sorted(found.components, key=lambda part: len(part.parties))
    listed = [
        {
            **_set_values(part.parties),
            "determined": part.determined,
            "hidden_by": part.hidden_by or None,
        }
        for part in parts[:LISTED_SETS]
    ]
    return {
        "profile": found.profile,
        "contributed": found.contributed,
        "honest": found.honest,
        "uploads_seen": found.uploads_seen,
        "total_known": found.total_known,
        "unknown_masks": found.unknown_masks,
        "masks": found.masks,
        "smallest_component": found.smallest_component,
        "entries": found.entries,
        "exact_counts": is_exact(found.event),
        "opened": _set_values(found.opened),
        "components": {"count": len(parts), "listed": listed},
    }


def linkage_values(linkage: Linkage) -> dict[str, Any]:
    """Values of linkable reports: the largest groups, and their number."""
    return {
        "observer": linkage.observer,
        "count": len(linkage.groups),
        "groups": [
            {
                **_set_values(group.parties),
                "linked": group.linked,
                "unlinked": group.unlinked,
                "repeated": group.repeated,
            }
            for group in linkage.groups[:LISTED_SETS]
        ],
    }


def _sets_values(sets: Sequence[tuple[PartyId, ...]]) -> dict[str, Any]:
    ordered = sorted(sets, key=len)
    return {"count": len(sets), "listed": [_set_values(s) for s in ordered[:LISTED_SETS]]}


def _set_values(parties: tuple[PartyId, ...]) -> dict[str, Any]:
    return {"size": len(parties), "parties": parties[:LISTED_NAMES]}
