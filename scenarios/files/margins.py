"""Reads files of known margins, which may be anybody's."""

from __future__ import annotations

import csv
from pathlib import Path

from protocol.errors import SurveyError
from protocol.estimators.calibration.margins import MAX_CELLS, Margin, margins_of_rows
from protocol.surveys.survey import Survey
from scenarios.errors import UsageError
from scenarios.running.budget import reading

_MOST_ROWS = MAX_CELLS + 1


def read_margins(path: Path, survey: Survey) -> tuple[Margin, ...]:
    """The margins in a CSV file, as ``margins_of_rows`` describes it.

    Args:
        path: the file.
        survey: whose attributes it is about.

    Raises:
        UsageError: it is not a table of margins of this survey; says what is wrong.
        CannotFinishError: it takes more time or memory than is given to a file of its length.
        OSError: it cannot be read.
    """
    try:
        with reading(path), path.open(encoding="utf-8-sig", newline="") as file:
            rows: list[list[str]] = []
            for row in csv.reader(file, strict=True, skipinitialspace=True):
                if len(rows) > _MOST_ROWS:
                    raise UsageError(f"{path}: more than {MAX_CELLS:,} rows")
                if any(map(str.strip, row)):
                    rows.append(row)
        return tuple(margins_of_rows(survey, rows))
    except csv.Error as error:
        raise UsageError(f"{path}: not a table: {error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not text: {error}") from error
    except (SurveyError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from error
