"""What the calls of commands are given."""

from __future__ import annotations

import pytest

from tests.scenarios.cli.options.inputs import Inputs


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return Inputs(tmp_path_factory.mktemp("inputs"))
