"""The page of a run: its figures are those of the result, beside the truth, and all is escaped."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from protocol import Records
from protocol.variants import RRIndependent
from scenarios import Finished, simulate
from scenarios.report.page.run import run_page
from scenarios.wording.formatting import MINUS
from tests.pages import HOSTILE, Page, hostile_survey, run_page_of
from tests.scenarios.command import Said, complaint, sottovoce

SMALL = ("run", "quickstart", "--set", "residents=80", "--set", "parties=8")


def tables(text: str) -> dict[str, list[list[str]]]:
    """The rows of every table, heads first, by its caption."""
    found = {}
    for table in re.findall(r"<table.*?</table>", text, re.DOTALL):
        [caption] = re.findall(r"<caption><span[^>]*>(.*?)</span></caption>", table)
        rows = re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
        cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
        found[caption] = [[cell.strip() for cell in row] for row in cells]
    return found


def run(tmp_path: Path, *options: object) -> tuple[Said, str]:
    """A small run with a page, and the page."""
    page = tmp_path / "made" / "page.html"
    said = sottovoce(*SMALL, "--html", page, *options)
    assert said.code == 0, said.err
    return said, page.read_text(encoding="utf-8")


def test_figures_are_those_of_the_result(tmp_path: Path) -> None:
    out = tmp_path / "out"
    said, text = run(tmp_path, "--out", out, "--level", 0.9)
    *_, written, opened = said.out.splitlines()
    assert written.endswith(f"and {tmp_path / 'made' / 'page.html'}")
    assert opened == f"Open {tmp_path / 'made' / 'page.html'} in a browser."
    result = json.loads((out / "result.json").read_text())
    [rows] = [rows for caption, rows in tables(text).items() if caption.startswith("smokes: ")]
    assert rows[0] == ["Category", "Truth", "Share", "90 % interval"]
    for category, truth, share, ends in rows[1:]:
        estimated = result["estimate"]
        interval = estimated["intervals"]["marginals"]["smokes"][category]
        low, high = (round(100 * interval[end], 1) for end in ("low", "high"))
        assert truth == f"{100 * result['truth']['marginals']['smokes'][category]:.1f} %"
        assert share == f"{100 * estimated['marginals']['smokes'][category]:.1f} %"
        assert ends == f"[{low:.1f}, {high:.1f}] %"
    read = Page(text)
    assert "A simulation" in read.said
    assert "Scenario quickstart File transcript.svt.zst" in read.said
    assert "estimated from 8 of 8 parties, 80 respondents, over memory" in read.said
    assert (
        "estimate from answers disguised at random 90 % interval: 90 in 100 contain the truth "
        "truth, which a real survey cannot show"
    ) in read.said
    assert "which undoes every randomization" in read.said
    assert f"at most ε = {result['privacy']['record_epsilon']:.4g}"[:18] in read.said
    assert result["transcript"]["digest"] in read.said
    drawn = [attrs for attrs in read.tags("line") if attrs.get("class") == "truth"]
    # One more is in the key.
    assert len(drawn) == 1 + sum(len(cells) for cells in result["truth"]["marginals"].values())


@pytest.mark.slow
def test_projected_shares_are_said_to_be(tmp_path: Path) -> None:
    _, text = run(tmp_path)
    assert "which biases them" not in text
    scenario = ("adult-independent", (("records", "60"), ("parties", "6"), ("project", "simplex")))
    projected = Page(run_page_of(*scenario)).said
    assert "which biases them" in projected
    rows = tables(run_page_of(*scenario)).values()
    assert MINUS not in " ".join(cell for table in rows for row in table for cell in row)


@pytest.mark.slow
def test_what_a_scenario_reports_instead_is_there() -> None:
    text = run_page_of("kv-power", (("n", "500"), ("parties", "5")))
    rows = tables(text)["What the scenario reports"]
    assert rows[0][:2] == ["key", "reports"]
    assert rows[1][0] == "key 1"
    assert len(rows) == 51
    # Said once, where the figures are.
    assert Page(text).said.count("Shares of those who hold a key") == 1


def test_a_trial_is_stamped(tmp_path: Path) -> None:
    plan, own, page = (tmp_path / name for name in ("plan.toml", "own.csv", "page.html"))
    own.write_text("smokes\n" + "yes\nno\n" * 20, encoding="utf-8")
    plan.write_text(
        'title = "Own"\nepsilon = 2.0\n[[attributes]]\nname = "smokes"\n'
        'categories = ["no", "yes"]\n[analysis]\ntables = [["smokes"]]\n',
        encoding="utf-8",
    )
    said = sottovoce("run", plan, "--records", own, "--html", page, "--json")
    assert said.json["respondents"] == 40
    read = Page(page.read_text(encoding="utf-8"))
    assert "A trial Own Variant" in read.said
    assert "Plan plan File not kept" in read.said
    assert "A trial: one program held all answers." in read.said
    assert "reveals the answers" in read.said
    assert "The announced analysis" in read.texts["h2"]


def test_hostile_names_are_only_names() -> None:
    survey = hostile_survey()
    rows = [dict.fromkeys(survey.names, name) for name in survey.names] * 5
    records = Records.from_rows(survey, rows)
    outcome = simulate(RRIndependent.with_keep(survey, 0.6), records)
    evil = " ".join(HOSTILE)
    done = Finished(outcome=outcome, rows=[{evil: evil, "share": 0.5}], notes=(evil,))
    read = Page(run_page(evil, done))
    assert {tag for tag, _ in read.elements}.isdisjoint({"script", "img", "iframe"})
    assert not any(name.startswith("on") for _, attrs in read.elements for name in attrs)
    assert "\u202e" not in read.said


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (
            ("run", "rr-table-1", "--html", "p.html"),
            "'rr-table-1' is a reproduction; expected --plot",
        ),
        ((*SMALL, "--out", "o", "--html", "o/result.json"), "--out writes this file"),
        ((*SMALL, "--html", "."), "is a directory"),
    ],
)
def test_refused(
    command: tuple[str, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert says in complaint(sottovoce(*command))
    assert not list(tmp_path.rglob("*.html"))
