"""Backups of an aggregator: complete, private, made while it runs, and nothing else is taken."""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from parties.keeping.attempts import ATTEMPTS, RESTORED, attempts_in
from parties.keeping.members import Member
from parties.keeping.packing import Unpacked
from parties.keeping.record_names import TRANSCRIPT, partial_path
from protocol import AGGREGATOR
from protocol.transcript.entries import Restored
from protocol.transcript.reader import TranscriptReader
from scenarios.surveys.holding import backups
from scenarios.surveys.holding.attempts import Attempt, attempting
from scenarios.surveys.holding.backups import Backup, restore_backup, write_backup
from scenarios.surveys.members import read_member
from tests.scenarios.command import complaint, sottovoce
from tests.scenarios.linked_surveys import linking
from tests.scenarios.programs import Program
from tests.scenarios.survey_folders import make_folders


class InterruptedAttemptError(Exception):
    """The program ends, and may go on."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folders(tmp_path_factory.mktemp("survey"))


@pytest.fixture
def keys(made: Path, tmp_path: Path) -> Path:
    """Folders of a survey that has not begun."""
    copy = tmp_path / "keys"
    for folder in made.iterdir():
        (copy / folder.name).mkdir(parents=True)
        for path in folder.iterdir():
            (copy / folder.name / path.name).write_bytes(path.read_bytes())
    return copy


@contextmanager
def begun(keys: Path, out: Path, *, resume: bool = False) -> Generator[tuple[Member, Attempt]]:
    """An aggregator whose attempt has begun: its files are locked."""

    member = read_member(keys)
    opened = attempting(member, transcript=out / TRANSCRIPT, resume=resume)
    with suppress(InterruptedAttemptError), opened as attempt:
        attempt.counter.stream_secret()
        attempt.take_up()
        attempt.record_restoration()
        attempt.begin()
        yield member, attempt
        raise InterruptedAttemptError


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_all_is_back(keys: Path, tmp_path: Path) -> None:
    out, file = tmp_path / "out", tmp_path / "backup"
    with begun(keys / AGGREGATOR, out) as (member, _):
        backup = write_backup(member, out, file)
    there = files(keys / AGGREGATOR)
    assert {"log-secret-1", "stream-secret-1", ATTEMPTS} <= there.keys()
    assert (backup.attempt, backup.begun, backup.files) == (1, True, len(there) + 1)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    restored = restore_backup(file, tmp_path / "new" / "keys", tmp_path / "new" / "out")
    assert restored == backup
    assert files(tmp_path / "new" / "keys") == {**there, RESTORED: b"1"}
    assert files(tmp_path / "new" / "out").keys() == files(out).keys()
    for folder in (tmp_path / "new" / "keys", tmp_path / "new" / "out"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_the_record_says_once_that_it_was_restored(keys: Path, tmp_path: Path) -> None:
    out, file = tmp_path / "out", tmp_path / "backup"
    with begun(keys / AGGREGATOR, out) as (member, _):
        write_backup(member, out, file)
    new, there = tmp_path / "new", tmp_path / "there"
    restore_backup(file, new, there)
    for _ in range(2):
        with begun(new, there, resume=True) as (_, attempt):
            assert attempt.restored
        assert RESTORED not in files(new)
        entries = TranscriptReader(Unpacked(partial_path(there / TRANSCRIPT).read_bytes()))
        assert [entry.without for entry in entries if isinstance(entry, Restored)] == [()]


def test_an_attempt_that_had_not_begun_begins_from_an_older_copy(
    keys: Path, tmp_path: Path
) -> None:
    out, file = tmp_path / "out", tmp_path / "backup"
    out.mkdir()
    assert write_backup(read_member(keys / AGGREGATOR), out, file).attempt == 1
    new, there = tmp_path / "new", tmp_path / "there"
    restore_backup(file, new, there)
    with begun(new, there, resume=True) as (_, attempt):
        assert attempt.restored
    with begun(keys / AGGREGATOR, out) as (_, attempt):
        assert not attempt.restored


def test_a_later_attempt_of_a_restored_folder_was_not_restored(keys: Path, tmp_path: Path) -> None:
    out, file = tmp_path / "out", tmp_path / "backup"
    with begun(keys / AGGREGATOR, out) as (member, _):
        write_backup(member, out, file)
    new, there = tmp_path / "new", tmp_path / "there"
    restore_backup(file, new, there)
    abandoned = sottovoce("abandon", new, "--out", there)
    assert abandoned.code == 0, abandoned.err
    with begun(new, tmp_path / "second") as (_, attempt):
        assert (attempt.charter.attempt, attempt.restored) == (2, False)


def test_it_replaces_nothing(keys: Path, tmp_path: Path) -> None:
    out, file = tmp_path / "out", tmp_path / "backup"
    with begun(keys / AGGREGATOR, out) as (member, _):
        write_backup(member, out, file)
    backup = ("backup", keys / AGGREGATOR, file, "--out", out)
    assert "replaces nothing" in complaint(sottovoce(*backup))
    there = tmp_path / "there"
    there.mkdir()
    (there / "mine").write_text("mine")
    for folder, record in ((there, tmp_path / "a"), (tmp_path / "a", there)):
        said = complaint(sottovoce("restore", file, folder, "--out", record))
        assert f"{there}: exists and is not empty" in said
        assert not (tmp_path / "a").exists()
    inside = tmp_path / "a" / "out"
    assert "is in" in complaint(sottovoce("restore", file, tmp_path / "a", "--out", inside))


def test_what_is_not_all_there_is_not_backed_up(keys: Path, tmp_path: Path) -> None:
    out, other, file = tmp_path / "out", tmp_path / "other", tmp_path / "backup"
    with begun(keys / AGGREGATOR, out):
        pass
    other.mkdir()

    def said(folder: Path, record: Path) -> str:
        found = complaint(sottovoce("backup", folder, file, "--out", record))
        assert not file.exists()
        return found

    assert "has no record of attempt 1, which has begun" in said(keys / AGGREGATOR, other)
    partial_path(other / TRANSCRIPT).write_bytes(b"something else")
    assert "has no record of attempt 1, which has begun" in said(keys / AGGREGATOR, other)
    assert "is anna's, not the aggregator's" in said(keys / "anna", out)
    (keys / AGGREGATOR / "link").symlink_to(tmp_path)
    assert "is not a regular file" in said(keys / AGGREGATOR, out)


def test_a_copy_that_changes_meanwhile_is_made_again(
    keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt ends while its files are read: its secrets go, and the record gets its name."""
    out, file, real = tmp_path / "out", tmp_path / "backup", backups._files_in
    ended = []

    def files_in(folder: Path, record: Path) -> object:
        found = list(real(folder, record))
        if not ended:
            ended.append(sottovoce("abandon", keys / AGGREGATOR, "--out", out).code)
        return found

    with begun(keys / AGGREGATOR, out) as (member, _):
        pass
    monkeypatch.setattr(backups, "_files_in", files_in)
    backup = write_backup(member, out, file)
    assert (ended, backup.attempt, backup.begun) == ([0], 2, False)
    restore_backup(file, tmp_path / "new", tmp_path / "there")
    assert [taken.state for taken in attempts_in(tmp_path / "new")] == ["over"]


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-30])


def garbled(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def empty(file: Path) -> None:
    file.write_bytes(b"")


def another(file: Path) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a", b"b")


def added(name: str, compression: int = zipfile.ZIP_STORED) -> Callable[[Path], None]:
    def add(file: Path) -> None:
        with zipfile.ZipFile(file, "a") as archive:
            archive.writestr(name, bytes(1000), compression)

    return add


@pytest.mark.parametrize(
    "change",
    [
        cut,
        garbled,
        empty,
        another,
        added("folder/more"),
        added("folder/../../escaped"),
        added("record/other"),
        added("folder/bomb", zipfile.ZIP_DEFLATED),
    ],
)
def test_what_is_not_a_backup_makes_nothing(
    change: Callable[[Path], None], keys: Path, tmp_path: Path
) -> None:
    out, file = tmp_path / "out", tmp_path / "backup"
    with begun(keys / AGGREGATOR, out) as (member, _):
        write_backup(member, out, file)
    change(file)
    said = sottovoce("restore", file, tmp_path / "new", "--out", tmp_path / "there")
    assert "not a backup" in complaint(said)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "keys", "out"]


def test_a_name_that_no_backup_has_is_refused(
    keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a file whose digests are right."""
    names = ("a/b", ".hidden", "", "n" * 256)
    for name in (*(f"folder/{each}" for each in names), "record/x", "else/x"):
        file = tmp_path / "backup"
        with monkeypatch.context() as patched:
            patched.setattr(backups, "_copy_files", lambda *_, name=name: ({name: b""}, None))
            made = write_backup(read_member(keys / AGGREGATOR), tmp_path, file)
        assert made == Backup(1, False, 1)
        said = sottovoce("restore", file, tmp_path / "new", "--out", tmp_path / "there")
        assert "has a name that none of one has" in complaint(said)
        file.unlink()


def test_a_malformed_note_that_it_was_restored_is_named(keys: Path, tmp_path: Path) -> None:
    (keys / AGGREGATOR / RESTORED).write_text("no number")
    where = ("--listen", "127.0.0.1:0", "--out", tmp_path / "out", "--resume")
    said = complaint(sottovoce("aggregate", keys / AGGREGATOR, *where))
    assert f"{keys / AGGREGATOR / RESTORED}: " in said


def test_a_survey_by_links_goes_on_only_without_whom_it_lacks(tmp_path: Path) -> None:
    """A page shows nothing of what it holds: nobody is waited for, and the record names all."""
    linked = linking(tmp_path, "--count", 4) / AGGREGATOR
    out, file, new, there = (tmp_path / name for name in ("out", "backup", "new", "there"))
    with begun(linked, out) as (member, _):
        write_backup(member, out, file)
    restore_backup(file, new, there)
    where = ("--listen", "127.0.0.1:0", "--out", there, "--resume")
    said = complaint(sottovoce("collect", new, *where))
    assert "who may hold receipts of what it lacks: p-1, p-2, p-3, p-4; have them" in said
    with Program("collect", new, *where, "--without-missing") as program:
        assert "listening on " in program.stderr.readline()
        program.terminate()
    entries = TranscriptReader(Unpacked(partial_path(there / TRANSCRIPT).read_bytes()))
    names = [entry.without for entry in entries if isinstance(entry, Restored)]
    assert names == [(), tuple(member.charter.roster.parties)]
