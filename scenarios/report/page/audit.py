"""An audit as one page: a statement, the traffic, the estimate, the survey's terms and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scenarios.report.page.association import association
from scenarios.report.page.coalitions import graph
from scenarios.report.page.page import statement_page
from scenarios.report.page.panels import learned_chart
from scenarios.report.page.replay import replay
from scenarios.report.page.rounds import traffic
from scenarios.report.page.terms import terms
from scenarios.report.page.words import words
from scenarios.statement.audits.audit import facts, statement
from scenarios.statement.audits.judged import Judged
from scenarios.statement.statement import Statement
from scenarios.surveys.watching.rounds import Round
from scenarios.surveys.watching.standings import StandingWriter
from scenarios.wording.formatting import cut
from scenarios.wording.withstanding import together as conspiring

BEGINS = b"<!doctype html>"
"""Start of such a file."""


def audit_page(
    judged: Judged,
    rounds: Sequence[Round],
    steps: StandingWriter | None = None,
    *,
    said: Statement | None = None,
) -> str:
    """An audit as a page: verdicts, problems and privacy losses; all else is folded.

    Equal audits give equal pages. Long lists are cut, with a remark.

    Args:
        rounds: rounds from ``split_rounds``.
        steps: has taken the transcript's steps, if the page is to show them.
        said: the statement, if it is known already.
    """
    stated, survey = said or statement(judged), judged.audit.charter.variant.survey
    exchanged, flows = traffic(judged.audit, rounds)
    together = association(judged.estimate, judged.intervals)
    audit, who = judged.audit, conspiring(judged.observer)
    doubted = any(each.about == "Privacy" and each.state == "open" for each in stated.verdicts)
    extras = {exchanged.key: flows, "learned": learned_chart(audit.ledger, who, least=doubted)}
    if together is not None:
        extras["association"] = together[1]
    if judged.coalition is not None:
        extras["coalition"] = graph(judged.coalition, "coalition")
    if judged.worst is not None:
        extras["worst"] = graph(judged.worst.finding, "worst")
    heads = words()["result"]["source"]
    found, published, *others, integrity = stated.sections
    shown = [published, *(together or ())[:1]]
    if steps is not None:
        section, extras["replay"] = replay(steps, judged.intervals, judged.audit.passed)
        shown.append(section)
    agreed = terms(judged.header, survey)
    wrong = [found] if found.grids else []
    sections = (*wrong, *shown, *others, exchanged, agreed, integrity)
    return statement_page(
        replace(stated, title=survey.title, facts=facts(judged, rounds), sections=sections),
        kind=words()["result"]["kinds"][audit.source],
        template="audit.html",
        extras=extras,
        script="replay.js" if extras.get("replay") else "",
        source=(
            (heads["variant"], cut(judged.header.variant)),
            (heads["file"], cut(judged.file, 120)),
        ),
    )
