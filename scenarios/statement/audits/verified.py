"""What is stated of a file that was verified by itself."""

from __future__ import annotations

from protocol.transcript.verification import Verification
from scenarios.statement.audits.checks import checks_of_file, verdict_of_file
from scenarios.statement.audits.values import verification_values
from scenarios.statement.statement import Fact, State, Statement, Verdict
from scenarios.wording.formatting import count

FAULTS = 50
"""The most faults that are listed."""


def state_verified(verification: Verification) -> Statement:
    """The verdict on a file, and every fault."""
    word, says = verdict_of_file(verification)
    state: State = "good" if word == "sound" else "bad" if word == "broken" else "open"
    faults = [f"fault: {fault}" for fault in verification.faults[:FAULTS]]
    more = len(verification.faults) - FAULTS + verification.faults_left_out
    if more > 0:
        faults.append(f"and {more:,} more faults; --json lists them")
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
        verdicts=(
            Verdict(about="Record", word=word, state=state, says=says, reasons=tuple(faults)),
        ),
        facts=facts,
        checks=checks_of_file(verification),
        values=verification_values(verification),
    )
