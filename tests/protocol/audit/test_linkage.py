"""Linkage: whose messages can be put together, and what several reports on one answer give away."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import (
    AGGREGATOR,
    RECORD,
    Coalition,
    Composed,
    Derived,
    ExactCounts,
    KeepUniform,
    Masked,
    Me,
    Message,
    OneOf,
    PartyId,
    Plain,
    PrivacyEvent,
    Randomized,
    UnaryEncoding,
    judge_coalition,
)
from protocol.accounting.accountants import PureAccountant, total
from protocol.audit.ledger import Account, Ledger
from protocol.audit.linkage import Repeated, bound_on_guess, link
from protocol.audit.passed import Charge
from protocol.randomizers.guesses import MOST_ALIKE, MOST_UNLIKE
from protocol.variants import PairRR, RRClusters, RRIndependent, SecureSumVariant
from tests.protocol.sessions import SURVEY, Turn, Word, answers, charter_of, rehearsed, talk
from tests.recorded.runs import recorded

ONE, TWO = PartyId("party-1"), PartyId("party-2")
SMOKES = KeepUniform.with_keep(2, p=0.3)
DRINKS = KeepUniform.with_keep(3, p=0.6)
WEAKLY = KeepUniform.with_keep(3, p=0.2)


def enumerated(keeps: tuple[KeepUniform, ...]) -> float:
    """The largest likelihood of a category, over all reports one by one."""
    size = keeps[0].size
    whole = Fraction(0)
    for reports in product(range(size), repeat=len(keeps)):
        likely = []
        for category in range(size):
            other = [Fraction(2**64 - k.threshold, size * 2**64) for k in keeps]
            kept = [Fraction(k.threshold, 2**64) for k in keeps]
            likely.append(
                math.prod(
                    o + (report == category) * k
                    for o, k, report in zip(other, kept, reports, strict=True)
                )
            )
        whole += max(likely)
    return float(whole / size)


keeps = st.integers(1, 2**64 - 1)


def best_guess(randomizers: Sequence[KeepUniform]) -> float:
    first, *others = randomizers
    found = first.best_guess(*others)
    assert found is not None
    return found


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(st.integers(2, 4), st.lists(keeps, min_size=1, max_size=4))
def test_the_best_guess_from_different_randomizers(size: int, thresholds: list[int]) -> None:
    randomizers = tuple(KeepUniform(size, threshold) for threshold in thresholds)
    assert best_guess(randomizers) == enumerated(randomizers)


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(st.integers(2, 4), keeps, st.integers(1, 5))
def test_the_best_guess_from_one_randomizer(size: int, threshold: int, times: int) -> None:
    randomizers = (KeepUniform(size, threshold),) * times
    assert best_guess(randomizers) == enumerated(randomizers)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.integers(2, 30), keeps, st.integers(1, 20))
def test_the_bound_bounds_and_more_reports_tell_more(size: int, threshold: int, times: int) -> None:
    keep = KeepUniform(size, threshold)
    known = best_guess((keep,) * times)
    assert 1 / size <= known <= bound_on_guess(times * keep.epsilon, size) + 1e-12
    assert known <= best_guess((keep,) * (times + 1))


def test_one_report_is_guessed_as_often_as_it_is_true() -> None:
    for size in (2, 3, 1000):
        keep = KeepUniform.with_keep(size, p=0.4)
        assert best_guess((keep,)) == pytest.approx(keep.diagonal, rel=1e-15)
        assert bound_on_guess(keep.epsilon, size) == pytest.approx(keep.diagonal, rel=1e-12)


def test_many_reports_by_binomials() -> None:
    """Of two categories the one that was reported more often is right."""
    keep, m = KeepUniform.with_keep(2, p=0.2), 31
    likely = sum(
        math.comb(m, k) * keep.diagonal**k * keep.off_diagonal ** (m - k)
        for k in range(m // 2 + 1, m + 1)
    )
    assert best_guess((keep,) * m) == pytest.approx(likely, rel=1e-12)
    assert best_guess((keep,) * MOST_ALIKE) > 0.9


@pytest.mark.parametrize(
    "keeps",
    [(SMOKES, DRINKS), (SMOKES,) * (MOST_ALIKE + 1), (DRINKS, WEAKLY) * MOST_UNLIKE],
    ids=["sizes", "many", "unlike"],
)
def test_guesses_that_are_not_computed(keeps: tuple[KeepUniform, ...]) -> None:
    first, *others = keeps
    assert first.best_guess(*others) is None


def ledger_of(*events: PrivacyEvent) -> Ledger:
    """What somebody learned who heard one party say this."""
    accountant = PureAccountant()
    trail = tuple(
        Charge(i, "Report", event, accountant.judge(event)) for i, event in enumerate(events)
    )
    account = Account(ONE, total(charge.loss for charge in trail), trail)
    return Ledger(AGGREGATOR, {ONE: account}, SURVEY.names, SURVEY.sizes)


def repeated(*events: PrivacyEvent) -> dict[str, Repeated]:
    (group,) = link(ledger_of(*events)).groups
    return {found.attribute: found for found in group.repeated}


def about(keep: Any, *attributes: str) -> Randomized:
    return Randomized(keep, attributes)


def test_reports_on_one_attribute_add_up() -> None:
    found = repeated(about(DRINKS, "drinks"), about(DRINKS, "drinks"), about(SMOKES, "smokes"))
    assert list(found) == ["drinks"]
    drinks = found["drinks"]
    assert (drinks.times, drinks.exact, drinks.chance) == (2, True, 1 / 3)
    assert drinks.epsilon == pytest.approx(2 * DRINKS.epsilon, abs=1e-12)
    assert drinks.success == best_guess((DRINKS, DRINKS))


def test_the_order_of_reports_does_not_matter() -> None:
    forth = repeated(about(DRINKS, "drinks"), about(WEAKLY, "drinks"), about(DRINKS, "drinks"))
    back = repeated(about(WEAKLY, "drinks"), about(DRINKS, "drinks"), about(DRINKS, "drinks"))
    assert forth == back
    assert forth["drinks"].success == best_guess((WEAKLY, DRINKS, DRINKS))


@pytest.mark.parametrize(
    ("second", "times"),
    [
        (about(KeepUniform.with_keep(6, p=0.4), "smokes", "drinks"), 2),
        (about(UnaryEncoding.symmetrized(3, epsilon=1.0), "drinks"), 2),
        (Composed((about(DRINKS, "drinks"),) * MOST_ALIKE), MOST_ALIKE + 1),
    ],
    ids=["jointly", "another randomizer", "too many"],
)
def test_what_is_not_computed_is_bounded(second: PrivacyEvent, times: int) -> None:
    drinks = repeated(about(DRINKS, "drinks"), second)["drinks"]
    assert (drinks.times, drinks.exact) == (times, False)
    assert drinks.success == bound_on_guess(drinks.epsilon, 3)
    assert "epsilon" in drinks.method


def test_of_one_of_several_the_dearest_counts() -> None:
    one_of = OneOf((about(SMOKES, "smokes"), about(DRINKS, "drinks"), about(WEAKLY, "drinks")))
    found = repeated(one_of, one_of)
    assert found["smokes"].success == best_guess((SMOKES, SMOKES))
    assert found["drinks"].success == best_guess((DRINKS, DRINKS))


@pytest.mark.parametrize("plain", [Plain(("drinks",)), ExactCounts(("drinks",))])
def test_an_answer_itself_leaves_nothing_to_guess(plain: PrivacyEvent) -> None:
    drinks = repeated(about(DRINKS, "drinks"), plain)["drinks"]
    assert (drinks.success, drinks.exact, drinks.epsilon) == (1.0, True, math.inf)


def test_what_tells_nothing_of_an_attribute_is_no_report_on_it() -> None:
    assert repeated(Masked(ExactCounts(("drinks",))), about(DRINKS, "drinks"), Derived()) == {}


def groups_of(variant: Any, observer: Any = AGGREGATOR) -> list[tuple[int, list[str], list[str]]]:
    run = recorded(variant, 7)
    coalition = observer if isinstance(observer, Coalition) else Coalition((observer,))
    linkage = link(judge_coalition(run.charter, run.entries, coalition).ledger)
    return [(len(g.parties), list(g.linked), list(g.unlinked)) for g in linkage.groups]


def test_who_can_link_what_in_a_run() -> None:
    clusters = RRClusters(survey=SURVEY, p=0.6, tv=50, td=0.1, dependence="secure-sum")
    everybody_else = Coalition((AGGREGATOR, *(PartyId(f"party-{i}") for i in range(2, 8))))
    assert groups_of(RRIndependent.with_keep(SURVEY, 0.5)) == [(7, ["Report"], [])]
    assert groups_of(SecureSumVariant(survey=SURVEY)) == [(7, [], ["Upload"])]
    assert groups_of(PairRR.with_keep(SURVEY, 0.5), RECORD) == [(7, [], ["Upload"])]
    assert groups_of(clusters) == [(7, ["Report"], ["Upload"])]
    assert groups_of(clusters, ONE) == [(6, ["Report"], ["Upload"])]
    assert groups_of(clusters, everybody_else) == [(1, ["Upload", "Report"], [])]


def test_parties_that_said_more_stand_apart() -> None:
    async def often(me: Me) -> None:
        for round_ in range(3 if me.id == TWO else 1):
            await me.send(AGGREGATOR, Turn(round_, "x"))

    async def publish(me: Me) -> Message:
        await me.gather(Turn, me.roster.parties, round=0)
        return Word("done")

    event = about(SMOKES, "smokes")
    charter = charter_of(talk(party=often, aggregator=publish, event=event), 5)
    outcome = rehearsed(charter, {name: answers(SURVEY, 1) for name in charter.roster.parties})
    many, alone = link(outcome.ledger(AGGREGATOR)).groups
    assert (len(many.parties), many.linked, many.repeated) == (4, ("Turn",), ())
    assert (alone.parties, alone.linked) == ((TWO,), ("Turn",) * 3)
    (smokes,) = alone.repeated
    assert (smokes.times, smokes.success) == (3, best_guess((SMOKES,) * 3))
