"""Pages in a real browser, Chromium, which pip does not install."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHROMIUM = shutil.which("chromium")
PHONE, DESK = 360, 1280
OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium on this machine: apt-get install chromium"
)


class Opened:
    """A file in a tab, with all that it complained of or asked for.

    A tab for each test would cost as much as most of the tests.
    """

    def __init__(self, tab: Page, file: Path, *, width: int, scheme: Any = "light") -> None:
        tab.set_viewport_size({"width": width, "height": 800})
        tab.emulate_media(media="null", color_scheme=scheme, reduced_motion="reduce")
        self.page = tab
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self._listeners: dict[Any, Callable[[Any], None]] = {
            "console": lambda message: self.complaints.append(message.text),
            "pageerror": lambda error: self.complaints.append(str(error)),
            "request": lambda request: self.asked.append(request.url),
        }
        for event, listener in self._listeners.items():
            tab.on(event, listener)
        tab.goto(file.as_uri())

    def unfold(self) -> None:
        self.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")

    def close(self) -> None:
        for event, listener in self._listeners.items():
            self.page.remove_listener(event, listener)
