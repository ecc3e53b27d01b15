"""Guesses by the declared laws of a variant's randomizers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from protocol.accounting.events import Composed, PrivacyEvent, Randomized, single_events
from protocol.attack.columns import Codes
from protocol.errors import UnsupportedEventError
from protocol.messages import Message
from protocol.randomizers import join_codes
from protocol.randomizers.exact import Floats
from protocol.randomizers.vetting import known, refusing
from protocol.session.variant import Drawn, Variant
from protocol.surveys.records import Records

Guesses: TypeAlias = NDArray[np.int8]
"""Guess of every trial: 1 for the second input, -1 for the first, 0 for none."""


class Guess(NamedTuple):
    """A rule that guesses the input of a trial from its view.

    Args:
        words: its description.
        guesses: for every trial.
    """

    words: str
    guesses: Guesses


def log_ratios(
    message: Message, event: PrivacyEvent, variant: Variant, codes: tuple[Codes, Codes]
) -> Floats | None:
    """Log likelihood ratio of a message, the second input to the first, by its event.

    Args:
        variant: as it is in the run.
        codes: (m,) the records under the first and the second input.

    Returns:
        (k,) of each respondent with a report in it, in nats; None if ``drawn_in`` finds none.
    """
    survey = variant.survey
    found = drawn_in(message, event, variant, Records(survey, np.stack(codes).astype(survey.dtype)))
    if found is None:
        return None
    respondents = np.concatenate([part.respondents for part, _ in found])
    total = np.zeros(1 + int(respondents.max(initial=0)))
    for part, (first, second) in found:
        draw = part.event.randomizer
        if first != second:
            try:
                with refusing(draw):
                    ratios = draw.log_ratios(part.reports, first, second)
            except UnsupportedEventError:
                return None
            np.add.at(total, part.respondents, ratios)
    return total


def drawn_in(
    message: Message, event: PrivacyEvent, variant: Variant, records: Records
) -> list[tuple[Drawn, list[int]]] | None:
    """The reports in a message, and the randomizer's inputs for some records.

    Args:
        variant: as it is in the run. Its ``drawn`` gives the places of the reports, else they are
            looked for.

    Returns:
        The reports of every draw in the event; None if a law is unknown, or reports are not found.
    """
    draws = {part for part in single_events(event) if isinstance(part, Randomized)}
    given = variant.drawn(message, event, records)
    parts = _search_reports(message, event) if given is None else given
    if not draws or {part.event for part in parts} != draws:
        return None
    found = [
        (part, inputs)
        for part in parts
        if _fits(part) and (inputs := _inputs(part, records)) is not None
    ]
    return found if len(found) == len(parts) else None


def _search_reports(message: Message, event: PrivacyEvent) -> list[Drawn]:
    """The reports of an event's draws, from the only array that fits; else empty."""
    events = event.events if isinstance(event, Composed) else (event,)
    draws = [part for part in events if isinstance(part, Randomized)]
    values = (getattr(message, field) for field in message.__struct_fields__)
    arrays = [value for value in values if isinstance(value, np.ndarray) and value.ndim]
    fitting = [found for array in arrays if (found := _columns(array, draws))]
    return fitting[0] if len(draws) == len(events) and len(fitting) == 1 else []


def _columns(array: NDArray[np.generic], draws: Sequence[Randomized]) -> list[Drawn]:
    """The reports of each draw in an array; empty if it does not hold them."""
    rows = np.arange(len(array))
    if len(draws) == 1 and _fits(whole := Drawn(draws[0], rows, array)):
        return [whole]
    try:
        with refusing(draws[0].randomizer if draws else None):
            specs = [draw.randomizer.report for draw in draws]
    except UnsupportedEventError:
        return []
    ends = np.cumsum([spec.longest for spec in specs])
    if not specs or array.ndim != 2 or array.shape[1] != ends[-1] or array.dtype.kind != "u":
        return []
    columns = [
        Drawn(draw, rows, part.reshape(len(array), *spec.shape))
        for draw, spec, part in zip(draws, specs, np.split(array, ends[:-1], axis=1), strict=True)
    ]
    return columns if all(map(_fits, columns)) else []


def _fits(part: Drawn) -> bool:
    """Check whether a part holds reports, a row each, of a randomizer with a known law."""
    try:
        draw = known(part.event.randomizer)
        with refusing(draw):
            return len(part.respondents) == len(part.reports) and draw.fits(part.reports)
    except UnsupportedEventError:
        return False


def _inputs(part: Drawn, records: Records) -> list[int] | None:
    """Inputs of some records; None if unknown."""
    if part.inputs is not None:
        return [int(code) for code in part.inputs]
    return record_inputs(part.event, records)


def record_inputs(draw: Randomized, records: Records) -> list[int] | None:
    """Inputs of some records, of a randomizer on the combinations of its attributes.

    Returns:
        None if the randomizer has another number of inputs.
    """
    axes = list(records.survey.axes(draw.attributes))
    sizes = [records.survey.sizes[axis] for axis in axes]
    try:
        with refusing(draw.randomizer):
            if draw.randomizer.size != math.prod(sizes):
                return None
    except UnsupportedEventError:
        return None
    return [int(code) for code in join_codes(records.codes[:, axes], sizes)]


def declared_guess(ratios: Floats, *, least: float = math.inf) -> Guess:
    """Guess where the declared likelihood ratio is largest; all trials count, as none teaches.

    Args:
        least: guess too where the ratio is at least this. At a delta, the event that the ratio is
            at least the ledger's epsilon is closest to the ledger's bound.
    """
    loudest = float(np.abs(ratios).max(initial=0.0))
    guesses = np.zeros(len(ratios), np.int8)
    where = "its largest" if loudest <= least else "the ledger's figure"
    if loudest > 0:
        margin = min(loudest, least) * (1 - 1e-9)
        guesses[(ratios >= margin) & (ratios > 0)] = 1
        guesses[(ratios <= -margin) & (ratios < 0)] = -1
    return Guess(f"the declared likelihood ratio at {where}", guesses)
