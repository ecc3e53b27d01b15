"""``sottovoce verify``."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import click

from parties.keeping.checkpoints import write_checkpoints, write_evidence
from protocol.errors import UsageError
from scenarios.cli.options import (
    PublishedCheckpoint,
    budget_options,
    digest_option,
    json_option,
    print_statement,
    transcript_argument,
)
from scenarios.cli.paths import NEW_FOLDER, WRITTEN_FILE
from scenarios.cli.values import takes
from scenarios.errors import CANNOT_FINISH
from scenarios.running.engines.checking import ChecksMeanwhile
from scenarios.surveys.watching.reading import reading


@click.command()
@transcript_argument
@digest_option
@takes(PublishedCheckpoint, "published")
@click.option(
    "--evidence",
    type=WRITTEN_FILE,
    help="Where to write both signatures if --checkpoint contradicts the transcript's own.",
)
@click.option(
    "--checkpoints",
    type=NEW_FOLDER,
    help="Where to write every checkpoint of the transcript, to be published, if it has no fault.",
)
@json_option
@budget_options
def verify(
    transcript: Path,
    digest: bytes | None,
    published: PublishedCheckpoint,
    evidence: Path | None,
    checkpoints: Path | None,
    as_json: bool,
) -> int:
    """Check that TRANSCRIPT is what was recorded.

    Exit 0 if it is intact, 1 with every fault or if it is incomplete, 3 if verifying could not
    finish.
    """
    if evidence is not None and published.checkpoint is None:
        raise UsageError("--evidence: expected --checkpoint too")
    with reading(transcript, silent=as_json) as opened, ChecksMeanwhile() as checks:
        checkpoint, by = published.read()
        verification = opened.verify(
            digest=digest, checkpoint=checkpoint, cosigned=by, checks=checks
        )
    if evidence is not None and verification.equivocation is not None:
        write_evidence(verification.equivocation, evidence)
    if checkpoints is not None and verification.header is not None and not verification.faults:
        reader = opened.entries()
        deque(reader, maxlen=0)
        write_checkpoints(reader.notes[: verification.checkpoints], checkpoints)
    from scenarios.statement.audits.verified import state_verified

    print_statement(state_verified(verification), as_json=as_json)
    if verification.verdict == "unfinished":
        return CANNOT_FINISH
    return 0 if verification.intact else 1
