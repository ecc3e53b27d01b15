"""The behaviours that surveys were lost by, to be planted again: the simulation finds each."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock
from weakref import WeakSet

import trio
from msgspec.structs import replace

from parties.keeping import records
from parties.keeping.attempts import Answers, Counter, OpenAnswers
from parties.keeping.packing import whole_length
from parties.keeping.purse import OpenPurse, Purse
from parties.keeping.records import GrowingTranscript
from parties.keeping.remembered import Memory
from parties.session import LINGER
from protocol import AGGREGATOR, Me, Stream
from protocol.errors import UnopenedError, WithheldError
from protocol.session.exchange import Exchange
from protocol.session.naming import Naming
from protocol.sharing.messages import Survivors
from protocol.transcript.recorder import Recorder
from scenarios.statement import runs
from scenarios.surveys import answering
from scenarios.surveys.holding import aggregating
from tests.system.schedule import Crash, Cut, Late, Part, Schedule, Stop
from tests.system.world import PATIENCE
from transports.lasting import link
from transports.lasting.hub import LastingHub, Line
from transports.lasting.link import LastingLink
from transports.memory import MemoryHub, MemoryLink
from transports.records.commits import Commits
from transports.records.recording import recording

Planting = Callable[[], contextlib.AbstractContextManager[object]]


class Plant(NamedTuple):
    """A behaviour of old, and where the simulation has to see it.

    Args:
        invariant: the name of the one that it breaks.
        variant: a survey that shows it.
        plant: has the program behave so in a block.
        shown_by: the faults that show it, if it takes any.
    """

    invariant: str
    variant: str
    plant: Planting
    shown_by: Callable[[Any], bool] = bool

    def likely(self, schedule: Schedule) -> bool:
        """Whether a schedule may show it: those are tried first."""
        return any(map(self.shown_by, schedule.faults))


def _cut(fault: Any) -> bool:
    return isinstance(fault, Cut)


def _half_open(fault: Any) -> bool:
    return isinstance(fault, Cut) and fault.how in ("silent", "deaf")


def _late(fault: Any) -> bool:
    return isinstance(fault, Late) and fault.member == AGGREGATOR


def _power(fault: Any) -> bool:
    return isinstance(fault, Crash) and (fault.member, fault.how) == (AGGREGATOR, "power")


def _anew(fault: Any) -> bool:
    return isinstance(fault, Crash) and (fault.member, fault.then) == (AGGREGATOR, "anew")


def _stop(fault: Any) -> bool:
    return isinstance(fault, Stop)


def _long_gone(fault: Any) -> bool:
    return isinstance(fault, Crash) and fault.member != AGGREGATOR and fault.away > LINGER


def _long_away(fault: Any) -> bool:
    """Out of reach for longer than a round of answers is waited for, and not so long as to be lost
    at once."""
    return isinstance(fault, Part) and fault.member != AGGREGATOR and fault.seconds > PATIENCE


def _party(fault: Any) -> bool:
    return isinstance(fault, Crash) and fault.member != AGGREGATOR


def _instead(of: Any, name: str, new: Any) -> Planting:
    return lambda: mock.patch.object(of, name, new)


@contextlib.contextmanager
def _written() -> Generator[None]:
    """Done is what was written to a socket."""

    async def written(self: LastingLink) -> object:
        self.mail.close()
        while self.why is None and self._written < self._durable + len(self._said):  # noqa: ASYNC110
            await trio.sleep(0.01)
        return object()

    kept = SimpleNamespace(problems=(), late=False)
    with (
        mock.patch.object(LastingLink, "acknowledgement", written),
        mock.patch.object(answering, "keep_receipt", return_value=kept),
    ):
        yield


async def _at_once(self: Line) -> None:
    """Nothing waits until the disk has it."""
    await trio.lowlevel.checkpoint()


def _first(self: Counter, header: Callable[[int], bytes]) -> int:
    """Every attempt is the first, with another secret for its log."""
    self._lines.values[:] = []
    return _real_take(self, header)


_real_take = Counter.take


async def _once(dial: link.Dial, patience: link.Patience) -> object:
    """Who does not get through at once gives up."""
    return await dial(patience.left)


def _any_stream(key: bytes, session: bytes, party: str) -> Stream:
    """Randomness that is the same in every session."""
    return _real_stream(key, bytes(len(session)), party)


_real_stream = answering.role_stream


def _derive(self: Stream, purpose: str) -> Stream:
    """Derived for a purpose alone, whatever the session is."""
    return _real_derive(self, purpose.split(" ")[0])


_real_derive = Stream.derive


@contextlib.contextmanager
def _repeated_secrets() -> Generator[None]:
    with (
        mock.patch.object(answering, "role_stream", _any_stream),
        mock.patch.object(answering, "session_key", return_value=bytes(32)),
        mock.patch.object(Stream, "derive", _derive),
        _unlimited(),
    ):
        yield


@contextlib.contextmanager
def _unlimited() -> Generator[None]:
    """Every attempt has a budget of its own."""
    with (
        mock.patch.object(Answers, "allowed", return_value=float("inf")),
        mock.patch.object(Purse, "left", return_value=float("inf")),
    ):
        yield


@contextlib.contextmanager
def _unpaid() -> Generator[None]:
    """A party says what it has not paid."""
    with mock.patch.object(OpenAnswers, "note"), mock.patch.object(OpenPurse, "pay"):
        yield


@contextlib.contextmanager
def _patient_for_a_day() -> Generator[None]:
    with (
        mock.patch.object(aggregating, "SILENCE", 86400.0),
        mock.patch.object(answering, "SILENCE", 86400.0),
    ):
        yield


async def _no_reconnection(self: LastingLink, connection: Any) -> None:
    """A connection lost is a link lost."""
    try:
        why = await self._carry(connection)
    finally:
        await connection.aclose()
    self._end(why or "")


def _final(recorder: Recorder, commits: Commits, **_: object) -> Any:
    """A record is over with any error, a signal's too."""
    return recording(recorder, commits)


@contextlib.asynccontextmanager
async def _leaving(self: LastingHub) -> AsyncGenerator[MemoryLink]:
    """An aggregator that is stopped has left."""
    link = MemoryLink(self._switch, AGGREGATOR)
    try:
        yield link
    finally:
        link.close()


def _has_left(self: Line, visit: Any, why: str) -> None:
    """A connection lost is a departure."""
    if self.visit is visit and not self.departed:
        self.switch.detach(self.name, why)


def _drawn(*_: object) -> bytes:
    return os.urandom(32)


@contextlib.contextmanager
def _new_randomness() -> Generator[None]:
    """A party that is started again draws anew, and remembers nothing."""
    with (
        mock.patch.object(answering, "session_key", new=_drawn),
        mock.patch.object(answering, "session_mark", return_value=bytes(32)),
        mock.patch.object(Memory, "again", return_value=True),
    ):
        yield


@contextlib.contextmanager
def _two_survivor_sets() -> Generator[None]:
    """The aggregator names others to the last party, as one that has forgotten might."""
    real = Exchange.accept

    def accept(self: Exchange, member: str, envelopes: Any, **named: Any) -> Any:
        ruling = real(self, member, envelopes, **named)
        return replace(ruling, deliveries=[*map(changed, ruling.deliveries)])

    def changed(delivery: Any) -> Any:
        envelope = delivery.envelope
        if envelope.kind != Survivors.kind() or not envelope.recipient.endswith("4"):
            return delivery
        body = envelope.body[:-1] + bytes([envelope.body[-1] ^ 4])
        return replace(delivery, envelope=replace(envelope, body=body), encoded=None)

    with mock.patch.object(Exchange, "accept", accept):
        yield


@contextlib.contextmanager
def _another_opening() -> Generator[None]:
    """The aggregator puts other secrets on record than it takes the masks off with."""
    real = Me.disclose

    async def disclose(self: Me, kind: Any, make: Callable[[], Any], **named: Any) -> Any:
        try:
            message = make()
        except WithheldError:
            return await real(self, kind, make, **named)
        await self.note(replace(message, secrets=message.secrets ^ 1))
        return message

    with mock.patch.object(Me, "disclose", disclose):
        yield


@contextlib.contextmanager
def _begun_alone() -> Generator[None]:
    """Of a record that a program begins only the header is synced."""
    real, begun = GrowingTranscript.sync, WeakSet[GrowingTranscript]()

    def sync(self: GrowingTranscript) -> None:
        if self not in begun:
            begun.add(self)
            real(self)

    with mock.patch.object(GrowingTranscript, "sync", sync):
        yield


def unheard(last: str) -> Planting:
    """A hub that records what a party says, and does not hand it to the aggregator's role.

    Args:
        last: character of the party's id.
    """
    real = Exchange.accept

    def accept(self: Exchange, member: str, envelopes: Any, **named: Any) -> Any:
        ruling = real(self, member, envelopes, **named)
        return replace(ruling, deliveries=[*filter(is_handed, ruling.deliveries)])

    def is_handed(delivery: Any) -> bool:
        envelope = delivery.envelope
        return not (envelope.sender.endswith(last) and envelope.recipient == AGGREGATOR)

    return lambda: mock.patch.object(Exchange, "accept", accept)


def _whole_or_refused(chunks: Callable[[], Iterable[bytes]]) -> int:
    if whole_length(chunks) != (length := sum(map(len, chunks()))):
        raise UnopenedError("the file ends inside a frame")
    return length


def _failing(*given: object, **named: object) -> dict[str, object]:
    raise KeyError("no such table")


PLANTS: dict[str, Plant] = {
    "done is what was written to a socket": Plant(
        "acknowledged_is_on_record", "rr-independent", _written, _power
    ),
    "what was acknowledged does not reach the aggregator's role": Plant(
        "acknowledged_is_counted", "rr-independent", unheard("4")
    ),
    "nobody is told that a report came too late": Plant(
        "done_is_counted",
        "rr-independent",
        _instead(Naming, "pop", lambda *_: iter(())),
        _long_away,
    ),
    "no sync": Plant(
        "nothing_leaves_before_it_is_durable",
        "rr-independent",
        _begun_alone,
        _power,
    ),
    "what was acknowledged is not synced": Plant(
        "receipts_hold",
        "rr-independent",
        _begun_alone,
        _power,
    ),
    "questions leave before they are on disk": Plant(
        "nothing_leaves_before_it_is_durable",
        "rr-independent",
        _instead(Line, "committed", _at_once),
        _power,
    ),
    "every attempt is the first": Plant(
        "one_checkpoint_of_a_size", "rr-independent", _instead(Counter, "take", _first), _anew
    ),
    "secrets repeat in a second run": Plant(
        "no_secret_used_twice", "secure-sum", _repeated_secrets, _anew
    ),
    "every attempt has a budget of its own": Plant(
        "nothing_spent_twice", "rr-independent", _unlimited, _anew
    ),
    "a party says what it has not paid": Plant(
        "nothing_spent_twice",
        "rr-independent",
        _unpaid,
    ),
    "a party does not pay from its purse": Plant(
        "nothing_spent_twice", "secure-sum", _instead(OpenPurse, "pay", lambda *_, **__: None)
    ),
    "no reconnection": Plant(
        "what_heals_costs_nobody",
        "rr-independent",
        _instead(LastingLink, "run", _no_reconnection),
        _cut,
    ),
    "a connection lost is a departure": Plant(
        "what_heals_costs_nobody", "rr-independent", _instead(Line, "lose", _has_left), _cut
    ),
    "who is lost at the end is not waited for": Plant(
        "what_heals_costs_nobody",
        "rr-independent",
        _instead(LastingHub, "emptied", MemoryHub.emptied),
        _cut,
    ),
    "a survey that is stopped has failed": Plant(
        "what_heals_costs_nobody",
        "rr-independent",
        _instead(aggregating, "recording", _final),
        _stop,
    ),
    "an aggregator that is stopped has left": Plant(
        "what_heals_costs_nobody", "secure-sum", _instead(LastingHub, "lead", _leaving), _stop
    ),
    "a half-open link waits for a day": Plant(
        "everybody_ends", "rr-independent", _patient_for_a_day, _half_open
    ),
    "a party that is started first gives up": Plant(
        "what_heals_costs_nobody", "rr-independent", _instead(link, "patiently", _once), _late
    ),
    "a party does not know its receipt again": Plant(
        "who_has_a_receipt_is_done",
        "rr-independent",
        _instead(answering, "_done_before", lambda *_: None),
        _long_gone,
    ),
    "a party that is started again says something else": Plant(
        "nothing_said_twice", "secure-sum", _new_randomness, _party
    ),
    "an opening that does not open": Plant("the_audit_accepts", "secure-sum", _another_opening),
    "two sets of survivors": Plant("one_set_of_survivors", "secure-sum", _two_survivor_sets),
    "a record without what was handed over": Plant(
        "the_audit_accepts",
        "rr-independent",
        _instead(Recorder, "delivered", lambda self, *_, **__: None),
    ),
    "a record that a crash has torn is refused": Plant(
        "nothing_breaks",
        "rr-independent",
        _instead(records, "whole_length", _whole_or_refused),
        _power,
    ),
    "a summary that cannot be made": Plant(
        "the_summary_can_be_made", "rr-independent", _instead(runs, "reported_values", _failing)
    ),
}
"""What each is called."""
