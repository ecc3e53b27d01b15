"""The second opinion: another library, given the same pairs, comes to the same figures."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import pytest

from protocol import (
    Coins,
    Composed,
    ExactAccountant,
    KeepElseTable,
    KeepUniform,
    Merged,
    OneOf,
    Plain,
    PrivacyEvent,
    PrivKVM,
    Public,
    Randomized,
    UnaryEncoding,
    exact_epsilon,
)
from protocol.accounting.pld import INTERVAL, Opinion, opinion
from tests.tiers import paired

pytest.importorskip("dp_accounting")


def keep(size: int, epsilon: float, *names: str) -> Randomized:
    return Randomized(KeepUniform.with_epsilon(size, epsilon=epsilon), names or ("a",))


TABLE = Randomized(KeepElseTable.with_table(p=0.3, table=[4.0, 2.0, 1.0], mix=0.3), ("a",))
MANY = [Randomized(KeepUniform.with_keep(size, p=0.2), ("a",)) for size in range(2, 20)]
CASES: dict[str, list[PrivacyEvent]] = {
    "one": [keep(5, 0.77)],
    "ten": [keep(16, 1.00003)] * 10,
    "binary": [keep(2, 0.3)] * 40,
    "mixed": [keep(9, 0.8), keep(3, 0.51), keep(2, 1.3), keep(6, 0.41)] * 3,
    "others": [
        TABLE,
        Randomized(UnaryEncoding.symmetrized(4, epsilon=0.9), ("b",)),
        Randomized(PrivKVM.with_budget(4, epsilon=1.3), ("c",)),
    ],
    "alternatives": [OneOf((keep(2, 1.7), Composed((keep(9, 0.6),) * 5))), keep(3, 0.4)],
    "grid": [*MANY, *MANY],
}


def second_of(
    events: Sequence[PrivacyEvent], delta: float, attribute: str | None = None
) -> Opinion:
    """What the library says of one respondent's events."""
    return opinion(ExactAccountant(delta).pairs(events, attribute), delta)


@pytest.mark.parametrize(("name", "delta"), paired([*CASES], [1e-3, 1e-6, 1e-9]))
def test_both_agree_within_the_interval(name: str, delta: float) -> None:
    exact = exact_epsilon(CASES[name], delta).epsilon
    second = second_of(CASES[name], delta)
    assert second.interval == (pytest.approx(3.3e-4, abs=1e-5) if name == "grid" else INTERVAL)
    # The library gives up 1e-15 for tails, besides.
    assert second.lower - 1e-5 <= exact <= second.epsilon + 1e-5
    assert second.epsilon - second.lower <= 41 * second.interval


@pytest.mark.parametrize(
    "events",
    [
        [Merged(Coins(1, 2**15, (("a",),) * 6), 858)],
        [Merged(Coins(1, 2000, (("a",),) * 2), 700), keep(3, 0.2)],
        [Merged(keep(4, 1.2), 60)] * 4,
        [Coins(300, 9000, (("a",),) * 3)],
    ],
)
def test_both_agree_on_sums(events: list[PrivacyEvent]) -> None:
    """Cells of coins by the library's rounding and scipy's law."""
    for delta in (1e-3, 1e-6):
        exact, second = exact_epsilon(events, delta).epsilon, second_of(events, delta)
        assert second.lower <= exact <= second.epsilon * 1.001
        assert second.epsilon - second.lower < 0.01 * exact


def test_many_draws_have_wider_cells() -> None:
    events = [keep(16, 1.0)] * 10_000
    exact, second = exact_epsilon(events, 1e-6).epsilon, second_of(events, 1e-6)
    assert second.interval > INTERVAL
    assert second.lower < exact < second.epsilon
    assert second.epsilon - second.lower < 0.02 * exact


def test_what_is_nothing_and_what_is_not_private() -> None:
    nothing = second_of([Public()], 1e-6)
    assert nothing == Opinion(epsilon=0.0, lower=0.0, delta=1e-6, interval=0.0)
    assert second_of([keep(3, 1.0), Plain(("b",))], 1e-6).epsilon == math.inf
    alone = second_of([keep(3, 1.0), Plain(("b",))], 1e-6, "a")
    assert alone.epsilon == pytest.approx(1.0, abs=1e-3)


def test_it_is_independent_of_the_exact_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong convolution here would not be confirmed there."""
    events = [keep(16, 1.0)] * 10
    monkeypatch.setattr("protocol.accounting.losses.power", lambda *_: 1 / 0)
    assert second_of(events, 1e-6).epsilon == pytest.approx(7.9097, abs=1e-3)
    with pytest.raises(ZeroDivisionError):
        exact_epsilon(events, 1e-6)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1.0, math.nan])
def test_bad_deltas(delta: float) -> None:
    with pytest.raises(ValueError, match="delta"):
        second_of([keep(3, 1.0)], delta)


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    with pytest.raises(ImportError, match="the second opinion needs dp-accounting"):
        second_of([keep(3, 1.0)], 1e-6)
