"""``sottovoce prove`` and ``check``: a report was counted, nothing was taken back; before a survey,
whether everything is ready for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from protocol.audit.proofs.consistency import prove_consistency
from protocol.messages import AGGREGATOR, NO_ROUND, Envelope, Message, PartyId
from protocol.session.roles import Topic
from protocol.session.variant import Variant
from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.transcript.consistency import START as CONSISTENCY
from protocol.transcript.consistency import (
    Consistency,
    decode_consistency,
    encode_consistency,
)
from protocol.transcript.consistency import problems_of as inconsistencies_of
from protocol.transcript.receipts import (
    MAGIC,
    Counted,
    Late,
    Receipt,
    decode_receipt,
    encode_receipt,
    is_about,
    problems_of,
)
from protocol.variants import BUILT_IN
from scenarios.cli.numbers import Amount
from scenarios.cli.options import (
    address_of,
    budget_options,
    is_given,
    json_option,
    print_facts,
    print_json,
    transcript_argument,
    variant_option,
)
from scenarios.cli.paths import READ_FILE, READ_FOLDER, READ_PATH, TEXT_WITH_FILE, WRITTEN_FILE
from scenarios.cli.transcripts.inspect import reader_of
from scenarios.deployment.enrolment.agreed import MOST_PARTIES
from scenarios.deployment.members import read_member
from scenarios.errors import UsageError, printable
from scenarios.files.checkpoints import evidence_of, read_checkpoint, read_small
from scenarios.files.transcripts import open_transcript
from scenarios.files.writing import write_whole
from scenarios.report.formatting import count
from scenarios.report.page.respondent import respondent_page
from scenarios.running.loading import find_variant, variant_of

if TYPE_CHECKING:
    from scenarios.deployment.preflight import Fact

SUFFIX = ".receipt"
CONSISTENCY_SUFFIX = ".consistency"

_AFTER = {
    "checkpoint": "--checkpoint",
    "since": "--since",
    "report": "--report",
    "member": "--member",
    "page": "--page",
}
"""The options for checking what comes of a survey, by the names of their values."""

_BEFORE = {
    "records": "--records",
    "plan": "--plan",
    "connect": "--connect",
    "ids": "--id",
    "purse": "--purse",
    "parties": "--parties",
    "budget": "--budget",
}
"""The options for checking a plan or a folder before a survey."""

_since_option = click.option(
    "--since",
    type=READ_FILE,
    help="An earlier published checkpoint: everything in it must still be in the later one.",
)


class _Said(NamedTuple):
    """What a receipt or a consistency proof says, as lines and as JSON."""

    lines: list[str]
    values: dict[str, Any]


@click.command()
@transcript_argument
@click.argument("party", required=False)
@_since_option
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
    checks either with the published checkpoints, without the transcript.
    """
    opened = open_transcript(transcript)
    later = None if checkpoint is None else read_checkpoint(checkpoint)
    if since is None:
        if party is None:
            raise UsageError("expected a PARTY, or --since FILE")
        cls = variant_of(reader_of(opened, transcript).header, variant)
        receipt, covering = opened.prove(cls, PartyId(party), later)
        # The name has been found on the roster, so it is fit to be a file's.
        content, file = encode_receipt(receipt), f"{party}{SUFFIX}"
        said = _of_receipt(receipt, covering)
    else:
        if party is not None or variant is not None:
            raise UsageError("--since: takes neither a PARTY nor --variant")
        earlier = read_checkpoint(since)
        proof = prove_consistency(opened.chunks, earlier=earlier, later=later)
        content, said = encode_consistency(proof), _of_consistency(proof)
        file = f"size-{proof.old}-{proof.later.size}{CONSISTENCY_SUFFIX}"
    path = Path(file) if out is None else out
    write_whole(path, content)
    if as_json:
        print_json({**said.values, "file": str(path), "bytes": len(content)})
        return
    for line in said.lines:
        click.echo(printable(line))
    click.echo(f"written: {path} ({len(content):,} bytes)")


@click.command(context_settings={"allow_extra_args": True})
@click.argument("subject", metavar="[FILE|PLAN|FOLDER]", type=READ_PATH, required=False)
@click.option(
    "--checkpoint",
    type=READ_FILE,
    help="The published checkpoint of the receipt; for a consistency proof, the later one.",
)
@_since_option
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
    help="A party's folder: the aggregator's key and the signed words must be those it knows.",
)
@click.option(
    "--page",
    type=WRITTEN_FILE,
    help="Instead of checking FILE, write a web page that checks receipts in a browser, offline.",
)
@click.option(
    "--records",
    type=READ_FILE,
    help="With PLAN or FOLDER: a CSV or Parquet file that is to be answered with.",
)
@click.option(
    "--plan",
    type=READ_FILE,
    help="With FOLDER and --records: the plan of the survey, which says how the file is read.",
)
@click.option(
    "--connect",
    metavar="HOST:PORT",
    help="With FOLDER: the address at which the aggregator is to wait.",
)
@click.option(
    "--id",
    "ids",
    metavar="NAME",
    help="With --records: the column that says who a respondent is, for what the purse says.",
)
@click.option(
    "--purse",
    type=READ_FOLDER,
    help="With PLAN or FOLDER: the folder of the purse to be paid from, by default the user's.",
)
@click.option(
    "--budget",
    type=Amount(min=0),
    help="With PLAN or FOLDER: the most epsilon, in nats, that a respondent may have spent in all "
    "surveys.",
)
@click.option(
    "--parties",
    type=click.IntRange(1, MOST_PARTIES),
    metavar="N",
    help="With PLAN: how many parties are to take part, for what a secure sum withstands.",
)
@json_option
@budget_options
def check(
    subject: Path | None,
    checkpoint: Path | None,
    since: Path | None,
    report: Path | None,
    variant: str | None,
    member: Path | None,
    page: Path | None,
    records: Path | None,
    plan: Path | None,
    connect: str | None,
    ids: str | None,
    purse: Path | None,
    budget: float | None,
    parties: int | None,
    as_json: bool,
) -> int:
    """Check a receipt, a consistency proof or evidence without the transcript.

    A receipt or a late note needs --checkpoint, a consistency proof --since and --checkpoint;
    evidence by 'sottovoce verify --evidence' needs neither. Exit 0 if it holds, 1 with every reason
    why not. The last line for a receipt that holds is 'counted', 'late' or 'not yet known'.

    Before a survey, check the PLAN or a member's FOLDER: what would be asked, at what cost, and
    whether certificate, clock, records and address fit. Exit 1 if something does not.
    """
    before_survey = subject is not None and (subject.is_dir() or subject.suffix == ".toml")
    if more := click.get_current_context().args:
        hint = f"; is it --records {more[0]}?" if before_survey else ""
        raise UsageError(f"{more[0]}: expected one file or folder to check{hint}")
    if subject is not None and before_survey:
        if given := _given(_AFTER):
            raise UsageError(f"{given}: not for a plan or a folder, such as {subject}")
        from scenarios.deployment.preflight import preflight

        address = None if connect is None else address_of(connect)
        facts = preflight(
            subject,
            variant=variant,
            records=records,
            address=address,
            ids=ids,
            purse=purse,
            budget=budget,
            plan=plan,
            parties=parties,
        )
        return _print_facts(list(facts), as_json=as_json)
    if given := _given(_BEFORE):
        if subject is None and plan is not None:
            raise UsageError(
                f"--plan: is for a member's FOLDER; expected the plan alone, as 'check {plan}'"
            )
        if subject is None:
            raise UsageError(f"{given}: expected a PLAN, a TOML file, or a FOLDER too")
        raise UsageError(f"{given}: is for a PLAN or a FOLDER, and {subject} is neither")
    if subject is None or page is not None:
        others = (subject, checkpoint, since, report, variant, member, as_json or None)
        if page is None or any(other is not None for other in others):
            raise UsageError("expected a FILE to check, or --page FILE.html and nothing else")
        write_whole(page, respondent_page())
        click.echo(printable(f"written: {page}"))
        return 0
    content = read_small(subject)
    if content.startswith(CONSISTENCY):
        # The variant of a member's folder may be in a file of its own.
        needless = report is not None or (variant is not None and member is None)
        if since is None or checkpoint is None or needless:
            raise UsageError("a consistency proof is checked with --since FILE, --checkpoint FILE")
        later = read_checkpoint(checkpoint)
        earlier = read_checkpoint(since)
        problems, said = _check_consistency(content, subject, earlier, later, member, variant)
    elif since is not None:
        raise UsageError(f"--since: {subject} is not a consistency proof")
    elif not content.startswith(MAGIC):
        return _check_evidence(content, subject, as_json)
    elif checkpoint is None:
        raise UsageError("a receipt is checked with --checkpoint FILE")
    else:
        later = read_checkpoint(checkpoint)
        problems, said = _check_receipt(content, subject, later, report, variant, member)
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
    if not problems and "word" in said.values:
        click.echo(said.values["word"])
    return 1 if problems else 0


def _given(options: Mapping[str, str]) -> str:
    """Which of these options are on the command line."""
    return ", ".join(option for name, option in options.items() if is_given(name))


def _print_facts(facts: Sequence[Fact], *, as_json: bool) -> int:
    ready = all(fact.ready is not False for fact in facts)
    if as_json:
        print_json({"ready": ready, "facts": [fact._asdict() for fact in facts]})
        return 0 if ready else 1
    print_facts(facts)
    click.echo("ready" if ready else "NOT ready")
    return 0 if ready else 1


def _check_receipt(
    content: bytes,
    path: Path,
    published: SignedCheckpoint,
    report: Path | None,
    variant: str | None,
    member: Path | None,
) -> tuple[list[str], _Said]:
    cls = None if variant is None else find_variant(variant)
    try:
        receipt = decode_receipt(content)
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error
    problems, said = [*problems_of(receipt, published)], _of_receipt(receipt, published)
    topics = [*(each.topic for each in receipt.counted), *(each.topic for each in receipt.late)]
    rounds = [_rounds(report.envelope, cls) for report in receipt.reports]
    for topic, found in zip(topics, rounds, strict=True):
        if found and topic is not None and found != {topic[1]}:
            hint = "; for your own variant, pass --variant PATH.py:Class" if variant is None else ""
            problems.append(f"a report is not of the round in the receipt{hint}")
    if not all(rounds):
        said.lines.append("the round of each report is as the receipt says; --variant reads it")
    compared = None if report is None else is_about(receipt, read_small(report))
    if compared is False:
        problems.append(f"{report} is not one of the reports that the receipt is about")
    if member is not None:
        problems += _not_mine(receipt, published, member, variant)
    said.values["compared"] = compared
    return problems, said


def _check_consistency(
    content: bytes,
    path: Path,
    earlier: SignedCheckpoint,
    later: SignedCheckpoint,
    member: Path | None,
    variant: str | None,
) -> tuple[list[str], _Said]:
    try:
        proof = decode_consistency(content)
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error
    problems = [*inconsistencies_of(proof, earlier)]
    if proof.later.signed != later.signed:
        problems.append("the proof leads to another checkpoint than the one given")
    if member is not None:
        charter = read_member(member, variant).charter
        if charter.attempt_of(later.session) is None:
            problems.append("the checkpoints are of another survey")
        if later.key != charter.roster.key(AGGREGATOR):
            problems.append("the checkpoints are not the aggregator's")
    return problems, _of_consistency(proof)


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


def _rounds(envelope: Envelope | None, variant: type[Variant] | None) -> set[int]:
    """The round of an envelope's message, by every class of its kind.

    A receipt does not name its variant; built-in classes of one kind agree on where the round is.
    """
    if envelope is None:
        return set()
    tuple(BUILT_IN.values())  # A variant's messages are imported with it.
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


def _not_mine(
    receipt: Receipt, checkpoint: SignedCheckpoint, folder: Path, variant: str | None
) -> list[str]:
    mine = read_member(folder, variant)
    roster, name = mine.charter.roster, receipt.party
    checks = (
        (
            mine.charter.attempt_of(checkpoint.session) is not None,
            "the checkpoint is of another survey",
        ),
        (name == mine.identity.name, f"the receipt is about {name!r}, not {mine.identity.name!r}"),
        (checkpoint.key == roster.key(AGGREGATOR), "the checkpoint is not the aggregator's"),
        (receipt.key == mine.identity.public, "the receipt's key is not the party's"),
        (receipt.head is not None, "what the party said is not signed by the party"),
    )
    return [problem for sound, problem in checks if not sound]


def _of_receipt(receipt: Receipt, checkpoint: SignedCheckpoint) -> _Said:
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
        f"what it said {by}",
        f"in the first {checkpoint.size:,} leaves of the log; an audit tells what was published",
    ]
    if receipt.ended is not None and receipt.head is not None:
        said = count(receipt.head.count, "envelope")
        lines.insert(1, f"all that it said is on record: {said}, and its head")
    values = {
        "party": receipt.party,
        "session": receipt.session.hex(),
        "attempt": receipt.attempt,
        "checkpoint": {"size": checkpoint.size},
        "word": receipt.word,
        "reports": [_values_of(each) for each in receipt.counted if each.topic is not None],
        "late": [_values_of(each) for each in receipt.late if each.topic is not None],
        "waiting": receipt.waiting,
        "signed": signed,
        "ended": receipt.ended is not None,
        "key": key,
    }
    return _Said(lines, values)


def _values_of(shown: Counted | Late) -> dict[str, object]:
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


def _of_consistency(proof: Consistency) -> _Said:
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
    return _Said(lines, values)
