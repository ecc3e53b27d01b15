"""``sottovoce prove`` and ``check``: a report was counted, and nothing was taken back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from protocol.audit.proofs.extension import prove_extension
from protocol.messages import NO_ROUND, Envelope, Message, PartyId
from protocol.session.roles import Topic
from protocol.session.variant import Variant
from protocol.transcript.checkpoints import SignedCheckpoint, Statement
from protocol.transcript.extension import MAGIC as EXTENSION
from protocol.transcript.extension import Extension, decode_extension, encode_extension
from protocol.transcript.extension import problems_of as growth_problems_of
from protocol.transcript.receipts import (
    MAGIC,
    Receipt,
    decode_receipt,
    encode_receipt,
    is_about,
    problems_of,
)
from protocol.wire.codec import decode_envelope
from scenarios.cli.inspect import reader_of
from scenarios.cli.options import (
    FILE,
    FOLDER,
    json_option,
    print_json,
    transcript_argument,
    variant_option,
)
from scenarios.deployment.members import read_member
from scenarios.files.checkpoints import evidence_of, read_checkpoint, read_small
from scenarios.files.transcripts import open_transcript
from scenarios.files.writing import write_whole
from scenarios.report.formatting import count
from scenarios.running.errors import UsageError, printable
from scenarios.running.loading import find_variant, variant_of

SUFFIX = ".receipt"
EXTENSION_SUFFIX = ".extension"

_CLAIMED = "the kind and round of each message are as the receipt says"

_since_option = click.option(
    "--since",
    type=FILE,
    help="An earlier published checkpoint: everything in it must still be in the later one.",
)


class _Said(NamedTuple):
    """What a receipt or an extension says, as lines and as JSON."""

    lines: list[str]
    values: dict[str, Any]


@click.command()
@transcript_argument
@click.argument("party", required=False)
@_since_option
@click.option(
    "--until",
    type=FILE,
    help="With --since: the later published checkpoint, by default the last of the transcript.",
)
@click.option(
    "--out",
    type=FILE,
    help=f"The file to write, by default PARTY{SUFFIX} or checkpoint-0-1{EXTENSION_SUFFIX}.",
)
@variant_option
@json_option
def prove(
    transcript: Path,
    party: str | None,
    since: Path | None,
    until: Path | None,
    out: Path | None,
    variant: str | None,
    as_json: bool,
) -> None:
    """Write a receipt: the reports of PARTY are counted in the result of TRANSCRIPT.

    With --since instead of PARTY, write an extension: all that members had said by an earlier
    checkpoint is in a later one too, unchanged and in each member's order.

    Exit 1, with the reason, if that is not so. 'sottovoce check' checks a receipt or an extension
    with the published checkpoints, without the transcript.
    """
    if since is None:
        if party is None or until is not None:
            raise UsageError("expected a PARTY, or --since FILE with or without --until FILE")
        opened = open_transcript(transcript)
        cls = variant_of(reader_of(opened, transcript).header, variant)
        receipt = opened.prove(cls, PartyId(party))
        # The name has been found on the roster, so it is fit to be a file's.
        content, file, said = encode_receipt(receipt), f"{party}{SUFFIX}", _of_receipt(receipt)
    else:
        if party is not None or variant is not None:
            raise UsageError("--since: takes neither a PARTY nor --variant")
        opened, earlier = open_transcript(transcript), read_checkpoint(since)
        later = None if until is None else read_checkpoint(until)
        extension, later = prove_extension(opened.chunks, earlier=earlier, later=later)
        between = earlier.statement, later.statement
        content, said = encode_extension(extension), _of_extension(extension, *between)
        file = f"checkpoint-{between[0].number}-{between[1].number}{EXTENSION_SUFFIX}"
    path = Path(file) if out is None else out
    write_whole(path, content)
    if as_json:
        print_json({**said.values, "file": str(path), "bytes": len(content)})
        return
    for line in said.lines:
        click.echo(printable(line))
    click.echo(f"written: {path} ({len(content):,} bytes)")


@click.command()
@click.argument("receipt", metavar="FILE", type=FILE)
@click.option(
    "--checkpoint",
    type=FILE,
    help="The last checkpoint that the aggregator published; for an extension, the later one.",
)
@_since_option
@click.option(
    "--report",
    type=FILE,
    help="The envelope of a report as it was sent: the receipt must be about it and its round.",
)
@click.option(
    "--variant",
    metavar="PATH.py:Class",
    help="With --report: the class of a variant of your own, to read the report with.",
)
@click.option(
    "--member",
    type=FOLDER,
    help="A party's folder: the aggregator's key and the signed words must be those it knows.",
)
@json_option
def check(
    receipt: Path,
    checkpoint: Path | None,
    since: Path | None,
    report: Path | None,
    variant: str | None,
    member: Path | None,
    as_json: bool,
) -> int:
    """Check a receipt, an extension or evidence without the transcript.

    A receipt needs --checkpoint, an extension --since and --checkpoint; evidence by 'sottovoce
    verify --evidence' needs neither. Exit 0 if it holds, 1 with every reason why not.
    """
    content = read_small(receipt)
    if content.startswith(EXTENSION):
        if since is None or checkpoint is None or report is not None or variant is not None:
            raise UsageError("an extension is checked with --since FILE and --checkpoint FILE")
        later = read_checkpoint(checkpoint)
        problems, said = _check_extension(content, receipt, read_checkpoint(since), later, member)
    elif since is not None:
        raise UsageError(f"--since: {receipt} is not an extension")
    elif not content.startswith(MAGIC):
        return _check_evidence(content, receipt, as_json)
    elif checkpoint is None:
        raise UsageError("a receipt is checked with --checkpoint FILE")
    elif variant is not None and report is None:
        raise UsageError("--variant: expected --report too")
    else:
        cls = None if variant is None else find_variant(variant)
        later = read_checkpoint(checkpoint)
        problems, said = _check_receipt(content, receipt, later, report, cls, member)
    key = later.key.hex()
    if as_json:
        verdict = {"holds": not problems, "problems": problems}
        print_json({**verdict, **said.values, "aggregator_key": key})
        return 1 if problems else 0
    for line in (*said.lines, *(f"problem: {problem}" for problem in problems)):
        click.echo(printable(line))
    if not problems and member is None:
        click.echo(f"the checkpoint is signed by the key {key}")
        click.echo("compare it with the aggregator's key, or let --member do it")
    click.echo("does NOT hold" if problems else "holds")
    return 1 if problems else 0


def _check_receipt(
    content: bytes,
    path: Path,
    published: SignedCheckpoint,
    report: Path | None,
    variant: type[Variant] | None,
    member: Path | None,
) -> tuple[list[str], _Said]:
    try:
        receipt = decode_receipt(content)
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error
    problems, said = [*problems_of(receipt, published)], _of_receipt(receipt)
    if report is None:
        said.lines.append(f"{_CLAIMED}; --report compares one")
    else:
        problems += _not_about(receipt, report, variant)
        if len(receipt.reports) > 1:
            said.lines.append(f"{_CLAIMED}, but for the one given")
    if member is not None:
        problems += _not_mine(receipt, published, member)
    said.values["compared"] = None if report is None else not problems
    return problems, said


def _check_extension(
    content: bytes,
    path: Path,
    earlier: SignedCheckpoint,
    later: SignedCheckpoint,
    member: Path | None,
) -> tuple[list[str], _Said]:
    try:
        extension = decode_extension(content)
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error
    problems = [*growth_problems_of(extension, earlier, later)]
    if member is not None:
        charter = read_member(member).charter
        if later.statement.session != charter.session:
            problems.append("the checkpoints are of another session")
        if later.key != charter.roster.members[0][1]:
            problems.append("the checkpoints are not the aggregator's")
    return problems, _of_extension(extension, earlier.statement, later.statement)


def _check_evidence(content: bytes, path: Path, as_json: bool) -> int:
    evidence = evidence_of(content, path)
    twice = evidence.check()
    if as_json:
        print_json({"holds": twice is not None, "twice": twice, "key": evidence.key.hex()})
    elif twice is None:
        click.echo("not evidence: a signature is not valid, or the two statements can both be true")
    else:
        click.echo(printable(f"{twice} was signed twice, with different content"))
        click.echo(f"by the holder of the key {evidence.key.hex()}")
    return 1 if twice is None else 0


def _not_about(receipt: Receipt, path: Path, variant: type[Variant] | None) -> list[str]:
    """Why an envelope in a file is not one of the reports that a receipt is about."""
    encoded = read_small(path)
    if not is_about(receipt, encoded):
        return [f"{path} is not one of the reports that the receipt is about"]
    rounds = _rounds(decode_envelope(encoded), variant)
    if len(rounds) != 1 or not is_about(receipt, encoded, round_=rounds.pop()):
        hint = "; for your own variant, pass --variant PATH.py:Class" if variant is None else ""
        return [f"{path} is not a report of the round in the receipt{hint}"]
    return []


def _rounds(envelope: Envelope, variant: type[Variant] | None) -> set[int]:
    """The round of an envelope's message, by every class of its kind.

    A receipt does not name its variant; built-in classes of one kind agree on where the round is.
    """
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


def _not_mine(receipt: Receipt, checkpoint: SignedCheckpoint, folder: Path) -> list[str]:
    mine = read_member(folder)
    roster, name = mine.charter.roster, receipt.standing.member
    checks = (
        (receipt.session == mine.charter.session, "the receipt is of another session"),
        (name == mine.identity.name, f"the receipt is about {name!r}, not {mine.identity.name!r}"),
        (checkpoint.key == roster.members[0][1], "the checkpoint is not the aggregator's"),
        (receipt.key in (None, mine.identity.public), "the receipt's key is not the party's"),
        (receipt.members == len(roster), "the receipt's roster has another length"),
        (receipt.head is not None, "what the party said is not signed by the party"),
    )
    return [problem for sound, problem in checks if not sound]


def _of_receipt(receipt: Receipt) -> _Said:
    standing = receipt.standing
    key = None if receipt.key is None else receipt.key.hex()
    lines = [
        f"{standing.member}: counted in {_topics(r.topic for r in receipt.reports)}",
        f"session {receipt.session.hex()}",
    ]
    missed = [topic for topic in standing.missed if topic not in standing.counted]
    if missed:
        lines.append(f"awaited and not counted in {_topics(missed)}")
    what = f"what it said ({count(standing.count - (receipt.head is not None), 'message')})"
    if receipt.head is None:
        lines.append(f"{what} is not signed by it")
    elif key is not None:
        lines.append(f"{what} is signed by the key {key}")
    values = {
        "party": standing.member,
        "session": receipt.session.hex(),
        "reports": [
            {"kind": r.topic[0], "round": r.topic[1], "seq": r.seq, "leaf": r.leaf.hex()}
            for r in receipt.reports
        ],
        "counted": standing.counted,
        "missed": standing.missed,
        "messages": standing.count,
        "signed": receipt.head is not None,
        "key": key,
    }
    return _Said(lines, values)


def _topics(topics: Iterable[Topic]) -> str:
    return ", ".join(
        kind if round_ == NO_ROUND else f"{kind} (round {round_})" for kind, round_ in topics
    )


def _of_extension(extension: Extension, earlier: Statement, later: Statement) -> _Said:
    grown, session = extension.grown, earlier.session.hex()
    added = sum(member.added for member in grown)
    end = ", at the end" if later.final else ""
    lines = [
        f"from checkpoint {earlier.number} ({earlier.entries:,} entries) "
        f"to checkpoint {later.number} ({later.entries:,} entries{end})",
        f"session {session}",
        f"said between: {count(added, 'message')} of {count(len(grown), 'member')}",
    ]
    values = {
        "session": session,
        "earlier": {"number": earlier.number, "entries": earlier.entries},
        "later": {"number": later.number, "entries": later.entries, "final": later.final},
        "added": [{"member": g.member, "messages": g.added} for g in grown],
    }
    return _Said(lines, values)
