"""Checked properties of a randomizer, for accountants, attackers and reports.

Every stated property is checked against the randomizer's own law, on some pairs of inputs; for the
project's own randomizers the tests do so. Of an object that only states its epsilon, nothing else
is known. A property counts only if it is given in the class that defines the drawing, or below: a
derived class that draws in another way needs a law of its own, and inherits nothing.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from numbers import Real
from typing import NamedTuple, TypeGuard

from protocol.errors import UnsupportedEventError
from protocol.randomizers.exact import log_fraction
from protocol.randomizers.pairs import Dominating, ThreePoint, count_ratios, excess, largest_ratio
from protocol.randomizers.randomizer import (
    MOST_INPUTS,
    MOST_ROWS,
    OutputClass,
    Randomizer,
    dominating_by_law,
    ratio_of_table,
)

MOST_COMPARED = 16
"""Up to so many inputs all are compared with each other; of more, some."""

MOST_PAIRS, MOST_RATIOS = 64, 2**13
"""The most dominating pairs of one randomizer, and the most ratios of their composition, that are
held against its law; more are refused."""

# How far a stated epsilon may be from the exact one, relative to it.
_ROUNDING = 1e-9


def is_randomizer(value: object) -> TypeGuard[Randomizer]:
    """Check whether a value, such as one that a file defines, is a randomizer."""
    return isinstance(value, Randomizer)


def stated_epsilon(randomizer: object) -> float:
    """The epsilon that a randomizer states, in nats.

    Raises:
        UnsupportedEventError: it states none, or less than its law has, or its law is malformed.
    """
    return _asked(randomizer).epsilon


def dominating_pairs(randomizer: object) -> Dominating:
    """The pairs of laws that dominate one draw.

    Raises:
        UnsupportedEventError: it does not bring them, or they do not dominate its law.
    """
    if math.isinf(_asked(randomizer).epsilon):
        return Dominating(None, False)
    return _dominating(randomizer)


def known(randomizer: object, what: str = "its law") -> Randomizer:
    """The same randomizer, if its law is known.

    Args:
        what: the purpose of the law, for the error.

    Raises:
        UnsupportedEventError: it has no law, or states another epsilon than the law has.
    """
    asked = _asked(randomizer)
    if not isinstance(randomizer, Randomizer) or asked.least is None:
        raise UnsupportedEventError(f"randomizer {_name(randomizer)} does not bring {what}")
    if asked.complete and asked.epsilon > asked.least * (1 + _ROUNDING):
        raise UnsupportedEventError(
            f"randomizer {_name(randomizer)} does not bring {what}: it states epsilon "
            f"{asked.epsilon:.9g}, and the law that it has {asked.least:.9g}"
        )
    return randomizer


def best_guess_through(randomizers: Sequence[object]) -> tuple[float, int] | None:
    """Probability of the best guess of an input that was reported through each of these.

    Returns:
        That, and the number of inputs; None if only epsilon bounds it.
    """
    try:
        first, *others = (known(one) for one in randomizers)
        with refusing(first):
            best = None if _is_stale(first, "best_guess") else first.best_guess(*others)
            return None if best is None else (best, first.size)
    except UnsupportedEventError:
        return None


def redrawn_through(randomizer: object) -> Fraction | None:
    """Bound on the chance that a report is drawn without a look at the input; None if unknown."""
    try:
        with refusing(randomizer):
            draw = known(randomizer)
            return None if _is_stale(draw, "redrawn") else draw.redrawn
    except UnsupportedEventError:
        return None


@contextlib.contextmanager
def refusing(randomizer: object) -> Iterator[None]:
    """Refuse a randomizer by name if its own code fails, as it may come from anybody.

    Raises:
        UnsupportedEventError: for any exception in the block.
    """
    try:
        yield
    except UnsupportedEventError:
        raise
    except Exception as error:
        raise UnsupportedEventError(
            f"randomizer {_name(randomizer)} fails: {type(error).__name__}: {error}"
        ) from error


def some_pairs(randomizer: Randomizer, most: int = MOST_COMPARED) -> list[tuple[int, int]]:
    """Some pairs of inputs: all if there are few; of more, neighbours and the first and last.

    Args:
        most: up to how many inputs are few.
    """
    size = randomizer.size
    if size <= most:
        return list(itertools.combinations(range(size), 2))
    steps = [size * place // MOST_COMPARED for place in range(MOST_COMPARED)]
    return [(0, size - 1), *itertools.pairwise([*steps, size - 1])]


def checked_law(randomizer: Randomizer, first: int, second: int) -> tuple[OutputClass, ...]:
    """The law of two inputs, if it is a pair of probability distributions.

    Raises:
        UnsupportedEventError: it is not; the message names the input and the fault.
    """
    law = randomizer.law(first, second)
    given = ([part.first for part in law], [part.second for part in law])
    for code, shares in zip((first, second), given, strict=True):
        what = f"randomizer {_name(randomizer)}, its law of input {code} of {first} and {second}"
        if not shares or not all(isinstance(share, Fraction | int) for share in shares):
            raise UnsupportedEventError(f"{what}: expected exact probabilities, as Fractions")
        if min(shares) < 0 or sum(shares) != 1:
            raise UnsupportedEventError(
                f"{what}: the probabilities sum to {float(sum(shares)):.9g} and the least is "
                f"{float(min(shares)):.9g}; expected a probability distribution"
            )
    return law


class Stated(NamedTuple):
    """Statements of a randomizer about itself.

    Args:
        epsilon: the stated epsilon.
        least: the least epsilon by its law; None without a law.
        complete: whether that covers all inputs.
    """

    epsilon: float
    least: float | None
    complete: bool


@lru_cache(maxsize=1024)
def _asked(randomizer: object) -> Stated:
    if isinstance(randomizer, Randomizer) and _is_own(randomizer):
        lawful = gives(randomizer, "law") or gives(randomizer, "row")
        return Stated(randomizer.epsilon, randomizer.epsilon if lawful else None, True)
    return held_epsilon(randomizer)


def held_epsilon(randomizer: object) -> Stated:
    """Check a randomizer's statements against its law, also for the project's own.

    Raises:
        UnsupportedEventError: as ``stated_epsilon``.
    """
    with refusing(randomizer):
        epsilon: object = getattr(randomizer, "epsilon", None)
        law = _law_epsilon(randomizer) if isinstance(randomizer, Randomizer) else None
    if not (isinstance(epsilon, Real) and float(epsilon) >= 0):
        raise UnsupportedEventError(
            f"randomizer {_name(randomizer)} has epsilon {epsilon!r}: expected a number of at "
            "least 0"
        )
    stated = float(epsilon)
    if law is None:
        if isinstance(randomizer, Randomizer) and not gives(randomizer, "epsilon"):
            raise UnsupportedEventError(
                f"randomizer {_name(randomizer)} draws in its own way: expected its law, or an "
                "epsilon of its own"
            )
        return Stated(stated, None, False)
    least, complete = law
    if least > stated * (1 + _ROUNDING):
        raise UnsupportedEventError(
            f"randomizer {_name(randomizer)} states epsilon {stated:.9g}, and its law has "
            f"{least:.9g}"
        )
    return Stated(stated, least, complete)


def _law_epsilon(randomizer: Randomizer) -> tuple[float, bool] | None:
    """The epsilon of the law on some inputs, and whether they stand for all; None without a law."""
    if not (gives(randomizer, "law") or gives(randomizer, "row")):
        return None
    for own, other in (("law", "row"), ("row", "law")):
        if gives(randomizer, own) and _is_stale(randomizer, other):
            raise UnsupportedEventError(
                f"randomizer {_name(randomizer)} draws by a {own} of its own, and inherits another "
                f"{other} from {_owner(randomizer, other).__name__!r}: expected both, or a base "
                "without"
            )
    size, tabled = randomizer.size, _owner(randomizer, "law") is Randomizer
    if tabled and MOST_COMPARED < size <= MOST_ROWS:
        # For a table the largest ratio is found without comparing every two rows.
        for code in range(0, size, 2):
            checked_law(randomizer, code, (code + 1) % size)
        ratios = [ratio_of_table(randomizer)]
    else:
        most = MOST_COMPARED if randomizer.symmetric else MOST_INPUTS
        laws = (checked_law(randomizer, *pair) for pair in some_pairs(randomizer, most))
        ratios = [largest_ratio([part[:2] for part in law]) for law in laws]
    least = max((math.inf if one is None else log_fraction(one) for one in ratios), default=0.0)
    return least, randomizer.symmetric or size <= (MOST_ROWS if tabled else MOST_INPUTS)


@lru_cache(maxsize=1024)
def _dominating(randomizer: object) -> Dominating:
    if isinstance(randomizer, Randomizer) and _is_own(randomizer):
        return randomizer.dominating
    return held_dominating(randomizer)


def held_dominating(randomizer: object) -> Dominating:
    """The dominating pairs of a randomizer, checked against its law, also for the project's own.

    Raises:
        UnsupportedEventError: as ``dominating_pairs``.
    """
    asked = _asked(randomizer)
    what = "its dominating pair"
    if asked.least is not None:
        known(randomizer, what)
    if not isinstance(randomizer, Randomizer) or not (
        asked.least is not None or gives(randomizer, "dominating")
    ):
        raise UnsupportedEventError(f"randomizer {_name(randomizer)} does not bring {what}")
    with refusing(randomizer):
        stale = _is_stale(randomizer, "dominating")
        found = dominating_by_law(randomizer) if stale else randomizer.dominating
    if not isinstance(found, Dominating) or not all(
        isinstance(pair, ThreePoint) for pair in found.pairs or ()
    ):
        raise UnsupportedEventError(
            f"randomizer {_name(randomizer)} has dominating pair {found!r}: expected a Dominating"
        )
    if found.pairs is not None:
        _check_dominating(randomizer, found.pairs, asked)
    return found


def check_stated(randomizer: object) -> None:
    """Check all statements of a randomizer against its law, also for the project's own.

    Properties that it does not state are skipped.

    Raises:
        UnsupportedEventError: a statement is malformed, or contradicts its law.
    """
    asked = held_epsilon(randomizer)
    if not isinstance(randomizer, Randomizer):
        return
    if math.isfinite(asked.epsilon) and gives(randomizer, "dominating"):
        held_dominating(randomizer)


def _check_dominating(randomizer: Randomizer, pairs: Sequence[ThreePoint], asked: Stated) -> None:
    """Refuse pairs with less than the stated epsilon, or that do not dominate the law."""
    whole = math.fsum(pair.epsilon for pair in pairs)
    if whole < asked.epsilon * (1 - _ROUNDING):
        raise UnsupportedEventError(
            f"randomizer {_name(randomizer)} states epsilon {asked.epsilon:.9g}, and its "
            f"dominating pair has {whole:.9g}"
        )
    if asked.least is None:
        return
    ratios = count_ratios(pairs)
    if len(pairs) > MOST_PAIRS or ratios > MOST_RATIOS:
        raise UnsupportedEventError(
            f"randomizer {_name(randomizer)} has {len(pairs):,} dominating pairs, and their "
            f"composition {ratios:,} ratios: at most {MOST_PAIRS} and {MOST_RATIOS:,} can be held "
            "against its law"
        )
    for first, second in some_pairs(randomizer):
        law = [part[:2] for part in randomizer.law(first, second)]
        if excess(law, pairs) > 0:
            raise UnsupportedEventError(
                f"randomizer {_name(randomizer)} has a dominating pair that does not dominate its "
                f"law of inputs {first} and {second}"
            )


def _is_own(randomizer: Randomizer) -> bool:
    """Check whether a randomizer's class is the project's own, and so covered by its tests."""
    return type(randomizer).__module__.startswith("protocol.randomizers.")


def gives(randomizer: Randomizer, what: str) -> bool:
    """Check whether a fact is given by the class that draws, or by one derived from it."""
    giver, drawer = _owner(randomizer, what), _owner(randomizer, "randomize")
    return giver is not Randomizer and issubclass(giver, drawer)


def _is_stale(randomizer: Randomizer, what: str) -> bool:
    """Check whether a fact is inherited from a class with another way to draw."""
    return _owner(randomizer, what) is not Randomizer and not gives(randomizer, what)


def _owner(randomizer: Randomizer, name: str) -> type:
    return next(cls for cls in type(randomizer).__mro__ if name in vars(cls))


def _name(randomizer: object) -> str:
    return repr(type(randomizer).__name__)
