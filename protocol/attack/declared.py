"""How an attacker guesses by the laws that a variant declares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from protocol.accounting.events import Composed, PrivacyEvent, Randomized
from protocol.attack.columns import Codes
from protocol.errors import UnsupportedEventError
from protocol.messages import Message
from protocol.randomizers import Randomizer
from protocol.randomizers.exact import Floats
from protocol.randomizers.vetting import known, refusing
from protocol.surveys.survey import Survey

Guesses: TypeAlias = NDArray[np.int8]
"""Of every trial: 1 and -1 for the second and the first input, 0 for no guess."""


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

    A message whose event is a draw of a randomizer, and that has one array of its reports, holds a
    report of each of k respondents; so does one of a draw of each of several randomizers, with an
    array of k rows of their reports, one after the other. It is None for any other, and where a
    law is not known.

    Args:
        codes: (m,) the records under the first and the second input.

    Returns:
        (k,) in nats.
    """
    parts = _parts_of(event)
    draws = [_known(part, survey) for part in parts]
    known_draws = [draw for draw in draws if draw is not None]
    if not parts or len(known_draws) < len(draws):
        return None
    fitting = [columns for a in _arrays_of(message) if (columns := _columns(a, known_draws))]
    if len(fitting) != 1:
        return None
    total = np.zeros(len(fitting[0][0]))
    for draw, part, reports in zip(known_draws, parts, fitting[0], strict=True):
        first, second = (_cell(part.attributes, survey, record) for record in codes)
        if first != second:
            try:
                with refusing(draw):
                    total += draw.log_ratios(reports, first, second)
            except UnsupportedEventError:
                return None
    return total


def _known(part: Randomized, survey: Survey) -> Randomizer | None:
    """The randomizer of an event, if its law is known and is of these attributes."""
    size = math.prod(survey.sizes[axis] for axis in survey.axes(part.attributes))
    try:
        draw = known(part.randomizer)
        return draw if draw.size == size else None
    except UnsupportedEventError:
        return None


def _parts_of(event: PrivacyEvent) -> tuple[Randomized, ...]:
    match event:
        case Randomized():
            return (event,)
        case Composed(events) if all(isinstance(part, Randomized) for part in events):
            return tuple(part for part in events if isinstance(part, Randomized))
        case _:
            return ()


def _arrays_of(message: Message) -> list[NDArray[np.generic]]:
    values = (getattr(message, field) for field in message.__struct_fields__)
    return [value for value in values if isinstance(value, np.ndarray) and value.ndim]


def _columns(
    array: NDArray[np.generic], draws: Sequence[Randomizer]
) -> list[NDArray[np.generic]] | None:
    """An array as the reports of each randomizer; None if it does not hold them."""
    if len(draws) == 1 and _fits(draws[0], array):
        return [array]
    try:
        with refusing(draws[0]):
            specs = [draw.report for draw in draws]
    except UnsupportedEventError:
        return None
    ends = np.cumsum([spec.longest for spec in specs])
    if array.ndim != 2 or array.shape[1] != ends[-1] or array.dtype.kind != "u":
        return None
    columns = [
        part.reshape(len(array), *spec.shape)
        for spec, part in zip(specs, np.split(array, ends[:-1], axis=1), strict=True)
    ]
    return columns if all(map(_fits, draws, columns)) else None


def _fits(draw: Randomizer, array: NDArray[np.generic]) -> bool:
    try:
        with refusing(draw):
            return draw.fits(array)
    except UnsupportedEventError:
        return False


def _cell(names: tuple[str, ...], survey: Survey, record: Codes) -> int:
    cell = 0
    for axis in survey.axes(names):
        cell = cell * survey.sizes[axis] + int(record[axis])
    return cell


def declared_guess(ratios: Floats) -> Guess:
    """Guess where the declared law speaks loudest; nothing is learned, so all trials count."""
    loudest = float(np.abs(ratios).max(initial=0.0))
    guesses = np.zeros(len(ratios), np.int8)
    if loudest > 0:
        margin = loudest * (1 - 1e-9)
        guesses[ratios >= margin] = 1
        guesses[ratios <= -margin] = -1
    return Guess("the declared likelihood ratio at its largest", guesses)
