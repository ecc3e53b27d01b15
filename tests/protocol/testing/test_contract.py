"""The contract of variants: the project's own meet it, and each planted violation is named."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from protocol.accounting.events import Derived, Plain, PrivacyEvent, Public, Randomized
from protocol.errors import LocalProtocolError
from protocol.messages import AGGREGATOR, Message, PartyId
from protocol.randomizers import MatrixRandomizer
from protocol.session.roles import Me, Seen
from protocol.surveys.records import Records
from protocol.testing import check_variant, contract
from protocol.variants import RRIndependent, RRJoint
from protocol.variants.reports.reports import Ask, Pooled, Report
from protocol.wire.codec import Kind
from scenarios import EXECUTORS
from scenarios.running.outcomes import Outcome
from tests.protocol.sessions import SURVEY, answers
from tests.scenarios.own_variants import PlainAnswers, RollCall

RECORDS = answers(SURVEY, 6)
LOCAL = {"local": EXECUTORS["local"]}
MATRIX = MatrixRandomizer.from_probabilities([[0.7, 0.3], [0.2, 0.8]])
MATRIX_3 = MatrixRandomizer.from_probabilities([[0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0, 0.5, 0.5]])
SIX = MatrixRandomizer.from_probabilities(np.full((6, 6), 0.1) + 0.4 * np.eye(6))

test_independent = contract(RRIndependent.with_keep(SURVEY, 0.6), RECORDS, executors=EXECUTORS)
test_independent_in_cohorts = contract(
    RRIndependent.with_keep(SURVEY, 0.6), RECORDS, executors=EXECUTORS, parties=2
)
test_independent_by_matrix = contract(
    RRIndependent(survey=SURVEY, randomizers=(MATRIX, MATRIX_3)), RECORDS, executors=EXECUTORS
)
test_joint = contract(RRJoint.with_epsilon(SURVEY, 3.0), RECORDS, executors=EXECUTORS)
test_joint_in_cohorts = contract(
    RRJoint.with_keep(SURVEY, 0.6), RECORDS, executors=EXECUTORS, parties=4
)
test_joint_by_matrix = contract(
    RRJoint(survey=SURVEY, randomizer=SIX), RECORDS, executors=EXECUTORS, parties=3
)
test_several_rounds = contract(RollCall.with_keep(SURVEY, 0.6), RECORDS, executors=EXECUTORS)
test_plain = contract(PlainAnswers.with_keep(SURVEY, 0.6), RECORDS, executors=EXECUTORS)


def broken(variant: Any, says: str, **options: Any) -> None:
    with pytest.raises(AssertionError, match=says):
        check_variant(variant, RECORDS, **{"executors": LOCAL, **options})


class Rr(RRIndependent, frozen=True):
    """What the violations change a part of."""

    name = "rr-violated"


def test_a_report_that_is_said_to_be_public() -> None:
    class Silenced(Rr, frozen=True):
        def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
            return Public()

    broken(
        Silenced.with_keep(SURVEY, 0.6),
        r"\('Report'\) changes with its sender's answer to '(smokes|drinks)'",
    )


def test_a_report_that_is_said_to_be_derived() -> None:
    class Silenced(Rr, frozen=True):
        def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
            return Derived()

    broken(Silenced.with_keep(SURVEY, 0.6), "its event says that it tells nothing about that")


def test_an_attribute_that_the_event_leaves_out() -> None:
    class Forgetful(Rr, frozen=True):
        def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
            if isinstance(message, Report):
                return Randomized(self.randomizers[0], ("smokes",))
            return Public()

    broken(Forgetful.with_keep(SURVEY, 0.6), r"changes with its sender's answer to 'drinks'")


def test_somebody_elses_record() -> None:
    held: dict[PartyId, Records] = {}

    class Leaking(Rr, frozen=True):
        async def party(self, me: Me, records: Records) -> None:
            held[me.id] = records
            ask = await me.receive(Ask, AGGREGATOR)
            neighbour = held.get(PartyId("party-1"), records)
            codes = self.randomizers[0].randomize(neighbour.codes[:, 0], me.stream_for(ask))
            both = np.stack([codes, codes], axis=1).astype(records.codes.dtype)
            await me.send(AGGREGATOR, Report(both))

    # Every party speaks for one respondent, so a neighbour's report fits.
    broken(
        Leaking.with_keep(SURVEY, 0.6), r"party-\d #0 \('Report'\) changes with somebody else's rec"
    )


def test_a_length_that_depends_on_the_answer() -> None:
    class Diary(Message, frozen=True):
        text: str

    class Talkative(Rr, frozen=True):
        def kinds(self, parties: int) -> tuple[Kind, ...]:
            return (*super().kinds(parties), Kind(Diary))

        async def party(self, me: Me, records: Records) -> None:
            await me.send(AGGREGATOR, Diary("x" * (1 + int(records.codes[0, 1]))))
            await super().party(me, records)

        def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
            if isinstance(message, Diary):
                return Plain(self.survey.names)
            return super().reveals(message, seen)

        def most(self) -> float:
            return math.inf

    broken(
        Talkative.with_keep(SURVEY, 0.6), r"\('Diary'\) changes its length with its sender's record"
    )


def test_a_message_that_is_sent_or_not() -> None:
    class Cough(Message, frozen=True):
        pass

    class Coughing(Rr, frozen=True):
        def kinds(self, parties: int) -> tuple[Kind, ...]:
            return (*super().kinds(parties), Kind(Cough))

        async def party(self, me: Me, records: Records) -> None:
            await super().party(me, records)
            if records.codes[0, 0]:
                await me.send(AGGREGATOR, Cough())

        def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
            if isinstance(message, Cough):
                return Plain(self.survey.names)
            return super().reveals(message, seen)

        def most(self) -> float:
            return math.inf

    broken(Coughing.with_keep(SURVEY, 0.6), r"\('Cough'\) is sent or not depending on a record")


def test_a_kind_that_is_never_sent() -> None:
    class Unused(Message, frozen=True):
        pass

    class Prepared(Rr, frozen=True):
        def kinds(self, parties: int) -> tuple[Kind, ...]:
            return (*super().kinds(parties), Kind(Unused))

    variant = Prepared.with_keep(SURVEY, 0.6)
    broken(variant, "'Unused' is declared and never sent; name it in rare")
    check_variant(variant, RECORDS, executors=LOCAL, rare=[Unused])


def test_an_event_that_no_accountant_knows() -> None:
    class Whim(PrivacyEvent, frozen=True):
        pass

    class Whimsical(Rr, frozen=True):
        def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
            return Whim() if isinstance(message, Pooled) else super().reveals(message, seen)

    broken(Whimsical.with_keep(SURVEY, 0.6), "this accountant does not know 'Whim'")


def test_parameters_that_do_not_come_back() -> None:
    class Drifting(Rr, frozen=True):
        scale: float = 1.0

        def __post_init__(self) -> None:
            super().__post_init__()
            msgspec.structs.force_setattr(self, "scale", self.scale + 1)

    broken(Drifting.with_keep(SURVEY, 0.6), "rebuilt from its parameters differs")


def test_parameters_that_cannot_be_written() -> None:
    class Opaque(Rr, frozen=True):
        rule: Callable[[int], int] = abs

    broken(
        Opaque.with_keep(SURVEY, 0.6),
        "rebuilt from its parameters differs: .*function",
    )


def test_no_name() -> None:
    class Nameless(RRIndependent, frozen=True):
        name = ""

    broken(Nameless.with_keep(SURVEY, 0.6), "the variant has no name")


def test_randomness_of_its_own() -> None:
    class Dicing(Rr, frozen=True):
        async def party(self, me: Me, records: Records) -> None:
            await me.receive(Ask, AGGREGATOR)
            codes = np.zeros_like(records.codes)
            codes[:, 0] = np.frombuffer(os.urandom(len(records)), np.uint8) % 2
            await me.send(AGGREGATOR, Report(codes))

    broken(
        Dicing.with_keep(SURVEY, 0.6),
        r"differs in a second run: a role may depend on its rec",
    )


def test_a_party_that_fails() -> None:
    class Failing(Rr, frozen=True):
        async def party(self, me: Me, records: Records) -> None:
            await super().party(me, records)
            raise ZeroDivisionError("once too often")

    broken(Failing.with_keep(SURVEY, 0.6), "party-1 did not end as done: .*once too")


def test_an_aggregator_that_fails() -> None:
    class Failing(Rr, frozen=True):
        async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Pooled:
            await super().aggregator(me, parties)
            raise LocalProtocolError("no result today")

    broken(Failing.with_keep(SURVEY, 0.6), "the variant does not run: .*no result today")


def test_a_result_that_the_variant_cannot_read() -> None:
    class Illiterate(Rr, frozen=True):
        def estimate(self, result: Message) -> Any:
            raise ValueError("what is this?")

    broken(
        Illiterate.with_keep(SURVEY, 0.6), "estimate refuses the variant's own result: what is this"
    )


class Executed(msgspec.Struct):
    """What an executor returns."""

    digest: bytes
    result: Message

    def audit_reports(self, **asked: Any) -> dict[str, str]:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda o: Executed(bytes(32), o.result), "'odd' gives another canonical digest"),
        (
            lambda o: Executed(o.digest, Pooled(o.result.codes[:1], o.result.counts[:1])),
            "'odd' gives another result",
        ),
    ],
)
def test_an_executor_that_differs(change: Callable[[Outcome], Executed], says: str) -> None:
    def odd(*arguments: Any, **options: Any) -> Executed:
        return change(EXECUTORS["local"](*arguments, **options))

    variant = RRIndependent.with_keep(SURVEY, 0.6)
    broken(variant, says, executors={**LOCAL, "odd": odd})
