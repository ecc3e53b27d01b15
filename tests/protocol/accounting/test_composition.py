"""The accountant at a delta: against closed forms, its laws, and what it refuses."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import (
    Composed,
    Derived,
    ExactAccountant,
    ExactCounts,
    KeepElseTable,
    KeepUniform,
    Masked,
    MatrixRandomizer,
    OneOf,
    Plain,
    PrivacyEvent,
    Public,
    Randomized,
    Randomizer,
    UnsupportedEventError,
    exact_epsilon,
)
from protocol.accounting.accountants import PureAccountant
from protocol.accounting.composition import ASSUMPTION, MOST_ALTERNATIVES, Composition
from tests.enumeration import matrix
from tests.protocol.accounting.test_losses import SKEWED, keep, losses


def draw(randomizer: Randomizer, *names: str) -> Randomized:
    return Randomized(randomizer, names or ("a",))


@pytest.mark.parametrize("delta", [0.0, 1e-12, 1e-6, 1e-3, 0.05])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("size", [2, 3, 16, 1000])
def test_one_draw_in_closed_form(size: int, epsilon: float, delta: float) -> None:
    randomizer = keep(size, epsilon)
    p, q = randomizer.diagonal, randomizer.off_diagonal
    expected = 0.0 if p - delta <= q else math.log((p - delta) / q)
    found = exact_epsilon([draw(randomizer)], delta)
    assert found.epsilon == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert found.tight


@pytest.mark.parametrize(
    ("event", "private"),
    [
        (Public(), True),
        (Derived(), True),
        (Composed(()), True),
        (Plain(("a",)), False),
        (Masked(ExactCounts(("a",))), False),
        (ExactCounts(("a",)), False),
        (Composed((Public(), Plain(("a",)))), False),
        (OneOf((Public(), Plain(("a",)))), False),
        (draw(MatrixRandomizer.from_probabilities([[0.5, 0.5], [1 / 3, 2 / 3]])), True),
        (draw(matrix([[0.5, 0.5, 0], [0, 0.5, 0.5], [0.5, 0, 0.5]])), False),
        (draw(KeepElseTable(threshold=2**63, weights=(2**63, 2**63, 0))), False),
    ],
)
def test_what_is_not_private_is_infinite(event: PrivacyEvent, private: bool) -> None:
    found = exact_epsilon([event, draw(keep(3, 1.0), "b")], 1e-6)
    assert math.isinf(found.epsilon) != private
    # Records that differ elsewhere alone are as safe as ever.
    assert exact_epsilon([event], 1e-6, "b").epsilon == 0.0


class Novel(PrivacyEvent, frozen=True):
    """An event that no accountant knows."""


@pytest.mark.parametrize("event", [Novel(), Composed((Novel(),)), OneOf((Public(), Novel()))])
def test_unknown_events_are_refused(event: PrivacyEvent) -> None:
    for events in ([event], [Plain(("a",)), event]):
        with pytest.raises(UnsupportedEventError, match="Novel"):
            exact_epsilon(events, 1e-6)


@pytest.mark.parametrize("delta", [-1e-9, 1.0, math.nan, math.inf])
def test_bad_deltas(delta: float) -> None:
    with pytest.raises(ValueError, match="delta"):
        ExactAccountant(delta)


def test_a_figure_says_what_it_rests_on() -> None:
    exact = exact_epsilon([draw(keep(3, 1.0))] * 2, 1e-6)
    assert exact == Composition(
        epsilon=exact.epsilon,
        delta=1e-6,
        relation="any two records of one respondent (replace one)",
        assumption=ASSUMPTION,
        method="exact: convolution of the privacy losses",
        tight=True,
    )
    bound = exact_epsilon([draw(SKEWED)], 1e-6)
    assert not bound.tight
    assert bound.method.startswith("upper bound: ")
    assert "total variation" in bound.method
    sizes = [*range(2, 20)]
    rounded = exact_epsilon([draw(KeepUniform.with_keep(k, p=0.3)) for k in sizes], 1e-6)
    assert not rounded.tight
    assert "grid" in rounded.method
    assert exact_epsilon([draw(SKEWED)], 0.0).method == "sum of the pure epsilons"


def test_how_messages_are_cut_does_not_matter() -> None:
    one, two, three = draw(keep(3, 1.0), "a"), draw(keep(2, 0.5), "b"), draw(SKEWED, "c")
    accountant = ExactAccountant(1e-5)
    whole = accountant.judge([one, two, three, one])
    assert accountant.judge([Composed((one, two)), Public(), Composed((three, one))]) == whole
    assert accountant.judge(iter([three, one, two, one])) == whole
    assert accountant.judge([one, one], "b").epsilon == 0.0
    assert accountant.judge([one, two, three, one], "a") == accountant.judge([one, one])


def test_the_worst_of_alternatives() -> None:
    """Neither has the larger delta everywhere: at each delta the larger epsilon counts."""
    strong, often = draw(keep(2, 3.0)), Composed((draw(keep(2, 0.8)),) * 6)
    either = OneOf((strong, often))
    winners = set()
    for delta in (1e-9, 1e-3, 0.05, 0.3):
        parts = [exact_epsilon([event], delta).epsilon for event in (strong, often)]
        assert exact_epsilon([either], delta).epsilon == max(parts)
        winners.add(parts.index(max(parts)))
        ways: list[list[PrivacyEvent]] = [[strong, strong], [strong, often], [often, often]]
        most = max(exact_epsilon(way, delta).epsilon for way in ways)
        assert exact_epsilon([either, either], delta).epsilon == most
    assert winners == {0, 1}


def test_very_many_alternatives_have_one_bound() -> None:
    tables = [
        KeepElseTable.with_table(p=0.3, table=[1 + i % 9, 2 + i % 7, 3 + i % 5], mix=0.2)
        for i in range(MOST_ALTERNATIVES + 40)
    ]
    several = [
        Composed((draw(table), draw(keep(2 + i % 3, 1.0)))) for i, table in enumerate(tables)
    ]
    found = exact_epsilon([OneOf(tuple(several))], 1e-4)
    parts = [exact_epsilon([event], 1e-4).epsilon for event in several]
    assert max(parts) <= found.epsilon <= max(parts) * 1.2
    assert not found.tight
    pairs = [OneOf((draw(keep(2, 0.1 * i)), draw(keep(9, 0.12 * i)))) for i in range(1, 8)]
    together = exact_epsilon(pairs, 1e-4).epsilon
    for choice in itertools.product((0, 1), repeat=len(pairs)):
        chosen = [pair.events[place] for pair, place in zip(pairs, choice, strict=True)]
        assert exact_epsilon(chosen, 1e-4).epsilon <= together


keeps = st.builds(
    lambda size, epsilon: KeepUniform.with_epsilon(size, epsilon=epsilon),
    st.integers(2, 50),
    st.floats(0.01, 4.0),
)


@settings(deadline=None, max_examples=60)
@given(drawn=st.lists(keeps, max_size=6), more=keeps, delta=st.floats(1e-12, 0.3))
def test_laws_of_accountants(drawn: list[KeepUniform], more: KeepUniform, delta: float) -> None:
    events = [draw(each) for each in drawn]
    found = exact_epsilon(events, delta).epsilon
    pure = PureAccountant().judge(Composed(tuple(events))).record
    assert found <= pure * (1 + 1e-12)
    assert exact_epsilon(events, 0.0).epsilon == pytest.approx(pure, rel=1e-12)
    assert exact_epsilon(events[::-1], delta).epsilon == pytest.approx(found, rel=1e-9, abs=1e-9)
    assert exact_epsilon([*events, draw(more)], delta).epsilon >= found * (1 - 1e-9)
    assert exact_epsilon(events, delta / 2).epsilon >= found * (1 - 1e-9)
    if drawn:
        composed = losses(*drawn)
        assert composed.delta(found) <= delta * (1 + 1e-9)
