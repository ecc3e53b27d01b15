"""Writes the vectors of pages anew: ``python -m tests.vectors.pages``."""

from __future__ import annotations

from tests.vectors.pages.file import FILE, content

if __name__ == "__main__":
    FILE.write_bytes(content())
