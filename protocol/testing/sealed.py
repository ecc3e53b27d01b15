"""Checks of the declarations of sealed, boxed, hidden and merged content."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

from protocol.accounting.events import Hidden, Merged, Merging, layers
from protocol.attack.probes import strongest_probe
from protocol.attack.trials import Study, distant_pair, whole_runs
from protocol.audit.coalition.coalition import parse_coalition
from protocol.crypto.randomness import Stream, secret_of
from protocol.errors import LocalProtocolError
from protocol.messages import AGGREGATOR, Envelope, Message, PartyId
from protocol.session.machine import Machine
from protocol.session.roles import Boxes, message_topic
from protocol.session.variant import Variant
from protocol.simulation.rehearsal import Rehearsal
from protocol.surveys.records import Records
from protocol.testing.collected import require

REDRAWN = 40
"""Number of times that the randomness of a merging service is drawn anew."""

ALONE = 8
"""The number of parties with ledgers that are checked."""

RUNS = 100
"""The number of runs that a member observes."""

VIEWED = 4
"""The number of respondents in these runs."""

LEVEL = 1e-9
"""The chance that a member's view contradicts a ledger that is right."""

_KEY = 32


def check_events(rehearsal: Rehearsal) -> None:
    """Check that no event depends on sealed content.

    Raises:
        AssertionError: one does; names the kind.
    """
    try:
        rehearsal.events  # noqa: B018  # this makes them
    except LocalProtocolError as error:
        raise AssertionError(str(error)) from error


def check_boxes(rehearsal: Rehearsal, member: PartyId, keys: Collection[bytes]) -> None:
    """Check the places of a member's boxes in the messages that it sent.

    Args:
        keys: the first octets of each of its boxes (``Boxes.sealed``).

    Raises:
        AssertionError: a box outside a sealed kind, where it can be copied, or outside a declared
            field; names the kind.
    """
    codec = rehearsal.charter.codec
    for envelope in rehearsal.sent.values() if keys else ():
        if envelope.sender != member:
            continue
        message = rehearsal.message(envelope)
        require(
            message.sealed or not any(key in envelope.body for key in keys),
            f"{envelope.kind!r} holds boxes and is not sealed: whoever sees a box can hand in a "
            "copy of it, and the copy shows in the result",
        )
        fields = [getattr(message, field) for field in codec.held(message)]
        declared = {box[:_KEY].tobytes() for boxes in fields for box in boxes}
        content = codec.content(message)
        require(
            all(key in declared for key in keys if key in content),
            f"{envelope.kind!r} holds boxes in a field that does not say so: its ArraySpec says "
            "with holds which kind they hold",
        )


def check_merging(rehearsal: Rehearsal) -> None:
    """Compare a service's merged messages with those after two parties exchanged theirs.

    Raises:
        AssertionError: a merged message shows its senders under every randomness; names the kind.
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
            require(
                not _distinguishable(one, other),
                f"{kind!r} is said to merge, and it shows which party has sent what: with two "
                f"parties' messages exchanged it is another one in {REDRAWN} runs of {REDRAWN}",
            )


def check_hidden(rehearsal: Rehearsal) -> None:
    """Check that no single member learns a value that masks are declared to hide.

    Raises:
        AssertionError: one does; names the kind and the member.
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
                require(
                    charge.kind not in hidden
                    or all(isinstance(part, Merged) for part in layers(charge.event)),
                    f"{charge.kind!r} is said to be hidden by masks, and {member} alone learns "
                    f"what it hides, of {account.party}",
                )


def check_views(variant: Variant, records: Records, rehearsal: Rehearsal, *, seed: int) -> None:
    """Attack the view of each member without records while two respondents exchange records.

    Merged and hidden messages may not change then. Only variants with such events are checked.

    Raises:
        AssertionError: a member can tell; names it, and the message.
    """
    roster = rehearsal.charter.roster
    covered = any(
        isinstance(part, Hidden | Merging)
        for event in rehearsal.events.values()
        for part in layers(event)
    )
    pair = distant_pair("two respondents exchange their records", records, exchanged=True)
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
        require(
            not found.accused,
            f"{pair.words}, and {member} alone can tell by at least epsilon {found.lower:.4f}, "
            f"where its ledger says {found.bound:.4f}: {found.right} of {found.guesses} guesses "
            f"were right that went by {found.event}",
        )


def _distinguishable(one: Sequence[bytes], other: Sequence[bytes]) -> bool:
    """True if an octet has one value in all of one list, and another in all of the other."""
    if len({len(each) for each in (*one, *other)}) != 1:
        return one != other
    columns = zip(zip(*one, strict=True), zip(*other, strict=True), strict=True)
    return any(len({*a}) == len({*b}) == 1 and a != b for a, b in columns)


def _exchanged(rehearsal: Rehearsal, heard: Sequence[Envelope]) -> list[Envelope] | None:
    """Envelopes to a service with the messages of two parties exchanged; None if all are alike."""
    parties = set(rehearsal.charter.roster.parties)
    codec = rehearsal.charter.codec
    places = [place for place, envelope in enumerate(heard) if envelope.sender in parties]
    messages = {place: rehearsal.message(heard[place]) for place in places}
    for one, other in itertools.combinations(places, 2):
        first, second = messages[one], messages[other]
        if heard[one].sender == heard[other].sender:
            continue
        if message_topic(first) != message_topic(second):
            continue
        if codec.content(first) != codec.content(second):
            found = list(heard)
            found[one] = _resent(rehearsal, heard[one], second)
            found[other] = _resent(rehearsal, heard[other], first)
            return found
    return None


def _resent(rehearsal: Rehearsal, envelope: Envelope, message: Message) -> Envelope:
    """An envelope with another message."""
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
    """Messages of a member that receives these envelopes; open waits are closed at the end."""
    machine.start(0.0)
    said = machine.take()
    for envelope in heard:
        machine.receive(envelope, 0.0)
        said += machine.take()
    while machine.awaited is not None and not machine.finished:
        machine.close_gather(0.0)
        said += machine.take()
    return said
