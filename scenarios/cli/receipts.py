"""``sottovoce prove`` and ``check``: that a report was counted, that nothing was taken back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from protocol.audit.proofs.extension import prove_extension
from protocol.messages import NO_ROUND, Envelope, Message, PartyId
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
from protocol.transcript.standing import Topic
from protocol.wire.codec import decode_envelope
from scenarios.cli.inspect import json_option, print_json, reader_of, transcript_argument
from scenarios.deployment.members import read_member
from scenarios.files.checkpoints import evidence_of, read_checkpoint, read_small
from scenarios.files.transcripts import Transcript, open_transcript
from scenarios.files.writing import write_whole
from scenarios.running.errors import UsageError, printable
from scenarios.running.loading import built_in_variant, find_variant

SUFFIX = ".receipt"
EXTENSION_SUFFIX = ".extension"

_CLAIMED = "which message is of which kind and round is what the receipt says"

_since_option = click.option(
    "--since",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="An earlier checkpoint, as published: is all that it has still there later?",
)


class _Proof(NamedTuple):
    """What is written, under which name by default, and what it says, to be read and as JSON."""

    content: bytes
    name: str
    lines: list[str]
    values: dict[str, Any]


@click.command()
@transcript_argument
@click.argument("party", required=False)
@_since_option
@click.option(
    "--until",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="With --since: the later checkpoint, as published; the last one on record by default.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help=f"Where to write it; PARTY{SUFFIX} or checkpoint-0-1{EXTENSION_SUFFIX} by default.",
)
@click.option("--variant", metavar="PATH.py:Class", help="The class of a variant of your own.")
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
    """Write a receipt: the reports of PARTY are counted in what TRANSCRIPT publishes.

    With --since instead of PARTY, write an extension: all that was said by an earlier checkpoint is
    still said, unchanged and in each member's order, by a later one.

    Exit 1, with the reason, if it is not so. What is written is checked with 'sottovoce check' and
    the published checkpoints, without the transcript.
    """
    if since is None:
        if party is None or until is not None:
            raise UsageError("prove takes a PARTY, or --since FILE and then perhaps --until FILE")
        made = _received(open_transcript(transcript), transcript, variant, PartyId(party))
    else:
        if party is not None or variant is not None:
            raise UsageError("--since: what it asks is the same for all parties and variants")
        made = _extended(open_transcript(transcript), since, until)
    content, path = made.content, Path(made.name) if out is None else out
    write_whole(path, content)
    if as_json:
        print_json({**made.values, "file": str(path), "bytes": len(content)})
        return
    for line in made.lines:
        click.echo(printable(line))
    click.echo(f"written: {path} ({len(content):,} bytes)")


def _received(opened: Transcript, path: Path, variant: str | None, party: PartyId) -> _Proof:
    name = reader_of(opened, path).header.variant
    # What a transcript says is looked up, never loaded.
    cls = built_in_variant(name) if variant is None else find_variant(variant)
    receipt = opened.prove(cls, party)
    # The name has been found on the roster, so it is fit to be a file's.
    return _Proof(encode_receipt(receipt), f"{party}{SUFFIX}", _lines(receipt), _values(receipt))


def _extended(opened: Transcript, since: Path, until: Path | None) -> _Proof:
    earlier, later = read_checkpoint(since), None if until is None else read_checkpoint(until)
    extension, later = prove_extension(opened.chunks, earlier=earlier, later=later)
    between = earlier.statement, later.statement
    return _Proof(
        encode_extension(extension),
        f"checkpoint-{between[0].number}-{between[1].number}{EXTENSION_SUFFIX}",
        _growth_lines(extension, *between),
        _growth_values(extension, *between),
    )


@click.command()
@click.argument("receipt", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The last checkpoint, as the aggregator has published it; of an extension the later one.",
)
@_since_option
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The envelope of a report as it was sent: is the receipt about it, and of its round?",
)
@click.option(
    "--variant",
    metavar="PATH.py:Class",
    help="With --report: the class of a variant of your own, to read the envelope with.",
)
@click.option(
    "--member",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="A party's folder: are the aggregator's key, and the words that it signed, as it knows?",
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
    """Check a receipt with the published checkpoint alone: exit 0 if it holds, 1 with every reason.

    An extension is checked with --since and --checkpoint, the earlier and the later one. Evidence
    that 'sottovoce verify --evidence' wrote needs no checkpoint.
    """
    content = read_small(receipt)
    if content.startswith(EXTENSION):
        if since is None or checkpoint is None or report is not None or variant is not None:
            raise UsageError("an extension is checked with --since FILE and --checkpoint FILE")
        return _check_extension(content, receipt, (since, checkpoint), member, as_json)
    if since is not None:
        raise UsageError(f"--since: {receipt} is no extension")
    if not content.startswith(MAGIC):
        return _check_evidence(content, receipt, as_json)
    if checkpoint is None:
        raise UsageError("a receipt is checked with --checkpoint FILE")
    if variant is not None and report is None:
        raise UsageError("--variant: it takes a --report")
    published = read_checkpoint(checkpoint)
    try:
        decoded = decode_receipt(content)
    except ValueError as error:
        raise UsageError(f"{receipt}: {error}") from error
    problems = list(problems_of(decoded, published))
    if report is not None:
        problems += _not_about(decoded, report, None if variant is None else find_variant(variant))
    if member is not None:
        problems += _not_mine(decoded, published, member)
    if as_json:
        values = {"holds": not problems, "problems": problems, **_values(decoded)}
        compared = None if report is None else not problems
        print_json({**values, "compared": compared, "aggregator_key": published.key.hex()})
        return 1 if problems else 0
    for line in _lines(decoded):
        click.echo(printable(line))
    if report is None:
        click.echo(f"{_CLAIMED}; --report compares one")
    elif len(decoded.reports) > 1:
        click.echo(f"{_CLAIMED}, but for the one given")
    return _conclude(problems, published.key, known=member is not None)


def _check_extension(
    content: bytes, path: Path, between: tuple[Path, Path], member: Path | None, as_json: bool
) -> int:
    earlier, later = map(read_checkpoint, between)
    one, other = earlier.statement, later.statement
    try:
        extension = decode_extension(content)
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error
    problems = list(growth_problems_of(extension, earlier, later))
    if member is not None:
        charter = read_member(member).charter
        if other.session != charter.session:
            problems.append("the checkpoints are of another session than the folder")
        if later.key != charter.roster.members[0][1]:
            problems.append("the checkpoints are not the survey's aggregator's")
    if as_json:
        values = {"holds": not problems, "problems": problems}
        grown = _growth_values(extension, one, other)
        print_json({**values, **grown, "aggregator_key": later.key.hex()})
        return 1 if problems else 0
    for line in _growth_lines(extension, one, other):
        click.echo(printable(line))
    return _conclude(problems, later.key, known=member is not None)


def _conclude(problems: list[str], key: bytes, *, known: bool) -> int:
    """Say whether a proof holds: the last lines, and the exit code."""
    for problem in problems:
        click.echo(printable(f"problem: {problem}"))
    if not problems and not known:
        click.echo(f"the checkpoint is signed by the key {key.hex()}")
        click.echo("whether that is the aggregator's is for you to compare; --member does it")
    click.echo("does NOT hold" if problems else "holds")
    return 1 if problems else 0


def _check_evidence(content: bytes, path: Path, as_json: bool) -> int:
    evidence = evidence_of(content, path)
    twice = evidence.check()
    if as_json:
        print_json({"holds": twice is not None, "twice": twice, "key": evidence.key.hex()})
    elif twice is None:
        click.echo("this proves nothing: signatures that do not fit, or no contradiction")
    else:
        click.echo(printable(f"{twice} was signed twice, with different content"))
        click.echo(f"by the holder of the key {evidence.key.hex()}")
    return 1 if twice is None else 0


def _not_about(receipt: Receipt, path: Path, variant: type[Variant] | None) -> list[str]:
    """Why an envelope in a file is none of the reports that a receipt is about."""
    encoded = read_small(path)
    if not is_about(receipt, encoded):
        return [f"{path} is none of the reports that it is about"]
    rounds = _rounds(decode_envelope(encoded), variant)
    if len(rounds) != 1 or not is_about(receipt, encoded, round_=rounds.pop()):
        hint = "; of a variant of your own, pass --variant PATH.py:Class" if variant is None else ""
        return [f"{path} is not a report of the round that the receipt says{hint}"]
    return []


def _rounds(envelope: Envelope, variant: type[Variant] | None) -> set[int]:
    """Which round an envelope's message is of, by every class of its kind that can be meant.

    A receipt does not say which variant it is of; the project's own agree where a kind has it.
    """
    classes = [kind for kind in _classes(Message) if kind.kind() == envelope.kind]
    if variant is not None:
        own = [kind for kind in classes if kind.__module__ == variant.__module__]
        classes = own or classes
    found: set[int] = set()
    for kind in classes:
        fields = kind.__struct_fields__
        try:
            values = msgspec.msgpack.decode(envelope.body, type=tuple[msgspec.Raw, ...])
            if len(values) == len(fields):
                place = fields.index("round") if "round" in fields else None
                found.add(
                    NO_ROUND if place is None else msgspec.msgpack.decode(values[place], type=int)
                )
        except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
            continue
    return found


def _classes(base: type[Message]) -> Iterator[type[Message]]:
    for kind in base.__subclasses__():
        yield kind
        yield from _classes(kind)


def _not_mine(receipt: Receipt, checkpoint: SignedCheckpoint, folder: Path) -> list[str]:
    """What in a receipt is not that of the party whose folder this is."""
    mine = read_member(folder)
    roster, name = mine.charter.roster, receipt.standing.member
    checks = (
        (receipt.session == mine.charter.session, "it is of another session than the folder"),
        (name == mine.identity.name, f"it is about {name!r}, not about {mine.identity.name!r}"),
        (checkpoint.key == roster.members[0][1], "the checkpoint is not the survey's aggregator's"),
        (receipt.key in (None, mine.identity.public), "its key is not the party's"),
        (receipt.members == len(roster), "its roster is of another length"),
        (receipt.head is not None, "what the party said is not signed by it"),
    )
    return [problem for sound, problem in checks if not sound]


def _lines(receipt: Receipt) -> list[str]:
    standing = receipt.standing
    lines = [
        f"{standing.member}: counted in {_topics(r.topic for r in receipt.reports)}",
        f"session {receipt.session.hex()}",
    ]
    missed = [topic for topic in standing.missed if topic not in standing.counted]
    if missed:
        lines.append(f"awaited and not counted in {_topics(missed)}")
    said = standing.count - (receipt.head is not None)
    what = f"what it said ({said} message{'' if said == 1 else 's'})"
    if receipt.head is None:
        lines.append(f"{what} is not signed by it")
    elif receipt.key is not None:
        lines.append(f"{what} is signed by the key {receipt.key.hex()}")
    return lines


def _topics(topics: Iterable[Topic]) -> str:
    return ", ".join(_shown(topic) for topic in topics)


def _shown(topic: Topic) -> str:
    kind, round_ = topic
    return kind if round_ == NO_ROUND else f"{kind} (round {round_})"


def _values(receipt: Receipt) -> dict[str, Any]:
    standing = receipt.standing
    return {
        "party": standing.member,
        "session": receipt.session.hex(),
        "reports": [
            {"kind": r.topic[0], "round": r.topic[1], "seq": r.seq, "leaf": r.leaf.hex()}
            for r in receipt.reports
        ],
        "counted": [list(topic) for topic in standing.counted],
        "missed": [list(topic) for topic in standing.missed],
        "messages": standing.count,
        "signed": receipt.head is not None,
        "key": None if receipt.key is None else receipt.key.hex(),
    }


def _growth_lines(extension: Extension, earlier: Statement, later: Statement) -> list[str]:
    grown = extension.grown
    added = sum(member.added for member in grown)
    end = ", at the end" if later.final else ""
    return [
        f"from checkpoint {earlier.number} ({earlier.entries:,} entries) "
        f"to checkpoint {later.number} ({later.entries:,} entries{end})",
        f"session {earlier.session.hex()}",
        f"said between: {added:,} message{'' if added == 1 else 's'} "
        f"of {len(grown):,} member{'' if len(grown) == 1 else 's'}",
    ]


def _growth_values(extension: Extension, earlier: Statement, later: Statement) -> dict[str, Any]:
    return {
        "session": earlier.session.hex(),
        "earlier": {"number": earlier.number, "entries": earlier.entries},
        "later": {"number": later.number, "entries": later.entries, "final": later.final},
        "added": [{"member": g.member, "messages": g.added} for g in extension.grown],
    }
