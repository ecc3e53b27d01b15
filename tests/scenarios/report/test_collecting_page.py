"""The page that people answer with as a file: small, whole, and allowed nothing but itself."""

from __future__ import annotations

import base64
import hashlib
import re

from scenarios.report.page.collecting import ANSWERING, collecting_page

# Words for promises that the page cannot make, in its languages.
FORBIDDEN = re.compile("anonym|noise|secur|rauschen|sicher|مجهول|ضوضاء|ضجيج|آمن", re.IGNORECASE)


def test_the_policy_allows_its_own_script_and_style_alone() -> None:
    content, policy = collecting_page()
    page = content.decode()
    [style], [script] = (
        re.findall(f"<{tag}[^>]*>(.*)</{tag}>", page, re.DOTALL) for tag in ("style", "script")
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
    assert (page.count("<script"), page.count("<style"), page.count("</script")) == (1, 1, 1)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\bcookie", page)
    assert page.index("<noscript>") < page.index("your answers are disguised on your own phone")


def test_the_page_is_small_and_promises_nothing() -> None:
    assert len(collecting_page()[0]) <= 150_000
    for name in ("words.js", "collect.html", "collect.js"):
        assert not FORBIDDEN.search((ANSWERING / name).read_text(encoding="utf-8"))


def test_every_language_has_the_same_words() -> None:
    words = (ANSWERING / "words.js").read_text(encoding="utf-8")
    tables = re.split(r"^const (?:en|de|ar) = \{$", words, flags=re.MULTILINE)[1:]
    keys = [re.findall(r"^ +(\w+): [\"{]", table, re.MULTILINE) for table in tables]
    gaps = [re.findall(r"^ +(\w+): .*?(\{\w+\}.*)$", table, re.MULTILINE) for table in tables]
    filled = [{(k, tuple(sorted(re.findall(r"\{\w+\}", v)))) for k, v in each} for each in gaps]
    assert len(keys) == 3
    assert keys[0] == keys[1] == keys[2]
    assert filled[0] == filled[1] == filled[2]


def test_every_word_is_used() -> None:
    words = (ANSWERING / "words.js").read_text(encoding="utf-8")
    english = words[: words.index("const de = {")]
    page = (ANSWERING / "collect.js").read_text(encoding="utf-8")
    used = {*re.findall(r"words\.(?!js)(\w+)", page), "offline", "server"}
    assert {*re.findall(r"^  (\w+): ", english, re.MULTILINE)} == used
    reasons = english[english.index("reasons: {") :]
    visit = (ANSWERING / "visit.js").read_text(encoding="utf-8")
    party = (ANSWERING / "party.js").read_text(encoding="utf-8")
    thrown = {*re.findall(r'Refused\((?:.*\? )?"(\w+)"(?: : "(\w+)")?', visit + party)}
    thrown |= {(found, "") for found in re.findall(r'must\(.*, "(\w+)"\)', party)}
    instead = {"malformed", "checkpoint", "attempt"}
    named = {name for pair in thrown for name in pair if name} - instead
    assert named <= {*re.findall(r"^    (\w+): ", reasons, re.MULTILINE)}
    assert {"question", "survey", "variant", "place", "tab", "unknown"} <= named
