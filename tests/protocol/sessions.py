"""Small sessions for the tests of the kernel, run locally or over memory; no tests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import trio
import trio.testing

from parties.session import run_session
from protocol.accounting.events import PrivacyEvent, Public
from protocol.audit.disclosure import Disclosure
from protocol.audit.ledger import LedgerWriter
from protocol.audit.replay import Replay, ReplayWriter
from protocol.audit.walk import steps
from protocol.crypto.randomness import Streams, secret_of, session_of
from protocol.messages import AGGREGATOR, ROLE_STREAM, Envelope, Head, Message, PartyId
from protocol.session.charter import Charter
from protocol.session.exchange import Exchange
from protocol.session.fates import FateRule, deliver_all
from protocol.session.local import run_locally
from protocol.session.machine import Machine
from protocol.session.roles import Me, Seen
from protocol.session.roster import Identity, Roster
from protocol.session.run import Run
from protocol.session.variant import Variant
from protocol.surveys.records import Records
from protocol.surveys.survey import Attribute, Survey
from protocol.transcript.entries import Entry
from protocol.transcript.header import header_of
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.recorder import Recorder
from protocol.transcript.verification import verify
from protocol.wire.arrays import Array, ArraySpec, Bounds
from protocol.wire.codec import Kind
from transports.memory import open_memory
from transports.switch import Switch

SURVEY = Survey(
    "habits",
    (
        Attribute(name="smokes", categories=("no", "yes")),
        Attribute(name="drinks", categories=("never", "seldom", "often")),
    ),
)
SECRET = secret_of(1)
SESSION = session_of(SECRET)
STREAMS = Streams(SECRET, SESSION)


class Word(Message, frozen=True):
    """A kind that one party sends another once."""

    text: str


class Turn(Message, frozen=True):
    """A kind that comes again and again."""

    round: int
    text: str


class Numbers(Message, frozen=True):
    """A kind with an array."""

    values: Array


Role = Callable[[Me], Awaitable[Message | None]]


async def silent(me: Me) -> None:
    """A role that says nothing."""


def talk(
    *,
    party: Role = silent,
    aggregator: Role = silent,
    event: PrivacyEvent | None = None,
) -> Variant:
    """A variant whose roles a test writes; ``event`` is what a party's words tell."""

    class Talk(Variant, frozen=True):
        name = "talk"

        def kinds(self, parties: int) -> tuple[Kind, ...]:
            values = ArraySpec(dtype="u2", shape=(Bounds(0, 1000),))
            return (Kind(Word), Kind(Turn), Kind(Numbers, values=values))

        async def party(self, me: Me, records: Records) -> Any:
            return await party(me)

        async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Any:
            return await aggregator(me)

        def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
            return event or Public()

    return Talk(survey=SURVEY)


def roster_of(parties: int) -> Roster:
    """The aggregator and ``party-1`` to ``party-n``."""
    names = (AGGREGATOR, *(PartyId(f"party-{i}") for i in range(1, parties + 1)))
    return Roster(tuple((name, _identity(name).public) for name in names))


def _identity(name: PartyId) -> Identity:
    return Identity(name, STREAMS.stream(name, "identity").bytes(32))


def identities_of(charter: Charter) -> dict[PartyId, Identity]:
    """Everybody's keys."""
    return {name: _identity(name) for name, _ in charter.roster.members}


def charter_of(variant: Variant, parties: int = 3) -> Charter:
    """The charter of a session of this many parties."""
    return Charter(session=SESSION, variant=variant, roster=roster_of(parties))


def answers(survey: Survey, respondents: int, seed: int = 5) -> Records:
    """Records that a test can have at no risk."""
    drawn = np.random.default_rng(seed).integers(0, survey.sizes, (respondents, len(survey.sizes)))
    return Records.from_codes(survey, drawn.astype(np.uint8))


def machine_of(
    charter: Charter,
    me: str,
    *,
    budget: float | None = None,
) -> Machine:
    """A machine of a member; a party holds one record."""
    name = PartyId(me)
    records = None if name == AGGREGATOR else answers(charter.variant.survey, 1)
    stream = STREAMS.stream(name, ROLE_STREAM)
    return Machine(charter, name, stream, records=records, identity=_identity(name), budget=budget)


def words_of(machine: Machine) -> list[Envelope]:
    """What a machine has to say, without the head that signs it."""
    return [item for item in machine.take() if item.kind != Head.kind()]


def envelope(
    charter: Charter,
    sender: str,
    seq: int,
    message: Message,
    *,
    to: str = AGGREGATOR,
) -> Envelope:
    """A message under way."""
    body = charter.codec.encode(message)
    return Envelope(charter.session, PartyId(sender), PartyId(to), seq, message.kind(), body)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run, its canonical digest and its transcript."""

    charter: Charter
    run: Run
    digest: bytes
    file: bytes

    def entries(self) -> list[Entry]:
        """The transcript's entries; the transcript is intact."""
        assert verify(self.file).intact
        return list(TranscriptReader(self.file))

    def ledgers(self, *observers: PartyId) -> LedgerWriter:
        """The ledgers of these observers."""
        writer = LedgerWriter(self.charter, observers)
        for step in steps(self.charter.codec, self.entries()):
            writer.add(step)
        return writer

    def follows(self) -> bool | None:
        """Whether the result follows from what the transcript says the aggregator heard."""
        known = Disclosure(member=AGGREGATOR)
        return replay_member(self.charter, known, self.entries()).follows


def replay_member(charter: Charter, known: Disclosure, entries: Iterable[Entry]) -> Replay:
    """A member's replay by itself."""
    replays = ReplayWriter(charter, [known])
    for step in steps(charter.codec, entries):
        replays.add(step)
    return replays.replays()[known.member]


def holdings_of(charter: Charter, records: Records) -> dict[PartyId, Records]:
    """Records dealt out evenly."""
    parties = charter.roster.parties
    return dict(zip(parties, records.split(len(parties)), strict=True))


def locally(
    charter: Charter,
    holdings: Mapping[PartyId, Records],
    *,
    fate: FateRule = deliver_all,
    budget: float | None = None,
) -> Outcome:
    """Run a session in the local executor."""
    parts: list[bytes] = []
    recorder = Recorder(parts.append, header_of(charter, seed=1))
    exchange = Exchange(charter, recorder=recorder, fate=fate)
    run = run_locally(exchange, STREAMS, holdings, identities=identities_of(charter), budget=budget)
    return Outcome(charter, run, recorder.close(), b"".join(parts))


def over_memory(
    charter: Charter,
    holdings: Mapping[PartyId, Records],
    *,
    fate: FateRule = deliver_all,
    budget: float | None = None,
) -> Outcome:
    """Run a session as trio tasks over the memory transport, on a clock that jumps."""
    parts: list[bytes] = []
    recorder = Recorder(parts.append, header_of(charter, seed=1))

    async def session() -> Run:
        switch = Switch(Exchange(charter, recorder=recorder, fate=fate))
        async with open_memory(switch) as hub:
            return await run_session(
                charter, hub, STREAMS, holdings, identities=identities_of(charter), budget=budget
            )

    run = trio.run(session, clock=trio.testing.MockClock(autojump_threshold=0))
    return Outcome(charter, run, recorder.close(), b"".join(parts))


def everywhere(
    charter: Charter, holdings: Mapping[PartyId, Records], *, fate: FateRule = deliver_all
) -> Outcome:
    """Run locally and over memory: result and digest are the same."""
    local = locally(charter, holdings, fate=fate)
    memory = over_memory(charter, holdings, fate=fate)
    assert memory.digest == local.digest
    assert charter.codec.encode(memory.run.result) == charter.codec.encode(local.run.result)
    return local
