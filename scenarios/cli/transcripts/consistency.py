"""``sottovoce consistency`` and ``evidence``: contradictions of an aggregator or a party."""

from __future__ import annotations

from pathlib import Path

import click

from parties.keeping.checkpoints import read_checkpoint, read_evidence, read_small
from protocol.errors import UsageError
from protocol.messages import AGGREGATOR
from protocol.transcript.consistency import consistency_problems, decode_consistency
from protocol.transcript.receipts import decode_receipt, split_between
from scenarios.cli.options import budget_options, json_option, own_variant_option, print_json
from scenarios.cli.paths import READ_FILE, READ_FOLDER
from scenarios.cli.transcripts.proofs import check_command, consistency_shown
from scenarios.errors import printable
from scenarios.surveys.members import read_member


@click.command()
@click.argument("proof", type=READ_FILE)
@click.option(
    "--since",
    type=READ_FILE,
    required=True,
    help="An earlier published checkpoint: everything in it must still be in the later one.",
)
@click.option("--checkpoint", type=READ_FILE, required=True, help="The later published checkpoint.")
@click.option(
    "--member",
    type=READ_FOLDER,
    help="A member's folder: the session and the aggregator's key must match it.",
)
@own_variant_option
@json_option
@budget_options
def consistency(
    proof: Path,
    since: Path,
    checkpoint: Path,
    member: Path | None,
    variant: str | None,
    as_json: bool,
) -> int:
    """Check PROOF, a consistency proof: was nothing taken back between two checkpoints?

    It needs both published checkpoints, and not the transcript. Exit 0 if it holds, 1 with every
    reason why not.
    """
    if variant is not None and member is None:
        raise UsageError("--variant: expected --member too")
    check_command(proof, "consistency")
    content = read_small(proof)
    later, earlier = read_checkpoint(checkpoint), read_checkpoint(since)
    try:
        found = decode_consistency(content)
    except ValueError as error:
        raise UsageError(f"{proof}: {error}") from error
    problems = [*consistency_problems(found, earlier)]
    if found.later.signed != later.signed:
        problems.append("the proof leads to another checkpoint than the one given")
    if member is not None:
        charter = read_member(member, variant).charter
        if charter.find_attempt(later.session) is None:
            problems.append("the checkpoints are of another survey")
        if later.key != charter.roster.key(AGGREGATOR):
            problems.append("the checkpoints are not the aggregator's")
    shown = consistency_shown(found)
    return shown.print_verdict(problems, later, known=member is not None, as_json=as_json)


@click.command()
@click.argument("file", type=READ_FILE)
@click.argument("other", type=READ_FILE, required=False)
@json_option
@budget_options
def evidence(file: Path, other: Path | None, as_json: bool) -> int:
    """Check FILE, evidence of equivocation: did a key sign two statements that exclude each other?

    'sottovoce verify --evidence', witnesses and parties write such files. Two receipts of one
    session, FILE and OTHER, are evidence if their parties have unmasked a secure sum over different
    survivors. Exit 0 if it is evidence, 1 if not.
    """
    if other is not None:
        return _compare_receipts(file, other, as_json=as_json)
    check_command(file, "evidence")
    found = read_evidence(read_small(file), file)
    twice = found.check()
    if as_json:
        print_json({"holds": twice is not None, "twice": twice, "key": found.key.hex()})
    elif twice is None:
        click.echo("not evidence: a signature is not valid, or the two statements can both be true")
    else:
        click.echo(printable(f"{twice} was signed twice, with different content"))
        click.echo(f"by the holder of the key {found.key.hex()}")
    return 1 if twice is None else 0


def _compare_receipts(one: Path, other: Path, *, as_json: bool) -> int:
    """Report whether two receipts contradict each other; return the exit code."""
    found = []
    for path in (one, other):
        check_command(path, "check")
        try:
            found.append(decode_receipt(read_small(path)))
        except ValueError as error:
            raise UsageError(f"{path}: {error}") from error
    split = split_between(*found)
    if as_json:
        keys = {receipt.party: receipt.key.hex() for receipt in found}
        print_json({"holds": split is not None, "split": split, "keys": keys})
    elif split is None:
        click.echo(
            "not evidence: the receipts are of two sessions, a signature is not valid, or they "
            "show no survivors of a secure sum that differ"
        )
    else:
        click.echo(printable(split))
        for receipt in found:
            click.echo(printable(f"the key of {receipt.party} is {receipt.key.hex()}"))
    return 1 if split is None else 0
