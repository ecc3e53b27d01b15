"""The aggregator's side of a survey that people answer from a page, until it closes."""

from __future__ import annotations

import functools
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import trio

from parties.actor import run_machine
from parties.keeping.attempts import counting
from parties.keeping.members import Member
from parties.keeping.places import (
    Withdrawal,
    linked,
    replaced_by,
    spares,
    unused_spares,
    withdrawals,
)
from parties.session import LINGER
from protocol.audit.proofs.making_receipts import NotCountedError
from protocol.errors import UsageError
from protocol.messages import AGGREGATOR, OUT_OF_TIME, WITHDRAWN, Envelope, PartyId
from protocol.session.charter import Charter
from protocol.session.machine import Machine
from protocol.session.variant import Variant
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.receipts import encode_receipt
from protocol.transcript.recorder import Recorder
from scenarios.errors import say
from scenarios.files.transcripts import Transcript
from scenarios.running.loopback import allow_connections
from scenarios.running.outcomes import Outcome
from scenarios.surveys.aggregating import Attempt, attempting, check_aggregator, hold_by, lost_in
from scenarios.surveys.answering import SILENCE
from scenarios.surveys.closing import closed, count_out, seconds_left
from scenarios.surveys.members import tls_context
from scenarios.surveys.operating.operation import Operation
from scenarios.surveys.operating.signals import heeding
from scenarios.wording.formatting import some
from transports.background import running
from transports.base import Limits
from transports.lasting.hub import STAYED_AWAY, LastingHub, open_lasting
from transports.memory import MemoryLink
from transports.records.commits import Commits
from transports.switch import Switch
from transports.tls import public_context, server_context
from transports.web import http
from transports.web.gateway import LIMITS, Gateway, OnRecord, Page

GRAIN = 60.0
"""To how many seconds the times on record are rounded up."""

SPARE = f"{WITHDRAWN}: a spare link that was not handed out"
"""Why a place is gone that has not answered when the survey closes."""

_NAMED = 20  # How many parties are named.
_RENEWED = 60.0  # Seconds between two looks at the certificate.
_PATIENCE = 60.0  # Seconds until what could not be read is tried again.
_LOOK = 1.0  # Seconds between two looks at what the organiser withdraws.
_PARTING = 1.0  # Seconds for acknowledgements that are under way when the survey has ended.


class Serving(NamedTuple):
    """Place and manner of serving the page.

    Args:
        host, port: where to listen; port 0 takes a free one.
        certificate, key: files in PEM, for HTTPS; they are read again when they change. Without
            them, only this machine can connect: a proxy that runs on it, say.
        proxied: whether a proxy says whose each request is (X-Forwarded-For).
    """

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None
    proxied: bool = False

    def context(self) -> ssl.SSLContext | None:
        """Read the certificate, if there is one: the context for HTTPS.

        Raises:
            UsageError: the files do not belong together.
        """
        if self.certificate is None:
            return None
        context = public_context()
        self._load(context)
        return context

    @asynccontextmanager
    async def served(self, gateway: Gateway) -> AsyncGenerator[str]:
        """Serve the gateway while the block runs.

        Yields:
            The address: ``https://HOST:PORT/``.

        Raises:
            OSError: it cannot be listened at.
            UsageError: as ``context``.
        """
        tls = self.context()
        allow_connections(LIMITS.connections)
        listeners = await trio.open_tcp_listeners(self.port, host=self.host)
        answer = functools.partial(
            http.serve,
            listeners,
            gateway.paths,
            LIMITS,
            tls=tls,
            early=gateway.early,
            refused=gateway.fail,
        )
        tasks: list[Callable[[], Awaitable[object]]] = [answer]
        if tls is not None:
            tasks.append(functools.partial(self._renew, tls))
        port = listeners[0].socket.getsockname()[1]
        host = f"[{self.host}]" if ":" in self.host else self.host
        async with running(*tasks):
            yield f"{'http' if tls is None else 'https'}://{host}:{port}/"

    async def _renew(self, context: ssl.SSLContext) -> None:
        """Read the certificate again whenever its file has changed, until cancelled."""
        assert self.certificate is not None, "there is one to renew"
        files = [file for file in (self.certificate, self.key) if file is not None]
        read = [file.stat().st_mtime_ns for file in files]
        while True:
            await trio.sleep(_RENEWED)
            try:
                found = [file.stat().st_mtime_ns for file in files]
                if found != read:
                    self._load(context)
                    say(f"{self.certificate}: read again")
                read = found
            except (OSError, UsageError) as error:
                say(f"{error}; the one before stays in use")

    def _load(self, context: ssl.SSLContext) -> None:
        assert self.certificate is not None, "there is one to load"
        try:
            # A certificate that its key does not fit would take the place of one that does.
            for each in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), context):
                # Nobody may be there to type a password.
                each.load_cert_chain(self.certificate, self.key, password="")
        except OSError as error:
            what = f"{self.certificate} and its key"
            raise UsageError(f"{what}: expected a certificate and its key: {error}") from error


def check_collected(member: Member) -> None:
    """Make sure that a member is the aggregator of a survey with links.

    Raises:
        UsageError: it is not.
    """
    check_aggregator(member)
    if not linked(member.charter):
        raise UsageError(
            f"{member.folder}: nobody has a link to this survey; 'sottovoce links' makes them, and "
            "'sottovoce aggregate' holds this one"
        )


def check_answerable(member: Member, parties: tuple[str, int] | None) -> None:
    """Make sure that everybody can answer: by links until the survey closes, and by folders.

    Args:
        parties: as of ``collect_survey``.

    Raises:
        UsageError: ordinary parties have nowhere to connect, or no attempt has begun before the
            survey closed; or another program is at it.
        OSError: its attempts cannot be read.
    """
    charter = member.charter
    places = frozenset(linked(charter))
    others = [name for name in charter.roster.parties if name not in places]
    if others and parties is None:
        raise UsageError(
            f"expected --parties HOST:PORT, where those connect who have no link: "
            f"{some(others, len(others), _NAMED)}"
        )
    with counting(member.folder) as counter:
        begun = counter.last is not None and counter.last.state == "begun"
    if not begun and (seconds_left(charter) or 1.0) <= 0:
        raise UsageError(
            f"{member.folder}: the survey closed at {charter.variant.survey.closes}, as everybody "
            "was told: nobody can answer it any more"
        )


def is_over(member: Member) -> bool:
    """Return whether the last attempt that the aggregator has begun is over.

    Raises:
        UsageError: another program is at it.
        OSError: its attempts cannot be read.
    """
    with counting(member.folder) as counter:
        return counter.last is not None and counter.last.state == "over"


def collect_survey(
    member: Member,
    *,
    page: Page,
    serving: Serving,
    parties: tuple[str, int] | None,
    transcript: Path,
    listening: Callable[[str], object],
    taken: Callable[[Charter], object] | None = None,
    begin: Callable[[Recorder], str] | None = None,
    publish: Callable[[Outcome[Variant]], object] | None = None,
    resume: bool = False,
    operation: Operation | None = None,
) -> Outcome[Variant]:
    """Ask everybody, take what comes until the survey closes, publish, and record it all.

    Args:
        page: what browsers are served.
        serving: where.
        parties: where ordinary parties connect over TLS, if there are any.
        listening: called with the page's address, and that for parties if there are any.

    All else is as for ``aggregate_survey``.
    """
    check_collected(member)
    serving.context()  # What does not fit is said before anything begins.
    operation = operation or Operation()
    said = OnRecord(linked(member.charter))
    operation.follow_too(said.take)
    opened = attempting(
        member,
        transcript=transcript,
        taken=taken,
        begin=begin,
        resume=resume,
        operation=operation,
    )
    with opened as attempt:
        gateway = Gateway(attempt.charter, said, page, proxied=serving.proxied)
        collecting = _Collecting(attempt, said, gateway, serving, parties, listening)
        outcome = trio.run(hold_by, attempt, collecting.carry)
        if publish is not None:
            publish(outcome)
    return outcome


class _Collecting:
    """An attempt whose places answer over HTTP, until it closes."""

    def __init__(
        self,
        attempt: Attempt,
        said: OnRecord,
        gateway: Gateway,
        serving: Serving,
        parties: tuple[str, int] | None,
        listening: Callable[[str], object],
    ) -> None:
        self._attempt = attempt
        self._gateway = gateway
        self._said = said
        self._serving = serving
        self._parties = parties
        self._listening = listening
        self._places = linked(attempt.charter)
        places = frozenset(self._places)
        parties_of = attempt.charter.roster.parties
        self._others = tuple(name for name in parties_of if name not in places)
        self._early = trio.Event()
        self._spares = spares(attempt.member.folder)
        self._taken_back: Sequence[Withdrawal] = ()
        self._hub: LastingHub | None = None

    async def carry(
        self,
        attempt: Attempt,
        machine: Machine,
        unsaid: Sequence[Envelope] | None,
        commits: Commits,
    ) -> Mapping[PartyId, str]:
        """Carry the aggregator's machine to its end; as ``Carry``."""
        exchange, past, operation = attempt.exchange, attempt.past, attempt.operation
        allow_connections(LIMITS.connections + len(self._others))
        passed = 0.0 if past is None else past.at
        switch = Switch(exchange, Limits(idle=SILENCE), passed=passed, grain=GRAIN)
        if past is not None:
            switch.hand_again(past.waiting.values())
        async with AsyncExitStack() as stack:
            address = await self._open_to_parties(stack, switch, commits)
            # Until it is opened, the gateway asks for patience.
            page = await stack.enter_async_context(self._serving.served(self._gateway))
            attempt.begin()
            first = attempt.recorder.checkpoint
            self._gateway.open(switch, commits, None if first is None else first.note)
            refusing = self._gateway if self._hub is None else self._hub
            await stack.enter_async_context(operation.opened(switch, refusing, commits))
            self._listening(page if address is None else f"{page}, and {address} for parties")
            if AGGREGATOR not in exchange.departed:
                operation.progress.asking(machine)
                watching = functools.partial(self._close, switch)
                withdrawing = functools.partial(self._withdraw, switch)
                async with operation.closing(self._early.set), running(watching, withdrawing):
                    link = MemoryLink(switch, AGGREGATOR)
                    await run_machine(machine, link, unsaid=unsaid)
                    link.close()
            self._gateway.close()
            with operation.lingering(LINGER):
                await commits.caught_up()
                await trio.sleep(_PARTING)
                if self._hub is not None:
                    await self._hub.emptied()
            if self._hub is not None:
                self._hub.give_up()
        return lost_in(exchange)

    async def _open_to_parties(
        self, stack: AsyncExitStack, switch: Switch, commits: Commits
    ) -> str | None:
        """Let ordinary parties connect over TLS, if there are any; the address."""
        attempt, past = self._attempt, self._attempt.past
        if self._parties is None:
            return None
        host, port = self._parties
        grace = max(seconds_left(attempt.charter) or 0.0, LINGER)
        opened = open_lasting(
            switch,
            attempt.member.identity,
            host=host,
            port=port,
            tls=tls_context(attempt.member.folder, server_context),
            commits=commits,
            grace=grace,
        )
        hub, bound = await stack.enter_async_context(opened)
        # One count for both ways in.
        self._gateway.refused = hub.refused
        if past is not None:
            handed = {name: past.handed[name] for name in self._others}
            hub.expect(handed, within=grace)
        self._hub = hub
        return f"{host}:{bound}"

    async def _close(self, switch: Switch) -> None:
        """Once the survey closes, count out who has not answered."""
        reason = await closed(self._attempt.charter, self._early)
        with suppress(OSError, UsageError):  # It was said.
            self._take_back(switch)
        unused = frozenset(unused_spares(self._spares, self._taken_back))
        spare = SPARE if reason == OUT_OF_TIME else f"{SPARE}; {reason}"
        # A report without its head is counted all the same.
        count_out(switch, list(self._said.answers), STAYED_AWAY)
        count_out(switch, unused, spare)
        count_out(switch, self._places, reason)
        if self._hub is not None:
            await self._hub.joined(self._others, within=0.0, reason=reason)
            await trio.sleep(LINGER)
        count_out(switch, self._others, reason)

    async def _withdraw(self, switch: Switch) -> None:
        """Count out places that the organiser withdraws, until cancelled."""
        while True:
            try:
                self._take_back(switch)
            except (OSError, UsageError) as error:
                say(f"{error}; nobody is withdrawn until that is mended")
                await trio.sleep(_PATIENCE)
            await trio.sleep(_LOOK)

    def _take_back(self, switch: Switch) -> None:
        """Count out the places that the organiser has withdrawn since this was done last."""
        found, departed = withdrawals(self._attempt.member.folder), switch.exchange.departed
        for each in found[len(self._taken_back) :]:
            if each.place in self._said.answered:
                say(f"{each.place} has answered, and is not withdrawn")
            elif each.place not in departed:
                reason = f"{WITHDRAWN}: {each.reason}" if each.reason else WITHDRAWN
                switch.detach(each.place, reason)
            answered = [name for name in replaced_by(each, found) if name in self._said.answered]
            if each.instead is None or not answered:
                continue
            if each.instead in self._said.answered:
                say(f"{each.instead} has answered, and {answered[0]} too: both count")
            elif each.instead not in departed:
                say(f"{each.instead} takes no answer, for {answered[0]} has answered")
                switch.detach(each.instead, f"{WITHDRAWN}: {answered[0]} has answered")
        self._taken_back = found


def serve_receipts(
    member: Member,
    *,
    page: Page,
    serving: Serving,
    transcript: Path,
    listening: Callable[[str], object],
) -> None:
    """Show places whether they were counted, after the end, until a signal comes.

    Args:
        transcript: of an attempt at the member's survey that has ended.
        listening: called with the page's address, and how many receipts there are.

    Raises:
        StoppedError: a signal came.
        UsageError: the transcript is of another survey.
        OSError: it cannot be read, or the address cannot be listened at.
        ProtocolError: the record proves nothing.
    """
    check_collected(member)
    opened, said = Transcript(transcript), OnRecord(linked(member.charter))
    reader = TranscriptReader(opened.chunks())
    charter = member.charter.again(reader.header.attempt)
    if charter.session != reader.header.session:
        raise UsageError(f"{transcript}: is not of the survey of {member.folder}")
    for entry in reader:
        said.take(entry)
    proved, covering = opened.prove_each(type(charter.variant), sorted(said.answered))
    gateway = Gateway(charter, said, page, proxied=serving.proxied)
    gateway.receipts = {
        name: (encode_receipt(found), covering.note)
        for name, found in proved
        if not isinstance(found, NotCountedError)
    }
    gateway.close(covering.note)

    async def serve() -> None:
        async with serving.served(gateway) as where:
            listening(f"{where}, with {len(gateway.receipts):,} receipts")
            await trio.sleep_forever()

    trio.run(heeding, serve)
