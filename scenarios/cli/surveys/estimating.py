"""``sottovoce estimate``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from parties.keeping.writing import prepare_output, write_whole
from protocol.audit.audit import Audit
from protocol.errors import ProtocolError, UsageError
from protocol.estimators.dependence.quadratic import holm
from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.intervals import Intervals
from protocol.estimators.inference.laws import About
from protocol.estimators.projection import Projection
from protocol.estimators.tables import FIGURES, Estimated, Table
from protocol.estimators.usefulness import (
    MarginOfError,
    margin_of_error,
    margin_of_number,
    margins_of_error,
)
from protocol.surveys.survey import Survey, listed, shown
from scenarios.cli.estimates import (
    calibration_options,
    interval_options,
    project_option,
    synthetic_option,
)
from scenarios.cli.options import (
    budget_options,
    details_option,
    json_option,
    json_text,
    print_statement,
    transcript_argument,
    variant_option,
)
from scenarios.cli.paths import WRITTEN_FILE
from scenarios.cli.transcripts.inspect import open_reader, refused
from scenarios.cli.values import frozen_options, option, shared, takes
from scenarios.data.own_tables.sheets import tidied
from scenarios.errors import printable
from scenarios.files.comma_separated import csv_text, write_csv
from scenarios.files.kinds import check_ending
from scenarios.files.parquet import encode_parquet, load_pyarrow
from scenarios.report.beside import Beside, write_synthetic
from scenarios.running.calibrating import Calibration
from scenarios.running.engines.checking import ChecksMeanwhile
from scenarios.running.loading import variant_class
from scenarios.statement.calibration import calibration_sentences, calibration_values
from scenarios.statement.tables import Columns, rows_values, state_table, state_tests
from scenarios.statement.usefulness.verdict import (
    UsefulnessVerdict,
    mended,
    on_usefulness,
    usefulness_values,
)
from scenarios.surveys.watching.reading import reading
from scenarios.wording.hints import did_you_mean, name_hint

ENDINGS = (".csv", ".parquet", ".json")

TABLE = "table"
"""The column that says of which table a row is, where there are several."""

ABOUT = ("level", "about", "source")
"""Columns of every row of a file: the level of the interval, whom it is about, and whether the
record is that of a survey among people, of a simulation or of a trial.
"""


@frozen_options
class EstimateOptions:
    """The transcript and the options of ``sottovoce estimate``."""

    transcript: Path = shared(transcript_argument)
    asked: tuple[str, ...] = option(
        "--table",
        multiple=True,
        metavar="A,B",
        help="The joint table of these attributes; repeat it for several tables.  [default: every "
        "attribute by itself]",
    )
    wanted: tuple[str, ...] = option(
        "--where",
        multiple=True,
        metavar="NAME=CATEGORY",
        help="How many respondents have this answer, instead of a table; repeat it for several "
        "attributes, which must all hold, and for several categories of one, of which any may.",
    )
    tested: tuple[str, ...] = option(
        "--independent",
        multiple=True,
        metavar="A,B",
        help="Test whether these two attributes are independent in a population of which the "
        "respondents are a random sample, instead of a table; repeat it for several pairs.",
    )
    consistent: bool = option(
        "--consistent",
        is_flag=True,
        help="First make tables of groups of attributes agree on those that they share, at the "
        "least change; standard errors of such tables are unknown.",
    )
    calibration: Calibration = shared(calibration_options)
    intervals: Intervals = shared(interval_options())
    project: Projection = shared(project_option)
    variant: str | None = shared(variant_option)
    out: Path | None = option(
        "--out",
        type=WRITTEN_FILE,
        help="A .csv, .parquet or .json file for the estimate, instead of the terminal.",
    )
    synthetic: Path | None = shared(synthetic_option)
    as_json: bool = shared(json_option)
    details: bool = shared(details_option)

    def check(self) -> None:
        """Check everything that does not need the transcript.

        Raises:
            UsageError: options in conflict, or an unknown suffix.
            OSError: a folder cannot be made.
        """
        project, out = self.project, self.out
        if sum(map(bool, (self.asked, self.wanted, self.tested))) > 1:
            raise UsageError(
                "--table, --where, --independent: exclude each other: expected one of them"
            )
        if self.tested and (project != "none" or self.calibration.files or self.consistent):
            raise UsageError(
                "--independent: of the raw estimate; expected no --project, --calibrate or "
                "--consistent"
            )
        if self.wanted and project != "none":
            raise UsageError(f"--project {project}: a count is not projected; expected --table")
        if out is not None:
            check_ending("--out", out, ENDINGS)
            if out.suffix.lower() == ".parquet":
                load_pyarrow(f"--out {out}")
            prepare_output(out)
        Beside(synthetic=self.synthetic).check()


@click.command()
@takes(EstimateOptions)
@budget_options
def estimate(options: EstimateOptions) -> int:
    """Estimate tables from TRANSCRIPT, with intervals: as a file, or to read.

    The record is audited first. With no table, exit 1 if it is broken or incomplete, 3 if its
    audit is unfinished, 4 if its result cannot be checked.
    """
    options.check()
    transcript, calibration = options.transcript, options.calibration
    project, intervals, out = options.project, options.intervals, options.out
    with (
        reading(transcript, times=2, silent=options.as_json) as opened,
        ChecksMeanwhile() as checks,
    ):
        reader = open_reader(opened, transcript)
        cls = variant_class(reader.header, options.variant)
        audited = opened.audit(cls, reader=reader, checks=checks)
    digest = audited.verification.digest
    if audited.estimate is None or digest is None or audited.verdict != "sound":
        return refused(audited, transcript)
    found = audited.estimate
    notes: tuple[str, ...] = ()
    if options.consistent:
        try:
            found = found.consistent()
        except ValueError as error:
            raise UsageError(f"--consistent: {reader.header.variant}: {error}") from error
    if calibration.files:
        found = calibration.of(found)
        notes = tuple(calibration_sentences(found))
    try:
        if options.tested:
            intervals = intervals._replace(about="population")
            columns = _tests(found, options.tested)
        else:
            columns = _requested_columns(found, options)
    except (ProtocolError, ValueError) as error:
        raise UsageError(f"{transcript}: {error}") from error
    about = {
        "variant": reader.header.variant,
        "source": audited.source,
        "digest": digest.hex(),
        "respondents": found.n,
        **({} if found.weighted_n is None else {"effective_sample_size": found.weighted_n}),
        "level": intervals.level,
        "about": intervals.about,
        "projection": project,
        **({"calibration": calibration_values(found)} if calibration.files else {}),
    }
    useful = () if options.tested else _usefulness(found, options, audited)
    if out is not None:
        _write(out, columns, about, usefulness_values(useful))
    if options.synthetic is not None:
        write_synthetic(options.synthetic, found, digest)
    if options.as_json or out is None:
        if options.tested:
            said = state_tests(columns, about)
        else:
            said = state_table(columns, intervals, project, about, notes, useful)
        print_statement(said, as_json=options.as_json, details=options.details)
    for path in filter(None, () if options.as_json else (out, options.synthetic)):
        click.echo(printable(f"written: {path}"))
    return 0


def _requested_columns(found: Estimate, options: EstimateOptions) -> Columns:
    """The tables or the count of the command line.

    Raises:
        UsageError: a condition that is malformed.
        ProtocolError, ValueError: the estimate cannot give it.
    """
    project, intervals = options.project, options.intervals
    if options.wanted:
        return _count_columns(found, options.wanted, intervals)
    if options.asked:
        named = [_attributes_in(found.survey, text) for text in options.asked]
        tables = [found.table(*names, projection=project) for names in named]
        return _tables(tables, intervals)
    if found.attribute_means():
        return _means(found, intervals)
    parts: list[Columns] = []
    for name, table in found.marginals(project).items():
        # An attribute may have the name of any column here.
        columns = replace(table, names=("category",)).columns(*intervals)
        parts.append({"attribute": _same(name, table.values.size), **columns})
    return _stack(parts)


def _usefulness(
    found: Estimate, options: EstimateOptions, audited: Audit
) -> tuple[UsefulnessVerdict, ...]:
    about = options.intervals.about
    of = _margins(found, options, about)
    mending = mended(
        audited.charter.variant,
        of,
        respondents=found.n,
        parties=audited.completeness.counted,
        about=about,
    )
    return on_usefulness(of, mending=mending)


def _margins(found: Estimate, options: EstimateOptions, about: About) -> Sequence[MarginOfError]:
    project = options.project
    if options.wanted:
        where = _where(found.survey, options.wanted)
        return [margin_of_number(tuple(where), found.count(where), about, of="count")]
    if options.asked:
        named = [_attributes_in(found.survey, text) for text in options.asked]
        return [margin_of_error(found.table(*names, projection=project), about) for names in named]
    return margins_of_error(found, about, project)


def _attributes_in(survey: Survey, text: str, option: str = "--table") -> Sequence[str]:
    """The attributes named in a text; a name may itself contain a comma."""
    whole = tidied(text)
    names = [whole] if whole in survey.names else [tidied(name) for name in text.split(",")]
    for name in names:
        hint = "" if name in survey.names else name_hint(name, survey.names)
        if hint:
            raise UsageError(f"{option} {shown(text)}: no attribute {shown(name)}{hint}")
    if len(set(names)) < len(names):
        raise UsageError(f"{option} {shown(text)}: expected different attributes")
    return names


def _tables(tables: Sequence[Table], intervals: Intervals) -> Columns:
    """One table or several below each other; None where an attribute is not in a table."""
    names = tuple(dict.fromkeys(_column(name) for table in tables for name in table.names))
    parts: list[Columns] = []
    for table in tables:
        size = table.values.size
        named = replace(table, names=tuple(map(_column, table.names)))
        columns: Columns = {**named.columns(*intervals)}
        if len(tables) == 1:
            return columns
        own = {name: columns.pop(name, _same(None, size)) for name in names}
        parts.append({TABLE: _same(",".join(table.names), size), **own, **columns})
    return _stack(parts)


def _tests(found: Estimate, tested: Sequence[str]) -> Columns:
    """One row per pair, with Holm's correction over all pairs of the command."""
    pairs = [_attributes_in(found.survey, text, "--independent") for text in tested]
    for text, pair in zip(tested, pairs, strict=True):
        if len(pair) != 2:
            raise UsageError(f"--independent {shown(text)}: expected two attributes, A,B")
    results = [found.independence(first, second) for first, second in pairs]
    p_values = np.array([float(result.p_value) for result in results])
    return {
        "first": np.array([first for first, _ in pairs], np.object_),
        "second": np.array([second for _, second in pairs], np.object_),
        "test": np.array([result.test for result in results], np.object_),
        "statistic": np.array([float(result.statistic) for result in results]),
        "degrees": np.array([int(result.degrees or 0) for result in results]),
        "p_value": p_values,
        "p_holm": holm(p_values),
    }


def _means(found: Estimate, intervals: Intervals) -> Columns:
    return _stack(
        [
            {"attribute": _same(name, 1), **_figures(mean, intervals)}
            for name, mean in found.attribute_means().items()
        ]
    )


def _count_columns(found: Estimate, wanted: Sequence[str], intervals: Intervals) -> Columns:
    where = _where(found.survey, wanted)
    said = {_column(name): _same(" or ".join(categories), 1) for name, categories in where.items()}
    return {**said, **_figures(found.count(where), intervals)}


def _where(survey: Survey, wanted: Sequence[str]) -> dict[str, list[str]]:
    """The categories to count, by attribute."""
    where: dict[str, list[str]] = {}
    for text in wanted:
        name, category = _condition(survey, text)
        where.setdefault(name, []).append(category)
    return where


def _figures(found: Estimated, intervals: Intervals) -> Columns:
    """Figures of one number, as ``Table.columns`` has them of a cell.

    The standard error is known about the respondents alone.
    """
    error = found.standard_error if intervals.about == "respondents" else None
    values = (found.value, math.nan if error is None else error, *intervals.of(found))
    return {name: np.array([value], float) for name, value in zip(FIGURES, values, strict=True)}


def _condition(survey: Survey, text: str) -> tuple[str, str]:
    """The attribute and the category of ``ATTRIBUTE=CATEGORY``; both may contain an equals sign."""
    said = tidied(text)
    for name in survey.names:
        if said.startswith(f"{name}="):
            category, attribute = said[len(name) + 1 :], survey.attribute(name)
            if category not in attribute.categories:
                near = did_you_mean(category, attribute.categories)
                raise UsageError(
                    f"--where {shown(text)}: {name} has no category {shown(category)}"
                    f"{f'{near} It' if near else '; it'} has {listed(attribute.categories)}"
                )
            return name, category
    hint = did_you_mean(said.partition("=")[0], survey.names)
    raise UsageError(
        f"--where {shown(text)}: expected NAME=CATEGORY, of an attribute of the survey, which has "
        f"{listed(survey.names)}{hint}"
    )


def _column(name: str) -> str:
    """Name for the column of an attribute, distinct from all other columns."""
    return f"attribute {name}" if name in (TABLE, *FIGURES, *ABOUT) else name


def _same(text: str | None, size: int) -> NDArray[np.object_]:
    return np.full(size, text, np.object_)


def _stack(parts: Sequence[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _write(
    path: Path, columns: Columns, about: Mapping[str, Any], useful: Mapping[str, Any]
) -> None:
    """Write columns in the format of the file's suffix; JSON also has their usefulness."""
    ending = path.suffix.lower()
    if ending == ".json":
        write_whole(path, json_text({**rows_values(columns, about), **useful}) + "\n")
        return
    size = len(next(iter(columns.values())))
    level, *texts = (np.full(size, about[name]) for name in ABOUT)
    told = dict(zip(ABOUT, (level, *(each.astype(np.object_) for each in texts)), strict=True))
    whole = {**columns, **told}
    if ending == ".parquet":
        write_whole(path, encode_parquet(whole, about))
        return
    rows = zip(*(each.tolist() for each in whole.values()), strict=True)
    write_csv(path, csv_text(whole, rows))
