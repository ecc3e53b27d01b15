"""Which reports on record show whether the respondents of one party are alike."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from protocol import PartyId
from protocol.audit.design_effects import PartWriter
from protocol.audit.walk import Step, steps
from protocol.estimators.design_effects import DesignEffects
from protocol.transcript.entries import Delivered
from protocol.variants import RRIndependent
from scenarios import Outcome, simulate, town


def held(parties: int) -> Outcome:
    records = town(60, seed=1)
    variant = RRIndependent.with_keep(records.survey, 0.6)
    return simulate(variant, records, parties=parties, seed=2, transport="local")


def told(outcome: Outcome, said: Iterator[Step], most: int) -> tuple[DesignEffects | None, str]:
    variant = msgspec.structs.replace(outcome.variant, max_records=most)
    parts = PartWriter(msgspec.structs.replace(outcome.charter, variant=variant))
    for step in said:
        parts.add(step)
    return parts.found(outcome.estimate)


def said_in(outcome: Outcome) -> Iterator[Step]:
    return steps(outcome.charter.codec, outcome.transcript.entries())


def twice(said: Iterator[Step]) -> Iterator[Step]:
    """Every party, after what it says, also says what the party before it has said."""
    before = None
    for step in said:
        yield step
        if isinstance(step.entry, Delivered):
            if before is not None:
                yield msgspec.structs.replace(step, message=before)
            before = step.message


def by_a_stranger(said: Iterator[Step]) -> Iterator[Step]:
    """The first report, also from somebody who is not on the roster."""
    for step in said:
        yield step
        if isinstance(step.entry, Delivered) and step.envelope is not None:
            envelope = msgspec.structs.replace(step.envelope, sender=PartyId("stranger"))
            yield msgspec.structs.replace(step, envelope=envelope)


def test_a_report_counts_once_and_from_parties_alone() -> None:
    outcome = held(12)
    design, why = told(outcome, said_in(outcome), 5)
    assert design is not None
    assert (design.parties, design.records, why) == (12, 60, "")
    for change in (twice, by_a_stranger):
        again, why = told(outcome, change(said_in(outcome)), 5)
        assert again is not None, why
        assert again.parties == 12


def test_parties_of_one_respondent_have_no_design() -> None:
    outcome = held(60)
    assert outcome.design == (None, "")
    assert told(outcome, said_in(outcome), 5) == (None, "")


def test_reports_that_are_not_all_show_nothing() -> None:
    outcome = held(12)
    dropped = (step for step in said_in(outcome) if step.number != first_report(outcome))
    assert told(outcome, dropped, 5) == (None, "not all reports on record are in the estimate")
    assert told(outcome, iter(()), 5) == (None, "what single parties have said does not show it")


def first_report(outcome: Outcome) -> int:
    kind = outcome.variant.contribution
    assert kind is not None
    return next(
        step.number
        for step in said_in(outcome)
        if isinstance(step.entry, Delivered) and isinstance(step.message, kind)
    )


def test_a_few_parties_do_not_tell_whether_their_respondents_are_alike() -> None:
    outcome = held(9)
    assert told(outcome, said_in(outcome), 7) == (
        None,
        "the reports of 9 parties are too few to tell",
    )
