"""``keys``, and what ``aggregate`` and ``answer`` refuse before they connect."""

from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path

import pytest

from protocol import SecureSum
from protocol.estimators.analysis import Analysis
from scenarios.surveys.members import read_member
from scenarios.wording.withstanding import conspiracy_sentences
from tests.scenarios.command import complaint, sottovoce
from tests.scenarios.programs import Program
from tests.scenarios.survey_folders import (
    ANALYSIS,
    COINS,
    PLAN,
    PLANS,
    ROWS,
    aggregating,
    make_folders,
    plan_file,
    table,
)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders for anna, bert and carl."""
    return make_folders(tmp_path_factory.mktemp("survey"))


def test_what_was_announced_is_in_every_charter(tmp_path: Path) -> None:
    keys = make_folders(tmp_path, PLAN + ANALYSIS)
    for member in ("aggregator", "anna", "bert", "carl"):
        assert read_member(keys / member).charter.analysis == Analysis(
            tables=(("smokes",), ("age", "smokes")), level=0.9, projection="clip"
        )
    # A party is told before it answers.
    connect = (
        "--waiting",
        0,
        "--connect",
        "127.0.0.1:1",
        "--records",
        table(tmp_path / "r.csv", *ROWS),
    )
    told, _ = sottovoce("answer", keys / "anna", *connect).err.splitlines()
    assert told == (
        "announced: 2 tables (smokes, age by smokes), intervals at 90 % about the respondents, "
        "projection clip"
    )


def test_a_charter_does_not_choose_its_session(tmp_path: Path) -> None:
    keys = make_folders(tmp_path, PLAN + ANALYSIS)
    session, path = read_member(keys / "anna").charter.session, keys / "anna" / "charter.json"
    charter = json.loads(path.read_text())
    path.write_text(json.dumps({**charter, "analysis": None}))
    assert read_member(keys / "anna").charter.session != session
    path.write_text(json.dumps({**charter, "session": session.hex()}))
    connect = (
        "--waiting",
        0,
        "--connect",
        "127.0.0.1:1",
        "--records",
        table(tmp_path / "r.csv", *ROWS),
    )
    assert "unknown field 'session'" in complaint(sottovoce("answer", keys / "anna", *connect))


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("[::1]:1", "[::1]:1: "),
    ],
)
def test_no_connection(where: str, says: str, keys: Path, tmp_path: Path) -> None:
    records = table(tmp_path / "r.csv", *ROWS)
    answer = ("answer", keys / "carl", "--waiting", 0, "--records", records)
    said = sottovoce(*answer, "--connect", where)
    assert says in complaint(said, os.EX_UNAVAILABLE)


@pytest.mark.parametrize("lost", [True, False])
@pytest.mark.parametrize(
    "file", ["charter.json", "identity.key", "certificate.pem", "authority.pem", "place.json"]
)
def test_a_broken_folder(file: str, lost: bool, keys: Path, tmp_path: Path) -> None:
    folder = tmp_path / "anna"
    shutil.copytree(keys / "anna", folder)
    (folder / file).unlink()
    if not lost:
        (folder / file).write_text("garbage")
    records = table(tmp_path / "r.csv", *ROWS)
    said = sottovoce(
        "answer", folder, "--waiting", 0, "--connect", "127.0.0.1:1", "--records", records
    )
    assert str(folder) in complaint(said)
    assert ("no such file" in said.err) == lost


def test_a_plan_round_trips_through_the_charter(keys: Path) -> None:
    members = [read_member(keys / name) for name in ("aggregator", "anna", "bert", "carl")]
    charter = members[0].charter
    for member in members[1:]:
        assert member.charter.survey_id == charter.survey_id
        assert member.charter.roster == charter.roster.known_to(member.identity.name)
    assert [member.identity.name for member in members] == ["aggregator", "anna", "bert", "carl"]
    variant = charter.variant
    assert (variant.quorum, variant.max_records, variant.patience) == (2, 3, 20.0)
    assert math.isclose(sum(r.epsilon for r in variant.randomizers), 2.0, abs_tol=1e-9)
    assert members[1].folder.name == "anna"


@pytest.mark.parametrize("option", ["--withstand", "--honest"])
def test_clusters_by_reports_withstand_nobody(option: str, tmp_path: Path) -> None:
    plan = PLANS["rr-clusters"]
    where = ("--connect", "127.0.0.1:1", "--records", table(tmp_path / "r.csv", *ROWS[:1]))
    for dependence, says in (("rr", "'rr-clusters' sums nothing"), ("pair-rr", "127.0.0.1:1")):
        named = plan.replace("tv = 6", f'tv = 6\ndependence = "{dependence}"')
        keys = tmp_path / dependence
        made = sottovoce("keys", plan_file(tmp_path, named), "--count", 6, "--out", keys)
        assert made.code == 0, made.err
        said = sottovoce("answer", keys / "party-1", *where, option, 3, "--waiting", 0)
        code = 2 if "nothing" in says else os.EX_UNAVAILABLE
        assert (said.code, said.out) == (code, "")
        *before, last = said.err.splitlines()
        assert says in last
        # Before anything else, a party learns how many may conspire.
        withstood = conspiracy_sentences(SecureSum().withstands(6))
        assert before == (list(withstood) if dependence == "pair-rr" else [])


SUMMED = PLANS["secure-sum"].replace("quorum = 4", "quorum = 2")


@pytest.mark.parametrize(
    ("plan", "demands", "why"),
    [
        (
            SUMMED,
            ("--withstand", 2),
            "the sum withstands 1 who conspire with the aggregator, and this party demands 2",
        ),
        (
            SUMMED,
            ("--withstand", 1, "--honest", 3),
            "the sum promises 2 honest parties, and this party demands 3",
        ),
        (
            COINS,
            ("--budget", 9),
            "whoever conspires: no bound; (epsilon 0.575801, delta 1e-06) if at least 2 of those "
            "in the sum are honest: it takes a consent of its own (--honest 2)",
        ),
        (
            COINS,
            ("--budget", 0.5, "--honest", 2),
            "costs 0.575801 at delta 1e-06 per respondent if at least 2 of those in the sum are "
            "honest; 0.5 of 0.5 is left",
        ),
    ],
)
def test_a_party_declines_a_sum_that_protects_it_too_little(
    plan: str, demands: tuple[object, ...], why: str, tmp_path: Path
) -> None:
    keys = make_folders(tmp_path, plan)
    records = table(tmp_path / "r.csv", *ROWS[:1])
    with aggregating(keys, tmp_path / "out") as (aggregator, where, before):
        assert before == ""
        heard = [aggregator.stderr.readline().rstrip() for _ in range(2)]
        assert heard == list(conspiracy_sentences(SecureSum().withstands(3)))
        reached = ("--connect", where, "--records", records)
        others = [Program("answer", keys / name, *reached) for name in ("bert", "carl")]
        try:
            said = sottovoce(
                "answer", keys / "anna", *reached, "--purse", tmp_path / "purse", *demands
            )
        finally:
            for other in others:
                other.kill()
                other.communicate()
    assert said.code == 1
    assert why in said.out.splitlines()[0]
    assert said.out.splitlines()[0].endswith("; epsilon 0 spent per respondent")


@pytest.mark.slow
def test_folders_do_not_grow_with_the_roster(tmp_path: Path) -> None:
    sizes = []
    for parties in (10, 1000):
        out = tmp_path / str(parties)
        made = sottovoce("keys", plan_file(tmp_path), "--count", parties, "--out", out)
        assert made.code == 0, made.err
        party = out / f"party-{1:0{len(str(parties))}}"
        assert {path.name for path in (out / "aggregator").iterdir()} == {
            *(path.name for path in party.iterdir() if path.name != "place.json"),
            "roster.json",
        }
        sizes.append(sum(path.stat().st_size for path in party.iterdir()))
        whole = (out / "aggregator" / "roster.json").stat().st_size
    # Of each hash of the proof, there are seven more.
    assert sizes[1] - sizes[0] < 1_000 < 50_000 < whole
