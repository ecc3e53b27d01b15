"""Usefulness of estimates, predicted before anybody is asked."""

from __future__ import annotations

from protocol.errors import ProtocolError
from protocol.session.variant import Variant
from scenarios.designing.assumed import Uniform
from scenarios.designing.predicting import NotEstimatedError, predicted
from scenarios.designing.targets import target_of
from scenarios.statement.usefulness.verdict import FEWEST, mended, on_usefulness


def predicted_sentence(variant: Variant, respondents: int) -> str:
    """The verdict that estimates of every attribute are predicted to have, with its reasons.

    All combinations of answers are taken to be equally likely.

    Args:
        variant: how people will be asked.
        respondents: how many will answer, each by a party of her own.

    Returns:
        Empty of few respondents, or if the variant has no formula for its errors.
    """
    survey = variant.survey
    if respondents < FEWEST:
        return ""
    try:
        found = predicted(variant, respondents, target_of(survey, "margins"), Uniform(survey))
    except (NotEstimatedError, ProtocolError, ValueError):
        return ""
    if found is None:
        return ""
    of = found.margins(survey)
    mending = mended(variant, of, respondents=respondents, parties=respondents, about="respondents")
    (verdict,) = on_usefulness(of, mending=mending)
    reasons = " ".join(verdict.reasons)
    return f"predicted of {respondents:,} respondents: {verdict.word}. {verdict.says} {reasons}"
