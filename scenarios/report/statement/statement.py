"""An audit's statement: the verdict, every check behind it, and what they rest on."""

from __future__ import annotations

from dataclasses import dataclass

from scenarios.report.formatting import count, cut
from scenarios.report.statement.checks import checks_of, has_sum
from scenarios.report.statement.coalitions import coalition, how_found, linkage
from scenarios.report.statement.judged import Judged
from scenarios.report.statement.parts import Check, Section, rest
from scenarios.report.statement.privacy import claims, ledger, trail
from scenarios.report.statement.record import analysis, findings, integrity, members

_REASONS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What an audit says.

    Args:
        accepted: whether the record is intact and its result follows from it.
        undecided: there is no verdict, for not all could be judged.
        says: the verdict in a sentence.
        reasons: the first findings against it, and how many more there are.
        checks: every question that was put to the record, with its answer.
        sections: what the answers rest on.
    """

    accepted: bool
    undecided: bool
    says: str
    reasons: tuple[str, ...]
    checks: tuple[Check, ...]
    sections: tuple[Section, ...]

    @property
    def title(self) -> str:
        """The verdict in a word or two."""
        if self.undecided:
            return "No verdict"
        return "Accepted" if self.accepted else "Not accepted"


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
    if (found := judged.coalition) is not None:
        notes = judged.coalition_notes
        sections.append(
            coalition(found, answers["Coalition"], notes=notes, unbounded=told, partial=partial)
        )
    if (worst := judged.worst) is not None:
        title, lead = "The worst coalition found", answers["The worst coalition"]
        notes = how_found(worst, partial=partial), *judged.worst_notes
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
    wrong = len(audit.findings)
    if audit.accepted:
        says = "The record is whole, and the published result follows from it."
    elif audit.undecided:
        says = "Not all of the record could be read or judged: it may be what was recorded or not."
    elif wrong:
        stands = "stands" if wrong == 1 else "stand"
        says = f"{count(wrong, 'finding')} {stands} against this record or its result."
    else:
        says = "The record is not intact."
    more = rest(wrong, _REASONS, "below")
    reasons = tuple(cut(str(found), 300) for found in audit.findings[:_REASONS])
    return Statement(
        accepted=audit.accepted,
        undecided=audit.undecided,
        says=says,
        reasons=(*reasons, more) if more else reasons,
        checks=checks,
        sections=tuple(sections),
    )
