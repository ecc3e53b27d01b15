"""What all pages have in common: self-contained HTML, without anything to fetch.

Every text from a transcript is escaped twice over: what is not printable by ``printable``, and what
means something in HTML by the templates' environment.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from scenarios.errors import printable
from scenarios.report.page import diagrams
from scenarios.report.page.panels import panels
from scenarios.statement.statement import WORDS, Bar, Statement
from scenarios.wording.formatting import cut

TEMPLATES = files("scenarios.report.page") / "templates"
"""The templates, style sheets and scripts of pages."""

_INTERVAL = re.compile(r"\[([^\[\], ]+), ([^\[\], ]+)\]")


def statement_page(
    said: Statement,
    *,
    kind: str,
    template: str = "report.html",
    extras: Mapping[str, Mapping[str, object]] = MappingProxyType({}),
    source: Sequence[tuple[str, str]] = (),
    script: str = "",
    **values: object,
) -> str:
    """A statement as a page: what was found, the verdicts, the checks, then its sections.

    Args:
        said: the statement.
        kind: what it is of, in a few words.
        template: the name of its file, if it is of a kind that says more.
        extras: what is drawn besides, by the section's key.
        source: where it is from, as names and values.
        script: the file of the only one that the page runs; by default none.
        values: what else the template takes.
    """
    drawn = {section.key: panels(section) for section in said.sections if section.panels}
    scales = [verdict.scale for verdict in said.verdicts]
    style = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    code = (TEMPLATES / script).read_text(encoding="utf-8") if script else ""
    rendered: str = (
        environment()
        .get_template(template)
        .render(
            title=cut(said.title, 120),
            style=Markup(style),
            script=Markup(code),
            policy=_policy(style, code),
            statement=said,
            scales=" ".join(scale.says for scale in scales if scale is not None),
            kind=kind,
            source=source,
            extras={**drawn, **extras},
            **values,
        )
    )
    return rendered


@functools.cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("scenarios.report.page"),
        autoescape=True,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.globals["words"] = WORDS
    made.globals["ruler"] = diagrams.ruler
    made.filters["unbroken"] = _unbroken
    return made


def _shown(value: Any) -> Any:
    """A value as a template prints it: texts with their control characters shown, bars drawn."""
    if isinstance(value, Bar):
        return diagrams.bars(value.shares)
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _unbroken(cell: str) -> Markup:
    """Figures of a cell as a template prints it: each on a line, with its percent and interval."""
    shown = _INTERVAL.sub(r"[\1,&nbsp;\2]", str(escape(printable(cell))))
    return Markup(shown.replace(" %", "&nbsp;%").replace("; ", ";<br> "))


def _policy(style: str, script: str) -> str:
    """A content security policy that allows this style sheet, and this script if there is one."""
    ours = f"style-src {hashed(style)}" + (f"; script-src {hashed(script)}" if script else "")
    return f"default-src 'none'; {ours}; base-uri 'none'; form-action 'none'"


def hashed(content: str) -> str:
    """A style sheet or a script as a content security policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
