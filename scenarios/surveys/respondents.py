"""A party's table of records, with its respondents' ids.

Who they are is a column that never leaves the party.
"""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import NamedTuple

from protocol.errors import UsageError
from protocol.surveys.records import Records
from protocol.surveys.survey import Survey
from scenarios.data.own_tables.coding import Coding
from scenarios.data.own_tables.sheets import Source, tidied
from scenarios.surveys.survey_plan import read_plan

MOST_ID = 200
"""Maximum number of characters of an id."""


class Respondents(NamedTuple):
    """A party's table: answers and ids of the same people.

    Args:
        records: the answers.
        ids: ids in the order of the records; None if not requested.
    """

    records: Records
    ids: list[str] | None

    def __repr__(self) -> str:
        return f"<Respondents: {len(self.records)}>"  # Answers are not shown.


def read_respondents(path: Path, coding: Coding, column: str | None = None) -> Respondents:
    """The respondents in a table.

    Args:
        path: path of a CSV or Parquet file.
        coding: reads the file.
        column: with the ids; the survey's attributes are handed over, so none of them can be it.

    Raises:
        UsageError: as ``Coding.records``; the column is one that the survey asks about; or an id
            is empty, too long, not printable or not the only one of its kind.
    """
    asked = {*coding.survey.names, *(tidied(each.column or each.name) for each in coding.questions)}
    if column is not None and tidied(column) in asked:
        raise UsageError(
            f"--id {column}: is asked by the survey; expected a column that stays here"
        )
    records, cells = coding.records_beside(path, column)
    return Respondents(records, None if column is None else _ids(path, column, cells))


def read_records(source: Source, survey: Survey) -> Records:
    """Records of a table with categories as cells.

    Args:
        source: the path of a CSV or Parquet file, or a table in memory, of pandas, polars or
            Arrow, or a mapping from names to columns.
        survey: the survey. With a plan, its ``records`` turns cells into categories.

    Raises:
        UsageError: as ``Coding.records``.
    """
    return Coding.of(survey).records(source)


def coding_for(survey: Survey, plan: Path | None) -> Coding:
    """Coding by which a party reads the table of its answers.

    Args:
        plan: the plan that says how; by default the cells are the categories.

    Raises:
        UsageError: the plan cannot be read, or is of another survey.
    """
    if plan is None:
        return Coding.of(survey)
    coding = read_plan(plan).coding
    if coding.survey != survey:
        raise UsageError(
            f"{plan}: asks {_differing(coding.survey, survey)}; expected the plan of this survey"
        )
    return coding


def _differing(one: Survey, other: Survey) -> str:
    """First difference between two surveys, in words."""
    if one.title != other.title:
        return f"{one.title!r}, and this survey is {other.title!r}"
    if one.names != other.names:
        return f"about {', '.join(one.names)}, and this survey about {', '.join(other.names)}"
    names = [
        mine.name for mine, its in zip(one.attributes, other.attributes, strict=True) if mine != its
    ]
    return f"about {names[0]} with other categories than this survey"


def _ids(path: Path, column: str, cells: list[str]) -> list[str]:
    # One id in two Unicode forms is one person.
    ids = [unicodedata.normalize("NFC", cell.strip()) for cell in cells]
    first: dict[str, int] = {}
    for row, each in enumerate(ids, 1):
        where = f"{path}: row {row}, column {column!r}"
        if not each:
            raise UsageError(f"{where}: empty; every respondent needs an id")
        if len(each) > MOST_ID or not each.isprintable():
            raise UsageError(f"{where}: expected an id of at most {MOST_ID} printable characters")
        if first.setdefault(each, row) != row:
            raise UsageError(f"{where}: the same id as in row {first[each]}; ids must be unique")
    return ids
