"""A page for respondents: it checks a receipt in a browser, with nothing to fetch.

Its script is that of the second verifier (``docs/verifier``), which shares no code with this
program, and a part for the page.
"""

from __future__ import annotations

from importlib.metadata import version

from markupsafe import Markup

from scenarios.report.page.bundling import bundled, verifier
from scenarios.report.page.page import TEMPLATES, data, environment, hashed
from scenarios.report.page.words import words

_SCRIPT = "respondent.js"


def respondent_page() -> str:
    """The page as HTML. It allows its own style sheet and script alone."""
    known = words()["receipt"]
    style = "".join(
        (TEMPLATES / name).read_text(encoding="utf-8") for name in ("style.css", "respondent.css")
    )
    script = bundled(_SCRIPT, TEMPLATES, verifier())
    policy = f"script-src {hashed(script)}; style-src {hashed(style)}"
    rendered: str = (
        environment()
        .get_template("respondent.html")
        .render(
            policy=f"default-src 'none'; {policy}; base-uri 'none'; form-action 'none'",
            style=Markup(style),
            script=Markup(script),
            words=known,
            data=data(known),
            version=version("sottovoce"),
        )
    )
    return rendered
