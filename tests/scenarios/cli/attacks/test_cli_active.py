"""``sottovoce attack --active``: verdicts, scripts that replay, JSON, engines, and bad input."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from protocol.attack.active.active import SCRIPTS, attack_actively
from protocol.variants import BUILT_IN, RRJoint
from scenarios.cli.example_variants import example
from tests.scenarios.command import ROOT, complaint, sottovoce

PLANTED = ROOT / "tests/protocol/attack/planted/reports.py"
UNWORRIED = f"{PLANTED}:Unworried"
SHUFFLED = f"{ROOT / 'docs/examples/shuffler.py'}:Shuffled"
FEW = ("--active", "--scripts", 48)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what was found of a variant that gives its record away."""
    folder: Path = tmp_path_factory.mktemp("active")
    attack = ("attack", UNWORRIED, *FEW, "--hostile", "aggregator", "--set", "p=0.5")
    assert sottovoce(*attack, "--out", folder).code == 1
    return folder


def test_help_says_how_many_scripts_there_are() -> None:
    said = " ".join(sottovoce("attack", "--help").out.split())
    assert f"number of scripts to play. [default: {SCRIPTS:,}]" in said


@pytest.mark.slow
def test_a_variant_that_keeps_its_word() -> None:
    said = sottovoce("attack", "rr-joint", *FEW)
    assert said.code == 0
    verdict, _, _, about, charged, *_ = map(str.strip, said.out.splitlines())
    assert verdict.startswith(
        "Not accused: party-1 revealed nothing that its ledger does not charge"
    )
    assert verdict.endswith("; this does not show that nothing leaks.")
    assert about.startswith("rr-joint; hostile: aggregator; party-1's record differs; 48 scripts, ")
    assert charged.startswith("charged: Report, epsilon 2.303: one draw of KeepUniform on smokes")


@pytest.mark.slow
def test_a_variant_that_does_not(out: Path) -> None:
    said = sottovoce("attack", UNWORRIED, *FEW)
    assert said.code == 1
    verdict, *rest = said.out.splitlines()
    finding, move, *_ = rest[rest.index("", 1) + 1 :]
    changed = r"(smokes: no or yes|drinks: \w+ or \w+): it says "
    assert re.match(f"Accused: {changed}", verdict)
    assert re.match(f"1\\. outward: {changed}", finding)
    assert re.match(r"  (insert|rewrite) Ask 0 ", move)
    assert "  --out DIR writes these scripts, for --replay" in rest
    written = sorted(path.name for path in out.iterdir())
    assert written[0] == "active.json"
    assert written[1:] == [f"script-{i}.json" for i in range(1, len(written))]
    assert len(written) > 1


@pytest.mark.slow
def test_a_script_replays(out: Path) -> None:
    path = out / "script-1.json"
    said = sottovoce("attack", UNWORRIED, "--active", "--replay", path)
    assert said.code == 1
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert said.out.startswith(f"Accused: {kept['what']}")
    assert re.search(r"^  (insert|rewrite) Ask 0 ", said.out, re.MULTILINE)
    found = json.loads(sottovoce("attack", UNWORRIED, "--active", "--replay", path, "--json").out)
    assert (found[0]["rule"], found[0]["what"]) == (kept["rule"], kept["what"])
    assert found[0]["script"] == kept["script"]


def test_a_script_brings_nothing_out_of_a_variant_that_is_repaired(
    out: Path, tmp_path: Path
) -> None:
    source = PLANTED.read_text(encoding="utf-8")
    assert "not records.codes[:, place].any()" in source
    repaired = tmp_path / "repaired.py"
    repaired.write_text(source.replace("not records.codes[:, place].any()", "False"), "utf-8")
    said = sottovoce(
        "attack", f"{repaired}:Unworried", "--active", "--replay", out / "script-1.json"
    )
    assert said.code == 0
    assert said.out.startswith("Not accused: this script brings nothing out any more.")


@pytest.mark.slow
def test_json_is_what_the_attack_found(out: Path) -> None:
    few = ("--active", "--scripts", 8)
    found = sottovoce("attack", "rr-joint", *few, "--seed", 3, "--target", 2, "--json").json
    expected = attack_actively(*example(RRJoint, {}), scripts=8, seed=3, target=1)
    assert (found["variant"], found["target"], found["accused"]) == ("rr-joint", "party-2", False)
    assert (found["scripts"], found["behaviours"]) == (expected.tried, expected.covered)
    assert found["findings"] == []
    assert [one["kind"] for one in found["charged"]] == [one.kind for one in expected.charged]
    kept = json.loads((out / "active.json").read_text(encoding="utf-8"))
    assert kept["accused"]
    assert kept["findings"][0]["script"]["moves"]


def test_members_who_lie_are_chosen_and_kept_with_their_scripts(out: Path, tmp_path: Path) -> None:
    few = ("--active", "--scripts", 2, "--trials", 20, "--json")
    every = sottovoce("attack", SHUFFLED, *few).json
    assert every["hostile"] == ["aggregator", "shuffler"]
    assert [one["kind"] for one in every["charged"]] == ["Reports"]
    alone = sottovoce("attack", SHUFFLED, *few, "--hostile", "shuffler").json
    assert (alone["hostile"], alone["charged"]) == (["shuffler"], [])
    path = tmp_path / "script-1.json"
    kept = json.loads((out / path.name).read_text(encoding="utf-8"))
    assert kept["hostile"] == ["aggregator"]
    replay = ("attack", UNWORRIED, "--active", "--replay")
    assert sottovoce(*replay, out / path.name).code == 1
    path.write_text(json.dumps({**kept, "hostile": ["shuffler"]}), encoding="utf-8")
    assert complaint(sottovoce(*replay, path)) == (
        f"{path}: hostile 'shuffler': expected some of aggregator"
    )


@pytest.mark.slow
def test_an_engine_finds_the_same(out: Path, tmp_path: Path) -> None:
    jobs = ("--hostile", "aggregator", "--engine", "processes", "--jobs", 2)
    said = sottovoce("attack", UNWORRIED, *FEW, *jobs, "--out", tmp_path, "--set", "p=0.5")
    assert said.code == 1
    for path in out.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


@pytest.mark.slow
def test_all_variants_at_once(tmp_path: Path) -> None:
    said = sottovoce("attack", "all", "--active", "--scripts", 6, "--out", tmp_path)
    assert said.code == 0
    verdict = said.out.splitlines()[0]
    assert verdict.startswith(f"Not accused: {len(BUILT_IN)} variants, 120 scripts; ")
    assert {path.name for path in tmp_path.iterdir()} == set(BUILT_IN)
    assert said.out.count("charged: ") >= len(BUILT_IN)
    found = sottovoce("attack", "all", "--active", "--scripts", 2, "--json").json
    assert [one["variant"] for one in found] == list(BUILT_IN)


def test_a_script_of_something_else(out: Path, tmp_path: Path) -> None:
    kept = json.loads((out / "script-1.json").read_text(encoding="utf-8"))
    path = tmp_path / "script.json"

    def replayed(variant: str = UNWORRIED, **changes: object) -> str:
        path.write_text(json.dumps({**kept, **changes}), encoding="utf-8")
        return complaint(sottovoce("attack", variant, "--active", "--replay", path))

    assert replayed("rr-joint") == f"{path}: a script for 'unworried', not for 'rr-joint'"
    assert replayed(script={"moves": [{"does": "smile"}]}).startswith(f"{path}: not a script: ")
    assert replayed(target=9) == f"{path}: target 9: expected 1 to 4"
    assert replayed(parameters={}).startswith(f"{path}: ")
    assert replayed(survey={"title": "x", "attributes": []}).startswith(f"{path}: ")
    assert replayed(seed=-1).startswith(f"{path}: ")
