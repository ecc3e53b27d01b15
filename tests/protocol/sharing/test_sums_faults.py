"""Secure sums under faults: exact or none, never wrong; the literal profile says who is missing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import AGGREGATOR, PartyId, ProtocolError, QuorumError, Records, SecureSum
from protocol.messages import DONE, Envelope
from protocol.session.charter import Charter
from protocol.session.fates import PASS, Fate, FateRule, Verdict
from protocol.variants import SecureSumVariant
from tests.protocol.sessions import SURVEY, answers, charter_of, holdings_of, rehearsed
from tests.protocol.sharing.test_sums import (
    AGREED,
    LITERAL,
    ROUNDS,
    SPARSE,
    UPLOADED,
    counted,
    exact,
    slack,
    survivors_of,
    vanishing,
)
from tests.recorded.runs import Run, fate_of

PARTIES = tuple(PartyId(f"party-{i}") for i in range(1, 8))
ONE, TWO, THREE = PARTIES[:3]
LITERAL_ROUNDS = ("Join", "Deal", "Partial", "Tags")
ANSWERED = {
    "Graph": "Deal",
    "Dealt": "Upload",
    "Survivors": "Tags",
    "Tagged": "Unmask",
    "Totals": AGREED,
}
"""What the aggregator says, and what a party does not say that has not heard it."""


def held(
    sums: SecureSum, parties: int = 7, *, quorum: int = 1, everyone: bool = True
) -> tuple[Charter, dict[PartyId, Records]]:
    """A charter with several respondents per party, and what everybody holds."""
    variant = SecureSumVariant(
        survey=SURVEY, sums=sums, everyone=everyone, quorum=quorum, max_records=3
    )
    charter = charter_of(variant, parties)
    return charter, holdings_of(charter, answers(SURVEY, 2 * parties + 1))


def losing(kind: str, *, to: Sequence[PartyId], fate: Fate) -> FateRule:
    """What the aggregator says of a kind to some parties."""

    def decide(item: Envelope) -> Fate:
        return fate if item.kind == kind and item.recipient in to else PASS

    return decide


@pytest.mark.parametrize("verdict", [Verdict.CRASH, Verdict.CUT, Verdict.DROP])
@pytest.mark.parametrize("kind", LITERAL_ROUNDS)
def test_a_literal_sum_without_somebody_says_who_is_missing(kind: str, verdict: Verdict) -> None:
    charter, holdings = held(LITERAL)
    trial = rehearsed(charter, holdings, fate=vanishing({TWO: kind, THREE: kind}, verdict))
    assert isinstance(trial.failure, QuorumError)
    assert (trial.failure.kind, trial.failure.missing) == (kind, (TWO, THREE))
    assert (trial.failure.answered, trial.failure.at_least) == (5, 7)
    assert "missing: party-2, party-3" in str(trial.failure)


def test_a_literal_sum_without_somebody_who_never_came() -> None:
    charter, holdings = held(LITERAL)
    del holdings[TWO]
    trial = rehearsed(charter, holdings)
    assert isinstance(trial.failure, QuorumError)
    assert (trial.failure.kind, trial.failure.missing) == ("Join", (TWO,))
    # Nobody has dealt or told anything.
    assert {e.kind for e in trial.said()} == {"Begin", "Join", "Closed"}


@pytest.mark.parametrize("kind", ROUNDS)
def test_too_few_for_the_quorum(kind: str) -> None:
    charter, holdings = held(SPARSE, quorum=7)
    trial = rehearsed(charter, holdings, fate=vanishing({TWO: kind}))
    assert isinstance(trial.failure, QuorumError)
    # Who vanishes once it has uploaded is in the sum; what is missing in the end is its word.
    last = "Tags" if kind in UPLOADED else kind
    assert (trial.failure.kind, trial.failure.missing) == (last, (TWO,))


@pytest.mark.parametrize("kind", ROUNDS[:-1])
def test_one_more_than_the_bound_gives_no_sum(kind: str) -> None:
    charter, holdings = held(SPARSE, everyone=False)
    most = slack(7)
    for gone, enough in ((most, True), (most + 1, False)):
        trial = rehearsed(charter, holdings, fate=vanishing(dict.fromkeys(PARTIES[:gone], kind)))
        assert (trial.failure is None) == enough
        if enough:
            uploaded = survivors_of(charter, dict.fromkeys(PARTIES[:gone], kind))
            exact(trial, holdings, uploaded)
    if kind == "Tags":
        says = "Tagged.given: 3 neighbours confirmed it, at least 4 needed"
        assert trial.refusals() == dict.fromkeys(PARTIES[most + 1 :], says)
        assert trial.messages("Unmask") == []
    if kind == "Unmask":
        assert "the sum cannot be unmasked: 3 of 4 shares of party-" in str(trial.failure)
        assert "no valid share from party-" in str(trial.failure)


@pytest.mark.parametrize(
    "fate", [Fate(Verdict.DROP), Fate(delay=1000.0), Fate(Verdict.CUT)], ids=str
)
@pytest.mark.parametrize("kind", ANSWERED)
def test_words_of_the_aggregator_that_are_lost_or_late(kind: str, fate: Fate) -> None:
    charter, holdings = held(SPARSE)
    rule = losing(kind, to=(TWO, THREE), fate=fate)
    if fate.verdict is Verdict.CUT:
        rule = vanishing({TWO: ANSWERED[kind], THREE: ANSWERED[kind]}, fate.verdict)
    trial = rehearsed(charter, holdings, fate=rule)
    gone = {TWO: ANSWERED[kind], THREE: ANSWERED[kind]}
    exact(trial, holdings, survivors_of(charter, gone))
    assert {n for n, end in trial.endings.items() if end == DONE} == set(PARTIES) - set(gone)


def test_an_upload_that_is_late_is_not_in_it_and_stays_masked() -> None:
    """Its masks with others are taken out by then; its own mask is what protects it."""
    charter, holdings = held(SPARSE, everyone=False)

    trial = rehearsed(charter, holdings, fate=fate_of(Fate(delay=100.0), TWO, "Upload"))
    exact(trial, holdings, [name for name in PARTIES if name != TWO])
    assert [e.kind for e in trial.said() if e.sender == TWO] == ["Join", "Deal", "Upload"]


@pytest.mark.slow
@pytest.mark.parametrize("verdict", [Verdict.DROP, Verdict.CUT, Verdict.DUPLICATE])
@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32))
def test_whatever_is_lost_the_sum_is_exact_or_there_is_none(verdict: Verdict, seed: int) -> None:
    """A share of all envelopes in any direction: whoever is said to be in the sum is in it."""

    def decide(item: Envelope) -> Fate:
        about = f"{seed} {item.sender} {item.recipient} {item.seq}".encode()
        return Fate(verdict) if hashlib.sha256(about).digest()[0] < 12 else PASS

    charter, holdings = held(SPARSE)
    sound(rehearsed(charter, holdings, fate=decide), holdings)


def sound(trial: Run, holdings: dict[PartyId, Records]) -> None:
    """An error, or the exact sum of whom it names."""
    if trial.failure is not None:
        assert isinstance(trial.failure, ProtocolError)
        assert trial.messages("Tally") == []
        return
    names = trial.names(trial.published.survivors)
    assert names
    exact(trial, holdings, names)


def test_nobody_unmasks_for_fewer_than_agreed() -> None:
    charter, holdings = held(SPARSE, everyone=False)
    trial = rehearsed(
        charter, holdings, fate=vanishing(dict.fromkeys(PARTIES[: slack(7) + 1], "Upload"))
    )
    assert isinstance(trial.failure, QuorumError)
    assert trial.refusals() == {}
    assert trial.messages("Unmask") == []


def test_the_sum_of_the_survivors_is_not_that_of_all() -> None:
    """What the tests above compare with would not hold by chance."""
    charter, holdings = held(SPARSE)
    variant = charter.variant
    assert isinstance(variant, SecureSumVariant)
    sums = [counted(variant, holdings, [n for n in PARTIES if n != out]) for out in PARTIES]
    assert counted(variant, holdings, PARTIES) not in sums
    assert AGGREGATOR not in holdings
