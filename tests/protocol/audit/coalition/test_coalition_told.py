"""Coalitions before an aggregator that tells parties false things, or says what it did not send."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import (
    AGGREGATOR,
    RECORD,
    Coalition,
    Message,
    PartyId,
    Records,
    judge_coalition,
    worst_coalition,
)
from protocol.audit.coalition.finding import CoalitionFinding
from protocol.messages import Closed, Envelope
from protocol.session.charter import Charter
from protocol.sharing.masks import modulus_bits
from protocol.sharing.messages import Dealt, Graph, Survivors
from protocol.transcript.entries import Delivered, Entry, Sent
from protocol.variants import SecureSumVariant
from protocol.wire.codec import decode_envelope, encode_envelope
from tests.protocol.audit.coalition.test_coalition_transcripts import COUNTS, changed, run
from tests.protocol.eavesdropper import Eavesdropper
from tests.protocol.mask_oracle import follows, indicator, reduced
from tests.protocol.sessions import STREAMS, identities_of
from tests.protocol.sharing.test_sums import counted
from tests.protocol.sharing.test_sums_attacks import WARY, attacked

PARTIES = tuple(PartyId(f"party-{i}") for i in range(1, 9))
ONE, TWO, THREE, FOUR = PARTIES[:4]
BAD = PARTIES[4:]
HONEST = (ONE, TWO, THREE, FOUR)
PLOT = Coalition((AGGREGATOR, *BAD))

Bare = frozenset[tuple[PartyId, PartyId]]
"""Who is told that whom has not dealt: it has no mask with them."""

HALVES: Bare = frozenset(
    pair for i in (ONE, TWO) for j in (THREE, FOUR) for pair in ((i, j), (j, i))
)
"""Everybody's masks with two others: as many as a party bears with among eight."""


def stripped(bare: Bare) -> tuple[Charter, dict[PartyId, Records], list[Entry]]:
    """A session without these masks; where one end has a mask, it adds up to no count."""
    hoods: dict[PartyId, tuple[str, ...]] = {}

    def rewrite(item: Envelope, message: Message) -> Message | None:
        to = item.recipient
        if isinstance(message, Graph):
            hoods[to] = message.names
        if not isinstance(message, Dealt):
            return None
        without = np.array([(to, name) in bare for name in hoods[to]])
        return msgspec.structs.replace(message, dealt=message.dealt & ~without)

    trial, holdings = attacked(rewrite, WARY)
    assert (trial.failure is not None) == any((j, i) not in bare for i, j in bare)
    said: list[Entry] = [Sent(at=0, envelope=encode_envelope(item)) for item in trial.said()]
    return trial.charter, holdings, said


def computes(
    charter: Charter,
    holdings: dict[PartyId, Records],
    entries: Sequence[Entry],
    parties: Sequence[PartyId],
) -> bool:
    """Whether the plot, by what it has, takes all masks off the sum over some."""
    spy = Eavesdropper(charter, entries, PLOT, identities_of(charter), STREAMS)
    total, modulus = spy.uncovered(parties, WARY.degree(8).threshold)
    assert modulus == 2 ** modulus_bits(8)
    variant = charter.variant
    assert isinstance(variant, SecureSumVariant)
    right: list[int] = counted(variant, holdings, list(parties))
    found: list[int] = total.tolist()
    return found == right


def sets(finding: CoalitionFinding) -> list[tuple[PartyId, ...]]:
    return [*finding.determined, *finding.mixed]


def test_who_strips_masks_cuts_the_graph() -> None:
    """Of as many colluders as the sum does not withstand: of eight four, with two missing."""
    charter, holdings, entries = stripped(HALVES)
    assert computes(charter, holdings, entries, (ONE, TWO))
    assert not computes(charter, holdings, entries, (ONE, THREE))
    finding = judge_coalition(charter, entries, PLOT)
    assert sets(finding) == [(ONE, TWO), (THREE, FOUR)]
    assert finding.sums[0].masks == ((ONE, TWO), (THREE, FOUR))
    # To anybody else the masks are the same.
    wires = tuple((name, AGGREGATOR) for name in HONEST)
    for other in (Coalition((RECORD,), keys=(AGGREGATOR, *BAD)), Coalition(BAD, wires)):
        found = judge_coalition(charter, entries, other).sums[0]
        assert found.masks == ((ONE, TWO), (THREE, FOUR))
    # The search looks at the same masks.
    worst = worst_coalition(charter, entries, 4)
    assert worst.exact
    assert worst.finding.smallest == 2


def test_an_honest_run_leaves_one_sum() -> None:
    charter, holdings, entries = stripped(frozenset())
    finding = judge_coalition(charter, entries, PLOT)
    assert finding.remarks == ()
    assert sets(finding) == [HONEST]
    assert computes(charter, holdings, entries, HONEST)


@st.composite
def bares(draw: st.DrawFn) -> tuple[Bare, bool]:
    """Masks between honest parties, so few that all go on; whether always those of both."""
    pairs = draw(st.permutations(list(combinations(HONEST, 2))))
    both = draw(st.booleans())
    found: set[tuple[PartyId, PartyId]] = set()
    for i, j in pairs[: draw(st.integers(1, 4))]:
        if any(sum(name in pair for pair in {frozenset(p) for p in found}) > 1 for name in (i, j)):
            continue
        ways = [[(i, j), (j, i)]] if both else [[(i, j), (j, i)], [(i, j)], [(j, i)]]
        found.update(draw(st.sampled_from(ways)))
    return frozenset(found), both


@pytest.mark.slow
@settings(deadline=None, max_examples=8)
@given(bares())
def test_whatever_can_be_computed_is_said_to_follow(plot: tuple[Bare, bool]) -> None:
    bare, both = plot
    charter, holdings, entries = stripped(bare)
    finding = judge_coalition(charter, entries, PLOT)
    told = [indicator([PARTIES.index(name) for name in names], 8) for names in sets(finding)]
    basis = reduced(told)
    for size in range(1, 5):
        for names in combinations(HONEST, size):
            said = follows(basis, [name in names for name in PARTIES])
            computed = computes(charter, holdings, entries, names)
            assert said or not computed
            assert computed or not said or not both


def with_decoys(charter: Charter, entries: Sequence[Entry], kind: type[Message]) -> list[Entry]:
    """The aggregator says something else before, which is never delivered."""
    found: list[Entry] = []
    numbers: dict[int, int] = {}
    seq = 0
    for entry in entries:
        if isinstance(entry, Delivered) and entry.sender == AGGREGATOR:
            entry = msgspec.structs.replace(entry, seq=numbers[entry.seq])
        if isinstance(entry, Sent):
            item = decode_envelope(entry.envelope)
            if item.sender == AGGREGATOR:
                message = charter.codec.decode(item.kind, item.body)
                told: Callable[[Any], dict[str, Any]] = {
                    Graph: lambda m: {"there": 1 - m.there, "joined": m.joined - 1},
                    Dealt: lambda m: {"dealt": 1 - m.dealt},
                    Survivors: lambda m: {"uploaded": bytes(len(m.uploaded))},
                    Closed: lambda m: dict.fromkeys(
                        ("awaited", "counted"), charter.roster.bitmap(PARTIES[:7])
                    ),
                }[kind]
                other = type(message) is kind and getattr(message, "of", "Upload") == "Upload"
                for body in [told(message)] if other else []:
                    decoy = charter.codec.encode(msgspec.structs.replace(message, **body))
                    said = msgspec.structs.replace(item, seq=seq, body=decoy)
                    found.append(Sent(at=entry.at, envelope=encode_envelope(said)))
                    seq += 1
                numbers[item.seq] = seq
                envelope = encode_envelope(msgspec.structs.replace(item, seq=seq))
                entry = Sent(at=entry.at, envelope=envelope)
                seq += 1
        found.append(entry)
    return found


@pytest.mark.parametrize("kind", [Graph, Dealt, Survivors, Closed])
def test_what_was_never_delivered_changes_nothing(kind: type[Message]) -> None:
    charter, _, entries = run(COUNTS, {PARTIES[6]: "Join", FOUR: "Upload"})
    decoys = with_decoys(charter, entries, kind)
    for members in ((), (ONE, TWO), (ONE, TWO, THREE, *PARTIES[4:6]), PARTIES[1:6]):
        coalition = Coalition((AGGREGATOR, *members))
        plain = judge_coalition(charter, entries, coalition)
        finding = judge_coalition(charter, decoys, coalition)
        assert not plain.remarks
        assert sets(finding) == sets(plain)
        assert finding.exposed == plain.exposed
        assert [found.components for found in finding.sums] == [
            found.components for found in plain.sums
        ]
        assert [found.opened for found in finding.sums] == [found.opened for found in plain.sums]
        words = "was closed before" if kind is Closed else f"a second {kind.kind()!r}"
        assert any(words in remark for remark in finding.remarks)


def test_a_closing_counts_nobody_who_has_not_contributed() -> None:
    """Party 7 never joined: that the aggregator counts it first does not expose it."""
    charter, _, entries = run(COUNTS, {PARTIES[6]: "Join"})
    decoys = with_decoys(charter, entries, Closed)
    finding = judge_coalition(charter, decoys, Coalition((AGGREGATOR, *PARTIES[1:6])))
    assert sets(finding) == [(ONE,)]
    assert any("counts party-7, who had not contributed" in remark for remark in finding.remarks)


@pytest.mark.parametrize(
    ("kept", "known"), [(2, [(THREE, *PARTIES[4:7]), (FOUR,)]), (1, [PARTIES[2:7]])]
)
def test_a_total_may_be_over_whomever_a_closing_counts(
    monkeypatch: pytest.MonkeyPatch, kept: int, known: list[tuple[PartyId, ...]]
) -> None:
    """Party 4's contribution came, and one closing counts it: nothing says that it is not right."""
    monkeypatch.setattr("protocol.audit.coalition.sums.COUNTS", kept)
    charter, _, entries = run(COUNTS)
    fewer = charter.roster.bitmap([name for name in PARTIES[:7] if name != FOUR])

    def change(item: Envelope, message: Message) -> Message | None:
        if isinstance(message, Closed) and message.of == "Upload":
            return msgspec.structs.replace(message, counted=fewer)
        return None

    twice = with_decoys(charter, changed(charter, entries, change), Closed)
    # Nobody's contribution is seen but by the total.
    finding = judge_coalition(charter, twice, Coalition((ONE, TWO)))
    assert sets(finding) == known
    assert any("was closed before" in remark for remark in finding.remarks)
