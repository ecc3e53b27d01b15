"""How far respondents who do not tell the truth can have moved what was published, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.estimators.joint import JointReports
from protocol.estimators.linear import LinearEstimate
from protocol.sharing.messages import is_summed
from protocol.sharing.sums import sums_of
from scenarios.wording.formatting import percent

if TYPE_CHECKING:
    from scenarios.statement.audits.judged import Judged
    from scenarios.statement.audits.of_file import Answer


def false_answers(judged: Judged) -> Answer | None:
    """What bounds that which false answers can do; None if nothing was published."""
    estimate, charter = judged.audit.estimate, judged.audit.charter
    if estimate is None:
        return None
    if is_summed(charter.variant, len(charter.roster.parties)):
        sums = sums_of(charter.variant)
        coins = (
            " Its coins would hide it besides."
            if sums is not None and sums.noise is not None
            else ""
        )
        return (
            "care",
            "Nothing in this record bounds what one lying party can do to the totals of the secure "
            "sum but that each cell is between 0 and the number of respondents: it could have "
            f"moved a share X by up to X or 1 - X, and nobody would be accused.{coins}",
        )
    source = estimate.source if isinstance(estimate, LinearEstimate) else None
    keeps = []
    if isinstance(source, JointReports):
        keeps = [block.randomizer.uniform_keep for block in source.blocks]
    least = min((keep for keep in keeps if keep is not None), default=0.0)
    if not least or None in keeps:
        return (
            "note",
            "No check looked at how far respondents who do not tell the truth can have moved the "
            "result.",
        )
    moved = 1 / (estimate.n * least)
    return (
        "note",
        f"One respondent who reports what she likes moves a raw share of answers that were "
        f"randomized together by at most {percent(moved)}, and m of them by m times as much: each "
        f"of {estimate.n:,} reports counts for 1 / (n p), with p = {least:.4g} that answers are "
        "kept. Of a projected table, or of answers randomized apart, that is not so.",
    )
