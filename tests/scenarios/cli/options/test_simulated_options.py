"""Every option of the commands that simulate and compute changes something."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.cli.options import simulated
from tests.scenarios.cli.options.changes import Call, without_effect
from tests.scenarios.cli.options.inputs import Inputs
from tests.tiers import slow


@pytest.mark.parametrize(
    "base",
    [slow(base) if base.dear else base for base in simulated.CALLS],
    ids=lambda base: base.words,
)
def test_an_option_has_an_effect(base: Call, inputs: Inputs, tmp_path: Path) -> None:
    wrong = without_effect(inputs, base, tmp_path)
    assert not wrong, "\n".join(wrong)
