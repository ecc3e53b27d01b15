"""Marginal release on taxi trips from the command line: tables, tests of independence, a tree."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from protocol import exact_test
from scenarios import Context, Finished, find_scenario, taxi
from scenarios.data.taxi import BITS, taxi_independent
from tests.scenarios.command import sottovoce
from tests.scenarios.data.test_taxi import write
from tests.tiers import thinned


def run(name: str, *settings: str, options: tuple[object, ...] = ()) -> Any:
    flags = [part for setting in settings for part in ("--set", setting)]
    return sottovoce("run", name, *flags, *options, "--json").json


@pytest.mark.parametrize(
    ("method", "bits"),
    thinned(
        [
            ("inp-rr", 256),
            ("inp-ps", 8),
            ("inp-ht", 7),
            ("marg-rr", 9),
            ("marg-ps", 7),
            ("marg-ht", 8),
        ],
        3,
    ),
)
def test_every_method_releases_marginals(method: str, bits: int) -> None:
    result = run("taxi-marginals", f"method={method}", "n=5000", "parties=10", "epsilon=6")
    assert result["variant"] == method
    assert result["report_bits"] == bits
    assert result["privacy"]["record_epsilon"] == pytest.approx(6)
    errors = result["error"]["k_way"]
    assert errors["total_variation"] == pytest.approx(result["error"]["pairs_tv"])
    assert 0 < errors["simplex"] < errors["total_variation"] + 1e-12 < 0.5


@pytest.mark.slow
def test_one_hot_bits_can_be_optimised() -> None:
    settings = ("method=inp-rr", "n=5000", "parties=10", "epsilon=4")
    found = {
        unary: run("taxi-marginals", *settings, f"unary={unary}")["error"]["k_way"]
        for unary in ("sue", "oue")
    }
    # The bits of the 255 other cells have a variance of 0.08 instead of 0.18: errors are 2/3.
    ratio = found["oue"]["total_variation"] / found["sue"]["total_variation"]
    assert 0.5 < ratio < 0.85
    refused = sottovoce("run", "taxi-marginals", "--set", "unary=oue")
    assert refused.code == 2
    assert "inp-ht has no one-hot bits" in refused.err


@pytest.mark.slow
def test_marginals_of_three_of_more_bits_are_verified(tmp_path: Path) -> None:
    settings = ("d=10", "k=3", "n=20000", "parties=20", "epsilon=8", "project=simplex")
    result = run("taxi-marginals", *settings, options=("--out", tmp_path))
    assert len(result["estimate"]["pairs"]) == 45
    assert result["estimate"]["projection"] == "simplex"
    assert result["error"]["k_way"]["total_variation"] < 0.15
    transcript = tmp_path / "transcript.svt.zst"
    assert sottovoce("verify", transcript).code == 0
    assert sottovoce("audit", transcript).code == 0


@pytest.mark.slow
def test_independence_beside_the_truth() -> None:
    result = run("taxi-independence")
    found = {tuple(pair["attributes"]): pair for pair in result["independence"]}
    assert list(found) == list(combinations(BITS, 2))
    records = taxi(2**18, seed=1)
    for pair, tests in found.items():
        assert tests["independent"] is taxi_independent(*pair)
        expected = exact_test(records.counts(pair))
        assert tests["exact"]["statistic"] == pytest.approx(float(expected.statistic))
    judged = result["error"]["independence"]
    for test in ("wald", "naive", "exact"):
        for independent in (True, False):
            rejected = sum(
                pair[test]["p_value"] <= 0.05
                for pair in found.values()
                if pair["independent"] is independent
            )
            key = f"{'independent' if independent else 'dependent'}_pairs_rejected"
            assert judged[test][key] == rejected
    # Of 20, with a level of 5 % more than 7 is a chance of 10**-5; the naive test rejects most.
    assert judged["wald"]["independent_pairs_rejected"] <= 7
    assert judged["wald"]["dependent_pairs_rejected"] >= 5
    assert judged["naive"]["independent_pairs_rejected"] >= 12


def test_too_few_reports_for_a_test_are_said() -> None:
    scenario = find_scenario("taxi-independence")
    parameters = scenario.configure({"n": 40, "parties": 40, "method": "marg-ps"})
    finished = scenario.run(parameters, Context())
    assert isinstance(finished, Finished)
    assert any(pair["wald"] is None for pair in finished.extra["independence"])
    assert any("too few reports" in note for note in finished.notes)
    assert finished.plot is not None
    finished.plot(Figure())


def test_a_tree_from_many_reports_is_the_best_one() -> None:
    scenario = find_scenario("taxi-tree")
    parameters = scenario.configure({"epsilon": 8, "n": 100_000, "parties": 20, "mix": 0})
    finished = scenario.run(parameters, Context())
    assert isinstance(finished, Finished)
    edges = {frozenset((e["parent"], e["child"])) for e in finished.extra["tree"]["edges"]}
    assert len(edges) == 7
    # The parts of the law; the other two edges join them by chance.
    for pair in (
        ("CC", "Tip"),
        ("Night_pick", "Night_drop"),
        ("M_pick", "M_drop"),
        ("M_drop", "Far"),
        ("Far", "Toll"),
    ):
        assert frozenset(pair) in edges
    found = finished.extra["log_likelihood"]
    assert found["no_tree"] < found["private"] < found["best"]
    gain = found["best"] - found["no_tree"]
    assert found["private"] > found["no_tree"] + 0.95 * gain
    best = finished.extra["tree"]["best_edges"]
    assert gain == pytest.approx(sum(edge["information"] for edge in best))
    assert finished.plot is not None
    figure = Figure()
    finished.plot(figure)
    axes = figure.axes[0]
    assert {text.get_text() for text in axes.texts} >= set(BITS)
    assert len(axes.lines) == 7


@pytest.mark.slow
def test_real_trips_are_read(tmp_path: Path) -> None:
    generator = np.random.default_rng(2)
    trips = [
        {
            "payment_type": "CRD" if generator.random() < 0.5 else "CSH",
            "trip_distance": str(generator.integers(0, 20)),
        }
        for _ in range(300)
    ]
    file = write(tmp_path, *trips)
    result = run("taxi-marginals", f"trips={file}", "n=200", "parties=5", "d=3", "epsilon=9")
    assert result["respondents"] == 200
    paid = sum(trip["payment_type"] == "CRD" for trip in trips[:200]) / 200
    assert result["truth"]["marginals"]["CC"]["yes"] == pytest.approx(paid)
    assert set(result["truth"]["marginals"]) == {"CC", "Toll", "Far"}
    judged = run("taxi-independence", f"trips={file}", "n=300", "parties=5")
    assert all(pair["independent"] is None for pair in judged["independence"])
    assert "independence" not in judged["error"]
