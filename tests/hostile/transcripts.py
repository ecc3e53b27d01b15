"""Transcripts of every variant, changed in structure and in bytes, most of them sealed anew."""

from __future__ import annotations

import functools
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from protocol import AGGREGATOR, RECORD, ProtocolError
from protocol.session.charter import Charter
from protocol.session.roster import Roster
from protocol.session.variant import build
from protocol.variants import BUILT_IN
from tests.every_variant import examples
from tests.hostile.drafts import ENDING, SENT, Draft, draft_of, file_of, pack, sealed, unsealed
from tests.hostile.values import TEXTS, changed, extreme, octets
from tests.recorded.runs import recorded

PARTIES = 6


@functools.cache
def sources() -> tuple[tuple[str, Draft, Draft], ...]:
    """Of every variant its name, a signed run and another run of the same terms."""
    found = []
    for example in examples():
        one, other = (
            draft_of(recorded(example.variant, example.records, parties=PARTIES, **options))
            for options in ({"signed": True}, {"seed": 2, "signed": True, "seeded": False})
        )
        found.append((example.name, one, other))
    return tuple(found)


def mutated(random: Random) -> tuple[str, bytes]:
    """What was done to which transcript, and its file."""
    name, one, other = random.choice(sources())
    if random.random() < 0.3:
        one, other = other, one
    draft = one.copied()
    done = []
    for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
        change = random.choice(_CHANGES)
        done.append(change.__name__.strip("_"))
        change(draft, other, random)
    seal = random.random()
    if seal < 0.85:
        records = sealed(draft, heads=random.random() < 0.8, signed=random.random() < 0.9)
    else:
        done.append("unsealed")
        records = unsealed(draft)
    content = file_of(records, draft.secret, wrap=random.random() < 0.7)
    if random.random() < 0.1:
        done.append("bytes")
        content = damaged(content, random)
    return f"{name}: {', '.join(done)}", content


def damaged(content: bytes, random: Random) -> bytes:
    """A file with bytes flipped, taken out, doubled, put in, or the end torn off."""
    place = random.randrange(len(content) + 1)
    end = min(len(content), place + random.choice((1, 4, 64, 1000)))
    piece = content[place:end]
    flipped = bytearray(content)
    for _ in range(random.choice((1, 1, 3, 20))):
        if flipped:
            flipped[random.randrange(len(flipped))] ^= random.randrange(1, 256)
    return random.choice(
        (
            bytes(flipped),
            bytes(flipped),
            content[:place],
            content[:place] + content[end:],
            content[:end] + piece + content[end:],
            content[:place] + random.randbytes(len(piece)) + content[end:],
            content + content,
            content + random.randbytes(7),
        )
    )


def _place(draft: Draft, random: Random) -> int:
    return random.randrange(len(draft.items)) if draft.items else 0


def _dropped(draft: Draft, other: Draft, random: Random) -> None:
    place = _place(draft, random)
    del draft.items[place : place + random.choice((1, 1, 1, 3, 20))]


def _doubled(draft: Draft, other: Draft, random: Random) -> None:
    place = _place(draft, random)
    some = draft.items[place : place + random.choice((1, 1, 5))]
    draft.items[place:place] = some * random.choice((1, 1, 2, 20))


def _swapped(draft: Draft, other: Draft, random: Random) -> None:
    if draft.items:
        one, two = _place(draft, random), _place(draft, random)
        draft.items[one], draft.items[two] = draft.items[two], draft.items[one]


def _moved(draft: Draft, other: Draft, random: Random) -> None:
    if draft.items:
        item = draft.items.pop(_place(draft, random))
        draft.items.insert(_place(draft, random), item)


def _shuffled(draft: Draft, other: Draft, random: Random) -> None:
    place = _place(draft, random)
    part = draft.items[place : place + 20]
    random.shuffle(part)
    draft.items[place : place + 20] = part


def _renumbered(draft: Draft, other: Draft, random: Random) -> None:
    """As an honest recorder would number what is there."""
    numbers: dict[Any, int] = {}
    for envelope in draft.envelopes():
        if isinstance(envelope[1], str):
            envelope[3] = numbers.get(envelope[1], 0)
            numbers[envelope[1]] = envelope[3] + 1


def _another_field(draft: Draft, other: Draft, random: Random) -> None:
    if draft.items:
        place = _place(draft, random)
        draft.items[place] = changed(draft.items[place], random)


def _another_envelope(draft: Draft, other: Draft, random: Random) -> None:
    envelopes = draft.envelopes()
    if envelopes:
        envelope = random.choice(envelopes)
        place = random.randrange(6)
        if place in (1, 2):
            envelope[place] = random.choice((*draft.identities, RECORD, *TEXTS))
        elif place == 4:
            envelope[4] = random.choice([each[4] for each in envelopes])
        else:
            envelope[place] = changed(envelope[place], random)


def _another_body(draft: Draft, other: Draft, random: Random) -> None:
    envelopes = draft.envelopes()
    for _ in range(random.choice((1, 1, 2, 5))):
        if envelopes:
            envelope = random.choice(envelopes)
            if isinstance(envelope[5], bytes):
                envelope[5] = octets(envelope[5], random)


def _exchanged_bodies(draft: Draft, other: Draft, random: Random) -> None:
    envelopes = draft.envelopes()
    if envelopes:
        one, two = random.choice(envelopes), random.choice(draft.envelopes() + other.envelopes())
        one[4], one[5] = (two[4] if random.random() < 0.8 else one[4]), two[5]


def _spliced(draft: Draft, other: Draft, random: Random) -> None:
    """Goes on with entries of another run."""
    place = _place(other, random)
    some = [
        [*item[:2], list(item[2])] if item[0] == SENT else list(item)
        for item in other.items[place : place + random.choice((1, 3, 10, 100))]
    ]
    for item in some:
        if item[0] == SENT and item[2][0] == other.header["session"]:
            item[2][0] = draft.header.get("session")
    place = _place(draft, random)
    draft.items[place:place] = some


def _delivered(draft: Draft, other: Draft, random: Random) -> None:
    names = (*draft.identities, *TEXTS[:8])
    pick = random.choice
    entry = ["Delivered", 5, pick(names), pick(names), pick((0, 1, 2, 3)), random.random() < 0.2]
    draft.items.insert(_place(draft, random), entry)


def _hindered(draft: Draft, other: Draft, random: Random) -> None:
    names = (*draft.identities, *TEXTS[:8])
    pick = random.choice
    place, entry = _place(draft, random), ["Hindered", 5, pick(names), pick(names), pick((0, 1, 2))]
    before = draft.items[place - 1] if place else None
    if before is not None and before[0] == SENT and random.random() < 0.7:
        entry[2:] = before[2][1:4]
    draft.items.insert(place, entry)


def _departed(draft: Draft, other: Draft, random: Random) -> None:
    name = random.choice((*draft.identities, *TEXTS))
    entry = ["Departed", 5, name, random.choice(("closed its link", "", "a" * 1024, "\x1b[2J"))]
    draft.items.insert(_place(draft, random), entry)


def _refused(draft: Draft, other: Draft, random: Random) -> None:
    name = random.choice((*draft.identities, *TEXTS))
    entry = ["Refused", 5, name, random.choice(TEXTS)[:1024], bytes(random.choice((0, 256)))]
    draft.items.insert(_place(draft, random), entry)


def _closed(draft: Draft, other: Draft, random: Random) -> None:
    """Another closing: of any kind and round, of anybody."""
    closings = [each for each in draft.envelopes() if each[4] == "Closed"]
    if closings:
        envelope = random.choice(closings)
        kinds = [each[4] for each in draft.envelopes() if isinstance(each[4], str)]
        bits = random.choice((bytes(1), b"\xff", b"\xfe", b"\x7e", b"", bytes(512), b"\xff" * 512))
        envelope[5] = pack(
            [
                random.choice(kinds),
                random.choice((-1, 0, 1, 2, 2**63 - 1)),
                random.choice((0, 0, 0, 1, 4096, 2**62)),
                random.choice((b"\x7e", b"\xfe", bits)),
                bits,
            ]
        )


def _another_end(draft: Draft, other: Draft, random: Random) -> None:
    ends = [item for item in draft.items if isinstance(item, list) and item[:1] == [ENDING]]
    for item in ends:
        if len(item) == 6:
            item[4], item[5] = random.random() < 0.5, random.choice(TEXTS)[:1024]
    if random.random() < 0.3:
        draft.items[:] = [item for item in draft.items if item not in ends]


def _header(draft: Draft, other: Draft, random: Random) -> None:
    name = random.choice([name for name in draft.header if name != "session"])
    draft.header[name] = changed(draft.header[name], random)
    if random.random() < 0.05:
        del draft.header[random.choice(list(draft.header))]


def _roster(draft: Draft, other: Draft, random: Random) -> None:
    draft.header["roster"] = changed(draft.header.get("roster"), random)


def _kinds(draft: Draft, other: Draft, random: Random) -> None:
    draft.header["kinds"] = changed(draft.header.get("kinds"), random)


def _terms(draft: Draft, other: Draft, random: Random) -> None:
    """Other terms, with the kinds of message that they have."""
    header = draft.header
    what = random.choice(("parameters", "parameters", "survey", "analysis", "variant"))
    if what == "variant":
        header["variant"] = random.choice(list(BUILT_IN))
    elif what == "analysis" and header.get("analysis") is None:
        names = ["a", "b", "c"]
        header["analysis"] = {
            "tables": [[random.choice(names)] for _ in range(3)],
            "level": 0.9,
            "projection": "clip",
        }
    else:
        header[what] = changed(header.get(what), random)
    try:
        parameters, survey = header["parameters"], header["survey"]
        charter = Charter(
            variant=build(BUILT_IN[header["variant"]], parameters=parameters, survey=survey),
            roster=Roster(tuple((name, key) for name, key in header["roster"])),
        )
        header["kinds"] = msgspec.msgpack.decode(msgspec.msgpack.encode(charter.codec.schemas))
    except (ProtocolError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
        pass


def _nasty(draft: Draft, other: Draft, random: Random) -> None:
    """Something that is not an entry, or an entry in which a value is not what it must be."""
    value = extreme(random)
    if random.random() < 0.5 and draft.items:
        place = _place(draft, random)
        if isinstance(draft.items[place], list) and draft.items[place]:
            draft.items[place][random.randrange(len(draft.items[place]))] = value
            return
    draft.items.insert(_place(draft, random), value)


_CHANGES: tuple[Callable[[Draft, Draft, Random], None], ...] = (
    _dropped,
    _doubled,
    _swapped,
    _moved,
    _shuffled,
    _renumbered,
    _another_field,
    _another_envelope,
    *(_another_body,) * 8,
    _exchanged_bodies,
    _spliced,
    _delivered,
    _hindered,
    _departed,
    _refused,
    *(_closed,) * 3,
    _another_end,
    _header,
    _roster,
    _kinds,
    *(_terms,) * 2,
    _nasty,
)

OBSERVERS = (AGGREGATOR, "party-1", RECORD)
