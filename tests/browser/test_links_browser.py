"""The page of links in a real browser: it fits, prints whole cards, and axe finds nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from protocol.surveys.texts import Texts
from scenarios.report.page.links import links_page, qr_codes
from tests.browser.opened import DESK, PHONE, Opened, needs_chromium
from tests.scenarios.report.page.test_links_page import LINKS, worded
from tests.tiers import thinned

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    survey = worded(
        Texts(language="en", title="Do you think of leaving?", asks="The works council"),
        Texts(language="ar", title="هل تفكر في الرحيل؟"),
    )
    path = tmp_path_factory.mktemp("links") / "links.html"
    path.write_text(links_page(survey, LINKS, qr_codes()), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", thinned([DESK, PHONE], 1))
def test_it_fits_and_axe_finds_nothing(tab: Page, file: Path, width: int) -> None:
    from axe_playwright_python.sync_playwright import Axe

    opened = Opened(tab, file, width=width, scheme="dark")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    found = Axe().run(opened.page)
    assert found.violations_count == 0, found.generate_report()
    # Its style sheet is allowed, and nothing is fetched.
    assert opened.complaints == []
    assert opened.asked == [file.as_uri()]
    opened.close()


def test_cards_are_printed_without_the_notice(tab: Page, file: Path) -> None:
    opened = Opened(tab, file, width=DESK)
    opened.page.emulate_media(media="print")
    shown = opened.page.locator(".card:visible")
    assert shown.count() == len(LINKS)
    assert not opened.page.locator(".notice").is_visible()
    box = opened.page.locator(".code svg").first.bounding_box()
    assert box is not None
    # 42 mm at 96 pixels an inch: a module of 53 has 0.8 mm.
    assert box["width"] == pytest.approx(158.7, abs=1)
    assert box["height"] == box["width"]
    opened.close()
