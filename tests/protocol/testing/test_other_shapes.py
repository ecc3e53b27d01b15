"""Protocols of other shapes: they keep their word."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.testing import check_under_faults, check_variant, sealed
from scenarios import EXECUTORS
from tests.protocol.other_shapes import example, records, shapes
from tests.tiers import slow, thinned

NEAR: dict[str, Any] = {name: EXECUTORS[name] for name in ("local", "memory")}
shuffler, two_servers, ring = map(example, ("shuffler", "two_servers", "sealed_ring"))


@pytest.mark.parametrize("runs", [10, slow(sealed.RUNS)])
@pytest.mark.parametrize("name", thinned(shapes(), 2))
def test_an_example_keeps_its_contract(
    name: str, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed, "RUNS", runs)
    variant = shapes()[name]
    assert check_variant(variant, records(variant.survey, 6), executors=NEAR) == ()


@pytest.mark.parametrize("name", thinned(shapes(), 3))
def test_an_example_survives_faults(name: str) -> None:
    variant = shapes()[name]
    check_under_faults(variant, records(variant.survey, 6), schedules=6)


@pytest.mark.parametrize("name", thinned(shapes(), 3))
def test_an_example_is_the_same_on_every_transport(name: str) -> None:
    variant = shapes()[name]
    runs = [run(variant, records(variant.survey, 4), seed=3) for run in EXECUTORS.values()]
    assert len({run.digest for run in runs}) == 1


@pytest.mark.parametrize("name", shapes())
def test_an_example_fits_on_a_page(name: str) -> None:
    """In 90 lines, with nothing of its own for sealing, and no role that asks who it is."""
    module = example(name)
    assert module.__file__ is not None
    with open(module.__file__, encoding="utf-8") as file:
        text = file.read()
    assert len(text.splitlines()) <= 90
    assert "cryptography" not in text
    assert "me.id in" not in text
