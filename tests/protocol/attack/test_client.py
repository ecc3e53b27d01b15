"""Attacks on client functions, from Python."""

from __future__ import annotations

import math

import pytest

from protocol.attack.client import attack_client


def test_a_client_that_reveals_nothing_may_claim_nothing() -> None:
    found = attack_client(lambda answer: "thanks", ("yes", "no"), claims=0.0, trials=200)
    assert found.probe.lower == 0.0
    assert not found.accused


def test_a_client_that_claims_nothing_and_reveals_the_answer_is_accused() -> None:
    assert attack_client(lambda answer: answer, ("yes", "no"), claims=0.0, trials=200).accused


@pytest.mark.parametrize("claims", [-1e-9, math.inf, math.nan])
def test_a_claim_out_of_range_is_refused(claims: float) -> None:
    with pytest.raises(ValueError, match="expected a finite number, 0 or more"):
        attack_client(lambda answer: answer, ("yes", "no"), claims=claims)
