"""Subject of the figures, in words and as values: nonresponse, and parties as clusters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from protocol.audit.completeness import Completeness
from protocol.estimators.design_effects import DesignEffects
from protocol.session.variant import Variant
from scenarios.wording.formatting import count


def response_values(completeness: Completeness) -> dict[str, Any]:
    """Numbers of asked and answering parties; ``widest`` bounds the effect of the others."""
    response = completeness.response
    return {
        **response._asdict(),
        "rate": response.rate,
        "widest": response.widest,
        "withdrawn": completeness.withdrawn,
    }


def withdrawn_clause(completeness: Completeness) -> str:
    """Sentence on places that the organiser withdrew; empty if there are none."""
    if not completeness.withdrawn:
        return ""
    places = count(completeness.withdrawn, "place")
    return f"not counted as invited: {places} withdrawn before any answer, by the organiser's word"


def response_sentences(completeness: Completeness, variant: Variant) -> Iterator[str]:
    """Sentences on nonresponse and on withdrawn places; none if all were counted."""
    response = completeness.response
    if withdrawn := withdrawn_clause(completeness):
        yield withdrawn
    if not response.asked or response.answered == response.asked:
        return
    absent = response.asked - response.answered
    said = (
        f"response rate {100 * response.rate:.1f} %: {count(absent, 'party', 'parties')} of "
        f"{response.asked:,} {'is' if absent == 1 else 'are'} in no figure"
    )
    if variant.max_records == 1:
        said += (
            f"; whatever their answers, shares of all are at most "
            f"{100 * response.widest:.1f} points from those of the parties that were counted"
        )
    yield said


def design_values(design: DesignEffects | None, why: str) -> dict[str, Any]:
    """The design effects, or why they are not known; empty where each party holds one record."""
    if design is None:
        return {"design": {"effects": None, "missing": why}} if why else {}
    return {
        "design": {
            "parties": design.parties,
            "records": design.records,
            "effects": design.effects,
            "population_errors": design.errors,
            "missing": None,
        }
    }


def design_sentences(design: DesignEffects | None, why: str) -> Iterator[str]:
    """Sentences on errors about a population when parties hold several respondents."""
    if design is not None:
        least, most = design.extremes
        yield (
            f"{design.records:,} respondents in {count(design.parties, 'party', 'parties')}: "
            f"design effect {least:.2f} to {most:.2f}, the variance of a share relative to simple "
            "random sampling of respondents, if the parties are a random sample"
        )
    elif why:
        yield (
            "Parties hold several records. How alike the respondents of one party are is not known "
            f"({why}), so errors about a population may be too small: they assume simple random "
            "sampling of respondents."
        )
