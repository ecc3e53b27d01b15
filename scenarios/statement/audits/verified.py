"""Statement of a verified file."""

from __future__ import annotations

from typing import Any

from protocol.transcript.cosignatures import Cosigned
from protocol.transcript.verification import Verification
from scenarios.statement.audits.of_file import checks_of_file, on_record, verdict_of_file
from scenarios.statement.statement import Fact, Statement
from scenarios.wording.formatting import count, rest

FAULTS = 50
"""Maximum number of listed faults."""


def state_verified(verification: Verification) -> Statement:
    """The verdict on a file, and every fault."""
    word, says = verdict_of_file(verification)
    faults = [f"fault: {fault}" for fault in verification.faults[:FAULTS]]
    total = len(verification.faults) + verification.faults_left_out
    if more := rest(total, FAULTS, "faults; --json lists them"):
        faults.append(more)
    facts: tuple[Fact, ...] = ()
    if verification.digest is not None:
        whole, digest = verification.read_whole, verification.digest.hex()
        facts = (
            Fact(
                "file",
                f"{'' if whole else 'so far as it could be read: '}"
                f"{count(verification.entries, 'entry', 'entries')}, "
                f"{count(verification.messages, 'message')} sent, "
                f"{verification.undelivered:,} of them never delivered",
            ),
            Fact("digest" if whole else "digest of what was read", digest),
        )
    return Statement(
        verdicts=(on_record(word, says, tuple(faults)),),
        facts=facts,
        checks=checks_of_file(verification),
        values=verification_values(verification),
    )


def verification_values(verification: Verification) -> dict[str, Any]:
    """Values of a verification."""
    digest = verification.digest
    word, says = verdict_of_file(verification)
    return {
        "verdict": word,
        "says": says,
        "complete": verification.complete,
        "torn": verification.torn,
        "unopened": verification.unopened,
        "compared": verification.compared,
        "published": verification.published,
        "entries": verification.entries,
        "messages": verification.messages,
        "undelivered": verification.undelivered,
        "checks": [
            {"about": check.about, "state": check.state, "says": check.says}
            for check in checks_of_file(verification)
        ],
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
    """Witnesses of the published and the first checkpoint; empty if none was demanded."""
    found = {"cosigned": verification.cosigned, "first_cosigned": verification.first_cosigned}
    return {name: _cosigned_values(each) for name, each in found.items() if each is not None}


def _cosigned_values(found: Cosigned) -> dict[str, Any]:
    return {
        "enough": found.enough,
        "needed": found.needed,
        "missing": found.missing,
        "invalid": found.invalid,
        "by": [{"name": name, "time": time} for name, time in found.by],
    }
