"""An audit as one self-contained page of HTML, without scripts and without anything to fetch.

The sections are made by the modules beside this one; here they are put in order and rendered.
Every text from a transcript is escaped twice over: what is not printable by ``printable``, and what
means something in HTML by the template's environment.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from protocol.accounting.composition import Composition
from protocol.audit.audit import Audit
from protocol.audit.coalition.finding import CoalitionFinding, WorstCoalition
from protocol.audit.linkage import Linkage
from protocol.transcript.entries import Header
from scenarios.report.formatting import count, cut
from scenarios.report.page import coalitions as page_coalitions
from scenarios.report.page import privacy as page_privacy
from scenarios.report.page.estimate import estimate
from scenarios.report.page.integrity import integrity, terms
from scenarios.report.page.parts import Check
from scenarios.report.page.record import (
    checks_of,
    facts_of,
    findings,
    members,
    verdict,
)
from scenarios.report.page.rounds import traffic
from scenarios.report.rounds import Round
from scenarios.running.errors import printable


def page(
    audit: Audit,
    *,
    title: str,
    transcript_name: str,
    header: Header,
    rounds: Sequence[Round],
    coalition: CoalitionFinding | None = None,
    worst: WorstCoalition | None = None,
    coalition_notes: Sequence[str] = (),
    linkage: Linkage | None = None,
    composition: Composition | Sequence[Composition] | None = None,
    everybody: bool = False,
    no_delta: str = "",
) -> str:
    """An audit as a page: the verdict first, then what it rests on.

    The same audit gives the same page. Lists are cut where they would make it long, and say so.

    Args:
        audit: what was found.
        title: what the survey is called.
        transcript_name: of the file.
        header: of the transcript.
        rounds: as from ``rounds_of``.
        coalition: what a coalition knows.
        worst: the most damaging coalition that was found.
        coalition_notes: what a reader has to know of the coalition that was asked for.
        linkage: what the observer can link.
        composition: other ways to add up what one respondent told, each with its assumption.
        everybody: whether that bounds what every respondent told.
        no_delta: why the figure at a delta is missing; empty if it is there, or nothing was told.
    """
    if composition is None:
        compositions: tuple[Composition, ...] = ()
    elif isinstance(composition, Sequence):
        compositions = tuple(composition)
    else:
        compositions = (composition,)
    sections = [
        findings(audit),
        members(audit),
        traffic(audit, rounds),
        page_privacy.ledger(audit, compositions, everybody=everybody, no_delta=no_delta),
        page_privacy.claims(audit.checks, partial=audit.partial),
    ]
    if coalition is not None:
        sections.append(
            page_coalitions.coalition(
                coalition,
                "coalition",
                "What a coalition knows",
                partial=audit.partial,
                said=coalition_notes,
            )
        )
    if worst is not None:
        sections.append(page_coalitions.worst_coalition(worst, partial=audit.partial))
    if linkage is not None:
        sections.append(page_coalitions.linkage(linkage, partial=audit.partial))
    sections += [
        estimate(audit),
        terms(header, audit.charter.variant.survey),
        integrity(audit, header, transcript_name),
    ]
    checks = list(checks_of(audit))
    if audit.checks:
        state, says = page_privacy.claims_verdict(audit.checks, partial=audit.partial)
        checks.append(Check(state, "Claims", says, "claims"))
    for found in (coalition, worst.finding if worst is not None else None):
        if found is not None and found.exposed:
            key = "coalition" if found is coalition else "worst"
            exposed = count(len(found.exposed), "party is", "parties are")
            checks.append(Check("care", "Coalition", f"{exposed} exposed to it.", key))
    style = (files("scenarios.report") / "page" / "style.css").read_text(encoding="utf-8")
    rendered: str = (
        _environment()
        .get_template("page.html")
        .render(
            title=cut(title, 120),
            transcript_name=cut(transcript_name, 120),
            variant=cut(header.variant),
            style=Markup(style),
            policy=_policy(style),
            verdict=verdict(audit, checks),
            facts=facts_of(audit, rounds),
            sections=sections,
        )
    )
    return rendered


@functools.cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("scenarios.report", "page"),
        autoescape=True,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )


def _shown(value: Any) -> Any:
    """A value as a template prints it: what came from elsewhere drives nothing."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _policy(style: str) -> str:
    """A content security policy that allows this style sheet, and nothing else at all."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
