"""Formulas of the first paper, on both sides, and its Example 1.

Domingo-Ferrer and Soria-Comas, Multi-Dimensional Randomized Response, sections 2, 3, 4.1, 5 and
6.3.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from protocol.estimators.calibration.adjustment import Target, adjust_records
from protocol.estimators.dependence.dependence import cramers_v
from protocol.estimators.inference.largest_errors import largest_errors, reported_errors
from protocol.estimators.inference.laws import critical
from protocol.randomizers import KeepUniform
from protocol.randomizers.exact import Floats
from protocol.variants.clusters.clustering import matched_blocks
from scenarios.papers.driver import experiment_scenarios
from scenarios.papers.experiment import Asked, Experiment, Found, Nothing, Sample, grid
from scenarios.papers.rr.shared import adult_population
from scenarios.running.reproduction import Picture

ATTRIBUTES = ("workclass", "education", "marital-status", "occupation", "relationship", "race",
              "sex", "income")  # fmt: skip


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """The parameter of the bounds."""

    alpha: Annotated[float, Meta(gt=0, lt=1, description="1 less the confidence")] = 0.05


# Section 2


def _one(asked: Asked[Any]) -> tuple[Floats, int, KeepUniform]:
    """Shares of one attribute of Adult, the number of respondents, and the randomizer."""
    population = adult_population(asked.data)
    counts = population.counts((asked.cell["attribute"],))
    keep = KeepUniform.with_keep(len(counts), p=asked.cell["p"])
    return counts / population.n, population.n, keep


def _matrix(asked: Asked[Nothing]) -> dict[str, Any]:
    """Expressions 1, 2 and 4 and section 2.3."""
    shares, n, keep = _one(asked)
    matrix = keep.matrix()
    reported = matrix.T @ shares
    errors = asked.generator().multinomial(n, reported, size=asked.runs) / n - reported
    unmixed = np.linalg.solve(matrix.T, errors.T).T
    grown = np.linalg.norm(unmixed, axis=1) / np.linalg.norm(shares)
    grown /= np.linalg.norm(errors, axis=1) / np.linalg.norm(reported)
    values = np.linalg.eigvalsh(matrix.T)
    ratio = values.max() / values.min()
    return {
        "propagation": grown,
        "within the ratio": grown <= ratio,
        "row sum": matrix.sum(axis=1).max(),
        "error of (2) from an exact lambda": np.abs(
            np.linalg.solve(matrix.T, reported) - shares
        ).max(),
        "epsilon of (4)": np.log(matrix.max(axis=0) / matrix.min(axis=0)).max(),
        "epsilon charged": keep.epsilon,
        "eigenvalue ratio": ratio,
    }


def _coverage(asked: Asked[Level]) -> dict[str, Any]:
    """Coverage by Definitions 1 and 2 of the bounds 5 and 6, and the bound of the answers."""
    shares, n, keep = _one(asked)
    level, a = 1 - asked.parameters.alpha, keep.uniform_keep
    reported = keep.matrix().T @ shares
    bound = reported_errors(reported, n, level=level)
    of_answers = largest_errors([keep], n, shares=shares, level=level)
    # Definitions 1 and 2 are of a sample of reports, as if respondents were a random sample.
    drawn = asked.generator().multinomial(n, reported, size=asked.runs) / n
    apart = np.abs(drawn - reported)
    return {
        "Definition 1 holds": (apart <= bound.absolute).all(axis=1),
        "Definition 2 holds": (apart <= bound.relative * drawn).all(axis=1),
        "answers within their bound": (apart / a <= of_answers.absolute).all(axis=1),
        "answers within (5)": (apart / a <= bound.absolute).all(axis=1),
        "(5)": bound.absolute,
        "(6)": bound.relative,
        "(5) over a": bound.absolute / a,
        "bound of the answers": of_answers.absolute,
    }


def _factor(asked: Asked[Level]) -> Sample:
    """The factor ``sqrt(B)`` of Equations 5 and 6: B is the upper alpha/r quantile of chi2(1)."""
    alpha = asked.parameters.alpha
    return Sample.of({"": critical(1 - alpha / asked.cell["r"])}, alpha=alpha)


def _above_notes(found: Found[Level]) -> list[str]:
    above = next((row.settings["r"] for row in found.rows if row.figures()[0].measured > 2), None)
    return [
        "the text (3.2) reads off that sqrt(B), a relative error, is above 200 %: of the r "
        f"listed it is from {above} on"
    ]


# Section 3


def _accuracy(asked: Asked[Level]) -> Sample:
    """Section 3.3 and Bound 7: the cost of RR-Joint for the first attributes of Adult."""
    population, level = adult_population(asked.data), 1 - asked.parameters.alpha
    sizes, n = population.survey.sizes[: asked.cell["attributes"]], population.n
    cells = math.prod(sizes)

    def relative(r: int, people: int) -> float:
        return reported_errors(np.full(r, 1 / r), people, level=level).relative

    joint = relative(cells, n)
    found = {
        "combinations": cells,
        "RR-Independent": max(relative(size, n) for size in sizes),
        "RR-Joint": joint,
        "RR-Joint at n = combinations": relative(cells, cells),
        "respondents for an error of 10 %": math.ceil(n * (joint / 0.1) ** 2),
    }
    return Sample.of(found, n=n)


# Section 4.1


def _dependence(table: Floats, by: str) -> float:
    if by == "Cramer's V":
        return cramers_v(table)
    matrix = np.cov(np.indices(table.shape).reshape(2, -1), aweights=table.ravel(), ddof=0)
    spread = 1.0 if by == "covariance" else math.sqrt(matrix[0, 0] * matrix[1, 1])
    return float(matrix[0, 1]) / spread


def _order(asked: Asked[Nothing]) -> dict[str, Any]:
    """Proposition 1 and Corollary 1 on the 28 pairs of Adult, with codes as numbers.

    The reports' tables are exact: what is expected, without any sampling.
    """
    population, p, by = adult_population(asked.data), asked.cell["p"], asked.cell["measure"]
    both = []
    for pair in combinations(population.survey.names, 2):
        table = population.counts(pair) / population.n
        first, second = (KeepUniform.with_keep(size, p=p).matrix() for size in table.shape)
        both.append((_dependence(table, by), _dependence(first.T @ table @ second, by)))
    true, found = np.array(both).T
    i, j = np.triu_indices(len(true), 1)
    return {
        "largest distance from p p times that of the answers": np.abs(found - p * p * true).max(),
        "couples of pairs": len(i),
        "in the same order": np.sum((true[i] > true[j]) == (found[i] > found[j])),
    }


# Section 5

RECORDS = np.array([[0, 0]] * 4 + [[1, 0]] * 2 + [[1, 1]] * 4, np.uint8)
"""The ten randomized records of Example 1: codes of the first and the second attribute."""

EVEN = np.array([0.5, 0.5])
"""The estimated margin of either attribute."""

FIRST, SECOND = Target(axes=(0,), proportions=EVEN), Target(axes=(1,), proportions=EVEN)
SWEEPS = (1, 10, 100, 1000)
EXAMPLE = ("Pr(a1, b1)", "Pr(a1, b2)", "Pr(a2, b1)", "Pr(a2, b2)")
LIMIT = "the printed numbers are the limit: after k sweeps the margins are still 1/(4k + 4) away"


def _example(asked: Asked[Nothing]) -> Sample:
    """The first step, the weights after some sweeps next to their limit, or RR-Independent."""
    after = asked.cell["after"]
    if after == "the first attribute":
        step = adjust_records(RECORDS, [FIRST], sweeps=1).weights
        margin = {f"lambda(b{b + 1})": step[RECORDS[:, 1] == b].sum() for b in range(2)}
        return Sample.of({"w_1": step[0], "w_5": step[4], **margin})
    if after == "the estimated margins":
        return Sample.of(dict(zip(EXAMPLE, np.multiply.outer(EVEN, EVEN).ravel(), strict=True)))
    sweeps = asked.cell["sweeps"]
    adjusted = adjust_records(RECORDS, [FIRST, SECOND], sweeps=sweeps, tolerance=0.0)
    cells = np.bincount(RECORDS @ np.array([2, 1]), weights=adjusted.weights, minlength=4)
    found = dict(zip(EXAMPLE, cells, strict=True))
    return Sample.of({**found, "margin error": adjusted.margin_error}, remark=LIMIT)


# Section 6.3


def _matrices(asked: Asked[Nothing]) -> dict[str, Any]:
    """The printed matrices of 6.3.1 and 6.3.2 next to the ones in use."""
    survey, p = adult_population(asked.data).survey, asked.cell["p"]
    names = tuple(asked.cell["cluster"].split(" x "))
    sizes = [survey.attribute(name).size for name in names]
    spent = math.fsum(KeepUniform.with_keep(size, p=p).epsilon for size in sizes)
    [block] = matched_blocks(survey.project(names), [names], p=p)
    others = math.prod(sizes) - 1
    return {
        "row sum of 6.3.1": max(p + (r - 1) * (1 - p) / r for r in sizes),
        "p_C as printed": 1 / (1 - others * math.exp(-spent)),
        "p_C": 1 / (1 + others * math.exp(-spent)),
        "sum of epsilon_A": spent,
        "epsilon of the cluster": block.randomizer.epsilon,
    }


def _said_of_order(found: Found[Nothing]) -> list[str]:
    couples = found.value("couples of pairs", measure="covariance")
    return [
        f"{by}: the order is kept in {found.value('in the same order', measure=by, p=0.3):.0f} of "
        f"{couples:.0f} couples of pairs at p = 0.3"
        for by in ("covariance", "Pearson's r", "Cramer's V")
    ]


SCENARIOS = experiment_scenarios(
    Experiment(
        name="rr-figure-1",
        summary="Multi-Dimensional RR, Figure 1: the factor sqrt(B) against the categories.",
        cells=grid(r=(1, 2, 3, 5, 10, 30, 100, 300, 1_000, 10_000, 100_000, 1_000_000, 1_814_400)),
        measure=_factor,
        parameters=Level,
        notes=(
            "Equations 5 and 6 bound the error of lambda; that of pi is up to 1/a times as large",
        ),
        observed=_above_notes,
        picture=Picture(
            title="The factor of the error grows slowly with the categories",
            names={"": "sqrt(B)", "r": "categories r"},
        ),
    ),
    Experiment(
        name="rr-matrix",
        summary="Multi-Dimensional RR, section 2: the matrix, its inverse, epsilon, propagation.",
        cells=grid(attribute=ATTRIBUTES, p=(0.1, 0.3, 0.5, 0.7)),
        measure=_matrix,
        runs=200,
        notes=(
            "propagation: the relative error of the shares over that of the reports, in Euclidean "
            "norm; the text bounds it from below by the eigenvalue ratio, which bounds it above",
        ),
        picture=Picture(
            title="Errors are propagated by less than the eigenvalue ratio",
            conditions="n = 32,561, Adult",
            figures=("propagation", "eigenvalue ratio"),
            axis="relative error of shares over that of reports",
        ),
    ),
    Experiment(
        name="rr-largest-errors",
        summary="Multi-Dimensional RR, Expressions 5 and 6: how often their bounds hold.",
        cells=grid(attribute=ATTRIBUTES, p=(0.1, 0.3, 0.5, 0.7)),
        measure=_coverage,
        parameters=Level,
        runs=1000,
        notes=(
            "both definitions ask for at least 1 - alpha; the bounds are of shares of reports, and "
            "of shares of answers at n = 32,561",
        ),
        picture=Picture(
            title="Answers are further off than Expression 5 says of reports",
            conditions="n = 32,561, Adult",
            figures=("(5)", "bound of the answers"),
            axis="largest error of a share",
            names={"(5)": "Expression 5"},
        ),
    ),
    Experiment(
        name="rr-accuracy",
        summary="Multi-Dimensional RR, 3.3: relative errors of RR-Independent and RR-Joint.",
        cells=grid(attributes=tuple(range(1, 9))),
        measure=_accuracy,
        parameters=Level,
        notes=("Expression 6 at equal shares of reports; the first attributes of Adult",),
        picture=Picture(
            title="RR-Joint's error grows with the combinations",
            conditions="n = 32,561, equal shares",
            figures=("RR-Independent", "RR-Joint"),
            axis="relative error of reports, Expression 6",
            names={"attributes": "attributes of Adult"},
        ),
    ),
    Experiment(
        name="rr-proposition-1",
        summary="Multi-Dimensional RR, 4.1: covariances after randomization, and their order.",
        cells=grid(measure=("covariance", "Pearson's r", "Cramer's V"), p=(0.1, 0.3, 0.5, 0.7)),
        measure=_order,
        notes=("expected tables of reports on the 28 pairs of Adult",),
        observed=_said_of_order,
        picture=Picture(
            title="Covariances alone keep their order",
            conditions="28 pairs of Adult, expected reports",
            figures=("in the same order",),
            axis="couples of pairs in the same order, of 378",
            names={
                "in the same order": "couples of pairs in the same order, of 378",
            },
        ),
    ),
    Experiment(
        name="rr-matrices",
        summary="Multi-Dimensional RR, 6.3: the printed matrices and those that sum to 1.",
        cells=grid(
            cluster=("income", "education", "marital-status x relationship", "occupation x income"),
            p=(0.1, 0.3, 0.5, 0.7),
        ),
        measure=_matrices,
        picture=Picture(
            title="The printed diagonal is not a probability",
            figures=("p_C", "p_C as printed"),
            axis="diagonal of the matrix",
        ),
    ),
    Experiment(
        name="rr-adjustment-example",
        summary="Multi-Dimensional RR, Example 1: RR-Adjustment of ten records.",
        cells=(
            {"method": "RR-Adjustment", "after": "the first attribute"},
            *({"method": "RR-Adjustment", "after": "sweeps", "sweeps": k} for k in SWEEPS),
            {"method": "RR-Independent", "after": "the estimated margins"},
        ),
        measure=_example,
    ),
)
