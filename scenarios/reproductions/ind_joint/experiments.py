"""The worked example, Table 1 and Figures 1 to 12 of RR-Ind-Joint.

Kikuchi and Domingo-Ferrer, Estimating Joint Probability of Independently Randomized
Multi-dimensional Data, sections 3.3 and 4. The paper prints no number of the figures, only curves.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from protocol.estimators.counts import Counts
from protocol.estimators.dependence.dependence import cramers_v
from protocol.estimators.independent import ProductEstimate, product_mean_squared_error
from protocol.estimators.joint import Block, JointEstimate, mean_squared_error
from protocol.randomizers import KeepUniform, split_codes
from protocol.randomizers.exact import Floats
from protocol.surveys.records import Records
from protocol.surveys.survey import Attribute, Survey
from scenarios.datasets.adult import adult, adult_with_age
from scenarios.datasets.correlated import (
    correlated,
    correlated_counts,
    correlated_distribution,
)
from scenarios.reproductions.driver import scenarios_of
from scenarios.reproductions.experiment import (
    Asked,
    Experiment,
    Found,
    Nothing,
    Sample,
    grid,
)
from scenarios.reproductions.ind_joint.accuracy import (
    Keeps,
    Mode,
    Parties,
    Reported,
    break_even_epsilon,
    break_even_n,
    break_even_v,
    live_pair,
    readable,
    run_live,
)
from scenarios.running.outcomes import Outcome
from scenarios.running.parameters import parameters_checked
from scenarios.running.reproduction import Picture
from scenarios.running.scenario import Context

PARTIES = 50

Sampled = Annotated[
    Mode, Meta(description="sampled (real runs) or exact (expected reports, no sampling)")
]

NAMES = {
    "rr_ind_mae": "mean absolute error per cell, RR-Ind",
    "rr_ind_joint_mae": "mean absolute error per cell, RR-Ind-Joint",
    "rr_ind_mse": "mean squared error per cell, RR-Ind",
    "rr_ind_joint_mse": "mean squared error per cell, RR-Ind-Joint",
    "v": "Cramer's V of the distribution",
    "epsilon": "epsilon per attribute (nats)",
    "n": "respondents n",
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


def _example(asked: Asked[Nothing]) -> list[Sample]:
    """The estimates of section 3.3 from the reports stated there, and from repeats of their own."""
    of, keeps = asked.cell["of"], (KEEP, KEEP)
    if of == "data and stated reports":
        both = {"data": cramers_v(DATA), "reports": cramers_v(REPORTS)}
        return [Sample(exact=both, settings={"shows": "Cramer's V"})]
    if of in REPEATED:
        draws, counts = asked.generator(), REPEATED[of] * DATA
        return _repeats(Reported.sampled(counts, keeps, draws, runs=asked.runs))
    stated = Reported.counted(DATA, keeps, REPORTS[np.newaxis])
    expected = Reported.exact(TRUTH, keeps)
    if of == STATED:
        return [
            _described(
                "RR-Ind",
                stated.product()[0],
                "Both margins of the stated reports are (.5, .5), so RR-Ind is .25 everywhere; the "
                "printed table is the product of the data's true margins.",
            ),
            _described(
                "RR-Ind-Joint",
                stated.joint()[0],
                "The printed cells do not follow from the stated reports: a rounded lambda was "
                "inverted (1/10 below); the printed V of .8 is that of this row all the same.",
            ),
        ]
    if of == MARGINS:
        return [_described("RR-Ind", expected.product()[0])]
    rounded = np.round(expected.shares, 1 if of == TENTHS else 2)
    remark = (
        "This gives the printed cells: lambda = (.2875, .1625, .2625, .2875) rounded to (.3, .2, "
        ".3, .3), so they sum to 1.1, and their V is not .8."
    )
    found = Reported(TRUTH, keeps, rounded).joint()[0]
    return [_described("RR-Ind-Joint", found, remark if of == TENTHS else "")]


def _described(shows: str, table: Floats, remark: str = "") -> Sample:
    """A table's cells, its distance from the data and its Cramer's V."""
    cells = dict(zip(CELLS, table.ravel().tolist(), strict=True))
    mae = float(np.mean(np.abs(table - TRUTH)))
    found = {**cells, "mae": mae, "cramers_v": cramers_v(np.maximum(table, 0.0))}
    return Sample(exact=found, settings={"shows": shows}, remark=remark)


def _repeats(repeats: Reported) -> list[Sample]:
    return [
        Sample(drawn=repeats.of_tables(tables), settings={"shows": shows})
        for shows, tables in (("RR-Ind", repeats.product()), ("RR-Ind-Joint", repeats.joint()))
    ]


def _example_live(asked: Asked[Nothing], context: Context) -> tuple[Outcome, list[Sample]]:
    counts = REPEATED.get(asked.cell["of"], 1) * DATA
    records = _records(EXAMPLE, counts)
    outcome = run_live(context, records, dict.fromkeys(EXAMPLE.names, KEEP), len(records))
    reports = live_pair(outcome, EXAMPLE.names)
    return outcome, _repeats(Reported.counted(counts, (KEEP, KEEP), reports))


def _records(survey: Survey, counts: Any) -> Records:
    """Respondents with these counts."""
    codes = np.argwhere(np.ones_like(counts)).astype(np.uint8)
    return Records(survey, np.repeat(codes, counts.reshape(-1), axis=0))


# Table 1


class TableParameters(msgspec.Struct, frozen=True, kw_only=True):
    """What can be set for Table 1."""

    mode: Sampled = "sampled"
    p: Annotated[float, Meta(gt=0, lt=1, description="probability of keeping an answer")] = 0.5
    parties: Parties = PARTIES


def _pair_reports(asked: Asked[TableParameters]) -> tuple[Records, dict[str, KeepUniform]]:
    records = _adult(asked.data)
    with parameters_checked():
        keeps = {
            name: KeepUniform.with_keep(records.survey.attribute(name).size, p=asked.parameters.p)
            for name in asked.cell["pair"].split(", ")
        }
    return records, keeps


def _both(keeps: Mapping[str, KeepUniform]) -> Keeps:
    first, second = keeps.values()
    return first, second


@functools.lru_cache(maxsize=2)
def _adult(data: Path | str | None) -> Records:
    return adult(data)


def _table(asked: Asked[TableParameters]) -> list[Sample]:
    """A pair of Adult's attributes, each randomized by itself."""
    records, keeps = _pair_reports(asked)
    counts, of_pair = records.counts(tuple(keeps)), _both(keeps)
    if asked.parameters.mode == "exact":
        reported = Reported.exact(counts / len(records), of_pair)
    else:
        reported = Reported.sampled(counts, of_pair, asked.generator(), runs=asked.runs)
    return [_table_sample(asked, reported, len(records))]


def _table_live(asked: Asked[TableParameters], context: Context) -> tuple[Outcome, list[Sample]]:
    records, keeps = _pair_reports(asked)
    outcome = run_live(context, records, keeps, asked.parameters.parties)
    counts, reports = records.counts(tuple(keeps)), live_pair(outcome, tuple(keeps))
    reported = Reported.counted(counts, _both(keeps), reports)
    return outcome, [_table_sample(asked, reported, len(records))]


def _table_sample(asked: Asked[TableParameters], reported: Reported, n: int) -> Sample:
    expected = product_mean_squared_error(reported.truth, reported.keeps, n)
    if reported.random:
        remark = (
            "The printed figure of RR-Ind-Joint is the round-off of inverting an exact lambda: a "
            "run has sampling error; the printed one of RR-Ind is its squared bias "
            f"({expected.squared_bias:.4g}), to which a run adds a variance of "
            f"{expected.variance:.2g}."
        )
    else:
        remark = (
            "Both figures of RR-Ind-Joint are the round-off of inverting an exact lambda, so only "
            "their order of magnitude means anything; the printed figure of RR-Ind is its bias, "
            "cut to three digits."
        )
    p, mode = asked.parameters.p, "sampled" if reported.random else "exact"
    return msgspec.structs.replace(
        reported.sample(
            reported.errors(),
            cramers_v=cramers_v(reported.truth),
            break_even_n=break_even_n(reported.truth, reported.keeps),
        ),
        settings={"d": list(reported.truth.shape), "n": n, "p": p, "mode": mode},
        remark=remark if p == TableParameters().p else "The paper has p = 0.5.",
    )


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


class FigureParameters(msgspec.Struct, frozen=True, kw_only=True):
    """What can be set for the figures."""

    mode: Sampled = "sampled"
    parties: Parties = PARTIES


CURVES: Mapping[int, tuple[str, Sequence[float]]] = {
    5: ("v", tuple(step / 10 for step in range(11))),
    6: ("epsilon", tuple(step / 10 for step in range(1, 21))),
    7: ("n", (10, 100, 1000, 10_000)),
    8: ("d", tuple(range(2, 21))),
}
"""By figure: what its axis is, and its points."""

SHOWN = {
    **dict(zip((1, 2, 3, 4), ("data", "reports", "RR-Ind", "RR-Ind-Joint"), strict=True)),
    **dict(zip((9, 10, 11, 12), ("data", "reports", "RR-Ind", "RR-Ind-Joint"), strict=True)),
}
"""What the figures of a table show."""

PAIR = ("sex", "age")
ADULT_KEEP = 0.5
NOTICEABLE = 0.01
"""By how much Cramer's V of rounded data may be off without a remark."""


class Data(NamedTuple):
    """What a figure is of."""

    records: Records
    counts: Any
    truth: Floats
    keeps: Keeps
    settings: dict[str, Any]


@functools.lru_cache(maxsize=4)
def _of_adult(data: Path | str | None) -> Data:
    found = adult_with_age(data)
    survey = found.survey.project(PAIR)
    records = Records(survey, found.codes[:, list(found.survey.axes(PAIR))])
    first, second = (KeepUniform.with_keep(size, p=ADULT_KEEP) for size in survey.sizes)
    counts, n = records.counts(PAIR), len(records)
    settings = {"attributes": list(PAIR), "n": n, "p": ADULT_KEEP}
    return Data(records, counts, counts / n, (first, second), settings)


def _data(asked: Asked[FigureParameters]) -> Data:
    if asked.cell["figure"] >= 9:
        return _of_adult(asked.data)
    given = {name: value for name, value in asked.cell.items() if name != "figure"}
    design = Design(**given)
    counts = correlated_counts(design.n, d=design.d, v=design.v)
    records = correlated(design.n, d=design.d, v=design.v)
    return Data(records, counts, design.truth, design.keeps, msgspec.structs.asdict(design))


def _figure(asked: Asked[FigureParameters]) -> list[Sample]:
    """A point of a curve, or a view of a table."""
    of, figure = _data(asked), asked.cell["figure"]
    if asked.reading == "printed":
        # What is expected of the reports, in whole respondents.
        n = of.settings["n"]
        expected = Reported.exact(of.truth, of.keeps).shares
        reported = Reported(of.truth, of.keeps, np.rint(n * expected) / n, random=False)
    elif asked.parameters.mode == "exact":
        reported = Reported.exact(of.truth, of.keeps)
    else:
        # Figures of one table are of the same reports.
        seeds = asked.seeds if figure in CURVES else (asked.seed, int(figure >= 9), asked.seeds[-1])
        generator = np.random.default_rng(seeds)
        reported = Reported.sampled(of.counts, of.keeps, generator, runs=asked.runs)
    return _shown(asked, of, reported)


def _figure_live(asked: Asked[FigureParameters], context: Context) -> tuple[Outcome, list[Sample]]:
    of = _data(asked)
    names = of.records.survey.names
    keeps = dict(zip(names, of.keeps, strict=True))
    outcome = run_live(context, of.records, keeps, asked.parameters.parties)
    reported = Reported.counted(of.counts, of.keeps, live_pair(outcome, names))
    return outcome, _shown(asked, of, reported)


def _shown(asked: Asked[FigureParameters], of: Data, reported: Reported) -> list[Sample]:
    figure, mode = asked.cell["figure"], "sampled" if reported.random else "exact"
    settings = {**of.settings, "mode": mode}
    if figure in CURVES:
        v = cramers_v(reported.truth)
        found = reported.sample(
            reported.errors(), cramers_v=v, break_even_n=break_even_n(of.truth, of.keeps)
        )
        remark = (
            f"{of.settings['n']:,} whole respondents in {of.counts.size} cells cannot have V = "
            f"{of.settings['v']:g}: rounding makes it {v:.3g}."
        )
        off = abs(v - of.settings["v"]) > NOTICEABLE
        return [msgspec.structs.replace(found, settings=settings, remark=remark if off else "")]
    views = {
        "data": reported.truth[np.newaxis],
        "reports": reported.shares,
        "RR-Ind": reported.product(),
        "RR-Ind-Joint": reported.joint(),
    }
    shows = SHOWN[figure]
    whole = reported.sample(reported.of_tables(views[shows]))
    first = {"shows": shows, **settings}
    return [
        msgspec.structs.replace(whole, settings=first),
        *_cells(of, shows, reported, views[shows][0]),
    ]


def _cells(of: Data, shows: str, reported: Reported, table: Floats) -> list[Sample]:
    """The first run's table, a row per category of the first attribute."""
    survey = of.records.survey
    first, second = survey.attributes
    errors = np.full(table.shape, np.nan) if reported.random and shows == "reports" else None
    if reported.random and shows in ("RR-Ind", "RR-Ind-Joint"):
        joint = _estimate(survey, reported, of.settings["n"])
        estimate = joint if shows == "RR-Ind-Joint" else ProductEstimate(joint)
        errors = estimate.table(*survey.names).standard_errors
    keys = [f"{second.name} {category}" for category in second.categories]
    samples = []
    for code, category in enumerate(first.categories):
        values = dict(zip(keys, table[code].tolist(), strict=True))
        settings = {"shows": shows, first.name: category}
        if errors is None:
            samples.append(Sample(exact=values, settings=settings))
            continue
        pairs = zip(table[code].tolist(), errors[code].tolist(), strict=True)
        known = dict(zip(keys, pairs, strict=True))
        samples.append(Sample(known=known, settings=settings))
    return samples


def _estimate(survey: Survey, reported: Reported, n: int) -> JointEstimate:
    """The first run's reports as the aggregator has them."""
    counts = np.rint(reported.shares[0] * n).astype(np.int64).reshape(-1)
    present = np.flatnonzero(counts)
    codes = split_codes(present.astype(np.uint64), survey.sizes, survey.dtype)
    blocks = tuple(
        Block((name,), keep) for name, keep in zip(survey.names, reported.keeps, strict=True)
    )
    return JointEstimate(survey, blocks, Counts(survey.sizes, codes, counts[present], n))


def _break_even(found: Found[FigureParameters]) -> list[str]:
    """Where the estimators are equally good along the axes of Figures 5 to 8, and on Adult."""
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


EXPERIMENTS: tuple[Experiment[Any], ...] = (
    Experiment(
        paper="RRIJ",
        item="section 3.3",
        name="ind-joint-example",
        summary="RR-Ind-Joint, section 3.3: ten parties with two attributes, step by step.",
        cells=grid(
            of=("data and stated reports", STATED, MARGINS, TENTHS, HUNDREDTHS, *REPEATED),
        ),
        law=_example,
        live=_example_live,
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
        paper="RRIJ",
        item="Table 1",
        name="ind-joint-table-1",
        summary="RR-Ind-Joint, Table 1: its error and RR-Ind's on three pairs of Adult.",
        cells=grid(pair=("sex, income", "sex, race", "education, occupation")),
        law=_table,
        live=_table_live,
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
        paper="RRIJ",
        item="Figures 1 to 12",
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
        law=_figure,
        live=_figure_live,
        live_cell={"figure": 4},
        runs=100,
        parameters=FigureParameters,
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
        observed=_break_even,
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
)
SCENARIOS = scenarios_of(*EXPERIMENTS)
