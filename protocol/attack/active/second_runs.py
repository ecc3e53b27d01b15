"""Second runs: a party is started again with the same randomness, and receives something else.

A deployment remembers and refuses; a machine has no memory. Masking values must be drawn anew for
whatever it receives, or one run reveals what the other one hid. So if a message follows from
something else than in the first run, no long drawn field may be the same, unless all fields are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from protocol.accounting.events import Composed, Hidden, Masked, OneOf, Public, Sealed, layers
from protocol.attack.active.target import Heard
from protocol.attack.active.twins import Conduct
from protocol.attack.active.worlds import Study
from protocol.messages import PartyId, Wait
from protocol.session.charter import Charter

SECRET = 16
"""The fewest bytes of a field that cannot be guessed."""

Slot = tuple[str, int]
"""A kind, and the number of the message within it."""


class Heeded(NamedTuple):
    """A wait that has returned.

    Args:
        said: number of envelopes that the party had sent by then.
        what: the kind and the round that it waited for, and the bodies by sender.
    """

    said: int
    what: tuple[str, int, tuple[tuple[PartyId, bytes], ...]]


class Word(NamedTuple):
    """A message that the party sent.

    Args:
        after: the waits that had returned before.
        judged: whether its event is public, masked or hidden.
        fields: those of ``SECRET`` bytes or more, if the hostile members read it.
    """

    after: tuple[object, ...]
    judged: bool
    fields: dict[str, bytes]


def words_sent(
    study: Study, conduct: Conduct, heard: Sequence[Heard], waits: Sequence[Wait]
) -> dict[Slot, Word]:
    """Messages that a party has sent in a run, with the waits before them.

    Args:
        waits: of its machine.
    """
    heeded = _heeded(study.charter, heard, waits)
    counts: Counter[str] = Counter()
    words = {}
    for envelope, _, event in (word for act in conduct.acts for word in act.words(seen=True)):
        every = () if event is None else layers(event)
        parts = [part for part in every if not isinstance(part, Sealed | Composed | OneOf)]
        opens = envelope.kind not in study.grammar.sealed or envelope.recipient in study.hostile
        fields = study.grammar.octets(envelope.kind, study.content(envelope)) if opens else {}
        long = {name: octets for name, octets in fields.items() if len(octets) >= SECRET}
        words[envelope.kind, counts[envelope.kind]] = Word(
            tuple(one.what for one in heeded if one.said <= envelope.seq),
            bool(parts) and all(isinstance(one, Public | Masked | Hidden) for one in parts),
            long,
        )
        counts[envelope.kind] += 1
    return words


def _heeded(charter: Charter, heard: Sequence[Heard], waits: Sequence[Wait]) -> list[Heeded]:
    envelopes = [one.envelope for one in heard if one.envelope is not None]
    bodies = {(envelope.sender, envelope.seq): envelope.body for envelope in envelopes}
    members = [name for name, _ in charter.roster.members]
    found = []
    for wait in waits:
        senders = [(members[at], seq) for at, seq in wait.heard]
        received = tuple((sender, bodies.get((sender, seq), b"")) for sender, seq in senders)
        found.append(Heeded(wait.said, (wait.kind, wait.round, received)))
    return found


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
