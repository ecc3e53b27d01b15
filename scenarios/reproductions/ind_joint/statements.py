"""The theorems of RR-Ind-Joint, both sides of each.

Kikuchi and Domingo-Ferrer, sections 3.2, 3.4 and 3.5; the synthetic data are those of 4.1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from protocol.randomizers import KeepUniform
from protocol.randomizers.exact import Floats
from scenarios.datasets.correlated import correlated_distribution
from scenarios.reproductions.driver import scenarios_of
from scenarios.reproductions.experiment import Asked, Experiment, Nothing, Sample, grid
from scenarios.running.reproduction import Picture


def _product(matrices: Sequence[Floats]) -> Floats:
    found: Floats = matrices[0]
    for matrix in matrices[1:]:
        found = np.asarray(np.kron(found, matrix), np.float64)
    return found


def _composed(asked: Asked[Nothing]) -> list[Sample]:
    """Theorems 1 and 2 and Corollary 1, by dense matrices."""
    sizes = [int(size) for size in asked.cell["sizes"].split(" x ")]
    epsilon = asked.cell["epsilon"]
    each = [KeepUniform.with_epsilon(size, epsilon=epsilon) for size in sizes]
    whole = _product([keep.matrix() for keep in each])
    parts = _product([np.asarray(np.linalg.inv(keep.matrix())) for keep in each])
    return [
        Sample(
            exact={
                "largest distance of a row's sum from 1": float(
                    np.abs(whole.sum(axis=1) - 1).max()
                ),
                "largest distance of the inverses": float(
                    np.abs(np.linalg.inv(whole) - parts).max()
                ),
                "epsilon of the composed matrix": float(
                    np.log(whole.max(axis=0) / whole.min(axis=0)).max()
                ),
                "m epsilon": math.fsum(keep.epsilon for keep in each),
            }
        )
    ]


def _bounded(asked: Asked[Nothing]) -> list[Sample]:
    """Theorem 3, of RR-Ind without sampling: the squared distance from a product of margins."""
    d, v = asked.cell["d"], asked.cell["v"]
    table = correlated_distribution(d, v=v)
    margins = np.outer(table.sum(axis=1), table.sum(axis=0))
    squared = float(((table - margins) ** 2).mean())
    absolute = float(np.abs(table - margins).mean())
    return [
        Sample(
            exact={
                "MSE of RR-Ind": squared,
                "V^2/d": v**2 / d,
                "largest expected cell times V^2 (d-1)/d^2": float(
                    margins.max() * v**2 * (d - 1) / d**2
                ),
                "MAE of RR-Ind": absolute,
                "MAE over V/sqrt(d)": absolute / (v / math.sqrt(d)),
                "MAE over V": absolute / v,
            }
        )
    ]


EXPERIMENTS = (
    Experiment(
        paper="RRIJ",
        item="Theorems 1, 2, Corollary 1",
        name="ind-joint-theorems",
        summary="RR-Ind-Joint, Theorems 1 and 2, Corollary 1: composed matrices and their epsilon.",
        cells=grid(sizes=("2 x 2", "5 x 2", "16 x 15", "9 x 7 x 2"), epsilon=(0.5, 1.0, 2.0)),
        law=_composed,
        notes=("exact: by dense matrices, which the estimates never make",),
        picture=Picture(
            title="Attributes that are randomized apart cost the sum",
            x="epsilon",
            by=("sizes",),
            figures=("epsilon of the composed matrix",),
            axis="epsilon of all attributes",
            computed=("epsilon of the composed matrix",),
            names={"epsilon": "epsilon of an attribute"},
        ),
    ),
    Experiment(
        paper="RRIJ",
        item="Theorem 3",
        name="ind-joint-theorem-3",
        summary="RR-Ind-Joint, Theorem 3: the squared error of RR-Ind and its bound.",
        cells=grid(d=(2, 5, 10, 20), v=(0.1, 0.5, 1.0)),
        law=_bounded,
        notes=(
            "exact: without sampling, as the theorem; with it the variance of the margins is added",
            "both steps of the printed proof are the wrong way round; as V^2 (d-1) is the sum of "
            "squared distances over expected cells, the MSE is at most the largest expected cell "
            "times V^2 (d-1)/d^2, which is below V^2/d",
        ),
        picture=Picture(
            title="The error of RR-Ind is far below the bound of Theorem 3",
            x="v",
            by=("d",),
            figures=("MSE of RR-Ind", "V^2/d"),
            axis="squared error per cell",
            computed=("MSE of RR-Ind", "V^2/d"),
            names={"v": "Cramer's V", "d": "categories d"},
        ),
    ),
)
SCENARIOS = scenarios_of(*EXPERIMENTS)
