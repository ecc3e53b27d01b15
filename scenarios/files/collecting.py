"""Garbage collection while many parties live, or their record is judged."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Generator[None]:
    """Pause garbage collection, which would search the tasks or messages of every party.

    Such values have hardly any cycles, so reference counting still frees them at once.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
