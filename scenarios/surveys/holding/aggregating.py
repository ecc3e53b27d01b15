"""The aggregator's side of a real survey, over TLS."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol, Unpack

import trio

from parties.actor import Channel, aggregator, run_machine
from parties.keeping.checkpoints import keep_older
from parties.keeping.members import Member
from parties.session import LINGER
from protocol.crypto.randomness import Streams
from protocol.errors import ProtocolError, UsageError
from protocol.messages import AGGREGATOR, DONE, LINK_CLOSED, Envelope, PartyId
from protocol.session.charter import Charter
from protocol.session.exchange import Exchange
from protocol.session.machine import Machine
from protocol.session.run import published_result
from protocol.session.variant import Variant
from protocol.transcript.resuming import catch_up
from scenarios.files.transcripts import Transcript
from scenarios.running.loopback import allow_connections
from scenarios.running.outcomes import Outcome
from scenarios.surveys.answering import SILENCE
from scenarios.surveys.holding.attempts import OLDER_HINT, Attempt, Opening, attempting
from scenarios.surveys.holding.closing import closed, count_out
from scenarios.surveys.holding.restored import Owing, await_all
from scenarios.surveys.members import tls_context
from scenarios.surveys.operating.by_hand import note
from transports.background import running
from transports.base import Limits
from transports.lasting.hub import LastingHub, open_lasting
from transports.lasting.older import OlderRecordError
from transports.records.commits import Commits
from transports.records.recording import recording
from transports.switch import Switch
from transports.tls import server_context


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
    """Hold a survey over TLS: wait for the parties, ask, record and publish.

    Holding a survey again makes a new attempt. With ``resume``, an interrupted attempt goes on in
    the same session and log.

    Args:
        host, port: the address to listen at.
        joining: seconds to wait for parties to connect.
        listening: called with the address once the aggregator listens.
        publish: called with the outcome while the transcript is still locked.
        opening: see ``Opening``.

    Raises:
        UsageError: the folder is a party's, its files do not belong together, or another program
            uses it; the survey was begun too often; the transcript's place is taken by another
            survey's record; the last attempt is not over, or with ``resume`` is over.
        OSError: the address cannot be listened at, or the transcript cannot be written.
        ProtocolError: the survey failed, for example without a quorum.
        StoppedError: a signal stopped the survey; nothing is lost.
    """
    with attempting(member, **opening) as attempt:
        held = functools.partial(
            hold, attempt, host=host, port=port, joining=joining, listening=listening
        )
        outcome = trio.run(held)
        if publish is not None:
            publish(outcome)
    return outcome


class Carry(Protocol):
    """Connection between the members of an attempt."""

    async def __call__(
        self,
        attempt: Attempt,
        machine: Machine,
        unsaid: Sequence[Envelope] | None,
        commits: Commits,
    ) -> Mapping[PartyId, str]:
        """Run the aggregator's machine to its end.

        Args:
            unsaid: messages that a resumed machine has made and not sent; None for a new machine.
            commits: tell when the record is durable.

        Returns:
            Members that left before their last message, with the reason.
        """


async def hold(
    attempt: Attempt,
    *,
    host: str,
    port: int,
    joining: float,
    listening: Callable[[str], object],
) -> Outcome[Variant]:
    """Hold an open attempt over TLS; arguments and errors as for ``aggregate_survey``."""
    carry = functools.partial(
        _carry_by_links, host=host, port=port, joining=joining, listening=listening
    )
    return await hold_by(attempt, carry)


async def hold_by(attempt: Attempt, carry: Carry) -> Outcome[Variant]:
    """Hold an open attempt over any connection.

    Args:
        attempt: new or resumed.
        carry: connects the members.

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
    attempt.record_restoration()
    lost: Mapping[PartyId, str] = {}
    if past is None or past.ending is None:
        commits = Commits(recorder, record.sync)
        # After any error but a ProtocolError the attempt can be resumed.
        with _keeping_proof_of_newer(attempt):
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
def _keeping_proof_of_newer(attempt: Attempt) -> Generator[None]:
    """Save a party's proof that the record is outdated, if that ends the block."""
    try:
        yield
    except OlderRecordError as error:
        own = error.own
        attempt.operation.progress.older(error.held.size, 0 if own is None else own.size)
        path = keep_older(attempt.member.folder, error.held, own)
        raise UsageError(
            f"{attempt.record.path}: {error}; what shows it is kept in {path}; {OLDER_HINT}"
        ) from error


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
    """Let the parties join or return, and run the aggregator to its end; see ``Carry``."""
    charter, exchange, past = attempt.charter, attempt.exchange, attempt.past
    operation = attempt.operation
    allow_connections(len(charter.roster), strangers=Limits().unfinished)
    # A party may stay away for as long as it is waited for.
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
                        channel = await _await_restored(
                            attempt, machine, link, switch, hub, within=joining + grace
                        )
                    if unsaid is None:
                        async with operation.joining(switch, joining):
                            await hub.joined(charter.roster.parties, within=joining)
                    operation.progress.asking(machine)
                    async with running(functools.partial(_close_on_time, charter, switch, hub)):
                        outside = attempt.outside(commits)
                        await run_machine(machine, channel, unsaid=unsaid, outside=outside)
            with operation.lingering(LINGER):
                await hub.emptied()
            hub.give_up()
    return lost_in(exchange)


async def _await_restored(
    attempt: Attempt,
    machine: Machine,
    link: Channel,
    switch: Switch,
    hub: LastingHub,
    *,
    within: float,
) -> Channel:
    """Wait for the parties of a restored record; return a link that leaves out none of them."""
    attempt.operation.progress.joining(within)
    await await_all(switch, hub, machine, attempt.go_on_without, within)
    return Owing(link, switch, hub, attempt.go_on_without)


async def _close_on_time(charter: Charter, switch: Switch, hub: LastingHub) -> None:
    """Count out whoever has not answered at the agreed closing time, if there is one."""
    if charter.variant.survey.closing is not None:
        reason = await closed(charter)
        await hub.joined(charter.roster.parties, within=0.0, reason=reason)
        count_out(switch, charter.roster.parties, reason)


def lost_in(exchange: Exchange) -> Mapping[PartyId, str]:
    """Members that left before their last message, with the reason."""
    left = exchange.departed.items()
    return {name: why for name, why in left if not exchange.has_ended(name)}
