"""Whether a record is the one that was published, in words: the same ones wherever it is said."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from protocol.transcript.verification import Published
from scenarios.report.page.parts import State

PUBLISHED: Mapping[Published, tuple[State, str]] = MappingProxyType(
    {
        "not given": (
            "care",
            "No digest or checkpoint published elsewhere was compared: a file that was rewritten "
            "whole would pass.",
        ),
        "fits": ("good", "It fits the digest or the checkpoint that was published."),
        "begins": (
            "care",
            "It extends the checkpoint that was published, but that is not the last one: what came "
            "after it may have been rewritten.",
        ),
        "differs": ("bad", "It does not fit the digest or the checkpoint that was published."),
    }
)
"""How that came out, and the sentence."""
