"""``sottovoce estimate``."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import click

from protocol.errors import ProtocolError
from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.words import Intervals, Shown, bracketed, decimals, sentences
from protocol.estimators.projection import Projection
from protocol.estimators.tables import Estimated
from protocol.surveys.survey import Survey, shown
from scenarios.cli.inspect import reader_of
from scenarios.cli.options import (
    FILE,
    budget_options,
    interval_options,
    json_option,
    json_text,
    print_json,
    print_report,
    transcript_argument,
    variant_option,
)
from scenarios.errors import UsageError, printable
from scenarios.files.transcripts import open_transcript
from scenarios.files.writing import check_output, write_whole
from scenarios.own_data.sheets import tidied
from scenarios.running.loading import variant_of

ENDINGS = (".csv", ".json")

_SHOWN = 200
_NOT_ACCEPTED = (
    "its audit does not accept it, so it is not known what the published result stands on; "
    "'sottovoce audit' says why"
)

Row = dict[str, str | float | None]


@click.command()
@transcript_argument
@click.option(
    "--table",
    "asked",
    multiple=True,
    metavar="A,B",
    help="The joint table of these attributes.  [default: every attribute by itself]",
)
@click.option(
    "--where",
    "wanted",
    multiple=True,
    metavar="NAME=CATEGORY",
    help="How many respondents have this answer, instead of a table; repeat it for several "
    "attributes, which must all hold, and for several categories of one, of which any may.",
)
@interval_options()
@click.option(
    "--project",
    type=click.Choice(get_args(Projection)),
    default="none",
    show_default=True,
    help="What is done to raw shares, which may be below 0, to make them proper.",
)
@variant_option
@click.option(
    "--out", type=FILE, help="A .csv or .json file for the estimate, instead of the terminal."
)
@json_option
@budget_options
def estimate(
    transcript: Path,
    asked: tuple[str, ...],
    wanted: tuple[str, ...],
    intervals: Intervals,
    project: Projection,
    variant: str | None,
    out: Path | None,
    as_json: bool,
) -> int:
    """Estimate tables from TRANSCRIPT, with intervals: as a file, or to read.

    The record is audited first. Exit 1, with no table, if its result does not follow.
    """
    if len(asked) > 1 or (asked and wanted):
        raise UsageError("--table, --where: expected one table, or conditions")
    if wanted and project != "none":
        raise UsageError(f"--project {project}: a count is not projected; expected --table")
    if out is not None:
        if out.suffix.lower() not in ENDINGS:
            raise UsageError(f"--out {out}: expected a name that ends in {' or '.join(ENDINGS)}")
        check_output(out)
    opened = open_transcript(transcript)
    reader = reader_of(opened, transcript)
    audited = opened.audit(variant_of(reader.header, variant), reader=reader)
    if not audited.accepted or audited.estimate is None:
        click.echo(printable(f"sottovoce: {transcript}: {_NOT_ACCEPTED}"), err=True)
        return 1
    found = audited.estimate
    try:
        if wanted:
            rows = [_counted(found, wanted, intervals)]
        elif asked:
            rows = _table(found, _named(found.survey, *asked), project, intervals)
        elif found.attribute_means():
            rows = _means(found, intervals)
        else:
            rows = _marginals(found, project, intervals)
    except (ProtocolError, ValueError) as error:
        raise UsageError(f"{transcript}: {error}") from error
    values = {
        "variant": reader.header.variant,
        "respondents": found.n,
        "level": intervals.level,
        "about": intervals.about,
        "projection": project,
        "rows": rows,
    }
    if out is not None:
        text = _csv(rows, intervals) if out.suffix.lower() == ".csv" else json_text(values) + "\n"
        write_whole(out, text)
    if as_json:
        print_json(values)
    elif out is None:
        _print(rows, intervals, project, found.n)
    if out is not None and not as_json:
        click.echo(f"written: {out}")
    return 0


def _named(survey: Survey, text: str) -> Sequence[str]:
    """The attributes in a text; a comma may be part of a single one's name."""
    whole = tidied(text)
    return [whole] if whole in survey.names else [tidied(name) for name in text.split(",")]


def _table(
    found: Estimate, names: Sequence[str], project: Projection, intervals: Intervals
) -> list[Row]:
    return found.table(*names, projection=project).rows(*intervals)


def _marginals(found: Estimate, project: Projection, intervals: Intervals) -> list[Row]:
    rows: list[Row] = []
    for name, table in found.marginals(project).items():
        for row in table.rows(*intervals):
            category = row.pop(name)
            rows.append({"attribute": name, "category": category, **row})
    return rows


def _means(found: Estimate, intervals: Intervals) -> list[Row]:
    return [
        {"attribute": name, **_figures(mean, intervals)}
        for name, mean in found.attribute_means().items()
    ]


def _counted(found: Estimate, wanted: Sequence[str], intervals: Intervals) -> Row:
    where: dict[str, list[str]] = {}
    for text in wanted:
        name, category = _condition(found.survey, text)
        where.setdefault(name, []).append(category)
    said = {name: " or ".join(categories) for name, categories in where.items()}
    return {**said, **_figures(found.count(where), intervals)}


def _figures(found: Estimated, intervals: Intervals) -> Row:
    """What is estimated of one number, as ``Table.rows`` has it of a cell: None where unknown.

    The standard error is known about the respondents alone.
    """
    low, high = (None if math.isnan(end) else float(end) for end in intervals.of(found))
    return {
        "value": found.value,
        "standard_error": found.standard_error if intervals.about == "respondents" else None,
        "low": low,
        "high": high,
    }


def _condition(survey: Survey, text: str) -> tuple[str, str]:
    """The attribute and the category of a condition; both may have a sign of equality."""
    said = tidied(text)
    for name in survey.names:
        if said.startswith(f"{name}="):
            category = said[len(name) + 1 :]
            survey.attribute(name).code(category)
            return name, category
    raise UsageError(
        f"--where {shown(text)}: expected NAME=CATEGORY, of an attribute of the survey"
    )


def _csv(rows: Sequence[Row], intervals: Intervals) -> str:
    """Rows as a table, with what intervals are about in every row."""
    about: dict[str, Any] = {"level": intervals.level, "about": intervals.about}
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, [*rows[0], *about], lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, **about} for row in rows)
    return text.getvalue()


def _print(rows: Sequence[Row], intervals: Intervals, project: Projection, n: int) -> None:
    from scenarios.report.terminal.plain import plain
    from scenarios.report.terminal.text import rows_table

    figures = [_shown(row) for row in rows]
    # Of people one decimal is enough.
    digits = decimals(figures, least=1 if max(abs(cell.value) for cell in figures) > 1 else 4)

    def figure(value: float) -> str:
        return f"{value:.{digits}f}"

    said = [name for name in rows[0] if name not in ("value", "standard_error", "low", "high")]
    printed = [
        [*(row[name] for name in said), figure(cell.value), bracketed(cell, figure)]
        for row, cell in zip(rows[:_SHOWN], figures, strict=False)
    ]
    parts = [rows_table([*said, "estimate", intervals.name], printed)]
    if len(rows) > _SHOWN:
        parts.append(plain(f"and {len(rows) - _SHOWN:,} more rows: --out FILE has all"))
    parts.append(plain(f"from {n:,} respondents"))
    print_report([*parts, *map(plain, sentences(intervals, figures, project))], soft_wrap=False)


def _shown(row: Row) -> Shown:
    def number(name: str) -> float:
        value = row[name]
        return value if isinstance(value, float) else float("nan")

    return Shown(number("value"), number("low"), number("high"))
