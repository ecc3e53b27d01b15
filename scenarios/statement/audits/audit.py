"""Statement of an audit: findings, verdicts, checks, and their basis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import isinf
from typing import cast

from protocol.audit.audit import Audit
from protocol.audit.coalition.coalition import Coalition
from protocol.audit.coalition.finding import CoalitionFinding
from protocol.estimators.usefulness import margins_of_error
from protocol.messages import AGGREGATOR
from scenarios.statement.audits.checks import audit_checks, bounded_beside_sums, has_sum
from scenarios.statement.audits.coalitions import active_notes, coalition, how_found, linkage
from scenarios.statement.audits.judged import Judged
from scenarios.statement.audits.learned import claims, ledger, trail
from scenarios.statement.audits.of_file import changed, cut_short, on_record
from scenarios.statement.audits.record import findings, integrity, members
from scenarios.statement.audits.spot import spot
from scenarios.statement.audits.values import audit_values
from scenarios.statement.estimates import announced, estimated
from scenarios.statement.found import coverage, found_grid
from scenarios.statement.privacy_verdict import PrivacyVerdict, on_privacy
from scenarios.statement.statement import Check, Fact, Section, Statement, Verdict
from scenarios.statement.usefulness.verdict import (
    UsefulnessVerdict,
    mended,
    on_usefulness,
)
from scenarios.surveys.watching.rounds import Round
from scenarios.wording.formatting import NONE, count, cut, epsilon, rest, size
from scenarios.wording.withstanding import promised_in, together

_REASONS = 3

_FOLDED = frozenset({"findings", "members", "analysis", "ledger", "claims", "linkage"})
"""The sections that are there in every audit, and that a terminal shows in details."""


class AuditStatement(Statement):
    """Statement of an audit, with the verdicts that it always has by name."""

    __slots__ = ()

    @property
    def record(self) -> Verdict:
        """True if the record is sound: intact, with a result that follows from it."""
        return self.verdicts[0]

    @property
    def privacy(self) -> PrivacyVerdict:
        """The verdict on privacy."""
        return cast(PrivacyVerdict, self.verdicts[1])


def statement(judged: Judged) -> AuditStatement:
    """Statement of an audit; equal audits give equal statements."""
    audit, checks = judged.audit, audit_checks(judged)
    answers = {check.about: check.says for check in checks}
    estimates = _estimates(judged)
    sections = [
        findings(judged),
        estimates,
        members(judged, answers["The count"]),
        *(() if judged.spot is None else (spot(judged.spot),)),
        announced(audit.charter.analysis, judged.announced, answers["The analysis"]),
        ledger(judged, answers["Privacy"]),
        claims(judged, answers["Claims"]),
    ]
    # The reason for an unbounded figure is given once.
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
        sections.append(trail(judged.account, together(judged.observer)))
    sections.append(integrity(judged, answers["The record"], answers.get("Replayed words", "")))
    return AuditStatement(
        found=found_grid(judged.estimate, estimates),
        verdicts=(
            on_record(audit.verdict, *_of_the_record(audit)),
            on_privacy(
                audit.passed,
                alone=judged.alone,
                checks=audit.checks,
                conspiring=_conspiring(judged),
                withstands=judged.withstands,
                doubt=_doubt(audit),
                source=audit.source,
                apart=audit.apart,
                promised=_honest_left(audit),
            ),
            *_usefulness(judged),
        ),
        coverage=coverage(audit.completeness, audit.charter.codec),
        checks=checks,
        sections=tuple(_fold(sections, checks) if audit.verdict == "sound" else sections),
        values=audit_values(judged),
    )


def _fold(sections: Iterable[Section], checks: Sequence[Check]) -> Iterator[Section]:
    """The sections; those of passed checks lose their brief sentences."""
    care = {check.link for check in checks if check.state not in ("good", "note")}
    for section in sections:
        found = section.key in care or (section.key == "findings" and section.grids)
        yield section if found or section.key not in _FOLDED else replace(section, brief=())


def facts(judged: Judged, rounds: Sequence[Round]) -> tuple[Fact, ...]:
    """The figures at the top of a page about a transcript."""
    audit = judged.audit
    complete = audit.completeness
    octets = sum(flow.bytes for round_ in rounds for flow in round_.flows)
    messages = sum(flow.messages for round_ in rounds for flow in round_.flows)
    # Always about the aggregator and all services.
    beside = None if audit.partial else bounded_beside_sums(audit.passed, judged.alone)
    loss = audit.passed.record_epsilon if beside is None else beside
    bound = "at least" if audit.partial else "no bound holds" if isinf(loss) else "at most, pure"
    if beside is not None:
        bound = "at most, beside exact sums"
    return (
        Fact("Parties counted", f"{complete.counted:,}", f"of {complete.response.asked:,}"),
        Fact("Respondents", f"{audit.estimate.n:,}" if audit.estimate else NONE, "in the result"),
        Fact("ε per respondent", epsilon(loss, least=audit.partial), bound),
        Fact("Messages", f"{messages:,}", f"{size(octets)} in {count(len(rounds), 'round')}"),
    )


def _estimates(judged: Judged) -> Section:
    if judged.estimate is None:
        return Section(
            key="estimate",
            title="The published estimate",
            lead="There is none to show.",
            place="aside",
        )
    return estimated(judged.estimate, judged.intervals, place="aside")


def _usefulness(judged: Judged) -> tuple[UsefulnessVerdict, ...]:
    """Usefulness of the estimates and the announced tables; none without a result."""
    if judged.estimate is None:
        return ()
    analysis, about = judged.audit.charter.analysis, judged.intervals.about
    tables = () if analysis is None else analysis.tables
    of = margins_of_error(judged.estimate, about, tables=tables)
    mending = mended(
        judged.audit.charter.variant,
        of,
        respondents=judged.estimate.n,
        parties=judged.audit.completeness.counted,
        about=about,
    )
    return on_usefulness(of, mending=mending)


def _conspiring(judged: Judged) -> tuple[CoalitionFinding, ...]:
    """Findings on the requested coalitions, apart from the aggregator alone."""
    worst = None if judged.worst is None else judged.worst.finding
    asked = (each for each in (judged.coalition, worst) if each is not None)
    return tuple(each for each in asked if each.coalition != Coalition((AGGREGATOR,)))


def _honest_left(audit: Audit) -> int | None:
    """Honest members of the sum who have not disclosed their input; None without such a sum."""
    promised = promised_in(audit.charter.variant, len(audit.charter.roster.parties))
    return None if promised is None else max(1, promised - len(audit.disclosed))


def _doubt(audit: Audit) -> str:
    """Reason to believe that more was revealed than is on record; empty if there is none."""
    if audit.partial:
        return "the record could not be read whole"
    if audit.verdict in ("broken", "incomplete"):
        return f"the record is {audit.verdict}, so more may have been told than it holds"
    return "" if audit.finished else "not all of the record could be judged"


def _of_the_record(audit: Audit) -> tuple[str, tuple[str, ...]]:
    """Sentence on the record, and the first findings against it."""
    wrong = len(audit.findings)
    if audit.verdict == "unfinished":
        says = "Not all of the record could be read or judged: it may be what was recorded or not."
    elif audit.verdict == "sound":
        says = "The record is whole, and the published result follows from it."
    elif audit.verdict == "unchecked":
        # The check of the result gives the reason.
        who = "nobody can check it" if audit.trial else "that takes the aggregator's folder"
        return f"The record is intact. Nothing of its result was checked: {who}.", ()
    elif audit.verdict == "incomplete":
        return cut_short(audit.verification), ()
    elif (why := changed(audit.verification)) is not None:
        # Other findings may follow from this one.
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
