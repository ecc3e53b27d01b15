"""The interface of randomizers: nobody outside asks for a class, and what is stated is checked."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import protocol.randomizers as room
from protocol import (
    ArraySpec,
    KeepElseTable,
    KeepUniform,
    MeanRandomizer,
    OutputClass,
    PrivKV,
    Randomizer,
    Stream,
    SubsetSelection,
    Support,
    UnaryEncoding,
    UnsupportedEventError,
)
from protocol.crypto.randomness import WORDS
from protocol.randomizers import Dominating
from protocol.randomizers.pairs import ThreePoint, dominating_of_laws, excess
from protocol.randomizers.vetting import (
    best_guess_through,
    check_stated,
    dominating_pairs,
    held_epsilon,
    known,
    redrawn_through,
    some_pairs,
    stated_epsilon,
)
from protocol.testing import check_randomizer
from protocol.variants import BUILT_IN as BUILT_IN_VARIANTS
from tests.enumeration import ROWS, matrix

PROJECT = Path(__file__).resolve().parents[3]
PACKAGES = ("protocol", "parties", "transports", "scenarios")


def class_names() -> set[str]:
    tuple(BUILT_IN_VARIANTS.values())  # A randomizer may be imported by its variant alone.
    found, left = {"CodeRandomizer"}, [Randomizer]
    while left:
        cls = left.pop()
        found.add(cls.__name__)
        left += [sub for sub in cls.__subclasses__() if sub.__module__.startswith("protocol.")]
    return found


def questions(source: str, names: set[str]) -> Iterator[str]:
    """Where a module asks for the class of a randomizer."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, wanted]):
                asked: list[ast.AST] = [wanted]
            case ast.MatchClass(cls=wanted):
                asked = [wanted]
            case ast.Compare(left=left, comparators=others):
                sides = [left, *others]
                types = [ast.unparse(side).startswith("type(") for side in sides]
                asked = list(sides) if any(types) else []
            case _:
                continue
        for part in asked:
            for name in ast.walk(part):
                said = name.id if isinstance(name, ast.Name) else getattr(name, "attr", None)
                if said in names:
                    yield f"line {node.lineno}: {ast.unparse(node)[:80]}"


@pytest.mark.slow
def test_nobody_outside_asks_for_the_class_of_a_randomizer() -> None:
    names = class_names()
    assert {"Randomizer", "KeepUniform", "KeepElseTable", "PrivKVM", "UnaryEncoding"} <= names
    found = {
        f"{path.relative_to(PROJECT)}, {question}"
        for package in PACKAGES
        for path in sorted((PROJECT / package).rglob("*.py"))
        if not path.is_relative_to(Path(room.__file__).parent)
        for question in questions(path.read_text(encoding="utf-8"), names)
    }
    assert found == set()


@pytest.mark.parametrize(
    "source",
    [
        "isinstance(draw, KeepUniform)",
        "isinstance(draw, KeepUniform | KeepElseTable)",
        "isinstance(draw, (int, randomizers.KeepUniform))",
        "issubclass(kind, Randomizer)",
        "type(draw) is KeepUniform",
        "type(draw) == keep.KeepUniform",
        "match draw:\n    case KeepUniform(size=size):\n        pass",
        "match draw:\n    case int() | randomizers.KeepUniform():\n        pass",
    ],
)
def test_questions_are_seen(source: str) -> None:
    assert list(questions(source, class_names()))
    assert not list(questions("isinstance(draw, int)\ntype(draw) is int", class_names()))


class Bare(Randomizer, frozen=True):
    """Gives nothing."""


class Coin(Randomizer, frozen=True):
    """Binary randomized response, by its table alone."""

    quarters: int = 3

    @property
    def keep(self) -> Fraction:
        return Fraction(self.quarters, 4)

    @property
    def size(self) -> int:
        return 2

    def randomize(self, codes: Any, stream: Stream) -> Any:
        return codes ^ stream.bernoulli(int((1 - self.keep) * WORDS), codes.shape)

    def row(self, code: int) -> list[Fraction]:
        return [self.keep, 1 - self.keep] if code == 0 else [1 - self.keep, self.keep]


def test_all_follows_from_a_table() -> None:
    coin = Coin()
    assert coin.epsilon == math.log(3)
    assert dominating_pairs(coin) == Dominating((ThreePoint.binary(Fraction(3)),), True)
    assert coin.best_guess() == 0.75
    assert best_guess_through([coin] * 3) == (0.84375, 2)
    assert coin.farthest(0) == 1
    assert coin.bits == 8
    np.testing.assert_allclose(coin.shares(np.array([70, 30]), 100), [0.9, 0.1], atol=1e-12)
    np.testing.assert_allclose(coin.covariance(np.array([0.9, 0.1]), 100)[0], [0.0075, -0.0075])
    np.testing.assert_allclose(
        coin.log_ratios(np.array([0, 1], np.uint8), 0, 1), [-math.log(3), math.log(3)]
    )
    table = coin.unmixing([2], [0]).apply(np.array([0.7, 0.3]), 0)
    np.testing.assert_allclose(table, [0.9, 0.1], atol=1e-12)


@pytest.mark.parametrize(
    ("attribute", "what"),
    [
        ("size", "the size of its domain"),
        ("epsilon", "the size of its domain"),
        ("dominating", "the size of its domain"),
        ("support", "how its counts become shares"),
    ],
)
def test_what_is_missing_is_named(attribute: str, what: str) -> None:
    with pytest.raises(UnsupportedEventError, match=f"'Bare' does not bring {what}"):
        getattr(Bare(), attribute)
    with pytest.raises(UnsupportedEventError, match="'Bare'"):
        stated_epsilon(Bare())


class Half(Coin, frozen=True):
    """Draws in its own way, and brings no law of its own."""

    def randomize(self, codes: Any, stream: Stream) -> Any:
        return codes


class Sum(Coin, frozen=True):
    """A table whose rows do not sum to 1."""

    def row(self, code: int) -> list[Fraction]:
        return [Fraction(1, 2), Fraction(1, 3)]


class Inexact(Coin, frozen=True):
    """A table of floats."""

    def row(self, code: int) -> Any:
        return [0.5, 0.5]


class Failing(Coin, frozen=True):
    """A law with a fault in it."""

    def row(self, code: int) -> Any:
        return [Fraction(1, code), 0]


class Raised(Coin, frozen=True):
    """Says more than it costs."""

    @property
    def epsilon(self) -> float:
        return 2.0


class Many(Randomizer, frozen=True):
    """Many inputs that are not alike, by classes."""

    @property
    def size(self) -> int:
        return 100

    def randomize(self, codes: Any, stream: Stream) -> Any:
        return codes

    def law(self, first: int, second: int) -> tuple[OutputClass, ...]:
        return (OutputClass(Fraction(1), Fraction(1)),)


class Table(Coin, frozen=True):
    """Many inputs that are not alike, as a table."""

    @property
    def size(self) -> int:
        return 100

    def row(self, code: int) -> list[Fraction]:
        return [Fraction(1, 2) + Fraction(code, 1000), Fraction(1, 2) - Fraction(code, 1000)]


@pytest.mark.parametrize(
    ("randomizer", "why"),
    [
        (Half(), "'Half' draws in its own way: expected its law"),
        (Sum(), "'Sum', its law of input 0 of 0 and 1: the probabilities sum to 0.833333333"),
        (Inexact(), "'Inexact', .* expected exact probabilities"),
        (Failing(), "'Failing' fails: ZeroDivisionError"),
        (Many(), "'Many' does not bring its epsilon, and its 100 inputs are too many"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_a_law_is_refused(randomizer: Randomizer, why: str) -> None:
    for ask in (stated_epsilon, dominating_pairs, known):
        with pytest.raises(UnsupportedEventError, match=why):
            ask(randomizer)
    assert best_guess_through([randomizer]) is None


def test_who_says_more_is_charged_that_and_nothing_is_computed_from_the_law() -> None:
    assert stated_epsilon(Raised()) == 2.0
    for ask in (dominating_pairs, known):
        with pytest.raises(UnsupportedEventError, match="it states epsilon 2, and the law"):
            ask(Raised())


BUILT_IN: dict[str, Randomizer] = {
    "keep": KeepUniform.with_epsilon(5, epsilon=1.3),
    "binary": KeepUniform.with_keep(2, p=0.2),
    "table": KeepElseTable.with_table(p=0.4, table=[5.0, 3.0, 1.0], mix=0.1),
    "matrix": matrix(ROWS),
    "sue": UnaryEncoding.symmetrized(4, epsilon=1.1),
    "oue": UnaryEncoding.optimized(5, epsilon=1.1),
    "unary": UnaryEncoding(3, 3 * WORDS // 4, WORDS // 8),
}


@pytest.mark.parametrize("name", BUILT_IN)
def test_closed_forms_are_those_of_the_law(name: str) -> None:
    own = BUILT_IN[name]
    assert own.epsilon == pytest.approx(Randomizer.epsilon.fget(own), rel=1e-15)
    given, computed = own.dominating, Randomizer.dominating.fget(own)
    assert given.tight == computed.tight
    for first in range(own.size):
        for second in range(own.size):
            if first != second:
                law = [part[:2] for part in own.law(first, second)]
                assert excess(law, given.pairs) == 0
                assert excess(law, computed.pairs) == 0
    if own.symmetric:
        assert own.support.gain == Randomizer.support.fget(own).gain
    assert known(own) is own


def test_by_how_much_a_law_exceeds() -> None:
    law = [(Fraction(9, 10), Fraction(1, 10)), (Fraction(1, 10), Fraction(9, 10))]
    two = ThreePoint.binary(Fraction(2))
    # At order 1 it is 8/10 - 1/3; at order 2 it is 7/10 - 0.
    assert excess(law, [two]) == Fraction(7, 10)
    # Of both the ratios are 4, 1 and 1/4: at order 4 it is 5/10 - 0, at order 1 8/10 - 1/3.
    assert excess(law, [two, two]) == Fraction(5, 10)
    # What one law alone can give exceeds at every order.
    alone = [(Fraction(1), Fraction(1, 10)), (Fraction(0), Fraction(9, 10))]
    assert excess(alone, [two]) == Fraction(9, 10)
    assert excess(law[:0], [two]) == 0


def test_one_pair_stands_for_several_laws() -> None:
    def coin(share: Fraction) -> list[tuple[Fraction, Fraction]]:
        return [(share, 1 - share), (1 - share, share)]

    weak, strong = coin(Fraction(3, 5)), coin(Fraction(3, 4))
    half = [(Fraction(1, 2), Fraction(1, 2))] * 2
    third = [(Fraction(1), Fraction(1, 2)), (Fraction(0), Fraction(1, 2))]
    uneven = [(Fraction(1, 2), Fraction(1, 3)), (Fraction(1, 2), Fraction(2, 3))]
    assert dominating_of_laws([weak]) == Dominating((ThreePoint.binary(Fraction(3, 2)),), True)
    assert dominating_of_laws([weak, strong]) == Dominating(
        (ThreePoint.binary(Fraction(3)),), False
    )
    assert dominating_of_laws([uneven]).tight is False
    assert dominating_of_laws([half]) == Dominating((), True)
    assert dominating_of_laws([half, third]) == Dominating(None, False)


class Several(Coin, frozen=True):
    """Of its four inputs the last is told apart best from all others: a report rules it out."""

    @property
    def size(self) -> int:
        return 4

    def row(self, code: int) -> list[Fraction]:
        tenth = {0: 2, 1: 3, 2: 9, 3: 0}[code]
        return [Fraction(tenth, 10), 1 - Fraction(tenth, 10)]


def test_the_farthest_input_is_the_one_that_is_told_apart_best() -> None:
    several = Several()
    assert [several.farthest(code) for code in range(4)] == [3, 3, 3, 0]
    assert several.epsilon == math.inf
    assert Bit().farthest(3) == 8
    assert Bit().farthest(5) == 0


def test_a_smaller_pair_exceeds() -> None:
    law = [part[:2] for part in KeepUniform.with_epsilon(5, epsilon=1.3).law(0, 1)]
    pair = KeepUniform.with_epsilon(5, epsilon=1.29).dominating.pairs
    assert pair is not None
    assert excess(law, pair) > 0
    own = ThreePoint(Fraction(3), Fraction(1, 4))
    assert excess([own.exact[0::2], (own.exact[1], own.exact[1]), own.exact[2::-2]], [own]) == 0


def test_a_support_that_is_not_known_gives_no_covariance() -> None:
    support = Support(hit=Fraction(1, 2), other=Fraction(1, 4))
    assert support.variances(np.array([0.5, 0.5]), 10).shape == (2,)
    with pytest.raises(UnsupportedEventError, match="no covariance"):
        support.covariance(np.array([0.5, 0.5]), 10)


def test_a_law_by_classes_of_key_values_is_not_made_up() -> None:
    assert dominating_pairs(PrivKV.with_budget(3, epsilon=1.0)).pairs
    with pytest.raises(UnsupportedEventError, match="'PrivKV' does not bring its law"):
        known(PrivKV.with_budget(3, epsilon=1.0))
    assert OutputClass(Fraction(1), Fraction(1)).supports is None


def test_a_table_of_many_inputs_is_bounded_by_its_columns() -> None:
    table = Table()
    assert table.epsilon == pytest.approx(math.log(0.5 / 0.401), rel=1e-12)
    assert stated_epsilon(table) == table.epsilon
    [pair] = dominating_pairs(table).pairs or ()
    assert pair == ThreePoint.bounded(Fraction(500, 401), Fraction(99, 1000))
    with pytest.raises(UnsupportedEventError, match="determine the shares of its inputs"):
        table.shares(np.array([1, 1]), 2)


class Broken(Coin, frozen=True):
    """Its further facts fail, or are of another kind."""

    fault: str = ""

    @property
    def dominating(self) -> Any:
        return None if self.fault == "none" else 1 / 0

    def best_guess(self, *others: Randomizer) -> float:
        return 1 / 0

    @property
    def redrawn(self) -> Any:
        return 1 / 0


def test_somebody_elses_faults_are_named_and_crash_nothing() -> None:
    with pytest.raises(UnsupportedEventError, match="'Broken' fails: ZeroDivisionError"):
        dominating_pairs(Broken())
    with pytest.raises(UnsupportedEventError, match="'Broken' has dominating pair None"):
        dominating_pairs(Broken(fault="none"))
    assert best_guess_through([Broken()]) is None
    assert redrawn_through(Broken()) is None
    assert redrawn_through(KeepUniform(2, WORDS // 4)) == Fraction(3, 4)


class Bit(MeanRandomizer, frozen=True):
    """A number from -1 to 1, in quarters, as one bit: Duchi, Jordan and Wainwright 2013."""

    @property
    def size(self) -> int:
        return 9

    @property
    def values(self) -> list[Fraction]:
        return [Fraction(code - 4, 4) for code in range(9)]

    @property
    def scores(self) -> list[Fraction]:
        return [Fraction(-2), Fraction(2)]

    @property
    def report(self) -> ArraySpec:
        return ArraySpec(dtype="u1", shape=(), high=2)

    def row(self, code: int) -> list[Fraction]:
        one = Fraction(1, 2) + self.values[code] / 4
        return [1 - one, one]

    def randomize(self, codes: Any, stream: Stream) -> Any:
        ones = np.array([int(self.row(code)[1] * WORDS) for code in range(9)], np.uint64)
        return (stream.words(len(codes)) < ones[codes]).astype(np.uint8)


def test_a_mean_of_numbers() -> None:
    bit = Bit()
    check_randomizer(bit, without=("estimate",))
    assert bit.epsilon == pytest.approx(math.log(3), rel=1e-15)
    mean = bit.mean(np.array([300, 700]))
    assert mean.value == pytest.approx(0.8)
    assert mean.standard_error == pytest.approx(math.sqrt((4 - 0.64) / 999))
    with pytest.raises(AssertionError, match="determine the shares"):
        check_randomizer(bit)


class Skew(Bit, frozen=True):
    """Scores that are biased."""

    @property
    def scores(self) -> list[Fraction]:
        return [Fraction(-2), Fraction(3)]


def test_biased_scores_are_found() -> None:
    with pytest.raises(AssertionError, match="input 0: the scores of its reports have mean"):
        check_randomizer(Skew(), without=("estimate",))


class Near(Coin, frozen=True):
    """Its dominating pair has its epsilon, and too small a distance."""

    @property
    def dominating(self) -> Dominating:
        return Dominating((ThreePoint(Fraction(3), Fraction(49, 100)),), False)


class Far(Coin, frozen=True):
    """Its dominating pair is an upper bound, of a larger epsilon."""

    @property
    def dominating(self) -> Dominating:
        return Dominating((ThreePoint.binary(Fraction(4)),), False)


def test_a_pair_of_the_right_epsilon_may_still_not_dominate() -> None:
    with pytest.raises(UnsupportedEventError, match="'Near' has a dominating pair that does not"):
        dominating_pairs(Near())
    with pytest.raises(AssertionError, match="does not dominate its law of inputs 0 and 1"):
        check_randomizer(Near())
    assert dominating_pairs(Far()).pairs == (ThreePoint.binary(Fraction(4)),)


class Honest(KeepUniform, frozen=True):
    """Reports the answer but for one time in ten, and inherits the law of another draw."""

    def row(self, code: int) -> list[Fraction]:
        return [Fraction(9, 10) if report == code else Fraction(1, 20) for report in range(3)]

    def randomize(self, codes: Any, stream: Stream) -> Any:
        return KeepUniform(3, 17 * WORDS // 20).randomize(codes, stream)


class Classed(Honest, frozen=True):
    """Brings its law by classes, and inherits the table of another draw."""

    def law(self, first: int, second: int) -> tuple[OutputClass, ...]:
        rows = [KeepUniform(3, WORDS // 10).row(code) for code in (first, second)]
        return tuple(OutputClass(one, other) for one, other in zip(*rows, strict=True))

    def randomize(self, codes: Any, stream: Stream) -> Any:
        return KeepUniform(3, WORDS // 10).randomize(codes, stream)


@pytest.mark.parametrize(
    ("randomizer", "why"),
    [
        (Honest(3, WORDS // 4), "by a row of its own, and inherits another law from 'KeepUniform'"),
        (Classed(3, WORDS // 4), "by a law of its own, and inherits another row from 'Honest'"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_law_and_a_table_of_two_draws_are_refused(randomizer: Randomizer, why: str) -> None:
    for ask in (stated_epsilon, dominating_pairs, known, check_stated):
        with pytest.raises(UnsupportedEventError, match=why):
            ask(randomizer)


class Wider(SubsetSelection, frozen=True):
    """A set of codes that holds the answer more often than the class it is derived from says."""

    @property
    def wider(self) -> SubsetSelection:
        return SubsetSelection(self.size, self.chosen, 9 * WORDS // 10)

    @property
    def epsilon(self) -> float:
        return self.wider.epsilon

    def law(self, first: int, second: int) -> tuple[OutputClass, ...]:
        return self.wider.law(first, second)

    def randomize(self, codes: Any, stream: Stream) -> Any:
        return self.wider.randomize(codes, stream)


class Redrawing(Coin, frozen=True):
    """Says how often it redraws."""

    @property
    def redrawn(self) -> Fraction:
        return Fraction(1, 2)


class Keeping(Redrawing, frozen=True):
    """Redraws less often."""

    def randomize(self, codes: Any, stream: Stream) -> Any:
        return codes ^ stream.bernoulli(WORDS // 8, codes.shape)

    def row(self, code: int) -> list[Fraction]:
        return [Fraction(7, 8), Fraction(1, 8)][:: 1 if code == 0 else -1]


def test_what_is_inherited_from_another_draw_is_not_believed() -> None:
    own, wider = Wider(5, 2, WORDS // 2), SubsetSelection(5, 2, 9 * WORDS // 10)
    assert stated_epsilon(own) == wider.epsilon
    assert own.best_guess() == 0.25
    assert best_guess_through([own]) is None
    assert dominating_pairs(own).pairs == wider.dominating.pairs
    assert redrawn_through(Redrawing()) == Fraction(1, 2)
    assert redrawn_through(Keeping()) is None


class Unlike(Randomizer, frozen=True):
    """Says that all inputs are told apart alike; two in the middle are told apart better."""

    symmetric = True

    @property
    def size(self) -> int:
        return 5

    def randomize(self, codes: Any, stream: Stream) -> Any:
        return codes

    def law(self, first: int, second: int) -> tuple[OutputClass, ...]:
        likely = Fraction(99, 100) if {first, second} == {1, 3} else Fraction(6, 10)
        return (OutputClass(likely, 1 - likely), OutputClass(1 - likely, likely))


class Middle(Randomizer, frozen=True):
    """States the epsilon of neighbours; of two inputs that are not it is larger."""

    inputs: int

    @property
    def size(self) -> int:
        return self.inputs

    @property
    def epsilon(self) -> float:
        return math.log(5.1)

    def randomize(self, codes: Any, stream: Stream) -> Any:
        return codes


class MiddleRows(Middle, frozen=True):
    """As a table."""

    def row(self, code: int) -> list[Fraction]:
        one = {4: Fraction(1, 10), 7: Fraction(9, 10)}.get(code, Fraction(1, 2))
        return [one, 1 - one]


class MiddleClasses(Middle, frozen=True):
    """By classes."""

    def law(self, first: int, second: int) -> tuple[OutputClass, ...]:
        rows = [MiddleRows(self.inputs).row(code) for code in (first, second)]
        return tuple(OutputClass(one, other) for one, other in zip(*rows, strict=True))


@pytest.mark.parametrize(
    "randomizer",
    [Unlike(), *(MiddleRows(n) for n in (16, 17, 65, 1024)), MiddleClasses(64)],
    ids=str,
)
def test_inputs_in_the_middle_are_compared_too(randomizer: Randomizer) -> None:
    with pytest.raises(UnsupportedEventError, match=r"states epsilon .*, and its law has [24]\."):
        stated_epsilon(randomizer)


@pytest.mark.parametrize("code", [0, 1, 11, 19, 20])
def test_every_row_of_a_table_is_a_law(code: int) -> None:
    class Torn(MiddleRows, frozen=True):
        def row(self, code: int) -> list[Fraction]:
            return [Fraction(1, 2), Fraction(1, 4 if code == torn else 2)]

    torn = code
    with pytest.raises(UnsupportedEventError, match=f"of input {code} .* sum to 0.75"):
        stated_epsilon(Torn(21))


def test_of_many_inputs_some_are_compared() -> None:
    assert some_pairs(MiddleRows(3)) == [(0, 1), (0, 2), (1, 2)]
    assert len(some_pairs(MiddleRows(16))) == 120
    found = some_pairs(MiddleRows(161))
    assert found[0] == (0, 160)
    assert found[1:] == [(10 * place, min(10 * place + 10, 160)) for place in range(16)]
    assert stated_epsilon(MiddleClasses(65)) == math.log(5.1)
    assert not held_epsilon(MiddleClasses(65)).complete
    assert held_epsilon(MiddleClasses(3)).complete
    assert held_epsilon(MiddleRows(3)).complete


class Paired(Coin, frozen=True):
    """Many dominating pairs."""

    pairs: int = 1
    distance: Fraction | None = None
    apart: bool = False

    @property
    def dominating(self) -> Dominating:
        ratios = [Fraction(3) + (place if self.apart else 0) for place in range(self.pairs)]
        distances = (self.distance or Fraction(1, 2) for _ in ratios)
        return Dominating(tuple(map(ThreePoint.bounded, ratios, distances)), False)


def test_many_dominating_pairs_are_held_against_the_law_too() -> None:
    assert len(dominating_pairs(Paired(pairs=9)).pairs or ()) == 9
    with pytest.raises(UnsupportedEventError, match="a dominating pair that does not dominate"):
        dominating_pairs(Paired(pairs=9, distance=Fraction(1, 1000)))
    assert len(dominating_pairs(Paired(pairs=8, apart=True)).pairs or ()) == 8
    with pytest.raises(UnsupportedEventError, match=r"has 9 dominating pairs, .* 19,683 ratios"):
        dominating_pairs(Paired(pairs=9, apart=True))
    with pytest.raises(UnsupportedEventError, match=r"has 65 dominating pairs, .* 131 ratios"):
        dominating_pairs(Paired(pairs=65))
