"""PrivKV and PrivKVM by messages: estimates, costs, who is left out, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from protocol import (
    AGGREGATOR,
    Derived,
    OneOf,
    PartyId,
    Plain,
    PrivacyError,
    PrivKVM,
    ProtocolError,
    Public,
    QuorumError,
    Randomized,
    Records,
    Request,
    Seen,
    key_survey,
)
from protocol.accounting.accountants import PureAccountant
from protocol.session.fates import Fate, Verdict
from protocol.testing import contract
from protocol.transcript.entries import Sent
from protocol.variants import PrivKVMVariant, PrivKVVariant
from protocol.variants.keyvalue.estimate import KeyValueTables, fakes_after
from protocol.variants.keyvalue.moments import maximum_likelihood, moment
from protocol.variants.keyvalue.privkv import Fakes, KeyReport, KeyValueCollection, SymbolCounts
from protocol.variants.keyvalue.records import held_records, key_values
from protocol.wire.codec import decode_envelope
from scenarios import EXECUTORS
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
from tests.recorded.runs import fate_of, recorded

FILMS = key_survey("films", ("heat", "ran", "solaris"), ((-0.5, 0.5), (1.0,), (-1.0, 0.0, 1.0)))
RECORDS = answers(FILMS, 7)
ONE = PartyId("party-1")
CODE = np.uint8

test_privkv = contract(PrivKVVariant(survey=FILMS, epsilon=2.0), RECORDS, executors=EXECUTORS)
test_privkvm = contract(PrivKVMVariant(survey=FILMS, epsilon=2.0), RECORDS, executors=EXECUTORS)
test_privkvm_of_cohorts = pytest.mark.slow(
    contract(
        PrivKVMVariant(survey=FILMS, epsilon=2.0, rounds=2, estimator="moment"),
        answers(FILMS, 11),
        executors=EXECUTORS,
        parties=3,
    )
)


def report(round_: int, keys: list[int], symbols: list[int]) -> KeyReport:
    return KeyReport(round_, np.array(keys, CODE), np.array(symbols, CODE))


@pytest.mark.parametrize("estimator", ["moment", "debiased", "likelihood", "em"])
def test_privkv_comes_near_the_truth(estimator: Any) -> None:
    n = 60_000
    records = answers(FILMS, n)
    variant = PrivKVVariant(survey=FILMS, epsilon=6.0, estimator=estimator, max_records=n)
    outcome = recorded(variant, records, parties=6)
    estimate = variant.estimate(outcome.published)
    assert estimate.n == n
    held = held_records(records)
    true = held.codes.mean(axis=0)
    values = key_values(FILMS)[np.arange(3), records.codes]
    means = np.nanmean(values, axis=0)
    # Fakes are a twentieth of what is reported with a key: these two count them as values.
    slack = 0.07 if estimator in ("moment", "em") else 0.0
    assert (np.abs(estimate.frequencies - true) < 6 * estimate.frequency_errors).all()
    assert (np.abs(estimate.means - means) < 6 * estimate.mean_errors + slack).all()
    assert (estimate.frequency_errors < 0.01).all()
    assert outcome.follows()
    assert estimate.recoded(records) == held
    table = estimate.table("ran")
    assert table.values[1] == estimate.frequencies[1]
    assert table.values.sum() == pytest.approx(1)
    assert estimate.count({"ran": ["held"]}).value == pytest.approx(estimate.frequencies[1] * n)
    with pytest.raises(ValueError, match="expected one key"):
        estimate.table("ran", "heat")
    assert estimate.pairs() == []


def test_privkvm_takes_frequencies_of_the_first_round_and_means_of_the_last() -> None:
    n = 30_000
    records = answers(FILMS, n)
    variant = PrivKVMVariant(survey=FILMS, epsilon=12.0, estimator="likelihood", max_records=n)
    outcome = recorded(variant, records, parties=5)
    estimate = variant.estimate(outcome.published)
    assert estimate.counts.shape == (3, 3, 3)
    assert (estimate.counts.sum(axis=(1, 2)) == n).all()
    # The key is drawn and perturbed once: who reports none is the same in every round.
    assert (estimate.counts[:, :, 0] == estimate.counts[0, :, 0]).all()
    assert (estimate.counts[0] != estimate.counts[2]).any()
    each = variant.client.each
    fakes = fakes_after(estimate.counts[1], each)
    last = maximum_likelihood(estimate.counts[2], each, fakes=fakes)
    np.testing.assert_array_equal(estimate.means, last.means)
    np.testing.assert_array_equal(
        estimate.frequencies, maximum_likelihood(estimate.counts[0], each).frequencies
    )
    means = np.nanmean(key_values(FILMS)[np.arange(3), records.codes], axis=0)
    assert (np.abs(estimate.means - means) < 6 * estimate.mean_errors).all()
    assert outcome.follows()
    np.testing.assert_array_equal(
        estimate.by("moment").means, moment(estimate.counts[2], each).means
    )
    # What stands for missing keys in a further round is what the one before found.
    said = [decode_envelope(e.envelope) for e in outcome.entries if isinstance(e, Sent)]
    first = next(item for item in said if item.kind == "KeyReport" and item.sender == ONE)
    asked = next(item for item in said if item.kind == "Fakes" and item.recipient == ONE)
    reported = outcome.charter.codec.decode(first.kind, first.body)
    question = outcome.charter.codec.decode(asked.kind, asked.body)
    assert isinstance(reported, KeyReport)
    assert isinstance(question, Fakes)
    np.testing.assert_array_equal(
        question.means, fakes_after(estimate.counts[0], each)[reported.keys]
    )


def test_the_ledger_has_privkvs_true_epsilon_and_the_claim_the_charged_sum() -> None:
    variant = PrivKVVariant(survey=FILMS, epsilon=2.0)
    outcome = recorded(variant, RECORDS, parties=7)
    ledger = outcome.ledger(AGGREGATOR)
    each = variant.client.each
    assert ledger.record_epsilon == each.epsilon
    assert each.epsilon == pytest.approx(1 + math.log(2 / (1 + math.exp(-1))))
    (claim,) = variant.claims()
    assert claim.epsilon == each.charged == pytest.approx(2.0)
    told = {tuple(account.loss.attributes) for account in ledger.accounts.values()}
    assert all(len(names) == 1 for names in told)


def test_the_ledger_has_every_rounds_budget() -> None:
    variant = PrivKVMVariant(survey=FILMS, epsilon=3.0)
    outcome = recorded(variant, RECORDS, parties=7)
    ledger = outcome.ledger(AGGREGATOR)
    for account in ledger.accounts.values():
        costs = [charge.loss.record for charge in account.trail]
        assert costs == pytest.approx([1.5 + 0.5, 0.5, 0.5])
        assert len(account.loss.attributes) == 1
    assert ledger.record_epsilon == pytest.approx(variant.client.epsilon, abs=1e-12)


@pytest.mark.parametrize(
    ("fate", "counted"),
    [
        (fate_of(Fate(Verdict.DROP), ONE, "KeyReport", seq=1), [7, 6, 7]),
        (fate_of(Fate(delay=500.0), ONE, "KeyReport"), [6, 6, 6]),
    ],
    ids=["a round is missed", "the first report is late"],
)
def test_a_party_that_misses_a_round_is_left_out_of_it(fate: Any, counted: list[int]) -> None:
    variant = PrivKVMVariant(survey=FILMS, epsilon=3.0)
    outcome = recorded(variant, RECORDS, fate=fate)
    estimate = variant.estimate(outcome.published)
    assert estimate.counts.sum(axis=(1, 2)).tolist() == counted
    assert outcome.follows()
    assert outcome.endings[ONE] == "done"


def test_too_few_in_a_later_round_is_no_survey() -> None:
    fate = fate_of(Fate(Verdict.DROP), kind="KeyReport", seq=1)
    variant = PrivKVMVariant(survey=FILMS, epsilon=3.0, quorum=2)
    charter = charter_of(variant, parties=3)
    with pytest.raises(QuorumError, match="KeyReport"):
        assert rehearsed(charter, holdings_of(charter, answers(FILMS, 3)), fate=fate).published


def heard(variant: KeyValueCollection, *reports: KeyReport) -> Any:
    """An aggregator's machine that has heard first reports of three parties."""
    charter = charter_of(variant, parties=3)
    machine = machine_of(charter, AGGREGATOR)
    machine.start(0.0)
    for place, item in enumerate(reports, 1):
        machine.receive(envelope(charter, f"party-{place}", 0, item), 0.0)
    return charter, machine


def test_reports_that_do_not_fit_are_not_counted() -> None:
    variant = PrivKVVariant(survey=FILMS, epsilon=2.0, max_records=2)
    _, machine = heard(
        variant, report(0, [1, 2], [0, 1]), report(0, [1], [0, 1]), report(0, [0], [2])
    )
    assert isinstance(machine.result, SymbolCounts)
    assert machine.result.counts.tolist() == [[[0, 0, 1], [1, 0, 0], [0, 1, 0]]]


def test_another_key_in_a_later_round_is_not_counted() -> None:
    variant = PrivKVMVariant(survey=FILMS, epsilon=2.0, rounds=2)
    charter, machine = heard(variant, *(report(0, [key], [1]) for key in range(3)))
    for place, key in ((1, 0), (2, 0), (3, 2)):
        machine.receive(envelope(charter, f"party-{place}", 1, report(1, [key], [2])), 0.0)
    assert isinstance(machine.result, SymbolCounts)
    assert machine.result.counts[1].tolist() == [[0, 0, 1], [0, 0, 0], [0, 0, 1]]


def test_nothing_that_fits_is_no_result() -> None:
    variant = PrivKVVariant(survey=FILMS, epsilon=2.0, max_records=2)
    _, machine = heard(variant, *[report(0, [1], [0, 1])] * 3)
    assert isinstance(machine.failure, ProtocolError)
    assert "0 parties sent valid reports, at least 2 needed" in str(machine.failure)


def asked(variant: KeyValueCollection, *questions: Any, budget: float | None = None) -> Any:
    """A party's machine that was asked so."""
    charter = charter_of(variant, parties=1)
    machine = machine_of(charter, ONE, budget=budget)
    machine.start(0.0)
    for seq, question in enumerate(questions):
        machine.receive(envelope(charter, AGGREGATOR, seq, question, to=ONE), 0.0)
    return machine


@pytest.mark.parametrize("means", [np.array([1.5]), np.array([-1.0, 0.0])])
def test_a_party_refuses_values_that_are_none(means: Any) -> None:
    variant = PrivKVMVariant(survey=FILMS, epsilon=2.0, max_records=2)
    machine = asked(variant, Request(FILMS.digest), Fakes(1, means))
    assert isinstance(machine.failure, PrivacyError)
    assert "values for missing keys outside" in str(machine.failure)


def test_a_party_refuses_what_exceeds_its_budget() -> None:
    variant = PrivKVMVariant(survey=FILMS, epsilon=2.0)
    machine = asked(variant, Request(FILMS.digest), budget=1.9)
    assert isinstance(machine.failure, PrivacyError)
    # It is refused before the first round, not in the last.
    assert [item.kind for item in words_sent(machine)] == ["Declined"]
    fitting = asked(variant, Request(FILMS.digest), Fakes(1, np.zeros(1)), budget=2.0)
    assert [item.kind for item in words_sent(fitting)] == ["KeyReport", "KeyReport"]
    assert fitting.failure is None


def test_what_each_kind_reveals() -> None:
    once = PrivKVVariant(survey=FILMS, epsilon=2.0, max_records=3)
    rounds = PrivKVMVariant(survey=FILMS, epsilon=2.0, max_records=3)
    each = rounds.client.each
    seen = Seen()
    for variant in (once, rounds):
        assert variant.reveals(Request(FILMS.digest), seen) == Public()
        assert variant.reveals(SymbolCounts(np.zeros((1, 3, 3))), seen) == Derived()
        assert variant.reveals(report(0, [1], [0, 1]), seen) == Plain(FILMS.names)
    assert rounds.reveals(Fakes(1, np.zeros(1)), seen) == Derived()
    assert once.reveals(report(0, [1], [2]), seen) == Randomized(once.client.each, ("ran",))
    assert once.reveals(report(0, [1, 0, 1], [2, 0, 0]), seen) == OneOf(
        tuple(Randomized(once.client.each, (name,)) for name in ("heat", "ran"))
    )
    first_round = PrivKVM(each=each, rounds=1)
    assert rounds.reveals(report(0, [1], [2]), seen) == Randomized(first_round, ("ran",))
    assert rounds.reveals(report(2, [1], [2]), seen) == Randomized(each.value_response, ("ran",))
    assert rounds.reveals(report(3, [1], [2]), seen) == Plain(FILMS.names)
    judge = PureAccountant().judge
    first, again = (judge(rounds.reveals(report(i, [1], [2]), seen)).record for i in range(2))
    assert first + 2 * again == pytest.approx(rounds.client.epsilon)


def test_parameters_that_nobody_can_keep_are_refused() -> None:
    with pytest.raises(ValueError, match="not a survey of keys"):
        PrivKVVariant(survey=SURVEY, epsilon=1.0)
    with pytest.raises(ValueError, match="needs one round"):
        PrivKVMVariant(survey=FILMS, epsilon=1.0, estimator="em")


def test_keys_without_a_report_have_no_estimate() -> None:
    counts = np.zeros((1, 3, 3), np.int64)
    counts[0, 0] = 5, 3, 2
    variant = PrivKVVariant(survey=FILMS, epsilon=2.0)
    estimate = variant.estimate(SymbolCounts(counts))
    assert isinstance(estimate, KeyValueTables)
    assert np.isnan(estimate.frequencies[1:]).all()
    assert np.isnan(estimate.frequency_errors[1:]).all()
    assert np.isnan(estimate.table("ran", projection="simplex").values).all()
    assert np.isfinite(estimate.table("heat", projection="simplex").values).all()
    with pytest.raises(ValueError, match="no report"):
        variant.estimate(SymbolCounts(np.zeros((1, 3, 3), np.int64)))
    with pytest.raises(ValueError, match=r"shape \(1, 2, 3\)"):
        variant.estimate(SymbolCounts(np.zeros((1, 2, 3), np.int64)))
    with pytest.raises(ValueError, match="another survey"):
        estimate.recoded(Records(SURVEY, np.zeros((2, 2), np.uint8)))


def test_virtual_rounds_are_worked_out_from_those_that_were_asked() -> None:
    variant = PrivKVMVariant(survey=FILMS, epsilon=8.0, rounds=2, estimator="moment", virtual=2)
    run = recorded(variant, answers(FILMS, 200))
    found = variant.estimate(run.published)
    each, counts = variant.client.each, found.counts
    fakes = fakes_after(counts[0], each)
    expected = moment(counts[1], each, fakes=fakes, virtual=2).means
    np.testing.assert_array_equal(found.means, expected)
    assert not np.array_equal(found.means, moment(counts[1], each, fakes=fakes).means)
    np.testing.assert_array_equal(found.by("moment").means, moment(counts[1], each).means)
    with pytest.raises(ValueError, match="virtual rounds of the estimator likelihood"):
        PrivKVMVariant(survey=FILMS, epsilon=8.0, virtual=2)
