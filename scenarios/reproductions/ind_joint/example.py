"""The worked example and Table 1 of RR-Ind-Joint, run again beside what the paper prints.

Kikuchi and Domingo-Ferrer, Estimating Joint Probability of Independently Randomized
Multi-dimensional Data, sections 3.3 and 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np
from msgspec import Meta

from protocol.estimators.dependence.dependence import cramers_v
from protocol.estimators.independent import product_mean_squared_error
from protocol.randomizers import KeepUniform
from protocol.randomizers.exact import Floats
from protocol.surveys.records import Records
from protocol.surveys.survey import Attribute, Survey
from scenarios.datasets.adult import adult
from scenarios.report.plots import WHISKERS
from scenarios.reproductions.ind_joint.accuracy import (
    Keeps,
    Mode,
    Parties,
    Reported,
    break_even_n,
    live_pair,
    readable,
    run_live,
)
from scenarios.running.outcomes import Outcome
from scenarios.running.parameters import parameters_checked
from scenarios.running.reproduction import Reproduced, Row, Runs, Values
from scenarios.running.scenario import Context, Scenario

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
DIAGONAL = 0.75
"""p_A = p_B, the probability of reporting the truth."""
CELLS = ("a1b1", "a1b2", "a2b1", "a2b2")

PRINTED_RR_IND = (0.24, 0.16, 0.36, 0.24)
PRINTED_RR_IND_JOINT = (0.375, 0.075, 0.275, 0.375)


class ExampleParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set."""

    runs: Runs = 1000


def _described(table: Floats) -> dict[str, float]:
    """A table's cells, its distance from the data and its Cramer's V."""
    truth = DATA / DATA.sum()
    cells = {name: float(cell) for name, cell in zip(CELLS, table.ravel(), strict=True)}
    mae = float(np.mean(np.abs(table - truth)))
    return {**cells, "mae": mae, "cramers_v": cramers_v(np.maximum(table, 0.0))}


def _printed(cells: tuple[float, ...], *, mae: float, v: float) -> dict[str, float]:
    return {**dict(zip(CELLS, cells, strict=True)), "mae": mae, "cramers_v": v}


def run_example(parameters: ExampleParameters, context: Context) -> Reproduced:
    """The estimates of section 3.3 from the reports stated there, and from repeats of their own."""
    keeps = _example_keeps()
    truth = DATA / DATA.sum()
    stated = Reported.counted(DATA, keeps, REPORTS[np.newaxis])
    expected = Reported.exact(truth, keeps)
    tenths = Reported(truth, keeps, np.round(expected.shares, 1))
    hundredths = Reported(truth, keeps, np.round(expected.shares, 2))
    rows = [
        Row(
            settings={"shows": "Cramer's V", "of": "data and stated reports"},
            measured={"data": cramers_v(DATA), "reports": cramers_v(REPORTS)},
            printed={"data": 0.67, "reports": 0.2},
        ),
        Row(
            settings={"shows": "RR-Ind", "of": "stated reports"},
            measured=_described(stated.product()[0]),
            printed=_printed(PRINTED_RR_IND, mae=0.16, v=0.0),
            remark="Both margins of the stated reports are (.5, .5), so RR-Ind is .25 everywhere; "
            "the printed table is the product of the data's true margins.",
        ),
        Row(
            settings={"shows": "RR-Ind", "of": "true margins"},
            measured=_described(expected.product()[0]),
            printed=_printed(PRINTED_RR_IND, mae=0.16, v=0.0),
        ),
        Row(
            settings={"shows": "RR-Ind-Joint", "of": "stated reports"},
            measured=_described(stated.joint()[0]),
            printed=_printed(PRINTED_RR_IND_JOINT, mae=0.05, v=0.8),
            remark="The printed cells do not follow from the stated reports: a rounded lambda was "
            "inverted (next row); the printed V of .8 is that of this row all the same.",
        ),
        Row(
            settings={"shows": "RR-Ind-Joint", "of": "expected reports rounded to 1/10"},
            measured=_described(tenths.joint()[0]),
            printed=_printed(PRINTED_RR_IND_JOINT, mae=0.05, v=0.8),
            remark="This gives the printed cells: lambda = (.2875, .1625, .2625, .2875) rounded to "
            "(.3, .2, .3, .3), so they sum to 1.1, and their V is not .8.",
        ),
        Row(
            settings={"shows": "RR-Ind-Joint", "of": "expected reports rounded to 1/100"},
            measured=_described(hundredths.joint()[0]),
            printed={"mae": 0.01},
        ),
    ]
    runs, outcome = parameters.runs, None
    if context.by_messages:
        runs = 1
        codes = np.repeat(np.array([(0, 0), (1, 0), (1, 1)], np.uint8), [4, 2, 4], axis=0)
        records = Records(EXAMPLE, codes)
        outcome = run_live(context, records, dict(zip(EXAMPLE.names, keeps, strict=True)))
        rows += _repeat_rows(Reported.counted(DATA, keeps, live_pair(outcome, EXAMPLE.names)), n=10)
    else:
        generator = np.random.default_rng(context.seed)
        for times in (1, 10):
            repeats = Reported.sampled(times * DATA, keeps, generator, runs=runs)
            rows += _repeat_rows(repeats, n=10 * times)
    return Reproduced(
        reproduction="ind-joint-example",
        runs=runs,
        rows=tuple(rows),
        notes=(
            "Cells are named by both answers; the paper's matrix of RR-Ind has b in its rows.",
            "The first six rows need no randomness. Those of repeats randomize the data anew: 10 "
            "parties as stated; n = 100 is in the same proportions.",
            "The paper puts the error of .05 at n = 10 down to rounding; rounding does not enter a "
            "run. Its error is that of sampling the reports, and falls like n to the -1/2.",
            "RR-Ind-Joint has the smaller expected squared error from n = "
            f"{readable(break_even_n(truth, keeps))} on.",
        ),
        plot=_plot_example(rows),
        outcome=outcome,
    )


def _example_keeps() -> Keeps:
    keep = KeepUniform.with_diagonal(2, diagonal=DIAGONAL)
    return keep, keep


def _repeat_rows(repeats: Reported, *, n: int) -> list[Row]:
    found = []
    printed = {10: 0.05, 100: 0.01}[n]
    for shows, tables in (("RR-Ind", repeats.product()), ("RR-Ind-Joint", repeats.joint())):
        measured, errors = repeats.of_tables(tables)
        joint = shows == "RR-Ind-Joint"
        found.append(
            Row(
                settings={"shows": shows, "of": "repeats", "n": n},
                measured=measured,
                standard_error=errors or None,
                printed={"mae": printed} if joint else None,
                remark=f"The printed {printed} is the effect of rounding lambda to 1/{n}, without "
                "the sampling error of a run."
                if joint
                else "",
            )
        )
    return found


def _plot_example(rows: list[Row]) -> Callable[[Figure], None]:
    """The cells of the estimates beside the printed ones, a panel each."""
    shown = [row for row in rows if isinstance(row.measured, dict) and "a1b1" in row.measured]

    def plot(figure: Figure) -> None:
        figure.set_size_inches(9, 6)
        panels = figure.subplots(2, 3, sharey=True).ravel()
        places = np.arange(len(CELLS))
        for axes, row in zip(panels, shown, strict=False):
            for offset, label, color, values in (
                (-0.2, "measured", "#0072B2", row.measured),
                (0.2, "printed", "#E69F00", row.printed),
            ):
                if isinstance(values, dict) and "a1b1" in values:
                    heights = [values[cell] for cell in CELLS]
                    axes.bar(places + offset, heights, 0.4, label=label, color=color)
            axes.plot(places, DATA.ravel() / DATA.sum(), "k_", markersize=20, label="data")
            axes.set_title(f"{row.settings['shows']}\n{row.settings['of']}", fontsize=9)
            axes.set_xticks(places, CELLS)
            axes.set_xlabel("answers")
        for axes in panels[len(shown) :]:
            axes.set_visible(False)
        for axes in (panels[0], panels[3]):
            axes.set_ylabel("share of parties")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower right", bbox_to_anchor=(0.95, 0.15))
        figure.tight_layout()

    return plot


# Table 1

PAIRS = (("sex", "income"), ("sex", "race"), ("education", "occupation"))
PRINTED = (
    {"cramers_v": 0.2159802, "rr_ind_mse": 0.00188, "rr_ind_joint_mse": 2.93e-33},
    {"cramers_v": 0.1181155, "rr_ind_mse": 0.00011, "rr_ind_joint_mse": 3.61e-33},
    {"cramers_v": 0.1873341, "rr_ind_mse": 2.14e-5, "rr_ind_joint_mse": 5.48e-33},
)


class TableParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set."""

    runs: Runs = 1000
    mode: Annotated[
        Mode, Meta(description="sampled (real runs) or exact (expected reports, no sampling)")
    ] = "sampled"
    p: Annotated[float, Meta(gt=0, lt=1, description="probability of keeping an answer")] = 0.5
    parties: Annotated[
        Parties, Meta(description="with --by-messages: over how many the records are spread")
    ] = None


def run_table(parameters: TableParameters, context: Context) -> Reproduced:
    """Three pairs of Adult's attributes, each randomized by itself."""
    records = adult(context.data)
    names = tuple(name for name in records.survey.names if any(name in pair for pair in PAIRS))
    with parameters_checked():
        keeps = {
            name: KeepUniform.with_keep(records.survey.attribute(name).size, p=parameters.p)
            for name in names
        }
    outcome: Outcome | None = None
    mode = parameters.mode
    if context.by_messages:
        mode = "sampled"
        outcome = run_live(context, records, keeps, parameters.parties)
    generator = np.random.default_rng(context.seed)
    rows = []
    for pair, printed in zip(PAIRS, PRINTED, strict=True):
        counts = records.counts(pair)
        of_pair = keeps[pair[0]], keeps[pair[1]]
        if outcome is not None:
            reported = Reported.counted(counts, of_pair, live_pair(outcome, pair))
        elif mode == "exact":
            reported = Reported.exact(counts / len(records), of_pair)
        else:
            reported = Reported.sampled(counts, of_pair, generator, runs=parameters.runs)
        rows.append(_table_row(pair, reported, printed, mode, len(records), parameters.p))
    return Reproduced(
        reproduction="ind-joint-table-1",
        runs=parameters.runs if mode == "sampled" and outcome is None else 1,
        rows=tuple(rows),
        notes=_table_notes(mode),
        plot=_plot_table(rows),
        outcome=outcome,
    )


def _table_row(
    pair: tuple[str, str],
    reported: Reported,
    printed: dict[str, float],
    mode: Mode,
    n: int,
    p: float,
) -> Row:
    measured, errors = reported.errors()
    expected = product_mean_squared_error(reported.truth, reported.keeps, n)
    if mode == "exact":
        remark = (
            "Both figures of RR-Ind-Joint are the round-off of inverting an exact lambda, so only "
            "their order of magnitude means anything; the printed figure of RR-Ind is its bias, "
            "cut to three digits."
        )
    else:
        remark = (
            f"The printed {printed['rr_ind_joint_mse']:.3g} is the round-off of inverting an exact "
            "lambda: a run has sampling error; the printed figure of RR-Ind is its squared bias "
            f"({expected.squared_bias:.4g}), to which a run adds a variance of "
            f"{expected.variance:.2g}."
        )
    return Row(
        settings={"attributes": list(pair), "d": list(reported.truth.shape), "n": n, "p": p}
        | {"mode": mode},
        measured={
            "cramers_v": cramers_v(reported.truth),
            **measured,
            "break_even_n": break_even_n(reported.truth, reported.keeps),
        },
        standard_error=errors or None,
        printed=printed,
        remark=remark if p == TableParameters().p else "The paper has p = 0.5.",
    )


def _table_notes(mode: Mode) -> tuple[str, ...]:
    shown = {
        "sampled": "Shown: sampled. The reports are drawn; the records are the same in every run.",
        "exact": "Shown: exact. Nothing is drawn: the estimators are given the expected reports.",
    }
    return (
        shown[mode],
        "p is the keep probability (else a uniform draw over all values): as a diagonal entry, .5 "
        "would make the matrix of an attribute with two values singular.",
        "break_even_n is the number of reports from which on RR-Ind-Joint has the smaller expected "
        "squared error, in closed form: below it, its variance exceeds the bias of RR-Ind.",
    )


def _plot_table(rows: list[Row]) -> Callable[[Figure], None]:
    """The two estimators' errors for every pair, measured beside printed."""

    def column(values: Iterable[Values | None], key: str) -> list[float]:
        return [v.get(key, 0.0) if isinstance(v, Mapping) else 0.0 for v in values]

    def plot(figure: Figure) -> None:
        figure.set_size_inches(9, 5)
        axes = figure.subplots()
        places = np.arange(len(rows))
        bars = (
            ("rr_ind_mse", "RR-Ind", "#0072B2"),
            ("rr_ind_joint_mse", "RR-Ind-Joint", "#D55E00"),
        )
        for number, (key, label, color) in enumerate(bars):
            measured = column((row.measured for row in rows), key)
            errors = column((row.standard_error for row in rows), key)
            printed = column((row.printed for row in rows), key)
            left = places + 0.4 * number - 0.3
            axes.bar(left, measured, 0.2, yerr=errors, label=f"{label}, measured", color=color)
            axes.bar(
                left + 0.2,
                printed,
                0.2,
                label=f"{label}, printed",
                color=color,
                alpha=0.4,
                hatch="//",
            )
        axes.set_yscale("log")
        axes.set_xticks(places, [" and ".join(row.settings["attributes"]) for row in rows])
        axes.set_xlabel("attributes of Adult")
        axes.set_ylabel("mean squared error per cell")
        axes.set_title(f"Table 1, {rows[0].settings['mode']}")
        axes.legend(
            loc="upper left",
            bbox_to_anchor=(1, 1),
            fontsize=8,
            title=WHISKERS,
            title_fontsize=8,
        )
        figure.tight_layout()

    return plot


SCENARIOS = (
    Scenario(
        name="ind-joint-example",
        summary="RR-Ind-Joint, section 3.3: ten parties with two attributes, step by step.",
        parameters=ExampleParameters,
        run=run_example,
    ),
    Scenario(
        name="ind-joint-table-1",
        summary="RR-Ind-Joint, Table 1: its error and RR-Ind's on three pairs of Adult.",
        parameters=TableParameters,
        run=run_table,
    ),
)
