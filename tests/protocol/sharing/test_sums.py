"""Secure sums are exact for whoever survives, whatever is counted and whoever vanishes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import (
    AGGREGATOR,
    PartyId,
    PrivacyError,
    QuorumError,
    Records,
    SecureSum,
    Survey,
)
from protocol.messages import DONE, Envelope
from protocol.session.charter import Charter
from protocol.session.fates import PASS, Fate, FateRule, Verdict
from protocol.session.roster import Roster
from protocol.sharing.messages import Begin
from protocol.variants import PairCounts, SecureSumVariant
from protocol.variants.sums.tallies import Tallied, Tally
from tests.enumeration import survey_of
from tests.protocol.sessions import (
    SURVEY,
    answers,
    charter_of,
    envelope,
    everywhere,
    holdings_of,
    machine_of,
    rehearsed,
    words_sent,
)
from tests.recorded.runs import Run, recorded

LITERAL = SecureSum(profile="literal")
STRICT = SecureSum()
"""Among few parties nobody may be missing."""
SPARSE = SecureSum(dropped=0.3)
COUPLE = SecureSum(corrupt=0.0)
"""Among two parties nobody may conspire with the aggregator."""
FEW = SecureSum(corrupt=0.05, security=8, correctness=4)
"""Among 256 parties everybody has 24 neighbours, of whom 16 can unmask."""
AGREED = "Tags 5"
"""A party's word on the totals, by its place among what it says; that on survivors is its 3rd."""

ROUNDS = ("Join", "Deal", "Upload", "Tags", "Unmask", AGREED)
UPLOADED = ("Tags", "Unmask", AGREED)
"""The rounds in which only those vanish whose counts are in already."""


def counted(
    variant: Tallied, holdings: Mapping[PartyId, Records], names: Sequence[PartyId]
) -> list[int]:
    """The vector that these parties' records make, counted one table after the other."""
    cells: list[int] = []
    for table in variant.tables:
        total = sum(holdings[name].counts(table).astype(int) for name in names)
        cells += np.asarray(total).reshape(-1).tolist()
    return cells


def exact(trial: Run, holdings: Mapping[PartyId, Records], names: Sequence[PartyId]) -> None:
    """The published sum is the exact one of these parties."""
    tally, variant = trial.published, trial.charter.variant
    assert isinstance(variant, Tallied)
    assert trial.names(tally.survivors) == list(names)
    assert tally.totals.tolist() == counted(variant, holdings, names)
    assert tally.respondents == sum(len(holdings[name]) for name in names)


def vanishing(when: Mapping[PartyId, str], verdict: Verdict = Verdict.CRASH) -> FateRule:
    """Parties that end before they send their message of a kind, or of a kind at a place."""

    def decide(item: Envelope) -> Fate:
        names = item.kind, f"{item.kind} {item.seq}"
        return Fate(verdict) if when.get(item.sender) in names else PASS

    return decide


def slack(parties: int, sums: SecureSum = SPARSE) -> int:
    """How many may vanish from among everybody's neighbours."""
    degree = sums.degree(parties)
    return degree.neighbours - degree.threshold


@st.composite
def surveys(draw: st.DrawFn) -> Survey:
    sizes = draw(st.lists(st.integers(2, 4), min_size=2, max_size=3))
    return survey_of(*sizes)


@st.composite
def sessions(
    draw: st.DrawFn, sums: SecureSum, parties: st.SearchStrategy[int]
) -> tuple[Charter, dict[PartyId, Records], dict[PartyId, str]]:
    """A charter, what everybody holds, and who vanishes when."""
    survey, n = draw(surveys()), draw(parties)
    most = draw(st.sampled_from([1, 3, 40_000]))
    kind = draw(st.sampled_from([SecureSumVariant, PairCounts]))
    everyone = draw(st.booleans())
    variant = kind(survey=survey, sums=sums, everyone=everyone, max_records=most)
    charter = charter_of(variant, n)
    seed = draw(st.integers(0, 2**32))
    rng = np.random.default_rng(seed)
    holdings = {
        name: answers(survey, int(rng.integers(1, min(most, 3) + 1)), seed=seed + i)
        for i, name in enumerate(charter.roster.parties)
    }
    rounds = ROUNDS if everyone else ROUNDS[:-1]
    gone = {
        name: draw(st.sampled_from(rounds))
        for name in draw(
            st.lists(st.sampled_from(charter.roster.parties), max_size=slack(n, sums), unique=True)
        )
    }
    return charter, holdings, gone


def survivors_of(charter: Charter, gone: Mapping[PartyId, str]) -> list[PartyId]:
    return [n for n in charter.roster.parties if n not in gone or gone[n] in UPLOADED]


def check_survivors(
    charter: Charter, holdings: Mapping[PartyId, Records], gone: Mapping[PartyId, str]
) -> None:
    trial = rehearsed(charter, holdings, fate=vanishing(gone))
    exact(trial, holdings, survivors_of(charter, gone))
    assert trial.published.accused == charter.roster.bitmap(())
    assert {n for n, end in trial.endings.items() if end != DONE} == set(gone)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(sessions(SPARSE, st.integers(3, 14)))
def test_a_sparse_sum_is_that_of_whoever_uploaded(
    session: tuple[Charter, dict[PartyId, Records], dict[PartyId, str]],
) -> None:
    check_survivors(*session)


@pytest.mark.slow
@settings(deadline=None, max_examples=3)
@given(sessions(SPARSE, st.integers(40, 48)))
def test_a_sparse_sum_among_some_neighbours(
    session: tuple[Charter, dict[PartyId, Records], dict[PartyId, str]],
) -> None:
    check_survivors(*session)


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(sessions(LITERAL, st.integers(3, 10)))
def test_a_literal_sum_is_that_of_all(
    session: tuple[Charter, dict[PartyId, Records], dict[PartyId, str]],
) -> None:
    charter, holdings, _ = session
    trial = rehearsed(charter, holdings)
    exact(trial, holdings, charter.roster.parties)
    assert set(trial.endings.values()) == {DONE}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ROUNDS)
def test_a_tenth_may_vanish_in_any_round(kind: str) -> None:
    variant = SecureSumVariant(survey=SURVEY, everyone=True, quorum=80)
    charter = charter_of(variant, 100)
    drawn = np.random.default_rng(7).choice(100, 10, replace=False).tolist()
    check_survivors(
        charter,
        holdings_of(charter, answers(SURVEY, 100)),
        {charter.roster.parties[i]: kind for i in drawn},
    )


@pytest.mark.parametrize("sums", [SPARSE, LITERAL], ids=["sparse", "literal"])
@pytest.mark.parametrize("respondents", [2**16 - 1, 2**16])
def test_counts_that_fill_a_cell(sums: SecureSum, respondents: int) -> None:
    """Everybody is in one cell: the largest count that two bytes hold, and one more."""
    half = respondents // 2
    rest = respondents - half
    couple = msgspec.structs.replace(sums, corrupt=0.0)
    variant = SecureSumVariant(survey=SURVEY, sums=couple, max_records=rest)
    charter = charter_of(variant, 2)
    codes = np.zeros((respondents, 2), np.uint8)
    parts = {
        PartyId("party-1"): Records(SURVEY, codes[:half]),
        PartyId("party-2"): Records(SURVEY, codes[:rest]),
    }
    trial = rehearsed(charter, parts)
    assert trial.published.totals.tolist() == [respondents, 0, respondents, 0, 0]


def budget_rest(charter: Charter, gone: Sequence[PartyId], attempt: int) -> Charter:
    """The charter of another attempt, without some."""
    variant = charter.variant
    assert isinstance(variant, SecureSumVariant)
    sums = SecureSum(profile=variant.sums.profile)
    members = tuple(m for m in charter.roster.members if m[0] not in gone)
    return Charter(
        variant=SecureSumVariant(survey=variant.survey, sums=sums),
        roster=Roster(members),
        attempt=attempt,
    )


def fixed(trial: Run, sender: PartyId, kind: str, field: str) -> bytes:
    [message] = trial.messages(kind, sender)
    content: bytes = getattr(message, field).tobytes()
    return content


@pytest.mark.parametrize("sums", [SPARSE, LITERAL], ids=["sparse", "literal"])
def test_another_attempt_among_the_rest_is_exact_and_masked_afresh(sums: SecureSum) -> None:
    charter = charter_of(SecureSumVariant(survey=SURVEY, sums=sums, quorum=5), 5)
    holdings = holdings_of(charter, answers(SURVEY, 5))
    third = charter.roster.parties[2]
    kind = "Partial" if sums.profile == "literal" else "Upload"
    first = rehearsed(charter, holdings, fate=vanishing({third: kind}))
    assert isinstance(first.failure, QuorumError)
    assert first.failure.missing == (third,)
    others = {name: held for name, held in holdings.items() if name != third}
    again = budget_rest(charter, [third], attempt=2)
    # The same rest in the same attempt, to tell what the attempt alone changes.
    same = rehearsed(budget_rest(charter, [third], attempt=1), others)
    second = rehearsed(again, others)
    exact(second, others, again.roster.parties)
    said = [("Deal", "boxes"), ("Deal", "commitments"), ("Deal", "salt"), (kind, "values")]
    if sums.profile == "sparse":
        said += [("Deal", "seeds"), ("Deal", "digests")]
    for name in others:
        for of, field in said:
            fresh = fixed(second, name, of, field)
            for before in (first, same):
                old = fixed(before, name, of, field)
                assert all(old[i : i + 8] not in fresh for i in range(0, len(old) - 7, 8))
                assert old != fresh
        assert fixed(first, name, "Join", "nonce") != fixed(second, name, "Join", "nonce")


@pytest.mark.parametrize("sums", [SPARSE, LITERAL], ids=["sparse", "literal"])
def test_what_was_not_agreed_to_is_refused(sums: SecureSum) -> None:
    charter = charter_of(SecureSumVariant(survey=SURVEY, sums=sums))
    machine = machine_of(charter, "party-1")
    machine.start(0.0)
    machine.receive(envelope(charter, AGGREGATOR, 0, Begin(bytes(32)), to="party-1"), 0.0)
    assert [e.kind for e in words_sent(machine)] == ["Declined"]
    assert isinstance(machine.failure, PrivacyError)
    assert "asked about another survey" in str(machine.failure)


def test_who_is_asked_again_does_not_answer() -> None:
    charter = charter_of(SecureSumVariant(survey=SURVEY))
    machine = machine_of(charter, "party-1")
    machine.start(0.0)
    begin = Begin(SURVEY.digest)
    machine.receive(envelope(charter, AGGREGATOR, 0, begin, to="party-1"), 0.0)
    assert [e.kind for e in words_sent(machine)] == ["Join"]
    machine.receive(envelope(charter, AGGREGATOR, 1, begin, to="party-1"), 0.0)
    assert words_sent(machine) == []
    assert len(machine.kept) == 1


@pytest.mark.parametrize("sums", [SPARSE, LITERAL], ids=["sparse", "literal"])
@pytest.mark.parametrize("verdict", [Verdict.CRASH, Verdict.CUT, Verdict.DROP, Verdict.DUPLICATE])
def test_local_and_memory_agree_under_faults(sums: SecureSum, verdict: Verdict) -> None:
    variant = SecureSumVariant(survey=SURVEY, sums=sums, everyone=True)
    charter = charter_of(variant, 7)
    holdings = holdings_of(charter, answers(SURVEY, 7))
    if verdict is Verdict.DUPLICATE:
        outcome = everywhere(charter, holdings, fate=lambda _: Fate(verdict))
        assert set(outcome.endings.values()) == {DONE}
    elif sums.profile == "sparse":
        gone = {charter.roster.parties[1]: "Upload", charter.roster.parties[4]: "Unmask"}
        outcome = everywhere(charter, holdings, fate=vanishing(gone, verdict))
        result = outcome.published
        assert isinstance(result, Tally)
        assert result.totals.tolist() == counted(variant, holdings, survivors_of(charter, gone))


def traffic(parties: int) -> tuple[int, int]:
    """The most bytes that a party sends and receives, and how many neighbours it has."""
    variant = PairCounts(survey=SURVEY, everyone=True, sums=FEW)
    trial = recorded(variant, parties)
    assert trial.failure is None
    bytes_of = dict.fromkeys(trial.charter.roster.parties, 0)
    for e in trial.said():
        if e.sender in bytes_of:
            bytes_of[e.sender] += len(e.body)
    for name in bytes_of:
        bytes_of[name] += sum(len(e.body) for e in trial.heard[name])
    return max(bytes_of.values()), FEW.degree(parties).neighbours


def check_traffic(small: int, large: int) -> None:
    most, neighbours = {}, {}
    for n in (small, large):
        most[n], neighbours[n] = traffic(n)
        # Per neighbour: a name, two keys, two boxes, four commitments, four tags, and a proof of
        # at most log n hashes.
        per_neighbour = 2 * (64 + 16 + 32) + 3 * 16 + 48 + 2 * 32 + 32 + 32 * math.log2(n)
        assert most[n] < 700 + 32 * math.log2(n) + neighbours[n] * per_neighbour
    growth = math.log2(large) ** 2 / math.log2(small) ** 2
    per_party = neighbours[large] / neighbours[small]
    assert most[large] / most[small] < per_party * math.log2(large) / math.log2(small)
    # While k is small it grows faster than its law, towards it.
    assert per_party < 1.5 * growth


@pytest.mark.slow
def test_traffic_of_a_party_grows_with_its_neighbours() -> None:
    check_traffic(256, 400)


@pytest.mark.slow
def test_traffic_of_a_party_among_many() -> None:
    check_traffic(256, 1000)
