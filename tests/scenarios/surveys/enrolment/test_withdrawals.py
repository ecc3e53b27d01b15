"""``withdraw``, and what whoever collects the answers reads of it."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import threading
from pathlib import Path

import pytest

from parties.keeping.places import WITHDRAWALS, Withdrawal, spares, unused_spares, withdrawals
from protocol.errors import UsageError
from tests.scenarios.command import Said, complaint, sottovoce
from tests.scenarios.linked_surveys import linking
from tests.scenarios.survey_folders import make_folders


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five places, three spare ones and a ward with a folder."""
    options = ("--count", 5, "--spare", 3, "--party", "ward", "--no-qr")
    return linking(tmp_path_factory.mktemp("linked"), *options)


@pytest.fixture
def folder(linked: Path, tmp_path: Path) -> Path:
    """The aggregator's."""
    shutil.copytree(linked / "aggregator", tmp_path / "aggregator")
    return tmp_path / "aggregator"


def withdraw(folder: Path, *words: object) -> Said:
    return sottovoce("withdraw", folder, *words)


def test_nothing_is_withdrawn_at_first(folder: Path) -> None:
    assert withdrawals(folder) == ()
    assert spares(folder) == ("p-6", "p-7", "p-8")
    assert unused_spares(folder) == spares(folder)
    assert not (folder / WITHDRAWALS).exists()


def test_a_place_is_withdrawn_for_a_reason_and_another_is_handed_out(folder: Path) -> None:
    said = withdraw(folder, "p-2", "--reason", "letter came back", "--instead", "p-7")
    assert said.code == 0
    assert withdraw(folder, "p-4").code == 0
    found = withdrawals(folder)
    assert found == (("p-2", "letter came back", "p-7", False), ("p-4", "", None, False))
    assert unused_spares(folder) == ("p-6", "p-8")
    assert stat.S_IMODE((folder / WITHDRAWALS).stat().st_mode) == 0o600


def test_spare_places_can_be_withdrawn_before_and_after_they_are_handed_out(folder: Path) -> None:
    assert withdraw(folder, "p-6").code == 0
    assert withdraw(folder, "p-1", "--instead", "p-7").code == 0
    assert withdraw(folder, "p-7", "--instead", "p-8").code == 0
    assert unused_spares(folder) == ()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("p-3", "--reason", "x" * 201), "the reason: expected at most 200 characters"),
        (("p-3", "--reason", "a\nb"), "all of them printable"),
    ],
)
def test_what_cannot_be_withdrawn(words: tuple[str, ...], says: str, folder: Path) -> None:
    assert withdraw(folder, "p-2", "--instead", "p-7").code == 0
    assert withdraw(folder, "p-8").code == 0
    before = (folder / WITHDRAWALS).read_bytes()
    assert says in complaint(withdraw(folder, *words))
    assert (folder / WITHDRAWALS).read_bytes() == before


def test_only_a_survey_with_links_has_spare_places(tmp_path: Path) -> None:
    keys = make_folders(tmp_path)
    with pytest.raises(UsageError, match="so nobody answers this survey through links"):
        spares(keys / "aggregator")


def test_whoever_polls_reads_the_file_only_once_it_has_changed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    withdraw(folder, "p-1")
    first = withdrawals(folder)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", lambda _: pytest.fail("read again"))
        assert withdrawals(folder) is first
    withdraw(folder, "p-2")
    assert [each.place for each in withdrawals(folder)] == ["p-1", "p-2"]


def test_half_a_line_does_not_count_and_is_cut_off(folder: Path) -> None:
    withdraw(folder, "p-1")
    path = folder / WITHDRAWALS
    whole = path.read_bytes()
    path.write_bytes(whole + b'["p-2","lo')
    assert withdrawals(folder) == (Withdrawal("p-1"),)
    assert withdraw(folder, "p-3").code == 0
    assert path.read_bytes() == whole + b'["p-3","",null,false]\n'


@pytest.mark.parametrize("line", ["nonsense", '["p-1"', '{"place":"p-1"}', '["p-1","",null,1]'])
def test_a_malformed_file_is_not_guessed_at(line: str, folder: Path) -> None:
    (folder / WITHDRAWALS).write_text(f"{line}\n")
    with pytest.raises(UsageError, match="what was withdrawn is not known"):
        withdrawals(folder)
    assert "what was withdrawn is not known" in complaint(withdraw(folder, "p-2"))


@pytest.mark.parametrize("content", ["nonsense", '{"spares":[]}', "[1]", '["p-6"'])
def test_a_malformed_list_of_spares(content: str, folder: Path) -> None:
    (folder / "spares.json").write_text(content)
    with pytest.raises(UsageError, match=r"spares\.json: "):
        unused_spares(folder)
    assert "spares.json: " in complaint(withdraw(folder, "p-2"))


def test_two_who_withdraw_at_once_wait_for_each_other(folder: Path) -> None:
    withdraw(folder, "p-1")
    descriptor = os.open(folder / WITHDRAWALS, os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    second = threading.Thread(target=withdraw, args=(folder, "p-2"))
    second.start()
    second.join(0.3)
    waited = second.is_alive() and len(withdrawals(folder)) == 1
    os.close(descriptor)
    second.join(30)
    assert waited
    assert [each.place for each in withdrawals(folder)] == ["p-1", "p-2"]


def test_a_place_is_withdrawn_once_more_only_for_another_spare_one(folder: Path) -> None:
    assert withdraw(folder, "p-1", "--instead", "p-6").code == 0
    assert "'p-1' was withdrawn before" in complaint(withdraw(folder, "p-1", "--instead", "p-7"))
    again = withdraw(folder, "p-1", "--instead", "p-7", "--although-answered")
    assert again.out.endswith("\np-7 is handed out for it\n")
    # The next letter goes out a day later.
    assert withdraw(folder, "p-3").code == 0
    assert withdraw(folder, "p-3", "--instead", "p-8").code == 0
    assert "'p-3' was withdrawn before" in complaint(withdraw(folder, "p-3"))
    lone = withdraw(folder, "p-2", "--although-answered")
    assert complaint(lone) == "--although-answered: expected --instead too"
