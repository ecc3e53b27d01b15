"""``sottovoce verify``."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import click

from parties.keeping.checkpoints import (
    write_checkpoints,
    write_evidence,
)
from protocol.errors import UsageError
from scenarios.cli.options import (
    budget_options,
    checkpoint_option,
    digest_option,
    json_option,
    print_statement,
    published_checkpoint,
    transcript_argument,
    witness_key_option,
    witnesses_option,
)
from scenarios.cli.paths import NEW_FOLDER, WRITTEN_FILE
from scenarios.errors import CANNOT_FINISH
from scenarios.running.engines.checking import ChecksMeanwhile
from scenarios.surveys.watching.reading import reading


@click.command()
@transcript_argument
@digest_option
@checkpoint_option
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
@witness_key_option
@witnesses_option
@json_option
@budget_options
def verify(
    transcript: Path,
    digest: bytes | None,
    checkpoint: Path | None,
    evidence: Path | None,
    checkpoints: Path | None,
    witness_keys: tuple[str, ...],
    witnesses: int | None,
    as_json: bool,
) -> int:
    """Check that TRANSCRIPT is what was recorded.

    Exit 0 if it is intact, 1 with every fault that was found, 3 if verifying could not finish.
    """
    if evidence is not None and checkpoint is None:
        raise UsageError("--evidence: expected --checkpoint too")
    with reading(transcript, silent=as_json) as opened, ChecksMeanwhile() as checks:
        published, by = published_checkpoint(checkpoint, witness_keys, witnesses)
        verification = opened.verify(
            digest=digest, checkpoint=published, cosigned=by, checks=checks
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
