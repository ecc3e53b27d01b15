"""Small sessions for the tests of the kernel, run locally or over memory; no tests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from protocol import (
    AGGREGATOR,
    Array,
    ArraySpec,
    Bounds,
    Kind,
    Me,
    Message,
    PartyId,
    PrivacyEvent,
    Public,
    Records,
    Seen,
    Variant,
    secret_of,
)
from protocol.accounting.spending import DELTA
from protocol.crypto.randomness import Streams, public_nonce
from protocol.messages import ROLE_STREAM, Envelope, Head
from protocol.session.charter import Charter
from protocol.session.machine import Machine
from protocol.session.roster import Identity, Roster
from protocol.simulation.setting import Setting
from protocol.transcript.verification import verify
from tests.live import run_over_memory
from tests.recorded.runs import SURVEY, Run, answers

SECRET = secret_of(1)
NONCE = public_nonce(SECRET)
STREAMS = Streams(SECRET, NONCE)


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
        whole_roster = True

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


def read_roster(parties: int) -> Roster:
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
    return Charter(variant=variant, roster=read_roster(parties), nonce=NONCE)


def machine_of(
    charter: Charter,
    me: str,
    *,
    budget: float | None = None,
    withstand: int = 0,
    honest: int = 0,
    delta: float = DELTA,
) -> Machine:
    """A machine of a member; a party holds one record."""
    name = PartyId(me)
    records = None if name == AGGREGATOR else answers(charter.variant.survey, 1)
    stream = STREAMS.stream(name, ROLE_STREAM)
    return Machine(
        charter,
        name,
        stream,
        records=records,
        identity=_identity(name),
        budget=budget,
        withstand=withstand,
        honest=honest,
        delta=delta,
    )


def words_sent(machine: Machine) -> list[Envelope]:
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


def holdings_of(charter: Charter, records: Records) -> dict[PartyId, Records]:
    """Records dealt out evenly."""
    parties = charter.roster.parties
    return dict(zip(parties, records.split(len(parties)), strict=True))


def setting_in(charter: Charter, holdings: Mapping[PartyId, Records]) -> Setting:
    """Who takes part in a session."""
    identities = identities_of(charter)
    return Setting(
        seed=1, charter=charter, streams=STREAMS, identities=identities, holdings=holdings
    )


def rehearsed(charter: Charter, holdings: Mapping[PartyId, Records], **options: Any) -> Run:
    """Run a session in the local executor, wherever it leads; its transcript is intact."""
    run = Run(setting_in(charter, holdings), **options)
    assert verify(run.content, digest=run.digest).faults == ()
    return run


def everywhere(charter: Charter, holdings: Mapping[PartyId, Records], **options: Any) -> Run:
    """Run locally and over memory: result and digest are the same."""
    local = rehearsed(charter, holdings, **options)
    memory = run_over_memory(setting_in(charter, holdings), **options)
    assert (memory.result_bytes, memory.digest) == (local.result_bytes, local.digest)
    return local
