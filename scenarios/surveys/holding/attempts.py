"""Attempts of an aggregator: opened, resumed, and given up."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, NoReturn, Required, TypedDict

from parties.actor import Outside
from parties.keeping.attempts import Counter, Taken, counting, hashed, unfinished
from parties.keeping.checkpoints import newer_in
from parties.keeping.members import Member
from parties.keeping.packing import record_start
from parties.keeping.record_names import partial_path
from parties.keeping.records import DamagedError, GrowingTranscript, growing, growing_again
from protocol.errors import ProtocolError, TranscriptError, UsageError
from protocol.messages import AGGREGATOR, PartyId
from protocol.session.charter import Charter
from protocol.session.exchange import Exchange
from protocol.transcript.entries import Header, encode_header
from protocol.transcript.header import make_header
from protocol.transcript.reader import Records
from protocol.transcript.recorder import Recorder
from protocol.transcript.resuming import Past
from scenarios.running.simulation import program
from scenarios.surveys.operating.by_hand import note
from scenarios.surveys.operating.operation import Operation
from scenarios.surveys.witnessing.asking import WitnessAt, certifying, check_named
from scenarios.wording.formatting import some
from transports.records.commits import Commits

ABANDONED = "abandoned"
"""The reason in the record of an abandoned attempt."""

_NAMED = 20

_GIVE_UP_HINT = (
    "'sottovoce abandon --lost' gives the attempt up: no record will say that it ended, what was "
    "answered in it is lost, and who may have been told that they are done is not known"
)

OLDER_HINT = (
    "go on with the newest copy of the folder and the record that there is; if this is it, "
    "'sottovoce backup' and 'sottovoce restore' make of it one in which parties say again what it "
    "lacks"
)


class Opening(TypedDict, total=False):
    """Arguments that open an attempt, over any kind of connection.

    Args:
        transcript: the file for the transcript.
        taken: called with the attempt's charter before anything is signed.
        begin: called with a record that holds only the header, before anybody can connect. It
            returns the note of the first checkpoint with cosignatures. If it raises, nothing is
            left behind, and the next try begins the same attempt and log.
        witnesses: certify the aggregator's statements, if the survey names witnesses.
        go_on: called with the record of a resumed attempt before anything changes or anybody can
            connect, unless the record was restored. It may raise.
        resume: go on with the last attempt if it was interrupted. Without one, the first attempt
            begins.
        without_missing: publish a restored attempt without parties that may hold receipts of
            missing entries and do not return, or cannot repeat their messages. The record lists
            them. By default nothing is published without them.
        operation: reports progress, and may end the attempt early.
    """

    transcript: Required[Path]
    taken: Callable[[Charter], object] | None
    begin: Callable[[Recorder], str] | None
    witnesses: Sequence[WitnessAt]
    go_on: Callable[[Recorder], object] | None
    resume: bool
    without_missing: bool
    operation: Operation | None


class Attempt(NamedTuple):
    """An attempt that is about to begin, or to go on.

    Args:
        member: the aggregator.
        charter: the charter of this attempt.
        counter: counts the attempts.
        transcript: the file for the transcript.
        record: the transcript while it grows.
        recorder: writes the record; on a resumed attempt only after ``take_up``.
        exchange: rules of the hub; everything that passes is recorded.
        operation: reports progress, and may end the attempt early.
        first: the note of the first checkpoint with cosignatures, if requested.
        past: the record so far; None for a new attempt.
        witnesses: certify the aggregator's statements.
        without_missing: as in ``Opening``.
    """

    member: Member
    charter: Charter
    counter: Counter
    transcript: Path
    record: GrowingTranscript
    recorder: Recorder
    exchange: Exchange
    operation: Operation
    first: str | None
    past: Past | None
    witnesses: Sequence[WitnessAt] = ()
    without_missing: bool = False

    def outside(self, commits: Commits) -> Outside:
        """The aggregator's source of messages from outside the session."""
        return certifying(
            self.charter, self.member.identity, self.witnesses, durable=commits.caught_up
        )

    @property
    def restored(self) -> bool:
        """True if the record goes on from an older copy."""
        return self.counter.restored or self.recorder.restored is not None

    def take_up(self) -> None:
        """Continue an existing record after its last whole entry; nothing to do for a new one.

        Raises:
            OSError: the record cannot be written.
        """
        if self.past is not None:
            self.record.cut()
            self.recorder.go_on()

    def record_restoration(self) -> None:
        """Record that the attempt goes on from an older copy, if the folder was restored.

        Raises:
            OSError: the record cannot be written.
        """
        if self.counter.restored and not self.recorder.ended:
            self.recorder.restore(now=0.0 if self.past is None else self.past.at)
            self.recorder.flush()
            self.record.sync()
            self.counter.note_restored()

    def go_on_without(self, missing: Sequence[PartyId], now: float) -> None:
        """Record that the attempt goes on without parties that may hold receipts.

        Args:
            missing: the parties.
            now: seconds since the start.

        Raises:
            UsageError: ``without_missing`` is not set; nothing is recorded.
        """
        if not self.without_missing:
            raise UsageError(
                f"{self.record.path}: was restored from an older copy, and nothing is published "
                "without those who may hold receipts of what it lacks: "
                f"{some(missing, len(missing), _NAMED)}; have them answer again, with the same "
                "records, and --resume; with --without-missing they are counted out, and the "
                "record says so"
            )
        self.recorder.restore(missing, now=now)

    def begin(self) -> None:
        """Note on disk that the attempt has begun. No message is accepted before.

        Raises:
            OSError: the note failed or may have failed; the record stays.
        """
        if self.past is None:
            note(self.member.folder, "begin", attempt=self.charter.attempt)
        self.record.keep()
        self.counter.begin()
        self.record.keep(self.first)


@contextmanager
def attempting(
    member: Member,
    *,
    transcript: Path,
    taken: Callable[[Charter], object] | None = None,
    begin: Callable[[Recorder], str] | None = None,
    witnesses: Sequence[WitnessAt] = (),
    go_on: Callable[[Recorder], object] | None = None,
    resume: bool = False,
    without_missing: bool = False,
    operation: Operation | None = None,
) -> Generator[Attempt]:
    """Open an attempt and lock its files for the block.

    The attempt is over if the block succeeds, or if the record ends with the error that it raises.

    Arguments are those of ``Opening``, errors those of ``aggregate_survey``.
    """
    check_aggregator(member)
    check_named(member.charter, witnesses)
    operation = operation or Operation()
    with counting(member.folder) as counter, ExitStack() as stack:
        last = counter.last
        if resume and last is not None and last.state == "over":
            _refuse_over(counter, last)
        if resume and last is not None and last.state == "begun":
            opened = _interrupted_attempt(member, counter, last, transcript, operation)
        else:
            opened = _new_attempt(member, counter, transcript, operation, taken, begin)
        with _hinting_at_giving_up():
            attempt = stack.enter_context(opened)
        attempt = attempt._replace(witnesses=witnesses, without_missing=without_missing)
        _check_newest(attempt)
        if go_on is not None and attempt.past is not None and not attempt.restored:
            attempt.record.sync()
            go_on(attempt.recorder)
        ending = None if attempt.past is None else attempt.past.ending
        if ending is not None and not ending.complete:
            attempt.take_up()
            attempt.record.sync()
            counter.finish()
            raise UsageError(
                f"{transcript}: attempt {attempt.charter.attempt} is over: it has failed "
                f"({ending.reason}); without --resume, the next one begins"
            )
        try:
            yield attempt
        except ProtocolError:
            # A record that had ended before has a last entry about something else.
            if ending is None and attempt.recorder.ended:
                attempt.record.sync()
                counter.finish()
            raise
        counter.finish()


@contextmanager
def _new_attempt(
    member: Member,
    counter: Counter,
    transcript: Path,
    operation: Operation,
    taken: Callable[[Charter], object] | None,
    begin: Callable[[Recorder], str] | None,
) -> Generator[Attempt]:
    def header(number: int) -> Header:
        return make_header(member.charter.again(number), transport="tls", program=program())

    number = counter.take(lambda number: encode_header(header(number)))
    with growing(transcript) as record:
        charter = member.charter.again(number)
        if taken is not None:
            taken(charter)
        recorder = Recorder(
            record.write,
            header(number),
            signer=member.identity,
            secret=counter.secret(),
            acknowledging=True,
            watch=operation.follow(charter),
        )
        first = None
        # A resumed attempt needs the header on disk.
        record.sync()
        if begin is not None:
            first = begin(recorder)
        yield Attempt(
            member=member,
            charter=charter,
            counter=counter,
            transcript=transcript,
            record=record,
            recorder=recorder,
            exchange=Exchange(charter, recorder=recorder),
            operation=operation,
            first=first,
            past=None,
        )


@contextmanager
def _interrupted_attempt(
    member: Member, counter: Counter, last: Taken, transcript: Path, operation: Operation
) -> Generator[Attempt]:
    """The last attempt, read back from its record; nothing changes before ``take_up``.

    Raises:
        DamagedError: the record is damaged.
        UsageError: the record is missing, belongs to another attempt, or is being written.
    """
    with growing_again(transcript) as record:
        try:
            records = Records(record.chunks())
            content = next(iter(records), b"")
            if not content:
                raise DamagedError(f"{record.path}: has no whole header", record.path)
            if hashed(content) != last.header:
                raise UsageError(
                    f"{record.path}: is not the record of attempt {last.attempt} of {member.folder}"
                )
            charter = member.charter.again(last.attempt)
            header = records.header(content)
            recorder = Recorder(
                record.write,
                header,
                signer=member.identity,
                secret=records.secret,
                acknowledging=True,
                watch=operation.follow(charter),
                resumed=True,
            )
            exchange = Exchange(charter, recorder=recorder)
            past = Past(charter, recorder, exchange)
            past.read(records)
            if record.named and past.ending is None:
                raise DamagedError(
                    f"{record.path}: damaged: it was whole when it got its name, and its end is "
                    "missing",
                    record.path,
                )
        except TranscriptError as error:
            raise DamagedError(f"{record.path}: cannot be resumed: {error}", record.path) from error
        yield Attempt(
            member=member,
            charter=charter,
            counter=counter,
            transcript=transcript,
            record=record,
            recorder=recorder,
            exchange=exchange,
            operation=operation,
            first=past.cosigned,
            past=past,
        )


def _check_newest(attempt: Attempt) -> None:
    """Refuse a record that a party has proved outdated, unless it was restored."""
    recorder = attempt.recorder
    found = newer_in(attempt.member.folder, attempt.charter.session)
    if found is None or attempt.counter.restored:
        return
    path, checkpoint = found
    if recorder.shown_restored(checkpoint) is None and not recorder.extends(checkpoint):
        raise UsageError(
            f"{attempt.record.path}: this record is older than what a party holds, by {path}; "
            f"{OLDER_HINT}"
        )


@contextmanager
def _hinting_at_giving_up() -> Generator[None]:
    """Add to errors about a damaged record how to give up its attempt."""
    try:
        yield
    except DamagedError as error:
        raise DamagedError(f"{error}; {_GIVE_UP_HINT}", error.path) from error


class Abandoned(NamedTuple):
    """An attempt that was given up.

    Args:
        attempt: its number.
        ended: parties with their last message on record, in roster order: they may have received
            word that they are done. None if the record is lost or damaged.
        damaged: the record if it is damaged; it stays unchanged.
    """

    attempt: int
    ended: tuple[PartyId, ...] | None
    damaged: Path | None = None


def abandon_survey(member: Member, transcript: Path, *, lost: bool = False) -> Abandoned:
    """Give up the attempt that has begun, with a signed entry at the end of its record.

    Args:
        transcript: the intended name of the attempt's transcript.
        lost: give up without that entry if the record is missing or damaged.

    Raises:
        UsageError: no attempt has begun, or it succeeded; or without ``lost`` the record is missing
            or damaged.
        OSError: the record cannot be written.
    """
    check_aggregator(member)
    with counting(member.folder) as counter:
        last = counter.last
        if last is None or last.state != "begun":
            raise UsageError(f"{member.folder}: no attempt has begun that is not over")
        there = any(map(os.path.lexists, (transcript, partial_path(transcript))))
        ended: tuple[PartyId, ...] | None = None
        damaged: Path | None = None
        if there or not lost:
            try:
                with _hinting_at_giving_up():
                    ended = _record_abandonment(member, counter, last, transcript)
            except DamagedError as error:
                if not lost:
                    raise
                damaged = error.path
        if ended is None:
            note(member.folder, "abandon --lost", attempt=last.attempt)
        counter.finish()
    return Abandoned(last.attempt, ended, damaged)


def _record_abandonment(
    member: Member, counter: Counter, last: Taken, transcript: Path
) -> tuple[PartyId, ...]:
    """End the record of the last attempt; return the parties with their last message on record."""
    with _interrupted_attempt(member, counter, last, transcript, Operation()) as attempt:
        ending = None if attempt.past is None else attempt.past.ending
        if ending is not None and ending.complete:
            raise UsageError(
                f"{attempt.record.path}: the survey has ended well; --resume publishes it"
            )
        note(member.folder, "abandon", attempt=last.attempt)
        attempt.take_up()
        if ending is None:
            attempt.recorder.close(complete=False, reason=ABANDONED)
        attempt.record.sync()
        return tuple(filter(attempt.exchange.has_ended, member.charter.roster.parties))


def make_ready(member: Member, transcript: Path, *, resume: bool) -> bool:
    """Prepare for ``attempting``: remove the files of an attempt that never began.

    Args:
        transcript: the name of the attempt's transcript.
        resume: whether to go on with an interrupted attempt.

    Returns:
        True if an attempt will go on.

    Raises:
        UsageError: the folder is a party's; or the last attempt is not over, or with ``resume`` is
            over.
        OSError: a file cannot be read or removed.
    """
    check_aggregator(member)
    with counting(member.folder) as counter:
        last = counter.last
        if last is None:
            return False
        if last.state == "over":
            if resume:
                _refuse_over(counter, last)
            return False
        if last.state == "begun":
            if not resume:
                raise unfinished(member.folder, last.attempt)
            return True
        _remove_leftover(transcript, counter, last)
    return False


def _remove_leftover(transcript: Path, counter: Counter, last: Taken) -> None:
    """Remove the record of an attempt that never began; a damaged one may be another's."""
    partial = partial_path(transcript)
    if not partial.is_file():
        return
    with suppress(DamagedError), growing_again(transcript) as record:
        header = next(iter(Records(record.chunks())), b"")
        start = record_start(counter.secret())
        # A crash may leave zeros in place of unsynced bytes.
        left = partial.read_bytes().rstrip(b"\0")[: len(start)]
        cut_short = not header and start.startswith(left)
        if cut_short or hashed(header) == last.header:
            partial.unlink()


def _refuse_over(counter: Counter, last: Taken) -> NoReturn:
    """Erase the secrets of an attempt that is over, and refuse to go on with it."""
    counter.finish()
    raise UsageError(
        f"{counter.folder}: attempt {last.attempt} is over; without --resume, the next one begins"
    )


def check_aggregator(member: Member) -> None:
    """Check that a member is the aggregator.

    Raises:
        UsageError: the member is a party.
    """
    if member.identity.name != AGGREGATOR:
        raise UsageError(f"{member.folder}: is {member.identity.name}'s, not the aggregator's")
