"""``audit --html --replay``: the page shows the steps that a live run has shown."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from protocol import AGGREGATOR, Attribute, Survey
from protocol.audit.audit import audit
from protocol.estimators.inference.intervals import USUAL
from protocol.session.charter import Charter
from protocol.surveys.limits import Held
from protocol.transcript.entries import Entry
from protocol.variants import RRBA, NumericMean, RRIndependent
from scenarios import simulate, town
from scenarios.data.town import TOWN
from scenarios.report.page.page import hashed
from scenarios.report.page.replay import replay
from scenarios.surveys.watching.standing_words import event, figure
from scenarios.surveys.watching.standings import LINES, MOST, Standing, StandingWriter
from scenarios.wording.formatting import NONE, epsilon
from tests.every_variant import NUMBERS, Example, examples
from tests.pages import Page, audited, hostile_survey, independent, replay_page_of, style_of, summed
from tests.protocol.sessions import answers
from tests.recorded.forgeries import Forgery, header_of_file
from tests.recorded.runs import recorded
from tests.scenarios.command import complaint, sottovoce
from tests.tiers import thinned

CHOSEN = [
    example
    for example in examples()
    if example.name
    in {"rr-independent", "rrba", "privkvm", "rr-clusters rr sparse", "secure-sum sparse"}
]


def live(example: Example, path: Path) -> tuple[Standing, ...]:
    """How a run stood at each step, as it went on."""
    followers: list[StandingWriter] = []

    def watch(charter: Charter) -> Callable[[Entry], object]:
        followers.append(StandingWriter(charter))
        return followers[-1].take

    simulate(*example, path=path, watch=watch)
    return followers[-1].standings()


def shown(page: str) -> list[tuple[str, list[str], list[str]]]:
    """Of each step of a page: what happened, the figures on top, and the estimates."""
    said = re.findall(r'<p class="event[^"]*" data-step="\d+"[^>]*><bdi>(.*?)</bdi>', page)
    tops = re.findall(r'<div data-step="\d+".*?</dl>', page, re.DOTALL)
    facts = [re.findall(r'class="figure">(.*?)<', top) for top in tops]
    found: dict[int, list[str]] = {number: [] for number in range(1, len(said) + 1)}
    drawn = r'<g data-step="(\d+)"(?: data-until="(\d+)")?.*?<text[^>]*>(.*?)</text>'
    for first, until, words in re.findall(drawn, page):
        for number in range(int(first), int(until or first) + 1):
            found[number] += re.findall(r"<tspan[^>]*>(.*?)</tspan>", words)
    return [
        (html.unescape(one), each, estimates)
        for one, each, estimates in zip(said, facts, found.values(), strict=True)
    ]


def test_there_are_all_that_are_to_be_held() -> None:
    assert len({example.variant.name for example in CHOSEN}) == 5


@pytest.mark.parametrize("example", thinned(CHOSEN, 1), ids=lambda example: example.name)
def test_the_page_shows_what_was_shown_live(example: Example, tmp_path: Path) -> None:
    path, file = tmp_path / "transcript.svt.zst", tmp_path / "page.html"
    standings = live(example, path)
    said = sottovoce("audit", path, "--html", file, "--replay")
    assert said.code == 0, said.err
    steps = shown(file.read_text(encoding="utf-8"))
    assert len(steps) == len(standings)
    for (says, facts, estimates), standing in zip(steps, standings, strict=True):
        assert says.endswith(f": {event(standing)}.")
        assert says.startswith(f"Round {standing.round}, after {standing.at / 1e6:.1f} s: ")
        assert facts[:2] == [f"{standing.contributed:,}", f"{standing.gone:,}"]
        spent = "∞" if standing.sums and not standing.epsilon else epsilon(standing.epsilon)
        assert facts[2] == spent
        assert facts[3] == (NONE if standing.respondents is None else f"{standing.respondents:,}")
        expected = [figure(line) for line in standing.lines] or [NONE] * len(standings[-1].lines)
        assert estimates == expected


@pytest.mark.slow
def test_the_page_is_its_owners_alone_and_another_one_may_replace_it(tmp_path: Path) -> None:
    path, file = tmp_path / "transcript.svt.zst", tmp_path / "page.html"
    live(CHOSEN[0], path)
    audit = ("audit", path, "--html", file)
    for options, mode in (((), 0o644), (("--replay",), 0o600), (("--replay",), 0o600), ((), 0o644)):
        said = sottovoce(*audit, *options)
        assert said.code == 0, said.err
        assert file.stat().st_mode & 0o777 == mode
        assert ("which only its owner may read" in said.out) == bool(options)
    file.write_text("secret")
    file.chmod(0o600)
    assert "only its owner" in complaint(sottovoce(*audit, "--replay"))


@pytest.mark.slow
def test_a_page_with_steps_runs_its_own_script_alone() -> None:
    text = replay_page_of(independent())
    page = Page(text)
    [script] = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    [policy] = [attrs["content"] for attrs in page.tags("meta") if "http-equiv" in attrs]
    assert policy.startswith("default-src 'none'; ")
    assert f"; script-src {hashed(script)}; " in policy
    assert page.attributes("src") == []
    assert {value[0] for value in page.attributes("href")} == {"#"}
    assert "runs nothing but what moves its slider" in page.said
    [slider] = [attrs for attrs in page.tags("input")]
    assert (slider["type"], slider["value"], slider["max"]) == ("range", slider["max"], "22")
    # Of all that belongs to a step the last one's is there without a script.
    parts = [attrs for _, attrs in page.elements if "data-step" in attrs]
    there = [attrs for attrs in parts if "hidden" not in attrs]
    assert {attrs.get("data-until", attrs["data-step"]) for attrs in there} == {"22"}
    assert all(("hidden" in attrs) != ("last" in attrs.get("class", "")) for attrs in parts)
    assert re.search(r"@media print \{.*\[data-step\] \{ display: none", style_of(text), re.DOTALL)


def test_of_sums_no_step_has_an_estimate_but_the_last() -> None:
    steps = shown(replay_page_of(summed()))
    assert {figures[3] for _, figures, _ in steps[:-1]} == {NONE}
    assert steps[-1][1][2:] == ["∞", "24"]


@pytest.mark.slow
def test_a_long_survey_has_a_short_page() -> None:
    variant = RRBA(survey=TOWN, p=0.6, mode="sequential", quorum=1)
    content = recorded(variant, town(80, seed=2), signed=True).content
    text = replay_page_of(content)
    assert len(shown(text)) <= MOST + 1
    assert "Of 101 steps, " in Page(text).said
    assert len(text) < 300_000


@pytest.mark.slow
def test_names_of_steps_are_escaped() -> None:
    survey = hostile_survey()
    content = recorded(
        RRIndependent.with_keep(survey, 0.6), answers(survey, 8), signed=True
    ).content
    page = Page(replay_page_of(content))
    assert not page.tags("img")
    assert len(page.tags("script")) == 1
    assert len(shown(replay_page_of(content))) == 10


def test_a_record_that_breaks_off_is_followed_as_far_as_it_goes() -> None:
    forgery = Forgery(independent())
    # Without the closing and all that follows it.
    del forgery.entries[forgery.place(AGGREGATOR, 60) :]
    steps = shown(replay_page_of(forgery.write()))
    assert steps[-1][0].endswith(": the record ends without a result.")
    assert steps[-1][1][3] == steps[-2][1][3] == "60"
    torn = replay_page_of(header_of_file(independent()))
    assert shown(torn) == []
    assert "No step could be read." in Page(torn).said
    assert "<script" not in torn


def ticks(page: str) -> list[str]:
    """The marks of all scales of the steps."""
    return re.findall(r'class="tick middle">(.*?)<', page[page.index('id="replay"') :])


@pytest.mark.slow
def test_a_result_that_does_not_fit_leaves_the_scale_of_means() -> None:
    variant = NumericMean(survey=NUMBERS, epsilon=4.0, mechanism="piecewise")
    content = recorded(variant, answers(NUMBERS, 40), signed=True).content
    forgery = Forgery(content)
    place = max(place for place, entry in enumerate(forgery.entries) if entry[0] == "Sent")
    envelope = forgery.entries[place][2]
    # A result of 41 reports of 40, and then one that cannot be read.
    for body, says, of in (
        (b"\x93\x29" + envelope[5][2:], "the result is published", NONE),
        (envelope[5][:-1], "the published result cannot be read", "40"),
    ):
        envelope[5] = body
        forgery.notes.clear()
        page = replay_page_of(forgery.write())
        assert ticks(page) == ticks(replay_page_of(content))
        assert not any("%" in tick for tick in ticks(page))
        last, facts, _ = shown(page)[-1]
        assert last.endswith(f": {says}.")
        assert facts[3] == of


def test_what_was_signed_for_is_said_where_less_was_delivered() -> None:
    strong, weak = (
        Forgery(recorded(RRIndependent.with_keep(TOWN, keep), town(4, seed=2), signed=True).content)
        for keep in (0.6, 0.01)
    )
    [question, *_] = [e[2][5] for e in weak.entries if e[0] == "Sent" and e[2][4] == "Ask"]
    asked = [e[2] for e in strong.entries if e[0] == "Sent" and e[2][4] == "Ask"]
    assert "signed for" not in replay_page_of(strong.write())
    # After what parties signed for, a question that costs less is delivered too.
    session = asked[0][0]
    more: list[list[object]] = []
    for number, (_, sender, party, *_) in enumerate(asked, len(asked)):
        envelope = [session, sender, party, number, "Ask", question]
        more += [["Sent", 0, envelope], ["Delivered", 0, sender, party, number, False]]
    for entry in strong.entries:
        if entry[0] == "Sent" and entry[2][1] == AGGREGATOR and entry[2][3] >= len(asked):
            entry[2][3] += len(asked)
    after = max(i for i, e in enumerate(strong.entries) if e[0] == "Sent" and e[2][4] == "Ask") + 1
    strong.entries[after:after] = more
    strong.notes.clear()
    text = replay_page_of(strong.write())
    spent = audited(strong.write()).ledger.record_epsilon
    assert f"By what parties signed for, {epsilon(spent)} was spent." in Page(text).said
    assert float(shown(text)[-1][1][2]) < spent / 10
    assert "by what was delivered" in text


def test_a_page_says_how_far_it_was_followed() -> None:
    content = independent()
    found = audited(content)
    writer = StandingWriter(found.charter, held=Held(lambda: 0, free=20_000))
    assert audit(lambda: [content], RRIndependent, folds=[writer]).verdict == "sound"
    section, drawn = replay(writer, USUAL, found.passed)
    assert section.lead.endswith(" as far as the record could be followed.")
    assert "followed up to here only" in str(drawn["steps"])
    assert "without a result" not in str(drawn["steps"])


def test_an_attribute_called_as_the_share_of_keys_is_an_attribute() -> None:
    survey = Survey(
        "odd",
        (
            Attribute(name="Held by", categories=("few", "many")),
            Attribute(name="long", categories=tuple(map(str, range(LINES)))),
        ),
    )
    content = recorded(RRIndependent.with_keep(survey, 0.6), answers(survey, 8)).content
    page = Page(replay_page_of(content))
    assert "1 more attribute" in page.said
    assert "more key" not in page.said


@pytest.mark.slow
def test_the_shown_step_is_in_a_table_for_readers_of_screens() -> None:
    text = replay_page_of(independent())
    part = text[text.index('id="replay"') :]
    tables = re.findall(r"<table>.*?</table>", part[: part.index("</section>")], re.DOTALL)
    cells = [
        html.unescape(cell)
        for table in tables
        for cell in re.findall(r"<td[^>]*>(.*?)</td>", table, re.DOTALL)
    ]
    assert cells == shown(text)[-1][2]
    # What moves the slider is announced once.
    [says] = re.findall(r"<output[^>]*>", text)
    assert 'aria-live="off"' in says
    assert "so do not stop when a figure pleases" in Page(text).said


def test_steps_are_for_a_page(tmp_path: Path) -> None:
    path = tmp_path / "t.svt"
    path.write_bytes(independent())
    assert "--replay: expected --html too" in complaint(sottovoce("audit", path, "--replay"))
