"""The words of built-in variants are pinned: a change of the kernel alone changes no byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios import simulate
from tests.every_variant import Example, examples
from tests.tiers import thinned

GOLDEN = Path(__file__).parents[2] / "golden" / "digests.txt"
PINNED = GOLDEN.read_text(encoding="utf-8").splitlines()
"""Of each example its name, canonical digest, the first octets of its session, and epsilon."""


def test_every_example_is_pinned() -> None:
    assert [line.rsplit(" ", 3)[0] for line in PINNED] == [each.name for each in examples()]


@pytest.mark.parametrize(
    ("example", "pinned"), thinned(zip(examples(), PINNED, strict=True), 12), ids=str
)
def test_a_variant_says_what_it_said(example: Example, pinned: str) -> None:
    run = simulate(example.variant, example.records, parties=6)
    said = (example.name, run.digest.hex(), run.charter.session.hex()[:16])
    assert f"{' '.join(said)} {run.ledger.record_epsilon}" == pinned
