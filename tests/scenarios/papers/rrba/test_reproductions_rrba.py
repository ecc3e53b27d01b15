"""Reproductions of RRBA's tables and figures: what they report, and the closed forms in them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from protocol import KeepElseTable, KeepUniform
from protocol.errors import UsageError
from scenarios import Context
from scenarios.papers.experiment import Asked
from scenarios.papers.printed import printed
from scenarios.papers.rrba import accuracy as rrba_errors
from scenarios.papers.rrba import honest as rrba_honest
from scenarios.papers.rrba import independence as rrba_independence
from scenarios.papers.rrba import shared as rrba_setting
from scenarios.papers.rrba import stopping as rrba_stopping
from scenarios.papers.rrba.shared import network
from scenarios.papers.rrba.stopping import Cell, nearest_cell
from tests.scenarios.reproduced import measured, reproduce
from tests.statistical import ALPHA, WRONG, mean_p_value
from tests.tiers import thinned

SMALL = """[
{{"name": "A", "categories": ["rare", "common", "other"], "parents": [],
  "rows": [[{rare}, 0.5, {other}]]}},
{{"name": "T", "categories": ["yes", "no"], "parents": ["A"],
  "rows": [[0.7, 0.3], [0.4, 0.6], [0.2, 0.8]]}},
{{"name": "PRESS", "categories": ["low", "normal", "high"], "parents": [],
  "rows": [[0.05, 0.85, 0.1]]}},
{{"name": "VENTALV", "categories": ["low", "high"], "parents": ["PRESS"],
  "rows": [[0.9, 0.1], [0.1, 0.9], [0.5, 0.5]]}}
]"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Small networks in the place of the public ones, so that no test needs these."""
    for name, rare in (("survey", "0.03"), ("alarm", "0.1"), ("child", "0.2")):
        other = f"{0.5 - float(rare):.2f}"
        (tmp_path / f"{name}.json").write_text(SMALL.format(rare=rare, other=other))
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
    assert rrba_stopping.settled_after(held).tolist() == [3, 2, 6, 4]
    assert rrba_stopping.lasting(held).tolist() == [1, 1, 0, 1]


def test_the_share_of_steps_within_the_rule_is_the_normal_law_s() -> None:
    compared, means = rrba_stopping.histories(CELL, 0.5, 0.1, (250,), 100, np.random.default_rng(1))
    raw = compared[..., CELL.place]
    assert raw.shape == means.shape == (rrba_stopping.BLOCKS, 1, 100)
    assert means[-1] == pytest.approx(raw.mean(axis=0))
    width = 2 * 1.96 * math.sqrt(0.3 * 0.7 / 250)
    share = (np.abs(np.diff(raw, axis=0)) < width).mean()
    assert share == pytest.approx(rrba_stopping.within(CELL, 0.5, 0.1, width, 250), abs=0.012)
    assert abs(share - rrba_stopping.within(CELL, 0.5 / WRONG, 0.1, width, 250)) > 0.03


def test_the_pooled_interval_is_as_narrow_after_so_many_reports() -> None:
    n = rrba_stopping.pooled_tuples(CELL, 0.5, 0.1, 0.04)
    reported = 0.5 * 0.3 + 0.5 * (0.9 * 0.3 + 0.1 / 3)
    error = math.sqrt(reported * (1 - reported) / n) / 0.5
    assert 2 * 1.96 * error == pytest.approx(0.04)


@pytest.mark.slow
def test_figures_5_and_6_have_every_setting(data: Path) -> None:
    five = reproduce("rrba-figure-5", Context(data=data), runs=3, network="survey")
    assert [(row.settings["listed"], row.settings["block"]) for row in five.rows] == [
        (listed, size) for listed in rrba_stopping.PROBABILITIES for size in rrba_stopping.SIZES
    ]
    assert {row.settings["network"] for row in five.rows} == {"survey"}
    assert five.rows[0].settings["cell"] == "A = rare"
    six = reproduce("rrba-figure-6", Context(data=data), runs=2)
    assert len(six.rows) == 6 * 4 * 4
    # Blocks of randomized answers hardly ever meet the rule if few answers are kept.
    low, high = measured(six.rows[3]), measured(six.rows[-1])
    assert low["within"] < 0.1 < 0.5 < high["within"]
    assert low["tuples"] > 40_000
    assert low["tuples, running mean"] < low["tuples"]


@pytest.mark.slow
def test_a_survey_by_messages_stops_by_the_printed_rule(data: Path) -> None:
    for name in ("rrba-figure-5", "rrba-figure-6"):
        done = reproduce(name, Context(data=data, by_messages=True))
        assert done.outcome is not None
        assert done.outcome.variant.name == "rrba"
        (row,) = done.rows
        first = measured(row)["first"]
        assert first % rrba_stopping.SIZES[0] == 0
        assert 36 <= first <= 720
        assert done.outcome.counted == first


def test_with_averages_the_rule_lasts_and_with_the_blocks_own_estimates_it_does_not() -> None:
    shares = {}
    for average in (False, True):
        draws = np.random.default_rng(2)
        compared, _ = rrba_stopping.histories(CELL, 0.5, 0.1, (150,), 200, draws, average=average)
        width = 2 * 1.96 * math.sqrt(0.3 * 0.7 / 150)
        held = np.abs(np.diff(compared[..., CELL.place], axis=0)) < width
        shares[average] = rrba_stopping.lasting(held).mean()
    assert shares[False] == 0
    assert 0.75 < shares[True] < 0.98


# Table 4


def test_the_printed_shares_of_table_4_give_the_printed_accuracies() -> None:
    for row in printed()["rrba-table-4"].rows:
        power, accepted, accuracy = row[2:5]
        assert (power + accepted) / 2 == pytest.approx(accuracy)


@pytest.mark.parametrize("ways", [2, 3, 4])
def test_the_tables_of_the_alternative_have_their_v(ways: int) -> None:
    law = rrba_independence.dependent_law(ways, 0.3)
    pair = law.sum(axis=tuple(range(2, ways)))
    margins = np.multiply.outer(pair.sum(axis=1), pair.sum(axis=0))
    assert pair.sum(axis=1) == pytest.approx([0.6, 0.4])
    assert math.sqrt(((pair - margins) ** 2 / margins).sum()) == pytest.approx(0.3)


@pytest.mark.slow
def test_table_4_tells_good_tests_from_bad_ones() -> None:
    done = reproduce("rrba-table-4", Context(), runs=150, draws=99)
    rows = {(row.settings["ways"], row.settings["method"]): row for row in done.rows}
    assert len(rows) == 3 * 8
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


@pytest.mark.slow
def test_table_4_by_messages_tests_the_reports_of_live_parties() -> None:
    done = reproduce("rrba-table-4", Context(by_messages=True), n=600, block=100, v=0.6)
    assert done.outcome is not None
    assert done.outcome.counted == 600
    (row,) = done.rows
    assert measured(row)["rejects a wrong H0"] == 1
    with pytest.raises(UsageError, match="a curator's"):
        reproduce("rrba-table-4", Context(by_messages=True), method="Laplace")
    assert measured(row)["epsilon"] == pytest.approx(math.log1p(40))


# Tables 5 and 6, Figure 7


def test_the_transcribed_errors_are_whole() -> None:
    for name, l2, js in (("rrba-table-5", 1622.258, 0.365), ("rrba-table-6", 1845.26, 0.5622)):
        rows = [row for row in printed()[name].rows if "scale" not in row[2]]
        figures = np.array([row[3:] for row in rows], np.float64)
        assert np.nansum(figures[:, :2]) == pytest.approx(l2)
        assert np.nansum(figures[:, 2]) == pytest.approx(js)
        assert (~np.isnan(figures[:, 2])).sum() == (8 if name == "rrba-table-5" else 12)


@pytest.mark.parametrize("method", thinned(rrba_errors.REMARKS, 2))
def test_the_expected_squared_distance_is_exact(method: str, data: Path) -> None:
    """For uniform fakes, and for noise."""
    parameters = rrba_errors.Parameters(n=500, mix=1.0, tables=1)
    cell = {"network": "survey", "ways": 2, "method": method}
    asked = Asked(
        cell=cell,
        parameters=parameters,
        runs=20_000,
        reading="printed",
        seeds=(1,),
        context=Context(data=data),
    )
    errors = rrba_errors.distances(asked, rrba_errors.TABLES["5"])
    [raw], [expected], js = errors["l2, raw"], errors["expected"], errors["Jensen-Shannon"]
    assert mean_p_value(raw**2, expected) > ALPHA
    assert mean_p_value(raw**2, expected * WRONG) < ALPHA
    assert errors["l2, projected"].mean() < raw.mean()
    assert np.all((js >= 0) & (js <= math.sqrt(math.log(2))))


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
        for method in rrba_errors.REMARKS
    ]
    if name != "rrba-figure-7":
        first, second = done.rows[0], done.rows[1]
        assert first.printed is not None
        assert set(first.printed) == {"l2, projected", "Jensen-Shannon", "epsilon"}
        assert set(second.printed) == {"l2, raw", "Jensen-Shannon", "epsilon"}
        assert measured(second)["epsilon"] == pytest.approx(second.printed["epsilon"])
        assert measured(first)["epsilon"] > second.printed["epsilon"]


@pytest.mark.slow
def test_errors_by_messages_are_those_of_live_parties(data: Path) -> None:
    context = Context(data=data, by_messages=True)
    done = reproduce("rrba-table-6", context, n=800, block=100)
    assert done.outcome is not None
    assert done.outcome.counted == 800
    figures = measured(done.rows[0])
    spread = measured(reproduce("rrba-figure-7", context, n=800, block=100).rows[0])
    for error in (figures["l2, raw"], figures["l2, projected"], spread["l2, mean"]):
        assert 0 < error < 3 * figures["root of expected squared l2"]


# At equal true epsilon


def test_the_uniform_table_and_one_group_win_at_equal_epsilon(data: Path) -> None:
    done = reproduce("rrba-honest", Context(data=data), runs=60, n=2000)
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


@pytest.mark.slow
def test_one_group_by_messages(data: Path) -> None:
    done = reproduce("rrba-honest", Context(data=data, by_messages=True), n=600, block=100)
    assert done.outcome is not None
    assert done.outcome.counted == 600
    figures = measured(done.rows[0])
    (law,) = reproduce(
        "rrba-honest", Context(data=data), n=600, network="survey", epsilon=2.0, answers="one"
    ).rows
    assert 0.2 < figures["squared error"] / measured(law)["in closed form"] < 3


# What they share


def test_the_nearest_value_of_a_network(data: Path) -> None:
    cell = nearest_cell(network("survey", data), 0.04)
    assert cell.words == "A = rare"
    assert cell.probability == pytest.approx(0.03)
