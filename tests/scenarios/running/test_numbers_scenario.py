"""The scenario of means: what it prints, its JSON, its picture and the audit of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.scenarios.command import sottovoce


@pytest.mark.parametrize("mechanism", ["one-bit", "piecewise"])
def test_means_errors_and_truth_everywhere(tmp_path: Path, mechanism: str) -> None:
    out, plot, page = tmp_path / "out", tmp_path / "means.svg", tmp_path / "audit.html"
    arguments = ["--set", f"mechanism={mechanism}", "--set", "residents=3000"]
    ran = sottovoce("run", "town-means", *arguments, "--out", out, "--plot", plot)
    assert ran.code == 0, ran.err
    values = json.loads((out / "result.json").read_text())
    means = values["estimate"]["means"]
    assert list(means) == ["age", "income"]
    for name, found in means.items():
        true = values["truth"]["means"][name]
        assert abs(found["mean"] - true) < 6 * found["standard_error"]
        assert values["error"]["means"][name] == abs(found["mean"] - true)
        (line,) = [line for line in ran.out.splitlines() if line.strip("│ ").startswith(name)]
        ends = values["estimate"]["intervals"]["means"][name]
        assert ends["low"] < found["mean"] < ends["high"]
        for number in (true, found["mean"], *ends.values()):
            assert f"{number:.4f}" in line
    assert 18 < values["truth"]["means"]["age"] < 98
    assert "<svg" in plot.read_text()
    audited = sottovoce("audit", out / "transcript.svt", "--json", "--html", page).json
    assert audited["result"]["means"] == means
    assert audited["result"]["follows"] is True
    assert audited["result"]["intervals"]["means"] == values["estimate"]["intervals"]["means"]
    assert "95 % intervals about the respondents" in page.read_text()
    refused = sottovoce("run", "town-means", "--synthetic", tmp_path / "x.csv")
    assert refused.code == 2
