"""A survey that is held over HTTP by the true gateway, in a thread, for tests of its page."""

from __future__ import annotations

import base64
import functools
import threading
from types import TracebackType

import msgspec
import trio

from parties.actor import aggregator, run_machine
from parties.keeping.packing import Unpacked
from protocol import AGGREGATOR, Attribute, PartyId, Survey, Variant
from protocol.audit.proofs.making_receipts import NotCountedError, prove_each
from protocol.crypto.randomness import Streams
from protocol.session.exchange import Exchange
from protocol.simulation.setting import make_setting
from protocol.surveys.texts import Group, Texts, Wording
from protocol.transcript.header import make_header
from protocol.transcript.receipts import encode_receipt
from protocol.transcript.recorder import Recorder
from protocol.variants import RRIndependent
from scenarios.report.page.collecting import collecting_page
from tests.recorded.runs import answers
from transports.background import running
from transports.memory import MemoryLink
from transports.records.commits import Commits
from transports.records.recording import recording
from transports.switch import Switch
from transports.web import http
from transports.web.gateway import LIMITS, Gateway, OnRecord, Page

CLOSES = "2026-12-15T18:00:00Z"
ENGLISH = Texts(
    language="en",
    title="Working here",
    asks="The works council",
    consent="Taking part is up to you.\nNobody is told by the management.",
    contact="council@example.org",
    questions=(
        Wording(
            attribute="leave",
            ask="Are you thinking of leaving within a year?",
            help="Whatever the reason.",
            labels=("No", "Yes", "I would rather not say"),
        ),
        Wording(attribute="noise", ask="Loud places"),
        Wording(attribute="shifts", ask="Shifts at night"),
    ),
    groups=(Group(attributes=("noise", "shifts"), ask="What bothers you?"),),
)
ARABIC = Texts(
    language="ar",
    title="العمل هنا",
    asks="مجلس العمال",
    consent="المشاركة اختيارية.",
    contact="council@example.org",
    questions=(
        Wording(
            attribute="leave",
            ask="هل تفكر في المغادرة خلال سنة؟",
            help="أيًا كان السبب.",
            labels=("لا", "نعم", "أفضل ألا أقول"),
        ),
        Wording(attribute="noise", ask="أماكن صاخبة"),
        Wording(attribute="shifts", ask="نوبات ليلية"),
    ),
    groups=(Group(attributes=("noise", "shifts"), ask="ما الذي يزعجك؟"),),
)
SURVEY = Survey(
    "work",
    (
        Attribute(name="leave", categories=("no", "yes", "no answer")),
        Attribute(name="noise", categories=("no", "yes")),
        Attribute(name="shifts", categories=("no", "yes")),
    ),
    (ENGLISH, ARABIC),
    CLOSES,
)
VARIANT = RRIndependent.with_keep(SURVEY, 0.55)


class Held:
    """A survey, served while the block runs.

    Args:
        variant: how it is asked.
        people: how many places there are.
        attempt: at the survey.

    Attributes:
        address: of the page, once the block runs.
        said: what is on record of places.
    """

    def __init__(self, variant: Variant = VARIANT, *, people: int = 4, attempt: int = 1) -> None:
        self.setting = make_setting(variant, answers(variant.survey, people), seed=1)
        self.charter = self.setting.charter.again(attempt)
        self.said = OnRecord(self.charter.roster.parties)
        self.address = ""
        self._content = bytearray()
        self._ready, self._closed = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._hold,))

    def __enter__(self) -> Held:
        self._thread.start()
        assert self._ready.wait(10.0)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        trio.from_thread.run_sync(self._closing.set, trio_token=self._token)
        trio.from_thread.run_sync(self._leaving.set, trio_token=self._token)
        self._thread.join()

    def link(self, place: int = 1) -> str:
        """The link of a place: an address with a fragment."""
        name = self.party(place)
        secret = self.setting.identities[name]._secret  # as a link has it
        parts = (name, _spelled(secret), _spelled(self.charter.survey_id))
        return f"{self.address}#{'.'.join(parts)}"

    def party(self, place: int = 1) -> PartyId:
        """The id of a place."""
        return self.charter.roster.members[place][0]

    def close(self) -> None:
        """Close the survey; receipts are ready when this returns."""
        trio.from_thread.run_sync(self._closing.set, trio_token=self._token)
        assert self._closed.wait(10.0)

    async def _hold(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._closing, self._leaving = trio.Event(), trio.Event()
        charter, signer = self.charter, self.setting.identities[AGGREGATOR]
        recorder = Recorder(
            self._content.extend,
            make_header(charter, transport="tls", program="test"),
            signer=signer,
            secret=bytes(32),
            acknowledging=True,
            watch=self.said.take,
        )
        gateway = Gateway(charter, self.said, Page(*collecting_page()))
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.address = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/"
        serve = functools.partial(
            http.serve, listeners, gateway.paths, LIMITS, early=gateway.early, refused=gateway.fail
        )
        async with running(serve):
            await self._ask(gateway, recorder)
            parties = charter.roster.parties
            proved, last = prove_each(self.record, type(charter.variant), parties)
            gateway.receipts = {
                name: (encode_receipt(found), last.note)
                for name, found in proved
                if not isinstance(found, NotCountedError)
            }
            self._closed.set()
            await self._leaving.wait()

    async def _ask(self, gateway: Gateway, recorder: Recorder) -> None:
        """Ask everybody, and take answers until the survey is closed."""
        charter, signer = self.charter, self.setting.identities[AGGREGATOR]
        commits = Commits(recorder, lambda: None)
        switch = Switch(Exchange(charter, recorder=recorder))
        streams = Streams(bytes(32), charter.session)
        machine = aggregator(charter, streams=streams, identity=signer)

        async def ask() -> None:
            link = MemoryLink(switch, AGGREGATOR)
            await run_machine(machine, link)
            link.close()

        first = recorder.checkpoint
        async with recording(recorder, commits), trio.open_nursery() as nursery:
            gateway.open(switch, commits, None if first is None else first.note)
            nursery.start_soon(ask)
            while len(self.said.questions) < len(charter.roster.parties):  # noqa: ASYNC110
                await trio.sleep(0.001)
            self._ready.set()
            await self._closing.wait()
            for name in charter.roster.parties:
                if name not in switch.exchange.departed:
                    switch.detach(name, "never came")
        gateway.close()

    def record(self) -> Unpacked:
        """The record so far."""
        return Unpacked(bytes(self._content))


def without_words(variant: Variant = VARIANT) -> Variant:
    """The variant for a survey that is worded in no language."""
    survey = msgspec.structs.replace(variant.survey, texts=(), closes="")
    return msgspec.structs.replace(variant, survey=survey)


def _spelled(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
