"""What a page says of the terms of a survey, and of what its transcript proves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from protocol.audit.audit import Audit
from protocol.audit.replay import Replay
from protocol.crypto.randomness import WORDS
from protocol.surveys.survey import Survey
from protocol.transcript.entries import Header
from protocol.transcript.verification import Published, Verification
from scenarios.report.formatting import NONE, count, cut, upper
from scenarios.report.page.parts import Grid, Section, rest, some
from scenarios.report.replays import records_unproved

FAULTS, PARAMETERS, MEMBERS = 30, 40, 12
_DEPTH = 2
_COMPARED: Mapping[Published, str] = {
    "not given": "no",
    "fits": "yes, and it fits",
    "begins": "with a checkpoint from before the end, which it extends",
    "differs": "yes, and it does not fit",
}


def terms(header: Header, survey: Survey) -> Section:
    """What was asked, and by which rules."""
    attributes = survey.attributes
    asked = tuple(
        (
            cut(attribute.name),
            f"{attribute.size:,}",
            some((cut(category, 24) for category in attribute.categories), attribute.size, 6),
        )
        for attribute in attributes[:PARAMETERS]
    )
    rules = [(cut(name), brief(value)) for name, value in header.parameters.items()]
    lead = f"Variant {cut(header.variant)}, {count(len(attributes), 'attribute')}."
    return Section(
        key="terms",
        title="What was agreed",
        lead=lead,
        grids=(
            Grid(
                key="asked",
                caption="What was asked",
                columns=("Attribute", "#Categories", "Which"),
                rows=asked,
                more=rest(len(attributes), PARAMETERS, "attributes"),
            ),
            Grid(
                key="rules",
                caption="Parameters of the variant, known to everybody before the first message",
                columns=("Parameter", "Value"),
                rows=tuple(rules[:PARAMETERS]),
                more=rest(len(rules), PARAMETERS, "parameters"),
                wide=False,
            ),
        ),
    )


def brief(value: object, depth: int = _DEPTH) -> str:
    """A public parameter in a line, however large it is; what is nested in brackets."""
    if isinstance(value, Mapping):
        value = _with_probability(value)
        parts = [f"{cut(str(k), 24)}: {brief(v, depth - 1)}" for k, v in islice(value.items(), 6)]
    elif isinstance(value, list | tuple):
        parts = [brief(v, depth - 1) for v in value[:6]]
    elif isinstance(value, bytes):
        return f"{value[:8].hex()}… ({count(len(value), 'byte')})" if value else "empty"
    else:
        return "none" if value is None else cut(str(value), 80)
    if depth <= 0 or not parts:
        return f"{len(value):,} of them" if parts else "none"
    said = cut(some(parts, len(value), 6), 400)
    return said if depth == _DEPTH else f"({said})"


def _with_probability(value: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """A keep randomizer's threshold with the probability that it stands for, p, before it."""
    threshold = value.get("threshold")
    if value.get("type") not in ("keep", "keep-table") or not isinstance(threshold, int):
        return value
    rest_of = {name: part for name, part in value.items() if name not in ("type", "p")}
    return {"type": value["type"], "p": f"{threshold / WORDS:.6g}", **rest_of}


def integrity(audit: Audit, header: Header, transcript_name: str) -> Section:
    """What the file proves, and what it does not."""
    verification = audit.verification
    faults = len(verification.faults) + verification.faults_left_out
    ending = verification.ending
    if verification.intact:
        lead = "The file is intact."
    else:
        lead = f"{count(faults, 'fault')} in the file." if faults else "The file is incomplete."
    digest = verification.digest.hex() if verification.digest else "none"
    facts = [
        ("File", cut(transcript_name, 120)),
        ("Digest", digest),
        (
            "Compared with digest or checkpoint from elsewhere",
            _COMPARED[verification.published],
        ),
        ("Entries", f"{verification.entries:,}"),
        ("Messages sent", f"{verification.messages:,}"),
        ("Never delivered", f"{verification.undelivered:,}"),
        ("End", _end(audit, ending.reason if ending else None)),
        ("Signed by their senders", _signed(verification)),
        ("Signed by the aggregator", _checkpoints(verification)),
        ("Session", header.session.hex()),
        ("Roster", f"the aggregator and {count(len(header.roster) - 1, 'party', 'parties')}"),
        ("Carried by", cut(header.transport or "not said")),
        (
            "Seed in the record",
            "yes: a simulation, which protects nobody" if audit.simulated else "no",
        ),
        ("Format", f"{header.format}, recorded by program {cut(header.program)}"),
    ]
    notes = []
    if verification.published == "not given":
        notes.append(
            "A file that was rewritten whole cannot be told from the original without a digest "
            "or a checkpoint that was published elsewhere."
        )
    grids = []
    if verification.faults:
        rows = tuple(
            (
                fault.rule,
                cut(fault.message, 300),
                NONE if fault.entry is None else f"{fault.entry:,}",
                NONE if fault.offset is None else f"{fault.offset:,}",
            )
            for fault in verification.faults[:FAULTS]
        )
        grids.append(
            Grid(
                key="faults",
                caption="Faults in the file",
                columns=("Rule", "What", "#Entry", "#Byte"),
                rows=rows,
                more=rest(faults, FAULTS, "faults"),
            )
        )
    replays = (*((audit.replay,) if audit.replay else ()), *audit.replays)
    if replays:
        unproved = records_unproved(audit)
        if unproved:
            notes.append(f"{upper(unproved)}.")
        # Those that do not follow first.
        grids.append(_replays(sorted(replays, key=lambda replay: replay.follows is not False)))
    return Section(
        key="integrity",
        title="Integrity",
        lead=lead,
        notes=tuple(notes),
        grids=tuple(grids),
        extra={"facts": tuple(facts)},
    )


def _signed(verification: Verification) -> str:
    unsigned, signed = verification.unsigned, len(verification.signed_by)
    if not unsigned:
        said = "all that parties said" if signed else "nothing, for no party said anything"
        return said if signed != 1 else "all that one party said"
    names = some(map(cut, unsigned), len(unsigned), 3)
    return f"the words of {count(signed, 'party', 'parties')}; not those of {names}"


def _checkpoints(verification: Verification) -> str:
    last = verification.checkpoint
    if last is None:
        return "nothing: there is no checkpoint"
    where = "the whole record" if last.statement.final else "not all of the record"
    said = f"{where}, in {count(verification.checkpoints, 'checkpoint')}"
    if verification.equivocation is not None:
        return f"{said}; and another one in the place of the one published: it told two stories"
    if verification.extends is not None:
        said += "; it extends" if verification.extends else "; it does not extend"
        said += " the checkpoint published elsewhere"
    return said


def _replays(replays: Sequence[Replay]) -> Grid:
    answers = {True: "yes", False: "no", None: "cannot be told"}
    rows = tuple(
        (
            cut(replay.member),
            answers[replay.follows],
            f"{replay.compared - len(replay.tolerated):,}",
            f"{len(replay.tolerated):,}",
            f"{len(replay.differences):,}",
            cut(replay.why, 160) or NONE,
        )
        for replay in replays[:MEMBERS]
    )
    return Grid(
        key="replays",
        caption="Members whose messages were made again from what they were told",
        columns=(
            "Member",
            "Follows",
            "#Equal to the byte",
            "#But for last places of floats",
            "#Different",
            "Why it cannot be told",
        ),
        rows=rows,
        more=rest(len(replays), MEMBERS, "members"),
    )


def _end(audit: Audit, reason: str | None) -> str:
    if audit.verification.torn:
        return "breaks off inside a block"
    if reason is None:
        return "has none"
    return "complete" if audit.verification.complete else f"not complete: {cut(reason, 160)}"
