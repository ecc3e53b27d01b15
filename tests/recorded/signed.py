"""A small run whose parties sign their heads and whose aggregator signs checkpoints, for tests."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from protocol.messages import AGGREGATOR, Envelope, Head, PartyId
from protocol.session.exchange import Exchange
from protocol.session.local import run_locally
from protocol.session.roster import Identity
from protocol.session.variant import Variant
from protocol.simulation.setting import Setting, setting_of
from protocol.surveys.records import Records
from protocol.surveys.survey import Attribute, Survey
from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.transcript.entries import Checkpoint, Delivered, Departed, Entry, Refused, Sent
from protocol.transcript.header import header_of
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.recorder import Recorder
from protocol.variants import RRIndependent
from protocol.wire.codec import decode_envelope, encode_envelope
from transports.faults import Fault, faults

SURVEY = Survey(
    "habits",
    (
        Attribute(name="smokes", categories=("no", "yes")),
        Attribute(name="sleeps", categories=("ill", "well", "soundly")),
    ),
)
VARIANT = RRIndependent.with_keep(SURVEY, 0.6)
PARTIES = 7
ONE, TWO, THREE = (PartyId(f"party-{i}") for i in (1, 2, 3))


@functools.cache
def setting(variant: Variant = VARIANT, parties: int = PARTIES, seed: int = 1) -> Setting:
    """Who takes part, with one record each."""
    drawn = np.random.default_rng(seed).integers(0, variant.survey.sizes, (parties, 2))
    records = Records.from_codes(variant.survey, drawn.astype(np.uint8))
    return setting_of(variant, records, seed=seed)


class Run(msgspec.Struct, frozen=True):
    """A run's file and what its aggregator published."""

    content: bytes
    checkpoint: SignedCheckpoint

    @property
    def entries(self) -> list[Entry]:
        """What is in the file."""
        return list(TranscriptReader(self.content))


def run_of(where: Setting, rules: Sequence[Fault] = (), *, unsigned: Sequence[PartyId] = ()) -> Run:
    """Run a survey.

    Args:
        unsigned: parties that run without their keys.
    """
    parts: list[bytes] = []
    signer = where.identities[AGGREGATOR]
    recorder = Recorder(parts.append, header_of(where.charter, seed=where.seed), signer=signer)
    exchange = Exchange(where.charter, recorder=recorder, fate=faults(rules, seed=1))
    keys = {name: key for name, key in where.identities.items() if name not in unsigned}
    run_locally(exchange, where.streams, where.holdings, identities=keys)
    recorder.close()
    assert recorder.checkpoint is not None
    return Run(b"".join(parts), recorder.checkpoint)


@functools.cache
def signed_run() -> Run:
    """The run that most tests tamper with."""
    return run_of(setting())


def envelopes(run: Run, sender: PartyId) -> list[bytes]:
    """What a member has said in a run, encoded."""
    return [
        entry.envelope
        for entry in run.entries
        if isinstance(entry, Sent) and decode_envelope(entry.envelope).sender == sender
    ]


def rewritten(
    run: Run,
    change: Callable[[list[Entry]], list[Entry]] = lambda entries: entries,
    *,
    signer: Identity | None = None,
) -> Run:
    """The run as its aggregator could write it afresh, with its own key but no party's.

    Chain, digest and checkpoints are made anew, and envelopes numbered anew; heads stay as they
    are, unless ``change`` takes them out.
    """
    reader = TranscriptReader(run.content)
    parts: list[bytes] = []
    signer = signer or setting().identities[AGGREGATOR]
    recorder = Recorder(parts.append, reader.header, signer=signer)
    numbers: dict[PartyId, int] = {}
    renumbered: dict[tuple[PartyId, int], Envelope] = {}
    for entry in change([e for e in reader if not isinstance(e, Checkpoint)]):
        now = entry.at / 1e6
        match entry:
            case Sent():
                envelope = decode_envelope(entry.envelope)
                slot = envelope.sender, envelope.seq
                seq = numbers.get(envelope.sender, 0)
                numbers[envelope.sender] = seq + 1
                renumbered[slot] = envelope = msgspec.structs.replace(envelope, seq=seq)
                recorder.sent(envelope, now=now)
            case Delivered():
                envelope = renumbered[entry.sender, entry.seq]
                recorder.delivered(envelope, now=now, repeat=entry.repeat)
            case Departed():
                recorder.departed(entry.party, entry.reason, now=now)
            case Refused():
                recorder.refused(entry.link, entry.reason, entry.excerpt, now=now)
    recorder.close()
    assert recorder.checkpoint is not None
    return Run(b"".join(parts), recorder.checkpoint)


def without(
    *, sender: PartyId, kinds: Sequence[str] = (), but: Sequence[str] = ()
) -> Callable[[list[Entry]], list[Entry]]:
    """Leaves out what a member has said: these kinds, or all but those."""

    def change(entries: list[Entry]) -> list[Entry]:
        gone: set[int] = set()
        kept: list[Entry] = []
        for entry in entries:
            if isinstance(entry, Sent):
                envelope = decode_envelope(entry.envelope)
                if envelope.sender == sender and (
                    envelope.kind in kinds if kinds else envelope.kind not in but
                ):
                    gone.add(envelope.seq)
                    continue
            elif isinstance(entry, Delivered) and entry.sender == sender and entry.seq in gone:
                continue
            kept.append(entry)
        return kept

    return change


def changed_report(sender: PartyId, *, head: bool = True) -> Callable[[list[Entry]], list[Entry]]:
    """Puts another report into a party's mouth.

    Args:
        head: whether its head stays.
    """

    def change(entries: list[Entry]) -> list[Entry]:
        changed: list[Entry] = []
        for entry in entries:
            if isinstance(entry, Sent):
                envelope = decode_envelope(entry.envelope)
                if envelope.sender == sender and envelope.kind == "Report":
                    body = envelope.body[:-1] + bytes([(envelope.body[-1] + 1) % 3])
                    forged = msgspec.structs.replace(envelope, body=body)
                    entry = msgspec.structs.replace(entry, envelope=encode_envelope(forged))
                elif envelope.sender == sender and envelope.kind == Head.kind() and not head:
                    continue
            changed.append(entry)
        return changed

    return change
