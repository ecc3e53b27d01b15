"""A rehearsal: one recorded run on the local executor, read back."""

from __future__ import annotations

import functools
from collections.abc import Container, Iterator

from protocol.accounting.events import PrivacyEvent
from protocol.audit.coalition.coalition import Coalition, Observer, serving
from protocol.audit.hearing import Hearing, collect_heads
from protocol.audit.ledger import Ledger, LedgerWriter
from protocol.audit.walk import Step, steps
from protocol.crypto.randomness import Stream
from protocol.errors import ProtocolError
from protocol.messages import (
    AGGREGATOR,
    ROLE_STREAM,
    Boxed,
    Envelope,
    Message,
    PartyId,
)
from protocol.session.charter import Charter
from protocol.session.exchange import Exchange
from protocol.session.fates import FateRule
from protocol.session.local import Outside, run_locally
from protocol.session.machine import Machine
from protocol.session.variant import message_event, unjudged
from protocol.simulation.setting import Setting
from protocol.transcript.entries import Delivered, Entry, Sent
from protocol.transcript.header import make_header
from protocol.transcript.log import seed_log_secret
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.recorder import Recorder

Slot = tuple[PartyId, int]
"""A sender, and the number of its envelope."""


class Rehearsal:
    """One recorded run.

    Args:
        setting: members, keys and records.
        fate: the fate of envelopes.
        exchange: decides which envelopes pass.
        budget: the most epsilon that each party spends; None for no limit of its own.
        seeded: whether the record names the seed.
        signed: whether the aggregator signs checkpoints.
        outside: as for ``run_locally``.

    Attributes:
        result: what was published; None if the run failed (``published`` raises then).
        failure: the error of the aggregator's role; None without one.
        endings: of each party, as ``Run`` has them.
        digest: the canonical digest.
        content: the transcript.
        checkpoint: the last one; None if it signs none.
        sent: every envelope, by its sender and number, in the order of the record.
    """

    def __init__(
        self,
        setting: Setting,
        *,
        fate: FateRule | None = None,
        exchange: type[Exchange] = Exchange,
        budget: float | None = None,
        seeded: bool = True,
        signed: bool = False,
        outside: Outside | None = None,
    ) -> None:
        self.setting = setting
        self.result: Message | None = None
        self.failure: ProtocolError | None = None
        self.endings: dict[PartyId, str] = {}
        parts: list[bytes] = []
        header = make_header(setting.charter, seed=setting.seed if seeded else None)
        signer = setting.identities.get(AGGREGATOR) if signed else None
        recorder = Recorder(
            parts.append, header, signer=signer, secret=seed_log_secret(setting.seed)
        )
        try:
            run = run_locally(
                exchange(setting.charter, recorder=recorder, fate=fate),
                setting.streams,
                setting.holdings,
                identities=setting.identities,
                budget=budget,
                endings=self.endings,
                outside=outside,
            )
        except ProtocolError as error:
            self.failure = error
            self.digest = recorder.close(complete=False, reason=type(error).__name__)
        else:
            self.result = run.result
            self.digest = recorder.close()
        self.content = b"".join(parts)
        self.checkpoint = recorder.checkpoint
        self.sent = {
            (step.envelope.sender, step.envelope.seq): step.envelope
            for step in self.steps
            if isinstance(step.entry, Sent) and step.envelope is not None
        }

    @property
    def published(self) -> Message:
        """Published message.

        Raises:
            ProtocolError: why nothing was.
        """
        if self.result is None:
            raise self.failure or ProtocolError("nothing was published")
        return self.result

    @property
    def charter(self) -> Charter:
        """Charter of the run."""
        return self.setting.charter

    @property
    def serving(self) -> Coalition:
        """The aggregator and all services, as a coalition."""
        return serving(self.charter.roster)

    @functools.cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The record, entry by entry."""
        return tuple(TranscriptReader(self.content))

    @functools.cached_property
    def steps(self) -> tuple[Step, ...]:
        """The record, step by step."""
        return tuple(steps(self.charter.codec, self.entries))

    def message(self, envelope: Envelope) -> Message:
        """Decode an envelope, also a sealed one.

        Raises:
            RemoteProtocolError: it is malformed.
        """
        return self.setting.message(envelope)

    def messages(
        self, envelope: Envelope, readers: Container[PartyId] | None = None
    ) -> dict[str, Message]:
        """Decode an envelope for some members together, as ``Setting.messages``."""
        return self.setting.messages(envelope, readers)

    def seen_by(self, coalition: Coalition) -> Iterator[Envelope]:
        """The envelopes that some members see, in the order of the record."""
        for envelope in self.sent.values():
            if coalition.hears(envelope.sender, envelope.recipient):
                yield envelope

    def machine(self, member: PartyId, stream: Stream | None = None) -> Machine:
        """A member as it was before the run, or with other randomness."""
        setting = self.setting
        return Machine(
            setting.charter,
            member,
            stream or setting.streams.stream(member, ROLE_STREAM),
            records=setting.holdings.get(member),
            identity=setting.identities[member],
        )

    def heard_alike(self, other: Rehearsal, slot: Slot) -> bool:
        """True if the sender of an envelope had received the same in both runs before it."""
        runs = (self, other)
        counts = [run.heard_before[slot] for run in runs if slot in run.heard_before]
        own, others = (run.heard.get(slot[0], [])[: counts[0]] for run in runs)
        return own == others and len(set(counts)) == 1

    @functools.cached_property
    def heard(self) -> dict[PartyId, list[Envelope]]:
        """Envelopes delivered to each member, in order."""
        return self._histories[0]

    @functools.cached_property
    def heard_before(self) -> dict[Slot, int]:
        """Number of envelopes that a sender had received when it sent an envelope."""
        return self._histories[1]

    @functools.cached_property
    def events(self) -> dict[Slot, PrivacyEvent]:
        """Events of all envelopes, given what their senders had received."""
        return self._histories[2]

    @functools.cached_property
    def _histories(
        self,
    ) -> tuple[dict[PartyId, list[Envelope]], dict[Slot, int], dict[Slot, PrivacyEvent]]:
        heard: dict[PartyId, list[Envelope]] = {}
        before: dict[Slot, int] = {}
        events: dict[Slot, PrivacyEvent] = {}
        hearing = Hearing(self.charter, collect_heads(self.entries))
        for step in self.steps:
            if isinstance(step.entry, Delivered):
                envelope = self.sent[step.entry.sender, step.entry.seq]
                heard.setdefault(step.entry.recipient, []).append(envelope)
            elif step.envelope is not None:
                envelope = step.envelope
                slot = envelope.sender, envelope.seq
                before[slot] = len(heard.get(envelope.sender, ()))
                message = self.message(envelope) if step.message is None else step.message
                seen, recipient = hearing.of(*slot), envelope.recipient
                event = events[slot] = message_event(self.charter.variant, message, seen, recipient)
                if isinstance(message, Boxed):
                    inside = self.message(envelope)
                    if event != message_event(self.charter.variant, inside, seen, recipient):
                        raise unjudged(message)
            hearing.add(step)
        return heard, before, events

    def ledger(self, observer: Observer) -> Ledger:
        """Ledger of an observer.

        Raises:
            UnsupportedEventError: an event that the accountant does not know.
        """
        writer = LedgerWriter(self.charter)
        writer.start(collect_heads(self.entries))
        for step in self.steps:
            writer.add(step)
        return writer.ledger(observer)
