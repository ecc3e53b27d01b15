"""The same report again: one release, said twice, byte for byte or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from parties.keeping.purse import purse_in
from parties.keeping.record_names import partial_path
from parties.keeping.records import GrowingTranscript
from parties.keeping.repeating import check_repeatable, noted_given
from parties.keeping.session_keys import known_session_key, role_stream
from protocol import AGGREGATOR, PartyId, PrivacyError
from protocol.errors import UsageError
from protocol.messages import Envelope
from protocol.variants import BUILT_IN
from protocol.variants.reports import reports as reports_of
from scenarios import read_plan, read_records
from scenarios.surveys.answering import Answered
from scenarios.surveys.holding.attempts import abandon_survey
from scenarios.surveys.members import read_member
from tests.scenarios.command import complaint, sottovoce
from tests.scenarios.survey_folders import (
    PLAN,
    PLANS,
    WHO,
    hold,
    make_folders,
    people_table,
    plan_file,
    table,
)
from tests.scenarios.surveys.conftest import AnswerFrom
from tests.scenarios.surveys.test_attempts import (
    ONCE,
    CrashedError,
    Signing,
    crash,
    verified,
)
from tests.scenarios.surveys.test_deployment import ScriptedLink, question, reports


def paid(purse: Path) -> list[float]:
    """What ann and bob have paid."""
    read = purse_in(purse)
    assert read is not None
    return [float(read.spent(read.payers([who])).epsilon[0]) for who in ("ann", "bob")]


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """Enough respondents that two reports are hardly the same by chance."""
    return people_table(tmp_path / "r.csv", "ann,no,young", "bob,yes,old", "cyd,yes,middle")


class OneBreath(ScriptedLink):
    """A link over which all comes at once."""

    async def receive_many(self) -> list[Envelope]:
        first = await super().receive_many()
        said, self._says = self._says, []
        return [*first, *said]


def report_of(answered: tuple[Answered, list[Envelope]]) -> bytes:
    ended, said = answered
    assert ended.ending == "done"
    assert [each.kind for each in said] == ["Report", "Head"]
    return said[0].body


def test_an_abandoned_attempt_costs_nothing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody has answered when the aggregator dies, and all give the same reports again."""
    keys = make_folders(tmp_path)
    signing = Signing(monkeypatch)
    with monkeypatch.context() as patched:
        patched.setattr(GrowingTranscript, "finish", crash)
        with pytest.raises(CrashedError):
            hold(keys, tmp_path / "one", ONCE)
    lost = tmp_path / "one" / "transcript.svt.zst"
    one = partial_path(lost).rename(tmp_path / "first.svt")
    abandon_survey(read_member(keys / AGGREGATOR), lost, lost=True)
    again = hold(keys, tmp_path / "two", ONCE, repeating=True)
    for each in again.values():
        assert (each.ending, each.attempt, each.repeated) == ("done", 2, True)
        assert (each.spent.epsilon, each.before.epsilon) == (0.0, pytest.approx(2))
    two = tmp_path / "two" / "transcript.svt.zst"
    verified(one, 1)
    assert verified(two, 2).intact
    first, second = reports(one), reports(two)
    assert {name: each.body for name, each in first.items()} == {
        name: each.body for name, each in second.items()
    }
    assert {each.session for each in first.values()} != {each.session for each in second.values()}
    assert signing.contradictions == set()
    # Each record by itself has the whole price, and what its members say follows.
    members = [
        ("--member", keys / name, "--records", f"{name}={two.parent / name}.csv") for name in WHO
    ]
    said = sottovoce("audit", two, *members[0], *members[1])
    assert said.code == 0, said.out + said.err
    assert "2 of 2 parties whose keys and records are at hand sent what follows" in said.out


def test_by_default_it_does_not_repeat(
    two_surveys: list[Path], records: Path, tmp_path: Path, answer_from: AnswerFrom
) -> None:
    one = two_surveys[0]
    found = set()
    for attempt in range(1, 6):
        asked = question(one, attempt=attempt)
        found.add(
            report_of(answer_from(one / "anna", records, asked, attempt=attempt, budget=100.0))
        )
    assert len(found) > 1
    assert paid(tmp_path / "purse") == pytest.approx([10.0, 10.0])


def test_an_answer_is_given_again_in_another_survey(
    two_surveys: list[Path], records: Path, tmp_path: Path, answer_from: AnswerFrom
) -> None:
    """Under other keys, another name and another roster, with nothing left of the budget."""
    one, two = two_surveys
    first = report_of(answer_from(one / "anna", records, question(one), budget=2.1))
    asked = question(two, party="bert")
    for _ in range(2):
        answered = answer_from(
            two / "bert", records, asked, budget=2.1, repeat=read_member(one / "anna")
        )
        assert report_of(answered) == first
        assert (answered[0].spent.epsilon, answered[0].repeated) == (0.0, True)
    # In this session it stays so, without being asked for.
    answered = answer_from(two / "bert", records, asked)
    assert (report_of(answered), answered[0].repeated) == (first, True)
    assert paid(tmp_path / "purse") == pytest.approx([2.0, 2.0])


def test_what_says_that_a_report_is_given_again_does_not_undo_it(
    two_surveys: list[Path], records: Path, answer_from: AnswerFrom
) -> None:
    """The key of its randomness is there only for who has the party's secret and its records."""
    one, two = two_surveys
    anna, bert = read_member(one / "anna"), read_member(two / "bert")
    answer_from(one / "anna", records, question(one))
    answer_from(two / "bert", records, question(two, party="bert"), repeat=anna)
    held = read_records(records, anna.charter.variant.survey)
    key = known_session_key(anna.folder, anna.charter, held)
    own = known_session_key(bert.folder, bert.charter, held)
    given = noted_given(bert.folder, bert.charter.session)
    assert given is not None
    assert key not in msgspec.structs.astuple(given)
    first = role_stream(key, anna.charter.session, PartyId("anna"))
    assert given.stream(own).words(4).tolist() == first.words(4).tolist()
    other = given.stream(bytes(32))
    assert other.words(4).tolist() != given.stream(own).words(4).tolist()


def test_another_question_gets_no_report(
    two_surveys: list[Path], records: Path, tmp_path: Path, answer_from: AnswerFrom
) -> None:
    """It costs less, so a party would consent; but it would be a second report.

    Even one that happens to be the same is not given: that others hear nothing when it differs
    would tell them something.
    """
    one, _ = two_surveys
    answer_from(one / "anna", records, question(one))
    for attempt in range(2, 12):
        other = question(one, less=2**40 + attempt, attempt=attempt)
        ended, said = answer_from(
            one / "anna", records, other, attempt=attempt, repeat=read_member(one / "anna")
        )
        assert ended.ending.endswith("this is not the question that was answered before")
        assert said == []
    assert paid(tmp_path / "purse") == pytest.approx([2.0, 2.0])


def test_words_that_nobody_answered_are_not_asked_again(
    two_surveys: list[Path], records: Path, answer_from: AnswerFrom
) -> None:
    """An aggregator says in one breath what it would ask later; the party has heard it all."""
    one, _ = two_surveys
    anna = read_member(one / "anna")
    planted = [question(one, less=2**40 + number) for number in range(4)]
    answer_from(one / "anna", records, question(one), *planted, link_class=OneBreath)
    for attempt in range(2, 7):
        other = question(one, less=2**40 + attempt - 2, attempt=attempt)
        with pytest.raises(UsageError, match="it is not certain which was answered"):
            answer_from(one / "anna", records, other, attempt=attempt, repeat=anna)
    assert not [*(one / "anna").glob("given-*")]


def test_another_program_gives_the_report_that_was_given(
    two_surveys: list[Path], records: Path, answer_from: AnswerFrom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would make another one of the same randomness; nothing is drawn."""
    one, _ = two_surveys
    first = report_of(answer_from(one / "anna", records, question(one)))
    drawn = reports_of.randomized

    def otherwise(*given: Any) -> Any:
        codes = drawn(*given)
        codes[:, 0] ^= 1  # Of two categories.
        return codes

    monkeypatch.setattr(reports_of, "randomized", otherwise)
    anna, asked = read_member(one / "anna"), question(one, attempt=2)
    assert report_of(answer_from(one / "anna", records, asked, attempt=2, repeat=anna)) == first


def test_what_cannot_be_given_again(
    two_surveys: list[Path], records: Path, tmp_path: Path, answer_from: AnswerFrom
) -> None:
    one, _ = two_surveys
    anna, asked = read_member(one / "anna"), question(one, attempt=2)

    def refused(says: str, records: Path = records, folder: Path = one / "anna") -> None:
        with pytest.raises(UsageError, match=says):
            answer_from(folder, records, asked, attempt=2, repeat=anna)

    refused("nothing was answered from there before")
    answer_from(one / "anna", records, question(one))
    refused("other records have answered", people_table(tmp_path / "o.csv", "ann,yes,old"))
    [said] = (one / "anna").glob("said-*")
    whole = said.read_bytes()
    said.write_bytes(whole[:40])
    refused("was paid for, but not given")
    said.write_bytes(whole)
    [kept] = (one / "anna").glob("report-*")
    report = kept.read_bytes()
    kept.write_bytes(report + b"x")
    refused("was paid for, but not given")
    kept.write_bytes(report)
    # Once a new report was given in an attempt, that attempt has no other.
    answer_from(one / "anna", records, asked, attempt=2)
    refused("a report of its own was given in attempt 2")
    # A repeated answer is not one to repeat: the one that was paid for is.
    third, fourth = (
        report_of(
            answer_from(one / "anna", records, question(one, attempt=n), attempt=n, repeat=anna)
        )
        for n in (3, 4)
    )
    assert third == fourth


def test_only_who_has_paid_is_in_a_report_that_is_given_again(
    two_surveys: list[Path],
    tmp_path: Path,
    answer_from: AnswerFrom,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Other people have the same answers, so the report could be theirs; nobody is connected to."""
    one, two = two_surveys
    records = people_table(tmp_path / "r.csv", "ann,no,young", "bob,yes,old")
    first = report_of(answer_from(one / "anna", records, question(one)))
    others = people_table(tmp_path / "o.csv", "ann,no,young", "dan,yes,old")
    otherwise = people_table(tmp_path / "w.csv", "ann,no,young", "bob,no,old")
    monkeypatch.setattr("scenarios.surveys.answering.connect_lasting", crash)
    repeat = ("--repeat", one / "anna", "--connect", "127.0.0.1:1", "--waiting", 0)

    def refused(records: Path, purse: str, *ids: str, code: int = 1) -> str:
        answer = ("answer", two / "anna", *repeat, "--records", records)
        return complaint(sottovoce(*answer, "--purse", tmp_path / purse, *ids), code=code)

    have_not = "have not paid for the report that is to be given again"
    assert f"1 of 2 who pay from it {have_not}" in refused(others, "purse", "--id", "who")
    assert f"2 of 2 who pay from it {have_not}" in refused(records, "other", "--id", "who")
    assert f"1 of 1 who pay from it {have_not}" in refused(records, "purse")
    assert "other records have answered" in refused(otherwise, "purse", "--id", "who", code=2)
    # Nor are they once it was given again.
    asked, anna = question(two), read_member(one / "anna")
    assert report_of(answer_from(two / "anna", records, asked, repeat=anna)) == first
    with pytest.raises(PrivacyError, match=f"1 of 2 who pay from it {have_not}"):
        answer_from(two / "anna", others, asked)
    assert paid(tmp_path / "purse") == pytest.approx([2.0, 2.0])


def test_a_survey_that_asks_otherwise_gets_no_old_answer(
    tmp_path: Path, records: Path, answer_from: AnswerFrom
) -> None:
    found = []
    for name, plan in (("one", PLAN), ("two", PLAN.replace("epsilon = 2.0", "epsilon = 1.5"))):
        (tmp_path / name).mkdir()
        found.append(make_folders(tmp_path / name, plan))
    one, two = found
    answer_from(one / "anna", records, question(one))
    with pytest.raises(UsageError, match="another question was answered there"):
        answer_from(two / "anna", records, question(two), repeat=read_member(one / "anna"))
    assert not [*(two / "anna").glob("given-*")]


SEVERAL = {"pair-rr", "pair-counts", "secure-sum", "rr-clusters"}
ROUNDS = {"privkv", "privkvm", "rrba"}


@pytest.mark.parametrize("name", BUILT_IN)
def test_which_variants_can_repeat(name: str, tmp_path: Path) -> None:
    """Those of one question and one report; where something is added up, a mask hides one sum."""
    variant = read_plan(plan_file(tmp_path, PLANS[name])).variant
    if name in SEVERAL | ROUNDS:
        why = "makes sums" if name in SEVERAL else "is not one question and one report"
        with pytest.raises(UsageError, match=why):
            check_repeatable(variant, 10)
    else:
        check_repeatable(variant, 10)


def test_the_command_says_that_both_can_be_linked(tmp_path: Path) -> None:
    keys = make_folders(tmp_path)
    records = table(tmp_path / "r.csv", "no,young")
    answer = ("answer", keys / "anna", "--records", records, "--connect", "127.0.0.1:1")
    options = ("--purse", tmp_path / "purse", "--waiting", 0)
    # Nobody is connected to.
    assert "nothing was answered from there before" in complaint(
        sottovoce(*answer, *options, "--repeat", keys / "anna")
    )
    missing = tmp_path / "missing"
    assert "is not a member's folder" in complaint(
        sottovoce(*answer, *options, "--repeat", missing)
    )
