"""Two tiers: of many alike cases the fast one takes a few, and the whole one takes all.

``make test`` runs the fast tier: all that is not marked ``slow``. ``make test-all`` runs the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

ParameterSet = type(pytest.param())


def thinned(cases: Iterable[Any], keep: int) -> list[Any]:
    """The cases, of which so many are in the fast tier: the first, the last, and some between.

    Args:
        cases: the values of one parameter, tuples of those of several, or made by ``pytest.param``.
        keep: how many are in the fast tier.
    """
    found = list(cases)
    if not 0 < keep < len(found):
        raise ValueError(f"{keep} of {len(found)} cases: expected some, and not all")
    last = len(found) - 1
    kept = {round(step * last / max(keep - 1, 1)) for step in range(keep)}
    return [_case(case, fast=place in kept) for place, case in enumerate(found)]


def paired(one: Sequence[Any], other: Sequence[Any]) -> list[Any]:
    """All pairs. In the fast tier each of the longer is in one, each of the shorter in some."""
    short = min(len(one), len(other))
    return [
        _case((each, with_it), fast=(first - second) % short == 0)
        for first, each in enumerate(one)
        for second, with_it in enumerate(other)
    ]


def slow(*values: Any, name: str | None = None) -> Any:
    """A case of the whole tier only."""
    return pytest.param(*values, marks=pytest.mark.slow, id=name)


def _case(case: Any, *, fast: bool) -> Any:
    if isinstance(case, ParameterSet):
        values, marks, name = case
    else:
        values, marks, name = case if type(case) is tuple else (case,), (), None
    return pytest.param(*values, marks=marks if fast else (*marks, pytest.mark.slow), id=name)
