"""Who a party's records are about, by a column that never leaves the party."""

from __future__ import annotations

import unicodedata
from pathlib import Path

from protocol.errors import SurveyError
from protocol.surveys.records import column_of
from protocol.surveys.survey import Survey
from scenarios.errors import UsageError

MOST_ID = 200
"""The most characters of an id."""


def read_ids(path: Path, survey: Survey, column: str) -> list[str]:
    """The ids of the respondents in a CSV file of records, in its order.

    Args:
        path: the file.
        survey: what is asked; its attributes are handed over, so none of them can be the id.
        column: the name of the column.

    Raises:
        UsageError: the file cannot be read; the column is an attribute of the survey or is
            missing; or an id is empty, too long, not printable or not the only one of its kind.
    """
    if column in survey.names:
        raise UsageError(
            f"--id {column}: is asked by the survey; expected a column that stays here"
        )
    try:
        with path.open(encoding="utf-8", newline="") as file:
            # However they were typed: one id in two encodings is one person.
            ids = [unicodedata.normalize("NFC", cell) for cell in column_of(file, column)]
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except (SurveyError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from error
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
