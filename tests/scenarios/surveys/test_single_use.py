"""What hides values in a sum is drawn once: whatever becomes of a party's folder or program."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from parties.keeping.session_keys import known_session_key, session_key
from protocol import AGGREGATOR, PrivacyError
from protocol.errors import UsageError
from protocol.messages import Envelope
from protocol.sharing.messages import Begin, Graph, Join
from scenarios import read_records
from scenarios.surveys.members import read_member
from tests.scenarios.command import sottovoce
from tests.scenarios.survey_folders import PLANS, people_table, plan_file
from tests.scenarios.surveys.conftest import AnswerFrom

Folders = Callable[[str], Path]


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    """Folders for six parties of a survey of a variant."""

    def made(name: str) -> Path:
        out = tmp_path / name
        said = sottovoce("keys", plan_file(tmp_path, PLANS[name]), "--count", 6, "--out", out)
        assert said.code == 0, said.err
        return out

    return made


def key_of(folder: Path, attempt: int = 1, answer: str = "no,young") -> bytes:
    charter = read_member(folder).charter.again(attempt)
    path = folder.parent / "records.csv"
    path.write_text(f"smokes,age\n{answer}\n")
    return session_key(folder, charter, read_records(path, charter.variant.survey))


SUMS = ("secure-sum", "pair-counts", "pair-rr", "rr-clusters")


@pytest.mark.parametrize("name", [*SUMS, "rr-independent"])
def test_a_copy_of_before_the_session_draws_another_secret(name: str, folders: Folders) -> None:
    """A report is drawn from the same one, so it is the same and costs nothing again."""
    party = folders(name) / "party-1"
    key_of(party)
    # What a copy has of its own: what was there before the session.
    before = shutil.ignore_patterns("single-use-*")
    copies = [shutil.copytree(party, party.parent / f"copy-{n}", ignore=before) for n in (1, 2)]
    keys = [key_of(party), key_of(party), *(key_of(copy) for copy in copies)]
    assert len(set(keys)) == (3 if name in SUMS else 1)
    # On disk before it is used, and found again by whoever audits.
    charter = read_member(party).charter
    records = read_records(party.parent / "records.csv", charter.variant.survey)
    assert known_session_key(party, charter, records) == keys[0]


@pytest.mark.parametrize("name", ["secure-sum", "rr-independent"])
def test_other_records_and_other_attempts_have_other_keys(name: str, folders: Folders) -> None:
    party = folders(name) / "party-1"
    one, other = key_of(party), key_of(party, answer="yes,old")
    assert one != other
    if name in SUMS:
        assert len({one, key_of(party, attempt=2)}) == 2
        assert len([*party.glob("single-use-*")]) == 2
        assert {path.stat().st_mode & 0o777 for path in party.glob("single-use-*")} == {0o600}


def test_a_secret_that_is_not_whole_is_refused(folders: Folders) -> None:
    party = folders("secure-sum") / "party-1"
    key_of(party)
    [path] = party.glob("single-use-*")
    path.write_bytes(bytes(31))
    with pytest.raises(UsageError, match=f"{path.name}: expected 32 bytes"):
        key_of(party)


def test_a_secret_that_cannot_be_written_is_not_used(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    party = folders("secure-sum") / "party-1"

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    key_of(folders("rr-independent") / "party-1")
    monkeypatch.setattr("parties.keeping.members.write_once", full)
    with pytest.raises(OSError, match="No space left"):
        key_of(party)


def begin(folder: Path, attempt: int = 1) -> Envelope:
    charter = read_member(folder).charter.again(attempt)
    body = charter.codec.encode(Begin(charter.variant.survey.digest))
    return Envelope(
        charter.session, AGGREGATOR, read_member(folder).identity.name, 0, Begin.kind(), body
    )


def nonce(folder: Path, said: list[Envelope]) -> bytes:
    [joined] = said
    message = read_member(folder).charter.codec.decode("Join", joined.body)
    assert isinstance(message, Join)
    return message.nonce.tobytes()


def test_two_copies_of_a_folder_do_not_share_a_nonce(
    folders: Folders, tmp_path: Path, answer_from: AnswerFrom
) -> None:
    """Two machines, whose purses do not know of each other, are asked in one session."""
    party = folders("secure-sum") / "party-1"
    copy = shutil.copytree(party, party.parent / "copy")
    records = people_table(tmp_path / "r.csv", "ann,no,young")

    def answer(folder: Path, purse: str) -> list[Envelope]:
        _, said = answer_from(folder, records, begin(folder), purse=tmp_path / purse)
        return said

    one, again = (nonce(party, answer(party, "one")) for _ in range(2))
    assert one == again
    assert nonce(copy, answer(copy, "two")) != one
    third = shutil.copytree(
        party, party.parent / "third", ignore=shutil.ignore_patterns("s*-*", "h*-*")
    )
    # On one machine, its purse knows that this party has answered in this session.
    with pytest.raises(PrivacyError, match="was restored or copied"):
        answer(third, "one")


def graph(folder: Path, joined: int) -> Envelope:
    """What a party of a sum declines: nobody is in it, or too many are."""
    charter = read_member(folder).charter
    path, keys = (np.zeros((rows, 32), np.uint8) for rows in (0, 5))
    names = tuple(f"party-{number}" for number in range(2, 7))
    body = charter.codec.encode(
        Graph(joined, joined, bytes(32), 0, path, names, keys, path, keys[:, 0])
    )
    return msgspec.structs.replace(begin(folder), seq=1, kind="Graph", body=body)


def test_a_copy_of_the_midst_of_a_session_says_nothing_else_that_is_free(
    folders: Folders, tmp_path: Path, answer_from: AnswerFrom
) -> None:
    """It has the session's secret, and what it would say costs nothing more."""
    party = folders("secure-sum") / "party-1"
    records = people_table(tmp_path / "r.csv", "ann,no,young")
    answer_from(party, records, begin(party))
    copy = shutil.copytree(party, party.parent / "copy")
    ended, said = answer_from(party, records, begin(party), graph(party, 0))
    assert [each.kind for each in said] == ["Join", "Declined", "Head"]
    with pytest.raises(PrivacyError, match="was restored or copied"):
        answer_from(copy, records, begin(copy), graph(copy, 9))
    again, same = answer_from(party, records, begin(party), graph(party, 0))
    assert (again.ending, same) == (ended.ending, said)


def test_other_records_do_not_join_with_the_same_key(
    folders: Folders, tmp_path: Path, answer_from: AnswerFrom
) -> None:
    party = folders("secure-sum") / "party-1"
    purse = {"purse": tmp_path / "purse"}
    first = people_table(tmp_path / "r.csv", "ann,no,young")
    other = people_table(tmp_path / "o.csv", "ann,yes,old")
    answer_from(party, first, begin(party), **purse)
    with pytest.raises(UsageError, match="other records have answered in this session"):
        answer_from(party, other, begin(party), **purse)


def test_another_program_does_not_join_otherwise(
    folders: Folders, tmp_path: Path, answer_from: AnswerFrom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would draw other secrets in the session: it says nothing instead."""
    party = folders("secure-sum") / "party-1"
    records = people_table(tmp_path / "r.csv", "ann,no,young")
    _, [said] = answer_from(party, records, begin(party))
    assert said.kind == "Join"
    monkeypatch.setattr("protocol.sharing.sparse.SECRET_BYTES", 32)
    monkeypatch.setattr("protocol.session.roles.Stream.derive", lambda self, purpose: self)
    ended, more = answer_from(party, records, begin(party))
    assert more == []
    assert "would say something else than when it answered before" in ended.ending
