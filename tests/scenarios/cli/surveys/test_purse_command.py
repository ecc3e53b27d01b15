"""``sottovoce purse`` shows counts and sums, nobody's id, and merges what was lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parties.keeping.purse import PAID, open_purse
from protocol.accounting.spending import Cost
from tests.cases.purses import ONE, pay
from tests.cases.purses import purse as make_purse
from tests.scenarios.command import complaint, sottovoce
from tests.scenarios.survey_folders import make_folders


@pytest.fixture
def purse(tmp_path: Path) -> Path:
    """Paid from by three spellings for two surveys, and without ids for a third."""
    make_purse(tmp_path, "purse")
    return tmp_path / "purse"


def test_what_was_spent_is_listed_by_survey(purse: Path) -> None:
    before = (purse / PAID).read_bytes()
    said = sottovoce("purse", "--purse", purse)
    assert (said.code, said.err) == (0, "")
    assert "Zed" not in said.out
    assert "bob" not in said.out
    assert (purse / PAID).read_bytes() == before


def test_an_infinite_sum_is_listed(tmp_path: Path) -> None:
    pay(tmp_path, ["ann"], ONE, Cost(float("inf")))
    assert "at most ε ∞ for each" in sottovoce("purse", "--purse", tmp_path).out
    said = sottovoce("purse", "--purse", tmp_path, "--json")
    assert json.loads(said.out)["spent"]["epsilon"] is None


def test_an_empty_purse_is_listed(tmp_path: Path) -> None:
    with open_purse(tmp_path):
        pass
    said = sottovoce("purse", "--purse", tmp_path)
    assert (said.code, said.out) == (0, f"purse  {tmp_path}: nothing was spent from it yet.\n")
    assert json.loads(sottovoce("purse", "--purse", tmp_path, "--json").out)["surveys"] == []


def test_the_usual_purse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    usual = tmp_path / "sottovoce" / "purse"
    assert complaint(sottovoce("purse")) == f"{usual}: nothing was spent from it yet"
    assert not usual.exists()


def test_what_is_merged_is_a_purse_or_a_members_folder(purse: Path, tmp_path: Path) -> None:
    keys, empty, into = make_folders(tmp_path), tmp_path / "empty", tmp_path / "into"
    empty.mkdir()
    for source, says in (
        (empty, f"{empty}: expected a purse, or a member's folder"),
        (tmp_path / "nowhere", f"{tmp_path / 'nowhere'}: expected a purse, or a member's folder"),
        (keys / "aggregator", "is the aggregator's, which pays for nobody"),
    ):
        # What comes before it is not merged either.
        said = sottovoce("purse", "--purse", into, "--merge", purse, "--merge", source)
        assert says in complaint(said)
        assert not into.exists()
    spoilt = tmp_path / "spoilt"
    spoilt.mkdir()
    (spoilt / PAID).write_text("nothing\n")
    assert "is not known" in complaint(sottovoce("purse", "--purse", into, "--merge", spoilt))
    assert not into.exists()
