"""Whoever reads like somebody else is asked about once, and counts as one person until then."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from parties.keeping.purse import PAID, open_purse
from protocol import PrivacyError
from protocol.accounting.spending import Cost
from protocol.errors import UsageError
from tests.parties.keeping.paying.paid import digest, pay, read, release, spent

_CODE = re.compile("--different ([0-9a-f]{8})")


def settle(folder: Path, *ids: str, same: bool = False, different: str | None = None) -> None:
    with open_purse(folder) as purse:
        purse.settle(ids, same=same, different=different)


def asked(folder: Path, *ids: str, different: str | None = None) -> str:
    """How it is asked who they are."""
    before = (folder / PAID).read_bytes() if (folder / PAID).exists() else None
    with pytest.raises(UsageError) as refused:
        settle(folder, *ids, different=different)
    if before is not None:
        assert (folder / PAID).read_bytes() == before
    shown = _CODE.sub("", str(refused.value)).replace(str(folder), "")
    for each in ids:
        assert each not in shown
    return str(refused.value)


def code_in(question: str) -> str:
    return _CODE.findall(question)[0]


def test_a_count_is_asked_about_and_nobody_is_named(tmp_path: Path) -> None:
    pay(tmp_path, ["Ann@x.org", "0417", "zoe"], "one", 2.0)
    question = asked(tmp_path, "ann@x.org", "bob", "zoe", "417")
    assert question == (
        "2 of 4 respondents (rows 1, 4) read like somebody who is spelled otherwise, in the file "
        f"or in {tmp_path}: expected --same if those who read alike are one person, whose spending "
        f"is shared, or --different {code_in(question)} if each is somebody else"
    )
    settle(tmp_path, "bob", "zoe", "0417", "Ann@x.org")


def test_a_long_file_names_its_first_rows(tmp_path: Path) -> None:
    pay(tmp_path, [f"A{number}" for number in range(30)], "one", 2.0)
    question = asked(tmp_path, *(f"a{number}" for number in range(30)))
    assert question.startswith("30 of 30 respondents (rows 1, 2, 3, 4, 5, 6, 7, 8 and 22 more)")


def test_one_person_pays_once_however_spelled(tmp_path: Path) -> None:
    pay(tmp_path, ["0417"], "one", 2.0)
    asked(tmp_path, "417")
    settle(tmp_path, "417", same=True)
    pay(tmp_path, ["417"], "two", 1.0)
    assert spent(tmp_path, "417", "0417", "00417", "418") == [3.0, 3.0, 3.0, 0.0]
    # No later survey asks again, however it is spelled there.
    settle(tmp_path, "00417", "418")
    with open_purse(tmp_path) as purse:
        payers = purse.payers(["00417"]).up_to(4.0, Cost(2.0))
        with pytest.raises(PrivacyError, match="too little left: up to 3 of 4 spent"):
            purse.check(payers, release("three").survey)


def test_others_have_purses_of_their_own_once_they_are_told_apart(tmp_path: Path) -> None:
    pay(tmp_path, ["0417"], "one", 2.0)
    settle(tmp_path, "417", different=code_in(asked(tmp_path, "417")))
    pay(tmp_path, ["417"], "two", 1.0)
    assert spent(tmp_path, "0417", "417") == [2.0, 1.0]
    settle(tmp_path, "417", "0417")
    pay(tmp_path, ["417", "0417"], "three", 4.0)
    assert spent(tmp_path, "0417", "417") == [6.0, 5.0]


def test_who_was_told_apart_is_asked_about_under_a_new_spelling(tmp_path: Path) -> None:
    """It may be either, and counts as both."""
    pay(tmp_path, ["0417"], "one", 2.0)
    first = code_in(asked(tmp_path, "417"))
    settle(tmp_path, "417", different=first)
    pay(tmp_path, ["417"], "two", 1.0)
    second = code_in(asked(tmp_path, "00417"))
    assert second != first
    # Another survey may have looked before the others had paid.
    unasked = shutil.copytree(tmp_path, tmp_path / "unasked")
    pay(unasked, ["00417"], "three", 4.0)
    assert spent(unasked, "00417", "0417", "417") == [7.0, 6.0, 5.0]
    assert spent(tmp_path, "00417") == [3.0]
    with pytest.raises(UsageError, match="may be several people, who were told apart"):
        settle(tmp_path, "00417", same=True)
    settle(tmp_path, "00417", different=second)
    assert spent(tmp_path, "00417", "0417", "417") == [0.0, 2.0, 1.0]


def test_an_answer_is_to_one_question(tmp_path: Path) -> None:
    """A command line that is used again does not tell anybody apart of whom it was not asked."""
    pay(tmp_path, ["0417", "Ann"], "one", 2.0)
    code = code_in(asked(tmp_path, "417"))
    for others in (("ann",), ("417", "ann"), ("00417",)):
        assert code_in(asked(tmp_path, *others, different=code)) != code
    for guess in ("", "00000000", "yes"):
        asked(tmp_path, "417", different=guess)
    # Whoever was not asked has said nothing, so it is asked then.
    settle(tmp_path, "bob", different=code)
    asked(tmp_path, "417")
    settle(tmp_path, "417", different=code)
    settle(tmp_path, "417", different=code)
    # Another purse asks anew, with a code of its own.
    other = tmp_path / "other"
    pay(other, ["0417", "Ann"], "one", 2.0)
    assert code_in(asked(other, "417", different=code)) != code


def test_one_person_stays_one(tmp_path: Path) -> None:
    pay(tmp_path, ["0417"], "one", 2.0)
    code = code_in(asked(tmp_path, "417"))
    settle(tmp_path, "417", same=True)
    settle(tmp_path, "417", different=code)
    assert spent(tmp_path, "417") == [2.0]


def test_two_rows_of_one_file_are_two_people_or_one_too_many(tmp_path: Path) -> None:
    question = asked(tmp_path, "bob", "0417", "417")
    assert question.startswith("2 of 3 respondents (rows 2, 3) read like")
    with pytest.raises(UsageError) as refused:
        settle(tmp_path, "bob", "0417", "417", same=True)
    assert str(refused.value) == (
        "rows 2, 3: those who read alike are one person, by --same, who answers once; leave out "
        "all of their rows but one"
    )
    settle(tmp_path, "bob", "0417", "417", different=code_in(question))
    pay(tmp_path, ["bob", "0417", "417"], "one", 2.0)
    assert spent(tmp_path, "0417", "417") == [2.0, 2.0]
    settle(tmp_path, "0417", "417")
    # What was said before holds for a file, too.
    pay(tmp_path, ["Ann"], "two", 2.0)
    settle(tmp_path, "ann", same=True)
    with pytest.raises(UsageError, match=r"rows 1, 2: those who read alike.* as --same said, who"):
        settle(tmp_path, "ANN", "ann")


def test_two_surveys_at_once_pay_as_one_person(tmp_path: Path) -> None:
    """Either looked before the other had paid, so nobody was asked."""
    settle(tmp_path, "0417")
    settle(tmp_path, "417")
    pay(tmp_path, ["0417"], "one", 2.0)
    with open_purse(tmp_path) as purse:
        payers = purse.payers(["417"]).up_to(3.0, Cost(2.0))
        with pytest.raises(PrivacyError, match="on another survey meanwhile"):
            purse.pay(payers, release("two"), cost=Cost(2.0), heard=b"")
    assert spent(tmp_path, "417") == [2.0]
    asked(tmp_path, "417")


def test_who_may_be_somebody_has_not_paid_for_a_report(tmp_path: Path) -> None:
    """They count as one for what was spent, and not for what may be said again."""
    pay(tmp_path, ["0417"], "one", 2.0)

    def unpaid(name: str) -> int:
        purse = read(tmp_path)
        return purse.unpaid(purse.payers([name]), release("one"), 2.0)

    assert (unpaid("0417"), unpaid("417")) == (0, 1)
    settle(tmp_path, "417", same=True)
    assert unpaid("417") == 0


def test_who_was_told_apart_is_counted_and_summed_up(tmp_path: Path) -> None:
    """Whoever is told apart to pay twice is seen by whoever looks into the purse."""
    pay(tmp_path, ["0417", "bob"], "one", 2.0)
    settle(tmp_path, "417", different=code_in(asked(tmp_path, "417")))
    pay(tmp_path, ["417"], "two", 2.0)
    purse = read(tmp_path)
    [everybody] = purse.everybody()
    assert len(everybody) == 3
    assert purse.told_apart(everybody) == 2
    assert purse.told_apart(purse.payers(["bob"])) == 0
    assert purse.spent(everybody).most.epsilon == 2.0
    assert purse.spent(everybody, as_one=True).most.epsilon == 4.0


def test_the_file_reveals_no_spelling(tmp_path: Path) -> None:
    pay(tmp_path, ["Zed@x", "bed 0417"], "one", 2.0)
    settle(tmp_path, "zed@x", same=True)
    settle(tmp_path, "bed 417", different=code_in(asked(tmp_path, "bed 417")))
    content = (tmp_path / PAID).read_bytes()
    for each in ("Zed@x", "zed@x", "bed 0417", "bed 417", "bed417"):
        for shown in (each.encode(), digest(each)[:8], digest(each)[:8].hex().encode()):
            assert shown not in content
    assert "zed" not in repr(read(tmp_path).lines)
