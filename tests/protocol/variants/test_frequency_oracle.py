"""A frequency oracle leaves out what is not a report of its randomizer, and charges all of it."""

from __future__ import annotations

import math

import numpy as np

from protocol.crypto.randomness import Stream
from protocol.messages import AGGREGATOR, Message
from protocol.randomizers import SubsetSelection
from protocol.simulation.rehearsal import Rehearsal
from protocol.simulation.setting import setting_of
from protocol.surveys.records import Records
from protocol.surveys.survey import Attribute, Survey
from protocol.variants.reports.oracle import Draws, FrequencyOracle

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
    run = Rehearsal(setting_of(Spoilt(survey=FRUIT), records, seed=1, parties=4))
    assert run.failure is None
    assert run.result is not None
    assert run.charter.variant.estimate(run.result).n == 3
    accounts = run.ledger(AGGREGATOR).accounts
    costs = [accounts[party].loss.record for party in run.charter.roster.parties]
    assert costs == [*[Subsets(survey=FRUIT).randomizer.epsilon] * 3, math.inf]
