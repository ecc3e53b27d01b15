"""The page on which people answer: one file for all surveys.

Its script checks the question, randomizes, signs, and checks the receipt. It uses the modules of
the second verifier (``docs/verifier``), which shares no code with this program, and modules of its
own. Its words are in the page as JSON, in all languages.
"""

from __future__ import annotations

import functools
import re
from importlib.resources import files

from markupsafe import Markup

from scenarios.report.page.bundling import bundled, verifier
from scenarios.report.page.page import data, hashed
from scenarios.report.page.words import LANGUAGES, direction, words

ANSWERING = files("scenarios.report.page") / "answering"
"""The page's own modules, style sheet and frame."""


@functools.cache
def collecting_page() -> tuple[bytes, str]:
    """The page as HTML, with its content security policy.

    The policy allows its own script and style sheet, and requests to where it came from.
    """
    script = bundled("collect.js", ANSWERING, verifier())
    style = (ANSWERING / "collect.css").read_text(encoding="utf-8")
    page = (ANSWERING / "collect.html").read_text(encoding="utf-8")
    policy = (
        f"default-src 'none'; script-src {hashed(script)}; style-src {hashed(style)}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'; require-trusted-types-for 'script'"
    )
    parts = {
        "TITLE": words()["frame"]["title"],
        "STYLE": style,
        "NOSCRIPT": "\n".join(map(_without_script, LANGUAGES)),
        "WORDS": data({name: words(name)["answering"] for name in LANGUAGES}),
        "SCRIPT": script,
    }
    return re.sub("|".join(parts), lambda part: parts[part[0]], page).encode(), policy


def _without_script(language: str) -> Markup:
    return Markup('<p lang="{}" dir="{}">{}</p>').format(
        language, direction(language), words(language)["frame"]["script"]
    )
