"""Usefulness of estimates, predicted before a survey."""

from __future__ import annotations

from protocol.estimators.usefulness import MarginOfError
from protocol.session.variant import Variant
from scenarios.designing.mending import mending
from scenarios.designing.predicting import NotEstimatedError, predicted_margins
from scenarios.statement.usefulness.verdict import UsefulnessVerdict, on_usefulness


def predicted_verdict(
    variant: Variant, respondents: int, parties: int | None = None
) -> UsefulnessVerdict:
    """The verdict that estimates of every attribute are predicted to have.

    All combinations of answers are taken to be equally likely.

    Args:
        respondents: number of respondents, at least 1.
        parties: number of parties that hold the respondents; None for one each.

    Raises:
        NotEstimatedError: there is no formula for its errors.
    """
    of: tuple[MarginOfError, ...] = predicted_margins(variant, respondents, parties=parties)
    found = mending(
        variant, of, respondents=respondents, parties=parties or respondents, about="respondents"
    )
    (verdict,) = on_usefulness(of, mending=found)
    return verdict


def predicted_sentence(variant: Variant, respondents: int) -> str:
    """Sentences on the predicted usefulness; or the reason why it is unknown.

    Args:
        respondents: number of respondents, each with a party of her own.
    """
    try:
        verdict = predicted_verdict(variant, respondents)
    except NotEstimatedError as error:
        return f"unknown. There is no prediction: {error}."
    return " ".join((f"{verdict.word}.", verdict.says, *verdict.reasons))
