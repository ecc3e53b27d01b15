"""Purpose of a design, in words and as values."""

from __future__ import annotations

from typing import Any

from scenarios.designing.assumed import Given
from scenarios.designing.designing import Setup
from scenarios.designing.targets import count_cells
from scenarios.wording.formatting import count

Values = dict[str, Any]

REVEALS = (
    "The errors were predicted from the records given, so they reveal something of them, and so "
    "does a choice that is made by them."
)
"""Words for shares that are taken from records."""


def setting_words(setup: Setup) -> str:
    spoken = ""
    if setup.parties != setup.respondents:
        spoken = f" held by {count(setup.parties, 'party', 'parties')}"
    vanish = f", of which {setup.dropout:.0%} vanish" if setup.dropout else ""
    return (
        f"{count(setup.respondents, 'respondent')}{spoken}{vanish}; wanted: "
        f"{target_words(setup)}, of {whom_words(setup)}."
    )


def target_words(setup: Setup) -> str:
    tables = setup.target.tables
    cells = sum(count_cells(setup.survey, names) for names in tables)
    says = setup.target.says
    if says not in ("margins", "pairs"):
        return f"the table of {says} ({cells:,} cells)"
    one, many = ("margin", "margins") if says == "margins" else ("pair", "pairs")
    return f"the {cells:,} cells of {count(len(tables), one, many)}"


def whom_words(setup: Setup) -> str:
    if setup.about == "population":
        return "a population of which the respondents are a random sample"
    return "those who answer" if setup.dropout else "the respondents"


def setup_values(setup: Setup) -> Values:
    """Values of a design's purpose."""
    return {
        "target": setup.target.says,
        "tables": len(setup.target.tables),
        "respondents": setup.respondents,
        "parties": setup.parties,
        "dropout": setup.dropout,
        "answering": setup.answering,
        "assumed": setup.shares.says,
        "about": setup.about,
        "delta": setup.delta,
        **({"reveals": REVEALS} if isinstance(setup.shares, Given) else {}),
    }
