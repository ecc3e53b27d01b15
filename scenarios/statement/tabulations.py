"""Statement of a survey by law."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from protocol.accounting.accountants import Loss
from protocol.accounting.spending import DELTA
from protocol.estimators.inference.intervals import Intervals
from protocol.estimators.projection import Projection
from protocol.session.variant import Variant
from protocol.transcript.entries import WITHHELD
from protocol.variants.sums.tallies import Counted, Tallied
from scenarios.designing.summing import AmongHonest, among_values, told_in_sum, told_sentence
from scenarios.running.tabulating import ABOUT_POPULATION, Tabulated
from scenarios.statement.calibration import calibration_sentences, calibration_values
from scenarios.statement.estimates import estimated, reported_values
from scenarios.statement.privacy_values import claims_values
from scenarios.statement.runs import by_attribute, trial_sentence
from scenarios.statement.statement import Section, Statement
from scenarios.statement.usefulness.verdict import judge_usefulness, usefulness_values
from scenarios.wording.formatting import as_json, count, nats, upper


def state_tabulation(
    name: str,
    tabulated: Tabulated[Variant],
    projection: Projection = "none",
    intervals: Intervals = ABOUT_POPULATION,
) -> Statement:
    """Statement of a survey by law: estimates, people, and the digest that all engines share.

    Args:
        name: the scenario's name.
        tabulated: the result.
        projection: applied to the tables.
        intervals: level and subject of the intervals.
    """
    useful = judge_usefulness(
        tabulated.reported,
        intervals,
        projection,
        tabulated.variant,
        respondents=tabulated.n,
        parties=tabulated.n,
    )
    return Statement(
        verdicts=useful,
        title=f"{name}: {tabulated.variant.survey.title}",
        sections=(
            estimated(
                tabulated.reported,
                intervals,
                title="The estimates",
                projection=projection,
                truth=tabulated.population.records,
                notes=_calibration_notes(tabulated),
                place="result",
            ),
            _people(tabulated),
        ),
        values=as_json(
            {
                **_values(tabulated, projection, intervals),
                **usefulness_values(useful),
                "seconds": round(tabulated.seconds, 3),
            }
        ),
    )


def _people(tabulated: Tabulated[Variant]) -> Section:
    care = (
        *_cost_sentences(tabulated),
        *((trial_sentence("result"),) if tabulated.withheld else ()),
    )
    return Section(
        key="run",
        title="The people",
        lead=tabulated.sentence,
        notes=(
            f"{count(tabulated.cohorts, 'cohort')} of up to {tabulated.cohort:,}, "
            f"{count(tabulated.stages, 'question')}, by the engine {tabulated.engine!r}, "
            f"in {tabulated.seconds:.1f} s",
            *care,
            f"digest {tabulated.digest.hex()}",
        ),
        brief=(upper(tabulated.sentence), *map(upper, care)),
    )


def _values(
    tabulated: Tabulated[Variant], projection: Projection, intervals: Intervals
) -> dict[str, Any]:
    reported, truth = tabulated.reported, tabulated.population.records
    among = _cost_among_honest(tabulated)
    values: dict[str, Any] = {
        "variant": tabulated.variant.name,
        "seed": WITHHELD if tabulated.withheld else tabulated.seed,
        "by_law": {
            "says": tabulated.sentence,
            "population": tabulated.population.says,
            "cohort": tabulated.cohort,
            "cohorts": tabulated.cohorts,
            "stages": tabulated.stages,
            "engine": tabulated.engine,
            **({} if among is None else {"parties": among.parties}),
        },
        "respondents": tabulated.n,
        **reported_values(reported, truth, projection, intervals, respondents=tabulated.n),
    }
    if tabulated.calibration.files:
        values["calibration"] = calibration_values(reported)
    return values | {
        "digest": tabulated.digest.hex(),
        "privacy": {
            **_loss_values(tabulated.loss, tabulated.attribute_epsilon),
            **({} if among is None else among_values(among)),
            "claims": claims_values(tabulated.variant.claims()),
        },
    }


def _calibration_notes(tabulated: Tabulated[Variant]) -> tuple[str, ...]:
    return tuple(calibration_sentences(tabulated.reported)) if tabulated.calibration.files else ()


def _cost_sentences(tabulated: Tabulated[Variant]) -> Iterator[str]:
    """Privacy cost of a respondent's messages, or of the sum they would have been in."""
    variant, loss = tabulated.variant, tabulated.loss
    if not isinstance(variant, Counted):
        yield f"epsilon {nats(loss.record)} per record; {by_attribute(tabulated.attribute_epsilon)}"
    among = _cost_among_honest(tabulated)
    if among is not None:
        yield (
            "No message was sent, so what a sum tells was not measured. Of one by messages among "
            f"{among.parties:,} parties: {told_sentence(variant, among)}"
        )


def _cost_among_honest(tabulated: Tabulated[Variant]) -> AmongHonest | None:
    """Privacy cost of one person's counts in the sum; None for a variant without a sum."""
    variant, parties = tabulated.variant, tabulated.parties or tabulated.n
    return told_in_sum(variant, parties, DELTA) if isinstance(variant, Tallied) else None


def _loss_values(loss: Loss, by_name: Mapping[str, float]) -> dict[str, Any]:
    if loss.unbounded:
        return {"record_epsilon": None, "attribute_epsilon": None, "unbounded": loss.unbounded}
    return {"record_epsilon": loss.record, "attribute_epsilon": by_name}
