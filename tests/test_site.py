"""The documentation as a site: Sphinx builds it without a warning, and it fetches nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FACES = ("protocol", "protocol.variants", "protocol.testing", "scenarios")

_FETCHED = re.compile(r"""<(?:link|script|img|iframe|source)\b[^>]*\b(?:href|src)="(\w+:)?//""")


def built(folder: Path, *options: str) -> str:
    """What Sphinx says of these pages: nothing if all is well."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", *options, "docs", str(folder)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return ended.stderr if ended.returncode else ""


@pytest.mark.slow
def test_the_pages_fit_together(tmp_path: Path) -> None:
    """Every page is in the contents, and every link and anchor leads somewhere."""
    assert built(tmp_path, "-b", "dummy", "-t", "pages") == ""


@pytest.mark.slow
def test_the_site_is_whole_and_fetches_nothing(tmp_path: Path) -> None:
    assert built(tmp_path) == ""
    pages = {
        str(path.relative_to(tmp_path)): path.read_text(encoding="utf-8")
        for path in tmp_path.rglob("*.html")
    }
    assert {"index.html", "try-it.html", "threats/sums.html", "decisions/index.html"} <= set(pages)
    for face in FACES:
        names = import_module(face).__all__
        described = re.findall(rf'id="{re.escape(face)}\.(\w+)"', pages[f"api/{face}.html"])
        assert sorted(described) == sorted(names)
    for name, text in pages.items():
        assert not _FETCHED.search(text), name
