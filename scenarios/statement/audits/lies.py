"""The effect that false answers can have on the result."""

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
        moves: largest change of a raw share of jointly randomized answers.
        keep: the probability that these are kept.
    """

    moves: float
    keep: float


def _bound(judged: Judged) -> Bound | None:
    """Bound on the effect of one false report; None if unknown."""
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
    """Check on the effect of false answers; None if nothing was published."""
    if judged.audit.estimate is None:
        return None
    if _is_summed(judged):
        sums = find_secure_sum(judged.audit.charter.variant)
        noised = sums is not None and sums.noise is not None
        coins = " Its coins would hide it besides." if noised else ""
        return (
            "care",
            "One lying party could have moved a share X of the secure sum by up to X or 1 - X, and "
            "nobody would be accused: cells are checked only to be between 0 and the number of "
            f"respondents.{coins}",
        )
    bound = _bound(judged)
    if bound is None:
        return (
            "note",
            "No check looked at how far respondents who lie can have moved the result.",
        )
    return (
        "note",
        f"One respondent who reports what she likes moves a raw share of answers that were "
        f"randomized together by at most {percent(bound.moves)}, and m of them by m times as much: "
        f"each of n reports counts for 1 / (n p), with p = {bound.keep:.4g} that answers are kept. "
        "This does not hold for projected tables or answers that were randomized apart.",
    )


def false_answer_values(judged: Judged) -> dict[str, Any] | None:
    """The effect of false answers for JSON."""
    if judged.audit.estimate is None:
        return None
    bound = None if _is_summed(judged) else _bound(judged)
    return {"summed": _is_summed(judged), "moves": None if bound is None else bound.moves}
