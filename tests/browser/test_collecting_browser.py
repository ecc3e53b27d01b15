"""The page that people answer with in a real browser, held by the true gateway."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from protocol import Attribute, Survey, Variant
from protocol.transcript.checkpoints import read_note
from protocol.transcript.receipts import decode_receipt, receipt_problems
from protocol.transcript.verification import verify
from protocol.variants import RRIndependent, RRJoint
from tests.browser.held import ARABIC, VARIANT, Held, without_words
from tests.browser.opened import needs_chromium
from tests.every_variant import examples
from tests.tiers import slow, thinned

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Route

pytestmark = needs_chromium
PHONE = 390
ONE_REPORT = (
    *("rr-independent", "rr-joint", "rr-ind-joint", "spl", "smp", "rs-fd", "numeric-mean"),
    *("inp-rr", "inp-ps", "inp-ht", "marg-rr", "marg-ps", "marg-ht", "privkv"),
)
SENT = "Your report has arrived"


@pytest.fixture
def held() -> Iterator[Held]:
    with Held() as made:
        yield made


class Visitor:
    """A browser of its own, on a phone unless a test says otherwise."""

    def __init__(self, browser: Browser, *, locale: str = "en-GB", **options: Any) -> None:
        viewport = {"width": options.pop("width", PHONE), "height": 800}
        self.context: BrowserContext = browser.new_context(
            viewport=viewport,  # type: ignore[arg-type]
            locale=locale,
            reduced_motion="reduce",
            **options,
        )
        self.complaints: list[str] = []
        self.posts: list[tuple[str, bytes | None]] = []

    def page(self) -> Page:
        """A new tab."""
        made = self.context.new_page()
        made.on("pageerror", lambda error: self.complaints.append(str(error)))
        made.on("console", self._hear)
        made.on("request", self._note)
        return made

    def open(self, link: str) -> Page:
        """A tab that shows a link, once it asks or says something."""
        made = self.page()
        made.goto(link)
        return settled(made)

    @property
    def answers(self) -> list[tuple[str, bytes | None]]:
        """The posts that bring an answer: path and body."""
        return [each for each in self.posts if "/answer/" in each[0]]

    def _hear(self, message: Any) -> None:
        # That the net or the server fails is what tests are about.
        if not message.text.startswith("Failed to load resource"):
            self.complaints.append(message.text)

    def _note(self, request: Any) -> None:
        if request.method == "POST":
            self.posts.append((request.url, request.post_data_buffer))


@pytest.fixture
def visitor(browser: Browser) -> Iterator[Visitor]:
    made = Visitor(browser)
    yield made
    made.context.close()
    assert made.complaints == []


def settled(page: Page) -> Page:
    page.wait_for_selector("form, [role=alert]:not(:empty), .sent, h1:has-text('again')")
    return page


def fill(page: Page, leave: int = 1) -> None:
    page.check(f"input[name=q0][value='{leave}']")
    page.check("input[name=q2]")


def send(page: Page) -> None:
    fill(page)
    page.click("button[type=submit]")
    page.wait_for_selector(f"h1:has-text('{SENT}')")


def heading(page: Page) -> str:
    return page.inner_text("h1")


def stored(page: Page) -> dict[str, str]:
    found: dict[str, str] = json.loads(page.evaluate("JSON.stringify(localStorage)"))
    return found


def saved(page: Page, label: str) -> bytes:
    with page.expect_download() as waiting:
        page.click(f"text={label}")
    return waiting.value.path().read_bytes()


# What is shown before anything is sent.


def test_a_visit_changes_nothing_and_leaves_no_link(held: Held, visitor: Visitor) -> None:
    page = visitor.open(held.link())
    assert page.url == held.address
    assert page.evaluate("history.length") <= 2
    assert stored(page) == {}
    assert held.said.digests == {}
    said = page.inner_text("main")
    for words in (
        "Working here",
        "The works council",
        "Taking part is up to you.\nNobody is told by the management.",
        "council@example.org",
        "15 December 2026",
        "Whatever the reason.",
        "I would rather not say",
        "What bothers you?",
        "Of 20 people's phones, about 11 send the answer as it is, the other 9",
        "a chance of 20 in 100 may, with your report in hand, give it 94 in 100, and no more",
        "If you have answered before, on another device, in another browser",
        "knows whose place it is, and could have answered in it",
    ):
        assert words in said
    assert "\u03b5" not in said
    assert page.locator(".told").first.locator("circle.kept").count() == 11
    assert page.locator(".told").first.locator("circle").count() == 20
    assert page.locator("input[type=checkbox]").count() == 2
    page.click("summary")
    experts = page.inner_text("details")
    assert "4.01397" in experts
    for known in (held.charter.survey_id, held.charter.terms, held.charter.roster.members[0][1]):
        assert known.hex() in experts


@pytest.mark.slow
def test_words_are_never_markup(visitor: Visitor) -> None:
    """A label that looks like HTML is shown as it is."""
    survey = VARIANT.survey
    wording = msgspec.structs.replace(
        survey.texts[0].questions[0], labels=("<b>No</b>", "<img src=x onerror=alert(1)>", "&amp;")
    )
    texts = msgspec.structs.replace(
        survey.texts[0], questions=(wording, *survey.texts[0].questions[1:])
    )
    variant = msgspec.structs.replace(
        VARIANT, survey=msgspec.structs.replace(survey, texts=(texts,))
    )
    with Held(variant) as held:
        page = visitor.open(held.link())
        said = page.inner_text("form")
        assert all(label in said for label in wording.labels)
        assert page.locator("form img, form b").count() == 0


@pytest.mark.slow
def test_a_survey_in_no_language_shows_names(visitor: Visitor) -> None:
    with Held(without_words()) as held:
        page = visitor.open(held.link())
        assert heading(page) == "work"
        assert page.locator("fieldset").count() == 3
        page.click("nav >> text=Deutsch")
        assert "Was Ihr Handy verlässt" in page.inner_text("main")
        for place in range(3):
            page.check(f"input[name=q{place}][value='0']")
        page.click("button[type=submit]")
        page.wait_for_selector("text=Ihr Bericht ist angekommen")


def test_the_language_can_be_changed_and_answers_stay(held: Held, visitor: Visitor) -> None:
    page = visitor.open(held.link())
    fill(page)
    page.click("nav >> text=العربية")
    assert heading(page) == "العمل هنا"
    assert page.evaluate("[document.documentElement.lang, document.documentElement.dir]") == [
        "ar",
        "rtl",
    ]
    assert page.is_checked("input[name=q0][value='1']")
    assert page.is_checked("input[name=q2]")
    assert page.evaluate("document.activeElement.lang") == "ar"


LATIN = re.compile("[A-Za-z]{2,}")
NAMES = {"English", "SHA-256", "SHA", "council@example.org", "party"}


@pytest.mark.slow
def test_no_english_stands_in_the_arabic_page(held: Held, browser: Browser) -> None:
    visitor = Visitor(browser, locale="ar")
    page = visitor.open(held.link())
    said = [page.inner_text("main"), page.title()]
    assert ARABIC.consent in said[0]
    page.click("button[type=submit]")
    said.append(page.inner_text("main"))
    page.check("input[name=q0][value='0']")
    page.click("main button.quiet:not(nav button)")
    said.append(page.inner_text("dialog"))
    page.keyboard.press("Escape")
    page.click("button[type=submit]")
    page.wait_for_selector(".sent")
    said.append(page.inner_text("main"))
    said.append(Visitor(browser, locale="ar").open(held.link()).inner_text("main"))
    said.append(Visitor(browser, locale="ar").open(held.address + "#x").inner_text("main"))
    for text in said:
        rest = re.sub(r"English|SHA-256|council@example\.org|party-1", "", text)
        assert not LATIN.search(rest), rest
    assert page.evaluate("getComputedStyle(document.querySelector('main')).direction") == "rtl"
    visitor.context.close()


# What is sent.


def test_one_report_and_a_receipt_that_holds(held: Held, visitor: Visitor) -> None:
    page = visitor.open(held.link())
    send(page)
    [(path, body)] = visitor.answers
    assert path.endswith(f"/answer/party-1/{held.said.digests[held.party()].hex()}")
    assert body is not None
    page.wait_for_selector("[role=status]:has-text('Counted: not yet')")
    assert (
        "it may have been drawn by lot. Whoever receives it cannot be sure which."
        in page.inner_text("main")
    )
    receipt, note = saved(page, "Save the receipt"), saved(page, "Save the checkpoint")
    assert receipt_problems(decode_receipt(receipt), read_note(note.decode())) == ()
    held.close()
    page.reload()
    page.wait_for_selector("[role=status]:has-text('Counted: yes')")
    receipt, note = saved(page, "Save the receipt"), saved(page, "Save the checkpoint")
    assert receipt_problems(decode_receipt(receipt), read_note(note.decode())) == ()
    assert len(decode_receipt(receipt).counted) == 1
    assert len(visitor.answers) == 1
    assert verify(held.record()).verdict == "sound"


def test_what_is_shown_is_what_was_sent(held: Held, visitor: Visitor) -> None:
    page = visitor.open(held.link())
    send(page)
    [record] = [json.loads(each) for name, each in stored(page).items() if "party-1" in name]
    # The three codes are the last bytes of the report.
    codes = list(bytes.fromhex(record["report"])[-3:])
    leave = ["No", "Yes", "I would rather not say"][codes[0]]
    boxes = [["not ticked", "ticked"][code] for code in codes[1:]]
    assert page.locator(".sent strong").all_inner_texts() == [leave, *boxes]


def test_an_unanswered_question_is_named_and_gets_the_focus(held: Held, visitor: Visitor) -> None:
    page = visitor.open(held.link())
    page.click("button[type=submit]")
    assert "Please answer every question" in page.inner_text("form > [role=alert]")
    assert page.evaluate("document.activeElement.name") == "q0"
    assert visitor.answers == []
    # Boxes that are not ticked are answers.
    page.check("input[name=q0][value='0']")
    page.click("button[type=submit]")
    page.wait_for_selector(".sent")


@pytest.mark.slow
def test_it_works_by_keyboard_alone(held: Held, visitor: Visitor) -> None:
    page = visitor.open(held.link())
    assert page.evaluate("document.activeElement.tagName") == "H1"

    def reach(selector: str) -> None:
        for _ in range(20):
            page.keyboard.press("Tab")
            if page.evaluate("s => document.activeElement.matches(s)", selector):
                return
        raise AssertionError(f"no way to {selector}")

    reach("input[name=q0]")
    page.keyboard.press("Space")
    page.keyboard.press("ArrowDown")
    reach("input[name=q1]")
    page.keyboard.press("Space")
    reach("button[type=submit]")
    page.keyboard.press("Enter")
    page.wait_for_selector(".sent")
    assert page.evaluate("document.activeElement.innerText") == SENT
    reach("main button.quiet:not(nav *)")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.innerText") == "Back"
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    assert page.evaluate("document.activeElement.innerText") == "Forget on this device"


@pytest.mark.slow
def test_a_double_click_and_two_tabs_are_one_body(held: Held, visitor: Visitor) -> None:
    tabs = [visitor.open(held.link()) for _ in range(2)]
    for leave, page in enumerate(tabs):
        fill(page, leave)
    for page in tabs:
        page.click("button[type=submit]", click_count=2, no_wait_after=True)
    for page in tabs:
        page.wait_for_selector(".sent")
    assert len({body for _, body in visitor.answers}) == 1
    assert len(visitor.answers) <= 2


def test_true_answers_are_stored_nowhere(held: Held, visitor: Visitor) -> None:
    page = visitor.open(held.link())
    fill(page)
    page.click("button[type=submit]")
    page.wait_for_selector(".sent")
    fields = {"attempt", "declined", "body", "report", "drawn", "receipt", "note", "problems"}
    [record] = [json.loads(each) for name, each in stored(page).items() if "party-1" in name]
    assert set(record) == fields
    assert len(stored(page)) == 2
    page.go_back()
    page.goto(held.address)
    page.wait_for_selector(".sent")
    assert page.locator("form").count() == 0


def failing(*fates: Callable[[Route], object]) -> Callable[[Route], object]:
    """Give the first requests their fates; the rest pass."""
    left = list(fates)
    return lambda route: left.pop(0)(route) if left else route.continue_()


def lost(route: Route) -> None:
    route.fetch()
    route.abort()


@pytest.mark.slow
def test_a_lost_reply_brings_the_very_same_again(held: Held, visitor: Visitor) -> None:
    page = visitor.open(held.link())
    page.route("**/answer/**", failing(lost, lambda route: route.fulfill(status=503)))
    send(page)
    assert len(visitor.answers) == 3
    assert len({body for _, body in visitor.answers}) == 1


@pytest.mark.slow
def test_offline_it_says_so_and_sends_once_the_net_is_back(held: Held, visitor: Visitor) -> None:
    page = visitor.open(held.link())
    visitor.context.set_offline(True)
    fill(page)
    page.click("button[type=submit]")
    page.wait_for_selector("[role=status]:has-text('There is no network.')")
    assert "stored on this device" in page.inner_text("[role=status]")
    assert heading(page) == "Sending"
    visitor.context.set_offline(False)
    page.wait_for_selector(".sent")
    assert len({body for _, body in visitor.answers}) == 1


@pytest.mark.slow
def test_a_tab_that_is_closed_while_it_sends_goes_on_in_the_next(
    held: Held, visitor: Visitor
) -> None:
    page = visitor.open(held.link())
    page.route("**/answer/**", lambda route: route.abort())
    fill(page)
    page.click("button[type=submit]")
    page.wait_for_selector("[role=status]:has-text('stored on this device')")
    page.close()
    visitor.open(held.link()).wait_for_selector(".sent")
    assert len({body for _, body in visitor.answers}) == 1


def test_without_locks_the_page_still_sends(held: Held, visitor: Visitor) -> None:
    page = visitor.page()
    page.add_init_script("Object.defineProperty(navigator, 'locks', { value: undefined })")
    page.goto(held.link())
    send(settled(page))
    assert not [name for name in stored(page) if name.endswith(" tab")]


def decline(page: Page) -> None:
    page.click("text=I do not want to answer")
    page.click("dialog >> button:text-is('Do not answer')")
    page.wait_for_selector("h1:has-text('You have not answered')")


def test_declining(held: Held, visitor: Visitor) -> None:
    page = visitor.open(held.link())
    page.click("text=I do not want to answer")
    page.click("dialog >> button:text-is('Back')")
    assert visitor.answers == []
    decline(page)
    assert "None of your answers was sent" in page.inner_text("main")
    assert held.party() in held.said.digests


# Elsewhere, too late, altered.


def test_cleared_storage_and_another_device(held: Held, visitor: Visitor) -> None:
    page = visitor.open(held.link())
    send(page)
    page.evaluate("localStorage.clear()")
    page = visitor.open(held.link())
    assert heading(page) == "This link was already used"
    assert page.locator("form").count() == 0
    assert len(visitor.answers) == 1


@pytest.mark.slow
def test_somebody_was_faster(held: Held, browser: Browser, visitor: Visitor) -> None:
    page, other = visitor.open(held.link()), Visitor(browser)
    decline(other.open(held.link()))
    fill(page)
    page.click("button[type=submit]")
    page.wait_for_selector("h1:has-text('This link was already used')")
    assert "in other words than yours" in page.inner_text("[role=alert]")
    assert page.locator(".sent").count() == 0
    other.context.close()


@pytest.mark.slow
def test_closed_before_the_answer_came(held: Held, visitor: Visitor) -> None:
    page = visitor.open(held.link())
    held.close()
    fill(page)
    page.click("button[type=submit]")
    page.wait_for_selector("h1:has-text('This link is closed')")
    assert "What you sent is not counted" in page.inner_text("[role=alert]")
    assert page.locator(".sent").count() == 0
    assert "closed" in heading(visitor.open(held.link(2)))


@pytest.mark.parametrize("path", [slow("/terms"), "/place/party-1"])
def test_a_changed_letter_is_refused(held: Held, visitor: Visitor, path: str) -> None:
    def change(route: Route) -> None:
        body = bytearray(route.fetch().body())
        at = body.index(b"leaving") if path == "/terms" else len(body) - 1
        body[at] ^= 1
        route.fulfill(body=bytes(body))

    page = visitor.page()
    page.route(f"**{path}", change)
    page.goto(held.link())
    settled(page)
    assert heading(page) == "This page cannot go on"
    assert "Nothing was sent." in page.inner_text("[role=alert]")
    assert page.locator("form").count() == 0
    assert visitor.posts == []


def test_a_receipt_that_does_not_hold_is_evidence(held: Held, visitor: Visitor) -> None:
    def change(route: Route) -> None:
        body = bytearray(route.fetch().body())
        body[40] ^= 1
        route.fulfill(body=bytes(body))

    page = visitor.open(held.link())
    page.route("**/answer/**", change)
    fill(page)
    page.click("button[type=submit]")
    page.wait_for_selector("h1:has-text('The receipt does not hold')")
    assert page.locator("#page li").count() > 0
    receipt, note = saved(page, "Save the receipt"), saved(page, "Save the checkpoint")
    assert receipt_problems(decode_receipt(receipt), read_note(note.decode()))
    page.reload()
    page.wait_for_selector("h1:has-text('The receipt does not hold')")
    assert len(visitor.answers) == 1


@pytest.mark.parametrize("fragment", [slow(""), slow("#"), slow("#p-1.x.y"), "#party-9.{seed}"])
def test_links_that_are_none(held: Held, visitor: Visitor, fragment: str) -> None:
    seed = held.link().partition(".")[2].partition(".")[2]
    page = visitor.open(held.address + fragment.format(seed=seed))
    assert "This is not a whole link" in page.inner_text("[role=alert]")
    assert visitor.posts == []


@pytest.mark.slow
def test_another_link_in_the_same_tab(held: Held, visitor: Visitor) -> None:
    page = visitor.open(held.link(1))
    send(page)
    page.evaluate("link => { location.hash = link }", held.link(2).partition("#")[2])
    page.wait_for_selector("form")
    assert page.url == held.address
    assert "party-2" in page.inner_text("form")
    assert "You may have sent a report before" in page.inner_text("form")
    page.click("text=I do not want to answer")
    page.evaluate("document.querySelector('[name=q0]').click()")
    page.evaluate("link => { location.hash = link }", held.link(3).partition("#")[2])
    page.wait_for_selector("form:has-text('party-3')")
    assert page.locator("dialog").count() == 0
    assert page.locator("input:checked").count() == 0


@pytest.mark.slow
def test_no_answer_stays_on_a_page_that_was_left(held: Held, visitor: Visitor) -> None:
    page = visitor.open(held.link())
    fill(page)
    page.evaluate("dispatchEvent(new Event('pagehide'))")
    assert page.locator("input:checked").count() == 0
    page.click("button[type=submit]")
    assert "Please answer every question" in page.inner_text("form [role=alert]")
    assert visitor.answers == []


# Later attempts.


@pytest.mark.slow
def test_a_later_attempt_offers_the_same_report(browser: Browser) -> None:
    visitor = Visitor(browser)
    with Held() as first:
        page = visitor.open(first.link())
        send(page)
        kept = stored(page)
        link = first.link().partition("#")[2]
    with Held(attempt=2) as second:
        page = visitor.page()
        page.goto(second.address)
        page.evaluate("kept => Object.assign(localStorage, kept)", kept)
        page = visitor.open(f"{second.address}#{link}")
        assert heading(page) == "The survey was begun again"
        assert "it tells nothing new" in page.inner_text("main")
        assert len(visitor.answers) == 1
        page.click("text=Send the earlier report again")
        page.wait_for_selector(".sent")
        reports = {
            json.loads(each[name])["report"]
            for each in (kept, stored(page))
            for name in each
            if "party-1" in name
        }
        assert len(reports) == 1
        assert len(json.loads(stored(page)["sottovoce purse"])) == 1
        assert len({body for _, body in visitor.answers}) == 2
    visitor.context.close()


def test_a_later_attempt_without_a_report_says_what_it_may_cost(browser: Browser) -> None:
    visitor = Visitor(browser)
    with Held(attempt=2) as held:
        page = visitor.open(held.link())
        assert "You may have sent a report before" in page.inner_text("form")
        assert page.locator(".worst").all_inner_texts()[1].endswith("give it more than 99 in 100.")
        send(page)
        page.click("summary")
        page.click("summary >> text=Reports from this browser")
        assert "4.014" in page.inner_text("details details li")
    visitor.context.close()


def test_forgetting(held: Held, visitor: Visitor) -> None:
    page = visitor.open(held.link())
    send(page)
    page.click("text=Forget on this device")
    assert "the receipt as well" in page.inner_text("dialog")
    page.click("dialog >> button:text-is('Delete')")
    page.wait_for_selector("h1:has-text('Forgotten')")
    assert "may still be in the browser's history" in page.inner_text("main")
    assert (stored(page), page.evaluate("sessionStorage.length")) == ({}, 0)
    page.reload()
    assert "not a whole link" in settled(page).inner_text("main")


# For everybody.


def views(held: Held, visitor: Visitor) -> Iterator[Page]:
    """The form, with and without an error, what was sent, an error, and the survey closed."""
    page = visitor.open(held.link())
    yield page
    page.click("button[type=submit]")
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    yield page
    page.click("form button.quiet")
    yield page
    page.keyboard.press("Escape")
    fill(page)
    page.click("button[type=submit]")
    page.wait_for_selector(".sent")
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    yield page
    yield visitor.open(held.address + "#x")
    held.close()
    yield visitor.open(held.link(2))


@pytest.mark.parametrize(
    ("scheme", "locale"), [("light", "ar"), slow("dark", "en-GB"), slow("light", "en-GB")]
)
def test_axe_finds_nothing_and_nothing_overflows(
    held: Held, browser: Browser, scheme: str, locale: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    visitor = Visitor(browser, locale=locale, color_scheme=scheme)
    for page in views(held, visitor):
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE
    visitor.context.close()


@pytest.mark.slow
def test_text_at_twice_its_size(held: Held, browser: Browser) -> None:
    visitor = Visitor(browser)
    for page in views(held, visitor):
        page.evaluate("document.documentElement.style.fontSize = '200%'")
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE
        cut = page.evaluate(
            """() => [...document.querySelectorAll('main *')].filter(
                (e) => e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 &&
                    getComputedStyle(e).overflow !== 'visible').length"""
        )
        assert cut == 0
    visitor.context.close()


# Every variant that a page can answer.

ANSWERED = [example.variant for example in examples() if example.variant.name in ONE_REPORT]
MANY = Survey("ages", (Attribute(name="age", categories=tuple(map(str, range(14, 40)))),))


@pytest.mark.parametrize(
    "variant",
    thinned([pytest.param(each, id=f"{i} {each.name}") for i, each in enumerate(ANSWERED)], 2),
)
def test_surveys_of_all_variants_are_answered(visitor: Visitor, variant: Variant) -> None:
    with Held(variant) as held:
        page = visitor.open(held.link())
        for place in range(len(variant.survey.names)):
            page.check(f"input[name=q{place}][value='1']")
        assert page.locator(".told circle").count() % 20 == 0
        assert page.locator(".told circle.kept").count() > 0
        said = page.inner_text("form")
        assert ("only one of the questions" in said) == (variant.name in ("smp", "privkv"))
        assert ("only a part of the questions" in said) == variant.name.startswith("marg-")
        assert ("send the answer as it is" in said) == variant.name.startswith("rr-")
        page.click("button[type=submit]")
        page.wait_for_selector(".sent li")
        assert "undefined" not in page.inner_text("main")
        assert "NaN" not in page.inner_text("main")
        held.close()
        page.reload()
        page.wait_for_selector("[role=status]:has-text('Counted: yes')")


@pytest.mark.slow
def test_many_categories_are_a_list(visitor: Visitor) -> None:
    with Held(RRIndependent.with_keep(MANY, 0.99)) as held:
        page = visitor.open(held.link())
        assert page.locator("input").count() == 0
        assert "All or nearly all phones" in page.inner_text("form")
        page.click("button[type=submit]")
        assert page.evaluate("document.activeElement.name") == "q0"
        page.select_option("select", "3")
        page.click("button[type=submit]")
        page.wait_for_selector(".sent")


def test_questions_that_are_reported_together(visitor: Visitor) -> None:
    with Held(RRJoint.with_keep(MANY, 0.5)) as held:
        assert visitor.open(held.link()).locator(".told svg").count() == 1
    with Held(RRJoint.with_keep(VARIANT.survey, 0.01)) as held:
        page = visitor.open(held.link())
        assert page.locator(".told svg").count() == 1
        assert page.locator("circle.kept").count() == 1
        assert "For these questions together: Of 20" in page.inner_text("section .told")
