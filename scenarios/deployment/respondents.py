"""A party's table of records: what its respondents answer, and who they are.

Who they are is a column that never leaves the party.
"""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from protocol.errors import SurveyError
from protocol.surveys.records import Records, column_of
from protocol.surveys.survey import Survey
from scenarios.errors import UsageError

MOST_ID = 200
"""The most characters of an id."""


class RespondentTable(NamedTuple):
    """A CSV file, read once: answers and ids are of the same people, whoever writes it since.

    Args:
        path: of the file.
        text: what it says.
    """

    path: Path
    text: str

    def __repr__(self) -> str:
        return f"<RespondentTable in {self.path}>"  # What it says stays here.

    @classmethod
    def read(cls, path: Path) -> RespondentTable:
        """The table in a file.

        Raises:
            UsageError: it cannot be read, or is not text.
        """
        with _naming(path), path.open(encoding="utf-8", newline="") as file:
            return cls(path, file.read())

    def records(self, survey: Survey) -> Records:
        """The records.

        Raises:
            UsageError: they are not of this survey.
        """
        with _naming(self.path):
            return Records.from_csv(survey, io.StringIO(self.text, newline=""))

    def ids(self, survey: Survey, column: str) -> list[str]:
        """The ids of the respondents, in the order of the records.

        Args:
            survey: what is asked; its attributes are handed over, so none of them can be the id.
            column: the name of the column.

        Raises:
            UsageError: the column is an attribute of the survey or is missing; or an id is empty,
                too long, not printable or not the only one of its kind.
        """
        if column in survey.names:
            raise UsageError(
                f"--id {column}: is asked by the survey; expected a column that stays here"
            )
        with _naming(self.path):
            cells = column_of(io.StringIO(self.text, newline=""), column)
        # However they were typed: one id in two encodings is one person.
        ids = [unicodedata.normalize("NFC", cell) for cell in cells]
        first: dict[str, int] = {}
        for row, each in enumerate(ids, 1):
            where = f"{self.path}: row {row}, column {column!r}"
            if not each:
                raise UsageError(f"{where}: empty; every respondent needs an id")
            if len(each) > MOST_ID or not each.isprintable():
                raise UsageError(
                    f"{where}: expected an id of at most {MOST_ID} printable characters"
                )
            if first.setdefault(each, row) != row:
                raise UsageError(
                    f"{where}: the same id as in row {first[each]}; ids must be unique"
                )
        return ids


@contextmanager
def _naming(path: Path) -> Generator[None]:
    """Make what is wrong with a table a usage error that names its file."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except (SurveyError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from error
