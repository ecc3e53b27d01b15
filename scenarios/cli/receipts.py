"""``sottovoce prove`` and ``check``: that a report was counted, with the checkpoint alone."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from protocol.messages import NO_ROUND, PartyId
from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.transcript.receipts import (
    MAGIC,
    Receipt,
    decode_receipt,
    encode_receipt,
    is_about,
    problems_of,
)
from protocol.transcript.standing import Topic
from scenarios.checkpoints import evidence_of, read_checkpoint, read_small
from scenarios.cli.inspect import json_option, print_json, reader_of, transcript_argument
from scenarios.cli.run import write_whole
from scenarios.deployment import read_member
from scenarios.errors import UsageError, printable
from scenarios.loading import built_in_variant, find_variant
from scenarios.transcripts import open_transcript

SUFFIX = ".receipt"


@click.command()
@transcript_argument
@click.argument("party")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help=f"Where to write the receipt; PARTY{SUFFIX} by default.",
)
@click.option("--variant", metavar="PATH.py:Class", help="The class of a variant of your own.")
@json_option
def prove(
    transcript: Path, party: str, out: Path | None, variant: str | None, as_json: bool
) -> None:
    """Write a receipt: the reports of PARTY are counted in what TRANSCRIPT publishes.

    Exit 1, with the reason, if they are not. A receipt is checked with 'sottovoce check' and the
    published checkpoint, without the transcript.
    """
    opened = open_transcript(transcript)
    name = reader_of(opened, transcript).header.variant
    # What a transcript says is looked up, never loaded.
    cls = built_in_variant(name) if variant is None else find_variant(variant)
    receipt = opened.prove(cls, PartyId(party))
    # The name has been found on the roster, so it is fit to be a file's.
    path = Path(f"{party}{SUFFIX}") if out is None else out
    content = encode_receipt(receipt)
    write_whole(path, content)
    if as_json:
        print_json({**_values(receipt), "file": str(path), "bytes": len(content)})
        return
    for line in _lines(receipt):
        click.echo(printable(line))
    click.echo(f"written: {path} ({len(content):,} bytes)")


@click.command()
@click.argument("receipt", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The last checkpoint, as the aggregator has published it.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The envelope of a report as it was sent: is the receipt about it?",
)
@click.option(
    "--member",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="The party's folder: are the keys, and the words that it signed, its own?",
)
@json_option
def check(
    receipt: Path,
    checkpoint: Path | None,
    report: Path | None,
    member: Path | None,
    as_json: bool,
) -> int:
    """Check RECEIPT with the published checkpoint alone: exit 0 if it holds, 1 with every reason.

    It also takes evidence that 'sottovoce verify --evidence' wrote, which needs no checkpoint.
    """
    content = read_small(receipt)
    if not content.startswith(MAGIC):
        return _check_evidence(content, receipt, as_json)
    if checkpoint is None:
        raise UsageError("a receipt is checked with --checkpoint FILE")
    published = read_checkpoint(checkpoint)
    try:
        decoded = decode_receipt(content)
    except ValueError as error:
        raise UsageError(f"{receipt}: {error}") from error
    problems = list(problems_of(decoded, published))
    if report is not None and not is_about(decoded, read_small(report)):
        problems.append(f"{report} is none of the reports that it is about")
    if member is not None:
        problems += _not_mine(decoded, published, member)
    if as_json:
        values = {"holds": not problems, "problems": problems, **_values(decoded)}
        print_json({**values, "aggregator_key": published.key.hex()})
        return 1 if problems else 0
    for line in _lines(decoded):
        click.echo(printable(line))
    for problem in problems:
        click.echo(printable(f"problem: {problem}"))
    if not problems and member is None:
        click.echo(f"the checkpoint is signed by the key {published.key.hex()}")
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


def _not_mine(receipt: Receipt, checkpoint: SignedCheckpoint, folder: Path) -> list[str]:
    """What in a receipt is not that of the party whose folder this is."""
    mine = read_member(folder)
    roster, name = mine.charter.roster, receipt.standing.member
    checks = (
        (receipt.session == mine.charter.session, "it is of another session than the folder"),
        (name == mine.identity.name, f"it is about {name!r}, not about {mine.identity.name!r}"),
        (checkpoint.key == roster.members[0][1], "the checkpoint is not the survey's aggregator's"),
        (receipt.key == mine.identity.public, "its key is not the party's"),
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
    else:
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
        "key": receipt.key.hex(),
    }
