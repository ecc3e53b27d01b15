"""Plans of every variant, and of one's own, pinned by the digest of its file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from protocol import Variant
from protocol.errors import UsageError
from protocol.session.variant import plain_parameters
from protocol.variants import BUILT_IN
from scenarios import read_plan
from scenarios.surveys.members import read_member
from tests.scenarios.command import complaint, sottovoce
from tests.scenarios.survey_folders import PLANS, ROWS, closing_plan, plan_file, table

OWN = '''\
"""A variant in a file of its own."""

import math
import numpy as np
from protocol import FrequencyOracle, KeepUniform


class Quiet(FrequencyOracle, frozen=True):
    """Keeps an answer with probability 0.6."""

    name = "quiet"

    @property
    def randomizer(self) -> KeepUniform:
        """The same for everybody."""
        return KeepUniform.with_keep(self.survey.cells, p=0.6)
'''
PLAN = """
title = "Habit"
variant = "quiet.py:Quiet"

[[attributes]]
name = "smokes"
categories = ["no", "yes"]
"""


def planned(folder: Path, text: str) -> Variant:
    return read_plan(plan_file(folder, text)).variant


def own_plan(folder: Path, source: str = OWN) -> Path:
    """A plan with a variant beside it."""
    folder.mkdir(exist_ok=True)
    (folder / "quiet.py").write_text(source)
    return plan_file(folder, PLAN)


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_variant_can_be_planned(name: str, tmp_path: Path) -> None:
    made = planned(tmp_path, PLANS[name])
    assert made.name == name
    keys = tmp_path / "keys"
    said = sottovoce("keys", tmp_path / "plan.toml", "--count", 6, "--out", keys)
    assert said.code == 0, said.err
    assert plain_parameters(read_member(keys / "party-1").charter.variant) == plain_parameters(made)


def test_parameters_of_a_plan_are_those_of_its_variant(tmp_path: Path) -> None:
    plan = PLANS["rr-clusters"].replace("td = 0.1", 'td = 0.2\nsums = {profile = "literal"}')
    parameters = plain_parameters(planned(tmp_path, plan))
    assert parameters["td"] == 0.2
    assert parameters["sums"]["profile"] == "literal"


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        ("rrba", "mix = 0.5", "mixed = 0.5", "variant 'rrba' has no parameter 'mixed'; did you"),
        ("rr-joint", "p = 0.6", "k = 2", "variant 'rr-joint' has no parameter 'k'; it has "),
        ("rr-joint", "p = 0.6", "", "variant 'rr-joint': expected p or epsilon"),
        ("rr-joint", "p = 0.6", 'p = "0.6"', "parameter 'p' = '0.6': expected a number"),
        ("rr-joint", "p = 0.6", "p = 0.6\nepsilon = 1.0", "expected p or epsilon, not both"),
        ("pair-rr", "p = 0.3", "epsilon = 0.3", "variant 'pair-rr' has no parameter 'epsilon'"),
        ("rr-clusters", "tv = 6", "", "cannot be made: 'tv' is missing"),
        (
            "rr-clusters",
            "tv = 6",
            "tv = 0",
            "'tv' = 0: expected a whole number of at least 1",
        ),
        ("privkv", "[[keys]]", "[[likings]]", "expected either [[attributes]] or [[keys]]"),
        ("privkv", "values = [-1.0, 1.0]", "values = [-1.0, 2.0]", "expected a number in [-1, 1]"),
        ("privkv", "[[keys]]", "[[attributes]]", "no field 'values' in attributes; it has name"),
        ("numeric-mean", '"0", "1"', '"none", "one"', "'none'"),
    ],
)
def test_what_does_not_fit_is_named(
    name: str, old: str, new: str, says: str, tmp_path: Path
) -> None:
    assert old in PLANS[name]
    plan = plan_file(tmp_path, PLANS[name].replace(old, new))
    said = sottovoce("keys", plan, "--count", 6, "--out", tmp_path / "keys")
    assert says in complaint(said)
    assert not (tmp_path / "keys").exists()


@pytest.mark.parametrize(
    "closes",
    ['"2026-12-15T18:00:00Z"', "2026-12-15T18:00:00Z", "2026-12-15 19:30:00.000+01:30"],
)
@pytest.mark.parametrize("name", ["rr-joint", "privkv"])
def test_a_plan_says_until_when_it_waits(name: str, closes: str, tmp_path: Path) -> None:
    made = planned(tmp_path, closing_plan(closes, name))
    assert made.survey.closes == "2026-12-15T18:00:00Z"
    assert made.patience is None
    for ever in (PLANS[name], closing_plan('""', name)):
        assert planned(tmp_path, ever).survey.closes == ""
        assert planned(tmp_path, ever).patience in (20, 60)


@pytest.mark.parametrize(
    ("closes", "says"),
    [
        ("2026-12-15T18:00:00", "closes 2026-12-15T18:00:00: expected an offset from UTC, such as"),
        ("2026-12-15", "closes '2026-12-15': expected a moment such as '2026-12-15T18:00:00Z'"),
        ("18:00:00", "closes '18:00:00': expected a moment"),
        ("2026", "closes '2026': expected a moment"),
        ('"2026-12-15T19:00:00+01:00"', "closes '2026-12-15T19:00:00+01:00': expected a moment"),
        ("2026-12-15T18:00:00.5Z", "closes 2026-12-15T18:00:00.500000Z: expected whole seconds"),
        ("0001-01-01T00:00:00+01:00", "expected a year from 1 to 9999"),
        (
            "2026-12-15T18:00:00Z\npatience = 60",
            "line 5, column 12: patience: expected none in a plan with closes",
        ),
    ],
)
def test_no_other_moment_can_be_planned(closes: str, says: str, tmp_path: Path) -> None:
    plan = plan_file(tmp_path, closing_plan(closes))
    said = complaint(sottovoce("keys", plan, "--count", 6, "--out", tmp_path / "keys"))
    assert says in said
    assert said.startswith(f"{plan}: line ")
    assert not (tmp_path / "keys").exists()


def test_a_variant_of_ones_own_is_pinned(tmp_path: Path) -> None:
    plan, keys = own_plan(tmp_path), tmp_path / "keys"
    digest = hashlib.sha256(OWN.encode()).hexdigest()
    said = sottovoce("keys", plan, "--count", 2, "--out", keys)
    assert said.code == 0, said.err
    assert f"every member takes Quiet in a file with SHA-256 {digest}" in said.out
    own = f"{tmp_path / 'quiet.py'}:Quiet"
    assert read_member(keys / "party-1", own).charter.variant.name == "quiet"

    answer = ("answer", keys / "party-1", "--waiting", 0, "--connect", "127.0.0.1:1")
    records = ("--records", table(tmp_path / "r.csv", "no,young"))
    assert f"SHA-256 {digest}; expected --variant" in complaint(sottovoce(*answer, *records))

    other = tmp_path / "other"
    own_plan(other, OWN.replace("0.6", "0.99"))
    refused = complaint(sottovoce(*answer, *records, "--variant", f"{other / 'quiet.py'}:Quiet"))
    assert digest in refused
    assert hashlib.sha256((other / "quiet.py").read_bytes()).hexdigest() in refused


def test_a_party_whose_variant_needs_it_has_the_whole_roster(tmp_path: Path) -> None:
    source = OWN.replace('name = "quiet"', 'name = "quiet"\n    whole_roster = True')
    plan, keys = own_plan(tmp_path, source), tmp_path / "keys"
    assert sottovoce("keys", plan, "--count", 3, "--out", keys).code == 0
    own, folder = f"{tmp_path / 'quiet.py'}:Quiet", keys / "party-2"
    member, aggregator = read_member(folder, own), read_member(keys / "aggregator", own)
    assert member.charter.roster == aggregator.charter.roster
    assert member.charter.survey_id == aggregator.charter.survey_id
    assert member.identity.name == member.charter.roster.parties[1] == "party-2"
    roster = json.loads((folder / "roster.json").read_text())
    for changed, says in (
        (roster["members"][:-1], "its root is not the one in charter.json"),
        ([*roster["members"][::-1]], "the first member of a roster is 'aggregator'"),
    ):
        (folder / "roster.json").write_text(json.dumps({"members": changed}))
        with pytest.raises(UsageError, match=says):
            read_member(folder, own)


def test_the_session_is_that_of_the_pinned_file(tmp_path: Path) -> None:
    own_plan(tmp_path)
    keys, own = tmp_path / "keys", f"{tmp_path / 'quiet.py'}:Quiet"
    sottovoce("keys", tmp_path / "plan.toml", "--count", 2, "--out", keys)
    session = read_member(keys / "party-1", own).charter.session
    # A charter that names another file is of another session, so nobody joins with it.
    other = OWN.replace("0.6", "0.99").encode()
    (tmp_path / "quiet.py").write_bytes(other)
    path = keys / "party-1" / "charter.json"
    pinned, found = (hashlib.sha256(text).hexdigest() for text in (OWN.encode(), other))
    path.write_text(path.read_text().replace(pinned, found))
    assert read_member(keys / "party-1", own).charter.session != session


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("import scipy.stats", "quiet.py:13: imports scipy.stats; a variant of a real survey may"),
        ("from scenarios import Scenario", "imports scenarios"),
        ("from . import beside", "imports .; "),
        ("from .beside import more", "imports .; "),
        ("def f(): import beside", "imports beside"),
        ("import winreg", "imports winreg"),
        ("x = (", "'(' was never closed"),
    ],
)
def test_what_a_pinned_file_may_not_import(line: str, says: str, tmp_path: Path) -> None:
    plan = own_plan(tmp_path, f"{OWN}\n{line}\n".replace("quiet.py:13", ""))
    for beside in ("beside", "winreg"):
        (tmp_path / f"{beside}.py").write_text("more = 1\n")
    said = sottovoce("keys", plan, "--count", 2, "--out", tmp_path / "keys")
    assert says.replace("quiet.py:13", f"quiet.py:{OWN.count(chr(10)) + 2}") in complaint(said)


def test_nothing_beside_a_pinned_file_is_found(tmp_path: Path) -> None:
    plan = own_plan(tmp_path, OWN + '\n__import__("lying_beside")\n')
    (tmp_path / "lying_beside.py").write_text("more = 1\n")
    said = sottovoce("keys", plan, "--count", 2, "--out", tmp_path / "keys")
    assert "No module named 'lying_beside'" in complaint(said)


@pytest.mark.parametrize("name", ["rr-joint", ""])
def test_a_variant_of_ones_own_has_a_name_of_its_own(name: str, tmp_path: Path) -> None:
    plan = own_plan(tmp_path, OWN.replace('name = "quiet"', f"name = {name!r}"))
    said = sottovoce("keys", plan, "--count", 2, "--out", tmp_path / "keys")
    assert f"Quiet has the name {name!r}; expected one that is not a built-in" in complaint(said)


def test_a_built_in_variant_takes_no_file(tmp_path: Path) -> None:
    own_plan(tmp_path)
    keys = tmp_path / "keys"
    sottovoce("keys", plan_file(tmp_path, PLANS["smp"]), "--count", 6, "--out", keys)
    answer = ("answer", keys / "party-1", "--waiting", 0, "--connect", "127.0.0.1:1", "--records")
    own = ("--variant", f"{tmp_path / 'quiet.py'}:Quiet")
    said = sottovoce(*answer, table(tmp_path / "r.csv", *ROWS), *own)
    assert "its variant is smp, a built-in one" in complaint(said)
