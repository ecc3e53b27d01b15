"""What stands in a page: figures in words, drawings by their shapes, colours by their contrast."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace

import pytest

from protocol import AGGREGATOR, Coalition, MarginOfError, PartyId, judge_coalition
from protocol.accounting.accountants import Loss
from protocol.audit.coalition.finding import Component
from protocol.audit.ledger import Account, Ledger
from protocol.estimators.usefulness import Subject
from protocol.transcript.reader import TranscriptReader
from scenarios import Verdict, statement_page
from scenarios.report.page.coalitions import around, masks
from scenarios.report.page.diagrams import Mark, intervals, ruler
from scenarios.report.page.panels import learned_chart
from scenarios.statement.audits.audit import statement
from scenarios.statement.privacy_verdict import on_privacy
from scenarios.statement.usefulness.verdict import on_usefulness
from scenarios.wording.formatting import count, cut, epsilon, odds, percent, ratio, size
from tests.pages import Page, audited, independent, judged_of, page_of, style_of, summed


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


def test_bars_begin_at_zero_and_the_truth_stands_where_it_is() -> None:
    marks = [Mark("above", 0.4, 0.3, 0.5, "", 0.4), Mark("below", -0.1, 0.0, 0.1, "", 0.1)]
    read = Page(intervals("key", "title", marks))
    above, below = read.tags("rect")
    first, second = read.tags("circle")
    [zero] = [line for line in read.tags("line") if line["class"] == "zero"]
    assert float(above["x"]) == pytest.approx(float(zero["x1"]), abs=0.11)
    end = float(above["x"]) + float(above["width"])
    assert end == pytest.approx(float(first["cx"]), abs=0.11)
    assert float(below["x"]) == pytest.approx(float(second["cx"]), abs=0.11)
    truths = [line["x1"] for line in read.tags("line") if line["class"] == "truth"]
    assert truths[0] == first["cx"]
    assert float(zero["x1"]) < float(truths[1]) < float(first["cx"])


@pytest.mark.parametrize(
    ("losses", "shown", "least"),
    [
        ({"a": 0.0, "b": math.log(3)}, ["75 %", "50 %", "80 %"], False),
        ({"a": 20.0, "b": math.inf}, ["no bound", "almost sure", "80 %"], True),
    ],
)
def test_what_was_learned_is_drawn_from_even_to_certain(
    losses: dict[str, float], shown: list[str], least: bool
) -> None:
    party = PartyId("party-1")
    account = Account(party, Loss(math.log(4), losses), ())
    found = learned_chart(Ledger(AGGREGATOR, {party: account}, ("a", "b")), "it", least=least)
    assert ("at least" in str(found["about"])) == least
    assert found["more"] == "The aggregator collects the answers."
    by_party = learned_chart(Ledger("party-2", {party: account}, ("a", "b")), "it", least=least)
    assert by_party["more"] == ""
    read = Page(str(found["picture"]))
    drawn = [text for text in read.texts["text"] if text in shown]
    assert drawn == shown
    widths = [float(rect["width"]) for rect in read.tags("rect")]
    if not least:
        # From 50 to 100 %: three quarters are half of it, even odds nothing.
        assert widths[0] / widths[2] == pytest.approx(0.25 / 0.3, abs=0.01)
        assert widths[1] == 0


def test_without_a_bound_nothing_is_drawn_of_what_was_learned() -> None:
    party = PartyId("party-1")
    account = Account(party, Loss(math.inf, {"a": math.inf}), ())
    assert learned_chart(Ledger(AGGREGATOR, {party: account}, ("a",)), "it", least=False) == {}
    assert learned_chart(Ledger(AGGREGATOR, {}, ("a",)), "it", least=False) == {}


@pytest.mark.parametrize(
    ("margin", "word", "step"),
    [(0.015, "good", 0.5), (0.065, "fair", 1.5), (0.3, "poor", 2.0), (0.9, "none", 3.5)],
)
def test_usefulness_has_its_place_on_its_scale(margin: float, word: str, step: float) -> None:
    [verdict] = on_usefulness([MarginOfError(("a",), 4, margin)])
    assert verdict.word == word
    read = Page(ruler(verdict))
    assert "exact 3 10 a guess how far a share may be off, in percentage points" in read.said
    place = float(read.tags("polygon")[0]["points"].partition(",")[0]) / 340 * 4
    assert place == pytest.approx(step, abs=0.02) if word != "poor" else 2 < place < 3
    # The step of the verdict alone is filled.
    filled = [rect.get("class") for rect in read.tags("rect")]
    assert [bool(kind) for kind in filled] == [i == int(step) for i in range(4)]


@pytest.mark.parametrize(
    ("about", "edges"),
    [
        ("mean", "exact 3 10 a guess how far a mean may be off, in % of its range"),
        ("count", "exact 3 10 a guess how far a count may be off, in % of all respondents"),
    ],
)
def test_the_scale_of_usefulness_has_a_unit(about: Subject, edges: str) -> None:
    [verdict] = on_usefulness([MarginOfError(("a",), 2, 0.02, about)])
    assert edges in Page(ruler(verdict)).said


def test_privacy_is_measured_by_how_sure_others_can_be() -> None:
    verdict = statement(judged_of(independent())).privacy
    read = Page(ruler(verdict))
    edges = "a guess 75 % 97 % 99.997 % certain"
    assert f"{edges} how sure others can be of a person's answers" in read.said
    assert "strong (75 %), moderate (97 %), weak (99.997 %), none (certain)" in read.said


def test_privacy_of_an_exact_sum_is_measured_by_its_parties() -> None:
    judged, reader = audited(summed()), TranscriptReader([summed()])
    alone = judge_coalition(judged.charter, reader, Coalition((AGGREGATOR,)))
    verdict = on_privacy(judged.passed, alone=alone, checks=())
    assert verdict.word == "moderate"
    measured = "11 3 1 over how many parties an exact sum is revealed"
    assert measured in Page(ruler(verdict)).said
    # Where messages about one person tell more, the sum does not decide.
    assert measured not in Page(ruler(replace(verdict, word="weak", epsilon=5.0))).said
    assert measured not in Page(ruler(replace(verdict, word="unknown"))).said


def test_the_key_says_that_answers_were_disguised() -> None:
    disguised = "estimate from answers disguised at random"
    stated = statement(judged_of(independent()))
    assert disguised in Page(statement_page(stated, kind="A test")).said
    known = (("none", math.inf), ("unknown", stated.privacy.epsilon))
    for word, loss in known:
        verdict = replace(stated.privacy, word=word, epsilon=loss)
        other = replace(stated, verdicts=(verdict,))
        assert disguised not in Page(statement_page(other, kind="A test")).said
    assert disguised not in Page(page_of(summed())).said


def test_who_was_counted_is_shown_above_the_charts_if_somebody_was_not() -> None:
    stated = statement(judged_of(independent()))
    [first, *others] = stated.coverage
    counted = f"Counted: {first.says}."
    assert counted not in Page(statement_page(stated, kind="A test")).said
    fewer = replace(first, counted=first.counted - 1)
    missed = replace(stated, coverage=(fewer, *others))
    assert f"Counted: {fewer.says}." in Page(statement_page(missed, kind="A test")).said


def test_usefulness_that_is_not_known_has_no_place() -> None:
    [verdict] = on_usefulness([MarginOfError(("a",), 4, math.nan)])
    read = Page(ruler(verdict))
    assert read.tags("polygon") == []
    assert "The verdict: unknown." in read.said


@pytest.mark.parametrize(
    ("word", "steps"),
    [
        ("sound", "sound undecided broken"),
        ("unfinished", "sound unfinished broken"),
        ("broken", "sound undecided broken"),
    ],
)
def test_the_record_has_its_place_too(word: str, steps: str) -> None:
    verdict = Verdict(about="Record", word=word, state="note", says="So.")
    read = Page(ruler(verdict))
    assert (
        " ".join(read.texts["text"]) == f"{steps} whether the record of all messages can be trusted"
    )
    [here] = [i for i, rect in enumerate(read.tags("rect")) if rect.get("class")]
    assert steps.split()[here] == word
    assert ruler(Verdict(about="Speed", word="sound", state="note", says="So.")) == ""


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
        for mark in ("fill", "accent", "less", "good", "bad", "care", "soft"):
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
