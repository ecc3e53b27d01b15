"""Pages of audits and runs in a real browser: they fit, keys reach them, and axe finds nothing.

It needs Chromium, which pip does not install: without it, these tests are skipped.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.opened import DESK, PHONE, Opened, needs_chromium
from tests.pages import full_page_of, independent, page_of, replay_page_of, run_page_of, summed
from tests.tiers import thinned

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = needs_chromium
SMALL = 390
"""The width of a phone of today; ``PHONE`` is the narrowest that pages fit."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of each sort."""
    broken = bytearray(independent())
    broken[len(broken) * 2 // 3] ^= 1
    texts = {
        "independent": full_page_of(independent(), 1),
        "summed": full_page_of(summed(), 9),
        "broken": page_of(bytes(broken)),
        "run": run_page_of("quickstart", (("parties", "25"),)),
        "replay": replay_page_of(independent()),
    }
    folder = tmp_path_factory.mktemp("pages")
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


@pytest.mark.parametrize(
    ("name", "scheme", "width"),
    thinned(
        [
            ("independent", "light", DESK),
            ("independent", "dark", PHONE),
            ("summed", "light", PHONE),
            ("summed", "dark", DESK),
            ("broken", "dark", PHONE),
            ("run", "light", PHONE),
            ("run", "dark", DESK),
            ("replay", "light", DESK),
            ("replay", "dark", PHONE),
        ],
        2,
    ),
)
def test_axe_finds_nothing(
    tab: Page, files: dict[str, Path], name: str, scheme: str, width: int
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    opened = Opened(tab, files[name], width=width, scheme=scheme)
    opened.unfold()
    found = Axe().run(opened.page)
    assert found.violations_count == 0, found.generate_report()
    opened.close()


@pytest.mark.parametrize("width", [DESK, SMALL])
@pytest.mark.parametrize("name", thinned(["run", "independent", "summed"], 1))
def test_the_first_screen_has_the_verdicts_and_a_chart(
    tab: Page, files: dict[str, Path], name: str, width: int
) -> None:
    opened = Opened(tab, files[name], width=width)
    page = opened.page
    height = 800 if width == DESK else 844
    page.set_viewport_size({"width": width, "height": height})
    for key in ("record", "privacy", "usefulness"):
        for part in ("h2", ".means", ".ruler"):
            assert bottom(page, f"#{key} {part}") < height * 2 / 3, (key, part)
    assert bottom(page, "main figure svg") < height
    assert page.locator("table:visible").count() == 0
    opened.close()


def test_a_run_is_short_until_it_is_unfolded(tab: Page, files: dict[str, Path]) -> None:
    for width, most in ((DESK, 2_000), (SMALL, 2_800)):
        opened = Opened(tab, files["run"], width=width)
        if width == DESK:
            # Every chart of shares is on the first screen.
            ends = [bottom(opened.page, f".charts .panel:nth-child({i + 1})") for i in range(4)]
            assert max(ends) < 830
        assert height_of(opened.page) < most
        # All charts of the four attributes are there.
        assert opened.page.locator(".charts svg:visible").count() == 4
        opened.unfold()
        assert height_of(opened.page) > 2 * most
        assert opened.page.locator("table:visible").count() == opened.page.locator("table").count()
        opened.close()


def test_what_is_wrong_stands_open_below_the_verdicts(tab: Page, files: dict[str, Path]) -> None:
    opened = Opened(tab, files["broken"], width=DESK)
    page = opened.page
    assert page.locator("#found-c").is_visible()
    assert bottom(page, "#record .means") < 800
    assert page.locator("#findings").evaluate("e => e.getBoundingClientRect().top") < 800
    assert not page.locator("#traffic").is_visible()
    opened.close()
    sound = Opened(tab, files["independent"], width=DESK)
    assert sound.page.locator("main > .fold > details[open]").count() == 0
    sound.close()


def bottom(page: Page, place: str) -> float:
    """The lower edge of the first element of a kind, which is in sight."""
    box = page.locator(place).first.bounding_box()
    assert box is not None, place
    return box["y"] + box["height"]


def height_of(page: Page) -> float:
    height: float = page.evaluate("document.documentElement.scrollHeight")
    return height


def test_axe_finds_what_is_planted(tab: Page, files: dict[str, Path]) -> None:
    from axe_playwright_python.sync_playwright import Axe

    opened = Opened(tab, files["independent"], width=DESK)
    opened.page.evaluate("document.querySelector('.means').style.color = '#bbbbbb'")
    found = Axe().run(opened.page, context=".means")
    assert [violation["id"] for violation in found.response["violations"]] == ["color-contrast"]
    opened.close()


@pytest.mark.parametrize("name", thinned(["replay", "independent", "summed", "broken", "run"], 1))
def test_no_sideways_scrolling_on_a_phone(tab: Page, files: dict[str, Path], name: str) -> None:
    opened = Opened(tab, files[name], width=PHONE)
    opened.unfold()
    widest = opened.page.evaluate(
        """() => {
            const fits = e => e.getBoundingClientRect().right <= innerWidth + 0.5
                || e.closest('.grid[tabindex]') || e.closest('details caption');
            return [document.documentElement.scrollWidth,
                    [...document.body.querySelectorAll('*')].filter(e => !fits(e))
                        .map(e => e.outerHTML.slice(0, 90))];
        }"""
    )
    assert widest == [PHONE, []]
    # What does not fit scrolls by itself, where the keyboard reaches it.
    assert (
        opened.page.evaluate(
            """() => [...document.querySelectorAll('*')].filter(e =>
            e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 && e.tabIndex < 0
            && !e.querySelector('a')
            && ['auto', 'scroll'].includes(getComputedStyle(e).overflowX)).length"""
        )
        == 0
    )
    opened.close()


def test_a_phone_has_a_drawing_of_its_own(tab: Page, files: dict[str, Path]) -> None:
    opened = Opened(tab, files["independent"], width=PHONE)
    opened.unfold()
    drawings = opened.page.locator("svg.sequence")
    assert [drawings.nth(i).is_visible() for i in range(2)] == [False, True]
    opened.page.set_viewport_size({"width": DESK, "height": 800})
    assert [drawings.nth(i).is_visible() for i in range(2)] == [True, False]
    opened.close()


def test_nothing_is_fetched_and_nothing_is_complained_of(tab: Page, files: dict[str, Path]) -> None:
    for file in files.values():
        opened = Opened(tab, file, width=DESK)
        assert opened.complaints == []
        assert opened.asked == [file.as_uri()]
        # The policy holds: what is put there afterwards is not run, and its style not taken.
        opened.page.evaluate(
            """() => {
                const script = document.createElement('script');
                script.textContent = 'window.ran = true';
                document.body.append(script);
                const style = document.createElement('style');
                style.textContent = 'body { display: none }';
                document.head.append(style);
            }"""
        )
        assert opened.page.evaluate("window.ran") is None
        assert opened.page.locator("h1").is_visible()
        opened.close()


def test_everything_is_reached_by_keys(tab: Page, files: dict[str, Path]) -> None:
    opened = Opened(tab, files["independent"], width=DESK)
    page = opened.page
    expected = page.evaluate(
        """() => [...document.querySelectorAll('a, summary, [tabindex="0"]')]
            .filter(e => e.checkVisibility()).length"""
    )
    assert expected > 10
    page.keyboard.press("Tab")
    reached = set()
    for _ in range(expected + 5):
        where = page.evaluate(
            """() => {
                const e = document.activeElement;
                if (e === document.body) return null;
                const style = getComputedStyle(e);
                const all = [...document.querySelectorAll('*')];
                return [all.indexOf(e), style.outlineStyle !== 'none'
                        && parseFloat(style.outlineWidth) >= 2];
            }"""
        )
        if where is None:
            break
        place, outlined = where
        assert outlined
        reached.add(place)
        page.keyboard.press("Tab")
    assert len(reached) == expected
    opened.close()


def test_a_slider_goes_through_the_steps(tab: Page, files: dict[str, Path]) -> None:
    opened = Opened(tab, files["replay"], width=DESK)
    opened.unfold()
    page = opened.page
    slider, says = page.get_by_label("Step", exact=True), page.locator("#step-says")

    def seen() -> tuple[str, str, str, int]:
        event, top = page.locator(".event:visible"), page.locator("#replay .facts:visible")
        estimates = page.locator("#replay g[data-step]:visible")
        assert event.count() == top.count() == 1
        return (
            says.inner_text(),
            event.inner_text(),
            top.locator(".figure").first.inner_text(),
            estimates.count(),
        )

    last = ("22 of 22", "Round 2, after 0.0 s: the result is published.", "60", 4)
    assert seen() == last
    slider.focus()
    page.keyboard.press("Home")
    first = ("1 of 22", "Round 1, after 0.0 s: 3 of 60 that were asked have answered.", "3", 4)
    assert seen() == first
    assert slider.get_attribute("aria-valuetext") == f"1 of 22. {first[1]}"
    # The tables beside the pictures have the figures of the same step.
    figures = page.locator("#replay g[data-step]:visible tspan").all_text_contents()
    assert page.locator("#replay .stepped td").all_text_contents() == figures
    page.keyboard.press("ArrowRight")
    assert seen()[::2] == ("2 of 22", "6")
    # Printed, the page has the last step, whichever is shown.
    page.emulate_media(media="print")
    assert page.locator(".event:visible").inner_text() == last[1]
    assert page.locator("#replay g[data-step]:visible").count() == 4
    assert not slider.is_visible()
    page.emulate_media(media="screen")
    slider.focus()
    page.keyboard.press("End")
    assert seen() == last
    assert opened.complaints == []
    opened.close()


def test_without_scripts_the_last_step_is_there(browser: Browser, files: dict[str, Path]) -> None:
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(files["replay"].as_uri())
    page.locator("summary", has_text="Step by step").click()
    assert page.locator(".event:visible").inner_text().endswith("the result is published.")
    assert page.locator("#replay noscript").inner_text().startswith("Without JavaScript")
    assert not page.get_by_label("Step", exact=True).is_visible()
    page.context.close()


def test_keys_unfold_and_follow(tab: Page, files: dict[str, Path]) -> None:
    opened = Opened(tab, files["independent"], width=DESK)
    page = opened.page
    rounds = page.locator("#rounds-c")
    assert not rounds.is_visible()
    page.locator("summary", has_text="What was said").focus()
    page.keyboard.press("Enter")
    page.locator("#traffic summary").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("#traffic details").first.evaluate("e => e.open")
    assert page.locator("#traffic details table").first.is_visible()
    # A reference unfolds what it leads to.
    assert not page.locator("#ledger").is_visible()
    page.locator("#learned a").focus()
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelector('#ledger').getBoundingClientRect().top < 800")
    assert page.locator("#attributes-c").is_visible()
    opened.close()


def test_light_and_dark_differ(tab: Page, files: dict[str, Path]) -> None:
    papers = []
    for scheme in ("light", "dark"):
        opened = Opened(tab, files["independent"], width=DESK, scheme=scheme)
        papers.append(
            opened.page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g)")
        )
        opened.close()
    light, dark = ([int(part) for part in paper] for paper in papers)
    assert min(light) > 200
    assert max(dark) < 60


def test_prints_all_of_it(tab: Page, files: dict[str, Path]) -> None:
    opened = Opened(tab, files["independent"], width=DESK)
    opened.page.emulate_media(media="print")
    for folded in opened.page.locator("table").all():
        assert (folded.bounding_box() or {"height": 0})["height"] > 20
    assert opened.page.pdf().startswith(b"%PDF-")
    opened.close()
