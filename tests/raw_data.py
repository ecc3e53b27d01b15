"""The folder of raw data, which few tests need: those of what reads it, and those of MovieLens."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scenarios.data.raw_files import VARIABLE

_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"

RAW = Path(os.environ.get(VARIABLE) or _BESIDE)
"""What the environment names, else a folder beside this checkout; it need not exist."""


def needs(*names: str) -> pytest.MarkDecorator:
    """Skip a test where some files of ``RAW`` are missing."""
    missing = [name for name in names if not (RAW / name).is_file()]
    return pytest.mark.skipif(
        bool(missing), reason=f"no {', '.join(missing)}: {VARIABLE} names no folder that has them"
    )
