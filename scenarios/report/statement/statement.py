"""An audit's statement: what was found, the verdicts, the checks, and what they rest on."""

from __future__ import annotations

from dataclasses import dataclass

from protocol.audit.audit import Audit
from protocol.audit.coalition.finding import CoalitionFinding
from scenarios.report.formatting import count, cut
from scenarios.report.statement.checks import checks_of, has_sum
from scenarios.report.statement.coalitions import active_notes, coalition, how_found, linkage
from scenarios.report.statement.found import Coverage, coverage, found
from scenarios.report.statement.judged import Judged
from scenarios.report.statement.of_file import changed
from scenarios.report.statement.parts import Check, Grid, Section, Verdict, rest
from scenarios.report.statement.privacy import claims, ledger, trail
from scenarios.report.statement.record import analysis, findings, integrity, members
from scenarios.report.statement.verdicts import PrivacyVerdict, on_privacy, on_record

_REASONS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What an audit says.

    Args:
        found: the largest figures of the published result; None if there is none.
        record: whether the record is what was recorded, and its result follows from it.
        privacy: how well people were protected.
        coverage: who was counted, for the estimate and in each wait.
        checks: every question that was put to the record, with its answer.
        sections: what the answers rest on.
    """

    found: Grid | None
    record: Verdict
    privacy: PrivacyVerdict
    coverage: tuple[Coverage, ...]
    checks: tuple[Check, ...]
    sections: tuple[Section, ...]

    @property
    def verdicts(self) -> tuple[Verdict, Verdict]:
        """Both of them."""
        return self.record, self.privacy


def statement(judged: Judged) -> Statement:
    """What an audit says; the same of the same audit."""
    audit, checks = judged.audit, checks_of(judged)
    answers = {check.about: check.says for check in checks}
    sections = [
        findings(judged),
        members(judged, answers["The count"]),
        analysis(judged, answers["The analysis"]),
        ledger(judged, answers["Privacy"]),
        claims(judged, answers["Claims"]),
    ]
    # Why nothing bounds a figure is said once.
    told, partial = audit.ledger.unbounded, audit.partial
    if (known := judged.coalition) is not None:
        notes = judged.coalition_notes
        sections.append(
            coalition(known, answers["Coalition"], notes=notes, unbounded=told, partial=partial)
        )
    if (worst := judged.worst) is not None:
        title, lead = "The worst coalition found", answers["The worst coalition"]
        active = active_notes(worst, judged.withstands)
        notes = how_found(worst, partial=partial), *active, *judged.worst_notes
        sections.append(
            coalition(
                worst.finding,
                lead,
                key="worst",
                title=title,
                notes=notes,
                unbounded=told,
                partial=partial,
            )
            if has_sum(worst.finding)
            else Section(key="worst", title=title, lead=lead)
        )
    sections.append(linkage(judged.linkage, answers["Linkage"]))
    if judged.account is not None:
        sections.append(trail(judged.account))
    sections.append(integrity(judged, answers["The record"]))
    return Statement(
        found=found(judged.estimate, judged.intervals),
        record=on_record(audit, *_of_the_record(audit)),
        privacy=on_privacy(
            audit.passed,
            alone=judged.alone,
            checks=audit.checks,
            conspiring=_conspiring(judged),
            withstands=judged.withstands,
            doubt=_doubt(audit),
            simulated=audit.simulated,
            trial=audit.trial,
        ),
        coverage=coverage(audit),
        checks=checks,
        sections=tuple(sections),
    )


def _conspiring(judged: Judged) -> tuple[CoalitionFinding, ...]:
    """What the coalitions know that were asked about."""
    worst = None if judged.worst is None else judged.worst.finding
    return tuple(each for each in (judged.coalition, worst) if each is not None)


def _doubt(audit: Audit) -> str:
    """Why more may have been told than is on record; empty if nothing speaks for it."""
    if audit.partial:
        return "the record could not be read whole"
    if audit.verdict == "broken":
        return "the record is broken, so more may have been told than it holds"
    return "" if audit.finished else "not all of the record could be judged"


def _of_the_record(audit: Audit) -> tuple[str, tuple[str, ...]]:
    """What is to be said of the record in a sentence, and the first findings against it."""
    wrong = len(audit.findings)
    if audit.verdict == "unfinished":
        says = "Not all of the record could be read or judged: it may be what was recorded or not."
    elif audit.verdict == "sound":
        says = "The record is whole, and the published result follows from it."
    elif (why := changed(audit.verification)) is not None:
        # Whatever else is wrong may follow from that.
        more = f"{count(wrong, 'check fails', 'checks fail')} because of it, or as well."
        return why, (more,) if wrong > 1 else ()
    elif wrong:
        stands = "stands" if wrong == 1 else "stand"
        says = f"{count(wrong, 'finding')} {stands} against this record or its result."
    else:
        says = "The record is not intact."
    more = rest(wrong, _REASONS, "below")
    reasons = tuple(cut(str(each), 300) for each in audit.findings[:_REASONS])
    return says, (*reasons, more) if more else reasons
