"""The page on asking people, walked with browsers: each person has one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.opened import needs_chromium
from tests.browser.test_collecting_browser import SENT, Visitor, heading, saved
from tests.scenarios.test_asking_people import check_walked, walk

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [needs_chromium, pytest.mark.slow]


class WithBrowsers:
    """People, of whom every other one reads German."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self.visitors: dict[str, Visitor] = {}

    def answer(self, place: str, link: str) -> None:
        german = len(self.visitors) % 2
        visitor = Visitor(self._browser, locale="de-DE" if german else "en-GB")
        self.visitors[place] = visitor
        page = visitor.open(link)
        assert heading(page) == ("Arbeiten bei uns" if german else "Working here")
        for name in ("q0", "q1"):
            page.check(f"input[name={name}][value='1']")
        page.click("button[type=submit]")
        page.wait_for_selector(".sent")
        if place == "p-01":
            assert heading(page) == SENT
            again = Visitor(self._browser).open(link)
            assert heading(again) == "This link was already used"
            again.context.close()

    def receipt(self, place: str, link: str) -> tuple[bytes, bytes]:
        page = self.visitors[place].open(link)
        page.wait_for_selector("[role=status]:has-text('Counted: yes')")
        return saved(page, "Save the receipt"), saved(page, "Save the checkpoint")


@pytest.fixture
def people(browser: Browser) -> Iterator[WithBrowsers]:
    made = WithBrowsers(browser)
    yield made
    for visitor in made.visitors.values():
        visitor.context.close()
        assert visitor.complaints == []


def test_the_page_can_be_walked_with_browsers(
    people: WithBrowsers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    walk(tmp_path, people)
    check_walked(tmp_path)
    assert len(people.visitors) == 20
