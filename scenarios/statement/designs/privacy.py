"""Sentence on the privacy of a design."""

from __future__ import annotations

import math

from scenarios.designing.candidates import Candidate
from scenarios.statement.privacy_verdict import SCALE, scale_step
from scenarios.wording.formatting import epsilon, odds


def privacy_sentence(candidate: Candidate, cost: float) -> str:
    """The verdict on privacy of a way to ask, with its assumption.

    Args:
        cost: a respondent's epsilon, as far as what it rests on holds.
    """
    word, changes = privacy_word(cost), f"odds about a person change by {odds(cost)} at most"
    among, variant = candidate.among, candidate.variant
    if among is None:
        return f"Privacy: {word}, whoever conspires; {changes}."
    alone = "nothing bounds what they learn"
    if variant is not None and math.isfinite(variant.most()):
        alone = f"only epsilon {epsilon(variant.most())} is left"
    return (
        f"Privacy: {word} only if {among.honest:,} of the {among.parties:,} parties are honest and "
        f"stay; {changes}, at delta {among.delta:g}. If all others conspire, {alone}."
    )


def privacy_word(cost: float) -> str:
    """The word for a respondent's epsilon on the scale of privacy."""
    return SCALE[scale_step(cost)].name
