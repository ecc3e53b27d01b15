"""Statement of designs: a recommendation, and ranked variants at each epsilon."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from protocol.estimators.usefulness import SCALE_SAYS
from scenarios.designing.assumed import Given
from scenarios.designing.designing import Designed, Row, Setup
from scenarios.designing.recommending import RULE, recommend
from scenarios.designing.targets import mostly_one
from scenarios.statement.designs.recommended import (
    plan_sections,
    recommended_sections,
    recommended_values,
)
from scenarios.statement.designs.setting import REVEALS, setting_words
from scenarios.statement.designs.values import designed_values
from scenarios.statement.statement import Grid, Section, Statement
from scenarios.wording.formatting import NONE, epsilon, size


def state_designs(found: Designed, *, every: bool) -> Statement:
    """Statement of designs: recommendation, rankings at each epsilon, and common facts.

    Args:
        every: show all ways to set up a variant, not only its best.
    """
    setup, picks = found.setup, recommend(found.rows)
    rows = [row for row in found.rows if every or row.best]
    mostly = mostly_one(setup.survey, setup.target)
    applied = {row.candidate.family for row in found.rows}
    whys = {name.partition(":")[0]: why for (_, name), why in found.refused.items()}
    refused = [(name, why) for name, why in whys.items() if name not in applied]
    return Statement(
        title=setting_words(setup),
        sections=(
            *recommended_sections(found, picks),
            *(
                section
                for value in dict.fromkeys(row.epsilon for row in rows)
                for section in _at([row for row in rows if row.epsilon == value], setup)
            ),
            Section(
                key="meanings",
                title="What the figures are",
                notes=(*((mostly,) if mostly else ()), f"The rule: {RULE}", *_notes(rows, setup)),
            ),
            *plan_sections(picks),
            *_group_sections("Trusted", ((_who(row), row.trusted) for row in rows)),
            *_group_sections(
                "If parties vanish", ((row.candidate.family, row.dropouts.says) for row in rows)
            ),
            *_group_sections("Not applicable", refused),
        ),
        values={**recommended_values(found, picks), **designed_values(found)},
    )


def _who(row: Row) -> str:
    """Name of a row's variant, with its epsilon if that rests on honest others."""
    name = row.candidate.name
    return (
        f"{name} at epsilon {row.epsilon:g}" if row.rests_on == "honest" else row.candidate.family
    )


def _at(rows: Sequence[Row], setup: Setup) -> Iterator[Section]:
    """Ranked variants at one epsilon; those that rest on honest others have their own section."""
    alone = [row for row in rows if row.rests_on != "honest"]
    if alone:
        yield _rank_section(alone, setup)
    honest = [row for row in rows if row.rests_on == "honest"]
    if honest:
        yield _ranked_among(honest, setup)


def _ranked_among(rows: Sequence[Row], setup: Setup) -> Section:
    """Variants with an epsilon that holds at a delta if enough others are honest."""
    value = rows[0].epsilon
    return Section(
        key=f"epsilon-{value:g}-among-honest",
        title=f"epsilon {value:g} at delta {setup.delta:g}, if enough of the others are honest",
        grids=(
            Grid(
                key=f"ranked-{value:g}-among-honest",
                caption=f"Variants at epsilon {value:g} if enough of the others are honest, the "
                "least error first",
                columns=(
                    "variant",
                    "parameters",
                    "#rank",
                    "#error",
                    "useful",
                    "#if honest",
                    "#else",
                    "#sends",
                ),
                rows=tuple(_cells_among(row, place) for place, row in enumerate(rows, 1)),
            ),
        ),
        place="result",
    )


def _cells_among(row: Row, place: int) -> tuple[str, ...]:
    name, chosen, rank, error, useful, _, sends, _ = _cells(row, place)
    among = row.candidate.among
    assert among is not None
    return (
        name,
        chosen,
        rank,
        error,
        useful,
        f"{among.honest:,}",
        epsilon(row.spent),
        sends,
    )


def _rank_section(rows: Sequence[Row], setup: Setup) -> Section:
    """The variants at an epsilon, the best first."""
    return Section(
        key=f"epsilon-{rows[0].epsilon:g}",
        title=f"epsilon {rows[0].epsilon:g}",
        grids=(
            Grid(
                key=f"ranked-{rows[0].epsilon:g}",
                caption=f"Variants at epsilon {rows[0].epsilon:g}, the least error first",
                columns=(
                    "variant",
                    "parameters",
                    "#rank",
                    "#error",
                    "useful",
                    f"#at {setup.delta:g}",
                    "#sends",
                    "#rounds",
                ),
                rows=tuple(_cells(row, place) for place, row in enumerate(rows, 1)),
            ),
        ),
        place="result",
    )


def _cells(row: Row, place: int) -> tuple[str, ...]:
    error, traffic = row.prediction.rmse, row.traffic
    return (
        row.candidate.name,
        row.candidate.chosen,
        _rank(row, place),
        f"{'~' if row.prediction.runs else ''}{error:.3g}",
        row.usefulness or NONE,
        NONE if row.at_delta is None else epsilon(row.at_delta),
        NONE if traffic is None else _octets(traffic.bits),
        NONE if traffic is None else str(traffic.rounds),
    )


def _rank(row: Row, place: int) -> str:
    if row.rests_on == "no bound":
        return NONE
    if not row.dropouts.withstands:
        return "!"
    return str(place) if row.certain else f"~{place}"


def _octets(bits: float) -> str:
    """Bits, or bytes for larger numbers."""
    return f"{bits:.2g} bits" if bits < 80 else size(round(bits / 8))


def _notes(rows: Sequence[Row], setup: Setup) -> Iterator[str]:
    yield (
        "error: the root mean squared error of the raw shares over all cells, predicted from the "
        f"estimators' own formulas if {setup.shares.says}."
    )
    yield f"useful: how the least useful table of the target is predicted to be. {SCALE_SAYS}"
    simulated = [row.prediction for row in rows if row.prediction.runs]
    if simulated:
        most = max(one.runs for one in simulated)
        worst = max(one.monte_carlo / one.rmse for one in simulated if one.rmse)
        yield (
            f"~ before an error: it has no such formula and was measured in up to {most} simulated "
            f"runs, with a Monte Carlo error of at most {worst:.0%} of it."
        )
    if not all(row.certain for row in rows):
        yield "~ before a rank: about. More runs might change it, and --runs allows more."
    yield (
        f"at {setup.delta:g}: a respondent's epsilon at this delta, the probability with which it "
        "may not hold. sends: what is sent for one respondent, without envelopes and TLS. rounds: "
        "how often the aggregator waits."
    )
    if any(row.rests_on == "no bound" for row in rows):
        yield f"{NONE}: exact counts, which no epsilon bounds; they are not ranked."
    if any(row.rests_on == "honest" for row in rows):
        yield (
            "if honest: that epsilon holds at the delta if so many parties are honest and stay, "
            "and is not to be compared with one that holds whoever conspires. else: what is left "
            "if nobody else is honest."
        )
    if not all(row.dropouts.withstands for row in rows):
        yield "!: ends without a result if so many parties vanish."
    if isinstance(setup.shares, Given):
        yield REVEALS


def _group_sections(title: str, pairs: Iterable[tuple[str, str]]) -> Iterator[Section]:
    """Variants grouped by what is stated of them, one line per statement."""
    groups: dict[str, dict[str, None]] = {}
    for name, says in pairs:
        groups.setdefault(says, {})[name] = None
    if groups:
        facts = tuple((", ".join(names), says) for says, names in groups.items())
        yield Section(key=title.lower().replace(" ", "-"), title=title, facts=facts)
