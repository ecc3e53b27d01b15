"""Where public data may lie beside this checkout; without it, tests that need it are skipped."""

from __future__ import annotations

import os
from pathlib import Path

_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

if "SOTTOVOCE_DATA" not in os.environ and _DATA.is_dir():
    os.environ["SOTTOVOCE_DATA"] = str(_DATA)
