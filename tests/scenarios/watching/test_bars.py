"""The line of long work."""

from __future__ import annotations

import pytest

from scenarios.watching.bars import Ongoing


def test_a_bar_of_several_stages_never_goes_back() -> None:
    told: list[tuple[float, float, str]] = []
    ongoing = Ongoing(lambda *said: told.append(said))
    for stage in range(3):
        ongoing.stage(stage, 3)
        for total in (4, 2):  # Each stage may be carried out in several turns.
            for done in range(total + 1):
                ongoing(done, total)
    places = [done for done, *_ in told]
    assert places == sorted(places)
    assert places[-1] == pytest.approx(3)
    assert {total for _, total, _ in told} == {3}
    assert told[-1][2] == "part 3 of 3, 2 of 2 pieces"
