"""Sentences on who may conspire with the aggregator in a secure sum, and who may be missing."""

from __future__ import annotations

from typing import Literal

import msgspec
import pytest

from protocol import AGGREGATOR, RECORD, Coalition, Kind, PartyId, SecureSum, Variant
from protocol.variants import RRClusters, RRIndependent, SecureSumVariant
from scenarios.wording.withstanding import (
    NOT_KNOWN,
    WITHHELD,
    conspiracy_sentences,
    sums_sentences,
    sums_sentences_by_size,
    together,
    withstood_in,
)
from tests.protocol.cosigners import Cosigner, named
from tests.protocol.sessions import SURVEY

NOBODY = "obody may be missing: one sleeping party ends the attempt."


class Unnamed(Variant, frozen=True):
    """Sums that no parameter describes."""

    name = "unnamed"

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        return SecureSumVariant(survey=self.survey).kinds(parties)


@pytest.mark.parametrize(
    ("sums", "parties", "who", "learn", "missing"),
    [
        (SecureSum(), 12, "9 of 12 parties", "they learn one total over at least 2", 1),
        (SecureSum(), 9, "7 of 9 parties", "they learn one total over at least 2", 0),
        (SecureSum(), 100, "79 of 100 parties", "they learn one total over at least 11", 10),
        (SecureSum(corrupt=0.0), 2, "Nobody", "they learn one total over at least 2", 0),
        (
            SecureSum(),
            1000,
            "250 of 1,000 parties, chosen before the neighbours are drawn, or any 87,",
            "they learn one total over at least 42",
            100,
        ),
    ],
)
def test_who_may_conspire_and_who_may_be_missing(
    sums: SecureSum, parties: int, who: str, learn: str, missing: int
) -> None:
    assert conspiracy_sentences(sums.withstands(parties)) == (
        f"{who} may conspire with the aggregator or any reader of the record: of the secure sum "
        f"{learn} honest parties, and nothing else.",
        f"At most {missing} may be missing in all; with more the attempt ends without a result."
        if missing
        else f"N{NOBODY}",
    )


@pytest.mark.parametrize(
    ("corrupt", "parties", "says"),
    [
        (
            None,
            12,
            "9 of 12 parties may conspire with the aggregator: of the secure sum they learn",
        ),
        (0.0, 2, "Nobody may conspire with the aggregator: of the secure sum it learns"),
    ],
)
def test_what_opens_a_sum_may_be_withheld(corrupt: float | None, parties: int, says: str) -> None:
    sums = SecureSum(corrupt=corrupt, opening="withheld")
    who, _, unchecked = conspiracy_sentences(sums.withstands(parties))
    assert who.startswith(says)
    assert unchecked == WITHHELD
    variant = SecureSumVariant(survey=SURVEY, sums=sums)
    assert sums_sentences(variant, parties)[2] == WITHHELD
    by_size, _, unchecked = sums_sentences_by_size(variant)
    assert "may conspire with the aggregator, " in by_size
    assert unchecked == WITHHELD
    literal = msgspec.structs.replace(sums, profile="literal", corrupt=None)
    assert literal.withstands(12) == SecureSum(profile="literal").withstands(12)


def test_a_sentence_is_about_a_sum_that_is_made() -> None:
    summed = SecureSumVariant(survey=SURVEY)
    assert withstood_in(summed, 12) == SecureSum().withstands(12)
    assert sums_sentences(summed, 12) == conspiracy_sentences(SecureSum().withstands(12))
    with pytest.raises(ValueError, match="2 parties of which 0 may be missing withstand 0"):
        sums_sentences(summed, 2)
    by_reports: Literal["rr"] = "rr"
    clusters = RRClusters(survey=SURVEY, p=0.5, tv=6, td=0.1)
    reports = RRClusters(survey=SURVEY, p=0.5, tv=6, td=0.1, dependence=by_reports)
    assert sums_sentences(clusters, 12) == sums_sentences(summed, 12)
    for variant in (reports, RRIndependent.with_keep(SURVEY, 0.5)):
        assert withstood_in(variant, 12) is None
        assert sums_sentences(variant, 12) == sums_sentences_by_size(variant) == ()


def test_a_sum_made_in_a_way_of_its_own_is_not_judged() -> None:
    variant = Unnamed(survey=SURVEY)
    assert withstood_in(variant, 12) is None
    assert sums_sentences(variant, 12) == sums_sentences_by_size(variant) == (NOT_KNOWN,)


@pytest.mark.parametrize(
    ("sums", "some", "missing"),
    [
        (SecureSum(), "4 of 6 parties", "Below 10 parties n"),
        (SecureSum(dropped=0.25), "3 of 6 parties", "Below 4 parties n"),
        (SecureSum(profile="literal"), "4 of 6 parties", "Up to 255 parties n"),
        # Among 250 too many may be demanded.
        (SecureSum(corrupt=0.7, dropped=0.145), "4 of 6 parties", "Below 7 parties n"),
    ],
)
def test_while_nobody_knows_how_many_take_part(sums: SecureSum, some: str, missing: str) -> None:
    first, second = sums_sentences_by_size(SecureSumVariant(survey=SURVEY, sums=sums))
    assert first.startswith(
        f"It depends on how many take part: {some} may conspire with the aggregator or any reader "
        "of the record, "
    )
    assert second == f"{missing}{NOBODY}"


def test_bounds_that_no_number_of_parties_fits_are_named() -> None:
    variant = SecureSumVariant(survey=SURVEY, sums=SecureSum(dropped=0.9))
    [said] = sums_sentences_by_size(variant)
    assert "of which 225 may be missing withstand 0" in said


def test_an_observer_in_words() -> None:
    names = tuple(PartyId(f"party-{i}") for i in range(1, 11))
    one, two, three, *_ = names
    for observer, says in (
        (Coalition((AGGREGATOR,)), "the aggregator"),
        (Coalition((RECORD,)), "whoever holds the record"),
        (Coalition((one,)), "party-1"),
        (Coalition((AGGREGATOR, one)), "aggregator and party-1 together"),
        (Coalition(names[:8]), f"{', '.join(names[:7])} and party-8 together"),
        (Coalition(names), f"{', '.join(names[:8])} and 2 more together"),
        (Coalition((), ((one, two),)), "whoever has a tap between party-1 and party-2"),
        (Coalition((one,), (), (two,)), "party-1 with the keys of party-2"),
        (
            Coalition((AGGREGATOR, one), ((two, three), (one, three)), names[1:]),
            "aggregator and party-1 together with taps between party-2 and party-3, party-1 and "
            "party-3 and the keys of party-2, party-3, party-4, party-5 and 5 more",
        ),
    ):
        assert together(observer) == says


@pytest.mark.parametrize(
    ("parties", "needed", "who", "trusting"),
    [
        (24, None, "20 of 24", " as long as 1 of 3 witnesses is honest, and 19 if not"),
        (24, 2, "20 of 24", " as long as 3 of 3 witnesses are honest, and 19 if not"),
        (12, None, "9 of 12", ", with or without honest witnesses"),
    ],
)
def test_how_many_witnesses_have_to_be_honest(
    parties: int, needed: int | None, who: str, trusting: str
) -> None:
    sums = SecureSum(witnesses=named(*map(Cosigner, (1, 2, 3)), needed=needed))
    assert conspiracy_sentences(sums.withstands(parties))[0] == (
        f"{who} parties may conspire with the aggregator or any reader of the record{trusting}: of "
        "the secure sum they learn one total over at least 2 honest parties, and nothing else."
    )
    variant = SecureSumVariant(survey=SURVEY, sums=sums)
    honest = "1 of 3 witnesses is honest" if needed is None else "3 of 3 witnesses are honest"
    assert sums_sentences_by_size(variant)[0].endswith(f" as long as {honest}.")
