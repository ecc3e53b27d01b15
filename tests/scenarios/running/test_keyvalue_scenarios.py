"""Key-value scenarios: results and true values, methods, and parameters that do not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from protocol.errors import UsageError
from protocol.estimators.inference.intervals import Intervals
from protocol.variants.keyvalue.estimate import KeyValueTables
from scenarios import Context, Finished, find_scenario, synthetic
from scenarios.keyvalue import true_figures
from scenarios.statement.runs import run_values
from tests.raw_data import RAW, needs
from tests.scenarios.command import sottovoce
from tests.tiers import thinned

SMALL = {"n": 2000, "parties": 20}
NAMES = ("kv-gaussian", "kv-power", "kv-linear")


def finished(name: str, *, data: Path | None = None, **given: Any) -> Finished:
    scenario = find_scenario(name)
    found = scenario.run(scenario.configure(given), Context(data=data))
    assert isinstance(found, Finished)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", thinned(NAMES, 1))
@pytest.mark.parametrize("protocol", ["privkv", "privkvm"])
def test_every_key_has_a_row_with_the_truth(name: str, protocol: str) -> None:
    found = finished(name, protocol=protocol, **SMALL)
    values = json.loads(json.dumps(run_values(found), allow_nan=False))
    assert [row["key"] for row in values["keys"]] == [f"key {i}" for i in range(1, 51)]
    assert sum(row["reports"] for row in values["keys"]) == 2000
    assert values["variant"] == protocol
    assert values["truth"]["marginals"]["key 7"]["held"] == pytest.approx(
        values["keys"][6]["true_frequency"]
    )
    assert values["estimate"]["marginals"]["key 7"]["held"] == values["keys"][6]["frequency"]
    known = [row for row in values["keys"] if row["frequency"] is not None]
    squared = [(row["frequency"] - row["true_frequency"]) ** 2 for row in known]
    assert values["error"]["frequencies_mse"] == pytest.approx(np.mean(squared))
    assert found.outcome.counted == 20


@pytest.mark.parametrize("estimator", thinned(["moment", "debiased", "em", "likelihood"], 3))
def test_an_error_of_one_report_is_unknown(estimator: str) -> None:
    found = finished("kv-linear", n=60, parties=60, estimator=estimator)
    values = json.loads(json.dumps(run_values(found), allow_nan=False))
    alone = [i for i, row in enumerate(values["keys"]) if row["reports"] == 1]
    assert len(alone) > 5
    for i in alone:
        assert values["keys"][i]["frequency"] is not None
        assert values["keys"][i]["frequency_error"] is None
        assert values["keys"][i]["mean_error"] is None
        for shown, name in (("held by", "frequency"), ("mean", "mean")):
            figure, ends = found.rows[i][f"{shown}, 95 % interval"], values["keys"][i]
            low, high = ends[f"{name}_interval"].values()
            if ends[name] is None:
                assert figure == ""
            elif low is None:
                assert str(figure).endswith(" unknown")
            else:
                assert low < high
                assert str(figure).endswith(f" [{low:.3f}, {high:.3f}]")
    assert 0 not in {row["frequency_error"] for row in values["keys"]}
    assert 0 not in {row["mean_error"] for row in values["keys"]}


def test_the_truth_is_that_of_the_population() -> None:
    population = synthetic("Linear")
    records = population.records(40_000, np.random.default_rng(1))
    frequencies, means = true_figures(records)
    assert np.abs(frequencies - population.frequencies).max() < 0.02
    np.testing.assert_allclose(means, population.means)


def test_movielens_is_read_from_a_given_folder(tmp_path: Path) -> None:
    lines = ["userId,movieId,rating,timestamp"]
    lines += [f"{user},{movie},{1 + user % 5},1" for user in range(30) for movie in range(1, 4)]
    (tmp_path / "ratings.csv").write_text("\n".join(lines) + "\n")
    found = finished("movielens", data=tmp_path, keys=3)
    assert found.outcome.records is not None
    assert len(found.outcome.records) == 30
    values = run_values(found)
    assert [row["key"] for row in values["keys"]] == ["item 1", "item 2", "item 3"]
    assert values["keys"][0]["true_frequency"] == 1.0
    assert values["keys"][0]["true_mean"] == pytest.approx(2 * (3 - 0.5) / 4.5 - 1)
    with pytest.raises(UsageError, match=r"'keys' = 4: more than the 3 items"):
        finished("movielens", data=tmp_path, keys=4)


def test_clothing_from_the_command_line(tmp_path: Path) -> None:
    lines = [
        f'{{"user_id": "{user}", "item_id": "{item}", "rating": "{2 + 2 * (user % 5)}"}}\n'
        for user in range(30)
        for item in range(2)
    ]
    (tmp_path / "renttherunway_final_data.json").write_text("".join(lines))
    found = sottovoce("run", "clothing", "--data", tmp_path, "--set", "keys=2", "--json").json
    assert found["respondents"] == 30
    assert [row["true_frequency"] for row in found["keys"]] == [1.0, 1.0]
    assert found["keys"][0]["true_mean"] == pytest.approx(2 * (6 - 1) / 9 - 1)


@pytest.mark.slow
@needs("movielens/ratings.csv")
def test_movielens_with_every_movie() -> None:
    found = finished("movielens", data=RAW, keys=9724, parties=61)
    values = json.loads(json.dumps(run_values(found), allow_nan=False))
    unheard = [row for row in values["keys"] if row["reports"] == 0]
    assert len(unheard) > 9000
    assert all(row["frequency"] is None and row["mean_error"] is None for row in unheard)
    assert any("Nobody reported on" in note for note in found.notes)


@pytest.mark.slow
def test_intervals_are_of_possible_values_and_few_reports_are_told() -> None:
    found = finished("kv-gaussian", n=100, parties=10)
    ends = [row["mean_interval"] for row in found.extra["keys"]]
    assert all(-1 <= end["low"] <= end["high"] <= 1 for end in ends if end["low"] == end["low"])
    assert any((end["low"], end["high"]) == (-1, 1) for end in ends)
    assert any("Only 2 reports a key on average" in note for note in found.notes)
    many = finished("kv-gaussian")
    assert not any("Only" in note for note in many.notes)
    assert Intervals().says + "." in many.notes


def test_the_intervals_of_keys_are_those_that_were_asked_for() -> None:
    scenario = find_scenario("kv-gaussian")
    found = scenario.run(scenario.configure(SMALL), Context(intervals=Intervals(0.5)))
    assert isinstance(found, Finished)
    estimate = found.outcome.estimate
    assert isinstance(estimate, KeyValueTables)
    low, high = estimate.frequency_intervals(0.5)
    keys = found.extra["keys"]
    assert [key["frequency_interval"]["low"] for key in keys] == low.tolist()
    assert [key["frequency_interval"]["high"] for key in keys] == high.tolist()
    for key, row in zip(keys, found.rows, strict=True):
        ends = f"[{key['frequency_interval']['low']:.3f}, "
        assert ends in str(row["held by, 50 % interval"])


@pytest.mark.slow
def test_a_key_stays_on_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = sottovoce("run", "kv-gaussian", "--set", "n=2000").out
    assert sum(line.split()[:2] == ["key", "50"] for line in said.splitlines()) == 1


@pytest.mark.slow
def test_from_the_command_line_with_a_picture_and_an_audit(tmp_path: Path) -> None:
    arguments = ["--set", "n=500", "--set", "parties=5", "--set", "estimator=em"]
    out, plot = tmp_path / "out", tmp_path / "keys.svg"
    ran = sottovoce("run", "kv-power", *arguments, "--out", str(out), "--plot", str(plot))
    assert ran.code == 0, ran.err
    assert "held by, 95 % interval" in ran.out
    assert "truly" in ran.out
    assert "<svg" in plot.read_text()
    audited = sottovoce("audit", out / "transcript.svt.zst", "--json").json
    (claim,) = audited["privacy"]["claims"]
    assert claim["epsilon"] == pytest.approx(2.0)
    refused = sottovoce("run", "kv-power", "--synthetic", str(tmp_path / "x.csv"))
    assert refused.code == 2
