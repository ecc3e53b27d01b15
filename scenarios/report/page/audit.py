"""An audit as one page: a statement, the traffic, the estimate, the survey's terms and pictures."""

from __future__ import annotations

from collections.abc import Sequence

from scenarios.report.calibration import calibration_sentences
from scenarios.report.formatting import cut
from scenarios.report.page.association import association
from scenarios.report.page.coalitions import graph
from scenarios.report.page.estimate import estimate
from scenarios.report.page.page import report
from scenarios.report.page.replay import replay
from scenarios.report.page.rounds import traffic
from scenarios.report.page.terms import terms
from scenarios.report.rounds import Round
from scenarios.report.statement.judged import Judged
from scenarios.report.statement.statement import statement
from scenarios.watching.standings import StandingWriter

BEGINS = b"<!doctype html>"
"""How such a file begins."""


def audit_page(judged: Judged, rounds: Sequence[Round], steps: StandingWriter | None = None) -> str:
    """An audit as a page: what was found and the verdicts first, then what they rest on.

    The same audit gives the same page. Lists are cut where they would make it long, and say so.

    Args:
        judged: what was found.
        rounds: as from ``rounds_of``.
        steps: has taken the transcript's steps, if the page is to show them.
    """
    stated, survey = statement(judged), judged.audit.charter.variant.survey
    said, flows = traffic(judged.audit, rounds)
    published, drawn = estimate(
        judged.estimate,
        judged.intervals,
        notes=() if judged.calibrated is None else calibration_sentences(judged.calibrated),
    )
    together = association(judged.estimate, judged.intervals)
    extras = {said.key: flows, published.key: drawn}
    if together is not None:
        extras["association"] = together[1]
    if judged.coalition is not None:
        extras["coalition"] = graph(judged.coalition, "coalition")
    if judged.worst is not None:
        extras["worst"] = graph(judged.worst.finding, "worst")
    shown = [published, *(together or ())[:1]]
    if steps is not None:
        section, extras["replay"] = replay(steps, judged.intervals, judged.audit.passed)
        shown.append(section)
    found, *others, integrity = stated.sections
    agreed = terms(judged.header, survey)
    wrong = [found] if found.grids else []
    return report(
        "audit.html",
        judged,
        stated,
        rounds,
        [*wrong, *shown, *others, said, agreed, integrity],
        extras,
        script="replay.js" if extras.get("replay") else "",
        source=(
            ("Variant", cut(judged.header.variant)),
            ("File", cut(judged.file, 120)),
        ),
    )
