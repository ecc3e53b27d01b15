"""Questions about a transcript's file alone, and their answers in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from scenarios.statement.statement import SO_FAR, Check, State, Verdict
from scenarios.wording.formatting import count, cut, moment, some

if TYPE_CHECKING:
    from protocol.audit.audit import Verdict as Soundness
    from protocol.transcript.verification import Published, Verification

Answer: TypeAlias = tuple[State, str]

LENGTH, NAMES = 400, 8
"""Maximum number of characters of a sentence, and of names in it."""


def whole(verification: Verification) -> Answer:
    """Check whether the record is intact to its end."""
    faults = len(verification.faults) + verification.faults_left_out
    wrong = f"{count(faults, 'fault')} in the file"
    if verification.unopened is not None:
        before = f" There {'is' if faults == 1 else 'are'} {wrong} before." if faults else ""
        why = f"the file cannot be unpacked: {verification.unopened}"
        state: State = "bad" if verification.verdict == "broken" else "open"
        return state, f"Could not finish: {why}.{before}"
    if faults and not _by_itself(verification):
        return "bad", f"{wrong}: it is not what was recorded."
    if faults and verification.complete and not verification.foreign:
        return "bad", "By itself the file breaks no rule; what fails is what it was compared with."
    if verification.complete:
        entries = count(verification.entries, "entry", "entries")
        return "good", f"The file is intact: its {entries} fit together, to the end."
    return "bad", f"Incomplete. {cut_short(verification)}"


def cut_short(verification: Verification) -> str:
    """Reason why a record that breaks no rule is not complete."""
    if verification.header is None:
        why = "file ends before its header"
    elif verification.torn:
        why = "file breaks off inside an entry"
    elif verification.ending is None:
        why = "file has no last entry"
    elif verification.ending.complete:
        return "No checkpoint is of all that is in the file: its end is not signed."
    else:
        return f"The run did not come to its end: {verification.ending.reason}."
    return f"The {why}, as after a crash, so anything may be missing."


def _by_itself(verification: Verification) -> bool:
    """True if the only faults are differences from a given checkpoint or digest."""
    # Cosignatures of the given checkpoint have a check of their own.
    about = {fault.rule for fault in verification.faults}
    return about <= {"published", "digest"} and not verification.faults_left_out


def changed(verification: Verification) -> str | None:
    """Problem of a file that is not as it was recorded, in a sentence; None if it may be.

    A single bit that was flipped breaks many rules at once: every signature over it, and more.
    """
    if not verification.faults or _by_itself(verification):
        return None
    if verification.unopened is not None and verification.verdict != "broken":
        return None
    fault = verification.faults[0]
    places = [
        *([] if fault.entry is None else [f"entry {fault.entry:,}"]),
        *([] if fault.offset is None else [f"byte {fault.offset:,}"]),
    ]
    first = f", first noticed at {', '.join(places)}" if places else ""
    return f"The file was changed after it was recorded, or recorded wrongly{first}."


_OF_THE_RECORD: Mapping[Soundness, State] = MappingProxyType(
    {
        "sound": "good",
        "incomplete": "bad",
        "broken": "bad",
        "unfinished": "open",
        "unchecked": "open",
    }
)


def on_record(word: Soundness, says: str, reasons: tuple[str, ...]) -> Verdict:
    """The verdict on the record, by the file alone or by an audit.

    Args:
        word: the verdict.
        says: why, in a sentence.
        reasons: further sentences that a reader needs.
    """
    return Verdict(
        about="Record", word=word, state=_OF_THE_RECORD[word], says=says, reasons=reasons
    )


def verdict_of_file(verification: Verification) -> tuple[Soundness, str]:
    """Verdict on the file alone, and why in a sentence."""
    if verification.intact:
        if verification.compared:
            return "sound", "The file breaks no rule, and fits what was published."
        return "sound", "The file breaks no rule; a consistent forgery would not, either."
    if verification.verdict == "unfinished":
        return "unfinished", "The file could not be read to its end."
    if verification.foreign and verification.complete and _by_itself(verification):
        return "broken", "Not compared: the checkpoint that was given is of another session."
    if verification.verdict == "incomplete":
        return "incomplete", cut_short(verification)
    return "broken", changed(verification) or whole(verification)[1]


_PUBLISHED: Mapping[Published, Answer] = MappingProxyType(
    {
        "not compared": (
            "care",
            "No published digest or checkpoint was compared (--digest, --checkpoint): a file that "
            "was rewritten whole cannot be distinguished from the original.",
        ),
        "fits": ("good", "It fits the digest or the checkpoint that was published."),
        "begins": (
            "care",
            "It extends the checkpoint that was published, but that is not over the whole record: "
            "what came after it may have been rewritten.",
        ),
        "differs": ("bad", "It does not fit the digest or the checkpoint that was published."),
        "another session": (
            "bad",
            "This is not the record of the checkpoint that was given: that is of another session, "
            "and says nothing else of this file.",
        ),
    }
)


def published(verification: Verification) -> Answer:
    """Check whether the record is the published one."""
    if verification.unopened is not None and verification.published == "differs":
        return (
            "open",
            "Whether it fits the digest or the checkpoint that was published is unknown: the file "
            "could not be read to its end.",
        )
    return _PUBLISHED[verification.published]


def signed_by_members(verification: Verification) -> Answer:
    """Check on parties and services that signed their messages."""
    signed, unsigned = len(verification.signed_by), verification.unsigned
    header = verification.header
    many = "members" if header is not None and header.roles else "parties"
    spoken = signed + len(unsigned)
    if not spoken:
        if verification.read_whole:
            return "note", "No party sent anything."
        return "open", "What could be read has no message of a party."
    so_far = "" if verification.read_whole else SO_FAR
    if not unsigned:
        if so_far:
            whose = f"{count(signed, 'party', many)} signed what was"
            return "good", f"{so_far}{whose} sent and received."
        whose = "The one party" if signed == 1 else f"All {signed:,} {many}"
        return "good", f"{whose} signed what {'it' if signed == 1 else 'they'} sent and received."
    names = some(map(cut, unsigned), len(unsigned), NAMES)
    says = f"{signed:,} of {spoken:,} {many} signed what they sent and received; not {names}."
    return "care", f"{so_far}{says}"


def signed_by_aggregator(verification: Verification) -> Answer:
    """Check on the part that the aggregator signed, and on contradictions."""
    last = verification.checkpoint
    if verification.equivocation is not None:
        return (
            "bad",
            "The aggregator has signed two checkpoints that contradict each other: the one on "
            "record and the one that was given.",
        )
    if last is None:
        if verification.read_whole:
            return "care", "The aggregator has signed nothing."
        return "open", "What could be read has no signature of the aggregator."
    key = last.key.hex()
    if verification.final is not None:
        return "good", f"The whole record is signed by the key {key}."
    if last.size == 1:
        return "care", f"Of the record the header alone is signed, by the key {key}."
    return (
        "care",
        f"The record is signed up to entry {last.size - 2:,}, not to the end, by the key {key}.",
    )


def begun(verification: Verification) -> Answer | None:
    """Answer which of the demanded witnesses have cosigned the first checkpoint, and when."""
    found = verification.first_cosigned
    if found is None:
        return None
    asked = len(found.by) + len(found.missing) + len(found.invalid)
    named = (f"{cut(name)} ({moment(time)})" for name, time in found.by)
    names = some(named, len(found.by), NAMES)
    says = (
        f"{len(found.by):,} of {count(asked, 'witness', 'witnesses')} "
        f"{'has' if len(found.by) == 1 else 'have'} cosigned the first checkpoint, which is on "
        "record before any message"
    )
    if not found.enough:
        more = f": {names}" if names else ""
        return (
            "care",
            f"{says}{more}. {found.needed:,} demanded: the terms may have been chosen later.",
        )
    return "good", f"{says}: {names}."


def cosigned(verification: Verification) -> Answer | None:
    """Answer which of the demanded witnesses have cosigned the published checkpoint."""
    found = verification.cosigned
    if found is None:
        return None
    asked = len(found.by) + len(found.missing) + len(found.invalid)
    names = some((cut(name) for name, _ in found.by), len(found.by), NAMES)
    says = (
        f"{len(found.by):,} of {count(asked, 'witness', 'witnesses')} "
        f"{'has' if len(found.by) == 1 else 'have'} cosigned the checkpoint that was published"
        f"{f': {names}' if names else ''}"
    )
    if found.invalid:
        forged = some(map(cut, found.invalid), len(found.invalid), NAMES)
        return "bad", f"{says}. Not a valid cosignature: {forged}."
    if not found.enough:
        return "bad", f"{says}. {found.needed:,} demanded."
    return "good", f"{says}."


OF_THE_FILE: Mapping[str, Callable[[Verification], Answer | None]] = MappingProxyType(
    {
        "The record": whole,
        "What was published": published,
        "Signed by parties": signed_by_members,
        "Signed by the aggregator": signed_by_aggregator,
        "Witnesses": cosigned,
        "The beginning": begun,
    }
)
"""Checks of the file alone, by subject; a check without an answer gives None."""


def checks_of_file(verification: Verification) -> tuple[Check, ...]:
    """Checks of the file alone, with their outcomes."""
    answers = ((about, ask(verification)) for about, ask in OF_THE_FILE.items())
    return tuple(
        Check(about, answer[0], cut(answer[1], LENGTH), "integrity")
        for about, answer in answers
        if answer is not None
    )
