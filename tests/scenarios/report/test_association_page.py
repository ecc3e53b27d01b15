"""Which answers go together, on a page: the triangle, the tree, and the pairs that open."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np
import pytest

from protocol.estimators.dependence.glance import glance
from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.words import USUAL, Intervals
from protocol.surveys.records import Records
from protocol.surveys.survey import Attribute, Survey
from protocol.variants import RRIndependent
from scenarios.datasets.town import town
from scenarios.report.page.association import association, branches, row_percentages
from scenarios.report.page.run import run_page
from scenarios.report.statement.parts import Section
from scenarios.running.loading import find_scenario
from scenarios.running.scenario import Context, Finished


def finished(records: Records, keep: float = 0.7, parties: int = 5) -> Finished:
    variant = RRIndependent.with_keep(records.survey, keep)
    outcome = Context(transport="local").simulate(variant, records, parties=parties)
    return Finished(outcome=outcome)


def estimate_of(records: Records, keep: float = 0.7) -> Estimate:
    return finished(records, keep).reported


def drawn(found: Estimate) -> tuple[Section, dict[str, Any]]:
    made = association(found, USUAL)
    assert made is not None
    return made


def classes_of(svg: str) -> list[str]:
    """The classes of a picture's cells."""
    return [one.get("class", "") for one in ElementTree.fromstring(svg).iter("rect")]


def test_the_triangle_shows_what_was_found() -> None:
    found = estimate_of(town(4_000, seed=1))
    section, extra = drawn(found)
    seen = glance(found)
    assert seen is not None
    strongest = seen.dependent[0]
    names = f"{strongest.first} and {strongest.second}"
    assert section.lead == (
        f"{len(seen.dependent)} of 6 pairs depend on each other, most {names} "
        f"(V {strongest.strength:.2f})."
    )
    cells = classes_of(str(extra["triangle"]))
    assert len(cells) == 6
    assert sum(cell == "none" for cell in cells) == 6 - len(seen.dependent)
    assert sum("edge" in cell for cell in cells) == len(seen.edges)
    texts = re.findall(r">([^<>]+)</text>", str(extra["triangle"]))
    assert set(found.survey.names) <= set(texts)
    assert f"{strongest.strength:.2f}".removeprefix("0") in texts


def test_the_tree_names_every_attribute_below_its_parent() -> None:
    found = estimate_of(town(4_000, seed=1))
    seen = glance(found)
    assert seen is not None
    lines = branches(seen)
    assert {frozenset((name, parent)) for name, parent, _ in lines if parent} == {
        frozenset(edge) for edge in seen.edges
    }
    depth = {name: level for name, _, level in lines}
    assert all(depth[name] == depth[parent] + 1 for name, parent, _ in lines if parent)
    tree = str(drawn(found)[1]["tree"])
    for name, parent, _ in lines:
        value = f" ({seen.pair(parent, name).strength:.2f})" if parent else ""
        assert f">{name}{value}</text>" in tree


def test_a_pair_opens_into_row_percentages() -> None:
    found = estimate_of(town(4_000, seed=1))
    extra = drawn(found)[1]
    first = extra["opened"][0]
    grid = first.grid
    seen = glance(found)
    assert seen is not None
    pair = seen.dependent[0]
    table = found.table(pair.first, pair.second)
    assert [row[0] for row in grid.rows] == list(table.categories[0])
    shown = row_percentages(table, USUAL)
    for line, row in zip(grid.rows, shown, strict=True):
        assert sum(figure.value for figure in row) == pytest.approx(1)
        assert str(line[1]).startswith(f"{100 * row[0].value:.1f}"[:4])
    tones = set(classes_of(str(first.mosaic)))
    assert tones & {"more2", "less2"}
    assert tones <= {"less2", "less1", "same", "more1", "more2"}


def test_the_intervals_of_row_percentages_hold_the_truth() -> None:
    inside = total = 0
    for seed in range(12):
        records = town(2_000, seed=seed)
        table = estimate_of(records).table("district", "smokes")
        true = records.distribution(("district", "smokes"))
        parts = true / true.sum(axis=1, keepdims=True)
        for row, truth in zip(row_percentages(table, Intervals(0.8)), parts, strict=True):
            inside += row[0].low <= truth[0] <= row[0].high
            total += 1
    # 36 intervals of 80 %: 22 at least in all but one of a thousand.
    assert 22 <= inside < total


def test_noise_is_not_shown() -> None:
    section, extra = drawn(estimate_of(town(60, seed=1), keep=0.1))
    assert section.lead == "Too noisy to show: of 6 of 6 pairs nothing can be said."
    assert extra == {}


def test_nothing_is_opened_where_nothing_is_found() -> None:
    survey = Survey("Coins", tuple(Attribute(name=n, categories=("0", "1")) for n in "abc"))
    codes = np.random.default_rng(1).integers(0, 2, (3_000, 3)).astype(np.uint8)
    section, extra = drawn(estimate_of(Records(survey, codes)))
    assert section.lead == "No dependence was found among 3 pairs of attributes."
    assert classes_of(str(extra["triangle"])) == ["none"] * 3
    assert (extra["opened"], extra["tree"]) == ([], "")


def test_names_are_no_markup() -> None:
    names = ("<b>", "a & b", '"')
    categories = ("<i>", "&amp;")
    survey = Survey("Hostile", tuple(Attribute(name=n, categories=categories) for n in names))
    column = np.random.default_rng(1).integers(0, 2, 3_000).astype(np.uint8)
    page = run_page("x", finished(Records(survey, np.stack([column] * 3, axis=1))))
    assert "<b>" not in page
    assert "<i>" not in page
    assert "&lt;b&gt;" in page


def test_it_stands_on_the_page_of_a_run() -> None:
    page = run_page("quickstart", finished(town(4_000, seed=1)))
    assert 'id="association"' in page
    assert "Which answers go together" in page
    assert page.count('<details class="pair">') >= 4
    assert len(page.encode()) < 300_000


@pytest.mark.slow
def test_alarm_of_3_000_is_too_noisy_to_show() -> None:
    scenario = find_scenario("rrba-alarm")
    done = scenario.run(scenario.configure({"n": 3_000}), Context(transport="local"))
    assert isinstance(done, Finished)
    page = run_page("rrba-alarm", done)
    assert "Too noisy to show" in page
    assert len(page.encode()) < 300_000
