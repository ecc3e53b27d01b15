"""A run as one page: verdicts, charts and privacy losses; all else is folded."""

from __future__ import annotations

from dataclasses import replace

from protocol.estimators.inference.intervals import USUAL, Intervals
from scenarios.report.page.association import association
from scenarios.report.page.page import statement_page
from scenarios.report.page.panels import learned_chart
from scenarios.report.page.rounds import traffic
from scenarios.report.page.terms import terms
from scenarios.report.page.words import words
from scenarios.running.scenario import Finished
from scenarios.statement.audits.audit import facts, statement
from scenarios.statement.audits.judging import Asked, judge
from scenarios.statement.audits.of_file import OF_THE_FILE
from scenarios.statement.found import found_grid
from scenarios.statement.runs import state_run
from scenarios.statement.usefulness.verdict import UsefulnessVerdict
from scenarios.wording.formatting import cut
from scenarios.wording.withstanding import together as conspiring

_FIRST, _LAST = ("findings", "ledger", "claims"), ("members",)
"""The sections of an audit that stand before what was said, and after it."""


def run_page(name: str, finished: Finished, intervals: Intervals = USUAL) -> str:
    """A run as a page: verdicts and charts first, then their basis, folded.

    The record is judged as in an audit, with its findings on the page.

    Args:
        name: name of the scenario or the plan.
    """
    outcome = finished.outcome
    path = outcome.transcript.path
    judged, rounds = judge(
        outcome.transcript,
        type(outcome.variant),
        Asked(digest=outcome.digest, intervals=intervals, rounds=True),
        file="not kept" if path is None else path.name,
    )
    audit = statement(judged)
    stated = state_run(name, finished, intervals)
    estimates, *others, run = stated.sections
    useful = (each for each in stated.verdicts if isinstance(each, UsefulnessVerdict))
    by_key = {section.key: section for section in audit.sections}
    together = association(finished.reported, intervals)
    said, flows = traffic(judged.audit, rounds)
    if not judged.audit.checks:
        by_key.pop("claims")
    if not judged.audit.findings:
        by_key.pop("findings")
    sections = (
        estimates,
        *(together or ())[:1],
        *others,
        *(by_key[key] for key in _FIRST if key in by_key),
        said,
        *(by_key[key] for key in _LAST),
        terms(judged.header, outcome.variant.survey),
        by_key["integrity"],
    )
    source, known = judged.audit.source, words()["result"]
    heads = known["source"]
    there = {section.key for section in sections}
    return statement_page(
        replace(
            audit,
            title=outcome.variant.survey.title,
            found=found_grid(finished.reported, estimates),
            verdicts=(audit.record, audit.privacy, *useful),
            facts=facts(judged, rounds),
            checks=tuple(
                check
                for check in audit.checks
                if check.state == "bad" or (check.about not in OF_THE_FILE and check.link in there)
            ),
            sections=sections,
        ),
        kind=known["kinds"][source],
        template="run.html",
        extras={
            said.key: flows,
            "learned": learned_chart(
                judged.audit.ledger,
                conspiring(judged.observer),
                least=audit.privacy.state == "open",
            ),
            **({} if together is None else {"association": together[1]}),
        },
        name=cut(name),
        run=run,
        source=(
            (heads["variant"], cut(outcome.variant.name)),
            *(((heads[source], cut(name)),) if source in heads else ()),
            (heads["file"], cut(judged.file, 120)),
        ),
    )
