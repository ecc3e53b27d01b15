"""Second runs: a party that is started again, with the same randomness, and hears something else.

A deployment keeps a memory and refuses; a machine has none. Whatever it hears, what hides its
answers must be drawn anew for it: else one run gives away what the other one hid. So of a message
that follows from something else than in the first run, no long field that is drawn may be the same,
unless all of it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from protocol.accounting.events import Masked, Public, single_events
from protocol.attack.active.edits import Grammar
from protocol.attack.active.target import Heard
from protocol.attack.active.twins import Conduct
from protocol.messages import PartyId, Wait
from protocol.session.charter import Charter

SECRET = 16
"""The fewest bytes of a field that nobody guesses."""

Slot = tuple[str, int]
"""A kind, and which message of this kind."""


class Heeded(NamedTuple):
    """A wait that has returned.

    Args:
        said: how many envelopes the party had said by then.
        what: the kind and the round that it waited for, and what it got of whom.
    """

    said: int
    what: tuple[str, int, tuple[tuple[PartyId, bytes], ...]]


class Word(NamedTuple):
    """A message that was said.

    Args:
        after: what had been heeded before.
        judged: whether it claims to tell nothing, or nothing but a sum.
        fields: those of ``SECRET`` bytes or more.
    """

    after: tuple[object, ...]
    judged: bool
    fields: dict[str, bytes]


def words_of(
    charter: Charter,
    grammar: Grammar,
    conduct: Conduct,
    heard: Sequence[Heard],
    waits: Sequence[Wait],
) -> dict[Slot, Word]:
    """What a party has said in a run, and after what.

    Args:
        waits: those of its machine.
    """
    heeded = _heeded(charter, heard, waits)
    counts: Counter[str] = Counter()
    words = {}
    events = [event for act in conduct.acts for event in act.events]
    for number, (envelope, event) in enumerate(zip(conduct.said, events, strict=True)):
        parts = [] if event is None else list(single_events(event))
        long = {
            name: octets
            for name, octets in grammar.octets(envelope.kind, envelope.body).items()
            if len(octets) >= SECRET
        }
        words[envelope.kind, counts[envelope.kind]] = Word(
            tuple(one.what for one in heeded if one.said <= number),
            bool(parts) and all(isinstance(one, Public | Masked) for one in parts),
            long,
        )
        counts[envelope.kind] += 1
    return words


def _heeded(charter: Charter, heard: Sequence[Heard], waits: Sequence[Wait]) -> list[Heeded]:
    envelopes = [one.envelope for one in heard if one.envelope is not None]
    bodies = {(envelope.sender, envelope.seq): envelope.body for envelope in envelopes}
    members = [name for name, _ in charter.roster.members]
    return [
        Heeded(
            wait.said,
            (
                wait.kind,
                wait.round,
                tuple((members[at], bodies.get((members[at], seq), b"")) for at, seq in wait.heard),
            ),
        )
        for wait in waits
    ]


def drawn_fields(first: dict[Slot, Word], other: dict[Slot, Word]) -> frozenset[tuple[Slot, str]]:
    """The long fields that differ between two runs with different randomness."""
    return frozenset(
        (slot, name)
        for slot, word in first.items()
        if slot in other
        for name, octets in word.fields.items()
        if octets != other[slot].fields.get(name)
    )


def repeated(
    first: dict[Slot, Word], second: dict[Slot, Word], drawn: frozenset[tuple[Slot, str]]
) -> list[tuple[str, str]]:
    """Kind and name of fields that are the same in two runs and should not be.

    Args:
        drawn: the fields that depend on the party's randomness.
    """
    found = []
    for slot, word in second.items():
        before = first.get(slot)
        if before is None or before.after == word.after or not (word.judged and before.judged):
            continue
        fields = [name for name in word.fields if (slot, name) in drawn]
        same = [name for name in fields if word.fields[name] == before.fields.get(name)]
        if same and len(same) < len(fields):
            found += [(slot[0], name) for name in same]
    return found
