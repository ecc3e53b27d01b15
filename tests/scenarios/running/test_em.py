"""``project=em`` on the command line: in the result, in the terminal, and refused in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from protocol.estimators.inference.interval_words import sentences
from protocol.estimators.inference.intervals import USUAL
from protocol.estimators.likelihood import Fit
from tests.scenarios.command import sottovoce

SMALL = ("--set", "records=300", "--set", "parties=3", "--set", "project=em")


def test_a_result_says_how_far_em_came(tmp_path: Path) -> None:
    out = sottovoce("run", "adult-independent", *SMALL, "--out", tmp_path).out
    assert "of maximum likelihood (em), which biases them" in " ".join(out.split())
    estimate = json.loads((tmp_path / "result.json").read_text())["estimate"]
    assert estimate["projection"] == "em"
    assert estimate["em"]["converged"] is True
    assert 0 <= estimate["em"]["gap"] <= 0.01
    for shares in estimate["marginals"].values():
        assert min(shares.values()) >= 0
        assert sum(shares.values()) == pytest.approx(1)


def test_a_result_without_a_likelihood_is_refused_in_one_line() -> None:
    done = sottovoce("run", "adult-ind-joint", *SMALL, "--set", "adjust=true")
    assert done.code == 1
    assert done.err == "sottovoce: no EM: RR-Adjustment weighs reports and has no likelihood\n"


def test_a_limit_that_was_reached_is_said() -> None:
    fits = [Fit(-9.0, 0.25, 10_000, False), Fit(-9.0, 0.01, 7, True), None]
    assert sentences(USUAL, [], "em", fits)[-1] == (
        "EM reached its limit of steps in 1 of the tables: the log-likelihood may be up to 0.25 "
        "below its maximum."
    )
    assert "EM reached" not in " ".join(sentences(USUAL, [], "em", fits[1:]))
