"""Design weights: the strata of a sampling frame, and the parties in them.

A weight is the inverse of the probability to be drawn, times any constant. It follows from the
frame, so it is known before anybody answers, and it is public.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from protocol.errors import SurveyError
from protocol.surveys.survey import listed

MAX_STRATA = 256
"""The most strata of a survey."""

LEAST, MOST = 1e-9, 1e9
"""The range of weights, so that no sum of them overflows."""

_SHOWN = 8


def check_weights(weights: Mapping[str, float]) -> None:
    """Refuse weights that no sample is drawn with.

    Args:
        weights: by stratum.

    Raises:
        ValueError: no stratum, more than ``MAX_STRATA``, one without a name, or a weight out of
            range.
    """
    if not 1 <= len(weights) <= MAX_STRATA:
        raise ValueError(f"weights: {len(weights)} strata, expected 1 to {MAX_STRATA}")
    for name, weight in weights.items():
        if not name.strip():
            raise ValueError("weights: a stratum without a name")
        if not LEAST <= weight <= MOST:
            raise ValueError(
                f"weights: {name} = {weight}: expected a number above 0, from {LEAST:g} to {MOST:g}"
            )


def find_stratum(party: str, weights: Mapping[str, float]) -> str:
    """The stratum of a party: its name begins with that of the stratum and a hyphen.

    Of several such strata it is the longest.

    Args:
        party: its name on the roster.
        weights: by stratum.

    Raises:
        SurveyError: there is none.
    """
    found = max((name for name in weights if party.startswith(f"{name}-")), key=len, default=None)
    if found is None:
        names = listed(sorted(weights), _SHOWN)
        raise SurveyError(
            f"weights: party {party!r:.80} is in no stratum; expected a name that begins with one "
            f"of {names} and a hyphen, such as {min(weights)}-1"
        )
    return found


def check_strata(strata: Iterable[str], weights: Mapping[str, float]) -> None:
    """Refuse strata of respondents that have no weight.

    Args:
        strata: one for each respondent.
        weights: by stratum.

    Raises:
        SurveyError: names the first respondent of such a stratum.
    """
    for row, name in enumerate(strata, 1):
        if name not in weights:
            raise SurveyError(
                f"unknown stratum {name!r:.80}; weights has {listed(sorted(weights), _SHOWN)}",
                row=row,
            )
