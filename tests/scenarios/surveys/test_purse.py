"""A purse over surveys: the same people pay from it under any keys, and nobody can tell who."""

from __future__ import annotations

import functools
import hashlib
import math
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from parties.keeping.attempts import ATTEMPTS, Allowance
from parties.keeping.members import own_secret
from parties.keeping.paying.payers import Payers
from parties.keeping.paying.payments import Line, Recalled, Release
from parties.keeping.paying.people import Spellings
from parties.keeping.purse import PAID, Purse, open_purse, purse_in, usual_purse
from protocol import Attribute, PartyId, PrivacyError, QuorumError, Survey
from protocol.accounting.spending import Cost
from protocol.errors import UsageError
from protocol.messages import Envelope
from scenarios.data.own_tables.coding import Coding
from scenarios.surveys import answering
from scenarios.surveys.respondents import read_respondents
from tests.scenarios.command import complaint, sottovoce
from tests.scenarios.survey_folders import COINS, WHO, hold, make_folders, people_table
from tests.scenarios.surveys.conftest import AnswerFrom
from tests.scenarios.surveys.test_deployment import ScriptedLink, question

SURVEY = Survey(
    "Health",
    (
        Attribute(name="smokes", categories=("no", "yes")),
        Attribute(name="age", categories=("young", "old")),
    ),
)
ANN, BOB, CYD = "ann@home", "bob@home", "cyd@home"
ALL = Payers(None)
HEARD = bytes(32)
"""What a party notes that has heard one message."""


class Kept:
    """A purse that is opened anew for everything that is done."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def payers(self, ids: Sequence[str] | None) -> Payers:
        with open_purse(self.folder) as purse:
            return purse.payers(ids)

    def check(self, payers: Payers, survey: bytes) -> None:
        with open_purse(self.folder) as purse:
            purse.check(payers, survey)

    def left(self, *what: Any, **named: Any) -> float:
        with open_purse(self.folder) as purse:
            return purse.left(*what, **named).epsilon

    def pay(self, *what: Any, **named: Any) -> None:
        with open_purse(self.folder) as purse:
            purse.pay(*what, **named)


def noted(lines: Sequence[Line]) -> Purse:
    return Purse(Path("purse"), [bytes(32)], lines)


def payers_of(marks: Iterable[int]) -> Payers:
    """Payers by these marks, rising; nobody reads like another."""
    array = np.array([*marks], np.uint64)
    return Payers((Spellings(array, array),))


def marks_of(payers: Payers) -> list[int]:
    """All marks of payers, as spelled and however spelled."""
    assert payers.marks is not None
    return [mark for each in payers.marks if each for mark in (*each.exact, *each.alike)]


def digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def release(survey: str, attempt: int = 1, drawn: str = "", party: str = "anna") -> Release:
    return Release(
        survey=digest(survey),
        session=digest(f"{survey} {attempt}"),
        party=PartyId(party),
        drawn=digest(f"{survey} {attempt} {drawn}"),
    )


def pay(purse: Kept, who: Payers, what: Release, epsilon: float) -> None:
    purse.pay(who, what, cost=Cost(epsilon), heard=HEARD)


def recalled(what: Release, cost: Cost | float) -> Recalled:
    """What a party's folder recalls that was spent."""
    paid = cost if isinstance(cost, Cost) else Cost(float(cost))
    [line] = noted([]).payment_lines(ALL, what, cost=paid, heard=b"")
    return Recalled(**{name: getattr(line, name) for name in Recalled.__struct_fields__})


def spent(purse: Kept, who: Payers) -> list[float]:
    read = purse_in(purse.folder)
    assert read is not None
    found: list[float] = read.spent(who).epsilon.tolist()
    return found


# What a purse adds up to


PEOPLE = st.sets(st.integers(0, 5), min_size=1)
PAYMENTS = st.lists(
    st.tuples(st.integers(0, 3), st.none() | PEOPLE, st.integers(0, 9)), min_size=1, max_size=12
)


@pytest.mark.slow
@settings(deadline=None)
@given(PAYMENTS, PEOPLE)
def test_everybody_pays_once_for_each_release(
    payments: list[tuple[int, set[int] | None, int]], asked: set[int]
) -> None:
    """Against the definition, person by person; whoever has no id may be anybody."""
    marks = np.sort(np.arange(7, dtype=np.uint64) * np.uint64(2**61 - 1))

    def group(people: set[int] | None) -> Payers:
        return ALL if people is None else payers_of(marks[sorted(people)])

    lines: list[Line] = []
    for number, people, epsilon in payments:
        lines += noted(lines).payment_lines(
            group(people), release(str(number)), cost=Cost(float(epsilon)), heard=b""
        )
    purse = noted(lines)

    def owed(person: int | None, left_out: int | None = None) -> float:
        """The largest payment for each release that this person may have been in."""
        each: dict[int, int] = {}
        for number, people, epsilon in payments:
            if number != left_out and (person is None or people is None or person in people):
                each[number] = max(each.get(number, 0), epsilon)
        return float(sum(each.values()))

    assert purse.spent(group(asked)).epsilon.tolist() == [owed(person) for person in sorted(asked)]
    assert purse.spent(ALL).epsilon.tolist() == [owed(None)]
    without = purse.spent(ALL, lambda one: one.survey != digest("0"))
    assert without.epsilon.tolist() == [owed(None, left_out=0)]


# What is in the file


def test_the_file_reveals_nobody(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "purse"
    purse = Kept(folder)
    who = purse.payers([ANN, BOB])
    pay(purse, who, release("one"), 2.0)
    content = (folder / PAID).read_bytes()
    for each in (ANN, BOB):
        for shown in (each.encode(), digest(each)[:8], digest(each)[:8].hex().encode()):
            assert shown not in content
    # Under another secret the same people have other marks.
    other = Kept(tmp_path / "other").payers([ANN, BOB])
    marks = [*marks_of(who), *marks_of(other)]
    assert len({*marks}) == 8
    assert spent(purse, purse.payers([BOB])) == [2.0]
    assert spent(purse, purse.payers([CYD])) == [0.0]
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
def test_a_hundred_thousand_people_are_written_once(tmp_path: Path) -> None:
    purse = Kept(tmp_path)
    people = purse.payers([f"person {number}" for number in range(100_000)])
    for survey in "abc":
        assert purse.left(people.up_to(9.0, Cost(2.0)), release(survey), heard=b"") >= 3.0
        pay(purse, people, release(survey), 1.0)
        pay(purse, people, release(survey), 2.0)
    assert spent(purse, people)[::20_000] == [6.0] * 5
    # A head, the people, six payments.
    assert len((tmp_path / PAID).read_bytes().splitlines()) == 8
    assert (tmp_path / PAID).stat().st_size < 2_200_000


def test_half_a_line_is_of_what_was_never_said(tmp_path: Path) -> None:
    purse = Kept(tmp_path)
    who = purse.payers([ANN])
    pay(purse, who, release("one"), 2.0)
    whole = (tmp_path / PAID).read_bytes()
    pay(purse, who, release("two"), 3.0)
    content = (tmp_path / PAID).read_bytes()
    for cut in range(len(whole), len(content)):
        (tmp_path / PAID).write_bytes(content[:cut])
        assert spent(purse, who) == [2.0]
    purse.payers(None)
    assert (tmp_path / PAID).read_bytes() == whole


def test_people_without_their_payment_are_written_once(tmp_path: Path) -> None:
    """A party died when its people were on disk, and what they pay was not."""
    purse = Kept(tmp_path)
    who = purse.payers([ANN])
    pay(purse, who, release("one"), 2.0)
    head, people, paid = (tmp_path / PAID).read_bytes().splitlines(keepends=True)
    (tmp_path / PAID).write_bytes(head + people + paid[:10])
    assert spent(purse, who) == [0.0]
    pay(purse, who, release("one"), 2.0)
    assert (tmp_path / PAID).read_bytes() == head + people + paid


CHECK = b'{"type":"purse","check":"%s="}\n' % (b"0" * 43)


@pytest.mark.parametrize(
    "content",
    [
        b"nothing\n",
        b'{"type":"people","marks":""}\n',
        b'{"type":"purse"}\n',
        CHECK.replace(b"0", b"1") + b'{"type":"people","marks":""}\n' + CHECK,
    ],
)
def test_a_spoilt_file_is_not_guessed_at(content: bytes, tmp_path: Path) -> None:
    Kept(tmp_path).payers(None)
    (tmp_path / PAID).write_bytes(content)
    with pytest.raises(UsageError, match="what was begun or spent is not known"):
        Kept(tmp_path).payers(None)


def test_a_payment_by_nobody_is_refused(tmp_path: Path) -> None:
    purse = Kept(tmp_path)
    pay(purse, purse.payers([ANN]), release("one"), 2.0)
    lines = (tmp_path / PAID).read_bytes().splitlines(keepends=True)
    (tmp_path / PAID).write_bytes(lines[0] + lines[2])
    with pytest.raises(UsageError, match="people who are not in it"):
        purse.payers(None)


def test_a_purse_needs_its_own_secret(tmp_path: Path) -> None:
    """Without it nobody would be known, and everybody could pay anew."""
    purse = Kept(tmp_path)
    pay(purse, purse.payers([ANN]), release("one"), 2.0)
    (tmp_path / "secret").unlink()
    with pytest.raises(UsageError, match=f"{tmp_path / 'secret'}: no such file"):
        purse.payers([ANN])
    assert not (tmp_path / "secret").exists()
    (tmp_path / "secret").write_bytes(bytes(32))
    with pytest.raises(UsageError, match="belongs to another secret"):
        purse.payers([ANN])


@pytest.mark.parametrize("lose", [Path.unlink, lambda path: path.write_bytes(b"")])
def test_a_purse_whose_payments_are_lost_does_not_begin_anew(
    lose: Callable[[Path], object], tmp_path: Path
) -> None:
    purse = Kept(tmp_path)
    pay(purse, purse.payers([ANN]), release("one"), 2.0)
    lose(tmp_path / PAID)
    for _ in range(2):
        with pytest.raises(UsageError, match="is missing or empty, but the secret"):
            purse.payers([ANN])
        with pytest.raises(UsageError, match="is missing or empty, but the secret"):
            purse_in(tmp_path)


def test_a_purse_that_was_not_made_whole_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The party died when the first line was on disk, or half of it, and the secret was not."""

    def killed(*_: object) -> None:
        raise KeyError("killed")

    purse = Kept(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("parties.keeping.purse.write_once", killed)
        for _ in range(2):
            with pytest.raises(KeyError, match="killed"):
                purse.payers([ANN])
            assert purse_in(tmp_path) is None
    line = (tmp_path / PAID).read_bytes()
    (tmp_path / PAID).write_bytes(line[:-5])
    pay(purse, purse.payers([ANN]), release("one"), 2.0)
    assert spent(purse, purse.payers([ANN])) == [2.0]
    # Once there is a payment, a secret that is missing is not drawn again.
    (tmp_path / "secret").unlink()
    with pytest.raises(UsageError, match="no such file"):
        purse.payers([ANN])


def test_links_and_pipes_are_refused(tmp_path: Path) -> None:
    folder, kept = tmp_path / "purse", tmp_path / "kept"
    folder.mkdir()
    kept.write_bytes(b"")
    path = folder / PAID
    path.symlink_to(kept)
    with pytest.raises(OSError, match=str(path)):
        Kept(folder).payers(None)
    path.unlink()
    path.hardlink_to(kept)
    with pytest.raises(UsageError, match="has another name too"):
        Kept(folder).payers(None)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(UsageError, match="is not a regular file"):
        Kept(folder).payers(None)
    assert kept.read_bytes() == b""


def test_the_usual_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert usual_purse() == tmp_path / "sottovoce" / "purse"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for nowhere in ("", "state"):
        monkeypatch.setenv("XDG_STATE_HOME", nowhere)
        assert usual_purse() == tmp_path / "home" / ".local" / "state" / "sottovoce" / "purse"


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.none() | PEOPLE, st.integers(0, 3)), max_size=6),
    PEOPLE,
    st.integers(1, 3),
)
def test_who_has_not_paid_for_a_release(
    payments: list[tuple[bool, set[int] | None, int]], asked: set[int], price: int
) -> None:
    """Against the definition, person by person."""
    lines: list[Line] = []
    for same, people, epsilon in payments:
        who = ALL if people is None else payers_of(sorted(people))
        what = release("one" if same else "two")
        lines += noted(lines).payment_lines(who, what, cost=Cost(float(epsilon)), heard=HEARD)
    enough = [people for same, people, epsilon in payments if same and epsilon >= price]
    owing = {person for person in asked if not any(who is None or person in who for who in enough)}
    purse = noted(lines)
    assert purse.unpaid(payers_of(sorted(asked)), release("one"), float(price)) == len(owing)
    # A file without names may have anybody in it: nothing but one without names has paid for it.
    assert purse.unpaid(ALL, release("one"), float(price)) == (None not in enough)


# Who may answer


def test_who_has_spent_too_much_is_counted_and_not_named(tmp_path: Path) -> None:
    purse = Kept(tmp_path)
    pay(purse, purse.payers([ANN, BOB]), release("one"), 2.0)
    pay(purse, purse.payers([BOB]), release("two"), 1.0)
    three = purse.payers([ANN, BOB, CYD])

    def check(who: Payers, survey: bytes, *, budget: float) -> None:
        purse.check(who.up_to(budget, Cost(2.0)), survey)

    check(three, digest("three"), budget=math.inf)
    check(three, digest("three"), budget=5.0)
    with pytest.raises(PrivacyError) as refused:
        check(three, digest("three"), budget=4.0)
    assert str(refused.value) == (
        "1 of 3 respondents has too little left: up to 3 of 4 spent elsewhere, 2 needed; "
        "a budget of 5 is enough for all"
    )
    # Attempts at the same survey are the aggregator's to know.
    check(three, digest("one"), budget=3.0)
    with pytest.raises(PrivacyError, match="2 of 3 respondents have"):
        check(three, digest("three"), budget=1.0)
    check(purse.payers([CYD]), digest("three"), budget=1.0)


def test_without_ids_everybody_may_have_paid(tmp_path: Path) -> None:
    purse = Kept(tmp_path)
    pay(purse, purse.payers([ANN]), release("one"), 2.0)
    pay(purse, purse.payers([BOB]), release("two"), 2.0)
    assert spent(purse, ALL) == [4.0]
    pay(purse, ALL, release("three"), 1.0)
    assert spent(purse, purse.payers([ANN, CYD])) == [3.0, 1.0] or spent(
        purse, purse.payers([ANN, CYD])
    ) == [1.0, 3.0]
    with pytest.raises(PrivacyError, match="this purse has too little left: up to 5 of 6 spent"):
        purse.check(ALL.up_to(6.0, Cost(2.0)), digest("four"))


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=3),
    st.integers(0, 8),
    st.integers(0, 8),
    st.integers(1, 4),
    st.integers(0, 4),
)
def test_what_was_spent_elsewhere_is_not_seen_from_outside(
    elsewhere: list[int], here: int, budget: int, most: int, lost: int
) -> None:
    """Either a party may spend what it could with an empty purse, or it does not answer."""
    people = payers_of(range(len(elsewhere)))

    def left(spent: list[int]) -> float:
        lines: list[Line] = []
        for number, epsilon in enumerate(spent):
            what = release("before", attempt=number + 1)
            lines += noted(lines).payment_lines(
                payers_of([number]), what, cost=Cost(float(epsilon)), heard=b""
            )
        lines += noted(lines).payment_lines(
            people, release("now"), cost=Cost(float(here)), heard=b""
        )
        again = release("now", 2)
        # The folder recalls two earlier attempts, of which the purse has one.
        lines += [recalled(release("now"), here), recalled(release("now", 3), lost)]
        return (
            noted(lines)
            .left(people.up_to(float(budget), Cost(float(most))), again, heard=b"")
            .epsilon
        )

    free = left([0] * len(elsewhere))
    assert free == max(budget - here - lost, 0)
    try:
        found = left(elsewhere)
    except PrivacyError:
        assert max(elsewhere) > 0
        assert budget - here - lost - max(elsewhere) < min(free, most)
    else:
        # A party spends at most ``most``: what exceeds it is never seen.
        assert min(found, most) == min(free, most)


def test_a_survey_that_pays_meanwhile_is_seen(tmp_path: Path) -> None:
    """Two surveys at once: either looks anew before it pays, and what is refused is not noted."""
    purse = Kept(tmp_path)
    who, one, two = purse.payers([ANN]), release("one"), release("two")
    for each in (one, two):
        assert purse.left(who.up_to(3.0, Cost(2.0)), each, heard=b"") == 3.0
    purse.pay(who.up_to(3.0, Cost(2.0)), one, cost=Cost(2.0), heard=HEARD)
    with pytest.raises(PrivacyError, match="on another survey meanwhile"):
        purse.pay(who.up_to(3.0, Cost(2.0)), two, cost=Cost(2.0), heard=HEARD)
    assert spent(purse, who) == [2.0]
    # What is paid already is said again under any budget.
    purse.pay(who.up_to(0.0, Cost(2.0)), one, cost=Cost(2.0), heard=HEARD)


def test_many_pay_at_once(tmp_path: Path) -> None:
    purse = Kept(tmp_path)
    who = purse.payers([ANN])
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(lambda n: pay(purse, who, release(str(n)), 1.0), range(24)):
            pass
    assert spent(purse, who) == [24.0]


def test_a_folder_that_has_forgotten_does_not_answer_twice_in_a_session(tmp_path: Path) -> None:
    purse = Kept(tmp_path)
    who, what = purse.payers([ANN]), release("one")
    one, two, other = HEARD, 2 * HEARD, HEARD + b"a" * 32
    said = functools.partial(purse.pay, who, cost=Cost())
    said(what, heard=one)
    # What costs nothing more is an answer too.
    said(what, heard=two)
    look = functools.partial(purse.left, who.up_to(math.inf, Cost(2.0)))
    for which, heard in ((what, one), (what, other), (release("one", 1, "b"), two)):
        for act in (look, said):
            with pytest.raises(PrivacyError, match="was restored or copied"):
                act(which, heard=heard)
    assert look(what, heard=two) == look(what, heard=two + one) == math.inf
    size = (tmp_path / PAID).stat().st_size
    said(what, heard=two)
    assert (tmp_path / PAID).stat().st_size == size
    # Another session, and another party of the same one, are other things.
    assert look(release("one", 2, "b"), heard=b"") == math.inf
    assert look(release("one", 1, "b", party="bert"), heard=b"") == math.inf


# Deltas


ONE = Cost(1.0, 1e-6, (9,))
"""What a sum with coins costs."""


def test_a_sum_is_refused_before_epsilon_or_delta_is_exceeded(tmp_path: Path) -> None:
    """Other surveys add up, whatever their figures rest on, and what that is is listed."""
    purse = Kept(tmp_path)
    who = purse.payers([ANN, BOB])
    purse.pay(purse.payers([ANN]), release("one"), cost=ONE, heard=HEARD)
    other = Cost(0.5, 2e-6, (13_000,))
    purse.pay(purse.payers([ANN]), release("two"), cost=other, heard=HEARD)
    purse.pay(purse.payers([BOB]), release("two"), cost=Cost(2.0), heard=HEARD)
    read = purse_in(tmp_path)
    assert read is not None
    assert read.spent(purse.payers([ANN])).most == Cost(1.5, 3e-6, (9, 13_000))
    assert read.spent(purse.payers([BOB])).most == Cost(2.0)

    def check(budget: float | None, delta: float) -> None:
        purse.check(who.up_to(budget, ONE, delta=delta), digest("three"))

    check(3.0, 4e-6)
    check(None, 4e-6)
    with pytest.raises(PrivacyError) as refused:
        check(2.5, 4e-6)
    assert str(refused.value) == (
        "1 of 2 respondents has too little left: spent elsewhere, at most: epsilon 2; needed: "
        "(epsilon 1, delta 1e-06); allowed: epsilon 2.5, delta 4e-06; a budget of 3 and, with "
        "--honest, a delta of 1e-06 are enough for all"
    )
    for budget in (3.0, None):
        with pytest.raises(PrivacyError) as refused:
            check(budget, 3e-6)
        assert str(refused.value) == (
            "1 of 2 respondents has too little left: spent elsewhere, at most: (epsilon 1.5, delta "
            "3e-06) if in each sum at least so many are honest as was consented to for it: 9 or "
            "13,000; needed: (epsilon 1, delta 1e-06); allowed: epsilon "
            f"{budget or math.inf:.6g}, delta 3e-06; a budget of 2.5 and, with --honest, a delta "
            "of 4e-06 are enough for all"
        )


def test_a_purse_of_pure_epsilon_knows_no_delta(tmp_path: Path) -> None:
    """Whoever was told of at a delta has no pure figure left, and is refused a pure budget."""
    purse = Kept(tmp_path)
    who = purse.payers([ANN])
    pure = who.up_to(9.0, Cost(2.0))
    with pytest.raises(PrivacyError, match="on another survey meanwhile"):
        purse.pay(pure, release("one"), cost=ONE, heard=HEARD)
    assert spent(purse, who) == [0.0]
    purse.pay(who, release("one"), cost=ONE, heard=HEARD)
    with pytest.raises(PrivacyError, match=r"with --honest, a delta of 1e-06 are enough for all"):
        purse.check(pure, digest("two"))
    with pytest.raises(PrivacyError, match="allowed: epsilon 9, delta 0"):
        purse.left(pure, release("two"), heard=b"")
    # Nor has a folder such a figure whose purse was lost.
    lost = noted([recalled(release("one"), ONE)])
    with pytest.raises(PrivacyError, match="allowed: epsilon 9, delta 0"):
        lost.left(payers_of([1]).up_to(9.0, Cost(2.0)), release("one", 2), heard=b"")
    purse.check(who.up_to(9.0, Cost(2.0), delta=1e-6), digest("two"))


def test_a_sum_that_pays_meanwhile_is_seen(tmp_path: Path) -> None:
    purse = Kept(tmp_path)
    who = purse.payers([ANN]).up_to(9.0, ONE, delta=1e-6)
    one, two = release("one"), release("two")
    for each in (one, two):
        assert purse.left(who, each, heard=b"") == 9.0
    purse.pay(who, one, cost=ONE, heard=HEARD)
    with pytest.raises(PrivacyError, match="on another survey meanwhile"):
        purse.pay(who, two, cost=ONE, heard=HEARD)
    purse.pay(who, one, cost=ONE, heard=HEARD)
    assert spent(purse, who) == [1.0]
    # Within one release figures replace each other, and what either rests on stays.
    other = Cost(0.5, 1e-6, (12,))
    purse.pay(who, one, cost=other, heard=HEARD)
    read = purse_in(tmp_path)
    assert read is not None
    assert read.spent(who).most == Cost(1.0, 1e-6, (9, 12))


def test_what_is_left_of_a_delta(tmp_path: Path) -> None:
    """What others do not know of is all there for the sum, or it is not begun."""
    purse = Kept(tmp_path)
    who = purse.payers([ANN]).up_to(9.0, ONE, delta=2.5e-6)
    purse.pay(who, release("one"), cost=ONE, heard=HEARD)

    def left(what: Release) -> Allowance:
        with open_purse(tmp_path) as opened:
            return opened.left(who, what, heard=b"")

    assert left(release("two")) == Allowance(8.0, pytest.approx(1.5e-6))
    purse.pay(who, release("two"), cost=ONE, heard=HEARD)
    with pytest.raises(PrivacyError, match=r"allowed: epsilon 9, delta 2\.5e-06"):
        left(release("three"))
    # The aggregator of the second knows of its first attempt, but not of the other survey.
    with pytest.raises(PrivacyError, match=r"allowed: epsilon 9, delta 2\.5e-06"):
        left(release("two", 2))


# Ids


def test_ids_are_read_beside_the_records(tmp_path: Path) -> None:
    path = people_table(tmp_path / "r.csv", " ann ,no,young", '"b,o",yes,old', "\u00e9,no,old")
    people = read_respondents(path, Coding.of(SURVEY), "who")
    assert people.ids == ["ann", "b,o", "\u00e9"]
    assert "ann" not in repr(people)
    # The same letter in two characters is the same person.
    again = people_table(tmp_path / "again.csv", "e\u0301,no,old")
    assert read_respondents(again, Coding.of(SURVEY), "who").ids == ["\u00e9"]


@pytest.mark.parametrize(
    ("column", "rows", "says"),
    [
        (
            "who",
            ("ann,no,young", "bob,no,young", "ann,no,old"),
            "row 3, column 'who': the same id ",
        ),
        ("who", ("\u00e9,no,young", "e\u0301,no,old"), "as in row 1; ids must be unique"),
        ("who", ("ann,no,young", ",no,old"), "row 2, column 'who': empty"),
        ("who", ("a\u202eb,no,young",), "row 1, column 'who': expected an id of at most 200"),
        ("who", (f"{'a' * 201},no,young",), "at most 200 printable characters"),
        ("name", ("ann,no,young",), "no column 'name'. The table has 'who'"),
        ("age", ("ann,no,young",), "--id age: is asked by the survey"),
        (" age", ("ann,no,young",), "--id  age: is asked by the survey"),
    ],
)
def test_ids_that_are_refused(
    column: str, rows: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    path = people_table(tmp_path / "r.csv", *rows)
    with pytest.raises(UsageError) as refused:
        read_respondents(path, Coding.of(SURVEY), column)
    assert says in str(refused.value)
    assert "ann" not in str(refused.value)


# Whole answers


def test_the_same_people_under_other_keys_pay_from_the_same_purse(
    two_surveys: list[Path], tmp_path: Path, answer_from: AnswerFrom
) -> None:
    one, two = two_surveys
    first = people_table(tmp_path / "1.csv", "ann,no,young", "bob,yes,old")
    other = people_table(
        tmp_path / "2.csv", "smokes\tignored,bob,yes,middle", header="x,who,smokes,age"
    )
    ended, said = answer_from(one / "anna", first, question(one), budget=4.1)
    assert ended.ending == "done"
    assert [each.kind for each in said] == ["Report", "Head"]
    assert b"ann" not in said[0].body
    with pytest.raises(PrivacyError, match="this purse has too little left"):
        answer_from(two / "anna", other, question(two), budget=3.0)
    # Nothing of that survey was begun.
    assert not [*(two / "anna").glob("heard-*")]
    ended, _ = answer_from(two / "anna", other, question(two), budget=4.1)
    assert (ended.ending, ended.spent.epsilon, ended.before) == ("done", pytest.approx(2), Cost())
    purse = Kept(tmp_path / "purse")
    assert spent(purse, purse.payers(["bob"])) == pytest.approx([4.0])
    assert spent(purse, purse.payers(["ann"])) == pytest.approx([2.0])


def test_who_answers_pays_whatever_becomes_of_the_file(
    two_surveys: list[Path],
    tmp_path: Path,
    answer_from: AnswerFrom,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, _ = two_surveys
    records = people_table(tmp_path / "r.csv", "ann,no,young")
    ours = answering.own_secret

    def changed(folder: Path) -> bytes:
        people_table(records, "bob,yes,old", "zoe,yes,old")
        return ours(folder)

    monkeypatch.setattr(answering, "own_secret", changed)
    assert answer_from(one / "anna", records, question(one), budget=2.1)[0].ending == "done"
    assert "bob" in records.read_text()
    purse = Kept(tmp_path / "purse")
    paid = {name: spent(purse, purse.payers([name])) for name in ("ann", "bob", "zoe")}
    assert paid == {"ann": [pytest.approx(2.0)], "bob": [0.0], "zoe": [0.0]}


def test_who_is_new_in_an_attempt_has_not_paid_for_the_last(
    two_surveys: list[Path], tmp_path: Path, answer_from: AnswerFrom
) -> None:
    one, _ = two_surveys
    ann, bob = (people_table(tmp_path / f"{who}.csv", f"{who},no,young") for who in ("ann", "bob"))
    assert answer_from(one / "anna", ann, question(one), budget=2.1)[0].ending == "done"
    again = question(one, attempt=2)
    ended, said = answer_from(one / "anna", bob, again, attempt=2, budget=2.1)
    assert ended.ending == "done"
    third = question(one, attempt=3)
    ended, said = answer_from(one / "anna", ann, third, attempt=3, budget=2.1)
    assert ended.ending.startswith("'Report' costs 2 per respondent; 0.1 of 0.1 is left")
    assert [each.kind for each in said] == ["Declined", "Head"]


def test_a_party_that_dies_before_it_speaks_has_paid(
    two_surveys: list[Path],
    tmp_path: Path,
    answer_from: AnswerFrom,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, two = two_surveys
    records = people_table(tmp_path / "r.csv", "ann,no,young")

    def killed(*_: object) -> int:
        raise KeyError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(ScriptedLink, "send_nowait", killed)
        with pytest.raises(KeyError, match="killed"):
            answer_from(one / "anna", records, question(one), budget=2.1)
    with pytest.raises(PrivacyError, match="too little left"):
        answer_from(two / "anna", records, question(two), budget=2.1)
    # In the same attempt the same is said, and is paid.
    ended, _ = answer_from(one / "anna", records, question(one), budget=2.1)
    assert ended.ending == "done"


def test_a_refusal_connects_to_nobody(two_surveys: list[Path], tmp_path: Path) -> None:
    anna = two_surveys[0] / "anna"
    records = people_table(tmp_path / "r.csv", "ann,no,young", "bob,yes,old")
    purse = Kept(tmp_path / "purse")
    pay(purse, purse.payers(["ann"]), release("before"), 1.5)
    answer = ("answer", anna, "--records", records, "--connect", "127.0.0.1:1", "--waiting", 0)
    options = ("--purse", tmp_path / "purse", "--id", "who")
    said = sottovoce(*answer, *options, "--budget", 3)
    assert complaint(said, code=1) == (
        "1 of 2 respondents has too little left: up to 1.5 of 3 spent elsewhere, 2 needed; "
        "a budget of 3.5 is enough for all; nothing more spent; "
        "acknowledged: nothing more was said; "
        "next: stay away, or allow more with --budget or --delta"
    )
    for enough in (("--budget", 3.6), ()):
        said = sottovoce(*answer, *options, *enough)
        assert complaint(said, os.EX_UNAVAILABLE).startswith("127.0.0.1:1: nobody listens there")
    assert not [*anna.glob("heard-*")]
    assert "--id smokes: is asked by the survey" in complaint(
        sottovoce(*answer, "--purse", tmp_path / "purse", "--id", "smokes")
    )


def test_a_budget_without_a_consent_declines_coins(tmp_path: Path) -> None:
    keys = make_folders(tmp_path, COINS)
    with pytest.raises(QuorumError):
        hold(keys, tmp_path / "out", dict.fromkeys(WHO, 50.0))
    listed = purse_in(keys / "anna.purse")
    assert listed is not None
    assert listed.spent(ALL).most == Cost()
    anna, records = keys / "anna", people_table(tmp_path / "r.csv", "ann,no,young")
    answer = ("answer", anna, "--records", records, "--connect", "127.0.0.1:1", "--waiting", 0)
    said = sottovoce(*answer, "--purse", tmp_path / "purse", "--delta", "1e-6")
    assert said.code == 2
    assert "sottovoce: --delta 1e-06: expected --honest, since a figure" in said.err


# Other purses


def merge(purse: Path, *sources: Path) -> str:
    """What is said where a purse is merged."""
    given = [word for source in sources for word in ("--merge", source)]
    said = sottovoce("purse", "--purse", purse, *given)
    assert said.code == 0, said.err
    return said.out


def test_what_another_purse_has_paid_counts_for_everybody(
    two_surveys: list[Path], tmp_path: Path, answer_from: AnswerFrom
) -> None:
    """A purse that is lost, or of another user, does not give the same people a new budget."""
    one, _ = two_surveys
    anna, records = one / "anna", people_table(tmp_path / "r.csv", "ann,no,young")
    endings = []
    for attempt in range(1, 4):
        purse = tmp_path / f"purse {attempt}"
        answer = functools.partial(
            answer_from,
            anna,
            records,
            question(one, attempt=attempt),
            attempt=attempt,
            budget=2.1,
            purse=purse,
        )
        if attempt > 1:
            with pytest.raises(PrivacyError) as refused:
                answer()
            assert str(refused.value) == (
                f"{purse}: lacks what was spent from {anna}, up to epsilon 2 in one attempt: it is "
                "another purse, or an older copy; merge what is missing into it: sottovoce purse "
                f"--purse '{purse}' --merge {anna}"
            )
            merge(purse, anna)
        endings.append(answer()[0].ending)
    declined = "'Report' costs 2 per respondent; 0.1 of 0.1 is left"
    assert endings == ["done", declined, declined]


def test_an_older_copy_of_a_purse_is_noticed_and_brought_up_to_date(
    two_surveys: list[Path], tmp_path: Path, answer_from: AnswerFrom
) -> None:
    one, two = two_surveys
    records = people_table(tmp_path / "r.csv", "ann,no,young")
    purse, now = tmp_path / "purse", tmp_path / "now"
    answer_from(one / "anna", records, question(one))
    shutil.copytree(purse, tmp_path / "then")
    answer_from(two / "anna", records, question(two))
    purse.rename(now)
    (tmp_path / "then").rename(purse)
    # From the folder that was used since: also if only the same is to be said again.
    for attempt in (1, 2):
        with pytest.raises(PrivacyError, match=r"lacks what was spent from .*two/keys/anna, up to"):
            answer_from(two / "anna", records, question(two, attempt=attempt), attempt=attempt)
    answer_from(one / "anna", records, question(one))
    merge(purse, two / "anna")
    read = Kept(purse)
    assert spent(read, read.payers(["ann"])) == pytest.approx([4.0])
    assert spent(read, read.payers(["bob"])) == pytest.approx([2.0])
    merge(purse, now)
    assert spent(read, read.payers(["ann"])) == pytest.approx([4.0])
    assert spent(read, read.payers(["bob"])) == [0.0]
    # The restored folder is still asked nothing else in that session.
    with pytest.raises(UsageError, match="other records have answered in this session"):
        answer_from(two / "anna", people_table(tmp_path / "o.csv", "ann,yes,old"), question(two))


def test_a_folder_without_its_attempts_recalls_the_most_that_they_can_cost(
    two_surveys: list[Path], tmp_path: Path, answer_from: AnswerFrom
) -> None:
    """It has what it said, or a receipt."""
    one, two = two_surveys
    records = people_table(tmp_path / "r.csv", "ann,no,young")
    for keys in (one, two):
        answer_from(keys / "anna", records, question(keys))
        (keys / "anna" / ATTEMPTS).unlink()
    for path in [*(two / "anna").glob("said-*"), *(two / "anna").glob("heard-*")]:
        path.unlink()
    assert [*(two / "anna").glob("receipt-*")]
    for keys in (one, two):
        with pytest.raises(PrivacyError, match="lacks what was spent from"):
            answer_from(keys / "anna", records, question(keys), purse=tmp_path / "new")
    merge(tmp_path / "new", one / "anna", two / "anna")
    found = Kept(tmp_path / "new")
    assert spent(found, found.payers(["zoe"])) == pytest.approx([4.0])
    # To the purse that was paid from, it is no news.
    merge(tmp_path / "purse", one / "anna", two / "anna")
    kept = Kept(tmp_path / "purse")
    assert spent(kept, kept.payers(["ann"])) == pytest.approx([4.0])
    assert spent(kept, kept.payers(["zoe"])) == [0.0]


def test_one_person_under_two_spellings_is_asked_about_before_anybody_is_connected_to(
    two_surveys: list[Path], tmp_path: Path, answer_from: AnswerFrom
) -> None:
    one, two = two_surveys
    first = people_table(tmp_path / "1.csv", "Ann@x.org,no,young", "0417,yes,old")
    other = people_table(tmp_path / "2.csv", "bob,no,young", "417,yes,old")
    answer_from(one / "anna", first, question(one), budget=3)
    paid = (tmp_path / "purse" / PAID).read_bytes()
    for more in ({}, {"different": "01234567"}):
        with pytest.raises(UsageError, match=r"1 of 2 respondents \(row 2\) reads like") as asked:
            answer_from(two / "anna", other, question(two), budget=3, **more)
        assert "417" not in str(asked.value).replace(str(tmp_path), "").partition("--diff")[0]
        assert (tmp_path / "purse" / PAID).read_bytes() == paid
        assert not [*(two / "anna").glob("heard-*")]
    apart = shutil.copytree(tmp_path / "purse", tmp_path / "apart")
    with pytest.raises(PrivacyError, match="1 of 2 respondents has too little left: up to 2 of 3"):
        answer_from(two / "anna", other, question(two), budget=3, same=True)
    code = str(asked.value).partition("--different ")[2][:8]
    settings = {"budget": 3, "purse": apart, "different": code}
    ended, _ = answer_from(two / "anna", other, question(two), **settings)
    assert ended.ending == "done"


def test_what_is_said_of_spellings_needs_ids(two_surveys: list[Path], tmp_path: Path) -> None:
    records = people_table(tmp_path / "r.csv", "ann,no,young")
    answer = ("answer", two_surveys[0] / "anna", "--records", records, "--connect", "127.0.0.1:1")
    for options, says in (
        (("--same",), "--same: expected --id too"),
        (("--different", "01234567"), "--different: expected --id too"),
        (("--id", "who", "--same", "--different", "01234567"), "expected one of them at most"),
    ):
        assert says in complaint(sottovoce(*answer, *options))


# Restored folders


def test_a_folder_and_its_copy_give_one_answer(
    two_surveys: list[Path], tmp_path: Path, answer_from: AnswerFrom
) -> None:
    """The copy is asked otherwise, and has looked into the purse before anything was paid."""
    one, _ = two_surveys
    anna, records = one / "anna", people_table(tmp_path / "r.csv", "ann,no,young")
    own_secret(anna)
    copy = shutil.copytree(anna, one / "copy")
    first = []

    class Meanwhile(ScriptedLink):
        async def receive_many(self) -> list[Envelope]:
            if not first:
                answer = functools.partial(answer_from, anna, records, question(one))
                first.append(await trio.to_thread.run_sync(answer))
            return await super().receive_many()

    ended, said = answer_from(copy, records, question(one, less=2**40), link_class=Meanwhile)
    assert first[0][0].ending == "done"
    assert "was restored or copied" in ended.ending
    assert said == []


def test_a_folder_restored_from_a_copy_does_not_answer_again(
    two_surveys: list[Path], tmp_path: Path, answer_from: AnswerFrom
) -> None:
    """Be the copy of before the session, or of the midst of it."""
    one, _ = two_surveys
    anna, records = one / "anna", people_table(tmp_path / "r.csv", "ann,no,young")
    before = shutil.copytree(anna, one / "before")
    answer_from(anna, records, question(one))
    midst = shutil.copytree(anna, one / "midst")
    [heard] = midst.glob("heard-*")
    heard.write_bytes(heard.read_bytes()[:32])
    other = question(one, less=2**40)
    for copy in (before, midst):
        with pytest.raises(PrivacyError, match="was restored or copied"):
            answer_from(copy, records, other)
