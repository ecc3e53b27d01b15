"""Everybody unmasks one survivor set: who tells parties different ones learns nothing by it."""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from protocol.crypto.merkle import joint_path, leaf_hash, levels_of
from protocol.errors import RemoteProtocolError
from protocol.messages import Envelope, Message, PartyId
from protocol.sharing.meeting import stacked
from protocol.sharing.messages import PART_BYTES, Survivors, Unmask
from protocol.sharing.sparse import _among, _parts_of
from protocol.sharing.sums import SecureSum
from protocol.variants.sums.secure_sum import SecureSumVariant
from tests.protocol.sessions import SURVEY, answers, charter_of, holdings_of, rehearsed
from tests.protocol.sharing.test_sums import SPARSE, exact, vanishing
from tests.protocol.sharing.test_sums_attacks import (
    PARTIES,
    THREE,
    TWO,
    WARY,
    attacked,
    change,
    flipped,
    named,
    row,
    surviving,
)
from tests.vectors.make import tree_hash

WHOLE = 8 * PART_BYTES
"""How many places a part of a survivor set has."""


def proven(uploaded: NDArray[np.bool_], places: NDArray[np.int64]) -> Survivors:
    """What an honest aggregator tells a party that asks about these places."""
    parts = _parts_of(uploaded)
    tree = levels_of([leaf_hash(part) for part in parts])
    numbers = sorted(set((places // WHOLE).tolist()))
    needed = np.frombuffer(b"".join(parts[number] for number in numbers), np.uint8)
    return Survivors(
        int(uploaded.sum()),
        np.frombuffer(tree[-1][0], np.uint8),
        needed.reshape(-1, PART_BYTES),
        stacked(joint_path(tree, numbers)),
    )


@st.composite
def sets(draw: st.DrawFn) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Who has uploaded, and about whom a party asks."""
    n = draw(st.one_of(st.integers(1, 4 * WHOLE), st.sampled_from([WHOLE, WHOLE + 1, 3 * WHOLE])))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    places = rng.choice(n, draw(st.integers(1, min(n, 30))), replace=False)
    return rng.random(n) < 0.7, places.astype(np.int64)


@settings(deadline=None, max_examples=60)
@given(sets())
def test_a_survivor_set_is_read_from_its_parts(
    case: tuple[NDArray[np.bool_], NDArray[np.int64]],
) -> None:
    uploaded, places = case
    n = len(uploaded)
    message = proven(uploaded, places)
    # By definition: one bit per place, the lowest first, in leaves of 32 bytes.
    whole = sum(1 << place for place in np.flatnonzero(uploaded).tolist())
    leaves = whole.to_bytes(-(-n // WHOLE) * PART_BYTES, "little")
    cut = [leaves[i : i + PART_BYTES] for i in range(0, len(leaves), PART_BYTES)]
    assert message.root.tobytes() == tree_hash(cut)
    assert len(message.parts) == len(set((places // WHOLE).tolist()))
    assert _among(places, message, parties=n).tolist() == uploaded[places].tolist()


@settings(deadline=None, max_examples=60)
@given(sets(), st.sampled_from(["root", "parts", "path"]), st.integers(0, 2**16), st.integers(0, 7))
def test_what_is_not_under_the_root_is_refused(
    case: tuple[NDArray[np.bool_], NDArray[np.int64]], field: str, place: int, bit: int
) -> None:
    uploaded, places = case
    message = proven(uploaded, places)
    old = getattr(message, field)
    forged = [
        msgspec.structs.replace(message, path=np.concatenate([message.path, message.root[None]])),
        msgspec.structs.replace(message, parts=np.concatenate([message.parts, message.parts])),
        msgspec.structs.replace(message, parts=message.parts[:0]),
    ]
    if len(message.path):
        forged.append(msgspec.structs.replace(message, path=message.path[1:]))
    if old.size:
        forged.append(
            msgspec.structs.replace(message, **{field: flipped(place, 1 << bit)(old.copy())})
        )
    for other in forged:
        with pytest.raises(RemoteProtocolError, match=r"^Survivors\.(path|parts): "):
            _among(places, other, parties=len(uploaded))


def test_a_set_of_several_parts_is_agreed_on() -> None:
    """Among more parties than a part has places, some of them gone."""
    n = WHOLE + 8
    charter = charter_of(SecureSumVariant(survey=SURVEY, quorum=n - 8), n)
    holdings = holdings_of(charter, answers(SURVEY, n))
    names = charter.roster.parties
    gone = dict.fromkeys([*names[:2], *names[-2:]], "Upload")
    trial = rehearsed(charter, holdings, fate=vanishing(gone))
    exact(trial, holdings, [name for name in names if name not in gone])
    told = [m for m in trial.messages("Survivors") if isinstance(m, Survivors)]
    assert {len(m.parts) for m in told} == {1, 2}
    assert len({m.root.tobytes() for m in told}) == 1


def without(*names: PartyId) -> Callable[[Survivors], Survivors]:
    """A survivor set that lacks some of eight parties, well proven."""
    return lambda old: surviving(old, [name not in names for name in PARTIES])


def telling(
    to: Collection[PartyId], other: Callable[[Survivors], Survivors]
) -> Callable[[Envelope, Message], Message | None]:
    """An aggregator that tells some parties of other survivors."""

    def rewrite(item: Envelope, message: Message) -> Message | None:
        shown = isinstance(message, Survivors) and item.recipient in to
        return other(message) if shown and isinstance(message, Survivors) else None

    return rewrite


@pytest.mark.parametrize("sums", [WARY, SPARSE], ids=["tolerant", "strict"])
def test_who_alone_is_told_of_other_survivors_reveals_nothing(sums: SecureSum) -> None:
    trial, holdings = attacked(telling([TWO], without(THREE)), sums)
    assert "is not confirmed by " in trial.refusals()[TWO]
    assert trial.messages("Unmask", TWO) == []
    if sums.degree(8).tolerated:
        # The others have heard one false word, which may be that of a corrupt neighbour.
        assert set(trial.refusals()) == {TWO}
        exact(trial, holdings, PARTIES)
        assert named(trial) == []
    else:
        # One false word is one too many.
        assert set(trial.refusals()) == set(PARTIES)
        assert trial.messages("Unmask") == []


def test_two_camps_with_two_survivor_sets_reveal_nothing() -> None:
    trial, _ = attacked(telling(PARTIES[:4], without(THREE, PARTIES[6])))
    assert set(trial.refusals()) == set(PARTIES)
    assert trial.messages("Unmask") == []
    assert trial.failure is not None


@pytest.mark.parametrize("field", ["root", "parts"])
def test_survivors_that_are_not_under_their_root_are_refused(field: str) -> None:
    """The set that others hold, with another bit for one: its tag would be the same."""
    trial, holdings = attacked(change("Survivors", None, TWO, **{field: flipped()}))
    says = "Survivors.path: the survivor set does not match its Merkle root"
    assert trial.refusals() == {TWO: says}
    assert (trial.messages("Tags", TWO), trial.messages("Unmask", TWO)) == ([], [])
    exact(trial, holdings, PARTIES)


def test_who_is_not_among_the_survivors_itself_refuses() -> None:
    """Even if all are told the same: by what it unmasks, its own upload could be had."""
    for to in ([TWO], PARTIES):
        trial, _ = attacked(telling(to, without(TWO)))
        assert "the survivors leave out this party" in trial.refusals()[TWO]
        assert (trial.messages("Tags", TWO), trial.messages("Unmask", TWO)) == ([], [])


def test_fewer_survivors_than_agreed_are_told_to_their_face() -> None:
    trial, _ = attacked(change("Survivors", None, TWO, survivors=6), quorum=7)
    assert (
        "6 survivors and 7 neighbours with valid shares among them: at least 7 and 5"
        in trial.refusals()[TWO]
    )
    assert trial.messages("Unmask", TWO) == []


def test_survivors_that_have_dealt_nothing_are_refused() -> None:
    by = change("Dealt", None, TWO, dealt=row(0, 0))
    trial, _ = attacked(by)
    assert "or include a neighbour that has not dealt" in trial.refusals()[TWO]
    # The mask of one side is in the sum, and that shows.
    assert "the totals are not counts of 8 respondents" in str(trial.failure)


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
