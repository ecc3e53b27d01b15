"""SPL, SMP and RS+FD by messages: estimates, errors, cost, claims, what is refused."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from scipy import stats

from protocol import (
    AGGREGATOR,
    RECORD,
    Attribute,
    Composed,
    Derived,
    Estimate,
    Estimated,
    Message,
    OneOf,
    PartyId,
    Plain,
    PrivacyEvent,
    ProtocolError,
    Public,
    Randomized,
    Randomizer,
    Records,
    Request,
    Seen,
    Stream,
    Survey,
    SurveyError,
)
from protocol.attack.attack import attack
from protocol.audit.claims import check_claims
from protocol.session.variant import build, plain_parameters
from protocol.testing import contract
from protocol.variants import RsFd, Smp, Spl
from protocol.variants.oracles.attributes import (
    AttributeOracles,
    AttributeReports,
    AttributeTallies,
    SampledReports,
)
from protocol.variants.oracles.names import ORACLES, frequency_oracle
from scenarios import EXECUTORS
from tests.protocol.sessions import (
    SURVEY,
    answers,
    charter_of,
    envelope,
    holdings_of,
    machine_of,
    rehearsed,
)
from tests.statistical import ALPHA
from tests.tiers import slow, thinned

ONE = PartyId("party-1")
WIDE = Survey(
    "wide",
    tuple(
        Attribute(name=f"a{size}", categories=tuple(map(str, range(size)))) for size in (2, 11, 3)
    ),
)
RECORDS = answers(WIDE, 5)

test_spl_of_codes = pytest.mark.slow(
    contract(Spl(survey=WIDE, epsilon=1.0), RECORDS, executors=EXECUTORS)
)
test_spl_of_bits = pytest.mark.slow(
    contract(
        Spl(survey=WIDE, epsilon=1.0, oracle="oue"),
        answers(WIDE, 7),
        executors=EXECUTORS,
        parties=3,
    )
)
test_smp_of_bits = pytest.mark.slow(
    contract(
        Smp(survey=WIDE, epsilon=1.0, oracle="sue"),
        answers(WIDE, 7),
        executors=EXECUTORS,
        parties=3,
    )
)
test_smp_of_hashes = contract(
    Smp(survey=WIDE, epsilon=1.0, oracle="olh"), RECORDS, executors=EXECUTORS
)
test_rs_fd = contract(
    RsFd(survey=WIDE, epsilon=1.0), answers(WIDE, 7), executors=EXECUTORS, parties=3
)


def every(survey: Survey, epsilon: float) -> list[AttributeOracles]:
    oracles: tuple[type[Spl] | type[Smp], ...] = (Spl, Smp)
    found: list[AttributeOracles] = [
        cls(survey=survey, epsilon=epsilon, oracle=oracle) for cls in oracles for oracle in ORACLES
    ]
    return [*found, RsFd(survey=survey, epsilon=epsilon)]


def named(variant: AttributeOracles) -> str:
    return f"{variant.name} {getattr(variant, 'oracle', '')}".strip()


VARIANTS = every(WIDE, 2.0)
SPLIT = [one for one in VARIANTS if isinstance(one, Spl)]


def estimates(variant: AttributeOracles, records: Records, runs: int) -> list[Estimate]:
    """Of as many runs, each with all records at one party."""
    stream = Stream(bytes(32))
    whole = msgspec.structs.replace(variant, max_records=len(records))
    return [
        whole.estimate(whole.pooled([whole.answer(records, Request(b""), stream.derive(str(run)))]))
        for run in range(runs)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "variant",
    [*thinned([one for one in VARIANTS if not isinstance(one, Spl)], 3), *map(slow, SPLIT)],
    ids=named,
)
def test_estimates_are_unbiased_and_their_errors_are_right(variant: AttributeOracles) -> None:
    """Over many runs on the same records; with errors wrong by a tenth it fails."""
    runs, records = 700, answers(WIDE, 200)
    found, pooled = estimates(variant, records, runs), []
    for name in WIDE.names:
        truth = records.distribution([name])
        tables = [one.table(name) for one in found]
        values = np.stack([table.values for table in tables])
        stated = np.stack(
            [table.standard_errors for table in tables if table.standard_errors is not None]
        )
        assert len(stated) == runs
        # Of a category that few report on, an error is unknown now and then.
        assert np.isnan(stated).mean() < 0.02
        variances = np.nanmean(stated**2, axis=0)
        z = (values.mean(axis=0) - truth) / np.sqrt(variances / runs)
        assert (np.abs(z) < stats.norm.isf(ALPHA)).all()
        ratio = values.var(axis=0, ddof=1) / variances
        # Fourth moments of sums of hundreds are nearly normal.
        allowed = stats.chi2.ppf([ALPHA, 1 - ALPHA], runs - 1) / (runs - 1)
        assert (allowed[0] < ratio).all()
        assert (ratio < allowed[1]).all()
        pooled.append(ratio[1:])
    # All cells together tell an error that is wrong by a tenth.
    mean = float(np.concatenate(pooled).mean())
    assert abs(mean - 1) < 0.08


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_variance_of_rs_fd_is_that_of_the_paper(epsilon: float, place: int) -> None:
    """Theorem of section 3.2: ``d**2 gamma (1 - gamma) / (n (p - q)**2)``, of a population."""
    variant, n, d = RsFd(survey=WIDE, epsilon=epsilon), 1000, 3
    size = WIDE.sizes[place]
    raised = math.log(d * math.expm1(epsilon) + 1)
    p = math.exp(raised) / (math.exp(raised) + size - 1)
    q = (1 - p) / (size - 1)
    shares = np.full(size, 1 / size)
    gamma = (q + shares * (p - q) + (d - 1) / size) / d
    paper = d**2 * gamma * (1 - gamma) / (n * (p - q) ** 2)
    own = variant.randomizers[place].variances(shares, n) + shares * (1 - shares) / n
    assert own == pytest.approx(paper, rel=1e-9)


@pytest.mark.parametrize("variant", every(WIDE, 1.0), ids=named)
def test_what_a_report_costs(variant: AttributeOracles) -> None:
    charter = charter_of(msgspec.structs.replace(variant, max_records=2), parties=4)
    outcome = rehearsed(charter, holdings_of(charter, answers(WIDE, 8)))
    assert outcome.follows()
    epsilon = outcome.ledger(AGGREGATOR).record_epsilon
    assert epsilon <= variant.most()
    if isinstance(variant, RsFd):
        assert epsilon == pytest.approx(math.log(3 * math.expm1(1) + 1), rel=1e-12)
    else:
        assert epsilon == pytest.approx(1.0, abs=1e-12)
        assert epsilon <= 1.0
    estimate = variant.estimate(outcome.published)
    assert estimate.n == 8
    assert estimate.pairs() == []


def test_the_oracles_by_name_keep_to_epsilon() -> None:
    for oracle in ORACLES:
        for epsilon in (0.3, 1.0, 4.0):
            made = frequency_oracle(oracle, 20, epsilon=epsilon)
            assert made.epsilon == pytest.approx(epsilon, rel=1e-9)
            assert made.epsilon <= epsilon


@pytest.mark.parametrize("variant", VARIANTS, ids=named)
def test_headers_of_no_variant_are_refused(variant: AttributeOracles) -> None:
    header = msgspec.msgpack.decode(msgspec.msgpack.encode(plain_parameters(variant)))
    assert header["epsilon"] == 2.0
    assert header.get("oracle") == getattr(variant, "oracle", None)
    survey = msgspec.to_builtins(WIDE)
    for wrong in ({"oracle": "none"}, {"epsilon": 0.0}, {"epsilon": math.inf}):
        with pytest.raises(SurveyError, match="does not fit"):
            build(type(variant), parameters={**header, **wrong}, survey=survey)


def test_what_each_kind_tells() -> None:
    spl, smp = Spl(survey=SURVEY, epsilon=1.0), Smp(survey=SURVEY, epsilon=1.0, max_records=9)
    for variant in (spl, smp, RsFd(survey=SURVEY, epsilon=1.0)):
        assert variant.reveals(Request(b""), Seen()) == Public()
        tallies = AttributeTallies(1, np.ones(2, np.uint32), np.zeros(5, np.uint32))
        assert variant.reveals(tallies, Seen()) == Derived()
    zeros = np.zeros((1, 2), np.uint8)
    event = spl.reveals(AttributeReports(zeros), Seen())
    assert isinstance(event, Composed)
    assert [part.attributes for part in event.events if isinstance(part, Randomized)] == [
        ("smokes",),
        ("drinks",),
    ]
    codes = np.zeros((3, 1), np.uint8)
    one = smp.reveals(SampledReports(np.array([1, 1, 1], np.uint8), codes), Seen())
    assert one == Randomized(smp.randomizers[1], ("drinks",))
    both = smp.reveals(SampledReports(np.array([1, 0, 1], np.uint8), codes), Seen())
    assert isinstance(both, OneOf)
    assert len(both.events) == 2


MALFORMED = {
    "fewer reports than attributes": SampledReports(
        np.array([0, 1], np.uint8), np.zeros((1, 1), np.uint8)
    ),
    "a category that the attribute does not have": SampledReports(
        np.array([0], np.uint8), np.array([[2]], np.uint8)
    ),
}


@pytest.mark.parametrize("message", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_reports_are_not_counted(message: SampledReports) -> None:
    variant = Smp(survey=SURVEY, epsilon=1.0, quorum=1, max_records=2)
    assert variant.reveals(message, Seen()) == Plain(SURVEY.names)
    machine = machine_of(charter := charter_of(variant, parties=1), AGGREGATOR)
    machine.start(0.0)
    machine.receive(envelope(charter, ONE, 0, message), 0.0)
    assert isinstance(machine.failure, ProtocolError)
    assert "0 parties sent valid reports" in str(machine.failure)


def test_a_set_of_another_size_is_not_counted() -> None:
    for variant in (
        Spl(survey=WIDE, epsilon=1.0, oracle="subset-selection"),
        Smp(survey=WIDE, epsilon=1.0, oracle="subset-selection"),
    ):
        report = variant.answer(answers(WIDE, 1), Request(b""), Stream(bytes(32)))
        assert variant.read(report) is report
        emptied = msgspec.structs.replace(report, reports=np.zeros_like(report.reports))
        assert variant.read(emptied) is None
        assert variant.reveals(emptied, Seen()) == Plain(WIDE.names)


def test_unused_columns_are_0() -> None:
    variant = Smp(survey=WIDE, epsilon=1.0, oracle="oue")
    assert variant.columns == (256, 8)
    fine = SampledReports(np.array([0], np.uint8), np.array([[3, 0]], np.uint8))
    assert variant.read(fine) is fine
    for row in ([3, 1], [4, 0]):
        reports = np.array([row], np.uint8)
        assert variant.read(SampledReports(np.array([0], np.uint8), reports)) is None
        assert variant.read(SampledReports(np.array([1], np.uint8), reports)) is not None


def test_an_attribute_that_nobody_drew_is_unknown() -> None:
    variant = Smp(survey=SURVEY, epsilon=1.0)
    tallies = AttributeTallies(4, np.array([4, 0], np.uint32), np.array([3, 1, 0, 0, 0], np.uint32))
    estimate = variant.estimate(tallies)
    assert np.isnan(estimate.table("drinks").values).all()
    assert np.isnan(estimate.table("drinks", projection="simplex").values).all()
    found = estimate.query(["drinks"], [1, 0, 0])
    assert math.isnan(found.value)
    assert found.standard_error is None
    assert estimate.query(["drinks"], [1, 1, 1]) == Estimated(1.0, 0.0)
    assert estimate.table("drinks").n == 0
    assert np.isfinite(estimate.table("smokes").values).all()


@pytest.mark.parametrize(
    ("respondents", "reports", "totals"),
    [
        (0, [0, 0], [0, 0, 0, 0, 0]),
        (4, [4, 0], [3, 1, 1, 0, 0]),
        (4, [5, 0], [3, 2, 0, 0, 0]),
        (4, [2, 2], [3, 0, 0, 0, 0]),
    ],
)
def test_a_result_that_does_not_fit_is_refused(
    respondents: int, reports: list[int], totals: list[int]
) -> None:
    variant = Smp(survey=SURVEY, epsilon=1.0)
    published = AttributeTallies(
        respondents, np.array(reports, np.uint32), np.array(totals, np.uint32)
    )
    with pytest.raises(ValueError, match=r"count|expected"):
        variant.estimate(published)


@pytest.mark.slow
@pytest.mark.parametrize(
    "variant", thinned([Spl(survey=WIDE, epsilon=2.0), Smp(survey=WIDE, epsilon=2.0)], 1)
)
def test_a_query_has_the_error_of_its_weights(variant: AttributeOracles) -> None:
    records, weights = answers(WIDE, 400), np.arange(11) / 10
    found = [one.query(["a11"], weights) for one in estimates(variant, records, 800)]
    truth = float(records.distribution(["a11"]) @ weights)
    values = np.array([one.value for one in found])
    errors = [one.standard_error for one in found if one.standard_error is not None]
    variance = float(np.mean(np.square(errors)))
    assert abs(values.mean() - truth) < 6 * math.sqrt(variance / len(values))
    assert values.var(ddof=1) == pytest.approx(variance, rel=0.25)
    with pytest.raises(ValueError, match="2 attributes: expected one"):
        variant.estimate(tallied(variant, records)).query(["a2", "a3"], np.ones((2, 3)))


def tallied(variant: AttributeOracles, records: Records) -> Message:
    whole = msgspec.structs.replace(variant, max_records=len(records))
    return whole.pooled([whole.answer(records, Request(b""), Stream(bytes(32)))])


# What is claimed of RS+FD, and what is found


class Claimed(Randomizer, frozen=True):
    """Nothing but an epsilon."""

    stated: float

    @property
    def epsilon(self) -> float:
        return self.stated


class Believing(RsFd, frozen=True, kw_only=True):
    """Charges what the authors claim."""

    name = "believing"

    def report_reveals(self, report: Message, seen: Seen) -> PrivacyEvent:
        return Randomized(Claimed(self.epsilon), self.survey.names)


@pytest.mark.parametrize("variant", every(WIDE, 1.0), ids=named)
def test_the_audit_shows_what_is_claimed_beside_what_is_charged(variant: AttributeOracles) -> None:
    charter = charter_of(variant, parties=4)
    outcome = rehearsed(charter, holdings_of(charter, answers(WIDE, 4)))
    [check] = check_claims(variant, outcome.ledger(RECORD))
    assert check.claim.epsilon == 1.0
    assert check.factor is not None
    if isinstance(variant, RsFd):
        assert check.factor == pytest.approx(1.8172, abs=1e-4)
    else:
        assert check.factor == pytest.approx(1.0, abs=1e-9)
        assert check.factor <= 1.0


@pytest.mark.slow
def test_rs_fd_that_charges_what_is_claimed_is_accused() -> None:
    records = answers(WIDE, 4)
    sound = attack(RsFd(survey=WIDE, epsilon=1.0), records, trials=100_000, runs=2)
    assert not sound.accused
    whole = sound.probes[-1]
    assert whole.pair == "all attributes"
    assert 1.4 < whole.lower < whole.bound
    found = attack(Believing(survey=WIDE, epsilon=1.0), records, trials=100_000, runs=2)
    # The attribute of most categories is told apart better than claimed even by itself.
    accused = [probe.pair for probe in found.probes if probe.accused]
    assert accused == ["a11: 8 or 0", "all attributes"]


@pytest.mark.slow
def test_the_attack_knows_the_law_of_reports_of_several_columns() -> None:
    """By the octets of 64 bits, of which none says enough, it would prove 1.3 of 2."""
    categories = tuple(map(str, range(64)))
    survey = Survey("long", (Attribute(name="a", categories=categories), SURVEY.attributes[0]))
    variant = Spl(survey=survey, epsilon=2.0, oracle="oue")
    found = attack(variant, answers(survey, 4), trials=40_000, runs=2)
    assert not found.accused
    assert found.rows == ("target's AttributeReports.reports",)
    whole = found.probes[-1]
    assert whole.bound == pytest.approx(2.0)
    assert whole.lower > 1.6
    assert "declared likelihood ratio" in whole.event
