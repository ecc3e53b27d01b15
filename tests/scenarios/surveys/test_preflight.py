"""``preflight PLAN`` and ``preflight FOLDER``: whether everything is ready for a survey."""

from __future__ import annotations

import datetime
import socket
from pathlib import Path

import pytest

from parties.keeping.attempts import Allowance, open_answers
from parties.keeping.paying.payments import Release
from parties.keeping.purse import PAID, open_purse
from protocol import Coins, Masked, PartyId, SecureSum
from protocol.accounting.spending import Cost, event_cost
from protocol.variants import BUILT_IN
from scenarios.surveys.members import read_member
from scenarios.wording.withstanding import conspiracy_sentences
from tests.scenarios.command import complaint, sottovoce
from tests.scenarios.survey_folders import (
    COINS,
    PLANS,
    make_folders,
    people_table,
    plan_file,
)


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_plan_of_every_variant(name: str, tmp_path: Path) -> None:
    said = sottovoce("preflight", plan_file(tmp_path, PLANS[name]))
    assert said.code == 0
    lines = said.out.splitlines()
    about = [line.split()[0] for line in lines]
    sums = ["sums"] if name in SUMMED else []
    assert about == ["asked", "variant", "cost", *sums, "announced", "ready"]
    assert f" {name}" in lines[1]


SUMMED = ("secure-sum", "pair-counts", "pair-rr", "rr-clusters")
NOBODY = "obody may be missing: one sleeping party ends the attempt."


@pytest.mark.parametrize("name", SUMMED)
def test_how_many_may_conspire_and_be_missing(name: str, tmp_path: Path) -> None:
    plan = plan_file(tmp_path, PLANS[name])

    def sums(*options: object, code: int = 0) -> str:
        said = sottovoce("preflight", plan, *options)
        assert said.code == code, said.err
        [line] = [each for each in said.out.splitlines() if each.startswith("sums ")]
        return line.removeprefix("sums").strip()

    few, many = (" ".join(conspiracy_sentences(SecureSum().withstands(n))) for n in (9, 12))
    assert few.endswith(f" N{NOBODY}")
    assert (sums("--parties", 9), sums("--parties", 12)) == (few, many)
    assert sums() == (
        "It depends on how many take part: 4 of 6 parties may conspire with the aggregator or any "
        "reader of the record, "
        f"9 of 12, 39 of 50, 199 of 250. Below 10 parties n{NOBODY}"
    )
    assert sums("--parties", 2, code=1).startswith("does NOT fit 2 parties of which 0 may be")


def test_both_figures_of_a_sum_with_coins(tmp_path: Path) -> None:
    plan = plan_file(tmp_path, COINS)

    def cost(*options: object, code: int = 0) -> str:
        said = sottovoce("preflight", plan, *options)
        assert said.code == code, said.err
        [line] = [each for each in said.out.splitlines() if each.startswith("cost ")]
        return line.removeprefix("cost").strip()

    def figure(honest: int) -> float:
        event = Masked(Coins(400, 2**15, (("smokes",), ("age",))))
        return event_cost(event, honest=honest, delta=1e-6).epsilon

    assert cost("--parties", 12) == (
        f"Whoever conspires: no bound; (epsilon {figure(7):.6g}, delta 1e-06) if at least 7 of "
        "those in the sum are honest."
    )
    assert cost() == (
        "Whoever conspires: no bound; at delta 1e-06 it depends on how many take part: epsilon "
        f"{figure(4):.3g} if at least 4 of 6 are honest, {figure(7):.3g} if at least 7 of 12 are "
        f"honest, {figure(29):.3g} if at least 29 of 50 are honest, {figure(142):.3g} if at least "
        "142 of 250 are honest."
    )
    assert cost("--parties", 1, code=1).startswith("no ε bounds what a respondent tells")
    keys = make_folders(tmp_path, COINS)
    said = sottovoce("preflight", keys / "anna").out
    assert f"(epsilon {figure(2):.6g}, delta 1e-06) if at least 2 of those in the sum" in said
    assert f" N{NOBODY}" in said


def test_what_a_purse_has_spent_in_sums(tmp_path: Path) -> None:
    """Epsilon, delta and what they rest on; with a consent, whether it leaves enough."""
    keys, folder = make_folders(tmp_path, COINS), tmp_path / "purse"
    with open_purse(folder) as purse:
        for about, honest in ((b"a" * 32, 9), (b"b" * 32, 13_000)):
            what = Release(survey=about, session=about, party=PartyId("x"), drawn=about)
            cost = Cost(1.0, 1e-6, (honest,))
            purse.pay(purse.payers(None), what, cost=cost, heard=b"")

    def said(*options: object, code: int = 0) -> str:
        found = sottovoce("preflight", keys / "anna", "--purse", folder, *options)
        assert found.code == code, found.err
        [line] = [each for each in found.out.splitlines() if each.startswith("purse")]
        return line.removeprefix("purse").strip()

    rests = "if in each sum at least so many are honest as was consented to for it: 9 or 13,000"
    spent = f"{folder}: ε 2 and δ 2e-06 spent on other surveys {rests}"
    assert said() == f"{spent}."
    assert said("--budget", 3, "--honest", 2, "--delta", "3e-6") == (
        f"fits {spent}; a budget of 3 and a delta of 3e-06 is enough as far as other surveys go."
    )
    for options in (
        ("--budget", 3, "--honest", 2),
        ("--budget", 2.1, "--honest", 2, "--delta", "3e-6"),
        ("--budget", 3),
    ):
        assert said(*options, code=1).startswith(
            f"does NOT fit {folder}: this purse has too little"
        )
    with open_answers(keys / "anna") as answers:
        answers.note(1, allowed=Allowance(3.0, 1e-6), cost=Cost(0.8, 1e-6, (2,)))
    assert (
        "ε 0.8 and δ 1e-06 for each respondent, in 1 attempt if at least 2 of those in the sum "
        "are honest." in sottovoce("preflight", keys / "anna").out
    )


def test_a_roster_says_how_many_take_part(tmp_path: Path) -> None:
    keys = make_folders(tmp_path, PLANS["secure-sum"].replace("quorum = 4", "quorum = 2"))
    said = sottovoce("preflight", keys / "anna")
    assert " ".join(conspiracy_sentences(SecureSum().withstands(3))) in said.out


def test_a_members_folder(tmp_path: Path) -> None:
    keys = make_folders(tmp_path)
    before = sorted((keys / "anna").iterdir())
    with socket.create_server(("127.0.0.1", 0)) as server:
        where = f"127.0.0.1:{server.getsockname()[1]}"
        said = sottovoce("preflight", keys / "anna", "--connect", where)
        assert said.code == 0
        assert f"something listens at {where}" in said.out
    said = sottovoce("preflight", keys / "anna", "--connect", where)
    assert said.code == 1
    assert f"{where} cannot be connected to: " in said.out
    assert sorted((keys / "anna").iterdir()) == before


def test_what_a_party_has_spent(tmp_path: Path) -> None:
    anna = make_folders(tmp_path) / "anna"
    for attempt in (1, 2):
        with open_answers(anna) as answers:
            answers.note(attempt, allowed=Allowance(5.0), cost=Cost(0.5))
            answers.note(attempt, allowed=Allowance(5.0), cost=Cost(2.0))
    # An unfinished line belongs to an answer that was never sent, and stays.
    with (anna / "attempts").open("ab") as file:
        file.write(b'{"attempt":3')
    before = (anna / "attempts").read_bytes()
    said = sottovoce("preflight", anna).out
    assert "spent        ε 4 for each respondent, in 2 attempts." in said
    assert (anna / "attempts").read_bytes() == before
    (anna / "attempts").write_bytes(b"nothing\n")
    assert "what was begun or spent is not known" in complaint(sottovoce("preflight", anna))


def test_what_a_purse_leaves(tmp_path: Path) -> None:
    """Counts and sums, and nobody's id; nothing is written."""
    anna, folder = make_folders(tmp_path) / "anna", tmp_path / "purse"
    records = people_table(tmp_path / "r.csv", "ann,no,young", "bob,yes,old")
    check = ("preflight", anna, "--purse", folder, "--records", records)

    def said(*options: object, code: int = 0) -> str:
        found = sottovoce(*check, *options)
        assert found.code == code, found.err
        [line] = [each for each in found.out.splitlines() if each.startswith("purse")]
        return line.removeprefix("purse").strip()

    assert said("--id", "who") == f"{folder}: nothing was spent from it yet."
    assert not folder.exists()
    survey = read_member(anna).charter.survey_id
    for who, about, epsilon in (
        ("ann", b"a" * 32, 1.5),
        ("bob", b"b" * 32, 1.0),
        ("ann", survey, 2.0),
    ):
        what = Release(survey=about, session=about, party=PartyId("x"), drawn=about)
        with open_purse(folder) as purse:
            purse.pay(purse.payers([who]), what, cost=Cost(epsilon), heard=b"")
    before = (folder / PAID).read_bytes()
    spent = "2 of 2 respondents spent something on other surveys, ε 1.5 at most"
    assert said("--id", "who") == f"{folder}: {spent}."
    enough = said("--id", "who", "--budget", 3.6)
    assert (
        enough == f"fits {folder}: {spent}; a budget of 3.6 is enough as far as other surveys go."
    )
    assert said("--id", "who", "--budget", 3.2, code=1) == (
        f"does NOT fit {folder}: 1 of 2 respondents has too little left: up to 1.5 of 3.2 spent "
        "elsewhere, 2 needed; a budget of 3.5 is enough for all."
    )
    assert said() == f"{folder}: ε 2.5 spent on other surveys."
    assert (folder / PAID).read_bytes() == before
    plan = sottovoce("preflight", plan_file(tmp_path), "--purse", folder)
    assert "ε 4.5 spent on other surveys." in plan.out


def test_what_a_purse_has_to_be_told(tmp_path: Path) -> None:
    """Who reads alike, and what a folder recalls: 'answer' would stop there."""
    keys, folder = make_folders(tmp_path), tmp_path / "purse"
    records = people_table(tmp_path / "r.csv", "Ann,no,young", "bob,yes,old")
    check = ("preflight", keys / "anna", "--purse", folder, "--records", records, "--id", "who")

    def said(code: int) -> str:
        found = sottovoce(*check)
        assert found.code == code, found.err
        [line] = [each for each in found.out.splitlines() if each.startswith("purse")]
        return line

    with open_purse(folder) as purse:
        what = Release(survey=b"a" * 32, session=b"a" * 32, party=PartyId("x"), drawn=b"a" * 32)
        purse.pay(purse.payers(["ann"]), what, cost=Cost(1.5), heard=b"")
    asked = said(code=1)
    assert "does NOT fit 1 of 2 respondents (row 1) reads like somebody who is" in asked
    with open_purse(folder) as purse:
        code = asked.partition("--different ")[2][:8]
        purse.settle(["Ann", "bob"], same=False, different=code)
    assert said(code=0).endswith("ε 0 at most; 1 of them told apart from others who read alike.")
    with open_answers(keys / "anna") as answers:
        answers.note(1, allowed=Allowance(), cost=Cost(2.0))
    lacking = f"does NOT fit {folder}: lacks what was spent from {keys / 'anna'}, up to epsilon 2"
    assert lacking in said(code=1)
    assert sottovoce("preflight", keys / "aggregator", "--purse", folder).code == 0


def test_a_clock_that_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = make_folders(tmp_path)

    class Later(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Later:
            return cls.fromtimestamp(super().now(tz).timestamp() + 40 * 86_400, tz)

    monkeypatch.setattr("scenarios.surveys.preflight.datetime.datetime", Later)
    said = sottovoce("preflight", keys / "anna")
    assert said.code == 1
    assert "certificate  does NOT fit" in said.out
    assert "this machine's clock says" in said.out
