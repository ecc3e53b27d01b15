"""RRBA by messages: blocks, views, consent, what an answer costs, who is left out."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from protocol import (
    AGGREGATOR,
    Attribute,
    GroupTables,
    PartyId,
    PrivacyError,
    ProtocolError,
    Records,
    Survey,
)
from protocol.crypto.randomness import WORDS
from protocol.errors import NoLikelihoodError
from protocol.messages import DONE, Envelope
from protocol.session.fates import Fate, Verdict
from protocol.testing import contract
from protocol.transcript.entries import Delivered, Sent
from protocol.variants import RRBA
from protocol.variants.rrba.blocks import Running, integer_weights
from protocol.variants.rrba.rrba import Answers, Block, Question, Released
from protocol.wire.codec import decode_envelope
from scenarios import EXECUTORS
from tests.protocol.sessions import (
    SURVEY,
    answers,
    charter_of,
    envelope,
    everywhere,
    holdings_of,
    machine_of,
    rehearsed,
    words_sent,
)
from tests.protocol.sharing.test_sums import vanishing
from tests.recorded.runs import Run, fate_of, recorded

ONE, TWO = PartyId("party-1"), PartyId("party-2")
WIDE = Survey(
    "wide",
    tuple(Attribute(name=f"a{i}", categories=tuple("xyz"[: 2 + i % 2])) for i in range(5)),
)
UNIFORM = RRBA(survey=SURVEY, k=1, p=0.5, block=3)
ADAPTIVE = RRBA(survey=WIDE, p=0.5, mix=0.3, block=4)
VIEWS = msgspec.structs.replace(ADAPTIVE, groups="view")
ONE_BY_ONE = msgspec.structs.replace(ADAPTIVE, mode="sequential")

test_uniform_tables = contract(UNIFORM, answers(SURVEY, 7), executors=EXECUTORS)
test_adaptive_tables = pytest.mark.slow(contract(ADAPTIVE, answers(WIDE, 10), executors=EXECUTORS))
test_whole_views = pytest.mark.slow(
    contract(VIEWS, answers(WIDE, 9), executors=EXECUTORS, parties=6)
)
test_client_by_client = pytest.mark.slow(
    contract(ONE_BY_ONE, answers(WIDE, 5), executors=EXECUTORS)
)
test_many_respondents_to_a_party = pytest.mark.slow(
    contract(ADAPTIVE, answers(WIDE, 14), executors=EXECUTORS, parties=6)
)


def run(variant: RRBA, respondents: int, parties: int | None = None) -> Run:
    holders = parties or respondents
    fitted = msgspec.structs.replace(variant, max_records=-(-respondents // holders))
    return recorded(fitted, answers(variant.survey, respondents), parties=holders)


def kernel_result(outcome: Run) -> Released:
    result = outcome.published
    assert isinstance(result, Released)
    return result


def said(outcome: Run, kind: str) -> list[Envelope]:
    envelopes = [decode_envelope(e.envelope) for e in outcome.entries if isinstance(e, Sent)]
    return [item for item in envelopes if item.kind == kind]


def test_blocks_are_asked_one_after_the_other_with_tables_of_those_before() -> None:
    outcome = run(ADAPTIVE, 10)
    assert kernel_result(outcome).blocks == 3
    assert outcome.follows()
    delivered = 0
    answered: set[PartyId] = set()
    plan, running = ADAPTIVE.plan, None
    codec = outcome.charter.codec
    for entry in outcome.entries:
        if isinstance(entry, Delivered) and entry.recipient == AGGREGATOR:
            answered.add(entry.sender)
        if not isinstance(entry, Sent):
            continue
        item = decode_envelope(entry.envelope)
        message = codec.decode(item.kind, item.body)
        if isinstance(message, Question):
            assert len(answered) >= 4 * message.block
            running = running or Running(plan.cells, np.array(plan.thresholds) / WORDS)
            expected = integer_weights(plan.cells, running.tables(0.3))
            groups = tuple(message.groups.tolist())
            assert groups == plan.asked(outcome.charter.session, item.recipient, 1)
            assert np.array_equal(message.weights, expected[plan.places(groups)])
            delivered += 1
        elif isinstance(message, Block) and running is not None:
            tables = integer_weights(plan.cells, running.tables(0.3)) / WORDS
            running.add(message.counts.astype(np.int64), tables)
    assert delivered == 10
    # One encoding serves all of a block that have the same view.
    assert len({item.body for item in said(outcome, "Question")}) <= 3 * len(plan.views)


def test_the_ledger_has_the_true_cost_of_every_answer() -> None:
    outcome = run(UNIFORM, 7)
    account = outcome.ledger(AGGREGATOR).accounts
    for name in outcome.charter.roster.parties:
        (charge,) = account[name].trail
        (attribute,) = charge.loss.attributes
        cells = SURVEY.attribute(attribute).size
        assert charge.loss.record == pytest.approx(math.log1p(0.5 * cells / 0.5), abs=1e-12)
    assert UNIFORM.claims()[0].epsilon == pytest.approx(math.log(2))


def test_an_adaptive_answer_costs_what_its_table_says() -> None:
    outcome = run(ADAPTIVE, 10)
    plan, codec = ADAPTIVE.plan, outcome.charter.codec
    asked = {}
    for item in said(outcome, "Question"):
        message = codec.decode(item.kind, item.body)
        assert isinstance(message, Question)
        asked[item.recipient] = message
    accounts = outcome.ledger(AGGREGATOR).accounts
    for item in said(outcome, "Answers"):
        answer = codec.decode(item.kind, item.body)
        assert isinstance(answer, Answers)
        group = int(answer.groups[0])
        question = asked[item.sender]
        table = plan.tables(question.groups, question.weights)[group]
        cost = math.log1p(0.5 / (0.5 * (min(table.weights) / WORDS)))
        assert accounts[item.sender].loss.record == pytest.approx(cost, rel=1e-12)
        assert set(accounts[item.sender].loss.attributes) == set(plan.group_names[group])


def test_a_whole_view_costs_the_sum() -> None:
    outcome = run(msgspec.structs.replace(VIEWS, mix=1.0), 9)
    plan = VIEWS.plan
    accounts = outcome.ledger(AGGREGATOR).accounts
    for name in outcome.charter.roster.parties:
        (lot,) = plan.lots(outcome.charter.session, name, 1).tolist()
        groups = plan.views[lot]
        cost = math.fsum(math.log1p(plan.layout.groups[g]) for g in groups)
        assert accounts[name].loss.record == pytest.approx(cost, abs=1e-12)


@pytest.mark.parametrize("mix", [1.0, 0.25])
def test_no_answer_costs_more_than_epsilon(mix: float) -> None:
    variant = RRBA(survey=WIDE, epsilon=1.0, mix=mix, block=3)
    outcome = run(variant, 12)
    worst = outcome.ledger(AGGREGATOR).record_epsilon
    assert worst <= 1.0
    if mix == 1.0:
        assert worst == pytest.approx(1.0, abs=1e-9)


def test_estimates_come_near_the_truth_and_know_their_errors() -> None:
    survey = WIDE
    codes = answers(survey, 4000).codes.copy()
    codes[:, 2] = codes[:, 0]
    records = Records(survey, codes)
    variant = RRBA(survey=survey, p=0.6, mix=0.5, block=10, max_records=100)
    outcome = recorded(variant, records, parties=40)
    estimate = variant.estimate(outcome.published)
    assert isinstance(estimate.source, GroupTables)
    assert estimate.n == 4000
    for names in (("a0", "a2"), ("a3", "a1"), ("a4",)):
        table = estimate.table(*names)
        assert table.standard_errors is not None
        distance = np.abs(table.values - records.distribution(names))
        assert (distance < 6 * table.standard_errors).all()
    # As if the two were independent it would be far off.
    table = estimate.table("a0", "a2")
    product = np.outer(records.distribution(["a0"]), records.distribution(["a2"]))
    assert table.standard_errors is not None
    assert (np.abs(table.values - product) > 6 * table.standard_errors).any()


def test_em_takes_a_report_for_one_of_a_block_drawn_by_lot() -> None:
    variant = msgspec.structs.replace(ADAPTIVE, block=10)
    outcome = run(variant, 120, parties=30)
    estimate, released = variant.estimate(outcome.published), kernel_result(outcome)
    group = variant.plan.group_names.index(("a0", "a3"))
    start, cells = int(variant.plan.cells.starts[group]), 6
    counts = released.counts[start : start + cells]
    n, keep = int(counts.sum()), variant.plan.thresholds[group] / WORDS
    assert released.blocks > 1
    fakes = (counts / n - keep * released.shares[start : start + cells]) / (1 - keep)
    law = keep * np.eye(cells) + (1 - keep) * fakes
    found = estimate.likeliest("a0", "a3", gap=1e-6)
    shares = found.values.reshape(-1)
    slopes = law @ (counts / (shares @ law))
    assert slopes.max() <= n + 1e-5
    np.testing.assert_allclose(shares * (n - slopes), 0, atol=1e-3)
    last_two = msgspec.structs.replace(variant, release="last-two")
    unknown = last_two.estimate(run(last_two, 120, parties=30).published)
    with pytest.raises(NoLikelihoodError, match="how often"):
        unknown.table("a0", "a3", projection="em")


def test_a_pooled_interval_that_is_narrow_enough_ends_the_survey() -> None:
    variant = msgspec.structs.replace(
        UNIFORM, stopping="pooled", width=0.9, max_records=20, block=2
    )
    outcome = recorded(variant, answers(SURVEY, 200), parties=10)
    result = kernel_result(outcome)
    assert result.blocks < 5
    assert result.answered == 40 * result.blocks
    assert set(outcome.endings.values()) == {DONE}


@pytest.mark.parametrize("stopping", ["printed", "widened"])
def test_two_blocks_that_differ_little_end_the_survey(stopping: str) -> None:
    # At p near 1 neighbouring blocks agree but for sampling, which both intervals allow for.
    variant = RRBA(survey=SURVEY, k=1, p=0.95, stopping=stopping, block=2, max_records=100)
    outcome = run(variant, 2000, parties=20)
    assert 2 <= kernel_result(outcome).blocks < 10
    surer = msgspec.structs.replace(variant, alpha=1 - 1e-9)
    assert kernel_result(run(surer, 2000, parties=20)).blocks == 10


@pytest.mark.parametrize(("tail", "blocks"), [("keep", 3), ("drop", 2)])
def test_a_last_block_that_is_not_full(tail: str, blocks: int) -> None:
    variant = msgspec.structs.replace(UNIFORM, tail=tail)
    assert kernel_result(run(variant, 7)).blocks == blocks


def test_who_vanishes_is_not_counted_and_the_others_go_on() -> None:
    charter = charter_of(ADAPTIVE, parties=10)

    crash = vanishing({ONE: "Answers", PartyId("party-6"): "Answers"})
    outcome = everywhere(charter, holdings_of(charter, answers(WIDE, 10)), fate=crash)
    result = kernel_result(outcome)
    assert (result.answered, result.blocks) == (8, 3)
    assert int(result.counts.sum()) == 8
    assert outcome.follows()


def answered(variant: RRBA, question: Question) -> list[str]:
    machine = machine_of(charter_of(variant), ONE)
    machine.start(0.0)
    machine.receive(envelope(machine.charter, AGGREGATOR, 0, question, to=ONE), 0.0)
    assert machine.failure is None or isinstance(machine.failure, PrivacyError)
    return [item.kind for item in words_sent(machine)]


def test_a_table_with_less_than_the_mix_is_declined() -> None:
    plan = ADAPTIVE.plan
    groups = plan.asked(charter_of(ADAPTIVE).session, ONE, 1)
    numbers = np.array(groups, np.uint8)
    good = integer_weights(plan.cells, plan.cells.uniform())[plan.places(groups)]

    def asked(weights: NDArray[np.uint64], about: NDArray[np.uint8] = numbers) -> list[str]:
        return answered(ADAPTIVE, Question(0, False, about, weights))

    assert asked(good) == ["Answers"]
    low = good.copy()
    low[0], low[1] = low[0] // np.uint64(4), low[1] + (low[0] - low[0] // np.uint64(4))
    assert asked(low) == ["Declined"]
    odd = good.copy()
    odd[0] += np.uint64(1)
    assert asked(odd) == ["Declined"]
    assert asked(good[:-1]) == ["Declined"]
    foreign = [g for g in range(len(plan.group_names)) if g not in groups]
    others = integer_weights(plan.cells, plan.cells.uniform())[plan.places(tuple(foreign))]
    assert asked(others, np.array(foreign, np.uint8)) == ["Declined"]
    assert asked(good, numbers[::-1].copy()) == ["Declined"]
    assert answered(ADAPTIVE, Question(0, True, numbers[:0], good[:0])) == []


def test_answers_that_the_lots_do_not_allow_are_not_counted() -> None:
    charter = charter_of(ADAPTIVE, parties=4)
    plan = ADAPTIVE.plan
    (lot,) = plan.lots(charter.session, ONE, 1).tolist()
    foreign = next(g for g in range(len(plan.group_names)) if g not in plan.views[lot])
    own = plan.views[lot][0]
    size = int(plan.cells.sizes[own])

    def fits(rows: list[int], groups: list[int], codes: list[int]) -> bool:
        return plan.fits(
            charter.session,
            ONE,
            np.array(rows),
            np.array(groups),
            np.array(codes, np.uint8),
            most=1,
        )

    assert fits([0], [own], [size - 1])
    assert not fits([0], [foreign], [0])
    assert not fits([0], [own], [size])
    assert not fits([0, 0], [own, own], [0, 0])
    assert not fits([1], [own], [0])
    assert not fits([], [], [])


def test_too_few_answers_publish_nothing() -> None:
    variant = msgspec.structs.replace(UNIFORM, quorum=3)
    charter = charter_of(variant, parties=4)

    crash = fate_of(Fate(Verdict.CRASH), kind="Answers")
    with pytest.raises(ProtocolError, match="0 parties sent valid answers, at least 3 needed"):
        assert rehearsed(charter, holdings_of(charter, answers(SURVEY, 4)), fate=crash).published


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"p": None}, "one of them"),
        ({"epsilon": 1.0}, "one of them"),
        ({"k": 6}, "k = 6: expected 1 to 5 attributes"),
        ({"mix": 0.0}, "or allow_unbounded"),
        ({"mix": 0.0, "allow_unbounded": True, "p": None, "epsilon": 1.0}, "within epsilon"),
        ({"quorum": 0}, "at least 1"),
    ],
)
def test_parameters_that_do_not_fit(change: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        msgspec.structs.replace(ADAPTIVE, **change)


def test_a_zero_cell_costs_infinity_when_it_is_asked_for() -> None:
    variant = msgspec.structs.replace(ADAPTIVE, mix=0.0, allow_unbounded=True, block=2)
    outcome = run(variant, 10)
    ledger = outcome.ledger(AGGREGATOR)
    assert ledger.record_epsilon == math.inf
    assert "can rule an answer out" in ledger.unbounded[0]
