"""What marginal release says in formulas: sizes of reports, coefficients, how errors fall.

Kulkarni, Cormode and Srivastava, Marginal Release Under Local Differential Privacy, sections
Problem Statement, Our Contributions and Algorithm Design.
"""

from __future__ import annotations

import math

import numpy as np

from protocol.randomizers.binary import coefficients, subsets
from protocol.randomizers.marginals import METHODS, report_bits
from protocol.randomizers.walsh import wht
from protocol.variants.marginals.estimate import noise_of
from protocol.variants.marginals.hadamard import low_transform, tables_of
from scenarios.reproductions.driver import scenarios_of
from scenarios.reproductions.experiment import Asked, Experiment, Nothing, Sample, grid
from scenarios.reproductions.marginals.experiments import OUE, D, plan_of
from scenarios.running.reproduction import Picture


def _sizes(asked: Asked[Nothing]) -> list[Sample]:
    """The bits of a report, and the theorem's number of coefficients."""
    k, method = asked.cell["k"], asked.cell["method"]
    plan = plan_of(method, k=k, epsilon=1.0)
    return [
        Sample(
            exact={
                "bits": float(report_bits(plan.method, d=D, k=k)),
                "choices": float(plan.choices),
                "coefficients of at most k": float(len(coefficients(D, k))),
                "d^k": float(D**k),
            }
        )
    ]


def _transform(asked: Asked[Nothing]) -> list[Sample]:
    """Figures 2 to 4 and the theorem: tables from few coefficients, and the printed matrix."""
    k, generator = asked.cell["k"], asked.generator()
    table = generator.dirichlet(np.ones(1 << D))
    low = low_transform(table, k)
    found = tables_of(low, subsets(D, k), d=D, k=k)
    shape = table.reshape((2,) * D)
    direct = np.stack(
        [
            shape.sum(axis=tuple(at for at in range(D) if not mask >> (D - 1 - at) & 1)).ravel()
            for mask in subsets(D, k).tolist()
        ]
    )
    cells = np.arange(8)
    signs = np.where(np.bitwise_count(cells[:, None] & cells) % 2, -1.0, 1.0)
    return [
        Sample(
            exact={
                "largest distance of a marginal": float(np.abs(found - direct).max()),
                "largest distance from the matrix of Figure 4": float(
                    np.abs(wht(np.eye(8)) - signs).max()
                ),
            }
        )
    ]


def _falling(asked: Asked[Nothing]) -> list[Sample]:
    """The standard error of a coefficient of k attributes, in closed form; theta is 0."""
    method, epsilon, n = asked.cell["method"], asked.cell["epsilon"], asked.cell["n"]
    plan = plan_of(method, k=2, epsilon=epsilon)
    of_each = n / plan.choices
    error = math.sqrt((noise_of(plan).own + 1) / of_each)
    return [Sample(exact={"error": error, "error epsilon sqrt(N)": error * epsilon * math.sqrt(n)})]


EXPERIMENTS = (
    Experiment(
        paper="MR",
        item="Our Contributions, six methods",
        name="marginals-sizes",
        summary="Marginal release: bits of a report and numbers of coefficients, six methods.",
        cells=grid(k=(1, 2, 3), method=METHODS),
        law=_sizes,
        notes=(f"exact: of d = {D} bits",),
        picture=Picture(
            title="Hadamard coefficients take few bits",
            conditions="8 bits",
            x="k",
            by=("method",),
            figures=("bits",),
            axis="bits of a report",
            computed=("bits",),
            names={"bits": "bits of a report", "k": "attributes k of a marginal"},
        ),
    ),
    Experiment(
        paper="MR",
        item="Theorem, Figures 2 to 4",
        name="marginals-transform",
        summary="Marginal release: marginals from Hadamard coefficients of at most k attributes.",
        cells=grid(k=(1, 2, 3)),
        law=_transform,
        notes=("exact: of one random table of 8 bits",),
        picture=Picture(
            title="Marginals follow from few coefficients",
            x="k",
            figures=("largest distance of a marginal",),
            axis="largest distance of a marginal",
            computed=("largest distance of a marginal",),
            names={"k": "attributes k of a marginal"},
        ),
    ),
    Experiment(
        paper="MR",
        item="Our Contributions, error",
        name="marginals-errors",
        summary="Marginal release: how the error of a coefficient falls with epsilon and N.",
        cells=grid(
            method=(*METHODS, *OUE), epsilon=(0.1, 0.2, 0.5, 1.0, 2.0, 4.0), n=(2**14, 2**18)
        ),
        law=_falling,
        notes=(
            "exact, of coefficients of two of 8 bits whose true value is 0; oue: with optimised "
            "unary bits, which the paper leaves out",
        ),
        picture=Picture(
            title="Errors fall like 1/epsilon, but not for large epsilon",
            x="epsilon",
            by=("n", "method"),
            figures=("error",),
            computed=("error",),
            names={"error": "standard error of a coefficient", "n": "respondents N"},
        ),
    ),
)
SCENARIOS = scenarios_of(*EXPERIMENTS)
