"""RR-Independent and RR-Joint as protocols: consent, budget, parameters, what is published."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import (
    AGGREGATOR,
    Attribute,
    Block,
    Derived,
    KeepUniform,
    LocalProtocolError,
    MatrixRandomizer,
    PartyId,
    Plain,
    PrivacyError,
    Public,
    QuorumError,
    SecureSum,
    Seen,
    Survey,
    SurveyError,
    Variant,
)
from protocol.messages import Declined
from protocol.session.fates import Fate, Verdict
from protocol.session.variant import build, plain_parameters
from protocol.variants import (
    BUILT_IN,
    PairCounts,
    PairRR,
    RRClusters,
    RRIndependent,
    RRIndJoint,
    RRJoint,
    SecureSumVariant,
)
from protocol.variants.reports.reports import Ask, Blockwise, Pooled, Report, consent
from tests.every_variant import examples
from tests.protocol.sessions import (
    SURVEY,
    Word,
    answers,
    charter_of,
    envelope,
    everywhere,
    holdings_of,
    machine_of,
    rehearsed,
    words_sent,
)
from tests.recorded.runs import fate_of, recorded

ONE = PartyId("party-1")
BOTH = (RRIndependent, RRJoint)
RR = type[RRIndependent] | type[RRJoint]


def asked(p: float, variant: Blockwise) -> tuple[Block, ...]:
    """The variant's blocks with another keep probability."""
    return tuple(
        Block(block.attributes, KeepUniform.with_keep(block.randomizer.size, p=p))
        for block in variant.blocks
    )


@pytest.mark.parametrize("cls", BOTH)
@settings(deadline=None, max_examples=50)
@given(sizes=st.lists(st.integers(2, 12), min_size=1, max_size=6), p=st.floats(0.01, 0.99))
def test_epsilon(cls: RR, sizes: list[int], p: float) -> None:
    survey = Survey(
        "any",
        tuple(
            Attribute(name=f"a{i}", categories=tuple(map(str, range(size))))
            for i, size in enumerate(sizes)
        ),
    )
    domains = sizes if cls is RRIndependent else [math.prod(sizes)]
    expected = math.fsum(math.log1p(size * p / (1 - p)) for size in domains)
    (claim,) = cls.with_keep(survey, p).claims()
    assert claim.epsilon == pytest.approx(expected, abs=1e-9)
    (claim,) = cls.with_epsilon(survey, expected).claims()
    assert claim.epsilon == pytest.approx(expected, abs=1e-9)
    assert claim.epsilon is not None
    assert claim.epsilon <= expected + 1e-12


def matrices() -> RRIndependent:
    return RRIndependent(
        survey=SURVEY,
        randomizers=(
            MatrixRandomizer.from_probabilities([[0.8, 0.2], [0.3, 0.7]]),
            KeepUniform.with_keep(3, p=0.5),
        ),
        quorum=2,
        patience=None,
        max_records=7,
    )


EVERY = [*((example.name, example.variant) for example in examples()), ("matrices", matrices())]


@pytest.mark.parametrize(("name", "variant"), EVERY, ids=[name for name, _ in EVERY])
def test_every_variant_is_rebuilt_and_knows_its_results(name: str, variant: Variant) -> None:
    header = msgspec.msgpack.decode(
        msgspec.msgpack.encode([plain_parameters(variant), msgspec.to_builtins(variant.survey)])
    )
    assert build(type(variant), parameters=header[0], survey=header[1]) == variant
    assert BUILT_IN[variant.name] is type(variant)
    with pytest.raises(LocalProtocolError, match="'Declined' is not a result of"):
        variant.estimate(Declined("terms"))


@pytest.mark.parametrize(
    "variant",
    [
        RRIndJoint(survey=SURVEY, p=0.7, clusters=(("drinks", "smokes"),)),
        SecureSumVariant(survey=SURVEY, sums=SecureSum(profile="literal", corrupt=0.25)),
        PairCounts(survey=SURVEY, sums=SecureSum(corrupt=0.1, dropped=0.2), everyone=True),
        PairRR.with_keep(SURVEY, 0.7),
        RRClusters(survey=SURVEY, p=0.7, tv=6, td=0.1, dependence="pair-rr"),
    ],
    ids=lambda variant: variant.name,
)
def test_parameters_of_sums_and_clusters_round_trip(variant: Variant) -> None:
    header = msgspec.msgpack.decode(
        msgspec.msgpack.encode([plain_parameters(variant), msgspec.to_builtins(variant.survey)])
    )
    assert build(type(variant), parameters=header[0], survey=header[1]) == variant
    assert BUILT_IN[variant.name] is type(variant)


@pytest.mark.parametrize(
    "change",
    [
        {"extra": 1},
        {"randomizer": None},
        {"quorum": "two"},
        {"quorum": 0},
        {"max_records": 0},
        {"patience": -1.0},
        {"patience": math.nan},
        {"randomizer": {"type": "keep", "size": 6, "threshold": 0}},
        {"randomizer": {"type": "keep", "size": 5, "threshold": 2**63}},
        {"randomizer": {"type": "none"}},
    ],
    ids=str,
)
def test_headers_of_no_variant_are_refused(change: dict[str, object]) -> None:
    variant = RRJoint.with_keep(SURVEY, 0.7)
    parameters = {**plain_parameters(variant), **change}
    with pytest.raises((SurveyError, ValueError), match=r"fit|cells"):
        build(RRJoint, parameters=parameters, survey=msgspec.to_builtins(SURVEY))


def test_one_randomizer_per_attribute() -> None:
    with pytest.raises(ValueError, match="1 randomizers for 2 attributes"):
        RRIndependent(survey=SURVEY, randomizers=(KeepUniform.with_keep(2, p=0.5),))


@pytest.mark.parametrize("cls", BOTH)
def test_a_party_answers_what_it_agreed_to_and_what_is_milder(cls: RR) -> None:
    variant = cls.with_keep(SURVEY, 0.7)
    consent(SURVEY, variant.blocks, Ask(SURVEY.digest, variant.blocks))
    consent(SURVEY, variant.blocks, Ask(SURVEY.digest, asked(0.3, variant)))


@pytest.mark.parametrize("cls", BOTH)
def test_a_party_refuses_anything_else(cls: RR) -> None:
    variant = cls.with_keep(SURVEY, 0.7)
    other = (RRJoint if cls is RRIndependent else RRIndependent).with_keep(SURVEY, 0.1)
    first = variant.blocks[0]
    harsher_on_one = (*asked(0.01, variant)[:-1], asked(0.71, variant)[-1])
    exact = MatrixRandomizer.from_probabilities([[1 / 2, 1 / 2, 0], [0, 0.5, 0.5], [0.5, 0, 0.5]])
    refused = {
        "another survey": Ask(bytes(32), variant.blocks),
        "on ": Ask(SURVEY.digest, harsher_on_one),
        "agreed to": Ask(SURVEY.digest, asked(0.700001, variant)),
        "together": Ask(SURVEY.digest, other.blocks),
        "other attributes": Ask(SURVEY.digest, (*variant.blocks, first)),
        "other attributes ": Ask(SURVEY.digest, ()),
        "do not fit": Ask(
            SURVEY.digest,
            tuple(Block(b.attributes, KeepUniform.with_keep(50, p=0.1)) for b in variant.blocks),
        ),
    }
    if cls is RRIndependent:
        refused["epsilon inf"] = Ask(
            SURVEY.digest, (first, Block(variant.blocks[1].attributes, exact))
        )
    for why, ask in refused.items():
        if why == "on " and cls is RRJoint:
            continue
        with pytest.raises(PrivacyError, match=why.strip()):
            consent(SURVEY, variant.blocks, ask)


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize(("p", "kind"), [(0.7, "Report"), (0.2, "Report"), (0.8, "Declined")])
def test_a_party_at_work(cls: RR, p: float, kind: str) -> None:
    variant = cls.with_keep(SURVEY, 0.7)
    charter = charter_of(variant)
    machine = machine_of(charter, ONE)
    machine.start(0.0)
    ask = Ask(SURVEY.digest, asked(p, variant))
    machine.receive(envelope(charter, AGGREGATOR, 0, ask, to=ONE), 0.0)
    (sent,) = words_sent(machine)
    assert (sent.recipient, sent.kind) == (AGGREGATOR, kind)
    assert machine.finished
    if kind == "Report":
        expected = math.fsum(b.randomizer.epsilon for b in ask.blocks)
        assert machine.spent.record == expected
    else:
        assert machine.spent.record == 0.0
        assert isinstance(machine.failure, PrivacyError)


@pytest.mark.parametrize("cls", BOTH)
def test_the_budget_holds_beside_the_parameters(cls: RR) -> None:
    variant = cls.with_keep(SURVEY, 0.7)
    charter = charter_of(variant)
    cost = math.fsum(b.randomizer.epsilon for b in variant.blocks)
    holdings = holdings_of(charter, answers(SURVEY, 3))
    run = rehearsed(charter, holdings, budget=cost)
    assert isinstance(run.result, Pooled)
    with pytest.raises(QuorumError):
        assert rehearsed(charter, holdings, budget=math.nextafter(cost, 0)).published


@pytest.mark.parametrize("cls", BOTH)
def test_what_messages_reveal(cls: RR) -> None:
    variant = cls.with_keep(SURVEY, 0.7)
    report = Report(np.zeros((1, len(variant.blocks)), np.uint8))
    pooled = Pooled(np.zeros((1, 2), np.uint8), np.ones(1, np.uint32))
    seen = Seen()
    assert variant.reveals(Ask(SURVEY.digest, variant.blocks), seen) == Public()
    assert variant.reveals(pooled, seen) == Derived()
    assert variant.reveals(report, seen) == Plain(SURVEY.names)
    assert variant.reveals(Word("x"), seen) == Plain(SURVEY.names)
    seen.add(ONE, Ask(SURVEY.digest, variant.blocks))
    assert variant.reveals(report, seen) == Plain(SURVEY.names)
    seen.add(AGGREGATOR, Ask(SURVEY.digest, variant.blocks))
    assert variant.reveals(report, seen) == variant.report_event


@pytest.mark.parametrize("cls", BOTH)
def test_every_kind_has_an_event(cls: RR) -> None:
    variant = cls.with_keep(SURVEY, 0.7)
    kinds = {kind.message for kind in variant.kinds(3)}
    assert kinds == {Ask, Report, Pooled}


@pytest.mark.parametrize("cls", BOTH)
def test_almost_no_noise_gives_the_answers_back(cls: RR) -> None:
    variant = cls.with_keep(SURVEY, 1 - 2**-40)
    records = answers(SURVEY, 60)
    charter = charter_of(variant, parties=60)
    outcome = everywhere(charter, holdings_of(charter, records))
    estimate = variant.estimate(outcome.published)
    for names in (("smokes",), ("drinks",), ("smokes", "drinks"), ("drinks", "smokes")):
        values = estimate.table(*names).values
        assert np.allclose(values, records.distribution(names), atol=1e-9)


@pytest.mark.parametrize("cls", BOTH)
def test_pooled_reports_are_sorted_and_anonymous(cls: RR) -> None:
    result = recorded(cls.with_keep(SURVEY, 0.5), 40).published
    assert isinstance(result, Pooled)
    rows = [tuple(row) for row in result.codes.tolist()]
    assert rows == sorted(set(rows))
    assert int(result.counts.sum()) == 40


def test_too_few_parties_publish_nothing() -> None:
    variant = msgspec.structs.replace(RRJoint.with_keep(SURVEY, 0.5), quorum=3)
    charter = charter_of(variant)

    holdings = holdings_of(charter, answers(SURVEY, 3))
    with pytest.raises(QuorumError) as caught:
        assert rehearsed(charter, holdings, fate=fate_of(Fate(Verdict.CRASH), ONE)).published
    assert caught.value.missing == (ONE,)


def test_more_respondents_than_agreed_are_not_sent() -> None:
    charter = charter_of(RRJoint.with_keep(SURVEY, 0.5), parties=1)
    with pytest.raises(LocalProtocolError, match="cannot send 'Report'"):
        assert rehearsed(charter, {ONE: answers(SURVEY, 2)}).published
