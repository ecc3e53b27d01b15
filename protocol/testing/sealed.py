"""Checks of sealed, boxed, hidden and merged messages: declarations that few members can check."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

import numpy as np

from protocol.accounting.events import Hidden, Merged, Merging, layers
from protocol.attack.probes import strongest_probe
from protocol.attack.trials import Pair, Study, whole_runs
from protocol.audit.coalition.coalition import parse_coalition
from protocol.crypto.randomness import Stream, secret_of
from protocol.errors import LocalProtocolError
from protocol.messages import AGGREGATOR, Envelope, Message, PartyId
from protocol.session.machine import Machine
from protocol.session.roles import Boxes, message_topic
from protocol.session.variant import Variant
from protocol.simulation.rehearsal import Rehearsal
from protocol.surveys.records import Records

REDRAWN = 40
"""Number of new draws of the randomness of a service that merges."""

ALONE = 8
"""Number of parties whose ledgers are checked, one by one."""

RUNS = 100
"""The number of runs in which a member looks on."""

VIEWED = 4
"""The number of respondents in these."""

LEVEL = 1e-9
"""The chance that a member's view contradicts a ledger that is right."""

_KEY = 32


def check_events(rehearsal: Rehearsal) -> None:
    """Judge sealed messages without their content, and with it.

    Raises:
        AssertionError: an event depends on sealed content; the error names the kind.
    """
    try:
        rehearsal.events  # noqa: B018  # they are made when they are asked for
    except LocalProtocolError as error:
        raise AssertionError(str(error)) from error


def check_boxes(rehearsal: Rehearsal, member: PartyId, keys: Collection[bytes]) -> None:
    """Look for a member's boxes in its messages.

    Args:
        keys: the first octets of each of its boxes (``Boxes.sealed``).

    Raises:
        AssertionError: a box where it can be copied, or in a field for other content; the error
            names the kind.
    """
    codec = rehearsal.charter.codec
    for envelope in rehearsal.sent.values() if keys else ():
        if envelope.sender != member:
            continue
        message = rehearsal.message(envelope)
        _require(
            message.sealed or not any(key in envelope.body for key in keys),
            f"{envelope.kind!r} holds boxes and is not sealed: whoever sees a box can hand in a "
            "copy of it, and the copy shows in the result",
        )
        fields = [getattr(message, field) for field in codec.held(message)]
        declared = {box[:_KEY].tobytes() for boxes in fields for box in boxes}
        content = codec.content(message)
        _require(
            all(key in declared for key in keys if key in content),
            f"{envelope.kind!r} holds boxes in a field that does not say so: its ArraySpec says "
            "with holds which kind they hold",
        )


def check_merging(rehearsal: Rehearsal) -> None:
    """Exchange the messages of two parties to a service, and compare what it merges.

    Raises:
        AssertionError: a merged message shows who sent what, in any drawn order; the error names
            the kind.
    """
    for service in rehearsal.charter.roster.services:
        heard = rehearsal.heard.get(service, [])
        merges = {
            rehearsal.sent[slot].kind
            for slot, event in rehearsal.events.items()
            if slot[0] == service and any(isinstance(part, Merging) for part in layers(event))
        }
        if not merges:
            continue
        exchanged = _exchanged(rehearsal, heard)
        if exchanged is None:
            continue
        runs = [
            [_said(rehearsal, service, seed, each, merges) for seed in range(REDRAWN)]
            for each in (heard, exchanged)
        ]
        for kind in merges:
            one, other = ([run.get(kind, b"") for run in each] for each in runs)
            _require(
                not _told_apart(one, other),
                f"{kind!r} is said to merge, and it shows which party has sent what: with two "
                f"parties' messages exchanged it is another one in {REDRAWN} runs of {REDRAWN}",
            )


def check_hidden(rehearsal: Rehearsal) -> None:
    """Look for a member that learns by itself what masks are declared to hide.

    Raises:
        AssertionError: names the kind and the member.
    """
    hidden = {
        rehearsal.sent[slot].kind
        for slot, event in rehearsal.events.items()
        if any(isinstance(part, Hidden) for part in layers(event))
    }
    roster = rehearsal.charter.roster
    for member, _ in roster.members[: len(roster.services) + ALONE] if hidden else ():
        for account in rehearsal.ledger(member).everybody.values():
            for charge in account.trail:
                _require(
                    charge.kind not in hidden
                    or all(isinstance(part, Merged) for part in layers(charge.event)),
                    f"{charge.kind!r} is said to be hidden by masks, and {member} alone learns "
                    f"what it hides, of {account.party}",
                )


def check_views(variant: Variant, records: Records, rehearsal: Rehearsal, *, seed: int) -> None:
    """Compare the views of members without records while two respondents exchange their records.

    Merged and hidden messages must not change then. For variants with services, or with such
    events.

    Raises:
        AssertionError: names the member, and the message that changes.
    """
    roster = rehearsal.charter.roster
    covered = any(
        isinstance(part, Hidden | Merging)
        for event in rehearsal.events.values()
        for part in layers(event)
    )
    own = records.codes[0].astype(np.int64)
    sizes = np.array(records.survey.sizes)
    other = np.where(own < sizes / 2, sizes - 1, 0)
    pair = Pair("two respondents exchange their records", records.survey.names, (own, other), True)
    for member in (AGGREGATOR, *roster.services) if covered else ():
        study = Study(
            variant=variant,
            records=records.take(min(VIEWED, len(records))),
            target=0,
            mate=1,
            observer=parse_coalition(member),
            stream=Stream(secret_of(seed)).derive(f"seen by {member}"),
        )
        found = strongest_probe(pair, [whole_runs(study, pair, RUNS)], level=LEVEL, delta=0.0)
        _require(
            not found.accused,
            f"{pair.words}, and {member} alone can tell by at least epsilon {found.lower:.4f}, "
            f"where its ledger says {found.bound:.4f}: {found.right} of {found.guesses} guesses "
            f"were right that went by {found.event}",
        )


def _told_apart(one: Sequence[bytes], other: Sequence[bytes]) -> bool:
    """Check whether some octet always has one value in one list, and another in the other."""
    if len({len(each) for each in (*one, *other)}) != 1:
        return one != other
    columns = zip(zip(*one, strict=True), zip(*other, strict=True), strict=True)
    return any(len({*a}) == len({*b}) == 1 and a != b for a, b in columns)


def _exchanged(rehearsal: Rehearsal, heard: Sequence[Envelope]) -> list[Envelope] | None:
    """Envelopes to a service with the messages of two parties exchanged; None if all are alike."""
    parties = set(rehearsal.charter.roster.parties)
    codec = rehearsal.charter.codec
    messages = [
        (place, envelope, message)
        for place, envelope in enumerate(heard)
        if envelope.sender in parties
        for message in (rehearsal.message(envelope),)
    ]
    for one, other in itertools.combinations(messages, 2):
        alike = message_topic(one[2]) == message_topic(other[2])
        if alike and one[1].sender != other[1].sender:
            if codec.content(one[2]) == codec.content(other[2]):
                continue
            found = list(heard)
            found[one[0]] = _resent(rehearsal, one[1], other[2])
            found[other[0]] = _resent(rehearsal, other[1], one[2])
            return found
    return None


def _resent(rehearsal: Rehearsal, envelope: Envelope, message: Message) -> Envelope:
    setting, sender = rehearsal.setting, envelope.sender
    stream = Stream(secret_of(0)).derive(f"exchanged {sender}")
    boxes = Boxes(
        setting.charter.session, setting.charter.roster, setting.identities[sender], stream
    )
    (found,) = setting.charter.codec.enclose(
        message,
        session=envelope.session,
        sender=sender,
        recipients=(envelope.recipient,),
        seq=envelope.seq,
        seal=boxes.seal,
    )
    return found


def _said(
    rehearsal: Rehearsal,
    service: PartyId,
    seed: int,
    heard: Sequence[Envelope],
    kinds: set[str],
) -> dict[str, bytes]:
    """Messages of some kinds from a service, by kind, with fresh randomness."""
    machine = rehearsal.machine(service, Stream(secret_of(seed)).derive("redrawn"))
    found = dict.fromkeys(kinds, b"")
    for envelope in _play(machine, heard):
        if envelope.kind in kinds:
            content = rehearsal.charter.codec.content(rehearsal.message(envelope))
            found[envelope.kind] += content
    return found


def _play(machine: Machine, heard: Sequence[Envelope]) -> list[Envelope]:
    """Play a member on given envelopes; open waits end after the last."""
    machine.start(0.0)
    said = machine.take()
    for envelope in heard:
        machine.receive(envelope, 0.0)
        said += machine.take()
    while machine.awaited is not None and not machine.finished:
        machine.close_gather(0.0)
        said += machine.take()
    return said


def _require(condition: bool, complaint: str) -> None:
    if not condition:
        raise AssertionError(complaint)
