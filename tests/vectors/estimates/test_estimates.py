"""An audit of each record finds what the vectors say, and no variant is missing."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from protocol.transcript.reader import TranscriptReader
from protocol.variants import BUILT_IN
from tests.vectors.estimates.__main__ import FILE
from tests.vectors.estimates.figures import output_of

CASES = json.loads(FILE.read_text(encoding="utf-8"))["cases"]


def log_in(case: dict[str, Any]) -> bytes:
    return base64.b64decode(case["input"]["log"])


def assert_same(found: Any, expected: Any) -> None:
    """The same values, numbers to 1e-12."""
    match expected:
        case dict():
            assert found.keys() == expected.keys()
            for name, value in expected.items():
                assert_same(found[name], value)
        case list():
            assert len(found) == len(expected)
            for one, other in zip(found, expected, strict=True):
                assert_same(one, other)
        case float():
            assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)
        case _:
            assert found == expected


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_an_audit_finds_these_figures(case: dict[str, Any]) -> None:
    assert_same(output_of(log_in(case)), case["output"])


def test_no_variant_is_missing_and_no_name_is_there_twice() -> None:
    assert {TranscriptReader(log_in(case)).header.variant for case in CASES} == set(BUILT_IN)
    assert len({case["name"] for case in CASES}) == len(CASES)
