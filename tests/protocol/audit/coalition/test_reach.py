"""The ledger of any set, against an enumeration of all that its members can see."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

import msgspec
import pytest

from protocol import (
    AGGREGATOR,
    RECORD,
    Coalition,
    ExactCounts,
    Hidden,
    Mask,
    Merged,
    Merging,
    PartyId,
    Public,
    Randomized,
    Sealed,
)
from protocol.accounting.accountants import PureAccountant
from protocol.audit import reach
from protocol.audit.coalition.coalition import parse_coalition
from protocol.audit.hearing import collect_heads, read_head
from protocol.audit.ledger import LedgerWriter
from protocol.audit.passed import Charge, Passed, Told
from protocol.audit.reach import learned
from protocol.messages import NO_ROUND
from protocol.session.fates import Fate
from protocol.simulation.rehearsal import Rehearsal
from protocol.simulation.setting import make_setting
from tests.protocol.other_shapes import HOMEPAGES, example, records, shapes
from tests.tiers import slow

FOUR = tuple(PartyId(f"party-{i}") for i in range(1, 5))
Q = 5
"""Values are taken modulo a small prime, so that all masks can be enumerated."""

Answers = tuple[int, ...]
View = tuple[object, ...]


def finished_run(name: str) -> Rehearsal:
    run = Rehearsal(make_setting(shapes()[name], records(HOMEPAGES, 4), seed=1))
    assert run.failure is None
    return run


def sets_of(run: Rehearsal) -> Iterator[tuple[PartyId, ...]]:
    """All subsets of those who hold no records, with up to two parties.

    Where parties do the same, two of them stand for any two.
    """
    serving = (AGGREGATOR, *run.charter.roster.services)
    chosen = FOUR[:2] if run.charter.roster.services else FOUR
    for size in range(len(serving) + 1):
        for some in itertools.combinations(serving, size):
            for few in range(3):
                for parties in itertools.combinations(chosen, few):
                    if some or parties:
                        yield (*some, *parties)


def shared(points: int) -> Callable[[Iterable[PartyId]], Callable[[Answers, Answers], View]]:
    """What is seen of shares on lines, at so many servers; two give the value."""

    def seen_by(members: Iterable[PartyId]) -> Callable[[Answers, Answers], View]:
        servers = [place for place in range(1, points + 1) if f"server-{place}" in members]
        own = [FOUR.index(name) for name in FOUR if name in members]
        subtotals = range(1, points + 1) if AGGREGATOR in members else servers

        def view(answers: Answers, slopes: Answers) -> View:
            shares = {
                j: [(x + j * r) % Q for x, r in zip(answers, slopes, strict=True)]
                for j in (1, 2, 3)
            }
            return (
                sum(answers) % Q,
                *(tuple(shares[j]) for j in servers),
                *(sum(shares[j]) % Q for j in subtotals),
                *((answers[i], slopes[i]) for i in own),
            )

        return view

    return seen_by


def ring(members: Iterable[PartyId]) -> Callable[[Answers, Answers], View]:
    """What is seen of a sum that goes around, sealed from each to the next."""
    own = [FOUR.index(name) for name in FOUR if name in members]

    def view(answers: Answers, masks: Answers) -> View:
        upto = [(masks[0] + sum(answers[: i + 1])) % Q for i in range(4)]
        heard = [upto[i - 1] for i in own]
        said = [upto[i] for i in own]
        start = masks[0] if 0 in own else None
        return (sum(answers) % Q, start, tuple(heard), tuple(said), *(answers[i] for i in own))

    return view


def crowds_of(view: Callable[[Answers, Answers], View], honest: list[int]) -> dict[int, int]:
    """Over how few honest parties a sum is known in which each is; those in none are left out."""
    seen: defaultdict[View, set[Answers]] = defaultdict(set)
    for answers in itertools.product(range(2), repeat=4):
        for masks in itertools.product(range(Q), repeat=4):
            seen[view(answers, masks)].add(answers)
    found: dict[int, int] = {}
    for size in range(len(honest), 0, -1):
        for some in itertools.combinations(honest, size):
            known = all(
                len({sum(answers[i] for i in some) for answers in alike}) == 1
                for alike in seen.values()
            )
            if known:
                found.update(dict.fromkeys(some, size))
    return found


@pytest.mark.parametrize(
    ("name", "seen_by", "step"),
    [
        ("two_servers", shared(2), 3),
        slow("two_servers", shared(2), 1),
        slow("shamir", shared(3), 1),
        ("sealed_ring", ring, 1),
    ],
)
def test_values_under_masks_are_charged_as_an_enumeration_finds_them(
    name: str, seen_by: Callable[[Iterable[PartyId]], Callable[[Answers, Answers], View]], step: int
) -> None:
    run = finished_run(name)
    for members in itertools.islice(sets_of(run), 0, None, step):
        honest = [i for i, party in enumerate(FOUR) if party not in members]
        expected = {FOUR[i]: n for i, n in crowds_of(seen_by(members), honest).items()}
        charged = {}
        for party, account in run.ledger(Coalition(members)).everybody.items():
            (event,) = {charge.event for charge in account.trail}
            charged[party] = event.honest if isinstance(event, Merged) else 1
            inner = event.event if isinstance(event, Merged) else event
            assert inner == ExactCounts(("page",))
        assert charged == expected, members


def test_a_shuffler_s_parties_are_charged_what_the_order_and_the_tally_tell() -> None:
    """Enumerated with two categories: every set learns the epsilon of a report, and no more."""
    run = finished_run("shuffler")
    local = run.charter.variant.randomizer.epsilon  # type: ignore[attr-defined]
    for members in sets_of(run):
        ledger = run.ledger(Coalition(members))
        honest = [party for party in FOUR if party not in members]
        assert set(ledger.everybody) == set(honest)
        assert ledger.record_epsilon == pytest.approx(enumerated(local, len(honest)))
        (event,) = {c.event for a in ledger.everybody.values() for c in a.trail}
        apart = "shuffler" in members or len(honest) == 1
        assert isinstance(event, Randomized if apart else Merged)
        assert ledger.honest == (0 if apart else len(honest))


def enumerated(epsilon: float, reports: int) -> float:
    """The largest ratio of probabilities of a tally, of two answers of one of several people."""
    true = math.exp(epsilon) / (1 + math.exp(epsilon))
    worst = 0.0
    for others in itertools.product(range(2), repeat=reports - 1):
        laws: list[dict[int, float]] = []
        for own in range(2):
            law: dict[int, float] = defaultdict(float)
            for said in itertools.product(range(2), repeat=reports):
                chances = (
                    true if a == b else 1 - true for a, b in zip((own, *others), said, strict=True)
                )
                law[sum(said)] += math.prod(chances)
            laws.append(law)
        worst = max(worst, *(abs(math.log(laws[0][n] / laws[1][n])) for n in laws[0]))
    return worst


def test_before_anything_is_published_a_shuffler_has_learned_nothing() -> None:
    run = finished_run("shuffler")
    writer = LedgerWriter(run.charter)
    writer.start({})
    for step in run.steps:
        envelope = step.envelope
        if envelope is not None and (envelope.sender, envelope.recipient) == (AGGREGATOR, RECORD):
            assert not writer.ledger(PartyId("shuffler")).everybody
            break
        writer.add(step)
    else:
        raise AssertionError("nothing was published")


def test_keys_of_services_open_what_is_tapped_and_not_what_the_aggregator_carries() -> None:
    run = finished_run("two_servers")
    servers = (PartyId("server-1"), PartyId("server-2"))

    def crowds(*taps: tuple[PartyId, PartyId]) -> dict[PartyId, int]:
        known = run.ledger(Coalition((), taps, servers)).everybody
        events = {party: account.trail[0].event for party, account in known.items()}
        return {p: e.honest if isinstance(e, Merged) else 1 for p, e in events.items()}

    one, *others = FOUR
    assert crowds((one, servers[0])) == dict.fromkeys(FOUR, 4)
    both = crowds((one, servers[0]), (one, servers[1]))
    assert both == {one: 1, **dict.fromkeys(others, 3)}


def test_who_tells_alone_is_told_from_who_is_merged() -> None:
    """One honest party among those who conspire has nobody to be merged with."""
    run = finished_run("shuffler")
    account = run.ledger(Coalition((AGGREGATOR, *FOUR[:3]))).everybody[FOUR[3]]
    assert [type(charge.event) for charge in account.trail] == [Randomized]


def test_what_comes_after_a_batch_is_not_merged_with_it() -> None:
    """The number that a figure needs honest counts those who were delivered before the batch."""
    shuffler = example("shuffler")
    late = shuffler.Shuffled(survey=HOMEPAGES, patience=0.5)

    def slow(envelope: object) -> Fate:
        sender = getattr(envelope, "sender", "")
        return Fate(delay=2.0) if sender == FOUR[0] else Fate()

    run = Rehearsal(make_setting(late, records(HOMEPAGES, 4), seed=1), fate=slow)
    assert run.failure is None
    events = {
        party: account.trail[0].event for party, account in run.ledger(AGGREGATOR).everybody.items()
    }
    assert {e.honest for p, e in events.items() if p != FOUR[0] and isinstance(e, Merged)} == {3}


def test_who_comes_between_two_batches_is_merged_with_the_second_alone() -> None:
    """All of the first are in the second as well, and what is new in it is one report."""
    run = finished_run("shuffler")
    local = Randomized(run.charter.variant.randomizer, ("page",))  # type: ignore[attr-defined]
    shuffler = PartyId("shuffler")
    report = Sealed(shuffler, Sealed(AGGREGATOR, local))
    charge = Charge(0, "Reports", report, PureAccountant().judge(report))
    passed = Passed(run.charter.roster)
    for entry, party in enumerate(FOUR):
        passed.add(Told(party, shuffler, 0, "Reports", NO_ROUND, report, charge), entry)
    for entry in range(3):
        passed.deliver(entry)
    batch = Sealed(AGGREGATOR, Merging())
    passed.add(Told(shuffler, AGGREGATOR, 0, "Batch", 0, batch, None), 10)
    passed.deliver(3)
    passed.add(Told(shuffler, AGGREGATOR, 1, "Batch", 1, batch, None), 11)
    told = {told.sender: event for told, event in learned(passed, parse_coalition(AGGREGATOR))}
    assert [told[party] for party in FOUR] == [*[Merged(local, 3, linked=True)] * 3, local]


def test_what_a_head_does_not_list_is_not_merged() -> None:
    """A message may come after its wait is over: the service's head says what it took."""
    run = finished_run("shuffler")
    heads = collect_heads(run.entries)
    head = read_head(heads[PartyId("shuffler")])
    (wait,) = head.waits
    fewer = msgspec.structs.replace(wait, heard=wait.heard[1:])
    heads[PartyId("shuffler")] = msgspec.msgpack.encode(
        msgspec.structs.replace(head, waits=(fewer,))
    )
    writer = LedgerWriter(run.charter)
    writer.start(heads)
    for step in run.steps:
        writer.add(step)
    known = writer.ledger(AGGREGATOR).everybody
    events = {party: account.trail[0].event for party, account in known.items()}
    inner = events[FOUR[0]]
    assert isinstance(inner, Randomized)
    assert [events[party] for party in FOUR] == [inner, *[Merged(inner, 3, linked=True)] * 3]


def test_what_a_shuffler_cannot_read_it_does_not_add_up() -> None:
    """Masked values in boxes come one by one, and whoever has a mask knows the value by it."""
    run = finished_run("shuffler")
    shuffler, hidden = PartyId("shuffler"), Hidden(ExactCounts(("page",)), (Mask("m"),))
    boxed = Sealed(shuffler, Sealed(AGGREGATOR, hidden))
    charge = Charge(0, "Reports", boxed, PureAccountant().judge(boxed))
    passed = Passed(run.charter.roster)
    for entry, party in enumerate(FOUR):
        passed.add(Told(party, shuffler, 0, "Reports", NO_ROUND, boxed, charge), entry)
        passed.deliver(entry)
    for entry, party in enumerate(FOUR, 4):
        mask = Hidden(Public(), (Mask("m"),))
        passed.add(Told(party, AGGREGATOR, 1, "Masks", NO_ROUND, mask, None), entry)
    batch = Sealed(AGGREGATOR, Merging())
    passed.add(Told(shuffler, AGGREGATOR, 0, "Batch", NO_ROUND, batch, None), 10)
    told = [*learned(passed, parse_coalition(AGGREGATOR))]
    for party in FOUR:
        assert ExactCounts(("page",)) in [event for each, event in told if each.sender == party]


def test_more_rows_than_are_judged_hide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody can write a file: what takes too long to judge is charged as if nothing hid it."""
    monkeypatch.setattr(reach, "CELLS", 10)
    known = finished_run("two_servers").ledger(AGGREGATOR).everybody
    assert {charge.event for a in known.values() for charge in a.trail} == {ExactCounts(("page",))}
