"""``--calibrate``, response rates and design effects, as the commands print them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from protocol.estimators.calibration.calibrated import Method
from scenarios.running.calibrating import METHODS
from tests.scenarios.command import sottovoce
from tests.tiers import thinned

MARGINS = (
    "attribute,category,share\nsmokes,no,0.8\nsmokes,yes,0.2\n"
    "district,harbour,.2\ndistrict,centre,.3\ndistrict,hill,.5\n"
)
TABLE = "smokes,age,count\n" + "".join(
    f"{smokes},{age},{many}\n"
    for smokes, many in (("no", 20), ("yes", 5))
    for age in ("18-29", "30-44", "45-64", "65+")
)
QUICK = ("run", "quickstart", "--set", "residents=800", "--set", "parties=40", "--transport")
RUN = (*QUICK, "local")


def written(folder: Path, text: str, name: str = "margins.csv") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize("method", thinned(["linear", "raking"], 1))
def test_a_run_agrees_with_known_margins(method: str, tmp_path: Path) -> None:
    margins = written(tmp_path, MARGINS)
    arguments = (*RUN, "--calibrate", margins, "--calibrate-by", method)
    result = json.loads(sottovoce(*arguments, "--json").out)
    found = result["estimate"]["marginals"]
    assert found["smokes"] == pytest.approx({"no": 0.8, "yes": 0.2}, abs=2e-6)
    assert found["district"] == pytest.approx(
        {"harbour": 0.2, "centre": 0.3, "hill": 0.5}, abs=2e-6
    )
    calibration = result["calibration"]
    assert calibration["method"] == method
    assert calibration["margins"] == [["smokes"], ["district"]]
    assert 100 < calibration["effective_n"] < 800
    words = " ".join(sottovoce(*arguments).out.split())
    assert f"effective sample size of the weights {calibration['effective_n']:,.1f} of 800" in words
    ends = result["estimate"]["intervals"]
    assert ends["about"] == "population"
    plain = json.loads(sottovoce(*RUN, "--json").out)
    assert plain["estimate"]["marginals"]["smokes"] != found["smokes"]
    assert "calibration" not in plain
    assert plain["transcript"]["digest"] == result["transcript"]["digest"]


def test_post_stratification_by_a_table(tmp_path: Path) -> None:
    table = written(tmp_path, TABLE)
    arguments = ("tabulate", "quickstart", "--n", "20000", "--calibrate", table)
    result = json.loads(sottovoce(*arguments, "--calibrate-by", "post-stratified", "--json").out)
    found = result["estimate"]["marginals"]
    assert found["smokes"] == pytest.approx({"no": 0.8, "yes": 0.2})
    assert found["age"] == pytest.approx(dict.fromkeys(found["age"], 0.25))
    assert result["calibration"]["margins"] == [["smokes", "age"]]


@pytest.mark.slow
def test_a_record_is_calibrated_when_it_is_estimated_from_and_audited(tmp_path: Path) -> None:
    margins = written(tmp_path, MARGINS)
    sottovoce(*RUN, "--out", str(tmp_path / "run"))
    record, calibrate = str(tmp_path / "run" / "transcript.svt.zst"), ("--calibrate", margins)
    ran = json.loads(sottovoce(*RUN, *calibrate, "--json").out)
    estimated = json.loads(sottovoce("estimate", record, *calibrate, "--json").out)
    shares = {row["category"]: row["value"] for row in estimated["rows"]}
    assert (estimated["about"], shares["yes"]) == ("population", pytest.approx(0.2))
    assert estimated["calibration"] == ran["calibration"]
    audited = json.loads(sottovoce("audit", record, *calibrate, "--json").out)
    assert audited["result"]["marginals"] == ran["estimate"]["marginals"]
    assert audited["result"]["calibration"] == ran["calibration"]
    assert audited["verdict"] == "sound"
    assert "calibration" not in json.loads(sottovoce("audit", record, "--json").out)["result"]
    page = tmp_path / "page.html"
    sottovoce("audit", record, *calibrate, "--html", str(page))
    for words in (sottovoce("estimate", record, *calibrate).out, page.read_text("utf-8")):
        assert "Calibrated linearly to smokes, district" in " ".join(words.split())


@pytest.mark.slow
def test_a_known_share_that_the_reports_contradict_is_told(tmp_path: Path) -> None:
    far = written(tmp_path, "smokes,share\nno,0.01\nyes,0.99\n")
    calibration = json.loads(sottovoce(*RUN, "--calibrate", far, "--json").out)["calibration"]
    assert [one["cell"] for one in calibration["far"]] == [["no"], ["yes"]]
    words = " ".join(sottovoce(*RUN, "--calibrate", far).out.split())
    assert "Caution: the known share of smokes = " in words
    assert ", and 1 more, is not within what the reports allow" in words
    near = written(tmp_path, "smokes,share\nno,0.75\nyes,0.25\n")
    assert "Caution" not in sottovoce(*RUN, "--calibrate", near).out


def test_intervals_are_withheld_and_the_other_way_proposed(tmp_path: Path) -> None:
    far = written(tmp_path, "smokes,share\nno,0.5\nyes,0.5\n")
    arguments = ("tabulate", "quickstart", "--n", "20000", "--calibrate", far)
    result = json.loads(sottovoce(*arguments, "--json").out)
    assert result["calibration"]["errors_known"] is False
    ends = result["estimate"]["intervals"]["marginals"]
    assert {end for one in ends["clinic"].values() for end in one.values()} == {None}
    assert ends["smokes"]["no"] == pytest.approx({"low": 0.5, "high": 0.5})
    proposed = ("--calibrate-by", "post-stratified")
    other = json.loads(sottovoce(*arguments, *proposed, "--json").out)
    assert other["calibration"]["errors_known"] is True
    ends = other["estimate"]["intervals"]["marginals"]
    assert None not in {end for one in ends["clinic"].values() for end in one.values()}


@pytest.mark.slow
def test_several_releases_are_calibrated(tmp_path: Path) -> None:
    margins = written(tmp_path, "sex,share\nFemale,0.5\nMale,0.5\n")
    arguments = ("run", "adult-clusters", "--set", "records=400", "--set", "parties=20")
    result = sottovoce(*arguments, "--transport", "local", "--calibrate", margins, "--json")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert found["estimate"]["marginals"]["sex"] == pytest.approx({"Female": 0.5, "Male": 0.5})
    assert found["calibration"]["effective_n"] is None


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("smokes;share\nno;0,8\nyes;0,2\n", "latin-1"),
        ("smokes\tcount\r\nno\t1000,5\r\nyes\t250,1250\r\n", "utf-16"),
        ("attribute|category|share\nsmokes|no|.8\nsmokes|yes| .2\n\n", "utf-8-sig"),
    ],
)
def test_margins_may_be_written_in_many_ways(text: str, encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "margins.csv"
    path.write_bytes(text.encode(encoding))
    found = json.loads(sottovoce(*RUN, "--calibrate", str(path), "--json").out)
    assert found["estimate"]["marginals"]["smokes"]["no"] == pytest.approx(0.8, abs=1e-3)


def test_design_effects_are_those_of_the_audit(tmp_path: Path) -> None:
    said = sottovoce(*RUN, "--out", str(tmp_path))
    result = json.loads((tmp_path / "result.json").read_text())
    design = result["design"]
    assert (design["parties"], design["records"], design["missing"]) == (40, 800, None)
    effects = np.concatenate([np.ravel(effect) for effect in design["effects"].values()])
    # Residents are dealt to parties as they come: they are not alike.
    assert effects.mean() == pytest.approx(1, abs=0.25)
    words = " ".join(said.out.split())
    assert f"design effect {effects.min():.2f} to {effects.max():.2f}, the variance" in words
    audited = json.loads(sottovoce("audit", str(tmp_path / "transcript.svt.zst"), "--json").out)
    assert audited["design"] == design
    assert (
        audited["response"]
        == result["response"]
        == {
            "asked": 40,
            "answered": 40,
            "rate": 1.0,
            "widest": 0.0,
            "withdrawn": 0,
        }
    )


@pytest.mark.slow
def test_what_cannot_be_known_is_said() -> None:
    arguments = ("run", "adult-counts", "--set", "records=200", "--set", "parties=20")
    words = " ".join(sottovoce(*arguments, "--transport", "local").out.split())
    assert "How alike the respondents of one party are is not known" in words
    alone = sottovoce("run", "quickstart", "--set", "residents=60", "--transport", "local")
    assert "design effect" not in alone.out
    assert "Parties hold several records" not in alone.out


def test_every_method_can_be_named() -> None:
    assert get_args(Method) == METHODS
