"""The reach of false answers: how far they can have moved what was published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from protocol.estimators.joint import JointReports
from protocol.estimators.linear import LinearEstimate
from protocol.sharing.messages import is_summed
from protocol.sharing.sums import find_secure_sum
from scenarios.wording.formatting import percent

if TYPE_CHECKING:
    from scenarios.statement.audits.judged import Judged
    from scenarios.statement.audits.of_file import Answer


class Bound(NamedTuple):
    """The most that one false report can do.

    Args:
        moves: by how much it moves a raw share of answers that were randomized together.
        keep: the probability that these are kept.
    """

    moves: float
    keep: float


def _bound(judged: Judged) -> Bound | None:
    """The bound of one false report; None if no check looked at that."""
    estimate = judged.audit.estimate
    source = estimate.source if isinstance(estimate, LinearEstimate) else None
    if not isinstance(source, JointReports):
        return None
    keeps = [block.randomizer.uniform_keep for block in source.blocks]
    known = [keep for keep in keeps if keep]
    if len(known) < len(keeps):
        return None
    return Bound(1 / (source.n * min(known)), min(known))


def _is_summed(judged: Judged) -> bool:
    charter = judged.audit.charter
    return is_summed(charter.variant, len(charter.roster.parties))


def false_answers(judged: Judged) -> Answer | None:
    """The answer on how far false answers reach; None if nothing was published."""
    if judged.audit.estimate is None:
        return None
    if _is_summed(judged):
        sums = find_secure_sum(judged.audit.charter.variant)
        noised = sums is not None and sums.noise is not None
        coins = " Its coins would hide it besides." if noised else ""
        return (
            "care",
            "Nothing in this record bounds what one lying party can do to the totals of the secure "
            "sum but that each cell is between 0 and the number of respondents: it could have "
            f"moved a share X by up to X or 1 - X, and nobody would be accused.{coins}",
        )
    bound = _bound(judged)
    if bound is None:
        return (
            "note",
            "No check looked at how far respondents who do not tell the truth can have moved the "
            "result.",
        )
    return (
        "note",
        f"One respondent who reports what she likes moves a raw share of answers that were "
        f"randomized together by at most {percent(bound.moves)}, and m of them by m times as much: "
        f"each of n reports counts for 1 / (n p), with p = {bound.keep:.4g} that answers are kept. "
        "Of a projected table, or of answers randomized apart, that is not so.",
    )


def false_answer_values(judged: Judged) -> dict[str, Any] | None:
    """The same as values."""
    if judged.audit.estimate is None:
        return None
    bound = None if _is_summed(judged) else _bound(judged)
    return {"summed": _is_summed(judged), "moves": None if bound is None else bound.moves}
