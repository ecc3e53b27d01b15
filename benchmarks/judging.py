"""Benchmarks of judging: records verified and audited, coalitions, attacks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.timing import Benchmark, Side, elapsed
from protocol import (
    AGGREGATOR,
    RECORD,
    Array,
    Attribute,
    Coalition,
    KeepUniform,
    Message,
    PartyId,
    Records,
    Stream,
    Survey,
    judge_coalition,
    secret_of,
    worst_coalition,
)
from protocol.attack.attack import attack
from protocol.audit.ledger import LedgerWriter
from protocol.audit.walk import steps
from protocol.crypto.merkle import HASH_BYTES
from protocol.crypto.sealing import SALT_BYTES, SEAL_BYTES, TAG_BYTES
from protocol.messages import NO_ROUND, NONCE_BYTES, Envelope
from protocol.session.charter import Charter
from protocol.session.closings import make_closings
from protocol.session.roster import KEY_BYTES, Identity, Roster, Signed, are_signatures
from protocol.sharing.graph import draw_order, neighbourhoods
from protocol.sharing.masks import DIGEST_BYTES
from protocol.sharing.messages import (
    REVEALED,
    SECRET_BYTES,
    SHARED,
    Begin,
    Deal,
    Dealt,
    Graph,
    Join,
    Survivors,
    Tagged,
    Tags,
    Unmask,
    Upload,
)
from protocol.testing import attack_randomizer
from protocol.transcript.entries import Delivered, Entry, Sent
from protocol.variants import PairCounts, RRIndependent, RRJoint
from protocol.variants.sums.tallies import Tally
from protocol.wire.arrays import encode_message
from protocol.wire.codec import encode_envelope
from scenarios import Transcript, adult, simulate
from scenarios.data.adult import ADULT
from scenarios.running.engines.checking import ChecksMeanwhile

SESSION = bytes(16)
COIN = bytes(32)
TRIALS = 1_000_000
GONE = 0.08
"""The share of the parties that have dealt and do not upload."""


class _Record:
    """A record of a sparse sum as it is written, with noise for all that is sealed or hashed.

    Args:
        parties: how many.
    """

    def __init__(self, parties: int) -> None:
        names = (AGGREGATOR, *(PartyId(f"party-{i}") for i in range(parties)))
        # Nobody signs anything here.
        roster = Roster(tuple((n, i.to_bytes(KEY_BYTES, "little")) for i, n in enumerate(names, 2)))
        self.variant = PairCounts(survey=ADULT)
        self.charter = Charter(variant=self.variant, roster=roster)
        self.names = names[1:]
        self.k = self.variant.sums.degree(parties).neighbours
        self.hoods = neighbourhoods(draw_order(COIN, parties), self.k)
        self.stays = np.random.default_rng(1).random(parties) >= GONE
        self._spent = 0.0

    def beyond(self, action: Callable[[], object]) -> float:
        """How many seconds a call takes, without those in which the entries are made."""
        self._spent = 0.0
        return elapsed(action) - self._spent

    def entries(self) -> Iterator[Entry]:
        """The entries, one after the other."""
        made = self._entries()
        while True:
            started = time.perf_counter()
            entry = next(made, None)
            self._spent += time.perf_counter() - started
            if entry is None:
                return
            yield entry

    def _entries(self) -> Iterator[Entry]:
        self._seq: dict[PartyId, int] = {}
        self._noise = Stream(bytes(32))
        everybody = range(len(self.names))
        staying = np.flatnonzero(self.stays).tolist()
        begin = Begin(self.variant.survey.digest)
        for place in everybody:
            yield from self._passes(AGGREGATOR, self.names[place], begin)
        for place in everybody:
            yield from self._passes(
                self.names[place], AGGREGATOR, Join(1, self._bytes(NONCE_BYTES))
            )
        for place in everybody:
            yield from self._passes(AGGREGATOR, self.names[place], self._graph(place))
        for place in everybody:
            yield from self._passes(self.names[place], AGGREGATOR, self._deal())
        for place in everybody:
            yield from self._passes(AGGREGATOR, self.names[place], self._dealt())
        values = self.variant.layout.cells
        for place in staying:
            upload = Upload(self._bytes(2 * values).view("<u2"), np.zeros(self.k, np.uint8))
            yield from self._passes(self.names[place], AGGREGATOR, upload)
        bitmap = self.charter.roster.bitmap(self.names[place] for place in staying)
        for closed in make_closings(("Upload", NO_ROUND), awaited=bitmap, counted=bitmap):
            yield from self._passes(AGGREGATOR, RECORD, closed)
        for place in staying:
            yield from self._passes(AGGREGATOR, self.names[place], self._survivors())
        for place in staying:
            tags = Tags(0, self._bytes(self.k, TAG_BYTES))
            yield from self._passes(self.names[place], AGGREGATOR, tags)
        for place in staying:
            given = self.stays[self.hoods[place]].astype(np.uint8)
            tagged = Tagged(0, given, self._bytes(self.k, TAG_BYTES))
            yield from self._passes(AGGREGATOR, self.names[place], tagged)
        for place in staying:
            box = self._noise.bytes(self.k * REVEALED + SEAL_BYTES)
            unmask = Unmask(self._noise.bytes(64), self._noise.bytes(SALT_BYTES), box)
            yield from self._passes(self.names[place], AGGREGATOR, unmask)
        totals = np.zeros(values, np.uint32)
        yield from self._passes(AGGREGATOR, RECORD, Tally(len(staying), bitmap, b"", totals))

    def _passes(self, sender: PartyId, recipient: PartyId, message: Message) -> Iterator[Entry]:
        seq = self._seq[sender] = self._seq.get(sender, -1) + 1
        body = encode_message(message)
        envelope = Envelope(SESSION, sender, recipient, seq, message.kind(), body)
        yield Sent(at=0, envelope=encode_envelope(envelope))
        if recipient != RECORD:
            yield Delivered(at=0, sender=sender, recipient=recipient, seq=seq, repeat=False)

    def _bytes(self, *shape: int) -> Array:
        return np.frombuffer(self._noise.bytes(int(np.prod(shape))), np.uint8).reshape(shape)

    def _graph(self, place: int) -> Graph:
        n, k = len(self.names), self.k
        depth = n.bit_length()
        return Graph(
            respondents=n,
            joined=n,
            root=bytes(HASH_BYTES),
            index=place,
            path=self._bytes(depth, HASH_BYTES),
            names=tuple([self.names[other] for other in self.hoods[place].tolist()]),
            keys=self._bytes(k, HASH_BYTES),
            # What paths of so many have in common is sent once.
            proof=self._bytes(k * depth // 2, HASH_BYTES),
            there=np.ones(k, np.uint8),
        )

    def _deal(self) -> Deal:
        return Deal(
            self._bytes(SALT_BYTES),
            self._bytes(HASH_BYTES),
            self._bytes(self.k, SHARED + SEAL_BYTES),
            self._bytes(self.k, 2, 16),
            self._bytes(self.k, SECRET_BYTES),
            self._bytes(self.k, DIGEST_BYTES),
        )

    def _dealt(self) -> Dealt:
        return Dealt(
            np.ones(self.k, np.uint8),
            self._bytes(self.k, SALT_BYTES),
            self._bytes(self.k, SHARED + SEAL_BYTES),
            self._bytes(self.k, 2, 16),
        )

    def _survivors(self) -> Survivors:
        # The aggregator has the first bit.
        bits = np.packbits(np.append(False, self.stays), bitorder="little")
        return Survivors(bits.tobytes())


def coalition(parties: int) -> Benchmark:
    """What the aggregator and 5 % of the parties know of a sparse sum, beyond reading it.

    The floor is the aggregator's ledger of the same entries, which every audit makes. Both are
    without what it takes to have the entries. Aim: 20 s for 32,561 parties.
    """
    record = _Record(parties)
    members = (AGGREGATOR, *record.names[::20])

    def product() -> object:
        return judge_coalition(record.charter, record.entries(), Coalition(members))

    return _against_ledger(record, "judge_coalition", product)


def worst(parties: int) -> Benchmark:
    """The same for the most damaging coalition of the aggregator and 60 parties."""
    record = _Record(parties)

    def product() -> object:
        return worst_coalition(record.charter, record.entries(), 60)

    return _against_ledger(record, "worst_coalition", product)


def verified() -> Benchmark:
    """``verify`` of Adult's record, whose 32,561 parties have signed. Aim: 4 s on two processors.

    The floor checks as many signatures in one process.
    """

    def verify(record: Transcript, checks: ChecksMeanwhile) -> object:
        return record.verify(checks=checks)

    return _of_adult("verify", verify, aim="4 s")


def audited() -> Benchmark:
    """``audit`` of the same record. Aim: 6 s on two processors; the floor is the same."""

    def audit(record: Transcript, checks: ChecksMeanwhile) -> object:
        return record.audit(RRIndependent, checks=checks)

    return _of_adult("audit", audit, aim="6 s")


def _of_adult(
    name: str, judge: Callable[[Transcript, ChecksMeanwhile], object], *, aim: str
) -> Benchmark:
    records = adult(None)
    variant = RRIndependent.with_keep(records.survey, 0.7)
    record = simulate(variant, records).transcript
    key = Identity(PartyId("one"), bytes(32))
    statement = bytes(100)
    claims = [Signed(key.sign(statement), statement, key.public)] * len(records)

    def product() -> object:
        with ChecksMeanwhile() as checks:
            return judge(record, checks)

    return Benchmark(
        title=f"{name} of Adult's record, {len(records):,} signed heads (aim: {aim})",
        unit="party",
        units=len(records),
        product=Side(name=name, run=lambda: elapsed(product)),
        floors=(Side(name="signatures", run=lambda: elapsed(lambda: are_signatures(claims))),),
        repeats=3,
    )


def attacked() -> Benchmark:
    """A million trials of 16-ary randomized response, attacked; the floor draws as many reports.

    Aim: 2 s.
    """
    survey = Survey("one", (Attribute(name="x", categories=tuple(f"c{i}" for i in range(16))),))
    variant = RRJoint.with_epsilon(survey, 1.0)
    records = Records(survey, np.arange(16, dtype=np.uint8)[:, np.newaxis])
    keep = KeepUniform.with_epsilon(16, epsilon=1.0)
    codes = np.zeros(TRIALS, np.uint8)
    stream = Stream(secret_of(1)).derive("benchmark")

    def product() -> object:
        return attack(variant, records, trials=TRIALS, runs=20)

    return Benchmark(
        title=f"{TRIALS:,} trials of 16-ary randomized response (aim: 2 s)",
        unit="trial",
        units=TRIALS,
        product=Side(name="attack", run=lambda: elapsed(product)),
        floors=(
            Side(
                name="randomize alone", run=lambda: elapsed(lambda: keep.randomize(codes, stream))
            ),
        ),
        repeats=3,
    )


def drawn() -> Benchmark:
    """A million draws of 16-ary randomized response, attacked by their law; the floor draws them.

    Aim: 60 ms.
    """
    keep = KeepUniform.with_epsilon(16, epsilon=1.0)
    codes = np.zeros(TRIALS, np.uint8)
    stream = Stream(secret_of(1)).derive("benchmark")
    return Benchmark(
        title=f"{TRIALS:,} draws of 16-ary randomized response (aim: 60 ms)",
        unit="trial",
        units=TRIALS,
        product=Side(
            name="attack_randomizer",
            run=lambda: elapsed(lambda: attack_randomizer(keep, trials=TRIALS)),
        ),
        floors=(
            Side(
                name="randomize alone", run=lambda: elapsed(lambda: keep.randomize(codes, stream))
            ),
        ),
        repeats=5,
    )


def _against_ledger(record: _Record, name: str, product: Callable[[], object]) -> Benchmark:
    def floor() -> object:
        writer = LedgerWriter(record.charter)
        for step in steps(record.charter.codec, record.entries()):
            writer.add(step)
        return writer.ledger(AGGREGATOR)

    parties = len(record.names)
    return Benchmark(
        title=f"a coalition's view of a sparse sum, {parties:,} parties, k = {record.k}",
        unit="party",
        units=parties,
        product=Side(name=name, run=lambda: record.beyond(product)),
        floors=(Side(name="the ledger alone", run=lambda: record.beyond(floor)),),
        repeats=2,
    )
