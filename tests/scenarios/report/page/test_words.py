"""The pages' own words: whole in every language, and nowhere but in their files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from importlib.resources import files

import pytest

from scenarios.report.page.collecting import ANSWERING
from scenarios.report.page.page import TEMPLATES, data
from scenarios.report.page.words import LANGUAGES, direction, words

FOR_RESPONDENTS = ("frame", "card", "answering")
SHOWING = ("collect.js", "languages.js", "respondent.js", "replay.js")
"""The scripts that show something; the others draw, sign and check."""

KEPT = frozenset(
    {
        *("Arab", "Hebr", "Thaa", "Syrc", "Nkoo", "Adlm", "Rohg"),  # scripts of languages
        *("sottovoce link", "not yet known"),  # keys
        *("soft lines", "fieldset.open :is(input, select)"),  # classes and selectors
        "a, button, input, select, summary",
    }
)
"""Texts of scripts that nobody reads."""


def sentences(table: Mapping[str, object], within: str = "") -> Iterator[tuple[str, str]]:
    """The words of a table by their keys, those of inner tables too."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from sentences(value, f"{within}{key}.")
        else:
            yield f"{within}{key}", str(value)


def gaps(sentence: str) -> list[str]:
    return sorted(re.findall(r"\{\w*\}", sentence))


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_every_language_has_the_same_words_with_the_same_gaps(language: str) -> None:
    for page in FOR_RESPONDENTS:
        english, other = (dict(sentences(words(name)[page])) for name in ("en", language))
        assert list(other) == list(english)
        for key, sentence in english.items():
            assert gaps(other[key]) == gaps(sentence), key
            assert other[key] != sentence, key
    assert set(words(language)) == set(FOR_RESPONDENTS)


def test_there_is_a_file_for_every_language_and_no_other() -> None:
    folder = files("scenarios.report.page.words")
    found = {path.name for path in folder.iterdir() if path.name.endswith(".toml")}
    assert found == {f"{language}.toml" for language in LANGUAGES}
    assert {language: direction(language) for language in ("de", "ar", "fa-IR", "en-GB")} == {
        **{"de": "ltr", "ar": "rtl"},
        **{"fa-IR": "rtl", "en-GB": "ltr"},
    }


def test_words_cannot_end_the_element_that_holds_them() -> None:
    held = data({"a": "</script><!--"})
    assert "<" not in held
    assert json.loads(held) == {"a": "</script><!--"}


class Texts(HTMLParser):
    """The words that a template itself holds: between tags, and in attributes for readers.

    Commands, which no language changes, stand in code.
    """

    def __init__(self, template: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.within = ""
        self.feed(re.sub(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", "", template, flags=re.DOTALL))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("aria-label", "alt", "title", "placeholder", "aria-valuetext"):
                self.handle_data(value or "")
        self.within = tag

    def handle_endtag(self, tag: str) -> None:
        self.within = ""

    def handle_data(self, data: str) -> None:
        if self.within != "code":
            self.found += re.findall(r"[^\W\d_]{2,}", data)


def spoken(script: str) -> list[str]:
    """Texts of a script that look like words for people: a capital letter first, or several."""
    bare = re.sub(r"^ *//.*$|^ */\*\*.*?\*/$", "", script, flags=re.MULTILINE)
    bare = re.sub(r"\$\{[^{}]*\}", "", bare)
    texts = [found for pair in re.findall(r'"([^"\n]*)"|`([^`]*)`', bare) for found in pair]
    words_in_it = re.compile(r"^[A-Z][a-z]+\b|[a-z]{2,},? [a-z]{2,}")
    return [text for text in texts if words_in_it.search(text) and text not in KEPT]


TEMPLATES_AND_SCRIPTS = {
    path.name: path
    for folder in (TEMPLATES, TEMPLATES / "sections", ANSWERING)
    for path in folder.iterdir()
    if path.is_file()
}


@pytest.mark.parametrize(
    "name", sorted(name for name in TEMPLATES_AND_SCRIPTS if name.endswith(".html"))
)
def test_no_template_has_words_of_its_own(name: str) -> None:
    text = TEMPLATES_AND_SCRIPTS[name].read_text(encoding="utf-8")
    placeholders = {"TITLE", "STYLE", "NOSCRIPT", "WORDS", "SCRIPT"}
    assert set(Texts(text).found) <= placeholders


@pytest.mark.parametrize("name", SHOWING)
def test_no_script_has_words_of_its_own(name: str) -> None:
    script = TEMPLATES_AND_SCRIPTS[name].read_text(encoding="utf-8")
    assert spoken(script) == []


def test_words_in_a_template_or_a_script_are_found() -> None:
    assert Texts("<p>{{ words.a }} and <code>sottovoce</code></p>").found == ["and"]
    assert Texts('<p aria-label="More of {{ it }}">1</p>').found == ["More", "of"]
    assert spoken('element("h2", "Send")') == ["Send"]
    assert spoken("show(`${x} more of ${y}`)") == [" more of "]
    assert spoken('made.setAttribute("aria-pressed", "true")') == []
