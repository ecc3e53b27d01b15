"""The page on asking people, walked: its commands in order, and people who answer in between."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import chdir
from functools import cached_property
from math import comb
from pathlib import Path
from typing import Protocol

import pytest

from protocol import AGGREGATOR
from protocol.transcript.entries import Departed
from scenarios.running.making import ANSWERED_BY_PAGES
from tests.scenarios.command import ROOT, sottovoce
from tests.scenarios.linked_surveys import in_days, written_links
from tests.scenarios.programs import Program
from tests.scenarios.surveys.operating.test_stopping import free_port
from tests.scenarios.surveys.test_collecting import Place, entries
from tests.scenarios.surveys.test_collecting import people as with_links

PAGE = ROOT / "docs" / "asking-people.md"
UNDERSTANDING = ROOT / "docs" / "understanding.md"

_BLOCK = re.compile(r"(?:<!-- ([^>]*) -->\n)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class People(Protocol):
    """How people answer."""

    def answer(self, place: str, link: str) -> None:
        """Answer through a link."""

    def receipt(self, place: str, link: str) -> tuple[bytes, bytes]:
        """A receipt and its checkpoint's note, once the survey is over."""


class WithoutBrowsers:
    """People whose answers are made by the program's own roles.

    Args:
        linked: the folder with their links.
    """

    def __init__(self, linked: Path) -> None:
        self._linked = linked

    @cached_property
    def _places(self) -> dict[str, Place]:
        [where] = {line.link.partition("#")[0] for line in written_links(self._linked)}
        return with_links(self._linked, where)

    def answer(self, place: str, link: str) -> None:
        assert self._places[place].answer(codes=(2, 1)) == 200

    def receipt(self, place: str, link: str) -> tuple[bytes, bytes]:
        _, receipt, note, _ = self._places[place].state()
        assert receipt is not None
        assert note is not None
        return receipt, note.encode()


def commands(text: str) -> Iterator[str]:
    """The commands that are run here: all but those that wait for others."""
    for mark, language, content in _BLOCK.findall(text):
        if language == "sh" and (not mark or "theirs" in content):
            yield from content.splitlines()


def walk(folder: Path, people: People) -> None:
    """Follow the page in a folder, which is the current one."""
    text = PAGE.read_text(encoding="utf-8").replace("7080", str(free_port()))
    [(name, plan)] = re.findall(r"<!-- file: (\S+) -->\n```toml\n(.*?)```", text, re.DOTALL)
    closes = f"closes = {in_days(2)}"
    (folder / name).write_text(re.sub(r"closes = \S+", closes, plan), encoding="utf-8")
    holding: Program | None = None
    key = ""
    try:
        for line in commands(text):
            words = shlex.split(line.replace("HEX", key))[1:]
            if words[0] == "collect":
                holding = begin(folder, words)
                for place, link, spare in written_links(folder / "linked"):
                    if spare == "no" and place != "p-17":
                        people.answer(place, link)
                continue
            said = sottovoce(*words)
            assert said.code == 0, f"{line}\n{said.out}{said.err}"
            match words[0]:
                case "withdraw":
                    people.answer("p-21", link_of(folder, "p-21"))
                case "check" if "--page" in words:
                    assert said.out.endswith("\nthe page of this release\n")
                case "close":
                    assert holding is not None
                    wait_for(holding, "the survey is over; ")
                    receipt, note = people.receipt("p-01", link_of(folder, "p-01"))
                    (folder / "p-01.receipt").write_bytes(receipt)
                    (folder / "p-01.checkpoint").write_bytes(note)
                case "check":
                    assert said.out.endswith("\nholds\ncounted\n")
                case "links" if "--key" in words:
                    [key] = re.findall("[0-9a-f]{64}", said.out)
    finally:
        if holding is not None:
            holding.kill()
            holding.communicate()


def begin(folder: Path, words: list[str]) -> Program:
    """Collect answers in a program of its own, which runs in another folder."""
    paths = {"linked/aggregator", "result"}
    with chdir(ROOT):
        program = Program(*(folder / word if word in paths else word for word in words))
    wait_for(program, "listening on ")
    return program


def wait_for(program: Program, beginning: str) -> None:
    """Wait until a program says a line."""
    said = ""
    while not (line := program.stderr.readline()).startswith(beginning):
        assert line, said
        said += line


def link_of(folder: Path, place: str) -> str:
    [link] = [line.link for line in written_links(folder / "linked") if line.place == place]
    return link


def check_walked(folder: Path) -> None:
    """Make sure that what the page says came of it."""
    result = json.loads((folder / "result" / "result.json").read_text())
    assert result["estimate"]["respondents"] == 20
    assert len(result["analysis"]["tables"]) == 2
    gone = {each.party: each.reason for each in entries(folder) if isinstance(each, Departed)}
    assert gone.pop("p-17") == "withdrawn: letter came back"
    spare = "withdrawn: a spare place that was not handed out"
    assert gone.pop("p-22") == f"{spare}; the survey was closed before its time"
    assert set(gone.values()) == {"closed its link"}
    assert (folder / "table.csv").read_text().startswith("place,would leave,")
    assert not (folder / "theirs" / AGGREGATOR / "identity.key").exists()
    assert (folder / "organiser" / "charter.json").exists()


def test_the_page_can_be_walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    walk(tmp_path, WithoutBrowsers(tmp_path / "linked"))
    check_walked(tmp_path)


def test_the_page_names_the_variants_that_pages_answer() -> None:
    [line] = [
        line for line in PAGE.read_text().splitlines() if "one that a page can answer" in line
    ]
    named = [name for name in ANSWERED_BY_PAGES if f"`{name}`" in line]
    marginals = [name for name in ANSWERED_BY_PAGES if name.startswith(("inp-", "marg-"))]
    assert sorted(named + marginals) == sorted(ANSWERED_BY_PAGES)
    assert len(marginals) == 6


def test_so_many_have_to_understand() -> None:
    """The numbers beside the questionnaire: the least with a probability below 5 %."""
    text = UNDERSTANDING.read_text(encoding="utf-8")
    rows = [tuple(map(int, row)) for row in re.findall(r"^\| (\d+) \| (\d+) \|$", text, re.M)]
    assert [asked for asked, _ in rows] == [30, 50, 100]
    for asked, understand in rows:
        assert at_least(understand, asked, 0.8) < 0.05 <= at_least(understand - 1, asked, 0.8)
    powers = [round(100 * at_least(understand, asked, 0.9)) for asked, understand in rows[1:]]
    assert f"in {powers[0]} of 100 tries, and 100 people in {powers[1]}." in " ".join(text.split())


def at_least(some: int, asked: int, share: float) -> float:
    """The probability that so many or more understand, if a share of all do."""
    chances = (comb(asked, k) * share**k * (1 - share) ** (asked - k) for k in range(asked + 1))
    return sum(list(chances)[some:])
