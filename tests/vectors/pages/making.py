"""Reports and posts of a party, made by the program's own machines from given words."""

from __future__ import annotations

import base64
import hashlib
import itertools
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol import (
    AGGREGATOR,
    FakeData,
    HadamardResponse,
    LocalHashing,
    OneBitMean,
    PartyId,
    PrivKV,
    Randomizer,
    Records,
    Stream,
    SubsetSelection,
    UnaryEncoding,
    Variant,
    secret_of,
)
from protocol.crypto.randomness import WORDS, Streams, public_nonce
from protocol.messages import ROLE_STREAM, Envelope
from protocol.session.charter import Charter
from protocol.session.machine import Machine
from protocol.session.roster import Identity, Roster
from protocol.transcript.checkpoints import sign_checkpoint
from protocol.wire.codec import encode_envelope
from tests.vectors.pages.settings import Case
from tests.vectors.pages.showing import shown_of

MOST_CHOSEN = 12
"""So many words of a report are chosen at most; what follows them is hashed."""

ENUMERATED = 9


class Given(Stream):
    """A stream of given words, then of hashes of a name; it is its own child.

    Attributes:
        used: how many words were drawn.
    """

    def __init__(self, chosen: Sequence[int], name: str) -> None:
        super().__init__(bytes(32))
        self.used = 0
        self._words = itertools.chain(chosen, hashed_words(name))

    def derive(self, purpose: str) -> Stream:
        assert purpose.startswith("answer ")
        return self

    def bytes(self, n: int) -> bytes:
        raise AssertionError("a report is drawn from words")

    def words(self, n: int) -> NDArray[np.uint64]:
        self.used += n
        return np.array(list(itertools.islice(self._words, n)), np.uint64)


def hashed_words(name: str) -> Iterator[int]:
    """Four words of each SHA-256 of the name and a number of 4 bytes, all little-endian."""
    for number in itertools.count():
        block = hashlib.sha256(name.encode() + number.to_bytes(4, "little")).digest()
        for at in range(0, 32, 8):
            yield int.from_bytes(block[at : at + 8], "little")


class Survey(NamedTuple):
    """A survey that has begun, and one place of it.

    Args:
        charter: of the attempt.
        party: the place's id.
        identities: of the aggregator and the party.
        seed: the party's key.
        question: its envelope.
    """

    charter: Charter
    party: PartyId
    identities: dict[PartyId, Identity]
    seed: bytes
    question: Envelope

    @property
    def terms(self) -> bytes:
        """What ``GET /terms`` gives."""
        charter = self.charter
        agreed = msgspec.msgpack.encode(tuple(charter.agreed), order="deterministic")
        note = None
        if charter.attempt > 1:
            signer = self.identities[AGGREGATOR]
            note = sign_checkpoint(signer, session=charter.session, size=1, root=bytes(32)).note
        roster = charter.roster
        values = (agreed, charter.attempt, roster.root, len(roster), note)
        return msgspec.msgpack.encode(values)

    @property
    def place(self) -> bytes:
        """What ``GET /place/ID`` gives."""
        roster = self.charter.roster
        at = roster.position[self.party]
        own, asks = roster.inclusion_path_at(at), roster.inclusion_path_at(0)
        values = (at, own, roster.key(AGGREGATOR), asks, encode_envelope(self.question))
        return msgspec.msgpack.encode(values)

    @property
    def link(self) -> str:
        """What a link has after its ``#``."""
        return ".".join((self.party, url64(self.seed), url64(self.charter.survey_id)))

    def machine(self, stream: Stream, codes: Sequence[int], budget: float | None = None) -> Machine:
        """The party with its record, after it was asked."""
        machine = Machine(
            self.charter,
            self.party,
            stream,
            records=Records(self.charter.variant.survey, np.array([codes], np.int64)),
            identity=self.identities[self.party],
            budget=budget,
        )
        machine.start(0.0)
        machine.receive(self.question, 0.0)
        return machine


def url64(content: bytes) -> str:
    """base64url without padding."""
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def seed_of(name: str) -> bytes:
    return hashlib.sha256(b"seed of " + name.encode()).digest()


def begun(case: Case) -> Survey:
    """The survey of a setting; its roster and the party's place follow from its name."""
    draw = random.Random(case.name)
    names = (AGGREGATOR, *(PartyId(f"p-{i:03}") for i in range(1, draw.randint(2, 12))))
    keys = {name: Identity(name, seed_of(f"{case.name} {name}")) for name in names}
    party = draw.choice(names[1:])
    charter = Charter(
        variant=case.variant,
        roster=Roster(tuple((name, keys[name].public) for name in names)),
        nonce=hashlib.sha256(case.name.encode()).digest()[:16],
        analysis=case.analysis,
        attempt=case.attempt,
        enrolled=(("pages", len(names) - 1),),
    )
    identities = {name: keys[name] for name in (AGGREGATOR, party)}
    secret = secret_of(1)
    stream = Streams(secret, public_nonce(secret)).stream(AGGREGATOR, ROLE_STREAM)
    asking = Machine(charter, AGGREGATOR, stream, identity=keys[AGGREGATOR])
    asking.start(0.0)
    [question] = [each for each in asking.take() if each.recipient == party]
    return Survey(charter, party, identities, seed_of(f"{case.name} {party}"), question)


def made(case: Case) -> dict[str, Any]:
    """A setting with all its reports, as the vectors' file has it."""
    survey = begun(case)
    variant, draw = case.variant, random.Random(f"words of {case.name}")
    edges = edges_of(variant)
    reports = []
    for number in range(case.cases):
        codes = [draw.randrange(size) for size in variant.survey.sizes]
        words = [] if number % 4 == 0 else [chosen(draw, edges) for _ in range(MOST_CHOSEN)]
        reports.append(report(survey, f"{case.name} {number}", codes, words))
    return {
        "name": case.name,
        "variant": variant.name,
        "terms": survey.terms.hex(),
        "place": survey.place.hex(),
        "link": survey.link,
        "session": survey.charter.session.hex(),
        "digest": variant.survey.digest.hex(),
        "epsilon": variant.most(),
        "told": [float(share) for share in told(variant)],
        "reports": reports,
    }


def report(survey: Survey, name: str, codes: Sequence[int], words: Sequence[int]) -> dict[str, Any]:
    """One report: its body, and the hash of the whole post."""
    stream = Given(words, name)
    machine = survey.machine(stream, codes)
    assert machine.failure is None, machine.failure
    answer, head = machine.take()
    assert (answer.recipient, head.kind) == (AGGREGATOR, "Head")
    body = posted([answer, head])
    message = survey.charter.codec.decode(answer.kind, answer.body)
    return {
        "name": name,
        "codes": codes,
        "words": [f"{word:x}" for word in words[: stream.used]],
        "used": stream.used,
        "report": answer.body.hex(),
        "post": hashlib.sha256(body).hexdigest(),
        "shown": shown_of(survey.charter.variant, message),
    }


def posted(envelopes: Sequence[Envelope]) -> bytes:
    """The body of a post with these envelopes."""
    return msgspec.msgpack.encode([encode_envelope(envelope) for envelope in envelopes])


class Edges(NamedTuple):
    """Words where something changes.

    Args:
        thresholds: below which a word is one thing, and from which on another.
        others: the last words that are not refused, and such as have equal halves.
    """

    thresholds: Sequence[int]
    others: Sequence[int]


def chosen(draw: random.Random, edges: Edges) -> int:
    """A word, often one at a threshold or beside it, or one that is refused."""
    kind = draw.random()
    if kind < 0.3:
        return draw.getrandbits(64)
    near = draw.choice(edges.thresholds if kind < 0.7 else edges.others)
    return min(max(near + draw.choice((-1, 0, 0, 1)), 0), WORDS - 1)


def edges_of(variant: Variant) -> Edges:
    """What its randomizers compare words with."""
    randomizers = randomizers_of(variant)
    numbers = {*numbers_in(randomizers), len(variant.survey.sizes)}
    large = {number for number in numbers if 2**32 < number < WORDS}
    for one in randomizers:
        if isinstance(one, OneBitMean):
            large |= {int(row[1] * WORDS) for row in map(one.row, range(one.size))}
        if isinstance(one, UnaryEncoding):
            large |= {WORDS - one.hit}
    others = {0, WORDS - 1, 5 << 32 | 5, 2**32 - 1}
    for number in numbers:
        if 1 < number < WORDS:
            others |= {WORDS - WORDS % number - 1}
            others |= {WORDS - 1 - (WORDS - threshold) % number for threshold in large}
    return Edges(sorted(large | {0}), sorted(others))


def randomizers_of(variant: Any) -> list[Any]:
    """All that a report is drawn with."""
    if (blocks := getattr(variant, "blocks", None)) is not None:
        return [block.randomizer for block in blocks]
    if (plan := getattr(variant, "plan", None)) is not None:
        return [plan.randomizer, [plan.choices]]
    if (client := getattr(variant, "client", None)) is not None:
        return [client.each]
    if variant.name == "rs-fd":
        each = variant.randomizer
        return [each, *(each.drawn(place) for place in range(len(each.sizes)))]
    return [*variant.randomizers]


def numbers_in(value: Any) -> Iterator[int]:
    """The integers of randomizers, and sums of weights."""
    if isinstance(value, int):
        yield value
    elif isinstance(value, (tuple, list)):
        yield from (number for each in value for number in numbers_in(each))
        if value and all(isinstance(each, int) for each in value):
            yield from itertools.accumulate(value)
    elif isinstance(value, Randomizer):
        yield from numbers_in(msgspec.structs.astuple(value))
        for name in ("functions", "places"):
            yield from numbers_in(getattr(value, name, ()))


def told(variant: Any) -> list[Fraction]:
    """How often a report, or its part about each block, is drawn from the answer."""
    each = [told_by(one) for one in randomizers_of(variant) if isinstance(one, Randomizer)]
    if variant.name == "rs-fd":
        columns = [variant.randomizer.column(i) for i in range(len(variant.survey.sizes))]
        return [told_by(one) for one in columns]
    if variant.name in ("smp", "privkv"):
        m = len(variant.survey.sizes)
        return [share / m for share in (each if variant.name == "smp" else each * m)]
    return each


def told_by(randomizer: Any) -> Fraction:
    """1 minus how often a report is drawn without a look at the answer."""
    if randomizer.redrawn is not None:
        return 1 - Fraction(randomizer.redrawn)
    match randomizer:
        case HadamardResponse():
            return 2 * randomizer.p - 1
        case LocalHashing():
            return told_by(randomizer.keep)
        case OneBitMean():
            return Fraction(randomizer.gain)
        case PrivKV():
            rows = [[Fraction(entry) for entry in row] for row in randomizer.matrix()]
            return 1 - sum(map(min, zip(*rows, strict=True)), Fraction(0))
        case SubsetSelection() | UnaryEncoding():
            return _told_of_bits(randomizer)
        case FakeData():
            return Fraction(0)
    rows = [list(randomizer.row(code)) for code in range(randomizer.size)]
    return 1 - sum(map(min, zip(*rows, strict=True)), Fraction(0))


def _told_of_bits(randomizer: SubsetSelection | UnaryEncoding) -> Fraction:
    """By going through all reports of few codes; else as what all codes have in common."""
    size = randomizer.size
    if isinstance(randomizer, SubsetSelection):
        return 1 - (1 - randomizer.p) * Fraction(size, size - randomizer.chosen)
    if size <= ENUMERATED:
        rows = [randomizer.row(code) for code in range(size)]
        return 1 - sum(map(min, zip(*rows, strict=True)), Fraction(0))
    p, q = randomizer.p, randomizer.q
    power = Fraction(float(q) ** size)
    return 1 - (1 - p) * (1 - power) / (1 - q) - p * Fraction(float(q) ** (size - 1))
