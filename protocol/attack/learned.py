"""Guesses learned from those trials of which the attacker knows the inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol.attack.columns import MISSING, Codes
from protocol.attack.declared import Guess, Guesses
from protocol.randomizers.exact import Floats

CATEGORIES = 128
"""The most values of a column that are distinguished; all rarer ones count as one."""

COMBINED = 24
"""The number of columns that are tried in pairs."""

SUMMED = 64
"""The most columns that add up to one score."""

SCREENED = 200
"""The number of columns that guesses are learned on."""

MARGIN = 0.05
"""The amount by which two columns, or a score, must be worth more than a single column."""

SHOWN = 3
"""The most values that an event names."""

_DENSE = 4096
_STEPS = 64
_SMALLEST_WEIGHT = 0.5


class _Lesson(NamedTuple):
    """Data to learn from.

    Args:
        bits: (n,) the input of each trial.
        parts: two of shape (n,): the trials to learn from, and the trials to judge by.
        z: the number of standard errors of a cautious estimate.
    """

    bits: NDArray[np.bool_]
    parts: tuple[NDArray[np.bool_], NDArray[np.bool_]]
    z: float


class _Coding(NamedTuple):
    """Coding of the values of a column.

    Args:
        size: the number of codes.
        values: the frequent values, with a last code for all others; None if values are codes.
        parts: for a pair of columns, the coding of each.
    """

    size: int
    values: Codes | None = None
    parts: tuple[_Coding, ...] = ()

    def apply(self, column: Codes) -> NDArray[np.intp]:
        if self.values is None:
            inside = (column >= 0) & (column < self.size - 1)
            return np.where(inside, column, self.size - 1).astype(np.intp)
        places = np.minimum(np.searchsorted(self.values, column), len(self.values) - 1)
        return np.where(self.values[places] == column, places, self.size - 1).astype(np.intp)

    def name(self, place: int) -> str:
        if self.parts:
            one, other = self.parts
            return f"({one.name(place // other.size)}, {other.name(place % other.size)})"
        if place == self.size - 1:
            return "any other"
        value = place if self.values is None else int(self.values[place])
        return "nothing" if value == MISSING else str(value)


class _Learned(NamedTuple):
    """A column with its learned counts.

    Args:
        worth: a cautious estimate of the epsilon that it shows.
        codes: the code of every trial.
        parts: counts of each value in each half of the taught trials, (2, size) each.
        z: the number of standard errors of a cautious estimate.
        scored: whether the values are steps of a score.
    """

    name: str
    coding: _Coding
    worth: float
    codes: NDArray[np.intp]
    parts: tuple[Codes, Codes]
    z: float
    scored: bool = False

    @property
    def scores(self) -> Floats:
        """Score of every value for the second input."""
        return _class_scores(self.parts[0] + self.parts[1])

    @property
    def table(self) -> Guesses:
        """Guess for every value."""
        return _guess_table(self.parts[0] + self.parts[1], self.z)

    @property
    def words(self) -> str:
        table = self.table
        decisive = np.flatnonzero(table)
        loudest = decisive[np.argsort(-np.abs(self.scores[decisive]), kind="stable")]
        if self.scored or not len(decisive):
            return self.name
        sides = []
        for side, input_ in ((-1, "first"), (1, "second")):
            places = loudest[table[loudest] == side].tolist()
            names = ", ".join(map(self.coding.name, places[:SHOWN]))
            more = f" and {len(places) - SHOWN} more" if len(places) > SHOWN else ""
            if places:
                sides.append(f"{names}{more} for the {input_} input")
        return f"{self.name}: {'; '.join(sides)}"


def learned_guess(
    columns: Mapping[str, Codes],
    ratios: Floats | None,
    bits: NDArray[np.bool_],
    taught: NDArray[np.bool_],
    *,
    z: float,
) -> Guess | None:
    """The best guess that some of the trials teach, on one column, two of them, or their sum.

    Args:
        columns: by name, (n,) each.
        ratios: (n,) log likelihood ratios by the declared laws, if there are any.
        bits: (n,) the input of each trial.
        taught: (n,) the trials with known ``bits``.
        z: the number of standard errors of a cautious estimate.

    Returns:
        None if the taught trials do not differ.
    """
    lesson = _Lesson(bits, _halves(taught), z)
    found = [_declared(ratios, lesson)] if ratios is not None and ratios.any() else []
    found += [
        _fitted(name, coding, codes, lesson)
        for name, coding, codes in _screened(columns, bits, taught)
    ]
    if not found:
        return None
    ranked = sorted(found, key=lambda one: -one.worth)
    best = ranked[0]
    chosen = combinations(_candidates(ranked, found), 2)
    pairs = [_paired(one, other, lesson) for one, other in chosen]
    for pair in pairs:
        if pair is not None and pair.worth > best.worth + MARGIN:
            best = pair
    # A pair of two columns is better than their sum.
    if len(ranked) > 2 or None in pairs:
        summed = _summed(ranked[:SUMMED], taught, lesson)
        best = summed if summed.worth > best.worth + MARGIN else best
    return Guess(best.words, best.table[best.codes])


def _halves(taught: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Split the taught trials in two, alternating."""
    odd = np.cumsum(taught) % 2 == 1
    return taught & odd, taught & ~odd


def _screened(
    columns: Mapping[str, Codes], bits: NDArray[np.bool_], taught: NDArray[np.bool_]
) -> list[tuple[str, _Coding, NDArray[np.intp]]]:
    """The columns that differ most between the inputs, and the first with few values."""
    coded, signs = [], []
    few: list[bool] = []
    for name, column in columns.items():
        known = column[taught]
        if not len(known) or known.min() == known.max():
            continue
        coding = _coded(known)
        codes = coding.apply(column)
        counts = _counted(codes, bits, taught, coding.size)
        few.append(coding.size <= math.isqrt(_DENSE) and sum(few) < COMBINED)
        signs.append(_difference(counts))
        coded.append((name, coding, codes))
    order = np.argsort(-np.array(signs), kind="stable")[:SCREENED].tolist()
    chosen = {*order, *(place for place, wanted in enumerate(few) if wanted)}
    return [coded[place] for place in sorted(chosen)]


def _difference(counts: Codes) -> float:
    """Pearson's statistic of two rows of counts, in standard deviations from its mean."""
    totals = counts.sum(axis=0)
    kept = totals > 0
    rows = counts[:, kept].sum(axis=1, keepdims=True) / max(1, counts.sum())
    expected = np.maximum(rows * totals[kept], 1e-9)
    statistic = float(((counts[:, kept] - expected) ** 2 / expected).sum())
    freedom = max(1, int(kept.sum()) - 1)
    return (statistic - freedom) / math.sqrt(2 * freedom)


def _coded(known: Codes) -> _Coding:
    if known.min() >= 0 and known.max() < CATEGORIES - 1:
        return _Coding(int(known.max()) + 2)
    values, counts = np.unique(known, return_counts=True)
    frequent = np.sort(np.argsort(-counts, kind="stable")[: CATEGORIES - 1])
    return _Coding(len(frequent) + 1, values[frequent])


def _declared(ratios: Floats, lesson: _Lesson) -> _Learned:
    coded = np.round(np.clip(ratios, -1e3, 1e3) * 1e9).astype(np.int64)
    if len(np.unique(coded)) >= CATEGORIES:
        bounds = np.unique(np.quantile(coded, np.linspace(0, 1, CATEGORIES - 2)))
        coded = np.searchsorted(bounds, coded).astype(np.int64)
    coding = _coded(coded)
    name = "the declared likelihood ratio"
    return _fitted(name, coding, coding.apply(coded), lesson)._replace(scored=True)


def _paired(one: _Learned, other: _Learned, lesson: _Lesson) -> _Learned | None:
    size = one.coding.size * other.coding.size
    if size > _DENSE:
        return None
    codes = one.codes * other.coding.size + other.codes
    names = f"{one.name} with {other.name}"
    return _fitted(names, _Coding(size, parts=(one.coding, other.coding)), codes, lesson)


def _summed(parts: Sequence[_Learned], taught: NDArray[np.bool_], lesson: _Lesson) -> _Learned:
    """The sum of the scores of several columns, which are taken to be independent.

    Each half of the taught trials gets the scores that the other half teaches. Its own would make
    the sum look better than it is.
    """
    score = np.sum([part.scores[part.codes] for part in parts], axis=0)
    for own, other in ((0, 1), (1, 0)):
        place = lesson.parts[own]
        scores = [_class_scores(part.parts[other])[part.codes[place]] for part in parts]
        score[place] = np.sum(scores, axis=0)
    bounds = np.unique(np.quantile(score[taught], np.linspace(0, 1, _STEPS)))
    codes = np.searchsorted(bounds, score)
    name = f"a score of {len(parts)} columns, {parts[0].name} first"
    return _fitted(name, _Coding(len(bounds) + 1), codes, lesson)._replace(scored=True)


def _candidates(ranked: list[_Learned], found: list[_Learned]) -> list[_Learned]:
    """Columns to try in pairs: the best ones, plus the first few with few distinct values."""
    few = [one for one in found if one.coding.size <= math.isqrt(_DENSE)]
    chosen = {id(one): one for one in (*ranked[: COMBINED // 2], *few[: COMBINED // 2])}
    return list(chosen.values())


def _fitted(name: str, coding: _Coding, codes: NDArray[np.intp], lesson: _Lesson) -> _Learned:
    """Select the values to guess at: the most telling ones, as many as are worth it.

    The worth is judged on other trials than it is learned from. Otherwise the column with the most
    values would always seem best.
    """
    first, second = (_counted(codes, lesson.bits, part, coding.size) for part in lesson.parts)
    worth = _cautious_epsilon(second, _guess_table(first, lesson.z), lesson.z)
    return _Learned(name, coding, worth, codes, (first, second), lesson.z)


def _counted(
    codes: NDArray[np.intp], bits: NDArray[np.bool_], part: NDArray[np.bool_], size: int
) -> Codes:
    together = codes[part] + size * bits[part]
    return np.bincount(together, minlength=2 * size).reshape(2, size).astype(np.int64)


def _class_scores(counts: Codes) -> Floats:
    weights = counts + _SMALLEST_WEIGHT
    scores: Floats = np.log(weights[1] / weights[1].sum()) - np.log(weights[0] / weights[0].sum())
    return scores


def _guess_table(counts: Codes, z: float) -> Guesses:
    """Guess for every value, from its counts."""
    size = counts.shape[1]
    order = np.argsort(-_class_scores(counts), kind="stable")
    top = _best(counts[1][order], counts[0][order], z)
    bottom = _best(counts[0][order[::-1]], counts[1][order[::-1]], z)
    tables = []
    for upper, lower in ((top, 0), (0, bottom), (top, bottom)):
        if upper + lower <= size:
            table = np.zeros(size, np.int8)
            table[order[:upper]] = 1
            table[order[size - lower :]] = -1
            tables.append(table)
    return max(tables, key=lambda table: _cautious_epsilon(counts, table, z))


def _best(right: Codes, wrong: Codes, z: float) -> int:
    """Number of leading values that are worth most together."""
    rights, wrongs = np.cumsum(right), np.cumsum(wrong)
    return int(np.argmax(_cautious(rights, rights + wrongs, z))) + 1


def _cautious_epsilon(counts: Codes, table: Guesses, z: float) -> float:
    """A cautious estimate of the epsilon that these guesses show."""
    second, first = table > 0, table < 0
    right = float(counts[1][second].sum() + counts[0][first].sum())
    wrong = float(counts[0][second].sum() + counts[1][first].sum())
    # The same as _cautious, which takes long for a single number.
    n = max(right + wrong, 1.0)
    share = right / n
    spread = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low = (share + z * z / (2 * n) - spread) / (1 + z * z / n)
    low = min(max(low, 1e-12), 1 - 1e-12)
    return math.log(low) - math.log1p(-low)


def _cautious(right: Codes, guesses: Codes, z: float) -> Floats:
    """Log odds of a right guess, at the lower end of Wilson's interval."""
    n = np.maximum(guesses, 1).astype(np.float64)
    share = right / n
    spread = z * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low = (share + z * z / (2 * n) - spread) / (1 + z * z / n)
    low = np.clip(low, 1e-12, 1 - 1e-12)
    return np.log(low) - np.log1p(-low)
