"""What is stated of designs: how variants rank at each epsilon, or what an error takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from protocol.estimators.usefulness import SCALE_SAYS, Usefulness, least_exact
from protocol.session.variant import parameters_of
from scenarios.designing.assumed import Given
from scenarios.designing.designing import Designed, Row, Setup
from scenarios.designing.needing import Needed
from scenarios.designing.planned import plan_lines
from scenarios.designing.summing import among_values
from scenarios.designing.targets import cells_of, mostly_one
from scenarios.statement.statement import Grid, Section, Statement
from scenarios.wording.formatting import NONE, TIMES, count, epsilon, ratio, size

Values = dict[str, Any]

REVEALS = (
    "The errors were predicted from the records given, so they reveal something of them, and so "
    "does a choice that is made by them."
)
"""What is said where the shares of records are assumed."""


def state_designs(found: Designed, *, every: bool) -> Statement:
    """What was found, at each epsilon, then what holds of several variants.

    Args:
        found: the same.
        every: show all ways to set up a variant, not only its best.
    """
    setup = found.setup
    rows = [row for row in found.rows if every or row.best]
    mostly = mostly_one(setup.survey, setup.target)
    applied = {row.candidate.family for row in found.rows}
    whys = {name.partition(":")[0]: why for (_, name), why in found.refused.items()}
    refused = [(name, why) for name, why in whys.items() if name not in applied]
    return Statement(
        title=_asked(setup),
        sections=(
            *(
                section
                for value in dict.fromkeys(row.epsilon for row in rows)
                for section in _at([row for row in rows if row.epsilon == value], setup)
            ),
            Section(
                key="meanings",
                title="What the figures are",
                notes=(*((mostly,) if mostly else ()), *_notes(rows, setup)),
            ),
            *_grouped("Trusted", ((_who(row), row.trusted) for row in rows)),
            *_grouped(
                "If parties vanish", ((row.candidate.family, row.dropouts.says) for row in rows)
            ),
            *_grouped("Not applicable", refused),
        ),
        values=designed_values(found),
    )


def state_needed(
    setup: Setup, error: float, level: float, needed: Sequence[Needed], without: Sequence[str]
) -> Statement:
    """What an error takes.

    Args:
        setup: what it is for.
        error: the error.
        level: how sure it is.
        needed: what was found.
        without: the variants that cannot promise it.
    """
    notes = []
    if any(one.candidate.among for one in needed):
        notes.append(
            f"if honest: at delta {setup.delta:g} that epsilon holds if so many parties are honest "
            "and stay, and nothing bounds what is told if all others conspire. The others hold "
            "whoever conspires, and the two are not to be compared."
        )
    if without:
        notes.append(
            f"No promise for {', '.join(without)}: they do not estimate it, have no closed form, "
            "would take more than is searched, or give exact counts, which no epsilon bounds."
        )
    if isinstance(setup.shares, Given):
        notes.append(REVEALS)
    return Statement(
        title=f"What it takes to estimate each share of {_target(setup)} to within {error:g} of "
        f"the true one, of {_whom(setup)}, with a probability of {level:g} each, if "
        f"{setup.shares.says}:",
        sections=(
            Section(
                key="needed",
                title="What it takes",
                grids=(
                    Grid(
                        key="variants",
                        caption="What each variant takes",
                        columns=("variant", "parameters", "#epsilon", "#respondents", "#if honest"),
                        rows=tuple(
                            (
                                one.candidate.name,
                                one.candidate.chosen,
                                epsilon(one.epsilon),
                                f"{one.respondents:,}",
                                _honest(one),
                            )
                            for one in needed
                        ),
                    ),
                ),
                **_planned(needed[0]),
                place="result",
            ),
            *((Section(key="notes", title="Notes", notes=tuple(notes)),) if notes else ()),
        ),
        values=needed_values(setup, error, level, needed),
    )


def _honest(one: Needed) -> str:
    among = one.candidate.among
    return "" if among is None else f"{among.honest:,}"


def _asked(setup: Setup) -> str:
    spoken = ""
    if setup.parties != setup.respondents:
        spoken = f" held by {count(setup.parties, 'party', 'parties')}"
    vanish = f", of which {setup.dropout:.0%} vanish" if setup.dropout else ""
    return (
        f"{count(setup.respondents, 'respondent')}{spoken}{vanish}; wanted: {_target(setup)}, of "
        f"{_whom(setup)}."
    )


def _target(setup: Setup) -> str:
    tables = setup.target.tables
    cells = sum(cells_of(setup.survey, names) for names in tables)
    says = setup.target.says
    if says not in ("margins", "pairs"):
        return f"the table of {says} ({cells:,} cells)"
    one, many = ("margin", "margins") if says == "margins" else ("pair", "pairs")
    return f"the {cells:,} cells of {count(len(tables), one, many)}"


def _whom(setup: Setup) -> str:
    if setup.about == "population":
        return "a population of which the respondents are a random sample"
    return "those who answer" if setup.dropout else "the respondents"


def _who(row: Row) -> str:
    """Whose trust it is: what rests on honest others does so by its epsilon."""
    name = row.candidate.name
    return (
        f"{name} at epsilon {row.epsilon:g}" if row.rests_on == "honest" else row.candidate.family
    )


def _at(rows: Sequence[Row], setup: Setup) -> Iterator[Section]:
    """The variants at an epsilon; apart from the others those for which it rests on others."""
    alone = [row for row in rows if row.rests_on != "honest"]
    if alone:
        yield _ranked(alone, setup)
    honest = [row for row in rows if row.rests_on == "honest"]
    if honest:
        yield _ranked_among(honest, setup)


def _ranked_among(rows: Sequence[Row], setup: Setup) -> Section:
    """The variants whose epsilon holds at a delta if enough others are honest."""
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
                    "#epsilon",
                    "#if honest",
                    "#else",
                    "#sends",
                ),
                rows=tuple(_cells_among(row, place) for place, row in enumerate(rows, 1)),
            ),
        ),
        **_planned(rows[0]),
        place="result",
    )


def _cells_among(row: Row, place: int) -> tuple[str, ...]:
    name, chosen, rank, error, useful, _, _, sends, _ = _cells(row, place, best=0.0)
    among = row.candidate.among
    assert among is not None
    return (
        name,
        chosen,
        rank,
        error,
        useful,
        epsilon(among.epsilon),
        f"{among.honest:,}",
        epsilon(row.spent),
        sends,
    )


def _ranked(rows: Sequence[Row], setup: Setup) -> Section:
    """The variants at an epsilon, the best first, and what a plan says for it."""
    bounded = [row for row in rows if row.rests_on == "nothing"]
    best = bounded[0].prediction.rmse if bounded else 0.0
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
                    "#of best",
                    f"#at {setup.delta:g}",
                    "#sends",
                    "#rounds",
                ),
                rows=tuple(_cells(row, place, best) for place, row in enumerate(rows, 1)),
            ),
        ),
        **_planned(rows[0]),
        place="result",
    )


def _cells(row: Row, place: int, best: float) -> tuple[str, ...]:
    error, traffic = row.prediction.rmse, row.traffic
    return (
        row.candidate.name,
        row.candidate.chosen,
        _rank(row, place),
        f"{'~' if row.prediction.runs else ''}{error:.3g}",
        _usefulness(row) or NONE,
        f"{TIMES}{ratio(error / best)}" if row.rests_on != "no bound" and best else NONE,
        NONE if row.at_delta is None else epsilon(row.at_delta),
        NONE if traffic is None else _octets(traffic.bits),
        NONE if traffic is None else str(traffic.rounds),
    )


def _planned(best: Row | Needed) -> dict[str, Any]:
    """The lines of a plan for it; nothing for a variant of a person's own."""
    variant, value = best.candidate.variant, best.epsilon
    lines = () if variant is None else tuple(plan_lines(variant, value, best.candidate.among))
    if not lines:
        return {}
    return {
        "notes": (
            f"in the plan, for {best.candidate.name} at epsilon {value:g}, in place of its variant "
            "and parameters:",
        ),
        "code": lines,
    }


def _usefulness(row: Row) -> Usefulness | None:
    """The step of the least useful table of the target; None if the error was measured."""
    variant = row.candidate.variant
    margins = () if variant is None else row.prediction.margins(variant.survey)
    return least_exact(margins).word if margins else None


def _rank(row: Row, place: int) -> str:
    if row.rests_on == "no bound":
        return NONE
    return str(place) if row.dropouts.withstands else "!"


def _octets(bits: float) -> str:
    """Bits as bytes, as long as they fill some."""
    return f"{bits:.2g} bits" if bits < 80 else size(round(bits / 8))


def _notes(rows: Sequence[Row], setup: Setup) -> Iterator[str]:
    yield (
        "error: the root mean squared error of the raw shares over all cells, predicted from the "
        f"estimators' own formulas if {setup.shares.says}."
    )
    yield f"useful: how the least useful table of the target is predicted to be. {SCALE_SAYS}"
    simulated = [row for row in rows if row.prediction.runs]
    if simulated:
        runs = simulated[0].prediction.runs
        worst = max(row.prediction.monte_carlo / row.prediction.rmse for row in simulated)
        yield (
            f"~ has no such formula: measured in {runs} simulated runs, with a Monte Carlo error "
            f"of at most {worst:.0%} of it."
        )
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


def _grouped(title: str, pairs: Iterable[tuple[str, str]]) -> Iterator[Section]:
    """Which variants the same is said of, a line for each saying."""
    groups: dict[str, dict[str, None]] = {}
    for name, says in pairs:
        groups.setdefault(says, {})[name] = None
    if groups:
        facts = tuple((", ".join(names), says) for says, names in groups.items())
        yield Section(key=title.lower().replace(" ", "-"), title=title, facts=facts)


def setup_values(setup: Setup) -> Values:
    """What a design is for."""
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


def designed_values(found: Designed) -> Values:
    """Everything that was found."""
    return {
        **setup_values(found.setup),
        "designs": [
            {
                **row_values(row),
                "parameters": _parameters(row),
                "tables": [
                    {"attributes": names, "rmse": error}
                    for names, error in row.prediction.tables.items()
                ],
            }
            for row in found.rows
        ],
        "not_applicable": [
            {"epsilon": epsilon, "variant": name, "why": why}
            for (epsilon, name), why in found.refused.items()
        ],
    }


def row_values(row: Row) -> Values:
    """One way to ask, without its parameters."""
    traffic = row.traffic
    return {
        "epsilon": row.epsilon,
        "variant": row.candidate.family,
        "name": row.candidate.name,
        "chosen": row.candidate.chosen,
        "rmse": row.prediction.rmse,
        "simulated_runs": row.prediction.runs,
        "monte_carlo_error": row.prediction.monte_carlo,
        "largest_standard_error": row.prediction.largest,
        "usefulness": _usefulness(row),
        "record_epsilon": row.spent,
        "epsilon_at_delta": row.at_delta,
        "rests_on": row.rests_on,
        **among_values(row.candidate.among),
        "messages": None if traffic is None else traffic.messages,
        "bits": None if traffic is None else traffic.bits,
        "messages_back": None if traffic is None else traffic.messages_back,
        "bits_back": None if traffic is None else traffic.bits_back,
        "rounds": None if traffic is None else traffic.rounds,
        "trusted": row.trusted,
        "withstands_dropouts": row.dropouts.withstands,
        "dropouts": row.dropouts.says,
        "best_of_variant": row.best,
        "plan": _plan(row),
    }


def needed_values(setup: Setup, error: float, level: float, needed: Sequence[Needed]) -> Values:
    """What an error takes."""
    return {
        **setup_values(setup),
        "error": error,
        "level": level,
        "needed": [
            {
                "variant": one.candidate.family,
                "name": one.candidate.name,
                "chosen": one.candidate.chosen,
                "epsilon": one.epsilon,
                "respondents": one.respondents,
                **among_values(one.candidate.among),
                "plan": _plan(one),
            }
            for one in needed
        ],
    }


def _plan(one: Row | Needed) -> str | None:
    """What a plan says for it, a line for each parameter; None for a variant of a person's own."""
    variant = one.candidate.variant
    assert variant is not None
    return "\n".join(plan_lines(variant, one.epsilon, one.candidate.among)) or None


def _parameters(row: Row) -> Values | None:
    return None if row.candidate.variant is None else parameters_of(row.candidate.variant)
