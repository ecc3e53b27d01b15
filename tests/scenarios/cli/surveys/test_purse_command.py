"""``sottovoce purse`` shows counts and sums, nobody's id, and merges what was lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parties.keeping.paying.payments import Release
from parties.keeping.purse import PAID, open_purse
from protocol import PartyId
from protocol.accounting.spending import Cost
from protocol.errors import UsageError
from tests.scenarios.command import complaint, sottovoce
from tests.scenarios.survey_folders import make_folders


def pay(folder: Path, ids: list[str] | None, survey: bytes, cost: Cost, attempt: int = 1) -> None:
    session = bytes([attempt]) + survey[1:]
    what = Release(survey=survey, session=session, party=PartyId("anna"), drawn=survey)
    with open_purse(folder) as purse:
        purse.pay(purse.payers(ids), what, cost=cost, heard=b"")


ONE, TWO, THREE = (letter * 32 for letter in (b"a", b"b", b"c"))


@pytest.fixture
def purse(tmp_path: Path) -> Path:
    """Paid from by three spellings for two surveys, and without ids for a third."""
    folder = tmp_path / "purse"
    pay(folder, ["Zed", "bob"], ONE, Cost(2.0))
    with open_purse(folder) as opened:
        with pytest.raises(UsageError) as asked:
            opened.check_spellings(["zed"])
        code = str(asked.value).partition("--different ")[2][:8]
        opened.settle(["zed"], same=False, different=code)
    pay(folder, ["zed"], TWO, Cost(1.0, 1e-6, (9,)))
    pay(folder, ["zed"], TWO, Cost(1.0, 1e-6, (9,)), attempt=2)
    pay(folder, None, THREE, Cost(0.5))
    return folder


def test_what_was_spent_is_listed_by_survey(purse: Path) -> None:
    before = (purse / PAID).read_bytes()
    said = sottovoce("purse", "--purse", purse)
    assert (said.code, said.err) == (0, "")
    if_honest = "if at least 9 of those in the sum are honest"
    assert said.out.splitlines() == [
        f"purse   {purse}: paid from by 3 people, for 3 surveys.",
        "survey  6161616161616161, 1 attempt as anna: at most ε 2 for each; paid by 2 people.",
        "survey  6262626262626262, 2 attempts as anna: at most ε 2 and δ 2e-06 for each "
        f"{if_honest}; paid by 1 person.",
        "survey  6363636363636363, 1 attempt as anna: at most ε 0.5 for each; paid without ids, so "
        "by anybody.",
        f"spent   at most ε 2.5 and δ 2e-06 for each {if_honest} in all surveys.",
        "apart   2 people of them read like somebody else and were told apart; were they not, it "
        f"would be at most ε 4.5 and δ 2e-06 for each {if_honest}.",
    ]
    assert (purse / PAID).read_bytes() == before


def test_the_same_as_json(purse: Path) -> None:
    said = sottovoce("purse", "--purse", purse, "--json")
    found = json.loads(said.out)
    coins = {"epsilon": 2.0, "delta": 2e-6, "honest": [9]}
    assert found["surveys"][1] == {
        "survey": TWO.hex(),
        "parties": ["anna"],
        "attempts": 2,
        "people": 1,
        "everybody": False,
        "recalled": False,
        "spent": coins,
    }
    assert [each["everybody"] for each in found["surveys"]] == [False, False, True]
    assert (found["people"], found["told_apart"], found["folder"]) == (3, 2, str(purse))
    assert found["spent"] == {**coins, "epsilon": 2.5}
    assert found["as_one"] == {**coins, "epsilon": 4.5}


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


def test_a_merged_purse_is_listed(purse: Path, tmp_path: Path) -> None:
    into = tmp_path / "into"
    said = sottovoce("purse", "--purse", into, "--merge", purse, "--json")
    assert said.err == f"{into}: 8 lines added\n"
    mine, its = json.loads(said.out), json.loads(sottovoce("purse", "--purse", purse, "--json").out)
    assert mine == {**its, "folder": str(into)}
    again = sottovoce("purse", "--purse", into, "--merge", purse, "--merge", into)
    assert again.err == f"{into}: 0 lines added\n"
