"""The aggregator's side of a real survey, over TLS."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import trio

from parties.actor import run_aggregator
from parties.session import LINGER
from protocol.crypto.randomness import SECRET_BYTES, Streams
from protocol.messages import AGGREGATOR, DONE, LINK_CLOSED
from protocol.session.exchange import Exchange
from protocol.session.run import outcome_of
from protocol.transcript.header import header_of
from protocol.transcript.log import LOG_SECRET_BYTES
from protocol.transcript.recorder import Recorder
from scenarios.deployment.answering import SILENCE
from scenarios.deployment.members import LOG_SECRET, Member, own_secret, tls_context
from scenarios.errors import UsageError
from scenarios.files.kept_records import GrowingTranscript, growing
from scenarios.files.transcripts import Transcript
from scenarios.running.outcomes import Outcome
from scenarios.running.simulation import allow_connections, program
from transports.base import Limits
from transports.lasting.commits import Commits
from transports.recording import recording
from transports.switch import Switch
from transports.tcp import open_tcp
from transports.tls import server_context


def aggregate_survey(
    member: Member,
    *,
    host: str,
    port: int,
    transcript: Path,
    joining: float,
    listening: Callable[[str], object],
    begin: Callable[[Recorder], str] | None = None,
    publish: Callable[[Outcome], object] | None = None,
) -> Outcome:
    """Wait for the parties over TLS, ask, publish, and record it all.

    Args:
        member: the aggregator.
        host, port: where to listen.
        transcript: the file for the transcript.
        joining: how long to wait for parties to connect, in seconds.
        listening: called with the address once the aggregator listens.
        begin: called with the record of the header alone, before anybody can connect. It gives the
            note of the first checkpoint with cosignatures. If it raises, the survey does not begin
            and leaves nothing; the next try begins the same log.
        publish: called with the outcome while the transcript is still locked.

    Raises:
        UsageError: the folder is a party's, or its files do not belong together; or a real survey
            has its record in the transcript's place.
        OSError: the address cannot be listened at, or the transcript cannot be written.
        ProtocolError: the survey failed, for example without a quorum.
    """
    check_aggregator(member)
    charter = member.charter
    allow_connections(len(charter.roster))
    tls = tls_context(member.folder, server_context)
    # A party that is early is silent until the others have come or answered.
    silence = joining + (charter.variant.patience or SILENCE)
    limits = Limits(idle=max(Limits().idle, silence))
    started = time.perf_counter()

    async def held(record: GrowingTranscript, recorder: Recorder, first: str | None) -> Outcome:
        exchange = Exchange(charter, recorder=recorder)
        commits = Commits(recorder, record.sync)
        async with recording(recorder, commits):
            switch = Switch(exchange, limits, commits)
            opened = open_tcp(switch, member.identity, host=host, port=port, tls=tls)
            async with opened as (hub, bound):
                record.keep(first)
                (member.folder / LOG_SECRET).unlink(missing_ok=True)
                listening(f"{host}:{bound}")
                async with hub.connect(AGGREGATOR) as link:
                    await hub.joined(charter.roster.parties, within=joining)
                    streams = Streams(os.urandom(SECRET_BYTES), charter.session)
                    machine = await run_aggregator(
                        charter, link, streams=streams, identity=member.identity
                    )
                with trio.move_on_after(LINGER):
                    await hub.emptied()
            result = outcome_of(machine)
        record.finish(recorder.checkpoint)
        gone = {name: why for name, why in machine.departed.items() if why != LINK_CLOSED}
        return Outcome(
            charter=charter,
            result=result,
            transcript=Transcript(transcript),
            digest=recorder.digest(),
            endings={name: gone.get(name, DONE) for name in charter.roster.parties},
            records=None,
            seed=None,
            transport="tls",
            messages=exchange.messages,
            bytes=exchange.bytes,
            seconds=time.perf_counter() - started,
        )

    with growing(transcript) as record:
        header = header_of(charter, transport="tls", program=program())
        secret = os.urandom(LOG_SECRET_BYTES)
        if begin is not None:
            secret = own_secret(member.folder, LOG_SECRET)
        recorder = Recorder(record.write, header, signer=member.identity, secret=secret)
        first = None
        if begin is not None:
            record.sync()
            first = begin(recorder)
        outcome = trio.run(held, record, recorder, first)
        if publish is not None:
            publish(outcome)
    return outcome


def check_aggregator(member: Member) -> None:
    """Make sure that a member is the aggregator.

    Raises:
        UsageError: it is a party.
    """
    if member.identity.name != AGGREGATOR:
        raise UsageError(f"{member.folder}: is {member.identity.name}'s, not the aggregator's")
