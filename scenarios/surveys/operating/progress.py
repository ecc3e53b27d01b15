"""How a survey goes, in counts: nothing of what anybody says, and nobody's name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Protocol

import msgspec
import trio

from protocol.messages import AGGREGATOR, LINK_CLOSED, RECORD, Closed, Envelope
from protocol.session.charter import Charter
from protocol.session.closings import Closings
from protocol.session.exchange import Exchange, Recorder
from protocol.session.machine import Machine
from protocol.transcript.resuming import Past
from transports.listening import ListeningHub
from transports.records.commits import Commits
from transports.switch import Switch

_CLOSED = Closed.kind()
_GONE = {
    "never came": "never came",
    "does not read its mail": "did not read",
    LINK_CLOSED: "left",
}
_BROKE_A_RULE = "refused: "

EVERY = 1.0
"""The least seconds between two events that tell of changed counts."""

Field = int | str | Mapping[str, int]
Tell = Callable[[str, Mapping[str, Field]], object]
"""Takes the name of an event, and what belongs to it."""


class Phase(Enum):
    """How far a survey is."""

    BEGINNING = "beginning"
    JOINING = "joining"
    ASKING = "asking"
    ENDING = "ending"
    STOPPING = "stopping"


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How a survey goes, at one moment.

    Args:
        phase: how far it is.
        parties: how many the roster has.
        joined: how many of them have been connected at some time.
        connected: how many are now.
        awaiting: the kind of message that is awaited, or empty.
        awaited: from how many parties it is.
        answered: how many of them have sent it.
        declined: how many parties have declined.
        closed: how many waits have ended, by kind.
        gone: how many parties are gone for good, by one of a few words.
        refused: how many connections were not let in, by one of a few words.
        messages: how many were accepted.
        entries: how many the record has.
        durable: how many of them are known to be on disk.
        writing: for how many seconds the record has been being written; 0 between writes.
        left: the seconds until the joining or the wait ends by itself, or None.
    """

    phase: Phase
    parties: int
    joined: int
    connected: int
    awaiting: str
    awaited: int
    answered: int
    declined: int
    closed: Mapping[str, int]
    gone: Mapping[str, int]
    refused: Mapping[str, int]
    messages: int
    entries: int
    durable: int
    writing: float
    left: float | None


class Sized(Recorder, Protocol):
    """A recorder that knows how many entries it has."""

    @property
    def size(self) -> int:
        """How many entries have been recorded."""


class Progress:
    """What a survey tells of itself as it goes.

    Args:
        tell: takes events.

    Attributes:
        phase: how far the survey is.
    """

    def __init__(self, tell: Tell = lambda event, fields: None) -> None:
        self.phase = Phase.BEGINNING
        self._tell = tell
        self._recorder: Sized | None = None
        self._switch: Switch | None = None
        self._hub: ListeningHub | None = None
        self._commits: Commits | None = None
        self._machine: Machine | None = None
        self._deadline: float | None = None
        self.closed: Counter[str] = Counter()

    def tell(self, event: str, **fields: Field) -> None:
        """Something has happened that is worth a line."""
        self._tell(event, fields)

    def over(self, recorder: Sized, charter: Charter) -> Recorder:
        """A recorder that passes everything on to this one, and has it counted here."""
        self._recorder = recorder
        return _Counted(recorder, self, charter)

    def recall(self, past: Past) -> None:
        """Count the waits that have ended by the record; a last one that goes on has, too."""
        self.closed.update(closing.topic[0] for closing in past.closings)

    def opened(
        self, switch: Switch, hub: ListeningHub | None = None, commits: Commits | None = None
    ) -> None:
        """Parties can connect."""
        self._switch, self._hub, self._commits = switch, hub, commits
        parties = len(switch.exchange.charter.roster.parties)
        self.tell("listening", parties=parties, attempt=switch.exchange.charter.attempt)

    def joining(self, within: float) -> None:
        """Parties are waited for, for so many seconds."""
        self.phase = Phase.JOINING
        self._deadline = trio.current_time() + within

    def asking(self, machine: Machine) -> None:
        """The aggregator's role begins."""
        self.phase = Phase.ASKING
        self._machine, self._deadline = machine, None
        counts = self.counts()
        self.tell("asking", joined=counts.joined, parties=counts.parties)

    def ending(self) -> None:
        """The aggregator's role has ended."""
        self.phase = Phase.ENDING
        self.tell("ended", messages=self.counts().messages)

    def stopping(self, why: str) -> None:
        """The program is about to end, and the survey goes on later."""
        self.phase = Phase.STOPPING
        self.tell("stopping", why=why)

    async def tell_changes(self) -> None:
        """Tell of counts that have changed, at most once a second, until cancelled."""
        before: Mapping[str, Field] = {}
        while True:
            counts = self.counts()
            now: Mapping[str, Field] = {
                "phase": counts.phase.value,
                "parties": counts.parties,
                "joined": counts.joined,
                "awaiting": counts.awaiting,
                "awaited": counts.awaited,
                "answered": counts.answered,
                "declined": counts.declined,
                "gone": counts.gone,
                "refused": counts.refused,
                "messages": counts.messages,
            }
            if now != before:
                self.tell("progress", **now)
            before = now
            await trio.sleep(EVERY)

    def wait_closed(self, closed: Closed) -> None:
        """A wait of the aggregator's is over."""
        self.closed[closed.of] += 1
        awaited, counted = (
            int.from_bytes(bits, "little").bit_count() for bits in (closed.awaited, closed.counted)
        )
        self.tell(
            "wait closed", kind=closed.of, round=closed.round, awaited=awaited, counted=counted
        )

    def counts(self) -> Counts:
        """How it goes now."""
        exchange: Exchange | None = None if self._switch is None else self._switch.exchange
        awaited = None if self._machine is None else self._machine.awaited
        return Counts(
            phase=self.phase,
            parties=0 if exchange is None else len(exchange.charter.roster.parties),
            joined=0 if exchange is None else exchange.joined,
            connected=0 if self._switch is None else self._switch.connected,
            awaiting="" if awaited is None else awaited.kind.kind(),
            awaited=0 if awaited is None else len(awaited.senders),
            answered=0 if self._machine is None else self._machine.answered,
            declined=0 if exchange is None else exchange.declined,
            closed=dict(self.closed),
            gone={} if exchange is None else _gone(exchange),
            refused={} if self._hub is None else dict(self._hub.refused),
            messages=0 if exchange is None else exchange.messages,
            entries=0 if self._recorder is None else self._recorder.size,
            durable=0 if self._commits is None else self._commits.durable,
            writing=self._writing(),
            left=self._left(),
        )

    def _writing(self) -> float:
        since = None if self._commits is None else self._commits.since
        return 0.0 if since is None else trio.current_time() - since

    def _left(self) -> float | None:
        """Seconds until what is waited for ends by itself; only while the survey is held."""
        deadline = self._deadline
        if self.phase is Phase.ASKING and self._machine is not None:
            deadline = self._machine.deadline
        if deadline is None or self.phase not in (Phase.JOINING, Phase.ASKING):
            return None
        return max(0.0, deadline - trio.current_time())


def _gone(exchange: Exchange) -> dict[str, int]:
    """How many parties are gone for good, by one of a few words."""
    words: Counter[str] = Counter()
    for party, reason in exchange.departed.items():
        if party == AGGREGATOR:
            continue
        if reason.startswith(_BROKE_A_RULE):
            words["broke a rule"] += 1
        elif exchange.has_ended(party):
            words["ended"] += 1
        else:
            words[_GONE.get(reason, "lost")] += 1
    return dict(words)


class _Counted:
    """Passes what an exchange records on to a recorder, and counts some of it."""

    def __init__(self, recorder: Recorder, progress: Progress, charter: Charter) -> None:
        self._progress = progress
        self._codec = charter.codec
        self._closings = Closings(len(charter.roster))
        self._sent = recorder.sent
        self.departed = recorder.departed
        self.delivered = recorder.delivered
        self.refused = recorder.refused
        self.hindered = recorder.hindered
        self.fault_of_head = recorder.fault_of_head

    def sent(self, envelope: Envelope, *, now: float, encoded: bytes | None = None) -> None:
        self._sent(envelope, now=now, encoded=encoded)
        if (envelope.recipient, envelope.kind, envelope.sender) == (RECORD, _CLOSED, AGGREGATOR):
            closed = self._codec.decode(envelope.kind, envelope.body)
            if isinstance(closed, Closed):
                self._closing(closed)

    def _closing(self, closed: Closed) -> None:
        try:
            whole = self._closings.add(closed)
        except ValueError:
            return  # The ranges before it were recorded by another program.
        if whole is not None:
            self._progress.wait_closed(whole)
