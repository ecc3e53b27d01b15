"""Checks of a record: questions, judgements and words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from protocol.accounting.composition import Composition
from protocol.audit.coalition.coalition import Coalition
from protocol.audit.coalition.finding import CoalitionFinding
from protocol.audit.ledger import Ledger
from protocol.messages import RECORD
from scenarios.statement.audits.judged import Judged
from scenarios.statement.audits.lies import false_answers
from scenarios.statement.audits.of_file import LENGTH, NAMES, Answer, checks_of_file
from scenarios.statement.audits.replays import is_exact, is_noised
from scenarios.statement.privacy_verdict import beside_sums, has_exact_sums
from scenarios.statement.sampling import withdrawn_clause
from scenarios.statement.statement import SO_FAR, Check
from scenarios.wording.announced import described, table_title
from scenarios.wording.formatting import count, cut, epsilon, odds, ratio, some, upper
from scenarios.wording.withstanding import together

# The survey


def counted(judged: Judged) -> Answer:
    """Check on the parties in the estimate."""
    complete = judged.audit.completeness
    so_far = SO_FAR if judged.audit.partial else ""
    says = (
        f"{so_far}{complete.counted:,} of {count(complete.response.asked, 'party', 'parties')} "
        f"{'was' if complete.counted == 1 else 'were'} counted for the estimate"
    )
    if withdrawn := withdrawn_clause(complete):
        says += f"; {withdrawn}"
    if any(closing.left_out or closing.unheard for closing in complete.closings):
        return "bad", f"{says}, and not everybody was counted as it should have been."
    return "good" if complete.counted == complete.parties else "care", f"{says}."


def follows(judged: Judged) -> Answer:
    """Check whether the published result follows."""
    replay, estimate = judged.audit.replay, judged.audit.estimate
    if replay is None:
        if judged.audit.partial:
            return "open", f"{SO_FAR}there is no published result; what is missing may hold one."
        return "bad", "No result was published."
    if replay.follows is None:
        return "open", f"Whether the published result follows is unknown: {replay.why}."
    if not replay.follows:
        return "bad", "The published result does not follow from the reports on record."
    if estimate is None:
        return (
            "bad",
            "The published result follows from the reports on record, and cannot be read.",
        )
    return (
        "good",
        f"The published result of {count(estimate.n, 'respondent')} follows from the reports on "
        "record.",
    )


def replayed(judged: Judged) -> Answer | None:
    """Check whether the words of parties follow from the keys and records at hand."""
    found = [replay.follows for replay in judged.audit.replays]
    if not found:
        return None
    says = (
        f"{found.count(True):,} of {count(len(found), 'party', 'parties')} whose keys and records "
        "are at hand sent what follows from them"
    )
    if False in found:
        return "bad", f"{says}; {found.count(False):,} did not."
    if None in found:
        return "open", f"{says}; of {found.count(None):,} it is unknown."
    return "good", f"{says}."


def announced(judged: Judged) -> Answer:
    """Check whether the result has the announced tables, and further ones."""
    analysis, estimate = judged.audit.charter.analysis, judged.audit.estimate
    if analysis is None:
        return "note", "Nothing was announced of the analysis."
    says = f"Announced: {described(analysis)}."
    if estimate is None:
        if judged.audit.partial:
            return "care", f"{says} No published result could be read to give them."
        return "care", f"{says} Nothing was published to read them from."
    missing = [table.names for table in judged.announced if not table.cells]
    if missing:
        names = some(map(table_title, missing), len(missing), NAMES)
        return "care", f"{says} The result cannot give {names}."
    others = analysis.not_announced(estimate)
    names = some(map(cut, others), len(others), NAMES)
    more = f" Published by itself and not announced: {names}." if others else ""
    return "good", f"{says} The result gives {'them' if len(judged.announced) > 1 else 'it'}.{more}"


# Privacy


def simulated(judged: Judged) -> Answer | None:
    """Check whether the record or a seed in it undoes all protection."""
    if judged.audit.trial:
        return (
            "care",
            "A trial: one program held all answers. Its seed can undo every randomization, and is "
            "not in the record.",
        )
    if not judged.audit.simulated:
        return None
    return (
        "care",
        "The record holds its seed, which undoes every randomization. It protects nobody.",
    )


def attempted(judged: Judged) -> Answer | None:
    """Check for more losses in earlier attempts."""
    attempt = judged.audit.charter.attempt
    if attempt == 1:
        return None
    return (
        "care",
        f"This is attempt {attempt} at the survey: earlier ones are not in this record, and what "
        "parties revealed in them adds to their costs.",
    )


def learned(judged: Judged) -> Answer:
    """Check on the bound of an observer's knowledge about a respondent."""
    ledger, observer = judged.audit.ledger, together(judged.observer)
    loss = ledger.record_epsilon
    if judged.audit.partial:
        return (
            "bad",
            f"No bound holds, as the record could not be read whole: {observer} learned at least "
            f"ε = {epsilon(loss, least=True)} about a respondent.",
        )
    if ledger.unbounded:
        if (beside := bounded_beside_sums(ledger, judged.coalition or judged.alone)) is not None:
            return (
                "care",
                f"Beside exact sums, {observer} learned at most ε = {epsilon(beside)} about each "
                f"respondent. No ε bounds what the sums tell: {ledger.unbounded[0]}.",
            )
        return (
            "care",
            f"No ε bounds what {observer} learned about a respondent: {ledger.unbounded[0]}.",
        )
    signed = _signed_words(ledger)
    if loss == 0:
        return "note", f"{upper(observer)} learned nothing about any respondent{signed}."
    return (
        "note",
        f"{upper(observer)} learned at most ε = {epsilon(loss)} about each respondent{signed} "
        "(pure, sequential composition): its odds between any two records change by "
        f"{odds(loss)} at most.",
    )


def bounded_beside_sums(ledger: Ledger, known: CoalitionFinding | None) -> float | None:
    """The ε outside exact sums, if only these are unbounded; None otherwise.

    Args:
        ledger: ledger of an observer.
        known: the observer's knowledge of secure sums; None if unknown.
    """
    if known is None or not known.whole or ledger.unsigned:
        return None  # More may have been revealed than is on record.
    if ledger.observer != str(known.coalition) or not has_exact_sums(ledger):
        return None
    loss = beside_sums(ledger).record
    return loss if math.isfinite(loss) else None


def _signed_words(ledger: Ledger) -> str:
    """Words that restrict a figure to parties that have signed; empty if all have."""
    return " of the parties that have signed" if ledger.unsigned else ""


def unsigned(judged: Judged) -> Answer | None:
    """Bound on losses from messages that depend on unsigned ones."""
    ledger = judged.audit.ledger
    if not ledger.unsigned:
        return None
    who = count(len(ledger.unsigned), "party has", "parties have")
    loss = ledger.unsigned_epsilon
    bound = "no ε bounds it" if math.isinf(loss) else f"by its terms at most ε = {epsilon(loss)}"
    return (
        "care",
        f"{who} signed nothing. It is not known what each of them received, nor so what it "
        f"revealed: {bound}. The figure above does not count them.",
    )


def at_delta(judged: Judged) -> Answer | None:
    """An exact accountant's figure for the respondent with the largest loss."""
    if judged.no_delta:
        # An unbounded loss needs no tighter bound.
        unbounded = math.isinf(judged.audit.ledger.record_epsilon)
        return None if unbounded else ("care", f"{upper(judged.no_delta)}.")
    worst = judged.worst_respondent
    if worst is None or math.isinf(worst.composition.epsilon):
        return None
    found, partial = worst.composition, judged.audit.partial
    each = f"each respondent{_signed_words(judged.audit.ledger)}"
    whom = each if worst.everybody else f"those of {cut(worst.party)}"
    more = "" if worst.everybody else " Others may have told more."
    return (
        "care" if partial or not worst.everybody else "note",
        f"At δ = {found.delta:g}, {together(judged.observer)} learned at "
        f"{'least' if partial else 'most'} ε = {epsilon(found.epsilon, least=partial)} about "
        f"{whom}{_if_honest(found)} ({found.method}).{more}",
    )


def _if_honest(found: Composition) -> str:
    """Words on the honest parties that a figure rests on; empty if none."""
    if not found.honest:
        return ""
    return f", if at least {found.honest:,} of those in the sum are honest"


def claimed(judged: Judged) -> Answer:
    """Check whether the record shows more than is claimed."""
    checks, partial = judged.audit.checks, judged.audit.partial
    if not checks:
        return "note", "Nobody claims anything about this variant's privacy."
    factors = [check.factor for check in checks if check.factor is not None]
    worst = max(factors, default=0.0)
    if math.isinf(worst):
        return "care", "The record shows no bound where one is claimed."
    if worst > 1 + 1e-9:
        least = "at least " if partial else ""
        return (
            "care",
            f"The record shows more than is claimed: {least}{ratio(worst)} times as much.",
        )
    if any(check.claim.epsilon is None and math.isinf(check.record) for check in checks):
        return "care", "The record shows no bound where no risk is claimed."
    if not factors:
        return "note", "No claim has a figure to compare with the record."
    if partial:
        return "note", "As far as it could be read, the record shows no more than is claimed."
    return "note", "The record shows no more than is claimed."


# Coalitions and linkage


def has_sum(finding: CoalitionFinding) -> bool:
    """True if somebody contributed to a secure sum."""
    return any(found.contributed for found in finding.sums)


def conspired(judged: Judged) -> Answer | None:
    """Check on the requested observer's conclusions from secure sums."""
    found = judged.coalition
    return None if found is None else known(found, partial=judged.audit.partial)


def worst_conspired(judged: Judged) -> Answer | None:
    """Conclusions of the worst coalition from secure sums."""
    found = judged.worst
    return None if found is None else known(found.finding, partial=judged.audit.partial)


def known(finding: CoalitionFinding, *, partial: bool = False) -> Answer:
    """Conclusions of a coalition from secure sums, by adding and subtracting.

    Limits that make the numbers small apply in addition.

    Args:
        partial: the record could not be read whole, so they may know more.
    """
    so_far = "" if finding.whole and not partial else SO_FAR
    if not has_sum(finding):
        return "note", f"{so_far}There is no secure sum on record to take apart."
    exact = any(is_exact(found.event) for found in finding.sums)
    noised = any(is_noised(found.event) for found in finding.sums)
    if finding.exposed:
        whose = "its" if len(finding.exposed) == 1 else "their"
        hidden = "with their coins" if noised else "randomized before,"
        counts = "exact counts" if exact else f"counts, {hidden}"
        names = some(map(cut, finding.exposed), len(finding.exposed), NAMES)
        return "care", f"{so_far}Exposed: {names}; {whose} own {counts} follow."
    sums = "sum" if len(finding.sums) == 1 else "sums"
    learns = f"{so_far}Of the secure {sums}, {_subject(finding.coalition)}"
    if finding.smallest is None:
        return "note", f"{learns} no sum over others."
    what = "exact sum" if exact else f"exact sum of {'noisy' if noised else 'randomized'} counts"
    sets = (*finding.determined, *finding.mixed)
    if len(sets) == 1 and not finding.pairs and finding.searched:
        size = len(sets[0])
        others = "the other " if {found.honest for found in finding.sums} == {size} else ""
        return (
            "note",
            f"{learns} nothing beyond the {what} over {others}{count(size, 'party', 'parties')}, "
            "by adding and subtracting.",
        )
    return (
        "note",
        f"{learns} more than one {what}; nobody is exposed, and the smallest group whose sum "
        f"follows has {count(finding.smallest, 'party', 'parties')}.",
    )


def _subject(coalition: Coalition) -> str:
    more = " with the taps and keys" if coalition.taps or coalition.keys else ""
    match coalition.members:
        case ():
            return "the holder of these taps and keys learns"
        case (only,):
            alone = "" if only == RECORD else " alone"
            return f"{together(Coalition((only,)))}{more or alone} learns"
        case many:
            return f"these {len(many):,}{more} learn"


def linked(judged: Judged) -> Answer:
    """Check whether the observer can link reports of one respondent."""
    groups, observer = judged.linkage.groups, together(judged.observer)
    more = " The record could not be read whole: there may be more." if judged.audit.partial else ""
    names = list(dict.fromkeys(cut(again.attribute) for g in groups for again in g.repeated))
    if names:
        return (
            "care",
            f"Randomized more than once, in reports that {observer} can link: "
            f"{some(names, len(names))}.{more}",
        )
    if any(group.linked for group in groups):
        return (
            "note",
            f"{upper(observer)} can link reports to their senders; nothing was randomized "
            f"twice.{more}",
        )
    return "note", f"{upper(observer)} can link no report to its sender.{more}"


# All of them


class Question(NamedTuple):
    """A check of an audit: its section, and the function that answers it."""

    link: str
    answer: Callable[[Judged], Answer | None]


OF_THE_AUDIT: Mapping[str, Question] = MappingProxyType(
    {
        "The count": Question("members", counted),
        "The result": Question("estimate", follows),
        "The analysis": Question("analysis", announced),
        "Replayed words": Question("integrity", replayed),
        "Simulation": Question("integrity", simulated),
        "Attempts": Question("ledger", attempted),
        "Privacy": Question("ledger", learned),
        "Privacy of the unsigned": Question("ledger", unsigned),
        "Privacy at a δ": Question("ledger", at_delta),
        "Claims": Question("claims", claimed),
        "Coalition": Question("coalition", conspired),
        "The worst coalition": Question("worst", worst_conspired),
        "Linkage": Question("linkage", linked),
        "False answers": Question("estimate", false_answers),
    }
)
"""Checks of an audit, by subject."""


def audit_checks(judged: Judged) -> tuple[Check, ...]:
    """All checks of an audit: the record first, privacy last."""
    answers = ((about, link, ask(judged)) for about, (link, ask) in OF_THE_AUDIT.items())
    return (
        *checks_of_file(judged.audit.verification),
        *(
            Check(about, answer[0], cut(answer[1], LENGTH), link)
            for about, link, answer in answers
            if answer is not None
        ),
    )
