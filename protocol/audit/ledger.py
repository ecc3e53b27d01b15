"""The ledger: what each observer learned about each party's respondents, message by message.

The aggregator hosts the switch, so it sees all that passes, and so does the holder of the record.
Others see messages to them and the published result. A coalition sees what any of its members sees
(``protocol.audit.reach``).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from protocol.accounting.accountants import NOTHING, Loss, PureAccountant, maximum, total
from protocol.accounting.events import (
    Merged,
    Plain,
    PrivacyEvent,
    layers,
)
from protocol.audit.coalition.coalition import Coalition, Observer, parse_coalition
from protocol.audit.hearing import Hearing
from protocol.audit.passed import Charge, Passed, Told
from protocol.audit.walk import Fold, Step
from protocol.errors import UnsupportedEventError
from protocol.messages import AGGREGATOR, NO_ROUND, Envelope, Message, PartyId
from protocol.session.charter import Charter
from protocol.session.variant import loss_bound, message_event, settled
from protocol.sharing.messages import Partial, Upload
from protocol.surveys.limits import UNLIMITED, Held
from protocol.transcript.entries import Refused, Sent

if TYPE_CHECKING:
    from protocol.audit.coalition.follows import Follows
    from protocol.audit.coalition.sums import SumReader

_CONTRIBUTIONS = frozenset((Upload.kind(), Partial.kind()))

REMARKS = 20
"""Maximum number of remarks about malformed messages."""

_SAME = 1e-9
"""Relative difference of two sums of the same losses, at most."""

REFUSED = -1
"""The ``seq`` of a charge for something that was refused at the switch."""


class Account(msgspec.Struct, frozen=True):
    """Account of what an observer learned about each respondent that a party speaks for."""

    party: PartyId
    loss: Loss
    trail: tuple[Charge, ...]


class Ledger(msgspec.Struct, frozen=True):
    """Ledger of one observer.

    Args:
        observer: the aggregator or a party, ``record`` for the holder of the transcript, or a
            coalition, in words.
        accounts: by party; parties that revealed nothing are not in it.
        attributes: the survey's attributes.
        sizes: the number of categories of each.
        unsigned: the accounts of parties that have signed nothing. It is unknown what they had
            received, and whether they sent more. They are charged by what was delivered to them,
            and at least the most that they consent to. They are among ``accounts`` instead if
            events do not depend on received messages, and the charge is that most already, or no
            most is known.
    """

    observer: PartyId
    accounts: Mapping[PartyId, Account]
    attributes: tuple[str, ...]
    sizes: tuple[int, ...] = ()
    unsigned: Mapping[PartyId, Account] = MappingProxyType({})

    @property
    def everybody(self) -> Mapping[PartyId, Account]:
        """All accounts, with those of ``unsigned``."""
        return {**self.accounts, **self.unsigned}

    @property
    def record_epsilon(self) -> float:
        """The largest loss over all respondents, in nats, without those of ``unsigned``."""
        return max((a.loss.record for a in self.accounts.values()), default=0.0)

    @property
    def unsigned_epsilon(self) -> float:
        """The largest loss over the respondents of ``unsigned``, in nats."""
        return max((a.loss.record for a in self.unsigned.values()), default=0.0)

    @property
    def honest(self) -> int:
        """The fewest honest parties that a figure rests on, the respondent's own included.

        0 if all figures hold against any coalition.
        """
        trails = (account.trail for account in self.everybody.values())
        events = {charge.event for trail in trails for charge in trail}
        counts = [
            part.honest for event in events for part in layers(event) if isinstance(part, Merged)
        ]
        return min(counts, default=0)

    @property
    def attribute_epsilon(self) -> dict[str, float]:
        """``record_epsilon``, for two records that differ in one attribute."""
        worst = dict.fromkeys(self.attributes, 0.0)
        for loss in {id(a.loss): a.loss for a in self.accounts.values()}.values():
            for name, epsilon in loss.attributes.items():
                worst[name] = max(worst.get(name, 0.0), epsilon)
        return worst

    @property
    def unbounded(self) -> tuple[str, ...]:
        """Reasons why a figure is infinite; empty if none is."""
        reasons = (r for a in self.accounts.values() for r in a.loss.unbounded)
        return tuple(dict.fromkeys(reasons))

    def __repr__(self) -> str:
        return (
            f"Ledger(observer={self.observer!r}, parties={len(self.accounts)}, "
            f"record_epsilon={self.record_epsilon:.6g})"
        )


class Charging:
    """Charges messages one by one, for an observer that sees all that passes.

    Args:
        charter: the survey.
        held: limits the memory that a file from anybody can take.

    Attributes:
        malformed: the first ``REMARKS`` remarks on malformed messages.
    """

    def __init__(self, charter: Charter, held: Held = UNLIMITED) -> None:
        self._charter = charter
        self._accountant = PureAccountant()
        # The event of a message that cannot be judged: the answers themselves.
        self._everything = Plain(charter.variant.survey.names)
        self._serving = frozenset((AGGREGATOR, *charter.roster.services))
        self._held = held
        self._hearing = Hearing(charter, {}, held)
        self._events: dict[PrivacyEvent, PrivacyEvent] = {}
        self.malformed: list[str] = []

    def start(self, heads: Mapping[PartyId, bytes]) -> None:
        """Take the parties' heads, as ``Fold.start``."""
        self._hearing = Hearing(self._charter, heads, self._held)

    def add(self, step: Step) -> Told | None:
        """Charge the next step; None if it reveals nothing to anybody."""
        told = None
        if isinstance(step.entry, Sent) and step.envelope is not None:
            told = self._sent(step.envelope, step.message, step.malformed)
        elif isinstance(step.entry, Refused):
            told = self._refused(step.entry)
        self._hearing.add(step)
        return told

    def bound(self) -> Loss:
        """The most that a party consents to tell."""
        try:
            return loss_bound(self._charter.variant)
        except Exception:
            # A user's own variant may not be prepared for all parameters.
            return self._accountant.judge(self._everything)

    def seen_as(self, charge: Charge, event: PrivacyEvent) -> Charge:
        """The charge of a message for an observer who sees another event in it."""
        event = self._events.setdefault(event, event)
        return charge._replace(event=event, loss=self._accountant.judge(event))

    def _sent(self, envelope: Envelope, message: Message | None, malformed: str) -> Told:
        sender = envelope.sender
        if message is None:
            self._remark(f"{sender} #{envelope.seq}: {malformed}")
            # These bytes may be the answers themselves.
            event: PrivacyEvent = self._everything
        else:
            event = self._event(envelope, message)
            # One event is kept of thousands that are equal.
            event = self._events.setdefault(event, event)
        recipient, kind = envelope.recipient, envelope.kind
        round_ = getattr(message, "round", NO_ROUND)
        if sender in self._serving:  # It holds no records.
            return Told(sender, recipient, envelope.seq, kind, round_, event, None)
        try:
            loss = self._accountant.judge(event)
        except UnsupportedEventError as error:
            self._remark(f"{sender} #{envelope.seq}: {error}")
            event = self._everything
            loss = self._accountant.judge(event)
        if loss is NOTHING:
            return Told(sender, recipient, envelope.seq, kind, round_, event, None)
        charge = Charge(envelope.seq, kind, event, loss)
        return Told(sender, recipient, envelope.seq, kind, round_, event, charge)

    def _event(self, envelope: Envelope, message: Message) -> PrivacyEvent:
        """Event of a message; the answers themselves if its variant cannot say."""
        try:
            seen = self._hearing.of(envelope.sender, envelope.seq)
            return message_event(self._charter.variant, message, seen, envelope.recipient)
        except Exception as error:
            # A user's own variant may not be prepared for such messages.
            why = f"what it reveals is unknown ({type(error).__name__})"
            self._remark(f"{envelope.sender} #{envelope.seq}: {why}")
            return self._everything

    def _remark(self, remark: str) -> None:
        if len(self.malformed) < REMARKS:
            self.malformed.append(remark)

    def _refused(self, entry: Refused) -> Told | None:
        party = PartyId(entry.link)
        if party not in self._charter.roster or party in self._serving:
            return None
        # The switch has read it, and its content is unknown.
        event = self._everything
        charge = Charge(REFUSED, "", event, self._accountant.judge(event))
        return Told(party, None, REFUSED, "", NO_ROUND, event, charge)


class LedgerWriter(Fold):
    """Builds ledgers in one pass over a transcript's steps; any observer may be asked about.

    Args:
        charter: the survey.
        held: limits the memory that a file from anybody can take.

    Attributes:
        sums: the secure sums on record; None if the variant has none.
        disclosed: parties that hide nobody in a sum, since every observer is taken to know their
            keys and records.
    """

    def __init__(self, charter: Charter, held: Held = UNLIMITED) -> None:
        self.charter = charter
        self.sums = _sum_reader(charter)
        self.disclosed: tuple[PartyId, ...] = ()
        self._follows: dict[Coalition, Follows] = {}
        self._ledgers: dict[Coalition, Ledger] = {}
        self._charging = Charging(charter, held)
        self._signed: Collection[PartyId] = ()
        self._passed = Passed(charter.roster)

    @property
    def malformed(self) -> list[str]:
        """First ``REMARKS`` remarks on malformed messages."""
        return self._charging.malformed

    def start(self, heads: Mapping[PartyId, bytes]) -> None:
        """Take the parties' heads, as ``Fold.start``."""
        self._signed = heads.keys()
        self._charging.start(heads)
        if any(kind.sealed for kind in self.charter.variant.messages):
            self._passed.start(heads)

    def add(self, step: Step) -> None:
        told = self._charging.add(step)
        record = None if self.sums is None else self.sums.add(step)
        if self._follows or self._ledgers:
            self._follows, self._ledgers = {}, {}
        if step.said is not None and self._passed.covered:
            self._passed.deliver(step.said)
        if told is not None:
            self._passed.add(told, step.number)
            if record is not None:
                record.events[told.event] = None

    def ledger(self, observer: Observer, follows: Follows | None = None) -> Ledger:
        """Ledger of what ``observer`` has learned so far.

        Args:
            observer: a member, ``record``, or a coalition.
            follows: the sums that they know; by default from this session alone.
        """
        coalition = parse_coalition(observer)
        if follows is not None:
            return self._ledger(coalition, follows)
        if coalition not in self._ledgers:
            own = None if self.sums is None else self.follows(coalition)
            self._ledgers[coalition] = self._ledger(coalition, own)
        return self._ledgers[coalition]

    def _ledger(self, coalition: Coalition, follows: Follows | None) -> Ledger:
        trails: dict[PartyId, list[Charge]] = {}
        for told, event in self._learned(coalition):
            charge, party = told.charge, told.sender
            if charge is None or party in coalition.members:
                continue
            if event is not charge.event:
                charge = self._charging.seen_as(charge, event)
                if charge.loss is NOTHING:
                    continue
            if follows is not None and charge.summed:
                charge = self._charging.seen_as(charge, follows.told(party, charge.event))
            trails.setdefault(party, []).append(charge)
        survey = self.charter.variant.survey
        accounts = _accounts(trails)
        unsigned = self._unsigned(accounts)
        return Ledger(
            PartyId(str(coalition)),
            {name: each for name, each in accounts.items() if name not in unsigned},
            survey.names,
            survey.sizes,
            unsigned,
        )

    def follows(self, coalition: Coalition) -> Follows:
        """The sums that a coalition knows so far."""
        from protocol.audit.coalition.follows import Follows

        if coalition not in self._follows:
            sessions = [] if self.sums is None else [(self.sums, coalition)]
            self._follows[coalition] = Follows(sessions, self.disclosed)
        return self._follows[coalition]

    def _learned(self, coalition: Coalition) -> Iterable[tuple[Told, PrivacyEvent]]:
        """Each message that reveals something to a coalition, with its event for that coalition."""
        if coalition.everything and not self._passed.covered:
            return [(told, told.event) for told in self._passed.told if told.charge is not None]
        from protocol.audit.reach import learned  # Few runs ask about other observers.

        return learned(self._passed, coalition)

    def _unsigned(self, accounts: Mapping[PartyId, Account]) -> Mapping[PartyId, Account]:
        """The accounts of parties that have not signed, charged the most that they consent to."""
        found = {name: each for name, each in accounts.items() if name not in self._signed}
        if not found:
            return MappingProxyType({})
        bound = self._charging.bound()
        if settled(self.charter.variant):
            # Its events do not depend on what it received, but it may have sent more messages.
            least = bound.record * (1 - _SAME) if math.isfinite(bound.record) else 0.0
            found = {name: each for name, each in found.items() if each.loss.record < least}
        different = {id(each.loss): each.loss for each in found.values()}
        losses = {of: maximum([loss, bound]) for of, loss in different.items()}
        return MappingProxyType(
            {name: Account(name, losses[id(each.loss)], each.trail) for name, each in found.items()}
        )


def merged(ledgers: Sequence[Ledger]) -> Ledger:
    """One observer's ledgers of several sessions, added up by party.

    Attributes of one name are taken to be the same. A party that is unsigned in one session is
    unsigned in the sum.

    Raises:
        ValueError: no ledger is given.
    """
    if not ledgers:
        raise ValueError("expected at least one ledger")
    trails: dict[PartyId, list[Charge]] = {}
    unsigned: dict[PartyId, list[Loss]] = {}
    sizes: dict[str, int] = {}
    for ledger in ledgers:
        # 0 stands for an unknown size.
        known = ledger.sizes or (0,) * len(ledger.attributes)
        for name, size in zip(ledger.attributes, known, strict=True):
            sizes[name] = min(sizes.get(name, size), size)
        for party, account in ledger.everybody.items():
            trails.setdefault(party, []).extend(account.trail)
        unsigned.update({party: [] for party in ledger.unsigned if party not in unsigned})
    for told in (ledger.everybody for ledger in ledgers):
        for party, losses in unsigned.items():
            if party in told:
                losses.append(told[party].loss)
    accounts = _accounts(trails)
    return Ledger(
        ledgers[0].observer,
        {name: each for name, each in accounts.items() if name not in unsigned},
        tuple(sizes),
        tuple(sizes.values()) if all(sizes.values()) else (),
        {
            name: Account(name, total(losses), accounts[name].trail)
            for name, losses in unsigned.items()
        },
    )


def _accounts(trails: Mapping[PartyId, Sequence[Charge]]) -> Mapping[PartyId, Account]:
    # Parties with the same charges share one Loss; most surveys have a handful of different ones.
    shared: dict[tuple[int, ...], Loss] = {}
    accounts = {}
    for party, trail in trails.items():
        key = tuple(id(charge.loss) for charge in trail)
        loss = shared.get(key)
        if loss is None:
            loss = shared[key] = total(charge.loss for charge in trail)
        accounts[party] = Account(party, loss, tuple(trail))
    return MappingProxyType(accounts)


def _sum_reader(charter: Charter) -> SumReader | None:
    if _CONTRIBUTIONS.isdisjoint(charter.codec.names):
        return None
    # Imported late: few surveys sum.
    from protocol.audit.coalition.sums import SumReader

    return SumReader(charter)
