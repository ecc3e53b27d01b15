"""The vectors' file: reports that a page has to make of given terms, codes and words.

``docs/vectors.md`` says how to read it.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from tests.vectors.pages.making import made
from tests.vectors.pages.settings import settings

FILE = Path(__file__).parent / "pages.json.gz"


def content() -> bytes:
    """The file."""
    kept = [made(case) for case in settings() if case.kept]
    text = json.dumps({"surveys": kept}, separators=(",", ":"))
    return gzip.compress(text.encode(), 9, mtime=0)


def read() -> list[dict[str, Any]]:
    """The surveys of the file, with their reports."""
    surveys: list[dict[str, Any]] = json.loads(gzip.decompress(FILE.read_bytes()))["surveys"]
    return surveys
