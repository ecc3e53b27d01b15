"""Common parts of all pages: self-contained HTML, without anything to fetch.

Every text from a transcript is escaped twice: control characters by ``printable``, and HTML by the
templates' environment.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from scenarios.errors import printable
from scenarios.report.page import diagrams
from scenarios.report.page.panels import FIRST, legend, panels
from scenarios.report.page.words import words
from scenarios.statement.privacy_verdict import PrivacyVerdict
from scenarios.statement.statement import WORDS, Bar, Statement
from scenarios.wording.formatting import cut

TEMPLATES = files("scenarios.report.page") / "templates"
"""The templates, style sheets and scripts of pages."""

_AMONG_FINDINGS = frozenset({"estimate", "integrity", "members"})
"""Sections with checks whose failures are among the findings."""

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
    """A statement as a page: verdicts, problems and charts; all else is folded.

    A section that a failed check refers to, or with findings, stands open below the verdicts.

    Args:
        said: the statement.
        kind: kind of the page's subject, in a few words.
        template: the name of its file, if it is of a kind that says more.
        extras: further drawings, by the section's key.
        source: origin of the data, as names and values.
        script: the file of the only one that the page runs; by default none.
        values: further values for the template.
    """
    drawn = {section.key: panels(section) for section in said.sections if section.panels}
    charts = [chart for each in drawn.values() for chart in each["panels"]]
    failed = {check.link for check in said.checks if check.state == "bad"}
    found = {each.key for each in said.sections if any(grid.key == "found" for grid in each.grids)}
    there = {section.key for section in said.sections}
    opened = (found | (failed - _AMONG_FINDINGS if found else failed)) & there
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
            opened=opened,
            failed=bool(failed) and not opened,
            charts=charts,
            first=FIRST,
            legend=legend(said.sections, disguised=_is_randomized(said)),
            scales=any(verdict.scale for verdict in said.verdicts),
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
        finalize=_show,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.globals["words"] = words()["result"]
    made.globals["states"] = WORDS
    made.globals["ruler"] = diagrams.ruler
    made.globals["swatch"] = diagrams.swatch
    made.filters["unbroken"] = _unbroken
    return made


def _is_randomized(said: Statement) -> bool:
    """Check whether a finite, nonzero epsilon bounds what each person revealed."""
    verdicts = (each for each in said.verdicts if isinstance(each, PrivacyVerdict))
    return any(each.word != "unknown" and 0 < each.epsilon < math.inf for each in verdicts)


def _show(value: Any) -> Any:
    """A value as printed by a template: control characters visible, bars drawn."""
    if isinstance(value, Bar):
        return diagrams.bars(value.shares)
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _unbroken(cell: str) -> Markup:
    """A cell's figures one per line, each kept together with its percent sign and interval."""
    shown = _INTERVAL.sub(r"[\1,&nbsp;\2]", str(escape(printable(cell))))
    return Markup(shown.replace(" %", "&nbsp;%").replace("; ", ";<br> "))


def _policy(style: str, script: str) -> str:
    """A content security policy for this style sheet and this script, if any."""
    ours = f"style-src {hashed(style)}" + (f"; script-src {hashed(script)}" if script else "")
    return f"default-src 'none'; {ours}; base-uri 'none'; form-action 'none'"


def data(values: object) -> Markup:
    """Values as JSON that may stand in a script element, which it cannot end."""
    return Markup(json.dumps(values, ensure_ascii=False).replace("<", "\\u003c"))


def hashed(content: str) -> str:
    """A style sheet or a script as a content security policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
