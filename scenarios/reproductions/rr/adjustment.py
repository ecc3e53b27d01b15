"""Example 1 of the first paper: RR-Adjustment on ten records, and how slowly it converges.

Domingo-Ferrer and Soria-Comas, Multi-Dimensional Randomized Response, section 5.
"""

from __future__ import annotations

import numpy as np

from protocol.estimators.calibration.adjustment import Target, adjust_records
from scenarios.reproductions.driver import scenarios_of
from scenarios.reproductions.experiment import Asked, Experiment, Nothing, Sample

RECORDS = np.array([[0, 0]] * 4 + [[1, 0]] * 2 + [[1, 1]] * 4, np.uint8)
"""The ten randomized records: codes of the first and the second attribute."""

EVEN = np.array([0.5, 0.5])
"""The estimated margin of either attribute."""

FIRST, SECOND = Target(axes=(0,), proportions=EVEN), Target(axes=(1,), proportions=EVEN)

SWEEPS = (1, 10, 100, 1000)

CELLS = ("Pr(a1, b1)", "Pr(a1, b2)", "Pr(a2, b1)", "Pr(a2, b2)")

LIMIT = "the printed numbers are the limit: after k sweeps the margins are still 1/(4k + 4) away"


def _example(asked: Asked[Nothing]) -> list[Sample]:
    """The first step, the weights after some sweeps beside their limit, or RR-Independent."""
    after = asked.cell["after"]
    if after == "the first attribute":
        step = adjust_records(RECORDS, [FIRST], sweeps=1).weights
        first = {"w_1": float(step[0]), "w_5": float(step[4])}
        margin = {f"lambda(b{b + 1})": float(step[RECORDS[:, 1] == b].sum()) for b in range(2)}
        return [Sample(exact=first | margin)]
    if after == "the estimated margins":
        product = np.multiply.outer(EVEN, EVEN).reshape(-1)
        return [Sample(exact=dict(zip(CELLS, product.tolist(), strict=True)))]
    sweeps = asked.cell["sweeps"]
    adjusted = adjust_records(RECORDS, [FIRST, SECOND], sweeps=sweeps, tolerance=0.0)
    cells = np.bincount(RECORDS @ np.array([2, 1]), weights=adjusted.weights, minlength=4)
    found = dict(zip(CELLS, cells.tolist(), strict=True))
    return [Sample(exact={**found, "margin error": adjusted.margin_error}, remark=LIMIT)]


EXPERIMENT = Experiment(
    paper="MDRR",
    item="Example 1",
    name="rr-adjustment-example",
    summary="Multi-Dimensional RR, Example 1: RR-Adjustment of ten records.",
    cells=(
        {"method": "RR-Adjustment", "after": "the first attribute"},
        *({"method": "RR-Adjustment", "after": "sweeps", "sweeps": k} for k in SWEEPS),
        {"method": "RR-Independent", "after": "the estimated margins"},
    ),
    law=_example,
    notes=("exact: nothing is drawn, and no number has a standard error",),
)
SCENARIOS = scenarios_of(EXPERIMENT)
