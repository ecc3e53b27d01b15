"""What the first paper says in formulas, on both sides: definitions, bounds and Proposition 1.

Domingo-Ferrer and Soria-Comas, Multi-Dimensional Randomized Response, sections 2, 3, 4.1 and 6.3.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from protocol.estimators.dependence.dependence import cramers_v
from protocol.estimators.inference.largest_errors import largest_errors, reported_errors
from protocol.randomizers import KeepUniform
from protocol.randomizers.exact import Floats
from protocol.variants.clusters.clustering import matched_blocks
from scenarios.reproductions.driver import scenarios_of
from scenarios.reproductions.experiment import Asked, Experiment, Found, Nothing, Sample, grid
from scenarios.reproductions.rr.shared import population_of
from scenarios.running.reproduction import Picture

ATTRIBUTES = ("workclass", "education", "marital-status", "occupation", "relationship", "race",
              "sex", "income")  # fmt: skip


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """The parameter of the bounds."""

    alpha: Annotated[float, Meta(gt=0, lt=1, description="1 less the confidence")] = 0.05


# Section 2


def _matrix(asked: Asked[Nothing]) -> list[Sample]:
    """Expressions 1, 2 and 4 and section 2.3, for one attribute of Adult."""
    population, p = population_of(asked.data), asked.cell["p"]
    counts = population.counts((asked.cell["attribute"],))
    keep = KeepUniform.with_keep(len(counts), p=p)
    matrix, shares = keep.matrix(), counts / counts.sum()
    reported = matrix.T @ shares
    found = np.linalg.solve(matrix.T, reported)
    drawn = asked.generator().multinomial(int(counts.sum()), reported, size=asked.runs)
    errors = drawn / counts.sum() - reported
    unmixed = np.linalg.solve(matrix.T, errors.T).T
    grown = np.linalg.norm(unmixed, axis=1) / np.linalg.norm(shares)
    grown /= np.linalg.norm(errors, axis=1) / np.linalg.norm(reported)
    values = np.linalg.eigvalsh(matrix.T)
    ratios = matrix.max(axis=0) / matrix.min(axis=0)
    return [
        Sample(
            drawn={"propagation": grown, "within the ratio": grown <= values.max() / values.min()},
            exact={
                "row sum": float(matrix.sum(axis=1).max()),
                "error of (2) from an exact lambda": float(np.abs(found - shares).max()),
                "epsilon of (4)": float(np.log(ratios.max())),
                "epsilon charged": keep.epsilon,
                "eigenvalue ratio": float(values.max() / values.min()),
            },
        )
    ]


def _coverage(asked: Asked[Level]) -> list[Sample]:
    """Definitions 1 and 2 with Expressions 5 and 6, and the bound of the answers."""
    population, p = population_of(asked.data), asked.cell["p"]
    counts = population.counts((asked.cell["attribute"],))
    shares, n = counts / counts.sum(), int(counts.sum())
    keep = KeepUniform.with_keep(len(counts), p=p)
    level = 1 - asked.parameters.alpha
    reported = keep.matrix().T @ shares
    bound = reported_errors(reported, n, level=level)
    of_answers = largest_errors([keep], n, shares=shares, level=level)
    # Definitions 1 and 2 are of a sample of reports, as if respondents were a random sample.
    drawn = asked.generator().multinomial(n, reported, size=asked.runs) / n
    apart = np.abs(drawn - reported)
    a = keep.uniform_keep
    return [
        Sample(
            drawn={
                "Definition 1 holds": (apart <= bound.absolute).all(axis=1),
                "Definition 2 holds": (apart <= bound.relative * drawn).all(axis=1),
                "answers within their bound": (apart / a <= of_answers.absolute).all(axis=1),
                "answers within (5)": (apart / a <= bound.absolute).all(axis=1),
            },
            exact={
                "(5)": bound.absolute,
                "(6)": bound.relative,
                "(5) over a": bound.absolute / a,
                "bound of the answers": of_answers.absolute,
            },
        )
    ]


# Section 3


def _accuracy(asked: Asked[Level]) -> list[Sample]:
    """Section 3.3, and Bound 7: what RR-Joint would take, for the first attributes of Adult."""
    population, m = population_of(asked.data), asked.cell["attributes"]
    sizes, level = population.survey.sizes[:m], 1 - asked.parameters.alpha
    cells, n = math.prod(sizes), population.n

    def relative(r: int, people: int) -> float:
        return reported_errors(np.full(r, 1 / r), people, level=level).relative

    joint = relative(cells, n)
    return [
        Sample(
            exact={
                "combinations": float(cells),
                "RR-Independent": max(relative(size, n) for size in sizes),
                "RR-Joint": joint,
                "RR-Joint at n = combinations": relative(cells, cells),
                "respondents for an error of 10 %": math.ceil(n * (joint / 0.1) ** 2),
            },
            settings={"n": n},
        )
    ]


# Section 4.1


def _measures(table: Floats, by: str) -> float:
    if by == "Cramer's V":
        return cramers_v(table)
    codes = [np.arange(size, dtype=np.float64) for size in table.shape]
    means = [table.sum(axis=1 - axis) @ values for axis, values in enumerate(codes)]
    covariance = float(codes[0] @ table @ codes[1] - means[0] * means[1])
    if by == "covariance":
        return covariance
    spread = [
        table.sum(axis=1 - axis) @ values**2 - means[axis] ** 2 for axis, values in enumerate(codes)
    ]
    return covariance / math.sqrt(spread[0] * spread[1])


def _order(asked: Asked[Nothing]) -> list[Sample]:
    """Proposition 1 and Corollary 1 on the 28 pairs of Adult, their codes taken for numbers.

    The reports' tables are exact: what is expected, without any sampling.
    """
    population, p, by = population_of(asked.data), asked.cell["p"], asked.cell["measure"]
    answers, reports = [], []
    for pair in combinations(range(len(population.survey.names)), 2):
        table = population.pair(pair) / population.n
        first, second = (KeepUniform.with_keep(size, p=p).matrix() for size in table.shape)
        answers.append(_measures(table, by))
        reports.append(_measures(first.T @ table @ second, by))
    true, found = np.array(answers), np.array(reports)
    order = [
        (true[i] > true[j]) == (found[i] > found[j]) for i, j in combinations(range(len(true)), 2)
    ]
    return [
        Sample(
            exact={
                "largest distance from p p times that of the answers": float(
                    np.abs(found - p * p * true).max()
                ),
                "couples of pairs": float(len(order)),
                "in the same order": float(sum(order)),
            }
        )
    ]


# Section 6.3


def _matrices(asked: Asked[Nothing]) -> list[Sample]:
    """The printed matrices of 6.3.1 and 6.3.2 beside those that are used."""
    survey, p, cluster = population_of(asked.data).survey, asked.cell["p"], asked.cell["cluster"]
    names = tuple(cluster.split(" x "))
    sizes = [survey.attribute(name).size for name in names]
    each = [KeepUniform.with_keep(size, p=p).epsilon for size in sizes]
    cells, spent = math.prod(sizes), math.fsum(each)
    [block] = matched_blocks(survey.project(names), [names], p=p)
    return [
        Sample(
            exact={
                "row sum of 6.3.1": max(p + (r - 1) * (1 - p) / r for r in sizes),
                "p_C as printed": 1 / (1 + (1 - cells) * math.exp(-spent)),
                "p_C": 1 / (1 + (cells - 1) * math.exp(-spent)),
                "sum of epsilon_A": spent,
                "epsilon of the cluster": block.randomizer.epsilon,
            }
        )
    ]


def _said_of_order(found: Found[Nothing]) -> list[str]:
    couples = found.value("couples of pairs", measure="covariance")
    return [
        f"{by}: the order is kept in {found.value('in the same order', measure=by, p=0.3):.0f} of "
        f"{couples:.0f} couples of pairs at p = 0.3"
        for by in ("covariance", "Pearson's r", "Cramer's V")
    ]


EXPERIMENTS = (
    Experiment(
        paper="MDRR",
        item="Expressions 1, 2, 4",
        name="rr-matrix",
        summary="Multi-Dimensional RR, section 2: the matrix, its inverse, epsilon, propagation.",
        cells=grid(attribute=ATTRIBUTES, p=(0.1, 0.3, 0.5, 0.7)),
        law=_matrix,
        runs=200,
        notes=(
            "propagation: the relative error of the shares over that of the reports, in Euclidean "
            "norm; the text bounds it from below by the eigenvalue ratio, which bounds it above",
        ),
        picture=Picture(
            title="Errors are propagated by less than the eigenvalue ratio",
            conditions="n = 32,561, Adult",
            x="p",
            by=("attribute",),
            figures=("propagation", "eigenvalue ratio"),
            axis="relative error of shares over that of reports",
            computed=("eigenvalue ratio",),
            names={"p": "keep probability p"},
        ),
    ),
    Experiment(
        paper="MDRR",
        item="Definitions 1, 2",
        name="rr-largest-errors",
        summary="Multi-Dimensional RR, Expressions 5 and 6: how often their bounds hold.",
        cells=grid(attribute=ATTRIBUTES, p=(0.1, 0.3, 0.5, 0.7)),
        law=_coverage,
        parameters=Level,
        runs=1000,
        notes=(
            "both definitions ask for at least 1 - alpha; the bounds are of shares of reports, and "
            "of shares of answers at n = 32,561",
        ),
        picture=Picture(
            title="Answers are further off than Expression 5 says of reports",
            conditions="n = 32,561, Adult",
            x="p",
            by=("attribute",),
            figures=("(5)", "bound of the answers"),
            axis="largest error of a share",
            computed=("(5)", "bound of the answers"),
            names={"p": "keep probability p", "(5)": "Expression 5"},
        ),
    ),
    Experiment(
        paper="MDRR",
        item="Section 3.3, Bound 7",
        name="rr-accuracy",
        summary="Multi-Dimensional RR, 3.3: relative errors of RR-Independent and RR-Joint.",
        cells=grid(attributes=tuple(range(1, 9))),
        law=_accuracy,
        parameters=Level,
        notes=("exact: Expression 6 at equal shares of reports; the first attributes of Adult",),
        picture=Picture(
            title="RR-Joint's error grows with the combinations",
            conditions="n = 32,561, equal shares",
            x="attributes",
            figures=("RR-Independent", "RR-Joint"),
            axis="relative error of reports, Expression 6",
            computed=("RR-Independent", "RR-Joint"),
            names={"attributes": "attributes of Adult"},
        ),
    ),
    Experiment(
        paper="MDRR",
        item="Proposition 1, Corollary 1",
        name="rr-proposition-1",
        summary="Multi-Dimensional RR, 4.1: covariances after randomization, and their order.",
        cells=grid(measure=("covariance", "Pearson's r", "Cramer's V"), p=(0.1, 0.3, 0.5, 0.7)),
        law=_order,
        notes=("exact: expected tables of reports on the 28 pairs of Adult",),
        observed=_said_of_order,
        picture=Picture(
            title="Covariances alone keep their order",
            conditions="28 pairs of Adult, expected reports",
            x="p",
            by=("measure",),
            figures=("in the same order",),
            axis="couples of pairs in the same order, of 378",
            computed=("in the same order",),
            names={
                "p": "keep probability p",
                "in the same order": "couples of pairs in the same order, of 378",
            },
        ),
    ),
    Experiment(
        paper="MDRR",
        item="Sections 6.3.1, 6.3.2",
        name="rr-matrices",
        summary="Multi-Dimensional RR, 6.3: the printed matrices and those that sum to 1.",
        cells=grid(
            cluster=("income", "education", "marital-status x relationship", "occupation x income"),
            p=(0.1, 0.3, 0.5, 0.7),
        ),
        law=_matrices,
        notes=("exact: nothing is drawn",),
        picture=Picture(
            title="The printed diagonal is no probability",
            x="p",
            by=("cluster",),
            figures=("p_C", "p_C as printed"),
            axis="diagonal of the matrix",
            computed=("p_C", "p_C as printed"),
            names={"p": "keep probability p"},
        ),
    ),
)
SCENARIOS = scenarios_of(*EXPERIMENTS)
