"""Plans in which editors left what is no mistake. Mistakes are in ``tests/cases/mistakes``."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest

from tests.scenarios.cli.refusing import GOOD
from tests.scenarios.command import sottovoce


@pytest.mark.parametrize(
    "content",
    [
        codecs.BOM_UTF8 + GOOD.encode(),
        GOOD.replace("\n", "\r\n").encode(),
        GOOD.replace("name = ", "\tname\t=\t").encode(),
    ],
)
def test_what_editors_leave_in_a_plan_is_no_mistake(content: bytes, tmp_path: Path) -> None:
    plan = tmp_path / "q.toml"
    plan.write_bytes(content)
    assert sottovoce("preflight", plan).code == 0
