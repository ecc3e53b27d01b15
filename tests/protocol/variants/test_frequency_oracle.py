"""A frequency oracle leaves out what is not a report of its randomizer, and charges all of it."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest

from protocol import (
    AGGREGATOR,
    Attribute,
    Draws,
    FrequencyOracle,
    KeepUniform,
    Message,
    Randomizer,
    Records,
    Stream,
    SubsetSelection,
    Survey,
    SurveyError,
    UnsupportedEventError,
)
from protocol.session.variant import build
from protocol.simulation.rehearsal import Rehearsal
from protocol.simulation.setting import make_setting

FRUIT = Survey("Fruit", (Attribute(name="fruit", categories=tuple("abcde")),))


class Subsets(FrequencyOracle, frozen=True, kw_only=True):
    """Everybody reports two of five categories."""

    name = "subsets"

    @property
    def randomizer(self) -> SubsetSelection:
        return SubsetSelection.with_epsilon(5, epsilon=0.5)


class Spoilt(Subsets, frozen=True, kw_only=True):
    """Who likes the last fruit says all five, which no draw does."""

    def answer(self, records: Records, question: Message, stream: Stream) -> Draws:
        report = super().answer(records, question, stream)
        assert isinstance(report, Draws)
        return report if records.codes[0, 0] < 4 else Draws(np.full_like(report.reports, 31))


def test_a_report_of_another_form_is_left_out_and_counts_as_the_answers() -> None:
    records = Records(FRUIT, np.array([[0], [1], [2], [4]], np.uint8))
    run = Rehearsal(make_setting(Spoilt(survey=FRUIT), records, seed=1, parties=4))
    assert run.failure is None
    assert run.result is not None
    assert run.charter.variant.estimate(run.result).n == 3
    accounts = run.ledger(AGGREGATOR).accounts
    costs = [accounts[party].loss.record for party in run.charter.roster.parties]
    assert costs == [*[Subsets(survey=FRUIT).randomizer.epsilon] * 3, math.inf]


class Pairs(FrequencyOracle, frozen=True, kw_only=True):
    """Its parameters are whatever a header has."""

    name = "pairs"

    epsilon: float

    @property
    def randomizer(self) -> KeepUniform:
        odds = math.exp(self.epsilon)
        return KeepUniform.with_keep(self.survey.cells, p=(odds - 1) / (odds + 1))


class Understated(KeepUniform, frozen=True):
    """States less than it costs."""

    @property
    def epsilon(self) -> float:
        return 0.1


class Cheap(Pairs, frozen=True, kw_only=True):
    """Its randomizer states less than it costs."""

    name = "cheap"

    @property
    def randomizer(self) -> KeepUniform:
        return Understated(self.survey.cells, 2**63)


def of_bits(number: int) -> Survey:
    return Survey(
        "Bits", tuple(Attribute(name=f"b{i}", categories=("0", "1")) for i in range(number))
    )


@pytest.mark.parametrize("bits", [24, 40, 70])
def test_a_tally_that_is_too_large_is_refused_before_it_is_made(bits: int) -> None:
    survey = msgspec.to_builtins(of_bits(bits))
    with pytest.raises(SurveyError, match=r"the survey is too large: .* cells of tables"):
        build(Pairs, parameters={"epsilon": 1.0}, survey=survey)


def test_the_largest_tally_is_laid_out_at_once() -> None:
    class Classes(KeepUniform, frozen=True):
        """Counted by its classes, one input after the other."""

        tally = Randomizer.tally

        def classify(self, reports: Any, first: int, second: int) -> Any:
            raise AssertionError("no report to be classed")

    assert Classes(2**23, 2**63).tally(np.zeros(0, np.uint32)).shape == (2**23,)


def test_a_header_with_which_a_variant_fails_is_refused() -> None:
    survey = msgspec.to_builtins(of_bits(2))
    with pytest.raises(SurveyError, match="'pairs' fails with the header's parameters: Overflow"):
        build(Pairs, parameters={"epsilon": 1000.0}, survey=survey)


def test_what_a_report_costs_at_most_is_not_what_a_randomizer_understates() -> None:
    assert (
        Pairs(survey=of_bits(2), epsilon=1.0).most()
        == Pairs(survey=of_bits(2), epsilon=1.0).randomizer.epsilon
    )
    with pytest.raises(UnsupportedEventError, match=r"'Understated' states epsilon 0\.1, and"):
        Cheap(survey=of_bits(2), epsilon=1.0).most()
