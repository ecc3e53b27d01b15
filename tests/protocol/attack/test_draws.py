"""The attack on a randomizer's own draws: it comes near epsilon, and finds who draws otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from protocol import (
    KeepElseTable,
    KeepUniform,
    PrivKV,
    Randomizer,
    Stream,
    UnaryEncoding,
    UnsupportedEventError,
)
from protocol.crypto.randomness import WORDS
from protocol.testing import attack_randomizer
from tests.enumeration import ROWS, matrix
from tests.scenarios.stranger_unary import Oue
from tests.tiers import thinned


@pytest.mark.parametrize(
    "randomizer",
    thinned(
        [
            KeepUniform.with_epsilon(16, epsilon=1.0),
            KeepElseTable.with_table(p=0.4, table=[5.0, 3.0, 1.0], mix=0.1),
            matrix(ROWS),
            UnaryEncoding.symmetrized(9, epsilon=1.0),
            UnaryEncoding.optimized(16, epsilon=1.0),
            Oue(16, WORDS // 4),
        ],
        5,
    ),
    ids=lambda value: type(value).__name__,
)
def test_it_comes_near_epsilon_and_does_not_accuse(randomizer: Randomizer) -> None:
    # Of a law that is not symmetric one side alone speaks loudest, and that one is guessed.
    probe = attack_randomizer(randomizer)
    assert not probe.accused
    assert not probe.undecided
    assert 0.85 * probe.bound < probe.lower <= probe.bound
    assert probe.trials == 1_000_000
    assert attack_randomizer(randomizer, trials=10_000).lower < probe.lower


class Careless(KeepUniform, frozen=True):
    """Reports one answer in twenty as it is."""

    def randomize(self, codes: Any, stream: Stream) -> Any:
        reports = super().randomize(codes, stream)
        forgotten = stream.bernoulli(WORDS // 20, codes.shape)
        reports[forgotten] = codes[forgotten]
        return reports

    def law(self, first: int, second: int) -> Any:
        return super().law(first, second)

    def row(self, code: int) -> Any:
        return super().row(code)

    @property
    def epsilon(self) -> float:
        return super().epsilon


def test_who_draws_by_another_law_is_accused() -> None:
    careless = Careless(16, KeepUniform.with_epsilon(16, epsilon=1.0).threshold)
    probe = attack_randomizer(careless)
    assert probe.accused
    assert (probe.bound, probe.learned) == (careless.epsilon, False)
    assert not attack_randomizer(KeepUniform(16, careless.threshold)).accused
    assert attack_randomizer(careless, (3, 7), delta=1e-6).accused


def test_what_rules_an_input_out_is_unbounded() -> None:
    ruling = matrix([[0.5, 0.5, 0.0], [0.5, 0.25, 0.25], [0.2, 0.3, 0.5]])
    probe = attack_randomizer(ruling, (0, 1))
    assert not probe.accused
    assert probe.right == probe.guesses
    assert probe.lower > 5


def test_what_cannot_be_attacked_is_refused() -> None:
    keep = KeepUniform(4, WORDS // 2)
    with pytest.raises(UnsupportedEventError, match="'PrivKV' does not bring its law"):
        attack_randomizer(PrivKV.with_budget(3, epsilon=1.0))
    for inputs in ((0, 0), (0, 4), (-1, 2)):
        with pytest.raises(ValueError, match="expected two below 4"):
            attack_randomizer(keep, inputs)
    with pytest.raises(ValueError, match="expected at least 2"):
        attack_randomizer(keep, trials=1)
