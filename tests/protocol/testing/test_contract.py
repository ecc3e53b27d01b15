"""The contract of variants: the project's own meet it, and each planted violation is named."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest

from protocol import (
    AGGREGATOR,
    Attribute,
    Derived,
    FrequencyOracle,
    KeepUniform,
    Kind,
    LocalProtocolError,
    MatrixRandomizer,
    Me,
    Message,
    PartyId,
    Plain,
    PrivacyEvent,
    Public,
    Randomized,
    Randomizer,
    Records,
    Seen,
    Stream,
    Survey,
    UnaryEncoding,
)
from protocol.accounting.accountants import Loss, PureAccountant
from protocol.audit.at_delta import worst_respondent
from protocol.crypto.randomness import WORDS
from protocol.randomizers.pairs import Dominating, ThreePoint
from protocol.simulation.rehearsal import Rehearsal
from protocol.simulation.setting import make_setting
from protocol.testing import check_variant, contract, likelihoods
from protocol.variants import RRIndependent, RRJoint, Spl
from protocol.variants.reports.reports import Ask, Pooled, Report
from scenarios import EXECUTORS, AuditedRun
from tests.protocol.sessions import SURVEY, answers
from tests.scenarios.own_variants import PlainAnswers, RollCall
from tests.tiers import thinned

RECORDS = answers(SURVEY, 6)
LOCAL = {"local": EXECUTORS["local"]}
MATRIX = MatrixRandomizer.from_probabilities([[0.7, 0.3], [0.2, 0.8]])
MATRIX_3 = MatrixRandomizer.from_probabilities([[0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0, 0.5, 0.5]])
SIX = MatrixRandomizer.from_probabilities(np.full((6, 6), 0.1) + 0.4 * np.eye(6))

test_independent = contract(RRIndependent.with_keep(SURVEY, 0.6), RECORDS, executors=EXECUTORS)
test_independent_in_cohorts = contract(
    RRIndependent.with_keep(SURVEY, 0.6), RECORDS, executors=EXECUTORS, parties=2
)
test_independent_by_matrix = pytest.mark.slow(
    contract(
        RRIndependent(survey=SURVEY, randomizers=(MATRIX, MATRIX_3)), RECORDS, executors=EXECUTORS
    )
)
test_joint = contract(RRJoint.with_epsilon(SURVEY, 3.0), RECORDS, executors=EXECUTORS)
test_joint_in_cohorts = pytest.mark.slow(
    contract(RRJoint.with_keep(SURVEY, 0.6), RECORDS, executors=EXECUTORS, parties=4)
)
test_joint_by_matrix = pytest.mark.slow(
    contract(RRJoint(survey=SURVEY, randomizer=SIX), RECORDS, executors=EXECUTORS, parties=3)
)
test_several_rounds = contract(RollCall.with_keep(SURVEY, 0.6), RECORDS, executors=EXECUTORS)
test_plain = contract(PlainAnswers.with_keep(SURVEY, 0.6), RECORDS, executors=EXECUTORS)


def broken(variant: Any, says: str, **options: Any) -> None:
    with pytest.raises(AssertionError, match=says):
        check_variant(variant, RECORDS, **{"executors": LOCAL, **options})


class Rr(RRIndependent, frozen=True):
    """What the violations change a part of."""

    name = "rr-violated"


@pytest.mark.parametrize("event", [Public(), Derived()])
def test_a_report_that_is_said_to_tell_nothing(event: PrivacyEvent) -> None:
    class Silenced(Rr, frozen=True):
        def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
            return event

    broken(
        Silenced.with_keep(SURVEY, 0.6),
        r"\('Report'\) changes with its sender's answer to '(smokes|drinks)'.* tells nothing about",
    )


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


@pytest.mark.slow
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
            drawn = np.frombuffer(os.urandom(records.codes.size), np.uint8)
            # All columns: that six parties draw alike a second time happens once in 40,000 runs.
            codes = drawn.reshape(records.codes.shape) % np.array(records.survey.sizes, np.uint8)
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


@pytest.mark.slow
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
def test_an_executor_that_differs(change: Callable[[AuditedRun], Executed], says: str) -> None:
    def odd(*arguments: Any, **options: Any) -> Executed:
        return change(EXECUTORS["local"](*arguments, **options))

    variant = RRIndependent.with_keep(SURVEY, 0.6)
    broken(variant, says, executors={**LOCAL, "odd": odd})


class Keeping(Randomizer, frozen=True):
    """Keeps an answer out of six with probability 9/10, and says what it is told to."""

    stated: str

    @property
    def size(self) -> int:
        return 6

    def randomize(self, codes: Any, stream: Stream) -> Any:
        kept = stream.bernoulli(9 * 2**64 // 10, len(codes))
        others = (codes + 1 + stream.integers(5, len(codes))) % 6
        return np.where(kept, codes, others).astype(np.uint8)

    def row(self, code: int) -> list[Fraction]:
        keep = Fraction(9 * 2**64 // 10, 2**64)
        if self.stated == "another law":
            keep = Fraction(1, 2)
        return [keep if code == other else (1 - keep) / 5 for other in range(6)]

    @property
    def epsilon(self) -> float:
        return 1.0 if self.stated == "half of epsilon" else super().epsilon

    @property
    def dominating(self) -> Dominating:
        found = super().dominating
        if self.stated != "half of the distance" or found.pairs is None:
            return found
        [pair] = found.pairs
        return Dominating((ThreePoint(pair.ratio, pair.distance / 2),), False)


class Oracle(FrequencyOracle, frozen=True):
    """Reports by it."""

    name = "oracle"

    stated: str = "the truth"

    @property
    def randomizer(self) -> Keeping:
        return Keeping(self.stated)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stated", "says"),
    thinned(
        [
            (
                "half of epsilon",
                "party-1: randomizer 'Keeping' states epsilon 1, and its law has 3.80",
            ),
            (
                "half of the distance",
                "the ledger: randomizer 'Keeping' has a dominating pair that doe",
            ),
            (
                "another law",
                "the ledger: 4,000 reports in .* tell at least epsilon 3",
            ),
        ],
        2,
    ),
)
def test_a_randomizer_that_lies(stated: str, says: str) -> None:
    check_variant(Oracle(survey=SURVEY), RECORDS, executors=LOCAL)
    broken(Oracle(survey=SURVEY, stated=stated), says)


def test_an_event_of_a_weaker_randomizer() -> None:
    class Modest(Oracle, frozen=True):
        name = "modest"

        def report_reveals(self, report: Message, seen: Seen) -> PrivacyEvent:
            return Randomized(Keeping("another law"), self.survey.names)

    broken(Modest(survey=SURVEY), "the ledger: 4,000 reports in .* tell at least epsilon 3")


def test_an_accountant_that_charges_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = PureAccountant._judge

    def halved(self: PureAccountant, event: PrivacyEvent) -> Loss:
        loss = judge(self, event)
        attributes = {name: epsilon / 2 for name, epsilon in loss.attributes.items()}
        return Loss(loss.record / 2, attributes)

    monkeypatch.setattr(PureAccountant, "_judge", halved)
    broken(
        RRIndependent.with_keep(SURVEY, 0.6),
        "the ledger: party-1 is charged epsilon 0.77.* for the record, and .smokes: no.* can have "
        "messages whose log likelihood ratio is 1.38",
    )


def test_a_charge_for_a_report_whose_table_is_too_long_to_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    letters = Survey("letters", (Attribute(name="letter", categories=tuple("abcdefghijklmnop")),))
    variant = Spl(survey=letters, epsilon=4.03125, oracle="oue")
    monkeypatch.setattr(UnaryEncoding, "epsilon", 3.9)
    monkeypatch.setattr(likelihoods, "check_stated", lambda randomizer: None)
    run = Rehearsal(make_setting(variant, answers(letters, 4), seed=1, parties=4))
    says = r"charged epsilon 3\.9 for the record, .* can have messages whose log .* is 4\.03"
    with pytest.raises(AssertionError, match=says):
        likelihoods.check_ledger(run)


def test_a_figure_at_a_delta_that_is_too_low(monkeypatch: pytest.MonkeyPatch) -> None:
    def lower(*arguments: Any, **options: Any) -> Any:
        found = worst_respondent(*arguments, **options)
        assert found is not None
        composition = msgspec.structs.replace(
            found.composition, epsilon=0.99 * found.composition.epsilon
        )
        return msgspec.structs.replace(found, composition=composition)

    monkeypatch.setattr(likelihoods, "worst_respondent", lower)
    broken(
        Oracle(survey=SURVEY),
        "the ledger: at delta 1e-06 party-1 is charged epsilon 3.7.* more is left to chance: 0.0",
    )


@pytest.mark.parametrize(
    ("change", "says"),
    thinned(
        [
            (
                lambda said, asked: said.pop("page"),
                "audit --records --trail party-1 --worst 1: the page does not say",
            ),
            (
                lambda said, asked: said.update(text="Not a"),
                "the text does not say that the run",
            ),
            (
                lambda said, asked: said.update(json=said["json"].replace("1.09861", "1.09")),
                "audit --records .* says epsilon 1.09.*, and the ledger of the same run 1.098",
            ),
            (
                lambda said, asked: asked.get("observer") and 1 / 0,
                "audit --observer party-1 --tap .* --delta 0.1 fails: ZeroDivisionError",
            ),
        ],
        2,
    ),
)
def test_an_audit_that_goes_wrong(change: Callable[[Any, Any], object], says: str) -> None:
    class Changed(msgspec.Struct):
        run: AuditedRun

        @property
        def digest(self) -> bytes:
            return self.run.digest

        @property
        def result(self) -> Message:
            return self.run.result

        def audit_reports(self, **asked: Any) -> dict[str, str]:
            said = self.run.audit_reports(**asked)
            change(said, asked)
            return said

    def odd(*arguments: Any, **options: Any) -> Changed:
        return Changed(EXECUTORS["local"](*arguments, **options))

    variant = RRJoint(survey=SURVEY, randomizer=KeepUniform(6, WORDS // 4))
    broken(variant, says, executors={"odd": odd})
