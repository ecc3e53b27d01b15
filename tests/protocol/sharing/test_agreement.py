"""Neighbours hold the same, or somebody refuses and says with whom it differs."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import numpy as np
import pytest

from protocol import AGGREGATOR, Message, PartyId, ProtocolError, QuorumError, SecureSum
from protocol.messages import Envelope
from protocol.sharing.agreement import SURVIVORS, TOTALS
from protocol.sharing.literal import _partials_digest
from protocol.sharing.messages import Graph, Partial, Partials, Tagged, Tags, Totals
from protocol.variants import SecureSumVariant
from tests.protocol.sessions import SURVEY, charter_of, identities_of
from tests.protocol.sharing.test_sums import LITERAL, STRICT, exact
from tests.protocol.sharing.test_sums_attacks import (
    ONE,
    PARTIES,
    THREE,
    TWO,
    WARY,
    Rewrite,
    attacked,
    change,
    flipped,
    graph_context,
    moved,
    row,
)
from tests.recorded.runs import Run
from tests.tiers import thinned


def words(trial: Run, sender: PartyId) -> list[int]:
    """The rounds in which a party gave its word."""
    return [m.round for m in trial.messages("Tags", sender) if isinstance(m, Tags)]


@pytest.mark.parametrize("sums", thinned([WARY, STRICT], 1), ids=["tolerant", "strict"])
def test_other_totals_for_one_are_refused(sums: SecureSum) -> None:
    """By whom they were told to at least; by all where no neighbour may be corrupt."""
    trial, holdings = attacked(change("Totals", None, TWO, totals=moved), sums)
    refusals = trial.refusals()
    assert set(refusals) == ({TWO} if sums.withstands(8).missing else set(PARTIES))
    for name, why in refusals.items():
        assert why.startswith("Tagged.tags: ")
        assert "is not confirmed by" in why
        assert why.endswith(" by party-2") or name == TWO
    if sums.withstands(8).missing:
        exact(trial, holdings, PARTIES)


def test_other_totals_for_half_are_refused_by_all() -> None:
    def rewrite(item: Envelope, message: Message) -> Message | None:
        return change("Totals", totals=moved)(item, message) if item.recipient in half else None

    half = PARTIES[:4]
    trial, _ = attacked(rewrite)
    assert set(trial.refusals()) == set(PARTIES)


@pytest.mark.parametrize(
    ("fields", "says"),
    thinned(
        [
            ({"totals": flipped()}, r"table 0 sums to \d, expected 8"),
            ({"totals": row(3, 0)}, r"table 1 sums to \d, expected 8"),
            ({"respondents": 7}, "totals: 7 respondents, expected at least 8"),
            ({"respondents": 9}, "totals: 9 respondents, expected at most 8"),
            ({"respondents": -8}, "totals: -8 respondents, expected at least 8"),
            (
                {"respondents": 0, "totals": lambda old: old * 0},
                "0 respondents, expected at least 8",
            ),
        ],
        4,
    ),
)
def test_totals_that_do_not_add_up_are_refused_at_once(fields: dict[str, Any], says: str) -> None:
    trial, _ = attacked(change("Totals", None, TWO, **fields))
    assert set(trial.refusals()) == {TWO}
    assert words(trial, TWO) == [SURVIVORS]
    assert re.search(says, trial.refusals()[TWO])


def test_other_broadcasts_for_one_are_refused_by_all() -> None:
    """In the literal profile: what a third party broadcast is shown to one as something else."""

    def other(message: Partials) -> Partials:
        values = message.values.copy()
        # The same total, with the residues of two parties swapped.
        values[[0, 2]] = values[[2, 0]]
        return Partials(values)

    def rewrite(item: Envelope, message: Message) -> Message | None:
        shown = isinstance(message, Partials) and item.recipient == TWO
        return other(message) if shown and isinstance(message, Partials) else None

    trial, _ = attacked(rewrite, LITERAL)
    assert set(trial.refusals()) == set(PARTIES)
    assert "is not confirmed by" in trial.refusals()[TWO]
    assert trial.refusals()[ONE].endswith(" is not confirmed by party-2")


def test_a_broadcast_that_was_changed_is_seen_by_whose_it_is() -> None:
    trial, _ = attacked(change("Partials", values=row(1, 0)), LITERAL)
    assert "this party's broadcast was altered" in trial.refusals()[TWO]
    assert isinstance(trial.failure, QuorumError)
    assert trial.failure.missing[0] in PARTIES


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"signature": flipped()}, "the broadcast of party-2 is not signed by it"),
        ({"signature": b""}, "the broadcast of party-2 is not signed by it"),
    ],
)
def test_a_broadcast_without_its_signature(fields: dict[str, Any], says: str) -> None:
    trial, _ = attacked(change("Partial", TWO, **fields), LITERAL)
    assert says in str(trial.failure)


def lying(sender: PartyId, round: int) -> Rewrite:
    """A party that gives its first neighbour a false word in a round."""

    def rewrite(item: Envelope, message: Message) -> Message | None:
        if isinstance(message, Tags) and (item.sender, message.round) == (sender, round):
            tags = message.tags.copy()
            tags[0] ^= 1
            return Tags(round, tags)
        return None

    return rewrite


@pytest.mark.parametrize(
    ("sums", "round"),
    thinned([(STRICT, SURVIVORS), (STRICT, TOTALS), (LITERAL, TOTALS)], 2),
    ids=["sparse survivors", "sparse totals", "literal totals"],
)
def test_a_false_word_is_named_by_whom_it_was_given_to(sums: SecureSum, round: int) -> None:
    """Where no neighbour may be corrupt, or everybody's word is needed."""
    trial, holdings = attacked(lying(TWO, round), sums)
    [(name, why)] = trial.refusals().items()
    assert name in PARTIES
    assert why.startswith("Tagged.tags: digest ")
    assert why.endswith(" is not confirmed by party-2")
    assert (trial.messages("Unmask", name) == []) == (round == SURVIVORS or sums is LITERAL)
    if round == SURVIVORS:
        assert "the sum cannot be unmasked: 6 of 7 shares" in str(trial.failure)
    else:
        exact(trial, holdings, PARTIES)


@pytest.mark.parametrize("round", [SURVIVORS, TOTALS])
@pytest.mark.parametrize("liars", [1, 2, 3])
def test_as_many_false_words_as_parties_may_be_missing_are_borne_with(
    liars: int, round: int
) -> None:
    assert WARY.withstands(8).missing == 2
    corrupt = PARTIES[:liars]

    def rewrite(item: Envelope, message: Message) -> Message | None:
        shown = isinstance(message, Tags) and item.sender in corrupt and message.round == round
        return change("Tags", tags=lambda old: old ^ 1)(item, message) if shown else None

    trial, holdings = attacked(rewrite)
    if liars <= 2:
        exact(trial, holdings, PARTIES)
        assert trial.refusals() == {}
        return
    # Each of the corrupt ones hears two false words only, and is no judge of its own.
    assert set(trial.refusals()) == set(PARTIES) - set(corrupt)
    for why in trial.refusals().values():
        found = re.search(r"Tagged.tags: digest \w+ is not confirmed by (.*)", why)
        assert found is not None
        assert set(found[1].split(", ")) == set(corrupt)
    assert (round == SURVIVORS) == isinstance(trial.failure, ProtocolError)


def test_a_false_word_and_too_few_others_name_the_liar() -> None:
    """Two may lie, but five must hold the same: of four and a liar, the liar is named."""

    def few(old: Any) -> Any:
        old[[row for row in range(7) if names[row] != TWO][4:]] = 0
        return old

    names: list[str] = []

    def rewrite(item: Envelope, message: Message) -> Message | None:
        if isinstance(message, Graph) and item.recipient == ONE:
            names[:] = message.names
        if isinstance(message, Tags) and item.sender == TWO:
            return change("Tags", tags=lambda old: old ^ 1)(item, message)
        return change("Tagged", None, ONE, given=few)(item, message)

    trial, _ = attacked(rewrite)
    assert set(trial.refusals()) == {ONE}
    assert "is not confirmed by party-2" in trial.refusals()[ONE]


def test_words_that_are_kept_back_are_missed() -> None:
    def few(old: Any) -> Any:
        old[4:] = 0
        return old

    trial, _ = attacked(change("Tagged", None, TWO, given=few))
    assert trial.refusals() == {TWO: "Tagged.given: 4 neighbours confirmed it, at least 5 needed"}
    assert trial.messages("Unmask", TWO) == []


def test_a_word_is_no_word_for_another() -> None:
    """A tag is from one party to one other: it cannot be handed on."""

    def swapped(old: Any) -> Any:
        old[[0, 1]] = old[[1, 0]]
        return old

    trial, _ = attacked(change("Tagged", None, THREE, tags=swapped), STRICT)
    assert set(trial.refusals()) == {THREE}
    trial, _ = attacked(change("Tagged", None, THREE, tags=lambda old: old[::-1]))
    assert set(trial.refusals()) == {THREE}


def test_a_word_on_the_survivors_is_no_word_on_the_totals() -> None:
    """What the neighbours said in one round, told again in the next."""
    first: list[Tagged] = []

    def rewrite(item: Envelope, message: Message) -> Message | None:
        if not isinstance(message, Tagged) or item.recipient != TWO:
            return None
        first.append(message)
        return msgspec.structs.replace(first[0], round=message.round)

    trial, _ = attacked(rewrite)
    assert set(trial.refusals()) == {TWO}
    assert words(trial, TWO) == [SURVIVORS, TOTALS]
    assert len(first) == 2


def test_the_same_for_all_is_accepted_though_it_is_false() -> None:
    """What no party can see: totals that add up and are the same for all. The record tells it."""

    def rewrite(item: Envelope, message: Message) -> Message | None:
        return (
            change("Totals", totals=moved)(item, message) if isinstance(message, Totals) else None
        )

    trial, _ = attacked(rewrite)
    assert trial.refusals() == {}
    told = trial.messages("Totals", AGGREGATOR)[0]
    assert isinstance(told, Totals)
    assert told.totals.tolist() != trial.published.totals.tolist()


def test_a_bad_literal_share_is_named() -> None:
    trial, _ = attacked(change("Deal", TWO, boxes=lambda old: old ^ 1), LITERAL)
    assert set(trial.refusals()) == set(PARTIES) - {TWO}
    assert set(trial.refusals().values()) == {"Dealt.boxes: invalid shares from party-2"}
    assert isinstance(trial.failure, QuorumError)


def test_a_literal_sum_without_a_neighbour_is_refused() -> None:
    trial, _ = attacked(change("Graph", None, TWO, there=row(0, 0)), LITERAL)
    assert "a party has not joined: the literal profile needs all of them" in trial.refusals()[TWO]
    assert trial.messages("Deal", TWO) == []


def test_a_digest_is_of_one_sum_and_its_broadcasts() -> None:
    partials = Partials(np.zeros((2, 3), np.uint8))
    digest = _partials_digest(b"a sum", partials)
    assert digest == _partials_digest(b"a sum", Partials(partials.values.copy()))
    assert digest != _partials_digest(b"a sum", Partials(partials.values + np.uint8(1)))
    assert digest != _partials_digest(b"another sum", partials)


@pytest.mark.parametrize("told", [9, 16])
@pytest.mark.parametrize("sums", [STRICT, LITERAL], ids=["sparse", "literal"])
def test_no_box_opens_between_parties_told_different_numbers(sums: SecureSum, told: int) -> None:
    """In the literal profile masks made by one modulus and taken off by another would show."""
    trial, _ = attacked(change("Graph", None, TWO, respondents=told), sums, max_records=2)
    assert set(trial.refusals()) == set(PARTIES)
    for why in trial.refusals().values():
        assert "valid shares" in why
    assert trial.messages("Upload") == trial.messages("Partial") == []


def test_a_signed_broadcast_that_is_no_sum_is_refused() -> None:
    """Each may speak for two and speaks for one: 12 fits the message, and is no count of 8."""
    contexts = set()

    def rewrite(item: Envelope, message: Message) -> Message | None:
        if isinstance(message, Graph):
            contexts.add(graph_context(item.session, message))
        if item.sender != TWO or not isinstance(message, Partial):
            return None
        [context] = contexts
        values = row(0, 12)(message.values.copy())
        charter = charter_of(SecureSumVariant(survey=SURVEY), 8)
        signed = context + b"partial" + values.tobytes()
        return Partial(values, identities_of(charter)[TWO].sign(signed))

    trial, _ = attacked(rewrite, LITERAL, max_records=2)
    assert "the broadcast of party-2 is out of range: expected values below 9" in str(trial.failure)


def test_a_broadcast_that_is_no_sum_is_refused_by_whom_it_is_told_to() -> None:
    by = change("Partials", None, TWO, values=row(0, 12))
    trial, _ = attacked(by, LITERAL, max_records=2)
    assert (
        trial.refusals()[TWO] == "Partials.values: broadcast out of range: expected values below 9"
    )
