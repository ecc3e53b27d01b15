"""A party that is told totals below its own counts goes on as if nothing were wrong.

Whoever may choose what a party is told would else read an answer from whether it refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import numpy as np
import pytest
import trio
import trio.testing
from numpy.typing import NDArray

from parties.actor import run_aggregator, run_machine
from protocol import AGGREGATOR, Message, PartyId, Records, SecureSum, Variant
from protocol.crypto.commitments import commit
from protocol.crypto.sealing import Edge, edge_key
from protocol.messages import DONE, ROLE_STREAM, Envelope
from protocol.session.charter import Charter
from protocol.session.machine import Machine
from protocol.session.run import machine_ending
from protocol.sharing.dealing import commitment_context
from protocol.sharing.messages import Deal, Graph, Partials, Totals
from protocol.sharing.sums import CONTRADICTED
from protocol.transcript.entries import Sent
from protocol.variants import PairCounts, PairRR, RRClusters, SecureSumVariant
from protocol.variants.reports.reports import Ask
from protocol.variants.sums.pair_rr import pair_randomizers
from protocol.variants.sums.tallies import Layout, Tallied
from protocol.wire.arrays import smallest_dtype
from protocol.wire.codec import decode_envelope
from tests.live import Live
from tests.protocol.sessions import (
    STREAMS,
    charter_of,
    holdings_of,
    identities_of,
    rehearsed,
    setting_in,
)
from tests.protocol.sharing.test_sums import COUPLE, LITERAL, SPARSE
from tests.protocol.sharing.test_sums_attacks import (
    PARTIES,
    THREE,
    TWO,
    WARY,
    Rewrite,
    graph_context,
    rewriting,
)
from tests.protocol.variants.clusters.test_rr_clusters import SURE, THREEFOLD, variant_of
from tests.tiers import paired, thinned
from transports.memory import MemoryHub, open_memory
from transports.switch import Switch

Way = Literal["secure-sum", "pair-counts", "pair-rr", "clusters", "clusters by pairs"]
WAYS: tuple[Way, ...] = ("secure-sum", "pair-counts", "pair-rr", "clusters", "clusters by pairs")
Lies = Callable[[PartyId], NDArray[np.uint32]]
"""The totals that each party is told."""

HELD, OTHER, THIRD = [0, 2, 0], [1, 2, 0], [1, 0, 0]
"""Answers of party-2: one that the lie leaves out, its neighbour that it has room for, another."""


def summing(way: Way, sums: SecureSum) -> Variant:
    match way:
        case "secure-sum":
            return SecureSumVariant(survey=THREEFOLD, sums=sums, everyone=True)
        case "pair-counts":
            return PairCounts(survey=THREEFOLD, sums=sums, everyone=True)
        case "pair-rr":
            randomizers = pair_randomizers(THREEFOLD, SURE)
            return PairRR(survey=THREEFOLD, sums=sums, everyone=True, randomizers=randomizers)
        case "clusters":
            return variant_of("secure-sum", p=SURE, sums=sums)
        case _:
            return variant_of("pair-rr", p=SURE, sums=sums)


def records_of(codes: Any) -> Records:
    return Records(THREEFOLD, np.array(codes, np.uint8))


def vector(variant: Variant, codes: Any) -> NDArray[np.uint32]:
    """What records count in a variant's tables; its randomizers keep what is true."""
    assert isinstance(variant, Tallied | RRClusters)
    layout: Layout = variant.layout if isinstance(variant, Tallied) else variant.negotiation.layout
    return layout.counted(layout.table_cells(records_of(codes)))


def imagined(n: int) -> NDArray[np.int64]:
    """Answers of n respondents, all with the second category of the first attribute."""
    numbers = np.arange(n)
    return np.stack([np.ones_like(numbers), numbers % 3, numbers // 3 % 2], axis=1)


def lying(charter: Charter, lies: Lies, told: str = "all") -> Rewrite:
    """An aggregator that tells totals of its own making, and asks by what follows from them."""
    variant, places = charter.variant, {name: i for i, name in enumerate(charter.roster.parties)}

    def rewrite(item: Envelope, message: Message) -> Message | None:
        to = item.recipient
        if told == "one" and to != TWO:
            return None
        if isinstance(message, Totals):
            return Totals(message.respondents, lies(to))
        if isinstance(message, Partials):
            return shown(message, places[to], lies(to), len(places))
        if isinstance(message, Ask) and isinstance(variant, RRClusters):
            blocks = variant.negotiation.from_totals(lies(to)).blocks
            return msgspec.structs.replace(message, blocks=blocks)
        return None

    return rewrite


def shown(partials: Partials, own: int, totals: NDArray[np.uint32], n: int) -> Partials:
    """Broadcasts that add up to these totals, with a party's own one among them as it was."""
    values, other = partials.values.copy(), (own + 1) % n
    rest = np.delete(values, other, axis=0).sum(axis=0, dtype=np.int64)
    values[other] = (totals.astype(np.int64) - rest) % (n + 1)
    return Partials(values)


@dataclass
class Watched:
    """All that a session's parties said, how each of them ended, and what it noted."""

    said: dict[PartyId, list[Envelope]]
    endings: dict[PartyId, str]
    notices: dict[PartyId, tuple[str, ...]]
    machines: dict[PartyId, Machine]
    file: bytes


def watched(charter: Charter, holdings: Mapping[PartyId, Records], rewrite: Rewrite) -> Watched:
    """Run a session over memory, wherever it leads."""
    done = Live(setting_in(charter, holdings), exchange=rewriting(charter.codec, rewrite))
    identities = identities_of(charter)
    machines = {
        name: Machine(
            charter,
            name,
            STREAMS.stream(name, ROLE_STREAM),
            records=held,
            identity=identities[name],
        )
        for name, held in holdings.items()
    }

    async def live(hub: MemoryHub, name: PartyId) -> None:
        async with hub.connect(name) as link:
            await run_machine(machines[name], link)

    async def session() -> None:
        async with open_memory(Switch(done.exchange)) as hub, trio.open_nursery() as nursery:
            for name in holdings:
                nursery.start_soon(live, hub, name)
            async with hub.connect(AGGREGATOR) as link:
                await hub.joined(holdings, within=1.0)
                # It may be left without a quorum.
                await run_aggregator(
                    charter, link, streams=STREAMS, identity=identities[AGGREGATOR]
                )

    trio.run(session, clock=trio.testing.MockClock(autojump_threshold=0))
    done.close()
    sent = [decode_envelope(entry.envelope) for entry in done.entries if isinstance(entry, Sent)]
    return Watched(
        {name: [e for e in sent if e.sender == name] for name in holdings},
        {name: machine_ending(machine) for name, machine in machines.items()},
        {name: machine.notices for name, machine in machines.items() if machine.notices},
        machines,
        done.content,
    )


def held_by_two(charter: Charter, codes: list[int]) -> dict[PartyId, Records]:
    holdings = holdings_of(charter, records_of(imagined(8)))
    return {**holdings, TWO: records_of([codes])}


def differing(one: Watched, other: Watched) -> set[tuple[PartyId, str]]:
    """Whose messages of which kind differ; their number, order, recipients and lengths do not."""
    found = set()
    for name, items in one.said.items():
        others = other.said[name]
        for first, second in zip(items, others, strict=True):
            assert first.kind == second.kind
            assert len(first.body) == len(second.body)
            assert msgspec.structs.replace(first, body=b"") == msgspec.structs.replace(
                second, body=b""
            )
            if first.body != second.body:
                found.add((name, first.kind))
    return found


def check_noticed(with_held: Watched, with_other: Watched) -> None:
    """Only the party whose answer the lie leaves out knows of it, and nothing else does."""
    assert set(with_held.notices) == {TWO}
    [text] = with_held.notices[TWO]
    assert text == CONTRADICTED
    assert with_other.notices == {}
    machine = with_held.machines[TWO]
    assert text not in repr(machine) + str(machine.failure) + str(machine.kept)
    assert text.encode() not in with_held.file


@pytest.mark.slow
@pytest.mark.parametrize("told", ["all", "one"])
@pytest.mark.parametrize("way", thinned(WAYS, 3))
def test_a_party_goes_on_whatever_it_put_in(way: Way, told: str) -> None:
    """Its upload, what is drawn from its record and the head over these are all that differs."""
    charter = charter_of(summing(way, WARY), 8)
    variant = charter.variant
    # As many as the parties, and as they are but for party-2.
    false = vector(variant, imagined(8))
    fine = vector(variant, [HELD, *imagined(7).tolist()])
    rewrite = lying(charter, lambda to: false if told == "all" or to == TWO else fine)
    runs = [watched(charter, held_by_two(charter, codes), rewrite) for codes in (HELD, OTHER)]
    assert runs[0].endings == runs[1].endings
    assert differing(*runs) <= {(TWO, "Upload"), (TWO, "Report"), (TWO, "Head")}
    done = {name for name, ending in runs[0].endings.items() if ending == DONE}
    assert done == set(PARTIES) - (set() if told == "all" else {TWO})
    if told == "one":
        # What it says of it is what all say who are told another thing than their neighbours.
        assert runs[0].endings[TWO].startswith("Tagged.tags: ")
    check_noticed(*runs)


def dealing(charter: Charter, offset: NDArray[np.int64]) -> Rewrite:
    """party-3 deals party-2 shares that hold besides what makes its broadcast the one expected."""
    identities = identities_of(charter)
    seen: dict[str, Any] = {}

    def edge(me: PartyId, other: PartyId) -> Edge:
        secret = identities[me].agree(identities[other].public)
        return Edge(me, other, edge_key(secret, context=seen["context"]))

    def rewrite(item: Envelope, message: Message) -> Message | None:
        if isinstance(message, Graph) and item.recipient == THREE:
            seen.update(context=graph_context(item.session, message), row=message.names.index(TWO))
        if not isinstance(message, Deal) or item.sender != THREE:
            return None
        row, salt = seen["row"], message.salt.tobytes()
        content, _ = edge(TWO, THREE).open("Deal", message.boxes[row].tobytes(), salt=salt)
        dtype = smallest_dtype(9)
        shares = (np.frombuffer(content, dtype).astype(np.int64) + offset) % 9
        box, hidden = edge(THREE, TWO)._seal(
            "Deal", shares.astype(dtype).tobytes(), salt=salt, bound=b""
        )
        boxes, commitments = message.boxes.copy(), message.commitments.copy()
        boxes[row] = np.frombuffer(box, np.uint8)
        commitments[row, 0] = commit(
            np.frombuffer(hidden, np.uint8)[None, :16],
            shares.astype(dtype).view(np.uint8)[None],
            context=commitment_context(item.session, 0),
        )[0]
        return msgspec.structs.replace(message, boxes=boxes, commitments=commitments)

    return rewrite


def either(one: Rewrite, other: Rewrite) -> Rewrite:
    return lambda item, message: one(item, message) or other(item, message)


@pytest.mark.parametrize(("way", "told"), paired(WAYS, ["all", "one"]))
def test_a_party_goes_on_whatever_it_broadcast(way: Way, told: str) -> None:
    """In the literal profile. A conspirator sees to it that the broadcasts are the same, for what
    neighbours say of them would differ with them."""
    charter = charter_of(summing(way, LITERAL), 8)
    variant = charter.variant
    false = vector(variant, imagined(8))
    runs = []
    for codes in (HELD, OTHER):
        offset = vector(variant, [THIRD]).astype(np.int64) - vector(variant, [codes])
        rewrite = either(dealing(charter, offset), lying(charter, lambda to: false, told))
        runs.append(watched(charter, held_by_two(charter, codes), rewrite))
    # Everybody is told other broadcasts than somebody else, and says so.
    assert runs[0].endings == runs[1].endings
    assert all(ending.startswith("Tagged.tags: ") for ending in runs[0].endings.values())
    # What party-2 was dealt, and that it heard it.
    assert differing(*runs) == {(THREE, "Deal"), (TWO, "Head")}
    check_noticed(*runs)


@pytest.mark.slow
@pytest.mark.parametrize("way", thinned(WAYS, 2))
def test_an_aggregator_does_not_read_an_answer_of_everybody(way: Way) -> None:
    """Totals in which nobody has a first category: nobody who has it says so."""
    charter = charter_of(summing(way, SPARSE), 60)
    codes = imagined(60)
    codes[::2, 0] = 0
    holdings = holdings_of(charter, records_of(codes))
    false = vector(charter.variant, imagined(60))
    rewrite = lying(charter, lambda to: false)
    trial = rehearsed(charter, holdings, exchange=rewriting(charter.codec, rewrite))
    assert trial.refusals() == {}
    # Whoever ends well signs.
    assert {item.sender for item in trial.said() if item.kind == "Head"} == set(holdings)


@pytest.mark.parametrize("way", thinned(WAYS, 4))
def test_an_aggregator_does_not_read_an_answer_of_everybody_in_the_literal_profile(
    way: Way,
) -> None:
    """All refuse alike, for no two are told the same broadcasts."""
    charter = charter_of(summing(way, LITERAL), 8)
    codes = imagined(8)
    codes[::2, 0] = 0
    holdings = holdings_of(charter, records_of(codes))
    false = vector(charter.variant, imagined(8))
    rewrite = lying(charter, lambda to: false)
    trial = rehearsed(charter, holdings, exchange=rewriting(charter.codec, rewrite))
    assert set(trial.refusals()) == set(PARTIES)
    assert all(why.startswith("Tagged.tags: ") for why in trial.refusals().values())
    assert all(len(trial.messages("Tags", name)) == 1 for name in PARTIES)


@pytest.mark.parametrize(("way", "sums"), paired(WAYS, [WARY, LITERAL]))
def test_honest_totals_contradict_nobody(way: Way, sums: SecureSum) -> None:
    charter = charter_of(summing(way, sums), 8)
    run = watched(charter, held_by_two(charter, HELD), lambda item, message: None)
    assert set(run.endings.values()) == {DONE}
    assert run.notices == {}


@pytest.mark.parametrize("answer", [HELD, OTHER], ids=["left out", "there"])
def test_totals_of_fewer_than_a_party_speaks_for_are_refused(answer: list[int]) -> None:
    """Of how many that is it has told everybody, so the refusal says nothing of their answers."""
    variant = msgspec.structs.replace(summing("secure-sum", COUPLE), max_records=2)
    charter = charter_of(variant, 2)
    holdings = {name: records_of([answer, OTHER]) for name in charter.roster.parties}

    def rewrite(item: Envelope, message: Message) -> Message | None:
        return Totals(1, vector(variant, [OTHER])) if isinstance(message, Totals) else None

    run = watched(charter, holdings, rewrite)
    assert set(run.endings.values()) == {"totals: 1 respondents, expected at least 3"}
    assert run.notices == {}
