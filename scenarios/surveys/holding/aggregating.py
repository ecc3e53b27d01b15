"""The aggregator's side of a real survey, over TLS."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, NoReturn, Protocol, Required, TypedDict, Unpack

import trio

from parties.actor import Channel, Outside, aggregator, run_machine
from parties.keeping.attempts import Counter, Taken, counting, hashed, unfinished
from parties.keeping.checkpoints import keep_older, newer_in
from parties.keeping.members import Member
from parties.keeping.packing import record_start
from parties.keeping.record_names import partial_path
from parties.keeping.records import DamagedError, GrowingTranscript, growing, growing_again
from parties.session import LINGER
from protocol.crypto.randomness import Streams
from protocol.errors import ProtocolError, TranscriptError, UsageError
from protocol.messages import AGGREGATOR, DONE, LINK_CLOSED, Envelope, PartyId
from protocol.session.charter import Charter
from protocol.session.exchange import Exchange
from protocol.session.machine import Machine
from protocol.session.run import published_result
from protocol.session.variant import Variant
from protocol.transcript.entries import Header, encode_header
from protocol.transcript.header import make_header
from protocol.transcript.reader import Records
from protocol.transcript.recorder import Recorder
from protocol.transcript.resuming import Past, catch_up
from scenarios.files.transcripts import Transcript
from scenarios.running.loopback import allow_connections
from scenarios.running.outcomes import Outcome
from scenarios.running.simulation import program
from scenarios.surveys.answering import SILENCE
from scenarios.surveys.holding.closing import closed, count_out
from scenarios.surveys.holding.restored import Owing, await_all
from scenarios.surveys.members import tls_context
from scenarios.surveys.operating.by_hand import note
from scenarios.surveys.operating.operation import Operation
from scenarios.surveys.witnessing.asking import WitnessAt, certifying, check_named
from scenarios.wording.formatting import some
from transports.background import running
from transports.base import Limits
from transports.lasting.hub import LastingHub, open_lasting
from transports.lasting.older import OlderRecordError
from transports.records.commits import Commits
from transports.records.recording import recording
from transports.switch import Switch
from transports.tls import server_context

ABANDONED = "abandoned"
"""The reason in the record of an abandoned attempt."""

_NAMED = 20

_GIVING_UP = (
    "'sottovoce abandon --lost' gives the attempt up: no record will say that it ended, what was "
    "answered in it is lost, and who may have been told that they are done is not known"
)

_OLDER = (
    "go on with the newest copy of the folder and the record that there is; if this is it, "
    "'sottovoce backup' and 'sottovoce restore' make of it one in which parties say again what it "
    "lacks"
)


class Opening(TypedDict, total=False):
    """The attempt at a survey that is opened, however its members reach each other.

    Args:
        transcript: the file for the transcript.
        taken: called with the charter of this attempt, before anything of it is signed.
        begin: called with the record of the header alone, before anybody can connect. It gives the
            note of the first checkpoint with cosignatures. If it raises, the survey does not begin
            and leaves nothing; the next try is the same attempt and begins the same log.
        witnesses: who are asked to certify what the aggregator says, where the survey names some.
        go_on: called with the record of an attempt that goes on, unless it was restored, before
            anything is changed or anybody can connect. It may raise.
        resume: go on with the last attempt if it has begun and is not over. If there was none, the
            first one begins.
        without_missing: of an attempt whose record was restored: count out parties that may hold
            receipts of what it lacks and do not come back, or cannot say the same again. The record
            says so. Otherwise nothing is published without them.
        operation: whom to tell how it goes, and what may end it early.
    """

    transcript: Required[Path]
    taken: Callable[[Charter], object] | None
    begin: Callable[[Recorder], str] | None
    witnesses: Sequence[WitnessAt]
    go_on: Callable[[Recorder], object] | None
    resume: bool
    without_missing: bool
    operation: Operation | None


def aggregate_survey(
    member: Member,
    *,
    host: str,
    port: int,
    joining: float,
    listening: Callable[[str], object],
    publish: Callable[[Outcome[Variant]], object] | None = None,
    **opening: Unpack[Opening],
) -> Outcome[Variant]:
    """Wait for the parties over TLS, ask, publish, and record it all.

    A survey that is held once more is another attempt, once the one before is over. One that was
    interrupted goes on with ``resume``: in the same session and the same log.

    Args:
        member: the aggregator.
        host, port: where to listen.
        joining: how long to wait for parties to connect, in seconds.
        listening: called with the address once the aggregator listens.
        publish: called with the outcome while the transcript is still locked.
        opening: as ``Opening`` has it.

    Raises:
        UsageError: the folder is a party's, its files do not belong together, another program uses
            it, or the survey was begun too often; a real survey has its record in the transcript's
            place; or an attempt is not over, or with ``resume`` is.
        OSError: the address cannot be listened at, or the transcript cannot be written.
        ProtocolError: the survey failed, for example without a quorum.
        StoppedError: a signal has stopped it; nothing is lost.
    """
    with attempting(member, **opening) as attempt:
        held = functools.partial(
            hold, attempt, host=host, port=port, joining=joining, listening=listening
        )
        outcome = trio.run(held)
        if publish is not None:
            publish(outcome)
    return outcome


class Attempt(NamedTuple):
    """An attempt that is about to begin, or to go on.

    Args:
        member: the aggregator.
        charter: of this attempt.
        counter: of the attempts.
        transcript: the file for the transcript.
        record: the same while it grows.
        recorder: writes it; of an attempt that goes on, after ``take_up``.
        exchange: the rules of the hub, which has all recorded.
        operation: whom to tell how it goes, and what may end it early.
        first: the note of the first checkpoint with cosignatures, if it was asked for.
        past: what the record says already; None if the attempt begins.
        witnesses: who are asked to certify what the aggregator says.
        without_missing: whether a record that was restored goes on without parties that may hold
            receipts of what it lacks.
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
        """The aggregator's way to get messages from outside the session."""
        return certifying(
            self.charter, self.member.identity, self.witnesses, durable=commits.caught_up
        )

    @property
    def restored(self) -> bool:
        """Return whether the record goes on from an older copy."""
        return self.counter.restored or self.recorder.restored is not None

    def take_up(self) -> None:
        """Begin to write after what is on record already, if there is any.

        What a crash has left of a write is cut off.

        Raises:
            OSError: the record cannot be written.
        """
        if self.past is not None:
            self.record.cut()
            self.recorder.go_on()

    def say_restored(self) -> None:
        """Have the record say that it goes on from an older copy, if the folder was restored.

        Raises:
            OSError: the record cannot be written.
        """
        if self.counter.restored and not self.recorder.ended:
            self.recorder.restore(now=0.0 if self.past is None else self.past.at)
            self.recorder.flush()
            self.record.sync()
            self.counter.note_restored()

    def go_on_without(self, missing: Sequence[PartyId], now: float) -> None:
        """Have the record say that it goes on without parties that may hold receipts.

        Args:
            missing: the parties.
            now: seconds since the start.

        Raises:
            UsageError: that is not wanted; nothing is recorded.
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
        """Note that it has begun. Nobody is heard before.

        Raises:
            OSError: it cannot be noted; perhaps it is all the same, and the record stays.
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
    """An attempt that is about to begin or to go on; its files are locked while the block runs.

    It is over if the block ends well, or with an error that the record's last entry names.

    The arguments are those of ``Opening``, the errors those of ``aggregate_survey``.
    """
    check_aggregator(member)
    check_named(member.charter, witnesses)
    operation = operation or Operation()
    with counting(member.folder) as counter, ExitStack() as stack:
        last = counter.last
        if resume and last is not None and last.state == "over":
            _refuse_over(counter, last)
        if resume and last is not None and last.state == "begun":
            opened = _read_back(member, counter, last, transcript, operation)
        else:
            opened = _anew(member, counter, transcript, operation, taken, begin)
        with _giving_up():
            attempt = stack.enter_context(opened)._replace(witnesses=witnesses)
        attempt = attempt._replace(without_missing=without_missing)
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
            # If the record had its last entry before, that is of another error, or of none.
            if ending is None and attempt.recorder.ended:
                attempt.record.sync()
                counter.finish()
            raise
        counter.finish()


@contextmanager
def _anew(
    member: Member,
    counter: Counter,
    transcript: Path,
    operation: Operation,
    taken: Callable[[Charter], object] | None,
    begin: Callable[[Recorder], str] | None,
) -> Generator[Attempt]:
    """An attempt that is about to begin."""

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
        # Whoever goes on with the attempt finds its header.
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
def _read_back(
    member: Member, counter: Counter, last: Taken, transcript: Path, operation: Operation
) -> Generator[Attempt]:
    """The last attempt, which was interrupted; nothing is changed before ``take_up``.

    Raises:
        DamagedError: its record is damaged.
        UsageError: it is not there, is another one's, or another program is writing it.
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


class Carry(Protocol):
    """Connection between the members of an attempt."""

    async def __call__(
        self,
        attempt: Attempt,
        machine: Machine,
        unsaid: Sequence[Envelope] | None,
        commits: Commits,
    ) -> Mapping[PartyId, str]:
        """Carry the aggregator's machine to its end.

        Args:
            unsaid: of a machine that was started before, what it has said and nobody has sent yet.
            commits: of the record.

        Returns:
            Who has left before its last words, and why.
        """


async def hold(
    attempt: Attempt,
    *,
    host: str,
    port: int,
    joining: float,
    listening: Callable[[str], object],
) -> Outcome[Variant]:
    """Hold an attempt at a survey over TLS: the part of ``aggregate_survey`` that takes time.

    The arguments and errors are those of ``aggregate_survey``.
    """
    carry = functools.partial(
        _carry_by_links, host=host, port=port, joining=joining, listening=listening
    )
    return await hold_by(attempt, carry)


async def hold_by(attempt: Attempt, carry: Carry) -> Outcome[Variant]:
    """Hold an attempt at a survey, whatever its messages go over.

    Args:
        attempt: that is about to begin, or to go on.
        carry: how its members reach each other.

    Raises:
        OSError, ProtocolError, StoppedError: as ``aggregate_survey``.
    """
    charter, record, recorder = attempt.charter, attempt.record, attempt.recorder
    exchange, past = attempt.exchange, attempt.past
    started = time.perf_counter()
    streams = Streams(attempt.counter.stream_secret(), charter.session)
    machine = aggregator(charter, streams=streams, identity=attempt.member.identity)
    unsaid: list[Envelope] | None = None
    if past is not None and past.began is not None:
        unsaid = catch_up(machine, past, start=trio.current_time() - past.at)
    if past is not None:
        waiting = "" if past.began is None else "asking"
        note(attempt.member.folder, "resume", attempt=charter.attempt, wait=waiting)
    attempt.take_up()
    if past is not None and unsaid is not None:
        unsaid = past.close(unsaid)
    attempt.say_restored()
    lost: Mapping[PartyId, str] = {}
    if past is None or past.ending is None:
        commits = Commits(recorder, record.sync)
        # With any other error the attempt is interrupted, and may go on.
        with _keeping_older(attempt):
            async with recording(recorder, commits, final=lambda e: isinstance(e, ProtocolError)):
                lost = await carry(attempt, machine, unsaid, commits)
                published_result(machine)
    else:
        record.keep(attempt.first)
    result = published_result(machine)
    record.finish(recorder.checkpoint)
    departed = {**lost, **machine.departed}
    gone = {name: why for name, why in departed.items() if why != LINK_CLOSED}
    return Outcome(
        charter=charter,
        result=result,
        transcript=Transcript(attempt.transcript),
        digest=recorder.digest(),
        endings={name: gone.get(name, DONE) for name in charter.roster.parties},
        records=None,
        seed=None,
        transport="tls",
        messages=exchange.messages,
        bytes=exchange.bytes,
        seconds=time.perf_counter() - started,
    )


@contextmanager
def _keeping_older(attempt: Attempt) -> Generator[None]:
    """Keep what shows that the record lacks what was acknowledged, if that ends the block."""
    try:
        yield
    except OlderRecordError as error:
        own = error.own
        attempt.operation.progress.older(error.held.size, 0 if own is None else own.size)
        path = keep_older(attempt.member.folder, error.held, own)
        raise UsageError(
            f"{attempt.record.path}: {error}; what shows it is kept in {path}; {_OLDER}"
        ) from error


def _check_newest(attempt: Attempt) -> None:
    """Refuse to go on with a record of which a party has shown that it is older."""
    found, recorder = newer_in(attempt.member.folder, attempt.charter.session), attempt.recorder
    if found is None or attempt.counter.restored or recorder.shown_restored(found[1]) is not None:
        return
    if not recorder.extends(found[1]):
        raise UsageError(
            f"{attempt.record.path}: this record is older than what a party holds, by {found[0]}; "
            f"{_OLDER}"
        )


async def _carry_by_links(
    attempt: Attempt,
    machine: Machine,
    unsaid: Sequence[Envelope] | None,
    commits: Commits,
    *,
    host: str,
    port: int,
    joining: float,
    listening: Callable[[str], object],
) -> Mapping[PartyId, str]:
    """Have the parties join, or come back, and carry the aggregator to its end; as ``Carry``."""
    charter, exchange, past = attempt.charter, attempt.exchange, attempt.past
    operation = attempt.operation
    parties = charter.roster.parties
    allow_connections(len(charter.roster), strangers=Limits().unfinished)
    # Who is waited for so long may be away for so long.
    grace = min(joining, charter.variant.patience or joining)
    switch = Switch(exchange, Limits(idle=SILENCE), passed=0.0 if past is None else past.at)
    if past is not None:
        switch.hand_again(past.waiting.values())
        joining = max(joining - past.at, grace)
    opened = open_lasting(
        switch,
        attempt.member.identity,
        host=host,
        port=port,
        tls=tls_context(attempt.member.folder, server_context),
        trusted=operation.trusted,
        commits=commits,
        grace=grace,
    )
    restored = attempt.restored
    async with opened as (hub, bound):
        if past is not None:
            within = grace if past.began is not None else joining + grace
            hub.expect(past.handed, within=joining + 2 * grace if restored else within)
        attempt.begin()
        async with operation.opened(switch, hub, commits):
            listening(f"{host}:{bound}")
            if AGGREGATOR not in exchange.departed:
                async with hub.lead() as link:
                    channel: Channel = link
                    if restored:
                        operation.progress.joining(joining + grace)
                        without = attempt.go_on_without
                        await await_all(switch, hub, machine, without, joining + grace)
                        channel = Owing(link, switch, hub, without)
                    if unsaid is None:
                        async with operation.joining(switch, joining):
                            await hub.joined(parties, within=joining)
                    operation.progress.asking(machine)
                    async with running(functools.partial(_close_on_time, charter, switch, hub)):
                        outside = attempt.outside(commits)
                        await run_machine(machine, channel, unsaid=unsaid, outside=outside)
            with operation.lingering(LINGER):
                await hub.emptied()
            hub.give_up()
    return lost_in(exchange)


async def _close_on_time(charter: Charter, switch: Switch, hub: LastingHub) -> None:
    """Count out whoever has not answered when the survey closes, if that was agreed."""
    if charter.variant.survey.closing is not None:
        reason = await closed(charter)
        await hub.joined(charter.roster.parties, within=0.0, reason=reason)
        count_out(switch, charter.roster.parties, reason)


def lost_in(exchange: Exchange) -> Mapping[PartyId, str]:
    """Members that have left before their last words, with the reason."""
    left = exchange.departed.items()
    return {name: why for name, why in left if not exchange.has_ended(name)}


@contextmanager
def _giving_up() -> Generator[None]:
    """Say of a damaged record how its attempt can be given up."""
    try:
        yield
    except DamagedError as error:
        raise DamagedError(f"{error}; {_GIVING_UP}", error.path) from error


class Abandoned(NamedTuple):
    """An attempt that does not go on.

    Args:
        attempt: its number.
        ended: whose last words it has on record, in roster order: they may have been told that they
            are done. None if its record is lost or damaged.
        damaged: its record, if that is damaged: it stays as it is.
    """

    attempt: int
    ended: tuple[PartyId, ...] | None
    damaged: Path | None = None


def abandon_survey(member: Member, transcript: Path, *, lost: bool = False) -> Abandoned:
    """Declare that the attempt which was begun does not go on: in its record, signed.

    Args:
        member: the aggregator.
        transcript: the name that the attempt's transcript would have got.
        lost: if its record is not there or is damaged, the attempt ends without an entry that says
            so.

    Raises:
        UsageError: no attempt has begun, or it has ended well; or without ``lost`` its record is
            not there, or is damaged.
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
                with _giving_up():
                    ended = _close(member, counter, last, transcript)
            except DamagedError as error:
                if not lost:
                    raise
                damaged = error.path
        if ended is None:
            note(member.folder, "abandon --lost", attempt=last.attempt)
        counter.finish()
    return Abandoned(last.attempt, ended, damaged)


def _close(member: Member, counter: Counter, last: Taken, transcript: Path) -> tuple[PartyId, ...]:
    """Sign into the record of the last attempt that it does not go on.

    Returns:
        Whose last words it has, in roster order.
    """
    with _read_back(member, counter, last, transcript, Operation()) as attempt:
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
    """Make ready for ``attempting``: what an attempt that did not begin has left is removed.

    Args:
        transcript: the name that the attempt's transcript gets.
        resume: whether an attempt that is not over may go on.

    Returns:
        Whether one is to go on.

    Raises:
        UsageError: the folder is a party's; or an attempt is not over, or with ``resume`` is.
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
        partial = partial_path(transcript)
        # What is damaged is not known to be its own, and stays.
        if partial.is_file():
            with suppress(DamagedError), growing_again(transcript) as record:
                header = next(iter(Records(record.chunks())), b"")
                own = record_start(counter.secret())
                # A crash may leave zeros in the place of what was not synced.
                left = partial.read_bytes().rstrip(b"\0")[: len(own)]
                cut_short = not header and own.startswith(left)
                if cut_short or hashed(header) == last.header:
                    partial.unlink()
    return False


def _refuse_over(counter: Counter, last: Taken) -> NoReturn:
    """Refuse to go on with an attempt that is over; its secrets are erased, if they are there.

    Raises:
        UsageError: always.
        OSError: they cannot be erased.
    """
    counter.finish()
    raise UsageError(
        f"{counter.folder}: attempt {last.attempt} is over; without --resume, the next one begins"
    )


def check_aggregator(member: Member) -> None:
    """Make sure that a member is the aggregator.

    Raises:
        UsageError: it is a party.
    """
    if member.identity.name != AGGREGATOR:
        raise UsageError(f"{member.folder}: is {member.identity.name}'s, not the aggregator's")
