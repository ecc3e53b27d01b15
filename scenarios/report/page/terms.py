"""Terms of a survey, on a page."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from protocol.crypto.randomness import WORDS
from protocol.surveys.survey import Survey
from protocol.transcript.entries import Header
from scenarios.report.page.words import words
from scenarios.statement.statement import Grid, Section
from scenarios.wording.formatting import count, cut, rest, some

PARAMETERS, NAMED = 40, 12
_DEPTH = 2


def terms(header: Header, survey: Survey) -> Section:
    """Section on the questions, and the rules by which they were asked."""
    attributes = survey.attributes
    alike: dict[tuple[str, ...], list[str]] = {}
    for attribute in attributes:
        alike.setdefault(attribute.categories, []).append(cut(attribute.name))
    asked = tuple(
        (
            some(names, len(names), NAMED),
            f"{len(categories):,}",
            some((cut(category, 24) for category in categories), len(categories), 6),
        )
        for categories, names in islice(alike.items(), PARAMETERS)
    )
    known = words()["result"]["terms"]
    rules = [(cut(name), brief(value)) for name, value in header.parameters.items()]
    asks = count(len(attributes), *known["attribute"])
    return Section(
        key="terms",
        title=known["title"],
        lead=known["lead"].format(variant=cut(header.variant), attributes=asks),
        grids=(
            Grid(
                key="asked",
                caption=known["asked"],
                columns=(known["name"], f"#{known['categories']}", known["which"]),
                rows=asked,
                more=rest(len(alike), PARAMETERS, known["kinds"]),
            ),
            Grid(
                key="rules",
                caption=known["rules"],
                columns=(known["parameter"], known["value"]),
                rows=tuple(rules[:PARAMETERS]),
                more=rest(len(rules), PARAMETERS, known["parameters"]),
                wide=False,
            ),
        ),
    )


def brief(value: object, depth: int = _DEPTH) -> str:
    """A public parameter of any size in one line, with brackets around nested values."""
    if isinstance(value, Mapping):
        value = _with_probability(value)
        parts = [f"{cut(str(k), 24)}: {brief(v, depth - 1)}" for k, v in islice(value.items(), 6)]
    elif isinstance(value, list | tuple):
        parts = [brief(v, depth - 1) for v in value[:6]]
    elif isinstance(value, bytes):
        return f"{value[:8].hex()}… ({count(len(value), 'byte')})" if value else "empty"
    else:
        return "none" if value is None else cut(str(value), 80)
    if depth <= 0 or not parts:
        return f"{len(value):,} of them" if parts else "none"
    said = cut(some(parts, len(value), 6), 400)
    return said if depth == _DEPTH else f"({said})"


def _with_probability(value: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """A keep randomizer's fields, preceded by the probability p of its threshold."""
    threshold = value.get("threshold")
    if value.get("type") not in ("keep", "keep-table") or not isinstance(threshold, int):
        return value
    budget_rest = {name: part for name, part in value.items() if name not in ("type", "p")}
    return {"type": value["type"], "p": f"{threshold / WORDS:.6g}", **budget_rest}
