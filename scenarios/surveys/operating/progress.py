"""Progress of a survey in counts, without contents and names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Protocol

import msgspec
import trio

from protocol.session.charter import Charter
from protocol.session.machine import Machine
from protocol.transcript.entries import Entry
from scenarios.surveys.holding.closing import seconds_left
from scenarios.surveys.watching.tally import Tally
from transports.admission import SUMMED_SECONDS, Strangers
from transports.records.commits import Commits
from transports.switch import Switch

EVERY = 1.0
"""Minimum seconds between two events about changed counts."""

_UNTOLD = ("connected", "closed", "entries", "durable", "writing", "left", "cosigned", "needed")
"""Counts that those events do not tell."""

_STRANGERS = "refused"
"""Counts that strangers change as often as they like: no event is told for them alone."""

Field = int | str | Mapping[str, int]
Tell = Callable[[str, Mapping[str, Field]], object]
"""Takes the name of an event, and what belongs to it."""


class Refusing(Protocol):
    """Counts of connected and refused members.

    Attributes:
        refused: number of refused connections, by reason.
    """

    refused: Counter[str]

    @property
    def strangers(self) -> Strangers:
        """A count of connections that ended without a whole request."""


class Phase(StrEnum):
    """Phase of a survey."""

    BEGINNING = "beginning"
    JOINING = "joining"
    ASKING = "asking"
    ENDING = "ending"
    STOPPING = "stopping"


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of a survey at one moment.

    Args:
        phase: the phase.
        parties: number of parties on the roster.
        joined: number of parties that have ever connected.
        connected: number of connected parties.
        awaiting: the kind of message that is awaited, or empty.
        awaited: number of awaited parties.
        answered: number of awaited parties that have answered.
        declined: number of parties that have declined.
        closed: number of finished waits, by kind.
        gone: number of parties gone for good, by reason.
        refused: number of refused connections, by reason.
        messages: number of accepted messages.
        entries: number of entries of the record.
        durable: number of durable entries.
        writing: for how many seconds the record has been being written; 0 between writes.
        left: the seconds until the joining or the wait ends by itself, or None.
        cosigned: number of cosignatures of the first checkpoint, while witnesses are asked.
        needed: number of cosignatures needed.
    """

    phase: Phase
    parties: int = 0
    joined: int = 0
    connected: int = 0
    awaiting: str = ""
    awaited: int = 0
    answered: int = 0
    declined: int = 0
    closed: Mapping[str, int] = {}
    gone: Mapping[str, int] = {}
    refused: Mapping[str, int] = {}
    messages: int = 0
    entries: int = 0
    durable: int = 0
    writing: float = 0.0
    left: float | None = None
    cosigned: int = 0
    needed: int = 0


class Progress:
    """Progress that a survey reports as it goes.

    Args:
        tell: takes events.

    Attributes:
        phase: the survey's phase.
        closed: number of finished waits, by kind.
    """

    def __init__(self, tell: Tell = lambda event, fields: None) -> None:
        self.phase = Phase.BEGINNING
        self._tell = tell
        self._tally: Tally | None = None
        self._switch: Switch | None = None
        self._door: Refusing | None = None
        self._commits: Commits | None = None
        self._machine: Machine | None = None
        self._deadline: float | None = None
        self._cosigned = self._needed = 0
        self.closed: Counter[str] = Counter()

    def tell(self, event: str, **fields: Field) -> None:
        """Something has happened that is worth a line."""
        self._tell(event, fields)

    def follow(self, charter: Charter) -> Callable[[Entry], object]:
        """Count a survey by its record; ends of waits are reported once parties can connect."""
        tally = self._tally = Tally(charter.roster)

        def add(entry: Entry) -> None:
            ended = tally.take(entry)
            if ended is None or ended.malformed:
                return
            self.closed[ended.kind] += 1
            if self._switch is not None:
                self.tell(
                    "wait closed",
                    kind=ended.kind,
                    round=ended.round,
                    awaited=len(ended.awaited),
                    counted=len(ended.counted),
                )

        return add

    def witnessing(self, cosigned: int, needed: int, within: float) -> None:
        """Report that witnesses are asked for so many seconds more."""
        self._cosigned, self._needed = cosigned, needed
        self._deadline = trio.current_time() + within
        self.tell("witnesses", cosigned=cosigned, needed=needed, left=round(within))

    def opened(
        self, switch: Switch, door: Refusing | None = None, commits: Commits | None = None
    ) -> None:
        """Parties can connect."""
        self._deadline = None
        self._switch, self._door, self._commits = switch, door, commits
        parties = len(switch.exchange.charter.roster.parties)
        self.tell("listening", parties=parties, attempt=switch.exchange.charter.attempt)

    def joining(self, within: float) -> None:
        """Report that parties are awaited for so many seconds."""
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

    def older(self, held: int, entries: int) -> None:
        """A party holds a checkpoint of ``held`` entries, and the record has fewer, or others."""
        self.tell("older record", held=held, entries=entries)

    async def tell_changes(self) -> None:
        """Report changed counts, at most once a second, until cancelled.

        Activity of strangers is summed up at most once a minute.
        """
        before: Mapping[str, Field] = {}
        due = trio.current_time() + SUMMED_SECONDS
        try:
            while True:
                counts = msgspec.structs.asdict(self.counts())
                told = {name: value for name, value in counts.items() if name not in _UNTOLD}
                now = {name: value for name, value in told.items() if name != _STRANGERS}
                if now != before:
                    self.tell("progress", **told)
                before = now
                if trio.current_time() >= due:
                    self._sum_up()
                    due = trio.current_time() + SUMMED_SECONDS
                await trio.sleep(EVERY)
        finally:
            self._sum_up()

    def _sum_up(self) -> None:
        """Report what strangers have done since the last time."""
        if self._door is None:
            return
        scarce = self._door.strangers.scarce
        times, addresses = self._door.strangers.take()
        if times or scarce:
            self.tell("strangers", connections=times, addresses=addresses, scarce=int(scarce))

    def counts(self) -> Counts:
        """Counts at this moment."""
        if self._switch is None or self._tally is None:
            return Counts(
                phase=self.phase,
                left=self._seconds_left(),
                cosigned=self._cosigned,
                needed=self._needed,
            )
        awaited = None if self._machine is None else self._machine.awaited
        return Counts(
            phase=self.phase,
            parties=len(self._tally.parties),
            joined=self._switch.exchange.joined,
            connected=self._switch.connected,
            awaiting="" if awaited is None else awaited.kind.kind(),
            awaited=0 if awaited is None else len(awaited.senders),
            answered=0 if self._machine is None else self._machine.answered,
            declined=len(self._tally.declined),
            closed=dict(self.closed),
            gone=dict(self._tally.gone),
            refused={} if self._door is None else dict(self._door.refused),
            messages=self._tally.messages,
            entries=0 if self._commits is None else self._commits.size,
            durable=0 if self._commits is None else self._commits.durable,
            writing=self._seconds_writing(),
            left=self._seconds_left(),
        )

    def _seconds_writing(self) -> float:
        since = None if self._commits is None else self._commits.since
        return 0.0 if since is None else trio.current_time() - since

    def _seconds_left(self) -> float | None:
        """Seconds until the current wait times out; None outside the survey."""
        asks_witnesses = self.phase is Phase.BEGINNING and self._deadline is not None
        if self.phase not in (Phase.JOINING, Phase.ASKING) and not asks_witnesses:
            return None
        deadline = self._deadline
        if self.phase is Phase.ASKING and self._machine is not None:
            deadline = self._machine.deadline
        if deadline is not None:
            left: float | None = deadline - trio.current_time()
        else:
            left = None if self._switch is None else seconds_left(self._switch.exchange.charter)
        return None if left is None else max(0.0, left)
