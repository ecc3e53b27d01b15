"""``sottovoce prove``, ``check`` and ``page``: a party's reports are counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from parties.keeping.checkpoints import read_checkpoint, read_small
from parties.keeping.members import Member
from parties.keeping.writing import write_whole
from protocol.audit.proofs.consistency import prove_consistency
from protocol.errors import UsageError
from protocol.messages import AGGREGATOR, NO_ROUND, Envelope, Message, PartyId
from protocol.session.variant import Variant
from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.transcript.consistency import encode_consistency
from protocol.transcript.receipts import (
    Receipt,
    decode_receipt,
    encode_receipt,
    is_about,
    receipt_problems,
)
from protocol.variants import BUILT_IN
from scenarios.cli.options import (
    budget_options,
    json_option,
    print_json,
    transcript_argument,
    variant_option,
)
from scenarios.cli.paths import READ_FILE, READ_FOLDER, READ_PATH, TEXT_WITH_FILE, WRITTEN_FILE
from scenarios.cli.transcripts.inspect import open_reader
from scenarios.cli.transcripts.proofs import check_command, consistency_shown, receipt_shown
from scenarios.errors import printable
from scenarios.files.kinds import PAGES, check_ending
from scenarios.files.transcripts import open_transcript
from scenarios.running.loading import find_variant, variant_class
from scenarios.surveys.members import read_member

SUFFIX = ".receipt"
CONSISTENCY_SUFFIX = ".consistency"


@click.command()
@transcript_argument
@click.argument("party", required=False)
@click.option(
    "--since",
    type=READ_FILE,
    help="An earlier published checkpoint: everything in it must still be in the later one.",
)
@click.option(
    "--checkpoint",
    type=READ_FILE,
    help="The published checkpoint to prove it for, by default the last of the transcript.",
)
@click.option(
    "--out",
    type=WRITTEN_FILE,
    help=f"The file to write, by default PARTY{SUFFIX} or size-7-14{CONSISTENCY_SUFFIX}.",
)
@variant_option
@json_option
@budget_options
def prove(
    transcript: Path,
    party: str | None,
    since: Path | None,
    checkpoint: Path | None,
    out: Path | None,
    variant: str | None,
    as_json: bool,
) -> None:
    """Write a receipt: the reports of PARTY are counted in TRANSCRIPT, as far as a checkpoint goes.

    With --since instead of PARTY, write a consistency proof: everything in an earlier checkpoint is
    in a later one too, unchanged and in the same order.

    The survey may still be going on. Exit 1, with the reason, if that is not so. 'sottovoce check'
    checks a receipt, and 'sottovoce consistency' the other, with the published checkpoints and
    without the transcript.
    """
    opened = open_transcript(transcript)
    later = None if checkpoint is None else read_checkpoint(checkpoint)
    if since is None:
        if party is None:
            raise UsageError("expected a PARTY, or --since FILE")
        cls = variant_class(open_reader(opened, transcript).header, variant)
        receipt, covering = opened.prove(cls, PartyId(party), later)
        # The name has been found on the roster, so it is fit to be a file's.
        content, file = encode_receipt(receipt), f"{party}{SUFFIX}"
        said = receipt_shown(receipt, covering)
    else:
        if party is not None or variant is not None:
            raise UsageError("--since: takes neither a PARTY nor --variant")
        earlier = read_checkpoint(since)
        proof = prove_consistency(opened.chunks, earlier=earlier, later=later)
        content, said = encode_consistency(proof), consistency_shown(proof)
        file = f"size-{proof.old}-{proof.later.size}{CONSISTENCY_SUFFIX}"
    path = Path(file) if out is None else out
    write_whole(path, content)
    if as_json:
        print_json({**said.values, "file": str(path), "bytes": len(content)})
        return
    for line in said.lines:
        click.echo(printable(line))
    click.echo(f"written: {path} ({len(content):,} bytes)")


@click.command()
@click.argument("receipt", type=READ_PATH, required=False)
@click.option(
    "--checkpoint",
    type=READ_FILE,
    help="The published checkpoint of the receipt, which must be given.",
)
@click.option(
    "--report",
    type=READ_FILE,
    help="The envelope of a report as it was sent: the receipt must be about it.",
)
@click.option(
    "--variant",
    type=TEXT_WITH_FILE,
    metavar="PATH.py:Class",
    help="The class of a variant of your own, to read the round of its reports with.",
)
@click.option(
    "--member",
    type=READ_FOLDER,
    help="A party's folder: the aggregator's key and the signed messages must match it.",
)
@click.option(
    "--page",
    "url",
    metavar="URL",
    help="Instead of RECEIPT: where a survey is answered. The page there must be that of this "
    "release, byte by byte.",
)
@json_option
@budget_options
def check(
    receipt: Path | None,
    checkpoint: Path | None,
    report: Path | None,
    variant: str | None,
    member: Path | None,
    url: str | None,
    as_json: bool,
) -> int:
    """Check RECEIPT, or a late note: were the reports of a party counted?

    It needs the published checkpoint, and not the transcript. Exit 0 if it holds, 1 with every
    reason why not. The last line for a receipt that holds is 'counted', 'late' or 'not yet known'.

    With --page instead of RECEIPT, check the page on which people answer a survey.
    """
    if url is not None:
        if any(each is not None for each in (receipt, checkpoint, report, variant, member)):
            raise UsageError("--page: takes neither a RECEIPT nor the options of one")
        return _check_page(url, as_json=as_json)
    if receipt is None:
        raise UsageError("expected a RECEIPT, or --page URL")
    check_command(receipt, "check")
    if checkpoint is None:
        raise UsageError("expected --checkpoint too, the published one")
    content, published = read_small(receipt), read_checkpoint(checkpoint)
    cls = None if variant is None else find_variant(variant)
    try:
        found = decode_receipt(content)
    except ValueError as error:
        raise UsageError(f"{receipt}: {error}") from error
    mine = None if member is None else read_member(member, variant)
    if mine is None:
        # A receipt does not name its variant; messages are imported with theirs.
        tuple(BUILT_IN.values())
    problems = [*receipt_problems(found, published), *_wrong_rounds(found, cls)]
    shown = receipt_shown(found, published)
    if not all(_rounds(each.envelope, cls) for each in found.reports):
        shown.lines.append("the round of each report is as the receipt says; --variant reads it")
    compared = None if report is None else is_about(found, read_small(report))
    if compared is False:
        problems.append(f"{report} is not one of the reports that the receipt is about")
    if mine is not None:
        problems += _not_mine(found, published, mine)
    shown.values["compared"] = compared
    return shown.print_verdict(problems, published, known=mine is not None, as_json=as_json)


@click.command()
@click.argument("file", type=WRITTEN_FILE)
def page(file: Path) -> None:
    """Write FILE, a web page on which respondents check receipts in their own browser, offline."""
    from scenarios.report.page.respondent import respondent_page

    check_ending("FILE", file, PAGES)
    write_whole(file, respondent_page())
    click.echo(printable(f"written: {file}"))


def _check_page(url: str, *, as_json: bool) -> int:
    """Compare the served page with the page of this release; return the exit code."""
    from scenarios.report.served import compare_page

    found = compare_page(url)
    if as_json:
        print_json(found.values())
    else:
        for line in found.lines():
            click.echo(printable(line))
    return 1 if found.problems else 0


def _wrong_rounds(receipt: Receipt, variant: type[Variant] | None) -> Iterator[str]:
    """Problems with the rounds of reports, as far as their messages show them."""
    topics = [*(each.topic for each in receipt.counted), *(each.topic for each in receipt.late)]
    for topic, report in zip(topics, receipt.reports, strict=True):
        found = _rounds(report.envelope, variant)
        if found and topic is not None and found != {topic[1]}:
            hint = "; for your own variant, pass --variant PATH.py:Class" if variant is None else ""
            yield f"a report is not of the round in the receipt{hint}"


def _rounds(envelope: Envelope | None, variant: type[Variant] | None) -> set[int]:
    """Rounds of an envelope's message, by every imported class of its kind.

    Built-in classes of one kind agree on where the round is.
    """
    if envelope is None:
        return set()
    classes = [kind for kind in _classes(Message) if kind.kind() == envelope.kind]
    if variant is not None:
        own = [kind for kind in classes if kind.__module__ == variant.__module__]
        classes = own or classes
    found: set[int] = set()
    try:
        values = msgspec.msgpack.decode(envelope.body, type=tuple[msgspec.Raw, ...])
        for fields in (kind.__struct_fields__ for kind in classes):
            if len(values) == len(fields) and "round" not in fields:
                found.add(NO_ROUND)
            elif len(values) == len(fields):
                found.add(msgspec.msgpack.decode(values[fields.index("round")], type=int))
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        return set()
    return found


def _classes(base: type[Message]) -> Iterator[type[Message]]:
    for kind in base.__subclasses__():
        yield kind
        yield from _classes(kind)


def _not_mine(receipt: Receipt, checkpoint: SignedCheckpoint, mine: Member) -> list[str]:
    roster, name = mine.charter.roster, receipt.party
    checks = (
        (
            mine.charter.find_attempt(checkpoint.session) is not None,
            "the checkpoint is of another survey",
        ),
        (name == mine.identity.name, f"the receipt is about {name!r}, not {mine.identity.name!r}"),
        (checkpoint.key == roster.key(AGGREGATOR), "the checkpoint is not the aggregator's"),
        (receipt.key == mine.identity.public, "the receipt's key is not the party's"),
        (receipt.head is not None, "the party's messages are not signed by the party"),
    )
    return [problem for sound, problem in checks if not sound]
