"""A party is added up with as many others as agreed, as far as it can tell, or not at all."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
import numpy as np
import pytest

from protocol.errors import PrivacyError, QuorumError
from protocol.messages import AGGREGATOR, Envelope, Message, PartyId
from protocol.sharing.messages import Begin, Dealt, Graph, Survivors
from protocol.sharing.sums import SecureSum
from protocol.surveys.records import Records
from protocol.variants.sums.secure_sum import SecureSumVariant
from tests.protocol.sessions import (
    SURVEY,
    answers,
    charter_of,
    envelope,
    holdings_of,
    machine_of,
    rehearsed,
    words_of,
)
from tests.protocol.sharing.test_sums import LITERAL, exact, vanishing
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

CROWDED = msgspec.structs.replace(WARY, crowd=5)
"""Among 8 parties two may be corrupt, so that all 7 others are needed."""


def declined(trial: Run) -> dict[PartyId, str]:
    """Who said that it was asked for more than agreed to, and what it keeps to itself."""
    said = {e.sender for e in trial.said() if e.kind == "Declined"}
    codes = {name: trial.messages("Declined", name)[0].why for name in said}
    assert set(codes) == set(trial.refusals())
    return {name: why for name, why in trial.refusals().items() if codes[name] == "terms"}


@pytest.mark.parametrize("profile", ["sparse", "literal"])
def test_a_sum_of_two_is_none_unless_it_is_agreed_to(profile: Any) -> None:
    sums = SecureSum(profile=profile)
    for agreed, parties, fits in ((sums, 2, False), (sums, 3, True)):
        charter = charter_of(SecureSumVariant(survey=SURVEY, sums=agreed), parties)
        if fits:
            assert charter.codec.names
            continue
        with pytest.raises(ValueError, match="2 parties: expected at least 3, for a crowd of 2"):
            assert charter.codec.names
    variant = SecureSumVariant(survey=SURVEY, sums=msgspec.structs.replace(sums, crowd=1))
    charter = charter_of(variant, 2)
    holdings = holdings_of(charter, answers(SURVEY, 2))
    exact(rehearsed(charter, holdings), holdings, charter.roster.parties)


@pytest.mark.parametrize("crowd", [0, -1])
def test_a_crowd_of_nobody_cannot_be_agreed_on(crowd: int) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"crowd": crowd}, SecureSum)


@pytest.mark.parametrize(
    ("sums", "parties", "others"),
    [
        (SecureSum(), 3, 2),
        (SecureSum(), 100, 7),
        (SecureSum(crowd=1), 19, 1),
        (SecureSum(crowd=20, corrupt=0.29), 100, 49),
        (SecureSum(profile="literal"), 40, 4),
    ],
)
def test_as_many_as_may_be_corrupt_come_on_top(sums: SecureSum, parties: int, others: int) -> None:
    assert sums.others(parties) == others


def told(to: Collection[PartyId], uploaded: list[bool]) -> Rewrite:
    """An aggregator that tells some parties of survivors of its own choice."""

    def rewrite(item: Envelope, message: Message) -> Message | None:
        shown = isinstance(message, Survivors) and item.recipient in to
        return surviving(uploaded) if shown else None

    return rewrite


def test_who_counts_too_few_boxes_does_not_upload() -> None:
    trial, _ = attacked(change("Dealt", None, TWO, dealt=row(0, 0)), CROWDED)
    assert "only 6 others in the sum can be checked, expected at least 7" in declined(trial)[TWO]
    assert trial.messages("Upload", TWO) == []


def test_a_neighbour_whose_box_does_not_open_is_not_in_the_crowd() -> None:
    """Two bad boxes are borne with, for two may be corrupt; but they hide nothing."""
    spoilt = change("Dealt", None, TWO, boxes=lambda old: np.vstack([old[:2] ^ 1, old[2:]]))
    trial, _ = attacked(spoilt, msgspec.structs.replace(WARY, crowd=4))
    assert "only 5 others" in declined(trial)[TWO]
    assert trial.messages("Upload", TWO) == []
    trial, holdings = attacked(spoilt, msgspec.structs.replace(WARY, crowd=3))
    assert trial.refusals() == {}
    exact(trial, holdings, PARTIES)


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


def test_boxes_that_do_not_open_do_not_count_among_many_who_joined() -> None:
    """One of sixty never joins and one box of each is spoilt; 58 others are demanded."""
    sums = SecureSum(crowd=55)
    charter = charter_of(SecureSumVariant(survey=SURVEY, sums=sums), 60)
    assert sums.others(60) == 58
    names = charter.roster.parties
    trial = rehearsed(
        charter,
        holdings_of(charter, answers(SURVEY, 60)),
        fate=vanishing({ONE: "Join"}),
        exchange=rewriting(charter.codec, spoiling(1, to=names, but=ONE)),
    )
    whys = declined(trial)
    assert set(whys) == set(names) - {ONE}
    assert all("only 57 others" in why for why in whys.values())
    assert trial.messages("Upload") == []


def test_boxes_that_do_not_open_do_not_count_among_the_survivors() -> None:
    last = PARTIES[7]
    spoilt = spoiling(2, to=[TWO], but=last)
    fewer = told([TWO], [name != last for name in PARTIES])
    trial, _ = attacked(
        lambda item, message: spoilt(item, message) or fewer(item, message),
        msgspec.structs.replace(WARY, crowd=3),
    )
    assert "only 4 others" in declined(trial)[TWO]
    assert len(trial.messages("Upload", TWO)) == 1
    assert (trial.messages("Tags", TWO), trial.messages("Unmask", TWO)) == ([], [])


@pytest.mark.parametrize("to", [[TWO], PARTIES], ids=["one", "all"])
def test_who_counts_too_few_survivors_does_not_unmask(to: Collection[PartyId]) -> None:
    trial, _ = attacked(told(to, [name != PARTIES[7] for name in PARTIES]), CROWDED)
    for name in set(to) - {PARTIES[7]}:
        assert "only 6 others" in declined(trial)[name]
        assert (trial.messages("Tags", name), trial.messages("Unmask", name)) == ([], [])


def test_a_party_alone_with_its_neighbours_does_not_unmask() -> None:
    """All of them may conspire: among 60 parties each has fewer neighbours than are agreed on."""
    sums = SecureSum(crowd=50)
    charter = charter_of(SecureSumVariant(survey=SURVEY, sums=sums, quorum=1), 60)
    names, k = charter.roster.parties, sums.degree(60).neighbours
    assert k < 50

    def rewrite(item: Envelope, message: Message) -> Message | None:
        if item.kind == "Graph" and item.recipient == TWO:
            beside.update(getattr(message, "names", ()))
        if isinstance(message, Survivors):
            return surviving([name in beside for name in names])
        return None

    beside: set[str] = {TWO}
    holdings = holdings_of(charter, answers(SURVEY, 60))
    trial = rehearsed(charter, holdings, exchange=rewriting(charter.codec, rewrite))
    assert f"only {k} others" in declined(trial)[TWO]
    assert set(declined(trial)) == beside
    assert trial.messages("Unmask") == []


def test_an_aggregator_does_not_ask_for_what_nobody_would_give() -> None:
    charter = charter_of(SecureSumVariant(survey=SURVEY, sums=CROWDED, quorum=1), 8)
    holdings = holdings_of(charter, answers(SURVEY, 8))
    trial = rehearsed(charter, holdings, fate=vanishing({TWO: "Upload"}))
    assert isinstance(trial.failure, QuorumError)
    assert (trial.failure.kind, trial.failure.at_least) == ("Upload", 8)
    assert trial.refusals() == {}


def test_a_crowd_is_of_parties_however_many_they_speak_for() -> None:
    sums = SecureSum(crowd=3)
    variant = SecureSumVariant(survey=SURVEY, sums=sums, max_records=1000)
    with pytest.raises(ValueError, match="3 parties: expected at least 4, for a crowd of 3"):
        assert charter_of(variant, 3).codec.names


@pytest.mark.parametrize("sums", [WARY, LITERAL], ids=["sparse", "literal"])
@pytest.mark.parametrize(("demand", "answer"), [(0, "Join"), (2, "Join"), (3, "Declined")])
def test_a_party_may_demand_a_larger_crowd_than_agreed(
    sums: SecureSum, demand: int, answer: str
) -> None:
    """Before it says anything: whoever unmasks it goes by what all agreed to."""
    charter = charter_of(SecureSumVariant(survey=SURVEY, sums=sums), 8)
    machine = machine_of(charter, ONE, crowd=demand)
    machine.start(0.0)
    machine.receive(envelope(charter, AGGREGATOR, 0, Begin(SURVEY.digest), to=ONE), 0.0)
    said = words_of(machine)
    assert [e.kind for e in said] == [answer]
    if answer == "Declined":
        assert isinstance(machine.failure, PrivacyError)
        assert "a crowd of 2, and this party demands 3" in str(machine.failure)
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
def test_a_refusal_for_want_of_a_crowd_does_not_depend_on_records(rewrite: Rewrite) -> None:
    charter = charter_of(SecureSumVariant(survey=SURVEY, sums=CROWDED, everyone=True), 8)
    holdings = holdings_of(charter, answers(SURVEY, 8))
    exchange = rewriting(charter.codec, rewrite)
    said = []
    for codes in ([0, 0], [1, 2]):
        held = {**holdings, TWO: Records(SURVEY, np.array([codes], np.uint8))}
        trial = rehearsed(charter, held, exchange=exchange)
        assert TWO in declined(trial)
        said.append([e for e in trial.said() if e.sender == TWO and e.kind != "Head"])
    kinds = [[e.kind for e in words] for words in said]
    assert kinds[0] == kinds[1]
    # The upload aside, which hides it.
    assert [e for e in said[0] if e.kind != "Upload"] == [e for e in said[1] if e.kind != "Upload"]


def test_who_is_told_of_another_number_that_joined_opens_no_box() -> None:
    """Under one root another number can be proven; but it is part of every key."""
    first: list[PartyId] = []

    def rewrite(item: Envelope, message: Message) -> Message | None:
        if item.kind != "Graph" or getattr(message, "index", None) != 0:
            return None
        first.append(item.recipient)
        return msgspec.structs.replace(message, joined=7)

    trial, _ = attacked(rewrite)
    assert "invalid shares from " in trial.refusals()[first[0]]
    assert trial.messages("Upload", first[0]) == []
