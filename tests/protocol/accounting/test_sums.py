"""What a sum over honest parties tells: above every tally, and close to brackets of its own."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from protocol import (
    Coins,
    Composed,
    Derived,
    ExactAccountant,
    KeepUniform,
    Merged,
    OneOf,
    Plain,
    PrivacyEvent,
    Public,
    Randomized,
    UnaryEncoding,
    exact_epsilon,
)
from protocol.accounting.accountants import PureAccountant
from protocol.accounting.composition import ASSUMPTION, IN_TURN, MOST_ALTERNATIVES, PURE_ASSUMPTION
from protocol.accounting.losses import LossDistribution
from protocol.accounting.shuffling import randomized_response
from protocol.accounting.sums import MOST_COINS, CoinTable, SummedResponse, _responses
from tests.protocol.accounting.test_shuffling import tallied

Floats = NDArray[np.float64]

FAIR = 2**15
PAIRS = tuple(itertools.combinations("abcd", 2))
"""The six tables of four attributes."""


def coins(trials: int, honest: int, tables: int = 1, chance: int = FAIR) -> Merged:
    return Merged(Coins(trials, chance, (("a",),) * tables), honest)


def draw(size: int, keep: float, *names: str) -> Randomized:
    return Randomized(KeepUniform.with_keep(size, p=keep), names or ("a",))


def losses_of(events: Sequence[PrivacyEvent], delta: float = 1e-9) -> LossDistribution:
    """The composed losses behind some events."""
    alternatives = ExactAccountant(delta).pairs(events).alternatives
    assert alternatives is not None
    (pairs,) = alternatives
    return LossDistribution.of(dict(pairs), spare=1e-12 * delta)


class Bracket:
    """A composition by Fourier transforms of losses that are rounded to a fine grid.

    Args:
        parts: losses, their probabilities, and how often they are drawn.
        step: the width of the grid.
        size: how many points it has, a power of two.
    """

    def __init__(
        self, parts: Sequence[tuple[Floats, Floats, int]], *, step: float, size: int, up: bool
    ) -> None:
        spectrum = np.ones(size // 2 + 1, complex)
        self.infinite = 0.0
        for losses, masses, count in parts:
            kept = np.isfinite(losses)
            self.infinite += count * float(masses[~kept].sum()) if up else 0.0
            rounded = (np.ceil if up else np.floor)(losses[kept] / step).astype(np.int64)
            assert abs(rounded).max() < size // 2
            spectrum *= np.fft.rfft(np.bincount(rounded % size, masses[kept], size)) ** count
        places = np.arange(size)
        self.losses = np.where(places < size // 2, places, places - size) * step
        self.masses = np.maximum(np.fft.irfft(spectrum, size), 0.0)

    def delta(self, epsilon: float) -> float:
        above = self.losses > epsilon
        excess = self.masses[above] @ -np.expm1(epsilon - self.losses[above])
        return self.infinite + float(excess)


def cells(number: int, chance: float, tables: int) -> list[tuple[Floats, Floats, int]]:
    """The losses of the cells that gain a count and that lose one, by scipy's binomial law."""
    deviation = math.sqrt(number * chance * (1 - chance))
    first = max(0, math.floor(number * chance - 9 * deviation))
    heads = np.arange(first, min(number, math.ceil(number * chance + 9 * deviation)) + 1)
    here, above, below = (binom.logpmf(heads + i, number, chance) for i in (0, 1, -1))
    masses = np.exp(here)
    return [(here - above, masses, tables), (here - below, masses, tables)]


@pytest.mark.parametrize(
    ("tables", "number", "chance"),
    [
        (1, 573, FAIR),
        (1, 40, FAIR),
        (1, 11_333, 1273),
        (6, 858, FAIR),
        (6, 70, FAIR),
        (6, 11_333, 358),
        (28, 14_582, FAIR),
        (28, 4009, FAIR),
        (28, 321, FAIR),
        (28, 17_000, 4117),
    ],
)
def test_coins_are_within_a_bracket(tables: int, number: int, chance: int) -> None:
    """Losses rounded down to a fine grid are a lower bound, and hardly lower."""
    parts = cells(number, chance / 2**16, tables)
    lower = Bracket(parts, step=1e-5, size=2**20, up=False)
    upper = Bracket(parts, step=1e-5, size=2**20, up=True)
    for delta in (1e-6, 1e-3):
        found = exact_epsilon([coins(1, number, tables, chance)], delta).epsilon
        # Brackets are for the loss of their own epsilon: one that is lower has a larger delta.
        assert lower.delta(found) < delta
        assert lower.delta(found * 0.995) > delta
        assert upper.delta(found * 1.005) < delta


@pytest.mark.parametrize("chance", [FAIR, 9000])
@pytest.mark.parametrize(
    ("trials", "honest", "tables"), [(1, 1, 1), (3, 4, 1), (9, 1, 2), (2, 6, 2)]
)
def test_few_coins_in_every_outcome(trials: int, honest: int, tables: int, chance: int) -> None:
    """In both directions, over all numbers of heads of all cells."""
    number, share = trials * honest, chance / 2**16
    law = np.array(
        [math.comb(number, i) * share**i * (1 - share) ** (number - i) for i in range(number + 1)]
    )
    more, same = np.append(0.0, law), np.append(law, 0.0)
    under_p, under_q = np.kron(more, same), np.kron(same, more)
    for _ in range(tables - 1):
        under_p = np.kron(under_p, np.kron(more, same))
        under_q = np.kron(under_q, np.kron(same, more))
    event = coins(trials, honest, tables, chance)

    def true(epsilon: float) -> float:
        one, other = (
            float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum())
            for first, second in ((under_p, under_q), (under_q, under_p))
        )
        assert one == pytest.approx(other, rel=1e-9)
        return one

    for delta in (1e-3, 0.02, 0.1, 0.7):
        found = exact_epsilon([event], delta).epsilon
        if math.isinf(found):
            assert true(40.0) > delta * 0.99
            continue
        assert true(found) <= delta * (1 + 1e-9)
        assert found == 0 or true(max(0.0, found - max(0.01 * found, 0.002))) > delta


def table_losses(keep: KeepUniform, honest: int) -> tuple[Floats, Floats]:
    """The losses of the game of ``shuffling``, every T and both counts written out."""
    k, kept, other = keep.size, keep.keep, keep.off_diagonal
    draws = np.arange(honest)
    chances = binom.pmf(draws, honest - 1, k * other)
    found = []
    for others, chance in zip(draws.tolist(), chances.tolist(), strict=True):
        if chance < 1e-12:
            continue
        spread = 8 * math.sqrt(others / k) + 8
        counts = np.arange(
            max(0, int(others / k - spread)), min(others, int(others / k + spread)) + 1
        )
        zeros, ones = counts[:, None], counts[None, :]
        left = np.maximum(others - zeros, 0)
        rest = binom.pmf(ones, left, 1 / (k - 1)) * (ones <= left)
        law = chance * binom.pmf(zeros, others, 1 / k) * rest
        for more, most, share in ((1, 0, other + kept), (0, 1, other), (0, 0, (k - 2) * other)):
            ratio = (other * (others + 1) + kept * (zeros + more)) / (
                other * (others + 1) + kept * (ones + most)
            )
            found.append((np.log(ratio).ravel(), (law * share).ravel()))
    losses, masses = (np.concatenate(part) for part in zip(*found, strict=True))
    return losses, masses


@pytest.mark.parametrize(
    ("honest", "tables"),
    [
        (2, {(3, 0.4): 1}),
        (12, {(4, 0.7): 6}),
        (300, {(12, 0.75): 1}),
        (300, {(2, 0.3): 28}),
        (400, {(6, 0.8): 2, (12, 0.7): 2, (16, 0.6): 2}),
    ],
)
def test_sums_of_responses_are_within_a_bracket(
    honest: int, tables: dict[tuple[int, float], int]
) -> None:
    events = [draw(size, keep) for (size, keep), count in tables.items() for _ in range(count)]
    composed = losses_of([Merged(Composed(tuple(events)), honest)])
    parts = []
    for (size, keep), count in tables.items():
        parts.append((*table_losses(KeepUniform.with_keep(size, p=keep), honest), count))
    lower = Bracket(parts, step=2e-5, size=2**21, up=False)
    for delta in (1e-6, 1e-3, 0.05):
        epsilon = composed.epsilon(delta)
        assert lower.delta(epsilon) <= delta
        assert composed.delta(epsilon * 0.99) <= 1.05 * lower.delta(epsilon * 0.99)


@pytest.mark.parametrize("honest", [2, 3])
def test_never_below_the_tallies_of_two_tables(honest: int) -> None:
    """Whatever the others' answers are, in sums of two tables."""
    first, second = (KeepUniform.with_epsilon(k, epsilon=e) for k, e in ((2, 0.8), (3, 1.4)))
    laws = []
    for keep in (first, second):
        rows = keep.matrix()
        answers = itertools.combinations_with_replacement(range(keep.size), honest - 1)
        laws.append(
            [
                (tallied(rows, (0, *others)).ravel(), tallied(rows, (1, *others)).ravel())
                for others in answers
            ]
        )
    event = Merged(Composed((Randomized(first, ("a",)), Randomized(second, ("b",)))), honest)
    for delta in (1e-3, 0.02, 0.1):
        growth = math.exp(exact_epsilon([event], delta).epsilon)
        for (p, q), (other_p, other_q) in itertools.product(*laws):
            excess = np.maximum(np.kron(p, other_p) - growth * np.kron(q, other_q), 0.0)
            assert float(excess.sum()) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("honest", [2, 30, 300])
@pytest.mark.parametrize("size", [2, 5, 64, 2**32])
def test_one_table_is_the_game_of_a_shuffle(size: int, honest: int) -> None:
    keep = KeepUniform.with_epsilon(size, epsilon=1.5)
    for delta in (1e-3, 1e-8):
        game = randomized_response(keep, n=honest, delta=delta).epsilon
        found = exact_epsilon([Merged(Randomized(keep, ("a",)), honest)], delta).epsilon
        # The game's own figure is an upper bound too, where numbers of draws are rounded down.
        assert game * 0.998 <= found <= game * 1.005 + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("honest", [3000, 10**6])
@pytest.mark.parametrize("size", [2, 5, 64, 2**32])
def test_one_table_of_many_is_the_game_of_a_shuffle(size: int, honest: int) -> None:
    test_one_table_is_the_game_of_a_shuffle(size, honest)


@pytest.mark.parametrize("size", [2, 5])
def test_numbers_are_rounded_so_that_no_less_is_told(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside few steps and very many within a standard deviation."""
    keep = KeepUniform.with_epsilon(size, epsilon=1.5)
    found = {}
    for steps in (1, 16, 10**6):
        monkeypatch.setattr("protocol.accounting.sums._STEPS", steps)
        _responses.cache_clear()
        table = SummedResponse(keep, 900).losses(1, 1e-18)
        found[steps] = [table.delta(epsilon) for epsilon in (0.01, 0.1, 0.2)]
    _responses.cache_clear()
    for coarse, usual, fine in zip(*found.values(), strict=True):
        assert fine * (1 - 1e-12) <= usual <= fine * 1.02
        assert usual * 1.005 < coarse < usual * 2


@pytest.mark.parametrize("size", [2, 12, 2**32])
def test_what_is_hardly_randomized_is_hardly_hidden(size: int) -> None:
    keep = KeepUniform.with_epsilon(size, epsilon=40.0)
    event = Merged(Randomized(keep, ("a",)), 50)
    assert exact_epsilon([event], 1e-6).epsilon == pytest.approx(keep.epsilon, rel=0.01)
    least = exact_epsilon([Merged(Randomized(KeepUniform(size, 1), ("a",)), 50)], 1e-25).epsilon
    assert least <= KeepUniform(size, 1).epsilon


def test_the_smallest_deltas() -> None:
    few, many = (exact_epsilon([coins(1, 10**5, 6)], delta).epsilon for delta in (1e-200, 1e-20))
    assert many < few < math.inf


@pytest.mark.slow
def test_the_smallest_deltas_of_reports() -> None:
    event = Merged(draw(4, 0.3), 10**4)
    few, many = (exact_epsilon([event], delta).epsilon for delta in (1e-100, 1e-20))
    assert many < few < 0.5


def test_randomized_pairs_of_a_town() -> None:
    """Six tables of 11,333 honest among 20,000: epsilon 1.02 at delta 7.5e-7."""
    sizes = [a * b for a, b in itertools.combinations([3, 4, 2, 4], 2)]
    blankets = [0.16, 0.0932, 0.16, 0.1177, 0.1956, 0.1177]
    draws = [
        draw(size, 1 - blanket, *names)
        for size, blanket, names in zip(sizes, blankets, PAIRS, strict=True)
    ]
    event = Merged(Composed(tuple(draws)), 11_333)
    found = exact_epsilon([event], 7.5e-7)
    assert found.epsilon == pytest.approx(1.02, rel=0.01)
    assert found.honest == 11_333
    assert found.method.startswith("upper bound: ")
    assert "drawn blindly" in found.method
    local = exact_epsilon(draws, 7.5e-7)
    assert local.epsilon > 20
    assert local.honest == 0
    # Three of the tables have an attribute.
    alone = exact_epsilon([event], 7.5e-7, "a")
    concerned = [each for each in draws if "a" in each.attributes]
    assert alone == exact_epsilon([Merged(Composed(tuple(concerned)), 11_333)], 7.5e-7)
    assert 0.6 < alone.epsilon < 0.8


def test_a_party_alone() -> None:
    """Among one honest party there is what she says, and her own coins."""
    for event in (draw(4, 0.3), Composed((draw(4, 0.3), draw(9, 0.4)))):
        assert exact_epsilon([Merged(event, 1)], 1e-4) == exact_epsilon([event], 1e-4)
    alone = exact_epsilon([Merged(Coins(900, FAIR, PAIRS), 1)], 1e-6)
    assert alone == exact_epsilon([Coins(900, FAIR, PAIRS)], 1e-6)
    assert alone.honest == 0
    assert alone.assumption == ASSUMPTION
    assert alone.epsilon == exact_epsilon([Merged(Coins(9, FAIR, PAIRS), 100)], 1e-6).epsilon
    # One coin of a cell that is likely to be 0 shows a count nearly always.
    own = exact_epsilon([Coins(1, 1273, PAIRS)], 0.1)
    assert own.epsilon == math.inf
    assert "larger delta" in own.method


def test_only_the_tables_of_an_attribute() -> None:
    event = Merged(Coins(2, FAIR, PAIRS), 400)
    whole = exact_epsilon([event], 1e-6)
    for name in "abcd":
        concerned = tuple(table for table in PAIRS if name in table)
        alone = exact_epsilon([event], 1e-6, name)
        assert alone == exact_epsilon([Merged(Coins(2, FAIR, concerned), 400)], 1e-6)
        assert alone.epsilon < 0.75 * whole.epsilon
    other = exact_epsilon([event], 1e-6, "e")
    assert (other.epsilon, other.honest) == (0.0, 0)


def test_sums_and_reports_compose() -> None:
    """By all losses together: sessions, coins, summed and ordinary reports."""
    tables = Coins(1, FAIR, PAIRS)
    response = draw(6, 0.5)
    ordinary = draw(3, 0.2)
    events = [Merged(tables, 900), Merged(response, 900), ordinary, Merged(tables, 900)]
    parts: list[tuple[Floats, Floats, int]] = cells(900, 0.5, 12)
    parts.append((*table_losses(KeepUniform.with_keep(6, p=0.5), 900), 1))
    local = KeepUniform.with_keep(3, p=0.2)
    p, q = local.diagonal, local.off_diagonal
    parts.append((np.array([1, 0, -1]) * local.epsilon, np.array([p, 1 - p - q, q]), 1))
    lower = Bracket(parts, step=1e-5, size=2**20, up=False)
    found = exact_epsilon(events, 1e-6)
    assert lower.delta(found.epsilon) < 1e-6 < lower.delta(found.epsilon * 0.98)
    with_one = exact_epsilon([Merged(tables, 900), ordinary], 1e-6)
    assert not with_one.tight
    assert "grid" in with_one.method
    together = Composed((*events[:1], *events[3:], ordinary, Merged(Composed((response,)), 900)))
    assert exact_epsilon([together], 1e-6).epsilon == pytest.approx(found.epsilon, rel=1e-9)
    both = exact_epsilon([Merged(Composed((tables, response, Public())), 900), ordinary], 1e-6)
    assert both.epsilon < found.epsilon
    assert both.epsilon > exact_epsilon([events[0], ordinary], 1e-6).epsilon


def test_what_is_not_summed_table_by_table_is_charged_alone() -> None:
    unary = Randomized(UnaryEncoding.symmetrized(4, epsilon=0.9), ("a",))
    for event in (unary, Derived(), OneOf((draw(3, 0.2), unary))):
        assert exact_epsilon([Merged(event, 500)], 1e-6) == exact_epsilon([event], 1e-6)
    assert exact_epsilon([Merged(Plain(("a",)), 500)], 1e-6).epsilon == math.inf
    # In random order the reports of a respondent are not apart.
    two = Composed((draw(3, 0.2), draw(4, 0.2)))
    assert exact_epsilon([Merged(two, 500, linked=True)], 1e-6) == exact_epsilon([two], 1e-6)
    assert exact_epsilon([Merged(two, 500)], 1e-6).epsilon < 0.5
    shuffled = Merged(draw(3, 0.2), 500, linked=True)
    assert exact_epsilon([shuffled], 1e-6) == exact_epsilon([Merged(draw(3, 0.2), 500)], 1e-6)
    noised = Coins(1, FAIR, PAIRS)
    assert exact_epsilon([Merged(noised, 5000, linked=True)], 1e-6).epsilon == math.inf

    class Own(KeepUniform, frozen=True, tag="own"):
        """A randomizer that may draw in another way."""

    own = Randomized(Own(3, 2**62), ("a",))
    assert exact_epsilon([Merged(own, 500)], 1e-6) == exact_epsilon([own], 1e-6)


def test_the_assumption_names_the_fewest_honest_parties() -> None:
    tables = Coins(2, FAIR, PAIRS)
    one = exact_epsilon([Merged(tables, 11_333)], 1e-6)
    assert one.honest == 11_333
    assert one.assumption.startswith(ASSUMPTION)
    assert "at least 11,333 of those in the sum are honest" in one.assumption
    # In both sums then: more of them are no longer taken for granted in either.
    both = exact_epsilon([Merged(tables, 11_333), Merged(tables, 600)], 1e-6)
    assert both == exact_epsilon([Merged(tables, 600)] * 2, 1e-6)
    assert both.honest == 600
    assert "at least 600 of" in both.assumption
    nested = [Composed((Merged(tables, 11_333), Merged(draw(4, 0.3), 600)))]
    assert exact_epsilon(nested, 1e-6).honest == 600
    either = OneOf((Merged(tables, 11_333), Merged(tables, 600)))
    assert exact_epsilon([either], 1e-6) == exact_epsilon([Merged(tables, 600)], 1e-6)
    # What holds whoever conspires stays as it is.
    own = exact_epsilon([Merged(tables, 11_333), Coins(3000, FAIR, PAIRS), draw(3, 0.1)], 1e-6)
    assert own.honest == 11_333
    pure = exact_epsilon([Merged(draw(4, 0.3), 600)], 0.0)
    assert (pure.honest, pure.assumption) == (0, PURE_ASSUMPTION)
    assert pure.epsilon == pytest.approx(draw(4, 0.3).randomizer.epsilon)
    assert exact_epsilon([Merged(tables, 11_333)], 0.0).epsilon == math.inf


def test_later_messages_may_follow_from_sums() -> None:
    """Coins stay as they are; what has an epsilon counts by it, but for the first."""
    accountant = ExactAccountant(1e-6)
    tables, response = Merged(Coins(2, FAIR, PAIRS), 900), Merged(draw(4, 0.3), 900)
    fixed = accountant.judge([tables, tables])
    in_turn = accountant.judge_in_turn([tables, tables])
    assert in_turn.epsilon == fixed.epsilon
    assert in_turn.assumption.startswith(IN_TURN)
    assert "900" in in_turn.assumption
    assert accountant.judge_in_turn([response]).epsilon == accountant.judge([response]).epsilon
    mixed = accountant.judge_in_turn([tables, response, draw(9, 0.2)]).epsilon
    binary = [
        KeepUniform.with_epsilon(2, epsilon=each.randomizer.epsilon)
        for each in (draw(4, 0.3), draw(9, 0.2))
    ]
    bound = accountant.judge([tables, *[Randomized(keep, ("a",)) for keep in binary]]).epsilon
    assert accountant.judge([tables, response, draw(9, 0.2)]).epsilon < mixed
    assert mixed == pytest.approx(bound, rel=1e-6)


def test_very_many_alternatives_of_sums_have_one_bound() -> None:
    several = [
        Composed((coins(1, 700 + i), draw(2 + i % 3, 0.1 + i / 1000)))
        for i in range(MOST_ALTERNATIVES + 10)
    ]
    narrow = [coins(1, 700, 1 + i % 2) for i in range(4)]
    for events in (several, narrow):
        found = exact_epsilon([OneOf(tuple(events))], 1e-4).epsilon
        assert max(exact_epsilon([event], 1e-4).epsilon for event in events) <= found
    together = exact_epsilon([OneOf(tuple(several))] * 2, 1e-4).epsilon
    assert together >= exact_epsilon([several[-1]] * 2, 1e-4).epsilon


def test_more_coins_than_are_counted() -> None:
    many = CoinTable(2**30, 1, 2**10)
    assert many.coins == MOST_COINS
    assert CoinTable(3, 1, 7).coins == 21


def test_the_pure_accountant_has_no_bound() -> None:
    loss = PureAccountant().judge(Merged(Coins(2, FAIR, PAIRS), 900))
    assert loss.record == math.inf
    assert loss.attributes == dict.fromkeys("abcd", math.inf)
    (reason,) = loss.unbounded
    assert "a, b, c, d with coins, which protect at a delta alone" in reason


@pytest.mark.parametrize(
    ("trials", "chance", "says"),
    [
        (0, FAIR, "0 coins for each cell"),
        (-3, FAIR, "-3 coins"),
        (1, 0, "a coin of chance 0"),
        (1, FAIR + 1, "a coin of chance 32769 in 65536: expected 1 to 32768"),
        (1, -1, "a coin of chance -1"),
    ],
)
def test_impossible_coins(trials: int, chance: int, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Coins(trials, chance, PAIRS)


def test_impossible_numbers_of_honest_parties() -> None:
    for honest in (0, -1):
        with pytest.raises(ValueError, match=f"{honest} honest parties: expected"):
            Merged(Public(), honest)
    for honest in (0, 10**8 + 1):
        with pytest.raises(ValueError, match="honest parties: expected 1 to"):
            SummedResponse(KeepUniform.with_keep(3, p=0.3), honest)
