"""Neighbours hold the same, or somebody refuses and says with whom it differs."""

from __future__ import annotations

import re
from typing import Any

import pytest

from protocol.errors import QuorumError
from protocol.messages import AGGREGATOR, Envelope, Message
from protocol.sharing.messages import Graph, Partial, Partials, Totals
from protocol.variants.secure_sum import SecureSumVariant
from tests.protocol.simulation import SURVEY, charter_of, identities_of
from tests.protocol.test_sums import LITERAL, exact
from tests.protocol.test_sums_attacks import (
    CONTEXT,
    ONE,
    PARTIES,
    THREE,
    TWO,
    WARY,
    attacked,
    change,
    flipped,
    moved,
    row,
)


def test_other_totals_for_one_are_refused_by_all() -> None:
    trial, _ = attacked(change("Totals", None, TWO, totals=moved))
    refusals = trial.refusals()
    assert set(refusals) == set(PARTIES)
    for name, why in refusals.items():
        assert "was told something else" in why
        assert "party-2" in why or name == TWO


def test_other_totals_for_half_are_refused_by_all() -> None:
    def rewrite(item: Envelope, message: Message) -> Message | None:
        return change("Totals", totals=moved)(item, message) if item.recipient in half else None

    half = PARTIES[:4]
    trial, _ = attacked(rewrite)
    assert set(trial.refusals()) == set(PARTIES)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"totals": flipped()}, r"table 0 sums to \d, expected 8"),
        ({"totals": row(3, 0)}, r"table 1 sums to \d, expected 8"),
        ({"respondents": 7}, "table 0 sums to 8, expected 7"),
    ],
)
def test_totals_that_do_not_add_up_are_refused_at_once(fields: dict[str, Any], says: str) -> None:
    trial, _ = attacked(change("Totals", None, TWO, **fields))
    assert set(trial.refusals()) == {TWO}
    assert trial.messages("Tags", TWO) == []
    assert re.search(says, trial.refusals()[TWO])


def test_other_broadcasts_for_one_are_refused_by_all() -> None:
    """In the literal profile: what a third party broadcast is shown to one as something else."""

    def other(message: Partials) -> Partials:
        values = message.values.copy()
        # The same total, with the residues of two parties swapped.
        values[[0, 2]] = values[[2, 0]]
        return Partials(values, message.signatures)

    def rewrite(item: Envelope, message: Message) -> Message | None:
        shown = isinstance(message, Partials) and item.recipient == TWO
        return other(message) if shown and isinstance(message, Partials) else None

    trial, _ = attacked(rewrite, LITERAL)
    assert set(trial.refusals()) == set(PARTIES)
    assert "was told something else" in trial.refusals()[TWO]
    assert trial.refusals()[ONE].startswith("Tagged.tags: party-2 was told something else")


def test_a_broadcast_that_was_changed_is_seen_by_whose_it_is() -> None:
    trial, _ = attacked(change("Partials", values=row(1, 0)), LITERAL)
    assert "what this party broadcast was changed" in trial.refusals()[TWO]
    assert isinstance(trial.error, QuorumError)
    assert trial.error.missing[0] in PARTIES


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"signature": flipped()}, "the broadcast of party-2 is not signed by it"),
        ({"signature": b""}, "the broadcast of party-2 is not signed by it"),
    ],
)
def test_a_broadcast_without_its_signature(fields: dict[str, Any], says: str) -> None:
    trial, _ = attacked(change("Partial", TWO, **fields), LITERAL)
    assert says in str(trial.error)


@pytest.mark.parametrize("sums", [WARY, LITERAL], ids=["sparse", "literal"])
def test_a_false_word_is_named_by_whom_it_was_given_to(sums: Any) -> None:
    def to_one(old: Any) -> Any:
        old[0] ^= 1
        return old

    trial, holdings = attacked(change("Tags", TWO, tags=to_one), sums)
    [(name, why)] = trial.refusals().items()
    assert name in PARTIES
    assert why.startswith("Tagged.tags: party-2 was told something else (here: ")
    exact(trial, holdings, PARTIES)


def test_words_that_are_kept_back_are_missed() -> None:
    def few(old: Any) -> Any:
        old[4:] = 0
        return old

    trial, _ = attacked(change("Tagged", None, TWO, given=few))
    assert trial.refusals() == {TWO: "Tagged.given: 4 neighbours gave their word, 5 needed"}


def test_a_word_is_no_word_for_another() -> None:
    """A tag is from one party to one other: it cannot be handed on."""

    def swapped(old: Any) -> Any:
        old[[0, 1]] = old[[1, 0]]
        return old

    trial, _ = attacked(change("Tagged", None, THREE, tags=swapped))
    assert set(trial.refusals()) == {THREE}


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
    assert told.totals.tolist() != trial.tally().totals.tolist()


def test_a_literal_share_that_is_no_good_is_named() -> None:
    trial, _ = attacked(change("Deal", TWO, boxes=lambda old: old ^ 1), LITERAL)
    assert set(trial.refusals()) == set(PARTIES) - {TWO}
    assert set(trial.refusals().values()) == {"Dealt.boxes: no good share of party-2"}
    assert isinstance(trial.error, QuorumError)


def test_a_literal_sum_without_a_neighbour_is_refused() -> None:
    trial, _ = attacked(change("Graph", None, TWO, there=row(0, 0)), LITERAL)
    assert "somebody has not joined, and nobody may be missing" in trial.refusals()[TWO]
    assert trial.messages("Deal", TWO) == []


def test_a_share_of_another_modulus_is_refused() -> None:
    """Of two parties one is told of more respondents than the other, so its shares are larger."""
    trial, _ = attacked(change("Graph", None, TWO, respondents=200), LITERAL, parties=2)
    assert trial.refusals()[ONE] == "Dealt.boxes: a share that is no share"
    assert trial.messages("Partial", ONE) == []


def test_a_signed_broadcast_that_is_no_sum_is_refused() -> None:
    """Each may speak for two and speaks for one: 12 fits the message, and is no count of 8."""
    roots = set()

    def rewrite(item: Envelope, message: Message) -> Message | None:
        if isinstance(message, Graph):
            roots.add(message.root)
        if item.sender != TWO or not isinstance(message, Partial):
            return None
        [root] = roots
        values = row(0, 12)(message.values.copy())
        charter = charter_of(SecureSumVariant(survey=SURVEY), 8)
        signed = CONTEXT + root + b"partial" + values.tobytes()
        return Partial(values, identities_of(charter)[TWO].sign(signed))

    trial, _ = attacked(rewrite, LITERAL, max_records=2)
    assert "the broadcast of party-2 is no sum modulo 9" in str(trial.error)


def test_a_broadcast_that_is_no_sum_is_refused_by_whom_it_is_told_to() -> None:
    by = change("Partials", None, TWO, values=row(0, 12))
    trial, _ = attacked(by, LITERAL, max_records=2)
    assert trial.refusals()[TWO] == "Partials.values: a broadcast that is no sum"
