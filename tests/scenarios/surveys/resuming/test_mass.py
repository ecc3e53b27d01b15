"""Many parties over TLS and a killed aggregator: ``mass``, smaller."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from protocol.messages import DONE
from scenarios.running.loopback import allow_connections
from tests.scenarios.command import sottovoce
from tests.scenarios.surveys.resuming.mass import COUNTED, Mass

PARTIES = 200


@pytest.mark.slow
def test_nearly_all_are_counted(tmp_path: Path) -> None:
    allow_connections(8 * PARTIES)
    mass = Mass(tmp_path, tmp_path / "out", PARTIES, killed=0.25)
    mass.prepare()
    found = trio.run(mass.hold)
    assert found["counted"] >= COUNTED * PARTIES
    assert mass.endings[DONE] >= COUNTED * PARTIES
    assert sottovoce("audit", mass.transcript).code == 0
