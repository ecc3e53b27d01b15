"""Designs for a terminal: a table for each epsilon, then what holds of several of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table

from scenarios.designing.assumed import Given
from scenarios.designing.designing import Designed, Row, Setup
from scenarios.designing.needing import Needed
from scenarios.designing.planned import plan_lines
from scenarios.designing.targets import cells_of, mostly_one
from scenarios.designing.values import REVEALS
from scenarios.wording.formatting import NONE, TIMES, count, epsilon, ratio, size
from scenarios.wording.plain import plain


def designed_report(found: Designed, *, every: bool) -> Iterator[RenderableType]:
    """What was found.

    Args:
        found: the same.
        every: show all ways to set up a variant, not only its best.
    """
    setup = found.setup
    yield _paragraph(_asked(setup))
    mostly = mostly_one(setup.survey, setup.target)
    if mostly:
        yield _paragraph(mostly)
    rows = [row for row in found.rows if every or row.best]
    for value in dict.fromkeys(row.epsilon for row in rows):
        yield plain("")
        ranked = [row for row in rows if row.epsilon == value]
        yield _table(ranked, setup)
        yield from _planned(ranked[0])
    yield plain("")
    for note in _notes(rows, setup):
        yield _paragraph(note)
    yield plain("")
    yield plain("trusted:", style="underline")
    yield from _grouped((row.candidate.family, row.trusted) for row in rows)
    yield plain("if parties vanish:", style="underline")
    yield from _grouped((row.candidate.family, row.dropouts.says) for row in rows)
    if found.refused:
        applied = {row.candidate.family for row in found.rows}
        whys = {name.partition(":")[0]: why for (_, name), why in found.refused.items()}
        yield plain("not applicable:", style="underline")
        yield from _grouped((name, why) for name, why in whys.items() if name not in applied)


def needed_report(
    setup: Setup, error: float, level: float, needed: Sequence[Needed], without: Sequence[str]
) -> Iterator[RenderableType]:
    """What an error takes.

    Args:
        setup: what it is for.
        error: the error.
        level: how sure it is.
        needed: what was found.
        without: the variants that cannot promise it.
    """
    yield _paragraph(
        f"What it takes to estimate each share of {_target(setup)} to within {error:g} of the true "
        f"one, of {_whom(setup)}, with a probability of {level:g} each, if "
        f"{setup.shares.says}:"
    )
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("variant", "parameters"):
        table.add_column(column, overflow="fold")
    for column in ("epsilon", "respondents"):
        table.add_column(column, justify="right")
    for one in needed:
        table.add_row(
            plain(one.candidate.name),
            plain(one.candidate.chosen),
            epsilon(one.epsilon),
            f"{one.respondents:,}",
        )
    yield plain("")
    yield table
    yield from _planned(needed[0])
    if without:
        yield plain("")
        yield _paragraph(
            f"No promise for {', '.join(without)}: they do not estimate it, have no closed form, "
            "would take more than is searched, or give exact counts, which no epsilon bounds."
        )
    if isinstance(setup.shares, Given):
        yield _paragraph(REVEALS)


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


def _table(rows: Sequence[Row], setup: Setup) -> RenderableType:
    table = Table(
        title=plain(f"epsilon {rows[0].epsilon:g}", style="bold"),
        title_justify="left",
        box=None,
        padding=(0, 1, 0, 0),
    )
    table.add_column("", justify="right")
    table.add_column("variant", no_wrap=True)
    table.add_column("parameters", overflow="fold")
    for column in ("error", "of best", f"at {setup.delta:g}", "sends", "rounds"):
        table.add_column(column, justify="right", no_wrap=True)
    ranked = [row for row in rows if row.is_bounded]
    best = ranked[0].prediction.rmse if ranked else 0.0
    for place, row in enumerate(rows, 1):
        error = row.prediction.rmse
        traffic = row.traffic
        table.add_row(
            _rank(row, place),
            plain(row.candidate.name),
            plain(row.candidate.chosen),
            plain(f"{'~' if row.prediction.runs else ''}{error:.3g}"),
            plain(f"{TIMES}{ratio(error / best)}" if row.is_bounded and best else NONE),
            plain(NONE if row.at_delta is None else epsilon(row.at_delta)),
            plain(NONE if traffic is None else _octets(traffic.bits)),
            plain(NONE if traffic is None else str(traffic.rounds)),
            style="" if row.is_bounded else "dim",
        )
    return table


def _planned(best: Row | Needed) -> Iterator[RenderableType]:
    """The lines of a plan for it; nothing for a variant of a person's own."""
    variant, value = best.candidate.variant, best.epsilon
    lines = () if variant is None else plan_lines(variant, value)
    if lines:
        yield plain("")
        yield _paragraph(
            f"in the plan, for {best.candidate.name} at epsilon {value:g}, in place of its variant "
            "and parameters:"
        )
        for line in lines:
            whole = plain(f"  {line}")
            whole.no_wrap, whole.overflow = True, "ignore"
            yield whole


def _rank(row: Row, place: int) -> str:
    if not row.is_bounded:
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
    if not all(row.is_bounded for row in rows):
        yield f"{NONE}: exact counts, which no epsilon bounds; they are not ranked."
    if not all(row.dropouts.withstands for row in rows):
        yield "!: ends without a result if so many parties vanish."
    if isinstance(setup.shares, Given):
        yield REVEALS


def _grouped(pairs: Iterable[tuple[str, str]]) -> Iterator[RenderableType]:
    """Which variants the same is said of, a line for each saying."""
    found: Mapping[str, dict[str, None]] = {}
    groups = dict(found)
    for name, says in pairs:
        groups.setdefault(says, {})[name] = None
    for says, names in groups.items():
        yield _paragraph(f"{', '.join(names)}: {says}", indent=2)


def _paragraph(text: str, indent: int = 0) -> RenderableType:
    return Padding(plain(text), (0, 0, 0, indent)) if indent else plain(text)
