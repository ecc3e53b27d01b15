"""Finds out whether a file is a form, and reads it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from scenarios.data.own_tables.forms.form import Form
from scenarios.data.own_tables.forms.pages import is_workbook
from scenarios.data.own_tables.forms.redcap import is_dictionary, redcap_dictionary
from scenarios.data.own_tables.forms.xlsform import is_survey, xlsform
from scenarios.data.own_tables.proposals.columns import Limits


def is_form(path: Path, names: Sequence[str] = ()) -> bool:
    """Return whether a file is a form, not a table of answers.

    Args:
        path: path of a file or a folder.
        names: column names, if it is a table.
    """
    return path.is_dir() or is_workbook(path) or is_survey(path, names) or is_dictionary(names)


def form_in(path: Path, limits: Limits, language: str | None = None) -> Form:
    """The form in a file, or in a folder.

    Args:
        path: path of a form, as accepted by ``is_form``.
        limits: to what is proposed.
        language: language of the labels; by default the form's own.

    Raises:
        UsageError: the form is malformed, or lacks the language.
    """
    if path.is_dir() or is_workbook(path) or path.name.lower() == "survey.csv":
        return xlsform(path, limits, language)
    return redcap_dictionary(path, limits, language)
