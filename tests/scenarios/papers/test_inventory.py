"""The inventory of the papers: its page, its sentences, its commands and their figures."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from scenarios import find_scenario
from scenarios.cli import COMMANDS
from scenarios.papers.inventory import Item, known_values, measure, page, papers
from tests.scenarios.command import sottovoce

PAGE = Path(__file__).parents[3] / "docs" / "papers.md"
ITEMS = [(paper.key(item), item) for paper in papers() for item in paper.items]
COMMANDED = [(key, item) for key, item in ITEMS if item.command]

EXACT = (
    *("rr-accuracy", "rr-matrices", "rr-figure-1", "rr-adjustment", "theorem-3", "rrba-views"),
    *("rrba-equation-2", "rrba-figure-4", "marginals-sizes", "marginals-transform"),
    *("marginals-errors", "privkv-table-1", "theorem-1", "privkv-table-2"),
)
"""Commands that take no time and draw nothing."""


def run(arguments: Sequence[str]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = sottovoce(*arguments, "--json").json
    return found


def test_the_page_is_what_is_generated() -> None:
    assert PAGE.read_text() == page()


def test_every_item_has_a_command_or_a_reason() -> None:
    assert len({key for key, _ in ITEMS}) == len(ITEMS)
    for key, item in ITEMS:
        assert bool(item.command) != bool(item.why), key
        assert bool(item.command) == bool(item.found), key


@pytest.mark.parametrize(("key", "item"), COMMANDED, ids=[key for key, _ in COMMANDED])
def test_every_sentence_has_figures_of_a_command_that_exists(key: str, item: Item) -> None:
    quoted = set(re.findall(r"\{(\w+)[^}]*\}", item.found))
    assert quoted
    assert quoted == set(item.figures) == set(known_values()[key])
    command, name, *settings = item.small_command()
    assert command in COMMANDS
    pairs = [text.split("=", 1) for text in settings[1::2]]
    find_scenario(name).configure(dict(pairs))


def test_no_figure_is_left_of_an_item_that_is_gone() -> None:
    assert set(known_values()) == {key for key, _ in COMMANDED}


@pytest.mark.parametrize("only", EXACT)
def test_exact_figures_are_those_of_the_page(only: str) -> None:
    found = dict(measure(run, only=only))
    assert found
    for key, figures in found.items():
        assert figures == pytest.approx(known_values()[key], rel=1e-6, abs=1e-9), key


@pytest.mark.slow
@pytest.mark.parametrize(("key", "item"), COMMANDED, ids=[key for key, _ in COMMANDED])
def test_every_command_gives_its_figures(key: str, item: Item) -> None:
    if item.data:
        pytest.skip("needs the MovieLens data")
    result = json.loads(sottovoce(*item.small_command(), "--json").out)
    for name, figure in item.figures.items():
        assert isinstance(figure.of(result), float), (key, name)
