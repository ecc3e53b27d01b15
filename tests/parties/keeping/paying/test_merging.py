"""A purse that was lost or is too old is put together from what others have kept."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parties.keeping.paying.merging import merge
from parties.keeping.paying.payments import Recalled
from parties.keeping.purse import PAID, open_purse
from protocol.errors import UsageError
from tests.parties.keeping.paying.paid import pay, read, recalled, spent, spent_as_one

IDS = ("ann", "Ann", "bob", "0417", "417")


def merged(into: Path, *others: Path, folders: Sequence[Recalled] = ()) -> int:
    purses = [read(other) for other in others]
    with open_purse(into) as purse:
        return merge(purse, purses, folders)


def told_apart(folder: Path, *ids: str) -> None:
    with open_purse(folder) as purse:
        with pytest.raises(UsageError) as asked:
            purse.check_spellings(ids)
        purse.settle(ids, same=False, different=str(asked.value).partition("--different ")[2][:8])


Purses = list[list[tuple[int, tuple[str, ...] | None, int]]]
PAYMENTS = st.lists(
    st.tuples(
        st.integers(0, 2), st.none() | st.sets(st.sampled_from(IDS), min_size=1).map(tuple),
        st.integers(1, 4),
    ),
    max_size=4,
)  # fmt: skip


@settings(deadline=None, max_examples=25)
@given(st.lists(PAYMENTS, min_size=2, max_size=3), st.lists(st.integers(0, 3), max_size=3))
def test_a_merged_purse_has_what_each_has_whatever_comes_first(
    purses: Purses, recall: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        for number, payments in enumerate(purses):
            for survey, ids, epsilon in payments:
                pay(top / str(number), ids, str(survey), float(epsilon))
            with open_purse(top / str(number)):
                pass
        folders = [recalled(str(survey), 2.0) for survey in recall]
        sources = [top / str(number) for number in range(len(purses))]
        before = {source: spent(source, *IDS) for source in sources}
        found = []
        for turn, order in enumerate(itertools.permutations(sources)):
            into = top / f"into {turn}"
            if turn % 2:
                merged(into, folders=folders)
            for source in order:
                merged(into, source)
            merged(into, folders=folders)
            found.append((spent(into, *IDS), spent_as_one(into)))
            size = (into / PAID).stat().st_size
            assert merged(into, *order, into, folders=folders) == 0
            assert (into / PAID).stat().st_size == size
        assert all(each == found[0] for each in found)
        for source in sources:
            assert all(mine >= its for mine, its in zip(found[0][0], before[source], strict=True))
            assert found[0][1] >= spent_as_one(source)
        for survey in recall:
            # Paid by whoever is known to have paid as much, or else by everybody.
            assert spent_as_one(into, survey=str(survey)) >= 2.0
        # Into one of them, it is the same.
        merged(sources[0], *sources[1:], folders=folders)
        assert (spent(sources[0], *IDS), spent_as_one(sources[0])) == found[0]


def test_an_older_copy_is_brought_up_to_date(tmp_path: Path) -> None:
    now, then = tmp_path / "now", tmp_path / "then"
    pay(now, ["ann"], "one", 2.0)
    shutil.copytree(now, then)
    pay(now, ["ann", "bob"], "two", 1.0)
    pay(then, ["bob"], "three", 4.0)
    assert merged(then, now) == 2
    assert spent(then, "ann", "bob", "zoe") == [3.0, 5.0, 0.0]
    # Both have one secret, so nothing was joined.
    assert [*then.glob("secret-*")] == []


def test_people_are_known_under_the_secrets_of_both(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    pay(one, ["ann", "0417"], "one", 2.0)
    pay(other, ["ann", "bob"], "two", 1.0)
    merged(one, other)
    assert spent(one, "ann", "bob", "0417", "zoe") == [3.0, 1.0, 2.0, 0.0]
    # So are those who read alike.
    pay(other, ["417"], "three", 4.0)
    merged(one, other)
    assert spent(one, "417", "0417") == [6.0, 6.0]
    with open_purse(one) as purse, pytest.raises(UsageError, match="1 of 1 respondents"):
        purse.check_spellings(["417"])
    assert {path.stat().st_mode & 0o777 for path in one.iterdir()} == {0o600}
    secret = next(one.glob("secret-*"))
    secret.write_bytes(bytes(32))
    with pytest.raises(UsageError, match=f"belongs to another {secret.name} than the one beside"):
        spent(one, "ann")
    secret.unlink()
    with pytest.raises(UsageError, match=f"{secret}: no such file"):
        spent(one, "ann")


def test_what_was_said_of_people_is_taken_along(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    pay(one, ["0417", "Ann"], "one", 2.0)
    told_apart(one, "417")
    pay(one, ["417"], "two", 1.0)
    with open_purse(one) as purse:
        purse.settle(["ann"], same=True, different=None)
    merged(other, one)
    assert spent(other, "0417", "417", "ann") == [2.0, 1.0, 2.0]
    with open_purse(other) as purse:
        purse.check_spellings(["417", "ann"])
    # If anybody said that they are one, they are, in whichever order.
    third = tmp_path / "third"
    pay(third, ["0417"], "one", 2.0)
    shutil.copytree(third, tmp_path / "fourth")
    told_apart(third, "417")
    pay(third, ["417"], "two", 1.0)
    with open_purse(tmp_path / "fourth") as purse:
        purse.settle(["417"], same=True, different=None)
    merged(third, tmp_path / "fourth")
    merged(tmp_path / "fourth", third)
    for folder in (third, tmp_path / "fourth"):
        assert spent(folder, "0417", "417") == [3.0, 3.0]


def test_what_a_folder_recalls_counts_for_everybody_until_it_is_known_who_paid(
    tmp_path: Path,
) -> None:
    lost, other = tmp_path / "lost", tmp_path / "other"
    pay(other, ["ann"], "one", 2.0)
    assert merged(lost, folders=[recalled("one", 2.0)]) == 1
    assert spent(lost, "ann", "bob") == [2.0, 2.0]
    merged(lost, other)
    assert spent(lost, "ann", "bob") == [2.0, 0.0]
    # Only as much as they have paid: of the rest it is not known.
    merged(lost, folders=[recalled("one", 3.0)])
    assert spent(lost, "ann", "bob") == [3.0, 3.0]
    # Who pays for the same answer again is known.
    pay(lost, ["ann"], "one", 3.0)
    assert spent(lost, "ann", "bob") == [3.0, 0.0]


class KilledError(Exception):
    """The program is gone."""


class Dying:
    """A program that dies at one of its calls that reach the disk, with a part of it done."""

    def __init__(self, patch: pytest.MonkeyPatch, after: int, part: float) -> None:
        self.left = after
        self._part = part
        self._write = os.write
        patch.setattr(os, "write", self.write)
        for name in ("fsync", "link"):
            patch.setattr(os, name, self._dying(getattr(os, name)))

    def _count(self) -> None:
        if self.left == 0:
            raise KilledError
        self.left -= 1

    def write(self, file: int, content: bytes) -> int:
        if self.left == 0:
            self._write(file, content[: int(len(content) * self._part)])
        self._count()
        return self._write(file, content)

    def _dying(self, call: Callable[..., object]) -> Callable[..., object]:
        def dying(*given: object, **named: object) -> object:
            self._count()
            return call(*given, **named)

        return dying


@pytest.mark.parametrize("part", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("kind", ["new", "another", "older"])
def test_a_merge_that_is_cut_off_loses_nothing(
    kind: str, part: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts no less than before or in the end, and the next one completes it."""
    into, other = tmp_path / "into", tmp_path / "other"
    pay(other, ["ann", "bob"], "two", 1.0)
    pay(other, ["0417"], "three", 4.0)
    pay(other, ["417"], "four", 8.0)
    if kind == "older":
        shutil.copytree(other, into)
    elif kind == "another":
        pay(into, ["ann", "0417"], "one", 2.0)
    told_apart(other, "417")
    pay(other, ["417"], "six", 32.0)
    folders, ids = [recalled("five", 16.0)], (*IDS, "zoe")
    before = [0.0] * len(ids) if kind == "new" else spent(into, *ids)
    source = spent(other, *ids)

    def copied(name: str) -> Path:
        if kind != "new":
            shutil.copytree(into, tmp_path / name)
        return tmp_path / name

    merged(copied("whole"), other, folders=folders)
    end = spent(tmp_path / "whole", *ids)
    for after in itertools.count():
        trial = copied(f"trial {after}")
        with monkeypatch.context() as patch:
            dying = Dying(patch, after, part)
            try:
                merged(trial, other, folders=folders)
            except KilledError:
                assert dying.left == 0
            else:
                break
        with open_purse(trial):
            pass
        least = map(min, before, end)
        assert all(now >= then for now, then in zip(spent(trial, *ids), least, strict=True))
        merged(trial, other, folders=folders)
        assert (spent(trial, *ids), spent(other, *ids)) == (end, source)
    assert after > 3


def test_two_merges_and_payments_at_once(tmp_path: Path) -> None:
    """Into each other, while both are paid from."""
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        pay(folder, ["ann"], folder.name, 1.0)

    def act(turn: int) -> None:
        into, source = (one, other) if turn % 2 else (other, one)
        if turn % 3:
            merged(into, source)
        else:
            pay(into, ["ann"], str(turn), 1.0)

    with ThreadPoolExecutor(6) as pool:
        for _ in pool.map(act, range(24)):
            pass
    merged(one, other)
    merged(other, one)
    assert spent(one, "ann") == spent(other, "ann") == [10.0]
