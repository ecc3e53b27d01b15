"""A questionnaire of another program, with proposals for its questions."""

from __future__ import annotations

import re
from typing import NamedTuple

from protocol.errors import UsageError
from protocol.surveys.survey import shown
from scenarios.data.own_tables.proposals.columns import Proposed

UNKNOWN = "und"
"""The tag of a language that is not known (BCP 47)."""

_TAG = "[A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8})*"


class Form(NamedTuple):
    """A questionnaire.

    Args:
        source: path of the form.
        title: title of the form; empty if it has none.
        language: the tag of the language in which it is proposed.
        columns: a proposal for each question.
    """

    source: str
    title: str
    language: str
    columns: tuple[Proposed, ...]


def language_tag(language: str | None) -> str:
    """The tag of a language for which a person has given one.

    Raises:
        UsageError: the text is not a tag.
    """
    if language is None:
        return UNKNOWN
    if not re.fullmatch(_TAG, language):
        raise UsageError(f"language {shown(language)}: expected a tag such as 'en' or 'pt-BR'")
    return language


def tag_in(language: str) -> str:
    """The tag in the name of a language, such as ``English (en)``; or the name if it is a tag."""
    named = re.search(rf"\(\s*({_TAG})\s*\)\s*$", language)
    if named is not None:
        return named[1]
    return language if re.fullmatch(_TAG, language) else UNKNOWN
