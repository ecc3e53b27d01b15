"""Tests run on the data that comes with the package, whatever raw data the environment names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.raw_data import VARIABLE


@pytest.fixture(scope="session", autouse=True)
def without_raw_data() -> Iterator[None]:
    """The environment names no folder: who needs it has ``tests.raw_data.RAW``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(VARIABLE, raising=False)
        yield
