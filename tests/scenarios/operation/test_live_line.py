"""The line that says how a survey goes."""

from __future__ import annotations

import io
from collections.abc import Mapping

import pytest
import trio
from trio.testing import MockClock

from scenarios.operation.live_line import EVERY, line_of, show
from scenarios.operation.progress import Counts, Phase, Progress


def counts(**changes: object) -> Counts:
    values: Mapping[str, object] = {
        "phase": Phase.JOINING,
        "parties": 50,
        "joined": 37,
        "connected": 36,
        "awaiting": "",
        "awaited": 0,
        "answered": 0,
        "declined": 0,
        "closed": {},
        "gone": {},
        "refused": {},
        "messages": 0,
        "entries": 2,
        "durable": 2,
        "writing": 0.0,
        "left": 41.4,
    }
    return Counts(**{**values, **changes})  # type: ignore[arg-type]  # a test's own words


def test_while_parties_join() -> None:
    said = line_of(counts(refused={"too slow": 2, "TLS": 1}))
    assert said == "joining: 37 of 50 joined; connections refused: 1 TLS, 2 too slow; 41 s left"


def test_while_answers_are_awaited() -> None:
    said = line_of(
        counts(
            phase=Phase.ASKING,
            awaiting="Report",
            awaited=49,
            answered=31,
            declined=1,
            gone={"lost": 2, "never came": 13},
        )
    )
    assert said == (
        "asking: 37 of 50 joined; 31 of 49 answered (Report); 1 declined; "
        "gone: 2 lost, 13 never came; 41 s left"
    )


@pytest.mark.parametrize("wide", [30, 200])
async def test_it_is_written_over_and_removed(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, wide: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(wide))
    terminal = io.StringIO()
    with trio.move_on_after(2.2 * EVERY):
        await show(Progress(), terminal)
    first, *lines, last = terminal.getvalue().split("\r\x1b[K")
    assert (first, last) == ("", "")
    assert lines == ["beginning: 0 of 0 joined"[: wide - 1]] * 3


async def test_a_terminal_that_is_gone_ends_nothing(autojump_clock: MockClock) -> None:
    class Gone(io.StringIO):
        def flush(self) -> None:
            raise OSError(5, "Input/output error")

    with trio.move_on_after(2.2 * EVERY) as shown:
        await show(Progress(), Gone())
    assert shown.cancelled_caught
