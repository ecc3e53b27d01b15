"""What must hold of a survey among pages, from the side of those who answer."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from protocol import PartyId
from protocol.audit.audit import Audit, audit
from protocol.audit.proofs.making_receipts import NotCountedError, prove_each
from protocol.crypto.merkle import Tree, leaf_hash
from protocol.messages import NO_ROUND, Declined, Head
from protocol.session.heads import Heard, SaidHead, decode_head
from protocol.transcript.checkpoints import SignedCheckpoint, read_note
from protocol.transcript.entries import Entry, Refused, Sent
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.receipts import (
    COUNTED,
    NOT_YET_KNOWN,
    Acknowledgement,
    Receipt,
    decode_receipt,
    receipt_for,
    receipt_problems,
)
from protocol.transcript.verification import Verification, verify
from protocol.wire.codec import decode_envelope
from tests.system.pages.model import question_to
from tests.system.pages.schedule import Down
from tests.system.pages.world import FINAL, Course, Posted, Proof, Showed, Truths, play

_EPSILON = 1e-9
_bodies = msgspec.msgpack.Decoder(tuple[bytes, bytes])
_acknowledgements = msgspec.msgpack.Decoder(Acknowledgement)
_states = msgspec.msgpack.Decoder(tuple[bool, bytes | None, str | None])


class Shown(NamedTuple):
    """A receipt that holds, which a page has got.

    Args:
        proof: that it is made of.
        attempt: whose record it is about.
        receipt, checkpoint: it.
    """

    proof: Proof
    attempt: int
    receipt: Receipt
    checkpoint: SignedCheckpoint


class Look:
    """A course, and what is found out about it once."""

    def __init__(self, course: Course, again: Callable[..., Course] = play) -> None:
        self.course = course
        self.again = again
        self.honest = course.schedule.honest

    @functools.cached_property
    def entries(self) -> list[list[Entry]]:
        """Of each attempt's record."""
        return [[*TranscriptReader(each.content)] for each in self.course.attempts]

    @functools.cached_property
    def said(self) -> list[dict[PartyId, list[bytes]]]:
        """Of each attempt, what each place has said."""
        found = []
        for entries in self.entries:
            said: dict[PartyId, list[bytes]] = defaultdict(list)
            for entry in entries:
                if isinstance(entry, Sent):
                    said[decode_envelope(entry.envelope).sender].append(entry.envelope)
            found.append(said)
        return found

    @functools.cached_property
    def audits(self) -> list[Audit]:
        """Of each attempt."""
        return [
            audit(functools.partial(_chunks, each.content), type(each.charter.variant))
            for each in self.course.attempts
        ]

    @functools.cache  # noqa: B019  # it lives as long as the course
    def judged(self, attempt: int, checkpoint: SignedCheckpoint) -> Verification:
        """An attempt's record beside a checkpoint that somebody has of it."""
        content = self.course.attempts[attempt - 1].content
        return verify(content, checkpoint=checkpoint)

    @functools.cached_property
    def words(self) -> dict[PartyId, str]:
        """Of each place, what a receipt by the last attempt's record says, if it is complete."""
        last = self.course.attempts[-1]
        if last.state != "complete":
            return {}
        chunks = functools.partial(_chunks, last.content)
        proved, _ = prove_each(chunks, type(last.charter.variant))
        return {
            name: found.reason if isinstance(found, NotCountedError) else found.word
            for name, found in proved
        }

    def kept(self, posted: Posted) -> bool:
        """Whether a record has what was posted, and of its place nothing else."""
        said = self.said[posted.attempt - 1].get(posted.place)
        return said == [*_bodies.decode(posted.body)]

    @functools.cached_property
    def shown(self) -> list[Shown | None]:
        """Of each proof, the receipt that holds; None if none does."""
        return [*map(self._shown, self.course.proofs)]

    def _shown(self, proof: Proof) -> Shown | None:
        try:
            if proof.posted is not None:
                return self._acknowledged(proof, proof.posted)
            _, content, note = _states.decode(proof.reply)
            if content is None or note is None:
                return None
            receipt, checkpoint = decode_receipt(content), read_note(note)
        except (msgspec.MsgspecError, ValueError):
            return None
        attempt = self.course.where.charter.find_attempt(checkpoint.session)
        holds = not receipt_problems(receipt, checkpoint) and receipt.party == proof.place
        return Shown(proof, attempt, receipt, checkpoint) if holds and attempt else None

    def _acknowledged(self, proof: Proof, posted: Posted) -> Shown | None:
        given = _acknowledgements.decode(proof.reply)
        charter = self.course.where.charter.again(posted.attempt)
        answer, last = _bodies.decode(posted.body)
        envelope, head = decode_envelope(last), decode_head(decode_envelope(last))
        assert head is not None
        said, heard = Tree(), Heard()
        said.append(answer)
        seq = head.waits[0].heard[0][1]
        asked = question_to(charter, posted.place, seq)
        question = decode_envelope(asked)
        heard.add(0, question.kind, NO_ROUND, [(0, question.seq, leaf_hash(asked))])
        signed = SaidHead(envelope, head.signature, said.root(), heard.tree.root())
        reports = [0] if _report_of(posted) is not None else []
        receipt, checkpoint = receipt_for(charter, signed, given, said=[answer], reports=reports)
        holds = not receipt_problems(receipt, checkpoint)
        return Shown(proof, posted.attempt, receipt, checkpoint) if holds else None


def _chunks(content: bytes) -> list[bytes]:
    return [content]


def _report_of(posted: Posted) -> bytes | None:
    """The report in what was posted; None if it declines."""
    answer = decode_envelope(_bodies.decode(posted.body)[0])
    return None if answer.kind == Declined.kind() else answer.body


def nothing_breaks(look: Look) -> Iterator[str]:
    """Nothing is raised that nobody reckons with."""
    for error in look.course.errors:
        yield f"{type(error).__name__}: {error}"


def acknowledged_is_on_record(look: Look) -> Iterator[str]:
    """What was acknowledged with a receipt that holds is on record, and the receipt still holds."""
    for shown in filter(None, look.shown):
        posted = shown.proof.posted
        if look.honest:
            if posted is not None and not look.kept(posted):
                yield f"{shown.proof.place}: acknowledged, and not on record"
            if not look.judged(shown.attempt, shown.checkpoint).extends:
                yield f"{shown.proof.place}: its receipt is not of the record"


def acknowledged_is_counted(look: Look) -> Iterator[str]:
    """A report that was acknowledged is counted, if the attempt is complete."""
    attempts = look.course.attempts
    for shown in filter(None, look.shown):
        posted = shown.proof.posted
        if look.honest and posted is not None and _report_of(posted) is not None:
            last = posted.attempt == len(attempts) and attempts[-1].state == "complete"
            if last and look.words[posted.place] != COUNTED:
                yield f"{posted.place}: acknowledged, and {look.words[posted.place]}"


def who_was_counted_is_told(look: Look) -> Iterator[str]:
    """Who has an acknowledgement, and looks at the end, is told what became of the answer."""
    attempts = look.course.attempts
    if not look.honest or not attempts or attempts[-1].state != "complete":
        return
    got = [
        shown.proof.posted
        for shown in filter(None, look.shown)
        if shown.proof.posted is not None and shown.attempt == len(attempts)
    ]
    for showed in look.course.last:
        own = [each for each in got if each.device == showed.device]
        if own:
            word = COUNTED if _report_of(own[-1]) is not None else NOT_YET_KNOWN
            names = ("sent",) if _was_sent(look, showed) else ("sent", "elsewhere")
            if showed.state.name not in names or showed.state.counted != word:
                yield f"{showed.device}: acknowledged, and shows {showed.state}"


def _was_sent(look: Look, showed: Showed) -> bool:
    """Whether a page with this storage has shown that an answer was sent, in the only attempt."""
    return len(look.course.attempts) == 1 and any(
        (one.storage, one.state.name) == (showed.storage, "sent") for one in look.course.showed
    )


def one_report_of_each_place(look: Look) -> Iterator[str]:
    """A record has of each place one answer at most, and one head that signs it."""
    for each, said in zip(look.course.attempts, look.said, strict=True):
        for place in each.charter.roster.parties:
            kinds = [decode_envelope(one).kind for one in said.get(place, [])]
            if len(kinds) > 2 or kinds[1:] not in ([], [Head.kind()]):
                yield f"attempt {each.charter.attempt}: {place} says {kinds}"


def nobody_is_charged_more(look: Look) -> Iterator[str]:
    """The ledger of an audit charges nobody more than was agreed."""
    for each, found in zip(look.course.attempts, look.audits, strict=True):
        most = each.charter.variant.most()
        if found.ledger.record_epsilon > most * (1 + _EPSILON):
            yield f"{found.ledger.record_epsilon} instead of {most}"


def records_are_sound(look: Look) -> Iterator[str]:
    """The record is sound, nothing in it was refused, and the result follows from it."""
    for each, found, entries in zip(look.course.attempts, look.audits, look.entries, strict=True):
        verified = found.verification
        expected = "sound" if each.state == "complete" else "incomplete"
        if verified.faults or verified.verdict != expected:
            yield f"a record that is {each.state} is {verified.verdict}: {verified.faults[:1]}"
        refused = [entry.reason for entry in entries if isinstance(entry, Refused)]
        if refused:
            yield f"refused: {refused[0]}"
        if found.verdict != expected:
            yield f"an audit calls a record {found.verdict}: {found.findings[:1]}"


def who_speaks_has_signed(look: Look) -> Iterator[str]:
    """Whose answer is on record has signed it there, unless a loss of power came between."""
    faults = look.course.schedule.faults
    torn = any(isinstance(one, Down) and one.power for one in faults)
    for found in look.audits:
        unsigned = found.verification.unsigned
        if look.honest and unsigned and not torn:
            yield f"{unsigned} have not signed what is on record"


def one_draw(look: Look) -> Iterator[str]:
    """What pages with one storage send in an attempt are the same bytes, and one draw in all."""
    bodies: dict[object, set[bytes]] = defaultdict(set)
    reports: dict[object, set[bytes]] = defaultdict(set)
    for posted in look.course.posted:
        if posted.storage is not None:
            bodies[posted.storage, posted.attempt].add(posted.body)
            report = _report_of(posted)
            reports[posted.storage] |= set() if report is None else {report}
    for (storage, attempt), sent in bodies.items():  # type: ignore[misc]
        if len(sent) > 1:
            yield f"{storage} sends {len(sent)} answers in attempt {attempt}"
    for key, drawn in reports.items():
        if len(drawn) > 1:
            yield f"{key} sends {len(drawn)} draws"


def shown_is_acknowledged(look: Look) -> Iterator[str]:
    """Nobody is shown a report as sent before a receipt for it was there that holds."""
    for showed in look.course.showed:
        if not showed.state.shown:
            continue
        before = filter(None, look.shown[: showed.proofs])
        if not any(each.proof.device == showed.device for each in before):
            yield f"{showed.device} shows as sent what was not acknowledged"


def unsent_is_not_counted(look: Look) -> Iterator[str]:
    """Who is told in the end that an answer was not counted is not."""
    final = {showed.tab: showed for showed in look.course.showed}
    yield from _counted_all_the_same(look, final.values())


def nobody_is_alarmed(look: Look) -> Iterator[str]:
    """Nobody is told, be it for a moment, that an answer was not counted that is."""
    yield from _counted_all_the_same(look, look.course.showed)


def _counted_all_the_same(look: Look, shown: Iterable[Showed]) -> Iterator[str]:
    attempts = look.course.attempts
    if not look.honest or not attempts or attempts[-1].state != "complete":
        return
    for showed in shown:
        for posted in look.course.posted if showed.state.unsent else ():
            own = (posted.device, posted.attempt) == (showed.device, len(attempts))
            answer = _bodies.decode(posted.body)[0]
            if own and answer in look.said[-1].get(posted.place, []):
                yield f"{showed.device} is told that its answer is not counted, and it is"


def an_honest_server_is_not_refused(look: Look) -> Iterator[str]:
    """Nobody is told that the server cannot be trusted, or cannot be reached, if that is not so.

    Of a page that leaves the sending to another tab that is not said.
    """
    for showed in look.course.showed:
        refused = showed.state.name == "refused" and showed.state.reason != "tab"
        if look.honest and refused:
            yield f"{showed.device} refuses: {showed.state.reason}"


def everybody_ends(look: Look) -> Iterator[str]:
    """At the end no page is still under way."""
    for showed in look.course.last:
        if showed.state.name not in (*FINAL, "asking", "again"):
            yield f"{showed.device} shows {showed.state} at the end"


def told_checkpoints_are_kept(look: Look) -> Iterator[str]:
    """A record extends all checkpoints that anybody was told."""
    for note in look.course.notes:
        checkpoint = read_note(note)
        attempt = look.course.where.charter.find_attempt(checkpoint.session)
        assert attempt is not None
        if not look.judged(attempt, checkpoint).extends:
            yield f"a checkpoint of size {checkpoint.size} was told, and is not of the record"


def lies_leave_evidence(look: Look) -> Iterator[str]:
    """What was acknowledged is on record, or the receipt shows that the record is another."""
    for shown in filter(None, look.shown):
        posted = shown.proof.posted
        lost = posted is not None and not look.kept(posted)
        if lost and look.judged(shown.attempt, shown.checkpoint).extends:
            yield f"{posted.place}: acknowledged, not on record, and nothing shows it"


def truth_is_not_stored(look: Look) -> Iterator[str]:
    """Nothing that is stored or sent depends on the true answers, but by the draw.

    The same schedule is played once more with other answers, where no draw looks at them.
    """
    schedule, where = look.course.schedule, look.course.where
    if schedule.seed % TWINS:
        return
    sizes = where.charter.variant.survey.sizes

    def other(place: PartyId) -> list[int]:
        codes = where.holdings[place].codes[0].tolist()
        return [(code + 1) % size for code, size in zip(codes, sizes, strict=True)]

    def left(truths: Truths | None) -> list[object]:
        course = look.again(schedule, told=False, truths=truths)
        return [course.stored, course.asked]

    if left(None) != left(other):
        yield "what is stored or sent tells the true answers"


TWINS = 4
"""Every so many schedules are played twice more, with other answers."""

INVARIANTS: tuple[Callable[[Look], Iterator[str]], ...] = (
    nothing_breaks,
    acknowledged_is_on_record,
    acknowledged_is_counted,
    who_was_counted_is_told,
    one_report_of_each_place,
    nobody_is_charged_more,
    records_are_sound,
    who_speaks_has_signed,
    one_draw,
    shown_is_acknowledged,
    unsent_is_not_counted,
    nobody_is_alarmed,
    an_honest_server_is_not_refused,
    everybody_ends,
    told_checkpoints_are_kept,
    lies_leave_evidence,
    truth_is_not_stored,
)


class Broken(NamedTuple):
    """An invariant that does not hold, and what shows it."""

    invariant: str
    what: str


def broken_in(course: Course, again: Callable[..., Course] = play) -> list[Broken]:
    """What does not hold, the first instance of each invariant.

    Args:
        again: plays a schedule as this course was.
    """
    look = Look(course, again)
    found = []
    for invariant in INVARIANTS:
        what = next(invariant(look), None)
        if what is not None:
            found.append(Broken(invariant.__name__, what))
    return found
