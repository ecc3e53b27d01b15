"""Content and verdict of receipts and consistency proofs, as lines and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from protocol.errors import UsageError
from protocol.messages import NO_ROUND
from protocol.session.roles import Topic
from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.transcript.consistency import START as CONSISTENCY
from protocol.transcript.consistency import Consistency
from protocol.transcript.receipts import MAGIC, Counted, Late, Receipt
from scenarios.cli.options import print_json
from scenarios.errors import printable
from scenarios.files.kinds import detect_kind
from scenarios.wording.formatting import count


class Shown(NamedTuple):
    """Content of a receipt or a consistency proof, as lines and as JSON."""

    lines: list[str]
    values: dict[str, Any]

    def print_verdict(
        self, problems: Sequence[str], checkpoint: SignedCheckpoint, *, known: bool, as_json: bool
    ) -> int:
        """Print the content and the verdict; return the exit code.

        Args:
            problems: why it does not hold.
            checkpoint: the checkpoint that it was checked with.
            known: whether the checkpoint's key has been compared with the aggregator's.
            as_json: print JSON and nothing else.
        """
        key = checkpoint.key.hex()
        if as_json:
            verdict = {"holds": not problems, "problems": problems}
            print_json({**verdict, **self.values, "aggregator_key": key})
            return 1 if problems else 0
        for line in (*self.lines, *(f"problem: {problem}" for problem in problems)):
            click.echo(printable(line))
        if not problems and not known:
            click.echo(f"the checkpoint is signed by the key {key}")
            click.echo("compare it with the aggregator's key, or let --member do it")
        click.echo("does NOT hold" if problems else "holds")
        if not problems and "word" in self.values:
            click.echo(self.values["word"])
        return 1 if problems else 0


def check_command(path: Path, command: str) -> None:
    """Refuse a file or folder that another command checks.

    Raises:
        UsageError: the file is for another command, which the message names.
    """
    if (found := _checking_command(path)) not in (None, command):
        kind = None if path.is_dir() else detect_kind(path)
        what = "" if kind is None else f"{kind.what}: "
        raise UsageError(f"{path}: {what}it is for 'sottovoce {found}'")


def _checking_command(path: Path) -> str | None:
    if path.is_dir() or path.suffix == ".toml":
        return "preflight"
    with path.open("rb") as file:
        content = file.read(64)
    if (kind := detect_kind(path)) is not None and kind.what == "a transcript":
        return "audit"
    takers = ((MAGIC, "check"), (CONSISTENCY, "consistency"), (b"{", "evidence"))
    return next((taker for start, taker in takers if content.startswith(start)), None)


def receipt_shown(receipt: Receipt, checkpoint: SignedCheckpoint) -> Shown:
    """Content of a receipt."""
    topics = [each.topic for each in receipt.counted if each.topic is not None]
    late = [each.topic for each in receipt.late if each.topic is not None]
    signed, key = receipt.head is not None, receipt.key.hex()
    by = f"is signed by the key {key}" if signed else "is not signed by it"
    parts = [f"counted in {_topics(topics)}"] if topics else []
    parts += [f"late in {_topics(late)}"] if late else []
    parts += [f"{count(receipt.waiting, 'report')} not named yet"] if receipt.waiting else []
    lines = [
        f"{receipt.party}: {', '.join(parts) or 'not shown to be counted'}",
        f"session {receipt.session.hex()}, attempt {receipt.attempt}",
        f"what it sent {by}",
        f"in the first {checkpoint.size:,} leaves of the log; an audit tells what was published",
    ]
    if receipt.ended is not None and receipt.head is not None:
        said = count(receipt.head.count, "envelope")
        lines.insert(1, f"all that it sent is on record: {said}, and its head")
    values = {
        "party": receipt.party,
        "session": receipt.session.hex(),
        "attempt": receipt.attempt,
        "checkpoint": {"size": checkpoint.size},
        "word": receipt.word,
        "reports": [_report_values(each) for each in receipt.counted if each.topic is not None],
        "late": [_report_values(each) for each in receipt.late if each.topic is not None],
        "waiting": receipt.waiting,
        "signed": signed,
        "ended": receipt.ended is not None,
        "key": key,
    }
    return Shown(lines, values)


def _report_values(shown: Counted | Late) -> dict[str, object]:
    kind, round_ = shown.topic or ("", NO_ROUND)
    envelope = shown.report.envelope
    return {
        "kind": kind,
        "round": round_,
        "seq": None if envelope is None else envelope.seq,
        "envelope": shown.report.encoded.hex(),
    }


def _topics(topics: Iterable[Topic]) -> str:
    return ", ".join(
        kind if round_ == NO_ROUND else f"{kind} (round {round_})" for kind, round_ in topics
    )


def consistency_shown(proof: Consistency) -> Shown:
    """Content of a consistency proof."""
    session, hashes = proof.later.session.hex(), len(proof.path)
    lines = [
        f"from the checkpoint of size {proof.old:,} to that of size {proof.later.size:,}",
        f"session {session}",
        f"{count(hashes, 'hash', 'hashes')} in the proof",
    ]
    values = {
        "session": session,
        "earlier": {"size": proof.old},
        "later": {"size": proof.later.size},
        "hashes": hashes,
    }
    return Shown(lines, values)
