"""The page of links: a card for each, with a QR code that says the link and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
import segno

from protocol import Attribute, PartyId, Survey
from protocol.surveys.texts import Texts
from scenarios.report.page.links import links_page, qr_codes
from scenarios.report.page.page import hashed
from scenarios.surveys.enrolment.linking import Link

SURVEY = Survey(
    "Leaving",
    (Attribute(name="would leave", categories=("no", "yes")),),
    closes="2026-12-15T18:00:00Z",
)
LINKS = [
    Link(PartyId(f"p-{number}"), f"https://a.org/#p-{number}.{'Seed' * 11}.{'Id_-' * 11}", spare)
    for number, spare in ((1, False), (2, False), (3, True))
]
_STEP = re.compile(r"([mMh])(-?[\d.]+)(?: (-?[\d.]+))?")


def worded(*texts: Texts) -> Survey:
    return Survey(SURVEY.title, SURVEY.attributes, texts, SURVEY.closes)


class Read(HTMLParser):
    """The texts of a page and its elements, by name, with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


def modules_of(path: str) -> Iterator[tuple[int, int]]:
    """Row and column of every dark module that a path draws, row by row."""
    x = y = 0.0
    for how, first, second in _STEP.findall(path):
        if how == "h":
            row = int(y - 0.5)
            yield from ((row, column) for column in range(int(x), int(x + float(first))))
            x += float(first)
        elif how == "M":
            x, y = float(first), float(second)
        else:
            x, y = x + float(first), y + float(second)


def test_a_code_is_the_link_at_level_m_with_a_quiet_zone() -> None:
    read = Read(links_page(SURVEY, LINKS, qr_codes()))
    assert len(read.of("svg")) == len(read.of("path")) == len(LINKS)
    for link, svg, path in zip(LINKS, read.of("svg"), read.of("path"), strict=True):
        code = segno.make(link.url, error="m", micro=False, boost_error=False)
        assert code.error == "M"
        size = len(code.matrix) + 2 * 4
        assert svg["viewbox"] == f"0 0 {size} {size}"
        assert path["d"] is not None
        assert {*modules_of(path["d"])} == {
            (row + 4, column + 4)
            for row, line in enumerate(code.matrix)
            for column, dark in enumerate(line)
            if dark
        }


def test_a_page_without_codes_has_the_links() -> None:
    read = Read(links_page(SURVEY, LINKS, None))
    assert read.of("svg") == []
    assert {link.url for link in LINKS} <= {*read.texts}
    said = " ".join(read.texts)
    assert "Open the link on your phone or computer" in said
    assert "Scan" not in said


def test_a_card_says_what_is_asked_by_whom_and_until_when() -> None:
    survey = worded(
        Texts(language="en", title="Do you think of leaving?", asks="The works council"),
        Texts(language="de-CH", title="Gehen?"),
        Texts(language="ar", title="هل تفكر؟"),
        Texts(language="fa", asks="می\u200cپرسیم"),
    )
    read = Read(links_page(survey, LINKS, qr_codes()))
    said = " ".join(" ".join(read.texts).split())
    assert said.count("Do you think of leaving?") == said.count("The works council") == len(LINKS)
    # The last has no words of its own: those of English stand.
    assert said.count("Scan the code with the camera of your phone") == 2 * len(LINKS)
    assert "whoever has it can answer in your place" in said
    assert "Antworten werden bis 2026-12-15 18:00 UTC angenommen." in said
    assert "می\u200cپرسیم" in said
    shown = [(div["lang"], div["dir"]) for div in read.of("div") if "lang" in div]
    assert shown[:4] == [("en", "ltr"), ("de-CH", "ltr"), ("ar", "rtl"), ("fa", "rtl")]
    assert len(shown) == 4 * len(LINKS)
    for name in ("p-1", "p-2", "p-3"):
        assert name in read.texts


def test_names_stand_where_there_are_no_words() -> None:
    read = Read(links_page(SURVEY, LINKS, qr_codes()))
    assert read.texts.count("Leaving") == len(LINKS)


def test_spare_links_stand_apart() -> None:
    texts = Read(links_page(SURVEY, LINKS, None)).texts
    assert texts.index("p-2") < texts.index("Spare links") < texts.index("p-3")
    assert "Spare links" not in Read(links_page(SURVEY, LINKS[:2], None)).texts


def test_whoever_prints_it_is_warned() -> None:
    said = " ".join(Read(links_page(SURVEY, LINKS, None)).texts)
    assert "Whoever has this page, or links.csv beside it, can answer in anybody's place." in said
    assert "delete both files" in said


@pytest.mark.parametrize("hostile", ["<script>x()</script>", '"><img src=x onerror=x()>'])
def test_texts_are_no_markup_and_nothing_is_fetched(hostile: str) -> None:
    survey = worded(Texts(language="en", title=hostile, asks=hostile))
    page = links_page(
        Survey(hostile, survey.attributes, survey.texts, survey.closes), LINKS, qr_codes()
    )
    read = Read(page)
    assert hostile in read.texts
    assert not {tag for tag, _ in read.found} & {"script", "img", "link", "a", "form", "iframe"}
    assert not [name for _, attributes in read.found for name in attributes if name == "style"]
    [style] = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    [policy] = [each["content"] for each in read.of("meta") if "http-equiv" in each]
    assert policy == (
        f"default-src 'none'; style-src {hashed(style)}; base-uri 'none'; form-action 'none'"
    )
    assert "url(" not in style
    assert "@import" not in style
