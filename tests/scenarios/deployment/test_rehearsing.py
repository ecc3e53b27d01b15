"""``rehearse``: every variant, and one of a user's own, among processes over TLS."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from protocol.variants import BUILT_IN
from tests.scenarios.command import Said, complaint, python, sottovoce
from tests.scenarios.deployment.test_plans import own_plan
from tests.scenarios.survey_folders import PLAN, PLANS, RECORDS, ROWS, plan_file, table


def rehearsed(plan: Path, records: Path, out: Path, *options: object) -> Said:
    named = ("--records", records, "--out", out)
    return python("-m", "scenarios", "rehearse", plan, *named, *options)


def accepted(out: Path, *options: object) -> bool:
    """Whether the audit accepts what a rehearsal has left."""
    record = out / "result" / "transcript.svt"
    published = ("--checkpoint", record.with_name("transcript.checkpoint"))
    folder = ("--member", out / "members" / "aggregator")
    said = sottovoce("audit", record, *published, *folder, "--json", *options)
    return bool(json.loads(said.out)["accepted"])


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILT_IN)
def test_every_variant(name: str, tmp_path: Path) -> None:
    records, out = tmp_path / "records.csv", tmp_path / "out"
    records.write_text(RECORDS[name])
    said = rehearsed(plan_file(tmp_path, PLANS[name]), records, out, "--parties", 6, "--json")
    assert (said.json["counted"], said.json["attempt"]) == (6, 1)
    assert said.json["transport"] == "tls"
    assert accepted(out)


def killed_and_resumed(name: str, folder: Path, parties: int) -> None:
    records, out = folder / "records.csv", folder / "out"
    records.write_text(RECORDS[name])
    asked = ("--level", 0.8, "--about", "population")
    options = ("--parties", parties, "--kill", "aggregator", "--json", *asked)
    said = rehearsed(plan_file(folder, PLANS[name]), records, out, *options)
    assert said.err.startswith("killed\n"), said.err
    assert said.code == 0, said.err
    assert (said.json["counted"], said.json["attempt"]) == (parties, 1)
    intervals = said.json["estimate"]["intervals"]
    assert (intervals["level"], intervals["about"]) == (0.8, "population")
    assert accepted(out)


def test_an_aggregator_that_is_killed_goes_on(tmp_path: Path) -> None:
    killed_and_resumed("secure-sum", tmp_path, 6)


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILT_IN)
def test_every_variant_with_its_aggregator_killed(name: str, tmp_path: Path) -> None:
    killed_and_resumed(name, tmp_path, 6)


def test_a_variant_of_ones_own_with_a_party_killed(tmp_path: Path) -> None:
    plan, held, out = own_plan(tmp_path / "plan"), tmp_path / "held", tmp_path / "out"
    held.mkdir()
    for name in ("anna", "bert", "carl"):
        table(held / f"{name}.csv", "yes,old")
    said = rehearsed(plan, held, out, "--kill", "party")
    assert "anna" in said.err or said.code == 0
    assert "of 3 parties" in said.out
    own = f"{plan.parent / 'quiet.py'}:Quiet"
    assert f"to audit it: sottovoce audit {out}/result/transcript.svt" in said.err
    assert said.err.rstrip().endswith(f"--member {out}/members/aggregator --variant {own}")
    assert accepted(out, "--variant", own)


@pytest.mark.parametrize(
    ("rows", "options", "says"),
    [
        (ROWS, (), "expected --parties N"),
        (ROWS, ("--parties", 4), "3 records, fewer than 4 parties"),
        (ROWS * 3, ("--parties", 2), "party-1 would hold 5 records, at most 3 allowed"),
        (("no,ancient",), ("--parties", 1), "unknown category 'ancient'"),
        (ROWS, ("--parties", 1), "quorum = 2: expected at most 1"),
    ],
)
def test_what_cannot_be_rehearsed(
    rows: tuple[str, ...], options: tuple[object, ...], says: str, tmp_path: Path
) -> None:
    records, out = table(tmp_path / "r.csv", *rows), tmp_path / "out"
    named = ("--records", records, "--out", out)
    said = sottovoce("rehearse", plan_file(tmp_path, PLAN), *named, *options)
    assert says in complaint(said)
    assert not list(out.glob("*"))


def test_records_of_a_folder(tmp_path: Path) -> None:
    plan, held, out = plan_file(tmp_path, PLAN), tmp_path / "held", tmp_path / "out"
    held.mkdir()
    command = ("rehearse", plan, "--records", held, "--out", out)
    assert "has no .csv files" in complaint(sottovoce(*command))
    table(held / "Anna.csv", *ROWS)
    assert "party id 'Anna'" in complaint(sottovoce(*command))
    assert "--parties: " in complaint(sottovoce(*command, "--parties", 2))
    out.mkdir(exist_ok=True)
    (out / "mine").write_text("")
    table(held / "anna.csv", *ROWS)
    (held / "Anna.csv").unlink()
    assert "exists and is not empty" in complaint(sottovoce(*command))
