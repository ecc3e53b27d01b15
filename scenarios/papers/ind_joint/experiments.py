"""The worked example, Table 1, Figures 1 to 12 and the theorems of RR-Ind-Joint.

Kikuchi and Domingo-Ferrer, Estimating Joint Probability of Independently Randomized
Multi-dimensional Data, sections 3 and 4. The paper prints no number of the figures, only curves.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta

from protocol.estimators.counts import Counts
from protocol.estimators.dependence.dependence import cramers_v
from protocol.estimators.independent import ProductEstimate, product_mean_squared_error
from protocol.estimators.joint import Block, JointReports, mean_squared_error
from protocol.estimators.linear import LinearEstimate
from protocol.randomizers import KeepUniform
from protocol.randomizers.exact import Floats
from protocol.surveys.records import Records
from protocol.surveys.survey import Attribute, Survey
from scenarios.data.adult import adult, adult_with_age
from scenarios.data.correlated import correlated, correlated_distribution
from scenarios.papers.driver import experiment_scenarios
from scenarios.papers.experiment import Asked, Experiment, Found, Nothing, Sample, grid
from scenarios.papers.ind_joint.accuracy import (
    Keeps,
    Reported,
    break_even_epsilon,
    break_even_n,
    break_even_v,
    readable,
)
from scenarios.running.parameters import parameters_checked
from scenarios.running.reproduction import Picture

Sampled: TypeAlias = Annotated[
    Literal["sampled", "exact"],
    Meta(description="sampled (real runs) or exact (expected reports, no sampling)"),
]
Parties: TypeAlias = Annotated[
    int, Meta(ge=1, description="by messages: over how many the records are spread, at most")
]


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of the figures."""

    mode: Sampled = "sampled"
    parties: Parties = 50


class TableParameters(Shown, frozen=True, kw_only=True):
    """Parameters of Table 1."""

    p: Annotated[float, Meta(gt=0, lt=1, description="probability of keeping an answer")] = 0.5


NAMES = {
    "rr_ind_mae": "mean absolute error per cell, RR-Ind",
    "rr_ind_joint_mae": "mean absolute error per cell, RR-Ind-Joint",
    "rr_ind_mse": "mean squared error per cell, RR-Ind",
    "rr_ind_joint_mse": "mean squared error per cell, RR-Ind-Joint",
    "v": "Cramer's V of the distribution",
    "epsilon": "epsilon per attribute (nats)",
    "d": "categories d of each attribute",
}

# Section 3.3

EXAMPLE = Survey(
    "Example of RR-Ind-Joint",
    (
        Attribute(name="A", categories=("a1", "a2")),
        Attribute(name="B", categories=("b1", "b2")),
    ),
)
DATA = np.array([[4, 0], [2, 4]])
"""f_X, how many of the 10 parties have each answer: rows a1 and a2, columns b1 and b2."""
REPORTS = np.array([[3, 2], [2, 3]])
"""f_Y, the reports as stated."""
TRUTH = DATA / DATA.sum()
KEEP = KeepUniform.with_diagonal(2, diagonal=0.75)
"""p_A = p_B = .75 is the probability of reporting the truth."""
CELLS = ("a1b1", "a1b2", "a2b1", "a2b2")

STATED, MARGINS = "stated reports", "true margins"
TENTHS, HUNDREDTHS = (f"expected reports rounded to 1/{unit}" for unit in (10, 100))
REPEATED = {"10 parties, repeated": 1, "100 parties, repeated": 10}


def _example(asked: Asked[Nothing]) -> Sample | list[Sample]:
    """The estimates of section 3.3 from the reports stated there, and from repeats of their own."""
    of, keeps = asked.cell["of"], (KEEP, KEEP)
    if of in REPEATED or asked.live:
        records = Records.from_counts(EXAMPLE, REPEATED.get(of, 1) * DATA)
        both = dict.fromkeys(EXAMPLE.names, KEEP)
        repeats = Reported.asked(asked, records, both, generator=asked.generator())
        views = {"RR-Ind": repeats.product(), "RR-Ind-Joint": repeats.joint()}
        return [Sample.of(repeats.measures(views[shows]), shows=shows) for shows in views]
    if of == "data and stated reports":
        found = {"data": cramers_v(DATA), "reports": cramers_v(REPORTS)}
        return Sample.of(found, shows="Cramer's V")
    expected = Reported.exact(TRUTH, keeps)
    if of == MARGINS:
        return _table_sample("RR-Ind", expected.product())
    if of in (TENTHS, HUNDREDTHS):
        remark = (
            "This gives the printed cells: lambda = (.2875, .1625, .2625, .2875) rounded to (.3, "
            ".2, .3, .3), so they sum to 1.1, and their V is not .8."
        )
        rounded = Reported.exact(TRUTH, keeps, of=10 if of == TENTHS else 100)
        return _table_sample("RR-Ind-Joint", rounded.joint(), remark if of == TENTHS else "")
    stated = Reported.counted(DATA, keeps, REPORTS[np.newaxis])
    return [
        _table_sample(
            "RR-Ind",
            stated.product(),
            "Both margins of the stated reports are (.5, .5), so RR-Ind is .25 everywhere; the "
            "printed table is the product of the data's true margins.",
        ),
        _table_sample(
            "RR-Ind-Joint",
            stated.joint(),
            "The printed cells do not follow from the stated reports: a rounded lambda was "
            "inverted (1/10 below); the printed V of .8 is that of this row all the same.",
        ),
    ]


def _table_sample(shows: str, tables: Floats, remark: str = "") -> Sample:
    """A table's cells, its distance from the data and its Cramer's V."""
    cells = dict(zip(CELLS, tables.ravel(), strict=True))
    mae, v = np.mean(np.abs(tables[0] - TRUTH)), cramers_v(np.maximum(tables[0], 0.0))
    return Sample.of({**cells, "mae": mae, "cramers_v": v}, shows=shows, remark=remark)


# Table 1


@functools.lru_cache(maxsize=2)
def _adult(data: Path | str | None) -> Records:
    return adult(data)


def _table(asked: Asked[TableParameters]) -> Sample:
    """A pair of Adult's attributes, each randomized by itself."""
    records, own, pair = _adult(asked.data), asked.parameters, asked.cell["pair"].split(", ")
    with parameters_checked():
        sizes = {name: records.survey.attribute(name).size for name in pair}
        keeps = {name: KeepUniform.with_keep(size, p=own.p) for name, size in sizes.items()}
    generator, exact = asked.generator(), own.mode == "exact"
    reported = Reported.asked(
        asked, records, keeps, generator=generator, parties=own.parties, exact=exact
    )
    remark = (
        "Both figures of RR-Ind-Joint are the round-off of inverting an exact lambda, so only "
        "their order of magnitude means anything; the printed figure of RR-Ind is its bias, "
        "cut to three digits."
    )
    if reported.random:
        expected = product_mean_squared_error(reported.truth, reported.keeps, len(records))
        remark = (
            "The printed figure of RR-Ind-Joint is the round-off of inverting an exact lambda: a "
            "run has sampling error; the printed one of RR-Ind is its squared bias "
            f"({expected.squared_bias:.4g}), to which a run adds a variance of "
            f"{expected.variance:.2g}."
        )
    return Sample.of(
        {**reported.errors(), **_facts(reported.truth, reported)},
        remark=remark if own.p == TableParameters().p else "The paper has p = 0.5.",
        d=list(reported.truth.shape),
        n=len(records),
        p=own.p,
        mode=_mode(reported),
    )


def _mode(reported: Reported) -> str:
    return "sampled" if reported.random else "exact"


def _facts(truth: Floats, reported: Reported) -> dict[str, float]:
    """Facts about the data, with the number of respondents at which both estimators err alike."""
    return {
        "cramers_v": cramers_v(reported.truth),
        "break_even_n": break_even_n(truth, reported.keeps),
    }


# Figures


class Design(msgspec.Struct, frozen=True, kw_only=True):
    """Synthetic data and how they are randomized; the defaults are those of section 4.1.

    ``epsilon`` is that of each of the two attributes, as the paper has it.
    """

    n: int = 1000
    d: int = 10
    v: float = 0.5
    epsilon: float = 1.0

    @property
    def truth(self) -> Floats:
        """The distribution that the data are made from."""
        return correlated_distribution(self.d, v=self.v)

    @property
    def keeps(self) -> Keeps:
        """The randomizers of both attributes."""
        keep = KeepUniform.with_epsilon(self.d, epsilon=self.epsilon)
        return keep, keep


CURVES: Mapping[int, tuple[str, Sequence[float]]] = {
    5: ("v", tuple(step / 10 for step in range(11))),
    6: ("epsilon", tuple(step / 10 for step in range(1, 21))),
    7: ("n", (10, 100, 1000, 10_000)),
    8: ("d", tuple(range(2, 21))),
}
"""Axis and points of each figure."""

VIEWS = ("data", "reports", "RR-Ind", "RR-Ind-Joint")
SHOWN = dict(zip((1, 2, 3, 4, 9, 10, 11, 12), 2 * VIEWS, strict=True))
"""Views that each figure shows as a table."""

PAIR = ("sex", "age")
ADULT_KEEP = 0.5
NOTICEABLE = 0.01
"""Largest error of Cramer's V of rounded data without a remark."""


class Data(NamedTuple):
    """Data of a figure."""

    records: Records
    truth: Floats
    keeps: Keeps
    settings: dict[str, Any]


@functools.lru_cache(maxsize=4)
def _of_adult(data: Path | str | None) -> Data:
    records = adult_with_age(data).project(PAIR)
    first, second = (KeepUniform.with_keep(size, p=ADULT_KEEP) for size in records.survey.sizes)
    settings = {"attributes": list(PAIR), "n": len(records), "p": ADULT_KEEP}
    return Data(records, records.distribution(PAIR), (first, second), settings)


def _data(asked: Asked[Shown]) -> Data:
    if asked.cell["figure"] >= 9:
        return _of_adult(asked.data)
    design = Design(**{name: value for name, value in asked.cell.items() if name != "figure"})
    records = correlated(design.n, d=design.d, v=design.v)
    return Data(records, design.truth, design.keeps, msgspec.structs.asdict(design))


def _figure(asked: Asked[Shown]) -> Sample | list[Sample]:
    """A point of a curve, or a view of a table."""
    of, figure, own = _data(asked), asked.cell["figure"], asked.parameters
    names, n = of.records.survey.names, of.settings["n"]
    exact = asked.reading == "printed" or own.mode == "exact"
    if exact and not asked.live:
        whole = n if asked.reading == "printed" else None
        reported = Reported.exact(of.truth, of.keeps, of=whole)
    else:
        # Figures of one table are of the same reports.
        seeds = asked.seeds if figure in CURVES else (asked.seed, int(figure >= 9), asked.seeds[-1])
        reported = Reported.asked(
            asked,
            of.records,
            dict(zip(names, of.keeps, strict=True)),
            generator=np.random.default_rng(seeds),
            parties=own.parties,
        )
    settings = {**of.settings, "mode": _mode(reported)}
    if figure in CURVES:
        facts, stated = _facts(of.truth, reported), of.settings["v"]
        remark = (
            f"{n:,} whole respondents in {of.truth.size} cells cannot have V = {stated:g}: "
            f"rounding makes it {facts['cramers_v']:.3g}."
        )
        off = abs(facts["cramers_v"] - stated) > NOTICEABLE
        found = {**reported.errors(), **facts}
        return Sample.of(found, remark=remark if off else "", **settings)
    shows = SHOWN[figure]
    tables = {
        "data": reported.truth[np.newaxis],
        "reports": reported.shares,
        "RR-Ind": reported.product(),
        "RR-Ind-Joint": reported.joint(),
    }[shows]
    first = Sample.of(reported.measures(tables), shows=shows, **settings)
    return [first, *_cells(of, shows, reported, tables[0])]


def _cells(of: Data, shows: str, reported: Reported, table: Floats) -> list[Sample]:
    """The first run's table, one row per category of the first attribute."""
    survey = of.records.survey
    first, second = survey.attributes
    errors = np.full(table.shape, np.nan) if reported.random and shows == "reports" else None
    if reported.random and shows in ("RR-Ind", "RR-Ind-Joint"):
        joint = _estimate(survey, reported, of.settings["n"])
        estimate = joint if shows == "RR-Ind-Joint" else ProductEstimate(joint)
        errors = estimate.table(*survey.names).standard_errors
    samples = []
    for code, category in enumerate(first.categories):
        names = (f"{second.name} {other}" for other in second.categories)
        row = dict(zip(names, table[code].tolist(), strict=True))
        if errors is None:
            found = Sample(exact=row)
        else:
            pairs = zip(row.items(), errors[code].tolist(), strict=True)
            found = Sample(known={name: (value, error) for (name, value), error in pairs})
        settings = {"shows": shows, first.name: category}
        samples.append(msgspec.structs.replace(found, settings=settings))
    return samples


def _estimate(survey: Survey, reported: Reported, n: int) -> LinearEstimate[JointReports]:
    """The aggregator's view of the first run's reports."""
    keeps = zip(survey.names, reported.keeps, strict=True)
    blocks = tuple(Block((name,), keep) for name, keep in keeps)
    counts = Counts.from_table(np.rint(reported.shares[0] * n).astype(np.int64))
    return LinearEstimate(JointReports(survey, blocks, counts))


def _break_even_notes(found: Found[Shown]) -> list[str]:
    """Points where both estimators err alike: on the axes of Figures 5 to 8, and on Adult."""
    design = Design()
    n = f"{design.n:,}"
    v = break_even_v(lambda v: correlated_distribution(design.d, v=v), design.keeps, design.n)
    where = f"from V = {readable(v)} on" if math.isfinite(v) else "for no V up to 1"
    at_one = break_even_n(correlated_distribution(design.d, v=1.0), design.keeps)
    epsilon = break_even_epsilon(design.truth, lambda e: Design(epsilon=e).keeps, design.n)
    sizes = CURVES[8][1]
    at = {d: break_even_n(Design(d=int(d)).truth, Design(d=int(d)).keeps) for d in sizes}
    winning = max((d for d in sizes if at[d] <= design.n), default=None)
    adult = _of_adult(found.asked.data)
    root = math.sqrt(mean_squared_error(adult.keeps, adult.settings["n"]))
    return [
        f"Figure 5: RR-Ind-Joint does not depend on V, as the paper says, but at n = {n} and "
        f"epsilon = {design.epsilon:g} it is the better one {where}; even at V = 1 that takes n = "
        f"{readable(at_one)}, and at V = 0 it never is.",
        f"Figure 6: at n = {n} RR-Ind-Joint is the better one from epsilon = {readable(epsilon)} "
        "per attribute on; the error of RR-Ind, which the paper calls constant, is so without "
        "sampling alone.",
        "Figure 7: RR-Ind-Joint is the better one from n = "
        f"{readable(break_even_n(design.truth, design.keeps))} on; its mean absolute error falls "
        "like n to the -1/2, not like 1/n as the paper reads off its curve, which has the effect "
        "of rounding alone (reading=printed).",
        f"Figure 8: at n = {n} RR-Ind-Joint is the better one for "
        f"{'no d' if winning is None else f'd up to {winning}'}; it takes n = {readable(at[2])} at "
        f"d = 2 and {readable(at[20])} at d = 20.",
        f"Figures 9 to 12: RR-Ind-Joint is the better one from n = "
        f"{readable(break_even_n(adult.truth, adult.keeps))} on; the root of its expected squared "
        f"error is {root:.2g} per cell, and a cell's share {1 / adult.truth.size:.2g} on average.",
    ]


# Sections 3.2, 3.4 and 3.5


def _check_composition(asked: Asked[Nothing]) -> dict[str, Any]:
    """Theorems 1 and 2 and Corollary 1, by dense matrices."""
    sizes = [int(size) for size in asked.cell["sizes"].split(" x ")]
    each = [KeepUniform.with_epsilon(size, epsilon=asked.cell["epsilon"]) for size in sizes]
    whole: Any = np.ones((1, 1))
    parts: Any = whole
    for keep in each:
        whole, parts = np.kron(whole, keep.matrix()), np.kron(parts, np.linalg.inv(keep.matrix()))
    return {
        "largest distance of a row's sum from 1": np.abs(whole.sum(axis=1) - 1).max(),
        "largest distance of the inverses": np.abs(np.linalg.inv(whole) - parts).max(),
        "epsilon of the composed matrix": np.log(whole.max(axis=0) / whole.min(axis=0)).max(),
        "m epsilon": math.fsum(keep.epsilon for keep in each),
    }


def _check_bound(asked: Asked[Nothing]) -> dict[str, Any]:
    """Theorem 3, on RR-Ind without sampling: the squared distance from a product of margins."""
    d, v = asked.cell["d"], asked.cell["v"]
    table = correlated_distribution(d, v=v)
    margins = np.outer(table.sum(axis=1), table.sum(axis=0))
    mae = np.abs(table - margins).mean()
    return {
        "MSE of RR-Ind": ((table - margins) ** 2).mean(),
        "V^2/d": v**2 / d,
        "largest expected cell times V^2 (d-1)/d^2": margins.max() * v**2 * (d - 1) / d**2,
        "MAE of RR-Ind": mae,
        "MAE over V/sqrt(d)": mae / (v / math.sqrt(d)),
        "MAE over V": mae / v,
    }


SCENARIOS = experiment_scenarios(
    Experiment(
        name="ind-joint-example",
        summary="RR-Ind-Joint, section 3.3: ten parties with two attributes, step by step.",
        cells=grid(
            of=("data and stated reports", STATED, MARGINS, TENTHS, HUNDREDTHS, *REPEATED),
        ),
        measure=_example,
        live=True,
        live_cell={"of": next(iter(REPEATED))},
        runs=1000,
        notes=(
            "Cells are named by both answers; the paper's matrix of RR-Ind has b in its rows.",
            "Only what is repeated needs randomness: 10 parties as stated, or 100 in the same "
            "proportions, are randomized anew.",
            "The paper puts the error of .05 at n = 10, and .01 at n = 100, down to rounding "
            "lambda; rounding does not enter a run. Its error is that of sampling the reports, "
            "and falls like n to the -1/2.",
            "RR-Ind-Joint has the smaller expected squared error from n = "
            f"{readable(break_even_n(TRUTH, (KEEP, KEEP)))} on.",
        ),
    ),
    Experiment(
        name="ind-joint-table-1",
        summary="RR-Ind-Joint, Table 1: its error and RR-Ind's on three pairs of Adult.",
        cells=grid(pair=("sex, income", "sex, race", "education, occupation")),
        measure=_table,
        live=True,
        runs=1000,
        parameters=TableParameters,
        notes=(
            "mode = sampled: the reports are drawn; the records are the same in every run. mode = "
            "exact: the estimators are given the expected reports, as in the paper.",
            "p is the keep probability (else a uniform draw over all values): as a diagonal entry, "
            ".5 would make the matrix of an attribute with two values singular.",
            "break_even_n is the number of reports from which on RR-Ind-Joint has the smaller "
            "expected squared error, in closed form: below it, its variance exceeds the bias of "
            "RR-Ind.",
        ),
        picture=Picture(figures=("rr_ind_mse", "rr_ind_joint_mse"), names=NAMES),
    ),
    Experiment(
        name="ind-joint-figures",
        summary="RR-Ind-Joint, Figures 1 to 12: its error and RR-Ind's, and where they are equal.",
        cells=(
            *({"figure": figure} for figure in (1, 2, 3, 4)),
            *(
                {"figure": figure, axis: value}
                for figure, (axis, values) in CURVES.items()
                for value in values
            ),
            *({"figure": figure} for figure in (9, 10, 11, 12)),
        ),
        measure=_figure,
        live=True,
        live_cell={"figure": 4},
        runs=100,
        parameters=Shown,
        readings={
            "corrected": "reports are drawn anew in every run; the records are the same in all, "
            "and errors are distances from the records' own table",
            "printed": "nothing is drawn: the estimators are given the expected reports, rounded "
            "to whole respondents, which alone makes the printed error of 1/n",
        },
        notes=(
            "mode = exact: the expected reports without rounding, so that n plays no part and "
            "RR-Ind-Joint has no error but round-off.",
            "The paper does not say how often it repeats an experiment, and prints no number here.",
            "The synthetic records are n times the distribution, rounded to whole respondents by "
            "largest remainder (the paper does not say how it makes them). The margins are "
            "proportional to 1/a for a = 2..d+1; the printed range, a = 2..d, has d - 1 values.",
            "epsilon is that of each attribute; a record with two of them costs twice as much.",
            "Tables are those of the first run; Cramer's V of an estimate is that of its "
            "clip-and-rescale projection, so noisy margins give RR-Ind one too.",
            "Break-even points are where the expected squared errors of both estimators are equal, "
            "in closed form: RR-Ind-Joint is the better one above them (of d: below).",
        ),
        observed=_break_even_notes,
        picture=Picture(
            title="Where RR-Ind-Joint is nearer to the true table than RR-Ind",
            figures=("rr_ind_mae", "rr_ind_joint_mae"),
            axis="mean absolute error per cell",
            names={
                **NAMES,
                "rr_ind_mae": "RR-Ind",
                "rr_ind_joint_mae": "RR-Ind-Joint",
                "A": "category of A",
                "B": "category of B",
                **{f"figure {figure}": "share of respondents" for figure in SHOWN},
            },
        ),
    ),
    Experiment(
        name="ind-joint-theorems",
        summary="RR-Ind-Joint, Theorems 1 and 2, Corollary 1: composed matrices and their epsilon.",
        cells=grid(sizes=("2 x 2", "5 x 2", "16 x 15", "9 x 7 x 2"), epsilon=(0.5, 1.0, 2.0)),
        measure=_check_composition,
        notes=("by dense matrices, which the estimates never make",),
        picture=Picture(
            title="Attributes that are randomized apart cost the sum",
            figures=("epsilon of the composed matrix",),
            axis="epsilon of all attributes",
            names={"epsilon": "epsilon of an attribute"},
        ),
    ),
    Experiment(
        name="ind-joint-theorem-3",
        summary="RR-Ind-Joint, Theorem 3: the squared error of RR-Ind and its bound.",
        cells=grid(d=(2, 5, 10, 20), v=(0.1, 0.5, 1.0)),
        measure=_check_bound,
        notes=(
            "without sampling, as the theorem; with it the variance of the margins is added",
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
            names={"v": "Cramer's V"},
        ),
    ),
)
