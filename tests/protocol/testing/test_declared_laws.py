"""Every law that a message declares is found in it: by its arrays, or by ``Variant.drawn``."""

from __future__ import annotations

import numpy as np
import pytest

from protocol.accounting.events import PrivacyEvent, Randomized, single_events
from protocol.attack.declared import drawn_in, log_ratios
from protocol.crypto.randomness import Stream
from protocol.randomizers.keyvalue import ABSENT
from protocol.session.roles import Seen
from protocol.sharing.messages import Partial, Upload
from protocol.simulation.rehearsal import Rehearsal
from protocol.simulation.setting import setting_of
from protocol.surveys.records import Records
from protocol.surveys.survey import Attribute, Survey
from protocol.variants.keyvalue.privkv import (
    KeyReport,
)
from protocol.variants.marginals.variant import (
    InpHT,
)
from protocol.variants.reports.one_report import Request
from tests.every_variant import Example, examples
from tests.protocol.sessions import answers

MASKED = (Upload, Partial)
LAWLESS = ("PrivKV", "PrivKVM")


def is_drawn(event: PrivacyEvent) -> bool:
    parts = single_events(event)
    names = [type(p.randomizer).__name__ for p in parts if isinstance(p, Randomized)]
    return bool(names) and not set(names) & set(LAWLESS)


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_every_law_of_the_projects_own_variants_is_found(example: Example) -> None:
    run = Rehearsal(setting_of(example.variant, example.records, seed=1, parties=6))
    variant = run.charter.variant
    for slot, event in run.events.items():
        message = run.message(run.sent[slot])
        if is_drawn(event) and not isinstance(message, MASKED):
            found = drawn_in(message, event, variant, example.records)
            assert found is not None, message.kind()
            assert {part.event for part, _ in found} == set(single_events(event))
            said = {row for part, _ in found for row in part.respondents.tolist()}
            everybody = set(range(len(run.setting.holdings[slot[0]])))
            if isinstance(message, KeyReport):  # A report that a key is absent has no sign.
                everybody = set(np.flatnonzero(message.symbols != ABSENT).tolist())
            assert said == everybody


def test_bits_are_held_against_the_input_that_they_are_of() -> None:
    """A coefficient's input is a sum of bits, and an attribute of three categories has two."""
    survey = Survey(
        "three",
        (
            Attribute(name="a", categories=("no", "yes")),
            Attribute(name="b", categories=("x", "y", "z")),
        ),
    )
    variant = InpHT(survey=survey, epsilon=1.0, max_records=40)
    records = answers(survey, 40)
    report = variant.answer(records, Request(survey.digest), Stream(bytes(32)))
    read = variant.read(report)
    assert read is not None
    event = variant.report_reveals(read, Seen())
    codes = np.array([0, 1]), np.array([1, 2])
    first, second = variant.encoding.cells(Records(survey, np.stack(codes)))
    keep = variant.plan.randomizer
    expected = [
        keep.log_ratios(np.array([said]), *inputs)[0] if inputs[0] != inputs[1] else 0.0
        for choice, said in zip(read.choices, read.answers, strict=True)
        for inputs in [
            [int(cell & variant.plan.masks[choice]).bit_count() % 2 for cell in (first, second)]
        ]
    ]
    ratios = log_ratios(report, event, variant, codes)
    assert ratios is not None
    assert ratios.tolist() == expected
    assert {-1, 0, 1} == set(np.sign(expected))
