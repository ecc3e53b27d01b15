"""PrivKV's reproductions by messages: one row, one run."""

from __future__ import annotations

import pytest

from protocol.errors import UsageError
from scenarios import Context
from tests.scenarios.reproduced import reproduce
from tests.tiers import thinned


def test_table_2_is_not_run_by_messages() -> None:
    with pytest.raises(UsageError, match=r"privkv-table-2: nothing is sent"):
        reproduce("privkv-table-2", Context(by_messages=True))


@pytest.mark.parametrize("number", thinned([4, 5], 1))
def test_one_row_is_run_by_messages(number: int) -> None:
    found = reproduce(f"privkv-table-{number}", Context(by_messages=True))
    (only,) = found.rows
    assert found.outcome is not None
    assert found.outcome.counted == 100
    assert isinstance(only.printed, dict)
    assert list(only.printed) == ["em", "privkv"]
    # One run; the errors of 50 keys are a mean of 50 squares.
    assert isinstance(only.measured, dict)
    for method, value in only.printed.items():
        assert value / 3 < only.measured[method] < 3 * value


def test_means_of_keys_are_run_by_messages() -> None:
    found = reproduce("privkv-figures", Context(by_messages=True), figure=6)
    assert found.outcome is not None
    assert len(found.rows) == 50
    # The most frequent keys have the nearest means.
    for row in found.rows[-10:]:
        assert isinstance(row.measured, dict)
        assert abs(row.measured["privkv"] - row.measured["true"]) < 0.25
    with pytest.raises(UsageError, match="by messages, expected a figure of a synthetic"):
        reproduce("privkv-figures", Context(by_messages=True), figure=7)
