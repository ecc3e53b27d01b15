"""From a design to a plan: the lines that it prints make the variant that it ranked."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from protocol import Survey
from scenarios import read_plan
from scenarios.designing.candidates import Wanted, candidates
from scenarios.designing.planned import plan_lines
from scenarios.designing.targets import parse_target
from tests.scenarios.command import complaint, sottovoce
from tests.scenarios.designing.surveys import survey_of
from tests.tiers import paired


def plan_of(survey: Survey, *lines: str) -> str:
    """The text of a plan that begins with these lines."""
    asked = (
        f"[[attributes]]\nname = {json.dumps(each.name)}\n"
        f"categories = {json.dumps([*each.categories])}\n"
        for each in survey.attributes
    )
    return "\n".join((f"title = {json.dumps(survey.title)}", *lines, *asked))


@pytest.mark.parametrize(
    ("target", "epsilon"), paired(["margins", "pairs", "q2,q0"], [0.02, 1.0, 7.3])
)
def test_every_candidate_is_read_back(tmp_path: Path, epsilon: float, target: str) -> None:
    survey = survey_of(2, 3, 4)
    path = tmp_path / "plan.toml"
    wanted = Wanted(survey, epsilon, parse_target(survey, target), 30, dropout=0.3, delta=1e-6)
    for each in candidates(wanted):
        if each.variant is not None:
            lines = plan_lines(each.variant, epsilon, each.among)
            path.write_text(plan_of(survey, *lines), encoding="utf-8")
            assert read_plan(path).variant == each.variant, lines
            assert max(map(len, lines)) < 200, lines


def test_what_is_usual_is_not_said() -> None:
    survey = survey_of(2, 3, 4)
    wanted = Wanted(survey, 1.0, parse_target(survey, "margins"))
    made = {each.name: each.variant for each in candidates(wanted)}
    expected = {
        "smp:grr": ('variant = "smp"', "epsilon = 1.0", 'oracle = "grr"'),
        "rr-independent": ('variant = "rr-independent"', "epsilon = 1.0"),
        "secure-sum": ('variant = "secure-sum"', 'noise = "none"'),
        "rrba": ('variant = "rrba"', "k = 1", "epsilon = 1.0", "block = 250"),
    }
    for name, lines in expected.items():
        variant = made[name]
        assert variant is not None
        assert plan_lines(variant, 1.0) == lines


@pytest.mark.slow
def test_from_design_to_plan(tmp_path: Path) -> None:
    """The lines of the recommendation make the plan of its design."""
    survey = survey_of(2, 3)
    path, out = tmp_path / "plan.toml", tmp_path / "designs.csv"
    path.write_text(plan_of(survey), encoding="utf-8")
    design = ("design", path, "--n", "20000", "--epsilon", "1,2")
    found = sottovoce(*design, "--json").json["designs"]
    said = sottovoce(*design, "--out", out).out
    rows = list(csv.DictReader(io.StringIO(out.read_text(encoding="utf-8"))))
    assert [row["plan"] for row in rows] == [row["plan"] for row in found]
    for epsilon in (1.0, 2.0):
        best = next(row for row in found if row["epsilon"] == epsilon)
        path.write_text(plan_of(survey, *best["plan"].splitlines()), encoding="utf-8")
        assert read_plan(path).variant.name == best["variant"]
    name, lines = taken(said)
    [best] = [row for row in found if f"{row['name']} at epsilon {row['epsilon']:g}" == name]
    assert lines == best["plan"]
    path.write_text(plan_of(survey), encoding="utf-8")
    turned = ("design", path, "--n", "20000", "--error", "0.05")
    least = sottovoce(*turned, "--json").json["needed"][0]
    name, lines = taken(sottovoce(*turned).out)
    assert name == f"{least['name']} at epsilon {least['epsilon']:g} with 20,000 respondents"
    assert lines == least["plan"]


def taken(said: str) -> tuple[str, str]:
    """The design that is recommended, and its lines for the plan."""
    name = said.split("Take this: ")[1].splitlines()[0]
    below = said.split("In the plan, in place of its variant and parameters:\n")[1]
    return name, "\n".join(line.strip() for line in below.split("\n\n")[0].splitlines())


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ("smp:grr", 'expected variant = "smp" and oracle = "grr"'),
        ("spl:olhh", "oracle = one of grr, sue"),
        (
            "rr-ind-joint:together",
            'expected variant = "rr-ind-joint" with the parameters',
        ),
    ],
)
def test_a_plan_with_the_name_of_a_design(tmp_path: Path, named: str, says: str) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(plan_of(survey_of(2, 3), f'variant = "{named}"'), encoding="utf-8")
    assert says in complaint(sottovoce("preflight", path))
