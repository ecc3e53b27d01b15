"""A small run whose parties sign their heads and whose aggregator signs checkpoints, for tests."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import msgspec

from protocol import AGGREGATOR, PartyId, Variant
from protocol.messages import Head
from protocol.session.roster import Identity
from protocol.simulation.setting import Setting, make_setting
from protocol.transcript.entries import Delivered, Entry, Sent
from protocol.transcript.reader import TranscriptReader
from protocol.variants import RRIndependent
from protocol.wire.codec import decode_envelope, encode_envelope
from tests.recorded.runs import SURVEY, Run, Written, answers, written
from transports.faults import Fault, faults

VARIANT = RRIndependent.with_keep(SURVEY, 0.6)
PARTIES = 7
ONE, TWO, THREE = (PartyId(f"party-{i}") for i in (1, 2, 3))


@functools.cache
def setting(variant: Variant = VARIANT, parties: int = PARTIES, seed: int = 1) -> Setting:
    """Who takes part, with one record each."""
    return make_setting(variant, answers(variant.survey, parties, seed), seed=seed)


def finished_run(
    where: Setting, rules: Sequence[Fault] = (), *, unsigned: Sequence[PartyId] = ()
) -> Run:
    """Run a survey, and sign its checkpoints."""
    return Run(where, fate=faults(rules, seed=1), unsigned=unsigned, signed=True)


@functools.cache
def signed_run() -> Run:
    """The run that most tests tamper with."""
    return finished_run(setting())


def envelopes(run: Run, sender: PartyId) -> list[bytes]:
    """What a member has said in a run, encoded."""
    return [encode_envelope(envelope) for envelope in run.said(sender=sender)]


def rewritten(
    run: Run,
    change: Callable[[list[Entry]], list[Entry]] = lambda entries: entries,
    *,
    signer: Identity | None = None,
) -> Written:
    """The run as its aggregator could write it afresh, with its own key but no party's.

    Log, digest and checkpoints are made anew, and envelopes numbered anew; heads stay as they
    are, unless ``change`` takes them out.
    """
    numbers: dict[PartyId, int] = {}
    anew: dict[tuple[PartyId, int], int] = {}
    entries: list[Entry] = []
    for entry in change(run.entries):
        if isinstance(entry, Sent):
            envelope = decode_envelope(entry.envelope)
            seq = numbers.get(envelope.sender, 0)
            numbers[envelope.sender] = seq + 1
            anew[envelope.sender, envelope.seq] = seq
            other = encode_envelope(msgspec.structs.replace(envelope, seq=seq))
            entry = msgspec.structs.replace(entry, envelope=other)
        elif isinstance(entry, Delivered):
            entry = msgspec.structs.replace(entry, seq=anew[entry.sender, entry.seq])
        entries.append(entry)
    header = TranscriptReader(run.content).header
    return written(header, entries, signer=signer or setting().identities[AGGREGATOR])


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
