"""A page for respondents: it checks a receipt in a browser, with nothing to fetch.

Its script is that of the second verifier (``docs/verifier``), which shares no code with this
program, and a part for the page.
"""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

from markupsafe import Markup

from scenarios.report.page.page import TEMPLATES, environment, hashed

_SCRIPT = "respondent.js"
_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+\.js)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:const|function|class) (\w+))", re.MULTILINE)


def respondent_page() -> str:
    """The page as HTML. It allows its own style sheet and script alone."""
    style = "".join(
        (TEMPLATES / name).read_text(encoding="utf-8") for name in ("style.css", "respondent.css")
    )
    script = _bundle()
    policy = f"script-src {hashed(script)}; style-src {hashed(style)}"
    rendered: str = (
        environment()
        .get_template("respondent.html")
        .render(
            policy=f"default-src 'none'; {policy}; base-uri 'none'; form-action 'none'",
            style=Markup(style),
            script=Markup(script),
            version=version("sottovoce"),
        )
    )
    return rendered


def _source(name: str) -> str:
    """A module by its file's name: a wheel has those of the verifier beside the page's own."""
    beside = TEMPLATES / name
    if not beside.is_file():
        beside = Path(__file__).parents[3] / "docs" / "verifier" / name
    return beside.read_text(encoding="utf-8")


def _bundle() -> str:
    """The page's script and all modules that it imports, as one script."""
    parts: dict[str, str] = {}

    def add(name: str) -> None:
        source = _source(name)
        for imported in _IMPORT.finditer(source):
            if imported[2] not in parts:
                add(imported[2])
        names = ", ".join(found[2] for found in _EXPORT.finditer(source))
        body = _EXPORT.sub(r"\1", _IMPORT.sub(_bound, source))
        parts[name] = f'modules["{name}"] = (() => {{\n{body}return {{ {names} }};\n}})();\n'

    add(_SCRIPT)
    return "const modules = {};\n" + "".join(parts.values())


def _bound(imported: re.Match[str]) -> str:
    """An import as a declaration."""
    return f'const {{{imported[1].replace(" as ", ": ")}}} = modules["{imported[2]}"];'
