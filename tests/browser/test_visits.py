"""Visits of the page that people answer with, run by node: what is stored, sent and shown."""

from __future__ import annotations

import json
from pathlib import Path

from scenarios.report.page.bundling import bundled, verifier
from scenarios.report.page.collecting import ANSWERING
from tests.verifier.javascript import needs_node, node

PLAYED = Path(__file__).parent / "answering"


@needs_node
def test_one_body_is_made_and_sent_whatever_happens(tmp_path: Path) -> None:
    script = tmp_path / "bundle.js"
    script.write_text(bundled("visit.js", PLAYED, ANSWERING, verifier()), encoding="utf-8")
    found = json.loads(node(PLAYED / "visits.mjs", script))
    assert found["problems"] == []
    assert found["cases"] > 25
