"""Reads files of known margins, which are untrusted."""

from __future__ import annotations

from pathlib import Path

from protocol.errors import SurveyError, UsageError
from protocol.estimators.calibration.margins import MAX_CELLS, Margin, margins_of_rows
from protocol.surveys.survey import Survey
from scenarios.data.own_tables.opening import open_sheet
from scenarios.data.own_tables.sheets import tidied_cells
from scenarios.files.budget import within_usual_budget


def read_margins(path: Path, survey: Survey) -> tuple[Margin, ...]:
    """The margins in a table, as ``margins_of_rows`` describes it.

    It may be written as tables of records may: as CSV, in any encoding and with any delimiter that
    these have, or as Parquet (``open_sheet``).

    Args:
        survey: the survey with these attributes.

    Raises:
        UsageError: the file is not a table of margins of this survey.
        CannotFinishError: it takes more time or memory than is given to a file of its length.
    """
    with within_usual_budget(path):
        sheet = open_sheet(path)
        rows: list[tuple[str, ...]] = [sheet.names]
        for block in sheet.blocks(sheet.names):
            rows += zip(*map(tidied_cells, block), strict=True)
            if len(rows) > MAX_CELLS + 1:
                raise UsageError(f"{path}: more than {MAX_CELLS:,} rows")
    try:
        return tuple(margins_of_rows(survey, rows))
    except (SurveyError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from error
