"""A party is added up with all but as many as may be missing, as far as it can tell."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
import numpy as np
import pytest

from protocol import AGGREGATOR, Message, PartyId, PrivacyError, QuorumError, Records, SecureSum
from protocol.messages import Envelope
from protocol.sharing.messages import Begin, Dealt, Graph, Survivors
from protocol.variants import SecureSumVariant
from tests.protocol.sessions import (
    SURVEY,
    answers,
    charter_of,
    envelope,
    holdings_of,
    machine_of,
    rehearsed,
    words_sent,
)
from tests.protocol.sharing.test_sums import (
    COUPLE,
    FEW,
    LITERAL,
    ROUNDS,
    STRICT,
    exact,
    survivors_of,
    vanishing,
)
from tests.protocol.sharing.test_sums_attacks import (
    ONE,
    PARTIES,
    TWO,
    WARY,
    Rewrite,
    attacked,
    change,
    rewriting,
    row,
    surviving,
)
from tests.recorded.runs import Run
from tests.tiers import paired, slow


def declined(trial: Run) -> dict[PartyId, str]:
    """Who declined for being asked more than agreed, and the reason that it keeps to itself."""
    said = {e.sender for e in trial.said() if e.kind == "Declined"}
    codes = {name: trial.messages("Declined", name)[0].why for name in said}
    assert set(codes) == set(trial.refusals())
    return {name: why for name, why in trial.refusals().items() if codes[name] == "terms"}


@pytest.mark.parametrize("profile", ["sparse", "literal"])
def test_a_sum_of_two_is_refused_unless_nobody_may_conspire(profile: Any) -> None:
    charter = charter_of(SecureSumVariant(survey=SURVEY, sums=SecureSum(profile=profile)), 2)
    says = "2 parties of which 0 may be missing withstand 0 who conspire .* expected at least 1"
    with pytest.raises(ValueError, match=says):
        assert charter.codec.names
    sums = msgspec.structs.replace(COUPLE, profile=profile)
    charter = charter_of(SecureSumVariant(survey=SURVEY, sums=sums), 2)
    holdings = holdings_of(charter, answers(SURVEY, 2))
    exact(rehearsed(charter, holdings), holdings, charter.roster.parties)


@pytest.mark.parametrize(
    ("sums", "parties", "colluders", "honest", "missing"),
    [
        (SecureSum(), 3, 1, 2, 0),
        (SecureSum(), 8, 6, 2, 0),
        (WARY, 8, 3, 3, 2),
        (SecureSum(), 100, 79, 11, 10),
        (SecureSum(dropped=0.33), 100, 33, 34, 33),
        (LITERAL, 40, 38, 2, 0),
        (FEW, 256, 12, 10, 25),
    ],
)
def test_colluders_that_are_withstood(
    sums: SecureSum, parties: int, colluders: int, honest: int, missing: int
) -> None:
    found = sums.withstands(parties)
    assert (found.colluders, found.honest, found.missing) == (colluders, honest, missing)
    assert sums.needed(parties, 1) == parties - missing
    assert sums.needed(parties, parties) == parties


def test_a_sum_that_withstands_fewer_than_demanded_does_not_begin() -> None:
    sums = SecureSum(corrupt=0.5, dropped=0.3)
    charter = charter_of(SecureSumVariant(survey=SURVEY, sums=sums), 20)
    says = "20 parties of which 6 may be missing withstand 7 who conspire .* expected at least 10"
    with pytest.raises(ValueError, match=says):
        assert charter.codec.names


@pytest.mark.parametrize(
    ("round", "n"),
    [*paired(ROUNDS, [3, 9, 10]), *(slow(round, n) for round in ROUNDS for n in (21, 60))],
)
def test_as_many_as_may_be_missing_vanish_in_any_round(n: int, round: str) -> None:
    charter = charter_of(SecureSumVariant(survey=SURVEY, everyone=True), n)
    holdings = holdings_of(charter, answers(SURVEY, n))
    gone = dict.fromkeys(charter.roster.parties[: n // 10], round)
    trial = rehearsed(charter, holdings, fate=vanishing(gone))
    exact(trial, holdings, survivors_of(charter, gone))


@pytest.mark.slow
@pytest.mark.parametrize("n", range(3, 61))
def test_as_many_as_may_be_missing_vanish_each_at_another_round(n: int) -> None:
    charter = charter_of(SecureSumVariant(survey=SURVEY, everyone=True), n)
    holdings = holdings_of(charter, answers(SURVEY, n))
    for shift in range(len(ROUNDS)):
        names = charter.roster.parties[shift : shift + n // 10]
        gone = {name: ROUNDS[(shift + i) % len(ROUNDS)] for i, name in enumerate(names)}
        trial = rehearsed(charter, holdings, fate=vanishing(gone))
        exact(trial, holdings, survivors_of(charter, gone))


def told(to: Collection[PartyId], uploaded: list[bool]) -> Rewrite:
    """An aggregator that tells some parties of survivors of its own choice."""

    def rewrite(item: Envelope, message: Message) -> Message | None:
        shown = isinstance(message, Survivors) and item.recipient in to
        return surviving(uploaded) if shown else None

    return rewrite


def spoiling(rows: int, *, to: Collection[PartyId], but: PartyId) -> Rewrite:
    """The first boxes that each party is dealt are spoilt, except those of one dealer."""
    names: dict[PartyId, tuple[str, ...]] = {}

    def rewrite(item: Envelope, message: Message) -> Message | None:
        if isinstance(message, Graph):
            names[item.recipient] = message.names
        if not isinstance(message, Dealt) or item.recipient not in to:
            return None
        beside = names[item.recipient]
        spoilt = [i for i in np.flatnonzero(message.dealt).tolist() if beside[i] != but][:rows]
        boxes = message.boxes.copy()
        boxes[spoilt] ^= 1
        return msgspec.structs.replace(message, boxes=boxes)

    return rewrite


@pytest.mark.parametrize("sums", [STRICT, WARY], ids=["nobody", "two"])
def test_one_box_too_few_and_a_party_does_not_upload(sums: SecureSum) -> None:
    def few(old: Any) -> Any:
        old[: sums.withstands(8).missing + 1] = 0
        return old

    trial, _ = attacked(change("Dealt", None, TWO, dealt=few), sums)
    needed = sums.degree(8).threshold
    says = f"{needed - 1} neighbours dealt valid shares, at least {needed} needed"
    assert says in trial.refusals()[TWO]
    assert trial.messages("Upload", TWO) == []


@pytest.mark.slow
def test_boxes_that_do_not_open_count_as_missing_beside_who_never_joined() -> None:
    """Twenty-five of 256 never join; whoever is dealt an invalid box does not upload."""
    charter = charter_of(SecureSumVariant(survey=SURVEY, sums=FEW, quorum=1), 256)
    names = charter.roster.parties
    gone = dict.fromkeys(names[::10][:25], "Join")
    trial = rehearsed(
        charter,
        holdings_of(charter, answers(SURVEY, 256)),
        fate=vanishing(gone),
        exchange=rewriting(charter.codec, spoiling(1, to=[TWO], but=ONE)),
    )
    assert TWO not in gone
    says = "parties that are missing or cannot be checked: 26, expected at most 25"
    assert declined(trial) == {TWO: says}
    assert trial.messages("Upload", TWO) == []


def test_boxes_that_do_not_open_count_as_missing_among_the_survivors() -> None:
    last = PARTIES[7]
    spoilt = spoiling(2, to=[TWO], but=last)
    fewer = told([TWO], [name != last for name in PARTIES])
    trial, _ = attacked(lambda item, message: spoilt(item, message) or fewer(item, message))
    assert "parties that are missing or cannot be checked: 3" in declined(trial)[TWO]
    assert len(trial.messages("Upload", TWO)) == 1
    assert (trial.messages("Tags", TWO), trial.messages("Unmask", TWO)) == ([], [])


@pytest.mark.parametrize("to", [[TWO], PARTIES], ids=["one", "all"])
def test_too_few_survivors_and_a_party_does_not_unmask(to: Collection[PartyId]) -> None:
    trial, _ = attacked(told(to, [name != PARTIES[7] for name in PARTIES]), STRICT)
    for name in set(to) - {PARTIES[7]}:
        assert (
            "parties that are missing or cannot be checked: 1, expected at most 0"
            in (declined(trial)[name])
        )
        assert (trial.messages("Tags", name), trial.messages("Unmask", name)) == ([], [])


@pytest.mark.slow
def test_a_party_alone_with_its_neighbours_does_not_unmask() -> None:
    """All of them may conspire: among 256 parties each has 24 neighbours."""
    charter = charter_of(SecureSumVariant(survey=SURVEY, sums=FEW, quorum=1), 256)
    names, k = charter.roster.parties, FEW.degree(256).neighbours

    def rewrite(item: Envelope, message: Message) -> Message | None:
        if item.kind == "Graph" and item.recipient == TWO:
            beside.update(getattr(message, "names", ()))
        if isinstance(message, Survivors):
            return surviving([name in beside for name in names])
        return None

    beside: set[str] = {TWO}
    holdings = holdings_of(charter, answers(SURVEY, 256))
    trial = rehearsed(charter, holdings, exchange=rewriting(charter.codec, rewrite))
    assert f"cannot be checked: {255 - k}, " in declined(trial)[TWO]
    assert set(declined(trial)) == beside
    assert trial.messages("Unmask") == []


def test_an_aggregator_does_not_ask_for_what_nobody_would_give() -> None:
    charter = charter_of(SecureSumVariant(survey=SURVEY, sums=STRICT, quorum=1), 8)
    holdings = holdings_of(charter, answers(SURVEY, 8))
    trial = rehearsed(charter, holdings, fate=vanishing({TWO: "Upload"}))
    assert isinstance(trial.failure, QuorumError)
    assert (trial.failure.kind, trial.failure.at_least) == ("Upload", 8)
    assert trial.refusals() == {}


@pytest.mark.parametrize(
    ("sums", "demands", "says"),
    [
        (WARY, {}, None),
        (WARY, {"withstand": 3}, None),
        (WARY, {"withstand": 4}, "the sum withstands 3 who conspire .* party demands 4"),
        (WARY, {"honest": 4}, None),
        (WARY, {"honest": 5}, "the sum promises 4 honest parties, and this party demands 5"),
        (WARY, {"withstand": 3, "honest": 3}, None),
        (WARY, {"withstand": 3, "honest": 4}, "the sum promises 3 honest parties"),
        (LITERAL, {"withstand": 6, "honest": 2}, None),
        (LITERAL, {"withstand": 7}, "the sum withstands 6 who conspire"),
    ],
)
def test_a_party_may_demand_more_than_agreed(
    sums: SecureSum, demands: dict[str, int], says: str | None
) -> None:
    """It declines before it joins: whoever unmasks it goes by what all agreed to."""
    charter = charter_of(SecureSumVariant(survey=SURVEY, sums=sums), 8)
    machine = machine_of(charter, ONE, **demands)
    machine.start(0.0)
    machine.receive(envelope(charter, AGGREGATOR, 0, Begin(SURVEY.digest), to=ONE), 0.0)
    said = words_sent(machine)
    assert [e.kind for e in said] == ["Join" if says is None else "Declined"]
    if says is not None:
        assert isinstance(machine.failure, PrivacyError)
        with pytest.raises(PrivacyError, match=says):
            raise machine.failure
        refusal: Any = charter.codec.decode(said[0].kind, said[0].body)
        assert refusal.why == "terms"


@pytest.mark.parametrize(
    "rewrite",
    [
        change("Dealt", None, TWO, dealt=row(0, 0)),
        told([TWO], [name != PARTIES[7] for name in PARTIES]),
    ],
    ids=["before it uploads", "before it unmasks"],
)
def test_a_refusal_for_want_of_others_does_not_depend_on_records(rewrite: Rewrite) -> None:
    charter = charter_of(SecureSumVariant(survey=SURVEY, sums=STRICT, everyone=True), 8)
    holdings = holdings_of(charter, answers(SURVEY, 8))
    exchange = rewriting(charter.codec, rewrite)
    said = []
    for codes in ([0, 0], [1, 2]):
        held = {**holdings, TWO: Records(SURVEY, np.array([codes], np.uint8))}
        trial = rehearsed(charter, held, exchange=exchange)
        assert TWO in trial.refusals()
        said.append([e for e in trial.said() if e.sender == TWO and e.kind != "Head"])
    kinds = [[e.kind for e in words] for words in said]
    assert kinds[0] == kinds[1]
    # The upload aside, which hides it.
    assert [e for e in said[0] if e.kind != "Upload"] == [e for e in said[1] if e.kind != "Upload"]


def test_who_is_told_of_another_number_that_joined_has_no_mask() -> None:
    """Under one root another number can be proven; but it is part of every key."""
    first: list[PartyId] = []

    def rewrite(item: Envelope, message: Message) -> Message | None:
        if item.kind != "Graph" or getattr(message, "index", None) != 0:
            return None
        first.append(item.recipient)
        return msgspec.structs.replace(message, joined=7)

    trial, _ = attacked(rewrite)
    assert "0 neighbours dealt valid shares" in trial.refusals()[first[0]]
    assert trial.messages("Upload", first[0]) == []
