"""PrivKV's reproductions by messages: one row, one run."""

from __future__ import annotations

import pytest

from scenarios.errors import UsageError
from scenarios.reproductions.privkv.printed_tables import TABLE_4, TABLE_5
from scenarios.running.scenario import Context
from tests.scenarios.reproduced import reproduce


def test_table_2_is_not_run_by_messages() -> None:
    with pytest.raises(UsageError, match=r"privkv-table-2: .*by messages"):
        reproduce("privkv-table-2", Context(by_messages=True))


@pytest.mark.parametrize(("number", "row"), [(4, 4), (5, 4)])
def test_one_row_is_run_by_messages(number: int, row: int) -> None:
    found = reproduce(f"privkv-table-{number}", Context(by_messages=True))
    (only,) = found.rows
    assert found.outcome is not None
    assert found.outcome.counted == 100
    table = TABLE_4 if number == 4 else TABLE_5
    assert isinstance(only.printed, dict)
    assert only.printed == dict(zip(("em", "privkv"), table["Gaussian"][row][:2], strict=True))
    # One run; the errors of 50 keys are a mean of 50 squares.
    assert isinstance(only.measured, dict)
    for method, value in only.measured.items():
        assert 0.3 * only.printed[method] < value < 3 * only.printed[method]


def test_means_of_keys_are_run_by_messages() -> None:
    found = reproduce("privkv-figures", Context(by_messages=True), figure=6)
    assert found.outcome is not None
    assert len(found.rows) == 50
    # The most frequent keys have the nearest means.
    for row in found.rows[-10:]:
        assert isinstance(row.measured, dict)
        assert abs(row.measured["privkv"] - row.measured["true"]) < 0.25
    with pytest.raises(UsageError, match="by messages, expected one of 4, 5, 6"):
        reproduce("privkv-figures", Context(by_messages=True), figure=7)
