"""The aggregator's side of a real survey, over TLS."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import trio

from parties.actor import aggregator, run_machine
from parties.session import LINGER
from protocol.crypto.randomness import SECRET_BYTES, Streams
from protocol.messages import AGGREGATOR, DONE, LINK_CLOSED
from protocol.session.charter import Charter
from protocol.session.exchange import Exchange
from protocol.session.run import outcome_of
from protocol.transcript.entries import Header, encode_header
from protocol.transcript.header import header_of
from protocol.transcript.recorder import Recorder
from scenarios.deployment.answering import SILENCE
from scenarios.deployment.attempts import Counter, counting
from scenarios.deployment.members import Member, tls_context
from scenarios.errors import UsageError
from scenarios.files.kept_records import GrowingTranscript, growing
from scenarios.files.transcripts import Transcript
from scenarios.operation.operation import Operation
from scenarios.running.outcomes import Outcome
from scenarios.running.simulation import allow_connections, program
from transports.base import Limits
from transports.lasting.hub import open_lasting
from transports.records.commits import Commits
from transports.records.recording import recording
from transports.switch import Switch
from transports.tls import server_context


def aggregate_survey(
    member: Member,
    *,
    host: str,
    port: int,
    transcript: Path,
    joining: float,
    listening: Callable[[str], object],
    taken: Callable[[Charter], object] | None = None,
    begin: Callable[[Recorder], str] | None = None,
    publish: Callable[[Outcome], object] | None = None,
    operation: Operation | None = None,
) -> Outcome:
    """Wait for the parties over TLS, ask, publish, and record it all.

    A survey that has begun and is held once more is another attempt, whatever became of the first.

    Args:
        member: the aggregator.
        host, port: where to listen.
        transcript: the file for the transcript.
        joining: how long to wait for parties to connect, in seconds.
        listening: called with the address once the aggregator listens.
        taken: called with the charter of this attempt, before anything of it is signed.
        begin: called with the record of the header alone, before anybody can connect. It gives the
            note of the first checkpoint with cosignatures. If it raises, the survey does not begin
            and leaves nothing; the next try is the same attempt and begins the same log.
        publish: called with the outcome while the transcript is still locked.
        operation: whom to tell how it goes, and what may end it early.

    Raises:
        UsageError: the folder is a party's, its files do not belong together, another program uses
            it, or the survey was begun too often; or a real survey has its record in the
            transcript's place.
        OSError: the address cannot be listened at, or the transcript cannot be written.
        ProtocolError: the survey failed, for example without a quorum.
        StoppedError: a signal has stopped it; nothing is lost.
    """
    with attempting(member, transcript=transcript, taken=taken, begin=begin) as attempt:
        held = functools.partial(
            hold,
            attempt,
            host=host,
            port=port,
            joining=joining,
            listening=listening,
            operation=operation,
        )
        outcome = trio.run(held)
        if publish is not None:
            publish(outcome)
    return outcome


class Attempt(NamedTuple):
    """An attempt that is about to begin.

    Args:
        member: the aggregator.
        charter: of this attempt.
        counter: of the attempts.
        transcript: the file for the transcript.
        record: the same while it grows.
        recorder: writes it.
        first: the note of the first checkpoint with cosignatures, if it was asked for.
    """

    member: Member
    charter: Charter
    counter: Counter
    transcript: Path
    record: GrowingTranscript
    recorder: Recorder
    first: str | None


@contextmanager
def attempting(
    member: Member,
    *,
    transcript: Path,
    taken: Callable[[Charter], object] | None = None,
    begin: Callable[[Recorder], str] | None = None,
) -> Generator[Attempt]:
    """An attempt that is about to begin; its files are locked while the block runs.

    The arguments and errors are those of ``aggregate_survey``.
    """
    check_aggregator(member)

    def header(number: int) -> Header:
        return header_of(member.charter.again(number), transport="tls", program=program())

    with counting(member.folder) as counter, growing(transcript) as record:
        number = counter.take(lambda number: encode_header(header(number)))
        charter = member.charter.again(number)
        if taken is not None:
            taken(charter)
        recorder = Recorder(
            record.write,
            header(number),
            signer=member.identity,
            secret=counter.secret(),
            acknowledging=True,
        )
        first = None
        if begin is not None:
            record.sync()
            first = begin(recorder)
        yield Attempt(member, charter, counter, transcript, record, recorder, first)


async def hold(
    attempt: Attempt,
    *,
    host: str,
    port: int,
    joining: float,
    listening: Callable[[str], object],
    operation: Operation | None = None,
) -> Outcome:
    """Hold an attempt at a survey: the part of ``aggregate_survey`` that takes time.

    The arguments and errors are those of ``aggregate_survey``.
    """
    member, charter, record, recorder = (
        attempt.member,
        attempt.charter,
        attempt.record,
        attempt.recorder,
    )
    allow_connections(len(charter.roster))
    tls = tls_context(member.folder, server_context)
    # Who is waited for so long may be away for so long.
    grace = min(joining, charter.variant.patience or joining)
    started = time.perf_counter()
    operated = operation or Operation()
    progress = operated.progress
    exchange = Exchange(charter, recorder=progress.over(recorder, charter))
    commits = Commits(recorder, record.sync)
    switch = Switch(exchange, Limits(idle=SILENCE))
    async with recording(recorder, commits, begun=lambda: record.kept and not switch.halted):
        opened = open_lasting(
            switch,
            member.identity,
            host=host,
            port=port,
            tls=tls,
            commits=commits,
            grace=grace,
        )
        async with opened as (hub, bound):
            # Nobody is heard before both are on disk.
            attempt.counter.begin()
            record.keep(attempt.first)
            async with operated.opened(switch, hub, commits):
                listening(f"{host}:{bound}")
                async with hub.connect(AGGREGATOR) as link:
                    async with operated.joining(switch, joining):
                        await hub.joined(charter.roster.parties, within=joining)
                    streams = Streams(os.urandom(SECRET_BYTES), charter.session)
                    machine = aggregator(charter, streams=streams, identity=member.identity)
                    progress.asking(machine)
                    await run_machine(machine, link)
                lost = hub.give_up()
                with operated.lingering(LINGER):
                    await hub.emptied()
        result = outcome_of(machine)
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


def check_aggregator(member: Member) -> None:
    """Make sure that a member is the aggregator.

    Raises:
        UsageError: it is a party.
    """
    if member.identity.name != AGGREGATOR:
        raise UsageError(f"{member.folder}: is {member.identity.name}'s, not the aggregator's")
