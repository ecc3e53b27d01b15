"""Statement of a run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from protocol.audit.claims import check_claims
from protocol.estimators.inference.intervals import USUAL, Intervals
from protocol.messages import NO_ROUND
from protocol.session.variant import Variant
from protocol.sharing.messages import is_summed
from protocol.transcript.entries import WITHHELD
from scenarios.running.outcomes import Outcome
from scenarios.running.scenario import Finished
from scenarios.statement.estimates import announced, announced_values, estimated, reported_values
from scenarios.statement.found import coverage
from scenarios.statement.privacy_values import claims_values, privacy_values
from scenarios.statement.privacy_verdict import PrivacyVerdict, has_exact_sums, on_privacy
from scenarios.statement.sampling import (
    design_sentences,
    design_values,
    response_sentences,
    response_values,
)
from scenarios.statement.statement import Grid, Section, Statement
from scenarios.statement.usefulness.verdict import (
    UsefulnessVerdict,
    judge_usefulness,
    usefulness_values,
)
from scenarios.wording.announced import described
from scenarios.wording.formatting import (
    NONE,
    as_json,
    count,
    cut,
    nats,
    respondents_text,
    rest,
    signed,
    some,
    upper,
)

ROWS, EPSILONS, NAMED = 60, 60, 12
"""Maximum numbers of rows, of attributes' figures, and of equal figures."""


def state_run(name: str, finished: Finished, intervals: Intervals = USUAL) -> Statement:
    """Statement of a run: estimates next to the truth, costs, and course.

    Args:
        name: name of the scenario or the plan.
        finished: the run.
        intervals: level and subject of the intervals.
    """
    outcome = finished.outcome
    notes = finished.notes
    if finished.agreed:
        from scenarios.statement.calibration import calibration_sentences

        notes += tuple(calibration_sentences(finished.reported))
    estimates = estimated(
        finished.reported,
        intervals,
        title="The estimates",
        projection=finished.projection,
        truth=outcome.records,
        notes=() if finished.rows else notes,
        place="aside" if finished.rows else "result",
    )
    useful = usefulness(finished, intervals)
    return Statement(
        title=f"{name}: {outcome.variant.survey.title}",
        verdicts=(protection(outcome), *useful),
        coverage=coverage(outcome.completeness, outcome.charter.codec),
        sections=(
            estimates,
            *_rows(finished, notes),
            *_announced_sections(outcome),
            Section(
                key="run",
                title="The run",
                lead=f"estimated from {outcome.counted:,} of "
                f"{count(outcome.charter.parties, 'party', 'parties')}, "
                f"{count(outcome.estimate.n, 'respondent')}, "
                f"over {outcome.transport}, "
                f"in {outcome.seconds:.1f} s",
                notes=(*_care(outcome), *_costs(outcome)),
                brief=tuple(map(upper, _care(outcome))),
            ),
        ),
        values=run_values(finished, intervals, useful),
    )


def usefulness(finished: Finished, intervals: Intervals) -> tuple[UsefulnessVerdict, ...]:
    """Usefulness of the estimates of a run; none if they have no tables and no means."""
    outcome, analysis = finished.outcome, finished.outcome.charter.analysis
    return judge_usefulness(
        finished.reported,
        intervals,
        finished.projection,
        outcome.variant,
        respondents=finished.reported.n,
        parties=outcome.counted,
        tables=() if analysis is None else analysis.tables,
    )


def protection(outcome: Outcome[Variant]) -> PrivacyVerdict:
    """Verdict on the privacy of a run's design."""
    withstands = promised = None
    variant, parties = outcome.variant, len(outcome.charter.roster.parties)
    if is_summed(variant, parties):
        # Imported late: most surveys sum nothing.
        from scenarios.wording.withstanding import promised_in, withstood_in

        withstands, promised = withstood_in(variant, parties), promised_in(variant, parties)
    return on_privacy(
        outcome.ledger,
        alone=outcome.alone,
        checks=check_claims(outcome.variant, outcome.ledger),
        withstands=withstands,
        promised=promised,
        source="trial" if outcome.withheld else "survey" if outcome.seed is None else "simulation",
    )


def _care(outcome: Outcome[Variant]) -> Iterator[str]:
    """Cautions about a run."""
    ledger, found = outcome.ledger, outcome.estimate
    if found.weighted_n is not None:
        yield respondents_text(found.n, found.weighted_n)
    yield from response_sentences(outcome.completeness, outcome.variant)
    yield from design_sentences(*outcome.design)
    for reason, many in outcome.trouble.items():
        yield f"{count(many, 'party', 'parties')}: {reason}"
    if ledger.unsigned:
        yield (
            f"{count(len(ledger.unsigned), 'party', 'parties')} that signed nothing: "
            f"epsilon {nats(ledger.unsigned_epsilon)} at most"
        )
    if outcome.charter.attempt > 1:
        yield (
            f"This was attempt {outcome.charter.attempt}: respondents who answered an earlier one "
            "have paid for both."
        )
    if outcome.withheld:
        yield trial_sentence("transcript")


def _costs(outcome: Outcome[Variant]) -> Iterator[str]:
    """Cost of a run, and its digest."""
    ledger = outcome.ledger
    yield f"{count(outcome.messages, 'message')}, {count(outcome.bytes, 'byte')}"
    sums = ", exact sums included" if has_exact_sums(ledger) else ""
    each = by_attribute(ledger.attribute_epsilon)
    yield f"epsilon {nats(ledger.record_epsilon)} per record{sums}; {each}"
    yield f"digest {outcome.digest.hex()}"


def trial_sentence(kept: str) -> str:
    """Sentence on a trial, which leaves out its seed."""
    return (
        "This was a trial: one program held all answers. Its seed, which undoes every "
        f"randomization, was drawn and is not in the {kept}. The truth beside the estimates "
        "reveals the answers' own shares."
    )


def by_attribute(epsilons: Mapping[str, float]) -> str:
    """The loss of every attribute, in one line."""
    if len(epsilons) > NAMED and len(set(epsilons.values())) == 1:
        return f"{nats(next(iter(epsilons.values())))} for each of {len(epsilons):,} attributes"
    listed = (f"{name} {nats(value)}" for name, value in epsilons.items())
    return some(listed, len(epsilons), EPSILONS, "attributes")


def _rows(finished: Finished, notes: tuple[str, ...]) -> Iterator[Section]:
    """Sections of a scenario that reports rows instead of attributes."""
    rows = finished.rows
    if rows:
        yield Section(
            key="rows",
            title="One by one",
            lead=f"{count(len(rows), 'row')} of figures.",
            notes=notes,
            grids=(
                Grid(
                    key="figures",
                    caption="What the scenario reports",
                    columns=tuple(
                        name if isinstance(cell, str) else f"#{name}"
                        for name, cell in rows[0].items()
                    ),
                    rows=tuple(tuple(map(_cell, row.values())) for row in rows[:ROWS]),
                    more=rest(len(rows), ROWS, "rows in the JSON report"),
                ),
            ),
            place="result",
        )


def _cell(value: str | float | None) -> str:
    if isinstance(value, str):
        return cut(value)
    if value is None or not math.isfinite(value):
        return NONE
    return f"{value:,}" if isinstance(value, int) else signed(value, 4)


def _announced_sections(outcome: Outcome[Variant]) -> Iterator[Section]:
    analysis = outcome.charter.analysis
    if analysis is not None:
        yield announced(
            analysis,
            analysis.announced_tables(outcome.estimate),
            f"Announced: {described(analysis)}.",
        )


def run_values(
    finished: Finished,
    intervals: Intervals = USUAL,
    useful: tuple[UsefulnessVerdict, ...] | None = None,
) -> dict[str, Any]:
    """Content of ``result.json`` about a run, but for the scenario's name and parameters.

    Args:
        useful: the verdict on usefulness, if it is known; it is made otherwise.
    """
    outcome, ledger = finished.outcome, finished.outcome.ledger
    values: dict[str, Any] = {
        "variant": outcome.variant.name,
        "seed": WITHHELD if outcome.withheld else outcome.seed,
        "transport": outcome.transport,
        **({"attempt": outcome.charter.attempt} if outcome.seed is None else {}),
        "respondents": outcome.estimate.n if outcome.records is None else len(outcome.records),
        "parties": outcome.charter.parties,
        "counted": outcome.counted,
        "rounds": [
            {
                "kind": closing.kind,
                "round": None if closing.round == NO_ROUND else closing.round,
                "awaited": closing.awaited,
                "counted": closing.counted,
                "rate": closing.response.rate,
            }
            for closing in outcome.completeness.closings
        ],
        "response": response_values(outcome.completeness),
        **reported_values(
            finished.reported,
            outcome.records,
            finished.projection,
            intervals,
            respondents=outcome.estimate.n,
        ),
        **design_values(*outcome.design),
        **_announced_values(outcome),
        "traffic": {"messages": outcome.messages, "bytes": outcome.bytes},
        "transcript": {
            "path": str(outcome.transcript.path) if outcome.transcript.path else None,
            "digest": outcome.digest.hex(),
        },
        **usefulness_values(usefulness(finished, intervals) if useful is None else useful),
        "privacy": {
            "verdict": protection(outcome).word,
            **privacy_values(ledger),
            "claims": claims_values(outcome.variant.claims()),
        },
        "trouble": outcome.trouble,
        "seconds": round(outcome.seconds, 3),
    }
    if finished.error:
        values["error"] = {**values.get("error", {}), **finished.error}
    values |= finished.extra
    if finished.agreed:
        from scenarios.statement.calibration import calibration_values

        values["calibration"] = calibration_values(finished.reported)
    plain: dict[str, Any] = as_json(values)
    return plain


def _announced_values(outcome: Outcome[Variant]) -> dict[str, Any]:
    analysis = outcome.charter.analysis
    if analysis is None:
        return {}
    tables = analysis.announced_tables(outcome.estimate)
    return {"analysis": announced_values(analysis, tables, outcome.estimate)}
