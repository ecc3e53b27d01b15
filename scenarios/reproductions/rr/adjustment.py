"""Example 1 of the first paper: RR-Adjustment on ten records, and how slowly it converges.

Domingo-Ferrer and Soria-Comas, Multi-Dimensional Randomized Response, section 5.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from protocol.estimators.calibration.adjustment import Target, adjust_records
from scenarios.running.reproduction import Reproduced, Row, Runs, refuse_messages
from scenarios.running.scenario import Context, Scenario

NAME = "rr-adjustment-example"

RECORDS = np.array([[0, 0]] * 4 + [[1, 0]] * 2 + [[1, 1]] * 4, np.uint8)
"""The ten randomized records: codes of the first and the second attribute."""

EVEN = np.array([0.5, 0.5])
"""The estimated margin of either attribute."""

FIRST, SECOND = Target(axes=(0,), proportions=EVEN), Target(axes=(1,), proportions=EVEN)

SWEEPS = (1, 10, 100, 1000)

CELLS = ("Pr(a1, b1)", "Pr(a1, b2)", "Pr(a2, b1)", "Pr(a2, b2)")


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set; nothing is drawn, so more runs only repeat the same numbers."""

    runs: Runs = 1
    sweeps: Annotated[int, Meta(ge=1, description="how many sweeps the last row has")] = SWEEPS[-1]


def run(parameters: Parameters, context: Context) -> Reproduced:
    """The first step, the weights after some sweeps beside their limit, and RR-Independent."""
    refuse_messages(NAME, context.by_messages)
    step = adjust_records(RECORDS, [FIRST], sweeps=1).weights
    rows = [
        Row(
            settings={"method": "RR-Adjustment", "after": "the first attribute"},
            measured={
                "w_1": float(step[0]),
                "w_5": float(step[4]),
                "lambda(b1)": float(step[RECORDS[:, 1] == 0].sum()),
                "lambda(b2)": float(step[RECORDS[:, 1] == 1].sum()),
            },
            printed={"w_1": 1 / 8, "w_5": 1 / 12, "lambda(b1)": 2 / 3, "lambda(b2)": 1 / 3},
        )
    ]
    counts = sorted({*(k for k in SWEEPS if k < parameters.sweeps), parameters.sweeps})
    for sweeps in counts:
        adjusted = adjust_records(RECORDS, [FIRST, SECOND], sweeps=sweeps, tolerance=0.0)
        cells = np.bincount(RECORDS @ np.array([2, 1]), weights=adjusted.weights, minlength=4)
        rows.append(
            Row(
                settings={"method": "RR-Adjustment", "after": _sweeps(sweeps)},
                measured={
                    **dict(zip(CELLS, cells.tolist(), strict=True)),
                    "margin error": adjusted.margin_error,
                },
                printed=dict(zip(CELLS, (0.5, 0.0, 0.0, 0.5), strict=True)),
                remark=(
                    "the printed numbers are the limit: after k sweeps the margins are still "
                    "1/(4k + 4) away"
                ),
            )
        )
        context.progress(len(rows), len(counts) + 2)
    product = np.multiply.outer(EVEN, EVEN).reshape(-1)
    rows.append(
        Row(
            settings={"method": "RR-Independent", "after": "the estimated margins"},
            measured=dict(zip(CELLS, product.tolist(), strict=True)),
            printed=dict.fromkeys(CELLS, 0.25),
        )
    )
    context.progress(len(counts) + 2, len(counts) + 2)
    return Reproduced(
        reproduction=NAME,
        runs=parameters.runs,
        rows=tuple(rows),
        notes=("exact: nothing is drawn, and no number has a standard error",),
    )


def _sweeps(count: int) -> str:
    return "1 sweep" if count == 1 else f"{count:,} sweeps"


SCENARIOS = (
    Scenario(
        name=NAME,
        summary="Multi-Dimensional RR, Example 1: RR-Adjustment of ten records.",
        parameters=Parameters,
        run=run,
    ),
)
