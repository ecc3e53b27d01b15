"""What coalitions know: by elimination on small sums, and by doing it on real transcripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import (
    AGGREGATOR,
    Coalition,
    ExactCounts,
    Merged,
    PartyId,
    Records,
    SecureSum,
    judge_coalition,
)
from protocol.audit.coalition.masks import Eyes, SumRecord, coalition_knowledge, place_flags
from protocol.audit.coalition.row_space import row_space
from protocol.session.charter import Charter
from protocol.variants import SecureSumVariant
from protocol.variants.sums.tallies import Tallied
from tests.protocol.eavesdropper import Eavesdropper
from tests.protocol.mask_oracle import Set, World, determined, follows, indicator, reduced, worlds
from tests.protocol.sessions import (
    STREAMS,
    SURVEY,
    answers,
    charter_of,
    holdings_of,
    identities_of,
    rehearsed,
)
from tests.protocol.sharing.test_sums import (
    LITERAL,
    SPARSE,
    counted,
    slack,
    survivors_of,
    vanishing,
)

View = tuple[list[World], Set, Set, bool]


@st.composite
def views(draw: st.DrawFn, most: int = 3) -> View:
    """Some sums of the same parties, who is in the coalition, whose keys it has."""
    parties = draw(st.integers(2, 7))
    everybody = st.sampled_from(range(parties))
    sums = [draw(worlds(parties)) for _ in range(draw(st.integers(1, most)))]
    members = draw(st.frozensets(everybody, max_size=3))
    return sums, members, members | draw(st.frozensets(everybody, max_size=2)), draw(st.booleans())


@st.composite
def stripped(draw: st.DrawFn) -> View:
    """The aggregator and some others before a finished sum: nothing but masks hides anything.

    Some parties were told that neighbours have not dealt, and have no masks with them.
    """
    n = draw(st.integers(3, 7))
    everybody = frozenset(range(n))
    others = {i: everybody - {i} for i in everybody}
    pairs = st.sampled_from(sorted(permutations(everybody, 2)))
    bare = draw(st.frozensets(pairs, max_size=n))
    if draw(st.booleans()):
        bare |= {(j, i) for i, j in bare}
    names = ("uploaded", "counted")
    seen = ("deals_seen", "dealt_seen", "uploads_seen", "unmasked_seen")
    everywhere: dict[str, Any] = dict.fromkeys((*names, *seen), everybody)
    world = World(
        parties=n,
        literal=False,
        threshold=n - 1,
        hoods=tuple(tuple(sorted(others[i])) for i in range(n)),
        dealers={i: frozenset(j for j in others[i] if (i, j) not in bare) for i in everybody},
        survivors={i: everybody for i in everybody},
        **everywhere,
        total_seen=True,
    )
    members = draw(st.frozensets(st.sampled_from(range(n)), max_size=n - 2))
    return [world], members, members, True


@pytest.mark.slow
@settings(deadline=None, max_examples=35)
@given(views())
def test_what_is_determined_is_what_elimination_finds(view: View) -> None:
    check(view)


@settings(deadline=None, max_examples=35)
@given(stripped())
def test_so_it_is_where_masks_were_stripped(view: View) -> None:
    check(view)


def check(view: View) -> None:
    """Compare what is found with all that elimination finds."""
    sums, members, insiders, unmasks = view
    n = sums[0].parties
    basis = determined([w.equations(members, insiders, unmasks=unmasks) for w in sums], n)
    sets = []
    for world in sums:
        record = world.record()
        everybody = np.ones(n, np.bool_)
        eyes = Eyes(
            place_flags(members, n), place_flags(insiders, n), everybody, everybody, unmasks
        )
        known = coalition_knowledge(record, world.seen(), eyes, world.threshold)
        sets += known.sets
        # What contributions tell without a total: the sum over each component that is open.
        alone = replace(world, total_seen=False).equations(members, insiders, unmasks=unmasks)
        opened = [indicator(part.tolist(), n) for part in filter(known.is_open, known.components)]
        assert reduced(opened) == determined([alone], n)
        inside = [place for part in known.components for place in part.tolist()]
        assert sorted(inside) == sorted(world.uploads_seen - members)
    space = row_space(sets, n)
    known = reduced([indicator(p.tolist(), n) for p in (*space.determined, *space.mixed)])
    everything = list(product((0, 1), repeat=n))
    right = [row for row in everything if any(row) and follows(basis, row)]
    assert [row for row in everything if any(row) and follows(known, row)] == right
    assert len(known) == len(basis)
    alone = {int(places[0]) for places in space.determined if len(places) == 1}
    assert alone == {i for i in range(n) if follows(basis, indicator([i], n))}
    sizes = [len(places) for places in (*space.determined, *space.mixed)]
    smallest = min(sizes + [2] * bool(space.opposite), default=None)
    assert space.searched
    assert smallest == min(map(sum, right), default=None)


def test_a_neighbour_that_is_named_twice_has_one_mask_and_nobody_has_one_with_itself() -> None:
    record = SumRecord(3, 2, profile="literal")
    record.hoods[:] = [[1, 1], [0, 2], [1, 2]]
    record.dealt[:] = record.contributed[:] = True
    eyes = Eyes.of_aggregator(place_flags((), 3))
    known = coalition_knowledge(record, record.seen(eyes), eyes, 2)
    (part,) = known.components
    assert known.is_open(part)
    assert known.links.tolist() == [[0, 1], [1, 2]]


def counts_of(
    charter: Charter, holdings: Mapping[PartyId, Records], names: Iterable[PartyId]
) -> list[int]:
    variant = charter.variant
    assert isinstance(variant, Tallied)
    return counted(variant, holdings, list(names))


@st.composite
def plots(draw: st.DrawFn) -> tuple[SecureSum, int, dict[PartyId, str], Coalition, bool]:
    """A session with dropouts, and a coalition with taps and keys."""
    sums = draw(st.sampled_from([SPARSE, LITERAL]))
    n = draw(st.integers(3, 7))
    names = [PartyId(f"party-{i}") for i in range(1, n + 1)]
    party = st.sampled_from(names)
    gone = {}
    if sums is SPARSE:
        rounds = st.sampled_from(("Join", "Deal", "Upload", "Tags", "Unmask"))
        gone = draw(st.dictionaries(party, rounds, max_size=slack(n)))
    members = draw(st.lists(st.one_of(party, st.just(AGGREGATOR)), unique=True, max_size=n))
    taps = draw(st.lists(party, unique=True, max_size=2))
    keys = draw(st.lists(st.one_of(party, st.just(AGGREGATOR)), unique=True, max_size=2))
    if sums is LITERAL:
        # Shares under way to somebody are known with his key where the box is seen.
        keys = [name for name in keys if AGGREGATOR in members or name in taps]
    coalition = Coalition(
        tuple(members) or (draw(party),), tuple((t, AGGREGATOR) for t in taps), tuple(keys)
    )
    return sums, n, gone, coalition, draw(st.booleans())


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(plots())
def test_what_is_said_to_follow_can_be_computed(
    plot: tuple[SecureSum, int, dict[PartyId, str], Coalition, bool],
) -> None:
    sums, n, gone, coalition, everyone = plot
    variant = SecureSumVariant(survey=SURVEY, sums=sums, everyone=everyone, max_records=2)
    charter = charter_of(variant, n)
    holdings = holdings_of(charter, answers(SURVEY, 2 * n))
    entries = rehearsed(charter, holdings, fate=vanishing(gone)).entries
    finding = judge_coalition(charter, entries, coalition)
    (found,) = finding.sums
    spy = Eavesdropper(charter, entries, coalition, identities_of(charter), STREAMS)
    threshold = sums.degree(n).threshold
    own, mask_secrets = spy.secrets(threshold) if sums is SPARSE else ({}, {})
    opened = set(own) & set(mask_secrets) - coalition.insiders
    assert set(found.opened) == opened
    known = 0
    for part in found.components:
        assert set(part.parties) <= set(spy.contributions())
        total, modulus = spy.uncovered(part.parties, threshold)
        truth = counts_of(charter, holdings, part.parties)
        assert (total.tolist() == [value % modulus for value in truth]) == part.determined
        known += part.determined * len(part.parties)
    # What the contributions do not show, the published total does.
    survivors = set(survivors_of(charter, gone)) - set(coalition.members)
    assert set().union(*finding.determined) == survivors
    assert finding.mixed == finding.pairs == ()
    assert set(finding.ledger.accounts) >= survivors
    crowds = {name: len(parties) for parties in finding.determined for name in parties}
    honest = len(set(spy.contributions()) - set(coalition.members))
    for name, account in finding.ledger.accounts.items():
        events = [charge.event for charge in account.trail if charge.kind in ("Upload", "Partial")]
        told = ExactCounts(SURVEY.names)
        expected = told if name in finding.exposed else Merged(told, crowds.get(name, honest))
        assert events == [expected] * len(events)
