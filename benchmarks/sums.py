"""Benchmarks of secure sums by messages; each runs whole sessions."""

from __future__ import annotations

import time

import numpy as np
import trio
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from benchmarks.timing import Benchmark, Side, elapsed
from protocol import AGGREGATOR, PartyId, Records, SecureSum, secret_of
from protocol.crypto.randomness import Streams
from protocol.messages import ROLE_STREAM
from protocol.session.charter import Charter
from protocol.session.machine import Machine
from protocol.session.roster import Identity, Roster
from protocol.variants import PairCounts
from scenarios import simulate
from scenarios.data.adult import ADULT

PARTIES = 100
SEED = 1


def _records(n: int) -> Records:
    """As many as are asked for; the time does not depend on what they say."""
    generator = np.random.default_rng(SEED)
    codes = generator.integers(0, ADULT.sizes, (n, len(ADULT.sizes)), dtype=np.uint8)
    return Records(ADULT, codes)


def literal() -> Benchmark:
    """The literal profile over memory, 100 parties, all pairs of Adult: 1,582 cells.

    The floor draws the shares and adds them up in numpy, makes the same key agreements, seals and
    opens the same bytes, and sends as many messages through bare channels. Aim: .7 of its
    rate.
    """
    records = _records(PARTIES)
    variant = PairCounts(survey=ADULT, sums=SecureSum(profile="literal"))
    cells, peers = variant.layout.cells, PARTIES - 1
    messages = simulate(variant, records).messages

    def product() -> object:
        return simulate(variant, records, transport="memory")

    def floor() -> object:
        generator = np.random.default_rng(SEED)
        keys = [X25519PrivateKey.generate() for _ in range(PARTIES)]
        public = [key.public_key() for key in keys]
        total = np.zeros(cells, np.uint64)
        for i in range(PARTIES):
            shares = generator.integers(0, PARTIES + 1, (PARTIES, cells), dtype=np.uint8)
            total += shares.sum(axis=0, dtype=np.uint64)
            for j in range(PARTIES):
                if i != j:
                    cipher = ChaCha20Poly1305(keys[i].exchange(public[j]))
                    cipher.decrypt(
                        bytes(12), cipher.encrypt(bytes(12), shares[j].tobytes(), b""), b""
                    )
        trio.run(_send, messages)
        return total

    return Benchmark(
        title=f"literal secure sum, {PARTIES} parties, {cells:,} cells, over memory",
        unit="pair of parties",
        units=PARTIES * peers,
        product=Side(name="simulate", run=lambda: elapsed(product)),
        floors=(Side(name="numpy, X25519, AEAD, channels", run=lambda: elapsed(floor)),),
        aim=0.7,
        repeats=5,
    )


async def _send(messages: int) -> None:
    sender, receiver = trio.open_memory_channel[bytes](64)

    async def read() -> None:
        async for _ in receiver:
            pass

    async with trio.open_nursery() as nursery, sender:
        nursery.start_soon(read)
        for _ in range(messages):
            await sender.send(b"")


def sparse(parties: int) -> Benchmark:
    """The sparse profile among so many live parties, all pairs of Adult, per party.

    The floor is the key agreements alone, one for each neighbour, counted at both ends as between
    machines, and one with the aggregator. Aim: .35 of its rate. Beside it stands the floor of one
    process, where that of two neighbours is made once for both.
    """
    records = _records(parties)
    # All parties live on few processors: a round of a large sum takes longer than a minute.
    variant = PairCounts(survey=ADULT, patience=None)
    degree = variant.sums.degree(parties)
    outcomes: list[tuple[int, int]] = []

    def product() -> float:
        started = time.perf_counter()
        outcome = simulate(variant, records, transport="memory")
        outcomes.append((outcome.bytes, outcome.messages))
        spent = time.perf_counter() - started
        print(
            f"    {outcome.bytes / parties:,.0f} bytes and {outcome.messages / parties:.1f} "
            "messages per party, both ways"
        )
        return spent

    def floor(agreements: int) -> float:
        key, other = X25519PrivateKey.generate(), X25519PrivateKey.generate().public_key()
        started = time.perf_counter()
        for _ in range(parties * agreements):
            key.exchange(other)
        return time.perf_counter() - started

    return Benchmark(
        title=f"sparse secure sum, {parties:,} parties, k = {degree.neighbours}, "
        f"t = {degree.threshold}, over memory",
        unit="party",
        units=parties,
        product=Side(name="simulate", run=product),
        floors=(Side(name="X25519 at both ends", run=lambda: floor(degree.neighbours + 1)),),
        beside=(Side(name="X25519 once for both", run=lambda: floor(degree.neighbours // 2 + 1)),),
        aim=0.35,
        repeats=2,
    )


def edges(parties: int) -> Benchmark:
    """Processor time of a sparse sum whose parties have nothing in common, as between machines.

    The floor is the same sum with fresh keys for its masks: each party makes a key, and agrees on a
    second secret with each neighbour. So the ratio is what one agreement for each edge saves. Aim:
    1.2.
    """
    records = _records(parties)
    variant = PairCounts(survey=ADULT)
    degree = variant.sums.degree(parties)
    names = (AGGREGATOR, *(PartyId(f"party-{i}") for i in range(parties)))
    identities = {name: Identity(name, secret_of(i)) for i, name in enumerate(names)}
    roster = Roster(tuple((name, identity.public) for name, identity in identities.items()))
    charter = Charter(variant=variant, roster=roster)
    held = dict(zip(names[1:], records.split(parties), strict=True))

    def product() -> float:
        streams = Streams(secret_of(SEED), charter.session)
        machines = {
            name: Machine(
                charter,
                name,
                streams.stream(name, ROLE_STREAM),
                records=held.get(name),
                # Anew, for an identity keeps its key.
                identity=Identity(name, secret_of(i)),
            )
            for i, name in enumerate(names)
        }
        started = time.process_time()
        for machine in machines.values():
            machine.start(0.0)
        while under_way := [item for machine in machines.values() for item in machine.take()]:
            for item in under_way:
                if item.recipient in machines:
                    machines[item.recipient].receive(item, 0.0)
        if machines[AGGREGATOR].result is None:
            raise RuntimeError(f"no sum: {machines[AGGREGATOR].failure}")
        return time.process_time() - started

    def fresh() -> float:
        spent = product()
        started = time.process_time()
        keys = [X25519PrivateKey.generate() for _ in range(parties)]
        for key in keys:
            key.public_key().public_bytes_raw()
        other = keys[0].public_key()
        for key in keys:
            for _ in range(degree.neighbours):
                key.exchange(other)
        return spent + time.process_time() - started

    return Benchmark(
        title=f"processor time of a sparse sum, {parties:,} parties, k = {degree.neighbours}",
        unit="party",
        units=parties,
        product=Side(name="machines", run=product),
        floors=(Side(name="and a second X25519", run=fresh),),
        aim=1.2,
        repeats=5,
    )
