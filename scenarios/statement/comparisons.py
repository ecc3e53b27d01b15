"""Statement of a comparison of variants: measured and predicted errors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from protocol.estimators.inference.laws import LEVEL
from scenarios.designing.comparing.comparison import EXACT_RUNS, Comparison, Figure, Measured
from scenarios.designing.summing import among_values
from scenarios.designing.targets import Target
from scenarios.designing.trying import JUDGED
from scenarios.statement.statement import Grid, Section, Statement
from scenarios.wording.formatting import NONE, as_json, count


def state_comparison(done: Comparison) -> Statement:
    """Statement of errors at each epsilon, variants that were not run, and notes."""
    runs = count(max(each.runs for each in done.measured), "run")
    ran = [each for each in done.measured if not each.why]
    notes = _notes(done)
    return Statement(
        title=f"{done.title}: {count(done.respondents, 'respondent')}, target "
        f"{done.target.says}, {runs} of each",
        sections=(
            Section(
                key="errors",
                title="Errors",
                grids=tuple(_grids(ran, done.setup.projection)),
                notes=(*_left_out(done.measured), *notes),
                place="result",
            ),
        ),
        values={
            "survey": done.title,
            "respondents": done.respondents,
            "target": done.target.says,
            "parties": done.setup.parties,
            "dropout": done.setup.dropout,
            "projection": done.setup.projection,
            "level": LEVEL,
            "rows": [row_values(each, done.target) for each in done.measured],
            "notes": notes,
        },
    )


def _grids(ran: Sequence[Measured], projection: str) -> Iterator[Grid]:
    """A table of the variants for each epsilon."""
    projected = projection != "none"
    honest = any(each.among is not None for each in ran)
    for epsilon in dict.fromkeys(each.epsilon for each in ran):
        yield Grid(
            key=f"errors-{epsilon:g}",
            caption=f"epsilon {epsilon:g}",
            columns=(
                "variant",
                "#measured",
                "#predicted",
                "#ratio",
                *((f"#{projection}",) if projected else ()),
                "#held",
                *(("#if honest",) if honest else ()),
            ),
            rows=tuple(
                _cells(each, projected=projected, honest=honest)
                for each in ran
                if each.epsilon == epsilon
            ),
        )


def _cells(each: Measured, *, projected: bool, honest: bool) -> tuple[str, ...]:
    return (
        each.variant,
        _with_error(each.raw) + ("*" if each.differs else " "),
        NONE if each.predicted is None else f"{each.predicted:.3g}",
        "" if each.ratio is None else f"{each.ratio:.3f}",
        *((_with_error(each.projected),) if projected else ()),
        NONE if each.held is None else f"{each.held.value:.0%}",
        *((_honest(each),) if honest else ()),
    )


def _honest(each: Measured) -> str:
    """Number of parties that must be honest; a dash without a bound on epsilon."""
    if each.among is None:
        return "any" if each.bounded else NONE
    return f"{each.among.honest:,} of {each.among.parties:,}"


def _with_error(figure: Figure | None) -> str:
    if figure is None:
        return NONE
    if math.isnan(figure.error):
        return f"{figure.value:.3g}"
    return f"{figure.value:.3g} ± {figure.error:.1g}"


def _left_out(measured: Sequence[Measured]) -> Iterator[str]:
    """Variants that were not run, by reason; each is named once for all epsilons."""
    found: dict[str, list[str]] = {}
    for each in measured:
        if each.why:
            names = found.setdefault(each.why, [])
            if each.variant not in names:
                names.append(each.variant)
    for words, names in found.items():
        yield f"{', '.join(names)} not run: {words}"


def _notes(done: Comparison) -> tuple[str, ...]:
    setup = done.setup
    notes = [
        "measured: root mean squared error of the raw shares over all cells of the target, "
        "about those who answered, ± its Monte Carlo error; predicted: the same by the "
        "variant's own closed form, for the shares of these records",
        f"held: how many {LEVEL:.0%} intervals held the true share, in {_judged_runs(done)} runs",
    ]
    if any(each.among is not None for each in done.measured):
        notes.append(
            "if honest: the epsilon holds at its delta if so many of the parties are honest and "
            "stay, and is not to be compared with one that holds whoever conspires (any); of "
            f"exact counts no epsilon holds ({NONE})"
        )
    sent = _by_messages(done)
    if sent:
        dealt = "" if setup.dropout else f", dealt by lot to {setup.parties:,} parties"
        notes.append(f"by messages{dealt}: {sent}; others by the law of their reports")
    if setup.dropout:
        notes.append(
            f"in every run each of {setup.parties:,} parties vanishes before it answers, with "
            f"probability {setup.dropout:g}"
        )
    for each in done.measured:
        if each.failed:
            notes.append(
                f"{each.variant} at epsilon {each.epsilon:g}: {each.failed:,} of {each.runs:,} "
                "runs gave no estimate, for too few answered; they are left out"
            )
    few = dict.fromkeys(each.variant for each in done.measured if each.is_exact)
    if few:
        notes.append(f"without error, and run {EXACT_RUNS} times at most: {', '.join(few)}")
    if any(each.differs for each in done.measured):
        notes.append(
            "* measured and predicted are further apart than chance explains in 999 of 1,000 cases"
        )
    notes.append(
        "This was a trial: one program held all answers. These figures, and a choice made by "
        "them, reveal something of the records."
    )
    return tuple(notes)


def _judged_runs(done: Comparison) -> str:
    """Share of the runs with judged intervals, in words."""
    runs = max((each.runs for each in done.measured), default=0)
    return f"about {JUDGED} of the" if runs > 1.5 * JUDGED else "all"


def _by_messages(done: Comparison) -> str:
    """Names of the variants that were simulated by messages."""
    names = (each.variant for each in done.measured if each.simulated == "by messages")
    return ", ".join(dict.fromkeys(names))


def row_values(each: Measured, target: Target) -> dict[str, Any]:
    """One row of the CSV, and of the JSON."""
    raw, projected, held = (
        figure or (None, None) for figure in (each.raw, each.projected, each.held)
    )
    row: dict[str, Any] = as_json(
        {
            "variant": each.variant,
            "epsilon": each.epsilon,
            "chosen": each.chosen,
            **among_values(each.among),
            "target": target.says,
            "simulated": each.simulated,
            "runs": each.runs,
            "failed": each.failed,
            "measured": raw[0],
            "measured_error": raw[1],
            "predicted": each.predicted,
            "ratio": each.ratio,
            "apart": each.apart,
            "differs": each.differs,
            "projected": projected[0],
            "projected_error": projected[1],
            "held": held[0],
            "held_error": held[1],
            "unknown": None if each.raw is None else each.unknown,
            "why_not": each.why,
        }
    )
    return row
