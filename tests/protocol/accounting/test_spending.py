"""What a party's messages cost by what it consents to, and when they cost too much."""

from __future__ import annotations

import math

import pytest

from protocol import (
    Coins,
    Composed,
    ExactCounts,
    KeepUniform,
    Masked,
    Merged,
    PrivacyError,
    PrivacyEvent,
    Public,
    Randomized,
    exact_epsilon,
)
from protocol.accounting.accountants import PureAccountant
from protocol.accounting.spending import (
    DELTA,
    Cost,
    Spending,
    assumed,
    delta_left,
    event_cost,
    is_within,
    largest,
    together,
)

KEEP = KeepUniform.with_keep(2, p=0.5)
DRAW = Randomized(KEEP, ("a",))
COINS = Coins(100, 2**15, (("a",), ("b",)))
SUM = Masked(COINS)


def figure(honest: int, delta: float = DELTA) -> float:
    return exact_epsilon([Merged(COINS, honest)], delta).epsilon


def spending(budget: float | None, honest: int = 0, delta: float = DELTA) -> Spending:
    return Spending(PureAccountant(), budget=budget, honest=honest, delta=delta)


@pytest.mark.parametrize(
    ("event", "honest", "expected"),
    [
        (DRAW, 0, Cost(KEEP.epsilon)),
        # What holds whoever conspires takes no delta.
        (Masked(DRAW), 9, Cost(KEEP.epsilon)),
        (SUM, 0, Cost(math.inf)),
        (SUM, 9, Cost(figure(9), DELTA, (9,))),
        (Composed((Public(), SUM)), 9, Cost(figure(9), DELTA, (9,))),
        # One's own coins do not need anybody.
        (SUM, 1, Cost(figure(1), DELTA)),
        # Coins without masks are seen alone, whoever is honest.
        (COINS, 9, Cost(figure(1), DELTA)),
        (Masked(ExactCounts(("a",))), 9, Cost(math.inf)),
        (Masked(Coins(1, 1, (("a",),))), 2, Cost(math.inf)),
    ],
)
def test_the_cost_of_a_message(event: PrivacyEvent, honest: int, expected: Cost) -> None:
    assert event_cost(event, honest=honest, delta=DELTA) == expected


def test_fewer_honest_ones_and_smaller_deltas_cost_more() -> None:
    costs = [event_cost(SUM, honest=honest, delta=DELTA).epsilon for honest in (50, 9, 8, 1)]
    assert costs == sorted(costs)
    assert len(set(costs)) == 4
    assert event_cost(SUM, honest=9, delta=1e-9).epsilon == figure(9, 1e-9) > figure(9)


def test_figures_are_added_with_all_that_they_rest_on() -> None:
    costs = (Cost(1.0, 1e-6, (9,)), Cost(2.0), Cost(0.5, 2e-6, (13_000,)))
    assert together(costs) == Cost(3.5, 3e-6, (9, 13_000))
    assert largest(costs) == Cost(2.0, 2e-6, (9, 13_000))
    assert str(costs[0]) == "(epsilon 1, delta 1e-06) if at least 9 of those in the sum are honest"
    assert assumed((9, 13_000)).endswith(
        "so many are honest as was consented to for it: 9 or 13,000"
    )
    assert str(costs[1]) == "epsilon 2"


def test_sums_of_deltas_are_rounded() -> None:
    spent = 0.0
    for _ in range(7):
        spent += 1e-6
    assert is_within(spent, 7e-6)
    assert not is_within(spent + 1e-9, 7e-6)
    assert delta_left(7e-6, spent) == 0.0
    assert delta_left(math.inf, spent) == math.inf
    assert delta_left(1.5e-6, 1e-6) == pytest.approx(5e-7)


def test_without_a_consent_coins_fit_no_budget() -> None:
    one = spending(100.0)
    with pytest.raises(PrivacyError, match="'Upload' costs inf per respondent; 100 of 100 is left"):
        one.charge(SUM, "Upload")
    assert one.cost == Cost()
    unlimited = spending(None)
    unlimited.charge(SUM, "Upload")
    assert unlimited.cost == Cost(math.inf)


def test_messages_of_a_session_add_up() -> None:
    one = spending(KEEP.epsilon + 2 * figure(9), honest=9, delta=2e-6)
    for event in (DRAW, SUM, SUM):
        one.charge(event, "Upload")
    assert one.cost == Cost(pytest.approx(KEEP.epsilon + 2 * figure(9)), 2e-6, (9,))
    assert math.isinf(one.loss.record)
    before = one.cost
    with pytest.raises(PrivacyError, match="a delta of 1e-06 per respondent; 0 of 2e-06 is left"):
        one.charge(SUM, "Upload")
    with pytest.raises(PrivacyError, match="per respondent; 0 of"):
        one.charge(DRAW, "Report")
    assert one.cost == before


def test_a_budget_is_held_against_the_figure_that_was_consented_to() -> None:
    spending(figure(9), honest=9).afford(SUM)
    tight = spending(figure(9), honest=8)
    with pytest.raises(PrivacyError) as refused:
        tight.afford(SUM)
    assert str(refused.value) == (
        f"what is asked for costs {figure(8):.6g} at delta 1e-06 per respondent if at least 8 of "
        f"those in the sum are honest; {figure(9):.6g} of {figure(9):.6g} is left"
    )


def test_less_delta_than_usual_is_what_a_sum_is_judged_at() -> None:
    one = spending(None, honest=9, delta=1e-9)
    one.charge(SUM, "Upload")
    assert one.cost == Cost(figure(9, 1e-9), 1e-9, (9,))
    with pytest.raises(PrivacyError, match="a delta of 1e-09 per respondent; 0 of 1e-09 is left"):
        one.charge(SUM, "Upload")
    with pytest.raises(PrivacyError, match="a delta of 1e-06 per respondent; 0 of 0 is left"):
        spending(None, honest=9, delta=0.0).afford(SUM)
    # Without a budget exact counts are summed, among as many as are demanded.
    spending(None, honest=9, delta=0.0).afford(Masked(ExactCounts(("a",))))
