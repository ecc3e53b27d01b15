"""The pages' own words: one file per language, read when a page is made."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

LANGUAGES = ("en", "de", "ar")
"""The languages that people are asked in, English first. Each has a file here."""

_RIGHT_TO_LEFT = frozenset(("ar", "ckb", "dv", "fa", "he", "ps", "sd", "ug", "ur", "yi"))


@functools.cache
def words(language: str = "en") -> Mapping[str, Any]:
    """The words of a language, by page and key; gaps stand in braces.

    All languages have ``frame``, ``answering`` and ``card``, which respondents read. Other pages
    are in English alone.

    Args:
        language: one of ``LANGUAGES``.
    """
    file = files("scenarios.report.page.words") / f"{language}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8"))


def direction(language: str) -> str:
    """The direction of writing of a language (BCP 47), ``ltr`` or ``rtl``."""
    return "rtl" if language.partition("-")[0].lower() in _RIGHT_TO_LEFT else "ltr"
