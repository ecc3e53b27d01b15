"""The page that people answer with as a file: small, whole, and allowed nothing but itself."""

from __future__ import annotations

import base64
import hashlib
import json
import re

from scenarios.report.page.collecting import ANSWERING, collecting_page
from scenarios.report.page.words import LANGUAGES, words
from tests.scenarios.report.page.test_words import sentences

# Words for promises that the page cannot make, in its languages.
FORBIDDEN = re.compile("anonym|noise|secur|rauschen|sicher|مجهول|ضوضاء|ضجيج|آمن", re.IGNORECASE)


def test_the_policy_allows_its_own_script_and_style_alone() -> None:
    content, policy = collecting_page()
    page = content.decode()
    [style], [script] = (
        re.findall(f"<{tag}>(.*?)</{tag.split()[0]}>", page, re.DOTALL)
        for tag in ("style", 'script type="module"')
    )
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()}'"
        for part in (script, style)
    ]
    assert policy == (
        "default-src 'none'; script-src {}; style-src {}; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'"
    ).format(*hashes)
    assert not re.search(r"^(import|export) ", script, re.MULTILINE)
    assert (page.count("<script"), page.count("<style"), page.count("</script")) == (2, 1, 2)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\bcookie", page)
    assert page.index("<noscript>") < page.index("your answers are disguised on your own phone")


def test_the_page_is_small_and_promises_nothing() -> None:
    assert len(collecting_page()[0]) <= 150_000
    for language in LANGUAGES:
        for _, sentence in sentences(words(language)):
            assert not FORBIDDEN.search(sentence)
    for name in ("languages.js", "collect.html", "collect.js"):
        assert not FORBIDDEN.search((ANSWERING / name).read_text(encoding="utf-8"))


def test_the_page_holds_the_words_of_every_language() -> None:
    page = collecting_page()[0].decode()
    [held] = re.findall(r'<script type="application/json" id="words">(.*?)</script>', page)
    assert json.loads(held) == {name: words(name)["answering"] for name in LANGUAGES}
    for name in LANGUAGES:
        assert words(name)["frame"]["script"] in page[page.index("<noscript>") :]
    assert '<p lang="ar" dir="rtl">' in page


def test_every_word_is_used() -> None:
    english = words()["answering"]
    page = (ANSWERING / "collect.js").read_text(encoding="utf-8")
    used = {*re.findall(r"words\.(?!js)(\w+)", page), "offline", "server"}
    assert set(english) == used
    visit = (ANSWERING / "visit.js").read_text(encoding="utf-8")
    party = (ANSWERING / "party.js").read_text(encoding="utf-8")
    thrown = {*re.findall(r'Refused\((?:.*\? )?"(\w+)"(?: : "(\w+)")?', visit + party)}
    thrown |= {(found, "") for found in re.findall(r'must\(.*, "(\w+)"\)', party)}
    instead = {"malformed", "checkpoint", "attempt"}
    named = {name for pair in thrown for name in pair if name} - instead
    assert named <= set(english["reasons"])
    assert {"question", "survey", "variant", "place", "tab", "unknown"} <= named
