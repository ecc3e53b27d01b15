"""Which answers go together, on a page: the triangle, the tree, and the pairs that open."""

from __future__ import annotations

import itertools
import math
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from protocol import (
    Attribute,
    ErrorLaw,
    Estimate,
    ExactTables,
    LinearEstimate,
    Records,
    Survey,
    Table,
)
from protocol.estimators.dependence.glance import glance
from protocol.estimators.inference.intervals import USUAL, Intervals
from protocol.estimators.inference.laws import DeferredLaw, exact_law
from protocol.randomizers.exact import Floats
from protocol.variants import RRClusters, RRIndependent
from scenarios import Context, Finished, Section, find_scenario, town
from scenarios.report.page.association import association, branches, row_percentages
from scenarios.report.page.run import run_page
from scenarios.report.pictures.triangle import triangle_notes
from tests.enumeration import survey_of


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


def law_of(covariance: Floats) -> ErrorLaw:
    """A law with this covariance."""
    return DeferredLaw(lambda: exact_law(0.0), lambda about: covariance)


def test_percentages_out_of_range_have_intervals_in_range() -> None:
    values = np.array([[-0.02, 0.30], [0.34, 0.38]])
    table = Table(
        names=("a", "b"),
        categories=(("0", "1"), ("0", "1")),
        values=values,
        standard_errors=None,
        population_errors=None,
        n=1_000,
        law=law_of(np.diag([1e-5] * 4)),
    )
    low, high = row_percentages(table, USUAL)[0]
    assert (low.value, high.value) == pytest.approx((-1 / 14, 15 / 14))
    assert low.low == 0 < low.high < 0.02
    assert 0.98 < high.low < high.high == 1
    # Of a row with an error no part is exact, and of one without all are.
    edge = replace(
        table, values=np.array([[0.0, 0.3], [0.3, 0.4]]), law=law_of(np.diag([0.0, 1e-5, 0.0, 0.0]))
    )
    first, second = row_percentages(edge, USUAL)
    assert all(math.isnan(figure.low) for figure in first)
    assert all(figure.exact for figure in second)


def test_a_mosaic_has_the_percentages_of_its_table() -> None:
    # Nobody is off the diagonal, so some raw shares are below 0.
    survey = Survey("Edge", tuple(Attribute(name=n, categories=("0", "1", "2", "3")) for n in "ab"))
    column = np.random.default_rng(3).integers(0, 4, 2_000).astype(np.uint8)
    found = estimate_of(Records(survey, np.stack([column] * 2, axis=1)), keep=0.5)
    table = found.table("a", "b")
    assert (table.values < 0).any()
    section, extra = drawn(found)
    shown = row_percentages(table, USUAL)
    for row, figures in enumerate(shown):
        assert f"{row} {100 * figures[row].value:.0f} %" in str(extra["opened"][0].mosaic)
    assert any("projected" in note for note in section.notes)
    exact = drawn(estimate_of(town(4_000, seed=1), keep=0.95))[0]
    assert not any("projected" in note for note in exact.notes)


def test_pairs_that_were_not_looked_at_are_named() -> None:
    survey = survey_of(2, 30, 30)
    codes = np.random.default_rng(4).integers(0, [2, 30, 30], (1_000, 3)).astype(np.uint8)
    codes[:, 2] = codes[:, 1]

    def of(*pairs: str) -> LinearEstimate[ExactTables]:
        records = Records(survey, codes)
        return LinearEstimate(
            ExactTables(survey, {tuple(pair): records.counts(tuple(pair)) for pair in pairs})
        )

    section, _ = drawn(of("ab", "ac", "bc"))
    assert section.lead == "No dependence was found among 2 pairs of attributes looked at."
    assert "Not looked at: 1 pair of more than 400 cells." in section.notes
    section, extra = drawn(of("bc"))
    assert (section.lead, extra) == ("No pair of attributes was looked at.", {})
    assert "Not looked at: 2 pairs without a table." in section.notes
    seen = glance(of("ab", "ac", "bc"))
    assert seen is not None
    assert triangle_notes(seen)[-1] == "not looked at: 1 pair of more than 400 cells"


def test_what_was_not_found_may_have_been_missed() -> None:
    found = estimate_of(town(2_000, seed=1))
    seen = glance(found)
    assert seen is not None
    missed = [pair.least for pair in seen.pairs.values() if pair.judged == "not found"]
    assert missed
    [note] = [note for note in drawn(found)[0].notes if note.startswith("A blank means")]
    [least] = re.findall(r"A V under about (0\.\d\d) may have been missed there", note)
    assert max(missed) <= float(least) <= max(missed) + 0.01


def test_exact_counts_have_no_noise() -> None:
    records = town(4_000, seed=1)
    pairs = list(itertools.combinations(records.survey.names, 2))
    exact = LinearEstimate(
        ExactTables(records.survey, {pair: records.counts(pair) for pair in pairs})
    )
    section, extra = drawn(exact)
    assert section.notes[0].startswith("The counts are exact. ")
    assert not any("noise" in note for note in section.notes)
    assert extra["colours"].endswith(
        "The counts are exact: the errors are those of a sample of a population."
    )
    section, extra = drawn(estimate_of(records))
    assert "knows of the noise" in section.notes[0]
    assert extra["colours"].endswith(
        "than if the two attributes were independent, in standard errors (s.e.)."
    )


def test_attributes_that_were_randomized_together_are_neighbours_in_an_outline() -> None:
    # The first and the last attribute depend on each other.
    survey = Survey("Far", tuple(Attribute(name=n, categories=("0", "1")) for n in "abcd"))
    codes = np.random.default_rng(5).integers(0, 2, (400, 4)).astype(np.uint8)
    codes[:, 3] = codes[:, 0]
    variant = RRClusters(survey=survey, p=0.9, tv=4, td=0.3, dependence="rr")
    found = Context(transport="local").simulate(variant, Records(survey, codes), parties=8).estimate
    seen = glance(found)
    assert seen is not None
    assert (seen.names, seen.clusters) == (("a", "d", "b", "c"), (("a", "d"),))
    extra = drawn(found)[1]
    assert str(extra["triangle"]).count('class="cluster"') == 1
    assert ">a cluster</text>" in str(extra["key"])
    assert "outlined: clusters" in triangle_notes(seen)
    assert "a cluster" not in str(drawn(estimate_of(town(4_000, seed=1)))[1]["key"])


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
