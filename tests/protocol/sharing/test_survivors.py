"""Everybody unmasks one survivor set: who tells parties different ones learns nothing by it."""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from protocol import Message, PartyId, RemoteProtocolError, SecureSum
from protocol.messages import Envelope
from protocol.sharing.messages import Survivors, Unmask
from protocol.sharing.sparse import survivors_among, survivors_digest
from protocol.variants import SecureSumVariant
from tests.protocol.sessions import (
    SURVEY,
    answers,
    charter_of,
    holdings_of,
    read_roster,
    rehearsed,
)
from tests.protocol.sharing.test_sums import FEW, STRICT, exact, vanishing
from tests.protocol.sharing.test_sums_attacks import (
    PARTIES,
    THREE,
    TWO,
    WARY,
    attacked,
    named,
    rewriting,
    surviving,
)


@st.composite
def sets(draw: st.DrawFn) -> NDArray[np.bool_]:
    """Who has uploaded, of one to some hundred parties."""
    n = draw(st.one_of(st.integers(1, 300), st.sampled_from([7, 8, 15, 255])))
    return np.random.default_rng(draw(st.integers(0, 2**32))).random(n) < 0.7


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(sets())
def test_a_survivor_set_is_a_bitmap_over_the_roster(uploaded: NDArray[np.bool_]) -> None:
    n = len(uploaded)
    roster = read_roster(n)
    names = [name for name, there in zip(roster.parties, uploaded, strict=True) if there]
    assert surviving(uploaded.tolist()).uploaded == roster.bitmap(names)
    assert survivors_among(roster.bitmap(names), parties=n).tolist() == uploaded.tolist()


@settings(deadline=None, max_examples=60)
@given(sets(), st.data())
def test_a_bitmap_of_another_length_is_refused(
    uploaded: NDArray[np.bool_], data: st.DataObject
) -> None:
    n = len(uploaded)
    fine = surviving(uploaded.tolist()).uploaded
    beyond = [0, *range(n + 1, 8 * len(fine))]
    bit = data.draw(st.sampled_from(beyond))
    set_ = bytearray(fine)
    set_[bit // 8] |= 1 << bit % 8
    for forged in (bytes(set_), fine + b"\0", fine[:-1], b""):
        with pytest.raises(RemoteProtocolError, match=r"^Survivors\.uploaded: expected a bitmap "):
            survivors_among(forged, parties=n)


def test_sets_that_differ_in_a_bit_have_other_digests() -> None:
    fine = surviving([True] * 8).uploaded
    digests = {
        survivors_digest(Survivors(bytes([*fine[:i], fine[i] ^ 1 << bit, *fine[i + 1 :]])))
        for i in range(len(fine))
        for bit in range(8)
    }
    assert len(digests | {survivors_digest(Survivors(fine))}) == 8 * len(fine) + 1


@pytest.mark.slow
def test_all_are_told_one_set_once() -> None:
    """Among more parties than are neighbours, some of them gone."""
    n = 60
    charter = charter_of(SecureSumVariant(survey=SURVEY, quorum=n - 4), n)
    holdings = holdings_of(charter, answers(SURVEY, n))
    names = charter.roster.parties
    gone = dict.fromkeys([*names[:2], *names[-2:]], "Upload")
    trial = rehearsed(charter, holdings, fate=vanishing(gone))
    exact(trial, holdings, [name for name in names if name not in gone])
    [told] = {m.uploaded for m in trial.messages("Survivors") if isinstance(m, Survivors)}
    assert told == trial.published.survivors


def without(*names: PartyId) -> Callable[[Survivors], Survivors]:
    """A survivor set that lacks some of eight parties."""
    return lambda old: surviving([name not in names for name in PARTIES])


def telling(
    to: Collection[PartyId], other: Callable[[Survivors], Survivors]
) -> Callable[[Envelope, Message], Message | None]:
    """An aggregator that tells some parties of other survivors."""

    def rewrite(item: Envelope, message: Message) -> Message | None:
        shown = isinstance(message, Survivors) and item.recipient in to
        return other(message) if shown and isinstance(message, Survivors) else None

    return rewrite


@pytest.mark.parametrize("sums", [WARY, STRICT], ids=["tolerant", "strict"])
def test_who_alone_is_told_of_other_survivors_reveals_nothing(sums: SecureSum) -> None:
    trial, holdings = attacked(telling([TWO], without(THREE)), sums)
    assert trial.messages("Unmask", TWO) == []
    if sums.withstands(8).missing:
        assert "is not confirmed by " in trial.refusals()[TWO]
        # The others have received one false word: its sender counts as missing.
        assert set(trial.refusals()) == {TWO}
        exact(trial, holdings, PARTIES)
        assert named(trial) == []
    else:
        # One party that is gone is one too many, and so is one false word.
        assert "cannot be checked: 1, expected at most 0" in trial.refusals()[TWO]
        assert set(trial.refusals()) == set(PARTIES)
        assert trial.messages("Unmask") == []


def test_two_camps_with_two_survivor_sets_reveal_nothing() -> None:
    trial, _ = attacked(telling(PARTIES[:4], without(THREE, PARTIES[6])))
    assert set(trial.refusals()) == set(PARTIES)
    assert trial.messages("Unmask") == []
    assert trial.failure is not None


@pytest.mark.parametrize("bit", [0, 9, 15], ids=["aggregator's", "first beyond", "last beyond"])
@pytest.mark.parametrize("to", [[TWO], PARTIES], ids=["one", "all"])
def test_a_bit_that_stands_for_no_party_is_refused(bit: int, to: Collection[PartyId]) -> None:
    """Also where all are told the same: it would count as a survivor."""

    def other(old: Survivors) -> Survivors:
        return Survivors((int.from_bytes(old.uploaded, "little") | 1 << bit).to_bytes(2, "little"))

    trial, _ = attacked(telling(to, other))
    assert set(trial.refusals()) == set(to)
    for name, why in trial.refusals().items():
        assert why.startswith("Survivors.uploaded: expected a bitmap over 9 members")
        assert (trial.messages("Tags", name), trial.messages("Unmask", name)) == ([], [])


def test_who_is_not_among_the_survivors_itself_refuses() -> None:
    """Even if all are told the same: by what it unmasks, its own upload could be had."""
    for to in ([TWO], PARTIES):
        trial, _ = attacked(telling(to, without(TWO)))
        assert "the survivors leave out this party" in trial.refusals()[TWO]
        assert (trial.messages("Tags", TWO), trial.messages("Unmask", TWO)) == ([], [])


def test_fewer_survivors_than_agreed_are_told_to_their_face() -> None:
    trial, _ = attacked(telling([TWO], without(THREE, PARTIES[7])), quorum=7)
    says = "parties that are missing or cannot be checked: 2, expected at most 1"
    assert says in trial.refusals()[TWO]
    assert trial.messages("Unmask", TWO) == []


@pytest.mark.slow
def test_more_survivors_than_have_joined_are_refused_by_all() -> None:
    """Also by those who are no neighbours of the one that never came."""
    charter = charter_of(SecureSumVariant(survey=SURVEY, sums=FEW), 256)
    holdings = holdings_of(charter, answers(SURVEY, 256))
    names = charter.roster.parties
    rewrite = telling(names, lambda old: surviving([True] * 256))
    trial = rehearsed(
        charter,
        holdings,
        fate=vanishing({names[7]: "Join"}),
        exchange=rewriting(charter.codec, rewrite),
    )
    whys = list(trial.refusals().values())
    assert len(whys) == 255
    beside = [why for why in whys if "include a neighbour that has not joined" in why]
    others = [why for why in whys if "256 survivors of 255 who joined" in why]
    assert (len(beside), len(others)) == (FEW.degree(256).neighbours, 255 - len(beside))
    assert others
    assert trial.messages("Unmask") == []


def test_survivors_that_have_not_joined_are_refused() -> None:
    """They have dealt nothing, and nobody has a mask with them."""
    charter = charter_of(SecureSumVariant(survey=SURVEY, sums=WARY), 8)
    trial = rehearsed(
        charter,
        holdings_of(charter, answers(SURVEY, 8)),
        fate=vanishing({THREE: "Join"}),
        exchange=rewriting(charter.codec, telling([TWO], lambda old: surviving([True] * 8))),
    )
    assert "or include a neighbour that has not joined" in trial.refusals()[TWO]
    assert trial.messages("Unmask", TWO) == []


def test_a_sum_that_cannot_be_unmasked_names_who_is_accused() -> None:
    """Four of eight reveal what they were not dealt; three too many."""
    liars = PARTIES[:4]

    def rewrite(item: Envelope, message: Message) -> Message | None:
        shown = isinstance(message, Unmask) and item.sender in liars
        return msgspec.structs.replace(message, box=b"") if shown else None

    trial, _ = attacked(rewrite)
    why = str(trial.failure)
    assert "the sum cannot be unmasked: " in why
    assert why.endswith("accused: party-1, party-2, party-3, party-4")
