"""The contract of randomizers: every built-in one keeps it, and every fault in it is found."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest

from protocol import (
    ArraySpec,
    KeepElseTable,
    KeepUniform,
    OutputClass,
    PrivKV,
    PrivKVM,
    Randomizer,
    Stream,
    Support,
    UnaryEncoding,
)
from protocol.crypto.randomness import WORDS
from protocol.randomizers import Dominating
from protocol.testing import check_randomizer, lawful
from tests.enumeration import NONE_ALIKE, ROWS, matrix
from tests.scenarios.stranger_unary import Oue, Underdominated, Understated
from tests.tiers import thinned

test_binary = lawful(KeepUniform.with_keep(2, p=0.3))
test_five = lawful(KeepUniform.with_keep(5, p=0.5))
test_sixteen = pytest.mark.slow(lawful(KeepUniform.with_epsilon(16, epsilon=1.0)))
test_table = lawful(KeepElseTable.with_table(p=0.4, table=[5.0, 3.0, 1.0], mix=0.1))
test_matrix = lawful(matrix(ROWS))
test_larger_matrix = lawful(matrix(NONE_ALIKE))
test_symmetric_unary = pytest.mark.slow(lawful(UnaryEncoding.symmetrized(9, epsilon=1.0)))
test_optimized_unary = lawful(UnaryEncoding.optimized(16, epsilon=1.0))
test_any_unary = lawful(UnaryEncoding(3, 3 * WORDS // 4, WORDS // 8))
test_privkv = lawful(PrivKV.with_budget(3, epsilon=1.0), without=("law",))
test_privkvm = lawful(PrivKVM.with_budget(3, epsilon=1.0), without=("law",))
test_stranger = pytest.mark.slow(lawful(Oue(16, WORDS // 4), without=("covariance",)))
test_many = lawful(KeepUniform.with_keep(2**40, p=0.5))


class Biased(KeepUniform, frozen=True):
    """Reports the true answer 5 % more often than its law says."""

    def randomize(self, codes: Any, stream: Stream) -> Any:
        true = KeepUniform(self.size, self.threshold).diagonal
        return KeepUniform.with_diagonal(self.size, diagonal=1.05 * true).randomize(codes, stream)

    def row(self, code: int) -> Any:
        return KeepUniform(self.size, self.threshold).row(code)

    def law(self, first: int, second: int) -> Any:
        return KeepUniform(self.size, self.threshold).law(first, second)

    @property
    def epsilon(self) -> float:
        return KeepUniform(self.size, self.threshold).epsilon


class Skewed(Oue, frozen=True):
    """The bit beside the answer's is 1 too often, by 5 %."""

    def randomize(self, codes: Any, stream: Stream) -> Any:
        bits = super().randomize(codes, stream)
        bits[:, 3] |= stream.bernoulli(WORDS // 60, len(codes)).astype(np.uint8)
        return bits

    def law(self, first: int, second: int) -> Any:
        return Oue(self.size, self.other).law(first, second)


class Floating(Oue, frozen=True):
    """Reports of another dtype than declared."""

    @property
    def report(self) -> ArraySpec:
        return ArraySpec(dtype="u2", shape=(self.size,), high=2)


class Small(Oue, frozen=True):
    """Says that a report takes less."""

    @property
    def bits(self) -> int:
        return self.size


class Heavy(Oue, frozen=True):
    """Its estimates' variance is stated too small."""

    def variances(self, shares: Any, n: int) -> Any:
        return super().variances(shares, n) / 2


class Shifted(Oue, frozen=True):
    """Its estimates are biased."""

    def shares(self, totals: Any, n: int) -> Any:
        return super().shares(totals, n) + 0.05


class Supported(Oue, frozen=True):
    """States another support than its law has."""

    @property
    def support(self) -> Support:
        return Support(hit=Fraction(1, 2), other=Fraction(1, 5))


class Together(Oue, frozen=True):
    """States that its bits depend on each other, which they do not."""

    @property
    def support(self) -> Support:
        q = Fraction(self.other, WORDS)
        return Support(hit=Fraction(1, 2), other=q, both_hit=q / 2, both_other=q)


class Added(KeepUniform, frozen=True):
    """Adds variances up as if shares were independent."""

    def sum_variances(self, shares: Any, n: int, groups: Any, weights: Any) -> Any:
        return np.bincount(groups, weights**2 * self.variances(shares, n))


class Picky(Oue, frozen=True):
    """Counts no report of all bits, which is a rare one, and lets it pass."""

    def tally(self, reports: Any) -> Any:
        if reports.all(axis=1).any():
            raise ValueError("a report of all bits")
        return super().tally(reports)


class Guarded(Picky, frozen=True):
    """Lets it not pass."""

    def fits(self, reports: Any) -> bool:
        return super().fits(reports) and not reports.all(axis=1).any()


class Loose(KeepUniform, frozen=True):
    """Declares one report more than there are."""

    @property
    def report(self) -> ArraySpec:
        return ArraySpec(dtype="u1", shape=(), high=self.size + 1)

    def tally(self, reports: Any) -> Any:
        return np.bincount(reports, minlength=self.size)


class Unclassed(Oue, frozen=True):
    """Has no class for the report of all bits."""

    def classify(self, reports: Any, first: int, second: int) -> Any:
        return super().classify(reports, first, second) + reports.all(axis=1)


class Lopsided(Oue, frozen=True):
    """Is not symmetric, and says so."""

    def law(self, first: int, second: int) -> tuple[OutputClass, ...]:
        if {first, second} == {0, 1}:
            return super().law(first, second)
        return Oue(self.size, self.other + 1).law(first, second)


class Mute(Oue, frozen=True):
    """Draws something else each time."""

    def randomize(self, codes: Any, stream: Stream) -> Any:
        Mute.calls += 1
        return super().randomize(codes, stream.derive(str(Mute.calls)))

    def law(self, first: int, second: int) -> Any:
        return Oue(self.size, self.other).law(first, second)


Mute.calls = 0


class Guessing(Oue, frozen=True):
    """Says that nobody can guess."""

    def best_guess(self, *others: Randomizer) -> float:
        return 1 / self.size


class Reversed(Oue, frozen=True):
    """Its likelihood ratios have the wrong sign."""

    def log_ratios(self, reports: Any, first: int, second: int) -> Any:
        return super().log_ratios(reports, second, first)


class Derived(Oue, frozen=True):
    """Does not come back as it was."""

    other: int = 2**62

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "other", self.other - 1)


class Weak(Oue, frozen=True):
    """States its epsilon and no pair."""

    @property
    def dominating(self) -> Dominating:
        return Dominating((), True)


@pytest.mark.parametrize(
    ("randomizer", "complaint"),
    thinned(
        [
            (
                Understated(16, WORDS // 4),
                r"'Understated' states epsilon 0\.549.*, and its law has 1\.0",
            ),
            (Underdominated(16, WORDS // 4), "'Underdominated' states epsilon"),
            (Weak(16, WORDS // 4), "its dominating pair has 0"),
            (Biased(8, WORDS // 3), "input 0, reports classed by 0 and 1: shares"),
            (Skewed(8, WORDS // 4), "and 3: shares"),
            (Floating(8, WORDS // 4), "not as report says: reports: dtype uint8, expected u2"),
            (Small(8, WORDS // 4), "a report takes 64 bits, not 8"),
            (Heavy(8, WORDS // 4), "has variance"),
            (Shifted(8, WORDS // 4), "the estimated share of"),
            (Supported(8, WORDS // 4), r"the support states 0\.5, 0\.2, none"),
            (Together(8, WORDS // 4), "the weighted sum"),
            (Added(8, WORDS // 4), "sum_variances of the weighted sum"),
            (Picky(9, WORDS // 64), "tally fails of reports .*: ValueError: a report of all bits"),
            (
                Loose(5, WORDS // 4),
                "tally of reports .*, has 6 counts up to .*; expected 5 of at most",
            ),
            (Unclassed(9, WORDS // 64), "classify of reports .*, gives places beyond the 4 of its"),
            (Lopsided(8, WORDS // 4), "says that it is symmetric"),
            (Mute(8, WORDS // 4), "the same stream gives other reports"),
            (Guessing(8, WORDS // 4), "best_guess is"),
            (Reversed(8, WORDS // 4), "log_ratios is not that of the law"),
            (Derived(8, WORDS // 4), "comes back from the header as"),
        ],
        10,
    ),
    ids=lambda value: type(value).__name__,
)
def test_faults_are_found(randomizer: Randomizer, complaint: str) -> None:
    without = () if isinstance(randomizer, Together | KeepUniform) else ("covariance",)
    with pytest.raises(AssertionError, match=complaint):
        check_randomizer(randomizer, without=without)


@pytest.mark.slow
def test_what_does_not_fit_need_not_be_counted() -> None:
    check_randomizer(Guarded(9, WORDS // 64), without=("covariance",))


def test_too_few_samples_are_said() -> None:
    with pytest.raises(AssertionError, match="1,000 samples are too few to find a bias of 5%"):
        check_randomizer(KeepUniform.with_epsilon(16, epsilon=1.0), samples=1000)


def test_what_is_left_out_is_named() -> None:
    with pytest.raises(AssertionError, match=r"no covariance: .*without=\('covariance',\)"):
        check_randomizer(Oue(4, WORDS // 4))
    with pytest.raises(AssertionError, match="'PrivKV' does not bring its law"):
        check_randomizer(PrivKV.with_budget(3, epsilon=1.0))
