"""Reproductions of RRBA's tables and figures: what they report, and the closed forms in them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from protocol.randomizers import KeepUniform
from protocol.randomizers.table import KeepElseTable
from scenarios.errors import UsageError
from scenarios.report.pictures.drawing import rendered
from scenarios.report.pictures.results import plot_of
from scenarios.reproductions.rrba import accuracy as rrba_errors
from scenarios.reproductions.rrba import convergence as rrba_convergence
from scenarios.reproductions.rrba import honest as rrba_honest
from scenarios.reproductions.rrba import independence as rrba_independence
from scenarios.reproductions.rrba import shared as rrba_setting
from scenarios.reproductions.rrba.printed import TABLE_5, TABLE_6
from scenarios.reproductions.rrba.shared import Cell, nearest_cell, network
from scenarios.running.scenario import Context
from tests.scenarios.reproduced import measured, reproduce
from tests.statistical import ALPHA, WRONG, mean_p_value

BIF = """network unknown {{ }}
variable A {{ type discrete [ 3 ] {{ rare, common, other }}; }}
variable T {{ type discrete [ 2 ] {{ yes, no }}; }}
variable PRESS {{ type discrete [ 3 ] {{ low, normal, high }}; }}
variable VENTALV {{ type discrete [ 2 ] {{ low, high }}; }}
probability ( A ) {{ table {rare}, 0.5, {other}; }}
probability ( T | A ) {{ (rare) 0.7, 0.3; (common) 0.4, 0.6; (other) 0.2, 0.8; }}
probability ( PRESS ) {{ table 0.05, 0.85, 0.1; }}
probability ( VENTALV | PRESS ) {{ (low) 0.9, 0.1; (normal) 0.1, 0.9; (high) 0.5, 0.5; }}
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Small networks in the place of the public ones, so that no test needs these."""
    for name, rare in (("survey", "0.03"), ("alarm", "0.1"), ("child", "0.2")):
        other = f"{0.5 - float(rare):.2f}"
        (tmp_path / f"{name}.bif").write_text(BIF.format(rare=rare, other=other))
    return tmp_path


# Figure 4


def test_figure_4_has_the_epsilons_of_the_randomizers() -> None:
    done = reproduce("rrba-figure-4", Context(), least=0.02)
    for row in done.rows:
        p, found = row.settings["p"], measured(row)
        assert found["claimed"] == pytest.approx(math.log(1 / (1 - p)))
        for size in (4, 16):
            epsilon = KeepUniform.with_keep(size, p=p).epsilon
            assert found[f"uniform, {size} cells"] == pytest.approx(epsilon)
        skewed = KeepElseTable.with_table(p=p, table=[0.02, 0.38, 0.6], mix=0.0)
        assert found["least cell 0.02"] == pytest.approx(skewed.epsilon)
        assert min(found.values()) == found["claimed"]
    with pytest.raises(UsageError, match="nothing is sent"):
        reproduce("rrba-figure-4", Context(by_messages=True))


# Figures 5 and 6

CELL = Cell("A", 0, np.array([0.3, 0.45, 0.25]), "A = first")


def test_a_rule_has_settled_after_the_last_block_that_breaks_it() -> None:
    held = np.array([[0, 1, 0, 1], [1, 1, 1, 0], [1, 1, 1, 1], [1, 1, 0, 1]], bool)
    # Step s is between blocks s + 1 and s + 2, of five.
    assert rrba_convergence.settled_after(held).tolist() == [3, 2, 6, 4]
    assert rrba_convergence.lasting(held).tolist() == [1, 1, 0, 1]


def test_the_share_of_steps_within_the_rule_is_the_normal_law_s() -> None:
    raw, means = rrba_convergence.histories(CELL, 0.5, 0.1, (250,), 100, np.random.default_rng(1))
    assert raw.shape == means.shape == (rrba_convergence.BLOCKS, 1, 100)
    assert means[-1] == pytest.approx(raw.mean(axis=0))
    width = 2 * 1.96 * math.sqrt(0.3 * 0.7 / 250)
    share = (np.abs(np.diff(raw, axis=0)) < width).mean()
    assert share == pytest.approx(rrba_convergence.within(CELL, 0.5, 0.1, width, 250), abs=0.012)
    assert abs(share - rrba_convergence.within(CELL, 0.5 / WRONG, 0.1, width, 250)) > 0.03


def test_the_pooled_interval_is_as_narrow_after_so_many_reports() -> None:
    n = rrba_convergence.pooled_tuples(CELL, 0.5, 0.1, 0.04)
    reported = 0.5 * 0.3 + 0.5 * (0.9 * 0.3 + 0.1 / 3)
    error = math.sqrt(reported * (1 - reported) / n) / 0.5
    assert 2 * 1.96 * error == pytest.approx(0.04)


def test_figures_5_and_6_have_every_setting(data: Path) -> None:
    told: list[tuple[int, int]] = []
    context = Context(data=data, progress=lambda done, total: told.append((done, total)))
    five = reproduce("rrba-figure-5", context, runs=3, network="survey")
    assert told == [(place, 8) for place in range(9)]
    assert [(row.settings["listed"], row.settings["block"]) for row in five.rows] == [
        (listed, size)
        for listed in rrba_convergence.PROBABILITIES
        for size in rrba_convergence.SIZES
    ]
    assert {row.settings["network"] for row in five.rows} == {"survey"}
    assert five.rows[0].settings["cell"] == "A = rare"
    again = reproduce("rrba-figure-5", Context(data=data), runs=3, network="survey")
    assert again.rows == five.rows
    other = reproduce("rrba-figure-5", Context(data=data, seed=2), runs=3, network="survey")
    assert other.rows != five.rows
    six = reproduce("rrba-figure-6", Context(data=data), runs=2)
    assert len(six.rows) == 6 * 4 * 4
    assert list(dict.fromkeys(row.settings["p"] for row in six.rows)) == list(
        rrba_convergence.FIGURE_6_P
    )
    # Blocks of randomized answers hardly ever meet the rule if few answers are kept.
    low, high = measured(six.rows[3]), measured(six.rows[-1])
    assert low["within"] < 0.1 < 0.5 < high["within"]
    assert low["tuples"] > 40_000
    assert low["tuples, running mean"] < low["tuples"]


def test_a_survey_by_messages_stops_by_the_printed_rule(data: Path) -> None:
    for name in ("rrba-figure-5", "rrba-figure-6"):
        done = reproduce(name, Context(data=data, by_messages=True))
        assert done.outcome is not None
        assert done.outcome.variant.name == "rrba"
        (row,) = done.rows
        first = measured(row)["first"]
        assert first % rrba_convergence.SIZES[0] == 0
        assert 36 <= first < 3600
        assert done.outcome.counted == first


# Table 4


def test_the_printed_shares_of_table_4_give_the_printed_accuracies() -> None:
    for shares in rrba_independence.PRINTED.values():
        for power, accepted, accuracy in shares:
            assert (power + accepted) / 2 == pytest.approx(accuracy)


@pytest.mark.parametrize("ways", [2, 3, 4])
def test_the_tables_of_the_alternative_have_their_v(ways: int) -> None:
    law = rrba_independence.law_of(ways, 0.3)
    pair = law.sum(axis=tuple(range(2, ways)))
    margins = np.multiply.outer(pair.sum(axis=1), pair.sum(axis=0))
    assert pair.sum(axis=1) == pytest.approx([0.6, 0.4])
    assert math.sqrt(((pair - margins) ** 2 / margins).sum()) == pytest.approx(0.3)


def test_table_4_tells_good_tests_from_bad_ones() -> None:
    done = reproduce("rrba-table-4", Context(), runs=150, draws=99)
    rows = {(row.settings["ways"], row.settings["method"]): row for row in done.rows}
    assert len(rows) == 3 * len(rrba_independence.METHODS)
    accepts = {key: measured(row)["accepts a right H0"] for key, row in rows.items()}
    finds = {key: measured(row)["rejects a wrong H0"] for key, row in rows.items()}
    for ways in (2, 3, 4):
        for method in ("MCIndep", "RRBA", "RRBA, noise-aware", "RRBA at the true epsilon"):
            assert accepts[ways, method] > 0.88
        for method in ("Laplace", "MCIndep", "RRBA", "RRBA, noise-aware"):
            assert finds[ways, method] > 0.95
        # At an epsilon of 0.25 no report says enough.
        assert finds[ways, "RRBA at the true epsilon"] < 0.2
        epsilon = measured(rows[ways, "RRBA"])["epsilon"]
        assert epsilon == pytest.approx(math.log1p(2**ways / 0.1))
    assert accepts[4, "RRBA, naive"] < 0.3
    assert accepts[4, "Laplace, paper's scale"] < 0.3
    assert rows[3, "MCIndep"].printed == {
        "rejects a wrong H0": 0.94,
        "accepts a right H0": 0.93,
        "accuracy": 0.935,
        "epsilon": 0.25,
    }
    assert rows[3, "RRBA, naive"].printed is None


def test_table_4_by_messages_tests_the_reports_of_live_parties() -> None:
    done = reproduce("rrba-table-4", Context(by_messages=True), n=1000, block=100, v=0.6)
    assert done.outcome is not None
    assert done.outcome.counted == 1000
    (row,) = done.rows
    assert measured(row)["p-value"] < 1e-6
    assert measured(row)["epsilon"] == pytest.approx(math.log1p(40))


# Tables 5 and 6, Figure 7


def test_the_transcribed_errors_are_whole() -> None:
    for table, l2, js in ((TABLE_5, 1622.258, 0.365), (TABLE_6, 1845.26, 0.5622)):
        for printed, total in ((table.l2, l2), (table.js, js)):
            assert set(printed) == {
                (method, name) for method in ("RRBA", "Laplace") for name in ("survey", "alarm")
            }
            assert {len(figures) for figures in printed.values()} == {3}
            legible = [figure for figures in printed.values() for figure in figures if figure]
            assert sum(legible) == pytest.approx(total)
            assert len(legible) == (8 if table is TABLE_5 else 12)


@pytest.mark.parametrize("method", rrba_errors.METHODS)
def test_the_expected_squared_distance_is_exact(method: rrba_errors.Method, data: Path) -> None:
    """For uniform fakes, and for noise."""
    records = rrba_setting.sample(network("survey", data), 500, 1)
    parameters = rrba_errors.Parameters(runs=20_000, block=250, mix=1.0)
    errors = rrba_errors.distances(
        method, records, ("A", "T"), TABLE_5, parameters, np.random.default_rng(1)
    )
    assert mean_p_value(errors.raw**2, errors.expected) > ALPHA
    assert mean_p_value(errors.raw**2, errors.expected * WRONG) < ALPHA
    assert errors.projected.mean() < errors.raw.mean()
    assert np.all((errors.js >= 0) & (errors.js <= math.sqrt(math.log(2))))


def test_a_report_s_covariance_has_the_trace_that_is_summed() -> None:
    counts, keep = np.array([5, 0, 11, 4]), 0.3
    fakes = np.array([0.1, 0.2, 0.3, 0.4])
    matrix = KeepElseTable.with_table(p=keep, table=fakes, mix=0.0).matrix()
    trace = float((counts[:, np.newaxis] * matrix * (1 - matrix)).sum())
    distance = rrba_setting.expected_squared_distance(counts, fakes, keep)
    assert distance == pytest.approx(trace / keep**2)


@pytest.mark.parametrize("name", ["rrba-table-5", "rrba-table-6", "rrba-figure-7"])
def test_tables_of_errors_have_every_row(name: str, data: Path) -> None:
    done = reproduce(name, Context(data=data), runs=4, n=600, tables=2)
    keys = [(r.settings["network"], r.settings["ways"], r.settings["method"]) for r in done.rows]
    assert keys == [
        (network, ways, method)
        for network in ("survey", "alarm")
        for ways in (2, 3, 4)
        for method in rrba_errors.METHODS
    ]
    again = reproduce(name, Context(data=data), runs=4, n=600, tables=2)
    assert again.rows == done.rows
    if name != "rrba-figure-7":
        printed = {"rrba-table-5": TABLE_5, "rrba-table-6": TABLE_6}[name]
        first, second = done.rows[0], done.rows[1]
        assert first.printed == {
            "l2, projected": printed.l2["RRBA", "survey"][0],
            "Jensen-Shannon": printed.js["RRBA", "survey"][0],
            "epsilon": printed.epsilon,
        }
        assert second.printed is not None
        assert second.printed["l2, raw"] == printed.l2["Laplace", "survey"][0]
        assert measured(second)["epsilon"] == pytest.approx(printed.epsilon)
        assert measured(first)["epsilon"] > printed.epsilon
        assert all(row.remark for row in done.rows)
        illegible = [row for row in done.rows if "not legible in our copy" in row.remark]
        assert len(illegible) == (6 if name == "rrba-table-5" else 0)


def test_errors_by_messages_are_those_of_live_parties(data: Path) -> None:
    context = Context(data=data, by_messages=True)
    done = reproduce("rrba-table-6", context, n=800, block=100)
    assert done.outcome is not None
    assert done.outcome.counted == 800
    figures = measured(done.rows[0])
    assert 0 < figures["l2, raw"] < 3 * figures["root of expected squared l2"]
    assert reproduce("rrba-figure-7", context, n=800, block=100).rows == done.rows


# At equal true epsilon


def test_the_uniform_table_and_one_group_win_at_equal_epsilon(data: Path) -> None:
    told: list[tuple[int, int]] = []
    context = Context(data=data, progress=lambda done, total: told.append((done, total)))
    done = reproduce("rrba-honest", context, runs=60, n=2000)
    assert told == [(place, 40) for place in range(41)]
    of_tables: dict[tuple[Any, Any], dict[float, float]] = {}
    of_groups: dict[tuple[Any, Any], dict[str, float]] = {}
    for row in done.rows:
        setting, error = row.settings, measured(row)["squared error"]
        if setting["at equal"] == "epsilon" and "mix" in setting:
            key = (setting["table"], setting["epsilon"])
            of_tables.setdefault(key, {})[setting["mix"]] = error
        elif setting["at equal"] == "epsilon":
            key = (setting["network"], setting["epsilon"])
            of_groups.setdefault(key, {})[setting["answers"]] = error
        else:
            assert measured(row)["uniform at this epsilon"] < 1.2 * error
    assert len(of_tables) == 8
    for errors in of_tables.values():
        assert set(errors) == set(rrba_honest.MIXES)
        assert min(errors, key=lambda mix: errors[mix]) == 1.0
    assert len(of_groups) == 15
    for (_, epsilon), errors_of in of_groups.items():
        if epsilon <= 2:
            assert errors_of["one"] < errors_of["view"]


def test_one_group_by_messages(data: Path) -> None:
    done = reproduce("rrba-honest", Context(data=data, by_messages=True), n=600, block=100)
    assert done.outcome is not None
    assert done.outcome.counted == 600
    figures = measured(done.rows[0])
    assert 0.2 < figures["squared error"] / figures["in closed form"] < 3


# What they share


def test_the_nearest_value_of_a_network(data: Path) -> None:
    cell = nearest_cell(network("survey", data), 0.04)
    assert cell.words == "A = rare"
    assert cell.probability == pytest.approx(0.03)


def test_all_of_them_draw_themselves(data: Path) -> None:
    pytest.importorskip("matplotlib")
    for name, given in (
        ("rrba-figure-4", {}),
        ("rrba-figure-5", {"runs": 2, "network": "survey"}),
        ("rrba-table-4", {"runs": 5, "draws": 20}),
        ("rrba-figure-7", {"runs": 3, "n": 400, "tables": 1}),
        ("rrba-honest", {"runs": 2, "n": 400}),
    ):
        done = reproduce(name, Context(data=data), **given)
        assert rendered(plot_of(name, done), ".svg").startswith(b"<?xml")
