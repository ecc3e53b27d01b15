"""``sottovoce run`` and ``list``: what is printed and written, however it is started."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from protocol.variants import RRIndependent
from scenarios import open_transcript
from scenarios.data.town import TOWN
from scenarios.running.names import SCENARIOS
from scenarios.running.simulation import TRANSPORTS
from tests.scenarios.command import OWN, ROOT, Said, python, sottovoce, write_adult

KEYS = {
    "scenario",
    "variant",
    "parameters",
    "seed",
    "transport",
    "respondents",
    "parties",
    "counted",
    "rounds",
    "estimate",
    "truth",
    "error",
    "traffic",
    "transcript",
    "privacy",
    "seconds",
}
QUICK = ("run", "quickstart", "--set", "residents=300", "--set", "p=0.6")


Run = Callable[[str], tuple[Said, Path]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Quickstart on a transport, in a process of its own."""

    @functools.cache
    def done(transport: str) -> tuple[Said, Path]:
        out = tmp_path_factory.mktemp(transport)
        said = python(
            *("-m", "scenarios", *QUICK, "--set", "parties=50", "--seed", 3, "--json"),
            *("--transport", transport, "--out", out),
        )
        return said, out

    return done


def epsilons(p: float, sizes: tuple[int, ...]) -> list[float]:
    return [math.log1p(r * p / (1 - p)) for r in sizes]


def test_list() -> None:
    said = sottovoce("list")
    assert said.code == 0
    names = [line.split()[0] for line in said.out.splitlines() if line.startswith("  ")]
    assert sorted(names) == sorted(SCENARIOS)
    assert "residents" not in said.out


def test_list_has_the_parameters_of_all_scenarios() -> None:
    everything = sottovoce("list", "--parameters").out
    assert all(word in everything for word in ("residents", "lambda", "adult-joint", "tv"))


@pytest.mark.slow
def test_every_transport_gives_one_result(run: Run) -> None:
    results = []
    for transport in TRANSPORTS:
        said, out = run(transport)
        assert said.err == ""
        assert said.out == (out / "result.json").read_text()
        assert {path.name for path in out.iterdir()} == {
            "transcript.svt.zst",
            "transcript.checkpoint",
            "result.json",
        }
        result = said.json
        del result["seconds"]
        assert result.pop("transport") == transport
        assert result["transcript"].pop("path") == str(out / "transcript.svt.zst")
        results.append(result)
    assert len(results[0]["transcript"]["digest"]) == 64
    assert all(result == results[0] for result in results)


def test_the_result_has_the_documented_keys(run: Run) -> None:
    said, folder = run("tls")
    result = said.json
    assert result.keys() >= KEYS
    assert (result["scenario"], result["variant"]) == ("quickstart", "rr-independent")
    assert result["parameters"] == {"p": 0.6, "residents": 300, "parties": 50}
    assert (result["seed"], result["respondents"]) == (3, 300)
    assert (result["parties"], result["counted"]) == (50, 50)
    assert result["traffic"].keys() == {"messages", "bytes"}
    # 50 questions, 50 reports, 50 heads, one closing, one result.
    assert result["traffic"]["messages"] == 152
    estimate, truth = result["estimate"], result["truth"]
    for table in (estimate["marginals"], estimate["standard_errors"], truth["marginals"]):
        assert {name: tuple(cells) for name, cells in table.items()} == {
            attribute.name: attribute.categories for attribute in TOWN.attributes
        }
    pairs = [["district", "age"], ["district", "smokes"], ["district", "clinic"]]
    pairs += [["age", "smokes"], ["age", "clinic"], ["smokes", "clinic"]]
    assert [pair["attributes"] for pair in estimate["pairs"]] == pairs
    assert [pair["attributes"] for pair in truth["pairs"]] == pairs
    sizes = dict(zip(TOWN.names, TOWN.sizes, strict=True))
    for pair in estimate["pairs"]:
        left, right = pair["attributes"]
        assert len(pair["table"]) == sizes[left]
        assert all(len(row) == sizes[right] for row in pair["table"])
        named = [list(TOWN.attribute(name).categories) for name in (left, right)]
        assert pair["categories"] == named
        assert np.shape(pair["standard_errors"]) == (sizes[left], sizes[right])
    expected = open_transcript(folder / "transcript.svt.zst").audit(RRIndependent).estimate
    assert expected is not None
    for pair, table in zip(estimate["pairs"], expected.pairs(), strict=True):
        assert table.standard_errors is not None
        assert pair["standard_errors"] == table.standard_errors.tolist()
    # A row of a table is on one line.
    first = ", ".join(map(repr, estimate["pairs"][0]["table"][0]))
    assert f"    [{first}],\n" in (folder / "result.json").read_text()
    for name, cells in truth["marginals"].items():
        assert math.isclose(sum(cells.values()), 1), name
        for category, value in cells.items():
            error = estimate["standard_errors"][name][category]
            assert abs(estimate["marginals"][name][category] - value) < 6 * error
            assert 0 < error < 0.1


def test_epsilon_follows_from_the_parameters(run: Run) -> None:
    privacy = run("tls")[0].json["privacy"]
    expected = epsilons(0.6, TOWN.sizes)
    assert privacy["record_epsilon"] == pytest.approx(sum(expected), abs=1e-9)
    assert list(privacy["attribute_epsilon"]) == list(TOWN.names)
    assert list(privacy["attribute_epsilon"].values()) == pytest.approx(expected, abs=1e-9)
    [claim] = privacy["claims"]
    assert claim["epsilon"] == pytest.approx(sum(expected), abs=1e-9)
    assert claim.keys() == {"source", "says", "epsilon"}


def test_what_is_unbounded_is_null_with_its_reasons(tmp_path: Path) -> None:
    result = sottovoce("run", f"{OWN}:plain", "--json", "--out", tmp_path).json
    privacy = result["privacy"]
    assert privacy["record_epsilon"] is None
    assert privacy["attribute_epsilon"] is None
    assert privacy["unbounded"] == ["the true answers to district, age, smokes, clinic"]


def test_settings_win_over_the_configuration(tmp_path: Path) -> None:
    config = tmp_path / "quick.toml"
    config.write_text("residents = 20\np = 0.25\n")
    result = sottovoce("run", "quickstart", "--config", config, "--set", "p=0.5", "--json").json
    assert result["parameters"] == {"p": 0.5, "residents": 20, "parties": None}


@pytest.mark.slow
def test_the_seed_decides_everything() -> None:
    first, again, other = (sottovoce(*QUICK, "--json", "--seed", seed).json for seed in (5, 5, 6))
    del first["seconds"], again["seconds"]
    assert first == again
    assert other["transcript"]["digest"] != first["transcript"]["digest"]


@pytest.mark.parametrize("residents", [1, 2])
@pytest.mark.parametrize("p", ["1e-18", "0.9999999999999999"])
def test_extremes_are_numbers(residents: int, p: str) -> None:
    setting = ("--set", f"residents={residents}", "--set", f"p={p}")
    assert sottovoce("run", "quickstart", "--json", *setting).json["counted"] == residents


@pytest.mark.slow
def test_a_scenario_as_a_script_and_as_a_file(tmp_path: Path) -> None:
    arguments = ("--json", "--set", "residents=30")
    named = sottovoce("run", "quickstart", *arguments).json
    path = sottovoce("run", ROOT / "scenarios" / "quickstart.py", *arguments).json
    # From another folder: what stands beside the script must not shadow a library.
    script = python(ROOT / "scenarios" / "quickstart.py", *arguments, cwd=tmp_path).json
    for result in (named, path, script):
        del result["seconds"]
    assert named == path == script


@pytest.mark.slow
def test_a_script_with_several_scenarios(tmp_path: Path) -> None:
    write_adult(tmp_path, 60)
    script = ROOT / "scenarios" / "adult_surveys.py"
    said = python(script, "adult-joint", "--data", tmp_path, "--json")
    assert said.json["scenario"] == "adult-joint"
    assert said.json["respondents"] == 60
    refused = python(script, "--json")
    assert refused.code == 2
    assert "one of adult-independent, adult-joint" in refused.err


def test_keys_of_a_scenarios_own() -> None:
    assert sottovoce("run", f"{OWN}:roll-call", "--json").json["own"] == 1


def near_the_truth(result: dict[str, Any]) -> None:
    estimate, truth = result["estimate"], result["truth"]["marginals"]
    for name, cells in truth.items():
        for category, value in cells.items():
            error = estimate["standard_errors"][name][category]
            assert abs(estimate["marginals"][name][category] - value) < 6 * error, (name, category)


@pytest.mark.slow
def test_all_eight_attributes_of_adult_at_once(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = sottovoce(
        *("run", "adult-joint", "--set", "p=0.7", "--set", "parties=40"),
        *("--out", out, "--json", "--transport", "local"),
    ).json
    assert result["respondents"] == 32_561
    assert len(result["estimate"]["pairs"]) == 28
    near_the_truth(result)
    epsilon = math.log1p(1_814_400 * 0.7 / 0.3)
    assert result["privacy"]["record_epsilon"] == pytest.approx(epsilon, abs=1e-9)
    assert set(result["privacy"]["attribute_epsilon"].values()) == {
        result["privacy"]["record_epsilon"]
    }
    audit = python("-m", "scenarios", "audit", out / "transcript.svt.zst", "--json").json
    assert audit["verdict"] == "sound"
    assert audit["result"]["follows"] is True
    assert audit["result"]["marginals"] == result["estimate"]["marginals"]
    assert audit["privacy"]["record_epsilon"] == result["privacy"]["record_epsilon"]
    assert audit["verification"]["digest"] == result["transcript"]["digest"]


@pytest.mark.slow
def test_adult_by_epsilon_and_projected(tmp_path: Path) -> None:
    write_adult(tmp_path)
    result = sottovoce(
        *("run", "adult-independent", "--data", tmp_path, "--set", "epsilon=8", "--json"),
        *("--set", "records=300", "--set", "project=simplex"),
    ).json
    assert result["respondents"] == 300
    assert 0 < 8 - result["privacy"]["record_epsilon"] < 1e-9 or (
        result["privacy"]["record_epsilon"] == pytest.approx(8, abs=1e-9)
    )
    assert result["estimate"]["projection"] == "simplex"
    for cells in result["estimate"]["marginals"].values():
        assert min(cells.values()) >= 0
        assert sum(cells.values()) == pytest.approx(1)


@pytest.mark.slow
def test_who_drops_out_is_counted_out(tmp_path: Path) -> None:
    write_adult(tmp_path)
    out = tmp_path / "out"
    result = sottovoce(
        *("run", "adult-independent", "--data", tmp_path, "--set", "drop=0.1", "--json"),
        *("--out", out, "--set", "parties=200"),
    ).json
    gone = result["trouble"]["crashed"]
    assert 5 < gone < 40
    assert (result["parties"], result["counted"]) == (200, 200 - gone)
    assert result["estimate"]["respondents"] == 2 * result["counted"]
    audit = sottovoce("audit", out / "transcript.svt.zst", "--json").json
    complete = audit["completeness"]
    assert audit["verdict"] == "sound"
    assert (complete["parties"], complete["counted"]) == (200, 200 - gone)
    [closing] = complete["closings"]
    assert len(closing["missing"]) == gone
    assert closing["left_out"] == []
    assert complete["departed"] == dict.fromkeys(closing["missing"], "crashed")
    text = sottovoce("audit", out / "transcript.svt.zst").out
    assert f"{200 - gone} of 200 parties were counted" in text


@pytest.mark.slow
def test_intervals_are_at_the_level_and_about_whom_was_asked() -> None:
    command = (*QUICK, "--transport", "local", "--seed", 3)
    found = {}
    for options in (
        (),
        ("--level", "0.5"),
        ("--level", "0.5", "--about", "population"),
        ("--set", "project=simplex"),
    ):
        if "--set" in options:
            command = ("run", "adult-independent", "--set", "records=300", "--transport", "local")
        printed = sottovoce(*command, *options)
        values = sottovoce(*command, *options, "--json").json["estimate"]
        intervals = values["intervals"]
        level, about = intervals["level"], intervals["about"]
        assert f"{100 * level:g} % intervals about the {about}" in printed.out
        assert f"{100 * level:g} % interval " in printed.out
        ends = re.findall(r"\[(0\.\d+|1\.0+), (0\.\d+|1\.0+)\]", printed.out)
        expected = [
            (f"{cell['low']:.4f}", f"{cell['high']:.4f}")
            for cells in intervals["marginals"].values()
            for cell in cells.values()
        ]
        assert ends == expected
        for shares, pair in zip(values["pairs"], intervals["pairs"], strict=True):
            assert pair["attributes"] == shares["attributes"]
            assert np.shape(pair["low"]) == np.shape(pair["high"]) == np.shape(shares["table"])
            assert np.all(np.array(pair["low"]) <= np.array(pair["high"]))
            assert ("population_errors" in shares) == (about == "population")
        found[options] = (level, about, ends[0])
        said = " ".join(printed.out.split())
        assert ("The shares are projected (simplex), which biases them." in said) == (
            "--set" in options
        )
    usual, narrow, wider, _ = found.values()
    assert (usual[:2], narrow[:2], wider[:2]) == (
        (0.95, "respondents"),
        (0.5, "respondents"),
        (0.5, "population"),
    )
    widths = [float(high) - float(low) for *_, (low, high) in (narrow, wider, usual)]
    assert widths == sorted(set(widths))
