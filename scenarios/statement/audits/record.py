"""Sections on the record: findings, members, and proofs in the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from protocol.audit.completeness import Closing
from protocol.audit.findings import Finding
from protocol.audit.replay import Replay
from protocol.surveys.survey import Survey
from protocol.transcript.entries import Header
from scenarios.statement.audits.judged import Judged
from scenarios.statement.audits.of_file import changed
from scenarios.statement.audits.replays import records_unproved
from scenarios.statement.calibration import calibration_sentences
from scenarios.statement.sampling import design_sentences, response_sentences
from scenarios.statement.statement import SO_FAR, Grid, Section
from scenarios.surveys.watching.rounds import named_waits
from scenarios.wording.formatting import NONE, count, cut, moment, others_in, rest, some, upper

FINDINGS, ENTRIES, CLOSINGS, REASONS = 40, 12, 16, 20
FAULTS, MEMBERS, WORDED = 30, 12, 400


def findings(judged: Judged) -> Section:
    """Section on findings with their entries, and on faults that the survey survived."""
    wrong, odd = judged.audit.findings, judged.audit.remarks
    verdict = judged.audit.verdict
    undecided = verdict in ("unfinished", "unchecked", "incomplete")
    changed_file = None if undecided else changed(judged.audit.verification)
    lead = f"{count(len(wrong), 'thing is', 'things are')} wrong." if wrong else "Nothing is wrong."
    if undecided:
        lead = (
            "What was read so far decides nothing."
            if verdict == "unfinished"
            else "Nothing that was read is wrong, and it is not all."
            if verdict == "incomplete"
            else "Nothing that could be checked is wrong."
        )
    if changed_file is not None:
        lead = changed_file
    return Section(
        key="findings",
        title="Findings",
        lead=lead,
        notes=("Entries count from 0, as in the column “entry” that the query command knows.",)
        if wrong or odd
        else (),
        grids=(
            *_finding_grid(
                "found",
                "What was found"
                if undecided
                else "What is wrong"
                if changed_file is None
                else "What shows it",
                wrong,
            ),
            *_finding_grid("remarks", "Also noted", odd),
        ),
    )


def _finding_grid(key: str, caption: str, found: Sequence[Finding]) -> Iterator[Grid]:
    rows = [
        (
            cut(each.text, 400),
            cut(each.party or NONE),
            some((f"{entry:,}" for entry in each.entries), len(each.entries), ENTRIES) or NONE,
        )
        for each in found[:FINDINGS]
    ]
    if rows:
        # Empty columns are left out.
        kept = [i for i in range(3) if i == 0 or any(row[i] != NONE for row in rows)]
        yield Grid(
            key=key,
            caption=caption,
            columns=tuple(("Finding", "Party", "Entries")[i] for i in kept),
            rows=tuple(tuple(row[i] for i in kept) for row in rows),
            more=rest(len(found), FINDINGS, "in the JSON report"),
        )


def members(judged: Judged, lead: str) -> Section:
    """Section on counted parties, and on the others with reasons."""
    complete = judged.audit.completeness
    departed: dict[str, list[str]] = {}
    for name, reason in complete.departed.items():
        departed.setdefault(reason, []).append(name)
    left = {why: (f"{len(who):,}", some(map(cut, who), len(who))) for why, who in departed.items()}
    refused = {reason: (f"{times:,}",) for reason, times in complete.refused.items()}
    lost = f"{count(complete.lost, 'message')} never reached a recipient."
    so_far = SO_FAR if judged.audit.partial else ""
    responses = response_sentences(complete, judged.audit.charter.variant)
    return Section(
        key="members",
        title="Who took part",
        lead=lead,
        notes=(
            *((f"{so_far}{lost}",) if complete.lost else ()),
            *(so_far + said if so_far else upper(said) for said in responses),
            *design_sentences(judged.audit.design, judged.audit.no_design),
        ),
        grids=(
            *_closings(complete.closings),
            *_reasons("departed", "Who left before the end", ("#Parties", "Who"), left),
            *_reasons("refused", "What was refused at the switch", ("#Times",), refused),
        ),
    )


def _closings(closings: Sequence[Closing]) -> Iterator[Grid]:
    """One row per gather; where there are many, one row per kind."""
    waits = named_waits(closings, at_most=CLOSINGS)
    rows = []
    for name, group in waits[:CLOSINGS]:
        missing = [who for closing in group for who in closing.missing]
        odd = [who for closing in group for who in (*closing.left_out, *closing.unheard)]
        rows.append(
            (
                cut(name),
                f"{sum(closing.awaited for closing in group):,}",
                f"{sum(closing.counted for closing in group):,}",
                some(map(cut, missing), len(missing), 3) or "nobody",
                some(map(cut, odd), len(odd), 3) or "nobody",
                some((f"{closing.entry:,}" for closing in group), len(group), 2),
            )
        )
    if rows:
        yield Grid(
            key="closings",
            caption="What the aggregator waited for, and whom it counted",
            columns=("Kind", "#Awaited", "#Counted", "Missing", "Counted wrongly", "Entry"),
            rows=tuple(rows),
            more=rest(len(waits), CLOSINGS, "kinds"),
        )


def _reasons(
    key: str, caption: str, columns: tuple[str, ...], by_reason: Mapping[str, tuple[str, ...]]
) -> Iterator[Grid]:
    if by_reason:
        yield Grid(
            key=key,
            caption=caption,
            columns=("Reason", *columns),
            rows=tuple(
                (cut(reason, 160), *cells) for reason, cells in islice(by_reason.items(), REASONS)
            ),
            more=rest(len(by_reason), REASONS, "reasons"),
        )


def integrity(judged: Judged, lead: str, replayed: str) -> Section:
    """Section on what the file proves and what it does not.

    Args:
        lead: the answer.
        replayed: the sentence on the parties whose words were replayed; empty if none were.
    """
    audit, header = judged.audit, judged.header
    verification = audit.verification
    replays = (*((audit.replay,) if audit.replay else ()), *audit.replays)
    faults = len(verification.faults) + verification.faults_left_out
    rows = tuple(
        (
            fault.rule,
            cut(fault.message, 300),
            NONE if fault.entry is None else f"{fault.entry:,}",
            NONE if fault.offset is None else f"{fault.offset:,}",
        )
        for fault in verification.faults[:FAULTS]
    )
    grids = [
        Grid(
            key="faults",
            caption="Faults in the file",
            columns=("Rule", "What", "#Entry", "#Byte"),
            rows=rows,
            more=rest(faults, FAULTS, "faults"),
        )
    ]
    grids.append(_wording(judged.audit.charter.variant.survey))
    # Messages that do not follow come first.
    grids.append(_replays(sorted(replays, key=lambda replay: replay.follows is not False)))
    notes = tuple(f"{upper(cut(note, 600))}." for note in _notes(judged))
    # Notes on undisclosed records only explain how to disclose them.
    told = notes if audit.disclosed else notes[len(judged.notes) :]
    if any(how in ("folder", "link") for how, _ in header.enrolled or ()):
        told = (*told, f"How parties got their keys: {_enrolment_words(header)}.")
    brief = (replayed, *told) if replayed else told
    return Section(
        key="integrity",
        title="Integrity",
        lead=lead,
        notes=notes,
        brief=brief if audit.verdict == "sound" else None,
        facts=(
            ("File", cut(judged.file, 120)),
            ("Digest", verification.digest.hex() if verification.digest else "none"),
            ("Entries", f"{verification.entries:,}"),
            ("Messages sent", f"{verification.messages:,}"),
            ("Never delivered", f"{verification.undelivered:,}"),
            ("Checkpoints", f"{verification.checkpoints:,}"),
            ("Session", header.session.hex()),
            ("Attempt", f"{header.attempt}"),
            *_closing_row(judged.audit.charter.variant.survey),
            ("Roster", f"the aggregator{', ' if header.roles else ' and '}{others_in(header)}"),
            ("How parties got their keys", _enrolment_words(header)),
            (
                "The variant's file",
                "SHA-256 " + header.code.hex()
                if header.code
                else "none bound: it is built in, or in no file",
            ),
            ("What epsilon is about", header.neighbours),
            ("Carried by", cut(header.transport or "not said")),
            ("Recorded by", f"program {cut(header.program)}"),
        ),
        grids=tuple(grid for grid in grids if grid.rows),
    )


def _closing_row(survey: Survey) -> Iterator[tuple[str, str]]:
    """Agreed closing time, if there is one."""
    if survey.closing is not None:
        yield "Answers taken until", moment(int(survey.closing.timestamp()))


_KEYS = {
    "request": "made them and asked with an invitation",
    "folder": "were given folders with keys in them, by somebody who could answer as any of them",
    "link": "were given links: the maker of the links had every key and could have answered in "
    "anybody's place",
    "seed": "have keys that follow from the simulation's seed",
}


def _enrolment_words(header: Header) -> str:
    if header.enrolled is None:
        return "nothing shows it"
    ways = (f"{number:,} {_KEYS.get(how, cut(how, 60))}" for how, number in header.enrolled)
    return f"by the organiser's word, {'; '.join(ways)}"


_ABOUT = {"title": "Title", "asks": "Who asks", "consent": "Consent", "contact": "Contact"}


def _wording(survey: Survey) -> Grid:
    rows = [
        (texts.language, _ABOUT[field], words, NONE)
        for texts in survey.texts
        for field, words in texts.about.items()
    ]
    rows += [
        (texts.language, asked.attribute, f"{asked.ask} {asked.help}", ", ".join(asked.labels))
        for texts in survey.texts
        for asked in texts.questions
    ]
    rows += [
        (texts.language, ", ".join(group.attributes), f"{group.ask} {group.help}", "check boxes")
        for texts in survey.texts
        for group in texts.groups
    ]
    return Grid(
        key="wording",
        caption="The words of the questions, which the session binds",
        columns=("Language", "About", "Words", "Answers"),
        rows=tuple(tuple(cut(cell, 600) for cell in row) for row in rows[:WORDED]),
        more=rest(len(rows), WORDED, "texts"),
    )


def _notes(judged: Judged) -> Iterator[str]:
    yield from judged.notes
    if judged.calibrated is not None:
        yield from calibration_sentences(judged.calibrated)
    silenced = [replay.member for replay in judged.audit.replays if replay.unsaid]
    if silenced:
        names = some(map(cut, silenced), len(silenced), 3)
        yield f"Of the replayed parties {len(silenced):,} would have sent more: {names}"
    unproved = records_unproved(judged.audit)
    if unproved:
        yield unproved


def _replays(replays: Sequence[Replay]) -> Grid:
    answers = {True: "yes", False: "no", None: "unknown"}
    return Grid(
        key="replays",
        caption="Members whose messages were computed again from what they received",
        columns=(
            "Member",
            "Follows",
            "#Equal to the byte",
            "#But for last places of floats",
            "#Different",
            "Why it is unknown",
        ),
        rows=tuple(
            (
                cut(replay.member),
                answers[replay.follows],
                f"{replay.compared - len(replay.tolerated):,}",
                f"{len(replay.tolerated):,}",
                f"{len(replay.differences):,}",
                cut(replay.why, 160) or NONE,
            )
            for replay in replays[:MEMBERS]
        ),
        more=rest(len(replays), MEMBERS, "members"),
    )
