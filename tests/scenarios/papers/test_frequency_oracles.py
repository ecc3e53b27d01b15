"""The crossover of OUE and GRR: closed forms, live runs, rows and the plot."""

from __future__ import annotations

import math

import numpy as np
import pytest

from protocol.variants.oracles.names import frequency_oracle
from scenarios import Context, Row
from scenarios.papers.frequency_oracles import (
    COMPARED,
    EPSILONS,
    SIZES,
    better_by_rule,
    closed_form,
)
from tests.scenarios.reproduced import reproduce

SETTINGS = [(epsilon, size) for epsilon in EPSILONS for size in SIZES]


@pytest.mark.parametrize("oracle", COMPARED)
@pytest.mark.parametrize(("epsilon", "size"), SETTINGS)
def test_the_closed_form_is_that_of_the_law(oracle: str, epsilon: float, size: int) -> None:
    made = frequency_oracle(oracle, size, epsilon=epsilon)
    [*_, of_nobody] = made.variances(np.eye(size)[0], 1)
    printed = closed_form(oracle, size=size, epsilon=epsilon)
    assert of_nobody == pytest.approx(printed, rel=1e-9)


@pytest.mark.parametrize(("epsilon", "size"), SETTINGS)
def test_the_rule_is_the_order_of_the_closed_forms(epsilon: float, size: int) -> None:
    forms = {oracle: closed_form(oracle, size=size, epsilon=epsilon) for oracle in COMPARED}
    assert better_by_rule(epsilon, size) == min(forms, key=lambda oracle: forms[oracle])


def test_both_sides_of_the_crossover_are_tried_at_every_epsilon() -> None:
    for epsilon in EPSILONS:
        assert {better_by_rule(epsilon, size) for size in SIZES} == {"grr", "oue"}


@pytest.mark.slow
def test_live_runs_have_the_variance_of_the_closed_form() -> None:
    """With a tenth more epsilon in the closed form, it fails."""
    found = reproduce("frequency-oracles", runs=12, n=800)
    assert len(found.rows) == 2 * len(SETTINGS)
    figures = [row.figures()[0] for row in found.rows]
    errors = [figure.standard_error for figure in figures]
    ratios = np.array([figure.ratio for figure in figures])
    spreads = np.array(
        [
            error / figure.printed
            for error, figure in zip(errors, figures, strict=True)
            if error and figure.printed
        ]
    )
    assert abs(ratios.mean() - 1) < 0.1
    assert (np.abs(ratios - 1) < 6 * spreads).all()

    def off(epsilon: float) -> float:
        wrong = [
            closed_form(
                row.settings["oracle"],
                size=row.settings["size"],
                epsilon=epsilon * row.settings["epsilon"],
            )
            for row in found.rows
        ]
        measured = np.array([figure.measured for figure in figures])
        return float(np.abs((measured / np.array(wrong)).mean() - 1))

    assert off(1.0) < 0.1 < off(1.1)
    assert found.notes[-1].startswith("measured: the better oracle is that of the rule at ")


def test_one_run_by_messages_has_no_standard_error() -> None:
    found = reproduce("frequency-oracles", Context(by_messages=True), n=100)
    [row] = found.rows
    assert isinstance(row, Row)
    assert math.isnan(row.figures()[0].standard_error or 0.0)
    assert found.outcome is not None
    assert found.outcome.ledger.record_epsilon <= EPSILONS[0]
