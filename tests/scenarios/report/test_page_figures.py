"""What stands in a page: figures in words, drawings by their shapes, colours by their contrast."""

from __future__ import annotations

import itertools
import math
import re

import pytest

from protocol.audit.coalition.finding import Component
from protocol.messages import PartyId
from scenarios.report.page.coalitions import around, masks
from scenarios.report.page.diagrams import Mark, intervals
from scenarios.wording.formatting import count, cut, epsilon, odds, percent, ratio, size
from tests.pages import Page, independent, page_of, style_of


def named(*names: str) -> tuple[PartyId, ...]:
    return tuple(map(PartyId, names))


def test_only_a_party_alone_whose_figures_follow_is_drawn_as_exposed() -> None:
    groups = [
        Component(named("alone-known"), True),
        Component(named("alone-hidden"), False),
        Component(named("one", "other"), True),
    ]
    read = Page(masks("key", ["aggregator"], groups, [("one", "other")]))
    shapes = [a["class"] for tag, a in read.elements if tag in ("circle", "polygon", "line")]
    assert shapes == ["mask", "exposed", "hidden", "determined", "determined", "insiders"]
    groups[-1] = Component(named(*map(str, range(900))), True)
    read = Page(around("key", ["aggregator"], groups, more=7))
    shapes = [a["class"] for tag, a in read.elements if tag in ("circle", "polygon")]
    assert shapes == ["exposed", "hidden", "determined", "insiders"]
    assert "900 parties" in read.said
    assert "7 more not drawn" in read.said


def test_names_are_cut_only_where_there_is_no_room() -> None:
    name = "Married-spouse-absent"
    exact = Page(intervals("key", "title", [Mark(name, 0.5, 0.5, 0.5, "50.0 %")]))
    assert name in exact.said
    assert "50.0 %" in exact.said
    words = "50.0 [40.0, 60.0]"
    whiskers = Page(intervals("key", "title", [Mark(name * 3, 0.5, 0.4, 0.6, words)]))
    assert "Married-spou" in whiskers.said
    assert name * 2 not in whiskers.said
    assert words in whiskers.said
    [dot] = whiskers.tags("circle")
    [shown] = [a for a in whiskers.tags("text") if "words" in a["class"]]
    # The words end at the right: they begin behind the dot.
    assert float(dot["cx"]) + 3.6 < float(shown["x"]) - len(words) * 11.5 * 0.58


def test_an_interval_is_drawn_where_it_is_and_not_around_the_point() -> None:
    marks = [
        Mark("below", -0.1, 0.0, 0.2, ""),
        Mark("unknown", 0.2, math.nan, math.nan, ""),
        Mark("exact", 0.3, 0.3, 0.3, ""),
    ]
    read = Page(intervals("key", "title", marks))
    [drawn] = [line for line in read.tags("line") if line["class"] == "whisker"]
    first, second, third = (float(dot["cx"]) for dot in read.tags("circle"))
    assert first < float(drawn["x1"]) < second
    assert float(drawn["x2"]) == pytest.approx(second, abs=0.11)
    assert second < third


def test_masks_are_drawn_between_parties_of_long_names() -> None:
    names = [f"a-party-of-a-very-long-name-{i}" for i in range(3)]
    groups = [Component(named(*names), True)]
    read = Page(masks("key", ["aggregator"], groups, [(names[0], names[2])]))
    assert len(read.tags("line")) == 1


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (epsilon(0.0), "0"),
        (epsilon(6.98301), "6.984"),
        (epsilon(6.98399, least=True), "6.983"),
        (epsilon(7.0), "7"),
        (epsilon(sum([0.1] * 3)), "0.3"),
        (epsilon(math.inf), "∞"),
        (odds(math.log(7)), "a factor of 7"),
        (odds(6.983), "a factor of 1,080"),
        (odds(21.8897), "a factor of 3.22 × 10⁹"),  # noqa: RUF001
        (odds(math.inf), "any factor"),
        (size(999), "999 B"),
        (size(1000), "1 kB"),
        (size(23_515_352), "23.5 MB"),
        (percent(-1e-9), "0.0 %"),
        (percent(-0.1234), "−12.3 %"),  # noqa: RUF001
        (percent(math.nan), "–"),  # noqa: RUF001
        (ratio(4.0877), "4.09"),
        (ratio(math.inf), "∞"),
        (ratio(None), ""),
        (count(1, "party", "parties"), "1 party"),
        (count(2, "message"), "2 messages"),
        (cut("abc\u202edef", 20), "abc\\u202edef"),
        (cut("a" * 99, 10), "a" * 9 + "…"),
    ],
)
def test_figures(said: str, expected: str) -> None:
    assert said == expected


@pytest.mark.parametrize("value", [0.1, 1.0 / 3, 2.30258509, 6.98301, 21.8897, 1e-4, 12345.6])
def test_a_bound_is_never_shown_smaller_than_it_is(value: float) -> None:
    assert float(epsilon(value)) >= value * (1 - 1e-9)
    assert float(epsilon(value, least=True)) <= value * (1 + 1e-9)


def test_colours_can_be_told_from_what_they_stand_on() -> None:
    """Contrast as of WCAG 2.2: 4.5 for words, 3 for drawings, in light and in dark."""
    style = style_of(page_of(independent()))
    light, dark = re.findall(r":root \{([^}]*--paper[^}]*--bad[^}]*)\}", style)[:2]
    mixed = r"\.(v\d|less1|more1) \{[^}]*--(accent|less)\) (\d+)%"
    mixes = [(kind, tone, int(share)) for kind, tone, share in re.findall(mixed, style)]
    assert len(mixes) == 7
    for block in (light, dark):
        colour = {
            name: tuple(int(value[i : i + 2], 16) for i in (0, 2, 4))
            for name, value in re.findall(r"--([a-z-]+): #([0-9a-f]{6});", block)
        }
        words = [
            *((ink, on) for ink in ("ink", "soft", "accent") for on in ("paper", "sheet")),
            *((tone, "sheet") for tone in ("good", "bad", "care")),
            # Words in mosaics and triangles.
            *(("sheet", tone) for tone in ("accent", "less")),
            ("ink", "rail"),
            *((ink, on) for ink in ("ink", "accent") for on in ("bad-tint", "care-tint", "tint")),
        ]
        for ink, on in words:
            assert contrast(colour[ink], colour[on]) >= 4.5, (ink, on)
        for mark in ("fill", "accent", "good", "bad", "care", "soft"):
            assert contrast(colour[mark], colour["sheet"]) >= 3, mark
        steps = {}
        for kind, tone, share in mixes:
            pairs = zip(colour[tone], colour["sheet"], strict=True)
            shade = tuple(round((f * share + s * (100 - share)) / 100) for f, s in pairs)
            ink = "sheet" if kind in ("v4", "v5") else "ink"
            assert contrast(colour[ink], shade) >= 4.5, kind
            if kind.startswith("v"):
                steps[kind] = shade
        # Neighbouring steps of the triangle, the blank one first, can be told from each other.
        shades = [colour["sheet"], *(steps[f"v{place}"] for place in range(5)), colour["accent"]]
        for one, other in itertools.pairwise(shades):
            assert contrast(one, other) >= 1.16, (one, other)


def contrast(one: tuple[int, ...], other: tuple[int, ...]) -> float:
    def luminance(colour: tuple[int, ...]) -> float:
        parts = [v / 255 for v in colour]
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
        return sum(w * v for w, v in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)
