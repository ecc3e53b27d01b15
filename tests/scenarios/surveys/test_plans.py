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
from tests.scenarios.command import sottovoce
from tests.scenarios.survey_folders import PLANS, closing_plan, plan_file

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


def test_a_variant_of_ones_own_is_pinned(tmp_path: Path) -> None:
    plan, keys = own_plan(tmp_path), tmp_path / "keys"
    digest = hashlib.sha256(OWN.encode()).hexdigest()
    said = sottovoce("keys", plan, "--count", 2, "--out", keys)
    assert said.code == 0, said.err
    assert f"every member takes Quiet in a file with SHA-256 {digest}" in said.out
    own = f"{tmp_path / 'quiet.py'}:Quiet"
    assert read_member(keys / "party-1", own).charter.variant.name == "quiet"


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
