"""An audit's statement: what was found, the verdicts, the checks, and what they rest on."""

from __future__ import annotations

from typing import cast

from protocol.audit.audit import Audit
from protocol.audit.coalition.finding import CoalitionFinding
from scenarios.statement.audits.checks import checks_of, has_sum
from scenarios.statement.audits.coalitions import active_notes, coalition, how_found, linkage
from scenarios.statement.audits.judged import Judged
from scenarios.statement.audits.learned import claims, ledger, trail
from scenarios.statement.audits.of_file import changed, on_record
from scenarios.statement.audits.record import findings, integrity, members
from scenarios.statement.audits.values import audit_values
from scenarios.statement.estimates import announced, estimated
from scenarios.statement.found import coverage, found
from scenarios.statement.privacy_verdict import PrivacyVerdict, on_privacy
from scenarios.statement.statement import Section, Statement, Verdict
from scenarios.wording.formatting import count, cut, rest

_REASONS = 3


class AuditStatement(Statement):
    """What an audit says, with its two verdicts by name."""

    __slots__ = ()

    @property
    def record(self) -> Verdict:
        """Whether the record is what was recorded, and its result follows from it."""
        return self.verdicts[0]

    @property
    def privacy(self) -> PrivacyVerdict:
        """How well people were protected."""
        return cast(PrivacyVerdict, self.verdicts[1])


def statement(judged: Judged) -> AuditStatement:
    """What an audit says; the same of the same audit."""
    audit, checks = judged.audit, checks_of(judged)
    answers = {check.about: check.says for check in checks}
    estimates = _estimates(judged)
    sections = [
        findings(judged),
        estimates,
        members(judged, answers["The count"]),
        announced(audit.charter.analysis, judged.announced, answers["The analysis"]),
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
    return AuditStatement(
        found=found(judged.estimate, estimates),
        verdicts=(
            on_record(audit.verdict, *_of_the_record(audit)),
            on_privacy(
                audit.passed,
                alone=judged.alone,
                checks=audit.checks,
                conspiring=_conspiring(judged),
                withstands=judged.withstands,
                doubt=_doubt(audit),
                simulated=audit.simulated,
                trial=audit.trial,
            ),
        ),
        coverage=coverage(audit.completeness, audit.charter.codec),
        checks=checks,
        sections=tuple(sections),
        values=audit_values(judged),
    )


def _estimates(judged: Judged) -> Section:
    """What the published result says."""
    if judged.estimate is None:
        return Section(
            key="estimate",
            title="The published estimate",
            lead="There is none to show.",
            place="aside",
        )
    return estimated(judged.estimate, judged.intervals, place="aside")


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
    elif audit.verdict == "unchecked":
        # Why, the check of the result says.
        return "The record is intact. Its result can be checked with the aggregator's folder.", ()
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
