"""The ledger: what each observer learned about each party's respondents, message by message.

Who observes what: the aggregator hosts the switch and sees whatever passes, and so does whoever
holds the record. A party sees what is sent to it and what is published. A message that may depend
on others tells its recipient, at most, what everything that had passed by then tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from protocol.charter import Charter
from protocol.codec import decode_envelope
from protocol.errors import RemoteProtocolError
from protocol.messages import AGGREGATOR, RECORD, Envelope, PartyId
from protocol.privacy.accountants import NOTHING, Loss, PureAccountant, total
from protocol.privacy.events import (
    Composed,
    Masked,
    OneOf,
    Plain,
    PrivacyEvent,
    Public,
    Randomized,
)
from protocol.roles import Seen
from protocol.transcript.entries import Delivered, Entry, Refused, Sent
from protocol.variant import event_of

REFUSED = -1
"""The ``seq`` of a charge for something that was refused at the switch."""


class Charge(NamedTuple):
    """One message that cost something."""

    seq: int
    kind: str
    event: PrivacyEvent
    loss: Loss


class Account(msgspec.Struct, frozen=True):
    """What an observer learned about each respondent that a party speaks for."""

    party: PartyId
    loss: Loss
    trail: tuple[Charge, ...]


class Ledger(msgspec.Struct, frozen=True):
    """What one observer learned.

    Args:
        observer: the aggregator or a party, or ``record`` for whoever holds the transcript. The
            aggregator hosts the switch, so it observes whatever passes.
        accounts: by party; parties that told nothing are not in it.
        attributes: the survey's attributes.
    """

    observer: PartyId
    accounts: Mapping[PartyId, Account]
    attributes: tuple[str, ...]

    @property
    def record_epsilon(self) -> float:
        """The largest loss over all respondents, in nats."""
        return max((a.loss.record for a in self.accounts.values()), default=0.0)

    @property
    def attribute_epsilon(self) -> dict[str, float]:
        """The largest loss over all respondents, for two records that differ in one attribute."""
        worst = dict.fromkeys(self.attributes, 0.0)
        for loss in {id(a.loss): a.loss for a in self.accounts.values()}.values():
            for name, epsilon in loss.attributes.items():
                worst[name] = max(worst.get(name, 0.0), epsilon)
        return worst

    @property
    def unbounded(self) -> tuple[str, ...]:
        """Why a figure is infinite; empty if none is."""
        reasons = (r for a in self.accounts.values() for r in a.loss.unbounded)
        return tuple(dict.fromkeys(reasons))

    def __repr__(self) -> str:
        return (
            f"Ledger(observer={self.observer!r}, parties={len(self.accounts)}, "
            f"record_epsilon={self.record_epsilon:.6g})"
        )


class LedgerWriter:
    """Builds the ledgers of several observers in one pass over a transcript's entries.

    Args:
        charter: the survey.
        observers: whose ledgers to keep.
    """

    def __init__(self, charter: Charter, observers: Iterable[PartyId] = (AGGREGATOR,)) -> None:
        self._charter = charter
        self._accountant = PureAccountant()
        heeds = charter.variant.heeds
        self._heeded = charter.codec.names if heeds is None else [kind.kind() for kind in heeds]
        self._seen: dict[PartyId, Seen] = {}
        self._under_way: dict[tuple[PartyId, int], Envelope] = {}
        self._passed: list[tuple[PartyId, Charge]] = []
        self._seen_by: dict[PartyId, list[int]] = {observer: [] for observer in observers}
        self._derived_until = dict.fromkeys(self._seen_by, 0)
        self.malformed: list[str] = []

    def add(self, entry: Entry) -> None:
        """Take the next entry, in the order it was recorded."""
        if isinstance(entry, Sent):
            self._sent(decode_envelope(entry.envelope))
        elif isinstance(entry, Delivered):
            self._delivered(entry)
        elif isinstance(entry, Refused):
            self._refused(entry)

    def ledger(self, observer: PartyId) -> Ledger:
        """What ``observer`` has learned so far."""
        until = self._derived_until[observer]
        learned = [*range(until), *(i for i in self._seen_by[observer] if i >= until)]
        trails: dict[PartyId, list[Charge]] = {}
        for i in learned:
            party, charge = self._passed[i]
            if party != observer:
                trails.setdefault(party, []).append(charge)
        # Parties that did the same share one Loss; most surveys have a handful of different ones.
        shared: dict[tuple[int, ...], Loss] = {}
        accounts = {}
        for party, trail in trails.items():
            key = tuple(id(charge.loss) for charge in trail)
            loss = shared.get(key)
            if loss is None:
                loss = shared[key] = total(charge.loss for charge in trail)
            accounts[party] = Account(party, loss, tuple(trail))
        return Ledger(observer, MappingProxyType(accounts), self._charter.variant.survey.names)

    def _sent(self, envelope: Envelope) -> None:
        sender = envelope.sender
        if envelope.recipient != RECORD:
            self._under_way[sender, envelope.seq] = envelope
        try:
            message = self._charter.codec.decode(envelope.kind, envelope.body)
        except RemoteProtocolError as error:
            self.malformed.append(f"{sender} #{envelope.seq}: {error}")
            # Nobody knows what these bytes say; they may be the answers themselves.
            event: PrivacyEvent = Plain(self._charter.variant.survey.names)
        else:
            event = event_of(self._charter.variant, message, self._seen.get(sender, Seen()))
        passed = len(self._passed)
        if sender != AGGREGATOR:  # It holds no records.
            loss = self._accountant.judge(event)
            if loss is not NOTHING:
                self._passed.append((sender, Charge(envelope.seq, envelope.kind, event, loss)))
        recipient = envelope.recipient
        for observer, seen in self._seen_by.items():
            if recipient in (RECORD, observer) or observer in (AGGREGATOR, RECORD):
                seen.extend(range(passed, len(self._passed)))
                # The aggregator may hide anything in anything, even in a question.
                if sender == AGGREGATOR or _may_pass_on(event):
                    self._derived_until[observer] = passed

    def _refused(self, entry: Refused) -> None:
        party = PartyId(entry.link)
        if party == AGGREGATOR or party not in self._charter.roster:
            return
        # The switch has read it, and nobody knows what it said.
        event = Plain(self._charter.variant.survey.names)
        charge = Charge(REFUSED, "", event, self._accountant.judge(event))
        for observer, seen in self._seen_by.items():
            if observer in (AGGREGATOR, RECORD):
                seen.append(len(self._passed))
        self._passed.append((party, charge))

    def _delivered(self, entry: Delivered) -> None:
        envelope = self._under_way.get((entry.sender, entry.seq))
        if envelope is None or entry.repeat:
            return
        del self._under_way[entry.sender, entry.seq]
        if entry.recipient == AGGREGATOR or envelope.kind not in self._heeded:
            return
        try:
            message = self._charter.codec.decode(envelope.kind, envelope.body)
        except RemoteProtocolError:
            return
        self._seen.setdefault(entry.recipient, Seen()).add(entry.sender, message)


def _may_pass_on(event: PrivacyEvent) -> bool:
    """Whether a message may tell what others had told its sender."""
    match event:
        case Public() | Randomized() | Masked():
            return False
        case Composed(events) | OneOf(events):
            return any(map(_may_pass_on, events))
        case _:
            return True
