"""What must hold of a survey whatever goes wrong, each looked for in what is left of it."""

from __future__ import annotations

import functools
import hashlib
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from parties.keeping.packing import Unpacked
from parties.keeping.record_names import PARTIAL, RESULT, TRANSCRIPT
from protocol import AGGREGATOR, RECORD, PartyId, ProtocolError, TranscriptError
from protocol.audit.audit import Audit, audit
from protocol.audit.disclosure import Disclosure
from protocol.audit.proofs.making_receipts import TOO_LATE, NotCountedError, prove
from protocol.audit.walk import steps
from protocol.errors import UnopenedError, UsageError
from protocol.messages import DONE, SWITCH, Closed, Declined, Envelope
from protocol.session.roles import Topic, message_topic
from protocol.sharing.messages import Deal, Join, Survivors, Unmask, Upload
from protocol.transcript.checkpoints import SignedCheckpoint, read_note
from protocol.transcript.entries import Ending, Header, Sent
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.receipts import COUNTED
from protocol.transcript.receipts import LATE as LATE_WORD
from protocol.transcript.verification import verify
from protocol.wire.codec import decode_envelope
from scenarios.errors import LATE
from scenarios.surveys.endings import LOST, UNREACHABLE
from scenarios.surveys.holding.attempts import ABANDONED
from scenarios.surveys.operating.operation import DRAINING
from tests.system.disk import File
from tests.system.schedule import Crash, Cut, Late, Part, Stop
from tests.system.world import KEYS, OUT, Course, Life, is_published, remembering

SECRETS = (Join, Deal, Upload, Unmask)
"""The kinds of message that hold something drawn for one use."""

_EPSILON = 1e-9

Said = tuple[str, int]
"""A sender and the number of its envelope."""


class Kept(msgspec.Struct, frozen=True):
    """A record on the aggregator's disk, as far as it can be read.

    Args:
        content: its bytes, unpacked as far as that goes.
        header: what it is about.
        sent: the digest of each envelope.
        notes: its checkpoints.
        ending: its last entry, if it has that.
        fault: why reading stopped, other than at a torn end.
    """

    content: bytes
    header: Header
    sent: Mapping[Said, bytes]
    notes: tuple[str, ...]
    ending: Ending | None
    fault: str | None


def records_in(files: Mapping[str, File]) -> Iterator[Kept]:
    """The records on a disk. One whose header was not written whole is none."""
    for path, file in sorted(files.items()):
        if path.endswith((TRANSCRIPT, TRANSCRIPT + PARTIAL)):
            kept = _read(file.content)
            if kept is not None:
                yield kept


@functools.lru_cache(maxsize=8)
def _unpacked(content: bytes) -> bytes:
    parts = []
    with suppress(UnopenedError):
        for part in Unpacked(content):
            parts.append(part)  # those before an error stay
    return b"".join(parts)


def _read(content: bytes) -> Kept | None:
    """A record as far as it can be read, once for all invariants; None without a header."""
    try:
        reader = TranscriptReader(Unpacked(content))
    except TranscriptError:
        return None
    sent = {}
    for entry in reader:
        if isinstance(entry, Sent):
            envelope = decode_envelope(entry.envelope)
            sent[envelope.sender, envelope.seq] = hashlib.sha256(entry.envelope).digest()
    fault = None if reader.fault is None else str(reader.fault)
    return Kept(_unpacked(content), reader.header, sent, tuple(reader.notes), reader.ending, fault)


_audits: dict[bytes, Audit] = {}


def _audited(course: Course, kept: Kept) -> Audit:
    """The audit of a record, made once for all invariants."""
    if kept.content not in _audits:
        _audits.clear()
        _audits[kept.content] = _audit_of(course, kept)
    return _audits[kept.content]


def _audit_of(course: Course, kept: Kept) -> Audit:
    own = Disclosure(member=AGGREGATOR, identity=course.setup.members[AGGREGATOR].identity)
    return audit(lambda: [kept.content], type(course.setup.charter.variant), disclosed=[own])


def finished_of(course: Course) -> Kept | None:
    """The record of the survey that was published."""
    files = course.disks[AGGREGATOR]
    named = {path: file for path, file in files.items() if path == f"{OUT}/{TRANSCRIPT}"}
    return next(records_in(named), None)


def everybody_ends(course: Course) -> Iterator[str]:
    """Nobody waits past the bound."""
    for life in course.lives:
        if life.ended is None:
            yield f"{life.member} still waits after {course.seconds:.0f} s"


def nothing_breaks(course: Course) -> Iterator[str]:
    """A program ends by what it can say, and what a crash left can be gone on with."""
    for life in course.lives:
        refused = isinstance(life.error, UsageError) and not _is_over(life)
        if refused or life.said.startswith("failed"):
            yield str(life)


def _is_over(life: Life) -> bool:
    """Whether an aggregator found that its attempt had failed before, and says so."""
    return isinstance(life.error, UsageError) and " is over" in life.said


def acknowledged_is_on_record(course: Course) -> Iterator[str]:
    """Of a party that says "done", all words are on record; if there is a result, in its record.

    Unless its attempt was abandoned: that record says so, and the party has to answer again.
    """
    finished = finished_of(course)
    for life in course.lives:
        if life.answered is None or life.answered.ending != DONE:
            continue
        session = course.setup.charter.again(life.answered.attempt).session
        missing = _not_on_record(course, life.member, session)
        if missing:
            yield f"{life.member} is done, and {missing} of its envelopes are not on record"
        elif (
            finished is not None
            and finished.ending is not None
            and finished.header.session != session
            and not _is_abandoned(course, session)
        ):
            yield f"{life.member} is done, and the survey was published without it"


def _is_abandoned(course: Course, session: bytes) -> bool:
    """Whether the record of an attempt ends with the word that it does not go on."""
    records = records_in(course.disks[AGGREGATOR])
    endings = [kept.ending for kept in records if kept.header.session == session]
    return [end and (end.complete, end.reason) for end in endings] == [(False, ABANDONED)]


def _not_on_record(course: Course, party: str, session: bytes) -> int:
    """How many envelopes have left a party in a session and are in none of its records."""
    said = {
        (one.envelope.sender, one.envelope.seq)
        for one in course.said
        if one.envelope is not None
        and one.member == party == one.envelope.sender
        and one.envelope.session == session
    }
    for kept in records_in(course.disks[AGGREGATOR]):
        if kept.header.session == session:
            said -= kept.sent.keys()
    return len(said)


def acknowledged_is_counted(course: Course) -> Iterator[str]:
    """What is on record before the wait for it is over is counted in the result, and nothing else.

    Who is not counted is missing in a wait on record, and in what the result says of trouble.
    """
    finished = finished_of(course)
    if finished is None or finished.ending is None or not finished.ending.complete:
        return
    roster, codec = course.setup.charter.roster, course.setup.charter.codec
    # By topic and sender: what was said, and whether the wait for it is over.
    said: dict[tuple[Topic, str], tuple[str, bool]] = {}
    counted: dict[str, set[str]] = defaultdict(set)
    for step in steps(codec, TranscriptReader(finished.content)):
        envelope, message = step.envelope, step.message
        if not isinstance(step.entry, Sent) or envelope is None or message is None:
            continue
        if isinstance(message, Closed):
            topic = message.of, message.round
            there = set(roster.members_in(message.counted))
            counted[message.of] |= there
            for name in roster.members_in(message.awaited):
                what, _ = said.get((topic, name), ("", False))
                if what and name not in there:
                    yield f"{what} was acknowledged, and not counted"
                said[topic, name] = what, True
        elif envelope.recipient == AGGREGATOR and not isinstance(message, Declined):
            of = message_topic(message), envelope.sender
            said[of] = f"{envelope.kind} #{envelope.seq} of {envelope.sender}", of in said
    for what, over in said.values():
        if not over:
            yield f"{what} was acknowledged, and never waited for"
    result = _result(course)
    if result is not None:
        contribution = course.setup.charter.variant.contribution
        kind = [*counted][-1] if contribution is None else contribution.kind()
        some, parties = len(counted[kind]), len(roster.parties)
        if (result["counted"], result["respondents"]) != (some, some):
            yield f"{some} are counted on record, and {result['counted']} in the result"
        if sum(result["trouble"].values()) < parties - some:
            yield f"{some} of {parties} are counted, and the result says {result['trouble']}"


def _result(course: Course) -> dict[str, Any] | None:
    """What was published; None if nothing was."""
    files = course.disks[AGGREGATOR]
    if not is_published(files):
        return None
    result: dict[str, Any] = msgspec.json.decode(files[f"{OUT}/{RESULT}"].content)
    return result


def done_is_counted(course: Course) -> Iterator[str]:
    """A party that ended well is counted with all that it reported, or nothing was published.

    One that was told that it is late is not.
    """
    finished = finished_of(course)
    if finished is None or finished.ending is None or not finished.ending.complete:
        return
    for life in course.lives:
        answered = life.answered
        if answered is None or answered.code not in (0, LATE):
            continue
        session = course.setup.charter.again(answered.attempt).session
        if session != finished.header.session:
            continue
        word = word_of(course, finished, life.member)
        if answered.code == 0 and word != COUNTED:
            yield f"{life.member} ended with exit code 0, and is {word}"
        if answered.code == LATE and word != LATE_WORD:
            yield f"{life.member} was told that it is late, and is {word}"


_words: dict[tuple[bytes, str], str] = {}


def word_of(course: Course, kept: Kept, party: str) -> str:
    """What a receipt from the published record says of a party."""
    key = (kept.content, party)
    if key not in _words:
        if len(_words) > 64:
            _words.clear()
        variant = type(course.setup.charter.variant)
        try:
            receipt, _ = prove(lambda: [kept.content], variant, PartyId(party))
            _words[key] = receipt.word
        except NotCountedError as error:
            _words[key] = LATE_WORD if error.reason == TOO_LATE else error.reason
    return _words[key]


def nothing_said_twice(course: Course) -> Iterator[str]:
    """Under one number of one session nobody says two things."""
    words: dict[tuple[bytes, str, int], bytes] = {}
    for one in course.said:
        envelope = one.envelope
        if envelope is None or envelope.sender == SWITCH or one.member != envelope.sender:
            continue
        key = (envelope.session, envelope.sender, envelope.seq)
        if words.setdefault(key, one.payload) != one.payload:
            yield f"{envelope.sender} says two things as {envelope.kind} #{envelope.seq}"


def no_secret_used_twice(course: Course) -> Iterator[str]:
    """What is drawn for one use is not in the messages of two sessions."""
    kinds = {message.kind() for message in SECRETS}
    seen: dict[tuple[str, bytes], bytes] = {}
    for one in course.said:
        envelope = one.envelope
        if envelope is None or one.member != envelope.sender or envelope.kind not in kinds:
            continue
        for field in _long_fields(envelope):
            session = seen.setdefault((envelope.sender, field), envelope.session)
            if session != envelope.session:
                yield f"{envelope.sender} uses a secret of {envelope.kind} in two sessions"


def _long_fields(envelope: Envelope) -> Iterator[bytes]:
    """What is long enough in a message to be drawn, not chosen."""

    def visit(value: object) -> Iterator[bytes]:
        if isinstance(value, bytes) and len(value) >= 32 and any(value):
            yield value
        elif isinstance(value, list | tuple):
            for one in value:
                yield from visit(one)
        elif isinstance(value, dict):
            for one in value.values():
                yield from visit(one)

    yield from visit(msgspec.msgpack.decode(envelope.body, ext_hook=lambda code, data: bytes(data)))


def nothing_spent_twice(course: Course) -> Iterator[str]:
    """A party's folder has all that the records charge it, and no more than one answer costs; its
    purse has all that the folder has."""
    most = course.setup.charter.variant.most()
    for party, spent in course.spent.items():
        if sum(spent.values()) > most + _EPSILON:
            yield f"{party} has spent {sum(spent.values()):g}, and one answer costs {most:g}"
        for attempt, epsilon in spent.items():
            paid = course.paid[party].get(course.setup.charter.again(attempt).session, 0.0)
            if epsilon > paid + _EPSILON:
                yield f"{party} has spent {epsilon:g}, and paid {paid:g} from its purse"
    for kept in records_in(course.disks[AGGREGATOR]):
        attempt, ledger = kept.header.attempt, _audited(course, kept).ledger
        for account in ledger.accounts.values():
            noted = course.spent[account.party].get(attempt, 0.0)
            if account.loss.record > noted + _EPSILON:
                yield f"{account.party} is charged {account.loss.record:g}, and noted {noted:g}"
        # What was not signed is charged the most that it can have been.
        for account in ledger.unsigned.values():
            if account.loss.record > 0.0 and attempt not in course.spent[account.party]:
                yield f"{account.party} is charged {account.loss.record:g}, and noted nothing"


def one_set_of_survivors(course: Course) -> Iterator[str]:
    """In a sum all are named the same survivors: no mask is both opened and taken off."""
    heard: dict[tuple[bytes, str], dict[int, bytes]] = defaultdict(dict)
    for one in course.said:
        envelope = one.envelope
        if envelope is None or one.member != AGGREGATOR or envelope.kind != Survivors.kind():
            continue
        heard[envelope.session, envelope.recipient][envelope.seq] = envelope.body
    sums: dict[tuple[bytes, int], bytes] = {}
    for (session, recipient), bodies in heard.items():
        for number, seq in enumerate(sorted(bodies)):
            if sums.setdefault((session, number), bodies[seq]) != bodies[seq]:
                yield f"{recipient} was named other survivors of sum {number}"


def one_checkpoint_of_a_size(course: Course) -> Iterator[str]:
    """Nobody has two checkpoints of one session, one size and two roots."""
    roots: dict[tuple[bytes, int], bytes] = {}
    found = [signed for party in course.spent for signed in _receipted(course.disks[party])]
    for files in (*course.found.values(), *course.disks.values()):
        for kept in records_in(files):
            found += map(read_note, kept.notes)
    for signed in found:
        if roots.setdefault((signed.session, signed.size), signed.root) != signed.root:
            yield f"two checkpoints of size {signed.size} in one session"


def receipts_hold(course: Course) -> Iterator[str]:
    """The published record goes on from the checkpoint of every receipt of its session."""
    finished = finished_of(course)
    if finished is None or finished.ending is None:
        return
    for party in course.spent:
        for signed in _receipted(course.disks[party]):
            if signed.session != finished.header.session:
                continue
            if verify(finished.content, checkpoint=signed).extends is not True:
                yield f"the record is not that of which {party} has a receipt"


def _receipted(files: Mapping[str, File]) -> Iterator[SignedCheckpoint]:
    """The checkpoints of the receipts in a party's folder."""
    for path, file in files.items():
        if path.startswith(f"{KEYS}/checkpoint-"):
            yield read_note(file.content.decode())


def nothing_leaves_before_it_is_durable(course: Course) -> Iterator[str]:
    """What an aggregator has said to anybody is in the record that it finds after a crash.

    After it was stopped, it would find that even if its machine had lost power.
    """
    for life in course.lives_of(AGGREGATOR):
        if not (life.crashed or life.stopped):
            continue
        there = set[bytes]()
        for kept in records_in(course.found[AGGREGATOR, life.number]):
            there.update(kept.sent.values())
        for one in course.said:
            envelope = one.envelope
            if one.member != AGGREGATOR or one.life != life.number or envelope is None:
                continue
            if envelope.sender in (SWITCH, RECORD):
                continue
            if hashlib.sha256(one.payload).digest() not in there:
                yield f"{envelope.kind} #{envelope.seq} of {envelope.sender} left, and was lost"
                return


def the_audit_accepts(course: Course) -> Iterator[str]:
    """The published record is accepted; one that was broken off can be read to its torn end."""
    for kept in records_in(course.disks[AGGREGATOR]):
        if kept.fault is not None:
            yield f"a record cannot be read to its end: {kept.fault}"
            continue
        judged = _audited(course, kept)
        if judged.verification.faults:
            yield f"a record is not sound: {judged.verification.faults[0]}"
    finished = finished_of(course)
    if finished is not None and finished.ending is not None:
        judged = _audited(course, finished)
        if judged.verdict != "sound":
            yield f"the audit does not accept: {[*judged.findings, judged.verification.verdict]}"
        keyless = audit(lambda: [finished.content], type(course.setup.charter.variant))
        if keyless.verdict != "sound":
            yield f"nobody but the aggregator can check the result: {[*keyless.findings]}"


def the_summary_can_be_made(course: Course) -> Iterator[str]:
    """A survey ends with a result that can be read, or says why there is none."""
    last = course.lives_of(AGGREGATOR)[-1]
    published = is_published(course.disks[AGGREGATOR])
    if last.outcome is not None and not published:
        yield f"published, and there is no {TRANSCRIPT}, or no {RESULT}"
    if not published and not isinstance(last.error, ProtocolError) and not _is_over(last):
        yield f"the aggregator's last word: {last.said}"


HEALS = 10.0
"""How long all faults of a schedule may take together that cost nobody anything, in seconds: less
than patience and grace."""


def what_heals_costs_nobody(course: Course) -> Iterator[str]:
    """If all is well again soon, there is a result, which counts everybody, and everybody is done
    by itself.
    """
    if _healing(course) > HEALS:
        return
    last = course.lives_of(AGGREGATOR)[-1]
    finished, result = finished_of(course), _result(course)
    if finished is None or result is None:
        yield f"all was well again soon, and {last}"
        return
    if result["counted"] < result["parties"]:
        yield f"all was well again soon, and {result['counted']} are counted"
    for name in course.setup.charter.roster.parties:
        lives = course.lives_of(name)
        # Whoever owns it need not start it again.
        first = next(life for life in lives if not life.crashed)
        if first.said != DONE:
            yield f"all was well again soon, and {first}"


def who_has_a_receipt_is_done(course: Course) -> Iterator[str]:
    """A party that was killed after its receipt came is done, whoever is still there."""
    for life in course.lives:
        if not life.crashed or life.member == AGGREGATOR:
            continue
        last = course.setup.charter.again(max(course.spent[life.member], default=1))
        if f"{KEYS}/receipt-{last.session.hex()}" not in course.found[life.member, life.number]:
            continue
        for one in course.lives_of(life.member)[life.number + 1 :]:
            if one.answered is not None and one.answered.how in (LOST, UNREACHABLE):
                yield f"it had its receipt, and {one}"


def _healing(course: Course) -> float:
    """How long it takes until all is well again; infinite if nobody can wait so long.

    The aggregator does not wait twice for the same party at the end.
    """
    takes = 0.0
    lost = set[str]()
    for fault in course.schedule.faults:
        match fault:
            case Cut() | Crash() if fault.member in lost:
                return math.inf
            case Stop() if AGGREGATOR in lost:
                return math.inf
            case Stop():
                takes += DRAINING + fault.away
                lost.add(AGGREGATOR)
            case Crash(how="kill", then="resume"):
                takes += fault.away
                lost.add(fault.member)
            case Late() | Part():
                takes += fault.seconds
            case Cut(how="reset" | "flip") if fault not in course.stalled:
                takes += 1.0
                lost.add(fault.member)
            case _:
                return math.inf
    return takes


INVARIANTS: tuple[Callable[[Course], Iterator[str]], ...] = (
    everybody_ends,
    nothing_breaks,
    acknowledged_is_on_record,
    acknowledged_is_counted,
    done_is_counted,
    nothing_said_twice,
    no_secret_used_twice,
    nothing_spent_twice,
    one_set_of_survivors,
    one_checkpoint_of_a_size,
    receipts_hold,
    nothing_leaves_before_it_is_durable,
    the_audit_accepts,
    the_summary_can_be_made,
    what_heals_costs_nobody,
    who_has_a_receipt_is_done,
)


class Broken(msgspec.Struct, frozen=True):
    """An invariant that does not hold, and what shows it."""

    invariant: str
    what: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.what}"


def broken_in(course: Course) -> list[Broken]:
    """What does not hold, the first instance of each invariant."""
    found = []
    with remembering():
        for invariant in INVARIANTS:
            what = next(invariant(course), None)
            if what is not None:
                found.append(Broken(invariant.__name__, what))
    return found
