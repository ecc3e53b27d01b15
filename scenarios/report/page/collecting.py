"""The page that people answer a survey with: one file, the same for every survey.

Its script checks what is asked, draws, signs and checks the receipt with the modules of the second
verifier (``docs/verifier``), which shares no code with this program, and with modules of its own.
"""

from __future__ import annotations

import functools
from importlib.resources import files

from scenarios.report.page.bundling import bundled, verifier
from scenarios.report.page.page import hashed

ANSWERING = files("scenarios.report.page") / "answering"
"""The page's own modules, style sheet and frame."""


@functools.cache
def collecting_page() -> tuple[bytes, str]:
    """The page as HTML, and the content security policy that it is to be served with.

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
    return page.replace("STYLE", style).replace("SCRIPT", script).encode(), policy
