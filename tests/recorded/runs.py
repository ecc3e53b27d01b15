"""Small recorded runs: of surveys, as the product rehearses them, and of given entries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import msgspec
import numpy as np

from protocol import AGGREGATOR, Attribute, Message, PartyId, Records, Survey, Variant
from protocol.audit.disclosure import Disclosure
from protocol.audit.replay import Replay, ReplayWriter
from protocol.audit.walk import steps
from protocol.crypto.merkle import leaf_hash, merkle_root
from protocol.estimators.analysis import Analysis
from protocol.messages import ROLE_STREAM, Declined, Envelope, Head
from protocol.session.charter import Charter
from protocol.session.fates import PASS, Fate, FateRule
from protocol.session.heads import head_statement
from protocol.session.roster import Identity
from protocol.simulation.rehearsal import Rehearsal
from protocol.simulation.setting import Setting, make_setting
from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.transcript.entries import (
    Delivered,
    Departed,
    Entry,
    Header,
    Hindered,
    Refused,
    Restored,
    Sent,
)
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.recorder import Recorder
from protocol.wire.codec import decode_envelope, encode_envelope

SURVEY = Survey(
    "habits",
    (
        Attribute(name="smokes", categories=("no", "yes")),
        Attribute(name="drinks", categories=("never", "seldom", "often")),
    ),
)


def answers(survey: Survey, respondents: int, seed: int = 5) -> Records:
    """Records that a test can have at no risk."""
    drawn = np.random.default_rng(seed).integers(0, survey.sizes, (respondents, len(survey.sizes)))
    return Records(survey, drawn.astype(np.uint8))


def replay_member(charter: Charter, known: Disclosure, entries: Iterable[Entry]) -> Replay:
    """A member's replay by itself."""
    replays = ReplayWriter(charter, [known])
    for step in steps(charter.codec, entries):
        replays.add(step)
    return replays.replays()[known.member]


class Run(Rehearsal):
    """A rehearsal, and what tests look for in one.

    Args:
        setting: who takes part, and with what.
        unsigned: members that run without their keys.
        options: as a rehearsal has them.
    """

    def __init__(
        self, setting: Setting, *, unsigned: Collection[PartyId] = (), **options: Any
    ) -> None:
        keys = {name: key for name, key in setting.identities.items() if name not in unsigned}
        super().__init__(msgspec.structs.replace(setting, identities=keys), **options)

    def said(self, kind: str | None = None, sender: PartyId | None = None) -> list[Envelope]:
        """Every envelope, or those of a kind or a sender."""
        return [
            e for e in self.sent.values() if kind in (None, e.kind) and sender in (None, e.sender)
        ]

    def messages(self, kind: str, sender: PartyId | None = None) -> list[Any]:
        """What was said of a kind."""
        return [self.message(e) for e in self.said(kind, sender)]

    def refusals(self) -> dict[PartyId, str]:
        """Who has refused to go on, and why: that stays with them."""
        return {e.sender: self.endings[e.sender] for e in self.said(Declined.kind())}

    def names(self, bitmap: bytes) -> list[PartyId]:
        """The members in a bitmap."""
        return list(self.charter.roster.members_in(bitmap))

    def disclosed(self, member: PartyId, **changes: object) -> Disclosure:
        """What a member could hand to an auditor."""
        where = self.setting
        own: dict[str, Any] = {
            "stream": where.streams.stream(member, ROLE_STREAM),
            "identity": where.identities[member],
            "records": where.holdings.get(member),
        }
        return Disclosure(member=member, **{**own, **changes})

    def replay(
        self, member: PartyId, entries: Sequence[Entry] | None = None, **changes: object
    ) -> Replay:
        """Whether a member's words follow, on this record or another."""
        told = self.entries if entries is None else entries
        return replay_member(self.charter, self.disclosed(member, **changes), told)

    def follows(self) -> bool | None:
        """Whether the result follows from what the record says the aggregator heard."""
        known = Disclosure(member=AGGREGATOR)
        return replay_member(self.charter, known, self.entries).follows

    def statement(self, party: PartyId) -> bytes:
        """What a party has signed, by the record and the list in its head."""
        said = self.said(sender=party)
        members = self.charter.roster.members
        waits = [
            [
                wait.said,
                wait.kind,
                wait.round,
                [
                    [place, seq, leaf_hash(encode_envelope(self.sent[members[place][0], seq]))]
                    for place, seq in wait.heard
                ],
            ]
            for wait in self.message(said[-1]).waits
        ]
        return head_statement(
            session=self.charter.session,
            sender=party,
            count=len(said) - 1,
            said=merkle_root(map(encode_envelope, said[:-1])),
            heard=merkle_root(map(msgspec.msgpack.encode, waits)),
        )

    def places(self, member: PartyId) -> list[int]:
        """Where a member's words stand, its head left out."""
        return [
            place
            for place, step in enumerate(self.steps)
            if isinstance(step.entry, Sent)
            and step.envelope is not None
            and step.envelope.sender == member
            and step.envelope.kind != Head.kind()
        ]

    def retold(self, place: int, message: Message | bytes) -> list[Entry]:
        """The record with another message, or another body, at a place."""
        entry = self.entries[place]
        assert isinstance(entry, Sent)
        body = message if isinstance(message, bytes) else self.charter.codec.encode(message)
        other = msgspec.structs.replace(decode_envelope(entry.envelope), body=body)
        changed = Sent(at=entry.at, envelope=encode_envelope(other))
        return [*self.entries[:place], changed, *self.entries[place + 1 :]]

    @property
    def result_bytes(self) -> bytes:
        """The published result, encoded."""
        return self.charter.codec.encode(self.published)


def recorded(
    variant: Variant,
    records: Records | int = 6,
    *,
    parties: int | None = None,
    seed: int = 1,
    analysis: Analysis | None = None,
    attempt: int = 1,
    strata: Sequence[str] | None = None,
    **options: Any,
) -> Run:
    """A run of a variant.

    Args:
        records: the answers, or how many respondents there are.
        parties: how many there are; by default one per respondent.
        analysis: what is announced.
        attempt: at the survey.
        strata: of the respondents, where the variant has weights.
        options: as ``Run`` has them.
    """
    if isinstance(records, int):
        records = answers(variant.survey, records)
    setting = make_setting(variant, records, seed=seed, parties=parties, strata=strata)
    charter = msgspec.structs.replace(setting.charter, analysis=analysis, attempt=attempt)
    return Run(msgspec.structs.replace(setting, charter=charter), **options)


def fate_of(
    fate: Fate, sender: str | None = None, kind: str | None = None, *, seq: int | None = None
) -> FateRule:
    """This fate for a sender's envelopes, those of a kind or those of a number."""

    def decide(envelope: Envelope) -> Fate:
        concerned = (
            sender in (None, envelope.sender)
            and kind in (None, envelope.kind)
            and seq in (None, envelope.seq)
        )
        return fate if concerned else PASS

    return decide


class Written(msgspec.Struct, frozen=True):
    """A file, and what was published of it."""

    content: bytes
    checkpoint: SignedCheckpoint | None = None
    digest: bytes = b""

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What is in the file."""
        return tuple(TranscriptReader(self.content))


def written(
    header: Header,
    entries: Iterable[Entry],
    *,
    signer: Identity | None = None,
    complete: bool = True,
    reason: str = "",
    flushed: Collection[int] = (),
    cosigned: Callable[[SignedCheckpoint], str] | None = None,
) -> Written:
    """The record that an aggregator could write of these entries.

    What was sent is of the header's session, whichever it was of.

    Args:
        signer: who signs checkpoints, which are made anew.
        flushed: before which entries a block ends.
        cosigned: makes of the first checkpoint the note that witnesses have cosigned.
    """
    parts: list[bytes] = []
    secret = bytes(32) if header.seed is None else None
    recorder = Recorder(parts.append, header, signer=signer, secret=secret)
    sent: dict[tuple[str, int], Envelope] = {}
    if cosigned is not None and recorder.checkpoint is not None:
        recorder.cosigned(cosigned(recorder.checkpoint))
    for place, entry in enumerate(entries):
        if place in flushed:
            recorder.flush()
        now = entry.at / 1e6
        match entry:
            case Sent():
                envelope = decode_envelope(entry.envelope)
                envelope = msgspec.structs.replace(envelope, session=header.session)
                sent[envelope.sender, envelope.seq] = envelope
                recorder.sent(envelope, now=now)
            case Delivered():
                envelope = msgspec.structs.replace(
                    sent[entry.sender, entry.seq], recipient=entry.recipient
                )
                recorder.delivered(envelope, now=now, repeat=entry.repeat)
            case Departed():
                recorder.departed(entry.party, entry.reason, now=now)
            case Hindered():
                recorder.hindered(sent[entry.sender, entry.seq], now=now)
            case Refused():
                recorder.refused(entry.link, entry.reason, entry.excerpt, now=now)
            case Restored():
                recorder.restore(entry.without, now=now)
    digest = recorder.close(complete, reason)
    return Written(b"".join(parts), recorder.checkpoint, digest)
