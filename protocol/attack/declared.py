"""How an attacker guesses by the laws that a variant declares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from protocol.accounting.events import Composed, PrivacyEvent, Randomized
from protocol.attack.columns import Codes
from protocol.messages import Message
from protocol.randomizers import KeepElseTable, KeepUniform, MatrixRandomizer
from protocol.surveys.survey import Survey

Floats: TypeAlias = NDArray[np.float64]
Guesses: TypeAlias = NDArray[np.int8]
"""Of every trial: 1 and -1 for the second and the first input, 0 for no guess."""

_DENSE = 4096


class Guess(NamedTuple):
    """An event on a view that speaks for one of two inputs.

    Args:
        words: what it is.
        guesses: what it says of every trial.
    """

    words: str
    guesses: Guesses


def log_ratios(
    message: Message, event: PrivacyEvent, survey: Survey, codes: tuple[Codes, Codes]
) -> Floats | None:
    """How much likelier a message is under the second input than under the first, by its event.

    A message whose event is a draw of each of b randomizers, and that has one array of (k, b)
    reports that fit them, holds a report of each of k respondents. It is None for any other.

    Args:
        codes: (m,) the records under the first and the second input.

    Returns:
        (k,) in nats.
    """
    parts = _parts_of(event)
    sizes = [
        math.prod(survey.sizes[axis] for axis in survey.axes(part.attributes)) for part in parts
    ]
    if not parts or any(
        getattr(part.randomizer, "size", None) != size
        for part, size in zip(parts, sizes, strict=True)
    ):
        return None
    fitting = [reports for reports in _arrays_of(message) if _fit(reports, sizes)]
    if len(fitting) != 1:
        return None
    reports = fitting[0]
    total = np.zeros(len(reports))
    for column, part in enumerate(parts):
        first, second = (_cell(part.attributes, survey, record) for record in codes)
        if first == second:
            continue
        law = _column_law(part, reports[:, column], (first, second))
        if law is None:
            return None
        total += law
    return total


def _parts_of(event: PrivacyEvent) -> tuple[Randomized, ...]:
    match event:
        case Randomized():
            return (event,)
        case Composed(events) if all(isinstance(part, Randomized) for part in events):
            return tuple(part for part in events if isinstance(part, Randomized))
        case _:
            return ()


def _arrays_of(message: Message) -> list[NDArray[np.unsignedinteger]]:
    values = (getattr(message, field) for field in message.__struct_fields__)
    arrays = [
        value for value in values if isinstance(value, np.ndarray) and value.dtype.kind == "u"
    ]
    return [array[:, np.newaxis] if array.ndim == 1 else array for array in arrays]


def _fit(reports: NDArray[np.unsignedinteger], sizes: Sequence[int]) -> bool:
    if reports.ndim != 2 or reports.shape[1] != len(sizes):
        return False
    return bool((reports < np.array(sizes, np.uint64)).all())


def _cell(names: tuple[str, ...], survey: Survey, record: Codes) -> int:
    cell = 0
    for axis in survey.axes(names):
        cell = cell * survey.sizes[axis] + int(record[axis])
    return cell


def _column_law(
    part: Randomized, reports: NDArray[np.unsignedinteger], cells: tuple[int, int]
) -> Floats | None:
    randomizer = part.randomizer
    first, second = cells
    match randomizer:
        case KeepUniform():
            gain = math.log(randomizer.diagonal / randomizer.off_diagonal)
            side: Floats = (reports == second).astype(np.float64) - (reports == first)
            return gain * side
        case KeepElseTable() | MatrixRandomizer() if randomizer.size <= _DENSE:
            law = np.array([_log_of(randomizer, cell) for cell in (second, first)])
            with np.errstate(invalid="ignore"):
                differences = law[0] - law[1]
            found: Floats = np.nan_to_num(differences)[reports.astype(np.intp)]
            return found
        case _:
            return None


def _log_of(randomizer: KeepElseTable | MatrixRandomizer, cell: int) -> Floats:
    if isinstance(randomizer, MatrixRandomizer):
        row = np.array(randomizer.weights[cell], np.float64)
    else:
        row = (1.0 - randomizer.keep) * randomizer.table
        row[cell] += randomizer.keep
    with np.errstate(divide="ignore"):
        return np.log(row)


def declared_guess(ratios: Floats) -> Guess:
    """Guess where the declared law speaks loudest; nothing is learned, so all trials count."""
    loudest = float(np.abs(ratios).max(initial=0.0))
    guesses = np.zeros(len(ratios), np.int8)
    if loudest > 0:
        margin = loudest * (1 - 1e-9)
        guesses[ratios >= margin] = 1
        guesses[ratios <= -margin] = -1
    return Guess("the declared likelihood ratio at its largest", guesses)
